//! What is shown of procedures: `information_schema.routines` and `parameters`, SHOW PROCEDURE STATUS, SHOW CREATE PROCEDURE.

use tidegate_rows::{QueryError, Sink};

use super::{
    columns::type_items,
    mysql_string,
    triggers::{CREATED_AS, created_as, database_collation},
};
use crate::{
    accounts::{Access, Privileges},
    catalog::Catalog,
    ddl, errors,
    identifier::quoted,
    parse::{
        TableName,
        program::{
            routine::{self, Routine},
            signature::Signature,
        },
    },
    session::{Core, rows::rows as send_rows},
    sql_mode,
    store::made_rows::{Item, Rows},
    translate::{Res, Translator},
    value::local::timestamp_to_local,
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
        for routine in
            catalog.routines().iter().filter(|routine| may_see || access.is_definer(routine.kept.definer.as_ref()))
        {
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
        let created = || Item::from(timestamp_to_local(routine.kept.created).truncate(0).pack());
        let body = routine.kept.text.get(signature.body..).unwrap_or_default();
        let name = || Item::from(routine.kept.name.as_str());
        let mut row = vec![name(), "def".into(), schema.into(), name(), "PROCEDURE".into(), "".into()];
        row.extend(std::iter::repeat_n(Item::Null, 8));
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
            created(),
            created(),
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
        for (index, param) in signature.params.iter().enumerate() {
            let mut row: Vec<Item> = vec!["def".into(), schema.into(), routine.kept.name.as_str().into()];
            row.extend([(index as i64 + 1).into(), param.mode.word().into(), param.name.as_str().into()]);
            row.extend(type_items(&param.ty));
            row.push("PROCEDURE".into());
            rows.push(row);
        }
    })?;
    Ok(rows)
}

/// Whether somebody may read the text of a procedure.
fn may_read(routine: &Routine, access: &Access) -> bool {
    access.is_definer(routine.kept.definer.as_ref()) || access.global().has(Privileges::SELECT)
}

/// Answers SHOW CREATE PROCEDURE.
///
/// # Errors
/// 1305, also for who may not see it.
pub(crate) fn show_create(
    core: &mut Core,
    name: &TableName,
    more: bool,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let schema = ddl::schema_of(core, name)?;
    let catalog = schema.catalog()?;
    let access = core.env.access();
    let may_see =
        |routine: &Routine| access.is_definer(routine.kept.definer.as_ref()) || sees_all(&access, &schema.name);
    let routine = routine::named(catalog.routines(), &name.name).filter(|routine| may_see(routine));
    let routine = routine.ok_or_else(|| errors::unknown_program("PROCEDURE", &name.name))?;
    let (signature, _) = routine.read()?;
    let text = may_read(routine, &access).then(|| statement(routine, signature));
    let row = created_as(&routine.kept, &catalog, text);
    let [mode, charset, collation, database] = CREATED_AS;
    let names = ["Procedure", mode, "Create Procedure", charset, collation, database];
    send_rows(core, &names, &[row], more, sink)
}

/// The statement that makes a procedure, as MariaDB writes it.
fn statement(routine: &Routine, signature: &Signature) -> String {
    let (from, to) = signature.params_at;
    let says = &signature.says;
    let mut text = format!(
        "CREATE DEFINER={} PROCEDURE {}({})\n",
        routine.kept.shown_definer().in_sql(),
        quoted(&routine.kept.name),
        routine.kept.text.get(from..to).unwrap_or_default(),
    );
    let lines = [says.data_access, says.is_deterministic.then_some("DETERMINISTIC")];
    let lines = lines.into_iter().chain([says.as_invoker.then_some("SQL SECURITY INVOKER")]).flatten();
    lines.for_each(|line| text.push_str(&format!("    {line}\n")));
    if !says.comment.is_empty() {
        text.push_str(&format!("    COMMENT {}\n", mysql_string(&says.comment)));
    }
    text + routine.kept.text.get(signature.body..).unwrap_or_default()
}
