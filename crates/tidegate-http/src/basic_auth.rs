//! Basic authentication: `Authorization: Basic base64(user:password)`.
//!
//! Source: RFC 7617; nginx, `ngx_http_auth_basic_user`.

/// The user and the password in the value of an `Authorization` field; `None` for any other scheme, for broken base64
/// and where there is no colon or no user.
pub fn credentials(value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut user = decode_base64(rest.trim_ascii_start())?;
    let colon = memchr::memchr(b':', &user).filter(|&at| at > 0)?;
    let password = user.split_off(colon + 1);
    user.pop();
    Some((user, password))
}

/// Decodes base64; the padding may be missing.
pub fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().position(|&b| b == b'=').unwrap_or(text.len());
    let (text, padding) = text.split_at(end);
    if text.len() % 4 == 1 || padding.len() > 2 || padding.iter().any(|&b| b != b'=') {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut word = 0u32;
        for &byte in group {
            let value = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            word = word << 6 | u32::from(value);
        }
        word <<= 6 * (4 - group.len());
        out.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, expected: Option<(&str, &str)>) {
        let found = credentials(value.as_bytes());
        let expected = expected.map(|(user, password)| (user.as_bytes().to_vec(), password.as_bytes().to_vec()));
        assert_eq!(found, expected, "{value}");
    }

    #[test]
    fn values() {
        check("Basic amVycnk6bW91c2U=", Some(("jerry", "mouse")));
        check("basic   amVycnk6bW91c2U", Some(("jerry", "mouse")));
        check("Basic amVycnk6", Some(("jerry", "")));
        check("Basic YTpiOmM=", Some(("a", "b:c")));
        check("Basic OmI=", None);
        check("Basic amVycnk=", None);
        check("Basic amVycnk6!", None);
        check("Basic amVycnk6bW91c2U===", None);
        check("Basic ", None);
        check("Basic", None);
        check("", None);
        check("Bearer amVycnk6bW91c2U=", None);
    }
}
