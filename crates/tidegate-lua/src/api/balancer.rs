//! `ngx.balancer`: what `balancer_by_lua*` decides about a try.
//!
//! The Lua half (`lualib/ngx/balancer.lua`) checks arguments; these functions change the [`Attempt`] of the request.

use std::sync::Arc;

use bstr::{BString, ByteSlice};
use tidegate_core::upstream::balance::Attempt;
use tidegate_core::upstream::failure::Failure;
use tidegate_core::upstream::group::KeepAlive;
use tidegate_core::upstream::socket::Bind;
use tidegate_core::upstream::url::{HostKind, Url};
use tidegate_core::upstream::{Address, Peer};

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::Phase;
use crate::request_context::LuaContext;
use crate::scheduler::with_run;
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "balancer",
    cdef: "",
    ffi: &[],
    functions: &[
        ("set_current_peer", function(set_current_peer)),
        ("enable_keepalive", function(enable_keepalive)),
        ("set_more_tries", function(set_more_tries)),
        ("get_last_failure", function(get_last_failure)),
        ("set_timeouts", function(set_timeouts)),
        ("recreate_request", function(recreate_request)),
        ("set_upstream_tls", function(set_upstream_tls)),
        ("bind_to_local_addr", function(bind_to_local_addr)),
    ],
};

/// Lets `change` decide about the attempt; answers `true` (and what it pushed), or `nil` and why not.
fn decide(lua: &mut Lua, change: impl FnOnce(&mut Attempt) -> Result<Option<&'static str>, String>) -> CResult {
    let decided = with_run(|run| {
        let Ok(req) = run.any_request() else { return Err(LuaError::new("no request found")) };
        let refuse = |reason: &str| Ok(Err(reason.to_owned()));
        let asks_upstream = req.upstream_record(|_| ()).is_some();
        let Some(context) = req.find_context::<LuaContext>().filter(|_| asks_upstream) else {
            return refuse("no upstream found");
        };
        if run.phase() != Phase::Balancer {
            return refuse("API disabled in the current context");
        }
        let mut attempt = context.attempt.borrow_mut();
        Ok(attempt.as_mut().map_or_else(|| Err("no upstream found".to_owned()), change))
    })
    .unwrap_or(Err(LuaError::new("no request found")))?;
    match decided {
        Ok(warning) => {
            lua.push_bool(true);
            warning.inspect(|warning| lua.push_bytes(warning.as_bytes()));
            Ok(1 + i32::from(warning.is_some()))
        }
        Err(reason) => {
            lua.push_nil();
            lua.push_bytes(reason.as_bytes());
            Ok(2)
        }
    }
}

/// `set_current_peer(address, port, host?)`
fn set_current_peer(lua: &mut Lua) -> CResult {
    let text = BString::from(lua.check_bytes(1)?);
    let port = lua.check_number(2)?;
    let host = BString::from(lua.to_bytes(3).unwrap_or_default());
    decide(lua, |attempt| {
        let url = Url::parse(text.as_bstr(), false).map_err(|error| error.to_string())?;
        // As in nginx the port is cut to 16 bits.
        let address = url.address(port as i64 as u16).ok_or("no host allowed")?;
        let mut peer = Peer::new(address, text);
        peer.max_fails = 0;
        attempt.peer = Some(Arc::new(peer));
        attempt.keepalive_key = host;
        Ok(None)
    })
}

/// `enable_keepalive(idle_timeout_ms, max_requests)`
fn enable_keepalive(lua: &mut Lua) -> CResult {
    let (timeout_ms, requests) = (lua.check_number(1)? as u64, lua.check_number(2)? as u64);
    decide(lua, |attempt| {
        if attempt.peer.is_none() {
            return Err("no current peer set".to_owned());
        }
        attempt.keepalive = KeepAlive {
            connections: attempt.keepalive_connections,
            requests: if requests == 0 { u64::MAX } else { requests },
            time_ms: u64::MAX,
            timeout_ms: if timeout_ms == 0 { u64::MAX } else { timeout_ms },
        };
        Ok(None)
    })
}

/// `set_more_tries(count)`: `true`, and a warning when there may not be so many.
fn set_more_tries(lua: &mut Lua) -> CResult {
    let count = lua.check_number(1)? as i64;
    decide(lua, |attempt| {
        let mut count = u32::try_from(count).unwrap_or(0);
        // Tries before this one, and those that are left.
        let total = attempt.number.saturating_add(attempt.tries);
        let mut warning = None;
        if attempt.tries_max > 0 && total.saturating_add(count) > attempt.tries_max {
            count = attempt.tries_max.saturating_sub(total);
            warning = Some("reduced tries due to limit");
        }
        attempt.tries = attempt.tries.saturating_add(count);
        Ok(warning)
    })
}

/// `get_last_failure()`: nothing before the first try, else `"next"` or `"failed"` and the status that it came to.
fn get_last_failure(lua: &mut Lua) -> CResult {
    let mut last = None;
    let answers = decide(lua, |attempt| {
        last = attempt.last_failure;
        Ok(None)
    })?;
    if answers == 2 {
        return Ok(2);
    }
    let Some(failure) = last else {
        lua.push_nil();
        return Ok(1);
    };
    lua.push_bytes(match failure {
        Failure::Status(403 | 404) => b"next",
        _ => b"failed",
    });
    lua.push_integer(failure.status().into());
    Ok(2)
}

/// `set_timeouts(connect_ms, send_ms, read_ms)`; 0 leaves one as it is.
fn set_timeouts(lua: &mut Lua) -> CResult {
    let times = [lua.check_number(1)?, lua.check_number(2)?, lua.check_number(3)?];
    decide(lua, |attempt| {
        let timeouts = &mut attempt.timeouts;
        let slots = [&mut timeouts.connect_ms, &mut timeouts.send_ms, &mut timeouts.read_ms];
        for (slot, ms) in slots.into_iter().zip(times) {
            if ms > 0.0 {
                *slot = (ms as u64).max(1);
            }
        }
        Ok(None)
    })
}

/// `recreate_request()`
fn recreate_request(lua: &mut Lua) -> CResult {
    decide(lua, |attempt| {
        attempt.recreate_request = true;
        Ok(None)
    })
}

/// `set_upstream_tls(on)`: for this try and those behind it.
fn set_upstream_tls(lua: &mut Lua) -> CResult {
    let on = lua.to_bool(1);
    decide(lua, |attempt| {
        if on && !attempt.offers_tls {
            return Err("the location that asks says nothing of TLS: it needs \"proxy_pass https://…\"".to_owned());
        }
        attempt.omits_tls = !on;
        Ok(None)
    })
}

/// `bind_to_local_addr(address)`
fn bind_to_local_addr(lua: &mut Lua) -> CResult {
    let text = BString::from(lua.check_bytes(1)?);
    decide(lua, |attempt| {
        let url = Url::parse(text.as_bstr(), false).ok();
        let address = url.filter(|url| matches!(url.kind, HostKind::Ip(_))).and_then(|url| url.address(0));
        let Some(Address::Inet(address)) = address else { return Err(format!("invalid addr {text}")) };
        attempt.bind = Some(Bind { ip: address.ip(), port: address.port(), transparent: false });
        Ok(None)
    })
}
