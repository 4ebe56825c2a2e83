//! Who may log in, and how often somebody may try.
//!
//! Failures are counted for each address and user. Who has failed too often within a minute is refused for the rest of it,
//! whatever the password: guessing takes that long.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bstr::{BString, ByteSlice};
use tidegate_net::Peer;

use crate::database::User;

/// Failures of a user from an address that are answered as such within [`WINDOW`].
const FAILURES_MAX: u32 = 10;
/// How long a failure counts.
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses and users whose failures are counted; the oldest make room.
const COUNTED_MAX: usize = 4096;
/// Bytes of a name that are told apart.
const NAME_BYTES_MAX: usize = 128;

/// The password of a user who may come from there. Somebody without a password may come from this machine alone.
pub(in crate::database) fn password<'a>(users: &'a [User], name: &[u8], peer: Peer) -> Option<&'a [u8]> {
    let user = users.iter().find(|user| *user.name == *name)?;
    let is_near = match peer {
        Peer::Unix => true,
        Peer::Inet(address) => address.ip().to_canonical().is_loopback(),
    };
    (is_near || !user.password.is_empty()).then_some(&*user.password)
}

type Key = (Option<IpAddr>, BString);

struct Failures {
    count: u32,
    since: Instant,
}

/// Failed logins of the last minute.
#[derive(Default)]
struct Counted(HashMap<Key, Failures>);

static FAILED: Mutex<Option<Counted>> = Mutex::new(None);

fn failed() -> MutexGuard<'static, Option<Counted>> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(peer: Peer, user: &[u8]) -> Key {
    let address = match peer {
        Peer::Unix => None,
        Peer::Inet(address) => Some(address.ip().to_canonical()),
    };
    (address, user[..user.len().min(NAME_BYTES_MAX)].as_bstr().to_owned())
}

/// Whether somebody has failed too often to try again now.
pub(in crate::database) fn is_blocked(peer: Peer, user: &[u8]) -> bool {
    failed().as_mut().is_some_and(|counted| counted.is_blocked(&key(peer, user), Instant::now()))
}

/// A login has failed. Answers whether the next one is refused.
pub(in crate::database) fn note_failure(peer: Peer, user: &[u8]) -> bool {
    failed().get_or_insert_default().note(key(peer, user), Instant::now())
}

/// Somebody has logged in.
pub(in crate::database) fn note_success(peer: Peer, user: &[u8]) {
    if let Some(counted) = failed().as_mut() {
        counted.0.remove(&key(peer, user));
    }
}

impl Counted {
    fn is_blocked(&mut self, key: &Key, now: Instant) -> bool {
        match self.0.get(key) {
            Some(failures) if now.duration_since(failures.since) >= WINDOW => {
                self.0.remove(key);
                false
            }
            Some(failures) => failures.count >= FAILURES_MAX,
            None => false,
        }
    }

    fn note(&mut self, key: Key, now: Instant) -> bool {
        if self.0.len() >= COUNTED_MAX && !self.0.contains_key(&key) {
            self.0.retain(|_, failures| now.duration_since(failures.since) < WINDOW);
            if self.0.len() >= COUNTED_MAX
                && let Some(oldest) =
                    self.0.iter().min_by_key(|(_, failures)| failures.since).map(|(key, _)| key.clone())
            {
                self.0.remove(&oldest);
            }
        }
        let failures = self.0.entry(key).or_insert(Failures { count: 0, since: now });
        if now.duration_since(failures.since) >= WINDOW {
            *failures = Failures { count: 0, since: now };
        }
        failures.count += 1;
        failures.count >= FAILURES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer::Inet(address.parse().expect("an address"))
    }

    #[test]
    fn without_a_password_only_from_here() {
        let user = |name: &str, password: &str| User { name: name.into(), password: password.into() };
        let users = [user("open", ""), user("app", "secret")];
        for (name, from, expected) in [
            ("open", "127.0.0.1:5", Some(&b""[..])),
            ("open", "[::1]:5", Some(b"")),
            ("open", "[::ffff:127.0.0.1]:5", Some(b"")),
            ("open", "10.0.0.1:5", None),
            ("app", "10.0.0.1:5", Some(b"secret")),
            ("App", "127.0.0.1:5", None),
            ("", "127.0.0.1:5", None),
        ] {
            assert_eq!(password(&users, name.as_bytes(), peer(from)), expected, "{name} {from}");
        }
        assert_eq!(password(&users, b"open", Peer::Unix), Some(&b""[..]));
    }

    #[test]
    fn who_fails_too_often_waits() {
        let mut counted = Counted::default();
        let (app, other) = (key(peer("10.0.0.1:5"), b"app"), key(peer("10.0.0.1:6"), b"other"));
        let now = Instant::now();
        for _ in 1..FAILURES_MAX {
            assert!(!counted.note(app.clone(), now));
        }
        assert!(!counted.is_blocked(&app, now));
        assert!(counted.note(app.clone(), now));
        assert!(counted.is_blocked(&app, now) && !counted.is_blocked(&other, now));
        assert!(!counted.is_blocked(&app, now + WINDOW));
        assert!(!counted.note(app.clone(), now + WINDOW));
    }

    #[test]
    fn what_is_counted_has_a_limit() {
        let mut counted = Counted::default();
        let now = Instant::now();
        for number in 0..COUNTED_MAX + 10 {
            counted.note((None, number.to_string().into()), now + Duration::from_millis(number as u64));
        }
        assert_eq!(counted.0.len(), COUNTED_MAX);
        assert!(!counted.0.contains_key(&(None, "0".into())));
    }
}
