//! A value of a length that was said ahead of it, with fixed bytes behind it: how memcached and Redis send values.

use crate::chunked::BodyPart;

/// Something else stands where the end of a value should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid trailer")]
pub struct BadTrailer;

/// Finds a value and its end in the pieces in which they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizedValue {
    left: u64,
    trailer: &'static [u8],
}

impl SizedValue {
    /// A value of so many bytes, behind which `trailer` stands.
    pub fn new(bytes: u64, trailer: &'static [u8]) -> SizedValue {
        SizedValue { left: bytes, trailer }
    }

    /// Reads on in `input`; a value that is complete ends also with an empty piece.
    ///
    /// # Errors
    /// [`BadTrailer`] if the value is complete and its end is not what it should be.
    pub fn decode(&mut self, input: &[u8]) -> Result<BodyPart, BadTrailer> {
        if self.left > 0 {
            if input.is_empty() {
                return Ok(BodyPart::Partial);
            }
            let end = usize::try_from(self.left).map_or(input.len(), |left| left.min(input.len()));
            self.left -= end as u64;
            return Ok(BodyPart::Data { start: 0, end });
        }
        let count = self.trailer.len().min(input.len());
        let (expected, rest) = self.trailer.split_at(count);
        if input[..count] != *expected {
            return Err(BadTrailer);
        }
        self.trailer = rest;
        Ok(if rest.is_empty() { BodyPart::End(count) } else { BodyPart::Partial })
    }

    /// Whether `input` is all that is still to come, and nothing else.
    pub fn is_rest(&self, input: &[u8]) -> bool {
        let trailer_at = input.len().checked_sub(self.trailer.len());
        trailer_at.is_some_and(|at| at as u64 == self.left && input.ends_with(self.trailer))
    }
}

/// A whole number without sign, of at most 63 bits, as nginx reads one.
pub(crate) fn whole_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let number = text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    (number <= i64::MAX as u64).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_end_however_the_pieces_are_cut() {
        let whole = b"ab\r\n\r\nEND\r\n";
        for cut in 0..=whole.len() {
            let mut value = SizedValue::new(4, b"\r\nEND\r\n");
            assert!(value.is_rest(whole));
            let (mut content, mut is_done) = (Vec::new(), false);
            for piece in [&whole[..cut], &whole[cut..]] {
                let mut rest = piece;
                loop {
                    match value.decode(rest) {
                        Ok(BodyPart::Data { start, end }) => {
                            content.extend_from_slice(&rest[start..end]);
                            rest = &rest[end..];
                        }
                        Ok(BodyPart::Partial) => break,
                        Ok(BodyPart::End(used)) => {
                            assert!(used == rest.len());
                            is_done = true;
                            break;
                        }
                        Err(error) => panic!("cut at {cut}: {error}"),
                    }
                }
            }
            assert!(is_done && content == b"ab\r\n", "cut at {cut}");
        }
    }

    #[test]
    fn anything_else_at_the_end_is_an_error() {
        let whole = b"\r\nEND\r\n";
        for at in 0..whole.len() {
            let mut wrong = *whole;
            wrong[at] ^= 0x20;
            let mut value = SizedValue::new(0, whole);
            assert!(!value.is_rest(&wrong));
            assert_eq!(value.decode(&wrong), Err(BadTrailer), "{at}");
        }
        assert!(!SizedValue::new(0, whole).is_rest(b"\r\nEND\r\nx"));
        assert!(!SizedValue::new(1, whole).is_rest(whole));
        assert!(SizedValue::new(0, b"").is_rest(b""));
    }

    #[test]
    fn numbers() {
        #[track_caller]
        fn check(text: &str, expected: Option<u64>) {
            assert_eq!(whole_number(text.as_bytes()), expected, "{text}");
        }
        check("0", Some(0));
        check("007", Some(7));
        check("9223372036854775807", Some(i64::MAX as u64));
        check("9223372036854775808", None);
        check("99999999999999999999", None);
        check("", None);
        check("+1", None);
        check("-1", None);
        check("1 ", None);
    }
}
