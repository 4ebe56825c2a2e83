//! Directives that tune what is not there: hash tables, memory pools, old browsers. They are checked and have no effect.
//!
//! Each one's line in the reference says why. Directives of a module that has more to say stand in that module, even
//! where one has no effect.

use crate::{
    inherit,
    module::{Context, Directive, Module},
};

/// What the directives say, which nobody asks.
#[derive(Debug, Default)]
pub(crate) struct Conf {
    /// Also the least that `large_client_header_buffers` may be.
    pub(crate) connection_pool_size: Option<usize>,
    msie_padding: Option<bool>,
    msie_refresh: Option<bool>,
    request_pool_size: Option<usize>,
    send_lowat: Option<usize>,
    server_names_hash_bucket_size: Option<u64>,
    server_names_hash_max_size: Option<u64>,
    variables_hash_bucket_size: Option<u64>,
    variables_hash_max_size: Option<u64>,
}

const HTTP: Context = Context::HTTP;
const MAIN_SERVER: Context = Context::HTTP.or(Context::SERVER);

/// The module.
pub(crate) static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::size("connection_pool_size", |c: &mut Conf| &mut c.connection_pool_size)
            .within(MAIN_SERVER)
            .default("512")
            .doc("Accepted: there are no memory pools. It bounds large_client_header_buffers from below."),
        Directive::flag("msie_padding", |c: &mut Conf| &mut c.msie_padding)
            .default("on")
            .doc("Accepted, nothing to tune: error pages are not padded for browsers of that age."),
        Directive::flag("msie_refresh", |c: &mut Conf| &mut c.msie_refresh)
            .default("off")
            .doc("Accepted, nothing to tune: redirects are redirects for every browser."),
        Directive::size("request_pool_size", |c: &mut Conf| &mut c.request_pool_size)
            .within(MAIN_SERVER)
            .default("4k")
            .doc("Accepted, nothing to tune: there are no memory pools."),
        Directive::size("send_lowat", |c: &mut Conf| &mut c.send_lowat)
            .default("0")
            .doc("Accepted: has no effect on Linux."),
        Directive::number("server_names_hash_bucket_size", |c: &mut Conf| &mut c.server_names_hash_bucket_size)
            .within(HTTP)
            .doc("Accepted, nothing to tune: tables grow as they need."),
        Directive::number("server_names_hash_max_size", |c: &mut Conf| &mut c.server_names_hash_max_size)
            .within(HTTP)
            .default("512")
            .doc("Accepted, nothing to tune: tables grow as they need."),
        Directive::number("variables_hash_bucket_size", |c: &mut Conf| &mut c.variables_hash_bucket_size)
            .within(HTTP)
            .default("64")
            .doc("Accepted, nothing to tune: variables are numbers when requests run."),
        Directive::number("variables_hash_max_size", |c: &mut Conf| &mut c.variables_hash_max_size)
            .within(HTTP)
            .default("1024")
            .doc("Accepted, nothing to tune: variables are numbers when requests run."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; connection_pool_size, msie_padding, msie_refresh, request_pool_size, send_lowat,
            server_names_hash_bucket_size, server_names_hash_max_size,
            variables_hash_bucket_size, variables_hash_max_size);
    },
    ..Module::named("accepted")
};
