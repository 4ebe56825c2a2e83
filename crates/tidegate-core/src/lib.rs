//! The phase engine: servers, locations, variables, requests, filters, modules.

pub mod clock;
pub mod log;
pub mod server;
pub mod sockets;
