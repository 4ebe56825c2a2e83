//! `sslhandshake`, and the `lua_ssl_*` directives about it.
//!
//! Sessions are resumed by the TLS library, which keeps them for each server; the session that scripts get and give back
//! is a token without content, made by the Lua half.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bstr::ByteSlice;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use tidegate_conf::diagnostic::Level as Severity;
use tidegate_conf::{Diagnostic, ast, values};
use tidegate_core::conf::Build;
use tidegate_core::inherit;
use tidegate_core::module::{Context, Directive, Module};
use tidegate_core::worker;
use tokio_rustls::TlsConnector;

use super::certificate::Identity;
use super::conn::Conn;
use super::failure::push_nil_error;
use super::owner::Closing;
use super::settings::Settings;
use super::tcp::{Busy, Call, Operation, Tcp, call};
use super::transport::{Io, Transport};
use super::x509::{Parts, Validity};
use crate::error::{CResult, LuaError};
use crate::host::{Host, LogLevel};
use crate::scheduler::{Answer, with_run};
use crate::stack::Lua;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub(crate) struct Conf {
    lua_ssl_trusted_certificate: Option<Arc<Vec<CertificateDer<'static>>>>,
    lua_ssl_crl: Option<Arc<Vec<CertificateRevocationListDer<'static>>>>,
    lua_ssl_certificate: Option<Arc<Vec<CertificateDer<'static>>>>,
    lua_ssl_certificate_key: Option<Arc<PrivateKeyDer<'static>>>,
    lua_ssl_protocols: Option<Versions>,
    lua_ssl_verify_depth: Option<u64>,
    lua_ssl_ciphers: Option<bstr::BString>,
}

/// Versions of the protocol that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Versions {
    tls12: bool,
    tls13: bool,
}

/// The module.
pub(crate) static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("lua_ssl_trusted_certificate", 1, 1, trusted)
            .within(Context::ALL)
            .syntax("file")
            .doc("Certificates of authorities that cosockets trust."),
        Directive::custom("lua_ssl_crl", 1, 1, revoked)
            .within(Context::ALL)
            .syntax("file")
            .doc("Certificates that are revoked."),
        Directive::custom("lua_ssl_certificate", 1, 1, |conf: &mut Conf, directive, build| {
            conf.lua_ssl_certificate = Some(Arc::new(read_pem(directive, build)?));
            Ok(())
        })
        .within(Context::ALL)
        .syntax("file")
        .doc("Certificate that cosockets show to servers that ask for one."),
        Directive::custom("lua_ssl_certificate_key", 1, 1, |conf: &mut Conf, directive, build| {
            conf.lua_ssl_certificate_key = read_pem(directive, build)?.into_iter().next().map(Arc::new);
            Ok(())
        })
        .within(Context::ALL)
        .syntax("file")
        .doc("The private key of `lua_ssl_certificate`."),
        Directive::custom("lua_ssl_protocols", 1, u16::MAX, protocols)
            .within(Context::ALL)
            .syntax("version ...")
            .default("TLSv1.2 TLSv1.3")
            .doc("Versions of TLS that cosockets use. Versions before 1.2 are not offered."),
        Directive::number("lua_ssl_verify_depth", |c: &mut Conf| &mut c.lua_ssl_verify_depth)
            .within(Context::ALL)
            .default("100")
            .doc("Certificates that may stand between a server's and a trusted one."),
        Directive::text("lua_ssl_ciphers", |c: &mut Conf| &mut c.lua_ssl_ciphers)
            .within(Context::ALL)
            .default("DEFAULT")
            .doc("Accepted: the TLS library offers strong ciphers only."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent;
            lua_ssl_trusted_certificate, lua_ssl_crl, lua_ssl_certificate, lua_ssl_certificate_key, lua_ssl_protocols, lua_ssl_verify_depth, lua_ssl_ciphers,
        );
    },
    example: "
        lua_ssl_trusted_certificate /etc/ssl/certs/ca-certificates.crt;
        lua_ssl_verify_depth 3;
    ",
    ..Module::named("lua_ssl")
};

fn read_pem<T: PemObject>(directive: &ast::Directive, build: &Build<'_>) -> Result<Vec<T>, Diagnostic> {
    // As in nginx, certificates are looked for beside the configuration.
    let path = build.conf_dir.join(OsStr::from_bytes(&directive.args[0].value));
    let fail = |why: String| {
        let message = format!("cannot load certificate \"{}\": {why}", path.display());
        Diagnostic::new(Severity::Emerg, directive.args[0].span, message)
    };
    let text = std::fs::read(&path).map_err(|error| fail(error.to_string()))?;
    let list = T::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>().map_err(|error| fail(error.to_string()))?;
    if list.is_empty() { Err(fail("no certificate in it".to_owned())) } else { Ok(list) }
}

fn trusted(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.lua_ssl_trusted_certificate = Some(Arc::new(read_pem(directive, build)?));
    Ok(())
}

fn revoked(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.lua_ssl_crl = Some(Arc::new(read_pem(directive, build)?));
    Ok(())
}

/// A word of `lua_ssl_protocols`.
#[derive(Clone, Copy)]
enum Version {
    /// Broken and not offered; configurations still list it beside the others.
    Broken,
    Tls12,
    Tls13,
}

const VERSIONS: &[(&str, Version)] = &[
    ("SSLv2", Version::Broken),
    ("SSLv3", Version::Broken),
    ("TLSv1", Version::Broken),
    ("TLSv1.1", Version::Broken),
    ("TLSv1.2", Version::Tls12),
    ("TLSv1.3", Version::Tls13),
];

fn protocols(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let mut versions = Versions { tls12: false, tls13: false };
    for arg in &directive.args {
        match values::word(arg.value.as_bstr(), VERSIONS) {
            Ok(Version::Tls12) => versions.tls12 = true,
            Ok(Version::Tls13) => versions.tls13 = true,
            Ok(Version::Broken) => {}
            Err(_) => {
                let message = format!("invalid value \"{}\"", arg.value.as_bstr());
                return Err(Diagnostic::new(Severity::Emerg, arg.span, message));
            }
        }
    }
    if !versions.tls12 && !versions.tls13 {
        let message = "\"lua_ssl_protocols\" names no version that is offered: TLSv1.2, TLSv1.3";
        return Err(Diagnostic::new(Severity::Emerg, directive.span, message));
    }
    conf.lua_ssl_protocols = Some(versions);
    Ok(())
}

/// Something of the configuration, or of a script. The same bytes count as the same thing, wherever they were read.
#[derive(Debug)]
struct Shared<T>(Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T: Eq> Eq for Shared<T> {}

/// All that a client's configuration is made of.
#[derive(Clone, PartialEq, Eq)]
struct Recipe {
    verify: bool,
    check_name: bool,
    depth_max: Option<u64>,
    versions: Versions,
    sni: bool,
    resume: bool,
    trusted: Option<Shared<Vec<CertificateDer<'static>>>>,
    revoked: Option<Shared<Vec<CertificateRevocationListDer<'static>>>>,
    identity: Option<Shared<Identity>>,
}

/// What a handshake demands of a connection, and what an encrypted connection has proved.
#[derive(Clone)]
pub(super) struct Demand {
    recipe: Recipe,
    server_name: Option<Vec<u8>>,
}

impl Demand {
    /// What is missing in a connection whose handshake has met `proved`, if anything is.
    ///
    /// A connection that shows a client certificate acts for its owner, so that it serves no script without that
    /// certificate.
    fn missing_in(&self, proved: &Self) -> Option<&'static str> {
        // How a server name is told and whether sessions are resumed says nothing about the peer; whether the name was
        // verified is in `verify`, as a name that is given is verified then.
        let Recipe { verify, check_name: _, depth_max, versions, sni: _, resume: _, trusted, revoked, identity } =
            &self.recipe;
        let other = &proved.recipe;
        let same_name =
            |name: &Vec<u8>| proved.server_name.as_ref().is_some_and(|other| other.eq_ignore_ascii_case(name));
        if *verify && !other.verify {
            return Some("its certificate was not verified");
        }
        if *verify && (*trusted != other.trusted || *revoked != other.revoked || *depth_max != other.depth_max) {
            return Some("its certificate was verified by other rules");
        }
        if !self.server_name.as_ref().is_none_or(same_name) {
            return Some("it was made for another server name");
        }
        if *identity != other.identity {
            return Some("it was made with another client certificate");
        }
        if (other.versions.tls12 && !versions.tls12) || (other.versions.tls13 && !versions.tls13) {
            return Some("it was made with other versions of TLS");
        }
        None
    }
}

thread_local! {
    /// Configurations made before: they also keep the sessions.
    static CLIENTS: RefCell<Vec<(Recipe, Arc<ClientConfig>)>> = const { RefCell::new(Vec::new()) };
}

/// Configurations kept for each worker; reloads leave old ones behind.
const CLIENTS_MAX: usize = 64;

fn client(recipe: &Recipe) -> Result<Arc<ClientConfig>, String> {
    let known = CLIENTS
        .with_borrow(|clients| clients.iter().find(|(known, _)| known == recipe).map(|(_, client)| client.clone()));
    if let Some(client) = known {
        return Ok(client);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = Arc::new(Verifier {
        chain: if recipe.verify { chain_verifier(recipe, &provider)? } else { None },
        trusted_alone: if recipe.verify && recipe.revoked.is_none() { recipe.trusted.clone() } else { None },
        roots: if recipe.verify && recipe.depth_max.is_some() { trusted_roots(recipe).map(Arc::new) } else { None },
        depth_max: recipe.depth_max,
        verify: recipe.verify,
        check_name: recipe.check_name,
        provider: provider.clone(),
    });
    let versions: &[&rustls::SupportedProtocolVersion] = match recipe.versions {
        Versions { tls12: true, tls13: false } => &[&rustls::version::TLS12],
        Versions { tls12: false, tls13: true } => &[&rustls::version::TLS13],
        _ => rustls::ALL_VERSIONS,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut client = match &recipe.identity {
        None => builder.with_no_client_auth(),
        Some(Shared(identity)) => builder
            .with_client_auth_cert(identity.chain.to_vec(), identity.key.clone_key())
            .map_err(|error| format!("bad client certificate: {error}"))?,
    };
    client.enable_sni = recipe.sni;
    if !recipe.resume {
        client.resumption = rustls::client::Resumption::disabled();
    }
    let client = Arc::new(client);
    CLIENTS.with_borrow_mut(|clients| {
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.push((recipe.clone(), client.clone()));
    });
    Ok(client)
}

fn trusted_roots(recipe: &Recipe) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(recipe.trusted.as_ref()?.0.iter().cloned());
    Some(roots)
}

fn chain_verifier(
    recipe: &Recipe,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<WebPkiServerVerifier>>, String> {
    let Some(roots) = trusted_roots(recipe) else { return Ok(None) };
    let mut builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    if let Some(Shared(revoked)) = &recipe.revoked {
        builder = builder.with_crls(revoked.iter().cloned());
    }
    builder.build().map(Some).map_err(|error| error.to_string())
}

/// Verifies what the script asks for.
#[derive(Debug)]
struct Verifier {
    /// None when nothing is trusted.
    chain: Option<Arc<WebPkiServerVerifier>>,
    /// What is trusted, without lists of what is revoked: a certificate of these that vouches for itself needs no chain.
    trusted_alone: Option<Shared<Vec<CertificateDer<'static>>>>,
    /// What is trusted, where the length of chains is limited.
    roots: Option<Arc<RootCertStore>>,
    /// How many certificates may stand between the server's and a trusted one.
    depth_max: Option<u64>,
    verify: bool,
    check_name: bool,
    provider: Arc<CryptoProvider>,
}

/// More certificates than this are not tried out for a short chain.
const CHAIN_SEARCH_MAX: usize = 8;

impl Verifier {
    /// Verifies a certificate that is trusted itself and vouches for itself, as OpenSSL does. The library would refuse it: for
    /// its version, or since it is an authority's.
    fn verify_alone(
        &self,
        certificate: &CertificateDer<'_>,
        parts: &Parts<'_>,
        server_name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match parts.validity_at(now.as_secs()) {
            Some(Validity::Now) => {}
            Some(Validity::NotYet) => return Err(CertificateError::NotValidYet.into()),
            Some(Validity::Expired) => return Err(CertificateError::Expired.into()),
            None => return Err(CertificateError::BadEncoding.into()),
        }
        match server_name {
            _ if !self.check_name => {}
            ServerName::DnsName(name) if !parts.has_alternative_names => {
                if !parts.is_named(name.as_ref().as_bytes()) {
                    return Err(CertificateError::NotValidForName.into());
                }
            }
            name => verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?,
        }
        Ok(ServerCertVerified::assertion())
    }

    /// `lua_ssl_verify_depth`. The library does not tell which way it took, so that it is offered no more certificates than
    /// a chain may have: if it finds a way with some choice of them, there is a short one.
    fn check_depth(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let (Some(roots), Some(depth_max)) = (&self.roots, self.depth_max) else { return Ok(()) };
        let depth_max = usize::try_from(depth_max).unwrap_or(usize::MAX);
        if intermediates.len() <= depth_max {
            return Ok(());
        }
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let searched = &intermediates[..intermediates.len().min(CHAIN_SEARCH_MAX)];
        let algorithms = self.provider.signature_verification_algorithms.all;
        for choice in 0_u32..1 << searched.len() {
            if choice.count_ones() as usize != depth_max.min(searched.len()) {
                continue;
            }
            let chosen = (0..).zip(searched).filter(|(bit, _)| choice >> bit & 1 == 1);
            let chosen: Vec<_> = chosen.map(|(_, certificate)| certificate.clone()).collect();
            if verify_server_cert_signed_by_trust_anchor(&parsed, roots, &chosen, now, algorithms).is_ok() {
                return Ok(());
            }
        }
        // Without any way at all, that is what there is to say.
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)?;
        Err(CertificateError::Other(OtherError(Arc::new(ChainTooLong))).into())
    }
}

/// Verifies what a server has signed with a key that the library does not take out of its certificate.
fn verify_by_key(
    message: &[u8],
    public_key: &[u8],
    dss: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let key = SubjectPublicKeyInfoDer::from(public_key);
    let Ok(key) = webpki::RawPublicKeyEntity::try_from(&key) else { return Err(CertificateError::BadEncoding.into()) };
    let mut suitable =
        algorithms.mapping.iter().filter(|(scheme, _)| *scheme == dss.scheme).flat_map(|(_, list)| *list);
    if suitable.any(|algorithm| key.verify_signature(*algorithm, message, dss.signature()).is_ok()) {
        return Ok(HandshakeSignatureValid::assertion());
    }
    Err(CertificateError::BadSignature.into())
}

fn vouches_for_itself(certificate: &CertificateDer<'_>) -> bool {
    Parts::of(certificate).is_some_and(|parts| parts.is_self_issued())
}

/// Why nothing trusted was found above a certificate, with the difference that OpenSSL makes.
fn untrusted(end_entity: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) -> Error {
    if vouches_for_itself(end_entity) {
        CertificateError::Other(OtherError(Arc::new(SelfSigned::Alone))).into()
    } else if intermediates.iter().any(vouches_for_itself) {
        CertificateError::Other(OtherError(Arc::new(SelfSigned::InChain))).into()
    } else {
        CertificateError::UnknownIssuer.into()
    }
}

/// A chain ends with a certificate that vouches for itself and is not trusted.
#[derive(Debug, thiserror::Error)]
enum SelfSigned {
    #[error("18: self-signed certificate")]
    Alone,
    #[error("19: self-signed certificate in certificate chain")]
    InChain,
}

/// A chain of certificates is longer than `lua_ssl_verify_depth` allows.
#[derive(Debug, thiserror::Error)]
#[error("certificate chain too long")]
struct ChainTooLong;

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.verify {
            return Ok(ServerCertVerified::assertion());
        }
        let Some(chain) = &self.chain else { return Err(untrusted(end_entity, intermediates)) };
        let parts = Parts::of(end_entity);
        let is_trusted = self.trusted_alone.as_ref().is_some_and(|Shared(trusted)| trusted.contains(end_entity));
        if let Some(parts) = parts.as_ref().filter(|parts| is_trusted && parts.is_self_issued()) {
            return self.verify_alone(end_entity, parts, server_name, now);
        }
        if parts.is_some_and(|parts| parts.is_version_1) {
            return Err(untrusted(end_entity, intermediates));
        }
        self.check_depth(end_entity, intermediates, now)?;
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                Err(untrusted(end_entity, intermediates))
            }
            // An authority's own certificate: the library does not look for who vouches for it.
            Err(Error::InvalidCertificate(CertificateError::Other(_))) if vouches_for_itself(end_entity) => {
                Err(untrusted(end_entity, intermediates))
            }
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.check_name => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        match Parts::of(cert).filter(|parts| parts.is_version_1) {
            Some(parts) => verify_by_key(message, parts.public_key, dss, algorithms),
            None => rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        match Parts::of(cert).filter(|parts| parts.is_version_1) {
            Some(parts) => {
                let key = SubjectPublicKeyInfoDer::from(parts.public_key);
                rustls::crypto::verify_tls13_signature_with_raw_key(message, &key, dss, algorithms)
            }
            None => rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// `sslhandshake(socket, session?, server_name?, verify?, send_status_req?)`: `1` where the Lua half is to give a session,
/// `true` where the script wants none.
pub(super) fn handshake(lua: &mut Lua) -> CResult {
    if !(1..=5).contains(&lua.top()) {
        let text = "ngx.socket sslhandshake: expecting 1 ~ 5 arguments (including the object), but seen";
        return Err(LuaError::from(format!("{text} {}", lua.top())));
    }
    let Call { tcp, host } = call(lua)?;
    let wants_session = lua.is_none_or_nil(2) || lua.to_bool(2);
    let server_name = lua.to_bytes(3).map(<[u8]>::to_vec);
    let verify = lua.to_bool(4);
    if lua.to_bool(5) {
        return push_nil_error(lua, "no OCSP support");
    }
    let conn = tcp.conn().filter(|conn| !conn.read_closed() && !conn.write_closed.get());
    let Some(conn) = conn else { return push_nil_error(lua, "closed") };
    let all = &[Operation::Connect, Operation::Read, Operation::Write];
    if let Err(refusal) = tcp.check_owner(&host).and_then(|()| tcp.check_idle(all)) {
        return refusal.end(lua);
    }
    if conn.is_downstream() {
        return push_nil_error(lua, "not supported for downstream sockets");
    }
    let identity = tcp.identity.borrow().clone();
    let named = server_name.is_some();
    let recipe = recipe(&host, verify, named, named && wants_session, identity);
    let demand = Demand { recipe, server_name };
    // A connection of a pool: its handshake was done, for whoever made it.
    let missing = conn.proved.borrow().as_ref().map(|proved| demand.missing_in(proved));
    match missing {
        Some(None) => return push_session(lua, wants_session),
        Some(Some(missing)) => {
            tcp.close_now();
            return push_nil_error(lua, &format!("the connection of the pool does not fit: {missing}"));
        }
        None => {}
    }
    let name = match &demand.server_name {
        None => ServerName::from(std::net::IpAddr::from(Ipv4Addr::UNSPECIFIED)),
        Some(name) => match std::str::from_utf8(name).ok().and_then(|name| ServerName::try_from(name).ok()) {
            Some(name) => name.to_owned(),
            None => return push_nil_error(lua, "invalid server name"),
        },
    };
    let client = match client(&demand.recipe) {
        Ok(client) => client,
        Err(message) => return push_nil_error(lua, &message),
    };
    let settings = Settings::of(&host);
    let limit = tcp.connect_timeout.get().unwrap_or(settings.connect_timeout);
    let busy = tcp.occupy(Operation::Connect);
    let job = Job { tcp, conn, host, client, name, demand, wants_session };
    with_run(|run| run.wait(lua, job.run(limit, settings.log_errors, busy)))
        .unwrap_or(Err(LuaError::new("no request found")))?;
    Ok(0)
}

/// What a handshake of a script of `host` is made with.
fn recipe(host: &Host, verify: bool, named: bool, resume: bool, identity: Option<Arc<Identity>>) -> Recipe {
    with_conf(host, |conf| {
        let configured = || {
            let (chain, key) = (conf.lua_ssl_certificate.clone()?, conf.lua_ssl_certificate_key.clone()?);
            Some(Arc::new(Identity { chain, key }))
        };
        Recipe {
            verify,
            check_name: named,
            depth_max: conf.lua_ssl_verify_depth,
            versions: conf.lua_ssl_protocols.unwrap_or(Versions { tls12: true, tls13: true }),
            sni: named,
            resume,
            trusted: conf.lua_ssl_trusted_certificate.clone().map(Shared),
            revoked: conf.lua_ssl_crl.clone().map(Shared),
            identity: identity.or_else(configured).map(Shared),
        }
    })
}

/// The configuration of a client that verifies, if it verifies, whom the server's certificate is from, not whom it is
/// for; as the `lua_ssl_*` directives where `host` is have it.
///
/// # Errors
/// Why there is none, as a sentence.
pub(crate) fn client_without_name(host: &Host, verify: bool) -> Result<Arc<ClientConfig>, String> {
    client(&recipe(host, verify, false, false, None))
}

/// What scripts get for a certificate that was refused, in OpenSSL's words; `None` for other failures.
pub(crate) fn explain_certificate(error: &std::io::Error) -> Option<String> {
    let Some(Error::InvalidCertificate(reason)) = error.get_ref()?.downcast_ref::<Error>() else { return None };
    Some(match reason {
        CertificateError::UnknownIssuer => "20: unable to get local issuer certificate".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "10: certificate has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "9: certificate is not yet valid".to_owned()
        }
        CertificateError::Other(other) if other.0.is::<SelfSigned>() => other.0.to_string(),
        CertificateError::Other(other) if other.0.is::<ChainTooLong>() => "22: certificate chain too long".to_owned(),
        CertificateError::Revoked => "23: certificate revoked".to_owned(),
        other => format!("1: {other}"),
    })
}

fn push_session(lua: &mut Lua, wants_session: bool) -> CResult {
    if wants_session {
        lua.push_integer(1);
    } else {
        lua.push_bool(true);
    }
    Ok(1)
}

fn with_conf<R>(host: &Host, body: impl FnOnce(&Conf) -> R) -> R {
    match host.request() {
        Some(req) => body(req.module_conf(&MODULE)),
        None => match worker::config() {
            Some(config) => body(config.http_conf(&MODULE)),
            None => body(&Conf::default()),
        },
    }
}

struct Job {
    tcp: Rc<Tcp>,
    conn: Rc<Conn>,
    host: Host,
    client: Arc<ClientConfig>,
    name: ServerName<'static>,
    demand: Demand,
    wants_session: bool,
}

impl Job {
    async fn run(self, limit: Duration, log_errors: bool, busy: Busy) -> Answer {
        let plain = self.conn.transport().replace(Transport::Plain(tidegate_net::stream::Stream::Closed));
        let Transport::Plain(stream) = plain else { return Answer::NilError("closed".into()) };
        let connecting = TlsConnector::from(self.client.clone()).connect(self.name.clone(), Io(stream));
        let connected = tokio::time::timeout(limit, connecting).await;
        drop(busy);
        let message = match connected {
            Ok(Ok(stream)) => {
                self.conn.transport().replace(Transport::Tls(Box::new(RefCell::new(stream))));
                self.conn.proved.replace(Some(Box::new(self.demand)));
                let wants_session = self.wants_session;
                return Answer::Push(Box::new(move |lua| push_session(lua, wants_session)));
            }
            Err(_) => {
                if log_errors {
                    self.host.log(LogLevel::Error, b"lua ssl handshake timed out");
                }
                "timeout".to_owned()
            }
            Ok(Err(error)) => self.explain(&error, log_errors),
        };
        self.tcp.close_now();
        Answer::NilError(message.into())
    }

    /// What the script gets for a failed handshake, in OpenSSL's words.
    fn explain(&self, error: &std::io::Error, log_errors: bool) -> String {
        let log = |text: String| {
            if log_errors {
                self.host.log(LogLevel::Error, text.as_bytes());
            }
        };
        let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        if let Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) = cause
        {
            let name = self.demand.server_name.as_deref().unwrap_or_default().as_bstr();
            log(format!("lua ssl certificate does not match host \"{name}\""));
            return "certificate host mismatch".to_owned();
        }
        let Some(verify) = explain_certificate(error) else {
            log(format!("SSL_do_handshake() failed ({error})"));
            return "handshake failed".to_owned();
        };
        log(format!("lua ssl certificate verify error: ({verify})"));
        verify
    }
}
