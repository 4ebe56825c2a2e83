//! An entry on disk: what a response said, then its body.
//!
//! ```text
//! offset  bytes
//!      0      8  "tidegate"
//!      8      4  version of this layout
//!     12      4  CRC-32 of what stands at 16..40
//!     16     24  times: fresh until (8), stale while it is fetched anew (4) or on errors (4), stored at (8)
//!     40      4  CRC-32 of what stands from 44 to the body
//!     44      4  bytes of the key's text
//!     48      2  bytes of `Vary`
//!     50      2  1 for the response to a HEAD, else 0
//!     52      4  bytes of the head
//!     56      8  bytes of the body
//!     64      8  Last-Modified, in seconds since 1970; -1 for none that counts
//!     72     16  hash of the variant; 0 without `Vary`
//!     88      8  when it was begun, by the zone's clock of purges
//!     96      8  the name of the family of variants
//!    104         "\nKEY: ", the key's text, "\n", `Vary`, the head with its empty line, the body
//! ```
//!
//! Numbers are little-endian. A file gets its name when it is complete; the sums find what a power cut left of one. The times
//! have a sum of their own because they alone are written anew, when the upstream says that an entry is still good.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;

use super::key::Key;
use crate::static_files::{open::open_at_once, read::read_at};

const MAGIC: &[u8; 8] = b"tidegate";
const VERSION: u32 = 2;
const TIMES_AT: usize = 16;
const TIMES_BYTES: usize = 24;
const SUM_AT: usize = 40;
const REST_AT: usize = 44;
/// Bytes ahead of the key's line.
pub(super) const FIXED_BYTES: usize = 104;
/// Stands ahead of the key's text, as in nginx's files, so that `grep` finds it.
const KEY_LABEL: &[u8] = b"\nKEY: ";

/// Files up to this size are read into memory as a whole: copying them into the output costs less than `sendfile`.
const WHOLE_BYTES_MAX: u64 = 64 << 10;
/// Bytes that are read of larger files to find the head: enough for most.
const FIRST_BYTES: usize = 4 << 10;
/// Longest that stands ahead of a body: the parts of it come from requests' and responses' heads, which are bounded.
const FRONT_BYTES_MAX: usize = 4 << 20;

/// Until when an entry may be served. Times are seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Times {
    /// Until then it is fresh.
    pub(crate) valid_until: u64,
    /// For so many seconds more while it is fetched anew.
    pub(crate) updating_secs: u32,
    /// For so many seconds more when that fails.
    pub(crate) error_secs: u32,
    /// When the response came.
    pub(crate) stored_at: u64,
}

impl Times {
    fn encode(self) -> [u8; TIMES_BYTES + 4] {
        let mut bytes = [0; TIMES_BYTES + 4];
        bytes[4..12].copy_from_slice(&self.valid_until.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.updating_secs.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.error_secs.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.stored_at.to_le_bytes());
        let sum = crc32(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Nothing for times that were being written when the machine went down: the entry is out of date then.
    fn decode(bytes: &[u8]) -> Times {
        if crc32(&bytes[TIMES_AT..TIMES_AT + TIMES_BYTES]) != u32_at(bytes, TIMES_AT - 4) {
            return Times::default();
        }
        Times {
            valid_until: u64_at(bytes, TIMES_AT),
            updating_secs: u32_at(bytes, TIMES_AT + 8),
            error_secs: u32_at(bytes, TIMES_AT + 12),
            stored_at: u64_at(bytes, TIMES_AT + 16),
        }
    }
}

/// What stands ahead of a body.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    /// Until when it may be served.
    pub(crate) times: Times,
    /// The text that the key is the hash of.
    pub(crate) key_text: Vec<u8>,
    /// Fields of requests that the response depends on, and the hash of those of the request that it answers.
    pub(crate) vary: Option<(Vec<u8>, Key)>,
    /// When the content changed, in seconds since 1970.
    pub(crate) last_modified: Option<i64>,
    /// Status line and fields, with the empty line.
    pub(crate) head: Vec<u8>,
    /// It is the response to a HEAD: its body is not here.
    pub(crate) is_bodiless: bool,
    /// When it was begun; see [`purges`](super::purges).
    pub(crate) began: u64,
    /// What the variants of a response and its main entry have in common.
    pub(crate) family: u64,
}

impl Front {
    /// Bytes that stand ahead of the body.
    pub(crate) fn len(&self) -> usize {
        let vary_bytes = self.vary.as_ref().map_or(0, |(names, _)| names.len());
        FIXED_BYTES + KEY_LABEL.len() + self.key_text.len() + 1 + vary_bytes + self.head.len()
    }

    /// All that stands ahead of a body of so many bytes.
    pub(crate) fn encode(&self, body_bytes: u64) -> Vec<u8> {
        let (vary, variant) = match &self.vary {
            Some((names, variant)) => (&names[..], variant.0),
            None => (&b""[..], [0; 16]),
        };
        let mut out = Vec::with_capacity(self.len());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.times.encode());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(self.key_text.len() as u32).to_le_bytes());
        out.extend_from_slice(&(vary.len() as u16).to_le_bytes());
        out.extend_from_slice(&u16::from(self.is_bodiless).to_le_bytes());
        out.extend_from_slice(&(self.head.len() as u32).to_le_bytes());
        out.extend_from_slice(&body_bytes.to_le_bytes());
        out.extend_from_slice(&self.last_modified.unwrap_or(-1).to_le_bytes());
        out.extend_from_slice(&variant);
        out.extend_from_slice(&self.began.to_le_bytes());
        out.extend_from_slice(&self.family.to_le_bytes());
        out.extend_from_slice(KEY_LABEL);
        out.extend_from_slice(&self.key_text);
        out.push(b'\n');
        out.extend_from_slice(vary);
        out.extend_from_slice(&self.head);
        let sum = crc32(&out[REST_AT..]);
        out[SUM_AT..REST_AT].copy_from_slice(&sum.to_le_bytes());
        out
    }
}

/// The body of an entry.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// In memory.
    Bytes(Bytes),
    /// The part of the file from `offset` on.
    File {
        /// The file.
        file: Arc<File>,
        /// Where the body begins.
        offset: u64,
        /// Bytes of the body.
        len: u64,
    },
}

/// An entry that was read.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// What stands ahead of the body.
    pub(crate) front: Front,
    /// The body.
    pub(crate) body: Body,
    /// Bytes of the file.
    pub(crate) file_bytes: u64,
}

/// Why an entry cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// There is no file.
    #[error("no such file")]
    NotFound,
    /// It is no entry, or a part of one: it has no use for anybody.
    #[error("cache file \"{}\" {why}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It is an entry with another key of the same hash.
    #[error("cache file \"{}\" has md5 collision", .0.display())]
    Collision(PathBuf),
    /// The system does not let us.
    #[error("{call} \"{}\" failed", path.display())]
    Io {
        /// The system call.
        call: &'static str,
        /// The file.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Reads the entry at `path`, without waiting for the disk on this thread.
///
/// # Errors
/// [`ReadError`].
pub(super) async fn read(path: PathBuf, key_text: &[u8]) -> Result<Stored, ReadError> {
    let failed = |call, source: io::Error| match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => ReadError::NotFound,
        _ => ReadError::Io { call, path: path.clone(), source },
    };
    let opened = match open_at_once(&path) {
        Some(opened) => opened,
        None => {
            let path = path.clone();
            tokio::task::spawn_blocking(move || File::open(path))
                .await
                .unwrap_or_else(|error| Err(io::Error::other(error)))
        }
    };
    let file = Arc::new(opened.map_err(|error| failed("open()", error))?);
    let meta = file.metadata().map_err(|error| failed("fstat()", error))?;
    if !meta.is_file() {
        return Err(ReadError::Broken { path, why: "is not a regular file" });
    }
    let first_bytes = if meta.len() <= WHOLE_BYTES_MAX { meta.len() as usize } else { FIRST_BYTES };
    let mut bytes = read_at(&file, 0, first_bytes).await.map_err(|error| failed("read()", error))?;
    let front_bytes = front_bytes(&bytes).map_err(|why| ReadError::Broken { path: path.clone(), why })?;
    if front_bytes > bytes.len() && bytes.len() == FIRST_BYTES {
        bytes = read_at(&file, 0, front_bytes).await.map_err(|error| failed("read()", error))?;
    }
    let (front, body_bytes) =
        decode(&bytes, front_bytes).map_err(|why| ReadError::Broken { path: path.clone(), why })?;
    if front.key_text != key_text {
        return Err(ReadError::Collision(path));
    }
    if meta.len() != front_bytes as u64 + body_bytes {
        return Err(ReadError::Broken { path, why: "is not as long as it should be" });
    }
    let body = if bytes.len() as u64 == meta.len() {
        Body::Bytes(bytes.slice(front_bytes..))
    } else {
        Body::File { file, offset: front_bytes as u64, len: body_bytes }
    };
    Ok(Stored { front, body, file_bytes: meta.len() })
}

/// What stands ahead of the body of the file at `path`; nothing for a file that is no entry. The thread may wait for the disk.
///
/// # Errors
/// Those of the system.
pub(super) fn read_front(path: &Path) -> io::Result<Option<Front>> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    (&file).take(FIRST_BYTES as u64).read_to_end(&mut bytes)?;
    let Ok(front_bytes) = front_bytes(&bytes) else { return Ok(None) };
    if front_bytes > bytes.len() {
        let rest = (front_bytes - bytes.len()) as u64;
        (&file).take(rest).read_to_end(&mut bytes)?;
    }
    Ok(decode(&bytes, front_bytes).ok().map(|(front, _)| front))
}

/// Bytes ahead of the body, as the beginning of a file says.
fn front_bytes(bytes: &[u8]) -> Result<usize, &'static str> {
    if bytes.len() < FIXED_BYTES {
        return Err("is too small");
    }
    if !bytes.starts_with(MAGIC) {
        return Err("is not one of ours");
    }
    if u32_at(bytes, MAGIC.len()) != VERSION {
        return Err("has another version");
    }
    let parts = u64::from(u32_at(bytes, 44)) + u64::from(u16_at(bytes, 48)) + u64::from(u32_at(bytes, 52));
    let front_bytes = parts.saturating_add((FIXED_BYTES + KEY_LABEL.len() + 1) as u64);
    match usize::try_from(front_bytes) {
        Ok(front_bytes) if front_bytes <= FRONT_BYTES_MAX => Ok(front_bytes),
        _ => Err("has too long header"),
    }
}

fn decode(bytes: &[u8], front_bytes: usize) -> Result<(Front, u64), &'static str> {
    let front = bytes.get(..front_bytes).ok_or("is too small")?;
    if crc32(&front[REST_AT..]) != u32_at(front, SUM_AT) {
        return Err("is damaged");
    }
    let (key_bytes, vary_bytes) = (u32_at(front, 44) as usize, usize::from(u16_at(front, 48)));
    let (key_text, rest) = front[FIXED_BYTES + KEY_LABEL.len()..].split_at(key_bytes);
    let (vary, head) = rest[1..].split_at(vary_bytes);
    let mut variant = [0; 16];
    variant.copy_from_slice(&front[72..88]);
    let last_modified = u64_at(front, 64) as i64;
    let front = Front {
        times: Times::decode(front),
        key_text: key_text.to_vec(),
        vary: (!vary.is_empty()).then(|| (vary.to_vec(), Key(variant))),
        last_modified: (last_modified != -1).then_some(last_modified),
        head: head.to_vec(),
        is_bodiless: u16_at(front, 50) != 0,
        began: u64_at(front, 88),
        family: u64_at(front, 96),
    };
    Ok((front, u64_at(bytes, 56)))
}

/// Reads any bytes as a file of ours, once as they are and once with the sums that they should have: nothing panics, and what is
/// read is written again as the same.
///
/// # Panics
/// Where that does not hold.
#[cfg(feature = "fuzzing")]
pub fn check_any_file(rest: &[u8]) {
    // Nothing else gets past the first look.
    let mut bytes = [MAGIC, &VERSION.to_le_bytes()[..], rest].concat();
    let Ok(len) = front_bytes(&bytes) else { return };
    let _ = decode(&bytes, len);
    if len > bytes.len() {
        return;
    }
    let sum = crc32(&bytes[TIMES_AT..TIMES_AT + TIMES_BYTES]);
    bytes[TIMES_AT - 4..TIMES_AT].copy_from_slice(&sum.to_le_bytes());
    let sum = crc32(&bytes[REST_AT..len]);
    bytes[SUM_AT..REST_AT].copy_from_slice(&sum.to_le_bytes());
    let (front, body_bytes) = decode(&bytes, len).expect("the sums are right");
    let again = front.encode(body_bytes);
    assert_eq!(front.len(), again.len());
    let len = front_bytes(&again).expect("written as an entry");
    let (read, read_bytes) = decode(&again, len).expect("written as an entry");
    assert_eq!((format!("{read:?}"), read_bytes), (format!("{front:?}"), body_bytes));
}

/// Writes an entry's times anew, if the file at `path` is still the one that was stored then.
///
/// # Errors
/// Those of the system.
pub(super) fn write_times(path: &Path, old_stored_at: u64, times: Times) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let mut bytes = [0; FIXED_BYTES];
    file.read_exact_at(&mut bytes, 0)?;
    let is_same = front_bytes(&bytes).is_ok() && Times::decode(&bytes).stored_at == old_stored_at;
    if is_same { file.write_all_at(&times.encode(), (TIMES_AT - 4) as u64) } else { Ok(()) }
}

pub(super) fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front() -> Front {
        Front {
            times: Times { valid_until: 100, updating_secs: 5, error_secs: 7, stored_at: 50 },
            key_text: b"http://a/b".to_vec(),
            vary: Some((b"Accept".to_vec(), Key::of(b"x"))),
            last_modified: Some(40),
            head: b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n".to_vec(),
            is_bodiless: true,
            began: 70,
            family: 60,
        }
    }

    fn read_bytes(bytes: &[u8], name: &str) -> Result<Stored, ReadError> {
        let path = std::env::temp_dir().join(format!("tidegate-cache-file-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("written");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let stored = runtime.block_on(read(path.clone(), b"http://a/b"));
        std::fs::remove_file(&path).expect("just written");
        stored
    }

    #[test]
    fn what_is_written_is_read() {
        for body in [&b""[..], b"hello", &[b'x'; 100_000]] {
            let front = front();
            let mut bytes = front.encode(body.len() as u64);
            assert_eq!(bytes.len(), front.len());
            bytes.extend_from_slice(body);
            let stored = read_bytes(&bytes, "whole").expect("readable");
            assert_eq!(format!("{:?}", stored.front), format!("{front:?}"));
            assert_eq!(stored.file_bytes, bytes.len() as u64);
            let read = match stored.body {
                Body::Bytes(bytes) => bytes.to_vec(),
                Body::File { file, offset, len } => {
                    let mut read = vec![0; len as usize];
                    file.read_exact_at(&mut read, offset).expect("readable");
                    read
                }
            };
            assert_eq!(read, body);
        }
    }

    #[test]
    fn what_is_cut_or_changed_is_no_entry() {
        let mut whole = front().encode(5);
        whole.extend_from_slice(b"hello");
        for len in 0..whole.len() {
            let error = read_bytes(&whole[..len], "cut").expect_err("a part");
            assert!(matches!(error, ReadError::Broken { .. }), "{len}: {error}");
        }
        let front_bytes = front().len();
        for at in 0..front_bytes {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x41;
            match read_bytes(&bytes, "changed") {
                // The times alone may be lost without the rest.
                Ok(stored) => {
                    assert!((12..40).contains(&at), "{at}");
                    assert_eq!(stored.front.times, Times::default());
                }
                Err(error) => assert!(matches!(error, ReadError::Broken { .. }), "{at}: {error}"),
            }
        }
        let other = Front { key_text: b"http://a/c".to_vec(), ..front() }.encode(0);
        assert!(matches!(read_bytes(&other, "other"), Err(ReadError::Collision(_))));
    }

    #[test]
    fn times_are_written_anew_where_nobody_was_faster() {
        let path = std::env::temp_dir().join(format!("tidegate-cache-times-{}", std::process::id()));
        std::fs::write(&path, front().encode(0)).expect("written");
        let times = Times { valid_until: 900, updating_secs: 1, error_secs: 2, stored_at: 60 };
        write_times(&path, 49, times).expect("another file's");
        let of_file = || Times::decode(&std::fs::read(&path).expect("readable"));
        assert_eq!(of_file(), front().times);
        write_times(&path, 50, times).expect("written");
        assert_eq!(of_file(), times);
        std::fs::remove_file(&path).expect("just written");
    }
}
