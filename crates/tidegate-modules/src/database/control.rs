//! The socket in the data directory: how `tidegate sql` works on a database that a server has open.
//!
//! `tidegate.sock` is served by a thread of its own, so that an import or a dump never stands in a worker's way. Who may
//! open the socket may read the files beside it: its mode is 0600, and there is no password.

use std::{
    cell::{Cell, RefCell},
    io,
    os::{
        fd::AsRawFd,
        unix::{
            fs::{MetadataExt, PermissionsExt},
            net::{UnixListener as StdListener, UnixStream as StdStream},
        },
    },
    path::{Path, PathBuf},
    pin::Pin,
    rc::Rc,
    sync::OnceLock,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tidegate_net::{
    accept::accept_all,
    log::{self, Level},
};
use tidegate_rows::{
    Column, Execute, Flow, Format, QueryError, Row, ServerError, Sink, SinkClosed, Statement, Summary,
    frames::{self, Frames, tag},
};
use tidegate_sql::{Engine, Session};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Notify,
    task::LocalSet,
};

/// Name of the socket in the data directory.
pub const SOCKET: &str = "tidegate.sock";

/// The answer to a request about queues.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Messages, in JSON.
    pub(crate) messages: Vec<Vec<u8>>,
    /// How many it was done to.
    pub(crate) count: u64,
}

/// An answer that is on its way; a sentence if there is none.
pub(crate) type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answer, String>> + 'a>>;

/// What a client of the socket has of the queues. Dropping it gives back what the client has pulled.
pub(crate) trait Desk {
    /// Does what a request in JSON asks for.
    fn answer<'a>(&'a mut self, request: &'a [u8]) -> Answering<'a>;
}

/// Opens the queues of an open directory for a client.
pub(crate) type OpenDesk = fn(&Engine, &Path) -> Box<dyn Desk>;

/// Queues know databases, not the other way round.
static DESKS: OnceLock<OpenDesk> = OnceLock::new();

/// Requests about queues are answered by these from now on.
pub(crate) fn answer_queues_by(open: OpenDesk) {
    DESKS.get_or_init(|| open);
}

/// Bytes on their way to a client before the statement waits.
const BACKLOG_BYTES: usize = 256 << 10;

/// How often the socket is looked for where it was made.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Longest path of a socket; a longer one goes through `/proc`.
const SOCKET_PATH_MAX: usize = 100;

/// A path to the socket of a data directory that the system accepts, valid while the file is kept.
///
/// # Errors
/// The system's, if the directory cannot be opened.
pub fn socket_path(directory: &Path) -> io::Result<(PathBuf, Option<std::fs::File>)> {
    let path = directory.join(SOCKET);
    if path.as_os_str().len() <= SOCKET_PATH_MAX {
        return Ok((path, None));
    }
    let directory = std::fs::File::open(directory)?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd())), Some(directory)))
}

/// A socket in a data directory.
struct Bound {
    listener: StdListener,
    file: (u64, u64),
}

impl Bound {
    fn bind(directory: &Path) -> io::Result<Self> {
        let (path, _directory) = socket_path(directory)?;
        // Whoever left it has gone: the directory's lock is ours.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = StdListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let file = identity(directory).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { listener, file })
    }

    /// Makes the socket anew where the data directory was replaced and no other process serves the new one.
    fn bind_again(engine: &Engine, directory: &Path, file: (u64, u64)) -> Option<Self> {
        if identity(directory) == Some(file) || !directory.is_dir() {
            return None;
        }
        // The engine takes the lock of the directory that is there now.
        engine.schema_names();
        let (path, _directory) = socket_path(directory).ok()?;
        if StdStream::connect(path).is_ok() {
            return None;
        }
        Self::bind(directory).ok()
    }
}

/// Device and inode of the socket in a data directory.
fn identity(directory: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(directory.join(SOCKET)).ok()?;
    Some((found.dev(), found.ino()))
}

/// Serves the socket of an open engine on a thread of its own, as long as the process lives. A data directory that comes
/// to stand at the path later gets a socket of its own.
///
/// # Errors
/// The system's: no socket there, no thread.
pub fn serve(engine: Engine, directory: &Path) -> io::Result<()> {
    let bound = Bound::bind(directory)?;
    let directory = directory.to_owned();
    spawn("sql-control", move || async move {
        let served: Rc<Path> = directory.as_path().into();
        let mut next = Some(bound);
        while let Some(Bound { listener, file }) = next.take() {
            let accepted = accept_all(listener.into(), |client, _| {
                // A client that the event loop cannot watch is closed.
                if let Ok(stream) = UnixStream::from_std(client.into()) {
                    tokio::task::spawn_local(converse(engine.clone(), served.clone(), stream));
                }
            });
            tokio::select! {
                accepted = accepted => if let Err(error) = accepted {
                    log::note(Level::Error, format_args!("database: {SOCKET}: {error}"));
                },
                bound = replaced(&engine, &directory, file) => next = Some(bound),
            }
        }
    })
}

/// Waits until the data directory is another one than that with this socket; gives the socket in the new one.
async fn replaced(engine: &Engine, directory: &Path, file: (u64, u64)) -> Bound {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        if let Some(bound) = Bound::bind_again(engine, directory, file) {
            return bound;
        }
    }
}

/// Serves one client on a thread of its own: what `tidegate sql` does with an engine that it has opened itself.
///
/// # Errors
/// The system's, when it has no thread to give.
pub fn serve_one(
    engine: Engine,
    directory: &Path,
    stream: std::os::unix::net::UnixStream,
) -> io::Result<std::thread::JoinHandle<()>> {
    stream.set_nonblocking(true)?;
    let directory = directory.to_owned();
    spawn_joinable("sql-control", move || async move {
        if let Ok(stream) = UnixStream::from_std(stream) {
            converse(engine, directory.as_path().into(), stream).await;
        }
    })
}

fn spawn<F: Future<Output = ()>>(name: &str, body: impl FnOnce() -> F + Send + 'static) -> io::Result<()> {
    spawn_joinable(name, body).map(drop)
}

fn spawn_joinable<F: Future<Output = ()>>(
    name: &str,
    body: impl FnOnce() -> F + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(name.into()).spawn(move || LocalSet::new().block_on(&runtime, body()))
}

/// Talks with a client until it leaves.
async fn converse(engine: Engine, directory: Rc<Path>, stream: UnixStream) {
    let (mut reader, writer) = stream.into_split();
    let line = Rc::new(Line::default());
    let sending = tokio::task::spawn_local(send(Rc::clone(&line), writer));
    let version = engine.server_version();
    let mut hello = vec![frames::VERSION];
    hello.extend_from_slice(version.as_bytes());
    line.add(|out| frames::write_frame(tag::HELLO, &hello, out));
    // Ends with an error when the client has gone, as a rule.
    let _ = answer_all(&engine, &directory, &mut reader, &line).await;
    line.end();
    let _ = sending.await;
}

async fn answer_all(engine: &Engine, directory: &Path, reader: &mut OwnedReadHalf, line: &Rc<Line>) -> io::Result<()> {
    let mut session = match engine.session("") {
        Ok(session) => session,
        Err(error) => {
            line.add(|out| frames::write_error(&error, out));
            return Ok(());
        }
    };
    let mut desk = None;
    loop {
        let (tag, payload) = read_frame(reader).await?;
        match tag {
            tag::QUERY => {
                let ran = {
                    let statement = Statement { sql: &payload, params: &[] };
                    let mut sink = FrameSink { line: Rc::clone(line), frames: Frames::default() };
                    let run = session.execute(statement, &mut sink);
                    let mut tag = [0];
                    tokio::select! {
                        ran = run => Some(ran),
                        // A client says nothing while its statement runs but that it is to end, or that it has left.
                        said = reader.read(&mut tag) => {
                            if said? == 0 || tag[0] != tag::CANCEL {
                                return Ok(());
                            }
                            None
                        }
                    }
                };
                let ran = match ran {
                    Some(ran) => ran,
                    None => {
                        // The rest of the frame's head.
                        reader.read_exact(&mut [0; 4]).await?;
                        Err(ServerError::new(1317, b"70100", "Query execution was interrupted").into())
                    }
                };
                finish(&session, ran, line);
            }
            tag::BACKUP => {
                let name = String::from_utf8_lossy(&payload).into_owned();
                match engine.backup(&name).await {
                    Ok(path) => line.add(|out| {
                        frames::write_frame(tag::COPY, path.as_os_str().as_encoded_bytes(), out);
                    }),
                    Err(error) => line.add(|out| frames::write_error(&error, out)),
                }
            }
            tag::RESTORE => {
                let restored = engine.restore(&String::from_utf8_lossy(&payload));
                finish(&session, restored.map_err(QueryError::Server), line);
            }
            tag::QUEUE => answer_queue(engine, directory, &mut desk, &payload, line).await,
            // It came too late: the statement has ended by itself.
            tag::CANCEL => {}
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

async fn answer_queue(
    engine: &Engine,
    directory: &Path,
    desk: &mut Option<Box<dyn Desk>>,
    request: &[u8],
    line: &Line,
) {
    if desk.is_none() {
        *desk = DESKS.get().map(|open| open(engine, directory));
    }
    let answered = match desk {
        Some(desk) => desk.answer(request).await,
        None => Err("there are no queues here".to_owned()),
    };
    match answered {
        Ok(Answer { messages, count }) => line.add(|out| {
            messages.iter().for_each(|message| frames::write_frame(tag::MESSAGE, message, out));
            frames::write_frame(tag::DONE, count.to_string().as_bytes(), out);
        }),
        Err(reason) => line.add(|out| frames::write_error(&ServerError::new(1105, b"HY000", reason), out)),
    }
}

fn finish(session: &Session, ran: Result<(), QueryError>, line: &Line) {
    match ran {
        Ok(()) => line.add(|out| frames::write_frame(tag::DONE, session.schema().as_bytes(), out)),
        Err(QueryError::Server(error)) => line.add(|out| frames::write_error(&error, out)),
        Err(error) => {
            let error = ServerError::new(1105, b"HY000", error.to_string());
            line.add(|out| frames::write_error(&error, out));
        }
    }
}

async fn read_frame(reader: &mut OwnedReadHalf) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    reader.read_exact(&mut head).await?;
    let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if len > frames::PAYLOAD_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = Vec::with_capacity(len.min(BACKLOG_BYTES));
    reader.take(len as u64).read_to_end(&mut payload).await?;
    if payload.len() < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((head[0], payload))
}

/// Bytes on their way to the client.
#[derive(Default)]
struct Line {
    out: RefCell<Vec<u8>>,
    state: Cell<State>,
    /// There is something to send, or the end.
    filled: Notify,
    /// The statement that waits for room, or to hear that nobody reads.
    waiter: Cell<Option<Waker>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// Everything has been said.
    Ended,
    /// The client has gone.
    Lost,
}

impl Line {
    fn add(&self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.out.borrow_mut());
        self.filled.notify_one();
    }

    fn end(&self) {
        self.state.set(State::Ended);
        self.filled.notify_one();
    }

    fn wake(&self) {
        if let Some(waker) = self.waiter.take() {
            waker.wake();
        }
    }

    fn is_full(&self) -> bool {
        self.out.borrow().len() >= BACKLOG_BYTES
    }
}

async fn send(line: Rc<Line>, mut writer: OwnedWriteHalf) {
    loop {
        let bytes = line.out.take();
        if bytes.is_empty() {
            if line.state.get() == State::Ended {
                return;
            }
            line.wake();
            line.filled.notified().await;
            continue;
        }
        if writer.write_all(&bytes).await.is_err() {
            line.state.set(State::Lost);
            line.wake();
            return;
        }
    }
}

/// Where a statement's rows go.
struct FrameSink {
    line: Rc<Line>,
    frames: Frames,
}

impl Sink for FrameSink {
    fn columns(&mut self, columns: &[Column]) {
        self.frames.columns(columns, &mut self.line.out.borrow_mut());
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.frames.row(row, &mut self.line.out.borrow_mut());
        if !self.line.is_full() {
            return Flow::More;
        }
        self.line.filled.notify_one();
        Flow::Full
    }
    fn end_result(&mut self, summary: &Summary) {
        self.line.add(|out| self.frames.end_result(summary, out));
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        if self.line.state.get() == State::Lost {
            return Poll::Ready(Err(SinkClosed));
        }
        if !self.line.is_full() {
            return Poll::Ready(Ok(()));
        }
        self.line.waiter.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_sql::EngineOptions;

    #[test]
    fn a_replaced_directory_gets_a_socket() {
        let place = std::env::temp_dir().join(format!("tidegate-control-{}", std::process::id()));
        let (data, away) = (place.join("data"), place.join("away"));
        let _ = std::fs::remove_dir_all(&place);
        let engine = Engine::open(EngineOptions::new(&data)).expect("opened");
        let bound = Bound::bind(&data).expect("bound");
        assert!(Bound::bind_again(&engine, &data, bound.file).is_none(), "it is there");
        std::fs::rename(&data, &away).expect("moved");
        assert!(Bound::bind_again(&engine, &data, bound.file).is_none(), "there is no directory");
        std::fs::create_dir(&data).expect("made");
        let anew = Bound::bind_again(&engine, &data, bound.file).expect("bound");
        assert!(StdStream::connect(data.join(SOCKET)).is_ok());
        assert!(Bound::bind_again(&engine, &data, bound.file).is_none(), "somebody serves it");
        drop((anew, engine));
        std::fs::remove_dir_all(&place).expect("removed");
    }
}
