//! CREATE TABLE.

use std::sync::Arc;

use tidegate_rows::{QueryError, Sink};

use super::{
    Res, change, check_name,
    define::{build, define, session_of},
    fulltext, internal, next_table_id, schema_of,
};
use crate::{
    catalog::{Catalog, Table, TableState},
    catalog_file,
    column::{Default, same_name},
    errors,
    identifier::quoted,
    parse::{ColumnSpec, CreateTable, DefaultSpec, TableName},
    schema::Schema,
    session::Core,
    store::conn::Conn,
    translate::{
        Origin,
        rules::{check_auto_increment, check_cascades, rules_of},
    },
    value::{Base, SqlType},
};

/// Carries out CREATE TABLE.
///
/// # Errors
/// MySQL's.
pub(super) fn create_table(
    core: &mut Core,
    mut create: CreateTable,
    sql: &[u8],
    more: bool,
    sink: &mut dyn Sink,
) -> Result<Option<u64>, QueryError> {
    check_name(&create.name.name)?;
    let schema = schema_of(core, &create.name)?;
    let written = create.name.clone();
    if create.temporary {
        if create.if_not_exists && core.env.temporary(&schema.name, &written.name).is_some() {
            core.env.note(errors::table_exists(&written.name));
            return Ok(Some(0));
        }
        if !create.foreign_keys.is_empty() {
            return Err(errors::unsupported("foreign keys of temporary tables").into());
        }
        create.name = super::temporary::create(core, &written)?;
    }
    let query = match make(core, &schema, &mut create, sql) {
        Err(error) if create.if_not_exists && error.code == errors::TABLE_EXISTS => {
            core.env.note(error);
            return Ok(Some(0));
        }
        made => made?,
    };
    if let Some(select) = &query {
        fill(core, &schema, &create.name.name, select, (more, sink))?;
    }
    if create.temporary {
        core.env.set_temporary(&schema.name, &written.name, Some(create.name.name.clone()));
    }
    Ok(if query.is_some() { None } else { Some(0) })
}

/// Gives a new table its rows, or drops it again.
///
/// The table has a name of its own meanwhile: the query may read another one that the session has under the name.
fn fill(
    core: &mut Core,
    schema: &Schema,
    table: &str,
    select: &str,
    to: (bool, &mut dyn Sink),
) -> Result<(), QueryError> {
    const NEW: &str = "#new";
    let sql = format!("INSERT INTO {}.`{NEW}` {select}", quoted(&schema.name));
    core.env.set_temporary(&schema.name, NEW, Some(table.to_owned()));
    let filled = core.run_own(&sql, to.0, to.1);
    if filled.is_err() {
        let named = |name: &str| TableName { schema: Some(schema.name.clone()), name: name.to_owned() };
        match crate::temporary_name::is_hidden(table) {
            true => super::drop_some_tables(core, vec![named(NEW)], true, true)?,
            false => super::drop_tables(core, &[named(table)], true, false)?,
        };
    }
    core.env.set_temporary(&schema.name, NEW, None);
    filled
}

/// Makes the table without rows; answers the query that they come from.
///
/// # Errors
/// 1050 and MySQL's others.
fn make(core: &mut Core, schema: &Arc<Schema>, create: &mut CreateTable, sql: &[u8]) -> Res<Option<String>> {
    let name = create.name.name.clone();
    let check_free = |catalog: &Catalog| match catalog.table(&name) {
        Some(_) => Err(errors::table_exists(&name)),
        None => Ok(()),
    };
    // Before the query is looked at, and nobody waits for a lock.
    check_free(&*schema.catalog()?)?;
    let query = take_query(core, schema, create, sql)?;
    let like = match &create.like {
        Some(name) => Some(model(core, name)?),
        None => None,
    };
    change(core, schema, &[&name], |conn, catalog| {
        // Another session may have made it while this one waited for the lock.
        check_free(catalog)?;
        let table = match &like {
            Some(like) => copy_of(core, conn, like, &name)?,
            None => define(core, conn, catalog, schema, create, sql)?,
        };
        fulltext::check(&table)?;
        rules_of(&session_of(core, schema), &table)?;
        check_auto_increment(&table)?;
        check_cascades(&table)?;
        build(conn, &table)?;
        catalog_file::store(conn, &table).map_err(internal)
    })?;
    Ok(query)
}

/// The text of the query that the rows come from, whose columns join those that are written.
fn take_query(core: &mut Core, schema: &Arc<Schema>, create: &mut CreateTable, sql: &[u8]) -> Res<Option<String>> {
    let Some((from, to)) = create.query.take() else { return Ok(None) };
    let select = String::from_utf8_lossy(&sql[from..to]).into_owned();
    for column in
        super::describe_view(core, &select, core.env.statement_mode(), core.schema.as_ref().unwrap_or(schema))?
    {
        if !create.columns.iter().any(|known| same_name(&known.name, &column.name)) {
            let default = column.ex.origin.as_ref().map_or(DefaultSpec::None, |origin| default_of_origin(core, origin));
            create.columns.push(ColumnSpec { default, ..spec_of(column.name, column.ex.ty, column.ex.nullable) });
        }
    }
    Ok(Some(select))
}

/// The table that another is to be LIKE.
fn model(core: &Core, name: &TableName) -> Res<Arc<Table>> {
    let schema = schema_of(core, name)?;
    let table = schema.catalog()?.table(&core.actual(name).name).cloned();
    match table.filter(|table| !table.is_view()) {
        Some(table) if table.is_sequence() => Err(errors::not_of_sequences(&schema.name, &name.name)),
        table => table.ok_or_else(|| errors::no_such_table(&schema.name, &name.name)),
    }
}

fn copy_of(core: &Core, conn: &Conn, like: &Table, name: &str) -> Res<Table> {
    Ok(Table {
        id: next_table_id(conn)?,
        name: name.to_owned(),
        columns: like.columns.clone(),
        indexes: like.indexes.clone(),
        foreign_keys: Vec::new(),
        checks: like.checks.clone(),
        engine: like.engine.clone(),
        collation: like.collation,
        comment: like.comment.clone(),
        created: core.env.now_micros() / 1_000_000,
        view: None,
        next_column_id: like.next_column_id,
        state: Arc::new(TableState::default()),
    })
}

/// The default of a column that CREATE TABLE … SELECT takes over: literals and the time.
fn default_of_origin(core: &Core, origin: &Origin) -> DefaultSpec {
    let name = TableName { schema: Some(origin.schema.clone()), name: origin.table.clone() };
    let Ok(catalog) = core.engine.schema(&origin.schema).and_then(|schema| schema.catalog()) else {
        return DefaultSpec::None;
    };
    let table = catalog.table(&core.actual(&name).name);
    let Some((_, column)) = table.and_then(|table| table.column(&origin.column)) else { return DefaultSpec::None };
    match &column.default {
        Default::Literal { text, quoted: true, .. } if !column.ty.base.is_binary() => DefaultSpec::Text(text.clone()),
        Default::Literal { text, quoted: false, .. } if text.parse::<f64>().is_ok() => {
            DefaultSpec::Number(text.clone())
        }
        Default::Now => DefaultSpec::Now,
        _ => DefaultSpec::None,
    }
}

fn spec_of(name: String, ty: SqlType, nullable: bool) -> ColumnSpec {
    let ty = match ty.base {
        Base::Null => SqlType { length: 0, ..SqlType::new(Base::Binary) },
        Base::Varchar if ty.length > 16_383 => SqlType { collation: ty.collation, ..SqlType::new(Base::LongText) },
        Base::Varbinary if ty.length > 65_535 => SqlType::new(Base::LongBlob),
        _ => ty,
    };
    let text = ty.base.is_character();
    ColumnSpec {
        name,
        charset: text.then(|| ty.collation.charset().to_owned()),
        collation: text.then(|| ty.collation.name().to_owned()),
        is_json: ty.base == Base::Json,
        ty,
        nullable: Some(nullable),
        default: DefaultSpec::None,
        on_update: false,
        auto_increment: false,
        comment: String::new(),
        key: None,
        generated: None,
        check: None,
    }
}
