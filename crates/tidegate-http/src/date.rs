//! Dates of HTTP: `Sun, 06 Nov 1994 08:49:37 GMT` and its older forms.

const DAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

const SECONDS_PER_DAY: i64 = 86_400;

/// The last second of the year 9999: a date has four digits for the year.
const SECONDS_MAX: i64 = 253_402_300_799;

/// A moment as calendar fields in UTC.
struct Civil {
    year: u32,
    /// 0 is January.
    month: usize,
    day: u32,
    weekday: usize,
    hour: u32,
    minute: u32,
    second: u32,
}

/// The calendar fields of a time in seconds since 1970; times outside 1970..=9999 count as the nearest in it.
fn civil(unix_seconds: i64) -> Civil {
    let seconds = unix_seconds.clamp(0, SECONDS_MAX);
    let days = seconds / SECONDS_PER_DAY;
    let second = (seconds % SECONDS_PER_DAY) as u32;
    // Count from 1 March of the year 0, so that the leap day is the last day of a year.
    let days_from_0 = days + 719_468;
    let era = days_from_0 / 146_097;
    let day_of_era = days_from_0 % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + i64::from(month < 2);
    Civil {
        year: year as u32,
        month: month as usize,
        day: day as u32,
        weekday: ((days + 4) % 7) as usize,
        hour: second / 3600,
        minute: second / 60 % 60,
        second: second % 60,
    }
}

/// Seconds from 1970 to the start of a day; `month` counts from 0.
fn seconds_of_day_start(year: i64, month: usize, day: i64) -> i64 {
    let month = month as i64;
    let year = if month < 2 { year - 1 } else { year };
    let month_from_march = (month + 10) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era - 719_468) * SECONDS_PER_DAY
}

/// The length of a date in the preferred form, in bytes.
pub const HTTP_DATE_BYTES: usize = 29;

/// Writes a time in the preferred form, `Sun, 06 Nov 1994 08:49:37 GMT`.
///
/// Times before 1970 or after 9999 are written as the nearest that can be.
pub fn http_date(unix_seconds: i64) -> [u8; HTTP_DATE_BYTES] {
    let date = civil(unix_seconds);
    let mut out = *b"Day, 00 Mon 0000 00:00:00 GMT";
    out[..3].copy_from_slice(DAYS[date.weekday]);
    two_digits(&mut out, 5, date.day);
    out[8..11].copy_from_slice(MONTHS[date.month]);
    two_digits(&mut out, 12, date.year / 100);
    two_digits(&mut out, 14, date.year % 100);
    time_of_day(&mut out, 17, &date);
    out
}

/// Writes a time as `Expires` of a cookie: `Sun, 06-Nov-94 08:49:37 GMT`, with four digits for years after 2037, which
/// old clients read wrongly otherwise.
///
/// Source: nginx, `ngx_http_cookie_time`.
pub fn write_cookie_date(unix_seconds: i64, out: &mut Vec<u8>) {
    let date = civil(unix_seconds);
    let mut text = *b"Day, 00-Mon-";
    text[..3].copy_from_slice(DAYS[date.weekday]);
    two_digits(&mut text, 5, date.day);
    text[8..11].copy_from_slice(MONTHS[date.month]);
    out.extend_from_slice(&text);
    let mut rest = *b"0000 00:00:00 GMT";
    two_digits(&mut rest, 0, date.year / 100);
    two_digits(&mut rest, 2, date.year % 100);
    time_of_day(&mut rest, 5, &date);
    out.extend_from_slice(if date.year > 2037 { &rest } else { &rest[2..] });
}

fn two_digits(out: &mut [u8], at: usize, number: u32) {
    out[at] = b'0' + (number / 10 % 10) as u8;
    out[at + 1] = b'0' + (number % 10) as u8;
}

fn time_of_day(out: &mut [u8], at: usize, date: &Civil) {
    two_digits(out, at, date.hour);
    two_digits(out, at + 3, date.minute);
    two_digits(out, at + 6, date.second);
}

/// Parses a date in any of the three forms; `None` for anything else.
///
/// ```text
/// Sun, 06 Nov 1994 08:49:37 GMT    preferred
/// Sunday, 06-Nov-94 08:49:37 GMT   RFC 850; years below 70 are in the 21st century
/// Sun Nov  6 08:49:37 1994         asctime
/// ```
///
/// As in nginx, the day's name is not looked at, nor is what follows the date, and a leap second is an error.
pub fn parse_http_date(text: &[u8]) -> Option<i64> {
    let separator = text.iter().position(|byte| matches!(byte, b',' | b' '))?;
    let mut cursor = Cursor(text.get(separator + 1..)?);
    cursor.skip_spaces();
    let (year, month, day, time);
    if text[separator] == b' ' {
        month = cursor.month()?;
        cursor.expect(b' ')?;
        cursor.skip_spaces();
        day = cursor.one_or_two_digits()?;
        cursor.expect(b' ')?;
        time = cursor.time()?;
        cursor.expect(b' ')?;
        year = cursor.digits(4)?;
    } else {
        day = cursor.digits(2)?;
        let dash = cursor.next()?;
        month = cursor.month()?;
        cursor.expect(dash)?;
        year = match dash {
            b' ' => cursor.digits(4)?,
            b'-' => {
                let year = cursor.digits(2)?;
                if year < 70 { 2000 + year } else { 1900 + year }
            }
            _ => return None,
        };
        cursor.expect(b' ')?;
        time = cursor.time()?;
    }
    let is_valid_day = (1..=days_in_month(year, month)).contains(&day);
    is_valid_day.then(|| seconds_of_day_start(year, month, day) + time)
}

fn days_in_month(year: i64, month: usize) -> i64 {
    match month {
        1 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

/// The rest of a date.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn skip_spaces(&mut self) {
        while let Some(rest) = self.0.strip_prefix(b" ") {
            self.0 = rest;
        }
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        (0..count).try_fold(0, |number, _| {
            let byte = self.next()?;
            byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
        })
    }

    fn one_or_two_digits(&mut self) -> Option<i64> {
        if self.0.get(1).is_some_and(u8::is_ascii_digit) { self.digits(2) } else { self.digits(1) }
    }

    fn month(&mut self) -> Option<usize> {
        let (name, rest) = self.0.split_first_chunk::<3>()?;
        self.0 = rest;
        MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))
    }

    /// `08:49:37` as seconds.
    fn time(&mut self) -> Option<i64> {
        let hour = self.digits(2)?;
        self.expect(b':')?;
        let minute = self.digits(2)?;
        self.expect(b':')?;
        let second = self.digits(2)?;
        (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes() {
        for (seconds, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (1_767_225_599, "Wed, 31 Dec 2025 23:59:59 GMT"),
            (-1, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(String::from_utf8_lossy(&http_date(seconds)), expected);
        }
    }

    #[test]
    fn writes_cookie_dates() {
        for (seconds, expected) in
            [(784_111_777, "Sun, 06-Nov-94 08:49:37 GMT"), (2_145_916_800, "Fri, 01-Jan-2038 00:00:00 GMT")]
        {
            let mut out = Vec::new();
            write_cookie_date(seconds, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn parses() {
        #[track_caller]
        fn check(text: &str, expected: Option<i64>) {
            assert_eq!(parse_http_date(text.as_bytes()), expected, "{text}");
        }
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        check("Sun Nov 16 08:49:37 1994", Some(784_975_777));
        check("x, 06 Nov 1994 08:49:37", Some(784_111_777));
        check("Monday, 01-Jan-69 00:00:00 GMT", Some(3_124_224_000));
        check("Thu, 29 Feb 2024 00:00:00 GMT", Some(1_709_164_800));
        check("Wed, 29 Feb 2023 00:00:00 GMT", None);
        check("Thu, 29 Feb 1900 00:00:00 GMT", None);
        check("Sun, 31 Nov 1994 08:49:37 GMT", None);
        check("Sun, 00 Nov 1994 08:49:37 GMT", None);
        check("Sun, 06 Now 1994 08:49:37 GMT", None);
        check("Sun, 06 Nov 1994 24:49:37 GMT", None);
        check("Sun, 06 Nov 1994 08:60:37 GMT", None);
        check("Sun, 06 Nov 1994 08:49:60 GMT", None);
        check("Sun, 06-Nov 1994 08:49:37 GMT", None);
        check("Sun, 6 Nov 1994 08:49:37 GMT", None);
        check("Thu, 01 Jan 0001 00:00:00 GMT", Some(-62_135_596_800));
        for bad in ["", ",", " ", "x", "Sun,", "Sun Nov", "0", "-1", "Sun, 06 Nov 1994 08:49:3"] {
            check(bad, None);
        }
    }

    #[test]
    fn round_trips() {
        for day in 0..200_000 {
            let seconds = day * SECONDS_PER_DAY + day % SECONDS_PER_DAY;
            assert_eq!(parse_http_date(&http_date(seconds)), Some(seconds));
        }
    }
}
