//! Responses that are kept: which requests are answered from a cache, and what becomes of the answers to the others.
//!
//! In reading order:
//!
//! - [`rules`]: what the directives say
//! - this file: a request asks the cache
//! - `lifetime`: for how long a response may be kept, by its own word
//! - `fill`: a response on its way into the cache
//! - `answer`: a response out of the cache: fresh, stale, or found to be still good
//! - `purge`: a request that removes entries
//! - `refresh`: a response that is fetched anew behind the client's back
//! - `status`: what a response says of the cache
//!
//! Invariants:
//! - **I1** An entry that is missing is filled by one request at a time where `…_cache_lock` says so; for one that is out of
//!   date, those that may be served the old response wait for nobody, and the others ask for themselves. The right to fill
//!   it is an [`Update`], whose end lets those who wait look again.
//! - **I2** Only a whole response becomes an entry.
//!
//! Source: nginx, `ngx_http_upstream_cache`, `ngx_http_file_cache_open`.

mod answer;
mod fill;
mod lifetime;
mod purge;
mod refresh;
pub mod rules;
mod status;

use std::sync::Arc;

use bstr::BStr;
pub(super) use fill::Filling;
pub use purge::ALL_PARTS;
use tidegate_http::{Known, Method, ResponseHead, parse_response};

use self::{
    lifetime::Lifetime,
    refresh::Refresh,
    rules::{CacheRules, KeyPart, any_holds},
};
use super::{
    exchange::{Exchange, Protocol},
    failure::Failures,
    record::CacheStatus,
    socket::{Wait, Watch, with_timeout},
};
use crate::{
    cache::{Fill, Key, Presence, ReadError, Stored, Times, Update, Zone, unix_now},
    clock,
    log::{Level, SysError},
    phase::Step,
};

/// What one request has to do with a cache.
pub(super) struct Caching {
    rules: Arc<CacheRules>,
    /// The request is to purge the cache.
    purges: bool,
    zone: Arc<Zone>,
    key_text: Vec<u8>,
    /// The hash of the key's text.
    main: Key,
    /// That, or the one of the request's variant.
    key: Key,
    /// The response may be kept, as far as is known.
    pub(super) fills: bool,
    /// What the variants of the response have in common, where there is a main entry.
    family: Option<u64>,
    /// The response on its way.
    fill: Option<Fill>,
    /// The right to fill the entry, where others are kept waiting.
    update: Option<Update>,
    /// An entry that is out of date.
    stale: Option<Arc<Stored>>,
    /// What the response under way says.
    lifetime: Lifetime,
    /// Its age when it came, in seconds; 0 where ages do not count.
    age_secs: u64,
}

/// What a look into the cache gives.
enum Look {
    Fresh(Arc<Stored>),
    Stale(Arc<Stored>),
    /// A status without a file.
    Error(u16),
    /// Nothing, and the answer of the upstream is wanted.
    Miss,
    /// Nothing, and the answer of the upstream is not wanted.
    Scarce,
}

impl Times {
    fn are_over(&self, more_secs: u32, now: u64) -> bool {
        self.valid_until.saturating_add(u64::from(more_secs)) < now
    }
}

impl<P: Protocol> Exchange<'_, P> {
    /// Answers the request from the cache, where it can. Otherwise it is prepared for asking an upstream.
    pub(super) async fn consult_cache(&mut self) -> Option<Step> {
        let mut caching = match self.open_cache() {
            Ok(Some(caching)) => caching,
            Ok(None) => return None,
            Err(step) => return Some(step),
        };
        if caching.purges {
            return Some(self.purge(&caching).await);
        }
        if any_holds(&caching.rules.bypass, self.req) {
            self.set_cache_status(CacheStatus::Bypass);
        } else {
            self.set_cache_status(CacheStatus::Miss);
            match self.look_up(&mut caching).await {
                Err(step) => return Some(step),
                Ok(Look::Fresh(stored)) => {
                    self.set_cache_status(CacheStatus::Hit);
                    return Some(self.answer_stored(&stored).await);
                }
                Ok(Look::Error(status)) => {
                    self.set_cache_status(CacheStatus::Hit);
                    return Some(Step::Status(status));
                }
                Ok(Look::Stale(stored)) => {
                    if let Some(stored) = self.take_stale(&mut caching, stored) {
                        return Some(self.answer_stored(&stored).await);
                    }
                }
                Ok(Look::Miss) => {}
                Ok(Look::Scarce) => caching.fills = false,
            }
        }
        caching.fills &= !self.is_range_far_off(caching.rules.max_range_offset);
        let fills = caching.fills;
        self.req.upstream_record_mut(|record| record.cache.fills = fills);
        if fills {
            caching.fill = Some(caching.zone.begin_fill());
            // The entry is wanted by others, too.
            self.watch = Watch::new(self.req, false);
        }
        self.caching = Some(caching);
        None
    }

    pub(super) fn set_cache_status(&self, status: CacheStatus) {
        self.req.upstream_record_mut(|record| record.cache.status = Some(status));
    }

    /// Finds zone and key; nothing where the request has nothing to do with a cache.
    fn open_cache(&mut self) -> Result<Option<Box<Caching>>, Step> {
        let Some(rules) = &self.settings.cache else { return Ok(None) };
        let method = self.req.method.get();
        // A sub-request skips the rules for access, and whoever has made it takes the status for another answer.
        let purges = !self.req.is_subrequest() && any_holds(&rules.purge, self.req);
        if !purges && !rules.methods.contains(method) {
            return Ok(None);
        }
        let zone = match rules.zone(self.req) {
            Ok(Some(zone)) => zone,
            Ok(None) => return Ok(None),
            Err(name) => {
                self.req.log(Level::Error, format_args!("cache \"{}\" not found", BStr::new(&name)));
                return Err(Step::Status(500));
            }
        };
        let mut key_text = Vec::new();
        self.req.upstream_record_mut(|record| record.cache.purges = purges);
        match &rules.key {
            Some(key) => key.write(self.req, &mut key_text),
            None => self.protocol.write_cache_key(self.req, self.scheme(), &mut key_text),
        }
        let asks_get = P::ASKS_GET_FOR_HEAD && method == Method::Head && rules.convert_head;
        self.req.upstream_record_mut(|record| record.cache.asks_get = asks_get);
        if key_text.is_empty() {
            // All responses would be one: `…_cache_key` is missing, and the log of the start says so.
            return Ok(None);
        }
        // What purges many entries purges them as they were made of any content of the tables.
        if let Some(KeyPart(append)) = &rules.tables
            && !(purges && self.means_many(&key_text))
            && !append(self.req, &mut key_text)
        {
            return if purges { Err(Step::Status(500)) } else { Ok(None) };
        }
        let main = Key::of(&key_text);
        Ok(Some(Box::new(Caching {
            rules: rules.clone(),
            purges,
            zone,
            key_text,
            main,
            key: main,
            fills: true,
            family: None,
            fill: None,
            update: None,
            stale: None,
            lifetime: Lifetime::default(),
            age_secs: 0,
        })))
    }

    /// Looks for the entry, and waits while another request fills it.
    ///
    /// # Errors
    /// The client does not wait: the request ends with this step.
    async fn look_up(&self, caching: &mut Caching) -> Result<Look, Step> {
        let rules = caching.rules.clone();
        let (mut counts, mut waits_until_ms) = (true, None);
        loop {
            let presence = caching.zone.touch(caching.key, rules.min_uses, counts);
            let may_exist = match presence {
                Presence::Error(status) => return Ok(Look::Error(status)),
                Presence::Known { exists } => exists,
                Presence::New => caching.zone.is_cold(),
                // It may have been kept before the server was started.
                Presence::Scarce => counts && caching.zone.is_cold(),
            };
            if may_exist && let Some(stored) = self.read_entry(caching).await {
                caching.family = Some(stored.front.family);
                if let Some(variant) = self.other_variant(caching, &stored) {
                    caching.key = variant;
                    self.req.upstream_record_mut(|record| record.cache.lacks_variant = true);
                    counts = true;
                    continue;
                }
                let is_over = stored.front.times.are_over(0, unix_now());
                return Ok(if is_over { Look::Stale(stored) } else { Look::Fresh(stored) });
            }
            if presence == Presence::Scarce {
                return Ok(Look::Scarce);
            }
            if !rules.lock {
                return Ok(Look::Miss);
            }
            let waiting = match caching.zone.hold(caching.key, rules.lock_age_ms) {
                Ok(update) => {
                    caching.update = Some(update);
                    return Ok(Look::Miss);
                }
                Err(waiting) => waiting,
            };
            let now_ms = clock::steady_ms();
            let end_ms = *waits_until_ms.get_or_insert(now_ms.saturating_add(rules.lock_timeout_ms));
            if end_ms <= now_ms {
                return Ok(Look::Scarce);
            }
            let left_ms = end_ms.min(waiting.until_ms).saturating_sub(now_ms).max(1);
            let watch = Watch::new(self.req, self.settings.watch_client && !self.body.is_arriving());
            self.req.upstream_record_mut(|record| record.cache.is_collapsed = true);
            match with_timeout(left_ms, &watch, waiting.end.acquire()).await {
                Err(Wait::ClientGone) => return Err(self.client_gone()),
                // The response was none that is kept.
                Ok(Ok(_)) => return Ok(Look::Scarce),
                Err(_) if clock::steady_ms() >= end_ms => {
                    self.req.log(Level::Info, format_args!("cache lock timeout"));
                }
                _ => {}
            }
            counts = false;
        }
    }

    /// Reads the entry; what is wrong with it is logged.
    async fn read_entry(&self, caching: &Caching) -> Option<Arc<Stored>> {
        let error = match caching.zone.read(caching.key, &caching.key_text).await {
            // What answered a HEAD has no body for others.
            Ok(stored) if stored.front.is_bodiless && !self.req.is_head() => return None,
            // Its main entry has gone, and so has it.
            Ok(stored) if caching.family.is_some_and(|family| family != stored.front.family) => return None,
            Ok(stored) => return Some(stored),
            Err(error) => error,
        };
        match &error {
            ReadError::NotFound => {}
            ReadError::Broken { .. } | ReadError::Collision(_) => self.req.log(Level::Crit, format_args!("{error}")),
            ReadError::Io { source, .. } => {
                self.req.log(Level::Crit, format_args!("{error} {}", SysError(source)));
            }
        }
        None
    }

    /// The key of the variant that the request wants, where that is another than the one that was read.
    fn other_variant(&self, caching: &Caching, stored: &Stored) -> Option<Key> {
        let (vary, variant) = stored.front.vary.as_ref()?;
        let wanted = caching.main.variant(vary, &self.req.head.borrow().fields);
        if wanted == *variant {
            return None;
        }
        if caching.key == caching.main {
            return Some(wanted);
        }
        // The entry of a variant says itself that it is another one's.
        let path = caching.zone.path(caching.key);
        self.req.log(Level::Crit, format_args!("cache file \"{}\" has incorrect vary hash", path.display()));
        None
    }

    /// Decides about an entry that is out of date: gives it back where it is the answer all the same.
    fn take_stale(&self, caching: &mut Caching, stored: Arc<Stored>) -> Option<Arc<Stored>> {
        let (rules, times, now) = (caching.rules.clone(), stored.front.times, unix_now());
        let refresh = self.req.find_context::<Refresh>();
        caching.update = match &refresh {
            Some(refresh) => refresh.take_update(caching.key),
            None => caching.zone.hold_stale(caching.key),
        };
        let while_updating = rules.use_stale.contains(Failures::UPDATING) || !times.are_over(times.updating_secs, now);
        if refresh.is_none() && while_updating {
            match caching.update.take() {
                None => {
                    self.set_cache_status(CacheStatus::Updating);
                    return Some(stored);
                }
                Some(update) if rules.background_update => {
                    self.set_cache_status(CacheStatus::Stale);
                    refresh::begin(self.req, update);
                    return Some(stored);
                }
                update => caching.update = update,
            }
        }
        self.set_cache_status(CacheStatus::Expired);
        if rules.revalidate {
            let mut head = ResponseHead::new();
            let _ = parse_response(&stored.front.head, &mut head);
            let etag = head.fields.get(Known::ETag).filter(|_| matches!(head.status, 200 | 206));
            self.req.upstream_record_mut(|record| {
                record.cache.last_modified = stored.front.last_modified;
                record.cache.etag.extend_from_slice(etag.unwrap_or_default());
            });
        }
        caching.stale = Some(stored);
        None
    }

    /// Whether the client wants a range that begins so far behind the start that the upstream shall send that alone.
    ///
    /// Source: nginx, `ngx_http_upstream_cache_check_range`.
    fn is_range_far_off(&self, offset_max: Option<u64>) -> bool {
        let Some(offset_max) = offset_max else { return false };
        let head = self.req.head.borrow();
        let Some(range) = head.fields.get(Known::Range) else { return false };
        if offset_max == 0 {
            return true;
        }
        let Some(set) = range.get(..6).filter(|unit| unit.eq_ignore_ascii_case(b"bytes=")).map(|_| &range[6..]) else {
            return false;
        };
        let set = set.trim_ascii_start();
        if set.starts_with(b"-") {
            return true;
        }
        let digits = set.iter().take_while(|byte| byte.is_ascii_digit());
        let start = digits.fold(0u64, |start, digit| start.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
        start >= offset_max
    }
}
