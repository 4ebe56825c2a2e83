//! What was purged, for as long as something of it may still be there.
//!
//! A purge by prefix or tag is a mark: from then on an entry that it covers is not there, whatever is on the disk. A thread
//! ([`purger`](super::purger)) removes the files, and then the mark goes. So a purge costs no look at a million files and no
//! index of their tags, and is in force before the files are gone. A purge by key removes the one file at once; its mark is for
//! the responses that are on their way.
//!
//! Invariants:
//! - **P1** What was asked of an upstream before a purge that covers it is not served after the purge, and does not become an
//!   entry: each entry says when it was begun, by a clock of the zone that purges advance.
//! - **P2** A mark goes when all files were looked at after it was made, and when no response is under way that was begun before.
//! - **P3** The variants of a response (`Vary`) are found by way of its main entry alone, and only with the name (`family`) that
//!   that entry got when there was none. A purge by key removes the main entry, and with it the way to all variants.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::Thread,
};

use super::{file::Front, key::Key};
use crate::clock;

/// Marks of prefixes and tags at a time. More purges are refused until the files of these are gone.
const MARKS_MAX: usize = 10_000;

/// Bytes of their texts, for a file that is read at once at the start.
const MARK_BYTES_MAX: usize = 4 << 20;

/// Keys that are remembered for responses on their way. When there are more, responses that were begun before the first of them
/// are not kept.
const KEYS_MAX: usize = 4096;

/// What is purged, but for single keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Covered {
    /// Entries whose key's text begins with this.
    Prefix(Box<[u8]>),
    /// Entries that name this tag in `Cache-Tag` or `Surrogate-Key`.
    Tag(Box<[u8]>),
}

impl Covered {
    /// Its text.
    pub(super) fn text(&self) -> &[u8] {
        let (Covered::Prefix(text) | Covered::Tag(text)) = self;
        text
    }
}

/// A mark: what is purged, of all that was begun before this time of the zone's clock.
pub(super) type Mark = (u64, Covered);

/// There are too many marks already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many purges are under way")]
pub(crate) struct TooMany;

/// The purges of a zone.
#[derive(Default)]
pub(super) struct Purges {
    /// There are marks: what is read from the disk or from memory may be covered by one.
    is_active: AtomicBool,
    marks: RwLock<Marks>,
}

#[derive(Default)]
struct Marks {
    /// Microseconds since 1970, but later with each question.
    clock: u64,
    /// Responses on their way into the cache, by when they were begun.
    fills: BTreeSet<u64>,
    keys: HashMap<Key, u64>,
    /// The same, oldest first.
    key_order: VecDeque<(u64, Key)>,
    /// What was begun before is not kept.
    floor: u64,
    /// By length and text.
    prefixes: BTreeMap<usize, HashMap<Box<[u8]>, u64>>,
    tags: HashMap<Box<[u8]>, u64>,
    count: usize,
    bytes: usize,
    /// The thread that removes files, while there is one.
    purger: Option<Thread>,
}

/// What the purger shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Look at all files once more.
    Walk,
    /// Wait until a response is complete that was begun before a purge.
    Wait,
    /// Nothing: it may end.
    End,
}

impl Purges {
    fn read<T>(&self, look: impl FnOnce(&Marks) -> T) -> T {
        look(&self.marks.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Marks) -> T) -> T {
        let mut marks = self.marks.write().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut marks);
        self.is_active.store(!marks.is_empty(), Ordering::Release);
        changed
    }

    /// Whether an entry that stands under `key` was purged.
    pub(super) fn cover(&self, key: Key, front: &Front) -> bool {
        self.is_active.load(Ordering::Acquire) && self.read(|marks| marks.cover(key, front))
    }

    /// A response is about to be asked for; answers when, for [`end_fill`](Self::end_fill).
    pub(super) fn begin_fill(&self) -> u64 {
        self.change(|marks| {
            let began = marks.tick();
            marks.fills.insert(began);
            began
        })
    }

    /// Whether a response on its way must not become an entry. `main` is the hash of its key's text.
    pub(super) fn void(&self, main: Key, front: &Front) -> bool {
        self.is_active.load(Ordering::Acquire)
            && self.read(|marks| front.began < marks.floor || marks.cover(main, front))
    }

    /// The response is kept, or never will be.
    pub(super) fn end_fill(&self, began: u64) {
        self.change(|marks| {
            marks.fills.remove(&began);
            marks.forget_keys();
            // It may have been what the purger waits for.
            if marks.count > 0
                && let Some(purger) = &marks.purger
            {
                purger.unpark();
            }
        });
    }

    /// Whether a status may be kept that was asked for at `began`: nothing was purged since.
    pub(super) fn is_untouched_since(&self, began: u64, main: Key) -> bool {
        !self.is_active.load(Ordering::Acquire)
            || self.read(|marks| {
                let is_key = marks.keys.get(&main).is_some_and(|purged_at| began < *purged_at);
                let mut prefixes = marks.prefixes.values().flat_map(HashMap::values);
                !is_key && began >= marks.floor && prefixes.all(|purged_at| began >= *purged_at)
            })
    }

    /// Marks a key whose file is about to be removed.
    pub(super) fn mark_key(&self, main: Key) {
        self.change(|marks| {
            let purged_at = marks.tick();
            if marks.fills.is_empty() {
                return;
            }
            marks.keys.insert(main, purged_at);
            marks.key_order.push_back((purged_at, main));
            if marks.key_order.len() > KEYS_MAX
                && let Some((oldest_at, oldest)) = marks.key_order.pop_front()
            {
                marks.floor = oldest_at;
                marks.keys.retain(|key, at| *key != oldest || *at > oldest_at);
            }
        });
    }

    /// Marks all that `covered` names; answers the marks.
    ///
    /// # Errors
    /// There are too many. None is made then.
    pub(super) fn mark(&self, covered: Vec<Covered>) -> Result<Vec<Mark>, TooMany> {
        self.change(|marks| {
            let bytes: usize = covered.iter().map(|covered| covered.text().len()).sum();
            if marks.count + covered.len() > MARKS_MAX || marks.bytes + bytes > MARK_BYTES_MAX {
                return Err(TooMany);
            }
            let made = covered.into_iter().map(|covered| {
                let mark = (marks.tick(), covered);
                marks.insert(mark.clone());
                mark
            });
            Ok(made.collect())
        })
    }

    /// Takes over marks that an earlier process has left. What there is no room for makes all entries purged: nothing that was
    /// purged comes back.
    pub(super) fn restore(&self, left: Vec<Mark>) {
        self.change(|marks| {
            for mark in left {
                marks.clock = marks.clock.max(mark.0);
                if marks.count < MARKS_MAX && marks.bytes + mark.1.text().len() <= MARK_BYTES_MAX {
                    marks.insert(mark);
                } else {
                    marks.insert((mark.0, Covered::Prefix(Box::default())));
                }
            }
        });
    }

    /// The zone's time, which is later than that of all marks.
    pub(super) fn now(&self) -> u64 {
        self.change(Marks::tick)
    }

    /// Makes `thread` the purger, if there is work and nobody does it.
    pub(super) fn employ(&self, spawn: impl FnOnce() -> std::io::Result<Thread>) -> std::io::Result<()> {
        self.change(|marks| {
            match &marks.purger {
                Some(purger) => purger.unpark(),
                None if marks.count == 0 => {}
                None => marks.purger = Some(spawn()?),
            }
            Ok(())
        })
    }

    /// All files were looked at since `walked_at`: forgets the marks that have no more use, which it adds to `gone`, and says
    /// what is next. After [`Task::End`] nobody is the purger.
    pub(super) fn retire(&self, walked_at: u64, gone: &mut Vec<Mark>) -> Task {
        self.change(|marks| {
            let oldest_fill = marks.fills.first().copied().unwrap_or(u64::MAX);
            marks.retire(walked_at.min(oldest_fill), gone);
            let newest = marks.prefixes.values().flat_map(HashMap::values).chain(marks.tags.values()).max();
            match newest {
                None => {
                    marks.purger = None;
                    Task::End
                }
                Some(newest) if *newest > walked_at => Task::Walk,
                Some(_) => Task::Wait,
            }
        })
    }

    /// The purger ends although there may be work: nobody has the zone any more.
    pub(super) fn dismiss(&self) {
        self.change(|marks| marks.purger = None);
    }
}

impl Marks {
    fn is_empty(&self) -> bool {
        self.count == 0 && self.keys.is_empty() && self.floor == 0
    }

    fn tick(&mut self) -> u64 {
        self.clock = (clock::now_ms() * 1000).max(self.clock + 1);
        self.clock
    }

    fn cover(&self, key: Key, front: &Front) -> bool {
        let is_later = |at: Option<&u64>| at.is_some_and(|at| front.began < *at);
        if is_later(self.keys.get(&key)) {
            return true;
        }
        let text = &front.key_text;
        let by_prefix = |(len, texts): (&usize, &HashMap<Box<[u8]>, u64>)| {
            text.get(..*len).is_some_and(|prefix| is_later(texts.get(prefix)))
        };
        self.prefixes.iter().any(by_prefix)
            || (!self.tags.is_empty() && tags_of(&front.head).any(|tag| is_later(self.tags.get(tag))))
    }

    fn insert(&mut self, (at, covered): Mark) {
        let bytes = covered.text().len();
        let before = match covered {
            Covered::Prefix(text) => self.prefixes.entry(bytes).or_default().insert(text, at),
            Covered::Tag(text) => self.tags.insert(text, at),
        };
        if before.is_none() {
            self.count += 1;
            self.bytes += bytes;
        }
    }

    fn retire(&mut self, until: u64, gone: &mut Vec<Mark>) {
        let before = gone.len();
        self.prefixes.retain(|_, texts| {
            gone.extend(texts.extract_if(|_, at| *at <= until).map(|(text, at)| (at, Covered::Prefix(text))));
            !texts.is_empty()
        });
        gone.extend(self.tags.extract_if(|_, at| *at <= until).map(|(text, at)| (at, Covered::Tag(text))));
        self.count -= gone.len() - before;
        self.bytes -= gone[before..].iter().map(|(_, covered)| covered.text().len()).sum::<usize>();
    }

    /// Forgets keys that no response on its way was begun before.
    fn forget_keys(&mut self) {
        let oldest_fill = self.fills.first().copied().unwrap_or(u64::MAX);
        while let Some((at, key)) = self.key_order.front().copied()
            && at <= oldest_fill
        {
            self.key_order.pop_front();
            if self.keys.get(&key) == Some(&at) {
                self.keys.remove(&key);
            }
        }
        if self.floor <= oldest_fill {
            self.floor = 0;
        }
    }
}

/// The tags that a response names: `Cache-Tag: a, b`, `Surrogate-Key: a b`.
pub(crate) fn tags_of(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|byte| *byte == b'\n').skip(1).flat_map(|line| {
        let at = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(at);
        tags_in(name, value.get(1..).unwrap_or_default())
    })
}

/// The tags in one field; none in a field that is not one of theirs.
pub(crate) fn tags_in<'a>(name: &[u8], value: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let is_divider: Option<fn(&u8) -> bool> = if name.eq_ignore_ascii_case(b"cache-tag") {
        Some(|byte| *byte == b',')
    } else if name.eq_ignore_ascii_case(b"surrogate-key") {
        Some(u8::is_ascii_whitespace)
    } else {
        None
    };
    let parts = is_divider.map(|is_divider| value.split(is_divider));
    parts.into_iter().flatten().map(<[u8]>::trim_ascii).filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::file::Times;

    fn front(began: u64, key_text: &str, head: &str) -> Front {
        Front {
            times: Times::default(),
            key_text: key_text.into(),
            vary: None,
            last_modified: None,
            head: format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").into(),
            is_bodiless: false,
            began,
            family: 0,
        }
    }

    fn prefix(text: &str) -> Covered {
        Covered::Prefix(text.as_bytes().into())
    }

    fn tag(text: &str) -> Covered {
        Covered::Tag(text.as_bytes().into())
    }

    const KEY: Key = Key([0; 16]);

    #[test]
    fn tags_of_both_fields() {
        #[track_caller]
        fn check(head: &str, expected: &[&str]) {
            let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
            let found: Vec<_> = tags_of(head.as_bytes()).map(String::from_utf8_lossy).collect();
            assert_eq!(found, expected);
        }
        check("Cache-Tag: a, b c ,,d", &["a", "b c", "d"]);
        check("CACHE-TAG:a\r\nX: Cache-Tag: b\r\nsurrogate-key: \tc  d,e ", &["a", "c", "d,e"]);
        check("Cache-Tag\r\nCache-Tags: a\r\nSurrogate-Key: ", &[]);
        check("Cache-Tag: \u{1}\u{7f}, ä", &["\u{1}\u{7f}", "ä"]);
        check(&format!("Cache-Tag: {}", "x,".repeat(10_000)), &["x"; 10_000]);
    }

    #[test]
    fn marks_cover_what_was_begun_before() {
        let purges = Purges::default();
        let old = purges.begin_fill();
        purges.end_fill(old);
        let entry = |began| front(began, "/a/b", "Cache-Tag: x, y");
        assert!(!purges.cover(KEY, &entry(old)));
        purges.mark(vec![prefix("/a/b/"), prefix("/b"), tag("z"), tag("x,")]).expect("room");
        assert!(!purges.cover(KEY, &entry(old)));
        for covered in [prefix("/a/"), prefix("/a/b"), prefix(""), tag("y")] {
            let marks = purges.mark(vec![covered.clone()]).expect("room");
            assert!(purges.cover(KEY, &entry(old)), "{covered:?}");
            let new = purges.begin_fill();
            assert!(!purges.cover(KEY, &entry(new)), "{covered:?}");
            purges.end_fill(new);
            let mut gone = Vec::new();
            assert_eq!(purges.retire(purges.now(), &mut gone), Task::End);
            assert!(gone.contains(&marks[0]));
            assert!(!purges.cover(KEY, &entry(old)), "{covered:?}");
        }
    }

    #[test]
    fn marks_stay_for_responses_under_way() {
        let purges = Purges::default();
        let under_way = purges.begin_fill();
        let walked_at = purges.now();
        purges.mark(vec![prefix("/a")]).expect("room");
        let mut gone = Vec::new();
        assert_eq!(purges.retire(walked_at, &mut gone), Task::Walk);
        let walked_at = purges.now();
        assert_eq!(purges.retire(walked_at, &mut gone), Task::Wait);
        assert!(purges.void(KEY, &front(under_way, "/a", "")));
        assert!(!purges.is_untouched_since(under_way, KEY));
        purges.end_fill(under_way);
        assert_eq!(purges.retire(walked_at, &mut gone), Task::End);
        assert_eq!(gone.len(), 1);
    }

    #[test]
    fn keys_are_remembered_for_responses_under_way_alone() {
        let purges = Purges::default();
        purges.mark_key(KEY);
        assert!(!purges.is_active.load(Ordering::Relaxed));
        let (first, second) = (purges.begin_fill(), purges.begin_fill());
        purges.mark_key(KEY);
        let third = purges.begin_fill();
        let is_void = |began| purges.void(KEY, &front(began, "", ""));
        assert_eq!([first, second, third].map(is_void), [true, true, false]);
        assert!(!purges.void(Key([1; 16]), &front(first, "", "")));
        purges.end_fill(second);
        assert!(is_void(first));
        // So many that not all can be remembered: what was begun before is not kept.
        for number in 0..2 * KEYS_MAX as u64 {
            purges.mark_key(Key::of(&number.to_le_bytes()));
        }
        assert_eq!(purges.read(|marks| (marks.keys.len(), marks.key_order.len())), (KEYS_MAX, KEYS_MAX));
        assert!(purges.void(Key([1; 16]), &front(first, "", "")));
        let fourth = purges.begin_fill();
        assert!(!purges.void(KEY, &front(fourth, "", "")));
        [first, third, fourth].into_iter().for_each(|began| purges.end_fill(began));
        assert!(!purges.is_active.load(Ordering::Relaxed));
    }

    #[test]
    fn so_many_marks_and_no_more() {
        let purges = Purges::default();
        let many = |from: usize| (from..from + MARKS_MAX / 2).map(|number| tag(&number.to_string())).collect();
        purges.mark(many(0)).expect("room");
        purges.mark(many(MARKS_MAX / 2)).expect("room");
        assert_eq!(purges.mark(vec![tag("one more")]), Err(TooMany));
        let long = "x".repeat(MARK_BYTES_MAX + 1);
        assert_eq!(Purges::default().mark(vec![tag(&long)]), Err(TooMany));
        // What a file has too many of purges everything.
        purges.restore(vec![(u64::MAX / 2, tag("one more"))]);
        assert!(purges.cover(KEY, &front(1, "/a", "")));
        assert!(purges.now() > u64::MAX / 2);
    }
}
