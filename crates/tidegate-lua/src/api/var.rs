//! `ngx.var`: the variables of a configuration.

use std::ffi::c_int;

use bstr::BStr;
use tidegate_core::variable::{VariableError, VariableId};

use super::compiled::ffi_functions;
use super::{Family, ffi_error, ffi_request};

pub(crate) static FAMILY: Family = Family {
    name: "var",
    cdef: "",
    ffi: ffi_functions! {
        get as "get": (c_int, TextOut) -> c_int,
        get_named as "get_named": (Bytes, TextOut) -> c_int,
        capture as "capture": (c_int, TextOut) -> c_int,
        set as "set": (Bytes, OptBytes) -> c_int,
    },
    functions: &[],
};

/// Gives the value of a variable: 1, or 0 if it has none.
fn get(id: c_int, out: &mut Vec<u8>) -> c_int {
    let id = VariableId(id.unsigned_abs());
    ffi_request(|_, req| c_int::from(req.conf().variables.has(id) && req.variable(id, out)))
}

/// As [`get`], by name. Where the variable has a number, twice that number and 2 are added to the answer; it stays the same as
/// long as the virtual machine. `$arg_x` and its like have none, unless the configuration names them.
fn get_named(name: &[u8], out: &mut Vec<u8>) -> c_int {
    let name = BStr::new(name);
    ffi_request(|_, req| match req.conf().variables.find(name) {
        Some(id) => c_int::from(req.variable(id, out)) + (c_int::try_from(id.0).unwrap_or(-1) + 1) * 2,
        None => c_int::from(req.variable_with_prefix(name, out)),
    })
}

/// Gives a group of the last match of a regular expression.
fn capture(group: c_int, out: &mut Vec<u8>) -> c_int {
    ffi_request(|_, req| match usize::try_from(group) {
        Ok(group) if group > 0 => c_int::from(req.capture(group, out)),
        _ => 0,
    })
}

/// Assigns a variable; a null `value` takes its value away.
fn set(name: &[u8], value: Option<&[u8]>) -> c_int {
    let name = BStr::new(name);
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
