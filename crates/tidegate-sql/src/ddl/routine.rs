//! CREATE PROCEDURE and DROP PROCEDURE.

use std::sync::Arc;

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
        TableName,
        program::{
            CreateRoutine,
            routine::{Routine, named},
        },
    },
    session::Core,
};

type Res<T> = Result<T, ServerError>;

/// Carries out CREATE PROCEDURE.
///
/// # Errors
/// MySQL's.
pub(super) fn create(core: &mut Core, create: &CreateRoutine) -> Res<()> {
    let (name, if_not_exists) = (&create.signature.name, create.signature.if_not_exists);
    if name.name.chars().count() > NAME_MAX {
        return Err(errors::too_long_name(&name.name));
    }
    let schema = schema_of(core, name)?;
    let access = core.env.access();
    access.want_in_schema(&schema.name, Privileges::CREATE_ROUTINE)?;
    let new = new_program(core, &name.name, &create.text, create.definer.as_ref())?;
    let exists = change(core, &schema, &[], |conn, catalog| {
        if let Some(known) = named(catalog.routines(), &name.name) {
            if if_not_exists {
                return Ok(true);
            }
            if !create.or_replace {
                return Err(errors::routine_exists("PROCEDURE", &name.name));
            }
            may_alter(&access, Some(known), &schema.name, &name.name)?;
            programs::remove(conn, known.kept.id).map_err(internal)?;
        }
        programs::store_procedure(conn, &new).map_err(internal)?;
        Ok(false)
    })?;
    if exists {
        core.env.note(errors::routine_exists("PROCEDURE", &name.name));
    }
    Ok(())
}

/// Whether somebody may change or drop a procedure.
fn may_alter(access: &Access, routine: Option<&Arc<Routine>>, schema: &str, name: &str) -> Res<()> {
    if routine.is_some_and(|routine| access.is_definer(routine.kept.definer.as_ref()))
        || access.on_schema(schema).has(Privileges::ALTER_ROUTINE)
    {
        return Ok(());
    }
    let (user, host) = (&access.name.user, &access.name.host);
    Err(errors::routine_denied("alter routine", user, host, format!("{schema}.{name}")))
}

/// Carries out DROP PROCEDURE.
///
/// # Errors
/// 1305
pub(super) fn drop(core: &mut Core, name: &TableName, if_exists: bool) -> Res<()> {
    let schema = schema_of(core, name)?;
    let catalog = schema.catalog()?;
    let unknown = || errors::unknown_program("PROCEDURE", format!("{}.{}", schema.name, name.name));
    let access = core.env.access();
    let found = named(catalog.routines(), &name.name);
    may_alter(&access, found, &schema.name, &name.name)?;
    if found.is_none() {
        if !if_exists {
            return Err(unknown());
        }
        core.env.note(unknown());
        return Ok(());
    }
    change(core, &schema, &[], |conn, catalog| {
        // Others may have dropped it while this session waited.
        match named(catalog.routines(), &name.name) {
            Some(found) => programs::remove(conn, found.kept.id).map_err(internal),
            None if if_exists => Ok(()),
            None => Err(unknown()),
        }
    })
}
