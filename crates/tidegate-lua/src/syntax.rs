//! Lua code is looked at when the configuration is read: what does not compile, and files that are not there, are found before
//! the first request.
//!
//! OpenResty starts all the same, and so does Tidegate, since other locations may work: they are warnings.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bstr::ByteSlice;
use mlua_sys as ffi;
use tidegate_conf::{Span, ast};
use tidegate_core::conf::Build;
use tidegate_net::log::SysError;

use crate::allocator;
use crate::chunk::skip_shebang;
use crate::stack::Coroutine;

/// Warns if `source`, which stands in the configuration under `block` or comes from the argument at `span`, does not compile.
pub(crate) fn check_inline(
    source: &[u8],
    name: &CStr,
    block: Option<&ast::LuaBlock>,
    span: Span,
    build: &mut Build<'_>,
) {
    let Some(message) = error_of(source, name) else { return };
    let span = block.and_then(|block| place_in(block, &message)).unwrap_or(span);
    build.diagnostics.warn(span, format!("failed to load inlined Lua code: {}", message.to_str_lossy()));
}

/// Warns if the file at `path`, named by the argument at `span`, cannot be read or does not compile.
pub(crate) fn check_file(path: &[u8], span: Span, build: &mut Build<'_>) {
    let shown = path.to_str_lossy();
    let message = match std::fs::read(Path::new(std::ffi::OsStr::from_bytes(path))) {
        Err(error) => format!("open() \"{shown}\" failed {}", SysError(&error)),
        Ok(source) => {
            let Ok(name) = std::ffi::CString::new([b"@", path].concat()) else { return };
            let Some(message) = error_of(skip_shebang(&source), &name) else { return };
            format!("failed to load external Lua file \"{shown}\": {}", message.to_str_lossy())
        }
    };
    build.diagnostics.warn(span, message);
}

/// A state without libraries, for compiling only.
struct Compiler(Coroutine);

impl Compiler {
    fn new() -> Option<Self> {
        let state = allocator::new_state();
        // SAFETY: a new state, which `drop` closes.
        (!state.is_null()).then(|| Self(unsafe { Coroutine::from_raw(state) }))
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // SAFETY: the last use of the state.
        unsafe { ffi::lua_close(self.0.raw()) };
    }
}

/// LuaJIT's complaint about `source`, if it has one.
fn error_of(source: &[u8], name: &CStr) -> Option<Vec<u8>> {
    let compiler = Compiler::new()?;
    let mut complaint = None;
    // A failure outside of the compiler is a want of memory: the first request will tell.
    // SAFETY: nobody else works with the state.
    let _ = unsafe { compiler.0.lua() }.protect(|lua| {
        complaint = lua.load(source, name).err().map(|failure| failure.message);
        Ok(())
    });
    complaint
}

/// Where in a block of the configuration the complaint `…:LINE: … near 'TOKEN'` is about: the token, or the line.
fn place_in(block: &ast::LuaBlock, message: &[u8]) -> Option<Span> {
    let source = block.source.as_bytes();
    let number = message.split_str(b"):").nth(1)?.split(|&byte| byte == b':').next()?;
    let number: usize = number.to_str().ok()?.parse().ok()?;
    // What is between the braces is the span, byte for byte, unless the block was made of something else.
    if (block.span.end - block.span.start) as usize != source.len() {
        return None;
    }
    let line = source.lines_with_terminator().nth(number.checked_sub(1)?)?;
    let offset = line.as_ptr().addr() - source.as_ptr().addr();
    let near = message.rfind(b" near '").and_then(|at| message[at + b" near '".len()..].strip_suffix(b"'"));
    let (at, len) = match near.and_then(|token| Some((line.rfind(token)?, token.len()))) {
        Some(token) => token,
        None => (line.len() - line.trim_ascii_start().len(), line.trim_ascii().len().max(1)),
    };
    let start = block.span.start + u32::try_from(offset + at).ok()?;
    Some(Span { start, end: start + u32::try_from(len).ok()?, ..block.span })
}
