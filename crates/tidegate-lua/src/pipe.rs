//! Child processes of `ngx.pipe`: started, watched, read from and written to without blocking the worker.
//!
//! The end of a process is told by a descriptor (`pidfd_open`), not by SIGCHLD: the supervisor's and the server's
//! signals stay as they are, and children that belong to others are never reaped.

use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use libc::c_int;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;

/// Bytes that one call keeps in memory until it has what it wants, as with cosockets.
const OUTPUT_BYTES_MAX: usize = 256 << 20;

/// Reads after which other requests have their turn: a process that writes without end never makes a read wait.
const READS_IN_A_ROW: u32 = 16;

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl End {
    /// What `wait` calls it.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            End::Exit(_) => "exit",
            End::Signal(_) => "signal",
        }
    }
    /// Status or signal.
    pub(crate) fn number(self) -> i32 {
        match self {
            End::Exit(number) | End::Signal(number) => number,
        }
    }
}

/// A program to start, with its arguments and settings.
pub(crate) struct Program {
    /// The program and its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// The whole environment, if it is not the worker's: names and values.
    pub(crate) environment: Option<Vec<(OsString, OsString)>>,
    /// What it writes to stderr comes with its stdout.
    pub(crate) merge_stderr: bool,
    /// Bytes read at a time.
    pub(crate) buffer_bytes: usize,
}

/// The three streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Stdin,
    Stdout,
    Stderr,
}

/// A child process.
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) merged: bool,
    /// Write, stdout read, stderr read, wait; in milliseconds, 0 for ever.
    pub(crate) timeouts_ms: [Cell<u64>; 4],
    life: Rc<Life>,
    stdin: RefCell<Option<Rc<Input>>>,
    stdout: RefCell<Option<Rc<Output>>>,
    stderr: RefCell<Option<Rc<Output>>>,
    /// Its end was told to a script; everything is closed.
    closed: Cell<bool>,
    waiting: Rc<Busy>,
}

/// Whether the process still runs; shared with the task that waits for its end.
#[derive(Default)]
struct Life {
    end: Cell<Option<End>>,
    waker: Cell<Option<Waker>>,
}

/// Our end of its stdout or stderr.
pub(crate) struct Output {
    pipe: pipe::Receiver,
    buffer: RefCell<BytesMut>,
    buffer_bytes: usize,
    ended: Cell<bool>,
    busy: Rc<Busy>,
}

/// Our end of its stdin.
pub(crate) struct Input {
    pipe: pipe::Sender,
    busy: Rc<Busy>,
}

/// At most one light thread uses a stream; another one may close the stream under it.
#[derive(Default)]
struct Busy {
    taken: Cell<bool>,
    aborted: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

/// The use of a stream by one light thread.
pub(crate) struct Use(Rc<Busy>);

impl Busy {
    fn take(self: &Rc<Self>) -> Option<Use> {
        (!self.taken.replace(true)).then(|| Use(self.clone()))
    }
    fn abort(&self) {
        self.aborted.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
    fn poll_aborted(&self, cx: &Context<'_>) -> bool {
        if !self.aborted.get() {
            self.waker.set(Some(cx.waker().clone()));
        }
        self.aborted.get()
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.taken.set(false);
    }
}

/// Why reading, writing or waiting ended early.
#[derive(Debug)]
pub(crate) enum Trouble {
    Timeout,
    Closed,
    Aborted,
    /// More than [`OUTPUT_BYTES_MAX`] stand before the end of what is wanted.
    TooMuch,
    System(io::Error),
}

impl Trouble {
    /// The message for scripts.
    pub(crate) fn message(&self) -> String {
        match self {
            Trouble::Timeout => "timeout".to_owned(),
            Trouble::Closed => "closed".to_owned(),
            Trouble::Aborted => "aborted".to_owned(),
            Trouble::TooMuch => "too much data".to_owned(),
            // The number is noise that OpenResty's message does not have.
            Trouble::System(error) => error.to_string().split(" (os error").next().unwrap_or_default().to_owned(),
        }
    }
}

/// The amount that a reader wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    All,
    Bytes(usize),
    Line,
    Any(usize),
}

/// Why a process was not started.
pub(crate) enum SpawnError {
    /// The program cannot be run: to the script this is a process that ended with status 1.
    Program(io::Error),
    /// The system has no process or pipe left.
    System(io::Error),
}

impl Process {
    /// Starts a process. Must be called inside a worker.
    pub(crate) fn spawn(program: &Program) -> Result<Process, SpawnError> {
        let system = SpawnError::System;
        let Some((first, rest)) = program.arguments.split_first() else {
            return Err(SpawnError::System(io::ErrorKind::InvalidInput.into()));
        };
        let mut command = Command::new(first);
        command.args(rest).arg0(first).stdin(Stdio::piped());
        if let Some(environment) = &program.environment {
            command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
        }
        let mut merged_output = None;
        if program.merge_stderr {
            let (reader, writer) = io::pipe().map_err(system)?;
            command.stdout(writer.try_clone().map_err(system)?).stderr(writer);
            merged_output = Some(OwnedFd::from(reader));
        } else {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::ExecutableFileBusy => SpawnError::Program(error),
            _ if error.raw_os_error() == Some(libc::ENOEXEC) => SpawnError::Program(error),
            _ => SpawnError::System(error),
        })?;
        let pid = child.id().cast_signed();
        let life = Rc::new(Life::default());
        watch(pid, life.clone()).map_err(system)?;
        let output = |fd: OwnedFd| {
            let pipe = pipe::Receiver::from_owned_fd(fd)?;
            io::Result::Ok(Some(Rc::new(Output {
                pipe,
                buffer: RefCell::default(),
                buffer_bytes: program.buffer_bytes,
                ended: Cell::new(false),
                busy: Rc::default(),
            })))
        };
        let stdout = merged_output.or_else(|| child.stdout.take().map(OwnedFd::from));
        let stdin = child.stdin.take().map(OwnedFd::from);
        let process = Process {
            pid,
            merged: program.merge_stderr,
            timeouts_ms: Default::default(),
            life,
            stdin: RefCell::default(),
            stdout: RefCell::default(),
            stderr: RefCell::default(),
            closed: Cell::new(false),
            waiting: Rc::default(),
        };
        if let Some(fd) = stdin {
            let pipe = pipe::Sender::from_owned_fd(fd).map_err(system)?;
            *process.stdin.borrow_mut() = Some(Rc::new(Input { pipe, busy: Rc::default() }));
        }
        if let Some(fd) = stdout {
            *process.stdout.borrow_mut() = output(fd).map_err(system)?;
        }
        if let Some(fd) = child.stderr.take() {
            *process.stderr.borrow_mut() = output(fd.into()).map_err(system)?;
        }
        Ok(process)
    }

    /// A process that ended before it began: its program could not be run.
    pub(crate) fn stillborn() -> Process {
        let life = Life { end: Cell::new(Some(End::Exit(1))), waker: Cell::new(None) };
        Process {
            pid: 0,
            merged: false,
            timeouts_ms: Default::default(),
            life: Rc::new(life),
            stdin: RefCell::default(),
            stdout: RefCell::default(),
            stderr: RefCell::default(),
            closed: Cell::new(false),
            waiting: Rc::default(),
        }
    }

    /// Whether a script has seen its end.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Its stdout or stderr.
    ///
    /// # Errors
    /// What scripts are told when there is none.
    pub(crate) fn output(&self, direction: Direction) -> Result<Rc<Output>, &'static str> {
        if self.closed.get() {
            return Err("closed");
        }
        if direction == Direction::Stderr && self.merged {
            return Err("merged to stdout");
        }
        let slot = if direction == Direction::Stderr { &self.stderr } else { &self.stdout };
        slot.borrow().clone().ok_or("closed")
    }

    /// Its stdin.
    ///
    /// # Errors
    /// What scripts are told when there is none.
    pub(crate) fn input(&self) -> Result<Rc<Input>, &'static str> {
        if self.closed.get() {
            return Err("closed");
        }
        self.stdin.borrow().clone().ok_or("closed")
    }

    /// Closes a stream; whoever uses it is told so.
    ///
    /// # Errors
    /// What scripts are told when it cannot be closed.
    pub(crate) fn shutdown(&self, direction: Direction) -> Result<(), &'static str> {
        if self.closed.get() {
            return Err("closed");
        }
        match direction {
            Direction::Stdin => {
                if let Some(input) = self.stdin.take() {
                    input.busy.abort();
                }
            }
            Direction::Stderr if self.merged => return Err("merged to stdout"),
            Direction::Stdout | Direction::Stderr => {
                let slot = if direction == Direction::Stdout { &self.stdout } else { &self.stderr };
                if let Some(output) = slot.take() {
                    output.busy.abort();
                }
            }
        }
        Ok(())
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// What scripts are told.
    pub(crate) fn kill(&self, signal: c_int) -> Result<(), String> {
        if self.closed.get() || self.life.end.get().is_some() {
            return Err("exited".to_owned());
        }
        // SAFETY: takes two integers. The process has not been reaped, so that the number is still its own.
        if unsafe { libc::kill(self.pid, signal) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        Err(match error.raw_os_error() {
            Some(libc::EINVAL) => "invalid signal".to_owned(),
            Some(libc::ESRCH) => "exited".to_owned(),
            _ => Trouble::System(error).message(),
        })
    }

    /// Its end, if that is known already; everything is closed then.
    pub(crate) fn take_end(&self) -> Option<End> {
        let end = self.life.end.get()?;
        self.close();
        Some(end)
    }

    /// The right to wait for its end, until it is dropped; `None` while somebody else has it.
    pub(crate) fn begin_wait(&self) -> Option<Use> {
        self.waiting.take()
    }

    /// Waits for its end.
    pub(crate) async fn wait(&self, right: Use) -> Result<End, Trouble> {
        let ended = poll_fn(|cx| match self.life.end.get() {
            Some(end) => Poll::Ready(end),
            None => {
                self.life.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        });
        let end = with_timeout(self.timeouts_ms[3].get(), ended).await;
        drop(right);
        if end.is_ok() {
            self.close();
        }
        end
    }

    fn close(&self) {
        for direction in [Direction::Stdin, Direction::Stdout, Direction::Stderr] {
            // Streams that are closed or merged need no closing.
            let _ = self.shutdown(direction);
        }
        self.closed.set(true);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.life.end.get().is_none() {
            // SAFETY: takes two integers; not reaped yet, so that the number is still its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
    }
}

async fn with_timeout<T>(timeout_ms: u64, future: impl Future<Output = T>) -> Result<T, Trouble> {
    if timeout_ms == 0 {
        return Ok(future.await);
    }
    tokio::time::timeout(Duration::from_millis(timeout_ms), future).await.map_err(|_| Trouble::Timeout)
}

impl Output {
    /// The right to read, until it is dropped; `None` while somebody else has it.
    pub(crate) fn begin(&self) -> Option<Use> {
        self.busy.take()
    }

    /// Reads what `want` says. With an error comes what had been read until then.
    pub(crate) async fn read(&self, _right: Use, want: Want, timeout_ms: u64) -> Result<Vec<u8>, (Trouble, Vec<u8>)> {
        let (mut searched, mut reads) = (0, 0u32);
        let trouble = loop {
            if let Some(data) = self.take_wanted(want, &mut searched) {
                return Ok(data);
            }
            if self.ended.get() {
                break Trouble::Closed;
            }
            if self.buffer.borrow().len() > OUTPUT_BYTES_MAX {
                break Trouble::TooMuch;
            }
            if let Err(trouble) = with_timeout(timeout_ms, self.fill()).await.and_then(|filled| filled) {
                break trouble;
            }
            reads = reads.wrapping_add(1);
            if reads.is_multiple_of(READS_IN_A_ROW) {
                tokio::task::yield_now().await;
            }
        };
        Err((trouble, self.buffer.borrow_mut().split().to_vec()))
    }

    /// Takes what is wanted from the buffer, if it is there. The first `searched` bytes have no end of a line in them.
    fn take_wanted(&self, want: Want, searched: &mut usize) -> Option<Vec<u8>> {
        let mut buffer = self.buffer.borrow_mut();
        match want {
            Want::All if self.ended.get() => Some(buffer.split().to_vec()),
            Want::All => None,
            Want::Bytes(count) => (buffer.len() >= count).then(|| buffer.split_to(count).to_vec()),
            Want::Any(max) => (!buffer.is_empty()).then(|| {
                let count = buffer.len().min(max);
                buffer.split_to(count).to_vec()
            }),
            Want::Line => {
                let Some(at) = memchr::memchr(b'\n', &buffer[*searched..]) else {
                    *searched = buffer.len();
                    return None;
                };
                let mut line = buffer.split_to(*searched + at + 1).to_vec();
                line.pop();
                // As lua-nginx-module does for sockets, wherever they stand.
                line.retain(|&byte| byte != b'\r');
                Some(line)
            }
        }
    }

    /// Reads what is there, or waits for it.
    async fn fill(&self) -> Result<(), Trouble> {
        loop {
            if self.busy.aborted.get() {
                return Err(Trouble::Aborted);
            }
            let result = {
                let mut buffer = self.buffer.borrow_mut();
                buffer.reserve(self.buffer_bytes);
                self.pipe.try_read_buf(&mut *buffer)
            };
            match result {
                Ok(count) => {
                    self.ended.set(count == 0);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(Trouble::System(error)),
            }
            let mut readable = std::pin::pin!(self.pipe.readable());
            poll_fn(|cx| {
                if self.busy.poll_aborted(cx) {
                    return Poll::Ready(Err(Trouble::Aborted));
                }
                readable.as_mut().poll(cx).map_err(Trouble::System)
            })
            .await?;
        }
    }
}

impl Input {
    /// The right to write, until it is dropped; `None` while somebody else has it.
    pub(crate) fn begin(&self) -> Option<Use> {
        self.busy.take()
    }

    /// Writes all of `data`.
    pub(crate) async fn write(&self, _right: Use, data: &[u8], timeout_ms: u64) -> Result<usize, Trouble> {
        let mut done = 0;
        loop {
            done += self.write_now(&data[done..])?;
            if done == data.len() {
                return Ok(done);
            }
            with_timeout(timeout_ms, self.writable()).await??;
        }
    }

    /// Writes what the pipe takes without a wait; answers how much that was.
    pub(crate) fn write_now(&self, data: &[u8]) -> Result<usize, Trouble> {
        let mut done = 0;
        while done < data.len() {
            match self.pipe.try_write(&data[done..]) {
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(Trouble::Closed),
                Err(error) => return Err(Trouble::System(error)),
            }
        }
        Ok(done)
    }

    async fn writable(&self) -> Result<(), Trouble> {
        let mut writable = std::pin::pin!(self.pipe.writable());
        poll_fn(|cx| {
            if self.busy.poll_aborted(cx) {
                return Poll::Ready(Err(Trouble::Aborted));
            }
            writable.as_mut().poll(cx).map_err(Trouble::System)
        })
        .await
    }
}

/// Starts the task that waits for the end of process `pid` and reaps it.
fn watch(pid: i32, life: Rc<Life>) -> io::Result<()> {
    // SAFETY: takes two integers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = c_int::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and belongs to nobody else. The system has set its close-on-exec flag.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an `OwnedFd` gives the same descriptor at every call, and holds it open until it is dropped.
    let fd = unsafe { AsyncFd::register(fd) }.map_err(io::Error::from)?;
    tokio::task::spawn_local(async move {
        let end = loop {
            let Ok(mut guard) = fd.readable().await else { return };
            match reap(fd.get_ref()) {
                Ok(Some(end)) => break end,
                Ok(None) => guard.clear_ready(),
                // Somebody else reaped it (a script through the C library).
                Err(_) => break End::Exit(0),
            }
        };
        life.end.set(Some(end));
        if let Some(waker) = life.waker.take() {
            waker.wake();
        }
    });
    Ok(())
}

/// The end of the process behind `fd`, if it has come.
fn reap(fd: &OwnedFd) -> io::Result<Option<End>> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let id = libc::id_t::try_from(fd.as_raw_fd()).unwrap_or(0);
    // SAFETY: `info` is large enough, and zero bytes are a valid value of it.
    let (answer, info) = unsafe {
        let answer = libc::waitid(libc::P_PIDFD, id, info.as_mut_ptr(), libc::WEXITED | libc::WNOHANG);
        (answer, info.assume_init())
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: waitid fills these in; they are 0 when nothing has happened.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((pid != 0).then_some(if info.si_code == libc::CLD_EXITED { End::Exit(status) } else { End::Signal(status) }))
}

/// The variable of `name=value`.
pub(crate) fn split_variable(text: &[u8]) -> Option<(OsString, OsString)> {
    use std::os::unix::ffi::OsStrExt;
    // As the C library has it, a name is at least one byte.
    let at = 1 + memchr::memchr(b'=', text.get(1..)?)?;
    Some((OsStr::from_bytes(&text[..at]).to_owned(), OsStr::from_bytes(&text[at + 1..]).to_owned()))
}
