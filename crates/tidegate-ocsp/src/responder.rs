//! Responders: few and small requests, each on a connection of its own.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::{
    Request, StatusCode, Uri,
    client::conn::http1,
    header::{CONNECTION, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use tidegate_net::{
    log::SysError,
    resolver::{self, ResolveError, Resolver},
};
use tokio::{net::TcpStream, time::timeout};

/// Longest time from looking up a responder's name to the end of its answer.
///
/// Source: nginx, `ngx_ssl_stapling_start`.
const FETCH_TIME_MAX: Duration = Duration::from_secs(60);

/// Bytes of an answer at most: one certificate's status, a signature, and the certificates of those who sign.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Port of an address that has none.
const HTTP_PORT: u16 = 80;

/// Who is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Responder {
    host: String,
    port: u16,
    /// Ends with a slash.
    path: String,
}

/// Why an address is none of a responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// It does not begin with `http://`.
    #[error("invalid URL prefix")]
    Prefix,
    /// What follows is no address.
    #[error("invalid host")]
    Host,
}

/// How responders are reached.
#[derive(Debug, Clone)]
pub struct Way {
    /// Who is asked for addresses; without one, the system.
    pub resolver: Option<Arc<Resolver>>,
    /// Longest time to look up a name.
    pub resolver_timeout: Duration,
}

impl Way {
    pub(crate) fn is_same(&self, other: &Way) -> bool {
        let is_same_resolver = match (&self.resolver, &other.resolver) {
            (Some(one), Some(other)) => one.has_same_settings(other),
            (None, None) => true,
            _ => false,
        };
        is_same_resolver && self.resolver_timeout == other.resolver_timeout
    }
}

/// Why a responder gave no answer. The same question may have one later.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The name has no address.
    #[error("{0} could not be resolved ({1})")]
    Resolve(String, #[source] ResolveError),
    /// No address takes a connection.
    #[error("connect() failed {}", SysError(.0))]
    Connect(#[source] io::Error),
    /// The connection broke, or what came is not HTTP.
    #[error("OCSP responder sent no valid response ({0})")]
    Exchange(#[from] hyper::Error),
    /// The response is none of those that bring an answer.
    #[error("OCSP responder sent status {0}")]
    Status(u16),
    /// The response is something else.
    #[error("OCSP responder sent invalid \"Content-Type\" header")]
    ContentType,
    /// The response is longer than an answer.
    #[error("OCSP responder sent more than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    /// It took too long.
    #[error("OCSP responder timed out")]
    TimedOut,
}

impl Responder {
    /// Reads an address: `http://host[:port][/path]`.
    ///
    /// # Errors
    /// [`BadAddress`].
    pub fn parse(text: &[u8]) -> Result<Self, BadAddress> {
        if !text.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"http://")) {
            return Err(BadAddress::Prefix);
        }
        let uri = Uri::try_from(text).map_err(|_| BadAddress::Host)?;
        let authority =
            uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or(BadAddress::Host)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            Some(port) => port,
            None if !has_port => HTTP_PORT,
            None => return Err(BadAddress::Host),
        };
        let mut path = uri.path().to_owned();
        if host.is_empty() || port == 0 {
            return Err(BadAddress::Host);
        }
        if !path.ends_with('/') {
            path.push('/');
        }
        Ok(Self { host, port, path })
    }

    /// What is asked for, with the question in the path.
    ///
    /// Source: RFC 6960, appendix A.1.
    fn target(&self, question: &[u8]) -> String {
        let mut target = self.path.clone();
        for letter in STANDARD.encode(question).chars() {
            match letter {
                '+' => target.push_str("%2B"),
                '/' => target.push_str("%2F"),
                '=' => target.push_str("%3D"),
                other => target.push(other),
            }
        }
        target
    }

    /// Asks it. May be called on threads with a local set only; whoever stops waiting ends the exchange.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn fetch(&self, question: &[u8], way: &Way) -> Result<Vec<u8>, FetchError> {
        timeout(FETCH_TIME_MAX, self.fetch_soon(question, way)).await.unwrap_or(Err(FetchError::TimedOut))
    }

    async fn fetch_soon(&self, question: &[u8], way: &Way) -> Result<Vec<u8>, FetchError> {
        let stream = self.connect(way).await?;
        let (mut sender, connection) = http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await?;
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let request = Request::get(self.target(question))
            .header(HOST, if self.port == HTTP_PORT { host } else { format!("{host}:{}", self.port) })
            .header(CONNECTION, "close")
            .body(Empty::new())
            .expect("all parts come from an address that was parsed");
        let mut exchange = pin!(async move {
            let response = sender.send_request(request).await?;
            if response.status() != StatusCode::OK {
                return Err(FetchError::Status(response.status().as_u16()));
            }
            let kind = response.headers().get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
            let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            if !kind.eq_ignore_ascii_case(b"application/ocsp-response") {
                return Err(FetchError::ContentType);
            }
            let collected = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            collected.map(|body| body.to_bytes().to_vec()).map_err(|error| match error.downcast::<hyper::Error>() {
                Ok(error) => FetchError::Exchange(*error),
                Err(error) => {
                    debug_assert!(error.is::<LengthLimitError>());
                    FetchError::TooLong
                }
            })
        });
        tokio::select! {
            biased;
            outcome = &mut exchange => outcome,
            // What has come before the end is still to be taken.
            _ = connection => exchange.await,
        }
    }

    /// Connects to the first address that takes it.
    async fn connect(&self, way: &Way) -> Result<TcpStream, FetchError> {
        let found = resolver::resolve(way.resolver.as_ref(), &self.host, way.resolver_timeout).await;
        let found = found.map_err(|error| FetchError::Resolve(self.host.clone(), error))?;
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for ip in found.addresses.iter() {
            match TcpStream::connect(SocketAddr::new(*ip, self.port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(FetchError::Connect(failure))
    }
}

impl std::fmt::Display for Responder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, u16, &str), BadAddress>) {
        let found = Responder::parse(text.as_bytes());
        let found = found.as_ref().map(|found| (found.host.as_str(), found.port, found.path.as_str()));
        assert_eq!(found.map_err(|error| *error), expected, "{text}");
    }

    #[test]
    fn addresses_of_responders() {
        check("http://ocsp.example.com", Ok(("ocsp.example.com", 80, "/")));
        check("HTTP://127.0.0.1:8080/a", Ok(("127.0.0.1", 8080, "/a/")));
        check("http://[::1]:81/a/?b", Ok(("::1", 81, "/a/")));
        check("https://example.com", Err(BadAddress::Prefix));
        check("example.com", Err(BadAddress::Prefix));
        for bad in
            ["http://", "http://:80/", "http://a b/", "http://a:b/", "http://a:0/", "http://u@a/", "http://a:70000/"]
        {
            check(bad, Err(BadAddress::Host));
        }
        let long = format!("http://{}", "a".repeat(70_000));
        assert_eq!(Responder::parse(long.as_bytes()), Err(BadAddress::Host));
    }

    #[test]
    fn questions_stand_in_the_path() {
        let responder = Responder::parse(b"http://a/b").expect("an address");
        assert_eq!(responder.target(b"\xfb\xff\xfe\x00"), "/b/%2B%2F%2F%2BAA%3D%3D");
    }
}
