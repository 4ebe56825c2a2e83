//! From directives to what a handshake needs, while a configuration loads.

use std::{
    collections::HashMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::{Arc, OnceLock},
};

use rustls::{
    ServerConfig, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    server::{NoServerSessionStorage, ProducesTickets},
    version::{TLS12, TLS13},
};
use tidegate_conf::{Diagnostics, Span};

use super::{
    Conf, MODULE,
    keys::{self, Certificates, KeyError},
};
use crate::conf::{Level, Listen, Server};

/// What is spoken behind TLS, for clients that ask (RFC 7301).
const ALPN: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// All that the settings of a server depend on. Servers with the same share theirs.
#[derive(PartialEq, Eq, Hash)]
struct Inputs {
    /// Files of certificates, each with that of its key.
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    tls12: bool,
    tls13: bool,
    tickets: bool,
}

/// Gives the servers what their certificates and protocols come to. `conf_dir`: where relative names of files start.
pub(crate) fn load(
    servers: &mut [Server],
    levels: &[Level],
    listens: &[Listen],
    conf_dir: &Path,
    diagnostics: &mut Diagnostics,
) {
    let mut known = HashMap::new();
    for server in &mut *servers {
        let conf = levels[server.level.0 as usize].conf(&MODULE);
        if conf.certificates.is_empty() {
            continue;
        }
        warn_of_ignored(conf, diagnostics);
        if let Some(inputs) = inputs(conf, diagnostics) {
            server.tls =
                known.entry(inputs).or_insert_with_key(|inputs| build(inputs, conf, conf_dir, diagnostics)).clone();
        }
    }
    for listen in listens {
        let Some(span) = listen.ssl else { continue };
        let level = &levels[servers[listen.default.0 as usize].level.0 as usize];
        if level.conf(&MODULE).certificates.is_empty() {
            diagnostics.error(span, "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive");
        }
    }
}

fn warn_of_ignored(conf: &Conf, diagnostics: &mut Diagnostics) {
    for (name, span) in &conf.ignored {
        diagnostics.warn(*span, format!("\"{name}\" has no effect yet, ignored"));
    }
    if let Some(span) = conf.protocols.and_then(|protocols| protocols.old) {
        diagnostics.warn(span, "versions before TLSv1.2 are not safe (RFC 8996) and are not offered");
    }
}

fn inputs(conf: &Conf, diagnostics: &mut Diagnostics) -> Option<Inputs> {
    if let Some((certificate, span)) = conf.certificates.get(conf.keys.len()) {
        let message = format!("no \"ssl_certificate_key\" is defined for certificate \"{certificate}\"");
        diagnostics.error(*span, message);
        return None;
    }
    let pairs = conf
        .certificates
        .iter()
        .zip(&conf.keys)
        .map(|((certificate, _), (key, _))| (certificate.to_vec(), key.to_vec()));
    let (tls12, tls13) = conf.protocols.map_or((true, true), |protocols| (protocols.tls12, protocols.tls13));
    Some(Inputs { pairs: pairs.collect(), tls12, tls13, tickets: conf.session_tickets != Some(false) })
}

fn build(inputs: &Inputs, conf: &Conf, conf_dir: &Path, diagnostics: &mut Diagnostics) -> Option<Arc<ServerConfig>> {
    let provider = Arc::new(ring::default_provider());
    let mut pairs = Vec::new();
    for (index, (certificate, key)) in inputs.pairs.iter().enumerate() {
        let (certificate, key) = (full_path(conf_dir, certificate), full_path(conf_dir, key));
        let mut fail = |what: &str, path: &Path, span: Span, error: KeyError| {
            diagnostics.error(span, format!("cannot load {what} \"{}\": {error}", path.display()));
        };
        let (certificate_span, key_span) = (conf.certificates[index].1, conf.keys[index].1);
        match (keys::certificates(&certificate), keys::key(&key)) {
            (Err(error), _) => fail("certificate", &certificate, certificate_span, error),
            (_, Err(error)) => fail("certificate key", &key, key_span, error),
            (Ok(chain), Ok(secret)) => match keys::pair(chain, secret, &provider) {
                Ok(pair) => pairs.push(pair),
                Err(error) => fail("certificate key", &key, key_span, error),
            },
        }
    }
    // What failed is reported, and nothing is made of the configuration.
    if pairs.len() < inputs.pairs.len() { None } else { settings(inputs, provider, pairs, diagnostics) }
}

fn settings(
    inputs: &Inputs,
    provider: Arc<CryptoProvider>,
    pairs: Vec<Arc<rustls::sign::CertifiedKey>>,
    diagnostics: &mut Diagnostics,
) -> Option<Arc<ServerConfig>> {
    let mut versions: Vec<&'static SupportedProtocolVersion> = Vec::new();
    if inputs.tls13 {
        versions.push(&TLS13);
    }
    if inputs.tls12 {
        versions.push(&TLS12);
    }
    let made = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions);
    let mut config = match made {
        Ok(builder) => builder.with_no_client_auth().with_cert_resolver(Arc::new(Certificates::new(pairs))),
        Err(error) => {
            diagnostics.error(None, format!("cannot speak TLS: {error}"));
            return None;
        }
    };
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    match ticketer() {
        Some(ticketer) if inputs.tickets => config.ticketer = ticketer,
        // Nothing could be resumed.
        _ => config.send_tls13_tickets = 0,
    }
    Some(Arc::new(config))
}

/// What makes tickets, for all servers of the process: a session goes on over a reload. `None` without randomness.
fn ticketer() -> Option<Arc<dyn ProducesTickets>> {
    static TICKETER: OnceLock<Option<Arc<dyn ProducesTickets>>> = OnceLock::new();
    TICKETER.get_or_init(|| ring::Ticketer::new().ok()).clone()
}

/// A path as nginx understands those of certificates: relative ones start where the configuration file is.
fn full_path(conf_dir: &Path, path: &[u8]) -> std::path::PathBuf {
    conf_dir.join(OsStr::from_bytes(path))
}
