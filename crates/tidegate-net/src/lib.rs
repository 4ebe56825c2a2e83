//! What a server needs whatever it speaks: threads, sockets, time and logs.
//!
//! What this does not know: HTTP or any other protocol, directives, what a configuration looks like.
//!
//! In reading order:
//!
//! - [`generations`]: the worker threads of a process and how a reload exchanges them
//! - [`worker`]: what one of them does; [`service`]: what it has to know of a protocol
//! - [`session`], `sessions`, `parked`: the connections of a worker, those on which nothing happens apart; `turns`: how
//!   those who wait for their first turn get it; [`places`]: which worker talks to whom
//! - [`listeners`], [`accept`]: listening sockets; [`client_socket`], [`stream`], [`tls`]: connected ones
//! - [`resolver`]: addresses of names
//! - [`deadline`], [`sleep`]: time limits and sleeps of thousands
//! - [`log`], [`clock`], [`counters`], [`rare`], [`buffers`], [`memory`]: what the others stand on

pub mod accept;
mod address;
pub mod buffers;
pub mod client_socket;
pub mod clock;
pub mod counters;
pub mod deadline;
pub mod generations;
pub mod listeners;
pub mod log;
pub mod memory;
mod parked;
pub mod places;
pub mod rare;
pub mod resolver;
pub mod service;
pub mod session;
mod sessions;
pub mod sleep;
pub mod stream;
pub mod tls;
mod turns;
pub mod worker;

pub use address::Peer;
