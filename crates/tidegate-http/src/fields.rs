//! Header fields: an ordered list in one arena of bytes.
//!
//! A connection keeps one [`Fields`] for all its requests: [`Fields::clear`] keeps the memory, so that after the first
//! request nothing is allocated. Names and values are ranges of the arena; a replaced value that does not fit its old
//! place is written at the end, and the arena is compacted when more than half of it is dead.

use std::fmt;

use bstr::BStr;

use crate::known::{Known, KnownSet};

/// An ordered list of header fields. Names keep the case in which they came; look-ups ignore case.
///
/// Appending costs amortised O(1). Looking for a [`Known`] name that is absent costs one bit test.
#[derive(Clone, Default)]
pub struct Fields {
    arena: Vec<u8>,
    entries: Vec<Entry>,
    /// Names that may be present; a name leaves the set when its last field is removed.
    present: KnownSet,
    /// Bytes of the arena that no entry uses, apart from the separators of a parsed head.
    dead: usize,
    /// They are no longer those of the head that they were adopted from.
    changed: bool,
}

/// Where one field stands in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Span,
    pub(crate) value: Span,
    pub(crate) known: Known,
}

/// A range of bytes, at most 4 GiB from the start of its buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    #[inline]
    pub(crate) fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end && end <= u32::MAX as usize);
        Span { start: start as u32, end: end as u32 }
    }

    /// The bytes of `buf` in this range, or nothing when `buf` is shorter than the buffer that was measured.
    #[inline]
    pub(crate) fn of(self, buf: &[u8]) -> &[u8] {
        buf.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        self.end as usize - self.start as usize
    }

    fn shifted_back(self, by: u32) -> Span {
        Span { start: self.start - by, end: self.end - by }
    }
}

/// The most bytes that names and values may take together; positions are 32 bits wide.
const ARENA_BYTES_MAX: usize = u32::MAX as usize;

/// Dead bytes below which compacting is not worth a copy.
const DEAD_BYTES_MIN: usize = 4096;

impl Fields {
    /// An empty list that has allocated nothing.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// Removes all fields and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.arena.clear();
        self.entries.clear();
        self.present = KnownSet::default();
        self.dead = 0;
        self.changed = true;
    }

    /// Becomes a copy of `other`, in the memory that is there.
    pub fn copy_from(&mut self, other: &Fields) {
        let Fields { arena, entries, present, dead, changed: _ } = other;
        self.arena.clone_from(arena);
        self.entries.clone_from(entries);
        self.present = *present;
        self.dead = *dead;
        self.changed = true;
    }

    /// How many fields there are; a repeated name counts each time.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no field.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a field at the end, also when the name is there already.
    ///
    /// A field that would make the list larger than 4 GiB is not added.
    pub fn append(&mut self, name: &[u8], value: &[u8]) {
        self.append_as(Known::of(name), name, value);
    }

    /// Adds a field with a known name in its usual spelling; [`Known::Other`] adds nothing.
    pub fn append_known(&mut self, known: Known, value: &[u8]) {
        if known != Known::Other {
            self.append_as(known, known.name().as_bytes(), value);
        }
    }

    fn append_as(&mut self, known: Known, name: &[u8], value: &[u8]) {
        let Some(name) = self.store(name) else { return };
        let Some(value) = self.store(value) else { return };
        self.changed = true;
        self.entries.push(Entry { name, value, known });
        self.present.insert(known);
    }

    fn store(&mut self, bytes: &[u8]) -> Option<Span> {
        let start = self.arena.len();
        let end = start.checked_add(bytes.len()).filter(|&end| end <= ARENA_BYTES_MAX)?;
        self.arena.extend_from_slice(bytes);
        Some(Span::new(start, end))
    }

    /// Takes over the fields of a parsed head: `entries` point into `head` from byte `base` on.
    ///
    /// `entries` gives its memory and gets the old one, emptied.
    #[inline]
    pub(crate) fn adopt(&mut self, head: &[u8], base: usize, entries: &mut Vec<Entry>, present: KnownSet) {
        self.arena.clear();
        self.arena.extend_from_slice(head.get(base..).unwrap_or_default());
        std::mem::swap(&mut self.entries, entries);
        entries.clear();
        for entry in &mut self.entries {
            entry.name = entry.name.shifted_back(base as u32);
            entry.value = entry.value.shifted_back(base as u32);
        }
        self.present = present;
        self.dead = 0;
        self.changed = false;
    }

    /// Whether they are still those of the head that they were adopted from.
    #[inline]
    pub(crate) fn are_as_adopted(&self) -> bool {
        !self.changed
    }

    /// The value of the first field with this name.
    #[inline]
    pub fn get(&self, known: Known) -> Option<&[u8]> {
        if !self.present.contains(known) {
            return None;
        }
        let entry = self.entries.iter().find(|entry| entry.known == known)?;
        Some(entry.value.of(&self.arena))
    }

    /// The value of the first field with this name, in any case.
    pub fn get_name(&self, name: &[u8]) -> Option<&[u8]> {
        self.values_of_name(name).next()
    }

    /// The value of the first field whose name matches a variable's tail: letters in any case, and `_` stands for `-`
    /// or `_`, as in `$http_x_foo`.
    pub fn get_underscored(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter_underscored(name).next()
    }

    /// The values of all fields that match a variable's tail, see [`Fields::get_underscored`].
    pub fn iter_underscored<'a, 'n>(&'a self, name: &'n [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.iter().filter(move |(field, ..)| matches_underscored(field, name)).map(|(_, value, _)| value)
    }

    /// Whether a field with this name is there.
    #[inline]
    pub fn contains(&self, known: Known) -> bool {
        self.present.contains(known)
    }

    /// Whether a field with this name is there, in any case.
    pub fn contains_name(&self, name: &[u8]) -> bool {
        self.get_name(name).is_some()
    }

    /// All fields in their order: name, value, number of the name.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8], Known)> + ExactSizeIterator {
        self.entries.iter().map(|entry| (entry.name.of(&self.arena), entry.value.of(&self.arena), entry.known))
    }

    /// The values of all fields with this name, in their order.
    pub fn iter_known(&self, known: Known) -> impl Iterator<Item = &[u8]> {
        let entries: &[Entry] = if self.present.contains(known) { &self.entries } else { &[] };
        entries.iter().filter(move |entry| entry.known == known).map(|entry| entry.value.of(&self.arena))
    }

    /// The values of all fields with this name in any case, in their order.
    pub fn values_of_name<'a, 'n>(&'a self, name: &'n [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let known = Known::of(name);
        let maybe = known == Known::Other || self.present.contains(known);
        let entries: &[Entry] = if maybe { &self.entries } else { &[] };
        entries.iter().filter(move |entry| self.has_name(entry, known, name)).map(|entry| entry.value.of(&self.arena))
    }

    /// Gives the name one value: the first field keeps its place and gets the value, others of that name go; without
    /// one, a field is added at the end.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.set_as(Known::of(name), name, value);
    }

    /// Like [`Fields::set`] for a known name; [`Known::Other`] does nothing.
    pub fn set_known(&mut self, known: Known, value: &[u8]) {
        if known != Known::Other {
            self.set_as(known, known.name().as_bytes(), value);
        }
    }

    fn set_as(&mut self, known: Known, name: &[u8], value: &[u8]) {
        let maybe = known == Known::Other || self.present.contains(known);
        let first = if maybe { self.entries.iter().position(|entry| self.has_name(entry, known, name)) } else { None };
        let Some(first) = first else { return self.append_as(known, name, value) };

        self.changed = true;
        self.retain_from(first + 1, known, name);
        let old = self.entries[first].value;
        let new = if value.len() <= old.len() {
            let start = old.start as usize;
            self.arena[start..start + value.len()].copy_from_slice(value);
            self.dead += old.len() - value.len();
            Some(Span::new(start, start + value.len()))
        } else {
            self.dead += old.len();
            self.store(value)
        };
        if let Some(new) = new {
            self.entries[first].value = new;
        }
        self.compact_if_worth_it();
    }

    /// Removes all fields with this name; [`Known::Other`] removes nothing. Says whether there was one.
    pub fn remove(&mut self, known: Known) -> bool {
        known != Known::Other && self.remove_as(known, known.name().as_bytes())
    }

    /// Removes all fields with this name, in any case. Says whether there was one.
    pub fn remove_name(&mut self, name: &[u8]) -> bool {
        self.remove_as(Known::of(name), name)
    }

    fn remove_as(&mut self, known: Known, name: &[u8]) -> bool {
        if known != Known::Other && !self.present.contains(known) {
            return false;
        }
        let removed = self.retain_from(0, known, name);
        if removed {
            self.present = KnownSet::default();
            for entry in &self.entries {
                self.present.insert(entry.known);
            }
            self.compact_if_worth_it();
        }
        removed
    }

    /// Keeps the fields for which `keep` says so, in their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8], Known) -> bool) {
        let (arena, mut present, mut dead) = (&self.arena, KnownSet::default(), 0);
        self.entries.retain(|entry| {
            let kept = keep(entry.name.of(arena), entry.value.of(arena), entry.known);
            if kept {
                present.insert(entry.known);
            } else {
                dead += entry.name.len() + entry.value.len();
            }
            kept
        });
        self.present = present;
        self.dead += dead;
        self.changed = true;
        self.compact_if_worth_it();
    }

    /// Removes the fields of a name among the entries from `from` on.
    fn retain_from(&mut self, from: usize, known: Known, name: &[u8]) -> bool {
        self.changed = true;
        let before = self.entries.len();
        let mut kept = from;
        for i in from..before {
            let entry = self.entries[i];
            if self.has_name(&entry, known, name) {
                self.dead += entry.name.len() + entry.value.len();
            } else {
                self.entries[kept] = entry;
                kept += 1;
            }
        }
        self.entries.truncate(kept);
        kept < before
    }

    #[inline]
    fn has_name(&self, entry: &Entry, known: Known, name: &[u8]) -> bool {
        entry.known == known && (known != Known::Other || entry.name.of(&self.arena).eq_ignore_ascii_case(name))
    }

    fn compact_if_worth_it(&mut self) {
        if self.dead < DEAD_BYTES_MIN || self.dead < self.arena.len() / 2 {
            return;
        }
        let mut arena = Vec::with_capacity(self.arena.len() - self.dead.min(self.arena.len()));
        for entry in &mut self.entries {
            for span in [&mut entry.name, &mut entry.value] {
                let start = arena.len();
                arena.extend_from_slice(span.of(&self.arena));
                *span = Span::new(start, arena.len());
            }
        }
        self.arena = arena;
        self.dead = 0;
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, value, _)| (BStr::new(name), BStr::new(value)))).finish()
    }
}

impl PartialEq for Fields {
    /// Same names, byte for byte, and same values in the same order.
    fn eq(&self, other: &Fields) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a> Extend<(&'a [u8], &'a [u8])> for Fields {
    fn extend<I: IntoIterator<Item = (&'a [u8], &'a [u8])>>(&mut self, fields: I) {
        for (name, value) in fields {
            self.append(name, value);
        }
    }
}

/// Whether `field` is the field that a variable's tail such as `x_foo` names.
pub fn matches_underscored(field: &[u8], tail: &[u8]) -> bool {
    let fold = |byte: u8| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    field.len() == tail.len() && field.iter().zip(tail).all(|(&a, &b)| fold(a) == fold(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Fields {
        let mut fields = Fields::new();
        for (name, value) in [("Host", "a"), ("X-Foo", "1"), ("cookie", "c=1"), ("x-foo", "2"), ("Cookie", "d=2")] {
            fields.append(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    #[track_caller]
    fn check(fields: &Fields, expected: &str) {
        let lines: Vec<String> =
            fields.iter().map(|(name, value, _)| format!("{}={}", BStr::new(name), BStr::new(value))).collect();
        assert_eq!(lines.join(" "), expected);
        for (name, _, known) in fields.iter() {
            assert_eq!(known, Known::of(name));
        }
        for &known in Known::ALL {
            assert_eq!(fields.contains(known), fields.iter_known(known).next().is_some(), "{known:?}");
        }
    }

    #[test]
    fn looks_up() {
        let fields = sample();
        check(&fields, "Host=a X-Foo=1 cookie=c=1 x-foo=2 Cookie=d=2");
        assert_eq!(fields.len(), 5);
        assert_eq!(fields.get(Known::Host), Some(&b"a"[..]));
        assert_eq!(fields.get(Known::Date), None);
        assert_eq!(fields.get(Known::Other), None);
        assert_eq!(fields.get_name(b"HOST"), Some(&b"a"[..]));
        assert_eq!(fields.get_name(b"X-FOO"), Some(&b"1"[..]));
        assert_eq!(fields.get_name(b"X-Bar"), None);
        assert_eq!(fields.get_underscored(b"x_foo"), Some(&b"1"[..]));
        assert_eq!(fields.get_underscored(b"host"), Some(&b"a"[..]));
        assert_eq!(fields.get_underscored(b"hos"), None);
        assert_eq!(fields.iter_known(Known::Cookie).collect::<Vec<_>>(), [b"c=1", b"d=2"]);
        assert_eq!(fields.values_of_name(b"x-foo").collect::<Vec<_>>(), [b"1", b"2"]);
    }

    #[test]
    fn sets_and_removes() {
        let mut fields = sample();
        fields.set(b"x-foo", b"a longer value");
        check(&fields, "Host=a X-Foo=a longer value cookie=c=1 Cookie=d=2");
        fields.set(b"X-FOO", b"s");
        fields.set_known(Known::Cookie, b"e");
        check(&fields, "Host=a X-Foo=s cookie=e");
        fields.set(b"Date", b"now");
        fields.set(b"X-Bar", b"");
        check(&fields, "Host=a X-Foo=s cookie=e Date=now X-Bar=");
        assert!(fields.remove(Known::Cookie));
        assert!(!fields.remove(Known::Cookie));
        assert!(!fields.remove(Known::Other));
        assert!(fields.remove_name(b"x-foo"));
        assert!(!fields.remove_name(b"x-foo"));
        check(&fields, "Host=a Date=now X-Bar=");
        fields.retain(|_, _, known| known != Known::Host);
        check(&fields, "Date=now X-Bar=");
        fields.clear();
        check(&fields, "");
    }

    #[test]
    fn replacing_for_ever_does_not_grow() {
        let mut fields = sample();
        for i in 0..10_000 {
            fields.set(b"X-Counter", format!("{:width$}", i, width = i % 97).as_bytes());
            fields.append(b"X-Gone", b"some bytes");
            fields.remove_name(b"x-gone");
        }
        assert!(fields.arena.capacity() < 3 * DEAD_BYTES_MIN, "{}", fields.arena.capacity());
        assert_eq!(fields.get(Known::Host), Some(&b"a"[..]));
    }
}
