//! The orders of `unicode_ci`, `unicode_520_ci` and `0900_ai_ci`: the Unicode Collation Algorithm's primary weights, of versions
//! 4.0.0, 5.2.0 and 9.0.0.
//!
//! A text compares by the weights of its characters one after the other; characters without weights do not count, and the
//! shorter text goes on with the weight of a space, or comes first (`0900_ai_ci`). As in MariaDB and MySQL there are no
//! contractions, a character has eight weights at most, and what the tables do not have gets the two weights of the algorithm for
//! characters without an entry. `unicode_ci` knows the basic plane only: all other characters are equal. In `0900_ai_ci` a
//! syllable of Hangul has the weights of its letters.
//!
//! The tables (`uca/weights-*.bin`) are the Unicode Consortium's `allkeys.txt`, see `uca/NOTICE.md`, as numbers of two bytes,
//! little-endian:
//!
//! ```text
//! n, then n pages' numbers, then n times the 256 entries of a page, then m, m + 1 offsets, the weights of m expansions
//! ```
//!
//! An entry is 0 for a character without weights, its only weight, [`EXPANSION`] and the number of an expansion, or [`ABSENT`].
//! **Version 1 of these orders** (`docs/storage-format.md`): a changed table makes existing indexes wrong.

mod languages;

use std::{cmp::Ordering, sync::OnceLock};

use super::collation::next_char;
pub(crate) use languages::{LANGUAGES, Language};

/// Entries from here on are numbers of expansions.
const EXPANSION: u16 = 0xe000;
/// The entry of a character that the table does not have.
const ABSENT: u16 = 0xffff;
/// The weight of all characters outside of the basic plane in version 4.0.0.
const REPLACEMENT: u16 = 0xfffd;
/// Pages of Unicode.
const PAGES: usize = 0x1100;

/// The weights of one version.
pub(crate) struct Table {
    /// Where the entries of a page begin in `words`, 0 for a page without.
    pages: Box<[usize]>,
    words: Box<[u16]>,
    /// Where the offsets of the expansions begin.
    expansions: usize,
    /// Where their weights begin.
    weights: usize,
    version: Version,
}

/// What the versions do differently beside their tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V400,
    V520,
    V900,
}

/// Version 4.0.0: `unicode_ci`.
pub(crate) fn v400() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::read(include_bytes!("uca/weights-4.0.0.bin"), Version::V400))
}

/// Version 5.2.0: `unicode_520_ci`.
pub(crate) fn v520() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::read(include_bytes!("uca/weights-5.2.0.bin"), Version::V520))
}

/// Version 9.0.0: `0900_ai_ci`.
pub(crate) fn v900() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::read(include_bytes!("uca/weights-9.0.0.bin"), Version::V900))
}

impl Table {
    fn read(bytes: &[u8], version: Version) -> Self {
        let words: Box<[u16]> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let count = usize::from(words[0]);
        let mut pages = vec![0; PAGES].into_boxed_slice();
        for (slot, page) in words[1..=count].iter().enumerate() {
            pages[usize::from(*page)] = 1 + count + slot * 256;
        }
        let end = 1 + count + count * 256;
        let expansions = usize::from(words[end]);
        Self { pages, expansions: end + 1, weights: end + 2 + expansions, words, version }
    }

    /// The same with other weights for some characters, which this one has.
    fn with(&self, weights: impl Iterator<Item = (char, u16)>) -> Self {
        let mut words = self.words.clone();
        for (c, weight) in weights {
            let c = c as usize;
            words[self.pages[c >> 8] + (c & 0xff)] = weight;
        }
        Self { pages: self.pages.clone(), words, ..*self }
    }

    /// The weights of a character, at most three of them in `room`.
    fn weights<'t>(&'t self, c: u32, room: &'t mut [u16; 3]) -> &'t [u16] {
        let basic_only = self.version == Version::V400;
        if c > 0xffff && basic_only || c > 0x10_ffff {
            room[0] = if basic_only { REPLACEMENT } else { ABSENT };
            return &room[..1];
        }
        if self.version == Version::V900 && (0xac00..=0xd7af).contains(&c) {
            return self.syllable(c - 0xac00, room);
        }
        let entry = match self.pages[(c >> 8) as usize] {
            0 => ABSENT,
            page => self.words[page + (c & 0xff) as usize],
        };
        match entry {
            0 => &[],
            ABSENT => {
                [room[0], room[1]] = self.implicit(c);
                &room[..2]
            }
            EXPANSION.. => {
                let at = self.expansions + usize::from(entry - EXPANSION);
                let (from, to) = (usize::from(self.words[at]), usize::from(self.words[at + 1]));
                &self.words[self.weights + from..self.weights + to]
            }
            weight => {
                room[0] = weight;
                &room[..1]
            }
        }
    }

    /// The weights of a character that the table does not have: UTS #10, section 10.1.3, with each version's ranges.
    fn implicit(&self, c: u32) -> [u16; 2] {
        if self.version == Version::V900 && (0x1_7000..=0x1_8aff).contains(&c) {
            return [0xfb00, (c - 0x1_7000) as u16 | 0x8000];
        }
        let base = match (self.version, c) {
            (Version::V900, 0x4e00..=0x9fd5 | 0xfa0e..=0xfa29) => 0xfb40,
            (
                Version::V900,
                0x3400..=0x4db5 | 0x2_0000..=0x2_a6d6 | 0x2_a700..=0x2_b734 | 0x2_b740..=0x2_b81d | 0x2_b820..=0x2_cea1,
            ) => 0xfb80,
            (Version::V400 | Version::V520, 0x4e00..=0x9fa5) => 0xfb40,
            (Version::V400 | Version::V520, 0x3400..=0x4db5) => 0xfb80,
            _ => 0xfbc0,
        };
        [base + (c >> 15) as u16, (c & 0x7fff) as u16 | 0x8000]
    }

    /// The weights of a syllable's letters: a leading consonant, a vowel and perhaps a trailing consonant (Unicode, section 3.12).
    fn syllable<'t>(&self, index: u32, room: &'t mut [u16; 3]) -> &'t [u16] {
        let letters = [0x1100 + index / 588, 0x1161 + index % 588 / 28, 0x11a7 + index % 28];
        let count = if index.is_multiple_of(28) { 2 } else { 3 };
        for (weight, letter) in room.iter_mut().zip(&letters[..count]) {
            *weight = self.words[self.pages[(letter >> 8) as usize] + (letter & 0xff) as usize];
        }
        &room[..count]
    }

    /// The first weight of a character, if it has any.
    pub(crate) fn first_weight(&self, c: u32) -> Option<u16> {
        self.weights(c, &mut [0; 3]).first().copied()
    }

    /// Whether a pattern's character stands for another: it has the same weights, and the table knows both.
    pub(crate) fn same(&self, a: u32, b: u32) -> bool {
        let (mut x, mut y) = ([0; 3], [0; 3]);
        let known = self.version != Version::V400 || a.max(b) <= 0xffff;
        a == b || known && self.weights(a, &mut x) == self.weights(b, &mut y)
    }

    /// Compares two texts; trailing spaces do not count except in version 9.0.0.
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // Most texts that meet begin alike: the same bytes have the same weights.
        let common = a.iter().zip(b).take_while(|(x, y)| x == y && x.is_ascii()).count();
        let (mut a, mut b) = (Stream::new(self, &a[common..]), Stream::new(self, &b[common..]));
        let space = self.words[self.pages[0] + usize::from(b' ')];
        loop {
            match (a.next(), b.next()) {
                (None, None) => return Ordering::Equal,
                (x, y) if self.version == Version::V900 => {
                    let order = x.cmp(&y);
                    if order.is_ne() {
                        return order;
                    }
                }
                (x, y) => {
                    let order = x.unwrap_or(space).cmp(&y.unwrap_or(space));
                    if order.is_ne() {
                        return order;
                    }
                }
            }
        }
    }

    /// Appends the weights of a text, most significant byte first.
    pub(crate) fn write_weights(&self, text: &[u8], out: &mut Vec<u8>) {
        for weight in Stream::new(self, text) {
            out.extend_from_slice(&weight.to_be_bytes());
        }
    }
}

/// The weights of a text.
struct Stream<'t> {
    table: &'t Table,
    text: &'t [u8],
    /// Weights of the last character that are still to come: at most eight, of which the first is gone.
    pending: [u16; 8],
    from: u8,
    to: u8,
}

impl<'t> Stream<'t> {
    fn new(table: &'t Table, text: &'t [u8]) -> Self {
        Self { table, text, pending: [0; 8], from: 0, to: 0 }
    }
}

impl Iterator for Stream<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        while self.from == self.to {
            let c = next_char(&mut self.text)?;
            let mut room = [0; 3];
            let weights = self.table.weights(c, &mut room);
            self.pending[..weights.len()].copy_from_slice(weights);
            (self.from, self.to) = (0, weights.len() as u8);
        }
        self.from += 1;
        Some(self.pending[usize::from(self.from) - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(table: &Table, a: &str, b: &str, expected: Ordering) {
        assert_eq!(table.compare(a.as_bytes(), b.as_bytes()), expected, "{a:?} {b:?}");
        assert_eq!(table.compare(b.as_bytes(), a.as_bytes()), expected.reverse(), "{b:?} {a:?}");
    }

    #[test]
    fn orders() {
        use Ordering::*;
        for table in [v400(), v520()] {
            check(table, "a", "A", Equal);
            check(table, "é", "E", Equal);
            check(table, "ß", "ss", Equal);
            check(table, "straße", "STRASSE", Equal);
            check(table, "a ", "a", Equal);
            check(table, "a\0", "a", Equal);
            check(table, "-", "1", Less);
            check(table, "1", "a", Less);
            check(table, "z", "ä", Greater);
            check(table, "日", "本", Less);
            check(table, "", "   ", Equal);
            check(table, "ab", "a b", Greater);
        }
        check(v400(), "😀", "🎉", Equal);
        check(v520(), "😀", "🎉", Greater);
        check(v400(), "ł", "l", Greater);
        check(v520(), "ł", "l", Equal);
    }

    /// What MySQL 9.7 answers.
    #[test]
    fn orders_of_0900() {
        use Ordering::*;
        for (a, b, expected) in [
            ("a", "Á", Equal),
            ("ß", "ss", Equal),
            ("ł", "l", Equal),
            ("a", "a ", Less),
            ("a\0", "a", Equal),
            ("ab", "a b", Greater),
            ("각", "가", Greater),
            ("가", "가", Equal),
            ("😀", "🎉", Greater),
            ("㐀", "一", Greater),
            ("𗀀", "一", Less),
        ] {
            check(v900(), a, b, expected);
        }
    }

    /// WEIGHT_STRING of MySQL 9.7, as one number of all characters' weights.
    #[test]
    fn weights_of_0900_are_those_of_mysql() {
        let mut sum = 0xcbf2_9ce4_8422_2325u64;
        for c in (0..=0x10_ffff).filter(|c| !(0xd800..=0xdfff).contains(c)) {
            for weight in v900().weights(c, &mut [0; 3]).iter().copied().chain([0]) {
                sum = (sum ^ u64::from(weight)).wrapping_mul(0x100_0000_01b3);
            }
        }
        assert_eq!(sum, 0xd618_dd66_404f_6577);
    }

    #[test]
    fn no_character_has_more_weights_than_there_is_room_for() {
        for table in [v400(), v520(), v900()] {
            for c in 0..=0x11_0100 {
                assert!(table.weights(c, &mut [0; 3]).len() <= 8, "{c:x}");
            }
        }
    }
}
