//! The statement cache from outside: a statement answers for its own literals, whatever ran before it.

use tidegate_rows::{Column, Execute, Flow, Row, Sink, SinkClosed, Statement, Summary, Value};
use tidegate_sql::{Engine, EngineOptions, Session};

/// Collects a result as text.
#[derive(Default)]
struct Rows(Vec<Vec<String>>);

impl Sink for Rows {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.0.push(Vec::new());
        row.each(|_, value| {
            let text = match value {
                Value::Null => "NULL".into(),
                Value::Int(value) => value.to_string(),
                Value::Uint(value) => value.to_string(),
                Value::Float(value) => value.to_string(),
                Value::Double(value) => value.to_string(),
                Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            };
            self.0.last_mut().unwrap().push(text);
        });
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// An engine in a directory of its own, removed at the end.
struct Fixture {
    engine: Option<Engine>,
    path: std::path::PathBuf,
}

impl Fixture {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-sql-cache-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self { engine: Some(Engine::open(EngineOptions::new(&path)).unwrap()), path }
    }

    async fn session(&self) -> Session {
        let mut session = self.engine.as_ref().unwrap().session("").unwrap();
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

async fn run(session: &mut Session, sql: &str) -> String {
    let mut rows = Rows::default();
    let statement = Statement { sql: sql.as_bytes(), params: &[] };
    let shown = &sql[..sql.len().min(80)];
    session.execute(statement, &mut rows).await.unwrap_or_else(|error| panic!("{shown}: {error}"));
    rows.0.iter().map(|row| row.join(",")).collect::<Vec<_>>().join(";")
}

/// Numbers with commas between them.
fn list(numbers: std::ops::Range<u32>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn a_statement_of_thousands_of_literals_answers_for_its_own() {
    let fixture = Fixture::new("long");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, n INT)").await;
    for from in [10_000u32, 20_000] {
        let rows: Vec<String> = (from..from + 5000).map(|id| format!("({id},{})", id / 10)).collect();
        run(&mut session, &format!("INSERT INTO t VALUES {}", rows.join(","))).await;
    }
    assert_eq!(run(&mut session, "SELECT COUNT(*), SUM(id), SUM(n) FROM t").await, "10000,174995000,17495000");
    for from in [10_000u32, 20_000] {
        let sql = format!("SELECT MIN(id), MAX(id), COUNT(*) FROM t WHERE id IN ({})", list(from..from + 5000));
        assert_eq!(run(&mut session, &sql).await, format!("{from},{},5000", from + 4999));
    }
    for (from, left) in [(11_000u32, 6000), (20_500, 1500)] {
        run(&mut session, &format!("DELETE FROM t WHERE id IN ({})", list(from..from + 4500))).await;
        assert_eq!(run(&mut session, "SELECT COUNT(*) FROM t").await, left.to_string());
    }
}

/// SQLite allows 32,766 parameters.
#[tokio::test]
async fn a_list_of_very_many_literals_is_searched() {
    let fixture = Fixture::new("lists");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20))").await;
    run(&mut session, "INSERT INTO t VALUES (-3, 'minus'), (7, '7'), (32999, '32999'), (33007, 'it\\'s')").await;
    for (from, found) in [(0, "7;32999"), (10, "32999;33007")] {
        let numbers = list(from..from + 33_000);
        assert_eq!(run(&mut session, &format!("SELECT id FROM t WHERE id IN ({numbers})")).await, found);
        let sql = format!("SELECT id FROM t WHERE id IN ({numbers},-3)");
        assert_eq!(run(&mut session, &sql).await, format!("-3;{found}"));
    }
    let texts = list(0..33_000).replace(',', "','");
    let sql = format!("SELECT id FROM t WHERE s IN ('{texts}','IT''S') ORDER BY id");
    assert_eq!(run(&mut session, &sql).await, "7;32999;33007");
}

/// SQLite allows expressions 1,000 deep.
#[tokio::test]
async fn a_list_of_many_rows_is_searched() {
    let fixture = Fixture::new("rows");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20)); INSERT INTO t VALUES (7, '7'), (8, '9')")
        .await;
    let rows: Vec<String> = (0..1_500).map(|id| format!("({id},'{id}')")).collect();
    let sql = format!("SELECT id FROM t WHERE (id, s) IN ({})", rows.join(","));
    assert_eq!(run(&mut session, &sql).await, "7");
}

/// Two names side by side and one name with a doubled quote are different statements.
#[tokio::test]
async fn a_quote_within_a_name_is_no_end_of_it() {
    let fixture = Fixture::new("names");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE `t` (n INT); CREATE TABLE `t``x` (n INT); INSERT INTO `t``x` VALUES (1), (2)")
        .await;
    for _ in 0..2 {
        assert_eq!(run(&mut session, "SELECT COUNT(*) FROM `t` `x`").await, "0");
        assert_eq!(run(&mut session, "SELECT COUNT(*) FROM `t``x`").await, "2");
    }
}

/// What a plan depends on besides its text: another session's temporary tables, a view of a schema that the plan does not touch
/// otherwise, the current schema where it has no file.
#[tokio::test]
async fn a_temporary_table_answers_to_its_session_alone() {
    let fixture = Fixture::new("temporary");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1); CREATE TEMPORARY TABLE t (n INT)").await;
    run(&mut a, "INSERT INTO t VALUES (2)").await;
    for _ in 0..2 {
        assert_eq!(run(&mut a, "SELECT n FROM t").await, "2");
        assert_eq!(run(&mut b, "SELECT n FROM t").await, "1");
    }
    run(&mut b, "INSERT INTO t VALUES (3); UPDATE t SET n = n + 10; CREATE TEMPORARY TABLE t (n INT, m INT)").await;
    assert_eq!(run(&mut a, "SELECT n FROM t").await, "2");
    assert_eq!(run(&mut b, "SELECT n FROM t").await, "");
    run(&mut b, "DROP TEMPORARY TABLE t").await;
    assert_eq!(run(&mut b, "SELECT n FROM t").await, "11;13");
}

#[tokio::test]
async fn a_view_of_another_schema_is_read_as_it_is_now() {
    let fixture = Fixture::new("view");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (n INT, m INT); INSERT INTO t VALUES (1, 2); CREATE DATABASE other").await;
    run(&mut session, "CREATE VIEW other.v AS SELECT n AS x FROM test.t").await;
    assert_eq!(run(&mut session, "SELECT x FROM other.v").await, "1");
    run(&mut session, "DROP VIEW other.v; CREATE VIEW other.v AS SELECT m AS x FROM test.t").await;
    assert_eq!(run(&mut session, "SELECT x FROM other.v").await, "2");
}

#[tokio::test]
async fn a_schema_without_a_file_is_told_from_none() {
    let fixture = Fixture::new("virtual");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (n INT); BEGIN; SELECT n FROM t").await;
    for schema in ["information_schema", "mysql", "test", "performance_schema"] {
        run(&mut session, &format!("USE {schema}")).await;
        assert_eq!(run(&mut session, "SELECT DATABASE()").await, schema);
    }
}
