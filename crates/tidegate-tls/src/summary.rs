//! What nginx's log says, at the debug level, of a handshake that is done.

use rustls::{CipherSuite, Connection, HandshakeKind, ProtocolVersion};

use crate::ciphers;

/// The lines about a connection: its version and cipher, and whether its session was resumed. Empty before it has them.
///
/// Source: nginx, `ngx_ssl_handshake_log`.
pub fn of(tls: &Connection) -> Vec<String> {
    let (Some(version), Some(suite)) = (tls.protocol_version(), tls.negotiated_cipher_suite()) else {
        return Vec::new();
    };
    let version = if version == ProtocolVersion::TLSv1_2 { "TLSv1.2" } else { "TLSv1.3" };
    let mut lines = vec![format!("SSL: {version}, cipher: \"{}\"", description(suite.suite(), version))];
    if tls.handshake_kind() == Some(HandshakeKind::Resumed) {
        lines.push("SSL reused session".to_owned());
    }
    lines
}

/// A suite as OpenSSL describes it, without its runs of spaces.
///
/// Source: SSL_CIPHER_description(3).
fn description(suite: CipherSuite, version: &str) -> String {
    let name = ciphers::name(suite);
    let (exchange, authentication) = match name {
        name if name.starts_with("ECDHE-ECDSA-") => ("ECDH", "ECDSA"),
        name if name.starts_with("ECDHE-RSA-") => ("ECDH", "RSA"),
        _ => ("any", "any"),
    };
    let encryption = match name {
        name if name.contains("CHACHA20") => "CHACHA20/POLY1305(256)",
        name if name.contains("128") => "AESGCM(128)",
        _ => "AESGCM(256)",
    };
    format!("{name} {version} Kx={exchange} Au={authentication} Enc={encryption} Mac=AEAD")
}

#[cfg(test)]
mod tests {
    use rustls::crypto::aws_lc_rs;

    use super::*;

    // As `openssl ciphers -v ALL` of OpenSSL 3.0 lists them.
    #[test]
    fn suites_are_described_as_by_openssl() {
        for suite in aws_lc_rs::ALL_CIPHER_SUITES {
            let version = if suite.tls13().is_some() { "TLSv1.3" } else { "TLSv1.2" };
            let expected = match suite.suite() {
                CipherSuite::TLS13_AES_256_GCM_SHA384 => {
                    "TLS_AES_256_GCM_SHA384 TLSv1.3 Kx=any Au=any Enc=AESGCM(256) Mac=AEAD"
                }
                CipherSuite::TLS13_AES_128_GCM_SHA256 => {
                    "TLS_AES_128_GCM_SHA256 TLSv1.3 Kx=any Au=any Enc=AESGCM(128) Mac=AEAD"
                }
                CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => {
                    "TLS_CHACHA20_POLY1305_SHA256 TLSv1.3 Kx=any Au=any Enc=CHACHA20/POLY1305(256) Mac=AEAD"
                }
                CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => {
                    "ECDHE-ECDSA-AES256-GCM-SHA384 TLSv1.2 Kx=ECDH Au=ECDSA Enc=AESGCM(256) Mac=AEAD"
                }
                CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => {
                    "ECDHE-ECDSA-AES128-GCM-SHA256 TLSv1.2 Kx=ECDH Au=ECDSA Enc=AESGCM(128) Mac=AEAD"
                }
                CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => {
                    "ECDHE-ECDSA-CHACHA20-POLY1305 TLSv1.2 Kx=ECDH Au=ECDSA Enc=CHACHA20/POLY1305(256) Mac=AEAD"
                }
                CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => {
                    "ECDHE-RSA-AES256-GCM-SHA384 TLSv1.2 Kx=ECDH Au=RSA Enc=AESGCM(256) Mac=AEAD"
                }
                CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => {
                    "ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 Kx=ECDH Au=RSA Enc=AESGCM(128) Mac=AEAD"
                }
                _ => "ECDHE-RSA-CHACHA20-POLY1305 TLSv1.2 Kx=ECDH Au=RSA Enc=CHACHA20/POLY1305(256) Mac=AEAD",
            };
            assert_eq!(description(suite.suite(), version), expected);
        }
    }
}
