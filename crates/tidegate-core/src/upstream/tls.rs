//! TLS with peers: what the directives `…_ssl_*` say, and the handshake.
//!
//! Source: nginx, `ngx_http_proxy_module`, "proxy_ssl_…".

use std::{
    borrow::Cow,
    future::poll_fn,
    path::Path,
    rc::Rc,
    sync::{Arc, OnceLock},
};

use bstr::{BStr, BString, ByteSlice};
use rustls::{
    ClientConfig, ClientConnection,
    client::Resumption,
    pki_types::{CertificateDer, ServerName},
    sign::SingleCertAndKey,
};
use tidegate_conf::{Diagnostic, Diagnostics, Level as Severity, ast, values};
use tidegate_net::tls::HandshakeError;
use tidegate_tls::{
    Shared, ciphers,
    client::{ClientOptions, Identity, Secrets, system_roots},
    client_sessions::SharedClient,
    failure::Reason,
    pem, provider, summary,
    versions::{Version, Versions, WORDS},
};

use super::{
    UpstreamConf,
    address::Address,
    directives::fill,
    socket::ConnectError,
    tls_scripts::{PeerHandshake, PeerScripts},
};
use crate::{
    conf::{Build, Config},
    error_log::enabled,
    inherit,
    log::Level,
    request::Request,
    ssl::{
        Named,
        commands::Commands,
        dynamic::{CacheRules, Names, Pairs},
        files::Located,
        key_log,
        script::Refused,
    },
    stream::Stream,
    template::Template,
};

/// What the directives say at one level.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each field is named as its directive, whose table entry documents it")]
pub struct TlsConf {
    pub certificate: Option<Named>,
    pub certificate_cache: Option<Option<CacheRules>>,
    pub certificate_key: Option<Named>,
    pub ciphers: Option<Located>,
    pub crl: Option<Located>,
    pub key_log: Option<Secrets>,
    pub name: Option<Template>,
    pub password_file: Option<Located>,
    pub protocols: Option<Versions>,
    pub server_name: Option<bool>,
    pub session_reuse: Option<bool>,
    pub trusted_certificate: Option<Located>,
    pub verify: Option<bool>,
    pub verify_depth: Option<u64>,
    /// `…_ssl_conf_command`
    pub commands: Commands,
    /// Scripts of its handshakes.
    pub scripts: PeerScripts,
    /// A script alone decides about the peer's certificate, where there is one for that.
    pub skip_default_verify: Option<bool>,
    /// What they come to, once that is known.
    client: Arc<OnceLock<Arc<SharedClient>>>,
    /// Where certificates with variables come from.
    pairs: Arc<OnceLock<Arc<Pairs>>>,
}

/// `…_ssl_certificate` and its key.
///
/// # Errors
/// It was given before, or has bad variables.
pub fn named(field: &mut Option<Named>, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    fill(field, Named::of(directive, build)?, directive)
}

/// `…_ssl_certificate_cache`
///
/// # Errors
/// It was given before, or a parameter is bad.
pub fn certificate_cache(conf: &mut UpstreamConf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    fill(&mut conf.tls.certificate_cache, CacheRules::of(directive)?, directive)
}

/// `…_ssl_key_log path;`
///
/// # Errors
/// It was given before.
pub fn key_log(conf: &mut UpstreamConf, directive: &ast::Directive, build: &Build<'_>) -> Result<(), Diagnostic> {
    fill(&mut conf.tls.key_log, key_log::open(directive.args[0].value.as_bstr(), build), directive)
}

/// `…_ssl_protocols TLSv1.2 TLSv1.3;`
///
/// # Errors
/// A word that is no version, or none that is offered.
pub fn protocols(conf: &mut UpstreamConf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let mut versions = Versions::NONE;
    for arg in &directive.args {
        let version: Version = values::word(arg.value.as_bstr(), WORDS)
            .map_err(|_| Diagnostic::unknown_value(&arg.value, arg.span, WORDS.iter().map(|(word, _)| *word)))?;
        versions.add(version);
    }
    if versions == Versions::NONE {
        let message = format!("\"{}\" names no version that is safe", directive.name());
        let hint = "TLS 1.0 and 1.1 must not be used any more (RFC 8996): say \"TLSv1.2 TLSv1.3\"";
        return Err(Diagnostic::new(Severity::Emerg, directive.span, message).with_hint(hint));
    }
    fill(&mut conf.tls.protocols, versions, directive)
}

/// A directive with one text that is looked at when everything is read.
///
/// # Errors
/// It was given before, or has variables.
pub fn text(field: &mut Option<Located>, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    if directive.name().contains_str("_certificate") && arg.value.contains(&b'$') {
        let message = format!("invalid value \"{}\" in \"{}\" directive", arg.value, directive.name());
        let hint = "variables are not supported here: name a file";
        return Err(Diagnostic::new(Severity::Emerg, arg.span, message).with_hint(hint));
    }
    fill(field, Located::of(directive), directive)
}

impl TlsConf {
    /// Takes the outer level's value for each field that the inner level left open.
    pub(super) fn inherit(&mut self, parent: &TlsConf) {
        let child = self;
        inherit!(child, parent; certificate, certificate_cache, certificate_key, ciphers, crl, key_log, name, password_file, protocols, server_name, session_reuse,
            trusted_certificate, verify, verify_depth, skip_default_verify);
        child.scripts.inherit(&parent.scripts);
        child.commands.inherit(&parent.commands);
    }

    /// The settings of a location. They work once [`load`](Self::load) was called.
    pub(super) fn settings(&self) -> TlsSettings {
        let named = match (self.shown(), self.key()) {
            (Some(certificate), Some(key)) if certificate.has_variables() || key.has_variables() => {
                Some((certificate.template.clone(), key.template.clone()))
            }
            _ => None,
        };
        TlsSettings {
            client: self.client.clone(),
            versions: self.spoken(),
            name: self.name.clone(),
            named,
            pairs: self.pairs.clone(),
            scripts: self.scripts.is_any().then(|| Arc::new(self.scripts.clone())),
        }
    }

    /// Reads the files. `prefix` is that of the directives' names. To be called for each level whose requests may need TLS.
    pub fn load(&self, config: &Config, prefix: &str, diagnostics: &mut Diagnostics) {
        if self.client.get().is_some() {
            return;
        }
        let dir = config.conf_path.parent().unwrap_or(Path::new(""));
        match self.options(dir, prefix, diagnostics) {
            Ok(options) => match options.shared() {
                // Another level that shares these directives may have come first.
                Ok(client) => drop(self.client.set(client)),
                Err(error) => {
                    let key = self.certificate_key.as_ref().map(|key| &key.located);
                    let span = [key, self.crl.as_ref()].into_iter().flatten().next().map(|found| found.span);
                    diagnostics.error(span, format!("cannot speak TLS with servers: {error}"));
                }
            },
            Err(diagnostic) => drop(diagnostics.push(diagnostic)),
        }
    }

    fn options(&self, dir: &Path, prefix: &str, diagnostics: &mut Diagnostics) -> Result<ClientOptions, Diagnostic> {
        let is_left_to_script = self.scripts.verify.is_some() && self.skip_default_verify == Some(true);
        let verify = self.verify.unwrap_or(false) && !is_left_to_script;
        let trusted = match &self.trusted_certificate {
            _ if !verify => None,
            Some(found) => Some(found.load(dir, "certificate", pem::certificates)?),
            None => Some(system_roots().map_err(|error| {
                let message = format!(
                    "no {prefix}_ssl_trusted_certificate for {prefix}_ssl_verify, and no authorities of the system: {error}"
                );
                Diagnostic::new(Severity::Emerg, None, message)
            })?),
        };
        let revoked = match &self.crl {
            Some(found) if verify => Some(found.load(dir, "CRL", pem::revocation_lists)?),
            _ => None,
        };
        let mut choice = ciphers::Choice::default();
        if let Some(found) = &self.ciphers {
            choice.suites = Some(found.suites(&format!("{prefix}_ssl_ciphers"), diagnostics)?);
        }
        self.commands.choose(&mut choice, diagnostics)?;
        Ok(ClientOptions {
            verify,
            check_name: true,
            continues: true,
            depth_max: Some(self.verify_depth.unwrap_or(1)),
            versions: self.spoken(),
            ciphers: choice,
            sends_name: self.server_name.unwrap_or(false),
            resumes: self.session_reuse.unwrap_or(true),
            trusted: trusted.map(|list: Vec<CertificateDer<'static>>| Shared(Arc::new(list))),
            revoked: revoked.map(|list| Shared(Arc::new(list))),
            identity: self.identity(dir, prefix)?,
            secrets: self.key_log.clone(),
        })
    }

    /// Versions that are spoken.
    fn spoken(&self) -> Versions {
        self.commands.versions.or(self.protocols).unwrap_or_default()
    }

    /// The certificate that servers are shown.
    fn shown(&self) -> Option<Cow<'_, Named>> {
        let commanded = self.commands.certificate.clone().map(|located| Cow::Owned(Named::literal(located)));
        commanded.or(self.certificate.as_ref().map(Cow::Borrowed))
    }

    /// Its key.
    fn key(&self) -> Option<Cow<'_, Named>> {
        let commanded = self.commands.key.clone().map(|located| Cow::Owned(Named::literal(located)));
        commanded.or(self.certificate_key.as_ref().map(Cow::Borrowed))
    }

    fn identity(&self, dir: &Path, prefix: &str) -> Result<Option<Shared<Identity>>, Diagnostic> {
        let Some(certificate) = self.shown().filter(|found| !found.located.text.is_empty()) else {
            return Ok(None);
        };
        let Some(key) = self.key() else {
            let Located { text, span } = &certificate.located;
            let message = format!("no \"{prefix}_ssl_certificate_key\" is defined for certificate \"{text}\"");
            return Err(Diagnostic::new(Severity::Emerg, *span, message));
        };
        let passwords = match &self.password_file {
            Some(found) => found.passwords(dir)?,
            None => Vec::new(),
        };
        if certificate.has_variables() || key.has_variables() {
            let rules = self.certificate_cache.flatten();
            // Another level that shares these directives may have come first.
            let _ = self.pairs.set(Pairs::new(passwords, dir.to_owned(), provider(), rules));
            return Ok(None);
        }
        let (certificate, key) = (&certificate.located, &key.located);
        let chain = certificate.load(dir, "certificate", pem::certificates)?;
        let key = key.load(dir, "certificate key", |text| pem::key(text, &passwords))?;
        Ok(Some(Shared(Arc::new(Identity { chain: Arc::new(chain), key: Arc::new(key) }))))
    }
}

/// How the requests of a location speak TLS, where they do.
#[derive(Debug)]
pub struct TlsSettings {
    client: Arc<OnceLock<Arc<SharedClient>>>,
    versions: Versions,
    name: Option<Template>,
    /// Names with variables of the client's certificate and its key.
    named: Option<(Template, Template)>,
    pairs: Arc<OnceLock<Arc<Pairs>>>,
    scripts: Option<Arc<PeerScripts>>,
}

impl TlsSettings {
    /// How one request does. `host` is the server as the configuration names it.
    pub fn peer(&self, req: &Request, host: &[u8]) -> Option<TlsPeer> {
        let Some(client) = self.client.get() else {
            // A configuration whose files could not be read is not accepted.
            req.log(Level::Alert, format_args!("no settings of TLS for \"{}\"", BStr::new(host)));
            return None;
        };
        let shown: BString = match &self.name {
            Some(name) => without_port(&name.eval_cow(req)).into(),
            None => host.into(),
        };
        let name = shown.to_str().ok().and_then(|name| ServerName::try_from(name.to_owned()).ok());
        let names = self.named.as_ref().map(|(certificate, key)| (certificate.eval(req), key.eval(req)));
        // Without a name there is no certificate.
        let names = names.filter(|(certificate, _)| !certificate.is_empty());
        let identity = names.and_then(|names| Some((self.pairs.get()?.clone(), names)));
        Some(TlsPeer {
            client: client.clone(),
            versions: self.versions,
            name,
            shown,
            identity,
            scripts: self.scripts.clone(),
        })
    }
}

/// The host of `host:port`; `$http_host` may have one. Brackets of an address go too.
fn without_port(text: &[u8]) -> &[u8] {
    match text.strip_prefix(b"[") {
        Some(rest) => rest.split_once_str("]").map_or(text, |(host, _)| host),
        None => match text.split_once_str(":") {
            // Two colons are an address without a port.
            Some((host, rest)) if !rest.contains(&b':') => host,
            _ => text,
        },
    }
}

/// How TLS is spoken with a peer. Two connections are alike only if this is.
#[derive(Debug, Clone)]
pub struct TlsPeer {
    client: Arc<SharedClient>,
    /// Those of `client`.
    versions: Versions,
    /// `None` for a text that no certificate can name.
    name: Option<ServerName<'static>>,
    shown: BString,
    /// The client's certificate, where its name has variables.
    identity: Option<(Arc<Pairs>, Names)>,
    /// They must not hold a request: connections stay longer.
    scripts: Option<Arc<PeerScripts>>,
}

impl PartialEq for TlsPeer {
    fn eq(&self, other: &Self) -> bool {
        let names = |peer: &Self| peer.identity.as_ref().map(|(_, names)| names.clone());
        Arc::ptr_eq(&self.client, &other.client)
            && self.shown == other.shown
            && self.scripts == other.scripts
            && (self.identity.is_none() && other.identity.is_none() || names(self) == names(other))
    }
}

impl Eq for TlsPeer {}

impl TlsPeer {
    /// The name that the peer's certificate has to have, as text.
    pub fn name(&self) -> &BStr {
        self.shown.as_bstr()
    }

    /// The name that the peer's certificate has to have, as the library has it.
    fn server_name(&self) -> ServerName<'static> {
        // No certificate is for this address.
        let nobody = || ServerName::from(std::net::IpAddr::from(std::net::Ipv4Addr::UNSPECIFIED));
        self.name.clone().unwrap_or_else(nobody)
    }

    /// The settings of a handshake with the peer at an address: those of the location, with the certificate that variables name.
    ///
    /// # Errors
    /// Why that cannot be used, as a sentence for the log.
    async fn settings(&self, address: &Address) -> Result<Arc<ClientConfig>, String> {
        let Some((pairs, names)) = &self.identity else {
            return Ok(self.client.with(address.to_string(), self.server_name()));
        };
        let pair = pairs.get(names.clone()).await?;
        let mut config = ClientConfig::clone(self.client.config());
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(pair));
        // A session is that of the certificate which was shown when it began.
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    /// Makes a connection to an address one of TLS, for a request.
    ///
    /// # Errors
    /// [`ConnectError`], but none of connecting.
    pub(super) async fn secure(
        &self,
        req: &Rc<Request>,
        stream: Stream,
        address: &Address,
    ) -> Result<Stream, ConnectError> {
        let settings = self.settings(address).await.map_err(ConnectError::Certificate)?;
        match &self.scripts {
            None => Ok(self.shake_hands(req, settings, stream).await?),
            // Boxed, since few have scripts.
            Some(scripts) => Box::pin(self.shake_hands_with_scripts(scripts, req, settings, stream)).await,
        }
    }

    async fn shake_hands_with_scripts(
        &self,
        scripts: &PeerScripts,
        req: &Rc<Request>,
        settings: Arc<ClientConfig>,
        stream: Stream,
    ) -> Result<Stream, ConnectError> {
        let handshake = Rc::new(PeerHandshake::with(self.versions));
        let settings = match &scripts.certificate {
            None => settings,
            Some(script) => {
                let decided = script.run(req, &handshake).wait().await;
                decided.map_err(|Refused| ConnectError::Refused(Reason::CALLBACK_FAILED))?;
                handshake.settings(settings).map_err(ConnectError::Certificate)?
            }
        };
        let stream = self.shake_hands(req, settings, stream).await?;
        if let Some(script) = &scripts.verify {
            stream.with_tls(|tls| handshake.met(tls));
            let decided = script.run(req, &handshake).wait().await;
            decided.map_err(|Refused| ConnectError::Refused(Reason::CERTIFICATE))?;
            match handshake.verdict() {
                0 => {}
                verdict => return Err(ConnectError::Verdict(verdict)),
            }
        }
        Ok(stream)
    }

    /// Makes a connection one of TLS, by the [`settings`](Self::settings).
    ///
    /// # Errors
    /// [`HandshakeError`].
    async fn shake_hands(
        &self,
        req: &Request,
        settings: Arc<ClientConfig>,
        stream: Stream,
    ) -> Result<Stream, HandshakeError> {
        let conn = ClientConnection::new(settings, self.server_name()).map_err(HandshakeError::Tls)?;
        let stream = stream.connect_tls(conn);
        match stream.as_tls() {
            Some(tls) => poll_fn(|cx| tls.poll_connect(cx)).await?,
            None => return Err(HandshakeError::NoSettings),
        }
        if enabled(req, Level::Debug) {
            tell(req, &stream);
        }
        Ok(stream)
    }
}

/// Writes what nginx says at the debug level of a handshake that is done.
#[cold]
fn tell(req: &Request, stream: &Stream) {
    for line in stream.with_tls(summary::of).into_iter().flatten() {
        req.log(Level::Debug, format_args!("{line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_port() {
        for (text, expected) in [
            ("example.com", "example.com"),
            ("example.com:8443", "example.com"),
            ("[::1]:8443", "::1"),
            ("[::1]", "::1"),
            ("::1", "::1"),
            ("[::1", "[::1"),
            (":", ""),
        ] {
            assert_eq!(without_port(text.as_bytes()).as_bstr(), expected, "{text}");
        }
    }
}
