//! CREATE TABLE.

use std::sync::Arc;

use tidegate_rows::{QueryError, Sink};

use super::{
    Res, change, check_name,
    define::{build, define, session_of},
    fulltext, internal, next_table_id,
    replace::{self, Old},
    schema_of, temporary,
};
use crate::{
    catalog::{Table, TableState},
    catalog_file,
    column::{Default, same_name},
    errors,
    identifier::quoted,
    parse::{ColumnSpec, CreateTable, DefaultSpec, TableName},
    schema::Schema,
    session::Core,
    store::conn::Conn,
    temporary_name::is_hidden,
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
        create.name = if create.or_replace {
            temporary::hidden(&schema, &written.name)
        } else {
            temporary::create(core, &written)?
        };
    }
    let old = Old::of(core, &schema, &create)?;
    let made = match make(core, &schema, &mut create, (&written.name, old), sql) {
        Err(error) if create.if_not_exists && error.code == errors::TABLE_EXISTS => {
            core.env.note(error);
            return Ok(Some(0));
        }
        made => made?,
    };
    if made.query.is_some() {
        let place = (old == Old::GoesLater).then_some(written.name.as_str());
        fill(core, &schema, &made, place, (more, sink))?;
    }
    if create.temporary {
        core.env.set_temporary(&schema.name, &written.name, Some(create.name.name.clone()));
    }
    Ok(if made.query.is_some() { None } else { Some(0) })
}

/// A table that has been made.
struct Made {
    /// Its name in the catalogue.
    name: String,
    /// What its rows come from, as it stands in an INSERT.
    query: Option<String>,
}

/// Gives a new table its rows, and the name that it is to have then; or drops it again.
///
/// The table has a name of its own meanwhile: the query may read another one that the session has under the name.
fn fill(
    core: &mut Core,
    schema: &Arc<Schema>,
    made: &Made,
    place: Option<&str>,
    to: (bool, &mut dyn Sink),
) -> Result<(), QueryError> {
    const NEW: &str = "#new";
    let (table, select) = (made.name.as_str(), made.query.as_deref().unwrap_or_default());
    let sql = format!("INSERT INTO {}.`{NEW}` {select}", quoted(&schema.name));
    core.env.set_temporary(&schema.name, NEW, Some(table.to_owned()));
    let filled = match place {
        Some(name) => replace::fill(core, schema, (table, name), &sql, to),
        None => core.run_own(&sql, to.0, to.1),
    };
    if filled.is_err() {
        let named = |name: &str| TableName { schema: Some(schema.name.clone()), name: name.to_owned() };
        match is_hidden(table) {
            true => super::drop_some_tables(core, vec![named(NEW)], true, true)?,
            false => super::drop_tables(core, &[named(table)], true, false)?,
        };
    }
    core.env.set_temporary(&schema.name, NEW, None);
    filled
}

/// Makes the table without rows. `written` is the name that the statement gives it.
///
/// # Errors
/// 1050 and MySQL's others.
fn make(
    core: &mut Core,
    schema: &Arc<Schema>,
    create: &mut CreateTable,
    (written, old): (&str, Old),
    sql: &[u8],
) -> Res<Made> {
    let name = create.name.name.clone();
    // Before the query is looked at, and nobody waits for a lock.
    let known = schema.catalog()?;
    old.check(core, schema, &known, &name)?;
    let query = take_query(core, schema, create, written, sql)?;
    let like = match &create.like {
        Some(like) if create.or_replace && like.name == written && schema_of(core, like)?.id == schema.id => {
            return Err(errors::not_unique_alias(written));
        }
        Some(like) => Some(model(core, like)?),
        None => None,
    };
    if create.temporary && create.or_replace {
        replace::drop_temporary(core, schema, written)?;
    }
    let made = if old == Old::GoesLater { temporary::hidden(schema, &name).name } else { name.clone() };
    change(core, schema, &[&made], |conn, catalog| {
        // Another session may have made one while this one waited for the lock.
        old.check(core, schema, catalog, &name)?;
        let left = old.leave(conn, catalog, &name)?;
        let mut table = match &like {
            Some(like) => copy_of(core, conn, like, &name)?,
            None => define(core, conn, left.as_ref().unwrap_or(catalog), schema, create, sql)?,
        };
        fulltext::check(&table)?;
        rules_of(&session_of(core, schema), &table)?;
        check_auto_increment(&table)?;
        check_cascades(&table)?;
        if let Some(old) = catalog.by_id(table.id) {
            replace::take_number(old);
        }
        table.name.clone_from(&made);
        build(conn, &table)?;
        catalog_file::store(conn, &table).map_err(internal)
    })?;
    Ok(Made { name: made, query })
}

/// What the rows come from, as it stands behind the name in an INSERT. The columns of the query join those that are written.
fn take_query(
    core: &Core,
    schema: &Arc<Schema>,
    create: &mut CreateTable,
    written: &str,
    sql: &[u8],
) -> Res<Option<String>> {
    let Some((from, to)) = create.query.take() else { return Ok(None) };
    let select = String::from_utf8_lossy(&sql[from..to]).into_owned();
    let current = core.schema.as_ref().unwrap_or(schema);
    let (columns, reads) = super::describe_query(core, &select, core.env.statement_mode(), current)?;
    if create.or_replace {
        replace::check_sources(core, schema, create.temporary, written, &reads)?;
    }
    let names: Vec<String> = columns.iter().map(|column| quoted(&column.name)).collect();
    // Those of the query stand behind the others, in its order.
    let mut of_query = Vec::new();
    for column in columns {
        of_query.push(match create.columns.iter().position(|known| same_name(&known.name, &column.name)) {
            Some(at) => create.columns.remove(at),
            None => {
                let origin = column.ex.origin.as_ref();
                let default = origin.map_or(DefaultSpec::None, |origin| default_of_origin(core, origin));
                ColumnSpec { default, ..spec_of(column.name, column.ex.ty, column.ex.nullable) }
            }
        });
    }
    create.columns.append(&mut of_query);
    Ok(Some(format!("({}) {select}", names.join(", "))))
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
