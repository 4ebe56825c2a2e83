//! The parameters of a request: `fastcgi_param` and its kin, and the client's fields as `HTTP_…`.
//!
//! Source: nginx, `ngx_http_fastcgi_init_params`, `ngx_http_fastcgi_create_request`; RFC 3875, section 4.1.

use std::{marker::PhantomData, rc::Rc, sync::Arc};

use bstr::BString;
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{conf::Build, request::Request, template::Template};
use tidegate_http::{Fields, Known, date::http_date};

/// One `…_param`.
#[derive(Debug, Clone)]
pub(crate) struct Param {
    name: BString,
    value: Template,
    if_not_empty: bool,
}

/// What the directives say at a level.
pub(crate) type ParamList = Option<Arc<Vec<Param>>>;

/// `…_param parameter value [if_not_empty];`
///
/// # Errors
/// Another word than `if_not_empty`.
pub(crate) fn parse(list: &mut ParamList, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let if_not_empty = match directive.args.get(2) {
        None => false,
        Some(word) if word.value == "if_not_empty" => true,
        Some(word) => return Err(Diagnostic::invalid_parameter(&word.value, word.span, ["if_not_empty"])),
    };
    let param =
        Param { name: directive.args[0].value.clone(), value: build.template(&directive.args[1])?, if_not_empty };
    Arc::make_mut(list.get_or_insert_default()).push(param);
    Ok(())
}

/// How a protocol writes a parameter.
pub(crate) trait Encode {
    /// Appends a parameter whose value `write` appends; answers the size of the value.
    fn write_param(name: &[u8], out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize;
}

/// The parameters of a location's requests, in the encoding of its protocol.
pub(crate) struct Params<E> {
    entries: Vec<Entry>,
    /// Client's fields that are not sent, because a parameter has their name: the names behind `HTTP_`.
    taken: Vec<BString>,
    encoding: PhantomData<fn() -> E>,
}

enum Entry {
    /// The same for every request, encoded.
    Static(Vec<u8>),
    /// Made for each request.
    Dynamic(Param),
}

/// Begins the names of parameters that are fields of the client.
const FIELD_PREFIX: &[u8] = b"HTTP_";

impl<E: Encode> Params<E> {
    pub(crate) fn new(list: &ParamList) -> Self {
        let list = list.as_deref().map_or(&[][..], Vec::as_slice);
        let mut entries = Vec::new();
        for param in list {
            match (param.value.as_literal(), entries.last_mut()) {
                (Some(b""), _) if param.if_not_empty => {}
                (Some(text), Some(Entry::Static(encoded))) => write_literal::<E>(&param.name, text, encoded),
                (Some(text), _) => {
                    let mut encoded = Vec::new();
                    write_literal::<E>(&param.name, text, &mut encoded);
                    entries.push(Entry::Static(encoded));
                }
                (None, _) => entries.push(Entry::Dynamic(param.clone())),
            }
        }
        let fields = list.iter().filter_map(|param| param.name.strip_prefix(FIELD_PREFIX));
        Params { entries, taken: fields.map(|name| name.to_vec().into()).collect(), encoding: PhantomData }
    }

    /// Appends the parameters, and the client's fields if `pass_fields` says so. A response that is kept for all is to be
    /// whole: what the client wants of it alone goes no further.
    pub(crate) fn write(&self, req: &Rc<Request>, pass_fields: bool, out: &mut Vec<u8>) {
        for entry in &self.entries {
            match entry {
                Entry::Static(encoded) => out.extend_from_slice(encoded),
                Entry::Dynamic(param) => {
                    let start = out.len();
                    let value_bytes = E::write_param(&param.name, out, |out| param.value.write(req, out));
                    if param.if_not_empty && value_bytes == 0 {
                        out.truncate(start);
                    }
                }
            }
        }
        let fills_cache = req.upstream_record(|record| record.cache.fills).unwrap_or(false);
        if fills_cache {
            self.write_validators(req, out);
        }
        if pass_fields {
            let is_sent = |known: Known| !(fills_cache && is_for_one(known));
            self.write_fields(&req.head.borrow().fields, is_sent, out);
        }
    }

    /// Appends what tells a response in the cache that is out of date from a newer one.
    fn write_validators(&self, req: &Rc<Request>, out: &mut Vec<u8>) {
        let is_taken = |name: &str| self.taken.iter().any(|taken| *taken == name);
        req.upstream_record(|record| {
            if let Some(seconds) = record.cache.last_modified.filter(|_| !is_taken("IF_MODIFIED_SINCE")) {
                write_literal::<E>(b"HTTP_IF_MODIFIED_SINCE", &http_date(seconds), out);
            }
            if !record.cache.etag.is_empty() && !is_taken("IF_NONE_MATCH") {
                write_literal::<E>(b"HTTP_IF_NONE_MATCH", &record.cache.etag, out);
            }
        });
    }

    /// Appends the client's fields; those of one name become one parameter.
    fn write_fields(&self, fields: &Fields, is_sent: impl Fn(Known) -> bool, out: &mut Vec<u8>) {
        let mut param = FIELD_PREFIX.to_vec();
        for (index, (name, value, known)) in fields.iter().enumerate() {
            let is_same = |(other, _, kind): &(&[u8], &[u8], Known)| {
                *kind == known && (known != Known::Other || other.eq_ignore_ascii_case(name))
            };
            if !is_sent(known) || fields.iter().take(index).any(|field| is_same(&field)) {
                continue;
            }
            param.truncate(FIELD_PREFIX.len());
            param.extend(name.iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
            if self.taken.iter().any(|taken| *taken == param[FIELD_PREFIX.len()..]) {
                continue;
            }
            let divider: &[u8] = if known == Known::Cookie { b"; " } else { b", " };
            E::write_param(&param, out, |out| {
                out.extend_from_slice(value);
                for (_, value, _) in fields.iter().skip(index + 1).filter(is_same) {
                    out.extend_from_slice(divider);
                    out.extend_from_slice(value);
                }
            });
        }
    }
}

/// Whether the field asks for a part of a response, or for it under a condition.
fn is_for_one(known: Known) -> bool {
    matches!(
        known,
        Known::IfModifiedSince
            | Known::IfUnmodifiedSince
            | Known::IfNoneMatch
            | Known::IfMatch
            | Known::Range
            | Known::IfRange
    )
}

fn write_literal<E: Encode>(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    E::write_param(name, out, |out| out.extend_from_slice(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name=value;`
    struct Text;

    impl Encode for Text {
        fn write_param(name: &[u8], out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
            out.extend_from_slice(name);
            out.push(b'=');
            let start = out.len();
            write(out);
            let value_bytes = out.len() - start;
            out.push(b';');
            value_bytes
        }
    }

    fn param(name: &str, value: &str, if_not_empty: bool) -> Param {
        Param { name: name.into(), value: Template::literal(value), if_not_empty }
    }

    #[test]
    fn fields_become_parameters() {
        #[track_caller]
        fn check(params: &[Param], fields: &[(&str, &str)], expected: &str) {
            let params = Params::<Text>::new(&Some(Arc::new(params.to_vec())));
            let mut list = Fields::new();
            for (name, value) in fields {
                list.append(name.as_bytes(), value.as_bytes());
            }
            let mut out = Vec::new();
            for entry in &params.entries {
                let Entry::Static(encoded) = entry else { panic!("nothing is made for each request") };
                out.extend_from_slice(encoded);
            }
            params.write_fields(&list, |_| true, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
        check(&[], &[("Host", "a"), ("x-fOo.1", "b")], "HTTP_HOST=a;HTTP_X_FOO.1=b;");
        check(
            &[],
            &[("X-A", "1"), ("Cookie", "c=1"), ("x-a", "2"), ("cookie", "d=2")],
            "HTTP_X_A=1, 2;HTTP_COOKIE=c=1; d=2;",
        );
        check(&[param("HTTP_X_A", "p", false)], &[("X-A", "1"), ("X-B", "2")], "HTTP_X_A=p;HTTP_X_B=2;");
        check(&[param("HTTP_X_A", "", true)], &[("X-A", "1")], "");
        check(&[param("A", "", false), param("B", "", true), param("C", "d", true)], &[], "A=;C=d;");
    }
}
