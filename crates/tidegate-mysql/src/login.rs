//! Connecting: socket, TLS, login, and what a session begins with.

use std::{io, net::SocketAddr, sync::Arc};

use rustls::pki_types::ServerName;
use tidegate_rows::{QueryError, Stage};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::{
    answer,
    auth::{self, AuthPlugin},
    channel::{Channel, after},
    charset::default_collation,
    compress::{Algorithm, Compressed},
    handshake::{Greeting, Response, capability, read_switch},
    options::{Address, ConnectOptions, Timeouts, TlsMode},
    rsa::PublicKey,
    stream::{Socket, Stream},
};

/// `utf8mb4_general_ci`.
const COLLATION_UTF8MB4: u8 = 45;
/// No collation's number: the server takes its own default.
const COLLATION_OF_SERVER: u8 = 0;
/// What is said about a server without TLS where TLS is required.
pub const NO_TLS: &str = "the server does not support TLS";
/// Answers of `caching_sha2_password`.
const FAST_AUTH_OK: u8 = 3;
const FULL_AUTH: u8 = 4;
/// Questions for the server's RSA key.
const ASK_KEY_CACHING_SHA2: &[u8] = &[2];
const ASK_KEY_SHA256: &[u8] = &[1];
/// How many packets a login may take. No plugin needs more than a handful; a server that goes on for ever is broken.
const LOGIN_PACKETS_MAX: usize = 16;

/// What is known after the login.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) channel: Channel,
    pub(crate) greeting: Greeting,
    /// Capabilities that both sides have.
    pub(crate) capabilities: u32,
    /// Whether the handshake could not set the character set.
    pub(crate) must_set_names: bool,
}

/// Connects and logs in. `addresses` are those of a TCP host, tried in turn; without any, the host is looked up.
pub(crate) async fn login(
    options: &ConnectOptions,
    addresses: &[SocketAddr],
    timeouts: Timeouts,
) -> Result<Login, QueryError> {
    let peer: Arc<str> = options.address.to_string().into();
    let deadline = timeouts.connect.map(|timeout| (after(timeout), Stage::Connect));
    let connecting = connect_socket(&options.address, addresses);
    let connected = match deadline {
        Some((at, stage)) => {
            tokio::time::timeout_at(at, connecting).await.map_err(|_| QueryError::Timeout { stage })?
        }
        None => connecting.await,
    };
    let socket = connected.map_err(|source| QueryError::Connect { peer: peer.to_string(), source })?;
    let mut channel = Channel::new(Stream::Plain(socket), peer, timeouts, options.packet_bytes_max);
    channel.deadline = deadline;
    let mut login = handshake(options, channel).await.map_err(|error| match error {
        QueryError::Lost { peer, source } => QueryError::Connect { peer, source },
        other => other,
    })?;
    login.channel.deadline = None;
    Ok(login)
}

async fn connect_socket(address: &Address, addresses: &[SocketAddr]) -> io::Result<Socket> {
    let (host, port) = match address {
        Address::Unix(path) => return UnixStream::connect(path).await.map(Socket::Unix),
        Address::Tcp { host, port } => (host, *port),
    };
    let looked_up: Vec<SocketAddr>;
    let addresses = if addresses.is_empty() {
        looked_up = tokio::net::lookup_host((host.as_str(), port)).await?.collect();
        &looked_up
    } else {
        addresses
    };
    let mut result = Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // A statement is one write, and its answer is awaited: nothing would be gained by waiting for more.
                stream.set_nodelay(true)?;
                socket2::SockRef::from(&stream).set_keepalive(true)?;
                return Ok(Socket::Tcp(stream));
            }
            Err(error) => result = Err(error),
        }
    }
    result
}

async fn handshake(options: &ConnectOptions, mut channel: Channel) -> Result<Login, QueryError> {
    let at = channel.packet(Stage::Connect).await?;
    let packet = channel.input.payload(at);
    if packet.first() == Some(&answer::ERR) {
        return Err(answer::error(packet).into());
    }
    let greeting = Greeting::read(packet).map_err(|error| channel.malformed(error))?;
    let mut response = begin_response(options, &greeting);
    channel = start_tls(options, channel, &greeting, &mut response).await?;

    let nonce = greeting.nonce.clone();
    let wanted = AuthPlugin::from_name(&greeting.plugin);
    // A plugin that is not known here is not necessarily the user's: the server switches to that.
    let plugin = wanted.filter(|plugin| *plugin != AuthPlugin::Clear).unwrap_or(AuthPlugin::Native);
    response.plugin = plugin.name().into();
    response.proof = first_proof(options, &channel, plugin, &nonce)?;
    let mut payload = Vec::new();
    response.put(&mut payload);
    channel.put_next(&payload);
    channel.flush(Stage::Connect).await?;
    finish_login(options, &mut channel, plugin, nonce).await?;
    if channel.holds_unasked() {
        // The first statement must not take it for its answer.
        return Err(channel.protocol("more came than the end of the login"));
    }

    let capabilities = response.capabilities & greeting.capabilities;
    if let Some(algorithm) = Algorithm::agreed(capabilities, response.zstd_level) {
        channel.compressed = Some(Box::new(Compressed::new(algorithm)));
        // Servers number the packets inside of frames as they like.
        channel.input.check_sequence = false;
    }
    let must_set_names = !options.charset.is_empty() && default_collation(&options.charset).is_none();
    Ok(Login { channel, greeting, capabilities, must_set_names })
}

/// Everything of the response but the proof.
fn begin_response(options: &ConnectOptions, greeting: &Greeting) -> Response {
    use capability::*;
    let mut wanted = LONG_PASSWORD
        | LONG_FLAG
        | PROTOCOL_41
        | TRANSACTIONS
        | SECURE_CONNECTION
        | MULTI_RESULTS
        | PS_MULTI_RESULTS
        | PLUGIN_AUTH
        | CONNECT_ATTRS
        | PLUGIN_AUTH_LENENC_CLIENT_DATA
        | DEPRECATE_EOF
        | (options.extra_capabilities & (FOUND_ROWS | IGNORE_SPACE | INTERACTIVE));
    let mut add = |condition: bool, capability: u32| wanted |= if condition { capability } else { 0 };
    add(options.multi_statements, MULTI_STATEMENTS);
    // A server that is offered both takes zlib.
    let zstd =
        options.zstd_level.filter(|_| options.compress && greeting.capabilities & ZSTD_COMPRESSION_ALGORITHM != 0);
    add(zstd.is_some(), ZSTD_COMPRESSION_ALGORITHM);
    add(options.compress && zstd.is_none(), COMPRESS);
    add(!options.schema.is_empty(), CONNECT_WITH_DB);
    let own =
        [("_client_name", "tidegate"), ("_client_version", env!("CARGO_PKG_VERSION")), ("_os", std::env::consts::OS)];
    Response {
        capabilities: wanted & (greeting.capabilities | CONNECT_WITH_DB),
        collation: match default_collation(&options.charset) {
            Some(collation) => collation,
            None if options.server_charset && options.charset.is_empty() => COLLATION_OF_SERVER,
            None => COLLATION_UTF8MB4,
        },
        user: options.user.clone().into_bytes(),
        schema: options.schema.clone().into_bytes(),
        attributes: own.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect(),
        zstd_level: zstd.unwrap_or(0),
        ..Response::default()
    }
}

/// Encrypts the connection if the options say so.
async fn start_tls(
    options: &ConnectOptions,
    mut channel: Channel,
    greeting: &Greeting,
    response: &mut Response,
) -> Result<Channel, QueryError> {
    let offered = greeting.capabilities & capability::SSL != 0;
    match options.tls_mode {
        TlsMode::Disabled => return Ok(channel),
        TlsMode::Preferred if !offered => return Ok(channel),
        TlsMode::Required if !offered => return Err(channel.protocol(NO_TLS)),
        TlsMode::Preferred | TlsMode::Required => {}
    }
    let fail = |channel: &Channel, source| QueryError::Connect { peer: channel.peer.to_string(), source };
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    let Some(tls) = &options.tls else { return Err(fail(&channel, invalid("no TLS configuration"))) };
    let host = match (&tls.server_name, &options.address) {
        (Some(name), _) => name.as_str(),
        (None, Address::Tcp { host, .. }) => host.as_str(),
        (None, Address::Unix(_)) => "localhost",
    };
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| fail(&channel, invalid("not a name that a certificate can have")))?;

    response.capabilities |= capability::SSL;
    let mut payload = Vec::new();
    response.put_tls_request(&mut payload);
    channel.put_next(&payload);
    channel.flush(Stage::Connect).await?;
    if !channel.input.is_empty() {
        // What somebody slipped in before the encryption must not be taken for the server's words.
        return Err(channel.protocol("data before the TLS handshake"));
    }
    let Stream::Plain(socket) = std::mem::replace(&mut channel.stream, Stream::Plain(Socket::Gone)) else {
        return Err(channel.protocol("TLS within TLS"));
    };
    let connecting = TlsConnector::from(Arc::clone(&tls.config)).connect(name, socket);
    let connected = match channel.deadline {
        Some((at, stage)) => {
            tokio::time::timeout_at(at, connecting).await.map_err(|_| QueryError::Timeout { stage })?
        }
        None => connecting.await,
    };
    channel.stream = Stream::Tls(Box::new(connected.map_err(|error| fail(&channel, error))?));
    Ok(channel)
}

/// What the client proves its password with, without being asked.
fn first_proof(
    options: &ConnectOptions,
    channel: &Channel,
    plugin: AuthPlugin,
    nonce: &[u8],
) -> Result<Vec<u8>, QueryError> {
    let password = options.password.as_slice();
    Ok(match plugin {
        AuthPlugin::Native => auth::native(password, nonce),
        AuthPlugin::CachingSha2 => auth::caching_sha2(password, nonce),
        AuthPlugin::Ed25519 => auth::ed25519(password, nonce),
        AuthPlugin::Sha256 if password.is_empty() => Vec::new(),
        AuthPlugin::Sha256 if channel.stream.is_private() => [password, &[0]].concat(),
        AuthPlugin::Sha256 => match &options.server_public_key {
            Some(pem) => encrypt(channel, password, nonce, pem)?,
            None => ASK_KEY_SHA256.to_vec(),
        },
        AuthPlugin::Clear if options.clear_password && channel.stream.is_private() => [password, &[0]].concat(),
        AuthPlugin::Clear => {
            return Err(channel.protocol("the server wants the password in clear text, which was not allowed"));
        }
    })
}

/// Answers the server until it is content.
async fn finish_login(
    options: &ConnectOptions,
    channel: &mut Channel,
    mut plugin: AuthPlugin,
    mut nonce: Vec<u8>,
) -> Result<(), QueryError> {
    for _ in 0..LOGIN_PACKETS_MAX {
        let at = channel.packet(Stage::Connect).await?;
        let packet = channel.input.payload(at);
        let reply = match packet.first() {
            Some(&answer::OK) => return Ok(()),
            Some(&answer::ERR) => return Err(answer::error(packet).into()),
            Some(&answer::EOF) => {
                let (name, data) = read_switch(packet).map_err(|error| channel.malformed(error))?;
                let known = AuthPlugin::from_name(name);
                let unknown = || {
                    let name = String::from_utf8_lossy(name);
                    channel.protocol(format_args!("authentication plugin \"{name}\" is not supported"))
                };
                plugin = known.ok_or_else(unknown)?;
                nonce = data.to_vec();
                first_proof(options, channel, plugin, &nonce)?
            }
            Some(&answer::MORE_DATA) => match more_data(options, channel, plugin, &nonce, &packet[1..])? {
                Some(reply) => reply,
                None => continue,
            },
            _ => return Err(channel.protocol("unexpected packet in the login")),
        };
        channel.put_next(&reply);
        channel.flush(Stage::Connect).await?;
    }
    Err(channel.protocol("the login takes too many packets"))
}

/// The reply to data of the plugin, if there is one to give.
fn more_data(
    options: &ConnectOptions,
    channel: &Channel,
    plugin: AuthPlugin,
    nonce: &[u8],
    data: &[u8],
) -> Result<Option<Vec<u8>>, QueryError> {
    let password = options.password.as_slice();
    match (plugin, data) {
        (AuthPlugin::CachingSha2, [FAST_AUTH_OK]) => Ok(None),
        (AuthPlugin::CachingSha2, [FULL_AUTH]) if channel.stream.is_private() => Ok(Some([password, &[0]].concat())),
        (AuthPlugin::CachingSha2, [FULL_AUTH]) => match &options.server_public_key {
            Some(pem) => encrypt(channel, password, nonce, pem).map(Some),
            None => Ok(Some(ASK_KEY_CACHING_SHA2.to_vec())),
        },
        (AuthPlugin::CachingSha2 | AuthPlugin::Sha256, pem) if !channel.stream.is_private() => {
            encrypt(channel, password, nonce, pem).map(Some)
        }
        _ => Err(channel.protocol("unexpected data in the login")),
    }
}

fn encrypt(channel: &Channel, password: &[u8], nonce: &[u8], pem: &[u8]) -> Result<Vec<u8>, QueryError> {
    let encrypted = PublicKey::from_pem(pem).and_then(|key| key.encrypt(&auth::masked_password(password, nonce)));
    encrypted.map_err(|error| channel.protocol(error))
}
