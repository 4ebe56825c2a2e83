//! The API: which request means what.
//!
//! ```text
//! GET                       queues that have messages                    ?after= &max=
//! POST   NAME               the body is a message                        ?priority= &delay= &ttl= &unique= &result= &wait=
//! POST   NAME/batch         the body is a list of messages, in JSON
//! POST   NAME/pull          messages for a consumer                      ?max= &wait= &lease=
//! GET    NAME/stream        messages as they come, as Server-Sent Events ?prefetch= &lease=
//! POST   NAME/ack           messages are done; the body is a result     ?receipt= …
//! POST   NAME/refuse        messages have failed; the body says why      ?receipt= … &delay=
//! POST   NAME/extend        the consumer needs more time                 ?receipt= … &lease=
//! GET    NAME               statistics
//! PATCH  NAME               settings                                     ?attempts_max= &paused= &subscribers_only=
//! DELETE NAME               all messages that wait are deleted
//! GET    NAME/dead          messages that have failed too often          ?max=
//! POST   NAME/dead/resend   they wait again                              ?id= …
//! DELETE NAME/dead          they are deleted                             ?id= …
//! GET    NAME/results/ID    what has become of a message                 ?wait=
//! GET    NAME/subscriptions who gets all messages
//! POST   NAME/subscriptions somebody does from now on                    ?name=
//! DELETE NAME/subscriptions and no more                                  ?name=
//! GET    NAME/schedules     what is published by itself, and when
//! POST   NAME/schedules     the body is a message of a schedule          ?name= &cron= &zone= &priority= &ttl=
//! DELETE NAME/schedules     it is one no more                            ?name=
//! ```

use std::rc::Rc;

use bytes::Bytes;
use tidegate_core::{
    phase::{Outcome, Ready, Step},
    request::Request,
};
use tidegate_http::{Method, args, escape::unescape_form};
use tidegate_queue::{Receipt, Settling};

use super::{
    Conf, MODULE, admin,
    answer::{Refused, send, write_list, write_published},
    message::{NewMessage, check_name, headers_of, millis, time_ms},
    pull, results, schedules,
    settle::REASON_BYTES_MAX,
    store::Store,
    stream,
    subscriptions::check_pulled_name,
};

/// Messages that one request may publish, and receipts that one may settle.
const TOGETHER_MAX: usize = 1000;

/// Why there is no answer of the API.
pub(super) enum Failure {
    /// The client is told.
    Refused(Refused),
    /// The server answers, or nobody.
    Step(Step),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Refused(refused)
    }
}

/// What a request asks for.
pub(super) struct Call {
    pub(super) req: Rc<Request>,
    pub(super) store: Rc<Store>,
    pub(super) queue: String,
    pub(super) params: Vec<(String, String)>,
}

/// Answers a request, of whose path the first bytes are the location's.
pub(super) fn handle(req: &Rc<Request>, skip: usize) -> Outcome {
    let req = req.clone();
    Ready::later(async move {
        match answer(&req, skip).await {
            Ok(step) => step,
            Err(Failure::Step(step)) => step,
            Err(Failure::Refused(refused)) => send(&req, refused.status, refused.json()).await,
        }
    })
}

async fn answer(req: &Rc<Request>, skip: usize) -> Result<Step, Failure> {
    let path = req.uri.borrow().path.get(skip..).unwrap_or_default().to_vec();
    let path = String::from_utf8(path).map_err(|_| Refused::bad("the path is not UTF-8"))?;
    let (queue, action) = path.split_once('/').unwrap_or((&path, ""));
    let is_list = path.is_empty() && matches!(req.method.get(), Method::Get | Method::Head);
    if !is_list {
        check_pulled_name(queue)?;
    }
    let params = params(req)?;
    let store = Store::of(req.conf()).map_err(|error| Refused::of_store(req, &error))?;
    if is_list {
        return admin::list(Call { req: req.clone(), store, queue: String::new(), params }).await;
    }
    if !store.is_pullable(queue).await.map_err(|error| Refused::of_store(req, &error))? {
        return Err(Refused::with(404, format!("there is no subscription {queue:?}")).into());
    }
    let call = Call { req: req.clone(), store, queue: queue.to_owned(), params };
    if matches!((req.method.get(), action), (Method::Post, "" | "batch") | (_, "subscriptions" | "schedules")) {
        // Messages come into a subscription from its queue alone, and it has no subscribers of its own.
        check_name(queue)?;
    }
    if let Some(id) = action.strip_prefix("results/") {
        return results::get(call, id).await;
    }
    match (req.method.get(), action) {
        (Method::Post, "") => publish(call).await,
        (Method::Post, "batch") => publish_batch(call).await,
        (Method::Post, "pull") => pull::pull(call).await,
        (Method::Get | Method::Head, "stream") => stream::stream(call).await,
        (Method::Post, "ack") => acknowledge(call).await,
        (Method::Post, "refuse") => refuse(call).await,
        (Method::Post, "extend") => extend(call).await,
        (Method::Get | Method::Head, "") => admin::statistics(call).await,
        (Method::Patch, "") => admin::change_settings(call).await,
        (Method::Delete, "") => admin::purge(call).await,
        (Method::Get | Method::Head, "dead") => admin::dead(call).await,
        (Method::Post, "dead/resend") => admin::resend(call).await,
        (Method::Delete, "dead") => admin::purge_dead(call).await,
        (Method::Get | Method::Head, "subscriptions") => admin::subscriptions(call).await,
        (Method::Post, "subscriptions") => admin::subscribe(call).await,
        (Method::Delete, "subscriptions") => admin::unsubscribe(call).await,
        (Method::Get | Method::Head, "schedules") => schedules::list(call).await,
        (Method::Post, "schedules") => schedules::set(call).await,
        (Method::Delete, "schedules") => schedules::remove(call).await,
        (
            _,
            "schedules" | "subscriptions" | "" | "batch" | "pull" | "stream" | "ack" | "refuse" | "extend" | "dead"
            | "dead/resend",
        ) => Err(Refused::with(405, "another method is needed").into()),
        _ => Err(Refused::with(404, format!("a queue has no {action:?}")).into()),
    }
}

/// The arguments of the request, decoded.
fn params(req: &Request) -> Result<Vec<(String, String)>, Refused> {
    let decode = |text: &[u8]| {
        let mut out = Vec::with_capacity(text.len());
        unescape_form(text, &mut out);
        String::from_utf8(out).map_err(|_| Refused::bad("the arguments are not UTF-8"))
    };
    let uri = req.uri.borrow();
    args::iter(&uri.args).map(|(name, value)| Ok((decode(name)?, decode(value.unwrap_or_default())?))).collect()
}

impl Call {
    pub(super) fn conf(&self) -> &Conf {
        self.req.module_conf(&MODULE)
    }

    /// Calls `take` with each parameter.
    ///
    /// # Errors
    /// Those of `take`; it knows no such parameter and answers `false`.
    pub(super) fn each_param(&self, mut take: impl FnMut(&str, &str) -> Result<bool, Refused>) -> Result<(), Refused> {
        for (name, value) in &self.params {
            if !take(name, value)? {
                return Err(Refused::bad(format!("unknown parameter {name:?}")));
            }
        }
        Ok(())
    }

    /// The body of the request, which may have so many bytes.
    pub(super) async fn body(&self, bytes_max: usize) -> Result<Bytes, Failure> {
        self.req.read_body().wait().await.map_err(|error| Failure::Step(error.step()))?;
        if self.req.body.len() > bytes_max as u64 {
            return Err(Refused::with(413, format!("the body has more than {bytes_max} bytes")).into());
        }
        let read = self.req.body.read_piece(0, bytes_max).wait().await;
        read.map_err(|error| {
            self.req.log(tidegate_net::log::Level::Error, format_args!("queue: the body cannot be read: {error}"));
            Failure::Step(Step::Status(500))
        })
    }

    fn refused(&self, error: &super::store::StoreError) -> Refused {
        Refused::of_store(&self.req, error)
    }
}

/// A whole number up to a maximum.
pub(super) fn count(name: &str, value: &str, max: usize) -> Result<usize, Refused> {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_digit());
    let count = value.parse().ok().filter(|count| is_plain && (1..=max).contains(count));
    count.ok_or_else(|| Refused::bad(format!("{name:?} is no number from 1 to {max}: {value:?}")))
}

async fn publish(call: Call) -> Result<Step, Failure> {
    let mut message = NewMessage::new(Bytes::new());
    let wait_ms = results::take_params(&call, &mut message)?;
    message.headers = headers_of(&call.req.head.borrow().fields)?;
    message.body = call.body(call.conf().message_bytes_max()).await?;
    let published = call.store.publish(&call.queue, vec![message]).await.map_err(|error| call.refused(&error))?;
    if let (Some(wait_ms), Some(published)) = (wait_ms, published.first()) {
        return results::answer(call, published.number(), wait_ms).await;
    }
    let mut out = Vec::new();
    published.into_iter().for_each(|published| write_published(published, &mut out));
    out.push(b'\n');
    Ok(send(&call.req, 200, out).await)
}

async fn publish_batch(call: Call) -> Result<Step, Failure> {
    call.each_param(|_, _| Ok(false))?;
    let bytes_max = call.conf().message_bytes_max();
    // `client_max_body_size` limits the whole.
    let body = call.body(usize::MAX).await?;
    let list: Vec<serde_json::Value> =
        serde_json::from_slice(&body).map_err(|error| Refused::bad(format!("the body is no list of JSON: {error}")))?;
    if list.is_empty() || list.len() > TOGETHER_MAX {
        return Err(Refused::bad(format!("a batch has 1 to {TOGETHER_MAX} messages")).into());
    }
    let messages = list.iter().map(NewMessage::of_json).collect::<Result<Vec<_>, _>>()?;
    if messages.iter().any(|message| message.body.len() > bytes_max) {
        return Err(Refused::with(413, format!("a message has more than {bytes_max} bytes")).into());
    }
    let published = call.store.publish(&call.queue, messages).await.map_err(|error| call.refused(&error))?;
    let mut out = b"{\"messages\":".to_vec();
    write_list(published, &mut out, write_published);
    out.extend_from_slice(b"}\n");
    Ok(send(&call.req, 200, out).await)
}

/// Receipts, of which the broker knows some.
struct Receipts {
    given: Vec<Receipt>,
    /// Those whose time is over, or that were settled.
    over: Vec<Receipt>,
}

impl Receipts {
    fn take(&mut self, name: &str, value: &str) -> Result<bool, Refused> {
        if name != "receipt" {
            return Ok(false);
        }
        let receipt = value.parse().map_err(|_| Refused::bad(format!("this is no receipt: {value:?}")))?;
        self.given.push(receipt);
        if self.given.len() > TOGETHER_MAX {
            return Err(Refused::bad(format!("there are more than {TOGETHER_MAX} receipts")));
        }
        Ok(true)
    }

    fn check(&self) -> Result<(), Refused> {
        if self.given.is_empty() { Err(Refused::bad("\"receipt\" is missing")) } else { Ok(()) }
    }

    fn settle(&mut self, call: &Call) -> Vec<Settling> {
        let mut settling = Vec::new();
        for receipt in &self.given {
            match call.store.broker().settle(&call.queue, *receipt) {
                Some(one) => settling.push(one),
                None => self.over.push(*receipt),
            }
        }
        settling
    }

    /// 200 if all of them were good, 410 otherwise.
    async fn send(self, call: &Call) -> Step {
        let mut out = format!("{{\"settled\":{}", self.given.len() - self.over.len()).into_bytes();
        if !self.over.is_empty() {
            out.extend_from_slice(b",\"over\":");
            write_list(&self.over, &mut out, |receipt, out| out.extend_from_slice(format!("\"{receipt}\"").as_bytes()));
        }
        out.extend_from_slice(b"}\n");
        send(&call.req, if self.over.is_empty() { 200 } else { 410 }, out).await
    }
}

async fn acknowledge(call: Call) -> Result<Step, Failure> {
    let mut receipts = Receipts { given: Vec::new(), over: Vec::new() };
    call.each_param(|name, value| receipts.take(name, value))?;
    receipts.check()?;
    let result = call.body(call.conf().message_bytes_max()).await?;
    if !result.is_empty() && receipts.given.len() > 1 {
        return Err(Refused::bad("a result belongs to one receipt").into());
    }
    let settling = receipts.settle(&call);
    if !settling.is_empty() {
        call.store.acknowledge_with(settling, &result).await.map_err(|error| call.refused(&error))?;
    }
    Ok(receipts.send(&call).await)
}

async fn refuse(call: Call) -> Result<Step, Failure> {
    let mut receipts = Receipts { given: Vec::new(), over: Vec::new() };
    let mut delay_ms = 0;
    call.each_param(|name, value| {
        if name == "delay" {
            delay_ms = time_ms(name, value)?;
            return Ok(true);
        }
        receipts.take(name, value)
    })?;
    receipts.check()?;
    let reason = call.body(REASON_BYTES_MAX).await?;
    let reason = std::str::from_utf8(&reason).map_err(|_| Refused::bad("the reason is not UTF-8"))?;
    let settling = receipts.settle(&call);
    if !settling.is_empty() {
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        let failing = call.store.fail(&call.queue, settling, delay_ms, reason).await;
        failing.map_err(|error| call.refused(&error))?;
    }
    Ok(receipts.send(&call).await)
}

async fn extend(call: Call) -> Result<Step, Failure> {
    let mut receipts = Receipts { given: Vec::new(), over: Vec::new() };
    let mut lease = None;
    call.each_param(|name, value| {
        if name == "lease" {
            lease = Some(time_ms(name, value)?);
            return Ok(true);
        }
        receipts.take(name, value)
    })?;
    receipts.check()?;
    let lease_ms = lease.unwrap_or_else(|| millis(call.conf().lease()));
    let broker = call.store.broker();
    receipts.over = receipts.given.iter().copied().filter(|one| !broker.extend(&call.queue, *one, lease_ms)).collect();
    Ok(receipts.send(&call).await)
}
