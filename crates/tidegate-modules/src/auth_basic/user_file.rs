//! Password files in memory.

use std::{
    collections::HashMap,
    ffi::OsStr,
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
    time::{Duration, Instant},
};

use bstr::{BStr, BString, ByteSlice};
use sha2::{Digest, Sha256};

use super::password::{is_slow, matches, same};

/// How long a file is taken to be as it was: a change is seen a second later at the latest.
const FRESH: Duration = Duration::from_secs(1);

/// Files that are kept. Paths may hold variables, so that there is no end of them.
const FILES_MAX: usize = 1000;

/// What came of a name and a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Right,
    Wrong,
    NoUser,
}

/// What tells versions of a file apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

/// A password file.
#[derive(Debug)]
pub(super) struct UserFile {
    version: Version,
    hashes: HashMap<BString, BString>,
    /// By user: the password that was right last, hashed with [`process_key`].
    proven: Mutex<HashMap<BString, [u8; 32]>>,
    checked: Mutex<Instant>,
}

static FILES: RwLock<Option<HashMap<BString, Arc<UserFile>>>> = RwLock::new(None);

/// The file at `path`, if it was looked at within the last second.
pub(super) fn fresh(path: &[u8]) -> Option<Arc<UserFile>> {
    let file = known(path)?;
    let checked = *file.checked.lock().unwrap_or_else(PoisonError::into_inner);
    (checked.elapsed() < FRESH).then_some(file)
}

fn known(path: &[u8]) -> Option<Arc<UserFile>> {
    FILES.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.get(BStr::new(path)).cloned()
}

/// The file at `path` as it is now. Reads from disk: not for workers.
///
/// # Errors
/// Those of opening and reading.
pub(super) fn load(path: &[u8]) -> io::Result<Arc<UserFile>> {
    let os_path = Path::new(OsStr::from_bytes(path));
    let found = std::fs::metadata(os_path)?;
    let modified = (found.mtime(), found.mtime_nsec());
    let version = Version { inode: found.ino(), size: found.size(), modified };
    if let Some(file) = known(path).filter(|file| file.version == version) {
        *file.checked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        return Ok(file);
    }
    let hashes = parse(&std::fs::read(os_path)?);
    let checked = Mutex::new(Instant::now());
    let file = Arc::new(UserFile { version, hashes, proven: Mutex::default(), checked });
    let mut files = FILES.write().unwrap_or_else(PoisonError::into_inner);
    let files = files.get_or_insert_default();
    if files.len() >= FILES_MAX {
        files.clear();
    }
    files.insert(path.into(), file.clone());
    Ok(file)
}

/// Reads lines of `name:hash`, behind which further fields may follow; `#` begins a comment. The first line of a name
/// counts.
fn parse(text: &[u8]) -> HashMap<BString, BString> {
    let mut hashes = HashMap::new();
    for line in text.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        if line.starts_with(b"#") {
            continue;
        }
        if let Some((name, rest)) = line.split_once_str(b":") {
            let end = memchr::memchr(b':', rest).unwrap_or(rest.len());
            hashes.entry(BString::from(name)).or_insert_with(|| rest[..end].into());
        }
    }
    hashes
}

/// A key that only this process knows.
fn process_key() -> Option<&'static [u8; 32]> {
    static KEY: OnceLock<Option<[u8; 32]>> = OnceLock::new();
    let new = || {
        let mut key = [0; 32];
        getrandom::fill(&mut key).is_ok().then_some(key)
    };
    KEY.get_or_init(new).as_ref()
}

fn proof(hash: &[u8], password: &[u8]) -> Option<[u8; 32]> {
    let key = process_key()?;
    let length = (hash.len() as u64).to_le_bytes();
    Some(
        Sha256::new()
            .chain_update(key)
            .chain_update(length)
            .chain_update(hash)
            .chain_update(password)
            .finalize()
            .into(),
    )
}

impl UserFile {
    /// What a check comes to, where that can be told at once.
    pub(super) fn check_fast(&self, user: &[u8], password: &[u8]) -> Option<Check> {
        let Some(hash) = self.hashes.get(BStr::new(user)) else { return Some(Check::NoUser) };
        if !is_slow(hash) {
            return Some(if matches(password, hash) { Check::Right } else { Check::Wrong });
        }
        let proven = self.proven.lock().unwrap_or_else(PoisonError::into_inner).get(BStr::new(user)).copied()?;
        same(&proven, &proof(hash, password)?).then_some(Check::Right)
    }

    /// What a check comes to; takes as long as the hash does.
    pub(super) fn check(&self, user: &[u8], password: &[u8]) -> Check {
        if let Some(check) = self.check_fast(user, password) {
            return check;
        }
        let Some(hash) = self.hashes.get(BStr::new(user)) else { return Check::NoUser };
        if !matches(password, hash) {
            return Check::Wrong;
        }
        if let Some(proof) = proof(hash, password) {
            self.proven.lock().unwrap_or_else(PoisonError::into_inner).insert(user.into(), proof);
        }
        Check::Right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let hashes = parse(b"# a comment\na:1\r\nb:2:comment\n\na:3\nc:\nnothing\n:x\nlast:9");
        let get = |name: &str| hashes.get(BStr::new(name)).map(ToString::to_string);
        assert_eq!(get("a").as_deref(), Some("1"));
        assert_eq!(get("b").as_deref(), Some("2"));
        assert_eq!(get("c").as_deref(), Some(""));
        assert_eq!(get("last").as_deref(), Some("9"));
        assert_eq!(get("nothing"), None);
        assert_eq!(get("# a comment"), None);
    }

    #[test]
    fn a_right_password_is_remembered() {
        let text = b"jerry:$2b$04$abcdefghijklmnopqrstuuI6WoA.TSMTyz0.BS8GS1XTBvOjyH8vK\ntom:{PLAIN}cat";
        let version = Version { inode: 0, size: 0, modified: (0, 0) };
        let (hashes, checked) = (parse(text), Mutex::new(Instant::now()));
        let file = UserFile { version, hashes, proven: Mutex::default(), checked };
        assert_eq!(file.check_fast(b"jerry", b"mouse"), None);
        assert_eq!(file.check(b"jerry", b"cheese"), Check::Wrong);
        assert_eq!(file.check(b"jerry", b"mouse"), Check::Right);
        assert_eq!(file.check_fast(b"jerry", b"mouse"), Some(Check::Right));
        assert_eq!(file.check_fast(b"jerry", b"cheese"), None);
        assert_eq!(file.check_fast(b"tom", b"cat"), Some(Check::Right));
        assert_eq!(file.check_fast(b"tom", b"dog"), Some(Check::Wrong));
        assert_eq!(file.check_fast(b"spike", b"x"), Some(Check::NoUser));
    }
}
