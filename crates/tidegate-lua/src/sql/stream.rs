//! Rows one by one: the statement stands still while the script works on what has arrived.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_rows::{Column, Execute, Flow, Row, Sink, SinkClosed, Statement, Summary};

use super::{Hold, Job, Refusal, result};
use crate::error::{CResult, LuaError};
use crate::rows::{Results, Shape, TableSink, Tables};
use crate::socket::Closing;
use crate::stack::Lua;
use crate::userdata::Userdata;
use crate::vm::Vm;

type Running = Pin<Box<dyn Future<Output = Result<(), Refusal>>>>;

/// A statement under way and the rows that nobody has taken yet.
pub(crate) struct Stream {
    /// Goes when the statement has ended.
    running: RefCell<Option<Running>>,
    tables: Rc<Tables>,
    /// Known when something has arrived: columns, or the end.
    names: Rc<RefCell<Option<Names>>>,
    failure: RefCell<Option<Refusal>>,
    /// The statement has handed over rows in the middle of a piece, because its slice of time was used up.
    used_its_slice: Cell<bool>,
}

/// What the script holds.
#[derive(Clone)]
pub(crate) struct Handle(pub(crate) Rc<Stream>);

impl Userdata for Handle {
    const NAME: &'static CStr = c"tidegate.sql.stream";
    const TYPE_NAME: &'static str = "rows";
}

/// The form of the rows.
const ONE_BY_ONE: Shape = Shape { results: Results::OneByOne, bytes_max: usize::MAX, ..result::ROWS };

/// Where the statement's rows go.
struct Rows {
    sink: TableSink,
    names: Rc<RefCell<Option<Names>>>,
}

/// The names of a result's columns; none of a statement without rows.
type Names = Vec<Box<[u8]>>;

impl Sink for Rows {
    fn columns(&mut self, columns: &[Column]) {
        self.names.replace(Some(columns.iter().map(|column| column.name.clone()).collect()));
        self.sink.columns(columns);
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.sink.row(row)
    }
    fn end_result(&mut self, summary: &Summary) {
        self.names.borrow_mut().get_or_insert_default();
        self.sink.end_result(summary);
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        self.sink.poll_ready(cx)
    }
}

impl Stream {
    /// Prepares a statement; it begins when first asked for rows.
    ///
    /// # Errors
    /// Why it cannot begin.
    pub(crate) fn new(job: Job, vm: Rc<Vm>) -> Result<Rc<Self>, Refusal> {
        let mut hold = Hold::of(&job.place)?;
        let tables = Tables::new(vm);
        let names = Rc::default();
        let mut rows = Rows { sink: TableSink::new(tables.clone(), ONE_BY_ONE), names: Rc::clone(&names) };
        let running: Running = Box::pin(async move {
            let statement = Statement { sql: &job.sql, params: &job.params };
            let ran = hold.session().execute(statement, &mut rows).await;
            hold.note_end(&ran);
            Ok(ran?)
        });
        Ok(Rc::new(Self {
            running: RefCell::new(Some(running)),
            tables,
            names,
            failure: RefCell::default(),
            used_its_slice: Cell::new(false),
        }))
    }

    /// Drives the statement until `enough` holds or it has ended.
    fn poll(&self, cx: &mut Context<'_>, enough: impl Fn(&Self) -> bool) -> Poll<()> {
        if enough(self) {
            return Poll::Ready(());
        }
        let mut slot = self.running.borrow_mut();
        let Some(running) = slot.as_mut() else { return Poll::Ready(()) };
        match self.tables.during(|| running.as_mut().poll(cx)) {
            Poll::Ready(ended) => {
                *slot = None;
                *self.failure.borrow_mut() = ended.err();
                Poll::Ready(())
            }
            Poll::Pending if enough(self) => {
                self.used_its_slice.set(!self.tables.is_full());
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Whether others must have their turn before the next row is asked for: a script that never waits would keep
    /// them from it as long as the statement runs.
    pub(crate) fn has_used_its_slice(&self) -> bool {
        !self.tables.has_waiting_rows() && self.used_its_slice.take()
    }

    /// Drives the statement until its columns are known.
    pub(crate) fn poll_begin(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |stream| stream.names.borrow().is_some())
    }

    /// Drives the statement until there is a row.
    pub(crate) fn poll_row(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |stream| stream.tables.has_waiting_rows())
    }

    /// Pushes the next row; `nil` at the end; `nil` and the error where the statement failed.
    pub(crate) fn push_next(&self, lua: &mut Lua) -> CResult {
        if self.tables.push_next(lua)? {
            return Ok(1);
        }
        if let Some(failure) = self.tables.take_failure() {
            return Err(LuaError::Bare(failure.message));
        }
        if self.tables.is_too_wide() {
            return Ok(Refusal::plain("the result has too many columns").push(lua));
        }
        if let Some(refusal) = &*self.failure.borrow() {
            return Ok(refusal.push(lua));
        }
        lua.push_nil();
        Ok(1)
    }

    /// Takes an error out that came before any row.
    pub(crate) fn take_early_failure(&self) -> Option<Refusal> {
        if self.tables.has_waiting_rows() { None } else { self.failure.take() }
    }

    /// Pushes a list of the columns' names.
    pub(crate) fn push_columns(&self, lua: &mut Lua) -> CResult {
        lua.reserve(4)?;
        lua.push_table(0, 0);
        let list = lua.top();
        for (number, name) in (1..).zip(self.names.borrow().iter().flatten()) {
            lua.push_bytes(name);
            lua.raw_set_index(list, number);
        }
        Ok(1)
    }
}

impl Closing for Stream {
    /// Ends the statement where it stands.
    fn close_now(&self) {
        // Busy only while the statement itself runs, which ends by itself then.
        if let Ok(mut running) = self.running.try_borrow_mut() {
            drop(running.take());
        }
        self.tables.clear();
    }
}
