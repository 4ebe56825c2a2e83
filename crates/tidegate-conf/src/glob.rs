//! File name patterns as `glob(3)` reads them: `*`, `?`, `[a-z]`, `[!a]`, `[[:digit:]]` and `\` before any byte.
//!
//! A pattern never matches `/`, nor a `.` that begins a name. Names sort by their bytes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;

/// The existing files that match, sorted. Folders that cannot be read count as empty.
pub(crate) fn expand(pattern: &[u8]) -> Vec<PathBuf> {
    let mut found: Vec<Vec<u8>> = vec![Vec::new()];
    for (index, part) in pattern.split_str("/").enumerate() {
        let last = pattern.len() == offset_in(pattern, part) + part.len();
        let mut next = Vec::new();
        for base in &found {
            let prefix: Vec<u8> = if index == 0 { Vec::new() } else { [base.as_slice(), b"/"].concat() };
            if part.find_byteset(b"*?[").is_none() {
                let name = [prefix, without_escapes(part)].concat();
                if !last || part.is_empty() || exists(&name) {
                    next.push(name);
                }
            } else {
                matching_names(&prefix, part, &mut next);
            }
        }
        found = next;
    }
    found.sort();
    found.into_iter().map(|path| PathBuf::from(OsStr::from_bytes(&path))).collect()
}

/// Adds the entries of the folder whose name matches.
fn matching_names(folder: &[u8], pattern: &[u8], found: &mut Vec<Vec<u8>>) {
    let path = if folder.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(folder)) };
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.as_bytes();
        if (name[0] != b'.' || pattern[0] == b'.') && matches(pattern, name) {
            found.push([folder, name].concat());
        }
    }
}

/// Whether the whole name matches.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where to go on when the last `*` has to take one more byte.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, n));
            continue;
        }
        match (match_one(&pattern[p..], name.get(n).copied()), retry) {
            (Some(0), _) => return true,
            (Some(width), _) => (p, n) = (p + width, n + 1),
            (None, Some((star_p, star_n))) if star_n < name.len() => {
                (p, n) = (star_p, star_n + 1);
                retry = Some((star_p, star_n + 1));
            }
            (None, _) => return false,
        }
    }
}

/// How many bytes of the pattern match the byte; 0 if both are used up.
fn match_one(pattern: &[u8], byte: Option<u8>) -> Option<usize> {
    let (&first, rest) = match (pattern.split_first(), byte) {
        (None, None) => return Some(0),
        (None, Some(_)) | (Some(_), None) => return None,
        (Some(split), Some(_)) => split,
    };
    let byte = byte?;
    match first {
        b'?' => Some(1),
        b'[' => match match_bracket(rest, byte) {
            Some((matched, width)) => matched.then_some(width + 1),
            // Without a closing bracket it is a byte like others.
            None => (byte == b'[').then_some(1),
        },
        b'\\' => match rest.first() {
            Some(&escaped) => (escaped == byte).then_some(2),
            None => (byte == b'\\').then_some(1),
        },
        literal => (literal == byte).then_some(1),
    }
}

/// Reads what follows a `[`: whether the byte belongs to the set, and the width of the set with its `]`.
fn match_bracket(set: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(set.first(), Some(b'!' | b'^'));
    let start = usize::from(negated);
    let mut pos = start;
    let mut matched = false;
    loop {
        let mut low = *set.get(pos)?;
        if low == b']' && pos > start {
            return Some((matched != negated, pos + 1));
        }
        if let Some((class, width)) = class(&set[pos..]) {
            matched |= in_class(class, byte);
            pos += width;
            continue;
        }
        if low == b'\\' {
            pos += 1;
            low = *set.get(pos)?;
        }
        pos += 1;
        let mut high = low;
        if set.get(pos) == Some(&b'-') && set.get(pos + 1).is_some_and(|&b| b != b']') {
            pos += 1;
            high = *set.get(pos)?;
            if high == b'\\' {
                pos += 1;
                high = *set.get(pos)?;
            }
            pos += 1;
        }
        matched |= (low..=high).contains(&byte);
    }
}

/// The name in `[:name:]` at the start of `set`, and the width of it all.
fn class(set: &[u8]) -> Option<(&[u8], usize)> {
    let inside = set.strip_prefix(b"[:")?;
    let end = inside.find(b":]")?;
    Some((&inside[..end], end + 4))
}

fn in_class(class: &[u8], byte: u8) -> bool {
    match class {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => byte == b' ' || byte == b'\t',
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => false,
    }
}

fn without_escapes(part: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(part.len());
    let mut bytes = part.iter();
    while let Some(&byte) = bytes.next() {
        name.push(if byte == b'\\' { bytes.next().copied().unwrap_or(byte) } else { byte });
    }
    name
}

/// Also true for a symbolic link that leads nowhere, whose name then shows up in an error.
fn exists(path: &[u8]) -> bool {
    fs::symlink_metadata(OsStr::from_bytes(path)).is_ok()
}

fn offset_in(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (pattern, name, expected) in [
            ("", "", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("ab", "a", false),
            ("*", "", true),
            ("*", "abc", true),
            ("*.conf", "a.conf", true),
            ("*.conf", ".conf", true),
            ("*.conf", "a.conf.bak", false),
            ("*.*.conf", "a.b.c.conf", true),
            ("a*b*c", "aXXbYYc", true),
            ("a*b*c", "aXXbYY", false),
            ("?", "a", true),
            ("?", "", false),
            ("[abc]", "b", true),
            ("[abc]", "d", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]", "b", false),
            ("[^a-c]", "d", true),
            ("[]a]", "]", true),
            ("[!]a]", "b", true),
            ("[a-]", "-", true),
            ("[[:digit:]]*", "7up", true),
            ("[[:digit:]a]", "a", true),
            ("[[:upper:]]", "a", false),
            ("[\\]]", "]", true),
            ("[a", "[a", true),
            ("[a", "a", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("\\", "\\", true),
            ("*[", "a[", true),
            ("**", "x", true),
            ("*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
