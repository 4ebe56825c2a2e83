//! Transactions that their clients have left alone.

use super::*;

/// Leaves a transaction of `begin` alone until another session has got what it held; answers what its next statement gets.
async fn forgotten(fixture: &Fixture, session: &mut Session, begin: &str) -> Outcome {
    ok(run(session, begin).await);
    assert!(session.in_transaction());
    let (mut other, outcome) = fixture.start(fixture.session(), "UPDATE t SET n = n + 1 WHERE id = 1").end().await;
    ok(outcome);
    assert_eq!(ok(run(&mut other, "SELECT n FROM t WHERE id IN (1, 2)").await), [11, 20], "{begin}");
    let outcome = run(session, "SELECT n FROM t").await;
    ok(run(&mut other, "UPDATE t SET n = n - 1 WHERE id = 1").await);
    outcome
}

#[test]
fn a_forgotten_transaction_gives_back_what_it_holds() {
    local(async {
        let fixture = Fixture::new("forgotten", TABLE).await;
        let rows: Vec<String> = (10..1100).map(|id| format!("({id}, 0)")).collect();
        let many = format!(
            "BEGIN; INSERT INTO t (id, n) VALUES {}; SAVEPOINT s; UPDATE t SET n = 0 WHERE id < 3",
            rows.join(",")
        );
        for (variable, begin) in [
            ("idle_transaction_timeout", "BEGIN; UPDATE t SET n = 0 WHERE id < 3"),
            ("idle_write_transaction_timeout", "BEGIN; SELECT n FROM t; SAVEPOINT s; UPDATE t SET n = 0 WHERE id < 3"),
            ("idle_readonly_transaction_timeout", "BEGIN; SELECT n FROM t WHERE id < 3 FOR UPDATE"),
            // It keeps everybody from writing.
            ("idle_write_transaction_timeout", &many),
        ] {
            let mut session = fixture.session();
            ok(run(&mut session, &format!("SET {variable} = 1")).await);
            assert_eq!(forgotten(&fixture, &mut session, begin).await, Err(1927), "{variable}: {begin}");
            assert!(!session.in_transaction());
            let said = fixture.said.lock().unwrap().pop().unwrap();
            assert!(said.contains(variable) && said.contains(&format!("connection {}", session.id())), "{said}");
            // The session works as before.
            ok(run(&mut session, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 3; ROLLBACK").await);
        }
        fixture.engine.as_ref().unwrap().check("test").await.unwrap();
    });
}

#[test]
fn limits_are_about_transactions_of_their_kind() {
    local(async {
        let fixture = Fixture::new("limits", TABLE).await;
        let (mut reader, mut both) = (fixture.session(), fixture.session());
        ok(run(&mut reader, "SET idle_write_transaction_timeout = 1; BEGIN; SELECT n FROM t").await);
        // The special one counts where it is set.
        ok(run(&mut both, "SET idle_write_transaction_timeout = 1000, idle_transaction_timeout = 1").await);
        ok(run(&mut both, "BEGIN; UPDATE t SET n = 7 WHERE id = 3").await);
        let mut session = fixture.session();
        ok(run(&mut session, "SET idle_write_transaction_timeout = 1").await);
        // Theirs began to rest earlier.
        assert_eq!(forgotten(&fixture, &mut session, "BEGIN; UPDATE t SET n = 0 WHERE id < 3").await, Err(1927));
        assert_eq!(ok(run(&mut reader, "SELECT n FROM t WHERE id = 1; COMMIT").await), [10]);
        ok(run(&mut both, "COMMIT").await);
        assert_eq!(ok(run(&mut reader, "SELECT n FROM t WHERE id = 3").await), [7]);
    });
}

#[test]
fn a_forgotten_transaction_goes_with_its_session() {
    local(async {
        let fixture = Fixture::new("gone", TABLE).await;
        for begin in ["BEGIN; UPDATE t SET n = 0 WHERE id < 3", "SET autocommit = 0; DELETE FROM t WHERE id < 3"] {
            for reset in [false, true] {
                let mut session = fixture.session();
                ok(run(&mut session, "SET idle_transaction_timeout = 1").await);
                ok(run(&mut session, begin).await);
                let (mut other, outcome) =
                    fixture.start(fixture.session(), "UPDATE t SET n = n WHERE id = 1").end().await;
                ok(outcome);
                if reset {
                    assert!(session.reset());
                    assert_eq!(ok(run(&mut session, "SELECT n FROM t WHERE id = 1").await), [10]);
                }
                drop(session);
                assert_eq!(ok(run(&mut other, "SELECT n FROM t WHERE id = 2").await), [20]);
            }
        }
    });
}

#[test]
fn a_forgotten_transaction_can_be_killed() {
    local(async {
        let fixture = Fixture::new("killed", TABLE).await;
        let (mut session, mut other) = (fixture.session(), fixture.session());
        ok(run(&mut session, "BEGIN; UPDATE t SET n = 0 WHERE id = 1").await);
        let waiting = fixture.start(fixture.session(), "UPDATE t SET n = n + 1 WHERE id = 1");
        let sql = "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = 'RUNNING'";
        let id = ok(run(&mut other, sql).await)[0];
        assert_eq!(run(&mut other, &format!("KILL QUERY {id}")).await, Err(1094), "it runs nothing");
        ok(run(&mut other, &format!("KILL {id}")).await);
        ok(waiting.end().await.1);
        assert_eq!(run(&mut session, "COMMIT").await, Err(1927));
        assert_eq!(ok(run(&mut session, "SELECT n FROM t WHERE id = 1").await), [11]);
    });
}

#[test]
fn a_client_that_forgets_its_transaction_is_disconnected() {
    local(async {
        let fixture = Fixture::new("disconnected", TABLE).await;
        let mut session = fixture.session();
        ok(run(&mut session, "CREATE USER u; GRANT ALL ON *.* TO u").await);
        session.connect("u", "h:1", "%");
        ok(run(&mut session, "SET idle_transaction_timeout = 1; BEGIN; UPDATE t SET n = 0 WHERE id = 1").await);
        ok(fixture.start(fixture.session(), "UPDATE t SET n = n + 1 WHERE id = 1").end().await.1);
        while !session.client().is_gone() {
            tokio::task::yield_now().await;
        }
    });
}
