//! Which rows a query locks, and isolation levels.

use super::*;

const TABLES: &str = "CREATE TABLE p (id INT PRIMARY KEY, v INT, g INT); INSERT INTO p VALUES (1,10,1),(2,20,1),(3,30,2),(4,40,2); \
     CREATE TABLE q (id INT PRIMARY KEY, w INT); INSERT INTO q VALUES (1,100),(2,200),(3,300); \
     CREATE VIEW vp AS SELECT id, v AS x FROM p WHERE id < 3; CREATE VIEW vg AS SELECT g, SUM(v) AS s FROM p GROUP BY g; \
     CREATE VIEW vv AS SELECT vp.id, w FROM vp JOIN q ON q.id = vp.id; CREATE VIEW vl AS SELECT id FROM p ORDER BY id DESC LIMIT 1";

/// The rows that `statement` locks in a transaction, as `p1X` (exclusively) or `q2S` (shared).
async fn locked(fixture: &Fixture, statement: &str) -> String {
    let (mut session, mut other) = (fixture.session(), fixture.session());
    ok(run(&mut session, "BEGIN").await);
    ok(run(&mut session, statement).await);
    let mut found = Vec::new();
    for (table, rows) in [("p", 4), ("q", 3)] {
        for id in 1..=rows {
            let wanted = |mode: &str| format!("BEGIN; SELECT id FROM {table} WHERE id = {id} {mode} NOWAIT; ROLLBACK");
            if run(&mut other, &wanted("FOR SHARE")).await == Err(1205) {
                found.push(format!("{table}{id}X"));
            } else if run(&mut other, &wanted("FOR UPDATE")).await == Err(1205) {
                found.push(format!("{table}{id}S"));
            }
            ok(run(&mut other, "ROLLBACK").await);
        }
    }
    found.join(" ")
}

#[test]
fn queries_lock_the_rows_that_they_read() {
    local(async {
        let fixture = Fixture::new("locked-rows", TABLES).await;
        for (statement, rows) in [
            ("SELECT * FROM p WHERE id = 1 FOR UPDATE", "p1X"),
            ("SELECT * FROM p, q WHERE p.id = q.id AND p.id = 1 LOCK IN SHARE MODE", "p1S q1S"),
            ("SELECT * FROM p LEFT JOIN q ON q.id = p.id WHERE p.id > 2 FOR UPDATE", "p3X p4X q3X"),
            // Groups: all that they are made of.
            ("SELECT g, COUNT(*) FROM p WHERE id < 4 GROUP BY g HAVING g = 1 FOR UPDATE", "p1X p2X p3X"),
            ("SELECT DISTINCT g FROM p WHERE id < 3 ORDER BY g LIMIT 1 FOR UPDATE", "p1X p2X"),
            ("SELECT COUNT(*) FROM p WHERE v = 20 FOR SHARE", "p2S"),
            ("SELECT v, ROW_NUMBER() OVER (ORDER BY id) FROM p WHERE id < 3 FOR UPDATE", "p1X p2X"),
            // Rows of derived tables are nobody's.
            ("SELECT * FROM (SELECT id, v FROM p WHERE id = 1) AS d FOR UPDATE", ""),
            ("WITH c AS (SELECT id FROM p WHERE id = 2) SELECT * FROM c FOR UPDATE", ""),
            ("SELECT * FROM (SELECT id FROM p WHERE id < 3) AS d JOIN q USING (id) FOR UPDATE", "q1X q2X"),
            // Views show rows of tables, unless they group them.
            ("SELECT * FROM vp WHERE id = 1 FOR UPDATE", "p1X"),
            ("SELECT MAX(x) FROM vp AS a WHERE id = 2 FOR SHARE", "p2S"),
            ("SELECT * FROM vv WHERE w > 100 FOR UPDATE", "p2X q2X"),
            ("SELECT * FROM vl FOR UPDATE", "p4X"),
            ("SELECT * FROM vg FOR UPDATE", ""),
            // Queries within have clauses of their own.
            ("SELECT * FROM q WHERE id IN (SELECT id FROM p WHERE id < 3) AND id > 1 FOR UPDATE", "q2X"),
            ("SELECT * FROM q WHERE id IN (SELECT id FROM p WHERE id < 3 FOR UPDATE)", "p1X p2X"),
            ("SELECT * FROM q WHERE id = (SELECT MAX(id) FROM p WHERE id < 3 FOR SHARE) FOR UPDATE", "p1S p2S q2X"),
            ("SELECT * FROM (SELECT id FROM p WHERE id = 1 FOR UPDATE) AS d", "p1X"),
            ("(SELECT id FROM p WHERE id = 1 FOR UPDATE) UNION (SELECT id FROM q WHERE id = 2)", "p1X"),
            ("SELECT * FROM p JOIN q USING (id) WHERE id = 1 FOR UPDATE OF q", "q1X"),
            ("SELECT * FROM p WHERE id < 3 FOR UPDATE SKIP LOCKED", "p1X p2X"),
            ("SELECT * FROM p WHERE id > 1 LIMIT 1 FOR UPDATE", "p2X"),
            ("SELECT id FROM p WHERE id = 3", ""),
        ] {
            assert_eq!(locked(&fixture, statement).await, rows, "{statement}");
        }
        // What depends on the rows around it cannot be looked for before: the transaction writes alone.
        let all = "p1X p2X p3X p4X q1X q2X q3X";
        let correlated = "SELECT * FROM q WHERE id = 1 AND EXISTS (SELECT 1 FROM p WHERE p.id = q.id FOR UPDATE)";
        assert_eq!(locked(&fixture, correlated).await, all);
        let cte =
            "WITH c AS (SELECT 1 AS id) SELECT * FROM q WHERE id IN (SELECT id FROM p JOIN c USING (id) FOR UPDATE)";
        assert_eq!(locked(&fixture, cte).await, all);
    });
}

#[test]
fn skip_locked_leaves_out_what_others_have_locked() {
    local(async {
        let fixture = Fixture::new("skip", TABLES).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        let next = "SELECT id FROM p ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
        assert_eq!(ok(run(&mut a, &format!("BEGIN; {next}")).await), [1]);
        assert_eq!(ok(run(&mut b, &format!("BEGIN; {next}")).await), [2]);
        // Its own rows are not in its way.
        assert_eq!(ok(run(&mut b, next).await), [2]);
        assert_eq!(ok(run(&mut b, "SELECT id FROM p FOR SHARE SKIP LOCKED").await), [2, 3, 4]);
        assert_eq!(ok(run(&mut a, "SELECT id FROM p FOR SHARE SKIP LOCKED").await), [1, 3, 4]);
        assert_eq!(ok(run(&mut a, "SELECT id FROM p FOR UPDATE SKIP LOCKED").await), [1]);
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM vp FOR UPDATE SKIP LOCKED").await), [1]);
        assert_eq!(
            ok(run(&mut a, "SELECT q.id FROM q LEFT JOIN p ON p.id = q.id + 3 FOR UPDATE OF p SKIP LOCKED").await),
            [2, 3]
        );
        // A statement alone; and one whose transaction is the only writer.
        let mut c = fixture.session();
        assert_eq!(ok(run(&mut c, "SELECT id FROM p FOR SHARE SKIP LOCKED").await), [3, 4]);
        assert_eq!(
            ok(run(&mut c, "SELECT id FROM p WHERE v > 0 HAVING id > 1 FOR UPDATE SKIP LOCKED").await),
            [0i64; 0]
        );
        assert_eq!(run(&mut c, "SELECT id FROM p FOR UPDATE NOWAIT").await, Err(1205));
        ok(run(&mut b, "COMMIT").await);
        let many: Vec<String> = (10..1100).map(|id| format!("({id}, 0)")).collect();
        ok(run(&mut b, &format!("BEGIN; INSERT INTO q VALUES {}", many.join(","))).await);
        assert_eq!(ok(run(&mut b, "SELECT id FROM p FOR UPDATE SKIP LOCKED").await), [2]);
        ok(run(&mut b, "ROLLBACK").await);
        ok(run(&mut a, "ROLLBACK").await);
        assert_eq!(ok(run(&mut c, next).await), [1]);
    });
}

#[test]
fn many_workers_share_a_queue() {
    local(async {
        let jobs: Vec<String> = (0..200).map(|id| format!("({id}, 0)")).collect();
        let setup =
            format!("CREATE TABLE jobs (id INT PRIMARY KEY, done INT); INSERT INTO jobs VALUES {}", jobs.join(","));
        let fixture = Fixture::new("queue", &setup).await;
        let workers: Vec<_> = (0..8)
            .map(|_| {
                let mut session = fixture.session();
                tokio::task::spawn_local(async move {
                    let mut taken = 0;
                    loop {
                        let take =
                            "BEGIN; SELECT id FROM jobs WHERE done = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
                        let Some(id) = ok(run(&mut session, take).await).pop() else { return taken };
                        tokio::task::yield_now().await;
                        ok(run(&mut session, &format!("UPDATE jobs SET done = done + 1 WHERE id = {id}; COMMIT"))
                            .await);
                        taken += 1;
                    }
                })
            })
            .collect();
        let mut taken = 0;
        for worker in workers {
            taken += worker.await.unwrap();
        }
        assert_eq!(taken, 200);
        let done = "SELECT MIN(done), MAX(done) FROM jobs";
        assert_eq!(ok(run(&mut fixture.session(), done).await), [1, 1]);
    });
}

#[test]
fn serializable_transactions_run_one_after_the_other() {
    local(async {
        let fixture = Fixture::new("serializable", TABLES).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        for session in [&mut a, &mut b] {
            ok(run(session, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE").await);
        }
        // Write skew, with rows that are not there yet: each counts, and adds one only if there are four.
        let add = "INSERT INTO p SELECT MAX(id) + 1, 0, 0 FROM p HAVING COUNT(*) = 4";
        assert_eq!(ok(run(&mut a, "BEGIN; SELECT COUNT(*) FROM p").await), [4]);
        let mut waiting = fixture.start(b, "BEGIN; SELECT COUNT(*) FROM p");
        assert!(waiting.waits().await);
        ok(run(&mut a, &format!("{add}; COMMIT")).await);
        let (mut b, outcome) = waiting.end().await;
        assert_eq!(ok(outcome), [5]);
        ok(run(&mut b, &format!("{add}; COMMIT")).await);
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM p").await), [5]);
        // One that only reads waits for nobody, nor does a statement alone.
        ok(run(&mut a, "BEGIN; DELETE FROM p WHERE id = 5").await);
        assert_eq!(ok(run(&mut b, "SELECT COUNT(*) FROM p").await), [5]);
        assert_eq!(ok(run(&mut b, "START TRANSACTION READ ONLY; SELECT COUNT(*) FROM p").await), [5]);
        ok(run(&mut a, "COMMIT").await);
        assert_eq!(ok(run(&mut b, "SELECT COUNT(*) FROM p; COMMIT").await), [5]);
        assert_eq!(ok(run(&mut b, "SELECT COUNT(*) FROM p").await), [4]);
        assert_eq!(run(&mut b, "START TRANSACTION READ ONLY; DELETE FROM p").await, Err(1792));
    });
}

#[test]
fn serializable_transactions_with_rows_of_their_own_run_side_by_side() {
    local(async {
        let fixture = Fixture::new("serializable-rows", TABLES).await;
        let (mut a, mut b, mut c) = (fixture.session(), fixture.session(), fixture.session());
        for session in [&mut a, &mut b] {
            ok(run(session, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE").await);
        }
        ok(run(&mut c, "SET innodb_lock_wait_timeout = 0").await);
        assert_eq!(
            ok(run(&mut a, "BEGIN; SELECT v FROM p WHERE id = 1; UPDATE p SET v = 11 WHERE id = 1").await),
            [10]
        );
        assert_eq!(ok(run(&mut b, "BEGIN; SELECT v FROM p WHERE g > 0 AND (2 = p.id)").await), [20]);
        ok(run(&mut b, "UPDATE p SET v = 21 WHERE id = 2; INSERT INTO q VALUES (9, 900); DELETE FROM q WHERE id = 3")
            .await);
        // What was read stays: rows, and that there is none.
        assert_eq!(ok(run(&mut a, "SELECT w FROM q WHERE id = 1; SELECT w FROM q WHERE id = 7").await), [100]);
        assert_eq!(ok(run(&mut a, "SELECT v FROM p WHERE id = 3 FOR UPDATE").await), [30]);
        ok(run(&mut a, "UPDATE p SET v = 0 WHERE id = 8").await);
        for statement in [
            "UPDATE q SET w = 0 WHERE id = 1",
            "INSERT INTO q VALUES (7, 0)",
            "INSERT INTO p VALUES (8, 0, 0)",
            "SELECT v FROM p WHERE id = 3 FOR SHARE",
        ] {
            assert_eq!(run(&mut c, statement).await, Err(1205), "{statement}");
        }
        ok(run(&mut c, "UPDATE p SET v = 41 WHERE id = 4; SELECT w FROM q WHERE id = 1 FOR SHARE").await);
        // Who looks for rows keeps everybody from writing.
        assert_eq!(ok(run(&mut b, "SELECT COUNT(*) FROM q").await), [3]);
        let mut commit = fixture.start(a, "COMMIT");
        assert!(commit.waits().await);
        let (mut b, outcome) = fixture.start(b, "COMMIT").end().await;
        ok(outcome);
        ok(commit.end().await.1);
        assert_eq!(ok(run(&mut c, "SELECT v FROM p ORDER BY id").await), [11, 21, 30, 41]);
        // A view's column is not the table's of that name.
        ok(run(&mut c, "CREATE VIEW other AS SELECT g AS id, id AS g FROM p").await);
        for sql in ["SELECT g FROM other WHERE id = 1", "SELECT MAX(v) FROM p WHERE id = 1 OR id = 2"] {
            ok(run(&mut b, &format!("BEGIN; {sql}")).await);
            assert_eq!(run(&mut c, "UPDATE p SET g = 1 WHERE id = 4").await, Err(1205), "{sql}");
            ok(run(&mut b, "ROLLBACK").await);
        }
    });
}

#[test]
fn read_only_transactions_write_to_temporary_tables_only() {
    local(async {
        let fixture = Fixture::new("read-only", TABLE).await;
        let mut a = fixture.session();
        let insert = "INSERT INTO t VALUES (9, 9, 9)";
        // The next transaction, and no other.
        for begin in [
            "SET TRANSACTION READ ONLY; BEGIN",
            "START TRANSACTION READ ONLY",
            "SET SESSION TRANSACTION READ ONLY; BEGIN",
        ] {
            ok(run(&mut a, begin).await);
            assert_eq!(run(&mut a, insert).await, Err(1792), "{begin}");
            assert_eq!(run(&mut a, "DELETE FROM t WHERE id = 99").await, Err(1792), "{begin}");
            assert_eq!(run(&mut a, "TRUNCATE t").await, Err(1792), "{begin}");
            assert_eq!(ok(run(&mut a, "SELECT id FROM t WHERE id = 1 FOR UPDATE").await), [1]);
            let shown = "SELECT trx_is_read_only FROM information_schema.innodb_trx";
            assert_eq!(ok(run(&mut a, shown).await), [1]);
            ok(run(&mut a, "ROLLBACK; SET SESSION TRANSACTION READ WRITE").await);
            ok(run(&mut a, &format!("{insert}; DELETE FROM t WHERE id = 9")).await);
        }
        ok(run(&mut a, "SET TRANSACTION READ ONLY").await);
        assert_eq!(run(&mut a, insert).await, Err(1792));
        ok(run(&mut a, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY").await);
        assert_eq!(ok(run(&mut a, "SELECT @@tx_read_only, @@tx_isolation = 'READ-COMMITTED'").await), [1, 1]);
        for statement in
            [insert, "UPDATE t SET n = 1", "CREATE TABLE z (i INT)", "DROP TABLE t", "ALTER TABLE t ADD COLUMN x INT"]
        {
            assert_eq!(run(&mut a, statement).await, Err(1792), "{statement}");
        }
        // Nor does it make one, but it writes to one that is there.
        assert_eq!(run(&mut a, "CREATE TEMPORARY TABLE z (i INT)").await, Err(1792));
        ok(run(&mut a, "SET tx_read_only = 0; CREATE TEMPORARY TABLE z (i INT); SET tx_read_only = 1").await);
        ok(run(&mut a, "INSERT INTO z VALUES (1); BEGIN; INSERT INTO z VALUES (2); COMMIT").await);
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM z").await), [2]);
        ok(run(&mut a, &format!("START TRANSACTION READ WRITE; {insert}; COMMIT")).await);
        ok(run(&mut a, "SET TRANSACTION READ WRITE; DELETE FROM t WHERE id = 9").await);
        assert_eq!(run(&mut a, insert).await, Err(1792));
        ok(run(&mut a, &format!("SET tx_read_only = 0; {insert}")).await);
        assert_eq!(run(&mut a, "SET TRANSACTION READ ONLY, READ WRITE").await, Err(1064));
        assert_eq!(run(&mut a, "BEGIN; SET TRANSACTION READ ONLY").await, Err(1568));
    });
}
