//! Collects a response on its way to the client, and keeps it.

use std::rc::Rc;

use bstr::{BStr, BString};
use bytes::Bytes;
use tidegate_core::{
    output::{Buf, Chunk, Closed, Response},
    phase::Ready,
    request::Request,
};
use tidegate_http::{Known, Method};
use tidegate_net::{clock, log::Level};

use super::{
    Conf, STATUSES, State,
    control::{Ignored, expiry},
    entry::{self, Entry},
    lock::Filling,
    memory, skips,
    target::Place,
};

/// What has come of a response.
pub(super) struct Collected {
    head: Vec<u8>,
    body: Vec<Bytes>,
    body_bytes: u64,
    /// As the head had it.
    status: u16,
    /// As the head promised it.
    content_length: Option<u64>,
}

/// Decides with the head whether the response is to be kept.
pub(super) fn filter_header(req: &Rc<Request>, conf: &Conf, hidden: &[BString]) -> Ready<Result<(), Closed>> {
    let Some(state) = req.find_context::<State>().filter(|state| state.fetched.get().is_made()) else {
        return Ready::Now(Ok(()));
    };
    // One that was begun before, an error page for instance, is not the response.
    let collected = begin(req, conf, &state, hidden);
    state.stores.set(collected.is_some());
    if collected.is_none() {
        // Those who wait for it need not wait for its end. After an error one of them tries again.
        let is_error = status_of(&req.response.borrow()) >= 500;
        state.give_up(if is_error { Verdict::Nothing } else { Verdict::Refused });
    }
    *state.collected.borrow_mut() = collected;
    Ready::Now(Ok(()))
}

/// Begins to collect a response that is to be kept.
fn begin(req: &Rc<Request>, conf: &Conf, state: &State, hidden: &[BString]) -> Option<Collected> {
    let method = req.method.get();
    if method == Method::Head || !conf.has_method(method) {
        let name = method.name();
        req.log(Level::Debug, format_args!("srcache_store skipped due to request method {name}"));
        return None;
    }
    if is_skipped(req, conf) {
        return None;
    }
    let mut response = req.response.borrow_mut();
    if !is_wanted(req, conf, state, &response) {
        return None;
    }
    response.filter_need_in_memory = true;
    let fresh_until = conf.fresh_until(state.expires.get());
    let head = entry::write_head(&response, hidden, fresh_until);
    if too_large(conf, req, head.len() as u64, response.content_length.unwrap_or(0)) {
        return None;
    }
    Some(Collected {
        head,
        body: Vec::new(),
        body_bytes: 0,
        status: status_of(&response),
        content_length: response.content_length.filter(|_| !response.header_only),
    })
}

fn is_skipped(req: &Request, conf: &Conf) -> bool {
    let skips = skips(&conf.srcache_store_skip, req);
    if skips {
        let flag = conf.srcache_store_skip.as_ref().map(|flag| flag.eval(req)).unwrap_or_default();
        let flag = BStr::new(&flag);
        let message = format_args!("srcache_store skipped due to the true value in srcache_store_skip: \"{flag}\"");
        req.log(Level::Debug, message);
    }
    skips
}

fn status_of(response: &Response) -> u16 {
    if response.status == 0 { 200 } else { response.status }
}

fn is_wanted(req: &Rc<Request>, conf: &Conf, state: &State, response: &Response) -> bool {
    if conf.srcache_ignore_content_encoding != Some(true)
        && let Some(encoding) = response.fields.get(Known::ContentEncoding).filter(|value| !value.is_empty())
    {
        let encoding = BStr::new(encoding);
        let message = format_args!(
            "srcache_store skipped due to response header \"Content-Encoding: {encoding}\" (maybe you forgot to disable \
             compression on the backend?)"
        );
        req.log(Level::Warn, message);
        return false;
    }
    state.expires.set(None);
    if conf.srcache_response_cache_control != Some(false) {
        let ignored = Ignored {
            no_store: conf.srcache_store_no_store == Some(true),
            no_cache: conf.srcache_store_no_cache == Some(true),
            private: conf.srcache_store_private == Some(true),
        };
        match expiry(response, ignored, clock::now_unix()) {
            Ok(expires) => state.expires.set(expires),
            Err(_) => return false,
        }
    }
    let statuses = conf.srcache_store_statuses.as_deref().unwrap_or(&STATUSES);
    statuses.contains(&status_of(response))
}

fn too_large(conf: &Conf, req: &Request, head_bytes: u64, body_bytes: u64) -> bool {
    head_bytes.saturating_add(body_bytes) > conf.entry_bytes_max(req)
}

/// Collects a piece of the body; behind the last one all of it is kept.
pub(super) fn filter_body(req: &Rc<Request>, mut chunk: Chunk, conf: &Conf) -> Ready<Result<Chunk, Closed>> {
    let Some(state) = req.find_context::<State>().filter(|state| state.stores.get()) else {
        return Ready::Now(Ok(chunk));
    };
    if chunk.read_files().is_err() {
        return Ready::Now(Err(Closed));
    }
    let Some(mut collected) = state.collected.take() else { return Ready::Now(Ok(chunk)) };
    let verdict = if !collected.take(req, conf, &chunk) {
        Some(Verdict::Refused)
    } else if chunk.last && !collected.is_whole(req) {
        Some(Verdict::Nothing)
    } else if chunk.last && is_skipped(req, conf) {
        Some(Verdict::Refused)
    } else {
        None
    };
    match verdict {
        Some(verdict) => {
            state.stores.set(false);
            state.give_up(verdict);
        }
        None if chunk.last => store(req, conf, &state, collected),
        None => *state.collected.borrow_mut() = Some(collected),
    }
    Ready::Now(Ok(chunk))
}

/// Why a response is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is none that is kept.
    Refused,
    /// It is not the response that was wanted.
    Nothing,
}

impl State {
    /// Says to those who wait for the response that it is not kept.
    fn give_up(&self, verdict: Verdict) {
        match (self.filling.take(), verdict) {
            (Some(filling), Verdict::Refused) => filling.end_refused(),
            (filling, _) => drop(filling),
        }
    }
}

impl Collected {
    /// Adds a piece; answers whether the response is still to be kept.
    fn take(&mut self, req: &Request, conf: &Conf, chunk: &Chunk) -> bool {
        if self.status == 200 && req.response.borrow().status == 206 {
            // The client gets a part of it: this is known behind the head.
            if conf.srcache_store_ranges != Some(true) {
                return false;
            }
            self.status = 206;
            self.content_length = None;
            const PARTIAL: &[u8] = b"HTTP/1.1 206";
            self.head[..PARTIAL.len()].copy_from_slice(PARTIAL);
        }
        self.body_bytes += chunk.len();
        if too_large(conf, req, self.head.len() as u64, self.body_bytes) {
            return false;
        }
        let pieces = chunk.bufs.iter().filter_map(|buf| match buf {
            Buf::Bytes(bytes) => Some(bytes.clone()),
            Buf::File { .. } => None,
        });
        self.body.extend(pieces);
        true
    }

    /// Whether the response is as long as its head promised, and has come to its end.
    fn is_whole(&self, req: &Request) -> bool {
        let was_cut = req.upstream_record(|record| record.tries.last().is_some_and(|last| last.was_cut));
        if was_cut == Some(true) {
            return false;
        }
        match self.content_length {
            Some(promised) if promised > self.body_bytes => {
                let message = format_args!(
                    "srcache_store: skipped because response body truncated: {promised} > {}",
                    self.body_bytes
                );
                req.log(Level::Error, message);
                false
            }
            _ => true,
        }
    }

    fn into_entry(self) -> Vec<u8> {
        let mut entry = self.head;
        entry.reserve_exact(usize::try_from(self.body_bytes).unwrap_or(0));
        self.body.iter().for_each(|piece| entry.extend_from_slice(piece));
        entry
    }
}

/// Keeps a response. The client does not wait for that, the end of its request does.
fn store(req: &Rc<Request>, conf: &Conf, state: &State, collected: Collected) {
    let filling = state.filling.take();
    match conf.srcache_store.as_ref().and_then(|target| target.place(conf, req)) {
        None => {}
        Some(Place::Zone(zone, key)) => {
            let seconds = conf.expire_seconds(state.expires.get());
            let kept_seconds = if seconds == 0 { 0 } else { seconds.saturating_add(conf.stale_seconds()) };
            let kept = Entry::parse(collected.into_entry().into(), usize::MAX).and_then(|entry| {
                let fits = memory::keep(&zone, &key, entry, kept_seconds);
                if fits { Ok(()) } else { Err("the response is too large for its zone") }
            });
            match kept {
                Ok(()) => filling.into_iter().for_each(Filling::end_kept),
                Err(error) => {
                    filling.into_iter().for_each(Filling::end_refused);
                    req.log(Level::Error, format_args!("srcache_store: {error}"));
                }
            }
        }
        Some(Place::Subrequest(query)) => {
            let Some(sub) = query.subrequest(req, Some(collected.into_entry())) else { return };
            req.end_after(req.spawn(async move {
                sub.run().await;
                let status = sub.req.response.borrow().status;
                sub.req.log(Level::Debug, format_args!("srcache_store: subrequest returned status {status}"));
                if !(200..300).contains(&status) {
                    filling.into_iter().for_each(Filling::end_refused);
                    sub.req.log(Level::Error, format_args!("srcache_store subrequest failed: status={status}"));
                } else {
                    filling.into_iter().for_each(Filling::end_kept);
                }
                sub.recycle();
            }));
        }
    }
}
