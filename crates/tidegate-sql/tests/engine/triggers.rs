//! Triggers: their bounds, what stops them, and who else than SQL fires them. What they do is in the differential suite
//! (`corpus/triggers.sql`).

use std::time::Duration;

use tidegate_rows::Value;
use tidegate_sql::{
    Kill, Session,
    table::{Answer, Change, OnDuplicate, Opening, Request, Rows, Strictness},
};

use super::{Fixture, Rows as Collected, code, one, run, try_run};

/// A table with a trigger of a body.
async fn with_trigger(session: &mut Session, body: &str) {
    run(session, "CREATE TABLE IF NOT EXISTS t (a INT, b TEXT)").await;
    run(session, &format!("CREATE OR REPLACE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW {body}")).await;
}

#[tokio::test]
async fn a_program_is_one_statement_of_a_text() {
    let fixture = Fixture::new("trigger-text");
    let mut session = fixture.session().await;
    let text = "CREATE TABLE t (a INT); \
        CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW BEGIN IF NEW.a = 1 THEN SET NEW.a = 5; END IF; END; \
        INSERT INTO t VALUES (1), (2); SELECT * FROM t";
    assert_eq!(one(&mut session, text).await, "5;2");
    // As mysqldump writes it.
    let text = "DROP TRIGGER tr; /*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER tr BEFORE INSERT ON t \
        FOR EACH ROW BEGIN SET NEW.a = 6; END */; INSERT INTO t VALUES (1); SELECT * FROM t";
    assert_eq!(one(&mut session, text).await, "5;2;6");
    let shown = run(&mut session, "SHOW CREATE TRIGGER tr").await;
    assert!(shown.rows[0][2].ends_with("FOR EACH ROW BEGIN SET NEW.a = 6; END"), "{:?}", shown.rows);
}

#[tokio::test]
async fn a_text_that_is_cut_anywhere_is_an_error() {
    let fixture = Fixture::new("trigger-cut");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT, b TEXT)").await;
    let text = "CREATE OR REPLACE DEFINER=CURRENT_USER TRIGGER tr BEFORE INSERT ON t FOR EACH ROW l: BEGIN \
        DECLARE x, y INT DEFAULT 1; DECLARE n CONDITION FOR SQLSTATE '45000'; DECLARE c CURSOR FOR SELECT a FROM t; \
        DECLARE CONTINUE HANDLER FOR NOT FOUND, n SET x = 2; OPEN c; FETCH c INTO x; CLOSE c; \
        IF x = 1 THEN SET y = CASE x WHEN 1 THEN IF(y, 2, 3) ELSE 4 END; ELSEIF y THEN LEAVE l; ELSE SET NEW.b = 'z'; END IF; \
        CASE x WHEN 1 THEN SET y = 1; ELSE BEGIN END; END CASE; WHILE y > 5 DO SET y = y - 1; END WHILE; \
        REPEAT SET y = y + 1; UNTIL y > 3 END REPEAT; i: LOOP LEAVE i; END LOOP i; SELECT 1 INTO x; \
        UPDATE t SET a = 1 WHERE a = NEW.a AND 0; SIGNAL n SET MESSAGE_TEXT = 'x'; END l";
    run(&mut session, text).await;
    for end in "CREATE OR REPLACE ".len()..text.len() - 2 {
        if text.is_char_boundary(end) {
            let code = code(&mut session, &text[..end]).await;
            assert!(code != 0, "{}", &text[..end]);
        }
    }
}

#[tokio::test]
async fn what_is_too_deep_or_too_long_is_refused() {
    let fixture = Fixture::new("trigger-bounds");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT, b TEXT)").await;
    let create = |body: &str| format!("CREATE OR REPLACE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW {body}");
    let nested = |depth: usize| format!("{}SET NEW.a = 1; {}", "BEGIN ".repeat(depth), "END; ".repeat(depth));
    let ended = |body: String| body.trim_end_matches("; ").to_owned();
    run(&mut session, &create(&ended(nested(50)))).await;
    assert_eq!(code(&mut session, &create(&ended(nested(5_000)))).await, 1235);
    let long = |count: usize| format!("BEGIN {}END", "SET NEW.a = NEW.a + 1; ".repeat(count));
    run(&mut session, &create(&long(2_000))).await;
    assert_eq!(one(&mut session, "INSERT INTO t (a) VALUES (0); SELECT a FROM t").await, "2000");
    assert_eq!(code(&mut session, &create(&long(20_001))).await, 1235);
    // A chain of tables that fire each other.
    for number in 0..40 {
        run(&mut session, &format!("CREATE TABLE c{number} (a INT)")).await;
    }
    for number in 0..39 {
        let next = number + 1;
        let body = format!("INSERT INTO c{next} VALUES (NEW.a + 1)");
        run(&mut session, &format!("CREATE TRIGGER x{number} AFTER INSERT ON c{number} FOR EACH ROW {body}")).await;
    }
    assert_eq!(one(&mut session, "INSERT INTO c7 VALUES (7); SELECT a FROM c39").await, "39");
    assert_eq!(code(&mut session, "INSERT INTO c6 VALUES (6)").await, 1235);
    // Two statements on each level would be a million plans.
    for number in 0..39 {
        let next = number + 1;
        let body = format!("BEGIN INSERT INTO c{next} VALUES (1); INSERT INTO c{next} VALUES (2); END");
        let name = format!("CREATE OR REPLACE TRIGGER x{number} AFTER INSERT ON c{number} FOR EACH ROW {body}");
        run(&mut session, &name).await;
    }
    assert_eq!(code(&mut session, "INSERT INTO c10 VALUES (0)").await, 1235);
}

#[tokio::test]
async fn a_million_rounds() {
    let fixture = Fixture::new("trigger-rounds");
    let mut session = fixture.session().await;
    with_trigger(
        &mut session,
        "BEGIN DECLARE i INT DEFAULT 0; WHILE i < 1000000 DO SET i = i + 1; END WHILE; SET NEW.a = i; END",
    )
    .await;
    assert_eq!(one(&mut session, "INSERT INTO t (a) VALUES (1); SELECT a FROM t").await, "1000000");
}

#[tokio::test]
async fn time_limits_and_kill_end_a_loop_without_end() {
    let fixture = Fixture::new("trigger-endless");
    let mut session = fixture.session().await;
    with_trigger(
        &mut session,
        "BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; l: LOOP BEGIN END; END LOOP; END",
    )
    .await;
    let limited = "SET STATEMENT max_statement_time = 0.05 FOR INSERT INTO t (a) VALUES (1)";
    assert_eq!(code(&mut session, limited).await, 1969);
    // On the same thread: a loop that let nobody else run would never end.
    let mut killer = fixture.engine().session("test").unwrap();
    let id = session.id();
    let (killed, ()) = tokio::join!(code(&mut session, "INSERT INTO t (a) VALUES (1)"), async {
        loop {
            let found = one(
                &mut killer,
                &format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND info IS NOT NULL"),
            )
            .await;
            if found == "1" {
                break killer.kill(id, Kill::Query).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert_eq!(killed, 1317);
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM t").await, "0");
    // A client that goes away.
    let gone =
        tokio::time::timeout(Duration::from_millis(20), try_run(&mut session, "INSERT INTO t (a) VALUES (1)")).await;
    assert!(gone.is_err());
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM t").await, "0");
}

#[tokio::test]
async fn triggers_are_in_the_file() {
    let mut fixture = Fixture::new("trigger-file");
    {
        let mut session = fixture.session().await;
        run(&mut session, "SET sql_mode = 'ANSI_QUOTES'").await;
        with_trigger(&mut session, "SET NEW.\"b\" = concat('x', NEW.a)").await;
    }
    fixture.open_again(|_| {});
    let mut session = fixture.session().await;
    assert_eq!(one(&mut session, "INSERT INTO t (a) VALUES (7); SELECT b FROM t").await, "x7");
    run(&mut session, "DROP TABLE t; CREATE TABLE t (a INT, b TEXT); INSERT INTO t (a) VALUES (8)").await;
    assert_eq!(one(&mut session, "SELECT b FROM t").await, "NULL");
    assert_eq!(code(&mut session, "DROP TRIGGER tr").await, 1360);
}

#[tokio::test]
async fn other_sessions_fire_a_trigger_from_the_moment_on_when_it_is_made() {
    let fixture = Fixture::new("trigger-others");
    let mut session = fixture.session().await;
    let mut other = fixture.engine().session("test").unwrap();
    run(&mut session, "CREATE TABLE t (a INT, b TEXT)").await;
    for _ in 0..3 {
        run(&mut other, "INSERT INTO t (a) VALUES (1)").await;
    }
    with_trigger(&mut session, "SET NEW.b = 'first'").await;
    run(&mut other, "INSERT INTO t (a) VALUES (1)").await;
    with_trigger(&mut session, "SET NEW.b = 'second'").await;
    run(&mut other, "INSERT INTO t (a) VALUES (1)").await;
    run(&mut session, "ALTER TABLE t ADD c INT; DROP TRIGGER tr").await;
    run(&mut other, "INSERT INTO t (a) VALUES (1)").await;
    let found = one(&mut session, "SELECT IFNULL(b, '-') FROM t").await;
    assert_eq!(found, "-;-;-;first;second;-");
    // Somebody who has changed the table, and has not committed, keeps the trigger away.
    run(&mut other, "BEGIN; INSERT INTO t (a) VALUES (1)").await;
    let create = "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.b = 'third'";
    super::check_locked_out(&mut session, create).await;
    run(&mut other, "ROLLBACK").await;
    run(&mut session, create).await;
}

#[tokio::test]
async fn requests_without_sql_fire_triggers() {
    let fixture = Fixture::new("trigger-table");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TABLE l (m VARCHAR(50))").await;
    for (event, row) in [("INSERT", "NEW.v"), ("UPDATE", "CONCAT(OLD.v, '-', NEW.v)"), ("DELETE", "OLD.v")] {
        let body = format!("INSERT INTO l VALUES (CONCAT('{event} ', {row}))");
        run(&mut session, &format!("CREATE TRIGGER t{event} AFTER {event} ON t FOR EACH ROW {body}")).await;
    }
    run(&mut session, "CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW SET NEW.v = NEW.v + 1").await;
    let opening = Opening {
        schema: "",
        table: "t",
        index: "PRIMARY",
        columns: &["id", "v"],
        filters: &[],
        strictness: Strictness::Exact,
    };
    let open = session.open_table(&opening).unwrap();
    let mut sink = Collected::default();
    let row = [Value::Int(1), Value::Int(10)];
    session.run_request(&open, &Request::Insert(&row, OnDuplicate::Fail), &mut sink).await.unwrap();
    let key = [Value::Int(1)];
    let changes = [Change::Keep, Change::Set(Value::Int(20))];
    let update = Request::Update(Rows::with_key(&key), &changes, Answer::Number);
    session.run_request(&open, &update, &mut sink).await.unwrap();
    session.run_request(&open, &Request::Delete(Rows::with_key(&key), Answer::Number), &mut sink).await.unwrap();
    assert_eq!(one(&mut session, "SELECT m FROM l").await, "INSERT 11;UPDATE 11-20;DELETE 20");
    // The open table goes by the newest definitions.
    run(&mut session, "DROP TRIGGER b; DROP TRIGGER tINSERT").await;
    session.run_request(&open, &Request::Insert(&row, OnDuplicate::Fail), &mut sink).await.unwrap();
    assert_eq!(one(&mut session, "SELECT v FROM t").await, "10");
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM l").await, "3");
}

#[tokio::test]
async fn a_transaction_takes_back_what_its_triggers_have_done() {
    let fixture = Fixture::new("trigger-undo");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE l (m INT PRIMARY KEY)").await;
    with_trigger(&mut session, "INSERT INTO l VALUES (NEW.a)").await;
    run(&mut session, "BEGIN; INSERT INTO t (a) VALUES (1); SAVEPOINT s; INSERT INTO t (a) VALUES (2); ROLLBACK TO s")
        .await;
    // The second row is a duplicate for the trigger: the statement's first row goes too.
    assert_eq!(code(&mut session, "INSERT INTO t (a) VALUES (3), (1)").await, 1062);
    run(&mut session, "COMMIT").await;
    assert_eq!(one(&mut session, "SELECT a FROM t").await, "1");
    assert_eq!(one(&mut session, "SELECT m FROM l").await, "1");
    // Where it is handled the rest stays.
    with_trigger(
        &mut session,
        "BEGIN DECLARE CONTINUE HANDLER FOR 1062 SET NEW.b = 'twice'; INSERT INTO l VALUES (NEW.a); END",
    )
    .await;
    run(&mut session, "INSERT INTO t (a) VALUES (3), (1)").await;
    assert_eq!(one(&mut session, "SELECT a, IFNULL(b, '') FROM t").await, "1,;3,;1,twice");
    assert_eq!(one(&mut session, "SELECT m FROM l").await, "1;3");
    // Nobody sees half of it.
    let mut other = fixture.engine().session("test").unwrap();
    run(&mut session, "BEGIN; INSERT INTO t (a) VALUES (9)").await;
    assert_eq!(one(&mut other, "SELECT COUNT(*) FROM l WHERE m = 9").await, "0");
    run(&mut session, "COMMIT").await;
    assert_eq!(one(&mut other, "SELECT COUNT(*) FROM l WHERE m = 9").await, "1");
}

#[tokio::test]
async fn triggers_run_with_the_rights_of_their_definer() {
    let fixture = Fixture::new("trigger-rights");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE l (m INT)").await;
    with_trigger(&mut session, "INSERT INTO l VALUES (NEW.a)").await;
    run(&mut session, "CREATE USER u@'%'; GRANT INSERT ON test.t TO u").await;
    let mut user = fixture.engine().session("test").unwrap();
    user.connect("u", "localhost:1", "%");
    run(&mut user, "INSERT INTO t (a) VALUES (1)").await;
    assert_eq!(code(&mut user, "INSERT INTO l VALUES (1)").await, 1142);
    assert_eq!(code(&mut user, "DROP TRIGGER tr").await, 1142);
    assert_eq!(code(&mut user, "SHOW CREATE TRIGGER tr").await, 1142);
    assert_eq!(one(&mut user, "SHOW TRIGGERS").await, "");
    assert_eq!(code(&mut user, "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1").await, 1142);
    run(&mut session, "GRANT TRIGGER ON test.t TO u").await;
    run(&mut user, "CREATE OR REPLACE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW INSERT INTO l VALUES (NEW.a)").await;
    assert_eq!(code(&mut user, "INSERT INTO t (a) VALUES (1)").await, 1142);
    // Also for somebody who may do everything: it runs as the one who has made it.
    assert_eq!(code(&mut session, "INSERT INTO t (a) VALUES (1)").await, 1142);
    run(&mut session, "GRANT INSERT ON test.l TO u; INSERT INTO t (a) VALUES (1); DROP USER u@'%'").await;
    assert_eq!(code(&mut session, "INSERT INTO t (a) VALUES (1)").await, 1449);
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM l").await, "2");
}
