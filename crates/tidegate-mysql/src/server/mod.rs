//! The server's side of a connection: it greets, logs the client in, and answers one command after another.
//!
//! [`Server`] knows packets and commands. It does not know what a statement means: that is its [`Backend`]'s; nor where
//! bytes come from: that is a [`Transport`]'s. Whoever owns the socket reads into [`Server::space`] and calls
//! [`Server::answer`] until that asks for more.
//!
//! Reading order: [`command`], [`login`], [`statements`], then this, `entry` and `commands`.

mod bulk;
pub mod command;
mod commands;
mod cursor;
mod defaults;
mod entry;
mod line;
pub mod login;
pub mod statements;
mod upload;

use std::{
    borrow::Cow,
    future::poll_fn,
    io,
    sync::Arc,
    task::{Context, Poll},
};

use tidegate_rows::{Column, Execute, QueryError, ServerError, SessionChange, Summary};

use self::{
    line::Line,
    login::{Login, Secret, Sent},
    statements::Statements,
};
use crate::{
    answer,
    compress::{Algorithm, Inflater},
    handshake::{capability, extension},
    packet::{FrameError, PacketBuffer, put_packet},
    text_results::TextResults,
};

/// Largest packet of a client that has not logged in yet.
const LOGIN_PACKET_BYTES_MAX: usize = 16 << 10;

/// A socket, as a server sees it.
pub trait Transport {
    /// Reads into `room`; 0 at the end of the input.
    ///
    /// # Errors
    /// The socket's.
    fn poll_read(&self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>>;
    /// The same from a client that has to send something now.
    ///
    /// # Errors
    /// The socket's, or that the client sends nothing for too long.
    fn poll_read_soon(&self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_read(cx, room)
    }
    /// Writes some of `bytes`.
    ///
    /// # Errors
    /// The socket's, or that the client takes nothing for too long.
    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
}

/// What is known of a statement before it runs.
#[derive(Debug, Default)]
pub struct Description {
    /// Number of its parameters.
    pub params: usize,
    /// The columns of its rows; none if it has no rows, or if nobody can tell yet.
    pub columns: Vec<Column>,
    /// In what it was prepared.
    pub context: PreparedIn,
}

/// What a prepared statement keeps of the session.
#[derive(Debug, Clone, Default)]
pub struct PreparedIn {
    /// Name of the current schema; `None` if there was none.
    pub schema: Option<String>,
    /// `sql_mode`, as the backend's bits.
    pub sql_mode: u64,
}

/// What answers a client.
#[allow(async_fn_in_trait, reason = "futures stay on their worker's thread; Send is never wanted")]
pub trait Backend: Execute {
    /// The version in the greeting.
    fn version(&self) -> String;
    /// A text that the client has sent, as UTF-8.
    fn decoded<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        Cow::Borrowed(text)
    }
    /// A text of UTF-8 in the client's character set.
    fn encoded<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        Cow::Borrowed(text)
    }
    /// Number of the connection.
    fn id(&self) -> u64;
    /// Bytes of the largest packet that a client may send.
    fn packet_bytes_max(&self) -> usize;
    /// What is known of a user's password; `None` if there is no such user, or none that may come from where this client is.
    fn secret(&mut self, user: &[u8]) -> Option<Secret>;
    /// Whether a client may send its password, to be compared at some cost.
    fn may_try(&self, _: &Login) -> bool {
        true
    }
    /// The key, in PEM, that clients encrypt their passwords for where somebody might listen; `None` where there is none.
    async fn public_key(&mut self) -> Option<Arc<str>> {
        None
    }
    /// Whether this is the password of the user whose [secret](Self::secret) was asked for last.
    async fn is_password(&mut self, _: Sent<'_>) -> bool {
        false
    }
    /// The client has not proved itself. Gives the error that it is told.
    fn refuse(&mut self, login: &Login) -> ServerError;
    /// The client is the user that it claims to be, and begins anew.
    ///
    /// # Errors
    /// There is no such schema, or the user may not log in now.
    fn admit(&mut self, login: &Login) -> Result<(), ServerError>;
    /// Another current schema.
    ///
    /// # Errors
    /// There is none of this name.
    fn change_schema(&mut self, name: &[u8]) -> Result<(), ServerError>;
    /// What there is to know of a statement.
    ///
    /// # Errors
    /// What is wrong with it.
    async fn describe(&mut self, sql: &[u8]) -> Result<Description, QueryError>;
    /// The next statement was prepared in `context`, and runs as there.
    fn prepared_in(&mut self, context: PreparedIn);
    /// Makes the session as good as new; its schema and its user stay.
    fn reset(&mut self);
    /// Whether a text may hold several statements.
    fn set_multi_statements(&mut self, allowed: bool);
    /// Ends another connection.
    ///
    /// # Errors
    /// There is none of this number.
    fn kill(&mut self, id: u64) -> Result<(), ServerError>;
    /// A line for people about the server.
    fn statistics(&self) -> String;
    /// The status bits of the session.
    fn status(&self) -> u16;
    /// What has changed of the session since it was told last.
    fn changes(&self) -> Box<[SessionChange]> {
        Box::default()
    }
    /// Whether somebody has ended the connection.
    fn is_gone(&self) -> bool;
}

/// What the owner of the socket does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Calls [`Server::answer`] again.
    Again,
    /// Reads more.
    Read,
    /// Shakes hands for TLS, then reads on.
    Tls,
    /// Closes the connection.
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The response to the greeting is awaited.
    Response,
    /// The proof for another plugin is awaited.
    Proof(For),
    /// The password is awaited, or a question for the key to encrypt it for.
    Password(For),
    Commands,
}

/// What a client proves itself for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    Login,
    /// COM_CHANGE_USER
    Change,
}

/// The server's side of a connection.
pub struct Server<B> {
    /// What answers.
    pub backend: B,
    login: Box<Login>,
    phase: Phase,
    has_tls: bool,
    /// Nobody can listen to the socket.
    is_local: bool,
    statements: Statements,
    /// What has come; `None` while nothing has.
    input: Option<PacketBuffer>,
    frames: Frames,
    line: Line,
    /// What a client has sent behind the file that a statement has asked it for.
    behind_file: Vec<u8>,
}

/// What the packets of a client come in.
#[derive(Default)]
enum Frames {
    /// Nothing else.
    #[default]
    None,
    /// The frames of the compressed protocol; `None` while none has come.
    Compressed(Algorithm, Option<Box<Inflater>>),
    /// Frames that do not inflate have come: nothing more is read.
    Broken,
}

impl Frames {
    /// Hands bytes as they came to the packets that are in them. An answer's frames count on from theirs.
    fn pass(&mut self, mut bytes: &[u8], packets: &mut PacketBuffer, line: &Line) {
        while !bytes.is_empty() {
            let Frames::Compressed(algorithm, inflater) = self else {
                let space = packets.space();
                let count = space.len().min(bytes.len());
                space[..count].copy_from_slice(&bytes[..count]);
                packets.arrived(count);
                bytes = &bytes[count..];
                continue;
            };
            let inflater = inflater.get_or_insert_with(|| Box::new(Inflater::new(*algorithm)));
            let space = inflater.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            inflater.arrived(count);
            bytes = &bytes[count..];
            loop {
                match inflater.take(packets.space()) {
                    Ok(0) => break,
                    Ok(count) => packets.arrived(count),
                    Err(_) => return *self = Frames::Broken,
                }
            }
            line.count_from(inflater.sequence().wrapping_add(1));
        }
    }
}

impl<B: Backend> Server<B> {
    /// A connection that begins: its greeting is ready to be [sent](Self::send).
    ///
    /// # Errors
    /// The system has no random bytes to give.
    pub fn new(backend: B, offers_tls: bool) -> io::Result<Self> {
        let mut login = Login::new(offers_tls).map_err(io::Error::other)?;
        let line = Line::default();
        let mut greeting = Vec::new();
        login.put_greeting(&backend.version(), backend.id(), &mut greeting);
        line.add(|out| put_packet(out, &mut 0, &[&greeting]));
        let mut server = Self {
            backend,
            login: Box::new(login),
            phase: Phase::Response,
            has_tls: false,
            is_local: false,
            statements: Statements::default(),
            input: None,
            frames: Frames::None,
            line,
            behind_file: Vec::new(),
        };
        server.buffer().sequence = 1;
        Ok(server)
    }

    /// The client is at the other end of a socket of the file system, where it sends its password as it is.
    pub fn set_local(&mut self) {
        self.is_local = true;
    }

    /// TLS is spoken from now on.
    pub fn set_tls(&mut self) {
        self.has_tls = true;
    }

    /// Takes what has come and was not answered: the beginning of a TLS handshake.
    pub fn take_input(&mut self) -> Vec<u8> {
        self.input.as_mut().map_or_else(Vec::new, PacketBuffer::take_all)
    }

    /// Whether the client has logged in and nothing of a command has come.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Commands && self.is_empty()
    }

    /// Whether the client has logged in.
    pub fn is_logged_in(&self) -> bool {
        self.phase == Phase::Commands
    }

    /// Whether no part of a packet waits.
    pub fn is_empty(&self) -> bool {
        let whole = match &self.frames {
            Frames::Compressed(_, Some(inflater)) => inflater.is_empty(),
            _ => true,
        };
        whole && self.input.as_ref().is_none_or(PacketBuffer::is_empty)
    }

    /// Gives back the memory that an idle connection has no use for.
    pub fn release(&mut self) {
        if self.is_empty() {
            self.input = None;
            if let Frames::Compressed(_, inflater) = &mut self.frames {
                *inflater = None;
            }
        }
        self.line.release();
    }

    fn buffer(&mut self) -> &mut PacketBuffer {
        let (phase, backend) = (self.phase, &self.backend);
        self.input.get_or_insert_with(|| {
            let bytes_max = if phase == Phase::Commands { backend.packet_bytes_max() } else { LOGIN_PACKET_BYTES_MAX };
            PacketBuffer::new(bytes_max)
        })
    }

    /// Room for bytes to arrive.
    pub fn space(&mut self) -> &mut [u8] {
        if !matches!(self.frames, Frames::Compressed(..)) {
            return self.buffer().space();
        }
        match &mut self.frames {
            Frames::Compressed(algorithm, inflater) => {
                inflater.get_or_insert_with(|| Box::new(Inflater::new(*algorithm))).space()
            }
            _ => &mut [],
        }
    }

    /// Notes that `count` bytes arrived in [`space`](Self::space).
    pub fn arrived(&mut self, count: usize) {
        let held = match &mut self.frames {
            Frames::Compressed(algorithm, inflater) => inflater.take().map(|inflater| (*algorithm, inflater)),
            _ => None,
        };
        let Some((algorithm, mut inflater)) = held else { return self.buffer().arrived(count) };
        inflater.arrived(count);
        let inflated = loop {
            let buffer = self.buffer();
            match inflater.take(buffer.space()) {
                Ok(0) => break true,
                Ok(count) => buffer.arrived(count),
                Err(_) => break false,
            }
        };
        self.line.count_from(inflater.sequence().wrapping_add(1));
        self.frames = if inflated { Frames::Compressed(algorithm, Some(inflater)) } else { Frames::Broken };
    }

    /// Takes bytes that have come, wherever they were kept.
    pub fn give(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            self.arrived(count);
            bytes = &bytes[count..];
        }
    }

    /// From now on packets travel in frames, in both directions; what has come behind the login was such a frame.
    fn begin_frames(&mut self, algorithm: Algorithm) {
        let ahead = self.take_input();
        self.frames = Frames::Compressed(algorithm, None);
        self.line.compress(algorithm);
        self.give(&ahead);
    }

    /// Sends all that waits.
    ///
    /// # Errors
    /// The socket's.
    pub async fn send(&self, io: &impl Transport) -> io::Result<()> {
        if self.line.is_empty() {
            return Ok(());
        }
        poll_fn(|cx| self.line.poll_send(io, cx)).await
    }

    /// Sends what the socket takes at once; the rest is lost.
    async fn send_now(&self, io: &impl Transport) {
        poll_fn(|cx| {
            // The connection closes, whatever has become of this.
            let _ = self.line.poll_send(io, cx);
            Poll::Ready(())
        })
        .await;
    }

    /// Tells a client that waits for nothing why its connection closes. It reads that in place of the answer to its next
    /// command.
    pub async fn say_farewell(&mut self, error: &ServerError, io: &impl Transport) {
        let mut sequence = 1;
        put(&self.line, &mut sequence, |out| answer::put_error(out, error));
        self.send_now(io).await;
    }

    /// Answers the next packet, if all of it has come.
    ///
    /// # Errors
    /// The socket's: the client has left.
    pub async fn answer(&mut self, io: &impl Transport) -> io::Result<Next> {
        if matches!(self.frames, Frames::Broken) {
            let error = ServerError::new(1157, b"08S01", "Couldn't uncompress communication packet");
            return self.break_off(io, &error).await;
        }
        let Some(input) = &mut self.input else { return Ok(Next::Read) };
        if self.phase == Phase::Commands {
            input.sequence = 0;
        }
        let taken = match input.take() {
            Ok(Some(taken)) => taken,
            Ok(None) => {
                // What was answered meanwhile is not kept from a client that waits for it.
                self.send(io).await?;
                return Ok(Next::Read);
            }
            Err(error) => return self.break_off(io, &frame_error(error)).await,
        };
        let sequence = input.sequence;
        let next = match self.phase {
            Phase::Commands => self.command(io, taken, sequence).await?,
            _ => self.log_in(taken, sequence).await,
        };
        let next = match next {
            Ok(next) => next,
            Err(error) => {
                let error = ServerError::new(1835, b"08S01", format!("Malformed communication packet: {}", error.0));
                return self.break_off(io, &error).await;
            }
        };
        if self.backend.is_gone() {
            self.send_now(io).await;
            return Ok(Next::Close);
        }
        if next == Next::Close {
            self.send(io).await?;
            return Ok(Next::Close);
        }
        // Answers to commands that have come together leave together.
        if self.is_empty() || self.line.is_due() {
            self.send(io).await?;
        }
        if self.phase == Phase::Commands {
            self.buffer().shrink();
        }
        Ok(next)
    }

    async fn break_off(&mut self, io: &impl Transport, error: &ServerError) -> io::Result<Next> {
        let mut sequence = self.buffer().sequence.max(1);
        put(&self.line, &mut sequence, |out| answer::put_error(out, error));
        self.send(io).await?;
        Ok(Next::Close)
    }

    fn has(&self, capability: u32) -> bool {
        self.login.capabilities & capability != 0
    }

    fn text_results(&self, sequence: u8) -> TextResults {
        let wants_more = self.login.extensions & extension::EXTENDED_METADATA != 0;
        let mut results = TextResults::new(self.has(capability::DEPRECATE_EOF)).extended(wants_more);
        results.sequence = sequence;
        results
    }

    fn put_ok(&self, mut sequence: u8) {
        let changes = self.backend.changes();
        let summary = Summary { status: self.backend.status(), changes, ..Summary::default() };
        put(&self.line, &mut sequence, |out| answer::put_ok(out, answer::OK, &summary));
    }

    fn put_result(&self, result: Result<(), ServerError>, mut sequence: u8) {
        match result {
            Ok(()) => self.put_ok(sequence),
            Err(error) => self.put_error(&error, &mut sequence),
        }
    }

    fn put_error(&self, error: &ServerError, sequence: &mut u8) {
        let message = self.backend.encoded(error.message.as_bytes());
        put(&self.line, sequence, |out| answer::put_error_of(out, error, &message));
    }
}

/// Appends a packet whose payload `write` writes.
fn put(line: &Line, sequence: &mut u8, write: impl FnOnce(&mut Vec<u8>)) {
    let mut payload = Vec::new();
    write(&mut payload);
    line.add(|out| put_packet(out, sequence, &[&payload]));
}

fn frame_error(error: FrameError) -> ServerError {
    match error {
        FrameError::Sequence { .. } => ServerError::new(1156, b"08S01", "Got packets out of order"),
        FrameError::TooLarge { .. } => {
            ServerError::new(1153, b"08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
        }
    }
}
