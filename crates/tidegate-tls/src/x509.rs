//! The few parts of a certificate that are shown, and those that are needed where the TLS library refuses to look at it:
//! one of version 1, which has no extensions, and one that is trusted itself. Servers inside of a network still show such
//! certificates.
//!
//! ```text
//! Certificate ::= SEQUENCE { tbsCertificate SEQUENCE { [0] version?, serialNumber, signature, issuer, validity, subject,
//!                                                      subjectPublicKeyInfo, … }, … }
//! ```
//!
//! Source: RFC 5280, section 4.1.

use std::iter;

use aws_lc_rs::signature::{
    RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, RsaParameters, UnparsedPublicKey,
};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use webpki::RawPublicKeyEntity;

use crate::provider;

pub(crate) const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const BIT_STRING: u8 = 0x03;

/// Parts of a certificate, each with its tag and length.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// No version is given: it is version 1.
    pub(crate) is_version_1: bool,
    /// Content of the serial number.
    pub(crate) serial: &'a [u8],
    pub(crate) issuer: &'a [u8],
    validity: &'a [u8],
    pub(crate) subject: &'a [u8],
    /// SubjectPublicKeyInfo.
    pub(crate) public_key: &'a [u8],
    /// Whether the certificate has the extension subjectAltName, whose names count instead of the subject's.
    pub(crate) has_alternative_names: bool,
    /// What follows the key.
    rest: &'a [u8],
}

/// An extension of a certificate or a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extension<'a> {
    /// Its number, as encoded.
    pub(crate) kind: &'a [u8],
    /// Who does not know it must not accept the certificate.
    pub(crate) is_critical: bool,
    /// Its content, encoded once more.
    pub(crate) value: &'a [u8],
}

/// The extensions in the content of an element `[3]` or `[0]`.
pub(crate) fn extensions(tagged: &[u8]) -> impl Iterator<Item = Extension<'_>> {
    let list = elements(tagged).next().map_or(&[][..], |(_, list)| list);
    elements(list).filter_map(|(_, extension)| {
        let mut fields = elements(extension);
        let (_, kind) = fields.next()?;
        match fields.next()? {
            (BOOLEAN, flag) => {
                let (_, value) = fields.next().filter(|(tag, _)| *tag == OCTET_STRING)?;
                Some(Extension { kind, is_critical: flag != [0], value })
            }
            (_, value) => Some(Extension { kind, is_critical: false, value }),
        }
    })
}

/// A certificate or a list as its issuer has signed it.
#[derive(Debug)]
pub(crate) struct Signed<'a> {
    /// The bytes that are signed.
    whole: &'a [u8],
    /// What is in them.
    pub(crate) content: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Signed<'a> {
    pub(crate) fn of(der: &'a [u8]) -> Option<Self> {
        let (_, signed, _) = element(der).filter(|(tag, ..)| *tag == SEQUENCE)?;
        let (whole, rest) = next(signed)?;
        let (_, content, _) = element(whole).filter(|(tag, ..)| *tag == SEQUENCE)?;
        let (_, algorithm, size) = element(rest).filter(|(tag, ..)| *tag == SEQUENCE)?;
        let (_, bits, _) = element(rest.get(size..)?).filter(|(tag, ..)| *tag == BIT_STRING)?;
        // The number of bits that are not used comes first; a signature is of whole bytes.
        let signature = bits.strip_prefix(&[0])?;
        Some(Self { whole, content, algorithm, signature })
    }

    /// Whether the owner of `key`, a whole SubjectPublicKeyInfo, has signed it.
    pub(crate) fn is_by(&self, key: &[u8]) -> bool {
        let key = SubjectPublicKeyInfoDer::from(key);
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
        let algorithms = provider().signature_verification_algorithms.all;
        let mut fitting = algorithms.iter().filter(|known| known.signature_alg_id().as_ref() == self.algorithm);
        fitting.any(|known| key.verify_signature(*known, self.whole, self.signature).is_ok())
    }

    /// As [`is_by`](Self::is_by), by RSA of 1024 bits or more, with SHA-1 if need be.
    pub(crate) fn is_weakly_by(&self, key: &[u8]) -> bool {
        let Some((_, algorithm)) = WEAK.iter().find(|(known, _)| *known == self.algorithm) else { return false };
        // SEQUENCE { algorithm, BIT STRING }
        let bits = elements(key).next().and_then(|(_, parts)| elements(parts).nth(1));
        let Some(bits) = bits.and_then(|(_, bits)| bits.strip_prefix(&[0])) else { return false };
        UnparsedPublicKey::new(*algorithm, bits).verify(self.whole, self.signature).is_ok()
    }
}

/// Signatures by RSA (PKCS #1 1.5) as certificates name them: with SHA-1, SHA-256 and SHA-512.
///
/// Source: RFC 8017, appendix A.2.4.
static WEAK: [(&[u8], &RsaParameters); 3] = [
    (b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05\x05\x00", &RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY),
    (b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b\x05\x00", &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY),
    (b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d\x05\x00", &RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY),
];

/// Whether a certificate may be used at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validity {
    NotYet,
    Now,
    Expired,
}

const COMMON_NAME: &[u8] = b"\x55\x04\x03";
const SUBJECT_ALT_NAME: &[u8] = b"\x06\x03\x55\x1d\x11";

impl<'a> Parts<'a> {
    /// The parts of `certificate`, or `None` for bytes that are none.
    pub(crate) fn of(certificate: &'a [u8]) -> Option<Self> {
        let (_, signed, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
        let (_, mut rest, _) = element(signed).filter(|(tag, ..)| *tag == SEQUENCE)?;
        let is_version_1 = *rest.first()? != VERSION;
        if !is_version_1 {
            rest = next(rest)?.1;
        }
        let (_, serial, _) = element(rest)?;
        // Behind the serial number stands the algorithm of the signature.
        rest = next(next(rest)?.1)?.1;
        let (issuer, rest) = next(rest)?;
        let (validity, rest) = next(rest)?;
        let (subject, rest) = next(rest)?;
        let (public_key, rest) = next(rest)?;
        let has_alternative_names = memchr::memmem::find(rest, SUBJECT_ALT_NAME).is_some();
        Some(Self { is_version_1, serial, issuer, validity, subject, public_key, has_alternative_names, rest })
    }

    /// Whether it may be used at a time, in seconds since 1970; `None` for times that cannot be read.
    pub(crate) fn validity_at(&self, seconds: u64) -> Option<Validity> {
        let (from, to) = self.times()?;
        let now = i64::try_from(seconds).ok()?;
        Some(match now {
            _ if now < from => Validity::NotYet,
            _ if now > to => Validity::Expired,
            _ => Validity::Now,
        })
    }

    /// Its extensions.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = Extension<'a>> + use<'a> {
        let tagged = elements(self.rest).find(|(tag, _)| *tag == EXTENSIONS).map_or(&[][..], |(_, content)| content);
        extensions(tagged)
    }

    /// First and last second of its time, since 1970.
    pub(crate) fn times(&self) -> Option<(i64, i64)> {
        let (_, times, _) = element(self.validity)?;
        let mut times = elements(times).map(|(tag, text)| seconds_of(tag, text));
        Some((times.next()??, times.next()??))
    }

    /// The common names of the subject, each with the tag of its type.
    pub(crate) fn common_names(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let names = element(self.subject).map_or(&[][..], |(_, names, _)| names);
        elements(names).flat_map(|(_, set)| elements(set)).filter_map(|(_, attribute)| {
            let mut fields = elements(attribute);
            fields.next().filter(|(_, kind)| *kind == COMMON_NAME)?;
            fields.next()
        })
    }

    /// Whether a common name of the subject stands for `host`: is the same, or has `*` in the place of its first label.
    pub(crate) fn is_named(&self, host: &[u8]) -> bool {
        let stands_for_host = |name: &[u8]| match name.strip_prefix(b"*") {
            None => name.eq_ignore_ascii_case(host),
            Some(rest) => {
                let domain = memchr::memchr(b'.', host).map(|dot| &host[dot..]);
                domain.is_some_and(|domain| domain.len() > 1 && rest.eq_ignore_ascii_case(domain))
            }
        };
        self.common_names().any(|(_, name)| stands_for_host(name))
    }

    /// Whether it names itself as its issuer.
    pub(crate) fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }
}

/// The elements that follow one another, each with its tag and content, up to the first that is broken.
pub(crate) fn elements(mut input: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    iter::from_fn(move || {
        let (tag, content, size) = element(input)?;
        input = &input[size..];
        Some((tag, content))
    })
}

/// A time in seconds since 1970: `YYMMDDHHMMSSZ` as UTCTime, with four digits for the year as GeneralizedTime.
///
/// Source: RFC 5280, section 4.1.2.5.
pub(crate) fn seconds_of(tag: u8, text: &[u8]) -> Option<i64> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let digits = text.strip_suffix(b"Z").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let number = |digits: &[u8]| digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(&digits[..2]);
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|at| number(&rest[at..at + 2]));
    // Years begin with March here, so that the day of a leap year is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// The first element as a whole, and what follows it.
pub(crate) fn next(input: &[u8]) -> Option<(&[u8], &[u8])> {
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

/// An element SEQUENCE with this content.
#[cfg(test)]
pub(crate) fn sequence(content: &[u8]) -> Vec<u8> {
    let len = content.len().to_be_bytes();
    let digits = &len[len.iter().position(|byte| *byte != 0).unwrap_or(len.len() - 1)..];
    let mut out = vec![SEQUENCE];
    if content.len() > 0x7f {
        // At most eight digits.
        out.push(0x80 | digits.len() as u8);
    }
    out.extend_from_slice(digits);
    out.extend_from_slice(content);
    out
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
            &sequence(b"\x17\x0d700101000001Z\x18\x0f20500301000000Z"),
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
    fn times() {
        let certificate = certificate(b"", b"me", b"me");
        let parts = Parts::of(&certificate).expect("a certificate");
        // 2050-03-01 as `date -d` has it.
        let last = 2_529_705_600;
        for (seconds, expected) in
            [(0, Validity::NotYet), (1, Validity::Now), (last, Validity::Now), (last + 1, Validity::Expired)]
        {
            assert_eq!(parts.validity_at(seconds), Some(expected), "{seconds}");
        }
        for (text, expected) in [
            (&b"491231235959Z"[..], Some(2_524_607_999)),
            (b"500101000000Z", Some(-631_152_000)),
            (b"000229120000Z", Some(951_825_600)),
            (b"0002291200Z", None),
            (b"000229120000", None),
            (b"0002291x0000Z", None),
        ] {
            assert_eq!(seconds_of(0x17, text), expected, "{text:?}");
        }
    }

    #[test]
    fn common_names() {
        let named = |name: &[u8]| {
            let mut attribute = b"\x06\x03\x55\x04\x03\x0c".to_vec();
            attribute.push(u8::try_from(name.len()).expect("short"));
            attribute.extend_from_slice(name);
            let len = u8::try_from(attribute.len()).expect("short");
            let set = [&[0x31, len + 2, SEQUENCE, len][..], &attribute].concat();
            certificate(b"", b"", &set)
        };
        for (name, host, expected) in [
            ("tide.test", "Tide.Test", true),
            ("tide.test", "a.tide.test", false),
            ("*.tide.test", "a.tide.test", true),
            ("*.tide.test", "a.b.tide.test", false),
            ("*.tide.test", "tide.test", false),
            ("*", "tide", false),
            ("*.", "tide.", false),
        ] {
            let certificate = named(name.as_bytes());
            let parts = Parts::of(&certificate).expect("a certificate");
            assert_eq!(parts.is_named(host.as_bytes()), expected, "{name} {host}");
        }
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
