//! Whether a chain of certificates leads to one that is trusted.
//!
//! The library finds the way; what OpenSSL does differently is here: a certificate that is itself trusted and vouches for
//! itself needs no chain, and reasons have OpenSSL's numbers and words, which scripts and logs are searched for.
//!
//! Source: RFC 5280, section 6; OpenSSL, `X509_verify_cert_error_string`.

use std::{cell::Cell, ptr, sync::Arc};

use rustls::{
    CertificateError, Error, OtherError,
    client::verify_server_name,
    pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, TrustAnchor, UnixTime},
    server::ParsedCertificate,
};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeIdIter, VerifiedPath, anchor_from_trusted_cert};

pub use crate::crl::BadList;
use crate::{
    chain,
    crl::{self, RevocationList},
    powers::{self, Powers},
    provider,
    x509::{Parts, elements},
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
    /// The time of a list of what is revoked has not come.
    #[error("CRL is not yet valid")]
    CrlNotYetValid = 11,
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
    /// The key of an authority is not for certificates.
    #[error("key usage does not include certificate signing")]
    NoCertSign = 32,
    /// The key of an authority is not for lists of what is revoked.
    #[error("key usage does not include CRL signing")]
    NoCrlSign = 35,
    /// A certificate has a part that must not be overlooked, and that is not understood.
    #[error("unhandled critical extension")]
    CriticalExtension = 34,
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

    /// The error with this number, if it is one of these.
    pub fn of_number(number: u16) -> Option<Self> {
        const ALL: [VerifyError; 21] = [
            VerifyError::Unspecified,
            VerifyError::NoCrl,
            VerifyError::BadSignature,
            VerifyError::NotYetValid,
            VerifyError::Expired,
            VerifyError::CrlNotYetValid,
            VerifyError::CrlExpired,
            VerifyError::NoCertSign,
            VerifyError::NoCrlSign,
            VerifyError::SelfSigned,
            VerifyError::SelfSignedInChain,
            VerifyError::UnknownIssuer,
            VerifyError::FirstUnverified,
            VerifyError::TooLong,
            VerifyError::Revoked,
            VerifyError::CriticalExtension,
            VerifyError::PathLength,
            VerifyError::Purpose,
            VerifyError::Subtree,
            VerifyError::InvalidCa,
            VerifyError::Name,
        ];
        ALL.into_iter().find(|error| error.number() == number)
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
            E::UnknownIssuer => Self::UnknownIssuer,
            E::EndEntityUsedAsCa => Self::InvalidCa,
            E::InvalidSignatureForPublicKey => Self::BadSignature,
            E::MaximumPathDepthExceeded | E::MaximumPathBuildCallsExceeded => Self::TooLong,
            E::NameConstraintViolation => Self::Subtree,
            E::PathLenConstraintViolated => Self::PathLength,
            E::RequiredEkuNotFoundContext(_) => Self::Purpose,
            E::CertNotValidForName(_) => Self::Name,
            E::UnsupportedCriticalExtension => Self::CriticalExtension,
            _ => Self::Unspecified,
        }
    }
}

/// A certificate of a chain, and the key of whoever has issued it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The certificate.
    pub certificate: Vec<u8>,
    /// SubjectPublicKeyInfo of the issuer.
    pub issuer_key: Vec<u8>,
    /// Whether the issuer's key may sign lists of what is revoked.
    pub issuer_signs_lists: bool,
}

impl Link {
    pub(crate) fn new(certificate: &[u8], issuer: &Parts<'_>) -> Self {
        Self {
            certificate: certificate.to_vec(),
            issuer_key: issuer.public_key.to_vec(),
            issuer_signs_lists: Powers::of(issuer).signs_lists(),
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
    /// Ends of chains: those that vouch for themselves.
    trusted: Vec<CertificateDer<'static>>,
    /// The others, which may be links of a chain as if the peer had sent them: so OpenSSL has it, and so what their issuer has
    /// revoked is noticed.
    links: Vec<CertificateDer<'static>>,
    /// Those of `trusted` that the library can stand on, each with its place there in `places`.
    anchors: Vec<TrustAnchor<'static>>,
    places: Vec<usize>,
    /// Empty where nothing is known of what is revoked.
    revoked: Vec<RevocationList>,
    /// How many certificates may stand between the peer's and a trusted one.
    depth_max: usize,
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
    ) -> Result<Self, BadList> {
        let (trusted, links): (Vec<_>, Vec<_>) = trusted.iter().cloned().partition(|one| vouches_for_itself(one));
        // What is no authority for the library may still be trusted by itself.
        let anchor = |(place, one)| Some((anchor_from_trusted_cert(one).ok()?.to_owned(), place));
        let (anchors, places) = trusted.iter().enumerate().filter_map(anchor).unzip();
        let depth_max = depth_max.map_or(usize::MAX, |depth| usize::try_from(depth).unwrap_or(usize::MAX));
        let revoked = revoked.iter().map(|list| RevocationList::of(list)).collect::<Result<_, _>>()?;
        Ok(Self { trusted, links, anchors, places, revoked, depth_max })
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
        self.find(end_entity, intermediates, side, now, None)
    }

    /// As [`verify`](Self::verify). Answers the way that was found, `end_entity` first; one that is itself trusted has none.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn verify_with_links(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        side: Side,
        now: UnixTime,
    ) -> Result<Vec<Link>, VerifyError> {
        let mut links = Vec::new();
        self.find(end_entity, intermediates, side, now, Some(&mut links))?;
        Ok(links)
    }

    /// As [`VerifyError::of_all_faults`], where the purpose of a certificate that comes alone is wrong too: OpenSSL looks at that before it misses the
    /// issuer's key.
    pub(crate) fn last_fault(
        &self,
        error: VerifyError,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> VerifyError {
        let is_alone = intermediates.is_empty() && !self.knows_issuer(end_entity);
        match error {
            VerifyError::Purpose if is_alone => VerifyError::FirstUnverified,
            other => other.of_all_faults(intermediates),
        }
    }

    /// Whether a certificate is here that has the name of the issuer of `certificate`, or that names itself.
    fn knows_issuer(&self, certificate: &CertificateDer<'_>) -> bool {
        let Some(parts) = Parts::of(certificate) else { return false };
        let is_issuer = |one: &CertificateDer<'_>| Parts::of(one).is_some_and(|one| one.subject == parts.issuer);
        parts.is_self_issued() || self.trusted.iter().chain(&self.links).any(is_issuer)
    }

    /// Verifies a certificate, and tells the way where that is `wanted`.
    fn find(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        side: Side,
        now: UnixTime,
        wanted: Option<&mut Vec<Link>>,
    ) -> Result<(), VerifyError> {
        let seconds = now.as_secs();
        if let Some(parts) = Parts::of(end_entity).filter(|parts| parts.is_self_issued())
            && self.trusted.contains(end_entity)
        {
            // It needs no authority above it, and is none for others.
            chain::check_time(&parts, seconds)?;
            Powers::of(&parts).check_peer(side)?;
            return self.check_revoked(&[Link::new(end_entity, &parts)], seconds);
        }
        let all: Vec<CertificateDer<'_>>;
        let known = if self.links.is_empty() {
            intermediates
        } else {
            all = intermediates.iter().chain(&self.links).cloned().collect();
            &all
        };
        let (mut links, refused) = (Vec::new(), Cell::new(None));
        match self.verify_chain(end_entity, known, side, now, &refused) {
            Ok(chain) => {
                if wanted.is_some() || !self.revoked.is_empty() {
                    links = links_of(&chain)?;
                }
            }
            Err(webpki::Error::UnsupportedCertVersion | webpki::Error::CaUsedAsEndEntity) => {
                let mut search = chain::Search::new(side, &self.trusted, known, self.depth_max, seconds);
                links = search.find(end_entity).map_err(|error| match error {
                    VerifyError::UnknownIssuer => untrusted(end_entity, intermediates),
                    other => other,
                })?;
            }
            Err(error) => {
                // A way that was found and not allowed tells more than that there is no other.
                return Err(match (refused.get(), error) {
                    (Some(why), _) => why,
                    (None, webpki::Error::UnknownIssuer) => untrusted(end_entity, intermediates),
                    (None, other) => other.into(),
                });
            }
        }
        self.check_revoked(&links, seconds)?;
        if let Some(wanted) = wanted {
            *wanted = links;
        }
        Ok(())
    }

    /// Lets the library find a way that is allowed. Answers its certificates, the peer's own first, the trusted one last; `refused`
    /// gets the reason why the last one that it has found is not allowed.
    fn verify_chain(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        side: Side,
        now: UnixTime,
        refused: &Cell<Option<VerifyError>>,
    ) -> Result<Vec<Vec<u8>>, webpki::Error> {
        let certificate = EndEntityCert::try_from(end_entity)?;
        let is_allowed = |path: &VerifiedPath<'_>| {
            self.check_path(end_entity, path, side, now).map_err(|why| {
                refused.set(Some(why));
                webpki::Error::UnknownIssuer
            })
        };
        let path = certificate.verify_for_usage(
            provider().signature_verification_algorithms.all,
            &self.anchors,
            intermediates,
            now,
            AnyPurpose,
            None,
            Some(&is_allowed),
        )?;
        let issuers = self.issuers(&path).ok_or(webpki::Error::UnknownIssuer)?;
        Ok([end_entity.to_vec()].into_iter().chain(issuers.iter().map(|one| one.to_vec())).collect())
    }

    /// The issuers of a way, the trusted one last.
    fn issuers<'p>(&'p self, path: &'p VerifiedPath<'_>) -> Option<Vec<CertificateDer<'p>>> {
        let address = ptr::from_ref(path.anchor()).addr();
        let place = self.anchors.iter().position(|anchor| ptr::from_ref(anchor).addr() == address)?;
        let trusted = CertificateDer::from(&self.trusted[self.places[place]][..]);
        Some(path.intermediate_certificates().map(|one| one.der()).chain([trusted]).collect())
    }

    /// Whether a way whose signatures are good, and whose times are but for the trusted one's, is allowed.
    fn check_path(
        &self,
        end_entity: &[u8],
        path: &VerifiedPath<'_>,
        side: Side,
        now: UnixTime,
    ) -> Result<(), VerifyError> {
        let issuers = self.issuers(path).ok_or(VerifyError::UnknownIssuer)?;
        let trusted = issuers.last().and_then(|trusted| Parts::of(trusted)).ok_or(VerifyError::Unspecified)?;
        if issuers.len() - 1 > self.depth_max {
            return Err(VerifyError::TooLong);
        }
        chain::check_time(&trusted, now.as_secs())?;
        powers::check_chain(end_entity, &issuers, side)
    }

    fn check_revoked(&self, links: &[Link], now: u64) -> Result<(), VerifyError> {
        if self.revoked.is_empty() {
            return Ok(());
        }
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        links.iter().try_for_each(|link| crl::check(&self.revoked, link, now))
    }
}

/// Leaves purposes to [`powers`], so that they are asked of trusted certificates too, and not of a stranger's.
struct AnyPurpose;

impl ExtendedKeyUsageValidator for AnyPurpose {
    fn validate(&self, _: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        Ok(())
    }
}

/// The links of a chain whose last certificate is the trusted one.
fn links_of(chain: &[Vec<u8>]) -> Result<Vec<Link>, VerifyError> {
    let link = |pair: &[Vec<u8>]| Some(Link::new(&pair[0], &Parts::of(&pair[1])?));
    chain.windows(2).map(|pair| link(pair).ok_or(VerifyError::Unspecified)).collect()
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

/// Whether signatures can be verified by the key of a certificate: there are kinds of keys that nobody here can read (Ed448).
pub fn has_usable_key(certificate: &CertificateDer<'_>) -> bool {
    let parts = Parts::of(certificate);
    // SEQUENCE { algorithm SEQUENCE, BIT STRING }
    let kind = parts.as_ref().and_then(|parts| {
        let (_, key) = elements(parts.public_key).next()?;
        elements(key).next().map(|(_, algorithm)| algorithm)
    });
    let known = provider().signature_verification_algorithms.all;
    kind.is_some_and(|kind| known.iter().any(|known| known.public_key_alg_id().as_ref() == kind))
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
