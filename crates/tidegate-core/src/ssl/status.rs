//! The status of certificates (OCSP), while a configuration loads: `ssl_stapling` for ours, `ssl_ocsp` for clients'.
//!
//! Asking is [`tidegate_ocsp`].

use std::{path::Path, sync::Arc, time::Duration};

use bstr::{BString, ByteSlice as _};
use rustls::{pki_types::CertificateDer, sign::CertifiedKey};
use tidegate_conf::{Diagnostic, Diagnostics, Level as Severity, Span, ast, values};
use tidegate_ocsp::{Cache, Inquiry, Responder, Staple, Way, inquiry::Reach, staple::Question};
use tidegate_tls::{
    ocsp::{self, Signers, Subject},
    pem,
};

use super::{Conf, Named, VerifyClient, keys::Stapled, settings};
use crate::{conf::Level, resolver, worker};

/// Smallest cache of answers.
///
/// Source: nginx, `ngx_http_ssl_ocsp_cache`.
const CACHE_BYTES_MIN: u64 = 8 * 4096;

/// `ssl_ocsp_cache off | shared:name:size`: name and bytes.
pub(super) type CacheRules = Option<(BString, u64)>;

/// Reads the address of a responder.
pub(super) fn responder(directive: &ast::Directive) -> Result<Responder, Diagnostic> {
    let arg = &directive.args[0];
    Responder::parse(&arg.value).map_err(|error| {
        let message = format!("{error} in OCSP responder \"{}\"", arg.value);
        Diagnostic::new(Severity::Emerg, arg.span, message).with_hint("say \"http://host[:port][/path]\"")
    })
}

/// Reads an `ssl_ocsp_cache`.
pub(super) fn cache(directive: &ast::Directive) -> Result<CacheRules, Diagnostic> {
    let arg = &directive.args[0];
    let fail = |message: String| Diagnostic::new(Severity::Emerg, arg.span, message);
    let invalid = || fail(format!("invalid OCSP cache \"{}\"", arg.value));
    let words: Vec<&[u8]> = arg.value.split_str(b":").collect();
    match words[..] {
        [b"off"] => Ok(None),
        [b"shared", name, size] if !name.is_empty() => {
            let bytes = values::size(size.into()).map_err(|_| invalid())?;
            if bytes < CACHE_BYTES_MIN {
                return Err(fail(format!("OCSP cache \"{}\" is too small", arg.value)));
            }
            Ok(Some((name.into(), bytes)))
        }
        _ => Err(invalid()),
    }
}

/// How responders are reached from a level.
pub(super) fn way(level: &Level) -> Way {
    let conf = level.conf(&resolver::MODULE);
    Way {
        resolver: conf.resolver.clone(),
        resolver_timeout: conf.resolver_timeout.unwrap_or(resolver::TIMEOUT_DEFAULT),
    }
}

/// What tells one way from another.
pub(super) fn identity(way: &Way) -> (usize, Duration) {
    (way.resolver.as_ref().map_or(0, |resolver| Arc::as_ptr(resolver).addr()), way.resolver_timeout)
}

/// The status of each certificate for which there is somebody to ask. Why there is not is a warning.
///
/// Source: nginx, `ngx_ssl_stapling`.
pub(super) fn staples(
    conf: &Conf,
    pairs: &[Arc<CertifiedKey>],
    way: &Way,
    conf_dir: &Path,
    diagnostics: &mut Diagnostics,
) -> Result<Vec<Stapled>, Diagnostic> {
    let Some(span) = conf.stapling.filter(|(is_on, _)| *is_on).map(|(_, span)| span) else { return Ok(Vec::new()) };
    if conf.stapling_file.is_some() {
        // Its status is a part of the certificates.
        return Ok(Vec::new());
    }
    let trusted = match &conf.trusted_certificate {
        Some(found) => found.load(conf_dir, "certificate", pem::certificates)?,
        None => Vec::new(),
    };
    let mut staples = Vec::new();
    if conf.managed.is_some() || conf.certificates.iter().any(Named::has_variables) {
        let message =
            "\"ssl_stapling\" ignored for certificates that come by themselves or have variables in their names";
        diagnostics.warn(span, message);
    }
    for (pair, named) in pairs.iter().zip(&conf.certificates) {
        match question(conf, pair, &trusted) {
            Ok(question) => {
                let name = named.located.text.to_string();
                staples.push(Stapled::new(pair.clone(), Staple::shared(question, way.clone(), name)));
            }
            Err(why) => {
                let message = format!("\"ssl_stapling\" ignored, {why} in the certificate \"{}\"", named.located.text);
                diagnostics.warn(span, message);
            }
        }
    }
    Ok(staples)
}

/// What is to be asked about a certificate; or why nothing can be.
fn question(conf: &Conf, pair: &CertifiedKey, trusted: &[CertificateDer<'_>]) -> Result<Question, String> {
    let Some((certificate, chain)) = pair.cert.split_first() else { return Err("nothing".to_owned()) };
    let candidates = chain.iter().chain(trusted).map(|one| &**one);
    let issuer = ocsp::issuer_among(certificate, candidates).ok_or("no certificate of the issuer")?;
    let responder = match &conf.stapling_responder {
        Some((responder, _)) => responder.clone(),
        None => {
            let named = ocsp::responder(certificate).map_err(|error| error.to_string())?;
            let address = named.ok_or("no OCSP responder URL")?;
            Responder::parse(address).map_err(|error| format!("{error} in OCSP responder \"{}\"", address.as_bstr()))?
        }
    };
    let subject = Subject::new(certificate, issuer).map_err(|error| error.to_string())?;
    let signers = if conf.stapling_verify == Some(true) { Signers::Issuer } else { Signers::Any };
    Ok(Question { subject, responder, signers })
}

/// How the status of clients' certificates is asked for.
pub(super) fn inquiry(conf: &Conf, way: &Way, verify: VerifyClient) -> Result<Option<Inquiry>, Diagnostic> {
    let Some((Some(reach), span)) = conf.ocsp else { return Ok(None) };
    match verify {
        VerifyClient::Off => return Ok(None),
        VerifyClient::OptionalNoCa => {
            let message = "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"";
            return Err(Diagnostic::new(Severity::Emerg, span, message));
        }
        VerifyClient::On | VerifyClient::Optional => {}
    }
    let cache = conf.ocsp_cache.as_ref().and_then(Option::as_ref);
    Ok(Some(Inquiry {
        reach,
        responder: conf.ocsp_responder.as_ref().map(|(responder, _)| responder.clone()),
        cache: cache.map(|(name, bytes)| Cache::shared(name, *bytes)),
        way: way.clone(),
    }))
}

/// Words of `ssl_ocsp`.
pub(super) const REACH_WORDS: &[(&str, Option<Reach>)] =
    &[("off", None), ("on", Some(Reach::Chain)), ("leaf", Some(Reach::Leaf))];

/// Has the staples of the worker's configuration kept fresh.
pub(super) fn keep_staples() -> Result<(), String> {
    let Some(config) = worker::config() else { return Ok(()) };
    let staples = settings::all(&config).flat_map(|tls| &tls.staples);
    let kept = tidegate_ocsp::keep(staples);
    kept.map_err(|error| format!("cannot start the thread for OCSP {}", crate::log::SysError(&error)))
}

/// A directive's value, and where it stands.
pub(super) type Placed<T> = (T, Span);
