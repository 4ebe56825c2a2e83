//! The client against a MariaDB of its own.

mod login;
mod outage;
mod pool;
mod queries;
mod server;
mod sinks;
