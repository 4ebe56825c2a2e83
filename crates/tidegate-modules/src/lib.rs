//! One file for each nginx-style module.
//!
//! A module's file holds its directive table, its configuration struct, how inner levels inherit, its variables and its
//! handlers. Adding a feature is adding a file and a line in [`MODULES`], whose order is the order in which handlers of
//! a phase and filters run.
//!
//! What this crate does not know: how requests are read and written, and Lua.

pub mod access;
pub mod acme;
pub mod addition;
pub mod array_var;
pub mod auth_basic;
pub mod auth_request;
pub mod autoindex;
mod bound;
mod cgi;
pub mod charset;
pub mod database;
#[cfg(debug_assertions)]
pub mod debug_panic;
mod directory;
pub mod drizzle;
pub mod echo;
pub mod empty_gif;
mod event_stream;
pub mod fastcgi;
pub mod form_input;
pub mod geo;
pub mod gunzip;
pub mod gzip;
pub mod gzip_static;
pub mod handlersocket;
pub mod headers;
pub mod headers_more;
mod hostnames;
pub mod index;
mod key_value;
pub mod limit_conn;
pub mod limit_except;
pub mod limit_req;
pub mod log;
pub mod map;
pub mod memc;
pub mod memcached;
mod mime_types;
pub mod mirror;
mod network;
pub mod not_modified;
mod pass;
pub mod proxy;
pub mod queue;
pub mod random_index;
pub mod range;
pub mod rds_csv;
mod rds_filter;
pub mod rds_json;
pub mod realip;
pub mod redis;
pub mod redis2;
pub mod referer;
pub mod rewrite;
mod row_format;
pub mod scgi;
pub mod secure_link;
mod services;
pub mod set_misc;
pub mod slice;
pub mod split_clients;
pub mod sql_events;
pub mod sql_versions;
pub mod srcache;
pub mod ssi;
pub mod r#static;
mod strftime;
pub mod stub_status;
pub mod sub_filter;
pub mod try_files;
pub mod upstream;
pub mod userid;
pub mod uwsgi;
mod zone;

use tidegate_core::module::AnyModule;

/// The modules, in the order in which their handlers and filters run, one to a line. Those of Lua come behind them, then
/// [`FILTERS`].
///
/// Content handlers that every location has stand in nginx's order: `index`, `autoindex`, `gzip_static`, `static`.
/// `slice` and `not_modified` are the first of the filters: they see what the content handler said.
#[rustfmt::skip]
pub static MODULES: &[&dyn AnyModule] = &[
    &acme::MODULE,
    &acme::BLOCK,
    &rewrite::MODULE,
    &set_misc::MODULE,
    &array_var::MODULE,
    &form_input::MODULE,
    #[cfg(debug_assertions)]
    &debug_panic::MODULE,
    &try_files::MODULE,
    &empty_gif::MODULE,
    &random_index::MODULE,
    &index::MODULE,
    &autoindex::MODULE,
    &gzip_static::MODULE,
    &r#static::MODULE,
    &slice::MODULE,
    &not_modified::MODULE,
    &map::MODULE,
    &geo::MODULE,
    &split_clients::MODULE,
    &realip::MODULE,
    &limit_req::MODULE,
    &limit_conn::MODULE,
    &limit_except::MODULE,
    &access::MODULE,
    &auth_basic::MODULE,
    &auth_request::MODULE,
    &mirror::MODULE,
    &referer::MODULE,
    &secure_link::MODULE,
    &stub_status::MODULE,
    &upstream::MODULE,
    &proxy::MODULE,
    &fastcgi::MODULE,
    &scgi::MODULE,
    &uwsgi::MODULE,
    &memcached::MODULE,
    &memc::MODULE,
    &redis::MODULE,
    &redis2::MODULE,
    &handlersocket::MODULE,
    &database::MODULE,
    &database::BLOCK,
    &drizzle::MODULE,
    &sql_events::MODULE,
    &queue::MODULE,
    &sql_versions::MODULE,
    &rds_json::MODULE,
    &rds_csv::MODULE,
];

/// The filters, and the access log, that run behind those of Lua.
///
/// nginx's order: the fields of `headers_more` and `headers` first, since later filters may take some back; then those that change the
/// body, from its text to its encoding; last what depends on the final length.
///
/// ```text
/// not_modified → Lua, headers_more → srcache → echo → headers → userid → gunzip → sub_filter → addition → charset → ssi → gzip → range → client
/// ```
///
/// `ssi` is the last of those that see a body: it sends pieces and sub-requests behind itself.
///
/// The parts that a range asks for are cut out before any body filter (the core's `byte_ranges`).
#[rustfmt::skip]
pub static FILTERS: &[&dyn AnyModule] = &[
    &headers_more::MODULE,
    &srcache::MODULE,
    &echo::MODULE,
    &headers::MODULE,
    &userid::MODULE,
    &gunzip::MODULE,
    &sub_filter::MODULE,
    &addition::MODULE,
    &charset::MODULE,
    &ssi::MODULE,
    &gzip::MODULE,
    &range::MODULE,
    &log::MODULE,
];

/// The page about writing a module, whose code is compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-module.md")]
pub struct WritingAModule;
