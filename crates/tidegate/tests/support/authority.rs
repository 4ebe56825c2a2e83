//! Certificates for a test's servers, and clients that trust them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};

use super::Site;

/// Signs certificates for servers.
pub(crate) struct Authority {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) pem: String,
    pub(crate) issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("authority")
    }

    pub(crate) fn named(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        // A name of its own: OpenSSL takes a certificate that names itself as its issuer for one.
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("signed");
        Self { certificate: certificate.der().clone(), pem: certificate.pem(), issuer: Issuer::new(params, key) }
    }

    /// Writes `conf/<name>.crt` and `conf/<name>.key`.
    pub(crate) fn certify(&self, site: &Site, name: &str) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        std::fs::write(site.dir.join(format!("conf/{name}.crt")), certificate.pem()).expect("written");
        std::fs::write(site.dir.join(format!("conf/{name}.key")), key.serialize_pem()).expect("written");
    }

    pub(crate) fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).expect("versions");
        Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

pub(crate) type Secure = StreamOwned<ClientConnection, TcpStream>;

pub(crate) fn secure(config: &Arc<ClientConfig>, socket: TcpStream, name: &str) -> Secure {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    StreamOwned::new(ClientConnection::new(config.clone(), name).expect("a client"), socket)
}

/// Sends a request and reads to the end, which the server announces.
pub(crate) fn ask(stream: &mut Secure, text: &str) -> String {
    stream.write_all(text.as_bytes()).expect("sent");
    let mut answer = String::new();
    // An end without a farewell is an error here.
    stream.read_to_string(&mut answer).expect("a complete answer");
    answer
}
