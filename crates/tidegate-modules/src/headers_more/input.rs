//! Fields of the request.

use std::{rc::Rc, sync::Arc};

use bstr::ByteSlice;
use tidegate_conf::values;
use tidegate_core::request::Request;
use tidegate_http::{Known, RequestHead, host::validate_host};

use super::{Command, Field};

/// A value that its field cannot have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadValue;

/// Runs the directives that apply.
///
/// # Errors
/// A value for `Host` or `Content-Length` is none.
pub(super) fn run(req: &Rc<Request>, commands: &[Arc<Command>]) -> Result<(), BadValue> {
    if req.head.borrow().version < (1, 0) {
        // HTTP/0.9 has no fields.
        return Ok(());
    }
    for command in commands {
        if !applies(&req.head.borrow(), command) {
            continue;
        }
        for field in &command.fields {
            // The value may be one of the request, so it is not borrowed meanwhile.
            let value = field.value(req);
            set(&mut req.head.borrow_mut(), field, &value, command.replace)?;
            let ends_connection = match Known::of(&field.name) {
                Known::Connection => value.to_ascii_lowercase().contains_str("close"),
                // Only so much of the body is read; what follows it is nobody's request.
                Known::ContentLength if !req.body.is_loaded() => {
                    let length = req.head.borrow().content_length;
                    length.is_some_and(|length| req.body.shorten(length))
                }
                _ => false,
            };
            if ends_connection {
                req.flags().keep_alive.set(false);
            }
        }
    }
    Ok(())
}

fn applies(head: &RequestHead, command: &Command) -> bool {
    let kind = head.fields.get(Known::ContentType);
    command.types.is_empty() || kind.is_some_and(|kind| command.types.iter().any(|wanted| *wanted == kind))
}

fn set(head: &mut RequestHead, field: &Field, value: &[u8], replace: bool) -> Result<(), BadValue> {
    if field.wildcard && value.is_empty() {
        let names: Vec<Vec<u8>> =
            head.fields.iter().filter(|(name, ..)| field.matches(name)).map(|(name, ..)| name.to_vec()).collect();
        return names.iter().try_for_each(|name| set_named(head, name, value));
    }
    if replace && !head.fields.contains_name(&field.name) {
        return Ok(());
    }
    if field.wildcard {
        return set_named(head, &[field.name.as_slice(), b"*"].concat(), value);
    }
    set_named(head, &field.name, value)
}

/// Sets a field, or clears it, and what the server derived from it.
fn set_named(head: &mut RequestHead, name: &[u8], value: &[u8]) -> Result<(), BadValue> {
    match Known::of(name) {
        Known::Host if value.is_empty() => head.set_host(b""),
        Known::Host => {
            let mut host = Vec::new();
            validate_host(value, &mut host).map_err(|_| BadValue)?;
            head.set_host(&host);
        }
        Known::ContentLength if value.is_empty() => head.content_length = None,
        Known::ContentLength => {
            head.content_length = Some(values::integer(value.as_bstr()).map_err(|_| BadValue)?);
        }
        _ => {}
    }
    if value.is_empty() {
        head.fields.remove_name(name);
    } else {
        head.fields.set(name, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tidegate_core::template::Template;

    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, replace: bool, expected: &[(&str, &str)]) {
        let mut head = RequestHead::new();
        for (name, value) in [("Host", "old"), ("X-A", "1"), ("x-b", "2"), ("X-A", "3")] {
            head.fields.append(name.as_bytes(), value.as_bytes());
        }
        let (name, wildcard) = name.strip_suffix('*').map_or((name, false), |name| (name, true));
        let field = Field { name: name.into(), wildcard, value: Template::default() };
        assert_eq!(set(&mut head, &field, value.as_bytes(), replace), Ok(()));
        let fields: Vec<_> = head.fields.iter().map(|(name, value, _)| (name, value)).collect();
        let expected: Vec<_> = expected.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        assert_eq!(fields, expected, "{name}");
    }

    #[test]
    fn sets_fields() {
        let old = [("Host", "old"), ("X-A", "1"), ("x-b", "2"), ("X-A", "3")];
        check("x-a", "n", false, &[("Host", "old"), ("X-A", "n"), ("x-b", "2")]);
        check("x-a", "n", true, &[("Host", "old"), ("X-A", "n"), ("x-b", "2")]);
        check("X-A", "", false, &[("Host", "old"), ("x-b", "2")]);
        check("X-*", "", false, &[("Host", "old")]);
        check("New", "n", false, &[&old[..], &[("New", "n")]].concat());
        check("New", "n", true, &old);
    }

    #[test]
    fn keeps_what_is_derived() {
        let mut head = RequestHead::new();
        assert_eq!(set_named(&mut head, b"Host", b"New.Example:80"), Ok(()));
        assert_eq!(head.host(), b"new.example");
        assert_eq!(set_named(&mut head, b"Host", b"a b"), Err(BadValue));
        assert_eq!(set_named(&mut head, b"Content-Length", b"12"), Ok(()));
        assert_eq!(head.content_length, Some(12));
        assert_eq!(set_named(&mut head, b"Content-Length", b"-1"), Err(BadValue));
        assert_eq!(set_named(&mut head, b"content-length", b""), Ok(()));
        assert_eq!(head.content_length, None);
    }
}
