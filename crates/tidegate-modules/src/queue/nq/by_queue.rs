//! What is known of queues, by their names: whoever looks for it makes no copies of these.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// Queues of which something is known, at most.
const QUEUES_KEPT: usize = 1024;

/// Which queue is meant, of all that the process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At<'a> {
    /// The directory of the database.
    pub(super) path: &'a Path,
    pub(super) schema: &'a str,
    pub(super) queue: &'a str,
}

/// Something of each queue. All of it is forgotten when there are too many.
pub(super) struct ByQueue<T>(HashMap<String, Vec<Known<T>>>);

/// What is known of the queue of a schema.
struct Known<T> {
    path: PathBuf,
    schema: String,
    value: T,
}

impl<T> Default for ByQueue<T> {
    fn default() -> Self {
        ByQueue(HashMap::new())
    }
}

impl<T> Known<T> {
    fn is_at(&self, at: At<'_>) -> bool {
        self.schema == at.schema && self.path.as_os_str() == at.path.as_os_str()
    }
}

impl<T> ByQueue<T> {
    /// What is known of a queue.
    pub(super) fn get(&self, at: At<'_>) -> Option<&T> {
        let of_name = self.0.get(at.queue)?;
        of_name.iter().find(|known| known.is_at(at)).map(|known| &known.value)
    }

    /// This is known of a queue from now on.
    pub(super) fn set(&mut self, at: At<'_>, value: T) {
        let of_name = self.0.get_mut(at.queue);
        if let Some(known) = of_name.and_then(|all| all.iter_mut().find(|known| known.is_at(at))) {
            known.value = value;
            return;
        }
        if self.0.len() >= QUEUES_KEPT && !self.0.contains_key(at.queue) {
            self.0.clear();
        }
        let known = Known { path: at.path.to_owned(), schema: at.schema.to_owned(), value };
        self.0.entry(at.queue.to_owned()).or_default().push(known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'a>(schema: &'a str, queue: &'a str) -> At<'a> {
        At { path: Path::new("data"), schema, queue }
    }

    #[test]
    fn queues_of_one_name_are_told_apart() {
        let mut known = ByQueue::default();
        known.set(at("nq", "mail"), 1);
        known.set(at("work", "mail"), 2);
        known.set(At { path: Path::new("other"), ..at("nq", "mail") }, 3);
        known.set(at("nq", "mail"), 4);
        let found = [at("nq", "mail"), at("work", "mail"), at("nq", "letters"), at("shop", "mail")];
        assert_eq!(found.map(|at| known.get(at).copied()), [Some(4), Some(2), None, None]);
        assert_eq!(known.get(At { path: Path::new("other"), ..at("nq", "mail") }), Some(&3));
    }

    #[test]
    fn no_more_is_known_than_of_so_many() {
        let mut known = ByQueue::default();
        for number in 0..=QUEUES_KEPT {
            known.set(at("nq", &number.to_string()), number);
            assert!(known.0.len() <= QUEUES_KEPT);
        }
        let (first, last) = ("0", QUEUES_KEPT.to_string());
        assert_eq!((known.get(at("nq", first)), known.get(at("nq", &last))), (None, Some(&QUEUES_KEPT)));
    }
}
