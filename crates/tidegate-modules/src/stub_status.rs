//! `stub_status`: how many connections and requests there are.
//!
//! Follows nginx's `ngx_http_stub_status_module`.

use std::{
    io::Write,
    sync::atomic::{AtomicI64, Ordering::Relaxed},
};

use tidegate_core::{
    module::{Context, Directive, Module},
    phase::{Ready, Step},
    variable::VariableDef,
    worker,
};
use tidegate_http::Method;
use tidegate_net::counters::COUNTERS;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    stub_status: bool,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::custom("stub_status", 0, 1, |conf: &mut Conf, _, _| {
        conf.stub_status = true;
        Ok(())
    })
    .within(Context::SERVER.or(Context::LOCATION))
    .syntax("[word]")
    .doc("The location answers with the numbers of connections and requests.")],
    variables: &[
        VariableDef::new("connections_active", |_, _, out| put(out, Now::read().active), "Connections open."),
        VariableDef::new("connections_reading", |_, _, out| put(out, Now::read().reading), "Heads being read."),
        VariableDef::new("connections_writing", |_, _, out| put(out, Now::read().writing), "Requests being answered."),
        VariableDef::new("connections_waiting", |_, _, out| put(out, Now::read().waiting), "Connections without work."),
    ],
    inherit: |child, parent, kind| child.stub_status |= parent.stub_status && kind.is_unnamed(),
    install: |conf, program| {
        if conf.stub_status {
            program.content(|req| {
                if !matches!(req.method.get(), Method::Get | Method::Head) {
                    return Ready::Now(Step::Status(405));
                }
                req.response.borrow_mut().content_type = b"text/plain".to_vec();
                req.send_complete(200, page().into()).map(|sent| match sent {
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

fn page() -> Vec<u8> {
    let Now { active, reading, writing, waiting } = Now::read();
    // As in nginx, a space ends each line of numbers.
    let accepted = COUNTERS.accepted.load(Relaxed);
    let requests = COUNTERS.requests.load(Relaxed);
    let text = format!(
        "Active connections: {active} \nserver accepts handled requests\n {accepted} {accepted} {requests} \n\
         Reading: {reading} Writing: {writing} Waiting: {waiting} \n"
    );
    text.into_bytes()
}
