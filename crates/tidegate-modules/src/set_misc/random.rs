//! Numbers and text by chance, and numbers in turn.

use std::sync::atomic::{AtomicI64, Ordering};

use bstr::{BStr, ByteSlice};
use tidegate_conf::values;
use tidegate_core::request::Request;
use tidegate_net::log::Level;

/// Letters and digits.
pub(super) const ALPHANUM: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Small letters.
pub(super) const LCALPHA: &[u8] = b"abcdefghijklmnopqrstuvwxyz";

/// The longest text.
const LENGTH_MAX: i64 = 64;

fn parse(text: &[u8]) -> Option<i64> {
    values::integer(text.as_bstr()).ok().and_then(|number| i64::try_from(number).ok())
}

/// Reads the limits of a range, in order; says what is wrong with them.
fn limits(req: &Request, directive: &str, from: &[u8], to: &[u8]) -> Option<(i64, i64)> {
    let read = |name: &str, text: &[u8]| {
        let number = parse(text);
        if number.is_none() {
            log_bad(req, format_args!("{directive}: bad \"{name}\" argument"), text, directive == "set_rotate");
        }
        number
    };
    let (from, to) = (read("from", from)?, read("to", to)?);
    Some((from.min(to), from.max(to)))
}

fn log_bad(req: &Request, what: std::fmt::Arguments<'_>, text: &[u8], rotate: bool) {
    let text = BStr::new(text);
    if rotate {
        req.log(Level::Error, format_args!("{what} value: \"{text}\""));
    } else {
        req.log(Level::Error, format_args!("{what}: {text}"));
    }
}

/// A number between two, which are possible themselves.
pub(super) fn number(req: &Request, from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let (from, to) = limits(req, "set_random", from, to)?;
    let mut bytes = [0; 8];
    fill(Some(req), &mut bytes)?;
    // No limit is negative, so the width fits; so does the sum.
    let width = to.abs_diff(from) + 1;
    let number = from.unsigned_abs() + u64::from_ne_bytes(bytes) % width;
    Some(itoa::Buffer::new().format(number).into())
}

fn fill(req: Option<&Request>, bytes: &mut [u8]) -> Option<()> {
    getrandom::fill(bytes)
        .inspect_err(|error| {
            if let Some(req) = req {
                req.log(Level::Error, format_args!("no random bytes from the system: {error}"));
            }
        })
        .ok()
}

/// Text of `length` bytes of `alphabet`, each as probable as the others.
pub(super) fn text(req: Option<&Request>, length: &[u8], alphabet: &[u8]) -> Option<Vec<u8>> {
    let Some(length @ 1..=LENGTH_MAX) = parse(length) else {
        if let Some(req) = req {
            req.log(Level::Error, format_args!("set_random: bad \"length\" argument: {}", BStr::new(length)));
        }
        return None;
    };
    let mut out = Vec::with_capacity(length as usize);
    loop {
        let mut bytes = [0; 2 * LENGTH_MAX as usize];
        fill(req, &mut bytes)?;
        let left = length as usize - out.len();
        out.extend(bytes.iter().filter_map(|&byte| pick(byte, alphabet)).take(left));
        if out.len() == length as usize {
            return Some(out);
        }
    }
}

/// The letter that a byte stands for; none for bytes that would make some more probable than others.
fn pick(byte: u8, alphabet: &[u8]) -> Option<u8> {
    let byte = usize::from(byte);
    let fair = 256 - 256 % alphabet.len();
    (byte < fair).then(|| alphabet[byte % alphabet.len()])
}

/// What was given last in a range; nothing at first.
#[derive(Debug)]
pub(super) struct Rotation(AtomicI64);

const NOTHING: i64 = i64::MIN;

impl Default for Rotation {
    fn default() -> Self {
        Rotation(AtomicI64::new(NOTHING))
    }
}

impl Rotation {
    /// The number of the range that comes after `current`, or after the one given last.
    fn next(&self, current: Option<i64>, from: i64, to: i64) -> i64 {
        let after = |last: i64| {
            let last = current.unwrap_or(if last == NOTHING { from - 1 } else { last });
            if (from..to).contains(&last) || last == from - 1 { last + 1 } else { from }
        };
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
        after(last.unwrap_or(NOTHING))
    }
}

/// The next number of a range.
pub(super) fn rotate(req: &Request, rotation: &Rotation, current: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let (from, to) = limits(req, "set_rotate", from, to)?;
    let number = parse(current);
    if number.is_none() && !current.is_empty() {
        req.log(Level::Error, format_args!("set_rotate: bad current value: \"{}\"", BStr::new(current)));
    }
    Some(itoa::Buffer::new().format(rotation.next(number, from, to)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotates() {
        let rotation = Rotation::default();
        let turns: Vec<i64> = (0..5).map(|_| rotation.next(None, 0, 2)).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1]);
        for (current, from, to, expected) in [
            (2, 0, 3, 3),
            (3, 0, 3, 0),
            (9, 0, 3, 0),
            (1, 2, 3, 2),
            (0, 2, 3, 2),
            (5, 5, 5, 5),
            (i64::MAX, 0, i64::MAX, 0),
        ] {
            assert_eq!(rotation.next(Some(current), from, to), expected, "{current} in {from}..={to}");
        }
    }

    #[test]
    fn picks_fairly() {
        for alphabet in [ALPHANUM, LCALPHA] {
            let mut counts = [0; 256];
            (0..=255).filter_map(|byte| pick(byte, alphabet)).for_each(|letter| counts[usize::from(letter)] += 1);
            let expected = 256 / alphabet.len();
            assert!(alphabet.iter().all(|&letter| counts[usize::from(letter)] == expected));
            assert_eq!(counts.iter().sum::<usize>(), expected * alphabet.len());
        }
    }
}
