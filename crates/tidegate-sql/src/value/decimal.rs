//! Exact decimal numbers: arithmetic, text and the stored form.
//!
//! A number is a mantissa of at most 38 digits and a scale (digits behind the point). A result that does not fit is an error,
//! never rounded in front of its scale.
//!
//! The stored form sorts by `memcmp` as the numbers do, whatever their scale, and each value has exactly one:
//!
//! ```text
//! zero      80
//! positive  C0+E  d1+1 d2+1 …          value = 0.d1d2… x 100^E, base-100 digits, first and last not 0
//! negative  40-E  101-d1 101-d2 … FF
//! ```

use std::{cmp::Ordering, fmt::Write};

/// Digits that a mantissa can hold.
pub(crate) const PRECISION_MAX: u32 = 38;
/// Digits behind the point that MariaDB allows.
pub(crate) const SCALE_MAX: u8 = 38;

/// An exact decimal number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decimal {
    pub(crate) mantissa: i128,
    pub(crate) scale: u8,
}

const fn powers() -> [i128; 39] {
    let mut table = [1i128; 39];
    let mut index = 1;
    while index < 39 {
        table[index] = table[index - 1] * 10;
        index += 1;
    }
    table
}

static POW10: [i128; 39] = powers();

/// 10 to the power of `exponent`, if it fits.
pub(crate) fn pow10(exponent: u32) -> Option<i128> {
    POW10.get(exponent as usize).copied()
}

impl Decimal {
    /// Zero.
    pub(crate) const ZERO: Self = Self { mantissa: 0, scale: 0 };

    /// A whole number.
    pub(crate) fn from_int(value: i128) -> Self {
        Self { mantissa: value, scale: 0 }
    }

    /// The number at the start of a text after spaces, and how many bytes belong to it. Exponents are allowed.
    /// `None` if the text does not start with a number; digits that do not fit behind the point are rounded away.
    pub(crate) fn parse_prefix(text: &[u8]) -> Option<(Self, usize)> {
        let start = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let mut pos = start;
        let negative = match text.get(pos) {
            Some(b'-') => true,
            Some(b'+') => false,
            _ => {
                pos = pos.wrapping_sub(1);
                false
            }
        };
        pos = pos.wrapping_add(1);
        let (mut mantissa, mut scale, mut digits, mut round) = (0i128, 0i32, 0, None);
        let mut seen_point = false;
        while let Some(&byte) = text.get(pos) {
            match byte {
                b'0'..=b'9' => {
                    digits += 1;
                    let digit = i128::from(byte - b'0');
                    let room = round.is_none() && (!seen_point || scale < i32::from(SCALE_MAX));
                    match mantissa.checked_mul(10).and_then(|value| value.checked_add(digit)) {
                        Some(next) if room && next < POW10[38] => {
                            mantissa = next;
                            scale += i32::from(seen_point);
                        }
                        _ if seen_point => {
                            round.get_or_insert(digit >= 5);
                        }
                        _ => return None,
                    }
                }
                b'.' if !seen_point => seen_point = true,
                _ => break,
            }
            pos += 1;
        }
        if digits == 0 {
            return None;
        }
        if round == Some(true) {
            mantissa += 1;
        }
        if let Some((exponent, used)) = parse_exponent(&text[pos..]) {
            scale -= exponent;
            pos += used;
        }
        let mantissa = if negative { -mantissa } else { mantissa };
        let value = if scale < 0 {
            let factor = pow10(u32::try_from(-scale).ok()?).filter(|_| true);
            Self { mantissa: mantissa.checked_mul(factor?)?, scale: 0 }
        } else if scale > i32::from(SCALE_MAX) {
            let cut = (scale - i32::from(SCALE_MAX)) as u32;
            let mantissa = pow10(cut).map_or(0, |divisor| div_round(mantissa, divisor));
            Self { mantissa, scale: SCALE_MAX }
        } else {
            Self { mantissa, scale: scale as u8 }
        };
        Some((value, pos))
    }

    /// The nearest decimal to a floating-point number, by its shortest text.
    pub(crate) fn from_f64(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let mut buf = zmij::Buffer::new();
        Self::parse_prefix(buf.format_finite(value).as_bytes()).map(|(value, _)| value)
    }

    /// The number farthest from zero.
    pub(crate) fn most(is_negative: bool) -> Self {
        let mantissa = POW10[38] - 1;
        Self { mantissa: if is_negative { -mantissa } else { mantissa }, scale: 0 }
    }

    /// The number as floating point.
    pub(crate) fn to_f64(self) -> f64 {
        if let Ok(small) = i64::try_from(self.mantissa)
            && small.unsigned_abs() < 1 << 53
            && self.scale <= 22
        {
            return small as f64 / 10f64.powi(i32::from(self.scale));
        }
        self.to_string().parse().unwrap_or(0.0)
    }

    /// The same number with another scale, rounded half away from zero; `None` if it does not fit.
    pub(crate) fn rescale(self, scale: u8) -> Option<Self> {
        let mantissa = match scale.cmp(&self.scale) {
            Ordering::Equal => self.mantissa,
            Ordering::Greater => self.mantissa.checked_mul(pow10(u32::from(scale - self.scale))?)?,
            Ordering::Less => match pow10(u32::from(self.scale - scale)) {
                Some(divisor) => div_round(self.mantissa, divisor),
                None => 0,
            },
        };
        (mantissa.unsigned_abs() < POW10[38].unsigned_abs()).then_some(Self { mantissa, scale })
    }

    /// The same number with fewer digits behind the point, cut off.
    pub(crate) fn truncate(self, scale: u8) -> Self {
        if scale >= self.scale {
            return self;
        }
        let mantissa = pow10(u32::from(self.scale - scale)).map_or(0, |divisor| self.mantissa / divisor);
        Self { mantissa, scale }
    }

    /// Rounded to a whole number, half away from zero.
    pub(crate) fn round_to_int(self) -> i128 {
        self.rescale(0).map_or(0, |value| value.mantissa)
    }

    fn aligned(self, other: Self) -> Option<(i128, i128, u8)> {
        let scale = self.scale.max(other.scale);
        let a = self.mantissa.checked_mul(pow10(u32::from(scale - self.scale))?)?;
        let b = other.mantissa.checked_mul(pow10(u32::from(scale - other.scale))?)?;
        Some((a, b, scale))
    }

    /// The number with the other sign.
    pub(crate) fn negated(self) -> Self {
        Self { mantissa: -self.mantissa, ..self }
    }

    /// The sum; `None` if it does not fit.
    pub(crate) fn add(self, other: Self) -> Option<Self> {
        let (a, b, scale) = self.aligned(other)?;
        fits(a.checked_add(b)?, scale)
    }

    /// The difference; `None` if it does not fit.
    pub(crate) fn sub(self, other: Self) -> Option<Self> {
        self.add(Self { mantissa: -other.mantissa, ..other })
    }

    /// The product; `None` if it does not fit. Scales add up, at most [`SCALE_MAX`].
    pub(crate) fn mul(self, other: Self) -> Option<Self> {
        let scale = self.scale + other.scale;
        let product = match self.mantissa.checked_mul(other.mantissa) {
            Some(product) => Self { mantissa: product, scale },
            None => {
                let (a, b) = (self.shortest(), other.shortest());
                Self { mantissa: a.mantissa.checked_mul(b.mantissa)?, scale: a.scale + b.scale }
            }
        };
        if product.scale > SCALE_MAX { product.rescale(SCALE_MAX) } else { fits(product.mantissa, product.scale) }
    }

    /// The quotient with so many digits behind the point, rounded; `None` for division by zero or if it does not fit.
    pub(crate) fn div(self, other: Self, scale: u8) -> Option<Self> {
        if other.mantissa == 0 {
            return None;
        }
        let shift = i32::from(scale) + i32::from(other.scale) - i32::from(self.scale);
        let (numerator, denominator) = if shift >= 0 {
            (self.mantissa.checked_mul(pow10(shift as u32)?), Some(other.mantissa))
        } else {
            (Some(self.mantissa), other.mantissa.checked_mul(pow10(shift.unsigned_abs())?))
        };
        let (Some(numerator), Some(denominator)) = (numerator, denominator) else {
            let (a, b) = (self.shortest(), other.shortest());
            if a.scale == self.scale && b.scale == other.scale {
                return long_div(self, other, scale);
            }
            return a.div(b, scale);
        };
        fits(div_round(numerator, denominator), scale)
    }

    /// The remainder with the sign of the dividend; `None` for division by zero.
    pub(crate) fn rem(self, other: Self) -> Option<Self> {
        if other.mantissa == 0 {
            return None;
        }
        let (a, b, scale) = self.aligned(other)?;
        Some(Self { mantissa: a % b, scale })
    }

    /// Without trailing zeros behind the point.
    fn shortest(mut self) -> Self {
        while self.scale > 0 && self.mantissa % 10 == 0 {
            self.mantissa /= 10;
            self.scale -= 1;
        }
        self
    }

    /// Appends the text, e.g. `-0.50`.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(self.mantissa.unsigned_abs()).as_bytes();
        if self.mantissa < 0 {
            out.push(b'-');
        }
        let scale = usize::from(self.scale);
        if digits.len() > scale {
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            out.extend_from_slice(whole);
            if scale > 0 {
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
        } else {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', scale - digits.len()));
            out.extend_from_slice(digits);
        }
    }

    /// Appends the stored form.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        if self.mantissa == 0 {
            out.push(0x80);
            return;
        }
        let negative = self.mantissa < 0;
        let mut rest = self.mantissa.unsigned_abs();
        let mut scale = u32::from(self.scale);
        let mut pairs = [0u8; 24];
        let mut first = pairs.len();
        if scale % 2 == 1 {
            // Pairs are counted from the point: the last digit stands alone.
            first -= 1;
            pairs[first] = (rest % 10) as u8 * 10;
            rest /= 10;
            scale += 1;
        }
        while rest > 0 {
            first -= 1;
            pairs[first] = (rest % 100) as u8;
            rest /= 100;
        }
        let count = pairs.len() - first;
        let exponent = count as i32 - (scale / 2) as i32;
        let last = pairs.iter().rposition(|pair| *pair != 0).map_or(first, |last| last + 1);
        let used = &pairs[first..last];
        if negative {
            out.push((0x40 - exponent) as u8);
            out.extend(used.iter().map(|pair| 101 - pair));
            out.push(0xff);
        } else {
            out.push((0xc0 + exponent) as u8);
            out.extend(used.iter().map(|pair| pair + 1));
        }
    }

    /// The stored form.
    pub(crate) fn to_blob(self) -> Box<[u8]> {
        let mut out = Vec::with_capacity(24);
        self.encode(&mut out);
        out.into()
    }

    /// The number of a stored form; `None` for bytes that are none.
    pub(crate) fn decode(blob: &[u8]) -> Option<Self> {
        let (&head, pairs) = blob.split_first()?;
        if head == 0x80 {
            return Some(Self::ZERO);
        }
        let negative = head < 0x80;
        let exponent = if negative { 0x40 - i32::from(head) } else { i32::from(head) - 0xc0 };
        let pairs = if negative { pairs.strip_suffix(&[0xff])? } else { pairs };
        let mut mantissa = 0i128;
        for &pair in pairs {
            let pair = if negative { 101u8.checked_sub(pair)? } else { pair.checked_sub(1)? };
            mantissa = mantissa.checked_mul(100)?.checked_add(i128::from(pair))?;
        }
        let behind = 2 * (pairs.len() as i32 - exponent);
        let sign = if negative { -1 } else { 1 };
        if behind <= 0 {
            let mantissa = mantissa.checked_mul(pow10(behind.unsigned_abs())?)?;
            return Some(Self { mantissa: sign * mantissa, scale: 0 });
        }
        let value = Self { mantissa: sign * mantissa, scale: u8::try_from(behind).ok()? };
        Some(if mantissa % 10 == 0 { Self { mantissa: value.mantissa / 10, scale: value.scale - 1 } } else { value })
    }
}

fn parse_exponent(text: &[u8]) -> Option<(i32, usize)> {
    let (b'e' | b'E', rest) = text.split_first()? else { return None };
    let (negative, rest, sign) = match rest.first()? {
        b'-' => (true, &rest[1..], 1),
        b'+' => (false, &rest[1..], 1),
        _ => (false, rest, 0),
    };
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let value =
        rest[..count].iter().fold(0i32, |value, byte| value.saturating_mul(10).saturating_add(i32::from(byte - b'0')));
    let value = value.min(10_000);
    Some((if negative { -value } else { value }, 1 + sign + count))
}

fn fits(mantissa: i128, scale: u8) -> Option<Decimal> {
    (mantissa.unsigned_abs() < POW10[38].unsigned_abs()).then_some(Decimal { mantissa, scale })
}

/// Division rounded half away from zero.
fn div_round(numerator: i128, denominator: i128) -> i128 {
    let (quotient, rest) = (numerator / denominator, numerator % denominator);
    if rest.unsigned_abs() >= denominator.unsigned_abs() - rest.unsigned_abs() {
        quotient + if (numerator < 0) == (denominator < 0) { 1 } else { -1 }
    } else {
        quotient
    }
}

/// Digit by digit, for numerators that do not fit when shifted.
fn long_div(a: Decimal, b: Decimal, scale: u8) -> Option<Decimal> {
    let divisor = b.mantissa.unsigned_abs();
    let dividend = a.mantissa.unsigned_abs();
    let shift = i32::from(scale) + i32::from(b.scale) - i32::from(a.scale);
    let mut quotient = dividend / divisor;
    let mut rest = dividend % divisor;
    for _ in 0..shift.max(0) {
        rest = rest.checked_mul(10)?;
        quotient = quotient.checked_mul(10)?.checked_add(rest / divisor)?;
        rest %= divisor;
    }
    if rest >= divisor - rest {
        quotient += 1;
    }
    let mantissa = i128::try_from(quotient).ok()?;
    fits(if (a.mantissa < 0) == (b.mantissa < 0) { mantissa } else { -mantissa }, scale)
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = Vec::with_capacity(48);
        self.write(&mut out);
        out.iter().try_for_each(|byte| f.write_char(char::from(*byte)))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.shortest(), other.shortest());
        a.mantissa == b.mantissa && (a.scale == b.scale || a.mantissa == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dec(text: &str) -> Decimal {
        Decimal::parse_prefix(text.as_bytes()).unwrap().0
    }

    #[test]
    fn text_and_back() {
        for text in ["0", "1", "-1", "0.50", "-0.05", "123456789.987654321", "99999999999999999999999999999999999999"] {
            assert_eq!(dec(text).to_string(), text);
        }
        assert_eq!(dec("1e3").to_string(), "1000");
        assert_eq!(dec("1.5e-3").to_string(), "0.0015");
        assert_eq!(dec(" 12abc").to_string(), "12");
        assert!(Decimal::parse_prefix(b"abc").is_none());
    }

    #[test]
    fn arithmetic() {
        assert_eq!(dec("1.10").add(dec("2.205")).unwrap().to_string(), "3.305");
        assert_eq!(dec("1.5").mul(dec("-2.25")).unwrap().to_string(), "-3.375");
        assert_eq!(dec("7").div(dec("2"), 4).unwrap().to_string(), "3.5000");
        assert_eq!(dec("2").div(dec("3"), 4).unwrap().to_string(), "0.6667");
        assert_eq!(dec("-1").div(dec("3"), 4).unwrap().to_string(), "-0.3333");
        assert_eq!(dec("10").rem(dec("3.5")).unwrap().to_string(), "3.0");
        assert!(dec("1").div(dec("0"), 4).is_none());
        assert_eq!(dec("2.5").round_to_int(), 3);
        assert_eq!(dec("-2.5").round_to_int(), -3);
    }

    #[test]
    fn stored_form_sorts_and_comes_back() {
        let texts = [
            "-99999999999999999999999999999999999999",
            "-12345.678",
            "-12345.67",
            "-100",
            "-99.99",
            "-10",
            "-1.01",
            "-1",
            "-0.5",
            "-0.1203",
            "-0.12",
            "-0.01",
            "-0.001",
            "0",
            "0.000000000000000000000000000001",
            "0.001",
            "0.01",
            "0.012",
            "0.12",
            "0.1203",
            "0.5",
            "1",
            "1.01",
            "1.1",
            "9.99",
            "10",
            "99",
            "100",
            "100.5",
            "101",
            "9999",
            "10000",
            "99999999999999999999999999999999999999",
        ];
        let blobs: Vec<_> = texts.iter().map(|text| dec(text).to_blob()).collect();
        for (index, pair) in blobs.windows(2).enumerate() {
            assert!(pair[0] < pair[1], "{} {}", texts[index], texts[index + 1]);
        }
        for (text, blob) in texts.iter().zip(&blobs) {
            assert_eq!(Decimal::decode(blob).unwrap(), dec(text), "{text}");
        }
        assert_eq!(dec("1.50").to_blob(), dec("1.5").to_blob());
        for junk in [&[][..], &[0x10], &[0xc1, 0], &[0x3f, 200, 0xff], &[0xff; 40]] {
            let _ = Decimal::decode(junk);
        }
    }
}
