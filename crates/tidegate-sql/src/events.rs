//! The event scheduler: a thread that runs the events of all schemas when their time has come, while `event_scheduler` is on.
//!
//! There is one thread for an engine, whatever number of workers it has, so that each event runs once. An event has a session of its own
//! there, and those that are due together run side by side. One that is still running when it is due again is left out
//! that time. When events are defined, altered or dropped the thread looks at all of them again.
//!
//! A repeated event runs at the multiples of its interval since STARTS that come after it was defined, altered, or the engine was
//! opened: what was missed meanwhile is not made up for. One with AT runs once, late if need be.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::task::{JoinSet, LocalSet};

use crate::{
    clock::Clock,
    ddl,
    event_queue::EventId,
    parse::program::event::{Event, Schedule, Status},
    schema::Schema,
    session::{Session, above::Above, event_runs},
    shared::EngineInner,
};

/// The longest sleep: the clock may be set meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// An event as it was defined at a moment: when it was made and altered.
type Key = (EventId, i64, i64);

/// When events are due, in seconds since 1970; `None` for those whose time is over.
type Due = HashMap<Key, Option<i64>>;

/// Has the thread of an engine start when it is wanted.
pub(crate) fn provide(engine: &Arc<EngineInner>, above: &'static Above) {
    let weak = Arc::downgrade(engine);
    engine.events.start_by(Box::new(move |number| start(&weak, above, number)));
}

fn start(engine: &Weak<EngineInner>, above: &'static Above, number: u64) {
    let weak = Weak::clone(engine);
    let thread = std::thread::Builder::new().name("sql-events".into()).spawn(move || {
        if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() {
            LocalSet::new().block_on(&runtime, run(weak, above, number));
        }
    });
    if let (Err(error), Some(engine)) = (thread, engine.upgrade()) {
        engine.settings.report(&format!("events do not run: {error}"));
    }
}

/// The time of the machine's clock, in seconds since 1970.
fn now() -> i64 {
    Clock::machine() / 1_000_000
}

async fn run(weak: Weak<EngineInner>, above: &'static Above, number: u64) {
    let Some(mut wanted) = weak.upgrade().map(|engine| engine.events.listen()) else { return };
    let (mut due, mut runs) = (Due::new(), JoinSet::new());
    loop {
        let is_wanted = wanted.borrow_and_update().thread == Some(number);
        let Some(engine) = weak.upgrade().filter(|_| is_wanted) else { break };
        let (ready, next) = look(&engine, &mut due);
        for (schema, event) in ready {
            let id = (schema.id, event.kept.id);
            if engine.events.begin(id) {
                let engine = Arc::clone(&engine);
                runs.spawn_local(async move {
                    run_one(&engine, above, &schema, &event).await;
                    engine.events.end(id);
                });
            }
        }
        drop(engine);
        while runs.try_join_next().is_some() {}
        let sleep = next.map_or(SLEEP_MAX, |next| Duration::from_secs(u64::try_from(next - now()).unwrap_or(0)));
        tokio::select! {
            () = tokio::time::sleep(sleep.min(SLEEP_MAX)) => {}
            _ = wanted.changed() => {}
        }
    }
    while runs.join_next().await.is_some() {}
}

type Ready = Vec<(Arc<Schema>, Arc<Event>)>;

/// The events that are due, and when the next one is.
fn look(engine: &EngineInner, due: &mut Due) -> (Ready, Option<i64>) {
    let (mut ready, mut next, mut seen) = (Vec::new(), None::<i64>, HashSet::new());
    let now = now();
    let opened = now - i64::try_from(engine.started.elapsed().as_secs()).unwrap_or(0);
    for schema in engine.all_schemas() {
        let Ok(catalog) = schema.catalog() else { continue };
        for event in catalog.events() {
            let Ok((head, _)) = event.read() else { continue };
            if head.status != Status::Enabled {
                continue;
            }
            let (kept, id) = (&event.kept, (schema.id, event.kept.id));
            let key = (id, kept.created, kept.altered);
            let at = due.entry(key).or_insert_with(|| {
                let defined = kept.created.max(kept.altered) / 1_000_000;
                let behind = event.last_run().map_or(defined, |last| last + 1);
                head.schedule.next(defined.max(opened).max(behind))
            });
            seen.insert(key);
            if at.is_none_or(|at| at <= now) {
                ready.push((Arc::clone(&schema), Arc::clone(event)));
                *at = match head.schedule {
                    // It goes, or is disabled, before it runs.
                    Schedule::At(_) => Some(i64::MAX),
                    every @ Schedule::Every { .. } => Some(every.next(now + 1).unwrap_or(i64::MAX)),
                };
            }
            next = next.into_iter().chain(*at).min();
        }
    }
    due.retain(|key, _| seen.contains(key));
    (ready, next)
}

/// Runs an event, which has gone by then if this is its last time. What fails is told to whoever reads the log.
async fn run_one(engine: &Arc<EngineInner>, above: &'static Above, schema: &Arc<Schema>, event: &Arc<Event>) {
    let Ok((head, _)) = event.read() else { return };
    let (now, mut session) = (now(), Session::new(Arc::clone(engine), above));
    event.runs_at(now);
    let (is_last, runs) = match head.schedule {
        Schedule::At(_) => (true, true),
        Schedule::Every { ends, .. } => (head.schedule.next(now + 1).is_none(), ends.is_none_or(|ends| now <= ends)),
    };
    let name = format!("{}.{}", schema.name, event.kept.name);
    if is_last && let Err(error) = session.in_own_coroutine(|core| ddl::event::finish(core, schema, event)).await {
        engine.settings.report(&format!("event {name} could not be ended: {error}"));
        return;
    }
    // One that has gone needs no note.
    if (head.preserve || !is_last)
        && let Err(error) = session.in_own_coroutine(|core| event_runs::note(core, schema, event, now)).await
    {
        engine.settings.report(&format!("event {name}: that it runs could not be noted: {error}"));
    }
    if runs && let Err(error) = session.run_event(schema, event).await {
        engine.settings.report(&format!("event {name} failed: {error}"));
    }
}
