//! Locks that users name: GET_LOCK() and its kin.
//!
//! A name is locked by one session of the engine at a time, whatever schema or transaction it works in; whoever waits is a
//! suspended session. A session may hold several names, and each several times; it gives them back with RELEASE_LOCK(), or when
//! it ends. Names are compared as they are written.

use std::{
    cell::RefCell,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tidegate_rows::ServerError;

use crate::{
    errors,
    store::writer::{WriteGuard, WriteLock},
    task,
    waits::{Blockers, Deadlock, Kind, Waits},
};

type Res<T> = Result<T, ServerError>;

/// Longest name, in characters.
const NAME_MAX: usize = 64;
/// Names that one session may hold.
const HELD_MAX: usize = 1024;

/// The names that sessions of an engine hold or wait for.
#[derive(Default)]
pub(crate) struct Locks {
    names: Mutex<HashMap<String, Entry>>,
    /// The sessions that wait, for these locks and all others.
    pub(crate) waits: Waits,
}

#[derive(Default)]
struct Entry {
    lock: Arc<WriteLock>,
    /// The session that holds it.
    owner: Option<u64>,
    /// Sessions that hold it or wait for it.
    users: usize,
}

/// The names that a session holds, with how often.
#[derive(Default)]
pub(crate) struct Held {
    names: RefCell<HashMap<String, (WriteGuard, usize)>>,
}

/// One session's interest in a name; without it and its like the name is forgotten.
struct Interest<'a> {
    locks: &'a Locks,
    name: &'a str,
}

impl Drop for Interest<'_> {
    fn drop(&mut self) {
        self.locks.leave(self.name);
    }
}

impl Locks {
    fn names(&self) -> std::sync::MutexGuard<'_, HashMap<String, Entry>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, name: &str) {
        let mut names = self.names();
        if let Some(entry) = names.get_mut(name) {
            entry.users -= 1;
            if entry.users == 0 {
                names.remove(name);
            }
        }
    }

    /// The session that holds a name.
    pub(crate) fn owner(&self, name: &str) -> Option<u64> {
        self.names().get(name)?.owner
    }

    /// Locks a name for a session; waits at most `wait`, for ever without. Answers whether the session has it.
    ///
    /// # Errors
    /// 1317 when the statement ends meanwhile, 4163 for a name that is too long, 1235 for too many names, 1213 if the session
    /// waits in a circle.
    pub(crate) fn get(self: &Arc<Self>, held: &Held, session: u64, name: &str, wait: Option<Duration>) -> Res<bool> {
        if name.is_empty() || name.chars().count() > NAME_MAX {
            return Err(errors::wrong_lock_name(name));
        }
        if let Some((_, times)) = held.names.borrow_mut().get_mut(name) {
            *times += 1;
            return Ok(true);
        }
        if held.names.borrow().len() >= HELD_MAX {
            return Err(errors::unsupported("more locks of one session"));
        }
        let lock = {
            let mut names = self.names();
            let entry = names.entry(name.to_owned()).or_default();
            entry.users += 1;
            Arc::clone(&entry.lock)
        };
        let interest = Interest { locks: self, name };
        let guard = match lock.try_acquire() {
            Some(guard) => guard,
            None if wait == Some(Duration::ZERO) => return Ok(false),
            None => {
                let acquired = self.waits.run(session, Kind::Name, || self.blockers(name), lock.acquire());
                let acquired = match wait {
                    Some(wait) => task::block_on(tokio::time::timeout(wait, acquired)).map(Result::ok),
                    None => task::block_on(acquired).map(Some),
                };
                match acquired.map_err(|task::Cancelled| errors::interrupted())? {
                    None => return Ok(false),
                    Some(acquired) => acquired.map_err(|Deadlock| errors::deadlock())?,
                }
            }
        };
        // The name stays known as long as the session holds it.
        std::mem::forget(interest);
        if let Some(entry) = self.names().get_mut(name) {
            entry.owner = Some(session);
        }
        held.names.borrow_mut().insert(name.to_owned(), (guard, 1));
        Ok(true)
    }

    /// Who holds a name.
    fn blockers(self: &Arc<Self>, name: &str) -> Blockers {
        let (locks, name) = (Arc::clone(self), name.to_owned());
        Box::new(move || locks.owner(&name).into_iter().collect())
    }

    /// Gives a name back once: whether the session had it, `None` for a name that nobody holds.
    pub(crate) fn release(&self, held: &Held, name: &str) -> Option<bool> {
        let mut names = held.names.borrow_mut();
        let Some((_, times)) = names.get_mut(name) else {
            return self.owner(name).map(|_| false);
        };
        *times -= 1;
        if *times == 0 {
            let guard = names.remove(name);
            self.give_back(name, guard.map(|(guard, _)| guard));
        }
        Some(true)
    }

    /// Gives all names back; answers how many locks these were.
    pub(crate) fn release_all(&self, held: &Held) -> usize {
        let all = std::mem::take(&mut *held.names.borrow_mut());
        let mut count = 0;
        for (name, (guard, times)) in all {
            count += times;
            self.give_back(&name, Some(guard));
        }
        count
    }

    fn give_back(&self, name: &str, guard: Option<WriteGuard>) {
        // The owner goes first: whoever is granted the lock writes itself down.
        if let Some(entry) = self.names().get_mut(name) {
            entry.owner = None;
        }
        drop(guard);
        self.leave(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_held_several_times_and_forgotten() {
        let locks = Arc::new(Locks::default());
        let (a, b) = (Held::default(), Held::default());
        let get = |held: &Held, session: u64, name: &str| locks.get(held, session, name, Some(Duration::ZERO)).unwrap();
        assert!(get(&a, 1, "x"));
        assert!(get(&a, 1, "x"));
        assert!(!get(&b, 2, "x"));
        assert!(get(&b, 2, "X"));
        assert_eq!((locks.owner("x"), locks.owner("X"), locks.owner("y")), (Some(1), Some(2), None));
        assert_eq!(locks.release(&b, "x"), Some(false));
        assert_eq!(locks.release(&a, "x"), Some(true));
        assert!(!get(&b, 2, "x"));
        assert_eq!(locks.release(&a, "x"), Some(true));
        assert_eq!(locks.release(&a, "x"), None);
        assert!(get(&b, 2, "x"));
        assert_eq!(locks.release_all(&b), 2);
        assert!(locks.names().is_empty());
        assert!(locks.get(&a, 1, "", None).is_err());
    }
}
