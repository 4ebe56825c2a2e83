//! The write-ahead log stays bounded while somebody reads all the time, or for a long time.

use std::{
    io::Read,
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tidegate_rows::{
    Column, Execute, Flow, QueryError, Row, Sink, SinkClosed, Statement, Summary, json::Json, json::JsonOptions,
    sink::Collect,
};
use tidegate_sql::{Durability, Engine, EngineOptions, Report, Session};
use tokio::task::LocalSet;

const ROW_BYTES: usize = 100_000;

async fn try_run(session: &mut Session, sql: &str) -> Result<(), QueryError> {
    let json = JsonOptions::default();
    let mut sink = Collect { format: Json::batch(&json), out: Vec::new() };
    session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut sink).await
}

async fn run(session: &mut Session, sql: &str) {
    try_run(session, sql).await.unwrap_or_else(|error| panic!("{}: {error}", &sql[..sql.len().min(100)]));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// An engine with a table of two rows, and what it has reported.
struct Fixture {
    engine: Option<Engine>,
    path: PathBuf,
    said: Arc<Mutex<Vec<String>>>,
}

impl Fixture {
    fn new(name: &str, log_bytes_max: u64) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-sql-wal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&said);
        let mut options = EngineOptions::new(&path);
        options.durability = Durability::Normal;
        options.log_bytes_max = log_bytes_max;
        options.report = Some(Report(Arc::new(move |sentence: &str| log.lock().unwrap().push(sentence.to_owned()))));
        let engine = Engine::open(options).expect("a new directory");
        runtime().block_on(async {
            let mut session = engine.session("").expect("a session");
            let setup = "CREATE DATABASE test; USE test; CREATE TABLE t (n INT PRIMARY KEY, s LONGTEXT)";
            run(&mut session, setup).await;
            run(&mut session, "INSERT INTO t VALUES (0, ''), (1, '')").await;
        });
        Self { engine: Some(engine), path, said }
    }

    fn session(&self) -> Session {
        self.engine.as_ref().expect("open").session("test").expect("a session")
    }

    fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.path.join("test.db-wal")).map_or(0, |file| file.len())
    }

    /// Writes the same row again and again: the file stays small, the log does not. Answers the log's largest size.
    async fn write(&self, session: &mut Session, bytes: usize) -> u64 {
        let mut most = 0;
        for number in 1..=bytes / ROW_BYTES {
            run(session, &format!("REPLACE INTO t VALUES (1, REPEAT('{}', {ROW_BYTES}))", number % 10)).await;
            most = self.log_bytes().max(most);
        }
        most
    }

    /// How often the log has started over.
    ///
    /// Source: SQLite, "WAL file format", the checkpoint sequence number.
    fn starts(&self) -> u32 {
        let mut head = [0; 16];
        let log = std::fs::File::open(self.path.join("test.db-wal"));
        let read = log.and_then(|mut log| log.read_exact(&mut head));
        if read.is_ok() { u32::from_be_bytes([head[12], head[13], head[14], head[15]]) } else { 0 }
    }

    /// Writes little until the log has started over since `starts`.
    async fn wait_until_it_starts_over(&self, session: &mut Session, starts: u32) {
        let begun = Instant::now();
        let mut number = 0;
        while self.starts() == starts {
            assert!(begun.elapsed() < Duration::from_secs(60), "the log still grows at {} bytes", self.log_bytes());
            // Another row each time: one that is there already writes nothing.
            number += 1;
            run(session, &format!("REPLACE INTO t VALUES (0, '{number}')")).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.engine = None;
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Ends the reader, also when the writer fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_log_starts_over_beside_readers() {
    // It is to start over at a sixteenth of this.
    let fixture = Fixture::new("readers", 32 << 20);
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut most = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            runtime().block_on(async {
                let mut session = fixture.session();
                while !done.load(Ordering::Relaxed) {
                    run(&mut session, "SELECT COUNT(*) FROM t WHERE n < 100").await;
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        let _done = Done(&done);
        runtime().block_on(async {
            let mut session = fixture.session();
            // More than it may hold, in pieces that are each reason enough to start over.
            for _ in 0..12 {
                let starts = fixture.starts();
                most = fixture.write(&mut session, 3 << 20).await.max(most);
                fixture.wait_until_it_starts_over(&mut session, starts).await;
            }
            let begun = Instant::now();
            while reads.load(Ordering::Relaxed) <= 10 {
                assert!(begun.elapsed() < Duration::from_secs(60), "nobody could read");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    });
    assert!(most < 32 << 20, "the log grew to {} MiB", most >> 20);
    assert!(fixture.said.lock().unwrap().is_empty(), "somebody was ended");
}

/// Takes one row and is full from then on.
struct Stuck;

impl Sink for Stuck {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, _: Row<'_>) -> Flow {
        Flow::Full
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Pending
    }
}

fn code<T>(result: Result<T, QueryError>) -> u16 {
    match result {
        Err(QueryError::Server(error)) => error.code,
        Err(error) => panic!("{error}"),
        Ok(_) => 0,
    }
}

/// Writes while `reading` waits, until the log has grown so much that the reader is ended.
async fn write_until_ended(fixture: &Fixture) {
    let mut session = fixture.session();
    let begun = Instant::now();
    while fixture.said.lock().unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the log is at {} bytes", fixture.log_bytes());
        fixture.write(&mut session, 1 << 20).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_statement_that_reads_for_too_long_is_ended() {
    let fixture = Fixture::new("long", 8 << 20);
    runtime().block_on(async {
        let mut reader = fixture.session();
        let statement = Statement { sql: b"SELECT * FROM t", params: &[] };
        let mut sink = Stuck;
        let (read, ()) = tokio::join!(
            // Without the watch of the log it would wait for ever.
            tokio::time::timeout(Duration::from_secs(120), reader.execute(statement, &mut sink)),
            write_until_ended(&fixture)
        );
        assert_eq!(code(read.expect("it ends")), 1317);
        assert!(fixture.said.lock().unwrap()[0].contains(&format!("connection {}", reader.id())));
        // Whoever comes afterwards is not concerned, and the log starts over.
        let starts = fixture.starts();
        run(&mut reader, "SELECT * FROM t").await;
        fixture.wait_until_it_starts_over(&mut fixture.session(), starts).await;
    });
}

#[test]
fn a_transaction_that_reads_for_too_long_is_told() {
    let fixture = Fixture::new("idle", 8 << 20);
    runtime().block_on(async {
        let mut idle = fixture.session();
        run(&mut idle, "BEGIN; SELECT * FROM t").await;
        write_until_ended(&fixture).await;
        assert!(idle.in_transaction());
        // What it had read is not kept for it.
        let starts = fixture.starts();
        fixture.wait_until_it_starts_over(&mut fixture.session(), starts).await;
        assert_eq!(code(try_run(&mut idle, "SELECT * FROM t").await), 1317);
        assert!(!idle.in_transaction());
        run(&mut idle, "SELECT * FROM t").await;
    });
}

/// Sessions that write in transactions without a pause between them, each a row of its own.
const WRITERS: usize = 12;

/// Transactions of one writer, one statement after the other with other writers in between, until the log has started over
/// to a certain number.
async fn write_in_transactions(fixture: Rc<Fixture>, number: usize, starts: u32) {
    let mut session = fixture.session();
    let begun = Instant::now();
    let mut round = 0;
    while fixture.starts() < starts {
        assert!(begun.elapsed() < Duration::from_secs(60), "the log still grows at {} bytes", fixture.log_bytes());
        run(&mut session, "BEGIN").await;
        run(&mut session, "SELECT COUNT(*) FROM t WHERE n < 2").await;
        for _ in 0..3 {
            round += 1;
            let sql = format!("REPLACE INTO t VALUES ({}, REPEAT('{}', {ROW_BYTES}))", number + 10, round % 10);
            run(&mut session, &sql).await;
            tokio::task::yield_now().await;
        }
        run(&mut session, "COMMIT").await;
    }
}

#[test]
fn the_log_starts_over_beside_transactions_without_a_pause() {
    // It is to start over at a sixteenth of this.
    let fixture = Rc::new(Fixture::new("overlapping", 32 << 20));
    runtime().block_on(LocalSet::new().run_until(async {
        run(&mut fixture.session(), "REPLACE INTO t VALUES (1, 'x')").await;
        let starts = fixture.starts() + 8;
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| tokio::task::spawn_local(write_in_transactions(Rc::clone(&fixture), number, starts)))
            .collect();
        for writer in writers {
            writer.await.expect("a writer");
        }
    }));
    assert!(fixture.said.lock().unwrap().is_empty(), "somebody was ended");
}

#[test]
fn the_log_starts_over_beside_transactions_that_have_written_and_rest() {
    // It is to start over at a sixteenth of this, and nobody is ended.
    let fixture = Fixture::new("resting", 32 << 20);
    runtime().block_on(async {
        let mut resting = [fixture.session(), fixture.session()];
        for (number, session) in resting.iter_mut().enumerate() {
            run(session, &format!("BEGIN; INSERT INTO t VALUES ({}, ''); SAVEPOINT s", number + 10)).await;
            run(session, &format!("INSERT INTO t VALUES ({}, '')", number + 20)).await;
        }
        let mut writer = fixture.session();
        for round in 0..4 {
            let starts = fixture.starts();
            fixture.write(&mut writer, 3 << 20).await;
            fixture.wait_until_it_starts_over(&mut writer, starts).await;
            run(&mut resting[round % 2], "SELECT COUNT(*) FROM t").await;
        }
        run(&mut resting[0], "ROLLBACK TO s; COMMIT").await;
        run(&mut resting[1], "COMMIT").await;
        let json = JsonOptions::default();
        let mut sink = Collect { format: Json::batch(&json), out: Vec::new() };
        let rows = Statement { sql: b"SELECT n FROM t WHERE n > 1 ORDER BY n", params: &[] };
        writer.execute(rows, &mut sink).await.expect("rows");
        assert_eq!(String::from_utf8_lossy(&sink.out), r#"[[{"n":10},{"n":11},{"n":21}]]"#);
    });
    assert!(fixture.said.lock().unwrap().is_empty(), "somebody was ended");
}
