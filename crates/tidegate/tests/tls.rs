//! TLS for clients: what they get over it, by which certificate, and what becomes of those that break it.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use support::authority::{Authority, Secure, ask, secure};
use support::{Site, connect, free_port};

/// A site with TLS on a second port, and the authority of its certificate for `localhost`.
fn secure_site(server: &str) -> (Site, Authority, u16) {
    let (site, authority, port) = (Site::new("", ""), Authority::new(), free_port());
    authority.certify(&site, "localhost");
    let tls = "ssl_certificate localhost.crt; ssl_certificate_key localhost.key;";
    site.configure("", &format!("listen 127.0.0.1:{port} ssl; {tls} location = / {{ return 200 ok; }} {server}"));
    (site, authority, port)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("a head").1
}

#[test]
fn a_request_knows_its_connection() {
    let told = "location = /told { return 200 '$scheme $https $ssl_protocol $ssl_cipher $ssl_server_name'; }\n\
                location = /moved { return 301 /there; }";
    let (mut site, authority, port) = secure_site(told);
    site.start();
    for (version, expected) in [
        (&TLS13, "https on TLSv1.3 TLS_AES_256_GCM_SHA384 localhost"),
        (&TLS12, "https on TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384 localhost"),
    ] {
        let client = authority.client(&[version]);
        let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
        assert_eq!(body(&ask(&mut stream, &get("/told"))), expected);
        let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
        let moved = format!("Location: https://localhost:{port}/there\r\n");
        assert!(ask(&mut stream, &get("/moved")).contains(&moved));
    }
    assert!(support::get(site.port, "/told").expect("an answer").ends_with("\r\n\r\nhttp    "));
    site.quit();
}

#[test]
fn bodies_of_every_kind_pass() {
    let (mut site, authority, port) = secure_site("");
    let server = format!(
        "listen 127.0.0.1:{port} ssl; ssl_certificate localhost.crt; ssl_certificate_key localhost.key;\n\
         client_max_body_size 0; location = / {{ return 200 ok; }} location = /big {{ alias big; }}\n\
         location = /proxied {{ proxy_pass http://127.0.0.1:{}/echo; }}\n\
         location = /echo {{ content_by_lua_block {{\n\
         ngx.req.read_body() local file = ngx.req.get_body_file()\n\
         ngx.print(file and io.open(file, 'rb'):read('*a') or ngx.req.get_body_data()) }} }}\n\
         location = /lua {{ content_by_lua_block {{ for i = 1, 3 do ngx.say(i) ngx.flush(true) end }} }}\n\
         location = /raw {{ content_by_lua_block {{ local sock = ngx.req.socket(true)\n\
         sock:send('raw ') local line = sock:receive() sock:send(line) ngx.exit(444) }} }}",
        site.port
    );
    site.configure("", &server);
    let big: Vec<u8> = (0..8 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(site.dir.join("big"), &big).expect("written");
    site.start();
    let client = authority.client(&[&TLS13]);
    // One connection for all: it is kept alive.
    let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
    let mut exchange = |head: &str, sent: &[u8]| {
        write!(stream, "{head} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", sent.len()).expect("sent");
        stream.write_all(sent).expect("sent");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a head");
            answer.push(byte[0]);
        }
        let head = String::from_utf8(answer).expect("text");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let length = head.split_once("Content-Length: ").and_then(|(_, rest)| rest.split_once("\r\n"));
        match length {
            Some((length, _)) => {
                let mut content = vec![0; length.parse().expect("a number")];
                stream.read_exact(&mut content).expect("content");
                content
            }
            None => {
                let mut content = Vec::new();
                while !content.ends_with(b"0\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).expect("content");
                    content.push(byte[0]);
                }
                content
            }
        }
    };
    assert!(exchange("GET /big", b"") == big, "a file");
    assert_eq!(exchange("GET /", b""), b"ok");
    assert_eq!(exchange("GET /lua", b""), b"2\r\n1\n\r\n2\r\n2\n\r\n2\r\n3\n\r\n0\r\n\r\n");
    drop(stream);
    for (path, size) in [("/echo", 10), ("/proxied", 10), ("/echo", 1 << 20), ("/proxied", 1 << 20)] {
        let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
        write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {size}\r\n\r\n").expect("sent");
        stream.write_all(&big[..size]).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("a complete answer");
        assert!(answer.ends_with(&big[..size]), "{path} {size}: {} bytes", answer.len());
    }
    let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
    stream.write_all(b"GET /raw HTTP/1.1\r\nHost: localhost\r\n\r\nline\n").expect("sent");
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"raw line");
    site.quit();
}

#[test]
fn the_certificate_is_that_of_the_name() {
    let (mut site, authority, port) = (Site::new("", ""), Authority::new(), free_port());
    for name in ["localhost", "one.test", "two.test"] {
        authority.certify(&site, name);
    }
    let server = |name: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; server_name {name} *.{name};\n\
             ssl_certificate {name}.crt; ssl_certificate_key {name}.key; return 200 {name}; }}\n"
        )
    };
    site.write_conf(&format!(
        "error_log logs/error.log info; pid logs/nginx.pid; events {{ }}\n\
         http {{ server {{ listen 127.0.0.1:{}; return 200 ok; }} {} {}\n\
         server {{ listen 127.0.0.1:{port} ssl; server_name none.test; ssl_protocols TLSv1.3; return 200 none; }} }}",
        site.port,
        server("one.test"),
        server("two.test")
    ));
    site.start();
    let client = authority.client(&[&TLS13]);
    for name in ["one.test", "two.test"] {
        let mut stream = secure(&client, connect(port).expect("the server accepts"), name);
        let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
        assert_eq!(body(&ask(&mut stream, &request)), name);
    }
    // A server without a certificate, and a name that nobody has: both get the default server's. A dot at the end is none of the name's.
    for (name, of) in [("none.test", "one.test"), ("other.test", "one.test"), ("two.test.", "two.test")] {
        let arguments = ["s_client", "-connect", &format!("127.0.0.1:{port}"), "-servername", name, "-showcerts"];
        let shown = Command::new("openssl").args(arguments).stdin(std::process::Stdio::null()).output();
        let shown = shown.expect("openssl runs").stdout;
        let certificate = std::fs::read_to_string(site.dir.join(format!("conf/{of}.crt"))).expect("written");
        let lines = certificate.lines().nth(1).expect("text");
        assert!(String::from_utf8_lossy(&shown).contains(lines), "{name}");
    }
    site.quit();
}

#[test]
fn certificates_whose_names_are_made_for_each_handshake() {
    for cache in ["", "ssl_certificate_cache max=1 valid=1h inactive=1h;"] {
        let (mut site, authority, port) = (Site::new("", ""), Authority::new(), free_port());
        for name in ["one.test", "two.test"] {
            authority.certify(&site, name);
        }
        let key = std::fs::read_to_string(site.dir.join("conf/two.test.key")).expect("written");
        site.write_conf(&format!(
            "error_log logs/error.log info; pid logs/nginx.pid; events {{ }}\n\
             http {{ {cache} map $ssl_server_name $key {{ default 'data:{key}'; one.test one.test.key; }}\n\
             server {{ listen 127.0.0.1:{}; return 200 ok; }}\n\
             server {{ listen 127.0.0.1:{port} ssl; ssl_certificate $ssl_server_name.crt; ssl_certificate_key $key;\n\
             return 200 '$ssl_server_name $ssl_session_reused'; }} }}",
            site.port
        ));
        site.start();
        let client = authority.client(&[&TLS13]);
        let told = |name: &str| {
            let mut stream = secure(&client, connect(port).expect("the server accepts"), name);
            let answer = ask(&mut stream, &format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"));
            body(&answer).to_owned()
        };
        assert_eq!(told("one.test"), "one.test .", "{cache}");
        assert_eq!(told("two.test"), "two.test .", "{cache}");
        assert_eq!(told("one.test"), "one.test r", "{cache}");
        let mut stream = secure(&client, connect(port).expect("the server accepts"), "none.test");
        assert!(stream.write_all(b"x").and_then(|()| stream.flush()).is_err());
        site.wait_for_log(
            "cannot load certificate \"none.test.crt\": (2: No such file or directory) while SSL handshaking",
        );
        // A file that has gone is missed, unless it is remembered.
        std::fs::remove_file(site.dir.join("conf/one.test.crt")).expect("removed");
        let fresh = authority.client(&[&TLS13]);
        let mut stream = secure(&fresh, connect(port).expect("the server accepts"), "one.test");
        let sent = stream.write_all(b"x").and_then(|()| stream.flush());
        assert_eq!(sent.is_ok(), !cache.is_empty(), "{cache}");
        site.quit();
    }
}

#[test]
fn curl_and_old_protocols() {
    let (mut site, authority, port) = secure_site("ssl_protocols TLSv1.3;");
    let ca = site.dir.join("ca.pem");
    std::fs::write(&ca, &authority.pem).expect("written");
    site.start();
    let curl = |more: &[&str]| {
        let url = format!("https://localhost:{port}/");
        let mut command = Command::new("curl");
        command.args(["-s", "--noproxy", "*", "--cacert"]).arg(&ca).args(more).args([&url, &url]);
        command.args(["-w", " %{num_connects} "]).output().expect("curl runs")
    };
    assert_eq!(String::from_utf8_lossy(&curl(&[]).stdout), "ok 1 ok 0 ");
    let old = curl(&["--tls-max", "1.2"]);
    // 35: the handshake failed.
    assert_eq!((old.status.code(), old.stdout.is_empty()), (Some(35), false));
    // A client of TLS 1.1, without any extension: it learns in its own version that the version is the matter.
    let suite_and_compression = [0, 0, 2, 0xc0, 0x13, 1, 0];
    let hello = [&[0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2][..], &[7; 32], &suite_and_compression].concat();
    let mut socket = connect(port).expect("the server accepts");
    socket.write_all(&hello).expect("sent");
    let mut alert = Vec::new();
    socket.read_to_end(&mut alert).expect("an alert");
    assert_eq!(alert, [0x15, 3, 2, 0, 2, 2, 70]);
    site.quit();
}

#[test]
fn plain_text_at_the_port_of_tls() {
    let (mut site, _, port) = secure_site("error_page 497 =302 https://$host/moved;");
    site.start();
    let answer = support::get(port, "/").expect("an answer");
    assert!(
        answer.starts_with("HTTP/1.1 302 ") && answer.contains("Location: https://localhost/moved\r\n"),
        "{answer}"
    );
    site.quit();
    // A code of the server's own is none for a client.
    let (mut site, _, port) = secure_site("error_page 497 /page; location = /page { return 200 'page $status'; }");
    site.start();
    let answer = support::get(port, "/").expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("page 400"), "{answer}");
    site.quit();
    let (mut site, _, port) = secure_site("");
    site.start();
    let answer = support::get(port, "/").expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("The plain HTTP request was sent to HTTPS port"), "{answer}");
    site.quit();
}

#[test]
fn handshakes_that_break_off() {
    let (mut site, authority, port) = secure_site("error_log logs/error.log info;");
    site.configure(
        "error_log logs/error.log info;",
        &format!(
            "listen 127.0.0.1:{port} ssl; ssl_certificate localhost.crt; ssl_certificate_key localhost.key;\n\
             client_header_timeout 300ms; location = / {{ return 200 ok; }}"
        ),
    );
    site.start();
    let client = authority.client(&[&TLS12, &TLS13]);
    let name = ServerName::try_from("localhost").expect("a name");
    let mut hello = Vec::new();
    ClientConnection::new(client.clone(), name).expect("a client").write_tls(&mut hello).expect("memory");
    for length in 0..hello.len() {
        let mut socket = connect(port).expect("the server accepts");
        socket.write_all(&hello[..length]).expect("sent");
    }
    site.wait_for_log("peer closed connection in SSL handshake while SSL handshaking");
    // Not a byte is what it should be, then one alone, and a client that goes no further.
    let mut socket = connect(port).expect("the server accepts");
    socket.write_all(b"\x16\x03\x01\x02\x00garbage").and_then(|()| socket.write_all(&[0x55; 600])).expect("sent");
    site.wait_for_log("SSL_do_handshake() failed (SSL: ");
    let mut one = hello.clone();
    one[9] ^= 0xff;
    connect(port).and_then(|mut socket| socket.write_all(&one)).expect("sent");
    let mut slow = connect(port).expect("the server accepts");
    slow.write_all(&hello[..20]).expect("sent");
    site.wait_for_log("client timed out (110: Connection timed out) while SSL handshaking");
    let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
    assert_eq!(body(&ask(&mut stream, &get("/"))), "ok");
    assert!(!site.log().contains("[alert]") && !site.log().contains("panicked"), "{}", site.log());
    site.quit();
}

#[test]
fn the_proxy_protocol_comes_first() {
    let (site, authority, port) = (Site::new("", ""), Authority::new(), free_port());
    authority.certify(&site, "localhost");
    let mut site = site;
    site.configure(
        "",
        &format!(
            "listen 127.0.0.1:{port} ssl proxy_protocol; ssl_certificate localhost.crt; ssl_certificate_key localhost.key;\n\
             location = / {{ return 200 '$proxy_protocol_addr $scheme'; }}"
        ),
    );
    site.start();
    let client = authority.client(&[&TLS13]);
    let name = ServerName::try_from("localhost").expect("a name");
    let mut connection = ClientConnection::new(client, name).expect("a client");
    let mut first = b"PROXY TCP4 192.0.2.7 192.0.2.8 1000 443\r\n".to_vec();
    connection.write_tls(&mut first).expect("memory");
    let mut socket = connect(port).expect("the server accepts");
    // In one packet: the server has bytes of the handshake when it has read the header.
    socket.write_all(&first).expect("sent");
    let mut stream = StreamOwned::new(connection, socket);
    assert_eq!(body(&ask(&mut stream, &get("/"))), "192.0.2.7 https");
    site.quit();
}

#[test]
fn a_client_that_reads_late_gets_everything() {
    let (mut site, authority, port) = secure_site("location = /big { alias big; } location = /two { return 200 two; }");
    std::fs::write(site.dir.join("big"), vec![b'x'; 32 << 20]).expect("written");
    site.start();
    let client = authority.client(&[&TLS13]);
    let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
    stream.write_all(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    stream.write_all(get("/two").as_bytes()).expect("sent");
    // The worker serves others while this client does not read.
    let mut other = secure(&client, connect(port).expect("the server accepts"), "localhost");
    assert_eq!(body(&ask(&mut other, &get("/"))), "ok");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("complete answers");
    assert!(answer.len() > 32 << 20 && answer.ends_with(b"\r\n\r\ntwo"), "{}", answer.len());
    site.quit();
}

/// Memory of the server's process in kilobytes, without the pages of its files.
fn memory_kb(site: &Site) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", site.server())).expect("our process");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// What a handshake that never ends may cost: the library's buffers, a message of 16 KB as far as it has come, the task.
const UNFINISHED_KB_MAX: u64 = 32;

#[test]
fn handshakes_that_never_end_are_bounded_and_end() {
    const CLIENTS: usize = 400;
    let (mut site, authority, port) = secure_site("client_header_timeout 3s;");
    site.start();
    let client = authority.client(&[&TLS13]);
    let served = || {
        let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
        assert_eq!(body(&ask(&mut stream, &get("/"))), "ok");
    };
    served();
    let before_kb = memory_kb(&site);
    // A byte; half of a large message in one record; a whole message without what follows it.
    let large = [&[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc][..], &[0; 8000]].concat();
    let name = ServerName::try_from("localhost").expect("a name");
    let mut hello = Vec::new();
    ClientConnection::new(client.clone(), name).expect("a client").write_tls(&mut hello).expect("memory");
    let beginnings = [&[0x16][..], &large, &hello];
    let stuck: Vec<_> = (0..CLIENTS)
        .map(|index| {
            let mut socket = connect(port).expect("the server accepts");
            socket.write_all(beginnings[index % 3]).expect("sent");
            socket
        })
        .collect();
    // The server's only worker has read what came before this.
    served();
    let grown_kb = memory_kb(&site).saturating_sub(before_kb);
    assert!(grown_kb <= UNFINISHED_KB_MAX * CLIENTS as u64, "{grown_kb} KB for {CLIENTS} handshakes");
    for mut socket in stuck {
        // The end comes, behind the server's part where there is one.
        let end = socket.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert!(!matches!(end, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "{end:?}");
    }
    served();
    site.quit();
}

/// The steps of a handshake share its time.
#[test]
fn a_handshake_has_its_time_once() {
    let (mut site, authority, port) = secure_site("client_header_timeout 4s;");
    site.start();
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(authority.client(&[&TLS13]), name).expect("a client");
    let begin = Instant::now();
    let mut socket = connect(port).expect("the server accepts");
    // A client that takes three of the four seconds to say its first word says nothing more.
    std::thread::sleep(Duration::from_secs(3));
    while client.wants_write() {
        client.write_tls(&mut socket).expect("sent");
    }
    // A reset is an end as well.
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    let passed = begin.elapsed();
    assert!(!answer.is_empty(), "the server's part of the handshake");
    assert!(passed > Duration::from_secs(3) && passed < Duration::from_secs(6), "{passed:?}");
    site.quit();
}

#[test]
fn sessions_are_resumed() {
    let cache = "ssl_session_tickets off; ssl_session_cache shared:tls:1m;";
    let key = "ssl_session_ticket_key ticket.key; ssl_session_timeout 1h;";
    for (server, expected) in [("", true), ("ssl_session_tickets off;", false), (cache, true), (key, true)] {
        let (mut site, authority, port) = secure_site(server);
        std::fs::write(site.dir.join("conf/ticket.key"), [7; 80]).expect("written");
        site.start();
        let client = authority.client(&[&TLS13]);
        let (mut resumed, mut tickets) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
            ask(&mut stream, &get("/"));
            resumed.push(stream.conn.handshake_kind() == Some(rustls::HandshakeKind::Resumed));
            tickets.push(stream.conn.tls13_tickets_received());
        }
        assert_eq!(resumed, [false, expected], "{server}");
        // A client that comes back has used one up, and gets one for it.
        assert_eq!(tickets, if expected { [2, 1] } else { [0, 0] }, "{server}");
        site.quit();
    }
}

#[test]
fn commands_of_openssl_take_the_place_of_directives() {
    let commands = "ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command MinProtocol TLSv1.3;\n\
                    ssl_conf_command ciphersuites TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_CCM_SHA256;\n\
                    ssl_conf_command Options -SessionTicket,NoRenegotiation; ssl_conf_command Groups P-384;\n\
                    ssl_conf_command Certificate other.crt; ssl_conf_command PrivateKey other.key;\n\
                    location = /told { return 200 '$ssl_protocol $ssl_cipher $ssl_curve'; }";
    let (mut site, authority, port) = secure_site(commands);
    // The certificate of the directives has another name than clients ask for.
    for suffix in ["crt", "key"] {
        let path = |name: &str| site.dir.join(format!("conf/{name}.{suffix}"));
        std::fs::rename(path("localhost"), path("other")).expect("renamed");
    }
    authority.certify(&site, "elsewhere.test");
    for suffix in ["crt", "key"] {
        let path = |name: &str| site.dir.join(format!("conf/{name}.{suffix}"));
        std::fs::rename(path("elsewhere.test"), path("localhost")).expect("renamed");
    }
    site.start();
    site.wait_for_log("\"Ciphersuites\": not offered: TLS_AES_128_CCM_SHA256");
    let told = "TLSv1.3 TLS_CHACHA20_POLY1305_SHA256 secp384r1";
    let client = authority.client(&[&TLS13]);
    for _ in 0..2 {
        let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
        assert_eq!(body(&ask(&mut stream, &get("/told"))), told);
        assert_ne!(stream.conn.handshake_kind(), Some(rustls::HandshakeKind::Resumed));
    }
    let old = authority.client(&[&TLS12]);
    let mut stream = secure(&old, connect(port).expect("the server accepts"), "localhost");
    assert!(stream.write_all(b"GET").is_err(), "a version that a command leaves out");
    site.quit();
    for (command, expected) in [
        ("MinProtocol TLSv1.4", "SSL_CONF_cmd(\"MinProtocol\", \"TLSv1.4\") failed"),
        ("MaxProtocol TLSv1.1", "are not safe (RFC 8996)"),
        ("Nonsense on", "OpenSSL has no such command"),
        ("NumTickets 4", "\"NumTickets\" in \"ssl_conf_command\" has no effect"),
        ("Options PrioritizeChaCha", "\"PrioritizeChaCha\" in \"ssl_conf_command\" has no effect"),
        ("Ciphersuites TLS_AES_128_CCM_SHA256", "no cipher match"),
    ] {
        let tls = "ssl_certificate localhost.crt; ssl_certificate_key localhost.key;";
        site.configure("", &format!("listen 127.0.0.1:{port} ssl; {tls} ssl_conf_command {command};"));
        let output = site.run(&["-t"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(expected), "{command}: {text}");
    }
}

/// Reads one answer, which has a length.
fn answer(stream: &mut Secure) -> String {
    let mut answer = String::new();
    while !answer.ends_with("told\n") {
        let mut part = [0; 1024];
        let count = stream.read(&mut part).expect("a part of the answer");
        assert!(count > 0, "the connection ends within {answer:?}");
        answer.push_str(std::str::from_utf8(&part[..count]).expect("text"));
    }
    answer
}

/// A client that shows a certificate.
fn visitor(authority: &Authority, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["visitor".to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, &authority.issuer).expect("signed");
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).expect("versions");
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let client = builder.with_root_certificates(roots).with_client_auth_cert(vec![certificate.der().clone()], key);
    Arc::new(client.expect("a certificate and its key"))
}

/// Long enough for a connection to be parked on a machine that is not busy. On a busy one less is tested.
fn pause() {
    std::thread::sleep(Duration::from_millis(150));
}

/// A site as [`secure_site`] gives, whose connections are parked early.
fn parking_site(server: &str) -> (Site, Authority, u16) {
    let (mut site, authority, port) = secure_site("");
    std::fs::write(site.dir.join("conf/authority.crt"), &authority.pem).expect("written");
    let tls = "ssl_certificate localhost.crt; ssl_certificate_key localhost.key;";
    site.write_conf(&format!(
        "error_log logs/error.log notice;\npid logs/nginx.pid;\nevents {{ park_after 20ms; }}\n\
         http {{ server {{ listen 127.0.0.1:{}; listen 127.0.0.1:{port} ssl; {tls} {server}\n\
         location = / {{ return 200 ok; }} }} }}\n",
        site.port
    ));
    site.start();
    (site, authority, port)
}

#[test]
fn parked_connections_remember_their_handshake() {
    let (mut site, authority, port) = parking_site(
        "ssl_verify_client optional; ssl_client_certificate authority.crt; large_client_header_buffers 4 32k;\n\
         location = /told {\n\
         return 200 '$ssl_protocol $ssl_server_name $ssl_client_verify $connection_requests $http_x told\n'; }",
    );
    let long = "x".repeat(20_000);
    for (version, name) in [(&TLS13, "TLSv1.3"), (&TLS12, "TLSv1.2")] {
        let client = visitor(&authority, version);
        let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
        let mut told = |parts: &[&str]| {
            for part in parts {
                stream.write_all(part.as_bytes()).expect("sent");
                stream.flush().expect("sent");
                pause();
            }
            body(&answer(&mut stream)).to_owned()
        };
        let head = "GET /told HTTP/1.1\r\nHost: localhost\r\n";
        let known = format!("{name} localhost SUCCESS");
        assert_eq!(told(&[&format!("{head}\r\n")]), format!("{known} 1  told\n"));
        assert_eq!(told(&[&format!("{head}\r\n")]), format!("{known} 2  told\n"));
        assert_eq!(told(&["G", &head[1..], "X: here\r\n", "\r\n"]), format!("{known} 3 here told\n"));
        // More than fits into one record, behind a byte for which the connection was parked.
        assert_eq!(told(&["G", &format!("{}X: {long}\r\n\r\n", &head[1..])]), format!("{known} 4 {long} told\n"));
    }
    site.quit();
}

#[test]
fn parked_connections_end_with_a_farewell() {
    let (mut site, authority, port) =
        parking_site("keepalive_timeout 300ms; location = /told { return 200 'told\n'; }");
    let client = authority.client(&[&TLS13]);
    let connected = || {
        let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
        stream.write_all(b"GET /told HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
        answer(&mut stream);
        pause();
        stream
    };
    // What is written to a parked connection that its client has left is nobody's, and harms nobody.
    drop(connected());
    let mut cut = connected();
    cut.sock.write_all(&[0x17, 3, 3, 0, 40, 1, 2, 3]).expect("sent");
    drop(cut);
    let mut garbage = connected();
    garbage.sock.write_all(&[7; 40]).expect("sent");
    assert!(garbage.read(&mut [0; 64]).is_err(), "an alert");
    // An end without a farewell would be an error.
    assert_eq!(connected().read(&mut [0; 64]).expect("a farewell"), 0);
    site.quit();
}

#[test]
fn what_cannot_be_served_is_said_when_the_configuration_loads() {
    let (site, authority) = (Site::new("", ""), Authority::new());
    for name in ["one", "two"] {
        authority.certify(&site, name);
    }
    let conf = site.dir.join("conf");
    std::fs::write(conf.join("empty"), "").expect("written");
    let check = |server: &str, expected: &str| {
        site.write_conf(&format!("events {{ }}\nhttp {{ server {{ listen 127.0.0.1:4433 ssl; {server} }} }}\n"));
        let output = site.run(&["-t"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(expected), "{server}: {text}");
        output.status.success()
    };
    let path = |name: &str| Path::new(&conf).join(name).display().to_string();
    assert!(!check("", "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive"));
    assert!(!check("ssl_certificate one.crt;", "no \"ssl_certificate_key\" is defined for certificate \"one.crt\""));
    let missing = format!("cannot load certificate \"{}\": (2: No such file or directory)", path("none"));
    assert!(!check("ssl_certificate none; ssl_certificate_key one.key;", &missing));
    let empty = format!("cannot load certificate key \"{}\": (no private key in it)", path("empty"));
    assert!(!check("ssl_certificate one.crt; ssl_certificate_key empty;", &empty));
    let mismatch = format!("cannot load certificate key \"{}\": ", path("two.key"));
    assert!(!check("ssl_certificate one.crt; ssl_certificate_key two.key;", &mismatch));
    let good = "ssl_certificate one.crt; ssl_certificate_key one.key;";
    assert!(check(good, "test is successful"));
    assert!(check(&format!("{good} ssl_buffer_size 4k;"), "\"ssl_buffer_size\" has no effect yet"));
    assert!(check(&format!("{good} ssl_ciphers ECDHE+AESGCM:AES128-SHA;"), "\"ssl_ciphers\": not offered: AES128-SHA"));
    assert!(!check(&format!("{good} ssl_ciphers nonsense;"), "(no cipher match)"));
    assert!(check(&format!("{good} ssl_ecdh_curve secp521r1:X25519;"), "\"ssl_ecdh_curve\": not offered: secp521r1"));
    assert!(!check(&format!("{good} ssl_ecdh_curve secp521r1;"), "names no curve that is offered"));
    assert!(!check(&format!("{good} ssl_ecdh_curve x;"), "unknown curve \"x\""));
    assert!(check(&format!("{good} ssl_protocols TLSv1 TLSv1.2;"), "versions before TLSv1.2 are not safe"));
    assert!(!check(&format!("{good} ssl_protocols TLSv1.1;"), "names no version that is safe"));
    assert!(!check(&format!("{good} ssl_verify_client on;"), "no ssl_client_certificate or ssl_trusted_certificate"));
    assert!(!check(&format!("{good} ssl_verify_client maybe;"), "maybe"));
    assert!(!check(&format!("{good} ssl_session_cache shared:a;"), "invalid session cache \"shared:a\""));
    assert!(!check(&format!("{good} ssl_session_ticket_key empty;"), "\"empty\" must be 48 or 80 bytes"));
    std::fs::write(conf.join("sealed"), include_str!("../../tidegate-tls/tests/encrypted.key")).expect("written");
    let sealed = "ssl_certificate one.crt; ssl_certificate_key sealed;";
    assert!(!check(sealed, "the key is encrypted, and no password opens it"));
    // The right password, and the wrong certificate.
    std::fs::write(conf.join("words"), "wrong\ntide\n").expect("written");
    assert!(!check(&format!("{sealed} ssl_password_file words;"), "KeyMismatch"));
    let [certificate, key] = ["one.crt", "one.key"].map(|name| std::fs::read_to_string(conf.join(name)).expect("text"));
    assert!(check(
        &format!("ssl_certificate 'data:{certificate}'; ssl_certificate_key 'data:{key}';"),
        "is successful"
    ));
    assert!(!check(
        "ssl_certificate 'data:x'; ssl_certificate_key one.key;",
        "cannot load certificate \"data:\": (no certificate in it)"
    ));
    assert!(!check("ssl_certificate engine:x;", "keys are read from files alone"));
    assert!(check("ssl_certificate $ssl_server_name.crt; ssl_certificate_key $ssl_server_name.key;", "is successful"));
    assert!(!check(
        "ssl_certificate $ssl_server_nam.crt; ssl_certificate_key one.key;",
        "unknown \"ssl_server_nam\" variable"
    ));
    assert!(!check(&format!("{good} ssl_certificate_cache inactive=1s;"), "must have the \"max\" parameter"));
    assert!(check(&format!("{good} ssl_certificate_cache max=9 valid=1h;"), "is successful"));
}
