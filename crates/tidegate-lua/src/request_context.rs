//! What the Lua side keeps with a request, made when it is first needed.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::rc::Rc;

use tidegate_core::upstream::balance::Attempt;
use tidegate_core::upstream::tls_scripts::PeerHandshake;
use tidegate_net::log::{self, Level};

use crate::api::ctx;
use crate::phase::Phase;
use crate::vm::{Vm, VmUse};

/// Kept with [`tidegate_core::request::Request::context`].
#[derive(Default)]
pub(crate) struct LuaContext {
    /// The request's own virtual machine, with `lua_code_cache off`.
    pub(crate) vm: RefCell<Option<VmUse>>,
    /// The body that `ngx.exit` in `header_filter_by_lua*` put in the place of the response's; empty once it is sent.
    pub(crate) replacement: RefCell<Option<Vec<u8>>>,
    /// The status that `ngx.exit` in `header_filter_by_lua*` has asked for, or 0.
    pub(crate) filter_exit: Cell<u16>,
    /// `ngx.arg` of the running `set_by_lua*`.
    pub(crate) set_arguments: RefCell<Vec<Vec<u8>>>,
    /// `ngx.ctx`
    pub(crate) script_table: ScriptTable,
    /// A script took the content type away: there is no default either.
    pub(crate) no_default_type: Cell<bool>,
    /// `ngx.arg` of the running `body_filter_by_lua*`.
    pub(crate) filtered: RefCell<Filtered>,
    /// A light thread waits for the request's body.
    pub(crate) reads_body: Cell<bool>,
    /// Captured sub-requests that have not ended: the request cannot go elsewhere meanwhile.
    pub(crate) pending_subrequests: Cell<usize>,
    /// A body filter said that the body is over.
    pub(crate) body_ended: Cell<bool>,
    /// Output that is held back for the sake of `Content-Length` (`lua_http10_buffering`).
    pub(crate) held_output: RefCell<Option<Vec<u8>>>,
    /// The body that `ngx.req.init_body` began, until `ngx.req.finish_body`, and how much of it stays in memory.
    pub(crate) new_body: RefCell<Option<(Vec<u8>, usize)>>,
    /// `log_by_lua*` has begun: lines of the error log say so.
    pub(crate) logs_request: Cell<bool>,
    /// While `balancer_by_lua*` runs: what it decides about.
    pub(crate) attempt: RefCell<Option<Attempt>>,
    /// While a script of a handshake with a peer runs: what it decides about, and in which phase.
    pub(crate) peer_handshake: RefCell<Option<(Rc<PeerHandshake>, Phase)>>,
}

/// A piece of a body in a body filter.
#[derive(Debug, Default)]
pub(crate) struct Filtered {
    /// `ngx.arg[1]`
    pub(crate) data: Vec<u8>,
    /// `ngx.arg[2]`
    pub(crate) last: bool,
    /// The script assigned one of them.
    pub(crate) changed: bool,
}

/// A table of a script, freed with this. It stands in the machine's table of such tables ([`crate::api::ctx`]).
#[derive(Default)]
pub struct ScriptTable {
    number: Cell<c_int>,
    vm: RefCell<Option<Rc<Vm>>>,
}

impl ScriptTable {
    /// Its number; 0 for none.
    pub(crate) fn number(&self) -> c_int {
        self.number.get()
    }

    /// Whether it stands in this machine.
    pub(crate) fn is_of(&self, vm: &Rc<Vm>) -> bool {
        self.vm.borrow().as_ref().is_some_and(|own| Rc::ptr_eq(own, vm))
    }

    /// Chooses a number for a table, where the Lua half is to put it; the one before is freed.
    pub(crate) fn keep(&self, vm: &Rc<Vm>) -> c_int {
        self.free();
        self.number.set(vm.script_tables.take());
        *self.vm.borrow_mut() = Some(vm.clone());
        self.number.get()
    }

    /// Lets the table go.
    pub(crate) fn free(&self) {
        let vm = self.vm.take();
        let number = self.number.take();
        if let Some(vm) = vm {
            if log::main().enabled(Level::Debug) {
                let text = format!("lua release ngx.ctx at ref {number}");
                log::main().write_bytes(Level::Debug, None, text.as_bytes(), |_| {});
            }
            ctx::forget(vm.main(), number);
            vm.script_tables.give(number);
        }
    }
}

impl Drop for ScriptTable {
    fn drop(&mut self) {
        self.free();
    }
}
