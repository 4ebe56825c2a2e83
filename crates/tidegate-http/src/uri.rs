//! Request targets: path, arguments and the path's normal form.
//!
//! A target without `%`, `//`, `/.` and `#` is its own normal form, and the request-line parser finds that out while it
//! looks for the target's end; only others are copied.

use std::borrow::Cow;

use crate::escape::{Unescape, hex_digit, unescape_uri};

/// A target with a broken escape, an escaped NUL, or more `..` than segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid URI")]
pub struct BadUri;

/// A target taken apart. Source: nginx, `r->uri`, `r->args`, `r->quoted_uri`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uri<'a> {
    /// The decoded path without dot segments; starts with `/`.
    pub path: &'a [u8],
    /// What follows `?`, as sent; empty without one.
    pub args: &'a [u8],
    /// Whether the path was written with escapes, so that it must be escaped again where it is sent on.
    pub quoted: bool,
}

/// What a pass over a target found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TargetShape {
    /// Where the target ends: a byte up to the space, or DEL.
    pub(crate) end: usize,
    /// Where the first `?` stands, or the end.
    pub(crate) path_end: usize,
    /// Whether the path is its own normal form and nothing is to be cut from the arguments.
    pub(crate) plain: bool,
}

const SLASH: u8 = 1;
/// Shifting [`SLASH`] left by one gives this: a `/` before a byte with this bit makes the path complex.
const SLASH_OR_DOT: u8 = 2;
const COMPLEX: u8 = 4;
const QUESTION: u8 = 8;
const END: u8 = 16;

static TARGET_CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut i = 0;
    while i <= b' ' as usize {
        class[i] = END;
        i += 1;
    }
    class[0x7f] = END;
    class[b'/' as usize] = SLASH | SLASH_OR_DOT;
    class[b'.' as usize] = SLASH_OR_DOT;
    class[b'%' as usize] = COMPLEX;
    class[b'#' as usize] = COMPLEX;
    class[b'?' as usize] = QUESTION;
    class
};

/// Finds the end of the target that starts at `from`; `None` when `buf` ends first.
#[inline]
pub(crate) fn scan_target(buf: &[u8], from: usize) -> Option<TargetShape> {
    let (mut previous, mut seen) = (0, 0);
    let mut at = from;
    loop {
        let class = TARGET_CLASS[*buf.get(at)? as usize];
        if class & (END | QUESTION) != 0 {
            break;
        }
        seen |= (class & COMPLEX) | ((previous << 1) & class & SLASH_OR_DOT);
        previous = class;
        at += 1;
    }
    let path_end = at;
    let mut plain = seen == 0;
    loop {
        let byte = *buf.get(at)?;
        if TARGET_CLASS[byte as usize] & END != 0 {
            return Some(TargetShape { end: at, path_end, plain });
        }
        plain &= byte != b'#';
        at += 1;
    }
}

/// Takes a target in origin form apart: `/path?args#fragment`, or `?args` for an empty path.
///
/// `scratch` is only used when the path is not its own normal form. With `merge_slashes`, a run of slashes counts as
/// one. Dots and slashes count also when they are escaped; an escaped `?`, `#` or `%` is part of the path.
///
/// # Errors
/// [`BadUri`] for an incomplete escape, `%00`, and `..` above the root.
///
/// Source: nginx, `ngx_http_parse_complex_uri`.
pub fn parse_uri<'a>(target: &'a [u8], merge_slashes: bool, scratch: &'a mut Vec<u8>) -> Result<Uri<'a>, BadUri> {
    let path_end = memchr::memchr(b'?', target).unwrap_or(target.len());
    // Spaces and control characters have been refused before; in a rewritten URI they are ordinary bytes.
    let is_plain = target.first() == Some(&b'/') && is_normal(&target[..path_end]) && !target.contains(&b'#');
    if is_plain {
        return Ok(Uri {
            path: &target[..path_end],
            args: target.get(path_end + 1..).unwrap_or_default(),
            quoted: false,
        });
    }
    let args = normalise(target, merge_slashes, scratch)?;
    Ok(Uri { path: scratch, args, quoted: memchr::memchr(b'%', &target[..path_end]).is_some() })
}

fn is_normal(path: &[u8]) -> bool {
    let mut previous = 0;
    path.iter().all(|&byte| {
        let class = TARGET_CLASS[byte as usize];
        let bad = (class & COMPLEX) | ((previous << 1) & class & SLASH_OR_DOT);
        previous = class;
        bad == 0
    })
}

/// Writes the normal form of the target's path into `path` and returns its arguments.
pub(crate) fn normalise<'a>(target: &'a [u8], merge_slashes: bool, path: &mut Vec<u8>) -> Result<&'a [u8], BadUri> {
    path.clear();
    path.reserve(target.len() + 1);
    if target.first() != Some(&b'/') {
        path.push(b'/');
    }
    // Invariant: `segment` is where the segment being written starts, just behind a slash.
    let mut segment = path.len();
    let mut rest = target;
    let args = loop {
        let Some((&byte, tail)) = rest.split_first() else { break &[][..] };
        rest = tail;
        let byte = match byte {
            b'?' => break until_fragment(rest),
            b'#' => break &[][..],
            b'%' => {
                let (decoded, tail) = decode_escape(rest).ok_or(BadUri)?;
                rest = tail;
                if decoded == 0 {
                    return Err(BadUri);
                }
                decoded
            }
            byte => byte,
        };
        if byte == b'/' {
            end_segment(path, segment, merge_slashes)?;
            segment = path.len();
        } else {
            path.push(byte);
        }
    };
    resolve_dots(path, segment)?;
    Ok(args)
}

/// Ends a segment at a slash: dot segments are resolved, else the slash is written.
fn end_segment(path: &mut Vec<u8>, segment: usize, merge_slashes: bool) -> Result<(), BadUri> {
    let is_empty = segment == path.len() && !path.is_empty();
    let is_resolved = resolve_dots(path, segment)?;
    let is_merged = is_empty && merge_slashes;
    if !is_resolved && !is_merged {
        path.push(b'/');
    }
    Ok(())
}

/// Removes the segment that starts at `segment` if it is `.` or `..`; the latter takes its parent along.
fn resolve_dots(path: &mut Vec<u8>, segment: usize) -> Result<bool, BadUri> {
    // Before the first slash there is no segment: a path always starts with one.
    if segment == 0 {
        return Ok(false);
    }
    match &path[segment..] {
        b"." => path.truncate(segment),
        b".." => {
            let parent = memchr::memrchr(b'/', &path[..segment - 1]).ok_or(BadUri)?;
            path.truncate(parent + 1);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The arguments of a target: what follows its first `?`, up to a fragment; empty if the fragment comes first.
pub(crate) fn args_of(target: &[u8]) -> &[u8] {
    split_args(until_fragment(target)).1
}

fn until_fragment(args: &[u8]) -> &[u8] {
    &args[..memchr::memchr(b'#', args).unwrap_or(args.len())]
}

/// Decodes the two hex digits after a `%`.
fn decode_escape(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (&[high, low], rest) = bytes.split_first_chunk::<2>()?;
    Some((hex_digit(high)? << 4 | hex_digit(low)?, rest))
}

/// The extension of the last segment of a path: what follows its last dot, empty without one.
///
/// A dot right behind the slash starts no extension. Source: nginx, `ngx_http_set_exten`.
pub fn extension(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte == b'/' || byte == b'.') {
        Some(at @ 1..) if path[at] == b'.' && path[at - 1] != b'/' => &path[at + 1..],
        _ => &[],
    }
}

/// Splits a URI that a program made for this server, and that may not lead out of the tree of locations: its path, decoded,
/// and its arguments. `None` for an empty path, a NUL, or a segment `..`, escaped or not. Nothing else is normalised.
///
/// Source: nginx, `ngx_http_parse_unsafe_uri`.
pub fn parse_unsafe_uri(uri: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let (escaped, args) = split_args(uri);
    let path = if memchr::memchr(b'%', escaped).is_none() {
        Cow::Borrowed(escaped)
    } else {
        let mut path = Vec::with_capacity(escaped.len());
        unescape_uri(escaped, Unescape::All, &mut path);
        Cow::Owned(path)
    };
    let is_unsafe = path.is_empty() || path.contains(&0) || path.split(|&byte| byte == b'/').any(|part| part == b"..");
    (!is_unsafe).then_some((path, args))
}

/// Splits a URI at its first `?`.
pub fn split_args(uri: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'?', uri) {
        Some(at) => (&uri[..at], &uri[at + 1..]),
        None => (uri, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalises() {
        #[track_caller]
        fn check(target: &str, merged: &str, kept: &str) {
            for (merge_slashes, expected) in [(true, merged), (false, kept)] {
                let mut scratch = b"old".to_vec();
                let text = match parse_uri(target.as_bytes(), merge_slashes, &mut scratch) {
                    Ok(uri) => {
                        format!("{} {}", String::from_utf8_lossy(uri.path), String::from_utf8_lossy(uri.args))
                    }
                    Err(BadUri) => "bad ".to_owned(),
                };
                assert_eq!(text.strip_suffix(' ').unwrap_or(&text), expected, "{target:?} merge {merge_slashes}");
            }
        }
        #[track_caller]
        fn same(target: &str, expected: &str) {
            check(target, expected, expected);
        }
        same("/", "/");
        same("/a/b.html?x=1&y=//..", "/a/b.html x=1&y=//..");
        same("/a?", "/a");
        same("/a??b", "/a ?b");
        same("?a=1", "/ a=1");
        same("", "/");
        same("/a+b", "/a+b");
        same("/a%20b", "/a b");
        same("/%41%2b%3F%23%25%c3%A9", "/A+?#%\u{e9}");
        same("/a%3fb?c%3f", "/a?b c%3f");
        same("/./a", "/a");
        same("/.", "/");
        same("/a/.", "/a/");
        same("/a/..", "/");
        same("/a/b/../c", "/a/c");
        same("/a/../../b", "bad");
        same("/..", "bad");
        same("/../", "bad");
        same("/a/..?x", "/ x");
        same("/a/.#x", "/a/");
        same("/a/%2e%2E/b", "/b");
        same("/a/%2e./b", "/b");
        same("/a%2F..%2fb", "/b");
        same("/...", "/...");
        same("/..a/.b/..", "/..a/");
        same("/a../b./c", "/a../b./c");
        same("/.%25", "/.%");
        check("//a///b//", "/a/b/", "//a///b//");
        check("/a//../b", "/b", "/a/b");
        check("//..", "bad", "/");
        check("/a/%2F/b", "/a/b", "/a///b");
        check("/.//a", "/a", "//a");
        same("/a#b?c", "/a");
        same("/a?b#c", "/a b");
        same("/%", "bad");
        same("/%4", "bad");
        same("/%4g", "bad");
        same("/%00", "bad");
        same("/a%", "bad");
        same("/a?%", "/a %");
    }

    #[test]
    fn scanning_agrees_with_normalising() {
        let pieces = ["/", "a", ".", "..", "//", "%41", "?", "#", "+", "/a", "/.."];
        let mut indexes = [0usize; 4];
        loop {
            let target: String = std::iter::once("/").chain(indexes.iter().map(|&i| pieces[i])).collect();
            let line = format!("{target} ");
            let shape = scan_target(line.as_bytes(), 0).unwrap_or_default();
            assert_eq!(shape.end, target.len());
            let mut scratch = Vec::new();
            let normal = normalise(target.as_bytes(), true, &mut scratch);
            if shape.plain {
                let args = target.as_bytes().get(shape.path_end + 1..).unwrap_or_default();
                assert_eq!(normal, Ok(args), "{target}");
                assert_eq!(scratch, &target.as_bytes()[..shape.path_end], "{target}");
            }
            assert_eq!(scan_target(target.as_bytes(), 0), None);
            let Some(digit) = indexes.iter().position(|&i| i + 1 < pieces.len()) else { break };
            indexes[..digit].fill(0);
            indexes[digit] += 1;
        }
    }

    #[test]
    fn finds_extensions() {
        for (path, expected) in [
            ("/a.html", "html"),
            ("/a.tar.gz", "gz"),
            ("/a.b/c", ""),
            ("/.htaccess", ""),
            ("/..a", "a"),
            ("/a.", ""),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(extension(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }
}
