//! The file that a LOAD DATA reads: one on the server, or what a client has sent, which was kept first.
//!
//! A client's file is kept before the statement writes its first row, so that no lock waits for a client. It is in memory as long as it
//! is small, then in a file without a name in the data directory.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
};

use tidegate_rows::ServerError;

use crate::{errors, task};

/// Bytes of a client's file that are kept in memory.
const MEMORY_BYTES_MAX: usize = 1 << 20;
/// Bytes of a client's file.
pub(crate) const SENT_BYTES_MAX: u64 = 64 << 30;
/// Read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Where the bytes come from.
#[derive(Debug)]
pub(crate) struct FileSource {
    memory: Vec<u8>,
    /// All of it, if it is not in memory.
    file: Option<Arc<File>>,
    size: u64,
}

impl FileSource {
    /// These bytes.
    pub(crate) fn of_bytes(memory: Vec<u8>) -> Self {
        let size = memory.len() as u64;
        Self { memory, file: None, size }
    }

    /// A file on the server.
    pub(crate) fn of_file(file: File, size: u64) -> Self {
        Self { memory: Vec::new(), file: Some(Arc::new(file)), size }
    }

    /// Adds bytes; those that do not stay in memory go into a file in `directory`.
    ///
    /// # Errors
    /// The disk's; 1235 beyond [`SENT_BYTES_MAX`].
    pub(crate) fn push(&mut self, bytes: Vec<u8>, directory: &Path) -> Result<(), ServerError> {
        if self.size + bytes.len() as u64 > SENT_BYTES_MAX {
            return Err(errors::unsupported("a file of more than 64 GiB"));
        }
        if self.file.is_none() && self.memory.len() + bytes.len() <= MEMORY_BYTES_MAX {
            self.memory.extend_from_slice(&bytes);
            self.size += bytes.len() as u64;
            return Ok(());
        }
        let (file, directory) = (self.file.clone(), directory.to_owned());
        let mut all = std::mem::take(&mut self.memory);
        let at = self.size - all.len() as u64;
        all.extend_from_slice(&bytes);
        self.size += bytes.len() as u64;
        let written = off_thread(move || {
            let file = file.map_or_else(|| nameless(&directory).map(Arc::new), Ok)?;
            file.write_all_at(&all, at)?;
            Ok(file)
        })?;
        self.file = Some(written.map_err(|error| errors::file_not_written("a temporary file", error))?);
        Ok(())
    }

    /// Appends bytes from `at` on to `out`; answers how many, 0 at the end.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn read_at(&self, at: u64, out: &mut Vec<u8>) -> Result<usize, ServerError> {
        let left = self.size.saturating_sub(at);
        let count = CHUNK_BYTES.min(usize::try_from(left).unwrap_or(CHUNK_BYTES));
        let Some(file) = &self.file else {
            let from = usize::try_from(at).unwrap_or(usize::MAX).min(self.memory.len());
            out.extend_from_slice(&self.memory[from..][..count]);
            return Ok(count);
        };
        let file = Arc::clone(file);
        let read = off_thread(move || {
            let mut chunk = vec![0; count];
            let read = file.read_at(&mut chunk, at)?;
            chunk.truncate(read);
            Ok(chunk)
        })?;
        let chunk = read.map_err(|error| errors::file_not_read("the file", error))?;
        out.extend_from_slice(&chunk);
        Ok(chunk.len())
    }
}

/// Does what waits for a disk where it keeps no worker from its work.
///
/// # Errors
/// 1317: nobody waits for the statement any more.
pub(crate) fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<io::Result<T>, ServerError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return Ok(work()) };
    match task::block_on(runtime.spawn_blocking(work)) {
        Ok(done) => Ok(done.unwrap_or_else(|error| Err(io::Error::other(error)))),
        Err(task::Cancelled) => Err(errors::interrupted()),
    }
}

/// A file that is gone when it is closed.
fn nameless(directory: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(directory) {
        Ok(file) => Ok(file),
        // Not all file systems have such files.
        Err(_) => {
            let mut number = [0; 8];
            getrandom::fill(&mut number).map_err(io::Error::other)?;
            let path = directory.join(format!(".load-{:016x}", u64::from_le_bytes(number)));
            let file = options.create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_back_from_memory_and_file() {
        let directory = std::env::temp_dir();
        let mut source = FileSource::of_bytes(Vec::new());
        let piece: Vec<u8> = (0..200_000u32).map(|index| (index % 251) as u8).collect();
        let mut all = Vec::new();
        for count in 1..=12 {
            source.push(piece.clone(), &directory).unwrap();
            all.extend_from_slice(&piece);
            let (mut read, mut at) = (Vec::new(), 0);
            loop {
                match source.read_at(at, &mut read).unwrap() {
                    0 => break,
                    more => at += more as u64,
                }
            }
            assert!(read == all, "{count}");
        }
        assert!(source.file.is_some() && source.memory.is_empty());
    }
}
