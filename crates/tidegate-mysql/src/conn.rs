//! A connection: statements out, results in.
//!
//! A connection is always in one of four states; each method that talks to the server begins in `Idle` or `MoreResults`,
//! is `Busy` while it waits, and ends in `Idle`, `MoreResults` or `Broken`. A future that is dropped half-way leaves
//! `Busy` behind, and so a connection that nobody can use by mistake.
//!
//! Reading what the server answers is [`results`]; a connection with several statements under way is [`shared`].

mod results;
mod shared;

use std::{net::SocketAddr, sync::Arc};

use tidegate_rows::{Execute, Param, QueryError, ServerError, Sink, Stage, Statement};

use crate::{
    answer,
    channel::{Channel, after},
    handshake::capability,
    login::login,
    options::{ConnectOptions, Timeouts},
    session,
    statements::{COM_STMT_CLOSE, COM_STMT_PREPARE, StatementCache, put_execute},
};
use results::ColumnCache;
pub(crate) use results::Nowhere;

const COM_QUIT: u8 = 0x01;
const COM_INIT_DB: u8 = 0x02;
const COM_QUERY: u8 = 0x03;
const COM_PING: u8 = 0x0e;
const COM_RESET_CONNECTION: u8 = 0x1f;

/// Errors behind which the server closes the connection, and 0: a packet that ends before its number.
///
/// ER_SERVER_SHUTDOWN, ER_NEW_ABORTING_CONNECTION, ER_NET_* (1153-1161), ER_CONNECTION_KILLED,
/// ER_CLIENT_INTERACTION_TIMEOUT.
const FATAL_ERRORS: &[u16] =
    &[0, 1053, 1152, 1153, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1184, 1927, 3169, 4031];
/// ER_UNKNOWN_STMT_HANDLER and ER_NEED_REPREPARE: the statement must be prepared anew.
const PREPARE_AGAIN: &[u16] = &[1243, 1615];
/// ER_WRONG_ARGUMENTS.
const WRONG_ARGUMENTS: u16 = 1210;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Busy,
    MoreResults,
    Broken,
}

/// How far the last statement has come: what decides whether it may be sent again after its connection broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The server cannot have read all of it.
    Unsent,
    /// It may have run.
    Sent,
    /// The server has begun to answer.
    Answered,
}

/// How the rows of a result are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Text,
    Binary,
}

/// A connection to a server.
///
/// Not `Clone` and not shared: one statement at a time. It belongs to the worker that made it; see
/// [`rebind`](Self::rebind).
#[derive(Debug)]
pub struct Conn {
    channel: Channel,
    options: Arc<ConnectOptions>,
    state: State,
    /// Protocol of the results that follow.
    protocol: Protocol,
    deprecate_eof: bool,
    is_mariadb: bool,
    must_set_names: bool,
    thread_id: u32,
    server_version: Box<[u8]>,
    /// Status of the last answer.
    status: u16,
    /// The session is not as it began.
    dirty: bool,
    /// The session may hold what others wait for.
    holds: bool,
    /// Not even a reset makes it so again.
    spoiled: bool,
    /// The session is to be reset before the next statement.
    reset_due: bool,
    /// The server has shown that it can.
    reset_works: bool,
    /// Answers that come before the statement's own: those to the reset that travelled with it.
    answers_before: usize,
    /// Sequence number that the statement's own answer begins with.
    answer_sequence: u8,
    /// All of the last statement was handed to the socket.
    sent: bool,
    /// The server may still be at work on the last statement.
    unfinished: bool,
    /// Some of the result under way was taken from the stream.
    result_begun: bool,
    columns: ColumnCache,
    statements: StatementCache,
    scratch: Vec<u8>,
}

impl Conn {
    /// Connects and logs in; a host name is looked up.
    ///
    /// # Errors
    /// [`QueryError::Connect`], [`QueryError::Timeout`], [`QueryError::Protocol`], or [`QueryError::Server`] when the
    /// server refuses.
    pub async fn connect(options: Arc<ConnectOptions>) -> Result<Self, QueryError> {
        let timeouts = options.timeouts;
        Self::connect_to(options, &[], timeouts).await
    }

    /// Connects to the first of `addresses` that answers, and logs in. The time-outs replace those of the options.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_to(
        options: Arc<ConnectOptions>,
        addresses: &[SocketAddr],
        timeouts: Timeouts,
    ) -> Result<Self, QueryError> {
        let login = login(&options, addresses, timeouts).await?;
        let mut conn = Self {
            channel: login.channel,
            state: State::Idle,
            protocol: Protocol::Text,
            deprecate_eof: login.capabilities & capability::DEPRECATE_EOF != 0,
            is_mariadb: login.greeting.is_mariadb(),
            must_set_names: login.must_set_names,
            thread_id: login.greeting.thread_id,
            server_version: login.greeting.version,
            status: login.greeting.status,
            dirty: false,
            holds: false,
            spoiled: false,
            reset_due: false,
            reset_works: false,
            answers_before: 0,
            answer_sequence: 1,
            sent: false,
            unfinished: false,
            result_begun: false,
            columns: ColumnCache::default(),
            statements: StatementCache::new(options.statements_max),
            scratch: Vec::new(),
            options,
        };
        let names = conn.must_set_names.then(|| conn.set_names());
        for sql in names.iter().chain(&conn.options.clone().init) {
            conn.command(&[&[COM_QUERY], sql.as_bytes()]).await?;
        }
        Ok(conn)
    }

    /// The statement that sets the options' character set.
    fn set_names(&self) -> String {
        let charset = if self.options.charset.is_empty() { "utf8mb4" } else { &self.options.charset };
        format!("SET NAMES '{}'", charset.replace(['\'', '\\'], ""))
    }

    /// Number of the connection on the server, for `KILL`.
    pub fn thread_id(&self) -> u32 {
        self.thread_id
    }

    /// Version of the server, e.g. `8.4.0` or `5.5.5-10.11.6-MariaDB`.
    pub fn server_version(&self) -> &[u8] {
        &self.server_version
    }

    /// Name of the server, for messages.
    pub fn peer(&self) -> &str {
        &self.channel.peer
    }

    /// What the connection was made with.
    pub fn options(&self) -> &Arc<ConnectOptions> {
        &self.options
    }

    /// Whether a transaction is open, as far as the last answer told.
    pub fn in_transaction(&self) -> bool {
        self.status & answer::status::IN_TRANSACTION != 0
    }

    /// Whether the connection can take a statement: it is neither broken nor in the midst of one.
    pub fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Whether results of a batch are still to be read.
    pub fn has_more_results(&self) -> bool {
        self.state == State::MoreResults
    }

    /// How far the last statement has come.
    pub fn progress(&self) -> Progress {
        match (self.channel.heard, self.sent) {
            (true, _) => Progress::Answered,
            (false, true) => Progress::Sent,
            (false, false) => Progress::Unsent,
        }
    }

    /// Whether the server may still be at work on a statement that nobody waits for any more: the future that ran it was
    /// dropped, took too long, or its rows are no longer wanted.
    pub fn is_abandoned(&self) -> bool {
        self.unfinished && self.state != State::Idle
    }

    /// Local and remote address of a TCP connection.
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.channel.stream.addresses()
    }

    /// Whether the idle connection is still open, as far as can be told without asking the server.
    pub fn is_open(&mut self) -> bool {
        self.is_idle() && self.channel.is_open()
    }

    /// Whether a reset can make the session as it began.
    pub fn can_be_reset(&self) -> bool {
        !self.spoiled
    }

    /// Sets the time-outs of all waits to come. They begin anew, that for the first word of an answer too.
    pub fn set_timeouts(&mut self, timeouts: Timeouts) {
        self.channel.set_timeouts(timeouts);
    }

    /// Changes the size of the largest packet that is accepted from the server, in bytes.
    pub fn set_packet_bytes_max(&mut self, bytes: usize) {
        self.channel.input.set_payload_max(bytes);
    }

    /// Moves the connection to the worker that calls: it leaves the event loop of the one it belonged to.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn rebind(&mut self) -> std::io::Result<()> {
        self.channel.rebind().inspect_err(|_| self.state = State::Broken)
    }

    /// Whether the session is not as it began, as far as its statements tell.
    pub fn has_traces(&self) -> bool {
        let no_autocommit = self.status & answer::status::AUTOCOMMIT == 0;
        self.dirty || self.in_transaction() || no_autocommit
    }

    /// Whether others may wait for what the session holds: locks, rows of a transaction.
    pub fn holds_locks(&self) -> bool {
        self.holds || self.in_transaction()
    }

    /// Notes that the next statement must find the session as it began. The reset travels with that statement.
    pub fn reset_before_next(&mut self) {
        self.reset_due |= self.has_traces();
    }

    /// Gives memory back that large results took. For a connection that goes idle.
    pub fn shrink(&mut self) {
        const SCRATCH_SIZE_MAX: usize = 64 * 1024;
        self.channel.shrink();
        if self.scratch.capacity() > SCRATCH_SIZE_MAX {
            self.scratch = Vec::new();
        }
    }

    /// Whether [`reset_before_next`](Self::reset_before_next) has something to do, and the server has not yet shown
    /// that it can: then a call to [`reset`](Self::reset) must show it.
    pub fn needs_reset_now(&self) -> bool {
        self.reset_due && (!self.reset_works || self.channel.compressed.is_some())
    }

    /// Asks the server for a sign of life.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn ping(&mut self) -> Result<(), QueryError> {
        self.command(&[&[COM_PING]]).await
    }

    /// Makes the session as it began, now.
    ///
    /// # Errors
    /// [`QueryError::Server`] from a server that cannot do it; the session is then as it was.
    pub async fn reset(&mut self) -> Result<(), QueryError> {
        self.command(&[&[COM_RESET_CONNECTION]]).await?;
        self.reset_works = true;
        self.forget_session();
        let options = Arc::clone(&self.options);
        if !options.schema.is_empty() {
            self.command(&[&[COM_INIT_DB], options.schema.as_bytes()]).await?;
        }
        for sql in self.session_statements() {
            self.command(&[&[COM_QUERY], sql.as_bytes()]).await?;
        }
        Ok(())
    }

    /// Sends a statement, or a batch of them. Its results must be read: [`read_result`](Self::read_result).
    ///
    /// # Errors
    /// The connection is lost, or was not idle.
    pub async fn send_query(&mut self, sql: &[u8]) -> Result<(), QueryError> {
        self.begin()?;
        self.put_reset();
        self.note_traces(sql);
        self.send(Protocol::Text, &[&[COM_QUERY], sql]).await
    }

    /// Sends the values for a prepared statement, which is prepared first if it is not known yet. Its results must be
    /// read: [`read_result`](Self::read_result).
    ///
    /// # Errors
    /// As [`send_query`](Self::send_query), and [`QueryError::Server`] for a statement that the server cannot prepare
    /// or that takes another number of parameters; the connection is then idle.
    pub async fn send_prepared(&mut self, sql: &[u8], params: &[Param]) -> Result<(), QueryError> {
        self.begin()?;
        self.put_reset();
        let prepared = match self.statements.get(sql) {
            Some(prepared) => prepared,
            None => {
                let result = Box::pin(self.prepare(sql)).await;
                let prepared = self.settle(result, State::Busy)?;
                self.channel.begin_statement();
                prepared
            }
        };
        if usize::from(prepared.params) != params.len() {
            self.state = State::Idle;
            let message = format!("the statement takes {} parameters, {} were given", prepared.params, params.len());
            return Err(ServerError::new(WRONG_ARGUMENTS, b"HY000", message).into());
        }
        self.note_traces(sql);
        let mut payload = std::mem::take(&mut self.scratch);
        payload.clear();
        put_execute(&mut payload, prepared.id, params);
        let result = self.send(Protocol::Binary, &[&payload]).await;
        self.scratch = payload;
        result
    }

    /// Reads the next result into `sink`. Whether another one follows, [`has_more_results`](Self::has_more_results)
    /// tells.
    ///
    /// # Errors
    /// See [`QueryError`]; after [`QueryError::Server`] the connection is idle. After a time-out that struck before the result
    /// began, it may be called again; after all others the connection is broken.
    pub async fn read_result<S: Sink>(&mut self, sink: &mut S) -> Result<(), QueryError> {
        if self.state != State::MoreResults {
            return Err(self.unusable());
        }
        self.state = State::Busy;
        self.result_begun = false;
        let result = self.result(sink).await;
        if matches!(result, Err(QueryError::Timeout { .. })) && !self.result_begun {
            // Nothing was taken from the stream: who has the patience may wait on.
            self.state = State::MoreResults;
            return result.map(drop);
        }
        let more = result.as_ref().is_ok_and(|summary| summary.more_results);
        if let Ok(summary) = &result {
            self.status = summary.status;
        }
        self.settle(result, if more { State::MoreResults } else { State::Idle }).map(drop)
    }

    async fn read_results<S: Sink>(&mut self, sink: &mut S) -> Result<(), QueryError> {
        self.read_result(sink).await?;
        while self.has_more_results() {
            self.read_result(sink).await?;
        }
        Ok(())
    }

    /// Runs a prepared statement and reads its first result. If the server has forgotten the statement, it is prepared
    /// anew, once: nothing has run then.
    ///
    /// # Errors
    /// As [`send_prepared`](Self::send_prepared) and [`read_result`](Self::read_result).
    pub async fn query_prepared<S: Sink>(
        &mut self,
        sql: &[u8],
        params: &[Param],
        sink: &mut S,
    ) -> Result<(), QueryError> {
        self.send_prepared(sql, params).await?;
        match self.read_result(sink).await {
            Err(QueryError::Server(error)) if PREPARE_AGAIN.contains(&error.code) => {
                self.statements.remove(sql);
                Box::pin(self.send_prepared(sql, params)).await?;
                Box::pin(self.read_result(sink)).await
            }
            result => result,
        }
    }

    async fn execute_prepared<S: Sink>(
        &mut self,
        sql: &[u8],
        params: &[Param],
        sink: &mut S,
    ) -> Result<(), QueryError> {
        self.query_prepared(sql, params, sink).await?;
        while self.has_more_results() {
            self.read_result(sink).await?;
        }
        Ok(())
    }

    /// Prepares a statement, unless the connection knows it already. Returns how many parameters it takes.
    ///
    /// # Errors
    /// The connection is lost or was not idle, or [`QueryError::Server`] for a statement that cannot be prepared.
    pub async fn prepare_statement(&mut self, sql: &[u8]) -> Result<u16, QueryError> {
        self.begin()?;
        self.put_reset();
        if let Some(prepared) = self.statements.get(sql) {
            self.state = State::Idle;
            return Ok(prepared.params);
        }
        let result = self.prepare(sql).await;
        self.settle(result, State::Idle).map(|prepared| prepared.params)
    }

    /// Forgets a prepared statement. The server hears of it with the next command.
    pub fn forget_statement(&mut self, sql: &[u8]) {
        if let Some(gone) = self.statements.remove(sql) {
            self.channel.put_command(&[&[COM_STMT_CLOSE], &gone.id.to_le_bytes()]);
        }
    }

    /// Runs a command whose results do not matter.
    async fn command(&mut self, parts: &[&[u8]]) -> Result<(), QueryError> {
        self.begin()?;
        self.send(Protocol::Text, parts).await?;
        self.read_results(&mut Nowhere).await
    }

    fn begin(&mut self) -> Result<(), QueryError> {
        if self.state != State::Idle {
            return Err(self.unusable());
        }
        self.state = State::Busy;
        self.sent = false;
        self.channel.begin_statement();
        self.channel.deadline = self.channel.timeouts().query.map(|timeout| (after(timeout), Stage::Query));
        Ok(())
    }

    #[cold]
    fn unusable(&self) -> QueryError {
        let what = match self.state {
            State::Idle => "no result is due",
            State::MoreResults => "results of the statement before were not read",
            State::Busy => "the statement before was abandoned",
            State::Broken => "the connection broke before",
        };
        self.channel.lost(std::io::Error::other(what))
    }

    /// Ends an operation: `next` is the state if it went well.
    ///
    /// Bytes behind a whole answer belong to nothing that was asked: the connection is not used again, so that no
    /// statement takes them for its answer. The result fails too, since its end was not its end, unless the bytes are the
    /// farewell of a server that closes.
    fn settle<T>(&mut self, result: Result<T, QueryError>, next: State) -> Result<T, QueryError> {
        let is_overrun = next != State::MoreResults && self.channel.holds_unasked();
        let result = match result {
            Ok(_) if is_overrun && self.channel.arrived_error().is_none() => {
                Err(self.channel.protocol("more came than the answer"))
            }
            result => result,
        };
        self.state = match &result {
            Ok(_) if !is_overrun => next,
            Err(QueryError::Server(error)) if !is_overrun && !FATAL_ERRORS.contains(&error.code) => State::Idle,
            _ => State::Broken,
        };
        self.unfinished = match &result {
            Ok(_) => !matches!(self.state, State::Idle | State::Broken),
            Err(QueryError::Timeout { .. } | QueryError::SinkClosed(_)) => true,
            Err(_) => false,
        };
        result
    }

    /// Sends what has been put, and this command.
    async fn send(&mut self, protocol: Protocol, parts: &[&[u8]]) -> Result<(), QueryError> {
        self.protocol = protocol;
        self.unfinished = true;
        self.answer_sequence = self.channel.put_command(parts);
        let result = match self.channel.flush(Stage::SendQuery).await {
            Err(QueryError::Lost { peer, source }) => Err(match self.channel.last_words() {
                Some(error) => error.into(),
                None => QueryError::Lost { peer, source },
            }),
            result => result,
        };
        self.channel.input.sequence = self.answer_sequence;
        match &result {
            Ok(()) => (self.state, self.sent) = (State::MoreResults, true),
            Err(error) => {
                self.state = State::Broken;
                self.unfinished = matches!(error, QueryError::Timeout { .. });
            }
        }
        result
    }

    fn note_traces(&mut self, sql: &[u8]) {
        if session::leaves_traces(sql) {
            self.dirty = true;
            self.holds |= session::may_hold(sql);
            self.spoiled |= self.options.schema.is_empty() && session::may_change_schema(sql);
        }
    }

    /// The session on the server has become a new one.
    fn forget_session(&mut self) {
        self.statements.clear();
        self.dirty = false;
        self.holds = false;
        self.reset_due = false;
    }

    /// Statements that make a session what the options say.
    fn session_statements(&self) -> Vec<String> {
        let is_servers = self.options.server_charset && self.options.charset.is_empty();
        let names = match (is_servers && !self.must_set_names, self.is_mariadb) {
            // A MariaDB whose login left the choice to it takes that of some earlier connection then (10.11).
            (true, true) => Some("SET NAMES DEFAULT".to_owned()),
            (true, false) => None,
            // MySQL forgets the login's character set, MariaDB returns to it.
            (false, is_mariadb) => (self.must_set_names || !is_mariadb).then(|| self.set_names()),
        };
        names.into_iter().chain(self.options.init.iter().cloned()).collect()
    }

    /// Adds the commands that reset the session, if that is due. They travel with the statement, and their answers are
    /// read before its own.
    fn put_reset(&mut self) {
        if !self.reset_due {
            return;
        }
        self.forget_session();
        let options = Arc::clone(&self.options);
        self.channel.put_command(&[&[COM_RESET_CONNECTION]]);
        self.answers_before += 1;
        if !options.schema.is_empty() {
            self.channel.put_command(&[&[COM_INIT_DB], options.schema.as_bytes()]);
            self.answers_before += 1;
        }
        for sql in self.session_statements() {
            self.channel.put_command(&[&[COM_QUERY], sql.as_bytes()]);
            self.answers_before += 1;
        }
    }
}

impl Drop for Conn {
    /// Says goodbye, as far as that needs no waiting: servers count connections that end without.
    fn drop(&mut self) {
        if self.state == State::Idle {
            self.channel.put_command(&[&[COM_QUIT]]);
            self.channel.flush_now();
        }
    }
}

impl Execute for Conn {
    async fn execute<S: Sink>(&mut self, statement: Statement<'_>, sink: &mut S) -> Result<(), QueryError> {
        if statement.params.is_empty() {
            self.send_query(statement.sql).await?;
            self.read_results(sink).await
        } else {
            self.execute_prepared(statement.sql, statement.params, sink).await
        }
    }
}
