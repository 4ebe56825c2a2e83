//! Events: that they run, once, as their definers may, and what becomes of them. How they are defined and shown is in the
//! differential suite (`corpus/events.sql`).

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tidegate_sql::{Report, Session};

use super::{Fixture, code, one, run};

/// Waits until a query has an answer: an event has run, or gone.
async fn until(session: &mut Session, query: &str, expected: &str) {
    while one(session, query).await != expected {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn events_run_while_the_scheduler_is_on() {
    let fixture = Fixture::new("events-run");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE l (m VARCHAR(50)); CREATE FUNCTION f() RETURNS INT RETURN 5").await;
    let insert = "INSERT INTO l VALUES (CONCAT_WS(' ', 'hourly', f(), DATABASE(), CURRENT_USER()))";
    run(&mut session, &format!("CREATE EVENT hourly ON SCHEDULE EVERY 1 HOUR DO {insert}")).await;
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM l").await, "0");
    run(&mut session, "SET GLOBAL event_scheduler = ON").await;
    assert_eq!(one(&mut session, "SELECT @@GLOBAL.event_scheduler").await, "ON");
    until(&mut session, "SELECT m FROM l", "hourly 5 test root@localhost").await;
    let hourly = "SELECT last_executed IS NULL, status FROM information_schema.events WHERE event_name = 'hourly'";
    assert_eq!(one(&mut session, hourly).await, "0,ENABLED");
    // One that is made while it is on; more than one statement, rows for nobody, and a handler.
    let body = "BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION INSERT INTO l VALUES ('handled'); SELECT 1; \
        START TRANSACTION; INSERT INTO l VALUES ('undone'); ROLLBACK; INSERT INTO nosuch VALUES (1); INSERT INTO l VALUES ('last'); END";
    run(&mut session, &format!("CREATE EVENT one ON SCHEDULE AT CURRENT_TIMESTAMP DO {body}")).await;
    until(&mut session, "SELECT m FROM l WHERE m NOT LIKE 'hourly%'", "handled;last").await;
    // It has gone before it ran; one that is to be kept is disabled.
    assert_eq!(one(&mut session, "SHOW EVENTS LIKE 'one'").await, "");
    run(
        &mut session,
        "CREATE EVENT kept ON SCHEDULE AT CURRENT_TIMESTAMP ON COMPLETION PRESERVE DO INSERT INTO l VALUES ('kept')",
    )
    .await;
    until(&mut session, "SELECT COUNT(*) FROM l WHERE m = 'kept'", "1").await;
    let kept = "SELECT status FROM information_schema.events WHERE event_name = 'kept'";
    assert_eq!(one(&mut session, kept).await, "DISABLED");
    // Altered to the present it runs again, and each run is one.
    run(&mut session, "ALTER EVENT kept ON SCHEDULE AT CURRENT_TIMESTAMP ENABLE").await;
    until(&mut session, "SELECT COUNT(*) FROM l WHERE m = 'kept'", "2").await;
    until(&mut session, kept, "DISABLED").await;
    // Off, it does not run.
    run(
        &mut session,
        "SET GLOBAL event_scheduler = 0; CREATE EVENT off ON SCHEDULE EVERY 1 DAY DO INSERT INTO l VALUES ('off')",
    )
    .await;
    assert_eq!(one(&mut session, "SELECT @@GLOBAL.event_scheduler").await, "OFF");
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM l WHERE m = 'off'").await, "0");
    run(&mut session, "SET GLOBAL event_scheduler = 1").await;
    until(&mut session, "SELECT COUNT(*) FROM l WHERE m = 'off'", "1").await;
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM l WHERE m LIKE 'hourly%'").await, "1");
    run(&mut session, "SET GLOBAL event_scheduler = OFF").await;
}

#[tokio::test]
async fn events_run_as_their_definers_and_their_errors_are_told() {
    let mut fixture = Fixture::new("events-rights");
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let tells = Arc::clone(&told);
    fixture.open_again(|options| {
        options.report = Some(Report(Arc::new(move |sentence: &str| tells.lock().unwrap().push(sentence.to_owned()))));
    });
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE l (m TEXT); CREATE USER u@'%'; GRANT SELECT ON test.* TO u").await;
    let mut user = fixture.engine().session("test").unwrap();
    user.connect("u", "localhost:1", "%");
    let create = "CREATE EVENT e ON SCHEDULE AT CURRENT_TIMESTAMP DO INSERT INTO l VALUES (CURRENT_USER())";
    assert_eq!(code(&mut user, create).await, 1044);
    run(&mut session, "GRANT EVENT ON test.* TO u").await;
    run(&mut user, create).await;
    assert_eq!(one(&mut user, "SELECT definer FROM information_schema.events").await, "u@%");
    run(&mut session, "SET GLOBAL event_scheduler = ON").await;
    while !told.lock().unwrap().iter().any(|sentence| sentence.starts_with("event test.e failed: ")) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    run(&mut session, "GRANT INSERT ON test.l TO u").await;
    run(&mut user, create).await;
    until(&mut session, "SELECT m FROM l", "u@%").await;
    // Who may not have events any more.
    run(
        &mut user,
        "CREATE EVENT later ON SCHEDULE EVERY 1 HOUR STARTS CURRENT_TIMESTAMP + INTERVAL 1 HOUR DO DELETE FROM l",
    )
    .await;
    run(&mut session, "REVOKE EVENT ON test.* FROM u").await;
    assert_eq!(code(&mut user, "DROP EVENT later").await, 1044);
    assert_eq!(one(&mut user, "SELECT COUNT(*) FROM information_schema.events").await, "0");
    run(&mut session, "SET GLOBAL event_scheduler = OFF").await;
}

#[tokio::test]
async fn events_are_in_the_file() {
    let mut fixture = Fixture::new("events-file");
    {
        let mut session = fixture.session().await;
        run(&mut session, "SET sql_mode = 'ANSI_QUOTES'; CREATE TABLE l (m TEXT)").await;
        run(
            &mut session,
            "CREATE EVENT \"e\" ON SCHEDULE EVERY 7 DAY COMMENT 'kept' DO INSERT INTO \"l\" VALUES ('e')",
        )
        .await;
        run(&mut session, "CREATE EVENT late ON SCHEDULE AT CURRENT_TIMESTAMP DO INSERT INTO l VALUES ('late')").await;
    }
    fixture.open_again(|_| {});
    let mut session = fixture.session().await;
    assert_eq!(
        one(&mut session, "SELECT event_name, interval_value, event_comment FROM information_schema.events ORDER BY 1")
            .await,
        "e,7,kept;late,NULL,"
    );
    let last = "SELECT last_executed FROM information_schema.events WHERE event_name = 'e'";
    assert_eq!(one(&mut session, last).await, "NULL");
    run(&mut session, "SET sql_mode = 'ANSI_QUOTES'; ALTER EVENT e DISABLE").await;
    // What was to happen once happens late.
    run(&mut session, "SET GLOBAL event_scheduler = ON").await;
    until(&mut session, "SELECT COUNT(*) FROM l WHERE m = 'late'", "1").await;
    until(&mut session, "SELECT COUNT(*) FROM information_schema.events", "1").await;
    // The file is told that it runs before it does.
    run(&mut session, "ALTER EVENT e ON SCHEDULE EVERY '1 6' DAY_HOUR STARTS CURRENT_TIMESTAMP ENABLE").await;
    until(&mut session, "SELECT COUNT(*) FROM l WHERE m = 'e'", "1").await;
    let at = one(&mut session, last).await;
    assert_ne!(at, "NULL");
    run(&mut session, "SET GLOBAL event_scheduler = OFF; ALTER EVENT e COMMENT 'altered'").await;
    assert_eq!(one(&mut session, last).await, at, "ALTER EVENT leaves it");
    drop(session);
    fixture.open_again(|options| options.event_scheduler = true);
    let mut session = fixture.session().await;
    assert_eq!(one(&mut session, last).await, at);
    assert_eq!(one(&mut session, "SELECT @@GLOBAL.event_scheduler").await, "ON");
    // Another one of the name, which may have the number of the old one, has not run.
    run(&mut session, "DROP EVENT e; CREATE EVENT e ON SCHEDULE EVERY 7 DAY STARTS CURRENT_TIMESTAMP + INTERVAL 1 DAY DO DELETE FROM l").await;
    assert_eq!(one(&mut session, last).await, "NULL");
    // The configuration says the same as before, and then something else.
    let options = |on| {
        let mut options = tidegate_sql::EngineOptions::new("");
        options.event_scheduler = on;
        options
    };
    run(&mut session, "SET GLOBAL event_scheduler = OFF").await;
    fixture.engine().configure(options(true)).unwrap();
    assert_eq!(one(&mut session, "SELECT @@GLOBAL.event_scheduler").await, "OFF");
    run(&mut session, "SET GLOBAL event_scheduler = ON").await;
    fixture.engine().configure(options(false)).unwrap();
    assert_eq!(one(&mut session, "SELECT @@GLOBAL.event_scheduler").await, "OFF");
}
