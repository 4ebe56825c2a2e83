//! Requests to authorities: few, small, each on a connection of its own.
//!
//! The client that speaks ACME wants futures that may go to other threads; looking up names stays on this one. So requests go
//! over a channel to a task here.

use std::{
    error::Error as StdError,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, Response,
    header::{HOST, RETRY_AFTER},
};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::{ClientConfig, pki_types::ServerName};
use tidegate_net::resolver::{self, Resolver};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::patience::{self, Later, Patience};

/// Longest time from looking up an authority's name to the end of its response: a person waits for none of this.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);

/// Bytes of an authority's response at most: the longest is a chain of certificates.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// Port of an address that has none.
const HTTPS_PORT: u16 = 443;

type Cause = Box<dyn StdError + Send + Sync>;

/// How authorities are reached.
pub(crate) struct Way {
    /// What is trusted.
    pub(crate) tls: Arc<ClientConfig>,
    /// Who is asked for addresses; without one, the system.
    pub(crate) resolver: Option<Arc<Resolver>>,
    /// Longest time to look up a name.
    pub(crate) resolver_timeout: Duration,
    /// What the authority has said of when to ask it.
    pub(crate) patience: Patience,
}

/// The end of the channel that the ACME client has.
struct Requests(mpsc::UnboundedSender<Asked>);

struct Asked {
    request: Request<BodyWrapper<Bytes>>,
    answer: oneshot::Sender<Result<BytesResponse, Error>>,
}

/// A client whose requests are carried out on this thread, as long as it lives.
pub(crate) fn client(way: Way) -> Box<dyn HttpClient> {
    let (sender, mut asked) = mpsc::unbounded_channel::<Asked>();
    let way = Rc::new(way);
    tokio::task::spawn_local(async move {
        while let Some(Asked { request, answer }) = asked.recv().await {
            let way = way.clone();
            tokio::task::spawn_local(async move {
                // Whoever asked may have stopped waiting.
                let _ = answer.send(way.exchange(request).await.map_err(Error::Other));
            });
        }
    });
    Box::new(Requests(sender))
}

impl HttpClient for Requests {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (answer, answered) = oneshot::channel();
        // A task that is gone answers nothing, which is told below.
        let _ = self.0.send(Asked { request, answer });
        Box::pin(async move { answered.await.unwrap_or(Err(Error::Str("the answer of a request that was given up"))) })
    }
}

impl Way {
    async fn exchange(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Cause> {
        if let Some(later) = self.patience.reason() {
            return Err(later.into());
        }
        let to = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let done = timeout(REQUEST_TIME_MAX, self.exchange_soon(request)).await;
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
        done.unwrap_or_else(|_| Err(late().into())).map_err(|error| match error.is::<Later>() {
            true => error,
            false => format!("\"{to}\": {error}").into(),
        })
    }

    async fn exchange_soon(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Cause> {
        let (mut parts, body) = request.into_parts();
        if parts.uri.scheme_str() != Some("https") {
            return Err("authorities are asked by https alone".into());
        }
        let authority = parts.uri.authority().cloned().ok_or("no host in the address")?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let stream = self.connect(&host, authority.port_u16().unwrap_or(HTTPS_PORT)).await?;
        let name = ServerName::try_from(host)?;
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the sender, or with an error that the sender is told.
        tokio::task::spawn_local(connection);
        parts.headers.insert(HOST, authority.as_str().parse()?);
        parts.uri = parts.uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
        let (mut parts, body) = sender.send_request(Request::from_parts(parts, body)).await?.into_parts();
        let content = Limited::new(body, RESPONSE_BYTES_MAX).collect().await?.to_bytes();
        if let Some(later) = Later::of(parts.status, &parts.headers, &content) {
            self.patience.note(&later);
            return Err(later.into());
        }
        // The client of ACME adds whatever stands there to the time of day.
        match patience::wait(&parts.headers, SystemTime::now()) {
            Some(wait) => drop(parts.headers.insert(RETRY_AFTER, wait.as_secs().into())),
            None => drop(parts.headers.remove(RETRY_AFTER)),
        }
        Ok(Response::from_parts(parts, Full::new(content)).into())
    }

    /// Connects to the first address that takes it.
    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, Cause> {
        let found = resolver::resolve(self.resolver.as_ref(), host, self.resolver_timeout).await;
        let addresses = found.map_err(|error| format!("{host} could not be resolved ({error})"))?.addresses;
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for ip in addresses.iter() {
            match TcpStream::connect(SocketAddr::new(*ip, port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(format!("connect() failed ({failure})").into())
    }
}
