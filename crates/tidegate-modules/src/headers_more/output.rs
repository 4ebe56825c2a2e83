//! Fields of the response.

use std::{rc::Rc, sync::Arc};

use bstr::ByteSlice;
use tidegate_conf::values;
use tidegate_core::{
    output::{Closed, Response},
    request::Request,
};
use tidegate_http::{Fields, Known};

use super::{Command, Field};

/// Runs the directives that apply.
///
/// # Errors
/// The response cannot be sent: its length is not a number.
pub(super) fn run(req: &Rc<Request>, commands: &[Arc<Command>]) -> Result<(), Closed> {
    for command in commands {
        if !applies(&req.response.borrow(), command) {
            continue;
        }
        for field in &command.fields {
            // The value may be one of the response, so it is not borrowed meanwhile.
            let value = field.value(req);
            set(&mut req.response.borrow_mut(), field, &value, command.append)?;
        }
    }
    Ok(())
}

fn applies(response: &Response, command: &Command) -> bool {
    (command.types.is_empty() || command.types.iter().any(|kind| *kind == response.content_type))
        && (command.statuses.is_empty() || command.statuses.contains(&response.status))
}

fn set(response: &mut Response, field: &Field, value: &[u8], append: bool) -> Result<(), Closed> {
    if field.wildcard {
        set_matching(&mut response.fields, field, value);
        return Ok(());
    }
    let known = Known::of(&field.name);
    match known {
        Known::ContentType => {
            set_content_type(response, value);
            return Ok(());
        }
        Known::ContentLength => {
            response.content_length = match value {
                [] => None,
                _ => Some(values::integer(value.as_bstr()).map_err(|_| Closed)?),
            };
            return Ok(());
        }
        Known::LastModified => response.last_modified = None,
        Known::AcceptRanges if value.is_empty() => response.allow_ranges = false,
        // Empty, the field keeps the server from writing its own.
        Known::Server | Known::Date => {
            response.fields.set(&field.name, value);
            return Ok(());
        }
        _ => {}
    }
    match value {
        [] if append => {}
        [] => {
            response.fields.remove_name(&field.name);
        }
        _ if append => response.fields.append(&field.name, value),
        _ => response.fields.set(&field.name, value),
    }
    Ok(())
}

/// Fields that the response has at most one of: `-a` must not add to them.
pub(super) fn is_builtin(known: Known) -> bool {
    matches!(
        known,
        Known::Server
            | Known::Date
            | Known::ContentEncoding
            | Known::Location
            | Known::Refresh
            | Known::LastModified
            | Known::ContentRange
            | Known::AcceptRanges
            | Known::WwwAuthenticate
            | Known::Expires
            | Known::ContentLength
            | Known::ContentType
            | Known::CacheControl
    )
}

/// The first field that is meant gets the value, the others go.
fn set_matching(fields: &mut Fields, field: &Field, value: &[u8]) {
    let first = fields.iter().find(|(name, ..)| field.matches(name)).map(|(name, ..)| name.to_vec());
    let keep = if value.is_empty() { None } else { first };
    fields.retain(|name, _, _| keep.as_deref() == Some(name) || !field.matches(name));
    match keep {
        Some(name) => fields.set(&name, value),
        None if value.is_empty() => {}
        None => fields.append(&[field.name.as_slice(), b"*"].concat(), value),
    }
}

/// Sets the content type; filters see its charset apart.
fn set_content_type(response: &mut Response, value: &[u8]) {
    let (kind, charset) = value.split_once_str("; charset=").unwrap_or((value, b""));
    let (kind, charset) = if charset.starts_with(b"\"") { (value, &b""[..]) } else { (kind, charset) };
    response.content_type.clear();
    response.content_type.extend_from_slice(kind);
    response.charset.clear();
    response.charset.extend_from_slice(charset);
}

#[cfg(test)]
mod tests {
    use tidegate_core::template::Template;

    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, append: bool, expected: &[(&str, &str)]) {
        let mut response = Response::default();
        for (name, value) in [("X-A", "1"), ("Y", "2"), ("x-a", "3"), ("X-B", "4"), ("Cache-Control", "5")] {
            response.fields.append(name.as_bytes(), value.as_bytes());
        }
        let (name, wildcard) = name.strip_suffix('*').map_or((name, false), |name| (name, true));
        let field = Field { name: name.into(), wildcard, value: Template::default() };
        assert!(set(&mut response, &field, value.as_bytes(), append).is_ok());
        let fields: Vec<_> = response.fields.iter().map(|(name, value, _)| (name, value)).collect();
        let expected: Vec<_> = expected.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        assert_eq!(fields, expected, "{name}");
    }

    #[test]
    fn sets_fields() {
        check("x-a", "n", false, &[("X-A", "n"), ("Y", "2"), ("X-B", "4"), ("Cache-Control", "5")]);
        check("X-A", "", false, &[("Y", "2"), ("X-B", "4"), ("Cache-Control", "5")]);
        check("X-*", "", false, &[("Y", "2"), ("Cache-Control", "5")]);
        check("X-*", "n", false, &[("X-A", "n"), ("Y", "2"), ("Cache-Control", "5")]);
        let old = [("X-A", "1"), ("Y", "2"), ("x-a", "3"), ("X-B", "4"), ("Cache-Control", "5")];
        check("X-A", "n", true, &[&old[..], &[("X-A", "n")]].concat());
        check("X-A", "", true, &old);
        check("Cache-Control", "n", false, &[&old[..4], &[("Cache-Control", "n")]].concat());
        check("Server", "", false, &[&old[..], &[("Server", "")]].concat());
    }

    #[test]
    fn sets_what_stands_apart() {
        let mut response = Response::default();
        (response.content_length, response.last_modified) = (Some(3), Some(1));
        let field = |name: &str| Field { name: name.into(), wildcard: false, value: Template::default() };
        for (value, kind, charset) in [
            ("text/a", "text/a", ""),
            ("text/a; charset=utf-8", "text/a", "utf-8"),
            ("text/a; charset=\"utf-8\"", "text/a; charset=\"utf-8\"", ""),
            ("", "", ""),
        ] {
            assert!(set(&mut response, &field("content-type"), value.as_bytes(), false).is_ok());
            assert_eq!((&*response.content_type, &*response.charset), (kind.as_bytes(), charset.as_bytes()));
        }
        assert!(set(&mut response, &field("Content-Length"), b"x", false).is_err());
        assert!(set(&mut response, &field("Content-Length"), b"", false).is_ok());
        assert!(set(&mut response, &field("Last-Modified"), b"", false).is_ok());
        assert_eq!((response.content_length, response.last_modified), (None, None));
    }
}
