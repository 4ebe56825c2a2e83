//! Numbers.

use std::cell::RefCell;

use super::{
    Family, Function, Want,
    abi::{Args, Out, Udf},
    double, rewrite, udf,
};
use crate::{
    errors,
    translate::{
        Ex, Res, Translator,
        types::{digits, is_constant},
    },
    value::{
        Base, Rep, SqlType,
        collation::Collation,
        decimal::{Decimal, PRECISION_MAX, SCALE_MAX},
        temporal::Datetime,
        types::{Marks, NOT_FIXED},
    },
};
use tidegate_rows::ServerError;

type Done = Result<(), ServerError>;

pub(super) const FAMILY: Family = Family { functions: FUNCTIONS, udfs: UDFS, aggregates: &[] };

#[rustfmt::skip]
static UDFS: &[Udf] = &[
    // `tg_time_round(time, digits, truncate)` and `tg_time_whole(time, up)`.
    Udf::new("tg_time_round", 3, |args, out| {
        let unit = 10i64.pow((6 - args.int(1).clamp(0, 6)) as u32);
        let (time, half) = (args.int(0), if args.int(2) != 0 { 0 } else { unit / 2 });
        out.int((time.abs() + half) / unit * unit * time.signum());
        Ok(())
    }),
    // `tg_dt_round(packed, digits, mode)`: 0 to the nearest, 1 down, 2 up.
    Udf::new("tg_dt_round", 3, |args, out| {
        let moment = Datetime::unpack(args.int(0));
        let unit = 10i64.pow((6 - args.int(1).clamp(0, 6)) as u32);
        let rest = moment.micros % unit;
        let up = match args.int(2) {
            0 => rest * 2 >= unit,
            1 => false,
            _ => rest > 0,
        };
        let cut = Datetime { micros: moment.micros - rest, ..moment };
        let rounded = if up { cut.total_micros().and_then(|total| Datetime::from_total_micros(total + unit)) } else { Some(cut) };
        if let Some(rounded) = rounded {
            out.int(rounded.pack());
        }
        Ok(())
    }),
    Udf::new("tg_time_whole", 2, |args, out| {
        let time = args.int(0);
        let seconds = if args.int(1) != 0 { -(-time).div_euclid(1_000_000) } else { time.div_euclid(1_000_000) };
        out.int(seconds * 1_000_000);
        Ok(())
    }),
    Udf::fresh("tg_rand", 0, |_, out| {
        let number = RANDOM.with_borrow_mut(Random::next).map_err(errors::internal)?;
        out.real((number >> 11) as f64 / (1u64 << 53) as f64);
        Ok(())
    }),
    // `tg_rand_seed(seed, site)`; NULL is 0.
    Udf::volatile("tg_rand_seed", 2, |args, out| {
        let seed = if args.is_null(0) { 0 } else { args.int(0) };
        out.real(crate::env::current(|env| env.seeded_random(args.int(1), seed)).unwrap_or(0.0));
        Ok(())
    }),
    Udf::new("tg_dec_roundto", 2, |args, out| { out.dec(round_dec(args.dec(0), args.int(1), false)); Ok(()) }),
    Udf::new("tg_dec_truncto", 2, |args, out| { out.dec(round_dec(args.dec(0), args.int(1), true)); Ok(()) }),
    Udf::new("tg_int_roundto", 2, |args, out| round_int(args, out, false)),
    Udf::new("tg_int_truncto", 2, |args, out| round_int(args, out, true)),
    Udf::new("tg_real_roundto", 2, |args, out| { out.real(round_real(args.real(0), args.int(1), false)); Ok(()) }),
    Udf::new("tg_real_truncto", 2, |args, out| { out.real(round_real(args.real(0), args.int(1), true)); Ok(()) }),
    Udf::new("tg_dec_ceil", 1, |args, out| { out.int(floor(args.dec(0), true)?); Ok(()) }),
    Udf::new("tg_dec_floor", 1, |args, out| { out.int(floor(args.dec(0), false)?); Ok(()) }),
    Udf::new("tg_dec_ceil_wide", 1, |args, out| { out.dec(Decimal::from_int(floor_wide(args.dec(0), true))); Ok(()) }),
    Udf::new("tg_dec_floor_wide", 1, |args, out| { out.dec(Decimal::from_int(floor_wide(args.dec(0), false))); Ok(()) }),
    Udf::new("tg_real_ceil", 1, |args, out| { out.real(args.real(0).ceil() + 0.0); Ok(()) }),
    Udf::new("tg_real_floor", 1, |args, out| { out.real(args.real(0).floor() + 0.0); Ok(()) }),
    Udf::new("tg_dec_abs", 1, |args, out| { let v = args.dec(0); out.dec(Decimal { mantissa: v.mantissa.abs(), ..v }); Ok(()) }),
    Udf::new("tg_int_abs", 1, |args, out| {
        let value = args.int(0);
        match value.checked_abs() {
            Some(value) => out.int(value),
            None => return Err(errors::value_out_of_range("BIGINT", format!("abs({value})"))),
        }
        Ok(())
    }),
];

macro_rules! real_function {
    ($name:literal, $sqlite:literal, $f:expr) => {
        udf($name, $sqlite, 1, 1, &[Want::Real], double, |args, out| {
            let f: fn(f64) -> f64 = $f;
            finite(out, f(args.real(0)))
        })
    };
}

#[rustfmt::skip]
static FUNCTIONS: &[Function] = &[
    rewrite("ABS", 1, 1, abs),
    rewrite("ROUND", 1, 2, |t, args| rounding(t, args, "roundto")),
    rewrite("TRUNCATE", 2, 2, |t, args| rounding(t, args, "truncto")),
    rewrite("CEIL", 1, 1, |t, args| whole(t, &args[0], "ceil")),
    rewrite("CEILING", 1, 1, |t, args| whole(t, &args[0], "ceil")),
    rewrite("FLOOR", 1, 1, |t, args| whole(t, &args[0], "floor")),
    rewrite("MOD", 2, 2, |t, args| t.modulo(&args[0], &args[1])),
    udf("SIGN", "f_sign", 1, 1, &[Want::Real], |_| SqlType::whole(2, false), |args, out| { let v = args.real(0); out.int(if v > 0.0 { 1 } else if v < 0.0 { -1 } else { 0 }); Ok(()) }),
    udf("POW", "f_pow", 2, 2, &[Want::Real], double, power),
    udf("POWER", "f_power", 2, 2, &[Want::Real], double, power),
    real_function!("SQRT", "f_sqrt", |v| if v < 0.0 { f64::NAN } else { v.sqrt() }),
    real_function!("EXP", "f_exp", f64::exp),
    real_function!("LN", "f_ln", |v| if v <= 0.0 { f64::NAN } else { v.ln() }),
    real_function!("LOG2", "f_log2", |v| if v <= 0.0 { f64::NAN } else { v.ln() / std::f64::consts::LN_2 }),
    real_function!("LOG10", "f_log10", |v| if v <= 0.0 { f64::NAN } else { v.log10() }),
    udf("LOG", "f_log", 1, 2, &[Want::Real], double, |args, out| {
        let (base, value) = if args.len() == 2 { (Some(args.real(0)), args.real(1)) } else { (None, args.real(0)) };
        if value <= 0.0 || base.is_some_and(|base| base <= 0.0 || base == 1.0) {
            return Ok(());
        }
        finite(out, base.map_or(value.ln(), |base| value.ln() / base.ln()))
    }),
    real_function!("SIN", "f_sin", f64::sin),
    real_function!("COS", "f_cos", f64::cos),
    real_function!("TAN", "f_tan", f64::tan),
    real_function!("COT", "f_cot", |v| 1.0 / v.tan()),
    real_function!("ASIN", "f_asin", f64::asin),
    real_function!("ACOS", "f_acos", f64::acos),
    real_function!("DEGREES", "f_degrees", |v| v * (180.0 / std::f64::consts::PI)),
    real_function!("RADIANS", "f_radians", |v| v * (std::f64::consts::PI / 180.0)),
    udf("ATAN", "f_atan", 1, 2, &[Want::Real], double, |args, out| { out.real(if args.len() == 2 { args.real(0).atan2(args.real(1)) } else { args.real(0).atan() }); Ok(()) }),
    udf("ATAN2", "f_atan2", 1, 2, &[Want::Real], double, |args, out| { out.real(if args.len() == 2 { args.real(0).atan2(args.real(1)) } else { args.real(0).atan() }); Ok(()) }),
    udf("PI", "f_pi", 0, 0, &[], |_| SqlType { decimals: 6, length: 8, ..SqlType::new(Base::Double) }, |_, out| { out.real(std::f64::consts::PI); Ok(()) }),
    udf("CRC32", "f_crc32", 1, 1, &[Want::Bytes], |_| SqlType { unsigned: true, length: 10, ..SqlType::new(Base::Int) }, |args, out| { out.int(i64::from(crc32fast::hash(args.bytes(0)))); Ok(()) }),
    udf("BIT_COUNT", "f_bit_count", 1, 1, &[Want::Uint], super::int, |args, out| { out.int(i64::from(args.uint(0).count_ones())); Ok(()) }),
    rewrite("RAND", 0, 1, |t, args| {
        let Some(seed) = args.first() else {
            t.effects.note_fresh();
            return Ok(Ex::sql("tg_rand()".into(), SqlType::new(Base::Double)).with_nullable(false));
        };
        t.effects.note_both();
        // Each call with a constant seed has a sequence of its own; another seed begins anew with each row.
        let site = if is_constant(seed) { t.next_site() as i64 } else { -1 };
        let sql = t.convert(seed, Rep::Int);
        Ok(Ex::sql(format!("tg_rand_seed({sql}, {site})"), SqlType::new(Base::Double)).with_nullable(false))
    }),
    rewrite("BIN", 1, 1, |t, args| in_base_of(t, &args[0], 2)),
    rewrite("OCT", 1, 1, |t, args| in_base_of(t, &args[0], 8)),
    udf("CONV", "f_conv", 3, 3, &[Want::Text, Want::Int, Want::Int], |_| SqlType::varchar(65, Collation::DEFAULT), conv),
];

/// Random numbers that the system gives at once.
const RANDOM_COUNT: usize = 64;

thread_local! {
    static RANDOM: RefCell<Random> = const { RefCell::new(Random { bytes: [0; RANDOM_COUNT * 8], left: 0 }) };
}

/// Numbers of the system's generator for RAND(): a system call for each took longer than all else that a row needs.
struct Random {
    bytes: [u8; RANDOM_COUNT * 8],
    /// How many of the numbers nobody has got yet.
    left: usize,
}

impl Random {
    fn next(&mut self) -> Result<u64, getrandom::Error> {
        if self.left == 0 {
            getrandom::fill(&mut self.bytes)?;
            self.left = RANDOM_COUNT;
        }
        self.left -= 1;
        let (numbers, _) = self.bytes.as_chunks::<8>();
        Ok(u64::from_le_bytes(numbers[self.left]))
    }
}

fn finite(out: &mut Out, value: f64) -> Done {
    if value.is_nan() {
        return Ok(());
    }
    if value.is_infinite() {
        return Err(errors::value_out_of_range("DOUBLE", "expression"));
    }
    out.real(value);
    Ok(())
}

fn power(args: &Args<'_>, out: &mut Out) -> Done {
    let value = args.real(0).powf(args.real(1));
    if !value.is_finite() {
        return Err(errors::value_out_of_range("DOUBLE", format!("pow({},{})", args.real(0), args.real(1))));
    }
    out.real(value);
    Ok(())
}

/// A BIT, and a binary literal that is a number, as the unsigned number that it is.
fn plain_number(t: &mut Translator<'_>, ex: &Ex) -> Option<Ex> {
    let bits = match ex.ty.rep() {
        Rep::Uint if ex.ty.base == Base::Bit => ex.ty.length,
        Rep::Blob if ex.ty.marks.number && ex.is_const() => ex.ty.length * 8,
        _ => return None,
    };
    let sql = t.convert(ex, Rep::Uint);
    let base = if bits <= 32 { Base::Int } else { Base::Big };
    let length = (bits.min(64) * 30_103).div_ceil(100_000).max(1);
    let ty = SqlType { length, unsigned: true, ..SqlType::new(base) };
    Some(Ex::sql(sql, ty).with_nullable(ex.nullable))
}

fn abs(t: &mut Translator<'_>, args: &[Ex]) -> Res<Ex> {
    if let Some(number) = plain_number(t, &args[0]) {
        return Ok(number);
    }
    let ex = &args[0];
    let (sql, ty) = match ex.ty.rep() {
        Rep::Dec => (format!("tg_dec_abs({})", t.text(ex)), ex.ty.clone()),
        Rep::Int => {
            let base = if ex.ty.base == Base::Big { Base::Big } else { Base::Int };
            (format!("tg_int_abs({})", t.text(ex)), SqlType { base, ..ex.ty.clone() })
        }
        Rep::Null => return Ok(Ex { ty: SqlType::new(Base::Double), ..ex.clone() }),
        Rep::Uint => return Ok(Ex { origin: None, ..ex.clone() }),
        Rep::Time | Rep::Datetime | Rep::Timestamp => {
            let (precision, scale) = digits(ex);
            (format!("tg_dec_abs({})", t.convert(ex, Rep::Dec)), SqlType::decimal(precision, scale))
        }
        _ => (
            format!("abs({})", t.convert(ex, Rep::Real)),
            SqlType {
                decimals: if ex.ty.rep() == Rep::Real { ex.ty.decimals } else { NOT_FIXED },
                ..SqlType::new(Base::Double)
            },
        ),
    };
    Ok(Ex::sql(sql, ty))
}

fn rounding(t: &mut Translator<'_>, args: &[Ex], kind: &str) -> Res<Ex> {
    let number = plain_number(t, &args[0]);
    let ex = number.as_ref().unwrap_or(&args[0]);
    let places = match args.get(1) {
        None => Some(0),
        // More digits than any number has.
        Some(places) if places.ty.rep() == Rep::Uint && places.is_const() => Some(i64::MAX),
        // The digits of a result are known when a prepared statement runs, as in MariaDB.
        Some(places) => t.constant_int(places).or_else(|| t.given_int(places)),
    };
    let places_sql = match (args.get(1), places) {
        (_, Some(places)) => places.to_string(),
        (Some(places), None) if places.ty.rep() == Rep::Uint => t.text(places),
        (Some(places), None) => t.convert(places, Rep::Int),
        (None, None) => "0".into(),
    };
    let unknown = args.get(1).is_some_and(|places| places.ty.rep() == Rep::Null);
    let truncate = i32::from(kind == "truncto");
    Ok(match ex.ty.rep() {
        rep if unknown && !matches!(rep, Rep::Int | Rep::Uint | Rep::Time | Rep::Datetime | Rep::Timestamp) => {
            Ex { ty: SqlType::new(Base::Double), ..Ex::null() }
        }
        Rep::Int | Rep::Uint => {
            let (digits, _) = digits(ex);
            if digits >= 19 && kind == "roundto" && places.is_some_and(|places| places < 0) {
                let sql = t.convert(ex, Rep::Dec);
                let ty = SqlType { unsigned: ex.ty.unsigned, ..SqlType::decimal(digits + 1, 0) };
                return Ok(Ex::sql(format!("tg_dec_{kind}({sql}, {places_sql})"), ty));
            }
            let sql = t.text(ex);
            let plain = !ex.is_const() && ex.ty.base != Base::Year;
            if plain && places.is_some_and(|places| places >= 0) {
                let ty = SqlType { zerofill: false, marks: Marks::default(), ..ex.ty.clone() };
                return Ok(Ex::sql(format!("tg_int_{kind}({sql}, {places_sql})"), ty));
            }
            let ty = SqlType::whole(digits + u32::from(!ex.ty.unsigned), ex.ty.unsigned);
            let ty = if ex.ty.rep() == Rep::Uint { SqlType { base: Base::Big, ..ty } } else { ty };
            Ex::sql(format!("tg_int_{kind}({sql}, {places_sql})"), ty)
        }
        Rep::Time => {
            let kept = places.unwrap_or(0).clamp(0, 6) as u8;
            let kept_sql = if unknown { "NULL".to_owned() } else { kept.to_string() };
            let sql = format!("tg_time_round({}, {kept_sql}, {truncate})", t.text(ex));
            Ex::sql(sql, SqlType::temporal(Base::Time, kept))
        }
        Rep::Datetime if ex.ty.base == Base::Date => {
            let sql = t.convert(ex, Rep::Int);
            let ty = SqlType { unsigned: true, length: 8, ..SqlType::new(Base::Int) };
            Ex::sql(format!("tg_int_{kind}({sql}, {places_sql})"), ty)
        }
        Rep::Dec => {
            let (precision, scale) = digits(ex);
            let kept = places.map_or(scale, |places| places.clamp(0, SCALE_MAX.into()) as u8);
            let whole = precision - u32::from(scale).min(precision);
            let precision = (whole + u32::from(kept) + 1).clamp(1, PRECISION_MAX);
            Ex::sql(format!("tg_dec_{kind}({}, {places_sql})", t.text(ex)), SqlType::decimal(precision, kept))
        }
        Rep::Datetime | Rep::Timestamp => {
            let kept = places.unwrap_or(i64::from(ex.ty.decimals)).clamp(0, 6) as u8;
            let kept_sql = if unknown { "NULL".to_owned() } else { kept.to_string() };
            let sql = t.convert(ex, Rep::Datetime);
            let ty = SqlType::temporal(Base::Datetime, kept);
            Ex::sql(format!("tg_dt_round({sql}, {kept_sql}, {truncate})"), ty)
        }
        _ => {
            let sql = t.convert(ex, Rep::Real);
            let decimals = places.map_or(NOT_FIXED, |places| places.clamp(0, 30) as u8);
            let ty = SqlType { decimals, ..SqlType::new(Base::Double) };
            Ex::sql(format!("tg_real_{kind}({sql}, {places_sql})"), ty)
        }
    })
}

fn whole(t: &mut Translator<'_>, ex: &Ex, name: &str) -> Res<Ex> {
    if let Some(number) = plain_number(t, ex) {
        return Ok(number);
    }
    Ok(match ex.ty.rep() {
        Rep::Null => Ex { ty: SqlType::new(Base::Double), ..ex.clone() },
        Rep::Int | Rep::Uint => Ex { origin: None, ..ex.clone() },
        Rep::Time => {
            let sql = format!("tg_time_whole({}, {})", t.text(ex), i32::from(name == "ceil"));
            Ex::sql(sql, SqlType::new(Base::Time))
        }
        Rep::Datetime if ex.ty.base == Base::Date => {
            let sql = t.convert(ex, Rep::Int);
            Ex::sql(sql, SqlType { unsigned: true, length: 8, ..SqlType::new(Base::Int) })
        }
        Rep::Datetime | Rep::Timestamp => {
            let sql = t.convert(ex, Rep::Datetime);
            let mode = if name == "ceil" { 2 } else { 1 };
            Ex::sql(format!("tg_dt_round({sql}, 0, {mode})"), SqlType::new(Base::Datetime))
        }
        Rep::Dec => {
            let (precision, scale) = digits(ex);
            let length =
                precision - u32::from(scale).min(precision) + u32::from(scale > 0) + u32::from(!ex.ty.unsigned);
            if length > 18 {
                let sql = format!("tg_dec_{name}_wide({})", t.text(ex));
                return Ok(Ex::sql(sql, SqlType::decimal(length.min(PRECISION_MAX), 0)));
            }
            Ex::sql(format!("tg_dec_{name}({})", t.text(ex)), SqlType::whole(length, false))
        }
        _ => {
            let sql = t.convert(ex, Rep::Real);
            Ex::sql(format!("tg_real_{name}({sql})"), SqlType { decimals: 0, ..SqlType::new(Base::Double) })
        }
    })
}

fn round_dec(value: Decimal, places: i64, truncate: bool) -> Decimal {
    if places >= 0 {
        let scale = places.min(i64::from(value.scale)) as u8;
        return if truncate { value.truncate(scale) } else { value.rescale(scale).unwrap_or(value) };
    }
    let Some(unit) = crate::value::decimal::pow10(places.unsigned_abs().min(60) as u32) else { return Decimal::ZERO };
    let units = if truncate {
        value.truncate(0).mantissa / unit
    } else {
        let whole = value.truncate(0).mantissa;
        let (quotient, rest) = (whole / unit, whole % unit);
        if rest.abs() * 2 >= unit { quotient + value.mantissa.signum() } else { quotient }
    };
    Decimal::from_int(units.checked_mul(unit).unwrap_or(0))
}

fn round_int(args: &Args<'_>, out: &mut Out, truncate: bool) -> Done {
    let places = args.int(1);
    if places >= 0 {
        out.cell(args.cell(0));
        return Ok(());
    }
    let value = match args.cell(0) {
        crate::store::conn::Cell::Blob(_) => i128::from(args.uint(0)),
        _ => i128::from(args.int(0)),
    };
    let rounded = round_dec(Decimal::from_int(value), places, truncate).mantissa;
    match i64::try_from(rounded) {
        Ok(rounded) => out.int(rounded),
        Err(_) => out.uint(rounded as u64),
    }
    Ok(())
}

fn round_real(value: f64, places: i64, truncate: bool) -> f64 {
    // A product of tens is exact up to 10^22 only.
    let unit: f64 = match places.unsigned_abs() {
        exponent @ 0..=22 => 10f64.powi(exponent as i32),
        exponent => format!("1e{}", exponent.min(400)).parse().unwrap_or(f64::INFINITY),
    };
    if !unit.is_finite() {
        return if places > 0 { value } else { 0.0 };
    }
    let scaled = if places >= 0 { value * unit } else { value / unit };
    if !scaled.is_finite() {
        return value;
    }
    let whole = if truncate { scaled.trunc() } else { scaled.round_ties_even() };
    if places >= 0 { whole / unit } else { whole * unit }
}

fn floor(value: Decimal, up: bool) -> Result<i64, ServerError> {
    i64::try_from(floor_wide(value, up)).map_err(|_| errors::value_out_of_range("BIGINT", value))
}

fn floor_wide(value: Decimal, up: bool) -> i128 {
    let whole = value.truncate(0);
    let exact = whole == value;
    match (exact, up, value.mantissa < 0) {
        (true, ..) | (false, true, true) | (false, false, false) => whole.mantissa,
        (false, true, false) => whole.mantissa + 1,
        (false, false, true) => whole.mantissa - 1,
    }
}

fn conv(args: &Args<'_>, out: &mut Out) -> Done {
    in_base(args.bytes(0), args.int(1), args.int(2), out)
}

/// BIN and OCT: CONV from base 10. Bits are a number, and anything else is the digits that its text begins with.
fn in_base_of(t: &mut Translator<'_>, arg: &Ex, base: u8) -> Res<Ex> {
    let digits = match arg.ty.base {
        Base::Bit => {
            let number = Ex::sql(t.convert(arg, Rep::Uint), SqlType { unsigned: true, ..SqlType::new(Base::Big) });
            t.convert(&number, Rep::Text)
        }
        _ => t.convert(arg, Rep::Text),
    };
    Ok(Ex::sql(format!("f_conv({digits}, 10, {base})"), SqlType::varchar(64, Collation::DEFAULT)))
}

/// The number at the start of a text, in another base; NULL for an empty text.
fn in_base(text: &[u8], from: i64, to: i64, out: &mut Out) -> Done {
    let (from_abs, to_abs) = (from.unsigned_abs() as u32, to.unsigned_abs() as u32);
    if !(2..=36).contains(&from_abs) || !(2..=36).contains(&to_abs) {
        return Ok(());
    }
    if text.is_empty() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(text).trim().to_owned();
    let (negative, digits) = text.strip_prefix('-').map_or((false, text.as_str()), |rest| (true, rest));
    let mut value = 0u64;
    for digit in digits.chars().map_while(|c| c.to_digit(from_abs)) {
        value =
            value.checked_mul(u64::from(from_abs)).and_then(|v| v.checked_add(u64::from(digit))).unwrap_or(u64::MAX);
    }
    if negative {
        value = (value as i64).wrapping_neg() as u64;
    }
    let minus = to < 0 && (value as i64) < 0;
    let mut rest = if minus { (value as i64).unsigned_abs() } else { value };
    let mut result = Vec::new();
    loop {
        result
            .push(std::char::from_digit((rest % u64::from(to_abs)) as u32, to_abs).unwrap_or('0').to_ascii_uppercase());
        rest /= u64::from(to_abs);
        if rest == 0 {
            break;
        }
    }
    if minus {
        result.push('-');
    }
    out.text(result.iter().rev().collect::<String>());
    Ok(())
}
