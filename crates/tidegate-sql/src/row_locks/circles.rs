//! Who waits for whom, and what ends a circle of them.

use std::{collections::HashSet, sync::Arc};

use super::{Broken, Mode, RowLocks, State, Wait};
use crate::waits::Blockers;

impl RowLocks {
    /// Answers for which connections one waits here, as things are then.
    pub(crate) fn blockers_of(self: &Arc<Self>, connection: u64) -> Blockers {
        let locks = Arc::clone(self);
        Box::new(move || {
            let state = locks.lock();
            let mine = state.owners.iter().filter(|(_, owner)| owner.connection == connection && owner.waits.is_some());
            let blockers = mine.flat_map(|(id, _)| state.blockers(*id, true)).collect::<Vec<_>>();
            state.connections(blockers.into_iter())
        })
    }

    /// The connections that have locks in tables.
    pub(crate) fn connections_in(&self, tables: &[i64]) -> Vec<u64> {
        let state = self.lock();
        let locks = state.locks.iter().filter(|(resource, _)| tables.contains(&resource.table()));
        state.connections(locks.flat_map(|(_, lock)| &lock.holders).map(|(id, _)| *id))
    }
}

impl State {
    fn connections(&self, owners: impl Iterator<Item = u64>) -> Vec<u64> {
        owners.filter_map(|id| Some(self.owners.get(&id)?.connection)).collect()
    }

    /// Those whom an owner waits for; those ahead of it in the queue only if `queued`.
    pub(super) fn blockers(&self, id: u64, queued: bool) -> Vec<u64> {
        match self.owners.get(&id).and_then(|owner| owner.waits) {
            None => Vec::new(),
            Some(Wait::Writer) => self.writer.into_iter().filter(|writer| *writer != id).collect(),
            Some(Wait::Lock(resource, mode)) => {
                let Some(lock) = self.locks.get(&resource) else { return Vec::new() };
                let ahead = lock.queue.iter().take_while(|(waiter, _)| queued && *waiter != id);
                let before =
                    lock.holders.iter().chain(ahead).filter(|(other, held)| *other != id && !held.goes_with(mode));
                before.map(|(other, _)| *other).collect()
            }
        }
    }

    /// Ends the wait of the youngest in each circle that an owner's new wait has closed, or that of the writer if it is in the way
    /// of the others only because it keeps the write lock and need not. One who commits waits for the writer alone, and the
    /// writer of a circle does not commit, so there is always somebody else.
    pub(super) fn break_circles(&mut self, id: u64) {
        // Nobody waits for one who has nothing: many who want one row cost nothing to look at.
        let has_nothing = self.owners.get(&id).is_none_or(|owner| owner.held.is_empty()) && self.writer != Some(id);
        if has_nothing {
            return;
        }
        // Whoever only stands ahead in a queue need not go if the holders alone make a circle.
        while let Some(circle) = self.circle(id, false).or_else(|| self.circle(id, true)) {
            let commits = |id: &u64| self.owners.get(id).is_some_and(|owner| owner.commits);
            let (chosen, broken) = match self.who_steps_back(&circle) {
                Some(writer) => (writer, Broken::StepBack),
                None => {
                    let Some(victim) = circle.into_iter().max_by_key(|id| (!commits(id), *id)) else { return };
                    (victim, Broken::Deadlock)
                }
            };
            let waker = self.owners.get_mut(&chosen).and_then(|owner| owner.waker.take());
            self.stop_waiting(chosen);
            let Some(owner) = self.owners.get_mut(&chosen) else { return };
            owner.broken = Some(broken);
            owner.may_step_back = false;
            if let Some(waker) = waker {
                waker.wake();
            }
            if chosen == id {
                return;
            }
        }
    }

    /// The owners on a way from an owner back to itself. Each queue is looked at once, however many of it wait.
    fn circle(&self, start: u64, queued: bool) -> Option<Vec<u64>> {
        let mut way = vec![(start, self.blockers(start, queued))];
        let mut seen = HashSet::from([start]);
        // Those who stand in a queue before one who has been looked at: all whom they wait for there are known.
        let mut covered = HashSet::new();
        while let Some((_, next)) = way.last_mut() {
            match next.pop() {
                Some(id) if id == start => return Some(way.into_iter().map(|(id, _)| id).collect()),
                Some(id) if !seen.insert(id) => {}
                Some(id) if covered.contains(&id) => {}
                Some(id) => {
                    let blockers = self.blockers(id, queued);
                    let waits = |id: u64| self.owners.get(&id).and_then(|owner| owner.waits);
                    if let wait @ Some(Wait::Lock(_, Mode::Exclusive)) = waits(id) {
                        covered.extend(blockers.iter().copied().filter(|other| {
                            matches!((wait, waits(*other)), (Some(Wait::Lock(a, _)), Some(Wait::Lock(b, _))) if a == b)
                        }));
                    }
                    way.push((id, blockers));
                }
                None => {
                    way.pop();
                }
            }
        }
        None
    }

    /// The writer of a circle, if there is none without its write lock.
    fn who_steps_back(&self, circle: &[u64]) -> Option<u64> {
        let waits_to_write = |id: &u64| self.owners.get(id).is_some_and(|owner| owner.waits == Some(Wait::Writer));
        let may = |id: &u64| self.owners.get(id).is_some_and(|owner| owner.may_step_back);
        self.writer.filter(|writer| circle.contains(writer) && may(writer) && circle.iter().any(waits_to_write))
    }
}
