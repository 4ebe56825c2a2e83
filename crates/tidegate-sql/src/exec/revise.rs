//! Rows whose fate is decided outside of SQL: compare and set, insert or change, in one step that no other writer comes into.

use std::sync::Arc;

use tidegate_rows::{Param, Value};

use super::{
    bind::Constants,
    write::{Res, Writer, Written},
};
use crate::{
    errors,
    parse::program::{Event, Timing},
    translate::{
        dml::{InsertPlan, UpdatePlan},
        params::{Made, Params},
        revise::Revision,
    },
    value::{Datum, out::Out},
};

impl Writer<'_> {
    /// Has somebody decide about the rows that an UPDATE finds, or whether to make one.
    ///
    /// # Errors
    /// Those of INSERT, UPDATE and DELETE; 1136 for another number of values than there are columns.
    pub(super) fn revise(&mut self, plan: &UpdatePlan, insert: &InsertPlan) -> Res<Written> {
        let (Params::Made(Made { revise: Some(decides), .. }), [target]) = (self.constants.params, &plan.targets[..])
        else {
            return Err(errors::internal("nobody decides about the rows"));
        };
        let rows = self.collect(&plan.feed)?;
        let mut written = Written { touched: vec![Arc::clone(&target.to.table.state)], ..Written::default() };
        let mut is_absent = true;
        for cells in rows.iter() {
            let Datum::Int(rowid) = cells[target.rowid] else { continue };
            is_absent = false;
            self.lock_row(&target.to.table, rowid)?;
            match decides.revise(Some(&values_of(&plan.feed.outs[1..], &cells[1..]))) {
                Revision::Keep => continue,
                Revision::Delete => self.delete_row(&target.to, rowid)?,
                Revision::Put(values) => {
                    let mut writer = self.with(&values, insert)?;
                    writer.nulls_later = target.to.fires(Event::Update, Timing::Before);
                    let changes = writer.changes_of(plan, target, cells, 1)?;
                    let old = |column: usize| {
                        let known = target.assignments.iter().find(|(known, ..)| *known == column);
                        known.map_or(&Datum::Null, |(_, old, _)| &cells[*old])
                    };
                    writer.write_changes(&target.to, rowid, changes, old, false)?;
                    written.touched.append(&mut writer.touched);
                }
            }
            written.affected += 1;
        }
        if is_absent && let Revision::Put(values) = decides.revise(None) {
            let mut writer = self.with(&values, insert)?;
            let mut written = writer.insert(insert)?;
            written.touched.append(&mut writer.touched);
            return Ok(written);
        }
        if written.affected == 0 {
            written.touched.clear();
        }
        self.keep_raised_auto(&target.to.table, target.assignments.iter().map(|(column, ..)| *column))?;
        Ok(written)
    }

    /// A writer of these values.
    fn with<'w>(&'w mut self, values: &'w [Param], insert: &InsertPlan) -> Res<Writer<'w>> {
        if values.len() != insert.columns.len() {
            return Err(errors::wrong_value_count(1));
        }
        let constants = Constants { params: Params::Bound(values), ..self.constants };
        let Self { conn, env, memory_max, stmts, .. } = self;
        Ok(Writer { memory_max: *memory_max, ..Writer::new(conn, constants, env, stmts) })
    }
}

/// The values of a row as a sink would get them.
fn values_of(outs: &[Out], cells: &[Datum]) -> Vec<Param> {
    let mut text = Vec::new();
    let fields = outs.iter().zip(cells).map(|(out, cell)| out.field(cell.as_cell()));
    fields
        .map(|field| match field.read(&mut text) {
            Value::Null => Param::Null,
            Value::Int(value) => Param::Int(value),
            Value::Uint(value) => Param::Uint(value),
            Value::Float(value) => Param::Double(f64::from(value)),
            Value::Double(value) => Param::Double(value),
            Value::Bytes(bytes) => Param::Bytes(bytes.to_vec().into()),
        })
        .collect()
}
