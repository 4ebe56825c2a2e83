//! A host and helpers for unit tests: scripts run in this process, with a paused clock.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use mlua_sys as ffi;

use crate::chunk::Chunk;
use crate::error::CResult;
use crate::function::function;
use crate::host::{Host, LogLevel, Surroundings};
use crate::phase::Phase;
use crate::scheduler::{Outcome, Started, start, with_run};
use crate::socket::OpenSockets;
use crate::stack::Lua;
use crate::vm::{Vm, VmConfig};

/// Keeps what scripts print (`out(...)`) and log.
#[derive(Default)]
pub(crate) struct TestHost {
    pub(crate) out: RefCell<Vec<String>>,
    pub(crate) log: RefCell<Vec<(LogLevel, String)>>,
    /// What timers of this host print and log goes to the host itself.
    this: RefCell<std::rc::Weak<TestHost>>,
    sockets: Rc<OpenSockets>,
}

impl TestHost {
    pub(crate) fn new() -> Rc<Self> {
        let host = Rc::new(Self::default());
        *host.this.borrow_mut() = Rc::downgrade(&host);
        host
    }
}

impl Surroundings for TestHost {
    fn log(&self, level: LogLevel, message: &[u8]) {
        self.log.borrow_mut().push((level, String::from_utf8_lossy(message).into_owned()));
    }

    fn logs(&self, level: LogLevel) -> bool {
        level < LogLevel::Debug
    }

    fn timer_host(&self) -> Host {
        Host::Other(self.this.borrow().upgrade().expect("the test holds its host"))
    }

    fn open_sockets(&self) -> Rc<OpenSockets> {
        self.sockets.clone()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `out(...)`: the arguments as text, separated by blanks.
fn out(lua: &mut Lua) -> CResult {
    let mut line = Vec::new();
    for index in 1..=lua.top() {
        lua.push_value(index);
        // SAFETY: a function called by Lua; the value is on top.
        unsafe { ffi::luaL_tolstring(lua.raw(), -1, std::ptr::null_mut()) };
        line.push(String::from_utf8_lossy(lua.to_bytes(-1).unwrap_or_default()).into_owned());
        lua.pop(2);
    }
    with_run(|run| {
        let Host::Other(host) = run.host() else { panic!("tests have no requests") };
        let host = host.as_any().downcast_ref::<TestHost>().expect("tests use this host");
        host.out.borrow_mut().push(line.join(" "));
    });
    Ok(0)
}

/// A virtual machine with `out` as a global.
pub(crate) fn vm_with(config: VmConfig) -> Rc<Vm> {
    let vm = Vm::new(config).expect("a virtual machine");
    // SAFETY: nobody else works with the main state.
    unsafe { vm.main().lua() }
        .protect(|lua| {
            lua.push_function(function(out));
            lua.raw_set_field(ffi::LUA_GLOBALSINDEX, b"out");
            Ok(())
        })
        .expect("a global");
    vm
}

/// What became of a script.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) out: Vec<String>,
    pub(crate) log: Vec<(LogLevel, String)>,
}

/// Runs `test` on a stack of a worker's size: what nests is bounded by it, and frames are large without optimisation.
pub(crate) fn on_workers_stack(test: fn()) {
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(test).expect("a thread");
    thread.join().expect("the test passes");
}

/// Runs `future` as a worker does, with a paused clock.
pub(crate) fn in_runtime<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

/// Runs `code` as `phase` until its last light thread ended.
pub(crate) async fn launch(vm: &Rc<Vm>, host: &Rc<TestHost>, phase: Phase, code: &str) -> Outcome {
    let directive = phase.context_name().trim_end_matches('*');
    let chunk = Chunk::inline(directive, b"nginx.conf", 1, code.as_bytes());
    let function = match chunk.load(vm) {
        Ok(function) => function,
        Err(error) => panic!("{error}"),
    };
    match start(vm, Host::Other(host.clone()), phase, function) {
        Started::Done(outcome) => outcome,
        Started::Waiting(waiting) => waiting.await,
    }
}

/// Runs `code` as `phase` in `vm`, and timers that it starts to their end.
pub(crate) fn run_in(vm: &Rc<Vm>, phase: Phase, code: &str) -> Ran {
    let host = TestHost::new();
    let outcome = in_runtime(async {
        let outcome = launch(vm, &host, phase, code).await;
        vm.timers_ended().await;
        outcome
    });
    Ran { outcome, out: host.out.take(), log: host.log.take() }
}

/// Runs `code` in `content_by_lua` of a new virtual machine.
pub(crate) fn run(code: &str) -> Ran {
    run_in(&vm_with(VmConfig::default()), Phase::Content, code)
}

/// Demands that `code` prints `expected`, line by line, and comes to its end with nothing in the log.
#[track_caller]
pub(crate) fn check(code: &str, expected: &[&str]) {
    let ran = run(code);
    assert_eq!(ran.out, expected, "{ran:?}");
    assert_eq!(ran.outcome, Outcome::Done, "{ran:?}");
    assert!(ran.log.is_empty(), "{ran:?}");
}

/// Demands that `code` aborts the entry thread with the log line `expected`.
#[track_caller]
pub(crate) fn check_abort(code: &str, expected: &str) {
    let ran = run(code);
    assert_eq!(ran.outcome, Outcome::Failed, "{ran:?}");
    let lines: Vec<&str> = ran.log.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(lines, [expected]);
}
