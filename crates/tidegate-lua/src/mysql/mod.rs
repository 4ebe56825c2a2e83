//! `resty.mysql`: sessions with a database for scripts, on the native client and on the embedded engine.
//!
//! The Lua half is `lualib/resty/mysql.lua`. What scripts see is lua-resty-mysql's interface; values go from the packets'
//! buffer into Lua tables once.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `login` | what a session was made with: who may have it from the pool |
//! | `link` | a session (a connection to a server, or the embedded engine), and its pool |
//! | `db` | the object: what belongs to it, which operation may run when, `close`, `set_keepalive` |
//! | `connect` | `connect`: a session from the pool, or a new one |
//! | `query` | `send_query`, `read_result`, `query`, `prepare` |
//! | `embedded` | the same on the embedded engine |
//! | `argument` | statements and parameters from Lua values |
//! | `stats` | what pools have done and hold, as tables |
//! | `refusal` | failures in lua-resty-mysql's words |
//!
//! Results become Lua tables while their rows arrive, by [`crate::rows`].
//!
//! # Invariants
//!
//! * M1: one operation at a time: whoever runs one takes the session out of the object and puts it back when the session
//!   is between statements. A light thread that is ended half-way takes the session with it.
//! * M2: a session ends with its request at the latest, unless it was given to the pool.
//! * M3: a session in a transaction never goes into the pool: it is closed, which rolls back.
//! * M4: a session in the pool is as one that was made anew with its login, and only that login gets it.

#[cfg(any(test, feature = "fuzzing"))]
mod any_result;
mod argument;
mod connect;
mod db;
mod embedded;
mod link;
mod login;
mod query;
mod refusal;
mod stats;
#[cfg(test)]
mod tests;

use mlua_sys::lua_CFunction;

use crate::function::function;
use crate::socket::pool;

/// What the Lua half calls.
pub(crate) static FUNCTIONS: &[(&str, lua_CFunction)] = &[
    ("new", function(db::new)),
    ("set_timeout", function(db::set_timeout)),
    ("connect", function(connect::connect)),
    ("set_keepalive", function(db::set_keepalive)),
    ("get_reused_times", function(db::reused_times)),
    ("close", function(db::close)),
    ("server_ver", function(db::server_version)),
    ("send_query", function(query::send_query)),
    ("read_result", function(query::read_result)),
    ("query", function(query::query)),
    ("prepare", function(query::prepare)),
    ("forget", function(query::forget)),
    ("results_read", function(query::results_read)),
    ("pool_stats", function(stats::pool_stats)),
    ("drizzle_stats", function(stats::drizzle_stats)),
];

/// Makes tables of any packets, and checks them: for `fuzz/`.
#[cfg(feature = "fuzzing")]
pub fn check_any_result(vm: &std::rc::Rc<crate::vm::Vm>, input: &[u8]) {
    any_result::check(vm, input);
}

/// Closes the idle sessions of this worker.
pub(crate) fn close_pools() {
    pool::close_all::<link::Link>();
}
