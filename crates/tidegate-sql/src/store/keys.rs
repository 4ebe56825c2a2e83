//! Which rows a transaction has changed, for those who want to hear of their keys when it commits.
//!
//! Nobody follows what the transaction does to a row: statements fail in their middle, savepoints are rolled back, SQLite undoes one row
//! of many. The first change of a row, undone or not, tells what the row was before the transaction. When that is about to commit each of
//! these rows is looked up once, and the difference is what others are going to see: nothing, if the row is as before.
//!
//! Rows have their row ids here, so that a row whose key changes is one row. What becomes of that for listeners is in
//! [`crate::changed_keys`].

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::Arc,
};

use super::{
    conn::Conn,
    hook::{Change, Kind},
    private::shape::Shape,
    stmt::{Cell, SqliteError, Step},
};
use crate::value::Datum;

/// Rows whose keys a commit tells, of all its tables: more are better read anew than one by one.
pub(crate) const ROWS_MAX: usize = 1000;
/// Bytes of the keys that these rows had, and of those that they have.
pub(crate) const BYTES_MAX: usize = 256 << 10;

/// The rows that the transaction of a connection has touched.
#[derive(Default)]
pub(crate) struct Keys {
    /// By the tables' numbers.
    tables: BTreeMap<i64, Touched>,
    rows: usize,
    bytes: usize,
    hashing: RandomState,
}

enum Touched {
    /// What each row id stood for before the transaction.
    Rows {
        shape: Arc<Shape>,
        before: BTreeMap<i64, Option<Row>>,
    },
    TooMany,
    NoPrimaryKey,
}

/// A row at some time.
#[derive(Debug, PartialEq)]
pub(crate) struct Row {
    /// The values of the primary key, in its order.
    pub(crate) key: Box<[Datum]>,
    /// Of all its values. By chance two rows in 2^64 have the same.
    pub(crate) hash: u64,
}

/// What a transaction that is about to commit has done to a table.
#[derive(Debug)]
pub(crate) enum Difference {
    /// The rows that are not as before, each before and afterwards; one of both at least.
    Rows(Vec<(Option<Row>, Option<Row>)>),
    /// More rows than are listed.
    TooMany,
    NoPrimaryKey,
    /// The rows could not be looked up.
    Unknown,
}

impl Keys {
    /// A row is about to change, of a table with this shape.
    pub(super) fn note(&mut self, change: &Change<'_>, shape: Option<&Arc<Shape>>) {
        let Some(table) = change.table_number() else { return };
        let touched = self.tables.entry(table).or_insert_with(|| match shape {
            Some(shape) if shape.primary.is_some() => {
                Touched::Rows { shape: Arc::clone(shape), before: BTreeMap::new() }
            }
            Some(_) => Touched::NoPrimaryKey,
            // A table that nobody has announced.
            None => Touched::TooMany,
        });
        let Touched::Rows { shape, before } = touched else { return };
        if change.kind != Kind::Insert && !before.contains_key(&change.from) {
            let row = Row::of(shape, &self.hashing, |column| change.before(column));
            self.rows += 1;
            self.bytes += row.size();
            before.insert(change.from, Some(row));
        }
        let is_new = change.kind == Kind::Insert || change.kind == Kind::Update && change.to != change.from;
        if is_new && !before.contains_key(&change.to) {
            self.rows += 1;
            before.insert(change.to, None);
        }
        if self.rows > ROWS_MAX || self.bytes > BYTES_MAX {
            self.rows -= before.len();
            self.bytes -= before.values().flatten().map(Row::size).sum::<usize>();
            *touched = Touched::TooMany;
        }
    }

    /// More rows of a table change than are listed, of which the hook does not tell.
    pub(super) fn note_many(&mut self, table: i64) {
        if let Some(Touched::Rows { before, .. }) = self.tables.insert(table, Touched::TooMany) {
            self.rows -= before.len();
            self.bytes -= before.values().flatten().map(Row::size).sum::<usize>();
        }
    }

    /// What has changed in each table, by the tables' numbers. The transaction is still open on `conn`.
    pub(super) fn settle(self, conn: &mut Conn) -> BTreeMap<i64, Difference> {
        let Self { tables, hashing, .. } = self;
        let mut room = BYTES_MAX;
        let settled = tables.into_iter().map(|(table, touched)| {
            let difference = match touched {
                Touched::NoPrimaryKey => Difference::NoPrimaryKey,
                Touched::TooMany => Difference::TooMany,
                Touched::Rows { shape, before } => {
                    differences(conn, table, &shape, &hashing, before, &mut room).unwrap_or(Difference::Unknown)
                }
            };
            (table, difference)
        });
        settled.collect()
    }
}

/// Looks up what has become of rows. There is `room` for so many bytes of their keys.
fn differences(
    conn: &mut Conn,
    table: i64,
    shape: &Shape,
    hashing: &RandomState,
    before: BTreeMap<i64, Option<Row>>,
    room: &mut usize,
) -> Result<Difference, SqliteError> {
    let mut stmt = conn.take_kept(&format!("SELECT * FROM t{table} WHERE rowid = ?1"))?;
    let mut rows = Vec::new();
    for (rowid, before) in before {
        stmt.bind(1, Cell::Int(rowid))?;
        let after = match stmt.step()? {
            Step::Row => {
                let row = Row::of(shape, hashing, |column| stmt.cell(column));
                if row.size() > *room {
                    return Ok(Difference::TooMany);
                }
                *room -= row.size();
                Some(row)
            }
            Step::Done => None,
        };
        stmt.reset();
        if before != after {
            rows.push((before, after));
        }
    }
    conn.keep(stmt);
    Ok(Difference::Rows(rows))
}

impl Row {
    fn of<'v>(shape: &Shape, hashing: &RandomState, value: impl Fn(usize) -> Cell<'v>) -> Self {
        let mut hasher = hashing.build_hasher();
        for column in 0..shape.columns.len() {
            match value(column) {
                Cell::Null => 0u8.hash(&mut hasher),
                Cell::Int(value) => (1u8, value).hash(&mut hasher),
                Cell::Real(value) => (2u8, value.to_bits()).hash(&mut hasher),
                Cell::Text(value) => (3u8, value).hash(&mut hasher),
                Cell::Blob(value) => (4u8, value).hash(&mut hasher),
            }
        }
        let key = shape.primary.iter().flatten().map(|&column| value(column).to_owned()).collect();
        Self { key, hash: hasher.finish() }
    }

    fn size(&self) -> usize {
        self.key.iter().map(Datum::size).sum()
    }
}
