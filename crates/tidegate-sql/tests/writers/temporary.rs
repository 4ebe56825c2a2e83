//! Temporary tables that are made and dropped within transactions.

use super::*;

#[test]
fn temporary_tables_come_and_go_within_a_transaction() {
    local(async {
        let fixture = Fixture::new("temporary", TABLE).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        for begin in
            ["BEGIN", "SET autocommit = 0", "BEGIN; SELECT n FROM t", "BEGIN; UPDATE t SET n = n + 1 WHERE id = 2"]
        {
            ok(run(&mut a, begin).await);
            ok(run(&mut a, "UPDATE t SET n = n + 1 WHERE id = 1; SAVEPOINT s").await);
            ok(run(&mut a, "CREATE TEMPORARY TABLE x (a INT PRIMARY KEY)").await);
            assert_eq!(run(&mut a, "CREATE TEMPORARY TABLE x (a INT)").await, Err(1050));
            assert!(a.in_transaction(), "{begin}");
            assert_eq!(ok(run(&mut a, "SELECT a FROM x").await), []);
            ok(run(&mut a, "INSERT INTO x VALUES (1); SAVEPOINT r; INSERT INTO x VALUES (2); ROLLBACK TO r").await);
            // Others write meanwhile, and the list begins anew on their commits.
            ok(run(&mut b, "UPDATE t SET u = u + 10 WHERE id = 3").await);
            ok(run(&mut a, "INSERT INTO x VALUES (3)").await);
            assert_eq!(ok(run(&mut a, "SELECT a FROM x ORDER BY a").await), [1, 3]);
            // A table that goes takes what was done to it out of the transaction, and another may have its name.
            ok(run(
                &mut a,
                "DROP TEMPORARY TABLE x; CREATE TEMPORARY TABLE x (a INT, b INT); INSERT INTO x VALUES (5, 6)",
            )
            .await);
            ok(run(&mut b, "UPDATE t SET u = u - 10 WHERE id = 3").await);
            ok(run(&mut a, "UPDATE t SET n = n + 1 WHERE id = 1; ROLLBACK TO s").await);
            assert_eq!(ok(run(&mut a, "SELECT b FROM x").await), [], "{begin}");
            ok(run(&mut a, "INSERT INTO x VALUES (7, 8); COMMIT").await);
            assert_eq!(ok(run(&mut a, "SELECT a FROM x").await), [7]);
            ok(run(&mut a, "SET autocommit = 1; DROP TEMPORARY TABLE x").await);
            assert_eq!(run(&mut a, "SELECT a FROM x").await, Err(1146));
        }
        assert_eq!(ok(run(&mut b, "SELECT n FROM t ORDER BY id").await), [14, 21, 30]);
        fixture.engine.as_ref().unwrap().check("test").await.unwrap();
    });
}

#[test]
fn a_table_made_of_a_query_sees_the_transactions_rows() {
    local(async {
        let fixture = Fixture::new("temporary-query", TABLE).await;
        let mut a = fixture.session();
        ok(run(&mut a, "BEGIN; INSERT INTO t VALUES (4, 40, 4); CREATE TEMPORARY TABLE x SELECT id, n FROM t").await);
        assert_eq!(ok(run(&mut a, "SELECT SUM(n) FROM x").await), [100]);
        assert_eq!(
            run(&mut a, "CREATE TEMPORARY TABLE y (a INT UNIQUE) SELECT 1 AS a UNION ALL SELECT 1").await,
            Err(1062)
        );
        assert_eq!(run(&mut a, "SELECT a FROM y").await, Err(1146));
        assert!(a.in_transaction());
        ok(run(&mut a, "ROLLBACK").await);
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM x; SELECT COUNT(*) FROM t").await), [0, 3]);
    });
}

#[test]
fn a_bulk_load_steps_back_for_a_temporary_table() {
    local(async {
        let fixture = Fixture::new("temporary-bulk", "CREATE TABLE t (id INT PRIMARY KEY, n INT)").await;
        let mut a = fixture.session();
        let rows: Vec<String> = (0..1500).map(|id| format!("({id}, 1)")).collect();
        ok(run(&mut a, &format!("BEGIN; INSERT INTO t VALUES {}", rows.join(", "))).await);
        ok(run(&mut a, "CREATE TEMPORARY TABLE x SELECT COUNT(*) AS n FROM t").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM x; COMMIT").await), [1500]);
        assert_eq!(ok(run(&mut fixture.session(), "SELECT SUM(n) FROM t").await), [1500]);
        // Who must be the only writer for another reason stays that.
        ok(run(&mut a, ALONE).await);
        assert_eq!(run(&mut a, "CREATE TEMPORARY TABLE y (a INT)").await, Err(1235));
    });
}

#[test]
fn a_transaction_that_only_reads_makes_no_tables() {
    local(async {
        let fixture = Fixture::new("temporary-read", TABLE).await;
        let mut a = fixture.session();
        ok(run(&mut a, "CREATE TEMPORARY TABLE x (a INT); START TRANSACTION READ ONLY").await);
        assert_eq!(run(&mut a, "CREATE TEMPORARY TABLE y (a INT)").await, Err(1792));
        assert_eq!(run(&mut a, "DROP TEMPORARY TABLE x").await, Err(1792));
        ok(run(&mut a, "INSERT INTO x VALUES (1); COMMIT; SET SESSION TRANSACTION READ ONLY").await);
        assert_eq!(run(&mut a, "CREATE TEMPORARY TABLE y (a INT)").await, Err(1792));
    });
}

#[test]
fn statements_come_to_their_end_beside_those_who_define_tables_without_pause() {
    local(async {
        let fixture = Fixture::new("temporary-without-pause", TABLE).await;
        let is_over = std::rc::Rc::new(std::cell::Cell::new(false));
        let define =
            ["CREATE TEMPORARY TABLE x (a INT); DROP TEMPORARY TABLE x", "CREATE OR REPLACE VIEW w AS SELECT 1"];
        let defining: Vec<_> = (0..6)
            .map(|number| {
                let (mut session, is_over) = (fixture.session(), is_over.clone());
                tokio::task::spawn_local(async move {
                    while !is_over.get() {
                        ok(run(&mut session, define[number % 2]).await);
                    }
                })
            })
            .collect();
        let changing: Vec<_> = (1..4)
            .map(|id| {
                let mut session = fixture.session();
                tokio::task::spawn_local(async move {
                    for _ in 0..20 {
                        ok(run(&mut session, &format!("UPDATE t SET n = n + 1 WHERE id = {id}")).await);
                        ok(run(&mut session, "INSERT INTO t VALUES (9, 9, 9) ON DUPLICATE KEY UPDATE n = n + 1").await);
                        ok(run(&mut session, "BEGIN; DELETE FROM t WHERE id = 8; SELECT 1; COMMIT").await);
                    }
                })
            })
            .collect();
        for changing in changing {
            changing.await.unwrap();
        }
        is_over.set(true);
        for defining in defining {
            defining.await.unwrap();
        }
        assert_eq!(ok(run(&mut fixture.session(), "SELECT n FROM t ORDER BY id").await), [30, 40, 50, 68]);
    });
}
