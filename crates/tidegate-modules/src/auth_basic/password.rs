//! The hashes that a password file may hold.
//!
//! ```text
//! {PLAIN}text        {SHA}base64        {SSHA}base64
//! $apr1$salt$hash    $1$salt$hash       MD5
//! $2y$cost$hash      bcrypt             $5$… $6$…    SHA-256, SHA-512
//! $y$…               yescrypt           sshhhhhhhhhhh  DES, everything else
//! ```

use sha_crypt::PasswordVerifier;
use sha1::{Digest, Sha1};
use tidegate_http::basic_auth::decode_base64;

use super::{des_crypt::des_crypt, md5_crypt::md5_crypt};

/// Length of a SHA-1 digest.
const SHA1_BYTES: usize = 20;

/// Whether a hash of this kind takes long enough to compute that a worker should not do it.
pub(super) fn is_slow(hash: &[u8]) -> bool {
    ![&b"{PLAIN}"[..], b"{SHA}", b"{SSHA}"].iter().any(|prefix| hash.starts_with(prefix))
}

/// Whether `hash` is that of `password`. Takes up to seconds for the slow kinds.
pub(super) fn matches(password: &[u8], hash: &[u8]) -> bool {
    if let Some(text) = hash.strip_prefix(b"{PLAIN}") {
        return same(password, text);
    }
    if let Some(digest) = hash.strip_prefix(b"{SHA}") {
        return decode_base64(digest).is_some_and(|digest| same(&Sha1::digest(password), &digest));
    }
    if let Some(text) = hash.strip_prefix(b"{SSHA}") {
        return decode_base64(text).is_some_and(|bytes| match bytes.split_at_checked(SHA1_BYTES) {
            Some((digest, salt)) => same(&Sha1::new().chain_update(password).chain_update(salt).finalize(), digest),
            None => false,
        });
    }
    for magic in [&b"$apr1$"[..], b"$1$"] {
        if let Some(rest) = hash.strip_prefix(magic) {
            return match memchr::memchr(b'$', rest) {
                Some(at) => same(&md5_crypt(password, magic, &rest[..at]), &rest[at + 1..]),
                None => false,
            };
        }
    }
    let Ok(text) = std::str::from_utf8(hash) else { return false };
    match text.get(..3) {
        Some("$2a" | "$2b" | "$2x" | "$2y") => bcrypt::verify(password, text).unwrap_or(false),
        Some("$5$" | "$6$") => sha_crypt::ShaCrypt::default().verify_password(password, text).is_ok(),
        Some("$y$") => {
            use yescrypt::PasswordVerifier;
            yescrypt::Yescrypt::default().verify_password(password, text).is_ok()
        }
        _ => des_crypt(password, hash).is_some_and(|found| same(&found, hash)),
    }
}

/// Compares without telling by the time how much agrees.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(hash: &str, expected: bool) {
        assert_eq!(matches(b"mouse", hash.as_bytes()), expected, "{hash}");
        assert!(!matches(b"Mouse", hash.as_bytes()), "{hash}");
    }

    #[test]
    fn hashes() {
        check("{PLAIN}mouse", true);
        check("{PLAIN}mouse ", false);
        check("{SHA}7mPGT3pxbIUpl3uuUv1SsfPZeZ4=", false);
        check("$apr1$salt$JYU2mM05wLZ4RZWsTLu7M0", true);
        check("$1$salt$YDDmM9TcT2Nbu0MJJW5bu0", true);
        check("$5$rounds=1000$salt$zCJDxMJwqC0ECeRnEmTpEttyOnl77nFUvqkFlkvWaI.", true);
        check("$6$salt$pJmVRUuwOAO2kbXY0ISrMrPlh.ty.uBGTEA4cI.oALAir6074ku1YDZHq9Sclp4nujYvz2OQ7DyRA0M4dl7ys.", true);
        check("$2b$04$abcdefghijklmnopqrstuuI6WoA.TSMTyz0.BS8GS1XTBvOjyH8vK", true);
        check("$2y$04$abcdefghijklmnopqrstuuI6WoA.TSMTyz0.BS8GS1XTBvOjyH8vK", true);
        check("$y$j9T$abcdefgh$1PoR7C7vSUzJdeUq3HxQtvJTan57O0g01p87vmfPd00", true);
    }

    #[test]
    fn sha1_hashes() {
        use base64::Engine;
        let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        check(&format!("{{SHA}}{}", encode(&Sha1::digest(b"mouse"))), true);
        let mut salted = Sha1::digest(b"mousesalt").to_vec();
        salted.extend_from_slice(b"salt");
        check(&format!("{{SSHA}}{}", encode(&salted)), true);
    }

    #[test]
    fn rubbish() {
        for hash in [
            "",
            "x",
            "{SHA}",
            "{SHA}!",
            "{SSHA}",
            "{SSHA}YWJj",
            "$apr1$",
            "$apr1$salt",
            "$1$",
            "$2y$",
            "$2y$99$x",
            "$2y$04$short",
            "$5$",
            "$6$rounds=x$a$b",
            "$y$",
            "$y$j9T$",
            "{UNKNOWN}mouse",
            "$9$a$b",
            "é",
            "$2é",
        ] {
            check(hash, false);
        }
    }
}
