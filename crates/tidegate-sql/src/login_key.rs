//! The engine's RSA key, for which clients of `caching_sha2_password` without TLS encrypt their passwords.
//!
//! It stands in the data directory under MySQL's names, so that clients may be given its public half once and for all. It is
//! made when somebody wants it for the first time; a key that is there already, in PKCS #8 or PKCS #1, is taken as it is.
//!
//! Source: MySQL's documentation, "Creating SSL and RSA Certificates and Keys"; RFC 7468 for the form of the files.

use std::{
    fmt, fs, io,
    sync::{Arc, OnceLock},
};

use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der},
    error::{KeyRejected, Unspecified},
    rsa::{KeyPair, KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, PrivateDecryptingKey},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{directory::Directory, settings::Settings};

/// Its name in the data directory.
const PRIVATE: &str = "private_key.pem";
/// The name of its public half.
const PUBLIC: &str = "public_key.pem";
/// Characters of a line of a key.
const LINE_SIZE: usize = 64;

/// An RSA key of 2048 bits, or that which was found.
pub struct LoginKey {
    private: OaepPrivateDecryptingKey,
    public: Arc<str>,
}

impl fmt::Debug for LoginKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginKey")
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error("private_key.pem cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("private_key.pem is no RSA key in PEM without a password")]
    Form,
    #[error("private_key.pem is not usable: {0}")]
    Rejected(#[from] KeyRejected),
    #[error("no key could be made")]
    Unspecified(#[from] Unspecified),
}

impl LoginKey {
    /// The public half, in PEM.
    pub fn public(&self) -> &Arc<str> {
        &self.public
    }

    /// Decrypts a message (OAEP with SHA-1); `None` for what was not encrypted for this key.
    pub fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        if cipher.len() != self.private.key_size_bytes() {
            return None;
        }
        let mut room = vec![0; self.private.min_output_size()];
        let message = self.private.decrypt(&OAEP_SHA1_MGF1SHA1, cipher, &mut room, None).ok()?;
        Some(message.to_vec())
    }

    fn of(private: PrivateDecryptingKey) -> Result<Self, KeyError> {
        let public = AsDer::<PublicKeyX509Der<'_>>::as_der(&private.public_key())?;
        let public = pem("PUBLIC KEY", public.as_ref()).into();
        Ok(Self { private: OaepPrivateDecryptingKey::new(private)?, public })
    }

    /// The key of a data directory, which is made and written if there is none. A directory that takes no file has one as
    /// long as the process lives.
    fn open(directory: &Directory, settings: &Settings) -> Result<Self, KeyError> {
        let write = |name: &str, text: &str| {
            if let Err(error) = directory.write_file(name, text.as_bytes()) {
                settings.report(&format!("{name} was not written: {error}"));
            }
        };
        let key = match fs::read_to_string(directory.path.join(PRIVATE)) {
            Ok(text) => Self::of(private_key(&text)?)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let private = PrivateDecryptingKey::generate(KeySize::Rsa2048)?;
                write(PRIVATE, &pem("PRIVATE KEY", AsDer::<Pkcs8V1Der<'_>>::as_der(&private)?.as_ref()));
                Self::of(private)?
            }
            Err(error) => return Err(error.into()),
        };
        if fs::read(directory.path.join(PUBLIC)).ok().as_deref() != Some(key.public.as_bytes()) {
            write(PUBLIC, &key.public);
        }
        Ok(key)
    }
}

/// The key of an engine, as soon as somebody has wanted it; `Some(None)` if it cannot be used.
#[derive(Default)]
pub(crate) struct LoginKeys(OnceLock<Option<Arc<LoginKey>>>);

impl LoginKeys {
    /// The key. Making it takes a tenth of a second, for which others who want it wait.
    pub(crate) fn get(&self, directory: &Directory, settings: &Settings) -> Option<Arc<LoginKey>> {
        let open = || match LoginKey::open(directory, settings) {
            Ok(key) => Some(Arc::new(key)),
            Err(error) => {
                settings.report(&format!("nobody logs in by RSA: {error}"));
                None
            }
        };
        self.0.get_or_init(open).clone()
    }

    /// The public half as status variables show it: empty while there is none.
    pub(crate) fn shown(&self, directory: &Directory) -> String {
        match self.0.get() {
            Some(key) => key.as_ref().map_or_else(String::new, |key| key.public.to_string()),
            None => fs::read_to_string(directory.path.join(PUBLIC)).unwrap_or_default(),
        }
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let digits = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = digits.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(LINE_SIZE));
        text.push_str(line);
        text.push('\n');
        rest = more;
    }
    text + &format!("-----END {label}-----\n")
}

fn private_key(text: &str) -> Result<PrivateDecryptingKey, KeyError> {
    let between = |label: &str| -> Option<Vec<u8>> {
        let (_, text) = text.split_once(&format!("-----BEGIN {label}-----"))?;
        let (digits, _) = text.split_once(&format!("-----END {label}-----"))?;
        STANDARD.decode(digits.split_ascii_whitespace().collect::<String>()).ok()
    };
    if let Some(der) = between("PRIVATE KEY") {
        return Ok(PrivateDecryptingKey::from_pkcs8(&der)?);
    }
    // MySQL's own form.
    let pair = KeyPair::from_der(&between("RSA PRIVATE KEY").ok_or(KeyError::Form)?)?;
    Ok(PrivateDecryptingKey::from_pkcs8(AsDer::<Pkcs8V1Der<'_>>::as_der(&pair)?.as_ref())?)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rsa::{OaepPublicEncryptingKey, PublicEncryptingKey};

    use super::*;

    #[test]
    fn what_is_written_is_read_and_decrypts() {
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
        let text = pem("PRIVATE KEY", AsDer::<Pkcs8V1Der<'_>>::as_der(&private).unwrap().as_ref());
        assert!(text.lines().all(|line| line.len() <= LINE_SIZE));
        let key = LoginKey::of(private_key(&text).unwrap()).unwrap();
        let public = AsDer::<PublicKeyX509Der<'_>>::as_der(&private.public_key()).unwrap();
        assert_eq!(**key.public(), pem("PUBLIC KEY", public.as_ref()));
        let public = OaepPublicEncryptingKey::new(PublicEncryptingKey::from_der(public.as_ref()).unwrap()).unwrap();
        let mut room = vec![0; public.ciphertext_size()];
        let cipher = public.encrypt(&OAEP_SHA1_MGF1SHA1, b"secret", &mut room, None).unwrap().to_vec();
        assert_eq!(key.decrypt(&cipher).as_deref(), Some(&b"secret"[..]));
        for wrong in [&cipher[1..], &[0; 256], &[0xff; 256], b"", b"\x02"] {
            assert_eq!(key.decrypt(wrong), None);
        }
    }

    #[test]
    fn no_key() {
        for text in ["", "x", "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"] {
            assert!(private_key(text).is_err());
        }
    }
}
