//! What a result set is, and where its rows go.
//!
//! A back end ([`Execute`]: the MySQL client, the embedded engine) runs a statement and tells a [`Sink`] what it finds,
//! straight from the page or packet buffer: columns, then row by row, then a [`Summary`]. A sink is a
//! [`Format`] (JSON, CSV, RDS, MySQL packets: bytes appended to a buffer) with a destination (an HTTP response), or
//! something that builds values of its own (Lua tables).
//!
//! This crate knows nothing of sockets, files, SQL or configuration.
//!
//! Reading order: [`mod@column`], [`value`], [`row`], [`sink`], [`error`], then the formats: [`json`], [`csv`], [`rds`], [`frames`].

#![forbid(unsafe_code)]

pub mod column;
pub mod csv;
pub mod error;
pub mod frames;
pub mod json;
pub mod number;
pub mod rds;
pub mod row;
pub mod sink;
pub mod value;

pub use column::{Column, ColumnFlags, ColumnType, Extended};
pub use error::{QueryError, ServerError, Stage};
pub use row::{Field, Row, Unpack};
pub use sink::{Execute, Flow, Format, Input, SessionChange, Sink, SinkClosed, Statement, Summary};
pub use value::{Param, Value};
