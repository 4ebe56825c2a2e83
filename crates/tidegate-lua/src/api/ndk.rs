//! `ndk.set_var.DIRECTIVE(value)`: what the `set_misc` directives compute.

use tidegate_modules::set_misc;

use super::Family;
use super::compiled::ffi_functions;
use crate::error::CResult;
use crate::function::function;
use crate::scheduler::with_run;
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "ndk",
    cdef: "",
    ffi: ffi_functions! {
        compute as "compute": (Bytes, Bytes, TextOut) -> bool,
    },
    functions: &[("knows", function(knows))],
};

/// `knows(directive)`: whether it computes a value of one value.
fn knows(lua: &mut Lua) -> CResult {
    let known = set_misc::function(lua.check_bytes(1)?).is_some();
    lua.push_bool(known);
    Ok(1)
}

/// Gives what the directive makes of the value; `false` when it fails.
fn compute(directive: &[u8], value: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(function) = set_misc::function(directive) else { return false };
    let req = with_run(|run| run.request().cloned()).flatten();
    let Some(computed) = function(req.as_ref(), value) else { return false };
    out.extend_from_slice(&computed);
    true
}
