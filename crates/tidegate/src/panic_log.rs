//! Panics in the error log.
//!
//! With `RUST_BACKTRACE` in the environment the calls that led to the panic are written too. Below them may stand machine
//! code that LuaJIT has made. How large its stack frames are only LuaJIT knows, so that an unwinder that goes on from one
//! reads addresses where there are none: a trace of calls ends where the first function is in no file.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;

use backtrace::{Backtrace, BacktraceFrame};
use tidegate_net::log::{self, Level, note};

/// Calls that a trace shows at most.
const FRAMES_MAX: usize = 256;

/// From here on panics go to the log.
pub(crate) fn install() {
    std::panic::set_hook(Box::new(write));
}

/// A panic is our mistake: it goes to the log with its place, and is written before anything else happens.
fn write(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    // One entry: its first line tells what the others belong to.
    if is_trace_wanted() {
        let mut trace = calls();
        trace.resolve();
        note(Level::Alert, format_args!("thread \"{name}\" panicked{place}: {text}\n{trace:?}"));
    } else {
        note(Level::Alert, format_args!("thread \"{name}\" panicked{place}: {text}"));
    }
    log::flush();
}

/// Source: the documentation of `std::backtrace`, whose variables these are.
fn is_trace_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| {
        let value = std::env::var_os("RUST_LIB_BACKTRACE").or_else(|| std::env::var_os("RUST_BACKTRACE"));
        value.is_some_and(|value| value != "0")
    })
}

/// The calls that led here, down to the first function that is in no file.
fn calls() -> Backtrace {
    let mut frames: Vec<BacktraceFrame> = Vec::new();
    backtrace::trace(|frame| {
        frames.push(frame.clone().into());
        frames.len() < FRAMES_MAX && is_in_a_file(frame.ip())
    });
    frames.into()
}

/// Whether an address of code is in the program or a library of it.
fn is_in_a_file(address: *mut c_void) -> bool {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: compares the address with those of loaded files, and writes into the local.
    unsafe { libc::dladdr(address, info.as_mut_ptr()) != 0 }
}
