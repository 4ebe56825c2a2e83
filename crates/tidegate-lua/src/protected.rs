//! Protected contexts: where a Lua error ends, whoever raised it. See [`crate::stack`] for what may be done in one.

use std::ffi::{c_int, c_void};
use std::ptr;

use mlua_sys as ffi;
use mlua_sys::lua_State;

use crate::error::{CResult, Failure, FailureKind, LuaError};
use crate::stack::Lua;
use crate::{panics, traceback};

/// What runs in the frame of its caller.
type Sheltered = unsafe extern "C-unwind" fn(*mut lua_State, *mut c_void);

// See `tidegate-luajit/rows.c`.
unsafe extern "C-unwind" {
    fn tidegate_lua_sheltered_call(state: *mut lua_State, body: Sheltered, data: *mut c_void) -> c_int;
    fn tidegate_lua_collector_waits(state: *mut lua_State) -> c_int;
    fn tidegate_lua_collect(state: *mut lua_State);
}

impl Lua {
    /// Runs `body` in a protected context: Lua errors that it raises come back as [`Failure`].
    ///
    /// # Errors
    /// What `body` returned or raised.
    pub fn protect<F: FnOnce(&mut Lua) -> Result<(), LuaError>>(&mut self, body: F) -> Result<(), Failure> {
        unsafe extern "C-unwind" fn trampoline<F: FnOnce(&mut Lua) -> Result<(), LuaError>>(
            state: *mut lua_State,
        ) -> c_int {
            // SAFETY: LuaJIT passes the state that calls, in a frame of its own.
            let lua = unsafe { Lua::from_raw(state) };
            let slot = lua.to_userdata(1).cast::<Option<F>>();
            // SAFETY: `protect` passes a pointer to its own `Option<F>`, which outlives the call.
            let body = unsafe { (*slot).take() };
            lua.pop(1);
            let outcome: CResult = match body {
                Some(body) => panics::guard(lua, |lua| body(lua).map(|()| 0)).unwrap_or_else(Err),
                None => Ok(0),
            };
            crate::function::finish(lua, outcome)
        }
        let mut slot = Some(body);
        // SAFETY: the trampoline keeps the rules of `crate::function`; lua_cpcall reports errors by its status.
        let status = unsafe { ffi::lua_cpcall(self.raw(), trampoline::<F>, ptr::from_mut(&mut slot).cast()) };
        if status == ffi::LUA_OK {
            panics::go_on();
            return Ok(());
        }
        Err(self.failed(status))
    }

    /// Runs `body` as [`Lua::protect`] does, on whatever C stack this is called, and in the same frame of Lua's stack: what
    /// `body` pushes stays there. The collector rests meanwhile; [`Lua::collect`] makes up for it.
    ///
    /// # Errors
    /// What `body` raised; what it had pushed is gone then.
    #[inline]
    pub(crate) fn shelter<F: FnOnce(&mut Lua)>(&mut self, body: F) -> Result<(), Failure> {
        unsafe extern "C-unwind" fn trampoline<F: FnOnce(&mut Lua)>(state: *mut lua_State, data: *mut c_void) {
            // SAFETY: the caller's state, in the caller's frame; `shelter` uses it no more until this has returned.
            let lua = unsafe { Lua::from_raw(state) };
            // SAFETY: `shelter` passes a pointer to its own `Option<F>`, which outlives the call.
            let body = unsafe { (*data.cast::<Option<F>>()).take() };
            let Some(body) = body else { return };
            if let Err(error) = panics::guard(lua, body) {
                crate::function::finish(lua, Err(error));
            }
        }
        let mut slot = Some(body);
        // SAFETY: errors are reported by the status; nothing with a destructor lives in the trampoline's frame when one is raised.
        let status =
            unsafe { tidegate_lua_sheltered_call(self.raw(), trampoline::<F>, ptr::from_mut(&mut slot).cast()) };
        if status == ffi::LUA_OK {
            return Ok(());
        }
        Err(self.failed(status))
    }

    /// The failure whose value a protected call has left on top. Goes on with a panic that has caused it.
    #[cold]
    fn failed(&mut self, status: c_int) -> Failure {
        let failure = Failure {
            message: traceback::error_text(self),
            traceback: Vec::new(),
            kind: FailureKind::from_status(status),
        };
        self.pop(1);
        panics::go_on();
        failure
    }

    /// Lets the collector do what is due, finalizers too. For the stack of the thread alone.
    pub(crate) fn collect(&mut self) {
        // SAFETY: `state` is live.
        if unsafe { tidegate_lua_collector_waits(self.raw()) } != 0 {
            let _ = self.protect(|lua| {
                // SAFETY: as above; errors of finalizers end nothing.
                unsafe { tidegate_lua_collect(lua.raw()) };
                Ok(())
            });
        }
    }
}
