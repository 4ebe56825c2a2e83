//! Certificates that change while the server runs: another thread puts the next one here, and the next handshake shows it.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::{pki_types::CertificateDer, sign::CertifiedKey};

use crate::{
    client::certified,
    pem::{self, PemError},
    provider,
    x509::{Parts, elements},
};

/// A certificate with its key, in the forms that it is used in.
#[derive(Debug)]
pub struct Material {
    /// For handshakes.
    pub certified: Arc<CertifiedKey>,
    /// The certificate and those that lead to its authority, in PEM.
    pub chain: String,
    /// The key in PEM.
    pub key: String,
    /// The server has made it itself, until an authority has given one.
    pub is_provisional: bool,
}

/// Why texts are no certificate with its key.
#[derive(Debug, thiserror::Error)]
pub enum MaterialError {
    /// A text is not what it is for.
    #[error("{0}")]
    Pem(#[from] PemError),
    /// The key is not that of the certificate, or of a kind that nobody can sign with.
    #[error("{0}")]
    Key(#[source] rustls::Error),
}

impl Material {
    /// Understands a chain and a key, both in PEM.
    ///
    /// # Errors
    /// [`MaterialError`].
    pub fn of_pem(chain: String, key: String) -> Result<Self, MaterialError> {
        let certificates = pem::certificates(chain.as_bytes())?;
        let secret = pem::key(key.as_bytes(), &[])?;
        let certified = certified(certificates, secret, &provider()).map_err(MaterialError::Key)?;
        Ok(Self { certified: Arc::new(certified), chain, key, is_provisional: false })
    }

    fn end_entity(&self) -> Option<&CertificateDer<'static>> {
        self.certified.cert.first()
    }

    /// First and last second of the certificate's time, since 1970.
    pub fn times(&self) -> Option<(i64, i64)> {
        Parts::of(self.end_entity()?)?.times()
    }

    /// What its authority calls it (RFC 9773, section 4.1): the identifier of the authority's key, and the serial number.
    pub fn identity(&self) -> Option<(&[u8], &[u8])> {
        const AUTHORITY_KEY_IDENTIFIER: &[u8] = b"\x55\x1d\x23";
        /// `keyIdentifier [0] IMPLICIT OCTET STRING`
        const KEY_IDENTIFIER: u8 = 0x80;
        let parts = Parts::of(self.end_entity()?)?;
        let extension = parts.extensions().find(|extension| extension.kind == AUTHORITY_KEY_IDENTIFIER)?;
        let (_, fields) = elements(extension.value).next()?;
        let (_, key) = elements(fields).find(|(tag, _)| *tag == KEY_IDENTIFIER)?;
        Some((key, parts.serial))
    }
}

/// The certificate of the moment.
#[derive(Debug)]
pub struct Managed {
    current: RwLock<Arc<Material>>,
}

impl Managed {
    /// Begins with `first`.
    pub fn new(first: Material) -> Self {
        Self { current: RwLock::new(Arc::new(first)) }
    }

    /// What is shown now. A handshake holds it to its own end.
    pub fn current(&self) -> Arc<Material> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows `next` from the next handshake on.
    pub fn replace(&self, next: Material) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }
}
