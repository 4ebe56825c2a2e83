//! Finds where a block of Lua code ends, by reading Lua's strings, long brackets and comments as Lua does.

/// Why the end was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LuaBlockError {
    /// The text ended first. `brace` is the innermost brace that is open, or `None` for the one of the block itself.
    EndOfFile { brace: Option<usize> },
    /// A long bracket at `start..end` is not closed.
    LongBracket { start: usize, end: usize },
}

/// The offset of the `}` that closes the block whose code starts at `start`.
pub(crate) fn find_end(text: &[u8], start: usize) -> Result<usize, LuaBlockError> {
    let mut open_braces: Vec<usize> = Vec::new();
    let mut pos = start;
    while let Some(&byte) = text.get(pos) {
        match byte {
            b'{' => {
                open_braces.push(pos);
                pos += 1;
            }
            b'}' => {
                if open_braces.pop().is_none() {
                    return Ok(pos);
                }
                pos += 1;
            }
            // OpenResty takes a quote that is not closed in its line for an ordinary byte. Lua will complain later.
            b'"' | b'\'' => pos = short_string_end(text, pos).unwrap_or(pos + 1),
            b'-' if text.get(pos + 1) == Some(&b'-') => pos = comment_end(text, pos)?,
            b'[' => pos = long_bracket_end(text, pos)?.unwrap_or(pos + 1),
            _ => pos += 1,
        }
    }
    Err(LuaBlockError::EndOfFile { brace: open_braces.pop() })
}

/// Behind the closing quote, or `None` if the string does not end in its line.
fn short_string_end(text: &[u8], start: usize) -> Option<usize> {
    let quote = text[start];
    let mut pos = start + 1;
    loop {
        match *text.get(pos)? {
            b'\n' => return None,
            // An escaped line break is part of the string; `\z` swallows all blanks after it.
            b'\\' if text.get(pos + 1) == Some(&b'z') => {
                let blanks = text[pos + 2..].iter().take_while(|b| b.is_ascii_whitespace() || **b == 0x0b).count();
                pos += 2 + blanks;
            }
            b'\\' if text.get(pos + 1..pos + 3) == Some(b"\r\n") => pos += 3,
            b'\\' => pos += 2,
            byte if byte == quote => return Some(pos + 1),
            _ => pos += 1,
        }
    }
}

/// Behind the comment that starts at `start`.
fn comment_end(text: &[u8], start: usize) -> Result<usize, LuaBlockError> {
    if let Some(end) = long_bracket_end(text, start + 2)? {
        return Ok(end);
    }
    let rest = &text[start..];
    Ok(start + memchr::memchr(b'\n', rest).unwrap_or(rest.len()))
}

/// Behind the long bracket that opens at `start`; `None` if none opens there.
fn long_bracket_end(text: &[u8], start: usize) -> Result<Option<usize>, LuaBlockError> {
    let Some(body) = long_bracket_body(text, start) else { return Ok(None) };
    let level = body - start - 2;
    let mut pos = body;
    while let Some(found) = memchr::memchr(b']', text.get(pos..).unwrap_or_default()) {
        let inside = &text[pos + found + 1..];
        let equal_signs = inside.iter().take_while(|&&b| b == b'=').count();
        pos += found + 1 + equal_signs;
        if equal_signs == level && inside.get(equal_signs) == Some(&b']') {
            return Ok(Some(pos + 1));
        }
    }
    Err(LuaBlockError::LongBracket { start, end: body })
}

/// Behind the `[[` or `[=…=[` at `start`, if one is there.
fn long_bracket_body(text: &[u8], start: usize) -> Option<usize> {
    let inside = text.get(start..)?.strip_prefix(b"[")?;
    let level = inside.iter().take_while(|&&b| b == b'=').count();
    (inside.get(level) == Some(&b'[')).then_some(start + level + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `|` marks the brace that ends the block; it is removed from the input.
    #[track_caller]
    fn check(code: &str) {
        let end = code.find('|').expect("a mark");
        let text = code.replacen('|', "", 1);
        assert_eq!(find_end(text.as_bytes(), 0), Ok(end), "{code}");
    }

    #[track_caller]
    fn check_error(code: &str, expected: LuaBlockError) {
        assert_eq!(find_end(code.as_bytes(), 0), Err(expected), "{code}");
    }

    #[test]
    fn ends() {
        check("|}");
        check(" |} }");
        check("local a = { b = {1, 2} } |} server {}");
        check(r#"ngx.say("}1, 2)") |}"#);
        check("ngx.say('{1, 2)') |}");
        check(r#"ngx.say("\"}") ngx.say('\'{') |}"#);
        check(r#"ngx.say("\\") |} "}"#);
        check("--}} {}\n|}");
        check("--[[ }}}\n ]=] ' \" ]] |}");
        check("--[==[ }}} ]] ]==] |}");
        check("--[=x } ]=]\n|}");
        check("x = [[}]] |}");
        check("x = [==[ ]] } ]=] ]==] |}");
        check("x = [=[ ]]=] |}");
        check("x = [[ok--]] |}");
        check("--[[ --]] x() |}");
        check("x(t1[t2[1]]) |}");
        check("]=] |}");
        check("x = a[b[c]] - -1 |}");
        check("x = \"}\\\n}\" |}");
        check("x = \"}\\\r\n}\" |}");
        check("x = \"}\\z \n  }\" |}");
        check("x = \"}\\z \n \n  }\" |}");
        check("-- it's\n|}");
        check("x = [[it's \" ]] |}");
    }

    #[test]
    fn a_quote_without_end_is_an_ordinary_byte() {
        check("x = \"abc |}\n\"}");
        check("it's { }\n |}");
        check("\"|}");
    }

    #[test]
    fn missing_ends() {
        check_error("", LuaBlockError::EndOfFile { brace: None });
        check_error("x = { {} ", LuaBlockError::EndOfFile { brace: Some(4) });
        check_error("-- }", LuaBlockError::EndOfFile { brace: None });
        check_error("x([[a) }", LuaBlockError::LongBracket { start: 2, end: 4 });
        check_error("x([==[a) } ]]", LuaBlockError::LongBracket { start: 2, end: 6 });
        check_error("--[=[ } ]]", LuaBlockError::LongBracket { start: 2, end: 5 });
        check_error("\"\\", LuaBlockError::EndOfFile { brace: None });
        check_error("[==", LuaBlockError::EndOfFile { brace: None });
        check_error("[==[ ]==", LuaBlockError::LongBracket { start: 0, end: 4 });
    }
}
