//! One header line of a request, a response or a trailer.

use crate::fields::Span;

/// What stands at a place where a header line may start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FieldLine {
    /// The line is not there to its end.
    Incomplete,
    /// The empty line that ends a head; the next byte after it.
    End(usize),
    /// A field.
    Field {
        name: Span,
        value: Span,
        /// The next byte after the line.
        next: usize,
        /// The name has a byte that no name should have.
        odd_name: bool,
    },
    /// A byte at this place that no header line may have.
    Bad(usize),
}

const USUAL: u8 = 0;
const UNDERSCORE: u8 = 1;
const ODD: u8 = 2;
const COLON: u8 = 4;
const EOL: u8 = 8;
const BAD: u8 = 16;

/// What a byte means in a field name.
static NAME_CLASS: [u8; 256] = {
    let mut class = [ODD; 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            class[i] = USUAL;
        } else if byte <= b' ' || byte == 0x7f {
            class[i] = BAD;
        }
        i += 1;
    }
    class[b'_' as usize] = UNDERSCORE;
    class[b':' as usize] = COLON;
    class[b'\r' as usize] = EOL;
    class[b'\n' as usize] = EOL;
    class
};

/// Reads the header line that starts at `at`.
///
/// As in nginx: a line may end with a bare LF; a line without colon is a field without value; a name with other bytes
/// than letters, digits and `-` (and `_` if `underscores`) is odd, and the caller decides. A control character or space
/// in or before a name, which makes folded lines and `Name :` errors, NUL in a value and CR without LF are refused.
#[inline]
pub(crate) fn parse_field_line(buf: &[u8], at: usize, underscores: bool) -> FieldLine {
    let line = buf.get(at..).unwrap_or_default();
    let mut seen = 0;
    let mut i = 0;
    let colon = loop {
        let Some(&byte) = line.get(i) else { return FieldLine::Incomplete };
        let class = NAME_CLASS[byte as usize];
        if class >= COLON {
            break class;
        }
        seen |= class;
        i += 1;
    };
    if colon == BAD || (colon == COLON && i == 0) {
        return FieldLine::Bad(at + i);
    }
    let name = Span::new(at, at + i);
    let odd_name = seen & ODD != 0 || (seen & UNDERSCORE != 0 && !underscores);
    if colon == EOL {
        return match end_of_line(line, i) {
            None => FieldLine::Incomplete,
            Some(Err(bad)) => FieldLine::Bad(at + bad),
            Some(Ok(next)) if i == 0 => FieldLine::End(at + next),
            Some(Ok(next)) => FieldLine::Field { name, value: Span::new(at + i, at + i), next: at + next, odd_name },
        };
    }

    i += 1;
    while line.get(i) == Some(&b' ') {
        i += 1;
    }
    let value_start = i;
    let Some(len) = memchr::memchr3(b'\r', b'\n', 0, &line[value_start..]) else { return FieldLine::Incomplete };
    let mut value_end = value_start + len;
    let next = match end_of_line(line, value_end) {
        None => return FieldLine::Incomplete,
        Some(Err(bad)) => return FieldLine::Bad(at + bad),
        Some(Ok(next)) => next,
    };
    while value_end > value_start && line[value_end - 1] == b' ' {
        value_end -= 1;
    }
    FieldLine::Field { name, value: Span::new(at + value_start, at + value_end), next: at + next, odd_name }
}

/// Passes the LF or CR LF at `at`; `None` while it is incomplete, the offending place if it is something else.
#[inline]
fn end_of_line(line: &[u8], at: usize) -> Option<Result<usize, usize>> {
    match line[at] {
        b'\n' => Some(Ok(at + 1)),
        b'\r' => match line.get(at + 1)? {
            b'\n' => Some(Ok(at + 2)),
            _ => Some(Err(at)),
        },
        _ => Some(Err(at)),
    }
}

/// Parses digits as a length of a body: at least one, at most 63 bits, nothing else.
pub(crate) fn parse_length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut length = 0i64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        length = length.checked_mul(10)?.checked_add(i64::from(digit - b'0'))?;
    }
    u64::try_from(length).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines() {
        #[track_caller]
        fn check(line: &str, expected: &str) {
            let read = |line: &[u8]| match parse_field_line(line, 0, false) {
                FieldLine::Incomplete => "incomplete".to_owned(),
                FieldLine::End(next) => format!("end {next}"),
                FieldLine::Bad(at) => format!("bad {at}"),
                FieldLine::Field { name, value, next, odd_name } => format!(
                    "{}={} {next}{}",
                    String::from_utf8_lossy(name.of(line)),
                    String::from_utf8_lossy(value.of(line)),
                    if odd_name { " odd" } else { "" }
                ),
            };
            assert_eq!(read(line.as_bytes()), expected, "{line:?}");
            // A prefix is either incomplete or already known to be bad.
            for cut in 0..line.len() {
                let part = read(&line.as_bytes()[..cut]);
                assert!(part == "incomplete" || expected == part, "{line:?} cut at {cut}: {part}");
            }
        }
        check("A: b\r\n", "A=b 6");
        check("A:b\n", "A=b 4");
        check("A:   b  c  \r\n", "A=b  c 13");
        check("A:\r\n", "A= 4");
        check("A:    \r\n", "A= 8");
        check("A:\tb\r\n", "A=\tb 6");
        check("A: b:c\u{1}\r\n", "A=b:c\u{1} 9");
        check("A\r\n", "A= 3");
        check("A\n", "A= 2");
        check("\r\n", "end 2");
        check("\n", "end 1");
        check("\rA", "bad 0");
        check(": b\r\n", "bad 0");
        check(" A: b\r\n", "bad 0");
        check("\tA: b\r\n", "bad 0");
        check("A : b\r\n", "bad 1");
        check("A\tb: c\r\n", "bad 1");
        check("A\0: c\r\n", "bad 1");
        check("A: b\0c\r\n", "bad 4");
        check("A: b\rc\r\n", "bad 4");
        check("A: b\r\r\n", "bad 4");
        check("A\rb\r\n", "bad 1");
        check("A_b: c\r\n", "A_b=c 8 odd");
        check("A(b: c\r\n", "A(b=c 8 odd");
        check("\u{e9}: c\r\n", "\u{e9}=c 7 odd");
        assert!(matches!(parse_field_line(b"A_b: c\n", 0, true), FieldLine::Field { odd_name: false, .. }));
        assert!(matches!(parse_field_line(b"A_(: c\n", 0, true), FieldLine::Field { odd_name: true, .. }));
    }

    #[test]
    fn parses_lengths() {
        for (digits, expected) in [
            ("0", Some(0)),
            ("00012", Some(12)),
            ("9223372036854775807", Some(i64::MAX as u64)),
            ("9223372036854775808", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1 ", None),
            ("1,1", None),
            ("0x1", None),
        ] {
            assert_eq!(parse_length(digits.as_bytes()), expected, "{digits}");
        }
    }
}
