//! LOAD DATA is an INSERT whose rows come from a file.

use std::sync::Arc;

use sqlparser::ast::Expr;

use super::{Res, Translator, dml::InsertPlan};
use crate::{
    catalog::Table,
    engine::Schema,
    parse::{self, InsertSource},
};

impl Translator<'_> {
    /// The columns that get values.
    pub(super) fn inserted_columns(
        &mut self,
        schema: &Arc<Schema>,
        table: &Arc<Table>,
        insert: &parse::Insert,
    ) -> Res<Vec<usize>> {
        let columns = match (&insert.columns, &insert.source) {
            (_, InsertSource::File { fields, set, .. }) => {
                let mut columns = match fields {
                    Some(names) => self.column_list(table, names)?,
                    None => (0..table.columns.len()).collect(),
                };
                columns.extend(self.column_list(table, set)?);
                columns
            }
            (Some(names), _) if !names.is_empty() => self.column_list(table, names)?,
            _ => return Ok((0..table.columns.len()).collect()),
        };
        self.may_insert(schema, table, Some(&columns), insert.replace)?;
        Ok(columns)
    }

    /// What SET makes of each line of a file: the last columns get these values.
    pub(super) fn insert_file(&mut self, plan: &mut InsertPlan, values: &[Expr]) -> Res<()> {
        let behind = plan.columns.split_off(plan.columns.len() - values.len());
        let fields = std::mem::replace(&mut plan.columns, behind);
        let row = self.insert_row(plan, values, 1, true, &mut None)?;
        plan.rows.push(row);
        plan.columns.splice(..0, fields);
        Ok(())
    }
}
