//! Accepting connections, a few at a time.
//!
//! A connection that was accepted is a task, and so is the loop that accepts: behind a few hundred tasks of new connections it
//! comes too late, and the socket's queue (`backlog`, 511 places) is full. Whoever connects then tries again after a
//! second. So in a rush, while there are more connections than are accepted at a time, tasks that begin see to it that some
//! more are accepted.

use std::{
    cell::{Cell, RefCell},
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    time::Duration,
};

use socket2::SockRef;
use tokio::io::{Interest, unix::AsyncFd};

use crate::{
    client_socket,
    connection::Peer,
    log::{self, Level},
    sockets::Listener,
    worker::Worker,
};

/// Connections that are accepted at a time, before those that wait for an answer have their turn.
const ACCEPTED_MAX: usize = 16;

/// In a rush more are accepted after so many of them have begun.
const BEGUN_PER_LOOK: u32 = 8;

/// Connections that were accepted and have not begun: with so many the others wait in the socket's queue.
const NOT_BEGUN_MAX: u32 = 4096;

/// How long accepting pauses when the process has no descriptors left.
///
/// Source: nginx, `accept_mutex_delay`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Accepts connections until the task is aborted.
pub(crate) async fn accept_loop(worker: Rc<Worker>, listener: Listener, index: usize) {
    if let Err(error) = accept_all(&worker, &listener, index).await {
        log::note(Level::Alert, format_args!("cannot accept on {}: {error}", listener.spec.addr));
    }
}

async fn accept_all(worker: &Rc<Worker>, listener: &Listener, index: usize) -> io::Result<()> {
    let socket = client_socket::watch(listener.fd.try_clone()?, Interest::READABLE)?;
    let acceptor = Rc::new(Acceptor { socket, index });
    let _end = RushEnd { worker, acceptor: &acceptor };
    loop {
        let mut ready = acceptor.socket.readable().await?;
        match acceptor.accept(worker) {
            Ok(Accepted::All) => {
                ready.clear_ready();
                worker.rush().leave(&acceptor);
            }
            Ok(Accepted::Part) => worker.rush().join(&acceptor),
            Err(error) => pause_after(error).await,
        }
        if ready.ready().is_readable() {
            // There may be more.
            tokio::task::yield_now().await;
        }
    }
}

/// A listening socket of a worker.
struct Acceptor {
    socket: AsyncFd<OwnedFd>,
    /// The place of its address among those of the configuration.
    index: usize,
}

/// What was accepted of the connections that waited.
enum Accepted {
    All,
    /// There may be more.
    Part,
}

impl Acceptor {
    /// Accepts some connections.
    ///
    /// # Errors
    /// Those of accept(2).
    fn accept(&self, worker: &Rc<Worker>) -> io::Result<Accepted> {
        let shared_with = &worker.config().listens[self.index].shared_with;
        for _ in 0..ACCEPTED_MAX {
            match client_socket::accept(self.socket.as_fd()) {
                Ok((client, address)) => {
                    let peer = address.as_socket().map_or(Peer::Unix, Peer::Inet);
                    let index = reached(&client, shared_with).unwrap_or(self.index);
                    worker.accept(client, peer, index);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Accepted::All),
                Err(error) => return Err(error),
            }
        }
        Ok(Accepted::Part)
    }
}

/// New connections of a worker that are more than were accepted at a time.
#[derive(Default)]
pub(crate) struct Rush {
    /// The sockets that they wait at.
    sockets: RefCell<Vec<Rc<Acceptor>>>,
    /// Tasks of connections that were made and have not begun.
    not_begun: Cell<u32>,
}

impl Rush {
    /// A connection has become a task.
    pub(crate) fn note_made(&self) {
        self.not_begun.set(self.not_begun.get() + 1);
    }

    /// Such a task has begun.
    pub(crate) fn note_begun(worker: &Rc<Worker>) {
        let rush = worker.rush();
        if !rush.begin_one() || worker.is_quitting() {
            return;
        }
        let sockets = rush.sockets.borrow().clone();
        for acceptor in sockets {
            // What fails here fails again in `accept_all`, which knows what to do about it.
            let _ = acceptor.accept(worker);
        }
    }

    /// Counts a task that has begun; answers whether it is time to accept some more.
    fn begin_one(&self) -> bool {
        let not_begun = self.not_begun.get() - 1;
        self.not_begun.set(not_begun);
        not_begun.is_multiple_of(BEGUN_PER_LOOK) && not_begun < NOT_BEGUN_MAX && !self.sockets.borrow().is_empty()
    }

    fn join(&self, acceptor: &Rc<Acceptor>) {
        let mut sockets = self.sockets.borrow_mut();
        if !sockets.iter().any(|known| Rc::ptr_eq(known, acceptor)) {
            sockets.push(acceptor.clone());
        }
    }

    fn leave(&self, acceptor: &Rc<Acceptor>) {
        self.sockets.borrow_mut().retain(|known| !Rc::ptr_eq(known, acceptor));
    }
}

/// Nobody accepts any more when this is dropped.
struct RushEnd<'w> {
    worker: &'w Worker,
    acceptor: &'w Rc<Acceptor>,
}

impl Drop for RushEnd<'_> {
    fn drop(&mut self) {
        self.worker.rush().leave(self.acceptor);
    }
}

/// The more exact address, among those that share a socket, that a client has connected to.
fn reached(client: &OwnedFd, shared_with: &[(SocketAddr, usize)]) -> Option<usize> {
    if shared_with.is_empty() {
        return None;
    }
    let reached = SockRef::from(client).local_addr().ok()?.as_socket()?;
    shared_with.iter().find(|(address, _)| *address == reached).map(|(_, index)| *index)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn in_a_rush_tasks_that_begin_accept() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = client_socket::watch(OwnedFd::from(socket), Interest::READABLE).expect("an event loop");
        let acceptor = Rc::new(Acceptor { socket, index: 0 });
        let rush = Rush::default();
        (0..4 * BEGUN_PER_LOOK).for_each(|_| rush.note_made());
        let look = || (0..BEGUN_PER_LOOK).filter(|_| rush.begin_one()).count();
        assert_eq!(look(), 0, "no rush");
        rush.join(&acceptor);
        rush.join(&acceptor);
        assert_eq!(look(), 1);
        (0..NOT_BEGUN_MAX).for_each(|_| rush.note_made());
        assert_eq!(look(), 0, "too many that have not begun");
        rush.leave(&acceptor);
        rush.not_begun.set(BEGUN_PER_LOOK);
        assert_eq!(look(), 0, "no rush any more");
        assert_eq!(rush.not_begun.get(), 0);
    }
}
