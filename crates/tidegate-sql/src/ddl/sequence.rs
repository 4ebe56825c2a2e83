//! CREATE, ALTER and DROP SEQUENCE: tables of one row ([`crate::catalog::sequence`]).

use std::sync::Arc;

use sqlparser::ast::Expr;

use super::{Res, change, check_name, define::build, drop_table, internal, next_table_id, schema_of};
use crate::{
    catalog::{
        Table, TableState,
        sequence::{COLUMNS, ENGINE, Options, Row},
    },
    catalog_file,
    column::{Column, Default},
    dialect::SPECIAL,
    errors,
    identifier::quoted,
    parse::{CreateSequence, SequenceSpec, Statement, TableName, column::type_from_catalog},
    schema::Schema,
    session::{Core, sequences::read_row},
    store::conn::{Cell, Conn},
    temporary_name,
    translate::{expr::arguments, rules::parse_expression},
    value::collation::Collation,
};

/// Carries out a definition of a sequence.
///
/// # Errors
/// MySQL's.
pub(super) fn define(core: &mut Core, statement: Statement) -> Res<()> {
    match statement {
        Statement::CreateSequence(definition) => create(core, &definition),
        Statement::AlterSequence { name, if_exists, spec } => alter(core, &name, if_exists, &spec),
        Statement::DropSequence { names, if_exists, temporary } => drop(core, &names, if_exists, temporary),
        _ => Err(errors::internal("not a sequence")),
    }
}

/// CREATE SEQUENCE.
fn create(core: &mut Core, create: &CreateSequence) -> Res<()> {
    check_name(&create.name.name)?;
    let schema = schema_of(core, &create.name)?;
    let written = &create.name.name;
    let options = Options::of(&create.spec).ok_or_else(|| errors::wrong_sequence(&schema.name, written))?;
    let hidden = if create.temporary {
        if core.env.temporary(&schema.name, written).is_some() && create.if_not_exists {
            core.env.note(errors::table_exists(written));
            return Ok(());
        }
        Some(super::temporary::create(core, &create.name)?.name)
    } else {
        None
    };
    let name = hidden.as_ref().unwrap_or(written);
    let comment = create.comment.clone().unwrap_or_default();
    let made = change(core, &schema, &[name], |conn, catalog| {
        match catalog.table(name) {
            Some(old) if create.or_replace && old.is_sequence() => remove(conn, old)?,
            Some(_) => return Err(errors::table_exists(written)),
            None => {}
        }
        let table = table_of(next_table_id(conn)?, name, comment, core.env.now_micros() / 1_000_000)?;
        build(conn, &table)?;
        write_row(conn, &table, &Row::new(options))?;
        catalog_file::store(conn, &table).map_err(internal)
    });
    match made {
        Err(error) if create.if_not_exists && error.code == errors::TABLE_EXISTS => core.env.note(error),
        made => made?,
    }
    if hidden.is_some() {
        core.env.set_temporary(&schema.name, written, hidden);
    }
    Ok(())
}

/// The table that a sequence is.
fn table_of(id: i64, name: &str, comment: String, created: i64) -> Res<Table> {
    let mut columns = Vec::new();
    for (number, (name, ty, comment)) in COLUMNS.into_iter().enumerate() {
        columns.push(Column {
            id: number as u32 + 1,
            name: name.to_owned(),
            ty: type_from_catalog(ty, false).ok_or_else(|| errors::internal("a type of a sequence"))?,
            nullable: false,
            default: Default::None,
            on_update: false,
            auto_increment: false,
            generated: None,
            comment: comment.to_owned(),
        });
    }
    Ok(Table {
        id,
        name: name.to_owned(),
        next_column_id: columns.len() as u32 + 1,
        columns,
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        engine: ENGINE.to_owned(),
        collation: Collation::DEFAULT,
        comment,
        created,
        view: None,
        state: Arc::new(TableState::default()),
    })
}

/// Writes the row of a sequence anew.
fn write_row(conn: &mut Conn, table: &Table, row: &Row) -> Res<()> {
    let name = table.physical();
    conn.execute(&format!("DELETE FROM {name}")).map_err(internal)?;
    let sql = format!("INSERT INTO {name} VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    conn.run_kept(&sql, row.values().into_iter().map(Cell::Int)).map(std::mem::drop).map_err(internal)
}

fn remove(conn: &Conn, table: &Table) -> Res<()> {
    conn.execute(&format!("DROP TABLE {}", table.physical())).map_err(internal)?;
    catalog_file::remove(conn, table.id).map_err(internal)
}

/// The sequence with a name.
///
/// # Errors
/// 1146, 4089.
pub(crate) fn found(core: &Core, schema: &Schema, name: &TableName) -> Res<Arc<Table>> {
    let table = schema.catalog()?.table(&core.actual(name).name).cloned();
    let table = table.ok_or_else(|| errors::no_such_table(&schema.name, temporary_name::shown(&name.name)))?;
    if table.is_sequence() {
        Ok(table)
    } else {
        Err(errors::not_a_sequence(&schema.name, temporary_name::shown(&name.name)))
    }
}

/// ALTER SEQUENCE.
fn alter(core: &Core, name: &TableName, if_exists: bool, spec: &SequenceSpec) -> Res<()> {
    let schema = schema_of(core, name)?;
    let table = match found(core, &schema, name) {
        Err(error) if error.code == 1146 && !if_exists => return Err(errors::unknown_sequences(&name.name)),
        Err(error) if error.code == 1146 => {
            core.env.note(errors::unknown_sequences(format!("{}.{}", schema.name, name.name)));
            return Ok(());
        }
        found => found?,
    };
    change(core, &schema, &[&table.name], |conn, catalog| {
        if !catalog.by_id(table.id).is_some_and(|now| Arc::ptr_eq(&now.state, &table.state)) {
            return Err(errors::no_such_table(&schema.name, &name.name));
        }
        let wrong = || errors::wrong_sequence(&schema.name, &name.name);
        let row = read_row(conn, &table)?;
        let options = row.options.altered(spec).ok_or_else(wrong)?;
        // From here on nobody takes numbers that are in memory: whoever wants one waits for the write lock.
        let numbers = table.state.sequence.numbers().take();
        let round = numbers.map_or(row.round, |numbers| numbers.round());
        let next = match spec.restart {
            Some(at) => at.unwrap_or(options.start),
            None => row.next,
        };
        if spec.restart.is_some() && !options.admits(next) {
            return Err(wrong());
        }
        write_row(conn, &table, &Row { next, options, round })
    })
}

/// Refuses the name of an engine that only sequences have.
///
/// # Errors
/// 1235
pub(super) fn check_engine(name: &str) -> Res<()> {
    if name.eq_ignore_ascii_case(ENGINE) { Err(errors::unsupported("tables of the engine SEQUENCE")) } else { Ok(()) }
}

/// The text of a DEFAULT; a sequence whose next number it is gets the name of its schema, as MariaDB shows it.
pub(super) fn in_default(text: String, schema: &str) -> String {
    let Ok((Expr::Function(function), _)) = parse_expression(&text) else { return text };
    let name = function.name.to_string();
    let arguments = arguments(&function.args).unwrap_or_default();
    match arguments.as_slice() {
        [Expr::Identifier(sequence)] if name.trim_matches('`').strip_prefix(SPECIAL) == Some("next_value") => {
            format!("nextval({}.{})", quoted(schema), quoted(&sequence.value))
        }
        _ => text,
    }
}

/// DROP SEQUENCE.
fn drop(core: &mut Core, names: &[TableName], if_exists: bool, temporary: bool) -> Res<()> {
    let mut missing = Vec::new();
    for name in names {
        let schema = schema_of(core, name)?;
        let actual = core.actual(name).name;
        let is_hidden = temporary_name::is_hidden(&actual);
        let table = schema.catalog()?.table(&actual).cloned();
        if table.as_ref().is_some_and(|table| !table.is_sequence()) {
            return Err(errors::not_sequences(format!("{}.{}", schema.name, name.name)));
        }
        match table.filter(|_| is_hidden || !temporary) {
            Some(table) => {
                if is_hidden {
                    core.stand_aside(&schema, Some(table.id))?;
                }
                drop_table(core, &schema, &table)?;
                if is_hidden {
                    core.env.set_temporary(&schema.name, &name.name, None);
                }
            }
            None => missing.push(format!("{}.{}", schema.name, name.name)),
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let error = errors::unknown_sequences(missing.join(","));
    if !if_exists {
        return Err(error);
    }
    core.env.note(error);
    Ok(())
}
