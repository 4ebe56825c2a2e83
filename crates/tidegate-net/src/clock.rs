//! Cached time: one clock reading per turn of the event loop, dates rendered at most once a second.
//!
//! Each thread has a clock of its own. A worker calls [`update`] when its thread wakes; everything that runs until the
//! next wake sees the same instant, which is what nginx promises (`ngx.now()` stands still until `ngx.update_time()`).
//! Two clocks are read: the wall's ([`now_ms`]), for people, logs and headers, and one that only goes forward
//! ([`steady_ms`]), for whatever waits or measures. Setting the time of the machine ends no connection.
//! The texts are rendered when somebody asks for them and the second has changed, so an idle worker renders nothing.
//!
//! What this file does not know: who may refresh when. A thread that never calls [`update`] would see time stand
//! still, so threads without an event loop use [`update`] before each look.

use std::cell::{Cell, RefCell};
use std::ops::Deref;

use chrono::{DateTime, Datelike, Local, TimeZone, Timelike, Utc};
use nix::time::{ClockId, clock_gettime};

/// A rendered time: a few bytes on the stack, copied out of the clock so that nothing stays borrowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TimeText<const N: usize>([u8; N]);

/// `Fri, 20 Nov 2026 09:30:00 GMT`, the date of HTTP headers (RFC 9110, IMF-fixdate).
pub type HttpDate = TimeText<29>;
/// `2026/11/20 09:30:00` in local time, as error-log lines begin.
pub type ErrorLogTime = TimeText<19>;
/// `20/Nov/2026:09:30:00 +0000` in local time, `$time_local`.
pub type LocalTime = TimeText<26>;
/// `2026-11-20T09:30:00+00:00` in local time, `$time_iso8601`.
pub type Iso8601Time = TimeText<25>;
/// `Nov 20 09:30:00` in local time, as syslog datagrams begin.
pub type SyslogTime = TimeText<15>;

impl<const N: usize> TimeText<N> {
    const BLANK: Self = Self([b' '; N]);

    /// The text; it is ASCII.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl<const N: usize> Deref for TimeText<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const N: usize> std::fmt::Debug for TimeText<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<const N: usize> std::fmt::Display for TimeText<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The texts of one second.
#[derive(Clone, Copy)]
struct Texts {
    /// Unix second that the texts show; `i64::MIN` before the first rendering.
    second: i64,
    http: HttpDate,
    error_log: ErrorLogTime,
    local: LocalTime,
    iso8601: Iso8601Time,
    syslog: SyslogTime,
}

impl Texts {
    const NEVER: Self = Self {
        second: i64::MIN,
        http: TimeText::BLANK,
        error_log: TimeText::BLANK,
        local: TimeText::BLANK,
        iso8601: TimeText::BLANK,
        syslog: TimeText::BLANK,
    };

    fn render(second: i64) -> Self {
        let local = match Local.timestamp_opt(second, 0) {
            chrono::LocalResult::Single(time) | chrono::LocalResult::Ambiguous(time, _) => time.fixed_offset(),
            chrono::LocalResult::None => DateTime::<Utc>::UNIX_EPOCH.fixed_offset(),
        };
        Self {
            second,
            http: http_date_of(second),
            error_log: error_log_text(&local),
            local: local_text(&local),
            iso8601: iso8601_text(&local),
            syslog: syslog_text(&local),
        }
    }
}

thread_local! {
    /// Milliseconds since 1970; 0 until the thread's first look.
    static NOW_MS: Cell<u64> = const { Cell::new(0) };
    /// What [`steady_ms`] shows; 0 until the thread's first look.
    static STEADY_MS: Cell<u64> = const { Cell::new(0) };
    /// Whether `NOW_MS` is what [`hold`] said.
    static HELD: Cell<bool> = const { Cell::new(false) };
    static TEXTS: RefCell<Texts> = const { RefCell::new(Texts::NEVER) };
}

/// Reads the system's clocks for this thread: about 20 ns, no system call. The wall's is only read when the other one
/// has moved by a millisecond.
pub fn update() {
    let steady_ms = milliseconds(ClockId::CLOCK_MONOTONIC).max(1);
    if STEADY_MS.replace(steady_ms) != steady_ms || HELD.replace(false) {
        NOW_MS.set(milliseconds(ClockId::CLOCK_REALTIME));
    }
}

/// What a clock of the system shows; 0 before its beginning.
fn milliseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("Linux has this clock");
    let ms = time.tv_sec().saturating_mul(1000).saturating_add(time.tv_nsec() / 1_000_000);
    u64::try_from(ms).unwrap_or(0)
}

/// Makes this thread's wall clock show `ms` milliseconds since 1970 until the next [`update`].
pub fn hold(ms: u64) {
    HELD.set(true);
    NOW_MS.set(ms);
}

/// Milliseconds of a clock that nobody can set, as of the last [`update`] on this thread: for time limits and
/// durations. Only differences mean something, between any threads of the process; it is never 0.
pub fn steady_ms() -> u64 {
    match STEADY_MS.get() {
        0 => {
            update();
            STEADY_MS.get()
        }
        ms => ms,
    }
}

/// Milliseconds since 1970, as of the last [`update`] on this thread. Somebody may set this clock back or forward.
pub fn now_ms() -> u64 {
    match NOW_MS.get() {
        0 => {
            update();
            NOW_MS.get()
        }
        ms => ms,
    }
}

/// Seconds since 1970, as of the last [`update`] on this thread.
pub fn now_unix() -> i64 {
    i64::try_from(now_ms() / 1000).unwrap_or(i64::MAX)
}

/// The current [`HttpDate`].
pub fn http_date() -> HttpDate {
    texts(|texts| texts.http)
}

/// The current [`ErrorLogTime`].
pub fn error_log_time() -> ErrorLogTime {
    texts(|texts| texts.error_log)
}

/// The current [`LocalTime`].
pub fn local_time() -> LocalTime {
    texts(|texts| texts.local)
}

/// The current [`Iso8601Time`].
pub fn iso8601_time() -> Iso8601Time {
    texts(|texts| texts.iso8601)
}

/// The current [`SyslogTime`].
pub fn syslog_time() -> SyslogTime {
    texts(|texts| texts.syslog)
}

fn texts<R>(pick: impl FnOnce(&Texts) -> R) -> R {
    let second = now_unix();
    TEXTS.with_borrow_mut(|texts| {
        if texts.second != second {
            *texts = Texts::render(second);
        }
        pick(texts)
    })
}

const DAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Renders any Unix second as an HTTP date, for `Last-Modified`, `Expires` and cookies.
///
/// Seconds outside the years 0 to 9999 are shown as 1970, because the format has four digits.
pub fn http_date_of(second: i64) -> HttpDate {
    let time = DateTime::<Utc>::from_timestamp(second, 0)
        .filter(|time| (0..=9999).contains(&time.year()))
        .unwrap_or(DateTime::<Utc>::UNIX_EPOCH);
    let mut text = *b"Ddd, 00 Mmm 0000 00:00:00 GMT";
    text[..3].copy_from_slice(DAYS[time.weekday().num_days_from_monday() as usize]);
    digits(&mut text[5..7], time.day());
    text[8..11].copy_from_slice(MONTHS[time.month0() as usize]);
    digits(&mut text[12..16], time.year().unsigned_abs());
    clock_digits(&mut text[17..25], &time);
    TimeText(text)
}

type Fixed = DateTime<chrono::FixedOffset>;

fn error_log_text(time: &Fixed) -> ErrorLogTime {
    let mut text = *b"0000/00/00 00:00:00";
    digits(&mut text[..4], year(time));
    digits(&mut text[5..7], time.month());
    digits(&mut text[8..10], time.day());
    clock_digits(&mut text[11..], time);
    TimeText(text)
}

fn local_text(time: &Fixed) -> LocalTime {
    let mut text = *b"00/Mmm/0000:00:00:00 +0000";
    digits(&mut text[..2], time.day());
    text[3..6].copy_from_slice(MONTHS[time.month0() as usize]);
    digits(&mut text[7..11], year(time));
    clock_digits(&mut text[12..20], time);
    let (sign, hours, minutes) = offset(time);
    text[21] = sign;
    digits(&mut text[22..24], hours);
    digits(&mut text[24..26], minutes);
    TimeText(text)
}

fn iso8601_text(time: &Fixed) -> Iso8601Time {
    let mut text = *b"0000-00-00T00:00:00+00:00";
    digits(&mut text[..4], year(time));
    digits(&mut text[5..7], time.month());
    digits(&mut text[8..10], time.day());
    clock_digits(&mut text[11..19], time);
    let (sign, hours, minutes) = offset(time);
    text[19] = sign;
    digits(&mut text[20..22], hours);
    digits(&mut text[23..25], minutes);
    TimeText(text)
}

fn syslog_text(time: &Fixed) -> SyslogTime {
    let mut text = *b"Mmm 00 00:00:00";
    text[..3].copy_from_slice(MONTHS[time.month0() as usize]);
    digits(&mut text[4..6], time.day());
    if text[4] == b'0' {
        text[4] = b' ';
    }
    clock_digits(&mut text[7..], time);
    TimeText(text)
}

/// The year as four digits can show it.
fn year(time: &Fixed) -> u32 {
    time.year().clamp(0, 9999).unsigned_abs()
}

/// Sign, hours and minutes east of UTC.
fn offset(time: &Fixed) -> (u8, u32, u32) {
    let seconds = time.offset().local_minus_utc();
    let minutes = seconds.unsigned_abs() / 60;
    (if seconds < 0 { b'-' } else { b'+' }, minutes / 60, minutes % 60)
}

/// Writes `HH:MM:SS`; the colons stand already.
fn clock_digits(out: &mut [u8], time: &impl Timelike) {
    digits(&mut out[0..2], time.hour());
    digits(&mut out[3..5], time.minute());
    digits(&mut out[6..8], time.second());
}

/// Writes `value` right-aligned with leading zeros.
fn digits(out: &mut [u8], mut value: u32) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64, east_seconds: i32) -> Fixed {
        let offset = chrono::FixedOffset::east_opt(east_seconds).expect("a valid offset");
        DateTime::<Utc>::from_timestamp(second, 0).expect("a valid second").with_timezone(&offset)
    }

    #[test]
    fn http_dates() {
        for (second, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (1_795_167_000, "Fri, 20 Nov 2026 09:30:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
            (i64::MAX, "Thu, 01 Jan 1970 00:00:00 GMT"),
        ] {
            assert_eq!(http_date_of(second).as_str(), expected);
        }
    }

    #[test]
    fn local_texts_follow_the_offset() {
        let time = at(1_795_167_000, 5 * 3600 + 1800);
        assert_eq!(error_log_text(&time).as_str(), "2026/11/20 15:00:00");
        assert_eq!(local_text(&time).as_str(), "20/Nov/2026:15:00:00 +0530");
        assert_eq!(iso8601_text(&time).as_str(), "2026-11-20T15:00:00+05:30");
        assert_eq!(syslog_text(&time).as_str(), "Nov 20 15:00:00");
        let west = at(1_793_957_400, -3 * 3600 - 1800);
        assert_eq!(local_text(&west).as_str(), "06/Nov/2026:06:00:00 -0330");
        assert_eq!(syslog_text(&west).as_str(), "Nov  6 06:00:00");
    }

    #[test]
    fn the_cached_clock_moves_only_when_told() {
        update();
        let first = now_ms();
        let text = http_date();
        std::thread::sleep(std::time::Duration::from_millis(3));
        assert_eq!(now_ms(), first);
        update();
        assert!(now_ms() > first);
        assert_eq!(text.len(), http_date().len());
        assert_eq!(now_unix(), i64::try_from(now_ms() / 1000).expect("small"));
    }

    #[test]
    fn the_steady_clock_does_not_follow_the_wall() {
        update();
        let (wall, steady) = (now_ms(), steady_ms());
        assert_ne!(steady, 0);
        hold(wall - 3_600_000);
        assert_eq!((now_ms(), steady_ms()), (wall - 3_600_000, steady));
        update();
        assert!(now_ms() >= wall && steady_ms() >= steady);
    }
}
