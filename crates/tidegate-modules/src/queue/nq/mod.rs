//! `queue_api nq`: the HTTP API of nq, whose clients need not be changed.
//!
//! ```text
//! POST post   {"sender": …, "messages": {QUEUE: [MESSAGE, …], …}}             {QUEUE: [ID, …], …}
//! POST pull   {"receiver": …, "timeout": …, "queues": {QUEUE: {…}, …},        {"messages": {QUEUE: [{"id": …}, …], …}}
//!              "results": {QUEUE: {ID: RESULT, …}, …}}
//! ```
//!
//! A queue is two tables of a schema, as nq has them: `QUEUE_msg` with all messages that there ever were, `QUEUE_rst` with what
//! each receiver has got of them and what it has answered ([`tables`]). A receiver goes through the messages in their order; its
//! place is its last row in `QUEUE_rst`, so that receivers cost nothing while they are away.
//!
//! Receivers of one name share the messages. All that want something of a queue stand in its [`line`](mod@line), whichever workers they are
//! connected to: one task serves them in their order, many in one [`round`] with one commit, and hears of commits to `QUEUE_msg`
//! ([`tidegate_sql::Listening`]), whoever has written the message.
//!
//! A message is answered when the disk has it; that its receiver has got it follows with the next sync
//! ([`tidegate_sql::Session::run_requests_early`]). A power cut in between has it come again, as one that was not answered in time. What
//! publishers and receivers store, messages and results, is on the disk before they hear of it.

mod by_queue;
mod json;
mod line;
mod newest;
mod receiver;
mod round;
mod sender;
mod tables;

use std::{rc::Rc, sync::Arc, time::Duration};

use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    phase::{Outcome, Ready, Step},
    request::Request,
};
use tidegate_http::Method;
use tidegate_net::log::Level;
use tidegate_rows::QueryError;

use super::{Conf, MODULE, answer::send};

/// How long a receiver waits that does not say.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a receiver may take for a message before it comes again, if it does not say.
const FAIL_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a message comes again, if the receiver does not say.
const RETRY_NUM: u64 = 2;
/// What clients are told of any failure of the database; the log says more.
const DATABASE_ERROR: &str = "mysql error";

/// What `queue_api nq` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    /// The schema with the tables.
    pub(super) schema: String,
    timeout: Duration,
    fail_timeout: Duration,
    retry_num: u64,
}

impl Options {
    /// The arguments behind `nq`.
    pub(super) fn parse(directive: &ast::Directive) -> Result<Arc<Self>, Diagnostic> {
        let mut options =
            Options { schema: "nq".to_owned(), timeout: TIMEOUT, fail_timeout: FAIL_TIMEOUT, retry_num: RETRY_NUM };
        for arg in directive.args.iter().skip(1) {
            let text = String::from_utf8_lossy(&arg.value);
            let time = |value: &str| values::time(value.into()).ok();
            let is_good = match text.split_once('=') {
                Some(("schema", value)) if !value.is_empty() => {
                    value.clone_into(&mut options.schema);
                    value != super::tables::SCHEMA
                }
                Some(("timeout", value)) => time(value).map(|time| options.timeout = time).is_some(),
                Some(("fail_timeout", value)) => time(value).map(|time| options.fail_timeout = time).is_some(),
                Some(("retry_num", value)) => value.parse().map(|number| options.retry_num = number).is_ok(),
                _ => false,
            };
            if !is_good {
                return Err(Diagnostic::new(Severity::Emerg, arg.span, format!("invalid parameter \"{text}\"")));
            }
        }
        Ok(Arc::new(options))
    }
}

/// Why a request is not carried out.
#[derive(Debug)]
enum Failure {
    /// The client has asked for what there cannot be.
    Bad(String),
    /// The database has refused; this was carried out before.
    Database { error: QueryError, done: Vec<u8> },
    /// There is no database.
    Unavailable(String),
    /// The connection is to be closed, or another page answers.
    Step(Step),
}

impl Failure {
    fn bad(message: impl Into<String>) -> Self {
        Failure::Bad(message.into())
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Failure::Database { error, done: Vec::new() }
    }
}

/// Answers a request, of whose path the first bytes are the location's.
pub(super) fn handle(req: &Rc<Request>, skip: usize, options: &Arc<Options>) -> Outcome {
    let (req, options) = (req.clone(), options.clone());
    Ready::later(async move {
        match answer(&req, skip, &options).await {
            Ok(step) | Err(Failure::Step(step)) => step,
            Err(Failure::Bad(message)) => {
                let mut body = Vec::new();
                json::put_string(&mut body, message.as_bytes());
                send(&req, 400, body).await
            }
            Err(Failure::Unavailable(reason)) => {
                req.log(Level::Error, format_args!("queue: {reason}"));
                send(&req, 500, json::error(Vec::new(), DATABASE_ERROR)).await
            }
            Err(Failure::Database { error, done }) => {
                req.log(Level::Error, format_args!("queue: {error}"));
                send(&req, 500, json::error(done, DATABASE_ERROR)).await
            }
        }
    })
}

async fn answer(req: &Rc<Request>, skip: usize, options: &Options) -> Result<Step, Failure> {
    let path = req.uri.borrow().path.get(skip..).unwrap_or_default().to_vec();
    if req.method.get() != Method::Post {
        return Ok(Step::Status(501));
    }
    if !matches!(path.as_slice(), b"post" | b"pull") {
        return Ok(Step::Status(400));
    }
    let data = body(req).await?;
    let conf: &Conf = req.module_conf(&MODULE);
    if path == b"post" {
        let answer = sender::post(req, options, &data, conf.message_bytes_max()).await?;
        return Ok(send(req, 200, answer).await);
    }
    let Some(answer) = receiver::pull(req, options, &data, conf.wait_max()).await? else {
        req.response.borrow_mut().content_type.clear();
        return Ok(Step::Status(204));
    };
    Ok(send(req, 200, answer).await)
}

/// The body of the request, which `client_max_body_size` limits.
async fn body(req: &Rc<Request>) -> Result<serde_json::Value, Failure> {
    req.read_body().wait().await.map_err(|error| Failure::Step(error.step()))?;
    let read = req.body.read_piece(0, usize::MAX).wait().await;
    let body = read.map_err(|error| {
        req.log(Level::Error, format_args!("queue: the body cannot be read: {error}"));
        Failure::Step(Step::Status(500))
    })?;
    serde_json::from_slice(&body).map_err(|error| Failure::bad(error.to_string()))
}

/// Checks the name of a queue, of which names of tables are made.
fn check_queue(name: &str) -> Result<(), Failure> {
    /// What the engine allows for a table's name, without `_msg`.
    const BYTES_MAX: usize = 60;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':');
    if name.is_empty() || name.len() > BYTES_MAX || !name.bytes().all(is_allowed) {
        let message = "a queue's name has 1 to 60 letters, digits and characters of \".\", \"_\", \"-\", \":\"";
        return Err(Failure::bad(message));
    }
    Ok(())
}

/// Checks of how many queues a request is.
fn check_number(queues: usize) -> Result<(), Failure> {
    /// A queue is two tables, and a line with a task while somebody waits.
    const QUEUES_MAX: usize = 1000;
    if queues > QUEUES_MAX {
        return Err(Failure::bad(format!("a request is of up to {QUEUES_MAX} queues")));
    }
    Ok(())
}

/// Checks the name of a sender or receiver.
fn check_person(what: &str, name: &str) -> Result<(), Failure> {
    /// What the tables have room for.
    const LETTERS_MAX: usize = 200;
    if name.is_empty() || name.chars().count() > LETTERS_MAX {
        return Err(Failure::bad(format!("the name of a {what} has 1 to {LETTERS_MAX} letters")));
    }
    Ok(())
}
