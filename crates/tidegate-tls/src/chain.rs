//! Chains of certificates that the library does not follow: those whose end is of version 1, or is an authority's own.
//!
//! Both are what `openssl x509 -req` and `openssl req -x509` make unless they are told otherwise, and OpenSSL accepts them. The
//! rules are stricter than RFC 5280 wants: whoever needs more than these (constraints of names, policies) has certificates
//! of version 3, which the library follows.
//!
//! - C1: what an issuer may do is decided as for all others, in `powers`.
//! - C2: an issuer with constraints of names ends the search, and so does a critical extension that is not looked at.
//!
//! Source: RFC 5280, section 6.1.

use rustls::pki_types::CertificateDer;

use crate::{
    powers::Powers,
    verify::{Link, Side, VerifyError},
    x509::{Parts, Signed, Validity},
};

/// Signatures that one search verifies at most: certificates come from strangers.
const SIGNATURES_MAX: u32 = 32;

/// What a search stands on.
pub(crate) struct Search<'a> {
    pub(crate) side: Side,
    pub(crate) trusted: &'a [CertificateDer<'static>],
    pub(crate) intermediates: &'a [CertificateDer<'a>],
    pub(crate) depth_max: usize,
    pub(crate) now: u64,
    signatures_left: u32,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        side: Side,
        trusted: &'a [CertificateDer<'static>],
        intermediates: &'a [CertificateDer<'a>],
        depth_max: usize,
        now: u64,
    ) -> Self {
        Self { side, trusted, intermediates, depth_max, now, signatures_left: SIGNATURES_MAX }
    }

    /// Finds a way from `end_entity`.
    ///
    /// # Errors
    /// There is none; why.
    pub(crate) fn find(&mut self, end_entity: &'a [u8]) -> Result<Vec<Link>, VerifyError> {
        let path = self.climb(end_entity, 0)?;
        // As everywhere, the purpose of a stranger's certificate is no question.
        let parts = Parts::of(end_entity).ok_or(VerifyError::Unspecified)?;
        Powers::of(&parts).check_peer(self.side)?;
        Ok(path)
    }

    /// Finds a way from a certificate above which `below` intermediate ones were passed.
    fn climb(&mut self, certificate: &'a [u8], below: usize) -> Result<Vec<Link>, VerifyError> {
        let (Some(parts), Some(signed)) = (Parts::of(certificate), Signed::of(certificate)) else {
            return Err(VerifyError::Unspecified);
        };
        check_time(&parts, self.now)?;
        let (trusted, intermediates) = (self.trusted, self.intermediates);
        let mut why = VerifyError::UnknownIssuer;
        for issuer in trusted.iter().filter_map(|issuer| Parts::of(issuer)) {
            if issuer.subject != parts.issuer || !self.is_signed(&signed, issuer.public_key)? {
                continue;
            }
            match check_time(&issuer, self.now).and_then(|()| is_authority(&issuer, self.side, below, true)) {
                Ok(()) => return Ok(vec![Link::new(certificate, &issuer)]),
                Err(error) => why = error,
            }
        }
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
            let found = is_authority(&issuer, self.side, below, false).and_then(|()| self.climb(der, below + 1));
            match found {
                Ok(mut path) => {
                    path.insert(0, Link::new(certificate, &issuer));
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

/// C1 and C2, for an issuer that has `below` others below it.
fn is_authority(parts: &Parts<'_>, side: Side, below: usize, trusted: bool) -> Result<(), VerifyError> {
    let powers = Powers::of(parts);
    if powers.constrains_names() {
        return Err(VerifyError::CriticalExtension);
    }
    powers.check_issuer(side, below, trusted)
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
            let mut search = Search::new(Side::Client, &[], &middles[..count], usize::MAX, 1_000_000);
            search.find(&end).err()
        };
        assert_eq!(find(SIGNATURES_MAX as usize), Some(VerifyError::UnknownIssuer));
        assert_eq!(find(SIGNATURES_MAX as usize + 1), Some(VerifyError::TooLong));
    }
}
