//! Tables without SQL: rows are found by an index, inserted, updated and deleted by names and values.
//!
//! Whoever speaks another protocol than SQL, or runs the same few requests all the time, opens a table ([`Session::open_table`])
//! and sends it requests. They do what statements do: values are converted to the columns' types, defaults, generated columns,
//! CHECK constraints and foreign keys count, rows that others have locked are waited for, single requests share commits, and
//! listeners hear of them. What depends on names alone is worked out once for each definition of the table ([`plans`]), and
//! SQLite's statements are kept by its connections, as those of SQL are.
//!
//! ```text
//! let open = session.open_table(&Opening { schema: "shop", table: "cats", index: "PRIMARY", columns: &["name", "age"], .. })?;
//! let rows = Rows { limit: 10, ..Rows::new(Comparison::AtLeast, &[Value::Int(5)]) };
//! session.run_requests(&[(&open, Request::Find(rows)), (&open, Request::Delete(rows, Answer::Number))], &mut answers).await;
//! ```
//!
//! **Batches.** [`Session::run_requests`] answers requests in their order, row by row into a sink, nothing gathered in between.
//! Those in a row that read see one snapshot. Those in a row that write share a commit, unless they are too long for that; each
//! succeeds or fails alone, and is answered when it is durable. One that reads sees what those before it have written. No worker
//! is blocked meanwhile, and nothing is written in part.
//!
//! **Which rows** ([`Rows`]). A key has values for the first columns of the index, all or fewer. With [`Each`] one part of it has
//! several values. [`Filter`]s look at other columns: a row that does not meet one is skipped, or ends the search. Limit and
//! offset count rows that meet all. NULL equals NULL here and is less than anything else.
//!
//! **Steps of one's own** ([`Request::Revise`]). Compare and set, insert if absent, append, count down to zero: a function gets
//! the row, or hears that there is none, and says what is to become of it. No other writer comes in between.
//!
//! **Definitions change.** An [`OpenTable`] holds names. When a definition has changed they are looked up again, so that a request
//! either goes on with what has these names now or fails with the error that opening the table would give: 1146 for the table,
//! 1176 for its index, 1054 for a column, 1049 for the schema. [`Session::shape_of`] tells what a table consists of.
//!
//! **Values** are converted as [`Strictness`] says. With [`Strictness::Nearest`] a key that its column cannot hold is the nearest
//! value that it can, as for DeNA's HandlerSocket; with [`Strictness::Exact`] it is an error, because there is no such row.
//! [`Session::holds_key`] tells beforehand.

mod conditions;
mod keys;
mod plans;
mod run;
mod shape;

use std::{cell::RefCell, rc::Rc};

use tidegate_rows::{QueryError, ServerError, Sink, Value};

use crate::session::Session;
pub use crate::translate::revise::{Revise, Revision};
use plans::Known;
pub use shape::{IndexShape, TableShape};

/// A table with an index to find its rows by, and the columns that are of interest. Belongs to no session: any of its thread may
/// use it. Definitions may change under it: it is looked up again then.
#[derive(Debug)]
pub struct OpenTable {
    schema: String,
    table: String,
    index: String,
    columns: Vec<String>,
    filters: Vec<String>,
    strictness: Strictness,
    known: RefCell<Option<Rc<Known>>>,
}

/// What is to be opened, by its names.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// The schema; the session's current one if this is empty.
    pub schema: &'a str,
    /// A table, no view.
    pub table: &'a str,
    /// One of its indexes: `PRIMARY` or another by its name.
    pub index: &'a str,
    /// The columns that are read and written: *the open columns*.
    pub columns: &'a [&'a str],
    /// The columns that filters look at.
    pub filters: &'a [&'a str],
    /// What becomes of values that do not fit.
    pub strictness: Strictness,
}

/// What becomes of values that their columns cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// The session's `sql_mode` decides about values that are written; keys must be exact.
    Exact,
    /// The nearest value is taken, whatever the session's `sql_mode`.
    Nearest,
}

/// How the index's columns compare with a key. Rows come in the order of the index; with `Less` and `AtMost` backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`; NULL equals NULL.
    Equal,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `<`; NULL is less than anything else.
    Less,
    /// `<=`
    AtMost,
}

impl Comparison {
    fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::Greater => ">",
            Comparison::AtLeast => ">=",
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
        }
    }
}

/// Which rows a request is about.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// How the index's columns compare with the key.
    pub comparison: Comparison,
    /// Values for the first columns of the index, one at least and at most as many as it has.
    pub key: &'a [Value<'a>],
    /// Several values for one part of the key.
    pub each: Option<Each<'a>>,
    /// What else a row must meet: the first that it does not decides what happens.
    pub filters: &'a [Filter<'a>],
    /// At most so many rows, of those that meet the filters.
    pub limit: u64,
    /// Behind so many others that meet them.
    pub offset: u64,
}

/// Several values for a part of a key: for one after the other the *first* row is found that compares with the key in which it
/// stands, as HandlerSocket's `@` does. A value that occurs twice finds its row twice, but it is changed once.
#[derive(Debug, Clone, Copy)]
pub struct Each<'a> {
    /// The part's position in the key, whose own value there does not count.
    pub part: usize,
    /// Its values; none find nothing.
    pub values: &'a [Value<'a>],
}

/// A condition on a column that need not be in the index.
#[derive(Debug, Clone, Copy)]
pub struct Filter<'a> {
    /// Position among the filter columns.
    pub column: usize,
    /// How the column compares with the value.
    pub test: Test,
    /// Converted to the column's type as keys are.
    pub value: Value<'a>,
    /// What happens to a row that does not meet the condition.
    pub otherwise: Otherwise,
}

/// How a filter compares. NULL equals NULL and is less than anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// As keys do.
    Compares(Comparison),
    /// `!=`
    Differs,
}

/// What a row that does not meet a filter does to the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// It is left out.
    Skip,
    /// It ends the search.
    Stop,
}

/// What an INSERT does about rows with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDuplicate {
    /// Error 1062.
    Fail,
    /// They are deleted first: REPLACE.
    Replace,
    /// Nothing is inserted.
    Keep,
}

/// A new value for a column.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// The old one.
    Keep,
    /// This one.
    Set(Value<'a>),
    /// The sum of the old one, as a whole number, and this; NULL stays NULL. A sum beyond what the column can hold is error 1690
    /// or 1264, the nearest value with [`Strictness::Nearest`].
    Add(i64),
    /// The difference. If it has another sign than the old value the *row* stays as it is and is not counted, as for HandlerSocket.
    Subtract(i64),
}

/// What a request that changes rows answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Only the summary.
    Number,
    /// The open columns of the rows that were found, as they were before.
    OldRows,
}

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// Sends the open columns of rows to the sink.
    Find(Rows<'a>),
    /// Inserts a row with values for the first of the open columns; the others have their defaults. The summary has the number
    /// that an AUTO_INCREMENT column got.
    Insert(&'a [Value<'a>], OnDuplicate),
    /// Gives the first of the open columns new values. The summary counts the rows that were found, changed or not.
    Update(Rows<'a>, &'a [Change<'a>], Answer),
    /// Deletes rows.
    Delete(Rows<'a>, Answer),
    /// Has somebody decide about each row, or about the one that is not there: asked once with `None` if there is no row. The
    /// summary counts rows that were put or deleted.
    Revise(Rows<'a>, &'a dyn Revise),
}

/// Receives the answers to a batch: for each request what [`Sink`] receives for a statement, then [`ended`](Self::ended).
pub trait Answers: Sink {
    /// The next request of the batch has been carried out, and is as durable as the engine makes it, or has failed. With an
    /// error the sink may have received a part of the result.
    fn ended(&mut self, result: Result<(), QueryError>);
}

impl<'a> Rows<'a> {
    /// All rows whose index compares with a key in this way.
    pub fn new(comparison: Comparison, key: &'a [Value<'a>]) -> Self {
        Self { comparison, key, each: None, filters: &[], limit: u64::MAX, offset: 0 }
    }

    /// All rows with this key.
    pub fn with_key(key: &'a [Value<'a>]) -> Self {
        Self::new(Comparison::Equal, key)
    }
}

impl OpenTable {
    /// The number of the open columns.
    pub fn width(&self) -> usize {
        self.columns.len()
    }
}

impl Session {
    /// Opens a table with one of its indexes and some columns.
    ///
    /// # Errors
    /// 1046 without a schema, 1049 if there is none with its name, 1146 if there is no such table (a view is none), 1176 if it has
    /// no such index, 1054 for an unknown column, storage errors.
    pub fn open_table(&mut self, opening: &Opening<'_>) -> Result<OpenTable, ServerError> {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let open = OpenTable {
            schema: self.schema_of(opening.schema)?.name.clone(),
            table: opening.table.to_owned(),
            index: opening.index.to_owned(),
            columns: names(opening.columns),
            filters: names(opening.filters),
            strictness: opening.strictness,
            known: RefCell::default(),
        };
        open.known(self.core())?;
        Ok(open)
    }
}
