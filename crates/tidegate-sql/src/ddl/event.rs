//! CREATE EVENT, ALTER EVENT and DROP EVENT. What runs events is `crate::events`.

use std::sync::Arc;

use tidegate_rows::ServerError;

use super::{
    change, definer_of, internal, schema_of,
    trigger::{NAME_MAX, new_program},
};
use crate::{
    catalog_file::programs::{self, NewProgram},
    errors,
    parse::{
        Span, TableName,
        program::event::{Event, EventHead, EventStatement, Schedule, ScheduleSpec, Status, named},
    },
    schema::Schema,
    session::Core,
    value::Datum,
    variables,
};

type Res<T> = Result<T, ServerError>;

/// Intervals that are longer are refused.
const QUANTITY_MAX: i64 = 1 << 30;

/// Carries out CREATE EVENT and ALTER EVENT, whose expressions stand in `sql`.
///
/// # Errors
/// MySQL's.
pub(super) fn define(core: &mut Core, event: &EventStatement, sql: &[u8]) -> Res<()> {
    let name = event.rename.as_ref().unwrap_or(&event.name);
    if name.name.chars().count() > NAME_MAX {
        return Err(errors::too_long_name(&name.name));
    }
    // One moment for all that is compared with it, before those of the expressions.
    let now = core.env.now_micros();
    let schedule = event.schedule.as_ref().map(|spec| schedule_of(core, spec, sql, now)).transpose()?;
    if event.alters { alter(core, event, schedule, now) } else { create(core, event, schedule, now) }
}

fn create(core: &mut Core, event: &EventStatement, schedule: Option<Schedule>, now: i64) -> Res<()> {
    let schema = schema_of(core, &event.name)?;
    let name = &event.name.name;
    let head = EventHead {
        schedule: schedule.ok_or_else(|| errors::syntax("SCHEDULE"))?,
        preserve: event.says.preserve.unwrap_or(false),
        status: event.says.status.unwrap_or(Status::Enabled),
        comment: event.says.comment.clone().unwrap_or_default(),
        time_zone: time_zone(core),
        body: event.body.clone().unwrap_or_default(),
    };
    let is_over = is_over(&head.schedule, now / 1_000_000);
    if is_over && !head.preserve {
        definer_of(core, event.definer.as_ref(), false)?;
        let known = named(schema.catalog()?.events(), name).is_some();
        if known && !event.or_replace && !event.if_not_exists {
            return Err(errors::event_exists(name));
        }
        core.env.note(errors::event_dropped_at_once());
        return Ok(());
    }
    let head = EventHead { status: if is_over { Status::Disabled } else { head.status }, ..head };
    let text = Event::text(name, &head);
    let new = NewProgram { created: now, ..new_program(core, name, &text, event.definer.as_ref())? };
    let exists = change(core, &schema, &[], |conn, catalog| {
        if let Some(known) = named(catalog.events(), name) {
            if event.if_not_exists {
                return Ok(true);
            }
            if !event.or_replace {
                return Err(errors::event_exists(name));
            }
            programs::remove(conn, known.kept.id).map_err(internal)?;
        }
        programs::store_event(conn, &new, 0, None).map_err(internal)?;
        Ok(false)
    })?;
    if exists {
        core.env.note(errors::event_exists(name));
    } else if is_over {
        core.env.note(errors::event_disabled_at_once());
    }
    if !core.engine.events.is_on() {
        core.env.warn(errors::scheduler_is_off());
    }
    core.engine.events.note_change();
    Ok(())
}

fn alter(core: &mut Core, event: &EventStatement, schedule: Option<Schedule>, now: i64) -> Res<()> {
    let schema = schema_of(core, &event.name)?;
    let unknown = || errors::unknown_event(&event.name.name);
    let known = named(schema.catalog()?.events(), &event.name.name).cloned().ok_or_else(unknown)?;
    let (old, _) = known.read()?;
    let new_name = match &event.rename {
        Some(to) if to.schema.as_ref().is_some_and(|other| *other != schema.name) => {
            return Err(errors::unsupported("renaming an event to another schema"));
        }
        Some(to) if to.name == known.kept.name => return Err(errors::event_of_same_name()),
        Some(to) => to.name.clone(),
        None => known.kept.name.clone(),
    };
    let head = EventHead {
        schedule: schedule.unwrap_or(old.schedule),
        preserve: event.says.preserve.unwrap_or(old.preserve),
        status: event.says.status.unwrap_or(old.status),
        comment: event.says.comment.clone().unwrap_or_else(|| old.comment.clone()),
        time_zone: if schedule.is_some() { time_zone(core) } else { old.time_zone.clone() },
        body: event.body.clone().unwrap_or_else(|| old.body.clone()),
    };
    let is_over = schedule.is_some() && is_over(&head.schedule, now / 1_000_000);
    if is_over && !head.preserve {
        return Err(errors::event_not_changed());
    }
    let head = EventHead { status: if is_over { Status::Disabled } else { head.status }, ..head };
    let text = Event::text(&new_name, &head);
    // Whoever alters an event is its definer from then on, as in MariaDB.
    let new =
        NewProgram { created: known.kept.created, ..new_program(core, &new_name, &text, event.definer.as_ref())? };
    change(core, &schema, &[], |conn, catalog| {
        let found = named(catalog.events(), &event.name.name).ok_or_else(unknown)?;
        if event.rename.is_some()
            && named(catalog.events(), &new_name).is_some_and(|other| other.kept.id != found.kept.id)
        {
            return Err(errors::event_exists(&new_name));
        }
        programs::remove(conn, found.kept.id).map_err(internal)?;
        programs::store_event(conn, &new, now, found.last_run()).map_err(internal)
    })?;
    if is_over {
        core.env.note(errors::event_disabled_at_once());
    }
    core.engine.events.note_change();
    Ok(())
}

/// Carries out DROP EVENT.
///
/// # Errors
/// 1539
pub(super) fn drop(core: &mut Core, name: &TableName, if_exists: bool) -> Res<()> {
    let schema = schema_of(core, name)?;
    if named(schema.catalog()?.events(), &name.name).is_none() {
        if !if_exists {
            return Err(errors::unknown_event(&name.name));
        }
        core.env.note(errors::unknown_program("Event", &name.name));
        return Ok(());
    }
    change(core, &schema, &[], |conn, catalog| {
        // Others may have dropped it while this session waited.
        match named(catalog.events(), &name.name) {
            Some(found) => programs::remove(conn, found.kept.id).map_err(internal),
            None if if_exists => Ok(()),
            None => Err(errors::unknown_event(&name.name)),
        }
    })?;
    core.engine.events.note_change();
    Ok(())
}

/// An event has run for the last time: it goes, or is disabled. One that was altered meanwhile stays.
///
/// # Errors
/// Storage errors.
pub(crate) fn finish(core: &Core, schema: &Arc<Schema>, event: &Event) -> Res<()> {
    let (head, _) = event.read()?;
    change(core, schema, &[], |conn, catalog| {
        let is_it = |known: &&Arc<Event>| known.kept.is_same(&event.kept);
        let Some(found) = catalog.events().iter().find(is_it) else { return Ok(()) };
        if !head.preserve {
            return programs::remove(conn, found.kept.id).map_err(internal);
        }
        let text = Event::text(&event.kept.name, &EventHead { status: Status::Disabled, ..head.clone() });
        programs::alter(conn, found.kept.id, &text, found.kept.altered).map_err(internal)
    })
}

/// Whether a schedule has no time from a moment on.
fn is_over(schedule: &Schedule, now: i64) -> bool {
    match schedule {
        Schedule::At(at) => *at < now,
        every @ Schedule::Every { .. } => every.next(now).is_none(),
    }
}

fn time_zone(core: &Core) -> String {
    variables::value_of(&core.engine, &core.env, "time_zone").unwrap_or_default()
}

fn schedule_of(core: &mut Core, spec: &ScheduleSpec, sql: &[u8], now: i64) -> Res<Schedule> {
    let (quantity, unit, starts, ends) = match spec {
        ScheduleSpec::At(at) => return Ok(Schedule::At(time_of(core, sql, *at, "AT")?)),
        ScheduleSpec::Every { quantity, unit, starts, ends } => (*quantity, *unit, *starts, *ends),
    };
    let text = String::from_utf8_lossy(&sql[quantity.0..quantity.1]).into_owned();
    let expression = match unit.smallest() {
        None => format!("CAST({text} AS SIGNED)"),
        // What such an interval is in its smallest unit.
        Some(smallest) => {
            let (smallest, unit, from) = (smallest.word(), unit.word(), "TIMESTAMP'2001-01-01 00:00:00'");
            format!("TIMESTAMPDIFF({smallest}, {from}, {from} + INTERVAL ({text}) {unit})")
        }
    };
    let quantity = match core.value_of(&expression)? {
        Datum::Int(quantity @ 1..=QUANTITY_MAX) => quantity as u32,
        Datum::Null => return Err(errors::wrong_event_time("INTERVAL", "NULL")),
        _ => return Err(errors::wrong_event_interval()),
    };
    let starts = match starts {
        Some(starts) => time_of(core, sql, starts, "STARTS")?,
        None => now / 1_000_000,
    };
    let ends = ends.map(|ends| time_of(core, sql, ends, "ENDS")).transpose()?;
    if ends.is_some_and(|ends| ends < starts) {
        return Err(errors::wrong_event_end());
    }
    Ok(Schedule::Every { quantity, unit, starts, ends })
}

/// The moment that an expression means, in seconds since 1970.
fn time_of(core: &mut Core, sql: &[u8], (from, to): Span, clause: &str) -> Res<i64> {
    let text = String::from_utf8_lossy(&sql[from..to]).into_owned();
    match core.value_of(&format!("CAST(UNIX_TIMESTAMP({text}) AS SIGNED)"))? {
        Datum::Int(seconds @ 1..) => Ok(seconds),
        _ => Err(errors::wrong_event_time(clause, text.trim_matches('\''))),
    }
}
