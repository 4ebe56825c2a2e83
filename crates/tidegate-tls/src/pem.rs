//! Certificates, keys and lists of what is revoked in PEM (RFC 7468).

use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer,
    pem::{self, PemObject},
};

/// Why a text is not what it is for.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// It is not PEM.
    #[error("not PEM: {0}")]
    Syntax(#[source] pem::Error),
    /// It is PEM, but of something else.
    #[error("no {0} in it")]
    Nothing(&'static str),
    /// The key is encrypted, and no password opens it.
    #[error("the key is encrypted, and none of the passwords opens it")]
    Encrypted,
}

/// The certificates of a text, that of the server or client itself first.
///
/// # Errors
/// There is none, or something is not PEM.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    all(text, "certificate")
}

/// The lists of what is revoked in a text.
///
/// # Errors
/// There is none, or something is not PEM.
pub fn revocation_lists(text: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, PemError> {
    all(text, "certificate revocation list")
}

fn all<T: PemObject>(text: &[u8], what: &'static str) -> Result<Vec<T>, PemError> {
    let list = T::pem_slice_iter(text).collect::<Result<Vec<_>, _>>().map_err(PemError::Syntax)?;
    if list.is_empty() { Err(PemError::Nothing(what)) } else { Ok(list) }
}

/// The key of a text.
///
/// # Errors
/// There is none, or it is encrypted.
pub fn key(text: &[u8]) -> Result<PrivateKeyDer<'static>, PemError> {
    let encrypted = [&b"BEGIN ENCRYPTED PRIVATE KEY"[..], b"Proc-Type: 4,ENCRYPTED"];
    if encrypted.iter().any(|mark| memchr::memmem::find(text, mark).is_some()) {
        return Err(PemError::Encrypted);
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound => PemError::Nothing("private key"),
        other => PemError::Syntax(other),
    })
}
