//! Logs: where lines go, and how they get there without holding up a worker.
//!
//! A worker formats a line into a buffer of its own thread and hands it over; a writer thread, one for each process,
//! puts it into the file. The hand-over costs a copy and an uncontended lock; a system call only when the writer
//! sleeps, at most once in [`writer::PAUSE`]. Everything is bounded: what does not fit is dropped, counted, and the
//! count is reported in the error log. A process without the writer thread (start-up, the supervisor, `-t`) writes at once.
//!
//! In reading order: [`Level`]; [`LogFile`], a destination, shared by everything that names it; [`ErrorLog`] and the
//! line format that people grep for; [`AccessLog`]; [`capture`], the ring behind `lua_capture_error_log`.
//!
//! What this does not know: directives, variables and `log_format`. Lines arrive as bytes.

mod access;
pub mod capture;
mod error;
mod file;
mod level;
mod path;
mod registry;
mod syslog;
mod writer;

#[cfg(test)]
mod tests;

pub use access::{AccessLog, Buffering};
pub use error::{ErrorLog, Line, SysError, any_debug, echo_to_stderr, main, note, set_main};
pub use file::{BadDestination, Destination, LogFile, OpenError};
pub use level::Level;
pub use path::OpenLogFileCache;
pub use registry::{is_stderr_used, open_files, open_registered, provide, reopen, reopen_with, withdraw_provided};
pub use syslog::SyslogTarget;
pub use writer::{flush, start_writer};

/// Forgets what this thread knows about its process; a process calls it first after a fork.
pub fn after_fork() {
    error::forget_process_id();
}
