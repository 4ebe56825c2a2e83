//! Looks for a response before the location's handler makes it.

use std::{rc::Rc, sync::Arc};

use tidegate_core::{
    output::{Chunk, Progress},
    phase::{Outcome, Ready, Step},
    request::Request,
    subrequest::Subrequest,
};
use tidegate_net::log::Level;

use super::{Conf, Fetched, HEADER_BYTES_MAX, State, control::Wish, entry::Entry, skips, target::Target};

/// The handler: decides whether the response may be kept, and looks for one that was.
pub(super) fn run(conf: &Arc<Conf>, req: &Rc<Request>) -> Outcome {
    if req.is_subrequest() || !conf.has_method(req.method.get()) {
        return Ready::Now(Step::Declined);
    }
    let heeds_request = conf.srcache_request_cache_control == Some(true);
    let wish = if heeds_request { Wish::of(&req.head.borrow().fields) } else { Wish::default() };
    if !wish.no_store {
        // Without a state nothing is kept.
        req.context::<State>();
    }
    let Some(target) = conf.srcache_fetch.clone().filter(|_| !wish.no_cache) else {
        return Ready::Now(Step::Declined);
    };
    if skips(&conf.srcache_fetch_skip, req) {
        return Ready::Now(Step::Declined);
    }
    let (conf, req) = (conf.clone(), req.clone());
    Ready::later(async move {
        let Some(sub) = ask(&target, &req).await else { return Step::Status(500) };
        let state = req.context::<State>();
        state.fetched.set(Fetched::Miss);
        let Some(entry) = found(&sub, &conf) else { return Step::Declined };
        sub.recycle();
        state.fetched.set(Fetched::Hit);
        answer(&req, entry).await
    })
}

async fn ask(target: &Target, req: &Rc<Request>) -> Option<Subrequest> {
    let sub = target.subrequest(req, None)?;
    sub.run().await;
    Some(sub)
}

/// The entry that a sub-request has found, if it has.
fn found(sub: &Subrequest, conf: &Conf) -> Option<Entry> {
    let (status, progress) = {
        let response = sub.req.response.borrow();
        (response.status, response.progress)
    };
    if status != 200 {
        return None;
    }
    let entry = if progress == Progress::Ended { sub.take_body().ok() } else { None };
    let line_bytes_max = conf.srcache_header_buffer_size.unwrap_or(HEADER_BYTES_MAX);
    let parsed = match entry {
        Some(entry) => Entry::parse(entry, line_bytes_max),
        None => Err("cache sent truncated response body"),
    };
    parsed.inspect_err(|error| sub.req.log(Level::Error, format_args!("srcache_fetch: {error}"))).ok()
}

/// Sends what was kept.
async fn answer(req: &Rc<Request>, entry: Entry) -> Step {
    entry.restore(&mut req.response.borrow_mut());
    match req.send(Chunk::bytes(entry.body).and_last()).wait().await {
        Ok(()) => Step::Done,
        Err(_) => Step::Close,
    }
}
