//! Panics below Lua: how they pass it without ending the process.
//!
//! LuaJIT cannot carry a Rust panic over its frames, and Rust cannot catch the exceptions that Lua's errors are. So a panic
//! goes over Lua as a Lua error:
//!
//! 1. Every function of ours that Lua calls runs its body within [`guard`], which catches panics and lets Lua's errors
//!    pass ([`ffi_guard`] where none can be raised). [`note`] keeps the panic and stops the script that runs, as the budget
//!    does: it gets an error, and gets it again at its next instruction if it has caught it.
//! 2. What called Lua ([`crate::stack::Lua::call`], [`crate::stack::Lua::protect`], a run) calls [`go_on`] when Lua has
//!    returned, whatever it has returned: the panic goes on there.
//! 3. At the end the request's connection, the timer's task or the thread catches it, as it does any panic.
//!
//! Lua itself sees an error at a place where errors are usual, and values are pushed whole: its machine stays sound, and
//! goes on with the next request.
//!
//! [`guard`] is a few instructions of its own with a *personality*, the function that the system's unwinder asks whether a
//! frame wants an exception. Rust's own (`catch_unwind`) takes every exception and ends the process for those that are not
//! Rust's.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::budget::{tidegate_lua_stop, tidegate_lua_unstop};
use crate::error::LuaError;
use crate::scheduler::with_run;
use crate::stack::{Coroutine, Lua};

type Payload = Box<dyn Any + Send>;

thread_local! {
    /// A panic is on its way over Lua.
    static PENDING: Cell<bool> = const { Cell::new(false) };
    /// What it carries.
    static PAYLOAD: RefCell<Option<Payload>> = const { RefCell::new(None) };
    /// Main state of the machine whose script gets errors until the panic has passed.
    static STOPPED: Cell<Option<Coroutine>> = const { Cell::new(None) };
}

/// The error that scripts get meanwhile.
const MESSAGE: &[u8] = b"internal error";

/// Runs the body of a function that Lua has called in `lua`; errors of Lua pass through it.
///
/// # Errors
/// When it panicked: the error is to be raised.
#[inline]
pub(crate) fn guard<R>(lua: &mut Lua, body: impl FnOnce(&mut Lua) -> R) -> Result<R, LuaError> {
    match attempt(|| body(lua)) {
        Ok(result) => Ok(result),
        Err(exception) => {
            // SAFETY: the exception was just caught, and goes on here.
            note(unsafe { payload_of(exception) }, Some(lua.coroutine().main()));
            Err(LuaError::Bare(MESSAGE.to_vec()))
        }
    }
}

/// Runs the body of a function called through the FFI, which raises no errors; `None` when it panicked.
#[inline]
pub(crate) fn ffi_guard<R>(body: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => Some(result),
        Err(payload) => {
            note(payload, with_run(|run| run.vm().main()));
            None
        }
    }
}

/// Lua has returned to Rust code: a panic from below goes on.
#[inline]
pub(crate) fn go_on() {
    if PENDING.get() {
        resume();
    }
}

#[cold]
fn resume() {
    PENDING.set(false);
    if let Some(stopped) = STOPPED.take() {
        // SAFETY: the machine lives (`forget`).
        unsafe { tidegate_lua_unstop(stopped.raw()) };
    }
    if let Some(payload) = PAYLOAD.take() {
        resume_unwind(payload);
    }
}

/// The machine of the main state `main` has ended. A panic in its finalizers ends nothing: there is no request any more.
pub(crate) fn forget(main: Coroutine) {
    if STOPPED.get() == Some(main) {
        STOPPED.set(None);
        PENDING.set(false);
        PAYLOAD.take();
    }
}

/// Keeps a panic until Lua has returned, and stops the script that runs in the machine of the main state `main`.
#[cold]
fn note(payload: Payload, main: Option<Coroutine>) {
    PENDING.set(true);
    // The first one is the cause of those that follow.
    PAYLOAD.with_borrow_mut(|kept| _ = kept.get_or_insert(payload));
    if let Some(main) = main {
        STOPPED.set(Some(main));
        // SAFETY: a live state of the machine that runs.
        unsafe { tidegate_lua_stop(main.raw()) };
    }
}

/// The error that a stopped script gets, if a panic has stopped it.
pub(crate) fn stop_message() -> Option<&'static [u8]> {
    PENDING.get().then_some(MESSAGE)
}

/// What the unwinder hands around: the head of an exception of any language.
enum Exception {}

unsafe extern "C-unwind" {
    fn tidegate_lua_attempt(body: unsafe extern "C-unwind" fn(*mut c_void), data: *mut c_void) -> *mut Exception;
    fn _Unwind_Resume_or_Rethrow(exception: *mut Exception) -> c_int;
}

unsafe extern "C" {
    fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
    fn _Unwind_SetIP(context: *mut c_void, address: usize);
    fn tidegate_lua_attempt_failed();
}

// The function calls `body(data)` and returns null. When a panic comes out of that call, the personality lets it return the
// exception instead. It saves nothing: what callees must restore the unwinder has restored.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.tidegate_lua_attempt,\"ax\",@progbits",
    ".globl tidegate_lua_attempt",
    ".hidden tidegate_lua_attempt",
    ".globl tidegate_lua_attempt_failed",
    ".hidden tidegate_lua_attempt_failed",
    ".type tidegate_lua_attempt,@function",
    "tidegate_lua_attempt:",
    ".cfi_startproc",
    ".cfi_personality 0x1b, {personality}",
    "sub rsp, 8",
    ".cfi_def_cfa_offset 16",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "xor eax, eax",
    "tidegate_lua_attempt_failed:",
    "add rsp, 8",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size tidegate_lua_attempt, . - tidegate_lua_attempt",
    ".popsection",
    personality = sym personality,
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.tidegate_lua_attempt,\"ax\",@progbits",
    ".globl tidegate_lua_attempt",
    ".hidden tidegate_lua_attempt",
    ".globl tidegate_lua_attempt_failed",
    ".hidden tidegate_lua_attempt_failed",
    ".type tidegate_lua_attempt,@function",
    "tidegate_lua_attempt:",
    ".cfi_startproc",
    ".cfi_personality 0x1b, {personality}",
    "stp x29, x30, [sp, #-16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset 29, -16",
    ".cfi_offset 30, -8",
    "mov x29, sp",
    "mov x8, x0",
    "mov x0, x1",
    "blr x8",
    "mov x0, xzr",
    "tidegate_lua_attempt_failed:",
    "ldp x29, x30, [sp], #16",
    ".cfi_restore 29",
    ".cfi_restore 30",
    ".cfi_def_cfa_offset 0",
    "ret",
    ".cfi_endproc",
    ".size tidegate_lua_attempt, . - tidegate_lua_attempt",
    ".popsection",
    personality = sym personality,
);

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the guard against panics below Lua wants a few lines for this processor");

/// Asked by the unwinder about the frame of `tidegate_lua_attempt`, first whether it wants the exception, then to take it.
unsafe extern "C" fn personality(
    version: c_int,
    actions: c_int,
    class: u64,
    exception: *mut Exception,
    context: *mut c_void,
) -> c_int {
    // Of the Itanium C++ ABI, section 1.
    const SEARCH_PHASE: c_int = 1;
    const HANDLER_FRAME: c_int = 4;
    const FORCE_UNWIND: c_int = 8;
    const FATAL_PHASE1_ERROR: c_int = 3;
    const HANDLER_FOUND: c_int = 6;
    const INSTALL_CONTEXT: c_int = 7;
    const CONTINUE_UNWIND: c_int = 8;
    /// What Rust's own exceptions are marked with; once a number, today eight bytes.
    const RUST: [u64; 2] = [u64::from_ne_bytes(*b"MOZ\0RUST"), u64::from_be_bytes(*b"MOZ\0RUST")];
    /// The register of a function's result: rax, x0.
    const RESULT: c_int = 0;

    if version != 1 {
        return FATAL_PHASE1_ERROR;
    }
    if !RUST.contains(&class) || actions & FORCE_UNWIND != 0 {
        return CONTINUE_UNWIND;
    }
    if actions & SEARCH_PHASE != 0 {
        return HANDLER_FOUND;
    }
    if actions & HANDLER_FRAME == 0 {
        return CONTINUE_UNWIND;
    }
    // SAFETY: the unwinder's context of this call; the register is one of those that may be set.
    unsafe { _Unwind_SetGR(context, RESULT, exception.addr()) };
    // SAFETY: as above; the address is that of the instruction behind the call, in the same frame.
    unsafe { _Unwind_SetIP(context, tidegate_lua_attempt_failed as *const () as usize) };
    INSTALL_CONTEXT
}

/// Runs `body`. Panics come back as exceptions, everything else that unwinds passes.
#[inline]
fn attempt<R, F: FnOnce() -> R>(body: F) -> Result<R, *mut Exception> {
    struct Call<R, F> {
        body: Option<F>,
        result: MaybeUninit<R>,
    }
    unsafe extern "C-unwind" fn run<R, F: FnOnce() -> R>(call: *mut c_void) {
        // SAFETY: `attempt` passes its own `Call`, which outlives this function.
        let call = unsafe { &mut *call.cast::<Call<R, F>>() };
        if let Some(body) = call.body.take() {
            call.result.write(body());
        }
    }
    let mut call = Call { body: Some(body), result: MaybeUninit::uninit() };
    // SAFETY: `run` gets the `Call` that it expects, and unwinds as its declaration says.
    let exception = unsafe { tidegate_lua_attempt(run::<R, F>, (&raw mut call).cast()) };
    if exception.is_null() {
        // SAFETY: `run` came to its end, hence has written the result.
        Ok(unsafe { call.result.assume_init() })
    } else {
        Err(exception)
    }
}

/// What a caught panic carries.
///
/// # Safety
/// The exception is Rust's and was just caught by [`attempt`].
#[cold]
unsafe fn payload_of(exception: *mut Exception) -> Payload {
    // Thrown again where Rust itself catches: the exception is taken apart, and the thread does not count as panicking.
    let rethrown = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the exception is whole and belongs to nobody else, by this function's contract.
        unsafe { _Unwind_Resume_or_Rethrow(exception) }
    }));
    rethrown.err().unwrap_or_else(|| Box::new("a panic that could not be taken apart"))
}
