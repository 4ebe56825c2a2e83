//! `ngx.socket.udp`: datagrams, over IP and unix sockets.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{Interest, ReadBuf};
use tokio::net::{UdpSocket, UnixDatagram};

use super::connect::{Target, host_target, resolve};
use super::failure::{Failure, debug, push_nil_error};
use super::owner::Owner;
use super::send::text_of;
use super::settings::Settings;
use super::tcp::check_phase;
use crate::error::{CResult, LuaError};
use crate::host::{Host, LogLevel};
use crate::scheduler::{Answer, with_run};
use crate::stack::{Lua, Type};
use crate::userdata::{Userdata, push_userdata, to_userdata};

/// Largest datagram that is received.
const DATAGRAM_BYTES_MAX: usize = 65536;

enum Socket {
    Inet(UdpSocket),
    Unix(UnixDatagram),
}

/// A datagram socket.
#[derive(Default)]
struct Udp {
    owner: RefCell<Owner>,
    socket: RefCell<Option<Rc<Socket>>>,
    bind: Cell<Option<IpAddr>>,
    timeout: Cell<Option<Duration>>,
    busy: Cell<bool>,
}

/// How scripts hold it.
#[derive(Clone)]
struct UdpHandle(Rc<Udp>);

impl Userdata for UdpHandle {
    const NAME: &'static CStr = c"tidegate.udp";
    const TYPE_NAME: &'static str = "udp socket";
}

/// Marks a socket as occupied until dropped.
struct Busy(Rc<Udp>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(false);
    }
}

impl Udp {
    fn occupy(self: &Rc<Self>) -> Busy {
        self.busy.set(true);
        Busy(self.clone())
    }
}

impl Socket {
    fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut read = ReadBuf::new(buf);
        match self {
            Self::Inet(socket) => ready!(socket.poll_recv(cx, &mut read))?,
            Self::Unix(socket) => ready!(socket.poll_recv(cx, &mut read))?,
        }
        Poll::Ready(Ok(read.filled().len()))
    }

    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Inet(socket) => socket.try_send(bytes),
            Self::Unix(socket) => socket.try_send(bytes),
        }
    }

    /// Waits for an error that the peer or the network reports.
    async fn failed(&self) -> Failure {
        let (ready, error) = match self {
            Self::Inet(socket) => (socket.ready(Interest::ERROR).await, socket.take_error()),
            Self::Unix(socket) => (socket.ready(Interest::ERROR).await, socket.take_error()),
        };
        match (ready, error) {
            (_, Ok(Some(error)) | Err(error)) | (Err(error), _) => error.into(),
            // Nothing behind the event: it must not be looked at again and again.
            (Ok(_), Ok(None)) => std::future::pending().await,
        }
    }

    fn fd(&self) -> RawFd {
        match self {
            Self::Inet(socket) => socket.as_raw_fd(),
            Self::Unix(socket) => socket.as_raw_fd(),
        }
    }

    async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Inet(socket) => socket.send(bytes).await,
            Self::Unix(socket) => socket.send(bytes).await,
        }
    }
}

fn call(lua: &mut Lua) -> Result<(Rc<Udp>, Host), LuaError> {
    if lua.type_of(1) != Type::Table {
        return Err(LuaError::ArgumentType { argument: 1, expected: "table" });
    }
    let host = with_run(|run| run.host().clone()).ok_or(LuaError::new("no request found"))?;
    lua.raw_get_index(1, 1);
    let udp = to_userdata::<UdpHandle>(lua, -1).map(|handle| handle.0);
    lua.pop(1);
    Ok((udp.unwrap_or_default(), host))
}

/// The open socket, or what the script gets instead.
fn open_socket(lua: &mut Lua, udp: &Udp, host: &Host, what: &str) -> Result<Rc<Socket>, CResult> {
    let socket = udp.socket.borrow().clone();
    let Some(socket) = socket else {
        if Settings::of(host).log_errors && !what.is_empty() {
            let message = format!(
                "attempt to {what} data on a closed socket: u:{:016X}, c:{:016X}",
                std::ptr::from_ref(udp) as usize,
                0
            );
            host.log(LogLevel::Error, message.as_bytes());
        }
        return Err(push_nil_error(lua, "closed"));
    };
    if !udp.owner.borrow().is(host) {
        return Err(Err(LuaError::new("bad request")));
    }
    if udp.busy.get() {
        return Err(push_nil_error(lua, "socket busy"));
    }
    Ok(socket)
}

/// `udp()`: a socket.
pub(super) fn new(lua: &mut Lua) -> CResult {
    if lua.top() != 0 {
        return Err(LuaError::from(format!("expecting zero arguments, but got {}", lua.top())));
    }
    check_phase()?;
    push_userdata(lua, UdpHandle(Rc::default()));
    Ok(1)
}

/// `bind(socket, ip)`
pub(super) fn bind(lua: &mut Lua) -> CResult {
    if lua.top() != 2 {
        return Err(LuaError::from(format!("expecting 2 arguments, but got {}", lua.top())));
    }
    let (udp, _) = call(lua)?;
    let text = String::from_utf8_lossy(lua.check_bytes(2)?).into_owned();
    let Ok(ip) = text.parse::<IpAddr>() else { return push_nil_error(lua, "bad address") };
    udp.bind.set(Some(ip));
    lua.push_bool(true);
    Ok(1)
}

/// `settimeout(socket, ms)`
pub(super) fn set_timeout(lua: &mut Lua) -> CResult {
    if lua.top() < 2 {
        let text = "ngx.socket settimeout: expecting at least 2 arguments (including the object) but seen";
        return Err(LuaError::from(format!("{text} {}", lua.top())));
    }
    let (udp, _) = call(lua)?;
    let ms = lua.to_number(2).unwrap_or(0.0) as i64;
    udp.timeout.set(u64::try_from(ms).ok().filter(|&ms| ms > 0).map(Duration::from_millis));
    Ok(0)
}

/// `setpeername(socket, host, port?)`: results, or nothing when the Lua half is to await.
pub(super) fn set_peer_name(lua: &mut Lua) -> CResult {
    if !(2..=3).contains(&lua.top()) {
        let text = "ngx.socket.udp setpeername: expecting 2 or 3 arguments (including the object), but seen";
        return Err(LuaError::from(format!("{text} {}", lua.top())));
    }
    check_phase()?;
    let (udp, host) = call(lua)?;
    let text = String::from_utf8_lossy(lua.check_bytes(2)?).into_owned();
    let target = if let Some(path) = text.strip_prefix("unix:") {
        Target::Unix(PathBuf::from(path))
    } else {
        let number = lua.check_integer(3)?;
        let Ok(port) = u16::try_from(number) else {
            return push_nil_error(lua, &format!("bad port number: {number}"));
        };
        match host_target(&text, port) {
            Ok(target) => target,
            Err(message) => return push_nil_error(lua, &message),
        }
    };
    if udp.socket.borrow().is_some() {
        if !udp.owner.borrow().is(&host) {
            return Err(LuaError::new("bad request"));
        }
        if udp.busy.get() {
            return push_nil_error(lua, "socket busy");
        }
    }
    if udp.socket.borrow().is_some() {
        debug(&host, || "lua reuse socket upstream ctx".to_owned());
        debug(&host, || "lua udp socket reconnect without shutting down".to_owned());
    }
    let old = udp.socket.take();
    drop(old);
    udp.owner.replace(Owner::of(&host));
    let connected = match target {
        Target::Unix(path) => connect_unix(&path),
        Target::Inet(address) => connect_inet(udp.bind.get(), address),
        Target::Name(name, port) => {
            let busy = udp.occupy();
            let future = async move {
                let addresses = match resolve(&host, &name, port).await {
                    Ok(addresses) => addresses,
                    Err(message) => return Answer::NilError(message.into()),
                };
                let Some(&address) = addresses.first() else {
                    return Answer::NilError("resolver not working".into());
                };
                let connected = connect_inet(udp.bind.get(), address);
                drop(busy);
                finish_connect(&udp, &host, connected)
            };
            with_run(|run| run.wait(lua, future)).unwrap_or(Err(LuaError::new("no request found")))?;
            return Ok(0);
        }
    };
    finish_connect(&udp, &host, connected).push(lua)
}

fn finish_connect(udp: &Udp, host: &Host, connected: io::Result<Socket>) -> Answer {
    match connected {
        Ok(socket) => {
            udp.socket.replace(Some(Rc::new(socket)));
            Answer::One
        }
        Err(error) => {
            let failure = Failure::from(error);
            failure.log_call(host, "connect()");
            Answer::NilError(failure.message())
        }
    }
}

fn connect_inet(bind: Option<IpAddr>, address: SocketAddr) -> io::Result<Socket> {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let local = bind.filter(|ip| ip.is_ipv4() == address.is_ipv4()).unwrap_or(any);
    let socket = std::net::UdpSocket::bind((local, 0))?;
    // Neither waits: a datagram socket's peer is a note in the kernel.
    socket.connect(address)?;
    socket.set_nonblocking(true)?;
    Ok(Socket::Inet(UdpSocket::from_std(socket)?))
}

fn connect_unix(path: &Path) -> io::Result<Socket> {
    // Bound to a name that the kernel makes up, so that the peer can answer.
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    bind_to_any_name(&socket)?;
    socket.connect(&socket2::SockAddr::unix(path)?)?;
    Ok(Socket::Unix(UnixDatagram::from_std(socket.into())?))
}

/// Binds a unix socket to a name of the kernel's choice (an address of the family alone: unix(7), autobind).
fn bind_to_any_name(socket: &socket2::Socket) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let family = libc::AF_UNIX as libc::sa_family_t;
    let len = std::mem::size_of::<libc::sa_family_t>() as libc::socklen_t;
    // SAFETY: the address is a live local of `len` bytes, which is all that the kernel reads.
    let result = unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&family).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `send(socket, data)`
pub(super) fn send(lua: &mut Lua) -> CResult {
    if lua.top() != 2 {
        let text = "expecting 2 arguments (including the object), but got";
        return Err(LuaError::from(format!("{text} {}", lua.top())));
    }
    let (udp, host) = call(lua)?;
    let socket = match open_socket(lua, &udp, &host, "send") {
        Ok(socket) => socket,
        Err(results) => return results,
    };
    let bytes = text_of(lua, 2)?;
    match socket.try_send(&bytes) {
        Ok(count) => {
            debug(&host, || format!("send: fd:{} {count} of {}", socket.fd(), bytes.len()));
            lua.push_integer(1);
            Ok(1)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let settings = Settings::of(&host);
            let limit = udp.timeout.get().unwrap_or(settings.send_timeout);
            let busy = udp.occupy();
            let future = async move {
                let sent = tokio::time::timeout(limit, socket.send(&bytes)).await;
                drop(busy);
                match sent {
                    Ok(Ok(count)) => {
                        debug(&host, || format!("send: fd:{} {count} of {}", socket.fd(), bytes.len()));
                        Answer::One
                    }
                    Ok(Err(error)) => Answer::NilError(Failure::from(error).message()),
                    Err(_) => Answer::NilError("timeout".into()),
                }
            };
            with_run(|run| run.wait(lua, future)).unwrap_or(Err(LuaError::new("no request found")))?;
            Ok(0)
        }
        Err(error) => {
            let failure = Failure::from(error);
            if Settings::of(&host).log_errors {
                failure.log_call(&host, "send()");
            }
            failure.push(lua)
        }
    }
}

thread_local! {
    /// Memory for the next datagram.
    static DATAGRAM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

fn take_datagram() -> Vec<u8> {
    let mut buf = DATAGRAM.take();
    buf.resize(DATAGRAM_BYTES_MAX, 0);
    buf
}

/// `receive(socket, size?)`
pub(super) fn receive(lua: &mut Lua) -> CResult {
    if !(1..=2).contains(&lua.top()) {
        let text = "expecting 1 or 2 arguments (including the object), but got";
        return Err(LuaError::from(format!("{text} {}", lua.top())));
    }
    let (udp, host) = call(lua)?;
    let socket = match open_socket(lua, &udp, &host, "receive") {
        Ok(socket) => socket,
        Err(results) => return results,
    };
    let size = lua.opt_number(2, DATAGRAM_BYTES_MAX as f64)? as usize;
    let size = size.min(DATAGRAM_BYTES_MAX);
    debug(&host, || format!("lua udp socket receive buffer size: {size}"));
    let settings = Settings::of(&host);
    let mut buf = take_datagram();
    match socket.poll_recv(&mut Context::from_waker(Waker::noop()), &mut buf[..size]) {
        Poll::Ready(received) => {
            return finish_receive(lua, buf, received.map_err(Failure::from), &host, settings.log_errors);
        }
        Poll::Pending => DATAGRAM.set(buf),
    }
    let limit = udp.timeout.get().unwrap_or(settings.read_timeout);
    let busy = udp.occupy();
    let future = async move {
        let mut kept = Vec::new();
        let receive = poll_fn(|cx| {
            // Many may wait at a time: none keeps 64 KB meanwhile.
            let mut buf = take_datagram();
            match socket.poll_recv(cx, &mut buf[..size]) {
                Poll::Ready(received) => {
                    kept = buf;
                    Poll::Ready(received.map_err(Failure::from))
                }
                Poll::Pending => {
                    DATAGRAM.set(buf);
                    Poll::Pending
                }
            }
        });
        // A refusal comes as an error of the socket without anything to read.
        let receive = async {
            tokio::select! {
                received = receive => received,
                error = socket.failed() => Err(error),
            }
        };
        let received = tokio::time::timeout(limit, receive).await.unwrap_or(Err(Failure::TimedOut));
        drop(busy);
        Answer::Push(Box::new(move |lua| finish_receive(lua, kept, received, &host, settings.log_errors)))
    };
    with_run(|run| run.wait(lua, future)).unwrap_or(Err(LuaError::new("no request found")))?;
    Ok(0)
}

fn finish_receive(
    lua: &mut Lua,
    buf: Vec<u8>,
    received: Result<usize, Failure>,
    host: &Host,
    log_errors: bool,
) -> CResult {
    let result = match received {
        Ok(count) => {
            lua.push_bytes(&buf[..count]);
            Ok(1)
        }
        Err(failure) => {
            if log_errors {
                if failure == Failure::TimedOut {
                    host.log(LogLevel::Error, b"lua udp socket read timed out");
                }
                failure.log_call(host, "recv()");
            }
            failure.push(lua)
        }
    };
    DATAGRAM.set(buf);
    result
}

/// `close(socket)`
pub(super) fn close(lua: &mut Lua) -> CResult {
    if lua.top() != 1 {
        return Err(LuaError::from(format!("expecting 1 argument (including the object) but seen {}", lua.top())));
    }
    let (udp, host) = call(lua)?;
    if let Err(results) = open_socket(lua, &udp, &host, "") {
        return results;
    }
    let socket = udp.socket.take();
    drop(socket);
    lua.push_integer(1);
    Ok(1)
}
