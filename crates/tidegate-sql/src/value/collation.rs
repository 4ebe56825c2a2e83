//! Collations: how characters compare. The order of a collation is part of the storage format.

use std::cmp::Ordering;

use tidegate_rows::ServerError;

use super::{
    latin1,
    uca::{self, LANGUAGES, Table},
    weights::WEIGHTS,
};
use crate::errors;

/// A collation by MySQL's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Collation(pub(crate) u16);

/// A collation's entry: number, name, character set, bytes of its longest character, order.
struct Entry {
    id: u16,
    name: &'static str,
    charset: &'static str,
    char_bytes_max: u32,
    default: bool,
    rule: Rule,
}

/// The orders that there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Bytes,
    CodePoint,
    /// Trailing spaces count.
    CodePointNoPad,
    General,
    Unicode400,
    /// That of a language, by its place among [`LANGUAGES`].
    Language(usize),
    Unicode520,
    /// Trailing spaces count.
    Unicode900,
    Latin1(&'static latin1::Weights),
}

#[rustfmt::skip]
static COLLATIONS: &[Entry] = &[
    Entry { id: 45, name: "utf8mb4_general_ci", charset: "utf8mb4", char_bytes_max: 4, default: true, rule: Rule::General },
    Entry { id: 46, name: "utf8mb4_bin", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::CodePoint },
    Entry { id: 224, name: "utf8mb4_unicode_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Unicode400 },
    Entry { id: 246, name: "utf8mb4_unicode_520_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Unicode520 },
    Entry { id: 255, name: "utf8mb4_0900_ai_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Unicode900 },
    Entry { id: 309, name: "utf8mb4_0900_bin", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::CodePointNoPad },
    Entry { id: 225, name: "utf8mb4_icelandic_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Language(0) },
    Entry { id: 226, name: "utf8mb4_latvian_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Language(1) },
    Entry { id: 227, name: "utf8mb4_romanian_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Language(2) },
    Entry { id: 228, name: "utf8mb4_slovenian_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Language(3) },
    Entry { id: 229, name: "utf8mb4_polish_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Language(4) },
    Entry { id: 230, name: "utf8mb4_estonian_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Language(5) },
    Entry { id: 231, name: "utf8mb4_spanish_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Language(6) },
    Entry { id: 232, name: "utf8mb4_swedish_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Language(7) },
    Entry { id: 241, name: "utf8mb4_esperanto_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Language(8) },
    Entry { id: 242, name: "utf8mb4_hungarian_ci", charset: "utf8mb4", char_bytes_max: 4, default: false, rule: Rule::Language(9) },
    Entry { id: 33, name: "utf8mb3_general_ci", charset: "utf8mb3", char_bytes_max: 3, default: true, rule: Rule::General },
    Entry { id: 83, name: "utf8mb3_bin", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::CodePoint },
    Entry { id: 192, name: "utf8mb3_unicode_ci", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::Unicode400 },
    Entry { id: 214, name: "utf8mb3_unicode_520_ci", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::Unicode520 },
    Entry { id: 193, name: "utf8mb3_icelandic_ci", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::Language(0) },
    Entry { id: 194, name: "utf8mb3_latvian_ci", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::Language(1) },
    Entry { id: 195, name: "utf8mb3_romanian_ci", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::Language(2) },
    Entry { id: 196, name: "utf8mb3_slovenian_ci", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::Language(3) },
    Entry { id: 197, name: "utf8mb3_polish_ci", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::Language(4) },
    Entry { id: 198, name: "utf8mb3_estonian_ci", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::Language(5) },
    Entry { id: 199, name: "utf8mb3_spanish_ci", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::Language(6) },
    Entry { id: 200, name: "utf8mb3_swedish_ci", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::Language(7) },
    Entry { id: 209, name: "utf8mb3_esperanto_ci", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::Language(8) },
    Entry { id: 210, name: "utf8mb3_hungarian_ci", charset: "utf8mb3", char_bytes_max: 3, default: false, rule: Rule::Language(9) },
    Entry { id: 11, name: "ascii_general_ci", charset: "ascii", char_bytes_max: 1, default: true, rule: Rule::General },
    Entry { id: 65, name: "ascii_bin", charset: "ascii", char_bytes_max: 1, default: false, rule: Rule::CodePoint },
    Entry { id: 8, name: "latin1_swedish_ci", charset: "latin1", char_bytes_max: 1, default: true, rule: Rule::Latin1(&latin1::SWEDISH) },
    Entry { id: 47, name: "latin1_bin", charset: "latin1", char_bytes_max: 1, default: false, rule: Rule::Latin1(&latin1::BIN) },
    Entry { id: 48, name: "latin1_general_ci", charset: "latin1", char_bytes_max: 1, default: false, rule: Rule::Latin1(&latin1::GENERAL_CI) },
    Entry { id: 49, name: "latin1_general_cs", charset: "latin1", char_bytes_max: 1, default: false, rule: Rule::Latin1(&latin1::GENERAL_CS) },
    Entry { id: 5, name: "latin1_german1_ci", charset: "latin1", char_bytes_max: 1, default: false, rule: Rule::Latin1(&latin1::GERMAN1) },
    Entry { id: 63, name: "binary", charset: "binary", char_bytes_max: 1, default: true, rule: Rule::Bytes },
];

impl Collation {
    /// `utf8mb4_general_ci`.
    pub(crate) const DEFAULT: Self = Self(45);
    /// `utf8mb4_bin`.
    pub(crate) const UTF8MB4_BIN: Self = Self(46);
    /// Bytes without a character set.
    pub(crate) const BINARY: Self = Self(63);

    fn entry(self) -> &'static Entry {
        COLLATIONS.iter().find(|entry| entry.id == self.0).unwrap_or(&COLLATIONS[0])
    }

    /// The collation with a name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let name = match name.strip_prefix("utf8_") {
            Some(rest) => format!("utf8mb3_{rest}"),
            None => name,
        };
        COLLATIONS.iter().find(|entry| entry.name == name).map(|entry| Self(entry.id))
    }

    /// The error for the name of a character set that nobody has, or that this engine does not.
    #[cold]
    pub(crate) fn unknown_charset(name: &str) -> ServerError {
        if Self::is_known_elsewhere(name) {
            return errors::unsupported(format!("the character set {name}"));
        }
        errors::unknown_charset_name(name)
    }

    /// The error for the name of a collation that nobody has, or that this engine does not.
    #[cold]
    pub(crate) fn unknown(name: &str) -> ServerError {
        if Self::is_known_elsewhere(name) {
            return errors::unsupported(format!("the collation {name}"));
        }
        errors::unknown_collation_name(name)
    }

    /// Whether MariaDB or MySQL has a collation or character set that this engine does not.
    fn is_known_elsewhere(name: &str) -> bool {
        const FAMILIES: [&str; 43] = [
            "armscii8", "big5", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "cp932", "dec8",
            "eucjpms", "euckr", "gb2312", "gb18030", "gbk", "geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8r",
            "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "sjis", "swe7", "tis620", "ucs2",
            "ujis", "utf16", "utf16le", "utf32", "utf8mb4", "utf8mb3", "utf8", "uca1400", "ascii", "filename",
        ];
        let name = name.to_ascii_lowercase();
        let family = name.split('_').next().unwrap_or(&name);
        FAMILIES.contains(&family)
            && (name == family
                || ["_ci", "_cs", "_bin", "_nopad_bin", "_nopad_ci"].iter().any(|end| name.ends_with(end)))
    }

    /// The default collation of a character set.
    pub(crate) fn of_charset(charset: &str) -> Option<Self> {
        let charset = charset.to_ascii_lowercase();
        let charset = if charset == "utf8" { "utf8mb3" } else { &charset };
        COLLATIONS.iter().find(|entry| entry.default && entry.charset == charset).map(|entry| Self(entry.id))
    }

    /// All collations, for SHOW.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        COLLATIONS.iter().map(|entry| Self(entry.id))
    }

    /// The name.
    pub(crate) fn name(self) -> &'static str {
        self.entry().name
    }

    /// The character set's name.
    pub(crate) fn charset(self) -> &'static str {
        self.entry().charset
    }

    /// Whether the character set uses this collation if none is named.
    #[cfg(test)]
    pub(crate) fn is_default(self) -> bool {
        self.entry().default
    }

    /// Bytes of the longest character.
    pub(crate) fn char_bytes_max(self) -> u32 {
        self.entry().char_bytes_max
    }

    /// Whether characters compare by code point.
    pub(crate) fn is_binary_order(self) -> bool {
        self.0 == LATIN1_BIN || matches!(self.entry().rule, Rule::Bytes | Rule::CodePoint | Rule::CodePointNoPad)
    }

    /// Whether trailing spaces count for nothing.
    pub(crate) fn pads(self) -> bool {
        !matches!(self.entry().rule, Rule::Bytes | Rule::CodePointNoPad | Rule::Unicode900)
    }

    /// The `_bin` collation of the same character set.
    pub(crate) fn binary_order(self) -> Self {
        match self.charset() {
            "utf8mb3" => Self(83),
            "ascii" => Self(65),
            "binary" => Self::BINARY,
            "latin1" => Self(LATIN1_BIN),
            _ => Self::UTF8MB4_BIN,
        }
    }

    /// By what characters compare.
    pub(crate) fn order(self) -> Order {
        match self.entry().rule {
            Rule::Bytes => Order::Bytes,
            Rule::CodePoint | Rule::CodePointNoPad => Order::CodePoint,
            Rule::Unicode400 => Order::Unicode(uca::v400()),
            Rule::Language(place) => Order::Unicode(LANGUAGES[place].table()),
            Rule::Unicode520 => Order::Unicode(uca::v520()),
            Rule::Unicode900 => Order::Unicode(uca::v900()),
            Rule::General => Order::General,
            Rule::Latin1(weights) => Order::Latin1(weights),
        }
    }

    /// The name to write behind COLLATE in SQLite's text.
    pub(crate) fn sqlite_name(self) -> &'static str {
        match self.entry().rule {
            Rule::Bytes | Rule::CodePoint => "mbin",
            // SQLite's own order of bytes: that of UTF-8 is the order of the characters.
            Rule::CodePointNoPad => "BINARY",
            Rule::Unicode400 => "muca400",
            Rule::Language(place) => LANGUAGES[place].sqlite_name,
            Rule::Unicode520 => "muca520",
            Rule::Unicode900 => "muca900",
            Rule::General => "mci",
            Rule::Latin1(_) => self.name(),
        }
    }

    /// Appends the weights of a text as WEIGHT_STRING() shows them.
    pub(crate) fn write_weight_string(self, mut text: &[u8], out: &mut Vec<u8>) {
        let order = self.order();
        if matches!(order, Order::Bytes | Order::Unicode(_)) || self.charset() == "ascii" && self.is_binary_order() {
            return if self.charset() == "ascii" {
                out.extend_from_slice(text)
            } else {
                order.write_weights(text, out)
            };
        }
        while let Some(c) = next_char(&mut text) {
            match order {
                Order::General if self.charset() == "ascii" => out.push(weight(c) as u8),
                Order::Latin1(weights) => out.push(latin1_weight(weights, c) as u8),
                Order::General => out.extend_from_slice(&(weight(c) as u16).to_be_bytes()),
                _ if self.char_bytes_max() == 3 => out.extend_from_slice(&(c as u16).to_be_bytes()),
                _ => out.extend_from_slice(&c.to_be_bytes()[1..]),
            }
        }
    }

    /// Whether a search in a text looks at weights, whatever the number of bytes.
    pub(crate) fn finds_by_weights(self) -> bool {
        matches!(self.entry().rule, Rule::Unicode900 | Rule::Latin1(_))
    }

    /// Whether a text begins with these weights.
    pub(crate) fn begins_with(self, text: &[u8], weights: &[u8]) -> bool {
        let mut found = Vec::new();
        let mut rest = text;
        while found.len() < weights.len() {
            let before = rest;
            if next_char(&mut rest).is_none() {
                break;
            }
            self.order().write_weights(&before[..before.len() - rest.len()], &mut found);
        }
        found.starts_with(weights)
    }

    /// Compares two texts.
    pub(crate) fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self.order() {
            Order::Bytes => a.cmp(b),
            Order::CodePoint if !self.pads() => a.cmp(b),
            Order::CodePoint => compare_bin(a, b),
            Order::General => compare_general_ci(a, b),
            Order::Unicode(table) => table.compare(a, b),
            Order::Latin1(weights) => compare_latin1(weights, a, b),
        }
    }

    /// Whether texts of this character set have other bytes than those that are stored.
    pub(crate) fn is_latin1(self) -> bool {
        matches!(self.entry().rule, Rule::Latin1(_))
    }

    /// The collation that clients are told: those of texts get UTF-8, whatever the column's character set is.
    pub(crate) fn sent(self) -> Self {
        if self.is_latin1() { Self::DEFAULT } else { self }
    }
}

/// The number of `latin1_bin`.
const LATIN1_BIN: u16 = 47;

/// What decides about two characters.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Bytes,
    CodePoint,
    /// One weight for each character.
    General,
    /// Any number of weights for each.
    Unicode(&'static Table),
    /// One weight for each byte of latin1.
    Latin1(&'static latin1::Weights),
}

impl Order {
    /// Whether two characters are the same one.
    pub(crate) fn same(self, a: u32, b: u32) -> bool {
        a == b
            || match self {
                Order::Bytes | Order::CodePoint => false,
                Order::General => weight(a) == weight(b),
                Order::Unicode(table) => table.same(a, b),
                Order::Latin1(weights) => latin1_weight(weights, a) == latin1_weight(weights, b),
            }
    }

    /// Appends what a text compares by, as bytes that sort as the texts do.
    pub(crate) fn write_weights(self, mut text: &[u8], out: &mut Vec<u8>) {
        match self {
            Order::Bytes => out.extend_from_slice(text),
            Order::Unicode(table) => table.write_weights(text, out),
            Order::CodePoint | Order::General | Order::Latin1(_) => {
                while let Some(c) = next_char(&mut text) {
                    out.extend_from_slice(&self.weight(c).to_be_bytes());
                }
            }
        }
    }

    /// The weight of a character in an order that gives each character one.
    pub(crate) fn weight(self, c: u32) -> u32 {
        match self {
            Order::General => weight(c),
            Order::Latin1(weights) => latin1_weight(weights, c),
            Order::Bytes | Order::CodePoint | Order::Unicode(_) => c,
        }
    }
}

/// The weight of a character in `general_ci`, without case and accents.
pub(crate) fn weight(c: u32) -> u32 {
    if c < 0x80 {
        return if c.wrapping_sub(u32::from(b'a')) < 26 { c - 32 } else { c };
    }
    if c > 0xffff {
        return 0xfffd;
    }
    match WEIGHTS.binary_search_by_key(&(c as u16), |(code, _)| *code) {
        Ok(index) => u32::from(WEIGHTS[index].1),
        Err(_) => c,
    }
}

/// The weight of a character in a collation of latin1; those that it lacks come behind all others.
fn latin1_weight(weights: &latin1::Weights, c: u32) -> u32 {
    latin1::byte_of(c).map_or(c + 0x100, |byte| u32::from(weights[usize::from(byte)]))
}

pub(crate) fn compare_latin1(weights: &latin1::Weights, mut a: &[u8], mut b: &[u8]) -> Ordering {
    let space = latin1_weight(weights, u32::from(b' '));
    loop {
        let (x, y) = (next_char(&mut a), next_char(&mut b));
        if x.is_none() && y.is_none() {
            return Ordering::Equal;
        }
        let of = |c: Option<u32>| c.map_or(space, |c| latin1_weight(weights, c));
        let order = of(x).cmp(&of(y));
        if order.is_ne() {
            return order;
        }
    }
}

/// Takes the first character off; a byte that is not UTF-8 counts as itself above all characters.
#[inline]
pub(crate) fn next_char(text: &mut &[u8]) -> Option<u32> {
    let (&first, rest) = text.split_first()?;
    if first < 0x80 {
        *text = rest;
        return Some(u32::from(first));
    }
    let len = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if len > 1
        && let Some(head) = text.get(..len)
        && let Ok(valid) = std::str::from_utf8(head)
    {
        *text = &text[len..];
        return valid.chars().next().map(u32::from);
    }
    *text = rest;
    Some(0x11_0000 + u32::from(first))
}

fn trim_spaces(text: &[u8]) -> &[u8] {
    let len = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &text[..len]
}

/// What is left of one side when the other has ended compares with spaces.
fn compare_tail(rest: &[u8]) -> Ordering {
    match trim_spaces(rest).first() {
        None => Ordering::Equal,
        Some(_) => rest.iter().find(|byte| **byte != b' ').map_or(Ordering::Equal, |byte| byte.cmp(&b' ')),
    }
}

pub(crate) fn compare_bin(a: &[u8], b: &[u8]) -> Ordering {
    let common = a.len().min(b.len());
    a[..common]
        .cmp(&b[..common])
        .then_with(|| if a.len() > common { compare_tail(&a[common..]) } else { compare_tail(&b[common..]).reverse() })
}

pub(crate) fn compare_general_ci(mut a: &[u8], mut b: &[u8]) -> Ordering {
    loop {
        match (a.first(), b.first()) {
            (None, _) => return compare_tail(b).reverse(),
            (_, None) => return compare_tail(a),
            (Some(&x), Some(&y)) if x < 0x80 && y < 0x80 => {
                if x != y {
                    let order = weight(u32::from(x)).cmp(&weight(u32::from(y)));
                    if order.is_ne() {
                        return order;
                    }
                }
                a = &a[1..];
                b = &b[1..];
            }
            _ => {
                let (Some(x), Some(y)) = (next_char(&mut a), next_char(&mut b)) else { return Ordering::Equal };
                let order = weight(x).cmp(&weight(y));
                if order.is_ne() {
                    return order;
                }
            }
        }
    }
}

/// The collation that a character set and a collation name together.
///
/// # Errors
/// 1115, 1273; 1253 if they do not fit.
pub(crate) fn collation_of(
    charset: Option<&str>,
    collation: Option<&str>,
    otherwise: Collation,
) -> Result<Collation, ServerError> {
    let by_charset =
        charset.map(|name| Collation::of_charset(name).ok_or_else(|| Collation::unknown_charset(name))).transpose()?;
    match collation {
        Some(name) => {
            let found = Collation::by_name(name).ok_or_else(|| Collation::unknown(name))?;
            if let Some(by_charset) = by_charset.filter(|by_charset| by_charset.charset() != found.charset()) {
                return Err(errors::collation_charset(name, by_charset.charset()));
            }
            Ok(found)
        }
        None => Ok(by_charset.unwrap_or(otherwise)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(a: &str, b: &str, ci: Ordering, bin: Ordering) {
        assert_eq!(Collation::DEFAULT.compare(a.as_bytes(), b.as_bytes()), ci, "{a:?} {b:?} ci");
        assert_eq!(Collation::UTF8MB4_BIN.compare(a.as_bytes(), b.as_bytes()), bin, "{a:?} {b:?} bin");
        assert_eq!(Collation::DEFAULT.compare(b.as_bytes(), a.as_bytes()), ci.reverse(), "{b:?} {a:?} ci");
    }

    #[test]
    fn orders() {
        use Ordering::*;
        check("a", "A", Equal, Greater);
        check("a ", "a", Equal, Equal);
        check("a\t", "a", Less, Less);
        check("é", "E", Equal, Greater);
        check("ß", "s", Equal, Greater);
        check("a", "b", Less, Less);
        check("Z", "_", Less, Less);
        check("z", "_", Less, Greater);
        check("", "  ", Equal, Equal);
        check("😀", "🎉", Equal, Greater);
        check("ab", "a b", Greater, Greater);
    }

    /// What MariaDB answers.
    #[test]
    fn collations_of_languages_have_the_order_of_theirs() {
        let mut count = 0;
        for collation in Collation::all() {
            if let Some(language) = collation.sqlite_name().strip_prefix("muca400_") {
                assert_eq!(collation.name(), format!("{}_{language}_ci", collation.charset()));
                count += 1;
            }
        }
        assert_eq!(count, 2 * LANGUAGES.len(), "utf8mb3 and utf8mb4");
    }

    #[test]
    fn orders_of_latin1() {
        let collation = |name| Collation::by_name(name).expect("a collation");
        for (name, a, b, expected) in [
            ("latin1_swedish_ci", "é", "E", Ordering::Equal),
            ("latin1_swedish_ci", "ü", "y", Ordering::Equal),
            ("latin1_swedish_ci", "ä", "z", Ordering::Greater),
            ("latin1_swedish_ci", "€", "z", Ordering::Greater),
            ("latin1_swedish_ci", "a ", "a", Ordering::Equal),
            ("latin1_general_ci", "é", "E", Ordering::Greater),
            ("latin1_general_ci", "É", "é", Ordering::Equal),
            ("latin1_general_cs", "É", "é", Ordering::Less),
            ("latin1_german1_ci", "ä", "A", Ordering::Equal),
            ("latin1_bin", "€", "é", Ordering::Less),
            ("latin1_bin", "a", "A", Ordering::Greater),
        ] {
            assert_eq!(collation(name).compare(a.as_bytes(), b.as_bytes()), expected, "{a} {b} {name}");
        }
    }

    #[test]
    fn weights_ascend() {
        assert!(WEIGHTS.is_sorted_by(|a, b| a.0 < b.0));
    }
}
