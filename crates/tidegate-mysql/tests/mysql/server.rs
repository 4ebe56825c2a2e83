//! A MySQL of our own for the tests of this binary: started by the first that needs it, gone when the process ends.

use std::{
    env, fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, OnceLock},
    thread::sleep,
    time::{Duration, Instant},
};

use tidegate_mysql::{Address, Conn, ConnectOptions};

#[path = "../../../../tests/support/ports.rs"]
mod ports;
#[path = "../mariadb/watcher.rs"]
mod watcher;
use watcher::until_abandoned;

/// How long the server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A running server.
pub(crate) struct Server {
    dir: PathBuf,
    port: u16,
    _watcher: Child,
}

/// The server that the tests share, if there is a MySQL on this machine.
pub(crate) fn shared() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| program().map(|program| Server::start(&program)));
    if server.is_none() {
        eprintln!("skipped: no MySQL server here, and TIDEGATE_MYSQLD names none");
    }
    server.as_ref()
}

/// The server's program. MariaDB's has the same name in some packages.
fn program() -> Option<PathBuf> {
    if let Some(program) = env::var_os("TIDEGATE_MYSQLD") {
        return Some(program.into());
    }
    let version = Command::new("mysqld").arg("--version").output().ok()?.stdout;
    let is_mysql = version.starts_with(b"mysqld") && !version.windows(7).any(|word| word == b"MariaDB");
    is_mysql.then(|| "mysqld".into())
}

impl Server {
    fn start(program: &Path) -> Self {
        let port = ports::free_port();
        let dir = env::temp_dir().join(format!("tidegate-mysqld-{}-{port}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let output = Command::new(program)
            .args(arguments(&dir))
            .arg("--initialize-insecure")
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{} --initialize-insecure: {told}", program.display());
        let watcher = until_abandoned(&dir, program)
            .args(arguments(&dir))
            .arg(format!("--socket={}", dir.join("socket").display()))
            .arg(format!("--pid-file={}", dir.join("pid").display()))
            .arg(format!("--port={port}"))
            .args(["--bind-address=127.0.0.1", "--mysqlx=OFF", "--skip-name-resolve", "--skip-log-bin"])
            .args(["--max-allowed-packet=128M", "--innodb-buffer-pool-size=32M", "--innodb-redo-log-capacity=256M"])
            .args(["--innodb-flush-log-at-trx-commit=0", "--max-connections=100", "--local-infile=1"])
            .args(["--performance-schema=OFF", "--default-time-zone=+00:00", "--sql-mode="])
            .spawn()
            .expect("sh");
        let server = Self { _watcher: watcher, dir, port };
        server.wait();
        server.prepare();
        server
    }

    fn wait(&self) {
        let start = Instant::now();
        while UnixStream::connect(self.dir.join("socket")).is_err() {
            let log = || fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(start.elapsed() < START_TIMEOUT, "mysqld did not start within {START_TIMEOUT:?}:\n{}", log());
            sleep(Duration::from_millis(50));
        }
    }

    /// Runs the fixture as the administrator, outside of the runtime of a test.
    fn prepare(&self) {
        let options = Arc::new(self.root());
        let run = async {
            let mut conn = Conn::connect(options).await.expect("root's connection");
            conn.send_query(include_bytes!("users.sql")).await.expect("sent");
            let mut sink = crate::sinks::csv();
            while conn.has_more_results() {
                conn.read_result(&mut sink).await.expect("a result");
            }
        };
        std::thread::scope(|scope| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            scope.spawn(move || runtime.block_on(run)).join().expect("statements");
        });
    }

    /// A file that the server wrote beside its data: certificates and keys.
    pub(crate) fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir.join("data").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Options of the administrator over the unix socket.
    pub(crate) fn root(&self) -> ConnectOptions {
        ConnectOptions::new(Address::Unix(self.dir.join("socket")), "root", "")
    }

    /// Options of a user over TCP.
    pub(crate) fn user(&self, user: &str, password: &str) -> ConnectOptions {
        ConnectOptions::new(Address::tcp("127.0.0.1", self.port), user, password)
    }

    /// The same over the unix socket.
    pub(crate) fn local_user(&self, user: &str, password: &str) -> ConnectOptions {
        ConnectOptions::new(Address::Unix(self.dir.join("socket")), user, password)
    }
}

fn arguments(dir: &Path) -> Vec<String> {
    let mut arguments = vec!["--no-defaults".to_owned(), format!("--datadir={}", dir.join("data").display())];
    arguments.push("--secure-file-priv=".to_owned());
    let id = Command::new("id").arg("-u").output().expect("id");
    if id.stdout.trim_ascii() == b"0" {
        // The server refuses to run as root unless told to.
        arguments.push("--user=root".to_owned());
    }
    arguments
}
