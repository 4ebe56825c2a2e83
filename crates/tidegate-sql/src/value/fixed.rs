//! UUID, INET4 and INET6: values of a fixed number of bytes that have a text of their own.
//!
//! They are stored as BLOBs of 4 or 16 bytes whose order is that of the values. MariaDB orders UUIDs of the versions 1 to 5
//! by their node, clock sequence and time, most significant part first; so these are stored with their parts turned
//! round:
//!
//! ```text
//! text    llllllll-mmmm-Vhhh-Nccc-nnnnnnnnnnnn     V 1 to 5, N 8 to f
//! stored  nnnnnnnnnnnn Nccc Vhhh mmmm llllllll     byte 6 is 80 or more, and so tells the two forms apart
//! ```
//!
//! Source: MariaDB's "UUID Data Type", "INET4" and "INET6".

use std::net::{Ipv4Addr, Ipv6Addr};

/// A type of values of a fixed number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fixed {
    Uuid,
    Inet4,
    Inet6,
}

/// A value of such a type.
// Aligned as the largest other value is: at odd places it would have all values copied in odd pieces.
#[repr(align(16))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FixedValue {
    kind: Fixed,
    /// The value's own bytes, zeros behind them.
    bytes: [u8; 16],
}

impl Fixed {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Uuid, Self::Inet4, Self::Inet6];

    /// The type's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uuid => "uuid",
            Self::Inet4 => "inet4",
            Self::Inet6 => "inet6",
        }
    }

    /// The type with a name in small letters.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Bytes of a value.
    pub(crate) fn size(self) -> usize {
        if self == Self::Inet4 { 4 } else { 16 }
    }

    /// Characters of the longest text.
    pub(crate) fn chars_max(self) -> u32 {
        match self {
            Self::Uuid => 36,
            Self::Inet4 => 15,
            Self::Inet6 => 39,
        }
    }

    /// Reads a text.
    pub(crate) fn parse(self, text: &[u8]) -> Option<FixedValue> {
        match self {
            Self::Uuid => uuid_of(text).and_then(|bytes| self.of_bytes(&bytes)),
            Self::Inet4 => inet4_of(text).and_then(|bytes| self.of_bytes(&bytes)),
            Self::Inet6 => {
                let address: Ipv6Addr = std::str::from_utf8(text).ok()?.parse().ok()?;
                self.of_bytes(&address.octets())
            }
        }
    }

    /// The value that has these bytes.
    pub(crate) fn of_bytes(self, given: &[u8]) -> Option<FixedValue> {
        if given.len() != self.size() {
            return None;
        }
        let mut bytes = [0; 16];
        bytes[..given.len()].copy_from_slice(given);
        // What would be stored as another value: no version of RFC 9562 has these bits.
        let is_ambiguous = self == Self::Uuid && !is_turned(&bytes) && is_stored_turned(&bytes);
        (!is_ambiguous).then_some(FixedValue { kind: self, bytes })
    }

    /// Reads the stored form.
    pub(crate) fn of_stored(self, stored: &[u8]) -> Option<FixedValue> {
        if self == Self::Uuid {
            let stored: &[u8; 16] = stored.try_into().ok()?;
            let bytes = if is_stored_turned(stored) { turned_back(stored) } else { *stored };
            return Some(FixedValue { kind: self, bytes });
        }
        self.of_bytes(stored)
    }
}

impl FixedValue {
    /// Its type.
    pub(crate) fn kind(&self) -> Fixed {
        self.kind
    }

    /// Its own bytes: those of the text, of the network.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.kind.size()]
    }

    /// The stored form.
    pub(crate) fn to_stored(self) -> Box<[u8]> {
        if self.kind == Fixed::Uuid && is_turned(&self.bytes) {
            turned(&self.bytes).into()
        } else {
            self.bytes().into()
        }
    }

    /// Appends the text.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self.kind {
            Fixed::Uuid => {
                for (index, byte) in self.bytes.iter().enumerate() {
                    if matches!(index, 4 | 6 | 8 | 10) {
                        out.push(b'-');
                    }
                    out.extend([byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
                }
            }
            Fixed::Inet4 => {
                let [a, b, c, d, ..] = self.bytes;
                out.extend_from_slice(Ipv4Addr::new(a, b, c, d).to_string().as_bytes());
            }
            Fixed::Inet6 => write_inet6(self.bytes, out),
        }
    }
}

/// Whether a UUID is stored with its parts turned round.
fn is_turned(bytes: &[u8; 16]) -> bool {
    matches!(bytes[6], 0x01..0x60) && bytes[8] >= 0x80
}

/// Whether a stored form is that of a UUID whose parts were turned round.
fn is_stored_turned(stored: &[u8; 16]) -> bool {
    stored[6] >= 0x80 && matches!(stored[8], 0x01..0x60)
}

fn turned(bytes: &[u8; 16]) -> [u8; 16] {
    let mut stored = [0; 16];
    stored[..6].copy_from_slice(&bytes[10..]);
    stored[6..8].copy_from_slice(&bytes[8..10]);
    stored[8..10].copy_from_slice(&bytes[6..8]);
    stored[10..12].copy_from_slice(&bytes[4..6]);
    stored[12..].copy_from_slice(&bytes[..4]);
    stored
}

fn turned_back(stored: &[u8; 16]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[10..].copy_from_slice(&stored[..6]);
    bytes[8..10].copy_from_slice(&stored[6..8]);
    bytes[6..8].copy_from_slice(&stored[8..10]);
    bytes[4..6].copy_from_slice(&stored[10..12]);
    bytes[..4].copy_from_slice(&stored[12..]);
    bytes
}

/// 32 hexadecimal digits with hyphens anywhere between them.
fn uuid_of(text: &[u8]) -> Option<[u8; 16]> {
    let (mut bytes, mut digits) = ([0u8; 16], 0);
    for byte in text {
        match (byte, char::from(*byte).to_digit(16)) {
            (_, Some(digit)) => {
                let place = bytes.get_mut(digits / 2)?;
                *place = *place << 4 | digit as u8;
                digits += 1;
            }
            (b'-', None) if digits > 0 && digits < 32 => {}
            _ => return None,
        }
    }
    (digits == 32).then_some(bytes)
}

/// Four numbers of up to three digits, zeros before them allowed.
fn inet4_of(text: &[u8]) -> Option<[u8; 4]> {
    let mut bytes = [0; 4];
    let mut parts = text.split(|byte| *byte == b'.');
    for byte in &mut bytes {
        let part = parts.next().filter(|part| matches!(part.len(), 1..=3) && part.iter().all(u8::is_ascii_digit))?;
        let number = part.iter().fold(0u16, |number, digit| number * 10 + u16::from(digit - b'0'));
        *byte = u8::try_from(number).ok()?;
    }
    parts.next().is_none().then_some(bytes)
}

/// An address whose longest row of zero groups, also of one group alone, is left out; one that holds an IPv4 address ends
/// in that.
fn write_inet6(bytes: [u8; 16], out: &mut Vec<u8>) {
    let groups = Ipv6Addr::from(bytes).segments();
    let (mut gap, mut index) = (0..0, 0);
    while index < 8 {
        let zeros = groups[index..].iter().take_while(|group| **group == 0).count();
        if zeros > gap.len() {
            gap = index..index + zeros;
        }
        index += zeros.max(1);
    }
    let holds_inet4 = gap.start == 0 && (gap.len() == 6 || gap.len() == 5 && groups[5] == 0xffff);
    let groups_end = if holds_inet4 { 6 } else { 8 };
    let mut text = String::with_capacity(39);
    for (index, group) in groups.iter().enumerate().take(groups_end) {
        if gap.contains(&index) {
            if index == gap.start {
                text.push_str("::");
            }
            continue;
        }
        if !text.is_empty() && !text.ends_with(':') {
            text.push(':');
        }
        text.push_str(&format!("{group:x}"));
    }
    if holds_inet4 {
        if !text.ends_with(':') {
            text.push(':');
        }
        let [.., a, b, c, d] = bytes;
        text.push_str(&Ipv4Addr::new(a, b, c, d).to_string());
    }
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read from a text, and written again from its stored form.
    #[track_caller]
    fn check(kind: Fixed, text: &str, expected: Option<&str>) {
        let value = kind.parse(text.as_bytes());
        let written = value.map(|value| {
            assert_eq!(kind.of_stored(&value.to_stored()), Some(value), "{text}");
            assert_eq!(kind.of_bytes(value.bytes()), Some(value), "{text}");
            let mut out = Vec::new();
            value.write(&mut out);
            assert!(out.len() <= kind.chars_max() as usize);
            String::from_utf8(out).unwrap()
        });
        assert_eq!(written.as_deref(), expected, "{text}");
    }

    #[test]
    fn uuids() {
        let text = "123e4567-e89b-12d3-a456-426655440000";
        for given in [text, "123E4567E89B12D3A456426655440000", "1-2-3-e4567e89b12d3a456426655440000"] {
            check(Fixed::Uuid, given, Some(text));
        }
        check(Fixed::Uuid, "123e4567--e89b-12d3-a456-426655440000", Some(text));
        for wrong in ["", "bad", &text[1..], &text[..35], "{123e4567-e89b-12d3-a456-426655440000}"] {
            check(Fixed::Uuid, wrong, None);
        }
        for ends in ["-123e4567-e89b-12d3-a456-426655440000", "123e4567-e89b-12d3-a456-426655440000-"] {
            check(Fixed::Uuid, ends, None);
        }
        // All versions there are; one that no version has, and whose stored form is another's.
        for version in "0123456789abcdef".chars() {
            let text = format!("50000000-0000-{version}100-8000-000000000001");
            check(Fixed::Uuid, &text, Some(&text));
        }
        check(Fixed::Uuid, "50000000-0000-8100-1000-000000000001", None);
    }

    #[test]
    fn uuids_have_the_order_of_mariadb() {
        let ordered = [
            "00000000-0000-0000-0000-000000000000",
            "00000000-0000-3000-1000-000000000009",
            "00000000-0000-6000-8000-000000000003",
            "00000000-0000-7000-8000-000000000002",
            "00000001-0000-1000-8000-000000000000",
            "10000000-0000-1000-8000-000000000000",
            "00000000-0001-1000-8000-000000000000",
            "00000000-0000-2000-8000-000000000000",
            "00000000-0000-1000-9000-000000000000",
            "00000000-0000-1000-8000-000000000001",
            "f0000000-0000-4000-8000-000000000001",
            "50000000-0000-5000-8000-000000000001",
            "50000000-0000-0000-8000-000000000001",
            "e0000000-0000-7000-8000-000000000001",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
        ];
        let stored: Vec<_> =
            ordered.iter().map(|text| Fixed::Uuid.parse(text.as_bytes()).unwrap().to_stored()).collect();
        assert!(stored.is_sorted());
    }

    #[test]
    fn addresses() {
        check(Fixed::Inet4, "001.02.3.255", Some("1.2.3.255"));
        for wrong in ["1.2.3", "1.2.3.4.5", "256.1.1.1", "0001.1.1.1", " 1.2.3.4", "1.2.3.4x", ""] {
            check(Fixed::Inet4, wrong, None);
        }
        let pairs = [
            ("::", "::"),
            ("1::", "1::"),
            ("::1.2.3.4", "::1.2.3.4"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
            ("1:0:0:4:0:0:0:8", "1:0:0:4::8"),
            ("1:0:2:3:4:5:6:7", "1::2:3:4:5:6:7"),
            ("FE80::00ab", "fe80::ab"),
            ("::0.0.0.1", "::1"),
            ("::1:2", "::0.1.0.2"),
            ("64:ff9b::1.2.3.4", "64:ff9b::102:304"),
            ("::ffff:0:0", "::ffff:0.0.0.0"),
            ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7::"),
            ("1:2:3:0:0:6:7:8", "1:2:3::6:7:8"),
        ];
        for (given, expected) in pairs {
            check(Fixed::Inet6, given, Some(expected));
        }
        for wrong in ["", "1::2::3", ":::", "::1 ", "12345::", "fe80::1%eth0", "1.2.3.4"] {
            check(Fixed::Inet6, wrong, None);
        }
    }
}
