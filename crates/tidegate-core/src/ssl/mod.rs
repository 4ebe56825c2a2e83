//! TLS for clients: certificates, protocols, what clients have to show, and what a request can tell of its connection.
//!
//! The stream itself is [`tidegate_net::tls`]; the handshake is a part of [`crate::http1`]. In reading order: `settings` (from
//! directives to what a handshake needs), `configs`, [`commands`], [`files`], `kept` (certificates that a reload need not read), `keys`, `dynamic` (certificates with variables), `status` (what responders tell of certificates), [`script`] (code that decides in
//! handshakes), `client` (whether a request is served), `variables`.
//!
//! Source: nginx, `ngx_http_ssl_module`.

pub(crate) mod client;
pub mod commands;
mod configs;
pub(crate) mod dynamic;
pub mod failure;
pub mod files;
mod kept;
pub mod key_log;
mod keys;
pub mod script;
mod settings;
mod status;
mod variables;

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bstr::BString;
use rustls::{ServerConfig, server::danger::ClientCertVerifier};
use tidegate_conf::{Diagnostic, Level as Severity, Span, ast, values};
use tidegate_ocsp::{Inquiry, Responder, Staple, inquiry::Reach};
use tidegate_tls::{
    client::Secrets,
    managed::Managed,
    server::ClientRules,
    versions::{Version, Versions, WORDS},
};

use self::{
    commands::Commands,
    configs::Configs,
    dynamic::{CacheRules, Dynamic},
    files::Located,
    script::Scripts,
    settings::SiteTls,
    status::Placed,
};
use crate::{
    conf::Build,
    inherit,
    main_conf::duplicate,
    module::{Context, Directive, Module},
    template::Template,
};

/// What a handshake with a server needs.
#[derive(Debug)]
pub struct ServerTls {
    /// Without certificates, if these have variables.
    configs: Configs,
    /// The same for addresses that speak HTTP/2, where there are such and the server does not by itself.
    http2_configs: Option<Configs>,
    /// Certificates with variables.
    pub(crate) dynamic: Option<Arc<Dynamic>>,
    /// By what the certificates of clients are verified, where they are asked for.
    pub(crate) client: Option<ClientRules>,
    /// Where its sessions may be resumed.
    pub(crate) context: tidegate_tls::bound::Context,
    /// Its sessions before they are bound to that.
    pub(crate) unbound: tidegate_tls::bound::Unbound,
    /// How the status of clients' certificates is asked for, where it is.
    pub(crate) inquiry: Option<Inquiry>,
    /// The status of our certificates, as far as it is looked after.
    staples: Vec<Arc<Staple>>,
    /// No handshake is done.
    pub(crate) rejects: bool,
    /// Versions of TLS.
    versions: Versions,
    /// How clients are asked for certificates.
    verifier: Arc<dyn ClientCertVerifier>,
    /// Code that runs in handshakes.
    pub(crate) scripts: Scripts,
}

impl ServerTls {
    /// The settings at an address that speaks HTTP/2 (`listens_http2`), or does if the server does, for a client that offers a session
    /// (`offers_session`), or none.
    pub(crate) fn config_at(&self, listens_http2: bool, offers_session: bool) -> &Arc<ServerConfig> {
        let configs = self.http2_configs.as_ref().filter(|_| listens_http2).unwrap_or(&self.configs);
        if offers_session { &configs.returning } else { &configs.new }
    }
}

/// `ssl_verify_client`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum VerifyClient {
    Off,
    On,
    Optional,
    OptionalNoCa,
}

/// Where sessions are kept, besides tickets: `ssl_session_cache`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SessionCache {
    /// Nowhere.
    Off,
    /// In memory that servers with the same name share, of so many bytes.
    Shared(BString, usize),
    /// In memory of its own, for so many sessions.
    BuiltIn(usize),
    /// In memory that all servers with early data share which name none.
    Early,
}

/// The name of a file, or a text behind `data:`, perhaps with variables.
#[derive(Debug, Clone)]
pub struct Named {
    pub(crate) located: Located,
    pub(crate) template: Template,
}

impl Named {
    /// The first argument of a directive.
    ///
    /// # Errors
    /// It wants a key from elsewhere, or has bad variables.
    pub fn of(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        let arg = &directive.args[0];
        if arg.value.starts_with(b"engine:") || arg.value.starts_with(b"store:") {
            let message = format!("invalid value \"{}\" in \"{}\" directive", arg.value, directive.name.value);
            return Err(Diagnostic::new(Severity::Emerg, arg.span, message).with_hint("keys are read from files alone"));
        }
        Ok(Named { located: Located::of(directive), template: build.template(arg)? })
    }

    /// A name without variables.
    pub(crate) fn literal(located: Located) -> Self {
        let template = Template::literal(located.text.clone());
        Named { located, template }
    }

    pub(crate) fn has_variables(&self) -> bool {
        self.template.as_literal().is_none()
    }
}

/// What the directives say at one level.
#[derive(Debug, Default, Clone)]
pub struct Conf {
    certificates: Vec<Named>,
    keys: Vec<Named>,
    /// Where `ssl_certificate auto` stands.
    auto: Option<Span>,
    /// A certificate that comes by itself, with the name of what it depends on.
    managed: Option<(BString, Arc<Managed>)>,
    /// `None` inside for `off`.
    certificate_cache: Option<Option<CacheRules>>,
    password_file: Option<Located>,
    protocols: Option<Versions>,
    /// Place of the first version that is too old to be offered.
    old_protocol: Option<Span>,
    ciphers: Option<Located>,
    /// Suites of TLS 1.3, which only commands can name.
    suites: Option<Located>,
    ecdh_curve: Option<Located>,
    commands: Commands,
    prefer_server_ciphers: Option<bool>,
    session_cache: Option<SessionCache>,
    session_tickets: Option<bool>,
    session_ticket_keys: Vec<Located>,
    session_timeout: Option<Duration>,
    verify_client: Option<VerifyClient>,
    verify_depth: Option<u64>,
    client_certificate: Option<Located>,
    trusted_certificate: Option<Located>,
    crl: Option<Located>,
    key_log: Option<Secrets>,
    early_data: Option<Placed<bool>>,
    stapling: Option<Placed<bool>>,
    stapling_file: Option<Located>,
    stapling_responder: Option<Placed<Responder>>,
    stapling_verify: Option<bool>,
    ocsp: Option<Placed<Option<Reach>>>,
    ocsp_responder: Option<Placed<Responder>>,
    ocsp_cache: Option<status::CacheRules>,
    reject_handshake: Option<bool>,
    /// Code that runs in handshakes, which other modules have put here.
    pub scripts: Scripts,
    /// At the top level: what the servers of the configuration come to.
    site: OnceLock<SiteTls>,
    /// Directives that are here for the sake of packaged configurations, and where they stand.
    ignored: Vec<(BString, Span)>,
}

impl Conf {
    /// Where a certificate is wanted that comes by itself: `ssl_certificate auto`, or the variables of `acme_certificate`.
    pub fn wants_managed(&self) -> Option<Span> {
        self.auto.or_else(|| self.variables_of_acme().map(|at| self.certificates[at].located.span))
    }

    /// Whether `ssl_certificate auto` is said.
    pub fn is_auto(&self) -> bool {
        self.auto.is_some()
    }

    /// Whether a level says nothing of certificates, so that the outer one counts.
    pub fn says_nothing_of_certificates(&self) -> bool {
        self.auto.is_none() && self.certificates.is_empty()
    }

    /// Gives the certificate that [`wants_managed`](Self::wants_managed) asks for. `name` is that of no other.
    pub fn set_managed(&mut self, name: BString, managed: Arc<Managed>) {
        if let Some(at) = self.variables_of_acme() {
            // The variables need not be evaluated in each handshake.
            self.auto = Some(self.certificates.remove(at).located.span);
            self.keys.remove(at);
        }
        self.managed = Some((name, managed));
    }

    /// The place of the certificate and key that are the two variables of `acme_certificate` and nothing else.
    fn variables_of_acme(&self) -> Option<usize> {
        self.certificates.iter().zip(&self.keys).position(|(certificate, key)| {
            certificate.located.text == "$acme_certificate" && key.located.text == "$acme_certificate_key"
        })
    }

    /// Files with certificates that are read when the configuration loads.
    pub fn certificate_files(&self) -> impl Iterator<Item = &Located> {
        self.certificates.iter().filter(|named| !named.has_variables()).map(|named| &named.located)
    }

    /// The configuration with what its commands say in place of the directives.
    fn with_commands(&self) -> Cow<'_, Self> {
        if !self.commands.is_any() {
            return Cow::Borrowed(self);
        }
        let mut conf = self.clone();
        let Commands { versions, ciphers, suites, groups, certificate, key, tickets, server_preference, .. } =
            std::mem::take(&mut conf.commands);
        conf.protocols = versions.or(conf.protocols);
        conf.ciphers = ciphers.or(conf.ciphers);
        conf.suites = suites;
        conf.ecdh_curve = groups.or(conf.ecdh_curve);
        conf.session_tickets = tickets.or(conf.session_tickets);
        conf.prefer_server_ciphers = server_preference.or(conf.prefer_server_ciphers);
        if let Some(certificate) = certificate {
            conf.certificates = vec![Named::literal(certificate)];
        }
        if let Some(key) = key {
            conf.keys = vec![Named::literal(key)];
        }
        Cow::Owned(conf)
    }

    fn has_certificates(&self) -> bool {
        !self.certificates.is_empty() || self.managed.is_some()
    }
}

const PLACES: Context = Context::HTTP.or(Context::SERVER);

/// A setting that has no effect.
const fn ignored(name: &'static str, min: u16, max: u16, doc: &'static str) -> Directive<Conf> {
    Directive::custom(name, min, max, |conf: &mut Conf, directive, _| {
        conf.ignored.push((directive.name.value.clone(), directive.name.span));
        Ok(())
    })
    .within(PLACES)
    .doc(doc)
}

const VERIFY_WORDS: &[(&str, VerifyClient)] = &[
    ("off", VerifyClient::Off),
    ("on", VerifyClient::On),
    ("optional", VerifyClient::Optional),
    ("optional_no_ca", VerifyClient::OptionalNoCa),
];

/// A directive with one text that is looked at when everything is read.
const fn text(
    name: &'static str,
    syntax: &'static str,
    setter: crate::module::Custom<Conf>,
    doc: &'static str,
) -> Directive<Conf> {
    Directive::custom(name, 1, 1, setter).within(PLACES).syntax(syntax).doc(doc)
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        text(
            "ssl_certificate",
            "file",
            |conf, d, build| match &**d.args[0].value {
                b"auto" => once(&mut conf.auto, d.args[0].span, d),
                _ => file(&mut conf.certificates, d, build),
            },
            "PEM file, or a text behind data:, perhaps with variables, with the server's certificate and those that lead to its authority; once for each type of key. With auto it comes by itself (acme_certificate) and needs no key.",
        )
        .syntax("file | auto"),
        text(
            "ssl_certificate_key",
            "file",
            |conf, d, build| file(&mut conf.keys, d, build),
            "PEM file, or a text behind data:, with the key of the ssl_certificate at the same place in the list of those.",
        ),
        Directive::custom("ssl_certificate_cache", 1, 3, |conf: &mut Conf, d, _| {
            once(&mut conf.certificate_cache, CacheRules::of(d)?, d)
        })
            .within(PLACES)
            .syntax("off | max=N [inactive=time] [valid=time]")
            .default("off")
            .doc("Certificates whose names have variables are kept, instead of being read for each handshake."),
        text(
            "ssl_password_file",
            "file",
            |conf, d, _| once(&mut conf.password_file, Located::of(d), d),
            "Passwords that are tried on encrypted keys, one in each line.",
        ),
        Directive::custom("ssl_protocols", 1, 9, protocols)
            .within(PLACES)
            .syntax("[SSLv2] [SSLv3] [TLSv1] [TLSv1.1] [TLSv1.2] [TLSv1.3]")
            .default("TLSv1.2 TLSv1.3")
            .doc("Versions of TLS that clients may use; those before 1.2 are not offered."),
        text(
            "ssl_ciphers",
            "ciphers",
            |conf, d, _| once(&mut conf.ciphers, Located::of(d), d),
            "Cipher suites of TLS 1.2, in OpenSSL's words; -t names those that are not offered.",
        )
        .default("HIGH:!aNULL:!MD5"),
        text(
            "ssl_ecdh_curve",
            "curve",
            |conf, d, _| once(&mut conf.ecdh_curve, Located::of(d), d),
            "Groups of the key exchange, in OpenSSL's words, the preferred one first; -t names those that are not offered.",
        )
        .default("auto"),
        Directive::flag("ssl_prefer_server_ciphers", |c: &mut Conf| &mut c.prefer_server_ciphers)
            .within(PLACES)
            .default("off")
            .doc("The server's order of cipher suites counts, not the client's."),
        Directive::custom("ssl_session_cache", 1, 2, session_cache)
            .within(PLACES)
            .syntax("off | none | [builtin[:size]] [shared:name:size]")
            .default("none")
            .doc("Sessions of clients without tickets are kept here; all workers share them."),
        Directive::flag("ssl_session_tickets", |c: &mut Conf| &mut c.session_tickets)
            .within(PLACES)
            .default("on")
            .doc("Sessions are resumed by tickets, whose keys all workers share and exchange by themselves."),
        text(
            "ssl_session_ticket_key",
            "file",
            |conf, d, _| {
                conf.session_ticket_keys.push(Located::of(d));
                Ok(())
            },
            "File of 48 or 80 bytes with a key for tickets, for several machines to share; the first makes tickets, all open them.",
        ),
        Directive::time("ssl_session_timeout", |c: &mut Conf| &mut c.session_timeout)
            .within(PLACES)
            .default("5m")
            .doc("Longest time after which a client can resume a session by a ticket."),
        Directive::custom("ssl_verify_client", 1, 1, |conf: &mut Conf, d, _| {
            let arg = &d.args[0];
            let mode = values::word(bstr::ByteSlice::as_bstr(&**arg.value), VERIFY_WORDS).map_err(|_| {
                Diagnostic::unknown_value(&arg.value, arg.span, VERIFY_WORDS.iter().map(|(word, _)| *word))
            })?;
            once(&mut conf.verify_client, mode, d)
        })
        .within(PLACES)
        .syntax("on | off | optional | optional_no_ca")
        .default("off")
        .doc("Clients have to show a certificate, or may; 496 answers those that have none, 495 those whose is not accepted."),
        Directive::number("ssl_verify_depth", |c: &mut Conf| &mut c.verify_depth)
            .within(PLACES)
            .default("1")
            .doc("Certificates that may stand between a client's and a trusted one."),
        text(
            "ssl_client_certificate",
            "file",
            |conf, d, _| once(&mut conf.client_certificate, Located::of(d), d),
            "PEM file with the authorities that clients' certificates have to come from; clients are told their names.",
        ),
        text(
            "ssl_trusted_certificate",
            "file",
            |conf, d, _| once(&mut conf.trusted_certificate, Located::of(d), d),
            "PEM file with further authorities, whose names clients are not told.",
        ),
        text(
            "ssl_crl",
            "file",
            |conf, d, _| once(&mut conf.crl, Located::of(d), d),
            "PEM file with lists of revoked certificates of clients.",
        ),
        Directive::flag("ssl_reject_handshake", |c: &mut Conf| &mut c.reject_handshake)
            .within(PLACES)
            .default("off")
            .doc("Handshakes for this server's names are refused."),
        Directive::custom("ssl_early_data", 1, 1, |conf: &mut Conf, d, _| once(&mut conf.early_data, flag(d)?, d))
            .within(PLACES)
            .syntax("on | off")
            .default("off")
            .doc("Clients that come again may send a request ahead of the end of their handshake (TLS 1.3); sessions are then kept in memory, and each is resumed once."),
        Directive::custom("ssl_stapling", 1, 1, |conf: &mut Conf, d, _| once(&mut conf.stapling, flag(d)?, d))
        .within(PLACES)
        .syntax("on | off")
        .default("off")
        .doc("Clients that ask for it are shown the status of the server's certificate, which is fetched in the background (OCSP)."),
        text(
            "ssl_stapling_file",
            "file",
            |conf, d, _| once(&mut conf.stapling_file, Located::of(d), d),
            "File with the OCSP response in DER that ssl_stapling shows, instead of one that is fetched.",
        ),
        text(
            "ssl_stapling_responder",
            "url",
            |conf, d, _| once(&mut conf.stapling_responder, (status::responder(d)?, d.args[0].span), d),
            "Address of the responder that ssl_stapling asks, instead of the one that the certificate names.",
        ),
        Directive::flag("ssl_stapling_verify", |c: &mut Conf| &mut c.stapling_verify)
            .within(PLACES)
            .default("off")
            .doc("Responses that are fetched have to be signed by the certificate's issuer, or by whom it has charged with that."),
        Directive::custom("ssl_ocsp", 1, 1, |conf: &mut Conf, d, _| {
            let arg = &d.args[0];
            let reach = values::word(bstr::ByteSlice::as_bstr(&**arg.value), status::REACH_WORDS).map_err(|_| {
                Diagnostic::unknown_value(&arg.value, arg.span, status::REACH_WORDS.iter().map(|(word, _)| *word))
            })?;
            once(&mut conf.ocsp, (reach, d.name.span), d)
        })
        .within(PLACES)
        .syntax("on | off | leaf")
        .default("off")
        .doc("Clients' certificates have to be good by their responders' word (OCSP): all of the chain, or the client's own."),
        text(
            "ssl_ocsp_responder",
            "url",
            |conf, d, _| once(&mut conf.ocsp_responder, (status::responder(d)?, d.args[0].span), d),
            "Address of the responder that ssl_ocsp asks, instead of those that the certificates name.",
        ),
        text(
            "ssl_ocsp_cache",
            "off | shared:name:size",
            |conf, d, _| once(&mut conf.ocsp_cache, status::cache(d)?, d),
            "What responders have said of clients' certificates is kept here; all workers share it.",
        )
        .default("off"),
        text(
            "ssl_key_log",
            "path",
            |conf, d, build| once(&mut conf.key_log, key_log::open(bstr::ByteSlice::as_bstr(&**d.args[0].value), build), d),
            "Secrets of connections go to this file, for who looks into captured packets.",
        ),
        ignored("ssl_buffer_size", 1, 1, "Accepted without effect, with a warning: records have up to 16 KB.")
            .syntax("size"),
        Directive::custom("ssl_conf_command", 2, 2, |conf: &mut Conf, d, build| conf.commands.take(d, build))
            .within(PLACES)
            .syntax("name value")
            .doc("A command of OpenSSL's configuration: Protocol, MinProtocol, MaxProtocol, CipherString, Ciphersuites, Groups, Certificate, PrivateKey, Options SessionTicket and ServerPreference; -t names others."),
        ignored("ssl_dhparam", 1, 1, "Accepted without effect, with a warning: keys are exchanged by elliptic curves alone.")
            .syntax("file"),
    ],
    variables: variables::VARIABLES,
    inherit: |child, parent, _| {
        inherit!(child, parent; certificate_cache, password_file, protocols, old_protocol, ciphers, ecdh_curve, prefer_server_ciphers,
            session_cache, session_tickets, session_timeout, verify_client, verify_depth, client_certificate,
            trusted_certificate, crl, key_log, early_data, stapling, stapling_file, stapling_responder, stapling_verify, ocsp, ocsp_responder, ocsp_cache,
            reject_handshake);
        if child.says_nothing_of_certificates() {
            // What comes by itself is that of the server's own names.
            child.certificates.clone_from(&parent.certificates);
            child.auto = parent.auto;
        }
        if child.keys.is_empty() {
            child.keys.clone_from(&parent.keys);
        }
        if child.session_ticket_keys.is_empty() {
            child.session_ticket_keys.clone_from(&parent.session_ticket_keys);
        }
        child.scripts.inherit(&parent.scripts);
        child.commands.inherit(&parent.commands);
        let own: Vec<_> = child.ignored.iter().map(|(name, _)| name.clone()).collect();
        child.ignored.extend(parent.ignored.iter().filter(|(name, _)| !own.contains(name)).cloned());
    },
    check: Some(|conf, checked, diagnostics| {
        if checked.level.parent.is_none() {
            let _ = conf.site.set(settings::load(checked.config, diagnostics));
        }
    }),
    init_worker: Some(|_| status::keep_staples()),
    example: "
        ssl_protocols TLSv1.2 TLSv1.3;
    ",
    ..Module::named("ssl")
};

/// Takes a value, once.
fn once<T>(field: &mut Option<T>, value: T, directive: &ast::Directive) -> Result<(), Diagnostic> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(duplicate(directive)),
    }
}

/// `on` or `off`, and where the directive stands.
fn flag(directive: &ast::Directive) -> Result<Placed<bool>, Diagnostic> {
    let arg = &directive.args[0];
    let is_on = values::flag(bstr::ByteSlice::as_bstr(&**arg.value))
        .map_err(|_| Diagnostic::unknown_value(&arg.value, arg.span, ["on", "off"]))?;
    Ok((is_on, directive.name.span))
}

fn file(list: &mut Vec<Named>, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    list.push(Named::of(directive, build)?);
    Ok(())
}

fn protocols(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let mut versions = Versions::NONE;
    let mut old = None;
    for arg in &directive.args {
        match values::word(bstr::ByteSlice::as_bstr(&**arg.value), WORDS) {
            Ok(Version::Old) => old = old.or(Some(arg.span)),
            Ok(version) => versions.add(version),
            Err(_) => return Err(Diagnostic::unknown_value(&arg.value, arg.span, ["TLSv1.2", "TLSv1.3"])),
        }
    }
    if let (Versions::NONE, Some(span)) = (versions, old) {
        let message = "\"ssl_protocols\" names no version that is safe: those before TLSv1.2 are not offered";
        let hint = "TLS 1.0 and 1.1 must not be used any more (RFC 8996): say \"ssl_protocols TLSv1.2 TLSv1.3\"";
        return Err(Diagnostic::new(Severity::Emerg, span, message).with_hint(hint));
    }
    conf.old_protocol = old;
    once(&mut conf.protocols, versions, directive)
}

/// Sessions in a cache of which only the kind is given.
///
/// Source: OpenSSL, `SSL_SESSION_CACHE_MAX_SIZE_DEFAULT`.
const SESSIONS_DEFAULT: usize = 20_480;

/// Bytes that a session may have on average where only their number is given: one with a client's certificate is as large as that.
const SESSION_BYTES: usize = 1024;

fn session_cache(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let mut cache = SessionCache::Off;
    for arg in &directive.args {
        let invalid = || {
            let message = format!("invalid session cache \"{}\"", arg.value);
            Diagnostic::new(Severity::Emerg, arg.span, message)
        };
        let words: Vec<&[u8]> = bstr::ByteSlice::split_str(&**arg.value, b":").collect();
        let number = |text: &[u8]| values::integer(text.into()).ok().and_then(|count| usize::try_from(count).ok());
        match words[..] {
            [b"off" | b"none"] => {}
            // Memory that is shared serves all.
            [b"builtin", ..] if matches!(cache, SessionCache::Shared(..)) => {}
            [b"builtin"] => cache = SessionCache::BuiltIn(SESSIONS_DEFAULT),
            [b"builtin", count] => cache = SessionCache::BuiltIn(number(count).ok_or_else(invalid)?),
            [b"shared", name, size] if !name.is_empty() => {
                let bytes = values::size(size.into()).map_err(|_| invalid())?;
                if bytes < 8 * 4096 {
                    let message = format!("session cache \"{}\" is too small", arg.value);
                    return Err(Diagnostic::new(Severity::Emerg, arg.span, message));
                }
                cache = SessionCache::Shared(name.into(), usize::try_from(bytes).unwrap_or(usize::MAX));
            }
            _ => return Err(invalid()),
        }
    }
    once(&mut conf.session_cache, cache, directive)
}
