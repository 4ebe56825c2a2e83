//! What a request can tell of its connection's TLS.

use rustls::{CipherSuite, Connection, ProtocolVersion};

use crate::{request::Request, variable::VariableDef};

pub(super) static VARIABLES: &[VariableDef] = &[
    VariableDef::new("https", https, "\"on\" over TLS."),
    VariableDef::new("ssl_cipher", ssl_cipher, "Cipher suite of the connection, in OpenSSL's words."),
    VariableDef::new("ssl_protocol", ssl_protocol, "Version of TLS that the connection speaks."),
    VariableDef::new(
        "ssl_server_name",
        ssl_server_name,
        "Server name that the client asked for in the handshake (SNI).",
    ),
];

fn https(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    if req.is_secure() {
        out.extend_from_slice(b"on");
    }
    true
}

fn ssl_protocol(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let version = req.connection().stream.with_tls(|tls| tls.protocol_version()).flatten();
    let name: &[u8] = match version {
        Some(ProtocolVersion::TLSv1_2) => b"TLSv1.2",
        Some(ProtocolVersion::TLSv1_3) => b"TLSv1.3",
        _ => return false,
    };
    out.extend_from_slice(name);
    true
}

fn ssl_cipher(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let suite = req.connection().stream.with_tls(|tls| tls.negotiated_cipher_suite()).flatten();
    let Some(suite) = suite else { return false };
    out.extend_from_slice(cipher_name(suite.suite()).as_bytes());
    true
}

fn ssl_server_name(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let found = req.connection().stream.with_tls(|tls| match tls {
        Connection::Server(tls) => tls.server_name().map(|name| out.extend_from_slice(name.as_bytes())).is_some(),
        Connection::Client(_) => false,
    });
    found == Some(true)
}

/// The name that OpenSSL has for a suite.
///
/// Source: openssl-ciphers(1), "Cipher suite names".
fn cipher_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        other => other.as_str().unwrap_or_default(),
    }
}

impl Request {
    /// Whether TLS is spoken with the client.
    pub fn is_secure(&self) -> bool {
        self.connection().stream.with_tls(|_| ()).is_some()
    }
    /// `https` or `http`.
    pub fn scheme(&self) -> &'static str {
        if self.is_secure() { "https" } else { "http" }
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring;

    use super::*;

    #[test]
    fn every_suite_has_a_name_of_openssl() {
        for suite in ring::ALL_CIPHER_SUITES {
            let name = cipher_name(suite.suite());
            assert!(name.starts_with("TLS_") || name.starts_with("ECDHE-"), "{suite:?}: {name}");
            assert!(!name.contains("_WITH_") && !name.starts_with("TLS13"), "{suite:?}: {name}");
        }
    }
}
