//! Who gets the next message of a queue, and until when.
//!
//! Messages are rows of a store that outlives the process. What does not outlive it is here, once for all workers: who waits for
//! messages and in which order ([`InLine`]), who has got which until when ([`Lease`]), and the window, the part of a queue's order
//! that is in memory. A process that has ended has given nothing to anybody: each of its messages waits again.
//!
//! ```text
//! store ──scan, a few dozen places at a time──▶ window ──in order──▶ the first in line ──▶ lease ──▶ settled: deleted, or back
//!   ▲                                             ▲                                         │
//!   └── commit ── publish ── Broker::waits ───────┘ ◀────────── time is over, or given back ┘
//! ```
//!
//! Nothing here waits for the store. The broker says what is to be done ([`Turn::Scan`], [`Broker::expired`]), its user does it and
//! tells what came of it. Whoever drops such a task half-way has it done by the next one.
//!
//! Invariants:
//! 1. A message has one lease at most. Who gets a message reads it *behind* getting the lease: so it sees all that was done to the
//!    message under earlier leases, and a place in the window without a message is found out there.
//! 2. The window has all messages that wait up to the place to which it is known. [`Broker::waits`] is called behind the commit, so
//!    a scan that began before has it told, and one that begins later finds it. A message may be told to wait before whoever has
//!    put it off ends the lease: the lease keeps that, and the message waits when it ends.
//! 3. Whoever waits longer is served first.
//!
//! This crate knows nothing of SQL, protocols, configuration or the contents of messages. Reading order: [`window`], [`broker`],
//! [`mod@line`], [`lease`], [`hands`].

#![forbid(unsafe_code)]

pub mod broker;
pub mod hands;
pub mod lease;
pub mod line;
pub mod window;

pub use broker::{Broker, Counts};
pub use hands::Hands;
pub use lease::{Lease, Receipt, Settling};
pub use line::{InLine, Scan, Turn};
pub use window::Place;
