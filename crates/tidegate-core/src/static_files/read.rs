//! Reading files without holding up the worker: what the page cache has is read at once, the rest by another thread.

use std::{fs::File, io, os::fd::AsRawFd, sync::Arc};

use bytes::Bytes;

/// Reads what the page cache has; `None` where that takes a wait.
fn read_cached(file: &File, offset: u64, len: usize) -> Option<io::Result<Vec<u8>>> {
    let mut buf = Vec::<u8>::with_capacity(len);
    let mut done = 0;
    while done < len {
        let slice = libc::iovec { iov_base: buf.spare_capacity_mut()[done..].as_mut_ptr().cast(), iov_len: len - done };
        let Ok(at) = libc::off_t::try_from(offset + done as u64) else { break };
        // SAFETY: the descriptor is open, and the slice is the unused capacity of `buf`, which nobody else sees.
        let count = unsafe { libc::preadv2(file.as_raw_fd(), &slice, 1, at, libc::RWF_NOWAIT) };
        match count {
            0 => break,
            1.. => done += count as usize,
            _ => {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // A file system that cannot tell: most of these are in memory.
                    Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => return Some(read(file, offset, len)),
                    Some(libc::EAGAIN) => return None,
                    _ => return Some(Err(error)),
                }
            }
        }
    }
    // SAFETY: the kernel has written `done` bytes, within the capacity.
    unsafe { buf.set_len(done) };
    Some(Ok(buf))
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

/// The content of a file of `size` bytes, if the page cache has it all.
pub(super) fn cached_content(file: &File, size: u64) -> Option<Bytes> {
    let content = read_cached(file, 0, usize::try_from(size).ok()?)?.ok()?;
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
        assert_eq!(cached_content(&file, 10).as_deref(), Some(&b"0123456789"[..]));
        assert_eq!(cached_content(&file, 11), None);
    }
}
