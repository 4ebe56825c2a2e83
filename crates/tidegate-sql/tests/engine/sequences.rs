//! Sequences: no number is given twice, whoever asks, whatever is rolled back, however the process ends. What they give is in the
//! differential suite (`corpus/sequences.sql`).

use std::{collections::BTreeSet, fs};

use super::{Fixture, code, one, run};

/// What a process that begins now finds in the directory: as if the one that has it had been killed.
fn after_kill(fixture: &Fixture, name: &str) -> Fixture {
    let mut copy = Fixture::new(name);
    copy.engine = None;
    // The log last: it has all that may go into the file meanwhile.
    for file in ["test.db", "test.db-wal"] {
        fs::copy(fixture.path.join(file), copy.path.join(file)).unwrap();
    }
    copy.open_again(|_| {});
    copy
}

async fn number(session: &mut tidegate_sql::Session, sql: &str) -> i64 {
    one(session, sql).await.parse().unwrap()
}

#[tokio::test]
async fn threads_share_a_sequence() {
    const COUNT: usize = 60;
    let fixture = Fixture::new("sequence-threads");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE SEQUENCE s CACHE 7; CREATE TABLE t (a BIGINT DEFAULT NEXTVAL(s), b INT)").await;
    let engine = fixture.engine();
    let given: Vec<i64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    runtime.block_on(async {
                        let mut session = engine.session("test").unwrap();
                        let mut given = Vec::new();
                        for round in 0..COUNT {
                            match (thread + round) % 3 {
                                0 => run(&mut session, "INSERT INTO t (b) VALUES (1), (2)").await,
                                1 => run(&mut session, "BEGIN; INSERT INTO t (b) VALUES (3); ROLLBACK").await,
                                _ => run(&mut session, "BEGIN; INSERT INTO t (b) VALUES (4); COMMIT").await,
                            };
                            given.push(number(&mut session, "SELECT NEXTVAL(s)").await);
                        }
                        given
                    })
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(given.len(), 3 * COUNT);
    let stored = run(&mut session, "SELECT a FROM t").await.rows;
    assert_eq!(stored.len(), 3 * COUNT, "two, none or one for each turn");
    let mut all: BTreeSet<i64> = given.iter().copied().collect();
    all.extend(stored.iter().map(|row| row[0].parse::<i64>().unwrap()));
    assert_eq!(all.len(), given.len() + stored.len(), "a number was given twice");
}

#[tokio::test]
async fn no_end_of_the_process_gives_a_number_back() {
    let fixture = Fixture::new("sequence-kill");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE SEQUENCE s CACHE 5; CREATE TABLE t (a BIGINT DEFAULT NEXTVAL(s), b INT)").await;
    let mut last = 0;
    let statements = [
        "SELECT NEXTVAL(s)",
        "INSERT INTO t (b) VALUES (1), (2), (3), (4), (5), (6), (7); SELECT LASTVAL(s)",
        "BEGIN; INSERT INTO t (b) VALUES (1); ROLLBACK; SELECT LASTVAL(s)",
        "DO SETVAL(s, 100); SELECT NEXTVAL(s)",
        "ALTER SEQUENCE s INCREMENT 3; SELECT NEXTVAL(s)",
        "BEGIN; SELECT NEXTVAL(s)",
        "COMMIT; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN; SELECT COUNT(*) FROM t; COMMIT; SELECT NEXTVAL(s)",
    ];
    for (round, sql) in statements.into_iter().enumerate() {
        let rows = run(&mut session, sql).await.rows;
        let given: i64 = rows.last().unwrap()[0].parse().unwrap();
        assert!(given > last, "{sql}: {given} behind {last}");
        last = given;
        let copy = after_kill(&fixture, &format!("sequence-killed-{round}"));
        let mut other = copy.engine().session("test").unwrap();
        let next = number(&mut other, "SELECT NEXTVAL(s)").await;
        assert!(next > last, "{sql}: {next} was given before {last}");
        let most = number(&mut other, "SELECT COALESCE(MAX(a), 0) FROM t").await;
        assert!(next > most, "{sql}: {next} is in a row already");
    }
}

#[tokio::test]
async fn the_only_writer_of_a_schema_takes_numbers_too() {
    let fixture = Fixture::new("sequence-writer");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE SEQUENCE s NOCACHE; CREATE TABLE t (a BIGINT DEFAULT (NEXTVAL(s)), b INT)").await;
    run(&mut a, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN; INSERT INTO t (b) VALUES (1)").await;
    run(&mut a, "INSERT INTO t (b) SELECT b FROM t").await;
    let first = number(&mut a, "SELECT MAX(a) FROM t").await;
    let second = number(&mut a, "SELECT NEXTVAL(s) FROM t LIMIT 1").await;
    assert!(second > first);
    run(&mut a, "ROLLBACK").await;
    assert!(number(&mut b, "SELECT NEXTVAL(s)").await > second, "a rollback gives no number back");
    run(&mut a, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; LOCK TABLES t WRITE").await;
    run(&mut a, "INSERT INTO t (b) VALUES (1), (2)").await;
    run(&mut a, "UNLOCK TABLES; ALTER TABLE t ADD c BIGINT DEFAULT (NEXTVAL(s))").await;
    assert_eq!(one(&mut a, "SELECT COUNT(*) = COUNT(DISTINCT c) AND MIN(c) > MAX(a) FROM t").await, "1");
    let last = number(&mut a, "SELECT MAX(c) FROM t").await;
    assert_eq!(number(&mut b, "SELECT NEXTVAL(s)").await, last + 1);
}

#[tokio::test]
async fn a_sequence_has_its_own_privileges() {
    let fixture = Fixture::new("sequence-rights");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE SEQUENCE s; CREATE USER u@'%'; GRANT SELECT ON test.s TO u").await;
    let mut user = fixture.engine().session("test").unwrap();
    user.connect("u", "localhost:1", "%");
    assert_eq!(code(&mut user, "SELECT NEXTVAL(s)").await, 1142);
    assert_eq!(code(&mut user, "SELECT SETVAL(s, 5)").await, 1142);
    assert_eq!(one(&mut user, "SELECT LASTVAL(s), minimum_value FROM s").await, "NULL,1");
    assert_eq!(code(&mut user, "SELECT NEXTVAL(nosuch)").await, 1142);
    assert_eq!(code(&mut user, "ALTER SEQUENCE s RESTART").await, 1142);
    assert_eq!(code(&mut user, "DROP SEQUENCE s").await, 1142);
    run(&mut session, "GRANT INSERT ON test.s TO u").await;
    assert_eq!(one(&mut user, "SELECT NEXTVAL(s)").await, "1");
}

#[tokio::test]
async fn sequences_of_other_schemas_and_of_the_session() {
    let fixture = Fixture::new("sequence-schemas");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE DATABASE other; CREATE SEQUENCE other.s; CREATE TABLE t (a INT)").await;
    assert_eq!(one(&mut session, "SELECT NEXTVAL(other.s), NEXT VALUE FOR other.s").await, "1,2");
    run(&mut session, "INSERT INTO t VALUES (NEXTVAL(other.s))").await;
    assert_eq!(one(&mut session, "SELECT a FROM t").await, "3");
    // More than are in memory: whoever writes to one schema does not wait for another one.
    run(&mut session, "ALTER SEQUENCE other.s NOCACHE").await;
    assert_eq!(code(&mut session, "INSERT INTO t VALUES (NEXTVAL(other.s))").await, 1235);
    run(&mut session, "CREATE TEMPORARY SEQUENCE s START 10").await;
    assert_eq!(one(&mut session, "SELECT NEXTVAL(s)").await, "10");
    let mut other = fixture.session().await;
    assert_eq!(code(&mut other, "SELECT NEXTVAL(s)").await, 4091);
    run(&mut session, "BEGIN; DROP TEMPORARY SEQUENCE s; COMMIT").await;
    assert_eq!(code(&mut session, "SELECT NEXTVAL(s)").await, 4091);
}
