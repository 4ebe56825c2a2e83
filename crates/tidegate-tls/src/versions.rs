//! Versions of TLS that a side speaks.

use rustls::{
    SupportedProtocolVersion,
    version::{TLS12, TLS13},
};

/// Versions of the protocol that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Versions {
    /// TLS 1.2
    pub tls12: bool,
    /// TLS 1.3
    pub tls13: bool,
}

/// A version as configurations name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Not safe any more, and not offered; configurations still list it beside the others.
    ///
    /// Source: RFC 8996.
    Old,
    /// TLS 1.2
    Tls12,
    /// TLS 1.3
    Tls13,
}

/// The words of `ssl_protocols` and its kin.
pub const WORDS: &[(&str, Version)] = &[
    ("SSLv2", Version::Old),
    ("SSLv3", Version::Old),
    ("TLSv1", Version::Old),
    ("TLSv1.1", Version::Old),
    ("TLSv1.2", Version::Tls12),
    ("TLSv1.3", Version::Tls13),
];

impl Versions {
    /// None.
    pub const NONE: Versions = Versions { tls12: false, tls13: false };
    /// All that are offered.
    pub const ALL: Versions = Versions { tls12: true, tls13: true };

    /// Takes one in; an old one changes nothing.
    pub fn add(&mut self, version: Version) {
        match version {
            Version::Old => {}
            Version::Tls12 => self.tls12 = true,
            Version::Tls13 => self.tls13 = true,
        }
    }

    /// As rustls wants them, the newest first.
    pub fn list(self) -> Vec<&'static SupportedProtocolVersion> {
        let all = [(self.tls13, &TLS13), (self.tls12, &TLS12)];
        all.into_iter().filter(|(wanted, _)| *wanted).map(|(_, version)| version).collect()
    }
}

impl Default for Versions {
    fn default() -> Self {
        Self::ALL
    }
}
