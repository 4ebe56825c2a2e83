//! `ndk.set_var.DIRECTIVE(value)`: what the `set_misc` directives compute.

use tidegate_modules::set_misc;

use super::{Family, Text, bytes_of, ffi_functions, give_text};
use crate::error::CResult;
use crate::function::function;
use crate::scheduler::with_run;
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "ndk",
    cdef: "",
    ffi: ffi_functions! {
        compute as "compute": "bool (*)(const char *, size_t, const char *, size_t, tg_str *)",
    },
    functions: &[("knows", function(knows))],
};

/// `knows(directive)`: whether it computes a value of one value.
fn knows(lua: Lua) -> CResult {
    let known = set_misc::function(lua.check_bytes(1)?).is_some();
    lua.push_bool(known);
    Ok(1)
}

/// Gives what the directive makes of the value; `false` when it fails.
///
/// # Safety
/// `directive` and `value` point to as many bytes as the lengths say, `out` to a `tg_str`.
unsafe extern "C" fn compute(
    directive: *const u8,
    directive_len: usize,
    value: *const u8,
    value_len: usize,
    out: *mut Text,
) -> bool {
    // SAFETY: the caller's promise.
    let (directive, value) = unsafe { (bytes_of(directive, directive_len), bytes_of(value, value_len)) };
    let Some(function) = set_misc::function(directive) else { return false };
    let req = with_run(|run| run.request().cloned()).flatten();
    let Some(computed) = function(req.as_ref(), value) else { return false };
    // SAFETY: the caller's promise.
    unsafe { give_text(out, |text| text.extend_from_slice(&computed)) };
    true
}
