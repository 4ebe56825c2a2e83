//! Dates, times and intervals.

use sqlparser::ast::Expr;

use super::{
    Family, Function, Want,
    abi::{Args, Out, Udf},
    bigint, int, rewrite, string_value, udf,
};
use crate::{
    dialect::SPECIAL,
    errors,
    translate::{
        Code, Ex, Res, Source, Translator,
        expr::{arguments, unnest},
        scope::Scope,
    },
    value::{
        Base, Rep, SqlType,
        collation::Collation,
        number::parse_int,
        temporal::{
            DAY_MICROS, Datetime, TIMESTAMPS, day_number, days_in_month, from_day_number, is_leap, write_padded,
        },
    },
};
use tidegate_rows::ServerError;

type Done = Result<(), ServerError>;

pub(super) const FAMILY: Family = Family { functions: FUNCTIONS, udfs: UDFS, aggregates: &[] };

#[rustfmt::skip]
static UDFS: &[Udf] = &[
    // The moment of the call, unlike NOW().
    Udf::fresh("tg_sysdate", 1, |args, out| {
        let now = crate::env::current(|env| env.clock_local()).unwrap_or_default();
        out.int(now.truncate(args.int(0).clamp(0, 6) as u8).pack());
        Ok(())
    }),
    Udf::new("tg_time_as_date_format", 2, |args, out| {
        if let Some(text) = super::clock::time_format(args.int(0), args.bytes(1), super::clock::DateParts::Zero) {
            out.text(text);
        }
        Ok(())
    }),
    Udf::new("tg_date_format", 2, |args, out| {
        if let Some(text) = format(Datetime::unpack(args.int(0)), args.bytes(1)) {
            out.text(text);
        }
        Ok(())
    }),
    Udf::new("tg_date_add", 4, date_add),
    Udf::new("tg_time_add", 4, time_add),
    Udf::new("tg_diff", 3, difference),
    Udf::new("tg_to_unix", 1, |args, out| {
        let moment = Datetime::unpack(args.int(0));
        if moment.has_zero() {
            return Ok(());
        }
        let Some(micros) = crate::value::local::local_to_timestamp(moment).filter(|micros| TIMESTAMPS.contains(micros)) else {
            return Ok(());
        };
        out.dec(crate::value::decimal::Decimal { mantissa: i128::from(micros), scale: 6 });
        Ok(())
    }),
    Udf::new("tg_from_unix", 1, |args, out| {
        let seconds = args.dec(0);
        let micros = seconds.rescale(6).map_or(-1, |value| i64::try_from(value.mantissa).unwrap_or(-1));
        if TIMESTAMPS.contains(&micros) {
            let local = if micros == 0 { crate::value::local::timestamp_to_local(1) } else { crate::value::local::timestamp_to_local(micros) };
            out.int(Datetime { micros: micros % 1_000_000, ..local }.pack());
        }
        Ok(())
    }),
    // `tg_dt_text(packed, text, with time, digits)`: the sum of a text and an interval is a text.
    Udf::lenient("tg_dt_text", 4, |args, out| {
        if args.is_null(0) {
            return Ok(());
        }
        let moment = Datetime::unpack(args.int(0));
        let mut text = Vec::new();
        let had_time = crate::value::temporal::parse_datetime(args.bytes(1)).is_some_and(|parsed| parsed.has_time);
        if args.int(2) != 0 || had_time || moment.time_micros() != 0 {
            let own = || crate::value::temporal::parse_datetime(args.bytes(1)).map_or(0, |parsed| parsed.decimals);
            let digits = match args.int(3) {
                100.. => 6,
                -1 => own(),
                _ if moment.micros == 0 => 0,
                digits => digits.clamp(1, 6) as u8,
            };
            moment.write(digits, &mut text);
        } else {
            moment.write_date(&mut text);
        }
        out.text(text);
        Ok(())
    }),
    Udf::new("tg_sec_to_time", 1, |args, out| {
        let most = crate::value::temporal::TIME_MAX;
        let seconds = args.dec(0);
        let micros = seconds.rescale(6).and_then(|micros| i64::try_from(micros.mantissa).ok());
        let limit = if seconds.mantissa < 0 { -most } else { most };
        out.int(micros.map_or(limit, super::operators::clamp_time));
        Ok(())
    }),
    Udf::new("tg_micros_dec", 1, |args, out| {
        out.dec(crate::value::decimal::Decimal { mantissa: i128::from(args.int(0)), scale: 6 });
        Ok(())
    }),
    Udf::new("tg_week", 2, |args, out| {
        let moment = Datetime::unpack(args.int(0));
        if !moment.has_zero() {
            out.int(week(moment, args.int(1)).1);
        }
        Ok(())
    }),
    Udf::new("tg_yearweek", 2, |args, out| {
        let moment = Datetime::unpack(args.int(0));
        if !moment.has_zero() {
            let (year, number) = week(moment, args.int(1) | 2);
            out.int(year * 100 + number);
        }
        Ok(())
    }),
];

fn now_type(decimals: u8) -> SqlType {
    SqlType::temporal(Base::Datetime, decimals)
}

fn now(t: &mut Translator<'_>, args: &[Ex], utc: bool) -> Res<Ex> {
    let decimals = fraction_digits(t, args)?;
    Ok(Ex::constant(Source::Now { decimals, utc }, now_type(decimals)))
}

fn fraction_digits(t: &mut Translator<'_>, args: &[Ex]) -> Res<u8> {
    match args.first() {
        None => Ok(0),
        Some(digits) => match t.constant_int(digits) {
            Some(digits @ 0..=6) => Ok(digits as u8),
            _ => Err(errors::syntax("precision")),
        },
    }
}

fn today(utc: bool) -> Ex {
    Ex::constant(Source::Today { utc }, SqlType::new(Base::Date))
}

fn clock(t: &mut Translator<'_>, args: &[Ex], utc: bool) -> Res<Ex> {
    let decimals = fraction_digits(t, args)?;
    Ok(Ex::constant(Source::TimeOfDay { decimals, utc }, SqlType::temporal(Base::Time, decimals)))
}

macro_rules! date_part {
    ($name:literal, $sqlite:literal, $digits:literal, $f:expr) => {
        udf(
            $name,
            $sqlite,
            1,
            1,
            &[Want::Datetime],
            |_| SqlType::whole($digits, false),
            |args, out| {
                let f: fn(Datetime) -> Option<i64> = $f;
                if let Some(value) = f(Datetime::unpack(args.int(0))) {
                    out.int(value);
                }
                Ok(())
            },
        )
    };
}

macro_rules! time_part {
    ($name:literal, $sqlite:literal, $f:expr) => {
        udf($name, $sqlite, 1, 1, &[Want::Time], int, |args, out| {
            let f: fn(i64) -> i64 = $f;
            out.int(f(args.int(0).abs()));
            Ok(())
        })
    };
}

#[rustfmt::skip]
static FUNCTIONS: &[Function] = &[
    rewrite("NOW", 0, 1, |t, args| now(t, args, false)),
    rewrite("SYSDATE", 0, 1, |t, args| {
        let decimals = fraction_digits(t, args)?;
        t.effects.note_fresh();
        Ok(Ex::sql(format!("tg_sysdate({decimals})"), now_type(decimals)).with_nullable(false))
    }),
    rewrite("CURRENT_TIMESTAMP", 0, 1, |t, args| now(t, args, false)),
    rewrite("LOCALTIME", 0, 1, |t, args| now(t, args, false)),
    rewrite("LOCALTIMESTAMP", 0, 1, |t, args| now(t, args, false)),
    rewrite("UTC_TIMESTAMP", 0, 1, |t, args| now(t, args, true)),
    rewrite("CURDATE", 0, 0, |_, _| Ok(today(false))),
    rewrite("CURRENT_DATE", 0, 0, |_, _| Ok(today(false))),
    rewrite("UTC_DATE", 0, 0, |_, _| Ok(today(true))),
    rewrite("CURTIME", 0, 1, |t, args| clock(t, args, false)),
    rewrite("CURRENT_TIME", 0, 1, |t, args| clock(t, args, false)),
    rewrite("UTC_TIME", 0, 1, |t, args| clock(t, args, true)),
    rewrite("DATE", 1, 1, |t, args| { let sql = t.convert(&args[0], Rep::Datetime); Ok(Ex::sql(format!("tg_date({sql})"), SqlType::new(Base::Date))) }),
    rewrite("TIME", 1, 1, time),
    rewrite("TIMESTAMP", 1, 2, |t, args| {
        if let [moment, time] = args {
            let digits = temporal_digits(t, moment).max(temporal_digits(t, time));
            let (a, b) = (t.convert(moment, Rep::Datetime), super::clock::duration(t, time));
            return Ok(Ex::sql(format!("tg_datetime_plus({a}, {b}, 1)"), now_type(digits)));
        }
        let sql = t.convert(&args[0], Rep::Datetime); let digits = temporal_digits(t, &args[0]); Ok(Ex::sql(sql, now_type(digits))) }),
    rewrite("UNIX_TIMESTAMP", 0, 1, unix_timestamp),
    rewrite("FROM_UNIXTIME", 1, 2, from_unixtime),
    rewrite("ADDDATE", 2, 2, |t, args| add_days(t, &args[0], &args[1], false)),
    rewrite("SUBDATE", 2, 2, |t, args| add_days(t, &args[0], &args[1], true)),
    rewrite("TIMESTAMPDIFF", 3, 3, |t, args| {
        let unit = t.constant_text(&args[0]).ok_or_else(|| errors::syntax("TIMESTAMPDIFF"))?;
        let (a, b) = (t.convert(&args[1], Rep::Datetime), t.convert(&args[2], Rep::Datetime));
        Ok(Ex::sql(format!("tg_diff({a}, {b}, '{unit}')"), SqlType::bigint()))
    }),
    rewrite("TIMESTAMPADD", 3, 3, |t, args| {
        let unit = t.constant_text(&args[0]).ok_or_else(|| errors::syntax("TIMESTAMPADD"))?;
        add(t, &args[2], &args[1], &unit, false)
    }),
    date_part!("YEAR", "f_year", 4, |d| Some(d.year)),
    date_part!("MONTH", "f_month", 2, |d| Some(d.month)),
    date_part!("DAY", "f_day", 2, |d| Some(d.day)),
    date_part!("DAYOFMONTH", "f_dayofmonth", 2, |d| Some(d.day)),
    date_part!("QUARTER", "f_quarter", 2, |d| Some((d.month + 2) / 3)),
    date_part!("DAYOFWEEK", "f_dayofweek", 1, |d| d.days().map(|days| (days + 6) % 7 + 1)),
    date_part!("WEEKDAY", "f_weekday", 1, |d| d.days().map(|days| (days + 5) % 7)),
    date_part!("DAYOFYEAR", "f_dayofyear", 3, |d| d.days().map(|days| days - day_number(d.year, 1, 1) + 1)),
    date_part!("TO_DAYS", "f_to_days", 6, Datetime::days),
    date_part!("WEEKOFYEAR", "f_weekofyear", 2, |d| (!d.has_zero()).then(|| week(d, 3).1)),
    rewrite("WEEK", 1, 2, |t, args| { let (d, m) = (t.convert(&args[0], Rep::Datetime), week_mode(t, args)); Ok(Ex::sql(format!("tg_week({d}, {m})"), int(&[]))) }),
    rewrite("YEARWEEK", 1, 2, |t, args| { let (d, m) = (t.convert(&args[0], Rep::Datetime), week_mode(t, args)); Ok(Ex::sql(format!("tg_yearweek({d}, {m})"), int(&[]))) }),
    time_part!("HOUR", "f_hour", |t| t / 3_600_000_000),
    time_part!("MINUTE", "f_minute", |t| t / 60_000_000 % 60),
    time_part!("SECOND", "f_second", |t| t / 1_000_000 % 60),
    time_part!("MICROSECOND", "f_microsecond", |t| t % 1_000_000),
    rewrite("TIME_TO_SEC", 1, 1, |t, args| {
        let digits = text_digits(t, &args[0]);
        let sql = t.convert(&args[0], Rep::Time);
        if digits == 0 {
            return Ok(Ex::sql(format!("({sql} / 1000000)"), SqlType::bigint()));
        }
        Ok(Ex::sql(format!("tg_micros_dec({sql})"), SqlType::decimal(16, digits)))
    }),
    rewrite("SEC_TO_TIME", 1, 1, |t, args| {
        let digits = match args[0].ty.rep() {
            Rep::Int | Rep::Uint | Rep::Null => 0,
            Rep::Dec => args[0].ty.decimals.min(6),
            _ => 6,
        };
        let sql = t.convert(&args[0], Rep::Dec);
        Ok(Ex::sql(format!("tg_sec_to_time({sql})"), SqlType::temporal(Base::Time, digits)))
    }),
    udf("FROM_DAYS", "f_from_days", 1, 1, &[Want::Int], |_| SqlType::new(Base::Date), |args, out| { out.int(from_day_number(args.int(0)).unwrap_or_default().pack()); Ok(()) }),
    udf("LAST_DAY", "f_last_day", 1, 1, &[Want::Datetime], |_| SqlType::new(Base::Date), |args, out| {
        let d = Datetime::unpack(args.int(0));
        if d.month != 0 {
            out.int(Datetime { day: days_in_month(d.year, d.month), ..d }.date_only().pack());
        }
        Ok(())
    }),
    udf("DATEDIFF", "f_datediff", 2, 2, &[Want::Datetime], int, |args, out| {
        if let (Some(a), Some(b)) = (Datetime::unpack(args.int(0)).days(), Datetime::unpack(args.int(1)).days()) {
            out.int(a - b);
        }
        Ok(())
    }),
    udf("MAKEDATE", "f_makedate", 2, 2, &[Want::Int], |_| SqlType::new(Base::Date), |args, out| {
        let (year, day) = (args.int(0), args.int(1));
        let year = if (0..100).contains(&year) { crate::value::temporal::century(year) } else { year };
        if (0..=9999).contains(&year)
            && (1..=4_000_000).contains(&day)
            && let Some(date) = from_day_number(day_number(year, 1, 1) + day - 1)
        {
            out.int(date.pack());
        }
        Ok(())
    }),
    udf("DAYNAME", "f_dayname", 1, 1, &[Want::Datetime], |_| SqlType::varchar(9, Collation::DEFAULT), |args, out| {
        if let Some(days) = Datetime::unpack(args.int(0)).days() {
            out.text(DAYS[((days + 6) % 7) as usize]);
        }
        Ok(())
    }),
    udf("MONTHNAME", "f_monthname", 1, 1, &[Want::Datetime], |_| SqlType::varchar(9, Collation::DEFAULT), |args, out| {
        let month = Datetime::unpack(args.int(0)).month;
        if month > 0 {
            out.text(MONTHS[month as usize - 1]);
        }
        Ok(())
    }),
    rewrite("DATE_FORMAT", 2, 2, |t, args| {
        // A TIME has no date here, not even today's.
        if args[0].ty.base == Base::Time {
            let (time, format) = (t.text(&args[0]), t.wanted(&args[1], Want::Text));
            let sql = format!("tg_time_as_date_format({time}, {format})");
            return Ok(Ex::sql(sql, SqlType::varchar(255, Collation::DEFAULT)));
        }
        let (moment, format) = (t.convert(&args[0], Rep::Datetime), t.wanted(&args[1], Want::Text));
        Ok(Ex::sql(format!("tg_date_format({moment}, {format})"), SqlType::varchar(255, Collation::DEFAULT)))
    }),
    udf("TO_SECONDS", "f_to_seconds", 1, 1, &[Want::Datetime], bigint, |args, out| {
        if let Some(total) = Datetime::unpack(args.int(0)).total_micros() {
            out.int(total / 1_000_000);
        }
        Ok(())
    }),
];

pub(super) static DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
pub(super) static MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The mode of WEEK and YEARWEEK: NULL is 0.
fn week_mode(t: &mut Translator<'_>, args: &[Ex]) -> String {
    args.get(1).map_or("0".to_owned(), |mode| format!("ifnull({}, 0)", t.convert(mode, Rep::Int)))
}

/// TIME(): whole seconds of a `?`, whose digits MariaDB does not know when it prepares the statement.
fn time(t: &mut Translator<'_>, args: &[Ex]) -> Res<Ex> {
    let sql = t.convert(&args[0], Rep::Time);
    if matches!(args[0].code, Code::Const(Source::Param(_))) {
        return Ok(Ex::sql(format!("({sql} / 1000000 * 1000000)"), SqlType::temporal(Base::Time, 0)));
    }
    let digits = temporal_digits(t, &args[0]);
    Ok(Ex::sql(sql, SqlType::temporal(Base::Time, digits)))
}

/// Digits of a second that a value has: those of a constant text are counted.
fn temporal_digits(t: &mut Translator<'_>, ex: &Ex) -> u8 {
    if ex.ty.base.is_temporal() {
        return ex.ty.decimals.min(6);
    }
    if !ex.ty.base.is_character() {
        return if ex.ty.rep() == Rep::Dec { ex.ty.decimals.min(6) } else { 0 };
    }
    match t.constant_text(ex) {
        Some(text) => {
            let parsed = crate::value::temporal::parse_datetime(text.as_bytes()).map(|parsed| parsed.decimals);
            let parsed =
                parsed.or_else(|| crate::value::temporal::parse_time(text.as_bytes()).map(|(.., digits)| digits));
            parsed.unwrap_or(0).min(6)
        }
        None => 6,
    }
}

/// As [`temporal_digits`]; a constant text that is no time may have any.
fn text_digits(t: &mut Translator<'_>, ex: &Ex) -> u8 {
    use crate::value::temporal::{parse_datetime, parse_time};
    let text = if ex.ty.base.is_character() { t.constant_text(ex) } else { None };
    match text {
        Some(text) if parse_datetime(text.as_bytes()).is_none() && parse_time(text.as_bytes()).is_none() => 6,
        Some(text) if text.trim().is_empty() => 6,
        _ => temporal_digits(t, ex),
    }
}

fn unix_timestamp(t: &mut Translator<'_>, args: &[Ex]) -> Res<Ex> {
    let now;
    let moment = match args.first() {
        Some(moment) => moment,
        None => {
            now = Ex::constant(Source::Now { decimals: 0, utc: false }, now_type(0));
            &now
        }
    };
    let digits = text_digits(t, moment);
    let sql = t.convert(moment, Rep::Datetime);
    if digits == 0 {
        let code = crate::translate::conversion_code(Rep::Dec, Rep::Int);
        return Ok(Ex::sql(format!("tg_cv(tg_dec_truncto(tg_to_unix({sql}), 0), {code}, 0, 0, 0)"), SqlType::bigint()));
    }
    Ok(Ex::sql(format!("tg_to_unix({sql})"), SqlType::decimal(17, digits)))
}

fn from_unixtime(t: &mut Translator<'_>, args: &[Ex]) -> Res<Ex> {
    let digits = match args[0].ty.rep() {
        Rep::Int | Rep::Uint => 0,
        Rep::Dec => args[0].ty.decimals.min(6),
        // A constant text shows whether it has a fraction.
        _ if t.constant_text(&args[0]).is_some_and(|text| !text.contains('.')) => 0,
        _ => 6,
    };
    let sql = t.convert(&args[0], Rep::Dec);
    let moment = Ex::sql(format!("tg_from_unix({sql})"), now_type(digits));
    match args.get(1) {
        None => Ok(moment),
        Some(format) => super::call(t, "DATE_FORMAT", &[moment, format.clone()]),
    }
}

/// `date + INTERVAL …`: `amount` is the parsed interval.
///
/// # Errors
/// Those of the amount.
pub(crate) fn interval(t: &mut Translator<'_>, date: Ex, amount: &Expr, minus: bool, scope: &Scope<'_>) -> Res<Ex> {
    let Expr::Function(function) = amount else { return Err(errors::syntax(amount)) };
    let args = arguments(&function.args)?;
    let [value, unit] = args.as_slice() else { return Err(errors::syntax(amount)) };
    let value = t.expr(value, scope)?;
    add(t, &date, &value, &string_value(unit), minus)
}

/// DATE_ADD and its kin take an interval as second argument.
pub(super) fn with_interval(
    t: &mut Translator<'_>,
    name: &str,
    function: &sqlparser::ast::Function,
    scope: &Scope<'_>,
) -> Option<Res<Ex>> {
    let minus = match name {
        "DATE_ADD" | "ADDDATE" => false,
        "DATE_SUB" | "SUBDATE" => true,
        _ => return None,
    };
    let args = match arguments(&function.args) {
        Ok(args) => args,
        Err(error) => return Some(Err(error)),
    };
    let [date, amount] = args.as_slice() else { return Some(Err(errors::wrong_param_count(name))) };
    let is_interval = matches!(unnest(amount), Expr::Function(f) if f.name.to_string().trim_matches('`').strip_prefix(SPECIAL) == Some("interval"));
    if !is_interval {
        return name.starts_with("DATE").then(|| Err(errors::syntax(amount)));
    }
    Some(t.expr(date, scope).and_then(|date| interval(t, date, unnest(amount), minus, scope)))
}

/// Whether a function takes dates with intervals alone, which is no function like others.
pub(super) fn is_of_intervals(name: &str) -> bool {
    matches!(name, "DATE_ADD" | "DATE_SUB")
}

fn add_days(t: &mut Translator<'_>, date: &Ex, days: &Ex, minus: bool) -> Res<Ex> {
    add(t, date, days, "day", minus)
}

fn add(t: &mut Translator<'_>, date: &Ex, amount: &Ex, unit: &str, minus: bool) -> Res<Ex> {
    let micros = unit.contains("microsecond");
    let clock = ["hour", "minute", "second"].iter().any(|part| unit.contains(part));
    // Seconds with a fraction keep it.
    let fraction = if unit == "second" { amount.ty.decimals.min(6) * u8::from(amount.ty.rep() == Rep::Dec) } else { 0 };
    let fraction = if unit == "second" && amount.ty.rep() == Rep::Text { 6 } else { fraction };
    let digits = if micros { 6 } else { date.ty.decimals.min(6).max(fraction) };
    let amount_sql = if unit == "second" && matches!(amount.ty.rep(), Rep::Dec | Rep::Real) {
        t.convert(amount, Rep::Text)
    } else if matches!(amount.ty.rep(), Rep::Text | Rep::Uint) {
        t.text(amount)
    } else {
        t.convert(amount, Rep::Int)
    };
    let sign = if minus { -1 } else { 1 };
    if date.ty.base == Base::Time {
        let sql = t.text(date);
        return Ok(Ex::sql(
            format!("tg_time_add({sql}, {amount_sql}, '{unit}', {sign})"),
            SqlType::temporal(Base::Time, digits),
        ));
    }
    let sql = t.convert(date, Rep::Datetime);
    let sum = format!("tg_date_add({sql}, {amount_sql}, '{unit}', {sign})");
    Ok(match date.ty.base {
        Base::Date if !clock && !micros => Ex::sql(sum, SqlType::new(Base::Date)),
        Base::Date | Base::Datetime | Base::Timestamp => Ex::sql(sum, now_type(digits)),
        _ => {
            // A text: the result is one too, with a time part if there is one.
            let keep = i32::from(clock || micros);
            let shown: i32 = match (unit, amount.ty.rep()) {
                _ if micros => 100,
                ("second", Rep::Text) => 100,
                ("second", Rep::Dec) => i32::from(fraction.max(1)),
                _ => -1,
            };
            let mut ty = SqlType { length: 26, ..SqlType::new(Base::Char) };
            ty.marks.dated = true;
            let text = t.convert(date, Rep::Text);
            Ex::sql(format!("tg_dt_text({sum}, {text}, {keep}, {shown})"), ty)
        }
    })
}

/// An interval: months, or microseconds.
fn amount_of(args: &Args<'_>) -> Option<(i64, i64)> {
    let unit = args.bytes(2);
    let sign = args.int(3);
    let text = match args.cell(1) {
        crate::store::conn::Cell::Int(value) => value.to_string().into_bytes(),
        crate::store::conn::Cell::Text(text) => text.to_vec(),
        crate::store::conn::Cell::Real(value) => (value.round() as i64).to_string().into_bytes(),
        _ => return None,
    };
    let single = |scale: i64| -> Option<i64> {
        i64::try_from(parse_int(&text).value).ok()?.checked_mul(scale)?.checked_mul(sign)
    };
    let micros = |scale: i64| single(scale).map(|micros| (0, micros));
    match unit {
        b"microsecond" => micros(1),
        b"second" => {
            let parsed = crate::value::number::parse_decimal(&text).value.rescale(6)?;
            Some((0, i64::try_from(parsed.mantissa).ok()?.checked_mul(sign)?))
        }
        b"minute" => micros(60_000_000),
        b"hour" => micros(3_600_000_000),
        b"day" => micros(DAY_MICROS),
        b"week" => micros(7 * DAY_MICROS),
        b"month" => single(1).map(|months| (months, 0)),
        b"quarter" => single(3).map(|months| (months, 0)),
        b"year" => single(12).map(|months| (months, 0)),
        _ => compound(unit, &text, sign),
    }
}

/// Units such as DAY_SECOND: numbers with anything between them, the last ones count if some are missing.
fn compound(unit: &[u8], text: &[u8], sign: i64) -> Option<(i64, i64)> {
    let trimmed = text.trim_ascii();
    let (sign, trimmed) = trimmed.strip_prefix(b"-").map_or((sign, trimmed), |rest| (-sign, rest));
    let numbers: Vec<&[u8]> = trimmed.split(|byte| !byte.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
    const SCALES: [(&str, i64); 6] = [
        ("day", DAY_MICROS),
        ("hour", 3_600_000_000),
        ("minute", 60_000_000),
        ("second", 1_000_000),
        ("microsecond", 1),
        ("", 0),
    ];
    let unit = std::str::from_utf8(unit).ok()?;
    let value = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<i64>().ok();
    if unit == "year_month" {
        let (years, months) = match numbers.as_slice() {
            [months] => (0, value(months)?),
            [years, months] => (value(years)?, value(months)?),
            _ => return None,
        };
        return Some((years.checked_mul(12)?.checked_add(months)?.checked_mul(sign)?, 0));
    }
    let (first, last) = unit.split_once('_')?;
    let from = SCALES.iter().position(|(name, _)| *name == first)?;
    let to = SCALES.iter().position(|(name, _)| *name == last)?;
    let wanted = to - from + 1;
    if numbers.len() > wanted {
        return None;
    }
    let mut total = 0i64;
    for (part, (name, scale)) in numbers.iter().rev().zip(SCALES[from..=to].iter().rev()) {
        let mut number = value(part)?;
        if *name == "microsecond" && part.len() < 6 {
            number *= 10i64.pow(6 - part.len() as u32);
        }
        total = total.checked_add(number.checked_mul(*scale)?)?;
    }
    Some((0, total.checked_mul(sign)?))
}

fn date_add(args: &Args<'_>, out: &mut Out) -> Done {
    let moment = Datetime::unpack(args.int(0));
    let Some((months, micros)) = amount_of(args) else { return Ok(()) };
    if moment.has_zero() {
        return Ok(());
    }
    let mut result = moment;
    if months != 0 {
        let Some(total) = (moment.year * 12 + moment.month - 1).checked_add(months) else { return Ok(()) };
        if !(0..=9999 * 12 + 11).contains(&total) {
            return overflow();
        }
        (result.year, result.month) = (total / 12, total % 12 + 1);
        result.day = result.day.min(days_in_month(result.year, result.month));
    }
    if micros != 0 {
        let sum =
            result.total_micros().and_then(|total| total.checked_add(micros)).and_then(Datetime::from_total_micros);
        let Some(sum) = sum else { return overflow() };
        result = sum;
    }
    out.int(result.pack());
    Ok(())
}

fn overflow() -> Done {
    crate::env::current(|env| env.warn(errors::datetime_overflow("datetime")));
    Ok(())
}

fn time_add(args: &Args<'_>, out: &mut Out) -> Done {
    let Some((0, micros)) = amount_of(args) else { return Ok(()) };
    match args.int(0).checked_add(micros) {
        Some(sum) if sum.abs() <= crate::value::temporal::TIME_MAX => out.int(sum),
        _ => return overflow(),
    }
    Ok(())
}

fn difference(args: &Args<'_>, out: &mut Out) -> Done {
    let (a, b) = (Datetime::unpack(args.int(0)), Datetime::unpack(args.int(1)));
    let (Some(from), Some(to)) = (a.total_micros(), b.total_micros()) else { return Ok(()) };
    let micros = to - from;
    let months = || {
        let (low, high, sign) = if micros < 0 { (b, a, -1) } else { (a, b, 1) };
        let mut months = (high.year - low.year) * 12 + high.month - low.month;
        if (high.day, high.time_micros()) < (low.day, low.time_micros()) {
            months -= 1;
        }
        months * sign
    };
    out.int(match args.bytes(2) {
        b"microsecond" => micros,
        b"second" => micros / 1_000_000,
        b"minute" => micros / 60_000_000,
        b"hour" => micros / 3_600_000_000,
        b"day" => micros / DAY_MICROS,
        b"week" => micros / DAY_MICROS / 7,
        b"month" => months(),
        b"quarter" => months() / 3,
        b"year" => months() / 12,
        _ => return Err(errors::syntax("TIMESTAMPDIFF")),
    });
    Ok(())
}

/// Year and number of the week, by WEEK()'s mode: bit 0 Monday first, bit 1 weeks 1-53, bit 2 the first week holds a first weekday.
pub(super) fn week(d: Datetime, mode: i64) -> (i64, i64) {
    let mode = mode & 7;
    let (monday, mut by_year, first_weekday) = (mode & 1 != 0, mode & 2 != 0, (mode & 4 != 0) ^ (mode & 1 == 0));
    let day = day_number(d.year, d.month, d.day);
    let mut year = d.year;
    let mut first = day_number(year, 1, 1);
    let weekday_of = |days: i64| if monday { (days + 5) % 7 } else { (days + 6) % 7 };
    let mut weekday = weekday_of(first);
    if d.month == 1 && d.day <= 7 - weekday {
        if !by_year && (first_weekday && weekday != 0 || !first_weekday && weekday >= 4) {
            return (year, 0);
        }
        by_year = true;
        year -= 1;
        let days = if is_leap(year) { 366 } else { 365 };
        first -= days;
        weekday = (weekday + 53 * 7 - days) % 7;
        if !(first_weekday && weekday_of(first + days) != 0 || !first_weekday && weekday_of(first + days) >= 4) {
            // The week belongs to the new year after all.
            year += 1;
            first += days;
            weekday = weekday_of(first);
        }
    }
    let days = if first_weekday && weekday != 0 || !first_weekday && weekday >= 4 {
        day - (first + (7 - weekday))
    } else {
        day - (first - weekday)
    };
    if by_year && days >= 52 * 7 {
        let length = if is_leap(year) { 366 } else { 365 };
        let next = (weekday + length) % 7;
        if !first_weekday && next < 4 || first_weekday && next == 0 {
            return (year + 1, 1);
        }
    }
    (year, days / 7 + 1)
}

/// DATE_FORMAT.
fn format(d: Datetime, format: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut bytes = format.iter().copied();
    let twelve = |hour: i64| (hour + 11) % 12 + 1;
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let Some(code) = bytes.next() else {
            out.push(b'%');
            break;
        };
        match code {
            b'Y' => write_padded(d.year, 4, &mut out),
            b'y' => write_padded(d.year % 100, 2, &mut out),
            b'm' => write_padded(d.month, 2, &mut out),
            b'c' => write_padded(d.month, 1, &mut out),
            b'd' => write_padded(d.day, 2, &mut out),
            b'e' => write_padded(d.day, 1, &mut out),
            b'D' => {
                write_padded(d.day, 1, &mut out);
                out.extend_from_slice(match (d.day, d.day % 10) {
                    (11..=13, _) => b"th",
                    (_, 1) => b"st",
                    (_, 2) => b"nd",
                    (_, 3) => b"rd",
                    _ => b"th",
                });
            }
            b'H' => write_padded(d.hour, 2, &mut out),
            b'k' => write_padded(d.hour, 1, &mut out),
            b'h' | b'I' => write_padded(twelve(d.hour), 2, &mut out),
            b'l' => write_padded(twelve(d.hour), 1, &mut out),
            b'i' => write_padded(d.minute, 2, &mut out),
            b's' | b'S' => write_padded(d.second, 2, &mut out),
            b'f' => write_padded(d.micros, 6, &mut out),
            b'p' => out.extend_from_slice(if d.hour < 12 { b"AM" } else { b"PM" }),
            b'T' => {
                for (index, part) in [d.hour, d.minute, d.second].into_iter().enumerate() {
                    if index > 0 {
                        out.push(b':');
                    }
                    write_padded(part, 2, &mut out);
                }
            }
            b'r' => {
                for (index, part) in [twelve(d.hour), d.minute, d.second].into_iter().enumerate() {
                    if index > 0 {
                        out.push(b':');
                    }
                    write_padded(part, 2, &mut out);
                }
                out.extend_from_slice(if d.hour < 12 { b" AM" } else { b" PM" });
            }
            b'M' | b'b' => {
                let name = MONTHS.get(usize::try_from(d.month - 1).ok()?)?;
                out.extend_from_slice(if code == b'b' { &name.as_bytes()[..3] } else { name.as_bytes() });
            }
            b'W' | b'a' => {
                let name = DAYS[((d.days()? + 6) % 7) as usize];
                out.extend_from_slice(if code == b'a' { &name.as_bytes()[..3] } else { name.as_bytes() });
            }
            b'w' => write_padded((d.days()? + 6) % 7, 1, &mut out),
            b'j' => write_padded(d.days()? - day_number(d.year, 1, 1) + 1, 3, &mut out),
            b'u' | b'v' | b'U' | b'V' | b'x' | b'X' => {
                d.days()?;
                let mode = match code {
                    b'U' => 0,
                    b'u' => 1,
                    b'V' | b'X' => 2,
                    _ => 3,
                };
                let (year, number) = week(d, mode);
                if matches!(code, b'x' | b'X') {
                    write_padded(year, 4, &mut out)
                } else {
                    write_padded(number, 2, &mut out)
                }
            }
            other => out.push(other),
        }
    }
    Some(out)
}
