//! The engine from outside: schemas, transactions, waiting, errors.

mod clients;
mod commits;
mod definitions;
mod directory;
mod events;
mod files;
mod fulltext;
mod functions;
mod information;
mod json_table;
mod keys;
mod plans;
mod prefixes;
mod procedures;
mod sequences;
mod table;
mod transactions;
mod triggers;
mod views;

use std::time::Duration;

use tidegate_rows::{
    Column, ColumnType, Execute, Flow, Param, QueryError, Row, Sink, SinkClosed, Statement, Summary, Value,
};
use tidegate_sql::{Durability, Engine, EngineOptions, OpenError, Session};

/// Collects a result as text.
#[derive(Default)]
struct Rows {
    rows: Vec<Vec<String>>,
    summaries: Vec<Summary>,
}

impl Sink for Rows {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.rows.push(Vec::new());
        row.each(|_, value| {
            let text = match value {
                Value::Null => "NULL".into(),
                Value::Int(value) => value.to_string(),
                Value::Uint(value) => value.to_string(),
                Value::Float(value) => value.to_string(),
                Value::Double(value) => {
                    let mut text = Vec::new();
                    tidegate_rows::number::append_double(&mut text, value);
                    String::from_utf8(text).unwrap()
                }
                Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            };
            self.rows.last_mut().unwrap().push(text);
        });
        // Full after each row: the statement has to wait every time.
        Flow::Full
    }
    fn end_result(&mut self, summary: &Summary) {
        self.summaries.push(summary.clone());
    }
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// A fresh engine in a directory of its own, removed at the end.
struct Fixture {
    engine: Option<Engine>,
    path: std::path::PathBuf,
}

impl Fixture {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-sql-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self { engine: Some(Engine::open(EngineOptions::new(&path)).unwrap()), path }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    /// Another engine in the same directory, with other options.
    fn open_again(&mut self, set: impl FnOnce(&mut EngineOptions)) {
        self.engine = None;
        let mut options = EngineOptions::new(&self.path);
        set(&mut options);
        self.engine = Some(loop {
            match Engine::open(options.clone()) {
                // A thread that is about to end may hold the engine of before.
                Err(OpenError::Locked { .. }) => std::thread::sleep(Duration::from_millis(1)),
                opened => break opened.unwrap(),
            }
        });
    }

    async fn session(&self) -> Session {
        let mut session = self.engine().session("").unwrap();
        run(&mut session, "CREATE DATABASE IF NOT EXISTS test; USE test").await;
        session
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.engine = None;
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

async fn try_run(session: &mut Session, sql: &str) -> Result<Rows, QueryError> {
    let mut rows = Rows::default();
    session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut rows).await?;
    Ok(rows)
}

async fn run(session: &mut Session, sql: &str) -> Rows {
    try_run(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

async fn one(session: &mut Session, sql: &str) -> String {
    run(session, sql).await.rows.iter().map(|row| row.join(",")).collect::<Vec<_>>().join(";")
}

async fn code(session: &mut Session, sql: &str) -> u16 {
    match try_run(session, sql).await {
        Err(QueryError::Server(error)) => error.code,
        Err(error) => panic!("{sql}: {error}"),
        Ok(_) => 0,
    }
}

/// Checks that a statement is kept out by a lock; without waiting for it.
async fn check_locked_out(session: &mut Session, sql: &str) {
    run(session, "SET innodb_lock_wait_timeout = 0").await;
    assert_eq!(code(session, sql).await, 1205, "{sql}");
    run(session, "SET innodb_lock_wait_timeout = 50").await;
}

#[tokio::test]
async fn a_chain_of_operators_has_a_limit() {
    let fixture = Fixture::new("chain");
    let mut session = fixture.session().await;
    let sum = |count: usize| format!("SELECT {}", vec!["1"; count].join("+"));
    assert_eq!(one(&mut session, &sum(501)).await, "501");
    assert_eq!(code(&mut session, &sum(502)).await, 1235);
}

#[tokio::test]
async fn schemas_need_create_database() {
    let fixture = Fixture::new("schemas");
    let Err(error) = fixture.engine().session("nosuch") else { panic!("there is no such schema") };
    assert_eq!(error.code, 1049);
    let mut session = fixture.session().await;
    assert_eq!(code(&mut session, "CREATE DATABASE test").await, 1007);
    assert_eq!(code(&mut session, "USE nosuch").await, 1049);
    run(&mut session, "CREATE DATABASE `../a-b`; USE `../a-b`; CREATE TABLE t (a INT); DROP DATABASE `../a-b`").await;
    assert_eq!(code(&mut session, "SELECT * FROM t").await, 1046);
    assert!(matches!(Engine::open(EngineOptions::new(&fixture.path)), Err(OpenError::Locked { .. })));
}

#[tokio::test]
async fn a_dropped_schema_leaves_nothing_to_its_successor() {
    let fixture = Fixture::new("successor");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (n INT, s VARCHAR(200)); INSERT INTO t SELECT 1, REPEAT('x', 200)").await;
    let engine = fixture.engine();
    let read = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        // Dropped by a panic too: the thread below then ends.
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let read = &read;
        // Another thread keeps a connection to the file while it is removed.
        scope.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut other = engine.session("test").unwrap();
                assert_eq!(one(&mut other, "SELECT n FROM t").await, "1");
            });
            read.wait();
            let _ = wait.recv();
        });
        read.wait();
        scope
            .spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut session = engine.session("").unwrap();
                    run(&mut session, "DROP DATABASE test; CREATE DATABASE test; USE test").await;
                    run(&mut session, "CREATE TABLE u (n INT); INSERT INTO u VALUES (7)").await;
                    assert_eq!(one(&mut session, "SELECT n FROM u").await, "7");
                    assert_eq!(code(&mut session, "SELECT n FROM t").await, 1146);
                });
            })
            .join()
            .unwrap_or_else(|_| panic!("the new schema does not work"));
        drop(done);
    });
    let mut session = engine.session("test").unwrap();
    assert_eq!(one(&mut session, "SELECT n FROM u").await, "7");
}

#[tokio::test]
async fn rows_survive_closing() {
    let mut fixture = Fixture::new("reopen");
    {
        let mut session = fixture.session().await;
        run(&mut session, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, d DECIMAL(30,10), s VARCHAR(10))").await;
        run(&mut session, "INSERT INTO t (d, s) VALUES (12345678901234567890.0123456789, 'x'), (-0.5, 'é')").await;
        run(&mut session, "DELETE FROM t WHERE id = 2").await;
    }
    fixture.engine = None;
    fixture.engine = Some(Engine::open(EngineOptions::new(&fixture.path)).unwrap());
    let mut session = fixture.engine().session("test").unwrap();
    assert_eq!(one(&mut session, "SELECT * FROM t").await, "1,12345678901234567890.0123456789,x");
    let inserted = run(&mut session, "INSERT INTO t (s) VALUES ('new')").await;
    assert_eq!(inserted.summaries[0].insert_id, 3, "a deleted value is not given twice");
    let inserted = run(&mut session, "INSERT INTO t (id, s) VALUES (-999, 'below')").await;
    assert_eq!(inserted.summaries[0].insert_id.cast_signed(), -999, "as MariaDB tells it");
    assert_eq!(one(&mut session, "SELECT LAST_INSERT_ID()").await, "3");
    let inserted = run(&mut session, "INSERT INTO t (s) VALUES ('next')").await;
    assert_eq!(inserted.summaries[0].insert_id, 4);
}

#[tokio::test]
async fn years_of_two_digits_are_shown_so() {
    let fixture = Fixture::new("years");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE y (t YEAR(2) DEFAULT 99, f YEAR(3))").await;
    run(&mut session, "INSERT INTO y VALUES ('2010', 2010), (80, 80), (0, 0)").await;
    run(&mut session, "INSERT INTO y (f) VALUES (1)").await;
    let rows = run(&mut session, "SELECT t, f FROM y ORDER BY t").await;
    assert_eq!(rows.rows, [["00", "0000"], ["80", "1980"], ["99", "2001"], ["10", "2010"]]);
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM y WHERE t IN (10, 1980)").await, "2");
}

#[tokio::test]
async fn a_batch_has_several_results() {
    let fixture = Fixture::new("batch");
    let mut session = fixture.session().await;
    let rows = run(&mut session, "SELECT 1; SELECT 2 ; -- end\n").await;
    assert_eq!(rows.rows, [["1"], ["2"]]);
    assert!(rows.summaries[0].more_results);
    assert!(!rows.summaries[1].more_results);
    assert_eq!(code(&mut session, "").await, 1065);
}

#[tokio::test]
async fn parameters_are_data() {
    let fixture = Fixture::new("params");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT, s VARCHAR(100))").await;
    let evil = "x'); DROP TABLE t; -- \0\\";
    let params = [Param::Int(7), Param::Bytes(evil.as_bytes().to_vec().into())];
    let insert = Statement { sql: b"INSERT INTO t VALUES (?, ?)", params: &params };
    for _ in 0..2 {
        session.execute(insert, &mut Rows::default()).await.unwrap();
    }
    let mut rows = Rows::default();
    let select = Statement { sql: b"SELECT a, s FROM t WHERE s = ?", params: &params[1..] };
    session.execute(select, &mut rows).await.unwrap();
    assert_eq!(rows.rows, [["7", evil], ["7", evil]]);
    assert_eq!(code(&mut session, "SELECT ?").await, 1210);
}

#[tokio::test]
async fn statements_without_rows_take_parameters() {
    let fixture = Fixture::new("set-params");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT, s VARCHAR(100)); INSERT INTO t VALUES (7, 'seven')").await;
    let text = |text: &str| Param::Bytes(text.as_bytes().to_vec().into());
    let day = Param::Typed(ColumnType::Date, "2024-02-29".as_bytes().into());
    for (sql, params, shown, expected) in [
        ("SET @x := ?", vec![Param::Int(-5)], "@x, @x + 1", "-5,-4"),
        ("SET @x := ?", vec![Param::Uint(u64::MAX)], "@x", "18446744073709551615"),
        ("SET @x := ?", vec![text("it's ?")], "@x, CONCAT(@x, '!')", "it's ?,it's ?!"),
        ("SET @x := ?", vec![Param::Null], "@x IS NULL", "1"),
        ("SET @x := ?", vec![Param::Double(2.5)], "@x * 2", "5"),
        ("SET @x := ?", vec![day], "@x", "2024-02-29"),
        ("SET @x = ?, @y = CONCAT(?, '?', ?)", vec![Param::Int(1), text("a"), text("b")], "@x, @y", "1,a?b"),
        ("SET @x = (SELECT s FROM t WHERE a = ?), autocommit = ?", vec![Param::Int(7), Param::Int(1)], "@x", "seven"),
        ("SET SESSION group_concat_max_len = ?", vec![Param::Int(77)], "@@group_concat_max_len", "77"),
        ("DO @x := ? * ?", vec![Param::Int(6), Param::Int(7)], "@x", "42"),
        ("SELECT s, ? FROM t WHERE a = ? INTO @x, @y", vec![text("q"), Param::Int(7)], "@x, @y", "seven,q"),
        ("SET STATEMENT max_statement_time = ? FOR DO @x := ?", vec![Param::Int(9), Param::Int(3)], "@x", "3"),
    ] {
        let described = session.describe(sql.as_bytes()).await.unwrap();
        assert_eq!((described.params, described.columns.len()), (params.len(), 0), "{sql}");
        session.execute(Statement { sql: sql.as_bytes(), params: &params }, &mut Rows::default()).await.unwrap();
        assert_eq!(one(&mut session, &format!("SELECT {shown}")).await, expected, "{sql}");
    }
    let sql = b"SHOW COLUMNS FROM t WHERE Field = ?";
    assert_eq!(session.describe(sql).await.unwrap().columns.len(), 6);
    let mut rows = Rows::default();
    session.execute(Statement { sql, params: &[text("s")] }, &mut rows).await.unwrap();
    assert_eq!(rows.rows.len(), 1);
    assert_eq!(rows.rows[0][..2], ["s", "varchar(100)"]);
    for params in [vec![], vec![Param::Int(1), Param::Int(2)]] {
        let set = session.execute(Statement { sql: b"SET @x := ?", params: &params }, &mut Rows::default()).await;
        assert!(matches!(set, Err(QueryError::Server(error)) if error.code == 1210));
    }
}

#[tokio::test]
async fn parameters_that_are_moments_are_no_texts() {
    let fixture = Fixture::new("moments");
    let mut session = fixture.session().await;
    let typed = |kind, text: &'static str| Param::Typed(kind, text.as_bytes().into());
    let date = typed(ColumnType::Date, "2024-01-31");
    let moment = typed(ColumnType::Datetime, "2024-02-29 10:11:12.500000");
    let time = typed(ColumnType::Time, "-10:11:12");
    let number = typed(ColumnType::NewDecimal, "1.50");
    run(&mut session, "CREATE TABLE t (i BIGINT, v VARCHAR(40), da DATE, ti TIME, de DECIMAL(20,3))").await;
    for (sql, params, expected) in [
        ("SELECT ? + 0, CONCAT(?)", vec![date.clone(), date.clone()], vec!["20240131", "2024-01-31"]),
        (
            "SELECT ? + 0, CONCAT(?)",
            vec![moment.clone(), moment.clone()],
            vec!["20240229101112.500000", "2024-02-29 10:11:12.500000"],
        ),
        ("SELECT ? + 0, HOUR(?)", vec![time.clone(), time.clone()], vec!["-101112", "10"]),
        ("SELECT ?, ? < ?", vec![number.clone(), number.clone(), Param::Bytes("10".into())], vec!["1.50", "1"]),
        // What is no date stays a text.
        ("SELECT ?", vec![typed(ColumnType::Date, "9999-99-99")], vec!["9999-99-99"]),
    ] {
        let mut rows = Rows::default();
        session.execute(Statement { sql: sql.as_bytes(), params: &params }, &mut rows).await.unwrap();
        assert_eq!(rows.rows, [expected], "{sql}");
    }
    for (columns, params) in [
        ("i, v, de", [date.clone(), date.clone(), date.clone()]),
        ("i, v, de", [time.clone(), time.clone(), number]),
        ("da, v, ti", [moment.clone(), moment.clone(), moment]),
    ] {
        let sql = format!("INSERT INTO t ({columns}) VALUES (?, ?, ?)");
        session.execute(Statement { sql: sql.as_bytes(), params: &params }, &mut Rows::default()).await.unwrap();
    }
    let rows = run(&mut session, "SELECT CONCAT_WS('|', i, v, da, ti, de) FROM t").await;
    let expected = [
        "20240131|2024-01-31|20240131.000",
        "-101112|-10:11:12|1.500",
        "2024-02-29 10:11:12.500000|2024-02-29|10:11:12",
    ];
    assert_eq!(rows.rows, expected.map(|row| [row]));
}

#[tokio::test]
async fn one_writer_waits_for_the_other() {
    let fixture = Fixture::new("writers");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 0)").await;
    run(&mut a, "BEGIN; UPDATE t SET n = 1").await;
    assert_eq!(one(&mut b, "SELECT n FROM t").await, "0", "readers see the last commit");
    check_locked_out(&mut b, "UPDATE t SET n = 2").await;
    let (waited, ()) = tokio::join!(run(&mut b, "UPDATE t SET n = n + 10"), async {
        run(&mut a, "COMMIT").await;
    });
    assert_eq!(waited.summaries[0].affected_rows, 1);
    assert_eq!(one(&mut b, "SELECT n FROM t").await, "11");
}

#[tokio::test]
async fn named_locks_wait_and_go_with_their_session() {
    let fixture = Fixture::new("named-locks");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    assert_eq!(one(&mut a, "SELECT GET_LOCK('cron', 0)").await, "1");
    assert_eq!(one(&mut b, "SELECT GET_LOCK('cron', 0)").await, "0");
    assert_eq!(one(&mut b, "SELECT GET_LOCK('cron', 0.05)").await, "0");
    assert_eq!(one(&mut b, "SELECT RELEASE_LOCK('cron')").await, "0");
    assert_eq!(one(&mut b, "SELECT IS_USED_LOCK('cron')").await, a.id().to_string());
    let (taken, ()) = tokio::join!(one(&mut b, "SELECT GET_LOCK('cron', 10)"), async {
        tokio::task::yield_now().await;
        assert_eq!(one(&mut a, "SELECT RELEASE_LOCK('cron')").await, "1");
    });
    assert_eq!(taken, "1");
    // A wait that is given up leaves nothing behind.
    drop(tokio::time::timeout(Duration::from_millis(20), one(&mut a, "SELECT GET_LOCK('cron', -1)")).await);
    drop(b);
    assert_eq!(one(&mut a, "SELECT IS_FREE_LOCK('cron')").await, "1");
    assert_eq!(code(&mut a, "SELECT GET_LOCK('', 0)").await, 3057);
}

#[tokio::test]
async fn locked_tables_keep_other_writers_out() {
    let fixture = Fixture::new("locked-tables");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (i INT PRIMARY KEY); CREATE TABLE u (i INT)").await;
    run(&mut a, "LOCK TABLES t WRITE, u READ").await;
    run(&mut a, "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); ALTER TABLE t ADD x INT").await;
    assert_eq!(code(&mut a, "INSERT INTO u VALUES (1)").await, 1099);
    check_locked_out(&mut b, "INSERT INTO t VALUES (3, 0)").await;
    check_locked_out(&mut b, "ALTER TABLE t ADD y INT").await;
    check_locked_out(&mut b, "LOCK TABLES u WRITE").await;
    run(&mut b, "LOCK TABLES u READ; UNLOCK TABLES").await;
    // Each statement has committed by itself.
    assert_eq!(one(&mut b, "SELECT COUNT(*) FROM t").await, "2");
    run(&mut a, "UNLOCK TABLES").await;
    run(&mut b, "INSERT INTO t VALUES (3, 0); LOCK TABLES t READ").await;
    assert_eq!(code(&mut b, "UPDATE t SET x = 1").await, 1099);
    assert_eq!(code(&mut b, "DELETE FROM u").await, 1100);
    check_locked_out(&mut a, "DELETE FROM t").await;
    // A transaction gives the locks back, as does the end of the session.
    run(&mut b, "BEGIN").await;
    run(&mut a, "DELETE FROM t WHERE i = 1; FLUSH TABLES WITH READ LOCK").await;
    assert_eq!(code(&mut a, "DELETE FROM t").await, 1099);
    drop(a);
    run(&mut b, "DELETE FROM t; COMMIT").await;
    assert_eq!(code(&mut b, "LOCK TABLES nosuch READ").await, 1146);
    // With autocommit off a commit keeps the locks, and UNLOCK TABLES commits.
    run(&mut b, "SET autocommit = 0; LOCK TABLES t WRITE; INSERT INTO t VALUES (7, 0); COMMIT").await;
    run(&mut b, "INSERT INTO t VALUES (8, 0)").await;
    let mut c = fixture.session().await;
    assert_eq!(one(&mut c, "SELECT COUNT(*) FROM t").await, "1");
    check_locked_out(&mut c, "DELETE FROM t").await;
    run(&mut b, "UNLOCK TABLES").await;
    run(&mut c, "DELETE FROM t WHERE i = 8").await;
}

#[tokio::test]
async fn locked_tables_leave_others_to_others() {
    let fixture = Fixture::new("locked-one-table");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (i INT PRIMARY KEY); CREATE TABLE u (i INT); CREATE VIEW v AS SELECT 1").await;
    run(&mut b, "INSERT INTO t VALUES (0)").await;
    run(&mut a, "LOCK TABLES t WRITE; INSERT INTO t VALUES (1)").await;
    // Alone, in groups, in transactions, and definitions.
    for _ in 0..2 {
        run(&mut b, "INSERT INTO u VALUES (1)").await;
        run(&mut b, "BEGIN; UPDATE u SET i = 2; COMMIT; CREATE TABLE w (i INT); DROP TABLE w").await;
        check_locked_out(&mut b, "INSERT INTO t VALUES (2)").await;
    }
    run(&mut a, "INSERT INTO t VALUES (3)").await;
    // Waiting for the table while the owner waits for this transaction would never end.
    run(&mut b, "BEGIN; INSERT INTO u VALUES (9)").await;
    assert_eq!(code(&mut b, "DELETE FROM t").await, 1213);
    assert!(!b.in_transaction());
    assert_eq!(one(&mut b, "SELECT COUNT(*) FROM u WHERE i = 9").await, "0");
    // Whoever waits goes on when the table is free, also where the owner just goes.
    let (deleted, ()) = tokio::join!(one(&mut b, "DELETE FROM t; SELECT COUNT(*) FROM t"), async {
        tokio::task::yield_now().await;
        run(&mut a, "UNLOCK TABLES").await;
    });
    assert_eq!(deleted, "0");
    // The lock comes when the transactions have ended that wrote before.
    run(&mut b, "BEGIN; INSERT INTO t VALUES (4)").await;
    let ((), ()) = tokio::join!(async { drop(run(&mut a, "LOCK TABLES t READ").await) }, async {
        tokio::task::yield_now().await;
        run(&mut b, "INSERT INTO t VALUES (5); COMMIT").await;
    });
    check_locked_out(&mut b, "DELETE FROM t").await;
    // What a view shows is not looked up: its lock is for the whole schema.
    run(&mut a, "LOCK TABLES v READ").await;
    check_locked_out(&mut b, "INSERT INTO u VALUES (1)").await;
    drop(a);
    run(&mut b, "INSERT INTO u VALUES (1)").await;
}

#[tokio::test]
async fn sleep_suspends_the_statement_only() {
    let fixture = Fixture::new("sleep");
    let mut sessions = Vec::new();
    for _ in 0..50 {
        sessions.push(fixture.session().await);
    }
    let mut awake = sessions.pop().unwrap();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut asleep: Vec<_> = sessions.iter_mut().map(|session| Box::pin(one(session, "SELECT SLEEP(600)"))).collect();
    for sleeper in &mut asleep {
        assert!(sleeper.as_mut().poll(&mut cx).is_pending());
    }
    assert_eq!(one(&mut awake, "SELECT 1").await, "1");
    assert_eq!(one(&mut awake, "SELECT SLEEP(0.01)").await, "0");
    for sleeper in &mut asleep {
        assert!(sleeper.as_mut().poll(&mut cx).is_pending());
    }
}

#[tokio::test]
async fn a_long_scan_lets_others_run() {
    let fixture = Fixture::new("scan");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    let long =
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT COUNT(*) FROM n";
    let mut turns = 0;
    let (count, ()) = tokio::join!(one(&mut a, long), async {
        for _ in 0..100 {
            assert_eq!(one(&mut b, "SELECT 1").await, "1");
            turns += 1;
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(count, "300000");
    assert_eq!(turns, 100);
}

#[tokio::test]
async fn dropping_a_statement_undoes_it() {
    let fixture = Fixture::new("drop");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (n INT)").await;
    {
        let mut rows = Rows::default();
        let insert = Statement { sql: b"INSERT INTO t SELECT SLEEP(10)", params: &[] };
        let statement = session.execute(insert, &mut rows);
        assert!(tokio::time::timeout(Duration::from_millis(50), statement).await.is_err());
    }
    let mut other = fixture.session().await;
    assert_eq!(one(&mut other, "SELECT COUNT(*) FROM t").await, "0");
    run(&mut other, "INSERT INTO t VALUES (1)").await;
}

#[tokio::test]
async fn tables_read_and_versions() {
    let fixture = Fixture::new("versions");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE a (n INT); CREATE TABLE b (n INT)").await;
    let version = |table: &str| fixture.engine().table_version("test", table);
    let (a, b) = (version("a"), version("b"));
    assert!(a < b, "made one after the other");
    run(&mut session, "INSERT INTO a VALUES (1)").await;
    assert!(version("a") > b);
    assert_eq!((version("b"), version("c")), (b, None));
    run(&mut session, "SELECT * FROM a JOIN b ON a.n = b.n").await;
    let read: Vec<&str> = session.tables_read().iter().map(|(_, table)| table.as_str()).collect();
    assert_eq!(read, ["a", "b"]);
}

#[tokio::test]
async fn reads_and_changes_are_listed_with_their_versions() {
    let fixture = Fixture::new("watched");
    let mut session = fixture.session().await;
    run(
        &mut session,
        "CREATE TABLE parent (id INT PRIMARY KEY); \
         CREATE TABLE child (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE); \
         CREATE VIEW v AS SELECT child.id FROM child; \
         INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1)",
    )
    .await;
    session.watch_tables();
    let reads = |session: &tidegate_sql::Session| {
        let reads = session.reads().iter();
        reads.map(|read| (read.table.clone(), read.version)).collect::<Vec<_>>()
    };
    run(&mut session, "SELECT * FROM v WHERE id IN (SELECT id FROM parent)").await;
    let mut read = reads(&session);
    read.sort();
    let version = |table: &str| fixture.engine().table_version("test", table);
    let before = version("child").unwrap();
    let now = |table: &str| (table.to_owned(), version(table));
    assert_eq!(read, [now("child"), now("parent"), now("v")]);
    run(&mut session, "DELETE FROM parent").await;
    let changed: Vec<_> = session.changes().iter().map(|change| (change.table.as_str(), change.version)).collect();
    assert_eq!(changed, [("parent", before + 1), ("child", before + 1)]);
    run(&mut session, "BEGIN; SELECT * FROM child").await;
    assert_eq!(reads(&session), [("child".to_owned(), None)]);
    run(&mut session, "ROLLBACK; UPDATE parent SET id = 5").await;
    assert_eq!(version("parent"), Some(before + 1), "nothing was changed");
}

#[tokio::test]
async fn statements_have_a_time_limit() {
    let fixture = Fixture::new("limit");
    let mut options = EngineOptions::new(&fixture.path);
    options.statement_time_max = Some(Duration::from_millis(20));
    fixture.engine().configure(options).unwrap();
    let mut session = fixture.engine().session("").unwrap();
    assert_eq!(code(&mut session, "SELECT SLEEP(10)").await, 1969);
    let long = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n";
    assert_eq!(code(&mut session, long).await, 1969);
    assert_eq!(code(&mut session, "SELECT SLEEP(10); SELECT 2").await, 1969);
    assert_eq!(one(&mut session, "SELECT @@max_statement_time").await, "0.020000");
    // What is in time does not hear of it.
    run(&mut session, "SET max_statement_time = 600").await;
    assert_eq!(one(&mut session, "SELECT SLEEP(0.001) AS a; SELECT SLEEP(0) AS b").await, "0;0");
    assert_eq!(code(&mut session, "SELECT SLEEP(-1)").await, 1210);
    assert_eq!(code(&mut session, "SELECT SLEEP(NULL)").await, 1210);
    run(&mut session, "CREATE DATABASE test; USE test; CREATE TABLE t (n INT); INSERT INTO t VALUES (1)").await;
    run(&mut session, "BEGIN; INSERT INTO t VALUES (2); SET max_statement_time = 0.02").await;
    assert_eq!(code(&mut session, "SELECT SLEEP(10)").await, 1969);
    run(&mut session, "SET max_statement_time = 0").await;
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM t").await, "2");
    assert_eq!(one(&mut session, "SELECT SLEEP(0.03)").await, "0");
}

#[tokio::test]
async fn what_mysqldump_writes_around_its_statements() {
    let fixture = Fixture::new("hints");
    let mut session = fixture.session().await;
    run(&mut session, "/*!40101 SET @a=@@character_set_client, @b=2 */; /*!50001 CREATE VIEW v AS SELECT NULL AS n */")
        .await;
    assert_eq!(one(&mut session, "SELECT @a, @b, n FROM v").await, "utf8mb4,2,NULL");
    run(&mut session, "CREATE TABLE t (n INT)").await;
    drop(session);
    let mut fixture = fixture;
    fixture.engine = None;
    fixture.engine = Some(Engine::open(EngineOptions::new(&fixture.path)).unwrap());
    let mut session = fixture.engine().session("test").unwrap();
    assert_eq!(one(&mut session, "SELECT n FROM v").await, "NULL");
}

#[tokio::test]
async fn a_copy_is_a_schema_of_its_own() {
    let fixture = Fixture::new("copy");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (n INT PRIMARY KEY, s TEXT); INSERT INTO t VALUES (1, 'a'), (2, 'B')").await;
    let copy = fixture.engine().backup("test").await.unwrap();
    run(&mut session, "DELETE FROM t").await;
    std::fs::rename(copy, fixture.path.join("other.db")).unwrap();
    assert_eq!(fixture.engine().backup("nosuch").await.unwrap_err().code, 1049);
    drop(session);
    let path = fixture.path.clone();
    let mut fixture = fixture;
    fixture.engine = None;
    fixture.engine = Some(Engine::open(EngineOptions::new(path)).unwrap());
    let mut session = fixture.engine().session("other").unwrap();
    assert_eq!(one(&mut session, "SELECT * FROM t WHERE s = 'b'").await, "2,B");
}

#[tokio::test]
async fn a_pooled_session_is_as_good_as_new() {
    let fixture = Fixture::new("pooled");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)").await;
    let id = {
        let mut pooled = fixture.engine().pooled_session("test").unwrap();
        let id = pooled.id();
        let session = pooled.get().unwrap();
        run(session, "SET @a = 1, sql_mode = ''; INSERT INTO t VALUES (NULL); BEGIN; INSERT INTO t VALUES (7)").await;
        id
    };
    let mut pooled = fixture.engine().pooled_session("test").unwrap();
    assert_eq!(pooled.id(), id);
    let state = "SELECT @a IS NULL, @@sql_mode <> '', LAST_INSERT_ID(), COUNT(*) FROM t";
    assert_eq!(one(pooled.get().unwrap(), state).await, "1,1,0,1");
    let mut abandoned = fixture.engine().pooled_session("test").unwrap();
    let abandoned_id = abandoned.id();
    let sleep = Statement { sql: b"SELECT SLEEP(5)", params: &[] };
    let mut rows = Rows::default();
    assert!(tokio::time::timeout(Duration::from_millis(5), abandoned.execute(sleep, &mut rows)).await.is_err());
    drop(abandoned);
    assert_ne!(fixture.engine().pooled_session("test").unwrap().id(), abandoned_id);
    run(pooled.get().unwrap(), "USE information_schema").await;
    drop(pooled);
    assert_eq!(fixture.engine().pooled_session("test").unwrap().get().unwrap().schema(), "test");
}

#[tokio::test]
async fn statements_see_other_schemas() {
    let fixture = Fixture::new("cross");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE DATABASE other; CREATE TABLE other.t (n INT); INSERT INTO other.t VALUES (5)").await;
    run(&mut session, "CREATE TABLE t (n INT); INSERT INTO t SELECT n + 1 FROM other.t").await;
    assert_eq!(one(&mut session, "SELECT t.n, o.n FROM t JOIN other.t o ON o.n < t.n").await, "6,5");
    assert_eq!(code(&mut session, "UPDATE t, other.t o SET t.n = 1, o.n = 2").await, 1235);
    run(&mut session, "BEGIN; INSERT INTO t VALUES (1)").await;
    assert_eq!(code(&mut session, "INSERT INTO other.t VALUES (1)").await, 1235);
}

#[tokio::test]
async fn threads_share_an_engine() {
    let mut fixture = Fixture::new("threads");
    fixture.engine = None;
    let mut options = EngineOptions::new(&fixture.path);
    options.durability = Durability::Normal;
    fixture.engine = Some(Engine::open(options).unwrap());
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 0), (2, 0)").await;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let engine = fixture.engine().clone();
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut session = engine.session("test").unwrap();
                    for _ in 0..50 {
                        run(
                            &mut session,
                            "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1; UPDATE t SET n = n - 1 WHERE id = 2; COMMIT",
                        )
                        .await;
                        assert_eq!(one(&mut session, "SELECT SUM(n) FROM t").await, "0");
                    }
                });
            });
        }
    });
    assert_eq!(one(&mut session, "SELECT n FROM t WHERE id = 1").await, "200");
}

#[tokio::test]
async fn calls_and_unions_of_any_length_are_answered() {
    let fixture = Fixture::new("wide");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT, s VARCHAR(9)); INSERT INTO t VALUES (3, 'b')").await;
    let list = |count: usize, item: fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let plus = |number: usize| format!("a + {number}");
    let values = list(3000, plus);
    assert_eq!(one(&mut session, &format!("SELECT GREATEST({values}), LEAST({values}) FROM t")).await, "3002,3");
    assert_eq!(one(&mut session, &format!("SELECT GREATEST({values}, NULL) FROM t")).await, "NULL");
    assert_eq!(
        one(&mut session, &format!("SELECT COALESCE({}, 7) FROM t", list(3000, |_| "NULLIF(a, 3)".into()))).await,
        "7"
    );
    assert_eq!(
        one(&mut session, &format!("SELECT LENGTH(CONCAT({})) FROM t", list(3000, |_| "s".into()))).await,
        "3000"
    );
    assert_eq!(
        one(&mut session, &format!("SELECT FIELD(a, {}) FROM t", list(3000, |n| (n * 2 + 1).to_string()))).await,
        "2"
    );
    assert_eq!(code(&mut session, &format!("SELECT INTERVAL({values}) FROM t")).await, 1235);
    assert_eq!(code(&mut session, &format!("SELECT {} FROM t", list(2001, plus))).await, 1117);
    // A value within is written once, however deep.
    let nested = format!("SELECT {}a{} FROM t", "GREATEST(".repeat(60), ", 2)".repeat(60));
    assert_eq!(one(&mut session, &nested).await, "3");
    let branches = (0..8000).map(|number| format!("WHEN {number} THEN {}", number * 2)).collect::<Vec<_>>().join(" ");
    assert_eq!(one(&mut session, &format!("SELECT CASE a {branches} END FROM t")).await, "6");
    let union = |count: usize, word: &str| {
        (0..count).map(|number| format!("SELECT {} AS k", number % 700)).collect::<Vec<_>>().join(word)
    };
    let sum = |sql: String| format!("SELECT COUNT(*), SUM(k) FROM ({sql}) AS u");
    assert_eq!(one(&mut session, &sum(union(3500, " UNION ALL "))).await, "3500,1223250");
    assert_eq!(one(&mut session, &sum(union(3500, " UNION "))).await, "700,244650");
    assert_eq!(one(&mut session, &format!("{} ORDER BY k DESC LIMIT 1", union(1200, " UNION ALL "))).await, "699");
    assert_eq!(code(&mut session, &union(4002, " UNION ALL ")).await, 1235);
    assert_eq!(code(&mut session, &union(900, " EXCEPT ")).await, 1235);
    let tables: Vec<String> = (0..65).map(|number| format!("t AS t{number}")).collect();
    assert_eq!(code(&mut session, &format!("SELECT 1 FROM {}", tables.join(" JOIN "))).await, 1116);
}

#[tokio::test]
async fn deep_and_long_statements_are_answered() {
    let fixture = Fixture::new("deep");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT); INSERT INTO t VALUES (3)").await;
    let long = |count: usize| {
        let terms: Vec<String> = (0..count).map(|number| format!("a = {number}")).collect();
        format!("SELECT a FROM t WHERE {}", terms.join(" OR "))
    };
    assert_eq!(one(&mut session, &long(3000)).await, "3");
    assert_eq!(one(&mut session, &long(20_000)).await, "3");
    assert_eq!(code(&mut session, &long(20_001)).await, 1235);
    let list: Vec<String> = (0..20_000).map(|number| format!("-{number}")).collect();
    assert_eq!(one(&mut session, &format!("SELECT COUNT(*) FROM t WHERE a IN ({})", list.join(","))).await, "0");
    for depth in [20, 90, 1000, 100_000] {
        let nested = format!("SELECT {}1{}", "(".repeat(depth), ")".repeat(depth));
        let outcome = code(&mut session, &nested).await;
        assert!(matches!(outcome, 0 | 1064 | 1235), "{depth}: {outcome}");
        let unary = format!("SELECT {}1", "- ".repeat(depth));
        assert!(matches!(code(&mut session, &unary).await, 0 | 1064 | 1235 | 1690));
        let sum = format!("SELECT 1{}", " - 1".repeat(depth.min(2000)));
        assert!(matches!(code(&mut session, &sum).await, 0 | 1064 | 1235 | 1815));
        let tests = format!("SELECT 1{}", " IS NULL".repeat(depth.min(3000)));
        assert!(matches!(code(&mut session, &tests).await, 0 | 1064 | 1235 | 1815));
        let calls = format!("SELECT {}1{}", "abs(".repeat(depth), ")".repeat(depth));
        assert!(matches!(code(&mut session, &calls).await, 0 | 1064 | 1235));
        let queries = format!("SELECT {}1{}", "(SELECT ".repeat(depth), ")".repeat(depth));
        assert!(matches!(code(&mut session, &queries).await, 0 | 1064 | 1235 | 1815));
    }
}
