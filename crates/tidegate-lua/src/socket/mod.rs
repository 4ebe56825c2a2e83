//! Cosockets: `ngx.socket.tcp`, `ngx.socket.udp`, `ngx.req.socket`.
//!
//! What lives here: connections and what is read from and written to them. What it does not know: tables and methods as
//! scripts see them, which is `lualib/tidegate/api/socket.lua`.
//!
//! In reading order:
//!
//! | module | what lives there |
//! | --- | --- |
//! | `failure` | why an operation fails, in OpenResty's words |
//! | `owner` | the request that a socket belongs to, and closes it |
//! | `settings` | the `lua_socket_*` directives where the script runs |
//! | `conn`, `transport`, `input` | a connection: plain, encrypted, or the client's |
//! | `pattern` | what `receive` and its kin look for in the input |
//! | `pool` | connections kept for later, for each worker |
//! | `tcp` | the socket object, and which operation may run when |
//! | `connect`, `receive`, `send`, `keepalive`, `tls`, `option` | its operations |
//! | `tls_conf`, `session`, `certificate` | how handshakes are made, what they resume, a client's own certificate |
//! | `downstream`, `udp` | the other kinds of sockets |
//!
//! # How an operation runs
//!
//! It first does what can be done at once, without suspending anything: bytes that are there are returned by a plain
//! call. Only when the system says that it has to wait, the light thread waits ([`crate::scheduler`]), and a time limit
//! is set.
//!
//! # Invariants
//!
//! * S1: at most one light thread reads and one writes at a time; connecting excludes both. Guards see to it that the
//!   marks go when a waiting thread is ended.
//! * S2: a connection ends with its request at the latest, unless it was given to the pool.
//! * S3: no `RefCell` is borrowed over a call into Lua that may raise.

pub(crate) mod certificate;
mod conn;
mod connect;
mod downstream;
mod failure;
mod input;
mod keepalive;
mod option;
mod owner;
mod pattern;
pub(crate) mod pool;
mod receive;
mod send;
mod session;
mod settings;
mod tcp;
#[cfg(test)]
mod tests;
mod tls;
mod tls_conf;
mod transport;
mod udp;

pub(crate) use connect::{Target, host_target, resolve};
pub(crate) use failure::{Failure, debug, push_nil_error};
pub use owner::OpenSockets;
pub(crate) use owner::{Closing, Owner};
pub(crate) use send::text_of;
pub(crate) use settings::Settings;
pub(crate) use tls::{client_without_name, explain_certificate};
pub(crate) use tls_conf::MODULE as TLS_MODULE;

use std::rc::Rc;

use mlua_sys::lua_CFunction;

use crate::function::function;

/// Looks for any text in any input, and checks what is found: for `fuzz/`.
#[cfg(feature = "fuzzing")]
pub fn check_any_pattern(input: &[u8]) {
    pattern::check_any(input);
}

/// Closes the idle connections of this worker's cosockets.
pub(crate) fn close_pools() {
    pool::close_all::<Rc<conn::Conn>>();
}

/// What the Lua half calls.
pub(crate) static FUNCTIONS: &[(&str, lua_CFunction)] = &[
    ("tcp", function(tcp::new)),
    ("setclientcert", function(certificate::set_client_cert)),
    ("bind", function(tcp::bind)),
    ("connect", function(connect::connect)),
    ("send", function(send::send)),
    ("receive", function(receive::receive)),
    ("receiveany", function(receive::receive_any)),
    ("receiveuntil", function(receive::receive_until)),
    ("iterate", function(receive::iterate)),
    ("settimeout", function(tcp::set_timeout)),
    ("settimeouts", function(tcp::set_timeouts)),
    ("setoption", function(option::set)),
    ("getoption", function(option::get)),
    ("getfd", function(option::fd)),
    ("setkeepalive", function(keepalive::set_keepalive)),
    ("getreusedtimes", function(keepalive::reused_times)),
    ("close", function(tcp::close)),
    ("shutdown", function(tcp::shutdown)),
    ("sslhandshake", function(tls::handshake)),
    ("getsslsession", function(session::of_socket)),
    ("free_session", function(session::free)),
    ("is_reused", function(session::is_reused)),
    ("req_socket", function(downstream::req_socket)),
    ("udp", function(udp::new)),
    ("udp_bind", function(udp::bind)),
    ("setpeername", function(udp::set_peer_name)),
    ("udp_send", function(udp::send)),
    ("udp_receive", function(udp::receive)),
    ("udp_settimeout", function(udp::set_timeout)),
    ("udp_close", function(udp::close)),
];
