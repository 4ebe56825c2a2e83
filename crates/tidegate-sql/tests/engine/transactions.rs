//! Transactions: snapshots, savepoints, several schemas.

use super::{Fixture, code, one, run};

#[tokio::test]
async fn writing_moves_the_snapshot_forward() {
    let fixture = Fixture::new("snapshot");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)").await;
    run(&mut a, "BEGIN; SELECT * FROM t").await;
    run(&mut b, "UPDATE t SET n = 2").await;
    assert_eq!(one(&mut a, "SELECT n FROM t").await, "1", "REPEATABLE READ");
    run(&mut a, "UPDATE t SET n = n * 10").await;
    assert_eq!(one(&mut a, "SELECT n FROM t").await, "20");
    run(&mut a, "COMMIT; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; SELECT * FROM t").await;
    run(&mut b, "UPDATE t SET n = 5").await;
    assert_eq!(one(&mut a, "SELECT n FROM t").await, "5");
    run(&mut a, "UPDATE t SET n = n + 1; COMMIT").await;
    assert_eq!(one(&mut b, "SELECT n FROM t").await, "6");
}

#[tokio::test]
async fn a_consistent_snapshot_is_of_its_first_moment() {
    let fixture = Fixture::new("consistent");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut b, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)").await;
    run(&mut b, "CREATE DATABASE second; CREATE TABLE second.u (n INT); INSERT INTO second.u VALUES (1)").await;
    run(&mut a, "START TRANSACTION WITH CONSISTENT SNAPSHOT").await;
    run(&mut b, "UPDATE t SET n = 2; UPDATE second.u SET n = 2").await;
    assert_eq!(one(&mut a, "SELECT n FROM t").await, "1");
    assert_eq!(one(&mut a, "SELECT n FROM second.u").await, "1");
    run(&mut a, "COMMIT").await;
    assert_eq!(one(&mut a, "SELECT n FROM t").await, "2");
    // As mysqldump begins: no schema is chosen yet.
    let mut dump = fixture.engine().session("").unwrap();
    run(&mut dump, "START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */").await;
    run(&mut b, "UPDATE t SET n = 3; UPDATE second.u SET n = 3").await;
    run(&mut dump, "USE test").await;
    assert_eq!(one(&mut dump, "SELECT n FROM t").await, "2");
    run(&mut dump, "USE second").await;
    assert_eq!(one(&mut dump, "SELECT n FROM u").await, "2");
    assert_eq!(one(&mut dump, "SELECT n FROM test.t").await, "2");
    assert_eq!(code(&mut dump, "SELECT * FROM test.t JOIN u").await, 1235, "on a snapshot of its own");
    // Without the phrase the first read takes the snapshot; READ COMMITTED takes none.
    run(&mut dump, "COMMIT; BEGIN").await;
    run(&mut b, "UPDATE t SET n = 4").await;
    assert_eq!(one(&mut dump, "SELECT n FROM test.t").await, "4");
    run(&mut dump, "COMMIT; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await;
    run(&mut dump, "START TRANSACTION WITH CONSISTENT SNAPSHOT").await;
    run(&mut b, "UPDATE t SET n = 5").await;
    assert_eq!(one(&mut dump, "SELECT n FROM test.t").await, "5");
}

#[tokio::test]
async fn a_transaction_writes_to_one_schema_and_reads_others() {
    let fixture = Fixture::new("places");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (n INT); CREATE DATABASE second; CREATE TABLE second.u (n INT)").await;
    run(&mut a, "BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s; INSERT INTO t VALUES (2)").await;
    assert_eq!(one(&mut a, "SELECT COUNT(*) FROM second.u").await, "0");
    assert_eq!(code(&mut a, "INSERT INTO second.u VALUES (1)").await, 1235);
    assert_eq!(code(&mut a, "SELECT COUNT(*) FROM second.u JOIN t").await, 1235);
    assert_eq!(one(&mut a, "SELECT COUNT(*) FROM t").await, "2");
    run(&mut a, "ROLLBACK TO s; COMMIT").await;
    assert_eq!(one(&mut b, "SELECT n FROM t").await, "1");
    run(&mut a, "BEGIN; SELECT * FROM second.u; INSERT INTO t VALUES (3); SELECT * FROM second.u; ROLLBACK").await;
    assert_eq!(one(&mut b, "SELECT n FROM t").await, "1");
    run(&mut b, "INSERT INTO second.u VALUES (1); INSERT INTO t VALUES (4)").await;
}

#[tokio::test]
async fn savepoints_before_the_first_write() {
    let fixture = Fixture::new("savepoints");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (n INT)").await;
    // As Django does: autocommit off, and the savepoint comes first.
    run(&mut a, "SET autocommit = 0; SAVEPOINT s; INSERT INTO t VALUES (1); ROLLBACK TO s; COMMIT").await;
    assert_eq!(one(&mut b, "SELECT COUNT(*) FROM t").await, "0");
    run(&mut a, "SAVEPOINT s; INSERT INTO t VALUES (1); RELEASE SAVEPOINT s; ROLLBACK").await;
    assert_eq!(one(&mut b, "SELECT COUNT(*) FROM t").await, "0");
    run(&mut a, "SET autocommit = 1").await;
    for begin in ["BEGIN", "BEGIN; SELECT * FROM t", "SET autocommit = 0; SELECT * FROM t"] {
        for level in ["READ COMMITTED", "REPEATABLE READ"] {
            run(&mut a, &format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}; {begin}")).await;
            run(&mut a, "SAVEPOINT one; SELECT * FROM t; SAVEPOINT two; INSERT INTO t VALUES (1)").await;
            run(&mut a, "ROLLBACK TO two").await;
            assert_eq!(one(&mut a, "SELECT COUNT(*) FROM t").await, "0", "{begin} {level}");
            run(&mut a, "INSERT INTO t VALUES (2); ROLLBACK TO ONE; COMMIT; SET autocommit = 1").await;
            assert_eq!(one(&mut b, "SELECT COUNT(*) FROM t").await, "0", "{begin} {level}");
        }
    }
    // READ COMMITTED goes on seeing what others commit.
    run(&mut a, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; SAVEPOINT s; SELECT * FROM t").await;
    run(&mut b, "INSERT INTO t VALUES (7)").await;
    assert_eq!(one(&mut a, "SELECT n FROM t").await, "7");
    run(&mut a, "UPDATE t SET n = 8; ROLLBACK TO s; COMMIT").await;
    assert_eq!(one(&mut b, "SELECT n FROM t").await, "7");
    // Without a transaction there is nothing to keep it in.
    run(&mut a, "SAVEPOINT s").await;
    assert_eq!(code(&mut a, "ROLLBACK TO s").await, 1305);
}

#[tokio::test]
async fn a_transaction_that_sqlite_has_undone_is_over() {
    let fixture = Fixture::new("undone");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (n INT); CREATE TABLE mum (i INT PRIMARY KEY); INSERT INTO mum VALUES (1), (2)").await;
    run(&mut a, "CREATE TABLE kit (mum INT, FOREIGN KEY (mum) REFERENCES mum (i) ON DELETE CASCADE); INSERT INTO kit VALUES (1)").await;
    for _ in 0..14 {
        run(&mut a, "INSERT INTO kit SELECT mum FROM kit").await;
    }
    // Longer and longer, until the statement has the time that it needs: most of that goes into the kittens. On a busy machine it
    // may have been interrupted before it wrote each time, and is tried again.
    let (mut limit, mut undone, mut ended, mut passes) = (0.002, 0, 1969, 0);
    while ended == 1969 || (undone == 0 && passes < 1000) {
        run(&mut a, &format!("BEGIN; INSERT INTO t VALUES (1); SET max_statement_time = {limit:.6}")).await;
        ended = code(&mut a, "DELETE FROM mum WHERE i = 1").await;
        run(&mut a, "SET max_statement_time = 0").await;
        // What was written before is there exactly as long as the transaction is.
        assert_eq!(one(&mut a, "SELECT COUNT(*) FROM t").await == "1", a.in_transaction());
        if !a.in_transaction() {
            undone += 1;
            // Nobody waits for a transaction that is over.
            run(&mut b, "INSERT INTO kit VALUES (2)").await;
        }
        run(&mut a, "ROLLBACK").await;
        assert_eq!(one(&mut a, "SELECT COUNT(*) FROM t").await, "0");
        limit *= 1.4;
        if ended == 0 {
            (limit, passes) = (0.002, passes + 1);
        }
    }
    assert_eq!(ended, 0);
    assert!(undone > 0, "no statement was interrupted while it wrote");
}
