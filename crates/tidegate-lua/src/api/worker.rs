//! `ngx.worker.*` and `ngx.config.*`: what the process is and how it was started.

use std::ffi::c_int;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use tidegate_core::product::configure_arguments;
use tidegate_core::worker::{Worker, config, current};

use super::Family;
use super::compiled::ffi_functions;
use super::process::{is_supervised, supervisor_pid};
use crate::error::CResult;
use crate::function::function;
use crate::phase::Phase;
use crate::scheduler::with_run;
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "worker",
    cdef: "",
    ffi: ffi_functions! {
        id as "id": () -> c_int,
        count as "count": () -> c_int,
        exiting as "exiting": () -> bool,
        pid as "pid": () -> c_int,
    },
    functions: &[("pids", function(pids)), ("version", function(version)), ("configure", function(configure))],
};

/// Numbers of the workers' threads, by the workers' ids.
static PIDS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The number that a worker goes by: that of the process for the first, of the thread for the others.
///
/// Scripts take it for something that no two workers share: they seed random numbers with it, or name in it who sent a
/// message. Linux counts threads and processes in one sequence, so that no process has the number either, and a
/// signal that is sent to it reaches the server.
fn own_pid(worker: &Worker) -> u32 {
    if worker.id == 0 && !worker.is_agent() {
        return std::process::id();
    }
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }.unsigned_abs()
}

/// Notes the number of a worker that starts, on its thread.
pub(crate) fn note_pid(worker: &Rc<Worker>) {
    if worker.is_agent() {
        return;
    }
    let mut pids = PIDS.lock().unwrap_or_else(PoisonError::into_inner);
    if pids.len() <= worker.id {
        pids.resize(worker.id + 1, 0);
    }
    pids[worker.id] = own_pid(worker);
}

/// Whether `init_by_lua*` runs, which is the supervisor's business where there is one.
fn is_in_supervisor() -> bool {
    is_supervised() && with_run(|run| run.phase()) == Some(Phase::Init)
}

/// Number of the worker from 0; -1 outside of workers. In `init_by_lua*`, which serves all of them, 0.
fn id() -> c_int {
    match current() {
        Some(_) if is_in_supervisor() => 0,
        Some(worker) if !worker.is_agent() => c_int::try_from(worker.id).unwrap_or(c_int::MAX),
        _ => -1,
    }
}

/// Number of workers.
fn count() -> c_int {
    let configured = config().and_then(|config| config.main().worker_processes).unwrap_or(1);
    let count = match configured {
        // `auto`
        0 => std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
        count => count,
    };
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// Whether the worker accepts no more.
fn exiting() -> bool {
    current().is_some_and(|worker| worker.is_quitting())
}

/// The worker's number, in `init_by_lua*` the supervisor's.
fn pid() -> c_int {
    let pid = match current() {
        _ if is_in_supervisor() => supervisor_pid(),
        Some(worker) => own_pid(&worker),
        None => std::process::id(),
    };
    c_int::try_from(pid).unwrap_or(c_int::MAX)
}

/// `pids()`: the numbers of all workers that have started.
fn pids(lua: &mut Lua) -> CResult {
    let mut pids = PIDS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // After a reload there may be fewer workers than before.
    let count = config().and_then(|config| config.main().worker_processes).unwrap_or(1);
    if count > 0 {
        pids.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    }
    lua.push_table(0, 0);
    for (number, pid) in (1..).zip(pids.into_iter().filter(|&pid| pid != 0)) {
        lua.push_integer(pid.into());
        lua.raw_set_index(-2, number);
    }
    Ok(1)
}

/// `configure()`: how the program was built, in the words of nginx's `configure`.
fn configure(lua: &mut Lua) -> CResult {
    lua.push_bytes(configure_arguments().as_bytes());
    Ok(1)
}

/// `version()`: nginx's version that is followed, as a number: 1027001 for 1.27.1.
fn version(lua: &mut Lua) -> CResult {
    let number = tidegate_core::NGINX_VERSION
        .split('.')
        .fold(0, |number, part| number * 1000 + part.parse::<i64>().unwrap_or(0));
    lua.push_integer(number);
    Ok(1)
}
