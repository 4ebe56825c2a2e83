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
}

impl Certificates {
    /// Those of RSA are the last choice: their signatures cost most.
    pub(super) fn new(mut pairs: Vec<Arc<CertifiedKey>>, managed: Option<Arc<Managed>>) -> Self {
        pairs.sort_by_key(|pair| pair.key.algorithm() == SignatureAlgorithm::RSA);
        Certificates { pairs, managed }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
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
        all.find(fits).or(first).cloned()
    }
}
