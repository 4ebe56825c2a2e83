//! Dates and times: the packed form, text, and calendar arithmetic.
//!
//! DATE and DATETIME are one integer that sorts as the moments do and can hold MySQL's zero dates:
//!
//! ```text
//!  bits  62..46       45..41  40..36  35..30  29..24  23..0
//!        year*13+month  day    hour   minute  second  microsecond
//! ```
//!
//! TIME is a number of microseconds, negative ones included.

/// Microseconds of a day.
pub(crate) const DAY_MICROS: i64 = 86_400_000_000;
/// Microseconds since 1970 that a TIMESTAMP can be.
pub(crate) const TIMESTAMPS: std::ops::Range<i64> = 0..(i32::MAX as i64 + 1) * 1_000_000;
/// The largest TIME: 838:59:59.999999.
pub(crate) const TIME_MAX: i64 = (838 * 3600 + 59 * 60 + 59) * 1_000_000 + 999_999;

/// A date and time in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Datetime {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) micros: i64,
}

impl Datetime {
    /// Takes the packed form apart.
    pub(crate) fn unpack(packed: i64) -> Self {
        let (high, micros) = (packed >> 24, packed & 0xff_ffff);
        let (date, time) = (high >> 17, high & 0x1_ffff);
        let months = date >> 5;
        Self {
            year: months / 13,
            month: months % 13,
            day: date & 31,
            hour: time >> 12,
            minute: (time >> 6) & 63,
            second: time & 63,
            micros,
        }
    }

    /// The packed form.
    pub(crate) fn pack(self) -> i64 {
        let date = ((self.year * 13 + self.month) << 5) | self.day;
        let time = (self.hour << 12) | (self.minute << 6) | self.second;
        (((date << 17) | time) << 24) | self.micros
    }

    /// Whether year, month and day are all zero.
    pub(crate) fn is_zero_date(self) -> bool {
        self.year == 0 && self.month == 0 && self.day == 0
    }

    /// Whether month or day is zero: a date that is none in the calendar.
    pub(crate) fn has_zero(self) -> bool {
        self.month == 0 || self.day == 0
    }

    /// Whether the parts are in their ranges; days are checked against the month (zeros are let through).
    pub(crate) fn is_valid(self) -> bool {
        let day_max = if self.month == 0 { 31 } else { days_in_month(self.year, self.month) };
        (0..=9999).contains(&self.year)
            && (0..=12).contains(&self.month)
            && (0..=day_max).contains(&self.day)
            && (0..24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..60).contains(&self.second)
            && (0..1_000_000).contains(&self.micros)
    }

    /// Microseconds since midnight.
    pub(crate) fn time_micros(self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.micros
    }

    /// Day number, as `TO_DAYS`; `None` for dates with zeros.
    pub(crate) fn days(self) -> Option<i64> {
        (!self.has_zero()).then(|| day_number(self.year, self.month, self.day))
    }

    /// The moment as microseconds of a calendar that starts with day 0.
    pub(crate) fn total_micros(self) -> Option<i64> {
        Some(self.days()? * DAY_MICROS + self.time_micros())
    }

    /// The moment for microseconds as [`total_micros`](Self::total_micros) counts them; `None` outside of the years 0 to 9999.
    pub(crate) fn from_total_micros(total: i64) -> Option<Self> {
        let mut date = from_day_number(total.div_euclid(DAY_MICROS))?;
        let rest = total.rem_euclid(DAY_MICROS);
        date.micros = rest % 1_000_000;
        let seconds = rest / 1_000_000;
        (date.hour, date.minute, date.second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        Some(date)
    }

    /// The date alone.
    pub(crate) fn date_only(self) -> Self {
        Self { year: self.year, month: self.month, day: self.day, ..Self::default() }
    }

    /// YYYYMMDDhhmmss.
    pub(crate) fn to_number(self) -> i64 {
        ((((self.year * 100 + self.month) * 100 + self.day) * 100 + self.hour) * 100 + self.minute) * 100 + self.second
    }

    /// Appends `YYYY-MM-DD`.
    pub(crate) fn write_date(self, out: &mut Vec<u8>) {
        write_padded(self.year, 4, out);
        out.push(b'-');
        write_padded(self.month, 2, out);
        out.push(b'-');
        write_padded(self.day, 2, out);
    }

    /// Appends `YYYY-MM-DD hh:mm:ss` with `decimals` digits of the second.
    pub(crate) fn write(self, decimals: u8, out: &mut Vec<u8>) {
        self.write_date(out);
        out.push(b' ');
        write_padded(self.hour, 2, out);
        out.push(b':');
        write_padded(self.minute, 2, out);
        out.push(b':');
        write_padded(self.second, 2, out);
        write_fraction(self.micros, decimals, out);
    }

    /// Cut to `decimals` digits of the second.
    pub(crate) fn truncate(self, decimals: u8) -> Self {
        Self { micros: truncate_micros(self.micros, decimals), ..self }
    }
}

/// Appends `number` with leading zeros.
pub(crate) fn write_padded(number: i64, width: usize, out: &mut Vec<u8>) {
    let mut buf = itoa::Buffer::new();
    let digits = buf.format(number.unsigned_abs());
    out.extend(std::iter::repeat_n(b'0', width.saturating_sub(digits.len())));
    out.extend_from_slice(digits.as_bytes());
}

fn write_fraction(micros: i64, decimals: u8, out: &mut Vec<u8>) {
    if decimals > 0 {
        out.push(b'.');
        let start = out.len();
        write_padded(micros, 6, out);
        out.truncate(start + usize::from(decimals.min(6)));
    }
}

/// Microseconds cut to `decimals` digits.
pub(crate) fn truncate_micros(micros: i64, decimals: u8) -> i64 {
    let unit = 10i64.pow(u32::from(6 - decimals.min(6)));
    micros - micros % unit
}

/// Appends a TIME as `[-]hh:mm:ss` with `decimals` digits of the second.
pub(crate) fn write_time(time: i64, decimals: u8, out: &mut Vec<u8>) {
    if time < 0 {
        out.push(b'-');
    }
    let micros = time.unsigned_abs() as i64;
    let seconds = micros / 1_000_000;
    write_padded(seconds / 3600, 2, out);
    out.push(b':');
    write_padded(seconds / 60 % 60, 2, out);
    out.push(b':');
    write_padded(seconds % 60, 2, out);
    write_fraction(micros % 1_000_000, decimals, out);
}

/// TIME as the number hhmmss.
pub(crate) fn time_to_number(time: i64) -> i64 {
    let seconds = time.abs() / 1_000_000;
    let number = (seconds / 3600 * 100 + seconds / 60 % 60) * 100 + seconds % 60;
    if time < 0 { -number } else { number }
}

/// Days of a month in the proleptic Gregorian calendar.
pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Whether a year has 366 days.
pub(crate) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days since year 0, as `TO_DAYS` counts: 1970-01-01 is 719528.
pub(crate) fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (m * 306 + 5) / 10 + day + 59
}

/// The date of a day number; `None` before year 1's first day or after 9999.
pub(crate) fn from_day_number(days: i64) -> Option<Datetime> {
    if !(366..=3_652_424).contains(&days) {
        return None;
    }
    let shifted = days - 60;
    let era = shifted.div_euclid(146_097);
    let doe = shifted.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    Some(Datetime { year, month, day: doy - (153 * mp + 2) / 5 + 1, ..Datetime::default() })
}

/// Day number of 1970-01-01.
pub(crate) const EPOCH_DAYS: i64 = 719_528;

/// Two-digit years: 70 to 99 are in the last century.
pub(crate) fn century(year: i64) -> i64 {
    if year < 70 { year + 2000 } else { year + 1900 }
}

/// What a text was as a date or time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParsedDatetime {
    pub(crate) value: Datetime,
    /// The text had a time part.
    pub(crate) has_time: bool,
    /// Something behind the value was ignored.
    pub(crate) truncated: bool,
    /// The text had digits of a second, this many.
    pub(crate) decimals: u8,
}

/// Reads a date with optional time: `2020-01-02 03:04:05.678`, any punctuation as separator, or digits without any.
/// `None` if it is none or out of range. More than six digits of a second are rounded.
pub(crate) fn parse_datetime(text: &[u8]) -> Option<ParsedDatetime> {
    let text = text.trim_ascii();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (mut parts, mut pos, count);
    // `2024.01.02` is a date, `20240102.5` a number with a fraction.
    let point = text.get(digits) == Some(&b'.')
        && text.iter().skip(digits + 1).find(|byte| !byte.is_ascii_digit()) != Some(&b'.');
    let separated =
        matches!(text.get(digits), Some(byte) if !point && *byte != b'T' && *byte != b' ') && digits <= 4 && digits > 0;
    if separated {
        (parts, pos, count) = separated_parts(text)?;
        if digits == 2 {
            parts[0] = century(parts[0]);
        }
    } else {
        (parts, count) = packed_parts(text.get(..digits)?)?;
        pos = digits;
        if count == 3 && matches!(text.get(pos), Some(b'T' | b' ')) {
            let time = text.get(pos + 1..)?;
            let len = time.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if len == 6 {
                for (index, pair) in time[..6].chunks(2).enumerate() {
                    parts[3 + index] = i64::from(pair[0] - b'0') * 10 + i64::from(pair[1] - b'0');
                }
                pos += 7;
            }
        }
    }
    let has_time = count > 3;
    let (micros, decimals, round) = if text.get(pos) == Some(&b'.') && count == 6 {
        let (micros, decimals, used, round) = fraction(&text[pos + 1..]);
        pos += 1 + used;
        (micros, decimals, round)
    } else {
        (0, 0, false)
    };
    let [year, month, day, hour, minute, second] = parts;
    let mut value = Datetime { year, month, day, hour, minute, second, micros };
    if !value.is_valid() {
        return None;
    }
    if round {
        value = value.total_micros().and_then(|total| Datetime::from_total_micros(total + 1)).unwrap_or(value);
    }
    Some(ParsedDatetime { value, has_time, truncated: pos < text.len(), decimals })
}

fn separated_parts(text: &[u8]) -> Option<([i64; 6], usize, usize)> {
    let mut parts = [0i64; 6];
    let (mut pos, mut count) = (0, 0);
    while count < 6 {
        let width = if count == 0 { 4 } else { 2 };
        let len = text[pos..].iter().take(width).take_while(|byte| byte.is_ascii_digit()).count();
        if len == 0 {
            break;
        }
        parts[count] = text[pos..pos + len].iter().fold(0, |value, byte| value * 10 + i64::from(byte - b'0'));
        pos += len;
        count += 1;
        let separators = match count {
            6 => 0,
            3 => {
                let gap = text[pos..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
                if gap == 0 && matches!(text.get(pos), Some(b'T')) {
                    1
                } else {
                    gap.max(usize::from(text.get(pos).is_some_and(u8::is_ascii_punctuation)))
                }
            }
            _ => text[pos..].iter().take_while(|byte| byte.is_ascii_punctuation()).count().min(1),
        };
        let next = pos + separators;
        if separators == 0 || !text.get(next).is_some_and(u8::is_ascii_digit) {
            break;
        }
        pos = next;
    }
    (count >= 3).then_some((parts, pos, count))
}

fn packed_parts(digits: &[u8]) -> Option<([i64; 6], usize)> {
    let number = |range: &[u8]| range.iter().fold(0i64, |value, byte| value * 10 + i64::from(byte - b'0'));
    let year_digits = match digits.len() {
        8 | 14 => 4,
        6 | 12 => 2,
        _ => return None,
    };
    let (year, rest) = digits.split_at(year_digits);
    let mut parts = [0i64; 6];
    parts[0] = if year_digits == 2 { century(number(year)) } else { number(year) };
    for (index, pair) in rest.chunks(2).enumerate() {
        parts[index + 1] = number(pair);
    }
    Some((parts, 1 + rest.len() / 2))
}

/// Digits behind the point as microseconds: value, how many digits, bytes used, whether to round up.
fn fraction(text: &[u8]) -> (i64, u8, usize, bool) {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let kept = len.min(6);
    let value = text[..kept].iter().fold(0i64, |value, byte| value * 10 + i64::from(byte - b'0'));
    (value * 10i64.pow(6 - kept as u32), kept as u8, len, false)
}

/// Reads a number as a date with optional time: YYMMDD, YYYYMMDD, YYMMDDhhmmss, YYYYMMDDhhmmss. What lies between these forms is
/// no date.
pub(crate) fn datetime_from_number(number: i64) -> Option<Datetime> {
    let number = match number {
        0 => return Some(Datetime::default()),
        101..=691_231 => (number + 20_000_000) * 1_000_000,
        700_101..=991_231 => (number + 19_000_000) * 1_000_000,
        // Not the years before 1000, which a text may have.
        10_000_101..=99_991_231 => number * 1_000_000,
        101_000_000..=691_231_235_959 => number + 20_000_000_000_000,
        700_101_000_000..=991_231_235_959 => number + 19_000_000_000_000,
        10_000_101_000_000..=99_991_231_235_959 => number,
        _ => return None,
    };
    let (date, time) = (number / 1_000_000, number % 1_000_000);
    let value = Datetime {
        year: date / 10_000,
        month: date / 100 % 100,
        day: date % 100,
        hour: time / 10_000,
        minute: time / 100 % 100,
        second: time % 100,
        micros: 0,
    };
    value.is_valid().then_some(value)
}

/// Whether a text has the sign `-`, and what stands behind its sign.
fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// Reads a TIME: `[+|-][D ]hh:mm[:ss[.f]]`, `hhmmss`, or a date with time. The value, whether something was ignored, digits
/// of the second. `None` if it is none. Values beyond the range are for the caller to cut.
pub(crate) fn parse_time(text: &[u8]) -> Option<(i64, bool, u8)> {
    let (negative, body) = signed(text.trim_ascii());
    let number = |range: &[u8]| {
        range.iter().fold(0i64, |value: i64, byte| value.saturating_mul(10).saturating_add(i64::from(byte - b'0')))
    };
    let digits = |from: usize| body[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let first = digits(0);
    if first == 0 {
        return None;
    }
    if !negative && (first >= 12 || (body.get(first) == Some(&b'-') && body.len() >= 8)) {
        // A date alone is no time: its first number counts as one.
        let parsed = parse_datetime(body).filter(|parsed| parsed.has_time || first >= 12);
        if let Some(parsed) = parsed {
            return Some((parsed.value.time_micros(), !parsed.has_time, parsed.decimals));
        }
    }
    let mut pos = first;
    let mut days = 0;
    let mut hours = number(&body[..first]);
    if body.get(pos) == Some(&b' ') && digits(pos + 1) > 0 {
        days = hours;
        let len = digits(pos + 1);
        hours = number(&body[pos + 1..pos + 1 + len]);
        pos += 1 + len;
    }
    let (mut minutes, mut seconds) = (0, 0);
    if body.get(pos) == Some(&b':') {
        let len = if pos < body.len() { digits(pos + 1) } else { 0 };
        minutes = number(&body[pos + 1..pos + 1 + len]);
        pos += 1 + len;
        if body.get(pos) == Some(&b':') {
            let len = digits(pos + 1);
            seconds = number(&body[pos + 1..pos + 1 + len]);
            pos += 1 + len;
        }
    } else if days == 0 {
        // Longer numbers are none of hours, minutes and seconds.
        if hours > i64::from(u32::MAX) {
            return None;
        }
        (hours, minutes, seconds) = (hours / 10_000, hours / 100 % 100, hours % 100);
    }
    if minutes > 59 || seconds > 59 {
        return None;
    }
    let (mut micros, mut decimals) = (0, 0);
    if body.get(pos) == Some(&b'.') {
        let used;
        (micros, decimals, used, _) = fraction(&body[pos + 1..]);
        pos += 1 + used;
    }
    // A number with an exponent is none.
    if matches!(body.get(pos), Some(b'e' | b'E')) && body.get(pos + 1).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let hours = days.saturating_mul(24).saturating_add(hours).min(10_000_000);
    let total = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros;
    Some((if negative { -total } else { total }, pos < body.len(), decimals))
}

/// A number hhmmss as a TIME; `None` if minutes or seconds are none.
pub(crate) fn time_from_number(number: i64) -> Option<i64> {
    // As many digits as a date has, with its time or without.
    if number > 10_000_000
        && let Some(moment) = datetime_from_number(number)
    {
        return Some(moment.time_micros());
    }
    let absolute = number.unsigned_abs().min(100_000_000_000) as i64;
    let (hours, minutes, seconds) = (absolute / 10_000, absolute / 100 % 100, absolute % 100);
    if minutes > 59 || seconds > 59 {
        return None;
    }
    let total = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000;
    Some(if number < 0 { -total } else { total })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let parsed = parse_datetime(text.as_bytes());
        let written = parsed.map(|parsed| {
            let mut out = Vec::new();
            parsed.value.write(parsed.decimals, &mut out);
            String::from_utf8(out).unwrap()
        });
        assert_eq!(written.as_deref(), expected, "{text}");
    }

    #[test]
    fn dates_from_text() {
        check("2020-01-02 03:04:05", Some("2020-01-02 03:04:05"));
        check("2020-01-02T03:04:05.678", Some("2020-01-02 03:04:05.678"));
        check("20200102030405", Some("2020-01-02 03:04:05"));
        check("20200102", Some("2020-01-02 00:00:00"));
        check("200102", Some("2020-01-02 00:00:00"));
        check("70-1-2", Some("1970-01-02 00:00:00"));
        check("1-2-3", Some("0001-02-03 00:00:00"));
        check("1.2.3.4", Some("0001-02-03 04:00:00"));
        check("2020/1/2 3:4", Some("2020-01-02 03:04:00"));
        check("0000-00-00", Some("0000-00-00 00:00:00"));
        check("2020-02-30", None);
        check("2020-13-01", None);
        check("abc", None);
        check("", None);
        check("2020-01-02 25:00:00", None);
    }

    #[test]
    fn dates_from_numbers() {
        let number = |number: i64| datetime_from_number(number).map(|moment| moment.to_number());
        assert_eq!(number(0), Some(0));
        assert_eq!(number(131), Some(20_000_131_000_000));
        assert_eq!(number(700_101), Some(19_700_101_000_000));
        assert_eq!(number(20_240_102), Some(20_240_102_000_000));
        assert_eq!(number(240_102_030_405), Some(20_240_102_030_405));
        for none in [-131, 1, 100, 691_232, 700_100, 99_991_232, 100_000_000, 691_231_235_960, 99_991_231_236_000] {
            assert_eq!(number(none), None, "{none}");
        }
    }

    #[test]
    fn packing_sorts() {
        let packed = |text: &str| parse_datetime(text.as_bytes()).unwrap().value.pack();
        let texts = [
            "0000-00-00",
            "1000-01-01",
            "2020-01-01",
            "2020-01-01 00:00:00.000001",
            "2020-12-31 23:59:59",
            "9999-12-31 23:59:59.999999",
        ];
        for pair in texts.windows(2) {
            assert!(packed(pair[0]) < packed(pair[1]));
        }
        for text in texts {
            let value = parse_datetime(text.as_bytes()).unwrap().value;
            assert_eq!(Datetime::unpack(value.pack()), value);
        }
    }

    #[test]
    fn day_numbers() {
        assert_eq!(day_number(1970, 1, 1), EPOCH_DAYS);
        assert_eq!(day_number(2007, 10, 7), 733_321);
        for days in [366, 367, 730_000, EPOCH_DAYS, 3_652_424] {
            let date = from_day_number(days).unwrap();
            assert_eq!(day_number(date.year, date.month, date.day), days);
        }
    }

    #[test]
    fn times() {
        let time = |text: &str| parse_time(text.as_bytes()).map(|(value, ..)| value / 1_000_000);
        assert_eq!(time("10:11:12"), Some(36_672));
        assert_eq!(time("-10:11:12"), Some(-36_672));
        assert_eq!(time("101112"), Some(36_672));
        assert_eq!(time("+5"), Some(5));
        assert_eq!(time("9223372036854775807"), None);
        assert_eq!(time("8385959"), Some(3_020_399));
        assert_eq!(time("1 02:03:04"), Some(93_784));
        assert_eq!(time("11:12"), Some(40_320));
        assert_eq!(time("10:61:00"), None);
        assert_eq!(time("2020-01-01 10:11:12"), Some(36_672));
        let mut out = Vec::new();
        write_time(-36_672_500_000, 2, &mut out);
        assert_eq!(out, b"-10:11:12.50");
    }
}
