//! `http2`: the directives.
//!
//! Source: nginx, `ngx_http_v2_module`.

use tidegate_conf::{Diagnostic, ast};

use crate::{
    conf::{Build, Level},
    inherit,
    module::{Context, Directive, Module},
    request::Request,
    variable::VariableDef,
};

const MAIN_SERVER: Context = Context::HTTP.or(Context::SERVER);

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    http2: Option<bool>,
    body_preread_size: Option<usize>,
    chunk_size: Option<usize>,
    max_concurrent_streams: Option<u64>,
    recv_buffer_size: Option<usize>,
}

/// A directive that was replaced by one for all protocols.
const fn obsolete(name: &'static str, instead: &'static str) -> Directive<Conf> {
    Directive::custom(name, 1, 1, warn_of_obsolete).within(Context::ALL_IF).syntax("value").doc(instead)
}

fn warn_of_obsolete(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let name = directive.name();
    build.diagnostics.warn(directive.name.span, format!("the \"{name}\" directive is obsolete, ignored"));
    Ok(())
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::flag("http2", |c: &mut Conf| &mut c.http2)
            .within(MAIN_SERVER)
            .default("off")
            .doc("Speaks HTTP/2 with clients that want to: over TLS by ALPN, in clear text with those that begin so."),
        Directive::size("http2_body_preread_size", |c: &mut Conf| &mut c.body_preread_size)
            .within(MAIN_SERVER)
            .default("64k")
            .doc("Bytes of a request body that a client may send before somebody reads them."),
        Directive::size("http2_chunk_size", |c: &mut Conf| &mut c.chunk_size)
            .default("8k")
            .doc("Largest piece of a response that goes out at a time, so that other responses have their turn."),
        Directive::number("http2_max_concurrent_streams", |c: &mut Conf| &mut c.max_concurrent_streams)
            .within(MAIN_SERVER)
            .default("128")
            .doc("Most requests that a connection may have under way."),
        Directive::size("http2_recv_buffer_size", |c: &mut Conf| &mut c.recv_buffer_size)
            .within(Context::HTTP)
            .default("256k")
            .doc("Accepted, nothing to tune: a connection's buffer grows as its frames need."),
        obsolete("http2_idle_timeout", "Ignored: \"keepalive_timeout\" says it."),
        obsolete("http2_max_field_size", "Ignored: \"large_client_header_buffers\" says it."),
        obsolete("http2_max_header_size", "Ignored: \"large_client_header_buffers\" says it."),
        obsolete("http2_max_requests", "Ignored: \"keepalive_requests\" says it."),
        obsolete("http2_max_concurrent_pushes", "Ignored: nothing is pushed."),
        obsolete("http2_push", "Ignored: nothing is pushed."),
        obsolete("http2_push_preload", "Ignored: nothing is pushed."),
        obsolete("http2_recv_timeout", "Ignored: \"client_header_timeout\" says it."),
    ],
    variables: &[VariableDef::new("http2", http2, "h2 over TLS, h2c in clear text, empty without HTTP/2.")],
    inherit: |child, parent, _| {
        inherit!(child, parent; http2, body_preread_size, chunk_size, max_concurrent_streams, recv_buffer_size);
    },
    example: "
        server {
            listen 8080;
            http2 on;
        }
    ",
    ..Module::named("http2")
};

impl Conf {
    /// The window of each stream, in bytes.
    pub(crate) fn body_preread_bytes(&self) -> i64 {
        self.body_preread_size.map_or(64 << 10, |bytes| bytes.min(i32::MAX as usize) as i64)
    }
    pub(crate) fn chunk_bytes(&self) -> usize {
        self.chunk_size.unwrap_or(8 << 10).max(1)
    }
    pub(crate) fn streams_max(&self) -> usize {
        usize::try_from(self.max_concurrent_streams.unwrap_or(128)).unwrap_or(usize::MAX)
    }
}

/// Whether the server whose level this is speaks HTTP/2 at all of its addresses. It also does at those that are said to
/// ([`Listen::http2`](crate::conf::Listen::http2)).
pub(crate) fn is_on(level: &Level) -> bool {
    level.core.http2.http2 == Some(true)
}

fn http2(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    if req.client.http2_stream().is_some() {
        out.extend_from_slice(if req.is_secure() { b"h2" } else { b"h2c" });
    }
    true
}
