//! Tests against a server made by hand: logins of servers that are not at hand, and servers that misbehave.

mod lies;

use std::{sync::Arc, time::Duration};

use sha2::{Digest, Sha256};
use tidegate_rows::{
    ColumnType, Execute, Param, QueryError, Stage, Statement,
    csv::{Csv, CsvOptions},
    sink::Collect,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    auth,
    conn::Conn,
    handshake::{Greeting, Response, capability::*},
    options::{Address, ConnectOptions, TlsMode},
    packet::{PacketBuffer, put_packet},
    rsa,
    tls::{TlsClient, TlsOptions, TlsVerify},
    wire::put_lenenc_bytes,
};

const NONCE: &[u8; 20] = b"abcdefghijklmnopqrst";
const PASSWORD: &[u8] = b"s3cret, with an umlaut: \xc3\xa4";
const OK: &[u8] = b"\0\0\0\x02\0\0\0";
/// What every MySQL since 5.7 can do.
const CAPABILITIES: u32 = LONG_PASSWORD
    | LONG_FLAG
    | CONNECT_WITH_DB
    | PROTOCOL_41
    | TRANSACTIONS
    | SECURE_CONNECTION
    | MULTI_STATEMENTS
    | MULTI_RESULTS
    | PS_MULTI_RESULTS
    | PLUGIN_AUTH
    | CONNECT_ATTRS
    | PLUGIN_AUTH_LENENC_CLIENT_DATA
    | DEPRECATE_EOF;

/// The server's end of a connection.
struct Peer<T> {
    stream: T,
    input: PacketBuffer,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Peer<T> {
    fn new(stream: T) -> Self {
        Self { stream, input: PacketBuffer::new(1 << 24) }
    }

    /// Reads a packet; `None` at the end of the stream.
    async fn read(&mut self) -> Option<Vec<u8>> {
        loop {
            self.input.follow_sequence();
            if let Some(at) = self.input.take().expect("a packet") {
                return Some(self.input.payload(at).to_vec());
            }
            match self.stream.read(self.input.space()).await {
                Ok(count @ 1..) => self.input.arrived(count),
                _ => return None,
            }
        }
    }

    async fn write(&mut self, payload: &[u8]) {
        let mut out = Vec::new();
        put_packet(&mut out, &mut self.input.sequence, &[payload]);
        let _ = self.stream.write_all(&out).await;
    }

    async fn greet(&mut self, plugin: &str, capabilities: u32) -> Response {
        self.write(&greeting(plugin, capabilities)).await;
        Response::read(&self.read().await.expect("a response")).expect("a response")
    }
}

fn greeting(plugin: &str, capabilities: u32) -> Vec<u8> {
    let greeting = Greeting {
        version: (*b"8.4.3").into(),
        thread_id: 12,
        nonce: NONCE.to_vec(),
        capabilities,
        extensions: 0,
        collation: 255,
        status: 2,
        plugin: plugin.as_bytes().into(),
    };
    let mut out = Vec::new();
    greeting.put(&mut out);
    out
}

/// Runs a client against a server.
async fn meet<T>(
    change: impl FnOnce(&mut ConnectOptions),
    server: impl AsyncFnOnce(Peer<TcpStream>),
    client: impl AsyncFnOnce(Result<Conn, QueryError>) -> T,
) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let mut options = ConnectOptions::new(Address::tcp("127.0.0.1", port), "monty", PASSWORD);
    change(&mut options);
    let serve = async {
        let (stream, _) = listener.accept().await.expect("a client");
        server(Peer::new(stream)).await;
    };
    let run = async { client(Conn::connect(Arc::new(options)).await).await };
    let both = async { tokio::join!(run, serve).0 };
    tokio::time::timeout(Duration::from_secs(20), both).await.expect("nobody hangs")
}

async fn run(conn: &mut Conn, sql: &str) -> Result<String, QueryError> {
    run_with(conn, sql, &[]).await
}

async fn run_with(conn: &mut Conn, sql: &str, params: &[Param]) -> Result<String, QueryError> {
    let format = Csv::new(CsvOptions { names: false, ..CsvOptions::default() });
    let mut sink = Collect { format, out: Vec::new() };
    conn.execute(Statement { sql: sql.as_bytes(), params }, &mut sink).await?;
    Ok(String::from_utf8_lossy(&sink.out).into_owned())
}

fn column(name: &str, kind: ColumnType) -> Vec<u8> {
    let mut out = Vec::new();
    for text in ["def", "s", "t", "t", name, name] {
        put_lenenc_bytes(&mut out, text.as_bytes());
    }
    out.push(12);
    out.extend_from_slice(&45u16.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[kind as u8, 0, 0, 0, 0, 0]);
    out
}

/// A result of two columns and two rows, without the older end of columns.
fn result_set() -> Vec<Vec<u8>> {
    vec![
        b"\x02".to_vec(),
        column("id", ColumnType::Long),
        column("name", ColumnType::VarString),
        b"\x012\xfb".to_vec(),
        b"\x013\x03bob".to_vec(),
        b"\xfe\0\0\x02\0\0\0".to_vec(),
    ]
}

const ROWS: &str = "2,\r\n3,bob\r\n";

#[tokio::test]
async fn caching_sha2_knows_the_password() {
    let server = async |mut peer: Peer<TcpStream>| {
        let response = peer.greet("caching_sha2_password", CAPABILITIES).await;
        assert_eq!((&*response.user, &*response.plugin), (&b"monty"[..], &b"caching_sha2_password"[..]));
        assert_eq!(response.collation, 45);
        assert!(response.attributes.contains(&(b"_client_name".to_vec(), b"tidegate".to_vec())));
        // How the server checks: the hash of the hash is what it has stored.
        let stored = Sha256::digest(Sha256::digest(PASSWORD));
        let mask = Sha256::new().chain_update(stored).chain_update(NONCE).finalize();
        let once: Vec<u8> = response.proof.iter().zip(mask).map(|(proof, mask)| proof ^ mask).collect();
        assert_eq!(Sha256::digest(once), stored);
        peer.write(b"\x01\x03").await;
        peer.write(OK).await;
        assert_eq!(peer.read().await.as_deref(), Some(&b"\x0e"[..]));
        peer.write(OK).await;
        assert_eq!(peer.read().await.as_deref(), Some(&b"\x01"[..]));
    };
    meet(
        |_| {},
        server,
        async |conn| {
            let mut conn = conn.expect("a connection");
            assert_eq!((conn.thread_id(), conn.server_version()), (12, &b"8.4.3"[..]));
            conn.ping().await.expect("an answer");
        },
    )
    .await;
}

#[tokio::test]
async fn caching_sha2_encrypts_for_the_servers_key() {
    for known in [false, true] {
        let server = async |mut peer: Peer<TcpStream>| {
            peer.greet("caching_sha2_password", CAPABILITIES).await;
            peer.write(b"\x01\x04").await;
            if !known {
                assert_eq!(peer.read().await.as_deref(), Some(&b"\x02"[..]));
                peer.write(&[b"\x01", rsa::tests::PUBLIC.as_bytes()].concat()).await;
            }
            let masked = rsa::tests::decrypt(&peer.read().await.expect("a password"));
            assert_eq!(auth::masked_password(&masked, NONCE)[..masked.len()], [PASSWORD, b"\0"].concat());
            peer.write(OK).await;
        };
        let change = |options: &mut ConnectOptions| {
            options.server_public_key = known.then(|| rsa::tests::PUBLIC.as_bytes().to_vec());
        };
        meet(change, server, async |conn| drop(conn.expect("a connection"))).await;
    }
}

#[tokio::test]
async fn caching_sha2_sends_the_password_over_tls() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .expect("a configuration");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let server = async |mut peer: Peer<TcpStream>| {
        peer.write(&greeting("caching_sha2_password", CAPABILITIES | SSL)).await;
        // Not a byte more: the TLS handshake may be right behind.
        let mut request = [0; 36];
        peer.stream.read_exact(&mut request).await.expect("a request");
        let request = Response::read(&request[4..]).expect("a request");
        assert!(request.user.is_empty() && request.capabilities & SSL != 0);
        let mut peer = Peer::new(acceptor.accept(peer.stream).await.expect("TLS"));
        let response = Response::read(&peer.read().await.expect("a response")).expect("a response");
        assert_eq!(response.user, b"monty");
        peer.write(b"\x01\x04").await;
        assert_eq!(peer.read().await, Some([PASSWORD, b"\0"].concat()));
        peer.write(OK).await;
        peer.read().await;
    };
    let tls = TlsOptions {
        verify: TlsVerify::Full,
        authorities: certified.cert.pem().into_bytes(),
        server_name: Some("localhost".to_owned()),
        ..TlsOptions::default()
    };
    let tls = TlsClient::new(&tls).expect("a configuration");
    let change = |options: &mut ConnectOptions| {
        options.tls_mode = TlsMode::Required;
        options.tls = Some(tls);
    };
    meet(change, server, async |conn| drop(conn.expect("a connection"))).await;
}

#[tokio::test]
async fn switches_to_other_plugins() {
    let nonce = b"ABCDEFGHIJKLMNOPQRST";
    for (plugin, expected) in [
        ("mysql_native_password", auth::native(PASSWORD, nonce)),
        ("caching_sha2_password", auth::caching_sha2(PASSWORD, nonce)),
        ("client_ed25519", auth::ed25519(PASSWORD, nonce)),
        ("sha256_password", vec![1]),
    ] {
        for first in ["caching_sha2_password", "mysql_native_password", "auth_gssapi_client", ""] {
            let server = async |mut peer: Peer<TcpStream>| {
                peer.greet(first, CAPABILITIES).await;
                peer.write(&[b"\xfe", plugin.as_bytes(), b"\0", nonce, b"\0"].concat()).await;
                assert_eq!(peer.read().await.as_deref(), Some(&*expected), "{first}, {plugin}");
                if plugin == "sha256_password" {
                    peer.write(&[b"\x01", rsa::tests::PUBLIC.as_bytes()].concat()).await;
                    let masked = rsa::tests::decrypt(&peer.read().await.expect("a password"));
                    assert_eq!(auth::masked_password(&masked, nonce)[..masked.len()], [PASSWORD, b"\0"].concat());
                }
                peer.write(OK).await;
            };
            meet(|_| {}, server, async |conn| drop(conn.expect("a connection"))).await;
        }
    }
}

/// Answers of a server in place of the OK of a login, and what the client says to that.
#[tokio::test]
async fn logins_that_fail() {
    let endless: Vec<&[u8]> = vec![b"\xfemysql_native_password\0abc"; 40];
    for (answers, expected) in [
        (vec![&b"\xff\x15\x04#28000Access denied"[..]], "Access denied (1045, 28000)"),
        (vec![b"\xfe"], "the login of MySQL 3.23"),
        (vec![b"\xfedialog\0x"], "authentication plugin \"dialog\" is not supported"),
        (vec![b"\xfemysql_clear_password\0"], "password in clear text, which was not allowed"),
        (vec![b"\x01\x04", b"\x01no key"], "not a usable RSA key"),
        (vec![b"\x01\x07"], "not a usable RSA key"),
        (vec![b"\x02"], "unexpected packet in the login"),
        (vec![b""], "unexpected packet in the login"),
        (vec![], "cannot connect to 127.0.0.1:"),
        (endless, "the login takes too many packets"),
    ] {
        let server = async |mut peer: Peer<TcpStream>| {
            peer.greet("caching_sha2_password", CAPABILITIES).await;
            for answer in answers {
                peer.write(answer).await;
                if matches!(answer.first(), Some(0xfe)) || answer == b"\x01\x04" {
                    peer.read().await;
                }
            }
        };
        let error = meet(|_| {}, server, async |conn| conn.map(drop).unwrap_err()).await.to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("s3cret"));
    }
}

#[tokio::test]
async fn greetings_that_fail() {
    for (greeting, expected) in [
        (&b"\xff\x10\x04Too many connections"[..], "Too many connections (1040, HY000)"),
        (b"\x09old", "protocol version 10"),
        (b"\x0a8.0", "it ends too early"),
        (b"", "it ends too early"),
    ] {
        let server = async |mut peer: Peer<TcpStream>| peer.write(greeting).await;
        let error = meet(|_| {}, server, async |conn| conn.map(drop).unwrap_err()).await.to_string();
        assert!(error.contains(expected), "{error}");
    }
    // Another protocol altogether.
    for noise in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.2\r\n"] {
        let server = async |mut peer: Peer<TcpStream>| {
            let _ = peer.stream.write_all(noise).await;
        };
        let error = meet(|_| {}, server, async |conn| conn.map(drop).unwrap_err()).await;
        assert!(matches!(error, QueryError::Protocol { .. } | QueryError::Connect { .. }), "{error}");
    }
    // TLS that is required but not offered.
    let server = async |mut peer: Peer<TcpStream>| {
        peer.write(&greeting("", CAPABILITIES)).await;
        assert_eq!(peer.read().await, None);
    };
    let change = |options: &mut ConnectOptions| options.tls_mode = TlsMode::Required;
    let error = meet(change, server, async |conn| conn.map(drop).unwrap_err()).await;
    assert!(error.to_string().ends_with("the server does not support TLS"), "{error}");
}

#[tokio::test]
async fn a_server_that_never_greets() {
    let server = async |mut peer: Peer<TcpStream>| drop(peer.read().await);
    let change = |options: &mut ConnectOptions| options.timeouts.connect = Some(Duration::from_millis(50));
    let error = meet(change, server, async |conn| conn.map(drop).unwrap_err()).await;
    assert!(matches!(error, QueryError::Timeout { stage: Stage::Connect }), "{error}");
}

/// A server that logs the client in and answers its first statement with these packets, then closes.
async fn answer(packets: Vec<Vec<u8>>, capabilities: u32) -> (Result<String, QueryError>, bool) {
    let server = async |mut peer: Peer<TcpStream>| {
        peer.greet("mysql_native_password", capabilities).await;
        peer.write(OK).await;
        peer.read().await;
        for packet in packets {
            peer.write(&packet).await;
        }
    };
    meet(
        |_| {},
        server,
        async |conn| {
            let mut conn = conn.expect("a connection");
            (run(&mut conn, "select * from cats").await, conn.is_idle())
        },
    )
    .await
}

#[tokio::test]
async fn results_with_and_without_the_older_ends() {
    let (result, idle) = answer(result_set(), CAPABILITIES).await;
    assert_eq!((result.expect("rows").as_str(), idle), (ROWS, true));
    let mut packets = result_set();
    packets.insert(3, b"\xfe\0\0\x02\0".to_vec());
    packets[6].truncate(5);
    let (result, idle) = answer(packets, CAPABILITIES & !DEPRECATE_EOF).await;
    assert_eq!((result.expect("rows").as_str(), idle), (ROWS, true));
}

#[tokio::test]
async fn results_that_break_the_protocol() {
    let with = |at: usize, packet: &[u8]| {
        let mut packets = result_set();
        packets[at] = packet.to_vec();
        packets
    };
    for (packets, expected) in [
        (vec![b"".to_vec()], "malformed packet"),
        (vec![b"\xfe".to_vec()], "malformed packet"),
        (vec![b"\xfd\xff\xff\xff".to_vec()], "a result of 16777215 columns"),
        (vec![b"\0".to_vec()], "malformed packet"),
        (with(1, b"\x03def"), "malformed packet"),
        (with(3, b"\x012"), "a row ends too early"),
        (with(3, b""), "a row ends too early"),
        (with(3, b"\x012\xfb\xfb"), "more values than columns"),
        (with(3, b"\x012\xfe\xff\xff\xff\xff\xff\xff\xff\xff"), "a row ends too early"),
        (with(5, b"\xfe"), "malformed packet"),
    ] {
        let (result, idle) = answer(packets, CAPABILITIES).await;
        let error = result.unwrap_err();
        assert!(matches!(&error, QueryError::Protocol { .. }) && error.to_string().contains(expected), "{error}");
        assert!(!idle);
    }
    let ends_with = |packet: &[u8]| [&result_set()[..4], &[packet.to_vec()]].concat();
    // An error between rows is the statement's.
    let interrupted = ends_with(b"\xff\x25\x05#70100Query execution was interrupted");
    let (result, idle) = answer(interrupted, CAPABILITIES).await;
    assert!(matches!(result, Err(QueryError::Server(error)) if error.code == 1317) && idle);
    // One behind which the server closes.
    let (result, idle) = answer(ends_with(b"\xff\x1d\x04#08S01Server shutdown in progress"), CAPABILITIES).await;
    assert!(matches!(result, Err(QueryError::Server(error)) if error.code == 1053) && !idle);
}

#[tokio::test]
async fn a_wrong_sequence_is_noticed() {
    let server = async |mut peer: Peer<TcpStream>| {
        peer.greet("mysql_native_password", CAPABILITIES).await;
        peer.write(OK).await;
        peer.read().await;
        peer.input.sequence = 7;
        peer.write(OK).await;
    };
    let error = meet(|_| {}, server, async |conn| run(&mut conn.expect("a connection"), "x").await.unwrap_err()).await;
    assert!(error.to_string().ends_with("packet 7 came where packet 1 was due"), "{error}");
}

#[tokio::test]
async fn wishes_for_local_files() {
    let server = async |mut peer: Peer<TcpStream>| {
        peer.greet("mysql_native_password", CAPABILITIES).await;
        peer.write(OK).await;
        peer.read().await;
        peer.write(b"\xfb/etc/passwd").await;
        assert_eq!(peer.read().await.as_deref(), Some(&b""[..]));
        peer.write(OK).await;
        peer.read().await;
        for packet in result_set() {
            peer.write(&packet).await;
        }
    };
    meet(
        |_| {},
        server,
        async |conn| {
            let mut conn = conn.expect("a connection");
            let error = run(&mut conn, "select 1").await.unwrap_err();
            assert_eq!(error.to_string(), "LOAD DATA LOCAL INFILE is not allowed (1148, 42000)");
            assert_eq!(run(&mut conn, "select 2").await.expect("rows"), ROWS);
        },
    )
    .await;
}

#[tokio::test]
async fn statements_that_the_server_forgot_are_prepared_again() {
    let prepared = b"\0\x07\0\0\0\x01\0\x01\0\0\0\0";
    let server = async |mut peer: Peer<TcpStream>| {
        peer.greet("mysql_native_password", CAPABILITIES).await;
        peer.write(OK).await;
        for round in 0..2 {
            assert_eq!(peer.read().await.expect("a command")[0], 0x16);
            peer.write(prepared).await;
            peer.write(&column("?", ColumnType::Long)).await;
            peer.write(&column("id", ColumnType::Long)).await;
            assert_eq!(peer.read().await.expect("a command")[..5], *b"\x17\x07\0\0\0");
            if round == 0 {
                peer.write(b"\xff\xdb\x04#HY000Unknown prepared statement handler").await;
            }
        }
        peer.write(b"\x01").await;
        peer.write(&column("id", ColumnType::Long)).await;
        peer.write(b"\0\0\x05\0\0\0").await;
        peer.write(b"\xfe\0\0\x02\0\0\0").await;
    };
    meet(
        |_| {},
        server,
        async |conn| {
            let mut conn = conn.expect("a connection");
            assert_eq!(run_with(&mut conn, "select ?", &[Param::Int(5)]).await.expect("rows"), "5\r\n");
        },
    )
    .await;
}

#[tokio::test]
async fn resets_travel_with_the_statement() {
    for reset_fails in [false, true] {
        let server = async |mut peer: Peer<TcpStream>| {
            peer.greet("mysql_native_password", CAPABILITIES).await;
            peer.write(OK).await;
            let expect = async |peer: &mut Peer<TcpStream>, command: &[u8], answer: &[u8]| {
                assert_eq!(peer.read().await.as_deref(), Some(command));
                peer.write(answer).await;
            };
            expect(&mut peer, b"\x03set @a = 1", OK).await;
            // The first reset shows that the server can; MySQL forgets the character set.
            expect(&mut peer, b"\x1f", OK).await;
            expect(&mut peer, b"\x02world", OK).await;
            expect(&mut peer, b"\x03SET NAMES 'utf8mb4'", OK).await;
            expect(&mut peer, b"\x03set @a = 2", OK).await;
            // The next one waits for no answer.
            for command in [&b"\x1f"[..], b"\x02world", b"\x03SET NAMES 'utf8mb4'", b"\x03select"] {
                assert_eq!(peer.read().await.as_deref(), Some(command));
            }
            for answer in [if reset_fails { b"\xff\x17\x04#08S01Unknown command" } else { OK }, OK, OK] {
                peer.input.sequence = 1;
                peer.write(answer).await;
            }
            peer.input.sequence = 1;
            for packet in result_set() {
                peer.write(&packet).await;
            }
        };
        let change = |options: &mut ConnectOptions| options.schema = "world".to_owned();
        meet(change, server, async |conn| {
            let mut conn = conn.expect("a connection");
            run(&mut conn, "set @a = 1").await.expect("an answer");
            conn.reset_before_next();
            assert!(conn.needs_reset_now());
            conn.reset().await.expect("an answer");
            assert!(!conn.needs_reset_now());
            conn.reset_before_next();
            run(&mut conn, "set @a = 2").await.expect("an answer");
            conn.reset_before_next();
            assert!(!conn.needs_reset_now());
            let result = run(&mut conn, "select").await;
            if reset_fails {
                let error = result.unwrap_err().to_string();
                assert!(error.ends_with("cannot reset the session: Unknown command (1047, 08S01)"), "{error}");
                assert!(!conn.is_idle());
            } else {
                assert_eq!(result.expect("rows"), ROWS);
            }
        })
        .await;
    }
}

/// All bytes of a conversation, as the server sends them: greeting, OK, result.
fn conversation() -> [Vec<u8>; 3] {
    let frame = |first: u8, payloads: &[Vec<u8>]| {
        let (mut out, mut sequence) = (Vec::new(), first);
        for payload in payloads {
            put_packet(&mut out, &mut sequence, &[payload]);
        }
        out
    };
    [frame(0, &[greeting("mysql_native_password", CAPABILITIES)]), frame(2, &[OK.to_vec()]), frame(1, &result_set())]
}

async fn converse(parts: [Vec<u8>; 3]) -> Result<String, QueryError> {
    let server = async |mut peer: Peer<TcpStream>| {
        for part in parts {
            let _ = peer.stream.write_all(&part).await;
            // Whatever the client says; it may also have gone.
            let mut buf = [0; 1024];
            if !matches!(tokio::time::timeout(Duration::from_millis(50), peer.stream.read(&mut buf)).await, Ok(Ok(1..)))
            {
                return;
            }
        }
    };
    let change = |options: &mut ConnectOptions| {
        options.timeouts.connect = Some(Duration::from_secs(5));
        options.timeouts.query = Some(Duration::from_secs(5));
    };
    meet(change, server, async |conn| run(&mut conn?, "select * from cats").await).await
}

#[tokio::test]
async fn conversations_cut_at_every_byte() {
    let [greeting, ok, rows] = conversation();
    let total = greeting.len() + ok.len() + rows.len();
    for cut in 0..total {
        let mut left = cut;
        let mut part = |bytes: &[u8]| {
            let len = left.min(bytes.len());
            left -= len;
            bytes[..len].to_vec()
        };
        let parts = [part(&greeting), part(&ok), part(&rows)];
        let error = converse(parts).await.unwrap_err();
        assert!(matches!(error, QueryError::Connect { .. } | QueryError::Lost { .. }), "{cut}: {error}");
    }
    assert_eq!(converse([greeting, ok, rows]).await.expect("rows"), ROWS);
}

#[tokio::test]
async fn conversations_with_every_byte_changed() {
    let parts = conversation();
    let lens = parts.each_ref().map(Vec::len);
    for part in 0..3 {
        for at in 0..lens[part] {
            for change in [1, 0x80, 0xff] {
                let mut parts = parts.clone();
                parts[part][at] ^= change;
                // Whether it is an error depends on the byte. It must neither hang nor panic.
                let _ = converse(parts).await;
            }
        }
    }
}

#[tokio::test]
async fn futures_of_statements_stay_small() {
    meet(
        |_| {},
        async |mut peer: Peer<TcpStream>| {
            peer.greet("mysql_native_password", CAPABILITIES).await;
            peer.write(OK).await;
        },
        async |conn| {
            let mut conn = conn.expect("a connection");
            let mut sink = Collect { format: Csv::new(CsvOptions::default()), out: Vec::new() };
            let size = size_of_val(&conn.execute(Statement { sql: b"", params: &[] }, &mut sink));
            assert!(size <= 1024, "{size}");
        },
    )
    .await;
    let pool = crate::Pool::new(crate::PoolOptions::new("", Vec::new()));
    let size = size_of_val(&pool.get(crate::Timeouts::default()));
    assert!(size <= 1024, "{size}");
}
