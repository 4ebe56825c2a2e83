//! The status of certificates: what responders say of ours and of clients', whatever they do instead of saying something.

mod support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, CustomExtension, DnType, KeyPair, SerialNumber};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use support::authority::{Authority, ask, secure};
use support::{Site, connect, eventually, free_port};

/// Number of a certificate that the authority's list has as revoked.
const REVOKED: u64 = 0x2002;

/// Runs openssl in `dir`.
fn openssl(dir: &Path, arguments: &str) -> Vec<u8> {
    let output = Command::new("openssl").current_dir(dir).args(arguments.split(' ')).output().expect("openssl runs");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Certifies `conf/<name>.crt` with a number, and the address of a responder.
fn certify(authority: &Authority, site: &Site, name: &str, serial: u64, responder: &str) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.serial_number = Some(SerialNumber::from(serial));
    if !responder.is_empty() {
        // SEQUENCE { SEQUENCE { OID id-ad-ocsp, [6] uniformResourceIdentifier } }
        let uri = [&[0x86, u8::try_from(responder.len()).expect("short")], responder.as_bytes()].concat();
        let oid = b"\x06\x08\x2b\x06\x01\x05\x05\x07\x30\x01";
        let sequence = |content: &[u8]| [&[0x30, u8::try_from(content.len()).expect("short")], content].concat();
        let content = sequence(&sequence(&[&oid[..], &uri].concat()));
        params.custom_extensions.push(CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], content));
    }
    let certificate = params.signed_by(&key, &authority.issuer).expect("signed");
    std::fs::write(site.dir.join(format!("conf/{name}.crt")), certificate.pem()).expect("written");
    std::fs::write(site.dir.join(format!("conf/{name}.key")), key.serialize_pem()).expect("written");
}

/// Writes what `openssl ocsp` needs to answer for an authority: `<name>.crt`, its key, and the list of its certificates.
fn keep_list(authority: &Authority, site: &Site, name: &str) {
    let dir = site.dir.join("conf");
    std::fs::write(dir.join(format!("{name}.crt")), &authority.pem).expect("written");
    std::fs::write(dir.join(format!("{name}.key")), authority.issuer.key().serialize_pem()).expect("written");
    let good = |serial: u64| format!("V\t491231235959Z\t\t{serial:X}\tunknown\t/CN={serial}\n");
    let revoked = format!("R\t491231235959Z\t200101000000Z\t{REVOKED:X}\tunknown\t/CN=revoked\n");
    let list: String = (0x1001..0x1010).map(good).chain([revoked]).collect();
    std::fs::write(dir.join("index.txt"), list).expect("written");
}

/// `openssl ocsp` as a server.
struct OpensslResponder(Child, u16);

impl OpensslResponder {
    fn start(dir: &Path) -> Self {
        let arguments = "ocsp -port 0 -index index.txt -CA ca.crt -rsigner ca.crt -rkey ca.key -nmin 60";
        let mut command = Command::new("openssl");
        let command = command.current_dir(dir).args(arguments.split(' ')).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("openssl runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says where it listens");
        let port = line.split_once(' ').and_then(|(_, rest)| rest.split(' ').next()?.rsplit(':').next()?.parse().ok());
        Self(child, port.expect("a port"))
    }
}

impl Drop for OpensslResponder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A responder that does what the first part of the path says; `openssl ocsp` makes its answers.
struct Responder {
    port: u16,
    counts: Arc<Mutex<HashMap<String, usize>>>,
    /// Parts of paths that are answered otherwise now.
    turned: Arc<Mutex<HashMap<String, String>>>,
}

impl Responder {
    fn start(dir: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (counts, turned): (Arc<Mutex<HashMap<_, _>>>, Arc<Mutex<HashMap<_, _>>>) = Default::default();
        let (counted, turns) = (counts.clone(), turned.clone());
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let (dir, counted, turns) = (dir.clone(), counted.clone(), turns.clone());
                std::thread::spawn(move || serve(&dir, number, stream.expect("accepted"), &counted, &turns));
            }
        });
        Self { port, counts, turned }
    }

    fn count(&self, mode: &str) -> usize {
        self.counts.lock().expect("no panic").get(mode).copied().unwrap_or_default()
    }

    fn turn(&self, mode: &str, into: &str) {
        self.turned.lock().expect("no panic").insert(mode.to_owned(), into.to_owned());
    }

    fn address(&self, mode: &str) -> String {
        format!("http://127.0.0.1:{}/{mode}", self.port)
    }
}

fn serve(
    dir: &Path,
    number: usize,
    mut stream: TcpStream,
    counts: &Mutex<HashMap<String, usize>>,
    turned: &Mutex<HashMap<String, String>>,
) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let path = head.split(' ').nth(1).expect("a path");
    let (mode, question) = path.trim_start_matches('/').split_once('/').expect("a mode");
    *counts.lock().expect("no panic").entry(mode.to_owned()).or_default() += 1;
    let mode = turned.lock().expect("no panic").get(mode).cloned().unwrap_or_else(|| mode.to_owned());
    let question = question.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
    std::fs::write(dir.join(format!("{number}.b64")), question).expect("written");
    openssl(dir, &format!("base64 -d -A -in {number}.b64 -out {number}.req"));
    let signer = if mode == "stranger" { "stranger" } else { "ca" };
    openssl(
        dir,
        &format!(
            "ocsp -index index.txt -CA ca.crt -rsigner {signer}.crt -rkey {signer}.key -nmin 60 -reqin {number}.req \
             -respout {number}.der"
        ),
    );
    let answer = std::fs::read(dir.join(format!("{number}.der"))).expect("an answer");
    let good = "HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\n";
    let sized = |answer: &[u8]| [format!("{good}Content-Length: {}\r\n\r\n", answer.len()).as_bytes(), answer].concat();
    let response = match mode.as_str() {
        "good" | "stranger" => sized(&answer),
        "unsized" => [format!("{good}Connection: close\r\n\r\n").as_bytes(), &answer].concat(),
        "chunked" => {
            let head = format!("{good}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", answer.len());
            [head.as_bytes(), &answer, b"\r\n0\r\n\r\n"].concat()
        }
        "cut" => sized(&answer)[..sized(&answer).len() - 1].to_vec(),
        "short" => sized(&answer[..answer.len() - 1]),
        "later" => sized(b"\x30\x03\x0a\x01\x03"),
        "page" => b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi".to_vec(),
        "fault" => b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".to_vec(),
        "noise" => b"220 mail.test ESMTP\r\n".to_vec(),
        "flood" => sized(&vec![0; 1 << 20]),
        "gone" => Vec::new(),
        "silent" => {
            // Until the server gives up.
            let _ = stream.read(&mut [0]);
            return;
        }
        other => unreachable!("{other}"),
    };
    // The server may have had enough before the end.
    let _ = stream.write_all(&response);
}

/// What `openssl s_client` says of the status that a server shows.
fn shown(port: u16, name: &str, version: &str) -> String {
    let arguments = format!("s_client -connect 127.0.0.1:{port} -servername {name} -status {version}");
    let shown = Command::new("openssl").args(arguments.split(' ')).stdin(Stdio::null()).output().expect("openssl runs");
    String::from_utf8_lossy(&shown.stdout).into_owned()
}

fn is_good(port: u16, name: &str, version: &str) -> bool {
    shown(port, name, version).contains("Cert Status: good")
}

fn conf(site: &Site, http: &str) -> String {
    format!(
        "error_log logs/error.log info; pid logs/nginx.pid; events {{ }}\n\
         http {{ server {{ listen 127.0.0.1:{}; return 200 plain; }} {http} }}",
        site.port
    )
}

fn server(port: u16, name: &str, more: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:{port} ssl; server_name {name}; ssl_certificate {name}.crt;\n\
         ssl_certificate_key {name}.key; ssl_stapling on; {more} return 200 ok; }}\n"
    )
}

#[test]
fn the_status_is_shown_that_openssl_tells() {
    let (mut site, authority, port) = (Site::new("", ""), Authority::named("ca"), free_port());
    keep_list(&authority, &site, "ca");
    let responder = OpensslResponder::start(&site.dir.join("conf"));
    let address = format!("http://127.0.0.1:{}", responder.1);
    certify(&authority, &site, "named.test", 0x1001, &address);
    certify(&authority, &site, "silent.test", 0x1002, "");
    let trust = "ssl_trusted_certificate ca.crt; ssl_stapling_verify on;";
    site.write_conf(&conf(
        &site,
        &[
            server(port, "named.test", trust),
            server(port, "silent.test", &format!("{trust} ssl_stapling_responder {address};")),
        ]
        .concat(),
    ));
    site.start();
    for name in ["named.test", "silent.test"] {
        eventually("the status is there", || is_good(port, name, "-tls1_3").then_some(()));
        assert!(is_good(port, name, "-tls1_2"), "{name}");
    }
    site.quit();
}

#[test]
fn what_responders_do_instead_is_told_and_not_shown() {
    let (mut site, authority, port) = (Site::new("", ""), Authority::named("ca"), free_port());
    keep_list(&authority, &site, "ca");
    // It signs without leave.
    certify(&authority, &site, "stranger", 0x1003, "");
    let responder = Responder::start(site.dir.join("conf"));
    let cases = [
        ("revoked", "good", "certificate status \"revoked\" in the OCSP response"),
        ("unknown", "good", "certificate status \"unknown\" in the OCSP response"),
        ("stranger-verified", "stranger", "OCSP_basic_verify() failed"),
        ("short", "short", "d2i_OCSP_RESPONSE() failed"),
        ("cut", "cut", "OCSP responder sent no valid response"),
        ("later", "later", "OCSP response not successful (3: trylater)"),
        ("page", "page", "OCSP responder sent invalid \"Content-Type\" header"),
        ("fault", "fault", "OCSP responder sent status 500"),
        ("noise", "noise", "OCSP responder sent no valid response"),
        ("flood", "flood", "OCSP responder sent more than 65536 bytes"),
        ("gone", "gone", "OCSP responder sent no valid response"),
        ("unsized", "unsized", ""),
        ("chunked", "chunked", ""),
        ("stranger", "stranger", ""),
        ("silent", "silent", ""),
    ];
    let mut http = "ssl_trusted_certificate ca.crt;\n".to_owned();
    for (name, mode, _) in cases {
        let serial = match name {
            "revoked" => REVOKED,
            "unknown" => 0x7777,
            _ => 0x1001,
        };
        if name != "stranger" {
            certify(&authority, &site, name, serial, &responder.address(mode));
        }
        let verify = if name == "stranger-verified" { "on" } else { "off" };
        let at = format!("ssl_stapling_responder {}; ssl_stapling_verify {verify};", responder.address(mode));
        http.push_str(&server(port, name, &at));
    }
    site.write_conf(&conf(&site, &http));
    site.start();
    for (name, _, told) in cases {
        if told.is_empty() {
            continue;
        }
        let line = |log: &str| {
            log.lines().any(|line| line.contains(told) && line.contains(&format!("certificate: \"{name}.crt\"")))
        };
        eventually(&format!("the log tells of {name}"), || line(&site.log()).then_some(()));
        assert!(shown(port, name, "-tls1_3").contains("OCSP response: no response sent"), "{name}");
    }
    for name in ["unsized", "chunked", "stranger"] {
        eventually("the status is there", || is_good(port, name, "-tls1_3").then_some(()));
    }
    eventually("it is asked", || (responder.count("silent") > 0).then_some(()));
    assert!(shown(port, "silent", "-tls1_3").contains("OCSP response: no response sent"));
    // Nobody waits for who says nothing.
    site.quit();
}

#[test]
fn a_reload_keeps_the_status() {
    let (mut site, authority, port) = (Site::new("", ""), Authority::named("ca"), free_port());
    keep_list(&authority, &site, "ca");
    let responder = Responder::start(site.dir.join("conf"));
    certify(&authority, &site, "localhost", 0x1001, &responder.address("good"));
    let configure = |site: &Site, more: &str, status: &str| {
        let rules = format!("ssl_trusted_certificate ca.crt; {more}");
        let text = conf(site, &server(port, "localhost", &rules));
        site.write_conf(&text.replace("return 200 plain", &format!("return {status} plain")));
    };
    configure(&site, "", "200");
    site.start();
    eventually("the status is there", || is_good(port, "localhost", "-tls1_3").then_some(()));
    responder.turn("good", "gone");
    // The same question; the same one by another way.
    for (more, status) in [("", "201"), ("resolver 127.0.0.1:1;", "202")] {
        configure(&site, more, status);
        site.signal(nix::sys::signal::Signal::SIGHUP);
        let reloaded = || support::get(site.port, "/").ok()?.contains(&format!(" {status} ")).then_some(());
        eventually("it is reloaded", reloaded);
        assert!(is_good(port, "localhost", "-tls1_3"), "{status}");
    }
    assert_eq!(responder.count("good"), 1);
    // Another question: whom the issuer has charged counts alone.
    configure(&site, "ssl_stapling_verify on;", "203");
    site.signal(nix::sys::signal::Signal::SIGHUP);
    eventually("it is asked again", || (responder.count("good") > 1).then_some(()));
    eventually("nothing is shown", || (!is_good(port, "localhost", "-tls1_3")).then_some(()));
    site.quit();
}

#[test]
fn what_cannot_be_asked_is_said_when_the_configuration_loads() {
    let (site, authority, port) = (Site::new("", ""), Authority::named("ca"), free_port());
    keep_list(&authority, &site, "ca");
    certify(&authority, &site, "mute", 0x1001, "");
    certify(&authority, &site, "safe", 0x1002, "https://ocsp.test/");
    certify(&authority, &site, "good", 0x1003, "http://ocsp.test/");
    let trust = "ssl_trusted_certificate ca.crt;";
    for (name, more, told) in [
        ("mute", trust, "\"ssl_stapling\" ignored, no OCSP responder URL in the certificate \"mute.crt\""),
        ("good", "", "\"ssl_stapling\" ignored, no certificate of the issuer in the certificate \"good.crt\""),
        ("safe", trust, "\"ssl_stapling\" ignored, invalid URL prefix in OCSP responder \"https://ocsp.test/\""),
        (
            "good",
            "ssl_stapling_responder https://ocsp.test;",
            "invalid URL prefix in OCSP responder \"https://ocsp.test\"",
        ),
        ("good", "ssl_ocsp_responder http://;", "invalid host in OCSP responder \"http://\""),
        ("good", "ssl_ocsp maybe;", "invalid value \"maybe\""),
        ("good", "ssl_ocsp_cache shared:a:4k;", "OCSP cache \"shared:a:4k\" is too small"),
        ("good", "ssl_ocsp_cache builtin;", "invalid OCSP cache \"builtin\""),
        (
            "good",
            "ssl_ocsp on; ssl_verify_client optional_no_ca;",
            "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"",
        ),
    ] {
        site.write_conf(&conf(&site, &server(port, name, more)));
        let output = site.run(&["-t"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(told), "{name} {more}: {said}");
    }
}

/// What a server answers to the client with the certificate `name`.
struct Visitor<'s> {
    site: &'s Site,
    servers: &'s Authority,
    port: u16,
}

impl Visitor<'_> {
    fn client(&self, name: &str, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.servers.certificate.clone()).expect("a certificate");
        let read = |end: &str| std::fs::read(self.site.dir.join(format!("conf/{name}.{end}"))).expect("written");
        let chain =
            rustls::pki_types::CertificateDer::pem_slice_iter(&read("crt")).map(|one| one.expect("PEM")).collect();
        let key = PrivateKeyDer::from_pem_slice(&read("key")).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).expect("versions");
        Arc::new(builder.with_root_certificates(roots).with_client_auth_cert(chain, key).expect("a pair"))
    }

    fn ask(&self, client: &Arc<ClientConfig>, server: &str) -> String {
        let mut stream = secure(client, connect(self.port).expect("the server accepts"), server);
        let answer = ask(&mut stream, &format!("GET / HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n"));
        let (head, _) = answer.split_once("\r\n\r\n").expect("a head");
        let verify = head.lines().find_map(|line| line.strip_prefix("X-Verify: ")).unwrap_or("-");
        format!("{} {verify}", &head[9..12])
    }
}

#[test]
fn the_status_of_clients_certificates_is_asked_for() {
    let (mut site, servers, clients, port) =
        (Site::new("", ""), Authority::named("servers"), Authority::named("ca"), free_port());
    keep_list(&clients, &site, "ca");
    let responder = Responder::start(site.dir.join("conf"));
    for (name, serial, mode) in [
        ("alice", 0x1001, "good"),
        ("mallory", REVOKED, "good"),
        ("nobody", 0x7777, "good"),
        ("bob", 0x1002, "stranger"),
        ("carol", 0x1003, "gone"),
        ("dave", 0x1004, "silent"),
        ("mute", 0x1005, ""),
    ] {
        let address = if mode.is_empty() { String::new() } else { responder.address(mode) };
        certify(&clients, &site, name, serial, &address);
    }
    certify(&clients, &site, "stranger", 0x1006, "");
    let mut http = "ssl_client_certificate ca.crt; ssl_verify_client on; ssl_ocsp leaf;\n\
        add_header X-Verify $ssl_client_verify:$ssl_session_reused always;\n"
        .to_owned();
    for (name, more) in [
        ("plain", ""),
        ("chain", "ssl_ocsp on;"),
        ("off", "ssl_ocsp off;"),
        ("cached", "ssl_ocsp_cache shared:status:1m;"),
        ("other", &format!("ssl_ocsp_cache shared:status:1m; ssl_ocsp_responder {};", responder.address("chunked"))),
    ] {
        servers.certify(&site, name);
        http.push_str(
            &server(port, name, more).replace("ssl_stapling on;", "").replace("return", "location / { return"),
        );
        let end = http.rfind('}').expect("an end");
        http.insert(end, '}');
    }
    // The time for a handshake is that of the port.
    servers.certify(&site, "hasty");
    let hasty = free_port();
    http.push_str(&server(hasty, "hasty", "client_header_timeout 1s;").replace("ssl_stapling on;", ""));
    site.write_conf(&conf(&site, &http));
    site.start();
    let visitor = Visitor { site: &site, servers: &servers, port };
    for version in [&TLS12, &TLS13] {
        let ask = |name: &str, server: &str| visitor.ask(&visitor.client(name, version), server);
        for server in ["plain", "chain"] {
            assert_eq!(ask("alice", server), "200 SUCCESS:.", "{server}");
            assert_eq!(ask("mallory", server), "400 FAILED:certificate revoked:.", "{server}");
            assert_eq!(ask("nobody", server), "400 FAILED:certificate status unknown:.", "{server}");
            for failing in ["bob", "carol", "mute"] {
                assert_eq!(ask(failing, server), "400 FAILED:certificate status request failed:.", "{failing}");
            }
        }
        assert_eq!(ask("mallory", "off"), "200 SUCCESS:.");
    }
    for told in [
        "OCSP_basic_verify() failed while requesting certificate status",
        "no OCSP responder URL in the certificate while requesting certificate status",
        "client SSL certificate verify error: certificate revoked while reading client request headers",
    ] {
        assert!(site.log().contains(told), "{told}");
    }
    // What was resumed is asked for again.
    let client = visitor.client("alice", &TLS13);
    assert_eq!(visitor.ask(&client, "plain"), "200 SUCCESS:.");
    let asked = responder.count("good");
    assert_eq!(visitor.ask(&client, "plain"), "200 SUCCESS:r");
    assert_eq!(responder.count("good"), asked + 1);
    // An answer counts for its time, whatever becomes of the responder; for another responder it does not.
    for (name, expected) in [("alice", "200 SUCCESS:."), ("mallory", "400 FAILED:certificate revoked:.")] {
        let (before, client) = (responder.count("good"), visitor.client(name, &TLS13));
        assert_eq!(visitor.ask(&client, "cached"), expected);
        responder.turn("good", "gone");
        let other = visitor.client(name, &TLS13);
        assert_eq!(visitor.ask(&other, "cached"), expected);
        assert_eq!(responder.count("good"), before + 1);
        responder.turn("good", "good");
    }
    assert_eq!(visitor.ask(&visitor.client("alice", &TLS13), "other"), "200 SUCCESS:.");
    assert_eq!(responder.count("chunked"), 1);
    crowd(&visitor, &responder);
    // Who stays is told after the time for a handshake, not after that for a responder.
    let dave = visitor.client("dave", &TLS13);
    let mut stream = secure(&dave, connect(hasty).expect("the server accepts"), "hasty");
    stream.conn.complete_io(&mut stream.sock).expect("the client's part is done");
    let mut rest = Vec::new();
    assert_eq!(stream.read_to_end(&mut rest).unwrap_or_default(), 0, "it is closed");
    site.wait_for_log("client timed out (110: Connection timed out) while SSL handshaking");
    site.quit();
}

/// Clients that come at once, among them some whose responder says nothing, and some that leave meanwhile.
fn crowd(visitor: &Visitor<'_>, responder: &Responder) {
    let dave = visitor.client("dave", &TLS13);
    let leaving: Vec<_> = (0..10)
        .map(|_| {
            let mut stream = secure(&dave, connect(visitor.port).expect("the server accepts"), "plain");
            stream.conn.complete_io(&mut stream.sock).expect("the client's part is done");
            stream
        })
        .collect();
    eventually("all are asked for", || (responder.count("silent") >= 10).then_some(()));
    std::thread::scope(|scope| {
        let tasks: Vec<_> =
            (0..20).map(|_| scope.spawn(|| visitor.ask(&visitor.client("alice", &TLS13), "plain"))).collect();
        for task in tasks {
            assert_eq!(task.join().expect("no panic"), "200 SUCCESS:.");
        }
    });
    drop(leaving);
}
