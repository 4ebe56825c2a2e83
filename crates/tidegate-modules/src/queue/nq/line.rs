//! The line of a queue: its receivers are served in the order in which they came, many of them with one commit.
//!
//! A receiver gets in line with what it wants ([`Ask`]). Whoever finds nobody serving begins to, in a task of its worker: it takes
//! all who are there, looks for messages for one after the other, stores all that they get with one commit, and tells them. Those
//! who came meanwhile are the next. So receivers of one name do not wait for each other's commits, and a commit to the queue wakes
//! those who get something, whichever worker they are connected to.
//!
//! Invariants:
//! 1. One task serves a line, so that nobody else moves its receivers' places meanwhile. When its worker ends, all who are in line
//!    hear that and get in line anew, with the places that they had.
//! 2. Who stays in line is looked at once behind getting there, and again behind each commit to the queue that comes later.
//! 3. Somebody who waits in several lines is claimed by the line that has something, before that is stored: the others pass over it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tidegate_sql::Listening;
use tokio::sync::{Notify, mpsc};

use super::{
    Failure,
    json::Message,
    receiver::Wanted,
    round::{self, Places, Served},
    tables::{Database, is_missing},
};

/// Receivers that are served together.
const TOGETHER_MAX: usize = 1000;

/// When the places of so many receivers are known that do not wait, beside one for each that does, they are forgotten.
const PLACES_KEPT: usize = 1000;
/// How often a schema is looked for that is not there, by those who wait for its messages. Of one that `POST post` makes they hear.
const ABSENT_LOOK: Duration = Duration::from_secs(1);
/// How long a round may wait for as many as the one before had, and no longer than half of what that one took. Those that a round has
/// answered come back one after the other, often at once: served one by one each would wait for a commit of the others.
const GATHER_MAX: Duration = Duration::from_micros(500);

/// A schema and a queue.
type Key = (String, String);

/// The lines in which somebody is.
static LINES: Mutex<Option<HashMap<Key, Line>>> = Mutex::new(None);
/// The place in all lines of whoever comes next.
static TICKETS: AtomicU64 = AtomicU64::new(1);

#[derive(Default)]
struct Line {
    /// Those that have not been looked at, by their tickets.
    new: BTreeMap<u64, Ask>,
    /// Those for which there was nothing.
    waiting: BTreeMap<u64, Ask>,
    is_served: bool,
    /// Somebody has come or gone.
    changed: Arc<Notify>,
}

/// What somebody in line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Messages that it has not had.
    Next,
    /// Messages that it has had for too long.
    Again,
    /// Messages that it has not had, and if there are none those that it has had for too long.
    Either,
}

/// A receiver in the line of a queue.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) receiver: Arc<str>,
    pub(super) what: What,
    pub(super) wanted: Wanted,
    /// It waits until there is something.
    stays: bool,
    claim: Arc<AtomicBool>,
    answer: mpsc::UnboundedSender<Answer>,
}

/// Messages of a queue, or why there are none.
type Answer = (String, Result<Vec<Message>, String>);

impl Ask {
    /// Whether nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        self.answer.is_closed()
    }

    /// Takes it for this line alone; false if another one has something for it.
    pub(super) fn claim(&self) -> bool {
        !self.claim.swap(true, Ordering::AcqRel)
    }

    /// What it was claimed for is not to be had: any line may claim it again.
    pub(super) fn release(&self) {
        self.claim.store(false, Ordering::Release);
    }
}

/// Somebody who gets in lines. Leaves all of them when this is dropped.
pub(super) struct InLines {
    schema: String,
    receiver: Arc<str>,
    ticket: u64,
    queues: Vec<String>,
    claim: Arc<AtomicBool>,
}

fn lines() -> MutexGuard<'static, Option<HashMap<Key, Line>>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// There is a schema from now on: those who wait for its messages look for them.
pub(super) fn schema_is_made(schema: &str) {
    let lines = lines();
    let of_schema = lines.iter().flatten().filter(|((name, _), _)| name == schema);
    of_schema.for_each(|(_, line)| line.changed.notify_one());
}

impl InLines {
    pub(super) fn new(schema: &str, receiver: &str) -> Self {
        InLines {
            schema: schema.to_owned(),
            receiver: receiver.into(),
            ticket: TICKETS.fetch_add(1, Ordering::Relaxed),
            queues: Vec::new(),
            claim: Arc::default(),
        }
    }

    /// What there is of a queue now.
    ///
    /// # Errors
    /// The database has refused.
    pub(super) async fn ask(
        &mut self,
        database: &Database,
        queue: &str,
        what: What,
        wanted: Wanted,
    ) -> Result<Vec<Message>, Failure> {
        loop {
            let (sender, answers) = mpsc::unbounded_channel();
            let (receiver, claim) = (self.receiver.clone(), Arc::default());
            self.get_in(database, queue, Ask { receiver, what, wanted, stays: false, claim, answer: sender });
            if let Some((_, answer)) = self.answer(answers).await {
                return answer.map_err(Failure::Unavailable);
            }
        }
    }

    /// Waits for messages of one of these queues, whichever has some first.
    ///
    /// # Errors
    /// The database has refused.
    pub(super) async fn stay(
        &mut self,
        database: &Database,
        wanted: &[(&str, Wanted)],
    ) -> Result<(String, Vec<Message>), Failure> {
        loop {
            let (sender, answers) = mpsc::unbounded_channel();
            for &(queue, wanted) in wanted {
                let (receiver, claim, answer) = (self.receiver.clone(), self.claim.clone(), sender.clone());
                self.get_in(database, queue, Ask { receiver, what: What::Next, wanted, stays: true, claim, answer });
            }
            drop(sender);
            if let Some((queue, answer)) = self.answer(answers).await {
                return answer.map(|messages| (queue, messages)).map_err(Failure::Unavailable);
            }
            // Whoever has ended may have claimed it.
            self.claim.store(false, Ordering::Release);
        }
    }

    /// What claims it for one of its lines.
    pub(super) fn claim(&self) -> Arc<AtomicBool> {
        self.claim.clone()
    }

    fn get_in(&mut self, database: &Database, queue: &str, ask: Ask) {
        self.queues.push(queue.to_owned());
        let key = (self.schema.clone(), queue.to_owned());
        let mut lines = lines();
        let line = lines.get_or_insert_default().entry(key.clone()).or_default();
        line.new.insert(self.ticket, ask);
        if mem::replace(&mut line.is_served, true) {
            line.changed.notify_one();
            return;
        }
        let serving = Serving { key, changed: line.changed.clone(), is_over: false };
        drop(lines);
        tokio::task::spawn_local(serve(serving, database.another()));
    }

    /// The first answer; `None` if whoever serves has ended without one.
    async fn answer(&mut self, mut answers: mpsc::UnboundedReceiver<Answer>) -> Option<Answer> {
        let answer = answers.recv().await;
        // In this order: whoever is just being looked at is not put back then.
        drop(answers);
        self.leave();
        answer
    }

    fn leave(&mut self) {
        let mut lines = lines();
        for queue in self.queues.drain(..) {
            let Some(line) = lines.as_mut().and_then(|lines| lines.get_mut(&(self.schema.clone(), queue))) else {
                continue;
            };
            if line.new.remove(&self.ticket).is_some() || line.waiting.remove(&self.ticket).is_some() {
                line.changed.notify_one();
            }
        }
    }
}

impl Drop for InLines {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whoever serves a line. Those who are in it hear of its end.
struct Serving {
    key: Key,
    changed: Arc<Notify>,
    is_over: bool,
}

impl Serving {
    /// Those who are to be looked at, in their order: who is new, and `all` others.
    fn take(&self, all: bool) -> Vec<(u64, Ask)> {
        let mut lines = lines();
        let Some(line) = lines.as_mut().and_then(|lines| lines.get_mut(&self.key)) else { return Vec::new() };
        if all {
            let mut waiting = mem::take(&mut line.waiting);
            line.new.append(&mut waiting);
        }
        let mut taken = Vec::new();
        while taken.len() < TOGETHER_MAX
            && let Some(first) = line.new.pop_first()
        {
            taken.push(first);
        }
        taken
    }

    /// Lets others of the worker have their turn until so many are new, for a time that is worth it behind a round that `took` so long.
    async fn gather(&self, count: usize, took: Duration) {
        let (begun, time_max) = (Instant::now(), GATHER_MAX.min(took / 2));
        while self.new_count() < count && begun.elapsed() < time_max {
            tokio::task::yield_now().await;
        }
    }

    /// The receivers that wait for commits.
    fn waiting(&self) -> HashSet<Arc<str>> {
        let lines = lines();
        let line = lines.as_ref().and_then(|lines| lines.get(&self.key));
        line.into_iter().flat_map(|line| line.waiting.values()).map(|ask| ask.receiver.clone()).collect()
    }

    fn waiting_count(&self) -> usize {
        let lines = lines();
        lines.as_ref().and_then(|lines| lines.get(&self.key)).map_or(0, |line| line.waiting.len())
    }

    fn is_empty(&self) -> bool {
        let lines = lines();
        let line = lines.as_ref().and_then(|lines| lines.get(&self.key));
        line.is_none_or(|line| line.new.is_empty() && line.waiting.is_empty())
    }

    fn new_count(&self) -> usize {
        let lines = lines();
        lines.as_ref().and_then(|lines| lines.get(&self.key)).map_or(0, |line| line.new.len())
    }

    /// Somebody waits on, or is to be looked at anew.
    fn put_back(&self, ticket: u64, ask: Ask, is_new: bool) {
        let mut lines = lines();
        let Some(line) = lines.as_mut().and_then(|lines| lines.get_mut(&self.key)) else { return };
        let to = if is_new { &mut line.new } else { &mut line.waiting };
        to.insert(ticket, ask);
        // Who has left while it was not there has not found itself: in this order nobody is overlooked.
        if to.get(&ticket).is_some_and(Ask::is_gone) {
            to.remove(&ticket);
        }
    }

    /// Whether somebody is new; `None` if nobody is in line, of which the end is this then.
    fn look(&mut self) -> Option<bool> {
        let mut lines = lines();
        let line = lines.as_mut().and_then(|lines| lines.get_mut(&self.key));
        let Some(line) = line.filter(|line| !line.new.is_empty() || !line.waiting.is_empty()) else {
            if let Some(lines) = lines.as_mut() {
                lines.remove(&self.key);
            }
            self.is_over = true;
            return None;
        };
        Some(!line.new.is_empty())
    }

    /// Whether somebody in line waits for commits.
    fn has_patient(&self) -> bool {
        let lines = lines();
        let line = lines.as_ref().and_then(|lines| lines.get(&self.key));
        line.is_some_and(|line| !line.waiting.is_empty() || line.new.values().any(|ask| ask.stays))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Those in line are dropped behind the lock: they hear of that, and get in line anew.
        let left = lines().as_mut().and_then(|lines| lines.remove(&self.key));
        drop(left);
    }
}

/// Serves a line until nobody is in it.
async fn serve(mut serving: Serving, mut database: Database) {
    let queue = serving.key.1.clone();
    let table = format!("{queue}_msg");
    let mut listening: Option<Listening> = None;
    let mut all = false;
    let mut is_absent = false;
    let mut places = Places::default();
    let (mut together, mut took) = (0, Duration::ZERO);
    loop {
        if together > 1 && serving.is_empty() {
            // Those that the last round has answered are about to come back: whoever of them began a new line would be served alone.
            serving.gather(together, took).await;
            together = serving.new_count();
        }
        let Some(has_new) = serving.look() else { return };
        if listening.is_none() && !is_absent && serving.has_patient() {
            // Ahead of the look: what is committed behind it is heard of.
            match database.listen(&[&table]) {
                Ok(heard) => listening = Some(heard),
                Err(error) if is_missing(&error) => is_absent = true,
                Err(error) => {
                    let failed = error.to_string();
                    for (_, ask) in serving.take(true) {
                        let _ = ask.answer.send((queue.clone(), Err(failed.clone())));
                    }
                    continue;
                }
            }
            all = true;
        }
        if has_new || all {
            if !all {
                serving.gather(together, took).await;
            }
            let asks = serving.take(all);
            (all, together) = (false, asks.len());
            let begun = Instant::now();
            serve_round(&serving, &mut database, &queue, asks, &mut places).await;
            took = begun.elapsed();
            continue;
        }
        database.rest();
        if listening.is_none() {
            // Whoever waits makes no schema: somebody may just have dropped it to make it anew.
            tokio::select! {
                () = serving.changed.notified() => {}
                () = tokio::time::sleep(ABSENT_LOOK) => {}
            }
            is_absent = false;
            continue;
        }
        all = hears(&serving, &mut listening).await;
    }
}

/// Waits for somebody new in the line, or for a commit; answers whether all are to look, for a commit or because the schema was
/// dropped, after which nobody listens.
async fn hears(serving: &Serving, listening: &mut Option<Listening>) -> bool {
    let Some(commits) = listening else { return false };
    tokio::select! {
        biased;
        () = serving.changed.notified() => false,
        heard = commits.next() => {
            if heard.is_none() {
                *listening = None;
            }
            true
        }
    }
}

async fn serve_round(
    serving: &Serving,
    database: &mut Database,
    queue: &str,
    asks: Vec<(u64, Ask)>,
    places: &mut Places,
) {
    let mut asks: Vec<(u64, Ask)> = asks.into_iter().filter(|(_, ask)| !ask.is_gone()).collect();
    let only: Vec<&Ask> = asks.iter().map(|(_, ask)| ask).collect();
    let served = round::serve(database, queue, &only, places).await;
    let outcomes = served.unwrap_or_else(|error| {
        let failed = error.to_string();
        asks.iter().map(|_| Served::Failed(failed.clone())).collect()
    });
    for ((ticket, ask), outcome) in asks.drain(..).zip(outcomes) {
        let answer = match outcome {
            Served::Messages(messages) if messages.is_empty() && ask.stays => {
                serving.put_back(ticket, ask, false);
                continue;
            }
            Served::Later => {
                serving.put_back(ticket, ask, true);
                continue;
            }
            // Another line has something for it.
            Served::Taken => continue,
            Served::Messages(messages) => Ok(messages),
            Served::Failed(error) => Err(error),
        };
        // Whoever has left gets its messages again when their time is over.
        let _ = ask.answer.send((queue.to_owned(), answer));
    }
    if places.count() >= PLACES_KEPT + 2 * serving.waiting_count() {
        let waiting = serving.waiting();
        places.keep(|receiver| waiting.contains(receiver));
    }
}
