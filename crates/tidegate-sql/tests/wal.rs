//! The write-ahead log stays bounded while somebody reads all the time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_rows::{Execute, Statement, json::Json, json::JsonOptions, sink::Collect};
use tidegate_sql::{Durability, Engine, EngineOptions, Session};

/// Twice what the log may grow to before it starts over: writers are ahead of the thread that sees to it.
const WAL_BYTES_MAX: u64 = 128 << 20;
/// What is written altogether.
const WRITTEN_BYTES: usize = 200 << 20;
const ROW_BYTES: usize = 1_000_000;

async fn run(session: &mut Session, sql: &str) {
    let json = JsonOptions::default();
    let mut sink = Collect { format: Json::batch(&json), out: Vec::new() };
    let ran = session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut sink).await;
    ran.unwrap_or_else(|error| panic!("{}: {error}", &sql[..sql.len().min(100)]));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Ends the reader, also when the writer fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
#[ignore = "takes most of a minute; `cargo xtask crash` runs it"]
fn the_log_starts_over_beside_readers() {
    let path = std::env::temp_dir().join(format!("tidegate-sql-wal-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let mut options = EngineOptions::new(&path);
    options.durability = Durability::Normal;
    let engine = Engine::open(options).expect("a new directory");
    runtime().block_on(async {
        let mut session = engine.session("").expect("a session");
        run(&mut session, "CREATE DATABASE test; USE test; CREATE TABLE t (n INT PRIMARY KEY, s LONGTEXT); INSERT INTO t VALUES (0, '')")
            .await;
    });
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut most = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            runtime().block_on(async {
                let mut session = engine.session("test").expect("a session");
                while !done.load(Ordering::Relaxed) {
                    run(&mut session, "SELECT COUNT(*) FROM t WHERE n < 100").await;
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        let _done = Done(&done);
        runtime().block_on(async {
            let mut session = engine.session("test").expect("a session");
            for number in 1..=WRITTEN_BYTES / ROW_BYTES {
                // The same row again and again: the file stays small, the log does not.
                run(&mut session, &format!("REPLACE INTO t VALUES (1, REPEAT('{}', {ROW_BYTES}))", number % 10)).await;
                let size = std::fs::metadata(path.join("test.db-wal")).map_or(0, |file| file.len());
                most = size.max(most);
            }
        });
    });
    drop(engine);
    let _ = std::fs::remove_dir_all(&path);
    assert!(reads.load(Ordering::Relaxed) > 10, "nobody could read");
    assert!(most < WAL_BYTES_MAX, "the log grew to {} MiB", most >> 20);
}
