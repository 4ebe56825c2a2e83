//! Looks after time: leases that end, messages whose time has come, messages that are of no use any more.
//!
//! One worker does so for all; when it ends another one goes on. It sleeps until the next of these times, and is woken when an
//! earlier one comes into being.

use std::{
    collections::BTreeMap,
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tidegate_net::{
    clock,
    log::{self, Level},
};
use tidegate_queue::{Place, Settling};
use tidegate_rows::{Param, Value};
use tidegate_sql::table::{Answer, Change, Comparison, OpenTable, Request, Rows};

use super::{
    gather::{bytes, number},
    store::{Store, StoreError},
    tables::{READY, Tables},
};

/// Messages that share a commit.
const TOGETHER_MAX: usize = 256;
/// After a failure, and while somebody has messages that are of no use any more.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest sleep: somebody may set the clock forward, or write to the tables.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Looks after time for as long as the worker lives.
pub(super) async fn keep(store: Rc<Store>) {
    let home = store.home.clone();
    let _keeping = home.keeping.lock().await;
    // The one before may have ended behind a commit of which it had not told.
    home.broker.forget_all();
    let has_failed = AtomicBool::new(false);
    loop {
        let sleep = match look(&store).await {
            Ok(sleep) => {
                has_failed.store(false, Ordering::Relaxed);
                sleep
            }
            Err(error) => {
                // Once is enough: nobody has done anything about it yet.
                if !has_failed.swap(true, Ordering::Relaxed) {
                    log::note(Level::Warn, format_args!("queue: messages whose time has come wait: {error}"));
                }
                PAUSE
            }
        };
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            () = home.broker.deadline_changed() => {}
            () = home.due_changed.notified() => {}
        }
    }
}

/// Does what is to be done now; answers how long nothing is.
async fn look(store: &Rc<Store>) -> Result<Duration, StoreError> {
    let mut sleep = SLEEP_MAX;
    while expire_leases(store).await? {}
    for part in [wake_delayed(store).await?, drop_expired(store).await?] {
        sleep = sleep.min(part);
    }
    // Last: time has passed meanwhile.
    clock::update();
    if let Some(deadline_ms) = store.broker().next_deadline_ms() {
        sleep = sleep.min(Duration::from_millis(deadline_ms.saturating_sub(clock::steady_ms())));
    }
    Ok(sleep)
}

/// Messages whose consumers have had them for too long have failed. Answers whether there may be more.
async fn expire_leases(store: &Rc<Store>) -> Result<bool, StoreError> {
    clock::update();
    let expired = store.broker().expired(TOGETHER_MAX);
    let is_full = expired.len() == TOGETHER_MAX;
    let mut by_queue: BTreeMap<String, Vec<Settling>> = BTreeMap::new();
    for settling in expired {
        by_queue.entry(settling.queue().to_owned()).or_default().push(settling);
    }
    for (queue, settling) in by_queue {
        store.fail(&queue, settling, 0, Some("the consumer's time was over")).await?;
    }
    Ok(is_full)
}

/// A row of `Tables::due` or `Tables::expires`.
struct Timed {
    time_ms: u64,
    queue: String,
    place: Place,
}

/// The rows of an index over times that come first.
async fn first_of(store: &Rc<Store>, table: impl Fn(&Tables) -> &OpenTable) -> Result<Vec<Timed>, StoreError> {
    let key = [Value::Int(0)];
    let rows = Rows { limit: TOGETHER_MAX as u64, ..Rows::new(Comparison::AtLeast, &key) };
    let open = store.open().await?;
    let tables = open.tables.clone();
    let found = store.carry_out(open, &[(table(&tables), Request::Find(rows))]).await?;
    let timed = |row: &Vec<Param>| {
        let queue = String::from_utf8(bytes(row.get(2))?.to_vec()).ok()?;
        let priority = u32::try_from(number(row.get(3))).ok()?;
        Some(Timed { time_ms: number(row.first()), queue, place: Place { priority, id: number(row.get(1)) } })
    };
    Ok(found.rows.iter().filter_map(timed).collect())
}

/// How long until a time of day.
fn until(time_ms: u64) -> Duration {
    clock::update();
    Duration::from_millis(time_ms.saturating_sub(clock::now_ms()))
}

/// Lets messages wait whose time has come. Answers the time until the next one's.
async fn wake_delayed(store: &Rc<Store>) -> Result<Duration, StoreError> {
    loop {
        let first = first_of(store, |tables| &tables.due).await?;
        let count = first.iter().take_while(|timed| until(timed.time_ms).is_zero()).count();
        let Some(due) = first.get(..count).filter(|due| !due.is_empty()) else {
            return Ok(first.first().map_or(SLEEP_MAX, |next| until(next.time_ms)));
        };
        let keys: Vec<_> = due.iter().map(|timed| [Value::Uint(timed.place.id)]).collect();
        let changes = [Change::Set(Value::Int(READY)), Change::Set(Value::Null)];
        let open = store.open().await?;
        let tables = open.tables.clone();
        let requests: Vec<_> = keys
            .iter()
            .map(|key| (&tables.fail, Request::Update(Rows::with_key(key), &changes, Answer::Number)))
            .collect();
        store.carry_out(open, &requests).await?;
        for timed in due {
            store.broker().waits(&timed.queue, timed.place);
        }
    }
}

/// Deletes messages whose time to live is over and that nobody has. Answers the time until the next one's.
async fn drop_expired(store: &Rc<Store>) -> Result<Duration, StoreError> {
    loop {
        let first = first_of(store, |tables| &tables.expires).await?;
        let over: Vec<&Timed> = first.iter().take_while(|timed| until(timed.time_ms).is_zero()).collect();
        let Some(next) = first.get(over.len()).map(|next| until(next.time_ms)).or(over.is_empty().then_some(SLEEP_MAX))
        else {
            // All of them are over, and there may be more.
            if delete_unleased(store, &over).await? == 0 {
                return Ok(PAUSE);
            }
            continue;
        };
        if over.is_empty() {
            return Ok(next);
        }
        let deleted = delete_unleased(store, &over).await?;
        return Ok(if deleted < over.len() { next.min(PAUSE) } else { next });
    }
}

async fn delete_unleased(store: &Rc<Store>, over: &[&Timed]) -> Result<usize, StoreError> {
    let broker = store.broker();
    let keys: Vec<_> = over
        .iter()
        .filter(|timed| !broker.is_leased(timed.place.id))
        .map(|timed| [Value::Uint(timed.place.id)])
        .collect();
    let open = store.open().await?;
    let tables = open.tables.clone();
    let requests: Vec<_> =
        keys.iter().map(|key| (&tables.read, Request::Delete(Rows::with_key(key), Answer::Number))).collect();
    store.carry_out(open, &requests).await?;
    Ok(keys.len())
}
