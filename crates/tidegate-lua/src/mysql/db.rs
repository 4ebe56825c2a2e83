//! The object: what belongs to it, and which operation may run when.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tidegate_core::worker;
use tidegate_rows::QueryError;

use super::link::{Backend, Link, Reset};
use super::query::{refused, wait};
use super::refusal::{Doing, Refusal};
use crate::error::{CResult, LuaError};
use crate::host::{Host, LogLevel};
use crate::rows::Integers;
use crate::scheduler::{Answer, with_run};
use crate::socket::pool::{self, Pool};
use crate::socket::{Closing, OpenSockets, Owner, Settings, debug, push_nil_error};
use crate::stack::Lua;
use crate::userdata::{Userdata, check_userdata, push_userdata};

/// Where a session is, with lua-resty-mysql's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// Not connected.
    #[default]
    Closed,
    /// Between statements.
    Connected,
    /// A statement's results are to be read.
    CommandSent,
}

impl State {
    /// As error messages have it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "nil",
            Self::Connected => "1",
            Self::CommandSent => "2",
        }
    }
}

/// Which operation has the session (M1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Connect,
    Write,
    Read,
}

impl Operation {
    /// What others are told meanwhile.
    pub(super) fn busy(self) -> &'static str {
        match self {
            Self::Connect => "socket busy connecting",
            Self::Write => "socket busy writing",
            Self::Read => "socket busy reading",
        }
    }
}

/// What scripts hold behind `mysql:new()`.
#[derive(Default)]
pub(super) struct Db {
    owner: RefCell<Owner>,
    /// It is among the sockets of its owner.
    owned: Cell<bool>,
    link: RefCell<Option<Link>>,
    pub(super) state: Cell<State>,
    busy: Cell<Option<Operation>>,
    timeout: Cell<Option<Duration>>,
    /// Name of the pool that `set_keepalive` puts the session into.
    pub(super) key: RefCell<Vec<u8>>,
    pub(super) integers: Cell<Integers>,
    version: RefCell<Vec<u8>>,
}

#[derive(Clone)]
struct Handle(Rc<Db>);

impl Userdata for Handle {
    const NAME: &'static CStr = c"tidegate.mysql";
    const TYPE_NAME: &'static str = "mysql";
}

/// Marks an object as occupied until dropped.
pub(super) struct Busy(Rc<Db>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(None);
    }
}

impl Db {
    pub(super) fn occupy(self: &Rc<Self>, operation: Operation) -> Busy {
        self.busy.set(Some(operation));
        Busy(self.clone())
    }

    pub(super) fn busy(&self) -> Option<Operation> {
        self.busy.get()
    }

    /// Demands that it belongs to `host`.
    pub(super) fn check_owner(&self, host: &Host) -> Result<(), LuaError> {
        if self.owner.borrow().is(host) { Ok(()) } else { Err(LuaError::new("bad request")) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.link.borrow().is_some()
    }

    /// Takes the session out, for an operation or for good.
    pub(super) fn take_link(&self) -> Option<Link> {
        self.link.take()
    }

    /// Puts the session back after an operation. If the request has ended meanwhile, this is its end too (M2): the
    /// future that calls would have been dropped.
    pub(super) fn put_back(&self, link: Link) {
        let old = self.link.replace(Some(link));
        drop(old);
    }

    /// Tells the server, some time, that a prepared statement is not needed any more.
    pub(super) fn forget_statement(&self, sql: &[u8]) {
        if let Some(Link { backend: Backend::Server(conn), .. }) = &mut *self.link.borrow_mut() {
            conn.forget_statement(sql);
        }
    }

    /// Takes a session for `host`, which closes it at its end (M2).
    pub(super) fn attach(self: &Rc<Self>, link: Link, host: &Host) {
        {
            let mut version = self.version.borrow_mut();
            version.clear();
            version.extend_from_slice(link.server_version());
        }
        self.put_back(link);
        self.state.set(State::Connected);
        if !self.owned.get() || !self.owner.borrow().is(host) {
            self.owner.replace(Owner::of(host));
            self.owned.set(true);
            let this: Weak<Self> = Rc::downgrade(self);
            OpenSockets::of(host).add(this);
        }
    }

    /// The time that each wait may take, for a script of `host`.
    pub(super) fn limit(&self, host: &Host) -> Duration {
        self.timeout.get().unwrap_or_else(|| Settings::of(host).read_timeout)
    }
}

impl Closing for Db {
    fn close_now(&self) {
        self.state.set(State::Closed);
        let link = self.link.take();
        drop(link);
    }
}

/// What a method needs.
pub(super) struct Call {
    pub(super) db: Rc<Db>,
    pub(super) host: Host,
}

/// The object in argument 1, and whom the script serves.
pub(super) fn call(lua: &mut Lua) -> Result<Call, LuaError> {
    let db = check_userdata::<Handle>(lua, 1)?.0;
    let host = with_run(|run| run.host().clone()).ok_or(LuaError::new("no request found"))?;
    Ok(Call { db, host })
}

/// `new()`
pub(super) fn new(lua: &mut Lua) -> CResult {
    push_userdata(lua, Handle(Rc::new(Db::default())));
    Ok(1)
}

/// `set_timeout(handle, ms)`: for every wait from now on; 0 and nil for the directives' values.
pub(super) fn set_timeout(lua: &mut Lua) -> CResult {
    let db = check_userdata::<Handle>(lua, 1)?.0;
    let limit = if lua.is_none_or_nil(2) {
        None
    } else {
        match lua.check_number(2)? as i64 {
            0 => None,
            ms @ 1..=0x7fff_ffff => Some(Duration::from_millis(ms.unsigned_abs())),
            _ => return Err(LuaError::new("bad timeout value")),
        }
    };
    db.timeout.set(limit);
    Ok(0)
}

/// `server_ver(handle)`: the version that the server told, or nil before the first `connect`.
pub(super) fn server_version(lua: &mut Lua) -> CResult {
    let db = check_userdata::<Handle>(lua, 1)?.0;
    let version = db.version.borrow().clone();
    if version.is_empty() {
        lua.push_nil();
    } else {
        lua.push_bytes(&version);
    }
    Ok(1)
}

/// `get_reused_times(handle)`: how often the session came out of its pool.
pub(super) fn reused_times(lua: &mut Lua) -> CResult {
    let Call { db, host } = call(lua)?;
    let reused = db.link.borrow().as_ref().map(|link| link.membership.reused);
    match (reused, db.busy()) {
        (Some(reused), _) => {
            db.check_owner(&host)?;
            lua.push_integer(i64::try_from(reused).unwrap_or(i64::MAX));
            Ok(1)
        }
        (None, Some(operation)) => push_nil_error(lua, operation.busy()),
        (None, None) => push_nil_error(lua, "closed"),
    }
}

/// `close(handle)`: says goodbye to the server.
pub(super) fn close(lua: &mut Lua) -> CResult {
    let Call { db, host } = call(lua)?;
    if let Some(operation) = db.busy() {
        return push_nil_error(lua, operation.busy());
    }
    if !db.is_open() {
        db.state.set(State::Closed);
        return push_nil_error(lua, "closed");
    }
    db.check_owner(&host)?;
    db.close_now();
    lua.push_integer(1);
    Ok(1)
}

/// `set_keepalive(handle, max_idle_ms?, pool_size?)`: puts the session into its pool.
pub(super) fn set_keepalive(lua: &mut Lua) -> CResult {
    let Call { db, host } = call(lua)?;
    if db.state.get() != State::Connected {
        let state = db.state.get().as_str();
        return push_nil_error(lua, &format!("cannot be reused in the current connection state: {state}"));
    }
    let timeout = if lua.is_none_or_nil(2) {
        Settings::of(&host).keepalive_timeout
    } else {
        Duration::from_millis(u64::try_from(lua.check_integer(2)?).unwrap_or(0))
    };
    let size = if lua.is_none_or_nil(3) { None } else { Some(lua.check_integer(3)?) };
    let size = match size.map(usize::try_from) {
        None => Settings::of(&host).pool_size,
        Some(Ok(size)) if size > 0 => size,
        Some(_) => return Err(LuaError::argument(3, "bad \"pool_size\" option value")),
    };
    if let Some(operation) = db.busy() {
        return push_nil_error(lua, operation.busy());
    }
    if db.is_open() {
        db.check_owner(&host)?;
    }
    db.state.set(State::Closed);
    let limit = db.limit(&host);
    let Some(mut link) = db.take_link() else { return push_nil_error(lua, "closed") };
    if !link.is_open() {
        return push_nil_error(lua, "closed");
    }
    lua.push_integer(1);
    if worker::current().is_some_and(|worker| worker.is_quitting()) {
        return Ok(1);
    }
    if link.in_transaction() {
        // Keeps M3. The next user would go on with what this one has not finished.
        host.log(LogLevel::Warn, b"lua mysql: a transaction is open: the connection is closed instead of kept");
        return Ok(1);
    }
    // Keeps M4.
    let reset = link.reset();
    if let Reset::Impossible(why) = reset {
        host.log(LogLevel::Warn, format!("lua mysql: {why}: the connection is closed instead of kept").as_bytes());
        return Ok(1);
    }
    let pool = match &link.membership.place {
        Some(place) => place.pool().clone(),
        None => {
            let pool = match pool::find_or_make::<Link>(&host, &db.key.borrow(), size, None) {
                Ok(pool) => pool,
                Err(why) => {
                    host.log(LogLevel::Warn, format!("lua mysql: {why}: the connection is closed").as_bytes());
                    return Ok(1);
                }
            };
            link.membership.place = Some(pool.enter());
            pool
        }
    };
    debug(&host, || format!("lua mysql keepalive timeout: {} ms", timeout.as_millis()));
    let keeping = Keeping { link, pool, timeout: (!timeout.is_zero()).then_some(timeout) };
    if !matches!(reset, Reset::Due) {
        keeping.keep();
        return Ok(1);
    }
    let resetting = keeping.reset_and_keep(host, limit);
    if with_run(|run| run.can_wait(lua)).unwrap_or(false) {
        return wait(lua, resetting);
    }
    // The script cannot wait here. The session goes into the pool when the server has answered.
    tokio::task::spawn_local(resetting);
    Ok(1)
}

/// A session on its way into its pool.
struct Keeping {
    link: Link,
    pool: Rc<Pool<Link>>,
    timeout: Option<Duration>,
}

impl Keeping {
    fn keep(mut self) {
        self.link.shrink();
        self.pool.keep(self.link, self.timeout);
    }

    /// Keeps the session once the server has taken away what its user left; closes it if the server does not.
    async fn reset_and_keep(mut self, host: Host, limit: Duration) -> Answer {
        match tokio::time::timeout(limit, self.link.reset_on_server()).await {
            Ok(Ok(())) => self.keep(),
            Ok(Err(QueryError::Server(error))) => {
                let why = &error.message;
                let message = format!("lua mysql: the server cannot reset the connection, which is closed: {why}");
                host.log(LogLevel::Warn, message.as_bytes());
            }
            Ok(Err(error)) => return refused(Refusal::logged(error, Doing::Reading, &host)),
            Err(_) => return refused("failed to receive packet header: timeout".into()),
        }
        Answer::One
    }
}
