//! Keys of certificates.

use getrandom::SysRng;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384};
use rsa::pkcs8::EncodePrivateKey as _;
use rustls::pki_types::PrivatePkcs8KeyDer;

/// Type of a certificate's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// RSA of 2048 bits.
    Rsa2048,
    /// RSA of 3072 bits.
    Rsa3072,
    /// RSA of 4096 bits.
    Rsa4096,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// RSA's part.
    #[error("no RSA key can be made: {0}")]
    Rsa(#[source] rsa::Error),
    /// The key cannot be written down.
    #[error("no RSA key can be made: {0}")]
    Pkcs8(#[source] rsa::pkcs8::Error),
    /// Nothing can be signed with it.
    #[error("{0}")]
    Unusable(#[from] rcgen::Error),
}

impl KeyType {
    /// All that can be made.
    pub const ALL: [KeyType; 5] = [Self::P256, Self::P384, Self::Rsa2048, Self::Rsa3072, Self::Rsa4096];

    /// The name that `acme_certificate … key=` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::P256 => "ecdsa:256",
            Self::P384 => "ecdsa:384",
            Self::Rsa2048 => "rsa:2048",
            Self::Rsa3072 => "rsa:3072",
            Self::Rsa4096 => "rsa:4096",
        }
    }

    /// Makes a key. For RSA that is the search for two primes, which keeps a thread busy for up to some seconds.
    ///
    /// # Errors
    /// [`KeyError`]: the system gives no randomness.
    pub(crate) fn generate(self) -> Result<KeyPair, KeyError> {
        match self {
            Self::P256 => Ok(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?),
            Self::P384 => Ok(KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384)?),
            Self::Rsa2048 => rsa_key(2048),
            Self::Rsa3072 => rsa_key(3072),
            Self::Rsa4096 => rsa_key(4096),
        }
    }
}

/// The library below rustls signs with RSA keys and makes none; the one here makes them and never signs.
fn rsa_key(bits: usize) -> Result<KeyPair, KeyError> {
    let key = rsa::PrivateKey::new(&mut SysRng, bits).map_err(KeyError::Rsa)?;
    let pkcs8 = key.to_pkcs8_der().map_err(KeyError::Pkcs8)?;
    Ok(KeyPair::try_from(&PrivatePkcs8KeyDer::from(pkcs8.as_bytes()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order;

    /// What is signed with each kind of key is taken as a certificate by the library that handshakes use.
    #[test]
    fn every_kind_of_key_signs() {
        for kind in KeyType::ALL {
            let key = kind.generate().expect("a key");
            let params = order::params(&["one.test".to_owned()]).expect("a name");
            let certificate = params.self_signed(&key).expect("signed");
            tidegate_tls::managed::Material::of_pem(certificate.pem(), key.serialize_pem())
                .unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        }
    }
}
