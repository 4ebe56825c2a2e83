//! Rows on their way into Lua tables.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use tidegate_rows::{Column, Flow, Sink, SinkClosed, Summary, Value};

use super::{EXACT_MAX, Outcome};
use crate::error::{CResult, LuaError};
use crate::stack::Lua;

/// A result that a script wants all at once may be this large.
const RESULT_BYTES_MAX: usize = 256 << 20;

/// A value of a row.
#[derive(Debug, Clone, Copy)]
enum Cell {
    Null,
    Number(f64),
    /// A part of the rows' bytes.
    Bytes {
        start: usize,
        len: usize,
    },
}

/// Values, row by row, with their bytes in one piece.
#[derive(Debug, Default)]
struct Cells {
    cells: Vec<Cell>,
    bytes: Vec<u8>,
}

impl Cells {
    fn clear(&mut self) {
        self.cells.clear();
        self.bytes.clear();
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.cells.len() * size_of::<Cell>()
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        self.cells.push(Cell::Bytes { start: self.bytes.len(), len: bytes.len() });
        self.bytes.extend_from_slice(bytes);
    }

    /// Integers beyond what a Lua number holds exactly stay text, as decimals do.
    fn add(&mut self, value: Value<'_>) {
        match value {
            Value::Null => self.cells.push(Cell::Null),
            Value::Int(value) if value.unsigned_abs() <= EXACT_MAX as u64 => {
                self.cells.push(Cell::Number(value as f64))
            }
            Value::Uint(value) if value <= EXACT_MAX as u64 => self.cells.push(Cell::Number(value as f64)),
            Value::Int(value) => self.add_bytes(itoa::Buffer::new().format(value).as_bytes()),
            Value::Uint(value) => self.add_bytes(itoa::Buffer::new().format(value).as_bytes()),
            // By its shortest text: 0.1 as single precision is 0.1 to a script too.
            Value::Float(value) => {
                let number = value.to_string().parse().unwrap_or(f64::from(value));
                self.cells.push(Cell::Number(number));
            }
            Value::Double(value) => self.cells.push(Cell::Number(value)),
            Value::Bytes(bytes) => self.add_bytes(bytes),
        }
    }

    fn push(&self, lua: &mut Lua, cell: Cell) {
        match cell {
            Cell::Null => lua.push_light(std::ptr::null()),
            Cell::Number(number) => lua.push_number(number),
            Cell::Bytes { start, len } => lua.push_bytes(self.bytes.get(start..start + len).unwrap_or_default()),
        }
    }
}

/// The last result of a statement.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    names: Vec<Box<[u8]>>,
    has_rows: bool,
    rows: usize,
    cells: Cells,
    summary: Summary,
    too_big: bool,
    complete: bool,
}

impl Gathered {
    /// Whether there was more than may be held.
    pub(crate) fn is_too_big(&self) -> bool {
        self.too_big
    }

    /// A result of the same batch begins.
    fn begin(&mut self) {
        self.complete = false;
        self.has_rows = false;
        self.rows = 0;
        self.names.clear();
        self.cells.clear();
    }
}

impl Sink for Gathered {
    fn columns(&mut self, columns: &[Column]) {
        self.begin();
        self.has_rows = true;
        self.names.extend(columns.iter().map(|column| column.name.clone()));
    }
    fn begin_row(&mut self) {}
    fn value(&mut self, _: usize, value: Value<'_>) {
        self.cells.add(value);
    }
    fn end_row(&mut self) -> Flow {
        self.rows += 1;
        if self.cells.size() <= RESULT_BYTES_MAX {
            return Flow::More;
        }
        self.too_big = true;
        Flow::Full
    }
    fn end_result(&mut self, summary: &Summary) {
        if self.complete || !self.has_rows {
            self.begin();
        }
        self.complete = true;
        self.summary = summary.clone();
    }
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        // Only a result that is too big comes here.
        Poll::Ready(Err(SinkClosed))
    }
}

/// Pushes the names, to be used for each row. They lie at the answered index and behind it.
fn push_names(lua: &mut Lua, names: &[Box<[u8]>]) -> Result<i32, LuaError> {
    lua.reserve(i32::try_from(names.len()).unwrap_or(i32::MAX).saturating_add(8))?;
    for name in names {
        lua.push_bytes(name);
    }
    Ok(lua.top() - names.len() as i32 + 1)
}

/// Pushes a row as a table by column name.
fn push_row(lua: &mut Lua, cells: &Cells, row: &[Cell], names: i32) {
    lua.push_table(0, row.len() as i32);
    let table = lua.top();
    for (name, cell) in (names..).zip(row) {
        lua.push_value(name);
        cells.push(lua, *cell);
        lua.raw_set(table);
    }
}

impl Outcome {
    /// Pushes the rows as a list of tables, and what was read if the script wanted to know.
    pub(crate) fn push_rows(&self, lua: &mut Lua, watch: bool) -> CResult {
        let gathered = &self.gathered;
        let names = push_names(lua, &gathered.names)?;
        lua.push_table(i32::try_from(gathered.rows).unwrap_or(0), 0);
        let list = lua.top();
        let width = gathered.names.len().max(1);
        for (number, row) in (1..).zip(gathered.cells.cells.chunks(width)) {
            push_row(lua, &gathered.cells, row, names);
            lua.raw_set_index(list, number);
        }
        if !watch {
            return Ok(1);
        }
        let tables = self.reads.iter().map(|read| (&read.schema, &read.table, read.version));
        push_versions(lua, tables)?;
        Ok(2)
    }

    /// Pushes what a statement did: affected rows, insert id, warnings, info or nil, and what it changed if the script
    /// wanted to know.
    pub(crate) fn push_summary(&self, lua: &mut Lua, watch: bool) -> CResult {
        lua.reserve(8)?;
        let summary = &self.gathered.summary;
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

/// Rows that a script takes one by one; the statement waits while there are some.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub(crate) names: Vec<Box<[u8]>>,
    cells: Cells,
    rows: VecDeque<usize>,
    /// Something arrived: columns, or the end.
    pub(crate) begun: bool,
}

/// Rows are handed over in pieces of about this size.
const PIECE_BYTES: usize = 64 << 10;

impl Piece {
    /// Whether no row is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether the statement has to wait until the script has taken some rows.
    pub(crate) fn is_full(&self) -> bool {
        !self.rows.is_empty() && self.cells.size() >= PIECE_BYTES
    }

    /// Forgets the rows that nobody has taken.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.cells.clear();
    }

    /// The columns of a result set.
    pub(crate) fn begin(&mut self, columns: &[Column]) {
        self.begun = true;
        self.names = columns.iter().map(|column| column.name.clone()).collect();
    }

    /// Adds a value.
    pub(crate) fn add(&mut self, value: Value<'_>) {
        if self.rows.is_empty() && self.cells.cells.len() >= self.names.len() {
            self.cells.clear();
        }
        self.cells.add(value);
    }

    /// The row is complete.
    pub(crate) fn end_row(&mut self) {
        self.rows.push_back(self.cells.cells.len() - self.names.len());
    }

    /// Pushes the next row; nothing if there is none.
    ///
    /// # Errors
    /// No room on Lua's stack.
    pub(crate) fn push_next(&mut self, lua: &mut Lua) -> Result<bool, LuaError> {
        let Some(start) = self.rows.pop_front() else { return Ok(false) };
        let row = self.cells.cells.get(start..start + self.names.len()).unwrap_or_default();
        let names = push_names(lua, &self.names)?;
        push_row(lua, &self.cells, row, names);
        if self.rows.is_empty() {
            self.cells.clear();
        }
        Ok(true)
    }
}
