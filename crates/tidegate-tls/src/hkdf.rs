//! HKDF for TLS 1.3 that extracts a secret once, and keys HMAC with it once.
//!
//! A handshake derives thirty values, several of them from one secret. The provider's own HKDF is one call for each value, which extracts the secret and
//! keys HMAC anew: most of what it computes, it has computed before. A resumed handshake spent a fifth of its time there.
//!
//! HMAC is RustCrypto's, whose keyed state has 300 bytes to copy for a value; that of aws-lc-rs has 1232, and is cleared each time.
//!
//! Source: RFC 5869; RFC 8446, section 7.1.

use std::sync::OnceLock;

use hmac::{
    Hmac, KeyInit, Mac,
    digest::{Output, OutputSizeUser},
};
use rustls::crypto::{
    hash::HashAlgorithm,
    hmac::Tag,
    tls13::{Hkdf, HkdfExpander, OkmBlock, OutputLengthError},
};
use sha2::{Sha256, Sha384};

/// Blocks that one secret can be expanded to: their number is a byte.
const BLOCKS_MAX: u8 = u8::MAX;

static HKDF_SHA256: KeyedOnce<Hmac<Sha256>> = KeyedOnce::new();
static HKDF_SHA384: KeyedOnce<Hmac<Sha384>> = KeyedOnce::new();

/// The one with a hash; `None` for hashes that no suite has.
pub(crate) fn with(hash: HashAlgorithm) -> Option<&'static dyn Hkdf> {
    match hash {
        HashAlgorithm::SHA256 => Some(&HKDF_SHA256),
        HashAlgorithm::SHA384 => Some(&HKDF_SHA384),
        _ => None,
    }
}

/// HMAC with its key in it. A copy of it signs.
trait Keyed: Mac + KeyInit + Clone + Send + Sync + 'static {}

impl<M: Mac + KeyInit + Clone + Send + Sync + 'static> Keyed for M {}

fn keyed<M: Keyed>(key: &[u8]) -> M {
    <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn sign<'m, M: Keyed>(keyed: &M, message: impl IntoIterator<Item = &'m [u8]>) -> Output<M> {
    let mut mac = keyed.clone();
    for part in message {
        mac.update(part);
    }
    mac.finalize().into_bytes()
}

/// See the module.
struct KeyedOnce<M> {
    /// HMAC with no salt for its key.
    unsalted: OnceLock<M>,
    /// The first secret of all connections that resume no session: that of nothing, without a salt.
    of_nothing: OnceLock<M>,
}

impl<M: Keyed> KeyedOnce<M> {
    const fn new() -> Self {
        Self { unsalted: OnceLock::new(), of_nothing: OnceLock::new() }
    }

    fn extract(&self, salt: Option<&[u8]>, secret: &[u8]) -> M {
        match salt {
            Some(salt) => keyed(&sign(&keyed::<M>(salt), [secret])),
            // HMAC fills its keys up with zeroes: an empty one is one of zeroes.
            None => keyed(&sign(self.unsalted.get_or_init(|| keyed(&[])), [secret])),
        }
    }
}

impl<M: Keyed> Hkdf for KeyedOnce<M> {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        let nothing = &[0; OkmBlock::MAX_LEN][..<M as OutputSizeUser>::output_size()];
        Box::new(Secret(match salt {
            Some(_) => self.extract(salt, nothing),
            None => self.of_nothing.get_or_init(|| self.extract(None, nothing)).clone(),
        }))
    }

    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        Box::new(Secret(self.extract(salt, secret)))
    }

    fn expander_for_okm(&self, okm: &OkmBlock) -> Box<dyn HkdfExpander> {
        Box::new(Secret::<M>(keyed(okm.as_ref())))
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> Tag {
        Tag::new(&sign(&keyed::<M>(key.as_ref()), [message]))
    }
}

/// A secret that values are derived from.
struct Secret<M>(M);

impl<M: Keyed> HkdfExpander for Secret<M> {
    fn expand_slice(&self, info: &[&[u8]], output: &mut [u8]) -> Result<(), OutputLengthError> {
        let Secret(keyed) = self;
        if output.len() > usize::from(BLOCKS_MAX) * self.hash_len() {
            return Err(OutputLengthError);
        }
        let mut before: Option<Output<M>> = None;
        for (number, piece) in (1..=BLOCKS_MAX).zip(output.chunks_mut(self.hash_len())) {
            let before_and_info = before.iter().map(|block| &block[..]).chain(info.iter().copied());
            let block = sign(keyed, before_and_info.chain([&[number][..]]));
            piece.copy_from_slice(&block[..piece.len()]);
            before = Some(block);
        }
        Ok(())
    }

    fn expand_block(&self, info: &[&[u8]]) -> OkmBlock {
        let Secret(keyed) = self;
        OkmBlock::new(&sign(keyed, info.iter().copied().chain([&[1][..]])))
    }

    fn hash_len(&self) -> usize {
        <M as OutputSizeUser>::output_size()
    }
}

#[cfg(test)]
mod tests {
    use rustls::{SupportedCipherSuite, crypto::aws_lc_rs};

    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| at as u8).collect()
    }

    /// What a secret is expanded to, by all ways there are.
    fn expanded(secret: &dyn HkdfExpander) -> Vec<Vec<u8>> {
        let info: [&[u8]; 3] = [b"\0\x30\x0dtls13 ", b"derived", &bytes(64)];
        let mut all = vec![secret.expand_block(&info).as_ref().to_vec(), secret.expand_block(&[]).as_ref().to_vec()];
        for len in [1, 12, 16, 32, 47, 48, 49, 200, 255 * secret.hash_len()] {
            let mut output = vec![0; len];
            assert!(secret.expand_slice(&info, &mut output).is_ok());
            all.push(output);
        }
        assert!(secret.expand_slice(&info, &mut vec![0; 255 * secret.hash_len() + 1]).is_err());
        all
    }

    #[test]
    fn values_are_those_of_the_providers_own() {
        for suite in aws_lc_rs::ALL_CIPHER_SUITES.iter().filter_map(SupportedCipherSuite::tls13) {
            let ours = with(suite.common.hash_provider.algorithm()).expect("a hash of TLS 1.3");
            let all = |hkdf: &dyn Hkdf| {
                let len = hkdf.extract_from_zero_ikm(None).hash_len();
                let okm = OkmBlock::new(&bytes(len));
                let secrets = [
                    hkdf.extract_from_zero_ikm(None),
                    hkdf.extract_from_zero_ikm(Some(&bytes(len)[..])),
                    hkdf.extract_from_secret(None, b"secret"),
                    hkdf.extract_from_secret(Some(&bytes(len)[..]), &bytes(1200)),
                    hkdf.expander_for_okm(&okm),
                ];
                let expanded: Vec<_> = secrets.iter().map(|secret| expanded(&**secret)).collect();
                (len, expanded, hkdf.hmac_sign(&okm, b"message").as_ref().to_vec())
            };
            assert_eq!(all(ours), all(suite.hkdf_provider), "{suite:?}");
        }
    }

    /// Source: RFC 5869, appendix A.1.
    #[test]
    fn values_are_those_of_the_standard() {
        let secret = HKDF_SHA256.extract_from_secret(Some(&bytes(13)[..]), &[0x0b; 22]);
        let mut output = [0; 42];
        let info: Vec<u8> = (0xf0..=0xf9).collect();
        assert!(secret.expand_slice(&[&info[..4], &info[4..]], &mut output).is_ok());
        let hex: String = output.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
    }
}
