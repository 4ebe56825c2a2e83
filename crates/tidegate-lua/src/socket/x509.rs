//! The few parts of a certificate that are needed where the TLS library refuses to look at it: version 1 has no extensions,
//! so that nothing can be verified by it, but servers inside of a network still show such certificates.
//!
//! ```text
//! Certificate ::= SEQUENCE { tbsCertificate SEQUENCE { [0] version?, serialNumber, signature, issuer, validity, subject,
//!                                                      subjectPublicKeyInfo, … }, … }
//! ```
//!
//! Source: RFC 5280, section 4.1.

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// Parts of a certificate, each with its tag and length.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// No version is given: it is version 1.
    pub(super) is_version_1: bool,
    issuer: &'a [u8],
    subject: &'a [u8],
    /// SubjectPublicKeyInfo.
    pub(super) public_key: &'a [u8],
}

impl<'a> Parts<'a> {
    /// The parts of `certificate`, or `None` for bytes that are none.
    pub(super) fn of(certificate: &'a [u8]) -> Option<Self> {
        let (_, certificate, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
        let (_, mut rest, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
        let is_version_1 = *rest.first()? != VERSION;
        if !is_version_1 {
            rest = next(rest)?.1;
        }
        // The serial number and the algorithm of the signature.
        rest = next(next(rest)?.1)?.1;
        let (issuer, rest) = next(rest)?;
        // The validity.
        let (subject, rest) = next(next(rest)?.1)?;
        let (public_key, _) = next(rest)?;
        Some(Self { is_version_1, issuer, subject, public_key })
    }

    /// Whether it names itself as its issuer.
    pub(super) fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }
}

/// The first element as a whole, and what follows it.
fn next(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, _, size) = element(input)?;
    input.split_at_checked(size)
}

/// Tag, content and whole size of the first element.
fn element(input: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, head) = match first {
        0..=0x7f => (usize::from(first), 2),
        0x81..=0x83 => {
            let count = usize::from(first & 0x7f);
            let len = rest.get(..count)?.iter().fold(0, |len, &byte| len << 8 | usize::from(byte));
            (len, 2 + count)
        }
        // Without a length, or longer than any certificate.
        _ => return None,
    };
    let size = head.checked_add(len)?;
    Some((tag, input.get(head..size)?, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate of nothing but these parts.
    fn certificate(version: &[u8], issuer: &[u8], subject: &[u8]) -> Vec<u8> {
        let sequence =
            |content: &[u8]| [&[SEQUENCE, u8::try_from(content.len()).expect("short")][..], content].concat();
        let tbs = [
            version,
            b"\x02\x01\x07",
            &sequence(b""),
            &sequence(issuer),
            &sequence(b"now"),
            &sequence(subject),
            &sequence(b"key"),
        ];
        sequence(&sequence(&tbs.concat()))
    }

    #[test]
    fn versions_and_names() {
        let old = certificate(b"", b"me", b"me");
        let parts = Parts::of(&old).expect("a certificate");
        assert!(parts.is_version_1 && parts.is_self_issued());
        assert_eq!(parts.public_key, b"\x30\x03key");
        let new = certificate(b"\xa0\x03\x02\x01\x02", b"you", b"me");
        let parts = Parts::of(&new).expect("a certificate");
        assert!(!parts.is_version_1 && !parts.is_self_issued());
    }

    #[test]
    fn a_certificate_that_is_cut_is_none() {
        let whole = certificate(b"\xa0\x03\x02\x01\x02", b"you", b"me");
        for len in 0..whole.len() {
            assert_eq!(Parts::of(&whole[..len]), None, "{len}");
        }
        assert_eq!(Parts::of(b"\x30\x84\xff\xff\xff\xff"), None);
        assert_eq!(Parts::of(b"\x30\x80"), None);
    }
}
