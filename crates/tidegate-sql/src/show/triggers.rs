//! What is shown of triggers: `information_schema.triggers`, SHOW CREATE TRIGGER.

use tidegate_rows::{QueryError, Sink};

use super::tables::each_table;
use crate::{
    accounts::Privileges,
    catalog::{Catalog, Table},
    ddl, errors,
    parse::{
        TableName,
        program::{
            kept::Kept,
            trigger::{self, Trigger},
        },
    },
    session::{Core, rows::rows},
    sql_mode,
    store::made_rows::{Item, Rows},
    translate::{Res, Translator, about::About},
    value::{collation::Collation, local::timestamp_to_local},
};

/// The columns of `information_schema.triggers`.
pub(crate) const COLUMNS: &str = "trigger_catalog trigger_schema trigger_name event_manipulation event_object_catalog \
event_object_schema event_object_table action_order# action_condition action_statement action_orientation action_timing \
action_reference_old_table action_reference_new_table action_reference_old_row action_reference_new_row created% sql_mode definer \
character_set_client collation_connection database_collation";

/// The rows of `information_schema.triggers`: those of tables on which the session has the privilege TRIGGER.
///
/// # Errors
/// Storage errors.
pub(crate) fn triggers(translator: &Translator<'_>, about: &About) -> Res<Rows> {
    let access = translator.now().env.access();
    let mut rows = Rows::new();
    each_table(translator, about, |schema, catalog, table| {
        let may_see = access.is_unlimited() || access.on_table(schema, &table.name).has(Privileges::TRIGGER);
        let all = catalog.triggers_of(table.id);
        let mut shown: Vec<_> = all.iter().filter(|_| may_see).collect();
        shown.sort_by_key(|trigger| trigger.read().map_or((3, 2), |(head, _)| (head.event as u8, head.timing as u8)));
        for trigger in shown {
            let Ok((head, _)) = trigger.read() else { continue };
            let before = all.iter().take_while(|other| other.kept.id != trigger.kept.id);
            let order = 1 + before.filter(|other| other.runs(head.event, head.timing)).count() as i64;
            rows.push(vec![
                "def".into(),
                schema.into(),
                trigger.kept.name.as_str().into(),
                head.event.word().into(),
                "def".into(),
                schema.into(),
                table.name.as_str().into(),
                order.into(),
                Item::Null,
                trigger.kept.text.get(head.body..).unwrap_or_default().into(),
                "ROW".into(),
                head.timing.word().into(),
                Item::Null,
                Item::Null,
                "OLD".into(),
                "NEW".into(),
                timestamp_to_local(trigger.kept.created).truncate(2).pack().into(),
                sql_mode::text_of(trigger.kept.sql_mode).into(),
                trigger.kept.shown_definer().to_string().into(),
                trigger.kept.charset.as_str().into(),
                trigger.kept.collation.name().into(),
                database_collation(catalog).name().into(),
            ]);
        }
    })?;
    Ok(rows)
}

/// The query of SHOW TRIGGERS, but for its schema.
pub(crate) const SHOW: &str = "SELECT trigger_name AS `Trigger`, event_manipulation AS `Event`, event_object_table AS `Table`, \
action_statement AS `Statement`, action_timing AS `Timing`, created AS `Created`, sql_mode AS `sql_mode`, definer AS `Definer`, \
character_set_client AS `character_set_client`, collation_connection AS `collation_connection`, \
database_collation AS `Database Collation` FROM information_schema.triggers";

/// Answers SHOW CREATE TRIGGER.
///
/// # Errors
/// 1360; 1227 for who may not see it.
pub(crate) fn show_create(
    core: &mut Core,
    name: &TableName,
    more: bool,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let schema = ddl::schema_of(core, name)?;
    let catalog = schema.catalog()?;
    let trigger = trigger::named(catalog.all_triggers(), &name.name).ok_or_else(errors::unknown_trigger)?;
    let table = catalog.by_id(trigger.table).ok_or_else(errors::unknown_trigger)?;
    core.env.access().want_on_table(&schema.name, &table.name, Privileges::TRIGGER)?;
    let mut row = created_as(&trigger.kept, &catalog, Some(statement(trigger, table)));
    row.push(Some(created(trigger)));
    let [mode, charset, collation, database] = CREATED_AS;
    let names = ["Trigger", mode, "SQL Original Statement", charset, collation, database, "Created"];
    rows(core, &names, &[row], more, sink)
}

/// What SHOW CREATE shows of all stored programs, beside the name and the statement.
pub(super) const CREATED_AS: [&str; 4] =
    ["sql_mode", "character_set_client", "collation_connection", "Database Collation"];

/// The name, the `sql_mode`, the statement, and what else of [`CREATED_AS`] stands behind that.
pub(super) fn created_as(kept: &Kept, catalog: &Catalog, statement: Option<String>) -> Vec<Option<String>> {
    vec![
        Some(kept.name.clone()),
        Some(sql_mode::text_of(kept.sql_mode)),
        statement,
        Some(kept.charset.clone()),
        Some(kept.collation.name().to_owned()),
        Some(database_collation(catalog).name().to_owned()),
    ]
}

/// The statement that makes a trigger.
fn statement(trigger: &Trigger, table: &Table) -> String {
    format!("CREATE DEFINER={} {}", trigger.kept.shown_definer().in_sql(), trigger.shown_text(&table.name))
}

pub(super) fn database_collation(catalog: &Catalog) -> Collation {
    catalog.collation.unwrap_or(Collation::DEFAULT)
}

/// When a trigger was made, with two digits of the second as MariaDB keeps it.
fn created(trigger: &Trigger) -> String {
    let mut out = Vec::new();
    timestamp_to_local(trigger.kept.created).write(2, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
