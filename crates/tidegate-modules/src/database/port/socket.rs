//! The socket of a connection, as the protocol's server and KILL see it.

use std::{
    cell::OnceCell,
    io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Wake, Waker, ready},
};

use tidegate_mysql::server::Transport;
use tidegate_net::{deadline::Deadline, session::Session};
use tidegate_sql::Client;

/// How long a client may take nothing of what it is sent.
///
/// Source: MariaDB, `net_write_timeout`.
const WRITE_TIME_MAX_MS: u64 = 60_000;

/// How long a client may send nothing of a file that it was asked for.
///
/// Source: MariaDB, `net_read_timeout`.
const FILE_TIME_MAX_MS: u64 = 30_000;

/// The socket of a connection.
pub(in crate::database) struct Socket<'a> {
    session: &'a Session,
    /// Of the write that waits; made by the first that has to.
    deadline: OnceCell<Rc<Deadline>>,
    /// Of the read of a file that waits.
    file: OnceCell<Rc<Deadline>>,
    /// Whose bytes are counted.
    client: Option<Arc<Client>>,
}

impl<'a> Socket<'a> {
    pub(in crate::database) fn new(session: &'a Session) -> Self {
        Socket { session, deadline: OnceCell::new(), file: OnceCell::new(), client: None }
    }

    /// The socket of a client whose bytes are counted.
    pub(super) fn of(session: &'a Session, client: Arc<Client>) -> Self {
        Socket { client: Some(client), ..Socket::new(session) }
    }

    /// Sends all of `bytes` behind the first `sent`, which grows.
    pub(in crate::database) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        sent: &mut usize,
    ) -> Poll<io::Result<()>> {
        while *sent < bytes.len() {
            match ready!(self.poll_write(cx, &bytes[*sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => *sent += count,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Transport for Socket<'_> {
    fn poll_read(&self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let stream = &self.session.stream;
        loop {
            ready!(stream.poll_read_ready(cx))?;
            match stream.try_read(room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }

    fn poll_read_soon(&self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = self.poll_read(cx, room);
        if read.is_ready() {
            if let Some(deadline) = self.file.get() {
                deadline.disarm();
            }
            return read;
        }
        let deadline = self.file.get_or_init(Deadline::new);
        if deadline.poll_expired(cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if !deadline.is_armed() {
            deadline.arm(FILE_TIME_MAX_MS);
        }
        Poll::Pending
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let stream = &self.session.stream;
        loop {
            match stream.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    if let (Some(client), Ok(count)) = (&self.client, &written) {
                        client.count_sent(*count);
                    }
                    if let Some(deadline) = self.deadline.get() {
                        deadline.disarm();
                    }
                    return Poll::Ready(written);
                }
            }
            if let Poll::Ready(ready) = stream.poll_write_ready(cx) {
                ready?;
                continue;
            }
            let deadline = self.deadline.get_or_init(Deadline::new);
            if deadline.poll_expired(cx) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            if !deadline.is_armed() {
                deadline.arm(WRITE_TIME_MAX_MS);
            }
            return Poll::Pending;
        }
    }
}

/// Ends both directions of a socket when it is woken.
struct ShutDown(RawFd);

impl Wake for ShutDown {
    fn wake(self: Arc<Self>) {
        // SAFETY: the descriptor is open: it closes after the session has gone, or the connection has been resumed, and
        // both take this waker away from the client under the lock that is held while it is woken.
        let socket = unsafe { BorrowedFd::borrow_raw(self.0) };
        let _ = socket2::SockRef::from(&socket).shutdown(std::net::Shutdown::Both);
    }
}

/// Has KILL of the connection shut down a socket that nobody waits for in a task; that of a statement finds none there.
/// The session goes, or [`Client::forget_waker`] is called, before the socket closes.
pub(super) fn shut_down_when_killed(client: &Client, socket: BorrowedFd<'_>) {
    client.wakes_at_end(Waker::from(Arc::new(ShutDown(socket.as_raw_fd()))));
}
