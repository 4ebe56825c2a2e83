//! Strings that mention variables: `http://$host:${port}/$1`.

use bstr::{BStr, BString};

use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// A piece of such a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Bytes as they stand; never empty.
    Literal(BString),
    /// The variable of this name, from `$name` or `${name}`.
    Variable(BString),
    /// What a group of the last regular expression captured, from `$1` to `$9`.
    Capture(u8),
}

/// Why a string is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A `$` without a name behind it.
    #[error("invalid variable name")]
    InvalidName,
    /// A `${name` without its `}`.
    #[error("the closing bracket in \"{0}\" variable is missing")]
    MissingBracket(BString),
}

impl TemplateError {
    /// The error as one of the configuration.
    #[must_use]
    pub fn diagnostic(&self, span: Span) -> Diagnostic {
        let mut diagnostic = Diagnostic::new(crate::Level::Emerg, span, self.to_string());
        if *self == TemplateError::InvalidName {
            diagnostic.hint("a \"$\" begins a variable");
        }
        diagnostic
    }
}

/// Splits a string at its variables. An empty string has no segments.
///
/// # Errors
/// See [`TemplateError`].
///
/// Source: nginx's `ngx_http_script_compile`. As there, `$10` is the capture 1 and a `0`, and `${1}` is a variable
/// called `1`.
pub fn parse_template(text: &BStr) -> Result<Vec<Segment>, TemplateError> {
    let mut segments = Vec::new();
    let mut rest: &[u8] = text;
    while !rest.is_empty() {
        let literal_len = memchr::memchr(b'$', rest).unwrap_or(rest.len());
        if literal_len > 0 {
            segments.push(Segment::Literal(rest[..literal_len].into()));
        }
        let Some(reference) = rest[literal_len..].strip_prefix(b"$") else { break };
        let (segment, after) = reference_segment(reference)?;
        segments.push(segment);
        rest = after;
    }
    Ok(segments)
}

/// Reads what follows a `$`.
fn reference_segment(text: &[u8]) -> Result<(Segment, &[u8]), TemplateError> {
    match text {
        [digit @ b'1'..=b'9', rest @ ..] => Ok((Segment::Capture(digit - b'0'), rest)),
        [b'{'] => Err(TemplateError::InvalidName),
        [b'{', rest @ ..] => {
            let (name, rest) = rest.split_at(name_len(rest));
            let rest = rest.strip_prefix(b"}").ok_or_else(|| TemplateError::MissingBracket(name.into()))?;
            variable(name, rest)
        }
        _ => {
            let (name, rest) = text.split_at(name_len(text));
            variable(name, rest)
        }
    }
}

fn variable<'a>(name: &[u8], rest: &'a [u8]) -> Result<(Segment, &'a [u8]), TemplateError> {
    if name.is_empty() { Err(TemplateError::InvalidName) } else { Ok((Segment::Variable(name.into()), rest)) }
}

fn name_len(text: &[u8]) -> usize {
    text.iter().take_while(|&&b| b.is_ascii_alphanumeric() || b == b'_').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments as text: `'literal'`, `$name`, `#1`.
    #[track_caller]
    fn check(template: &str, expected: &str) {
        let shown = match parse_template(template.into()) {
            Ok(segments) => segments
                .iter()
                .map(|segment| match segment {
                    Segment::Literal(bytes) => format!("'{bytes}'"),
                    Segment::Variable(name) => format!("${name}"),
                    Segment::Capture(number) => format!("#{number}"),
                })
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{template}");
    }

    #[test]
    fn templates() {
        check("", "");
        check("abc", "'abc'");
        check("$host", "$host");
        check("${host}", "$host");
        check("http://$host:${port}/x", "'http://' $host ':' $port '/x'");
        check("$a$b", "$a $b");
        check("${a}b", "$a 'b'");
        check("$a-b", "$a '-b'");
        check("$a_b9.c", "$a_b9 '.c'");
        check("$1", "#1");
        check("/$1/$2", "'/' #1 '/' #2");
        check("$10", "#1 '0'");
        check("$0", "$0");
        check("${1}", "$1");
        check("a}b{c", "'a}b{c'");
    }

    #[test]
    fn bad_templates() {
        check("$", "invalid variable name");
        check("a$", "invalid variable name");
        check("$$", "invalid variable name");
        check("$ a", "invalid variable name");
        check("^/x$|/y", "invalid variable name");
        check("${", "invalid variable name");
        check("${}", "invalid variable name");
        check("${a", "the closing bracket in \"a\" variable is missing");
        check("${a-b}", "the closing bracket in \"a\" variable is missing");
        check("${ }", "the closing bracket in \"\" variable is missing");
    }
}
