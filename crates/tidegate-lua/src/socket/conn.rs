//! One connection: its transport, its input, its place in a pool.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::thread::LocalKey;

use super::failure::Failure;
use super::input::Input;
use super::pool::{Place, Pooled, Pools};
use super::tls::Demand;
use super::transport::Transport;

/// A connection.
pub(crate) struct Conn {
    transport: RefCell<Transport>,
    pub(super) input: RefCell<Input>,
    /// How often it came out of a pool.
    pub(super) reused: Cell<u64>,
    /// It counts in this pool.
    pub(super) place: RefCell<Option<Place<Rc<Conn>>>>,
    /// Nothing more can be read, and why.
    pub(super) read_end: RefCell<Option<Failure>>,
    /// Nothing more can be written.
    pub(super) write_closed: Cell<bool>,
    /// `TCP_NODELAY` is as it is to be.
    pub(super) nodelay_decided: Cell<bool>,
    /// What the handshake of an encrypted connection has proved. A pooled one does not need another for what demands no
    /// more.
    pub(super) proved: RefCell<Option<Box<Demand>>>,
}

impl Conn {
    pub(super) fn new(transport: Transport) -> Rc<Self> {
        Rc::new(Self {
            transport: RefCell::new(transport),
            input: RefCell::default(),
            reused: Cell::new(0),
            place: RefCell::new(None),
            read_end: RefCell::new(None),
            write_closed: Cell::new(false),
            nodelay_decided: Cell::new(false),
            proved: RefCell::new(None),
        })
    }

    pub(super) fn read_closed(&self) -> bool {
        self.read_end.borrow().is_some()
    }

    /// Reads up to `room` bytes into the input; 0 is the end.
    pub(super) fn poll_fill(&self, cx: &mut Context<'_>, room: usize) -> Poll<Result<usize, Failure>> {
        let mut input = self.input.borrow_mut();
        let result = self.transport.borrow().poll_read(cx, input.room(room));
        result.map(|result| result.map_err(|error| self.failure(error)))
    }

    /// As [`poll_fill`](Self::poll_fill), for bytes that are there already: `None` when there are none.
    pub(super) fn try_fill(&self, room: usize) -> Option<Result<usize, Failure>> {
        match self.poll_fill(&mut Context::from_waker(Waker::noop()), room) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    pub(super) fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<Result<usize, Failure>> {
        let result = self.transport.borrow().poll_write(cx, slices);
        result.map(|result| result.map_err(|error| self.failure(error)))
    }

    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let result = self.transport.borrow().poll_flush(cx);
        result.map(|result| result.map_err(|error| self.failure(error)))
    }

    fn failure(&self, error: io::Error) -> Failure {
        if self.is_downstream() && matches!(error.kind(), io::ErrorKind::ConnectionAborted) {
            return Failure::ClientAborted;
        }
        Failure::from(error)
    }

    /// Whether it is a client's.
    pub(super) fn is_downstream(&self) -> bool {
        matches!(&*self.transport.borrow(), Transport::Body(_) | Transport::Raw(_))
    }

    /// Whether it can be read only.
    pub(super) fn is_body(&self) -> bool {
        matches!(&*self.transport.borrow(), Transport::Body(_))
    }

    pub(super) fn transport(&self) -> &RefCell<Transport> {
        &self.transport
    }
}

thread_local! {
    static POOLS: Pools<Rc<Conn>> = Pools::default();
}

impl Pooled for Rc<Conn> {
    type Notes = ();
    /// A pool's name is all that `connect` says. What the connection must prove, `sslhandshake` says later.
    type Wanted<'a> = ();
    const NAME: &'static str = "lua tcp socket";

    fn pools() -> &'static LocalKey<Pools<Self>> {
        &POOLS
    }

    fn is_quiet(&mut self) -> bool {
        self.input.borrow().is_empty() && self.try_fill(1).is_none() && {
            self.input.borrow_mut().release();
            true
        }
    }

    fn note_reuse(&mut self) {
        self.reused.set(self.reused.get() + 1);
    }

    fn is_wanted(&self, (): &()) -> bool {
        true
    }

    fn own_wish((): ()) {}
}

impl Drop for Conn {
    fn drop(&mut self) {
        if let Transport::Plain(stream) = &*self.transport.borrow() {
            stream.say_farewell();
        }
    }
}
