//! Chunks: the Lua code of `*_by_lua*` directives, compiled once per virtual machine.
//!
//! Inline code gets a number when the configuration is read; a virtual machine keeps what it compiled in a table by
//! that number, so that a request finds its function with one index. Files are kept by path.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::bytecode;
use crate::error::Failure;
use crate::stack::Ref;
use crate::vm::Vm;

/// LuaJIT shows at most so many bytes of a chunk's name (`LUA_IDSIZE` less the zero).
const NAME_BYTES_MAX: usize = 59;

/// The number of an inline chunk, unique in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkId(u32);

impl ChunkId {
    fn next() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Inline Lua code of a directive.
#[derive(Debug)]
pub struct Chunk {
    id: ChunkId,
    source: Vec<u8>,
    name: CString,
}

/// Why a chunk does not load: the log line, as OpenResty writes it, and the status to answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(message))]
pub struct LoadError {
    /// For the error log.
    pub message: Vec<u8>,
    /// The bare reason, for phases that have another sentence around it.
    pub reason: Vec<u8>,
    /// 404 for a file that does not exist, 503 for one that cannot be read, 500 for code that does not compile.
    pub status: u16,
}

impl Chunk {
    /// Inline code of `directive` (`content_by_lua`, without `_block`) at `line` of the configuration file `file`, given
    /// relative to the configuration's directory.
    #[must_use]
    pub fn inline(directive: &str, file: &[u8], line: usize, source: &[u8]) -> Self {
        let name = chunk_name(directive, file, line);
        Self { id: ChunkId::next(), source: source.to_vec(), name }
    }

    /// The name that messages show.
    pub(crate) fn name(&self) -> &std::ffi::CStr {
        &self.name
    }

    /// The compiled function in `vm`, compiled now if it is the first use.
    ///
    /// # Errors
    /// When the code does not compile. The next call tries again.
    pub fn load(&self, vm: &Vm) -> Result<Ref, LoadError> {
        match vm.chunk(self.id) {
            Some(function) => Ok(function),
            None => self.compile(vm),
        }
    }

    #[cold]
    fn compile(&self, vm: &Vm) -> Result<Ref, LoadError> {
        let function = compile(vm, &self.source, &self.name).map_err(|failure| LoadError {
            message: [b"failed to load inlined Lua code: ", failure.message.as_slice()].concat(),
            reason: failure.message,
            status: 500,
        })?;
        let mut chunks = vm.chunks.borrow_mut();
        let index = self.id.index();
        if chunks.len() <= index {
            chunks.resize(index + 1, None);
        }
        chunks[index] = Some(function);
        Ok(function)
    }
}

/// The compiled function of the file at `path` in `vm`: source or bytecode, read at the first use.
///
/// Reading blocks the worker for the time of one read of a small file, once.
///
/// # Errors
/// When the file cannot be read or does not compile.
pub fn load_file(vm: &Vm, path: &[u8]) -> Result<Ref, LoadError> {
    let cached = vm.files.borrow().get(path).copied();
    if let Some(function) = cached {
        return Ok(function);
    }
    let error = |what: &[u8], status| LoadError {
        message: [b"failed to load external Lua file \"", path, b"\": ", what].concat(),
        reason: what.to_vec(),
        status,
    };
    let source = read(path).map_err(|source| {
        let text = std::io::Error::from_raw_os_error(source.raw_os_error().unwrap_or(libc::EIO)).to_string();
        // "No such file or directory (os error 2)": the number is noise that OpenResty's line does not have.
        let text = text.split(" (os error").next().unwrap_or_default();
        let what = [b"cannot open ", path, b": ", text.as_bytes()].concat();
        error(&what, if source.kind() == io::ErrorKind::NotFound { 404 } else { 503 })
    })?;
    let name = CString::new([b"@", path].concat()).map_err(|_| error(b"a zero byte in the path", 404))?;
    let function = compile(vm, skip_shebang(&source), &name).map_err(|failure| error(&failure.message, 500))?;
    vm.files.borrow_mut().insert(path.to_vec(), function);
    Ok(function)
}

fn read(path: &[u8]) -> io::Result<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    fs::read(Path::new(std::ffi::OsStr::from_bytes(path)))
}

/// Lua skips a first line that begins with `#`, and keeps its line break for the numbering.
pub(crate) fn skip_shebang(source: &[u8]) -> &[u8] {
    if source.first() != Some(&b'#') {
        return source;
    }
    memchr::memchr(b'\n', source).map_or(b"", |end| &source[end..])
}

fn compile(vm: &Vm, source: &[u8], name: &std::ffi::CStr) -> Result<Ref, Failure> {
    vm.relieve_memory();
    let mut compiled = None;
    // SAFETY: the body uses its own stack only.
    unsafe { vm.main().lua() }.protect(|lua| {
        compiled = Some(lua.load(source, name).map(|()| {
            bytecode::fix_arguments(lua, source, name);
            lua.make_ref()
        }));
        Ok(())
    })?;
    compiled.unwrap_or_else(|| Err(Failure::memory()))
}

/// `=content_by_lua(nginx.conf:12)`; a long file name loses its beginning.
fn chunk_name(directive: &str, file: &[u8], line: usize) -> CString {
    let line = line.to_string();
    let fixed = directive.len() + line.len() + "(:)".len();
    let room = NAME_BYTES_MAX.saturating_sub(fixed);
    let shown = if file.len() <= room {
        file.to_vec()
    } else {
        let kept = room.saturating_sub("...".len());
        [b"...", &file[file.len() - kept.min(file.len())..]].concat()
    };
    let mut name = [b"=", directive.as_bytes(), b"(", &shown, b":", line.as_bytes(), b")"].concat();
    name.retain(|&byte| byte != 0);
    CString::new(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::VmConfig;

    #[track_caller]
    fn check_name(directive: &str, file: &str, expected: &str) {
        assert_eq!(chunk_name(directive, file.as_bytes(), 7).to_str(), Ok(expected));
    }

    #[test]
    fn names_fit_luajit() {
        check_name("content_by_lua", "nginx.conf", "=content_by_lua(nginx.conf:7)");
        check_name(
            "content_by_lua",
            "sites/very-long-name-of-a-customer/production/site.conf",
            "=content_by_lua(...ame-of-a-customer/production/site.conf:7)",
        );
    }

    #[test]
    fn a_chunk_compiles_once() {
        let vm = Vm::new(VmConfig::default()).expect("a virtual machine");
        let chunk = Chunk::inline("content_by_lua", b"nginx.conf", 3, b"return 1");
        let first = chunk.load(&vm).expect("compiles");
        assert_eq!(chunk.load(&vm), Ok(first));
    }

    #[test]
    fn errors_read_as_in_openresty() {
        let vm = Vm::new(VmConfig::default()).expect("a virtual machine");
        let chunk = Chunk::inline("content_by_lua", b"nginx.conf", 3, b"x x");
        let error = chunk.load(&vm).expect_err("does not compile");
        assert_eq!(
            error.to_string(),
            "failed to load inlined Lua code: content_by_lua(nginx.conf:3):1: '=' expected near 'x'"
        );
        let error = load_file(&vm, b"/nonexistent/x.lua").expect_err("no such file");
        assert_eq!(error.status, 404);
        assert_eq!(
            error.to_string(),
            "failed to load external Lua file \"/nonexistent/x.lua\": cannot open /nonexistent/x.lua: \
             No such file or directory"
        );
    }

    #[test]
    fn a_first_line_with_a_hash_is_skipped() {
        assert_eq!(skip_shebang(b"#!/usr/bin/lua\nreturn 1"), b"\nreturn 1");
        assert_eq!(skip_shebang(b"#"), b"");
        assert_eq!(skip_shebang(b"return 1"), b"return 1");
    }
}
