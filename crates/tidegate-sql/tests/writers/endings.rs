//! How transactions end, and what COMMIT and ROLLBACK do besides.

use super::*;

const IN_TRANSACTION: &str = "SELECT @@in_transaction";

#[test]
fn the_end_of_a_transaction_may_begin_the_next() {
    local(async {
        let fixture = Fixture::new("chain", TABLE).await;
        let (mut a, mut eye) = (fixture.session(), fixture.session());
        assert_eq!(ok(run(&mut a, IN_TRANSACTION).await), [0]);
        // Whether the end begins another depends on `completion_type` unless the statement says it.
        for (kind, end, chained) in [
            ("0", "COMMIT", false),
            ("NO_CHAIN", "COMMIT AND CHAIN", true),
            ("NO_CHAIN", "COMMIT WORK AND CHAIN NO RELEASE", true),
            ("1", "COMMIT", true),
            ("chain", "ROLLBACK", true),
            ("'CHAIN'", "COMMIT AND NO CHAIN", false),
            ("CHAIN", "ROLLBACK WORK AND NO CHAIN NO RELEASE", false),
            ("CHAIN", "COMMIT NO RELEASE", true),
            ("2", "COMMIT NO RELEASE", false),
            ("DEFAULT", "ROLLBACK", false),
        ] {
            ok(run(&mut a, &format!("SET completion_type = {kind}; BEGIN; UPDATE t SET n = 10 WHERE id = 1; {end}"))
                .await);
            assert_eq!(ok(run(&mut a, IN_TRANSACTION).await), [i64::from(chained)], "{kind} {end}");
            ok(run(&mut a, "UPDATE t SET n = 11 WHERE id = 1; ROLLBACK AND NO CHAIN NO RELEASE").await);
            let undone = ok(run(&mut eye, "SELECT n <> 11 FROM t WHERE id = 1").await);
            assert_eq!(undone, [i64::from(chained)], "{kind} {end}");
            ok(run(&mut a, "UPDATE t SET n = 0 WHERE id = 1").await);
            assert!(!a.client().is_gone());
        }
        let kinds = "SET completion_type = 2; SELECT @@completion_type = 'RELEASE'; SET completion_type = NO_CHAIN";
        assert_eq!(ok(run(&mut a, kinds).await), [1]);
        for (wrong, code) in [
            ("SET completion_type = 3", 1231),
            ("SET completion_type = -1", 1231),
            ("SET completion_type = 'maybe'", 1231),
            ("SET completion_type = NULL", 1231),
            ("SET in_transaction = 1", 1238),
            ("SELECT @@global.in_transaction", 1238),
            ("COMMIT AND CHAIN RELEASE", 1064),
            ("COMMIT AND", 1064),
            ("ROLLBACK NO", 1064),
        ] {
            assert_eq!(run(&mut a, wrong).await, Err(code), "{wrong}");
        }
    });
}

#[test]
fn the_next_transaction_is_as_the_one_before() {
    local(async {
        let fixture = Fixture::new("chain-as", TABLE).await;
        let mut a = fixture.session();
        let update = "UPDATE t SET n = 5 WHERE id = 1";
        ok(run(&mut a, "START TRANSACTION READ ONLY; SELECT n FROM t; COMMIT AND CHAIN").await);
        assert_eq!(run(&mut a, update).await, Err(1792));
        ok(run(&mut a, "COMMIT").await);
        ok(run(&mut a, update).await);
        let committed = "SELECT trx_isolation_level = 'READ COMMITTED' FROM information_schema.innodb_trx";
        ok(run(&mut a, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; ROLLBACK AND CHAIN").await);
        assert_eq!(ok(run(&mut a, committed).await), [1]);
        ok(run(&mut a, "COMMIT; BEGIN").await);
        assert_eq!(ok(run(&mut a, committed).await), [0]);
    });
}

#[test]
fn the_end_of_a_transaction_may_end_the_connection() {
    local(async {
        let fixture = Fixture::new("release", TABLE).await;
        let mut eye = fixture.session();
        for end in ["COMMIT RELEASE", "ROLLBACK WORK AND NO CHAIN RELEASE", "SET completion_type = RELEASE; COMMIT"] {
            let mut pooled = fixture.engine.as_ref().unwrap().pooled_session("test").unwrap();
            let id = pooled.id();
            let a = pooled.get().unwrap();
            ok(run(a, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1").await);
            let before = ok(run(&mut eye, "SELECT n FROM t WHERE id = 1").await);
            ok(run(a, end).await);
            assert!(a.client().is_gone(), "{end}");
            let after = ok(run(&mut eye, "SELECT n FROM t WHERE id = 1").await);
            assert_eq!(after[0] - before[0], i64::from(end.contains("COMMIT")), "{end}");
            // Nobody else gets such a session.
            drop(pooled);
            assert_ne!(fixture.engine.as_ref().unwrap().pooled_session("test").unwrap().id(), id);
        }
    });
}

#[test]
fn who_commits_is_not_the_one_to_give_up() {
    local(async {
        let fixture = Fixture::new("commit-wins", TABLE).await;
        let (mut old, mut young) = (fixture.session(), fixture.session());
        ok(run(&mut old, "BEGIN; UPDATE t SET n = 1 WHERE id = 2").await);
        ok(run(&mut young, "BEGIN; UPDATE t SET n = 1 WHERE id = 1").await);
        let many: Vec<String> = (10..1200).map(|id| format!("({id}, 0)")).collect();
        ok(run(&mut old, &format!("INSERT INTO t (id, n) VALUES {}", many.join(","))).await);
        // What is locked like this is so by its being the only writer, which it has to stay now.
        ok(run(&mut old, "SELECT n, COUNT(*) FROM t WHERE id = 3 GROUP BY n WITH ROLLUP FOR UPDATE").await);
        let mut waiting = fixture.start(old, "UPDATE t SET n = 2 WHERE id = 1");
        assert!(waiting.waits().await);
        ok(run(&mut young, "COMMIT").await);
        let (mut old, outcome) = waiting.end().await;
        assert_eq!(outcome, Err(1213));
        let seen = "SELECT COUNT(*), MAX(n = 1 AND id = 1), MAX(n = 2) FROM t WHERE id < 3 OR id > 9";
        assert_eq!(ok(run(&mut old, seen).await), [2, 1, 0]);
    });
}

#[test]
fn a_wait_that_is_too_long_undoes_what_is_configured() {
    local(async {
        let fixture = Fixture::new("on-timeout", TABLE).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        let shown = "SELECT @@innodb_rollback_on_timeout";
        ok(run(&mut a, "BEGIN; UPDATE t SET n = 11 WHERE id = 1; SET innodb_lock_wait_timeout = 0").await);
        ok(run(&mut b, "SET innodb_lock_wait_timeout = 0").await);
        for (whole, left) in [(false, vec![21]), (true, vec![20])] {
            let mut options = EngineOptions::new(&fixture.path);
            options.durability = Durability::Normal;
            options.rollback_on_timeout = whole;
            fixture.engine.as_ref().unwrap().configure(options).unwrap();
            assert_eq!(ok(run(&mut b, shown).await), [i64::from(whole)]);
            // A wait for a row, and one that a query does not want.
            for waits in ["UPDATE t SET n = 12 WHERE id = 1", "SELECT n FROM t WHERE id = 1 FOR UPDATE NOWAIT"] {
                ok(run(&mut b, "BEGIN; UPDATE t SET n = 21 WHERE id = 2").await);
                assert_eq!(run(&mut b, waits).await, Err(1205), "{waits}");
                assert_eq!(b.in_transaction(), !whole, "{waits}");
                assert_eq!(ok(run(&mut b, "SELECT n FROM t WHERE id = 2").await), left, "{waits}");
                // What it had locked is free.
                let other = run(&mut fixture.session(), "SELECT n FROM t WHERE id = 2 FOR UPDATE NOWAIT").await;
                assert_eq!(other.is_ok(), whole, "{waits}");
                ok(run(&mut b, "ROLLBACK").await);
            }
        }
    });
}

#[test]
fn a_statement_that_fails_leaves_no_writer() {
    local(async {
        let fixture = Fixture::new("failed-writer", TABLE).await;
        let (mut a, mut b, mut c) = (fixture.session(), fixture.session(), fixture.session());
        let values = |ids: std::ops::Range<u32>| ids.map(|id| format!("({id}, 0)")).collect::<Vec<_>>().join(",");
        let many = format!("INSERT INTO t (id, n) VALUES {}", values(10..1200));
        let bad = format!("{many}, (3, 0)");
        ok(run(&mut b, "UPDATE t SET n = 6 WHERE id = 3; SET innodb_lock_wait_timeout = 0").await);
        ok(run(&mut a, "BEGIN; SELECT n FROM t WHERE id = 1 FOR UPDATE; SAVEPOINT s").await);
        assert_eq!(run(&mut a, &bad).await, Err(1062));
        // Others write, but not to the rows that it has locked and met; it goes on with its savepoints.
        ok(run(&mut b, "BEGIN; UPDATE t SET n = 5 WHERE id = 2; COMMIT").await);
        for id in [1, 3] {
            assert_eq!(run(&mut b, &format!("UPDATE t SET n = 7 WHERE id = {id}")).await, Err(1205));
        }
        assert_eq!(ok(run(&mut a, "SELECT SUM(n) FROM t").await), [21]);
        ok(run(&mut a, "UPDATE t SET n = 8 WHERE id = 1; ROLLBACK TO s; UPDATE t SET n = n + 1 WHERE id = 3").await);
        assert_eq!(run(&mut a, &bad).await, Err(1062));
        ok(run(&mut b, "UPDATE t SET n = 9 WHERE id = 2").await);
        // It has changed as much by now, so that it stays the writer.
        ok(run(&mut a, &many).await);
        assert_eq!(run(&mut a, &bad).await, Err(1062));
        assert_eq!(run(&mut b, "UPDATE t SET n = 0 WHERE id = 2").await, Err(1205));
        ok(run(&mut a, "ROLLBACK TO s; UPDATE t SET n = n + 1 WHERE id = 3; COMMIT").await);
        assert_eq!(ok(run(&mut b, "SELECT n FROM t ORDER BY id").await), [10, 9, 7]);
        // One that waits for a row lets others write and commit meanwhile, and then does all of its work.
        ok(run(&mut b, "BEGIN; INSERT INTO t VALUES (1199, 1, 1199)").await);
        let mut waiting = fixture.start(a, &format!("BEGIN; {many}"));
        assert!(waiting.waits().await);
        ok(run(&mut c, "UPDATE t SET n = 11 WHERE id = 1").await);
        ok(run(&mut b, "ROLLBACK").await);
        let (mut a, outcome) = waiting.end().await;
        ok(outcome);
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*), SUM(n) FROM t").await), [1193, 27]);
        assert_eq!(run(&mut b, "UPDATE t SET n = 9 WHERE id = 2").await, Err(1205));
        ok(run(&mut a, "COMMIT").await);
        assert_eq!(ok(run(&mut c, "SELECT COUNT(*) FROM t").await), [1193]);
    });
}
