//! Keys of certificates.

use rcgen::{Error, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, RsaKeySize};

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
    /// The system gives no randomness.
    pub(crate) fn generate(self) -> Result<KeyPair, Error> {
        match self {
            Self::P256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            Self::P384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
            Self::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
            Self::Rsa3072 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072),
            Self::Rsa4096 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_4096),
        }
    }
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
