//! The phase engine: servers, locations, variables, requests, filters, modules.
//!
//! What it does not know: any directive beyond nginx's core ones, Lua, SQL. Those are modules in crates above, made of
//! the types here. What is not HTTP is below, in [`tidegate_net`].
//!
//! In reading order:
//!
//! - [`module`], [`registry`]: what a module is
//! - [`conf`]: from syntax trees to a [`conf::Config`]; [`main_conf`], [`http_core`]: the core's own directives
//! - [`variable`], [`variables`], [`template`], [`regex`]: values in texts
//! - [`server_name`], [`location`]: which block a request belongs to
//! - [`request`], [`body`], [`output`], [`byte_ranges`], [`captured`]: a request, its body, its response
//! - [`phase`]: how handlers are called; [`special_response`]: error pages; `panics`; [`subrequest`], [`postpone`], `end_work`
//! - [`static_files`]: from a path to an open file
//! - [`client`], `write_head`, `transfer`, `output_queue`: how a request speaks to its client
//! - [`connection`], [`http1`], [`http2`], [`http2_settings`], [`keepalive`], [`ssl`]: connections of clients; [`worker`]: who serves them, `waiting`
//! - [`resolver`]: which name servers are asked
//! - [`cache`]: responses on disk; `spool`: bytes on their way to a file
//! - [`upstream`]: talking to other servers for a request
//! - [`error_log`], [`files`]: what they stand on

mod accepted;
pub mod body;
pub mod body_file;
pub mod byte_ranges;
pub mod cache;
pub mod captured;
mod chunks;
pub mod client;
pub mod conf;
pub mod connection;
mod end_work;
pub mod environment;
pub mod error_log;
pub mod files;
pub mod http1;
pub mod http2;
pub mod http2_settings;
pub mod http_core;
pub mod keepalive;
mod lifecycle;
pub mod limit_rate;
mod lingering;
pub mod listen;
pub mod location;
pub mod main_conf;
pub mod module;
pub mod output;
mod output_queue;
pub mod own_request;
pub mod panics;
pub mod phase;
pub mod postpone;
pub mod product;
pub mod regex;
pub mod registry;
pub mod request;
pub mod resolver;
pub mod server_name;
pub mod special_response;
mod spill;
pub mod spool;
pub mod ssl;
pub mod static_files;
pub mod subrequest;
mod target;
mod temp_file;
pub mod template;
mod transfer;
pub mod upstream;
pub mod variable;
pub mod variables;
mod waiting;
pub mod worker;
mod write_head;

// What most files here use of the crate below.
pub(crate) use tidegate_net::{clock, deadline, listeners, log, stream};

/// The core's own modules.
pub(crate) static MODULES: &[&dyn module::AnyModule] = &[
    &main_conf::MODULE,
    &main_conf::EVENTS,
    &http_core::MODULE,
    &accepted::MODULE,
    &http2_settings::MODULE,
    &keepalive::MODULE,
    &limit_rate::MODULE,
    &static_files::MODULE,
    &static_files::types::MODULE,
    &resolver::MODULE,
    &cache::MODULE,
    &ssl::MODULE,
];

/// The version of nginx whose behaviour is followed: `$nginx_version`, `ngx.config.nginx_version`.
pub const NGINX_VERSION: &str = "1.27.1";
