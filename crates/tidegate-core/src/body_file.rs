//! Bodies of requests that outgrow memory: other threads write them to files, read and remove these.

use std::{
    fs::File,
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;

use crate::{
    body::{BodyError, RequestBody},
    log::Level,
    output::Buf,
    phase::Ready,
    request::Request,
    spool::{Draft, Place, Spool, SpoolError},
    static_files::{open::open_at_once, read::read_at},
};

/// Bytes of a body that are written at a time. Twice as many are in memory at most, beside `client_body_buffer_size`.
const PORTION_BYTES: usize = 64 << 10;

/// A body in a file, which goes with its last user unless it is to stay.
#[derive(Debug, Clone)]
pub struct BodyFile {
    draft: Arc<Draft>,
    len: u64,
}

impl BodyFile {
    fn new(mut draft: Draft, len: u64, keep: bool) -> BodyFile {
        if keep {
            draft.mark_moved();
        }
        BodyFile { draft: Arc::new(draft), len }
    }
    /// The file.
    pub fn file(&self) -> &Arc<File> {
        &self.draft.file
    }
    /// Its path; `$request_body_file`.
    pub fn path(&self) -> &Path {
        &self.draft.path
    }
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }
    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl From<SpoolError> for BodyError {
    fn from(SpoolError { call, path, source }: SpoolError) -> Self {
        BodyError::Store { call, path, source }
    }
}

impl RequestBody {
    /// Takes an open file for the body, which has this path; without `keep` it is removed when the request ends. Answers its
    /// length.
    ///
    /// # Errors
    /// The system does not tell the length. The body is as before then.
    pub fn set_file(&self, file: File, path: PathBuf, keep: bool) -> io::Result<u64> {
        let len = file.metadata()?.len();
        self.set(Vec::new());
        *self.file.borrow_mut() = Some(BodyFile::new(Draft::of(file, path), len, keep));
        Ok(len)
    }

    /// Gives a sub-request the body of another request, which was loaded.
    pub fn share(&self, other: &RequestBody) {
        self.set(other.memory.borrow().clone());
        self.file.borrow_mut().clone_from(&other.file.borrow());
    }

    /// The loaded body, if it is in a file: a piece to send.
    pub fn as_buf(&self) -> Option<Buf> {
        let file = self.file.borrow();
        file.as_ref().map(|file| Buf::File { file: file.file().clone(), offset: 0, len: file.len })
    }

    /// At most `count` bytes of the loaded body from `offset` on.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter than it was.
    pub fn read_piece(&self, offset: u64, count: usize) -> Ready<io::Result<Bytes>> {
        let count = usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX).min(count);
        if let Some(file) = &*self.file.borrow() {
            let file = file.file().clone();
            return Ready::later(async move {
                let piece = read_at(&file, offset, count).await?;
                if piece.len() == count { Ok(piece) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            });
        }
        let memory = self.memory.borrow();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(memory.len());
        Ready::Now(Ok(Bytes::copy_from_slice(&memory[start..start + count])))
    }
}

/// Opens a file that is to be a body. One whose path the kernel does not know is opened by another thread.
///
/// # Errors
/// It cannot be opened.
pub fn open_for_body(path: &Path) -> Ready<io::Result<File>> {
    match open_at_once(path) {
        Some(opened) => Ready::Now(opened),
        None => {
            let path = path.to_owned();
            Ready::later(async move {
                let opening = tokio::task::spawn_blocking(move || open_now(&path));
                opening.await.unwrap_or_else(|error| Err(io::Error::other(error)))
            })
        }
    }
}

/// Opens a file that is to be a body, whatever the disk takes for it. A pipe without a writer is empty.
///
/// # Errors
/// It cannot be opened.
pub fn open_now(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// What of a body does not fit into memory, on its way to a file. A body of which this is dropped leaves nothing.
pub(crate) struct Overflow<'a> {
    req: &'a Request,
    memory_bytes_max: usize,
    spool: Option<Box<Spool>>,
}

impl<'a> Overflow<'a> {
    /// Nothing yet, of the body of `req`.
    pub(crate) fn new(req: &'a Request) -> Self {
        Overflow { req, memory_bytes_max: req.http_conf().client_body_memory_bytes(), spool: None }
    }

    /// Takes what has come into memory, if that is too much for it. Waits where the disk is slower than the client.
    ///
    /// # Errors
    /// [`BodyError::Store`].
    pub(crate) async fn take(&mut self) -> Result<(), BodyError> {
        let in_memory = self.req.body.memory.borrow().len();
        if self.spool.is_none() && in_memory <= self.memory_bytes_max {
            return Ok(());
        }
        let spool = self.spool.get_or_insert_with(|| {
            let directory = self.req.conf().full_path(self.req.http_conf().client_body_temp_path());
            Box::new(Spool::new(Place::Directory(directory), 0).with_portions(PORTION_BYTES))
        });
        let mut piece = self.req.body.memory.take();
        spool.append(&piece).await?;
        piece.clear();
        self.req.body.memory.replace(piece);
        Ok(())
    }

    /// That was all: it is the request's body, if there was anything.
    ///
    /// # Errors
    /// [`BodyError::Store`].
    pub(crate) async fn finish(self) -> Result<(), BodyError> {
        let Some(spool) = self.spool else { return Ok(()) };
        let (req, len) = (self.req, spool.len());
        let draft = spool.finish(Vec::new(), Ok).await?;
        let level = if req.http_conf().client_body_memory_bytes() == 0 { Level::Notice } else { Level::Warn };
        let path = draft.path.display();
        req.log(level, format_args!("a client request body is buffered to a temporary file {path}"));
        req.body.memory.take();
        req.body.file.replace(Some(BodyFile::new(draft, len, req.http_conf().keeps_body_files())));
        Ok(())
    }
}

impl Request {
    /// Makes `bytes` the loaded body: in memory, or in a file if they are more than `memory_bytes_max`.
    ///
    /// # Errors
    /// [`BodyError::Store`]; the body is empty then.
    pub fn replace_body(self: &Rc<Self>, bytes: Vec<u8>, memory_bytes_max: usize) -> Ready<Result<(), BodyError>> {
        let fits = bytes.len() <= memory_bytes_max;
        self.body.set(bytes);
        if fits {
            return Ready::Now(Ok(()));
        }
        let req = self.clone();
        Ready::later(async move {
            let mut overflow = Overflow { memory_bytes_max, ..Overflow::new(&req) };
            overflow.take().await?;
            overflow.finish().await
        })
    }
}
