//! Looks for a response before the location's handler makes it.

use std::{rc::Rc, sync::Arc, time::Duration};

use tidegate_core::{
    output::{Chunk, Progress},
    phase::{Outcome, Ready, Step},
    request::Request,
    subrequest::Subrequest,
};
use tidegate_http::Method;
use tidegate_net::log::Level;
use tokio::time::Instant;

use super::{
    Conf, Fetched, HEADER_BYTES_MAX, State, Versions,
    control::Wish,
    entry::Entry,
    lock::{self, Lock},
    memory, skips,
    target::{Place, Query, Target},
};
use crate::sql_versions::Tables;

/// How often a request looks again because another one says that it has kept the response. Of a response that others push out
/// of the store at once it has its own made.
const LOOK_UPS_MAX: u32 = 3;

/// The default of `srcache_lock_timeout`.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

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
    let Some(target) = conf.srcache_fetch.as_ref().filter(|_| !wish.no_cache) else {
        return Ready::Now(Step::Declined);
    };
    if skips(&conf.srcache_fetch_skip, req) {
        return Ready::Now(Step::Declined);
    }
    // What is in memory takes no wait.
    if let Some(Place::Zone(zone, key)) = target.place(conf, req)
        && let Some(entry) = memory::find(&zone, &key).filter(|entry| entry.is_fresh())
    {
        req.context::<State>().fetched.set(Fetched::Hit);
        return answer(req, &entry);
    }
    let (conf, req, target) = (conf.clone(), req.clone(), target.clone());
    Ready::later(async move {
        match look_up(&conf, &req, &target).await {
            Err(step) => step,
            Ok((fetched, entry)) => {
                req.context::<State>().fetched.set(fetched);
                match entry {
                    Some(entry) => answer(&req, &entry).wait().await,
                    None => Step::Declined,
                }
            }
        }
    })
}

/// Notes what tables hold before anything is made of them. A request that comes to another location notes it again: what was made so
/// far is not its response.
pub(super) fn note_versions(tables: &Tables, req: &Rc<Request>) -> Outcome {
    if !req.is_subrequest() {
        let mut versions = Vec::new();
        let are_known = tables.append_to_key(req, &mut versions);
        *req.context::<Versions>().0.borrow_mut() = are_known.then_some(versions);
    }
    Ready::Now(Step::Declined)
}

/// Looks for the response, or waits for the request that has it made.
async fn look_up(conf: &Conf, req: &Rc<Request>, target: &Target) -> Result<(Fetched, Option<Arc<Entry>>), Step> {
    // What HEAD has made is not kept.
    let locks = conf.locks() && req.method.get() != Method::Head;
    let deadline = Instant::now() + conf.srcache_lock_timeout.unwrap_or(LOCK_TIMEOUT);
    let mut look_ups = 0;
    while look_ups < LOOK_UPS_MAX {
        look_ups += 1;
        let fills = lock::fills();
        let found = ask(conf, req, target).await?;
        if found.as_ref().is_some_and(|entry| entry.is_fresh()) {
            return Ok((Fetched::Hit, found));
        }
        let missed = if found.is_some() { Fetched::Expired } else { Fetched::Miss };
        if !locks {
            return Ok((missed, None));
        }
        match lock::take(&target.lock_key(conf, req)) {
            // Another request was quicker.
            Lock::Held(_) if lock::fills() != fills => {}
            Lock::Held(filling) => {
                *req.context::<State>().filling.borrow_mut() = Some(filling);
                return Ok((missed, None));
            }
            Lock::Busy(_) if found.is_some() => return Ok((Fetched::Stale, found)),
            Lock::Busy(_) if conf.srcache_lock != Some(true) => return Ok((missed, None)),
            Lock::Busy(waiting) => match waiting.wait(deadline).await {
                lock::Outcome::Kept => {}
                // Only so many can have ended like that as have had the lock before.
                lock::Outcome::Abandoned => look_ups -= 1,
                lock::Outcome::Refused | lock::Outcome::UnderWay => return Ok((missed, None)),
            },
        }
    }
    Ok((Fetched::Miss, None))
}

/// The response that is kept, if there is one: fresh, or not so long behind its end that nobody gets it.
async fn ask(conf: &Conf, req: &Rc<Request>, target: &Target) -> Result<Option<Arc<Entry>>, Step> {
    match target.place(conf, req) {
        None => Ok(None),
        Some(Place::Zone(zone, key)) => Ok(memory::find(&zone, &key)),
        Some(Place::Subrequest(query)) => {
            let sub = ask_location(&query, req).await.ok_or(Step::Status(500))?;
            let found = found(&sub, conf);
            sub.recycle();
            Ok(found.filter(|entry| entry.is_fresh() || conf.stale_seconds() > 0).map(Arc::new))
        }
    }
}

async fn ask_location(query: &Query, req: &Rc<Request>) -> Option<Subrequest> {
    let sub = query.subrequest(req, None)?;
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
fn answer(req: &Rc<Request>, entry: &Entry) -> Outcome {
    entry.restore(&mut req.response.borrow_mut());
    let sent = req.send(Chunk::bytes(entry.body.clone()).and_last());
    sent.map(|sent| if sent.is_ok() { Step::Done } else { Step::Close })
}
