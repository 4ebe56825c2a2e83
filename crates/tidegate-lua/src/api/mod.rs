//! The `ngx.*` API, one file per family.
//!
//! # How to add a family
//!
//! 1. `src/api/NAME.rs`: the Rust functions and a `pub(crate) static FAMILY: Family`.
//! 2. `lualib/tidegate/api/NAME.lua`: the Lua half. It is called once per virtual machine with `(ngx, native, base)`:
//!    `ngx` is the global table to add functions to, `native` holds this family's functions by name, `base` holds what
//!    families share (`lualib/tidegate/boot.lua` lists it). A family without a Lua half may leave the file out: its
//!    classic functions are reached by others as `base.native.NAME`.
//! 3. A line in [`FAMILIES`]. Order matters only where one Lua half uses another's functions at load time.
//!
//! # Which kind of function
//!
//! | | [`Family::ffi`] | [`Family::functions`] |
//! | --- | --- | --- |
//! | is | a plain Rust function in a list that makes its shim and C declaration ([`compiled`]) | a classic function on the Lua stack |
//! | in traces | compiled: about the cost of a C call | ends the trace (LuaJIT stitches the halves) |
//! | may run Lua, raise, touch the stack | **never** | yes |
//! | use it for | everything on the hot path | everything that takes or gives tables, functions, many values |
//!
//! An FFI function that runs Lua code corrupts the virtual machine: a compiled trace keeps its state in registers. So
//! nothing that may call a filter, a callback or a finalizer is an FFI function.
//!
//! # Errors in FFI functions
//!
//! They return a negative number after [`ffi_error`] has kept the message; the Lua half calls `base.raise()`, or
//! returns `nil, base.message()`.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::rc::Rc;

use mlua_sys as ffi;
use mlua_sys::lua_CFunction;

use tidegate_core::request::Request;

use crate::api::compiled::FfiFunction;
use crate::bundle;
use crate::error::{CResult, Failure, LuaError};
use crate::function::function;
use crate::host::LogLevel;
use crate::phase::Phases;
use crate::scheduler::{Run, with_run};
use crate::stack::{Lua, Type};
use crate::vm::Vm;

mod aes;
mod arg;
mod args;
mod balancer;
mod base;
mod body;
mod capture;
mod cjson;
mod command;
pub(crate) mod compiled;
mod control;
pub(crate) mod coroutine;
pub(crate) mod ctx;
mod digest;
mod errlog;
pub(crate) mod fault;
pub(crate) mod init_once;
mod log;
mod mysql;
mod ndk;
pub(crate) mod output;
mod pipe;
pub(crate) mod process;
mod proxy_ssl;
mod queue;
mod rds;
mod redirect;
mod regex;
mod req;
mod require;
mod resp;
mod semaphore;
pub(crate) mod shdict;
mod sleep;
mod socket;
mod sql;
mod ssl;
mod stdlib;
mod thread;
mod time;
mod timer;
mod upstream;
mod uri;
mod var;
pub(crate) mod worker;
mod worker_thread;

/// All families, in the order in which their Lua halves run.
static FAMILIES: &[&Family] = &[
    &base::FAMILY,
    &log::FAMILY,
    &coroutine::FAMILY,
    &thread::FAMILY,
    &control::FAMILY,
    &output::FAMILY,
    &var::FAMILY,
    &worker::FAMILY,
    &args::FAMILY,
    &uri::FAMILY,
    &req::FAMILY,
    &body::FAMILY,
    &resp::FAMILY,
    &ctx::FAMILY,
    &arg::FAMILY,
    &rds::FAMILY,
    &redirect::FAMILY,
    &capture::FAMILY,
    &time::FAMILY,
    &sleep::FAMILY,
    &require::FAMILY,
    &stdlib::FAMILY,
    &timer::FAMILY,
    &semaphore::FAMILY,
    &socket::FAMILY,
    &mysql::FAMILY,
    &shdict::FAMILY,
    &regex::FAMILY,
    &cjson::FAMILY,
    &digest::FAMILY,
    &balancer::FAMILY,
    &worker_thread::FAMILY,
    &errlog::FAMILY,
    &aes::FAMILY,
    &command::FAMILY,
    &ndk::FAMILY,
    &process::FAMILY,
    &pipe::FAMILY,
    &sql::FAMILY,
    &queue::FAMILY,
    &ssl::FAMILY,
    &proxy_ssl::FAMILY,
    &upstream::FAMILY,
    &init_once::FAMILY,
    &fault::FAMILY,
];

/// A family of API functions.
pub(crate) struct Family {
    /// Name of the Rust file, of the Lua file and in `base.native`.
    pub(crate) name: &'static str,
    /// C types that the declarations below use, for `ffi.cdef`; names begin with `tg_`.
    pub(crate) cdef: &'static str,
    /// Functions called through the FFI.
    pub(crate) ffi: &'static [FfiFunction],
    /// Functions called through the classic API.
    pub(crate) functions: &'static [(&'static str, lua_CFunction)],
}

thread_local! {
    static FFI_ERROR: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Keeps `message` for the Lua half and gives the number that says so.
#[cold]
pub(crate) fn ffi_error(message: &[u8]) -> c_int {
    FFI_ERROR.with_borrow_mut(|kept| {
        kept.clear();
        kept.extend_from_slice(message);
    });
    -1
}

/// As [`ffi_error`], for an error of the other kind of function.
#[cold]
pub(crate) fn ffi_lua_error(error: &LuaError) -> c_int {
    match error {
        LuaError::Message(text) => ffi_error(text.as_bytes()),
        LuaError::Bare(text) => ffi_error(text),
        LuaError::Argument { reason, .. } => ffi_error(reason.as_bytes()),
        LuaError::ArgumentType { expected, .. } => ffi_error(expected.as_bytes()),
        LuaError::OnStack => ffi_error(b"error"),
    }
}

/// The message of the FFI function that failed last.
pub(crate) fn take_ffi_error(lua: &mut Lua) -> CResult {
    let message = FFI_ERROR.take();
    lua.push_bytes(&message);
    Ok(1)
}

/// Raises the message of the FFI function that failed last, at the place of the script that called the API function.
pub(crate) fn raise_ffi_error(_lua: &mut Lua) -> CResult {
    Err(LuaError::from(String::from_utf8_lossy(&FFI_ERROR.take()).into_owned()))
}

/// Calls `body` with the request that runs, for an FFI function; an error where there is none.
pub(crate) fn ffi_request(body: impl FnOnce(&Run, &Rc<Request>) -> c_int) -> c_int {
    with_run(|run| match run.any_request() {
        Ok(req) => body(run, req),
        Err(error) => ffi_lua_error(&error),
    })
    .unwrap_or_else(|| ffi_error(b"no request found"))
}

/// The request that runs, for a classic function that is allowed in some phases.
///
/// # Errors
/// Outside of those phases, or where there is no request.
pub(crate) fn request(allowed: Phases) -> Result<Rc<Request>, LuaError> {
    with_run(|run| run.request_in(allowed).cloned()).unwrap_or(Err(LuaError::new("no request found")))
}

/// As [`request`], for the functions that in OpenResty miss the request before they look at the phase.
///
/// # Errors
/// Where there is no request, or outside of those phases.
pub(crate) fn some_request(allowed: Phases) -> Result<Rc<Request>, LuaError> {
    with_run(|run| {
        let req = run.any_request()?;
        allowed.check(run.phase())?;
        Ok(req.clone())
    })
    .unwrap_or(Err(LuaError::new("no request found")))
}

/// Writes a line to the error log at its most talkative; the text is made only if somebody reads it.
pub(crate) fn log_debug(text: impl FnOnce() -> String) {
    with_run(|run| {
        if run.host().logs(LogLevel::Debug) {
            run.host().log(LogLevel::Debug, text().as_bytes());
        }
    });
}

/// Pushes a table of all functions that scripts can ever come by: `{ family = { name = function } }`, and one of the FFI
/// functions: `{ family = { name = { C type, address, C types of parameters … } } }`.
#[cfg(test)]
pub(crate) fn push_everything(lua: &mut Lua) {
    lua.push_table(0, 0);
    lua.push_table(0, 0);
    for family in FAMILIES {
        lua.push_table(0, 0);
        for (name, function) in family.functions {
            lua.push_function(*function);
            lua.raw_set_field(-2, name.as_bytes());
        }
        lua.raw_set_field(-3, family.name.as_bytes());
        lua.push_table(0, 0);
        for function in family.ffi {
            lua.push_table(0, 0);
            lua.push_bytes(function.ctype().as_bytes());
            lua.raw_set_index(-2, 1);
            lua.push_light(function.address.0);
            lua.raw_set_index(-2, 2);
            for (number, parameter) in (3..).zip(function.parameters) {
                lua.push_bytes(parameter.as_bytes());
                lua.raw_set_index(-2, number);
            }
            lua.raw_set_field(-2, function.name.as_bytes());
        }
        lua.raw_set_field(-2, family.name.as_bytes());
    }
}

/// Loads the API into a new virtual machine.
pub(crate) fn load(vm: &Rc<Vm>) -> Result<(), Failure> {
    // SAFETY: nobody else works with the new machine; the body uses its own stack only.
    let lua = unsafe { vm.main().lua() };
    let mut broken = None;
    lua.protect(|lua| {
        lua.reserve(16)?;
        broken = push_boot(lua, vm).err();
        if broken.is_some() {
            return Ok(());
        }
        // The boot chunk's failure carries its traceback: it is called in here so that everything is protected.
        broken = lua.call(1, 0).err();
        Ok(())
    })?;
    broken.map_or(Ok(()), Err)
}

/// Pushes the boot chunk and its argument.
fn push_boot(lua: &mut Lua, vm: &Rc<Vm>) -> Result<(), Failure> {
    push_chunk(lua, "tidegate.boot")?;
    lua.push_table(0, 9);
    lua.push_table(c_int::try_from(FAMILIES.len()).unwrap_or(0), 0);
    for (number, family) in (1..).zip(FAMILIES) {
        push_family(lua, family)?;
        lua.raw_set_index(-2, number);
    }
    lua.raw_set_field(-2, b"families");
    push_chunk_as(lua, "tidegate.write_guard", c"=_G write guard")?;
    lua.raw_set_field(-2, b"write_guard");
    lua.push_light(Vm::token());
    lua.raw_set_field(-2, b"token");
    lua.push_light(std::ptr::null());
    lua.raw_set_field(-2, b"null");
    lua.push_function(function(bundle::load));
    lua.raw_set_field(-2, b"bundled");
    let config = vm.config();
    if let Some(path) = &config.package_path {
        lua.push_bytes(path);
        lua.raw_set_field(-2, b"package_path");
    }
    if let Some(path) = &config.package_cpath {
        lua.push_bytes(path);
        lua.raw_set_field(-2, b"package_cpath");
    }
    lua.push_bool(config.prefers_bundled);
    lua.raw_set_field(-2, b"prefers_bundled");
    lua.push_number(config.regex_cache_max_entries as f64);
    lua.raw_set_field(-2, b"regex_cache_max_entries");
    lua.push_number(f64::from(config.regex_match_limit));
    lua.raw_set_field(-2, b"regex_match_limit");
    lua.push_table(0, c_int::try_from(config.shared_dicts.len()).unwrap_or(0));
    for dict in vm.dicts() {
        lua.push_number(f64::from(dict.number()));
        lua.raw_set_field(-2, dict.zone().name());
    }
    lua.raw_set_field(-2, b"shared_dicts");
    lua.push_bytes(config.prefix.as_os_str().as_encoded_bytes());
    lua.raw_set_field(-2, b"prefix");
    Ok(())
}

fn push_family(lua: &mut Lua, family: &Family) -> Result<(), Failure> {
    lua.push_table(0, 5);
    lua.push_bytes(family.name.as_bytes());
    lua.raw_set_field(-2, b"name");
    lua.push_bytes(family.cdef.as_bytes());
    lua.raw_set_field(-2, b"cdef");
    lua.push_table(0, c_int::try_from(family.functions.len() + family.ffi.len()).unwrap_or(0));
    for (name, function) in family.functions {
        lua.push_function(*function);
        lua.raw_set_field(-2, name.as_bytes());
    }
    lua.raw_set_field(-2, b"native");
    lua.push_table(0, c_int::try_from(family.ffi.len()).unwrap_or(0));
    for function in family.ffi {
        lua.push_table(2, 0);
        lua.push_bytes(function.ctype().as_bytes());
        lua.raw_set_index(-2, 1);
        lua.push_light(function.address.0);
        lua.raw_set_index(-2, 2);
        lua.raw_set_field(-2, function.name.as_bytes());
    }
    lua.raw_set_field(-2, b"ffi");
    let module = format!("tidegate.api.{}", family.name);
    if bundle::source(module.as_bytes()).is_some() {
        push_chunk(lua, &module)?;
        lua.raw_set_field(-2, b"chunk");
    }
    Ok(())
}

/// Compiles the internal module `name` and pushes the function.
fn push_chunk(lua: &mut Lua, name: &str) -> Result<(), Failure> {
    let chunk_name = CString::new(format!("={name}")).unwrap_or_default();
    push_chunk_as(lua, name, &chunk_name)
}

fn push_chunk_as(lua: &mut Lua, name: &str, chunk_name: &CStr) -> Result<(), Failure> {
    lua.load(bundle::source(name.as_bytes()).unwrap_or_default(), chunk_name)
}

/// Demands that argument `n` is a Lua function (C functions cannot be entry points in OpenResty).
pub(crate) fn check_lua_function(lua: &mut Lua, n: c_int) -> Result<(), LuaError> {
    if lua.type_of(n) == Type::Function && !lua.is_c_function(n) {
        return Ok(());
    }
    Err(LuaError::argument(n, "Lua function expected"))
}

/// Pushes the registry's value under the light key `key`.
pub(crate) fn push_registry(lua: &mut Lua, key: *const c_void) {
    lua.push_light(key);
    lua.raw_get(ffi::LUA_REGISTRYINDEX);
}
