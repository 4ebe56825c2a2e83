//! CAST, CONVERT, BINARY and typed literals.

use sqlparser::ast::Expr;

use super::{Family, string_value};
use crate::{
    errors,
    store::conn::Cell,
    translate::{Code, Coercibility, Ex, Res, Translator, scope::Scope},
    value::{Base, Fixed, Rep, SqlType, collation::Collation, decimal, latin1},
};

use super::abi::Udf;

pub(super) const FAMILY: Family = Family { functions: &[], udfs: UDFS, aggregates: &[] };

#[rustfmt::skip]
static UDFS: &[Udf] = &[
    // The nearest number that a FLOAT can be.
    Udf::new("tg_float", 1, |args, out| {
        let most = f64::from(f32::MAX);
        let value = args.real(0);
        if value.abs() > most {
            crate::env::current(|env| env.note(errors::out_of_range("cast as float", 1)));
        }
        out.real(f64::from(value.clamp(-most, most) as f32));
        Ok(())
    }),
    // `tg_left(text, characters)`: for CAST AS CHAR(n).
    Udf::new("tg_left", 2, |args, out| {
        let text = args.bytes(0);
        let count = args.int(1).max(0) as usize;
        if args.any_blob() {
            out.cell(crate::store::conn::Cell::Blob(&text[..text.len().min(count)]));
            return Ok(());
        }
        let end = String::from_utf8_lossy(text).char_indices().nth(count).map_or(text.len(), |(at, _)| at);
        out.text(&text[..end.min(text.len())]);
        Ok(())
    }),
    // `tg_fill(bytes, count)`: zero bytes behind it, for CAST AS BINARY(n).
    Udf::new("tg_fill", 2, |args, out| {
        let mut bytes = args.bytes(0).to_vec();
        let count = usize::try_from(args.int(1)).unwrap_or(0);
        if count > super::RESULT_BYTES_MAX {
            return super::string::oversized("cast_as_binary");
        }
        bytes.resize(bytes.len().max(count), 0);
        out.cell(crate::store::conn::Cell::Blob(&bytes));
        Ok(())
    }),
    // `tg_dec_fit(value, precision, scale)`: a decimal within its type, the nearest one if it does not fit.
    Udf::new("tg_dec_fit", 3, |args, out| {
        let (value, precision, scale) = (args.dec(0), args.int(1).clamp(1, 38) as u32, args.int(2).clamp(0, decimal::SCALE_MAX.into()) as u8);
        let limit = decimal::pow10(precision).unwrap_or(i128::MAX) - 1;
        let fitted = match value.rescale(scale) {
            Some(fitted) if fitted.mantissa.abs() <= limit => fitted,
            _ => {
                crate::env::current(|env| env.warn(errors::out_of_range("cast", 1)));
                decimal::Decimal { mantissa: if value.mantissa < 0 { -limit } else { limit }, scale }
            }
        };
        out.dec(fitted);
        Ok(())
    }),
    // What a character set does not have becomes a question mark.
    // `tg_latin1(text)`: its bytes in latin1.
    Udf::new("tg_latin1", 1, |args, out| {
        out.cell(Cell::Blob(&latin1::encode(args.bytes(0))));
        Ok(())
    }),
    // `tg_utf8(bytes)`: as UTF-8, with `?` for bytes that are none.
    Udf::new("tg_utf8", 1, |args, out| {
        let (mut rest, mut text) = (args.bytes(0), String::new());
        if let Err(error) = std::str::from_utf8(rest) {
            let shown = crate::value::texts::printable(&rest[error.valid_up_to()..]);
            crate::env::current(|env| env.warn(errors::invalid_characters(shown)));
        }
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => break text.push_str(valid),
                Err(error) => {
                    let (valid, behind) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    text.push('?');
                    rest = &behind[1..];
                }
            }
        }
        out.text(text);
        Ok(())
    }),
    // `tg_from_latin1(bytes)`: the text that they are in latin1.
    Udf::new("tg_from_latin1", 1, |args, out| {
        out.text(latin1::decode(args.bytes(0)));
        Ok(())
    }),
    // `tg_to_latin1(text)`: with `?` for what latin1 lacks.
    Udf::new("tg_to_latin1", 1, |args, out| {
        out.text(latin1::decode(&latin1::encode(args.bytes(0))));
        Ok(())
    }),
    // `tg_meets_latin1(text, collation, its collation, operation)`: the text, an error for characters that latin1 lacks.
    Udf::new("tg_meets_latin1", 4, |args, out| {
        let mut rest = args.bytes(0);
        while let Some(c) = crate::value::collation::next_char(&mut rest) {
            if latin1::byte_of(c).is_none() {
                let name = |index: usize| Collation(args.int(index) as u16).name();
                let (ours, theirs) = (format!("{},IMPLICIT", name(1)), format!("{},COERCIBLE", name(2)));
                let operation = String::from_utf8_lossy(args.bytes(3)).into_owned();
                return Err(crate::errors::collation_mix(ours, theirs, operation));
            }
        }
        out.cell(args.cell(0));
        Ok(())
    }),
    Udf::new("tg_latin1_upper", 1, |args, out| {
        out.text(latin1_case(args.bytes(0), char::to_uppercase));
        Ok(())
    }),
    Udf::new("tg_latin1_lower", 1, |args, out| {
        out.text(latin1_case(args.bytes(0), char::to_lowercase));
        Ok(())
    }),
    Udf::new("tg_to_ascii", 1, |args, out| {
        let text = String::from_utf8_lossy(args.bytes(0));
        out.text(text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect::<String>());
        Ok(())
    }),
    Udf::new("tg_dec_unsigned", 1, |args, out| {
        let value = args.dec(0).round_to_int();
        if value < 0 {
            crate::env::current(|env| env.warn(errors::truncated_wrong_value("UNSIGNED INTEGER", args.dec(0))));
        }
        out.uint(u64::try_from(value.max(0)).unwrap_or(u64::MAX));
        Ok(())
    }),
    // `tg_dt_cut(packed, digits)` and `tg_date(packed)`.
    Udf::new("tg_dt_cut", 2, |args, out| {
        out.int(crate::value::temporal::Datetime::unpack(args.int(0)).truncate(args.int(1).clamp(0, 6) as u8).pack());
        Ok(())
    }),
    Udf::new("tg_date", 1, |args, out| {
        out.int(crate::value::temporal::Datetime::unpack(args.int(0)).date_only().pack());
        Ok(())
    }),
    Udf::new("tg_time_cut", 2, |args, out| {
        out.int(crate::value::temporal::truncate_micros(args.int(0), args.int(1).clamp(0, 6) as u8));
        Ok(())
    }),
];

/// Forms that the parser wrote as internal calls.
///
/// # Errors
/// 1064 for unknown types, 1525 for literals that are none.
pub(super) fn special(t: &mut Translator<'_>, name: &str, args: &[&Expr], scope: &Scope<'_>) -> Res<Ex> {
    let Some((first, rest)) = args.split_first() else { return Err(errors::syntax(name)) };
    let ex = t.expr(first, scope)?;
    let aggregate = ex.aggregate;
    let mut result = match name {
        "binary" => {
            let sql = t.convert(&ex, Rep::Blob);
            let ty = SqlType::varchar(ex.ty.length, Collation::BINARY);
            Ex { coercibility: Coercibility::Column, ..Ex::sql(sql, ty) }
        }
        "using" => {
            let charset = string_value(rest[0]);
            let collation = Collation::of_charset(&charset).ok_or_else(|| Collation::unknown_charset(&charset))?;
            let mut sql = match collation {
                Collation::BINARY => t.convert(&ex, Rep::Blob),
                _ => t.as_text_in(&ex, collation),
            };
            if collation.charset() == "ascii" {
                sql = format!("tg_to_ascii({sql})");
            }
            Ex::sql(sql, SqlType::string(ex.ty.length, collation))
        }
        "date_literal" | "time_literal" | "timestamp_literal" if !literal_fits(t, &ex, name) => {
            let kind = match name {
                "date_literal" => "DATE",
                "time_literal" => "TIME",
                _ => "DATETIME",
            };
            let text = t.constant_text(&ex).unwrap_or_default();
            return Err(errors::wrong_literal(kind, text));
        }
        "date_literal" => Ex::sql(t.convert(&ex, Rep::Datetime), SqlType::new(Base::Date)),
        "timestamp_literal" => {
            Ex::sql(t.convert(&ex, Rep::Datetime), SqlType::temporal(Base::Datetime, literal_digits(t, &ex)))
        }
        "time_literal" => Ex::sql(t.convert(&ex, Rep::Time), SqlType::temporal(Base::Time, literal_digits(t, &ex))),
        _ => {
            let ty = string_value(rest[0]);
            let mut numbers = Vec::new();
            for number in &rest[1..] {
                let ex = t.expr(number, scope)?;
                numbers.push(
                    t.constant_int(&ex).and_then(|n| u32::try_from(n).ok()).ok_or_else(|| errors::syntax(number))?,
                );
            }
            cast(t, &ex, &ty, &numbers)?
        }
    };
    result.aggregate = aggregate;
    Ok(result.with_nullable(true))
}

/// Whether the text of a typed literal is a value of its type.
fn literal_fits(t: &mut Translator<'_>, ex: &Ex, name: &str) -> bool {
    let Some(text) = t.constant_text(ex) else { return false };
    match name {
        "time_literal" => crate::value::temporal::parse_time(text.as_bytes()).is_some_and(|(_, cut, _)| !cut),
        _ => crate::value::temporal::parse_datetime(text.as_bytes()).is_some_and(|parsed| !parsed.truncated),
    }
}

fn literal_digits(t: &mut Translator<'_>, ex: &Ex) -> u8 {
    let text = t.constant_text(ex).unwrap_or_default();
    text.rsplit_once('.').map_or(0, |(_, digits)| digits.len().min(6) as u8)
}

fn cast(t: &mut Translator<'_>, ex: &Ex, ty: &str, numbers: &[u32]) -> Res<Ex> {
    let first = numbers.first().copied();
    Ok(match ty {
        "signed" | "signed int" | "signed integer" | "int" | "integer" => {
            Ex::sql(whole(t, ex, Rep::Int), whole_type(ex, false))
        }
        "unsigned" | "unsigned int" | "unsigned integer" => Ex::sql(whole(t, ex, Rep::Uint), whole_type(ex, true)),
        "decimal" | "dec" | "numeric" => {
            let (precision, scale) = (first.filter(|p| *p > 0).unwrap_or(10), numbers.get(1).copied().unwrap_or(0));
            if precision > decimal::PRECISION_MAX || scale > u32::from(decimal::SCALE_MAX) || scale > precision {
                return Err(errors::unsupported(format!("CAST AS DECIMAL({precision},{scale})")));
            }
            let sql = t.convert(ex, Rep::Dec);
            Ex::sql(format!("tg_dec_fit({sql}, {precision}, {scale})"), SqlType::decimal(precision, scale as u8))
        }
        "double" | "double precision" | "real" => Ex::sql(t.convert(ex, Rep::Real), SqlType::new(Base::Double)),
        "float" => Ex::sql(format!("tg_float({})", t.convert(ex, Rep::Real)), SqlType::new(Base::Float)),
        "date" => {
            let sql = t.convert(ex, Rep::Datetime);
            Ex::sql(format!("tg_date({sql})"), SqlType::new(Base::Date))
        }
        "datetime" => {
            let digits = first.unwrap_or(0).min(6) as u8;
            let sql = t.convert(ex, Rep::Datetime);
            Ex::sql(format!("tg_dt_cut({sql}, {digits})"), SqlType::temporal(Base::Datetime, digits))
        }
        "time" => {
            let digits = first.unwrap_or(0).min(6) as u8;
            let sql = t.convert(ex, Rep::Time);
            Ex::sql(format!("tg_time_cut({sql}, {digits})"), SqlType::temporal(Base::Time, digits))
        }
        "year" => Ex::sql(t.convert(ex, Rep::Int), SqlType::new(Base::Year)),
        "binary" => {
            let cut = limited(t, ex, Rep::Blob, first, Collation::BINARY);
            match first {
                None => cut,
                Some(length) => Ex { code: Code::Sql(format!("tg_fill({}, {length})", t.text(&cut))), ..cut },
            }
        }
        word if let Some(kind) = Fixed::named(word) => fixed(t, ex, kind),
        "json" => return Err(errors::unsupported("CAST AS JSON")),
        _ => {
            let words: Vec<&str> = ty.split(' ').collect();
            let charset = match words.as_slice() {
                ["char" | "nchar" | "varchar"] | ["national", "char"] => None,
                ["char", "binary"] => return Ok(limited(t, ex, Rep::Text, first, Collation::UTF8MB4_BIN)),
                ["char", "charset", name] | ["char", "character", "set", name] => Some(*name),
                _ => return Err(errors::syntax(ty)),
            };
            let collation = match charset {
                Some(name) => Collation::of_charset(name).ok_or_else(|| Collation::unknown_charset(name))?,
                None => t.session.inputs.collation,
            };
            if collation == Collation::BINARY {
                return Ok(limited(t, ex, Rep::Blob, first, Collation::BINARY));
            }
            limited(t, ex, Rep::Text, first, collation)
        }
    })
}

fn fixed(t: &mut Translator<'_>, ex: &Ex, kind: Fixed) -> Ex {
    Ex::sql(t.convert(ex, Rep::Fixed(kind)), SqlType::new(Base::Fixed(kind)))
}

/// The case of ISO 8859-1: letters whose other case stands elsewhere stay.
fn latin1_case<I: Iterator<Item = char>>(text: &[u8], map: fn(char) -> I) -> String {
    let one = |c: char| {
        let mut mapped = map(c);
        let only = mapped.next().filter(|to| mapped.next().is_none() && *to <= '\u{ff}' && c <= '\u{ff}');
        only.unwrap_or(c)
    };
    String::from_utf8_lossy(text).chars().map(one).collect()
}

/// The type of a cast to a whole number: short texts and numbers give short ones.
fn whole_type(ex: &Ex, unsigned: bool) -> SqlType {
    let length = match ex.ty.rep() {
        Rep::Blob if ex.ty.marks.number && ex.is_const() => {
            (ex.ty.length * 3).saturating_sub(u32::from(ex.ty.length <= 4) * 3)
        }
        Rep::Uint if ex.ty.base == Base::Bit => ex.ty.length,
        Rep::Text | Rep::Blob if !unsigned || ex.is_const() && (ex.ty.length == 0 || ex.ty.rep() == Rep::Blob) => {
            ex.ty.length.max(1)
        }
        Rep::Int if ex.is_const() || !unsigned => ex.ty.length.max(1),
        Rep::Dec if (ex.is_const() || crate::translate::types::is_negated_constant(ex)) && !unsigned => {
            ex.ty.length - u32::from(ex.ty.decimals) + 2
        }
        Rep::Null => 1,
        _ => 21,
    };
    SqlType::whole(length.min(21), unsigned)
}

/// CAST AS SIGNED keeps the bits of large unsigned numbers and the other way round.
fn whole(t: &mut Translator<'_>, ex: &Ex, to: Rep) -> String {
    let from = ex.ty.rep();
    if from == Rep::Uint && to == Rep::Int || from == Rep::Int && to == Rep::Uint {
        let sql = t.text(ex);
        let code = crate::translate::conversion_code(from, to);
        return format!("tg_cv({sql}, {code}, 0, 0, 0)");
    }
    if to == Rep::Uint && matches!(from, Rep::Dec | Rep::Real) {
        // Negative fractions become 0, unlike negative whole numbers.
        let sql = if from == Rep::Dec { t.text(ex) } else { t.convert(ex, Rep::Dec) };
        return format!("tg_dec_unsigned({sql})");
    }
    t.convert(ex, to)
}

fn limited(t: &mut Translator<'_>, ex: &Ex, rep: Rep, length: Option<u32>, collation: Collation) -> Ex {
    let sql = if rep == Rep::Text { t.as_text_in(ex, collation) } else { t.convert(ex, rep) };
    let shown = match ex.ty.rep() {
        Rep::Text | Rep::Blob => ex.ty.length,
        Rep::Datetime | Rep::Timestamp | Rep::Time => 26,
        _ => ex.ty.length.max(20) + 2,
    };
    let mut ty = SqlType::varchar(length.unwrap_or(shown), collation);
    ty.marks.cast = true;
    let sql = length.map_or(sql.clone(), |length| format!("tg_left({sql}, {length})"));
    Ex { code: Code::Sql(sql.clone()), coercibility: Coercibility::Literal, ..Ex::sql(sql, ty) }
}
