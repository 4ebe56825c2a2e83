//! The Rust half of `require "rds.parser"` (`lualib/rds/parser.lua`): RDS streams become Lua tables.
//!
//! Follows lua-rds-parser: numbers become Lua numbers, booleans booleans, NULL `parser.null`, everything else strings.

use std::ffi::c_int;
use std::ptr;

use tidegate_rows::rds::{RdsClass, RdsCursor, RdsError};

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family { name: "rds", cdef: "", ffi: &[], functions: &[("parse", function(parse))] };

/// Why a stream gives no table.
enum Bad {
    Stream(RdsError),
    Lua(LuaError),
}

impl From<RdsError> for Bad {
    fn from(error: RdsError) -> Self {
        Bad::Stream(error)
    }
}

impl From<LuaError> for Bad {
    fn from(error: LuaError) -> Self {
        Bad::Lua(error)
    }
}

/// `parse(stream)`: a table, or nil and why not.
fn parse(lua: &mut Lua) -> CResult {
    // SAFETY: the argument stays where it is, below what is pushed and popped here.
    let input = unsafe { lua.held_bytes(1) }?;
    match push_result(lua, input) {
        Ok(()) => Ok(1),
        Err(Bad::Lua(error)) => Err(error),
        Err(Bad::Stream(error)) => {
            let text = error.to_string();
            lua.push_nil();
            lua.push_bytes(text.as_bytes());
            Ok(2)
        }
    }
}

/// Pushes the table for one result. `input` stays on the stack below, so nothing here is copied twice.
fn push_result(lua: &mut Lua, input: &[u8]) -> Result<(), Bad> {
    let mut cursor = RdsCursor::new(input);
    let header = cursor.header()?;
    lua.reserve(8)?;
    lua.push_table(0, 5);
    let result = lua.top();
    let mut number = |name: &[u8], value: u64| {
        lua.push_number(value as f64);
        lua.raw_set_field(result, name);
    };
    number(b"errcode", header.errcode.into());
    number(b"affected_rows", header.affected_rows);
    number(b"insert_id", header.insert_id);
    if !header.errstr.is_empty() {
        lua.push_bytes(header.errstr);
        lua.raw_set_field(result, b"errstr");
    }
    if header.columns > 0 {
        push_rows(lua, &mut cursor, header.columns)?;
        lua.raw_set_field(result, b"resultset");
    }
    cursor.finish()?;
    Ok(())
}

/// Pushes a list of rows, each a table by column name. The names stand on the stack while the rows are read.
fn push_rows(lua: &mut Lua, cursor: &mut RdsCursor<'_>, columns: u16) -> Result<(), Bad> {
    let columns = c_int::from(columns);
    // A row's table, key and value come on top of the names and classes.
    lua.push_table(columns, 0);
    let names = lua.top();
    lua.push_table(columns, 0);
    let classes = lua.top();
    for index in 1..=columns {
        let column = cursor.column()?;
        lua.push_bytes(column.name);
        lua.raw_set_index(names, index);
        lua.push_integer(RdsClass::of(column.kind) as i64);
        lua.raw_set_index(classes, index);
    }
    lua.push_table(0, 0);
    let rows = lua.top();
    let mut row = 0;
    while cursor.row()? {
        row += 1;
        lua.push_table(0, columns);
        let table = lua.top();
        for index in 1..=columns {
            lua.raw_get_index(names, index);
            lua.raw_get_index(classes, index);
            let class = lua.to_number(lua.top()).unwrap_or_default() as i64;
            lua.pop(1);
            push_value(lua, class, cursor.field()?);
            lua.raw_set(table);
        }
        lua.raw_set_index(rows, row);
    }
    // Only the rows are a result; the helpers below them go.
    lua.remove(classes);
    lua.remove(names);
    Ok(())
}

fn push_value(lua: &mut Lua, class: i64, value: Option<&[u8]>) {
    const INT: i64 = RdsClass::Int as i64;
    const FLOAT: i64 = RdsClass::Float as i64;
    const BOOL: i64 = RdsClass::Bool as i64;
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    match (class, value) {
        (_, None) => lua.push_light(ptr::null()),
        (BOOL, Some(text)) => lua.push_bool(matches!(text, b"t" | b"1" | b"true")),
        (INT | FLOAT, Some(text)) => match number(text) {
            Some(number) => lua.push_number(number),
            None => lua.push_bytes(text),
        },
        (_, Some(text)) => lua.push_bytes(text),
    }
}
