//! EXTRACT: parts of dates, of times, and of texts that are either.

use super::{
    Family,
    abi::{Out, Udf},
    datetime::week,
};
use crate::{
    translate::{Ex, Res, Translator},
    value::{
        Base, Rep, SqlType,
        temporal::{DAY_MICROS, Datetime, parse_time},
    },
};

pub(super) const FAMILY: Family = Family { functions: &[], udfs: UDFS, aggregates: &[] };

#[rustfmt::skip]
static UDFS: &[Udf] = &[
    Udf::new("tg_extract", 2, |args, out| { extract_value(Datetime::unpack(args.int(0)), args.bytes(1), out); Ok(()) }),
    Udf::new("tg_extract_time", 2, |args, out| { extract_time(args.int(0), args.bytes(1), out); Ok(()) }),
    // A text that is a time; NULL for a date, with a time or alone.
    Udf::new("tg_extract_clock", 2, |args, out| {
        let text = args.bytes(0).trim_ascii();
        let digits = !text.is_empty() && text.len() <= 7 && text.iter().all(u8::is_ascii_digit);
        let of_day = args.bytes(1).starts_with(b"day");
        let is_clock = text.contains(&b':') && !text.iter().skip(1).any(|byte| matches!(byte, b'-' | b'/'));
        let time = if is_clock || digits && !of_day { parse_time(text) } else { None };
        if let Some((time, ..)) = time {
            extract_time(time, args.bytes(1), out);
        }
        Ok(())
    }),
];

/// `EXTRACT(unit FROM value)`.
///
/// # Errors
/// None beyond those of conversions.
pub(super) fn extract(t: &mut Translator<'_>, unit: &str, ex: &Ex) -> Res<Ex> {
    if ex.ty.base == Base::Time {
        let sql = t.text(ex);
        return Ok(Ex::sql(format!("tg_extract_time({sql}, '{unit}')"), extract_type(unit, ex)));
    }
    let sql = t.convert(ex, Rep::Datetime);
    let sql = format!("tg_extract({sql}, '{unit}')");
    let of_time = !matches!(unit, "year" | "quarter" | "month" | "week" | "year_month");
    if of_time && (ex.ty.base.is_character() || ex.ty.base.is_binary()) {
        let text = t.text(ex);
        return Ok(Ex::sql(format!("ifnull(tg_extract_clock({text}, '{unit}'), {sql})"), extract_type(unit, ex)));
    }
    Ok(Ex::sql(sql, extract_type(unit, ex)))
}

/// Units of many digits need a BIGINT: those of a text may have more days.
fn extract_type(unit: &str, of: &Ex) -> SqlType {
    let long = match unit {
        "day_microsecond" | "hour_microsecond" | "minute_microsecond" => true,
        "day_second" | "day_minute" => !of.ty.base.is_temporal(),
        _ => false,
    };
    if long { SqlType::bigint() } else { SqlType::new(Base::Int) }
}

fn extract_value(d: Datetime, unit: &[u8], out: &mut Out) {
    let seconds = (d.hour * 100 + d.minute) * 100 + d.second;
    out.int(match unit {
        b"year" => d.year,
        b"quarter" => (d.month + 2) / 3,
        b"month" => d.month,
        b"week" if d.has_zero() => return,
        b"week" => week(d, 0).1,
        b"day" => d.day,
        b"year_month" => d.year * 100 + d.month,
        b"day_hour" => d.day * 100 + d.hour,
        b"day_minute" => (d.day * 100 + d.hour) * 100 + d.minute,
        b"day_second" => d.day * 1_000_000 + seconds,
        b"day_microsecond" => (d.day * 1_000_000 + seconds) * 1_000_000 + d.micros,
        _ => return extract_time(d.time_micros(), unit, out),
    });
}

/// A part of a time, in which 24 hours are a day.
fn extract_time(time: i64, unit: &[u8], out: &mut Out) {
    let sign = time.signum();
    let t = time.abs();
    let (day, hour, minute) = (t / DAY_MICROS, t / 3_600_000_000 % 24, t / 60_000_000 % 60);
    let (second, micros) = (t / 1_000_000 % 60, t % 1_000_000);
    let clock = (hour * 100 + minute) * 100 + second;
    let value = match unit {
        b"year" | b"quarter" | b"month" | b"year_month" => 0,
        b"day" => day,
        b"day_hour" => day * 100 + hour,
        b"day_minute" => (day * 100 + hour) * 100 + minute,
        b"day_second" => day * 1_000_000 + clock,
        b"day_microsecond" => (day * 1_000_000 + clock) * 1_000_000 + micros,
        b"hour" => hour,
        b"minute" => minute,
        b"second" => second,
        b"microsecond" => micros,
        b"hour_minute" => hour * 100 + minute,
        b"hour_second" => clock,
        b"hour_microsecond" => clock * 1_000_000 + micros,
        b"minute_second" => minute * 100 + second,
        b"minute_microsecond" => (minute * 100 + second) * 1_000_000 + micros,
        b"second_microsecond" => second * 1_000_000 + micros,
        _ => return,
    };
    out.int(if sign < 0 { -value } else { value });
}
