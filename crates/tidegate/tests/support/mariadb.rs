//! A MariaDB of a test's own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::free_port;

/// A MariaDB of our own; gone when dropped.
pub(crate) struct Database {
    dir: PathBuf,
    pub(crate) port: u16,
    process: Option<Child>,
}

impl Database {
    pub(crate) fn new() -> Self {
        let port = free_port();
        let dir = std::env::temp_dir().join(format!("tidegate-outage-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let mut install = Command::new("mariadb-install-db");
        install.env("TMPDIR", &dir).args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        install
            .args(["--skip-test-db", "--skip-name-resolve", "--force"])
            .arg(format!("--datadir={}/data", dir.display()));
        install.args(as_root()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = install.status().expect("Debian's package mariadb-server is installed");
        assert!(status.success());
        let mut database = Self { dir, port, process: None };
        database.start();
        database
    }

    pub(crate) fn start(&mut self) {
        let mut server = Command::new("/usr/sbin/mariadbd");
        server.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-log-bin", "--skip-name-resolve"]);
        server.args(["--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0", "--skip-grant-tables"]);
        // Without grant tables a server wants no network unless told so.
        server.args(["--skip-networking=0", &format!("--port={}", self.port)]);
        server.arg(format!("--datadir={}", self.path("data"))).arg(format!("--socket={}", self.path("socket")));
        server.arg(format!("--pid-file={}", self.path("pid"))).env("TMPDIR", &self.dir).args(as_root());
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(server.spawn().expect("mariadbd"));
    }

    /// A file in the server's directory.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir.display())
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let id = self.process.as_ref().expect("running").id();
        let pid = nix::unistd::Pid::from_raw(id.try_into().expect("a process number"));
        nix::sys::signal::kill(pid, signal).expect("signalled");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn as_root() -> Option<&'static str> {
    nix::unistd::geteuid().is_root().then_some("--user=root")
}
