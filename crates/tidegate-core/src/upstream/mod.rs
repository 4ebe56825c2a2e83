//! Talking to other servers for a request: the engine that proxies and other clients of servers share.
//!
//! What lives here: who is asked (peers, the methods of choosing one, what is known of their health), how they are
//! reached (connecting, connections kept open), how an exchange runs (several tries, time limits, what a client that
//! leaves means), and what comes of the answer (its head, its body with bounded memory, `$upstream_*`). What it does not
//! know: what the bytes mean. That is a [`Protocol`], of which each module brings its own.
//!
//! In reading order:
//!
//! - [`address`]: where a server is; [`url`]: how configurations write that
//! - [`peer`], [`group`], [`balance`]: the servers of an upstream, and the choice among them
//! - [`socket`], [`tls`], [`tls_scripts`], [`keepalive`]: a connection to a peer
//! - [`record`], [`variables`]: what became of each try
//! - [`directives`], [`settings`]: the directives that modules have in common
//! - `lane`, `share`: several requests under way on one connection
//! - [`exchange`], `attempt`, [`body`], `send`, [`failure`]: one request's way to a peer and back, and to the next one
//! - `response`: the head for the client; `pipe`: the body; `tunnel`: after an upgrade
//! - `tee`: a body that also becomes a file; [`store`], [`caching`]: what for
//!
//! # Sharing
//! Groups and peers belong to the configuration and are shared by all workers; what changes about them is atomic, or under
//! one mutex for each group that is held for a few loads and stores. A group of one peer takes no lock. Connections belong
//! to a worker.

pub mod address;
mod attempt;
pub mod balance;
pub mod body;
pub mod caching;
pub mod directives;
pub mod exchange;
pub mod failure;
pub mod group;
pub mod keepalive;
mod lane;
pub mod peer;
mod pipe;
pub mod record;
mod response;
mod send;
pub mod settings;
mod share;
pub mod socket;
pub mod store;
mod tee;
pub mod tls;
pub mod tls_scripts;
mod tunnel;
pub mod url;
pub mod variables;

pub use address::Address;
pub use body::{Promise, SendBody, Source};
pub use exchange::{Exchange, HeadPart, Protocol, Written};
pub use group::{Group, GroupOptions, Server};
pub(crate) use lane::sweep as sweep_lanes;
pub use lane::{Extent, Measure};
pub use peer::Peer;
pub use settings::{Settings, UpstreamConf};
