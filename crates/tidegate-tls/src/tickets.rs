//! Tickets: what a client keeps of a session, to resume it without a full handshake.
//!
//! ```text
//! 0         16        28                          end - 16
//! key name  nonce     time of issue (8), session  tag
//!                     └ encrypted ┘
//! ```
//!
//! All numbers are big-endian. Keys are those of files, which several machines can share, or made here; the latter change by
//! themselves, and the one before is good for as long as a session may live.
//!
//! Source: RFC 5077, section 4, with AES-256-GCM for its two keys; nginx, `ssl_session_ticket_key`.

use std::{
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest,
    rand::{SecureRandom, SystemRandom},
};
use rustls::server::ProducesTickets;

const NAME_BYTES: usize = 16;
const TIME_BYTES: usize = 8;
const HEAD_BYTES: usize = NAME_BYTES + NONCE_LEN;

/// Sizes of a file with a key: those that OpenSSL's tickets with AES-128 and AES-256 need.
pub const FILE_BYTES: [usize; 2] = [48, 80];

/// Keys that are made here are used for at least so long: with shorter lives of sessions, change costs more than it gives.
const PERIOD_MIN: Duration = Duration::from_secs(3600);

struct Key {
    name: [u8; NAME_BYTES],
    secret: LessSafeKey,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    fn new(name: [u8; NAME_BYTES], secret: &[u8]) -> Option<Self> {
        let secret = UnboundKey::new(&AES_256_GCM, secret).ok()?;
        Some(Self { name, secret: LessSafeKey::new(secret) })
    }

    /// A key by chance; `None` without any.
    fn random() -> Option<Self> {
        let (mut name, mut secret) = ([0; NAME_BYTES], [0; 32]);
        let random = SystemRandom::new();
        random.fill(&mut name).and_then(|()| random.fill(&mut secret)).ok()?;
        Self::new(name, &secret)
    }

    /// The key of a file: its name stands ahead, the rest is what the secret is made of.
    fn of_file(bytes: &[u8]) -> Option<Self> {
        if !FILE_BYTES.contains(&bytes.len()) {
            return None;
        }
        let (name, rest) = bytes.split_first_chunk::<NAME_BYTES>()?;
        let secret = digest::digest(&digest::SHA256, rest);
        Self::new(*name, secret.as_ref())
    }

    fn seal(&self, plain: &[u8], now: u64) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut text = [&now.to_be_bytes()[..], plain].concat();
        let sealed =
            self.secret.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(self.name), &mut text);
        sealed.ok()?;
        Some([&self.name[..], &nonce, &text].concat())
    }

    /// The time of issue and the session in a ticket of this key.
    fn open(&self, ticket: &[u8]) -> Option<(u64, Vec<u8>)> {
        let (head, text) = ticket.split_at_checked(HEAD_BYTES)?;
        let (name, nonce) = head.split_at(NAME_BYTES);
        if name != self.name {
            return None;
        }
        let mut text = text.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plain = self.secret.open_in_place(nonce, Aad::from(self.name), &mut text).ok()?;
        let (time, session) = plain.split_first_chunk::<TIME_BYTES>()?;
        Some((u64::from_be_bytes(*time), session.to_vec()))
    }
}

/// Keys, the one for new tickets first.
#[derive(Debug)]
enum Keys {
    Files(Vec<Key>),
    /// None were made before the first ticket.
    Changing {
        period: Duration,
        now: Box<RwLock<Option<Made>>>,
    },
}

/// Keys that were made here.
#[derive(Debug)]
struct Made {
    current: Key,
    previous: Option<Key>,
    /// When `current` was made, in seconds since 1970.
    since: u64,
}

/// Makes tickets, and takes them back.
#[derive(Debug)]
pub struct Tickets {
    keys: Keys,
    lifetime: Duration,
}

/// A file that is no key: it has neither 48 nor 80 bytes.
#[derive(Debug, thiserror::Error)]
#[error("must be 48 or 80 bytes")]
pub struct BadKeyFile;

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Tickets {
    /// Tickets with the keys of files, for sessions that live so long.
    ///
    /// # Errors
    /// The number of the first file that is none.
    pub fn with_files(files: &[Vec<u8>], lifetime: Duration) -> Result<Arc<Self>, (usize, BadKeyFile)> {
        let keys = files.iter().enumerate().map(|(index, bytes)| Key::of_file(bytes).ok_or((index, BadKeyFile)));
        Ok(Arc::new(Self { keys: Keys::Files(keys.collect::<Result<_, _>>()?), lifetime }))
    }

    /// Tickets with keys that change by themselves. The whole process shares them, over reloads too. There is no key before the first ticket: the
    /// supervisor, which loads configurations as well, would keep one for as long as it lives.
    pub fn shared(lifetime: Duration) -> Arc<Self> {
        static KNOWN: Mutex<Vec<Arc<Tickets>>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tickets) = known.iter().find(|tickets| tickets.lifetime == lifetime) {
            return tickets.clone();
        }
        let keys = Keys::Changing { period: lifetime.max(PERIOD_MIN), now: Box::default() };
        let tickets = Arc::new(Self { keys, lifetime });
        known.push(tickets.clone());
        tickets
    }

    fn encrypt_at(&self, plain: &[u8], now: u64) -> Option<Vec<u8>> {
        match &self.keys {
            Keys::Files(keys) => keys.first()?.seal(plain, now),
            Keys::Changing { period, now: made } => {
                let is_young = |made: &Made| now.saturating_sub(made.since) < period.as_secs();
                {
                    let made = made.read().unwrap_or_else(PoisonError::into_inner);
                    if let Some(made) = made.as_ref()
                        && is_young(made)
                    {
                        return made.current.seal(plain, now);
                    }
                }
                let mut made = made.write().unwrap_or_else(PoisonError::into_inner);
                // Another worker may have been here first. Without randomness the old key goes on, if there is one.
                if !made.as_ref().is_some_and(is_young)
                    && let Some(current) = Key::random()
                {
                    let previous = made.take().map(|made| made.current);
                    *made = Some(Made { current, previous, since: now });
                }
                made.as_ref()?.current.seal(plain, now)
            }
        }
    }

    fn decrypt_at(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        let (issued, session) = match &self.keys {
            Keys::Files(keys) => keys.iter().find_map(|key| key.open(ticket))?,
            Keys::Changing { now: made, .. } => {
                let made = made.read().unwrap_or_else(PoisonError::into_inner);
                let made = made.as_ref()?;
                made.current.open(ticket).or_else(|| made.previous.as_ref()?.open(ticket))?
            }
        };
        (now.saturating_sub(issued) <= self.lifetime.as_secs()).then_some(session)
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }
    fn lifetime(&self) -> u32 {
        u32::try_from(self.lifetime.as_secs()).unwrap_or(u32::MAX)
    }
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.encrypt_at(plain, seconds_now())
    }
    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.decrypt_at(cipher, seconds_now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_live_as_long_as_sessions_and_keys_change() {
        let tickets = Tickets::shared(Duration::from_secs(7201));
        let start = seconds_now();
        let old = tickets.encrypt_at(b"session", start).expect("a ticket");
        assert_eq!(tickets.decrypt_at(&old, start + 7201).as_deref(), Some(&b"session"[..]));
        assert_eq!(tickets.decrypt_at(&old, start + 7202), None);
        let new = tickets.encrypt_at(b"session", start + 7300).expect("a ticket");
        assert_ne!(old[..NAME_BYTES], new[..NAME_BYTES]);
        // The key before is still good for what it has issued last.
        assert!(tickets.decrypt_at(&old, start + 7201).is_some());
        let newest = tickets.encrypt_at(b"session", start + 15_000).expect("a ticket");
        assert!(tickets.decrypt_at(&old, start).is_none() && tickets.decrypt_at(&newest, start + 15_000).is_some());
        for cut in 0..new.len() {
            assert_eq!(tickets.decrypt_at(&new[..cut], start + 7300), None);
        }
        for at in 0..newest.len() {
            let mut broken = newest.clone();
            broken[at] ^= 1;
            assert_eq!(tickets.decrypt_at(&broken, start + 15_000), None, "{at}");
        }
    }

    #[test]
    fn who_gives_no_ticket_has_no_key() {
        let tickets = Tickets::shared(Duration::from_secs(7203));
        let has_key = || match &tickets.keys {
            Keys::Changing { now, .. } => now.read().expect("not poisoned").is_some(),
            Keys::Files(_) => unreachable!("they are not of files"),
        };
        assert_eq!(tickets.decrypt(&[0; 100]), None);
        assert!(!has_key());
        let ticket = tickets.encrypt(b"session").expect("a ticket");
        assert!(has_key());
        assert_eq!(tickets.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
    }

    #[test]
    fn keys_of_files() {
        let hour = Duration::from_secs(3600);
        let [first, second] = [vec![1; 48], vec![2; 80]];
        let old = Tickets::with_files(std::slice::from_ref(&first), hour).expect("a key");
        let new = Tickets::with_files(&[second, first], hour).expect("keys");
        let ticket = old.encrypt(b"session").expect("a ticket");
        assert_eq!(new.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(old.decrypt(&new.encrypt(b"session").expect("a ticket")), None);
        for size in [0, 16, 47, 49, 81] {
            assert!(Tickets::with_files(&[vec![0; size]], hour).is_err());
        }
    }
}
