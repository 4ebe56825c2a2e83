//! Bytes on their way to a file, which other threads write.
//!
//! What is appended comes together in memory first. Small content is written in one go when it is complete; of larger content
//! each portion is written while the next one comes together, so that who makes it faster than the disk takes it waits for the
//! disk, and never more than two portions are in memory. A file that is not finished is removed.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::PathBuf,
};

use tokio::task::JoinHandle;

use crate::temp_file::{self, CreateError};

/// Bytes that are written at a time.
const PORTION_BYTES: usize = 256 << 10;

/// Why bytes are not in a file.
#[derive(Debug, thiserror::Error)]
#[error("{call} \"{}\" failed", path.display())]
pub(crate) struct SpoolError {
    /// The system call.
    pub(crate) call: &'static str,
    /// The file.
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) source: io::Error,
}

impl From<CreateError> for SpoolError {
    fn from(CreateError { path, source }: CreateError) -> Self {
        SpoolError { call: "open()", path, source }
    }
}

/// A place for new files.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// Any name in this directory.
    Directory(PathBuf),
    /// Beside this file: its name with a number behind it.
    Beside(PathBuf),
}

/// A file that goes when it is dropped; see [`Draft::path`].
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) file: File,
    /// Its name until somebody moves it away.
    pub(crate) path: PathBuf,
    is_moved: bool,
}

impl Draft {
    fn create(place: &Place) -> Result<Draft, SpoolError> {
        let (file, path) = match place {
            Place::Directory(directory) => temp_file::create(directory)?,
            Place::Beside(target) => temp_file::create_beside(target)?,
        };
        Ok(Draft { file, path, is_moved: false })
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<(), SpoolError> {
        let failed = |source| SpoolError { call: "pwrite()", path: self.path.clone(), source };
        self.file.write_all_at(bytes, at).map_err(failed)
    }

    /// Its name is gone: there is nothing to remove any more.
    pub(crate) fn mark_moved(&mut self) {
        self.is_moved = true;
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_moved {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Bytes on their way to a file.
pub(crate) struct Spool {
    place: Place,
    /// Bytes at the beginning that are written last.
    front_bytes: usize,
    buffer: Vec<u8>,
    draft: Option<Draft>,
    writing: Option<JoinHandle<Result<Draft, SpoolError>>>,
    /// Bytes that were handed to other threads.
    written: u64,
}

impl Spool {
    /// A spool whose file will be made at `place`, with `front_bytes` left free at its beginning.
    pub(crate) fn new(place: Place, front_bytes: usize) -> Self {
        Spool { place, front_bytes, buffer: Vec::new(), draft: None, writing: None, written: 0 }
    }

    /// Bytes that were appended.
    pub(crate) fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends bytes. Dropping the future loses them.
    ///
    /// # Errors
    /// An earlier portion could not be written.
    pub(crate) async fn append(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < PORTION_BYTES {
            return Ok(());
        }
        self.settle().await?;
        let (portion, at) = (std::mem::take(&mut self.buffer), self.front_bytes as u64 + self.written);
        self.written += portion.len() as u64;
        let (draft, place) = (self.draft.take(), self.place.clone());
        self.writing = Some(tokio::task::spawn_blocking(move || {
            let draft = draft.map_or_else(|| Draft::create(&place), Ok)?;
            draft.write(&portion, at)?;
            Ok(draft)
        }));
        Ok(())
    }

    /// Waits for the portion under way.
    async fn settle(&mut self) -> Result<(), SpoolError> {
        if let Some(writing) = &mut self.writing {
            let written = writing.await;
            self.writing = None;
            self.draft = Some(written.unwrap_or_else(|error| Err(self.failed(io::Error::other(error))))?);
        }
        Ok(())
    }

    fn failed(&self, source: io::Error) -> SpoolError {
        let (Place::Directory(path) | Place::Beside(path)) = self.place.clone();
        SpoolError { call: "write()", path, source }
    }

    /// Writes the rest and `front`, then has `finish` make something of the file: all by another thread.
    ///
    /// # Errors
    /// Those of writing and of `finish`.
    pub(crate) async fn finish<T: Send + 'static>(
        mut self,
        front: Vec<u8>,
        finish: impl FnOnce(&mut Draft) -> Result<T, SpoolError> + Send + 'static,
    ) -> Result<T, SpoolError> {
        debug_assert_eq!(front.len(), self.front_bytes);
        self.settle().await?;
        let (rest, written) = (std::mem::take(&mut self.buffer), self.written);
        let (draft, place) = (self.draft.take(), self.place.clone());
        let finished = tokio::task::spawn_blocking(move || {
            let mut draft = draft.map_or_else(|| Draft::create(&place), Ok)?;
            if written == 0 {
                let mut whole = front;
                whole.extend_from_slice(&rest);
                draft.write(&whole, 0)?;
            } else {
                draft.write(&rest, front.len() as u64 + written)?;
                draft.write(&front, 0)?;
            }
            finish(&mut draft)
        });
        finished.await.unwrap_or_else(|error| Err(self.failed(io::Error::other(error))))
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // A portion under way takes its file along when it is written.
        if let Some(draft) = self.draft.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn_blocking(move || drop(draft));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that goes with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            Scratch(std::env::temp_dir().join(format!("tidegate-spool-{name}-{}", std::process::id())))
        }
        fn files(&self) -> usize {
            fs::read_dir(&self.0).map_or(0, Iterator::count)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        // Dropping the runtime waits for its threads.
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
    }

    #[test]
    fn what_is_appended_is_in_the_file_behind_the_front() {
        let scratch = Scratch::new("whole");
        for (count, place) in [
            (0, Place::Directory(scratch.0.clone())),
            (3, Place::Beside(scratch.0.join("deep/er/target"))),
            (40_000, Place::Directory(scratch.0.clone())),
        ] {
            let piece = b"0123456789abcdefghij";
            let bytes = run(async {
                let mut spool = Spool::new(place, 5);
                for _ in 0..count {
                    spool.append(piece).await.expect("written");
                }
                assert_eq!(spool.len(), (count * piece.len()) as u64);
                let read = |draft: &mut Draft| Ok(fs::read(&draft.path).expect("readable"));
                spool.finish(b"front".to_vec(), read).await.expect("written")
            });
            assert_eq!(&bytes[..5], b"front");
            assert!(bytes[5..].chunks(piece.len()).all(|chunk| chunk == piece));
            assert_eq!(bytes.len(), 5 + count * piece.len());
        }
        assert_eq!(scratch.files(), 1, "only the directory that was made");
    }

    #[test]
    fn what_is_given_up_leaves_nothing() {
        let scratch = Scratch::new("dropped");
        run(async {
            let mut spool = Spool::new(Place::Directory(scratch.0.clone()), 0);
            for _ in 0..3 {
                spool.append(&[b'x'; PORTION_BYTES]).await.expect("written");
            }
        });
        assert_eq!(scratch.files(), 0);
    }

    #[test]
    fn a_directory_that_is_none_is_an_error() {
        let scratch = Scratch::new("none");
        fs::write(&scratch.0, "").expect("written");
        let error = run(async {
            let spool = Spool::new(Place::Directory(scratch.0.clone()), 0);
            spool.finish(Vec::new(), |_| Ok(())).await.expect_err("a file is no directory")
        });
        assert_eq!(error.call, "open()");
        let _ = fs::remove_file(&scratch.0);
    }
}
