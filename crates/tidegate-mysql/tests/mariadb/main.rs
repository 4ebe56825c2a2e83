//! The client against a MariaDB of its own.

mod login;
mod pool;
mod queries;
mod server;
mod sinks;
