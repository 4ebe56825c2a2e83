//! `ngx.ctx`: a table that lives as long as its request, or its timer.
//!
//! The table stands in the registry; the request keeps its number, so that reading `ngx.ctx` in a trace is one call and
//! one index.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use super::compiled::ffi_functions;
use super::{Family, ffi_error};
use crate::host::Host;
use crate::phase::Phase;
use crate::request_context::LuaContext;
use crate::scheduler::with_run;
use crate::stack::Ref;

pub(crate) static FAMILY: Family = Family {
    name: "ctx",
    cdef: "",
    ffi: ffi_functions! {
        number as "number": () -> c_int,
        keep as "keep": (c_int) -> c_int,
        owner as "owner": () -> *const c_void,
    },
    functions: &[],
};

/// The number of the table in the registry; 0 when there is none yet.
fn number() -> c_int {
    with_run(|run| match run.request() {
        Some(req) => req.find_context::<LuaContext>().map_or(0, |context| context.script_table.number()),
        None if run.phase() == Phase::Init => ffi_error(b"no request found"),
        None => run.script_table().number(),
    })
    .unwrap_or_else(|| ffi_error(b"no request found"))
}

/// An address that tells apart on whose behalf scripts run: the request's or the timer's. Null where there is neither.
fn owner() -> *const c_void {
    with_run(|run| match run.host() {
        Host::Request(req) => Rc::as_ptr(req).cast(),
        Host::Other(_) if matches!(run.phase(), Phase::Init | Phase::WorkerThread) => std::ptr::null(),
        Host::Other(other) => Rc::as_ptr(other).cast(),
    })
    .unwrap_or(std::ptr::null())
}

/// Keeps a table that the Lua half stored in the registry under `number`.
fn keep(number: c_int) -> c_int {
    let table = Ref::of_number(number);
    with_run(|run| match run.request() {
        Some(req) => {
            let context: Rc<LuaContext> = req.context();
            context.script_table.keep(run.vm(), table);
            0
        }
        None => {
            run.script_table().keep(run.vm(), table);
            0
        }
    })
    .unwrap_or_else(|| ffi_error(b"no request found"))
}
