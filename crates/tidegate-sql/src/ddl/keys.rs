//! Foreign keys of tables that change: what they need stays, and the names that they show follow.

use super::{Res, alter, internal};
use crate::{
    catalog::{Catalog, ForeignKey, Index, Table, parent_id},
    catalog_file,
    column::Column,
    errors,
    exec::conflict::key_text,
    schema::Schema,
    store::conn::{Conn, Step},
};

/// Checks that the foreign keys of a table, and those that refer to it, can live with its new definition.
///
/// # Errors
/// 1553 for an index that one needs; 1832, 1833 for a column that would no longer fit the other side's.
pub(super) fn check(catalog: &Catalog, schema: &Schema, old: &Table, new: &Table, checks: bool) -> Res<()> {
    let changed = |id: u32| {
        let find = |table: &Table| table.columns.iter().find(|column| column.id == id).cloned();
        let (Some(a), Some(b)) = (find(old), find(new)) else { return None };
        let fits = if checks { a.ty == b.ty } else { a.ty.rep() == b.ty.rep() && a.ty.unsigned == b.ty.unsigned };
        (!fits).then_some(a.name)
    };
    for key in &new.foreign_keys {
        let leads = |table: &Table| table.indexes.iter().find(|index| begins_with(index, &key.columns)).cloned();
        if leads(new).is_none()
            && let Some(index) = leads(old)
        {
            return Err(errors::index_needed(index.name));
        }
        if !old.foreign_keys.iter().any(|known| known.name == key.name) {
            continue;
        }
        if let Some(column) = key.columns.iter().find_map(|id| changed(*id)) {
            return Err(errors::foreign_key_child_column(column, &key.name));
        }
    }
    for (child, key) in children(catalog, old) {
        // Of the table itself the keys that stay count.
        if child.id == old.id && !new.foreign_keys.iter().any(|kept| kept.name == key.name) {
            continue;
        }
        let columns = referred(key);
        if let Some(column) = columns.iter().find_map(|id| changed(*id)) {
            return Err(errors::foreign_key_parent_column(
                column,
                &key.name,
                format!("{}.{}", schema.name, child.name),
            ));
        }
        let unique = |table: &Table| {
            let serves = |index: &&Index| {
                index.identifies_rows()
                    && index.parts.len() == columns.len()
                    && index.parts.iter().all(|part| columns.contains(&part.column))
            };
            table.indexes.iter().find(serves).map(|index| index.name.clone())
        };
        if unique(new).is_none() {
            return Err(errors::index_needed(unique(old).unwrap_or_default()));
        }
    }
    Ok(())
}

fn begins_with(index: &Index, columns: &[u32]) -> bool {
    index.kind.is_ordered()
        && index.parts.len() >= columns.len()
        && index.parts.iter().zip(columns).all(|(part, id)| part.column == *id)
}

/// The foreign keys that refer to a table, with their tables.
fn children<'c>(catalog: &'c Catalog, parent: &Table) -> impl Iterator<Item = (&'c Table, &'c ForeignKey)> {
    let id = parent.id;
    let keys = catalog.tables.values().flat_map(|table| table.foreign_keys.iter().map(move |key| (&**table, key)));
    keys.filter(move |(_, key)| parent_id(key) == Some(id))
}

/// The numbers of the parent's columns.
fn referred(key: &ForeignKey) -> Vec<u32> {
    let number = |name: &String| name.split('\u{0}').nth(1)?.strip_prefix('c')?.parse().ok();
    key.references.iter().filter_map(number).collect()
}

/// Writes the names of a table and its columns into the foreign keys that refer to it.
///
/// # Errors
/// SQLite's.
pub(super) fn rename_parent(conn: &Conn, catalog: &Catalog, parent: &mut Table) -> Res<()> {
    let columns: Vec<Column> = parent.columns.clone();
    let (id, name) = (parent.id, parent.name.clone());
    let renamed = |key: &ForeignKey| {
        let references = key.references.iter().zip(referred(key)).map(|(shown, id)| {
            let column = columns.iter().find(|column| column.id == id);
            column.map_or_else(|| shown.clone(), |column| format!("{}\u{0}c{id}", column.name))
        });
        ForeignKey { table: format!("{name}\u{0}t{id}"), references: references.collect(), ..key.clone() }
    };
    let follow = |table: &mut Table| {
        let mut any = false;
        for key in table.foreign_keys.iter_mut().filter(|key| parent_id(key) == Some(id)) {
            let now = renamed(key);
            any |= now.table != key.table || now.references != key.references;
            *key = now;
        }
        any
    };
    let refers = |table: &Table| table.foreign_keys.iter().any(|key| parent_id(key) == Some(id));
    for table in catalog.tables.values().filter(|table| table.id != id && refers(table)) {
        let mut table = alter::copy(table);
        if follow(&mut table) {
            catalog_file::store(conn, &table).map_err(internal)?;
        }
    }
    if follow(parent) {
        catalog_file::store(conn, parent).map_err(internal)?;
    }
    Ok(())
}

/// Checks the rows that exist against a new foreign key.
///
/// # Errors
/// 1452 if one has no parent.
pub(super) fn check_children(conn: &Conn, schema: &Schema, table: &Table, key: &ForeignKey) -> Res<()> {
    let physical = |name: &str| name.split('\u{0}').nth(1).unwrap_or(name).to_owned();
    let set: Vec<String> = key.columns.iter().map(|id| format!("a.c{id} IS NOT NULL")).collect();
    let same: Vec<String> =
        key.columns.iter().zip(&key.references).map(|(id, name)| format!("b.{} = a.c{id}", physical(name))).collect();
    // The table may refer to itself.
    let parent = physical(&key.table);
    let sql = format!(
        "SELECT 1 FROM t{} AS a WHERE {} AND NOT EXISTS (SELECT 1 FROM {parent} AS b WHERE {}) LIMIT 1",
        table.id,
        set.join(" AND "),
        same.join(" AND ")
    );
    let mut stmt = conn.prepare(&sql).map_err(internal)?;
    if stmt.step().map_err(internal)? == Step::Row {
        return Err(errors::child_row(key_text(&schema.name, table, key)));
    }
    Ok(())
}
