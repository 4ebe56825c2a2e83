//! Whether a chain of certificates leads to one that is trusted.
//!
//! The library finds the way; what OpenSSL does differently is here: a certificate that is itself trusted and vouches for
//! itself needs no chain, and reasons have OpenSSL's numbers and words, which scripts and logs are searched for.
//!
//! Source: RFC 5280, section 6; OpenSSL, `X509_verify_cert_error_string`.

use std::sync::Arc;

use rustls::{
    CertificateError, Error, OtherError,
    client::verify_server_name,
    pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, TrustAnchor, UnixTime},
    server::ParsedCertificate,
};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList, RevocationCheckDepth,
    RevocationOptionsBuilder, UnknownStatusPolicy, anchor_from_trusted_cert,
};

use crate::{
    provider,
    x509::{Parts, Validity},
};

/// Why a certificate is not accepted. The number is OpenSSL's, as is the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u16)]
pub enum VerifyError {
    /// None of the others.
    #[error("unspecified certificate verification error")]
    Unspecified = 1,
    /// There are lists of what is revoked, but none that covers a certificate.
    #[error("unable to get certificate CRL")]
    NoCrl = 3,
    /// A signature is not that of the issuer's key.
    #[error("certificate signature failure")]
    BadSignature = 7,
    /// The time of a certificate has not come.
    #[error("certificate is not yet valid")]
    NotYetValid = 9,
    /// The time of a certificate is over.
    #[error("certificate has expired")]
    Expired = 10,
    /// The time of a list of what is revoked is over.
    #[error("CRL has expired")]
    CrlExpired = 12,
    /// It vouches for itself, and is not trusted.
    #[error("self-signed certificate")]
    SelfSigned = 18,
    /// The chain ends with one that vouches for itself, and is not trusted.
    #[error("self-signed certificate in certificate chain")]
    SelfSignedInChain = 19,
    /// Nothing trusted stands at the end of the chain.
    #[error("unable to get local issuer certificate")]
    UnknownIssuer = 20,
    /// As [`UnknownIssuer`](Self::UnknownIssuer), when the chain is the certificate alone and all of its faults were
    /// looked for.
    #[error("unable to verify the first certificate")]
    FirstUnverified = 21,
    /// More certificates stand between it and a trusted one than allowed.
    #[error("certificate chain too long")]
    TooLong = 22,
    /// It was revoked.
    #[error("certificate revoked")]
    Revoked = 23,
    /// An authority allowed fewer authorities below itself.
    #[error("path length constraint exceeded")]
    PathLength = 25,
    /// It is for something else, for servers instead of clients for instance.
    #[error("unsuitable certificate purpose")]
    Purpose = 26,
    /// An authority may not vouch for such names.
    #[error("permitted subtree violation")]
    Subtree = 47,
    /// A certificate in the chain is not that of an authority.
    #[error("invalid CA certificate")]
    InvalidCa = 79,
    /// It is for other names.
    #[error("hostname mismatch")]
    Name = 62,
}

impl VerifyError {
    /// OpenSSL's number.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The reason that OpenSSL ends with where it goes on looking for faults, as it does for nginx: of a certificate that
    /// comes alone, from nobody that is known, the signature cannot be verified either.
    #[must_use]
    pub fn of_all_faults(self, intermediates: &[CertificateDer<'_>]) -> Self {
        match self {
            Self::UnknownIssuer if intermediates.is_empty() => Self::FirstUnverified,
            other => other,
        }
    }

    /// Whether it says only that nobody trusted stands behind the certificate.
    ///
    /// Source: nginx, `ssl_verify_client optional_no_ca`.
    pub fn is_lack_of_trust(self) -> bool {
        matches!(self, Self::SelfSigned | Self::SelfSignedInChain | Self::UnknownIssuer | Self::FirstUnverified)
    }

    /// The reason in an error of rustls, if a certificate is to blame.
    pub fn of(error: &Error) -> Option<Self> {
        let Error::InvalidCertificate(reason) = error else { return None };
        Some(match reason {
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            CertificateError::Revoked => Self::Revoked,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Self::Name,
            CertificateError::Other(other) => other.0.downcast_ref().copied().unwrap_or(Self::Unspecified),
            _ => Self::Unspecified,
        })
    }
}

impl From<VerifyError> for Error {
    /// With rustls' own word where there is one: the peer gets the right alert then.
    fn from(error: VerifyError) -> Self {
        Error::InvalidCertificate(match error {
            VerifyError::UnknownIssuer => CertificateError::UnknownIssuer,
            VerifyError::Expired => CertificateError::Expired,
            VerifyError::NotYetValid => CertificateError::NotValidYet,
            VerifyError::Revoked => CertificateError::Revoked,
            VerifyError::Name => CertificateError::NotValidForName,
            other => CertificateError::Other(OtherError(Arc::new(other))),
        })
    }
}

impl From<webpki::Error> for VerifyError {
    fn from(error: webpki::Error) -> Self {
        use webpki::Error as E;
        match error {
            E::CertExpired { .. } | E::InvalidCertValidity => Self::Expired,
            E::CertNotValidYet { .. } => Self::NotYetValid,
            E::CertRevoked => Self::Revoked,
            E::CrlExpired { .. } => Self::CrlExpired,
            E::UnknownRevocationStatus => Self::NoCrl,
            E::UnknownIssuer => Self::UnknownIssuer,
            E::EndEntityUsedAsCa => Self::InvalidCa,
            E::InvalidSignatureForPublicKey => Self::BadSignature,
            E::MaximumPathDepthExceeded | E::MaximumPathBuildCallsExceeded => Self::TooLong,
            E::NameConstraintViolation => Self::Subtree,
            E::PathLenConstraintViolated => Self::PathLength,
            E::RequiredEkuNotFoundContext(_) => Self::Purpose,
            E::CertNotValidForName(_) => Self::Name,
            _ => Self::Unspecified,
        }
    }
}

/// Whom a certificate is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A server.
    Server,
    /// A client.
    Client,
}

/// What certificates are verified by.
#[derive(Debug)]
pub struct Rules {
    trusted: Vec<CertificateDer<'static>>,
    anchors: Vec<TrustAnchor<'static>>,
    /// Empty where nothing is known of what is revoked.
    revoked: Vec<CertRevocationList<'static>>,
    /// How many certificates may stand between the peer's and a trusted one.
    depth_max: Option<u64>,
}

impl Rules {
    /// Rules that trust `trusted`. A chain of which a certificate is in `revoked`, or in none of the lists' reach, is
    /// refused, unless there are no lists.
    ///
    /// # Errors
    /// A list cannot be read.
    pub fn new(
        trusted: &[CertificateDer<'static>],
        revoked: &[CertificateRevocationListDer<'static>],
        depth_max: Option<u64>,
    ) -> Result<Self, webpki::Error> {
        // What is no authority for the library may still be trusted by itself.
        let anchors = trusted.iter().filter_map(|one| Some(anchor_from_trusted_cert(one).ok()?.to_owned())).collect();
        let revoked = revoked.iter().map(|list| Ok(OwnedCertRevocationList::from_der(list)?.into()));
        Ok(Self { trusted: trusted.to_vec(), anchors, revoked: revoked.collect::<Result<_, _>>()?, depth_max })
    }

    /// Verifies whom a certificate is from, not whom it is for.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        side: Side,
        now: UnixTime,
    ) -> Result<(), VerifyError> {
        let parts = Parts::of(end_entity);
        if self.revoked.is_empty()
            && let Some(parts) = parts.as_ref().filter(|parts| parts.is_self_issued())
            && self.trusted.contains(end_entity)
        {
            return verify_alone(parts, now);
        }
        // The library does not read those of version 1.
        if parts.is_some_and(|parts| parts.is_version_1) {
            return Err(untrusted(end_entity, intermediates));
        }
        self.verify_chain(end_entity, intermediates, side, now).map_err(|error| match error {
            webpki::Error::UnknownIssuer => untrusted(end_entity, intermediates),
            // An authority's own certificate: the library does not look for who vouches for it.
            webpki::Error::CaUsedAsEndEntity => untrusted(end_entity, intermediates),
            other => other.into(),
        })
    }

    fn verify_chain(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        side: Side,
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let certificate = EndEntityCert::try_from(end_entity)?;
        let usage = match side {
            Side::Server => KeyUsage::server_auth(),
            Side::Client => KeyUsage::client_auth(),
        };
        let lists: Vec<&CertRevocationList<'_>> = self.revoked.iter().collect();
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Deny)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let depth_max = self.depth_max.map_or(usize::MAX, |depth| usize::try_from(depth).unwrap_or(usize::MAX));
        let is_short = |path: &webpki::VerifiedPath<'_>| match path.intermediate_certificates().count() {
            count if count > depth_max => Err(webpki::Error::MaximumPathDepthExceeded),
            _ => Ok(()),
        };
        let algorithms = provider().signature_verification_algorithms.all;
        let verified = certificate.verify_for_usage(
            algorithms,
            &self.anchors,
            intermediates,
            now,
            usage,
            revocation,
            Some(&is_short),
        );
        verified.map(drop)
    }
}

/// Verifies a certificate that is trusted itself and vouches for itself, as OpenSSL does. The library would refuse it: for
/// its version, or since it is an authority's.
fn verify_alone(parts: &Parts<'_>, now: UnixTime) -> Result<(), VerifyError> {
    match parts.validity_at(now.as_secs()) {
        Some(Validity::Now) => Ok(()),
        Some(Validity::NotYet) => Err(VerifyError::NotYetValid),
        Some(Validity::Expired) => Err(VerifyError::Expired),
        None => Err(VerifyError::Unspecified),
    }
}

/// Verifies whom a certificate is for.
///
/// # Errors
/// Others than `name`, or nobody that can be read.
pub fn verify_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), VerifyError> {
    let parts = Parts::of(certificate);
    if let (ServerName::DnsName(host), Some(parts)) = (name, &parts)
        && !parts.has_alternative_names
    {
        let is_named = parts.is_named(host.as_ref().as_bytes());
        return if is_named { Ok(()) } else { Err(VerifyError::Name) };
    }
    let parsed = ParsedCertificate::try_from(certificate).map_err(|_| VerifyError::Name)?;
    verify_server_name(&parsed, name).map_err(|_| VerifyError::Name)
}

fn vouches_for_itself(certificate: &CertificateDer<'_>) -> bool {
    Parts::of(certificate).is_some_and(|parts| parts.is_self_issued())
}

/// Why nothing trusted was found above a certificate, with the difference that OpenSSL makes.
pub(crate) fn untrusted(end_entity: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) -> VerifyError {
    if vouches_for_itself(end_entity) {
        VerifyError::SelfSigned
    } else if intermediates.iter().any(vouches_for_itself) {
        VerifyError::SelfSignedInChain
    } else {
        VerifyError::UnknownIssuer
    }
}
