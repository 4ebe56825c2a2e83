//! How we speak TLS to servers: of proxies, cosockets and databases.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, InconsistentKeys, KeyLog, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
    },
    sign::{CertifiedKey, SingleCertAndKey},
};

use crate::{
    Shared,
    ciphers::Choice,
    client_sessions::SharedClient,
    provider,
    verify::{BadList, Rules, Side, untrusted, verify_name},
    versions::Versions,
    x509::Parts,
};

/// What a client proves itself with.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its certificate, then those that lead to an authority.
    pub chain: Arc<Vec<CertificateDer<'static>>>,
    /// The key of the certificate.
    pub key: Arc<PrivateKeyDer<'static>>,
}

/// All that a client's configuration is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// The server's certificate has to come from a trusted one.
    pub verify: bool,
    /// And it has to be for the server's name.
    pub check_name: bool,
    /// Faults are looked for beyond the first one, as nginx does, which changes the one that is told.
    pub continues: bool,
    /// Certificates that may stand between the server's and a trusted one.
    pub depth_max: Option<u64>,
    /// Versions of TLS.
    pub versions: Versions,
    /// Suites and groups.
    pub ciphers: Choice,
    /// The server is told its name (SNI).
    pub sends_name: bool,
    /// Sessions are kept and resumed.
    pub resumes: bool,
    /// Certificates that are trusted; without any, no server is.
    pub trusted: Option<Shared<Vec<CertificateDer<'static>>>>,
    /// Lists of what is revoked.
    pub revoked: Option<Shared<Vec<CertificateRevocationListDer<'static>>>>,
    /// What is shown to servers that ask.
    pub identity: Option<Shared<Identity>>,
    /// Who is told the secrets of connections.
    pub secrets: Option<Secrets>,
}

/// Who is told the secrets of connections. The same object counts as the same one.
#[derive(Debug, Clone)]
pub struct Secrets(pub Arc<dyn KeyLog>);

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        Arc::as_ptr(&self.0).addr() == Arc::as_ptr(&other.0).addr()
    }
}

impl Eq for Secrets {}

impl Default for ClientOptions {
    /// Speaks to any server.
    fn default() -> Self {
        Self {
            verify: false,
            check_name: false,
            continues: false,
            depth_max: None,
            versions: Versions::ALL,
            ciphers: Choice::default(),
            sends_name: true,
            resumes: true,
            trusted: None,
            revoked: None,
            identity: None,
            secrets: None,
        }
    }
}

/// Why options make no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A list of what is revoked cannot be used.
    #[error("bad certificate revocation list: {0}")]
    Revoked(#[source] BadList),
    /// The key is not that of the certificate, or of a kind that nobody can sign with.
    #[error("bad client certificate: {0}")]
    Identity(#[source] Error),
    /// No version of TLS is left.
    #[error("{0}")]
    Versions(#[source] Error),
}

impl ClientOptions {
    /// The configuration, which those with the same options share, with its sessions.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn shared(&self) -> Result<Arc<SharedClient>, ClientError> {
        static KNOWN: Mutex<Vec<(ClientOptions, Weak<SharedClient>)>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, client)| client.strong_count() > 0);
        if let Some(client) = known.iter().find(|(options, _)| options == self).and_then(|(_, client)| client.upgrade())
        {
            return Ok(client);
        }
        let client = Arc::new(SharedClient::new(self.client()?, self.resumes));
        known.push((self.clone(), Arc::downgrade(&client)));
        Ok(client)
    }

    /// Makes a configuration of its own.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn client(&self) -> Result<Arc<ClientConfig>, ClientError> {
        let rules = match &self.trusted {
            Some(trusted) if self.verify => {
                let revoked = self.revoked.as_ref().map_or(&[][..], |revoked| &revoked.0);
                Some(Rules::new(&trusted.0, revoked, self.depth_max).map_err(ClientError::Revoked)?)
            }
            _ => None,
        };
        let verifier = Verifier { rules, verify: self.verify, check_name: self.check_name, continues: self.continues };
        let builder = ClientConfig::builder_with_provider(self.ciphers.provider())
            .with_protocol_versions(&self.versions.list())
            .map_err(ClientError::Versions)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut client = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(Shared(identity)) => {
                let pair = certified(identity.chain.to_vec(), identity.key.clone_key(), &provider());
                builder
                    .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair.map_err(ClientError::Identity)?)))
            }
        };
        client.enable_sni = self.sends_name;
        if let Some(Secrets(secrets)) = &self.secrets {
            client.key_log = secrets.clone();
        }
        if !self.resumes {
            client.resumption = Resumption::disabled();
        }
        Ok(Arc::new(client))
    }
}

/// A certificate, whatever its version, with its key.
///
/// # Errors
/// The key is not that of the certificate, or of a kind that nobody can sign with.
pub fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Error> {
    let key = provider.key_provider.load_private_key(key)?;
    let parts = chain.first().and_then(|certificate| Parts::of(certificate));
    match (parts, key.public_key()) {
        (Some(parts), Some(public)) if public.as_ref() != parts.public_key => Err(InconsistentKeys::KeyMismatch.into()),
        (None, _) => Err(CertificateError::BadEncoding.into()),
        _ => Ok(CertifiedKey::new(chain, key)),
    }
}

/// Certificates of the authorities that this system trusts.
///
/// # Errors
/// There are none, or they cannot be read.
pub fn system_roots() -> io::Result<Vec<CertificateDer<'static>>> {
    let found = rustls_native_certs::load_native_certs();
    match found.errors.into_iter().next() {
        Some(error) if found.certs.is_empty() => Err(io::Error::other(error)),
        _ if found.certs.is_empty() => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(found.certs),
    }
}

/// Verifies servers' certificates.
#[derive(Debug)]
struct Verifier {
    /// None when nothing is trusted.
    rules: Option<Rules>,
    verify: bool,
    check_name: bool,
    continues: bool,
}

/// Verifies what a peer has signed with a key that the library does not take out of its certificate.
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

/// The parts of a certificate that the library does not read: one of version 1, or with a critical extension that nobody knows.
/// Whether such a certificate is accepted is not for its key to say.
fn unread<'c>(cert: &'c CertificateDer<'_>) -> Option<Parts<'c>> {
    if webpki::EndEntityCert::try_from(cert).is_ok() { None } else { Parts::of(cert) }
}

/// Verifies what a peer has signed in TLS 1.2, whatever its certificate.
pub(crate) fn verify_signature_tls12(
    message: &[u8],
    cert: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = &provider().signature_verification_algorithms;
    match unread(cert) {
        Some(parts) => verify_by_key(message, parts.public_key, dss, algorithms),
        None => verify_tls12_signature(message, cert, dss, algorithms),
    }
}

/// Verifies what a peer has signed in TLS 1.3, whatever its certificate.
pub(crate) fn verify_signature_tls13(
    message: &[u8],
    cert: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = &provider().signature_verification_algorithms;
    match unread(cert) {
        Some(parts) => {
            let key = SubjectPublicKeyInfoDer::from(parts.public_key);
            rustls::crypto::verify_tls13_signature_with_raw_key(message, &key, dss, algorithms)
        }
        None => verify_tls13_signature(message, cert, dss, algorithms),
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.verify {
            let verified = match &self.rules {
                Some(rules) => rules.verify(end_entity, intermediates, Side::Server, now),
                None => Err(untrusted(end_entity, intermediates)),
            };
            verified.map_err(|error| if self.continues { error.of_all_faults(intermediates) } else { error })?;
            if self.check_name {
                verify_name(end_entity, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature_tls12(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature_tls13(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
