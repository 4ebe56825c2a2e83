//! A pooled session that somebody has used answers as a new one, whatever way its last use has ended.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use tidegate_rows::{Column, Execute, Flow, QueryError, Row, Sink, SinkClosed, Statement, Summary, Value};
use tidegate_sql::{Engine, EngineOptions, PooledSession};

/// Collects a result as text.
#[derive(Default)]
struct Rows(Vec<String>, Summary);

impl Sink for Rows {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.0.push(String::new());
        row.each(|_, value| {
            let text = match value {
                Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                value => format!("{value:?}"),
            };
            let row = self.0.last_mut().unwrap();
            row.push_str(&text);
            row.push('|');
        });
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        self.1 = summary.clone();
    }
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}

async fn run(session: &mut PooledSession, sql: &str) -> String {
    let mut rows = Rows::default();
    match session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut rows).await {
        Ok(()) => format!(
            "{} affected {} status {} warnings {}",
            rows.0.join("\n"),
            rows.1.affected_rows,
            rows.1.status,
            rows.1.warnings
        ),
        Err(QueryError::Server(error)) => format!("error {}", error.code),
        Err(error) => panic!("{sql}: {error}"),
    }
}

/// What can be seen of a session, and what it can do. The clock is left out.
async fn look(session: &mut PooledSession) -> Vec<String> {
    let mut seen = Vec::new();
    for sql in [
        "SHOW WARNINGS",
        "SELECT FOUND_ROWS(), ROW_COUNT(), LAST_INSERT_ID(), DATABASE()",
        "SHOW VARIABLES WHERE Variable_name <> 'timestamp'",
        "SELECT TIMESTAMPDIFF(DAY, NOW(), SYSDATE())",
        "SELECT @a, @b, @@autocommit",
        "SELECT 'a\\nb', \"it\", 'a' || 'b'",
        "SELECT 'a' = 'A', CAST('2024-01-01 00:00:00' AS DATETIME) = '2024-01-01'",
        "SELECT * FROM hidden",
        "SELECT * FROM t",
        "EXECUTE p",
        "SAVEPOINT s",
        "ROLLBACK TO SAVEPOINT s",
        "SELECT IS_USED_LOCK('pooled')",
        "INSERT INTO t VALUES ('x')",
        "INSERT INTO u (n) VALUES (1)",
        "DELETE FROM u",
        "SELECT GROUP_CONCAT(REPEAT('x', 3)) FROM v",
        "CREATE TEMPORARY TABLE hidden (n INT)",
    ] {
        seen.push(format!("{sql}: {}", run(session, sql).await));
    }
    seen
}

/// Everything that a user can leave behind.
const SETTINGS: &[&str] = &[
    "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET time_zone = '+03:00', timestamp = 1000000000, group_concat_max_len = 4, foreign_key_checks = 0",
    "SET innodb_lock_wait_timeout = 7, max_statement_time = 5, sql_notes = 0, unique_checks = 0",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET @a = 1.5, @b = 'secret'",
    "INSERT INTO u (n) VALUES (7)",
    "DELETE FROM u",
    "CREATE TEMPORARY TABLE hidden (s VARCHAR(10))",
    "CREATE TEMPORARY TABLE t (s VARCHAR(10))",
    "INSERT INTO t VALUES ('secret')",
    "PREPARE p FROM 'SELECT 1'",
    "SELECT SQL_CALC_FOUND_ROWS n FROM v LIMIT 1",
    "SELECT RAND(3), 1 / 0",
    "SELECT GET_LOCK('pooled', 0)",
];

/// Ways in which the last use ends, behind the settings.
const ENDINGS: &[(&str, &[&str])] = &[
    ("normally", &[]),
    ("with an error", &["SELECT nosuch", "INSERT INTO v VALUES ('no number')"]),
    ("with a time-out", &["SET max_statement_time = 0.01", "SELECT SLEEP(60)"]),
    ("in a transaction", &["BEGIN", "INSERT INTO v VALUES (99)", "SAVEPOINT s"]),
    ("in an implicit transaction", &["SET autocommit = 0", "INSERT INTO v VALUES (99)"]),
    ("in a read-only transaction", &["START TRANSACTION READ ONLY", "SELECT * FROM v"]),
    ("with locked tables", &["LOCK TABLES v WRITE, u READ"]),
    ("under a global lock", &["FLUSH TABLES WITH READ LOCK"]),
    ("elsewhere", &["USE information_schema"]),
];

/// An engine with some tables, which an earlier session has made.
async fn engine(name: &str) -> (Engine, std::path::PathBuf) {
    let path = std::env::temp_dir().join(format!("tidegate-sql-pooled-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let engine = Engine::open(EngineOptions::new(&path)).unwrap();
    let mut session = engine.pooled_session("").unwrap();
    for sql in [
        "CREATE DATABASE test",
        "CREATE TABLE test.t (s VARCHAR(10) CHECK (s <> 'x'))",
        "CREATE TABLE test.u (id INT AUTO_INCREMENT PRIMARY KEY, n INT)",
        "CREATE TABLE test.v (n INT)",
        "INSERT INTO test.v VALUES (1), (2), (3)",
    ] {
        let answer = run(&mut session, sql).await;
        assert!(!answer.starts_with("error"), "{sql}: {answer}");
    }
    (engine, path)
}

#[tokio::test]
async fn a_used_session_answers_as_a_new_one() {
    for (how, last) in ENDINGS {
        // Idle sessions keep the engines before it open.
        let (engine, path) = engine(&how.replace(' ', "-")).await;
        let mut used = engine.pooled_session("test").unwrap();
        let number = used.id();
        for sql in SETTINGS.iter().chain(*last) {
            run(&mut used, sql).await;
        }
        drop(used);
        let mut reused = engine.pooled_session(if *how == "elsewhere" { "" } else { "test" }).unwrap();
        assert_eq!(reused.id(), number, "{how}: the session was not used again");
        run(&mut reused, "USE test").await;
        let seen = look(&mut reused).await;
        drop(reused);
        // Another thread has no idle sessions.
        let other = engine.clone();
        let fresh = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut fresh = other.pooled_session("test").unwrap();
                assert_ne!(fresh.id(), number);
                run(&mut fresh, "USE test").await;
                look(&mut fresh).await
            })
        });
        assert_eq!(seen, fresh.join().unwrap(), "{how}");
        drop(engine);
        let _ = std::fs::remove_dir_all(path);
    }
}

#[tokio::test]
async fn an_idle_session_begins_with_what_was_set_meanwhile() {
    let (engine, path) = engine("global").await;
    let idle: Vec<_> = (0..2).map(|_| engine.pooled_session("test").unwrap()).collect();
    let numbers: Vec<_> = idle.iter().map(PooledSession::id).collect();
    drop(idle);
    let mut other = engine.session("test").unwrap();
    for (set, expected) in [("'+03:00'", "+03:00|"), ("'-01:00'", "-01:00|"), ("DEFAULT", "SYSTEM|")] {
        let set = format!("SET GLOBAL time_zone = {set}");
        other.execute(Statement { sql: set.as_bytes(), params: &[] }, &mut Rows::default()).await.unwrap();
        // Each of the idle ones.
        let mut used: Vec<_> = (0..2).map(|_| engine.pooled_session("test").unwrap()).collect();
        for session in &mut used {
            assert!(numbers.contains(&session.id()), "the session was not used again");
            assert!(run(session, "SELECT @@time_zone").await.starts_with(expected), "{set}");
        }
    }
    drop((engine, other));
    let _ = std::fs::remove_dir_all(path);
}

#[tokio::test]
async fn a_session_whose_statement_was_abandoned_serves_nobody() {
    let (engine, path) = engine("abandoned").await;
    for sql in ["SELECT SLEEP(600)", "SELECT SLEEP(600) FROM v FOR UPDATE", "INSERT INTO v SELECT SLEEP(600) FROM v"] {
        let mut used = engine.pooled_session("test").unwrap();
        let number = used.id();
        run(&mut used, "SELECT GET_LOCK('pooled', 0)").await;
        {
            let mut running = pin!(run(&mut used, sql));
            assert!(running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "{sql}");
        }
        drop(used);
        let mut next = engine.pooled_session("test").unwrap();
        assert_ne!(next.id(), number, "{sql}");
        assert!(run(&mut next, "SELECT IS_FREE_LOCK('pooled')").await.contains("Int(1)"), "{sql}");
        assert!(run(&mut next, "INSERT INTO u (n) VALUES (1)").await.contains("affected 1"), "{sql}");
    }
    drop(engine);
    let _ = std::fs::remove_dir_all(path);
}
