//! A request that removes entries (`…_cache_purge`).
//!
//! Source: nginx's documentation of `proxy_cache_purge` (keys and prefixes).

use super::Caching;
use crate::{
    cache::{Covered, PurgeError, tags_in},
    log::{Level, SysError},
    phase::Step,
    upstream::exchange::{Exchange, Protocol},
};

/// There was something, or nobody looked: what was purged is not there.
const STATUS_PURGED: u16 = 204;
/// There is no entry of that key.
const STATUS_UNKNOWN: u16 = 404;
/// The field has no tag that could be meant.
const STATUS_NO_TAGS: u16 = 400;
const STATUS_DISK_FAILED: u16 = 500;
/// Too many purges are under way.
const STATUS_LATER: u16 = 503;

/// The range of all parts of a response, in the key of a request that removes them.
pub const ALL_PARTS: &[u8] = b"bytes=*";

impl<P: Protocol> Exchange<'_, P> {
    /// Purges what the request names: by its tags where it has any, by its key otherwise.
    pub(super) async fn purge(&self, caching: &Caching) -> Step {
        let purges_parts = self.req.upstream_record(|record| record.cache.purges_parts) == Some(true);
        let purged = match (self.tags(), prefix_of(&caching.key_text, purges_parts)) {
            (Some(tags), _) if tags.is_empty() => return Step::Status(STATUS_NO_TAGS),
            (Some(tags), _) => caching.zone.purge_all(tags).await.map(|()| true),
            (None, Some(prefix)) => caching.zone.purge_all(vec![Covered::Prefix(prefix.into())]).await.map(|()| true),
            (None, None) => caching.zone.purge_key(caching.main).await,
        };
        let error = match purged {
            Ok(true) => return Step::Status(STATUS_PURGED),
            Ok(false) => return Step::Status(STATUS_UNKNOWN),
            Err(error) => error,
        };
        match &error {
            PurgeError::TooMany(_) => {
                self.req.log(Level::Error, format_args!("{error}"));
                Step::Status(STATUS_LATER)
            }
            PurgeError::Io { source, .. } => {
                self.req.log(Level::Crit, format_args!("{error} {}", SysError(source)));
                Step::Status(STATUS_DISK_FAILED)
            }
        }
    }

    /// Whether a request that purges with this key means more than one entry.
    pub(super) fn means_many(&self, key_text: &[u8]) -> bool {
        let purges_parts = self.req.upstream_record(|record| record.cache.purges_parts) == Some(true);
        prefix_of(key_text, purges_parts).is_some()
    }

    /// The tags that the request names, each once; nothing for a request without such a field.
    fn tags(&self) -> Option<Vec<Covered>> {
        let head = self.req.head.borrow();
        let mut tags = None;
        for name in [&b"Cache-Tag"[..], b"Surrogate-Key"] {
            for value in head.fields.values_of_name(name) {
                let tags: &mut Vec<Covered> = tags.get_or_insert_default();
                tags.extend(tags_in(name, value).map(|tag| Covered::Tag(tag.into())));
            }
        }
        tags.map(|mut tags| {
            tags.sort_unstable();
            tags.dedup();
            tags
        })
    }
}

/// What the keys of the entries begin with, where a key does not mean one entry: it ends in `*`, or it is that of parts.
fn prefix_of(key_text: &[u8], purges_parts: bool) -> Option<&[u8]> {
    let whole = key_text.strip_suffix(ALL_PARTS).filter(|_| purges_parts);
    whole.unwrap_or(key_text).strip_suffix(b"*").or_else(|| whole.and(key_text.strip_suffix(b"*")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_mean_many_entries() {
        #[track_caller]
        fn check(key_text: &str, purges_parts: bool, expected: Option<&str>) {
            let found = prefix_of(key_text.as_bytes(), purges_parts);
            assert_eq!(found, expected.map(str::as_bytes), "{key_text}");
        }
        check("/a", false, None);
        check("/a*", false, Some("/a"));
        check("*", false, Some(""));
        check("/a*b", false, None);
        check("/a*bytes=*", false, Some("/a*bytes="));
        check("/abytes=*", true, Some("/abytes="));
        check("/a*bytes=*", true, Some("/a"));
        check("bytes=*/a", true, None);
        check("bytes=*/a*", true, Some("bytes=*/a"));
    }
}
