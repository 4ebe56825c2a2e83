//! HTTP/2 on a connection (RFC 9113).
//!
//! - `serve`: the connection's task: it reads frames, and writes what the streams have to say
//! - `input`: what each frame does; `flood`: when it is too much
//! - `open`: from a header block to a request that runs
//! - [`stream`]: the client of one request; `mux`: what the streams of a connection share
//! - `line`: whose turn it is; `priorities`: what clients say about that
//! - `tunnel`: another protocol on a stream
//! - `linger`: streams, and at last the connection, that end on our side before they end on the client's
//!
//! Requests whose handlers answer at once run within the connection's task; one that waits gets a task of its own. A
//! stream counts until its request has ended, whatever the client says meanwhile, so that a client cannot have more
//! requests under way than it may have streams.
//!
//! The directives are [`crate::http2_settings`]. What this does not know: what a request comes to. That is
//! [`crate::phase`].

mod flood;
mod input;
mod line;
mod linger;
mod mux;
mod open;
mod priorities;
mod serve;
mod stream;
mod tunnel;

pub(crate) use self::serve::{is_preface, serve, was_agreed};
pub use self::stream::Stream;
