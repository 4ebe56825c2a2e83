//! What became of a request's tries, for `$upstream_*` and for the error log.

use std::{fmt, sync::Arc};

use smallvec::SmallVec;
use tidegate_http::{Fields, ResponseHead};
use tidegate_reuse::{Keep, Pool, Reset};

use super::{Group, Peer};
use crate::{clock, request::Request};

/// The peer, or the reason for having none, in one try of a request.
#[derive(Debug, Clone)]
pub enum Asked {
    /// A peer.
    Peer(Arc<Peer>),
    /// No peer: the group has none that may be asked now.
    Nobody(Arc<Group>),
    /// No peer: this entry divides the tries before an internal redirect from those after it.
    Divider,
}

/// One try. Times are milliseconds since it began.
#[derive(Debug, Clone)]
pub struct Try {
    /// The peer of the try.
    pub asked: Asked,
    /// The status that it came to; 0 while there is none.
    pub status: u16,
    /// When it began, in milliseconds of [`clock::steady_ms`].
    pub started_ms: u64,
    /// Until the connection was made.
    pub connect_ms: Option<u64>,
    /// Until the head was complete.
    pub header_ms: Option<u64>,
    /// Until it was over.
    pub response_ms: Option<u64>,
    /// Bytes of the body.
    pub response_length: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Whether the connection has resumed a session; `None` without TLS.
    pub resumed: Option<bool>,
    /// The body ended with the connection, and TLS has a word for the end that the peer did not say: perhaps that was not all.
    pub was_cut: bool,
}

impl Try {
    pub(super) fn new(asked: Asked) -> Self {
        Try {
            asked,
            status: 0,
            started_ms: clock::steady_ms(),
            connect_ms: None,
            header_ms: None,
            response_ms: None,
            response_length: 0,
            bytes_sent: 0,
            bytes_received: 0,
            resumed: None,
            was_cut: false,
        }
    }
    /// Milliseconds since it began.
    pub fn elapsed_ms(&self) -> u64 {
        clock::steady_ms().saturating_sub(self.started_ms)
    }
    /// The name of who was asked; empty for nobody.
    pub fn name(&self) -> &[u8] {
        match &self.asked {
            Asked::Peer(peer) => &peer.name,
            Asked::Nobody(group) => &group.name,
            Asked::Divider => b"",
        }
    }
}

/// A request's tries and the last answer.
#[derive(Default)]
pub struct Record {
    /// The tries, in order.
    pub tries: SmallVec<[Try; 1]>,
    /// The group that the request goes to.
    pub group: Option<Arc<Group>>,
    /// The head of the last answer.
    pub head: ResponseHead,
    /// The fields behind the body of the last answer.
    pub trailers: Fields,
    /// The request's head as it was sent.
    pub request: Vec<u8>,
    /// Scheme, as the log shows it: `http://`.
    pub scheme: &'static str,
    /// Path and arguments as they were sent, as the log shows them: a part of `request`.
    pub uri: std::ops::Range<usize>,
    /// What the last request for an answer had to do with a cache.
    pub cache: CacheNote,
}

/// What a request has to do with a cache.
#[derive(Debug, Default)]
pub struct CacheNote {
    /// `$upstream_cache_status`
    pub status: Option<CacheStatus>,
    /// The answer is to be kept for all, so the upstream is not asked for what this client wants of it alone.
    pub fills: bool,
    /// The variant of a response is not there whose other variants may be.
    pub lacks_variant: bool,
    /// The request has waited for another one's answer.
    pub is_collapsed: bool,
    /// Tries that belong to requests ahead of this one: it was redirected.
    pub tries_before: usize,
    /// The request is one that removes entries: `$slice_range` means all parts ([`ALL_PARTS`](super::caching::ALL_PARTS)).
    pub purges: bool,
    /// The entries that it removes are parts: `$slice_range` is in their key.
    pub purges_parts: bool,
    /// The upstream is asked for the body that the client's HEAD does not want.
    pub asks_get: bool,
    /// `Last-Modified` of an entry that is out of date, in seconds since 1970.
    pub last_modified: Option<i64>,
    /// `ETag` of an entry that is out of date; empty for none.
    pub etag: Vec<u8>,
}

impl CacheNote {
    /// Forgets everything and keeps the memory.
    pub(super) fn clear(&mut self) {
        let CacheNote {
            status,
            fills,
            lacks_variant,
            is_collapsed,
            tries_before,
            purges,
            purges_parts,
            asks_get,
            last_modified,
            etag,
        } = self;
        (*status, *fills, *asks_get, *last_modified) = (None, false, false, None);
        (*lacks_variant, *is_collapsed, *tries_before) = (false, false, 0);
        (*purges, *purges_parts) = (false, false);
        etag.clear();
    }
}

/// Where an answer came from, as the logs show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStatus {
    /// The upstream: there was none in the cache.
    Miss,
    /// The upstream: the cache was not asked.
    Bypass,
    /// The upstream: the one in the cache was out of date.
    Expired,
    /// The cache, though out of date: the upstream has failed, or is asked behind the client's back.
    Stale,
    /// The cache, though out of date: another request is asking the upstream.
    Updating,
    /// The cache: the upstream says that it is still good.
    Revalidated,
    /// The cache.
    Hit,
}

impl CacheStatus {
    /// The word for it.
    ///
    /// Source: nginx, `ngx_http_cache_status`.
    pub fn name(self) -> &'static str {
        match self {
            CacheStatus::Miss => "MISS",
            CacheStatus::Bypass => "BYPASS",
            CacheStatus::Expired => "EXPIRED",
            CacheStatus::Stale => "STALE",
            CacheStatus::Updating => "UPDATING",
            CacheStatus::Revalidated => "REVALIDATED",
            CacheStatus::Hit => "HIT",
        }
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { tries, group, head, trailers, request, scheme, uri, cache } = self;
        let group = group.as_ref().map(|group| &group.name);
        f.debug_tuple("Record").field(&(tries, group, head, trailers, request, scheme, uri, cache)).finish()
    }
}

impl Reset for Record {
    fn reset(&mut self) -> Keep {
        let Record { tries, group, head, trailers, request, scheme, uri, cache } = self;
        cache.clear();
        (*group, *scheme, *uri) = (None, "", 0..0);
        tries.clear();
        head.clear();
        trailers.clear();
        request.clear();
        Keep::Yes
    }
    fn fresh() -> Self {
        Record::default()
    }
}

/// Records that a thread keeps for reuse.
const SPARES_MAX: usize = 64;

thread_local! {
    static SPARES: Pool<Box<Record>> = const { Pool::new(SPARES_MAX) };
}

/// The place for a record in a request.
#[derive(Debug, Default)]
pub struct Slot(Option<Box<Record>>);

impl Slot {
    /// The record, if any upstream was asked.
    pub fn get(&self) -> Option<&Record> {
        self.0.as_deref()
    }
    /// The record, made when first asked for.
    pub fn get_or_make(&mut self) -> &mut Record {
        self.0.get_or_insert_with(|| SPARES.with(Pool::take))
    }
    /// Forgets the record, keeps its memory.
    pub fn clear(&mut self) {
        if let Some(record) = self.0.take() {
            SPARES.with(|spares| spares.give(record));
        }
    }
}

impl Request {
    /// What became of the request's tries; `None` if no upstream was asked.
    pub fn upstream_record<T>(&self, read: impl FnOnce(&Record) -> T) -> Option<T> {
        self.upstream.borrow().get().map(read)
    }
    /// Changes what is known of the request's tries.
    pub fn upstream_record_mut<T>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
        change(self.upstream.borrow_mut().get_or_make())
    }
    /// Begins another try.
    pub(super) fn begin_try(&self, asked: Asked) {
        self.upstream_record_mut(|record| record.tries.push(Try::new(asked)));
    }
    /// Changes what is known of the try under way.
    pub(super) fn update_try(&self, change: impl FnOnce(&mut Try)) {
        self.upstream_record_mut(|record| {
            if let Some(last) = record.tries.last_mut() {
                change(last);
            }
        });
    }
    /// What the error log shows as `upstream:`.
    pub(crate) fn upstream_in_log(&self) -> Option<Vec<u8>> {
        // A line may be written while a try is being changed.
        let slot = self.upstream.try_borrow().ok()?;
        let record = slot.get()?;
        let last = record.tries.last()?;
        let mut text = record.scheme.as_bytes().to_vec();
        text.extend_from_slice(last.name());
        if matches!(&last.asked, Asked::Peer(peer) if matches!(peer.address, super::Address::Unix(_))) {
            text.push(b':');
        }
        text.extend_from_slice(record.request.get(record.uri.clone()).unwrap_or_default());
        (!last.name().is_empty()).then_some(text)
    }
}
