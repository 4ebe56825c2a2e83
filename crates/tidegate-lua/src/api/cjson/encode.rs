//! Lua values to JSON.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::io::Write as _;

use mlua_sys as ffi;

use super::{ARRAY_MT, Config, EMPTY_ARRAY, EMPTY_ARRAY_MT, InvalidNumbers, NESTING_MAX, pointer, shared_table};
use crate::error::{CResult, LuaError};
use crate::stack::{Lua, Type};

/// The largest buffer that is kept between calls.
const KEPT_BYTES: usize = 256 << 10;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What follows the backslash of an escaped byte; `u` for a code, 0 for none.
static ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = b'u';
        byte += 1;
    }
    table[0x7f] = b'u';
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'/' as usize] = b'/';
    table
};

struct Encoder {
    lua: Lua,
    config: Config,
    out: Vec<u8>,
    array_mt: *const c_void,
    empty_array_mt: *const c_void,
    /// Whether a table that begins as an array was an array to its end so far.
    arrays_are_plain: bool,
}

/// Encodes argument 1.
pub(super) fn run(lua: Lua, config: Config) -> CResult {
    let mut out = BUFFER.take();
    out.clear();
    let (array_mt, empty_array_mt) = (shared_table(lua, &ARRAY_MT), shared_table(lua, &EMPTY_ARRAY_MT));
    let mut encoder = Encoder { lua, config, out, array_mt, empty_array_mt, arrays_are_plain: true };
    let outcome = encoder.value(1);
    let mut out = encoder.out;
    if outcome.is_ok() {
        lua.push_bytes(&out);
    }
    if config.encode_keep_buffer {
        if out.capacity() > KEPT_BYTES {
            out = Vec::new();
        }
        BUFFER.set(out);
    }
    outcome.map(|_| 1)
}

fn unsupported(lua: Lua, reason: &str) -> LuaError {
    LuaError::from(format!("Cannot serialise {}: {reason}", lua.type_name(-1)))
}

impl Encoder {
    /// Appends the value on top of the stack; `false` when it was skipped.
    fn value(&mut self, depth: i64) -> Result<bool, LuaError> {
        let lua = self.lua;
        match lua.type_of(-1) {
            Type::String => self.string(-1),
            Type::Number => self.number(-1)?,
            Type::Boolean => self.out.extend_from_slice(if lua.to_bool(-1) { b"true" } else { b"false" }),
            Type::Nil => self.out.extend_from_slice(b"null"),
            Type::LightUserdata if lua.to_userdata(-1).is_null() => self.out.extend_from_slice(b"null"),
            Type::LightUserdata if std::ptr::eq(lua.to_userdata(-1), pointer(&EMPTY_ARRAY)) => {
                self.out.extend_from_slice(b"[]");
            }
            Type::Table => self.table(depth)?,
            _ if self.config.encode_skip_unsupported => return Ok(false),
            _ => return Err(unsupported(lua, "type not supported")),
        }
        Ok(true)
    }

    fn table(&mut self, depth: i64) -> Result<(), LuaError> {
        let lua = self.lua;
        if depth > self.config.encode_max_depth.min(NESTING_MAX) || lua.reserve(4).is_err() {
            return Err(LuaError::from(format!("Cannot serialise, excessive depth ({depth})")));
        }
        let meta = self.metatable();
        if !meta.is_null() && meta == self.array_mt {
            // SAFETY: a table is on top.
            let len = unsafe { ffi::lua_objlen(lua.raw(), -1) };
            return self.array(len as c_int, depth);
        }
        if self.arrays_are_plain && self.plain_array(depth)? {
            return Ok(());
        }
        match self.array_len()? {
            Some(0) if meta.is_null() || meta != self.empty_array_mt => {
                let empty: &[u8] = if self.config.encode_empty_table_as_object { b"{}" } else { b"[]" };
                self.out.extend_from_slice(empty);
                Ok(())
            }
            Some(len) => self.array(len, depth),
            None => self.object(depth),
        }
    }

    /// Appends the table on top in one pass if its keys come as 1, 2, 3 and so on. Otherwise nothing is appended, and no
    /// other table is tried: the work would double with each level of nesting.
    fn plain_array(&mut self, depth: i64) -> Result<bool, LuaError> {
        let (lua, state) = (self.lua, self.lua.raw());
        let start = self.out.len();
        let mut expected = 0.0;
        lua.push_nil();
        // SAFETY: as in `array_len`: the table does not change meanwhile, nor does its key.
        while unsafe { ffi::lua_next(state, -2) } != 0 {
            expected += 1.0;
            if lua.type_of(-2) != Type::Number || lua.to_number(-2) != Some(expected) {
                lua.pop(2);
                self.arrays_are_plain = expected == 1.0;
                self.out.truncate(start);
                return Ok(false);
            }
            let before = self.out.len();
            self.out.push(if before == start { b'[' } else { b',' });
            if !self.value(depth + 1)? {
                self.out.truncate(before);
            }
            lua.pop(1);
        }
        if expected == 0.0 {
            return Ok(false);
        }
        if self.out.len() == start {
            self.out.push(b'[');
        }
        self.out.push(b']');
        Ok(true)
    }

    /// The metatable's identity, or null.
    fn metatable(&self) -> *const c_void {
        // SAFETY: a table is on top, and a slot was reserved.
        unsafe {
            if ffi::lua_getmetatable(self.lua.raw(), -1) == 0 {
                return std::ptr::null();
            }
            let meta = ffi::lua_topointer(self.lua.raw(), -1);
            self.lua.pop(1);
            meta
        }
    }

    /// The length of the table on top as an array; `None` when it is an object.
    fn array_len(&self) -> Result<Option<c_int>, LuaError> {
        let (lua, state) = (self.lua, self.lua.raw());
        let (mut max, mut count) = (0.0f64, 0i64);
        lua.push_nil();
        // SAFETY: a table is below the key; the key is one that the table has, so that lua_next does not raise.
        while unsafe { ffi::lua_next(state, -2) } != 0 {
            let key = if lua.type_of(-2) == Type::Number { lua.to_number(-2) } else { None };
            match key {
                Some(key) if key >= 1.0 && key.fract() == 0.0 => {
                    max = max.max(key);
                    count += 1;
                    lua.pop(1);
                }
                _ => {
                    lua.pop(2);
                    return Ok(None);
                }
            }
        }
        let config = self.config;
        let sparse = config.encode_sparse_ratio > 0
            && max > (count * config.encode_sparse_ratio) as f64
            && max > config.encode_sparse_safe as f64;
        if sparse && config.encode_sparse_convert {
            return Ok(None);
        }
        if sparse || max > f64::from(c_int::MAX) {
            return Err(unsupported(lua, "excessively sparse array"));
        }
        Ok(Some(max as c_int))
    }

    fn array(&mut self, len: c_int, depth: i64) -> Result<(), LuaError> {
        self.out.push(b'[');
        let mut first = true;
        for index in 1..=len {
            let before = self.out.len();
            if !first {
                self.out.push(b',');
            }
            self.lua.raw_get_index(-1, index);
            if self.value(depth + 1)? {
                first = false;
            } else {
                self.out.truncate(before);
            }
            self.lua.pop(1);
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, depth: i64) -> Result<(), LuaError> {
        let lua = self.lua;
        self.out.push(b'{');
        lua.push_nil();
        let mut first = true;
        // SAFETY: as in `array_len`; the table does not change meanwhile, nor does its key (`number` converts nothing).
        while unsafe { ffi::lua_next(lua.raw(), -2) } != 0 {
            let before = self.out.len();
            if !first {
                self.out.push(b',');
            }
            match lua.type_of(-2) {
                Type::String => self.string(-2),
                Type::Number => {
                    self.out.push(b'"');
                    self.number(-2)?;
                    self.out.push(b'"');
                }
                _ => {
                    // The complaint names the table.
                    lua.pop(2);
                    return Err(unsupported(lua, "table key must be a number or string"));
                }
            }
            self.out.push(b':');
            if self.value(depth + 1)? {
                first = false;
            } else {
                self.out.truncate(before);
            }
            lua.pop(1);
        }
        self.out.push(b'}');
        Ok(())
    }

    fn string(&mut self, index: c_int) {
        let lua = self.lua;
        let bytes = lua.to_bytes(index).unwrap_or_default();
        let slash = self.config.encode_escape_forward_slash;
        self.out.reserve(bytes.len() + 2);
        self.out.push(b'"');
        let mut done = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            let escape = ESCAPES[usize::from(byte)];
            if escape == 0 || (byte == b'/' && !slash) {
                continue;
            }
            self.out.extend_from_slice(&bytes[done..at]);
            if escape == b'u' {
                // A vector takes everything.
                let _ = write!(self.out, "\\u{byte:04x}");
            } else {
                self.out.extend_from_slice(&[b'\\', escape]);
            }
            done = at + 1;
        }
        self.out.extend_from_slice(&bytes[done..]);
        self.out.push(b'"');
    }

    fn number(&mut self, index: c_int) -> Result<(), LuaError> {
        // SAFETY: the slot holds a number (checked by the callers): nothing is converted.
        let number = unsafe { ffi::lua_tonumber(self.lua.raw(), index) };
        if !number.is_finite() {
            let text: &[u8] = match self.config.encode_invalid_numbers {
                InvalidNumbers::Refused => {
                    return Err(LuaError::new("Cannot serialise number: must not be NaN or Infinity"));
                }
                InvalidNumbers::Null => b"null",
                InvalidNumbers::Written if number.is_nan() => b"NaN",
                InvalidNumbers::Written if number < 0.0 => b"-Infinity",
                InvalidNumbers::Written => b"Infinity",
            };
            self.out.extend_from_slice(text);
            return Ok(());
        }
        let precision = self.config.encode_number_precision;
        // Integers of so few digits look the same in %g.
        let integer = number as i64;
        if precision >= 14 && integer as f64 == number && integer.unsigned_abs() < 100_000_000_000_000 {
            if integer == 0 && number.is_sign_negative() {
                self.out.push(b'-');
            }
            self.out.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
            return Ok(());
        }
        let mut text = [0u8; 32];
        // SAFETY: the buffer's size is given; 16 digits, sign, point and exponent fit.
        let len = unsafe {
            libc::snprintf(text.as_mut_ptr().cast::<c_char>(), text.len(), c"%.*g".as_ptr(), precision as c_int, number)
        };
        self.out.extend_from_slice(&text[..usize::try_from(len).unwrap_or(0).min(text.len())]);
        Ok(())
    }
}
