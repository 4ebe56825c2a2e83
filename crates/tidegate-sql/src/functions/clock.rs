//! Times of day and texts of dates: TIMEDIFF, ADDTIME, MAKETIME, TIME_FORMAT, STR_TO_DATE, CONVERT_TZ, periods.

use super::{Family, Function, Want, abi::Udf, rewrite, udf};
use crate::{
    env, errors,
    translate::{Ex, Res, Translator},
    value::{
        Base, Rep, SqlType,
        collation::Collation,
        temporal::{self, Datetime, TIME_MAX, day_number, from_day_number, parse_datetime, parse_time, write_padded},
    },
};

pub(super) const FAMILY: Family = Family { functions: FUNCTIONS, udfs: UDFS, aggregates: &[] };

#[rustfmt::skip]
static FUNCTIONS: &[Function] = &[
    rewrite("TIMEDIFF", 2, 2, timediff),
    rewrite("ADDTIME", 2, 2, |t, args| add_time(t, args, 1)),
    rewrite("SUBTIME", 2, 2, |t, args| add_time(t, args, -1)),
    rewrite("MAKETIME", 3, 3, |t, args| {
        let digits = match args[2].ty.rep() {
            Rep::Dec => args[2].ty.decimals.min(6),
            Rep::Int | Rep::Uint => 0,
            _ => 6,
        };
        let (hour, minute, second) = (t.wanted(&args[0], Want::Int), t.convert(&args[1], Rep::Int), t.convert(&args[2], Rep::Dec));
        Ok(Ex::sql(format!("tg_maketime({hour}, {minute}, {second})"), SqlType::temporal(Base::Time, digits)))
    }),
    udf("TIME_FORMAT", "f_time_format", 2, 2, &[Want::Time, Want::Text], |args| SqlType::string(super::text_length(&args[1]).saturating_mul(10), Collation::DEFAULT), |args, out| {
        if let Some(text) = time_format(args.int(0), args.bytes(1), DateParts::Null) {
            out.text(text);
        }
        Ok(())
    }),
    rewrite("STR_TO_DATE", 2, 2, str_to_date),
    rewrite("GET_FORMAT", 2, 2, |t, args| {
        let kind = t.constant_text(&args[0]).unwrap_or_default();
        let region = t.constant_text(&args[1]).ok_or_else(|| errors::unsupported("GET_FORMAT of an expression"))?;
        let found = get_format(&kind, &region.to_ascii_uppercase());
        Ok(found.map_or_else(|| Ex { ty: SqlType::varchar(17, Collation::DEFAULT), ..Ex::null() }, Ex::known_text))
    }),
    udf("CONVERT_TZ", "f_convert_tz", 3, 3, &[Want::Datetime, Want::Text, Want::Text], |args| SqlType::temporal(Base::Datetime, if args[0].ty.base.is_temporal() { args[0].ty.decimals } else { 0 }), |args, out| {
        let zone = |index: usize| std::str::from_utf8(args.bytes(index)).ok().and_then(crate::variables::zone);
        let (Some(from), Some(to)) = (zone(1), zone(2)) else { return Ok(()) };
        let moment = Datetime::unpack(args.int(0));
        // What no TIMESTAMP can be is not converted.
        if let Some(converted) = env::current(|env| env.between_zones(moment, from, to)).flatten() {
            out.int(converted.pack());
        }
        Ok(())
    }),
    udf("PERIOD_ADD", "f_period_add", 2, 2, &[Want::Int], |_| SqlType::whole(6, false), |args, out| {
        out.int(if args.int(0) == 0 { 0 } else { to_period(months(args.int(0)), args.int(1)) });
        Ok(())
    }),
    udf("PERIOD_DIFF", "f_period_diff", 2, 2, &[Want::Int], |_| SqlType::whole(6, false), |args, out| {
        out.int(months(args.int(0)) - months(args.int(1)));
        Ok(())
    }),
];

#[rustfmt::skip]
static UDFS: &[Udf] = &[
    // `tg_time_diff(text, text)`: both times, or both dates with times.
    Udf::new("tg_time_diff", 2, |args, out| {
        let (a, b) = (args.bytes(0), args.bytes(1));
        let moment = |text: &[u8]| parse_datetime(text).filter(|parsed| parsed.has_time && text.len() >= 12).and_then(|parsed| parsed.value.total_micros());
        match (moment(a), moment(b)) {
            (Some(a), Some(b)) => out.int((a - b).clamp(-TIME_MAX, TIME_MAX)),
            (None, None) => {
                if let (Some(a), Some(b)) = (time(a), time(b)) {
                    out.int((a - b).clamp(-TIME_MAX, TIME_MAX));
                }
            }
            _ => {}
        }
        Ok(())
    }),
    // `tg_duration(text)`: microseconds; NULL for a text with a date.
    Udf::new("tg_duration", 1, |args, out| {
        let text = args.bytes(0);
        match time(text).filter(|_| !has_date(text)) {
            Some(duration) => out.int(duration),
            None => not_a_duration(text),
        }
        Ok(())
    }),
    // `tg_time_plus(text, microseconds, sign)`: a text with a date if the first has one.
    Udf::new("tg_time_plus", 3, |args, out| {
        let more = args.int(1);
        let text = args.bytes(0);
        let mut result = Vec::new();
        let parsed = parse_datetime(text).filter(|_| has_date(text));
        match parsed {
            Some(parsed) => {
                let Some(sum) = parsed.value.total_micros().and_then(|at| Datetime::from_total_micros(at + more * args.int(2))) else { return Ok(()) };
                sum.write(if sum.micros == 0 { 0 } else { 6 }, &mut result);
            }
            None => {
                let Some(start) = time(text) else { return Ok(()) };
                let sum = (start + more * args.int(2)).clamp(-TIME_MAX, TIME_MAX);
                temporal::write_time(sum, if sum % 1_000_000 == 0 { 0 } else { 6 }, &mut result);
            }
        }
        out.text(result);
        Ok(())
    }),
    Udf::new("tg_datetime_plus", 3, |args, out| {
        let sum = Datetime::unpack(args.int(0)).total_micros().and_then(|at| Datetime::from_total_micros(at + args.int(1) * args.int(2)));
        if let Some(sum) = sum { out.int(sum.pack()); }
        Ok(())
    }),
    Udf::new("tg_maketime", 3, |args, out| {
        let (hour, minute) = (args.int(0), args.int(1));
        let Some(seconds) = args.dec(2).rescale(6).and_then(|seconds| i64::try_from(seconds.mantissa).ok()) else { return Ok(()) };
        if !(0..60).contains(&minute) || !(0..60_000_000).contains(&seconds) {
            return Ok(());
        }
        let time = (hour.clamp(-10_000, 10_000).abs() * 3600 + minute * 60) * 1_000_000 + seconds;
        // A limit that is reached has a fraction only where the time has one.
        let most = if seconds % 1_000_000 == 0 { temporal::truncate_micros(TIME_MAX, 0) } else { TIME_MAX };
        out.int((if hour < 0 { -time } else { time }).clamp(-most, most));
        Ok(())
    }),
    // `tg_str_to_date(text, format, kind)`: 0 a date, 1 a time, 2 both.
    Udf::new("tg_str_to_date", 3, |args, out| {
        match read_date(args.bytes(0), args.bytes(1)) {
            Some(found) => out.int(match args.int(2) {
                0 => found.date_only().pack(),
                1 => found.time_micros(),
                _ => found.pack(),
            }),
            None => {
                let text = String::from_utf8_lossy(args.bytes(0)).into_owned();
                env::current(|env| env.warn(errors::wrong_function_value("datetime", text, "str_to_date")));
            }
        }
        Ok(())
    }),
];

fn time(text: &[u8]) -> Option<i64> {
    parse_time(text).map(|(time, ..)| time)
}

/// Whether a text has the separators of a date.
fn has_date(text: &[u8]) -> bool {
    text.iter().filter(|byte| matches!(byte, b'-' | b'/')).count() >= 2
}

#[cold]
fn not_a_duration(text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    env::current(|env| env.warn(errors::incorrect_value("INTERVAL DAY TO SECOND", text)));
}

/// The time that ADDTIME and TIMESTAMP add, in microseconds: a moment is none.
pub(super) fn duration(t: &mut Translator<'_>, ex: &Ex) -> String {
    match ex.ty.base {
        Base::Time => t.text(ex),
        _ => format!("tg_duration({})", t.convert(ex, Rep::Text)),
    }
}

fn timediff(t: &mut Translator<'_>, args: &[Ex]) -> Res<Ex> {
    let digits = args.iter().map(|arg| fraction(t, arg)).max().unwrap_or(0);
    let ty = SqlType::temporal(Base::Time, digits);
    let times = args.iter().all(|arg| arg.ty.base == Base::Time);
    if times {
        let (a, b) = (t.text(&args[0]), t.text(&args[1]));
        let most = temporal::truncate_micros(TIME_MAX, digits);
        return Ok(Ex::sql(format!("max(min({a} - {b}, {most}), -{most})"), ty));
    }
    let (a, b) = (t.convert(&args[0], Rep::Text), t.convert(&args[1], Rep::Text));
    Ok(Ex::sql(format!("tg_time_diff({a}, {b})"), ty))
}

/// Digits of a second in a value; those of a constant text are counted.
fn fraction(t: &mut Translator<'_>, ex: &Ex) -> u8 {
    if ex.ty.base.is_temporal() {
        return ex.ty.decimals.min(6);
    }
    match t.constant_text(ex) {
        Some(text) => text.rsplit_once('.').map_or(0, |(_, digits)| digits.len().min(6) as u8),
        None if ex.ty.rep() == Rep::Null => 0,
        None => 6,
    }
}

fn add_time(t: &mut Translator<'_>, args: &[Ex], sign: i64) -> Res<Ex> {
    let digits = args.iter().map(|arg| fraction(t, arg)).max().unwrap_or(0);
    let added = duration(t, &args[1]);
    match args[0].ty.base {
        Base::Time => {
            let (a, b) = (t.text(&args[0]), added);
            let most = temporal::truncate_micros(TIME_MAX, digits);
            let sql = format!("max(min({a} + {sign} * {b}, {most}), -{most})");
            Ok(Ex::sql(sql, SqlType::temporal(Base::Time, digits)))
        }
        Base::Datetime | Base::Timestamp | Base::Date => {
            let (a, b) = (t.convert(&args[0], Rep::Datetime), added);
            Ok(Ex::sql(format!("tg_datetime_plus({a}, {b}, {sign})"), SqlType::temporal(Base::Datetime, digits)))
        }
        _ => {
            let (a, b) = (t.convert(&args[0], Rep::Text), added);
            let ty = SqlType { length: 26, ..SqlType::new(Base::Char) };
            Ok(Ex::sql(format!("tg_time_plus({a}, {b}, {sign})"), ty))
        }
    }
}

fn str_to_date(t: &mut Translator<'_>, args: &[Ex]) -> Res<Ex> {
    let format = t.constant_text(&args[1]);
    let (text, pattern) = (t.convert(&args[0], Rep::Text), t.convert(&args[1], Rep::Text));
    let (kind, ty) = match format.as_deref() {
        None => (2, SqlType::temporal(Base::Datetime, 6)),
        Some(format) => {
            let has = |codes: &str| {
                format.as_bytes().windows(2).any(|pair| pair[0] == b'%' && codes.as_bytes().contains(&pair[1]))
            };
            let (date, time) = (has("aMbcDdejmUuVvWwXxYy"), has("fHISThiklprs"));
            let digits = if has("f") { 6 } else { 0 };
            match (date, time) {
                (false, true) => (1, SqlType::temporal(Base::Time, digits)),
                (true, false) | (false, false) => (0, SqlType::new(Base::Date)),
                (true, true) => (2, SqlType::temporal(Base::Datetime, digits)),
            }
        }
    };
    Ok(Ex::sql(format!("tg_str_to_date({text}, {pattern}, {kind})"), ty))
}

/// Reads a text by a format of DATE_FORMAT.
fn read_date(text: &[u8], format: &[u8]) -> Option<Datetime> {
    let mut found = Datetime::default();
    let mut rest = text;
    let (mut afternoon, mut twelve, mut day_of_year) = (None, false, None);
    let mut codes = format.iter().copied();
    while let Some(code) = codes.next() {
        // What the text ends before stays zero.
        if rest.trim_ascii_start().is_empty() {
            break;
        }
        if code != b'%' {
            if code == b' ' {
                rest = rest.trim_ascii_start();
                continue;
            }
            rest = rest.trim_ascii_start();
            rest = rest.strip_prefix(&[code])?;
            continue;
        }
        let code = codes.next()?;
        if !matches!(code, b'%') {
            rest = rest.trim_ascii_start();
        }
        let number = |rest: &mut &[u8], width: usize| -> Option<i64> {
            let len = rest.iter().take(width).take_while(|byte| byte.is_ascii_digit()).count();
            let value = std::str::from_utf8(&rest[..len]).ok()?.parse().ok()?;
            *rest = &rest[len..];
            Some(value)
        };
        match code {
            b'Y' => {
                let before = rest.len();
                let year = number(&mut rest, 4)?;
                found.year = if before - rest.len() <= 2 { temporal::century(year) } else { year };
            }
            b'y' => found.year = temporal::century(number(&mut rest, 2)?),
            b'm' | b'c' => found.month = number(&mut rest, 2)?,
            b'd' | b'e' => found.day = number(&mut rest, 2)?,
            b'D' => {
                found.day = number(&mut rest, 2)?;
                rest = rest.get(2..)?;
            }
            b'H' | b'k' => found.hour = number(&mut rest, 2)?,
            b'h' | b'I' | b'l' => {
                found.hour = number(&mut rest, 2)?;
                twelve = true;
            }
            b'i' => found.minute = number(&mut rest, 2)?,
            b's' | b'S' => found.second = number(&mut rest, 2)?,
            b'f' => {
                let before = rest.len();
                let value = number(&mut rest, 6)?;
                found.micros = value * 10i64.pow(6u32.saturating_sub((before - rest.len()) as u32));
            }
            b'p' => {
                let word = rest.get(..2)?.to_ascii_uppercase();
                afternoon = Some(match &word[..] {
                    b"AM" => false,
                    b"PM" => true,
                    _ => return None,
                });
                rest = &rest[2..];
            }
            b'M' | b'b' => found.month = name(&mut rest, &super::datetime::MONTHS, code == b'b')? as i64 + 1,
            b'W' | b'a' => {
                name(&mut rest, &super::datetime::DAYS, code == b'a')?;
            }
            b'j' => day_of_year = Some(number(&mut rest, 3)?),
            b'T' => (found.hour, found.minute, found.second) = clock(&mut rest, number)?,
            b'r' => {
                (found.hour, found.minute, found.second) = clock(&mut rest, number)?;
                rest = rest.trim_ascii_start();
                let word = rest.get(..2)?.to_ascii_uppercase();
                (twelve, afternoon) = (true, Some(word == b"PM"));
                rest = &rest[2..];
            }
            b'%' => rest = rest.strip_prefix(b"%")?,
            _ => return None,
        }
    }
    if twelve {
        if !(1..=12).contains(&found.hour) {
            return None;
        }
        found.hour = found.hour % 12 + if afternoon == Some(true) { 12 } else { 0 };
    } else if afternoon.is_some() {
        return None;
    }
    if let Some(day) = day_of_year {
        let date = from_day_number(day_number(found.year, 1, 1) + day - 1)?;
        (found.month, found.day) = (date.month, date.day);
    }
    let whole = found.is_valid() && found.hour < 24 && found.minute < 60 && found.second < 60;
    whole.then_some(found)
}

fn clock(rest: &mut &[u8], number: impl Fn(&mut &[u8], usize) -> Option<i64>) -> Option<(i64, i64, i64)> {
    let hour = number(rest, 2)?;
    *rest = rest.strip_prefix(b":")?;
    let minute = number(rest, 2)?;
    *rest = rest.strip_prefix(b":")?;
    Some((hour, minute, number(rest, 2)?))
}

fn name(rest: &mut &[u8], names: &[&str], short: bool) -> Option<usize> {
    let found = names.iter().position(|name| {
        let name = if short { &name[..3] } else { name };
        rest.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name.as_bytes()))
    })?;
    *rest = &rest[if short { 3 } else { names[found].len() }..];
    Some(found)
}

/// What the parts of a date are in the format of a TIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DateParts {
    /// They make the whole NULL: TIME_FORMAT.
    Null,
    /// Zeros: DATE_FORMAT.
    Zero,
}

/// A time in the format of TIME_FORMAT.
pub(super) fn time_format(time: i64, format: &[u8], date: DateParts) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let t = time.abs();
    let (hour, minute, second, micros) = (t / 3_600_000_000, t / 60_000_000 % 60, t / 1_000_000 % 60, t % 1_000_000);
    let twelve = (hour % 24 + 11) % 12 + 1;
    let half: &[u8] = if hour % 24 < 12 { b"AM" } else { b"PM" };
    if time < 0 {
        out.push(b'-');
    }
    let mut codes = format.iter().copied();
    while let Some(code) = codes.next() {
        if code != b'%' {
            out.push(code);
            continue;
        }
        let Some(code) = codes.next() else {
            out.push(b'%');
            break;
        };
        match code {
            b'H' => write_padded(hour, 2, &mut out),
            b'k' => write_padded(hour, 1, &mut out),
            b'h' | b'I' => write_padded(twelve, 2, &mut out),
            b'l' => write_padded(twelve, 1, &mut out),
            b'i' => write_padded(minute, 2, &mut out),
            b's' | b'S' => write_padded(second, 2, &mut out),
            b'f' => write_padded(micros, 6, &mut out),
            b'p' => out.extend_from_slice(half),
            b'T' | b'r' => {
                for (index, part) in [if code == b'T' { hour } else { twelve }, minute, second].into_iter().enumerate()
                {
                    if index > 0 {
                        out.push(b':');
                    }
                    write_padded(part, 2, &mut out);
                }
                if code == b'r' {
                    out.push(b' ');
                    out.extend_from_slice(half);
                }
            }
            b'Y' if date == DateParts::Zero => out.extend_from_slice(b"0000"),
            b'y' | b'm' | b'd' if date == DateParts::Zero => out.extend_from_slice(b"00"),
            b'c' | b'e' if date == DateParts::Zero => out.push(b'0'),
            b'Y' | b'y' | b'm' | b'd' | b'c' | b'e' | b'a' | b'b' | b'D' | b'j' | b'M' | b'U' | b'u' | b'V' | b'v'
            | b'W' | b'w' | b'X' | b'x' => return None,
            other => out.push(other),
        }
    }
    Some(out)
}

fn get_format(kind: &str, region: &str) -> Option<&'static str> {
    const REGIONS: [&str; 5] = ["USA", "JIS", "ISO", "EUR", "INTERNAL"];
    let index = REGIONS.iter().position(|known| *known == region)?;
    let formats: [&'static str; 5] = match kind {
        "date" => ["%m.%d.%Y", "%Y-%m-%d", "%Y-%m-%d", "%d.%m.%Y", "%Y%m%d"],
        "time" => ["%h:%i:%s %p", "%H:%i:%s", "%H:%i:%s", "%H.%i.%s", "%H%i%s"],
        _ => ["%Y-%m-%d %H.%i.%s", "%Y-%m-%d %H:%i:%s", "%Y-%m-%d %H:%i:%s", "%Y-%m-%d %H.%i.%s", "%Y%m%d%H%i%s"],
    };
    Some(formats[index])
}

/// The last period.
const PERIOD_MAX: i64 = 999_912;

/// Months of a period YYYYMM or YYMM; none of what is no period.
fn months(period: i64) -> i64 {
    if !(1..=PERIOD_MAX).contains(&period) {
        return 0;
    }
    let year = period / 100;
    let year = if year < 100 { temporal::century(year) } else { year };
    year * 12 + period % 100 - 1
}

/// The period so many months after another, which counts in 32 bits as MariaDB does.
fn to_period(months: i64, more: i64) -> i64 {
    let months = i64::from(months.wrapping_add(more) as u32);
    if months == 0 {
        return 0;
    }
    let year = months / 12;
    let year = if year < 100 { temporal::century(year) } else { year };
    year * 100 + months % 12 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, format: &str, expected: Option<&str>) {
        let found = read_date(text.as_bytes(), format.as_bytes()).map(|found| {
            let mut out = Vec::new();
            found.write(0, &mut out);
            String::from_utf8(out).unwrap()
        });
        assert_eq!(found.as_deref(), expected, "{text} {format}");
    }

    #[test]
    fn dates_by_format() {
        check("02/01/2024", "%d/%m/%Y", Some("2024-01-02 00:00:00"));
        check("Jan 2, 2024", "%b %e, %Y", Some("2024-01-02 00:00:00"));
        check("10:11:12 PM", "%r", Some("0000-00-00 22:11:12"));
        check("2024 60", "%Y %j", Some("2024-02-29 00:00:00"));
        check("2024-13-01", "%Y-%m-%d", None);
        check("abc", "%Y", None);
    }

    #[test]
    fn times_by_format() {
        let check = |time: i64, format: &str, expected: &str| {
            assert_eq!(time_format(time, format.as_bytes(), DateParts::Null).unwrap(), expected.as_bytes());
        };
        check(15 * 3_600_000_000, "%H %k %h %l %p %r", "15 15 03 3 PM 03:00:00 PM");
        check(-3_600_000_000, "%T", "-01:00:00");
        assert!(time_format(0, b"%W", DateParts::Null).is_none());
    }

    #[test]
    fn periods() {
        assert_eq!(to_period(months(202_401), 3), 202_404);
        assert_eq!(to_period(months(1), -50), 199_511);
        assert_eq!(to_period(months(202_401), i64::MAX), 202_312);
        assert_eq!(to_period(months(i64::MAX), 1), 200_002);
        assert_eq!(months(202_403) - months(202_312), 3);
    }
}
