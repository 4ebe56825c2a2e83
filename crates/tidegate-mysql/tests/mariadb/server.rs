//! A MariaDB of our own for the tests of this binary: started by the first that needs it, gone when the process ends.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, OnceLock},
    thread::sleep,
    time::{Duration, Instant},
};

use tidegate_mysql::{Address, Conn, ConnectOptions};

#[path = "../../../../tests/support/ports.rs"]
mod ports;
#[path = "watcher.rs"]
mod watcher;
use watcher::until_abandoned;

/// How long the server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A running server.
pub(crate) struct Server {
    dir: PathBuf,
    pub(crate) port: u16,
    pub(crate) authorities: Vec<u8>,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    _watcher: Child,
}

/// The server that the tests share.
pub(crate) fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = Server::start();
        server.sql(include_str!("users.sql"));
        server
    })
}

impl Server {
    /// Installs and starts a server in a directory of its own.
    pub(crate) fn start() -> Self {
        let port = ports::free_port();
        let dir = std::env::temp_dir().join(format!("tidegate-mysql-{}-{port}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        install(&dir);
        let (authorities, issuer) = write_authority(&dir);
        write_certificate(&dir, &issuer, Validity::Now);
        let mut server = Self { _watcher: run(&dir, port), dir, port, authorities, issuer };
        server.wait();
        server
    }

    /// Kills the server at once, and starts it again on the same data and port.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self._watcher = run(&self.dir, self.port);
        self.wait();
    }

    /// Kills the server at once.
    pub(crate) fn kill(&mut self) {
        fs::write(self.dir.join("keep"), "").expect("a file");
        drop(self._watcher.stdin.take());
        let _ = self._watcher.wait();
        let _ = fs::remove_file(self.dir.join("socket"));
        let _ = fs::remove_file(self.dir.join("keep"));
    }

    pub(crate) fn pid_file(&self) -> PathBuf {
        self.dir.join("pid")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("socket")
    }

    fn wait(&mut self) {
        let start = Instant::now();
        while start.elapsed() < START_TIMEOUT {
            if std::os::unix::net::UnixStream::connect(self.socket()).is_ok() {
                return;
            }
            sleep(Duration::from_millis(50));
        }
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        panic!("mariadbd did not start within {START_TIMEOUT:?}:\n{log}");
    }

    /// Gives the server another certificate, which it takes with `flush ssl`.
    pub(crate) fn certify(&self, validity: Validity) {
        write_certificate(&self.dir, &self.issuer, validity);
    }

    /// Options of the administrator over the unix socket.
    pub(crate) fn root(&self) -> ConnectOptions {
        ConnectOptions::new(Address::Unix(self.socket()), "root", "")
    }

    /// Options of a user over TCP.
    pub(crate) fn user(&self, user: &str, password: &str) -> ConnectOptions {
        ConnectOptions::new(Address::tcp("127.0.0.1", self.port), user, password)
    }

    /// Runs statements as the administrator, outside of the runtime of a test.
    fn sql(&self, sql: &str) {
        let options = Arc::new(self.root());
        std::thread::scope(|scope| {
            let run = async {
                let mut conn = Conn::connect(options).await.expect("root's connection");
                conn.send_query(sql.as_bytes()).await.expect("sent");
                let mut sink = crate::sinks::csv();
                while conn.has_more_results() {
                    conn.read_result(&mut sink).await.expect("a result");
                }
            };
            let thread = scope.spawn(|| {
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(run);
            });
            thread.join().expect("statements");
        });
    }
}

fn install(dir: &Path) {
    let output = Command::new("mariadb-install-db")
        // Two installations that share a directory for temporary tables get into each other's way.
        .env("TMPDIR", dir)
        .arg("--no-defaults")
        .arg(format!("--datadir={}", dir.join("data").display()))
        .args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--force"])
        .args(user_argument())
        .stdin(Stdio::null())
        .output();
    let output = output.unwrap_or_else(|error| {
        panic!("cannot run mariadb-install-db ({error}): these tests need Debian's package mariadb-server")
    });
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "mariadb-install-db: {told}\n{errors}");
}

/// The server refuses to run as root unless told to.
fn user_argument() -> Option<&'static str> {
    let output = Command::new("id").arg("-u").output().expect("id");
    (output.stdout.trim_ascii() == b"0").then_some("--user=root")
}

fn run(dir: &Path, port: u16) -> Child {
    let path = |name: &str| dir.join(name).display().to_string();
    let mut watcher = until_abandoned(dir, Path::new("/usr/sbin/mariadbd"))
        .arg("--no-defaults")
        .arg(format!("--datadir={}", path("data")))
        .arg(format!("--socket={}", path("socket")))
        .arg(format!("--pid-file={}", path("pid")))
        .arg(format!("--port={port}"))
        .env("TMPDIR", dir)
        .arg(format!("--ssl-ca={}", path("ca.pem")))
        .arg(format!("--ssl-cert={}", path("cert.pem")))
        .arg(format!("--ssl-key={}", path("key.pem")))
        .args(["--bind-address=127.0.0.1", "--skip-networking=0", "--skip-name-resolve"])
        .args(["--max-allowed-packet=128M", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=64M"])
        .args(["--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--max-connections=200", "--local-infile=1"])
        .args(["--character-set-server=utf8mb4", "--default-time-zone=+00:00", "--sql-mode="])
        .args(user_argument())
        .spawn()
        .expect("sh");
    watcher.stdin.as_mut().expect("a pipe").flush().expect("a pipe");
    watcher
}

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validity {
    Now,
    /// It was, once.
    Over,
}

/// Writes and returns the certificate of an authority, and what signs others.
fn write_authority(dir: &Path) -> (Vec<u8>, rcgen::Issuer<'static, rcgen::KeyPair>) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).expect("a certificate");
    fs::write(dir.join("ca.pem"), authority.pem()).expect("a file");
    (authority.pem().into_bytes(), rcgen::Issuer::new(params, key))
}

/// Writes a certificate for `localhost`.
fn write_certificate(dir: &Path, issuer: &rcgen::Issuer<'_, rcgen::KeyPair>, validity: Validity) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    if validity == Validity::Over {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    }
    let certificate = params.signed_by(&key, issuer).expect("a certificate");
    fs::write(dir.join("cert.pem"), certificate.pem()).expect("a file");
    fs::write(dir.join("key.pem"), key.serialize_pem()).expect("a file");
}
