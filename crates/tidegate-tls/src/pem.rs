//! Certificates, keys and lists of what is revoked in PEM (RFC 7468).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer,
    pem::{self, PemObject},
};

use crate::{old_encryption, x509};

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
    #[error("the key is encrypted, and no password opens it")]
    Encrypted,
    /// The key is encrypted in the old way of OpenSSL, with a cipher that is not known.
    #[error("the key is encrypted with \"{0}\", which is not known: make a new file with \"openssl pkcs8 -topk8\"")]
    Cipher(String),
}

/// The certificates of a text, that of the server or client itself first.
///
/// # Errors
/// There is none, or something is not PEM.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    all(text, "certificate")
}

/// Certificates in DER, one after the other; `None` if there is none, or something else.
pub fn certificates_of_der(bytes: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let mut rest = bytes;
    let mut list = Vec::new();
    while !rest.is_empty() {
        let (certificate, behind) = x509::next(rest)?;
        x509::Parts::of(certificate)?;
        list.push(CertificateDer::from(certificate.to_vec()));
        rest = behind;
    }
    (!list.is_empty()).then_some(list)
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

/// The key of a text. If it is encrypted, the passwords are tried one after the other.
///
/// # Errors
/// There is none, or no password opens it.
pub fn key(text: &[u8], passwords: &[Vec<u8>]) -> Result<PrivateKeyDer<'static>, PemError> {
    if let Some(sealed) = old_encryption::find(text) {
        let sealed = sealed?;
        return passwords.iter().find_map(|password| sealed.open(password)).ok_or(PemError::Encrypted);
    }
    if let Some(sealed) = encrypted(text) {
        return decrypt(&sealed?, passwords);
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound => PemError::Nothing("private key"),
        other => PemError::Syntax(other),
    })
}

/// The encrypted key in a text, if there is one.
fn encrypted(text: &[u8]) -> Option<Result<Vec<u8>, PemError>> {
    const BEGIN: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    const END: &[u8] = b"-----END ENCRYPTED PRIVATE KEY-----";
    let start = memchr::memmem::find(text, BEGIN)? + BEGIN.len();
    let Some(len) = memchr::memmem::find(&text[start..], END) else {
        return Some(Err(PemError::Syntax(pem::Error::MissingSectionEnd { end_marker: END.to_vec() })));
    };
    let digits: Vec<u8> = text[start..start + len].iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    Some(STANDARD.decode(digits).map_err(|error| PemError::Syntax(pem::Error::Base64Decode(error.to_string()))))
}

fn decrypt(sealed: &[u8], passwords: &[Vec<u8>]) -> Result<PrivateKeyDer<'static>, PemError> {
    let sealed = EncryptedPrivateKeyInfoRef::try_from(sealed).map_err(|_| PemError::Nothing("private key"))?;
    let opened = passwords.iter().find_map(|password| sealed.decrypt(password).ok());
    let opened = opened.ok_or(PemError::Encrypted)?;
    Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(opened.as_bytes().to_vec())))
}

/// The passwords of a file, one in each line.
///
/// Source: nginx, `ssl_password_file`.
pub fn passwords(text: &[u8]) -> Vec<Vec<u8>> {
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes128 -pass pass:tide`
    const SEALED: &str = include_str!("../tests/encrypted.key");

    #[test]
    fn passwords_open_keys() {
        let words = passwords(b"wrong\r\n\ntide\n");
        assert_eq!(words, [b"wrong".to_vec(), b"tide".to_vec()]);
        assert!(matches!(key(SEALED.as_bytes(), &words), Ok(PrivateKeyDer::Pkcs8(_))));
        assert!(matches!(key(SEALED.as_bytes(), &words[..1]), Err(PemError::Encrypted)));
        assert!(matches!(key(SEALED.as_bytes(), &[]), Err(PemError::Encrypted)));
        for cut in 0..SEALED.len() - 1 {
            assert!(key(&SEALED.as_bytes()[..cut], &words).is_err() || SEALED.len() - cut < 3, "{cut}");
        }
    }
}
