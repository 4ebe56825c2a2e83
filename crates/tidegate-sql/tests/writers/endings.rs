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
        let mut waiting = fixture.start(old, "UPDATE t SET n = 2 WHERE id = 1");
        assert!(waiting.waits().await);
        ok(run(&mut young, "COMMIT").await);
        let (mut old, outcome) = waiting.end().await;
        assert_eq!(outcome, Err(1213));
        assert_eq!(
            ok(run(&mut old, "SELECT COUNT(*), MAX(n = 1 AND id = 1), MAX(n = 2) FROM t WHERE id < 3 OR id > 9").await),
            [2, 1, 0]
        );
    });
}
