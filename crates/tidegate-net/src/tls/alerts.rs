//! Handshakes that end with an alert before there is anything to encrypt it with.

use std::io::Write;

use rustls::{Error, PeerIncompatible};

use super::{Records, State, TlsStream};

/// The record of a fatal alert: there is nothing for this name (RFC 6066, section 3).
pub(super) const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

/// The record of a fatal alert: nothing that both sides could agree on (RFC 8446, section 6.2).
const HANDSHAKE_FAILURE: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 40];

/// The record of a fatal alert: the server cannot go on (RFC 8446, section 6.2).
const INTERNAL_ERROR: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 80];

/// The alert that there is no version which both sides could speak (RFC 8446, section 6.2).
const PROTOCOL_VERSION: u8 = 70;

/// The first version that is spoken here.
const TLS_1_2: [u8; 2] = [3, 3];

/// What is wrong with a client that speaks none but older versions, and the record of the alert that says so in its own version: the library
/// misses an extension first, which those versions do not have.
///
/// Source: RFC 5246, appendix E.1.
pub(super) fn of_old_version(version: Option<[u8; 2]>, error: &Error) -> Option<(Error, [u8; 7])> {
    let [major, minor] = version.filter(|version| *version < TLS_1_2)?;
    matches!(error, Error::PeerIncompatible(PeerIncompatible::SignatureAlgorithmsExtensionRequired)).then_some((
        Error::PeerIncompatible(PeerIncompatible::Tls12NotOfferedOrEnabled),
        [0x15, major, minor, 0, 2, 2, PROTOCOL_VERSION],
    ))
}

impl TlsStream {
    /// Ends the handshake between [`poll_hello`](Self::poll_hello) and [`answer`](Self::answer): the client is told that the
    /// fault is the server's own.
    pub fn refuse(&self) {
        self.refuse_by(&INTERNAL_ERROR);
    }

    /// As [`refuse`](Self::refuse); the client is told that there is nothing that both sides could agree on.
    pub fn refuse_all(&self) {
        self.refuse_by(&HANDSHAKE_FAILURE);
    }

    fn refuse_by(&self, alert: &[u8]) {
        if self.state.replace(State::Plain).is_greeted() {
            let _ = Records(&self.socket).write_all(alert);
        }
    }
}
