//! Asking name servers: a datagram each, again when none answers, over TCP when the answer is too long.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    pin::Pin,
    task::Poll,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::{Instant, timeout_at},
};

use super::{
    ResolveError,
    message::{self, Kind, Reply},
};

/// Time until the next server is asked.
///
/// Source: nginx, `resend_timeout`; shorter, since the first server is often just slow to start.
const RESEND: Duration = Duration::from_secs(2);

/// Longest datagram that is read; servers send at most 512 bytes to those who do not ask for more.
const DATAGRAM_BYTES_MAX: usize = 4096;

thread_local! {
    static TURN: Cell<usize> = const { Cell::new(0) };
}

/// A question under way.
type Question<'q> = Pin<Box<dyn Future<Output = io::Result<Reply>> + 'q>>;

/// Asks the servers in turn until one answers or `deadline` has come. Those that are slow may still answer while the next
/// is asked.
pub(super) async fn ask(
    servers: &[SocketAddr],
    name: &str,
    kind: Kind,
    deadline: Instant,
) -> Result<Reply, ResolveError> {
    let query = message::query(random_id()?, name, kind).ok_or(ResolveError::NotFound)?;
    let first = TURN.replace(TURN.get().wrapping_add(1));
    let mut asked: Vec<Question<'_>> = Vec::new();
    for attempt in 0.. {
        let server = servers[first.wrapping_add(attempt) % servers.len()];
        asked.push(Box::pin(ask_server(server, &query)));
        let until = deadline.min(Instant::now() + RESEND);
        match timeout_at(until, first_answer(&mut asked)).await {
            Ok(Some(reply)) => return Ok(reply),
            // Nobody there: the next one, but not in a busy loop.
            Ok(None) => tokio::time::sleep(Duration::from_millis(if attempt < servers.len() { 0 } else { 200 })).await,
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    Err(ResolveError::TimedOut)
}

/// The first answer to any of the questions; `None` when all have failed.
async fn first_answer(asked: &mut Vec<Question<'_>>) -> Option<Reply> {
    poll_fn(|cx| {
        let mut answer = None;
        asked.retain_mut(|question| match question.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(Ok(reply)) => {
                answer = Some(reply);
                false
            }
            Poll::Ready(Err(_)) => false,
        });
        if answer.is_some() || asked.is_empty() { Poll::Ready(answer) } else { Poll::Pending }
    })
    .await
}

async fn ask_server(server: SocketAddr, query: &[u8]) -> io::Result<Reply> {
    match ask_by_datagram(server, query).await? {
        Reply::Truncated => ask_by_stream(server, query).await,
        reply => Ok(reply),
    }
}

/// Each query has a socket, and so a port, of its own: that is what makes answers hard to forge.
async fn ask_by_datagram(server: SocketAddr, query: &[u8]) -> io::Result<Reply> {
    let any: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut buf = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let len = socket.recv(&mut buf).await?;
        if let Some(reply) = message::reply(query, &buf[..len]) {
            return Ok(reply);
        }
    }
}

async fn ask_by_stream(server: SocketAddr, query: &[u8]) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(query);
    stream.write_all(&framed).await?;
    let length = stream.read_u16().await?;
    let mut buf = vec![0; usize::from(length)];
    stream.read_exact(&mut buf).await?;
    message::reply(query, &buf).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A number that others cannot guess.
fn random_id() -> Result<u16, ResolveError> {
    let mut bytes = [0u8; 2];
    // Without randomness there is no question: an answer to one that can be guessed is anybody's.
    getrandom::fill(&mut bytes).map_err(|_| ResolveError::ServerFailure)?;
    Ok(u16::from_ne_bytes(bytes))
}
