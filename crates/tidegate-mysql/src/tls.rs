//! TLS for the client's side: which servers are trusted.

use std::{fmt, sync::Arc};

use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tidegate_tls::{
    Shared,
    client::{ClientOptions, Identity},
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
        let verify = options.verify != TlsVerify::None;
        let authorities =
            if verify { certificates(&options.authorities, "the trusted authorities")? } else { Vec::new() };
        if verify && authorities.is_empty() {
            return Err(TlsError::NoAuthorities);
        }
        let identity = if options.certificate.is_empty() {
            None
        } else {
            let chain = certificates(&options.certificate, "the client's certificate")?;
            let pem = |source| TlsError::Pem { what: "the client's key", source };
            let key = PrivateKeyDer::from_pem_slice(&options.key).map_err(pem)?;
            Some(Shared(Arc::new(Identity { chain: Arc::new(chain), key: Arc::new(key) })))
        };
        let client = ClientOptions {
            verify,
            check_name: options.verify == TlsVerify::Full,
            trusted: Some(Shared(Arc::new(authorities))),
            identity,
            ..ClientOptions::default()
        };
        let config = client.client().map_err(|error| TlsError::Certificate(error.to_string()))?;
        Ok(Self { config, server_name: options.server_name.clone() })
    }
}

fn certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|source| TlsError::Pem { what, source })
}
