//! From directives to what a handshake needs, while a configuration loads.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use bstr::BString;
use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    pki_types::CertificateDer,
    server::{NoClientAuth, NoServerSessionStorage, StoresServerSessions, danger::ClientCertVerifier},
    sign::CertifiedKey,
};
use tidegate_conf::{Diagnostic, Diagnostics, Level as Severity};
use tidegate_ocsp::{Responder, Way, inquiry::Reach};
use tidegate_tls::{
    bound::{Context, Unbound},
    ciphers::Choice,
    client::Secrets,
    ocsp,
    pem::{self, PemError},
    server::{AnyClient, ClientRules},
    sessions::{MemorySessions, TimedSessions},
    tickets::Tickets,
    verify::has_usable_key,
    versions::Versions,
};

use super::{
    Conf, Configs, MODULE, Named, SESSION_BYTES, SESSIONS_DEFAULT, ServerTls, SessionCache, VerifyClient,
    dynamic::{CacheRules, Dynamic, Pairs},
    files::Located,
    kept,
    keys::Certificates,
    status::{self, Placed},
};
use crate::{
    conf::{Config, ServerId},
    http2_settings,
};

/// What is spoken behind TLS, for clients that ask (RFC 7301).
const ALPN: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// Life of a session.
///
/// Source: nginx, "ssl_session_timeout".
const SESSION_TIMEOUT: Duration = Duration::from_secs(300);

/// Early data of one client at most, in bytes: a request's head, or a small body with it.
///
/// Source: OpenSSL, `SSL_CTX_set_max_early_data`.
const EARLY_DATA_BYTES_MAX: u32 = 16 << 10;

/// Where a server speaks HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Http2 {
    Nowhere,
    /// Where a `listen` says so.
    AtAddresses,
    Everywhere,
}

/// All that the settings of a server depend on, files by their names. Servers with the same share theirs.
#[derive(PartialEq, Eq, Hash)]
struct Inputs {
    /// Files of certificates, each with that of its key.
    pairs: Vec<(BString, BString)>,
    /// Name of the certificate that comes by itself.
    managed: Option<BString>,
    certificate_cache: Option<CacheRules>,
    password_file: Option<BString>,
    versions: Versions,
    ciphers: Option<BString>,
    suites: Option<BString>,
    ecdh_curve: Option<BString>,
    prefer_server_ciphers: bool,
    session_cache: SessionCache,
    tickets: bool,
    ticket_keys: Vec<BString>,
    session_timeout: Duration,
    verify_client: VerifyClient,
    verify_depth: u64,
    client_certificate: Option<BString>,
    trusted_certificate: Option<BString>,
    crl: Option<BString>,
    /// The address of who is told the secrets of connections.
    key_log: Option<usize>,
    early_data: bool,
    stapling: bool,
    stapling_file: Option<BString>,
    stapling_responder: Option<Responder>,
    stapling_verify: bool,
    ocsp: Option<Reach>,
    ocsp_responder: Option<Responder>,
    ocsp_cache: status::CacheRules,
    /// How responders are reached, where any are asked.
    way: Option<(usize, Duration)>,
    rejects: bool,
    http2: Http2,
    scripts: [usize; 4],
}

impl Inputs {
    fn of(conf: &Conf, http2: Http2, way: &Way) -> Self {
        let stapling = conf.stapling.is_some_and(|(is_on, _)| is_on);
        let ocsp = conf.ocsp.and_then(|(reach, _)| reach);
        let responder = |found: &Option<Placed<Responder>>| found.as_ref().map(|(responder, _)| responder.clone());
        let text = |found: &Option<Located>| found.as_ref().map(|found| found.text.clone());
        let pairs = conf.certificates.iter().zip(&conf.keys);
        Inputs {
            pairs: pairs
                .map(|(certificate, key)| (certificate.located.text.clone(), key.located.text.clone()))
                .collect(),
            managed: conf.managed.as_ref().map(|(name, _)| name.clone()),
            certificate_cache: conf.certificate_cache.flatten(),
            password_file: text(&conf.password_file),
            versions: conf.protocols.unwrap_or_default(),
            ciphers: text(&conf.ciphers),
            suites: text(&conf.suites),
            ecdh_curve: text(&conf.ecdh_curve),
            prefer_server_ciphers: conf.prefer_server_ciphers.unwrap_or(false),
            session_cache: conf.session_cache.clone().unwrap_or(SessionCache::Off),
            tickets: conf.session_tickets.unwrap_or(true),
            ticket_keys: conf.session_ticket_keys.iter().map(|found| found.text.clone()).collect(),
            session_timeout: conf.session_timeout.unwrap_or(SESSION_TIMEOUT),
            verify_client: conf.verify_client.unwrap_or(VerifyClient::Off),
            verify_depth: conf.verify_depth.unwrap_or(1),
            client_certificate: text(&conf.client_certificate),
            trusted_certificate: text(&conf.trusted_certificate),
            crl: text(&conf.crl),
            key_log: conf.key_log.as_ref().map(|Secrets(log)| Arc::as_ptr(log).addr()),
            early_data: conf.early_data.is_some_and(|(is_on, _)| is_on),
            stapling,
            stapling_file: text(&conf.stapling_file),
            stapling_responder: responder(&conf.stapling_responder),
            stapling_verify: conf.stapling_verify.unwrap_or(false),
            ocsp,
            ocsp_responder: responder(&conf.ocsp_responder),
            ocsp_cache: conf.ocsp_cache.clone().flatten(),
            way: (stapling || ocsp.is_some()).then(|| status::identity(way)),
            rejects: conf.reject_handshake.unwrap_or(false),
            http2,
            scripts: conf.scripts.addresses(),
        }
    }
}

/// What the servers of a configuration come to.
#[derive(Debug, Clone, Default)]
pub(super) struct SiteTls {
    /// By their numbers: what certificates and protocols of each come to, where it has any.
    servers: Vec<Option<Arc<ServerTls>>>,
    /// One has code that runs in handshakes.
    has_scripts: bool,
}

impl Config {
    fn site_tls(&self) -> &SiteTls {
        self.main_level().conf(&MODULE).site.get_or_init(SiteTls::default)
    }
    /// What certificates and protocols of a server come to, where it has any.
    pub(crate) fn tls_of(&self, server: ServerId) -> Option<&Arc<ServerTls>> {
        self.site_tls().servers.get(server.0 as usize)?.as_ref()
    }
    /// Whether code runs in handshakes with clients.
    pub(crate) fn has_handshake_scripts(&self) -> bool {
        self.site_tls().has_scripts
    }
}

/// What all servers come to that have certificates.
pub(super) fn all(config: &Config) -> impl Iterator<Item = &Arc<ServerTls>> {
    config.site_tls().servers.iter().flatten()
}

/// Finds out what the certificates and protocols of the servers come to.
pub(super) fn load(config: &Config, diagnostics: &mut Diagnostics) -> SiteTls {
    let Config { servers, levels, listens, .. } = config;
    let conf_dir = config.conf_path.parent().unwrap_or(Path::new(""));
    let mut site = SiteTls::default();
    let mut known: HashMap<Inputs, Option<Arc<ServerTls>>> = HashMap::new();
    for server in servers {
        let conf = levels[server.level.0 as usize].conf(&MODULE).with_commands();
        site.has_scripts |= conf.scripts.is_any();
        if !conf.has_certificates() && conf.reject_handshake != Some(true) {
            site.servers.push(None);
            continue;
        }
        warn_of_ignored(&conf, diagnostics);
        let http2 = match http2_settings::is_on(&levels[server.level.0 as usize]) {
            true => Http2::Everywhere,
            false if listens.iter().any(|listen| listen.http2) => Http2::AtAddresses,
            false => Http2::Nowhere,
        };
        let way = status::way(&levels[server.level.0 as usize]);
        let tls = known
            .entry(Inputs::of(&conf, http2, &way))
            .or_insert_with_key(|inputs| match build(inputs, &conf, &way, conf_dir, diagnostics) {
                Ok(tls) => Some(Arc::new(tls)),
                Err(diagnostic) => {
                    diagnostics.push(diagnostic);
                    None
                }
            })
            .clone();
        site.servers.push(tls);
    }
    kept::end_load();
    for listen in listens {
        let Some(span) = listen.ssl else { continue };
        let conf = levels[servers[listen.default.0 as usize].level.0 as usize].conf(&MODULE).with_commands();
        if !conf.has_certificates() && conf.reject_handshake != Some(true) {
            diagnostics.error(span, "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive");
        }
    }
    site
}

fn warn_of_ignored(conf: &Conf, diagnostics: &mut Diagnostics) {
    for (name, span) in &conf.ignored {
        diagnostics.warn(*span, format!("\"{name}\" has no effect yet, ignored"));
    }
    if let Some(span) = conf.old_protocol {
        diagnostics.warn(span, "versions before TLSv1.2 are not safe (RFC 8996) and are not offered");
    }
}

fn build(
    inputs: &Inputs,
    conf: &Conf,
    way: &Way,
    conf_dir: &Path,
    diagnostics: &mut Diagnostics,
) -> Result<ServerTls, Diagnostic> {
    if let Some(certificate) = conf.certificates.get(conf.keys.len()) {
        let message = format!("no \"ssl_certificate_key\" is defined for certificate \"{}\"", certificate.located.text);
        return Err(Diagnostic::new(Severity::Emerg, certificate.located.span, message));
    }
    let provider = choice(conf, diagnostics)?.provider();
    let passwords = match &conf.password_file {
        Some(found) => found.passwords(conf_dir)?,
        None => Vec::new(),
    };
    let managed = conf.managed.as_ref().map(|(_, managed)| managed.clone());
    let all = || conf.certificates.iter().zip(&conf.keys);
    let (pairs, dynamic) = if all().any(|(certificate, key)| certificate.has_variables() || key.has_variables()) {
        let names = all().map(|(certificate, key)| (certificate.template.clone(), key.template.clone())).collect();
        let pairs = Pairs::new(passwords, conf_dir.to_owned(), provider.clone(), inputs.certificate_cache);
        (Vec::new(), Some(Dynamic::new(names, pairs, managed.clone())))
    } else {
        (pairs(conf, conf_dir, &passwords, &provider)?, None)
    };
    let stapled = status::staples(conf, &pairs, way, conf_dir, diagnostics)?;
    let staples = stapled.iter().map(|stapled| stapled.staple().clone()).collect();
    let Clients { rules, verifier, context } = clients(inputs, conf, conf_dir, shown(inputs, &pairs), diagnostics)?;
    let cannot = |error: rustls::Error| Diagnostic::new(Severity::Emerg, None, format!("cannot speak TLS: {error}"));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&inputs.versions.list())
        .map_err(cannot)?
        .with_client_cert_verifier(verifier.clone())
        .with_cert_resolver(Arc::new(Certificates::new(pairs, managed).with_staples(stapled)));
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).into();
    config.ignore_client_order = inputs.prefer_server_ciphers;
    if let Some(Secrets(log)) = &conf.key_log {
        config.key_log = log.clone();
    }
    resume(&mut config, inputs, conf, conf_dir, diagnostics)?;
    let unbound = Unbound::of(&config);
    context.bind(&unbound, &mut config);
    let (configs, http2_configs) = with_http2(config, inputs.http2);
    Ok(ServerTls {
        configs,
        http2_configs,
        dynamic,
        client: rules,
        context,
        unbound,
        inquiry: status::inquiry(conf, way, inputs.verify_client)?,
        staples,
        rejects: inputs.rejects,
        versions: inputs.versions,
        verifier,
        scripts: conf.scripts.clone(),
    })
}

/// How sessions are resumed, and whether data may come early then.
///
/// Early data needs sessions that can be resumed once only, or whoever has recorded it could send it again (RFC 8446, section 8.1): tickets that the server
/// need not remember will not do.
fn resume(
    config: &mut ServerConfig,
    inputs: &Inputs,
    conf: &Conf,
    conf_dir: &Path,
    diagnostics: &mut Diagnostics,
) -> Result<(), Diagnostic> {
    let is_off = inputs.session_cache == SessionCache::Off;
    if let Some((true, span)) = conf.early_data {
        if conf.scripts.session_fetch.is_some() {
            diagnostics.warn(
                span,
                "\"ssl_early_data\" ignored: sessions of \"ssl_session_fetch_by_lua*\" can be resumed again and again",
            );
        } else if inputs.tickets || !is_off {
            if let Some(key) = conf.session_ticket_keys.first() {
                diagnostics.warn(
                    key.span,
                    "\"ssl_session_ticket_key\" ignored: \"ssl_early_data\" needs sessions that are kept in memory",
                );
            }
            let cache = if is_off { &SessionCache::Early } else { &inputs.session_cache };
            config.session_storage = Arc::new(TimedSessions::new(storage(cache), inputs.session_timeout));
            config.max_early_data_size = EARLY_DATA_BYTES_MAX;
            // An answer may go out as early as that.
            config.send_half_rtt_data = true;
            return Ok(());
        }
    }
    let below = storage(&inputs.session_cache);
    config.session_storage = Arc::new(TimedSessions::new(below, inputs.session_timeout));
    if inputs.tickets {
        config.ticketer = tickets(inputs, conf, conf_dir)?;
    } else if is_off && conf.scripts.session_store.is_none() {
        // Nothing could be resumed.
        config.send_tls13_tickets = 0;
    }
    Ok(())
}

/// The settings of a server, and those for addresses that speak HTTP/2 where it does not by itself.
fn with_http2(config: ServerConfig, http2: Http2) -> (Configs, Option<Configs>) {
    let with = |mut config: ServerConfig| {
        config.alpn_protocols.insert(0, b"h2".to_vec());
        Configs::of(config)
    };
    match http2 {
        Http2::Everywhere => (with(config), None),
        Http2::AtAddresses => (Configs::of(config.clone()), Some(with(config))),
        Http2::Nowhere => (Configs::of(config), None),
    }
}

/// The suites and groups that are offered.
fn choice(conf: &Conf, diagnostics: &mut Diagnostics) -> Result<Choice, Diagnostic> {
    let mut choice = Choice::default();
    if let Some(found) = &conf.ciphers {
        choice.suites = Some(found.suites("ssl_ciphers", diagnostics)?);
    }
    if let Some(found) = &conf.suites {
        choice.tls13 = Some(found.suites_of_tls13("Ciphersuites", diagnostics)?);
    }
    if let Some(found) = &conf.ecdh_curve {
        choice.groups = Some(found.groups("ssl_ecdh_curve", diagnostics)?);
    }
    Ok(choice)
}

fn pairs(
    conf: &Conf,
    conf_dir: &Path,
    passwords: &[Vec<u8>],
    provider: &CryptoProvider,
) -> Result<Vec<Arc<CertifiedKey>>, Diagnostic> {
    let status = match &conf.stapling_file {
        Some(found) if conf.stapling.is_some_and(|(is_on, _)| is_on) => {
            let read = |bytes: &[u8]| match ocsp::is_response(bytes) {
                true => Ok(bytes.to_vec()),
                false => Err(PemError::Nothing("OCSP response")),
            };
            Some(found.load(conf_dir, "OCSP response", read)?)
        }
        _ => None,
    };
    let pair = |(certificate, key): (&Named, &Named)| {
        let bare = kept::pair((&certificate.located, &key.located), conf_dir, passwords, provider)?;
        Ok(match &status {
            None => bare,
            Some(_) => Arc::new(CertifiedKey { ocsp: status.clone(), ..(*bare).clone() }),
        })
    };
    conf.certificates.iter().zip(&conf.keys).map(pair).collect()
}

/// What tells the certificates that a server shows from those of others, as far as that is known now.
///
/// Source: nginx, `ngx_ssl_session_id_context`.
fn shown(inputs: &Inputs, pairs: &[Arc<CertifiedKey>]) -> Context {
    let leaves = pairs.iter().filter_map(|pair| pair.cert.first()).map(|leaf| &**leaf);
    // Those that are read for each handshake, and the one that comes by itself, have names.
    let named = inputs.pairs.iter().filter(|_| pairs.is_empty()).map(|(certificate, _)| certificate.as_slice());
    let managed = inputs.managed.iter().map(|name| name.as_slice());
    Context::of(leaves.chain(named).chain(managed))
}

/// What is wanted of clients.
struct Clients {
    rules: Option<ClientRules>,
    verifier: Arc<dyn ClientCertVerifier>,
    /// Where their sessions may be resumed.
    context: Context,
}

/// By what clients' certificates are verified, and how they are asked for.
fn clients(
    inputs: &Inputs,
    conf: &Conf,
    conf_dir: &Path,
    shown: Context,
    diagnostics: &mut Diagnostics,
) -> Result<Clients, Diagnostic> {
    if inputs.verify_client == VerifyClient::Off {
        return Ok(Clients { rules: None, verifier: Arc::new(NoClientAuth), context: shown });
    }
    let mut load = |found: &Option<Located>| -> Result<Vec<CertificateDer<'static>>, Diagnostic> {
        let Some(found) = found else { return Ok(Vec::new()) };
        let list = found.load(conf_dir, "certificate", pem::certificates)?;
        for (index, _) in list.iter().enumerate().filter(|(_, one)| !has_usable_key(one)) {
            let which = format!("certificate {} of \"{}\"", index + 1, found.text);
            let message = "has a kind of key that is not supported, such as Ed448: what it has signed is not accepted";
            diagnostics.warn(found.span, format!("{which} {message}"));
        }
        Ok(list)
    };
    let (named, unnamed): (Vec<CertificateDer<'static>>, _) =
        (load(&conf.client_certificate)?, load(&conf.trusted_certificate)?);
    if named.is_empty() && unnamed.is_empty() && inputs.verify_client != VerifyClient::OptionalNoCa {
        let message = "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client";
        return Err(Diagnostic::new(Severity::Emerg, None, message));
    }
    let revoked = match &conf.crl {
        Some(found) => found.load(conf_dir, "CRL", pem::revocation_lists)?,
        None => Vec::new(),
    };
    let trusted = [named.as_slice(), unnamed.as_slice()].concat();
    let rules = ClientRules::new(&trusted, &revoked, inputs.verify_depth).map_err(|error| {
        let span = conf.crl.as_ref().map(|found| found.span);
        Diagnostic::new(Severity::Emerg, span, format!("cannot use the lists of \"ssl_crl\": {error}"))
    })?;
    let context = shown.asked(inputs.verify_client as u8, Context::of(named.iter().map(|authority| &**authority)));
    Ok(Clients { rules: Some(rules), verifier: Arc::new(AnyClient::new(&named)), context })
}

/// What makes tickets.
fn tickets(inputs: &Inputs, conf: &Conf, conf_dir: &Path) -> Result<Arc<Tickets>, Diagnostic> {
    let lifetime = inputs.session_timeout;
    if conf.session_ticket_keys.is_empty() {
        return Ok(Tickets::shared(lifetime));
    }
    let read = |found: &Located| found.load(conf_dir, "session ticket key", |bytes| Ok(bytes.to_vec()));
    let files = conf.session_ticket_keys.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Tickets::with_files(&files, lifetime).map_err(|(index, error)| {
        let found = &conf.session_ticket_keys[index];
        Diagnostic::new(Severity::Emerg, found.span, format!("\"{}\" {error}", found.text))
    })
}

/// Where sessions are kept. Memory with a name goes on over a reload, and is that of all servers with the same name and size.
fn storage(cache: &SessionCache) -> Arc<dyn StoresServerSessions> {
    type Named = (BString, usize, Weak<MemorySessions>);
    static KNOWN: Mutex<Vec<Named>> = Mutex::new(Vec::new());
    match cache {
        SessionCache::Off => Arc::new(NoServerSessionStorage {}),
        SessionCache::BuiltIn(sessions) => MemorySessions::new(sessions.saturating_mul(SESSION_BYTES)),
        // No directive gives a name with a colon.
        SessionCache::Early => storage(&SessionCache::Shared(":early".into(), SESSIONS_DEFAULT * SESSION_BYTES)),
        SessionCache::Shared(name, bytes) => {
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|(_, _, storage)| storage.strong_count() > 0);
            let same = |(other, size, _): &&Named| other == name && size == bytes;
            if let Some(storage) = known.iter().find(same).and_then(|(_, _, storage)| storage.upgrade()) {
                return storage;
            }
            let storage = MemorySessions::new(*bytes);
            known.push((name.clone(), *bytes, Arc::downgrade(&storage)));
            storage
        }
    }
}
