//! What MySQL 8 keeps of a password for `caching_sha2_password`: a digest that a salt and thousands of rounds went into.
//!
//! ```text
//! $A$ | 3 hexadecimal digits: thousands of rounds | $ | 20 bytes of salt | 43 digits of the digest
//! ```
//!
//! The password cannot be found by tables of digests, and no fast proof can be judged by it: the password itself has to come.
//!
//! Source: MySQL's documentation, "Caching SHA-2 Pluggable Authentication"; U. Drepper, "Unix crypt using SHA-256 and SHA-512",
//! whose salts are shorter.

use sha2::{Digest, Sha256};

/// Bytes of the longest password that is looked at: the work grows with its square. MySQL's own limit.
const PASSWORD_BYTES_MAX: usize = 256;
const SALT_SIZE: usize = 20;
const DIGITS_SIZE: usize = 43;
/// Ahead of the salt.
const HEAD_SIZE: usize = 7;
/// Fewest thousands of rounds that MySQL takes.
const THOUSANDS_MIN: u32 = 5;
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A salted digest of a password, in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Salted<'a> {
    rounds: u32,
    salt: &'a [u8],
    digits: &'a [u8],
}

impl<'a> Salted<'a> {
    /// Reads it; `None` for anything else.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != HEAD_SIZE + SALT_SIZE + DIGITS_SIZE || !text.starts_with(b"$A$") || text[HEAD_SIZE - 1] != b'$'
        {
            return None;
        }
        let thousands = &text[3..HEAD_SIZE - 1];
        if !thousands.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let thousands = u32::from_str_radix(std::str::from_utf8(thousands).ok()?, 16).ok()?;
        let (salt, digits) = text[HEAD_SIZE..].split_at(SALT_SIZE);
        let is_made = thousands >= THOUSANDS_MIN && digits.iter().all(|digit| ALPHABET.contains(digit));
        is_made.then_some(Self { rounds: thousands * 1000, salt, digits })
    }

    /// Whether it is that of a password. Takes milliseconds for each five thousand rounds.
    pub(super) fn is_of(&self, password: &[u8]) -> bool {
        if password.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        let found = digits_of(&digest(password, self.salt, self.rounds));
        found.iter().zip(self.digits).fold(0, |differs, (left, right)| differs | (left ^ right)) == 0
    }
}

/// The first bytes of a hash that is repeated.
fn repeated(hash: &[u8; 32], len: usize) -> Vec<u8> {
    hash.iter().copied().cycle().take(len).collect()
}

fn digest(password: &[u8], salt: &[u8], rounds: u32) -> [u8; 32] {
    let beside: [u8; 32] =
        Sha256::new().chain_update(password).chain_update(salt).chain_update(password).finalize().into();
    let mut first =
        Sha256::new().chain_update(password).chain_update(salt).chain_update(repeated(&beside, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        if bits & 1 == 1 {
            first.update(beside);
        } else {
            first.update(password);
        }
        bits >>= 1;
    }
    let mut digest: [u8; 32] = first.finalize().into();
    let hash_of = |part: &[u8], count: usize| -> [u8; 32] {
        let mut hash = Sha256::new();
        (0..count).for_each(|_| hash.update(part));
        hash.finalize().into()
    };
    let mixed_salt = repeated(&hash_of(salt, 16 + usize::from(digest[0])), salt.len());
    let mixed_password = repeated(&hash_of(password, password.len()), password.len());
    for round in 0..rounds {
        let is_odd = round & 1 == 1;
        let mut hash = Sha256::new();
        hash.update(if is_odd { &mixed_password[..] } else { &digest[..] });
        if !round.is_multiple_of(3) {
            hash.update(&mixed_salt);
        }
        if !round.is_multiple_of(7) {
            hash.update(&mixed_password);
        }
        hash.update(if is_odd { &digest[..] } else { &mixed_password[..] });
        digest = hash.finalize().into();
    }
    digest
}

/// A digest in the digits of `crypt`, which takes its bytes in an order of its own.
fn digits_of(digest: &[u8; 32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(DIGITS_SIZE);
    let mut put = |bytes: [u8; 3], count: usize| {
        let [high, middle, low] = bytes.map(u32::from);
        let mut word = high << 16 | middle << 8 | low;
        for _ in 0..count {
            out.push(ALPHABET[(word & 63) as usize]);
            word >>= 6;
        }
    };
    let (mut first, mut second, mut third) = (0, 10, 20);
    for _ in 0..10 {
        put([digest[first], digest[second], digest[third]], 4);
        (first, second, third) = (third + 1, first + 1, second + 1);
    }
    put([0, digest[31], digest[30]], 3);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_mysql() {
        let salt = b"\xf9\xcc\x98\xce\x08\x89\x29\x24\xf5\x0a\x21\x3b\x6b\xc5\x71\xa2\xc1\x17\x78\xc5";
        let digits = b"bTy95Y99eAME1dwEkHOA1ndHGBWz.1bxSSRkuTXFGV/";
        assert_eq!(digits_of(&digest(b"hashcat", salt, 5000)), digits);
    }

    #[test]
    fn what_is_none() {
        let good = format!("$A$005$01234567890123456789{}", "a".repeat(DIGITS_SIZE));
        assert!(Salted::read(&good).is_some_and(|salted| salted.rounds == 5000));
        assert!(!Salted::read(&good).unwrap().is_of(b"x") && !Salted::read(&good).unwrap().is_of(&[b'x'; 257]));
        for (at, wrong) in [(0, "x"), (1, "B"), (3, "-"), (5, "4"), (5, "g"), (6, "5"), (30, "="), (70, "a")] {
            let mut text = good.clone();
            text.replace_range(at..(at + 1).min(text.len()), wrong);
            assert_eq!(Salted::read(&text), None, "{text}");
        }
        for cut in 0..good.len() {
            assert_eq!(Salted::read(&good[..cut]), None);
        }
    }
}
