//! A client's first message, for what the TLS library does not tell of it: extensions as they stand, and the session that the
//! client wants to resume.
//!
//! ```text
//! record     type (22), version (2), length (2), a piece of messages
//! message    type (1), length (3), version (2), random (32),
//!            session id (8-bit length), suites (16), compressions (8), extensions (16)
//! extension  type (2), content (16)
//! ```
//!
//! Source: RFC 8446, sections 4.1.2 and 5.1.

use crate::versions::Versions;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const RANDOM_BYTES: usize = 32;

/// Numbers of extensions.
///
/// Source: RFC 8446, section 4.2.
pub mod extension {
    /// `status_request`: the client wants to see the status of the certificate.
    pub const STATUS_REQUEST: u16 = 5;
    /// `session_ticket`: a session of TLS 1.2 that the client keeps itself; empty when it has none and would take one.
    ///
    /// Source: RFC 5077, section 3.2.
    pub const SESSION_TICKET: u16 = 35;
    /// `supported_versions`
    pub const SUPPORTED_VERSIONS: u16 = 43;
    /// `pre_shared_key`: sessions of TLS 1.3 that the client wants to resume.
    pub const PRE_SHARED_KEY: u16 = 41;
}

/// TLS 1.2 and 1.3 on the wire.
const TLS12: u16 = 0x0303;
const TLS13: u16 = 0x0304;

/// A client's first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    message: Vec<u8>,
}

/// Takes `count` bytes off the front.
fn take<'a>(input: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, rest) = input.split_at_checked(count)?;
    *input = rest;
    Some(head)
}

fn number(input: &mut &[u8], bytes: usize) -> Option<usize> {
    Some(take(input, bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

/// Takes a vector off, whose length has so many bytes.
fn vector<'a>(input: &mut &'a [u8], length_bytes: usize) -> Option<&'a [u8]> {
    let len = number(input, length_bytes)?;
    take(input, len)
}

fn pairs(list: &[u8]) -> impl Iterator<Item = u16> {
    list.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// Whether a client that begins with this record offers a session of TLS 1.3. One whose first message has come in part, or in several records,
/// seems to offer none.
pub fn offers_session(record: &[u8]) -> bool {
    content(record)
        .and_then(parts)
        .is_some_and(|[.., list]| extensions(list).any(|(kind, _)| kind == extension::PRE_SHARED_KEY))
}

/// Bytes of a record with its head, as that says; `None` until the head is complete.
pub fn record_bytes(record: &[u8]) -> Option<usize> {
    let mut length = record.get(3..5)?;
    Some(5 + number(&mut length, 2)?)
}

/// What a record has of a message that is complete in it, behind its type and length.
fn content(mut record: &[u8]) -> Option<&[u8]> {
    take(&mut record, 3)?;
    let mut message = vector(&mut record, 2)?;
    take(&mut message, 1)?;
    vector(&mut message, 3)
}

/// Session id, suites and extensions of a first message, without its type and length.
fn parts(content: &[u8]) -> Option<[&[u8]; 3]> {
    let mut rest = content.get(2 + RANDOM_BYTES..)?;
    let session = vector(&mut rest, 1)?;
    let suites = vector(&mut rest, 2)?;
    vector(&mut rest, 1)?;
    let extensions = if rest.is_empty() { &[][..] } else { vector(&mut rest, 2)? };
    Some([session, suites, extensions])
}

/// Extensions in their order, each with its type and content.
fn extensions(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let kind = number(&mut rest, 2)?;
        Some((u16::try_from(kind).ok()?, vector(&mut rest, 2)?))
    })
}

impl Hello {
    /// The message in the records that a client began with; `None` if it is not complete, or something else.
    pub fn of_records(mut records: &[u8]) -> Option<Self> {
        let mut message = Vec::new();
        loop {
            if let Some(mut head) = message.get(..4) {
                if number(&mut head, 1)? != usize::from(CLIENT_HELLO) {
                    return None;
                }
                let len = 4 + number(&mut head, 3)?;
                if message.len() >= len {
                    message.truncate(len);
                    return Some(Self { message }).filter(|hello| hello.parts().is_some());
                }
            }
            if *take(&mut records, 3)?.first()? != HANDSHAKE {
                return None;
            }
            message.extend_from_slice(vector(&mut records, 2)?);
        }
    }

    /// Session id, suites and extensions.
    fn parts(&self) -> Option<[&[u8]; 3]> {
        parts(self.message.get(4..)?)
    }

    /// The client's random bytes.
    pub fn random(&self) -> &[u8] {
        self.message.get(6..6 + RANDOM_BYTES).unwrap_or_default()
    }

    /// Cipher suites that the client offers, in its order.
    pub fn suites(&self) -> impl Iterator<Item = u16> {
        pairs(self.parts().map_or(&[][..], |[_, suites, _]| suites))
    }

    /// The extensions in their order, each with its type and content.
    pub fn extensions(&self) -> impl Iterator<Item = (u16, &[u8])> {
        extensions(self.parts().map_or(&[][..], |[_, _, extensions]| extensions))
    }

    /// The content of an extension.
    pub fn extension(&self, kind: u16) -> Option<&[u8]> {
        self.extensions().find(|(other, _)| *other == kind).map(|(_, content)| content)
    }

    /// Versions that the client lists, in its order; nothing if it has no such list.
    pub fn listed_versions(&self) -> Option<impl Iterator<Item = u16>> {
        let mut content = self.extension(extension::SUPPORTED_VERSIONS)?;
        Some(pairs(vector(&mut content, 1)?))
    }

    /// The version that is spoken with a server of these versions, as a number.
    pub fn version_with(&self, server: Versions) -> Option<u16> {
        let (mut tls12, mut tls13) = (false, false);
        match self.listed_versions() {
            Some(listed) => listed.for_each(|version| {
                tls12 |= version == TLS12;
                tls13 |= version == TLS13;
            }),
            None => tls12 = self.message.get(4..6).is_some_and(|version| version >= &TLS12.to_be_bytes()),
        }
        match () {
            () if tls13 && server.tls13 => Some(TLS13),
            () if tls12 && server.tls12 => Some(TLS12),
            () => None,
        }
    }

    /// The name of the session of TLS 1.2 that the client wants to resume, if that is what a server of these versions speaks and
    /// the session is not in a ticket.
    ///
    /// Source: RFC 5077, section 3.4.
    pub fn session(&self, server: Versions) -> Option<&[u8]> {
        // Beside a ticket the field names no session: clients fill it so that they can tell whether the ticket was taken.
        if self.extension(extension::SESSION_TICKET).is_some_and(|ticket| !ticket.is_empty()) {
            return None;
        }
        // What TLS 1.3 has in this field is there for old machines on the way.
        let session = self.parts().filter(|_| self.version_with(server) == Some(TLS12))?[0];
        (!session.is_empty()).then_some(session)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;
    use crate::provider;

    /// What rustls' client begins with.
    fn records() -> Vec<u8> {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = "tide.example".try_into().expect("a name");
        let mut conn = ClientConnection::new(Arc::new(config), name).expect("settings that fit");
        let mut records = Vec::new();
        conn.write_tls(&mut records).expect("memory takes everything");
        records
    }

    #[test]
    fn a_message_is_read_whole_and_at_no_cut() {
        let records = records();
        let hello = Hello::of_records(&records).expect("a message");
        assert_eq!(hello.extension(0).map(|content| &content[5..]), Some(&b"tide.example"[..]));
        assert!(hello.extension(extension::STATUS_REQUEST).is_some());
        assert_eq!(hello.listed_versions().expect("a list").collect::<Vec<_>>(), [TLS13, TLS12]);
        assert_eq!(hello.version_with(Versions::ALL), Some(TLS13));
        assert_eq!(hello.version_with(Versions { tls12: true, tls13: false }), Some(TLS12));
        assert_eq!(hello.session(Versions::ALL), None);
        assert_eq!(hello.random().len(), RANDOM_BYTES);
        assert!(hello.suites().any(|suite| suite == 0x1301));
        for cut in 0..records.len() {
            assert_eq!(Hello::of_records(&records[..cut]), None, "{cut}");
        }
        for at in 0..records.len() {
            let mut broken = records.clone();
            broken[at] ^= 0xff;
            if let Some(hello) = Hello::of_records(&broken) {
                let _ = (hello.extensions().count(), hello.session(Versions::ALL), hello.version_with(Versions::ALL));
            }
        }
    }

    #[test]
    fn a_session_of_tls13_is_offered_in_a_record_that_is_complete() {
        let extension = |kind: u16| [&kind.to_be_bytes()[..], &[0, 3], b"psk"].concat();
        let record = |list: &[u8]| {
            let body =
                [&TLS12.to_be_bytes()[..], &[0; RANDOM_BYTES], b"\0\0\x02\x13\x01\x01\0\0", &[list.len() as u8], list];
            let body = body.concat();
            [&[HANDSHAKE, 3, 1, 0, 4 + body.len() as u8, CLIENT_HELLO, 0, 0, body.len() as u8], &body[..]].concat()
        };
        let other = extension(extension::STATUS_REQUEST);
        let offering = record(&[&other[..], &extension(extension::PRE_SHARED_KEY)].concat());
        assert!(offers_session(&offering) && !offers_session(&record(&other)) && !offers_session(&records()));
        assert!((0..offering.len()).all(|cut| !offers_session(&offering[..cut])));
        assert!((5..offering.len()).all(|cut| record_bytes(&offering[..cut]) == Some(offering.len())));
        assert!((0..5).all(|cut| record_bytes(&offering[..cut]).is_none()));
    }

    /// A message of TLS 1.2 with the session `tide` and one extension.
    fn message_of_tls12(kind: u16, content: &[u8]) -> Hello {
        let len = |bytes: usize| u16::try_from(bytes).expect("short").to_be_bytes();
        let mut body = TLS12.to_be_bytes().to_vec();
        body.extend([0; RANDOM_BYTES]);
        body.extend(b"\x04tide\0\x02\xc0\x2f\x01\0");
        body.extend(len(4 + content.len()));
        body.extend(kind.to_be_bytes());
        body.extend(len(content.len()));
        body.extend(content);
        let mut records = vec![HANDSHAKE, 3, 1];
        records.extend(len(4 + body.len()));
        records.extend([CLIENT_HELLO, 0]);
        records.extend(len(body.len()));
        records.extend(body);
        Hello::of_records(&records).expect("a message")
    }

    #[test]
    fn a_session_in_a_ticket_has_no_name() {
        const TIDE: Option<&[u8]> = Some(b"tide");
        assert_eq!(message_of_tls12(extension::SESSION_TICKET, b"").session(Versions::ALL), TIDE);
        assert_eq!(message_of_tls12(extension::STATUS_REQUEST, b"ticket").session(Versions::ALL), TIDE);
        assert_eq!(message_of_tls12(extension::SESSION_TICKET, b"ticket").session(Versions::ALL), None);
    }

    #[test]
    fn a_message_may_come_in_many_records() {
        let whole = records();
        let expected = Hello::of_records(&whole).expect("a message");
        let pieces: Vec<u8> = whole[5..]
            .iter()
            .flat_map(|byte| [HANDSHAKE, 3, 1, 0, 1, *byte])
            .chain([HANDSHAKE, 3, 3, 0, 1, 9])
            .collect();
        assert_eq!(Hello::of_records(&pieces), Some(expected));
    }
}
