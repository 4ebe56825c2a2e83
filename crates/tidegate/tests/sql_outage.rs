//! The database dies under load, comes back, hangs, and is replaced by something that speaks no SQL: clients get an answer
//! each time, and afterwards everything is as it was.

mod support;

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{Site, eventually, mariadb::Database};

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
         upstream db {{ drizzle_server 127.0.0.1:{} user=root; drizzle_keepalive max={MAX} overflow=wait wait=30s; }}\n\
         server {{ listen 127.0.0.1:{};\n\
         drizzle_query 'select sleep(0.005) as n';\n\
         location = /one {{ drizzle_connect_timeout 30s; drizzle_query_timeout 30s; drizzle_pass db; rds_json on; }}\n\
         location = /hasty {{ drizzle_connect_timeout 1s; drizzle_query_timeout 1s; drizzle_pass db; rds_json on; }}\n\
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
    let statuses = under_load(&site, "/one", |statuses| {
        for _ in 0..2 {
            wait_for_status(statuses, 200);
            database.kill();
            wait_for_status(statuses, 502);
            database.start();
            eventually("the database is back", || (ask(&site, "/one").0 == 200).then_some(()));
        }
    });
    assert!(statuses.iter().all(|status| matches!(status, 200 | 500 | 502)), "{statuses:?}");
    works("the database serves again");

    // Hanging: nothing is answered, but everybody gets a status in time, and nobody else notices.
    let statuses = under_load(&site, "/hasty", |statuses| {
        database.signal(nix::sys::signal::Signal::SIGSTOP);
        wait_for_status(statuses, 504);
        assert_eq!(ask(&site, "/other"), (200, "other".to_owned()));
        database.signal(nix::sys::signal::Signal::SIGCONT);
        eventually("the database goes on", || (ask(&site, "/one").0 == 200).then_some(()));
    });
    assert!(statuses.iter().all(|status| matches!(status, 200 | 502 | 503 | 504)), "{statuses:?}");
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
    log_has(&site, &["protocol error from 127.0.0.1", "Connection refused", "timed out"]);
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("panic"), "{log}");

    database.start();
    works("the database serves at last");
    eventually("no connection is lost", || {
        let (open, idle) = (count(&site, "active connections"), count(&site, "idle connections"));
        (open == idle && open <= MAX && count(&site, "waiting requests") == 0).then_some(())
    });
    site.quit();
}

/// Waits until clients have got this status, once more.
fn wait_for_status(statuses: &Mutex<Vec<u16>>, wanted: u16) {
    let statuses = || statuses.lock().expect("no panic while it is held");
    statuses().retain(|status| *status != wanted);
    eventually(&format!("a client gets status {wanted}"), || statuses().contains(&wanted).then_some(()));
}

/// Lets clients ask without end while `disturb` runs, which sees the statuses that they get; answers these.
fn under_load(site: &Site, path: &str, disturb: impl FnOnce(&Mutex<Vec<u16>>)) -> Vec<u16> {
    let (done, statuses) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 * MAX {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let (status, body) = ask(site, path);
                    assert!(status != 200 || body == "[{\"n\":0}]", "{body}");
                    let mut statuses = statuses.lock().expect("no panic while it is held");
                    if !statuses.contains(&status) {
                        statuses.push(status);
                    }
                }
            });
        }
        disturb(&statuses);
        done.store(true, Ordering::SeqCst);
    });
    statuses.into_inner().expect("no panic while it was held")
}

/// What happens to the bytes between the database and its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// They arrive.
    Honest,
    /// What the database says is lost.
    Mute,
    /// The database's greeting comes too late.
    Slow,
    /// The line breaks in the midst of the rows.
    Cut,
    /// From the midst of the rows on, everything that the database says on that connection is lost.
    Stalled,
    /// The answer announces the largest frame there is, and nothing follows.
    Oversized,
    /// Something else comes in the place of an answer.
    Garbage,
}

/// Passes bytes between a port of its own and the database's, as well as `line` says.
struct Middleman {
    port: u16,
    line: std::sync::Arc<Mutex<Line>>,
}

impl Middleman {
    fn new(database: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let line = std::sync::Arc::new(Mutex::new(Line::Honest));
        let shared = line.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let line = shared.clone();
                std::thread::spawn(move || drop(pass(client, database, &line)));
            }
        });
        Self { port, line }
    }

    fn set(&self, line: Line) {
        *self.line.lock().expect("no panic") = line;
    }
}

fn pass(client: TcpStream, database: u16, line: &Mutex<Line>) -> std::io::Result<()> {
    let read = |line: &Mutex<Line>| *line.lock().expect("no panic");
    let begin = Instant::now();
    while read(line) == Line::Slow && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let server = TcpStream::connect(("127.0.0.1", database))?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(std::net::Shutdown::Both);
    });
    let (mut from_server, mut to_client) = (server, client);
    let mut buffer = vec![0; 1 << 16];
    let mut is_stalled = false;
    loop {
        let count = std::io::Read::read(&mut from_server, &mut buffer)?;
        if count == 0 {
            return to_client.shutdown(std::net::Shutdown::Both);
        }
        match read(line) {
            Line::Honest | Line::Slow => to_client.write_all(&buffer[..count])?,
            Line::Mute => {}
            Line::Cut => {
                to_client.write_all(&buffer[..count.min(3001)])?;
                return to_client.shutdown(std::net::Shutdown::Both);
            }
            Line::Stalled => {
                let passed = if is_stalled { 0 } else { count.min(3001) };
                is_stalled |= passed < count;
                to_client.write_all(&buffer[..passed])?;
            }
            Line::Oversized => to_client.write_all(b"\xff\xff\xff\x01")?,
            Line::Garbage => to_client.write_all(&[0x07; 999])?,
        }
    }
}

/// Whatever becomes of the bytes between us and the database, each client hears of it in time, and nothing is left behind.
#[test]
fn a_line_that_mutilates_what_it_carries() {
    let database = Database::new();
    let middleman = Middleman::new(database.port);
    let mut site = Site::new("", "");
    // Whoever is to hear of a time-out has little patience, and all others have much.
    let locations = |prefix: &str, limit: &str| {
        format!(
            "location {prefix}/ {{ drizzle_connect_timeout {limit}; drizzle_query_timeout {limit};\n\
             location = {prefix}/one {{ drizzle_query 'select 1 as n'; drizzle_pass db; }}\n\
             location = {prefix}/together {{ drizzle_pipeline 8; drizzle_query 'select 1 as n'; drizzle_pass db; }}\n\
             location = {prefix}/write {{ drizzle_query 'do 1'; drizzle_pass db; }}\n\
             location = {prefix}/rows {{ drizzle_query \"select seq, repeat('x', 100) from mysql.seq_1_to_2000\"; drizzle_pass db; }} }}\n"
        )
    };
    site.write_conf(&format!(
        "worker_processes 2;\nerror_log logs/error.log notice;\npid logs/nginx.pid;\nevents {{ }}\nhttp {{\n\
         rds_csv on;\n\
         upstream db {{ drizzle_server 127.0.0.1:{} user=root; drizzle_keepalive max={MAX} overflow=wait wait=30s; }}\n\
         server {{ listen 127.0.0.1:{};\n{}{}\
         location = /status {{ drizzle_status full; }}\n}} }}\n",
        middleman.port,
        site.port,
        locations("", "30s"),
        locations("/hasty", "1s")
    ));
    site.start();
    let paths = ["/rows", "/together", "/one", "/write"];
    for (line, expected) in [
        (Line::Mute, &[504][..]),
        (Line::Slow, &[504]),
        (Line::Cut, &[502]),
        (Line::Stalled, &[504]),
        (Line::Oversized, &[]),
        (Line::Garbage, &[502]),
    ] {
        for is_warm in [true, false] {
            // With idle connections the trouble comes in the midst of a statement, without in the midst of a login.
            middleman.set(Line::Honest);
            if is_warm {
                eventually("the database serves", || paths.iter().all(|path| ask(&site, path).0 == 200).then_some(()));
            } else {
                middleman.set(Line::Garbage);
                eventually("no connection is idle", || {
                    let _ = ask(&site, "/write");
                    (count(&site, "active connections") == 0).then_some(())
                });
            }
            middleman.set(line);
            for path in paths {
                let is_silent = match line {
                    Line::Mute | Line::Oversized => true,
                    Line::Slow => !is_warm,
                    Line::Stalled => path == "/rows",
                    _ => false,
                };
                let begin = Instant::now();
                let (status, body) = ask(&site, &format!("{}{path}", if is_silent { "/hasty" } else { "" }));
                let what = format!("{line:?} {path}, warm {is_warm}: {status} {}", body.len());
                assert!(begin.elapsed() < Duration::from_secs(25), "{what}");
                match (line, path) {
                    // Only logins are slow.
                    (Line::Slow, _) if is_warm => assert_eq!(status, 200, "{what}"),
                    // Small answers come in one piece, before the line breaks.
                    (Line::Cut, "/one" | "/together" | "/write") => assert!(matches!(status, 200 | 502), "{what}"),
                    (Line::Stalled, "/one" | "/together" | "/write") => assert_eq!(status, 200, "{what}"),
                    // The head may have gone out with the first rows: then the end is missing.
                    (Line::Cut | Line::Stalled, _) if status == 200 => {
                        assert!(!body.ends_with("\r\n0\r\n\r\n"), "{what}")
                    }
                    // In a login, which comes first where no connection is left, the announcement has the wrong number, too.
                    (Line::Oversized, _) => assert!(matches!(status, 502 | 504), "{what}"),
                    _ => assert!(expected.contains(&status), "{what}"),
                }
            }
        }
        middleman.set(Line::Honest);
        for path in paths {
            eventually("the database serves again", || (ask(&site, path).0 == 200).then_some(()));
        }
        assert_eq!(ask(&site, "/rows").1.lines().filter(|line| line.contains("xxxx")).count(), 2000);
    }
    eventually("no connection is lost", || {
        let (open, idle) = (count(&site, "active connections"), count(&site, "idle connections"));
        (open == idle && open <= MAX && count(&site, "waiting requests") == 0).then_some(())
    });
    log_has(&site, &["protocol error from 127.0.0.1", "timed out", "connection to 127.0.0.1"]);
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("panic"), "{log}");
    site.quit();
}

/// Waits until all of the words stand in the error log, which a thread of its own writes.
fn log_has(site: &Site, words: &[&str]) {
    for words in words {
        eventually(&format!("\"{words}\" is in the log"), || site.log().contains(words).then_some(()));
    }
}

/// Clients that read nothing hold what connections there are: others are told so in time, and `send_timeout` ends it, in the database too.
#[test]
fn clients_that_do_not_read_their_rows() {
    let database = Database::new();
    let mut site = Site::new("", "");
    site.write_conf(&format!(
        "worker_processes 1;\nerror_log logs/error.log notice;\npid logs/nginx.pid;\nevents {{ }}\nhttp {{\n\
         rds_csv on; drizzle_query \"select seq, repeat('x', 1000) from mysql.seq_1_to_100000000\";\n\
         upstream db {{ drizzle_server 127.0.0.1:{0} user=root; drizzle_keepalive max=2 overflow=wait wait=300ms; }}\n\
         upstream aside {{ drizzle_server 127.0.0.1:{0} user=root; }}\n\
         server {{ listen 127.0.0.1:{1};\n\
         location = /one {{ drizzle_query 'select 1 as n'; drizzle_pass db; }}\n\
         location = /rows {{ send_timeout 10m; drizzle_pass db; }}\n\
         location = /hasty {{ send_timeout 1s; drizzle_pass db; }}\n\
         location = /running {{ drizzle_query \"select count(*) as n from information_schema.processlist where info like 'select seq, rep%'\"; drizzle_pass aside; }}\n\
         location = /status {{ drizzle_status full; }}\n}} }}\n",
        database.port, site.port
    ));
    site.start();
    eventually("the database serves", || (ask(&site, "/one").0 == 200).then_some(()));
    for path in ["/rows", "/hasty"] {
        let mut idlers: Vec<TcpStream> = (0..2)
            .map(|_| {
                let mut stream = support::connect(site.port).expect("the server accepts");
                write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
                std::io::Read::read_exact(&mut stream, &mut [0; 12]).expect("the head");
                stream
            })
            .collect();
        if path == "/rows" {
            // Both connections are theirs, until they go by themselves.
            assert_eq!(ask(&site, "/one").0, 503);
            assert_eq!(ask(&site, "/running").1.lines().nth(1), Some("2"));
            idlers.clear();
        }
        eventually("the idlers are sent away", || (ask(&site, "/one").0 == 200).then_some(()));
        eventually("their statements end", || (ask(&site, "/running").1.lines().nth(1) == Some("0")).then_some(()));
        drop(idlers);
    }
    eventually("no connection is lost", || {
        let (open, idle) = (count(&site, "active connections"), count(&site, "idle connections"));
        (open == idle && open <= 2).then_some(())
    });
    site.quit();
}
