//! `receive`, `receiveany`, `receiveuntil`.

use std::ffi::CStr;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use memchr::memchr;

use super::conn::Conn;
use super::failure::{Failure, debug, push_nil_error};
use super::pattern::{Found, Until, Want};
use super::settings::Settings;
use super::tcp::{Busy, Call, Operation, Refusal, Tcp, call};
use crate::error::{CResult, LuaError};
use crate::host::{Host, LogLevel};
use crate::scheduler::{Answer, with_run};
use crate::stack::{Lua, Type};
use crate::userdata::{Userdata, check_userdata, push_userdata};

/// The text that `receiveuntil` looks for, as the iterator holds it.
#[derive(Clone)]
struct Pattern(Rc<Until>);

impl Userdata for Pattern {
    const NAME: &'static CStr = c"tidegate.socket.pattern";
    const TYPE_NAME: &'static str = "pattern";
}

/// `receive(socket, pattern, count)`: results, or nothing when the Lua half is to await. `count` is that of the script's
/// arguments.
pub(super) fn receive(lua: &mut Lua) -> CResult {
    let count = lua.to_number(3).unwrap_or(0.0);
    if !(1.0..=2.0).contains(&count) {
        let text = "expecting 1 or 2 arguments (including the object), but got";
        return Err(LuaError::from(format!("{text} {count}")));
    }
    let called = call(lua)?;
    let conn = match conn_for_reading(&called, true) {
        Ok(conn) => conn,
        Err(refusal) => return refusal.end(lua),
    };
    let want = if count == 1.0 { Want::Line } else { wanted(lua)? };
    if let Want::Bytes(0) = want {
        lua.push_bytes(b"");
        return Ok(1);
    }
    read(lua, called, conn, want)
}

/// The pattern in argument 2.
fn wanted(lua: &mut Lua) -> Result<Want, LuaError> {
    match lua.type_of(2) {
        Type::Number | Type::String => match lua.to_number(2) {
            Some(count) if count < 0.0 => Err(LuaError::argument(2, "bad pattern argument")),
            Some(count) => Ok(Want::Bytes(count as usize)),
            None => match lua.to_bytes(2) {
                Some(b"*l") => Ok(Want::Line),
                Some(b"*a") => Ok(Want::All),
                other => {
                    let text = String::from_utf8_lossy(other.unwrap_or_default()).into_owned();
                    Err(LuaError::argument(2, format!("bad pattern argument: {text}")))
                }
            },
        },
        _ => Err(LuaError::argument(2, "bad pattern argument")),
    }
}

/// `receiveany(socket, max, count)`
pub(super) fn receive_any(lua: &mut Lua) -> CResult {
    let count = lua.to_number(3).unwrap_or(0.0);
    if count != 2.0 {
        let text = "expecting 2 arguments (including the object), but got";
        return Err(LuaError::from(format!("{text} {count}")));
    }
    let called = call(lua)?;
    let conn = match conn_for_reading(&called, true) {
        Ok(conn) => conn,
        Err(refusal) => return refusal.end(lua),
    };
    match lua.to_number(2) {
        Some(most) if most >= 1.0 => {
            debug(&called.host, || {
                format!("lua tcp socket calling receiveany() method to read at most {} bytes", most as usize)
            });
            debug(&called.host, || "lua tcp socket read any".to_owned());
            read(lua, called, conn, Want::Any(most as usize))
        }
        _ => Err(LuaError::argument(2, "bad max argument")),
    }
}

/// `receiveuntil(socket, text, options?)`: a pattern for [`iterate`], or `nil` and a message.
pub(super) fn receive_until(lua: &mut Lua) -> CResult {
    if !(2..=3).contains(&lua.top()) {
        let text = "expecting 2 or 3 arguments (including the object), but got";
        return Err(LuaError::from(format!("{text} {}", lua.top())));
    }
    call(lua)?;
    let mut inclusive = false;
    if lua.top() == 3 {
        if lua.type_of(3) != Type::Table {
            return Err(LuaError::argument(3, format!("table expected, got {}", lua.type_name(3))));
        }
        lua.raw_get_field(3, b"inclusive");
        match lua.type_of(-1) {
            Type::Nil => {}
            Type::Boolean => inclusive = lua.to_bool(-1),
            _ => {
                let message = format!("bad \"inclusive\" option value type: {}", lua.type_name(-1));
                return Err(LuaError::from(message));
            }
        }
        lua.pop(1);
    }
    let until = match lua.to_bytes(2) {
        Some(b"") => return push_nil_error(lua, "pattern is empty"),
        Some(text) => Rc::new(Until::new(text, inclusive)),
        None => return Err(LuaError::argument(2, format!("string expected, got {}", lua.type_name(2)))),
    };
    push_userdata(lua, Pattern(until));
    Ok(1)
}

/// `iterate(socket, pattern, size, count)`: the next piece, or `false` behind the last one.
pub(super) fn iterate(lua: &mut Lua) -> CResult {
    let count = lua.to_number(4).unwrap_or(0.0);
    if count > 1.0 {
        return Err(LuaError::from(format!("expecting 0 or 1 argument, but seen {count}")));
    }
    let size = if count == 1.0 {
        lua.to_number(3).ok_or_else(|| {
            LuaError::from(format!("bad argument #1 to '?' (number expected, got {})", lua.type_name(3)))
        })?
    } else {
        0.0
    };
    let until = check_userdata::<Pattern>(lua, 2)?.0;
    let called = call(lua)?;
    let conn = match conn_for_reading(&called, false) {
        Ok(conn) => conn,
        Err(refusal) => return refusal.end(lua),
    };
    if until.ended.replace(false) {
        lua.push_bool(false);
        return Ok(1);
    }
    // The cast makes 0 of what is negative.
    read(lua, called, conn, Want::Until(until, size as usize))
}

fn conn_for_reading(called: &Call, log: bool) -> Result<Rc<Conn>, Refusal> {
    let Call { tcp, host } = called;
    let conn = if log {
        tcp.open_conn(host, "receive", Conn::read_closed)?
    } else {
        tcp.conn().filter(|conn| !conn.read_closed()).ok_or(Refusal::Nil("closed"))?
    };
    tcp.check_owner(host)?;
    tcp.check_idle(&[Operation::Connect, Operation::Read])?;
    Ok(conn)
}

/// Reads what is there; waits for the rest.
fn read(lua: &mut Lua, called: Call, conn: Rc<Conn>, want: Want) -> CResult {
    let Call { tcp, host } = called;
    let limit = || tcp.read_timeout.get().unwrap_or_else(|| Settings::of(&host).read_timeout);
    debug(&host, || format!("lua tcp socket read timeout: {}", limit().as_millis()));
    let mut reader = Reader { conn, want, scanned: 0, buffer_bytes: 0 };
    // Most of what a driver wants has come with what it had before.
    if let Some(result) = reader.find() {
        return finish(lua, &tcp, &reader, result, &host);
    }
    reader.buffer_bytes = Settings::of(&host).buffer_bytes;
    while let Some(filled) = reader.conn.try_fill(reader.room()) {
        if let Some(result) = reader.after_fill(filled).or_else(|| reader.find()) {
            return finish(lua, &tcp, &reader, result, &host);
        }
    }
    let limit = limit();
    let busy = tcp.occupy(Operation::Read);
    let future = wait(tcp, reader, host, limit, busy);
    with_run(|run| run.wait(lua, future)).unwrap_or(Err(LuaError::new("no request found")))?;
    Ok(0)
}

async fn wait(tcp: Rc<Tcp>, mut reader: Reader, host: Host, limit: Duration, busy: Busy) -> Answer {
    let result = loop {
        // As in nginx the limit is on the time between two pieces.
        let filled = poll_fn(|cx| reader.conn.poll_fill(cx, reader.room()));
        let filled = tokio::time::timeout(limit, filled).await.unwrap_or(Err(Failure::TimedOut));
        if let Some(result) = reader.after_fill(filled) {
            break result;
        }
        if let Some(result) = reader.find() {
            break result;
        }
    };
    drop(busy);
    // The bytes go from the buffer to Lua without a copy between.
    Answer::Push(Box::new(move |lua| finish(lua, &tcp, &reader, result, &host)))
}

/// Bytes that one call keeps in memory until it has what it looks for.
const INPUT_BYTES_MAX: usize = 256 << 20;

struct Reader {
    conn: Rc<Conn>,
    want: Want,
    scanned: usize,
    buffer_bytes: usize,
}

impl Reader {
    /// The thing that is wanted, or an error when too much stands before it.
    fn find(&mut self) -> Option<Result<Found, Failure>> {
        let input = self.conn.input.borrow();
        let found = self.want.find(input.bytes(), &mut self.scanned).map(Ok);
        found.or_else(|| (input.len() > INPUT_BYTES_MAX).then(|| Err(Failure::Text("too much data".into()))))
    }

    fn room(&self) -> usize {
        self.want.room(self.conn.input.borrow().len(), self.buffer_bytes)
    }

    /// What follows from a read: a result, or nothing when the input has grown.
    fn after_fill(&self, filled: Result<usize, Failure>) -> Option<Result<Found, Failure>> {
        match filled {
            Ok(0) => Some(match self.want {
                Want::All => {
                    let len = self.conn.input.borrow().len();
                    self.conn.read_end.replace(Some(Failure::Closed));
                    Ok(Found { len, used: len })
                }
                _ => Err(Failure::Closed),
            }),
            Ok(_) => None,
            Err(failure) => Some(Err(failure)),
        }
    }
}

/// Pushes the results, or `nil`, the message and what was read.
fn finish(lua: &mut Lua, tcp: &Tcp, reader: &Reader, result: Result<Found, Failure>, host: &Host) -> CResult {
    let failure = match result {
        Ok(found) => return push_found(lua, &reader.conn, &reader.want, found),
        Err(failure) => failure,
    };
    tcp.note(&failure);
    let timed_out = failure == Failure::TimedOut;
    if !timed_out {
        reader.conn.read_end.replace(Some(failure.clone()));
    }
    if Settings::of(host).log_errors {
        if timed_out {
            host.log(LogLevel::Error, b"lua tcp socket read timed out");
        }
        failure.log_call(host, "recv()");
    }
    failure.push(lua)?;
    let len = reader.want.partial(reader.conn.input.borrow().bytes(), timed_out);
    push_found(lua, &reader.conn, &reader.want, Found { len, used: len })?;
    Ok(3)
}

fn push_found(lua: &mut Lua, conn: &Conn, want: &Want, found: Found) -> CResult {
    let input = conn.input.borrow();
    let bytes = &input.bytes()[..found.len];
    if matches!(want, Want::Line) && memchr(b'\r', bytes).is_some() {
        push_without_returns(lua, bytes);
    } else {
        lua.push_bytes(bytes);
    }
    drop(input);
    let mut input = conn.input.borrow_mut();
    input.consume(found.used);
    if input.is_empty() {
        input.release();
    }
    Ok(1)
}

/// OpenResty leaves out every carriage return of a line, not just the one at its end.
fn push_without_returns(lua: &mut Lua, bytes: &[u8]) {
    match bytes.split_last() {
        Some((b'\r', rest)) if memchr(b'\r', rest).is_none() => lua.push_bytes(rest),
        _ => {
            let kept: Vec<u8> = bytes.iter().copied().filter(|&byte| byte != b'\r').collect();
            lua.push_bytes(&kept);
        }
    }
}
