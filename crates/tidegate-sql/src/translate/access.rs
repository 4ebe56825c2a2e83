//! What the session may read and write: asked where tables and columns are looked up, so that no way to them goes around it.
//!
//! A translator without an [`Access`] is that of somebody who may do everything. The text of a view is translated with what its
//! definer may do, or its user where the view says so.

use std::{rc::Rc, sync::Arc};

use tidegate_rows::ServerError;

use super::{
    Res, Translator,
    scope::Source,
    view::through::{Shape, Through},
};
use crate::{
    accounts::{Access, Privileges},
    catalog::Table,
    errors,
    schema::Schema,
    temporary_name,
};

/// Columns of a source that are not to be read.
#[derive(Debug)]
pub(crate) struct Denied {
    access: Rc<Access>,
    schema: String,
    table: String,
    /// For each column.
    columns: Box<[bool]>,
}

impl Denied {
    fn column(&self, index: usize, name: &str) -> Res<()> {
        if self.columns.get(index).is_some_and(|denied| !denied) {
            return Ok(());
        }
        Err(self.access.column_denied("SELECT", name, &self.table))
    }
}

impl Source {
    /// Whether a column may be read.
    ///
    /// # Errors
    /// 1143 if not.
    pub(super) fn may_read(&self, column: usize) -> Res<()> {
        match &self.denied {
            None => Ok(()),
            Some(denied) => denied.column(column, &self.columns[column].name),
        }
    }

    /// Whether all columns may be read: `*`.
    ///
    /// # Errors
    /// 1142 if not.
    pub(super) fn may_read_all(&self) -> Res<()> {
        match &self.denied {
            None => Ok(()),
            Some(denied) => Err(denied.access.table_denied("SELECT", &denied.schema, &denied.table)),
        }
    }
}

/// What a statement does to the rows of a view.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Insert {
        /// REPLACE, which deletes rows too.
        replaces: bool,
    },
    Update,
    Delete,
}

impl Translator<'_> {
    /// Whether the user as whom a view is run may change what stands in its FROM, where a statement changes these columns of the view.
    ///
    /// # Errors
    /// 1356 if not; 1449 if the definer is not there any more.
    pub(super) fn may_beneath(
        &mut self,
        (schema, view): (&Arc<Schema>, &Table),
        shape: &Shape,
        (change, columns): (Change, &[usize]),
    ) -> Res<()> {
        let within = self.access_within(view)?;
        let around = std::mem::replace(&mut self.access, within);
        let may = shape.each_place(columns, |(schema, table), inner, columns| {
            self.may_change(schema, table, change, columns)?;
            inner.map_or(Ok(()), |inner| self.may_beneath((schema, table), inner, (change, columns)))
        });
        self.access = around;
        may.map_err(|error| Self::view_error(error, schema, view))
    }

    /// Whether the session may change these columns of a table or a view.
    ///
    /// # Errors
    /// 1142, 1143.
    fn may_change(&self, schema: &Schema, table: &Table, change: Change, columns: &[usize]) -> Res<()> {
        match change {
            Change::Insert { replaces } => self.may_insert(schema, table, Some(columns), replaces),
            Change::Update => columns.iter().try_for_each(|column| self.may_update(schema, table, *column)),
            Change::Delete => self.may_delete(schema, table),
        }
    }

    /// Whether the session may change these columns of a view, and the user as whom that is run what is beneath them.
    ///
    /// # Errors
    /// 1142 and 1143 for the view; as [`may_beneath`](Self::may_beneath).
    pub(super) fn may_through(&mut self, through: &Through, change: Change, columns: &[usize]) -> Res<()> {
        let view = (&through.schema, &*through.view);
        self.may_change(view.0, view.1, change, columns)?;
        match through.writable() {
            Some(shape) => self.may_beneath(view, shape, (change, columns)),
            None => Ok(()),
        }
    }

    /// Whether the session may read a table or view in FROM, or write to it if that is what the FROM is for. Answers the columns
    /// that it may not read, if there are such.
    ///
    /// # Errors
    /// 1142.
    pub(super) fn may_name(&self, schema: &Schema, table: &Table) -> Res<Option<Rc<Denied>>> {
        let Some(access) = self.limits_on(table) else { return Ok(None) };
        if access.on_table(&schema.name, &table.name).has(Privileges::SELECT) {
            return Ok(None);
        }
        let held = access.within_table(&schema.name, &table.name);
        if !held.has(Privileges::SELECT) && !held.has_any(self.writes) {
            let wanted = if self.writes.is_empty() { Privileges::SELECT } else { self.writes };
            return Err(access.table_denied(&wanted.names(), &schema.name, &table.name));
        }
        Ok(self.denied(schema, table))
    }

    /// The columns of a table that the session may not read.
    pub(super) fn denied(&self, schema: &Schema, table: &Table) -> Option<Rc<Denied>> {
        let access = self.limits_on(table)?;
        if access.on_table(&schema.name, &table.name).has(Privileges::SELECT) {
            return None;
        }
        let readable = |name: &str| access.on_column(&schema.name, &table.name, name).has(Privileges::SELECT);
        let columns = table.columns.iter().map(|column| !readable(&column.name)).collect();
        let (schema, table) = (schema.name.clone(), table.name.clone());
        Some(Rc::new(Denied { access: Rc::clone(access), schema, table, columns }))
    }

    /// What the session may do, where that is not everything; temporary tables are its own.
    fn limits_on(&self, table: &Table) -> Option<&Rc<Access>> {
        self.access.as_ref().filter(|_| !temporary_name::is_hidden(&table.name))
    }

    /// Whether the session may add rows with values for these columns, or for all; replaced rows are deleted.
    ///
    /// # Errors
    /// 1142, 1143.
    pub(super) fn may_insert(
        &self,
        schema: &Schema,
        table: &Table,
        columns: Option<&[usize]>,
        replaces: bool,
    ) -> Res<()> {
        let Some(access) = self.limits_on(table) else { return Ok(()) };
        let at = (schema.name.as_str(), table.name.as_str());
        let delete = if replaces { Privileges::DELETE } else { Privileges::NONE };
        let wanted = Privileges::INSERT.and(delete);
        let held = access.on_table(at.0, at.1);
        if held.has(wanted) {
            return Ok(());
        }
        if !held.has(delete) || !access.within_table(at.0, at.1).has(Privileges::INSERT) {
            return access.want_on_table(at.0, at.1, wanted);
        }
        match columns {
            Some(columns) => columns
                .iter()
                .try_for_each(|column| access.want_on_column(at, &table.columns[*column].name, Privileges::INSERT)),
            None => access.want_on_table(at.0, at.1, wanted),
        }
    }

    /// Whether the session may change a column.
    ///
    /// # Errors
    /// 1142, 1143.
    pub(super) fn may_update(&self, schema: &Schema, table: &Table, column: usize) -> Res<()> {
        let Some(access) = self.limits_on(table) else { return Ok(()) };
        let at = (schema.name.as_str(), table.name.as_str());
        access.want_within_table(at.0, at.1, Privileges::UPDATE)?;
        access.want_on_column(at, &table.columns[column].name, Privileges::UPDATE)
    }

    /// Whether the session may do something with all of a table.
    ///
    /// # Errors
    /// 1142.
    pub(super) fn may(&self, schema: &Schema, table: &Table, wanted: Privileges) -> Res<()> {
        match self.limits_on(table) {
            Some(access) => access.want_on_table(&schema.name, &table.name, wanted),
            None => Ok(()),
        }
    }

    /// Whether the session may delete rows.
    ///
    /// # Errors
    /// 1142.
    pub(super) fn may_delete(&self, schema: &Schema, table: &Table) -> Res<()> {
        self.may(schema, table, Privileges::DELETE)
    }

    /// What holds within a view: what its definer may do, or its user.
    ///
    /// # Errors
    /// 1449 if the definer is not there any more.
    pub(crate) fn access_within(&self, view: &Table) -> Res<Option<Rc<Access>>> {
        let definer = view.definer();
        if definer.is_invoker {
            return Ok(self.access.clone());
        }
        match definer.name {
            None => Ok(None),
            Some(name) => self.session.access_of(&name),
        }
    }

    /// The error of a view's text, where that is about somebody's privileges.
    pub(crate) fn view_error(error: ServerError, schema: &Arc<Schema>, view: &Table) -> ServerError {
        match error.code {
            // Also functions that are not there, or not for the definer.
            1142 | 1143 | 1305 | 1356 | 1370 => errors::view_denied(&schema.name, &view.name),
            _ => error,
        }
    }
}
