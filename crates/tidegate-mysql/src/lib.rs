//! MySQL wire protocol: packets, client, pools.
//!
//! [`Conn`] is a connection: it logs in, sends statements and streams their results from the packets' buffer into a
//! [`tidegate_rows::Sink`]. The codec ([`wire`], [`packet`], [`answer`], [`handshake`], [`rows`], [`text_results`],
//! [`binary_results`], [`statements`], [`compress`]) reads and writes both sides of the protocol and does no input or output of its own.
//!
//! [`Pool`] keeps connections for all workers. [`server`] is the other side: what a client of anybody's talks to.
//!
//! This crate knows nothing of configuration files, HTTP or Lua.
//!
//! Reading order: [`options`], [`conn`], [`pool`], then the codec.

#![forbid(unsafe_code)]

pub mod answer;
pub mod auth;
mod balancer;
pub mod binary_results;
mod channel;
pub mod charset;
pub mod compress;
pub mod conn;
pub mod handshake;
mod histogram;
mod login;
pub mod options;
pub mod packet;
pub mod pool;
pub mod read_only;
pub mod rows;
mod rsa;
#[cfg(test)]
mod scripted;
pub mod server;
pub mod session;
pub mod statements;
mod stream;
pub mod text_results;
mod timer;
pub mod tls;
pub mod wire;

pub use balancer::ServerOptions;
pub use conn::{Conn, Progress};
pub use histogram::Histogram;
pub use login::NO_TLS;
pub use options::{Address, ConnectOptions, Timeouts, TlsMode};
pub use pool::{
    Event, Overflow, Pace, Pool, PoolMode, PoolOptions, PoolStats, PooledConn, Resolved, Resolver, Sharing,
};
pub use tls::{TlsClient, TlsOptions, TlsVerify};
