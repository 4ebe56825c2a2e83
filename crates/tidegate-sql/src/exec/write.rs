//! INSERT, UPDATE and DELETE, row by row: values are coerced in Rust, conflicts are looked up, rows are compared before they
//! are written. The caller holds the write lock and an open transaction.

use std::sync::Arc;

use tidegate_rows::ServerError;

use super::bind::Constants;
use crate::{
    catalog::{Table, TableState},
    coerce::Target,
    column::{Column, Default},
    env::Env,
    errors,
    row_locks::{Mode, Resource},
    schema::Schema,
    sql_mode,
    store::{
        conn::{Conn, SqliteError, Step, Stmt, to_server_error},
        prepared::{Prepared, Text},
        private::{
            notes::Notes,
            watch::{Check, Purpose, Watch},
        },
    },
    translate::{dml::Feed, plan::SelectPlan, returning::Returned, target_table::TargetTable},
    value::{Base, Datum, Rep, Val},
};

pub(crate) type Res<T> = Result<T, ServerError>;

/// The effects of a writing statement.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) affected: u64,
    pub(crate) insert_id: u64,
    pub(crate) info: String,
    /// What `LAST_INSERT_ID()` answers from now on, if the statement has generated a value.
    pub(crate) last_insert_id: Option<u64>,
    pub(crate) touched: Vec<Arc<TableState>>,
    /// An INSERT has deleted or updated rows: their foreign keys may have reached other tables.
    pub(crate) cascades: bool,
    /// The rows of RETURNING.
    pub(crate) returned: Option<ReturnedRows>,
}

/// Rows that a writing statement answers.
#[derive(Debug)]
pub(crate) struct ReturnedRows {
    pub(crate) returned: Arc<Returned>,
    pub(crate) cells: Vec<Datum>,
    bytes: usize,
}

impl ReturnedRows {
    /// No rows yet.
    pub(crate) fn new(returned: &Arc<Returned>) -> Self {
        Self { returned: Arc::clone(returned), cells: Vec::new(), bytes: 0 }
    }

    /// Keeps a value of a row.
    ///
    /// # Errors
    /// 1235 beyond `bytes_max`.
    pub(crate) fn push(&mut self, value: Datum, bytes_max: usize) -> Res<()> {
        self.bytes += value.size();
        self.cells.push(value);
        if self.bytes > bytes_max { Err(errors::unsupported(TOO_MUCH)) } else { Ok(()) }
    }
}

/// What a statement of too many rows is told.
pub(super) const TOO_MUCH: &str = "a statement that changes this much at once; divide it";

/// What a statement needs while it writes.
pub(crate) struct Writer<'a> {
    pub(crate) conn: &'a mut Conn,
    pub(crate) constants: Constants<'a>,
    pub(crate) env: &'a Env,
    pub(crate) memory_max: usize,
    /// The plan's statements, which survive this run of it.
    pub(crate) stmts: &'a mut Prepared,
    /// What the transaction is to lock later, where no eye is on the connection that notes it.
    pub(crate) notes: Option<&'a mut Notes>,
    /// NULL is looked for when the triggers have seen the row that come before it is written.
    pub(crate) nulls_later: bool,
    /// Columns of the row that have neither a value nor a default.
    pub(crate) omitted: Vec<usize>,
    /// Columns that no row has a value or a default for have been complained of.
    pub(crate) omitted_told: bool,
    /// What triggers have changed.
    pub(crate) touched: Vec<Arc<TableState>>,
}

pub(crate) fn internal(error: SqliteError) -> ServerError {
    if error.message.contains("no such table: main.t") {
        // A foreign key whose parent does not exist (yet).
        return errors::child_row("the referenced table does not exist");
    }
    if error.code & 0xff == libsqlite3_sys::SQLITE_MISMATCH {
        return auto_beyond_rowid();
    }
    to_server_error(&error)
}

/// An AUTO_INCREMENT primary key is SQLite's row id, which has a sign.
pub(super) fn auto_beyond_rowid() -> ServerError {
    errors::unsupported("values from 2^63 on in an AUTO_INCREMENT primary key")
}

impl Target<'_> {
    /// The error of a column that gets no value and has no default.
    pub(super) fn no_default(&self) -> ServerError {
        match self.view {
            Some((schema, view)) => errors::no_default_in_view(schema, view),
            None => errors::no_default(&self.column.name),
        }
    }
}

/// Rows of a feed, with a bound on their memory.
pub(super) struct Rows {
    pub(super) cells: Vec<Datum>,
    width: usize,
}

impl Rows {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[Datum]> {
        self.cells.chunks(self.width.max(1))
    }
}

impl<'a> Writer<'a> {
    /// A writer without memory.
    pub(crate) fn new(conn: &'a mut Conn, constants: Constants<'a>, env: &'a Env, stmts: &'a mut Prepared) -> Self {
        Self {
            conn,
            constants,
            env,
            memory_max: 0,
            stmts,
            notes: None,
            nulls_later: false,
            omitted: Vec::new(),
            omitted_told: false,
            touched: Vec::new(),
        }
    }
}

impl Writer<'_> {
    /// Locks a row that the statement has found, whether it changes it or not.
    ///
    /// # Errors
    /// [`errors::STOPPED`] if somebody else has locked it.
    pub(super) fn lock_row(&mut self, table: &Table, rowid: i64) -> Res<()> {
        if let Some(watch) = self.conn.watch() {
            watch.lock(Resource::Row { table: table.id, rowid }, Mode::Exclusive);
        }
        self.go_on()
    }

    /// A row stands in the way of another one: it counts if nobody is about to change it. Locked if it is `wanted` itself.
    ///
    /// # Errors
    /// [`errors::STOPPED`] if somebody has locked it.
    pub(super) fn meet_row(&mut self, table: &Table, rowid: i64, wanted: bool) -> Res<()> {
        if wanted {
            return self.lock_row(table, rowid);
        }
        if let Some(watch) = self.conn.watch() {
            watch.meet(Resource::Row { table: table.id, rowid });
        }
        self.go_on()
    }

    /// Has the eye on the connection `meet` something in tables of which it knows this one; without an eye that is noted.
    ///
    /// # Errors
    /// [`errors::STOPPED`] if somebody else has locked it; storage errors.
    #[cold]
    pub(super) fn meet(&mut self, schema: &Schema, table: &Table, meet: impl FnOnce(&mut Watch)) -> Res<()> {
        let mut lent = if self.conn.watch().is_none() { self.notes.take() } else { None };
        if let Some(notes) = &mut lent {
            let notes = Some(std::mem::take(*notes));
            let check = Check { locks: Arc::clone(&schema.rows), owner: None, is_beside: false, notes };
            self.conn.set_watch(Some(Box::new(Watch::new(Purpose::Check(check)))));
        }
        let learned = schema.teach(self.conn, std::iter::once(table.id));
        self.conn.watch().filter(|_| learned.is_ok()).map(meet);
        let met = learned.and_then(|()| self.go_on());
        if let Some(notes) = lent {
            *notes = self.conn.set_watch(None).and_then(|watch| watch.into_notes()).unwrap_or_default();
            self.notes = Some(notes);
        }
        met
    }

    /// Whether the statement may go on.
    ///
    /// # Errors
    /// [`errors::STOPPED`] if it has to be undone and to run again.
    pub(super) fn go_on(&mut self) -> Res<()> {
        match self.conn.watch().and_then(|watch| watch.stop()) {
            Some(_) => Err(errors::stopped()),
            None => Ok(()),
        }
    }

    /// Runs one of SQLite's statements, whose failure the whole statement may survive: SQLite undoes what it has changed,
    /// so that it leaves the list of a private transaction too.
    ///
    /// # Errors
    /// Those of `run`.
    pub(super) fn attempt<T>(&mut self, run: impl FnOnce() -> Result<T, SqliteError>) -> Result<T, SqliteError> {
        let mark = self.conn.watch().and_then(Watch::log).map(|log| log.mark());
        let result = run();
        if result.is_err()
            && let Some((log, mark)) = self.conn.watch().and_then(Watch::log).zip(mark)
        {
            log.truncate(mark);
        }
        result
    }

    pub(super) fn strict(&self) -> bool {
        self.env.sql_mode.get() & (sql_mode::STRICT_TRANS_TABLES | sql_mode::STRICT_ALL_TABLES) != 0
    }

    pub(super) fn target<'t>(&'t self, to: &'t TargetTable, column: usize, row: usize, ignore: bool) -> Target<'t> {
        to.target(column, row, self.strict() && !ignore, self.env)
    }

    /// The statement of a text: the one that an earlier run has prepared, or a new one. [`Prepared::keep`] takes it back.
    pub(crate) fn prepared(&mut self, text: &Text) -> Res<Stmt> {
        match self.stmts.take(text) {
            Some(stmt) => Ok(stmt),
            None => self.conn.prepare(text).map_err(internal),
        }
    }

    /// The values of the first rows of a query, so many at most.
    ///
    /// # Errors
    /// Those of the query; 1235 for more than the statement's memory.
    pub(crate) fn collect_some(&mut self, feed: &Feed, most: usize) -> Res<Vec<Datum>> {
        let mut stmt = self.prepared(&feed.sql)?;
        let (mut cells, mut bytes, mut rows) = (Vec::new(), 0usize, 0);
        let read = self.constants.bind(&mut stmt, &feed.binds).and_then(|mut stmt| {
            while rows < most && stmt.step().map_err(internal)? == Step::Row {
                rows += 1;
                for index in 0..feed.outs.len() {
                    let value = stmt.cell(index).to_owned();
                    bytes += value.size();
                    cells.push(value);
                }
                if bytes > self.memory_max {
                    return Err(errors::unsupported(TOO_MUCH));
                }
            }
            Ok(())
        });
        self.stmts.keep(&feed.sql, stmt);
        read.map(|()| cells)
    }

    /// Runs a query whose functions write: its rows are sent when it has ended.
    ///
    /// # Errors
    /// Those of the query; 1235 for more rows than the statement's memory.
    pub(crate) fn select(&mut self, select: &SelectPlan) -> Res<Written> {
        let returned = Returned { columns: select.columns.clone(), outs: select.outs.clone() };
        let (mut rows, mut count) = (ReturnedRows::new(&Arc::new(returned)), 0);
        let (constants, memory_max) = (self.constants, self.memory_max);
        let stmt = self.stmts.query(|| self.conn.prepare(&select.sql)).map_err(internal)?;
        let mut stmt = constants.bind(stmt, &select.binds)?;
        while stmt.step().map_err(internal)? == Step::Row {
            count += 1;
            for index in 0..select.outs.len() {
                rows.push(stmt.cell(index).to_owned(), memory_max)?;
            }
        }
        drop(stmt);
        self.env.found_rows.set(count);
        Ok(Written { returned: Some(rows), ..Written::default() })
    }

    pub(super) fn collect(&mut self, feed: &Feed) -> Res<Rows> {
        let mut stmt = self.prepared(&feed.sql)?;
        let result = self.read_all(&mut stmt, feed);
        self.stmts.keep(&feed.sql, stmt);
        result
    }

    pub(super) fn read_all(&self, stmt: &mut Stmt, feed: &Feed) -> Res<Rows> {
        let mut rows = Rows { cells: Vec::new(), width: feed.outs.len() };
        let mut bytes = 0usize;
        let mut take = |stmt: &Stmt, width: usize| {
            rows.width = width;
            for index in 0..width {
                let value = stmt.cell(index).to_owned();
                bytes += value.size();
                rows.cells.push(value);
            }
            if bytes > self.memory_max { Err(errors::unsupported(TOO_MUCH)) } else { Ok(()) }
        };
        if let Some(walk) = &feed.walk {
            walk.run(stmt, &feed.binds, self.constants, || Ok(()), |stmt, width| take(stmt, width))?;
            return Ok(rows);
        }
        let mut stmt = self.constants.bind(stmt, &feed.binds)?;
        let width = stmt.column_count();
        while stmt.step().map_err(internal)? == Step::Row {
            take(&stmt, width)?;
        }
        Ok(rows)
    }

    /// The default value of a column.
    pub(super) fn default(&self, target: &Target<'_>) -> Res<Datum> {
        let column = target.column;
        Ok(match &column.default {
            Default::Literal { value, .. } => value.clone(),
            Default::Null => Datum::Null,
            Default::Now => self.now(column),
            // Evaluated when the row is complete.
            Default::Expression(_) => Datum::Null,
            Default::None if column.generated.is_some() || column.auto_increment => Datum::Null,
            Default::None if column.nullable || self.nulls_later => Datum::Null,
            Default::None if column.ty.base == Base::Enum => target.implicit_default(),
            Default::None => {
                let error = target.no_default();
                if target.strict {
                    return Err(error);
                }
                self.env.warn(error);
                target.implicit_default()
            }
        })
    }

    pub(super) fn now(&self, column: &Column) -> Datum {
        let decimals = column.ty.decimals;
        if column.ty.rep() == Rep::Timestamp {
            let micros = self.env.now_micros();
            let unit = 10i64.pow(u32::from(6 - decimals.min(6)));
            return Datum::Int(micros - micros.rem_euclid(unit));
        }
        Datum::Int(self.env.now_local().truncate(decimals).pack())
    }

    /// A value in its column's stored form, with the rules for NULL.
    pub(super) fn store(&self, target: &Target<'_>, value: Val<'_>, single_row: bool) -> Res<Datum> {
        let stored = target.coerce(value)?;
        if stored.is_null() && !target.column.nullable && target.column.ty.base == Base::Timestamp {
            return Ok(self.now(target.column));
        }
        if stored.is_null() && !target.column.nullable && !target.column.auto_increment && !self.nulls_later {
            return self.not_null(target, single_row);
        }
        Ok(stored)
    }

    /// What a column that cannot be NULL gets for NULL.
    ///
    /// # Errors
    /// 1048 where the statement is strict about values.
    pub(super) fn not_null(&self, target: &Target<'_>, single_row: bool) -> Res<Datum> {
        let error = errors::null_not_allowed(&target.column.name);
        if target.strict || single_row && !target.env.ignoring.get() {
            return Err(error);
        }
        self.env.warn(error);
        Ok(target.implicit_default())
    }
}
