//! CREATE OR REPLACE TABLE: a new table in the place of an old one.
//!
//! Unlike in MariaDB 10.11 the old table stays if the new one cannot be made: they change places in one transaction of the schema. A table
//! whose rows come from a query gets them under a hidden name first, like a temporary one: nobody reaches it there, and whoever
//! sweeps after a process that has ended takes it for one ([`super::temporary`]). Only a parent whose children's foreign keys
//! nobody checks goes before that, so that the new one can take its number, by which they know it.
//!
//! A temporary table goes before the new one is made, as in MariaDB: its rows may be the open transaction's.

use std::{
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use tidegate_rows::{Column, Flow, QueryError, Row, Sink, SinkClosed, Summary};

use super::{Res, alter::copy, change, check_no_child, child_of, drop_some_tables, internal, remove_table};
use crate::{
    catalog::{Catalog, Table},
    catalog_file, errors,
    parse::{CreateTable, TableName},
    schema::Schema,
    session::Core,
    store::conn::Conn,
};

/// What becomes of a table of the schema that bears the name of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Old {
    /// The statement fails if there is one.
    Stays,
    /// It goes in the transaction that makes the new one.
    Goes,
    /// It goes when the new one, which has a hidden name until then, has its rows.
    GoesLater,
}

impl Old {
    /// What the statement says.
    ///
    /// # Errors
    /// 1099, 1100 for what LOCK TABLES has not locked for writing.
    pub(super) fn of(core: &Core, schema: &Schema, create: &CreateTable) -> Res<Self> {
        if !create.or_replace || create.temporary {
            return Ok(Self::Stays);
        }
        let name = &create.name.name;
        core.env.may_replace(schema, name)?;
        let catalog = schema.catalog()?;
        let is_parent = catalog.table(name).is_some_and(|old| child_of(&catalog, old.id).is_some());
        Ok(if create.query.is_some() && !is_parent { Self::GoesLater } else { Self::Goes })
    }

    /// Sees that the name is free, or becomes so.
    ///
    /// # Errors
    /// 1050; 1965 for a view, 1451 for a table that others refer to.
    pub(super) fn check(self, core: &Core, schema: &Schema, catalog: &Catalog, name: &str) -> Res<()> {
        let Some(old) = catalog.table(name) else { return Ok(()) };
        if self == Self::Stays {
            return Err(errors::table_exists(name));
        }
        if old.is_view() {
            return Err(errors::is_a_view(format!("{}.{name}", schema.name)));
        }
        if core.env.foreign_keys.get() { check_no_child(schema, catalog, old) } else { Ok(()) }
    }

    /// Removes the old table, if that is to go before the new one is made; answers the catalogue without it then.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn leave(self, conn: &Conn, catalog: &Catalog, name: &str) -> Res<Option<Catalog>> {
        match catalog.table(name) {
            Some(old) if self == Self::Goes => {
                remove_table(conn, old)?;
                catalog_file::load(conn, Some(catalog))
            }
            _ => Ok(None),
        }
    }
}

/// A new table has the number of an old one, and with that its state: nothing of the old rows is left in there.
pub(super) fn take_number(old: &Table) {
    old.state.next_auto.store(0, Ordering::Release);
    old.state.next_rowid.store(0, Ordering::Release);
    old.state.changes.forget();
}

/// Sees that the query of a new table does not read the one that goes. `reads` has the tables that it reads.
///
/// # Errors
/// 1093; 1137 for a temporary table.
pub(super) fn check_sources(
    core: &Core,
    schema: &Schema,
    temporary: bool,
    name: &str,
    reads: &[(String, String)],
) -> Res<()> {
    let reads = |name: &str| reads.iter().any(|(of, table)| *of == schema.name && table == name);
    match core.env.temporary(&schema.name, name) {
        Some(hidden) if temporary && reads(&hidden) => Err(errors::cannot_reopen(name)),
        _ if !temporary && reads(name) => Err(errors::created_of_itself(name)),
        _ => Ok(()),
    }
}

/// Drops the temporary table that a new one takes the place of; an open transaction stands aside for both.
///
/// # Errors
/// Those of [`Core::stand_aside`].
pub(super) fn drop_temporary(core: &mut Core, schema: &Arc<Schema>, name: &str) -> Res<()> {
    if core.env.temporary(&schema.name, name).is_some() {
        let old = TableName { schema: Some(schema.name.clone()), name: name.to_owned() };
        drop_some_tables(core, vec![old], true, true)?;
    }
    core.stand_aside(schema, None)
}

/// Fills a table by an INSERT, then gives it the name that it is to have. The client hears of its rows when they are there.
///
/// # Errors
/// Those of the INSERT, and of [`take_place`]: the old table stays.
pub(super) fn fill(
    core: &mut Core,
    schema: &Arc<Schema>,
    (made, name): (&str, &str),
    insert: &str,
    (more, sink): (bool, &mut dyn Sink),
) -> Result<(), QueryError> {
    let mut end = End::default();
    // As one with others behind it: the last one of a text is committed later.
    core.run_own(insert, true, &mut end)?;
    take_place(core, schema, made, name)?;
    if let Some(summary) = end.0 {
        sink.end_result(&Summary { more_results: more, ..summary });
    }
    Ok(())
}

/// Gives a table the name of another one, which goes.
///
/// # Errors
/// 1965, 1451.
fn take_place(core: &mut Core, schema: &Arc<Schema>, made: &str, name: &str) -> Res<()> {
    core.commit_open()?;
    change(core, schema, &[name, made], |conn, catalog| {
        let new = catalog.table(made).ok_or_else(|| errors::no_such_table(&schema.name, name))?;
        Old::GoesLater.check(core, schema, catalog, name)?;
        if let Some(old) = catalog.table(name) {
            // One may have come since, whether they are checked or not.
            check_no_child(schema, catalog, old)?;
            remove_table(conn, old)?;
        }
        let mut new = copy(new);
        name.clone_into(&mut new.name);
        catalog_file::store(conn, &new).map_err(internal)
    })
}

/// Keeps the end of a statement for later.
#[derive(Default)]
struct End(Option<Summary>);

impl Sink for End {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, _: Row<'_>) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        self.0 = Some(summary.clone());
    }
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}
