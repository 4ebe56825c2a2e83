//! The other end of a data directory's socket: in the server that has it open, or in this very process.

use std::io::{self, BufReader, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidegate_modules::database::control;
use tidegate_rows::frames::{self, FrameReader, Payload, tag};
use tidegate_rows::number::{append_double, append_float};
use tidegate_rows::{Column, Summary, Value};
use tidegate_sql::{Engine, EngineOptions, OpenError};

use super::Failure;
use super::interrupt::Running;

/// How long a server may take from locking the directory to serving its socket: it fills new schemas before.
const START: Duration = Duration::from_secs(10);

/// A session with the database.
pub(crate) struct Client {
    reader: FrameReader<BufReader<UnixStream>>,
    writer: UnixStream,
    /// Serves this session, when no server does.
    engine: Option<JoinHandle<()>>,
    pub(super) version: String,
    /// The current schema, empty if there is none.
    pub(super) schema: String,
    /// Whether `\\` escapes in the session's strings.
    pub(super) backslash_escapes: bool,
    directory: PathBuf,
}

/// The status bit of a session whose sql_mode has NO_BACKSLASH_ESCAPES.
const NO_BACKSLASH_ESCAPES: u16 = 512;

const NO_SENSE: &str = "the server sent something that makes no sense";

/// What a statement answers.
pub(super) enum Event<'a> {
    /// A result set begins.
    Columns(&'a [Column]),
    /// A row: a value for each column.
    Row(&'a [Column], &'a [Value<'a>]),
    /// A result ends.
    End(&'a Summary),
}

impl Client {
    /// Connects to the server that has the directory open, or opens it here.
    ///
    /// # Errors
    /// Why neither works, as a sentence.
    pub(crate) fn open(directory: &Path) -> Result<Self, String> {
        let begun = Instant::now();
        loop {
            if let Some(stream) = connect(directory)? {
                return Self::greet(directory, stream, None);
            }
            match Engine::open(EngineOptions::new(directory)) {
                Ok(engine) => {
                    let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
                    let thread = control::serve_one(engine, directory, theirs).map_err(|error| error.to_string())?;
                    return Self::greet(directory, ours, Some(thread));
                }
                // A server that has just started serves its socket a moment later.
                Err(OpenError::Locked { .. }) if begun.elapsed() < START => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(error @ OpenError::Locked { .. }) => {
                    return Err(format!("{error}, and no server answers on {}", control::SOCKET));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Whether no server has the directory open, but this process.
    pub(crate) fn is_alone(&self) -> bool {
        self.engine.is_some()
    }

    fn greet(directory: &Path, stream: UnixStream, engine: Option<JoinHandle<()>>) -> Result<Self, String> {
        let writer = stream.try_clone().map_err(|error| error.to_string())?;
        let mut reader = FrameReader::new(BufReader::with_capacity(256 << 10, stream));
        let frame = reader.next_frame().map_err(|error| format!("no answer from the server: {error}"))?;
        let version = match (frame.tag, frame.payload) {
            (tag::HELLO, [frames::VERSION, version @ ..]) => String::from_utf8_lossy(version).into_owned(),
            _ => return Err("the server is of another version of Tidegate".to_owned()),
        };
        let (schema, directory) = (String::new(), directory.to_owned());
        Ok(Self { reader, writer, engine, version, schema, backslash_escapes: true, directory })
    }

    /// Connects again to a server that has come back, in the schema of before. The directory is not opened here: that would
    /// keep the server out.
    ///
    /// # Errors
    /// Why that does not work, as a sentence.
    pub(super) fn reconnect(&mut self) -> Result<(), String> {
        let stream = connect(&self.directory)?.ok_or("no server answers yet; the next statement tries again")?;
        let schema = std::mem::take(&mut self.schema);
        *self = Self::greet(&self.directory, stream, None)?;
        if schema.is_empty() {
            return Ok(());
        }
        self.schema.clone_from(&schema);
        self.run_quietly(&format!("USE {}", super::name(&schema))).map_err(|failure| failure.to_string())
    }

    /// Whether a server does the work.
    pub(super) fn is_remote(&self) -> bool {
        self.engine.is_none()
    }

    /// Runs statements and tells of their results.
    ///
    /// # Errors
    /// The first statement's that fails, what `each` says, or a broken connection.
    pub(super) fn run(
        &mut self,
        sql: &[u8],
        mut each: impl FnMut(Event<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.send(tag::QUERY, sql)?;
        let _running = Running::on(&self.writer);
        let mut columns = Vec::new();
        let mut refused = None;
        loop {
            let frame = self.reader.next_frame()?;
            let bad = || Failure::Other(NO_SENSE.to_owned());
            // What the reader of the results refuses ends the reading of them, not the conversation.
            let told = match frame.tag {
                tag::COLUMNS => {
                    columns = Payload(frame.payload).columns().ok_or_else(bad)?;
                    each(Event::Columns(&columns))
                }
                tag::ROW => {
                    let mut payload = Payload(frame.payload);
                    let values: Option<Vec<Value<'_>>> = columns.iter().map(|_| payload.value()).collect();
                    each(Event::Row(&columns, &values.ok_or_else(bad)?))
                }
                tag::SUMMARY => {
                    let summary = Payload(frame.payload).summary().ok_or_else(bad)?;
                    self.backslash_escapes = summary.status & NO_BACKSLASH_ESCAPES == 0;
                    each(Event::End(&summary))
                }
                tag::DONE => {
                    self.schema = String::from_utf8_lossy(frame.payload).into_owned();
                    return refused.map_or(Ok(()), Err);
                }
                tag::ERROR => {
                    let error = Payload(frame.payload).error().ok_or_else(bad)?;
                    return Err(refused.unwrap_or(Failure::Statement(error)));
                }
                _ => return Err(bad()),
            };
            if let Err(failure) = told {
                refused.get_or_insert(failure);
                return refused.map_or(Ok(()), Err);
            }
        }
    }

    /// Runs statements whose results nobody wants.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(super) fn run_quietly(&mut self, sql: &str) -> Result<(), Failure> {
        self.run(sql.as_bytes(), |_| Ok(()))
    }

    /// The values of a query's rows as text, NULL as an empty one.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>, Failure> {
        let mut rows = Vec::new();
        self.run(sql.as_bytes(), |event| {
            if let Event::Row(_, values) = event {
                rows.push(values.iter().map(|value| text(*value)).collect());
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Has a schema copied; the answer is where the copy is.
    ///
    /// # Errors
    /// The server's.
    pub(super) fn copy(&mut self, schema: &str) -> Result<PathBuf, Failure> {
        self.send(tag::BACKUP, schema.as_bytes())?;
        let frame = self.reader.next_frame()?;
        match frame.tag {
            tag::COPY => Ok(PathBuf::from(std::ffi::OsString::from_vec(frame.payload.to_vec()))),
            _ => match Payload(frame.payload).error() {
                Some(error) => Err(error.into()),
                None => Err(Failure::Other(NO_SENSE.to_owned())),
            },
        }
    }

    /// Has a schema made of the copy that stands ready for it in the data directory.
    ///
    /// # Errors
    /// The server's.
    pub(super) fn restore(&mut self, schema: &str) -> Result<(), Failure> {
        self.send(tag::RESTORE, schema.as_bytes())?;
        let frame = self.reader.next_frame()?;
        match (frame.tag, Payload(frame.payload).error()) {
            (tag::DONE, _) => Ok(()),
            (_, Some(error)) => Err(error.into()),
            _ => Err(Failure::Other(NO_SENSE.to_owned())),
        }
    }

    /// Has something done with a queue; tells of messages, in JSON, and answers how many it was done to.
    ///
    /// # Errors
    /// The server's, what `each` says, or a broken connection.
    pub(crate) fn queue(
        &mut self,
        request: &serde_json::Value,
        mut each: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        self.send(tag::QUEUE, request.to_string().as_bytes())?;
        loop {
            let frame = self.reader.next_frame()?;
            match frame.tag {
                tag::MESSAGE => each(frame.payload)?,
                tag::DONE => {
                    let count = std::str::from_utf8(frame.payload).ok().and_then(|text| text.parse().ok());
                    return count.ok_or_else(|| Failure::Other(NO_SENSE.to_owned()));
                }
                _ => {
                    let error = Payload(frame.payload).error().filter(|_| frame.tag == tag::ERROR);
                    return Err(Failure::Other(error.map_or_else(|| NO_SENSE.to_owned(), |error| error.message)));
                }
            }
        }
    }

    fn send(&mut self, tag: u8, payload: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(payload.len() + 8);
        frames::write_frame(tag, payload, &mut frame);
        // A broken pipe here is the server's end, and must not be taken for that of our own output.
        self.writer.write_all(&frame).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => io::ErrorKind::ConnectionReset.into(),
            _ => error,
        })
    }

    /// Leaves, and closes the database if it was opened here.
    pub(crate) fn close(self) {
        let _ = self.writer.shutdown(std::net::Shutdown::Both);
        if let Some(engine) = self.engine {
            let _ = engine.join();
        }
    }
}

/// The socket of a running server, if there is one.
fn connect(directory: &Path) -> Result<Option<UnixStream>, String> {
    let (path, _open) = match control::socket_path(directory) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", directory.display())),
    };
    match UnixStream::connect(&path) {
        Ok(stream) => Ok(Some(stream)),
        // None yet, or left behind by a process that has gone.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) => Err(format!("{}: {error}", directory.join(control::SOCKET).display())),
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// A value as text, NULL as an empty one.
pub(super) fn text(value: Value<'_>) -> String {
    match value {
        Value::Null => String::new(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Float(value) => written(|out| append_float(out, value)),
        Value::Double(value) => written(|out| append_double(out, value)),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}
