//! Certificates with their keys, read from PEM files.

use std::{io, path::Path, sync::Arc};

use rustls::{
    SignatureAlgorithm,
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject as _},
    },
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use crate::{files, log::SysError};

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    /// A file cannot be read.
    #[error("{}", SysError(_0))]
    Read(#[source] io::Error),
    /// A file is not PEM, or has nothing of what it is for.
    #[error("({0})")]
    Pem(pem::Error),
    /// A key is encrypted.
    #[error("(the key is encrypted, which is not supported yet)")]
    Encrypted,
    /// The key is of a kind that nobody can sign with, or is not that of the certificate.
    #[error("({0})")]
    Tls(rustls::Error),
}

/// The certificates in a file, that of the server first.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, KeyError> {
    let text = files::read(path).map_err(KeyError::Read)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(KeyError::Pem)?;
    if chain.is_empty() { Err(KeyError::Pem(pem::Error::NoItemsFound)) } else { Ok(chain) }
}

/// The key in a file.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, KeyError> {
    let text = files::read(path).map_err(KeyError::Read)?;
    let encrypted = [&b"BEGIN ENCRYPTED PRIVATE KEY"[..], b"Proc-Type: 4,ENCRYPTED"];
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let is_encrypted = encrypted.iter().any(|mark| memchr::memmem::find(&text, mark).is_some());
        if is_encrypted { KeyError::Encrypted } else { KeyError::Pem(error) }
    })
}

/// A certificate with its key.
pub(super) fn pair(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, KeyError> {
    CertifiedKey::from_der(chain, key, provider).map(Arc::new).map_err(KeyError::Tls)
}

/// The certificates of a server, one for each type of key.
#[derive(Debug)]
pub(super) struct Certificates(Vec<Arc<CertifiedKey>>);

impl Certificates {
    /// Those of RSA are the last choice: their signatures cost most.
    pub(super) fn new(mut pairs: Vec<Arc<CertifiedKey>>) -> Self {
        pairs.sort_by_key(|pair| pair.key.algorithm() == SignatureAlgorithm::RSA);
        Certificates(pairs)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let fits = |pair: &&Arc<CertifiedKey>| pair.key.choose_scheme(hello.signature_schemes()).is_some();
        // A client that supports none is told so by the handshake.
        self.0.iter().find(fits).or(self.0.first()).cloned()
    }
}
