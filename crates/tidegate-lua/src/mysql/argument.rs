//! Statements and parameters from Lua values.

use std::ffi::c_int;

use bytes::Bytes;
use tidegate_rows::Param;

use crate::error::LuaError;
use crate::rows::{Int64, to_int64};
use crate::socket::text_of;
use crate::stack::{Lua, Type};

/// More parameters than a statement can have: the protocol counts them in 16 bits.
const PARAMS_MAX: usize = 0xffff;

/// Integers beyond this are not whole numbers in a double any more, or no `i64`.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// A statement's text at `index`: a string, a number, or a table of fragments, nested as one likes.
pub(super) fn sql(lua: &mut Lua, index: c_int) -> Result<Vec<u8>, LuaError> {
    match lua.type_of(index) {
        Type::String => Ok(lua.to_bytes(index).unwrap_or_default().to_vec()),
        Type::Number | Type::Table => text_of(lua, index),
        _ => Err(LuaError::argument(index, format!("string or table expected, got {}", lua.type_name(index)))),
    }
}

/// The parameters in the table at `index`: its field `n` says how many, or else its length.
pub(super) fn params(lua: &mut Lua, index: c_int) -> Result<Vec<Param>, LuaError> {
    lua.reserve(2)?;
    lua.raw_get_field(index, b"n");
    let given = lua.to_number(-1);
    lua.pop(1);
    let count = match given {
        Some(count) if count >= 0.0 => count as usize,
        _ => lua.raw_len(index),
    };
    if count > PARAMS_MAX {
        return Err(LuaError::argument(index, format!("{count} parameters are too many")));
    }
    let mut params = Vec::with_capacity(count);
    for number in 1..=c_int::try_from(count).unwrap_or(0) {
        lua.raw_get_index(index, number);
        let param = param(lua, lua.top());
        let kind = lua.type_name(-1);
        lua.pop(1);
        params.push(param.ok_or_else(|| {
            let wanted = "string, finite number, boolean, 64-bit integer or ngx.null expected";
            LuaError::argument(index, format!("parameter {number}: {wanted}, got {kind}"))
        })?);
    }
    Ok(params)
}

/// The parameter at `index`, counted from 1.
fn param(lua: &mut Lua, index: c_int) -> Option<Param> {
    Some(match lua.type_of(index) {
        Type::Nil => Param::Null,
        Type::LightUserdata if lua.to_userdata(index).is_null() => Param::Null,
        Type::Boolean => Param::Int(i64::from(lua.to_bool(index))),
        Type::String => Param::Bytes(Bytes::copy_from_slice(lua.to_bytes(index).unwrap_or_default())),
        Type::Number => {
            let number = lua.to_number(index)?;
            if number.abs() <= INTEGER_MAX && number.fract() == 0.0 {
                Param::Int(number as i64)
            } else if number.is_finite() {
                Param::Double(number)
            } else {
                return None;
            }
        }
        Type::Cdata => match to_int64(lua, index)? {
            Int64::Signed(value) => Param::Int(value),
            Int64::Unsigned(value) => Param::Uint(value),
        },
        _ => return None,
    })
}
