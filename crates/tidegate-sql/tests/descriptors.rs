//! Files that stay open beside many schemas. A process of its own: it counts what it has open.

use std::time::{Duration, Instant};

use tidegate_rows::{Column, Execute, Flow, Row, Sink, SinkClosed, Statement, Summary};
use tidegate_sql::{Durability, Engine, EngineOptions, Session};

const SCHEMAS: usize = 300;
/// For each schema that was used: the lock against other programs, and the file that grows.
const OF_A_SCHEMA: usize = 2;
/// 128 idle connections, 256 logs, 128 watched schemas, and what a process has anyway.
const OF_ALL: usize = 128 * 2 + 256 + 128 * 3 + 40;
/// Nothing that must happen some time takes longer, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Nowhere;

impl Sink for Nowhere {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, _: Row<'_>) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

async fn run(session: &mut Session, sql: &str) {
    let ran = session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut Nowhere).await;
    ran.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Answers whether so many files may be open.
fn allow_files(count: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is filled by the first call and complete for the second.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
    limit.rlim_max >= count
}

#[tokio::test]
async fn open_files_are_bounded_beside_many_schemas() {
    if !allow_files(4096) {
        println!("left out: this process may not open so many files");
        return;
    }
    let path = std::env::temp_dir().join(format!("tidegate-sql-descriptors-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let mut options = EngineOptions::new(&path);
    options.durability = Durability::Normal;
    let engine = Engine::open(options).unwrap();
    let mut session = engine.session("").unwrap();
    for number in 0..SCHEMAS {
        let sql = format!(
            "CREATE DATABASE s{number}; USE s{number}; CREATE TABLE t (n INT PRIMARY KEY); INSERT INTO t VALUES (1)"
        );
        run(&mut session, &sql).await;
        run(&mut session, "BEGIN; UPDATE t SET n = 2; COMMIT").await;
    }
    let begun = Instant::now();
    while open_files() > SCHEMAS * OF_A_SCHEMA + OF_ALL {
        assert!(begun.elapsed() < PATIENCE, "{} files are open", open_files());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Those that have been closed work as before, and are still the files that they were.
    for number in 0..SCHEMAS {
        run(&mut session, &format!("USE s{number}; INSERT INTO t VALUES (3); SELECT * FROM t")).await;
    }
    std::fs::rename(path.join("s0.db"), path.join("elsewhere")).unwrap();
    let sql = Statement { sql: b"SELECT * FROM s0.t", params: &[] };
    let refused = loop {
        if let Err(error) = session.execute(sql, &mut Nowhere).await {
            break error.to_string();
        }
        // The files of schemas that are only read are looked after once a second.
        assert!(begun.elapsed() < PATIENCE, "nobody notices that the file is gone");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(refused.contains("s0"), "{refused}");
    std::fs::rename(path.join("elsewhere"), path.join("s0.db")).unwrap();
    run(&mut session, "INSERT INTO s0.t VALUES (4)").await;
    drop((session, engine));
    std::fs::remove_dir_all(&path).unwrap();
}
