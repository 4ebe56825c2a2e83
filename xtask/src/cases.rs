//! End-to-end cases: a configuration, requests over a socket, and what must come back.
//!
//! The format is described for its users in `docs/testing.md`. Reading order: [`case`] turns sections into a [`case::Case`],
//! [`script`] its requests into steps; [`vars`] fills in ports and paths; [`server`] runs the binary in a directory of
//! its own; [`client`] and [`response`] talk to it,
//! [`peer`] is a scripted server for it to talk to; [`check`] compares; [`run`] does this for all cases at once and
//! [`pending`] knows which are expected to fail for now. Not known here: which features exist.

mod case;
mod check;
mod client;
mod execute;
mod files;
mod output;
mod peer;
mod pending;
mod response;
mod run;
mod script;
mod server;
mod sockets;
mod vars;

pub(crate) use files::write_plain as write_files;
pub(crate) use response::parse_get as parse_response;
pub(crate) use run::{Counts, Selection, run_cases};
pub(crate) use server::ServerKind;
pub(crate) use vars::Vars;
