//! RSA encryption with a server's public key (OAEP with SHA-1): how `caching_sha2_password` and `sha256_password` carry
//! a password over a connection without TLS.
//!
//! Only the public operation is needed, and it stands here on `crypto-bigint`, whose arithmetic takes the same time for
//! every value: the `rsa` crate has no stable release without an open advisory, and AWS-LC refuses keys of less than 2048 bits, which servers
//! may have.
//!
//! Source: RFC 8017, sections 5.1.1, 7.1.1 and B.2.1.

use crypto_bigint::{
    BoxedUint, Odd,
    modular::{BoxedMontyForm, BoxedMontyParams},
};
use rustls::pki_types::{SubjectPublicKeyInfoDer, pem::PemObject};
use sha1::{Digest, Sha1};

/// Size of SHA-1's hash.
const HASH_SIZE: usize = 20;
/// Largest modulus that is accepted, in bytes: 8192 bits cost a server more than it would want.
const MODULUS_SIZE_MAX: usize = 1024;
/// Object identifier of `rsaEncryption` in DER.
const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

/// Why nothing was encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RsaError {
    /// The server's answer is no RSA public key in PEM.
    #[error("the server's public key is not a usable RSA key")]
    Key,
    /// The message does not fit.
    #[error("the password is too long for the server's public key")]
    TooLong,
    /// The system gave no random bytes.
    #[error("no random bytes")]
    Random,
}

/// A public key.
#[derive(Debug)]
pub(crate) struct PublicKey {
    params: BoxedMontyParams,
    exponent: BoxedUint,
    /// Size of the modulus in bytes.
    size: usize,
}

impl PublicKey {
    /// Reads `-----BEGIN PUBLIC KEY-----`.
    ///
    /// # Errors
    /// [`RsaError::Key`].
    pub(crate) fn from_pem(pem: &[u8]) -> Result<Self, RsaError> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| RsaError::Key)?;
        Self::from_der(&der).ok_or(RsaError::Key)
    }

    /// ```text
    /// SEQUENCE { SEQUENCE { OID rsaEncryption, NULL }, BIT STRING { SEQUENCE { INTEGER n, INTEGER e } } }
    /// ```
    fn from_der(der: &[u8]) -> Option<Self> {
        let (info, _) = element(der, 0x30)?;
        let (algorithm, info) = element(info, 0x30)?;
        let (oid, _) = element(algorithm, 0x06)?;
        if oid != RSA_ENCRYPTION {
            return None;
        }
        let (bits, _) = element(info, 0x03)?;
        let (key, _) = element(bits.strip_prefix(&[0])?, 0x30)?;
        let (modulus, key) = element(key, 0x02)?;
        let (exponent, _) = element(key, 0x02)?;
        let (modulus, exponent) = (trim(modulus), trim(exponent));
        if !(HASH_SIZE * 2 + 2..=MODULUS_SIZE_MAX).contains(&modulus.len()) || !(1..=8).contains(&exponent.len()) {
            return None;
        }
        let size = modulus.len();
        let number = |bytes: &[u8], size: usize| BoxedUint::from_be_slice(bytes, size as u32 * 8).ok();
        let odd: Option<Odd<BoxedUint>> = Odd::new(number(modulus, size)?).into();
        Some(Self { params: BoxedMontyParams::new_vartime(odd?), exponent: number(exponent, exponent.len())?, size })
    }

    /// Encrypts `message`.
    ///
    /// # Errors
    /// A message that is too long, or no random bytes.
    pub(crate) fn encrypt(&self, message: &[u8]) -> Result<Vec<u8>, RsaError> {
        let mut seed = [0; HASH_SIZE];
        getrandom::fill(&mut seed).map_err(|_| RsaError::Random)?;
        let block = pad(message, &seed, self.size).ok_or(RsaError::TooLong)?;
        let number = BoxedUint::from_be_slice(&block, self.size as u32 * 8).map_err(|_| RsaError::Key)?;
        let result = BoxedMontyForm::new(number, &self.params).pow(&self.exponent).retrieve().to_be_bytes();
        // Limbs are whole words: the number may have leading zeros more than the modulus has bytes.
        let start = result.len().saturating_sub(self.size);
        Ok(result[start..].to_vec())
    }
}

/// One element of DER with this tag: its content, and what follows.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let [found, first, rest @ ..] = der else { return None };
    if *found != tag {
        return None;
    }
    let (len, rest) = match *first {
        len @ 0..=0x7f => (usize::from(len), rest),
        // A key has less than 64 KiB.
        count @ 0x81..=0x82 => {
            let (len, rest) = rest.split_at_checked(usize::from(count - 0x80))?;
            (len.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(len)
}

fn trim(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// EME-OAEP: `00 | seed masked | (hash of nothing, zeros, 01, message) masked`.
fn pad(message: &[u8], seed: &[u8; HASH_SIZE], size: usize) -> Option<Vec<u8>> {
    let zeros = size.checked_sub(message.len() + 2 * HASH_SIZE + 2)?;
    let mut data = Sha1::digest(b"").to_vec();
    data.resize(HASH_SIZE + zeros, 0);
    data.push(1);
    data.extend_from_slice(message);
    mask(&mut data, seed);
    let mut seed = *seed;
    mask(&mut seed, &data);
    Some([&[0], &seed[..], &data].concat())
}

/// XORs `data` with MGF1 of `seed`.
fn mask(data: &mut [u8], seed: &[u8]) {
    for (counter, chunk) in (0u32..).zip(data.chunks_mut(HASH_SIZE)) {
        let hash = Sha1::new().chain_update(seed).chain_update(counter.to_be_bytes()).finalize();
        for (byte, mask) in chunk.iter_mut().zip(hash) {
            *byte ^= mask;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A key made for these tests.
    pub(crate) const PUBLIC: &str = include_str!("../tests/keys/rsa_public.pem");
    const MODULUS: &str = include_str!("../tests/keys/rsa_modulus.hex");
    const EXPONENT: &str = include_str!("../tests/keys/rsa_private_exponent.hex");

    fn number(hex: &str) -> BoxedUint {
        BoxedUint::from_be_hex(hex.trim(), 2048).expect("hex")
    }

    /// The server's side.
    pub(crate) fn decrypt(cipher: &[u8]) -> Vec<u8> {
        let odd: Option<Odd<BoxedUint>> = Odd::new(number(MODULUS)).into();
        let params = BoxedMontyParams::new_vartime(odd.unwrap());
        let cipher = BoxedUint::from_be_slice(cipher, 2048).unwrap();
        let block = BoxedMontyForm::new(cipher, &params).pow(&number(EXPONENT)).retrieve().to_be_bytes();
        let (mut seed, mut data) = (block[1..=HASH_SIZE].to_vec(), block[1 + HASH_SIZE..].to_vec());
        mask(&mut seed, &data);
        mask(&mut data, &seed);
        assert_eq!(block[0], 0);
        assert_eq!(data[..HASH_SIZE], Sha1::digest(b"")[..]);
        let one = data.iter().skip(HASH_SIZE).position(|byte| *byte != 0).unwrap() + HASH_SIZE;
        assert_eq!(data[one], 1);
        data[one + 1..].to_vec()
    }

    #[test]
    fn what_is_encrypted_can_be_decrypted() {
        let key = PublicKey::from_pem(PUBLIC.as_bytes()).unwrap();
        for len in [0, 1, 20, 214] {
            let message = vec![b'x'; len];
            let cipher = key.encrypt(&message).unwrap();
            assert_eq!(cipher.len(), 256);
            assert_eq!(decrypt(&cipher), message);
        }
        assert_eq!(key.encrypt(&[1; 215]), Err(RsaError::TooLong));
    }

    #[test]
    fn not_a_key() {
        for pem in ["", "x", "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n"] {
            assert_eq!(PublicKey::from_pem(pem.as_bytes()).unwrap_err(), RsaError::Key);
        }
        let der = SubjectPublicKeyInfoDer::from_pem_slice(PUBLIC.as_bytes()).unwrap();
        for cut in 0..der.len() {
            assert!(PublicKey::from_der(&der[..cut]).is_none());
        }
    }
}
