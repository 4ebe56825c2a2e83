//! Tables without SQL.

use std::{task::Poll, time::Duration};

use super::{Fixture, Rows as Collected, code, one, run};
use tidegate_rows::{Column, Flow, QueryError, Sink, SinkClosed, Summary, Value};
use tidegate_sql::{
    EngineOptions, Session,
    table::{Answers, Change, Comparison, OnDuplicate, OpenTable, Request, Rows, Strictness},
};

fn equal<'a>(key: &'a [Value<'a>]) -> Rows<'a> {
    Rows { comparison: Comparison::Equal, key, limit: u64::MAX, offset: 0 }
}

fn insert<'a>(values: &'a [Value<'a>]) -> Request<'a> {
    Request::Insert(values, OnDuplicate::Fail)
}

/// Rows as `a,b;c,d`, or the number of affected rows, or `error N`.
async fn ask(session: &mut Session, open: &OpenTable, request: Request<'_>) -> String {
    let mut rows = Collected::default();
    match session.run_request(open, &request, &mut rows).await {
        Ok(()) => shown(&rows, matches!(request, Request::Find(_))),
        Err(QueryError::Server(error)) => format!("error {}", error.code),
        Err(error) => panic!("{error}"),
    }
}

fn shown(rows: &Collected, finds: bool) -> String {
    if finds {
        rows.rows.iter().map(|row| row.join(",")).collect::<Vec<_>>().join(";")
    } else {
        rows.summaries[0].affected_rows.to_string()
    }
}

fn open(session: &mut Session, table: &str, index: &str, columns: &[&str]) -> OpenTable {
    session.open_table(table, index, columns, Strictness::Exact).unwrap()
}

type Pair = (Option<i64>, Option<i64>);

#[tokio::test]
async fn rows_are_found_in_the_order_of_the_index() {
    let fixture = Fixture::new("table-find");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, KEY ab (a, b), KEY ad (a DESC))").await;
    run(&mut session, "CREATE TABLE s (a INT NOT NULL, b INT NOT NULL, PRIMARY KEY (a, b))").await;
    let values = [None, Some(1), Some(2), Some(3)];
    let pairs: Vec<Pair> = values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))).collect();
    let text = |value: Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
    for (id, (a, b)) in pairs.iter().enumerate() {
        run(&mut session, &format!("INSERT INTO t VALUES ({id}, {}, {})", text(*a), text(*b))).await;
        if let (Some(a), Some(b)) = (a, b) {
            run(&mut session, &format!("INSERT INTO s VALUES ({a}, {b})")).await;
        }
    }
    let t = open(&mut session, "t", "ab", &["a", "b"]);
    let s = open(&mut session, "s", "PRIMARY", &["a", "b"]);
    let value = |value: Option<i64>| value.map_or(Value::Null, Value::Int);
    for comparison in
        [Comparison::Equal, Comparison::Greater, Comparison::AtLeast, Comparison::Less, Comparison::AtMost]
    {
        let backwards = matches!(comparison, Comparison::Less | Comparison::AtMost);
        for (a, b) in &pairs {
            for key in [vec![*a], vec![*a, *b]] {
                let found = |pair: &Pair| {
                    let row = &[pair.0, pair.1][..key.len()];
                    match comparison {
                        Comparison::Equal => row == key,
                        Comparison::Greater => row > &key[..],
                        Comparison::AtLeast => row >= &key[..],
                        Comparison::Less => row < &key[..],
                        Comparison::AtMost => row <= &key[..],
                    }
                };
                let mut expected: Vec<Pair> = pairs.iter().copied().filter(found).collect();
                expected.sort();
                if backwards {
                    expected.reverse();
                }
                let show = |pairs: &[Pair]| {
                    let rows: Vec<String> = pairs.iter().map(|(a, b)| format!("{},{}", text(*a), text(*b))).collect();
                    rows.join(";")
                };
                let keys: Vec<Value<'_>> = key.iter().map(|part| value(*part)).collect();
                let mut rows = Rows { comparison, key: &keys, limit: u64::MAX, offset: 0 };
                let context = format!("{comparison:?} {key:?}");
                assert_eq!(ask(&mut session, &t, Request::Find(rows)).await, show(&expected), "{context}");
                (rows.limit, rows.offset) = (2, 1);
                let part: Vec<Pair> = expected.iter().copied().skip(1).take(2).collect();
                assert_eq!(ask(&mut session, &t, Request::Find(rows)).await, show(&part), "{context}, two behind one");
                if key.iter().all(Option::is_some) {
                    rows = Rows { limit: 100, offset: 0, ..rows };
                    expected.retain(|(a, b)| a.is_some() && b.is_some());
                    assert_eq!(
                        ask(&mut session, &s, Request::Find(rows)).await,
                        show(&expected),
                        "{context}, not null"
                    );
                }
            }
        }
    }
    let plan = one(&mut session, "EXPLAIN SELECT a FROM t FORCE INDEX (ab) WHERE a > 1 ORDER BY a, b").await;
    assert!(plan.contains("ab"), "{plan}");
    let by_descending = open(&mut session, "t", "ad", &["a"]);
    let rows = Rows { comparison: Comparison::AtLeast, key: &[Value::Int(2)], limit: 100, offset: 0 };
    assert!(ask(&mut session, &by_descending, Request::Find(rows)).await.starts_with('3'), "the index's order");
}

const CATS: &str = "CREATE TABLE cats (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(5) NOT NULL, age TINYINT DEFAULT 7, \
     weight DECIMAL(5,2), born DATETIME, kind ENUM('tom', 'kitten'), big BIGINT UNSIGNED, \
     CHECK (age < 100), UNIQUE KEY by_name (name)); \
     CREATE TABLE toys (id INT PRIMARY KEY, cat INT, FOREIGN KEY (cat) REFERENCES cats (id) ON DELETE CASCADE)";

#[tokio::test]
async fn rows_are_written_as_by_statements() {
    let fixture = Fixture::new("table-write");
    let mut session = fixture.session().await;
    run(&mut session, CATS).await;
    let by_id = open(&mut session, "cats", "PRIMARY", &["name", "age", "weight", "born", "kind", "big"]);
    let by_name = open(&mut session, "cats", "by_name", &["id", "age", "big"]);
    let tom = [Value::Bytes(b"Tom")];
    assert_eq!(ask(&mut session, &by_id, insert(&tom)).await, "1");
    assert_eq!(ask(&mut session, &by_id, insert(&tom)).await, "error 1062");
    let jerry = [
        Value::Bytes(b"Jerry"),
        Value::Bytes(b"3"),
        Value::Bytes(b"4.5"),
        Value::Bytes(b"2020-01-02 03:04:05"),
        Value::Bytes(b"kitten"),
        Value::Uint(u64::MAX),
    ];
    assert_eq!(ask(&mut session, &by_id, insert(&jerry)).await, "1");
    assert_eq!(ask(&mut session, &by_id, insert(&[Value::Bytes(b"Kitten")])).await, "error 1406");
    assert_eq!(ask(&mut session, &by_id, insert(&[Value::Null])).await, "error 1048");
    assert_eq!(ask(&mut session, &by_id, insert(&[Value::Bytes(b"x"), Value::Int(200)])).await, "error 1264");
    assert_eq!(ask(&mut session, &by_id, insert(&[Value::Bytes(b"x"), Value::Int(100)])).await, "error 4025");
    let many = [Value::Null; 7];
    assert_eq!(ask(&mut session, &by_id, insert(&many)).await, "error 1136");
    let found = "Jerry,3,4.50,2020-01-02 03:04:05,kitten,18446744073709551615";
    let find = Request::Find(equal(&jerry[..1]));
    assert_eq!(
        ask(&mut session, &by_name, find).await,
        "3,3,18446744073709551615",
        "one number was used for the duplicate"
    );
    assert_eq!(ask(&mut session, &by_id, Request::Find(equal(&[Value::Bytes(b"3")]))).await, found);
    // Changes.
    let key = [Value::Bytes(b"JERRY")];
    fn update<'a>(key: &'a [Value<'a>], changes: &'a [Change<'a>]) -> Request<'a> {
        Request::Update(equal(key), changes)
    }
    let id = Change::Set(Value::Int(3));
    assert_eq!(ask(&mut session, &by_name, update(&key, &[id, Change::Add(-5)])).await, "1");
    assert_eq!(one(&mut session, "SELECT age FROM cats WHERE id = 3").await, "-2");
    assert_eq!(ask(&mut session, &by_name, update(&key, &[id, Change::Add(0), Change::Add(1)])).await, "error 1690");
    assert_eq!(ask(&mut session, &by_name, update(&key, &[id, Change::Add(0), Change::Add(-1)])).await, "1");
    assert_eq!(one(&mut session, "SELECT big FROM cats WHERE id = 3").await, "18446744073709551614");
    assert_eq!(ask(&mut session, &by_name, update(&key, &[id, Change::Add(120)])).await, "error 4025");
    assert_eq!(ask(&mut session, &by_name, update(&key, &[id, Change::Add(130)])).await, "error 1264");
    assert_eq!(ask(&mut session, &by_name, update(&key, &[id, Change::Set(Value::Null)])).await, "1");
    assert_eq!(ask(&mut session, &by_name, update(&key, &[id, Change::Add(1)])).await, "0", "NULL stays");
    assert_eq!(
        ask(&mut session, &by_id, Request::Update(equal(&[Value::Int(3)]), &[Change::Set(tom[0])])).await,
        "error 1062"
    );
    // REPLACE, and INSERT that keeps what is there.
    assert_eq!(ask(&mut session, &by_id, Request::Insert(&tom, OnDuplicate::Keep)).await, "0");
    assert_eq!(ask(&mut session, &by_id, Request::Insert(&tom, OnDuplicate::Replace)).await, "2");
    // Foreign keys, and listeners of what they reach.
    run(&mut session, "INSERT INTO toys VALUES (1, 3), (2, 3)").await;
    let toys = fixture.engine().table_version("test", "toys");
    let mut listening = fixture.engine().listen("test", &["toys"], None).unwrap();
    assert_eq!(ask(&mut session, &by_id, Request::Delete(equal(&[Value::Int(3)]))).await, "1");
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM toys").await, "0");
    assert!(fixture.engine().table_version("test", "toys") > toys);
    let heard = tokio::time::timeout(Duration::from_secs(20), listening.next()).await;
    assert!(matches!(heard, Ok(Some(tidegate_sql::Heard::Commit(_)))));
    // In a transaction.
    run(&mut session, "BEGIN").await;
    assert_eq!(ask(&mut session, &by_id, insert(&[Value::Bytes(b"Spike")])).await, "1");
    assert!(ask(&mut session, &by_name, Request::Find(equal(&[Value::Bytes(b"spike")]))).await.ends_with(",7,NULL"));
    run(&mut session, "ROLLBACK").await;
    assert_eq!(ask(&mut session, &by_name, Request::Find(equal(&[Value::Bytes(b"spike")]))).await, "");
}

#[tokio::test]
async fn keys_that_columns_cannot_hold() {
    let fixture = Fixture::new("table-keys");
    let mut session = fixture.session().await;
    run(
        &mut session,
        "CREATE TABLE t (a TINYINT, b VARCHAR(3), KEY a (a), KEY b (b)); INSERT INTO t VALUES (127, 'abc'), (0, '')",
    )
    .await;
    for (strictness, number, text, word) in
        [(Strictness::Exact, "error 1264", "error 1406", "error 1366"), (Strictness::Nearest, "127", "127", "0")]
    {
        let a = session.open_table("t", "a", &["a"], strictness).unwrap();
        let b = session.open_table("t", "b", &["a"], strictness).unwrap();
        assert_eq!(ask(&mut session, &a, Request::Find(equal(&[Value::Int(300)]))).await, number);
        assert_eq!(ask(&mut session, &b, Request::Find(equal(&[Value::Bytes(b"abcdef")]))).await, text);
        assert_eq!(ask(&mut session, &a, Request::Find(equal(&[Value::Bytes(b"zero")]))).await, word);
        assert_eq!(ask(&mut session, &a, Request::Find(equal(&[]))).await, "error 1235");
        assert_eq!(ask(&mut session, &a, Request::Find(equal(&[Value::Int(1), Value::Int(1)]))).await, "error 1235");
    }
    let nearest = session.open_table("t", "a", &["a", "b"], Strictness::Nearest).unwrap();
    let values = [Value::Int(-500), Value::Bytes(b"\0\x01long")];
    assert_eq!(ask(&mut session, &nearest, Request::Insert(&values, OnDuplicate::Fail)).await, "1");
    assert_eq!(one(&mut session, "SELECT HEX(b) FROM t WHERE a = -128").await, "00016C");
    assert_eq!(code(&mut session, "INSERT INTO t (a) VALUES (300)").await, 1264, "the session is as strict as before");
}

/// Answers to a batch, as [`ask`] writes them.
#[derive(Default)]
struct Batch {
    current: Collected,
    answers: Vec<String>,
}

impl Sink for Batch {
    fn columns(&mut self, _: &[Column]) {}
    fn begin_row(&mut self) {
        self.current.begin_row();
    }
    fn value(&mut self, index: usize, value: Value<'_>) {
        self.current.value(index, value);
    }
    fn end_row(&mut self) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        self.current.end_result(summary);
    }
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}

impl Answers for Batch {
    fn ended(&mut self, result: Result<(), QueryError>) {
        let current = std::mem::take(&mut self.current);
        self.answers.push(match result {
            Ok(()) if current.rows.is_empty() && current.summaries[0].affected_rows == 0 => "none".to_owned(),
            Ok(()) => shown(&current, !current.rows.is_empty()),
            Err(QueryError::Server(error)) => format!("error {}", error.code),
            Err(error) => panic!("{error}"),
        });
    }
}

async fn batch(session: &mut Session, requests: &[(&OpenTable, Request<'_>)]) -> Vec<String> {
    let mut answers = Batch::default();
    let time = Duration::from_secs(20);
    tokio::time::timeout(time, session.run_requests(requests, &mut answers)).await.expect("nothing waits for itself");
    answers.answers
}

#[tokio::test]
async fn a_batch_is_answered_in_its_order_and_shares_commits() {
    let fixture = Fixture::new("table-batch");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT PRIMARY KEY, b INT)").await;
    let t = open(&mut session, "t", "PRIMARY", &["a", "b"]);
    let values: Vec<[Value<'_>; 2]> = (0..10).map(|n| [Value::Int(n), Value::Int(n * n)]).collect();
    let insert = |n: usize| (&t, Request::Insert(&values[n], OnDuplicate::Fail));
    let key = |n: usize| equal(&values[n][..1]);
    for round in 0..3 {
        let requests: Vec<_> = (0..8).map(insert).collect();
        let before = fixture.engine().table_version("test", "t").unwrap();
        assert_eq!(batch(&mut session, &requests).await, ["1"; 8]);
        let commits = fixture.engine().table_version("test", "t").unwrap() - before;
        assert_eq!(commits, 1, "round {round}");
        let requests = [
            (&t, Request::Find(key(2))),
            insert(8),
            insert(8),
            (&t, Request::Delete(key(0))),
            (&t, Request::Update(key(3), &[Change::Add(100), Change::Add(1)])),
            (&t, Request::Find(key(3))),
            (&t, Request::Find(key(8))),
            insert(3),
            (&t, Request::Find(key(3))),
        ];
        let answers = batch(&mut session, &requests).await;
        assert_eq!(answers, ["2,4", "1", "error 1062", "1", "1", "none", "8,64", "1", "3,9"], "round {round}");
        assert_eq!(one(&mut session, "SELECT COUNT(*), SUM(a), SUM(b) FROM t").await, "9,139,214");
        run(&mut session, "DELETE FROM t").await;
    }
}

#[tokio::test]
async fn a_batch_waits_for_rows_that_others_have_locked() {
    let mut fixture = Fixture::new("table-locks");
    fixture.open_again(|options: &mut EngineOptions| options.lock_wait_timeout = Duration::from_millis(200));
    let (mut session, mut other) = (fixture.session().await, fixture.session().await);
    run(&mut session, "CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 1), (2, 2)").await;
    let t = open(&mut session, "t", "PRIMARY", &["a", "b"]);
    let (one_, two, three) = ([Value::Int(1)], [Value::Int(2)], [Value::Int(3)]);
    let add = [Change::Add(0), Change::Add(1)];
    let warm = [
        (&t, Request::Update(equal(&two), &add)),
        (&t, Request::Update(equal(&two), &add)),
        (&t, Request::Insert(&three, OnDuplicate::Replace)),
    ];
    assert_eq!(batch(&mut session, &warm).await, ["1"; 3]);
    run(&mut other, "BEGIN; UPDATE t SET b = 10 WHERE a = 1").await;
    let requests = [
        (&t, Request::Update(equal(&two), &add)),
        (&t, Request::Update(equal(&one_), &add)),
        (&t, Request::Update(equal(&two), &add)),
    ];
    assert_eq!(batch(&mut session, &requests).await, ["1", "error 1205", "1"]);
    // The lock goes while the batch waits for it.
    let (answers, ()) = tokio::join!(batch(&mut session, &requests), async {
        tokio::task::yield_now().await;
        run(&mut other, "COMMIT").await;
    });
    assert_eq!(answers, ["1", "1", "1"]);
    assert_eq!(one(&mut session, "SELECT * FROM t ORDER BY a").await, "1,11;2,8;3,NULL");
}

#[tokio::test]
async fn definitions_change_under_an_open_table() {
    let fixture = Fixture::new("table-defined");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT PRIMARY KEY, b INT, KEY b (b)); INSERT INTO t VALUES (1, 5)").await;
    let t = open(&mut session, "t", "b", &["a", "b"]);
    let key = [Value::Bytes(b"5")];
    let find = Request::Find(equal(&key));
    assert_eq!(ask(&mut session, &t, find).await, "1,5");
    let mut other = fixture.session().await;
    for (sql, answer) in [
        ("ALTER TABLE t ADD COLUMN c INT FIRST", "1,5"),
        ("ALTER TABLE t MODIFY b VARCHAR(10)", "1,5"),
        ("ALTER TABLE t DROP KEY b", "error 1176"),
        ("ALTER TABLE t ADD KEY b (b)", "1,5"),
        ("ALTER TABLE t CHANGE a id INT", "error 1054"),
        ("ALTER TABLE t CHANGE id a INT", "1,5"),
        ("DROP TABLE t", "error 1146"),
        ("CREATE VIEW t AS SELECT 1 AS a, 5 AS b", "error 1146"),
        ("DROP VIEW t; CREATE TABLE t (a INT, b INT, KEY b (b)); INSERT INTO t VALUES (9, 5)", "9,5"),
    ] {
        run(&mut other, sql).await;
        assert_eq!(ask(&mut session, &t, find).await, answer, "{sql}");
        if !answer.starts_with("error") {
            assert_eq!(ask(&mut session, &t, insert(&[Value::Int(2), Value::Int(1)])).await, "1", "{sql}");
            assert_eq!(ask(&mut session, &t, Request::Delete(equal(&[Value::Int(1)]))).await, "1", "{sql}");
        }
    }
    assert!(session.open_table("t", "nothing", &["a"], Strictness::Exact).is_err_and(|error| error.code == 1176));
    assert!(session.open_table("t", "b", &["z"], Strictness::Exact).is_err_and(|error| error.code == 1054));
    assert!(fixture.engine().session("").unwrap().open_table("t", "b", &[], Strictness::Exact).is_err());
}
