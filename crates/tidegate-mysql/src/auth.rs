//! Proofs that a client knows its password, for each authentication plugin.
//!
//! Sources: MySQL internals, "Authentication Methods"; MariaDB's `client_ed25519` plugin; RFC 8032 for the signature.

use curve25519_dalek::{EdwardsPoint, Scalar, edwards::CompressedEdwardsY};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

/// An authentication plugin that the client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthPlugin {
    /// `mysql_native_password`.
    Native,
    /// `caching_sha2_password`, MySQL 8's default.
    CachingSha2,
    /// `sha256_password`.
    Sha256,
    /// `client_ed25519` of MariaDB.
    Ed25519,
    /// `mysql_clear_password`: the password itself, for PAM and LDAP.
    Clear,
}

impl AuthPlugin {
    /// The plugin of that name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"mysql_native_password" => Self::Native,
            b"caching_sha2_password" => Self::CachingSha2,
            b"sha256_password" => Self::Sha256,
            b"client_ed25519" => Self::Ed25519,
            b"mysql_clear_password" => Self::Clear,
            _ => return None,
        })
    }

    /// Name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
            Self::Sha256 => "sha256_password",
            Self::Ed25519 => "client_ed25519",
            Self::Clear => "mysql_clear_password",
        }
    }
}

/// Proof of `mysql_native_password`: `SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password)))`; empty for no password.
pub fn native(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    xor(&once, &mask)
}

/// Proof of `caching_sha2_password`'s fast path: `SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce)`; empty
/// for no password.
pub fn caching_sha2(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha256::digest(password);
    let twice = Sha256::digest(once);
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    xor(&once, &mask)
}

/// Proof of `client_ed25519`: a signature of the nonce. The secret key is the hash of the password, which may have any
/// length; the rest is RFC 8032.
pub fn ed25519(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    let hash: [u8; 64] = Sha512::digest(password).into();
    let (low, prefix) = hash.split_at(32);
    let mut secret = [0; 32];
    secret.copy_from_slice(low);
    secret[0] &= 248;
    secret[31] = secret[31] & 63 | 64;
    let secret = Scalar::from_bytes_mod_order(secret);
    let public = EdwardsPoint::mul_base(&secret).compress();

    let wide = |hash: Sha512| Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
    let random = wide(Sha512::new().chain_update(prefix).chain_update(nonce));
    let commitment = EdwardsPoint::mul_base(&random).compress();
    let challenge =
        wide(Sha512::new().chain_update(commitment.as_bytes()).chain_update(public.as_bytes()).chain_update(nonce));
    let answer = random + challenge * secret;
    [commitment.to_bytes(), answer.to_bytes()].concat()
}

/// The public key of `client_ed25519` that belongs to a password.
pub fn ed25519_public(password: &[u8]) -> [u8; 32] {
    let hash: [u8; 64] = Sha512::digest(password).into();
    let mut secret = [0; 32];
    secret.copy_from_slice(&hash[..32]);
    EdwardsPoint::mul_base_clamped(secret).compress().to_bytes()
}

/// Whether a proof of `client_ed25519` was made of the password to which the key `public` belongs.
pub fn proves_ed25519(proof: &[u8], public: &[u8; 32], nonce: &[u8]) -> bool {
    let Some((commitment, answer)) = proof.split_first_chunk::<32>() else { return false };
    let Ok(answer) = <[u8; 32]>::try_from(answer) else { return false };
    let Some(answer) = Scalar::from_canonical_bytes(answer).into_option() else { return false };
    let Some(key) = CompressedEdwardsY(*public).decompress() else { return false };
    let hash = Sha512::new().chain_update(commitment).chain_update(public).chain_update(nonce);
    let challenge = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
    let expected = EdwardsPoint::vartime_double_scalar_mul_basepoint(&challenge, &-key, &answer);
    expected.compress().as_bytes() == commitment
}

/// The password with its zero, hidden by the nonce: what `caching_sha2_password` and `sha256_password` encrypt for the
/// server's RSA key.
pub fn masked_password(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if nonce.is_empty() {
        return [password, &[0]].concat();
    }
    password.iter().chain(&[0]).zip(nonce.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()
}

/// The password that was [masked](masked_password) so; `None` without the zero behind it.
pub fn unmasked_password(masked: &[u8], nonce: &[u8]) -> Option<Vec<u8>> {
    let mut password = if nonce.is_empty() {
        masked.to_vec()
    } else {
        masked.iter().zip(nonce.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()
    };
    (password.pop()? == 0).then_some(password)
}

/// Whether a proof of `mysql_native_password` was made of the password whose `SHA1(SHA1(password))` is `twice`.
pub fn proves_native(proof: &[u8], twice: &[u8; 20], nonce: &[u8]) -> bool {
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    proof.len() == mask.len() && is_equal(&Sha1::digest(xor(proof, &mask)), twice)
}

/// Whether a proof of `caching_sha2_password` was made of the password whose `SHA256(SHA256(password))` is `twice`.
pub fn proves_caching_sha2(proof: &[u8], twice: &[u8; 32], nonce: &[u8]) -> bool {
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    proof.len() == mask.len() && is_equal(&Sha256::digest(xor(proof, &mask)), twice)
}

/// Compares without telling by the time it takes where the difference is.
pub(crate) fn is_equal(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |found, (left, right)| found | (left ^ right)) == 0
}

fn xor(left: &[u8], right: &[u8]) -> Vec<u8> {
    left.iter().zip(right).map(|(left, right)| left ^ right).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::auth::plugins::{caching_sha2_password::scramble_sha256, mysql_native_password::scramble_native};

    const NONCE: &[u8; 20] = b"0123456789abcdefghij";

    #[test]
    fn proofs_agree_with_mysql_common() {
        for password in [&b"a"[..], b"some_pass", "päss wörd".as_bytes(), &[7; 300]] {
            assert_eq!(native(password, NONCE), scramble_native(NONCE, password).unwrap());
            assert_eq!(caching_sha2(password, NONCE), scramble_sha256(NONCE, password).unwrap());
        }
        assert!(native(b"", NONCE).is_empty());
        assert!(caching_sha2(b"", NONCE).is_empty());
    }

    #[test]
    fn proofs_are_known_by_what_is_kept_of_the_password() {
        let sha1 = |bytes: &[u8]| -> [u8; 20] { Sha1::digest(Sha1::digest(bytes)).into() };
        let sha256 = |bytes: &[u8]| -> [u8; 32] { Sha256::digest(Sha256::digest(bytes)).into() };
        for password in [&b"a"[..], b"some_pass", &[7; 300]] {
            assert!(proves_native(&native(password, NONCE), &sha1(password), NONCE));
            assert!(proves_caching_sha2(&caching_sha2(password, NONCE), &sha256(password), NONCE));
            for wrong in [&b""[..], b"b", &[0; 20], &[0; 32], &native(b"b", NONCE), &caching_sha2(b"b", NONCE)] {
                assert!(!proves_native(wrong, &sha1(password), NONCE));
                assert!(!proves_caching_sha2(wrong, &sha256(password), NONCE));
            }
            let stolen = [&sha1(password)[..], &sha256(password)].concat();
            assert!(!proves_native(&stolen[..20], &sha1(password), NONCE));
        }
    }

    #[test]
    fn ed25519_agrees_with_rfc_8032() {
        // Section 7.1, test 2: its secret key as password.
        let secret = hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
        let expected = hex(concat!(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da",
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ));
        assert_eq!(ed25519(&secret, &[0x72]), expected);
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn masks() {
        assert_eq!(masked_password(b"abc", b"abcd"), [0, 0, 0, b'd']);
        assert_eq!(masked_password(b"abcab", b"abc"), [0, 0, 0, 0, 0, b'c']);
        assert_eq!(masked_password(b"a", b""), b"a\0");
        for password in [&b""[..], b"abc", &[7; 40]] {
            for nonce in [&b""[..], b"abcd", &[9; 20]] {
                assert_eq!(unmasked_password(&masked_password(password, nonce), nonce).as_deref(), Some(password));
            }
        }
        assert_eq!(unmasked_password(b"abc", b""), None);
        assert_eq!(unmasked_password(b"", b"x"), None);
    }

    #[test]
    fn names_both_ways() {
        use AuthPlugin::*;
        for plugin in [Native, CachingSha2, Sha256, Ed25519, Clear] {
            assert_eq!(AuthPlugin::from_name(plugin.name().as_bytes()), Some(plugin));
        }
        assert_eq!(AuthPlugin::from_name(b"auth_gssapi_client"), None);
    }
}
