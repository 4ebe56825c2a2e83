//! The server's side of a connection: it greets, logs the client in, and answers one command after another.
//!
//! [`Server`] knows packets and commands. It does not know what a statement means: that is its [`Backend`]'s; nor where
//! bytes come from: that is a [`Transport`]'s. Whoever owns the socket reads into [`Server::space`] and calls
//! [`Server::answer`] until that asks for more.
//!
//! Reading order: [`command`], [`login`], [`statements`], then this.

pub mod command;
mod line;
pub mod login;
pub mod statements;

use std::{
    future::poll_fn,
    io,
    pin::pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use tidegate_rows::{Column, Execute, Format, Param, QueryError, ServerError, Statement, Summary};

use self::{
    command::Command,
    line::{Line, Results, poll_ahead},
    login::{Login, Step},
    statements::Statements,
};
use crate::{
    answer,
    binary_results::BinaryResults,
    handshake::capability,
    packet::{FrameError, PacketBuffer, put_packet},
    text_results::TextResults,
    wire::{Malformed, NULL},
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
}

/// What answers a client.
#[allow(async_fn_in_trait, reason = "futures stay on their worker's thread; Send is never wanted")]
pub trait Backend: Execute {
    /// The version in the greeting.
    fn version(&self) -> String;
    /// Number of the connection.
    fn id(&self) -> u64;
    /// Bytes of the largest packet that a client may send.
    fn packet_bytes_max(&self) -> usize;
    /// The password of a user; `None` if there is no such user, or none that may come from where this client is.
    fn password(&self, user: &[u8]) -> Option<Vec<u8>>;
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
    /// The proof for another plugin is awaited, from a client that logs in.
    Proof,
    /// The same, from one that changes its user.
    ChangeProof,
    Commands,
}

/// The server's side of a connection.
pub struct Server<B> {
    /// What answers.
    pub backend: B,
    login: Box<Login>,
    phase: Phase,
    has_tls: bool,
    statements: Statements,
    /// What has come; `None` while nothing has.
    input: Option<PacketBuffer>,
    line: Line,
}

impl<B: Backend> Server<B> {
    /// A connection that begins: its greeting is ready to be [sent](Self::send).
    ///
    /// # Errors
    /// The system has no random bytes to give.
    pub fn new(backend: B, offers_tls: bool) -> io::Result<Self> {
        let login = Login::new(offers_tls).map_err(io::Error::other)?;
        let line = Line::default();
        let mut greeting = Vec::new();
        login.put_greeting(&backend.version(), backend.id(), &mut greeting);
        line.add(|out| put_packet(out, &mut 0, &[&greeting]));
        let mut server = Self {
            backend,
            login: Box::new(login),
            phase: Phase::Response,
            has_tls: false,
            statements: Statements::default(),
            input: None,
            line,
        };
        server.buffer().sequence = 1;
        Ok(server)
    }

    /// TLS is spoken from now on.
    pub fn set_tls(&mut self) {
        self.has_tls = true;
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
        self.input.as_ref().is_none_or(PacketBuffer::is_empty)
    }

    /// Gives back the memory that an idle connection has no use for.
    pub fn release(&mut self) {
        if self.is_empty() {
            self.input = None;
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
        self.buffer().space()
    }

    /// Notes that `count` bytes arrived in [`space`](Self::space).
    pub fn arrived(&mut self, count: usize) {
        self.buffer().arrived(count);
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

    /// Tells the client why its connection closes, if it listens: error 1927 for one that was ended by another.
    pub fn say_farewell(&mut self, error: &ServerError) {
        let mut sequence = 0;
        put(&self.line, &mut sequence, |out| answer::put_error(out, error));
    }

    /// Answers the next packet, if all of it has come.
    ///
    /// # Errors
    /// The socket's: the client has left.
    pub async fn answer(&mut self, io: &impl Transport) -> io::Result<Next> {
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
            _ => self.log_in(taken, sequence),
        };
        let next = match next {
            Ok(next) => next,
            Err(error) => {
                let error = ServerError::new(1835, b"08S01", format!("Malformed communication packet: {}", error.0));
                return self.break_off(io, &error).await;
            }
        };
        if next == Next::Close || self.backend.is_gone() {
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

    /// Goes on with a login.
    fn log_in(&mut self, taken: std::ops::Range<usize>, sequence: u8) -> Result<Next, Malformed> {
        let Some(input) = &self.input else { return Ok(Next::Read) };
        let packet = input.payload(taken);
        let mut question = Vec::new();
        let step = match self.phase {
            Phase::Response => self.login.respond(packet, self.has_tls, &mut question)?,
            _ => {
                self.login.prove(packet);
                Step::Check
            }
        };
        let next = self.step(step, &question, sequence);
        if self.phase == Phase::Commands {
            let bytes_max = self.backend.packet_bytes_max();
            self.buffer().set_payload_max(bytes_max);
        }
        Ok(next)
    }

    fn step(&mut self, step: Step, question: &[u8], mut sequence: u8) -> Next {
        match step {
            Step::Tls => return Next::Tls,
            Step::Switch => {
                put(&self.line, &mut sequence, |out| out.extend_from_slice(question));
                let changes = matches!(self.phase, Phase::Commands | Phase::ChangeProof);
                self.phase = if changes { Phase::ChangeProof } else { Phase::Proof };
                self.buffer().sequence = sequence;
                return Next::Again;
            }
            Step::Check => {}
        }
        let password = self.backend.password(&self.login.user);
        let admitted = if self.login.is_right(password.as_deref()) {
            self.backend.admit(&self.login)
        } else {
            Err(self.backend.refuse(&self.login))
        };
        if let Err(error) = admitted {
            put(&self.line, &mut sequence, |out| answer::put_error(out, &error));
            return Next::Close;
        }
        let changes = self.phase == Phase::ChangeProof || self.phase == Phase::Commands;
        if !changes {
            self.backend.set_multi_statements(self.has(capability::MULTI_STATEMENTS));
        }
        self.phase = Phase::Commands;
        self.statements.clear();
        if self.login.wants_fast_success() {
            put(&self.line, &mut sequence, |out| out.extend_from_slice(&[answer::MORE_DATA, 3]));
        }
        self.put_ok(sequence);
        Next::Again
    }

    fn has(&self, capability: u32) -> bool {
        self.login.capabilities & capability != 0
    }

    fn text_results(&self, sequence: u8) -> TextResults {
        let mut results = TextResults::new(self.has(capability::DEPRECATE_EOF));
        results.sequence = sequence;
        results
    }

    fn put_ok(&self, mut sequence: u8) {
        let summary = Summary { status: self.backend.status(), ..Summary::default() };
        put(&self.line, &mut sequence, |out| answer::put_ok(out, answer::OK, &summary));
    }

    fn put_result(&self, result: Result<(), ServerError>, mut sequence: u8) {
        match result {
            Ok(()) => self.put_ok(sequence),
            Err(error) => put(&self.line, &mut sequence, |out| answer::put_error(out, &error)),
        }
    }

    /// Answers a command.
    async fn command(
        &mut self,
        io: &impl Transport,
        taken: std::ops::Range<usize>,
        mut sequence: u8,
    ) -> io::Result<Result<Next, Malformed>> {
        let Some(input) = self.input.take() else { return Ok(Ok(Next::Read)) };
        let mut ahead = Vec::new();
        let done = match Command::read(input.payload(taken)) {
            Err(error) => Err(error),
            Ok(Command::Quit) => Ok(Next::Close),
            Ok(Command::ChangeUser(packet)) => {
                let mut question = Vec::new();
                let step = self.login.change_user(packet, &mut question);
                self.input = Some(input);
                return Ok(step.map(|step| self.step(step, &question, sequence)));
            }
            Ok(Command::Query(sql)) => {
                let results = self.text_results(sequence);
                self.run(io, &mut ahead, Statement { sql, params: &[] }, results).await?;
                Ok(Next::Again)
            }
            Ok(Command::Execute { id, rest }) => {
                match self.statements.execution(id, rest) {
                    Ok((sql, params)) => self.execute(io, &mut ahead, &sql, &params, sequence).await?,
                    Err(error) => self.put_result(Err(error), sequence),
                }
                Ok(Next::Again)
            }
            Ok(Command::ProcessInfo) => {
                let results = self.text_results(sequence);
                self.run(io, &mut ahead, Statement { sql: b"SHOW PROCESSLIST", params: &[] }, results).await?;
                Ok(Next::Again)
            }
            Ok(Command::Prepare(sql)) => {
                self.prepare(sql, sequence).await;
                Ok(Next::Again)
            }
            Ok(Command::FieldList { table, pattern }) => {
                self.list_fields(table, pattern, sequence).await;
                Ok(Next::Again)
            }
            Ok(Command::Statistics) => {
                let text = self.backend.statistics();
                put(&self.line, &mut sequence, |out| out.extend_from_slice(text.as_bytes()));
                Ok(Next::Again)
            }
            Ok(command) => {
                self.simple_command(command, sequence);
                Ok(Next::Again)
            }
        };
        let mut input = input;
        let mut rest = &*ahead;
        while !rest.is_empty() {
            let space = input.space();
            let count = space.len().min(rest.len());
            space[..count].copy_from_slice(&rest[..count]);
            input.arrived(count);
            rest = &rest[count..];
        }
        self.input = Some(input);
        Ok(done)
    }

    /// Answers a command that needs nobody's time.
    fn simple_command(&mut self, command: Command<'_>, mut sequence: u8) {
        let result = match command {
            Command::InitDb(name) => self.backend.change_schema(name),
            Command::ProcessKill(id) => self.backend.kill(u64::from(id)),
            Command::Ping => Ok(()),
            Command::ResetConnection => {
                self.backend.reset();
                self.backend.set_multi_statements(self.has(capability::MULTI_STATEMENTS));
                self.statements.clear();
                Ok(())
            }
            Command::SetOption { multi_statements } => {
                self.backend.set_multi_statements(multi_statements);
                return self.put_eof(sequence);
            }
            Command::Nothing { ends_with_eof: true } => return self.put_eof(sequence),
            Command::Nothing { ends_with_eof: false } => Ok(()),
            Command::LongData { id, index, part } => {
                let bytes_max = self.backend.packet_bytes_max();
                return self.statements.add_long_data(id, index, part, bytes_max);
            }
            Command::Close(id) => return self.statements.remove(id),
            Command::Reset(id) => self.statements.reset(id),
            Command::Fetch(id) => Err(match self.statements.contains(id) {
                true => ServerError::new(1421, b"HY000", format!("The statement ({id}) has no open cursor.")),
                false => statements::unknown(id, "mysqld_stmt_fetch"),
            }),
            _ => Err(ServerError::new(1047, b"08S01", "Unknown command")),
        };
        match result {
            Ok(()) => self.put_ok(sequence),
            Err(error) => put(&self.line, &mut sequence, |out| answer::put_error(out, &error)),
        }
    }

    fn put_eof(&self, mut sequence: u8) {
        let summary = Summary { status: self.backend.status(), ..Summary::default() };
        let deprecate_eof = self.has(capability::DEPRECATE_EOF);
        put(&self.line, &mut sequence, |out| answer::put_end_of_rows(out, &summary, deprecate_eof));
    }

    async fn execute(
        &mut self,
        io: &impl Transport,
        ahead: &mut Vec<u8>,
        sql: &[u8],
        params: &[Param],
        sequence: u8,
    ) -> io::Result<()> {
        let results = BinaryResults::new(self.text_results(sequence));
        self.run(io, ahead, Statement { sql, params }, results).await
    }

    /// Runs a statement. Meanwhile its results are sent, and what the client sends ahead is read; a client that leaves ends it.
    async fn run<F: Format + Numbered>(
        &mut self,
        io: &impl Transport,
        ahead: &mut Vec<u8>,
        statement: Statement<'_>,
        format: F,
    ) -> io::Result<()> {
        let (backend, line) = (&mut self.backend, &self.line);
        let mut results = Results { line, format };
        let ran = {
            let mut run = pin!(backend.execute(statement, &mut results));
            poll_fn(|cx| {
                loop {
                    if let Poll::Ready(ran) = run.as_mut().poll(cx) {
                        return Poll::Ready(Ok(ran));
                    }
                    if line.is_due() {
                        let waited = line.has_waiter();
                        if let Poll::Ready(Err(error)) = line.poll_send(io, cx) {
                            return Poll::Ready(Err(error));
                        }
                        if waited && !line.has_waiter() {
                            continue;
                        }
                    }
                    return match poll_ahead(io, ahead, cx) {
                        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                        _ => Poll::Pending,
                    };
                }
            })
            .await?
        };
        let error = match ran {
            Ok(()) => return Ok(()),
            Err(QueryError::Server(error)) => error,
            Err(QueryError::SinkClosed(_)) => return Err(io::ErrorKind::BrokenPipe.into()),
            Err(error) => ServerError::new(1105, b"HY000", error.to_string()),
        };
        let mut sequence = results.format.next_number();
        put(line, &mut sequence, |out| answer::put_error(out, &error));
        Ok(())
    }

    async fn describe(&mut self, sql: &[u8]) -> Result<Description, ServerError> {
        match self.backend.describe(sql).await {
            Ok(description) => Ok(description),
            Err(QueryError::Server(error)) => Err(error),
            Err(error) => Err(ServerError::new(1105, b"HY000", error.to_string())),
        }
    }

    /// COM_STMT_PREPARE.
    ///
    /// ```text
    /// 0 | number u32 | columns u16 | parameters u16 | 0 | warnings u16
    /// definitions of the parameters, EOF | definitions of the columns, EOF; each only if there are any
    /// ```
    async fn prepare(&mut self, sql: &[u8], mut sequence: u8) {
        let described = self.describe(sql).await.and_then(|description| {
            if description.params > statements::PARAMS_MAX {
                let message = "Prepared statement contains too many placeholders";
                return Err(ServerError::new(1390, b"HY000", message));
            }
            let id = self.statements.insert(Bytes::copy_from_slice(sql), description.params)?;
            Ok((id, description))
        });
        let (id, Description { params, columns }) = match described {
            Ok(described) => described,
            Err(error) => return self.put_result(Err(error), sequence),
        };
        put(&self.line, &mut sequence, |out| {
            out.push(0);
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
            out.extend_from_slice(&(params as u16).to_le_bytes());
            out.extend_from_slice(&[0; 3]);
        });
        let param = Column::expression(*b"?", tidegate_rows::ColumnType::VarString);
        self.put_definitions((0..params).map(|_| &param), &mut sequence);
        self.put_definitions(columns.iter(), &mut sequence);
    }

    fn put_definitions<'a>(&self, columns: impl ExactSizeIterator<Item = &'a Column>, sequence: &mut u8) {
        if columns.len() == 0 {
            return;
        }
        for column in columns {
            put(&self.line, sequence, |out| answer::put_column(out, column));
        }
        if !self.has(capability::DEPRECATE_EOF) {
            let summary = Summary { status: self.backend.status(), ..Summary::default() };
            put(&self.line, sequence, |out| answer::put_end_of_rows(out, &summary, false));
        }
    }

    /// COM_FIELD_LIST: definitions, each with a default value behind it, and an EOF packet.
    async fn list_fields(&mut self, table: &[u8], pattern: &[u8], mut sequence: u8) {
        let sql = [&b"SELECT * FROM `"[..], &escaped(table), b"` LIMIT 0"].concat();
        let columns = match self.describe(&sql).await {
            Ok(description) => description.columns,
            Err(error) => return self.put_result(Err(error), sequence),
        };
        for column in columns.iter().filter(|column| pattern.is_empty() || is_like(&column.name, pattern)) {
            put(&self.line, &mut sequence, |out| {
                answer::put_column(out, column);
                out.push(NULL);
            });
        }
        self.put_eof(sequence);
    }
}

/// A name as it stands within backticks.
fn escaped(name: &[u8]) -> Vec<u8> {
    name.iter().flat_map(|byte| std::iter::repeat_n(*byte, if *byte == b'`' { 2 } else { 1 })).collect()
}

/// Whether a name is like a pattern of `%` and `_`, in any case.
fn is_like(name: &[u8], pattern: &[u8]) -> bool {
    match (pattern, name) {
        ([b'%', rest @ ..], _) => is_like(name, rest) || !name.is_empty() && is_like(&name[1..], pattern),
        ([b'_', rest @ ..], [_, tail @ ..]) => is_like(tail, rest),
        ([byte, rest @ ..], [first, tail @ ..]) => byte.eq_ignore_ascii_case(first) && is_like(tail, rest),
        ([], _) => name.is_empty(),
        (_, []) => false,
    }
}

/// A notation in packets that are counted.
trait Numbered {
    /// Number of the next packet.
    fn next_number(&self) -> u8;
}

impl Numbered for TextResults {
    fn next_number(&self) -> u8 {
        self.sequence
    }
}

impl Numbered for BinaryResults {
    fn next_number(&self) -> u8 {
        self.sequence()
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
