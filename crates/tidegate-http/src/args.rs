//! Arguments of a request: `$arg_name`.

/// The value of the first argument of this name, as sent; the name is looked for in any case and is not decoded.
///
/// An argument without `=` is not found. Source: nginx, `ngx_http_arg`.
pub fn arg<'a>(args: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    if name.is_empty() {
        return None;
    }
    args.split(|&byte| byte == b'&').find_map(|arg| {
        let (start, rest) = arg.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b"=")?;
        start.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// All arguments in their order, as sent: name and, if there is a `=`, value. Empty arguments are left out.
pub fn iter(args: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    args.split(|&byte| byte == b'&').filter(|arg| !arg.is_empty()).map(|arg| match memchr::memchr(b'=', arg) {
        Some(at) => (&arg[..at], Some(&arg[at + 1..])),
        None => (arg, None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_arguments() {
        #[track_caller]
        fn check(args: &str, name: &str, expected: Option<&str>) {
            assert_eq!(arg(args.as_bytes(), name.as_bytes()), expected.map(str::as_bytes), "{args} {name}");
        }
        check("a=1&b=2", "a", Some("1"));
        check("a=1&b=2", "B", Some("2"));
        check("a=1&a=2", "a", Some("1"));
        check("ba=1&a=2", "a", Some("2"));
        check("a&a=2", "a", Some("2"));
        check("a=", "a", Some(""));
        check("a==%20", "a", Some("=%20"));
        check("a", "a", None);
        check("", "a", None);
        check("=1", "", None);
        check("&&a=1&", "a", Some("1"));
        check("a%62=1", "ab", None);
    }

    #[test]
    fn lists_arguments() {
        let found: Vec<_> = iter(b"a=1&&b&=c&d=").collect();
        let expected: [(&[u8], Option<&[u8]>); 4] =
            [(b"a", Some(b"1")), (b"b", None), (b"", Some(b"c")), (b"d", Some(b""))];
        assert_eq!(found, expected);
    }
}
