//! `ngx.pipe`: child processes. The Lua half (`lualib/ngx/pipe.lua`) checks arguments and adds the methods.

use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use super::{Family, log_debug};
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::host::{Host, LogLevel};
use crate::phase::{Phase, Phases};
use crate::pipe::{Direction, Process, Program, SpawnError, Trouble, Want, split_variable};
use crate::scheduler::{Answer, with_run};
use crate::stack::{Lua, Type};
use crate::userdata::{Userdata, push_metatable, push_userdata, to_userdata};

pub(crate) static FAMILY: Family = Family {
    name: "pipe",
    cdef: "",
    ffi: &[],
    functions: &[
        ("spawn", function(spawn)),
        ("metatable", function(metatable)),
        ("pid", function(pid)),
        ("set_timeout", function(set_timeout)),
        ("read", function(read)),
        ("write", function(write)),
        ("wait", function(wait)),
        ("kill", function(kill)),
        ("shutdown", function(shutdown)),
    ],
};

#[derive(Clone)]
struct Handle(Rc<Process>);

impl Userdata for Handle {
    const NAME: &'static CStr = c"tidegate.pipe";
    const TYPE_NAME: &'static str = "process";
}

fn process(lua: &Lua) -> Result<Rc<Process>, LuaError> {
    to_userdata::<Handle>(lua, 1).map(|handle| handle.0).ok_or(LuaError::new("not a process instance"))
}

fn refuse(lua: &mut Lua, reason: &str) -> CResult {
    lua.push_nil();
    lua.push_bytes(reason.as_bytes());
    Ok(2)
}

/// Where processes are started: there must be an event loop.
const SPAWN: Phases = Phases::except(&[Phase::Init, Phase::WorkerThread]);

fn strings(lua: &mut Lua, table: i32) -> Vec<Vec<u8>> {
    let count = i32::try_from(lua.raw_len(table)).unwrap_or(i32::MAX);
    let mut list = Vec::new();
    for index in 1..=count {
        lua.raw_get_index(table, index);
        let Some(text) = lua.to_bytes(-1).map(<[u8]>::to_vec) else {
            lua.pop(1);
            break;
        };
        lua.pop(1);
        list.push(text);
    }
    list
}

/// `spawn(arguments, environment or nil, merge_stderr, buffer_size)`: a process, or nil and a message.
fn spawn(lua: &mut Lua) -> CResult {
    with_run(|run| {
        if SPAWN.contains(run.phase()) { Ok(()) } else { Err(LuaError::new("API disabled in the current context")) }
    })
    .unwrap_or(Err(LuaError::new("no request found")))?;
    let arguments: Vec<OsString> = strings(lua, 1).iter().map(|text| OsStr::from_bytes(text).to_owned()).collect();
    let environment = (lua.type_of(2) == Type::Table)
        .then(|| strings(lua, 2).iter().filter_map(|text| split_variable(text)).collect());
    let buffer_bytes = lua.check_number(4)? as usize;
    let merge_stderr = lua.to_bool(3);
    let program = Program { arguments, environment, merge_stderr, buffer_bytes: buffer_bytes.clamp(1, 1 << 20) };
    let process = match Process::spawn(&program) {
        Ok(process) => process,
        Err(SpawnError::Program(error)) => {
            report_program(&program, &error);
            Process::stillborn()
        }
        Err(SpawnError::System(error)) => {
            return refuse(lua, &format!("fork failed: {}", Trouble::System(error).message()));
        }
    };
    log_debug(|| {
        let pid = process.pid;
        format!(
            "lua pipe spawn process:{pid:X} pid:{pid} merge_stderr:{} buffer_size:{buffer_bytes}",
            u8::from(merge_stderr)
        )
    });
    push_userdata(lua, Handle(Rc::new(process)));
    Ok(1)
}

/// What lua-nginx-module's child writes when the program cannot be run.
fn report_program(program: &Program, error: &io::Error) {
    let call = if program.environment.is_some() { "execvpe" } else { "execvp" };
    let name = program.arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let error = tidegate_net::log::SysError(error);
    let text = format!("lua pipe child {call}() failed while executing {name} {error}");
    with_run(|run| run.host().log(LogLevel::Error, text.as_bytes()));
}

/// `metatable()`: that of processes.
fn metatable(lua: &mut Lua) -> CResult {
    push_metatable::<Handle>(lua);
    Ok(1)
}

/// `pid(process)`
fn pid(lua: &mut Lua) -> CResult {
    lua.push_integer(process(lua)?.pid.into());
    Ok(1)
}

/// `set_timeout(process, which, ms)`; `which`: 1 write, 2 stdout read, 3 stderr read, 4 wait.
fn set_timeout(lua: &mut Lua) -> CResult {
    let process = process(lua)?;
    let which = usize::try_from(lua.check_integer(2)?).unwrap_or(0);
    let ms = lua.check_number(3)? as u64;
    if let Some(timeout) = which.checked_sub(1).and_then(|at| process.timeouts_ms.get(at)) {
        timeout.set(ms);
    }
    Ok(0)
}

fn check_wait() -> Result<(), LuaError> {
    with_run(|run| Phases::YIELDABLE.check(run.phase())).unwrap_or(Err(LuaError::new("no request found")))
}

/// The line of lua-nginx-module's debug log about a wait that was cut short.
struct Cleanup(Option<(Host, &'static str)>);

impl Cleanup {
    /// Tells of a wait that begins.
    fn begin(process: &Process, doing: &'static str, what: &'static str, timeout_ms: u64) -> Cleanup {
        log_debug(|| {
            let pid = process.pid;
            format!("lua pipe add timer for {doing}: {timeout_ms}(ms) process:{pid:X} pid:{pid}")
        });
        log_debug(|| {
            let doing = what.split(' ').next().unwrap_or_default();
            format!("lua pipe {doing} yielding process:{:X} pid:{}", process.pid, process.pid)
        });
        Cleanup(with_run(|run| run.host().clone()).filter(|host| host.logs(LogLevel::Debug)).map(|host| (host, what)))
    }
    /// The wait came to its end.
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if let Some((host, what)) = self.0.take() {
            host.log_debug(format!("lua pipe proc {what} cleanup").as_bytes());
        }
    }
}

/// Lets the light thread wait for `future`.
fn wait_for(lua: &mut Lua, future: impl Future<Output = Answer> + 'static) -> CResult {
    with_run(|run| run.wait(lua, future)).unwrap_or(Err(LuaError::new("no request found")))?;
    Ok(0)
}

/// `read(process, from_stderr, what, size)`; `what`: 0 all, 1 bytes, 2 line, 3 any.
fn read(lua: &mut Lua) -> CResult {
    let process = process(lua)?;
    check_wait()?;
    let direction = if lua.to_bool(2) { Direction::Stderr } else { Direction::Stdout };
    let size = lua.check_number(4)? as usize;
    let want = match lua.check_integer(3)? {
        0 => Want::All,
        1 => Want::Bytes(size),
        2 => Want::Line,
        _ => Want::Any(size),
    };
    log_debug(|| format!("lua pipe read process:{:X} pid:{}", process.pid, process.pid));
    let output = match process.output(direction) {
        Ok(output) => output,
        Err(reason) => return refuse(lua, reason),
    };
    let Some(right) = output.begin() else { return refuse(lua, "pipe busy reading") };
    let timeout_ms = process.timeouts_ms[if direction == Direction::Stderr { 2 } else { 1 }].get();
    let what = if direction == Direction::Stderr { "read stderr" } else { "read stdout" };
    let cleanup = Cleanup::begin(&process, "reading", what, timeout_ms);
    wait_for(lua, async move {
        let result = output.read(right, want, timeout_ms).await;
        cleanup.disarm();
        // The process lives as long as somebody waits for what it writes.
        drop(process);
        Answer::Push(Box::new(move |lua| match &result {
            Ok(data) => {
                lua.push_bytes(data);
                Ok(1)
            }
            Err((trouble, partial)) => {
                refuse(lua, &trouble.message())?;
                lua.push_bytes(partial);
                Ok(3)
            }
        }))
    })
}

/// `write(process, data)`: how many bytes.
fn write(lua: &mut Lua) -> CResult {
    let process = process(lua)?;
    check_wait()?;
    let data = lua.check_bytes(2)?.to_vec();
    log_debug(|| format!("lua pipe write process:{:X} pid:{}", process.pid, process.pid));
    let input = match process.input() {
        Ok(input) => input,
        Err(reason) => return refuse(lua, reason),
    };
    let Some(right) = input.begin() else { return refuse(lua, "pipe busy writing") };
    let written = match input.write_now(&data) {
        Ok(written) if written < data.len() => written,
        result => return push_written(lua, &result),
    };
    let timeout_ms = process.timeouts_ms[0].get();
    let cleanup = Cleanup::begin(&process, "writing", "write", timeout_ms);
    wait_for(lua, async move {
        let result = input.write(right, &data[written..], timeout_ms).await.map(|more| written + more);
        cleanup.disarm();
        drop(process);
        Answer::Push(Box::new(move |lua| push_written(lua, &result)))
    })
}

fn push_written(lua: &mut Lua, result: &Result<usize, Trouble>) -> CResult {
    match result {
        Ok(count) => {
            lua.push_integer(i64::try_from(*count).unwrap_or(i64::MAX));
            Ok(1)
        }
        Err(trouble) => refuse(lua, &trouble.message()),
    }
}

/// `wait(process)`: whether it ended well, "exit" or "signal", and the number of that.
fn wait(lua: &mut Lua) -> CResult {
    let process = process(lua)?;
    check_wait()?;
    log_debug(|| format!("lua pipe wait process:{:X} pid:{}", process.pid, process.pid));
    if process.is_closed() {
        return refuse(lua, "exited");
    }
    let Some(right) = process.begin_wait() else { return refuse(lua, "pipe busy waiting") };
    if let Some(end) = process.take_end() {
        return push_end(lua, end);
    }
    let cleanup = Cleanup::begin(&process, "waiting", "wait", process.timeouts_ms[3].get());
    wait_for(lua, async move {
        let result = process.wait(right).await;
        cleanup.disarm();
        Answer::Push(Box::new(move |lua| match &result {
            Ok(end) => push_end(lua, *end),
            Err(trouble) => refuse(lua, &trouble.message()),
        }))
    })
}

fn push_end(lua: &mut Lua, end: crate::pipe::End) -> CResult {
    lua.push_bool(end == crate::pipe::End::Exit(0));
    lua.push_bytes(end.reason().as_bytes());
    lua.push_integer(end.number().into());
    Ok(3)
}

/// `kill(process, signal)`
fn kill(lua: &mut Lua) -> CResult {
    let process = process(lua)?;
    let signal = i32::try_from(lua.check_integer(2)?).unwrap_or(-1);
    match process.kill(signal) {
        Ok(()) => {
            lua.push_bool(true);
            Ok(1)
        }
        Err(reason) => refuse(lua, &reason),
    }
}

/// `shutdown(process, direction)`; `direction`: 0 stdin, 1 stdout, 2 stderr.
fn shutdown(lua: &mut Lua) -> CResult {
    let process = process(lua)?;
    let direction = match lua.check_integer(2)? {
        0 => Direction::Stdin,
        1 => Direction::Stdout,
        _ => Direction::Stderr,
    };
    match process.shutdown(direction) {
        Ok(()) => {
            lua.push_bool(true);
            Ok(1)
        }
        Err(reason) => refuse(lua, reason),
    }
}
