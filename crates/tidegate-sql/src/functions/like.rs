//! LIKE: the one function that a search without an index calls for each row.
//!
//! Characters are the same by the weights of a collation. Among the printable characters of ASCII only upper and lower case can be the
//! same, in all collations alike (`printable_characters_are_their_own`), so that patterns of these, which nearly all are, are matched
//! by bytes; of the text only what is not ASCII is decoded.

use super::{
    Family,
    abi::{Args, Out, Udf},
};
use crate::value::collation::{Collation, Order, next_char};
use tidegate_rows::ServerError;

pub(super) const FAMILY: Family = Family { functions: &[], udfs: UDFS, aggregates: &[] };

static UDFS: &[Udf] = &[Udf::new("tg_like", 4, like)];

/// `tg_like(text, pattern, escape, collation)`.
fn like(args: &Args<'_>, out: &mut Out) -> Result<(), ServerError> {
    let escape = next_char(&mut args.bytes(2));
    let order = Collation(args.int(3) as u16).order();
    out.bool(matches_like(args.bytes(0), args.bytes(1), escape, order));
    Ok(())
}

/// Whether a text matches a LIKE pattern.
pub(crate) fn matches_like(text: &[u8], pattern: &[u8], escape: Option<u32>, order: Order) -> bool {
    let printable = |byte: &u8| matches!(byte, b' '..=b'~');
    match escape.map_or(Some(None), |escape| u8::try_from(escape).ok().map(Some)) {
        Some(escape) if pattern.iter().all(printable) => Bytes::new(escape, order).matches(text, pattern),
        _ => by_characters(text, pattern, escape, order),
    }
}

/// Matches patterns of printable ASCII.
struct Bytes {
    escape: Option<u8>,
    order: Order,
    /// What a letter has in either case and another character has not; 0 where case counts.
    case: u8,
}

impl Bytes {
    fn new(escape: Option<u8>, order: Order) -> Self {
        Self { escape, order, case: if order.same(u32::from(b'a'), u32::from(b'A')) { 0x20 } else { 0 } }
    }

    fn matches(&self, text: &[u8], pattern: &[u8]) -> bool {
        let (mut text, mut pattern) = (text, pattern);
        // Where to go on after a mismatch: behind the last `%`, one character further in the text.
        let mut retry: Option<(&[u8], &[u8])> = None;
        loop {
            let found = match pattern {
                [] if text.is_empty() => return true,
                [] => None,
                [escape, wanted, rest @ ..] if self.escape == Some(*escape) => {
                    self.one(text, *wanted).map(|text| (text, rest))
                }
                [b'%'] => return true,
                [b'%', rest @ ..] => {
                    let Some(from) = self.skip(text, rest) else { return false };
                    retry = Some((rest, from));
                    (text, pattern) = (from, rest);
                    continue;
                }
                [b'_', rest @ ..] => {
                    let mut behind = text;
                    next_char(&mut behind).map(|_| (behind, rest))
                }
                [wanted, rest @ ..] => self.one(text, *wanted).map(|text| (text, rest)),
            };
            if let Some(next) = found {
                (text, pattern) = next;
                continue;
            }
            let Some((behind, mut from)) = retry else { return false };
            if next_char(&mut from).is_none() {
                return false;
            }
            let Some(from) = self.skip(from, behind) else { return false };
            retry = Some((behind, from));
            (text, pattern) = (from, behind);
        }
    }

    /// The text behind its first character, if that is the one that is wanted.
    #[inline]
    fn one<'t>(&self, text: &'t [u8], wanted: u8) -> Option<&'t [u8]> {
        let (&byte, rest) = text.split_first()?;
        if byte.is_ascii() {
            return (byte == wanted || self.folded(byte) == self.folded(wanted)).then_some(rest);
        }
        let mut rest = text;
        let found = next_char(&mut rest)?;
        self.order.same(found, u32::from(wanted)).then_some(rest)
    }

    #[inline]
    fn folded(&self, byte: u8) -> u8 {
        if byte.is_ascii_alphabetic() { byte | self.case } else { byte }
    }

    /// The text from the first place on at which the rest of the pattern, behind a `%`, could match.
    fn skip<'t>(&self, text: &'t [u8], pattern: &[u8]) -> Option<&'t [u8]> {
        let (&wanted, _) = pattern.split_first()?;
        if wanted == b'_' || wanted == b'%' || self.escape == Some(wanted) {
            return Some(text);
        }
        let cases = |letter: u8| if self.case == 0 { wanted } else { letter };
        let (lower, upper) = (cases(wanted.to_ascii_lowercase()), cases(wanted.to_ascii_uppercase()));
        let found = memchr::memchr2(lower, upper, text);
        let end = found.unwrap_or(text.len());
        let mut from = 0;
        // What is not ASCII may be the same character.
        while let Some(other) = text[from..end].iter().position(|byte| !byte.is_ascii()) {
            let at = &text[from + other..];
            let mut behind = at;
            let character = next_char(&mut behind)?;
            if self.order.same(character, u32::from(wanted)) {
                return Some(at);
            }
            from = text.len() - behind.len();
        }
        found.map(|at| &text[at..])
    }
}

/// Matches any pattern.
fn by_characters(text: &[u8], pattern: &[u8], escape: Option<u32>, order: Order) -> bool {
    let same = |a: u32, b: u32| order.same(a, b);
    let (mut text, mut pattern) = (text, pattern);
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        let mut rest = pattern;
        let mut ahead = text;
        let matched = match next_char(&mut rest) {
            None => {
                if text.is_empty() {
                    return true;
                }
                false
            }
            Some(c) if Some(c) == escape && !rest.is_empty() => {
                let wanted = next_char(&mut rest).unwrap_or(0);
                next_char(&mut ahead).is_some_and(|found| same(found, wanted))
            }
            Some(c) if c == u32::from(b'%') => {
                if rest.is_empty() {
                    return true;
                }
                retry = Some((rest, text));
                pattern = rest;
                continue;
            }
            Some(c) if c == u32::from(b'_') => next_char(&mut ahead).is_some(),
            Some(c) => next_char(&mut ahead).is_some_and(|found| same(found, c)),
        };
        if matched {
            (text, pattern) = (ahead, rest);
            continue;
        }
        let Some((behind, from)) = &mut retry else { return false };
        if next_char(from).is_none() {
            return false;
        }
        (text, pattern) = (from, behind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways must give the same.
    #[track_caller]
    fn check_in(order: Order, text: &str, pattern: &str, escape: Option<char>, expected: bool) {
        let (text, pattern, escape) = (text.as_bytes(), pattern.as_bytes(), escape.map(u32::from));
        let shown = || format!("{} LIKE {}", String::from_utf8_lossy(text), String::from_utf8_lossy(pattern));
        assert_eq!(matches_like(text, pattern, escape, order), expected, "{}", shown());
        assert_eq!(by_characters(text, pattern, escape, order), expected, "{} by characters", shown());
    }

    #[test]
    fn like_patterns() {
        let check =
            |text: &str, pattern: &str, expected: bool| check_in(Order::General, text, pattern, Some('\\'), expected);
        check("abc", "abc", true);
        check("ABC", "abc", true);
        check("abc", "a%", true);
        check("abc", "%c", true);
        check("abc", "%b%", true);
        check("abc", "a_c", true);
        check("abc", "a_", false);
        check("a%c", r"a\%c", true);
        check("abc", r"a\%c", false);
        check("", "", true);
        check("", "%", true);
        check("a", "", false);
        check("été", "ETE", true);
        check("aaaaaaaaaab", "%a%a%a%c", false);
        check("a ", "a", false);
        check("ab\u{0}ab é abc", "%abc", true);
        check("a_b", r"%\_b", true);
        check("ab", r"%\_b", false);
        check(r"a\", r"a\", true);
        check("日本", "__", true);
        check("日本", "%_本%", true);
        check("xÉy", "%e%", true);
        check_in(Order::General, "a%", "a%%", Some('%'), true);
        check_in(Order::General, "ab", "a%", Some('%'), true);
        check_in(Order::General, r"a\b", r"a\b", None, true);
        check_in(Order::CodePoint, "xAy", "%a%", None, false);
        check_in(Order::CodePoint, "xay", "%a%", None, true);
    }

    /// Of the printable characters of ASCII only the two cases of a letter can be the same: `Bytes` relies on it.
    #[test]
    fn printable_characters_are_their_own() {
        for collation in Collation::all() {
            let order = collation.order();
            let has_case = !order.same(u32::from('a'), u32::from('A'));
            for a in 0x20..=0x7e_u8 {
                for b in 0..=0x7f_u8 {
                    let same = a == b || !has_case && a.is_ascii_alphabetic() && a.eq_ignore_ascii_case(&b);
                    assert_eq!(order.same(u32::from(a), u32::from(b)), same, "{a} {b} {}", collation.name());
                }
            }
        }
    }

    /// Every short text of a few characters with every short pattern: bytes and characters agree.
    #[test]
    fn bytes_match_as_characters_do() {
        fn words(alphabet: &[&str], length: usize) -> Vec<String> {
            let mut words = vec![String::new()];
            for from in 0..length {
                let longest: Vec<String> = words.iter().filter(|word| word.chars().count() == from).cloned().collect();
                words.extend(longest.iter().flat_map(|word| alphabet.iter().map(move |c| format!("{word}{c}"))));
            }
            words
        }
        let (texts, patterns) = (words(&["a", "B", "é", "日"], 4), words(&["A", "b", "E", "_", "%", "|"], 3));
        for name in ["utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_unicode_520_ci"] {
            let order = Collation::by_name(name).map(Collation::order).expect("a collation");
            for text in &texts {
                for pattern in &patterns {
                    for escape in [None, Some(u32::from('|'))] {
                        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
                        let expected = by_characters(text, pattern, escape, order);
                        assert_eq!(matches_like(text, pattern, escape, order), expected, "{text:?} {pattern:?} {name}");
                    }
                }
            }
        }
    }
}
