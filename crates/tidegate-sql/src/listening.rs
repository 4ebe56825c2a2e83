//! Listeners: places in the list of a schema's commits.
//!
//! To wake a task of another thread is a system call. So of all listeners of a thread only one, the *watch*, has its waker in the
//! list; when that has been woken it wakes the others that the new commits are about, which costs no system call.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    future::{pending, poll_fn},
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
        commits::{Commit, List},
    },
};

thread_local! {
    static CIRCLES: RefCell<HashMap<u64, Rc<RefCell<Circle>>>> = RefCell::default();
}

/// The listeners of one thread to one schema.
#[derive(Default)]
struct Circle {
    next_id: u64,
    members: usize,
    /// Those who have heard everything and wait.
    waiting: HashMap<u64, (Waker, Rc<Filter>)>,
    /// Those of them who wait for a table: a commit costs nothing for those whom it does not concern.
    by_table: HashMap<Box<str>, HashSet<u64>>,
    /// Those who wait for any table.
    of_all: HashSet<u64>,
    /// The one of them whose waker is in the list.
    watch: Option<u64>,
    /// Commits up to this number do not concern those who wait.
    looked: u64,
}

impl Circle {
    /// A listener waits.
    fn enter(&mut self, id: u64, waker: &Waker, filter: &Rc<Filter>) {
        if let Some((known, _)) = self.waiting.get_mut(&id) {
            known.clone_from(waker);
            return;
        }
        self.waiting.insert(id, (waker.clone(), Rc::clone(filter)));
        match &filter.0 {
            None => drop(self.of_all.insert(id)),
            Some(tables) => tables.iter().for_each(|table| {
                self.by_table.entry(table.clone()).or_default().insert(id);
            }),
        }
    }

    /// A listener does not wait any more.
    fn remove(&mut self, id: u64) -> Option<Waker> {
        let (waker, filter) = self.waiting.remove(&id)?;
        self.of_all.remove(&id);
        for table in filter.0.iter().flatten() {
            if let Some(ids) = self.by_table.get_mut(table) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_table.remove(table);
                }
            }
        }
        Some(waker)
    }

    /// The watch tells the others what has come.
    fn pass_on(&mut self, list: &List) {
        let concerned: Vec<u64> = if list.is_over || self.looked < list.complete_from {
            self.waiting.keys().copied().collect()
        } else {
            let from = list.shown.partition_point(|commit| commit.number <= self.looked);
            let tables = list.shown.range(from..).flat_map(|commit| commit.tables.iter());
            let ids = tables.filter_map(|table| self.by_table.get(table)).flatten();
            // Each commit is one of any table.
            let of_all = self.of_all.iter().filter(|_| from < list.shown.len());
            ids.chain(of_all).copied().collect()
        };
        for id in concerned {
            if self.watch != Some(id)
                && let Some(waker) = self.remove(id)
            {
                waker.wake();
            }
        }
        self.looked = list.newest();
    }

    /// A listener does not wait any more. If it was the watch another one becomes that.
    fn leave(&mut self, id: u64) {
        self.remove(id);
        if self.watch == Some(id) {
            self.watch = None;
            if let Some((waker, _)) = self.waiting.values().next() {
                waker.wake_by_ref();
            }
        }
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
    id: u64,
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
        let id = {
            let mut circle = circle.borrow_mut();
            circle.members += 1;
            circle.next_id += 1;
            circle.next_id
        };
        let newest = schema.commits.begin_list();
        Ok(Listening { schema, circle, id, filter, heard: after.unwrap_or(newest), with_keys: false })
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

    fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Option<Heard>> {
        let (schema, circle) = (Arc::clone(&self.schema), Rc::clone(&self.circle));
        let (mut list, mut circle) = (schema.commits.list(), circle.borrow_mut());
        let is_watch = circle.watch == Some(self.id);
        if is_watch {
            circle.pass_on(&list);
        } else if circle.waiting.contains_key(&self.id) {
            self.heard = self.heard.max(circle.looked);
        }
        if let Some(heard) = self.find(&list) {
            return Poll::Ready(Some(heard));
        }
        if list.is_over {
            return Poll::Ready(None);
        }
        circle.enter(self.id, cx.waker(), &self.filter);
        if circle.watch.is_none() {
            circle.pass_on(&list);
            circle.watch = Some(self.id);
        }
        if circle.watch == Some(self.id) && !list.wakers.iter().any(|known| known.will_wake(cx.waker())) {
            list.wakers.push(cx.waker().clone());
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
        self.0.circle.borrow_mut().leave(self.0.id);
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

    fn waiting(circle: &Circle) -> Vec<u64> {
        let mut ids: Vec<u64> = circle.waiting.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn a_commit_wakes_those_whom_it_concerns() {
        let (mut circle, mut list) = (Circle::default(), List::default());
        let filters = [filter(&["cats"]), filter(&["cats", "dogs"]), filter(&["dogs"]), filter(&[])];
        let enter = |circle: &mut Circle| {
            (1..).zip(&filters).for_each(|(id, filter)| circle.enter(id, Waker::noop(), filter));
        };
        enter(&mut circle);
        enter(&mut circle);
        circle.watch = Some(1);
        circle.pass_on(&list);
        assert_eq!(waiting(&circle), [1, 2, 3, 4], "nothing has come");
        commit(&mut list, 5, &["birds"]);
        circle.pass_on(&list);
        assert_eq!(waiting(&circle), [1, 2, 3], "the one of any table");
        enter(&mut circle);
        commit(&mut list, 6, &["birds", "dogs"]);
        circle.pass_on(&list);
        assert_eq!(waiting(&circle), [1]);
        enter(&mut circle);
        circle.pass_on(&list);
        assert_eq!(waiting(&circle), [1, 2, 3, 4], "commits are passed on once");
        // The watch hears itself.
        commit(&mut list, 7, &["cats"]);
        circle.pass_on(&list);
        assert_eq!(waiting(&circle), [1, 3]);
        enter(&mut circle);
        list.complete_from = 9;
        circle.pass_on(&list);
        assert_eq!(waiting(&circle), [1], "what the list does not know may have been anything");
        circle.leave(1);
        assert!(circle.watch.is_none() && circle.by_table.is_empty() && circle.of_all.is_empty());
    }
}
