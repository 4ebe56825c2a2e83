//! `proxy_pass`: where a request goes, and under which path.
//!
//! Source: nginx, `ngx_http_proxy_pass`, `ngx_http_proxy_eval`, `ngx_http_proxy_create_request`.

use std::{rc::Rc, sync::Arc};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, Span, ast};
use tidegate_core::{
    conf::Build,
    location::Match,
    module::Context,
    phase::Step,
    request::Request,
    template::Template,
    upstream::url::{HostKind, Url},
};
use tidegate_http::escape::{Escape, escape_uri};
use tidegate_net::log::Level;

use crate::{
    pass::{self, Servers},
    upstream::{self, GroupSlot},
};

const HTTP: &[u8] = b"http://";
const HTTPS: &[u8] = b"https://";

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
    /// As it stands ahead of a server.
    pub(super) fn text(self) -> &'static [u8] {
        match self {
            Scheme::Http => HTTP,
            Scheme::Https => HTTPS,
        }
    }
}

/// A `proxy_pass`.
#[derive(Debug, Clone)]
pub(super) enum Pass {
    /// Known when the configuration is loaded.
    Fixed(Arc<Fixed>),
    /// The whole URL is made for each request.
    Variable(Template),
}

/// A `proxy_pass` without variables.
#[derive(Debug)]
pub(super) struct Fixed {
    slot: GroupSlot,
    scheme: Scheme,
    /// The server without its port.
    host: BString,
    /// As written, with `http://`.
    pub(super) url: BString,
    /// What takes the place of the location's path; empty to leave it.
    pub(super) uri: BString,
    /// The location's path.
    pub(super) location: BString,
    names: Names,
}

/// How a server is called in `Host` and in variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// `$proxy_host`: host, and the port where it is not the usual one.
    pub(super) host: BString,
    /// `$proxy_port`
    pub(super) port: BString,
}

impl Names {
    fn of(url: &Url, scheme: Scheme) -> Self {
        if url.kind == HostKind::Unix {
            return Names { host: "localhost".into(), port: BString::default() };
        }
        let port = url.port.unwrap_or(scheme.port());
        let host = match url.port {
            Some(port) if port == scheme.port() => {
                url.text.rsplit_once_str(":").map_or(&url.text[..], |(host, _)| host).into()
            }
            _ => url.text.clone(),
        };
        Names { host, port: port.to_string().into() }
    }
}

/// The server and URI that one request is sent to.
pub(super) struct Target {
    pub(super) servers: Servers,
    pub(super) scheme: Scheme,
    /// The server without its port.
    pub(super) host: BString,
    /// With variables in the URL: names and path that they gave.
    pub(super) variable: Option<(Names, BString)>,
}

fn emerg(span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, span, message)
}

/// Reads the directive's argument.
pub(super) fn parse(arg: &ast::Arg, build: &mut Build<'_>) -> Result<Pass, Diagnostic> {
    let template = build.template(arg)?;
    let Some(text) = template.as_literal() else { return Ok(Pass::Variable(template)) };
    let (scheme, server) = split_scheme(text).map_err(|message| emerg(arg.span, message))?;
    let url = Url::parse(server.as_bstr(), true)
        .map_err(|error| emerg(arg.span, format!("{error} in upstream \"{}\"", BStr::new(server))))?;
    let plain = is_plain_location(build);
    if !plain && !url.uri.is_empty() {
        return Err(emerg(
            arg.span,
            "\"proxy_pass\" cannot have URI part in location given by regular expression, or inside named location, \
             or inside \"if\" statement, or inside \"limit_except\" block",
        ));
    }
    let location = if plain { build.name_of(build.level()).to_owned() } else { BString::default() };
    Ok(Pass::Fixed(Arc::new(Fixed {
        names: Names::of(&url, scheme),
        scheme,
        host: url.host.clone(),
        uri: url.uri.clone(),
        url: arg.value.clone(),
        location,
        slot: upstream::require(build, url, Some(scheme.port()), arg.span),
    })))
}

fn split_scheme(url: &[u8]) -> Result<(Scheme, &[u8]), &'static str> {
    for scheme in [Scheme::Http, Scheme::Https] {
        if let Some((start, server)) = url.split_at_checked(scheme.text().len())
            && start.eq_ignore_ascii_case(scheme.text())
        {
            return Ok((scheme, server));
        }
    }
    Err("invalid URL prefix")
}

/// Whether the current level is a location that is given by a path.
fn is_plain_location(build: &Build<'_>) -> bool {
    let level = build.level();
    if build.kind() != Context::LOCATION {
        return false;
    }
    let siblings = build.parent_of(level).map_or(&[][..], |parent| build.locations_of(parent));
    let kind = siblings.iter().find(|draft| draft.level == level).map(|draft| &draft.kind);
    matches!(kind, Some(Match::Exact | Match::Prefix | Match::PrefixFinal))
}

impl Pass {
    /// Finds out where a request goes.
    ///
    /// # Errors
    /// The URL of the variables cannot be used; the log has the reason.
    pub(super) fn target(&self, req: &Rc<Request>) -> Result<Target, Step> {
        match self {
            Pass::Fixed(fixed) => Ok(Target {
                servers: Servers::Known(pass::required(&fixed.slot)?),
                scheme: fixed.scheme,
                host: fixed.host.clone(),
                variable: None,
            }),
            Pass::Variable(template) => variable_target(req, &template.eval(req)),
        }
    }

    /// Whether requests may need TLS.
    pub(super) fn may_need_tls(&self) -> bool {
        match self {
            Pass::Fixed(fixed) => fixed.scheme == Scheme::Https,
            Pass::Variable(_) => true,
        }
    }

    /// `$proxy_host` and `$proxy_port`, where they are known without a request.
    pub(super) fn names(&self) -> Option<&Names> {
        match self {
            Pass::Fixed(fixed) => Some(&fixed.names),
            Pass::Variable(_) => None,
        }
    }
}

fn variable_target(req: &Rc<Request>, url: &[u8]) -> Result<Target, Step> {
    let fail = |message: std::fmt::Arguments<'_>| {
        req.log(Level::Error, message);
        Err(Step::Status(500))
    };
    let (scheme, server) = match split_scheme(url) {
        Ok(split) => split,
        Err(message) => return fail(format_args!("{message} in \"{}\"", BStr::new(url))),
    };
    let parsed = match Url::parse(server.as_bstr(), true) {
        Ok(parsed) => parsed,
        Err(error) => return fail(format_args!("{error} in upstream \"{}\"", BStr::new(server))),
    };
    let mut uri = parsed.uri.clone();
    if uri.starts_with(b"?") {
        uri.insert(0, b'/');
    }
    let names = Names::of(&parsed, scheme);
    let host = parsed.host.clone();
    Ok(Target { servers: Servers::of(req, parsed, Some(scheme.port())), scheme, host, variable: Some((names, uri)) })
}

/// Appends path and arguments for the server.
///
/// A path in `proxy_pass` takes the place of the location's; without one, the target goes on as the client sent it,
/// unless it was rewritten.
pub(super) fn write_uri(pass: &Pass, target: &Target, req: &Request, out: &mut Vec<u8>) {
    let (replacement, location_bytes): (&[u8], usize) = match (pass, &target.variable) {
        (_, Some((_, uri))) if !uri.is_empty() => return out.extend_from_slice(uri),
        (Pass::Fixed(fixed), _) => (&fixed.uri, fixed.location.len()),
        (Pass::Variable(_), _) => (b"", 0),
    };
    let flags = req.flags();
    let uri = req.uri.borrow();
    // A sub-request has no target of a client's, but for one that repeats its parent.
    if replacement.is_empty() && !flags.uri_rewritten.get() && !uri.unparsed.is_empty() {
        return out.extend_from_slice(&uri.unparsed);
    }
    // After `rewrite … break` the path no longer begins with the location's, and goes on as it is.
    let rest = if replacement.is_empty() || flags.alias_blocked.get() {
        &uri.path[..]
    } else {
        out.extend_from_slice(replacement);
        uri.path.get(location_bytes..).unwrap_or_default()
    };
    if flags.internal.get() || req.head.borrow().quoted() {
        escape_uri(rest, Escape::Uri, out);
    } else {
        out.extend_from_slice(rest);
    }
    if !uri.args.is_empty() {
        out.push(b'?');
        out.extend_from_slice(&uri.args);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_leave_the_usual_port_out() {
        #[track_caller]
        fn check(url: &str, host: &str, port: &str) {
            let (scheme, server) = split_scheme(url.as_bytes()).expect("a scheme");
            let names = Names::of(&Url::parse(server.into(), true).expect("parses"), scheme);
            assert_eq!((names.host, names.port), (host.into(), port.into()), "{url}");
        }
        check("http://example.com", "example.com", "80");
        check("http://example.com:80/x", "example.com", "80");
        check("http://example.com:81/x", "example.com:81", "81");
        check("http://[::1]:80", "[::1]", "80");
        check("https://example.com:443/x", "example.com", "443");
        check("https://example.com:80", "example.com:80", "80");
        check("https://example.com", "example.com", "443");
        check("http://unix:/a:/x", "localhost", "");
    }
}
