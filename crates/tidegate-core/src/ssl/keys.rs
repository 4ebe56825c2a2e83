//! The certificates of a server, as a handshake chooses among them.

use std::sync::Arc;

use rustls::{
    SignatureAlgorithm,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tidegate_tls::managed::Managed;

/// The certificates of a server, one for each type of key.
#[derive(Debug)]
pub(super) struct Certificates {
    pairs: Vec<Arc<CertifiedKey>>,
    /// One that comes by itself.
    managed: Option<Arc<Managed>>,
    /// Others, for clients that none of these fits.
    below: Option<Arc<dyn ResolvesServerCert>>,
    /// The status that is shown with any of them.
    status: Option<Vec<u8>>,
}

impl Certificates {
    /// Those of RSA are the last choice: their signatures cost most.
    pub(super) fn new(mut pairs: Vec<Arc<CertifiedKey>>, managed: Option<Arc<Managed>>) -> Self {
        pairs.sort_by_key(|pair| pair.key.algorithm() == SignatureAlgorithm::RSA);
        Certificates { pairs, managed, below: None, status: None }
    }

    /// Those that a script has chosen, and `below` for clients that none of them fits.
    pub(super) fn chosen(
        pairs: Vec<Arc<CertifiedKey>>,
        status: Option<Vec<u8>>,
        below: Option<Arc<dyn ResolvesServerCert>>,
    ) -> Self {
        Certificates { below, status, ..Self::new(pairs, None) }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let pair = self.choose(hello)?;
        match &self.status {
            Some(status) => Some(Arc::new(CertifiedKey { ocsp: Some(status.clone()), ..CertifiedKey::clone(&pair) })),
            None => Some(pair),
        }
    }
}

impl Certificates {
    fn choose(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let fits = |pair: &&Arc<CertifiedKey>| pair.key.choose_scheme(hello.signature_schemes()).is_some();
        let managed = self.managed.as_ref().map(|managed| managed.current());
        // One that nobody trusts is better than none, not than one of a file.
        let (before, after) = match &managed {
            Some(current) if current.is_provisional => (None, Some(&current.certified)),
            Some(current) => (Some(&current.certified), None),
            None => (None, None),
        };
        let mut all = before.into_iter().chain(&self.pairs).chain(after);
        let first = all.clone().next();
        // A client that supports none is told so by the handshake.
        let found = all.find(fits);
        match &self.below {
            Some(below) if found.is_none() => below.resolve(hello).or_else(|| first.cloned()),
            _ => found.or(first).cloned(),
        }
    }
}
