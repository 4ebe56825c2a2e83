//! What `tidegate lua` was asked to run, for its Lua half.

use super::Family;
use crate::command::{self, Script};
use crate::error::CResult;
use crate::function::function;
use crate::stack::Lua;

pub(crate) static FAMILY: Family =
    Family { name: "command", cdef: "", ffi: &[], functions: &[("take", function(take)), ("exit", function(exit))] };

fn push_list(lua: &mut Lua, list: &[Vec<u8>]) {
    lua.push_table(i32::try_from(list.len()).unwrap_or(0), 0);
    for (number, text) in (1..).zip(list) {
        lua.push_bytes(text);
        lua.raw_set_index(-2, number);
    }
}

/// `take()`: libraries, chunks, the path of the script (`true` for the standard input, `false` for none), arguments.
fn take(lua: &mut Lua) -> CResult {
    let Some(command) = command::get() else { return Ok(0) };
    push_list(lua, &command.libraries);
    push_list(lua, &command.chunks);
    match &command.script {
        Script::None => lua.push_bool(false),
        Script::Stdin => lua.push_bool(true),
        Script::File(path) => lua.push_bytes(path),
    }
    push_list(lua, &command.arguments);
    Ok(4)
}

/// `exit(status)`: ends the process. What was logged is written first.
fn exit(lua: &mut Lua) -> CResult {
    let status = lua.check_integer(1)? as i32;
    tidegate_net::log::flush();
    std::process::exit(status)
}
