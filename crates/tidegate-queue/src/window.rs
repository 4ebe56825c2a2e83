//! The window: the part of a queue's order that is in memory.

use std::collections::BTreeSet;

/// Places that a window may have before it forgets the last ones.
pub(crate) const PLACES_MAX: usize = 1024;
/// Places that are left then.
const PLACES_LEFT: usize = PLACES_MAX / 2;

/// Where a message stands in the order of its queue: less is earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The urgency of the message: 0 comes first.
    pub priority: u32,
    /// Its number in the store, in which messages of the same priority follow each other.
    pub id: u64,
}

/// How far the messages that wait are in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Known {
    #[default]
    Nothing,
    UpTo(Place),
    All,
}

/// The places of messages that wait, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Window {
    places: BTreeSet<Place>,
    known: Known,
    /// Somebody looks for more in the store.
    is_scanned: bool,
    /// What is being looked for is behind places that were forgotten meanwhile.
    is_outdated: bool,
}

impl Window {
    /// The first message that waits, if it is known.
    pub(crate) fn take_first(&mut self) -> Option<Place> {
        let first = *self.places.first()?;
        if !self.knows(first) {
            return None;
        }
        self.places.pop_first()
    }

    /// Whether the first messages that wait are known: so many, or all that there are.
    pub(crate) fn knows_first(&self, count: usize) -> bool {
        let last = self.places.iter().nth(count.saturating_sub(1));
        self.known == Known::All || last.is_some_and(|last| self.knows(*last))
    }

    /// Whether nobody can tell which messages are the first ones, so many, without a look into the store that nobody has begun.
    pub(crate) fn lacks(&self, count: usize) -> bool {
        !self.is_scanned && !self.knows_first(count)
    }

    /// Whether somebody looks for more in the store.
    pub(crate) fn is_scanned(&self) -> bool {
        self.is_scanned
    }

    /// A message waits, as the store has it.
    pub(crate) fn add(&mut self, place: Place) {
        if self.is_scanned || self.knows(place) {
            self.places.insert(place);
        }
        self.shorten();
    }

    /// A message does not wait any more.
    pub(crate) fn remove(&mut self, place: Place) {
        self.places.remove(&place);
    }

    /// Somebody begins to look for more; answers behind which place.
    pub(crate) fn begin_scan(&mut self) -> Option<Place> {
        self.is_scanned = true;
        self.is_outdated = false;
        match self.known {
            Known::UpTo(place) => Some(place),
            Known::Nothing | Known::All => None,
        }
    }

    /// The scan has found these, in their order, of which `wait` says whether they still do; `is_all` if there are no more.
    pub(crate) fn end_scan(&mut self, found: &[Place], is_all: bool, wait: impl Fn(Place) -> bool) {
        self.is_scanned = false;
        if !self.is_outdated {
            self.known = match found.last() {
                _ if is_all => Known::All,
                Some(last) => Known::UpTo(*last),
                None => self.known,
            };
            self.places.extend(found.iter().copied().filter(|place| wait(*place)));
        }
        // What has come meanwhile and is further behind is in the store.
        let known = self.known;
        self.places.retain(|place| known >= Known::UpTo(*place));
        self.shorten();
    }

    /// A scan has failed.
    pub(crate) fn abandon_scan(&mut self) {
        self.end_scan(&[], false, |_| false);
    }

    /// Nobody knows what the store has.
    pub(crate) fn forget(&mut self) {
        self.places.clear();
        self.known = Known::Nothing;
        self.is_outdated = true;
    }

    fn knows(&self, place: Place) -> bool {
        self.known >= Known::UpTo(place)
    }

    fn shorten(&mut self) {
        if self.places.len() <= PLACES_MAX || self.is_scanned {
            return;
        }
        if let Some(first_out) = self.places.iter().nth(PLACES_LEFT).copied() {
            self.places.split_off(&first_out);
        }
        if let Some(last) = self.places.last() {
            self.known = Known::UpTo(*last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(priority: u32, id: u64) -> Place {
        Place { priority, id }
    }

    #[test]
    fn what_is_known_is_taken_in_order() {
        let mut window = Window::default();
        window.add(place(5, 1));
        assert!(window.lacks(1), "the store may have earlier ones");
        assert_eq!(window.take_first(), None);
        assert_eq!(window.begin_scan(), None);
        assert!(!window.lacks(1), "one looks");
        // Both come while somebody looks: one in front of what is found, one behind.
        window.add(place(1, 9));
        window.add(place(7, 10));
        window.end_scan(&[place(5, 1), place(5, 2), place(6, 3)], false, |place| place.id != 2);
        assert!(window.knows_first(3) && !window.knows_first(4) && window.lacks(4), "one was found that does not wait");
        assert_eq!(window.take_first(), Some(place(1, 9)));
        assert_eq!(window.take_first(), Some(place(5, 1)));
        window.add(place(6, 2));
        assert_eq!(window.take_first(), Some(place(6, 2)));
        assert_eq!(window.take_first(), Some(place(6, 3)));
        assert!(window.take_first().is_none() && window.lacks(1));
        assert_eq!(window.begin_scan(), Some(place(6, 3)));
        window.end_scan(&[place(7, 10)], true, |_| true);
        window.add(place(9, 11));
        assert_eq!((window.take_first(), window.take_first()), (Some(place(7, 10)), Some(place(9, 11))));
        assert!(window.take_first().is_none() && !window.lacks(1));
    }

    #[test]
    fn a_long_window_forgets_its_end_but_not_that_there_is_more() {
        let mut window = Window::default();
        window.begin_scan();
        window.end_scan(&[], true, |_| true);
        for id in 0..=PLACES_MAX as u64 {
            window.add(place(0, id));
        }
        assert_eq!(window.places.len(), PLACES_LEFT);
        for id in 0..PLACES_LEFT as u64 {
            assert_eq!(window.take_first(), Some(place(0, id)));
        }
        assert!(window.take_first().is_none() && window.lacks(1));
        assert_eq!(window.begin_scan(), Some(place(0, PLACES_LEFT as u64 - 1)));
        window.abandon_scan();
        assert!(window.lacks(1));
    }

    #[test]
    fn what_was_forgotten_while_somebody_looked_is_looked_for_again() {
        let mut window = Window::default();
        window.begin_scan();
        window.end_scan(&[place(0, 1)], false, |_| true);
        window.begin_scan();
        window.forget();
        window.add(place(0, 3));
        window.end_scan(&[place(0, 2)], true, |_| true);
        assert_eq!(window.take_first(), None);
        assert!(window.lacks(1));
        assert_eq!(window.begin_scan(), None);
    }
}
