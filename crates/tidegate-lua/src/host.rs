//! What Lua needs of the world around it: the seam between this crate's scheduler and the HTTP core.

use std::any::Any;
use std::rc::Rc;

/// nginx's log levels; the numbers are those of `ngx.ERR` and its kin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LogLevel {
    /// `ngx.STDERR`: to standard error, whatever the level of the log.
    Stderr = 0,
    /// `ngx.EMERG`
    Emerg = 1,
    /// `ngx.ALERT`
    Alert = 2,
    /// `ngx.CRIT`
    Crit = 3,
    /// `ngx.ERR`
    Error = 4,
    /// `ngx.WARN`
    Warn = 5,
    /// `ngx.NOTICE`
    Notice = 6,
    /// `ngx.INFO`
    Info = 7,
    /// `ngx.DEBUG`
    Debug = 8,
}

impl LogLevel {
    /// From the number that Lua code uses.
    pub fn from_number(number: i64) -> Option<Self> {
        Some(match number {
            0 => Self::Stderr,
            1 => Self::Emerg,
            2 => Self::Alert,
            3 => Self::Crit,
            4 => Self::Error,
            5 => Self::Warn,
            6 => Self::Notice,
            7 => Self::Info,
            8 => Self::Debug,
            _ => return None,
        })
    }
}

/// On whose behalf a script runs: a request, a timer, the start of a worker.
pub trait Host {
    /// Writes to the error log with this host's tail (client, request, …).
    fn log(&self, level: LogLevel, message: &[u8]);

    /// Whether the error log takes messages of `level`. Costly messages are not built otherwise.
    fn logs(&self, level: LogLevel) -> bool;

    /// The host of a timer that a script of this host creates: it outlives the request.
    fn timer_host(&self) -> Rc<dyn Host>;

    /// The concrete type, for the API that belongs to requests.
    fn as_any(&self) -> &dyn Any;
}
