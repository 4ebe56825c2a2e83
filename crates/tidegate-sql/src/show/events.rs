//! What is shown of events: `information_schema.events`, SHOW EVENTS, SHOW CREATE EVENT.

use tidegate_rows::{QueryError, Sink};

use super::triggers::{CREATED_AS, created_as, database_collation};
use crate::{
    accounts::Privileges,
    ddl,
    env::Env,
    errors,
    identifier::{mysql_string, quoted},
    parse::{
        TableName,
        program::event::{Event, EventHead, Schedule, named},
    },
    session::{Core, rows::rows as send_rows},
    sql_mode,
    store::made_rows::{Item, Rows},
    translate::{Res, Translator},
    value::local::timestamp_to_local,
    variables,
};

/// The columns of `information_schema.events`.
pub(crate) const EVENTS: &str = "event_catalog event_schema event_name definer time_zone event_body event_definition event_type \
execute_at interval_value interval_field sql_mode starts ends status on_completion created last_altered last_executed event_comment \
originator# character_set_client collation_connection database_collation";

/// The query of SHOW EVENTS, but for its schema.
pub(crate) const SHOW: &str = "SELECT event_schema AS `Db`, event_name AS `Name`, definer AS `Definer`, time_zone AS `Time zone`, \
event_type AS `Type`, execute_at AS `Execute at`, interval_value AS `Interval value`, interval_field AS `Interval field`, \
starts AS `Starts`, ends AS `Ends`, status AS `Status`, originator AS `Originator`, character_set_client AS `character_set_client`, \
collation_connection AS `collation_connection`, database_collation AS `Database Collation` FROM information_schema.events";

/// A moment in seconds since 1970, as a value of a column.
fn time(seconds: i64) -> Item {
    Item::from(timestamp_to_local(seconds.saturating_mul(1_000_000)).truncate(0).pack())
}

/// Runs `f` in the time zone of an event: its times are shown in that one.
fn in_its_zone<T>(env: &Env, head: &EventHead, f: impl FnOnce() -> T) -> T {
    let own = env.clock.zone.get();
    if let Some(zone) = variables::zone(&head.time_zone) {
        env.clock.zone.set(zone);
    }
    let done = f();
    env.clock.zone.set(own);
    done
}

/// The rows of `information_schema.events`.
///
/// # Errors
/// Storage errors.
pub(crate) fn events(translator: &Translator<'_>) -> Res<Rows> {
    let mut all = Rows::new();
    let now = translator.now();
    let access = now.env.access();
    for name in now.engine.schema_names() {
        let Ok(schema) = now.engine.schema(&name) else { continue };
        if !access.on_schema(&name).has(Privileges::EVENT) {
            continue;
        }
        let catalog = schema.catalog()?;
        for event in catalog.events() {
            let Ok((head, _)) = event.read() else { continue };
            let kept = &event.kept;
            let (at, quantity, unit, starts, ends) = in_its_zone(now.env, head, || match head.schedule {
                Schedule::At(at) => (time(at), Item::Null, Item::Null, Item::Null, Item::Null),
                Schedule::Every { quantity, unit, starts, ends } => {
                    let quantity = Item::from(unit.quantity(quantity));
                    (Item::Null, quantity, unit.word().into(), time(starts), ends.map_or(Item::Null, time))
                }
            });
            let is_once = matches!(head.schedule, Schedule::At(_));
            let altered = if kept.altered == 0 { kept.created } else { kept.altered };
            all.push(vec![
                "def".into(),
                name.as_str().into(),
                kept.name.as_str().into(),
                kept.shown_definer().to_string().as_str().into(),
                head.time_zone.as_str().into(),
                "SQL".into(),
                head.body.as_str().into(),
                if is_once { "ONE TIME" } else { "RECURRING" }.into(),
                at,
                quantity,
                unit,
                sql_mode::text_of(kept.sql_mode).as_str().into(),
                starts,
                ends,
                head.status.shown().into(),
                if head.preserve { "PRESERVE" } else { "NOT PRESERVE" }.into(),
                time(kept.created / 1_000_000),
                time(altered / 1_000_000),
                in_its_zone(now.env, head, || event.last_run().map_or(Item::Null, time)),
                head.comment.as_str().into(),
                Item::Int(1),
                kept.charset.as_str().into(),
                kept.collation.name().into(),
                database_collation(&catalog).name().into(),
            ]);
        }
    }
    Ok(all)
}

/// Answers SHOW CREATE EVENT.
///
/// # Errors
/// 1539; 1044 for who may not see events of the schema.
pub(crate) fn show_create(
    core: &mut Core,
    name: &TableName,
    more: bool,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let schema = ddl::schema_of(core, name)?;
    core.env.access().want_in_schema(&schema.name, Privileges::EVENT)?;
    let catalog = schema.catalog()?;
    let event = named(catalog.events(), &name.name).ok_or_else(|| errors::unknown_event(&name.name))?;
    let (head, _) = event.read()?;
    let statement = in_its_zone(&core.env, head, || statement(event, head));
    let mut row = created_as(&event.kept, &catalog, Some(statement));
    row.insert(2, Some(head.time_zone.clone()));
    let [mode, charset, collation, database] = CREATED_AS;
    let names = ["Event", mode, "time_zone", "Create Event", charset, collation, database];
    send_rows(core, &names, &[row], more, sink)
}

/// The statement that makes an event, as MariaDB writes it.
fn statement(event: &Event, head: &EventHead) -> String {
    let shown = |seconds: i64| {
        let mut out = Vec::new();
        timestamp_to_local(seconds.saturating_mul(1_000_000)).write(0, &mut out);
        format!("'{}'", String::from_utf8_lossy(&out))
    };
    let schedule = match head.schedule {
        Schedule::At(at) => format!("AT {}", shown(at)),
        Schedule::Every { quantity, unit, starts, ends } => {
            let ends = ends.map_or_else(String::new, |ends| format!(" ENDS {}", shown(ends)));
            format!("EVERY {} {} STARTS {}{ends}", unit.quantity(quantity), unit.word(), shown(starts))
        }
    };
    let comment = match head.comment.as_str() {
        "" => String::new(),
        comment => format!(" COMMENT {}", mysql_string(comment)),
    };
    format!(
        "CREATE DEFINER={} EVENT {} ON SCHEDULE {schedule} ON COMPLETION {}PRESERVE {}{comment} DO {}",
        event.kept.shown_definer().in_sql(),
        quoted(&event.kept.name),
        if head.preserve { "" } else { "NOT " },
        head.status.words(),
        head.body
    )
}
