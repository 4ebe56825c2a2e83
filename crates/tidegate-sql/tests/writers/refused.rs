//! What is refused, undone or begun anew beside others, and what others define meanwhile.

use super::*;

#[test]
fn what_ignore_leaves_out_is_not_committed() {
    // A row that a foreign key refuses, or the unique index of one that a cascade reaches.
    let setup = "CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1), (2), (3), (4); \
         CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id)); INSERT INTO c VALUES (1, 1); \
         CREATE TABLE d (p INT UNIQUE, FOREIGN KEY (p) REFERENCES p (id) ON UPDATE CASCADE); SET foreign_key_checks = 0; INSERT INTO d VALUES (3), (4), (5); SET foreign_key_checks = 1";
    local(async {
        let fixture = Fixture::new("ignore", setup).await;
        let [mut a, mut b] = [fixture.session(), fixture.session()];
        let all = "SELECT id FROM p ORDER BY id; SELECT id, p FROM c; SELECT p FROM d ORDER BY p";
        let before = ok(run(&mut a, all).await);
        for statement in [
            "DELETE IGNORE FROM p WHERE id = 1",
            "INSERT IGNORE INTO c VALUES (7, 77)",
            "UPDATE IGNORE c SET p = 99 WHERE id = 1",
            "UPDATE IGNORE p SET id = 9 WHERE id = 1",
            "UPDATE IGNORE p SET id = 5 WHERE id = 4",
        ] {
            ok(run(&mut a, &format!("BEGIN; {statement}")).await);
            assert_eq!(ok(run(&mut a, all).await), before, "{statement}");
            // It begins anew on somebody else's commit, and commits.
            ok(run(&mut b, "INSERT INTO p VALUES (8); DELETE FROM p WHERE id = 8").await);
            ok(run(&mut a, "UPDATE p SET id = id WHERE id = 2").await);
            assert_eq!(ok(run(&mut a, all).await), before, "{statement}");
            ok(run(&mut a, "COMMIT").await);
            assert_eq!(ok(run(&mut a, all).await), before, "{statement}");
        }
    });
}

#[test]
fn a_table_is_not_emptied_past_the_locks_on_its_rows() {
    local(async {
        let fixture = Fixture::new("emptied", TABLE).await;
        let [mut a, mut b] = [fixture.session(), fixture.session()];
        let fill = "INSERT INTO t VALUES (1, 10, 1), (2, 20, 2), (3, 30, 3)";
        for touch in ["UPDATE t SET n = 11 WHERE id = 1", "SELECT n FROM t WHERE id = 1 FOR UPDATE"] {
            // Nobody is in the way when the statement is prepared, and kept.
            ok(run(&mut b, &format!("DELETE FROM t; {fill}; DELETE FROM t; {fill}")).await);
            ok(run(&mut a, &format!("BEGIN; {touch}")).await);
            let mut waiting = fixture.start(b, "DELETE FROM t");
            assert!(waiting.waits().await, "{touch}");
            ok(run(&mut a, "COMMIT").await);
            let (session, outcome) = waiting.end().await;
            ok(outcome);
            b = session;
            assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM t").await), [0]);
        }
    });
}

#[test]
fn a_new_foreign_key_waits_for_changes_of_its_parent() {
    let setup = "CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1), (2); \
         CREATE TABLE c (id INT PRIMARY KEY, p INT); INSERT INTO c VALUES (1, 1); \
         CREATE TABLE r (p INT, FOREIGN KEY (p) REFERENCES p (id))";
    local(async {
        let fixture = Fixture::new("new-key", setup).await;
        let mut a = fixture.session();
        ok(run(&mut a, "BEGIN; DELETE FROM p WHERE id = 1; INSERT INTO r VALUES (2)").await);
        let mut waiting = fixture.start(fixture.session(), "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id)");
        assert!(waiting.waits().await);
        ok(run(&mut a, "COMMIT").await);
        assert_eq!(waiting.end().await.1, Err(1452));
    });
}

#[test]
fn foreign_key_checks_count_from_the_next_statement() {
    let setup = "CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1); CREATE TABLE other (n INT); \
         CREATE TABLE c (p INT, FOREIGN KEY (p) REFERENCES p (id))";
    local(async {
        let fixture = Fixture::new("checks", setup).await;
        let mut a = fixture.session();
        // Privately, and as the schema's writer.
        for begin in ["BEGIN", "BEGIN; SELECT n FROM other ORDER BY RAND() LIMIT 1 FOR UPDATE"] {
            ok(run(&mut a, &format!("{begin}; INSERT INTO c VALUES (1)")).await);
            ok(run(&mut a, "SET foreign_key_checks = 0; INSERT INTO c VALUES (7)").await);
            assert_eq!(run(&mut a, "SET foreign_key_checks = 1; INSERT INTO c VALUES (8)").await, Err(1452), "{begin}");
            ok(run(&mut a, "COMMIT").await);
            assert_eq!(ok(run(&mut a, "SELECT p FROM c ORDER BY p; DELETE FROM c").await), [1, 7], "{begin}");
        }
    });
}

#[test]
fn rows_get_new_numbers_where_a_table_is_made_anew() {
    local(async {
        let fixture = Fixture::new("numbers", "CREATE TABLE t (n INT)").await;
        let mut a = fixture.session();
        ok(run(&mut a, "BEGIN; INSERT INTO t VALUES (1), (2), (3); COMMIT").await);
        ok(run(&mut a, "ALTER TABLE t ADD COLUMN id INT AUTO_INCREMENT PRIMARY KEY FIRST").await);
        ok(run(&mut a, "INSERT INTO t (n) VALUES (4), (5), (6), (7)").await);
        ok(run(&mut a, "ALTER TABLE t MODIFY id INT, DROP PRIMARY KEY; INSERT INTO t VALUES (8, 8)").await);
        ok(run(&mut a, "BEGIN; INSERT INTO t VALUES (9, 9); COMMIT").await);
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*), SUM(n) FROM t").await), [9, 45]);
    });
}

#[test]
fn a_statement_that_has_waited_begins_anew() {
    let setup =
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, l BIGINT, w TINYINT); INSERT INTO t (id) VALUES (1), (2), (3)";
    local(async {
        let fixture = Fixture::new("anew", setup).await;
        let mut a = fixture.session();
        for begin in ["", "BEGIN; "] {
            let mut b = fixture.session();
            ok(run(&mut b, "SET sql_mode = ''; SET @x = 0, @seen = 5").await);
            ok(run(&mut a, "BEGIN; UPDATE t SET n = 9 WHERE id = 3").await);
            let update =
                "UPDATE t SET n = (@x := @x + 1), l = LAST_INSERT_ID() + LAST_INSERT_ID(id), w = 1000 + (@y := id)";
            let mut waiting = fixture.start(b, &format!("{begin}{update}"));
            assert!(waiting.waits().await);
            ok(run(&mut a, "COMMIT").await);
            let (mut b, outcome) = waiting.end().await;
            ok(outcome);
            assert_eq!(ok(run(&mut b, "SELECT @@warning_count").await), [3]);
            assert_eq!(ok(run(&mut b, "SELECT n FROM t ORDER BY id; SELECT @x, @y, @seen").await), [1, 2, 3, 3, 3, 5]);
            assert_eq!(ok(run(&mut b, "SELECT l FROM t WHERE id = 1; COMMIT").await), [1]);
        }
    });
}

#[test]
fn who_does_not_wait_for_rows_does_not_wait_for_the_writer() {
    local(async {
        let fixture = Fixture::new("nowait", TABLE).await;
        let mut a = fixture.session();
        ok(run(&mut a, "BEGIN; SELECT n FROM t ORDER BY RAND() LIMIT 1 FOR UPDATE").await);
        for begin in ["", "BEGIN; "] {
            let locking = format!("{begin}SELECT n FROM t WHERE id = 1 FOR UPDATE NOWAIT");
            assert_eq!(fixture.start(fixture.session(), &locking).end().await.1, Err(1205));
        }
    });
}

#[test]
fn a_savepoint_takes_no_generated_value_back() {
    let setup = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT)";
    local(async {
        let mut fixture = Fixture::new("generated", setup).await;
        let mut a = fixture.session();
        ok(run(&mut a, "BEGIN; SELECT n FROM t ORDER BY RAND() LIMIT 1 FOR UPDATE; INSERT INTO t (n) VALUES (1)")
            .await);
        ok(run(&mut a, "SAVEPOINT s; DELETE FROM t; INSERT INTO t (n) VALUES (2); DELETE FROM t; ROLLBACK TO s").await);
        ok(run(&mut a, "DELETE FROM t; COMMIT").await);
        drop(a);
        fixture.engine = None;
        fixture.engine = Some(Engine::open(EngineOptions::new(&fixture.path)).unwrap());
        let mut a = fixture.session();
        assert_eq!(ok(run(&mut a, "INSERT INTO t (n) VALUES (3); SELECT id FROM t").await), [3]);
    });
}

#[test]
fn transactions_do_not_read_tables_that_others_have_redefined() {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); CREATE TABLE o (n INT); INSERT INTO o VALUES (5)";
    local(async {
        let fixture = Fixture::new("redefined", setup).await;
        let [mut a, mut b] = [fixture.session(), fixture.session()];
        for begin in ["BEGIN; INSERT INTO t VALUES (2)", "BEGIN; SELECT id FROM t"] {
            for definition in ["ALTER TABLE o ADD COLUMN x INT", "DROP TABLE o; CREATE TABLE o (n INT)"] {
                ok(run(&mut a, begin).await);
                ok(run(&mut b, definition).await);
                assert_eq!(run(&mut a, "SELECT * FROM o").await, Err(1412), "{begin}; {definition}");
                assert!(a.in_transaction());
                ok(run(&mut a, "ROLLBACK; SELECT * FROM o").await);
            }
        }
    });
}

#[test]
fn snapshots_are_not_read_by_later_definitions() {
    let setup =
        "CREATE TABLE o (n INT, d DATE); INSERT INTO o VALUES (5, '2020-02-03'); CREATE TABLE t (id INT PRIMARY KEY)";
    local(async {
        let fixture = Fixture::new("stored-forms", setup).await;
        let [mut a, mut b] = [fixture.session(), fixture.session()];
        for begin in ["START TRANSACTION WITH CONSISTENT SNAPSHOT", "BEGIN; INSERT INTO t VALUES (2)"] {
            for definition in [
                "ALTER TABLE o MODIFY n VARCHAR(9)",
                "ALTER TABLE o MODIFY n DECIMAL(9,3), MODIFY d VARCHAR(20)",
                "ALTER TABLE o MODIFY n INT, MODIFY d DATE",
                "ALTER TABLE o RENAME COLUMN n TO x, RENAME COLUMN d TO n; ALTER TABLE o RENAME COLUMN n TO d, RENAME COLUMN x TO n",
            ] {
                ok(run(&mut a, begin).await);
                ok(run(&mut b, definition).await);
                assert_eq!(run(&mut a, "SELECT CAST(n AS SIGNED) FROM o").await, Err(1412), "{begin}; {definition}");
                // Other tables are as they were.
                ok(run(&mut a, "SELECT id FROM t").await);
                assert_eq!(ok(run(&mut a, "ROLLBACK; SELECT CAST(n AS SIGNED) FROM o").await), [5]);
                // What writes begins on the newest commit.
                ok(run(&mut a, begin).await);
                ok(run(&mut a, "UPDATE o SET n = n; SELECT n FROM o; ROLLBACK").await);
            }
        }
        // Who takes no snapshot sees the new definition.
        ok(run(&mut a, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; SELECT n FROM o").await);
        ok(run(&mut b, "ALTER TABLE o MODIFY n BIGINT").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM o").await), [5]);
    });
}

#[test]
fn a_schema_is_dropped_when_transactions_have_ended() {
    local(async {
        let fixture = Fixture::new("dropped", TABLE).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        let begins = ["BEGIN; UPDATE t SET n = 0 WHERE id = 1", "BEGIN; SELECT n FROM t WHERE id = 1 FOR SHARE"];
        for (number, begin) in begins.into_iter().enumerate() {
            let schema = format!("s{number}");
            ok(run(&mut a, &format!("CREATE DATABASE {schema}; USE {schema}; {TABLE}")).await);
            ok(run(&mut a, begin).await);
            assert_eq!(
                run(&mut b, &format!("SET innodb_lock_wait_timeout = 0; DROP DATABASE {schema}")).await,
                Err(1205)
            );
            ok(run(&mut b, "SET innodb_lock_wait_timeout = 50").await);
            let mut waiting = fixture.start(b, &format!("DROP DATABASE {schema}"));
            assert!(waiting.waits().await);
            // Others that wait for it find nothing.
            let other =
                fixture.start(fixture.session(), &format!("BEGIN; UPDATE {schema}.t SET n = n + 1 WHERE id = 2"));
            ok(run(&mut a, "UPDATE t SET n = 5 WHERE id = 3; COMMIT").await);
            let outcome;
            (b, outcome) = waiting.end().await;
            assert_eq!(ok(outcome), [0i64; 0]);
            assert_eq!(other.end().await.1, Err(1049), "{begin}");
            assert_eq!(run(&mut a, "SELECT n FROM t").await, Err(1049));
        }
    });
}

#[test]
fn a_delete_of_many_rows_keeps_what_stands_before_it() {
    let rows: Vec<String> = (0..3000).map(|id| format!("({id})")).collect();
    let setup = format!(
        "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES {}; CREATE TABLE other (n INT)",
        rows.join(", ")
    );
    local(async {
        let fixture = Fixture::new("many", &setup).await;
        let mut a = fixture.session();
        ok(run(&mut a, "BEGIN; INSERT INTO other VALUES (1); SAVEPOINT s; INSERT INTO other VALUES (2)").await);
        ok(run(&mut a, "DELETE FROM t").await);
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM t; SELECT SUM(n) FROM other").await), [0, 3]);
        ok(run(&mut a, "ROLLBACK TO s; DELETE FROM t WHERE id > 9; COMMIT").await);
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM t; SELECT SUM(n) FROM other").await), [10, 1]);
    });
}

#[test]
fn queries_of_writes_lock_what_they_say() {
    local(async {
        let fixture = Fixture::new("within", &format!("{TABLE}; CREATE TABLE z (n INT)")).await;
        let mut a = fixture.session();
        ok(run(&mut a, "BEGIN; INSERT INTO z SELECT n FROM t WHERE id = 1 FOR UPDATE").await);
        let mut waiting = fixture.start(fixture.session(), "UPDATE t SET n = 11 WHERE id = 1");
        assert!(waiting.waits().await);
        ok(run(&mut a, "UPDATE t SET n = n + 1 WHERE id = 1; COMMIT").await);
        let (mut b, outcome) = waiting.end().await;
        ok(outcome);
        assert_eq!(ok(run(&mut b, "SELECT n FROM t WHERE id = 1; SELECT n FROM z").await), [11, 10]);
    });
}

#[test]
fn a_parent_goes_when_its_last_child_has_gone() {
    let setup = "CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1), (2); \
         CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id)); INSERT INTO c VALUES (1, 1), (2, 2)";
    local(async {
        let fixture = Fixture::new("parent", setup).await;
        let mut a = fixture.session();
        for (number, statement) in
            [(1, "DELETE FROM p WHERE id = 1"), (2, "BEGIN; UPDATE IGNORE p SET id = 9 WHERE id = 2; COMMIT")]
        {
            ok(run(&mut a, &format!("BEGIN; DELETE FROM c WHERE id = {number}")).await);
            let mut waiting = fixture.start(fixture.session(), statement);
            assert!(waiting.waits().await, "{statement}");
            ok(run(&mut a, "COMMIT").await);
            ok(waiting.end().await.1);
        }
        assert_eq!(ok(run(&mut a, "SELECT id FROM p").await), [9]);
    });
}

#[test]
fn what_a_foreign_key_has_refused_stays_as_it_is() {
    local(async {
        let tables = "CREATE TABLE p (id INT PRIMARY KEY, k VARCHAR(9) UNIQUE); INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'z'); \
             CREATE TABLE c (id INT PRIMARY KEY, p INT, k VARCHAR(9), FOREIGN KEY (p) REFERENCES p (id), FOREIGN KEY (k) REFERENCES p (k)); \
             INSERT INTO c VALUES (1, 1, 'b'), (2, 1, NULL); CREATE TABLE big (id INT PRIMARY KEY, n INT)";
        let rows: Vec<String> = (0..1100).map(|id| format!("({id}, 0)")).collect();
        let load = format!("BEGIN; INSERT INTO big VALUES {}", rows.join(","));
        for begin in ["BEGIN", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN", &load] {
            let fixture = Fixture::new("refused-stays", tables).await;
            let (mut a, mut b) = (fixture.session(), fixture.session());
            for (refused, code, others) in [
                ("INSERT INTO c VALUES (3, 9, NULL)", 1452, "INSERT INTO p VALUES (9, 'i')"),
                ("INSERT INTO c VALUES (3, NULL, 'x')", 1452, "UPDATE p SET k = 'x' WHERE id = 3"),
                ("INSERT IGNORE INTO c VALUES (3, 9, NULL)", 0, "INSERT INTO p VALUES (9, 'i')"),
                ("UPDATE c SET p = 9 WHERE id = 2", 1452, "INSERT INTO p VALUES (9, 'i')"),
                ("DELETE FROM p WHERE id = 1", 1451, "DELETE FROM c WHERE id = 1"),
                ("UPDATE p SET k = 'x' WHERE id = 2", 1451, "UPDATE c SET k = NULL WHERE id = 1"),
            ] {
                ok(run(&mut b, "SET innodb_lock_wait_timeout = 50").await);
                ok(run(&mut a, begin).await);
                assert_eq!(run(&mut a, refused).await.err().unwrap_or(0), code, "{begin:.50}: {refused}");
                // The load steps back for this.
                ok(run(&mut b, "INSERT INTO p VALUES (7, 'g'); DELETE FROM p WHERE id = 7").await);
                ok(run(&mut b, "BEGIN; SET innodb_lock_wait_timeout = 0").await);
                assert_eq!(run(&mut b, others).await, Err(1205), "{begin:.50}: {refused}; others: {others}");
                assert_eq!(run(&mut a, refused).await.err().unwrap_or(0), code, "{begin:.50}: {refused} once more");
                ok(run(&mut a, "ROLLBACK").await);
                ok(run(&mut b, others).await);
                ok(run(&mut b, "ROLLBACK").await);
            }
            // A statement of its own keeps nothing.
            assert_eq!(run(&mut a, "INSERT INTO c VALUES (3, 9, NULL)").await, Err(1452));
            ok(run(&mut b, "INSERT INTO p VALUES (9, 'i')").await);
        }
    });
}
