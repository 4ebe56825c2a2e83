//! Reading files without holding up the worker: what the page cache has is read at once, the rest by another thread.

use std::{cell::Cell, fs::File, io, os::fd::AsRawFd, sync::Arc};

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::open::Patience;
use crate::clock;

/// How much is read at a time to fill the page cache.
const FETCH_BYTES: usize = 128 << 10;

/// A part of a file that was in the page cache when that was looked at.
#[derive(Clone, Copy)]
struct Known {
    /// Where the file is in memory. Another one may come to stand there; it is looked at again soon enough.
    file: usize,
    from: u64,
    to: u64,
    at_ms: u64,
}

/// How long that is believed.
const KNOWN_MS: u64 = 1000;

/// How many parts are remembered.
const KNOWN_COUNT: usize = 16;

thread_local! {
    /// Looking takes two system calls, which a file that is sent all the time should not cost each time.
    static KNOWN: [Cell<Known>; KNOWN_COUNT] = const { [const { Cell::new(Known { file: 0, from: 0, to: 0, at_ms: 0 }) }; KNOWN_COUNT] };
}

/// Reads what the page cache has; `None` where that takes a wait.
fn read_cached(file: &File, offset: u64, len: usize) -> Option<io::Result<Vec<u8>>> {
    let mut buf = Vec::with_capacity(len);
    match append_cached(file, offset, len, &mut buf) {
        Ok(()) => Some(Ok(buf)),
        // A file system that cannot tell: most of these are in memory.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL)) => {
            Some(read(file, offset, len))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => Some(Err(error)),
    }
}

/// Appends at most `len` bytes of a file from `offset` on to `buf`, fewer at its end.
///
/// # Errors
/// `WouldBlock` when the page cache does not have all of them; some may have been appended. File systems that cannot tell have
/// errors of their own.
pub(crate) fn append_cached(file: &File, offset: u64, len: usize, buf: &mut Vec<u8>) -> io::Result<()> {
    buf.reserve(len);
    let end = buf.len() + len;
    let mut offset = offset;
    while buf.len() < end {
        let room = end - buf.len();
        let slice = libc::iovec { iov_base: buf.spare_capacity_mut().as_mut_ptr().cast(), iov_len: room };
        let Ok(at) = libc::off_t::try_from(offset) else { break };
        // SAFETY: the descriptor is open, and the slice is unused capacity of `buf`, which nobody else sees.
        let count = unsafe { libc::preadv2(file.as_raw_fd(), &slice, 1, at, libc::RWF_NOWAIT) };
        match count {
            0 => break,
            1.. => {
                // SAFETY: the kernel has written so many bytes, within the capacity.
                unsafe { buf.set_len(buf.len() + count as usize) };
                offset += count as u64;
            }
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Whether the page cache has this byte, so that sending it waits for no disk. Where a file system cannot tell, it is
/// taken for granted: most of these are in memory.
fn is_cached(file: &File, offset: u64) -> bool {
    let mut byte = 0u8;
    let slice = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let Ok(at) = libc::off_t::try_from(offset) else { return true };
    // SAFETY: the descriptor is open, and the slice is one byte of ours.
    let count = unsafe { libc::preadv2(file.as_raw_fd(), &slice, 1, at, libc::RWF_NOWAIT) };
    count >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN)
}

/// Brings a part of a file into the page cache, by another thread; `None` when it is there, both ends at least.
pub(crate) fn fetch(file: &Arc<File>, offset: u64, len: u64) -> Option<JoinHandle<()>> {
    let slot = Arc::as_ptr(file).addr();
    let index = slot / 64 % KNOWN_COUNT;
    let known = KNOWN.with(|all| all[index].get());
    let (end, now_ms) = (offset + len, clock::steady_ms());
    if known.file == slot && known.from <= offset && end <= known.to && now_ms.saturating_sub(known.at_ms) < KNOWN_MS {
        return None;
    }
    if is_cached(file, offset) && (len < 2 || is_cached(file, end - 1)) {
        KNOWN.with(|all| all[index].set(Known { file: slot, from: offset, to: end, at_ms: now_ms }));
        return None;
    }
    let file = file.clone();
    Some(tokio::task::spawn_blocking(move || {
        let mut at = offset;
        while at < offset + len {
            // What goes wrong here will go wrong again for those who send the file, and they will say so.
            match read(&file, at, FETCH_BYTES) {
                Ok(bytes) if !bytes.is_empty() => at += bytes.len() as u64,
                _ => return,
            }
        }
    }))
}

/// Reads at most `len` bytes, waiting for the disk.
fn read(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let mut buf = vec![0; len];
    let mut done = 0;
    while done < len {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buf.truncate(done);
    Ok(buf)
}

/// The content of a file of `size` bytes, if it can be read whole; without patience only from the page cache.
pub(super) fn content(file: &File, size: u64, patience: Patience) -> Option<Bytes> {
    let len = usize::try_from(size).ok()?;
    let content = match patience {
        Patience::None => read_cached(file, 0, len)?,
        Patience::Disk => read(file, 0, len),
    };
    let content = content.ok()?;
    (content.len() as u64 == size).then(|| Bytes::from(content))
}

/// Reads at most `len` bytes of a file from `offset` on; fewer at its end.
///
/// # Errors
/// Those of reading.
pub async fn read_at(file: &Arc<File>, offset: u64, len: usize) -> io::Result<Bytes> {
    if let Some(result) = read_cached(file, offset, len) {
        return result.map(Bytes::from);
    }
    let file = file.clone();
    let task = tokio::task::spawn_blocking(move || read(&file, offset, len));
    task.await.map_err(io::Error::other)?.map(Bytes::from)
}

/// A file that is read past the page cache (`directio`), so that a large one does not push others out.
#[derive(Debug, Clone)]
pub struct DirectFile {
    plain: Arc<File>,
    /// The same file, opened anew for that; nothing where its file system does not do it.
    direct: Option<Arc<File>>,
    alignment: usize,
}

impl DirectFile {
    /// Opens `file` once more. Offsets and memory of reads will be multiples of `alignment`.
    pub async fn open(file: &Arc<File>, alignment: usize) -> Self {
        let plain = file.clone();
        let opening = tokio::task::spawn_blocking(move || {
            use std::os::unix::fs::OpenOptionsExt;
            let path = format!("/proc/self/fd/{}", plain.as_raw_fd());
            File::options().read(true).custom_flags(libc::O_DIRECT).open(path).ok()
        });
        let direct = opening.await.ok().flatten().map(Arc::new);
        // What disks of today want at least.
        let alignment = alignment.clamp(4096, 1 << 20).next_power_of_two();
        DirectFile { plain: file.clone(), direct, alignment }
    }

    /// Reads at most `len` bytes from `offset` on, by another thread; fewer at the file's end.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn read_at(&self, offset: u64, len: usize) -> io::Result<Bytes> {
        let file = self.clone();
        tokio::task::spawn_blocking(move || file.read(offset, len)).await.map_err(io::Error::other)?
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Bytes> {
        match self.direct.as_ref().map(|direct| self.read_aligned(direct, offset, len)) {
            Some(Err(error)) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Some(result) => return result,
            None => {}
        }
        read(&self.plain, offset, len).map(Bytes::from)
    }

    fn read_aligned(&self, direct: &File, offset: u64, len: usize) -> io::Result<Bytes> {
        use std::os::unix::fs::FileExt;
        let ahead = usize::try_from(offset % self.alignment as u64).map_err(io::Error::other)?;
        let span = (ahead + len).next_multiple_of(self.alignment);
        let mut buf = vec![0; span + self.alignment];
        let start = buf.as_ptr().align_offset(self.alignment);
        let aligned = &mut buf[start..start + span];
        let mut done = 0;
        while done < span {
            match direct.read_at(&mut aligned[done..], offset - ahead as u64 + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            // Only the end of the file is read in part; another try from there would not be aligned.
            if done % self.alignment != 0 {
                break;
            }
        }
        let end = done.clamp(ahead, ahead + len);
        Ok(Bytes::from(buf).slice(start + ahead..start + end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there() {
        let path = std::env::temp_dir().join(format!("tidegate-read-{}", std::process::id()));
        std::fs::write(&path, b"0123456789").expect("a writable directory");
        let file = Arc::new(File::open(&path).expect("just written"));
        std::fs::remove_file(&path).expect("just written");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let check = |offset, len, expected: &[u8]| {
            let bytes = runtime.block_on(read_at(&file, offset, len)).expect("readable");
            assert_eq!(bytes, expected, "{offset} {len}");
            assert_eq!(read(&file, offset, len).expect("readable"), expected);
        };
        let direct = runtime.block_on(DirectFile::open(&file, 512));
        let check_direct = |offset, len, expected: &[u8]| {
            assert_eq!(runtime.block_on(direct.read_at(offset, len)).expect("readable"), expected, "{offset} {len}");
        };
        check_direct(0, 100, b"0123456789");
        check_direct(3, 4, b"3456");
        check_direct(20, 10, b"");
        check(0, 10, b"0123456789");
        check(3, 4, b"3456");
        check(8, 10, b"89");
        check(20, 10, b"");
        check(0, 0, b"");
        assert!(fetch(&file, 0, 10).is_none() && fetch(&file, 9, 1).is_none());
        for patience in [Patience::None, Patience::Disk] {
            assert_eq!(content(&file, 10, patience).as_deref(), Some(&b"0123456789"[..]));
            assert_eq!(content(&file, 11, patience), None);
        }
    }

    #[test]
    fn fetches_what_memory_lost() {
        let path = std::env::temp_dir().join(format!("tidegate-fetch-{}", std::process::id()));
        std::fs::write(&path, vec![b'x'; 1 << 20]).expect("a writable directory");
        let file = Arc::new(File::open(&path).expect("just written"));
        std::fs::remove_file(&path).expect("just written");
        file.sync_all().expect("synced");
        // SAFETY: the descriptor is open; no memory is passed.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        // A file system that is memory itself has lost nothing.
        let was_cached = is_cached(&file, 0);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            match fetch(&file, 0, 1 << 20) {
                Some(task) => task.await.expect("no panic"),
                None => assert!(was_cached),
            }
        });
        assert!(is_cached(&file, 0) && is_cached(&file, (1 << 20) - 1));
    }
}
