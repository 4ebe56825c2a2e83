//! ALTER TABLE.
//!
//! Names, defaults, comments and positions live in the catalogue alone. Columns are added to SQLite's definition, indexes are
//! SQLite's; a column that changes its stored form or goes, or a primary key that comes or goes, copies the table, each value
//! coerced as an INSERT would. Columns of large tables are dropped by SQLite's ALTER.

use std::sync::{Arc, atomic::Ordering};

use super::{
    Res, change, check_name,
    define::{
        add_check, add_column, add_column_check, add_foreign_key, add_index, check_auto, column_key, column_of,
        default_of, session_of, shorten_prefixes,
    },
    fulltext, internal, keys, next_table_id, physical, schema_of, sequence,
};
use crate::{
    catalog::{Catalog, Check, Index, Table},
    catalog_file,
    column::{Column, same_name},
    errors,
    exec::{bind::Constants, conflict::shown_key, copy::Origin, write::Writer},
    parse::{AlterItem, ColumnSpec, IndexSpec, KeyKind, TableName, alter::Place, ddl::TableOptions},
    schema::Schema,
    session::Core,
    store::{
        conn::{Cell, Conn, Step},
        prepared::Prepared,
        statistics,
    },
    translate::{
        params::Params,
        rules::{check_auto_increment, check_cascades, is_about_alone, rules_of},
        target_table::TargetTable,
    },
    value::{Base, Rep, SqlType, collation::collation_of, out::Out},
};

/// Carries out ALTER TABLE; answers how many rows MariaDB would have copied, which is what clients are told.
///
/// # Errors
/// MySQL's; the table is as it was then.
pub(super) fn alter_table(
    core: &mut Core,
    (name, if_exists): (&TableName, bool),
    items: &[AlterItem],
    sql: &[u8],
) -> Res<u64> {
    let schema = match schema_of(core, name) {
        Err(error) if if_exists && error.code == 1049 => {
            core.env.note_error(&errors::no_such_table(name.schema.as_deref().unwrap_or_default(), &name.name));
            return Ok(0);
        }
        schema => schema?,
    };
    let missing = || errors::no_such_table(&schema.name, &name.name);
    let Some(old) = schema.catalog()?.table(&name.name).cloned().filter(|table| !table.is_view()) else {
        if !if_exists {
            return Err(missing());
        }
        core.env.note_error(&missing());
        return Ok(0);
    };
    if old.is_sequence() && !items.iter().all(|item| matches!(item, AlterItem::RenameTable(_))) {
        return Err(errors::not_of_sequences(&schema.name, crate::temporary_name::shown(&old.name)));
    }
    // A row that an open transaction has removed is no parent.
    let parents = items.iter().filter_map(|item| match item {
        AlterItem::AddForeignKey(key) => Some(key.table.name.as_str()),
        _ => None,
    });
    let tables: Vec<&str> = std::iter::once(name.name.as_str()).chain(parents).collect();
    change(core, &schema, &tables, |conn, catalog| {
        // The definition may have changed while this statement waited for the lock.
        let old = catalog.table(&old.name).filter(|table| table.id == old.id).cloned().ok_or_else(missing)?;
        // The rows may get other row ids.
        old.state.next_rowid.store(0, Ordering::Release);
        let mut new = copy(&old);
        for item in items {
            apply(core, conn, catalog, &schema, &mut new, item, sql)?;
        }
        check_narrowed(&old, &new, items)?;
        check_auto(&new)?;
        fulltext::check(&new)?;
        keys::check(catalog, &schema, &old, &new, core.env.foreign_keys.get())?;
        rules_of(&session_of(core, &schema), &new)?;
        check_auto_increment(&new)?;
        check_cascades(&new)?;
        let copies = copies(&old, &new);
        rebuild(core, conn, catalog, &schema, &old, &mut new)?;
        let copied = if copies { count_rows(conn, &new)? } else { 0 };
        if core.env.foreign_keys.get() {
            for key in new.foreign_keys.iter().filter(|key| !old.foreign_keys.iter().any(|old| old.name == key.name)) {
                keys::check_children(conn, &schema, &new, key)?;
            }
        }
        catalog_file::store(conn, &new).map_err(internal)?;
        keys::rename_parent(conn, catalog, &mut new)?;
        Ok(copied)
    })
}

/// A unique index keeps its columns, or goes with all of them: with fewer it would refuse other rows. 1072 otherwise.
fn check_narrowed(old: &Table, new: &Table, items: &[AlterItem]) -> Res<()> {
    for index in old.indexes.iter().filter(|index| index.kind.is_unique()) {
        let dropped = items.iter().any(|item| match item {
            AlterItem::DropIndex { name, .. } | AlterItem::DropConstraint { name, .. } => same_name(name, &index.name),
            AlterItem::DropPrimary => index.kind == KeyKind::Primary,
            _ => false,
        });
        let gone = index.parts.iter().find(|part| new.position(part.column).is_none());
        let stays = index.parts.iter().any(|part| new.position(part.column).is_some());
        if let (false, true, Some(gone)) = (dropped, stays, gone) {
            let name = old.position(gone.column).map_or("", |position| &old.columns[position].name);
            return Err(errors::unknown_key_column(name));
        }
    }
    Ok(())
}

/// Whether MariaDB copies a table for this change; others happen in place.
fn copies(old: &Table, new: &Table) -> bool {
    let in_unique = |id: u32| {
        let unique = |index: &&Index| index.kind.is_unique();
        new.indexes.iter().filter(unique).any(|index| index.parts.iter().any(|part| part.column == id))
    };
    let changed = |column: &Column| {
        let Some(known) = old.columns.iter().find(|known| known.id == column.id) else {
            return column.generated.as_ref().is_some_and(|generated| generated.stored) || column.auto_increment;
        };
        let (a, b) = (&known.ty, &column.ty);
        let text = |ty: &SqlType| matches!(ty.base, Base::Varchar | Base::Varbinary);
        let grows = |ty: &SqlType| ty.length.saturating_mul(ty.collation.char_bytes_max()) > 255;
        let sizes = if text(a) && text(b) {
            b.length < a.length || grows(a) != grows(b)
        } else {
            a.length != b.length && !a.base.is_integer() || a.decimals != b.decimals
        };
        let members = match (&a.members, &b.members) {
            (Some(a), Some(b)) => !b.starts_with(a),
            _ => false,
        };
        a.base != b.base
            || a.unsigned != b.unsigned
            || a.base.is_character() && a.collation.charset() != b.collation.charset()
            || sizes && a.members.is_none()
            || members
            || a.base.is_character() && a.collation != b.collation && in_unique(column.id)
            || known.generated != column.generated
            || column.auto_increment && !known.auto_increment
    };
    crate::temporary_name::is_hidden(&new.name)
        || new.columns.iter().any(changed)
        || new.checks.iter().any(|check| !old.checks.contains(check))
        || new.foreign_keys.iter().any(|key| !old.foreign_keys.iter().any(|known| known.name == key.name))
}

fn count_rows(conn: &Conn, table: &Table) -> Res<u64> {
    let mut stmt = conn.prepare(&format!("SELECT count(*) FROM {}", table.physical())).map_err(internal)?;
    stmt.step().map_err(internal)?;
    Ok(match stmt.cell(0) {
        Cell::Int(count) => count as u64,
        _ => 0,
    })
}

pub(super) fn copy(table: &Table) -> Table {
    Table {
        id: table.id,
        name: table.name.clone(),
        columns: table.columns.clone(),
        indexes: table.indexes.clone(),
        foreign_keys: table.foreign_keys.clone(),
        checks: table.checks.clone(),
        engine: table.engine.clone(),
        collation: table.collation,
        comment: table.comment.clone(),
        created: table.created,
        view: table.view.clone(),
        next_column_id: table.next_column_id,
        state: Arc::clone(&table.state),
    }
}

fn place_of(table: &Table, place: &Place) -> Res<Option<usize>> {
    Ok(match place {
        Place::Same => None,
        Place::First => Some(0),
        Place::After(name) => Some(table.column(name).ok_or_else(|| errors::unknown_column(name, &table.name))?.0 + 1),
    })
}

fn unknown(name: &str, table: &Table) -> tidegate_rows::ServerError {
    errors::unknown_column(name, &table.name)
}

/// Puts one item of ALTER TABLE into the definition.
fn apply(
    core: &Core,
    conn: &Conn,
    catalog: &Catalog,
    schema: &Schema,
    table: &mut Table,
    item: &AlterItem,
    sql: &[u8],
) -> Res<()> {
    match item {
        AlterItem::AddColumn { spec, place, if_not_exists } => {
            if *if_not_exists && table.column(&spec.name).is_some() {
                core.env.note(errors::duplicate_column(&spec.name));
                return Ok(());
            }
            let at = place_of(table, place)?;
            add_column(core, schema, table, spec, at, sql)?;
            column_key(spec).map_or(Ok(()), |key| add_index(table, &key))
        }
        AlterItem::DropColumn { name, if_exists } => drop_column(core, table, name, *if_exists),
        AlterItem::ChangeColumn { old, if_exists: true, .. } if table.column(old).is_none() => {
            core.env.note(unknown(old, table));
            Ok(())
        }
        AlterItem::ChangeColumn { old, spec, place, .. } => change_column(core, schema, table, (old, spec, place), sql),
        AlterItem::RenameColumn { old, new } => rename_column(table, old, new),
        AlterItem::AlterDefault { column, default } => {
            let (position, found) = table.column(column).ok_or_else(|| unknown(column, table))?;
            let default = default_of(core, schema, table, found, default, sql)?;
            table.columns[position].default = default;
            Ok(())
        }
        AlterItem::AddIndex(index) => add_new_index(core, table, index),
        AlterItem::AddForeignKey(key) => {
            add_foreign_key(conn, catalog, schema, table, key, core.env.foreign_keys.get())
        }
        AlterItem::AddCheck(check) => add_check(table, check, sql),
        AlterItem::DropIndex { name, if_exists } => drop_index(core, table, name, *if_exists),
        AlterItem::DropPrimary => {
            let at = table.indexes.iter().position(|index| index.kind == KeyKind::Primary);
            table.indexes.remove(at.ok_or_else(|| errors::cannot_drop("INDEX", "PRIMARY"))?);
            Ok(())
        }
        AlterItem::DropForeignKey { name, if_exists } => drop_foreign_key(core, table, name, *if_exists),
        AlterItem::DropConstraint { name, if_exists, is_check } => {
            drop_constraint(core, table, name, *if_exists, *is_check)
        }
        AlterItem::RenameIndex { old, new } => rename_index(table, old, new),
        AlterItem::RenameTable(name) => rename_table(core, catalog, schema, table, name),
        AlterItem::Options(options) => set_options(table, options),
        AlterItem::Convert { charset, collation } => convert_texts(table, charset, collation.as_deref()),
        AlterItem::Nothing => Ok(()),
    }
}

fn rename_index(table: &mut Table, old: &str, new: &str) -> Res<()> {
    if table.indexes.iter().any(|index| same_name(&index.name, new)) {
        return Err(errors::duplicate_key_name(new));
    }
    let table_name = table.name.clone();
    let index = table.indexes.iter_mut().find(|index| same_name(&index.name, old));
    index.ok_or_else(|| errors::unknown_key(old, &table_name))?.name = new.to_owned();
    Ok(())
}

/// Adds an index; with IF NOT EXISTS one of this name is noted, with OR REPLACE it goes.
fn add_new_index(core: &Core, table: &mut Table, index: &IndexSpec) -> Res<()> {
    if let Some(name) = &index.name {
        if index.if_not_exists && table.indexes.iter().any(|known| same_name(&known.name, name)) {
            core.env.note(errors::duplicate_key_name(name));
            return Ok(());
        }
        if index.or_replace {
            table.indexes.retain(|known| known.kind == KeyKind::Primary || !same_name(&known.name, name));
        }
    }
    add_index(table, index)
}

fn change_column(
    core: &Core,
    schema: &Schema,
    table: &mut Table,
    (old, spec, place): (&str, &ColumnSpec, &Place),
    sql: &[u8],
) -> Res<()> {
    let (position, column) = table.column(old).ok_or_else(|| unknown(old, table))?;
    let id = column.id;
    if !same_name(old, &spec.name) && table.column(&spec.name).is_some() {
        return Err(errors::duplicate_column(&spec.name));
    }
    let mut changed = column_of(core, schema, table, spec, id, sql)?;
    if table.primary().is_some_and(|index| index.parts.iter().any(|part| part.column == id)) {
        changed.nullable = false;
    }
    table.columns.remove(position);
    let at = place_of(table, place)?.unwrap_or(position);
    table.columns.insert(at, changed);
    shorten_prefixes(table, id);
    add_column_check(table, spec, id, sql);
    column_key(spec).map_or(Ok(()), |key| add_index(table, &key))
}

fn rename_column(table: &mut Table, old: &str, new: &str) -> Res<()> {
    check_name(new)?;
    let (position, _) = table.column(old).ok_or_else(|| unknown(old, table))?;
    if !same_name(old, new) && table.column(new).is_some() {
        return Err(errors::duplicate_column(new));
    }
    new.clone_into(&mut table.columns[position].name);
    Ok(())
}

fn drop_index(core: &Core, table: &mut Table, name: &str, if_exists: bool) -> Res<()> {
    match table.indexes.iter().position(|index| same_name(&index.name, name)) {
        Some(at) => {
            table.indexes.remove(at);
        }
        None if if_exists => core.env.note(errors::cannot_drop("INDEX", name)),
        None => return Err(errors::cannot_drop("INDEX", name)),
    }
    Ok(())
}

fn drop_foreign_key(core: &Core, table: &mut Table, name: &str, if_exists: bool) -> Res<()> {
    match table.foreign_keys.iter().position(|key| same_name(&key.name, name)) {
        Some(at) => {
            table.foreign_keys.remove(at);
        }
        None if if_exists => core.env.note(errors::cannot_drop("FOREIGN KEY", name)),
        None => return Err(errors::cannot_drop("FOREIGN KEY", name)),
    }
    Ok(())
}

/// Drops a CHECK of the table, or what else is a constraint with this name.
fn drop_constraint(core: &Core, table: &mut Table, name: &str, if_exists: bool, is_check: bool) -> Res<()> {
    let check = table.checks.iter().position(|check| check.column.is_none() && same_name(&check.name, name));
    if let Some(check) = check {
        table.checks.remove(check);
        return Ok(());
    }
    let key = table.foreign_keys.iter().position(|key| same_name(&key.name, name));
    if let Some(key) = key.filter(|_| !is_check) {
        table.foreign_keys.remove(key);
        return Ok(());
    }
    let is_unique = |index: &Index| index.kind.is_unique() && same_name(&index.name, name);
    if let Some(index) = table.indexes.iter().position(is_unique).filter(|_| !is_check) {
        table.indexes.remove(index);
        return Ok(());
    }
    let missing = errors::cannot_drop(if is_check { "CHECK" } else { "CONSTRAINT" }, name);
    if if_exists {
        core.env.note(missing);
        return Ok(());
    }
    Err(missing)
}

/// A name without a schema is one of the current schema, as in MariaDB.
fn rename_table(core: &Core, catalog: &Catalog, schema: &Schema, table: &mut Table, name: &TableName) -> Res<()> {
    if schema_of(core, name)?.id != schema.id {
        return Err(errors::unsupported("moving a table to another schema together with other changes"));
    }
    check_name(&name.name)?;
    if name.name != table.name && catalog.table(&name.name).is_some() {
        return Err(errors::table_exists(&name.name));
    }
    table.name.clone_from(&name.name);
    Ok(())
}

fn set_options(table: &mut Table, options: &TableOptions) -> Res<()> {
    if options.charset.is_some() || options.collation.is_some() {
        table.collation = collation_of(options.charset.as_deref(), options.collation.as_deref(), table.collation)?;
    }
    if let Some(comment) = &options.comment {
        table.comment.clone_from(comment);
    }
    if let Some(engine) = &options.engine {
        sequence::check_engine(engine)?;
        table.engine.clone_from(engine);
    }
    if let Some(next) = options.auto_increment {
        table.state.next_auto.store(0, Ordering::Release);
        table.state.stored_auto.store(next, Ordering::Release);
    }
    Ok(())
}

/// CONVERT TO CHARACTER SET: of the table and all its texts.
fn convert_texts(table: &mut Table, charset: &str, collation: Option<&str>) -> Res<()> {
    let collation = collation_of(Some(charset), collation, table.collation)?;
    table.collation = collation;
    for column in table
        .columns
        .iter_mut()
        .filter(|column| column.ty.base.is_character() && column.ty.base != crate::value::Base::Json)
    {
        column.ty.collation = collation;
    }
    Ok(())
}

fn drop_column(core: &Core, table: &mut Table, name: &str, if_exists: bool) -> Res<()> {
    let Some((position, column)) = table.column(name) else {
        if if_exists {
            core.env.note(errors::cannot_drop("COLUMN", name));
            return Ok(());
        }
        return Err(errors::cannot_drop("COLUMN", name));
    };
    let id = column.id;
    if table.foreign_keys.iter().any(|key| key.columns.contains(&id)) {
        let index = table.indexes.iter().find(|index| index.parts.iter().any(|part| part.column == id));
        return Err(errors::index_needed(index.map_or(name, |index| &index.name)));
    }
    if table.columns.len() == 1 {
        return Err(errors::last_column());
    }
    let of_column = |check: &Check| check.column == Some(id) || is_about_alone(&check.text, table, id);
    let stays: Vec<bool> = table.checks.iter().map(|check| !of_column(check)).collect();
    let mut stays = stays.into_iter();
    table.checks.retain(|_| stays.next().unwrap_or(true));
    table.columns.remove(position);
    for index in &mut table.indexes {
        index.parts.retain(|part| part.column != id);
    }
    table.indexes.retain(|index| !index.parts.is_empty());
    Ok(())
}

/// Whether a column's stored values mean the same under another definition.
fn same_storage(old: &Column, new: &Column) -> bool {
    let (a, b) = (&old.ty, &new.ty);
    if old.nullable && !new.nullable || a.rep() != b.rep() || old.storage() != new.storage() {
        return false;
    }
    match a.rep() {
        Rep::Int | Rep::Uint if a.base.is_integer() && b.base.is_integer() => {
            let ((low_a, high_a), (low_b, high_b)) = (a.int_range(), b.int_range());
            a.base == b.base && a.unsigned == b.unsigned || low_b <= low_a && high_a <= high_b
        }
        Rep::Text | Rep::Blob => a.base == b.base && a.length <= b.length && a.collation == b.collation,
        _ => {
            a.base == b.base
                && a.length == b.length
                && a.decimals == b.decimals
                && a.members == b.members
                && a.unsigned == b.unsigned
        }
    }
}

/// Makes SQLite's table fit the new definition; answers the rows copied.
fn rebuild(
    core: &Core,
    conn: &mut Conn,
    catalog: &Catalog,
    schema: &Arc<Schema>,
    old: &Table,
    new: &mut Table,
) -> Res<u64> {
    let kept = |column: &Column| old.columns.iter().find(|known| known.id == column.id);
    let converted = new.columns.iter().any(|column| kept(column).is_some_and(|known| !same_storage(known, column)));
    let rowid = |table: &Table| table.rowid_column().map(|position| table.columns[position].id);
    let keys = old.foreign_keys.len() != new.foreign_keys.len()
        || old.foreign_keys.iter().zip(&new.foreign_keys).any(|(a, b)| a.name != b.name);
    let added: Vec<&Column> = new.columns.iter().filter(|column| kept(column).is_none()).collect();
    let simple = added.iter().all(|column| {
        physical::constant_default(column).is_some() && !column.auto_increment && column.generated.is_none()
    });
    let generated = |table: &Table| -> Vec<_> {
        table.columns.iter().filter_map(|column| Some((column.id, column.generated.clone()?))).collect()
    };
    let ruled = generated(old).iter().ne(generated(new).iter().filter(|new| generated(old).contains(new)))
        || generated(new).len() > generated(old).len()
        || new.checks.iter().any(|check| !old.checks.contains(check));
    let dropped: Vec<&Column> =
        old.columns.iter().filter(|column| !new.columns.iter().any(|other| other.id == column.id)).collect();
    let must_copy = ruled || converted || rowid(old) != rowid(new) || keys || !simple;
    let way = physical::Interim::of(conn, catalog, old)?;
    if must_copy || way.is_sooner(conn, catalog, old, &added, &dropped)? {
        return copy_rows(core, conn, schema, way, old, new);
    }
    for index in &old.indexes {
        let same = new
            .indexes
            .iter()
            .any(|other| other.id == index.id && other.kind == index.kind && other.parts == index.parts);
        if !same && index.kind == KeyKind::Fulltext {
            fulltext::remove(conn, old.id, index)?;
        } else if !same && let Some(sql) = old.drop_index_sql(index) {
            conn.execute(&sql).map_err(internal)?;
        }
    }
    for column in dropped {
        conn.execute(&format!("ALTER TABLE t{} DROP COLUMN c{}", old.id, column.id)).map_err(internal)?;
    }
    if !added.is_empty() {
        physical::add_columns(conn, old, &added)?;
    }
    for index in &new.indexes {
        let same = old
            .indexes
            .iter()
            .any(|other| other.id == index.id && other.kind == index.kind && other.parts == index.parts);
        if !same && index.kind == KeyKind::Fulltext {
            fulltext::create(conn, new, index)?;
        } else if !same && let Some(sql) = new.create_index_sql(index) {
            create_index(conn, new, index, &sql)?;
        }
    }
    Ok(0)
}

/// Creates an index over existing rows; duplicates are told with their value.
fn create_index(conn: &Conn, table: &Table, index: &Index, sql: &str) -> Res<()> {
    match conn.execute(sql) {
        Ok(()) => statistics::forget(&table.state.changes, conn, &table.physical()).map_err(internal),
        Err(error) if error.is_unique() => {
            let parts = table.key_parts(index);
            let list = parts.join(", ");
            let known: Vec<String> = parts.iter().map(|part| format!("{part} IS NOT NULL")).collect();
            let sql = format!(
                "SELECT {list} FROM t{} WHERE {} GROUP BY {list} HAVING count(*) > 1 LIMIT 1",
                table.id,
                known.join(" AND ")
            );
            let mut stmt = conn.prepare(&sql).map_err(internal)?;
            let found = stmt.step().map_err(internal)? == Step::Row;
            let values = (0..index.parts.len()).filter(|_| found).map(|number| stmt.cell(number));
            Err(errors::duplicate_entry(shown_key(table, index, values), &index.name))
        }
        Err(error) => Err(internal(error)),
    }
}

/// Copies all rows into a table of the new definition, which takes the old one's name.
fn copy_rows(
    core: &Core,
    conn: &mut Conn,
    schema: &Arc<Schema>,
    way: physical::Interim,
    old: &Table,
    new: &mut Table,
) -> Res<u64> {
    // The copy takes the old table's number in the end, so that foreign keys of others go on meaning it. They are not checked
    // while definitions change (`change`), so nothing happens to their rows when the old table goes.
    let copy_id = next_table_id(conn)?;
    way.create(conn, &new.create_sql_as(copy_id))?;
    let to = TargetTable::of(&session_of(core, schema), schema, &Arc::new(Table { id: copy_id, ..copy(new) }))?;
    let origin = |column: &Column| match old.columns.iter().position(|known| known.id == column.id) {
        _ if column.generated.is_some() => Origin::Default,
        Some(position) if same_storage(&old.columns[position], column) => Origin::Same(position),
        Some(position) => Origin::Converted(position, Out::of(&old.columns[position].ty)),
        None => Origin::added(column),
    };
    let origins: Vec<Origin> = new.columns.iter().map(origin).collect();
    let source: Vec<String> = old.columns.iter().map(|column| format!("c{}", column.id)).collect();
    let mut read =
        conn.prepare(&format!("SELECT {} FROM t{} ORDER BY rowid", source.join(", "), old.id)).map_err(internal)?;
    let (constants, mut stmts) =
        (Constants { sql: &[], literals: &[], params: Params::NONE, env: &core.env }, Prepared::default());
    let memory_max = core.engine.settings.statement_memory_max();
    let mut writer = Writer { memory_max, ..Writer::new(conn, constants, &core.env, &mut stmts) };
    let rows = writer.copy_rows(&to, &origins, &mut read)?;
    drop((read, stmts));
    fulltext::remove_all(conn, old)?;
    way.replace(conn, old.id, copy_id, &new.create_sql_as(old.id))?;
    for index in &new.indexes {
        if let Some(sql) = new.create_index_sql(index) {
            create_index(conn, new, index, &sql)?;
        }
    }
    fulltext::create_all(conn, new)?;
    statistics::forget(&new.state.changes, conn, &new.physical()).map_err(internal)?;
    if rows > 0 && origins.iter().any(|origin| matches!(origin, Origin::Number)) {
        new.state.next_auto.store(rows as u64 + 1, Ordering::Release);
    }
    Ok(rows as u64)
}
