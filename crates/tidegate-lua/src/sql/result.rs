//! What a statement gives: its rows, or what it did.

use std::task::{Context, Poll};

use tidegate_rows::{Column, Flow, Row, Sink, SinkClosed, Summary};
use tidegate_sql::{TableChange, TableRead};

use crate::error::{CResult, LuaError};
use crate::rows::{Integers, Kept, Results, Shape};
use crate::stack::Lua;

/// A result that a script wants all at once may be this large.
const RESULT_BYTES_MAX: usize = 256 << 20;

/// The form of rows.
pub(crate) const ROWS: Shape = Shape {
    compact: false,
    rows_hint: crate::rows::ROWS_HINT_DEFAULT,
    integers: Integers::Exact,
    results: Results::LastRows,
    bytes_max: RESULT_BYTES_MAX,
};

/// The rows of a statement, and the tables that they were read from if the script wants to know.
pub(crate) struct Rows {
    /// The array of rows; `None` for a text without a statement.
    pub(crate) table: Option<Kept>,
    pub(crate) reads: Vec<TableRead>,
}

/// What a statement did, and the tables that it has changed if the script wants to know.
pub(crate) struct Done {
    pub(crate) summary: Summary,
    pub(crate) changes: Vec<TableChange>,
}

/// Wants only the summary of the last result.
#[derive(Default)]
pub(crate) struct LastSummary(pub(crate) Summary);

impl Sink for LastSummary {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, _: Row<'_>) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        self.0 = summary.clone();
    }
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}

impl Rows {
    /// Pushes the array of rows and, if the script wanted to know, what was read.
    pub(crate) fn push(&self, lua: &mut Lua, watch: bool) -> CResult {
        lua.reserve(2)?;
        match &self.table {
            Some(table) => table.push(lua),
            None => lua.push_table(0, 0),
        }
        if !watch {
            return Ok(1);
        }
        let tables = self.reads.iter().map(|read| (&read.schema, &read.table, read.version));
        push_versions(lua, tables)?;
        Ok(2)
    }
}

impl Done {
    /// Pushes affected rows, insert id, warnings, info or nil, and what was changed if the script wanted to know.
    pub(crate) fn push(&self, lua: &mut Lua, watch: bool) -> CResult {
        lua.reserve(8)?;
        let summary = &self.summary;
        lua.push_number(summary.affected_rows as f64);
        lua.push_number(summary.insert_id as f64);
        lua.push_number(f64::from(summary.warnings));
        if summary.info.is_empty() {
            lua.push_nil();
        } else {
            lua.push_bytes(&summary.info);
        }
        if !watch {
            return Ok(4);
        }
        let tables = self.changes.iter().map(|change| (&change.schema, &change.table, Some(change.version)));
        push_versions(lua, tables)?;
        Ok(5)
    }
}

/// Pushes `{ ["schema.table"] = version }`; a table without a version is `false`.
fn push_versions<'a>(
    lua: &mut Lua,
    tables: impl ExactSizeIterator<Item = (&'a String, &'a String, Option<u64>)>,
) -> Result<(), LuaError> {
    lua.reserve(4)?;
    lua.push_table(0, i32::try_from(tables.len()).unwrap_or(0));
    let list = lua.top();
    for (schema, table, version) in tables {
        let name = [schema.as_bytes(), b".", table.as_bytes()].concat();
        match version {
            Some(version) => lua.push_number(version as f64),
            None => lua.push_bool(false),
        }
        lua.raw_set_field(list, &name);
    }
    Ok(())
}
