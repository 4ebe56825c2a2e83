//! Circles of waiting sessions that are not of rows alone.

use super::*;

/// Runs what the sessions A and B do at first, then what A waits for, then what closes the circle in B. Answers the error of the one
/// that ends, as `A1213`; the other goes on when that has given back all that it has, and must succeed.
async fn ends(first_a: &str, first_b: &str, waits: &str, closes: &str) -> String {
    let fixture = Fixture::new("circles", TABLE).await;
    let (mut a, mut b) = (fixture.session(), fixture.session());
    for session in [&mut a, &mut b] {
        ok(run(session, "SET innodb_lock_wait_timeout = 3600, lock_wait_timeout = 3600").await);
    }
    ok(run(&mut a, first_a).await);
    ok(run(&mut b, first_b).await);
    let mut waiting = fixture.start(a, waits);
    assert!(waiting.waits().await, "{waits}");
    let mut closing = fixture.start(b, closes);
    let ended = async {
        tokio::select! {
            ended = &mut waiting.0 => (ended, closing, "A"),
            ended = &mut closing.0 => (ended, waiting, "B"),
        }
    };
    let (ended, goes_on, who) = tokio::time::timeout(Duration::from_secs(20), ended).await.expect("both wait for good");
    let (mut session, outcome) = ended.unwrap();
    let Err(code) = outcome else { panic!("{closes}: {outcome:?}") };
    ok(run(&mut session, "ROLLBACK; UNLOCK TABLES; DO RELEASE_ALL_LOCKS()").await);
    let (mut other, outcome) = goes_on.end().await;
    ok(outcome);
    ok(run(&mut other, "ROLLBACK; UNLOCK TABLES; DO RELEASE_ALL_LOCKS()").await);
    format!("{who}{code}")
}

/// Has a name locked, the row 1 changed, the table locked.
const NAME: &str = "SELECT GET_LOCK('x', 0)";
const ROW: &str = "BEGIN; UPDATE t SET n = 0 WHERE id = 1";
const LOCKED: &str = "LOCK TABLES t WRITE";
/// Waits for those.
const FOR_NAME: &str = "SELECT GET_LOCK('x', 3600)";
const FOR_ROW: &str = "UPDATE t SET n = 1 WHERE id = 1";
const FOR_TABLE: &str = "INSERT INTO t VALUES (9, 9, 9)";

#[test]
fn a_circle_of_all_kinds_of_locks_ends_somewhere() {
    local(async {
        let other_name = "SELECT GET_LOCK('y', 0)";
        assert_eq!(ends(NAME, other_name, "SELECT GET_LOCK('y', 3600)", FOR_NAME).await, "B1213");
        // Whoever waits for a name, not for a row.
        assert_eq!(ends(NAME, ROW, FOR_ROW, FOR_NAME).await, "B1213");
        assert_eq!(ends(ROW, NAME, FOR_NAME, FOR_ROW).await, "A1213");
        assert_eq!(ends(ROW, NAME, FOR_NAME, &format!("BEGIN; {FOR_ROW}")).await, "A1213");
        // Whoever wants to write to a locked table.
        assert_eq!(ends(NAME, LOCKED, FOR_TABLE, FOR_NAME).await, "A1213");
        assert_eq!(ends(LOCKED, NAME, FOR_NAME, FOR_TABLE).await, "B1213");
        assert_eq!(ends(LOCKED, NAME, FOR_NAME, &format!("BEGIN; {FOR_TABLE}")).await, "B1213");
        // Whoever closes it, of those who want a name and those who want a table for themselves.
        assert_eq!(ends(NAME, ROW, LOCKED, FOR_NAME).await, "B1213");
        assert_eq!(ends(ROW, NAME, FOR_NAME, LOCKED).await, "B1213");
        assert_eq!(ends(ROW, NAME, FOR_NAME, "ALTER TABLE t ADD z INT").await, "B1213");
        assert_eq!(ends("FLUSH TABLES WITH READ LOCK", NAME, FOR_NAME, FOR_TABLE).await, "A1213");
    });
}

#[test]
fn a_commit_is_not_what_ends() {
    local(async {
        let begun = format!("{NAME}; BEGIN; UPDATE t SET n = 5 WHERE id = 2");
        let waits = format!("{ALONE}; {FOR_NAME}");
        let fixture = Fixture::new("circle-of-a-commit", TABLE).await;
        let (mut a, b) = (fixture.session(), fixture.session());
        ok(run(&mut a, &begun).await);
        let mut b = fixture.start(b, &waits);
        assert!(b.waits().await);
        let commit = fixture.start(a, "COMMIT");
        let (mut b, outcome) = b.end().await;
        assert_eq!(outcome, Err(1213));
        ok(run(&mut b, "ROLLBACK").await);
        ok(commit.end().await.1);
    });
}

#[test]
fn who_cannot_have_a_name_keeps_its_transaction() {
    local(async {
        let fixture = Fixture::new("circle-of-names", TABLE).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        ok(run(&mut a, NAME).await);
        ok(run(&mut b, &format!("{ROW}; SELECT GET_LOCK('y', 0)")).await);
        let mut waiting = fixture.start(a, "SELECT GET_LOCK('y', 3600)");
        assert!(waiting.waits().await);
        assert_eq!(run(&mut b, FOR_NAME).await, Err(1213));
        assert!(b.in_transaction());
        ok(run(&mut b, "COMMIT; SELECT RELEASE_LOCK('y')").await);
        assert_eq!(ok(waiting.end().await.1), [1]);
        assert_eq!(ok(run(&mut b, "SELECT n FROM t WHERE id = 1").await), [0]);
    });
}
