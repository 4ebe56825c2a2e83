//! Operators: arithmetic with MySQL's types and errors, bits, LIKE, conversions.

use super::{
    Family,
    abi::{Args, Out, Udf},
};
use crate::{
    env, errors,
    translate::rep_of_code,
    value::{
        Base, Rep, Val,
        collation::Collation,
        decimal::{Decimal, SCALE_MAX},
        temporal::Datetime,
        val::Incorrect,
    },
};
use tidegate_rows::ServerError;

type Done = Result<(), ServerError>;

pub(super) const FAMILY: Family = Family { functions: &[], udfs: UDFS, aggregates: &[] };

#[rustfmt::skip]
static UDFS: &[Udf] = &[
    Udf::new("tg_cv", 5, convert),
    Udf::new("tg_cv_lenient", 5, |args, out| {
        let strict = env::current(|env| env.abort_on_warning.replace(false)).unwrap_or(false);
        let result = convert(args, out);
        env::current(|env| env.abort_on_warning.set(strict));
        result
    }),
    // `tg_dated_number(text)`: a date, or a date with its time, as a number.
    Udf::new("tg_dated_number", 1, |args, out| {
        let Some(parsed) = crate::value::temporal::parse_datetime(args.bytes(0)) else { return Ok(()) };
        let number = parsed.value.to_number();
        let whole = if parsed.has_time { number } else { number / 1_000_000 };
        out.dec(Decimal { mantissa: i128::from(whole) * 1_000_000 + i128::from(parsed.value.micros), scale: 6 });
        Ok(())
    }),
    Udf::new("tg_enum", 2, enum_text),
    Udf::new("tg_set", 2, set_text),
    Udf::new("tg_int_add", 3, |args, out| int(args, out, "+", |a, b| a + b)),
    Udf::new("tg_int_sub", 3, |args, out| int(args, out, "-", |a, b| a - b)),
    Udf::new("tg_int_mul", 3, int_mul),
    Udf::new("tg_int_div", 3, int_div),
    Udf::new("tg_int_mod", 2, int_mod),
    Udf::new("tg_neg", 1, negate),
    Udf::new("tg_real", 1, real),
    Udf::new("tg_real_div", 2, real_div),
    Udf::new("tg_real_mod", 2, real_mod),
    Udf::new("tg_dec_add", 3, |args, out| dec(args, out, "+", Decimal::add)),
    Udf::new("tg_dec_sub", 3, |args, out| dec(args, out, "-", Decimal::sub)),
    Udf::new("tg_dec_mul", 3, |args, out| dec(args, out, "*", Decimal::mul)),
    Udf::new("tg_dec_div", 4, dec_div),
    Udf::new("tg_dec_intdiv", 3, dec_intdiv),
    Udf::new("tg_dec_mod", 2, dec_mod),
    Udf::new("tg_dec_neg", 1, |args, out| {
        let value = args.dec(0);
        out.dec(Decimal { mantissa: -value.mantissa, ..value });
        Ok(())
    }),
    Udf::new("tg_dec_round", 2, |args, out| {
        let value = args.dec(0);
        out.dec(value.rescale(args.int(1).clamp(0, SCALE_MAX.into()) as u8).unwrap_or(value));
        Ok(())
    }),
    Udf::new("tg_add", 3, add_whole),
    Udf::new("tg_crosses", 3, crosses),
    Udf::new("tg_bitor", 2, |args, out| { out.uint(args.uint(0) | args.uint(1)); Ok(()) }),
    Udf::new("tg_bitand", 2, |args, out| { out.uint(args.uint(0) & args.uint(1)); Ok(()) }),
    Udf::new("tg_bitxor", 2, |args, out| { out.uint(args.uint(0) ^ args.uint(1)); Ok(()) }),
    Udf::new("tg_bitnot", 1, |args, out| { out.uint(!args.uint(0)); Ok(()) }),
    Udf::new("tg_shl", 2, |args, out| { out.uint(args.uint(0).checked_shl(args.uint(1) as u32).unwrap_or(0)); Ok(()) }),
    Udf::new("tg_shr", 2, |args, out| { out.uint(args.uint(0).checked_shr(args.uint(1) as u32).unwrap_or(0)); Ok(()) }),
    Udf::new("tg_bit_bytes", 2, |args, out| {
        let bytes = args.uint(0).to_be_bytes();
        out.cell(crate::store::conn::Cell::Blob(&bytes[8 - args.int(1).clamp(1, 8) as usize..]));
        Ok(())
    }),
    // `tg_year(number)`: two digits mean a year of this century or the last.
    Udf::new("tg_year", 1, |args, out| {
        use crate::{store::conn::Cell, value::temporal::century};
        match args.cell(0) {
            Cell::Int(year) if (1..100).contains(&year) => out.int(century(year)),
            Cell::Real(year) if (1.0..100.0).contains(&year) && year.fract() == 0.0 => out.real(century(year as i64) as f64),
            Cell::Blob(blob) if blob.len() != 8 => {
                let year = args.dec(0);
                let whole = year.truncate(0).mantissa;
                let is_whole = (1..100).contains(&whole) && year.round_to_int() == whole;
                out.dec(if is_whole { Decimal::from_int(i128::from(century(whole as i64))) } else { year });
            }
            cell => out.cell(cell),
        }
        Ok(())
    }),
    Udf::lenient("tg_count", 1, count),
    // `tg_weights(text, collation)`: what a text compares by, as bytes.
    Udf::new("tg_weights", 2, |args, out| {
        let mut text = args.bytes(0);
        let collation = Collation(args.int(1) as u16);
        while collation.pads()
            && let Some(rest) = text.strip_suffix(b" ")
        {
            text = rest;
        }
        let mut key = Vec::with_capacity(text.len() * 4);
        collation.order().write_weights(text, &mut key);
        out.cell(crate::store::conn::Cell::Blob(&key));
        Ok(())
    }),
];

/// `tg_add(mode, a, b)`: the sum of two whole numbers, of which `b` has a sign. `mode` is 1 if `a` has none, with 2 if the sum is
/// to be the nearest number that there is, with 4 if it is to be the difference.
fn add_whole(args: &Args<'_>, out: &mut Out) -> Result<(), ServerError> {
    let (mode, delta) = (args.int(0), i128::from(args.int(2)));
    let (kind, old, min, max) = if mode & 1 == 0 {
        ("BIGINT", i128::from(args.int(1)), i128::from(i64::MIN), i128::from(i64::MAX))
    } else {
        ("BIGINT UNSIGNED", i128::from(args.uint(1)), 0, i128::from(u64::MAX))
    };
    let sum = if mode & 4 == 0 { old + delta } else { old - delta };
    let held = sum.clamp(min, max);
    if held != sum && mode & 2 == 0 {
        let sign = if mode & 4 == 0 { '+' } else { '-' };
        return Err(errors::value_out_of_range(kind, format!("({old} {sign} {delta})")));
    }
    if mode & 1 == 0 {
        out.int(held as i64)
    } else {
        out.uint(held as u64)
    }
    Ok(())
}

/// `tg_crosses(unsigned, a, b)`: whether `a - b` has another sign than `a`; 0 is of both.
fn crosses(args: &Args<'_>, out: &mut Out) -> Result<(), ServerError> {
    let old = if args.int(0) == 0 { i128::from(args.int(1)) } else { i128::from(args.uint(1)) };
    let difference = old - i128::from(args.int(2));
    out.int(i64::from(old < 0 && difference > 0 || old > 0 && difference < 0));
    Ok(())
}

/// `tg_cv(value, code, decimals, base, width)`: a value in another representation.
fn convert(args: &Args<'_>, out: &mut Out) -> Done {
    let code = args.int(1);
    let (from, to) = (rep_of_code(code / 16), rep_of_code(code % 16));
    let decimals = args.int(2) as u8;
    let base = match args.int(3) {
        1 => Base::Date,
        2 => Base::Float,
        _ => natural_base(from),
    };
    let width = u32::try_from(args.int(4)).ok().filter(|width| *width > 0);
    let value = args.val(0, from);
    if let (Val::Fixed(value), Rep::Blob) = (&value, to) {
        out.cell(crate::store::conn::Cell::Blob(value.bytes()));
        return Ok(());
    }
    if matches!(to, Rep::Text | Rep::Blob) {
        let mut text = Vec::with_capacity(32);
        value.write(base, decimals, width, &mut text);
        if to == Rep::Text {
            out.text(text)
        } else {
            out.cell(crate::store::conn::Cell::Blob(&text))
        }
        return Ok(());
    }
    let value = match (value, base, to) {
        // A DATE as a number has no time behind it.
        (Val::Datetime(packed), Base::Date, Rep::Int | Rep::Uint | Rep::Real | Rep::Dec) => {
            Val::Int(Datetime::unpack(packed).to_number() / 1_000_000)
        }
        (value, ..) => value,
    };
    out.datum(&cast_val(value, to)?.into_datum());
    Ok(())
}

fn natural_base(rep: Rep) -> Base {
    match rep {
        Rep::Dec => Base::Decimal,
        Rep::Real => Base::Double,
        Rep::Time => Base::Time,
        Rep::Datetime | Rep::Timestamp => Base::Datetime,
        _ => Base::Big,
    }
}

/// A value in another representation, with a warning for what it loses.
///
/// # Errors
/// None now; the signature leaves room for strict casts.
pub(crate) fn cast_val<'a>(value: Val<'a>, to: Rep) -> Result<Val<'a>, ServerError> {
    if value.is_null() {
        return Ok(Val::Null);
    }
    Ok(match to {
        Rep::Real => Val::Real(keep(value.to_f64(), &value)),
        Rep::Dec => Val::Dec(keep(value.to_decimal(), &value)),
        Rep::Int => {
            let number = keep(value.to_int(), &value);
            // Integers above the signed range keep their bits, as CAST does; other numbers end there.
            let is_integer = !matches!(value, Val::Real(_) | Val::Dec(_));
            Val::Int(if is_integer && number > i128::from(i64::MAX) && number <= i128::from(u64::MAX) {
                number as u64 as i64
            } else {
                number.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
            })
        }
        Rep::Uint | Rep::Set | Rep::Enum => {
            let number = keep(value.to_int(), &value);
            Val::Uint(if number < 0 {
                number.max(i128::from(i64::MIN)) as i64 as u64
            } else {
                number.min(i128::from(u64::MAX)) as u64
            })
        }
        Rep::Datetime => or_warn(value.to_datetime(), &value).map_or(Val::Null, |moment| Val::Datetime(moment.pack())),
        Rep::Fixed(kind) => or_warn(value.to_fixed(kind), &value).map_or(Val::Null, Val::Fixed),
        Rep::Timestamp => {
            let moment = or_warn(value.to_datetime(), &value);
            moment.and_then(crate::value::local::local_to_timestamp).map_or(Val::Null, Val::Timestamp)
        }
        Rep::Time => or_warn(value.to_time(), &value).map_or(Val::Null, |time| Val::Time(clamp_time(time))),
        Rep::Text | Rep::Blob => {
            let mut text = Vec::new();
            let base = if value.rep() == Rep::Dec { Base::Null } else { natural_base(value.rep()) };
            let decimals = if value.rep() == Rep::Real { crate::value::types::NOT_FIXED } else { 0 };
            value.write(base, decimals, None, &mut text);
            if to == Rep::Text { Val::Text(text.into()) } else { Val::Blob(text.into()) }
        }
        Rep::Number => {
            let number = keep(value.to_f64(), &value);
            match value.to_int() {
                Ok(whole) if matches!(value, Val::Text(_) | Val::Blob(_)) => {
                    match (i64::try_from(whole), u64::try_from(whole)) {
                        (Ok(whole), _) => Val::Int(whole),
                        (_, Ok(whole)) => Val::Uint(whole),
                        _ => Val::Real(number),
                    }
                }
                _ => Val::Real(number),
            }
        }
        Rep::Null => Val::Null,
    })
}

/// A TIME within its range.
pub(crate) fn clamp_time(time: i64) -> i64 {
    time.clamp(-crate::value::temporal::TIME_MAX, crate::value::temporal::TIME_MAX)
}

fn keep<T>(result: Result<T, (T, Incorrect)>, value: &Val<'_>) -> T {
    match result {
        Ok(value) => value,
        Err((found, wrong)) => {
            warn(wrong, value);
            found
        }
    }
}

#[cold]
/// What a value is in another type; NULL and a warning for one that is none.
fn or_warn<T>(converted: Result<Option<T>, Incorrect>, value: &Val<'_>) -> Option<T> {
    converted.unwrap_or_else(|wrong| {
        warn(wrong, value);
        None
    })
}

fn warn(wrong: Incorrect, value: &Val<'_>) {
    let mut text = Vec::new();
    value.write(natural_base(value.rep()), 0, None, &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let error = match wrong.0 {
        "datetime" | "time" | "uuid" | "inet4" | "inet6" => errors::incorrect_value(wrong.0, text),
        kind => errors::truncated_wrong_value(kind, text),
    };
    env::current(|env| env.warn(error));
}

fn enum_text(args: &Args<'_>, out: &mut Out) -> Done {
    let index = args.int(0);
    let members = args.bytes(1);
    let member = usize::try_from(index - 1).ok().and_then(|index| members.split(|byte| *byte == 0x1f).nth(index));
    out.text(member.unwrap_or_default());
    Ok(())
}

fn set_text(args: &Args<'_>, out: &mut Out) -> Done {
    let bits = args.uint(0);
    let mut text = Vec::new();
    for (index, member) in args.bytes(1).split(|byte| *byte == 0x1f).enumerate().take(64) {
        if bits >> index & 1 == 1 {
            if !text.is_empty() {
                text.push(b',');
            }
            text.extend_from_slice(member);
        }
    }
    out.text(text);
    Ok(())
}

/// An operand of integer arithmetic: numbers above the signed range are blobs.
fn wide(args: &Args<'_>, index: usize) -> i128 {
    match args.cell(index) {
        crate::store::conn::Cell::Blob(_) => i128::from(args.uint(index)),
        _ => i128::from(args.int(index)),
    }
}

fn set_int(out: &mut Out, value: i128, unsigned: bool, expression: impl FnOnce() -> String) -> Done {
    if unsigned {
        match u64::try_from(value) {
            Ok(value) => out.uint(value),
            Err(_) => return Err(errors::value_out_of_range("BIGINT UNSIGNED", expression())),
        }
    } else {
        match i64::try_from(value) {
            Ok(value) => out.int(value),
            Err(_) => return Err(errors::value_out_of_range("BIGINT", expression())),
        }
    }
    Ok(())
}

fn int(args: &Args<'_>, out: &mut Out, symbol: &str, f: fn(i128, i128) -> i128) -> Done {
    let (a, b) = (wide(args, 0), wide(args, 1));
    set_int(out, f(a, b), args.int(2) != 0, || format!("{a} {symbol} {b}"))
}

fn int_mul(args: &Args<'_>, out: &mut Out) -> Done {
    let (a, b) = (wide(args, 0), wide(args, 1));
    let product = a.checked_mul(b).unwrap_or(i128::MAX);
    set_int(out, product, args.int(2) != 0, || format!("{a} * {b}"))
}

fn warn_division_by_zero() -> Done {
    env::current(|env| env.division_by_zero()).unwrap_or(Ok(()))
}

fn int_div(args: &Args<'_>, out: &mut Out) -> Done {
    let (a, b) = (wide(args, 0), wide(args, 1));
    if b == 0 {
        return warn_division_by_zero();
    }
    set_int(out, a / b, args.int(2) != 0, || format!("{a} DIV {b}"))
}

fn int_mod(args: &Args<'_>, out: &mut Out) -> Done {
    let (a, b) = (wide(args, 0), wide(args, 1));
    if b == 0 {
        return warn_division_by_zero();
    }
    let rest = a % b;
    if rest < 0 {
        out.int(rest as i64)
    } else {
        out.uint(rest as u64)
    }
    Ok(())
}

fn negate(args: &Args<'_>, out: &mut Out) -> Done {
    let value = wide(args, 0);
    set_int(out, -value, false, || format!("-({value})"))
}

fn real(args: &Args<'_>, out: &mut Out) -> Done {
    let value = args.real(0);
    if !value.is_finite() {
        return Err(errors::value_out_of_range("DOUBLE", "expression"));
    }
    out.real(value);
    Ok(())
}

fn real_div(args: &Args<'_>, out: &mut Out) -> Done {
    let (a, b) = (args.real(0), args.real(1));
    if b == 0.0 {
        return warn_division_by_zero();
    }
    let value = a / b;
    if !value.is_finite() {
        return Err(errors::value_out_of_range("DOUBLE", format!("{a} / {b}")));
    }
    out.real(value);
    Ok(())
}

fn real_mod(args: &Args<'_>, out: &mut Out) -> Done {
    let (a, b) = (args.real(0), args.real(1));
    if b == 0.0 {
        return warn_division_by_zero();
    }
    out.real(a % b);
    Ok(())
}

fn dec(args: &Args<'_>, out: &mut Out, symbol: &str, f: fn(Decimal, Decimal) -> Option<Decimal>) -> Done {
    let (a, b) = (args.dec(0), args.dec(1));
    match f(a, b) {
        Some(value) => out.dec(value),
        None => return Err(errors::value_out_of_range("DECIMAL", format!("{a} {symbol} {b}"))),
    }
    Ok(())
}

fn dec_div(args: &Args<'_>, out: &mut Out) -> Done {
    let (a, b) = (args.dec(0), args.dec(1));
    if b.mantissa == 0 {
        return warn_division_by_zero();
    }
    let digits = |index| args.int(index).clamp(0, SCALE_MAX.into()) as u8;
    let (kept, shown) = (digits(2), digits(3));
    // With many digits in front of the point fewer fit behind it: not fewer than are shown.
    let quotient = |scale: u8| {
        // Whole groups of digits: what lies behind them is cut, not rounded.
        let next = a.div(b, (scale + 2).min(SCALE_MAX)).map(|exact| exact.truncate(scale));
        next.or_else(|| a.div(b, scale))
    };
    match (shown..=kept).rev().find_map(quotient) {
        Some(value) => out.dec(value),
        None => return Err(errors::value_out_of_range("DECIMAL", format!("{a} / {b}"))),
    }
    Ok(())
}

fn dec_intdiv(args: &Args<'_>, out: &mut Out) -> Done {
    let (a, b) = (args.dec(0), args.dec(1));
    if b.mantissa == 0 {
        return warn_division_by_zero();
    }
    let out_of_range = || errors::value_out_of_range("BIGINT", format!("{a} DIV {b}"));
    let rest = a.rem(b).ok_or_else(out_of_range)?;
    let quotient = a.sub(rest).and_then(|whole| whole.div(b, 0)).ok_or_else(out_of_range)?;
    set_int(out, quotient.mantissa, args.int(2) != 0, || format!("{a} DIV {b}"))
}

fn dec_mod(args: &Args<'_>, out: &mut Out) -> Done {
    let (a, b) = (args.dec(0), args.dec(1));
    if b.mantissa == 0 {
        return warn_division_by_zero();
    }
    match a.rem(b) {
        Some(value) => out.dec(value),
        None => return Err(errors::value_out_of_range("DECIMAL", format!("{a} % {b}"))),
    }
    Ok(())
}

/// A number of rows for LIMIT: what does not fit is as good as no limit.
fn count(args: &Args<'_>, out: &mut Out) -> Done {
    match args.cell(0) {
        crate::store::conn::Cell::Int(count) if count >= 0 => out.int(count),
        crate::store::conn::Cell::Blob(_) => out.int(i64::MAX),
        // A literal has no sign.
        _ => return Err(errors::wrong_execute_arguments()),
    }
    Ok(())
}
