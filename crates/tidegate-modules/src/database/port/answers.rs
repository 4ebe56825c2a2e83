//! What answers a client of the port: a session of the embedded engine.

use std::{borrow::Cow, io, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use bstr::ByteSlice;
use tidegate_core::conf::Config;
use tidegate_mysql::{
    charset,
    handshake::capability,
    server::{
        Backend, Description, PreparedIn,
        login::{Login, Secret, Sent},
    },
};
use tidegate_net::{
    Peer,
    log::{self, Level},
};
use tidegate_rows::{Execute, QueryError, ServerError, SessionChange, Sink, Statement};
use tidegate_sql::{Charset, Client, Engine, Kill, Origin, Plugin, Session};

use super::{
    full_logins, logins,
    transcoding::{Transcoded, described},
};
use crate::database::{BLOCK, reopen};

/// Bytes of the largest packet that a client may send, where `packet_size_max` says nothing.
const PACKET_BYTES_MAX: usize = 64 << 20;

/// What a login is judged by; `None` for what no login can have made.
fn secret_of(secret: &tidegate_sql::Secret) -> Option<Secret> {
    let bytes = |digits: &str| -> Option<Vec<u8>> {
        let pairs = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
        pairs.collect()
    };
    Some(match secret {
        tidegate_sql::Secret::Password(password) if password.is_empty() => Secret::None,
        tidegate_sql::Secret::Password(password) => Secret::Password(password.to_vec()),
        tidegate_sql::Secret::Digest { digits, .. } if digits.is_empty() => Secret::None,
        tidegate_sql::Secret::Digest { plugin: Plugin::Native, digits } => {
            Secret::Native(bytes(digits.strip_prefix('*')?)?.try_into().ok()?)
        }
        tidegate_sql::Secret::Digest { plugin: Plugin::CachingSha2, digits } if secret.is_salted() => {
            Secret::Salted(full_logins::known(digits))
        }
        tidegate_sql::Secret::Digest { plugin: Plugin::CachingSha2, digits } => {
            Secret::CachingSha2(bytes(digits)?.try_into().ok()?)
        }
        tidegate_sql::Secret::Digest { plugin: Plugin::Ed25519, digits } => {
            Secret::Ed25519(STANDARD_NO_PAD.decode(digits.as_bytes()).ok()?.try_into().ok()?)
        }
    })
}

/// A session for a client of the port.
pub(super) struct Answers {
    session: Session,
    engine: Engine,
    config: Arc<Config>,
    peer: Peer,
    /// The account that whoever logs in claims to have.
    account: Option<tidegate_sql::Login>,
    /// Another account's secret, for whoever claims to have one that is not there.
    decoy: Option<tidegate_sql::Secret>,
    /// What the client wants to be counted.
    found_rows: bool,
    /// Whether the client wants to hear of changes of the session.
    hears_of_changes: bool,
}

impl Answers {
    /// A session for somebody who has not logged in yet.
    ///
    /// # Errors
    /// There is no engine now.
    pub(super) fn begin(config: &Arc<Config>, peer: Peer) -> io::Result<Self> {
        let engine = reopen(config).map_err(io::Error::other)?;
        let session = engine.session("").map_err(io::Error::other)?;
        Ok(Answers {
            session,
            engine,
            config: config.clone(),
            peer,
            account: None,
            decoy: None,
            found_rows: false,
            hears_of_changes: false,
        })
    }

    /// A balancer has said who the client is.
    pub(super) fn set_peer(&mut self, peer: Peer) {
        self.peer = peer;
    }

    /// Who talks.
    pub(super) fn client(&self) -> &Arc<Client> {
        self.session.client()
    }

    /// How long the client may be idle.
    pub(super) fn idle_time_max(&self) -> Duration {
        self.session.idle_time_max()
    }

    /// Whether nothing is lost but the session's own state when the connection is closed now.
    pub(super) fn may_be_left(&self) -> bool {
        !self.session.in_transaction()
    }

    /// What handshakes need.
    pub(super) fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.config.http_conf(&BLOCK).tls.clone()
    }

    fn origin(&self) -> Origin {
        match self.peer {
            Peer::Unix => Origin::Local,
            Peer::Inet(address) => Origin::Address(address.ip()),
        }
    }

    fn host(&self) -> String {
        match self.peer {
            Peer::Unix => "localhost".to_owned(),
            Peer::Inet(address) => format!("{}:{}", address.ip().to_canonical(), address.port()),
        }
    }

    fn denied(&self, login: &Login, user: impl std::fmt::Display) -> String {
        let word = if login.has_proof() { "YES" } else { "NO" };
        format!("Access denied for user '{user}'@'{}' (using password: {word})", self.peer_host())
    }

    fn peer_host(&self) -> String {
        match self.peer {
            Peer::Unix => "localhost".to_owned(),
            Peer::Inet(address) => address.ip().to_canonical().to_string(),
        }
    }

    fn blocked(&self, login: &Login) -> ServerError {
        let (user, host) = (login.user.as_bstr(), self.peer_host());
        let message = format!("Host '{host}' is blocked for a minute because of many failed logins of '{user}'");
        ServerError::new(1129, b"HY000", message)
    }

    /// A session as the client's capabilities want it.
    fn apply_capabilities(&mut self) {
        self.session.set_found_rows(self.found_rows);
        self.session.set_transcoding();
        if self.hears_of_changes {
            self.session.tell_changes();
        }
        self.session.show_variable("max_allowed_packet", self.packet_bytes_max().to_string());
    }
}

impl Backend for Answers {
    fn version(&self) -> String {
        self.engine.server_version().to_owned()
    }
    fn decoded<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        self.session.texts().client.decode(text)
    }
    fn encoded<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        self.session.texts().results.encode(text)
    }
    fn id(&self) -> u64 {
        self.session.id()
    }
    fn packet_bytes_max(&self) -> usize {
        self.config.http_conf(&BLOCK).packet_size_max.unwrap_or(PACKET_BYTES_MAX)
    }
    fn secret(&mut self, user: &[u8]) -> Option<Secret> {
        // Remembered: whoever proves to know its password gets this one.
        let origin = self.origin();
        let account = std::str::from_utf8(user).ok().and_then(|user| self.engine.login(user, origin));
        // Over the net somebody without a password is nobody.
        self.account = account.filter(|login| origin.is_near() || !login.secret.is_empty());
        self.decoy = None;
        if let Some(login) = &self.account {
            return secret_of(&login.secret);
        }
        self.decoy = self.engine.decoy(user);
        self.decoy.as_ref().and_then(secret_of).map(|secret| Secret::Nobody(Box::new(secret)))
    }
    fn may_try(&self, login: &Login) -> bool {
        !logins::is_blocked(self.peer, &login.user)
    }
    async fn public_key(&mut self) -> Option<Arc<str>> {
        full_logins::public_key(&self.engine).await
    }
    async fn is_password(&mut self, sent: Sent<'_>) -> bool {
        match (&self.account, &self.decoy) {
            (Some(login), _) => full_logins::judge(&self.engine, &login.secret, sent, true).await,
            (None, Some(decoy)) => full_logins::judge(&self.engine, decoy, sent, false).await,
            (None, None) => false,
        }
    }
    fn refuse(&mut self, login: &Login) -> ServerError {
        if logins::is_blocked(self.peer, &login.user) {
            return self.blocked(login);
        }
        let next =
            if logins::note_failure(self.peer, &login.user) { "; it may not try again for a minute" } else { "" };
        // A line of the log stays one, whatever a stranger sends.
        let noted = self.denied(login, login.user.escape_ascii());
        log::note(Level::Warn, format_args!("mysql: {noted}, client: {}{next}", self.peer));
        ServerError::new(1045, b"28000", self.denied(login, login.user.as_bstr()))
    }
    fn admit(&mut self, login: &Login) -> Result<(), ServerError> {
        if logins::is_blocked(self.peer, &login.user) {
            return Err(self.blocked(login));
        }
        let user = login.user.to_str_lossy();
        let Some(account) = self.account.take() else { return Err(self.refuse(login)) };
        if account.is_locked {
            let noted = format!("account '{}' is locked", login.user.escape_ascii());
            log::note(Level::Warn, format_args!("mysql: {noted}, client: {}", self.peer));
            return Err(ServerError::new(4151, b"HY000", "Access denied, this account is locked"));
        }
        logins::note_success(self.peer, &login.user);
        if let Some(charset) = charset::of_collation(login.collation).filter(|charset| !Charset::is_known(charset)) {
            let message =
                format!("the character set {charset} for connections is not supported yet; log in with utf8mb4");
            return Err(ServerError::new(1235, b"42000", message));
        }
        self.session.reset();
        self.found_rows = login.capabilities & capability::FOUND_ROWS != 0;
        self.hears_of_changes = login.capabilities & capability::SESSION_TRACK != 0;
        self.apply_capabilities();
        self.session.set_collation(u16::from(login.collation));
        self.session.connect(&user, &self.host(), &account.host);
        if login.schema.is_empty() {
            self.session.leave_schema();
            return Ok(());
        }
        self.change_schema(&login.schema)
    }
    fn change_schema(&mut self, name: &[u8]) -> Result<(), ServerError> {
        self.session.change_schema(&name.to_str_lossy())
    }
    async fn describe(&mut self, sql: &[u8]) -> Result<Description, QueryError> {
        let tidegate_sql::Description { params, mut columns, context } = self.session.describe(sql).await?;
        let charset = self.session.texts().results;
        if charset != Charset::Utf8 {
            columns.iter_mut().for_each(|column| *column = described(column, charset));
        }
        let context = PreparedIn { schema: context.schema, sql_mode: context.sql_mode };
        Ok(Description { params, columns, context })
    }
    fn prepared_in(&mut self, PreparedIn { schema, sql_mode }: PreparedIn) {
        self.session.prepared_in(tidegate_sql::Context { schema, sql_mode });
    }
    fn reset(&mut self) {
        self.session.reset();
        self.apply_capabilities();
    }
    fn set_multi_statements(&mut self, allowed: bool) {
        self.session.set_batches(allowed);
    }
    fn kill(&mut self, id: u64) -> Result<(), ServerError> {
        self.session.kill(id, Kill::Connection)
    }
    fn statistics(&self) -> String {
        self.engine.statistics()
    }
    fn status(&self) -> u16 {
        self.session.status()
    }
    fn changes(&self) -> Box<[SessionChange]> {
        self.session.changes_to_tell()
    }
    fn is_gone(&self) -> bool {
        self.session.client().is_gone()
    }
}

impl Execute for Answers {
    async fn execute<S: Sink>(&mut self, statement: Statement<'_>, sink: &mut S) -> Result<(), QueryError> {
        match self.session.texts().results {
            Charset::Utf8 => self.session.execute(statement, sink).await,
            charset => self.session.execute(statement, &mut Transcoded::new(sink, charset)).await,
        }
    }
}
