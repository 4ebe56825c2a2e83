//! Lua values to JSON.

use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::io::Write as _;

use super::{Config, EMPTY_ARRAY, InvalidNumbers, NESTING_MAX, pointer};
use crate::entries::{Entries, Part, is_keyed};
use crate::error::{CResult, LuaError};
use crate::stack::{Lua, Type, may_nest};
use crate::work::{self, Excess};

/// From this length on a string counts as a table does.
const LONG_STRING_BYTES: usize = 4 << 10;

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

/// Bytes of an encoded key that is kept.
const KEY_SIZE: usize = 32;

/// A key of the object before, as it was written: rows have the same keys again and again.
#[derive(Clone, Copy)]
struct KnownKey {
    /// The string's identity: equal strings are the same one, and the value being encoded holds it.
    string: *const [u8],
    /// `,"key":` and anything.
    text: [u8; KEY_SIZE],
    len: usize,
}

struct Encoder {
    config: Config,
    out: Vec<u8>,
    /// Whether a table that begins as an array was an array to its end so far.
    arrays_are_plain: bool,
    /// Keys of the last object by their position in it, once there are arrays of several values.
    known_keys: Vec<KnownKey>,
    repeats: bool,
}

/// Encodes argument 1.
pub(super) fn run(lua: &mut Lua, config: Config) -> CResult {
    let mut out = BUFFER.take();
    out.clear();
    let mut encoder = Encoder { config, out, arrays_are_plain: true, known_keys: Vec::new(), repeats: false };
    let outcome = encoder.value(lua, 1);
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

fn unsupported(lua: &Lua, reason: &str) -> LuaError {
    LuaError::from(format!("Cannot serialise {}: {reason}", lua.type_name(-1)))
}

/// A long string may stand in many places, too.
#[inline]
fn check_long(lua: &Lua, bytes: &[u8], written: usize) -> Result<(), Excess> {
    if bytes.len() < LONG_STRING_BYTES { Ok(()) } else { work::check(lua, written.saturating_add(bytes.len())) }
}

impl Encoder {
    /// Appends the value on top of the stack; `false` when it was skipped.
    fn value(&mut self, lua: &mut Lua, depth: i64) -> Result<bool, LuaError> {
        match lua.type_of(-1) {
            Type::String => {
                let bytes = lua.to_bytes(-1).unwrap_or_default();
                check_long(lua, bytes, self.out.len())?;
                self.string(bytes);
            }
            Type::Number => self.number(lua.to_number(-1).unwrap_or_default())?,
            Type::Boolean => self.out.extend_from_slice(if lua.to_bool(-1) { b"true" } else { b"false" }),
            Type::Nil => self.out.extend_from_slice(b"null"),
            Type::LightUserdata if lua.to_userdata(-1).is_null() => self.out.extend_from_slice(b"null"),
            Type::LightUserdata if std::ptr::eq(lua.to_userdata(-1), pointer(&EMPTY_ARRAY)) => {
                self.out.extend_from_slice(b"[]");
            }
            Type::Table => self.table(lua, depth)?,
            _ if self.config.encode_skip_unsupported => return Ok(false),
            _ => return Err(unsupported(lua, "type not supported")),
        }
        Ok(true)
    }

    fn table(&mut self, lua: &mut Lua, depth: i64) -> Result<(), LuaError> {
        if depth > self.config.encode_max_depth.min(NESTING_MAX) || !may_nest() || lua.reserve(4).is_err() {
            return Err(LuaError::from(format!("Cannot serialise, excessive depth ({depth})")));
        }
        // A table may stand in many places.
        work::check(lua, self.out.len())?;
        let (keyed, meta) = is_keyed(lua, lua.top());
        if !meta.is_null() && meta == self.config.array_mt {
            return self.array(lua, lua.raw_len(-1) as c_int, depth);
        }
        if keyed {
            return self.object(lua, depth);
        }
        if self.arrays_are_plain && self.plain_array(lua, depth)? {
            return Ok(());
        }
        match self.array_len(lua)? {
            Some(0) if meta.is_null() || meta != self.config.empty_array_mt => {
                let empty: &[u8] = if self.config.encode_empty_table_as_object { b"{}" } else { b"[]" };
                self.out.extend_from_slice(empty);
                Ok(())
            }
            Some(len) => self.array(lua, len, depth),
            None => self.object(lua, depth),
        }
    }

    /// Appends the table on top in one pass if its keys come as 1, 2, 3 and so on. Otherwise nothing is appended, and no
    /// other table is tried: the work would double with each level of nesting.
    fn plain_array(&mut self, lua: &mut Lua, depth: i64) -> Result<bool, LuaError> {
        let start = self.out.len();
        let mut expected = 0.0;
        // SAFETY: what is encoded stays below what `member` pushes and pops, and no Lua code runs that could change it.
        let mut entries = unsafe { Entries::of(lua, lua.top()) };
        while let Some((key, value)) = entries.next() {
            expected += 1.0;
            if !matches!(key, Part::Number(key) if key == expected) {
                self.arrays_are_plain = expected == 1.0;
                self.out.truncate(start);
                return Ok(false);
            }
            let before = self.out.len();
            self.out.push(b',');
            self.member(lua, value, before, depth)?;
            self.repeats = true;
        }
        if expected == 0.0 {
            return Ok(false);
        }
        self.close(start, b"[]");
        Ok(true)
    }

    /// Appends a value of the table on top; what stands behind `before`, its comma and key, goes if it was skipped.
    #[inline]
    fn member(&mut self, lua: &mut Lua, value: Part<'_>, before: usize, depth: i64) -> Result<(), LuaError> {
        match value {
            Part::String(bytes) => {
                check_long(lua, bytes, self.out.len())?;
                self.string(bytes);
            }
            Part::Number(number) => self.number(number)?,
            Part::Other(other) => {
                other.push(lua);
                let written = self.value(lua, depth + 1)?;
                lua.pop(1);
                if !written {
                    self.out.truncate(before);
                }
            }
        }
        Ok(())
    }

    /// Ends what began at `start`, each of whose parts has a comma in front.
    fn close(&mut self, start: usize, brackets: &[u8; 2]) {
        match self.out.get_mut(start) {
            Some(comma) => *comma = brackets[0],
            None => self.out.push(brackets[0]),
        }
        self.out.push(brackets[1]);
    }

    /// The length of the table on top as an array; `None` when it is an object.
    fn array_len(&self, lua: &mut Lua) -> Result<Option<c_int>, LuaError> {
        let (mut max, mut count) = (0.0f64, 0i64);
        lua.push_nil();
        while lua.next(-2) {
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

    fn array(&mut self, lua: &mut Lua, len: c_int, depth: i64) -> Result<(), LuaError> {
        let start = self.out.len();
        for index in 1..=len {
            if (index as usize).is_multiple_of(work::STEPS_MAX) {
                work::check(lua, self.out.len())?;
            }
            let before = self.out.len();
            self.out.push(b',');
            lua.raw_get_index(-1, index);
            if !self.value(lua, depth + 1)? {
                self.out.truncate(before);
            }
            lua.pop(1);
        }
        self.close(start, b"[]");
        Ok(())
    }

    fn object(&mut self, lua: &mut Lua, depth: i64) -> Result<(), LuaError> {
        let start = self.out.len();
        // SAFETY: as in `plain_array`.
        let mut entries = unsafe { Entries::of(lua, lua.top()) };
        let mut index = 0;
        while let Some((key, value)) = entries.next() {
            let before = self.out.len();
            match key {
                Part::String(bytes) => self.key(index, bytes),
                Part::Number(number) => {
                    self.out.extend_from_slice(b",\"");
                    self.number(number)?;
                    self.out.extend_from_slice(b"\":");
                }
                Part::Other(_) => return Err(unsupported(lua, "table key must be a number or string")),
            }
            index += 1;
            self.member(lua, value, before, depth)?;
        }
        self.close(start, b"{}");
        Ok(())
    }

    /// Appends a comma, a key and a colon. `index` is the key's position in its table.
    #[inline]
    fn key(&mut self, index: usize, bytes: &[u8]) {
        if let Some(known) = self.known_keys.get(index)
            && std::ptr::eq(known.string, bytes)
        {
            let len = self.out.len() + known.len;
            self.out.extend_from_slice(&known.text);
            self.out.truncate(len);
            return;
        }
        self.new_key(index, bytes);
    }

    fn new_key(&mut self, index: usize, bytes: &[u8]) {
        let start = self.out.len();
        self.out.push(b',');
        self.string(bytes);
        self.out.push(b':');
        let text = &self.out[start..];
        if !self.repeats || text.len() > KEY_SIZE || index > self.known_keys.len() {
            return;
        }
        let mut known = KnownKey { string: bytes, text: [0; KEY_SIZE], len: text.len() };
        known.text[..text.len()].copy_from_slice(text);
        match self.known_keys.get_mut(index) {
            Some(old) => *old = known,
            None => self.known_keys.push(known),
        }
    }

    #[inline]
    fn string(&mut self, bytes: &[u8]) {
        if bytes.len() > 16 || !self.short_string(bytes) {
            self.any_string(bytes);
        }
    }

    /// Appends a string of up to 16 bytes if it needs no escape: its two ends, which may overlap.
    #[inline]
    fn short_string(&mut self, bytes: &[u8]) -> bool {
        let len = self.out.len() + bytes.len() + 1;
        let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) else {
            let word = short_word(bytes);
            if needs_escape(word) != 0 {
                return false;
            }
            self.out.push(b'"');
            self.out.extend_from_slice(&word.to_le_bytes());
            self.out.truncate(len);
            self.out.push(b'"');
            return true;
        };
        if (needs_escape(u64::from_le_bytes(*first)) | needs_escape(u64::from_le_bytes(*last))) != 0 {
            return false;
        }
        self.out.push(b'"');
        self.out.extend_from_slice(first);
        self.out.truncate(len - 8);
        self.out.extend_from_slice(last);
        self.out.push(b'"');
        true
    }

    fn any_string(&mut self, bytes: &[u8]) {
        self.out.reserve(bytes.len() + 2);
        self.out.push(b'"');
        let mut rest = bytes;
        loop {
            let (plain, tail) = rest.split_at(plain_len(rest));
            self.out.extend_from_slice(plain);
            let Some((&byte, tail)) = tail.split_first() else { break };
            match ESCAPES[usize::from(byte)] {
                b'/' if !self.config.encode_escape_forward_slash => self.out.push(b'/'),
                b'u' => {
                    // A vector takes everything.
                    let _ = write!(self.out, "\\u{byte:04x}");
                }
                escape => self.out.extend_from_slice(&[b'\\', escape]),
            }
            rest = tail;
        }
        self.out.push(b'"');
    }

    fn number(&mut self, number: f64) -> Result<(), LuaError> {
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

/// Which of eight bytes may need an escape: their high bits. Those behind the first one may be wrong.
#[inline]
fn needs_escape(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let is = |wanted: u8| {
        let word = word ^ (ONES * u64::from(wanted));
        word.wrapping_sub(ONES) & !word
    };
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (control | is(b'"') | is(b'\\') | is(b'/') | is(0x7f)) & HIGHS
}

/// Up to seven bytes in their order, with `~` behind them.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let fill = u64::from_le_bytes([b'~'; 8]) << (8 * len);
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (len - 4)) | fill;
    }
    match bytes {
        [] => fill,
        // The middle is the first, the last or between them.
        [first, ..] => {
            let (middle, last) = (len / 2, len - 1);
            u64::from(*first) | u64::from(bytes[middle]) << (8 * middle) | u64::from(bytes[last]) << (8 * last) | fill
        }
    }
}

/// How many bytes at the front of `bytes` need no escape, whatever the settings.
#[inline]
fn plain_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let found = needs_escape(u64::from_le_bytes(*chunk));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let tail = &bytes[at..];
    at + tail.iter().position(|byte| ESCAPES[usize::from(*byte)] != 0).unwrap_or(tail.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_no_escape() {
        for len in 0..20 {
            let text = vec![b'a'; len];
            assert_eq!(plain_len(&text), len);
            for at in 0..len {
                for byte in 0..=255_u8 {
                    let mut text = text.clone();
                    text[at] = byte;
                    let expected = if ESCAPES[usize::from(byte)] == 0 { len } else { at };
                    assert_eq!(plain_len(&text), expected, "{byte} at {at} of {len}");
                    if len < 8 {
                        assert_eq!(needs_escape(short_word(&text)) == 0, expected == len, "{byte} at {at} of {len}");
                        assert_eq!(short_word(&text).to_le_bytes()[..len], text);
                    }
                }
            }
        }
    }
}
