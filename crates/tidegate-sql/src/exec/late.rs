//! Values that depend on a row as it is written: those that name columns before them, and those of RETURNING.

use super::write::{Res, Writer, Written, internal};
use crate::{
    errors,
    store::conn::{Cell, Step},
    translate::{
        assign::{LateValue, RowValue},
        dml::InsertPlan,
    },
    value::Datum,
};

impl Writer<'_> {
    /// Evaluates an expression over values of a row.
    pub(super) fn late(&mut self, late: &LateValue, row: impl Fn(RowValue) -> Datum) -> Res<Datum> {
        let mut stmt = self.prepared(&late.sql)?;
        let value = self.constants.bind(&mut stmt, &late.binds).and_then(|mut stmt| {
            for (index, input) in late.inputs.iter().enumerate() {
                stmt.bind(late.binds.len() + index + 1, row(*input).as_cell()).map_err(internal)?;
            }
            Ok(match stmt.step().map_err(internal)? {
                Step::Row => stmt.cell(0).to_owned(),
                Step::Done => Datum::Null,
            })
        });
        self.stmts.keep(&late.sql, stmt);
        value
    }

    /// Keeps what RETURNING says of a row that an INSERT has written.
    pub(super) fn note_returned(&mut self, plan: &InsertPlan, rowid: i64, written: &mut Written) -> Res<()> {
        let (Some(returning), Some(rows)) = (&plan.returning, &mut written.returned) else { return Ok(()) };
        let feed = &returning.feed;
        let mut stmt = self.prepared(&feed.sql)?;
        let memory_max = self.memory_max;
        let result = self.constants.bind(&mut stmt, &feed.binds).and_then(|mut stmt| {
            stmt.bind(feed.binds.len() + 1, Cell::Int(rowid)).map_err(internal)?;
            if stmt.step().map_err(internal)? != Step::Row {
                return Err(errors::internal("the written row has gone"));
            }
            (0..feed.outs.len()).try_for_each(|index| rows.push(stmt.cell(index).to_owned(), memory_max))
        });
        self.stmts.keep(&feed.sql, stmt);
        result
    }
}
