//! Two clients at the same time: what they see of each other, and who waits, on the engine and on MariaDB.
//!
//! A step is a client and its statement. `b> …` is one that waits for a lock: it is only started, and `b<` waits for its end.
//! `~a …` differs from MariaDB, for the reason that stands before it: a step that does not differ any more fails as well.
//! The names of anomalies are those of the Hermitage project (G0 to G2).

use std::{sync::Arc, time::Duration};

use tidegate_mysql::Conn;
use tidegate_rows::Execute;
use tokio::{sync::oneshot, task::LocalSet};

use super::{Outcome, Pair, block_on, run, server};

const CASES: &[(&str, &[&str])] = &[
    (
        "G0: writes do not mix",
        &[
            "a BEGIN",
            "b BEGIN",
            "a UPDATE t SET v = 11 WHERE id = 1",
            "b> UPDATE t SET v = 12 WHERE id = 1",
            "a UPDATE t SET v = 21 WHERE id = 2",
            "a COMMIT",
            "b<",
            "a SELECT * FROM t",
            "b UPDATE t SET v = 22 WHERE id = 2",
            "b COMMIT",
            "a SELECT * FROM t",
        ],
    ),
    (
        "G1a: what is rolled back is never read",
        &["a BEGIN", "b BEGIN", "a UPDATE t SET v = 101", "b SELECT * FROM t", "a ROLLBACK", "b SELECT * FROM t"],
    ),
    (
        "G1b: nor what is only in between",
        &[
            "a BEGIN",
            "b BEGIN",
            "a UPDATE t SET v = 101",
            "b SELECT * FROM t",
            "a UPDATE t SET v = 11",
            "a COMMIT",
            "b SELECT * FROM t",
        ],
    ),
    (
        "G1c: no circle of what was read",
        &[
            "a BEGIN",
            "b BEGIN",
            "a UPDATE t SET v = 11 WHERE id = 1",
            "b UPDATE t SET v = 22 WHERE id = 2",
            "a SELECT v FROM t WHERE id = 2",
            "b SELECT v FROM t WHERE id = 1",
            "a COMMIT",
            "b COMMIT",
            "a SELECT * FROM t",
        ],
    ),
    (
        "PMP: a range that others fill",
        &[
            "a BEGIN",
            "b BEGIN",
            "a SELECT * FROM t WHERE v = 30",
            "b INSERT INTO t (id, v) VALUES (3, 30)",
            "b COMMIT",
            "a SELECT * FROM t WHERE v % 3 = 0",
            // It writes on the newest rows.
            "a UPDATE t SET v = v + 1 WHERE v % 3 = 0",
            "a SELECT * FROM t WHERE id = 3",
        ],
    ),
    (
        "P4: the second update of a value that both have read",
        &[
            "a BEGIN",
            "b BEGIN",
            "a SELECT v FROM t WHERE id = 1",
            "b SELECT v FROM t WHERE id = 1",
            "a UPDATE t SET v = 11 WHERE id = 1",
            "b> UPDATE t SET v = 11 WHERE id = 1",
            "a COMMIT",
            "b<",
            "b COMMIT",
            "a SELECT * FROM t",
        ],
    ),
    (
        "G-single: a snapshot stands still while it is only read",
        &[
            "a BEGIN",
            "a SELECT v FROM t WHERE id = 1",
            "b BEGIN",
            "b UPDATE t SET v = 12 WHERE id = 1",
            "b UPDATE t SET v = 18 WHERE id = 2",
            "b COMMIT",
            "a SELECT v FROM t WHERE id = 2",
            // It finds nothing, and moves the snapshot forward all the same.
            "a DELETE FROM t WHERE v = 20",
            "~a SELECT v FROM t WHERE id = 1",
            "a COMMIT",
        ],
    ),
    (
        "a snapshot moves forward with a write",
        &[
            "a BEGIN",
            "a SELECT * FROM t",
            "b UPDATE t SET v = 18 WHERE id = 2",
            "a UPDATE t SET v = 11 WHERE id = 1",
            // InnoDB shows the old row beside the changed one.
            "~a SELECT * FROM t",
            "a SELECT * FROM t FOR UPDATE",
            "a COMMIT",
            "b SELECT * FROM t",
        ],
    ),
    (
        "G2: two who read and write crosswise",
        &[
            "a BEGIN",
            "b BEGIN",
            "a SELECT * FROM t",
            "b SELECT * FROM t",
            "a UPDATE t SET v = 11 WHERE id = 1",
            "b UPDATE t SET v = 21 WHERE id = 2",
            "a COMMIT",
            "b COMMIT",
            "a SELECT * FROM t",
        ],
    ),
    (
        "G2: two who add to ranges that the other has read",
        &[
            "a BEGIN",
            "b BEGIN",
            "a SELECT * FROM t WHERE v % 3 = 0",
            "b SELECT * FROM t WHERE v % 3 = 0",
            "a INSERT INTO t (id, v) VALUES (3, 30)",
            "b INSERT INTO t (id, v) VALUES (4, 42)",
            "a COMMIT",
            "b COMMIT",
            "a SELECT * FROM t WHERE v % 3 = 0",
        ],
    ),
    (
        "OTV: a transaction that was seen does not vanish",
        &[
            "a SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "a BEGIN",
            "b BEGIN",
            "a UPDATE t SET v = 11 WHERE id = 1",
            "a UPDATE t SET v = 19 WHERE id = 2",
            "b> UPDATE t SET v = 12 WHERE id = 1",
            "a COMMIT",
            "b<",
            "a BEGIN",
            "a SELECT v FROM t WHERE id = 1",
            "b UPDATE t SET v = 18 WHERE id = 2",
            "a SELECT v FROM t WHERE id = 2",
            "b COMMIT",
            "a SELECT v FROM t WHERE id = 2",
            "a SELECT v FROM t WHERE id = 1",
            "a COMMIT",
        ],
    ),
    (
        "G1 and what follows under READ COMMITTED",
        &[
            "a SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "b SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
            "a BEGIN",
            "a UPDATE t SET v = 101 WHERE id = 1",
            // InnoDB's READ UNCOMMITTED shows it.
            "~b SELECT v FROM t WHERE id = 1",
            "a ROLLBACK",
            "b SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "a BEGIN",
            "b BEGIN",
            "a UPDATE t SET v = 11 WHERE id = 1",
            "b UPDATE t SET v = 22 WHERE id = 2",
            "a SELECT v FROM t WHERE id = 2",
            "b SELECT v FROM t WHERE id = 1",
            "a COMMIT",
            // G-single and PMP: each statement sees what is committed.
            "b SELECT v FROM t WHERE id = 1",
            "a INSERT INTO t (id, v) VALUES (3, 30)",
            "b SELECT * FROM t WHERE v % 3 = 0",
            "b COMMIT",
            // P4: the second update of what both have read.
            "a BEGIN",
            "b BEGIN",
            "a SELECT v FROM t WHERE id = 3",
            "b SELECT v FROM t WHERE id = 3",
            "a UPDATE t SET v = 31 WHERE id = 3",
            "b> UPDATE t SET v = 32 WHERE id = 3",
            "a COMMIT",
            "b<",
            "b COMMIT",
            "a SELECT * FROM t",
        ],
    ),
    (
        "definitions that are newer than the snapshot",
        &[
            "a CREATE TABLE o (n INT)",
            "a INSERT INTO o VALUES (5)",
            "a START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "b ALTER TABLE o MODIFY n VARCHAR(9)",
            "a SELECT * FROM o",
            "a SELECT * FROM t",
            "a COMMIT",
            "a SELECT * FROM o",
        ],
    ),
    (
        "G2 with locking reads: the later one gives up",
        &[
            "a BEGIN",
            "b BEGIN",
            "a SELECT v FROM t WHERE id = 1 FOR UPDATE",
            "b SELECT v FROM t WHERE id = 2 FOR UPDATE",
            "a> UPDATE t SET v = 21 WHERE id = 2",
            "b UPDATE t SET v = 11 WHERE id = 1",
            "a<",
            "a COMMIT",
            "b SELECT * FROM t",
        ],
    ),
    (
        "READ COMMITTED sees each commit",
        &[
            "a SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "a BEGIN",
            "a SELECT * FROM t",
            "b UPDATE t SET v = 12 WHERE id = 1",
            "a SELECT * FROM t",
            "a UPDATE t SET v = 21 WHERE id = 2",
            "b INSERT INTO t (id, v) VALUES (3, 30)",
            "a SELECT * FROM t",
            "b> UPDATE t SET v = v + 1",
            "a COMMIT",
            "b<",
            "a SELECT * FROM t",
        ],
    ),
    (
        "the same key",
        &[
            "a BEGIN",
            "a INSERT INTO t (id, v, u) VALUES (3, 30, 'x')",
            "b> INSERT INTO t (id, v, u) VALUES (4, 40, 'X ')",
            "a COMMIT",
            "b<",
            "a BEGIN",
            "a DELETE FROM t WHERE id = 3",
            "b> INSERT INTO t (id, v, u) VALUES (5, 50, 'x')",
            "a COMMIT",
            "b<",
            "a BEGIN",
            "a INSERT INTO t (id, v) VALUES (6, 60)",
            "b> INSERT INTO t (id, v) VALUES (6, 61)",
            "a ROLLBACK",
            "b<",
            "a BEGIN",
            "a UPDATE t SET u = NULL WHERE id = 5",
            "b> UPDATE t SET u = 'x' WHERE id = 6",
            "a COMMIT",
            "b<",
            "a SELECT * FROM t",
        ],
    ),
    (
        "parents and children",
        &[
            "a CREATE TABLE c (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE)",
            "a BEGIN",
            "a INSERT INTO c VALUES (1, 1)",
            "b> DELETE FROM t WHERE id = 1",
            "a COMMIT",
            "b<",
            "a SELECT * FROM c",
            "a BEGIN",
            "a DELETE FROM t WHERE id = 2",
            "b> INSERT INTO c VALUES (2, 2)",
            "a COMMIT",
            "b<",
            "a BEGIN",
            "a INSERT INTO t (id, v) VALUES (3, 30)",
            "b> INSERT INTO c VALUES (3, 3)",
            "a ROLLBACK",
            "b<",
            "a SELECT * FROM c",
        ],
    ),
    (
        "readers share, writers wait",
        &[
            "a BEGIN",
            "b BEGIN",
            "a SELECT v FROM t WHERE id = 1 LOCK IN SHARE MODE",
            "b SELECT v FROM t WHERE id = 1 LOCK IN SHARE MODE",
            "b> UPDATE t SET v = 12 WHERE id = 1",
            "a COMMIT",
            "b<",
            "a SELECT v FROM t WHERE id = 2 FOR UPDATE NOWAIT",
            "a SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT",
            "b COMMIT",
            "a SELECT * FROM t",
        ],
    ),
    (
        "SKIP LOCKED",
        &[
            "a BEGIN",
            "b BEGIN",
            "a SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
            "b SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
            "b SELECT COUNT(*) FROM t WHERE v > 0 LOCK IN SHARE MODE SKIP LOCKED",
            "b> SELECT id FROM t WHERE id = 1 FOR UPDATE",
            "a COMMIT",
            "b<",
            "a SELECT id FROM t FOR UPDATE SKIP LOCKED",
            "b COMMIT",
        ],
    ),
    (
        "locking reads of groups, and within queries",
        &[
            "a BEGIN",
            "a SELECT COUNT(*), MAX(v) FROM t WHERE id = 1 FOR UPDATE",
            "b UPDATE t SET v = 21 WHERE id = 2",
            "b> UPDATE t SET v = 11 WHERE id = 1",
            "a COMMIT",
            "b<",
            "a BEGIN",
            "a SELECT d.id FROM (SELECT id FROM t WHERE id = 2) AS d FOR UPDATE",
            "a SELECT d.id FROM (SELECT id FROM t WHERE id = 1 FOR UPDATE) AS d",
            "b UPDATE t SET v = 22 WHERE id = 2",
            "b> UPDATE t SET v = 12 WHERE id = 1",
            "a COMMIT",
            "b<",
        ],
    ),
    (
        "SERIALIZABLE keeps rows that were read",
        &[
            "a SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "a BEGIN",
            "a SELECT v FROM t WHERE id = 1",
            "b> UPDATE t SET v = v + 1 WHERE id = 1",
            "a SELECT v FROM t WHERE id = 1",
            "a COMMIT",
            "b<",
            "a SELECT * FROM t",
        ],
    ),
    (
        "savepoints, and a statement that fails",
        &[
            "a BEGIN",
            "a UPDATE t SET v = 11 WHERE id = 1",
            "a SAVEPOINT s",
            "a UPDATE t SET v = 21 WHERE id = 2",
            "a INSERT INTO t (id, v) VALUES (3, 30), (1, 0)",
            "b INSERT INTO t (id, v) VALUES (4, 40)",
            "a ROLLBACK TO s",
            "a INSERT INTO t (id, v) VALUES (5, 50)",
            "a COMMIT",
            "b SELECT * FROM t",
        ],
    ),
    (
        "a statement that has waited takes no numbers twice",
        &[
            "a CREATE TABLE au (id INT AUTO_INCREMENT PRIMARY KEY, k VARCHAR(9) UNIQUE, v INT)",
            "a CREATE TABLE ch (id INT AUTO_INCREMENT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t (id))",
            "a BEGIN",
            "a INSERT INTO au (k) VALUES ('x')",
            "b> INSERT INTO au (k) VALUES ('x') ON DUPLICATE KEY UPDATE v = 1",
            "a ROLLBACK",
            "b<",
            "b SELECT * FROM au ORDER BY id",
            "a BEGIN",
            "a INSERT INTO au (k) VALUES ('y')",
            "b> REPLACE INTO au (k) VALUES ('y')",
            "a ROLLBACK",
            "b<",
            "b SELECT * FROM au ORDER BY id",
            "a BEGIN",
            "a UPDATE t SET id = 3 WHERE id = 2",
            "b> INSERT INTO ch (p) VALUES (1), (2)",
            "a ROLLBACK",
            "b<",
            "b INSERT INTO ch (p) VALUES (1)",
            "b SELECT * FROM ch ORDER BY id",
            "b BEGIN",
            "a BEGIN",
            "a INSERT INTO au (k) VALUES ('z')",
            "b> INSERT INTO au (k) VALUES ('z')",
            "a ROLLBACK",
            "b<",
            "b COMMIT",
            "b SELECT * FROM au ORDER BY id",
        ],
    ),
    (
        "who was told of a duplicate finds it",
        &[
            "a UPDATE t SET u = 'one' WHERE id = 1",
            "a BEGIN",
            "a INSERT INTO t VALUES (1, 0, NULL)",
            "b> UPDATE t SET v = 11 WHERE id = 1",
            "a SELECT v FROM t WHERE id = 1",
            "a COMMIT",
            "b<",
            "a BEGIN",
            "a INSERT IGNORE INTO t VALUES (1, 0, NULL)",
            "b> DELETE FROM t WHERE id = 1",
            "a ROLLBACK",
            "b<",
            "b INSERT INTO t VALUES (1, 10, 'one')",
            "a BEGIN",
            "a INSERT INTO t VALUES (5, 0, 'one')",
            "b UPDATE t SET v = 12 WHERE id = 1",
            "b> UPDATE t SET u = 'two' WHERE id = 1",
            "a COMMIT",
            "b<",
            "a BEGIN",
            "a UPDATE t SET id = 1 WHERE id = 2",
            "b> DELETE FROM t WHERE id = 1",
            "a COMMIT",
            "b<",
            "a SELECT * FROM t",
        ],
    ),
    (
        "SERIALIZABLE: two who read and write crosswise",
        &[
            "a SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "b SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "a BEGIN",
            "b BEGIN",
            "a SELECT v FROM t WHERE id = 1",
            "b SELECT v FROM t WHERE id = 2",
            "a UPDATE t SET v = 11 WHERE id = 1",
            "b UPDATE t SET v = 21 WHERE id = 2",
            "a COMMIT",
            "b COMMIT",
            "a BEGIN",
            "b BEGIN",
            "a SELECT v FROM t WHERE id = 1",
            "b SELECT v FROM t WHERE id = 2",
            "a> UPDATE t SET v = 12 WHERE id = 2",
            "b UPDATE t SET v = 22 WHERE id = 1",
            "a<",
            "a COMMIT",
            "a SELECT v FROM t ORDER BY id",
        ],
    ),
    (
        "WAIT and NOWAIT",
        &[
            "a BEGIN",
            "a SELECT * FROM t WHERE id = 1 FOR UPDATE WAIT 5",
            "b BEGIN",
            "b SELECT * FROM t WHERE id = 2 LOCK IN SHARE MODE WAIT 0",
            "b SELECT * FROM t WHERE id = 1 FOR UPDATE WAIT 1",
            "b SELECT * FROM t WHERE id = 1 FOR UPDATE WAIT 0",
            "b SELECT * FROM t WHERE id = 1 LOCK IN SHARE MODE NOWAIT",
            "b SELECT * FROM t WHERE id = 1 LOCK IN SHARE MODE WAIT 0",
            "b SELECT @@innodb_lock_wait_timeout",
            "b COMMIT",
            "b ALTER TABLE t NOWAIT ADD z INT",
            "b DROP TABLE t NOWAIT",
            "b TRUNCATE TABLE t WAIT 0",
            "b CREATE INDEX i ON t (v) NOWAIT",
            "b RENAME TABLE t WAIT 0 TO s",
            "a COMMIT",
            "b ALTER TABLE t WAIT 5 ADD z INT",
            "b CREATE INDEX i ON t (v) WAIT 5",
            "b DROP INDEX i ON t WAIT 5",
            "b RENAME TABLE t WAIT 5 TO nowait",
            "b CREATE TABLE wait (wait INT, nowait INT)",
            "b ALTER TABLE wait DROP nowait",
            "b DROP TABLE nowait, wait",
            "b SHOW TABLES",
        ],
    ),
    (
        "a savepoint alone begins no transaction",
        &[
            "a SET autocommit = 0",
            "a SAVEPOINT s",
            "a SELECT @@in_transaction",
            "a SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "a SELECT v FROM t WHERE id = 1",
            "a SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "b UPDATE t SET v = 11 WHERE id = 1",
            "a SELECT v FROM t WHERE id = 1",
            "a ROLLBACK TO s",
            "a SELECT @@in_transaction",
            "a COMMIT",
            "a DROP TEMPORARY TABLE IF EXISTS missing",
            "a SET TRANSACTION READ ONLY",
            "a UPDATE t SET v = 1",
        ],
    ),
    (
        "the time limit undoes the statement alone",
        &[
            "a BEGIN",
            "a UPDATE t SET v = 21 WHERE id = 2",
            "b BEGIN",
            "b INSERT INTO t (id, v) VALUES (3, 30)",
            "b SET innodb_lock_wait_timeout = 1",
            "b UPDATE t SET v = 0",
            "b SELECT * FROM t",
            "b COMMIT",
            "a ROLLBACK",
            "a SELECT * FROM t",
        ],
    ),
    (
        "autocommit = 0",
        &[
            "a SET autocommit = 0",
            "a SELECT * FROM t",
            "a UPDATE t SET v = v + 1 WHERE id = 1",
            "b> UPDATE t SET v = v * 2 WHERE id = 1",
            "a COMMIT",
            "b<",
            // Of the newest rows: right behind the answer a snapshot of MariaDB's has been seen without the change.
            "a SELECT * FROM t FOR UPDATE",
            "a SET autocommit = 1",
        ],
    ),
];

/// The clients of one side.
pub(super) struct Clients<C> {
    idle: Vec<Option<C>>,
    running: Vec<Option<oneshot::Receiver<(C, Outcome)>>>,
}

impl<C: Execute + 'static> Clients<C> {
    pub(super) fn new(idle: Vec<C>) -> Self {
        let running = idle.iter().map(|_| None).collect();
        Self { idle: idle.into_iter().map(Some).collect(), running }
    }

    async fn run(&mut self, client: usize, sql: &str) -> Outcome {
        self.start(client, sql);
        self.end(client).await
    }

    pub(super) fn start(&mut self, client: usize, sql: &str) {
        let mut session = self.idle[client].take().expect("a client that does nothing");
        let (done, running) = oneshot::channel();
        let sql = sql.to_owned();
        tokio::task::spawn_local(async move {
            let outcome = run(&mut session, &sql).await;
            let _ = done.send((session, outcome));
        });
        self.running[client] = Some(running);
    }

    pub(super) async fn end(&mut self, client: usize) -> Outcome {
        let running = self.running[client].take().expect("a statement under way");
        let (session, outcome) = running.await.expect("its outcome");
        self.idle[client] = Some(session);
        outcome
    }

    pub(super) fn is_waiting(&mut self, client: usize) -> bool {
        self.running[client].as_ref().is_some_and(|running| running.is_empty())
    }
}

/// How long nobody may have read `innodb_trx` before the server looks at its transactions again.
pub(super) const INNODB_TRX_IDLE: Duration = Duration::from_millis(110);

async fn case(name: &str, steps: &[&str]) {
    let mut pair = Pair::new("two").await;
    pair.enter("two").await;
    for statement in [
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, u VARCHAR(9) UNIQUE)",
        "INSERT INTO t (id, v) VALUES (1, 10), (2, 20)",
    ] {
        pair.run(statement).await;
    }
    let connect = async || {
        let mut conn = Conn::connect(Arc::new(server::shared().root())).await.expect("a connection");
        run(&mut conn, "USE two").await;
        conn
    };
    let session = || pair.engine.session("two").expect("a session");
    let mut ours = Clients::new(vec![session(), session()]);
    let mut theirs = Clients::new(vec![connect().await, connect().await]);
    let mut eye = connect().await;
    for step in steps {
        let (differs, rest) = step.strip_prefix('~').map_or((false, *step), |rest| (true, rest));
        let client = usize::from(rest.starts_with('b'));
        let (ours, theirs) = match &rest[1..] {
            "<" => (ours.end(client).await, theirs.end(client).await),
            started if started.starts_with('>') => {
                ours.start(client, &started[1..]);
                theirs.start(client, &started[1..]);
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                assert!(ours.is_waiting(client), "{name}: {step} does not wait");
                let waiting = "SELECT trx_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
                while !matches!(run(&mut eye, waiting).await, Outcome::Rows { rows, .. } if !rows.is_empty()) {
                    assert!(theirs.is_waiting(client), "{name}: {step} does not wait on the server");
                    // InnoDB answers from a copy of these tables, and makes it anew only if nobody read the old one
                    // for a tenth of a second: who asks without a pause sees the same copy for ever.
                    tokio::time::sleep(INNODB_TRX_IDLE).await;
                }
                continue;
            }
            sql => (ours.run(client, sql).await, theirs.run(client, sql).await),
        };
        let difference = ours.difference(&theirs, true);
        assert_eq!(difference.is_some(), differs, "{name}: {step}\n{ours}\n{theirs}");
    }
}

#[test]
fn two_clients_do_as_with_mariadb() {
    block_on(async {
        for (name, steps) in CASES {
            LocalSet::new().run_until(case(name, steps)).await;
        }
    });
}
