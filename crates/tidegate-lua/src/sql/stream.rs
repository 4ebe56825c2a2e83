//! Rows one by one: the statement stands still while the script works on what has arrived.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_rows::{Column, Execute, Flow, Sink, SinkClosed, Statement, Summary, Value};

use super::{Hold, Job, Refusal, result::Piece};
use crate::error::CResult;
use crate::socket::Closing;
use crate::stack::Lua;
use crate::userdata::Userdata;

type Running = Pin<Box<dyn Future<Output = Result<(), Refusal>>>>;

/// A statement under way and the rows that nobody has taken yet.
pub(crate) struct Stream {
    /// Goes when the statement has ended.
    running: RefCell<Option<Running>>,
    piece: Rc<RefCell<Piece>>,
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

/// Where the statement's rows go.
struct Rows(Rc<RefCell<Piece>>);

impl Sink for Rows {
    fn columns(&mut self, columns: &[Column]) {
        self.0.borrow_mut().begin(columns);
    }
    fn begin_row(&mut self) {}
    fn value(&mut self, _: usize, value: Value<'_>) {
        self.0.borrow_mut().add(value);
    }
    fn end_row(&mut self) -> Flow {
        let mut piece = self.0.borrow_mut();
        piece.end_row();
        if piece.is_full() { Flow::Full } else { Flow::More }
    }
    fn end_result(&mut self, _: &Summary) {
        self.0.borrow_mut().begun = true;
    }
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        // Nobody needs to be woken: the script asks for the next piece when it has taken this one.
        if self.0.borrow().is_full() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl Stream {
    /// Prepares a statement; it begins when first asked for rows.
    ///
    /// # Errors
    /// Why it cannot begin.
    pub(crate) fn new(job: Job) -> Result<Rc<Self>, Refusal> {
        let mut hold = Hold::of(&job.place)?;
        let piece = Rc::new(RefCell::new(Piece::default()));
        let mut rows = Rows(Rc::clone(&piece));
        let running: Running = Box::pin(async move {
            let statement = Statement { sql: &job.sql, params: &job.params };
            let ran = hold.session().execute(statement, &mut rows).await;
            if let Hold::Link(taken) = &mut hold {
                taken.note_end(&ran);
            }
            Ok(ran?)
        });
        Ok(Rc::new(Self {
            running: RefCell::new(Some(running)),
            piece,
            failure: RefCell::default(),
            used_its_slice: Cell::new(false),
        }))
    }

    /// Drives the statement until `enough` holds or it has ended.
    fn poll(&self, cx: &mut Context<'_>, enough: impl Fn(&Piece) -> bool) -> Poll<()> {
        if enough(&self.piece.borrow()) {
            return Poll::Ready(());
        }
        let mut slot = self.running.borrow_mut();
        let Some(running) = slot.as_mut() else { return Poll::Ready(()) };
        match running.as_mut().poll(cx) {
            Poll::Ready(ended) => {
                *slot = None;
                *self.failure.borrow_mut() = ended.err();
                Poll::Ready(())
            }
            Poll::Pending if enough(&self.piece.borrow()) => {
                self.used_its_slice.set(!self.piece.borrow().is_full());
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Whether others must have their turn before the next row is asked for: a script that never waits would keep
    /// them from it as long as the statement runs.
    pub(crate) fn has_used_its_slice(&self) -> bool {
        self.piece.borrow().is_empty() && self.used_its_slice.take()
    }

    /// Drives the statement until its columns are known.
    pub(crate) fn poll_begin(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |piece| piece.begun)
    }

    /// Drives the statement until there is a row.
    pub(crate) fn poll_row(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |piece| !piece.is_empty())
    }

    /// Pushes the next row; `nil` at the end; `nil` and the error where the statement failed.
    pub(crate) fn push_next(&self, lua: &mut Lua) -> CResult {
        if self.piece.borrow_mut().push_next(lua)? {
            return Ok(1);
        }
        if let Some(refusal) = &*self.failure.borrow() {
            return Ok(refusal.push(lua));
        }
        lua.push_nil();
        Ok(1)
    }

    /// Takes an error out that came before any row.
    pub(crate) fn take_early_failure(&self) -> Option<Refusal> {
        if self.piece.borrow().is_empty() { self.failure.take() } else { None }
    }

    /// Pushes a list of the columns' names.
    pub(crate) fn push_columns(&self, lua: &mut Lua) -> CResult {
        lua.reserve(4)?;
        lua.push_table(0, 0);
        let list = lua.top();
        for (number, name) in (1..).zip(&self.piece.borrow().names) {
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
        self.piece.borrow_mut().clear();
    }
}
