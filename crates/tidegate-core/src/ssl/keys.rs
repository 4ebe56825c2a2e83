//! The certificates of a server, as a handshake chooses among them.

use std::sync::Arc;

use rustls::{
    SignatureAlgorithm,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

/// The certificates of a server, one for each type of key.
#[derive(Debug)]
pub(super) struct Certificates(Vec<Arc<CertifiedKey>>);

impl Certificates {
    /// Those of RSA are the last choice: their signatures cost most.
    pub(super) fn new(mut pairs: Vec<Arc<CertifiedKey>>) -> Self {
        pairs.sort_by_key(|pair| pair.key.algorithm() == SignatureAlgorithm::RSA);
        Certificates(pairs)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let fits = |pair: &&Arc<CertifiedKey>| pair.key.choose_scheme(hello.signature_schemes()).is_some();
        // A client that supports none is told so by the handshake.
        self.0.iter().find(fits).or(self.0.first()).cloned()
    }
}
