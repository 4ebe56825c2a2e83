//! The `lua_socket_*` directives where a script runs.

use std::time::Duration;

use tidegate_core::resolver;
use tidegate_core::worker;

use crate::host::Host;
use crate::settings::{Conf, MODULE};

/// What the directives say, or their defaults.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) connect_timeout: Duration,
    pub(crate) send_timeout: Duration,
    pub(crate) read_timeout: Duration,
    pub(crate) keepalive_timeout: Duration,
    pub(crate) buffer_bytes: usize,
    pub(crate) pool_size: usize,
    pub(crate) log_errors: bool,
}

const MINUTE: Duration = Duration::from_secs(60);

impl Settings {
    /// Those where `host` is; of timers those of the `http` level.
    pub(crate) fn of(host: &Host) -> Settings {
        match host.request() {
            Some(req) => Self::from_conf(req.module_conf(&MODULE)),
            None => match worker::config() {
                Some(config) => Self::from_conf(config.http_conf(&MODULE)),
                None => Self::from_conf(&Conf::default()),
            },
        }
    }

    fn from_conf(conf: &Conf) -> Settings {
        Settings {
            connect_timeout: conf.lua_socket_connect_timeout.unwrap_or(MINUTE),
            send_timeout: conf.lua_socket_send_timeout.unwrap_or(MINUTE),
            read_timeout: conf.lua_socket_read_timeout.unwrap_or(MINUTE),
            keepalive_timeout: conf.lua_socket_keepalive_timeout.unwrap_or(MINUTE),
            buffer_bytes: conf.lua_socket_buffer_size.unwrap_or(4096).max(1),
            pool_size: conf.lua_socket_pool_size.map_or(30, |size| usize::try_from(size).unwrap_or(usize::MAX)),
            log_errors: conf.lua_socket_log_errors != Some(false),
        }
    }
}

/// Calls `body` with the resolver's configuration where `host` is.
pub(crate) fn with_resolver<R>(host: &Host, body: impl FnOnce(&resolver::Conf) -> R) -> R {
    match host.request() {
        Some(req) => body(req.module_conf(&resolver::MODULE)),
        None => match worker::config() {
            Some(config) => body(config.http_conf(&resolver::MODULE)),
            None => body(&resolver::Conf::default()),
        },
    }
}
