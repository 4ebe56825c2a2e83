//! Words and numbers of a line.

/// The words of a line; any number of blanks stands between two of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// The words of `text`, a line without its end.
    pub fn of(text: &'a [u8]) -> Self {
        Words(text)
    }

    /// What has not been taken yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|&byte| byte != b' ').unwrap_or(self.0.len());
        let text = &self.0[start..];
        if text.is_empty() {
            self.0 = text;
            return None;
        }
        let end = memchr::memchr(b' ', text).unwrap_or(text.len());
        self.0 = &text[end..];
        Some(&text[..end])
    }
}

/// A whole number without sign.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// A whole number of 64 bits. memcached takes times behind 2038 for ones that are over.
pub(super) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some([b'+', ..]) => None,
        Some(digits) => i64::try_from(-i128::from(unsigned(digits)?)).ok(),
        None => i64::try_from(unsigned(word)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_between_blanks() {
        let words = |text: &'static str| Words::of(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(words("  get  a b "), [&b"get"[..], b"a", b"b"]);
        assert_eq!(words("get\ta"), [b"get\ta"]);
        assert!(words("").is_empty() && words("   ").is_empty());
    }

    #[test]
    fn numbers() {
        assert_eq!(unsigned(b"+5"), Some(5));
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        for bad in ["18446744073709551616", "", "+", "++1", "-1", "1x", "x"] {
            assert_eq!(unsigned(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"+7"), Some(7));
        for bad in ["9223372036854775808", "-9223372036854775809", "-", "-+1", "--1", "1.5", "-18446744073709551615"] {
            assert_eq!(signed(bad.as_bytes()), None, "{bad}");
        }
    }
}
