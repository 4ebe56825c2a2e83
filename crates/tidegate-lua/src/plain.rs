//! A LuaJIT machine with Lua's own library alone: scripts that no server runs, such as those of `tidegate load`.

use mlua_sys as ffi;

use crate::allocator;
use crate::error::{Failure, LuaError};
use crate::panics;
use crate::stack::{Coroutine, Lua};

pub use crate::portable::Value;

/// A machine of its owner's, who may take it to another thread.
#[derive(Debug)]
pub struct Machine {
    main: Coroutine,
}

// SAFETY: nothing of a machine belongs to the thread that made it, and only its owner reaches it: `with` wants it for itself.
unsafe impl Send for Machine {}

impl Machine {
    /// Makes a machine.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> Result<Self, Failure> {
        let state = allocator::new_state();
        if state.is_null() {
            return Err(Failure::memory());
        }
        // SAFETY: just created; closed when the machine is dropped.
        let mut machine = Self { main: unsafe { Coroutine::from_raw(state) } };
        machine.main.guard_stack();
        machine.with(|lua| {
            // SAFETY: a fresh state in a protected context.
            unsafe { ffi::luaL_openlibs(lua.raw()) };
            Ok(())
        })?;
        Ok(machine)
    }

    /// Works with the machine, in a protected context.
    ///
    /// # Errors
    /// What `body` returned, or Lua raised in it.
    pub fn with<R>(&mut self, body: impl FnOnce(&mut Lua) -> Result<R, LuaError>) -> Result<R, Failure> {
        let mut result = None;
        // SAFETY: the machine is live and borrowed for this call alone.
        unsafe { self.main.lua() }.protect(|lua| {
            result = Some(body(lua)?);
            Ok(())
        })?;
        result.ok_or_else(Failure::memory)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: the last use: nobody else has the state.
        unsafe { ffi::lua_close(self.main.raw()) };
        panics::forget(self.main);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_works_on_another_thread() {
        let mut machine = Machine::new().expect("memory");
        let run = |machine: &mut Machine, source: &str| {
            machine.with(|lua| {
                lua.load(source.as_bytes(), c"=test").map_err(|failure| LuaError::Bare(failure.message))?;
                lua.call(0, 1).map_err(|failure| LuaError::Bare(failure.message))?;
                let top = lua.top();
                Value::copy(lua, top).map_err(LuaError::new)
            })
        };
        assert_eq!(run(&mut machine, "n = 1 return ngx"), Ok(Value::Nil));
        let mut machine = std::thread::spawn(move || {
            assert_eq!(run(&mut machine, "n = n + 1 return n"), Ok(Value::Number(2.0)));
            machine
        })
        .join()
        .expect("no panic");
        let failure = run(&mut machine, "error('no', 0)").expect_err("an error");
        assert_eq!(failure.to_string(), "no");
        assert_eq!(run(&mut machine, "return n"), Ok(Value::Number(2.0)));
    }
}
