//! `setoption`, `getoption` and `getfd`.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::failure::{Failure, push_nil_error};
use super::tcp::{Call, call};
use crate::error::{CResult, LuaError};
use crate::stack::{Lua, Type};

/// An option by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    KeepAlive,
    ReuseAddr,
    NoDelay,
    SendBuffer,
    ReceiveBuffer,
    KeepInterval,
    KeepCount,
}

fn name(text: &[u8]) -> Option<Name> {
    Some(match text {
        b"keepalive" => Name::KeepAlive,
        b"reuseaddr" => Name::ReuseAddr,
        b"tcp-nodelay" => Name::NoDelay,
        b"sndbuf" => Name::SendBuffer,
        b"rcvbuf" => Name::ReceiveBuffer,
        b"keepintvl" => Name::KeepInterval,
        b"keepcnt" => Name::KeepCount,
        _ => return None,
    })
}

/// The option in argument 2, or what the script gets instead.
fn wanted(lua: &mut Lua) -> Result<Name, String> {
    if lua.is_none_or_nil(2) {
        return Err("missing the \"option\" argument".to_owned());
    }
    let text = lua.to_bytes(2).unwrap_or_default();
    name(text).ok_or_else(|| format!("unsupported option {}", String::from_utf8_lossy(text)))
}

/// `setoption(socket, option, value)`
pub(super) fn set(lua: &mut Lua) -> CResult {
    let Call { tcp, .. } = call(lua)?;
    if lua.to_bytes(2) == Some(b"ip-transparent") {
        tcp.transparent.set(lua.to_bool(3));
        lua.push_bool(true);
        return Ok(1);
    }
    let name = match wanted(lua) {
        Ok(name) => name,
        Err(message) => return push_nil_error(lua, &message),
    };
    let value = match lua.type_of(3) {
        Type::None | Type::Nil => return push_nil_error(lua, "missing the \"value\" argument"),
        Type::Boolean => f64::from(u8::from(lua.to_bool(3))),
        _ => match lua.to_number(3) {
            Some(value) => value,
            None => return push_nil_error(lua, "bad \"value\" argument: number expected"),
        },
    };
    let result = tcp.conn().and_then(|conn| {
        if let Name::NoDelay = name {
            conn.nodelay_decided.set(true);
        }
        let transport = conn.transport().borrow();
        transport.with_stream(|stream| stream.as_fd().map(|fd| apply(SockRef::from(&fd), name, value))).flatten()
    });
    match result {
        Some(Ok(())) => {
            lua.push_bool(true);
            Ok(1)
        }
        Some(Err(error)) => Failure::from(error).push(lua),
        None => Err(never_connected()),
    }
}

/// What is wrong with a socket without a connection.
fn never_connected() -> LuaError {
    LuaError::new("socket is never created nor connected")
}

fn apply(socket: SockRef<'_>, name: Name, value: f64) -> io::Result<()> {
    let on = value != 0.0;
    // The casts saturate.
    match name {
        Name::KeepAlive => socket.set_keepalive(on),
        Name::ReuseAddr => socket.set_reuse_address(on),
        Name::NoDelay => socket.set_tcp_nodelay(on),
        Name::SendBuffer => socket.set_send_buffer_size(value as usize),
        Name::ReceiveBuffer => socket.set_recv_buffer_size(value as usize),
        Name::KeepInterval => {
            socket.set_tcp_keepalive(&TcpKeepalive::new().with_interval(Duration::from_secs(value as u64)))
        }
        Name::KeepCount => socket.set_tcp_keepalive(&TcpKeepalive::new().with_retries(value as u32)),
    }
}

/// `getoption(socket, option)`
pub(super) fn get(lua: &mut Lua) -> CResult {
    let Call { tcp, .. } = call(lua)?;
    let name = match wanted(lua) {
        Ok(name) => name,
        Err(message) => return push_nil_error(lua, &message),
    };
    let result = tcp.conn().and_then(|conn| {
        let transport = conn.transport().borrow();
        transport.with_stream(|stream| stream.as_fd().map(|fd| read(SockRef::from(&fd), name))).flatten()
    });
    match result {
        Some(Ok(value)) => {
            lua.push_number(value);
            Ok(1)
        }
        Some(Err(error)) => Failure::from(error).push(lua),
        None => Err(never_connected()),
    }
}

fn read(socket: SockRef<'_>, name: Name) -> io::Result<f64> {
    let flag = |on: bool| f64::from(u8::from(on));
    Ok(match name {
        Name::KeepAlive => flag(socket.keepalive()?),
        Name::ReuseAddr => flag(socket.reuse_address()?),
        Name::NoDelay => flag(socket.tcp_nodelay()?),
        Name::SendBuffer => socket.send_buffer_size()? as f64,
        Name::ReceiveBuffer => socket.recv_buffer_size()? as f64,
        Name::KeepInterval => socket.tcp_keepalive_interval()?.as_secs_f64(),
        Name::KeepCount => f64::from(socket.tcp_keepalive_retries()?),
    })
}

/// `getfd(socket)`: the descriptor's number, for libraries that look at it.
pub(super) fn fd(lua: &mut Lua) -> CResult {
    let Call { tcp, .. } = call(lua)?;
    let number = tcp.conn().and_then(|conn| {
        let transport = conn.transport().borrow();
        transport.with_stream(|stream| stream.as_fd().map(|fd| fd.as_raw_fd())).flatten()
    });
    match number {
        Some(number) => {
            lua.push_integer(i64::from(number));
            Ok(1)
        }
        None => push_nil_error(lua, "invalid socket fd"),
    }
}
