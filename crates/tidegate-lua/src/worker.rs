//! A worker's virtual machine: made as the worker starts, ended with it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use tidegate_core::conf::Config;
use tidegate_core::module::WorkerEnd;
use tidegate_core::phase::LocalFuture;
use tidegate_core::request::Request;
use tidegate_core::worker;
use tidegate_net::log;

use crate::api;
use crate::api::init_once::{Mode, switch};
use crate::api::worker::note_pid;
use crate::code::Code;
use crate::directives::{self, Conf};
use crate::error::Failure;
use crate::host::{Detached, Host, LogLevel};
use crate::init_once;
use crate::mysql;
use crate::phase::Phase;
use crate::request_context::LuaContext;
use crate::scheduler::{Outcome, Started, Waiting, start};
use crate::settings;
use crate::socket;
use crate::stack::Ref;
use crate::vm::{Vm, VmUse};

thread_local! {
    static WORKER_VM: RefCell<Option<Rc<Vm>>> = const { RefCell::new(None) };
}

/// The worker's virtual machine; `None` outside of workers and where no Lua is configured.
pub(crate) fn vm() -> Option<Rc<Vm>> {
    WORKER_VM.with_borrow(Clone::clone)
}

/// The virtual machine that serves a request: the worker's, or with `lua_code_cache off` one of its own, which serves its
/// sub-requests as well.
///
/// # Errors
/// When there is none and it cannot be made.
#[inline]
pub(crate) fn vm_for(req: &Rc<Request>) -> Result<Rc<Vm>, Failure> {
    if req.parent.is_none()
        && req.module_conf(&settings::MODULE).lua_code_cache != Some(false)
        && let Some(vm) = vm()
    {
        return Ok(vm);
    }
    uncommon_vm_for(req)
}

#[inline(never)]
fn uncommon_vm_for(req: &Rc<Request>) -> Result<Rc<Vm>, Failure> {
    if let Some(vm) = req.parent.as_ref().and_then(own_vm) {
        return Ok(vm);
    }
    let conf = req.module_conf(&settings::MODULE);
    if conf.lua_code_cache != Some(false)
        && let Some(vm) = vm()
    {
        return Ok(vm);
    }
    let context: Rc<LuaContext> = req.context();
    if let Some(own) = &*context.vm.borrow() {
        return Ok(own.vm().clone());
    }
    let own = own_vm_of(req.conf())?;
    let vm = own.vm().clone();
    *context.vm.borrow_mut() = Some(own);
    Ok(vm)
}

/// Makes a machine for one request, or one handshake.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn own_vm_of(conf: &Config) -> Result<VmUse, Failure> {
    let vm = Vm::new(conf.http_conf(&settings::MODULE).vm_config(conf.prefix.clone()))?;
    let own = VmUse::first(&vm);
    if let Some(code) = &conf.http_conf(&directives::MODULE).init {
        // What is wrong stands in the log, and shows in what the script then lacks.
        let _ = run_init(&vm, code);
    }
    Ok(own)
}

/// The machine that a request, or the one that it is a sub-request of, has for itself.
fn own_vm(req: &Rc<Request>) -> Option<Rc<Vm>> {
    if let Some(context) = req.find_context::<LuaContext>()
        && let Some(own) = &*context.vm.borrow()
    {
        return Some(own.vm().clone());
    }
    own_vm(req.parent.as_ref()?)
}

/// Makes the worker's virtual machine and runs `init_by_lua*` and `init_worker_by_lua*` in it.
///
/// The first worker to come runs `init_by_lua*` for all; the runs of the others repeat it (`init_once`).
pub(crate) fn init(conf: &Arc<Conf>) -> Result<(), String> {
    let worker = worker::current().ok_or("no worker on this thread")?;
    let config = worker::config().ok_or("no worker on this thread")?;
    let settings = config.http_conf(&settings::MODULE);
    if !settings.used {
        return Ok(());
    }
    note_pid(&worker);
    log::capture::install(settings.lua_capture_error_log.unwrap_or(0));
    let vm = Vm::new(settings.vm_config(config.prefix.clone()))
        .map_err(|failure| format!("cannot create a Lua virtual machine: {failure}"))?;
    WORKER_VM.set(Some(vm.clone()));
    if let Some(code) = &conf.init {
        init_once(&vm, conf, code)?;
    }
    if api::process::take_agent_wanted() && worker.id == 0 {
        worker::start_agent(&worker).map_err(|error| format!("cannot start the privileged agent: {error}"))?;
    }
    let quits = worker.clone();
    let timers = vm.clone();
    tokio::task::spawn_local(async move {
        quits.quitting().await;
        if timers.pending_timers() > 0 {
            let host = Detached::host("");
            host.log_debug(b"lua abort pending timers");
            host.log_debug(format!("lua found {} pending timers", timers.pending_timers()).as_bytes());
        }
        timers.end_timers();
    });
    if let Some(code) = &conf.init_worker
        && let Some(waiting) = run_detached(&vm, code, Phase::InitWorker)
    {
        // Requests may need what the code sets up.
        let set_up = worker.set_up();
        tokio::task::spawn_local(async move {
            waiting.await;
            drop(set_up);
        });
    }
    Ok(())
}

/// Runs `init_by_lua*` for the first time, or repeats what another worker has run.
fn init_once(vm: &Rc<Vm>, conf: &Conf, code: &Code) -> Result<(), String> {
    let mut ran = conf.init_ran.lock().unwrap_or_else(PoisonError::into_inner);
    let (mode, held) = match &*ran {
        Some(answers) => {
            init_once::repeat(answers.clone());
            // Workers may repeat it at the same time.
            drop(ran);
            (Mode::Repeat, None)
        }
        None => {
            init_once::begin();
            (Mode::First, Some(&mut *ran))
        }
    };
    let result = switch(vm.main(), mode)
        .map_err(|failure| failure.to_string())
        .and_then(|()| run_init(vm, code))
        .and_then(|()| switch(vm.main(), Mode::Over).map_err(|failure| failure.to_string()));
    let answers = init_once::end();
    if let Some(held) = held {
        *held = answers.map(Arc::new);
    }
    result
}

/// Runs `init_by_lua*`; an error keeps the server from starting.
fn run_init(vm: &Rc<Vm>, code: &Code) -> Result<(), String> {
    let host = Detached::host("");
    let function = load(vm, code, Phase::Init, &host).ok_or("init_by_lua failed")?;
    match start(vm, host, Phase::Init, function) {
        Started::Done(Outcome::Failed) => Err("init_by_lua failed".to_owned()),
        // Nothing can wait in this phase; a light thread that yields for ever ends here.
        Started::Done(_) | Started::Waiting(_) => Ok(()),
    }
}

/// Runs code of a worker's start or end. What goes wrong stands in the log.
fn run_detached(vm: &Rc<Vm>, code: &Code, phase: Phase) -> Option<Waiting> {
    // lua-nginx-module names the context at the start, and does not at the end.
    let host = Detached::host(if phase == Phase::InitWorker { phase.context_name() } else { "" });
    let function = load(vm, code, phase, &host)?;
    match start(vm, host, phase, function) {
        Started::Done(_) => None,
        Started::Waiting(waiting) => Some(waiting),
    }
}

/// Compiles code of a worker's start or end; what is wrong with it goes to the log.
fn load(vm: &Vm, code: &Code, phase: Phase, host: &Host) -> Option<Ref> {
    match code.load(vm, None) {
        Ok(function) => Some(function),
        Err(error) => {
            let name = phase.context_name().trim_end_matches('*');
            let head = format!("{name}{} error: ", code.name_suffix());
            host.log(LogLevel::Error, &[head.as_bytes(), error.reason.as_slice()].concat());
            None
        }
    }
}

/// Waits for timers, runs `exit_worker_by_lua*` and ends the virtual machine.
pub(crate) fn exit(conf: &Arc<Conf>, end: WorkerEnd) -> LocalFuture<()> {
    let conf = conf.clone();
    Box::pin(async move {
        let Some(vm) = WORKER_VM.take() else { return };
        if end == WorkerEnd::Finished {
            vm.end_timers();
            vm.timers_ended().await;
        }
        if let Some(code) = &conf.exit_worker
            && let Some(waiting) = run_detached(&vm, code, Phase::ExitWorker)
        {
            waiting.await;
        }
        socket::close_pools();
        mysql::close_pools();
        Detached::host("").log_debug(b"lua close the global Lua VM");
    })
}
