//! Stored functions: whose rights they have, what ends them, what depends on their definitions, and who else writes meanwhile. What
//! they do is in the differential suite (`corpus/functions.sql`).

use std::time::Duration;

use tidegate_rows::Value;
use tidegate_sql::{
    Kill,
    table::{OnDuplicate, Opening, Request, Strictness},
};

use super::{Fixture, Rows as Collected, code, one, run, try_run};

#[tokio::test]
async fn functions_run_with_the_rights_of_their_definer_or_their_caller() {
    let fixture = Fixture::new("function-rights");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT); INSERT INTO t VALUES (7); CREATE USER u@'%'").await;
    run(&mut session, "CREATE FUNCTION f() RETURNS INT RETURN (SELECT MAX(a) FROM t)").await;
    run(&mut session, "CREATE FUNCTION i() RETURNS INT SQL SECURITY INVOKER RETURN (SELECT MAX(a) FROM t)").await;
    run(&mut session, "CREATE FUNCTION w() RETURNS INT BEGIN INSERT INTO t VALUES (8); RETURN f() + i(); END").await;
    let mut user = fixture.engine().session("test").unwrap();
    user.connect("u", "localhost:1", "%");
    assert_eq!(code(&mut user, "SELECT f()").await, 1370);
    assert_eq!(code(&mut user, "SELECT nosuch()").await, 1370);
    assert_eq!(code(&mut user, "SHOW CREATE FUNCTION f").await, 1305);
    assert_eq!(code(&mut user, "CREATE FUNCTION own() RETURNS INT RETURN 1").await, 1044);
    run(&mut session, "GRANT EXECUTE ON FUNCTION test.f TO u; GRANT EXECUTE ON FUNCTION i TO u").await;
    assert_eq!(one(&mut user, "SELECT f()").await, "7");
    assert_eq!(code(&mut user, "SELECT i()").await, 1142);
    assert_eq!(code(&mut user, "SELECT w()").await, 1370);
    assert_eq!(code(&mut user, "SELECT a FROM t").await, 1142);
    assert_eq!(code(&mut user, "DROP FUNCTION f").await, 1370);
    assert_eq!(code(&mut user, "ALTER FUNCTION f COMMENT 'x'").await, 1370);
    assert_eq!(one(&mut user, "SELECT routine_name FROM information_schema.routines ORDER BY 1").await, "f;i");
    // One that runs as its definer calls one that runs as its caller, which is the definer then.
    run(&mut session, "GRANT EXECUTE ON FUNCTION w TO u").await;
    assert_eq!(one(&mut user, "SELECT w()").await, "16");
    run(&mut session, "REVOKE EXECUTE ON FUNCTION f FROM u").await;
    assert_eq!(code(&mut user, "SELECT f()").await, 1370);
    assert_eq!(code(&mut session, "REVOKE EXECUTE ON FUNCTION nosuch FROM u").await, 1403);
    assert_eq!(code(&mut session, "GRANT EXECUTE ON FUNCTION nosuch TO u").await, 1305);
    assert_eq!(code(&mut session, "GRANT SELECT ON FUNCTION f TO u").await, 1144);
    // One that its user has made, who loses a right.
    run(&mut session, "GRANT CREATE ROUTINE ON test.* TO u; GRANT SELECT ON test.t TO u").await;
    run(&mut user, "CREATE FUNCTION own() RETURNS INT RETURN (SELECT MIN(a) FROM t)").await;
    assert_eq!(one(&mut session, "SELECT own()").await, "7");
    run(&mut session, "REVOKE SELECT ON test.t FROM u").await;
    assert_eq!(code(&mut session, "SELECT own()").await, 1142);
    run(&mut session, "DROP USER u@'%'").await;
    assert_eq!(code(&mut session, "SELECT own()").await, 1449);
}

#[tokio::test]
async fn grants_on_single_routines_are_kept() {
    let mut fixture = Fixture::new("function-grants");
    {
        let mut session = fixture.session().await;
        run(&mut session, "CREATE FUNCTION f() RETURNS INT RETURN 1; CREATE PROCEDURE P() SELECT 2; CREATE USER u@'%'")
            .await;
        run(&mut session, "GRANT EXECUTE, ALTER ROUTINE ON FUNCTION f TO u; GRANT ALL ON PROCEDURE test.p TO u").await;
    }
    fixture.open_again(|_| {});
    let mut session = fixture.session().await;
    let expected = "GRANT USAGE ON *.* TO `u`@`%`;GRANT EXECUTE, ALTER ROUTINE ON PROCEDURE `test`.`p` TO `u`@`%`;\
        GRANT EXECUTE, ALTER ROUTINE ON FUNCTION `test`.`f` TO `u`@`%`";
    assert_eq!(one(&mut session, "SHOW GRANTS FOR u").await, expected);
    let listed = "SELECT routine_name, routine_type, proc_priv FROM mysql.procs_priv ORDER BY 1";
    assert_eq!(one(&mut session, listed).await, "f,FUNCTION,Execute,Alter routine;p,PROCEDURE,Execute,Alter routine");
    let mut user = fixture.engine().session("").unwrap();
    user.connect("u", "localhost:1", "%");
    assert_eq!(one(&mut user, "USE test; CALL p(); SELECT f()").await, "2;1");
    run(&mut user, "DROP PROCEDURE p; ALTER FUNCTION f COMMENT 'mine'").await;
    assert_eq!(code(&mut user, "DROP FUNCTION nosuch").await, 1370);
}

#[tokio::test]
async fn current_user_is_who_acts() {
    let fixture = Fixture::new("function-user");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE USER u@'%'; GRANT EXECUTE ON test.* TO u; CREATE TABLE t (a TEXT)").await;
    run(&mut session, "GRANT INSERT, SELECT ON test.t TO u").await;
    run(&mut session, "CREATE FUNCTION f() RETURNS TEXT RETURN CONCAT(CURRENT_USER(), ' ', USER())").await;
    run(&mut session, "CREATE FUNCTION i() RETURNS TEXT SQL SECURITY INVOKER RETURN CURRENT_USER()").await;
    run(&mut session, "CREATE FUNCTION fi() RETURNS TEXT RETURN i()").await;
    run(&mut session, "CREATE PROCEDURE p() SELECT CURRENT_USER(), f(), i()").await;
    run(&mut session, "CREATE PROCEDURE ip() SQL SECURITY INVOKER SELECT CURRENT_USER(), i()").await;
    run(&mut session, "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.a = CURRENT_USER()").await;
    let mut user = fixture.engine().session("test").unwrap();
    user.connect("u", "h:1", "%");
    let definer = "root@localhost";
    assert_eq!(one(&mut user, "SELECT f()").await, format!("{definer} u@h"));
    assert_eq!(one(&mut user, "SELECT i(), fi(), CURRENT_USER()").await, format!("u@%,{definer},u@%"));
    assert_eq!(one(&mut user, "CALL p()").await, format!("{definer},{definer} u@h,{definer}"));
    assert_eq!(one(&mut user, "CALL ip()").await, "u@%,u@%");
    assert_eq!(one(&mut user, "INSERT INTO t VALUES ('x'); SELECT a FROM t").await, definer);
}

#[tokio::test]
async fn time_limits_and_kill_end_a_function_without_end() {
    let fixture = Fixture::new("function-endless");
    let mut session = fixture.session().await;
    let handler = "DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END";
    run(
        &mut session,
        &format!("CREATE FUNCTION f() RETURNS INT BEGIN {handler}; l: LOOP BEGIN END; END LOOP; RETURN 1; END"),
    )
    .await;
    run(&mut session, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await;
    assert_eq!(code(&mut session, "SET STATEMENT max_statement_time = 0.05 FOR SELECT f()").await, 1969);
    assert_eq!(code(&mut session, "SET STATEMENT max_statement_time = 0.05 FOR UPDATE t SET a = f()").await, 1969);
    let mut killer = fixture.engine().session("test").unwrap();
    let id = session.id();
    let (killed, ()) = tokio::join!(code(&mut session, "SELECT f() FROM t"), async {
        loop {
            let query =
                format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND info IS NOT NULL");
            if one(&mut killer, &query).await == "1" {
                break killer.kill(id, Kill::Query).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert_eq!(killed, 1317);
    // A client that goes away.
    let gone = tokio::time::timeout(Duration::from_millis(20), try_run(&mut session, "SELECT f() FROM t")).await;
    assert!(gone.is_err());
    assert_eq!(one(&mut session, "SELECT a FROM t").await, "1");
}

#[tokio::test]
async fn results_depend_on_definitions_and_on_what_functions_read() {
    let fixture = Fixture::new("function-definitions");
    let mut session = fixture.session().await;
    let mut other = fixture.engine().session("test").unwrap();
    other.watch_tables();
    run(
        &mut session,
        "CREATE TABLE t (a INT); CREATE TABLE u (a INT); INSERT INTO t VALUES (1); INSERT INTO u VALUES (10)",
    )
    .await;
    run(&mut session, "CREATE FUNCTION inner_f() RETURNS INT RETURN (SELECT MAX(a) FROM u)").await;
    run(&mut session, "CREATE FUNCTION f(x INT) RETURNS INT RETURN x + inner_f()").await;
    let query = "SELECT f(a) FROM t";
    for (change, expected) in [
        ("DO 1", "11"),
        ("UPDATE u SET a = 20", "21"),
        ("CREATE OR REPLACE FUNCTION inner_f() RETURNS INT RETURN (SELECT MAX(a) * 2 FROM u)", "41"),
        ("ALTER TABLE u ADD b INT FIRST", "41"),
        ("CREATE OR REPLACE FUNCTION f(x INT) RETURNS VARCHAR(20) RETURN CONCAT('x', x)", "x1"),
    ] {
        let before = other.freshness();
        run(&mut session, change).await;
        assert!(change == "DO 1" || !before.is_some_and(|before| before.holds()), "{change}");
        assert_eq!(one(&mut other, query).await, expected, "{change}");
        assert!(other.freshness().is_some_and(|after| after.holds()), "{change}");
    }
    run(&mut session, "DROP FUNCTION f").await;
    assert_eq!(code(&mut other, query).await, 1305);
    // The clock is no table.
    run(&mut session, "CREATE FUNCTION f(x INT) RETURNS DATETIME RETURN NOW() + INTERVAL x SECOND").await;
    run(&mut other, query).await;
    assert!(other.freshness().is_none());
    run(&mut session, "CREATE OR REPLACE FUNCTION f(x INT) RETURNS INT RETURN @v").await;
    assert_eq!(one(&mut other, "SET @v = 5; SELECT f(a) FROM t; SET @v = '7'; SELECT f(a) FROM t").await, "5;7");
    run(&mut other, query).await;
    assert!(other.freshness().is_none());
}

#[tokio::test]
async fn queries_whose_functions_write_are_writing_statements() {
    let fixture = Fixture::new("function-writes");
    let mut session = fixture.session().await;
    let mut other = fixture.engine().session("test").unwrap();
    run(&mut session, "CREATE TABLE k (id INT PRIMARY KEY, v INT); INSERT INTO k VALUES (1, 0), (2, 0)").await;
    run(&mut session, "CREATE FUNCTION up(i INT) RETURNS INT BEGIN UPDATE k SET v = v + 1 WHERE id = i; RETURN i; END")
        .await;
    // It waits for the row that somebody has locked, and counts once.
    run(&mut session, "BEGIN; UPDATE k SET v = 10 WHERE id = 1").await;
    let (found, _) = tokio::join!(one(&mut other, "SELECT up(1)"), run(&mut session, "COMMIT"));
    assert_eq!(found, "1");
    assert_eq!(one(&mut other, "SELECT v FROM k ORDER BY id").await, "11;0");
    // In a transaction its changes are that one's, and locked until it ends.
    run(&mut session, "BEGIN").await;
    assert_eq!(one(&mut session, "SELECT up(2)").await, "2");
    assert_eq!(one(&mut other, "SELECT v FROM k WHERE id = 2").await, "0");
    run(&mut other, "SET innodb_lock_wait_timeout = 0").await;
    assert_eq!(code(&mut other, "SELECT up(2)").await, 1205);
    assert_eq!(code(&mut other, "UPDATE k SET v = 5 WHERE id = 2").await, 1205);
    run(&mut session, "ROLLBACK").await;
    assert_eq!(one(&mut other, "SELECT v FROM k WHERE id = 2").await, "0");
    // Who only reads must not call it.
    assert_eq!(code(&mut session, "START TRANSACTION READ ONLY; SELECT up(2)").await, 1792);
    run(&mut session, "COMMIT; LOCK TABLES k READ").await;
    assert_eq!(code(&mut session, "SELECT up(2)").await, 1099);
    run(&mut session, "UNLOCK TABLES; CREATE TABLE l (a INT)").await;
    // A row that fails takes with it what was written for those before it.
    run(&mut session, "CREATE FUNCTION bad(i INT) RETURNS INT BEGIN DO up(i); IF i = 2 THEN SIGNAL SQLSTATE '45000'; END IF; RETURN i; END")
        .await;
    run(&mut session, "INSERT INTO l VALUES (1), (2)").await;
    assert_eq!(code(&mut session, "SELECT bad(a) FROM l ORDER BY a").await, 1644);
    assert_eq!(one(&mut session, "SELECT v FROM k ORDER BY id").await, "11;0");
    // Whoever listens hears of it.
    other.watch_tables();
    run(&mut other, "SELECT up(1)").await;
    assert_eq!(other.changes().iter().map(|change| change.table.as_str()).collect::<Vec<_>>(), ["k"]);
}

#[tokio::test]
async fn a_program_that_locks_rows_is_the_only_writer() {
    let fixture = Fixture::new("function-locks");
    let (mut session, mut other) = (fixture.session().await, fixture.session().await);
    run(&mut session, "CREATE TABLE k (id INT PRIMARY KEY, v INT); INSERT INTO k VALUES (1, 10), (2, 20)").await;
    run(&mut session, "CREATE TABLE n (v INT)").await;
    let read = "SELECT v INTO x FROM k WHERE id = i FOR UPDATE";
    run(&mut session, &format!("CREATE FUNCTION up(i INT) RETURNS INT BEGIN DECLARE x INT; {read}; UPDATE k SET v = x + 1 WHERE id = i; RETURN x; END"))
        .await;
    run(&mut session, &format!("CREATE FUNCTION looks(i INT) RETURNS INT BEGIN DECLARE x INT; {read}; RETURN x; END"))
        .await;
    run(&mut other, "SET innodb_lock_wait_timeout = 0").await;
    run(&mut session, "BEGIN").await;
    assert_eq!(one(&mut session, "SELECT up(1)").await, "10");
    assert_eq!(code(&mut other, "UPDATE k SET v = 0 WHERE id = 2").await, 1205);
    run(&mut session, "COMMIT").await;
    run(&mut other, "UPDATE k SET v = 0 WHERE id = 2").await;
    // One that only locks does so in a statement that writes.
    assert_eq!(code(&mut session, "SELECT looks(1)").await, 1235);
    run(&mut session, "BEGIN; INSERT INTO n VALUES (looks(1))").await;
    assert_eq!(code(&mut other, "UPDATE k SET v = 0 WHERE id = 2").await, 1205);
    run(&mut session, "ROLLBACK").await;
}

#[tokio::test]
async fn functions_call_each_other_only_so_deep() {
    let fixture = Fixture::new("function-depth");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE FUNCTION f40(x INT) RETURNS INT RETURN x").await;
    for number in (1..40).rev() {
        let body = format!("RETURN f{}(x + 1)", number + 1);
        run(&mut session, &format!("CREATE FUNCTION f{number}(x INT) RETURNS INT {body}")).await;
    }
    assert_eq!(one(&mut session, "SELECT f9(1)").await, "32");
    assert_eq!(code(&mut session, "SELECT f8(1)").await, 1235);
    // Two calls on each level are planned once.
    for number in (20..40).rev() {
        let next = number + 1;
        let body = format!("RETURN f{next}(x) + f{next}(x)");
        run(&mut session, &format!("CREATE OR REPLACE FUNCTION f{number}(x INT) RETURNS INT {body}")).await;
    }
    assert_eq!(one(&mut session, "SELECT f30(1)").await, "1024");
}

#[tokio::test]
async fn functions_are_in_the_file_and_called_by_requests_without_sql() {
    let mut fixture = Fixture::new("function-file");
    {
        let mut session = fixture.session().await;
        run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TABLE l (m INT)").await;
        let body = "BEGIN INSERT INTO l VALUES (x); RETURN x * 2; END";
        run(&mut session, &format!("CREATE FUNCTION f(x INT) RETURNS INT {body}")).await;
        run(&mut session, "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.v = f(NEW.v)").await;
        run(&mut session, "ALTER FUNCTION f COMMENT 'kept'").await;
    }
    fixture.open_again(|_| {});
    let mut session = fixture.session().await;
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
    assert_eq!(one(&mut session, "SELECT v, m FROM t, l").await, "20,10");
    assert!(run(&mut session, "SHOW CREATE FUNCTION f").await.rows[0][2].contains("COMMENT 'kept'"));
    run(&mut session, "CREATE OR REPLACE FUNCTION f(x INT) RETURNS INT RETURN x").await;
    let row = [Value::Int(2), Value::Int(10)];
    session.run_request(&open, &Request::Insert(&row, OnDuplicate::Fail), &mut sink).await.unwrap();
    assert_eq!(one(&mut session, "SELECT v FROM t ORDER BY id").await, "20;10");
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM l").await, "1");
}

#[tokio::test]
async fn triggers_and_functions_call_procedures() {
    let fixture = Fixture::new("function-calls");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT, b INT); CREATE TABLE l (m INT)").await;
    run(&mut session, "CREATE PROCEDURE p(x INT, OUT y INT, INOUT z INT) BEGIN INSERT INTO l VALUES (x); SET y = x * 2, z = z + 1; END")
        .await;
    run(&mut session, "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW BEGIN DECLARE o, i INT DEFAULT 5; CALL p(NEW.a, o, i); SET NEW.b = o + i; END")
        .await;
    assert_eq!(one(&mut session, "INSERT INTO t (a) VALUES (1), (2); SELECT b FROM t").await, "8;10");
    run(&mut session, "CREATE FUNCTION f(x INT) RETURNS INT BEGIN DECLARE o INT; CALL p(x, o, @z); RETURN o; END")
        .await;
    assert_eq!(one(&mut session, "SET @z = 1; SELECT f(a) FROM t; SELECT @z").await, "2;4;3");
    assert_eq!(one(&mut session, "SELECT m FROM l").await, "1;2;1;2");
    for (body, expected) in [
        ("SELECT 1", 1415),
        ("COMMIT", 1422),
        ("TRUNCATE t", 1422),
        ("EXECUTE IMMEDIATE 'select 1'", 1336),
        ("CALL q()", 1456),
        ("CALL nosuch()", 1305),
    ] {
        run(&mut session, &format!("CREATE OR REPLACE PROCEDURE q() {body}")).await;
        run(&mut session, "CREATE OR REPLACE FUNCTION g() RETURNS INT BEGIN CALL q(); RETURN 1; END").await;
        assert_eq!(code(&mut session, "SELECT g()").await, expected, "{body}");
    }
}
