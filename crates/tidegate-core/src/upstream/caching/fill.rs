//! A response on its way into the cache.

use tidegate_http::{Known, ResponseHead, date::parse_http_date, response::write_field};

use super::{Caching, lifetime::Lifetime, rules::any_holds};
use crate::{
    cache::{Ending, Fill, Front, Key, Times, Update, Zone, unix_now},
    spool::{Draft, Place, Spool, SpoolError},
    upstream::{
        exchange::{Exchange, Protocol},
        socket::Watch,
        tee::move_to,
    },
};
use std::sync::Arc;

/// Rights of files and of the directories above them: the server's user alone.
const ACCESS: u32 = 0o600;

/// An entry in the making, but for its body.
pub(in crate::upstream) struct Filling {
    front: Front,
    zone: Arc<Zone>,
    main: Key,
    key: Key,
    update: Option<Update>,
    fill: Fill,
}

impl<P: Protocol> Exchange<'_, P> {
    /// Takes note of what a response says about its keeping, when its head has come.
    pub(in crate::upstream) fn judge(&mut self) {
        let Some(caching) = self.caching.as_mut().filter(|caching| caching.fills) else { return };
        let ignored = self.settings.ignored;
        let judged = self.req.upstream_record(|record| caching.rules.lifetime(&record.head, ignored, unix_now()));
        (caching.lifetime, caching.age_secs) = judged.unwrap_or_default();
        caching.fills = !caching.lifetime.is_forbidden;
        if !caching.fills {
            self.leave_cache();
        }
    }

    /// The response does not become an entry: those who wait for it look again, and the client's end is the request's.
    pub(in crate::upstream) fn leave_cache(&mut self) {
        let Some(caching) = &mut self.caching else { return };
        caching.fills = false;
        // After an error one more at a time may try.
        let is_error = self.req.upstream_record(|record| record.head.status >= 500).unwrap_or(true);
        match caching.update.take() {
            Some(update) if !is_error => update.end(Ending::Refused),
            update => drop(update),
        }
        caching.stale = None;
        self.watch = Watch::new(self.req, self.settings.watch_client && !self.body.is_arriving());
    }

    /// Whether the response may become an entry, as far as is known.
    pub(in crate::upstream) fn fills_cache(&self) -> bool {
        self.caching.as_ref().is_some_and(|caching| caching.fills)
    }

    /// Begins an entry, where the response becomes one.
    pub(in crate::upstream) fn begin_filling(&mut self) -> Option<(Spool, Filling)> {
        let caching = self.caching.as_mut().filter(|caching| caching.fills)?;
        let is_bodiless = self.req.is_head() && !self.req.upstream_record_mut(|record| record.cache.asks_get);
        let fields = &self.req.head.borrow().fields;
        let begin = |head: &ResponseHead| caching.front(head, fields, is_bodiless);
        let wanted = self.buffering && !any_holds(&caching.rules.no_cache, self.req);
        let Some(front) = wanted.then(|| self.req.upstream_record(|record| begin(&record.head)).flatten()).flatten()
        else {
            self.leave_cache();
            return None;
        };
        let key = match &front.vary {
            Some((_, variant)) if caching.key == *variant => *variant,
            _ => caching.main,
        };
        let place = match caching.zone.use_temp_path {
            true => Place::Directory(self.req.conf().full_path(&self.settings.temp_path)),
            false => Place::Beside(caching.zone.path(key)),
        };
        let spool = Spool::new(place, front.len());
        // The one that is out of date is of no use any more, and may be large.
        caching.stale = None;
        let (zone, main, update) = (caching.zone.clone(), caching.main, caching.update.take());
        let fill = caching.fill.take()?;
        Some((spool, Filling { front, zone, main, key, update, fill }))
    }
}

impl Caching {
    /// What stands ahead of the body; nothing where nobody says for how long the response may be kept.
    fn front(&self, head: &ResponseHead, fields: &tidegate_http::Fields, is_bodiless: bool) -> Option<Front> {
        let now = unix_now();
        let by_rules = || self.rules.valid_secs(head.status).map(|secs| now.saturating_add(secs));
        let Lifetime { valid_until, updating_secs, error_secs, vary, .. } = &self.lifetime;
        let valid_until = valid_until.or_else(by_rules)?;
        let began = self.fill.as_ref()?.began;
        let stored_at = now.saturating_sub(self.age_secs);
        let last_modified = head.fields.get(Known::LastModified).filter(|_| matches!(head.status, 200 | 206));
        Some(Front {
            times: Times { valid_until, updating_secs: *updating_secs, error_secs: *error_secs, stored_at },
            key_text: self.key_text.clone(),
            vary: (!vary.is_empty()).then(|| (vary.clone(), self.main.variant(vary, fields))),
            last_modified: last_modified.and_then(parse_http_date),
            head: write_head(head),
            is_bodiless,
            began,
            family: self.family.unwrap_or(began),
        })
    }
}

/// The head as it is kept: without what belongs to the connection that it came over.
fn write_head(head: &ResponseHead) -> Vec<u8> {
    let mut out = b"HTTP/1.1 ".to_vec();
    out.extend_from_slice(head.status_text());
    out.extend_from_slice(b"\r\n");
    for (name, value, known) in head.fields.iter() {
        let is_hop = matches!(
            known,
            Known::Connection
                | Known::KeepAlive
                | Known::ProxyConnection
                | Known::TransferEncoding
                | Known::Te
                | Known::Trailer
                | Known::Upgrade
        );
        if !is_hop {
            write_field(name, value, &mut out);
        }
    }
    out.extend_from_slice(b"\r\n");
    out
}

impl Filling {
    /// The entry's times.
    pub(in crate::upstream) fn times(&self) -> Times {
        self.front.times
    }

    /// The body is complete: the file gets its name, and the entry is there.
    ///
    /// # Errors
    /// The file cannot be written. Nothing has changed then.
    pub(in crate::upstream) async fn finish(self, spool: Spool) -> Result<(), SpoolError> {
        let Filling { front, zone, main, key, update, fill } = self;
        if fill.is_void(main, &front) {
            return Ok(());
        }
        let body_bytes = spool.len();
        let (bytes, target) = (front.encode(body_bytes), zone.path(key));
        let file_bytes = bytes.len() as u64 + body_bytes;
        spool.finish(bytes, move |mut draft: Draft| move_to(&mut draft, &target, ACCESS, None)).await?;
        // It may have been purged while its file got its name.
        if fill.is_void(main, &front) {
            zone.remove(key).await;
            return Ok(());
        }
        let ending = Ending::Stored(file_bytes);
        match update {
            Some(update) if update.key() == key => update.end(ending),
            update => {
                zone.end(key, ending);
                drop(update);
            }
        }
        Ok(())
    }
}
