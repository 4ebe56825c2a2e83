//! Numbers and text: the conversions that MySQL does silently, with what it warns about.

use super::decimal::Decimal;

/// Digits that fit into any 64 bits, whatever they are.
const DIGITS_MAX: usize = 18;

/// Appends a double as MySQL prints it: shortest digits, exponent form from 1e15 up and below 1e-15.
pub(crate) fn write_f64(value: f64, out: &mut Vec<u8>) {
    let mut buf = zmij::Buffer::new();
    if value.is_finite() { write_scientific(buf.format_finite(value), out) } else { out.extend_from_slice(b"0") }
}

/// Appends a FLOAT: at most six significant digits.
pub(crate) fn write_f32(value: f64, out: &mut Vec<u8>) {
    if value == 0.0 || !value.is_finite() {
        out.push(b'0');
        return;
    }
    write_scientific(&format!("{value:.5e}"), out);
}

/// Rewrites the digits and exponent of `text` in MySQL's form.
fn write_scientific(text: &str, out: &mut Vec<u8>) {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let mut exponent: i32 = exponent.parse().unwrap_or(0);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut digits = [0u8; 400];
    let mut len = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        if len < digits.len() {
            digits[len] = byte;
            len += 1;
        }
    }
    let leading = digits[..len].iter().take_while(|digit| **digit == b'0').count();
    let digits = &digits[leading..len];
    let used = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    let digits = &digits[..used];
    if digits.is_empty() {
        out.push(b'0');
        return;
    }
    if negative {
        out.push(b'-');
    }
    // Now the value is 0.DIGITS x 10^point.
    exponent += whole.len() as i32 - leading as i32;
    let point = exponent;
    if point > 15 || point <= -15 {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.push(b'e');
        out.extend_from_slice(itoa::Buffer::new().format(point - 1).as_bytes());
    } else if point <= 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', point.unsigned_abs() as usize));
        out.extend_from_slice(digits);
    } else {
        let point = point as usize;
        if digits.len() > point {
            out.extend_from_slice(&digits[..point]);
            out.push(b'.');
            out.extend_from_slice(&digits[point..]);
        } else {
            out.extend_from_slice(digits);
            out.extend(std::iter::repeat_n(b'0', point - digits.len()));
        }
    }
}

/// What a text is worth as a number, and whether all of it was one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Parsed<T> {
    pub(crate) value: T,
    pub(crate) clean: bool,
}

/// The length of the number at the start of `text` (behind spaces), 0 if there is none.
fn number_end(text: &[u8]) -> usize {
    let mut pos = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    if matches!(text.get(pos), Some(b'-' | b'+')) {
        pos += 1;
    }
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(pos);
    pos += whole;
    let mut fraction = 0;
    if text.get(pos) == Some(&b'.') {
        fraction = digits(pos + 1);
        if whole + fraction > 0 {
            pos += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return 0;
    }
    if matches!(text.get(pos), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(pos + 1), Some(b'-' | b'+')));
        let exponent = if pos + 1 + sign <= text.len() { digits(pos + 1 + sign) } else { 0 };
        if exponent > 0 {
            pos += 1 + sign + exponent;
        }
    }
    pos
}

fn rest_is_space(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_whitespace)
}

/// Text as a double.
pub(crate) fn parse_f64(text: &[u8]) -> Parsed<f64> {
    let end = number_end(text);
    let number = std::str::from_utf8(&text[..end]).unwrap_or("").trim_ascii_start();
    let value: f64 = number.parse().unwrap_or(0.0);
    let value = if value.is_infinite() { f64::MAX.copysign(value) } else { value };
    Parsed { value, clean: end > 0 && rest_is_space(&text[end..]) }
}

/// The number of a text that has nothing but digits, and few enough that any type has room.
pub(crate) fn parse_digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.len() <= DIGITS_MAX && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Text as a decimal; the one farthest from zero if that is too small.
pub(crate) fn parse_decimal(text: &[u8]) -> Parsed<Decimal> {
    if let Some((value, used)) = Decimal::parse_prefix(text) {
        return Parsed { value, clean: rest_is_space(&text[used..]) };
    }
    let parsed = parse_f64(text);
    if parsed.value.abs() < 1e37 {
        return Parsed { value: Decimal::ZERO, clean: false };
    }
    Parsed { value: Decimal::most(parsed.value < 0.0), clean: parsed.clean }
}

/// The whole number at the start of a text, as CAST AS SIGNED reads it: no point, no exponent.
pub(crate) fn parse_int(text: &[u8]) -> Parsed<i128> {
    let mut pos = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let negative = text.get(pos) == Some(&b'-');
    if matches!(text.get(pos), Some(b'-' | b'+')) {
        pos += 1;
    }
    let count = text[pos..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let limit = i128::from(u64::MAX) * 16;
    let value =
        text[pos..pos + count].iter().fold(0i128, |value, byte| (value * 10 + i128::from(byte - b'0')).min(limit));
    Parsed { value: if negative { -value } else { value }, clean: count > 0 && rest_is_space(&text[pos + count..]) }
}

/// The bytes of `x'…'`.
pub(crate) fn hex_bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    let (odd, pairs) = digits.split_at(digits.len() % 2);
    odd.iter().copied().chain(pairs.chunks(2).map(|pair| pair[0] << 4 | pair[1])).collect()
}

/// The bytes of `b'…'`.
pub(crate) fn bit_bytes(digits: &str) -> Vec<u8> {
    let mut bytes = vec![0u8; digits.len().div_ceil(8)];
    let count = bytes.len();
    for (index, digit) in digits.bytes().rev().enumerate() {
        if digit == b'1' {
            bytes[count - 1 - index / 8] |= 1 << (index % 8);
        }
    }
    bytes
}

/// A double as an integer, rounded half away from zero... to even for exact halves, as MySQL's `rint` does.
pub(crate) fn round_f64(value: f64) -> i128 {
    value.round_ties_even() as i128
}

/// The shortest digits that mean the number, without an exponent: zeros stand for what they do not say.
pub(crate) fn plain(value: f64) -> String {
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = 1 + exponent;
    if point <= 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize));
    }
    let point = point as usize;
    if digits.len() <= point {
        return format!("{sign}{digits}{}", "0".repeat(point - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..point], &digits[point..])
}

/// `0x…` and `b'…'` are big-endian numbers where a number is wanted.
pub(crate) fn big_endian(bytes: &[u8]) -> u64 {
    bytes[bytes.len().saturating_sub(8)..].iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: f64, expected: &str) {
        let mut out = Vec::new();
        write_f64(value, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn plain_digits() {
        for (text, number) in [
            (&b"0"[..], Some(0)),
            (b"007", Some(7)),
            (b"999999999999999999", Some(999_999_999_999_999_999)),
            (b"1000000000000000000", None),
            (b"", None),
            (b"-1", None),
            (b" 1", None),
            (b"1.0", None),
            (b"1e2", None),
        ] {
            assert_eq!(parse_digits(text), number, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn doubles_print_as_mysqls() {
        check(1e14, "100000000000000");
        check(1e15, "1e15");
        check(1.5e15, "1.5e15");
        check(1.2345678901234568e17, "1.2345678901234568e17");
        check(1e-4, "0.0001");
        check(1.234e-10, "0.0000000001234");
        check(1e-15, "0.000000000000001");
        check(1e-16, "1e-16");
        check(0.1 + 0.2, "0.30000000000000004");
        check(-0.5, "-0.5");
        check(0.0, "0");
        check(123456.789, "123456.789");
        check(1.7976931348623157e308, "1.7976931348623157e308");
    }

    #[test]
    fn floats_have_six_digits() {
        for (value, expected) in
            [(123456789.0, "123457000"), (0.1f32 as f64, "0.1"), (1e15, "1e15"), (1.5e10, "15000000000")]
        {
            let mut out = Vec::new();
            write_f32(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn text_to_numbers() {
        assert_eq!(parse_f64(b"12.5abc"), Parsed { value: 12.5, clean: false });
        assert_eq!(parse_f64(b" 1e3 "), Parsed { value: 1000.0, clean: true });
        assert_eq!(parse_f64(b""), Parsed { value: 0.0, clean: false });
        assert_eq!(parse_f64(b".5"), Parsed { value: 0.5, clean: true });
        assert_eq!(parse_f64(b"1e"), Parsed { value: 1.0, clean: false });
        assert_eq!(parse_int(b"12.5"), Parsed { value: 12, clean: false });
        assert_eq!(parse_int(b"-7"), Parsed { value: -7, clean: true });
    }
}
