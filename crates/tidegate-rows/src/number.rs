//! Numbers as text, the way MySQL's text protocol writes them.

/// Largest count of digits before the point, and of zeros behind it, that a double is written with before it takes an
/// exponent. Source: MySQL's `my_gcvt`, `MAX_DECPT_FOR_F_FORMAT`.
const FIXED_DIGITS_MAX: i32 = 15;

/// Appends a signed integer.
pub fn append_int(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends an unsigned integer.
pub fn append_uint(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a double with the fewest digits that read back as the same number.
///
/// Not-a-number and infinities, which SQL does not have, are written as `NULL`.
pub fn append_double(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        append_shortest(out, zmij::Buffer::new().format_finite(value));
    } else {
        out.extend_from_slice(b"NULL");
    }
}

/// Appends a single-precision number with the fewest digits that read back as the same number.
pub fn append_float(out: &mut Vec<u8>, value: f32) {
    if value.is_finite() {
        append_shortest(out, zmij::Buffer::new().format_finite(value));
    } else {
        out.extend_from_slice(b"NULL");
    }
}

/// Lays the digits of `text` (`1.25`, `1e300`, `-0.5`) out as MySQL does: `1` instead of `1.0`, an exponent without `+`
/// and only outside of the range that [`FIXED_DIGITS_MAX`] allows.
fn append_shortest(out: &mut Vec<u8>, text: &str) {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().unwrap_or(0)),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // Digits without leading and trailing zeros; `point` is the position of the decimal point behind the first digit.
    let mut digits = [0u8; 40];
    let mut count = 0;
    let mut leading = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        if count == 0 && digit == b'0' {
            leading += 1;
        } else if count < digits.len() {
            digits[count] = digit;
            count += 1;
        }
    }
    while count > 0 && digits[count - 1] == b'0' {
        count -= 1;
    }
    let digits = &digits[..count];
    if digits.is_empty() {
        out.push(b'0');
        return;
    }
    if sign {
        out.push(b'-');
    }
    let point = i32::try_from(whole.len()).unwrap_or(i32::MAX) - leading + exponent;
    append_digits(out, digits, point);
}

/// Appends `0.DIGITS * 10^point`.
fn append_digits(out: &mut Vec<u8>, digits: &[u8], point: i32) {
    if !(1 - FIXED_DIGITS_MAX..=FIXED_DIGITS_MAX).contains(&point) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.push(b'e');
        append_int(out, i64::from(point) - 1);
    } else if point <= 0 {
        out.extend_from_slice(b"0.");
        out.extend((0..-point).map(|_| b'0'));
        out.extend_from_slice(digits);
    } else {
        let point = point as usize;
        if digits.len() <= point {
            out.extend_from_slice(digits);
            out.extend((digits.len()..point).map(|_| b'0'));
        } else {
            out.extend_from_slice(&digits[..point]);
            out.push(b'.');
            out.extend_from_slice(&digits[point..]);
        }
    }
}

/// Whether `text` is a number in JSON's grammar.
///
/// Source: RFC 8259, section 6.
pub fn is_json_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(text);
    if whole == 0 || (whole > 1 && text[0] == b'0') {
        return false;
    }
    let mut rest = &text[whole..];
    if let [b'.', tail @ ..] = rest {
        let fraction = digits(tail);
        if fraction == 0 {
            return false;
        }
        rest = &tail[fraction..];
    }
    if let [b'e' | b'E', tail @ ..] = rest {
        let tail = match tail {
            [b'+' | b'-', tail @ ..] => tail,
            _ => tail,
        };
        let exponent = digits(tail);
        return exponent > 0 && exponent == tail.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: f64, expected: &str) {
        let mut out = Vec::new();
        append_double(&mut out, value);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn doubles_look_as_in_mysql() {
        check(0.0, "0");
        check(-0.0, "0");
        check(1.0, "1");
        check(-1.5, "-1.5");
        check(100.0, "100");
        check(2.25, "2.25");
        check(0.1, "0.1");
        check(0.00012, "0.00012");
        check(123456789.25, "123456789.25");
        check(1e14, "100000000000000");
        check(1e15, "1e15");
        check(1.5e300, "1.5e300");
        check(-1e-300, "-1e-300");
        check(1e-14, "0.00000000000001");
        check(f64::MAX, "1.7976931348623157e308");
        check(f64::MIN_POSITIVE, "2.2250738585072014e-308");
        check(f64::NAN, "NULL");
    }

    #[test]
    fn floats_use_their_own_precision() {
        let mut out = Vec::new();
        append_float(&mut out, 0.1);
        assert_eq!(out, b"0.1");
    }

    #[test]
    fn json_numbers() {
        for good in ["0", "-0", "1", "-12", "10.5", "0.5", "1e5", "1E+5", "1.25e-7", "18446744073709551615"] {
            assert!(is_json_number(good.as_bytes()), "{good}");
        }
        for bad in ["", "-", "00", "007", "1.", ".5", "1e", "1e+", "+1", "0x1", "1 ", " 1", "NaN", "1.5.2", "12a"] {
            assert!(!is_json_number(bad.as_bytes()), "{bad}");
        }
    }
}
