//! What a server needs whatever it speaks: threads, sockets, time and logs.
//!
//! What this does not know: HTTP or any other protocol, directives, what a configuration looks like.
//!
//! In reading order:
//!
//! - [`generations`]: the worker threads of a process and how a reload exchanges them
//! - [`listeners`]: listening sockets; [`client_socket`], [`stream`]: connected ones
//! - [`log`], [`clock`], [`memory`]: what the others stand on

mod address;
pub mod client_socket;
pub mod clock;
pub mod generations;
pub mod listeners;
pub mod log;
pub mod memory;
pub mod stream;

pub use address::Peer;
