//! Numbers in a line.

/// A whole number behind any number of blanks, and what follows it.
pub(super) fn read_u64(words: &str) -> Option<(u64, &str)> {
    let words = words.trim_start_matches(' ');
    let end = words.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(words.len());
    let (digits, rest) = words.split_at(end);
    Some((digits.parse().ok()?, rest))
}

/// As [`read_u64`], of 32 bits.
pub(super) fn read_u32(words: &str) -> Option<(u32, &str)> {
    let (number, rest) = read_u64(words)?;
    Some((u32::try_from(number).ok()?, rest))
}

/// The number of a `kick`, which is taken less strictly: it may have a sign, and anything may follow. What is too large for 32 bits
/// loses the others.
pub(super) fn count(words: &str) -> Option<u32> {
    let words = words.trim_start_matches(|letter: char| letter.is_ascii_whitespace() || letter == '\x0b');
    let (is_negative, digits) = match words.as_bytes().first() {
        Some(b'-') => (true, &words[1..]),
        Some(b'+') => (false, &words[1..]),
        _ => (false, words),
    };
    if !digits.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    let (number, _) = read_u64(digits)?;
    let number = if is_negative { number.wrapping_neg() } else { number };
    u32::try_from(number & u64::from(u32::MAX)).ok()
}
