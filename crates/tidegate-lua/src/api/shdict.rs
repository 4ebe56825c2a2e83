//! `ngx.shared.DICT`.

use std::cell::RefCell;
use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::thread::LocalKey;

use super::Family;
use super::compiled::{Filled, Handled, Handles, ffi_functions, find, hold, release};
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::shdict::{End, Found, Refusal, Scalar, Store, Zone};
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "shdict",
    cdef: "typedef struct {
        const uint8_t *data; size_t len; double number; int32_t type; uint32_t flags; int32_t stale;
    } tg_dict_value;",
    ffi: ffi_functions! {
        get as "get": (Handle<Dict>, Bytes, c_int, Out<DictValue>) -> c_int,
        store as "store":
            (Handle<Dict>, c_int, Bytes, c_int, Bytes, f64, f64, u32) -> c_int,
        delete as "delete": (Handle<Dict>, Bytes),
        incr as "incr": (Handle<Dict>, Bytes, f64, c_int, f64, f64, Out<f64>) -> c_int,
        push as "push": (Handle<Dict>, Bytes, c_int, c_int, Bytes, f64, Out<f64>) -> c_int,
        pop as "pop": (Handle<Dict>, Bytes, c_int, Out<DictValue>) -> c_int,
        list_len as "list_len": (Handle<Dict>, Bytes, Out<f64>) -> c_int,
        ttl as "ttl": (Handle<Dict>, Bytes) -> f64,
        expire as "expire": (Handle<Dict>, Bytes, f64) -> c_int,
        flush_all as "flush_all": (Handle<Dict>),
        flush_expired as "flush_expired": (Handle<Dict>, f64) -> f64,
        capacity as "capacity": (Handle<Dict>) -> f64,
        free_space as "free_space": (Handle<Dict>) -> f64,
    },
    functions: &[("keys", function(keys))],
};

/// Numbers of types, as in Lua itself.
const BOOLEAN: c_int = 1;
const NUMBER: c_int = 3;

/// Set in a status when live entries had to go.
const FORCIBLE: c_int = 16;

/// A value on its way to Lua.
#[derive(Clone, Copy)]
#[repr(C)]
struct DictValue {
    data: *const u8,
    len: usize,
    number: f64,
    kind: c_int,
    flags: u32,
    stale: c_int,
}

thread_local! {
    /// The string that was read last: the map's lock is gone when Lua copies it.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The largest string for which [`BUFFER`] keeps its memory.
const BUFFER_BYTES_KEPT: usize = 64 << 10;

/// A zone as scripts hold it, by number.
struct Dict(Arc<Zone>);

/// The zone of a machine: scripts of the machine may use the number as long as this lives.
pub(crate) struct OpenDict {
    zone: Arc<Zone>,
    number: u32,
}

impl OpenDict {
    /// Gives a zone a number.
    pub(crate) fn new(zone: &Arc<Zone>) -> Self {
        // So many zones no configuration has; the number of none is harmless.
        Self { zone: zone.clone(), number: hold(Dict(zone.clone())).unwrap_or(u32::MAX) }
    }

    pub(crate) fn zone(&self) -> &Zone {
        &self.zone
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for OpenDict {
    fn drop(&mut self) {
        release::<Dict>(self.number);
    }
}

impl Handled for Dict {
    fn handles() -> &'static LocalKey<RefCell<Handles<Self>>> {
        thread_local! {
            static DICTS: RefCell<Handles<Dict>> = const { RefCell::new(Handles::new()) };
        }
        &DICTS
    }
}

fn scalar(kind: c_int, text: &[u8], number: f64) -> Scalar<'_> {
    match kind {
        BOOLEAN => Scalar::Boolean(number != 0.0),
        NUMBER => Scalar::Number(number),
        _ => Scalar::String(text),
    }
}

/// Status of a change: the Lua half has the same list.
fn status<T>(result: &Result<T, Refusal>, forcible: bool) -> c_int {
    let status = match result {
        Ok(_) => 0,
        Err(Refusal::NotFound) => 1,
        Err(Refusal::Exists) => 2,
        Err(Refusal::NoMemory) => 3,
        Err(Refusal::NotANumber) => 4,
        Err(Refusal::NotAList) => 5,
    };
    if forcible { status | FORCIBLE } else { status }
}

impl Default for DictValue {
    fn default() -> Self {
        Self { data: ptr::null(), len: 0, number: 0.0, kind: 0, flags: 0, stale: 0 }
    }
}

impl Filled for DictValue {
    const POINTER: &'static str = "tg_dict_value *";
}

impl DictValue {
    fn put(&mut self, value: Scalar<'_>) {
        match value {
            Scalar::Boolean(value) => (self.kind, self.number) = (BOOLEAN, f64::from(u8::from(value))),
            Scalar::Number(value) => (self.kind, self.number) = (NUMBER, value),
            Scalar::String(value) => BUFFER.with_borrow_mut(|buffer| {
                buffer.clear();
                if buffer.capacity() > BUFFER_BYTES_KEPT {
                    buffer.shrink_to(BUFFER_BYTES_KEPT);
                }
                buffer.extend_from_slice(value);
                self.kind = 4;
                self.data = buffer.as_ptr();
                self.len = buffer.len();
            }),
        }
    }
}

/// 1 with the value in `out`, 0 when there is none, 2 when it is a list.
fn get(dict: &Dict, key: &[u8], stale: c_int, out: &mut DictValue) -> c_int {
    let found = dict.0.get(key, stale != 0, |found| match found {
        Found::List => 2,
        Found::Scalar { value, flags, stale } => {
            out.put(value);
            out.flags = flags;
            out.stale = c_int::from(stale);
            1
        }
    });
    found.unwrap_or(0)
}

/// `how`: 0 set, 1 add, 2 replace; 4 beside it spares live entries.
fn store(dict: &Dict, how: c_int, key: &[u8], kind: c_int, text: &[u8], number: f64, ttl_ms: f64, flags: u32) -> c_int {
    let store = match how & 3 {
        0 => Store::Set,
        1 => Store::Add,
        _ => Store::Replace,
    };
    let changed = dict.0.store(store, how & 4 != 0, key, scalar(kind, text, number), ttl_ms, flags);
    status(&changed.result, changed.forcible)
}

fn delete(dict: &Dict, key: &[u8]) {
    dict.0.delete(key);
}

fn incr(dict: &Dict, key: &[u8], by: f64, has_init: c_int, init: f64, init_ttl_ms: f64, out: &mut f64) -> c_int {
    let changed = dict.0.incr(key, by, (has_init != 0).then_some((init, init_ttl_ms)));
    if let Ok(number) = changed.result {
        *out = number;
    }
    status(&changed.result, changed.forcible)
}

fn end(left: c_int) -> End {
    if left != 0 { End::Left } else { End::Right }
}

fn push(dict: &Dict, key: &[u8], left: c_int, kind: c_int, text: &[u8], number: f64, out: &mut f64) -> c_int {
    let result = dict.0.push(key, end(left), scalar(kind, text, number));
    if let Ok(len) = result {
        *out = len as f64;
    }
    status(&result, false)
}

fn pop(dict: &Dict, key: &[u8], left: c_int, out: &mut DictValue) -> c_int {
    status(&dict.0.pop(key, end(left), |value| out.put(value)), false)
}

fn list_len(dict: &Dict, key: &[u8], out: &mut f64) -> c_int {
    let changed = dict.0.list_len(key);
    if let Ok(len) = changed.result {
        *out = len as f64;
    }
    status(&changed.result, false)
}

/// Milliseconds; no number when there is no such key.
fn ttl(dict: &Dict, key: &[u8]) -> f64 {
    dict.0.ttl_ms(key).map_or(f64::NAN, |ms| ms as f64)
}

fn expire(dict: &Dict, key: &[u8], ttl_ms: f64) -> c_int {
    c_int::from(dict.0.expire(key, ttl_ms))
}

fn flush_all(dict: &Dict) {
    dict.0.flush_all();
}

/// Removes at most `max` entries, all for 0. The cast saturates.
fn flush_expired(dict: &Dict, max: f64) -> f64 {
    dict.0.flush_expired(max as usize) as f64
}

fn capacity(dict: &Dict) -> f64 {
    dict.0.capacity() as f64
}

fn free_space(dict: &Dict) -> f64 {
    dict.0.free_space() as f64
}

/// `keys(dict, max)`: a table of keys.
fn keys(lua: &mut Lua) -> CResult {
    // The cast saturates.
    let dict = lua.to_number(1).and_then(|handle| find::<Dict>(handle as u32));
    let dict = dict.ok_or(LuaError::new("bad \"zone\" argument"))?;
    let max = lua.opt_number(2, 1024.0)? as usize;
    let keys = dict.0.keys(max);
    lua.push_table(c_int::try_from(keys.len()).unwrap_or(0), 0);
    for (number, key) in (1..).zip(keys.iter()) {
        lua.push_bytes(key);
        lua.raw_set_index(-2, number);
    }
    Ok(1)
}

#[cfg(test)]
mod tests {
    use crate::phase::Phase;
    use crate::shdict::Zone;
    use crate::testing::{run_in, vm_with};
    use crate::vm::VmConfig;

    #[track_caller]
    fn check(code: &str, expected: &[&str]) {
        let zone = Zone::open(&"dogs".into(), 100 << 10);
        zone.flush_all();
        let vm = vm_with(VmConfig { shared_dicts: vec![zone], ..VmConfig::default() });
        let ran = run_in(&vm, Phase::Content, &format!("local dogs = ngx.shared.dogs {code}"));
        assert_eq!(ran.out, expected, "{ran:?}");
        assert!(ran.log.is_empty(), "{ran:?}");
    }

    // One test: the zone is one for the process.
    #[test]
    fn dictionary() {
        check(
            "out(dogs:set('a', 32)) out(dogs:get('a'))
             dogs:set('b', 'text', 0, 5) out(dogs:get('b'))
             dogs:set('c', false) out(dogs:get('c'))
             out(dogs:get_stale('b')) out(dogs:get('nothing'))
             out(dogs:add('a', 1)) out(dogs:replace('d', 1)) out(dogs:safe_add('d', 'x'))
             out(dogs:incr('a', 1.5)) out(dogs:incr('b', 1)) out(dogs:incr('e', 1)) out(dogs:incr('e', 1, 10))
             out(dogs:delete('a')) out(dogs:get('a'))
             out(dogs:set(nil, 1)) out(dogs:set('', 1)) out(dogs:set(('k'):rep(65536), 1)) out(dogs:set('t', {}))
             out(dogs:add('t', nil))",
            &[
                "true nil false",
                "32",
                "text 5",
                "false",
                "text 5 false",
                "nil",
                "false exists false",
                "false not found false",
                "true nil false",
                "33.5",
                "nil not a number",
                "nil not found",
                "11 nil false",
                "true nil false",
                "nil",
                "nil nil key",
                "nil empty key",
                "nil key too long",
                "nil bad value type",
                "false attempt to add or replace nil values false",
            ],
        );
        check(
            "out(dogs:lpush('l', 1)) out(dogs:rpush('l', 'two')) out(dogs:llen('l')) out(dogs:get('l'))
             out(dogs:lpop('l')) out(dogs:rpop('l')) out(dogs:lpop('l')) out(dogs:llen('l'))
             dogs:set('s', 1) out(dogs:lpush('s', 1)) out(dogs:lpop('s')) out(dogs:llen('s')) out(dogs:lpush('x', true))",
            &[
                "1",
                "2",
                "2",
                "nil value is a list",
                "1",
                "two",
                "nil",
                "0",
                "nil value not a list",
                "nil value not a list",
                "nil value not a list",
                "nil bad value type",
            ],
        );
        check(
            "dogs:set('a', 1, 100) out(dogs:ttl('a') > 99) out(dogs:ttl('zzz')) out(dogs:expire('a', 0))
             out(dogs:ttl('a')) out(dogs:expire('zzz', 1)) out(#dogs:get_keys()) dogs:flush_all() out(dogs:get('a'))
             out(dogs:get_stale('a')) out(dogs:flush_expired() >= 1) out(dogs:capacity(), dogs:free_space())
             out(pcall(dogs.get, nil, 'a')) out(pcall(dogs.set, dogs, 'a', 1, -1)) out(ngx.shared.cats)
             for i = 1, 300 do dogs:set('i' .. i % 10, i) end out(dogs:get('i9'))",
            &[
                "true",
                "nil not found",
                "true",
                "0",
                "nil not found",
                "1",
                "nil",
                "1 nil true",
                "true",
                "102400 90112",
                "false bad \"zone\" argument",
                "false bad \"exptime\" argument",
                "nil",
                "299",
            ],
        );
    }
}
