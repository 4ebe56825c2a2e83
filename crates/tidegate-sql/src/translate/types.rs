//! The types of results: those of arithmetic, and what several types have in common.

use super::{Code, Ex, Source};
use crate::value::{Base, Rep, SqlType, collation::Collation, decimal, out::Out, types::NOT_FIXED};

pub(super) fn numeric(mut ty: SqlType) -> SqlType {
    ty.marks.number = true;
    ty
}

/// Whether an operand of arithmetic has no sign.
pub(super) fn unsigned_operand(ex: &Ex) -> bool {
    ex.ty.rep() == Rep::Uint || ex.ty.unsigned || ex.ty.marks.number
}

/// Digits of a number as a decimal: all, and those behind the point.
pub(crate) fn digits(ex: &Ex) -> (u32, u8) {
    match ex.ty.rep() {
        Rep::Dec => (ex.ty.length, ex.ty.decimals),
        Rep::Datetime if ex.ty.base == Base::Date => (8, 0),
        Rep::Datetime | Rep::Timestamp => (14 + u32::from(ex.ty.decimals), ex.ty.decimals),
        Rep::Time => (7 + u32::from(ex.ty.decimals), ex.ty.decimals),
        Rep::Int if ex.is_const() => (ex.ty.length, 0),
        Rep::Int if ex.ty.is_bool() => (1, 0),
        Rep::Int if ex.origin.is_some() || ex.ty.marks.stored => (int_digits(&ex.ty), 0),
        Rep::Int => (ex.ty.length.saturating_sub(u32::from(!ex.ty.unsigned)).clamp(1, 19), 0),
        Rep::Uint if ex.is_const() => (ex.ty.length, 0),
        Rep::Uint => (ex.ty.length.clamp(1, 20), 0),
        Rep::Enum | Rep::Set => (5, 0),
        Rep::Text if ex.ty.marks.dated => (20, 6),
        _ => (10, 0),
    }
}

/// Decimal digits that an integer type needs.
pub(crate) fn int_digits(ty: &SqlType) -> u32 {
    match ty.base {
        Base::Tiny => 3,
        Base::Small => 5,
        Base::Medium => 8,
        Base::Int => 10,
        Base::Year => 4,
        _ if ty.unsigned => 20,
        _ => 19,
    }
}

pub(super) fn decimal_result(a: &Ex, b: &Ex, symbol: char) -> SqlType {
    let ((pa, sa), (pb, sb)) = (digits(a), digits(b));
    let (precision, scale) = if symbol == '*' {
        (pa + pb, u32::from(sa) + u32::from(sb))
    } else {
        let scale = u32::from(sa.max(sb));
        let whole = (pa - u32::from(sa).min(pa)).max(pb - u32::from(sb).min(pb));
        (whole + scale + 1, scale)
    };
    let scale = scale.min(u32::from(decimal::SCALE_MAX)) as u8;
    SqlType::decimal(precision.clamp(u32::from(scale).max(1), decimal::PRECISION_MAX), scale)
}

pub(super) fn double_of(a: &Ex, b: &Ex) -> SqlType {
    let decimals = |ex: &Ex| match ex.ty.rep() {
        Rep::Real | Rep::Dec => ex.ty.decimals,
        Rep::Int | Rep::Uint => 0,
        Rep::Datetime | Rep::Timestamp | Rep::Time => ex.ty.decimals,
        Rep::Blob if ex.is_const() && !matches!(ex.code, Code::Const(Source::Param(_))) => 0,
        Rep::Text if ex.ty.marks.cast => 0,
        Rep::Text if ex.ty.marks.dated => 6,
        _ => NOT_FIXED,
    };
    SqlType { decimals: decimals(a).max(decimals(b)).min(NOT_FIXED), ..SqlType::new(Base::Double) }
}

/// Whether an expression is a literal behind a minus.
pub(crate) fn is_negated_constant(ex: &Ex) -> bool {
    matches!(&ex.code, Code::Sql(sql) if sql.starts_with("(-?") || sql.starts_with("tg_dec_neg(?"))
}

/// Whether an expression reads no column.
pub(crate) fn is_constant(ex: &Ex) -> bool {
    match &ex.code {
        Code::Const(_) => true,
        Code::Sql(sql) => !sql.contains(".c") && !sql.contains(".r"),
    }
}

/// The type of an expression over columns: BIT and YEAR are whole numbers in it.
pub(crate) fn settled(ty: SqlType) -> SqlType {
    match ty.base {
        Base::Bit => SqlType { length: ty.length.div_ceil(3).max(1), ..SqlType::ubigint() },
        Base::Enum | Base::Set => {
            let lengths =
                ty.members.iter().flat_map(|members| members.iter()).map(|member| member.chars().count() as u32);
            let length =
                if ty.base == Base::Enum { lengths.max() } else { Some(lengths.map(|length| length + 1).sum()) };
            SqlType::varchar(length.unwrap_or(0), ty.collation)
        }
        _ => SqlType { zerofill: false, ..ty },
    }
}

/// How an expression's value goes into a column: a column of text gets all digits of a quotient, which has more than it shows,
/// also of a product or sum with one.
pub(crate) fn stored(ex: &Ex) -> Out {
    let mut out = Out::of(&ex.ty);
    if let (Rep::Dec, Code::Sql(sql)) = (ex.ty.rep(), &ex.code)
        && sql.starts_with("tg_dec_")
        && !["round", "trunc", "tg_dec_fit", "floor", "ceil", "intdiv", "mod("].iter().any(|cut| sql.contains(cut))
    {
        let kept = sql.match_indices("tg_dec_div(").filter_map(|(at, _)| digits_kept(&sql[at..])).max();
        out.ty.decimals = out.ty.decimals.max(kept.unwrap_or(0));
    }
    out
}

/// The digits that the division at the beginning of a text keeps: its last argument but one.
fn digits_kept(division: &str) -> Option<u8> {
    let mut depth = 0usize;
    let end = division.find(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ')' && depth == 0
    })?;
    division[..end].rsplit(", ").nth(1)?.parse().ok()
}

/// The type of a UNION's column that has BIT beside something else: the digits of the numbers, as bytes.
pub(super) fn bits_beside_others(all: &[Ex]) -> Option<SqlType> {
    let known = || all.iter().filter(|ex| ex.ty.base != Base::Null);
    let bits = |ex: &Ex| ex.ty.base == Base::Bit;
    let length = known().map(|ex| ex.ty.length).max()?;
    (known().any(bits) && !known().all(bits)).then(|| SqlType {
        length,
        collation: Collation::BINARY,
        ..SqlType::new(Base::Varbinary)
    })
}

/// The type that holds values of both.
pub(crate) fn common_of(a: &SqlType, b: &SqlType, collation: Collation) -> SqlType {
    let ints = |ty: &SqlType| ty.base.is_integer();
    if a == b {
        return a.clone();
    }
    if let Some(fixed) = [a, b].into_iter().find(|ty| matches!(ty.base, Base::Fixed(_))) {
        return SqlType::new(fixed.base);
    }
    let unsigned = |ty: &SqlType| ty.unsigned || ty.base == Base::Bit;
    if ints(a) && ints(b) && unsigned(a) == unsigned(b) {
        let wider = if int_digits(a) >= int_digits(b) { a.clone() } else { b.clone() };
        return SqlType { length: a.length.max(b.length), ..wider };
    }
    let exact = |ty: &SqlType| ints(ty) || ty.base == Base::Decimal;
    if exact(a) && exact(b) {
        let parts = |ty: &SqlType| {
            if ty.base == Base::Decimal {
                (ty.length - u32::from(ty.decimals), ty.decimals)
            } else {
                (int_digits(ty), 0)
            }
        };
        let ((wa, sa), (wb, sb)) = (parts(a), parts(b));
        let scale = sa.max(sb);
        return SqlType::decimal((wa.max(wb) + u32::from(scale)).min(decimal::PRECISION_MAX), scale);
    }
    if a.base.is_number() && b.base.is_number() {
        let decimals = a.decimals.max(b.decimals).min(NOT_FIXED);
        return SqlType { decimals, ..SqlType::new(Base::Double) };
    }
    if a.base.is_temporal() && b.base.is_temporal() {
        let decimals = a.decimals.max(b.decimals);
        if a.base == b.base {
            return SqlType::temporal(a.base, decimals);
        }
        return SqlType::temporal(Base::Datetime, decimals);
    }
    let chars = |ty: &SqlType| match ty.base {
        Base::Tiny | Base::Small | Base::Medium | Base::Int | Base::Big | Base::Year => ty.length,
        Base::Decimal => ty.length + 2,
        Base::Float | Base::Double => 23,
        Base::Date | Base::Time => 10,
        Base::Datetime | Base::Timestamp => 26,
        Base::Enum | Base::Set => 255,
        _ => ty.length,
    };
    let text = |ty: &SqlType| ty.base.is_character() || ty.base.is_binary();
    let collation = if text(a) || text(b) { collation } else { Collation::DEFAULT };
    let length = chars(a).max(chars(b));
    if a.base.is_blob() || b.base.is_blob() {
        return blob_of(length, collation);
    }
    // A CHAR stays one beside what is no text.
    if matches!((a.base, text(b)), (Base::Char | Base::Binary, false))
        || matches!((b.base, text(a)), (Base::Char | Base::Binary, false))
    {
        let base = if collation == Collation::BINARY { Base::Binary } else { Base::Char };
        return SqlType { length, collation, ..SqlType::new(base) };
    }
    if length > 65_535 {
        let base = if collation == Collation::BINARY { Base::LongBlob } else { Base::LongText };
        return SqlType { length, collation, ..SqlType::new(base) };
    }
    SqlType::varchar(length, collation)
}

/// The TEXT or BLOB that holds so many characters.
pub(crate) fn blob_of(length: u32, collation: Collation) -> SqlType {
    let binary = collation == Collation::BINARY;
    let base = match (length.saturating_mul(collation.char_bytes_max()), binary) {
        (..=255, true) => Base::TinyBlob,
        (..=255, false) => Base::TinyText,
        (..=65_535, true) => Base::Blob,
        (..=65_535, false) => Base::Text,
        (..=16_777_215, true) => Base::MediumBlob,
        (..=16_777_215, false) => Base::MediumText,
        (_, true) => Base::LongBlob,
        (_, false) => Base::LongText,
    };
    SqlType { length, collation, ..SqlType::new(base) }
}
