//! `ngx.var`: the variables of a configuration.

use std::ffi::c_int;

use bstr::BStr;
use tidegate_core::variable::{VariableError, VariableId};

use super::{Family, Text, bytes_of, ffi_error, ffi_functions, ffi_request, give_text};

pub(crate) static FAMILY: Family = Family {
    name: "var",
    cdef: "",
    ffi: ffi_functions! {
        get as "get": "int (*)(int, tg_str *)",
        get_named as "get_named": "int (*)(const char *, size_t, tg_str *)",
        capture as "capture": "int (*)(int, tg_str *)",
        set as "set": "int (*)(const char *, size_t, const char *, size_t)",
    },
    functions: &[],
};

/// Gives the value of a variable: 1, or 0 if it has none.
///
/// # Safety
/// `out` points to a `tg_str`; `id` came from [`get_named`] in this virtual machine.
unsafe extern "C" fn get(id: c_int, out: *mut Text) -> c_int {
    let id = VariableId(id.unsigned_abs());
    ffi_request(|_, req| {
        // SAFETY: the caller's promise.
        unsafe { give_text(out, |text| c_int::from(req.variable(id, text))) }
    })
}

/// As [`get`], by name. Where the variable has a number, twice that number and 2 are added to the answer; it stays the same as
/// long as the virtual machine. `$arg_x` and its like have none, unless the configuration names them.
///
/// # Safety
/// `name` points to `len` bytes, `out` to a `tg_str`.
unsafe extern "C" fn get_named(name: *const u8, len: usize, out: *mut Text) -> c_int {
    // SAFETY: the caller's promise.
    let name = BStr::new(unsafe { bytes_of(name, len) });
    ffi_request(|_, req| {
        // SAFETY: the caller's promise.
        unsafe {
            give_text(out, |text| match req.conf().variables.find(name) {
                Some(id) => c_int::from(req.variable(id, text)) + (c_int::try_from(id.0).unwrap_or(-1) + 1) * 2,
                None => c_int::from(req.variable_with_prefix(name, text)),
            })
        }
    })
}

/// Gives a group of the last match of a regular expression.
///
/// # Safety
/// `out` points to a `tg_str`.
unsafe extern "C" fn capture(group: c_int, out: *mut Text) -> c_int {
    ffi_request(|_, req| match usize::try_from(group) {
        // SAFETY: the caller's promise.
        Ok(group) if group > 0 => unsafe { give_text(out, |text| c_int::from(req.capture(group, text))) },
        _ => 0,
    })
}

/// Assigns a variable; a null `value` takes its value away.
///
/// # Safety
/// `name` and `value` point to as many bytes as the lengths say.
unsafe extern "C" fn set(name: *const u8, len: usize, value: *const u8, value_len: usize) -> c_int {
    // SAFETY: the caller's promise.
    let (name, value) =
        unsafe { (BStr::new(bytes_of(name, len)), (!value.is_null()).then(|| bytes_of(value, value_len))) };
    ffi_request(|_, req| match req.set_variable_named(name, value) {
        Ok(()) => 0,
        Err(error) => {
            let variables = &req.conf().variables;
            refuse(name, error, variables.find(name).is_some() && variables.find_prefix(name).is_none())
        }
    })
}

#[cold]
fn refuse(name: &BStr, error: VariableError, defined: bool) -> c_int {
    let text = match error {
        VariableError::NotChangeable if defined => format!("variable \"{name}\" not changeable"),
        _ => format!(
            "variable \"{name}\" not found for writing; maybe it is a built-in variable that is not changeable or you \
             forgot to use \"set ${name} '';\" in the config file to define it first"
        ),
    };
    ffi_error(text.as_bytes())
}
