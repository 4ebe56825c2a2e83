//! The database dies under load, comes back, hangs, and is replaced by something that speaks no SQL: clients get an answer
//! each time, and afterwards everything is as it was.

mod support;

use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{Site, eventually, free_port};

/// A MariaDB of our own; gone when dropped.
struct Database {
    dir: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Database {
    fn new() -> Self {
        let port = free_port();
        let dir = std::env::temp_dir().join(format!("tidegate-outage-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let mut install = Command::new("mariadb-install-db");
        install.env("TMPDIR", &dir).args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        install.args(["--skip-test-db", "--skip-name-resolve"]).arg(format!("--datadir={}/data", dir.display()));
        install.args(as_root()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = install.status().expect("Debian's package mariadb-server is installed");
        assert!(status.success());
        let mut database = Self { dir, port, process: None };
        database.start();
        database
    }

    fn start(&mut self) {
        let path = |name: &str| format!("{}/{name}", self.dir.display());
        let mut server = Command::new("/usr/sbin/mariadbd");
        server.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-log-bin", "--skip-name-resolve"]);
        server.args(["--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0", "--skip-grant-tables"]);
        // Without grant tables a server wants no network unless told so.
        server.args(["--skip-networking=0", &format!("--port={}", self.port)]);
        server.arg(format!("--datadir={}", path("data"))).arg(format!("--socket={}", path("socket")));
        server.arg(format!("--pid-file={}", path("pid"))).env("TMPDIR", &self.dir).args(as_root());
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(server.spawn().expect("mariadbd"));
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
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

/// Status and body of a response.
fn ask(site: &Site, path: &str) -> (u16, String) {
    let mut stream = support::connect(site.port).expect("the server accepts");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().expect("a status"), body.to_owned())
}

/// The number behind a word of `drizzle_status full`.
fn count(site: &Site, word: &str) -> usize {
    let (_, text) = ask(site, "/status");
    let line = text.lines().find_map(|line| line.trim().strip_prefix(word)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("{word} in {text}")).parse().expect("a number")
}

const MAX: usize = 6;

#[test]
fn a_database_that_dies_hangs_and_talks_nonsense() {
    let mut database = Database::new();
    let mut site = Site::new("", "");
    site.write_conf(&format!(
        "worker_processes 2;\nerror_log logs/error.log notice;\npid logs/nginx.pid;\nevents {{ }}\nhttp {{\n\
         upstream db {{ drizzle_server 127.0.0.1:{} user=root; drizzle_keepalive max={MAX} overflow=wait wait=10s; }}\n\
         server {{ listen 127.0.0.1:{};\n\
         location = /one {{ drizzle_connect_timeout 1s; drizzle_query_timeout 1s; drizzle_query 'select sleep(0.005) as n'; drizzle_pass db; rds_json on; }}\n\
         location = /rows {{ drizzle_query 'select seq from mysql.seq_1_to_2000'; drizzle_pass db; rds_csv on; }}\n\
         location = /other {{ return 200 other; }}\n\
         location = /status {{ drizzle_status full; }}\n}} }}\n",
        database.port, site.port
    ));
    site.start();
    let works = |what: &str| {
        eventually(what, || (ask(&site, "/one") == (200, "[{\"n\":0}]".to_owned())).then_some(()));
        assert_eq!(ask(&site, "/rows").1.lines().count(), 2001);
    };
    works("the database serves");

    // Killed and restarted under load.
    let statuses = under_load(&site, || {
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(500));
            database.kill();
            std::thread::sleep(Duration::from_millis(200));
            database.start();
            eventually("the database is back", || (ask(&site, "/one").0 == 200).then_some(()));
        }
    });
    assert!(statuses.contains(&200) && statuses.contains(&502), "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 500 | 502)), "{statuses:?}");
    works("the database serves again");

    // Hanging: nothing is answered, but everybody gets a status in time, and nobody else notices.
    let begin = Instant::now();
    let statuses = under_load(&site, || {
        database.signal(nix::sys::signal::Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(2500));
        let asked = Instant::now();
        assert_eq!(ask(&site, "/other"), (200, "other".to_owned()));
        assert!(asked.elapsed() < Duration::from_millis(500));
        database.signal(nix::sys::signal::Signal::SIGCONT);
        eventually("the database goes on", || (ask(&site, "/one").0 == 200).then_some(()));
    });
    assert!(
        statuses.contains(&504) && statuses.iter().all(|status| matches!(status, 200 | 502 | 503 | 504)),
        "{statuses:?}"
    );
    assert!(begin.elapsed() < Duration::from_secs(30));
    works("the database serves after it hung");

    // Something else listens in its place.
    database.kill();
    let impostor = TcpListener::bind(("127.0.0.1", database.port)).expect("the port is free");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for stream in impostor.incoming() {
                if done.load(Ordering::SeqCst) {
                    return;
                }
                let _ = stream.and_then(|mut stream| stream.write_all(b"220 mail.example ESMTP ready\r\n"));
            }
        });
        for _ in 0..10 {
            assert_eq!(ask(&site, "/one").0, 502);
        }
        done.store(true, Ordering::SeqCst);
        drop(std::net::TcpStream::connect(("127.0.0.1", database.port)));
    });
    drop(impostor);
    let log = std::fs::read_to_string(site.dir.join("logs/error.log")).expect("a log");
    for words in ["protocol error from 127.0.0.1", "Connection refused", "timed out"] {
        assert!(log.contains(words), "no \"{words}\" in the log");
    }
    assert!(!log.contains("[alert]") && !log.contains("panic"), "{log}");

    database.start();
    works("the database serves at last");
    eventually("no connection is lost", || {
        let (open, idle) = (count(&site, "active connections"), count(&site, "idle connections"));
        (open == idle && open <= MAX && count(&site, "waiting requests") == 0).then_some(())
    });
    site.quit();
}

/// Lets clients ask without end while `disturb` runs; answers all statuses that they got.
fn under_load(site: &Site, disturb: impl FnOnce()) -> Vec<u16> {
    let (done, statuses) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 * MAX {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let (status, body) = ask(site, "/one");
                    assert!(status != 200 || body == "[{\"n\":0}]", "{body}");
                    let mut statuses = statuses.lock().expect("no panic while it is held");
                    if !statuses.contains(&status) {
                        statuses.push(status);
                    }
                }
            });
        }
        disturb();
        done.store(true, Ordering::SeqCst);
    });
    statuses.into_inner().expect("no panic while it was held")
}
