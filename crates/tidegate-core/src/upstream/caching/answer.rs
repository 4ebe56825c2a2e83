//! A response out of the cache.
//!
//! Source: nginx, `ngx_http_upstream_cache_send`, `ngx_http_upstream_test_next`.

use std::sync::Arc;

use tidegate_http::{Parsed, parse_response};

use super::lifetime::Lifetime;
use crate::{
    cache::{Body, Ending, Stored, Times, unix_now},
    log::Level,
    output::{Buf, Chunk},
    phase::Step,
    upstream::{
        exchange::{Exchange, Protocol},
        failure::Failure,
        record::CacheStatus,
        settings::Ignored,
    },
};

impl<P: Protocol> Exchange<'_, P> {
    /// Answers the request with an entry.
    pub(in crate::upstream) async fn answer_stored(&mut self, stored: &Stored) -> Step {
        let parsed = self.req.upstream_record_mut(|record| {
            record.head.clear();
            parse_response(&stored.front.head, &mut record.head)
        });
        if !matches!(parsed, Ok(Parsed::Complete(_))) {
            self.req.log(Level::Crit, format_args!("cache file contains invalid header"));
            return Step::Status(500);
        }
        self.is_stored = true;
        if let Some(step) = self.take_head() {
            return step;
        }
        self.tell_cache(Some(stored.front.times));
        if self.req.send_header().wait().await.is_err() {
            return Step::Close;
        }
        if self.req.response.borrow().header_only && !self.req.is_subrequest() {
            return Step::Ok;
        }
        let mut chunk = Chunk::end();
        chunk.bufs.push(match &stored.body {
            Body::Bytes(bytes) => Buf::Bytes(bytes.clone()),
            Body::File { file, offset, len } => Buf::File { file: file.clone(), offset: *offset, len: *len },
        });
        match self.req.send(chunk).wait().await {
            Ok(()) => Step::Ok,
            Err(_) => Step::Close,
        }
    }

    /// The entry that answers a request whose tries have failed, if it may.
    pub(in crate::upstream) fn stale_on(&mut self, failure: Failure) -> Option<Arc<Stored>> {
        let caching = self.caching.as_mut()?;
        let times = caching.stale.as_ref()?.front.times;
        // Its own word (`stale-if-error`) is about statuses, too, by RFC 5861, section 4, but not in nginx since 1.19.3.
        let is_error = match failure {
            Failure::Status(status) => caching.rules.follows_rfc && matches!(status, 500 | 502..=504),
            _ => true,
        };
        let by_own_word = is_error && !times.are_over(times.error_secs, unix_now());
        let may = caching.rules.use_stale.covers(failure) || by_own_word;
        if !may {
            return None;
        }
        let stored = caching.stale.take();
        caching.update = None;
        caching.fills = false;
        self.set_cache_status(CacheStatus::Stale);
        stored
    }

    /// The entry that answers a request instead of the response whose head has come: that is a failure, or it says that the
    /// entry is still good.
    pub(in crate::upstream) async fn stored_instead(&mut self) -> Option<Arc<Stored>> {
        let status = self.req.upstream_record(|record| record.head.status)?;
        let revalidates =
            self.caching.as_ref().is_some_and(|caching| caching.rules.revalidate && caching.stale.is_some());
        if status != 304 || !revalidates {
            return self.stale_on(Failure::Status(status));
        }
        let ignored = self.settings.ignored;
        let rules = self.caching.as_ref()?.rules.clone();
        let (said, age) = self.req.upstream_record(|record| rules.lifetime(&record.head, ignored, unix_now()))?;
        let caching = self.caching.as_mut()?;
        let mut stored = caching.stale.take()?;
        caching.fills = false;
        let update = caching.update.take();
        if let Some(times) = caching.renewed(&stored, said, age, ignored) {
            let old_stored_at = stored.front.times.stored_at;
            Arc::make_mut(&mut stored).front.times = times;
            caching.zone.extend(caching.key, old_stored_at, times).await;
        }
        drop(update);
        self.set_cache_status(CacheStatus::Revalidated);
        Some(stored)
    }

    /// Keeps a status that is answered without a file: an error of the upstream, for as long as the rules say.
    pub(in crate::upstream) fn keep_error(&mut self, status: u16) {
        let Some(caching) = self.caching.as_mut().filter(|caching| caching.fills) else { return };
        caching.fills = false;
        if !caching.fill.take().is_some_and(|fill| fill.is_untouched(caching.main)) {
            return;
        }
        let said = caching.lifetime.valid_until;
        if let Some(until) =
            said.or_else(|| caching.rules.valid_secs(status).map(|secs| unix_now().saturating_add(secs)))
        {
            let ending = Ending::Error(status, until);
            match caching.update.take() {
                Some(update) => update.end(ending),
                None => caching.zone.end(caching.key, ending),
            }
        }
    }
}

impl super::Caching {
    /// Until when an entry may be served that the upstream has found to be still good: by what it says now, by what it said
    /// then, or by the rules.
    fn renewed(&self, stored: &Stored, said: Lifetime, age: u64, ignored: Ignored) -> Option<Times> {
        if said.is_forbidden {
            return None;
        }
        let now = unix_now();
        let mut head = tidegate_http::ResponseHead::new();
        parse_response(&stored.front.head, &mut head).ok()?;
        let lifetime = if said.valid_until.is_some() { said } else { Lifetime::of(&head, ignored, now) };
        let by_rules = || self.rules.valid_secs(head.status).map(|secs| now.saturating_add(secs));
        let valid_until = lifetime.valid_until.filter(|_| !lifetime.is_forbidden).or_else(by_rules)?;
        let Lifetime { updating_secs, error_secs, .. } = lifetime;
        Some(Times { valid_until, updating_secs, error_secs, stored_at: now.saturating_sub(age) })
    }
}
