//! `setkeepalive` and `getreusedtimes`.

use std::time::Duration;

use tidegate_core::worker;

use super::failure::{debug, push_nil_error};
use super::owner::Closing;
use super::pool;
use super::settings::Settings;
use super::tcp::{BUSY_CONNECTING, Call, Operation, call};
use crate::error::{CResult, LuaError};
use crate::stack::Lua;

/// `setkeepalive(socket, timeout?, size?)`: puts the connection into its pool.
pub(super) fn set_keepalive(lua: &mut Lua) -> CResult {
    if !(1..=3).contains(&lua.top()) {
        let text = "expecting 1 to 3 arguments (including the object), but got";
        return Err(LuaError::from(format!("{text} {}", lua.top())));
    }
    let Call { tcp, host } = call(lua)?;
    let settings = Settings::of(&host);
    let number = |index: i32| {
        if lua.is_none_or_nil(index) {
            return Ok(None);
        }
        let value = lua.to_number(index);
        let wrong = || LuaError::argument(index, format!("number expected, got {}", lua.type_name(index)));
        value.map(|value| Some(value as i64)).ok_or_else(wrong)
    };
    let timeout = match number(2)? {
        None => settings.keepalive_timeout,
        Some(ms) => Duration::from_millis(u64::try_from(ms).unwrap_or(0)),
    };
    let size = number(3)?;
    let Some(conn) = tcp.conn().filter(|conn| !conn.read_closed() && !conn.write_closed.get()) else {
        return push_nil_error(lua, if tcp.dialing.get() { BUSY_CONNECTING } else { "closed" });
    };
    let all = &[Operation::Connect, Operation::Read, Operation::Write];
    if let Err(refusal) = tcp.check_owner(&host).and_then(|()| tcp.check_idle(all)) {
        return refusal.end(lua);
    }
    if conn.is_downstream() {
        return Err(LuaError::new("attempt to keep a request socket alive"));
    }
    if !conn.input.borrow().is_empty() {
        return push_nil_error(lua, "unread data in buffer");
    }
    match conn.try_fill(1) {
        None if conn.transport().borrow().is_ended() => {
            tcp.close_now();
            return push_nil_error(lua, "closed");
        }
        None => {}
        Some(Ok(1..)) => {
            tcp.close_now();
            return push_nil_error(lua, "connection in dubious state");
        }
        Some(_) => {
            tcp.close_now();
            return push_nil_error(lua, "closed");
        }
    }
    conn.input.borrow_mut().release();
    let counted = conn.place.borrow().as_ref().map(|place| place.pool().clone());
    let pool = match counted {
        Some(pool) => pool,
        None => {
            let key = tcp.key.borrow();
            let size = match size {
                None => settings.pool_size,
                Some(size) => match usize::try_from(size) {
                    Ok(size) if size > 0 => size,
                    _ => {
                        let message = format!("bad \"pool_size\" option value: {size}");
                        return Err(LuaError::argument(3, message));
                    }
                },
            };
            match pool::find_or_make(&host, &key, size, None) {
                Ok(pool) => pool,
                Err(why) => return push_nil_error(lua, why),
            }
        }
    };
    tcp.detach();
    if worker::current().is_some_and(|worker| worker.is_quitting()) {
        debug(&host, || "lua tcp socket set keepalive while process exiting, closing connection".to_owned());
    } else {
        if conn.place.borrow().is_none() {
            conn.place.replace(Some(pool.enter()));
        }
        debug(&host, || match timeout.as_millis() {
            0 => "lua tcp socket keepalive timeout: unlimited".to_owned(),
            ms => format!("lua tcp socket keepalive timeout: {ms} ms"),
        });
        pool.keep(conn, (!timeout.is_zero()).then_some(timeout));
    }
    lua.push_integer(1);
    Ok(1)
}

/// `getreusedtimes(socket)`: how often the connection came out of a pool.
pub(super) fn reused_times(lua: &mut Lua) -> CResult {
    if lua.top() != 1 {
        return Err(LuaError::from(format!("expecting 1 argument (including the object), but got {}", lua.top())));
    }
    let Call { tcp, host } = call(lua)?;
    let Some(conn) = tcp.conn() else {
        if tcp.dialing.get() {
            lua.push_integer(0);
            return Ok(1);
        }
        return push_nil_error(lua, "closed");
    };
    if let Err(refusal) = tcp.check_owner(&host).and_then(|()| tcp.check_idle(&[Operation::Connect])) {
        return refusal.end(lua);
    }
    lua.push_integer(i64::try_from(conn.reused.get()).unwrap_or(i64::MAX));
    Ok(1)
}
