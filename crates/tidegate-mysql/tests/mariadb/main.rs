//! The client against a MariaDB of its own.

mod lane;
mod login;
mod outage;
mod pool;
mod queries;
mod refusals;
mod server;
mod sinks;
