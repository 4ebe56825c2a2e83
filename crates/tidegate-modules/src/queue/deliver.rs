//! `queue_deliver`: a location is run for each message of a queue.
//!
//! ```text
//! POST /hooks/mail HTTP/1.1
//! Host: example.com                  the server's first name
//! Content-Length: 8
//! Content-Type: text/plain           the message's own header "content-type"; application/octet-stream without it
//! Queue-Name: mail
//! Queue-Message: 7
//! Queue-Attempts: 0                  how often it has failed before
//! Queue-Published: 1780903800000
//! Queue-Header-lang: en              its other headers
//!
//! Dear Ann
//! ```
//!
//! A worker lines up like any consumer, for one message at a time, whenever one of the places is free that all workers share. 2xx
//! acknowledges; its body is the message's result, if one is wanted. Everything else is a failure: the message waits twice as long
//! each time.

use std::{
    collections::HashMap,
    io::Write,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::{Build, Config, ServerId},
    own_request::{self, Answer},
};
use tidegate_net::{
    log::{self, Level},
    worker::{self, Worker},
};
use tidegate_queue::Lease;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    Conf, MODULE,
    message::{Message, millis},
    pull::{self, WAIT_MS},
    store::{Store, StoreError},
    subscriptions::check_pulled_name,
    tables,
};
use crate::database;

/// Locations that run at a time, where nothing is said.
const CONCURRENCY: usize = 1;
/// More than that no process runs at a time.
const CONCURRENCY_MAX: usize = 10_000;
/// How long a message waits that has failed for the first time, where nothing is said.
const BACKOFF: Duration = Duration::from_secs(1);
/// The longest wait, where nothing is said.
const BACKOFF_MAX: Duration = Duration::from_secs(600);
/// After a failure of the store.
const PAUSE: Duration = Duration::from_secs(1);
/// What the lease has left when the time of a location is over: for saying so.
const LEASE_LEFT: Duration = Duration::from_secs(30);

/// What a directive says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delivery {
    queue: String,
    /// Path and arguments, as a client would write them.
    target: String,
    concurrency: usize,
    backoff: Duration,
    backoff_max: Duration,
}

/// `queue_deliver QUEUE URI [concurrency=NUMBER] [backoff=TIME] [backoff_max=TIME]`
pub(super) fn queue_deliver(
    conf: &mut Conf,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    let delivery = Delivery::parse(directive)?;
    if conf.deliveries.iter().any(|known| known.queue == delivery.queue && known.target == delivery.target) {
        let message = format!("duplicate delivery of \"{}\" to \"{}\"", delivery.queue, delivery.target);
        return Err(Diagnostic::new(Severity::Emerg, directive.name.span, message)
            .with_hint("\"concurrency=\" says how many messages are delivered at a time"));
    }
    conf.deliveries.push(Arc::new(delivery));
    let level = build.http_level().unwrap_or(build.level());
    let upstreams = build.conf_mut(&database::BLOCK, level).upstreams.get_or_insert_default();
    upstreams.push(tables::SCHEMA.to_owned());
    Ok(())
}

impl Delivery {
    fn parse(directive: &ast::Directive) -> Result<Self, Diagnostic> {
        let refused = |arg: &ast::Arg, message: String| Diagnostic::new(Severity::Emerg, arg.span, message);
        let [queue, target, parameters @ ..] = &directive.args[..] else {
            return Err(Diagnostic::new(Severity::Emerg, directive.name.span, "a queue and a location are needed"));
        };
        let text = |arg: &ast::Arg| String::from_utf8_lossy(&arg.value).into_owned();
        let mut delivery = Delivery {
            queue: text(queue),
            target: text(target),
            concurrency: CONCURRENCY,
            backoff: BACKOFF,
            backoff_max: BACKOFF_MAX,
        };
        check_pulled_name(&delivery.queue).map_err(|error| refused(queue, error.message))?;
        let is_plain = delivery.target.bytes().all(|byte| (0x21..0x7f).contains(&byte));
        if !delivery.target.starts_with('/') || !is_plain {
            return Err(refused(target, format!("this is no path of a location: \"{}\"", delivery.target))
                .with_hint("write it as a client would: \"/hooks/mail\""));
        }
        for arg in parameters {
            let text = text(arg);
            let time = |value: &str| values::time(value.into()).ok().filter(|time| !time.is_zero());
            let is_good = match text.split_once('=') {
                Some(("concurrency", value)) => {
                    let count = value.parse().ok().filter(|count| (1..=CONCURRENCY_MAX).contains(count));
                    count.map(|count| delivery.concurrency = count).is_some()
                }
                Some(("backoff", value)) => time(value).map(|time| delivery.backoff = time).is_some(),
                Some(("backoff_max", value)) => time(value).map(|time| delivery.backoff_max = time).is_some(),
                _ => false,
            };
            if !is_good {
                return Err(refused(arg, format!("invalid parameter \"{text}\""))
                    .with_hint("there are \"concurrency=1\", \"backoff=1s\" and \"backoff_max=10m\""));
            }
        }
        Ok(delivery)
    }

    /// How long a message waits that has failed so often before: twice as long each time, and not all of them together. `chance` is
    /// from 0 to 1.
    fn delay(&self, attempts: u64, chance: f64) -> Duration {
        let doubled = self.backoff.saturating_mul(1 << attempts.min(20));
        doubled.min(self.backoff_max).mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }
}

/// The places of all workers of the process, those of former configurations included.
fn places(delivery: &Delivery, server: &str) -> Arc<Semaphore> {
    type Known = HashMap<(String, String, String, usize), Weak<Semaphore>>;
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known.retain(|_, places| places.strong_count() > 0);
    let slot = (delivery.queue.clone(), delivery.target.clone(), server.to_owned(), delivery.concurrency);
    if let Some(places) = known.get(&slot).and_then(Weak::upgrade) {
        return places;
    }
    let places = Arc::new(Semaphore::new(delivery.concurrency));
    known.insert(slot, Arc::downgrade(&places));
    places
}

/// Begins to deliver messages, as a worker starts.
///
/// # Errors
/// What the configuration of the database has wrong, as a sentence.
pub(super) fn start() -> Result<(), String> {
    let Some(config) = tidegate_core::worker::config() else { return Ok(()) };
    for (number, server) in (0..).zip(&config.servers) {
        let conf = config.levels[server.level.0 as usize].conf(&MODULE);
        for delivery in &conf.deliveries {
            database::start(&config)?;
            let courier = Courier {
                config: config.clone(),
                server: ServerId(number),
                host: host(&server.name),
                delivery: delivery.clone(),
                places: places(delivery, &server.name.to_string()),
                time_max: conf.lease(),
                result_max: conf.message_bytes_max(),
            };
            tokio::task::spawn_local(Rc::new(courier).run());
        }
    }
    Ok(())
}

/// The name that requests give their server.
fn host(name: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let known =
        std::str::from_utf8(name).ok().filter(|name| !name.is_empty() && name.bytes().all(|byte| is_plain(&byte)));
    known.unwrap_or("localhost").to_owned()
}

/// Who delivers the messages of a queue on a worker.
struct Courier {
    config: Arc<Config>,
    server: ServerId,
    host: String,
    delivery: Arc<Delivery>,
    places: Arc<Semaphore>,
    /// How long a location may take.
    time_max: Duration,
    /// The most bytes of a result.
    result_max: usize,
}

impl Courier {
    /// Delivers messages until the worker is to end, which waits for those that are under way.
    async fn run(self: Rc<Self>) {
        let Some(worker) = worker::current() else { return };
        let mut has_failed = false;
        loop {
            let next = tokio::select! {
                biased;
                () = worker.quitting() => return,
                next = self.next() => next,
            };
            match next {
                Ok((place, lease, message)) => {
                    has_failed = false;
                    let (courier, worker) = (self.clone(), worker.clone());
                    tokio::task::spawn_local(async move { courier.deliver(&worker, place, lease, message).await });
                }
                Err(reason) => {
                    // Once is enough: nobody has done anything about it yet.
                    if !std::mem::replace(&mut has_failed, true) {
                        let queue = &self.delivery.queue;
                        log::note(
                            Level::Error,
                            format_args!("queue: messages of \"{queue}\" are not delivered: {reason}"),
                        );
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Waits for a place, and then for a message.
    async fn next(&self) -> Result<(OwnedSemaphorePermit, Lease, Message), String> {
        let place = self.places.clone().acquire_owned().await.map_err(|error| error.to_string())?;
        let store = Store::of(&self.config).map_err(|error| error.to_string())?;
        let queue = &self.delivery.queue;
        let failed = |error: StoreError| {
            if let StoreError::Query(error) = &error {
                store.doubt(error);
            }
            error.to_string()
        };
        if !store.is_pullable(queue).await.map_err(failed)? {
            return Err("there is no such subscription".to_owned());
        }
        let mut line = store.broker().line_up(queue, 1, millis(self.time_max.saturating_add(LEASE_LEFT)));
        loop {
            let mut found = pull::wait(&store, queue, &mut line, WAIT_MS).await.map_err(failed)?;
            if let Some((lease, message)) = found.pop() {
                return Ok((place, lease, message));
            }
        }
    }

    async fn deliver(&self, worker: &Rc<Worker>, place: OwnedSemaphorePermit, lease: Lease, message: Message) {
        let hold = worker.hold();
        let head = self.head(&message);
        let request = own_request::request(self.server, &head, message.body.clone(), message.has_result);
        let outcome = match tokio::time::timeout(self.time_max, request).await {
            Ok(Ok(Answer { status: 200..300, body: Some(body) })) if body.len() > self.result_max => {
                Err(format!("the result is larger than queue_message_size_max ({} bytes)", self.result_max))
            }
            Ok(Ok(Answer { status: 200..300, body: Some(body) })) => Ok(body),
            Ok(Ok(Answer { body: None, .. })) => Err("the answer broke off".to_owned()),
            Ok(Ok(Answer { status, .. })) => Err(format!("status {status}")),
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err(format!("no answer within {} s", self.time_max.as_secs_f64())),
        };
        if let Err(error) = self.settle(&lease, &message, outcome).await {
            let (queue, id) = (&self.delivery.queue, message.id);
            log::note(Level::Error, format_args!("queue: message {id} of \"{queue}\" comes again: {error}"));
        }
        // After an error it is left alone for the rest of its time.
        lease.keep();
        drop((place, hold));
    }

    async fn settle(&self, lease: &Lease, message: &Message, outcome: Result<Bytes, String>) -> Result<(), StoreError> {
        let store = Store::of(&self.config)?;
        // It may have been deleted meanwhile, or its time to live be over.
        let Some(settling) = store.broker().settle(&self.delivery.queue, lease.receipt()) else { return Ok(()) };
        match outcome {
            Ok(result) => store.acknowledge_with(vec![settling], &result).await,
            Err(reason) => {
                let (queue, id) = (&self.delivery.queue, message.id);
                log::note(Level::Warn, format_args!("queue: message {id} of \"{queue}\" has failed: {reason}"));
                let mut chance = [0; 4];
                // Without chance they just come together.
                let _ = getrandom::fill(&mut chance);
                let chance = f64::from(u32::from_ne_bytes(chance)) / f64::from(u32::MAX);
                let delay = self.delivery.delay(message.attempts, chance);
                store.fail(queue, vec![settling], millis(delay), Some(&reason)).await
            }
        }
    }

    /// The head of the request for a message.
    fn head(&self, message: &Message) -> Vec<u8> {
        let Message { id, published_ms, attempts, headers, body, .. } = message;
        let (target, host, queue) = (&self.delivery.target, &self.host, &self.delivery.queue);
        let mut head = Vec::with_capacity(256);
        let _ = write!(head, "POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n", body.len());
        let _ = write!(head, "Queue-Name: {queue}\r\nQueue-Message: {id}\r\nQueue-Attempts: {attempts}\r\n");
        let _ = write!(head, "Queue-Published: {published_ms}\r\n");
        let headers: HashMap<String, serde_json::Value> =
            headers.as_ref().and_then(|headers| serde_json::from_slice(headers).ok()).unwrap_or_default();
        let mut has_type = false;
        for (name, value) in &headers {
            // What no field can be is left out: it might end the head.
            let Some(value) = value.as_str().filter(|value| is_field(name, value)) else { continue };
            if name.eq_ignore_ascii_case("content-type") {
                if !std::mem::replace(&mut has_type, true) {
                    let _ = write!(head, "Content-Type: {value}\r\n");
                }
            } else {
                let _ = write!(head, "Queue-Header-{name}: {value}\r\n");
            }
        }
        if !has_type {
            head.extend_from_slice(b"Content-Type: application/octet-stream\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

/// Whether a message's header can be a field of a head.
///
/// Source: RFC 9110, sections 5.1 and 5.5.
fn is_field(name: &str, value: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_text = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    !name.is_empty() && name.bytes().all(is_token) && value.bytes().all(is_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_wait_up_to_the_longest() {
        let delivery = Delivery {
            queue: "q".to_owned(),
            target: "/".to_owned(),
            concurrency: 1,
            backoff: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
        };
        let seconds = |attempts, chance| delivery.delay(attempts, chance).as_secs_f64();
        assert_eq!([0, 1, 2, 6, u64::MAX].map(|attempts| seconds(attempts, 1.0)), [1.0, 2.0, 4.0, 60.0, 60.0]);
        assert_eq!((seconds(3, 0.0), seconds(3, 0.5)), (4.0, 6.0));
    }

    #[test]
    fn what_could_end_a_head_is_no_field() {
        assert!(is_field("lang", "en") && is_field("X-A", "ü"));
        for (name, value) in [("", "a"), ("a b", "c"), ("a:", "b"), ("a", "b\r\nc: d"), ("a", "\0"), ("a\n", "b")] {
            assert!(!is_field(name, value), "{name:?} {value:?}");
        }
    }
}
