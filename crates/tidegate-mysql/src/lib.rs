//! MySQL wire protocol: packets, client, pools.
//!
//! [`Conn`] is a connection: it logs in, sends statements and streams their results from the packets' buffer into a
//! [`tidegate_rows::Sink`]. The codec ([`wire`], [`packet`], [`answer`], [`handshake`], [`rows`], [`statements`]) reads
//! and writes both sides of the protocol and does no input or output of its own.
//!
//! This crate knows nothing of configuration files, HTTP or Lua.
//!
//! Reading order: [`options`], [`conn`], then the codec.

#![forbid(unsafe_code)]

pub mod answer;
pub mod auth;
mod channel;
pub mod charset;
mod compress;
pub mod conn;
pub mod handshake;
mod login;
pub mod options;
pub mod packet;
pub mod rows;
mod rsa;
pub mod session;
pub mod statements;
mod stream;
mod timer;
pub mod tls;
pub mod wire;

pub use conn::Conn;
pub use options::{Address, ConnectOptions, Timeouts, TlsMode};
pub use tls::{TlsClient, TlsOptions, TlsVerify};
