//! `stub_status`: how many connections and requests there are.
//!
//! Follows nginx's `ngx_http_stub_status_module`.

use std::{
    io::Write,
    sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
};

use tidegate_core::{
    module::{Context, Directive, Module},
    phase::{Ready, Step},
    variable::VariableDef,
    worker,
};
use tidegate_http::Method;
use tidegate_net::counters::{COUNTERS, Counters};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// What the location shows, if it does.
    stub_status: Option<Shown>,
}

/// What a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// The numbers that nginx has.
    Connections,
    /// Those, and behind them what clients make of TLS and HTTP/2.
    Everything,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::custom("stub_status", 0, 1, |conf: &mut Conf, directive, _| {
        let is_full = directive.args.first().is_some_and(|word| word.value == "full");
        let shown = if is_full { Shown::Everything } else { Shown::Connections };
        conf.stub_status = Some(shown);
        Ok(())
    })
    .within(Context::SERVER.or(Context::LOCATION))
    .syntax("[word]")
    .doc("The location answers with the numbers of connections and requests; after `full` of handshakes and HTTP/2 as well.")],
    variables: &[
        VariableDef::new("connections_active", |_, _, out| put(out, Now::read().active), "Connections open."),
        VariableDef::new("connections_reading", |_, _, out| put(out, Now::read().reading), "Heads being read."),
        VariableDef::new("connections_writing", |_, _, out| put(out, Now::read().writing), "Requests being answered."),
        VariableDef::new("connections_waiting", |_, _, out| put(out, Now::read().waiting), "Connections without work."),
        VariableDef::new("ssl_handshakes", |_, _, out| put(out, load(&COUNTERS.handshakes)), "TLS handshakes done."),
        VariableDef::new(
            "ssl_handshakes_resumed",
            |_, _, out| put(out, load(&COUNTERS.handshakes_resumed)),
            "Those that took up an earlier session.",
        ),
        VariableDef::new(
            "ssl_handshakes_failed",
            |_, _, out| put(out, COUNTERS.handshakes_failed.total()),
            "TLS handshakes that came to nothing.",
        ),
        VariableDef::new(
            "ssl_handshakes_timed_out",
            |_, _, out| put(out, COUNTERS.handshakes_timed_out.total()),
            "TLS handshakes that took too long.",
        ),
        VariableDef::new(
            "http2_faults",
            |_, _, out| put(out, COUNTERS.http2_faults.total()),
            "HTTP/2 connections that ended since the client broke the rules.",
        ),
        VariableDef::new(
            "http2_floods",
            |_, _, out| put(out, COUNTERS.http2_floods.total()),
            "HTTP/2 connections that ended since the client sent too much that brings nothing, or took back too many requests.",
        ),
        VariableDef::new(
            "http2_resets",
            |_, _, out| put(out, load(&COUNTERS.http2_resets)),
            "HTTP/2 requests that clients took back, or made the server reset by breaking the rules.",
        ),
        VariableDef::new(
            "http2_refused",
            |_, _, out| put(out, load(&COUNTERS.http2_refused)),
            "HTTP/2 requests beyond `http2_max_concurrent_streams`.",
        ),
    ],
    inherit: |child, parent, kind| {
        let inherited = parent.stub_status.filter(|_| kind.is_unnamed());
        child.stub_status = child.stub_status.or(inherited);
    },
    install: |conf, program| {
        if let Some(shown) = conf.stub_status {
            program.content(move |req| {
                if !matches!(req.method.get(), Method::Get | Method::Head) {
                    return Ready::Now(Step::Status(405));
                }
                req.response.borrow_mut().content_type = b"text/plain".to_vec();
                req.send_complete(200, page(shown).into()).map(|sent| match sent {
                    Ok(()) => Step::Ok,
                    Err(_) => Step::Close,
                })
            });
        }
    },
    example: "
        location = /status { stub_status; }
    ",
    ..Module::named("stub_status")
};

/// What connections do at the moment.
struct Now {
    active: u64,
    reading: u64,
    writing: u64,
    waiting: u64,
}

impl Now {
    fn read() -> Now {
        if let Some(worker) = worker::current() {
            worker.publish_counters();
        }
        let active = COUNTERS.active.load(Relaxed);
        // The counters are not read at one instant: none may come out below zero.
        let count = |counter: &AtomicI64| u64::try_from(counter.load(Relaxed)).unwrap_or(0);
        let reading = count(&COUNTERS.reading).min(active);
        let waiting = count(&COUNTERS.waiting).min(active - reading);
        Now { active, reading, writing: active - reading - waiting, waiting }
    }
}

fn put(out: &mut Vec<u8>, number: u64) -> bool {
    write!(out, "{number}").is_ok()
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

fn page(shown: Shown) -> Vec<u8> {
    let Now { active, reading, writing, waiting } = Now::read();
    // As in nginx, a space ends each line of numbers.
    let accepted = COUNTERS.accepted.load(Relaxed);
    let requests = COUNTERS.requests.load(Relaxed);
    let mut text = format!(
        "Active connections: {active} \nserver accepts handled requests\n {accepted} {accepted} {requests} \n\
         Reading: {reading} Writing: {writing} Waiting: {waiting} \n"
    );
    if shown == Shown::Everything {
        let Counters { handshakes, handshakes_resumed, handshakes_failed, handshakes_timed_out, .. } = &COUNTERS;
        let Counters { http2_faults, http2_floods, http2_resets, http2_refused, .. } = &COUNTERS;
        text += &format!(
            "TLS handshakes: {} resumed {} failed {} timed out {} \n\
             HTTP/2: faults {} floods {} resets {} refused {} \n",
            load(handshakes),
            load(handshakes_resumed),
            handshakes_failed.total(),
            handshakes_timed_out.total(),
            http2_faults.total(),
            http2_floods.total(),
            load(http2_resets),
            load(http2_refused),
        );
    }
    text.into_bytes()
}
