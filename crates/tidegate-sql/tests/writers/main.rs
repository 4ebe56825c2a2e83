//! Transactions that write side by side.

mod bulk;
mod circles;
mod endings;
mod idle;
mod locking;
mod model;
mod refused;
mod same;
mod schemas;
mod shown;
mod temporary;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use tidegate_rows::{Column, Execute, Flow, QueryError, Row, Sink, SinkClosed, Statement, Summary, Value};
use tidegate_sql::{Durability, Engine, EngineOptions, Report, Session};
use tokio::{sync::oneshot, task::LocalSet};

/// The numbers of a result, row by row; NULL is the smallest.
#[derive(Default)]
struct Numbers(Vec<i64>);

impl Sink for Numbers {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        row.each(|_, value| {
            self.0.push(match value {
                Value::Int(value) => value,
                Value::Uint(value) => value.cast_signed(),
                Value::Bytes(bytes) => std::str::from_utf8(bytes).unwrap().parse().unwrap_or(-1),
                Value::Null => i64::MIN,
                other => panic!("{other:?}"),
            });
        });
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// An engine in a directory of its own with a schema `test`.
struct Fixture {
    engine: Option<Engine>,
    path: PathBuf,
    /// What the engine has told the administrator.
    said: Arc<Mutex<Vec<String>>>,
}

impl Fixture {
    async fn new(name: &str, setup: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-sql-writers-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let mut options = EngineOptions::new(&path);
        options.durability = Durability::Normal;
        // The thread that renews them holds the write lock meanwhile, which a statement that waits for nothing would be told of.
        options.renews_statistics = false;
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&said);
        options.report = Some(Report(Arc::new(move |sentence: &str| log.lock().unwrap().push(sentence.to_owned()))));
        let engine = Engine::open(options).unwrap();
        let mut session = engine.session("").unwrap();
        run(&mut session, &format!("CREATE DATABASE test; USE test; {setup}")).await.unwrap();
        Self { engine: Some(engine), path, said }
    }

    fn session(&self) -> Session {
        self.engine.as_ref().unwrap().session("test").unwrap()
    }

    /// A statement that runs in a task of its own, and the session again when it has ended.
    fn start(&self, mut session: Session, sql: &str) -> Running {
        let (done, result) = oneshot::channel();
        let sql = sql.to_owned();
        tokio::task::spawn_local(async move {
            let outcome = run(&mut session, &sql).await;
            let _ = done.send((session, outcome));
        });
        Running(result)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.engine = None;
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

type Outcome = Result<Vec<i64>, u16>;

struct Running(oneshot::Receiver<(Session, Outcome)>);

impl Running {
    /// Whether it still waits after everybody else has run as far as they can.
    async fn waits(&mut self) -> bool {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        matches!(self.0.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }

    async fn end(self) -> (Session, Outcome) {
        tokio::time::timeout(Duration::from_secs(20), self.0).await.expect("it waits for good").unwrap()
    }
}

async fn run(session: &mut Session, sql: &str) -> Outcome {
    let mut numbers = Numbers::default();
    match session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut numbers).await {
        Ok(()) => Ok(numbers.0),
        Err(QueryError::Server(error)) if error.code == 1815 => panic!("{sql}: {error}"),
        Err(QueryError::Server(error)) => Err(error.code),
        Err(error) => panic!("{sql}: {error}"),
    }
}

#[track_caller]
fn ok(outcome: Outcome) -> Vec<i64> {
    outcome.unwrap()
}

/// Runs `body` where sessions have their tasks.
fn local(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(LocalSet::new().run_until(body));
}

/// Begins a transaction that is the only writer.
const ALONE: &str = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN; SELECT COUNT(*) FROM t";

const TABLE: &str =
    "CREATE TABLE t (id INT PRIMARY KEY, n INT, u INT UNIQUE); INSERT INTO t VALUES (1, 10, 1), (2, 20, 2), (3, 30, 3)";

#[test]
fn sessions_with_rows_of_their_own_all_succeed() {
    local(async {
        for sessions in [4, 16, 64] {
            let rows: Vec<String> = (0..sessions).map(|id| format!("({id}, 0)")).collect();
            let setup = format!("CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES {}", rows.join(", "));
            let fixture = Fixture::new(&format!("own-{sessions}"), &setup).await;
            let tasks: Vec<_> = (0..sessions)
                .map(|id| {
                    let mut session = fixture.session();
                    tokio::task::spawn_local(async move {
                        for round in 0..20 {
                            ok(run(&mut session, "BEGIN").await);
                            let sql = format!("SELECT n FROM t WHERE id = {id}");
                            assert_eq!(ok(run(&mut session, &sql).await), [round]);
                            ok(run(&mut session, &format!("UPDATE t SET n = n + 1 WHERE id = {id}")).await);
                            ok(run(&mut session, "COMMIT").await);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(ok(run(&mut fixture.session(), "SELECT SUM(n) FROM t").await), [20 * sessions]);
        }
    });
}

#[test]
fn one_hot_row_counts_every_commit() {
    local(async {
        let fixture = Fixture::new("hot", TABLE).await;
        let tasks: Vec<_> = (0..16)
            .map(|number| {
                let mut session = fixture.session();
                tokio::task::spawn_local(async move {
                    for round in 0..10 {
                        // Beside transactions, statements of their own.
                        if number % 4 == 0 {
                            ok(run(&mut session, "UPDATE t SET n = n + 1 WHERE id = 1").await);
                            continue;
                        }
                        let end = if round % 5 == 4 { "ROLLBACK" } else { "COMMIT" };
                        ok(run(&mut session, "BEGIN; SELECT n FROM t WHERE id = 1").await);
                        ok(run(&mut session, "UPDATE t SET n = n + 1 WHERE id = 1").await);
                        tokio::task::yield_now().await;
                        ok(run(&mut session, end).await);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(ok(run(&mut fixture.session(), "SELECT n FROM t WHERE id = 1").await), [10 + 40 + 12 * 8]);
    });
}

#[test]
fn other_rows_do_not_wait_and_the_same_row_does() {
    local(async {
        let fixture = Fixture::new("rows", TABLE).await;
        let (mut a, mut b, mut c) = (fixture.session(), fixture.session(), fixture.session());
        ok(run(&mut a, "BEGIN; UPDATE t SET n = 11 WHERE id = 1").await);
        ok(run(&mut b, "BEGIN; UPDATE t SET n = 21 WHERE id = 2; INSERT INTO t VALUES (4, 40, 4)").await);
        ok(run(&mut c, "UPDATE t SET n = 31 WHERE id = 3; INSERT INTO t VALUES (5, 50, 5)").await);
        assert_eq!(ok(run(&mut c, "SELECT n FROM t ORDER BY id").await), [10, 20, 31, 50]);
        // The newest commits together with its own changes.
        ok(run(&mut a, "INSERT INTO t VALUES (6, 60, 6)").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM t ORDER BY id").await), [11, 20, 31, 50, 60]);
        let mut waiting = fixture.start(c, "UPDATE t SET n = n + 1 WHERE id < 3");
        assert!(waiting.waits().await);
        ok(run(&mut a, "COMMIT").await);
        assert!(waiting.waits().await, "the second row is still locked");
        ok(run(&mut b, "COMMIT").await);
        let (mut c, outcome) = waiting.end().await;
        ok(outcome);
        assert_eq!(ok(run(&mut c, "SELECT n FROM t ORDER BY id").await), [12, 22, 31, 40, 50, 60]);
    });
}

#[test]
fn waiting_ends_with_the_time_limit_and_undoes_the_statement_alone() {
    local(async {
        let fixture = Fixture::new("limit", TABLE).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        ok(run(&mut a, "BEGIN; UPDATE t SET n = 21 WHERE id = 2").await);
        ok(run(&mut b, "SET innodb_lock_wait_timeout = 0; BEGIN; UPDATE t SET n = 31 WHERE id = 3").await);
        assert_eq!(run(&mut b, "UPDATE t SET n = 0").await, Err(1205));
        assert!(b.in_transaction());
        assert_eq!(ok(run(&mut b, "SELECT n FROM t ORDER BY id").await), [10, 20, 31]);
        ok(run(&mut b, "COMMIT").await);
        // Row locks of a statement that failed stay with its transaction until it ends.
        ok(run(&mut a, "ROLLBACK").await);
        ok(run(&mut b, "UPDATE t SET n = n + 1").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM t ORDER BY id").await), [11, 21, 32]);
    });
}

#[test]
fn a_circle_ends_the_youngest_at_once() {
    local(async {
        let fixture = Fixture::new("circle", TABLE).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        ok(run(&mut a, "BEGIN; UPDATE t SET n = 11 WHERE id = 1").await);
        ok(run(&mut b, "BEGIN; UPDATE t SET n = 21 WHERE id = 2").await);
        let mut waiting = fixture.start(b, "UPDATE t SET n = 12 WHERE id = 1");
        assert!(waiting.waits().await);
        ok(run(&mut a, "UPDATE t SET n = 22 WHERE id = 2; COMMIT").await);
        let (b, outcome) = waiting.end().await;
        assert_eq!(outcome, Err(1213));
        assert!(!b.in_transaction());
        assert_eq!(ok(run(&mut a, "SELECT n FROM t ORDER BY id").await), [11, 22, 30]);
    });
}

#[test]
fn the_same_key_waits_for_the_outcome() {
    local(async {
        let fixture = Fixture::new("keys", TABLE).await;
        let mut a = fixture.session();
        let again = "INSERT INTO t VALUES (8, 80, 7)";
        for (first, end, second, expected) in [
            ("INSERT INTO t VALUES (7, 70, 7)", "COMMIT", again, Err(1062)),
            ("INSERT INTO t VALUES (7, 70, 7)", "ROLLBACK", again, Ok(())),
            ("UPDATE t SET u = 7 WHERE id = 1", "COMMIT", again, Err(1062)),
            ("DELETE FROM t WHERE id = 1", "COMMIT", "INSERT INTO t VALUES (9, 0, 1)", Ok(())),
            ("DELETE FROM t WHERE id = 1", "ROLLBACK", "INSERT INTO t VALUES (9, 0, 1)", Err(1062)),
            ("DELETE FROM t WHERE id = 1", "COMMIT", "INSERT INTO t VALUES (1, 0, 9)", Ok(())),
            ("INSERT INTO t VALUES (7, 70, 7)", "COMMIT", "INSERT INTO t VALUES (7, 70, 8)", Err(1062)),
            ("UPDATE t SET u = NULL WHERE id = 1", "COMMIT", "UPDATE t SET u = 1 WHERE id = 2", Ok(())),
            ("UPDATE t SET n = 5 WHERE id = 1", "COMMIT", "REPLACE INTO t VALUES (4, 0, 1)", Ok(())),
            (
                "UPDATE t SET n = 5 WHERE id = 1",
                "COMMIT",
                "INSERT INTO t VALUES (1, 0, 9) ON DUPLICATE KEY UPDATE n = n",
                Ok(()),
            ),
        ] {
            for begin in ["", "BEGIN; "] {
                ok(run(&mut a, &format!("BEGIN; {first}")).await);
                let mut waiting = fixture.start(fixture.session(), &format!("{begin}{second}"));
                assert!(waiting.waits().await, "{first}, {second}");
                ok(run(&mut a, end).await);
                let (mut b, outcome) = waiting.end().await;
                assert_eq!(outcome.map(|_| ()), expected, "{first}, {end}, {begin}{second}");
                ok(run(&mut b, "COMMIT").await);
                let reset = "DELETE FROM t; INSERT INTO t VALUES (1, 10, 1), (2, 20, 2), (3, 30, 3)";
                ok(run(&mut a, reset).await);
            }
        }
    });
}

#[test]
fn foreign_keys_lock_the_parent() {
    local(async {
        let setup = "CREATE TABLE p (id INT PRIMARY KEY, k VARCHAR(9) UNIQUE); INSERT INTO p VALUES (1, 'a'), (2, 'b'); \
             CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE); \
             CREATE TABLE d (id INT PRIMARY KEY, k VARCHAR(9), FOREIGN KEY (k) REFERENCES p (k))";
        let fixture = Fixture::new("parents", setup).await;
        let mut a = fixture.session();
        for (first, second, expected) in [
            ("INSERT INTO c VALUES (1, 1)", "DELETE FROM p WHERE id = 1", Ok(())),
            ("DELETE FROM p WHERE id = 1", "INSERT INTO c VALUES (1, 1)", Err(1452)),
            ("INSERT INTO d VALUES (1, 'A ')", "DELETE FROM p WHERE id = 1", Err(1451)),
            ("DELETE FROM p WHERE id = 1", "INSERT INTO d VALUES (1, 'A')", Err(1452)),
            ("INSERT INTO p VALUES (3, 'c')", "INSERT INTO c VALUES (1, 3)", Ok(())),
            ("SELECT * FROM p WHERE id = 1 FOR UPDATE", "INSERT INTO c VALUES (1, 1)", Ok(())),
        ] {
            ok(run(&mut a, &format!("BEGIN; {first}")).await.map(|_| Vec::new()));
            let mut waiting = fixture.start(fixture.session(), &format!("BEGIN; {second}"));
            assert!(waiting.waits().await, "{first}, {second}");
            ok(run(&mut a, "COMMIT").await);
            let (mut b, outcome) = waiting.end().await;
            assert_eq!(outcome.map(|_| ()), expected, "{first}, {second}");
            ok(run(&mut b, "COMMIT").await);
            if second.starts_with("DELETE") && expected.is_ok() {
                assert_eq!(ok(run(&mut b, "SELECT COUNT(*) FROM c").await), [0], "the new child went with its parent");
            }
            ok(run(&mut a, "DELETE FROM c; DELETE FROM d; DELETE FROM p; INSERT INTO p VALUES (1, 'a'), (2, 'b')")
                .await);
        }
        // Two children of one parent do not wait for each other, and a cascade is committed as it was seen.
        let mut b = fixture.session();
        ok(run(&mut a, "BEGIN; INSERT INTO c VALUES (1, 1)").await);
        ok(run(&mut b, "BEGIN; INSERT INTO c VALUES (2, 1); COMMIT").await);
        ok(run(&mut a, "COMMIT; BEGIN; DELETE FROM p WHERE id = 1").await);
        ok(run(&mut b, "INSERT INTO p VALUES (9, 'z')").await);
        ok(run(&mut a, "COMMIT").await);
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM c").await), [0]);
        ok(run(&mut b, "INSERT INTO c VALUES (3, 9)").await);
        assert_eq!(run(&mut b, "INSERT INTO c VALUES (4, 1)").await, Err(1452), "keys are checked as before");
    });
}

#[test]
fn locking_reads() {
    local(async {
        let fixture = Fixture::new("reads", TABLE).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        // The newest row, not that of the snapshot.
        ok(run(&mut a, "BEGIN; SELECT n FROM t").await);
        ok(run(&mut b, "UPDATE t SET n = 11 WHERE id = 1").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM t WHERE id = 1").await), [10]);
        assert_eq!(ok(run(&mut a, "SELECT n FROM t WHERE id = 1 FOR UPDATE").await), [11]);
        ok(run(&mut b, "UPDATE t SET n = 21 WHERE id = 2").await);
        assert_eq!(run(&mut b, "BEGIN; SELECT n FROM t WHERE id = 1 FOR UPDATE NOWAIT").await, Err(1205));
        assert_eq!(ok(run(&mut b, "SELECT n FROM t WHERE id = 2 FOR UPDATE NOWAIT").await), [21]);
        let mut waiting = fixture.start(b, "SELECT n FROM t WHERE id = 1 FOR SHARE");
        assert!(waiting.waits().await);
        ok(run(&mut a, "UPDATE t SET n = 12 WHERE id = 1; COMMIT").await);
        let (mut b, outcome) = waiting.end().await;
        assert_eq!(ok(outcome), [12]);
        // Readers share.
        assert_eq!(ok(run(&mut a, "BEGIN; SELECT n FROM t WHERE id = 1 LOCK IN SHARE MODE").await), [12]);
        let mut waiting = fixture.start(fixture.session(), "UPDATE t SET n = 13 WHERE id = 1");
        assert!(waiting.waits().await);
        ok(run(&mut a, "COMMIT").await);
        assert!(waiting.waits().await);
        ok(run(&mut b, "COMMIT").await);
        let (_, outcome) = waiting.end().await;
        ok(outcome);
        // Joins lock the rows of both tables, OF those of one; a limit locks what it lets through.
        ok(run(&mut a, "BEGIN").await);
        let join = "SELECT x.id, y.id FROM t AS x JOIN t AS y ON y.id = x.id + 1 WHERE x.id = 1 FOR UPDATE";
        assert_eq!(ok(run(&mut a, join).await), [1, 2]);
        ok(run(&mut b, "SET innodb_lock_wait_timeout = 0").await);
        assert_eq!(run(&mut b, "UPDATE t SET n = 0 WHERE id = 2").await, Err(1205));
        ok(run(&mut a, &format!("COMMIT; BEGIN; {join} OF x")).await);
        ok(run(&mut b, "UPDATE t SET n = 0 WHERE id = 2").await);
        assert_eq!(run(&mut b, "UPDATE t SET n = 0 WHERE id = 1").await, Err(1205));
        ok(run(&mut a, "COMMIT; BEGIN; SELECT id FROM t ORDER BY id DESC LIMIT 1 FOR UPDATE").await);
        ok(run(&mut b, "UPDATE t SET n = 0 WHERE id < 3").await);
        assert_eq!(run(&mut b, "DELETE FROM t WHERE id = 3").await, Err(1205));
        ok(run(&mut a, "COMMIT").await);
    });
}

#[test]
fn savepoints_survive_the_commits_of_others() {
    local(async {
        let fixture = Fixture::new("savepoints", TABLE).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        ok(run(&mut a, "BEGIN; SAVEPOINT zero; UPDATE t SET n = 11 WHERE id = 1; SAVEPOINT one").await);
        ok(run(&mut b, "UPDATE t SET n = 31 WHERE id = 3").await);
        ok(run(&mut a, "DELETE FROM t WHERE id = 2; SAVEPOINT two; INSERT INTO t VALUES (4, 40, 4)").await);
        ok(run(&mut b, "UPDATE t SET n = 32 WHERE id = 3").await);
        assert_eq!(run(&mut a, "INSERT INTO t VALUES (5, 50, 5), (6, 60, 1)").await, Err(1062));
        assert_eq!(ok(run(&mut a, "SELECT n FROM t ORDER BY id").await), [11, 32, 40]);
        ok(run(&mut a, "ROLLBACK TO two").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM t ORDER BY id").await), [11, 32]);
        ok(run(&mut b, "UPDATE t SET n = 33 WHERE id = 3").await);
        ok(run(&mut a, "INSERT INTO t VALUES (7, 70, 7); ROLLBACK TO one; SAVEPOINT one").await);
        ok(run(&mut b, "UPDATE t SET n = 34 WHERE id = 3").await);
        ok(run(
            &mut a,
            "UPDATE t SET n = n + 1 WHERE id = 1; RELEASE SAVEPOINT one; UPDATE t SET n = n + 1 WHERE id = 1",
        )
        .await);
        assert_eq!(run(&mut a, "ROLLBACK TO one").await, Err(1305));
        assert_eq!(ok(run(&mut a, "SELECT n FROM t ORDER BY id").await), [13, 20, 34]);
        ok(run(&mut a, "COMMIT").await);
        assert_eq!(ok(run(&mut b, "SELECT n FROM t ORDER BY id").await), [13, 20, 34]);
        ok(run(&mut a, "SET autocommit = 0; UPDATE t SET n = 0; SAVEPOINT s; DELETE FROM t").await);
        ok(run(&mut b, "INSERT INTO t VALUES (4, 40, 4)").await);
        ok(run(&mut a, "ROLLBACK TO s; UPDATE t SET n = n + 1 WHERE id = 4; ROLLBACK TO s; COMMIT").await);
        assert_eq!(ok(run(&mut b, "SELECT n FROM t ORDER BY id").await), [0, 0, 0, 40]);
    });
}

#[test]
fn tables_without_row_ids_of_their_own() {
    local(async {
        let setup = "CREATE TABLE h (k VARCHAR(9) PRIMARY KEY, n INT); CREATE TABLE l (n INT); \
             CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, n INT); INSERT INTO l VALUES (0)";
        let fixture = Fixture::new("hidden", setup).await;
        let (mut a, mut b, mut c) = (fixture.session(), fixture.session(), fixture.session());
        ok(run(&mut a, "BEGIN; INSERT INTO l VALUES (1), (2); INSERT INTO h VALUES ('x', 1)").await);
        ok(run(&mut a, "INSERT INTO a (n) VALUES (1)").await);
        ok(run(&mut b, "BEGIN; INSERT INTO l VALUES (3); INSERT INTO h VALUES ('y', 1); INSERT INTO a (n) VALUES (2)")
            .await);
        ok(run(&mut c, "INSERT INTO l VALUES (4); INSERT INTO h VALUES ('z', 1); INSERT INTO a (n) VALUES (3)").await);
        let mut waiting = fixture.start(c, "INSERT INTO h VALUES ('X ', 2)");
        assert!(waiting.waits().await, "the keys are equal, if not the same");
        ok(run(&mut b, "DELETE FROM a WHERE id = 2; INSERT INTO a (n) VALUES (4); COMMIT").await);
        ok(run(&mut a, "COMMIT").await);
        let (mut c, outcome) = waiting.end().await;
        assert_eq!(outcome, Err(1062));
        assert_eq!(ok(run(&mut c, "SELECT n FROM l ORDER BY n").await), [0, 1, 2, 3, 4]);
        assert_eq!(ok(run(&mut c, "SELECT COUNT(*) FROM h").await), [3]);
        assert_eq!(ok(run(&mut c, "SELECT id, n FROM a ORDER BY id").await), [1, 1, 3, 3, 4, 4]);
        ok(run(&mut c, "BEGIN; DELETE FROM a WHERE id = 4; COMMIT; INSERT INTO a (n) VALUES (5)").await);
        assert_eq!(ok(run(&mut c, "SELECT MAX(id) FROM a").await), [5]);
    });
}

#[test]
fn snapshots() {
    local(async {
        let fixture = Fixture::new("snapshots", TABLE).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        // The first read takes the snapshot; a write moves it forward, a read does not.
        assert_eq!(ok(run(&mut a, "BEGIN; SELECT n FROM t WHERE id = 1").await), [10]);
        ok(run(&mut b, "UPDATE t SET n = n + 1").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM t WHERE id = 1").await), [10]);
        ok(run(&mut a, "UPDATE t SET n = n + 1 WHERE id = 1").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM t ORDER BY id").await), [12, 21, 31]);
        ok(run(&mut b, "UPDATE t SET n = n + 1 WHERE id = 2").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM t ORDER BY id").await), [12, 21, 31]);
        ok(run(&mut a, "COMMIT").await);
        // READ COMMITTED sees each commit, and its own changes.
        ok(run(&mut a, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN").await);
        ok(run(&mut a, "UPDATE t SET n = 0 WHERE id = 1").await);
        ok(run(&mut b, "UPDATE t SET n = 5 WHERE id = 2").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM t ORDER BY id").await), [0, 5, 31]);
        ok(run(&mut a, "ROLLBACK").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM t ORDER BY id").await), [12, 5, 31]);
    });
}

#[test]
fn large_transactions_become_the_writer() {
    local(async {
        let fixture = Fixture::new("large", TABLE).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        ok(run(&mut b, "SET innodb_lock_wait_timeout = 0").await);
        ok(run(&mut a, "BEGIN; UPDATE t SET n = 11 WHERE id = 1; SAVEPOINT s").await);
        for first in [100, 600] {
            let rows: Vec<String> = (first..first + 500).map(|id| format!("({id}, {id}, {id})")).collect();
            ok(run(&mut b, "UPDATE t SET n = n + 1 WHERE id = 3").await);
            ok(run(&mut a, &format!("INSERT INTO t VALUES {}", rows.join(", "))).await);
        }
        assert_eq!(run(&mut b, "UPDATE t SET n = n + 1 WHERE id = 3").await, Err(1205), "a real writer by now");
        ok(run(&mut a, "INSERT INTO t VALUES (2000, 0, 2000)").await);
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*), MIN(n) FROM t").await), [1004, 0]);
        ok(run(&mut a, "ROLLBACK TO s").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM t ORDER BY id").await), [11, 20, 32]);
        ok(run(&mut a, "COMMIT").await);
        ok(run(&mut b, "UPDATE t SET n = n + 1 WHERE id = 3").await);
        assert_eq!(ok(run(&mut b, "SELECT n FROM t ORDER BY id").await), [11, 20, 33]);
        // COMMIT of others fails if it stays for long, and can be repeated.
        let mut c = fixture.session();
        ok(run(&mut c, "SET innodb_lock_wait_timeout = 0; BEGIN; UPDATE t SET n = n + 1 WHERE id = 2").await);
        ok(run(&mut a, ALONE).await);
        assert_eq!(run(&mut c, "COMMIT").await, Err(1205));
        assert!(c.in_transaction());
        ok(run(&mut a, "COMMIT").await);
        ok(run(&mut c, "COMMIT").await);
        assert_eq!(ok(run(&mut b, "SELECT n FROM t ORDER BY id").await), [11, 21, 33]);
        // One that others wait for, and that needs what one of them has: the younger goes.
        let mut c = fixture.session();
        ok(run(&mut c, "BEGIN; UPDATE t SET n = 0 WHERE id = 3").await);
        ok(run(&mut a, ALONE).await);
        let mut waiting = fixture.start(c, "COMMIT");
        assert!(waiting.waits().await);
        assert_eq!(run(&mut a, "UPDATE t SET n = 1 WHERE id = 3").await, Err(1213));
        let (_, outcome) = waiting.end().await;
        ok(outcome);
        assert_eq!(ok(run(&mut b, "SELECT n FROM t WHERE id = 3").await), [0]);
    });
}

#[test]
fn large_values_and_many_locks_make_a_writer_too() {
    local(async {
        let fixture =
            Fixture::new("values", "CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB); INSERT INTO t VALUES (1, '')")
                .await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        ok(run(&mut b, "SET innodb_lock_wait_timeout = 0").await);
        let other = "INSERT INTO t VALUES (0, '') ON DUPLICATE KEY UPDATE b = CONCAT(b, '.')";
        ok(run(&mut a, "BEGIN; UPDATE t SET b = REPEAT('x', 3000000)").await);
        ok(run(&mut b, other).await);
        // With the savepoint it has to stay the writer.
        ok(run(&mut a, "UPDATE t SET b = REPEAT('y', 3000000) WHERE id = 1; SAVEPOINT s").await);
        assert_eq!(run(&mut b, other).await, Err(1205));
        ok(run(&mut a, "COMMIT").await);
        assert_eq!(ok(run(&mut b, "SELECT COUNT(*) FROM t WHERE b LIKE 'yyy%'").await), [1]);
        for rows in [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768] {
            ok(run(&mut a, &format!("INSERT INTO t SELECT id + {rows}, '' FROM t")).await);
        }
        ok(run(&mut a, "BEGIN; SELECT id FROM t WHERE id < 20000 FOR UPDATE").await);
        // Statistics of so many new rows are written, too.
        ok(run(&mut b, "SET innodb_lock_wait_timeout = 50; DELETE FROM t WHERE id = 20001").await);
        ok(run(&mut a, "SELECT id FROM t WHERE id < 20010 FOR UPDATE; UPDATE t SET b = 'z' WHERE id = 1; SAVEPOINT s")
            .await);
        ok(run(&mut b, "SET innodb_lock_wait_timeout = 0").await);
        assert_eq!(run(&mut b, "DELETE FROM t WHERE id = 20021").await, Err(1205));
        ok(run(&mut a, "COMMIT").await);
        ok(run(&mut b, "SET innodb_lock_wait_timeout = 50; DELETE FROM t WHERE id = 20021").await);
        // Without one it keeps nothing but its rows when others want to write.
        ok(run(&mut a, "BEGIN; SELECT id FROM t WHERE id < 20010 FOR UPDATE").await);
        ok(run(&mut b, "DELETE FROM t WHERE id = 20022").await);
        for id in [1, 20009] {
            let locked = format!("SET innodb_lock_wait_timeout = 0; DELETE FROM t WHERE id = {id}");
            assert_eq!(run(&mut b, &locked).await, Err(1205));
        }
        ok(run(&mut a, "COMMIT").await);
    });
}

#[test]
fn a_statement_that_is_ended_leaves_its_transaction_as_it_was() {
    local(async {
        let fixture = Fixture::new("ended", TABLE).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        ok(run(&mut a, "BEGIN; UPDATE t SET n = 11 WHERE id = 1; SAVEPOINT s; DELETE FROM t WHERE id = 2").await);
        // SQLite undoes more than the statement when it is interrupted.
        let slow = "DELETE FROM t WHERE id = 1 AND -1 = (SELECT COUNT(*) FROM t AS a, t AS b, t AS c, t AS d, t AS e, t AS f, t AS g, t AS h, t AS i, \
             t AS j, t AS k, t AS l, t AS m, t AS n, t AS o, t AS p, t AS q, t AS r, t AS s)";
        ok(run(&mut a, "INSERT INTO t SELECT id + 100, n, NULL FROM t; SET max_statement_time = 0.05").await);
        assert_eq!(run(&mut a, slow).await, Err(1969));
        ok(run(&mut b, "UPDATE t SET n = 31 WHERE id = 3").await);
        assert_eq!(ok(run(&mut a, "SET max_statement_time = 0; SELECT id FROM t ORDER BY id").await), [1, 3, 101, 103]);
        ok(run(&mut a, "ROLLBACK TO s; COMMIT").await);
        assert_eq!(ok(run(&mut b, "SELECT id FROM t ORDER BY id").await), [1, 2, 3]);
    });
}

#[test]
fn an_abandoned_transaction_gives_everything_back() {
    local(async {
        let fixture = Fixture::new("abandoned", TABLE).await;
        let mut a = fixture.session();
        ok(run(&mut a, "BEGIN; UPDATE t SET n = 0; INSERT INTO t VALUES (4, 0, 4)").await);
        let mut waiting = fixture.start(fixture.session(), "UPDATE t SET n = n + 1");
        assert!(waiting.waits().await);
        let gone = fixture.start(fixture.session(), "BEGIN; UPDATE t SET n = n + 5");
        drop(gone);
        drop(a);
        let (mut b, outcome) = waiting.end().await;
        ok(outcome);
        assert_eq!(ok(run(&mut b, "SELECT n FROM t ORDER BY id").await), [11, 21, 31]);
    });
}

#[test]
fn definitions_do_not_wait_for_transactions_that_come_later() {
    local(async {
        let setup = format!("{TABLE}; CREATE TABLE other (id INT PRIMARY KEY)");
        let fixture = Fixture::new("later-definitions", &setup).await;
        let mut a = fixture.session();
        for (number, later) in
            ["UPDATE t SET n = 22 WHERE id = 2", "SELECT n FROM t WHERE id = 2 FOR UPDATE"].iter().enumerate()
        {
            ok(run(&mut a, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1").await);
            let mut definition = fixture.start(fixture.session(), &format!("ALTER TABLE t ADD COLUMN x{number} INT"));
            assert!(definition.waits().await);
            let mut waiting = fixture.start(fixture.session(), &format!("BEGIN; {later}"));
            assert!(waiting.waits().await, "{later}");
            // Neither who has begun waits, nor who uses another table.
            ok(run(&mut a, "UPDATE t SET n = n + 1 WHERE id = 3").await);
            let (_, outcome) = fixture
                .start(fixture.session(), &format!("BEGIN; INSERT INTO other VALUES ({number}); COMMIT"))
                .end()
                .await;
            ok(outcome);
            ok(run(&mut a, "COMMIT").await);
            let (_, outcome) = waiting.end().await;
            ok(outcome);
            let (_, outcome) = definition.end().await;
            ok(outcome);
        }
        // One that gives up keeps nobody.
        let mut b = fixture.session();
        ok(run(&mut a, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1").await);
        assert_eq!(run(&mut b, "SET innodb_lock_wait_timeout = 0; ALTER TABLE t ADD COLUMN y INT").await, Err(1205));
        ok(run(&mut b, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 2; COMMIT").await);
    });
}

#[test]
fn definitions_wait_for_transactions_that_use_the_table() {
    local(async {
        let setup = format!("{TABLE}; CREATE TABLE other (id INT PRIMARY KEY)");
        let fixture = Fixture::new("definitions", &setup).await;
        let mut a = fixture.session();
        for (definition, left) in [
            ("ALTER TABLE t ADD COLUMN x INT DEFAULT 5", 2),
            ("ALTER TABLE t DROP COLUMN x, ADD INDEX (n)", 2),
            ("LOCK TABLES t WRITE", 2),
            ("RENAME TABLE t TO s, s TO t", 2),
            ("TRUNCATE TABLE t", 0),
            ("DROP TABLE t", 0),
        ] {
            ok(run(&mut a, "BEGIN; DELETE FROM t WHERE id > 1; INSERT INTO t (id, n) VALUES (7, 7)").await);
            // Other tables are nobody's concern.
            let (mut b, outcome) =
                fixture.start(fixture.session(), "CREATE TABLE more (a INT); DROP TABLE more").end().await;
            ok(outcome);
            ok(run(&mut b, "ALTER TABLE other ADD COLUMN a INT; ALTER TABLE other DROP COLUMN a").await);
            ok(run(&mut b, "SET innodb_lock_wait_timeout = 0").await);
            assert_eq!(run(&mut b, definition).await, Err(1205), "{definition}");
            ok(run(&mut b, "SET innodb_lock_wait_timeout = 50").await);
            let mut waiting = fixture.start(b, definition);
            assert!(waiting.waits().await, "{definition}");
            assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM t").await), [2]);
            ok(run(&mut a, "UPDATE t SET n = 8 WHERE id = 7; COMMIT").await);
            let (mut b, outcome) = waiting.end().await;
            ok(outcome);
            if definition != "DROP TABLE t" {
                assert_eq!(ok(run(&mut b, "SELECT COUNT(*) FROM t").await), [left], "{definition}");
                ok(run(&mut b, "UNLOCK TABLES").await);
                ok(run(&mut a, "DELETE FROM t; INSERT INTO t (id, n, u) VALUES (1, 10, 1), (2, 20, 2)").await);
            }
        }
    });
}

#[test]
fn many_threads_lose_nothing() {
    const THREADS: u64 = 4;
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (0, 100), (1, 100), (2, 100), (3, 100), (4, 100); \
         CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, moved INT)";
    local(async {
        let fixture = Fixture::new("threads", setup).await;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let engine = fixture.engine.clone().unwrap();
                std::thread::spawn(move || {
                    local(async move {
                        let tasks: Vec<_> = (0..3)
                            .map(|task| {
                                let session = engine.session("test").unwrap();
                                tokio::task::spawn_local(transfers(session, thread * 3 + task))
                            })
                            .collect();
                        for task in tasks {
                            task.await.unwrap();
                        }
                    });
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let mut session = fixture.session();
        assert_eq!(ok(run(&mut session, "SELECT SUM(n) FROM t").await), [500 + 12 * 8]);
        assert_eq!(ok(run(&mut session, "SELECT COUNT(*) FROM log").await), [12 * 40]);
        fixture.engine.as_ref().unwrap().check("test").await.unwrap();
    });
}

/// Moves something between two rows, again until it succeeds; and adds to a row now and then.
async fn transfers(mut session: Session, number: u64) {
    for round in 0..40 {
        let (from, to) = ((number + round) % 5, (number * 3 + round * 7 + 1) % 5);
        if round % 5 == 0 {
            ok(run(&mut session, &format!("UPDATE t SET n = n + 1 WHERE id = {to}")).await);
        }
        loop {
            let moves = format!(
                "BEGIN; SELECT n FROM t WHERE id = {from}; UPDATE t SET n = n - 1 WHERE id = {from}; \
                 UPDATE t SET n = n + 1 WHERE id = {to}; INSERT INTO log (moved) VALUES ({number}); COMMIT"
            );
            match run(&mut session, &moves).await {
                Ok(_) => break,
                Err(1213) => assert!(!session.in_transaction()),
                Err(code) => panic!("{code}"),
            }
        }
    }
}
