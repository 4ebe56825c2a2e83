//! Requests that the server makes of itself, for no client.
//!
//! Such a request is a sub-request, for which no permission is needed and to which `internal` locations are open. Its main
//! request runs through no phases: it has the head, the variables and a connection that nobody is at the end of. So all that
//! handlers do for sub-requests works here, and nothing waits for a client or hears that one has left.

use std::rc::Rc;

use bytes::Bytes;
use tidegate_http::{HeadLimits, HeadOptions, Parsed, parse_request};

use crate::{
    client::Client,
    clock,
    conf::ServerId,
    connection::Connection,
    lifecycle::{leave, recycle, unshared},
    panics::catch_panic,
    request::Request,
    subrequest::{Options, Subrequest, VariableSharing},
    worker,
};

/// What became of a request.
#[derive(Debug)]
pub struct Answer {
    /// The status of the response; 0 where there is none.
    pub status: u16,
    /// The body, empty if nobody wants it; `None` if it broke off or is larger than `subrequest_capture_max`, and the log says so.
    pub body: Option<Bytes>,
}

/// The main request. However it ends, what it keeps ends with it.
struct Main(Rc<Request>);

impl Drop for Main {
    fn drop(&mut self) {
        if !leave(&self.0) {
            recycle(self.0.clone());
        }
    }
}

/// Makes a request of a server of this worker's configuration and answers what it answers. `head` is the text of the request's head,
/// as HTTP/1.1 has it. Its line stands in the access log. The answer's body is kept if `wants_body`, else thrown away as it comes. May be
/// dropped: the request ends then.
///
/// # Errors
/// The head is none, or there is no worker; as a sentence.
pub async fn request(server: ServerId, head: &[u8], body: Bytes, wants_body: bool) -> Result<Answer, String> {
    let worker = worker::current().ok_or("no worker")?;
    worker.count_request();
    let main = Main(main_request(server, head)?);
    let (path, args) = {
        let uri = main.0.uri.borrow();
        (uri.path.clone(), uri.args.clone())
    };
    let options = Options {
        method: Some(main.0.method.get()),
        body: Some(body.to_vec()),
        variables: VariableSharing::Fresh,
        capture: wants_body,
        discard: !wants_body,
        ..Options::default()
    };
    let sub = Subrequest::new(&main.0, &path, &args, options).map_err(|error| error.to_string())?;
    // Behind each wait time has passed.
    let mut running = sub.run();
    let timed = Box::pin(std::future::poll_fn(move |cx| {
        clock::update();
        running.as_mut().poll(cx)
    }));
    let is_whole = catch_panic(&sub.req, timed).await.is_some();
    main.0.wait_for_end_work().await;
    let status = sub.req.response.borrow().status;
    let body = if is_whole { sub.take_body().ok() } else { None };
    drop(sub);
    Ok(Answer { status, body })
}

fn main_request(server: ServerId, text: &[u8]) -> Result<Rc<Request>, String> {
    let config = worker::config().ok_or("no worker")?;
    let conn = Rc::new(Connection::nobody(config));
    let mut req = worker::take_request();
    let request = unshared(&mut req);
    request.attach(Client::http1(conn));
    request.start_ms.set(clock::steady_ms());
    let limits = HeadLimits { large_buffer_bytes: text.len(), fields_max: text.len(), ..HeadLimits::default() };
    let options = HeadOptions { underscores_in_headers: true, ..HeadOptions::default() };
    let head = request.head.get_mut();
    match parse_request(text, &limits, &options, head) {
        Ok(Parsed::Complete(_)) => {}
        Ok(Parsed::Partial) => return Err("the head is not whole".to_owned()),
        Err(error) => return Err(error.to_string()),
    }
    request.method.set(head.method);
    let uri = request.uri.get_mut();
    uri.path.extend_from_slice(head.path());
    uri.args.extend_from_slice(head.args());
    uri.unparsed.extend_from_slice(head.target());
    request.set_server(server);
    Ok(req)
}
