//! What is shown of procedures and functions: `information_schema.routines` and `parameters`, SHOW … STATUS and SHOW CREATE of them.

use tidegate_rows::{QueryError, Sink};

use super::{
    columns::type_items,
    triggers::{CREATED_AS, created_as, database_collation},
};
use crate::{
    accounts::{Access, Privileges},
    catalog::Catalog,
    ddl, errors,
    identifier::{mysql_string, quoted},
    parse::{
        TableName,
        program::{
            RoutineKind,
            routine::{self, Routine},
            signature::Signature,
        },
    },
    session::{Core, rows::rows as send_rows},
    sql_mode,
    store::made_rows::{Item, Rows},
    translate::{Res, Translator},
    value::{Base, SqlType, local::timestamp_to_local},
};

/// The columns of `information_schema.routines`.
pub(crate) const ROUTINES: &str = "specific_name routine_catalog routine_schema routine_name routine_type data_type \
character_maximum_length~ character_octet_length~ numeric_precision~ numeric_scale~ datetime_precision# character_set_name \
collation_name dtd_identifier routine_body routine_definition external_name external_language parameter_style is_deterministic \
sql_data_access sql_path security_type created last_altered sql_mode routine_comment definer character_set_client \
collation_connection database_collation";

/// The columns of `information_schema.parameters`.
pub(crate) const PARAMETERS: &str = "specific_catalog specific_schema specific_name ordinal_position~ parameter_mode parameter_name \
data_type character_maximum_length~ character_octet_length~ numeric_precision~ numeric_scale~ datetime_precision# \
character_set_name collation_name dtd_identifier routine_type";

/// The query of SHOW PROCEDURE STATUS, but for the kind.
pub(crate) const STATUS: &str = "SELECT routine_schema AS `Db`, routine_name AS `Name`, routine_type AS `Type`, definer AS `Definer`, \
last_altered AS `Modified`, created AS `Created`, security_type AS `Security_type`, routine_comment AS `Comment`, \
character_set_client AS `character_set_client`, collation_connection AS `collation_connection`, \
database_collation AS `Database Collation` FROM information_schema.routines";

/// Whether somebody sees all procedures of a schema.
fn sees_all(access: &Access, schema: &str) -> bool {
    let of_routines = Privileges::EXECUTE.and(Privileges::CREATE_ROUTINE).and(Privileges::ALTER_ROUTINE);
    access.on_schema(schema).has_any(of_routines)
}

/// Calls `f` with the schema of each procedure that the session may see, and the procedure.
fn each(translator: &Translator<'_>, mut f: impl FnMut(&str, &Catalog, &Routine, &Signature, &Access)) -> Res<()> {
    let now = translator.now();
    let access = now.env.access();
    for name in now.engine.schema_names() {
        let Ok(schema) = now.engine.schema(&name) else { continue };
        let catalog = schema.catalog()?;
        let may_see = sees_all(&access, &name);
        let sees = |routine: &&std::sync::Arc<Routine>| {
            let of_routines = Privileges::EXECUTE.and(Privileges::ALTER_ROUTINE);
            may_see
                || access.is_definer(routine.kept.definer.as_ref())
                || access.on_routine(&name, routine.kind, &routine.kept.name).has_any(of_routines)
        };
        for routine in catalog.routines().iter().filter(sees) {
            if let Ok((signature, _)) = routine.read() {
                f(&name, &catalog, routine, signature, &access);
            }
        }
    }
    Ok(())
}

/// The rows of `information_schema.routines`.
///
/// # Errors
/// Storage errors.
pub(crate) fn routines(translator: &Translator<'_>) -> Res<Rows> {
    let mut rows = Rows::new();
    each(translator, |schema, catalog, routine, signature, access| {
        let time = |micros| Item::from(timestamp_to_local(micros).truncate(0).pack());
        let kept = &routine.kept;
        let altered = if kept.altered == 0 { kept.created } else { kept.altered };
        let body = routine.kept.text.get(signature.body..).unwrap_or_default();
        let name = || Item::from(routine.kept.name.as_str());
        let mut row = vec![name(), "def".into(), schema.into(), name(), routine.kind.word().into()];
        match &signature.returns {
            Some((ty, _)) => row.extend(type_items(ty)),
            None => {
                row.push("".into());
                row.extend(std::iter::repeat_n(Item::Null, 8));
            }
        }
        row.extend([
            "SQL".into(),
            if may_read(routine, access) { body.into() } else { Item::Null },
            Item::Null,
            Item::Null,
            "SQL".into(),
            if signature.says.is_deterministic { "YES" } else { "NO" }.into(),
            signature.says.data_access.unwrap_or("CONTAINS SQL").into(),
            Item::Null,
            if signature.says.as_invoker { "INVOKER" } else { "DEFINER" }.into(),
            time(kept.created),
            time(altered),
            sql_mode::text_of(routine.kept.sql_mode).into(),
            signature.says.comment.as_str().into(),
            routine.kept.shown_definer().to_string().into(),
            routine.kept.charset.as_str().into(),
            routine.kept.collation.name().into(),
            database_collation(catalog).name().into(),
        ]);
        rows.push(row);
    })?;
    Ok(rows)
}

/// The rows of `information_schema.parameters`.
///
/// # Errors
/// Storage errors.
pub(crate) fn parameters(translator: &Translator<'_>) -> Res<Rows> {
    let mut rows = Rows::new();
    each(translator, |schema, _, routine, signature, _| {
        let of = || vec!["def".into(), schema.into(), routine.kept.name.as_str().into()];
        if let Some((ty, _)) = &signature.returns {
            let mut row: Vec<Item> = of();
            row.extend([Item::Int(0), Item::Null, Item::Null]);
            row.extend(type_items(ty));
            row.push(routine.kind.word().into());
            rows.push(row);
        }
        for (index, param) in signature.params.iter().enumerate() {
            let mut row: Vec<Item> = of();
            row.extend([(index as i64 + 1).into(), param.mode.word().into(), param.name.as_str().into()]);
            row.extend(type_items(&param.ty));
            row.push(routine.kind.word().into());
            rows.push(row);
        }
    })?;
    Ok(rows)
}

/// Whether somebody may read the text of a routine.
fn may_read(routine: &Routine, access: &Access) -> bool {
    access.is_definer(routine.kept.definer.as_ref()) || access.global().has(Privileges::SELECT)
}

/// Answers SHOW CREATE PROCEDURE and SHOW CREATE FUNCTION.
///
/// # Errors
/// 1305, also for who may not see it.
pub(crate) fn show_create(
    core: &mut Core,
    kind: RoutineKind,
    name: &TableName,
    more: bool,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let schema = ddl::schema_of(core, name)?;
    let catalog = schema.catalog()?;
    let access = core.env.access();
    let may_see = |routine: &Routine| {
        let of_routines = Privileges::EXECUTE.and(Privileges::ALTER_ROUTINE);
        access.is_definer(routine.kept.definer.as_ref())
            || sees_all(&access, &schema.name)
            || access.on_routine(&schema.name, kind, &name.name).has_any(of_routines)
    };
    let routine = routine::named(catalog.routines(), kind, &name.name).filter(|routine| may_see(routine));
    let routine = routine.ok_or_else(|| errors::unknown_program(kind.word(), &name.name))?;
    let (signature, _) = routine.read()?;
    let text = may_read(routine, &access).then(|| statement(routine, signature));
    let row = created_as(&routine.kept, &catalog, text);
    let [mode, charset, collation, database] = CREATED_AS;
    let (title, create) = match kind {
        RoutineKind::Procedure => ("Procedure", "Create Procedure"),
        RoutineKind::Function => ("Function", "Create Function"),
    };
    let names = [title, mode, create, charset, collation, database];
    send_rows(core, &names, &[row], more, sink)
}

/// The statement that makes a routine, as MariaDB writes it.
fn statement(routine: &Routine, signature: &Signature) -> String {
    let (from, to) = signature.params_at;
    let says = &signature.says;
    let mut text = format!(
        "CREATE DEFINER={} {} {}({})",
        routine.kept.shown_definer().in_sql(),
        routine.kind.word(),
        quoted(&routine.kept.name),
        routine.kept.text.get(from..to).unwrap_or_default(),
    );
    if let Some((ty, _)) = &signature.returns {
        text.push_str(&format!(" RETURNS {}", returned_type(ty)));
    }
    text.push('\n');
    says.words().for_each(|line| text.push_str(&format!("    {line}\n")));
    if !says.comment.is_empty() {
        text.push_str(&format!("    COMMENT {}\n", mysql_string(&says.comment)));
    }
    text + routine.kept.text.get(signature.body..).unwrap_or_default()
}

/// What a function returns, as MariaDB writes it: a text with its character set and collation.
fn returned_type(ty: &SqlType) -> String {
    if !ty.base.is_character() || ty.base == Base::Json {
        return super::create::type_name(ty);
    }
    let (charset, collation) = (ty.collation.charset(), ty.collation.name());
    format!("{} CHARSET {charset} COLLATE {collation}", super::create::type_name(ty))
}
