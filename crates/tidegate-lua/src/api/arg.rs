//! `ngx.arg`: arguments of `set_by_lua*`, and the piece that a body filter has before it.

use std::ffi::c_int;
use std::rc::Rc;

use super::compiled::ffi_functions;
use super::{Family, ffi_error, ffi_lua_error, ffi_request};
use crate::phase::{Phase, Phases};
use crate::request_context::LuaContext;

pub(crate) static FAMILY: Family = Family {
    name: "arg",
    cdef: "",
    ffi: ffi_functions! {
        get as "get": (c_int, TextOut) -> c_int,
        set_data as "set_data": (Bytes) -> c_int,
        set_last as "set_last": (c_int) -> c_int,
    },
    functions: &[],
};

/// Answers of [`get`], beside -1 for an error.
mod answer {
    pub(super) const NIL: i32 = 0;
    pub(super) const TEXT: i32 = 1;
    pub(super) const FALSE: i32 = 2;
    pub(super) const TRUE: i32 = 3;
}

/// Gives `ngx.arg[index]`.
fn get(index: c_int, out: &mut Vec<u8>) -> c_int {
    ffi_request(|run, req| {
        let context: Rc<LuaContext> = req.context();
        match (run.phase(), index) {
            (Phase::Set, index) => {
                let arguments = context.set_arguments.borrow();
                let argument = usize::try_from(index - 1).ok().and_then(|index| arguments.get(index));
                let Some(argument) = argument else { return answer::NIL };
                out.extend_from_slice(argument);
                answer::TEXT
            }
            (Phase::BodyFilter, 1) => {
                out.extend_from_slice(&context.filtered.borrow().data);
                answer::TEXT
            }
            (Phase::BodyFilter, 2) => match context.filtered.borrow().last {
                true => answer::TRUE,
                false => answer::FALSE,
            },
            (Phase::BodyFilter, _) => answer::NIL,
            _ => disabled(),
        }
    })
}

#[cold]
fn disabled() -> c_int {
    ffi_error(b"API disabled in the current context")
}

/// Where `ngx.arg` may be assigned.
const WRITABLE: Phases = Phases::of(&[Phase::BodyFilter]);

/// `ngx.arg[1] = text` in a body filter.
fn set_data(data: &[u8]) -> c_int {
    ffi_request(|run, req| {
        if let Err(error) = WRITABLE.check(run.phase()) {
            return ffi_lua_error(&error);
        }
        let context: Rc<LuaContext> = req.context();
        let mut filtered = context.filtered.borrow_mut();
        filtered.data.clear();
        filtered.data.extend_from_slice(data);
        filtered.changed = true;
        0
    })
}

/// `ngx.arg[2] = last` in a body filter.
fn set_last(last: c_int) -> c_int {
    ffi_request(|run, req| {
        if let Err(error) = WRITABLE.check(run.phase()) {
            return ffi_lua_error(&error);
        }
        let context: Rc<LuaContext> = req.context();
        let mut filtered = context.filtered.borrow_mut();
        filtered.last = last != 0;
        filtered.changed = true;
        0
    })
}
