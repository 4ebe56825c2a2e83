//! `kill -9` in the middle of a write load loses no acknowledged commit.
//!
//! Sessions on two threads write by single statements, and in transactions side by side.
//!
//! The test starts itself as a child that writes and prints each acknowledged number, kills it at a random moment, opens the
//! data directory and looks for every number that was printed. `TIDEGATE_CRASH_ROUNDS` sets how often (3 otherwise).

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tidegate_rows::{Column, Execute, Flow, QueryError, Row, Sink, SinkClosed, Statement, Summary, Value};
use tidegate_sql::{Engine, EngineOptions, Session};

/// Accounts between which transactions move something; the sum stays.
const ACCOUNTS: &str = "CREATE TABLE IF NOT EXISTS accounts (id INT PRIMARY KEY, n BIGINT)";
/// What transactions insert beside the number; both are there or neither.
const TWINS: &str = "CREATE TABLE IF NOT EXISTS twins (n BIGINT PRIMARY KEY)";
/// Threads of the child, and sessions of each.
const THREADS: i64 = 2;
const SESSIONS: i64 = 4;
const CHILD: &str = "TIDEGATE_CRASH_CHILD";
/// The next rounds begin with an empty directory.
const ROUNDS_OF_A_DIRECTORY: u64 = 10;
/// Between two commits, or for a lock that a killed process had, nothing takes so long: something waits for ever.
const STANDSTILL: Duration = Duration::from_secs(600);

#[derive(Default)]
struct Numbers(Vec<i64>);

impl Sink for Numbers {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        row.each(|_, value| match value {
            Value::Int(value) => self.0.push(value),
            other => panic!("unexpected {other:?}"),
        });
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

async fn run(session: &mut Session, sql: &str) -> Vec<i64> {
    try_run(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

async fn try_run(session: &mut Session, sql: &str) -> Result<Vec<i64>, QueryError> {
    let mut numbers = Numbers::default();
    session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut numbers).await?;
    Ok(numbers.0)
}

/// Inserts a number with its twin and moves something between two accounts, in a transaction that stays open for a while.
async fn insert_and_move(session: &mut Session, insert: &str, number: i64) {
    let (from, to) = (number % 5, (number / 5 + number) % 5);
    loop {
        let mut done = Ok(Vec::new());
        // Some are the schema's only writer.
        let level = if number % 11 == 0 { "SERIALIZABLE" } else { "REPEATABLE READ" };
        for sql in [
            &format!("SET TRANSACTION ISOLATION LEVEL {level}"),
            "BEGIN",
            &format!("UPDATE accounts SET n = n - 1 WHERE id = {from}"),
            insert,
            "SAVEPOINT s",
            &format!("UPDATE accounts SET n = 0 WHERE id = {from}"),
            "ROLLBACK TO s",
            &format!("INSERT INTO twins VALUES ({number})"),
            &format!("UPDATE accounts SET n = n + 1 WHERE id = {to}"),
            "COMMIT",
        ] {
            if done.is_ok() {
                done = try_run(session, sql).await;
                tokio::task::yield_now().await;
            }
        }
        match done {
            Ok(_) => return,
            Err(QueryError::Server(error)) if error.code == 1213 => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn open(path: &Path) -> Engine {
    // The killed process gives its lock back a moment after it is gone.
    let begun = Instant::now();
    loop {
        match Engine::open(EngineOptions::new(path)) {
            Ok(engine) => return engine,
            Err(error) => assert!(begun.elapsed() < STANDSTILL, "the data directory stays locked: {error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Writes with eight sessions until it is killed; each line is a number whose commit was acknowledged.
async fn child(path: PathBuf) {
    let engine = open(&path);
    let mut session = engine.session("").unwrap();
    run(&mut session, "CREATE DATABASE IF NOT EXISTS test; USE test").await;
    run(&mut session, "CREATE TABLE IF NOT EXISTS t (n BIGINT PRIMARY KEY, filler VARCHAR(2000))").await;
    run(&mut session, ACCOUNTS).await;
    run(&mut session, TWINS).await;
    run(&mut session, "INSERT IGNORE INTO accounts VALUES (0, 100), (1, 100), (2, 100), (3, 100), (4, 100)").await;
    let start = run(&mut session, "SELECT COALESCE(MAX(n), 0) FROM t").await[0];
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let engine = engine.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let local = tokio::task::LocalSet::new();
                for writer in 0..SESSIONS {
                    let session = engine.session("test").unwrap();
                    local.spawn_local(write(session, start + 1 + thread * SESSIONS + writer));
                }
                runtime.block_on(local);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Writes every eighth number, alone or in a transaction, and prints it.
async fn write(mut session: Session, mut number: i64) {
    loop {
        let filler = "x".repeat((number % 1500) as usize);
        let insert = format!("INSERT INTO t VALUES ({number}, '{filler}')");
        if number % 3 == 0 {
            insert_and_move(&mut session, &insert, number).await;
        } else {
            run(&mut session, &insert).await;
        }
        if number % 7 == 0 {
            run(&mut session, &format!("UPDATE t SET filler = 'changed' WHERE n = {number}")).await;
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{number}").unwrap();
        out.flush().unwrap();
        drop(out);
        number += THREADS * SESSIONS;
    }
}

#[test]
fn no_acknowledged_commit_is_lost() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let Some(path) = std::env::var_os(CHILD) {
        runtime.block_on(child(path.into()));
        return;
    }
    let rounds: u64 = std::env::var("TIDEGATE_CRASH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let path = std::env::temp_dir().join(format!("tidegate-sql-crash-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let mut acknowledged: HashSet<i64> = HashSet::new();
    let mut total = 0;
    for round in 0..rounds {
        if round % ROUNDS_OF_A_DIRECTORY == 0 {
            // A file that only grows makes looking at all of it the longest part of a round.
            let _ = std::fs::remove_dir_all(&path);
            total += acknowledged.len();
            acknowledged.clear();
        }
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "no_acknowledged_commit_is_lost", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = process.stdout.take().unwrap();
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let reader = std::thread::spawn(move || {
            // The last line may be cut off in the middle of a number: it was not acknowledged to anybody.
            let lines = BufReader::new(stdout).split(b'\n').map_while(Result::ok);
            let numbers = lines.filter_map(|line| String::from_utf8(line).ok()?.parse::<i64>().ok());
            numbers
                .inspect(|_| {
                    counted.fetch_add(1, Ordering::Relaxed);
                })
                .collect::<Vec<_>>()
        });
        // Somewhere between the start of the process and some thousand commits.
        let (mut seen, mut seen_at) = (0, Instant::now());
        let enough = if round % 8 == 7 { 0 } else { 2 + round * 637 % 3000 };
        while count.load(Ordering::Relaxed) < enough {
            if count.load(Ordering::Relaxed) > seen {
                (seen, seen_at) = (count.load(Ordering::Relaxed), Instant::now());
            }
            // However busy the machine is, a writer that lives goes on.
            assert!(process.try_wait().unwrap().is_none(), "round {round}: the writer ended after {seen} commits");
            assert!(seen_at.elapsed() < STANDSTILL, "round {round}: the writer stands after {seen} commits");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(round * 37 % 150));
        process.kill().unwrap();
        process.wait().unwrap();
        let mut numbers = reader.join().unwrap();
        // Without the newline behind it the last number may be incomplete.
        numbers.pop();
        acknowledged.extend(numbers);
        runtime.block_on(async {
            let engine = open(&path);
            let Ok(mut session) = engine.session("test") else { return };
            engine.check("test").await.unwrap_or_else(|error| panic!("round {round}: {error}"));
            if acknowledged.is_empty() {
                return;
            }
            let found: HashSet<i64> = run(&mut session, "SELECT n FROM t").await.into_iter().collect();
            let lost: Vec<&i64> = acknowledged.iter().filter(|number| !found.contains(number)).collect();
            assert!(lost.is_empty(), "round {round}: lost {lost:?} of {}", acknowledged.len());
            run(&mut session, ACCOUNTS).await;
            let sum = run(&mut session, "SELECT CAST(COALESCE(SUM(n), 0) AS SIGNED) FROM accounts").await[0];
            assert!(sum == 0 || sum == 500, "round {round}: half a transaction, {sum}");
            run(&mut session, TWINS).await;
            let alone = "SELECT t.n FROM t LEFT JOIN twins ON twins.n = t.n WHERE t.n % 3 = 0 AND twins.n IS NULL \
                         UNION ALL SELECT twins.n FROM twins LEFT JOIN t ON t.n = twins.n WHERE t.n IS NULL";
            let alone = run(&mut session, alone).await;
            assert!(alone.is_empty(), "round {round}: half of the transactions {alone:?}");
            let unchanged = run(&mut session, "SELECT n FROM t WHERE n % 7 = 0 AND filler <> 'changed'").await;
            let undone: Vec<&i64> = unchanged.iter().filter(|number| acknowledged.contains(number)).collect();
            assert!(undone.is_empty(), "round {round}: undone {undone:?}");
        });
    }
    total += acknowledged.len();
    assert!(total > 0, "no round got as far as a commit");
    println!("killed {rounds} times; all of {total} acknowledged commits are there");
    let _ = std::fs::remove_dir_all(&path);
}

/// What a session does again and again to a schema, and what is there after each: nothing, a schema, its table, the table's row.
const ROUND: [&str; 4] = [
    "DROP DATABASE IF EXISTS made",
    "CREATE DATABASE made",
    "CREATE TABLE made.t (n BIGINT)",
    "INSERT INTO made.t VALUES (7)",
];
/// With a child that makes and drops a schema.
const MAKER: &str = "TIDEGATE_CRASH_MAKER";

/// Makes and drops a schema until it is killed; each line is a statement that was acknowledged.
async fn make_and_drop(path: PathBuf) {
    let engine = open(&path);
    let mut session = engine.session("").unwrap();
    for step in (0..ROUND.len()).cycle() {
        run(&mut session, ROUND[step]).await;
        println!("{step}");
    }
}

/// How far a round has come, by what is there.
async fn step_of(engine: &Engine) -> usize {
    let Ok(mut session) = engine.session("made") else { return 0 };
    engine.check("made").await.unwrap();
    match try_run(&mut session, "SELECT n FROM t").await {
        Ok(rows) if rows == [7] => 3,
        Ok(rows) => {
            assert!(rows.is_empty(), "{rows:?}");
            2
        }
        Err(QueryError::Server(error)) if error.code == 1146 => 1,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_schema_is_made_and_dropped_as_a_whole() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let Some(path) = std::env::var_os(MAKER) {
        runtime.block_on(make_and_drop(path.into()));
        return;
    }
    let rounds: u64 = std::env::var("TIDEGATE_CRASH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let path = std::env::temp_dir().join(format!("tidegate-sql-crash-schemas-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    for round in 0..rounds {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_schema_is_made_and_dropped_as_a_whole", "--nocapture"])
            .env(MAKER, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // What the test harness says comes before the lines that are numbers.
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut steps = lines.filter_map(|line| line.parse::<usize>().ok());
        // Each time another statement is under way.
        let enough = usize::try_from(round * 7 % 40).unwrap();
        let mut last = steps.by_ref().take(enough + 1).last().expect("the child works");
        process.kill().unwrap();
        process.wait().unwrap();
        last = steps.last().unwrap_or(last);
        runtime.block_on(async {
            let engine = open(&path);
            let found = step_of(&engine).await;
            let next = (last + 1) % ROUND.len();
            assert!(found == last || found == next, "round {round}: step {found} after {last}");
            let left: Vec<_> = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert!(left.iter().all(|file| !file.to_string_lossy().contains(".copy")), "{left:?}");
            let mut session = engine.session("").unwrap();
            for statement in ROUND {
                run(&mut session, statement).await;
            }
            assert_eq!(step_of(&engine).await, 3, "whatever was left is in nobody's way");
        });
    }
    std::fs::remove_dir_all(&path).unwrap();
}
