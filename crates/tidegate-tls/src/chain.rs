//! Chains of certificates that the library does not follow: those whose end is of version 1, or is an authority's own.
//!
//! Both are what `openssl x509 -req` and `openssl req -x509` make unless they are told otherwise, and OpenSSL accepts them. The
//! rules are stricter than RFC 5280 wants: whoever needs more than these (constraints of names, policies) has certificates
//! of version 3, which the library follows.
//!
//! - C1: an issuer is one that is trusted, or shows that it is an authority.
//! - C2: a certificate with constraints of names, or with a critical extension that is not looked at here, ends the search.
//!
//! Source: RFC 5280, section 6.1.

use rustls::pki_types::CertificateDer;

use crate::{
    verify::{Link, Side, VerifyError},
    x509::{Extension, Parts, Signed, Validity, elements},
};

const BASIC_CONSTRAINTS: &[u8] = b"\x55\x1d\x13";
const KEY_USAGE: &[u8] = b"\x55\x1d\x0f";
const EXTENDED_KEY_USAGE: &[u8] = b"\x55\x1d\x25";
const SUBJECT_ALT_NAME: &[u8] = b"\x55\x1d\x11";
const NAME_CONSTRAINTS: &[u8] = b"\x55\x1d\x1e";
const ANY_USAGE: &[u8] = b"\x55\x1d\x25\x00";
const SERVER_AUTH: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x03\x01";
const CLIENT_AUTH: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x03\x02";

/// Bit of keyUsage that lets a key sign certificates: the sixth of the first byte.
const KEY_CERT_SIGN: u8 = 0x04;

/// Signatures that one search verifies at most: certificates come from strangers.
const SIGNATURES_MAX: u32 = 32;

/// What a search stands on.
pub(crate) struct Search<'a> {
    pub(crate) trusted: &'a [CertificateDer<'static>],
    pub(crate) intermediates: &'a [CertificateDer<'a>],
    pub(crate) depth_max: usize,
    pub(crate) now: u64,
    signatures_left: u32,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        trusted: &'a [CertificateDer<'static>],
        intermediates: &'a [CertificateDer<'a>],
        depth_max: usize,
        now: u64,
    ) -> Self {
        Self { trusted, intermediates, depth_max, now, signatures_left: SIGNATURES_MAX }
    }

    /// Finds a way from `end_entity`.
    ///
    /// # Errors
    /// There is none; why.
    pub(crate) fn find(&mut self, end_entity: &'a [u8], side: Side) -> Result<Vec<Link>, VerifyError> {
        let parts = Parts::of(end_entity).ok_or(VerifyError::Unspecified)?;
        let wanted = match side {
            Side::Server => SERVER_AUTH,
            Side::Client => CLIENT_AUTH,
        };
        for extension in parts.extensions() {
            refuse_unknown(&extension)?;
            if extension.kind == EXTENDED_KEY_USAGE && !lists_usage(&extension, wanted) {
                return Err(VerifyError::Purpose);
            }
        }
        self.climb(end_entity, 0)
    }

    /// Finds a way from a certificate above which `below` intermediate ones were passed.
    fn climb(&mut self, certificate: &'a [u8], below: usize) -> Result<Vec<Link>, VerifyError> {
        let (Some(parts), Some(signed)) = (Parts::of(certificate), Signed::of(certificate)) else {
            return Err(VerifyError::Unspecified);
        };
        check_time(&parts, self.now)?;
        let (trusted, intermediates) = (self.trusted, self.intermediates);
        for issuer in trusted.iter().filter_map(|issuer| Parts::of(issuer)) {
            if issuer.subject == parts.issuer && self.is_signed(&signed, issuer.public_key)? {
                return Ok(vec![link(certificate, &issuer)]);
            }
        }
        let mut why = VerifyError::UnknownIssuer;
        for der in intermediates {
            let Some(issuer) = Parts::of(der).filter(|issuer| issuer.subject == parts.issuer) else { continue };
            // One that vouches for itself leads nowhere else.
            if issuer.is_self_issued() || !self.is_signed(&signed, issuer.public_key)? {
                continue;
            }
            if below >= self.depth_max {
                why = VerifyError::TooLong;
                continue;
            }
            let found = is_authority(&issuer, below).and_then(|()| self.climb(der, below + 1));
            match found {
                Ok(mut path) => {
                    path.insert(0, link(certificate, &issuer));
                    return Ok(path);
                }
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn is_signed(&mut self, signed: &Signed<'_>, key: &[u8]) -> Result<bool, VerifyError> {
        self.signatures_left = self.signatures_left.checked_sub(1).ok_or(VerifyError::TooLong)?;
        Ok(signed.is_by(key))
    }
}

fn link(certificate: &[u8], issuer: &Parts<'_>) -> Link {
    Link { certificate: certificate.to_vec(), issuer_key: issuer.public_key.to_vec() }
}

/// Whether a certificate may be used now.
///
/// # Errors
/// It may not.
pub(crate) fn check_time(parts: &Parts<'_>, now: u64) -> Result<(), VerifyError> {
    match parts.validity_at(now) {
        Some(Validity::Now) => Ok(()),
        Some(Validity::NotYet) => Err(VerifyError::NotYetValid),
        Some(Validity::Expired) => Err(VerifyError::Expired),
        None => Err(VerifyError::Unspecified),
    }
}

/// C2.
fn refuse_unknown(extension: &Extension<'_>) -> Result<(), VerifyError> {
    let known = [BASIC_CONSTRAINTS, KEY_USAGE, EXTENDED_KEY_USAGE, SUBJECT_ALT_NAME];
    if extension.kind == NAME_CONSTRAINTS || (extension.is_critical && !known.contains(&extension.kind)) {
        return Err(VerifyError::CriticalExtension);
    }
    Ok(())
}

fn lists_usage(extension: &Extension<'_>, wanted: &[u8]) -> bool {
    let list = elements(extension.value).next().map_or(&[][..], |(_, list)| list);
    elements(list).any(|(_, usage)| usage == wanted || usage == ANY_USAGE)
}

/// C1, for a certificate that is not trusted itself and has `below` others below it.
fn is_authority(parts: &Parts<'_>, below: usize) -> Result<(), VerifyError> {
    let mut is_authority = false;
    for extension in parts.extensions() {
        refuse_unknown(&extension)?;
        match extension.kind {
            BASIC_CONSTRAINTS => {
                // SEQUENCE { cA BOOLEAN DEFAULT FALSE, pathLenConstraint INTEGER OPTIONAL }
                let content = elements(extension.value).next().map_or(&[][..], |(_, content)| content);
                let mut fields = elements(content);
                is_authority = matches!(fields.next(), Some((0x01, [value])) if *value != 0);
                if let Some((0x02, length)) = fields.next() {
                    let length =
                        length.iter().fold(0_usize, |length, byte| length.saturating_mul(256) + usize::from(*byte));
                    if below > length {
                        return Err(VerifyError::PathLength);
                    }
                }
            }
            // BIT STRING: the number of unused bits stands ahead.
            KEY_USAGE => match elements(extension.value).next() {
                Some((0x03, [_, first, ..])) if first & KEY_CERT_SIGN != 0 => {}
                _ => return Err(VerifyError::InvalidCa),
            },
            _ => {}
        }
    }
    if is_authority { Ok(()) } else { Err(VerifyError::InvalidCa) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x509::sequence;

    /// A certificate of version 1, whose signature is nobody's.
    fn certificate(subject: &[u8], issuer: &[u8]) -> CertificateDer<'static> {
        let times = sequence(b"\x17\x0d700101000001Z\x18\x0f20500301000000Z");
        let key = sequence(b"key");
        let algorithm = sequence(b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02");
        let fields = [b"\x02\x01\x07", &algorithm[..], &sequence(issuer), &times, &sequence(subject), &key];
        let signed = [&sequence(&fields.concat()), &algorithm[..], b"\x03\x02\x00\x00"];
        CertificateDer::from(sequence(&signed.concat()))
    }

    #[test]
    fn a_search_comes_to_an_end() {
        let end = certificate(b"end", b"middle");
        let middles: Vec<_> = (0..=SIGNATURES_MAX).map(|_| certificate(b"middle", b"root")).collect();
        let find = |count: usize| {
            let mut search = Search::new(&[], &middles[..count], usize::MAX, 1_000_000);
            search.find(&end, Side::Client).err()
        };
        assert_eq!(find(SIGNATURES_MAX as usize), Some(VerifyError::UnknownIssuer));
        assert_eq!(find(SIGNATURES_MAX as usize + 1), Some(VerifyError::TooLong));
    }
}
