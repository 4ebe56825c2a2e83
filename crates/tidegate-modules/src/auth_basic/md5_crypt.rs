//! The MD5 hashes of password files: `$1$` of crypt(3), and `$apr1$` of Apache's htpasswd, which differs in that prefix
//! alone.
//!
//! Source: FreeBSD's `md5crypt`; nginx, `ngx_crypt_apr1`.

use md5::{Digest, Md5};

/// How often the hash is taken again, to make guessing slow.
const ROUNDS: usize = 1000;

/// Longest salt that counts.
const SALT_BYTES_MAX: usize = 8;

/// The bytes of the digest in the order in which they are written, three for four characters.
const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];

const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The last part of the hash of `password`; `magic` is `$1$` or `$apr1$`.
pub(super) fn md5_crypt(password: &[u8], magic: &[u8], salt: &[u8]) -> Vec<u8> {
    let salt = &salt[..salt.len().min(SALT_BYTES_MAX)];
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut outer = Md5::new().chain_update(password).chain_update(magic).chain_update(salt);
    for chunk in password.chunks(inner.len()) {
        outer.update(&inner[..chunk.len()]);
    }
    let mut left = password.len();
    while left > 0 {
        // An oddity of the original that all copies have to keep.
        outer.update(if left & 1 == 1 { &[0] } else { &password[..1] });
        left >>= 1;
    }
    let mut digest = outer.finalize();
    for round in 0..ROUNDS {
        let odd = round % 2 == 1;
        let mut next = Md5::new();
        next.update(if odd { password } else { &digest });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if odd { &digest } else { password });
        digest = next.finalize();
    }
    let mut out = Vec::with_capacity(22);
    let mut write = |mut word: u32, count: usize| {
        for _ in 0..count {
            out.push(DIGITS[(word & 63) as usize]);
            word >>= 6;
        }
    };
    for [high, middle, low] in ORDER {
        let [high, middle, low] = [high, middle, low].map(|index| u32::from(digest[index]));
        write(high << 16 | middle << 8 | low, 4);
    }
    write(u32::from(digest[11]), 2);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_openssl() {
        for (password, magic, salt, expected) in [
            ("mouse", "$1$", "salt", "YDDmM9TcT2Nbu0MJJW5bu0"),
            ("mouse", "$apr1$", "salt", "JYU2mM05wLZ4RZWsTLu7M0"),
            ("a much longer password than that", "$apr1$", "longsalt", "drQXGfUKp.Cdi8FPIAO120"),
        ] {
            let found = md5_crypt(password.as_bytes(), magic.as_bytes(), salt.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), expected);
        }
    }
}
