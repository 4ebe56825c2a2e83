//! The socket of a connection that stands: a client's, or ours to a unix domain socket. It is registered for input alone.
//!
//! A socket takes what it is given at once, nearly always, so that nobody asks the event loop for room before it was full. To be
//! told of room for each new connection would be one event for each.

use std::{
    cell::{Cell, OnceCell},
    io::{self, IoSlice},
    mem::{MaybeUninit, offset_of},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    path::Path,
    task::{Context, Poll, ready},
};

use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use tokio::io::{Interest, unix::AsyncFd};

/// Owns the one descriptor that it names, from its beginning to its end.
///
/// # Safety
/// `as_raw_fd` always gives the same open descriptor, which nothing but dropping the value closes.
pub unsafe trait OwnsDescriptor: AsRawFd {}

// SAFETY: that is what the standard library promises of the type.
unsafe impl OwnsDescriptor for OwnedFd {}

/// Registers a descriptor with the event loop of this thread.
pub fn watch<T: OwnsDescriptor>(descriptor: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: the `AsyncFd` owns `descriptor`, which owns what it names, see `OwnsDescriptor`.
    unsafe { AsyncFd::register_with_interest(descriptor, interest) }.map_err(io::Error::from)
}

/// A connected socket that does not block.
#[derive(Debug)]
pub struct ClientSocket {
    input: AsyncFd<OwnedFd>,
    /// It took nothing the last time.
    full: Cell<bool>,
    /// A duplicate of the descriptor, registered for room: made when the socket is full for the first time.
    output: OnceCell<Box<AsyncFd<OwnedFd>>>,
}

impl ClientSocket {
    /// Enters a socket into the event loop of this thread.
    ///
    /// # Errors
    /// The system cannot watch another socket.
    pub fn register(socket: OwnedFd) -> io::Result<Self> {
        Ok(ClientSocket { input: watch(socket, Interest::READABLE)?, full: Cell::new(false), output: OnceCell::new() })
    }
    /// Connects to a unix domain socket. The system does so at once or refuses: there is nothing to wait for.
    ///
    /// # Errors
    /// Those of connect(2); `WouldBlock` when too many wait there for being accepted.
    pub fn connect_local(path: &Path) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
        socket.connect(&SockAddr::unix(path)?)?;
        Self::register(socket.into())
    }
    /// Takes the socket out of the event loop.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.input.into_inner()
    }
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.poll_read_ready(cx).map_ok(drop)
    }
    /// Whether the socket takes something, as far as is known.
    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.full.get() {
            ready!(self.output()?.poll_write_ready(cx)).map(drop)?;
            self.full.set(false);
        }
        Poll::Ready(Ok(()))
    }
    fn output(&self) -> io::Result<&AsyncFd<OwnedFd>> {
        if let Some(output) = self.output.get() {
            return Ok(output);
        }
        let output = watch(self.as_fd().try_clone_to_owned()?, Interest::WRITABLE)?;
        Ok(self.output.get_or_init(|| Box::new(output)))
    }
    /// Calls `io`, whose `WouldBlock` means that the next wait is a real one.
    pub(crate) fn try_io<R>(&self, interest: Interest, io: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        if !interest.is_writable() {
            return self.input.try_io(interest, |_| io());
        }
        let result = io();
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.full.set(true);
            if let Some(output) = self.output.get() {
                // The event loop has not looked since, so that no news is lost.
                let _ = output.try_io(interest, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
            }
        }
        result
    }
    pub(crate) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.try_io(Interest::READABLE, || io::Read::read(&mut &*SockRef::from(&self.input), buf))
    }
    pub(crate) fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let send = || SockRef::from(&self.input).send_vectored_with_flags(slices, libc::MSG_NOSIGNAL);
        self.try_io(Interest::WRITABLE, send)
    }
    pub(crate) fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        SockRef::from(&self.input).set_tcp_nodelay(nodelay)
    }
}

impl AsFd for ClientSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.get_ref().as_fd()
    }
}

impl AsRawFd for ClientSocket {
    fn as_raw_fd(&self) -> i32 {
        self.input.get_ref().as_raw_fd()
    }
}

/// Takes a connection from a listening socket that does not block, and its client's address.
///
/// # Errors
/// `WouldBlock` when there is none; those of accept(2).
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SockAddr)> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let accept = |address: *mut socket2::SockAddrStorage, len: *mut libc::socklen_t| {
        // SAFETY: `address` and `len` describe memory for any address.
        let fd = unsafe { libc::accept4(listener.as_raw_fd(), address.cast(), len, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    // SAFETY: when accept4 succeeds it has written the address and its length.
    unsafe { SockAddr::try_init(accept) }
}

/// How many clients wait for [`accept`], if that is known and any do. To ask is cheaper than to accept nobody, for
/// which the kernel makes a socket with its file first.
///
/// Source: tcp(7), `TCP_INFO`; of a listening socket `tcpi_unacked` is the length of its queue.
pub fn waiting(listener: BorrowedFd<'_>) -> Option<usize> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = (offset_of!(libc::tcp_info, tcpi_unacked) + size_of::<u32>()) as libc::socklen_t;
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the kernel writes at most `len` bytes, for which there is room.
    let result = unsafe { libc::getsockopt(listener.as_raw_fd(), level, option, info.as_mut_ptr().cast(), &mut len) };
    // SAFETY: any bytes are a value of it, and those that the kernel has not written are zero.
    let info = unsafe { info.assume_init() };
    // Systems that only resemble Linux may always say zero.
    if result == 0 && info.tcpi_unacked > 0 { Some(info.tcpi_unacked as usize) } else { None }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        io::{Read, Write},
        os::unix::net::UnixStream,
        task::Waker,
    };

    use super::*;

    fn pair() -> (UnixStream, ClientSocket) {
        let (client, socket) = UnixStream::pair().expect("a pair of sockets");
        socket.set_nonblocking(true).expect("a socket that does not block");
        (client, ClientSocket::register(socket.into()).expect("room in the event loop"))
    }

    #[tokio::test]
    async fn input_is_awaited() {
        let (mut client, socket) = pair();
        let mut buf = [0u8; 16];
        assert!(socket.poll_read_ready(&mut Context::from_waker(Waker::noop())).is_pending());
        client.write_all(b"hello").expect("room");
        poll_fn(|cx| socket.poll_read_ready(cx)).await.expect("a connected socket");
        assert_eq!(socket.try_read(&mut buf).expect("bytes"), 5);
        assert_eq!(socket.try_read(&mut buf).expect_err("no more").kind(), io::ErrorKind::WouldBlock);
        assert!(socket.poll_read_ready(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    #[tokio::test]
    async fn room_is_awaited_when_there_was_none() {
        let (mut client, socket) = pair();
        let bytes = [0u8; 1 << 16];
        for _ in 0..2 {
            let mut sent = 0;
            poll_fn(|cx| socket.poll_write_ready(cx)).await.expect("a connected socket");
            loop {
                match socket.try_write_vectored(&[IoSlice::new(&bytes)]) {
                    Ok(count) => sent += count,
                    Err(error) => break assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            assert!(socket.poll_write_ready(&mut Context::from_waker(Waker::noop())).is_pending());
            client.read_exact(&mut vec![0; sent]).expect("what was sent");
        }
    }

    #[tokio::test]
    async fn a_local_connection_can_be_written_to_at_once() {
        let path = std::env::temp_dir().join(format!("tidegate-local-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        assert_eq!(ClientSocket::connect_local(&path).expect_err("nobody").kind(), io::ErrorKind::NotFound);
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        let socket = ClientSocket::connect_local(&path).expect("a connection");
        assert_eq!(socket.try_write_vectored(&[IoSlice::new(b"hello")]).expect("room"), 5);
        let mut bytes = [0; 5];
        let mut peer = listener.accept().expect("a client").0;
        peer.read_exact(&mut bytes).expect("what was sent");
        peer.write_all(b"world").expect("room");
        poll_fn(|cx| socket.poll_read_ready(cx)).await.expect("a connected socket");
        assert_eq!(socket.try_read(&mut bytes).expect("bytes"), 5);
        assert_eq!(&bytes, b"world");
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn accepts() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket that does not block");
        assert_eq!(accept(listener.as_fd()).expect_err("nobody").kind(), io::ErrorKind::WouldBlock);
        let client = std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (_, address) = accept(listener.as_fd()).expect("a client");
        assert_eq!(address.as_socket(), client.local_addr().ok());
    }

    #[test]
    fn knows_who_waits() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        assert_eq!(waiting(listener.as_fd()), None);
        let address = listener.local_addr().expect("an address");
        let _clients = [(); 3].map(|()| std::net::TcpStream::connect(address).expect("a connection"));
        // The first of them is waited for, and the others have come in the meantime or come now.
        for left in [Some(2), Some(1), None] {
            drop(listener.accept().expect("a client"));
            while waiting(listener.as_fd()) < left {
                std::thread::yield_now();
            }
            assert_eq!(waiting(listener.as_fd()), left);
        }
        let local = UnixStream::pair().expect("a pair of sockets").0;
        assert_eq!(waiting(local.as_fd()), None);
    }
}
