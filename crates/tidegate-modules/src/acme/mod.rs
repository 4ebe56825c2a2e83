//! `acme`: certificates that come and are renewed by themselves.
//!
//! What the directives ask for becomes an [`Order`] when the configuration has been read; the first worker hands the orders to
//! the thread that looks after them. Handshakes and requests only look at what that thread has put down.
//!
//! Follows nginx's `ngx_http_acme_module`. `ssl_certificate auto` is ours.

mod issuer;

use std::{net::IpAddr, sync::Arc};

use bstr::{BStr, BString, ByteSlice};
use tidegate_acme::{
    Issuer, KeyType, Order, http_challenge,
    issuer::{Challenge, Settings},
};
use tidegate_conf::{Diagnostic, Level as Severity, Span, ast, values};
use tidegate_core::{
    conf::{Build, LevelId},
    inherit,
    main_conf::duplicate,
    module::{Context, Directive, Module},
    phase::{Outcome, Phase, Ready, Step},
    request::Request,
    resolver, ssl,
    variable::VariableDef,
};
use tidegate_net::log::SysError;

pub use self::issuer::BLOCK;

/// The authority of `ssl_certificate auto` in a configuration that names none: Let's Encrypt, whose directory RFC 8555 calls
/// its URL. Its terms of service are part of what the documentation of `auto` says.
const AUTO_URI: &str = "https://acme-v02.api.letsencrypt.org/directory";
const AUTO_NAME: &str = "letsencrypt";

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// At the `http` level: the levels of all `acme_issuer` blocks, by name.
    issuers: Vec<(BString, LevelId)>,
    /// `acme_certificate`
    certificate: Option<Certificate>,
    /// What this server's certificate is.
    order: Option<Arc<Order>>,
    /// At the `http` level: all orders.
    orders: Vec<Arc<Order>>,
    /// Requests may come from an authority.
    answers: Option<bool>,
}

/// An `acme_certificate`.
#[derive(Debug, Clone)]
struct Certificate {
    issuer: BString,
    span: Span,
    /// Without any, those of `server_name`.
    names: Vec<String>,
    key_type: KeyType,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::block("acme_issuer", 1, 1, issuer::open)
            .within(Context::HTTP)
            .syntax("name")
            .doc("An authority from which certificates come by themselves (RFC 8555)."),
        Directive::custom("acme_certificate", 1, u16::MAX, certificate)
            .within(Context::SERVER)
            .syntax("issuer [identifier ...] [key=ecdsa:256|ecdsa:384|rsa:2048|rsa:3072|rsa:4096]")
            .doc("The server has a certificate of this issuer for these names or addresses, or for those of server_name; $acme_certificate names it."),
        Directive::custom("acme_shared_zone", 1, 1, shared_zone)
            .within(Context::HTTP)
            .syntax("zone=name:size")
            .default("zone=ngx_acme_shared:256k")
            .doc("Accepted for nginx's configurations: workers share certificates without a zone, and there is no limit to them."),
    ],
    variables: &[
        VariableDef::new(
            "acme_certificate",
            |req, _, out| put(req, out, |order| order.managed().current().chain.clone()),
            "Certificate of acme_certificate, for ssl_certificate.",
        ),
        VariableDef::new(
            "acme_certificate_key",
            |req, _, out| put(req, out, |order| order.managed().current().key.clone()),
            "Key of acme_certificate, for ssl_certificate_key.",
        ),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; order, answers);
    },
    finish: Some(finish),
    install: |conf, program| {
        if conf.answers == Some(true) {
            program.on_first(Phase::PostRead, answer);
        }
    },
    init_worker: Some(|conf| {
        let kept = tidegate_acme::keep(&conf.orders);
        kept.map_err(|error| format!("cannot start the thread for certificates {}", SysError(&error)))
    }),
    example: "
        acme_issuer example {
            uri https://acme.example.com/directory;
            contact admin@example.com;
            accept_terms_of_service;
        }
        server {
            listen 8443 ssl;
            server_name example.com www.example.com;
            acme_certificate example;
            ssl_certificate $acme_certificate;
            ssl_certificate_key $acme_certificate_key;
        }
    ",
    ..Module::named("acme")
};

impl Conf {
    /// At the `http` level: all certificates that come by themselves.
    pub fn orders(&self) -> &[Arc<Order>] {
        &self.orders
    }
}

fn emerg(span: Span, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, span, message)
}

fn put(req: &Request, out: &mut Vec<u8>, text: impl FnOnce(&Order) -> String) -> bool {
    let Some(order) = &req.module_conf(&MODULE).order else { return false };
    out.extend_from_slice(b"data:");
    out.extend_from_slice(text(order).as_bytes());
    true
}

/// Answers an authority. Whatever else a server does with its requests, this comes first.
fn answer(req: &std::rc::Rc<Request>) -> Outcome {
    if req.is_subrequest() {
        return Ready::Now(Step::Declined);
    }
    let Some(authorization) = http_challenge::find(&req.uri.borrow().path) else { return Ready::Now(Step::Declined) };
    req.response.borrow_mut().content_type = b"application/octet-stream".to_vec();
    req.send_complete(200, authorization.into()).map(|sent| match sent {
        Ok(()) => Step::Done,
        Err(_) => Step::Close,
    })
}

/// `acme_certificate`
fn certificate(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let issuer = &directive.args[0];
    let mut made =
        Certificate { issuer: issuer.value.clone(), span: issuer.span, names: Vec::new(), key_type: KeyType::P256 };
    for arg in &directive.args[1..] {
        if let Some(kind) = arg.value.strip_prefix(b"key=") {
            made.key_type = key_type(kind.as_bstr(), arg)?;
            continue;
        }
        match identifier(arg.value.as_bstr()) {
            Some(name) if !made.names.contains(&name) => made.names.push(name),
            Some(_) => {}
            None => return Err(emerg(arg.span, format!("invalid identifier \"{}\"", arg.value)).with_hint(NO_PATTERNS)),
        }
    }
    match conf.certificate.replace(made) {
        None => Ok(()),
        Some(_) => Err(duplicate(directive)),
    }
}

const NO_PATTERNS: &str = "certificates are for names and addresses, not for patterns of them";

fn key_type(kind: &BStr, arg: &ast::Arg) -> Result<KeyType, Diagnostic> {
    match &**kind {
        b"ecdsa" => Ok(KeyType::P256),
        b"rsa" => Ok(KeyType::Rsa2048),
        b"ecdsa:521" => Err(emerg(arg.span, format!("keys of type \"{kind}\" cannot be made"))
            .with_hint("say ecdsa:256 or ecdsa:384, which all clients of TLS 1.2 know")),
        _ => (KeyType::ALL.into_iter().find(|known| known.name() == kind))
            .ok_or_else(|| emerg(arg.span, format!("invalid key type \"{kind}\""))),
    }
}

/// A name or address that a certificate can be for.
fn identifier(text: &BStr) -> Option<String> {
    let text = text.to_str().ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let label = |label: &str| {
        !label.is_empty() && label.len() <= 63 && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    (text.len() <= 253 && text.split('.').all(label)).then(|| text.to_ascii_lowercase())
}

/// Source: nginx, "acme_shared_zone".
fn shared_zone(_: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let invalid = || Diagnostic::invalid_parameter(&arg.value, arg.span, ["zone="]);
    let zone = arg.value.strip_prefix(b"zone=").ok_or_else(invalid)?;
    let (name, size) = zone.split_once_str(b":").ok_or_else(invalid)?;
    if name.is_empty() || values::size(size.into()).is_err() {
        return Err(emerg(arg.span, format!("invalid zone size \"{}\"", zone.as_bstr())));
    }
    Ok(())
}

/// Makes the orders of all servers.
fn finish(conf: &mut Conf, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let Some(http) = build.http_level() else { return Ok(()) };
    for server in 0..build.server_levels().len() {
        let level = build.server_levels()[server];
        let certificate = build.conf_at(&MODULE, level).and_then(|conf| conf.certificate.clone());
        let wanted = wanted_at(build, level, http);
        let certificate = match (certificate, wanted) {
            (Some(certificate), _) => certificate,
            (None, Some(span)) if is_auto(build, level, http) => {
                let issuer = conf.issuers.first().map_or_else(|| AUTO_NAME.into(), |(name, _)| name.clone());
                Certificate { issuer, span, names: Vec::new(), key_type: KeyType::P256 }
            }
            (None, Some(span)) => {
                return Err(emerg(span, "\"$acme_certificate\" without \"acme_certificate\" in its server".to_owned()));
            }
            (None, None) => continue,
        };
        let order = order(conf, build, &certificate, server)?;
        if wanted.is_some() {
            let name = format!("{} {:?} {order}", order.issuer().settings().name, order.key_type());
            build.conf_mut(&ssl::MODULE, level).set_managed(name.into(), order.managed().clone());
        }
        if order.issuer().settings().challenge == Challenge::Http01 {
            conf.answers = Some(true);
        }
        build.conf_mut(&MODULE, level).order = Some(order.clone());
        if !conf.orders.iter().any(|known| Arc::ptr_eq(known, &order)) {
            conf.orders.push(order);
        }
    }
    Ok(())
}

/// The level whose words about certificates count for a server.
fn level_of_words(build: &Build<'_>, server: LevelId, http: LevelId) -> LevelId {
    match build.conf_at(&ssl::MODULE, server) {
        Some(conf) if !conf.says_nothing_of_certificates() => server,
        _ => http,
    }
}

/// Where a server, or the level around it, wants a certificate that comes by itself.
fn wanted_at(build: &Build<'_>, server: LevelId, http: LevelId) -> Option<Span> {
    build.conf_at(&ssl::MODULE, level_of_words(build, server, http))?.wants_managed()
}

fn is_auto(build: &Build<'_>, server: LevelId, http: LevelId) -> bool {
    build.conf_at(&ssl::MODULE, level_of_words(build, server, http)).is_some_and(ssl::Conf::is_auto)
}

fn order(conf: &Conf, build: &mut Build<'_>, wanted: &Certificate, server: usize) -> Result<Arc<Order>, Diagnostic> {
    let issuer = match conf.issuers.iter().find(|(name, _)| *name == wanted.issuer) {
        Some((name, level)) => issuer::made(build, name, *level)?,
        None if wanted.issuer == AUTO_NAME && conf.issuers.is_empty() => auto_issuer(build),
        None => return Err(emerg(wanted.span, format!("unknown acme issuer \"{}\"", wanted.issuer))),
    };
    let names = if wanted.names.is_empty() { server_names(build, server) } else { wanted.names.clone() };
    if names.is_empty() {
        let message = "no name for the certificate".to_owned();
        return Err(emerg(wanted.span, message).with_hint("give the server a \"server_name\" that is no pattern"));
    }
    Order::shared(&issuer, &names, wanted.key_type)
        .map_err(|error| emerg(wanted.span, format!("a certificate cannot be made: {error}")))
}

/// Those names of a server that a certificate can be for.
fn server_names(build: &mut Build<'_>, server: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut patterns = Vec::new();
    for (name, span) in &build.server_names[server] {
        // A dot ahead stands for the name itself and all below it.
        let whole = name.strip_prefix(b".").unwrap_or(name);
        match identifier(whole.as_bstr()) {
            Some(_) if name.is_empty() => {}
            Some(found) if !names.contains(&found) => names.push(found),
            Some(_) => {}
            None if name.is_empty() || *name == "_" => {}
            None => patterns.push((name.clone(), *span)),
        }
    }
    for (name, span) in patterns {
        build.diagnostics.warn(span, format!("\"{name}\" is a pattern: the certificate is not for it"));
    }
    names
}

/// The issuer of `ssl_certificate auto` where the configuration has none.
fn auto_issuer(build: &mut Build<'_>) -> Arc<Issuer> {
    let state = format!("acme_{AUTO_NAME}");
    build.data_path(state.as_bytes());
    let (resolver, resolver_timeout) = resolver_of(build);
    Issuer::shared(Settings {
        name: AUTO_NAME.to_owned(),
        uri: AUTO_URI.to_owned(),
        account_key: None,
        // There is a port for TLS wherever a certificate is wanted.
        challenge: Challenge::TlsAlpn01,
        contacts: Vec::new(),
        external_account: None,
        profile: None,
        trusted: None,
        verify: true,
        state_path: Some(build.full_path(state.as_bytes().as_bstr())),
        accepts_terms: true,
        resolver,
        resolver_timeout,
    })
}

/// `resolver` and `resolver_timeout` of the `http` level.
fn resolver_of(build: &Build<'_>) -> (Option<Arc<tidegate_net::resolver::Resolver>>, std::time::Duration) {
    let conf = build.http_level().and_then(|level| build.conf_at(&resolver::MODULE, level));
    let timeout = conf.and_then(|conf| conf.resolver_timeout).unwrap_or(resolver::TIMEOUT_DEFAULT);
    (conf.and_then(|conf| conf.resolver.clone()), timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(identifier(text.into()).as_deref(), expected, "{text}");
    }

    #[test]
    fn certificates_are_for_names_and_addresses() {
        check("Example.COM", Some("example.com"));
        check("localhost", Some("localhost"));
        check("127.0.0.1", Some("127.0.0.1"));
        check("2001:DB8::1", Some("2001:db8::1"));
        for pattern in ["", "*.example.com", "example.*", "~^www", ".example.com", "_", "example.com.", "a b"] {
            check(pattern, None);
        }
        check(&format!("{}.test", "a".repeat(63)), Some(&format!("{}.test", "a".repeat(63))));
        check(&format!("{}.test", "a".repeat(64)), None);
    }
}
