//! Lists of revoked certificates, of both versions: OpenSSL still makes the first one unless it is told otherwise.
//!
//! ```text
//! CertificateList ::= SEQUENCE { tbsCertList SEQUENCE { version?, signature, issuer, thisUpdate, nextUpdate?,
//!                                revokedCertificates SEQUENCE OF SEQUENCE { serialNumber, … }?, [0] extensions? }, … }
//! ```
//!
//! Source: RFC 5280, section 5.1.

use std::collections::HashSet;

use crate::{
    verify::{Link, VerifyError},
    x509::{Parts, SEQUENCE, Signed, elements, extensions, seconds_of},
};

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const EXTENSIONS: u8 = 0xa0;

/// A list of certificates that one issuer has revoked.
#[derive(Debug)]
pub(crate) struct RevocationList {
    der: Vec<u8>,
    issuer: Vec<u8>,
    /// First second that it is good for.
    since: i64,
    /// Last second that it is good for, if it says so.
    until: Option<i64>,
    revoked: HashSet<Vec<u8>>,
}

/// A list that makes no sense, or that is for a part of the certificates only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadList {
    /// It is no list.
    #[error("not a certificate revocation list")]
    Syntax,
    /// It has a critical extension: it covers a part of the issuer's certificates, or adds to another list.
    #[error("a list that covers certificates in part is not supported")]
    Partial,
}

impl RevocationList {
    pub(crate) fn of(der: &[u8]) -> Result<Self, BadList> {
        let content = Signed::of(der).ok_or(BadList::Syntax)?.content;
        let fields: Vec<(u8, &[u8])> = elements(content).collect();
        let mut fields = &fields[..];
        if let [(INTEGER, _), rest @ ..] = fields {
            fields = rest;
        }
        let [(SEQUENCE, _), (SEQUENCE, issuer), (tag @ (UTC_TIME | GENERALIZED_TIME), since), rest @ ..] = fields
        else {
            return Err(BadList::Syntax);
        };
        let since = seconds_of(*tag, since).ok_or(BadList::Syntax)?;
        let (until, rest) = match rest {
            [(tag @ (UTC_TIME | GENERALIZED_TIME), text), rest @ ..] => (seconds_of(*tag, text), rest),
            rest => (None, rest),
        };
        let (revoked, rest) = match rest {
            [(SEQUENCE, list), rest @ ..] => (*list, rest),
            rest => (&[][..], rest),
        };
        if let [(EXTENSIONS, list), ..] = rest
            && extensions(list).any(|extension| extension.is_critical)
        {
            return Err(BadList::Partial);
        }
        let serial = |(_, entry)| elements(entry).next().map(|(_, serial)| serial.to_vec());
        Ok(Self {
            der: der.to_vec(),
            issuer: issuer.to_vec(),
            since,
            until,
            revoked: elements(revoked).filter_map(serial).collect(),
        })
    }
}

/// Whether the certificate of `link` is revoked by one of `lists`, which its issuer has signed.
///
/// # Errors
/// It is, or no list tells.
pub(crate) fn check(lists: &[RevocationList], link: &Link, now: i64) -> Result<(), VerifyError> {
    let certificate = Parts::of(&link.certificate).ok_or(VerifyError::Unspecified)?;
    let issuer = elements(certificate.issuer).next().map_or(&[][..], |(_, content)| content);
    let mut result = Err(VerifyError::NoCrl);
    for list in lists.iter().filter(|list| list.issuer == issuer) {
        if !Signed::of(&list.der).is_some_and(|signed| signed.is_by(&link.issuer_key)) {
            // Of another authority with the same name.
            continue;
        }
        if list.revoked.contains(certificate.serial) {
            return Err(VerifyError::Revoked);
        }
        // RFC 5280, section 6.3.3 (f): a key that is not for lists makes none.
        if !link.issuer_signs_lists {
            return Err(VerifyError::NoCrlSign);
        }
        // Of several, one that is good now is enough.
        if now < list.since {
            if result == Err(VerifyError::NoCrl) {
                result = Err(VerifyError::CrlNotYetValid);
            }
        } else if list.until.is_none_or(|until| now <= until) {
            result = Ok(());
        } else if result.is_err() {
            result = Err(VerifyError::CrlExpired);
        }
    }
    result
}
