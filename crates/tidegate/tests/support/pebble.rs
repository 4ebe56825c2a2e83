//! An authority for tests that speaks ACME: Pebble, which is Let's Encrypt's own for this.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tidegate_tls::client::ClientOptions;

use super::authority::{Authority, Secure, secure};
use super::go_tool::go_tool;
use super::{Site, connect, eventually, free_port};

const PACKAGE: &str = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1";

/// An authority: its ports, and the process while it runs.
pub(crate) struct Pebble {
    dir: PathBuf,
    pub(crate) port: u16,
    management_port: u16,
    name_server: u16,
    child: Option<Child>,
}

impl Pebble {
    /// Prepares an authority that looks for proofs at these ports of 127.0.0.1, whatever the name, and has its files in the
    /// site's directory. The site finds its certificate's authority in `conf/pebble.crt`.
    pub(crate) fn new(site: &Site, http_port: u16, tls_port: u16) -> Self {
        let (port, management_port) = (free_port(), free_port());
        let authority = Authority::new();
        authority.certify(site, "localhost");
        let dir = site.dir.join("conf");
        fs::write(dir.join("pebble.crt"), &authority.pem).expect("written");
        let (certificate, key) = (dir.join("localhost.crt"), dir.join("localhost.key"));
        let conf = format!(
            r#"{{ "pebble": {{ "listenAddress": "127.0.0.1:{port}", "managementListenAddress": "127.0.0.1:{management_port}",
            "certificate": "{}", "privateKey": "{}", "httpPort": {http_port}, "tlsPort": {tls_port},
            "domainBlocklist": ["blocked.test"], "retryAfter": {{ "authz": 1, "order": 1 }}, "keyAlgorithm": "ecdsa",
            "profiles": {{ "default": {{ "description": "long", "validityPeriod": 7776000 }},
            "brief": {{ "description": "short", "validityPeriod": 86400 }} }} }} }}"#,
            certificate.display(),
            key.display()
        );
        fs::write(dir.join("pebble.json"), conf).expect("written");
        Self { dir, port, management_port, name_server: name_server(), child: None }
    }

    /// From its next start on, takes only accounts that belong to one of elsewhere, which has this identifier and key (base64url).
    pub(crate) fn require_external_account(&self, id: &str, key: &str) {
        let path = self.dir.join("pebble.json");
        let conf = fs::read_to_string(&path).expect("written before");
        let more = format!(
            r#""externalAccountBindingRequired": true, "externalAccountMACKeys": {{ "{id}": "{key}" }}, "domainBlocklist"#
        );
        fs::write(path, conf.replacen("\"domainBlocklist", &more, 1)).expect("written");
    }

    /// From its next start on, certificates of the profile "brief" live so many seconds.
    pub(crate) fn shorten(&self, seconds: u32) {
        let path = self.dir.join("pebble.json");
        let conf = fs::read_to_string(&path).expect("written before");
        fs::write(path, conf.replacen("86400", &seconds.to_string(), 1)).expect("written");
    }

    /// Starts with an empty memory: whatever it knew is forgotten.
    #[track_caller]
    pub(crate) fn start(&mut self) {
        let child = Command::new(go_tool(PACKAGE))
            .arg("-config")
            .arg(self.dir.join("pebble.json"))
            .args(["-dnsserver", &format!("127.0.0.1:{}", self.name_server)])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .stdin(Stdio::null())
            .stdout(fs::File::create(self.dir.join("pebble.log")).expect("a file"))
            .spawn();
        self.child = Some(child.expect("it starts"));
        eventually("the authority listens", || connect(self.port).ok());
        eventually("its management listens", || connect(self.management_port).ok());
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that has ended by itself is told by what the test misses.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("pebble.log")).unwrap_or_default()
    }

    /// Has the authority suggest that a certificate be replaced between two times (RFC 3339).
    #[track_caller]
    pub(crate) fn suggest(&self, certificate: &str, start: &str, end: &str) {
        let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let window = format!(r#"{{"suggestedWindow":{{"start":"{start}","end":"{end}"}}}}"#);
        let body = format!(r#"{{"Certificate":"{}","ARIResponse":"{}"}}"#, escape(certificate), escape(&window));
        let mut stream = any_server(self.management_port, "localhost");
        let head = "POST /set-renewal-info/ HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\nConnection: close\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("sent");
        let mut answer = String::new();
        // The end may come without a farewell.
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- Pebble\n{}", self.log());
        }
        self.stop();
    }
}

/// A connection to a server whose certificate may be anybody's.
#[track_caller]
pub(crate) fn any_server(port: u16, name: &str) -> Secure {
    let client = ClientOptions::default().client().expect("a client");
    let mut stream = secure(&client, connect(port).expect("the server accepts"), name);
    stream.conn.complete_io(&mut stream.sock).expect("a handshake");
    stream
}

/// A name server for as long as the test runs: every name is 127.0.0.1. Pebble asks by TCP.
fn name_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // Whoever asks may go at any time.
            std::thread::spawn(move || stream.and_then(answer_questions));
        }
    });
    port
}

/// Answers the questions of a connection; each has its length ahead (RFC 1035, section 4.2.2).
fn answer_questions(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut message)?;
        let Some(zero) = message.iter().skip(12).position(|&byte| byte == 0) else { return Ok(()) };
        let end = 12 + zero + 5;
        let is_a = message[end - 4..end - 2] == [0, 1];
        let mut answer = message[..2].to_vec();
        answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
        answer.extend(&message[12..end]);
        if is_a {
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
        }
        let length = u16::try_from(answer.len()).expect("a short name").to_be_bytes();
        stream.write_all(&[&length[..], &answer].concat())?;
    }
}
