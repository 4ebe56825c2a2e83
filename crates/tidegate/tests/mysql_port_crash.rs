//! `kill -9` of a server whose clients of the MySQL port are in the middle of transactions: no acknowledged commit is lost, no
//! transaction is there by half.
//!
//! `TIDEGATE_CRASH_ROUNDS` sets how often (3 otherwise).

#[allow(dead_code, reason = "shared with the tests of the port, which use all of it")]
#[path = "support/mysql_client.rs"]
mod mysql_client;
mod support;

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mysql_client::Client;
use nix::sys::signal::Signal;
use support::{PATIENCE, Site, eventually, free_port};
use tidegate_mysql::answer;

const CLIENTS: u64 = 6;
/// The next rounds begin with an empty directory: a file that only grows makes looking at all of it the longest part.
const ROUNDS_OF_A_DIRECTORY: u64 = 10;

const TABLES: [&str; 4] = [
    "CREATE TABLE IF NOT EXISTS t (n BIGINT PRIMARY KEY, filler VARCHAR(2000))",
    "CREATE TABLE IF NOT EXISTS twins (n BIGINT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS accounts (id INT PRIMARY KEY, n BIGINT)",
    "INSERT IGNORE INTO accounts VALUES (0, 100), (1, 100), (2, 100), (3, 100), (4, 100)",
];

/// Runs a statement without rows: its error, if it has one; `None` when the server has gone.
fn run(client: &mut Client, sql: &str) -> Option<Result<(), u16>> {
    client.command(3, sql.as_bytes());
    let packet = client.read()?;
    Some(if packet[0] == answer::OK { Ok(()) } else { Err(answer::error(&packet).code) })
}

/// Inserts a number with its twin and moves something between two accounts; `None` when the server has gone.
fn transaction(client: &mut Client, number: u64) -> Option<()> {
    let (from, to) = (number % 5, (number / 5 + number) % 5);
    let filler = "x".repeat((number % 1500) as usize);
    let steps = [
        "BEGIN".to_owned(),
        format!("UPDATE accounts SET n = n - 1 WHERE id = {from}"),
        format!("INSERT INTO t VALUES ({number}, '{filler}')"),
        "SAVEPOINT s".to_owned(),
        "DELETE FROM accounts".to_owned(),
        "ROLLBACK TO s".to_owned(),
        format!("INSERT INTO twins VALUES ({number})"),
        format!("UPDATE accounts SET n = n + 1 WHERE id = {to}"),
        "COMMIT".to_owned(),
    ];
    loop {
        match steps.iter().try_for_each(|sql| run(client, sql).map_or(Err(None), |done| done.map_err(Some))) {
            Ok(()) => return Some(()),
            Err(None) => return None,
            // A circle of those who wait for accounts.
            Err(Some(1213)) => {}
            Err(Some(code)) => panic!("transaction {number}: {code}"),
        }
    }
}

/// Writes until the server has gone; each number of `acknowledged` was committed.
fn write(mut client: Client, first: u64, count: &AtomicU64, acknowledged: &Mutex<HashSet<u64>>) {
    for number in (first..).step_by(CLIENTS as usize) {
        let done = match number % 3 {
            0 => run(&mut client, &format!("INSERT INTO t VALUES ({number}, 'alone')"))
                .map(|done| assert_eq!(done, Ok(()), "{number}")),
            _ => transaction(&mut client, number),
        };
        if done.is_none() {
            return;
        }
        acknowledged.lock().expect("no panic").insert(number);
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn numbers(client: &mut Client, sql: &str) -> Vec<u64> {
    let rows = client.query(sql).expect("rows");
    rows.split(';').filter(|row| !row.is_empty()).map(|row| row.parse().expect("a number")).collect()
}

fn check(client: &mut Client, round: u64, acknowledged: &HashSet<u64>) {
    let found: HashSet<u64> = numbers(client, "SELECT n FROM t").into_iter().collect();
    let lost: Vec<&u64> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "round {round}: lost {lost:?} of {}", acknowledged.len());
    assert_eq!(client.query("SELECT COUNT(*), SUM(n) FROM accounts"), Ok("5|500".into()), "round {round}: half a move");
    let alone = "SELECT t.n FROM t LEFT JOIN twins ON twins.n = t.n WHERE t.n % 3 > 0 AND twins.n IS NULL \
                 UNION ALL SELECT twins.n FROM twins LEFT JOIN t ON t.n = twins.n WHERE t.n IS NULL";
    assert_eq!(numbers(client, alone), [0; 0], "round {round}: half of the transactions");
}

#[test]
fn no_acknowledged_commit_of_the_port_is_lost() {
    let rounds: u64 = std::env::var("TIDEGATE_CRASH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let port = free_port();
    let database = format!(
        "master_process off; database {{ schema shop; user app password=secret; listen 127.0.0.1:{port} mysql; }}"
    );
    let acknowledged = Mutex::new(HashSet::new());
    let mut total = 0;
    let mut site = Site::new(&database, "location / { echo ok; }");
    for round in 0..rounds {
        if round > 0 && round % ROUNDS_OF_A_DIRECTORY == 0 {
            site = Site::new(&database, "location / { echo ok; }");
            total += acknowledged.lock().expect("no panic").drain().count();
        }
        site.start();
        let mut client = Client::log_in(port, "app", "secret", "shop");
        TABLES.iter().for_each(|sql| assert_eq!(run(&mut client, sql), Some(Ok(())), "{sql}"));
        let start = numbers(&mut client, "SELECT COALESCE(MAX(n), 0) FROM t")[0];
        let count = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for writer in 0..CLIENTS {
                let client = Client::log_in(port, "app", "secret", "shop");
                let (count, acknowledged) = (&count, &acknowledged);
                scope.spawn(move || write(client, start + 1 + writer, count, acknowledged));
            }
            // Somewhere between the first commit and some hundreds.
            let enough = if round % 8 == 7 { 0 } else { 1 + round * 137 % 400 };
            eventually("there are commits", || (count.load(Ordering::Relaxed) >= enough).then_some(()));
            std::thread::sleep(Duration::from_millis(round * 37 % 50).min(PATIENCE));
            site.signal(Signal::SIGKILL);
        });
        site.wait();
        site.start();
        check(&mut Client::log_in(port, "app", "secret", "shop"), round, &acknowledged.lock().expect("no panic"));
        site.kill();
    }
    total += acknowledged.lock().expect("no panic").len();
    assert!(total > 0, "no round got as far as a commit");
    println!("killed {rounds} times; all of {total} acknowledged commits are there");
}
