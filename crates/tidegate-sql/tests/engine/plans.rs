//! Which indexes statements use: what EXPLAIN names.

use std::{sync::mpsc, time::Duration};

use super::{Fixture, Session, code, one, run};

/// Checks which key reads `table` in a statement's plan.
async fn check_key(session: &mut Session, sql: &str, table: &str, key: &str) {
    let plan = run(session, &format!("EXPLAIN {sql}")).await.rows;
    let keys: Vec<&str> = plan.iter().filter(|row| row[2] == table).map(|row| row[5].as_str()).collect();
    assert_eq!(keys, [key], "{sql}: {plan:?}");
}

#[tokio::test]
async fn columns_with_and_without_sign_are_looked_up_from_either_side() {
    let fixture = Fixture::new("signs");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE post (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, kind INT, KEY kind (kind))")
        .await;
    run(
        &mut session,
        "CREATE TABLE meta (n INT PRIMARY KEY, post BIGINT UNSIGNED, word INT, KEY post (post), KEY word (word))",
    )
    .await;
    run(&mut session, "INSERT INTO post VALUES (1, 1), (2, 1), (3, 2)").await;
    run(
        &mut session,
        "INSERT INTO meta VALUES (1, 1, 5), (2, 1, 6), (3, 3, 5), (4, 18446744073709551615, 7), (-1, NULL, 8)",
    )
    .await;
    let outer = "SELECT post.id, meta.n FROM post LEFT JOIN meta ON meta.post = post.id";
    check_key(&mut session, outer, "meta", "post").await;
    check_key(&mut session, "SELECT * FROM meta LEFT JOIN post ON meta.post = post.id", "post", "PRIMARY").await;
    let within = "SELECT n FROM meta WHERE post IN (SELECT id FROM post WHERE kind = 1)";
    check_key(&mut session, within, "meta", "post").await;
    assert_eq!(one(&mut session, &format!("{outer} ORDER BY 1, 2")).await, "1,1;1,2;2,NULL;3,3");
    assert_eq!(one(&mut session, &format!("{within} ORDER BY n")).await, "1;2");
    // -1 has the bits of the largest number without sign.
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM meta a JOIN meta b ON a.n = b.post").await, "3");
}

#[tokio::test]
async fn a_beginning_is_looked_up_in_an_index() {
    let fixture = Fixture::new("beginnings");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(50), u VARCHAR(50), KEY s (s))").await;
    run(
        &mut session,
        "INSERT INTO t VALUES (1, 'Abc', 'x'), (2, 'abd', 'x'), (3, 'äbz', 'x'), (4, 'b', 'x'), (5, NULL, 'x')",
    )
    .await;
    check_key(&mut session, "SELECT * FROM t WHERE s LIKE 'ab%'", "t", "s").await;
    check_key(&mut session, "SELECT * FROM t WHERE s LIKE '\\_b%'", "t", "s").await;
    for scanned in ["s LIKE '%b'", "s LIKE '_b%'", "s NOT LIKE 'ab%'", "u LIKE 'ab%'"] {
        check_key(&mut session, &format!("SELECT * FROM t WHERE {scanned}"), "t", "NULL").await;
    }
    // One text after the other, whose plans differ.
    for (pattern, expected) in [("ab%", "1;2;3"), ("%b%", "1;2;3;4"), ("a%", "1;2;3"), ("_b%", "1;2;3"), ("b%", "4")] {
        let sql = format!("SELECT id FROM t WHERE s LIKE '{pattern}' ORDER BY id");
        assert_eq!(one(&mut session, &sql).await, expected, "{sql}");
        assert_eq!(one(&mut session, &sql).await, expected, "{sql} again");
    }
    // The same of a parameter: its value decides whether there is a range.
    run(&mut session, "PREPARE find FROM 'SELECT id FROM t WHERE s LIKE ? ORDER BY id'").await;
    run(&mut session, "PREPARE shown FROM 'EXPLAIN SELECT * FROM t WHERE s LIKE ?'").await;
    let patterns = [
        ("'ab%'", "s", "1;2;3"),
        ("'%b%'", "NULL", "1;2;3;4"),
        ("'b%'", "s", "4"),
        ("''", "NULL", ""),
        ("'\\\\_b%'", "NULL", ""),
        ("'a%'", "s", "1;2;3"),
        ("5", "NULL", ""),
    ];
    for (pattern, key, expected) in patterns {
        run(&mut session, &format!("SET @pattern = {pattern}")).await;
        assert_eq!(one(&mut session, "EXECUTE find USING @pattern").await, expected, "{pattern}");
        let plan = run(&mut session, "EXECUTE shown USING @pattern").await.rows;
        assert_eq!(plan[0][5], key, "{pattern}");
        assert_eq!(one(&mut session, "EXECUTE find USING @pattern").await, expected, "{pattern} again");
    }
    run(&mut session, "UPDATE t SET u = 'y' WHERE s LIKE 'ab%'").await;
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM t WHERE u LIKE 'Y'").await, "3");
}

/// The key that reads `t` for a condition on a column of few values and one of many.
async fn chosen(session: &mut Session, table: &str) -> String {
    run(session, &format!("EXPLAIN SELECT * FROM {table} WHERE few = 1 AND many = 7")).await.rows[0][5].clone()
}

/// A table of whose keys SQLite takes the worse one if it knows nothing of them.
async fn make_table(session: &mut Session, name: &str, rows: u32) {
    run(session, &format!("CREATE TABLE {name} (few INT, many INT, word VARCHAR(10), KEY many (many), KEY few (few))"))
        .await;
    insert(session, name, rows).await;
}

async fn insert(session: &mut Session, name: &str, rows: u32) {
    let numbers = format!("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) SELECT");
    run(session, &format!("INSERT INTO {name} {numbers} i % 2, i, 'word' FROM n")).await;
}

/// So often somebody looks before it is a failure: several minutes.
const LOOKS_MAX: u32 = 10_000;

/// Waits until the thread for statistics has seen that `many` is the better key.
async fn wait_for_statistics(session: &mut Session, table: &str) {
    for _ in 0..LOOKS_MAX {
        if chosen(session, table).await == "many" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no statistics of {table}");
}

#[tokio::test]
async fn analyze_table_tells_the_planner_of_all_connections() {
    let mut fixture = Fixture::new("analyze");
    fixture.open_again(|options| options.renews_statistics = false);
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    make_table(&mut a, "t", 1000).await;
    let (other, (seen, wait), (analysed, go_on)) = (fixture.engine().clone(), mpsc::channel(), mpsc::channel());
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // The connection has read the definitions before.
            let mut session = other.session("test").unwrap();
            assert_eq!(chosen(&mut session, "t").await, "few");
            seen.send(()).unwrap();
            go_on.recv().unwrap();
            assert_eq!(chosen(&mut session, "t").await, "many");
        });
    });
    wait.recv().unwrap();
    run(&mut b, "BEGIN; INSERT INTO t VALUES (1, 1001, 'x')").await;
    assert_eq!(one(&mut a, "ANALYZE TABLE t").await, "test.t,analyze,status,OK", "beside an open transaction");
    run(&mut b, "INSERT INTO t VALUES (1, 1002, 'x'); COMMIT").await;
    analysed.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(chosen(&mut a, "t").await, "many");
    assert_eq!(one(&mut a, "SELECT COUNT(*) FROM t").await, "1002");
    assert_eq!(code(&mut a, "ANALYZE TABLE nosuch").await, 0, "the error is a row");
    run(&mut a, "CREATE VIEW v AS SELECT * FROM t").await;
    assert_eq!(one(&mut a, "ANALYZE TABLE v").await, "test.v,analyze,status,OK");
}

#[tokio::test]
async fn statistics_are_made_where_much_has_changed() {
    let mut fixture = Fixture::new("statistics");
    fixture.open_again(|options| options.renews_statistics = false);
    let mut session = fixture.session().await;
    make_table(&mut session, "t", 90).await;
    assert_eq!(chosen(&mut session, "t").await, "few");
    drop(session);
    fixture.open_again(|_| {});
    let mut session = fixture.session().await;
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM t").await, "90", "the first look at the schema");
    wait_for_statistics(&mut session, "t").await;
    make_table(&mut session, "u", 400).await;
    wait_for_statistics(&mut session, "u").await;
    run(&mut session, "ALTER TABLE u ADD n INT FIRST, DROP word, ADD word INT").await;
    wait_for_statistics(&mut session, "u").await;
    run(&mut session, "ALTER TABLE u DROP KEY many; ALTER TABLE u ADD KEY many (many)").await;
    wait_for_statistics(&mut session, "u").await;
    // Dropping them together with what else changes: nothing is left to look at.
    run(&mut session, "DELETE FROM u; TRUNCATE t; DROP TABLE t; DROP TABLE u; CREATE TABLE u (n INT)").await;
    assert_eq!(one(&mut session, "ANALYZE TABLE u").await, "test.u,analyze,status,OK");
}
