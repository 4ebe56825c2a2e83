//! `ndk.set_var.DIRECTIVE(value)`: what the `set_misc` directives compute.

use tidegate_modules::set_misc;

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::scheduler::with_run;
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "ndk",
    cdef: "",
    ffi: &[],
    functions: &[("knows", function(knows)), ("compute", function(compute))],
};

/// `knows(directive)`: whether it computes a value of one value.
fn knows(lua: Lua) -> CResult {
    let known = set_misc::function(lua.check_bytes(1)?).is_some();
    lua.push_bool(known);
    Ok(1)
}

/// `compute(directive, value)`: nil when the directive fails.
fn compute(lua: Lua) -> CResult {
    let Some(function) = set_misc::function(lua.check_bytes(1)?) else {
        return Err(LuaError::new("unknown directive"));
    };
    let value = if lua.is_none_or_nil(2) { b"" } else { lua.check_bytes(2)? };
    let req = with_run(|run| run.request().cloned()).flatten();
    match function(req.as_ref(), value) {
        Some(computed) => lua.push_bytes(&computed),
        None => lua.push_nil(),
    }
    Ok(1)
}
