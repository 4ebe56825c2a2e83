//! `require "tidegate.fault"`: panics where a test wants them, to see that a mistake of ours ends its request only.
//!
//! Scripts of users have no use for it. It can do no more harm than any script can that raises an error.

use std::ffi::{CStr, c_int};
use std::future::poll_fn;

use super::Family;
use super::compiled::ffi_functions;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::scheduler::{Answer, with_run};
use crate::stack::Lua;
use crate::userdata::{Userdata, push_userdata};

pub(crate) static FAMILY: Family = Family {
    name: "fault",
    cdef: "",
    ffi: ffi_functions! { compiled as "compiled": (c_int) -> c_int },
    functions: &[
        ("call", function(call)),
        ("object", function(object)),
        ("wait", function(wait)),
        ("answer", function(answer)),
        ("rows", function(rows)),
    ],
};

/// `call()`: panics.
fn call(_lua: &mut Lua) -> CResult {
    panic!("a test wanted a panic in a function");
}

/// `compiled(n)`: panics unless `n` is 0.
fn compiled(number: c_int) -> c_int {
    assert!(number == 0, "a test wanted a panic in an FFI function");
    number
}

/// An object whose destructor panics.
#[derive(Clone)]
struct Bomb;

impl Userdata for Bomb {
    const NAME: &'static CStr = c"tidegate.fault";
    const TYPE_NAME: &'static str = "fault";
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a test wanted a panic in a destructor");
    }
}

/// `object()`: an object that panics when it is collected.
fn object(lua: &mut Lua) -> CResult {
    push_userdata(lua, Bomb);
    Ok(1)
}

fn await_in(lua: &mut Lua, future: impl Future<Output = Answer> + 'static) -> CResult {
    with_run(|run| run.wait(lua, future)).unwrap_or(Err(LuaError::new("no request found")))?;
    Ok(0)
}

/// `wait()`: panics when the wait is polled.
fn wait(lua: &mut Lua) -> CResult {
    await_in(lua, poll_fn(|_| panic!("a test wanted a panic in a wait")))
}

/// `answer()`: panics when the results of a wait are pushed.
fn answer(lua: &mut Lua) -> CResult {
    await_in(lua, async { Answer::Push(Box::new(|_| panic!("a test wanted a panic in an answer"))) })
}

/// `rows()`: the next result set on this worker panics.
fn rows(_lua: &mut Lua) -> CResult {
    crate::rows::panic_at_next_result();
    Ok(0)
}
