//! Lua values that travel between virtual machines: copies of booleans, numbers, strings and tables of these.

use mlua_sys as ffi;

use crate::error::LuaError;
use crate::stack::{Coroutine, Lua, Type};
use crate::work::{self, Excess};

/// Tables may be nested so deep.
///
/// Source: lua-nginx-module, `LUA_COPY_MAX_DEPTH`.
const DEPTH_MAX: u32 = 100;

/// A value outside of any virtual machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `nil`
    Nil,
    /// `true` or `false`
    Boolean(bool),
    /// A number.
    Number(f64),
    /// A bare pointer: `ngx.null`.
    Light(usize),
    /// Bytes.
    String(Vec<u8>),
    /// Keys and values.
    Table(Vec<(Value, Value)>),
}

impl Value {
    /// Copies the value at `index`, counted from the bottom. *May raise* (memory).
    ///
    /// # Errors
    /// lua-nginx-module's words for what cannot be copied; ours for what is too much.
    pub fn copy(lua: &mut Lua, index: i32) -> Result<Value, &'static str> {
        Copier { bytes: 0 }.copy(lua, index, 0)
    }

    /// Pushes the value. *May raise* (memory).
    ///
    /// # Errors
    /// When the stack is full.
    pub fn push(&self, lua: &mut Lua) -> Result<(), LuaError> {
        lua.reserve(4)?;
        match self {
            Value::Nil => lua.push_nil(),
            Value::Boolean(value) => lua.push_bool(*value),
            Value::Number(value) => lua.push_number(*value),
            Value::Light(address) => lua.push_light(std::ptr::without_provenance(*address)),
            Value::String(bytes) => lua.push_bytes(bytes),
            Value::Table(pairs) => {
                lua.push_table(0, i32::try_from(pairs.len()).unwrap_or(i32::MAX).min(1 << 16));
                for (key, value) in pairs {
                    key.push(lua)?;
                    value.push(lua)?;
                    lua.raw_set(-3);
                }
            }
        }
        Ok(())
    }
}

/// Collects all garbage of a virtual machine.
pub(crate) fn collect_garbage(main: Coroutine) {
    // Finalizers that fail are the only errors that this can meet; they end it early.
    // SAFETY: the body uses its own stack only.
    let _ = unsafe { main.lua() }.protect(|lua| {
        // SAFETY: a live state in a protected context.
        unsafe { ffi::lua_gc(lua.raw(), ffi::LUA_GCCOLLECT, 0) };
        Ok(())
    });
}

/// Copies a value. A table that stands in several places is copied for each.
struct Copier {
    /// What the copy takes so far.
    bytes: usize,
}

impl Copier {
    fn copy(&mut self, lua: &mut Lua, index: i32, depth: u32) -> Result<Value, &'static str> {
        Ok(match lua.type_of(index) {
            Type::Nil | Type::None => Value::Nil,
            Type::Boolean => Value::Boolean(lua.to_bool(index)),
            Type::Number => Value::Number(lua.to_number(index).unwrap_or_default()),
            Type::LightUserdata => Value::Light(lua.to_userdata(index).addr()),
            Type::String => {
                let bytes = lua.to_bytes(index).unwrap_or_default();
                self.count(lua, bytes.len())?;
                Value::String(bytes.to_vec())
            }
            Type::Table => return self.copy_table(lua, index, depth),
            Type::Function => return Err("unsupported Lua type: LUA_TFUNCTION"),
            Type::Userdata => return Err("unsupported Lua type: LUA_TUSERDATA"),
            Type::Thread => return Err("unsupported Lua type: LUA_TTHREAD"),
            Type::Cdata => return Err("unsupported Lua type"),
        })
    }

    fn copy_table(&mut self, lua: &mut Lua, index: i32, depth: u32) -> Result<Value, &'static str> {
        if depth >= DEPTH_MAX {
            return Err("suspicious circular references, table depth exceed max depth: 100");
        }
        lua.reserve(4).map_err(|_| "stack overflow")?;
        let mut pairs = Vec::new();
        lua.push_nil();
        while lua.next(index) {
            let top = lua.top();
            let pair = self.count(lua, size_of::<(Value, Value)>()).and_then(|()| {
                let key = self.copy(lua, top - 1, depth + 1)?;
                Ok((key, self.copy(lua, top, depth + 1)?))
            });
            match pair {
                Ok(pair) => pairs.push(pair),
                Err(reason) => {
                    lua.pop(2);
                    return Err(reason);
                }
            }
            lua.pop(1);
        }
        Ok(Value::Table(pairs))
    }

    fn count(&mut self, lua: &Lua, bytes: usize) -> Result<(), &'static str> {
        self.bytes = self.bytes.saturating_add(bytes);
        work::check(lua, self.bytes).map_err(Excess::message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::{Vm, VmConfig};

    /// Copies what `source` returns and pushes it again.
    #[track_caller]
    fn check(source: &str, expected: Result<Value, &str>) {
        let vm = Vm::new(VmConfig::default()).expect("a virtual machine");
        // SAFETY: nobody else works with the main state.
        unsafe { vm.main().lua() }
            .protect(|lua| {
                lua.load(source.as_bytes(), c"=test").expect("compiles");
                lua.call(0, 1).expect("runs");
                let copied = Value::copy(lua, lua.top());
                assert_eq!(copied, expected, "{source}");
                if let Ok(value) = copied {
                    value.push(lua)?;
                    assert_eq!(Value::copy(lua, lua.top()), Ok(value), "{source}");
                }
                Ok(())
            })
            .expect("no error");
    }

    #[test]
    fn copies() {
        let text = |text: &str| Value::String(text.as_bytes().to_vec());
        check("return nil", Ok(Value::Nil));
        check("return 1.5", Ok(Value::Number(1.5)));
        check("return '32'", Ok(text("32")));
        check("return ngx.null", Ok(Value::Light(0)));
        check("return { a = { 'x' } }", {
            let inner = Value::Table(vec![(Value::Number(1.0), text("x"))]);
            Ok(Value::Table(vec![(text("a"), inner)]))
        });
        check("return print", Err("unsupported Lua type: LUA_TFUNCTION"));
        check("return { { print } }", Err("unsupported Lua type: LUA_TFUNCTION"));
        check("return 1LL", Err("unsupported Lua type"));
        check(
            "local t = {} t.t = t return t",
            Err("suspicious circular references, table depth exceed max depth: 100"),
        );
    }
}
