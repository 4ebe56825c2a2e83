//! Full logins of `caching_sha2_password`: the password itself has come, encrypted or over TLS, and is compared with the salted
//! digest that MySQL keeps.
//!
//! That takes milliseconds of a processor, which any stranger can ask for: it is done beside the workers, for few at a time,
//! and as long for users who do not exist and for passwords that nothing decrypts as for others. Whoever has proved to know
//! a password takes the fast way from then on, as long as the process lives.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sha2::{Digest, Sha256};
use tidegate_mysql::{auth, server::login::Sent};
use tidegate_sql::{Engine, Secret};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Passwords that are compared at a time; others wait.
const JUDGED_MAX: usize = 2;
/// Digests whose passwords are known; one of them makes room.
const KNOWN_MAX: usize = 4096;

static JUDGED: Semaphore = Semaphore::const_new(JUDGED_MAX);

/// By salted digests, what fast proofs are judged by.
static KNOWN: Mutex<BTreeMap<Box<str>, [u8; 32]>> = Mutex::new(BTreeMap::new());

fn all_known() -> MutexGuard<'static, BTreeMap<Box<str>, [u8; 32]>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `SHA256(SHA256(password))` of a salted digest, if somebody has logged in by it.
pub(super) fn known(digits: &str) -> Option<[u8; 32]> {
    all_known().get(digits).copied()
}

fn learn(digits: &str, password: &[u8]) {
    let twice = Sha256::digest(Sha256::digest(password)).into();
    let mut known = all_known();
    if known.len() >= KNOWN_MAX && !known.contains_key(digits) {
        known.pop_first();
    }
    known.insert(digits.into(), twice);
}

/// Runs `work` on another thread, when it is its turn.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> Option<T> + Send + 'static) -> Option<T> {
    let turn: SemaphorePermit<'static> = JUDGED.acquire().await.ok()?;
    // The turn ends with the work, also when nobody waits for it any more.
    let done = tokio::task::spawn_blocking(move || {
        let result = work();
        drop(turn);
        result
    });
    done.await.ok().flatten()
}

/// The key that passwords are encrypted for, in PEM.
pub(super) async fn public_key(engine: &Engine) -> Option<Arc<str>> {
    let engine = engine.clone();
    beside(move || engine.login_key().map(|key| Arc::clone(key.public()))).await
}

/// Whether this is the password of a salted secret; never for a user who is not there.
pub(super) async fn judge(engine: &Engine, secret: &Secret, sent: Sent<'_>, exists: bool) -> bool {
    let (engine, secret) = (engine.clone(), secret.clone());
    let (bytes, nonce) = match sent {
        Sent::Plain(bytes) => (bytes.to_vec(), None),
        Sent::Encrypted { cipher, nonce } => (cipher.to_vec(), Some(nonce.to_vec())),
    };
    let judged = beside(move || {
        let password = match nonce {
            None => auth::unmasked_password(&bytes, b""),
            Some(nonce) => {
                let masked = engine.login_key().and_then(|key| key.decrypt(&bytes));
                masked.and_then(|masked| auth::unmasked_password(&masked, &nonce))
            }
        };
        // Something is compared in any case: the time must not tell whether it was decrypted.
        let is_right = secret.is_salted_of(password.as_deref().unwrap_or(b"not decrypted"));
        let password = password.filter(|_| is_right && exists)?;
        if let Secret::Digest { digits, .. } = &secret {
            learn(digits, &password);
        }
        Some(())
    });
    judged.await.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_has_a_limit() {
        for number in 0..=KNOWN_MAX {
            learn(&format!("{number:05}"), b"x");
        }
        assert_eq!(all_known().len(), KNOWN_MAX);
        let twice: [u8; 32] = Sha256::digest(Sha256::digest(b"x")).into();
        assert_eq!((known("00000"), known("04096")), (None, Some(twice)));
    }
}
