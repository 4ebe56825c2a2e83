//! How a request begins, once its head has been read, and how it is taken apart.

use std::rc::Rc;

use bstr::ByteSlice;
use tidegate_http::{BadRequest, Method, RequestHead};

use crate::{log::Level, phase::LateLog, request::Request, worker};

/// A request that nobody else has yet.
pub(crate) fn unshared(req: &mut Rc<Request>) -> &mut Request {
    Rc::get_mut(req).expect("nobody else has the request yet")
}

/// Makes a request of the head that was read into it: server, URI, body framing.
pub(crate) fn begin(req: &mut Rc<Request>) -> Result<(), BadRequest> {
    let request = unshared(req);
    request.count();
    request.client.begin_request();
    let head: &mut RequestHead = request.head.get_mut();
    request.method.set(head.method);
    let uri = request.uri.get_mut();
    uri.path.extend_from_slice(head.path());
    uri.args.extend_from_slice(head.args());
    uri.unparsed.extend_from_slice(head.target());
    request.body.begin(head.content_length, head.chunked);
    let keep_alive = head.keep_alive;
    request.choose_server();
    request.flags().keep_alive.set(keep_alive);
    if request.method.get() == Method::Trace {
        return Err(BadRequest::Trace);
    }
    Ok(())
}

/// Makes a request of a head that was not complete, for its response and the log.
pub(crate) fn begin_unfinished(req: &mut Rc<Request>) {
    // Its end is decided already.
    let _ = begin(req);
    let uri = unshared(req).uri.get_mut();
    if uri.path.is_empty() {
        // Of a target that makes no sense nothing is known but its text.
        uri.args.clear();
    }
}

/// `ignore_invalid_headers`: says what was dropped.
pub(crate) fn note_ignored_lines(req: &Request) {
    for line in req.head.borrow().ignored_lines() {
        let line = line.as_bstr();
        req.log(
            Level::Info,
            format_args!("client sent invalid header line: \"{line}\" while reading client request headers"),
        );
    }
}

/// Gives the memory of a request that is over to those that come.
pub(crate) fn recycle(req: Rc<Request>) {
    // While it is whole: what is dropped may look at the request.
    req.forget_contexts();
    worker::give_request(req);
}

/// Ends what a request keeps, unless log handlers still run: then the request is left to them, and `true`.
pub(crate) fn leave(req: &Rc<Request>) -> bool {
    let is_left = req.find_lasting_context::<LateLog>().is_some_and(|late_log| late_log.take_over());
    if !is_left {
        req.end_lasting_contexts();
    }
    is_left
}

impl Request {
    /// Chooses the server by the name that the client gave.
    pub(crate) fn choose_server(&self) {
        let listen = &self.conf().listens[self.connection().port];
        if listen.one_server {
            return;
        }
        let head = self.head.borrow();
        let found = listen.names.find(head.host());
        let (server, captures) = found.unwrap_or((listen.default, None));
        self.set_server(server);
        if let Some((regex, captures)) = captures {
            self.set_named_captures(regex, head.host(), &captures);
            self.set_captures(head.host(), captures);
        }
    }
}
