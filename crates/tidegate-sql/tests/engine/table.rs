//! Tables without SQL.

use std::{task::Poll, time::Duration};

use super::{Fixture, Rows as Collected, code, one, run};
use tidegate_rows::{Column, Flow, QueryError, Row, Sink, SinkClosed, Summary, Value};
use tidegate_sql::{
    EngineOptions, Session,
    table::{
        Answer, Answers, Change, Comparison, Each, Filter, OnDuplicate, OpenTable, Opening, Otherwise, Request, Revise,
        Revision, Rows, Strictness, Test,
    },
};

fn equal<'a>(key: &'a [Value<'a>]) -> Rows<'a> {
    Rows::with_key(key)
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

fn opening<'a>(table: &'a str, index: &'a str, columns: &'a [&'a str]) -> Opening<'a> {
    Opening { schema: "", table, index, columns, filters: &[], strictness: Strictness::Exact }
}

fn open(session: &mut Session, table: &str, index: &str, columns: &[&str]) -> OpenTable {
    session.open_table(&opening(table, index, columns)).unwrap()
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
                let mut rows = Rows::new(comparison, &keys);
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
                    for (limit, offset) in [(1, 0), (0, 0), (2, 1)] {
                        rows = Rows { limit, offset, ..rows };
                        let part: Vec<Pair> =
                            expected.iter().copied().skip(offset as usize).take(limit as usize).collect();
                        let found = ask(&mut session, &s, Request::Find(rows)).await;
                        assert_eq!(found, show(&part), "{context}, {limit} behind {offset}");
                    }
                }
            }
        }
    }
    let plan = one(&mut session, "EXPLAIN SELECT a FROM t FORCE INDEX (ab) WHERE a > 1 ORDER BY a, b").await;
    assert!(plan.contains("ab"), "{plan}");
    let by_descending = open(&mut session, "t", "ad", &["a"]);
    let key = [Value::Int(2)];
    let rows = Rows::new(Comparison::AtLeast, &key);
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
        Request::Update(equal(key), changes, Answer::Number)
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
    assert_eq!(ask(&mut session, &by_name, update(&key, &[id, Change::Add(1)])).await, "1", "found, and NULL stays");
    assert_eq!(
        ask(&mut session, &by_id, Request::Update(equal(&[Value::Int(3)]), &[Change::Set(tom[0])], Answer::Number))
            .await,
        "error 1062"
    );
    // REPLACE, and INSERT that keeps what is there.
    assert_eq!(ask(&mut session, &by_id, Request::Insert(&tom, OnDuplicate::Keep)).await, "0");
    assert_eq!(ask(&mut session, &by_id, Request::Insert(&tom, OnDuplicate::Replace)).await, "2");
    // Foreign keys, and listeners of what they reach.
    run(&mut session, "INSERT INTO toys VALUES (1, 3), (2, 3)").await;
    let toys = fixture.engine().table_version("test", "toys");
    let mut listening = fixture.engine().listen("test", &["toys"], None).unwrap();
    assert_eq!(ask(&mut session, &by_id, Request::Delete(equal(&[Value::Int(3)]), Answer::Number)).await, "1");
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
        let a = session.open_table(&Opening { strictness, ..opening("t", "a", &["a"]) }).unwrap();
        let b = session.open_table(&Opening { strictness, ..opening("t", "b", &["a"]) }).unwrap();
        assert_eq!(ask(&mut session, &a, Request::Find(equal(&[Value::Int(300)]))).await, number);
        assert_eq!(ask(&mut session, &b, Request::Find(equal(&[Value::Bytes(b"abcdef")]))).await, text);
        assert_eq!(ask(&mut session, &a, Request::Find(equal(&[Value::Bytes(b"zero")]))).await, word);
        assert_eq!(ask(&mut session, &a, Request::Find(equal(&[]))).await, "error 1235");
        assert_eq!(ask(&mut session, &a, Request::Find(equal(&[Value::Int(1), Value::Int(1)]))).await, "error 1235");
    }
    let nearest =
        session.open_table(&Opening { strictness: Strictness::Nearest, ..opening("t", "a", &["a", "b"]) }).unwrap();
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
    fn row(&mut self, row: Row<'_>) -> Flow {
        let _ = self.current.row(row);
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
            (&t, Request::Delete(key(0), Answer::Number)),
            (&t, Request::Update(key(3), &[Change::Add(100), Change::Add(1)], Answer::Number)),
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
async fn a_long_batch_has_one_commit_and_lets_others_join_it() {
    let fixture = Fixture::new("table-long-batch");
    let (mut session, mut other) = (fixture.session().await, fixture.session().await);
    run(&mut session, "CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (-1, 0)").await;
    let t = open(&mut session, "t", "PRIMARY", &["a", "b"]);
    let values: Vec<[Value<'_>; 2]> = (0..1000).map(|n| [Value::Int(n), Value::Int(n * n)]).collect();
    let requests: Vec<_> = values.iter().map(|row| (&t, Request::Insert(row, OnDuplicate::Fail))).collect();
    let before = fixture.engine().table_version("test", "t").unwrap();
    let (answers, ()) = tokio::join!(batch(&mut session, &requests), async {
        run(&mut other, "INSERT INTO t VALUES (-2, 0)").await;
    });
    assert_eq!(answers, ["1"; 1000]);
    assert_eq!(fixture.engine().table_version("test", "t").unwrap() - before, 1);
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM t").await, "1002");
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
        (&t, Request::Update(equal(&two), &add, Answer::Number)),
        (&t, Request::Update(equal(&two), &add, Answer::Number)),
        (&t, Request::Insert(&three, OnDuplicate::Replace)),
    ];
    assert_eq!(batch(&mut session, &warm).await, ["1"; 3]);
    run(&mut other, "BEGIN; UPDATE t SET b = 10 WHERE a = 1").await;
    let requests = [
        (&t, Request::Update(equal(&two), &add, Answer::Number)),
        (&t, Request::Update(equal(&one_), &add, Answer::Number)),
        (&t, Request::Update(equal(&two), &add, Answer::Number)),
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
            assert_eq!(
                ask(&mut session, &t, Request::Delete(equal(&[Value::Int(1)]), Answer::Number)).await,
                "1",
                "{sql}"
            );
        }
    }
    assert!(session.open_table(&opening("t", "nothing", &["a"])).is_err_and(|error| error.code == 1176));
    assert!(session.open_table(&opening("t", "b", &["z"])).is_err_and(|error| error.code == 1054));
    assert!(fixture.engine().session("").unwrap().open_table(&opening("t", "b", &[])).is_err());
}

fn pairs(session: &mut Session, filters: &[&str]) -> OpenTable {
    let opening = Opening { filters, strictness: Strictness::Nearest, ..opening("t", "ab", &["a", "b", "c"]) };
    session.open_table(&opening).unwrap()
}

const PAIRS: &str = "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b INT, c VARCHAR(5), d TINYINT UNSIGNED, KEY ab (a, b)); \
     INSERT INTO t (a, b, c, d) VALUES (1, 1, 'x', 1), (1, 2, NULL, 2), (1, 3, 'y', 3), (2, 1, 'X', NULL), (2, 2, 'z', 200), \
     (3, NULL, 'x', 6), (NULL, 7, 'n', 7)";

#[tokio::test]
async fn filters_skip_rows_or_end_the_search() {
    let fixture = Fixture::new("table-filters");
    let mut session = fixture.session().await;
    run(&mut session, PAIRS).await;
    let t = pairs(&mut session, &["c", "d"]);
    // The rows in the order of the index, as their values of c and d.
    let all: [(Option<&str>, Option<i64>); 7] = [
        (Some("n"), Some(7)),
        (Some("x"), Some(1)),
        (None, Some(2)),
        (Some("y"), Some(3)),
        (Some("x"), None),
        (Some("z"), Some(200)),
        (Some("x"), Some(6)),
    ];
    let names = ["NULL,7,n", "1,1,x", "1,2,NULL", "1,3,y", "2,1,X", "2,2,z", "3,NULL,x"];
    let texts = [None, Some("x"), Some("y")];
    let numbers = [None, Some(2), Some(300)];
    let tests = [
        Test::Compares(Comparison::Equal),
        Test::Compares(Comparison::Less),
        Test::Compares(Comparison::AtMost),
        Test::Compares(Comparison::Greater),
        Test::Compares(Comparison::AtLeast),
        Test::Differs,
    ];
    fn meets<T: PartialOrd>(test: Test, row: &Option<T>, value: &Option<T>) -> bool {
        match test {
            Test::Differs => row != value,
            Test::Compares(Comparison::Equal) => row == value,
            Test::Compares(Comparison::Less) => row < value,
            Test::Compares(Comparison::AtMost) => row <= value,
            Test::Compares(Comparison::Greater) => row > value,
            Test::Compares(Comparison::AtLeast) => row >= value,
        }
    }
    let first = [Value::Null];
    for (test, second) in tests.iter().flat_map(|test| tests.iter().map(move |second| (*test, *second))) {
        for (text, number) in texts.iter().flat_map(|text| numbers.iter().map(move |number| (*text, *number))) {
            for (otherwise, other) in [
                (Otherwise::Skip, Otherwise::Skip),
                (Otherwise::Skip, Otherwise::Stop),
                (Otherwise::Stop, Otherwise::Skip),
            ] {
                let filters = [
                    Filter {
                        column: 0,
                        test,
                        value: text.map_or(Value::Null, |text| Value::Bytes(text.as_bytes())),
                        otherwise,
                    },
                    Filter { column: 1, test: second, value: number.map_or(Value::Null, Value::Int), otherwise: other },
                ];
                // The nearest that the column can hold.
                let number = number.map(|number| number.min(255));
                let mut expected = Vec::new();
                for (row, name) in all.iter().zip(names) {
                    let verdict = match (meets(test, &row.0, &text), meets(second, &row.1, &number)) {
                        (false, _) => Some(otherwise),
                        (_, false) => Some(other),
                        _ => None,
                    };
                    match verdict {
                        None => expected.push(name),
                        Some(Otherwise::Skip) => {}
                        Some(Otherwise::Stop) => break,
                    }
                }
                let rows = Rows { filters: &filters, ..Rows::new(Comparison::AtLeast, &first) };
                assert_eq!(ask(&mut session, &t, Request::Find(rows)).await, expected.join(";"), "{filters:?}");
                let rows = Rows { limit: 2, offset: 1, ..rows };
                let part: Vec<&str> = expected.into_iter().skip(1).take(2).collect();
                assert_eq!(
                    ask(&mut session, &t, Request::Find(rows)).await,
                    part.join(";"),
                    "{filters:?}, two behind one"
                );
            }
        }
    }
    let unknown = [Filter { column: 2, test: Test::Differs, value: Value::Null, otherwise: Otherwise::Skip }];
    let rows = Rows { filters: &unknown, ..Rows::new(Comparison::AtLeast, &first) };
    assert_eq!(ask(&mut session, &t, Request::Find(rows)).await, "error 1235");
}

#[tokio::test]
async fn a_part_of_the_key_has_several_values() {
    let fixture = Fixture::new("table-each");
    let mut session = fixture.session().await;
    run(&mut session, PAIRS).await;
    let t = pairs(&mut session, &["c"]);
    let values = [Value::Int(2), Value::Int(9), Value::Null, Value::Bytes(b"1"), Value::Int(2)];
    let rows = |comparison, key, part, values| Rows { each: Some(Each { part, values }), ..Rows::new(comparison, key) };
    let one_ = [Value::Int(77)];
    let find = rows(Comparison::Equal, &one_, 0, &values);
    let found = "2,1,X;NULL,7,n;1,1,x;2,1,X";
    assert_eq!(ask(&mut session, &t, Request::Find(find)).await, found, "of each the first");
    assert_eq!(ask(&mut session, &t, Request::Find(Rows { limit: 2, offset: 1, ..find })).await, "NULL,7,n;1,1,x");
    assert_eq!(ask(&mut session, &t, Request::Find(rows(Comparison::Equal, &one_, 0, &values[..1]))).await, "2,1,X");
    assert_eq!(ask(&mut session, &t, Request::Find(rows(Comparison::Equal, &one_, 0, &[]))).await, "");
    let key = [Value::Int(1), Value::Null];
    assert_eq!(ask(&mut session, &t, Request::Find(rows(Comparison::Equal, &key, 1, &values[..3]))).await, "1,2,NULL");
    assert_eq!(ask(&mut session, &t, Request::Find(rows(Comparison::Equal, &key, 2, &values))).await, "error 1235");
    for (comparison, found) in [
        (Comparison::Greater, "3,NULL,x;1,1,x;2,1,X;3,NULL,x"),
        (Comparison::AtLeast, "2,1,X;NULL,7,n;1,1,x;2,1,X"),
        (Comparison::Less, "1,3,y;3,NULL,x;NULL,7,n;1,3,y"),
        (Comparison::AtMost, "2,2,z;3,NULL,x;NULL,7,n;1,3,y;2,2,z"),
    ] {
        let rows = rows(comparison, &one_, 0, &values);
        assert_eq!(ask(&mut session, &t, Request::Find(rows)).await, found, "{comparison:?}");
    }
    let filters = [Filter { column: 0, test: Test::Differs, value: Value::Bytes(b"n"), otherwise: Otherwise::Stop }];
    let stopped = Rows { filters: &filters, ..find };
    assert_eq!(ask(&mut session, &t, Request::Find(stopped)).await, "2,1,X");
    // Changes through it: a row that is found twice is changed once.
    let add = [Change::Keep, Change::Add(10)];
    assert_eq!(ask(&mut session, &t, Request::Update(find, &add, Answer::Number)).await, "3");
    let all = "SELECT GROUP_CONCAT(IFNULL(b, '-') ORDER BY id) FROM t";
    assert_eq!(one(&mut session, all).await, "11,2,3,11,2,-,17");
    assert_eq!(ask(&mut session, &t, Request::Delete(find, Answer::Number)).await, "3");
    assert_eq!(one(&mut session, all).await, "11,3,11,-", "the first ones are others by now");
}

/// What a request that answers old rows sends.
async fn old_rows(session: &mut Session, open: &OpenTable, request: Request<'_>) -> String {
    let mut rows = Collected::default();
    session.run_request(open, &request, &mut rows).await.unwrap();
    shown(&rows, true)
}

#[tokio::test]
async fn changed_rows_are_answered_as_they_were() {
    let fixture = Fixture::new("table-old");
    let mut session = fixture.session().await;
    run(&mut session, PAIRS).await;
    let t = pairs(&mut session, &[]);
    let key = [Value::Int(1)];
    let rows = equal(&key);
    let changes = [Change::Keep, Change::Subtract(2), Change::Set(Value::Bytes(b"longer"))];
    for _ in 0..2 {
        // The first run of a plan does not share its commit, later ones do.
        run(
            &mut session,
            "DELETE FROM t WHERE a = 1; INSERT INTO t (a, b, c) VALUES (1, 1, 'x'), (1, 2, NULL), (1, 3, 'y')",
        )
        .await;
        let update = Request::Update(rows, &changes, Answer::OldRows);
        assert_eq!(old_rows(&mut session, &t, update).await, "1,1,x;1,2,NULL;1,3,y");
        let now = "1 x,0 longe,1 longe";
        let all = "SELECT GROUP_CONCAT(b, ' ', c ORDER BY id) FROM t WHERE a = 1";
        assert_eq!(one(&mut session, all).await, now, "a difference does not cross 0");
        let update = Request::Update(rows, &[Change::Keep, Change::Subtract(1)], Answer::Number);
        assert_eq!(ask(&mut session, &t, update).await, "3");
        let delete = Request::Delete(Rows { limit: 2, offset: 1, ..rows }, Answer::OldRows);
        assert_eq!(old_rows(&mut session, &t, delete).await, "1,0,x;1,0,longe");
        assert_eq!(one(&mut session, all).await, "-1 longe");
        let none = Request::Delete(equal(&[Value::Int(99)]), Answer::OldRows);
        assert_eq!(old_rows(&mut session, &t, none).await, "");
    }
    // In a batch, and in a transaction.
    let delete = Request::Delete(rows, Answer::OldRows);
    let insert = Request::Insert(&[Value::Int(1), Value::Int(5)], OnDuplicate::Fail);
    let answers = batch(&mut session, &[(&t, insert), (&t, delete), (&t, insert), (&t, delete), (&t, delete)]).await;
    assert_eq!(answers, ["1", "1,-1,longe;1,5,NULL", "1", "1,5,NULL", "none"]);
    run(&mut session, "BEGIN").await;
    assert_eq!(batch(&mut session, &[(&t, insert), (&t, delete)]).await, ["1", "1,5,NULL"]);
    run(&mut session, "ROLLBACK").await;
    // Numbers that no column can hold, and columns of other types.
    let d = session
        .open_table(&Opening { strictness: Strictness::Nearest, ..opening("t", "PRIMARY", &["d", "c"]) })
        .unwrap();
    run(&mut session, "INSERT INTO t (id, c, d) VALUES (100, '41x', 250)").await;
    let key = [Value::Int(100)];
    for (change, now) in [
        (Change::Add(10), "255,51"),
        (Change::Add(i64::MIN), "0,-9223372036854775757"),
        (Change::Add(i64::MAX), "255,50"),
        (Change::Subtract(51), "255,50"),
        (Change::Subtract(50), "205,0"),
    ] {
        run(&mut session, "ALTER TABLE t MODIFY c VARCHAR(30)").await;
        ask(&mut session, &d, Request::Update(equal(&key), &[change, change], Answer::Number)).await;
        assert_eq!(one(&mut session, "SELECT d, c FROM t WHERE id = 100").await, now, "{change:?}");
    }
}

/// Counts up to a limit, then removes the row.
#[derive(Debug)]
struct CountUpTo(i64, std::cell::Cell<u32>);

impl Revise for CountUpTo {
    fn revise(&self, old: Option<&[tidegate_rows::Param]>) -> Revision {
        use tidegate_rows::Param;
        self.1.set(self.1.get() + 1);
        match old {
            None => Revision::Put(vec![Param::Bytes(b"n".to_vec().into()), Param::Int(1)]),
            Some([_, Param::Int(count)]) if *count >= self.0 => Revision::Delete,
            Some([name, Param::Int(count)]) => Revision::Put(vec![name.clone(), Param::Int(count + 1)]),
            Some(_) => Revision::Keep,
        }
    }
}

#[tokio::test]
async fn rows_are_revised_in_one_step() {
    let fixture = Fixture::new("table-revise");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (name VARCHAR(5) PRIMARY KEY, n INT, twice INT AS (n * 2), CHECK (n < 50))")
        .await;
    let t = open(&mut session, "t", "PRIMARY", &["name", "n"]);
    let key = [Value::Bytes(b"n")];
    let all = "SELECT GROUP_CONCAT(name, n, twice) FROM t";
    let up = CountUpTo(3, Default::default());
    for expected in ["n12", "n24", "n36", "NULL", "n12"] {
        assert_eq!(ask(&mut session, &t, Request::Revise(equal(&key), &up)).await, "1");
        assert_eq!(one(&mut session, all).await, expected);
    }
    assert_eq!(up.1.get(), 5);
    run(&mut session, "UPDATE t SET n = NULL").await;
    assert_eq!(ask(&mut session, &t, Request::Revise(equal(&key), &up)).await, "0", "kept");
    run(&mut session, "UPDATE t SET n = 49").await;
    let far = CountUpTo(100, Default::default());
    assert_eq!(ask(&mut session, &t, Request::Revise(equal(&key), &far)).await, "error 4025");
    assert_eq!(one(&mut session, all).await, "n4998");
    let narrow = open(&mut session, "t", "PRIMARY", &["name"]);
    assert_eq!(ask(&mut session, &narrow, Request::Revise(equal(&[Value::Bytes(b"m")]), &up)).await, "error 1136");
    // In a batch they share commits, and see each other.
    run(&mut session, "DELETE FROM t").await;
    let step = (&t, Request::Revise(equal(&key), &far as &dyn Revise));
    assert_eq!(batch(&mut session, &[step; 5]).await, ["1"; 5]);
    let before = fixture.engine().table_version("test", "t").unwrap();
    assert_eq!(batch(&mut session, &[step; 8]).await, ["1"; 8]);
    assert_eq!(fixture.engine().table_version("test", "t").unwrap() - before, 1);
    assert_eq!(one(&mut session, all).await, "n1326");
}

#[tokio::test]
async fn nobody_comes_between_a_revision_and_its_row() {
    let fixture = Fixture::new("table-revise-many");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (name VARCHAR(5) PRIMARY KEY, n INT)").await;
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let engine = fixture.engine().clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut session = engine.session("test").unwrap();
                    let t = open(&mut session, "t", "PRIMARY", &["name", "n"]);
                    let far = CountUpTo(i64::MAX, Default::default());
                    for _ in 0..50 {
                        let request = Request::Revise(equal(&[Value::Bytes(b"n")]), &far);
                        assert_eq!(ask(&mut session, &t, request).await, "1");
                    }
                });
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert_eq!(one(&mut session, "SELECT n FROM t").await, "200");
    // A row that a transaction has changed is waited for, and seen as it has left it.
    let mut other = fixture.session().await;
    run(&mut other, "BEGIN; UPDATE t SET n = 1000").await;
    let t = open(&mut session, "t", "PRIMARY", &["name", "n"]);
    let far = CountUpTo(i64::MAX, Default::default());
    let key = [Value::Bytes(b"n")];
    let (done, ()) = tokio::join!(ask(&mut session, &t, Request::Revise(equal(&key), &far)), async {
        tokio::task::yield_now().await;
        run(&mut other, "COMMIT").await;
    });
    assert_eq!(done, "1");
    assert_eq!(one(&mut session, "SELECT n FROM t").await, "1001");
}

#[tokio::test]
async fn tables_of_other_schemas_and_their_shapes() {
    let fixture = Fixture::new("table-schemas");
    let mut session = fixture.session().await;
    run(
        &mut session,
        "CREATE DATABASE other; CREATE TABLE other.t (a INT UNIQUE, id INT AUTO_INCREMENT PRIMARY KEY, c TEXT)",
    )
    .await;
    run(&mut session, "CREATE VIEW v AS SELECT 1").await;
    let opening = Opening { schema: "other", ..opening("t", "PRIMARY", &["id", "a"]) };
    let t = session.open_table(&opening).unwrap();
    let values = [Value::Null, Value::Int(5)];
    assert_eq!(batch(&mut session, &[(&t, insert(&values)), (&t, insert(&values))]).await, ["1", "error 1062"]);
    // Without a current schema.
    let mut homeless = fixture.engine().session("").unwrap();
    let key = [Value::Int(1)];
    let find = Request::Find(equal(&key));
    assert_eq!(ask(&mut homeless, &t, find).await, "1,5");
    assert_eq!(batch(&mut homeless, &[(&t, find), (&t, find)]).await, ["1,5", "1,5"]);
    let shape = homeless.shape_of("other", "t").unwrap();
    let indexes: Vec<_> =
        shape.indexes.iter().map(|index| (index.name.as_str(), &index.columns[..], index.is_unique)).collect();
    assert_eq!(indexes, [("PRIMARY", &[1][..], true), ("a", &[0], true)]);
    assert_eq!((shape.columns.len(), shape.auto_increment), (3, Some(1)));
    assert_eq!(session.shape_of("", "v").unwrap_err().code, 1146);
    assert_eq!(homeless.shape_of("", "t").unwrap_err().code, 1046);
    assert_eq!(homeless.shape_of("nothing", "t").unwrap_err().code, 1049);
    run(&mut session, "DROP DATABASE other").await;
    assert_eq!(ask(&mut homeless, &t, find).await, "error 1049");
    run(
        &mut session,
        "CREATE DATABASE other; CREATE TABLE other.t (a INT, id INT PRIMARY KEY); INSERT INTO other.t VALUES (8, 1)",
    )
    .await;
    assert_eq!(ask(&mut homeless, &t, find).await, "1,8");
}
