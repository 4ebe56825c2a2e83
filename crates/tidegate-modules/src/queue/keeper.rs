//! Looks after time: leases that end, messages whose time has come, schedules, messages that are of no use any more.
//!
//! One worker does so for all; when it ends another one goes on. It sleeps until the next of these times, and is woken when an
//! earlier one comes into being.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::sync::Notify;

use tidegate_net::{
    clock,
    log::{self, Level},
};
use tidegate_queue::{Place, Settling};
use tidegate_rows::{Param, Value};
use tidegate_sql::{
    Listening,
    table::{Answer, Comparison, OpenTable, Request, Revise, Revision, Rows},
};

use super::{
    counts::Spot,
    gather::{Gather, bytes, number},
    limits::Dies,
    results,
    store::{Store, StoreError},
    tables::{DEAD, DELAYED, READY, SCHEDULES, SCHEMA, SETTINGS, SUBSCRIPTIONS, Tables},
    time_of_day,
};
use crate::database::schemas::execute;

/// Messages that share a commit.
const TOGETHER_MAX: usize = 256;
/// After a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// Why a message is dead that was in its queue for too long.
const REASON_OLD: &str = "the message was too old";
/// The longest sleep: somebody may set the clock forward, or write to the tables.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// How long those whose time is over wait for messages that are due. It is a commit; where nobody looks after time for so long, as
/// between two workers, there is nothing to be had.
const DUE_PATIENCE: Duration = Duration::from_secs(5);

/// What is known of the next delayed message.
pub(super) struct Due {
    /// When its time comes, in milliseconds since 1970; it has not come to wait yet. `u64::MAX` for no message, or if it cannot.
    next_ms: AtomicU64,
    changed: Notify,
}

impl Default for Due {
    fn default() -> Self {
        Due { next_ms: AtomicU64::new(u64::MAX), changed: Notify::new() }
    }
}

impl Due {
    fn is(&self, next_ms: u64) {
        self.next_ms.store(next_ms, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Waits until delayed messages wait whose time has come: that takes a commit, and a consumer that waits no longer than until
    /// now is to have them.
    pub(super) async fn have_come(&self) {
        let changed = self.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if until(self.next_ms.load(Ordering::Acquire)).is_zero() {
            let _ = tokio::time::timeout(DUE_PATIENCE, changed).await;
        }
    }
}

/// Looks after time for as long as the worker lives.
pub(super) async fn keep(store: Rc<Store>) {
    let home = store.home.clone();
    let _keeping = home.keeping.lock().await;
    // The one before may have ended in the middle of a commit of which it has not told. Where nothing can be written no commit is
    // under way either.
    let _ = let_commits_pass(&store).await;
    home.broker.forget_all();
    let mut has_failed = false;
    let mut listening = None;
    loop {
        let sleep = match look(&store, &mut listening).await {
            Ok(sleep) => sleep,
            Err(error) => {
                home.due.is(u64::MAX);
                // Once is enough: nobody has done anything about it yet.
                if !std::mem::replace(&mut has_failed, true) {
                    log::note(Level::Warn, format_args!("queue: messages whose time has come wait: {error}"));
                }
                // Whatever comes meanwhile: what could not be done has left word that it is to be done.
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        has_failed = false;
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            () = home.broker.deadline_changed() => {}
            () = home.due_changed.notified() => {}
            () = settings_change(&store, &mut listening) => {}
        }
    }
}

/// Waits for a commit that changes settings, subscriptions or schedules, and leaves `listening` empty then: it is time to read them anew.
async fn settings_change(store: &Store, listening: &mut Option<Listening>) {
    let Some(heard) = listening else { return std::future::pending().await };
    if heard.next().await.is_none() {
        // Nobody hears of the schema any more: it was dropped, and its tables are made anew when somebody needs them.
        store.forget_tables();
    }
    *listening = None;
}

/// Does what is to be done now; answers how long nothing is.
async fn look(store: &Rc<Store>, listening: &mut Option<Listening>) -> Result<Duration, StoreError> {
    if listening.is_none() {
        store.give_back(store.open().await?);
        // In this order: what is committed while they are read is heard of later.
        *listening = Some(store.engine.listen(SCHEMA, &[SETTINGS, SUBSCRIPTIONS, SCHEDULES], None)?);
        store.reread_settings().await?;
        store.reread_subscriptions().await?;
    }
    settle_doubts(store).await?;
    let mut sleep = SLEEP_MAX;
    while expire_leases(store).await? {}
    let pauses = store.end_pauses().await?.unwrap_or(SLEEP_MAX);
    let scheduled = store.run_schedules().await?.map_or(SLEEP_MAX, until);
    let results = results::drop_expired(store).await?.unwrap_or(SLEEP_MAX);
    for part in [pauses, scheduled, results, wake_delayed(store).await?, drop_expired(store).await?] {
        sleep = sleep.min(part);
    }
    // Last: time has passed meanwhile.
    clock::update();
    if let Some(deadline_ms) = store.broker().next_deadline_ms() {
        sleep = sleep.min(Duration::from_millis(deadline_ms.saturating_sub(clock::steady_ms())));
    }
    Ok(sleep)
}

/// Waits until commits have come to something that are under way now: whoever is about to commit has the schema's write lock, and
/// a write has to wait for that.
async fn let_commits_pass(store: &Rc<Store>) -> Result<(), StoreError> {
    let open = store.open().await?;
    let tables = open.tables.clone();
    let nothing = Request::Delete(Rows::with_key(&[Value::Uint(0)]), Answer::Number);
    store.carry_out(open, &[(&tables.read, nothing)]).await.map(drop)
}

/// Finds out what has become of commits that were broken off: a statement whose worker ends may be part of a commit that another
/// of the worker's statements has begun and still carries out.
async fn settle_doubts(store: &Rc<Store>) -> Result<(), StoreError> {
    let doubtful = store.home.take_doubtful();
    if doubtful.is_empty() && !store.home.counts.are_forgotten() {
        return Ok(());
    }
    if let Err(error) = recount(store, &doubtful).await {
        store.home.doubt(doubtful);
        return Err(error);
    }
    doubtful.iter().for_each(|queue| store.broker().forget(queue));
    Ok(())
}

/// Counts messages of queues anew when commits to them have come to something.
async fn recount(store: &Rc<Store>, queues: &BTreeSet<String>) -> Result<(), StoreError> {
    let counts = &store.home.counts;
    // The tables first: whoever opens them may have to make them.
    let mut open = store.open().await?;
    let alone = counts.alone().await;
    let_commits_pass(store).await?;
    if counts.are_forgotten() {
        counts.recount_all(&alone, &mut open.session).await?;
    } else {
        for queue in queues {
            counts.recount(&alone, &mut open.session, queue).await?;
        }
    }
    drop(alone);
    store.give_back(open);
    Ok(())
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
    /// 0 in rows of `Tables::due`.
    published_ms: u64,
}

/// The rows of an index over times that come first, behind so many others.
async fn first_of(
    store: &Rc<Store>,
    table: impl Fn(&Tables) -> &OpenTable,
    offset: usize,
) -> Result<Vec<Timed>, StoreError> {
    let key = [Value::Int(0)];
    let rows = Rows { limit: TOGETHER_MAX as u64, offset: offset as u64, ..Rows::new(Comparison::AtLeast, &key) };
    let open = store.open().await?;
    let tables = open.tables.clone();
    let found = store.carry_out(open, &[(table(&tables), Request::Find(rows))]).await?;
    let timed = |row: &Vec<Param>| {
        let queue = String::from_utf8(bytes(row.get(2))?.to_vec()).ok()?;
        let priority = u32::try_from(number(row.get(3))).ok()?;
        let place = Place { priority, id: number(row.get(1)) };
        Some(Timed { time_ms: number(row.first()), queue, place, published_ms: number(row.get(4)) })
    };
    Ok(found.rows.iter().filter_map(timed).collect())
}

/// How long until a time of day.
fn until(time_ms: u64) -> Duration {
    clock::update();
    Duration::from_millis(time_ms.saturating_sub(time_of_day::now_ms()))
}

/// What a time that has come does to a message: a delayed one is ready, a blocked one waits for nothing but its turn.
#[derive(Debug)]
struct Wake(Cell<bool>);

impl Revise for Wake {
    fn revise(&self, old: Option<&[Param]>) -> Revision {
        let state = old.map(|old| number(old.first()));
        self.0.set(state == Some(DELAYED.unsigned_abs()));
        match state {
            Some(_) if self.0.get() => Revision::Put(vec![Param::Int(READY), Param::Null]),
            Some(state) => Revision::Put(vec![Param::Uint(state), Param::Null]),
            None => Revision::Keep,
        }
    }
}

/// Lets messages wait whose time has come. Answers the time until the next one's.
async fn wake_delayed(store: &Rc<Store>) -> Result<Duration, StoreError> {
    loop {
        let first = first_of(store, |tables| &tables.due, 0).await?;
        let count = first.iter().take_while(|timed| until(timed.time_ms).is_zero()).count();
        let Some(due) = first.get(..count).filter(|due| !due.is_empty()) else {
            store.home.due.is(first.first().map_or(u64::MAX, |next| next.time_ms));
            return Ok(first.first().map_or(SLEEP_MAX, |next| until(next.time_ms)));
        };
        let keys: Vec<_> = due.iter().map(|timed| [Value::Uint(timed.place.id)]).collect();
        let wakes: Vec<Wake> = keys.iter().map(|_| Wake(Cell::new(false))).collect();
        let open = store.open().await?;
        let tables = open.tables.clone();
        let requests: Vec<_> = keys
            .iter()
            .zip(&wakes)
            .map(|(key, wake)| (&tables.wake, Request::Revise(Rows::with_key(key), wake)))
            .collect();
        let mut changing = store.changing(due.iter().map(|timed| &*timed.queue)).await;
        store.carry_out(open, &requests).await?;
        for (Timed { queue, place, .. }, _) in due.iter().zip(&wakes).filter(|(_, wake)| wake.0.get()) {
            let spot = |state| Some(Spot { state, priority: place.priority });
            changing.moved(queue, spot(DELAYED), spot(READY));
            changing.comes(queue, *place, READY);
        }
        changing.certain();
    }
}

/// Deletes messages whose time to live is over and that nobody has, or lets them die. Answers the time until the next one's. A message that somebody
/// has is looked at again when it waits again ([`Store::fail`]).
async fn drop_expired(store: &Rc<Store>) -> Result<Duration, StoreError> {
    let mut leased = 0;
    loop {
        let first = first_of(store, |tables| &tables.expires, leased).await?;
        let over: Vec<&Timed> = first.iter().take_while(|timed| until(timed.time_ms).is_zero()).collect();
        leased += over.len() - delete_unleased(store, &over).await?;
        if let Some(next) = first.get(over.len()) {
            return Ok(until(next.time_ms));
        }
        if first.len() < TOGETHER_MAX {
            return Ok(SLEEP_MAX);
        }
    }
}

async fn delete_unleased(store: &Rc<Store>, over: &[&Timed]) -> Result<usize, StoreError> {
    let broker = store.broker();
    let mut free: Vec<(&Timed, bool)> = Vec::new();
    for timed in over.iter().filter(|timed| !broker.is_leased(timed.place.id)) {
        free.push((timed, store.limits(&timed.queue).await?.lets_die(timed.published_ms)));
    }
    if free.is_empty() {
        return Ok(0);
    }
    store.with_room(async || delete_together(store, &free).await).await?;
    store.home.waiters.tell(over.iter().map(|timed| timed.place.id));
    Ok(free.len())
}

/// Deletes messages, or lets them die.
async fn delete_together(store: &Rc<Store>, over: &[(&Timed, bool)]) -> Result<(), StoreError> {
    let mut changing = store.changing(over.iter().map(|(timed, _)| &*timed.queue)).await;
    let gone: Vec<u64> = over.iter().filter(|(_, dies)| !dies).map(|(timed, _)| timed.place.id).collect();
    if !gone.is_empty() {
        store.end_messages(&gone, None, &mut changing).await?;
    }
    for (timed, _) in over.iter().filter(|(_, dies)| *dies) {
        let mut open = store.open().await?;
        let (tables, dies) = (open.tables.clone(), Dies::new(REASON_OLD));
        let key = [Value::Uint(timed.place.id)];
        execute(&mut open.session, b"BEGIN").await?;
        let dying = Request::Revise(Rows::with_key(&key), &dies);
        open.session.run_request(&tables.die, &dying, &mut Gather::default()).await?;
        dies.pass_on(&mut open, timed.place.id, &mut changing).await?;
        execute(&mut open.session, b"COMMIT").await?;
        store.give_back(open);
        if let Some(from) = dies.from.get() {
            changing.moved(&timed.queue, Some(from), Some(Spot { state: DEAD, ..from }));
        }
    }
    changing.certain();
    Ok(())
}
