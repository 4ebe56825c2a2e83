//! DNS messages, as far as asking for addresses needs them (RFC 1035, section 4).
//!
//! ```text
//! 0   id        2 bytes
//! 2   flags     QR opcode AA TC RD | RA Z rcode
//! 4   counts    questions, answers, authority, additional: 2 bytes each
//! 12  question  name, type, class
//!     answers   name, type, class, ttl (4), length (2), data
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kinds of records that the resolver asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// IPv4 addresses.
    A = 1,
    /// IPv6 addresses.
    Aaaa = 28,
}

const CNAME: u16 = 5;
const CLASS_IN: u16 = 1;
const HEADER_BYTES: usize = 12;
/// Longest name on the wire, with its lengths.
const NAME_BYTES_MAX: usize = 255;
const LABEL_BYTES_MAX: usize = 63;
/// Jumps that a compressed name may take: each must lead backwards, but not for ever.
const JUMPS_MAX: usize = 64;

/// The answer of a name server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// Addresses, none if the name has none of this kind, and for how many seconds they are good.
    Addresses(Vec<IpAddr>, u32),
    /// Another name, whose addresses the answer does not have, and for how many seconds that is true.
    Alias(String, u32),
    /// An error code.
    Error(u8),
    /// The answer is too long for a datagram.
    Truncated,
}

/// A query; `None` for a name that cannot be one.
pub(super) fn query(id: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut out = Vec::with_capacity(HEADER_BYTES + name.len() + 6);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        if label.is_empty() || label.len() > LABEL_BYTES_MAX {
            return None;
        }
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    if out.len() - HEADER_BYTES > NAME_BYTES_MAX {
        return None;
    }
    out.extend_from_slice(&(kind as u16).to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    Some(out)
}

/// Reads the answer to `query`; `None` if it answers something else or makes no sense.
pub(super) fn reply(query: &[u8], message: &[u8]) -> Option<Reply> {
    let mut reader = Reader { message, at: HEADER_BYTES };
    let flags = *message.get(2)?;
    let rcode = message.get(3)? & 15;
    if message.get(..2)? != query.get(..2)? || flags & 0x80 == 0 {
        return None;
    }
    // The question is repeated, with the case of its letters as it was.
    let question = query.get(HEADER_BYTES..)?;
    let repeated = message.get(HEADER_BYTES..HEADER_BYTES + question.len())?;
    if u16::from_be_bytes([message[4], message[5]]) != 1 || !repeated.eq_ignore_ascii_case(question) {
        return None;
    }
    if flags & 2 != 0 {
        return Some(Reply::Truncated);
    }
    if rcode != 0 {
        return Some(Reply::Error(rcode));
    }
    reader.at += question.len();
    let kind = u16::from_be_bytes([question[question.len() - 4], question[question.len() - 3]]);
    let mut owner = reader.name_at(HEADER_BYTES)?.0;
    let answers = u16::from_be_bytes([message[6], message[7]]);
    let (mut addresses, mut ttl_s) = (Vec::new(), u32::MAX);
    for _ in 0..answers {
        let (name, next) = reader.name_at(reader.at)?;
        reader.at = next;
        let (record, class) = (reader.u16()?, reader.u16()?);
        let ttl = u32::from(reader.u16()?) << 16 | u32::from(reader.u16()?);
        let len = usize::from(reader.u16()?);
        let data = message.get(reader.at..reader.at.checked_add(len)?)?;
        let data_at = reader.at;
        reader.at += len;
        if class != CLASS_IN || !name.eq_ignore_ascii_case(&owner) {
            continue;
        }
        if record == CNAME {
            owner = reader.name_at(data_at)?.0;
        } else if record == kind {
            addresses.push(address(data)?);
        } else {
            continue;
        }
        // The highest bit is no part of the number (RFC 2181, section 8).
        ttl_s = ttl_s.min(if ttl >> 31 == 0 { ttl } else { 0 });
    }
    if addresses.is_empty() && ttl_s != u32::MAX {
        return Some(Reply::Alias(text_of(&owner), ttl_s));
    }
    Some(Reply::Addresses(addresses, if ttl_s == u32::MAX { 0 } else { ttl_s }))
}

/// A name as people write it. What is no text is replaced, and then found nowhere.
fn text_of(mut name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    while let Some((&length, rest)) = name.split_first() {
        let (label, rest) = rest.split_at(usize::from(length).min(rest.len()));
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(&String::from_utf8_lossy(label).to_ascii_lowercase());
        name = rest;
    }
    text
}

fn address(data: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(data) {
        return Some(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(data).ok().map(|octets| Ipv6Addr::from(octets).into())
}

/// What holds for any bytes as a reply.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn check_any(input: &[u8]) {
    for (id, kind) in [(0, Kind::A), (0x0101, Kind::Aaaa)] {
        let query = query(id, "www.Example.com", kind).expect("a name");
        // As it is, and as the reply to this very question: with its id, the response bit and the question itself.
        let mut fitting = input.to_vec();
        if fitting.len() >= HEADER_BYTES {
            fitting[..2].copy_from_slice(&query[..2]);
            fitting[2] |= 0x80;
            fitting[4..6].copy_from_slice(&[0, 1]);
            fitting.splice(HEADER_BYTES..HEADER_BYTES, query[HEADER_BYTES..].iter().copied());
        }
        for message in [input, &fitting] {
            match reply(&query, message) {
                Some(Reply::Addresses(addresses, _)) => {
                    // Each takes a record of at least twelve bytes and its own.
                    assert!(addresses.len() * 16 <= message.len());
                }
                Some(Reply::Alias(name, _)) => assert!(name.len() <= 3 * NAME_BYTES_MAX),
                Some(Reply::Error(code)) => assert!((1..16).contains(&code)),
                Some(Reply::Truncated) | None => {}
            }
        }
    }
}

struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn u16(&mut self) -> Option<u16> {
        let bytes = self.message.get(self.at..self.at + 2)?;
        self.at += 2;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// The name at a place, in the form with lengths, and where it ends.
    fn name_at(&self, start: usize) -> Option<(Vec<u8>, usize)> {
        let (mut at, mut end, mut jumps) = (start, None, 0);
        let mut name = Vec::new();
        loop {
            let length = usize::from(*self.message.get(at)?);
            match length >> 6 {
                0 if length == 0 => return Some((name, end.unwrap_or(at + 1))),
                0 => {
                    name.extend_from_slice(self.message.get(at..=at + length)?);
                    at += length + 1;
                }
                3 => {
                    end = end.or(Some(at + 2));
                    at = (length & 63) << 8 | usize::from(*self.message.get(at + 1)?);
                    jumps += 1;
                }
                _ => return None,
            }
            if jumps > JUMPS_MAX || name.len() > NAME_BYTES_MAX {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer with the question of `query` and these records.
    fn answer(query: &[u8], flags: [u8; 2], records: &[&[u8]]) -> Vec<u8> {
        let mut message = query.to_vec();
        message[2..4].copy_from_slice(&flags);
        message[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
        records.iter().for_each(|record| message.extend_from_slice(record));
        message
    }

    const OK: [u8; 2] = [0x81, 0x80];
    const A_RECORD: &[u8] = &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1];

    #[test]
    fn queries() {
        let bytes = query(0x1234, "a.bc", Kind::A).expect("a name");
        assert_eq!(bytes, b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x02bc\0\0\x01\0\x01");
        assert!(query(1, "a.bc.", Kind::Aaaa).is_some());
        for bad in ["", ".", "a..b", &"x".repeat(64), &vec!["x".repeat(60); 5].join(".")] {
            assert!(query(1, bad, Kind::A).is_none(), "{bad}");
        }
    }

    #[test]
    fn any_bytes() {
        let question = query(0, "www.Example.com", Kind::A).expect("a name");
        let cname: &[u8] = &[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 2, 0xc0, 16];
        let whole = answer(&question, OK, &[cname, A_RECORD, A_RECORD]);
        for end in 0..=whole.len() {
            check_any(&whole[..end]);
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x3f, 0x40, 0x80, 0xc0, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                check_any(&changed);
            }
        }
    }

    #[test]
    fn replies() {
        let question = query(7, "a.bc", Kind::A).expect("a name");
        #[track_caller]
        fn check(question: &[u8], message: &[u8], expected: Option<Reply>) {
            assert_eq!(reply(question, message), expected);
        }
        let address = IpAddr::from([192, 0, 2, 1]);
        check(&question, &answer(&question, OK, &[A_RECORD]), Some(Reply::Addresses(vec![address], 60)));
        check(&question, &answer(&question, OK, &[]), Some(Reply::Addresses(vec![], 0)));
        check(&question, &answer(&question, [0x81, 0x83], &[]), Some(Reply::Error(3)));
        check(&question, &answer(&question, [0x83, 0x80], &[]), Some(Reply::Truncated));
        check(&question, &answer(&question, [0x01, 0x80], &[A_RECORD]), None);
        let other = query(8, "a.bc", Kind::A).expect("a name");
        check(&question, &answer(&other, OK, &[A_RECORD]), None);
        let other = query(7, "x.bc", Kind::A).expect("a name");
        check(&question, &answer(&other, OK, &[A_RECORD]), None);
        // An alias, and an address of another name, which does not count.
        let cname: &[u8] = &[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 3, 1, b'z', 0];
        let of_alias: &[u8] = &[1, b'Z', 0, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1];
        let of_other: &[u8] = &[1, b'y', 0, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 2];
        let message = answer(&question, OK, &[cname, of_other, of_alias]);
        check(&question, &message, Some(Reply::Addresses(vec![address], 9)));
        check(&question, &answer(&question, OK, &[cname]), Some(Reply::Alias("z".to_owned(), 9)));
        let long: &[u8] = &[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 4, 1, b'Q', 0xc0, 12];
        check(&question, &answer(&question, OK, &[long, of_other]), Some(Reply::Alias("q.a.bc".to_owned(), 9)));
    }

    #[test]
    fn bad_messages_are_refused() {
        let question = query(7, "a.bc", Kind::A).expect("a name");
        let message = answer(&question, OK, &[A_RECORD]);
        for cut in 0..message.len() {
            assert_eq!(reply(&question, &message[..cut]), None, "cut at {cut}");
        }
        let loops: &[u8] = &[0xc0, question.len() as u8, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1];
        assert_eq!(reply(&question, &answer(&question, OK, &[loops])), None);
        // Every single byte changed: no panic.
        for at in 0..message.len() {
            for bit in 0..8 {
                let mut changed = message.clone();
                changed[at] ^= 1 << bit;
                let _ = reply(&question, &changed);
            }
        }
    }
}
