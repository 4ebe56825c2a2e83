//! TLS for clients: certificates, protocols, and what a request can tell of its connection.
//!
//! The stream itself is [`tidegate_net::tls`]; the handshake is a part of [`crate::http1`].
//!
//! Source: nginx, `ngx_http_ssl_module`.

mod keys;
mod settings;
mod variables;

use bstr::BString;
pub(crate) use settings::load;
use tidegate_conf::{Diagnostic, Level as Severity, Span, ast};

use crate::{
    conf::Build,
    inherit,
    main_conf::duplicate,
    module::{Context, Directive, Module},
};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    certificates: Vec<(BString, Span)>,
    keys: Vec<(BString, Span)>,
    protocols: Option<Protocols>,
    session_tickets: Option<bool>,
    /// Directives that are here for the sake of packaged configurations, and where they stand.
    ignored: Vec<(BString, Span)>,
}

/// `ssl_protocols`
#[derive(Debug, Clone, Copy)]
struct Protocols {
    tls12: bool,
    tls13: bool,
    /// Place of the first one that is too old to be offered.
    old: Option<Span>,
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

const SUITES: &str = "Accepted without effect, with a warning: the suites and groups of rustls are offered.";
const SESSIONS: &str =
    "Accepted without effect, with a warning: sessions are resumed by tickets, for at most 12 hours.";

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("ssl_certificate", 1, 1, |conf: &mut Conf, directive, build| {
            file(&mut conf.certificates, directive, build)
        })
        .within(PLACES)
        .syntax("file")
        .doc("PEM file with the server's certificate and those that lead to its authority; once for each type of key."),
        Directive::custom("ssl_certificate_key", 1, 1, |conf: &mut Conf, directive, build| {
            file(&mut conf.keys, directive, build)
        })
        .within(PLACES)
        .syntax("file")
        .doc("PEM file with the key of the ssl_certificate at the same place in the list of those."),
        Directive::custom("ssl_protocols", 1, 9, protocols)
            .within(PLACES)
            .syntax("[SSLv2] [SSLv3] [TLSv1] [TLSv1.1] [TLSv1.2] [TLSv1.3]")
            .default("TLSv1.2 TLSv1.3")
            .doc("Versions of TLS that clients may use; those before 1.2 are not offered."),
        ignored("ssl_buffer_size", 1, 1, "Accepted without effect, with a warning: records have up to 16 KB.")
            .syntax("size"),
        ignored("ssl_ciphers", 1, 1, SUITES).syntax("ciphers"),
        ignored("ssl_conf_command", 2, 2, SUITES).syntax("name value"),
        ignored("ssl_dhparam", 1, 1, SUITES).syntax("file"),
        ignored("ssl_early_data", 1, 1, "Accepted without effect, with a warning: early data is not taken.")
            .syntax("on | off"),
        ignored("ssl_ecdh_curve", 1, 1, SUITES).syntax("curve"),
        ignored("ssl_prefer_server_ciphers", 1, 1, SUITES).syntax("on | off"),
        ignored("ssl_session_cache", 1, 2, SESSIONS).syntax("off | none | [builtin[:size]] [shared:name:size]"),
        Directive::flag("ssl_session_tickets", |c: &mut Conf| &mut c.session_tickets)
            .within(PLACES)
            .default("on")
            .doc("Sessions are resumed by tickets, whose keys all workers share and exchange every 6 hours."),
        ignored("ssl_session_timeout", 1, 1, SESSIONS).syntax("time"),
        ignored("ssl_stapling", 1, 1, "Accepted without effect, with a warning: no status is stapled.")
            .syntax("on | off"),
        ignored("ssl_stapling_verify", 1, 1, "Accepted without effect, with a warning: no status is stapled.")
            .syntax("on | off"),
    ],
    variables: variables::VARIABLES,
    inherit: |child, parent, _| {
        inherit!(child, parent; protocols, session_tickets);
        if child.certificates.is_empty() {
            child.certificates.clone_from(&parent.certificates);
        }
        if child.keys.is_empty() {
            child.keys.clone_from(&parent.keys);
        }
        let own: Vec<_> = child.ignored.iter().map(|(name, _)| name.clone()).collect();
        child.ignored.extend(parent.ignored.iter().filter(|(name, _)| !own.contains(name)).cloned());
    },
    example: "
        ssl_protocols TLSv1.2 TLSv1.3;
    ",
    ..Module::named("ssl")
};

fn file(list: &mut Vec<(BString, Span)>, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let not_yet = match &**arg.value {
        text if text.contains(&b'$') => "variables are not supported here yet: name a file",
        text if text.starts_with(b"data:") => "\"data:\" is not supported yet: name a file",
        text if text.starts_with(b"engine:") || text.starts_with(b"store:") => "keys are read from files alone",
        _ => {
            list.push((arg.value.clone(), arg.span));
            return Ok(());
        }
    };
    let message = format!("invalid value \"{}\" in \"{}\" directive", arg.value, directive.name.value);
    Err(Diagnostic::new(Severity::Emerg, arg.span, message).with_hint(not_yet))
}

fn protocols(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.protocols.is_some() {
        return Err(duplicate(directive));
    }
    let mut protocols = Protocols { tls12: false, tls13: false, old: None };
    for arg in &directive.args {
        match &**arg.value {
            b"TLSv1.2" => protocols.tls12 = true,
            b"TLSv1.3" => protocols.tls13 = true,
            b"SSLv2" | b"SSLv3" | b"TLSv1" | b"TLSv1.1" => protocols.old = protocols.old.or(Some(arg.span)),
            _ => return Err(Diagnostic::unknown_value(&arg.value, arg.span, ["TLSv1.2", "TLSv1.3"])),
        }
    }
    if let (false, false, Some(span)) = (protocols.tls12, protocols.tls13, protocols.old) {
        let message = "\"ssl_protocols\" names no version that is safe: those before TLSv1.2 are not offered";
        let hint = "TLS 1.0 and 1.1 must not be used any more (RFC 8996): say \"ssl_protocols TLSv1.2 TLSv1.3\"";
        return Err(Diagnostic::new(Severity::Emerg, span, message).with_hint(hint));
    }
    conf.protocols = Some(protocols);
    Ok(())
}
