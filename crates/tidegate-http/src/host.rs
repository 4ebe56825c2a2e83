//! Host names as they stand in `Host` fields and request targets.

/// A host name with a byte, or in a form, that no server could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid host")]
pub struct BadHost;

/// Checks `host` and writes the name for server selection into `out`: in lower case, without port and trailing dot.
///
/// An IPv6 literal keeps its brackets. `out` is emptied first and is empty after an error.
///
/// # Errors
/// [`BadHost`] for an empty name, two dots in a row, `/`, spaces and control characters, brackets that are not around all
/// of the name, and a port that is no number up to 65535.
///
/// Source: nginx, `ngx_http_validate_host`; since 1.29.4 it looks at brackets and ports.
pub fn validate_host(host: &[u8], out: &mut Vec<u8>) -> Result<(), BadHost> {
    out.clear();
    let name = host_name(host)?;
    out.extend_from_slice(name);
    // Reading the copy back at once stalls; names hardly ever need it.
    if name.iter().any(u8::is_ascii_uppercase) {
        out.make_ascii_lowercase();
    }
    Ok(())
}

/// The name in `host` in the case in which it came, without port and trailing dot.
///
/// # Errors
/// As for [`validate_host`].
pub fn host_name(host: &[u8]) -> Result<&[u8], BadHost> {
    let is_literal = host.first() == Some(&b'[');
    let mut name_end = None;
    let mut previous = PLAIN;
    for (i, &byte) in host.iter().enumerate() {
        let class = HOST_CLASS[byte as usize];
        if class != PLAIN {
            match class {
                BAD => return Err(BadHost),
                DOT if previous == DOT => return Err(BadHost),
                COLON if name_end.is_none() && !is_literal => name_end = Some(i),
                CLOSING if name_end.is_none() && is_literal => name_end = Some(i + 1),
                OPENING if i == 0 => {}
                OPENING | CLOSING => return Err(BadHost),
                _ => {}
            }
        }
        previous = class;
    }
    let (name, port) = host.split_at(name_end.unwrap_or(host.len()));
    let is_open = is_literal && name_end.is_none();
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.is_empty() || is_open || !is_port(port) { Err(BadHost) } else { Ok(name) }
}

/// Whether nothing, or a colon with a port behind it, which may be missing.
fn is_port(text: &[u8]) -> bool {
    let Some((b':', digits)) = text.split_first() else { return text.is_empty() };
    let number = |digits: &[u8]| digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit) && number(digits) <= 65_535
}

const PLAIN: u8 = 0;
const DOT: u8 = 1;
const COLON: u8 = 2;
const OPENING: u8 = 3;
const CLOSING: u8 = 4;
const BAD: u8 = 5;

/// The class of each byte in a host.
static HOST_CLASS: [u8; 256] = {
    let mut class = [PLAIN; 256];
    let mut i = 0;
    while i <= b' ' as usize {
        class[i] = BAD;
        i += 1;
    }
    class[0x7f] = BAD;
    class[b'/' as usize] = BAD;
    class[b'.' as usize] = DOT;
    class[b':' as usize] = COLON;
    class[b'[' as usize] = OPENING;
    class[b']' as usize] = CLOSING;
    class
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates() {
        #[track_caller]
        fn check(host: &str, expected: Result<&str, BadHost>) {
            let mut out = b"old".to_vec();
            let result = validate_host(host.as_bytes(), &mut out);
            let text = String::from_utf8_lossy(&out).into_owned();
            assert_eq!(result.map(|()| text.as_str()), expected, "{host:?}");
            assert!(result.is_ok() || out.is_empty());
        }
        check("localhost", Ok("localhost"));
        check("Example.COM:8080", Ok("example.com"));
        check("example.com.", Ok("example.com"));
        check("example.com.:80", Ok("example.com"));
        check("example.com:", Ok("example.com"));
        check("[::1]", Ok("[::1]"));
        check("[FE80::1]:80", Ok("[fe80::1]"));
        check("[::1]:", Ok("[::1]"));
        check("a:65535", Ok("a"));
        check("a_b~c!*", Ok("a_b~c!*"));
        check("\u{e9}.fr", Ok("\u{e9}.fr"));
        for bad in ["", ".", ":80", "a..b", "..", "a b", "a\tb", "a/b", "a\0b", "a\u{7f}", "a:1..2", "a:8 0"] {
            check(bad, Err(BadHost));
        }
        for bad in
            ["[::1", "a[b]:1", "[::1].", "[::1]x", "[[::1]]", "a]", "a:65536", "a:000080", "a:b", "a:1:2", "a:1.2"]
        {
            check(bad, Err(BadHost));
        }
    }
}
