//! CREATE, ALTER and DROP of procedures and functions.

use std::{fmt::Write, sync::Arc};

use tidegate_rows::ServerError;

use super::{
    change, internal, schema_of,
    trigger::{NAME_MAX, new_program},
};
use crate::{
    accounts::{Access, Privileges},
    catalog_file::programs,
    errors,
    parse::{
        AlterRoutine, TableName,
        program::{
            CreateRoutine, RoutineKind,
            routine::{Routine, named},
            signature::{Says, Signature},
        },
    },
    session::Core,
    sql_mode,
};

type Res<T> = Result<T, ServerError>;

/// Carries out CREATE PROCEDURE and CREATE FUNCTION.
///
/// # Errors
/// MySQL's.
pub(super) fn create(core: &mut Core, create: &CreateRoutine) -> Res<()> {
    let Signature { kind, name, if_not_exists, .. } = &create.signature;
    if name.name.chars().count() > NAME_MAX {
        return Err(errors::too_long_name(&name.name));
    }
    let schema = schema_of(core, name)?;
    let access = core.env.access();
    access.want_in_schema(&schema.name, Privileges::CREATE_ROUTINE)?;
    let new = new_program(core, &name.name, &create.text, create.definer.as_ref())?;
    let exists = change(core, &schema, &[], |conn, catalog| {
        if let Some(known) = named(catalog.routines(), *kind, &name.name) {
            if *if_not_exists {
                return Ok(true);
            }
            if !create.or_replace {
                return Err(errors::routine_exists(kind.word(), &name.name));
            }
            may_alter(&access, *kind, Some(known), &schema.name, &name.name)?;
            programs::remove(conn, known.kept.id).map_err(internal)?;
        }
        programs::store_routine(conn, *kind, &new).map_err(internal)?;
        Ok(false)
    })?;
    if exists {
        core.env.note(errors::routine_exists(kind.word(), &name.name));
    } else if *kind == RoutineKind::Function && (core.above.library.exists)(&name.name.to_ascii_uppercase()) {
        core.env.note(errors::native_function_name(&name.name));
    }
    Ok(())
}

/// Whether somebody may change or drop a routine.
fn may_alter(access: &Access, kind: RoutineKind, routine: Option<&Arc<Routine>>, schema: &str, name: &str) -> Res<()> {
    if routine.is_some_and(|routine| access.is_definer(routine.kept.definer.as_ref()))
        || access.on_routine(schema, kind, name).has(Privileges::ALTER_ROUTINE)
    {
        return Ok(());
    }
    let (user, host) = (&access.name.user, &access.name.host);
    Err(errors::routine_denied("alter routine", user, host, format!("{schema}.{name}")))
}

/// Carries out ALTER PROCEDURE and ALTER FUNCTION.
///
/// # Errors
/// 1305, 1370
pub(super) fn alter(core: &mut Core, alter: &AlterRoutine) -> Res<()> {
    let AlterRoutine { kind, name, changes } = alter;
    let schema = schema_of(core, name)?;
    let unknown = || errors::unknown_program(kind.word(), format!("{}.{}", schema.name, name.name));
    let access = core.env.access();
    may_alter(&access, *kind, named(schema.catalog()?.routines(), *kind, &name.name), &schema.name, &name.name)?;
    let now = core.env.now_micros();
    change(core, &schema, &[], |conn, catalog| {
        let routine = named(catalog.routines(), *kind, &name.name).ok_or_else(unknown)?;
        let (signature, _) = routine.read()?;
        let text = with_says(routine, signature, &signature.says.clone().changed(changes));
        programs::alter(conn, routine.kept.id, &text, now).map_err(internal)
    })
}

/// The text of a routine with other characteristics.
fn with_says(routine: &Routine, signature: &Signature, says: &Says) -> String {
    let text = &routine.kept.text;
    let mut new = text[..signature.says_from].to_owned();
    for word in says.words() {
        let _ = write!(new, " {word}");
    }
    if !says.comment.is_empty() {
        // Read by the mode of the routine.
        let is_plain = routine.kept.sql_mode & sql_mode::NO_BACKSLASH_ESCAPES != 0;
        let comment = if is_plain { says.comment.clone() } else { says.comment.replace('\\', "\\\\") };
        let _ = write!(new, " COMMENT '{}'", comment.replace('\'', "''"));
    }
    new + " " + &text[signature.body..]
}

/// Carries out DROP PROCEDURE and DROP FUNCTION.
///
/// # Errors
/// 1305, 1370
pub(super) fn drop(core: &mut Core, kind: RoutineKind, name: &TableName, if_exists: bool) -> Res<()> {
    let schema = schema_of(core, name)?;
    let catalog = schema.catalog()?;
    let unknown = || errors::unknown_program(kind.word(), format!("{}.{}", schema.name, name.name));
    let access = core.env.access();
    let found = named(catalog.routines(), kind, &name.name);
    may_alter(&access, kind, found, &schema.name, &name.name)?;
    if found.is_none() {
        if !if_exists {
            return Err(unknown());
        }
        core.env.note(unknown());
        return Ok(());
    }
    change(core, &schema, &[], |conn, catalog| {
        // Others may have dropped it while this session waited.
        match named(catalog.routines(), kind, &name.name) {
            Some(found) => programs::remove(conn, found.kept.id).map_err(internal),
            None if if_exists => Ok(()),
            None => Err(unknown()),
        }
    })
}
