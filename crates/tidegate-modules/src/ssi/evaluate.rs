//! Variables of pages, texts that use them, conditions.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    num::NonZeroUsize,
    rc::Rc,
};

use bstr::BStr;
use bytes::Bytes;
use lru::LruCache;
use tidegate_core::{
    regex::{Captures, Regex, RegexOptions},
    request::Request,
};

/// Sub-requests of one main request for its pages. A few pages that include each other twice would otherwise never come to
/// an end: depth alone allows 2^50 of them.
const SUBREQUESTS_MAX: u32 = 10000;

/// Sub-requests of all pages of a main request that are under way or wait for their turns, with their connections and what
/// they keep. Pages with more begin them one by one.
const AHEAD_MAX: u32 = 64;

/// Bytes of the variables of all pages of a main request together, and of its blocks.
const VARIABLES_BYTES_MAX: usize = 16 << 20;

/// Patterns that a worker keeps compiled: those of a few pages.
const PATTERNS_KEPT: usize = 64;

/// A pattern that is longer is compiled each time: pages may come from anywhere.
const PATTERN_KEPT_BYTES_MAX: usize = 1024;

thread_local! {
    static PATTERNS: RefCell<LruCache<Box<[u8]>, Rc<Regex>>> =
        RefCell::new(LruCache::new(NonZeroUsize::new(PATTERNS_KEPT).expect("more than none")));
}

/// What the pages of a main request share.
#[derive(Default)]
pub(super) struct Shared {
    variables: RefCell<HashMap<Vec<u8>, Vec<u8>>>,
    variables_bytes: Cell<usize>,
    blocks: RefCell<HashMap<Vec<u8>, Bytes>>,
    blocks_bytes: Cell<usize>,
    /// The last match of a condition: its subject and groups.
    captures: RefCell<(Vec<u8>, Captures)>,
    subrequests: Cell<u32>,
    ahead: Cell<u32>,
}

/// A sub-request that is under way or waits for its turn.
pub(super) struct Ahead(Rc<Shared>);

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.ahead.set(self.0.ahead.get() - 1);
    }
}

impl Shared {
    /// Whether there are as many sub-requests under way as there may be.
    pub(super) fn is_busy(&self) -> bool {
        self.ahead.get() >= AHEAD_MAX
    }

    /// Counts a sub-request for as long as the answer lives.
    pub(super) fn go_ahead(self: &Rc<Self>) -> Ahead {
        self.ahead.set(self.ahead.get() + 1);
        Ahead(self.clone())
    }

    /// Those of the main request of `req`.
    pub(super) fn of(req: &Request) -> Rc<Shared> {
        req.main().context::<Shared>()
    }

    /// Sets a variable; case does not count in its name.
    pub(super) fn set(&self, name: &[u8], value: Vec<u8>) -> Result<(), String> {
        let name = name.to_ascii_lowercase();
        let mut variables = self.variables.borrow_mut();
        let before = variables.get(&name).map_or(0, |old| name.len() + old.len());
        let bytes = self.variables_bytes.get() - before + name.len() + value.len();
        if bytes > VARIABLES_BYTES_MAX {
            return Err(format!("the values of SSI variables are too long: more than {VARIABLES_BYTES_MAX} bytes"));
        }
        self.variables_bytes.set(bytes);
        variables.insert(name, value);
        Ok(())
    }

    /// The value that a page gave a variable.
    pub(super) fn get(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.variables.borrow().get(&name.to_ascii_lowercase()).cloned()
    }

    /// The value of a variable: what a page gave it, a group of the last match, or a variable of the server.
    pub(super) fn value(&self, req: &Request, name: &[u8]) -> Option<Vec<u8>> {
        if let Some(value) = self.get(name) {
            return Some(value);
        }
        if let &[digit @ b'0'..=b'9'] = name {
            return self.group(usize::from(digit - b'0'));
        }
        let name = BStr::new(name);
        if let Some(id) = req.conf().variables.find(name) {
            return req.variable_bytes(id);
        }
        let mut value = Vec::new();
        req.variable_with_prefix(name, &mut value).then_some(value)
    }

    fn group(&self, group: usize) -> Option<Vec<u8>> {
        let last = self.captures.borrow();
        let (subject, captures) = &*last;
        let (start, end) = (*captures.groups.get(group)?)?;
        Some(subject[start..end].to_vec())
    }

    /// Remembers a match: its groups have numbers, and some have names.
    fn set_captures(&self, regex: &Regex, subject: Vec<u8>, captures: Captures) -> Result<(), String> {
        for (name, group) in regex.names() {
            let found = captures.groups.get(*group).copied().flatten();
            let value = found.map(|(start, end)| subject[start..end].to_vec());
            self.set(name, value.unwrap_or_default())?;
        }
        *self.captures.borrow_mut() = (subject, captures);
        Ok(())
    }

    pub(super) fn block(&self, name: &[u8]) -> Option<Bytes> {
        self.blocks.borrow().get(name).cloned()
    }

    /// Whether a block may grow to so many bytes.
    pub(super) fn has_room_for_block(&self, bytes: usize) -> bool {
        self.blocks_bytes.get() + bytes <= VARIABLES_BYTES_MAX
    }

    pub(super) fn set_block(&self, name: Vec<u8>, content: Bytes) {
        self.blocks_bytes.set(self.blocks_bytes.get() + content.len());
        if let Some(old) = self.blocks.borrow_mut().insert(name, content) {
            self.blocks_bytes.set(self.blocks_bytes.get() - old.len());
        }
    }

    /// Counts a sub-request.
    pub(super) fn count_subrequest(&self) -> Result<(), String> {
        if self.subrequests.get() == SUBREQUESTS_MAX {
            return Err(format!("the pages of one request have more than {SUBREQUESTS_MAX} includes"));
        }
        self.subrequests.set(self.subrequests.get() + 1);
        Ok(())
    }
}

/// A text with the values of its variables, `$name` or `${name}`, in their places. A backslash takes the meaning from quotes,
/// dollar signs and backslashes.
pub(super) fn evaluate(req: &Request, text: &[u8]) -> Result<Vec<u8>, String> {
    let shared = Shared::of(req);
    expand(text, |name, out| {
        out.extend_from_slice(&shared.value(req, name).unwrap_or_default());
        if out.len() > VARIABLES_BYTES_MAX {
            return Err(format!("too long text with variables: more than {VARIABLES_BYTES_MAX} bytes"));
        }
        Ok(())
    })
}

fn expand(text: &[u8], mut variable: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), String>) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'$', b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let special = rest[at];
        rest = &rest[at + 1..];
        if special == b'\\' {
            match rest.first() {
                Some(&quoted @ (b'"' | b'\'' | b'$' | b'\\')) => {
                    out.push(quoted);
                    rest = &rest[1..];
                }
                _ => out.push(b'\\'),
            }
            continue;
        }
        let is_braced = rest.first() == Some(&b'{');
        rest = &rest[usize::from(is_braced)..];
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let len = rest.iter().position(|byte| !is_name(byte)).unwrap_or(rest.len());
        let name = &rest[..len];
        rest = &rest[len..];
        if is_braced {
            if rest.first() != Some(&b'}') {
                return Err(format!("the closing bracket in \"{}\" variable is missing", BStr::new(name)));
            }
            rest = &rest[1..];
        }
        if name.is_empty() {
            return Err(format!("invalid variable name in \"{}\"", BStr::new(text)));
        }
        variable(name, &mut out)?;
    }
    out.extend_from_slice(rest);
    Ok(out)
}

/// A condition taken apart, texts without the white space around them.
#[derive(Debug, PartialEq, Eq)]
enum Expression<'e> {
    /// The text is not empty.
    Text(&'e [u8]),
    Equal(&'e [u8], &'e [u8]),
    NotEqual(&'e [u8], &'e [u8]),
    Match(&'e [u8], &'e [u8]),
    NotMatch(&'e [u8], &'e [u8]),
}

fn parse_expression(expression: &[u8]) -> Result<Expression<'_>, String> {
    let invalid = || format!("invalid expression in \"{}\"", BStr::new(expression));
    let Some(at) = memchr::memchr2(b'=', b'!', expression) else {
        return Ok(Expression::Text(expression.trim_ascii()));
    };
    let negated = expression[at] == b'!';
    if negated && expression.get(at + 1) != Some(&b'=') {
        return Err(invalid());
    }
    let left = expression[..at].trim_ascii();
    let right = expression[at + 1 + usize::from(negated)..].trim_ascii();
    let Some(pattern) = right.strip_prefix(b"/") else {
        return Ok(if negated { Expression::NotEqual(left, right) } else { Expression::Equal(left, right) });
    };
    let pattern = pattern.strip_suffix(b"/").ok_or_else(invalid)?;
    Ok(if negated { Expression::NotMatch(left, pattern) } else { Expression::Match(left, pattern) })
}

/// Whether a condition holds. The groups of a match become variables.
pub(super) fn condition(req: &Request, expression: &[u8]) -> Result<bool, String> {
    match parse_expression(expression)? {
        Expression::Text(text) => Ok(!evaluate(req, text)?.is_empty()),
        Expression::Equal(left, right) => Ok(evaluate(req, left)? == evaluate(req, right)?),
        Expression::NotEqual(left, right) => Ok(evaluate(req, left)? != evaluate(req, right)?),
        Expression::Match(left, pattern) => matches(req, left, pattern),
        Expression::NotMatch(left, pattern) => matches(req, left, pattern).map(|found| !found),
    }
}

fn matches(req: &Request, left: &[u8], pattern: &[u8]) -> Result<bool, String> {
    let subject = evaluate(req, left)?;
    let regex = compiled(pattern)?;
    match regex.captures(&subject).map_err(|error| format!("{error} in \"{}\"", BStr::new(pattern)))? {
        Some(captures) => Shared::of(req).set_captures(&regex, subject, captures).map(|()| true),
        None => Ok(false),
    }
}

/// The compiled pattern, from the worker's own if it was used lately. What it is depends on its text alone.
fn compiled(pattern: &[u8]) -> Result<Rc<Regex>, String> {
    if let Some(regex) = PATTERNS.with_borrow_mut(|patterns| patterns.get(pattern).cloned()) {
        return Ok(regex);
    }
    let regex = Rc::new(Regex::new(pattern, RegexOptions::NONE).map_err(|error| error.to_string())?);
    if pattern.len() <= PATTERN_KEPT_BYTES_MAX {
        PATTERNS.with_borrow_mut(|patterns| patterns.put(pattern.into(), regex.clone()));
    }
    Ok(regex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_are_used_again_are_not_compiled_again() {
        let first = compiled(b"^a(b)?$").expect("a pattern");
        assert!(Rc::ptr_eq(&first, &compiled(b"^a(b)?$").expect("a pattern")));
        assert!(compiled(b"(").is_err() && compiled(b"(").is_err(), "what is no pattern stays none");
        for number in 0..PATTERNS_KEPT {
            compiled(format!("{number}").as_bytes()).expect("a pattern");
        }
        assert!(!Rc::ptr_eq(&first, &compiled(b"^a(b)?$").expect("a pattern")), "others have taken its place");
        let long = vec![b'a'; PATTERN_KEPT_BYTES_MAX + 1];
        let once = compiled(&long).expect("a pattern");
        assert!(!Rc::ptr_eq(&once, &compiled(&long).expect("a pattern")));
    }

    #[test]
    fn texts() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let out = expand(text.as_bytes(), |name, out| {
                out.extend_from_slice(&[b"<", name, b">"].concat());
                Ok(())
            });
            let out = out.map(|out| String::from_utf8(out).expect("text"));
            assert_eq!(out.as_deref().map_err(String::as_str), expected, "{text}");
        };
        check("", Ok(""));
        check("a$b c", Ok("a<b> c"));
        check("$a_1-${b}c$d", Ok("<a_1>-<b>c<d>"));
        check(r#"\"\$\'\\\w\"#, Ok(r#""$'\\w\"#));
        check("a$", Err("invalid variable name in \"a$\""));
        check("$-", Err("invalid variable name in \"$-\""));
        check("${}", Err("invalid variable name in \"${}\""));
        check("a${b", Err("the closing bracket in \"b\" variable is missing"));
    }

    #[test]
    fn expressions() {
        use Expression::{Equal, Match, NotEqual, NotMatch, Text};
        let check =
            |text: &'static str, expected| assert_eq!(parse_expression(text.as_bytes()).ok(), expected, "{text}");
        check(" $a ", Some(Text(b"$a")));
        check("", Some(Text(b"")));
        check("$a = b", Some(Equal(b"$a", b"b")));
        check("$a==b", Some(Equal(b"$a", b"=b")));
        check("$a != b", Some(NotEqual(b"$a", b"b")));
        check("=", Some(Equal(b"", b"")));
        check("$a = /b/", Some(Match(b"$a", b"b")));
        check("$a != //", Some(NotMatch(b"$a", b"")));
        check("!$a", None);
        check("a !", None);
        check("$a = /b", None);
        check("$a = /", None);
        check("$a = /b/i", None);
    }

    #[test]
    fn variables_are_bounded() {
        let shared = Shared::default();
        shared.set(b"A", vec![b'x'; VARIABLES_BYTES_MAX - 1]).expect("room");
        shared.set(b"b", Vec::new()).expect_err("no room");
        shared.set(b"a", Vec::new()).expect("room");
        shared.set(b"b", Vec::new()).expect("room");
        assert_eq!(shared.get(b"B"), Some(Vec::new()));
        assert!(shared.has_room_for_block(VARIABLES_BYTES_MAX));
        shared.set_block(b"x".to_vec(), Bytes::from_static(b"12"));
        assert!(!shared.has_room_for_block(VARIABLES_BYTES_MAX));
        shared.set_block(b"x".to_vec(), Bytes::new());
        assert!(shared.has_room_for_block(VARIABLES_BYTES_MAX));
    }
}
