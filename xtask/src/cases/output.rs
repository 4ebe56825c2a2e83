//! Expected and actual text, shown so that the difference is seen.

/// Lines around the first difference that are shown.
const CONTEXT_LINES: usize = 3;
/// Longer lines are cut in the middle of a report.
const LINE_CHARS_MAX: usize = 200;

/// Says where `actual` leaves `expected`.
pub(crate) fn difference(what: &str, expected: &str, actual: &str) -> String {
    let wanted: Vec<&str> = expected.split_inclusive('\n').collect();
    let found: Vec<&str> = actual.split_inclusive('\n').collect();
    let same = wanted.iter().zip(&found).take_while(|(a, b)| a == b).count();
    let mut text = format!("{what} differs in line {}:\n", same + 1);
    for line in &wanted[same.saturating_sub(CONTEXT_LINES)..same] {
        text.push_str(&format!("      {}\n", shown(line)));
    }
    for line in wanted.iter().skip(same).take(CONTEXT_LINES) {
        text.push_str(&format!("    - {}\n", shown(line)));
    }
    for line in found.iter().skip(same).take(CONTEXT_LINES) {
        text.push_str(&format!("    + {}\n", shown(line)));
    }
    text
}

/// A line with everything invisible made visible, except its own line end.
pub(crate) fn shown(line: &str) -> String {
    let (text, end) = line.strip_suffix('\n').map_or((line, " (no line end)"), |l| (l, ""));
    let escaped: String =
        text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect();
    if escaped.chars().count() <= LINE_CHARS_MAX {
        return format!("{escaped}{end}");
    }
    let head: String = escaped.chars().take(LINE_CHARS_MAX).collect();
    format!("{head}... ({} characters){end}", escaped.chars().count())
}

/// The end of a log, without notices: every start and stop writes the same ones.
pub(crate) fn tail(log: &str, lines: usize) -> String {
    let all: Vec<&str> = log.lines().filter(|l| !l.contains("[notice]")).collect();
    all[all.len().saturating_sub(lines)..].iter().map(|l| format!("      {l}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_shows_its_lines() {
        assert_eq!(
            difference("body", "a\nb\n", "a\nc\r"),
            "body differs in line 2:\n      a\n    - b\n    + c\\r (no line end)\n"
        );
        assert_eq!(tail("1\n2\n3\n", 2), "      2\n      3\n");
    }
}
