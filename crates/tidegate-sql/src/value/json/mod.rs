//! JSON as MariaDB keeps it: text that must be well-formed, read when a function asks.
//!
//! [`check`] only checks; [`tree`] reads a text into nodes that remember their place, writes it in MariaDB's three styles and compares;
//! [`path`] reads paths and finds what they mean.

mod check;
pub(crate) mod path;
pub(crate) mod tree;

pub(crate) use check::is_valid;
