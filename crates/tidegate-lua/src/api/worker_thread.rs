//! `ngx.run_worker_thread`: calls a function of a module on a thread of a `thread_pool`.

use bstr::ByteSlice;
use tidegate_core::worker;
use tokio::sync::oneshot;

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::{Phase, Phases};
use crate::portable::Value;
use crate::scheduler::{Answer, with_run};
use crate::settings;
use crate::stack::{Lua, Type};
use crate::worker_thread::{Pool, Results, Slot, Task, keep_results, runner_key};

pub(crate) static FAMILY: Family = Family {
    name: "worker_thread",
    cdef: "",
    ffi: &[],
    functions: &[
        ("run", function(run)),
        ("keep_results", function(keep)),
        ("keep_failure", function(keep_failure)),
        ("set_runner", function(set_runner)),
    ],
};

/// `lua_worker_thread_vm_pool_size` by default.
const VM_POOL_SIZE: u64 = 10;

/// Wherever a light thread may wait.
const PHASES: Phases = Phases::except(&[Phase::Init, Phase::ExitWorker, Phase::WorkerThread]);

fn refuse(lua: &mut Lua, reason: &[u8]) -> CResult {
    lua.set_top(0);
    lua.push_bool(false);
    lua.push_bytes(reason);
    Ok(2)
}

/// `run(pool, module, function, …)`: `false` and why not, or nothing when the Lua half is to await the results.
fn run(lua: &mut Lua) -> CResult {
    with_run(|run| PHASES.check(run.phase())).unwrap_or(Err(LuaError::new("no request found")))?;
    let count = lua.top();
    if count < 3 {
        return refuse(lua, b"expecting at least 3 arguments");
    }
    if !matches!(lua.type_of(1), Type::String | Type::Number) {
        return refuse(lua, b"threadpool should be a string");
    }
    let name = lua.to_bytes(1).unwrap_or_default().to_vec();
    let Some(config) = worker::config() else { return refuse(lua, b"no worker on this thread") };
    let Some(pool) = Pool::find(&config, name.as_bstr()) else {
        return refuse(lua, &[b"thread pool ", name.as_slice(), b" not found"].concat());
    };
    if !matches!(lua.type_of(2), Type::String | Type::Number) {
        return refuse(lua, b"module name should be a string");
    }
    if !matches!(lua.type_of(3), Type::String | Type::Number) {
        return refuse(lua, b"function name should be a string");
    }
    let settings = config.http_conf(&settings::MODULE);
    let limit = settings.lua_worker_thread_vm_pool_size.unwrap_or(VM_POOL_SIZE);
    let Some(slot) = Slot::take(usize::try_from(limit).unwrap_or(usize::MAX)) else {
        return refuse(lua, b"no available Lua vm");
    };
    let arguments = (4..=count).map(|index| Value::copy(lua, index)).collect::<Result<Vec<_>, _>>();
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(reason) => return refuse(lua, format!("{reason} in the argument").as_bytes()),
    };
    let (reply, answer) = oneshot::channel();
    let task = Task {
        config: config.clone(),
        module: lua.to_bytes(2).unwrap_or_default().to_vec(),
        function: lua.to_bytes(3).unwrap_or_default().to_vec(),
        arguments,
        reply,
        slot,
    };
    with_run(|run| {
        run.wait(lua, async move {
            let results = match pool.post(task) {
                Ok(()) => answer.await.unwrap_or_else(|_| Err(b"the worker thread has gone".to_vec())),
                Err(_) => Err(b"ngx_thread_task_post failed".to_vec()),
            };
            Answer::Push(Box::new(move |lua| push_results(lua, &results)))
        })
    })
    .unwrap_or(Err(LuaError::new("no request found")))?;
    Ok(0)
}

fn push_results(lua: &mut Lua, results: &Results) -> CResult {
    match results {
        Ok(values) => {
            let count = i32::try_from(values.len()).unwrap_or(i32::MAX - 1);
            lua.reserve(count + 1)?;
            lua.push_bool(true);
            for value in values {
                value.push(lua)?;
            }
            Ok(count + 1)
        }
        Err(message) => {
            lua.push_bool(false);
            lua.push_bytes(message);
            Ok(2)
        }
    }
}

/// `keep_results(…)`: what the user's function returned.
fn keep(lua: &mut Lua) -> CResult {
    let values = (1..=lua.top()).map(|index| Value::copy(lua, index)).collect::<Result<Vec<_>, _>>();
    keep_results(values.map_err(|reason| format!("{reason} in the return value").into_bytes()));
    Ok(0)
}

/// `keep_failure(message)`: the error that the user's function raised.
fn keep_failure(lua: &mut Lua) -> CResult {
    keep_results(Err(lua.check_bytes(1)?.to_vec()));
    Ok(0)
}

/// `set_runner(function)`: the function that calls the user's.
fn set_runner(lua: &mut Lua) -> CResult {
    lua.set_top(1);
    lua.push_light(runner_key());
    lua.insert(1);
    lua.raw_set(mlua_sys::LUA_REGISTRYINDEX);
    Ok(0)
}
