//! The status of a certificate: whom to ask, how, and what the answer is worth.
//!
//! ```text
//! OCSPRequest   ::= SEQUENCE { SEQUENCE { SEQUENCE OF SEQUENCE { CertID } } }
//! CertID        ::= SEQUENCE { hashAlgorithm, OCTET STRING issuerNameHash, OCTET STRING issuerKeyHash, INTEGER serialNumber }
//! OCSPResponse  ::= SEQUENCE { ENUMERATED status, [0] SEQUENCE { OID, OCTET STRING BasicOCSPResponse }? }
//! Basic…        ::= SEQUENCE { ResponseData, signatureAlgorithm, BIT STRING signature, [0] SEQUENCE OF Certificate? }
//! ResponseData  ::= SEQUENCE { [0] version?, [1] name or [2] key of the responder, producedAt, SEQUENCE OF SingleResponse, … }
//! SingleResponse::= SEQUENCE { CertID, [0] good | [1] revoked | [2] unknown, thisUpdate, [0] nextUpdate?, … }
//! ```
//!
//! Responses that are signed with SHA-1 are not accepted, nor are delegated responders whose certificate is signed so; but by
//! [`validate`], whose responses others judge again.
//!
//! Source: RFC 6960, sections 4.1 and 4.2; RFC 5019.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::x509::{Extension, Parts, SEQUENCE, Signed, elements, next, seconds_of};

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const ENUMERATED: u8 = 0x0a;
const TAG_0: u8 = 0xa0;
const GOOD: u8 = 0x80;
const REVOKED: u8 = 0xa1;

/// SHA-1, which names of issuers are hashed by; nothing is proved by it.
///
/// Source: RFC 3279, section 2.1.
const SHA1: &[u8] = b"\x30\x09\x06\x05\x2b\x0e\x03\x02\x1a\x05\x00";
const AUTHORITY_INFO_ACCESS: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x01\x01";
const OCSP: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x30\x01";
const OCSP_BASIC: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x30\x01\x01";
const EXTENDED_KEY_USAGE: &[u8] = b"\x55\x1d\x25";
const OCSP_SIGNING: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x03\x09";
/// `uniformResourceIdentifier [6]`
const URI: u8 = 0x86;

/// Clocks of servers and responders may differ by so many seconds.
///
/// Source: nginx, `ngx_ssl_ocsp_validate`.
const SKEW_SECONDS: i64 = 300;

/// Certificates of an answer that are looked at: signatures cost time.
const CERTIFICATES_MAX: usize = 8;

/// Why there is no good status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OcspError {
    /// The certificate cannot be read.
    #[error("d2i_X509_bio() failed")]
    Certificate,
    /// The answer cannot be read.
    #[error("d2i_OCSP_RESPONSE() failed")]
    Syntax,
    /// The responder gave no status.
    #[error("OCSP response not successful ({0}: {text})", text = status_text(*.0))]
    Unsuccessful(u8),
    /// It is not signed by the issuer of the certificate, nor by whom that has charged with it.
    #[error("OCSP_basic_verify() failed")]
    Signature,
    /// It is about other certificates.
    #[error("certificate status not found in the OCSP response")]
    Other,
    /// The certificate is not good.
    #[error("certificate status \"{0}\" in the OCSP response")]
    Bad(&'static str),
    /// It is too old, or of the future.
    #[error("OCSP_check_validity() failed")]
    Time,
}

fn status_text(status: u8) -> &'static str {
    match status {
        1 => "malformedrequest",
        2 => "internalerror",
        3 => "trylater",
        5 => "sigrequired",
        6 => "unauthorized",
        _ => "(UNKNOWN)",
    }
}

/// An element of DER.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let mut out = vec![tag];
    match u8::try_from(len) {
        Ok(len) if len < 0x80 => out.push(len),
        _ => {
            let bytes = len.to_be_bytes();
            let used = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
            out.push(0x80 | used.len() as u8);
            out.extend_from_slice(used);
        }
    }
    out.extend_from_slice(content);
    out
}

/// Whether `issuer` may have issued `certificate`, by their names.
pub fn is_issued_by(certificate: &[u8], issuer: &[u8]) -> bool {
    match (Parts::of(certificate), Parts::of(issuer)) {
        (Some(certificate), Some(issuer)) => certificate.issuer == issuer.subject,
        _ => false,
    }
}

/// The address of the responder for a certificate, if it names one.
///
/// # Errors
/// The certificate cannot be read.
pub fn responder(certificate: &[u8]) -> Result<Option<&[u8]>, OcspError> {
    let parts = Parts::of(certificate).ok_or(OcspError::Certificate)?;
    let Some(access) = parts.extensions().find(|extension| extension.kind == AUTHORITY_INFO_ACCESS) else {
        return Ok(None);
    };
    let list = elements(access.value).next().map_or(&[][..], |(_, list)| list);
    Ok(elements(list).find_map(|(_, description)| {
        let mut fields = elements(description);
        fields.next().filter(|(_, method)| *method == OCSP)?;
        fields.next().filter(|(tag, _)| *tag == URI).map(|(_, uri)| uri)
    }))
}

/// The certificate in `candidates` that has issued `certificate`.
pub fn issuer_among<'c>(certificate: &[u8], candidates: impl IntoIterator<Item = &'c [u8]>) -> Option<&'c [u8]> {
    let (parts, signed) = (Parts::of(certificate)?, Signed::of(certificate)?);
    candidates.into_iter().find(|candidate| {
        let issuer = Parts::of(candidate).filter(|issuer| issuer.subject == parts.issuer);
        issuer.is_some_and(|issuer| signed.is_by(issuer.public_key))
    })
}

/// The certificate that a question is about, and the key of its issuer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Name of the issuer, hashed.
    name: Vec<u8>,
    /// Key of the issuer, hashed.
    key: Vec<u8>,
    serial: Vec<u8>,
    /// SubjectPublicKeyInfo of the issuer.
    issuer_key: Vec<u8>,
}

/// Who may have signed an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signers {
    /// The issuer of the certificate, or the owner of a certificate that it has issued for that.
    Issuer,
    /// The same; signatures with SHA-1 and by keys of 1024 bits count too.
    WeakIssuer,
    /// As [`Issuer`](Self::Issuer), and the owner of any certificate that comes with the answer. Nothing is proved by such an answer.
    Any,
}

/// What an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: Status,
    /// When there will be a new one, in seconds since 1970, if the responder says so.
    pub next_update: Option<i64>,
}

/// The status of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It was not revoked.
    Good,
    /// It was revoked.
    Revoked,
    /// The responder does not know it.
    Unknown,
}

impl Answer {
    /// The time of a good answer.
    ///
    /// # Errors
    /// The status is another one.
    pub fn good(self) -> Result<Good, OcspError> {
        match self.status {
            Status::Good => Ok(Good { next_update: self.next_update }),
            Status::Revoked => Err(OcspError::Bad("revoked")),
            Status::Unknown => Err(OcspError::Bad("unknown")),
        }
    }
}

impl Subject {
    /// The subject `certificate`, which was issued by the owner of `issuer`.
    ///
    /// # Errors
    /// A certificate cannot be read.
    pub fn new(certificate: &[u8], issuer: &[u8]) -> Result<Self, OcspError> {
        let issuer = Parts::of(issuer).ok_or(OcspError::Certificate)?;
        Self::with_key(certificate, issuer.public_key)
    }

    /// The same by the issuer's key, a whole SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// The certificate or the key cannot be read.
    pub fn with_key(certificate: &[u8], issuer_key: &[u8]) -> Result<Self, OcspError> {
        let parts = Parts::of(certificate).ok_or(OcspError::Certificate)?;
        let hash = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
        Ok(Self {
            name: hash(parts.issuer),
            key: hash(key_bits(issuer_key).ok_or(OcspError::Certificate)?),
            serial: parts.serial.to_vec(),
            issuer_key: issuer_key.to_vec(),
        })
    }

    /// The question for its status.
    pub fn request(&self) -> Vec<u8> {
        let fields =
            [SHA1.to_vec(), der(OCTET_STRING, &self.name), der(OCTET_STRING, &self.key), der(INTEGER, &self.serial)];
        // CertID, Request, requestList, tbsRequest, OCSPRequest.
        (0..5).fold(fields.concat(), |content, _| der(SEQUENCE, &content))
    }

    /// What an answer says of it at a time in seconds since 1970.
    ///
    /// # Errors
    /// The answer says nothing that counts.
    pub fn answer(&self, response: &[u8], now: i64, signers: Signers) -> Result<Answer, OcspError> {
        let basic = basic(response)?;
        let signed = Signed::of(basic).ok_or(OcspError::Syntax)?;
        if !is_signed_for(&signed, basic, &self.issuer_key, now, signers) {
            return Err(OcspError::Signature);
        }
        let list = elements(signed.content).filter(|(tag, _)| *tag == SEQUENCE).map(|(_, list)| list).next();
        let mut responses = elements(list.ok_or(OcspError::Syntax)?);
        let single = responses.find_map(|(_, single)| self.is_named_in(single).then_some(single));
        let mut fields = elements(single.ok_or(OcspError::Other)?).skip(1);
        let status = match fields.next() {
            Some((GOOD, _)) => Status::Good,
            Some((REVOKED, _)) => Status::Revoked,
            _ => Status::Unknown,
        };
        let since = fields.next().and_then(|(tag, text)| seconds_of(tag, text)).ok_or(OcspError::Syntax)?;
        let next_update = match fields.next() {
            Some((TAG_0, time)) => {
                let (tag, text) = elements(time).next().ok_or(OcspError::Syntax)?;
                Some(seconds_of(tag, text).ok_or(OcspError::Syntax)?)
            }
            _ => None,
        };
        if since > now + SKEW_SECONDS || next_update.is_some_and(|until| until < now - SKEW_SECONDS) {
            return Err(OcspError::Time);
        }
        Ok(Answer { status, next_update })
    }

    /// Whether a SingleResponse is about it.
    fn is_named_in(&self, single: &[u8]) -> bool {
        let Some((_, id)) = elements(single).next() else { return false };
        let fields: Vec<(u8, &[u8])> = elements(id).collect();
        matches!(&fields[..], [(SEQUENCE, algorithm), (_, name), (_, key), (_, serial)]
            if algorithm.starts_with(&SHA1[2..9]) && *name == self.name && *key == self.key && *serial == self.serial)
    }
}

/// The bits of a key, a whole SubjectPublicKeyInfo, without the type of key.
fn key_bits(key: &[u8]) -> Option<&[u8]> {
    let (_, key) = elements(key).next()?;
    let (_, bits) = elements(key).nth(1)?;
    bits.get(1..)
}

/// Whether bytes have the outer form of a response, whatever it says (RFC 6960, section 4.2.1).
pub fn is_response(bytes: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    const ENUMERATED: u8 = 0x0a;
    const RESPONSE_BYTES: u8 = 0xa0;
    let Some((SEQUENCE, fields)) = elements(bytes).next() else { return false };
    let mut tags = elements(fields).map(|(tag, _)| tag);
    tags.next() == Some(ENUMERATED) && matches!(tags.next(), None | Some(RESPONSE_BYTES)) && tags.next().is_none()
}

/// The question for the status of a certificate.
///
/// # Errors
/// A certificate cannot be read.
pub fn request(certificate: &[u8], issuer: &[u8]) -> Result<Vec<u8>, OcspError> {
    Ok(Subject::new(certificate, issuer)?.request())
}

/// A status that is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Good {
    /// When there will be a new one, in seconds since 1970, if the responder says so.
    pub next_update: Option<i64>,
}

/// What an answer says of a certificate at a time in seconds since 1970. It is for answers that are shown to clients, who judge
/// them by rules of their own: as in OpenSSL, weak signatures count.
///
/// # Errors
/// Why the status is not good.
pub fn validate(response: &[u8], certificate: &[u8], issuer: &[u8], now: i64) -> Result<Good, OcspError> {
    // The answer is looked at before the certificates are.
    basic(response)?;
    Subject::new(certificate, issuer)?.answer(response, now, Signers::WeakIssuer)?.good()
}

/// The BasicOCSPResponse in an answer, whole.
fn basic(response: &[u8]) -> Result<&[u8], OcspError> {
    let (_, outer) = elements(response).next().filter(|(tag, _)| *tag == SEQUENCE).ok_or(OcspError::Syntax)?;
    let mut fields = elements(outer);
    match fields.next() {
        Some((ENUMERATED, [0])) => {}
        Some((ENUMERATED, [status])) => return Err(OcspError::Unsuccessful(*status)),
        _ => return Err(OcspError::Syntax),
    }
    let (_, tagged) = fields.next().filter(|(tag, _)| *tag == TAG_0).ok_or(OcspError::Syntax)?;
    let mut bytes = elements(elements(tagged).next().ok_or(OcspError::Syntax)?.1);
    match (bytes.next(), bytes.next()) {
        (Some((_, OCSP_BASIC)), Some((OCTET_STRING, basic))) => Ok(basic),
        _ => Err(OcspError::Syntax),
    }
}

/// Whether an answer is signed by somebody whose word counts. `issuer_key` is a whole SubjectPublicKeyInfo.
///
/// Source: RFC 6960, section 4.2.2.2.
fn is_signed_for(signed: &Signed<'_>, basic: &[u8], issuer_key: &[u8], now: i64, signers: Signers) -> bool {
    let is_by = |signed: &Signed<'_>, key: &[u8]| {
        signed.is_by(key) || (signers == Signers::WeakIssuer && signed.is_weakly_by(key))
    };
    if is_by(signed, issuer_key) {
        return true;
    }
    let fields = elements(basic).next().map_or(&[][..], |(_, fields)| fields);
    let Some((_, tagged)) = elements(fields).find(|(tag, _)| *tag == TAG_0) else { return false };
    let mut rest = elements(tagged).next().map_or(&[][..], |(_, list)| list);
    for _ in 0..CERTIFICATES_MAX {
        let Some((certificate, behind)) = next(rest) else { return false };
        rest = behind;
        let (Some(parts), Some(own)) = (Parts::of(certificate), Signed::of(certificate)) else { continue };
        let is_now = parts.times().is_some_and(|(from, to)| (from..=to).contains(&now));
        let is_charged = || parts.extensions().any(|extension| is_for_ocsp(&extension)) && is_by(&own, issuer_key);
        if is_now && (signers == Signers::Any || is_charged()) && is_by(signed, parts.public_key) {
            return true;
        }
    }
    false
}

fn is_for_ocsp(extension: &Extension<'_>) -> bool {
    let list = elements(extension.value).next().map_or(&[][..], |(_, list)| list);
    extension.kind == EXTENDED_KEY_USAGE && elements(list).any(|(_, usage)| usage == OCSP_SIGNING)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made with `openssl ocsp`: an authority, two certificates of it of which one is revoked, and answers.
    const CA: &[u8] = include_bytes!("../tests/ocsp/ca.der");
    const LEAF: &[u8] = include_bytes!("../tests/ocsp/leaf.der");
    const BAD: &[u8] = include_bytes!("../tests/ocsp/bad.der");
    const GOOD: &[u8] = include_bytes!("../tests/ocsp/good.der");
    const NOW: i64 = 1_795_454_300;

    #[test]
    fn questions_are_those_of_openssl() {
        assert_eq!(responder(LEAF), Ok(Some(&b"http://127.0.0.1:8888/ocsp"[..])));
        assert_eq!(responder(CA), Ok(None));
        assert_eq!(responder(b"x"), Err(OcspError::Certificate));
        assert_eq!(request(LEAF, CA).as_deref(), Ok(&include_bytes!("../tests/ocsp/req.der")[..]));
        assert!(is_issued_by(LEAF, CA) && !is_issued_by(CA, LEAF));
        assert_eq!((issuer_among(LEAF, [BAD, CA]), issuer_among(LEAF, [BAD])), (Some(CA), None));
    }

    #[test]
    fn answers_are_told_from_other_bytes() {
        // The last one says "try later".
        for answer in [GOOD, include_bytes!("../tests/ocsp/delegated.der"), b"\x30\x03\x0a\x01\x03"] {
            assert!(is_response(answer));
            assert!((0..answer.len()).all(|end| !is_response(&answer[..end])));
        }
        assert!(!is_response(CA) && !is_response(b"garbage"));
    }

    #[test]
    fn answers_count_if_they_are_of_the_issuer() {
        let near = |told: Result<Good, OcspError>| told.map(|good| good.next_update.is_some_and(|until| until > NOW));
        assert_eq!(near(validate(GOOD, LEAF, CA, NOW)), Ok(true));
        let delegated = include_bytes!("../tests/ocsp/delegated.der");
        assert_eq!(near(validate(delegated, LEAF, CA, NOW)), Ok(true));
        // Another certificate of the authority, which is not for that.
        let stranger = include_bytes!("../tests/ocsp/stranger.der");
        assert_eq!(validate(stranger, LEAF, CA, NOW), Err(OcspError::Signature));
        let subject = Subject::new(LEAF, CA).expect("certificates");
        let of_anyone = subject.answer(stranger, NOW, Signers::Any).map(|answer| answer.status);
        assert_eq!(of_anyone, Ok(Status::Good));
        let revoked = include_bytes!("../tests/ocsp/revoked.der");
        assert_eq!(validate(revoked, BAD, CA, NOW), Err(OcspError::Bad("revoked")));
        assert_eq!(validate(GOOD, BAD, CA, NOW), Err(OcspError::Other));
        assert_eq!(validate(GOOD, LEAF, LEAF, NOW), Err(OcspError::Signature));
        assert_eq!(validate(GOOD, LEAF, CA, 0), Err(OcspError::Time));
        assert_eq!(validate(b"\x30\x03\x0a\x01\x03", LEAF, CA, NOW), Err(OcspError::Unsuccessful(3)));
    }

    #[test]
    fn damaged_answers_are_refused() {
        for cut in 0..GOOD.len() {
            assert!(validate(&GOOD[..cut], LEAF, CA, NOW).is_err(), "{cut}");
        }
        for at in 0..GOOD.len() {
            let mut broken = GOOD.to_vec();
            broken[at] ^= 0x10;
            // Nothing but the frame around what is signed can change without notice.
            assert!(validate(&broken, LEAF, CA, NOW).is_err() || at < 40 || at > GOOD.len() - 80, "{at}");
        }
    }
}
