//! Certificates with their keys that were read for an earlier configuration: a reload reads only files that have changed.
//!
//! What this does not know: whether a file may be opened. Each is, at every load; only its content is not asked for.
//!
//! Source: nginx, "ssl_object_cache_inheritable".

use std::{
    collections::HashMap,
    fs::{File, Metadata},
    hash::Hash,
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use rustls::{crypto::CryptoProvider, sign::CertifiedKey};
use tidegate_conf::Diagnostic;
use tidegate_tls::{client::certified, pem};

use super::files::{Located, Source, full_path};

/// A file that was changed so long ago has another time after the next change, in seconds. Times of files are no finer than 10 ms with usual
/// kernels, and those of FAT, the coarsest, than two seconds.
const SETTLED_SECONDS: i64 = 3;

/// What tells one content of a file from another, once the file is [settled](Identity::is_settled).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(file: &File) -> io::Result<Self> {
        let metadata: Metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
    /// Whether a change from now on shows.
    fn is_settled(&self, now_seconds: i64) -> bool {
        self.modified.0.max(self.changed.0) + SETTLED_SECONDS <= now_seconds
    }
}

/// All that a certificate with its key is made of. How keys are loaded is the same for all providers that there are here.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sources {
    certificate: Identity,
    key: Identity,
    passwords: Vec<Vec<u8>>,
}

impl Sources {
    fn are_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_seconds = i64::try_from(now.as_secs()).unwrap_or_default();
        [&self.certificate, &self.key].iter().all(|identity| identity.is_settled(now_seconds))
    }
}

struct Value<T> {
    value: Arc<T>,
    /// The load that named it last.
    seen: u64,
    /// Later loads may have it too.
    outlasts: bool,
}

/// Values of configurations, as many as those name that were loaded last or are still used.
struct Kept<K, T> {
    values: HashMap<K, Value<T>>,
    /// Loads that have ended.
    loads: u64,
}

impl<K: Eq + Hash, T> Kept<K, T> {
    fn new() -> Self {
        Self { values: HashMap::new(), loads: 0 }
    }
    fn find(&mut self, key: &K) -> Option<Arc<T>> {
        let found = self.values.get_mut(key)?;
        if !found.outlasts && found.seen != self.loads {
            return None;
        }
        found.seen = self.loads;
        Some(found.value.clone())
    }
    /// `outlasts`: later loads have the value as well; else only the load under way does, however often it names the value.
    fn put(&mut self, key: K, value: Arc<T>, outlasts: bool) {
        self.values.insert(key, Value { value, seen: self.loads, outlasts });
    }
    /// Forgets what the load that ends has not named and no configuration uses.
    fn end_load(&mut self) {
        let loads = self.loads;
        self.values.retain(|_, kept| kept.outlasts && (kept.seen == loads || Arc::strong_count(&kept.value) > 1));
        self.loads += 1;
    }
}

static KEPT: LazyLock<Mutex<Kept<Sources, CertifiedKey>>> = LazyLock::new(|| Mutex::new(Kept::new()));

/// A certificate with its key, read unless they are as they were.
///
/// # Errors
/// A file cannot be read, is something else, or the key is another certificate's.
pub(super) fn pair(
    (certificate, key): (&Located, &Located),
    conf_dir: &Path,
    passwords: &[Vec<u8>],
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, Diagnostic> {
    const WHAT: [&str; 2] = ["certificate", "certificate key"];
    let chain_source = certificate.source(conf_dir, WHAT[0])?;
    let key_source = key.source(conf_dir, WHAT[1])?;
    // A file that does not say what it is, is read; that tells what is wrong.
    let sources = match (&chain_source, &key_source) {
        (Source::File(chain), Source::File(secret)) => {
            let identities = Identity::of(chain).and_then(|chain| Ok((chain, Identity::of(secret)?))).ok();
            identities.map(|(certificate, key)| Sources { certificate, key, passwords: passwords.to_vec() })
        }
        _ => None,
    };
    // Asked for ahead of the content: what is written after that is seen next time.
    let outlasts = sources.as_ref().is_some_and(Sources::are_settled);
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = sources.as_ref().and_then(|sources| kept().find(sources)) {
        return Ok(found);
    }
    let chain = certificate.understand(chain_source, conf_dir, WHAT[0], pem::certificates)?;
    let secret = key.understand(key_source, conf_dir, WHAT[1], |text| pem::key(text, passwords))?;
    let pair = certified(chain, secret, provider).map(Arc::new).map_err(|error| {
        let path = full_path(conf_dir, &key.text);
        key.unusable(WHAT[1], &path.display().to_string(), &format_args!("({error})"))
    })?;
    if let Some(sources) = sources {
        kept().put(sources, pair.clone(), outlasts);
    }
    Ok(pair)
}

/// All certificates of a configuration have been asked for.
pub(super) fn end_load() {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).end_load();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_or_was_named_last_is_kept() {
        let mut kept = Kept::new();
        let used = Arc::new("used");
        kept.put(1, used.clone(), true);
        kept.put(2, Arc::new("named"), true);
        kept.put(3, Arc::new("forgotten"), true);
        kept.end_load();
        assert!(kept.find(&2).is_some());
        kept.end_load();
        assert_eq!(kept.values.len(), 2);
        drop(used);
        kept.end_load();
        assert!(kept.values.is_empty());
    }

    #[test]
    fn what_may_change_unseen_is_kept_for_one_load() {
        let mut kept = Kept::new();
        let used = Arc::new("young");
        kept.put(1, used.clone(), false);
        assert!(kept.find(&1).is_some());
        kept.end_load();
        assert!(kept.find(&1).is_none());
        kept.put(1, used, true);
        kept.end_load();
        assert!(kept.find(&1).is_some());
        let identity = |modified, changed| Identity {
            device: 1,
            inode: 1,
            size: 1,
            modified: (modified, 999_999_999),
            changed: (changed, 0),
        };
        assert!(identity(97, 90).is_settled(100) && identity(90, 97).is_settled(100));
        assert!(!identity(98, 90).is_settled(100) && !identity(90, 98).is_settled(100));
        assert!(!identity(200, 200).is_settled(100), "the clock was set back");
    }

    #[test]
    fn another_content_is_another_file() {
        let path = std::env::temp_dir().join(format!("tidegate-kept-{}", std::process::id()));
        let identity = || Identity::of(&File::open(&path).expect("opened")).expect("told");
        std::fs::write(&path, "one").expect("written");
        let first = identity();
        assert_eq!(identity(), first);
        std::fs::write(&path, "longer").expect("written");
        let second = identity();
        assert_ne!(second, first);
        // The same text in another file of this name.
        let other = path.with_extension("other");
        std::fs::write(&other, "longer").expect("written");
        std::fs::rename(&other, &path).expect("renamed");
        assert_ne!(identity(), second);
        std::fs::remove_file(path).expect("removed");
    }
}
