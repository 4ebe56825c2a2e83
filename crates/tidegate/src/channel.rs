//! Between supervisor and server process: short messages, some with a descriptor.
//!
//! Before [`ToServer::Reload`] and [`ToServer::Reopen`] the supervisor sends what the server process may not open for
//! itself, since it has given up its rights: listening sockets, logs and secret files, one in each message.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg, socketpair,
};

/// Longest message: a kind and a path or a sentence.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Messages of the supervisor to the server process.
#[derive(Debug)]
pub(crate) enum ToServer {
    /// Finish the requests and go.
    Quit,
    /// Go.
    Stop,
    /// Read the configuration again and serve it on the sockets sent before.
    Reload,
    /// Change to the log files sent before.
    Reopen,
    /// A listening socket.
    Socket(OwnedFd),
    /// A log file.
    Log(PathBuf, OwnedFd),
    /// A file of the configuration.
    File(PathBuf, OwnedFd),
}

/// Messages of the server process to the supervisor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ToSupervisor {
    /// The configuration is served.
    Serving,
    /// The configuration cannot be served.
    Failed(String),
}

/// One end of the connection.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// Two connected ends.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (one, other) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        Ok((Self(one), Self(other)))
    }

    /// Readable when a message has come or the other end is gone.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn send(&self, kind: u8, text: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let text = &text[..text.len().min(MESSAGE_BYTES_MAX - 1)];
        let parts = [IoSlice::new(std::slice::from_ref(&kind)), IoSlice::new(text)];
        let fds = fd.map(|fd| [fd.as_raw_fd()]);
        let control: Vec<_> = fds.iter().map(|fds| ControlMessage::ScmRights(fds)).collect();
        sendmsg::<()>(self.0.as_raw_fd(), &parts, &control, MsgFlags::MSG_NOSIGNAL, None)?;
        Ok(())
    }

    /// The next message without waiting: kind, text, descriptor. `None` when there is none.
    ///
    /// # Errors
    /// `UnexpectedEof` when the other end is gone.
    fn receive(&self) -> io::Result<Option<(u8, Vec<u8>, Option<OwnedFd>)>> {
        let mut text = vec![0; MESSAGE_BYTES_MAX];
        let mut space = nix::cmsg_space!([i32; 1]);
        let mut parts = [IoSliceMut::new(&mut text)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let message = match recvmsg::<()>(self.0.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Ok(message) => message,
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let size = message.bytes;
        let mut received = None;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(fds) = control {
                for fd in fds {
                    // SAFETY: the kernel has just made this descriptor for us.
                    received = Some(unsafe { OwnedFd::from_raw_fd(fd) });
                }
            }
        }
        if size == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        text.truncate(size);
        let kind = text.remove(0);
        Ok(Some((kind, text, received)))
    }
}

/// The supervisor's end.
#[derive(Debug)]
pub(crate) struct ServerEnd(pub(crate) Channel);

impl ServerEnd {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    pub(crate) fn quit(&self) -> io::Result<()> {
        self.0.send(b'q', b"", None)
    }

    pub(crate) fn stop(&self) -> io::Result<()> {
        self.0.send(b's', b"", None)
    }

    pub(crate) fn reload(&self) -> io::Result<()> {
        self.0.send(b'r', b"", None)
    }

    pub(crate) fn reopen(&self) -> io::Result<()> {
        self.0.send(b'o', b"", None)
    }

    pub(crate) fn send_socket(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.0.send(b'S', b"", Some(fd))
    }

    pub(crate) fn send_log(&self, path: &Path, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.0.send(b'L', path.as_os_str().as_bytes(), Some(fd))
    }

    pub(crate) fn send_file(&self, path: &Path, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.0.send(b'F', path.as_os_str().as_bytes(), Some(fd))
    }

    /// The next message without waiting.
    pub(crate) fn take(&self) -> io::Result<Option<ToSupervisor>> {
        Ok(match self.0.receive()? {
            Some((b'+', _, _)) => Some(ToSupervisor::Serving),
            Some((b'-', text, _)) => Some(ToSupervisor::Failed(String::from_utf8_lossy(&text).into_owned())),
            _ => None,
        })
    }
}

/// The server process's end.
#[derive(Debug)]
pub(crate) struct SupervisorEnd(pub(crate) Channel);

impl SupervisorEnd {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    pub(crate) fn send(&self, message: &ToSupervisor) -> io::Result<()> {
        match message {
            ToSupervisor::Serving => self.0.send(b'+', b"", None),
            ToSupervisor::Failed(text) => self.0.send(b'-', text.as_bytes(), None),
        }
    }

    /// The next message without waiting.
    pub(crate) fn take(&self) -> io::Result<Option<ToServer>> {
        Ok(match self.0.receive()? {
            Some((b'q', _, _)) => Some(ToServer::Quit),
            Some((b's', _, _)) => Some(ToServer::Stop),
            Some((b'r', _, _)) => Some(ToServer::Reload),
            Some((b'o', _, _)) => Some(ToServer::Reopen),
            Some((b'S', _, Some(fd))) => Some(ToServer::Socket(fd)),
            Some((b'L', path, Some(fd))) => Some(ToServer::Log(OsString::from_vec(path).into(), fd)),
            Some((b'F', path, Some(fd))) => Some(ToServer::File(OsString::from_vec(path).into(), fd)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_arrive_in_order() {
        let (one, other) = Channel::pair().expect("a pair");
        let (server, supervisor) = (ServerEnd(one), SupervisorEnd(other));
        assert!(supervisor.take().expect("open").is_none());
        let file = std::fs::File::open("/dev/null").expect("opened");
        server.send_log(Path::new("/logs/x"), file.as_fd()).expect("sent");
        server.reopen().expect("sent");
        match supervisor.take().expect("open") {
            Some(ToServer::Log(path, fd)) => {
                assert_eq!(path, Path::new("/logs/x"));
                assert_ne!(fd.as_raw_fd(), file.as_raw_fd());
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(supervisor.take(), Ok(Some(ToServer::Reopen))));
        for message in [ToSupervisor::Serving, ToSupervisor::Failed("why".to_owned())] {
            supervisor.send(&message).expect("sent");
            assert_eq!(server.take().expect("open"), Some(message));
        }
        drop(server);
        assert_eq!(supervisor.take().expect_err("gone").kind(), io::ErrorKind::UnexpectedEof);
    }
}
