//! Sessions of TLS as scripts hold them: `sslhandshake` gives one, and resumes the one that it is given.
//!
//! A script has a cdata with a number, by which its worker finds the session here until Lua collects that cdata. Several of them may
//! stand for one session, as several connections may.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use rustls::HandshakeKind;
use tidegate_net::log;
use tidegate_tls::client_sessions::ClientSession;

use super::conn::Conn;
use super::failure::{debug, push_nil_error};
use super::tcp::{Call, call};
use super::transport::Transport;
use crate::error::{CResult, LuaError};
use crate::host::{Host, LogLevel};
use crate::stack::Lua;

thread_local! {
    /// What the scripts of this worker hold.
    static HELD: RefCell<HashMap<u32, Arc<ClientSession>>> = RefCell::default();
    static NEXT: Cell<u32> = const { Cell::new(1) };
}

/// What a line of the log calls a session.
fn name(session: &Arc<ClientSession>) -> String {
    format!("{:016X}", Arc::as_ptr(session).addr())
}

/// Keeps a session for a script, and pushes the number that stands for it.
pub(super) fn push(lua: &mut Lua, session: Arc<ClientSession>) -> CResult {
    let number = HELD.with_borrow_mut(|held| {
        // Those that are still held from 2^32 sessions ago keep their numbers.
        let number = std::iter::repeat_with(|| NEXT.replace(NEXT.get().wrapping_add(1).max(1)));
        let number = number.into_iter().find(|number| !held.contains_key(number)).unwrap_or_default();
        held.insert(number, session);
        number
    });
    lua.push_integer(number.into());
    Ok(1)
}

/// As [`push`], for a session that a handshake of `host` has made or resumed.
pub(super) fn push_saved(lua: &mut Lua, host: &Host, session: Arc<ClientSession>) -> CResult {
    debug(host, || format!("lua ssl save session: {}", name(&session)));
    push(lua, session)
}

/// The session that a number stands for, for a handshake of `host`.
pub(super) fn given(host: &Host, number: f64) -> Option<Arc<ClientSession>> {
    let session = HELD.with_borrow(|held| held.get(&(number as u32)).cloned())?;
    debug(host, || format!("lua ssl set session: {}", name(&session)));
    Some(session)
}

/// `free_session(number)`: called when Lua collects what stands for a session, perhaps with its whole machine.
pub(super) fn free(lua: &mut Lua) -> CResult {
    let number = lua.check_number(1)? as u32;
    // The thread may be ending.
    let freed = HELD.try_with(|held| held.borrow_mut().remove(&number)).ok().flatten();
    let log = log::main();
    if let Some(session) = freed.filter(|_| log.enabled(LogLevel::Debug)) {
        log.write(LogLevel::Debug, None, format_args!("lua ssl free session: {}", name(&session)), |_| ());
    }
    Ok(0)
}

/// The connection of the socket that is the first argument, if it is not closed on both sides.
fn open(lua: &mut Lua) -> Result<Option<Rc<Conn>>, LuaError> {
    let Call { tcp, .. } = call(lua)?;
    Ok(tcp.conn().filter(|conn| !conn.read_closed() || !conn.write_closed.get()))
}

/// `is_reused(socket)`: whether the connection has resumed a session.
pub(super) fn is_reused(lua: &mut Lua) -> CResult {
    let Some(conn) = open(lua)? else { return push_nil_error(lua, "closed") };
    let kind = match &*conn.transport().borrow() {
        Transport::Plain(stream) => stream.with_tls(|tls| tls.handshake_kind()),
        _ => None,
    };
    match kind {
        Some(kind) => {
            lua.push_bool(kind == Some(HandshakeKind::Resumed));
            Ok(1)
        }
        None => push_nil_error(lua, "no ssl connection"),
    }
}

/// `getsslsession(socket)`: the number of the connection's session, or nil and a message. With TLS 1.3 there is something to resume only
/// when something was received.
pub(super) fn of_socket(lua: &mut Lua) -> CResult {
    let Some(conn) = open(lua)? else { return push_nil_error(lua, "closed") };
    let session = conn.proved.borrow().as_ref().and_then(|proved| proved.session.clone());
    match session {
        None => push_nil_error(lua, "no session"),
        Some(session) if !session.is_resumable() => push_nil_error(lua, "not resumable"),
        Some(session) => push(lua, session),
    }
}
