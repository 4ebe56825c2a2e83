//! The orders of `unicode_ci` and `unicode_520_ci`: the Unicode Collation Algorithm's primary weights, of versions 4.0.0 and 5.2.0.
//!
//! A text compares by the weights of its characters one after the other; characters without weights do not count, and the
//! shorter text goes on with the weight of a space. As in MariaDB there are no contractions, a character has eight weights at most,
//! and what the tables do not have gets the two weights of the algorithm for characters without an entry. `unicode_ci` knows the
//! basic plane only: all other characters are equal.
//!
//! The tables (`uca/weights-*.bin`) are the Unicode Consortium's `allkeys.txt`, see `uca/NOTICE.md`, as numbers of two bytes,
//! little-endian:
//!
//! ```text
//! n, then n pages' numbers, then n times the 256 entries of a page, then m, m + 1 offsets, the weights of m expansions
//! ```
//!
//! An entry is 0 for a character without weights, its only weight, [`EXPANSION`] and the number of an expansion, or [`ABSENT`].
//! **Version 1 of both orders** (`docs/storage-format.md`): a changed table makes existing indexes wrong.

use std::{cmp::Ordering, sync::OnceLock};

use super::collation::next_char;

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
    basic_only: bool,
}

/// Version 4.0.0: `unicode_ci`.
pub(crate) fn v400() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::read(include_bytes!("uca/weights-4.0.0.bin"), true))
}

/// Version 5.2.0: `unicode_520_ci`.
pub(crate) fn v520() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::read(include_bytes!("uca/weights-5.2.0.bin"), false))
}

impl Table {
    fn read(bytes: &[u8], basic_only: bool) -> Self {
        let words: Box<[u16]> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let count = usize::from(words[0]);
        let mut pages = vec![0; PAGES].into_boxed_slice();
        for (slot, page) in words[1..=count].iter().enumerate() {
            pages[usize::from(*page)] = 1 + count + slot * 256;
        }
        let end = 1 + count + count * 256;
        let expansions = usize::from(words[end]);
        Self { pages, expansions: end + 1, weights: end + 2 + expansions, words, basic_only }
    }

    /// The weights of a character, at most two of them in `room`.
    fn weights<'t>(&'t self, c: u32, room: &'t mut [u16; 2]) -> &'t [u16] {
        if c > 0xffff && self.basic_only || c > 0x10_ffff {
            room[0] = if self.basic_only { REPLACEMENT } else { ABSENT };
            return &room[..1];
        }
        let entry = match self.pages[(c >> 8) as usize] {
            0 => ABSENT,
            page => self.words[page + (c & 0xff) as usize],
        };
        match entry {
            0 => &[],
            ABSENT => {
                let base = match c {
                    0x4e00..=0x9fa5 => 0xfb40,
                    0x3400..=0x4db5 => 0xfb80,
                    _ => 0xfbc0,
                };
                *room = [base + (c >> 15) as u16, (c & 0x7fff) as u16 | 0x8000];
                room
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

    /// Whether a pattern's character stands for another: it has the same weights, and the table knows both.
    pub(crate) fn same(&self, a: u32, b: u32) -> bool {
        let (mut x, mut y) = ([0; 2], [0; 2]);
        let known = !self.basic_only || a.max(b) <= 0xffff;
        a == b || known && self.weights(a, &mut x) == self.weights(b, &mut y)
    }

    /// Compares two texts; trailing spaces do not count.
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // Most texts that meet begin alike: the same bytes have the same weights.
        let common = a.iter().zip(b).take_while(|(x, y)| x == y && x.is_ascii()).count();
        let (mut a, mut b) = (Stream::new(self, &a[common..]), Stream::new(self, &b[common..]));
        let space = self.words[self.pages[0] + usize::from(b' ')];
        loop {
            match (a.next(), b.next()) {
                (None, None) => return Ordering::Equal,
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
            let mut room = [0; 2];
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

    #[test]
    fn no_character_has_more_weights_than_there_is_room_for() {
        for table in [v400(), v520()] {
            for c in 0..=0x11_0100 {
                assert!(table.weights(c, &mut [0; 2]).len() <= 8, "{c:x}");
            }
        }
    }
}
