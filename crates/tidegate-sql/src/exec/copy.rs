//! ALTER TABLE's copy: the rows of a table go into another one that takes its place, each the way that an INSERT's go.
//!
//! What differs from INSERT: values whose stored form stays are taken as they are; a column without a default gets the implicit
//! one; a value that a column cannot have is reported as truncated data.

use super::{
    Out,
    conflict::entry,
    insert::{Given, bind_row},
    write::{Res, Writer, internal},
};
use crate::{
    coerce::{Target, implicit_default},
    column::{Column, Default},
    errors,
    store::conn::{Step, Stmt},
    translate::target_table::TargetTable,
    value::{Base, Datum, Val},
};

/// What a column of the copy gets.
#[derive(Debug)]
pub(crate) enum Origin {
    /// The column of the rows that are read, as it is stored.
    Same(usize),
    /// That column, of which the values are converted from this type.
    Converted(usize, Out),
    /// The number of the row: AUTO_INCREMENT.
    Number,
    /// What a new column without a default has.
    Implicit,
    /// The default of a new column, or what a generated column computes.
    Default,
}

impl Origin {
    /// Where the values of a new column come from.
    pub(crate) fn added(column: &Column) -> Self {
        match &column.default {
            _ if column.generated.is_some() => Self::Default,
            _ if column.auto_increment => Self::Number,
            Default::None if !column.nullable => Self::Implicit,
            _ => Self::Default,
        }
    }
}

impl Writer<'_> {
    /// Inserts all rows of a query into a table without indexes; `origins` are those of its columns. Answers how many there were.
    ///
    /// # Errors
    /// 1062 for the primary key if that is the row id; 1265 and those of conversion in strict mode; 4025.
    pub(crate) fn copy_rows(&mut self, to: &TargetTable, origins: &[Origin], read: &mut Stmt) -> Res<usize> {
        let given = |column: &usize| !matches!(origins[*column], Origin::Default);
        let columns: Vec<usize> = (0..origins.len()).filter(given).collect();
        let mut write = self.prepared(to.insert_text())?;
        let mut rows = 0;
        while read.step().map_err(internal)? == Step::Row {
            rows += 1;
            let (mut row, pending) = self.row_of((to, &columns), rows, false, false, |writer, index| {
                let column = columns[index];
                Ok(Given::Stored(match &origins[column] {
                    Origin::Same(position) => read.cell(*position).to_owned(),
                    Origin::Converted(position, out) => {
                        let target = writer.target(to, column, rows, false);
                        writer.converted(&target, out.value_for(read.cell(*position), &target.column.ty))?
                    }
                    Origin::Number => Datum::Int(rows as i64),
                    Origin::Implicit => implicit_default(&to.table.columns[column].ty),
                    Origin::Default => return Ok(Given::Default),
                }))
            })?;
            self.apply_rules(to, &mut row, &pending, rows, false)?;
            bind_row(&mut write, &row, to.table.rowid_column().is_none().then_some(None))?;
            if let Err(error) = write.run() {
                // Other unique indexes come when all rows are there: this is the row id.
                let primary = to.table.primary().filter(|_| error.is_unique());
                let duplicate = |index| errors::duplicate_entry(entry(&to.table, index, &row), &index.name);
                return Err(primary.map_or_else(|| internal(error), duplicate));
            }
        }
        Ok(rows)
    }

    /// A value of a column's former type.
    fn converted(&self, target: &Target<'_>, value: Val<'_>) -> Res<Datum> {
        let truncated = || errors::data_truncated(&target.column.name, target.row);
        let stored = target.coerce(value).map_err(|error| if error.code == 1406 { truncated() } else { error })?;
        if !stored.is_null() || target.column.nullable {
            return Ok(stored);
        }
        if target.column.ty.base == Base::Timestamp {
            return Ok(self.now(target.column));
        }
        target.complain(truncated())?;
        Ok(target.implicit_default())
    }
}
