//! RENAME TABLE.

use std::sync::Arc;

use super::{Res, alter::copy, change, check_name, internal, keys, move_table::move_table, schema_of};
use crate::{
    catalog::Catalog, catalog_file, errors, parse::TableName, schema::Schema, session::Core, store::conn::Conn,
    temporary_name,
};

/// A table's name and its new one.
type Pair = (TableName, TableName);

/// Gives tables new names, one after the other. Others see all the new names of a schema at once, or none.
///
/// # Errors
/// 1146, 1050; 1235 for temporary tables, and for other schemas but with one table alone: all names of the schema are what they were.
pub(super) fn rename(core: &Core, pairs: &[Pair]) -> Res<()> {
    let mut schemas: Vec<(Arc<Schema>, Vec<&Pair>)> = Vec::new();
    if let [(from, to)] = pairs
        && moves(core, from, to)?
        && !temporary_name::is_hidden(&core.actual(from).name)
    {
        check_name(&to.name)?;
        let (here, there) = (schema_of(core, from)?, schema_of(core, to)?);
        return move_table(core, (&here, &from.name), (&there, &to.name));
    }
    for pair in pairs {
        let schema = schema_of(core, &pair.0)?;
        if moves(core, &pair.0, &pair.1)? {
            return Err(errors::unsupported("moving a table to another schema together with other names"));
        }
        check_name(&pair.1.name)?;
        if temporary_name::is_hidden(&core.actual(&pair.0).name) {
            return Err(errors::unsupported("renaming a temporary table"));
        }
        match schemas.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &schema)) {
            Some((_, pairs)) => pairs.push(pair),
            None => schemas.push((schema, vec![pair])),
        }
    }
    for (schema, pairs) in &schemas {
        let tables: Vec<&str> = pairs.iter().map(|(from, _)| from.name.as_str()).collect();
        change(core, schema, &tables, |conn, catalog| {
            let [first, rest @ ..] = &pairs[..] else { return Ok(()) };
            rename_one(conn, catalog, schema, first)?;
            for pair in rest {
                // With the names that the pairs before it have given.
                let now = catalog_file::load(conn, Some(catalog))?.unwrap_or_default();
                rename_one(conn, &now, schema, pair)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Whether a new name is one of another schema.
///
/// # Errors
/// 1046, 1049.
pub(super) fn moves(core: &Core, from: &TableName, to: &TableName) -> Res<bool> {
    Ok(!Arc::ptr_eq(&schema_of(core, from)?, &schema_of(core, to)?))
}

fn rename_one(conn: &Conn, catalog: &Catalog, schema: &Schema, (from, to): &Pair) -> Res<()> {
    let table = catalog.table(&from.name).ok_or_else(|| errors::no_such_table(&schema.name, &from.name))?;
    if catalog.table(&to.name).is_some() {
        return Err(errors::table_exists(&to.name));
    }
    let mut renamed = copy(table);
    renamed.name.clone_from(&to.name);
    catalog_file::store(conn, &renamed).map_err(internal)?;
    keys::rename_parent(conn, catalog, &mut renamed)
}
