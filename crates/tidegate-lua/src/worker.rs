//! A worker's virtual machine: made as the worker starts, ended with it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_core::module::WorkerEnd;
use tidegate_core::phase::LocalFuture;
use tidegate_core::request::Request;
use tidegate_core::worker;

use crate::code::Code;
use crate::directives::Conf;
use crate::error::Failure;
use crate::host::{Detached, LogLevel};
use crate::phase::Phase;
use crate::request_context::LuaContext;
use crate::scheduler::{Outcome, Started, start};
use crate::settings;
use crate::vm::Vm;

thread_local! {
    static WORKER_VM: RefCell<Option<Rc<Vm>>> = const { RefCell::new(None) };
}

/// The worker's virtual machine; `None` outside of workers and where no Lua is configured.
pub(crate) fn vm() -> Option<Rc<Vm>> {
    WORKER_VM.with_borrow(Clone::clone)
}

/// The virtual machine that serves a request: the worker's, or with `lua_code_cache off` one of its own.
///
/// # Errors
/// When there is none and it cannot be made.
pub(crate) fn vm_for(req: &Rc<Request>) -> Result<Rc<Vm>, Failure> {
    let conf = req.module_conf(&settings::MODULE);
    if conf.lua_code_cache != Some(false)
        && let Some(vm) = vm()
    {
        return Ok(vm);
    }
    let context: Rc<LuaContext> = req.main().context();
    if let Some(vm) = context.vm.borrow().clone() {
        return Ok(vm);
    }
    let vm = Vm::new(req.conf().http_conf(&settings::MODULE).vm_config(req.conf().prefix.clone()))?;
    *context.vm.borrow_mut() = Some(vm.clone());
    Ok(vm)
}

/// Makes the worker's virtual machine and runs `init_by_lua*` and `init_worker_by_lua*` in it.
///
/// nginx runs `init_by_lua*` once, before it forks, and every worker inherits the result. Workers are threads here, each
/// with a machine of its own, so that each runs it; what it prints is printed by each.
pub(crate) fn init(conf: &Arc<Conf>) -> Result<(), String> {
    let worker = worker::current().ok_or("no worker on this thread")?;
    let settings = worker.config().http_conf(&settings::MODULE);
    if !settings.used {
        return Ok(());
    }
    let vm = Vm::new(settings.vm_config(worker.config().prefix.clone()))
        .map_err(|failure| format!("cannot create a Lua virtual machine: {failure}"))?;
    WORKER_VM.set(Some(vm.clone()));
    if let Some(code) = &conf.init {
        run_init(&vm, code)?;
    }
    let quits = worker.clone();
    let timers = vm.clone();
    tokio::task::spawn_local(async move {
        quits.quitting().await;
        timers.end_timers();
    });
    if let Some(code) = &conf.init_worker
        && let Some(waiting) = run_detached(&vm, code, Phase::InitWorker)
    {
        let hold = worker.hold();
        tokio::task::spawn_local(async move {
            waiting.await;
            drop(hold);
        });
    }
    Ok(())
}

/// Runs `init_by_lua*`; an error keeps the server from starting.
fn run_init(vm: &Rc<Vm>, code: &Code) -> Result<(), String> {
    let function = code.load(vm, None).map_err(|error| format!("init_by_lua error: {error}"))?;
    let host = Detached::host("");
    match start(vm, host, Phase::Init, function) {
        Started::Done(Outcome::Failed) => Err("init_by_lua failed".to_owned()),
        // Nothing can wait in this phase; a light thread that yields for ever ends here.
        Started::Done(_) | Started::Waiting(_) => Ok(()),
    }
}

/// Runs code of a worker's start or end. What goes wrong stands in the log.
fn run_detached(vm: &Rc<Vm>, code: &Code, phase: Phase) -> Option<crate::scheduler::Waiting> {
    let host = Detached::host(phase.context_name());
    let function = match code.load(vm, None) {
        Ok(function) => function,
        Err(error) => {
            host.log(LogLevel::Error, &error.message);
            return None;
        }
    };
    match start(vm, host, phase, function) {
        Started::Done(_) => None,
        Started::Waiting(waiting) => Some(waiting),
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
    })
}
