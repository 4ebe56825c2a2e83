//! The keys of changed rows that listeners hear of.

use std::{
    collections::BTreeSet,
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use super::{Fixture, run, try_run};
use tidegate_sql::{ChangedKeys, Durability, Heard, Key, KeyValue, Listening, TableKeys};

fn next(listening: &mut Listening) -> Option<Heard> {
    match pin!(listening.next()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(heard) => heard,
        Poll::Pending => None,
    }
}

fn show(key: &Key) -> String {
    let values = key.iter().map(|value| match value {
        KeyValue::Int(value) => value.to_string(),
        KeyValue::Uint(value) => format!("{value}u"),
        KeyValue::Double(value) => format!("{value:?}"),
        KeyValue::Decimal(digits) => format!("{}d", String::from_utf8_lossy(digits)),
        KeyValue::Text(text) => String::from_utf8_lossy(text).into_owned(),
        KeyValue::Binary(bytes) => format!("x{bytes:02x?}"),
    });
    values.collect::<Vec<_>>().join("/")
}

/// What the commits that have not been heard of have done: `a +1 ~2 -3`.
fn now(listening: &mut Listening) -> String {
    let mut commits = Vec::new();
    while let Some(heard) = next(listening) {
        let Heard::Commit(commit) = heard else { panic!("{heard:?}") };
        let tables = commit.keys().map(|(table, keys)| {
            let keys = match keys {
                TableKeys::Known(ChangedKeys { inserted, updated, deleted }) => {
                    let signs = [("+", inserted), ("~", updated), ("-", deleted)];
                    let keys = signs.iter().flat_map(|(sign, keys)| keys.iter().map(move |key| (sign, key)));
                    keys.map(|(sign, key)| format!(" {sign}{}", show(key))).collect()
                }
                other => format!(" {other:?}"),
            };
            format!("{table}{keys}")
        });
        commits.push(tables.collect::<Vec<_>>().join(", "));
    }
    commits.join("; ")
}

const TABLES: &str = "CREATE TABLE a (n INT PRIMARY KEY, u INT UNIQUE, v VARCHAR(20)); \
    CREATE TABLE c (k VARCHAR(10), n INT, v INT, PRIMARY KEY (n, k)); CREATE TABLE log (n INT); \
    CREATE TABLE p (id INT AUTO_INCREMENT PRIMARY KEY, v INT); \
    CREATE TABLE q (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE); \
    CREATE TABLE r (q INT PRIMARY KEY, FOREIGN KEY (q) REFERENCES q (id) ON DELETE CASCADE ON UPDATE CASCADE)";

/// Statements, each a commit or more, and what is heard.
const STATEMENTS: &[(&str, &str)] = &[
    ("INSERT INTO a VALUES (1, 1, 'x'), (2, 2, 'y')", "a +1 +2"),
    ("UPDATE a SET v = 'z' WHERE n = 1", "a ~1"),
    ("UPDATE a SET v = 'z'", "a ~2"),
    ("UPDATE a SET n = 3 WHERE n = 2", "a +3 -2"),
    ("UPDATE a SET n = 4 - n", ""),
    ("DELETE FROM a WHERE n = 3", "a -3"),
    ("REPLACE INTO a VALUES (1, 1, 'r')", "a ~1"),
    ("REPLACE INTO a VALUES (7, 1, 'r')", "a +7 -1"),
    ("INSERT INTO a VALUES (7, 9, 'd') ON DUPLICATE KEY UPDATE v = 'd'", "a ~7"),
    ("INSERT INTO a VALUES (8, 9, 'd') ON DUPLICATE KEY UPDATE v = 'd'", "a +8"),
    ("INSERT IGNORE INTO a VALUES (8, 1, 'e'), (9, 3, 'e'), (10, 3, 'e')", "a +9"),
    // The second row is a duplicate: nothing of the statement remains.
    ("INSERT INTO a VALUES (20, 20, 'f'), (7, 21, 'f')", ""),
    ("BEGIN; INSERT INTO a VALUES (30, 30, 'g'); INSERT INTO a VALUES (31, 31, 'g'), (7, 0, 'g')", ""),
    ("UPDATE a SET v = 'h' WHERE n = 7; COMMIT", "a +30 ~7"),
    (
        "BEGIN; UPDATE a SET v = 'i' WHERE n = 7; UPDATE a SET v = 'h' WHERE n = 7; DELETE FROM a WHERE n = 30; COMMIT",
        "a -30",
    ),
    ("BEGIN; DELETE FROM a WHERE n = 7; INSERT INTO a SELECT 7, u, 'h' FROM a WHERE n = 0; COMMIT", "a -7"),
    (
        "BEGIN; INSERT INTO a VALUES (40, 40, ''); SAVEPOINT s; INSERT INTO a VALUES (41, 41, ''); UPDATE a SET v = 'j' WHERE n = 9; \
         ROLLBACK TO s; INSERT INTO a VALUES (42, 42, ''); RELEASE SAVEPOINT s; COMMIT",
        "a +40 +42",
    ),
    ("BEGIN; INSERT INTO a VALUES (50, 50, ''); ROLLBACK", ""),
    (
        "BEGIN; INSERT INTO a VALUES (51, 51, ''); DELETE FROM a WHERE n = 51; INSERT INTO log VALUES (1); COMMIT",
        "a, log NoPrimaryKey",
    ),
    ("DELETE FROM a", "a -8 -9 -40 -42"),
    ("INSERT INTO c VALUES ('x', 1, 0), ('a', 2, 0)", "c +1/x +2/a"),
    ("UPDATE c SET k = 'A' WHERE k = 'a'", "c +2/A -2/a"),
    ("UPDATE c SET v = 1 WHERE n = 1", "c ~1/x"),
    ("REPLACE INTO c VALUES ('x', 1, 2)", "c ~1/x"),
    ("REPLACE INTO c VALUES ('x', 1, 2), ('y', 1, 3)", "c +1/y"),
    ("INSERT INTO log VALUES (1)", "log NoPrimaryKey"),
    ("TRUNCATE c", "c Unknown"),
    ("ALTER TABLE c ADD COLUMN w INT NOT NULL DEFAULT 5", "c Unknown"),
    ("INSERT INTO c (k, n) VALUES ('k', 1)", "c +1/k"),
    ("INSERT INTO p (v) VALUES (0), (0), (0)", "p +1 +2 +3"),
    ("INSERT INTO q VALUES (10, 1), (20, 2), (21, 2)", "q +10 +20 +21"),
    ("INSERT INTO r VALUES (10), (20)", "r +10 +20"),
    ("UPDATE p SET id = 9 WHERE id = 1", "p +9 -1, q ~10, r"),
    ("UPDATE q SET id = 11 WHERE id = 10", "q +11 -10, r +11 -10"),
    ("DELETE FROM p WHERE id = 2", "p -2, q -20 -21, r -20"),
    ("BEGIN; DELETE FROM p WHERE id = 9; COMMIT", "p -9, q -11, r -11"),
    ("DELETE FROM p", "p -3, q, r"),
    ("CREATE TEMPORARY TABLE t (n INT PRIMARY KEY); INSERT INTO t VALUES (1); DROP TABLE t", ""),
];

#[tokio::test]
async fn keys_are_those_of_the_rows_that_a_commit_has_changed() {
    for durability in [Durability::Full, Durability::Normal] {
        for settings in ["SELECT 1", "SET innodb_lock_wait_timeout = 5; SET autocommit = 0", "SET sql_mode = ''"] {
            let mut fixture = Fixture::new(&format!("keys-{durability:?}-{}", settings.len()));
            fixture.open_again(|options| options.durability = durability);
            let mut session = fixture.session().await;
            run(&mut session, TABLES).await;
            let mut listening = fixture.engine().listen("test", &[], None).unwrap().with_keys();
            run(&mut session, settings).await;
            let mut wrong = Vec::new();
            for (sql, expected) in STATEMENTS {
                let _ = try_run(&mut session, sql).await;
                if settings.contains("autocommit") && !sql.starts_with("BEGIN") {
                    run(&mut session, "COMMIT").await;
                }
                let heard = now(&mut listening);
                if heard != *expected {
                    wrong.push(format!("{sql}: {heard} instead of {expected}"));
                }
            }
            assert!(wrong.is_empty(), "{settings}: {}", wrong.join("\n"));
        }
    }
}

#[tokio::test]
async fn values_of_keys_are_typed() {
    let fixture = Fixture::new("keys-typed");
    let mut session = fixture.session().await;
    run(&mut session, "SET time_zone = '+05:00'").await;
    for (number, (ty, value, expected)) in [
        ("TINYINT", "-5", "-5"),
        ("INT ZEROFILL", "7", "7"),
        ("BIGINT UNSIGNED", "18446744073709551615", "18446744073709551615u"),
        ("YEAR", "2026", "2026"),
        ("DOUBLE", "0.1", "0.1"),
        ("DOUBLE", "3", "3.0"),
        ("FLOAT", "0.5", "0.5"),
        ("DECIMAL(6,2)", "-1.5", "-1.50d"),
        ("DECIMAL(6,2) ZEROFILL", "1.5", "1.50d"),
        ("VARCHAR(9)", "'é'", "é"),
        ("CHAR(4)", "'ab'", "ab"),
        ("VARBINARY(4)", "x'ff00'", "x[ff, 00]"),
        ("BINARY(3)", "x'ff'", "x[ff, 00, 00]"),
        ("BIT(9)", "b'100000001'", "x[01, 01]"),
        ("DATE", "'2026-01-02'", "2026-01-02"),
        ("DATETIME(3)", "'2026-01-02 03:04:05.6'", "2026-01-02 03:04:05.600"),
        ("TIMESTAMP(1)", "'2026-01-02 03:04:05.6'", "2026-01-01 22:04:05.6"),
        ("TIME", "'-25:00:01'", "-25:00:01"),
        ("ENUM('a', 'b')", "'b'", "b"),
        ("SET('a', 'b', 'c')", "'c,a'", "a,c"),
        ("UUID", "'00112233-4455-6677-8899-aabbccddeeff'", "00112233-4455-6677-8899-aabbccddeeff"),
        ("INET6", "'::1'", "::1"),
    ]
    .into_iter()
    .enumerate()
    {
        run(&mut session, &format!("CREATE TABLE t{number} (v INT, k {ty} PRIMARY KEY)")).await;
        let mut listening = fixture.engine().listen("test", &[], None).unwrap().with_keys();
        run(&mut session, &format!("INSERT INTO t{number} VALUES (1, {value})")).await;
        assert_eq!(now(&mut listening), format!("t{number} +{expected}"), "{ty}");
        run(&mut session, &format!("UPDATE t{number} SET v = 2; DELETE FROM t{number}")).await;
        assert_eq!(now(&mut listening), format!("t{number} ~{expected}; t{number} -{expected}"), "{ty}");
    }
}

#[tokio::test]
async fn keys_have_bounds() {
    let fixture = Fixture::new("keys-bounds");
    let mut session = fixture.session().await;
    run(&mut session, TABLES).await;
    run(&mut session, "CREATE TABLE long (k VARCHAR(700) PRIMARY KEY, v INT)").await;
    let mut listening = fixture.engine().listen("test", &[], None).unwrap().with_keys();
    let rows = |table: &str, from: i64, to: i64| {
        let rows: Vec<String> = (from..=to).map(|n| format!("({n}, {n}, '')")).collect();
        format!("INSERT INTO {table} VALUES {}", rows.join(","))
    };
    run(&mut session, &rows("a", 1, 1000)).await;
    assert_eq!(now(&mut listening).matches('+').count(), 1000);
    run(&mut session, &format!("BEGIN; INSERT INTO q VALUES (1, NULL); {}; COMMIT", rows("a", 2000, 3000))).await;
    assert_eq!(now(&mut listening), "a TooMany, q +1");
    // A private transaction that becomes the only writer, and private again.
    let bulk = rows("a", 4000, 5000);
    for (sql, expected) in [
        (
            "INSERT INTO a VALUES (6000, 6000, ''); SAVEPOINT s; BULK; ROLLBACK TO s; INSERT INTO a VALUES (6001, 6001, '')",
            "+6000 +6001",
        ),
        ("INSERT INTO a VALUES (6002, 6002, ''); BULK; DELETE FROM a WHERE n BETWEEN 4000 AND 5000", "TooMany"),
    ] {
        run(&mut session, &format!("BEGIN; {}; COMMIT", sql.replace("BULK", &bulk))).await;
        assert_eq!(now(&mut listening), format!("a {expected}"), "{sql}");
    }
    run(&mut session, "DELETE FROM a WHERE n > 1").await;
    assert_eq!(now(&mut listening), "a TooMany");
    run(&mut session, "DELETE FROM a").await;
    assert_eq!(now(&mut listening), "a -1");
    run(&mut session, &rows("a", 1, 1001)).await;
    run(&mut session, "DELETE FROM a; INSERT INTO a VALUES (1, 1, ''); DELETE FROM a").await;
    assert_eq!(now(&mut listening), "a TooMany; a TooMany; a +1; a -1");
    // Bytes of a commit.
    let long = |rows: std::ops::Range<u32>| -> String {
        let rows: Vec<String> = rows.map(|n| format!("('{}{n}', 0)", "x".repeat(600))).collect();
        format!("INSERT INTO long VALUES {}", rows.join(","))
    };
    run(&mut session, &long(0..350)).await;
    assert_eq!(now(&mut listening).matches('+').count(), 350);
    run(&mut session, &long(350..800)).await;
    assert_eq!(now(&mut listening), "long TooMany");
    run(&mut session, "UPDATE long SET v = 1").await;
    assert_eq!(now(&mut listening), "long TooMany");
    // Bytes of the list: the oldest commits lose their keys.
    let first = fixture.engine().table_version("test", "long").unwrap();
    let (listed, one) = (16 << 20, 300 * 600);
    for _ in 0..listed / one / 2 {
        run(&mut session, "UPDATE long SET v = v + 1 ORDER BY k LIMIT 300").await;
        run(&mut session, "UPDATE long SET v = v + 1 ORDER BY k LIMIT 300").await;
    }
    assert!(now(&mut listening).contains("long ~"));
    run(&mut session, "UPDATE long SET v = v + 1 ORDER BY k LIMIT 300").await;
    let mut late = fixture.engine().listen("test", &[], Some(first)).unwrap();
    let heard = now(&mut late);
    let commits: Vec<bool> = heard.split("; ").map(|commit| commit.contains(" ~")).collect();
    assert!(
        heard.starts_with("long Unknown;")
            && commits.is_sorted()
            && commits.iter().filter(|known| **known).count() > 80
    );
}

#[tokio::test]
async fn keys_are_noted_while_somebody_wants_them() {
    let fixture = Fixture::new("keys-wanted");
    let mut session = fixture.session().await;
    run(&mut session, TABLES).await;
    let mut plain = fixture.engine().listen("test", &[], None).unwrap();
    run(&mut session, "INSERT INTO a VALUES (1, 1, '')").await;
    assert_eq!(now(&mut plain), "a Unknown");
    // What has begun before is told when it is done again for its commit, unless it writes already.
    let mut writer = fixture.session().await;
    run(&mut writer, "LOCK TABLES c WRITE; SET autocommit = 0; INSERT INTO c VALUES ('x', 1, 1)").await;
    let listening = fixture.engine().listen("test", &[], None).unwrap().with_keys();
    run(&mut writer, "COMMIT").await;
    assert_eq!(now(&mut plain), "c Unknown");
    run(&mut writer, "UNLOCK TABLES; BEGIN; INSERT INTO a VALUES (2, 2, '')").await;
    run(&mut writer, "COMMIT").await;
    assert_eq!(now(&mut plain), "a +2");
    // For a while they are noted for those who will come back.
    let second = fixture.engine().listen("test", &[], None).unwrap().with_keys();
    drop((listening, second));
    run(&mut session, "DELETE FROM a WHERE n = 1").await;
    assert_eq!(now(&mut plain), "a -1");
    for _ in 0..42 {
        run(&mut session, &"INSERT INTO log VALUES (1);".repeat(100)).await;
        now(&mut plain);
    }
    run(&mut session, "DELETE FROM a").await;
    assert_eq!(now(&mut plain), "a Unknown");
    let _again = fixture.engine().listen("test", &[], None).unwrap().with_keys();
    run(&mut session, "INSERT INTO a VALUES (1, 1, '')").await;
    assert_eq!(now(&mut plain), "a +1");
}

/// A sequence of numbers by chance.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

fn statement(random: &mut Random) -> String {
    let ids: Vec<u64> = (0..6).map(|_| random.below(24)).collect();
    let [a, b, c, u, v, w] = ids[..] else { unreachable!() };
    let rows = format!("({a}, {u}, {v}), ({b}, {v}, {w}), ({c}, {w}, {u})");
    match random.below(22) {
        0 | 1 => format!("INSERT INTO m VALUES ({a}, {u}, {v})"),
        2 => format!("INSERT INTO m VALUES {rows}"),
        3 => format!("INSERT IGNORE INTO m VALUES {rows}"),
        4 => format!("INSERT INTO m VALUES {rows} ON DUPLICATE KEY UPDATE v = v + 1"),
        5 => format!("INSERT IGNORE INTO m VALUES {rows} ON DUPLICATE KEY UPDATE id = id + 1"),
        6 => format!("REPLACE INTO m VALUES {rows}"),
        7 => format!("UPDATE m SET v = v + 1 WHERE id BETWEEN {a} AND {}", a + 3),
        8 => format!("UPDATE m SET id = {b} WHERE id = {a}"),
        9 => format!("UPDATE IGNORE m SET id = id + 1, u = u + 1 WHERE id > {a}"),
        10 => format!("DELETE FROM m WHERE id BETWEEN {a} AND {}", a + 1),
        11 => format!("INSERT IGNORE INTO ch VALUES ({a}, {u}), ({b}, {v}), ({c}, {w})"),
        12 => format!("UPDATE ch SET b = b + 1 WHERE a = {a}"),
        13 => "DELETE FROM ch".to_owned(),
        14 => "SAVEPOINT s".to_owned(),
        15 => "ROLLBACK TO s".to_owned(),
        16..=18 => "BEGIN".to_owned(),
        19 | 20 => "COMMIT".to_owned(),
        _ => "ROLLBACK".to_owned(),
    }
}

/// Sessions of one thread that run random statements side by side.
async fn write_by_chance(engine: &tidegate_sql::Engine, seeds: std::ops::Range<u64>) {
    let tasks = tokio::task::LocalSet::new();
    for seed in seeds {
        let engine = engine.clone();
        tasks.spawn_local(async move {
            let mut session = engine.session("test").unwrap();
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            for _ in 0..150 {
                // Duplicates, missing parents and deadlocks are a part of it.
                let _ = try_run(&mut session, &statement(&mut random)).await;
            }
            let _ = try_run(&mut session, if seed % 2 == 0 { "COMMIT" } else { "ROLLBACK" }).await;
        });
    }
    tasks.await;
}

#[test]
fn whoever_follows_the_keys_has_those_of_the_table() {
    for round in 0..3 {
        let fixture = Fixture::new(&format!("keys-mirror-{round}"));
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut listening = runtime().block_on(async {
            let tables = "CREATE TABLE m (id INT PRIMARY KEY, u INT UNIQUE, v INT); CREATE TABLE ch (a INT, b INT, \
                PRIMARY KEY (a, b), FOREIGN KEY (a) REFERENCES m (id) ON DELETE CASCADE ON UPDATE CASCADE)";
            run(&mut fixture.session().await, tables).await;
            fixture.engine().listen("test", &[], None).unwrap().with_keys()
        });
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let engine = fixture.engine();
                let seeds = 100 * round + 10 * thread + 1..100 * round + 10 * thread + 5;
                scope.spawn(move || runtime().block_on(write_by_chance(engine, seeds)));
            }
        });
        let mut mirror: BTreeSet<String> = BTreeSet::new();
        let mut updated = 0;
        while let Some(heard) = next(&mut listening) {
            let Heard::Commit(commit) = heard else { panic!("{heard:?}") };
            for (table, keys) in commit.keys() {
                let TableKeys::Known(keys) = keys else { panic!("{keys:?}") };
                let name = |key: &Key| format!("{table} {}", show(key));
                keys.deleted.iter().for_each(|key| assert!(mirror.remove(&name(key)), "{commit:?}"));
                keys.inserted.iter().for_each(|key| assert!(mirror.insert(name(key)), "{commit:?}"));
                keys.updated.iter().for_each(|key| assert!(mirror.contains(&name(key)), "{commit:?}"));
                updated += keys.updated.len();
            }
        }
        let rows = runtime().block_on(async {
            let sql = "SELECT CONCAT('m ', id) FROM m UNION ALL SELECT CONCAT('ch ', a, '/', b) FROM ch";
            run(&mut fixture.session().await, sql).await.rows
        });
        let rows: BTreeSet<String> = rows.into_iter().map(|row| row.concat()).collect();
        assert!(!rows.is_empty() && updated > 0, "{rows:?}, {updated}");
        assert_eq!(mirror, rows, "round {round}");
    }
}
