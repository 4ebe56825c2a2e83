//! Those who talk to the engine: what others see of them, and KILL.

use std::pin::pin;

use tidegate_sql::Session;

use super::{Fixture, code, one, run, try_run};

/// A statement that runs until somebody ends it.
const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1e15) SELECT MAX(i) FROM n";

/// Waits until others can read that the client of this number runs something like `text`.
async fn until_listed(session: &mut Session, id: u64, text: &str) {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND command = 'Query' AND info LIKE '%{text}%'"
    );
    while one(session, &sql).await != "1" {
        tokio::task::yield_now().await;
    }
}

/// What becomes of a statement that is ended with `kill` while it runs, and of the transaction around it.
async fn killed(name: &str, statement: &str, kill: &str, expected: u16) {
    let fixture = Fixture::new(&format!("kill-{name}"));
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (n INT); SET SESSION innodb_lock_wait_timeout = 100").await;
    run(&mut b, "BEGIN; INSERT INTO t VALUES (1)").await;
    let id = b.id();
    let error = {
        let mut running = pin!(code(&mut b, statement));
        let killing = async {
            until_listed(&mut a, id, &statement[..6]).await;
            run(&mut a, &format!("{kill} {id}")).await;
        };
        tokio::select! {
            biased;
            error = &mut running => error,
            () = killing => running.await,
        }
    };
    assert_eq!(error, expected, "{statement}");
    assert_eq!(b.client().is_gone(), expected == 1927);
    if !b.client().is_gone() {
        // The transaction is still open, and the next statement runs.
        assert_eq!(one(&mut b, "SELECT COUNT(*) FROM t").await, "1");
        run(&mut b, "COMMIT").await;
    }
    drop(b);
    let left = if expected == 1927 { "0" } else { "1" };
    assert_eq!(one(&mut a, "SELECT COUNT(*) FROM t").await, left);
}

#[tokio::test]
async fn statements_that_are_killed() {
    killed("endless", ENDLESS, "KILL QUERY", 1317).await;
    killed("nap", "SELECT SLEEP(1000)", "KILL QUERY", 1317).await;
    killed("sleep", "SELECT SLEEP(1000) FROM t", "KILL HARD QUERY", 1317).await;
    killed("lock", "SELECT GET_LOCK('x', 1000), SLEEP(1000)", "KILL SOFT QUERY", 1317).await;
    killed("update", "UPDATE t SET n = 2 WHERE SLEEP(1000) = 0", "KILL QUERY", 1317).await;
}

#[tokio::test]
async fn connections_that_are_killed() {
    killed("connection", ENDLESS, "KILL", 1927).await;
    killed("nap-connection", "SELECT SLEEP(1000)", "KILL CONNECTION", 1927).await;
}

#[tokio::test]
async fn who_ends_itself_gets_an_error() {
    let fixture = Fixture::new("kill-self");
    let mut a = fixture.session().await;
    let id = a.id();
    assert_eq!(code(&mut a, &format!("KILL QUERY {id}")).await, 1317);
    assert_eq!(one(&mut a, "SELECT 1").await, "1");
    assert_eq!(code(&mut a, "KILL 4000000000").await, 1094);
    assert_eq!(code(&mut a, &format!("KILL {id}")).await, 1927);
    assert!(a.client().is_gone());
    assert_eq!(code(&mut a, "SELECT SLEEP(0.01)").await, 1927);
}

#[tokio::test]
async fn a_list_of_those_who_are_connected() {
    let fixture = Fixture::new("processlist");
    let (mut a, b) = (fixture.session().await, fixture.session().await);
    let list = "SELECT CONCAT_WS(' ', user, host, db, command, info) FROM information_schema.processlist ORDER BY id DESC LIMIT 1";
    assert!(
        one(&mut a, list).await.starts_with("root localhost test Query SELECT CONCAT_WS"),
        "inside nobody is listed"
    );
    b.connect("app", "10.1.2.3:4567", "%");
    assert_eq!(one(&mut a, list).await, "app 10.1.2.3:4567 test Sleep");
    let row = try_run(&mut a, "SHOW FULL PROCESSLIST").await.unwrap().rows.remove(0);
    assert_eq!(row[0], a.id().to_string());
    assert_eq!(row[4..8], ["Query", "0", "", "SHOW FULL PROCESSLIST"]);
    assert_eq!(one(&mut a, "SELECT CONCAT(USER(), CURRENT_USER())").await, "root@localhostroot@localhost");
    let mut b = b;
    assert_eq!(one(&mut b, "SELECT CONCAT(USER(), ' ', CURRENT_USER())").await, "app@10.1.2.3 app@%");
    drop(b);
    assert!(one(&mut a, list).await.starts_with("root"));
}
