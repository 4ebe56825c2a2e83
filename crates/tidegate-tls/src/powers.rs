//! What a certificate allows its key: to vouch for others, to sign lists of what is revoked, to speak for a client or a server.
//!
//! One set of rules for all issuers, whether they are trusted or were shown by the peer, and for the certificates of clients and
//! servers. The library takes trusted certificates by name and key alone, and reads no keyUsage; OpenSSL, whose rules these
//! are, wants of a trusted authority what it wants of any other. A certificate that is no authority is trusted for itself only.
//!
//! Source: RFC 5280, sections 4.2.1.3, 4.2.1.9, 4.2.1.10, 4.2.1.12 and 6.1.4; OpenSSL, `X509_check_purpose`, `X509_check_ca`.

use rustls::pki_types::CertificateDer;

use crate::{
    describe::utf8,
    verify::{Side, VerifyError},
    x509::{Parts, elements},
};

const KEY_USAGE: &[u8] = b"\x55\x1d\x0f";
const SUBJECT_ALT_NAME: &[u8] = b"\x55\x1d\x11";
const BASIC_CONSTRAINTS: &[u8] = b"\x55\x1d\x13";
const NAME_CONSTRAINTS: &[u8] = b"\x55\x1d\x1e";
const EXTENDED_KEY_USAGE: &[u8] = b"\x55\x1d\x25";
const SERVER_AUTH: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x03\x01";
const CLIENT_AUTH: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x03\x02";

/// Extensions that may be critical without harm: those that are looked at, or that forbid nothing to a chain that needs no
/// policies: cRLDistributionPoints, certificatePolicies, policyMappings, policyConstraints, inhibitAnyPolicy.
const KNOWN: [&[u8]; 10] = [
    KEY_USAGE,
    SUBJECT_ALT_NAME,
    BASIC_CONSTRAINTS,
    NAME_CONSTRAINTS,
    EXTENDED_KEY_USAGE,
    b"\x55\x1d\x1f",
    b"\x55\x1d\x20",
    b"\x55\x1d\x21",
    b"\x55\x1d\x24",
    b"\x55\x1d\x36",
];

/// Bits of keyUsage, all in its first byte.
const DIGITAL_SIGNATURE: u8 = 0x80;
const KEY_ENCIPHERMENT: u8 = 0x20;
const KEY_AGREEMENT: u8 = 0x08;
const KEY_CERT_SIGN: u8 = 0x04;
const CRL_SIGN: u8 = 0x02;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const BOOLEAN: u8 = 0x01;
/// `dNSName [2]` of GeneralName.
const DNS_NAME: u8 = 0x82;
const PERMITTED: u8 = 0xa0;
const EXCLUDED: u8 = 0xa1;

/// What basicConstraints say.
#[derive(Debug, Clone, Copy)]
struct Constraints {
    is_authority: bool,
    /// Authorities that may stand below.
    length_max: Option<usize>,
}

/// What a certificate says of its key.
#[derive(Debug)]
pub(crate) struct Powers<'a> {
    is_version_1: bool,
    has_unknown: bool,
    constraints: Option<Constraints>,
    /// First byte of keyUsage.
    usage: Option<u8>,
    /// Content of extKeyUsage.
    purposes: Option<&'a [u8]>,
    has_dns_names: bool,
    /// Content of nameConstraints.
    names: Option<&'a [u8]>,
}

/// The content of the one element in an extension.
fn content(value: &[u8]) -> &[u8] {
    elements(value).next().map_or(&[][..], |(_, content)| content)
}

impl<'a> Powers<'a> {
    pub(crate) fn of(parts: &Parts<'a>) -> Self {
        let mut powers = Self {
            is_version_1: parts.is_version_1,
            has_unknown: false,
            constraints: None,
            usage: None,
            purposes: None,
            has_dns_names: false,
            names: None,
        };
        for extension in parts.extensions() {
            match extension.kind {
                // SEQUENCE { cA BOOLEAN DEFAULT FALSE, pathLenConstraint INTEGER OPTIONAL }
                BASIC_CONSTRAINTS => {
                    let mut fields = elements(content(extension.value)).peekable();
                    let flag = fields.next_if(|(tag, _)| *tag == BOOLEAN);
                    let number = |digits: &[u8]| {
                        digits.iter().fold(0_usize, |number, digit| number.saturating_mul(256) + usize::from(*digit))
                    };
                    powers.constraints = Some(Constraints {
                        is_authority: matches!(flag, Some((_, [value])) if *value != 0),
                        length_max: fields.next().filter(|(tag, _)| *tag == INTEGER).map(|(_, digits)| number(digits)),
                    });
                }
                // The number of unused bits stands ahead. What cannot be read allows nothing.
                KEY_USAGE => {
                    powers.usage = Some(match elements(extension.value).next() {
                        Some((BIT_STRING, [_, first, ..])) => *first,
                        _ => 0,
                    });
                }
                EXTENDED_KEY_USAGE => powers.purposes = Some(content(extension.value)),
                SUBJECT_ALT_NAME => {
                    powers.has_dns_names = elements(content(extension.value)).any(|(tag, _)| tag == DNS_NAME);
                }
                NAME_CONSTRAINTS => powers.names = Some(content(extension.value)),
                _ => {}
            }
            powers.has_unknown |= extension.is_critical && !KNOWN.contains(&extension.kind);
        }
        powers
    }

    /// Whether it may vouch for others, of which `below` are authorities themselves. Of those that are `trusted` some from before
    /// there were extensions may.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn check_issuer(&self, side: Side, below: usize, trusted: bool) -> Result<(), VerifyError> {
        self.check_known()?;
        if !self.allows(KEY_CERT_SIGN) {
            return Err(VerifyError::NoCertSign);
        }
        match self.constraints {
            Some(Constraints { is_authority: true, length_max }) => {
                if length_max.is_some_and(|length_max| below > length_max) {
                    return Err(VerifyError::PathLength);
                }
            }
            None if trusted && (self.is_version_1 || self.usage.is_some()) => {}
            _ => return Err(VerifyError::InvalidCa),
        }
        self.check_purpose(side)
    }

    /// Whether its owner may be the client or the server of a connection.
    ///
    /// # Errors
    /// He may not.
    pub(crate) fn check_peer(&self, side: Side) -> Result<(), VerifyError> {
        self.check_known()?;
        self.check_purpose(side)?;
        let enough = match side {
            Side::Client => DIGITAL_SIGNATURE | KEY_AGREEMENT,
            Side::Server => DIGITAL_SIGNATURE | KEY_AGREEMENT | KEY_ENCIPHERMENT,
        };
        if self.allows(enough) { Ok(()) } else { Err(VerifyError::Purpose) }
    }

    /// Whether its key may sign lists of what is revoked.
    pub(crate) fn signs_lists(&self) -> bool {
        self.allows(CRL_SIGN)
    }

    /// Whether it says for which names it may vouch.
    pub(crate) fn constrains_names(&self) -> bool {
        self.names.is_some()
    }

    /// Whether keyUsage, if there is any, has one of these bits.
    fn allows(&self, bits: u8) -> bool {
        self.usage.is_none_or(|usage| usage & bits != 0)
    }

    fn check_known(&self) -> Result<(), VerifyError> {
        if self.has_unknown { Err(VerifyError::CriticalExtension) } else { Ok(()) }
    }

    fn check_purpose(&self, side: Side) -> Result<(), VerifyError> {
        let wanted = match side {
            Side::Server => SERVER_AUTH,
            Side::Client => CLIENT_AUTH,
        };
        match self.purposes {
            Some(list) if !elements(list).any(|(_, purpose)| purpose == wanted) => Err(VerifyError::Purpose),
            _ => Ok(()),
        }
    }

    /// Whether it may vouch for a name of DNS, which may begin with `*.`.
    fn vouches_for(&self, name: &[u8]) -> bool {
        let bases = |wanted: u8| {
            let lists = elements(self.names.unwrap_or_default()).filter(move |(tag, _)| *tag == wanted);
            let subtrees = lists.flat_map(|(_, subtrees)| elements(subtrees));
            subtrees.filter_map(|(_, subtree)| elements(subtree).next().filter(|(tag, _)| *tag == DNS_NAME))
        };
        let is_in = |(_, base): (u8, &[u8])| is_below(name, base);
        let mut permitted = bases(PERMITTED).peekable();
        (permitted.peek().is_none() || permitted.any(is_in)) && !bases(EXCLUDED).any(is_in)
    }
}

/// Whether a name is `base`, or has labels ahead of it.
fn is_below(name: &[u8], base: &[u8]) -> bool {
    let Some(at) = name.len().checked_sub(base.len()) else { return false };
    let (ahead, end) = name.split_at(at);
    let is_whole = base.is_empty() || ahead.is_empty() || base.starts_with(b".") || ahead.ends_with(b".");
    is_whole && end.eq_ignore_ascii_case(base)
}

/// Whether a common name reads as one of DNS. Those of clients may be people: they have a dot, then.
fn reads_as_dns(name: &[u8], side: Side) -> bool {
    let is_of_dns = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let labels = name.strip_prefix(b"*").unwrap_or(name);
    labels.iter().all(is_of_dns) && (side == Side::Server || labels.contains(&b'.'))
}

/// Whether the issuers of a certificate may vouch for its common names, which count where it has no names of DNS. The library
/// looks at the latter only.
///
/// Source: OpenSSL, `NAME_CONSTRAINTS_check_CN`.
///
/// # Errors
/// One may not.
fn check_common_names(peer: &Parts<'_>, issuers: &[Powers<'_>], side: Side) -> Result<(), VerifyError> {
    for (tag, value) in peer.common_names() {
        let Some(name) = utf8(tag, value).filter(|name| reads_as_dns(name, side)) else { continue };
        let name = name.strip_suffix(b".").unwrap_or(&name);
        if !issuers.iter().all(|issuer| issuer.vouches_for(name)) {
            return Err(VerifyError::Subtree);
        }
    }
    Ok(())
}

/// Whether a chain whose signatures and times are good holds: the peer's certificate, those between, the trusted one last.
///
/// # Errors
/// It does not.
pub(crate) fn check_chain(peer: &[u8], issuers: &[CertificateDer<'_>], side: Side) -> Result<(), VerifyError> {
    let peer = Parts::of(peer).ok_or(VerifyError::Unspecified)?;
    let mut found = Vec::with_capacity(issuers.len());
    let mut below = 0;
    for (index, issuer) in issuers.iter().enumerate() {
        let parts = Parts::of(issuer).ok_or(VerifyError::Unspecified)?;
        let powers = Powers::of(&parts);
        powers.check_issuer(side, below, index + 1 == issuers.len())?;
        below += usize::from(!parts.is_self_issued());
        found.push(powers);
    }
    let powers = Powers::of(&peer);
    powers.check_peer(side)?;
    if !powers.has_dns_names && found.iter().any(Powers::constrains_names) {
        check_common_names(&peer, &found, side)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
