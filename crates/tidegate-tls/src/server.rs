//! Certificates of clients, as a server asks for them.
//!
//! A handshake takes any certificate whose key the client has. Whether it is accepted is asked afterwards: a client whose
//! certificate is not gets an answer that says so.

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

use crate::{
    client::{verify_signature_tls12, verify_signature_tls13},
    provider,
    verify::{BadList, Link, Rules, Side, VerifyError},
    x509::Parts,
};

/// By what the certificates of clients are verified.
#[derive(Debug)]
pub struct ClientRules {
    rules: Rules,
}

impl ClientRules {
    /// As [`Rules::new`].
    ///
    /// # Errors
    /// A list of what is revoked cannot be read.
    pub fn new(
        trusted: &[CertificateDer<'static>],
        revoked: &[CertificateRevocationListDer<'static>],
        depth_max: u64,
    ) -> Result<Self, BadList> {
        Ok(Self { rules: Rules::new(trusted, revoked, Some(depth_max))? })
    }

    /// Verifies what a client has shown, its own certificate first.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<(), VerifyError> {
        let Some((end_entity, intermediates)) = chain.split_first() else { return Err(VerifyError::Unspecified) };
        let verified = self.rules.verify(end_entity, intermediates, Side::Client, UnixTime::now());
        verified.map_err(|error| self.rules.last_fault(error, end_entity, intermediates))
    }

    /// As [`verify`](Self::verify). Answers the way to a trusted certificate.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn verify_with_links(&self, chain: &[CertificateDer<'_>]) -> Result<Vec<Link>, VerifyError> {
        let Some((end_entity, intermediates)) = chain.split_first() else { return Err(VerifyError::Unspecified) };
        let verified = self.rules.verify_with_links(end_entity, intermediates, Side::Client, UnixTime::now());
        verified.map_err(|error| self.rules.last_fault(error, end_entity, intermediates))
    }
}

/// Asks for certificates, and takes any.
#[derive(Debug)]
pub struct AnyClient {
    hints: Vec<DistinguishedName>,
}

impl AnyClient {
    /// Clients are told that certificates of `authorities` are welcome.
    pub fn new(authorities: &[CertificateDer<'_>]) -> Self {
        let mut hints: Vec<DistinguishedName> = Vec::new();
        for name in authorities.iter().filter_map(|one| Some(DistinguishedName::from(Parts::of(one)?.subject.to_vec())))
        {
            if !hints.iter().any(|known| known.as_ref() == name.as_ref()) {
                hints.push(name);
            }
        }
        Self { hints }
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature_tls12(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature_tls13(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
