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
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, task::JoinHandle};

use crate::temp_file::{self, CreateError};

/// Bytes that are written at a time, unless [`Spool::with_portions`] says something else.
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

/// How many files there are, or are about to be, whose names somebody still has to remove.
static UNDER_WAY: Mutex<usize> = Mutex::new(0);

static NONE_IS_LEFT: Condvar = Condvar::new();

/// One of the files that are [`UNDER_WAY`]; begun before another thread makes it.
#[derive(Debug)]
struct Ticket;

impl Ticket {
    fn new() -> Ticket {
        *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Ticket
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut count = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        if *count == 0 {
            NONE_IS_LEFT.notify_all();
        }
    }
}

/// Waits until the threads that write files for requests have removed those that nobody wants any more; not longer than
/// `timeout`, as a disk may hang. For the end of the process, when there are no workers left.
pub fn settle_files(timeout: Duration) {
    let count = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
    drop(NONE_IS_LEFT.wait_timeout_while(count, timeout, |count| *count > 0));
}

/// A place for new files.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// Any name in this directory.
    Directory(PathBuf),
    /// Beside this file: its name with a number behind it.
    Beside(PathBuf),
}

/// What becomes of a file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Removal {
    /// Another thread removes it: giving a large file's room back takes a while.
    Elsewhere,
    /// It is removed at once: somebody has chosen it, and may use it again.
    AtOnce,
    /// It stays.
    Never,
}

/// A file that is removed when this is dropped; see [`Draft::path`].
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) file: Arc<File>,
    /// Its name until somebody moves it away.
    pub(crate) path: PathBuf,
    removal: Removal,
    /// Until its name is removed.
    ticket: Option<Ticket>,
}

impl Draft {
    fn create(place: &Place, ticket: Ticket) -> Result<Draft, SpoolError> {
        let (file, path) = match place {
            Place::Directory(directory) => temp_file::create(directory)?,
            Place::Beside(target) => temp_file::create_beside(target)?,
        };
        Ok(Draft { file: Arc::new(file), path, removal: Removal::Elsewhere, ticket: Some(ticket) })
    }

    /// Takes charge of a file to which somebody else has given its name.
    pub(crate) fn of(file: File, path: PathBuf) -> Draft {
        Draft { file: Arc::new(file), path, removal: Removal::AtOnce, ticket: None }
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<(), SpoolError> {
        let failed = |source| SpoolError { call: "pwrite()", path: self.path.clone(), source };
        self.file.write_all_at(bytes, at).map_err(failed)
    }

    /// There is nothing to remove any more: it has another name now, or may stay.
    pub(crate) fn mark_moved(&mut self) {
        self.removal = Removal::Never;
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let mut name = || Doomed { path: std::mem::take(&mut self.path), _ticket: self.ticket.take() };
        match (self.removal, Handle::try_current()) {
            (Removal::Never, _) => {}
            (Removal::Elsewhere, Ok(runtime)) => {
                let doomed = name();
                runtime.spawn_blocking(move || drop(doomed));
            }
            (Removal::Elsewhere | Removal::AtOnce, _) => drop(name()),
        }
    }
}

/// A name that is removed when this is dropped, so that even a thread that never begins to remove it does so.
struct Doomed {
    path: PathBuf,
    /// Given back once the name is gone.
    _ticket: Option<Ticket>,
}

impl Drop for Doomed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Bytes on their way to a file.
pub(crate) struct Spool {
    place: Place,
    /// Bytes at the beginning that are written last.
    front_bytes: usize,
    portion_bytes: usize,
    buffer: Vec<u8>,
    draft: Option<Draft>,
    writing: Option<JoinHandle<Result<Draft, SpoolError>>>,
    /// Bytes that were handed to other threads.
    written: u64,
}

impl Spool {
    /// A spool whose file will be made at `place`, with `front_bytes` left free at its beginning.
    pub(crate) fn new(place: Place, front_bytes: usize) -> Self {
        let portion_bytes = PORTION_BYTES;
        Spool { place, front_bytes, portion_bytes, buffer: Vec::new(), draft: None, writing: None, written: 0 }
    }

    /// Keeps so much in memory before it writes.
    pub(crate) fn with_portions(mut self, bytes: usize) -> Self {
        self.portion_bytes = bytes;
        self
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
        if self.buffer.len() < self.portion_bytes {
            return Ok(());
        }
        self.settle().await?;
        let (portion, at) = (std::mem::take(&mut self.buffer), self.front_bytes as u64 + self.written);
        self.written += portion.len() as u64;
        let draft = self.draft_or_place();
        self.writing = Some(tokio::task::spawn_blocking(move || {
            let draft = draft.or_else(|(place, ticket)| Draft::create(&place, ticket))?;
            draft.write(&portion, at)?;
            Ok(draft)
        }));
        Ok(())
    }

    /// The file, or where another thread is to make it.
    fn draft_or_place(&mut self) -> Result<Draft, (Place, Ticket)> {
        self.draft.take().ok_or_else(|| (self.place.clone(), Ticket::new()))
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
        finish: impl FnOnce(Draft) -> Result<T, SpoolError> + Send + 'static,
    ) -> Result<T, SpoolError> {
        debug_assert_eq!(front.len(), self.front_bytes);
        self.settle().await?;
        let (rest, written) = (std::mem::take(&mut self.buffer), self.written);
        let draft = self.draft_or_place();
        let finished = tokio::task::spawn_blocking(move || {
            let draft = draft.or_else(|(place, ticket)| Draft::create(&place, ticket))?;
            if written == 0 {
                let mut whole = front;
                whole.extend_from_slice(&rest);
                draft.write(&whole, 0)?;
            } else {
                draft.write(&rest, front.len() as u64 + written)?;
                draft.write(&front, 0)?;
            }
            finish(draft)
        });
        finished.await.unwrap_or_else(|error| Err(self.failed(io::Error::other(error))))
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
                let read = |draft: Draft| Ok(fs::read(&draft.path).expect("readable"));
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
    fn what_is_being_written_when_the_workers_end_is_removed() {
        let scratch = Scratch::new("ended");
        for _ in 0..50 {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let mut spool = Spool::new(Place::Directory(scratch.0.clone()), 0);
            runtime.block_on(spool.append(&[b'x'; PORTION_BYTES])).expect("begun");
            runtime.shutdown_background();
            drop(spool);
            settle_files(Duration::from_secs(60));
            assert_eq!(scratch.files(), 0);
        }
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
