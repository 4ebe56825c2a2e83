//! The status of what a client has shown: `ssl_ocsp`.
//!
//! Source: nginx, `ngx_ssl_ocsp_validate`.

use std::sync::Arc;

use tidegate_tls::{
    ocsp::{self, OcspError, Signers, Status, Subject},
    verify::Link,
};

use crate::{
    cache::{Cache, Key},
    responder::{BadAddress, FetchError, Responder, Way},
};

/// Whose status is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// The client's own certificate alone.
    Leaf,
    /// All certificates up to the trusted one.
    Chain,
}

/// How the status of clients' certificates is asked for.
#[derive(Debug)]
pub struct Inquiry {
    /// Whose.
    pub reach: Reach,
    /// Who is asked; without one, whom each certificate names.
    pub responder: Option<Responder>,
    /// What is remembered.
    pub cache: Option<Arc<Cache>>,
    /// How responders are reached.
    pub way: Way,
}

/// Why a client is not accepted, in nginx's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// Nobody could tell. Another try may go better.
    #[error("certificate status request failed")]
    Failed,
    /// A certificate was revoked.
    #[error("certificate revoked")]
    Revoked,
    /// Its responder does not know a certificate.
    #[error("certificate status unknown")]
    Unknown,
}

/// Why nobody could tell the status of a certificate.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is nobody to ask.
    #[error("no OCSP responder URL in the certificate")]
    NoResponder,
    /// Whom the certificate names is nobody to ask.
    #[error("{0} in the OCSP responder of the certificate")]
    Address(#[from] BadAddress),
    /// There is no answer.
    #[error("{0}")]
    Fetch(#[from] FetchError),
    /// The answer says nothing that counts.
    #[error("{0}")]
    Answer(#[from] OcspError),
}

impl Inquiry {
    /// Asks for the status of `links`, the client's certificate first, at a time in seconds since 1970. `report` is told why
    /// nobody could tell one. Whoever stops waiting ends it.
    ///
    /// # Errors
    /// [`StatusError`] of the first certificate that is not good.
    pub async fn check(&self, links: &[Link], now: i64, report: impl FnOnce(&AskError)) -> Result<(), StatusError> {
        let count = match self.reach {
            Reach::Leaf => 1,
            Reach::Chain => links.len(),
        };
        for link in links.iter().take(count) {
            match self.status(link, now).await {
                Ok(Status::Good) => {}
                Ok(Status::Revoked) => return Err(StatusError::Revoked),
                Ok(Status::Unknown) => return Err(StatusError::Unknown),
                Err(error) => {
                    report(&error);
                    return Err(StatusError::Failed);
                }
            }
        }
        Ok(())
    }

    async fn status(&self, link: &Link, now: i64) -> Result<Status, AskError> {
        let subject = Subject::with_key(&link.certificate, &link.issuer_key)?;
        let responder = match &self.responder {
            Some(responder) => responder.clone(),
            None => Responder::parse(ocsp::responder(&link.certificate)?.ok_or(AskError::NoResponder)?)?,
        };
        let key = Key { subject, responder };
        if let Some(status) = self.cache.as_ref().and_then(|cache| cache.find(&key, now)) {
            return Ok(status);
        }
        let response = key.responder.fetch(&key.subject.request(), &self.way).await?;
        let answer = key.subject.answer(&response, now, Signers::Issuer)?;
        if let Some(cache) = &self.cache {
            cache.store(key, answer, now);
        }
        Ok(answer.status)
    }
}
