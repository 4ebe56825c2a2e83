//! `kill -9` of a server that is written to through all of its doors at once: scripts, pages, the MySQL port, the HandlerSocket port and the
//! memcached port. Nothing that was acknowledged is lost, nothing is there in part.
//!
//! `TIDEGATE_CRASH_ROUNDS` sets how often (3 otherwise).

#[allow(dead_code, reason = "shared with the tests of the port, which use all of it")]
#[path = "support/mysql_client.rs"]
mod mysql_client;
mod support;

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mysql_client::Client;
use nix::sys::signal::Signal;
use support::{PATIENCE, Site, eventually, free_port};
use tidegate_mysql::answer;

/// Clients at each door.
const CLIENTS: usize = 2;
/// The next rounds begin with an empty directory: a file that only grows makes looking at all of it the longest part.
const ROUNDS_OF_A_DIRECTORY: u64 = 10;
/// Characters of the longest filler and bytes of the largest item, less one.
const FILLER_MAX: u64 = 1500;

const TABLES: &str = "
    CREATE TABLE t (n BIGINT PRIMARY KEY, door VARCHAR(20), filler VARCHAR(2000));
    CREATE TABLE twins (n BIGINT PRIMARY KEY);
    CREATE TABLE accounts (id INT PRIMARY KEY, n BIGINT);
    INSERT INTO accounts VALUES (0, 100), (1, 100), (2, 100), (3, 100), (4, 100);";

/// A transaction of a script, and a statement of a page.
const LOCATIONS: &str = r#"
    location = /script {
        content_by_lua_block {
            local n = tonumber(ngx.var.arg_n)
            local from, to = n % 5, (math.floor(n / 5) + n) % 5
            local done, message, code
            repeat
                done, message, code = require("tidegate.sql").transaction(function(tx)
                    assert(tx:exec("UPDATE accounts SET n = n - 1 WHERE id = ?", from))
                    assert(tx:exec("INSERT INTO t VALUES (?, 'script', REPEAT('x', ? % 1500))", n, n))
                    assert(tx:exec("INSERT INTO twins VALUES (?)", n))
                    assert(tx:exec("UPDATE accounts SET n = n + 1 WHERE id = ?", to))
                    return true
                end)
            -- A circle of those who wait for accounts.
            until done or code ~= 1213
            ngx.print(done and "affected" or message)
        }
    }
    location = /page {
        drizzle_query "INSERT INTO t VALUES (:n, 'page', REPEAT('x', :n % 1500))";
        drizzle_param n $arg_n;
        drizzle_pass db;
        rds_json on;
    }
    location / { echo ok; }"#;

/// Where writers come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Script,
    Page,
    Sql,
    HandlerSocket,
    Memcached,
}

const DOORS: [Door; 5] = [Door::Script, Door::Page, Door::Sql, Door::HandlerSocket, Door::Memcached];

/// A server with all doors.
struct Doors {
    site: Site,
    sql: u16,
}

impl Doors {
    fn new() -> Self {
        let (site, sql) = (Site::new("", ""), free_port());
        std::fs::write(site.dir.join("tables.sql"), TABLES).expect("written");
        site.write_conf(&format!(
            "master_process off; worker_processes 2; error_log logs/error.log notice; pid logs/nginx.pid; events {{ }}
             database {{
                 schema shop init=tables.sql;
                 user app password=secret;
                 listen 127.0.0.1:{sql} mysql;
                 listen unix:write.sock handlersocket write;
                 listen unix:items.sock memcached table=shop.kv;
             }}
             http {{
                 upstream db {{ drizzle_server embedded dbname=shop; }}
                 server {{ listen 127.0.0.1:{}; {LOCATIONS} }}
             }}",
            site.port
        ));
        Self { site, sql }
    }

    fn log_in(&self) -> Client {
        Client::log_in(self.sql, "app", "secret", "shop")
    }

    /// A client at a door.
    fn writer(&self, door: Door) -> Writer {
        match door {
            Door::Script => Writer::Http { port: self.site.port, path: "/script" },
            Door::Page => Writer::Http { port: self.site.port, path: "/page" },
            Door::Sql => Writer::Sql(Box::new(self.log_in())),
            Door::HandlerSocket => {
                let mut lines = Lines::connect(&self.site.dir.join("write.sock"));
                assert_eq!(lines.ask("P\t1\tshop\tt\tPRIMARY\tn,door,filler\n", 1), Some(vec!["0\t1".to_owned()]));
                Writer::HandlerSocket(lines)
            }
            Door::Memcached => {
                let mut lines = Lines::connect(&self.site.dir.join("items.sock"));
                lines.ask("add sum 0 0 1\r\n0\r\n", 1).expect("an answer");
                Writer::Memcached(lines)
            }
        }
    }
}

/// A connection on which each answer is a line.
struct Lines(BufReader<UnixStream>);

impl Lines {
    fn connect(path: &Path) -> Self {
        let stream = eventually("the port is open", || UnixStream::connect(path).ok());
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        Self(BufReader::new(stream))
    }

    /// Sends requests and reads so many lines; `None` when the server has gone.
    fn ask(&mut self, requests: &str, count: usize) -> Option<Vec<String>> {
        self.0.get_mut().write_all(requests.as_bytes()).ok()?;
        let line = |_| {
            let mut line = String::new();
            self.0.read_line(&mut line).ok()?;
            // What the server has not finished it has not said.
            line.strip_suffix('\n').map(|line| line.trim_end_matches('\r').to_owned())
        };
        (0..count).map(line).collect()
    }
}

enum Writer {
    Http { port: u16, path: &'static str },
    Sql(Box<Client>),
    HandlerSocket(Lines),
    Memcached(Lines),
}

impl Writer {
    /// Writes a number; `None` when the server has gone, so that nobody knows whether it is there.
    fn write(&mut self, number: u64) -> Option<()> {
        let filler = "x".repeat((number % FILLER_MAX) as usize);
        match self {
            Writer::Http { port, path } => {
                let response = get(*port, &format!("{path}?n={number}"))?;
                assert!(response.contains("affected"), "{path} {number}: {response}");
            }
            Writer::Sql(client) => transaction(client, number, &filler)?,
            Writer::HandlerSocket(lines) => {
                let requests = format!(
                    "1\t+\t3\t{number}\tnew\t\n1\t=\t1\t{number}\t1\t0\tU\t{number}\thandlersocket\t{filler}\n"
                );
                assert_eq!(lines.ask(&requests, 2)?, ["0\t1", "0\t1\t1"], "{number}");
            }
            Writer::Memcached(lines) => {
                let requests = format!("set k{number} 7 0 {}\r\n{filler}\r\nincr sum 1\r\n", filler.len());
                let answers = lines.ask(&requests, 2)?;
                assert!(answers[0] == "STORED" && answers[1].parse::<u64>().is_ok(), "{number}: {answers:?}");
            }
        }
        Some(())
    }
}

/// The whole response; `None` when the server has gone before its end.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = support::connect(port).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    // One that is cut off acknowledges nothing: neither body ends before its last word.
    let (_, body) = response.split_once("\r\n\r\n")?;
    (body == "affected" || body.ends_with('}') || body.contains(' ')).then_some(response)
}

/// Runs a statement without rows: its error, if it has one; `None` when the server has gone.
fn run(client: &mut Client, sql: &str) -> Option<Result<(), u16>> {
    client.command(3, sql.as_bytes());
    let packet = client.read()?;
    Some(if packet[0] == answer::OK { Ok(()) } else { Err(answer::error(&packet).code) })
}

/// Inserts a number with its twin and moves something between two accounts; `None` when the server has gone.
fn transaction(client: &mut Client, number: u64, filler: &str) -> Option<()> {
    let (from, to) = (number % 5, (number / 5 + number) % 5);
    let steps = [
        "BEGIN".to_owned(),
        format!("UPDATE accounts SET n = n - 1 WHERE id = {from}"),
        format!("INSERT INTO t VALUES ({number}, 'sql', '{filler}')"),
        format!("INSERT INTO twins VALUES ({number})"),
        format!("UPDATE accounts SET n = n + 1 WHERE id = {to}"),
        "COMMIT".to_owned(),
    ];
    loop {
        match steps.iter().try_for_each(|sql| run(client, sql).map_or(Err(None), |done| done.map_err(Some))) {
            Ok(()) => return Some(()),
            Err(None) => return None,
            Err(Some(1213)) => {}
            Err(Some(code)) => panic!("transaction {number}: {code}"),
        }
    }
}

/// What was acknowledged at each door since its directory is there.
#[derive(Default)]
struct Acknowledged([Mutex<HashSet<u64>>; DOORS.len()]);

impl Acknowledged {
    fn of(&self, door: Door) -> HashSet<u64> {
        self.0[door as usize].lock().expect("no panic").clone()
    }

    fn count(&self, door: Door) -> usize {
        self.0[door as usize].lock().expect("no panic").len()
    }

    fn total(&self) -> usize {
        DOORS.iter().map(|door| self.count(*door)).sum()
    }
}

/// Writes through all doors, and kills the server at some time.
fn kill_while_writing(doors: &Doors, round: u64, next: &AtomicU64, acknowledged: &Acknowledged) {
    let before: Vec<usize> = DOORS.iter().map(|door| acknowledged.count(*door)).collect();
    std::thread::scope(|scope| {
        for door in DOORS.iter().flat_map(|door| [*door; CLIENTS]) {
            let mut writer = doors.writer(door);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if writer.write(number).is_none() {
                        return;
                    }
                    acknowledged.0[door as usize].lock().expect("no panic").insert(number);
                }
            });
        }
        // Somewhere between the first commit of each door and some hundreds; now and then before any.
        let enough = before.iter().sum::<usize>() + (round * 137 % 400) as usize;
        eventually("there are commits", || {
            let has_written = |door: &Door| acknowledged.count(*door) > before[*door as usize];
            let all = DOORS.iter().all(has_written) && acknowledged.total() >= enough;
            (all || round % 8 == 7).then_some(())
        });
        std::thread::sleep(Duration::from_millis(round * 37 % 50).min(PATIENCE));
        doors.site.signal(Signal::SIGKILL);
    });
}

fn numbers(client: &mut Client, sql: &str) -> HashSet<u64> {
    let rows = client.query(sql).expect("rows");
    rows.split(';').filter(|row| !row.is_empty()).map(|row| row.parse().expect("a number")).collect()
}

fn check(doors: &Doors, round: u64, next: &AtomicU64, acknowledged: &Acknowledged) {
    let mut client = doors.log_in();
    for door in DOORS {
        let rows = match door {
            Door::Script => "SELECT n FROM t WHERE door = 'script'",
            Door::Page => "SELECT n FROM t WHERE door = 'page'",
            Door::Sql => "SELECT n FROM t WHERE door = 'sql'",
            Door::HandlerSocket => "SELECT n FROM t WHERE door = 'handlersocket'",
            Door::Memcached => "SELECT SUBSTRING(name, 2) FROM kv WHERE name LIKE 'k%' AND flags = 7",
        };
        let (written, found) = (acknowledged.of(door), numbers(&mut client, rows));
        let lost: Vec<&u64> = written.difference(&found).collect();
        assert!(lost.is_empty(), "round {round}, {door:?}: lost {lost:?} of {}", written.len());
    }
    let mut is_right = |sql: &str, expected: &str, what: &str| {
        assert_eq!(client.query(sql), Ok(expected.into()), "round {round}: {what}");
    };
    is_right("SELECT COUNT(*), SUM(n) FROM accounts", "5|500", "half a move");
    let twins = "SELECT t.n FROM t LEFT JOIN twins ON twins.n = t.n WHERE door IN ('script', 'sql') AND twins.n IS NULL \
                 UNION ALL SELECT twins.n FROM twins LEFT JOIN t ON t.n = twins.n WHERE t.n IS NULL";
    is_right(twins, "", "half of the transactions");
    let cut = format!("SELECT n FROM t WHERE door <> 'new' AND CHAR_LENGTH(filler) <> n % {FILLER_MAX}");
    is_right(&cut, "", "a row in part");
    let cut = format!(
        "SELECT name FROM kv WHERE name LIKE 'k%' AND (LENGTH(value) <> SUBSTRING(name, 2) % {FILLER_MAX} OR flags <> 7)"
    );
    is_right(&cut, "", "an item in part");
    let items = acknowledged.count(Door::Memcached);
    is_right(&format!("SELECT COUNT(*) FROM kv WHERE name = 'sum' AND value >= {items}"), "1", "a lost sum");
    // The doors are open again, and see the same.
    for door in DOORS {
        let number = next.fetch_add(1, Ordering::Relaxed);
        assert_eq!(doors.writer(door).write(number), Some(()), "round {round}: {door:?} after the restart");
        let (table, key) = if door == Door::Memcached { ("kv", "name = 'k") } else { ("t", "n = '") };
        is_right(
            &format!("SELECT COUNT(*) FROM {table} WHERE {key}{number}'"),
            "1",
            "what was written after the restart",
        );
    }
}

#[test]
fn no_door_loses_what_it_has_acknowledged() {
    let rounds: u64 = std::env::var("TIDEGATE_CRASH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let (mut doors, mut acknowledged, next) = (Doors::new(), Acknowledged::default(), AtomicU64::new(1));
    let mut totals = [0; DOORS.len()];
    for round in 0..rounds {
        if round > 0 && round % ROUNDS_OF_A_DIRECTORY == 0 {
            DOORS.iter().for_each(|door| totals[*door as usize] += acknowledged.count(*door));
            (doors, acknowledged) = (Doors::new(), Acknowledged::default());
        }
        doors.site.start();
        kill_while_writing(&doors, round, &next, &acknowledged);
        doors.site.wait();
        doors.site.start();
        check(&doors, round, &next, &acknowledged);
        doors.site.kill();
    }
    DOORS.iter().for_each(|door| totals[*door as usize] += acknowledged.count(*door));
    println!("killed {rounds} times; all of {totals:?} acknowledged commits of {DOORS:?} are there");
}
