//! How clients log in: as with memcached's `-Y` they store `user password` under any key, and may do nothing else before.

use tidegate_http::memcached_server::{Action, Mode, Op, Request, error, write_line};
use tidegate_net::{
    Peer,
    log::{self, Level},
};

use crate::database::{User, port::logins};

/// Bytes of the largest item that somebody may send who has not logged in.
pub(super) const LOGIN_BYTES_MAX: usize = 2048;

/// What a request has come to from somebody who has not logged in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Login {
    Done,
    Refused,
    /// A password was wrong, or came too often.
    Failed,
    Quit,
}

/// Answers a request of somebody who has not logged in.
pub(super) fn log_in(request: &Request<'_>, users: &[User], peer: Peer, out: &mut Vec<u8>) -> Login {
    let value = match request {
        Request::One(Op { action: Action::Store { mode: Mode::Set, value, .. }, .. }) => *value,
        Request::TooLarge { .. } => {
            write_line(b"CLIENT_ERROR auth token too long", out);
            return Login::Refused;
        }
        Request::Quit => return Login::Quit,
        _ => {
            write_line(error::UNAUTHENTICATED, out);
            return Login::Refused;
        }
    };
    let Some(blank) = memchr::memchr(b' ', value) else {
        write_line(b"CLIENT_ERROR bad authentication token format", out);
        return Login::Refused;
    };
    let (user, password) = (&value[..blank], &value[blank + 1..]);
    let is_blocked = logins::is_blocked(peer, user);
    let expected = logins::password(users, user, peer).unwrap_or_default();
    // An empty password lets nobody in: whoever is asked for one has to know it.
    if !is_blocked && !expected.is_empty() && is_same(password, expected) {
        logins::note_success(peer, user);
        write_line(b"STORED", out);
        return Login::Done;
    }
    let next = match is_blocked || logins::note_failure(peer, user) {
        true => "; it may not try again for a minute",
        false => "",
    };
    let user = user.escape_ascii();
    log::note(Level::Warn, format_args!("memcached: access denied for user \"{user}\", client: {peer}{next}"));
    write_line(b"CLIENT_ERROR authentication failure", out);
    Login::Failed
}

/// Compares in a time that does not depend on where the texts differ.
fn is_same(given: &[u8], expected: &[u8]) -> bool {
    let differences = given.iter().zip(expected).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == expected.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_http::memcached_server::{Parsed, parse};

    #[track_caller]
    fn check(input: &str, expected: Login, answer: &str) {
        let users = [("app", "secret word"), ("open", "")];
        let users = users.map(|(name, password)| User { name: name.into(), password: password.into() });
        let Parsed::Request { request, .. } = parse(input.as_bytes(), LOGIN_BYTES_MAX) else { panic!("{input:?}") };
        let mut out = Vec::new();
        let found = log_in(&request, &users, Peer::Unix, &mut out);
        assert_eq!((found, String::from_utf8_lossy(&out)), (expected, answer.into()), "{input:?}");
    }

    #[test]
    fn only_a_right_password_lets_in() {
        check("set x 0 0 15\r\napp secret word\r\n", Login::Done, "STORED\r\n");
        check("set x 0 0 15\r\napp secret wore\r\n", Login::Failed, "CLIENT_ERROR authentication failure\r\n");
        check("set x 0 0 4\r\napp \r\n", Login::Failed, "CLIENT_ERROR authentication failure\r\n");
        check("set x 0 0 5\r\nopen \r\n", Login::Failed, "CLIENT_ERROR authentication failure\r\n");
        check("set x 0 0 8\r\nnobody  \r\n", Login::Failed, "CLIENT_ERROR authentication failure\r\n");
        check("set x 0 0 3\r\napp\r\n", Login::Refused, "CLIENT_ERROR bad authentication token format\r\n");
        check("set x 0 0 3000\r\n", Login::Refused, "CLIENT_ERROR auth token too long\r\n");
        check("add x 0 0 15\r\napp secret word\r\n", Login::Refused, "CLIENT_ERROR unauthenticated\r\n");
        check("get x\r\n", Login::Refused, "CLIENT_ERROR unauthenticated\r\n");
        check("quit\r\n", Login::Quit, "");
    }
}
