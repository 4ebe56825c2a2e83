//! Certificates, keys and what is verified of them, in the words of nginx and OpenSSL.
//!
//! What it does not know: sockets, directives, requests. TLS itself is rustls.
//!
//! In reading order:
//!
//! - [`verify`]: whether a chain of certificates is trusted, and OpenSSL's words for why it is not
//! - [`client`]: how we speak TLS to servers: one configuration of rustls for each set of options
//! - [`client_sessions`]: sessions that whoever has made them keeps; [`failure`]: OpenSSL's words for handshakes that fail
//! - [`server`]: certificates of clients; [`tickets`]: what sessions are resumed by; [`bound`]: where; [`describe`]: what certificates say
//! - [`managed`]: certificates that change while the server runs; [`alpn_challenge`]: proofs that a name is ours
//! - [`ocsp`]: the status of a certificate
//! - [`hello`]: a client's first message; [`sessions`]: sessions that somebody else keeps
//! - [`versions`], [`ciphers`]: what may be spoken; [`summary`]: what is spoken, for the log
//! - [`pem`]: certificates and keys as files have them; `old_encryption`: keys that OpenSSL once encrypted
//! - `powers`: what a certificate allows its key; `chain`: certificates that the library does not follow
//! - `suites`: the suites of TLS 1.3; `hkdf`: keys of a connection, derived in less time; `records`: kept in less memory
//! - `crl`, `x509`: lists of what is revoked, and what they and certificates are made of

#![forbid(unsafe_code)]

pub mod alpn_challenge;
pub mod bound;
mod chain;
pub mod ciphers;
pub mod client;
pub mod client_sessions;
mod crl;
pub mod describe;
pub mod failure;
pub mod hello;
mod hkdf;
pub mod managed;
pub mod ocsp;
mod old_encryption;
pub mod pem;
mod powers;
mod records;
pub mod server;
pub mod sessions;
mod suites;
pub mod summary;
pub mod tickets;
pub mod verify;
pub mod versions;
mod x509;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};

/// The cryptography of the whole program.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: std::sync::OnceLock<Arc<CryptoProvider>> = std::sync::OnceLock::new();
    let new = || {
        let mut provider = aws_lc_rs::default_provider();
        for suite in &mut provider.cipher_suites {
            *suite = suites::with_our_parts(*suite);
        }
        Arc::new(provider)
    };
    PROVIDER.get_or_init(new).clone()
}

/// Something that many share. The same content counts as the same thing, wherever it was read.
#[derive(Debug)]
pub struct Shared<T>(pub Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T: Eq> Eq for Shared<T> {}
