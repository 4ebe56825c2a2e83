//! Chunks without varargs, which LuaJIT compiles to machine code.
//!
//! Lua makes every chunk a vararg function, and LuaJIT does not begin a trace at one: the outermost code of each
//! request would be interpreted for ever. No `*_by_lua*` chunk has arguments, so one that never says `...` is taken
//! apart as bytecode and put together again as a function without parameters. It stays a "main chunk" in tracebacks.
//!
//! Source: LuaJIT's bytecode dump format, version 2 (`lj_bcdump.h`).

use std::ffi::CStr;

use crate::stack::Lua;

/// How a dump begins: escape, `LJ`, version 2.
const MAGIC: &[u8] = b"\x1bLJ\x02";

/// The dump has no names and lines: there is no name of the chunk behind the flags.
const DUMP_STRIPPED: u32 = 0x02;

/// The function takes varargs.
const PROTO_VARARG: u8 = 0x02;

/// Puts a function without varargs in the place of the chunk on top of the stack, which was compiled from `source`.
/// Leaves it as it is when it uses its varargs or is bytecode.
pub(crate) fn fix_arguments(lua: &mut Lua, source: &[u8], name: &CStr) {
    if source.first() == MAGIC.first() || uses_varargs(lua, source, name) {
        return;
    }
    let Some(mut dump) = lua.dump() else { return };
    if clear_vararg(&mut dump).is_some() && lua.load(&dump, name).is_ok() {
        lua.remove(-2);
    }
}

/// Whether the outermost code says `...`: inside a function without parameters it does not compile then.
fn uses_varargs(lua: &mut Lua, source: &[u8], name: &CStr) -> bool {
    let wrapped = [b"return function() ", source, b"\nend"].concat();
    let fits = lua.load(&wrapped, name).is_ok();
    if fits {
        lua.pop(1);
    }
    !fits
}

/// Clears the vararg flag of the outermost function, which is the last of the dump. `None` if `dump` is not understood.
fn clear_vararg(dump: &mut [u8]) -> Option<()> {
    let mut at = MAGIC.len();
    if dump.get(..at)? != MAGIC {
        return None;
    }
    let flags = read_uleb128(dump, &mut at)?;
    if flags & DUMP_STRIPPED == 0 {
        at += read_uleb128(dump, &mut at)? as usize;
    }
    let mut last = None;
    loop {
        let length = read_uleb128(dump, &mut at)? as usize;
        if length == 0 {
            break;
        }
        last = Some(at);
        at += length;
    }
    let flags = dump.get_mut(last?)?;
    (*flags & PROTO_VARARG != 0).then(|| *flags &= !PROTO_VARARG)
}

fn read_uleb128(bytes: &[u8], at: &mut usize) -> Option<u32> {
    let mut value = 0_u32;
    for shift in (0..32).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Type;
    use crate::vm::{Vm, VmConfig};

    #[track_caller]
    fn check(source: &str, takes_varargs: bool) {
        let vm = Vm::new(VmConfig::default()).expect("a virtual machine");
        // SAFETY: nobody else works with the main state.
        let lua = unsafe { vm.main().lua() };
        lua.load(source.as_bytes(), c"=chunk").expect("compiles");
        fix_arguments(lua, source.as_bytes(), c"=chunk");
        lua.load(
            b"local f = ... local info = require 'jit.util'.funcinfo(f) return info.isvararg, info.linedefined, info.source",
            c"=test",
        )
        .expect("compiles");
        lua.insert(-2);
        lua.call(1, 3).expect("runs");
        assert_eq!(lua.to_bool(-3), takes_varargs, "{source}");
        assert_eq!(lua.to_bytes(-2), Some(&b"0"[..]), "{source}");
        assert_eq!(lua.to_bytes(-1), Some(&b"=chunk"[..]), "{source}");
        assert_eq!(lua.type_of(-1), Type::String);
    }

    #[test]
    fn only_chunks_that_say_so_take_varargs() {
        check("return 1", false);
        check("local function f(...) return ... end return f(1)", false);
        check("-- a comment at the end", false);
        check("return ...", true);
        check("local n = select('#', ...)", true);
    }

    #[test]
    fn other_bytes_are_left_alone() {
        for bytes in
            [&b""[..], b"\x1bLJ\x01", b"\x1bLJ\x02", b"\x1bLJ\x02\x02\x05\x02", b"\x1bLJ\x02\x02\x00", b"return 1"]
        {
            assert_eq!(clear_vararg(&mut bytes.to_vec()), None, "{bytes:?}");
        }
    }
}
