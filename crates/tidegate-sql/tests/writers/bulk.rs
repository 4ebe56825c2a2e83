//! Transactions that change so much that they are the schema's only writer, and give that up again.

use super::*;

/// A transaction of which nobody writes beside it: more rows than a private one may change.
fn many(from: u32, to: u32) -> String {
    let rows: Vec<String> = (from..to).map(|id| format!("({id}, {id}, 'item {id}', {})", 10 * id)).collect();
    format!("INSERT INTO big VALUES {}", rows.join(", "))
}

const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, n INT, u INT UNIQUE); INSERT INTO t VALUES (1, 10, 1), (2, 20, 2), (3, 30, 3); \
     CREATE TABLE big (id INT AUTO_INCREMENT PRIMARY KEY, n INT, s VARCHAR(20), u INT UNIQUE)";
const BIG: &str = "SELECT COUNT(*), SUM(n), SUM(u), MAX(s = 'item 1199') FROM big";

/// Whether somebody else can write, at once.
async fn others_write(fixture: &Fixture) -> bool {
    let mut other = fixture.session();
    run(&mut other, "SET innodb_lock_wait_timeout = 0; UPDATE t SET n = n + 1 WHERE id = 3").await.is_ok()
}

#[test]
fn a_bulk_load_that_waits_for_a_row_lets_its_owner_commit() {
    local(async {
        for is_older in [false, true] {
            let fixture = Fixture::new("bulk-waits", TABLES).await;
            let (mut a, mut b) = (fixture.session(), fixture.session());
            if is_older {
                ok(run(&mut a, "BEGIN; UPDATE big SET n = 0").await);
            }
            ok(run(&mut b, "BEGIN; UPDATE t SET n = 1 WHERE id = 1").await);
            // Rows that were there come, change and go again, and two change their unique keys with each other.
            ok(run(&mut a, if is_older { "SELECT 1" } else { "BEGIN" }).await);
            ok(run(&mut a, &many(1, 1201)).await);
            ok(run(&mut a, "UPDATE big SET u = -1 WHERE id = 1; UPDATE big SET u = 10 WHERE id = 2; UPDATE big SET u = 20 WHERE id = 1").await);
            ok(run(&mut a, "DELETE FROM big WHERE id = 3; INSERT INTO big (n, s) VALUES (0, 'next')").await);
            assert!(!others_write(&fixture).await);
            let mut waiting = fixture.start(a, "UPDATE t SET n = n + 1 WHERE id = 1");
            assert!(waiting.waits().await);
            ok(run(&mut b, "COMMIT").await);
            let (mut a, outcome) = waiting.end().await;
            ok(outcome);
            let expected = [1200, 1200 * 1201 / 2 - 3, 10 * (1200 * 1201 / 2 - 3), 1];
            assert_eq!(ok(run(&mut a, BIG).await), expected);
            assert_eq!(ok(run(&mut b, BIG).await)[0], 0);
            ok(run(&mut a, "COMMIT").await);
            assert_eq!(ok(run(&mut b, BIG).await), expected);
            assert_eq!(ok(run(&mut b, "SELECT n FROM t WHERE id = 1").await), [2]);
            assert_eq!(ok(run(&mut b, "SELECT u FROM big WHERE id < 4 ORDER BY id").await), [20, 10]);
            ok(run(&mut b, "INSERT INTO big (n) VALUES (7)").await);
            assert_eq!(ok(run(&mut b, "SELECT MAX(id) FROM big WHERE n = 7 OR s = 'next'").await), [1202]);
            fixture.engine.as_ref().unwrap().check("test").await.unwrap();
        }
    });
}

#[test]
fn what_a_bulk_load_has_written_is_locked_while_it_waits() {
    local(async {
        let fixture = Fixture::new("bulk-locks", TABLES).await;
        let (mut a, mut b, mut c) = (fixture.session(), fixture.session(), fixture.session());
        ok(run(&mut c, "BEGIN; UPDATE t SET n = 31 WHERE id = 3").await);
        ok(run(&mut b, "BEGIN; UPDATE t SET n = 1 WHERE id = 1").await);
        ok(run(&mut a, &format!("BEGIN; UPDATE t SET n = 21 WHERE id = 2; {}", many(1, 1201))).await);
        let mut first = fixture.start(a, "UPDATE t SET n = n + 1 WHERE id = 1");
        assert!(first.waits().await);
        // It needs the write lock: the load steps back, but keeps its rows and keys.
        ok(run(&mut b, "UPDATE t SET u = 11 WHERE id = 1").await);
        ok(run(&mut c, "SET innodb_lock_wait_timeout = 0").await);
        for statement in [
            "UPDATE t SET n = 0 WHERE id = 2",
            "INSERT INTO big VALUES (7, 7, '', 7)",
            "INSERT INTO big VALUES (5000, 7, '', 70)",
        ] {
            assert_eq!(run(&mut c, statement).await, Err(1205), "{statement}");
        }
        // A real circle: the younger of the two ends.
        let mut second = fixture.start(b, "UPDATE t SET n = 22 WHERE id = 2");
        let (first, second) = (first.end().await, second.waits().await);
        assert_eq!((first.1, second), (Err(1213), false));
        assert!(!first.0.in_transaction());
    });
}

#[test]
fn a_bulk_statement_in_vain_leaves_no_writer() {
    local(async {
        let fixture = Fixture::new("bulk-vain", TABLES).await;
        let mut a = fixture.session();
        ok(run(&mut a, "INSERT INTO big VALUES (1190, 0, 'there', 0)").await);
        for before in ["BEGIN", "BEGIN; UPDATE t SET n = 11 WHERE id = 1; SAVEPOINT s"] {
            ok(run(&mut a, before).await);
            assert_eq!(run(&mut a, &many(1, 1201)).await, Err(1062));
            assert!(others_write(&fixture).await, "{before}");
            assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM big").await), [1]);
            ok(run(&mut a, "UPDATE t SET n = n + 1 WHERE id = 1; COMMIT").await);
        }
        assert_eq!(ok(run(&mut a, "SELECT n FROM t WHERE id = 1").await), [12]);
    });
}

#[test]
fn who_goes_back_to_a_savepoint_of_before_is_no_writer_any_more() {
    local(async {
        let fixture = Fixture::new("bulk-savepoint", TABLES).await;
        let mut a = fixture.session();
        ok(run(&mut a, "BEGIN; UPDATE t SET n = 11 WHERE id = 1; SAVEPOINT s; UPDATE t SET n = 12 WHERE id = 1").await);
        ok(run(&mut a, &many(1, 1201)).await);
        ok(run(&mut a, "SAVEPOINT later; DELETE FROM big WHERE id < 10; ROLLBACK TO later").await);
        assert!(!others_write(&fixture).await, "the load is still there");
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM big").await), [1200]);
        ok(run(&mut a, "ROLLBACK TO s").await);
        assert!(others_write(&fixture).await);
        assert_eq!(run(&mut a, "ROLLBACK TO later").await, Err(1305));
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM big; SELECT n FROM t ORDER BY id").await), [0, 11, 20, 31]);
        // AUTO_INCREMENT goes on behind what was taken back, also in the file.
        ok(run(&mut a, "INSERT INTO big (n) VALUES (1); COMMIT").await);
        assert_eq!(ok(run(&mut a, "SELECT id FROM big").await), [1201]);
        // A savepoint of the same name that is made later hides the one of before.
        ok(run(
            &mut a,
            &format!("BEGIN; SAVEPOINT s; {}; SAVEPOINT s; DELETE FROM big; ROLLBACK TO s", many(2001, 3202)),
        )
        .await);
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM big; ROLLBACK").await), [1202]);
    });
}

#[test]
fn a_transaction_with_a_savepoint_in_the_middle_of_a_load_keeps_the_lock() {
    local(async {
        let fixture = Fixture::new("bulk-middle", TABLES).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        ok(run(&mut b, "BEGIN; UPDATE t SET n = 1 WHERE id = 1").await);
        ok(run(&mut a, &format!("BEGIN; {}; SAVEPOINT s; DELETE FROM big WHERE id < 10", many(1, 1201))).await);
        let mut waiting = fixture.start(a, "UPDATE t SET n = n + 1 WHERE id = 1");
        assert!(waiting.waits().await);
        // Nobody knows any more what the savepoint has seen: one of the two has to end, and it is not the one who commits.
        ok(run(&mut b, "COMMIT").await);
        let (mut a, outcome) = waiting.end().await;
        assert_eq!(outcome, Err(1213));
        assert_eq!(ok(run(&mut a, BIG).await)[0], 0);
    });
}

/// Has somebody else write, who waits until that is possible.
async fn another_writes(fixture: &Fixture) {
    ok(fixture.start(fixture.session(), "UPDATE t SET n = n + 1 WHERE id = 3").end().await.1);
}

#[test]
fn a_bulk_load_whose_client_pauses_lets_others_write() {
    local(async {
        let fixture = Fixture::new("bulk-pauses", TABLES).await;
        let mut a = fixture.session();
        ok(run(&mut a, "INSERT INTO big (n, u) VALUES (1, -100), (2, -200)").await);
        ok(run(&mut a, "BEGIN; UPDATE t SET n = 11 WHERE id = 1; SAVEPOINT s").await);
        ok(run(&mut a, &many(3, 1203)).await);
        ok(run(&mut a, "UPDATE big SET u = -300 WHERE id = 1; UPDATE big SET u = -100 WHERE id = 2").await);
        ok(run(&mut a, "DELETE FROM big WHERE id = 3; UPDATE t SET u = 22 WHERE id = 2").await);
        another_writes(&fixture).await;
        // It is as it was, but for the right to write.
        assert!(others_write(&fixture).await);
        let mut b = fixture.session();
        assert_eq!(ok(run(&mut b, "SELECT COUNT(*) FROM big").await), [2]);
        ok(run(&mut b, "SET innodb_lock_wait_timeout = 0").await);
        for statement in [
            "UPDATE t SET n = 0 WHERE id = 1",
            "UPDATE t SET u = 22 WHERE id = 3",
            "INSERT INTO big VALUES (7, 7, '', 7)",
            "INSERT INTO big VALUES (5000, 7, '', 70)",
            "UPDATE big SET n = 0 WHERE id = 2",
            "ALTER TABLE big ADD z INT",
        ] {
            assert_eq!(run(&mut b, statement).await, Err(1205), "{statement}");
        }
        assert_eq!(
            ok(run(&mut a, "SELECT COUNT(*), SUM(u < 0) FROM big; SELECT n FROM t").await),
            [1201, 2, 11, 20, 32]
        );
        // It goes on as the only writer, and steps back again.
        ok(run(&mut a, "INSERT INTO big (n) VALUES (-1); DELETE FROM big WHERE id = 4").await);
        another_writes(&fixture).await;
        ok(run(&mut a, "COMMIT").await);
        assert_eq!(ok(run(&mut b, "SELECT n FROM big WHERE n = -1 OR u < 0 ORDER BY id").await), [1, 2, -1]);
        assert_eq!(ok(run(&mut b, "SELECT COUNT(*) FROM big; SELECT n FROM t").await), [1201, 11, 20, 33]);
        fixture.engine.as_ref().unwrap().check("test").await.unwrap();
    });
}

/// What a load does with rows that are as before afterwards, and what others must wait for then.
const MET: [(&str, &[u16], &[&str]); 11] = [
    ("UPDATE t SET n = 10 WHERE id = 1", &[], &["UPDATE t SET n = 0 WHERE id = 1"]),
    ("UPDATE t SET n = 11 WHERE id = 1; UPDATE t SET n = 10 WHERE id = 1", &[], &["DELETE FROM t WHERE id = 1"]),
    ("DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 10, 1)", &[], &["UPDATE t SET n = n + 1 WHERE id = 1"]),
    ("INSERT INTO t VALUES (1, 1, 5)", &[1062], &["UPDATE t SET n = 0 WHERE id = 1", "DELETE FROM t WHERE id = 1"]),
    ("INSERT INTO t VALUES (5, 1, 1)", &[1062], &["UPDATE t SET u = 8 WHERE id = 1", "DELETE FROM t WHERE id = 1"]),
    ("INSERT IGNORE INTO t VALUES (5, 1, 1)", &[], &["UPDATE t SET u = 8 WHERE id = 1"]),
    (
        "UPDATE t SET u = 2 WHERE id = 1",
        &[1062],
        &["UPDATE t SET u = 8 WHERE id = 2", "UPDATE t SET n = 0 WHERE id = 1"],
    ),
    ("SELECT n FROM t WHERE u = 1 FOR UPDATE", &[], &["SELECT n FROM t WHERE id = 1 FOR SHARE"]),
    ("SELECT n FROM t WHERE u = 1 FOR SHARE", &[], &["UPDATE t SET n = 0 WHERE id = 1"]),
    ("REPLACE INTO t VALUES (1, 10, 1)", &[], &["UPDATE t SET n = 0 WHERE id = 1"]),
    (
        "UPDATE t SET u = 8 WHERE id = 1; UPDATE t SET u = 1 WHERE id = 1; INSERT INTO t VALUES (1, 0, 0) ON DUPLICATE KEY UPDATE n = 10",
        &[],
        &["INSERT INTO t VALUES (9, 9, 8)", "UPDATE t SET n = 0 WHERE id = 1"],
    ),
];

#[test]
fn a_bulk_load_keeps_what_it_has_met() {
    local(async {
        for (statements, errors, others) in MET {
            let fixture = Fixture::new("bulk-met", TABLES).await;
            let (mut a, mut b) = (fixture.session(), fixture.session());
            ok(run(&mut a, &format!("BEGIN; {}", many(1, 1201))).await);
            assert_eq!(run(&mut a, statements).await.err().as_slice(), errors, "{statements}");
            another_writes(&fixture).await;
            ok(run(&mut b, "SET innodb_lock_wait_timeout = 0; UPDATE t SET n = n + 1 WHERE id = 3").await);
            for statement in others {
                assert_eq!(run(&mut b, statement).await, Err(1205), "{statements}; others: {statement}");
            }
            // Also when the load has gone on since, and has rested again.
            ok(run(&mut a, "INSERT INTO big (n) VALUES (1)").await);
            another_writes(&fixture).await;
            assert_eq!(run(&mut b, others[0]).await, Err(1205), "{statements}; others later: {}", others[0]);
            assert_eq!(ok(run(&mut a, "SELECT n, u FROM t WHERE id = 1; COMMIT").await), [10, 1]);
            ok(run(&mut b, others[0]).await);
        }
    });
}

#[test]
fn a_serializable_bulk_load_keeps_what_it_has_named() {
    local(async {
        let fixture = Fixture::new("bulk-serializable", TABLES).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        ok(run(&mut b, "SET innodb_lock_wait_timeout = 0").await);
        ok(run(&mut a, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE").await);
        ok(run(&mut a, &format!("BEGIN; {}", many(1, 1201))).await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM t WHERE id = 1; SELECT n FROM t WHERE id = 7").await), [10]);
        another_writes(&fixture).await;
        for statement in ["UPDATE t SET n = 0 WHERE id = 1", "INSERT INTO t VALUES (7, 7, 7)"] {
            assert_eq!(run(&mut b, statement).await, Err(1205), "{statement}");
        }
        ok(run(&mut b, "SELECT n FROM t WHERE id = 1 FOR SHARE; UPDATE t SET n = n + 1 WHERE id = 2").await);
        // Others may not change what a search has found, or would find now.
        assert_eq!(ok(run(&mut a, "SELECT SUM(n) FROM t").await), [62]);
        let mut waiting = fixture.start(b, "SET innodb_lock_wait_timeout = 50; UPDATE t SET n = n + 1 WHERE id = 2");
        assert!(waiting.waits().await);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(ok(run(&mut a, "SELECT SUM(n) FROM t").await), [62]);
        ok(run(&mut a, "COMMIT").await);
        ok(waiting.end().await.1);
    });
}

#[test]
fn what_a_bulk_statement_has_met_in_vain_stays_locked() {
    local(async {
        let fixture = Fixture::new("bulk-met-vain", TABLES).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        ok(run(&mut b, "SET innodb_lock_wait_timeout = 0").await);
        ok(run(&mut a, &many(1, 1201)).await);
        // The last of the rows cannot have its key.
        ok(run(&mut a, "INSERT INTO big VALUES (1500, 0, '', -1200)").await);
        ok(run(&mut a, "BEGIN; SAVEPOINT s").await);
        assert_eq!(run(&mut a, "UPDATE big SET u = -id WHERE id <= 1200").await, Err(1062));
        ok(run(&mut b, "UPDATE t SET n = n + 1 WHERE id = 3").await);
        for statement in ["UPDATE big SET n = 0 WHERE id = 7", "INSERT INTO big VALUES (9, 9, '', 9)"] {
            assert_eq!(run(&mut b, statement).await, Err(1205), "{statement}");
        }
        // What is taken back stays locked too.
        ok(run(&mut a, "ROLLBACK; BEGIN; SAVEPOINT s; UPDATE big SET n = n + 1 WHERE id <= 1200; ROLLBACK TO s").await);
        assert_eq!(run(&mut b, "UPDATE big SET n = 0 WHERE id = 1100").await, Err(1205));
        ok(run(&mut b, "UPDATE big SET n = 0 WHERE id = 1500").await);
        ok(run(&mut a, "ROLLBACK").await);
        ok(run(&mut b, "UPDATE big SET n = 0 WHERE id = 1100").await);
    });
}

#[test]
fn a_bulk_load_in_a_circle_keeps_what_it_has_met() {
    local(async {
        let fixture = Fixture::new("bulk-met-circle", TABLES).await;
        let (mut a, mut b, mut c) = (fixture.session(), fixture.session(), fixture.session());
        ok(run(&mut b, "BEGIN; UPDATE t SET n = 1 WHERE id = 1").await);
        ok(run(&mut a, &format!("BEGIN; {}; UPDATE t SET n = 20 WHERE id = 2", many(1, 1201))).await);
        let mut waiting = fixture.start(a, "UPDATE t SET n = n + 1 WHERE id = 1");
        assert!(waiting.waits().await);
        // It needs the write lock: the load steps back.
        ok(run(&mut b, "UPDATE t SET u = 11 WHERE id = 1").await);
        ok(run(&mut c, "SET innodb_lock_wait_timeout = 0").await);
        assert_eq!(run(&mut c, "UPDATE t SET n = 0 WHERE id = 2").await, Err(1205));
        ok(run(&mut b, "COMMIT").await);
        let (mut a, outcome) = waiting.end().await;
        ok(outcome);
        ok(run(&mut a, "COMMIT").await);
        ok(run(&mut c, "UPDATE t SET n = 0 WHERE id = 2").await);
    });
}

#[test]
fn a_bulk_load_that_has_stepped_back_knows_its_savepoints() {
    local(async {
        let fixture = Fixture::new("bulk-knows", TABLES).await;
        let mut a = fixture.session();
        ok(run(&mut a, "BEGIN; UPDATE t SET n = 11 WHERE id = 1; SAVEPOINT s").await);
        ok(run(&mut a, &many(1, 1201)).await);
        another_writes(&fixture).await;
        // One that is made among so many changes stays, too, when they are only in the list.
        ok(run(&mut a, "SAVEPOINT later; DELETE FROM big WHERE id < 10; ROLLBACK TO later").await);
        assert_eq!(ok(run(&mut a, "SELECT COUNT(*) FROM big; SELECT n FROM t").await), [1200, 11, 20, 31]);
        ok(run(&mut a, "ROLLBACK TO s").await);
        assert!(others_write(&fixture).await);
        ok(run(&mut a, "INSERT INTO big (n) VALUES (5); COMMIT").await);
        assert_eq!(ok(run(&mut a, "SELECT id, n FROM big").await), [1201, 5]);
    });
}

#[test]
fn a_client_may_come_back_while_its_load_steps_back() {
    local(async {
        let fixture = Fixture::new("bulk-back", TABLES).await;
        let (mut committed, mut ids) = (0, 0);
        for round in 0..24u64 {
            let mut a = fixture.session();
            ok(run(&mut a, &format!("BEGIN; {}", many(ids + 1, ids + 1101))).await);
            let mut other = fixture.start(fixture.session(), "UPDATE t SET n = n + 1 WHERE id = 3");
            assert!(other.waits().await);
            // About when the thread that lists the changes begins; whichever comes first, the outcome is the same.
            tokio::time::sleep(Duration::from_millis(80 + round)).await;
            match round % 4 {
                0 => ok(run(&mut a, "COMMIT").await),
                1 => ok(run(&mut a, "ROLLBACK").await),
                2 => ok(run(&mut a, "DELETE FROM big WHERE u % 100 = 0; COMMIT").await),
                _ => {
                    drop(a);
                    Vec::new()
                }
            };
            ok(other.end().await.1);
            ids += 1100;
            // The tenth of the load that was committed two rounds ago goes as well.
            committed += [1100, 0, 990 - 110, 0][round as usize % 4];
        }
        let mut b = fixture.session();
        assert_eq!(
            ok(run(&mut b, "SELECT COUNT(*) FROM big; SELECT n FROM t WHERE id = 3").await),
            [committed, 30 + 24]
        );
        fixture.engine.as_ref().unwrap().check("test").await.unwrap();
    });
}

#[test]
fn a_load_that_has_stepped_back_can_be_ended() {
    local(async {
        let fixture = Fixture::new("bulk-ended", TABLES).await;
        for reset in [false, true] {
            let mut a = fixture.session();
            ok(run(&mut a, &format!("BEGIN; {}", many(1, 1201))).await);
            another_writes(&fixture).await;
            let mut b = fixture.session();
            if reset {
                assert!(a.reset());
            } else {
                ok(run(&mut b, &format!("KILL {}", a.id())).await);
            }
            ok(run(&mut b, "BEGIN; UPDATE big SET n = 0; ALTER TABLE big COMMENT 'free'").await);
            assert_eq!(ok(run(&mut b, "SELECT COUNT(*) FROM big").await), [0]);
        }
    });
}

#[test]
fn rows_without_a_key_of_their_own_are_in_nobodys_way() {
    local(async {
        let fixture =
            Fixture::new("bulk-no-key", &format!("{TABLES}; CREATE TABLE log (n INT); CREATE TABLE old (n INT)")).await;
        let (mut a, mut b, mut c) = (fixture.session(), fixture.session(), fixture.session());
        ok(run(&mut b, "INSERT INTO old VALUES (1), (2), (3)").await);
        ok(run(&mut a, &format!("BEGIN; {}; INSERT INTO log VALUES (1), (2)", many(1, 1201))).await);
        ok(run(&mut a, "DELETE FROM old WHERE n > 1; INSERT INTO old VALUES (2)").await);
        another_writes(&fixture).await;
        // The load has stepped back. The same row ids would be locked by it.
        ok(run(&mut b, "SET innodb_lock_wait_timeout = 0; INSERT INTO log VALUES (3); INSERT INTO old VALUES (4)")
            .await);
        ok(run(&mut b, "BEGIN; INSERT INTO log VALUES (4); INSERT INTO old VALUES (5)").await);
        ok(run(&mut c, "INSERT INTO log VALUES (5)").await);
        ok(run(&mut a, "INSERT INTO log VALUES (6); INSERT INTO old VALUES (6); COMMIT").await);
        ok(run(&mut b, "COMMIT").await);
        assert_eq!(ok(run(&mut c, "SELECT n FROM log ORDER BY n").await), [1, 2, 3, 4, 5, 6]);
        assert_eq!(ok(run(&mut c, "SELECT n FROM old ORDER BY n").await), [1, 2, 4, 5, 6]);
        fixture.engine.as_ref().unwrap().check("test").await.unwrap();
    });
}

#[test]
fn a_load_without_keys_takes_no_row_ids_of_others() {
    local(async {
        let fixture = Fixture::new("bulk-no-key-2", &format!("{TABLES}; CREATE TABLE log (n INT)")).await;
        let (mut a, mut b) = (fixture.session(), fixture.session());
        ok(run(&mut b, "BEGIN; SELECT n FROM t; UPDATE t SET n = 1 WHERE id = 1").await);
        ok(run(&mut a, &format!("BEGIN; {}; INSERT INTO log VALUES (1), (2)", many(1, 1201))).await);
        let mut waiting = fixture.start(b, "INSERT INTO log VALUES (3)");
        let waits = waiting.waits().await;
        ok(run(&mut a, "INSERT INTO log VALUES (4); COMMIT").await);
        let (mut b, outcome) = waiting.end().await;
        ok(outcome);
        ok(run(&mut b, "INSERT INTO log VALUES (5); COMMIT").await);
        assert_eq!(ok(run(&mut a, "SELECT n FROM log ORDER BY n").await), [1, 2, 3, 4, 5], "{waits}");
        fixture.engine.as_ref().unwrap().check("test").await.unwrap();
    });
}
