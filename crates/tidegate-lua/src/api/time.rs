//! Times: `ngx.time`, `ngx.now`, `ngx.localtime`, `ngx.http_time` and their like.
//!
//! The clock is the worker's, read once for each event; `ngx.update_time` reads it again.

use tidegate_http::date::{http_date, parse_http_date, write_cookie_date};
use tidegate_net::clock;

use super::Family;
use super::compiled::ffi_functions;

pub(crate) static FAMILY: Family = Family {
    name: "time",
    cdef: "",
    ffi: ffi_functions! {
        now_ms as "now_ms": () -> f64,
        monotonic_ms as "monotonic_ms": () -> f64,
        update as "update": (),
        local as "local_time": (TextOut),
        utc as "utc_time": (TextOut),
        http as "http_time": (f64, TextOut),
        cookie as "cookie_time": (f64, TextOut),
        parse as "parse": (Bytes) -> f64,
    },
    functions: &[],
};

fn now_ms() -> f64 {
    clock::now_ms() as f64
}

/// Milliseconds since the machine started.
fn monotonic_ms() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in the struct, which outlives it; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec * 1000 + time.tv_nsec / 1_000_000) as f64
}

fn update() {
    clock::update();
}

/// `2026-11-20 09:30:00` in local time.
fn local(out: &mut Vec<u8>) {
    let time = clock::error_log_time();
    out.extend(time.iter().map(|&byte| if byte == b'/' { b'-' } else { byte }));
}

/// The same in UTC.
fn utc(out: &mut Vec<u8>) {
    out.extend_from_slice(utc_text(clock::now_unix()).as_bytes());
}

fn utc_text(second: i64) -> String {
    let (days, second) = (second.div_euclid(86400), second.rem_euclid(86400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day of a day counted from 1970-01-01.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A second for a head. The cast saturates.
fn http(second: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&http_date(second as i64));
}

/// A second for a cookie. The cast saturates.
fn cookie(second: f64, out: &mut Vec<u8>) {
    write_cookie_date(second as i64, out);
}

/// Seconds since 1970, or NaN for what is no date.
fn parse(text: &[u8]) -> f64 {
    parse_http_date(text).map_or(f64::NAN, |second| second as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_texts() {
        for (second, expected) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_795_167_000, "2026-11-20 09:30:00"),
            (-1, "1969-12-31 23:59:59"),
        ] {
            assert_eq!(utc_text(second), expected);
        }
    }
}
