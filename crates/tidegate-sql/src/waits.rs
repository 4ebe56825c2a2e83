//! Sessions that wait for each other in a circle, whatever they wait for: rows, names of GET_LOCK, tables of LOCK TABLES.
//!
//! Circles of row locks alone are found where those are ([`crate::row_locks`]). Here each wait says for which sessions it is, at
//! the moment when it is asked; a new wait looks for a way back to itself, if there is any wait for something else than rows.
//!
//! MariaDB does this for names and tables. A statement that waits to write to a locked table ends before any other; then the
//! session that has closed the circle. A wait for a row, of which MariaDB does not know here, goes on where another can end
//! instead, and a COMMIT always.

use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// A circle of sessions that wait was broken at this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadlock;

/// What a session waits for: of a circle the first of these ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// To write to a table that another session has locked.
    LockedTable,
    /// A name, a table without locks.
    Name,
    /// A row, or the right to write.
    Rows,
    /// The right to write, in COMMIT.
    Commit,
}

/// Answers the sessions that a wait is for, as things are.
pub(crate) type Blockers = Box<dyn Fn() -> Vec<u64> + Send>;

/// Sessions of an engine that wait.
#[derive(Default)]
pub(crate) struct Waits {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// One for each session at most.
    waits: HashMap<u64, Wait>,
    /// Waits for something else than rows.
    others: usize,
}

struct Wait {
    kind: Kind,
    blockers: Blockers,
    is_broken: bool,
    waker: Waker,
}

/// A listed wait, until it is over.
struct Listed<'a> {
    waits: &'a Waits,
    session: u64,
}

impl Waits {
    /// Runs `lock`, which a session waits for. `blockers` is asked for if it is not free at once.
    ///
    /// # Errors
    /// [`Deadlock`] if the session waits in a circle and is the one to end.
    pub(crate) async fn run<F: Future>(
        &self,
        session: u64,
        kind: Kind,
        blockers: impl FnOnce() -> Blockers,
        lock: F,
    ) -> Result<F::Output, Deadlock> {
        let mut lock = pin!(lock);
        let mut _listed = None;
        let mut blockers = Some(blockers);
        poll_fn(|cx| {
            // Before it is listed, so that others see by the locks themselves for whom it waits.
            if let Poll::Ready(output) = lock.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            if let Some(blockers) = blockers.take() {
                _listed = Some(self.list(session, kind, blockers(), cx));
            }
            if self.goes_on(session, cx) { Poll::Pending } else { Poll::Ready(Err(Deadlock)) }
        })
        .await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self, session: u64, kind: Kind, blockers: Blockers, cx: &Context<'_>) -> Listed<'_> {
        let mut state = self.state();
        state.others += usize::from(kind < Kind::Rows);
        state.waits.insert(session, Wait { kind, blockers, is_broken: false, waker: cx.waker().clone() });
        if state.others > 0 {
            state.break_circles(session);
        }
        Listed { waits: self, session }
    }

    /// Whether the session may wait on; it is woken when it may not.
    fn goes_on(&self, session: u64, cx: &Context<'_>) -> bool {
        let mut state = self.state();
        let Some(wait) = state.waits.get_mut(&session) else { return false };
        wait.waker.clone_from(cx.waker());
        !wait.is_broken
    }
}

impl State {
    fn break_circles(&mut self, session: u64) {
        while let Some(circle) = self.circle(session) {
            let order = |id: &u64| (self.waits.get(id).map_or(Kind::Commit, |wait| wait.kind), *id != session);
            let Some(victim) = circle.into_iter().min_by_key(order) else { return };
            let Some(wait) = self.waits.get_mut(&victim) else { return };
            wait.is_broken = true;
            wait.waker.wake_by_ref();
            if victim == session {
                return;
            }
        }
    }

    /// The sessions on a way from one back to itself, of those that are to wait on.
    fn circle(&self, start: u64) -> Option<Vec<u64>> {
        let blockers = |id: u64| match self.waits.get(&id) {
            Some(wait) if !wait.is_broken => (wait.blockers)(),
            _ => Vec::new(),
        };
        let mut way = vec![(start, blockers(start))];
        let mut seen = std::collections::HashSet::from([start]);
        while let Some((_, next)) = way.last_mut() {
            match next.pop() {
                Some(id) if id == start => return Some(way.into_iter().map(|(id, _)| id).collect()),
                Some(id) if seen.insert(id) => way.push((id, blockers(id))),
                Some(_) => {}
                None => {
                    way.pop();
                }
            }
        }
        None
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let mut state = self.waits.state();
        if let Some(wait) = state.waits.remove(&self.session) {
            state.others -= usize::from(wait.kind < Kind::Rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Run<'a> = std::pin::Pin<Box<dyn Future<Output = Result<(), Deadlock>> + 'a>>;

    fn wait(waits: &Waits, session: u64, kind: Kind, blocker: u64) -> Run<'_> {
        let blockers = move || -> Blockers { Box::new(move || vec![blocker]) };
        let mut run: Run<'_> = Box::pin(waits.run(session, kind, blockers, std::future::pending()));
        assert!(poll(&mut run).is_none_or(|ended| ended == Err(Deadlock)));
        run
    }

    fn poll(run: &mut Run<'_>) -> Option<Result<(), Deadlock>> {
        match run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        }
    }

    /// Which waits of a circle end, in the order in which they have begun: each is for the next, the last for the first.
    #[track_caller]
    fn check(kinds: &[Kind], ends: &[usize]) {
        let waits = Waits::default();
        let count = kinds.len() as u64;
        let mut ended = Vec::new();
        let mut begun: Vec<Run<'_>> = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            let session = index as u64;
            let blocker = (session + 1) % count;
            let blockers = move || -> Blockers { Box::new(move || vec![blocker]) };
            let mut run: Run<'_> = Box::pin(waits.run(session, *kind, blockers, std::future::pending()));
            match poll(&mut run) {
                Some(_) => ended.push(index),
                None => begun.push(run),
            }
        }
        for (index, run) in begun.iter_mut().enumerate() {
            if poll(run).is_some() {
                ended.push(index);
            }
        }
        assert_eq!(ended, ends, "{kinds:?}");
        drop(begun);
        assert!(waits.state().waits.is_empty() && waits.state().others == 0);
    }

    #[test]
    fn one_of_a_circle_ends() {
        use Kind::{Commit, LockedTable, Name, Rows};
        check(&[Name, Name], &[1]);
        check(&[Name, Name, Name], &[2]);
        check(&[LockedTable, Name], &[0]);
        check(&[Name, LockedTable], &[1]);
        check(&[Name, Rows], &[0]);
        check(&[Rows, Name, Rows], &[1]);
        check(&[Name, Commit], &[0]);
        // Found where rows are locked.
        check(&[Rows, Rows], &[]);
    }

    #[test]
    fn who_waits_beside_a_circle_goes_on() {
        let waits = Waits::default();
        let mut beside = wait(&waits, 1, Kind::Name, 2);
        let mut first = wait(&waits, 2, Kind::Name, 3);
        let last = wait(&waits, 3, Kind::Name, 2);
        drop(last);
        assert!(poll(&mut first).is_none() && poll(&mut beside).is_none());
    }
}
