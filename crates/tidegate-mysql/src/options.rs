//! What a connection is made with.

use std::{fmt, path::PathBuf, time::Duration};

use crate::tls::TlsClient;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host name or IP address (IPv6 without brackets), and a port.
    Tcp {
        /// Name or address.
        host: String,
        /// Port; MySQL's own is 3306.
        port: u16,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Address {
    /// A TCP address.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp { host: host.into(), port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// When a connection is encrypted. What is verified then, the [`TlsClient`] knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Never.
    #[default]
    Disabled,
    /// Encrypts if the server can. An attacker in the middle can pretend that it cannot.
    Preferred,
    /// Always; connecting fails if the server cannot.
    Required,
}

/// How long each stage may take; `None` for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Connecting, with TLS and login.
    pub connect: Option<Duration>,
    /// Sending a statement and waiting for the first word of its answer.
    pub send_query: Option<Duration>,
    /// Each wait for the columns of a result, once its first word has come, and for the next result of a batch.
    pub recv_columns: Option<Duration>,
    /// Each wait for more rows. Time that the receiver of the rows takes does not count.
    pub recv_rows: Option<Duration>,
    /// The whole statement, with all its results and the time that their receiver takes.
    pub query: Option<Duration>,
}

impl Default for Timeouts {
    /// 60 seconds for each stage, as drizzle-nginx-module has it, and none for the whole.
    fn default() -> Self {
        let minute = Some(Duration::from_secs(60));
        Self { connect: minute, send_query: minute, recv_columns: minute, recv_rows: minute, query: None }
    }
}

/// The settings that a connection is made with.
#[derive(Clone)]
pub struct ConnectOptions {
    /// Address of the server.
    pub address: Address,
    /// User.
    pub user: String,
    /// Password; empty for none.
    pub password: Vec<u8>,
    /// Schema to begin in; empty for none.
    pub schema: String,
    /// Character set of the connection; empty for `utf8mb4`, which JSON needs.
    pub charset: String,
    /// Leaves the character set to the server when `charset` is empty.
    pub server_charset: bool,
    /// Capabilities to ask for beside the client's own ([`crate::handshake::capability`]): those that change how the
    /// server behaves, not what its packets look like.
    pub extra_capabilities: u32,
    /// When to encrypt.
    pub tls_mode: TlsMode,
    /// How to encrypt; needed unless the mode is [`TlsMode::Disabled`].
    pub tls: Option<TlsClient>,
    /// Whether to compress, for slow networks.
    pub compress: bool,
    /// The level of zstd to compress with where the server knows it; zlib anywhere else.
    pub zstd_level: Option<u8>,
    /// Whether one text may hold several statements.
    pub multi_statements: bool,
    /// Whether the password may go out as it is when the server asks for `mysql_clear_password`. It never does without
    /// TLS, unless over a unix socket.
    pub clear_password: bool,
    /// The server's RSA key in PEM, for `caching_sha2_password` without TLS. Without it the server is asked for its
    /// key, which somebody in the middle could replace by one of his own.
    pub server_public_key: Option<Vec<u8>>,
    /// Statements that begin a session, e.g. `set time_zone = '+00:00'`.
    pub init: Vec<String>,
    /// Largest packet that is accepted from the server, in bytes. A row is held in memory as a whole.
    pub packet_bytes_max: usize,
    /// How many prepared statements are kept.
    pub statements_max: usize,
    /// Time-outs.
    pub timeouts: Timeouts,
}

impl ConnectOptions {
    /// Options with their defaults.
    pub fn new(address: Address, user: impl Into<String>, password: impl Into<Vec<u8>>) -> Self {
        Self {
            address,
            user: user.into(),
            password: password.into(),
            schema: String::new(),
            charset: String::new(),
            server_charset: false,
            extra_capabilities: 0,
            tls_mode: TlsMode::Disabled,
            tls: None,
            compress: false,
            zstd_level: None,
            multi_statements: true,
            clear_password: false,
            server_public_key: None,
            init: Vec::new(),
            packet_bytes_max: 1 << 30,
            statements_max: 64,
            timeouts: Timeouts::default(),
        }
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("address", &self.address)
            .field("user", &self.user)
            .field("schema", &self.schema)
            .field("charset", &self.charset)
            .field("tls_mode", &self.tls_mode)
            .finish_non_exhaustive()
    }
}
