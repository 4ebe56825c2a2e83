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
/// [`BadHost`] for an empty name, two dots in a row, `/`, spaces and control characters.
///
/// Source: nginx 1.22-1.27, `ngx_http_validate_host`.
pub fn validate_host(host: &[u8], out: &mut Vec<u8>) -> Result<(), BadHost> {
    out.clear();
    let name = host_name(host)?;
    out.extend_from_slice(name);
    out.make_ascii_lowercase();
    Ok(())
}

/// The name in `host` in the case in which it came, without port and trailing dot.
///
/// # Errors
/// As for [`validate_host`].
pub fn host_name(host: &[u8]) -> Result<&[u8], BadHost> {
    enum State {
        Name,
        Literal,
        Rest,
    }
    let mut state = if host.first() == Some(&b'[') { State::Literal } else { State::Name };
    let mut name_end = host.len();
    let mut previous = 0;
    for (i, &byte) in host.iter().enumerate() {
        match (byte, &state) {
            (b'.', _) if previous == b'.' => return Err(BadHost),
            (b':', State::Name) => {
                name_end = i;
                state = State::Rest;
            }
            (b']', State::Literal) => {
                name_end = i + 1;
                state = State::Rest;
            }
            (0..=b' ' | b'/' | 0x7f, _) => return Err(BadHost),
            _ => {}
        }
        previous = byte;
    }
    let name = &host[..name_end];
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.is_empty() { Err(BadHost) } else { Ok(name) }
}

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
        check("[::1", Ok("[::1"));
        check("a[b]:1", Ok("a[b]"));
        check("a_b~c!*", Ok("a_b~c!*"));
        check("\u{e9}.fr", Ok("\u{e9}.fr"));
        for bad in ["", ".", ":80", "a..b", "..", "a b", "a\tb", "a/b", "a\0b", "a\u{7f}", "a:1..2", "a:8 0"] {
            check(bad, Err(BadHost));
        }
    }
}
