//! What the Lua side keeps with a request, made when it is first needed.

use std::cell::RefCell;
use std::rc::Rc;

use crate::vm::Vm;

/// Kept with [`tidegate_core::request::Request::context`].
#[derive(Default)]
pub(crate) struct LuaContext {
    /// The request's own virtual machine, with `lua_code_cache off`; of main requests only.
    pub(crate) vm: RefCell<Option<Rc<Vm>>>,
    /// `ngx.arg` of the running `set_by_lua*`.
    pub(crate) set_arguments: RefCell<Vec<Vec<u8>>>,
}
