//! The socket object: what belongs to it, and which operation may run when.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use super::conn::Conn;
use super::failure::{Failure, debug, push_nil_error};
use super::owner::{Closing, OpenSockets, Owner};
use super::settings::Settings;
use crate::error::{CResult, LuaError};
use crate::host::{Detached, Host, LogLevel};
use crate::phase::Phases;
use crate::scheduler::with_run;
use crate::stack::{Lua, Type};
use crate::userdata::{Userdata, push_userdata, to_userdata};
use tidegate_tls::client::Identity;

/// A TCP or unix socket, or a client's connection.
#[derive(Default)]
pub(crate) struct Tcp {
    owner: RefCell<Owner>,
    conn: RefCell<Option<Rc<Conn>>>,
    /// Key of the pool that `setkeepalive` puts the connection into.
    pub(super) key: RefCell<Vec<u8>>,
    pub(super) connect_timeout: Cell<Option<Duration>>,
    pub(super) send_timeout: Cell<Option<Duration>>,
    pub(super) read_timeout: Cell<Option<Duration>>,
    pub(super) bind: Cell<Option<SocketAddr>>,
    pub(super) transparent: Cell<bool>,
    connecting: Cell<bool>,
    /// While connecting: the address is known, so that there is a connection of sorts.
    pub(super) dialing: Cell<bool>,
    reading: Cell<bool>,
    writing: Cell<bool>,
    /// Bits of the last failure, for log lines.
    pub(super) last_failure: Cell<u32>,
    /// What it shows to servers that ask who we are.
    pub(super) identity: RefCell<Option<Arc<Identity>>>,
}

/// What another operation gets meanwhile.
pub(super) const BUSY_CONNECTING: &str = "socket busy connecting";

/// How scripts hold it.
#[derive(Clone)]
pub(super) struct Handle(pub(super) Rc<Tcp>);

impl Userdata for Handle {
    const NAME: &'static CStr = c"tidegate.socket";
    const TYPE_NAME: &'static str = "socket";
}

/// What a method needs.
pub(super) struct Call {
    pub(super) tcp: Rc<Tcp>,
    pub(super) host: Host,
}

/// A method's two ways to give up before it has begun.
pub(super) enum Refusal {
    /// `nil` and this message.
    Nil(&'static str),
    /// A Lua error.
    Raise(LuaError),
}

impl From<LuaError> for Refusal {
    fn from(error: LuaError) -> Self {
        Self::Raise(error)
    }
}

impl Refusal {
    pub(super) fn end(self, lua: &mut Lua) -> CResult {
        match self {
            Self::Nil(message) => push_nil_error(lua, message),
            Self::Raise(error) => Err(error),
        }
    }
}

/// Which operation occupies a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Connect,
    Read,
    Write,
}

/// Marks a socket as occupied until dropped (keeps S1).
pub(super) struct Busy {
    tcp: Rc<Tcp>,
    operation: Operation,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.tcp.mark(self.operation).set(false);
        if self.operation == Operation::Connect {
            self.tcp.dialing.set(false);
        }
    }
}

impl Tcp {
    fn mark(&self, operation: Operation) -> &Cell<bool> {
        match operation {
            Operation::Connect => &self.connecting,
            Operation::Read => &self.reading,
            Operation::Write => &self.writing,
        }
    }

    /// Occupies the socket.
    pub(super) fn occupy(self: &Rc<Self>, operation: Operation) -> Busy {
        self.mark(operation).set(true);
        Busy { tcp: self.clone(), operation }
    }

    /// Demands that none of `operations` is under way.
    pub(super) fn check_idle(&self, operations: &[Operation]) -> Result<(), Refusal> {
        for &operation in operations {
            if self.mark(operation).get() {
                return Err(Refusal::Nil(match operation {
                    Operation::Connect => BUSY_CONNECTING,
                    Operation::Read => "socket busy reading",
                    Operation::Write => "socket busy writing",
                }));
            }
        }
        Ok(())
    }

    /// Demands that it belongs to `host`.
    pub(super) fn check_owner(&self, host: &Host) -> Result<(), Refusal> {
        if self.owner.borrow().is(host) { Ok(()) } else { Err(LuaError::new("bad request").into()) }
    }

    /// Whether it was connected before.
    pub(super) fn was_used(&self) -> bool {
        !self.key.borrow().is_empty()
    }

    pub(super) fn conn(&self) -> Option<Rc<Conn>> {
        self.conn.borrow().clone()
    }

    /// Takes `conn` for `host`, which closes it at its end.
    pub(super) fn attach(self: &Rc<Self>, conn: Rc<Conn>, host: &Host) {
        let known = self.owner.borrow().is(host) && self.conn.borrow().is_some();
        let old = self.conn.replace(Some(conn));
        drop(old);
        if !known {
            self.owner.replace(Owner::of(host));
            let this: Weak<Self> = Rc::downgrade(self);
            OpenSockets::of(host).add(this);
        }
    }

    pub(super) fn own(&self, host: &Host) {
        self.owner.replace(Owner::of(host));
    }

    pub(super) fn detach(&self) -> Option<Rc<Conn>> {
        self.conn.take()
    }

    /// The connection for an operation, or `closed`; `what` is for the log.
    pub(super) fn open_conn(&self, host: &Host, what: &str, closed: fn(&Conn) -> bool) -> Result<Rc<Conn>, Refusal> {
        let conn = self.conn();
        match conn {
            Some(conn) if !closed(&conn) => Ok(conn),
            None if self.dialing.get() => Err(Refusal::Nil(BUSY_CONNECTING)),
            _ => {
                if Settings::of(host).log_errors {
                    self.log_closed(host, what, conn.as_deref());
                }
                Err(Refusal::Nil("closed"))
            }
        }
    }

    #[cold]
    fn log_closed(&self, host: &Host, what: &str, conn: Option<&Conn>) {
        let conn_address = conn.map_or(0, |conn| std::ptr::from_ref(conn) as usize);
        let eof = u8::from(conn.is_some_and(Conn::read_closed));
        let message = format!(
            "attempt to {what} data on a closed socket: u:{:016X}, c:{conn_address:016X}, ft:{} eof:{eof}",
            std::ptr::from_ref(self) as usize,
            self.last_failure.get(),
        );
        host.log(LogLevel::Error, message.as_bytes());
    }

    /// Remembers a failure and gives what the script gets.
    pub(super) fn note(&self, failure: &Failure) {
        self.last_failure.set(failure.bit());
    }
}

impl Closing for Tcp {
    fn close_now(&self) {
        let conn = self.conn.take();
        drop(conn);
    }

    fn reads_downstream(&self) -> bool {
        self.reading.get() && self.conn.borrow().as_ref().is_some_and(|conn| conn.is_downstream())
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        if self.conn.get_mut().is_some() {
            debug(&Detached::host(""), || "lua finalize socket".to_owned());
        }
    }
}

/// The socket in argument 1, a table that holds it, and whom the script serves.
pub(super) fn call(lua: &mut Lua) -> Result<Call, LuaError> {
    if lua.type_of(1) != Type::Table {
        return Err(LuaError::ArgumentType { argument: 1, expected: "table" });
    }
    let host = with_run(|run| run.host().clone()).ok_or(LuaError::new("no request found"))?;
    lua.raw_get_index(1, 1);
    let tcp = to_userdata::<Handle>(lua, -1).map(|handle| handle.0);
    lua.pop(1);
    // A table that was made by hand has no socket in it: one that was never connected.
    Ok(Call { tcp: tcp.unwrap_or_default(), host })
}

/// Demands a phase in which sockets work: where a script may wait.
pub(super) fn check_phase() -> Result<(), LuaError> {
    with_run(|run| Phases::YIELDABLE.check(run.phase())).unwrap_or(Err(LuaError::new("no request found")))
}

/// `tcp()`: a socket.
pub(super) fn new(lua: &mut Lua) -> CResult {
    if lua.top() != 0 {
        return Err(LuaError::from(format!("expecting zero arguments, but got {}", lua.top())));
    }
    check_phase()?;
    push_userdata(lua, Handle(Rc::new(Tcp::default())));
    Ok(1)
}

/// A time-out in milliseconds; `None` for the directive's.
fn timeout(lua: &mut Lua, index: i32) -> Result<Option<Duration>, LuaError> {
    // As in OpenResty, what is no number stands for the directive's time.
    match lua.to_number(index).unwrap_or(0.0) as i64 {
        0 => Ok(None),
        ms @ 1..=0x7fff_ffff => Ok(Some(Duration::from_millis(ms.unsigned_abs()))),
        _ => Err(LuaError::new("bad timeout value")),
    }
}

/// `settimeout(socket, ms)`
pub(super) fn set_timeout(lua: &mut Lua) -> CResult {
    if lua.top() != 2 {
        let text = "ngx.socket settimeout: expecting 2 arguments (including the object) but seen";
        return Err(LuaError::from(format!("{text} {}", lua.top())));
    }
    let tcp = call(lua)?.tcp;
    let limit = timeout(lua, 2)?;
    tcp.connect_timeout.set(limit);
    tcp.send_timeout.set(limit);
    tcp.read_timeout.set(limit);
    Ok(0)
}

/// `settimeouts(socket, connect, send, read)`
pub(super) fn set_timeouts(lua: &mut Lua) -> CResult {
    if lua.top() != 4 {
        let text = "ngx.socket settimeouts: expecting 4 arguments (including the object) but seen";
        return Err(LuaError::from(format!("{text} {}", lua.top())));
    }
    let tcp = call(lua)?.tcp;
    let limits = (timeout(lua, 2)?, timeout(lua, 3)?, timeout(lua, 4)?);
    tcp.connect_timeout.set(limits.0);
    tcp.send_timeout.set(limits.1);
    tcp.read_timeout.set(limits.2);
    Ok(0)
}

/// `bind(socket, ip, port)`: our own address for the next `connect`.
pub(super) fn bind(lua: &mut Lua) -> CResult {
    if !(2..=3).contains(&lua.top()) {
        return Err(LuaError::from(format!("expecting 2 or 3 arguments, but got {}", lua.top())));
    }
    let Call { tcp, host } = call(lua)?;
    let port = if lua.is_none_or_nil(3) {
        0
    } else {
        match lua.to_number(3) {
            None => {
                let message = format!("expecting port to be anumber but got type: {}", lua.type_name(3));
                return push_nil_error(lua, &message);
            }
            Some(number) => match u16::try_from(number as i64) {
                Ok(port) => port,
                Err(_) => return push_nil_error(lua, &format!("bad port number: {}", number as i64)),
            },
        }
    };
    let text = String::from_utf8_lossy(lua.check_bytes(2)?).into_owned();
    let Ok(ip) = text.parse::<IpAddr>() else { return push_nil_error(lua, "bad address") };
    debug(&host, || format!("lua tcp socket bind ip: {ip}"));
    tcp.bind.set(Some(SocketAddr::new(ip, port)));
    lua.push_bool(true);
    Ok(1)
}

const ALL: &[Operation] = &[Operation::Connect, Operation::Read, Operation::Write];

/// `close(socket)`
pub(super) fn close(lua: &mut Lua) -> CResult {
    if lua.top() != 1 {
        return Err(LuaError::from(format!("expecting 1 argument (including the object) but seen {}", lua.top())));
    }
    let Call { tcp, host } = call(lua)?;
    let closed = tcp.conn().is_none_or(|conn| conn.read_closed() && conn.write_closed.get());
    if closed && !tcp.dialing.get() {
        tcp.close_now();
        return push_nil_error(lua, "closed");
    }
    if let Err(refusal) = tcp.check_owner(&host).and_then(|()| tcp.check_idle(ALL)) {
        return refusal.end(lua);
    }
    if tcp.conn().is_some_and(|conn| conn.is_downstream()) {
        return push_nil_error(lua, "attempt to close a request socket");
    }
    debug(&host, || "lua finalize socket".to_owned());
    tcp.close_now();
    lua.push_integer(1);
    Ok(1)
}

/// `shutdown(socket, direction)`: tells the peer that nothing more is sent.
pub(super) fn shutdown(lua: &mut Lua) -> CResult {
    if lua.top() != 2 {
        return Err(LuaError::from(format!("expecting 2 arguments (including the object) but seen {}", lua.top())));
    }
    let Call { tcp, host } = call(lua)?;
    if lua.check_bytes(2)? != b"send" {
        let direction = String::from_utf8_lossy(lua.check_bytes(2)?).into_owned();
        return Err(LuaError::argument(2, format!("bad shutdown argument: {direction}")));
    }
    let open = tcp.open_conn(&host, "shutdown", |conn| conn.write_closed.get());
    let conn = match open.and_then(|conn| tcp.check_owner(&host).map(|()| conn)) {
        Ok(conn) => conn,
        Err(refusal) => return refusal.end(lua),
    };
    if let Err(refusal) = tcp.check_idle(&[Operation::Connect, Operation::Write]) {
        return refusal.end(lua);
    }
    if conn.is_body() {
        return Err(LuaError::new("attempt to write to request sockets"));
    }
    conn.transport().borrow().shutdown_write();
    conn.write_closed.set(true);
    lua.push_integer(1);
    Ok(1)
}
