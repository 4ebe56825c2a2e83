//! Statements that write through views.

use tidegate_rows::{Execute, Param, QueryError, Statement};

use super::{Fixture, Rows, Session, code, one, run, try_run};

async fn fails(session: &mut Session, sql: &str) -> String {
    match try_run(session, sql).await {
        Err(QueryError::Server(error)) => format!("{} {}", error.code, error.message),
        Err(error) => panic!("{sql}: {error}"),
        Ok(_) => panic!("{sql}"),
    }
}

const TABLE: &str =
    "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(10) NOT NULL DEFAULT 'x', g INT AS (a * 2));
     INSERT INTO t (a, b) VALUES (1, 'one'), (2, 'two'), (3, 'three');
     CREATE VIEW v AS SELECT id, a AS n, b AS s FROM t WHERE a < 3";

#[tokio::test]
async fn rows_are_written_to_the_table_behind_a_view() {
    let fixture = Fixture::new("view-writes");
    let mut session = fixture.session().await;
    run(&mut session, TABLE).await;
    run(&mut session, "INSERT INTO v (n, s) VALUES (2, 'new'), (9, 'unseen')").await;
    assert_eq!(one(&mut session, "SELECT * FROM t WHERE id > 3").await, "4,2,new,4;5,9,unseen,18");
    run(&mut session, "UPDATE v SET n = n - 2, s = n WHERE s LIKE '%w%' ORDER BY id LIMIT 1").await;
    assert_eq!(one(&mut session, "SELECT id, n, s FROM v ORDER BY id").await, "1,1,one;2,0,0;4,2,new");
    assert_eq!(one(&mut session, "DELETE FROM v WHERE n = 2 RETURNING s, n").await, "new,2");
    run(&mut session, "DELETE FROM v").await;
    assert_eq!(one(&mut session, "SELECT a FROM t ORDER BY id").await, "3;9");
    assert_eq!(code(&mut session, "UPDATE v SET a = 1").await, 1054);
    assert_eq!(code(&mut session, "UPDATE v SET n = 1 WHERE b = 'x'").await, 1054);
    run(&mut session, "INSERT INTO v VALUES (3, 1, 'y') ON DUPLICATE KEY UPDATE n = VALUES(n) + n, s = CONCAT(s, n)")
        .await;
    assert_eq!(one(&mut session, "SELECT a, b FROM t WHERE id = 3").await, "4,three4");
    assert_eq!(one(&mut session, "REPLACE INTO v (id, n) VALUES (3, 2) RETURNING n, s, id").await, "2,x,3");
    assert_eq!(one(&mut session, "INSERT INTO v (n) VALUES (70) RETURNING *").await.split(',').nth(1), Some("70"));
    run(&mut session, "CREATE VIEW twice AS SELECT id, a, a AS again FROM t").await;
    run(&mut session, "UPDATE twice SET a = 5, again = a + 1 WHERE id = 3").await;
    assert_eq!(one(&mut session, "SELECT a, again FROM twice WHERE id = 3").await, "6,6");
}

#[tokio::test]
async fn errors_name_the_view() {
    let fixture = Fixture::new("view-errors");
    let mut session = fixture.session().await;
    run(&mut session, TABLE).await;
    run(
        &mut session,
        "CREATE VIEW c AS SELECT id, a + 1 AS n FROM t; CREATE VIEW s AS SELECT MAX(a) AS n FROM t;
         CREATE ALGORITHM = TEMPTABLE VIEW temp AS SELECT a AS n FROM t; CREATE VIEW over_temp AS SELECT n FROM temp;
         CREATE VIEW itself AS SELECT a AS n FROM t WHERE id = (SELECT MIN(id) FROM v);
         CREATE TABLE m (k INT NOT NULL, l INT); CREATE VIEW hides AS SELECT l FROM m;
         CREATE VIEW shows AS SELECT k, l FROM m;
         CREATE VIEW j AS SELECT t.id, t.a, m.k, m.l FROM t JOIN m ON t.id = m.k",
    )
    .await;
    for (sql, expected) in [
        ("UPDATE c SET n = 1", "1348 Column 'n' is not updatable"),
        ("INSERT INTO c VALUES (1, 2)", "1471 The target table c of the INSERT is not insertable-into"),
        ("UPDATE s x SET n = 1", "1288 The target table x of the UPDATE is not updatable"),
        ("DELETE FROM s", "1288 The target table s of the DELETE is not updatable"),
        ("UPDATE over_temp SET n = 1", "1288 The target table over_temp of the UPDATE is not updatable"),
        ("UPDATE itself SET n = 1", "1288 The target table itself of the UPDATE is not updatable"),
        ("INSERT INTO itself VALUES (1)", "1471 The target table itself of the INSERT is not insertable-into"),
        (
            "INSERT INTO hides VALUES (1)",
            "1423 Field of view 'test.hides' underlying table doesn't have a default value",
        ),
        ("INSERT INTO shows VALUES (DEFAULT, 1)", "1364 Field 'k' doesn't have a default value"),
        ("INSERT INTO j VALUES (1, 2, 3, 4)", "1394 Can not insert into join view 'test.j' without fields list"),
        (
            "INSERT INTO j (a, l) VALUES (1, 2)",
            "1393 Can not modify more than one base table through a join view 'test.j'",
        ),
        (
            "INSERT INTO j (id, a) VALUES (1, 0) ON DUPLICATE KEY UPDATE l = 1",
            "1393 Can not modify more than one base table through a join view 'test.j'",
        ),
        ("UPDATE j SET a = 1, l = 1", "1393 Can not modify more than one base table through a join view 'test.j'"),
        ("DELETE FROM j", "1395 Can not delete from join view 'test.j'"),
    ] {
        assert_eq!(fails(&mut session, sql).await, expected, "{sql}");
    }
    run(&mut session, "INSERT INTO j (k, l) VALUES (1, 7); UPDATE j SET a = l + 1").await;
    assert_eq!(one(&mut session, "SELECT * FROM j").await, "1,8,1,7");
    run(&mut session, "INSERT INTO j (id, a) VALUES (1, 0) ON DUPLICATE KEY UPDATE a = a + 1").await;
    assert_eq!(one(&mut session, "SELECT a FROM t WHERE id = 1").await, "9");
    let sql =
        "SELECT GROUP_CONCAT(table_name ORDER BY table_name) FROM information_schema.views WHERE is_updatable = 'YES'";
    assert_eq!(one(&mut session, sql).await, "c,hides,itself,j,shows,v");
}

#[tokio::test]
async fn an_insert_names_columns_of_a_table_each_once() {
    let fixture = Fixture::new("view-columns");
    let mut session = fixture.session().await;
    run(&mut session, TABLE).await;
    run(
        &mut session,
        "CREATE VIEW c AS SELECT id, a + 1 AS more, b FROM t; CREATE VIEW twice AS SELECT id, a, a AS again FROM t;
         CREATE TABLE u (k INT); CREATE VIEW q AS SELECT a, (SELECT MAX(k) FROM u) AS most FROM t",
    )
    .await;
    run(&mut session, "INSERT INTO c (id, b) VALUES (10, 'c'); INSERT INTO twice (id, again) VALUES (11, 5)").await;
    run(&mut session, "INSERT INTO q (a) VALUES (6)").await;
    assert_eq!(one(&mut session, "SELECT id, a, b FROM t WHERE id > 9").await, "10,NULL,c;11,5,x;12,6,x");
    run(&mut session, "INSERT INTO c (id) VALUES (10) ON DUPLICATE KEY UPDATE b = CONCAT(b, 'd')").await;
    assert_eq!(one(&mut session, "SELECT b FROM t WHERE id = 10").await, "cd");
    for (sql, expected) in [
        ("INSERT INTO c (id, more) VALUES (20, 2)", 1471),
        ("INSERT INTO q VALUES (1, 2)", 1471),
        ("INSERT INTO twice (a, again) VALUES (1, 2)", 1471),
        ("INSERT INTO v (n, n) VALUES (1, 2)", 1471),
        ("INSERT INTO v () VALUES ()", 1136),
        ("INSERT INTO v VALUES ()", 1136),
        ("INSERT INTO c (id) VALUES (10) ON DUPLICATE KEY UPDATE more = 1", 1348),
        ("INSERT INTO c (id) VALUES (20) RETURNING id", 1235),
    ] {
        assert_eq!(code(&mut session, sql).await, expected, "{sql}");
    }
    assert_eq!(one(&mut session, "INSERT INTO twice (a) VALUES (7) RETURNING again").await, "7");
}

#[tokio::test]
async fn rows_behind_an_outer_join_change_but_do_not_come_or_go() {
    let fixture = Fixture::new("view-outer");
    let mut session = fixture.session().await;
    run(&mut session, TABLE).await;
    run(
        &mut session,
        "CREATE TABLE u (id INT PRIMARY KEY, k INT); INSERT INTO u VALUES (1, 10);
         CREATE VIEW o AS SELECT t.id, a, k FROM t LEFT JOIN u ON t.id = u.id;
         CREATE VIEW over_o AS SELECT id, k FROM o",
    )
    .await;
    run(&mut session, "UPDATE o SET a = a + 1 WHERE k IS NULL; UPDATE over_o SET k = id + 1").await;
    assert_eq!(one(&mut session, "SELECT id, a, k FROM o ORDER BY id").await, "1,1,2;2,3,NULL;3,4,NULL");
    for (sql, expected) in [
        ("INSERT INTO o (id, a) VALUES (9, 9)", 1471),
        ("INSERT INTO over_o (id) VALUES (9)", 1471),
        ("UPDATE o SET a = 1, k = 1", 1393),
        ("DELETE FROM o", 1288),
        ("DELETE o FROM o JOIN u", 1395),
        ("CREATE VIEW w AS SELECT a, k FROM t LEFT JOIN u ON t.id = u.id WITH CHECK OPTION", 1368),
        ("CREATE VIEW w AS SELECT k FROM o WITH CHECK OPTION", 1368),
    ] {
        assert_eq!(code(&mut session, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn rows_that_would_not_be_seen_are_refused() {
    let fixture = Fixture::new("view-check");
    let mut session = fixture.session().await;
    run(
        &mut session,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT); CREATE TABLE ok (n INT);
         CREATE VIEW inner_v AS SELECT id AS i, a + 1 AS more, a FROM t WHERE a < 10;
         CREATE VIEW l AS SELECT i, a FROM inner_v WHERE more > 1 WITH LOCAL CHECK OPTION;
         CREATE VIEW c AS SELECT i, a FROM inner_v WHERE more > 1 WITH CHECK OPTION;
         CREATE VIEW by_rows AS SELECT id, a FROM t WHERE a IN (SELECT n FROM ok) WITH CHECK OPTION",
    )
    .await;
    let refused = "1369 CHECK OPTION failed `test`.`c`";
    run(&mut session, "INSERT INTO c VALUES (1, 5), (2, 6)").await;
    assert_eq!(fails(&mut session, "INSERT INTO c VALUES (3, 10)").await, refused);
    assert_eq!(fails(&mut session, "UPDATE c SET a = 10 WHERE i = 1").await, refused);
    assert_eq!(fails(&mut session, "UPDATE c SET a = 0 WHERE i = 1").await, refused);
    assert_eq!(fails(&mut session, "UPDATE c SET a = NULL WHERE i = 1").await, refused);
    assert_eq!(code(&mut session, "UPDATE l SET a = 0 WHERE i = 1").await, 1369);
    run(&mut session, "UPDATE IGNORE c SET a = a + 4").await;
    assert_eq!(one(&mut session, "SHOW WARNINGS").await, "Warning,1369,CHECK OPTION failed `test`.`c`");
    run(&mut session, "UPDATE l SET a = 100 WHERE i = 2").await;
    assert_eq!(one(&mut session, "SELECT * FROM t").await, "1,9;2,100");
    assert_eq!(code(&mut session, "INSERT INTO by_rows VALUES (3, 1)").await, 1369);
    run(&mut session, "INSERT INTO ok VALUES (1); INSERT IGNORE INTO by_rows VALUES (3, 1), (4, 4)").await;
    assert_eq!(code(&mut session, "INSERT INTO by_rows VALUES (3, 1) ON DUPLICATE KEY UPDATE a = 2").await, 1369);
    assert_eq!(one(&mut session, "SELECT * FROM t WHERE id > 2").await, "3,1");
}

#[tokio::test]
async fn a_plan_knows_the_view_of_now() {
    let fixture = Fixture::new("view-plans");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT, b INT); CREATE VIEW v AS SELECT a AS x FROM t").await;
    let params = [Param::Int(7)];
    let insert = Statement { sql: b"INSERT INTO v (x) VALUES (?)", params: &params };
    session.execute(insert, &mut Rows::default()).await.unwrap();
    run(&mut session, "CREATE OR REPLACE VIEW v AS SELECT b AS x FROM t").await;
    session.execute(insert, &mut Rows::default()).await.unwrap();
    assert_eq!(one(&mut session, "SELECT * FROM t").await, "7,NULL;NULL,7");
    run(&mut session, "CREATE OR REPLACE VIEW v AS SELECT b AS x FROM t WHERE b < 5 WITH CHECK OPTION").await;
    let refused = session.execute(insert, &mut Rows::default()).await;
    assert!(matches!(refused, Err(QueryError::Server(error)) if error.code == 1369));
}

#[tokio::test]
async fn a_view_of_another_schema_is_written_to_where_its_table_is() {
    let fixture = Fixture::new("view-schemas");
    let mut session = fixture.session().await;
    run(
        &mut session,
        "CREATE DATABASE other; CREATE TABLE other.t (id INT PRIMARY KEY, a INT); INSERT INTO other.t VALUES (1, 1), (2, 2);
         CREATE TABLE limits (m INT); INSERT INTO limits VALUES (5);
         CREATE VIEW t AS SELECT a AS id, id AS a FROM other.t WHERE a < (SELECT MAX(m) FROM limits) WITH CHECK OPTION",
    )
    .await;
    run(&mut session, "UPDATE t SET id = 3 WHERE id = 1; INSERT INTO t VALUES (4, 9); DELETE FROM t WHERE id = 2")
        .await;
    assert_eq!(code(&mut session, "INSERT INTO t VALUES (5, 10)").await, 1369);
    assert_eq!(one(&mut session, "SELECT * FROM other.t").await, "1,3;9,4");
}

#[tokio::test]
async fn locked_views_lock_what_is_behind_them() {
    let fixture = Fixture::new("view-locks");
    let mut session = fixture.session().await;
    run(&mut session, TABLE).await;
    run(&mut session, "LOCK TABLES v WRITE; UPDATE v SET n = 2; DELETE FROM v WHERE id = 1").await;
    run(&mut session, "UNLOCK TABLES; LOCK TABLES v READ").await;
    assert_eq!(code(&mut session, "INSERT INTO v (n) VALUES (1)").await, 1099);
    run(&mut session, "UNLOCK TABLES; LOCK TABLES t WRITE").await;
    assert_eq!(code(&mut session, "INSERT INTO v (n) VALUES (1)").await, 1100);
}

#[tokio::test]
async fn a_view_keeps_its_algorithm() {
    let fixture = Fixture::new("view-algorithm");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT); CREATE ALGORITHM=TEMPTABLE VIEW v AS SELECT a FROM t").await;
    assert!(one(&mut session, "SHOW CREATE VIEW v").await.contains("CREATE ALGORITHM=TEMPTABLE DEFINER"));
    run(&mut session, "ALTER VIEW v AS SELECT a FROM t WHERE a > 1").await;
    assert_eq!(code(&mut session, "DELETE FROM v").await, 1288);
    run(&mut session, "ALTER ALGORITHM=MERGE VIEW v AS SELECT a FROM t WHERE a > 1; DELETE FROM v").await;
    run(&mut session, "CREATE OR REPLACE ALGORITHM=MERGE VIEW v AS SELECT DISTINCT a FROM t").await;
    assert!(one(&mut session, "SHOW WARNINGS").await.starts_with("Warning,1354,"));
    assert!(one(&mut session, "SHOW CREATE VIEW v").await.contains("CREATE ALGORITHM=UNDEFINED DEFINER"));
    assert_eq!(
        code(&mut session, "CREATE ALGORITHM=TEMPTABLE VIEW w AS SELECT a FROM t WITH CHECK OPTION").await,
        1368
    );
}
