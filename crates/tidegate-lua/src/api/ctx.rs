//! `ngx.ctx`: a table that lives as long as its request, or its timer.
//!
//! The tables stand in one table of the machine's; the request keeps the number of its own, so that reading `ngx.ctx` in a
//! trace is one call and one index.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use super::compiled::ffi_functions;
use super::{Family, ffi_error, push_registry};
use crate::error::CResult;
use crate::function::function;
use crate::handshake::Memo;
use crate::host::Host;
use crate::phase::Phase;
use crate::request_context::LuaContext;
use crate::scheduler::with_run;
use crate::stack::{Coroutine, Lua, Type};

pub(crate) static FAMILY: Family = Family {
    name: "ctx",
    cdef: "",
    ffi: ffi_functions! {
        number as "number": () -> c_int,
        keep as "keep": () -> c_int,
        owner as "owner": () -> *const c_void,
    },
    functions: &[("tables", function(tables)), ("inherited", function(inherited))],
};

/// Where the registry has the table of tables.
static TABLES: u8 = 0;

/// Numbers for the tables of one machine.
#[derive(Default)]
pub(crate) struct Numbers {
    free: RefCell<Vec<c_int>>,
    last: Cell<c_int>,
}

impl Numbers {
    /// A number that is not in use.
    pub(crate) fn take(&self) -> c_int {
        self.free.borrow_mut().pop().unwrap_or_else(|| {
            self.last.set(self.last.get() + 1);
            self.last.get()
        })
    }

    /// Takes one back.
    pub(crate) fn give(&self, number: c_int) {
        self.free.borrow_mut().push(number);
    }
}

/// `tables()`: the table of tables.
fn tables(lua: &mut Lua) -> CResult {
    push_registry(lua, (&raw const TABLES).cast());
    if lua.type_of(-1) != Type::Table {
        lua.pop(1);
        lua.push_table(0, 0);
        lua.push_light((&raw const TABLES).cast());
        lua.push_value(-2);
        lua.raw_set(mlua_sys::LUA_REGISTRYINDEX);
    }
    Ok(1)
}

/// Pops a table and puts it under a number. *May raise* (memory).
pub(crate) fn put(lua: &mut Lua, number: c_int) {
    // Always one result, and never an error.
    let _ = tables(lua);
    lua.insert(-2);
    lua.raw_set_index(-2, number);
    lua.pop(1);
}

/// Takes the table with this number out of the table of tables.
pub(crate) fn forget(main: Coroutine, number: c_int) {
    // SAFETY: used here only, for values of its own on top.
    let lua = unsafe { main.lua() };
    push_registry(lua, (&raw const TABLES).cast());
    lua.raw_get_index(-1, number);
    let is_there = lua.type_of(-1) != Type::Nil;
    lua.pop(1);
    if is_there {
        // Its slot exists, so that storing into it allocates nothing.
        lua.push_nil();
        lua.raw_set_index(-2, number);
    }
    lua.pop(1);
}

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

/// `inherited()`: the number of the table that scripts of the connection's handshake have left, or 0.
fn inherited(lua: &mut Lua) -> CResult {
    let left = with_run(|run| {
        let memo = run.request()?.connection().handshake_memo()?.clone().downcast::<Memo>().ok()?;
        memo.script_table.is_of(run.vm()).then(|| memo.script_table.number())
    });
    lua.push_integer(left.flatten().unwrap_or(0).into());
    Ok(1)
}

/// The number under which the Lua half is to store a table.
fn keep() -> c_int {
    with_run(|run| match run.request() {
        Some(req) => {
            let context: Rc<LuaContext> = req.context();
            context.script_table.keep(run.vm())
        }
        None => run.script_table().keep(run.vm()),
    })
    .unwrap_or_else(|| ffi_error(b"no request found"))
}
