//! What a worker has to know of a protocol: a [`Service`] gets the connections of an address, and the
//! [`Conversation`]s that it begins tell when nothing happens on them.

use std::{any::Any, future::Future, net::SocketAddr, pin::Pin, rc::Rc};

use crate::{
    listeners::ListenAddr,
    session::{End, Session},
    worker::Worker,
};

/// What the workers of a generation are for. Each worker has one.
pub trait Application: 'static {
    /// The bounds of each worker.
    fn settings(&self) -> Settings;
    /// Called once on the worker's thread, before it accepts connections. The worker is [`crate::worker::current`].
    ///
    /// # Errors
    /// A sentence that says why the worker cannot start.
    fn begin(&self) -> Result<(), String>;
    /// The addresses that have services. Sessions refer to them by position.
    fn ports(&self) -> Vec<Port>;
    /// Called a few times a second while anything waits: for time limits of the application's own.
    fn check_deadlines(&self, now_ms: u64);
    /// Called once, when the worker ends.
    fn end(&self, end: WorkerEnd) -> Pin<Box<dyn Future<Output = ()> + '_>>;
}

/// The bounds of a worker.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Connections that it may have open.
    pub connections_max: usize,
    /// How long a session waits for a request before it is parked, in milliseconds.
    pub park_after_ms: u64,
}

/// The ways in which a worker ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerEnd {
    /// Its requests have ended.
    Finished,
    /// It had no more time for the requests that are left.
    Cut,
    /// It is stopped, whatever it does.
    Stopped,
}

/// An address with the service that is behind it.
pub struct Port {
    /// The address, as the listening socket has it.
    pub address: ListenAddr,
    /// Exact addresses that this wildcard address accepts for, and their positions among the ports.
    pub shared_with: Vec<(SocketAddr, usize)>,
    /// What answers there.
    pub service: Rc<dyn Service>,
}

/// What answers at an address.
pub trait Service: 'static {
    /// Begins to talk on a connection that was accepted or is no longer parked. The service gives its conversation to
    /// [`Worker::start`].
    fn begin(&self, worker: &Rc<Worker>, opening: Opening);
    /// How long the whole head of a request may take to arrive, in milliseconds.
    fn head_timeout_ms(&self) -> u64;
    /// Whether a parked session goes on waiting though bytes have come: those behind the first `before` bytes of
    /// `input`.
    fn stays_parked(&self, input: &[u8], before: usize) -> bool;
}

/// A connection for a service.
pub struct Opening {
    /// The connection.
    pub session: Session,
    /// Bytes that were read and not used yet.
    pub input: Vec<u8>,
    /// What the conversation that was parked wanted to keep.
    pub memo: Option<Memo>,
}

/// What a conversation keeps while it is parked, beside its session and its input. Few have one. It is dropped before the
/// socket closes.
pub type Memo = Box<Box<dyn Any>>;

/// The talk with a client.
pub trait Conversation: HasSession + Sized {
    /// Talks until the end, or until nothing has happened for a while.
    fn converse(self: &Rc<Self>, worker: &Rc<Worker>) -> impl Future<Output = End>;
    /// What is left of it when it is parked.
    fn park(self) -> Opening;
}

/// Something on a connection.
pub trait HasSession: 'static {
    /// The connection.
    fn session(&self) -> &Session;
}
