//! `mirror`: sends copies of requests elsewhere, and ignores what comes back.
//!
//! The copies are sub-requests in the background: the answer to the client does not wait for them.
//!
//! Follows nginx's `ngx_http_mirror_module`.

use std::{cell::Cell, rc::Rc, sync::Arc};

use bstr::BString;
use tidegate_conf::Diagnostic;
use tidegate_core::{
    inherit,
    module::{Directive, Module},
    phase::{Outcome, Phase, Ready, Step},
    request::Request,
    subrequest::{Options, Subrequest},
    worker,
};
use tidegate_net::log::Level;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// Empty for `off`.
    mirror: Option<Vec<BString>>,
    mirror_request_body: Option<bool>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("mirror", 1, 1, |conf: &mut Conf, directive, _| {
            let uri = &directive.args[0].value;
            let uris = conf.mirror.get_or_insert_default();
            match (uri == "off", uris.is_empty()) {
                (true, false) => return Err(Diagnostic::duplicate(directive.name(), directive.name.span)),
                (true, true) => {}
                (false, _) => uris.push(uri.clone()),
            }
            Ok(())
        })
        .syntax("uri | off")
        .default("off")
        .doc("Sends a copy of each request to this path in the background."),
        Directive::flag("mirror_request_body", |c: &mut Conf| &mut c.mirror_request_body)
            .default("on")
            .doc("Copies have the request's body, which is then read before anything else is done."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; mirror, mirror_request_body);
    },
    install: |conf, program| {
        if conf.mirror.as_ref().is_some_and(|uris| !uris.is_empty()) {
            let conf = conf.clone();
            program.on(Phase::Precontent, move |req| conf.run(req));
        }
    },
    example: "
        location / {
            mirror /mirror;
            proxy_pass http://127.0.0.1:8081;
        }
        location = /mirror {
            internal;
            proxy_pass http://127.0.0.1:8082$request_uri;
        }
    ",
    ..Module::named("mirror")
};

/// Copies that may be under way in one worker. The answers to clients do not wait for copies, so only this keeps a slow
/// server that gets them from holding ever more requests and bodies in memory.
const UNDER_WAY_MAX: u32 = 1024;

thread_local! {
    static UNDER_WAY: Cell<u32> = const { Cell::new(0) };
}

/// A copy under way; dropping it is its end.
struct UnderWay;

impl UnderWay {
    fn begin() -> Option<UnderWay> {
        UNDER_WAY.with(|count| {
            (count.get() < UNDER_WAY_MAX).then(|| {
                count.set(count.get() + 1);
                UnderWay
            })
        })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.with(|count| count.set(count.get() - 1));
    }
}

/// Copies are made once for a request, whatever locations it is sent to.
#[derive(Default)]
struct Mirrored(Cell<bool>);

impl Conf {
    fn run(self: &Arc<Self>, req: &Rc<Request>) -> Outcome {
        if req.is_subrequest() || req.context::<Mirrored>().0.replace(true) {
            return Ready::Now(Step::Declined);
        }
        if self.mirror_request_body == Some(false) {
            self.send(req);
            return Ready::Now(Step::Declined);
        }
        let conf = self.clone();
        let mirrored = req.clone();
        req.read_body().map(move |read| match read {
            Ok(()) => {
                conf.send(&mirrored);
                Step::Declined
            }
            Err(error) => error.step(),
        })
    }

    fn send(&self, req: &Rc<Request>) {
        for uri in self.mirror.iter().flatten() {
            let Some(under_way) = UnderWay::begin() else {
                let message = format_args!("{UNDER_WAY_MAX} copies are under way: \"{uri}\" gets none of this request");
                req.log(Level::Error, message);
                return;
            };
            let args = req.uri.borrow().args.clone();
            let options = Options { method: Some(req.method.get()), discard: true, ..Options::default() };
            let sub = match Subrequest::new(req, uri, &args, options) {
                Ok(sub) => sub,
                Err(error) => {
                    req.log(Level::Error, format_args!("{error} \"{uri}\""));
                    continue;
                }
            };
            if self.mirror_request_body != Some(false) {
                sub.req.body.share(&req.body);
            }
            sub.detach();
            // A worker that is to end waits for the copies.
            let hold = worker::current().map(|worker| worker.hold());
            tokio::task::spawn_local(async move {
                sub.run().await;
                drop((hold, under_way));
            });
        }
    }
}
