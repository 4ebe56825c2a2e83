//! The shell of `tidegate sql` at a terminal: a pseudo-terminal with somebody who types.

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use support::{Site, binary, eventually};

/// Nothing that is typed takes longer to be answered, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A shell at a terminal of its own.
struct Terminal {
    shell: Child,
    master: File,
    /// What the shell has written and nobody has waited for, without the sequences that move the cursor.
    seen: String,
    directory: PathBuf,
}

impl Terminal {
    /// A shell on `data` with these further arguments; its history is in `directory`.
    fn open(directory: PathBuf, data: &std::path::Path, arguments: &[&str]) -> Self {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: 40, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the descriptors are written, the size is read; no name and no modes are asked for or given.
        let opened =
            unsafe { libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size) };
        assert_eq!(opened, 0, "a pseudo-terminal");
        // SAFETY: both were just opened and belong to nobody else.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let end = || Stdio::from(slave.try_clone().expect("duplicated"));
        let mut command = binary();
        command.arg("sql").arg("--data").arg(data).args(arguments);
        command.env("TERM", "xterm").env("TIDEGATE_SQL_HISTORY", directory.join("history"));
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: both calls may be made between fork and exec; the terminal is standard input by then.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(&mut command, || {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let shell = command.spawn().expect("the binary starts");
        Self { shell, master, seen: String::new(), directory }
    }

    fn types(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits until `expected` has been written; answers all that was up to it.
    #[track_caller]
    fn shows(&mut self, expected: &str) -> String {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.seen.find(expected) {
                let rest = self.seen.split_off(at + expected.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {expected:?}; there is {:?}", self.seen);
            self.look();
        }
    }

    /// Reads what there is, for a moment.
    fn look(&mut self) {
        let mut poll = libc::pollfd { fd: self.master.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which lives as long as the call.
        if unsafe { libc::poll(&raw mut poll, 1, 50) } > 0 {
            let mut bytes = [0; 4096];
            // An error says that the shell has gone.
            let len = self.master.read(&mut bytes).unwrap_or(0);
            self.seen.push_str(&without_escapes(&String::from_utf8_lossy(&bytes[..len])));
        }
    }

    /// Types a line and waits for the prompt behind its answer.
    #[track_caller]
    fn answers(&mut self, line: &str, expected: &str) {
        self.types(&format!("{line}\r"));
        self.shows(expected);
        self.shows("]> ");
    }

    fn ends(&mut self) -> ExitStatus {
        eventually("the shell ends", || {
            self.look();
            self.shell.try_wait().expect("its status")
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Text without what moves the cursor and changes modes: ESC [ … letter.
fn without_escapes(text: &str) -> String {
    let mut kept = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\x1b' {
            kept.push(c);
        } else if chars.next() == Some('[') {
            let _ = chars.by_ref().find(char::is_ascii_alphabetic);
        }
    }
    kept
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-shell-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("created");
    path
}

const SLOW: &str =
    "with recursive n as (select 1 as i union all select i + 1 from n where i < 1000000000) select count(*) from n;";

#[test]
fn typing_editing_and_leaving() {
    let place = directory("typing");
    let mut shell = Terminal::open(place.clone(), &place.join("data"), &["--create"]);
    shell.shows("no server runs on it");
    shell.shows("[(none)]> ");
    shell.types("create database shop; use shop;\r");
    shell.shows("Query OK, 1 row affected");
    shell.shows("[shop]> ");
    shell.answers("create table cats (id int, name varchar(20));", "Query OK, 0 rows affected (");
    // A statement over two lines.
    shell.types("insert into cats\r");
    shell.shows("-> ");
    shell.answers("values (1, 'Tom'), (2, 'Größe');", "Query OK, 2 rows affected");
    shell.answers("select * from cats;", "|  2 | Größe |\r\n+----+-------+\r\n2 rows in set (");
    shell.answers("select 3 as three\\G", "three: 3\r\n1 row in set");
    // Completion, of a table's name and in the case that is typed.
    shell.types("sele\t count(*) from cat\t;\r");
    shell.shows("|        2 |");
    shell.shows("]> ");
    shell.answers("nonsense;", "ERROR 1064 (42000)");
    // Ctrl-C drops the statement that was begun.
    shell.types("select 'never'\r");
    shell.shows("-> ");
    shell.types(" 'ending\x03");
    shell.shows("]> ");
    shell.answers("select 4 as four;", "|    4 |");
    // The key upwards repeats.
    shell.types("\x1b[A");
    shell.shows("select 4 as four;");
    shell.types("\r");
    shell.shows("|    4 |");
    // Without somebody who reads keys, the terminal itself would take the next one.
    shell.shows("]> ");
    shell.types("\x04");
    shell.shows("Bye");
    assert!(shell.ends().success());
    let history = std::fs::read_to_string(place.join("history")).expect("a history");
    assert!(history.contains("insert into cats\\nvalues"), "{history}");
    assert!(!history.contains("never"), "{history}");
}

/// Ctrl-C while a statement runs, again and again.
fn interrupts(shell: &mut Terminal) {
    for statement in ["select sleep(600);", SLOW, "select sleep(600);"] {
        shell.types(&format!("{statement}\r"));
        shell.shows(";\r\n");
        // The signal may come before the statement has been sent; somebody presses the key again then.
        let begun = Instant::now();
        while !shell.seen.contains("ERROR 1317") {
            assert!(begun.elapsed() < PATIENCE, "not interrupted: {:?}", shell.seen);
            shell.types("\x03");
            for _ in 0..10 {
                shell.look();
            }
        }
        shell.shows("]> ");
        shell.answers("select 5 as five;", "|    5 |");
    }
}

#[test]
fn an_interrupt_ends_the_statement_only() {
    let place = directory("interrupt");
    let mut shell = Terminal::open(place.clone(), &place.join("data"), &["--create"]);
    shell.shows("]> ");
    interrupts(&mut shell);
    // What was begun in a transaction goes on.
    shell.answers("create database shop; use shop; create table t (n int);", "Query OK");
    shell.answers("begin; insert into t values (1);", "Query OK");
    interrupts(&mut shell);
    shell.answers("commit; select count(*) as kept from t;", "|    1 |");
    shell.types("quit\r");
    shell.shows("Bye");
    assert!(shell.ends().success());
}

#[test]
fn at_a_running_server() {
    let mut site = Site::new("database { path data; schema shop; }", "");
    site.start();
    let place = directory("server");
    let data = site.dir.join("data");
    let mut shell = Terminal::open(place, &data, &["shop"]);
    shell.shows("in the running server");
    shell.shows("[shop]> ");
    shell.answers("create table t (n int); insert into t values (7);", "Query OK, 1 row affected");
    interrupts(&mut shell);
    shell.answers("select n from t;", "| 7 |");
    shell.answers("select m from t;", "       ^ did you mean \"n\"?");
    shell.answers("explain select * from t;", "| t     |");
    // The server goes and comes back.
    site.quit();
    shell.answers("select 1;", "no server answers yet");
    site.start();
    shell.answers("select 1;", "Connected again");
    shell.answers("select n from t;", "| 7 |");
    shell.types("quit\r");
    shell.shows("Bye");
    assert!(shell.ends().success());
}

#[test]
fn an_import_shows_how_far_it_is() {
    let place = directory("import");
    let file = place.join("dump.sql");
    let mut text = String::from("create database shop; use shop; create table t (n int, s varchar(2000));\n");
    for number in 0..1500 {
        text.push_str(&format!("insert into t values ({number}, '{}');\n", "x".repeat(1500)));
    }
    std::fs::write(&file, text).expect("written");
    let arguments = ["--create", "--import", file.to_str().expect("a plain path")];
    let mut import = Terminal::open(place.clone(), &place.join("data"), &arguments);
    import.shows("MiB/s");
    import.shows("1503 statements in ");
    assert!(import.ends().success());
}
