//! Definitions that change beside statements that use them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Fixture, Session, check_locked_out, code, one, run};

/// Runs each of `reads` in a thread of its own, over and over, while the definitions change `rounds` times.
async fn beside(fixture: &Fixture, reads: &[&str], rounds: usize, definitions: &[&str]) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for sql in reads {
            let (engine, over) = (fixture.engine().clone(), &over);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut session = engine.session("test").unwrap();
                    while !over.load(Ordering::Acquire) {
                        // Panics with the error.
                        run(&mut session, sql).await;
                    }
                });
            });
        }
        scope.spawn(|| {
            /// Lets the readers go, also when this thread panics.
            struct Over<'a>(&'a AtomicBool);
            impl Drop for Over<'_> {
                fn drop(&mut self) {
                    self.0.store(true, Ordering::Release);
                }
            }
            let _over = Over(&over);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut session = fixture.engine().session("test").unwrap();
                for _ in 0..rounds {
                    for sql in definitions {
                        run(&mut session, sql).await;
                    }
                }
            });
        });
    });
}

#[tokio::test]
async fn a_query_goes_by_the_definition_that_its_table_has() {
    let fixture = Fixture::new("redefined");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2)").await;
    let reads = ["SELECT * FROM t", "SELECT * FROM t WHERE id = 2 FOR UPDATE", "UPDATE t SET v = v + 1 WHERE id = 1"];
    beside(&fixture, &reads, 100, &["ALTER TABLE t ADD z INT", "ALTER TABLE t DROP z"]).await;
}

#[tokio::test]
async fn a_table_that_another_takes_the_place_of_is_always_there() {
    let fixture = Fixture::new("replaced");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2)").await;
    let reads = ["SELECT * FROM t", "UPDATE t SET v = v + 1 WHERE id = 1"];
    let replace = [
        "CREATE TABLE next (id INT PRIMARY KEY, v INT)",
        "INSERT INTO next VALUES (1, 1), (2, 2)",
        "RENAME TABLE t TO old, next TO t",
        "DROP TABLE old",
    ];
    beside(&fixture, &reads, 50, &replace).await;
    let replace = [
        "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, v INT) SELECT 1 AS id, 1 AS v UNION ALL SELECT 2, 2",
        "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, v INT)",
    ];
    beside(&fixture, &reads, 30, &replace).await;
}

#[tokio::test]
async fn tables_are_renamed_together_or_not_at_all() {
    let fixture = Fixture::new("renamed");
    let mut session = fixture.session().await;
    run(
        &mut session,
        "CREATE TABLE a (id INT PRIMARY KEY); INSERT INTO a VALUES (1);
         CREATE TABLE b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id)); INSERT INTO b VALUES (7, 1)",
    )
    .await;
    run(&mut session, "RENAME TABLE a TO c, b TO a, c TO b").await;
    assert_eq!(one(&mut session, "SELECT * FROM a").await, "7,1");
    assert_eq!(one(&mut session, "SELECT * FROM b").await, "1");
    assert_eq!(code(&mut session, "INSERT INTO a VALUES (8, 2)").await, 1452, "the key means the table, not the name");
    assert_eq!(code(&mut session, "RENAME TABLE a TO c, d TO a").await, 1146);
    assert_eq!(code(&mut session, "RENAME TABLE a TO c, c TO b").await, 1050);
    assert_eq!(one(&mut session, "SELECT * FROM a").await, "7,1");
    run(&mut session, "CREATE TEMPORARY TABLE a (v INT)").await;
    assert_eq!(code(&mut session, "RENAME TABLE a TO c").await, 1235, "not the table behind it");
    run(&mut session, "DROP TEMPORARY TABLE a").await;
    assert_eq!(one(&mut session, "SELECT * FROM a").await, "7,1");
    let made = one(&mut session, "SELECT referenced_table_name FROM information_schema.referential_constraints").await;
    assert_eq!(made, "b");
}

#[tokio::test]
async fn columns_store_literals_as_they_store_parameters() {
    let fixture = Fixture::new("literals");
    let mut session = fixture.session().await;
    let types = [
        "TINYINT",
        "TINYINT UNSIGNED",
        "INT",
        "INT(5) UNSIGNED ZEROFILL",
        "BIGINT",
        "BIGINT UNSIGNED",
        "BIT(8)",
        "YEAR",
        "DECIMAL(5,2)",
        "CHAR(5)",
        "VARCHAR(5)",
        "VARCHAR(5) CHARACTER SET latin1",
        "VARCHAR(3) CHARACTER SET utf8mb3",
        "TINYTEXT",
        "BINARY(5)",
        "VARBINARY(5)",
        "ENUM('7','a')",
        "SET('7','a')",
        "DATE",
        "JSON",
    ];
    let literals = [
        "0",
        "7",
        "127",
        "128",
        "00255",
        "256",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "''",
        "'a'",
        "'abcde'",
        "'abcde '",
        "'abcd '",
        "'abcdef'",
        "' 7'",
        "'ä'",
        "'ääää'",
        "'😀'",
        "'a\\0b'",
        "'{}'",
        "20261123",
    ];
    run(&mut session, "SET @mode = @@sql_mode").await;
    for mode in ["@mode", "''"] {
        run(&mut session, &format!("SET sql_mode = {mode}")).await;
        for ty in types {
            run(&mut session, &format!("CREATE TABLE t (id INT PRIMARY KEY, v {ty})")).await;
            for literal in literals {
                let written = code(&mut session, &format!("INSERT INTO t VALUES (1, {literal})")).await;
                run(&mut session, &format!("SET @v = {literal}; PREPARE p FROM 'INSERT INTO t VALUES (2, ?)'")).await;
                let given = code(&mut session, "EXECUTE p USING @v").await;
                assert_eq!(written, given, "{literal} in {ty} under {mode}");
                let stored = one(&mut session, "SELECT COUNT(*), COUNT(DISTINCT HEX(v), v + 0) FROM t").await;
                let shown = one(&mut session, "SELECT id, HEX(v), v FROM t").await;
                assert_eq!(stored, if written == 0 { "2,1" } else { "0,0" }, "{literal} in {ty} under {mode}: {shown}");
                run(&mut session, "TRUNCATE t").await;
            }
            run(&mut session, "DROP TABLE t").await;
        }
    }
}

#[tokio::test]
async fn columns_come_and_go_beside_rows_and_foreign_keys() {
    let mut fixture = Fixture::new("columns");
    let mut session = fixture.session().await;
    run(
        &mut session,
        "CREATE TABLE p (id INT PRIMARY KEY, s VARCHAR(20), UNIQUE KEY (s)); INSERT INTO p VALUES (1, 'a'), (2, 'b');
         CREATE TABLE t (id INT PRIMARY KEY, p INT, KEY (p), FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE);
         INSERT INTO t VALUES (7, 1), (8, 2)",
    )
    .await;
    run(
        &mut session,
        "ALTER TABLE t ADD i INT NOT NULL DEFAULT -5, ADD s VARCHAR(40) NOT NULL DEFAULT ', FOREIGN KEY (' FIRST, ADD n INT,
         ADD r DOUBLE DEFAULT 2.5, ADD d DECIMAL(5,2) NOT NULL DEFAULT 1.5, ADD KEY (i);
         ALTER TABLE t ADD b BIGINT UNSIGNED NOT NULL DEFAULT 18446744073709551615",
    )
    .await;
    let all = "SELECT * FROM t ORDER BY id";
    let expected = ", FOREIGN KEY (,7,1,-5,NULL,2.5,1.50,18446744073709551615;\
                    , FOREIGN KEY (,8,2,-5,NULL,2.5,1.50,18446744073709551615";
    assert_eq!(one(&mut session, all).await, expected);
    let by_index = "SELECT id FROM t FORCE INDEX (i) WHERE i = -5 AND s LIKE '%(' ORDER BY id";
    assert_eq!(one(&mut session, by_index).await, "7;8");

    // A change that fails leaves what was there.
    assert_eq!(code(&mut session, "ALTER TABLE t ADD x INT, ADD UNIQUE KEY (i)").await, 1062);
    assert_eq!(code(&mut session, "ALTER TABLE t DROP r, ADD UNIQUE KEY (i)").await, 1062);
    assert_eq!(one(&mut session, all).await, expected);
    assert_eq!(code(&mut session, "INSERT INTO t (id, p) VALUES (9, 3)").await, 1452);

    run(&mut session, "ALTER TABLE t DROP s, DROP n, DROP KEY i; ALTER TABLE p DROP s").await;
    drop(session);
    fixture.open_again(|_| {});
    let mut session = fixture.session().await;
    assert_eq!(
        one(&mut session, all).await,
        "7,1,-5,2.5,1.50,18446744073709551615;8,2,-5,2.5,1.50,18446744073709551615"
    );
    run(&mut session, "DELETE FROM p WHERE id = 1").await;
    assert_eq!(one(&mut session, "SELECT id, d FROM t").await, "8,1.50", "the children of a table that was copied go");
    assert_eq!(one(&mut session, "SELECT * FROM p").await, "2");
    assert_eq!(one(&mut session, "CHECK TABLE t, p").await, "test.t,check,status,OK;test.p,check,status,OK");
}

#[tokio::test]
async fn a_column_goes_from_tables_of_any_size() {
    let fixture = Fixture::new("dropped");
    let mut session = fixture.session().await;
    for count in [3, 300] {
        let rows: Vec<String> = (1..=count).map(|n| format!("({n}, '0000-00-00', 's{n}', {})", n % 7)).collect();
        run(
            &mut session,
            &format!(
                "SET sql_mode = '';
                 CREATE TABLE t (a INT, d DATE NOT NULL, s VARCHAR(20) NOT NULL, n INT, KEY (n), UNIQUE KEY (s, n));
                 INSERT INTO t VALUES {}; SET sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE'",
                rows.join(", ")
            ),
        )
        .await;
        // What stands in the other columns is not looked at.
        run(&mut session, "ALTER TABLE t DROP a, ADD z INT DEFAULT 4; INSERT INTO t VALUES ('2026-11-23', 'x', 9, 1)")
            .await;
        let sums = one(&mut session, "SELECT COUNT(*), SUM(z), COUNT(DISTINCT s), MAX(n), MIN(d) FROM t").await;
        assert_eq!(sums, format!("{0},{1},{0},9,0000-00-00", count + 1, count * 4 + 1));
        let first = one(&mut session, "SELECT s FROM t FORCE INDEX (n) WHERE n = 2 LIMIT 1").await;
        assert_eq!(first, "s2");
        assert_eq!(code(&mut session, "INSERT INTO t VALUES ('2026-11-23', 's2', 2, 1)").await, 1062);
        assert_eq!(one(&mut session, "CHECK TABLE t").await, "test.t,check,status,OK");
        run(&mut session, "DROP TABLE t").await;
    }
}

#[tokio::test]
async fn tables_are_made_and_dropped_by_many_at_once() {
    let fixture = Fixture::new("made-by-many");
    fixture.session().await;
    let make = "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY)";
    beside(&fixture, &[make, make, "DROP TABLE IF EXISTS t"], 50, &[make, "DROP TABLE IF EXISTS t"]).await;
}

/// Fills a schema with so many definitions that a small table is made anew when it changes.
async fn among_many(session: &mut Session) {
    let others: String = (0..150).map(|number| format!("CREATE TABLE o{number} (id INT, v INT, KEY (v));")).collect();
    run(session, &others).await;
}

#[tokio::test]
async fn a_small_table_among_many_keeps_its_rows_when_it_changes() {
    let fixture = Fixture::new("among-many");
    let mut session = fixture.session().await;
    among_many(&mut session).await;
    run(
        &mut session,
        "CREATE TABLE p (id INT PRIMARY KEY, name VARCHAR(20), b BLOB, UNIQUE KEY (name));
         INSERT INTO p VALUES (7, 'Tom', x'00ff'), (3, 'Kit', NULL);
         CREATE TABLE c (name VARCHAR(20), p INT, v INT, KEY (v), FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE);
         INSERT INTO c VALUES ('b', 7, 1), ('a', 7, 1), ('c', 3, 1)",
    )
    .await;
    run(&mut session, "ALTER TABLE p ADD age INT NOT NULL DEFAULT 5 AFTER id, ADD KEY (age); ALTER TABLE c ADD d DATE")
        .await;
    assert_eq!(
        one(&mut session, "SELECT id, age, name, hex(b) FROM p WHERE age = 5 AND name = 'Tom'").await,
        "7,5,Tom,00FF"
    );
    let rows = "SELECT group_concat(name), count(d) FROM c WHERE v = 1";
    assert_eq!(one(&mut session, rows).await, "b,a,c,0", "in the order in which they were stored");
    run(&mut session, "ALTER TABLE p MODIFY name VARCHAR(30) NOT NULL DEFAULT 'x', DROP b").await;
    assert_eq!(code(&mut session, "INSERT INTO p (id, name) VALUES (8, 'Tom')").await, 1062);
    assert_eq!(code(&mut session, "INSERT INTO c (p) VALUES (9)").await, 1452, "the key still means the table");
    run(&mut session, "DELETE FROM p WHERE id = 7").await;
    assert_eq!(one(&mut session, rows).await, "c,0");
}

#[tokio::test]
async fn a_small_table_among_many_stays_when_it_cannot_change() {
    let fixture = Fixture::new("among-many-fails");
    let mut session = fixture.session().await;
    among_many(&mut session).await;
    run(&mut session, "CREATE TABLE t (a INT, b VARCHAR(5), KEY (b)); INSERT INTO t VALUES (1, 'x'), (1, 'y')").await;
    for sql in ["ALTER TABLE t ADD c INT, ADD UNIQUE KEY (a)", "ALTER TABLE t MODIFY b INT"] {
        assert!([1062, 1366].contains(&code(&mut session, sql).await), "{sql}");
        assert_eq!(one(&mut session, "SELECT * FROM t WHERE b = 'y'").await, "1,y");
        run(&mut session, "UPDATE t SET a = 1").await;
    }
    let tables = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'test' AND table_name = 't'";
    assert_eq!(one(&mut session, tables).await, "2");
}

#[tokio::test]
async fn a_table_that_is_replaced_goes_with_what_it_had() {
    let fixture = Fixture::new("or-replace");
    let mut session = fixture.session().await;
    run(
        &mut session,
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, s TEXT, FULLTEXT KEY (s)); INSERT INTO t (s) VALUES ('one'), ('two');
         CREATE TABLE log (n INT); CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (1);
         PREPARE p FROM 'SELECT * FROM t'; EXECUTE p",
    )
    .await;
    run(&mut session, "CREATE OR REPLACE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)").await;
    let inserted = run(&mut session, "INSERT INTO t (v) VALUES (5)").await;
    assert_eq!(inserted.summaries[0].insert_id, 1);
    assert_eq!(one(&mut session, "EXECUTE p").await, "1,5");
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM log").await, "0");
    assert_eq!(one(&mut session, "SELECT trigger_name FROM information_schema.triggers").await, "");
    // It stays when the new one cannot be made.
    for (sql, error) in [
        ("CREATE OR REPLACE TABLE t (a INT, a INT)", 1060),
        ("CREATE OR REPLACE TABLE t (a INT UNIQUE) SELECT 1 AS a UNION ALL SELECT 1", 1062),
        ("CREATE OR REPLACE TABLE t (a INT NOT NULL) SELECT NULL AS a", 1048),
        ("CREATE OR REPLACE TABLE t SELECT * FROM nosuch", 1146),
        ("CREATE OR REPLACE TABLE t LIKE nosuch", 1146),
        ("CREATE OR REPLACE TABLE t LIKE t", 1066),
        ("CREATE OR REPLACE TABLE t SELECT v FROM t", 1093),
        ("CREATE OR REPLACE TABLE t SELECT n FROM log WHERE n IN (SELECT v FROM t)", 1093),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS t (a INT)", 1221),
    ] {
        assert_eq!(code(&mut session, sql).await, error, "{sql}");
        assert_eq!(one(&mut session, "SELECT * FROM t").await, "1,5", "{sql}");
    }
    run(&mut session, "INSERT INTO log VALUES (7), (8)").await;
    let sql = "CREATE OR REPLACE TABLE t (k INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(5)) SELECT n FROM log; SELECT 1";
    let replaced = run(&mut session, sql).await;
    assert_eq!((replaced.summaries[0].affected_rows, replaced.summaries[0].more_results), (2, true));
    assert_eq!(one(&mut session, "EXECUTE p").await, "1,NULL,7;2,NULL,8");
    run(&mut session, "SET autocommit = 0; CREATE OR REPLACE TABLE t SELECT n + 1 AS n FROM log; ROLLBACK").await;
    assert_eq!(one(&mut session, "EXECUTE p").await, "8;9");
    run(&mut session, "CREATE OR REPLACE TABLE t LIKE log; CREATE OR REPLACE TABLE fresh SELECT 1 AS a").await;
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'test' ORDER BY 1";
    assert_eq!(one(&mut session, tables).await, "fresh;log;t");
    assert_eq!(code(&mut session, "CREATE VIEW v AS SELECT 1; CREATE OR REPLACE TABLE v (a INT)").await, 1965);
}

#[tokio::test]
async fn a_parent_is_replaced_only_where_nobody_checks() {
    let fixture = Fixture::new("or-replace-parent");
    let mut session = fixture.session().await;
    run(
        &mut session,
        "CREATE TABLE p (id INT AUTO_INCREMENT PRIMARY KEY); INSERT INTO p VALUES (1), (5);
         CREATE TABLE c (p INT, FOREIGN KEY (p) REFERENCES p (id)); INSERT INTO c VALUES (1)",
    )
    .await;
    for sql in ["CREATE OR REPLACE TABLE p (a INT)", "CREATE OR REPLACE TABLE p SELECT 1 AS id"] {
        assert_eq!(code(&mut session, sql).await, 1451, "{sql}");
        assert_eq!(one(&mut session, "SELECT * FROM p").await, "1;5");
    }
    for sql in [
        "CREATE OR REPLACE TABLE p (v INT, id INT AUTO_INCREMENT PRIMARY KEY); INSERT INTO p (v) VALUES (7)",
        "CREATE OR REPLACE TABLE p (id INT PRIMARY KEY) SELECT 1 AS id",
    ] {
        run(&mut session, &format!("SET foreign_key_checks = 0; {sql}; SET foreign_key_checks = 1")).await;
        assert_eq!(one(&mut session, "SELECT id FROM p").await, "1", "numbers begin anew: {sql}");
        assert_eq!(code(&mut session, "INSERT INTO c VALUES (5)").await, 1452, "{sql}");
        run(&mut session, "INSERT INTO c VALUES (1)").await;
        assert_eq!(code(&mut session, "DELETE FROM p").await, 1451, "{sql}");
    }
    // A child may take the place of another one, and refer to itself.
    run(
        &mut session,
        "CREATE OR REPLACE TABLE c (id INT PRIMARY KEY, p INT, q INT, FOREIGN KEY (p) REFERENCES p (id),
         FOREIGN KEY (q) REFERENCES c (id)) SELECT 1 AS id, 1 AS p, 1 AS q",
    )
    .await;
    assert_eq!(one(&mut session, "SELECT * FROM c").await, "1,1,1");
    assert_eq!(code(&mut session, "INSERT INTO c VALUES (2, 9, 1)").await, 1452);
    assert_eq!(code(&mut session, "INSERT INTO c VALUES (2, 1, 9)").await, 1452);
    let keys =
        "SELECT constraint_name, referenced_table_name FROM information_schema.referential_constraints ORDER BY 1";
    assert_eq!(one(&mut session, keys).await, "c_ibfk_1,p;c_ibfk_2,c");
}

#[tokio::test]
async fn locked_tables_stay_locked_when_they_are_replaced() {
    let fixture = Fixture::new("or-replace-locked");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (n INT); CREATE TABLE u (n INT); LOCK TABLES t WRITE, u READ").await;
    assert_eq!(code(&mut a, "CREATE OR REPLACE TABLE u (n INT)").await, 1099);
    assert_eq!(code(&mut a, "CREATE OR REPLACE TABLE x (n INT)").await, 1100);
    for sql in ["CREATE OR REPLACE TABLE t (n INT)", "CREATE OR REPLACE TABLE t SELECT 2 AS n"] {
        run(&mut a, sql).await;
        check_locked_out(&mut b, "INSERT INTO t VALUES (3)").await;
        run(&mut a, "INSERT INTO t VALUES (4)").await;
    }
    run(&mut a, "UNLOCK TABLES").await;
    assert_eq!(one(&mut b, "SELECT * FROM t").await, "2;4");
    // Rows that an open transaction has changed are waited for.
    run(&mut a, "BEGIN; UPDATE t SET n = 5 WHERE n = 4").await;
    check_locked_out(&mut b, "CREATE OR REPLACE TABLE t (m INT)").await;
    check_locked_out(&mut b, "CREATE OR REPLACE TABLE t SELECT 1 AS m").await;
    run(&mut a, "COMMIT").await;
    assert_eq!(one(&mut b, "SELECT * FROM t").await, "2;5");
    // An older snapshot has nothing of the new table.
    run(&mut a, "START TRANSACTION WITH CONSISTENT SNAPSHOT").await;
    run(&mut b, "CREATE OR REPLACE TABLE t SELECT 1 AS m").await;
    assert_eq!(code(&mut a, "SELECT * FROM t").await, 1412);
}

#[tokio::test]
async fn temporary_tables_are_replaced_by_temporary_ones() {
    let fixture = Fixture::new("or-replace-temporary");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1); CREATE OR REPLACE TEMPORARY TABLE t (b INT)")
        .await;
    run(
        &mut session,
        "INSERT INTO t VALUES (2); CREATE OR REPLACE TEMPORARY TABLE t (c INT); INSERT INTO t VALUES (3)",
    )
    .await;
    for (sql, error) in [
        ("CREATE OR REPLACE TEMPORARY TABLE t SELECT c FROM t", 1137),
        ("CREATE OR REPLACE TEMPORARY TABLE t LIKE t", 1066),
        ("CREATE OR REPLACE TEMPORARY TABLE IF NOT EXISTS t (a INT)", 1221),
        ("CREATE TEMPORARY TABLE t (a INT)", 1050),
    ] {
        assert_eq!(code(&mut session, sql).await, error, "{sql}");
        assert_eq!(one(&mut session, "SELECT c FROM t").await, "3", "{sql}");
    }
    // Within a transaction, which goes on.
    run(&mut session, "CREATE TABLE u (a INT); BEGIN; INSERT INTO u VALUES (1); INSERT INTO t VALUES (4)").await;
    run(&mut session, "CREATE OR REPLACE TEMPORARY TABLE t SELECT a + 4 AS d FROM u; INSERT INTO t VALUES (6)").await;
    assert_eq!(one(&mut session, "SELECT d FROM t ORDER BY d").await, "5;6");
    run(&mut session, "ROLLBACK").await;
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM u").await, "0");
    assert_eq!(one(&mut session, "SELECT COUNT(d) FROM t").await, "0");
    // The schema's own table is another one.
    run(&mut session, "INSERT INTO t VALUES (7); CREATE OR REPLACE TABLE t SELECT d FROM t; DROP TEMPORARY TABLE t")
        .await;
    assert_eq!(one(&mut session, "SELECT d FROM t").await, "7");
    assert_eq!(code(&mut session, "DROP TEMPORARY TABLE t").await, 1051);
}

#[tokio::test]
async fn schemas_and_indexes_are_replaced() {
    let fixture = Fixture::new("or-replace-others");
    let mut session = fixture.session().await;
    let made = run(&mut session, "CREATE OR REPLACE DATABASE d; CREATE TABLE d.t (a INT); USE d").await;
    assert_eq!(made.summaries[0].affected_rows, 1);
    let replaced = run(&mut session, "CREATE OR REPLACE SCHEMA d CHARACTER SET latin1").await;
    assert_eq!(replaced.summaries[0].affected_rows, 2);
    assert_eq!(one(&mut session, "SELECT DATABASE()").await, "NULL");
    assert_eq!(one(&mut session, "SHOW TABLES FROM d").await, "");
    assert_eq!(code(&mut session, "CREATE OR REPLACE DATABASE IF NOT EXISTS d").await, 1221);
    run(&mut session, "USE test; CREATE TABLE i (a INT, b INT, KEY k (a)); INSERT INTO i VALUES (1, 1), (1, 2)").await;
    let parts = "SELECT index_name, non_unique, column_name FROM information_schema.statistics
                 WHERE table_name = 'i' ORDER BY index_name, seq_in_index";
    for (sql, error, expected) in [
        ("CREATE OR REPLACE INDEX k ON i (a, b)", 0, "k,1,a;k,1,b"),
        ("CREATE OR REPLACE UNIQUE INDEX k ON i (a)", 1062, "k,1,a;k,1,b"),
        ("CREATE OR REPLACE INDEX k ON i (c)", 1072, "k,1,a;k,1,b"),
        ("CREATE OR REPLACE INDEX IF NOT EXISTS k ON i (a)", 1221, "k,1,a;k,1,b"),
        ("CREATE OR REPLACE UNIQUE INDEX K ON i (b)", 0, "K,0,b"),
        ("CREATE OR REPLACE INDEX l ON i (a)", 0, "K,0,b;l,1,a"),
    ] {
        assert_eq!(code(&mut session, sql).await, error, "{sql}");
        assert_eq!(one(&mut session, parts).await, expected, "{sql}");
        assert_eq!(one(&mut session, "SELECT b FROM i WHERE a = 1 ORDER BY b").await, "1;2", "{sql}");
    }
    assert_eq!(code(&mut session, "INSERT INTO i VALUES (2, 2)").await, 1062);
}

#[tokio::test]
async fn to_replace_takes_the_privilege_to_drop() {
    let fixture = Fixture::new("or-replace-rights");
    let mut session = fixture.session().await;
    run(
        &mut session,
        "CREATE TABLE t (a INT); CREATE DATABASE d; CREATE USER u@'%'; GRANT CREATE, INSERT, INDEX ON test.* TO u;
         GRANT CREATE ON d.* TO u; GRANT CREATE TEMPORARY TABLES ON test.* TO u",
    )
    .await;
    let mut user = fixture.engine().session("test").unwrap();
    user.connect("u", "localhost:1", "%");
    for sql in ["CREATE OR REPLACE TABLE t (a INT)", "CREATE OR REPLACE TABLE fresh SELECT 1 AS a"] {
        assert_eq!(code(&mut user, sql).await, 1142, "{sql}");
    }
    assert_eq!(code(&mut user, "CREATE OR REPLACE DATABASE d").await, 1044);
    run(&mut user, "CREATE OR REPLACE INDEX i ON t (a); CREATE OR REPLACE TEMPORARY TABLE t (a INT)").await;
    run(&mut session, "GRANT DROP ON test.* TO u; GRANT DROP ON d.* TO u").await;
    run(&mut user, "CREATE OR REPLACE TABLE t SELECT 1 AS a; CREATE OR REPLACE DATABASE d").await;
}
