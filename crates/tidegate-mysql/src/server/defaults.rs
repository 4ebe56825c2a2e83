//! A statement in which some parameters are left to the columns' defaults: `DEFAULT` stands in their places.

/// `NO_BACKSLASH_ESCAPES` among the bits of `sql_mode`, as MySQL numbers them.
const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;

/// The text of a statement with `DEFAULT` for the parameters with these numbers, counted from 0.
pub(super) fn with_defaults(sql: &[u8], defaults: &[usize], sql_mode: u64) -> Vec<u8> {
    let backslashes = sql_mode & NO_BACKSLASH_ESCAPES == 0;
    let mut out = Vec::with_capacity(sql.len() + 8 * defaults.len());
    let (mut at, mut number) = (0, 0);
    while let Some(&byte) = sql.get(at) {
        if byte == b'?' {
            let default = defaults.contains(&number);
            out.extend_from_slice(if default { b"DEFAULT" } else { b"?" });
            number += 1;
            at += 1;
            continue;
        }
        let length = opaque(&sql[at..], backslashes).max(1);
        out.extend_from_slice(&sql[at..at + length]);
        at += length;
    }
    out
}

/// Bytes of the quoted text or the comment at the beginning; 0 if there is none. What stands in `/*! … */` is no comment.
fn opaque(text: &[u8], backslashes: bool) -> usize {
    let until = |end: &[u8]| memchr::memmem::find(text, end).map_or(text.len(), |found| found + end.len());
    match text {
        [quote @ (b'\'' | b'"' | b'`'), ..] => quoted(text, *quote, backslashes && *quote != b'`'),
        [b'#', ..] => until(b"\n"),
        [b'-', b'-', white, ..] if white.is_ascii_whitespace() => until(b"\n"),
        [b'/', b'*', b'!', ..] | [b'/', b'*', b'M', b'!', ..] => 0,
        [b'/', b'*', ..] => until(b"*/"),
        _ => 0,
    }
}

fn quoted(text: &[u8], quote: u8, backslashes: bool) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' if backslashes => at += 2,
            // A doubled quote is the beginning of another text.
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sql: &str, defaults: &[usize], expected: &str) {
        let made = with_defaults(sql.as_bytes(), defaults, 0);
        assert_eq!(String::from_utf8_lossy(&made), expected);
    }

    #[test]
    fn parameters_become_defaults() {
        check("INSERT INTO t VALUES (?, ?)", &[1], "INSERT INTO t VALUES (?, DEFAULT)");
        check("VALUES (?,?,?)", &[0, 2], "VALUES (DEFAULT,?,DEFAULT)");
        check(r#"'?\'?' "?" `\`, ?, '''?', ?"#, &[0], r#"'?\'?' "?" `\`, DEFAULT, '''?', ?"#);
        check("a -- ?\n, /* ? */ ? # ?\n, ?", &[1], "a -- ?\n, /* ? */ ? # ?\n, DEFAULT");
        check("/*!50000 ?*/ ?--?", &[0, 1, 2], "/*!50000 DEFAULT*/ DEFAULT--DEFAULT");
        for cut in ["'?", "/* ?", "# ?", "'\\", "-"] {
            check(cut, &[0], cut);
        }
        let plain = with_defaults(br"'\', ?", &[0], NO_BACKSLASH_ESCAPES);
        assert_eq!(plain, br"'\', DEFAULT");
    }
}
