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
