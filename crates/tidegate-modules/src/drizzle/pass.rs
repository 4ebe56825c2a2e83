//! `drizzle_pass`: the content handler.
//!
//! A client that leaves before its rows have come ends the statement, on the server too, unless the statement writes:
//! then it runs to its end, as it would if the client had not left a moment too early.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::Poll,
};

use bstr::ByteSlice;
use tidegate_core::{
    phase::{Outcome, Ready, Step},
    request::Request,
};
use tidegate_mysql::pool::is_node_out;
use tidegate_net::log::Level;
use tidegate_rows::QueryError;

use super::{
    Conf, MODULE, Running,
    backend::{Backend, Event, Run},
    cache::{self, Depends, Found, Place, Rule, Status},
    coalesce,
    params::Statements,
    query::{NoQuery, location_of},
    sink::ResponseSink,
};
use crate::row_format::{Results, RowFormat};

/// nginx's status for a client that closed its connection.
const CLIENT_GONE: u16 = 499;

/// The field of `drizzle_module_header`.
const MODULE_HEADER: &[u8] = b"X-Resty-DBD-Module";

/// Answers a request with the rows of its statement. HEAD gets the head of what GET would get, as upstream's module does it.
pub(super) fn pass(req: &Rc<Request>, conf: &Arc<Conf>) -> Outcome {
    let query = match conf.drizzle_query.as_ref().map_or(Err(NoQuery::Missing), |queries| queries.of(req)) {
        Ok(query) => query,
        Err(NoQuery::Method) => return Ready::Now(Step::Status(405)),
        Err(NoQuery::Missing) => {
            let location = location_of(req);
            req.log(Level::Error, format_args!("drizzle: missing \"drizzle_query\" in location \"{location}\""));
            return Ready::Now(Step::Status(500));
        }
    };
    let Some(backend) = backend_of(req, conf) else {
        return Ready::Now(Step::Status(500));
    };
    let statements = match Statements::of(req, conf, query) {
        Ok(statements) => Rc::new(statements),
        Err(message) => {
            req.log(Level::Error, format_args!("{message}"));
            return Ready::Now(Step::Status(500));
        }
    };
    if let Some(Rule::Zone(_)) = &conf.drizzle_cache
        && let Some(outcome) = from_cache(req, conf, &backend, &statements)
    {
        return outcome;
    }
    let (req, conf) = (req.clone(), conf.clone());
    if conf.drizzle_coalesce == Some(true) && statements.traits.may_be_shared {
        return Ready::later(
            async move { unless_client_goes(&req, coalesce::run(&req, &conf, backend, statements)).await },
        );
    }
    Ready::later(async move {
        let format = prepare_response(&req, &conf, &statements);
        let running = run(&req, &conf, &backend, &statements, format, None);
        if statements.traits.only_reads { unless_client_goes(&req, running).await } else { running.await }
    })
}

/// Answers from the zone of `drizzle_cache`, or runs the statement and keeps its answer there; `None` if neither is to be.
fn from_cache(
    req: &Rc<Request>,
    conf: &Arc<Conf>,
    backend: &Arc<Backend>,
    statements: &Rc<Statements>,
) -> Option<Outcome> {
    let format = prepare_response(req, conf, statements);
    if conf.purges(req) {
        let purged = cache::purge(req, conf, backend, statements, &format);
        return Some(Ready::Now(Step::Status(if purged { 204 } else { 404 })));
    }
    let place = match cache::find(req, conf, backend, statements, &format) {
        Found::Bypass => {
            cache::note(req, Status::Bypass);
            return None;
        }
        Found::Hit(answer) => {
            cache::note(req, Status::Hit);
            return Some(answer.send(req));
        }
        Found::Miss(place) => place,
    };
    cache::note(req, Status::Miss);
    let (req, conf, backend, statements) = (req.clone(), conf.clone(), backend.clone(), statements.clone());
    Some(Ready::later(async move {
        let running = run(&req, &conf, &backend, &statements, format, Some(place));
        if statements.traits.only_reads { unless_client_goes(&req, running).await } else { running.await }
    }))
}

/// The upstream that `drizzle_pass` names.
fn backend_of(req: &Request, conf: &Conf) -> Option<Arc<Backend>> {
    let pass = conf.drizzle_pass.as_ref()?;
    let config = req.conf();
    let find = |name: &[u8]| config.find_upstream(name);
    let level = match pass.as_literal() {
        Some(name) => *conf.upstream.get_or_init(|| find(name)),
        None => find(&pass.eval(req)),
    };
    let Some(level) = level else {
        let name = pass.eval(req);
        if name.is_empty() {
            req.log(Level::Error, format_args!("drizzle: handler: empty \"drizzle_pass\" target"));
        } else {
            req.log(Level::Error, format_args!("drizzle: upstream \"{}\" not found", name.as_bstr()));
        }
        return None;
    };
    let level = &config.levels[level.0 as usize];
    let upstream = level.conf(&MODULE);
    if upstream.servers.is_empty() {
        req.log(Level::Error, format_args!("drizzle: no drizzle_server defined in upstream \"{}\"", level.name));
        return None;
    }
    Some(upstream.backend(level).clone())
}

/// Runs what waits for the database until it is done or the client has gone.
async fn unless_client_goes(req: &Rc<Request>, run: impl Future<Output = Step>) -> Step {
    // Only one can watch the client's socket, and the main request's end is that of its sub-requests.
    if req.is_subrequest() {
        return run.await;
    }
    let mut run = pin!(run);
    let mut gone = pin!(req.client.closed());
    poll_fn(|cx| match run.as_mut().poll(cx) {
        Poll::Ready(step) => Poll::Ready(step),
        Poll::Pending => gone.as_mut().poll(cx).map(|()| client_gone(req)),
    })
    .await
}

#[cold]
fn client_gone(req: &Rc<Request>) -> Step {
    req.log(Level::Info, format_args!("client prematurely closed connection, so upstream connection is closed too"));
    if !req.header_sent() {
        req.response.borrow_mut().status = CLIENT_GONE;
    }
    Step::Close
}

/// Runs a statement and sends its rows; keeps them in their `place`, if there is one.
async fn run(
    req: &Rc<Request>,
    conf: &Conf,
    backend: &Backend,
    statements: &Statements,
    format: RowFormat,
    place: Option<Place>,
) -> Step {
    let mut sink = ResponseSink::new(req.clone(), format);
    if let Some(place) = &place {
        sink.keep(place.bytes_max());
    }
    let depends = Depends::default();
    let running = req.context::<Running>();
    let notice = |event: Event<'_>| match event {
        Event::Began(id) => running.thread_id.set(id),
        Event::PassedOver(error) => req.log(Level::Error, format_args!("drizzle: {error}, trying the next server")),
        Event::Depends(freshness) => depends.set(Some(freshness)),
    };
    let asked = Run { watches: place.is_some(), ..statements.run(conf) };
    let result = backend.execute(req.conf(), conf, asked, &mut sink, notice).await;
    if let (Ok(()), Some(place)) = (&result, place) {
        cache::note(req, place.keep(req, &mut sink, depends.take()));
    }
    match result {
        Ok(()) => match sink.finish().await {
            Ok(()) => Step::Ok,
            Err(_) => Step::Close,
        },
        Err(error) => failed(req, &error, sink.is_untouched()),
    }
}

/// Ends a request whose statement failed; nothing has been sent if it is `untouched`.
#[cold]
pub(super) fn failed(req: &Rc<Request>, error: &QueryError, untouched: bool) -> Step {
    report(req, error);
    if !untouched {
        return Step::Close;
    }
    req.response.borrow_mut().fields.remove_name(MODULE_HEADER);
    Step::Status(status_of(error))
}

/// Sets type and fields of the response; the head goes out with the first rows.
pub(super) fn prepare_response(req: &Rc<Request>, conf: &Conf, statements: &Statements) -> RowFormat {
    let results = if statements.traits.has_several_results { Results::Several } else { Results::One };
    let (format, content_type) = RowFormat::of(req, results);
    let mut response = req.response.borrow_mut();
    response.status = 200;
    response.content_type.clear();
    response.content_type.extend_from_slice(content_type);
    if conf.drizzle_module_header != Some(false) {
        response.fields.set(MODULE_HEADER, b"ngx_drizzle 0.1.11");
    }
    format
}

/// ER_NO_SUCH_TABLE.
const NO_SUCH_TABLE: u16 = 1146;

/// The status for an error, as drizzle-nginx-module documents it.
fn status_of(error: &QueryError) -> u16 {
    match error {
        QueryError::Server(error) if error.code == NO_SUCH_TABLE => 410,
        QueryError::Server(error) if is_node_out(error) => 502,
        QueryError::Server(_) => 500,
        QueryError::PoolBusy { .. } => 503,
        QueryError::Timeout { .. } => 504,
        QueryError::Connect { .. } | QueryError::Lost { .. } | QueryError::Protocol { .. } => 502,
        QueryError::SinkClosed(_) => CLIENT_GONE,
    }
}

#[cold]
fn report(req: &Rc<Request>, error: &QueryError) {
    let level = match error {
        QueryError::SinkClosed(_) => Level::Info,
        QueryError::Server(error) if error.code == NO_SUCH_TABLE => Level::Notice,
        _ => Level::Error,
    };
    req.log(level, format_args!("drizzle: {error}"));
}
