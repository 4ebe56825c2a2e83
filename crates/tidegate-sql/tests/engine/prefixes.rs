//! Unique indexes over the beginning of a column: for transactions side by side, for those who open the table, after a restart.

use tidegate_rows::{QueryError, Value};
use tidegate_sql::table::{OnDuplicate, Opening, Request, Rows as Wanted, Strictness};

use super::{Fixture, Rows, code, one, run};

const TABLE: &str = "CREATE TABLE p (k LONGTEXT, v VARCHAR(600), n INT, PRIMARY KEY (k(4)), KEY i (v(3), k(2)))";

#[tokio::test]
async fn transactions_lock_the_beginnings_of_keys() {
    let fixture = Fixture::new("prefix-locks");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, TABLE).await;
    run(&mut b, "SET innodb_lock_wait_timeout = 0").await;
    run(&mut a, "BEGIN; INSERT INTO p VALUES ('abcde', 'a', 1)").await;
    run(&mut b, "BEGIN; INSERT INTO p VALUES ('abc', 'b', 1)").await;
    assert_eq!(code(&mut b, "INSERT INTO p VALUES ('ABCDx', 'b', 2)").await, 1205, "the same beginning");
    run(&mut a, "COMMIT").await;
    assert_eq!(code(&mut b, "INSERT INTO p VALUES ('ABCDx', 'b', 2)").await, 1062);
    run(&mut b, "COMMIT").await;
    assert_eq!(one(&mut a, "SELECT GROUP_CONCAT(k ORDER BY k) FROM p").await, "abc,abcde");
    run(&mut a, "BEGIN; UPDATE p SET k = 'xyz' WHERE k = 'abcde'").await;
    assert_eq!(code(&mut b, "INSERT INTO p VALUES ('abcdx', 'b', 2)").await, 1205, "it may come back");
    run(&mut a, "ROLLBACK").await;
    assert_eq!(code(&mut b, "INSERT INTO p VALUES ('abcdx', 'b', 2)").await, 1062);
}

#[tokio::test]
async fn open_tables_have_indexes_over_prefixes() {
    let mut fixture = Fixture::new("prefix-open");
    let mut session = fixture.session().await;
    run(&mut session, TABLE).await;
    for again in [false, true] {
        if again {
            drop(session);
            fixture.open_again(|_| ());
            session = fixture.session().await;
        }
        let opening = |index| Opening {
            schema: "",
            table: "p",
            index,
            columns: &["k", "v"],
            filters: &[],
            strictness: Strictness::Exact,
        };
        let (by_key, by_value) = (session.open_table(&opening("PRIMARY")), session.open_table(&opening("i")));
        let (by_key, by_value) = (by_key.unwrap(), by_value.unwrap());
        let mut ask = async |open, request: Request<'_>| {
            let mut rows = Rows::default();
            match session.run_request(open, &request, &mut rows).await {
                Ok(()) => rows.rows.iter().map(|row| row.join(",")).collect::<Vec<_>>().join(";"),
                Err(QueryError::Server(error)) => format!("error {}", error.code),
                Err(error) => panic!("{error}"),
            }
        };
        let row = |key| [Value::Bytes(key), Value::Bytes(b"value")];
        if !again {
            for key in [&b"abcdefgh"[..], b"abc", b"q"] {
                assert_eq!(ask(&by_key, Request::Insert(&row(key), OnDuplicate::Fail)).await, "");
            }
        }
        assert_eq!(ask(&by_key, Request::Insert(&row(b"abcdx"), OnDuplicate::Fail)).await, "error 1062");
        for (key, found) in [(&b"abcdefgh"[..], "abcdefgh,value"), (b"abcdx", ""), (b"abc", "abc,value")] {
            let key = [Value::Bytes(key)];
            assert_eq!(ask(&by_key, Request::Find(Wanted::with_key(&key))).await, found);
        }
        let key = row(b"q");
        assert_eq!(ask(&by_value, Request::Find(Wanted::with_key(&[key[1], key[0]]))).await, "q,value");
    }
    let plan = run(&mut session, "EXPLAIN FORMAT=JSON SELECT v FROM p WHERE k = 'abc'").await;
    assert!(plan.rows[0][0].contains("\"key\": \"PRIMARY\""), "{:?}", plan.rows);
}
