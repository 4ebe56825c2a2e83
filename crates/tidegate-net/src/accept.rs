//! Taking connections from a listening socket, on a worker's thread or any other with an event loop.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use tokio::io::Interest;

use crate::{
    Peer, client_socket,
    log::{self, Level},
    turns,
};

/// How long accepting pauses when the process has no descriptors left.
///
/// Source: nginx, `accept_mutex_delay`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Gives each client that comes to `welcome`, with sockets that do not block. `listener` is one of those too.
///
/// # Errors
/// The event loop cannot watch the socket. What fails for one client alone is logged.
pub async fn accept_all(listener: OwnedFd, mut welcome: impl FnMut(OwnedFd, Peer)) -> io::Result<()> {
    let socket = client_socket::watch(listener, Interest::READABLE)?;
    loop {
        // Whoever comes from now on is another event.
        socket.readable().await?.clear_ready();
        let mut left = client_socket::waiting(socket.as_fd()).unwrap_or(usize::MAX);
        let mut turn = turns::CLIENTS_MIN;
        while left > 0 {
            for _ in 0..left.min(turn) {
                match client_socket::accept(socket.as_fd()) {
                    Ok((client, address)) => {
                        left -= 1;
                        welcome(client, address.as_socket().map_or(Peer::Unix, Peer::Inet));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        left = 0;
                        break;
                    }
                    Err(error) => pause_after(error).await,
                }
            }
            if left > 0 {
                turn = turns::next().await;
            }
        }
    }
}

/// What fails on one connection leaves the others; what the process lacks comes back after a while.
async fn pause_after(error: io::Error) {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
            log::note(Level::Crit, format_args!("accept4() failed {}", log::SysError(&error)));
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
        _ => log::note(Level::Info, format_args!("accept4() failed {}", log::SysError(&error))),
    }
}
