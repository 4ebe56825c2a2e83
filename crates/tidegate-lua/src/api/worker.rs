//! `ngx.worker.*` and `ngx.config.*`: what the process is and how it was started.

use tidegate_core::special_response::configure_arguments;
use tidegate_core::worker::current;

use super::Family;
use crate::error::CResult;
use crate::function::function;
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "worker",
    cdef: "",
    ffi: &[],
    functions: &[
        ("id", function(id)),
        ("count", function(count)),
        ("exiting", function(exiting)),
        ("pid", function(pid)),
        ("version", function(version)),
        ("configure", function(configure)),
    ],
};

/// `id()`: number of the worker from 0; nil outside of workers.
fn id(lua: Lua) -> CResult {
    match current() {
        Some(worker) if !worker.is_agent() => lua.push_integer(worker.id as i64),
        _ => lua.push_nil(),
    }
    Ok(1)
}

/// `count()`: how many workers there are.
fn count(lua: Lua) -> CResult {
    let configured = current().and_then(|worker| worker.config().main().worker_processes).unwrap_or(1);
    let count = match configured {
        // `auto`
        0 => std::thread::available_parallelism().map_or(1, |count| count.get() as i64),
        count => i64::try_from(count).unwrap_or(i64::MAX),
    };
    lua.push_integer(count);
    Ok(1)
}

/// `exiting()`: whether the worker accepts no more.
fn exiting(lua: Lua) -> CResult {
    lua.push_bool(current().is_some_and(|worker| worker.is_quitting()));
    Ok(1)
}

/// `pid()`: number of the process, which all workers share.
fn pid(lua: Lua) -> CResult {
    lua.push_integer(std::process::id().into());
    Ok(1)
}

/// `configure()`: how the program was built, in the words of nginx's `configure`.
fn configure(lua: Lua) -> CResult {
    lua.push_bytes(configure_arguments().as_bytes());
    Ok(1)
}

/// `version()`: nginx's version that is followed, as a number: 1027001 for 1.27.1.
fn version(lua: Lua) -> CResult {
    let number = tidegate_core::NGINX_VERSION
        .split('.')
        .fold(0, |number, part| number * 1000 + part.parse::<i64>().unwrap_or(0));
    lua.push_integer(number);
    Ok(1)
}
