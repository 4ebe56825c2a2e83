//! Schedules: a queue gets a message at each of the times that a line of cron names, in a time zone.
//!
//! A schedule is a row that knows when its next message is due. The keeper stores the message and the time of the one after it in one
//! transaction, so that a time has one message, however many workers there are and whenever the server ends. Times that have passed
//! while no server ran have one message together.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use croner::Cron;
use tidegate_core::phase::Step;
use tidegate_net::{
    clock,
    log::{self, Level},
};
use tidegate_rows::{Param, QueryError, Value};
use tidegate_sql::table::{Answer, Change, Comparison, Filter, OnDuplicate, Otherwise, Request, Rows, Test};

use super::{
    answer::{Refused, send, write_list},
    api::{Call, Failure},
    counts::Changing,
    gather::{Gather, bytes, number},
    limits::Room,
    message::{NewMessage, check_name},
    publish::{Target, insert},
    store::{Open, Store, StoreError},
    time_of_day,
};
use crate::database::schemas::execute;

/// Schedules of one queue.
const OF_QUEUE_MAX: usize = 1000;
/// Schedules that are read together.
const TOGETHER_MAX: u64 = 64;
/// Bytes of a line of cron.
const CRON_BYTES_MAX: usize = 200;
/// The time zone of a schedule of which nothing else is said.
const ZONE_DEFAULT: &str = "UTC";

/// A schedule, as its row has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Schedule {
    queue: String,
    name: String,
    cron: String,
    zone: String,
    priority: u32,
    ttl_ms: Option<u64>,
    /// When the next message is due, in milliseconds since 1970; `None` if there will be no more.
    next_ms: Option<u64>,
    body: bytes::Bytes,
}

/// The first time behind `after_ms` that a line of cron names, in milliseconds since 1970; `None` if there is none.
///
/// # Errors
/// The line or the zone is none; as a sentence.
fn next_after(cron: &str, zone: &str, after_ms: u64) -> Result<Option<u64>, String> {
    let zone: Tz = zone.parse().map_err(|_| format!("\"zone\" is no time zone: {zone:?}"))?;
    if cron.len() > CRON_BYTES_MAX {
        return Err(format!("\"cron\" has more than {CRON_BYTES_MAX} bytes"));
    }
    let line: Cron = cron.parse().map_err(|error| format!("\"cron\" is no line of cron: {cron:?}: {error}"))?;
    let after = i64::try_from(after_ms).ok().and_then(DateTime::<Utc>::from_timestamp_millis).unwrap_or_default();
    let next = line.find_next_occurrence(&after.with_timezone(&zone), false).ok();
    Ok(next.and_then(|next| u64::try_from(next.timestamp_millis()).ok()))
}

impl Schedule {
    /// The schedule of a row with the columns of `Tables::schedules`.
    fn of(row: &[Param]) -> Option<Self> {
        let text = |column: usize| String::from_utf8(bytes(row.get(column))?.to_vec()).ok();
        let time =
            |column: usize| row.get(column).filter(|value| **value != Param::Null).map(|value| number(Some(value)));
        Some(Schedule {
            queue: text(0)?,
            name: text(1)?,
            cron: text(2)?,
            zone: text(3)?,
            priority: u32::try_from(number(row.get(4))).ok()?,
            ttl_ms: time(5),
            next_ms: time(6),
            body: bytes(row.get(7)).unwrap_or_default(),
        })
    }

    fn message(&self) -> NewMessage {
        NewMessage { priority: self.priority, ttl_ms: self.ttl_ms, ..NewMessage::new(self.body.clone()) }
    }

    /// As the API tells of it.
    fn json(&self) -> String {
        let Schedule { name, cron, zone, priority, next_ms, .. } = self;
        let next_ms = next_ms.map_or("null".to_owned(), |next| next.to_string());
        let (cron, zone) = (serde_json::Value::from(cron.as_str()), serde_json::Value::from(zone.as_str()));
        format!("{{\"name\":\"{name}\",\"cron\":{cron},\"zone\":{zone},\"priority\":{priority},\"next_ms\":{next_ms}}}")
    }
}

/// `GET NAME/schedules`
pub(super) async fn list(call: Call) -> Result<Step, Failure> {
    call.each_param(|_, _| Ok(false))?;
    let schedules = call.store.schedules(&call.queue).await.map_err(|error| Refused::of_store(&call.req, &error))?;
    let mut out = b"{\"schedules\":".to_vec();
    write_list(&schedules, &mut out, |schedule, out| out.extend_from_slice(schedule.json().as_bytes()));
    out.extend_from_slice(b"}\n");
    Ok(send(&call.req, 200, out).await)
}

/// `POST NAME/schedules`
pub(super) async fn set(call: Call) -> Result<Step, Failure> {
    let (mut name, mut cron, mut zone) = (None, None, ZONE_DEFAULT.to_owned());
    let mut message = NewMessage::new(bytes::Bytes::new());
    call.each_param(|parameter, value| {
        match parameter {
            "name" => {
                check_name(value).map_err(|_| no_name())?;
                name = Some(value.to_owned());
            }
            "cron" => cron = Some(value.to_owned()),
            "zone" => value.clone_into(&mut zone),
            "priority" | "ttl" => return message.set(parameter, value),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let (Some(name), Some(cron)) = (name, cron) else {
        return Err(Refused::bad("a schedule needs \"name\" and \"cron\"").into());
    };
    clock::update();
    let next_ms = next_after(&cron, &zone, time_of_day::now_ms()).map_err(Refused::bad)?;
    if next_ms.is_none() {
        return Err(Refused::bad(format!("\"cron\" names no time to come: {cron:?}")).into());
    }
    let body = call.body(call.conf().message_bytes_max()).await?;
    let NewMessage { priority, ttl_ms, .. } = message;
    let schedule = Schedule { queue: call.queue.clone(), name, cron, zone, priority, ttl_ms, next_ms, body };
    let stored = call.store.set_schedule(&schedule).await.map_err(|error| Refused::of_store(&call.req, &error))?;
    if !stored {
        return Err(Refused::with(409, format!("a queue has at most {OF_QUEUE_MAX} schedules")).into());
    }
    Ok(send(&call.req, 200, format!("{}\n", schedule.json()).into_bytes()).await)
}

/// `DELETE NAME/schedules`
pub(super) async fn remove(call: Call) -> Result<Step, Failure> {
    let mut name = None;
    call.each_param(|parameter, value| {
        let is_name = parameter == "name";
        if is_name {
            name = Some(value.to_owned());
        }
        Ok(is_name)
    })?;
    let name = name.ok_or_else(no_name)?;
    let removed = call.store.remove_schedule(&call.queue, &name).await;
    if !removed.map_err(|error| Refused::of_store(&call.req, &error))? {
        return Err(Refused::with(404, format!("there is no schedule {name:?}")).into());
    }
    Ok(send(&call.req, 200, b"{\"removed\":1}\n".to_vec()).await)
}

fn no_name() -> Refused {
    Refused::bad("\"name\" must have 1 to 200 letters, digits and characters of \".\", \"_\", \"-\", \":\"")
}

impl Store {
    /// The schedules of a queue, by their names.
    async fn schedules(&self, queue: &str) -> Result<Vec<Schedule>, StoreError> {
        let key = [Value::Bytes(queue.as_bytes())];
        let rows = Rows { limit: OF_QUEUE_MAX as u64, ..Rows::with_key(&key) };
        let open = self.open().await?;
        let tables = open.tables.clone();
        let found = self.carry_out(open, &[(&tables.schedules, Request::Find(rows))]).await?;
        Ok(found.rows.iter().filter_map(|row| Schedule::of(row)).collect())
    }

    /// Stores a schedule in the place of the one of its name. Answers whether there was room for it.
    async fn set_schedule(&self, schedule: &Schedule) -> Result<bool, StoreError> {
        let known = self.schedules(&schedule.queue).await?;
        if known.len() >= OF_QUEUE_MAX && !known.iter().any(|known| known.name == schedule.name) {
            return Ok(false);
        }
        let time = |time: Option<u64>| time.map_or(Value::Null, Value::Uint);
        let row = [
            Value::Bytes(schedule.queue.as_bytes()),
            Value::Bytes(schedule.name.as_bytes()),
            Value::Bytes(schedule.cron.as_bytes()),
            Value::Bytes(schedule.zone.as_bytes()),
            Value::Uint(schedule.priority.into()),
            time(schedule.ttl_ms),
            time(schedule.next_ms),
            Value::Bytes(&schedule.body),
        ];
        let open = self.open().await?;
        let tables = open.tables.clone();
        // The keeper hears of the commit.
        self.carry_out(open, &[(&tables.schedules, Request::Insert(&row, OnDuplicate::Replace))]).await?;
        Ok(true)
    }

    /// Removes a schedule; answers whether there was one.
    async fn remove_schedule(&self, queue: &str, name: &str) -> Result<bool, StoreError> {
        let key = [Value::Bytes(queue.as_bytes()), Value::Bytes(name.as_bytes())];
        let open = self.open().await?;
        let tables = open.tables.clone();
        let delete = Request::Delete(Rows::with_key(&key), Answer::Number);
        Ok(self.carry_out(open, &[(&tables.schedules, delete)]).await?.changed()? > 0)
    }

    /// Publishes the messages whose time has come. Answers when the next one's comes, in milliseconds since 1970.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn run_schedules(&self) -> Result<Option<u64>, StoreError> {
        loop {
            let key = [Value::Int(0)];
            let rows = Rows { limit: TOGETHER_MAX, ..Rows::new(Comparison::AtLeast, &key) };
            let open = self.open().await?;
            let tables = open.tables.clone();
            let found = self.carry_out(open, &[(&tables.schedules_next, Request::Find(rows))]).await?;
            let mut has_run = false;
            for schedule in found.rows.iter().filter_map(|row| Schedule::of(row)) {
                let Some(next_ms) = schedule.next_ms else { continue };
                clock::update();
                if next_ms > time_of_day::now_ms() {
                    return Ok(Some(next_ms));
                }
                self.with_room(async || self.run_schedule(&schedule, next_ms).await).await?;
                has_run = true;
            }
            if !has_run {
                return Ok(None);
            }
        }
    }

    /// Publishes the message of a schedule that was due at `due_ms`, unless the schedule has changed meanwhile.
    async fn run_schedule(&self, schedule: &Schedule, due_ms: u64) -> Result<(), StoreError> {
        let Schedule { queue, name, cron, zone, .. } = schedule;
        let next_ms = next_after(cron, zone, time_of_day::now_ms()).unwrap_or_else(|problem| {
            log::note(Level::Warn, format_args!("queue: the schedule \"{name}\" of \"{queue}\" ends: {problem}"));
            None
        });
        let held = self.subscriptions().await?;
        let targets = self.targets(&held, queue).await?;
        let message = schedule.message();
        let mut open = self.open().await?;
        let mut changing = self.changing(targets.iter().map(|target| &*target.queue)).await;
        let mut rooms = Vec::new();
        for target in &targets {
            match self.take_room(&mut changing, target, 1, false).await {
                Ok(room) => rooms.extend(room),
                Err(error @ StoreError::Full { .. }) => {
                    changing.nothing();
                    log::note(
                        Level::Warn,
                        format_args!("queue: the schedule \"{name}\" of \"{queue}\" is left out: {error}"),
                    );
                    return self.skip_run(open, schedule, (due_ms, next_ms)).await;
                }
                Err(error) => {
                    changing.nothing();
                    return Err(error);
                }
            }
        }
        let to = To { targets: &targets, rooms: &rooms };
        let stored = store_run(&mut open, schedule, (due_ms, next_ms), &to, &message, &mut changing).await;
        if let Err(error) = stored {
            self.failed(&error, changing);
            return Err(error);
        }
        self.give_back(open);
        changing.certain();
        self.have_made_room(rooms);
        Ok(())
    }

    /// There is no room for the message of a schedule: the next one is due at its time.
    async fn skip_run(&self, mut open: Open, schedule: &Schedule, times: (u64, Option<u64>)) -> Result<(), StoreError> {
        if let Err(error) = set_next(&mut open, schedule, times).await {
            self.doubt(&error);
            return Err(error.into());
        }
        self.give_back(open);
        Ok(())
    }
}

/// Where a schedule's message goes.
struct To<'a> {
    targets: &'a [Target],
    rooms: &'a [Room],
}

/// Stores the message in each of the queues and when the next one is due, in one transaction; nothing if the schedule is not any more
/// what it was.
async fn store_run(
    open: &mut Open,
    schedule: &Schedule,
    times: (u64, Option<u64>),
    To { targets, rooms }: &To<'_>,
    message: &NewMessage,
    changing: &mut Changing<'_>,
) -> Result<(), StoreError> {
    execute(&mut open.session, b"BEGIN").await?;
    if set_next(open, schedule, times).await? == 0 {
        execute(&mut open.session, b"ROLLBACK").await?;
        return Ok(());
    }
    for target in *targets {
        // The session is dropped after an error, and the transaction with it.
        insert(open, target, message, changing).await?;
    }
    for room in *rooms {
        room.make(open, 1, changing).await?;
    }
    execute(&mut open.session, b"COMMIT").await?;
    Ok(())
}

/// Says when the next message of a schedule is due; answers 0 if the schedule is not any more what it was.
async fn set_next(
    open: &mut Open,
    schedule: &Schedule,
    (due_ms, next_ms): (u64, Option<u64>),
) -> Result<u64, QueryError> {
    let tables = open.tables.clone();
    let key = [Value::Bytes(schedule.queue.as_bytes()), Value::Bytes(schedule.name.as_bytes())];
    let test = Test::Compares(Comparison::Equal);
    let filters = [Filter { column: 0, test, value: Value::Uint(due_ms), otherwise: Otherwise::Stop }];
    let rows = Rows { filters: &filters, ..Rows::with_key(&key) };
    let changes = [Change::Set(next_ms.map_or(Value::Null, Value::Uint))];
    let mut changed = Gather::default();
    let update = [(&tables.schedules_run, Request::Update(rows, &changes, Answer::Number))];
    open.session.run_requests(&update, &mut changed).await;
    changed.changed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cron: &str, zone: &str, after: &str, expected: Option<&str>) {
        let time = |text: &str| DateTime::parse_from_rfc3339(text).expect("a time").timestamp_millis().unsigned_abs();
        let next = next_after(cron, zone, time(after)).expect("a line of cron");
        assert_eq!(next, expected.map(time), "{cron} in {zone}");
    }

    #[test]
    fn times_of_lines() {
        check("*/15 * * * *", "UTC", "2026-01-01T00:00:00Z", Some("2026-01-01T00:15:00Z"));
        check("@daily", "UTC", "2026-01-01T00:00:00Z", Some("2026-01-02T00:00:00Z"));
        check("30 9 * * 1-5", "Europe/Berlin", "2026-06-05T12:00:00Z", Some("2026-06-08T07:30:00Z"));
        // The night in which an hour is missing, and the one that has an hour twice: one message each.
        check("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", Some("2026-03-29T01:00:00Z"));
        check("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", Some("2026-10-25T00:30:00Z"));
        check("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", Some("2026-10-26T01:30:00Z"));
        check("*/10 * * * * *", "UTC", "2026-01-01T00:00:01Z", Some("2026-01-01T00:00:10Z"));
        check("0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", None);
        check("0 0 0 1 1 * 2020", "UTC", "2026-01-01T00:00:00Z", None);
    }

    #[test]
    fn what_is_no_schedule() {
        for (cron, zone) in
            [("", "UTC"), ("* * *", "UTC"), ("61 * * * *", "UTC"), ("* * * * *", "Mars/Base"), ("\0", "UTC")]
        {
            assert!(next_after(cron, zone, 0).is_err(), "{cron:?} in {zone}");
        }
        assert!(next_after(&"*,".repeat(200), "UTC", 0).is_err());
    }
}
