//! Listeners: places in the list of a schema's commits.
//!
//! To wake a task of another thread is a system call. So of all listeners of a thread only one, the *watch*, has its waker in the
//! list; when that has been woken it wakes the others that the new commits are about, which costs no system call.
//!
//! A listener that is woken mostly writes to a client, and a thousand of them take longer than a commit. So the watch wakes a few
//! in each turn of the event loop, in the order in which they began to wait: whoever else is ready has its turn in between, above
//! all the one who has committed. The watch itself hears when its turn has come, and another one goes on.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap, HashSet},
    future::{pending, poll_fn},
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tidegate_rows::ServerError;
use tokio::sync::watch;

use crate::{
    engine::Engine,
    schema::{
        Schema,
        commits::{Commit, LISTED_MAX, List},
    },
};

/// Listeners that are woken in a turn of the event loop: about a tenth of a millisecond of writing to clients, which is little beside
/// a commit that waits for the disk.
const SLICE_MAX: usize = 8;

thread_local! {
    static CIRCLES: RefCell<HashMap<u64, Rc<RefCell<Circle>>>> = RefCell::default();
}

/// The listeners of one thread to one schema.
#[derive(Default)]
struct Circle {
    members: usize,
    /// The last place that was given: who waits for longer has a smaller one.
    last_place: u64,
    /// Those who wait, by their places.
    waiting: HashMap<u64, Waiter>,
    /// Those of them who wait for a table: a commit costs nothing for those whom it does not concern.
    by_table: HashMap<Box<str>, HashSet<u64>>,
    /// Those who wait for any table.
    of_all: HashSet<u64>,
    /// Those whom a commit concerns, and who are to be woken.
    concerned: BTreeSet<u64>,
    /// The one of those who wait whose waker is in the list.
    watch: Option<u64>,
    /// Commits up to this number do not concern those who wait and are not to be woken.
    looked: u64,
    /// How many were to be woken in the last turn.
    slice: usize,
}

/// A listener that waits.
struct Waiter {
    waker: Waker,
    filter: Rc<Filter>,
    /// For one whom a commit concerns: commits up to this number did not.
    unconcerned: Option<u64>,
    is_woken: bool,
}

impl Circle {
    /// A listener waits: at the place that it has, unless it was woken from that.
    fn enter(&mut self, place: Option<u64>, waker: &Waker, filter: &Rc<Filter>) -> u64 {
        if let Some(place) = place {
            if let Some(waiter) = self.waiting.get_mut(&place).filter(|waiter| !waiter.is_woken) {
                waiter.waker.clone_from(waker);
                return place;
            }
            self.leave(place);
        }
        self.last_place += 1;
        let place = self.last_place;
        let waiter = Waiter { waker: waker.clone(), filter: Rc::clone(filter), unconcerned: None, is_woken: false };
        self.waiting.insert(place, waiter);
        match &filter.0 {
            None => drop(self.of_all.insert(place)),
            Some(tables) => tables.iter().for_each(|table| {
                self.by_table.entry(table.clone()).or_default().insert(place);
            }),
        }
        place
    }

    /// A commit concerns a listener.
    fn concern(&mut self, place: u64) {
        let Some(waiter) = self.waiting.get_mut(&place).filter(|waiter| waiter.unconcerned.is_none()) else { return };
        waiter.unconcerned = Some(self.looked);
        let filter = Rc::clone(&waiter.filter);
        self.concerned.insert(place);
        self.forget_tables(place, &filter);
    }

    fn forget_tables(&mut self, place: u64, filter: &Filter) {
        self.of_all.remove(&place);
        for table in filter.0.iter().flatten() {
            if let Some(places) = self.by_table.get_mut(table) {
                places.remove(&place);
                if places.is_empty() {
                    self.by_table.remove(table);
                }
            }
        }
    }

    /// Finds those whom new commits concern; answers how many commits are new.
    fn look(&mut self, list: &List) -> usize {
        let from = list.shown.partition_point(|commit| commit.number <= self.looked);
        let concerned: Vec<u64> = if list.is_over || self.looked < list.complete_from {
            self.waiting.keys().copied().collect()
        } else {
            let tables = list.shown.range(from..).flat_map(|commit| commit.tables.iter());
            let places = tables.filter_map(|table| self.by_table.get(table)).flatten();
            // Each commit is one of any table.
            let of_all = self.of_all.iter().filter(|_| from < list.shown.len());
            places.chain(of_all).copied().collect()
        };
        concerned.into_iter().for_each(|place| self.concern(place));
        self.looked = list.newest();
        list.shown.len() - from
    }

    /// The watch wakes the first of those whom a commit concerns: one if commits are new, for whoever commits may do so again at
    /// once; then more in each turn. But so many that everybody is woken before the list has lost what they are to hear.
    fn wake_some(&mut self, new_commits: usize) {
        self.slice = if new_commits > 0 { 1 } else { (self.slice * 2).clamp(1, SLICE_MAX) };
        let needed = self.concerned.len() * new_commits / (LISTED_MAX / 2);
        for _ in 0..self.slice.max(needed) {
            let Some(place) = self.concerned.pop_first() else { break };
            if let Some(waiter) = self.waiting.get_mut(&place) {
                waiter.is_woken = true;
                if self.watch != Some(place) {
                    waiter.waker.wake_by_ref();
                }
            }
        }
    }

    /// A listener does not wait any more. If it was the watch another one becomes that: the last one to be woken, so that there is
    /// seldom another one.
    fn leave(&mut self, place: u64) {
        let Some(waiter) = self.waiting.remove(&place) else { return };
        self.concerned.remove(&place);
        self.forget_tables(place, &waiter.filter);
        if self.watch == Some(place) {
            let unwoken = self.waiting.iter().find(|(_, waiter)| !waiter.is_woken);
            self.watch = self.concerned.last().or(unwoken.map(|(place, _)| place)).copied();
            if let Some(waiter) = self.watch.and_then(|watch| self.waiting.get(&watch)) {
                waiter.waker.wake_by_ref();
            }
        }
    }

    /// Up to which commit nothing concerns a listener that waits.
    fn unconcerned(&self, place: u64) -> u64 {
        self.waiting.get(&place).map_or(0, |waiter| waiter.unconcerned.unwrap_or(self.looked))
    }
}

/// The tables that somebody wants to hear of; `None` for all.
struct Filter(Option<Box<[Box<str>]>>);

impl Filter {
    fn wants(&self, commit: &Commit) -> bool {
        match &self.0 {
            None => true,
            Some(tables) => tables.iter().any(|table| commit.tables.binary_search(table).is_ok()),
        }
    }
}

/// What a listener hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// A commit.
    Commit(Arc<Commit>),
    /// Commits up to this number may have changed anything: the list does not go back far enough.
    Missed(u64),
}

/// Somebody who hears of the commits of a schema, each once and in their order. Stays on its thread.
pub struct Listening {
    schema: Arc<Schema>,
    circle: Rc<RefCell<Circle>>,
    /// Where it waits.
    place: Option<u64>,
    filter: Rc<Filter>,
    heard: u64,
    with_keys: bool,
}

/// Somebody who hears of schemas that are made, restored or found again.
#[derive(Debug)]
pub struct NewSchemas(watch::Receiver<()>);

impl NewSchemas {
    /// Waits until there is another schema than before. The future may be dropped at any time.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The engine is closed.
            pending().await
        }
    }
}

impl Engine {
    /// Hears of schemas that are there from now on.
    pub fn new_schemas(&self) -> NewSchemas {
        NewSchemas(self.inner.directory.made())
    }

    /// Hears from now on of commits that change one of `tables`, any table if there are none; of those behind `after` if it is
    /// given, as far as the list goes back.
    ///
    /// # Errors
    /// 1049 if there is no such schema, 1030 or 1290 if it has failed.
    pub fn listen(&self, schema: &str, tables: &[&str], after: Option<u64>) -> Result<Listening, ServerError> {
        let schema = self.inner.schema(schema)?;
        schema.may_write()?;
        // Only its catalogue gives a schema its first number.
        schema.catalog()?;
        let mut names: Vec<Box<str>> = tables.iter().map(|table| (*table).into()).collect();
        names.sort_unstable();
        let filter = Rc::new(Filter((!names.is_empty()).then(|| names.into())));
        let circle = CIRCLES.with_borrow_mut(|circles| Rc::clone(circles.entry(schema.id).or_default()));
        circle.borrow_mut().members += 1;
        let newest = schema.commits.begin_list();
        Ok(Listening { schema, circle, place: None, filter, heard: after.unwrap_or(newest), with_keys: false })
    }
}

impl Listening {
    /// Wants the keys of changed rows too ([`Commit::keys`]), of commits that begin from now on.
    pub fn with_keys(mut self) -> Self {
        if !self.with_keys {
            self.schema.commits.listen_for_keys();
            self.with_keys = true;
        }
        self
    }

    /// Waits for the next commit; `None` when there can be none any more, because the schema was dropped or its disk has failed.
    /// The future may be dropped at any time. It must not be kept without being polled: listeners of the same thread may wait
    /// for it.
    pub async fn next(&mut self) -> Option<Heard> {
        let waiting = Waiting(self);
        poll_fn(|cx| waiting.0.poll_next(cx)).await
    }

    /// The next commit that is there already.
    pub fn next_now(&mut self) -> Option<Heard> {
        let schema = Arc::clone(&self.schema);
        let list = schema.commits.list();
        self.find(&list)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Heard>> {
        let (schema, circle) = (Arc::clone(&self.schema), Rc::clone(&self.circle));
        let (mut list, mut circle) = (schema.commits.list(), circle.borrow_mut());
        let mut is_kept = false;
        if let Some(place) = self.place {
            if circle.watch == Some(place) {
                let new_commits = circle.look(&list);
                circle.wake_some(new_commits);
                is_kept = circle.concerned.contains(&place);
            }
            self.heard = self.heard.max(circle.unconcerned(place));
        }
        if !is_kept && let Some(heard) = self.find(&list) {
            return Poll::Ready(Some(heard));
        }
        if !is_kept && list.is_over {
            return Poll::Ready(None);
        }
        if circle.watch.is_none() {
            circle.look(&list);
        }
        let place = circle.enter(self.place, cx.waker(), &self.filter);
        self.place = Some(place);
        if *circle.watch.get_or_insert(place) == place {
            if !list.wakers.iter().any(|known| known.will_wake(cx.waker())) {
                list.wakers.push(cx.waker().clone());
            }
            if !circle.concerned.is_empty() {
                drop((list, circle));
                // The task is woken in the next turn of the event loop, behind what has come to sockets; the future is not needed
                // for that.
                let _ = pin!(tokio::task::yield_now()).poll(cx);
            }
        }
        Poll::Pending
    }

    /// What the list has for this listener.
    fn find(&mut self, list: &List) -> Option<Heard> {
        let newest = list.newest();
        // A number that was never given is one of another file.
        if self.heard < list.complete_from || self.heard > self.schema.commits.last() {
            self.heard = newest;
            return Some(Heard::Missed(newest));
        }
        let from = list.shown.partition_point(|commit| commit.number <= self.heard);
        let found = list.shown.range(from..).find(|commit| self.filter.wants(commit));
        self.heard = found.map_or(self.heard.max(newest), |commit| commit.number);
        found.map(|commit| Heard::Commit(Arc::clone(commit)))
    }

    /// Commits up to this number were heard of, or do not concern this listener.
    pub fn heard(&self) -> u64 {
        self.heard
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if self.with_keys {
            self.schema.commits.leave_keys();
        }
        let mut circle = self.circle.borrow_mut();
        circle.members -= 1;
        if circle.members == 0 {
            let id = self.schema.id;
            // The thread may be ending.
            let _ = CIRCLES.try_with(|circles| circles.borrow_mut().remove(&id));
        }
    }
}

/// A listener that waits, until this is dropped.
struct Waiting<'a>(&'a mut Listening);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.0.place.take() {
            self.0.circle.borrow_mut().leave(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(tables: &[&str]) -> Rc<Filter> {
        let names: Box<[Box<str>]> = tables.iter().map(|&table| table.into()).collect();
        Rc::new(Filter((!names.is_empty()).then_some(names)))
    }

    fn commit(list: &mut List, number: u64, tables: &[&str]) {
        let tables: Vec<Box<str>> = tables.iter().map(|&table| table.into()).collect();
        list.shown.push_back(Arc::new(Commit { number, tables: tables.into(), keys: Box::default() }));
    }

    /// Circles whose listeners have the places from 1 on; the first one is the watch.
    fn circle(filters: &[Rc<Filter>]) -> Circle {
        let mut circle = Circle::default();
        for filter in filters {
            circle.enter(None, Waker::noop(), filter);
        }
        circle.watch = Some(1);
        circle
    }

    fn concerned(circle: &Circle) -> Vec<u64> {
        circle.concerned.iter().copied().collect()
    }

    fn woken(circle: &Circle) -> Vec<u64> {
        let mut places: Vec<u64> =
            circle.waiting.iter().filter(|(_, waiter)| waiter.is_woken).map(|(place, _)| *place).collect();
        places.sort_unstable();
        places
    }

    #[test]
    fn a_commit_concerns_those_who_wait_for_its_tables() {
        let mut list = List::default();
        let filters = [filter(&["cats"]), filter(&["cats", "dogs"]), filter(&["dogs"]), filter(&[])];
        let mut circle = circle(&filters);
        assert_eq!(circle.enter(Some(1), Waker::noop(), &filters[0]), 1, "it has its place");
        circle.look(&list);
        assert_eq!(concerned(&circle), [], "nothing has come");
        commit(&mut list, 5, &["birds"]);
        assert_eq!(circle.look(&list), 1);
        assert_eq!(concerned(&circle), [4], "the one of any table");
        commit(&mut list, 6, &["birds", "dogs"]);
        assert_eq!(circle.look(&list), 1);
        assert_eq!(concerned(&circle), [2, 3, 4]);
        assert_eq!(circle.look(&list), 0, "commits are passed on once");
        assert_eq!([1, 2, 4].map(|place| circle.unconcerned(place)), [6, 5, 0]);
        list.complete_from = 9;
        circle.look(&list);
        assert_eq!(concerned(&circle), [1, 2, 3, 4], "what the list does not know may have been anything");
        assert!(circle.by_table.is_empty() && circle.of_all.is_empty());
        (1..5).for_each(|place| circle.leave(place));
        assert!(circle.watch.is_none() && circle.waiting.is_empty() && circle.concerned.is_empty());
    }

    #[test]
    fn few_are_woken_in_a_turn_and_those_first_who_wait_the_longest() {
        let all = filter(&[]);
        let (mut circle, mut list) = (circle(&vec![all.clone(); 100]), List::default());
        commit(&mut list, 5, &["cats"]);
        let turn = |circle: &mut Circle, list: &List| {
            let new_commits = circle.look(list);
            circle.wake_some(new_commits);
            let woken = woken(circle);
            // They hear it, and wait again; the watch does not.
            for &place in &woken {
                circle.leave(place);
                circle.enter(None, Waker::noop(), &all);
            }
            woken
        };
        assert_eq!(turn(&mut circle, &list), [1]);
        assert_eq!(circle.watch, Some(100), "the last one to be woken");
        assert_eq!(turn(&mut circle, &list), [2, 3]);
        assert_eq!(turn(&mut circle, &list), [4, 5, 6, 7]);
        assert_eq!(turn(&mut circle, &list), [8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(turn(&mut circle, &list).len(), SLICE_MAX);
        // Another commit comes at once: those who have heard the first one are behind the others.
        commit(&mut list, 6, &["cats"]);
        assert_eq!(turn(&mut circle, &list), [24]);
        assert_eq!(circle.concerned.len(), 99);
        // Many commits: nobody may miss one.
        (7..1031).for_each(|number| commit(&mut list, number, &["cats"]));
        assert_eq!(turn(&mut circle, &list).len(), 50);
        while circle.concerned.contains(&100) {
            turn(&mut circle, &list);
        }
        assert!(circle.watch > Some(100), "another one goes on when the watch has heard");
    }
}
