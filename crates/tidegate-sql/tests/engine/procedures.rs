//! Procedures: whose rights they have, what ends them, their results. What they do is in the differential suite
//! (`corpus/procedures.sql`).

use std::time::Duration;

use tidegate_rows::{Execute, Param, Statement};
use tidegate_sql::Kill;

use super::{Fixture, Rows as Collected, code, one, run, try_run};

#[tokio::test]
async fn procedures_run_with_the_rights_of_their_definer_or_their_caller() {
    let fixture = Fixture::new("procedure-rights");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT); INSERT INTO t VALUES (7); CREATE USER u@'%'").await;
    run(&mut session, "CREATE PROCEDURE p() BEGIN SELECT a FROM t; INSERT INTO t VALUES (8); END").await;
    run(&mut session, "CREATE PROCEDURE i() SQL SECURITY INVOKER SELECT a FROM t").await;
    let mut user = fixture.engine().session("test").unwrap();
    user.connect("u", "localhost:1", "%");
    assert_eq!(code(&mut user, "CALL p()").await, 1370);
    assert_eq!(code(&mut user, "SHOW CREATE PROCEDURE p").await, 1305);
    assert_eq!(code(&mut user, "CREATE PROCEDURE own() SELECT 1").await, 1044);
    run(&mut session, "GRANT EXECUTE ON test.* TO u").await;
    assert_eq!(one(&mut user, "CALL p()").await, "7");
    assert_eq!(code(&mut user, "CALL i()").await, 1142);
    // Behind the call the session is what it was, also when the procedure has failed.
    assert_eq!(code(&mut user, "SELECT a FROM t").await, 1142);
    assert_eq!(code(&mut user, "DROP PROCEDURE p").await, 1370);
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM t").await, "2");
    // A plan of the definer's is nobody else's.
    run(&mut session, "CREATE OR REPLACE PROCEDURE p() BEGIN SELECT a FROM t; SELECT nosuch FROM t; END").await;
    assert_eq!(code(&mut user, "CALL p()").await, 1054);
    assert_eq!(code(&mut user, "SELECT a FROM t").await, 1142);
    // One that its user has made, who loses a right.
    run(&mut session, "GRANT CREATE ROUTINE ON test.* TO u; GRANT SELECT ON test.t TO u").await;
    run(&mut user, "CREATE PROCEDURE own() SELECT MIN(a) FROM t").await;
    assert_eq!(one(&mut session, "CALL own()").await, "7");
    run(&mut session, "REVOKE SELECT ON test.t FROM u").await;
    assert_eq!(code(&mut session, "CALL own()").await, 1142);
    assert_eq!(one(&mut session, "SELECT MIN(a) FROM t").await, "7");
    run(&mut user, "DROP PROCEDURE own; CREATE PROCEDURE own() SELECT 1").await;
    run(&mut session, "DROP USER u@'%'").await;
    assert_eq!(code(&mut session, "CALL own()").await, 1449);
}

#[tokio::test]
async fn time_limits_and_kill_end_a_procedure_without_end() {
    let fixture = Fixture::new("procedure-endless");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT)").await;
    let handler = "DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END";
    run(&mut session, &format!("CREATE PROCEDURE p() BEGIN {handler}; l: LOOP BEGIN END; END LOOP; END")).await;
    run(&mut session, &format!("CREATE PROCEDURE q() BEGIN {handler}; l: LOOP UPDATE t SET a = 1; END LOOP; END"))
        .await;
    let mut killer = fixture.engine().session("test").unwrap();
    let id = session.id();
    for name in ["p", "q"] {
        // The limit is one for all statements of the procedure together.
        let limited = format!("SET STATEMENT max_statement_time = 0.05 FOR CALL {name}()");
        assert_eq!(code(&mut session, &limited).await, 1969, "{name}");
        let call = format!("CALL {name}()");
        let (killed, ()) = tokio::join!(code(&mut session, &call), async {
            loop {
                let query =
                    format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND info IS NOT NULL");
                if one(&mut killer, &query).await == "1" {
                    break killer.kill(id, Kill::Query).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        assert_eq!(killed, 1317, "{name}");
        // A client that goes away.
        let gone = tokio::time::timeout(Duration::from_millis(20), try_run(&mut session, &call)).await;
        assert!(gone.is_err());
        assert_eq!(one(&mut session, "SELECT DATABASE()").await, "test");
    }
}

#[tokio::test]
async fn calls_go_only_so_deep() {
    let fixture = Fixture::new("procedure-depth");
    let mut session = fixture.session().await;
    for number in 1..40 {
        let body = format!("CALL p{}(x + 1, y)", number + 1);
        run(&mut session, &format!("CREATE PROCEDURE p{number}(x INT, OUT y INT) {body}")).await;
    }
    run(&mut session, "CREATE PROCEDURE p40(x INT, OUT y INT) SET y = x").await;
    assert_eq!(one(&mut session, "CALL p9(1, @y); SELECT @y").await, "32");
    assert_eq!(code(&mut session, "CALL p8(1, @y)").await, 1235);
    run(&mut session, "CREATE PROCEDURE r(n INT) IF n > 0 THEN CALL r(n - 1); END IF").await;
    run(&mut session, "SET max_sp_recursion_depth = 255; CALL r(31)").await;
    assert_eq!(code(&mut session, "CALL r(32)").await, 1235);
}

#[tokio::test]
async fn a_call_has_the_results_of_its_statements_and_its_own_end() {
    let fixture = Fixture::new("procedure-results");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT)").await;
    let body = "BEGIN SELECT x; INSERT INTO t VALUES (1), (2); SELECT a FROM t; UPDATE t SET a = a + 1; END";
    run(&mut session, &format!("CREATE PROCEDURE p(x INT) {body}")).await;
    let mut sink = Collected::default();
    let call = Statement { sql: b"CALL p(?)", params: &[Param::Int(5)] };
    session.execute(call, &mut sink).await.unwrap();
    let ends: Vec<_> = sink.summaries.iter().map(|end| (end.more_results, end.affected_rows)).collect();
    assert_eq!(ends, [(true, 0), (true, 0), (false, 4)]);
    assert_eq!(sink.rows, [["5"], ["1"], ["2"]]);
    // In a text that goes on.
    assert_eq!(one(&mut session, "CALL p(6); SELECT COUNT(*) FROM t").await, "6;2;3;1;2;4");
}

#[tokio::test]
async fn out_parameters_come_back_to_whoever_prepared_the_call() {
    let fixture = Fixture::new("procedure-out");
    let mut session = fixture.session().await;
    run(
        &mut session,
        "CREATE PROCEDURE p(a INT, OUT b VARCHAR(20), INOUT c INT) BEGIN SELECT a; SET b = a * 2, c = c + a; END",
    )
    .await;
    let mut sink = Collected::default();
    let params = [Param::Int(5), Param::Null, Param::Int(7)];
    session.execute(Statement { sql: b"CALL p(?, ?, ?)", params: &params }, &mut sink).await.unwrap();
    assert_eq!(sink.rows, [vec!["5"], vec!["10", "12"]]);
    let ends: Vec<_> = sink.summaries.iter().map(|end| (end.more_results, end.status & 4096 != 0)).collect();
    assert_eq!(ends, [(true, false), (true, true), (false, false)]);
    let text = "PREPARE s FROM 'CALL p(?, ?, ?)'; SET @a = 1, @c = 3; EXECUTE s USING @a, @b, @c; SELECT @b, @c";
    assert_eq!(one(&mut session, text).await, "1;2,4");
}

#[tokio::test]
async fn procedures_are_in_the_file() {
    let mut fixture = Fixture::new("procedure-file");
    {
        let mut session = fixture.session().await;
        run(&mut session, "CREATE TABLE t (a INT); CREATE PROCEDURE p(v INT) INSERT INTO t VALUES (v)").await;
    }
    fixture.open_again(|_| {});
    let mut session = fixture.session().await;
    let mut other = fixture.engine().session("test").unwrap();
    run(&mut session, "CALL p(1)").await;
    run(&mut other, "CALL p(2); CREATE OR REPLACE PROCEDURE p(v INT) INSERT INTO t VALUES (v * 10)").await;
    run(
        &mut session,
        "CALL p(3); ALTER TABLE t ADD b INT FIRST; CREATE OR REPLACE PROCEDURE p(a INT) INSERT INTO t (a) VALUES (a)",
    )
    .await;
    run(&mut other, "CALL p(4)").await;
    assert_eq!(one(&mut session, "SELECT a FROM t").await, "1;2;30;4");
}
