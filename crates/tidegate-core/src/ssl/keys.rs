//! The certificates of a server, as a handshake chooses among them.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::{
    SignatureAlgorithm,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tidegate_ocsp::Staple;
use tidegate_tls::managed::Managed;

use crate::clock;

/// A certificate whose status is looked after.
#[derive(Debug)]
pub(super) struct Stapled {
    bare: Arc<CertifiedKey>,
    staple: Arc<Staple>,
    /// An answer, and the certificate with it.
    made: Mutex<Option<(Arc<Vec<u8>>, Arc<CertifiedKey>)>>,
}

impl Stapled {
    pub(super) fn new(bare: Arc<CertifiedKey>, staple: Arc<Staple>) -> Self {
        Self { bare, staple, made: Mutex::new(None) }
    }

    pub(super) fn staple(&self) -> &Arc<Staple> {
        &self.staple
    }

    /// The certificate with its status, at a time in seconds since 1970, if that is known.
    fn current(&self, now: i64) -> Option<Arc<CertifiedKey>> {
        let answer = self.staple.current(now)?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pair)) = made.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &answer)) {
            return Some(pair.clone());
        }
        let pair = with_status(&self.bare, answer.to_vec());
        *made = Some((answer, pair.clone()));
        Some(pair)
    }
}

fn with_status(pair: &CertifiedKey, status: Vec<u8>) -> Arc<CertifiedKey> {
    Arc::new(CertifiedKey { ocsp: Some(status), ..pair.clone() })
}

/// The certificates of a server, one for each type of key.
#[derive(Debug)]
pub(super) struct Certificates {
    pairs: Vec<Arc<CertifiedKey>>,
    /// The status of some of them.
    staples: Vec<Stapled>,
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
        Certificates { pairs, staples: Vec::new(), managed, below: None, status: None }
    }

    /// Shows the status of those of them that `staples` are for.
    pub(super) fn with_staples(self, staples: Vec<Stapled>) -> Self {
        Certificates { staples, ..self }
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
            Some(status) => Some(with_status(&pair, status.clone())),
            None => {
                let stapled = self.staples.iter().find(|stapled| Arc::ptr_eq(&stapled.bare, &pair));
                stapled.and_then(|stapled| stapled.current(clock::now_unix())).or(Some(pair))
            }
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
