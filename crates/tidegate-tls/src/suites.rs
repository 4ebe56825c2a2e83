//! The suites of TLS 1.3: AWS-LC's, with parts of our own that take less time or memory.

use rustls::{SupportedCipherSuite, Tls13CipherSuite, crypto::CipherSuiteCommon};

use crate::{hkdf, records::Records};

/// A suite of TLS 1.3 with our parts; others as they are. To be called once for each suite of the process, which keeps what it answers for ever.
pub(crate) fn with_our_parts(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let Some(theirs) = suite.tls13() else { return suite };
    let CipherSuiteCommon { suite: name, hash_provider, confidentiality_limit } = theirs.common;
    let ours = Tls13CipherSuite {
        common: CipherSuiteCommon { suite: name, hash_provider, confidentiality_limit },
        hkdf_provider: hkdf::with(hash_provider.algorithm()).unwrap_or(theirs.hkdf_provider),
        aead_alg: Records::of(theirs).map_or(theirs.aead_alg, |records| Box::leak(Box::new(records))),
        quic: theirs.quic,
    };
    SupportedCipherSuite::Tls13(Box::leak(Box::new(ours)))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        sync::Arc,
    };

    use rustls::{
        ClientConfig, ClientConnection, ConnectionCommon, HandshakeKind, RootCertStore, ServerConfig, ServerConnection,
        crypto::{CryptoProvider, aws_lc_rs},
        pki_types::PrivateKeyDer,
        version::TLS13,
    };

    use super::*;

    /// Takes to one side what the other has to say.
    fn carry<F, T>(from: &mut ConnectionCommon<F>, to: &mut ConnectionCommon<T>) {
        let mut records = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut records).expect("memory");
        }
        let mut left = &records[..];
        while !left.is_empty() {
            to.read_tls(&mut left).expect("memory");
            to.process_new_packets().expect("the sides understand each other");
        }
    }

    fn say<F, T>(from: &mut ConnectionCommon<F>, to: &mut ConnectionCommon<T>, text: &[u8]) {
        from.writer().write_all(text).expect("memory");
        carry(from, to);
        let mut heard = vec![0; text.len()];
        to.reader().read_exact(&mut heard).expect("all of it");
        assert_eq!(heard, text);
    }

    fn meet(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> Option<HandshakeKind> {
        let name = "localhost".try_into().expect("a name");
        let mut client = ClientConnection::new(client.clone(), name).expect("a client");
        let mut server = ServerConnection::new(server.clone()).expect("a server");
        while client.is_handshaking() || server.is_handshaking() {
            carry(&mut client, &mut server);
            carry(&mut server, &mut client);
        }
        for text in [&b"short"[..], &[7; 12_000], b"short"] {
            say(&mut client, &mut server, text);
            say(&mut server, &mut client, text);
        }
        client.refresh_traffic_keys().expect("new keys");
        say(&mut client, &mut server, b"with other keys");
        say(&mut server, &mut client, b"with other keys");
        server.handshake_kind()
    }

    #[test]
    fn our_side_and_the_providers_understand_each_other() {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let certificate = certified.cert.der();
        let mut trusted = RootCertStore::empty();
        trusted.add(certificate.clone()).expect("a certificate");
        let only = |suite: SupportedCipherSuite| {
            Arc::new(CryptoProvider { cipher_suites: vec![suite], ..aws_lc_rs::default_provider() })
        };
        for theirs in aws_lc_rs::ALL_CIPHER_SUITES.iter().filter(|suite| suite.tls13().is_some()) {
            let ours = with_our_parts(*theirs);
            assert_eq!(ours, *theirs, "the same name");
            for (client, server) in [(*theirs, ours), (ours, *theirs), (ours, ours)] {
                let client = ClientConfig::builder_with_provider(only(client))
                    .with_protocol_versions(&[&TLS13])
                    .expect("a suite of it")
                    .with_root_certificates(trusted.clone())
                    .with_no_client_auth();
                let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
                let server = ServerConfig::builder_with_provider(only(server))
                    .with_protocol_versions(&[&TLS13])
                    .expect("a suite of it")
                    .with_no_client_auth()
                    .with_single_cert(vec![certificate.clone()], key)
                    .expect("a certificate and its key");
                let (client, server) = (Arc::new(client), Arc::new(server));
                for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
                    assert_eq!(meet(&client, &server), Some(expected), "{theirs:?}");
                }
            }
        }
    }
}
