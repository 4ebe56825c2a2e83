//! Tables without SQL: rows are found by an index, inserted, updated and deleted by names and values.
//!
//! Whoever speaks another protocol than SQL, or runs the same few requests all the time, opens a table ([`Session::open_table`])
//! and sends it requests. They do what statements do: values are converted to the columns' types, defaults, generated columns,
//! CHECK constraints and foreign keys count, rows that others have locked are waited for, single requests share commits, and
//! listeners hear of them. What depends on names alone is worked out once for each definition of the table ([`plans`]), and
//! SQLite's statements are kept by its connections, as those of SQL are.
//!
//! A [batch](Session::run_requests) of requests is answered in its order. Requests in a row that write share a commit, unless
//! they are too long for that; each succeeds or fails alone. One that reads sees what those before it have written.
//!
//! Keys are values of their columns: with [`Strictness::Nearest`] a key that its column cannot hold is the nearest value that it
//! can, as for DeNA's HandlerSocket; with [`Strictness::Exact`] it is an error, because there is no such row.

mod plans;
mod run;

use std::{cell::RefCell, rc::Rc};

use tidegate_rows::{QueryError, ServerError, Sink, Value};

use crate::session::Session;
use plans::Known;

/// A table with an index to find its rows by, and the columns that are of interest. Belongs to no session: any with the same
/// current schema may use it. Definitions may change under it: it is looked up again then.
#[derive(Debug)]
pub struct OpenTable {
    table: String,
    index: String,
    columns: Vec<String>,
    strictness: Strictness,
    known: RefCell<Option<Rc<Known>>>,
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

/// Which rows a request is about.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// How the index's columns compare with the key.
    pub comparison: Comparison,
    /// Values for the first columns of the index, one at least and at most as many as it has.
    pub key: &'a [Value<'a>],
    /// At most so many rows.
    pub limit: u64,
    /// Behind so many others.
    pub offset: u64,
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
    /// This one.
    Set(Value<'a>),
    /// The sum of the old one and this; NULL stays NULL.
    Add(i64),
}

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// Sends the open columns of rows to the sink.
    Find(Rows<'a>),
    /// Inserts a row with values for the first of the open columns; the others have their defaults.
    Insert(&'a [Value<'a>], OnDuplicate),
    /// Gives the first of the open columns new values. The summary counts the rows that were found, changed or not.
    Update(Rows<'a>, &'a [Change<'a>]),
    /// Deletes rows.
    Delete(Rows<'a>),
}

/// Receives the answers to a batch: for each request what [`Sink`] receives for a statement, then [`ended`](Self::ended).
pub trait Answers: Sink {
    /// The next request of the batch has been carried out, and is as durable as the engine makes it, or has failed. With an
    /// error the sink may have received a part of the result.
    fn ended(&mut self, result: Result<(), QueryError>);
}

impl OpenTable {
    /// The number of the open columns.
    pub fn width(&self) -> usize {
        self.columns.len()
    }
}

impl Session {
    /// Opens a table of the current schema with one of its indexes, `PRIMARY` or another by its name, and some columns.
    ///
    /// # Errors
    /// 1046 without a current schema, 1146 if there is no such table (a view is none), 1176 if it has no such index, 1054 for an
    /// unknown column, storage errors.
    pub fn open_table(
        &mut self,
        table: &str,
        index: &str,
        columns: &[&str],
        strictness: Strictness,
    ) -> Result<OpenTable, ServerError> {
        let open = OpenTable {
            table: table.to_owned(),
            index: index.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            strictness,
            known: RefCell::default(),
        };
        open.known(self.core())?;
        Ok(open)
    }
}
