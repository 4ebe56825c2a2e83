//! The numbers of commits, who hears of them, and what a result depends on.

use std::{
    fs,
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use super::{Durability, Fixture, run, try_run};
use tidegate_sql::{Heard, Listening, Session};

/// What a listener has heard of and not taken yet; waits for nothing.
fn now(listening: &mut Listening) -> Vec<String> {
    let mut heard = Vec::new();
    while let Poll::Ready(next) = pin!(listening.next()).poll(&mut Context::from_waker(Waker::noop())) {
        match next {
            Some(Heard::Commit(commit)) => heard.push(commit.tables.join("+")),
            Some(Heard::Missed(_)) => heard.push("missed".to_owned()),
            None => {
                heard.push("over".to_owned());
                break;
            }
        }
    }
    heard
}

const TABLES: &str = "CREATE TABLE a (n INT PRIMARY KEY); CREATE TABLE b (n INT); CREATE VIEW v AS SELECT n FROM a";

#[tokio::test]
async fn every_change_of_a_table_raises_its_version() {
    let mut fixture = Fixture::new("raises");
    let mut session = fixture.session().await;
    run(&mut session, TABLES).await;
    let mut known = 0;
    let statements = [
        ("INSERT INTO a VALUES (1)", "a"),
        ("DROP TABLE a; CREATE TABLE a (n INT PRIMARY KEY)", "a"),
        ("BEGIN; INSERT INTO a VALUES (1); COMMIT", "a"),
        ("ALTER TABLE a ADD COLUMN m INT", "a"),
        ("TRUNCATE a", "a"),
        ("CREATE OR REPLACE TABLE a (n INT PRIMARY KEY, m INT)", "a"),
        ("CREATE OR REPLACE TABLE a (n INT PRIMARY KEY, m INT) SELECT 1 AS n", "a"),
        ("RENAME TABLE a TO c", "c"),
        ("ALTER TABLE c RENAME TO a", "a"),
        ("CREATE OR REPLACE VIEW v AS SELECT n + 1 AS n FROM a", "v"),
        ("CREATE INDEX i ON a (m)", "a"),
        ("DROP DATABASE test; CREATE DATABASE test; USE test; CREATE TABLE a (n INT); CREATE TABLE b (n INT)", "a"),
        ("CREATE OR REPLACE DATABASE test; USE test; CREATE TABLE a (n INT); CREATE TABLE b (n INT)", "a"),
    ];
    for (sql, table) in statements {
        run(&mut session, sql).await;
        let version = fixture.engine().table_version("test", table).unwrap();
        assert!(version > known, "{sql}: {version} after {known}");
        known = version;
    }
    // What a process leaves that was killed: its files as they are.
    let left = fixture.path.with_extension("left");
    let _ = fs::remove_dir_all(&left);
    fs::create_dir(&left).unwrap();
    for file in ["test.db", "test.db-wal"] {
        fs::copy(fixture.path.join(file), left.join(file)).unwrap();
    }
    let mut after_kill = Fixture { engine: None, path: left };
    let mut copy = Fixture { engine: None, path: fixture.path.with_extension("copy") };
    let _ = fs::remove_dir_all(&copy.path);
    fs::create_dir(&copy.path).unwrap();
    for file in ["test.db", "test.db-wal"] {
        fs::copy(after_kill.path.join(file), copy.path.join(file)).unwrap();
    }
    after_kill.open_again(|_| {});
    let gone_on = after_kill.engine().table_version("test", "a").unwrap();
    assert!(gone_on > known);
    copy.open_again(|_| {});
    assert_ne!(copy.engine().table_version("test", "a").unwrap(), gone_on, "processes with copies of one file");
    drop(session);
    for _ in 0..3 {
        fixture.open_again(|_| {});
        let version = fixture.engine().table_version("test", "a").unwrap();
        assert!(version > known, "{version} after {known}, by a restart");
        run(&mut fixture.session().await, "INSERT INTO b VALUES (1)").await;
        known = fixture.engine().table_version("test", "b").unwrap();
        assert!(known > version);
    }
}

#[tokio::test]
async fn a_commit_is_heard_of_before_it_is_acknowledged() {
    for durability in [Durability::Full, Durability::Normal] {
        let mut fixture = Fixture::new(&format!("heard-{durability:?}"));
        fixture.open_again(|options| options.durability = durability);
        let mut session = fixture.session().await;
        run(&mut session, TABLES).await;
        let mut all = fixture.engine().listen("test", &[], None).unwrap();
        let mut some = fixture.engine().listen("test", &["b", "d"], None).unwrap();
        for (sql, heard) in [
            ("INSERT INTO a VALUES (1)", "a"),
            ("INSERT INTO a VALUES (1)", ""),
            ("BEGIN; INSERT INTO a VALUES (2); INSERT INTO b VALUES (2)", ""),
            ("COMMIT", "a+b"),
            ("BEGIN; INSERT INTO a VALUES (3); ROLLBACK", ""),
            ("SET autocommit = 0; INSERT INTO b VALUES (3); COMMIT; SET autocommit = 1", "b"),
            ("RENAME TABLE b TO d", "b+d"),
            ("ALTER TABLE d ADD COLUMN m INT", "d"),
            ("CREATE OR REPLACE VIEW v AS SELECT 1", "v"),
            ("CREATE TEMPORARY TABLE t (n INT); INSERT INTO t VALUES (1); DROP TABLE t", ""),
            ("SELECT * FROM a", ""),
            ("INSERT INTO d SELECT n, n FROM a", "d"),
        ] {
            let _ = try_run(&mut session, sql).await;
            assert_eq!(now(&mut all).join(","), heard, "{sql}");
            let concerned = heard.split('+').any(|table| table == "b" || table == "d");
            assert_eq!(now(&mut some).join(","), if concerned { heard } else { "" }, "{sql}");
        }
        run(&mut session, "DROP DATABASE test").await;
        assert_eq!((now(&mut all), now(&mut some)), (vec!["over".to_owned()], vec!["over".to_owned()]));
        assert!(fixture.engine().listen("test", &[], None).is_err());
    }
}

#[tokio::test]
async fn who_comes_back_hears_what_was_missed() {
    let mut fixture = Fixture::new("comes-back");
    fixture.open_again(|options| options.durability = Durability::Normal);
    let mut session = fixture.session().await;
    run(&mut session, TABLES).await;
    let mut first = fixture.engine().listen("test", &["a"], None).unwrap();
    run(&mut session, "INSERT INTO a VALUES (1)").await;
    let Some(Heard::Commit(commit)) = first.next().await else { panic!("a commit") };
    drop(first);
    run(&mut session, "INSERT INTO b VALUES (1); INSERT INTO a VALUES (2); INSERT INTO a VALUES (3)").await;
    let listen = |after| fixture.engine().listen("test", &["a"], Some(after)).unwrap();
    assert_eq!(now(&mut listen(commit.number)), ["a", "a"]);
    assert_eq!(now(&mut listen(1)), ["missed"], "before anybody listened");
    assert_eq!(now(&mut listen(u64::MAX)), ["missed"], "a number of another file");
    let newest = fixture.engine().table_version("test", "a").unwrap();
    assert!(now(&mut listen(newest)).is_empty());
    // Whoever does not listen for long hears that something was missed, once.
    let mut slow = fixture.engine().listen("test", &["a"], None).unwrap();
    for _ in 0..50 {
        let inserts = "INSERT INTO b VALUES (1);".repeat(100);
        run(&mut session, &inserts).await;
    }
    assert_eq!(now(&mut slow), ["missed"]);
    run(&mut session, "DELETE FROM a").await;
    assert_eq!(now(&mut slow), ["a"]);
}

#[tokio::test]
async fn who_waits_for_a_table_misses_nothing_by_commits_of_others() {
    let mut fixture = Fixture::new("quiet-table");
    fixture.open_again(|options| options.durability = Durability::Normal);
    let mut session = fixture.session().await;
    run(&mut session, TABLES).await;
    let mut watch = fixture.engine().listen("test", &["v"], None).unwrap();
    let mut quiet = fixture.engine().listen("test", &["b"], None).unwrap();
    let (mut watch, mut quiet) = (pin!(watch.next()), pin!(quiet.next()));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(watch.as_mut().poll(&mut cx).is_pending() && quiet.as_mut().poll(&mut cx).is_pending());
    // More than the list keeps.
    for round in 0..50 {
        let inserts: String = (0..100).map(|n| format!("INSERT INTO a VALUES ({});", round * 100 + n)).collect();
        run(&mut session, &inserts).await;
        assert!(watch.as_mut().poll(&mut cx).is_pending());
    }
    run(&mut session, "INSERT INTO b VALUES (1)").await;
    assert!(watch.as_mut().poll(&mut cx).is_pending());
    let heard = quiet.as_mut().poll(&mut cx);
    assert!(matches!(heard, Poll::Ready(Some(Heard::Commit(_)))), "{heard:?}");
}

#[tokio::test]
async fn listeners_of_a_thread_are_woken_whoever_goes() {
    let fixture = Fixture::new("woken");
    let mut session = fixture.session().await;
    run(&mut session, TABLES).await;
    let engine = fixture.engine().clone();
    let listen = |table: &'static str| {
        let mut listening = engine.listen("test", &[table], None).unwrap();
        tokio::task::spawn_local(async move {
            let mut heard = Vec::new();
            while heard.len() < 3 {
                match listening.next().await {
                    Some(Heard::Commit(commit)) => heard.push(commit.number),
                    other => panic!("{other:?}"),
                }
            }
            heard
        })
    };
    tokio::task::LocalSet::new()
        .run_until(async {
            let gone = listen("a");
            let others: Vec<_> = ["a", "b", "a", "b"].into_iter().map(listen).collect();
            // One who polls, and then does something else, keeps nobody from hearing.
            let mut sleeper = engine.listen("test", &[], None).unwrap();
            tokio::task::yield_now().await;
            assert!(pin!(sleeper.next()).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            gone.abort();
            for n in 0..3 {
                run(&mut session, &format!("INSERT INTO a VALUES ({n}); INSERT INTO b VALUES ({n})")).await;
            }
            let mut heard = Vec::new();
            for other in others {
                let time = std::time::Duration::from_secs(20);
                heard.push(tokio::time::timeout(time, other).await.expect("woken").unwrap());
            }
            assert!(heard[0].is_sorted() && heard[0] == heard[2] && heard[1] == heard[3] && heard[0] != heard[1]);
            assert_eq!(now(&mut sleeper).len(), 6);
        })
        .await;
}

async fn reads(session: &mut Session, sql: &str) -> String {
    let _ = try_run(session, sql).await;
    let tables: Vec<&str> = session.reads().iter().map(|read| read.table.as_str()).collect();
    format!("{}{}", tables.join("+"), if session.reads_more() { " and more" } else { "" })
}

#[tokio::test]
async fn a_session_tells_what_results_depend_on() {
    let fixture = Fixture::new("depends");
    let mut session = fixture.session().await;
    run(&mut session, TABLES).await;
    run(&mut session, "INSERT INTO a VALUES (1)").await;
    session.watch_tables();
    for (sql, expected) in [
        ("SELECT * FROM a", "a"),
        ("SELECT * FROM a JOIN b USING (n) WHERE n > 3 ORDER BY n LIMIT 2", "a+b"),
        ("SELECT * FROM v", "v+a"),
        ("SELECT COUNT(*), UPPER('x'), RAND(3), DATABASE(), VERSION() FROM a", "a and more"),
        ("SELECT COUNT(*), UPPER('x'), DATABASE(), VERSION() FROM a", "a"),
        ("SELECT * FROM a; SELECT * FROM b", "a+b"),
        ("SELECT n FROM a WHERE n IN (SELECT n FROM b)", "a+b"),
        ("SELECT n, NOW() FROM a", "a and more"),
        ("SELECT n FROM b WHERE CURDATE() > '2020-01-01'", "b and more"),
        ("SELECT n, SYSDATE() FROM a", "a and more"),
        ("SELECT n, UNIX_TIMESTAMP() FROM a", "a and more"),
        ("SELECT n, RAND() FROM a", "a and more"),
        ("SELECT n, UUID() FROM a", "a and more"),
        ("SELECT n, CONNECTION_ID() FROM a", "a and more"),
        ("SELECT n, USER() FROM a", "a and more"),
        ("SELECT n, CURRENT_USER() FROM a", "a and more"),
        ("SELECT n, LAST_INSERT_ID() FROM a", "a and more"),
        ("SELECT n, FOUND_ROWS() FROM a", "a and more"),
        ("SELECT n, ROW_COUNT() FROM a", "a and more"),
        ("SELECT n, @x FROM a", "a and more"),
        ("SELECT n, @x := 3 FROM a", "a and more"),
        ("SELECT n, @@sql_mode FROM a", "a and more"),
        ("SELECT n, GET_LOCK('x', 0) FROM a", "a and more"),
        ("SELECT n, IS_FREE_LOCK('x') FROM a", "a and more"),
        ("SELECT CAST('10:00:00' AS TIME) + INTERVAL 1 DAY, TIMESTAMP(CAST('10:00:00' AS TIME)) FROM a", "a and more"),
        ("SELECT * FROM information_schema.tables", " and more"),
        ("SELECT * FROM a, information_schema.tables", "a and more"),
        ("SELECT * FROM a FOR UPDATE", "a and more"),
        ("SHOW TABLES", " and more"),
        ("SELECT 1", ""),
        ("SELECT * FROM a; SET @x = 1", "a and more"),
        ("SELECT * FROM a; SELECT * FROM nothing", "a and more"),
        ("INSERT INTO a SELECT n FROM b", " and more"),
        ("BEGIN; SELECT * FROM a", "a and more"),
        ("SELECT * FROM a", "a and more"),
        ("ROLLBACK; SELECT * FROM a", "a and more"),
        ("SELECT * FROM a", "a"),
    ] {
        // Twice: once translated, once from the cache.
        let _ = reads(&mut session, sql).await;
        assert_eq!(reads(&mut session, sql).await, expected, "{sql}");
    }
}

#[test]
fn acknowledged_commits_have_been_heard_of_on_all_threads() {
    let fixture = Fixture::new("all-threads");
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime().block_on(async { run(&mut fixture.session().await, TABLES).await });
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let engine = fixture.engine();
            scope.spawn(move || {
                runtime().block_on(async {
                    let mut session = engine.session("test").unwrap();
                    session.watch_tables();
                    let mut listening = engine.listen("test", &["a"], None).unwrap();
                    let mut last = listening.heard();
                    for n in 0..100 {
                        let row = thread * 1000 + n;
                        let begin = if n % 3 == 0 { "BEGIN; " } else { "" };
                        let end = if n % 3 == 0 { "; COMMIT" } else { "" };
                        run(&mut session, &format!("{begin}INSERT INTO a VALUES ({row}){end}")).await;
                        let own = session.changes()[0].version;
                        let mut numbers = Vec::new();
                        while let Poll::Ready(next) =
                            pin!(listening.next()).poll(&mut Context::from_waker(Waker::noop()))
                        {
                            let Some(Heard::Commit(commit)) = next else { panic!("{next:?}") };
                            assert!(commit.number > last, "each once, in order");
                            last = commit.number;
                            numbers.push(commit.number);
                        }
                        assert!(numbers.contains(&own), "{own} is acknowledged, {numbers:?} were heard of");
                    }
                });
            });
        }
    });
}

#[tokio::test]
async fn a_result_is_no_longer_fresh_when_accounts_have_changed() {
    let fixture = Fixture::new("definer");
    let mut session = fixture.session().await;
    run(&mut session, TABLES).await;
    run(&mut session, "CREATE USER d; GRANT SELECT ON test.* TO d").await;
    run(&mut session, "CREATE DEFINER = d SQL SECURITY DEFINER VIEW of_d AS SELECT n FROM a").await;
    for (sql, code) in [("REVOKE SELECT ON test.* FROM d", 1356), ("DROP USER d", 1449)] {
        let mut reader = fixture.session().await;
        reader.watch_tables();
        let known = try_run(&mut reader, "SELECT n FROM of_d").await.is_ok();
        let freshness = reader.freshness();
        assert_eq!(freshness.as_ref().is_some_and(|freshness| freshness.holds()), known, "{sql}");
        run(&mut session, sql).await;
        assert!(!freshness.is_some_and(|freshness| freshness.holds()), "{sql}");
        assert_eq!(super::code(&mut reader, "SELECT n FROM of_d").await, code, "{sql}");
    }
}
