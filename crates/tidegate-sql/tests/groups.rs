//! Single writing statements of one thread share their commits, and nobody can tell but by the clock.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use tidegate_rows::{Column, Execute, Flow, QueryError, Row, Sink, SinkClosed, Statement, Summary, Value};
use tidegate_sql::{Durability, Engine, EngineOptions, Session};
use tokio::task::LocalSet;

/// Keeps the numbers of a result and its last summary.
#[derive(Default)]
struct Numbers(Vec<i64>, Summary);

impl Sink for Numbers {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        row.each(|_, value| {
            if let Value::Int(value) = value {
                self.0.push(value);
            }
        });
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        self.1 = summary.clone();
    }
    fn poll_ready(&mut self, _: &mut Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

struct Fixture {
    engine: Option<Engine>,
    path: std::path::PathBuf,
}

impl Fixture {
    /// A schema `test` with the tables that `setup` makes.
    async fn new(name: &str, durability: Durability, setup: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-sql-group-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let mut options = EngineOptions::new(&path);
        options.durability = durability;
        let engine = Engine::open(options).unwrap();
        let mut session = engine.session("").unwrap();
        run(&mut session, &format!("CREATE DATABASE test; USE test; {setup}")).await.unwrap();
        Self { engine: Some(engine), path }
    }

    fn session(&self) -> Session {
        self.engine.as_ref().unwrap().session("test").unwrap()
    }

    /// How long sessions wait from now on.
    fn wait_for_locks(&self, limit: Duration) {
        let mut options = EngineOptions::new(&self.path);
        options.lock_wait_timeout = limit;
        self.engine.as_ref().unwrap().configure(options).unwrap();
    }

    /// Commits that have changed a table.
    fn commits(&self, table: &str) -> u64 {
        self.engine.as_ref().unwrap().table_version("test", table).unwrap()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.engine = None;
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

async fn run(session: &mut Session, sql: &str) -> Result<Numbers, u16> {
    let mut numbers = Numbers::default();
    match session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut numbers).await {
        Ok(()) => Ok(numbers),
        Err(QueryError::Server(error)) => Err(error.code),
        Err(error) => panic!("{sql}: {error}"),
    }
}

/// Runs statements at the same time, each in a session of its own; their results in order.
async fn together(fixture: &Fixture, statements: Vec<String>) -> Vec<Result<Numbers, u16>> {
    let local = LocalSet::new();
    let running: Vec<_> = statements
        .into_iter()
        .map(|sql| {
            let mut session = fixture.session();
            local.spawn_local(async move { run(&mut session, &sql).await })
        })
        .collect();
    local.await;
    let mut results = Vec::new();
    for task in running {
        results.push(task.await.unwrap());
    }
    results
}

async fn numbers(fixture: &Fixture, sql: &str) -> Vec<i64> {
    run(&mut fixture.session(), sql).await.unwrap().0
}

async fn many_share_a_commit(durability: Durability, name: &str) {
    let setup = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT UNIQUE)";
    let fixture = Fixture::new(name, durability, setup).await;
    let inserts = || (1..=50).map(|n| format!("INSERT INTO t (n) VALUES ({n})")).collect::<Vec<_>>();
    let before = fixture.commits("t");
    let results = together(&fixture, inserts()).await;
    let mut ids: Vec<u64> = results.into_iter().map(|result| result.unwrap().1.insert_id).collect();
    let commits = fixture.commits("t") - before;
    assert!(commits <= 5, "{commits} commits for 50 statements");
    ids.sort_unstable();
    assert_eq!(ids, (1..=50).collect::<Vec<_>>());
    // The same again: each fails alone.
    let results = together(&fixture, [inserts(), vec!["INSERT INTO t (n) VALUES (51)".into()]].concat()).await;
    for (number, result) in (1..).zip(results) {
        assert_eq!(result.err(), (number <= 50).then_some(1062), "statement {number}");
    }
    assert_eq!(numbers(&fixture, "SELECT COUNT(*), SUM(n) FROM t").await[0], 51);
}

#[tokio::test]
async fn many_statements_share_a_commit() {
    many_share_a_commit(Durability::Full, "full").await;
}

#[tokio::test]
async fn many_statements_share_a_commit_that_nobody_waits_for() {
    many_share_a_commit(Durability::Normal, "normal").await;
}

#[tokio::test]
async fn a_failing_statement_undoes_itself_alone() {
    let setup = "CREATE TABLE t (n INT PRIMARY KEY, m INT, CHECK (m < 100)); INSERT INTO t VALUES (10, 0), (20, 0); \
        CREATE TABLE child (n INT, FOREIGN KEY (n) REFERENCES t (n))";
    let fixture = Fixture::new("alone", Durability::Full, setup).await;
    let statements = [
        ("INSERT INTO t VALUES (1, 1)", 0),
        // Its first row is good.
        ("INSERT INTO t VALUES (2, 1), (20, 1)", 1062),
        ("INSERT INTO t VALUES (3, 100)", 4025),
        ("REPLACE INTO t VALUES (20, 7), (21, 100)", 4025),
        ("INSERT INTO t VALUES (10, 1) ON DUPLICATE KEY UPDATE m = m + 5", 0),
        ("UPDATE t SET n = n + 10 WHERE n = 10", 1062),
        ("UPDATE t SET m = 9 WHERE n = 20", 0),
        ("INSERT INTO child VALUES (99)", 1452),
        ("INSERT INTO child VALUES (1)", 0),
        ("DELETE FROM t WHERE n = 1", 1451),
    ];
    // The second time all kinds are known to be brief, and join.
    for _ in 0..2 {
        let results = together(&fixture, statements.iter().map(|(sql, _)| (*sql).to_owned()).collect()).await;
        for ((sql, code), result) in statements.iter().zip(results) {
            assert_eq!(result.err().unwrap_or(0), *code, "{sql}");
        }
        assert_eq!(numbers(&fixture, "SELECT n, m FROM t ORDER BY n").await, [1, 1, 10, 5, 20, 9]);
        run(&mut fixture.session(), "DELETE FROM child; DELETE FROM t WHERE n = 1; UPDATE t SET m = 0").await.unwrap();
    }
}

/// Polls a future once.
fn poll_once(future: std::pin::Pin<&mut impl Future>) {
    assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[tokio::test]
async fn nobody_sees_a_group_before_its_commit() {
    let fixture = Fixture::new("unseen", Durability::Full, "CREATE TABLE t (n INT PRIMARY KEY)").await;
    let (mut first, mut second) = (fixture.session(), fixture.session());
    let mut opener = Box::pin(run(&mut first, "INSERT INTO t VALUES (1)"));
    poll_once(opener.as_mut());
    let mut member = pin!(run(&mut second, "INSERT INTO t VALUES (2)"));
    poll_once(member.as_mut());
    // The query runs to its end within one poll, before the loop turns.
    assert_eq!(numbers(&fixture, "SELECT COUNT(*) FROM t").await, [0]);
    // Whoever has opened the group goes: it commits for the other.
    drop(opener);
    assert_eq!(numbers(&fixture, "SELECT COUNT(*) FROM t").await, [2]);
    assert!(member.await.is_ok());
}

#[tokio::test]
async fn members_that_go_do_not_matter() {
    let fixture = Fixture::new("gone", Durability::Full, "CREATE TABLE t (n INT PRIMARY KEY)").await;
    let mut sessions: Vec<_> = (0..6).map(|_| fixture.session()).collect();
    let mut running: Vec<_> = sessions
        .iter_mut()
        .zip(1..)
        .map(|(session, n)| Box::pin(async move { run(session, &format!("INSERT INTO t VALUES ({n})")).await }))
        .collect();
    for statement in &mut running {
        poll_once(statement.as_mut());
    }
    let last = running.pop().unwrap();
    drop(running.remove(2));
    let opener = running.remove(0);
    drop(running);
    assert!(opener.await.is_ok());
    assert!(last.await.is_ok());
    assert_eq!(numbers(&fixture, "SELECT COUNT(*) FROM t").await, [6]);
}

#[tokio::test]
async fn groups_and_transactions_wait_for_each_other() {
    let fixture = Fixture::new("wait", Durability::Full, "CREATE TABLE t (n INT PRIMARY KEY)").await;
    let mut transaction = fixture.session();
    // Who locks what cannot be told row by row is the schema's only writer.
    run(
        &mut transaction,
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN; SELECT COUNT(*) FROM t; INSERT INTO t VALUES (100)",
    )
    .await
    .unwrap();
    let inserts = |from: i64| (from..from + 20).map(|n| format!("INSERT INTO t VALUES ({n})")).collect::<Vec<_>>();
    let before = fixture.commits("t");
    let late = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        run(&mut transaction, "COMMIT").await
    };
    let (results, committed) = tokio::join!(together(&fixture, inserts(1)), late);
    committed.unwrap();
    assert!(results.iter().all(Result::is_ok));
    let commits = fixture.commits("t") - before;
    assert!(commits <= 4, "{commits} commits for a transaction and 20 statements");
    // One that never ends is waited for as long as lock_wait_timeout says.
    fixture.wait_for_locks(Duration::from_millis(300));
    run(
        &mut transaction,
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN; SELECT COUNT(*) FROM t; INSERT INTO t VALUES (101)",
    )
    .await
    .unwrap();
    for result in together(&fixture, inserts(21)).await {
        assert_eq!(result.err(), Some(1205));
    }
    drop(transaction);
    fixture.wait_for_locks(EngineOptions::new(&fixture.path).lock_wait_timeout);
    assert!(together(&fixture, inserts(21)).await.iter().all(Result::is_ok));
    assert_eq!(numbers(&fixture, "SELECT COUNT(*) FROM t").await, [41]);
}

#[tokio::test]
async fn a_statement_that_waits_keeps_its_group_open() {
    let fixture = Fixture::new("slow", Durability::Full, "CREATE TABLE t (n INT PRIMARY KEY, m INT)").await;
    // Brief at first, and not the last time.
    let slow = |n: i64, seconds: f64| format!("INSERT INTO t VALUES ({n}, sleep({seconds}))");
    run(&mut fixture.session(), &slow(1, 0.0)).await.unwrap();
    let results = together(&fixture, vec![slow(2, 0.05), "INSERT INTO t VALUES (3, 3)".into()]).await;
    assert!(results.iter().all(Result::is_ok), "{:?}", results.iter().map(|r| r.as_ref().err()).collect::<Vec<_>>());
    // It has to be brief again to join a group.
    run(&mut fixture.session(), &slow(7, 0.0)).await.unwrap();
    let before = fixture.commits("t");
    let statements = vec!["INSERT INTO t VALUES (4, 4)".into(), slow(5, 0.05), "INSERT INTO t VALUES (6, 6)".into()];
    assert!(together(&fixture, statements).await.iter().all(Result::is_ok));
    // The commit of the first is put off until the second has run; nobody joins meanwhile.
    assert_eq!(fixture.commits("t") - before, 2);
    assert_eq!(numbers(&fixture, "SELECT COUNT(*) FROM t").await, [7]);
}

#[tokio::test]
async fn a_statement_that_fails_when_the_commit_is_due_leaves_nobody_waiting() {
    let fixture = Fixture::new("fails", Durability::Full, "CREATE TABLE t (n INT PRIMARY KEY, m INT)").await;
    run(&mut fixture.session(), "INSERT INTO t VALUES (1, 1)").await.unwrap();
    for (first, opener_leaves) in [(10, false), (20, true)] {
        // Brief, since it did not wait when it ran last.
        let waits = |n: i64, m: i64| format!("INSERT INTO t VALUES ({n}, GET_LOCK('w', 20)), ({m}, 1)");
        run(&mut fixture.session(), &waits(first, first + 1)).await.unwrap();
        let mut holder = fixture.session();
        run(&mut holder, "SELECT GET_LOCK('w', 0)").await.unwrap();
        let insert = |n: i64| format!("INSERT INTO t VALUES ({n}, 0)");
        let together = async {
            // They run when they are woken, and at no other time.
            let running = [insert(first + 2), insert(first + 3), waits(first + 4, 1)].map(|sql| {
                let mut session = fixture.session();
                tokio::task::spawn_local(async move { run(&mut session, &sql).await.err() })
            });
            let turn = async || {
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
            };
            // The commit is due, and done when the one that runs has failed.
            turn().await;
            let [opener, member, failing] = running;
            if opener_leaves {
                opener.abort();
                turn().await;
            }
            run(&mut holder, "SELECT RELEASE_LOCK('w')").await.unwrap();
            assert_eq!(failing.await.unwrap(), Some(1062));
            assert_eq!(member.await.unwrap(), None);
            assert!(opener_leaves || opener.await.unwrap().is_none());
        };
        let local = LocalSet::new();
        tokio::time::timeout(Duration::from_secs(20), local.run_until(together)).await.expect("they wait for good");
    }
    assert_eq!(numbers(&fixture, "SELECT COUNT(*) FROM t").await, [9]);
}

#[tokio::test]
async fn definitions_change_between_groups() {
    let fixture = Fixture::new("ddl", Durability::Full, "CREATE TABLE t (n INT PRIMARY KEY)").await;
    let mut statements: Vec<String> = (1..=10).map(|n| format!("INSERT INTO t (n) VALUES ({n})")).collect();
    statements.insert(5, "ALTER TABLE t ADD COLUMN m INT DEFAULT 7".into());
    statements.push("INSERT INTO t (n) VALUES (11); INSERT INTO t (n) VALUES (12)".into());
    for result in together(&fixture, statements).await {
        assert_eq!(result.err(), None);
    }
    let rows = numbers(&fixture, "SELECT COUNT(*), COUNT(m) FROM t").await;
    assert_eq!(rows[0], rows[1]);
}

#[test]
fn threads_take_turns() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let setup = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT)";
    let fixture = runtime().block_on(Fixture::new("threads", Durability::Full, setup));
    let before = fixture.commits("t");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                runtime().block_on(async {
                    for _ in 0..10 {
                        let inserts = (0..20).map(|n| format!("INSERT INTO t (n) VALUES ({n})")).collect();
                        assert!(together(&fixture, inserts).await.iter().all(Result::is_ok));
                    }
                });
            });
        }
    });
    let rows = runtime().block_on(numbers(&fixture, "SELECT COUNT(*), COUNT(DISTINCT id) FROM t"));
    assert_eq!(rows, [600, 600]);
    let commits = fixture.commits("t") - before;
    assert!(commits < 200, "{commits} commits for 600 statements");
}
