//! `referer`: tells requests apart by the site that they were linked from.
//!
//! Follows nginx's `ngx_http_referer_module`.

use std::sync::Arc;

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, Span, ast};
use tidegate_core::{
    conf::{Build, LevelId, ServerId},
    inherit,
    module::{Context, Directive, Module},
    regex::{Regex, RegexOptions},
    request::Request,
    variable::VariableDef,
};
use tidegate_http::Known;

use crate::hostnames::{HostnameError, Hostnames};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    valid_referers: Option<Arc<Referers>>,
    referer_hash_bucket_size: Option<u64>,
    referer_hash_max_size: Option<u64>,
    /// At the `http` level: where the directive stands, with the server whose names count.
    uses: Vec<(LevelId, Option<ServerId>, Span)>,
}

/// Which referers are valid.
#[derive(Debug, Default)]
struct Referers {
    none: bool,
    blocked: bool,
    /// Host names, with the path that must follow.
    names: Hostnames<BString>,
    /// Patterns for what follows the scheme.
    patterns: Vec<Arc<Regex>>,
    /// Patterns of server names.
    host_patterns: Vec<Arc<Regex>>,
}

const CONTEXTS: Context = Context::SERVER.or(Context::LOCATION);

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("valid_referers", 1, u16::MAX, valid_referers)
            .within(CONTEXTS)
            .syntax("none | blocked | server_names | name | ~pattern ...")
            .doc("Referers for which $invalid_referer is empty."),
        Directive::number("referer_hash_bucket_size", |c: &mut Conf| &mut c.referer_hash_bucket_size)
            .within(CONTEXTS)
            .doc("Accepted: tables grow as they need."),
        Directive::number("referer_hash_max_size", |c: &mut Conf| &mut c.referer_hash_max_size)
            .within(CONTEXTS)
            .doc("Accepted: tables grow as they need."),
    ],
    variables: &[VariableDef::new(
        "invalid_referer",
        |req, _, out| {
            let conf = req.module_conf(&MODULE);
            if conf.valid_referers.as_ref().is_some_and(|referers| !referers.accept(req)) {
                out.push(b'1');
            }
            true
        },
        "Empty if the request's referer is one of valid_referers, \"1\" otherwise.",
    )],
    inherit: |child, parent, _| {
        inherit!(child, parent; valid_referers, referer_hash_bucket_size, referer_hash_max_size);
    },
    finish: Some(|conf, build| {
        for (level, server, span) in std::mem::take(&mut conf.uses) {
            let names = server.map(|server| &build.server_names[server.0 as usize]);
            let names: Vec<BString> = names.into_iter().flatten().map(|(name, _)| name.clone()).collect();
            let referers = build.conf_mut(&MODULE, level).valid_referers.as_mut().and_then(Arc::get_mut);
            if let Some(referers) = referers {
                referers.add_server_names(&names, span)?;
                referers.check(span)?;
            }
        }
        Ok(())
    }),
    example: "
        location /images/ {
            valid_referers none blocked server_names *.example.com;
            if ($invalid_referer) { return 403; }
        }
    ",
    ..Module::named("referer")
};

fn valid_referers(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let mut server = None;
    let mut own = conf.valid_referers.take().and_then(Arc::into_inner).unwrap_or_default();
    for arg in &directive.args {
        match &**arg.value {
            b"none" => own.none = true,
            b"blocked" => own.blocked = true,
            b"server_names" => server = build.server(),
            [b'~', pattern @ ..] => {
                let regex = Regex::new(pattern, RegexOptions::CASELESS)
                    .map_err(|error| Diagnostic::new(Severity::Emerg, arg.span, error.to_string()))?;
                own.patterns.push(Arc::new(regex));
            }
            name => {
                let path = memchr::memchr(b'/', name).unwrap_or(name.len());
                own.add_name(&name[..path], &name[path..], arg.span)?;
            }
        }
    }
    conf.valid_referers = Some(Arc::new(own));
    if let Some(http) = build.http_level() {
        let level = build.level();
        build.conf_mut(&MODULE, http).uses.push((level, server, directive.name.span));
    }
    Ok(())
}

/// Shorter ones hold no host: `http://i.ru`.
const REFERER_BYTES_MIN: usize = "http://i.ru".len();

/// Longest host name that is compared.
const HOST_BYTES_MAX: usize = 256;

impl Referers {
    fn add_name(&mut self, name: &[u8], path: &[u8], span: Span) -> Result<(), Diagnostic> {
        self.names.add(name, path.into()).map_err(|error| {
            let name = name.as_bstr();
            let message = match error {
                HostnameError::Invalid => format!("invalid hostname or wildcard \"{name}\""),
                HostnameError::Conflict => format!("conflicting parameter \"{name}\""),
            };
            Diagnostic::new(Severity::Emerg, span, message)
        })
    }

    fn add_server_names(&mut self, names: &[BString], span: Span) -> Result<(), Diagnostic> {
        for name in names.iter().filter(|name| !name.is_empty()) {
            if let Some(pattern) = name.strip_prefix(b"~") {
                let regex = Regex::new(pattern, RegexOptions::CASELESS)
                    .map_err(|error| Diagnostic::new(Severity::Emerg, span, error.to_string()))?;
                self.host_patterns.push(Arc::new(regex));
            } else {
                self.add_name(name, b"", span)?;
            }
        }
        Ok(())
    }

    /// Refuses a list by which no page could link to the site.
    fn check(&self, span: Span) -> Result<(), Diagnostic> {
        let nobody = self.names.is_empty() && self.patterns.is_empty() && self.host_patterns.is_empty();
        if nobody && (self.none || self.blocked) {
            let message = "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive \
                           without any valid referer";
            return Err(Diagnostic::new(Severity::Emerg, span, message));
        }
        Ok(())
    }

    fn accept(&self, req: &Request) -> bool {
        let head = req.main().head.borrow();
        match head.fields.get(Known::Referer) {
            Some(referer) => self.accept_text(referer),
            None => self.none,
        }
    }

    fn accept_text(&self, referer: &[u8]) -> bool {
        let rest = [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| {
            let (start, rest) = referer.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        });
        let Some(rest) = rest.filter(|_| referer.len() >= REFERER_BYTES_MIN) else { return self.blocked };
        let host_end = rest.iter().position(|b| matches!(b, b'/' | b':')).unwrap_or(rest.len());
        if host_end > HOST_BYTES_MAX {
            return false;
        }
        let host = rest[..host_end].to_ascii_lowercase();
        if let Some(path) = self.names.find(&host) {
            let start = memchr::memchr(b'/', &rest[host_end..]).map_or(rest.len(), |at| host_end + at);
            return rest[start..].starts_with(path);
        }
        let matches = |patterns: &[Arc<Regex>], text: &[u8]| {
            patterns.iter().any(|pattern| pattern.is_match(text).unwrap_or(false))
        };
        matches(&self.host_patterns, &host) || matches(&self.patterns, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(referer: &str, expected: bool) {
        let span = Span { file: tidegate_conf::FileId(0), start: 0, end: 0 };
        let mut referers = Referers::default();
        for (name, path) in [("a.org", ""), ("*.b.org", "/gallery/"), ("c.*", "")] {
            referers.add_name(name.as_bytes(), path.as_bytes(), span).expect("good");
        }
        referers.patterns.push(Arc::new(Regex::new(br"^www\.x\.(com|net)/", RegexOptions::CASELESS).expect("good")));
        assert_eq!(referers.accept_text(referer.as_bytes()), expected, "{referer}");
    }

    #[test]
    fn referers() {
        check("http://a.org/x", true);
        check("HTTPS://A.ORG", true);
        check("http://a.org:8080/x", true);
        check("http://b.a.org/", false);
        check("http://x.b.org/gallery/1", true);
        check("http://x.b.org:80/gallery/1", true);
        check("http://x.b.org/other", false);
        check("http://x.b.org", false);
        check("http://c.anything/", true);
        check("http://www.x.com/1", true);
        check("http://www.x.de/1", false);
        check("a.org", false);
        check("http://i.r", false);
        check(&format!("http://{}/", "x".repeat(300)), false);
    }
}
