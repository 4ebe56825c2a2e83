//! Numbers, times and rates as people type and read them.

use std::time::Duration;

/// Reads a count: digits, and a unit of thousands as wrk has them (`10k`, `1.5M`, `2G`).
///
/// # Errors
/// A sentence for the user.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        Some((at, 'g' | 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    match decimal(number).map(|number| number * factor) {
        Some(number) if (1.0..=1e15).contains(&number) && number.fract() == 0.0 => Ok(number as u64),
        _ => Err("expected a number such as 100, 10k or 1M".to_owned()),
    }
}

/// Reads a time: seconds without a unit, else with `us`, `ms`, `s`, `m` or `h`.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 5] = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1.0));
    match decimal(number).map(|number| number * factor) {
        // A year is more than anybody waits, and all sums of times stay far from their limits.
        Some(seconds) if seconds <= 365.0 * 86400.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a time such as 10s, 500ms, 2m or 1h".to_owned()),
    }
}

/// Reads a time that is not 0, for which nothing could happen.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    time(text).and_then(|span| if span.is_zero() { Err("expected a time longer than 0".to_owned()) } else { Ok(span) })
}

/// Reads a rate: requests a second, with the units of [`count`]; it may be below one.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    match decimal(text) {
        Some(number) if (1e-4..1e9).contains(&number) => Ok(number),
        None => count(text).map(|number| number as f64),
        Some(_) => Err("expected requests a second, such as 1000, 10k or 0.5".to_owned()),
    }
}

/// Digits with at most one point among them: what `f64` reads, without signs, exponents and names.
fn decimal(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_plain.then(|| text.parse().ok()).flatten()
}

/// Microseconds with three digits that count.
pub(crate) fn show_micros(micros: f64) -> String {
    match micros {
        _ if micros < 1e3 => format!("{micros:.0} us"),
        _ if micros < 1e6 => format!("{} ms", digits(micros / 1e3)),
        _ => format!("{} s", digits(micros / 1e6)),
    }
}

/// Bytes with three digits that count.
pub(crate) fn show_bytes(bytes: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")];
    match UNITS.iter().find(|(factor, _)| bytes >= *factor) {
        Some((factor, unit)) => format!("{} {unit}", digits(bytes / factor)),
        None => format!("{bytes:.0} B"),
    }
}

fn digits(value: f64) -> String {
    let places = match value {
        _ if value < 9.995 => 2,
        _ if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read() {
        assert_eq!(count("12"), Ok(12));
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(count("1.5M"), Ok(1_500_000));
        for bad in ["", "0", "-1", "1e3", "inf", "nan", "1.5", "k", "9999999G"] {
            assert!(count(bad).is_err(), "{bad}");
        }
        assert_eq!(time("10"), Ok(Duration::from_secs(10)));
        assert_eq!(time("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(time("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(time("20us"), Ok(Duration::from_micros(20)));
        for bad in ["", "s", "-1s", "1d", "10000h", "1 s", "inf"] {
            assert!(time(bad).is_err(), "{bad}");
        }
        assert_eq!((time("0"), span("1us")), (Ok(Duration::ZERO), Ok(Duration::from_micros(1))));
        for bad in ["0", "0ms", "0.0000000001", "-1"] {
            assert!(span(bad).is_err(), "{bad}");
        }
        assert_eq!(rate("0.5"), Ok(0.5));
        assert_eq!(rate("10k"), Ok(10_000.0));
        for bad in ["0", "", "-1", "1e9", "99999999999"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_shown() {
        assert_eq!(show_micros(7.0), "7 us");
        assert_eq!(show_micros(1234.0), "1.23 ms");
        assert_eq!(show_micros(99_960.0), "100 ms");
        assert_eq!(show_micros(12_345_678.0), "12.3 s");
        assert_eq!(show_bytes(14.0), "14 B");
        assert_eq!(show_bytes(2_345_678.0), "2.35 MB");
    }
}
