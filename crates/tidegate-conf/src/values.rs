//! Typed values in arguments, as nginx reads them: sizes, offsets, times, flags, numbers.

use std::time::Duration;

use bstr::{BStr, BString};

use crate::ast::Arg;
use crate::diagnostic::Diagnostic;

/// Why an argument is not a value of the wanted type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A size, an offset or a time has another form or is too large.
    #[error("invalid value")]
    Value,
    /// A number has another form or is too large.
    #[error("invalid number")]
    Number,
    /// A flag is neither `on` nor `off`.
    #[error("it must be \"on\" or \"off\"")]
    Flag,
    /// A word is none of those allowed.
    #[error("invalid value \"{value}\"")]
    Word {
        /// The word.
        value: BString,
        /// The words that are allowed.
        known: Vec<&'static str>,
    },
    /// A number is below the least allowed, and there is no greatest.
    #[error("value must be equal to or greater than {0}")]
    TooSmall(u64),
    /// A number lies outside of bounds.
    #[error("value must be between {0} and {1}")]
    OutOfBounds(u64, u64),
}

impl ValueError {
    /// The error as nginx words it for an argument of a directive.
    #[must_use]
    pub fn diagnostic(&self, directive: &(impl AsRef<[u8]> + ?Sized), arg: &Arg) -> Diagnostic {
        match self {
            ValueError::Value => {
                let mut diagnostic = Diagnostic::invalid_value(directive, arg.span);
                diagnostic.hint = nearest_value(arg.value.as_ref());
                diagnostic
            }
            ValueError::Number => Diagnostic::invalid_number(directive, arg.span),
            ValueError::Flag => Diagnostic::invalid_flag(directive, &arg.value, arg.span),
            ValueError::Word { value, known } => Diagnostic::unknown_value(value, arg.span, known.iter().copied()),
            ValueError::TooSmall(_) | ValueError::OutOfBounds(..) => {
                Diagnostic::new(crate::Level::Emerg, arg.span, self.to_string())
            }
        }
    }
}

/// What somebody who wrote a unit as other programs have it may have meant: `10MB` is `10m`, `30sec` is `30s`.
fn nearest_value(value: &BStr) -> Option<String> {
    const UNITS: [(&str, &[&str]); 8] = [
        ("k", &["kb", "kib"]),
        ("m", &["mb", "mib"]),
        ("g", &["gb", "gib"]),
        ("", &["b", "byte", "bytes"]),
        ("ms", &["msec", "millis", "milliseconds"]),
        ("s", &["sec", "secs", "second", "seconds"]),
        ("m", &["min", "mins", "minute", "minutes"]),
        ("h", &["hr", "hrs", "hour", "hours"]),
    ];
    let text = std::str::from_utf8(value).ok()?;
    let digits_end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits_end);
    let unit = unit.to_ascii_lowercase();
    let (ours, _) = UNITS.iter().find(|(_, others)| others.contains(&unit.as_str()))?;
    (!number.is_empty()).then(|| format!("did you mean \"{number}{ours}\"?"))
}

/// nginx counts in signed 64-bit numbers.
const NUMBER_MAX: u64 = i64::MAX as u64;

/// Reads a whole number of at least 0.
///
/// # Errors
/// [`ValueError::Number`] for anything but digits, and above 2⁶³ - 1.
pub fn integer(value: &BStr) -> Result<u64, ValueError> {
    digits(value).ok_or(ValueError::Number)
}

/// Reads a whole number of at least `min`, and of at most `max` if there is one.
///
/// # Errors
/// As [`integer`], and [`ValueError::TooSmall`] or [`ValueError::OutOfBounds`].
pub fn integer_in(value: &BStr, min: u64, max: Option<u64>) -> Result<u64, ValueError> {
    let number = integer(value)?;
    match max {
        None if number < min => Err(ValueError::TooSmall(min)),
        Some(max) if number < min || number > max => Err(ValueError::OutOfBounds(min, max)),
        _ => Ok(number),
    }
}

/// Reads a number with up to `places` digits behind the point, as a multiple of the last place: `1.5` with 3 places is
/// 1500.
///
/// # Errors
/// [`ValueError::Number`] for anything else.
///
/// Source: nginx's `ngx_atofp`.
pub fn fixed_point(value: &BStr, places: usize) -> Result<u64, ValueError> {
    let value: &[u8] = value;
    let (whole, fraction) = match memchr::memchr(b'.', value) {
        Some(point) => (&value[..point], &value[point + 1..]),
        None => (value, &b""[..]),
    };
    if fraction.len() > places || (whole.is_empty() && fraction.is_empty()) {
        return Err(ValueError::Number);
    }
    let mut all = [whole, fraction].concat();
    all.resize(whole.len() + places, b'0');
    if all.is_empty() { Err(ValueError::Number) } else { digits(&all).ok_or(ValueError::Number) }
}

/// Reads a number of bytes with `k` or `m` for 1024 and 1024², in either case.
///
/// # Errors
/// [`ValueError::Value`] for anything else, and above 2⁶³ - 1.
///
/// Source: nginx's `ngx_parse_size`.
pub fn size(value: &BStr) -> Result<u64, ValueError> {
    match value.last() {
        Some(b'g' | b'G') => Err(ValueError::Value),
        _ => offset(value),
    }
}

/// Reads a number of bytes with `k`, `m` or `g` for 1024, 1024² and 1024³, in either case.
///
/// # Errors
/// [`ValueError::Value`] for anything else, and above 2⁶³ - 1.
///
/// Source: nginx's `ngx_parse_offset`.
pub fn offset(value: &BStr) -> Result<u64, ValueError> {
    let value: &[u8] = value;
    let (number, shift) = match value.split_last() {
        Some((b'k' | b'K', number)) => (number, 10),
        Some((b'm' | b'M', number)) => (number, 20),
        Some((b'g' | b'G', number)) => (number, 30),
        _ => (value, 0),
    };
    match digits(number) {
        Some(number) if number <= NUMBER_MAX >> shift => Ok(number << shift),
        _ => Err(ValueError::Value),
    }
}

/// Reads `on` or `off`, in either case.
///
/// # Errors
/// [`ValueError::Flag`] for anything else.
pub fn flag(value: &BStr) -> Result<bool, ValueError> {
    if value.eq_ignore_ascii_case(b"on") {
        Ok(true)
    } else if value.eq_ignore_ascii_case(b"off") {
        Ok(false)
    } else {
        Err(ValueError::Flag)
    }
}

/// Reads one of the words in the table, in either case, and gives what stands beside it.
///
/// # Errors
/// [`ValueError::Word`] for other words.
pub fn word<T: Copy>(value: &BStr, table: &[(&'static str, T)]) -> Result<T, ValueError> {
    match table.iter().find(|(known, _)| value.eq_ignore_ascii_case(known.as_bytes())) {
        Some(&(_, meaning)) => Ok(meaning),
        None => {
            let known = table.iter().map(|&(known, _)| known).collect();
            Err(ValueError::Word { value: value.to_owned(), known })
        }
    }
}

/// Units of time from long to short, in milliseconds. They must appear in this order.
const UNITS: [(&str, u64); 8] = [
    ("y", 365 * DAY_MS),
    ("M", 30 * DAY_MS),
    ("w", 7 * DAY_MS),
    ("d", DAY_MS),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];
const DAY_MS: u64 = 86_400_000;

/// Position of the seconds in [`UNITS`].
const SECONDS: usize = 6;

/// Reads a time such as `1h 30m`, `500ms` or `10` (seconds), from weeks down to milliseconds.
///
/// # Errors
/// [`ValueError::Value`] for anything else. As in nginx, `y` and `M` are not allowed in these times: `30M` is not half
/// an hour.
///
/// Source: nginx's `ngx_parse_time` for directives that count in milliseconds.
pub fn time(value: &BStr) -> Result<Duration, ValueError> {
    parse_time(value, 2..8).map(Duration::from_millis)
}

/// Reads a time such as `1y 6M`, `1h 30m` or `10` (seconds), from years down to seconds.
///
/// # Errors
/// [`ValueError::Value`] for anything else.
///
/// Source: nginx's `ngx_parse_time` for directives that count in seconds.
pub fn time_seconds(value: &BStr) -> Result<Duration, ValueError> {
    parse_time(value, 0..7).map(|ms| Duration::from_secs(ms / 1000))
}

/// Milliseconds; only the given range of [`UNITS`] is allowed.
fn parse_time(value: &BStr, allowed: std::ops::Range<usize>) -> Result<u64, ValueError> {
    let mut rest: &[u8] = value;
    let mut next_unit = allowed.start;
    let mut total: u64 = 0;
    let mut seen_number = false;
    while !rest.is_empty() {
        let digit_count = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (number, after) = rest.split_at(digit_count);
        let number = if number.is_empty() { 0 } else { digits(number).ok_or(ValueError::Value)? };
        seen_number |= digit_count > 0;
        let (unit, after) = match time_unit(after).ok_or(ValueError::Value)? {
            (Some(unit), after) if unit >= next_unit && allowed.contains(&unit) => {
                next_unit = unit + 1;
                (unit, after)
            }
            // A number without unit counts seconds. It may end any time, but only another such may follow it.
            (None, after) if after.is_empty() || next_unit <= SECONDS => {
                next_unit = UNITS.len();
                (SECONDS, after)
            }
            _ => return Err(ValueError::Value),
        };
        let ms = number.checked_mul(UNITS[unit].1).ok_or(ValueError::Value)?;
        total = total.checked_add(ms).filter(|&total| total <= NUMBER_MAX).ok_or(ValueError::Value)?;
        rest = &after[after.iter().take_while(|&&b| b == b' ').count()..];
    }
    if seen_number { Ok(total) } else { Err(ValueError::Value) }
}

/// The position of the unit at the start of the text, or `None` for a number that ends here; and what follows.
fn time_unit(text: &[u8]) -> Option<(Option<usize>, &[u8])> {
    let Some((&letter, rest)) = text.split_first() else { return Some((None, text)) };
    if letter == b' ' {
        return Some((None, text));
    }
    if let Some(rest) = text.strip_prefix(b"ms") {
        return Some((Some(UNITS.len() - 1), rest));
    }
    let unit = UNITS.iter().position(|(name, _)| name.as_bytes() == [letter])?;
    Some((Some(unit), rest))
}

fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit).filter(|&number| number <= NUMBER_MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    #[test]
    fn integers() {
        for (text, expected) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("9223372036854775807", Some(NUMBER_MAX)),
            ("9223372036854775808", None),
            ("99999999999999999999", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1k", None),
            (" 1", None),
        ] {
            assert_eq!(integer(text.into()).ok(), expected, "{text}");
        }
        assert_eq!(integer_in("5".into(), 1, Some(9)), Ok(5));
        assert_eq!(integer_in("0".into(), 1, Some(9)), Err(ValueError::OutOfBounds(1, 9)));
        assert_eq!(integer_in("10".into(), 1, Some(9)), Err(ValueError::OutOfBounds(1, 9)));
        assert_eq!(integer_in("0".into(), 1, None), Err(ValueError::TooSmall(1)));
        assert_eq!(integer_in("x".into(), 1, None), Err(ValueError::Number));
    }

    #[test]
    fn fixed_points() {
        for (text, places, expected) in [
            ("1.5", 3, Some(1500)),
            ("1", 2, Some(100)),
            (".5", 2, Some(50)),
            ("1.", 2, Some(100)),
            ("12.345", 3, Some(12345)),
            ("12.345", 2, None),
            ("", 2, None),
            ("", 0, None),
            (".", 2, None),
            ("1.2.3", 4, None),
            ("-1", 2, None),
            ("99999999999999999999", 2, None),
        ] {
            assert_eq!(fixed_point(text.into(), places).ok(), expected, "{text}");
        }
    }

    #[test]
    fn sizes_and_offsets() {
        for (text, as_size, as_offset) in [
            ("0", Some(0), Some(0)),
            ("512", Some(512), Some(512)),
            ("8k", Some(8192), Some(8192)),
            ("8K", Some(8192), Some(8192)),
            ("1m", Some(1 << 20), Some(1 << 20)),
            ("1M", Some(1 << 20), Some(1 << 20)),
            ("2g", None, Some(2 << 30)),
            ("2G", None, Some(2 << 30)),
            ("9007199254740991k", Some(9_007_199_254_740_991 << 10), Some(9_007_199_254_740_991 << 10)),
            ("9007199254740992k", None, None),
            ("", None, None),
            ("k", None, None),
            ("g", None, None),
            ("1kk", None, None),
            ("1 k", None, None),
            ("-1", None, None),
            ("1.5m", None, None),
            ("1t", None, None),
        ] {
            assert_eq!(size(text.into()).ok(), as_size, "size {text}");
            assert_eq!(offset(text.into()).ok(), as_offset, "offset {text}");
        }
    }

    #[test]
    fn flags_and_words() {
        for (text, expected) in [
            ("on", Ok(true)),
            ("ON", Ok(true)),
            ("off", Ok(false)),
            ("Off", Ok(false)),
            ("yes", Err(ValueError::Flag)),
            ("", Err(ValueError::Flag)),
        ] {
            assert_eq!(flag(text.into()), expected, "{text}");
        }
        let table = [("always", 1), ("never", 2)];
        assert_eq!(word("Never".into(), &table), Ok(2));
        assert!(
            matches!(word("nevr".into(), &table), Err(ValueError::Word { known, .. }) if known == ["always", "never"])
        );
    }

    #[test]
    fn times() {
        for (text, in_ms, in_seconds) in [
            ("0", Some(0), Some(0)),
            ("60", Some(60_000), Some(60)),
            ("10s", Some(10_000), Some(10)),
            ("500ms", Some(500), None),
            ("1s500ms", Some(1500), None),
            ("2m", Some(120_000), Some(120)),
            ("1h 30m", Some(5_400_000), Some(5400)),
            ("1h30m", Some(5_400_000), Some(5400)),
            ("1d", Some(DAY * 1000), Some(DAY)),
            ("1w 2d", Some(9 * DAY * 1000), Some(9 * DAY)),
            ("1y", None, Some(365 * DAY)),
            ("6M", None, Some(180 * DAY)),
            ("1y 6M 1w 1d 1h 1m 1s", None, Some((365 + 180 + 7 + 1) * DAY + 3661)),
            ("1h 30", Some(3_630_000), Some(3630)),
            ("1 5", Some(6000), Some(6)),
            ("1 5 6", None, None),
            ("1 5s", None, None),
            ("1s ", Some(1000), Some(1)),
            ("1ms 5", Some(5001), None),
            ("30m 1h", None, None),
            ("1s 1s", None, None),
            ("1x", None, None),
            ("", None, None),
            ("s", None, None),
            (" ", None, None),
            ("-1", None, None),
            ("1.5s", None, None),
            ("99999999999999999999", None, None),
            ("9223372036854775807w", None, None),
        ] {
            assert_eq!(time(text.into()).ok(), in_ms.map(Duration::from_millis), "time {text}");
            assert_eq!(time_seconds(text.into()).ok(), in_seconds.map(Duration::from_secs), "time_seconds {text}");
        }
    }
}
