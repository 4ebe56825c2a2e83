//! Wire protocols of the web: pure functions and state machines over byte slices.
//!
//! What lives here: the grammar of HTTP/1 in both directions, of the frames and header blocks of HTTP/2, of FastCGI, memcached, Redis, HandlerSocket and beanstalkd, and of server-side includes. What this crate does not know: configuration, sockets,
//! time, buffers of its own. A caller hands over bytes and gets positions, values and errors; memory that a connection
//! can reuse ([`Fields`], [`RequestHead`]) is the caller's.
//!
//! Where nginx has a documented or well-known behaviour, it is followed (1.22 to 1.27), down to the messages.
//!
//! Reading order: [`known`] (field names as numbers), [`fields`] (the list), [`method`], [`request`] (heads of
//! requests), [`uri`], [`args`], [`host`] and [`escape`] (what a target means), [`cookie`], [`basic_auth`] and [`user_agent`], [`chunked`]
//! and [`body`] (where a body ends), [`conditional`] and [`range`] (what of an answer is wanted), [`status`],
//! [`response`], [`error_page`] and [`date`] (what is answered), [`response_head`] (what an upstream answered);
//! [`http2`] and [`hpack`] (frames with all that in them); [`fastcgi`] (records around it); [`memcached`], [`resp`] and [`sized_value`] (stores of values), [`handlersocket`] (rows of tables), [`beanstalk`] (jobs); [`ssi`] (commands in pages); [`proxy_protocol`] (what a balancer says ahead of all this).
//!
//! What must hold for any input stands in `tests/invariants`; the fuzz target `http1` and a test drive it.
#![forbid(unsafe_code)]

pub mod args;
pub mod bad_request;
pub mod basic_auth;
pub mod beanstalk;
pub mod body;
pub mod chunked;
pub mod conditional;
pub mod cookie;
pub mod date;
pub mod error_page;
pub mod escape;
pub mod fastcgi;
mod field_line;
pub mod fields;
pub mod handlersocket;
pub mod host;
pub mod hpack;
pub mod http2;
pub mod known;
pub mod memcached;
pub mod memcached_server;
pub mod method;
pub mod proxy_protocol;
pub mod range;
pub mod request;
mod request_line;
pub mod resp;
pub mod response;
pub mod response_head;
pub mod sized_value;
pub mod ssi;
pub mod status;
pub mod uri;
pub mod user_agent;

pub use bad_request::BadRequest;
pub use body::{BodyDecoder, BodyLength};
pub use chunked::{BodyPart, ChunkedDecoder};
pub use fields::Fields;
pub use known::Known;
pub use method::Method;
pub use request::{HeadLimits, HeadOptions, Parsed, RequestHead, parse_request};
pub use response::{ConnectionField, ResponseParts};
pub use response_head::{BadResponse, ResponseHead, parse_cgi_response, parse_gateway_response, parse_response};
pub use sized_value::SizedValue;
pub use status::reason;
