//! Ranges of an index for texts that begin alike: what LIKE 'abc%' can match stands between two texts.
//!
//! A text that matches has the weights of the pattern's first characters, one after the other, at its beginning. So it stands behind every
//! text that has the same weights but for a smaller one in place of the last of them, whatever follows there, and before every text that has a greater
//! one. Such texts are made with a character whose weight is near. The ranges are not exact: the pattern still decides.

use super::collation::{Collation, Order, next_char};

/// Between what a text must stand to match a pattern, both exclusive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) low: String,
    pub(crate) high: String,
}

type Span = std::ops::RangeInclusive<u32>;

/// Characters that stand for a weight nearby: ASCII, then other frequent scripts. Beside other characters the range is wider.
const NEIGHBOURS: &[Span] = &[
    0x20..=0x7e,
    0xa0..=0x17f,
    0x391..=0x3c9,
    0x410..=0x44f,
    0x5d0..=0x5d0,
    0x627..=0x627,
    0x905..=0x905,
    0xe01..=0xe01,
    0x3042..=0x3042,
    0x4e00..=0x4e00,
    0xac00..=0xac00,
    0xfffd..=0xfffd,
];
/// A character behind all others, or nearly.
const LAST: char = '\u{10ffff}';

/// Whether there is a range for all patterns that begin with this byte: for printable ASCII but wildcards.
pub(crate) fn has_range(first: u8) -> bool {
    matches!(first, b'!'..=b'~') && first != b'%' && first != b'_'
}

impl Collation {
    /// The range of a pattern's matches; `None` if the pattern begins with a wildcard, or there is none.
    pub(crate) fn range_of(self, pattern: &[u8], escape: Option<u32>) -> Option<Range> {
        let order = self.order();
        let mut head = beginning(pattern, escape);
        let (mut low, mut high) = (None, None);
        while low.is_none() || high.is_none() {
            // A range of a shorter beginning is one of the whole, too.
            let last = head.pop()?;
            let Some(weight) = order.first_weight(u32::from(last)) else { continue };
            let beginning: String = head.iter().collect();
            let near = |scripts: &'static [Span]| {
                let own = [u32::from(last).wrapping_sub(1), u32::from(last) + 1];
                let characters = scripts.iter().cloned().flatten().chain(own).filter_map(char::from_u32);
                characters.filter_map(|c| Some((order.first_weight(u32::from(c))?, c)))
            };
            let scripts = if last.is_ascii() { &NEIGHBOURS[..1] } else { NEIGHBOURS };
            let below = near(scripts).filter(|(near, _)| *near < weight).max_by_key(|(near, _)| *near);
            let above = |scripts| near(scripts).filter(|(near, _)| *near > weight).min_by_key(|(near, _)| *near);
            let above = above(scripts).or_else(|| above(NEIGHBOURS));
            low = low.or_else(|| below.map(|(_, c)| format!("{beginning}{c}{LAST}{LAST}")));
            high = high.or_else(|| above.map(|(_, c)| format!("{beginning}{c}")));
        }
        Some(Range { low: low?, high: high? })
    }
}

/// The characters before the first wildcard.
fn beginning(mut pattern: &[u8], escape: Option<u32>) -> Vec<char> {
    let mut characters = Vec::new();
    while let Some(mut c) = next_char(&mut pattern) {
        if Some(c) == escape && !pattern.is_empty() {
            c = next_char(&mut pattern).unwrap_or(c);
        } else if c == u32::from(b'%') || c == u32::from(b'_') {
            break;
        }
        // What is not UTF-8 is left to the pattern.
        let Some(c) = char::from_u32(c) else { break };
        characters.push(c);
    }
    characters
}

impl Order {
    /// The first of a character's weights, if it has any.
    fn first_weight(self, c: u32) -> Option<u32> {
        match self {
            Order::Bytes => None,
            Order::Unicode(table) => table.first_weight(c).map(u32::from),
            Order::CodePoint | Order::General | Order::Latin1(_) => Some(self.weight(c)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    fn all() -> impl Iterator<Item = Collation> {
        Collation::all().filter(|collation| *collation != Collation::BINARY)
    }

    #[test]
    fn what_begins_printable_has_a_range() {
        for collation in all() {
            for first in (b'!'..=b'~').filter(|first| has_range(*first)) {
                for rest in ["%", "\t\u{300}%", "\\"] {
                    let pattern = format!("{}{rest}", char::from(first));
                    for escape in
                        [None, Some(u32::from(b'\\'))].into_iter().filter(|escape| *escape != Some(u32::from(first)))
                    {
                        let range = collation.range_of(pattern.as_bytes(), escape);
                        assert!(range.is_some(), "{pattern} {}", collation.name());
                    }
                }
            }
            assert_eq!(collation.range_of(b"%a", None), None);
            assert_eq!(collation.range_of(b"_a", None), None);
            assert!(collation.range_of(br"\_a%", Some(u32::from(b'\\'))).is_some());
        }
    }

    /// Texts that match a pattern stand in its range, and no pattern has a range of nearly everything.
    #[test]
    fn matches_stand_in_the_range() {
        let characters = ["a", "Z", "é", "ß", "\t", "\u{300}", " ", "0", "日", "😀"];
        let words = || {
            let pairs = characters.iter().flat_map(|a| characters.iter().map(move |b| format!("{a}{b}")));
            characters.iter().map(|c| (*c).to_owned()).chain(pairs)
        };
        for collation in all() {
            for head in words() {
                let pattern = format!("{head}%");
                let Some(range) = collation.range_of(pattern.as_bytes(), None) else { continue };
                for text in words().chain(words().map(|word| format!("{word}\t"))) {
                    if !crate::functions::matches_like(text.as_bytes(), pattern.as_bytes(), None, collation.order()) {
                        continue;
                    }
                    let text = text.as_bytes();
                    let name = collation.name();
                    assert_eq!(
                        collation.compare(range.low.as_bytes(), text),
                        Ordering::Less,
                        "{range:?} {text:?} {name}"
                    );
                    assert_eq!(
                        collation.compare(text, range.high.as_bytes()),
                        Ordering::Less,
                        "{range:?} {text:?} {name}"
                    );
                }
            }
        }
    }

    #[test]
    fn ranges_are_narrow() {
        let collation = |name| Collation::by_name(name).expect("a collation");
        for (name, pattern, low, high) in [
            ("utf8mb4_general_ci", "hello-worl%", "hello-work\u{10ffff}\u{10ffff}", "hello-worm"),
            ("utf8mb4_unicode_520_ci", "hello-worl%", "hello-work\u{10ffff}\u{10ffff}", "hello-worm"),
            ("utf8mb4_bin", "z%", "y\u{10ffff}\u{10ffff}", "{"),
        ] {
            let range = collation(name).range_of(pattern.as_bytes(), None).expect("a range");
            let equal = |a: &str, b: &str| collation(name).compare(a.as_bytes(), b.as_bytes()) == Ordering::Equal;
            assert!(equal(&range.low, low) && range.high.starts_with(&high[..1]), "{range:?} {name}");
        }
    }
}
