//! What a value of a row becomes in Lua.

use tidegate_rows::number::{append_float, append_int, append_uint};
use tidegate_rows::{Column, ColumnType, Value};

use super::slots::Int64;

/// The largest integer below which a Lua number holds every one.
pub(super) const EXACT_MAX: u64 = 1 << 53;

/// What becomes of integers that a Lua number may not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Integers {
    /// Strings of digits for all `BIGINT`, and numbers for `DECIMAL`, as lua-resty-mysql has them.
    #[default]
    String,
    /// `int64_t` and `uint64_t` of LuaJIT's FFI for all `BIGINT`.
    Cdata,
    /// Lua numbers, exact up to 2^53.
    Number,
    /// Strings of digits for those that a number would not hold exactly. `DECIMAL` is a string as well.
    Exact,
}

/// What a column's values become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A Lua number.
    Number,
    /// `int64_t` or `uint64_t` of LuaJIT's FFI.
    Cdata { unsigned: bool },
    /// A string.
    Text,
    /// A Lua number if the value is an integer that it holds exactly, else a string.
    Exact,
}

impl Kind {
    pub(super) fn of(column: &Column, integers: Integers) -> Self {
        use ColumnType::*;
        match column.kind {
            Float | Double => Self::Number,
            _ if integers == Integers::Exact => Self::Exact,
            Decimal | Tiny | Short | Long | Int24 | Year | NewDecimal => Self::Number,
            LongLong => match integers {
                Integers::String | Integers::Exact => Self::Text,
                Integers::Number => Self::Number,
                Integers::Cdata => Self::Cdata { unsigned: column.flags.is_unsigned() },
            },
            _ => Self::Text,
        }
    }
}

/// A value on its way into a table.
pub(super) enum Cooked<'a> {
    Null,
    /// A number that is none: the field stays away, as with `tonumber`.
    Nothing,
    Number(f64),
    Bytes(&'a [u8]),
    Int64(Int64),
}

/// What a value becomes. `text` is memory to write numbers into.
#[inline]
pub(super) fn cook<'a>(kind: Kind, value: Value<'a>, text: &'a mut Vec<u8>) -> Cooked<'a> {
    match (value, kind) {
        (Value::Null, _) => Cooked::Null,
        (Value::Bytes(bytes), Kind::Text | Kind::Exact) => Cooked::Bytes(bytes),
        (Value::Bytes(bytes), Kind::Number) => parse_number(bytes),
        (Value::Bytes(bytes), Kind::Cdata { unsigned }) => {
            parse_int64(bytes, unsigned).map_or(Cooked::Bytes(bytes), Cooked::Int64)
        }
        (Value::Int(value), Kind::Cdata { unsigned: false }) => Cooked::Int64(Int64::Signed(value)),
        (Value::Int(value), Kind::Cdata { unsigned: true }) => Cooked::Int64(Int64::Unsigned(value.cast_unsigned())),
        (Value::Uint(value), Kind::Cdata { .. }) => Cooked::Int64(Int64::Unsigned(value)),
        (Value::Int(value), Kind::Exact) if value.unsigned_abs() <= EXACT_MAX => Cooked::Number(value as f64),
        (Value::Uint(value), Kind::Exact) if value <= EXACT_MAX => Cooked::Number(value as f64),
        (Value::Int(value), Kind::Number) => Cooked::Number(value as f64),
        (Value::Uint(value), Kind::Number) => Cooked::Number(value as f64),
        (Value::Int(value), _) => {
            text.clear();
            append_int(text, value);
            Cooked::Bytes(text)
        }
        (Value::Uint(value), _) => {
            text.clear();
            append_uint(text, value);
            Cooked::Bytes(text)
        }
        // By its shortest text, as the text protocol has it: 1.1 rather than 1.10000002384.
        (Value::Float(value), _) => {
            text.clear();
            append_float(text, value);
            parse_number(text)
        }
        (Value::Double(value), _) => Cooked::Number(value),
    }
}

/// A number of one to fifteen digits and nothing else.
#[inline]
pub(super) fn whole_number(text: &[u8]) -> Option<f64> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    let mut number = 0_i64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + i64::from(digit);
    }
    Some(number as f64)
}

/// A number as servers write them. The common ones, of up to 15 digits, need no general parser.
#[inline]
fn parse_number<'a>(text: &[u8]) -> Cooked<'a> {
    const DIGITS_MAX: usize = 15;
    const POWERS: [f64; DIGITS_MAX + 1] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let (digits, negative) = match text.split_first() {
        Some((b'-', digits)) => (digits, true),
        _ => (text, false),
    };
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return parse_any_number(text);
    }
    let (mut number, mut fraction, mut point) = (0_u64, 0_usize, false);
    for &byte in digits {
        match byte {
            b'0'..=b'9' => {
                number = number * 10 + u64::from(byte - b'0');
                fraction += usize::from(point);
            }
            b'.' if !point && digits.len() > 1 => point = true,
            _ => return parse_any_number(text),
        }
    }
    // Both are exact, hence the quotient is the nearest number.
    let number = number as f64 / POWERS[fraction];
    Cooked::Number(if negative { -number } else { number })
}

#[cold]
fn parse_any_number<'a>(text: &[u8]) -> Cooked<'a> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse::<f64>().ok());
    number.map_or(Cooked::Nothing, Cooked::Number)
}

fn parse_int64(text: &[u8], unsigned: bool) -> Option<Int64> {
    let text = std::str::from_utf8(text).ok()?;
    if unsigned { text.parse().ok().map(Int64::Unsigned) } else { text.parse().ok().map(Int64::Signed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<f64>) {
        let found = match parse_number(text.as_bytes()) {
            Cooked::Number(number) => Some(number),
            _ => None,
        };
        assert_eq!(found.map(f64::to_bits), expected.map(f64::to_bits), "{text}: {found:?}");
    }

    #[test]
    fn numbers() {
        check("0", Some(0.0));
        check("-1", Some(-1.0));
        check("00042", Some(42.0));
        check("0.1", Some(0.1));
        check("-0.30", Some(-0.3));
        check("123456789.12345", Some(123_456_789.123_45));
        check("999999999999999", Some(999_999_999_999_999.0));
        check("12345678901234567890", Some(12_345_678_901_234_567_000.0));
        check("1e300", Some(1e300));
        check("1.7976931348623157e308", Some(f64::MAX));
        check("-1.5e-7", Some(-1.5e-7));
        check(".5", Some(0.5));
        check("", None);
        check("-", None);
        check(".", None);
        check("1.2.3", None);
        check("abc", None);
    }

    #[test]
    fn whole_numbers() {
        assert_eq!(whole_number(b"0"), Some(0.0));
        assert_eq!(whole_number(b"00790"), Some(790.0));
        assert_eq!(whole_number(b"999999999999999"), Some(999_999_999_999_999.0));
        for text in [&b""[..], b"-1", b"1.5", b"1e3", b" 1", b"9999999999999999"] {
            assert_eq!(whole_number(text), None);
        }
    }

    #[test]
    fn integers() {
        assert_eq!(parse_int64(b"-9223372036854775808", false), Some(Int64::Signed(i64::MIN)));
        assert_eq!(parse_int64(b"18446744073709551615", true), Some(Int64::Unsigned(u64::MAX)));
        assert_eq!(parse_int64(b"18446744073709551615", false), None);
        assert_eq!(parse_int64(b"x", false), None);
    }
}
