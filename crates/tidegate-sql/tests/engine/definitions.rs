//! Definitions that change beside statements that use them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Fixture, Session, code, one, run};

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
