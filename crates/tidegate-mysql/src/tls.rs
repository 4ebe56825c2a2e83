//! TLS for the client's side: which servers are trusted.

use std::{fmt, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};

/// What is verified of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsVerify {
    /// Nothing: TLS then protects against listeners, but not against an attacker who can change the bytes.
    None,
    /// That a trusted authority signed it.
    Authority,
    /// That, and that it is for the server's name.
    #[default]
    Full,
}

/// What a [`TlsClient`] is made of.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// The part of the certificate that is verified.
    pub verify: TlsVerify,
    /// Trusted authorities, PEM.
    pub authorities: Vec<u8>,
    /// The client's certificate chain, PEM; empty for none.
    pub certificate: Vec<u8>,
    /// The key of the client's certificate, PEM.
    pub key: Vec<u8>,
    /// Name to verify instead of the address' host.
    pub server_name: Option<String>,
}

/// Why no [`TlsClient`] could be made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Verification without trusted authorities.
    #[error("verifying the server's certificate needs the certificates of trusted authorities")]
    NoAuthorities,
    /// The file is not PEM.
    #[error("cannot read {what}")]
    Pem {
        /// Kind of the file that was read.
        what: &'static str,
        /// Cause.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// Certificate and key do not fit, or a certificate is not usable.
    #[error("cannot use the certificates: {0}")]
    Certificate(String),
}

/// How connections are encrypted; made once, shared by all. It also remembers sessions, to resume them.
#[derive(Clone)]
pub struct TlsClient {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) server_name: Option<String>,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

impl TlsClient {
    /// Takes a configuration made elsewhere. `server_name` is verified instead of the address' host.
    pub fn from_config(config: Arc<ClientConfig>, server_name: Option<String>) -> Self {
        Self { config, server_name }
    }

    /// Checks the options and prepares what all connections share.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(options: &TlsOptions) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let bad = |error: Error| TlsError::Certificate(error.to_string());
        let verifier: Arc<dyn ServerCertVerifier> = match options.verify {
            TlsVerify::None => Arc::new(AnyServer(Arc::clone(&provider))),
            TlsVerify::Authority => Arc::new(AnyName(web_verifier(options, &provider)?)),
            TlsVerify::Full => web_verifier(options, &provider)?,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(bad)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = if options.certificate.is_empty() {
            builder.with_no_client_auth()
        } else {
            let chain = certificates(&options.certificate, "the client's certificate")?;
            let pem = |source| TlsError::Pem { what: "the client's key", source };
            let key = PrivateKeyDer::from_pem_slice(&options.key).map_err(pem)?;
            builder.with_client_auth_cert(chain, key).map_err(bad)?
        };
        Ok(Self { config: Arc::new(config), server_name: options.server_name.clone() })
    }
}

fn certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|source| TlsError::Pem { what, source })
}

fn web_verifier(options: &TlsOptions, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&options.authorities, "the trusted authorities")? {
        roots.add(certificate).map_err(|error| TlsError::Certificate(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(TlsError::NoAuthorities);
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| TlsError::Certificate(error.to_string()))
}

/// Trusts every server that has the key of the certificate it shows.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Trusts a server whose certificate an authority signed, whatever name it is for.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is what the verifier looks at last: whoever gets this far has passed everything else.
        match self.0.verify_server_cert(certificate, chain, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
