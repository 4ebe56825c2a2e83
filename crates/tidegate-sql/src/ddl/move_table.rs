//! RENAME TABLE to another schema.
//!
//! A schema is a file, and no commit is one for two files. The table is made in the other schema first, with all its rows, and then goes
//! from its own: when the process ends in between, both have it. Nobody writes to either schema meanwhile.

use std::sync::{Arc, atomic::Ordering};

use super::{Res, alter::copy, change, child_of, define::build, fulltext, internal, next_table_id};
use crate::{
    catalog::{Catalog, Table, TableState},
    catalog_file, errors,
    schema::Schema,
    session::{Core, acquire_unused},
    store::conn::{Conn, Step},
};

/// Moves a table from one schema to another, under the same name or another one.
///
/// # Errors
/// 1146, 1050; 1450 for a view, 1435 for a table with triggers, 1235 for one with foreign keys.
pub(super) fn move_table(core: &Core, (from, name): (&Arc<Schema>, &str), (to, new): (&Arc<Schema>, &str)) -> Res<()> {
    // In the order of the schemas' numbers, which keeps two sessions from waiting for each other.
    if to.id < from.id {
        let guard = acquire_unused(to, &core.env, &[new])?;
        core.env.defines_under.set(Some((Arc::clone(to), guard)));
    }
    let moved = change(core, from, &[name], |conn, catalog| {
        let table = movable(catalog, from, to, name)?;
        change(core, to, &[new], |other, others| {
            if others.table(new).is_some() {
                return Err(errors::table_exists(new));
            }
            let made = Table {
                id: next_table_id(other)?,
                name: new.to_owned(),
                state: Arc::new(TableState::default()),
                ..copy(table)
            };
            let auto = &table.state;
            let next = auto.next_auto.load(Ordering::Acquire).max(auto.stored_auto.load(Ordering::Acquire));
            made.state.stored_auto.store(next, Ordering::Release);
            build(other, &made)?;
            copy_rows(conn, other, table, &made)?;
            catalog_file::store(other, &made).map_err(internal)
        })?;
        conn.execute(&format!("DROP TABLE {}", table.physical())).map_err(internal)?;
        fulltext::remove_all(conn, table)?;
        catalog_file::remove(conn, table.id).map_err(internal)
    });
    drop(core.env.defines_under.take());
    moved
}

/// The table, if it can be moved.
fn movable<'c>(catalog: &'c Catalog, from: &Schema, to: &Schema, name: &str) -> Res<&'c Arc<Table>> {
    let table = catalog.table(name).ok_or_else(|| errors::no_such_table(&from.name, name))?;
    if table.is_view() {
        return Err(errors::schema_not_changed(&from.name, &to.name));
    }
    if !catalog.triggers_of(table.id).is_empty() {
        return Err(errors::trigger_in_wrong_schema());
    }
    if !table.foreign_keys.is_empty() || child_of(catalog, table.id).is_some() {
        return Err(errors::unsupported("moving a table with foreign keys to another schema"));
    }
    Ok(table)
}

/// Copies all rows, as they are stored, under their row ids: full-text indexes know them by these.
fn copy_rows(conn: &Conn, other: &mut Conn, table: &Table, made: &Table) -> Res<()> {
    let mut columns: Vec<String> = table.columns.iter().map(|column| format!("c{}", column.id)).collect();
    if table.rowid_column().is_none() {
        columns.push("rowid".to_owned());
    }
    let (list, values) = (columns.join(", "), (1..=columns.len()).map(|number| format!("?{number}")));
    let values: Vec<String> = values.collect();
    let mut read = conn.prepare(&format!("SELECT {list} FROM {}", table.physical())).map_err(internal)?;
    let insert = format!("INSERT INTO {} ({list}) VALUES ({})", made.physical(), values.join(", "));
    let mut write = other.prepare(&insert).map_err(internal)?;
    while read.step().map_err(internal)? == Step::Row {
        for index in 0..columns.len() {
            write.bind(index + 1, read.cell(index)).map_err(internal)?;
        }
        write.run().map_err(internal)?;
    }
    Ok(())
}
