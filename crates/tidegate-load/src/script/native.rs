//! What `wrk.lua` needs beside Lua: names and connections, and the machines of threads for `setup` and `done`.
//!
//! While the main machine runs, the threads do not: their scripts are lent to this page, where functions that Lua calls
//! find them.

use std::cell::RefCell;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use mlua_sys::{LUA_GLOBALSINDEX, lua_CFunction};
use tidegate_lua::error::{CResult, LuaError};
use tidegate_lua::function::function;
use tidegate_lua::plain::Value;
use tidegate_lua::stack::{Lua, Type};

use super::Script;
use crate::plan::Address;

thread_local! {
    static THREADS: RefCell<Vec<Script>> = const { RefCell::new(Vec::new()) };
}

/// How long `wrk.connect` waits.
const PATIENCE: Duration = Duration::from_secs(2);

/// Lends the threads' scripts to those functions.
pub(super) fn lend(threads: Vec<Script>) {
    THREADS.replace(threads);
}

/// Takes them back.
pub(super) fn take_back() -> Vec<Script> {
    THREADS.take()
}

/// Works with the script of a thread; `None` if it is not there, or works already.
pub(super) fn with_thread<R>(number: usize, work: impl FnOnce(&mut Script) -> R) -> Option<R> {
    THREADS.with(|threads| threads.try_borrow_mut().ok()?.get_mut(number).map(work))
}

/// Pushes the table of functions.
pub(super) fn push(lua: &mut Lua) {
    const FUNCTIONS: [(&str, lua_CFunction); 7] = [
        ("lookup", function(lookup)),
        ("connect", function(connect)),
        ("get", function(get)),
        ("set", function(set)),
        ("stop", function(stop)),
        ("address", function(address)),
        ("set_address", function(set_address)),
    ];
    lua.push_table(0, FUNCTIONS.len() as i32);
    for (name, function) in FUNCTIONS {
        lua.push_function(function);
        lua.raw_set_field(-2, name.as_bytes());
    }
}

/// `wrk.lookup(host, service)`: all addresses, as texts.
fn lookup(lua: &mut Lua) -> CResult {
    let host = String::from_utf8_lossy(lua.check_bytes(1)?).into_owned();
    let service = String::from_utf8_lossy(lua.check_bytes(2)?).into_owned();
    let port = match service.as_str() {
        "http" => 80,
        "https" => 443,
        number => number.parse().map_err(|_| LuaError::argument(2, "expected a port, http or https"))?,
    };
    let addresses: Vec<SocketAddr> = match (host.as_str(), port).to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(error) => return Err(LuaError::from(format!("no address of {host}: {error}"))),
    };
    lua.push_table(addresses.len() as i32, 0);
    for (at, address) in addresses.iter().enumerate() {
        lua.push_bytes(address.to_string().as_bytes());
        lua.raw_set_index(-2, at as i32 + 1);
    }
    Ok(1)
}

/// `wrk.connect(address)`: whether somebody listens there.
fn connect(lua: &mut Lua) -> CResult {
    let address = to_address(lua, 1)?;
    lua.push_bool(TcpStream::connect_timeout(&address, PATIENCE).is_ok());
    Ok(1)
}

fn to_address(lua: &Lua, argument: i32) -> Result<SocketAddr, LuaError> {
    let text = String::from_utf8_lossy(lua.check_bytes(argument)?);
    text.parse().map_err(|_| LuaError::argument(argument, "expected an address of wrk.lookup"))
}

/// Works with the thread whose number is the first argument.
fn of_thread<R>(
    lua: &Lua,
    work: impl FnOnce(&mut Script) -> Result<R, tidegate_lua::error::Failure>,
) -> Result<R, LuaError> {
    let number = lua.check_integer(1)? as usize;
    match with_thread(number, work) {
        Some(done) => done.map_err(super::failed),
        None => Err(LuaError::new("the thread is running")),
    }
}

/// `thread:get(name)`: the value of a global variable there.
fn get(lua: &mut Lua) -> CResult {
    let name = lua.check_bytes(2)?.to_vec();
    let value = of_thread(lua, |script| {
        script.machine.with(|lua| {
            lua.reserve(8)?;
            lua.raw_get_field(LUA_GLOBALSINDEX, &name);
            let top = lua.top();
            Value::copy(lua, top).map_err(LuaError::new)
        })
    })?;
    value.push(lua)?;
    Ok(1)
}

/// `thread:set(name, value)`.
fn set(lua: &mut Lua) -> CResult {
    let name = lua.check_bytes(2)?.to_vec();
    let value = if lua.type_of(3) == Type::None { Value::Nil } else { Value::copy(lua, 3).map_err(LuaError::new)? };
    of_thread(lua, |script| {
        script.machine.with(|lua| {
            lua.reserve(8)?;
            value.push(lua)?;
            lua.raw_set_field(LUA_GLOBALSINDEX, &name);
            Ok(())
        })
    })?;
    Ok(0)
}

/// `thread:stop()` of a thread that has not begun.
fn stop(lua: &mut Lua) -> CResult {
    of_thread(lua, |script| {
        script.has_stopped = true;
        Ok(())
    })?;
    Ok(0)
}

/// `thread.addr`
fn address(lua: &mut Lua) -> CResult {
    let address = of_thread(lua, |script| Ok(script.address_text().unwrap_or_default()))?;
    lua.push_bytes(address.as_bytes());
    Ok(1)
}

/// `thread.addr = address`
fn set_address(lua: &mut Lua) -> CResult {
    let address = to_address(lua, 2)?;
    of_thread(lua, |script| {
        script.address = Some(Address::Tcp(address));
        script.tell_address(&address.to_string()).map_err(|text| tidegate_lua::error::Failure {
            message: text.into_bytes(),
            traceback: Vec::new(),
            kind: tidegate_lua::error::FailureKind::Runtime,
        })
    })?;
    Ok(0)
}

impl Script {
    /// `wrk.thread.addr` as the thread sees it.
    fn address_text(&mut self) -> Result<String, String> {
        self.call(b"address", |_| {}, 0, |lua| Ok(String::from_utf8_lossy(lua.to_bytes(-3).unwrap_or_default()).into()))
    }
    fn tell_address(&mut self, address: &str) -> Result<(), String> {
        self.call(b"address", |lua| lua.push_bytes(address.as_bytes()), 1, |_| Ok(()))
    }
}
