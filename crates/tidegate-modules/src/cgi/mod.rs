//! What FastCGI, SCGI and uwsgi have in common: programs that get parameters instead of a head.
//!
//! In reading order: [`params`] (`fastcgi_param` and its kin), [`plain`] (SCGI and uwsgi but for their heads).

pub(crate) mod params;
pub(crate) mod plain;

use std::rc::Rc;

use tidegate_core::{
    phase::{Ready, Step},
    request::Request,
    upstream::{Protocol, Settings},
};

use crate::pass::{self, Pass};

/// Fields of programs' responses that clients do not get.
pub(crate) const HIDDEN: &[&str] =
    &["Status", "X-Accel-Expires", "X-Accel-Redirect", "X-Accel-Limit-Rate", "X-Accel-Buffering", "X-Accel-Charset"];

/// Answers a request with what a program says. `takes_chunks` says that the protocol needs no length ahead of a body.
pub(crate) async fn run<P: Protocol>(
    req: &Rc<Request>,
    settings: &Settings,
    pass: &Pass,
    takes_chunks: bool,
    protocol: P,
) -> Step {
    let read = match settings.read_body(req, takes_chunks) {
        Ready::Now(read) => read,
        Ready::Later(reading) => reading.await,
    };
    if let Err(error) = read {
        return error.step();
    }
    pass::exchange(req, settings, pass, protocol).await
}
