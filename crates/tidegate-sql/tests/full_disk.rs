//! A disk that takes no more: errors, and work that goes on when there is room again.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use tidegate_rows::{Column, Execute, Flow, QueryError, Row, Sink, SinkClosed, Statement, Summary, Value};
use tidegate_sql::{Engine, EngineOptions, Session};

/// Marks the process that must not write large files.
const CHILD: &str = "TIDEGATE_LIMITED_CHILD";
/// A directory on a disk of eight megabytes, in the process that has mounted it.
const SMALL_DISK: &str = "TIDEGATE_SMALL_DISK";

/// Nothing that must happen some time takes longer, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps the first value of the last row.
#[derive(Default)]
struct One(i64);

impl Sink for One {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        row.each(|_, value| {
            if let Value::Int(value) = value {
                self.0 = value;
            }
        });
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

async fn run(session: &mut Session, sql: &str) -> Result<i64, u16> {
    let mut one = One::default();
    match session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut one).await {
        Ok(()) => Ok(one.0),
        Err(QueryError::Server(error)) => Err(error.code),
        Err(error) => panic!("{sql}: {error}"),
    }
}

async fn prepare(session: &mut Session) {
    let setup = "CREATE DATABASE IF NOT EXISTS test; USE test; \
        CREATE TABLE t (n INT PRIMARY KEY, filler MEDIUMTEXT); INSERT INTO t VALUES (0, '')";
    run(session, setup).await.expect("there is room for a table");
}

/// Inserts until it fails; how many rows were acknowledged, and the error.
async fn fill(session: &mut Session) -> (i64, u16) {
    for number in 1..10_000 {
        if let Err(code) = run(session, &format!("INSERT INTO t VALUES ({number}, REPEAT('x', 200000))")).await {
            return (number - 1, code);
        }
    }
    panic!("the disk is never full");
}

/// Everything that was acknowledged is there, nothing else, and the engine goes on.
async fn check_goes_on(session: &mut Session, acknowledged: i64) {
    assert_eq!(run(session, "SELECT COUNT(*) FROM t").await, Ok(acknowledged + 1));
    let begun = Instant::now();
    // The checkpoint thread may hold a moment longer to the memory of a disk that is full.
    while let Err(code) = run(session, "INSERT INTO t VALUES (100000, 'again')").await {
        assert!(begun.elapsed() < PATIENCE, "still error {code}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(run(session, "SELECT COUNT(*) FROM t").await, Ok(acknowledged + 2));
    assert_eq!(run(session, "DELETE FROM t WHERE n > 0").await, Ok(0));
    assert_eq!(run(session, "SELECT COUNT(*) FROM t").await, Ok(1));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Eight sessions insert at the same time, their commits shared, until each has failed; how many rows were acknowledged.
/// Each `round` has keys of its own.
async fn fill_together(engine: &Engine, round: i64) -> i64 {
    let local = tokio::task::LocalSet::new();
    let fillers: Vec<_> = (0..8)
        .map(|filler| {
            let mut session = engine.session("test").expect("a session");
            local.spawn_local(async move {
                for number in 0..10_000 {
                    let key = (round + 1) * 1_000_000 + number * 8 + filler;
                    match run(&mut session, &format!("INSERT INTO t VALUES ({key}, REPEAT('x', 50000))")).await {
                        Ok(_) => {}
                        Err(code) => {
                            assert!(matches!(code, 1021 | 1030), "error {code}");
                            return number;
                        }
                    }
                }
                panic!("the disk is never full");
            })
        })
        .collect();
    local.await;
    let mut acknowledged = 0;
    for filler in fillers {
        acknowledged += filler.await.expect("no panic");
    }
    acknowledged
}

/// Runs `name` again in a mount namespace of its own, where `disk` is a small one. Only root, or where everybody may
/// have namespaces; otherwise the test says so and does nothing.
fn with_small_disk(name: &str) {
    // A directory for each test: removing it unmounts, in every namespace, what is mounted there.
    let disk = std::env::temp_dir().join(format!("tidegate-sql-disk-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&disk).expect("a directory");
    // SAFETY: the call takes nothing and cannot fail.
    let namespaces: &[&str] = if unsafe { libc::geteuid() } == 0 { &["-m"] } else { &["-r", "-m"] };
    let mount = "mount -t tmpfs -o size=8m tmpfs \"$1\" || exit 99; exec \"$2\" --exact \"$3\" --nocapture";
    let output = Command::new("unshare")
        .args(namespaces)
        .args(["sh", "-c", mount, "sh"])
        .arg(&disk)
        .arg(std::env::current_exe().expect("this test"))
        .arg(name)
        .env(SMALL_DISK, &disk)
        .output();
    let _ = std::fs::remove_dir(&disk);
    let said = |output: &std::process::Output| {
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    match output {
        Ok(output) if output.status.success() => println!("{}", said(&output)),
        Ok(output) if said(&output).contains("test result") => panic!("{}", said(&output)),
        Ok(output) => println!("left out, no small disk can be mounted here: {}", said(&output)),
        Err(error) => println!("left out, unshare: {error}"),
    }
}

#[test]
fn a_full_disk() {
    let Some(disk) = std::env::var_os(SMALL_DISK).map(PathBuf::from) else {
        return with_small_disk("a_full_disk");
    };
    runtime().block_on(async {
        let ballast = disk.join("ballast");
        std::fs::write(&ballast, vec![1; 2 << 20]).expect("there is room at first");
        let directory = disk.join("data");
        let engine = Engine::open(EngineOptions::new(&directory)).expect("a new directory");
        let mut session = engine.session("").expect("a session");
        prepare(&mut session).await;
        let (acknowledged, code) = fill(&mut session).await;
        assert!(acknowledged > 0);
        assert!(matches!(code, 1021 | 1030), "error {code}");
        assert_eq!(run(&mut session, "SELECT COUNT(*) FROM t").await, Ok(acknowledged + 1), "reading goes on");
        std::fs::remove_file(&ballast).expect("removed");
        check_goes_on(&mut session, acknowledged).await;
        let begun = Instant::now();
        let mut together = 0;
        for round in 0.. {
            together += fill_together(&engine, round).await;
            if together > 8 {
                break;
            }
            // What was deleted gives its room back when the checkpoint thread has come round.
            assert!(begun.elapsed() < PATIENCE, "{together} rows");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(run(&mut session, "SELECT COUNT(*) FROM t").await, Ok(together + 1), "all that was acknowledged");
        drop(session);
        drop(engine);
        let engine = Engine::open(EngineOptions::new(&directory)).expect("it opens again");
        let mut session = engine.session("test").expect("the schema is there");
        assert_eq!(run(&mut session, "SELECT COUNT(*) FROM t").await, Ok(together + 1));
        println!("{acknowledged} rows, then error {code}; {together} rows together; afterwards all was well");
    });
}

#[test]
fn a_full_disk_is_freed_by_deleting() {
    let Some(disk) = std::env::var_os(SMALL_DISK).map(PathBuf::from) else {
        return with_small_disk("a_full_disk_is_freed_by_deleting");
    };
    runtime().block_on(async {
        let directory = disk.join("data");
        let mut left = 0;
        for free in ["DELETE FROM t WHERE n > 0", "TRUNCATE t", "DROP TABLE t"] {
            let engine = Engine::open(EngineOptions::new(&directory)).expect("the directory");
            let mut session = engine.session("").expect("a session");
            run(&mut session, "CREATE DATABASE IF NOT EXISTS test; USE test").await.expect("a schema");
            // Rows are small, so that each page is in the log many times.
            run(&mut session, "CREATE TABLE IF NOT EXISTS t (n INT PRIMARY KEY, s TEXT)").await.expect("a table");
            let size = |file: &str| std::fs::metadata(directory.join(file)).expect("there").len();
            let sizes = || (size("test.db"), size("test.db-wal"));
            // A log that has been moved leaves the disk to the data.
            let is_moved = || sizes().0 > 2 * sizes().1;
            let (mut count, mut code, mut refused, mut last) = (0, 0, 0, Instant::now());
            // The log may be full for a moment that is not: until the checkpoint thread has come round.
            while refused < 50 || !is_moved() {
                match run(&mut session, &format!("INSERT INTO t VALUES ({}, REPEAT('x', 2500))", count + 1)).await {
                    Ok(_) => (count, refused, last) = (count + 1, 0, Instant::now()),
                    Err(error) => {
                        (code, refused) = (error, refused + 1);
                        assert!(last.elapsed() < PATIENCE, "data and log stay as they are: {:?}", sizes());
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                assert!(count < 100_000, "the disk is never full");
            }
            assert!(matches!(code, 1021 | 1030), "error {code}");
            assert!(count > left / 2, "{count} rows after {left}: the room has come back");
            left = count;
            drop((session, engine));
            assert_eq!(size("test.db-wal"), 0, "a process that ends leaves no log");
            // Also after a restart.
            let engine = Engine::open(EngineOptions::new(&directory)).expect("it opens again");
            let mut session = engine.session("test").expect("the schema is there");
            assert_eq!(run(&mut session, "SELECT COUNT(*) FROM t").await, Ok(count), "all that was acknowledged");
            let begun = Instant::now();
            while let Err(code) = run(&mut session, free).await {
                assert!(begun.elapsed() < PATIENCE, "{free}: still error {code}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            println!("{count} rows, then error {code}; {free}");
        }
    });
}

#[test]
fn a_disk_that_cannot_be_written() {
    let Some(disk) = std::env::var_os(SMALL_DISK).map(PathBuf::from) else {
        return with_small_disk("a_disk_that_cannot_be_written");
    };
    runtime().block_on(async {
        let directory = disk.join("data");
        let engine = Engine::open(EngineOptions::new(&directory)).expect("a new directory");
        prepare(&mut engine.session("").expect("a session")).await;
        drop(engine);
        let remount = |how: &str| {
            let status = Command::new("mount").args(["-o", how]).arg(&disk).status().expect("mount");
            assert!(status.success(), "{how}");
        };
        // The mount alone: its own options, which `mount` would repeat, may name users that a namespace does not know.
        remount("remount,bind,ro");
        let refused = Engine::open(EngineOptions::new(&directory)).err().expect("nobody can lock it").to_string();
        assert!(refused.contains("tidegate.lock") && refused.contains("Read-only"), "{refused}");
        remount("remount,bind,rw");
        let engine = Engine::open(EngineOptions::new(&directory)).expect("it opens again");
        let mut session = engine.session("test").expect("the schema is there");
        assert_eq!(run(&mut session, "INSERT INTO t VALUES (1, '')").await, Ok(0));
    });
}

/// Files of this process may not grow beyond `bytes`.
fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure is complete; ignoring a signal is always allowed.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

fn child(directory: &Path) {
    runtime().block_on(async {
        let engine = Engine::open(EngineOptions::new(directory)).expect("a new directory");
        let mut session = engine.session("").expect("a session");
        prepare(&mut session).await;
        limit_files(3 << 20);
        let (acknowledged, code) = fill(&mut session).await;
        assert!(matches!(code, 1021 | 1030), "error {code}");
        assert_eq!(run(&mut session, "SELECT COUNT(*) FROM t").await, Ok(acknowledged + 1), "reading goes on");
        // Inside of a transaction: it ends, and nothing of it stays.
        let large = "BEGIN; INSERT INTO t VALUES (-1, REPEAT('y', 4000000)); COMMIT";
        assert!(run(&mut session, large).await.is_err());
        let _ = run(&mut session, "ROLLBACK").await;
        limit_files(libc::RLIM_INFINITY);
        check_goes_on(&mut session, acknowledged).await;
    });
}

/// Files that may not grow are a disk that refuses to write; it needs a process of its own.
#[test]
fn writes_that_fail() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return child(Path::new(&directory));
    }
    let directory = std::env::temp_dir().join(format!("tidegate-sql-limited-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "writes_that_fail", "--nocapture"])
        .env(CHILD, &directory)
        .output()
        .expect("this test starts");
    let _ = std::fs::remove_dir_all(&directory);
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
