//! Proof of a name by a handshake: whoever asks for the protocol `acme-tls/1` gets a certificate that the authority expects.
//!
//! The answers are the process's: any port that speaks TLS gives them.
//!
//! Source: RFC 8737.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::{
    ServerConfig,
    pki_types::PrivateKeyDer,
    server::ClientHello,
    sign::SingleCertAndKey,
    version::{TLS12, TLS13},
};

use crate::{client::certified, provider};

/// The protocol that an authority's client asks for (RFC 8737, section 6.2).
const PROTOCOL: &[u8] = b"acme-tls/1";

static ANSWERS: RwLock<Vec<(String, Arc<ServerConfig>)>> = RwLock::new(Vec::new());

/// An answer that is given as long as this lives.
#[derive(Debug)]
pub struct Answer(Arc<ServerConfig>);

impl Answer {
    /// Answers handshakes for `name`, in lower case, with a certificate and its key in DER.
    ///
    /// # Errors
    /// The key is not that of the certificate.
    pub fn give(name: &str, certificate: &[u8], key: PrivateKeyDer<'static>) -> Result<Self, rustls::Error> {
        // The library does not know the extension that makes the proof, which is critical.
        let certified = certified(vec![certificate.to_vec().into()], key, &provider())?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.send_tls13_tickets = 0;
        let config = Arc::new(config);
        ANSWERS.write().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), config.clone()));
        Ok(Self(config))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        ANSWERS.write().unwrap_or_else(PoisonError::into_inner).retain(|(_, config)| !Arc::ptr_eq(config, &self.0));
    }
}

/// Whether a client asks for a proof, and only for that.
pub fn is_asked(hello: &ClientHello<'_>) -> bool {
    let Some(mut protocols) = hello.alpn() else { return false };
    protocols.next() == Some(PROTOCOL) && protocols.next().is_none()
}

/// The latest answer for the name that a client asks for.
pub fn find(hello: &ClientHello<'_>) -> Option<Arc<ServerConfig>> {
    let name = hello.server_name()?;
    let answers = ANSWERS.read().unwrap_or_else(PoisonError::into_inner);
    answers.iter().rev().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, config)| config.clone())
}
