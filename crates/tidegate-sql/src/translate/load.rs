//! LOAD DATA is an INSERT whose rows come from a file.

use std::{rc::Rc, sync::Arc};

use sqlparser::ast::Expr;

use super::{
    Res, Translator,
    dml::{Destination, InsertPlan},
};
use crate::{
    catalog::Table,
    env::Charset,
    errors,
    parse::{self, InsertSource, files::FileFormat},
    schema::Schema,
    store::file_source::FileSource,
};

/// What LOAD DATA inserts beside what an INSERT says.
#[derive(Debug)]
pub(crate) struct LoadPlan {
    /// Where each field of a line goes.
    pub(crate) fields: Vec<FieldTo>,
    /// Names of the user variables.
    pub(crate) variables: Vec<String>,
    /// The variable that each parameter of the expressions behind SET is.
    pub(crate) params: Vec<usize>,
    pub(crate) format: FileFormat,
    pub(crate) charset: Charset,
    /// Lines to be left out.
    pub(crate) skip: u64,
    pub(crate) source: Rc<FileSource>,
}

/// Where a field goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldTo {
    /// The column of this position among those that the plan gives values.
    Column(usize),
    /// A user variable, by its position.
    Variable(usize),
}

impl Translator<'_> {
    /// The columns of a table or view that get values.
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
            (Some(names), _) if !names.is_empty() => match self.column_list(table, names) {
                // As two columns of a view that are the same one of its table.
                Err(error) if error.code == 1110 && table.is_view() => {
                    return Err(errors::not_insertable(&table.name, "INSERT"));
                }
                columns => columns?,
            },
            _ => return Ok((0..table.columns.len()).collect()),
        };
        self.may_insert(schema, table, Some(&columns), insert.replace)?;
        Ok(columns)
    }

    /// What SET makes of each line of a file: the last columns get these values.
    pub(super) fn insert_file(&mut self, to: &Destination, plan: &mut InsertPlan, values: &[Expr]) -> Res<()> {
        let behind = plan.columns.split_off(plan.columns.len() - values.len());
        let fields = std::mem::replace(&mut plan.columns, behind);
        let row = self.insert_row(to, plan, values, 1, true, &mut None)?;
        plan.rows.push(row);
        plan.columns.splice(..0, fields);
        Ok(())
    }
}
