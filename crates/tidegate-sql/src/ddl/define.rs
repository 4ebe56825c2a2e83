//! Definitions of tables: from the written form to the catalogue's.

use std::sync::{Arc, atomic::Ordering};

use super::{Res, check_name, internal, next_table_id, sequence};
use crate::{
    catalog::{Catalog, Check, ForeignKey, Index, IndexPart, Table, TableState, parent_id},
    coerce::Target,
    column::{Column, Default, Generated, same_name},
    errors,
    parse::{CheckSpec, ColumnSpec, CreateTable, DefaultSpec, ForeignKeySpec, IndexSpec, KeyKind},
    schema::Schema,
    session::Core,
    store::conn::Conn,
    value::{
        Base, Rep, SqlType, Val,
        collation::{Collation, collation_of},
    },
};

/// Columns of a table; SQLite's limit.
const COLUMNS_MAX: usize = 2000;

/// What translations of a table's expressions see.
pub(super) fn session_of<'s>(core: &'s Core, schema: &'s Arc<Schema>) -> crate::translate::Session<'s> {
    crate::translate::Session::new(&core.engine, &core.above.library, Some(schema), &core.env)
}

/// Creates SQLite's table and indexes.
///
/// # Errors
/// SQLite's; unique indexes over existing rows that are not.
pub(super) fn build(conn: &Conn, table: &Table) -> Res<()> {
    conn.execute(&table.create_sql()).map_err(internal)?;
    for index in &table.indexes {
        if let Some(sql) = table.create_index_sql(index) {
            conn.execute(&sql).map_err(internal)?;
        }
    }
    super::fulltext::create_all(conn, table)
}

pub(super) fn define(
    core: &Core,
    conn: &Conn,
    catalog: &Catalog,
    schema: &Schema,
    create: &CreateTable,
    sql: &[u8],
) -> Res<Table> {
    let otherwise = catalog.collation.unwrap_or(Collation::DEFAULT);
    let collation = collation_of(create.options.charset.as_deref(), create.options.collation.as_deref(), otherwise)?;
    if create.columns.is_empty() {
        return Err(errors::no_columns());
    }
    if create.columns.len() > COLUMNS_MAX {
        return Err(errors::too_many_columns());
    }
    create.options.engine.as_deref().map_or(Ok(()), sequence::check_engine)?;
    let mut table = Table {
        id: next_table_id(conn)?,
        name: create.name.name.clone(),
        columns: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        engine: create.options.engine.clone().unwrap_or_else(|| "InnoDB".into()),
        collation,
        comment: create.options.comment.clone().unwrap_or_default(),
        created: core.env.now_micros() / 1_000_000,
        view: None,
        next_column_id: 1,
        state: Arc::new(TableState::default()),
    };
    let promised = promised(catalog, &create.name.name);
    if let Some(promised) = &promised {
        table.id = promised.table;
        table.next_column_id = promised.columns.iter().map(|(_, id)| id + 1).max().unwrap_or(1);
    }
    for spec in &create.columns {
        add_column(core, schema, &mut table, spec, None, sql)?;
        if let Some((_, id)) =
            promised.iter().flat_map(|all| &all.columns).find(|(name, _)| same_name(name, &spec.name))
            && let Some(column) = table.columns.last_mut()
        {
            column.id = *id;
        }
    }
    for check in &create.checks {
        add_check(&mut table, check, sql)?;
    }
    let column_keys: Vec<IndexSpec> = create.columns.iter().filter_map(column_key).collect();
    let (primary, others): (Vec<&IndexSpec>, Vec<&IndexSpec>) =
        column_keys.iter().chain(&create.indexes).partition(|index| index.kind == KeyKind::Primary);
    for index in primary.into_iter().chain(others) {
        add_index(&mut table, index)?;
    }
    for key in &create.foreign_keys {
        add_foreign_key(conn, catalog, schema, &mut table, key, core.env.foreign_keys.get())?;
    }
    check_auto(&table)?;
    if let Some(next) = create.options.auto_increment {
        table.state.stored_auto.store(next, Ordering::Release);
    }
    Ok(table)
}

/// The index that a column's own PRIMARY KEY or UNIQUE makes.
pub(super) fn column_key(spec: &ColumnSpec) -> Option<IndexSpec> {
    Some(IndexSpec {
        or_replace: false,
        if_not_exists: false,
        kind: spec.key?,
        name: None,
        parts: vec![(spec.name.clone(), None, false)],
        comment: String::new(),
    })
}

/// There is one AUTO_INCREMENT column at most, first in some index.
///
/// # Errors
/// 1075.
pub(super) fn check_auto(table: &Table) -> Res<()> {
    let autos: Vec<&Column> = table.columns.iter().filter(|column| column.auto_increment).collect();
    match autos.as_slice() {
        [] => Ok(()),
        [auto] if table.indexes.iter().any(|index| index.parts.first().is_some_and(|part| part.column == auto.id)) => {
            Ok(())
        }
        _ => Err(errors::wrong_auto_increment()),
    }
}

/// Adds a column at a position (at the end if there is none).
///
/// # Errors
/// 1060, 1067 and others about the definition.
pub(super) fn add_column(
    core: &Core,
    schema: &Schema,
    table: &mut Table,
    spec: &ColumnSpec,
    at: Option<usize>,
    sql: &[u8],
) -> Res<()> {
    if table.column(&spec.name).is_some() {
        return Err(errors::duplicate_column(&spec.name));
    }
    let id = table.next_column_id;
    let column = column_of(core, schema, table, spec, id, sql)?;
    table.next_column_id += 1;
    table.columns.insert(at.unwrap_or(table.columns.len()), column);
    add_column_check(table, spec, id, sql);
    Ok(())
}

/// A column as the catalogue has it.
///
/// # Errors
/// 1067 for a default that is none, 1063 for AUTO_INCREMENT on what cannot count.
pub(super) fn column_of(
    core: &Core,
    schema: &Schema,
    table: &Table,
    spec: &ColumnSpec,
    id: u32,
    sql: &[u8],
) -> Res<Column> {
    check_name(&spec.name)?;
    let mut ty = spec.ty.clone();
    if ty.marks.real && core.env.sql_mode.get() & crate::sql_mode::REAL_AS_FLOAT != 0 {
        ty = SqlType { decimals: ty.decimals, ..SqlType::new(Base::Float) };
    }
    if ty.base.is_character() && !spec.is_json {
        ty.set_charset(spec.charset.as_deref(), spec.collation.as_deref(), table.collation)?;
    }
    let limit = match ty.base {
        Base::Char | Base::Binary => 255,
        Base::Varchar => 65_535 / ty.collation.char_bytes_max(),
        Base::Varbinary => 65_535,
        _ => u32::MAX,
    };
    if ty.length > limit {
        return Err(errors::column_too_long(&spec.name, limit));
    }
    if spec.auto_increment && !ty.base.is_integer() {
        return Err(errors::wrong_column_specifier(&spec.name));
    }
    if let Some(members) = ty.members.as_deref() {
        let kind = if ty.base == Base::Enum { "ENUM" } else { "SET" };
        for (index, member) in members.iter().enumerate() {
            let twice = |other: &str| ty.collation.compare(other.as_bytes(), member.as_bytes()).is_eq();
            if members[..index].iter().any(|other| twice(other)) {
                return Err(errors::duplicated_member(&spec.name, member, kind));
            }
        }
    }
    let primary = spec.key == Some(KeyKind::Primary);
    let nullable = spec.nullable.unwrap_or(true) && !spec.auto_increment && !primary;
    let mut column = Column {
        id,
        name: spec.name.clone(),
        ty,
        nullable,
        default: Default::None,
        on_update: spec.on_update,
        auto_increment: spec.auto_increment,
        generated: spec.generated.map(|(span, stored)| Generated { text: text_of(sql, span), stored }),
        comment: spec.comment.clone(),
    };
    column.default = default_of(core, schema, table, &column, &spec.default, sql)?;
    if spec.on_update && !matches!(column.ty.base, Base::Datetime | Base::Timestamp) {
        return Err(errors::invalid_on_update(&spec.name));
    }
    Ok(column)
}

/// The default of a column, checked by storing it.
///
/// # Errors
/// 1067.
pub(super) fn default_of(
    core: &Core,
    schema: &Schema,
    table: &Table,
    column: &Column,
    spec: &DefaultSpec,
    sql: &[u8],
) -> Res<Default> {
    let invalid = || errors::invalid_default(&column.name);
    let (value, given) = match spec {
        DefaultSpec::None => return Ok(Default::None),
        DefaultSpec::Null if column.nullable => return Ok(Default::Null),
        DefaultSpec::Null => return Err(invalid()),
        DefaultSpec::Expression(span) => {
            return Ok(Default::Expression(sequence::in_default(text_of(sql, *span), &schema.name)));
        }
        DefaultSpec::Now => {
            let fits = matches!(column.ty.base, Base::Datetime | Base::Timestamp);
            return if fits { Ok(Default::Now) } else { Err(invalid()) };
        }
        DefaultSpec::Number(number) => match number.parse::<i64>() {
            Ok(value) => (Val::Int(value), number.clone()),
            Err(_) => (Val::Text(number.as_bytes().into()), number.clone()),
        },
        DefaultSpec::Text(text) => (Val::Text(text.as_bytes().into()), text.clone()),
        DefaultSpec::Bytes(bytes) => {
            let number = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
            let value = if column.ty.base.is_number() { Val::Uint(number) } else { Val::Blob(bytes.as_slice().into()) };
            (value, String::from_utf8_lossy(bytes).into_owned())
        }
    };
    if column.auto_increment {
        return Err(invalid());
    }
    let (schema, table) = (schema.name.as_str(), table.name.as_str());
    let target = Target { schema, table, view: None, column, row: 1, strict: true, env: &core.env };
    let value = target.coerce(value).map_err(|_| invalid())?;
    // The text is shown as the column would show the value.
    let mut shown = Vec::new();
    crate::value::out::Out::of(&column.ty).write(value.as_cell(), &mut shown);
    let text = match (column.ty.rep(), column.ty.base) {
        (Rep::Blob, _) => given,
        (_, Base::Bit) => crate::value::uint_of(value.as_cell()).to_string(),
        _ => String::from_utf8_lossy(&shown).into_owned(),
    };
    let quoted = !column.ty.base.is_number();
    Ok(Default::Literal { text, quoted, value })
}

/// Adds an index.
///
/// # Errors
/// 1061, 1068, 1072, 1170.
pub(super) fn add_index(table: &mut Table, spec: &IndexSpec) -> Res<()> {
    if spec.kind == KeyKind::Primary && table.primary().is_some() {
        return Err(errors::multiple_primary_keys());
    }
    let mut parts = Vec::new();
    for (name, prefix, descending) in &spec.parts {
        let (position, column) = table.column(name).ok_or_else(|| errors::unknown_key_column(name))?;
        let id = column.id;
        if parts.iter().any(|part: &IndexPart| part.column == id) {
            return Err(errors::duplicate_column(name));
        }
        // All of a text is searched, whatever is said.
        let partial = if spec.kind == KeyKind::Fulltext { None } else { prefix_of(column, spec.kind, *prefix)? };
        if spec.kind == KeyKind::Primary {
            table.columns[position].nullable = false;
            if table.columns[position].default == Default::Null {
                table.columns[position].default = Default::None;
            }
        }
        let descending = *descending && spec.kind.is_ordered();
        parts.push(IndexPart { column: id, prefix: partial, descending });
    }
    let name = index_name(table, spec)?;
    let id = table.indexes.iter().map(|index| index.id).max().unwrap_or(0) + 1;
    if spec.kind.is_ordered() {
        let serves = |columns: &[IndexPart]| {
            columns.len() <= parts.len()
                && columns.iter().zip(&parts).all(|(one, other)| one.column == other.column && other.prefix.is_none())
        };
        table.indexes.retain(|index| !index.generated || !serves(&index.parts));
    }
    let index = Index { id, name, kind: spec.kind, parts, comment: spec.comment.clone(), generated: false };
    table.indexes.push(index);
    table.sort_indexes();
    Ok(())
}

/// How much of a column an index compares; `None` for all of it.
///
/// # Errors
/// 1089 for a column that has no beginning, or a shorter one; 1170, 1391.
fn prefix_of(column: &Column, kind: KeyKind, prefix: Option<u32>) -> Res<Option<u32>> {
    let ty = &column.ty;
    match prefix {
        // MariaDB cuts an index over a whole text to what its keys hold, but not a unique one.
        None if ty.base.is_blob() && kind == KeyKind::Plain => Ok(Some(768)),
        None if ty.base.is_blob() && kind == KeyKind::Primary => Err(errors::blob_key(&column.name)),
        None => Ok(None),
        Some(0) => Err(errors::empty_key_part(&column.name)),
        Some(_) if !matches!(ty.rep(), Rep::Text | Rep::Blob) || ty.base == Base::Bit => {
            Err(errors::wrong_key_prefix())
        }
        Some(length) if !ty.base.is_blob() && length > ty.length => Err(errors::wrong_key_prefix()),
        Some(length) if !ty.base.is_blob() && length == ty.length => Ok(None),
        Some(length) => Ok(Some(length)),
    }
}

/// What indexes compare of a column that has got another type: all of it, where they compared no less than it has now.
pub(super) fn shorten_prefixes(table: &mut Table, id: u32) {
    let Some(position) = table.position(id) else { return };
    let ty = table.columns[position].ty.clone();
    let has_room =
        |prefix: &u32| matches!(ty.rep(), Rep::Text | Rep::Blob) && (ty.base.is_blob() || *prefix < ty.length);
    for part in table.indexes.iter_mut().flat_map(|index| &mut index.parts).filter(|part| part.column == id) {
        part.prefix = part.prefix.filter(has_room);
    }
}

fn index_name(table: &Table, spec: &IndexSpec) -> Res<String> {
    if spec.kind == KeyKind::Primary {
        return Ok("PRIMARY".into());
    }
    let taken = |name: &str| table.indexes.iter().any(|index| same_name(&index.name, name));
    match &spec.name {
        Some(name) if taken(name) => Err(errors::duplicate_key_name(name)),
        Some(name) => {
            check_name(name)?;
            Ok(name.clone())
        }
        None => {
            let first = &spec.parts[0].0;
            let mut name = table.column(first).map_or_else(|| first.clone(), |(_, column)| column.name.clone());
            let mut number = 2;
            while taken(&name) {
                name = format!("{first}_{number}");
                number += 1;
            }
            Ok(name)
        }
    }
}

/// Adds a foreign key, with an index for its columns if there is none. Parent and columns keep name and physical name.
///
/// # Errors
/// 1005 if it fits nothing.
pub(super) fn add_foreign_key(
    conn: &Conn,
    catalog: &Catalog,
    schema: &Schema,
    table: &mut Table,
    spec: &ForeignKeySpec,
    checks: bool,
) -> Res<()> {
    let mut columns = Vec::new();
    for name in &spec.columns {
        columns.push(table.column(name).ok_or_else(|| errors::unknown_key_column(name))?.1.id);
    }
    if spec.table.schema.as_ref().is_some_and(|name| *name != schema.name) {
        return Err(errors::unsupported("foreign keys to another schema"));
    }
    let (parent_name, references) = resolve_parent(conn, catalog, schema, table, spec, &columns, checks)?;
    let covered = table.indexes.iter().any(|index| {
        index.kind.is_ordered()
            && index.parts.len() >= columns.len()
            && index.parts.iter().zip(&columns).all(|(part, column)| part.column == *column)
    });
    let name = match &spec.name {
        Some(name) => name.clone(),
        None => (1..)
            .map(|number| format!("{}_ibfk_{number}", table.name))
            .find(|name| !table.foreign_keys.iter().any(|key| key.name == *name))
            .unwrap_or_default(),
    };
    if !covered {
        let parts = spec.columns.iter().map(|name| (name.clone(), None, false)).collect();
        let index_name =
            spec.name.clone().filter(|name| !table.indexes.iter().any(|index| same_name(&index.name, name)));
        let (or_replace, if_not_exists, kind, comment) = (false, false, KeyKind::Plain, String::new());
        add_index(table, &IndexSpec { or_replace, if_not_exists, kind, name: index_name, parts, comment })?;
        if let Some(index) = table.indexes.iter_mut().max_by_key(|index| index.id) {
            index.generated = true;
        }
    }
    table.foreign_keys.push(ForeignKey {
        name,
        columns,
        table: parent_name,
        references,
        on_delete: spec.on_delete.to_owned(),
        on_update: spec.on_update.to_owned(),
    });
    Ok(())
}

/// The physical names that foreign keys have promised a table that does not exist.
struct Promised {
    table: i64,
    columns: Vec<(String, u32)>,
}

/// What foreign keys of other tables expect of a table with this name.
fn promised(catalog: &Catalog, name: &str) -> Option<Promised> {
    let mut found: Option<Promised> = None;
    let keys = catalog.tables.values().flat_map(|table| &table.foreign_keys);
    for key in keys.filter(|key| key.table.split('\u{0}').next() == Some(name)) {
        let Some(id) = parent_id(key).filter(|id| catalog.by_id(*id).is_none()) else { continue };
        let promised = found.get_or_insert(Promised { table: id, columns: Vec::new() });
        for column in &key.references {
            if let Some((name, physical)) = column.split_once('\u{0}')
                && let Some(id) = physical.strip_prefix('c').and_then(|id| id.parse().ok())
                && !promised.columns.iter().any(|(known, _)| same_name(known, name))
            {
                promised.columns.push((name.to_owned(), id));
            }
        }
    }
    found
}

/// Physical names for a parent that comes later: its CREATE TABLE takes them up.
fn promise(conn: &Conn, catalog: &Catalog, spec: &ForeignKeySpec) -> Res<(String, Vec<String>)> {
    let known = promised(catalog, &spec.table.name);
    let mut known = match known {
        Some(known) => known,
        None => Promised { table: next_table_id(conn)?, columns: Vec::new() },
    };
    let mut references = Vec::new();
    for name in &spec.references {
        let id = known.columns.iter().find(|(column, _)| same_name(column, name)).map(|(_, id)| *id);
        let id = id.unwrap_or_else(|| known.columns.iter().map(|(_, id)| id + 1).max().unwrap_or(1));
        if !known.columns.iter().any(|(column, _)| same_name(column, name)) {
            known.columns.push((name.clone(), id));
        }
        references.push(format!("{name}\u{0}c{id}"));
    }
    Ok((format!("{}\u{0}t{}", spec.table.name, known.table), references))
}

/// A part of the statement's text.
pub(super) fn text_of(sql: &[u8], (from, to): (usize, usize)) -> String {
    String::from_utf8_lossy(sql.get(from..to).unwrap_or_default()).into_owned()
}

/// Adds a CHECK of the table.
///
/// # Errors
/// 1826 for a name that is taken.
pub(super) fn add_check(table: &mut Table, spec: &CheckSpec, sql: &[u8]) -> Res<()> {
    let taken = |name: &str| table.checks.iter().any(|check| check.column.is_none() && same_name(&check.name, name));
    let name = match &spec.name {
        Some(name) if taken(name) => return Err(errors::duplicate_check(name)),
        Some(name) => {
            check_name(name)?;
            name.clone()
        }
        None => (1..).map(|number| format!("CONSTRAINT_{number}")).find(|name| !taken(name)).unwrap_or_default(),
    };
    table.checks.push(Check { name, text: text_of(sql, spec.text), column: None });
    Ok(())
}

/// Replaces the CHECK of a column's definition.
pub(super) fn add_column_check(table: &mut Table, spec: &ColumnSpec, id: u32, sql: &[u8]) {
    table.checks.retain(|check| check.column != Some(id));
    if let Some(span) = spec.check {
        // Those of columns come before those of the table.
        let at = table.checks.iter().position(|check| check.column.is_none()).unwrap_or(table.checks.len());
        table.checks.insert(at, Check { name: spec.name.clone(), text: text_of(sql, span), column: Some(id) });
    }
}

/// The parent's name and its columns', each with the physical one behind a NUL.
fn resolve_parent(
    conn: &Conn,
    catalog: &Catalog,
    schema: &Schema,
    table: &Table,
    spec: &ForeignKeySpec,
    columns: &[u32],
    checks: bool,
) -> Res<(String, Vec<String>)> {
    let bad = || errors::bad_foreign_key(format!("`{}`.`{}`", schema.name, table.name));
    let parent: &Table = if spec.table.name == table.name {
        table
    } else {
        match catalog.table(&spec.table.name) {
            Some(parent) if !parent.is_view() => parent,
            _ if !checks => return promise(conn, catalog, spec),
            _ => return Err(bad()),
        }
    };
    let (mut references, mut ids) = (Vec::new(), Vec::new());
    for (index, name) in spec.references.iter().enumerate() {
        let (_, column) = parent.column(name).ok_or_else(bad)?;
        let child = table.columns.iter().find(|column| Some(&column.id) == columns.get(index)).ok_or_else(bad)?;
        if child.ty.rep() != column.ty.rep() || child.ty.unsigned != column.ty.unsigned {
            return Err(bad());
        }
        references.push(format!("{}\u{0}c{}", column.name, column.id));
        ids.push(column.id);
    }
    if references.len() != columns.len() {
        return Err(bad());
    }
    let unique = parent.indexes.iter().any(|index| {
        index.identifies_rows()
            && index.parts.len() == ids.len()
            && index.parts.iter().all(|part| ids.contains(&part.column))
    });
    let has_index = parent.indexes.iter().any(|index| {
        let parts = index.parts.get(..ids.len()).unwrap_or_default();
        !parts.is_empty() && parts.iter().zip(&ids).all(|(part, id)| part.column == *id && part.prefix.is_none())
    });
    if !unique && !has_index {
        return Err(bad());
    }
    if !unique {
        return Err(errors::unsupported("foreign keys to columns without a unique index"));
    }
    Ok((format!("{}\u{0}{}", parent.name, parent.physical()), references))
}
