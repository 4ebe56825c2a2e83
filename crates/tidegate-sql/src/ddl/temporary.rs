//! Temporary tables: ordinary tables under a name that only their session knows.
//!
//! The name begins with `#tmp`, a word for the process and a number that no table before had. What a session or an earlier process
//! has left behind is dropped by the next change of definitions in the schema.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use super::{Res, internal, schema_of};
use crate::{
    catalog::Catalog,
    catalog_file, errors,
    parse::TableName,
    schema::Schema,
    session::{Core, temporary::left_tables},
    store::conn::Conn,
    temporary_name::is_hidden,
};

/// A word for this process: the numbers begin anew with each.
fn token() -> &'static str {
    static TOKEN: OnceLock<String> = OnceLock::new();
    TOKEN.get_or_init(|| {
        let mut bytes = [0u8; 4];
        if getrandom::fill(&mut bytes).is_err() {
            bytes = std::process::id().to_be_bytes();
        }
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    })
}

/// A name under which a session keeps a table: what it had before it was reset may still be there.
fn hidden_name(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("#tmp.{}.{}.{name}", token(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Prepares CREATE TEMPORARY TABLE: the name under which the table is made.
///
/// # Errors
/// 1050 if the session has a table of this name; 1235 inside of a transaction, which it would end.
pub(super) fn create(core: &Core, name: &TableName) -> Res<TableName> {
    let schema = schema_of(core, name)?;
    if core.env.temporary(&schema.name, &name.name).is_some() {
        return Err(errors::table_exists(&name.name));
    }
    Ok(hidden(&schema, &name.name))
}

/// A name for a table that nobody is to see by its own one.
pub(super) fn hidden(schema: &Schema, name: &str) -> TableName {
    TableName { schema: Some(schema.name.clone()), name: hidden_name(name) }
}

/// Drops what nobody can reach any more, in the transaction of another change.
///
/// # Errors
/// SQLite's.
pub(super) fn sweep(conn: &Conn, catalog: &Catalog, schema: &Schema) -> Res<()> {
    if !catalog.tables.keys().any(|name| is_hidden(name)) {
        return Ok(());
    }
    let own = format!("#tmp.{}.", token());
    let mut left = left_tables();
    // Those that this change drops stay in the list until it is certain that they are gone.
    left.retain(|(path, name)| *path != schema.path || catalog.tables.values().any(|table| table.name == *name));
    for table in catalog.tables.values().filter(|table| is_hidden(&table.name)) {
        let is_given_up = left.iter().any(|(path, name)| *path == schema.path && *name == table.name);
        if table.name.starts_with(&own) && !is_given_up {
            continue;
        }
        conn.execute(&format!("DROP TABLE IF EXISTS t{}", table.id)).map_err(internal)?;
        catalog_file::remove(conn, table.id).map_err(internal)?;
    }
    Ok(())
}
