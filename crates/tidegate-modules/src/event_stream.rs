//! What responses that are streams of Server-Sent Events have in common.
//!
//! Source: HTML Living Standard, section 9.2, Server-sent events.

use std::time::Duration;

use tidegate_core::request::Request;
use tidegate_http::Known;

/// A comment goes out after so long without an event: proxies take a connection without traffic for dead, and a worker that is to
/// end lets its clients go then.
pub(crate) const PING: Duration = Duration::from_secs(15);

/// Makes the response's head that of a stream of events.
pub(crate) fn begin(req: &Request) {
    let mut response = req.response.borrow_mut();
    response.status = 200;
    response.content_type.clear();
    response.content_type.extend_from_slice(b"text/event-stream");
    response.fields.set_known(Known::CacheControl, b"no-cache");
}
