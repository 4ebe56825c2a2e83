//! Numbers and texts for each other.

/// A number with as many digits as fit into a width, with an exponent if that leaves more of them; `None` if nothing fits.
pub(crate) fn rounded_to(number: f64, width: usize) -> Option<String> {
    let fits = |text: &String| text.len() <= width;
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let with_exponent = |digits: usize| {
        let text = format!("{number:.digits$e}");
        let (mantissa, exponent) = text.split_once('e')?;
        Some(format!("{}e{exponent}", trimmed(mantissa)))
    };
    let exponential = (0..17).rev().filter_map(with_exponent).find(fits);
    let fixed = (0..width).rev().map(|digits| trimmed(&format!("{number:.digits$}"))).find(fits);
    let digits = |text: &String| {
        let mantissa = text.split('e').next().unwrap_or_default().trim_start_matches(['-', '0', '.']);
        mantissa.bytes().filter(u8::is_ascii_digit).count()
    };
    match (fixed, exponential) {
        (Some(fixed), Some(exponential)) => {
            Some(if digits(&fixed) >= digits(&exponential) { fixed } else { exponential })
        }
        (fixed, exponential) => fixed.or(exponential),
    }
}

/// The number that a text is where it may stand for members of a SET or ENUM: digits, with white space before them.
pub(crate) fn position(text: &[u8]) -> Option<i128> {
    std::str::from_utf8(text.trim_ascii_start()).ok()?.parse().ok()
}

/// The first bytes of a text that does not fit, as errors show them.
pub(crate) fn printable(bytes: &[u8]) -> String {
    const SHOWN: usize = 6;
    let one = |byte: &u8| match byte {
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02X}"),
    };
    let more = if bytes.len() > SHOWN { "..." } else { "" };
    bytes.iter().take(SHOWN).map(one).collect::<String>() + more
}

/// A text in which each byte that belongs to no character has become a question mark.
pub(crate) fn with_question_marks(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n('?', chunk.invalid().len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_characters() {
        // As MariaDB 10.11 stores them with an empty sql_mode.
        for (bytes, text) in [
            (&b"\xff"[..], "?"),
            (b"a\xffb", "a?b"),
            (b"a\xc3", "a?"),
            (b"a\xf0\x9f\x98b", "a???b"),
            (b"\xe2\x82", "??"),
            (b"\xc3\xff\xc3\xa9", "??\u{e9}"),
        ] {
            assert_eq!(with_question_marks(bytes), text, "{}", bytes.escape_ascii());
        }
    }
}
