//! FULLTEXT indexes follow their rows, whatever changes these.

use super::{Fixture, code, one, run};
use tidegate_rows::Value;
use tidegate_sql::{
    Session,
    table::{Answer, Change, OnDuplicate, Opening, Request, Rows, Strictness},
};

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a MEDIUMTEXT, FULLTEXT KEY ft (a))";

/// The rows that a search finds.
async fn found(session: &mut Session, search: &str) -> String {
    let sql = format!("SELECT id FROM t WHERE MATCH(a) AGAINST('{search}' IN BOOLEAN MODE) ORDER BY id");
    one(session, &sql).await
}

/// Checks that searches find the rows that LIKE finds.
async fn check(session: &mut Session, words: &[&str]) {
    for word in words {
        let like = one(session, &format!("SELECT id FROM t WHERE a LIKE '%{word}%' ORDER BY id")).await;
        assert_eq!(found(session, word).await, like, "{word}");
    }
}

#[tokio::test]
async fn transactions_side_by_side_keep_their_words() {
    let fixture = Fixture::new("fulltext-side-by-side");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, TABLE).await;
    run(&mut a, "INSERT INTO t (a) VALUES ('common first'), ('common second'), ('common third')").await;
    run(&mut a, "BEGIN").await;
    run(&mut b, "BEGIN").await;
    run(&mut a, "UPDATE t SET a = 'common apple' WHERE id = 1").await;
    run(&mut b, "UPDATE t SET a = 'common berry' WHERE id = 2").await;
    run(&mut a, "INSERT INTO t (a) VALUES ('apple again')").await;
    run(&mut b, "INSERT INTO t (a) VALUES ('berry again')").await;
    run(&mut b, "DELETE FROM t WHERE id = 3").await;
    // Each sees its own changes, and not those of the other.
    assert_eq!((found(&mut a, "apple").await, found(&mut a, "berry").await), ("1;4".into(), String::new()));
    assert_eq!((found(&mut b, "apple").await, found(&mut b, "berry").await), (String::new(), "2;5".into()));
    run(&mut a, "COMMIT").await;
    run(&mut b, "UPDATE t SET a = CONCAT(a, ' more') WHERE id = 2").await;
    run(&mut b, "COMMIT").await;
    for session in [&mut a, &mut b] {
        assert_eq!(found(session, "apple").await, "1;4");
        assert_eq!(found(session, "berry").await, "2;5");
        assert_eq!(found(session, "common").await, "1;2");
        assert_eq!(found(session, "more third first second").await, "2");
    }
    run(&mut a, "BEGIN").await;
    run(&mut a, "DELETE FROM t").await;
    run(&mut a, "INSERT INTO t (a) VALUES ('berry')").await;
    run(&mut a, "ROLLBACK").await;
    assert_eq!(found(&mut a, "berry").await, "2;5");
    assert_eq!(one(&mut a, "CHECK TABLE t").await, "test.t,check,status,OK");
}

#[tokio::test]
async fn large_transactions_and_definitions_keep_the_words() {
    let mut fixture = Fixture::new("fulltext-large");
    let mut session = fixture.session().await;
    run(&mut session, TABLE).await;
    run(&mut session, "BEGIN").await;
    for from in (0..3000).step_by(500) {
        let rows: Vec<String> = (from..from + 500).map(|n| format!("('number{} group{}')", n, n % 7)).collect();
        run(&mut session, &format!("INSERT INTO t (a) VALUES {}", rows.join(", "))).await;
    }
    run(&mut session, "UPDATE t SET a = CONCAT(a, ' updated') WHERE id % 3 = 0").await;
    run(&mut session, "DELETE FROM t WHERE id % 5 = 0").await;
    run(&mut session, "COMMIT").await;
    let words = ["group3", "updated", "number2999", "number1451"];
    check(&mut session, &words).await;
    run(&mut session, "ALTER TABLE t ADD COLUMN b INT NOT NULL DEFAULT 7, MODIFY a VARCHAR(200) NOT NULL").await;
    check(&mut session, &words).await;
    run(&mut session, "OPTIMIZE TABLE t").await;
    check(&mut session, &words).await;
    drop(session);
    fixture.open_again(|_| ());
    let mut session = fixture.session().await;
    check(&mut session, &words).await;
    run(&mut session, "REPLACE INTO t (id, a) VALUES (3, 'replaced row'), (4, 'replaced row')").await;
    run(&mut session, "INSERT INTO t (id, a) VALUES (3, 'x') ON DUPLICATE KEY UPDATE a = 'written twice'").await;
    assert_eq!(found(&mut session, "replaced").await, "4");
    assert_eq!(found(&mut session, "twice").await, "3");
    check(&mut session, &words).await;
}

#[tokio::test]
async fn requests_without_sql_change_the_words() {
    let fixture = Fixture::new("fulltext-requests");
    let mut session = fixture.session().await;
    run(&mut session, TABLE).await;
    let opening = |index| Opening {
        schema: "",
        table: "t",
        index,
        columns: &["id", "a"],
        filters: &[],
        strictness: Strictness::Exact,
    };
    // Nobody finds rows in it by values.
    assert_eq!(session.open_table(&opening("ft")).err().map(|error| error.code), Some(1176));
    let open = session.open_table(&opening("PRIMARY")).unwrap();
    let mut answers = super::Rows::default();
    let key = [Value::Int(1)];
    let rows = Rows::with_key(&key);
    let row = [Value::Int(1), Value::Bytes(b"written without words")];
    session.run_request(&open, &Request::Insert(&row, OnDuplicate::Fail), &mut answers).await.unwrap();
    assert_eq!(found(&mut session, "written").await, "1");
    let changes = [Change::Keep, Change::Set(Value::Bytes(b"other contents"))];
    session.run_request(&open, &Request::Update(rows, &changes, Answer::Number), &mut answers).await.unwrap();
    assert_eq!(found(&mut session, "written").await, "");
    assert_eq!(found(&mut session, "+other +contents").await, "1");
    session.run_request(&open, &Request::Delete(rows, Answer::Number), &mut answers).await.unwrap();
    assert_eq!(found(&mut session, "contents").await, "");
}

#[tokio::test]
async fn searches_that_ask_too_much_are_refused() {
    let fixture = Fixture::new("fulltext-hostile");
    let mut session = fixture.session().await;
    run(&mut session, TABLE).await;
    run(&mut session, "INSERT INTO t (a) VALUES ('one word'), (REPEAT('x', 1000000)), (REPEAT('many words ', 50000))")
        .await;
    let search = |text: &str| format!("SELECT id FROM t WHERE MATCH(a) AGAINST('{text}' IN BOOLEAN MODE) ORDER BY id");
    assert_eq!(code(&mut session, &search(&"(".repeat(100_000))).await, 1235);
    let nested = format!("{}word{}", "(".repeat(60), ")".repeat(60));
    assert_eq!(one(&mut session, &search(&nested)).await, "1");
    let long: String = (0..5000).map(|n| format!("word{n} ")).collect();
    assert_eq!(one(&mut session, &search(&format!("{long} many"))).await, "3");
    assert_eq!(one(&mut session, &search(&format!("\"{}\"", "many words ".repeat(20)))).await, "3");
    assert_eq!(one(&mut session, &search(&format!("\"{}\"", "x".repeat(100_000)))).await, "");
    let sql = "SELECT id FROM t WHERE MATCH(a) AGAINST('word' WITH QUERY EXPANSION)";
    assert_eq!(code(&mut session, sql).await, 1235);
    assert_eq!(code(&mut session, "SELECT id FROM (SELECT * FROM t) d WHERE MATCH(a) AGAINST('word')").await, 1235);
    // Other schemas, and two searches in one statement.
    run(
        &mut session,
        "CREATE DATABASE other; CREATE TABLE other.t LIKE test.t; INSERT INTO other.t VALUES (9, 'far word')",
    )
    .await;
    let sql = "SELECT o.id, t.id FROM other.t o, t WHERE MATCH(o.a) AGAINST('far') AND MATCH(t.a) AGAINST('one')";
    assert_eq!(one(&mut session, sql).await, "9,1");
}
