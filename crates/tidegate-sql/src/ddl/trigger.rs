//! CREATE TRIGGER and DROP TRIGGER, and where the definitions of other programs are carried out.

use sqlparser::tokenizer::Token;
use tidegate_rows::ServerError;

use super::{change, definer_of, event, internal, routine, schema_of};
use crate::{
    accounts::Privileges,
    catalog::Table,
    catalog_file::programs::{self, NewProgram},
    errors,
    lexer::{self, Literals},
    parse::{
        Statement, TableName,
        account::Who,
        program::{
            Event, RoutineKind,
            definition::{CreateTrigger, Order},
            trigger::{self, Trigger, Triggers},
        },
    },
    session::Core,
    store::conn::Conn,
    temporary_name,
    translate::local_names::is_row,
    variables,
};

type Res<T> = Result<T, ServerError>;

/// Longest name of a stored program.
pub(super) const NAME_MAX: usize = 64;

/// A program as the session that makes it is set now.
///
/// # Errors
/// 1227 for a definer that the session may not name.
pub(super) fn new_program<'a>(core: &Core, name: &'a str, text: &'a str, definer: Option<&Who>) -> Res<NewProgram<'a>> {
    Ok(NewProgram {
        name,
        text,
        sql_mode: core.env.statement_mode(),
        definer: definer_of(core, definer, false)?.name,
        created: core.env.now_micros(),
        charset: variables::value_of(&core.engine, &core.env, "character_set_client").unwrap_or_default(),
        collation: core.env.collation.get(),
    })
}

/// Carries out a definition of a stored program.
///
/// # Errors
/// MySQL's.
pub(crate) fn define(core: &mut Core, statement: Statement) -> Res<()> {
    match statement {
        Statement::CreateTrigger(definition) => create(core, &definition),
        Statement::CreateRoutine(definition) => routine::create(core, &definition),
        Statement::DropProgram { kind: "TRIGGER", name, if_exists } => drop(core, &name, if_exists),
        Statement::AlterRoutine(alter) => routine::alter(core, &alter),
        Statement::DropProgram { kind, name, if_exists } => match RoutineKind::of(kind) {
            Some(kind) => routine::drop(core, kind, &name, if_exists),
            None => event::drop(core, &name, if_exists),
        },
        _ => Err(errors::internal("not a stored program")),
    }
}

/// Carries out CREATE TRIGGER.
///
/// # Errors
/// MySQL's.
fn create(core: &mut Core, create: &CreateTrigger) -> Res<()> {
    let head = &create.head;
    if head.name.name.chars().count() > NAME_MAX {
        return Err(errors::too_long_name(&head.name.name));
    }
    let schema = schema_of(core, &head.table)?;
    if head.name.schema.as_ref().is_some_and(|name| *name != schema.name) {
        return Err(errors::trigger_in_wrong_schema());
    }
    let table = &head.table.name;
    if temporary_name::is_hidden(&core.actual(&head.table).name) {
        return Err(errors::trigger_on_no_table(table));
    }
    let access = core.env.access();
    access.want_on_table(&schema.name, table, Privileges::TRIGGER)?;
    let new = new_program(core, &head.name.name, &create.text, create.definer.as_ref())?;
    let mut exists = false;
    let env = std::rc::Rc::clone(&core.env);
    change(core, &schema, &[table], |conn, catalog| {
        let found = catalog.table(table).ok_or_else(|| errors::no_such_table(&schema.name, table))?;
        if found.is_sequence() {
            return Err(errors::trigger_on_no_table(table));
        }
        if found.is_view() {
            return Err(errors::wrong_object(&schema.name, table, "BASE TABLE"));
        }
        check_rows(create, found, env.lex_mode())?;
        if let Some(known) = trigger::named(catalog.all_triggers(), &head.name.name) {
            if head.if_not_exists {
                exists = true;
                return Ok(());
            }
            if !create.or_replace {
                return Err(errors::trigger_exists(&schema.name, &head.name.name));
            }
            if known.table != found.id {
                return Err(errors::trigger_exists(&schema.name, &head.name.name));
            }
            programs::remove(conn, known.kept.id).map_err(internal)?;
        }
        let position = make_room(conn, catalog.all_triggers(), found, create)?;
        programs::store_trigger(conn, &new, found.id, position).map_err(internal)
    })?;
    if exists {
        core.env.note(errors::trigger_exists(&schema.name, &head.name.name));
    }
    Ok(())
}

/// The place of a new trigger among those of its table; those behind it move.
fn make_room(conn: &Conn, all: &Triggers, table: &Table, create: &CreateTrigger) -> Res<i64> {
    let replaced = |known: &Trigger| create.or_replace && known.kept.name == create.head.name.name;
    let mine: Vec<_> = all.get(&table.id).into_iter().flatten().filter(|known| !replaced(known)).collect();
    let Some(Order { follows, other, .. }) = &create.head.order else {
        return Ok(mine.iter().map(|known| known.position + 1).max().unwrap_or(1));
    };
    let is_other = |known: &Trigger| {
        known.kept.name.eq_ignore_ascii_case(other) && known.runs(create.head.event, create.head.timing)
    };
    let at = mine.iter().position(|known| is_other(known)).ok_or_else(|| errors::no_such_trigger_to_follow(other))?;
    let at = if *follows { at + 1 } else { at };
    for (index, known) in mine.iter().enumerate() {
        let position = index as i64 + if index < at { 1 } else { 2 };
        if known.position != position {
            programs::place(conn, known.kept.id, position).map_err(internal)?;
        }
    }
    Ok(at as i64 + 1)
}

/// Sees that the columns of NEW and OLD are there.
///
/// # Errors
/// 1054, 1363
fn check_rows(create: &CreateTrigger, table: &Table, mode: lexer::LexMode) -> Res<()> {
    let program = format!("CREATE {}", create.text);
    let tokens =
        lexer::tokens(program.as_bytes(), 0, mode, Literals::Inline).map_err(|_| errors::syntax(&create.text))?.tokens;
    let mut before = &Token::EOF;
    for three in tokens.windows(3) {
        let (Token::Word(row), Token::Period, Token::Word(column)) =
            (&three[0].token, &three[1].token, &three[2].token)
        else {
            before = &three[0].token;
            continue;
        };
        let is_name = *before == Token::Period;
        before = &three[0].token;
        if is_name || !is_row(&row.value) {
            continue;
        }
        let row = row.value.to_ascii_uppercase();
        match create.head.event {
            Event::Insert if row == "OLD" => return Err(errors::no_such_row_in_trigger(row, "INSERT")),
            Event::Delete if row == "NEW" => return Err(errors::no_such_row_in_trigger(row, "DELETE")),
            _ if table.column(&column.value).is_none() => return Err(errors::unknown_column(&column.value, row)),
            _ => {}
        }
    }
    Ok(())
}

/// Carries out DROP TRIGGER.
///
/// # Errors
/// 1360
fn drop(core: &mut Core, name: &TableName, if_exists: bool) -> Res<()> {
    let schema = schema_of(core, name)?;
    let catalog = schema.catalog()?;
    let found = trigger::named(catalog.all_triggers(), &name.name).cloned();
    let table = found.as_ref().and_then(|found| catalog.by_id(found.table)).cloned();
    let (Some(_), Some(table)) = (found, table) else {
        if !if_exists {
            return Err(errors::unknown_trigger());
        }
        core.env.note(errors::unknown_trigger());
        return Ok(());
    };
    core.env.access().want_on_table(&schema.name, &table.name, Privileges::TRIGGER)?;
    change(core, &schema, &[&table.name], |conn, catalog| {
        // Others may have dropped it while this session waited.
        match trigger::named(catalog.all_triggers(), &name.name) {
            Some(found) => programs::remove(conn, found.kept.id).map_err(internal),
            None if if_exists => Ok(()),
            None => Err(errors::unknown_trigger()),
        }
    })
}
