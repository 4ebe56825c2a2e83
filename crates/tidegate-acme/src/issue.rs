//! One conversation with an authority: an order, proofs of the names, the request for the certificate, the certificate.
//!
//! Source: RFC 8555, section 7.4.

use std::{io, time::Duration};

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeStatus, ChallengeType, Error,
    Identifier, NewOrder, OrderStatus, RetryPolicy,
};
use rcgen::{CustomExtension, KeyPair};
use rustls::pki_types::{Der, PrivatePkcs8KeyDer};
use tidegate_net::log::{Level, note};
use tidegate_tls::{
    alpn_challenge,
    client::ClientError,
    managed::{Material, MaterialError},
};

use crate::{
    http_challenge,
    issuer::Challenge,
    key::KeyType,
    order::{self, Order},
    patience::Later,
    under_way::UnderWay,
};

/// Longest time that an authority may take to look at a proof, or to sign.
const DECISION_TIME_MAX: Duration = Duration::from_secs(300);

/// Why there is no certificate. A later try may succeed, with each of them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IssueError {
    /// The authority, or the way to it.
    #[error("{0}")]
    Authority(#[from] Error),
    /// The authority could not convince itself that a name is ours.
    #[error("\"{name}\" is not proved to be ours: {why}")]
    NotProved { name: String, why: String },
    /// The authority does not offer this kind of proof for a name.
    #[error("\"{name}\" cannot be proved by {wanted}")]
    NoChallenge { name: String, wanted: &'static str },
    /// The authority has ended the order.
    #[error("the order has become {0:?}")]
    Status(OrderStatus),
    /// The authority does not offer the kind of certificate that is wanted.
    #[error("the issuer has no profile \"{0}\"")]
    Profile(String),
    /// A key, or a request for a certificate, cannot be made.
    #[error("{0}")]
    Request(#[from] rcgen::Error),
    /// What came is no certificate for our key.
    #[error("what came is no certificate for our key: {0}")]
    Material(#[from] MaterialError),
    /// The answer to a challenge cannot be given.
    #[error("{0}")]
    Answer(#[source] rustls::Error),
    /// The authority's server cannot be verified.
    #[error("the system's authorities cannot be read: {0}")]
    Roots(#[source] io::Error),
    /// There is no TLS to speak to the authority's server.
    #[error("{0}")]
    Tls(#[source] ClientError),
}

impl IssueError {
    /// Whether the authority does not know our account.
    pub(crate) fn is_of_account(&self) -> bool {
        const TYPE: &str = "urn:ietf:params:acme:error:accountDoesNotExist";
        matches!(self, Self::Authority(Error::Api(problem)) if problem.r#type.as_deref() == Some(TYPE))
    }

    /// When to try again, if the authority has said so.
    pub(crate) fn later(&self) -> Option<&Later> {
        match self {
            Self::Authority(Error::Other(cause)) => cause.downcast_ref(),
            _ => None,
        }
    }

    /// Whether nothing comes of the order any more. After anything else the next try goes on with it: the authority may work on it,
    /// or have done so, and only the answer was lost.
    fn is_final(&self) -> bool {
        match self {
            Self::Authority(Error::Api(problem)) => !matches!(problem.status, Some(429 | 500..)),
            Self::Authority(_) | Self::Roots(_) | Self::Tls(_) => false,
            Self::NotProved { .. }
            | Self::NoChallenge { .. }
            | Self::Status(_)
            | Self::Profile(_)
            | Self::Request(_)
            | Self::Material(_)
            | Self::Answer(_) => true,
        }
    }

    /// Whether the authority does not take what the order says of the certificate that it replaces.
    fn is_of_replacement(&self) -> bool {
        const ALREADY: &str = "urn:ietf:params:acme:error:alreadyReplaced";
        match self {
            Self::Authority(Error::Api(problem)) => {
                problem.r#type.as_deref() == Some(ALREADY)
                    // Authorities that do not know the certificate, or know it as another account's.
                    || matches!(problem.status, Some(400 | 403 | 404 | 409))
            }
            Self::Authority(Error::Unsupported(_)) => true,
            // The authority's answer does not repeat the field.
            Self::Authority(Error::Other(_)) => self.later().is_none(),
            _ => false,
        }
    }
}

/// Names that an answer is given for; it ends with them.
enum Answer {
    Http { _answer: http_challenge::Answer },
    Tls { _answer: alpn_challenge::Answer },
}

/// What the authority calls a certificate.
pub(crate) fn identity(material: &Material) -> Option<CertificateIdentifier<'static>> {
    let (key, serial) = material.identity()?;
    Some(CertificateIdentifier::new(Der::from_slice(key), Der::from_slice(serial)))
}

/// Has a certificate made, in the place of `replaced` if the authority wants to know, or fetches the one that was being made when a
/// process ended or an answer was lost. `now` is in seconds since 1970.
///
/// # Errors
/// [`IssueError`].
pub(crate) async fn issue(
    order: &Order,
    account: &Account,
    replaced: &Material,
    now: i64,
) -> Result<Material, IssueError> {
    if let Some(kept) = order.under_way() {
        let made = if kept.is_of(account.id(), now) { go_on(order, account, kept).await? } else { None };
        // A process that ended behind writing the certificate has left its order.
        if let Some(made) = made.filter(|made| made.certified.cert.first() != replaced.certified.cert.first()) {
            return Ok(made);
        }
        order.forget_under_way();
    }
    // Ahead of the order, which is lost with the process until it is kept: large keys take seconds.
    let key = make_key(order.key_type()).await?;
    let replaces = if replaced.is_provisional { None } else { identity(replaced) };
    let made = match new_order(order, account, replaces.clone()).await {
        Err(error) if replaces.is_some() && error.is_of_replacement() => new_order(order, account, None).await,
        made => made,
    };
    let under_way = made?;
    order.keep_under_way(UnderWay::new(account.id(), under_way.url(), key.serialize_pem(), now));
    complete(order, under_way, &key).await
}

/// Goes on with an order that was made before. `None` if there is nothing to go on with.
async fn go_on(order: &Order, account: &Account, kept: UnderWay) -> Result<Option<Material>, IssueError> {
    let Ok(key) = KeyPair::from_pem(&kept.key) else { return Ok(None) };
    let mut under_way = match account.order(kept.url).await.map_err(IssueError::from) {
        Ok(under_way) => under_way,
        // Authorities forget orders.
        Err(error) if error.is_final() && !error.is_of_account() => return Ok(None),
        Err(error) => return Err(error),
    };
    let status = under_way.state().status;
    if status == OrderStatus::Invalid {
        return Ok(None);
    }
    note(Level::Notice, format_args!("the order for {order} of before, which is {status:?}, is gone on with"));
    complete(order, under_way, &key).await.map(Some)
}

/// Does what an order still lacks, and fetches its certificate. An order that nothing comes of is forgotten.
async fn complete(order: &Order, mut under_way: instant_acme::Order, key: &KeyPair) -> Result<Material, IssueError> {
    let done = fetch(order, &mut under_way, key).await;
    if let Err(error) = &done
        && (error.is_final() || under_way.state().status == OrderStatus::Invalid)
    {
        order.forget_under_way();
    }
    done
}

async fn fetch(order: &Order, under_way: &mut instant_acme::Order, key: &KeyPair) -> Result<Material, IssueError> {
    if under_way.state().status == OrderStatus::Pending {
        prove(order, under_way).await?;
    }
    if under_way.state().status == OrderStatus::Ready {
        let request = order::params(order.names())?.serialize_request(key)?;
        under_way.finalize_csr(request.der()).await?;
    }
    let chain = under_way.poll_certificate(&RetryPolicy::new().timeout(DECISION_TIME_MAX)).await?;
    Ok(Material::of_pem(chain, key.serialize_pem())?)
}

/// A key, made by another thread: other orders go on meanwhile.
async fn make_key(kind: KeyType) -> Result<KeyPair, IssueError> {
    match tokio::task::spawn_blocking(move || kind.generate()).await {
        Ok(made) => Ok(made?),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

async fn new_order(
    order: &Order,
    account: &Account,
    replaces: Option<CertificateIdentifier<'static>>,
) -> Result<instant_acme::Order, IssueError> {
    let identifiers: Vec<Identifier> = order.names().iter().map(|name| identifier(name)).collect();
    let mut new = NewOrder::new(&identifiers);
    if let Some((profile, is_required)) = &order.issuer().settings().profile {
        match account.profiles().any(|offered| offered.name == profile) {
            true => new = new.profile(profile),
            false if *is_required => return Err(IssueError::Profile(profile.clone())),
            false => {}
        }
    }
    if let Some(replaces) = replaces {
        new = new.replaces(replaces);
    }
    Ok(account.new_order(&new).await?)
}

fn identifier(name: &str) -> Identifier {
    match name.parse() {
        Ok(address) => Identifier::Ip(address),
        Err(_) => Identifier::Dns(name.to_owned()),
    }
}

/// Proves all names that are not proved yet.
async fn prove(order: &Order, under_way: &mut instant_acme::Order) -> Result<(), IssueError> {
    let challenge = order.issuer().settings().challenge;
    // They are given until the authority has decided.
    let mut answers = Vec::new();
    let mut authorizations = under_way.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => answers.push(answer(&mut authorization, challenge).await?),
            status => {
                let name = authorization.identifier().to_string();
                return Err(IssueError::NotProved { name, why: format!("the proof has become {status:?}") });
            }
        }
    }
    let policy = RetryPolicy::new().timeout(DECISION_TIME_MAX);
    match under_way.poll_ready(&policy).await {
        Ok(OrderStatus::Ready | OrderStatus::Valid) => Ok(()),
        Ok(status) => Err(refused(under_way).await.unwrap_or(IssueError::Status(status))),
        Err(error) => Err(refused(under_way).await.unwrap_or(error.into())),
    }
}

/// Begins to give the answer to a challenge, and tells the authority.
async fn answer<'h>(authorization: &'h mut AuthorizationHandle<'h>, wanted: Challenge) -> Result<Answer, IssueError> {
    let name = authorization.identifier().to_string();
    let (kind, shown) = match wanted {
        Challenge::Http01 => (ChallengeType::Http01, "http-01"),
        Challenge::TlsAlpn01 => (ChallengeType::TlsAlpn01, "tls-alpn-01"),
    };
    let challenge = authorization.challenge(kind);
    let mut challenge = challenge.ok_or(IssueError::NoChallenge { name: name.clone(), wanted: shown })?;
    let authorization = challenge.key_authorization();
    let answer = match wanted {
        Challenge::Http01 => {
            Answer::Http { _answer: http_challenge::Answer::give(&challenge.token, authorization.as_str()) }
        }
        Challenge::TlsAlpn01 => {
            let (certificate, key) = proof(&name, authorization.digest().as_ref())?;
            let key = PrivatePkcs8KeyDer::from(key.serialize_der());
            let name = order::challenge_name(&name);
            let given = alpn_challenge::Answer::give(&name, certificate.der(), key.into());
            Answer::Tls { _answer: given.map_err(IssueError::Answer)? }
        }
    };
    // The authority may be looking already, where an order is gone on with.
    if challenge.status == ChallengeStatus::Pending {
        challenge.set_ready().await?;
    }
    Ok(answer)
}

/// The certificate that proves a name by a handshake (RFC 8737, section 3).
fn proof(name: &str, digest: &[u8]) -> Result<(rcgen::Certificate, KeyPair), rcgen::Error> {
    let key = KeyType::P256.generate()?;
    let mut params = order::params(&[name.to_owned()])?;
    params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
    Ok((params.self_signed(&key)?, key))
}

/// Which name the authority has refused, and why, if it says so.
async fn refused(under_way: &mut instant_acme::Order) -> Option<IssueError> {
    let mut authorizations = under_way.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let state = authorization.refresh().await.ok()?;
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
            return Some(IssueError::NotProved { name: state.identifier().to_string(), why: problem.to_string() });
        }
    }
    None
}
