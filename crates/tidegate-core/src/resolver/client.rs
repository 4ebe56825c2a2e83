//! Asking name servers: a datagram each, again when none answers, over TCP when the answer is too long.

use std::{cell::Cell, io, net::SocketAddr, time::Duration};

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

/// Asks the servers in turn until one answers or `deadline` has come.
pub(super) async fn ask(
    servers: &[SocketAddr],
    name: &str,
    kind: Kind,
    deadline: Instant,
) -> Result<Reply, ResolveError> {
    let query = message::query(random_id(), name, kind).ok_or(ResolveError::NotFound)?;
    let first = TURN.replace(TURN.get().wrapping_add(1));
    for attempt in 0.. {
        let server = servers[first.wrapping_add(attempt) % servers.len()];
        let until = deadline.min(Instant::now() + RESEND);
        let answer = match timeout_at(until, ask_by_datagram(server, &query)).await {
            Ok(Ok(Reply::Truncated)) => timeout_at(deadline, ask_by_stream(server, &query)).await,
            answer => answer,
        };
        match answer {
            Ok(Ok(reply)) => return Ok(reply),
            // Nobody there: the next one, but not in a busy loop.
            Ok(Err(_)) => {
                tokio::time::sleep(Duration::from_millis(if attempt < servers.len() { 0 } else { 200 })).await
            }
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    Err(ResolveError::TimedOut)
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

/// A number that others cannot guess, from the system's randomness.
fn random_id() -> u16 {
    let mut bytes = [0u8; 2];
    // SAFETY: the buffer is live and its length is given. Should the call fail, the port is still random.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    u16::from_ne_bytes(bytes)
}
