//! `ngx.process`: what kind of process this is. Workers are threads here; each counts as a process of its own.

use std::cell::Cell;

use tidegate_core::worker;

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::Phase;
use crate::scheduler::with_run;
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "process",
    cdef: "",
    ffi: &[],
    functions: &[
        ("role", function(role)),
        ("master_pid", function(master_pid)),
        ("enable_privileged_agent", function(enable_privileged_agent)),
        ("signal_graceful_exit", function(signal_graceful_exit)),
    ],
};

thread_local! {
    /// The script of `init_by_lua*` asked for a privileged agent.
    static AGENT_WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Whether `init_by_lua*` asked for a privileged agent since the last call.
pub(crate) fn take_agent_wanted() -> bool {
    AGENT_WANTED.take()
}

/// Whether a supervisor runs beside the server.
pub(crate) fn is_supervised() -> bool {
    worker::config().is_some_and(|config| config.main().master_process != Some(false))
}

/// `role()`: what the process is while `init_by_lua*` runs, and afterwards.
fn role(lua: &mut Lua) -> CResult {
    let (init, later) = match worker::current() {
        Some(worker) if worker.is_agent() => ("master", "privileged agent"),
        _ if is_supervised() => ("master", "worker"),
        Some(_) => ("single", "single"),
        None => ("worker", "worker"),
    };
    lua.push_bytes(init.as_bytes());
    lua.push_bytes(later.as_bytes());
    Ok(2)
}

/// Number of the supervisor, or of this process where there is none.
pub(crate) fn supervisor_pid() -> u32 {
    if !is_supervised() {
        return std::process::id();
    }
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getppid() }.unsigned_abs()
}

/// `master_pid()`: number of the supervisor, or of this process where there is none.
fn master_pid(lua: &mut Lua) -> CResult {
    lua.push_integer(supervisor_pid().into());
    Ok(1)
}

/// `enable_privileged_agent()`: true, or nil and why not.
fn enable_privileged_agent(lua: &mut Lua) -> CResult {
    if with_run(|run| run.phase()) != Some(Phase::Init) {
        lua.push_nil();
        lua.push_bytes(b"API disabled in the current context");
        return Ok(2);
    }
    AGENT_WANTED.set(true);
    lua.push_bool(true);
    Ok(1)
}

/// `signal_graceful_exit()`: the worker finishes its requests and ends; another one takes its place. Without a supervisor the
/// worker is the process, which ends as at a `QUIT`.
fn signal_graceful_exit(_: &mut Lua) -> CResult {
    let Some(worker) = worker::current() else { return Err(LuaError::new("no worker on this thread")) };
    if is_supervised() || worker.is_agent() {
        worker.quit_gracefully();
    } else {
        // SAFETY: takes two numbers; the handler of this signal was set when the process started.
        unsafe { libc::kill(libc::getpid(), libc::SIGQUIT) };
    }
    Ok(0)
}
