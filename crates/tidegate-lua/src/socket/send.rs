//! `send`: strings, numbers and nested tables of them, written without being joined into one Lua string.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_net::stream::Stream;

use super::conn::Conn;
use super::failure::{Failure, debug};
use super::settings::Settings;
use super::tcp::{Busy, Call, Operation, Tcp, call};
use crate::error::{CResult, LuaError};
use crate::host::{Host, LogLevel};
use crate::scheduler::{Answer, with_run};
use crate::stack::{Lua, Type};
use crate::work::{self, Excess};

/// Tables in tables beyond this are refused; each level takes some slots of the stack.
const DEPTH_MAX: u32 = 100;

/// Pieces that one system call takes.
const SLICES_MAX: usize = 64;

/// Messages up to this size are copied together: cheaper than many small pieces.
const COPY_BYTES_MAX: usize = 4096;

/// A piece of what is to be sent.
enum Piece {
    /// A Lua string, which its table or the stack keeps alive.
    Lua(*const u8, usize),
    /// A range of [`Pieces::text`].
    Text(usize, usize),
}

/// What is to be sent.
#[derive(Default)]
struct Pieces {
    list: Vec<Piece>,
    /// Numbers and the like as text.
    text: Vec<u8>,
    total: usize,
}

thread_local! {
    /// Memory for the next call.
    static PIECES: RefCell<Pieces> = RefCell::default();
}

/// `send(socket, data, count)`: the count of bytes, or nothing when the Lua half is to await. `count` is that of the script's
/// arguments.
pub(super) fn send(lua: &mut Lua) -> CResult {
    let count = lua.to_number(3).unwrap_or(0.0);
    if count != 2.0 {
        let text = "expecting 2 arguments (including the object), but got";
        return Err(LuaError::from(format!("{text} {count}")));
    }
    let Call { tcp, host } = call(lua)?;
    let open = tcp.open_conn(&host, "send", |conn| conn.write_closed.get()).and_then(|conn| {
        tcp.check_owner(&host)?;
        tcp.check_idle(&[Operation::Connect, Operation::Write])?;
        Ok(conn)
    });
    let conn = match open {
        Ok(conn) => conn,
        Err(refusal) => return refusal.end(lua),
    };
    if conn.is_body() {
        return Err(LuaError::new("attempt to write to request sockets"));
    }
    if !conn.nodelay_decided.replace(true) {
        decide_nodelay(&conn, &host);
    }
    let settings = Settings::of(&host);
    let limit = tcp.send_timeout.get().unwrap_or(settings.send_timeout);
    debug(&host, || format!("lua tcp socket send timeout: {}", limit.as_millis()));
    let mut pieces = PIECES.take();
    pieces.clear();
    if let Err(error) = pieces.gather(lua, 2, 0) {
        PIECES.set(pieces);
        return Err(error);
    }
    let total = pieces.total;
    let outcome = if total == 0 { Ok(0) } else { pieces.write(&conn) };
    let job = Job { tcp, conn, host, total, log_errors: settings.log_errors };
    let result = match outcome {
        Err(failure) => job.fail(&failure).push(lua),
        Ok(written) if written == total && job.try_flush() => {
            lua.push_integer(i64::try_from(total).unwrap_or(i64::MAX));
            Ok(1)
        }
        Ok(written) => {
            // Only what the system does not take now is copied.
            let rest = pieces.rest(written);
            let busy = job.tcp.occupy(Operation::Write);
            with_run(|run| run.wait(lua, job.wait(rest, limit, busy)))
                .unwrap_or(Err(LuaError::new("no request found")))
                .map(|()| 0)
        }
    };
    pieces.shrink();
    PIECES.set(pieces);
    result
}

/// As in OpenResty the first `send` turns the delay of small packets off, unless `tcp_nodelay off` holds or the script has
/// said what it wants.
#[cold]
fn decide_nodelay(conn: &Conn, host: &Host) {
    if !conn.is_downstream() && host.request().is_none_or(|req| req.files_conf().tcp_nodelay != Some(false)) {
        conn.transport().borrow().with_stream(Stream::set_nodelay);
        debug(host, || "lua socket tcp_nodelay".to_owned());
    }
}

impl Pieces {
    fn clear(&mut self) {
        self.list.clear();
        self.text.clear();
        self.total = 0;
    }

    /// Gives memory back that only an unusual call needs.
    fn shrink(&mut self) {
        self.clear();
        self.list.shrink_to(256);
        self.text.shrink_to(COPY_BYTES_MAX);
    }

    fn add_text(&mut self, text: &[u8]) {
        self.list.push(Piece::Text(self.text.len(), text.len()));
        self.text.extend_from_slice(text);
        self.total += text.len();
    }

    /// Adds the value at `index`. Nothing here runs Lua code or allocates Lua memory but for numbers as text.
    fn gather(&mut self, lua: &mut Lua, index: i32, depth: u32) -> Result<(), LuaError> {
        match lua.type_of(index) {
            Type::String => {
                let bytes = lua.to_bytes(index).unwrap_or_default();
                self.list.push(Piece::Lua(bytes.as_ptr(), bytes.len()));
                self.total += bytes.len();
            }
            Type::Number => {
                // On a copy: converting a table's element in place would confuse who walks it.
                lua.reserve(1)?;
                lua.push_value(index);
                self.add_text(lua.to_bytes(-1).unwrap_or_default());
                lua.pop(1);
            }
            Type::Nil if depth == 0 => self.add_text(b"nil"),
            Type::Boolean if depth == 0 => self.add_text(if lua.to_bool(index) { b"true" } else { b"false" }),
            Type::Table => self.gather_table(lua, index, depth)?,
            other => return Err(bad_type(lua, index, depth, other)),
        }
        Ok(())
    }

    fn gather_table(&mut self, lua: &mut Lua, index: i32, depth: u32) -> Result<(), LuaError> {
        if depth >= DEPTH_MAX {
            return Err(LuaError::argument(2, "tables are nested too deeply"));
        }
        lua.reserve(3)?;
        let table = if index > 0 { index } else { lua.top() + 1 + index };
        let len = array_length(lua, table)?;
        self.check(lua)?;
        for number in 1..=len {
            if (number as usize).is_multiple_of(work::STEPS_MAX) {
                self.check(lua)?;
            }
            lua.raw_get_index(table, number);
            // A string is kept alive by its table; a number's text is copied.
            self.gather(lua, -1, depth + 1)?;
            lua.pop(1);
        }
        Ok(())
    }

    /// What the list needs, and a copy of what the system does not take at once.
    fn check(&self, lua: &Lua) -> Result<(), Excess> {
        work::check(lua, self.total.saturating_add(self.list.len() * size_of::<Piece>()))
    }

    fn slice(&self, piece: &Piece) -> &[u8] {
        match *piece {
            // SAFETY: the string lives as long as the call, whose arguments hold it; no Lua code runs meanwhile.
            Piece::Lua(data, len) => unsafe { std::slice::from_raw_parts(data, len) },
            Piece::Text(start, len) => &self.text[start..start + len],
        }
    }

    /// Writes what the system takes now.
    fn write(&mut self, conn: &Conn) -> Result<usize, Failure> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut written = 0;
        if self.list.len() > 1 && self.total <= COPY_BYTES_MAX {
            let joined = self.rest(0);
            self.list.clear();
            self.text = joined;
            self.list.push(Piece::Text(0, self.total));
        }
        while written < self.total {
            let slices: SmallVec<[IoSlice<'_>; SLICES_MAX]> =
                self.after(written).map(IoSlice::new).take(SLICES_MAX).collect();
            match conn.poll_write(&mut cx, &slices) {
                Poll::Ready(result) => written += result?,
                Poll::Pending => break,
            }
        }
        Ok(written)
    }

    /// The pieces behind the first `skip` bytes.
    fn after(&self, mut skip: usize) -> impl Iterator<Item = &[u8]> {
        self.list.iter().filter_map(move |piece| {
            let bytes = self.slice(piece);
            let bytes = &bytes[skip.min(bytes.len())..];
            skip = skip.saturating_sub(self.slice(piece).len());
            (!bytes.is_empty()).then_some(bytes)
        })
    }

    /// A copy of everything behind the first `skip` bytes.
    fn rest(&self, skip: usize) -> Vec<u8> {
        let mut rest = Vec::with_capacity(self.total - skip);
        self.after(skip).for_each(|bytes| rest.extend_from_slice(bytes));
        rest
    }
}

/// The bytes of argument `index`, for those who need them in one piece.
pub(crate) fn text_of(lua: &mut Lua, index: i32) -> Result<Vec<u8>, LuaError> {
    let mut pieces = Pieces::default();
    pieces.gather(lua, index, 0)?;
    Ok(pieces.rest(0))
}

#[cold]
fn bad_type(lua: &mut Lua, index: i32, depth: u32, kind: Type) -> LuaError {
    let name = lua.type_name(index);
    if depth == 0 {
        LuaError::argument(2, format!("string, number, boolean, nil, or array table expected, got {name}"))
    } else if kind == Type::LightUserdata || kind == Type::Userdata {
        LuaError::argument(2, "bad data type userdata found")
    } else {
        LuaError::argument(2, format!("bad data type {name} found"))
    }
}

/// The highest index of a table that has positive integer keys only.
fn array_length(lua: &mut Lua, table: i32) -> Result<i32, LuaError> {
    let mut most = 0_i32;
    lua.push_nil();
    // SAFETY: `table` holds a table and the key on top came from the call before; there is room for both values.
    while unsafe { mlua_sys::lua_next(lua.raw(), table) } != 0 {
        lua.pop(1);
        let key = if lua.type_of(-1) == Type::Number { lua.to_number(-1) } else { None };
        match key {
            Some(key) if key >= 1.0 && key.fract() == 0.0 && key < f64::from(i32::MAX) => most = most.max(key as i32),
            _ => {
                lua.pop(1);
                return Err(LuaError::argument(2, "non-array table found"));
            }
        }
    }
    // Someone who writes t[1e9] gets an answer, not a loop of a billion steps.
    if most > 50_000_000 { Err(LuaError::argument(2, "table too large")) } else { Ok(most) }
}

/// One `send`.
struct Job {
    tcp: Rc<Tcp>,
    conn: Rc<Conn>,
    host: Host,
    total: usize,
    log_errors: bool,
}

impl Job {
    fn try_flush(&self) -> bool {
        matches!(self.conn.poll_flush(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
    }

    async fn wait(self, rest: Vec<u8>, limit: Duration, busy: Busy) -> Answer {
        let mut written = 0;
        let outcome = loop {
            let step = poll_fn(|cx| {
                if written == rest.len() {
                    return self.conn.poll_flush(cx).map(|flushed| flushed.map(|()| None));
                }
                self.conn.poll_write(cx, &[IoSlice::new(&rest[written..])]).map(|count| count.map(Some))
            });
            match tokio::time::timeout(limit, step).await.unwrap_or(Err(Failure::TimedOut)) {
                Ok(Some(count)) => written += count,
                Ok(None) => break Ok(()),
                Err(failure) => break Err(failure),
            }
        };
        drop(busy);
        match outcome {
            Ok(()) => {
                let total = self.total;
                Answer::Push(Box::new(move |lua| {
                    lua.push_integer(i64::try_from(total).unwrap_or(i64::MAX));
                    Ok(1)
                }))
            }
            Err(failure) => Answer::NilError(self.fail(&failure).message()),
        }
    }

    /// Notes a failure: nothing more can be written, since nobody knows how much arrived.
    fn fail<'a>(&self, failure: &'a Failure) -> &'a Failure {
        self.tcp.note(failure);
        self.conn.write_closed.set(true);
        if self.log_errors {
            if *failure == Failure::TimedOut {
                self.host.log(LogLevel::Error, b"lua tcp socket write timed out");
            }
            failure.log_call(&self.host, "send()");
        }
        failure
    }
}
