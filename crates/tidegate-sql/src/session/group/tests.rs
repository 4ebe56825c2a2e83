//! Groups beside a disk that takes its time: a sync ends when the test says so.

use std::{
    future::Future,
    path::PathBuf,
    rc::Rc,
    sync::{Arc, Condvar, Mutex},
    task::Poll,
    time::Duration,
};

use tidegate_rows::{
    Column, Execute, Flow, QueryError, Row, Sink, SinkClosed, Statement, Summary, Value, json::Json, json::JsonOptions,
    sink::Collect,
};
use tokio::task::{JoinHandle, LocalSet};

use super::ENOUGH;
use crate::{
    Engine, EngineOptions, Heard, Session,
    store::disk::{
        Change, File,
        watch::{Watcher, Watching},
    },
    table::{Answers, OnDuplicate, Opening, Request, Strictness},
};

/// Holds up the syncs of logs.
#[derive(Default)]
struct SlowDisk {
    is_held: Mutex<bool>,
    released: Condvar,
}

impl SlowDisk {
    fn hold(&self) {
        *self.is_held.lock().unwrap() = true;
    }

    fn release(&self) {
        *self.is_held.lock().unwrap() = false;
        self.released.notify_all();
    }
}

impl Watcher for SlowDisk {
    fn before(&self, file: File<'_>, change: Change<'_>) -> bool {
        // The thread for checkpoints is none that a test may stop: it would hold the lock of writers meanwhile.
        if matches!(file, File::Log(_)) && change == Change::Sync && std::thread::current().name() == Some("sql-sync") {
            let held = self.is_held.lock().unwrap();
            drop(self.released.wait_while(held, |held| *held).unwrap());
        }
        true
    }

    fn after(&self, _: File<'_>, _: Change<'_>, _: bool) {}
}

struct Fixture {
    disk: Arc<SlowDisk>,
    engine: Option<Engine>,
    path: PathBuf,
    _watching: Watching,
}

impl Fixture {
    async fn new(name: &str) -> Rc<Self> {
        let path = std::env::temp_dir().join(format!("tidegate-sql-slow-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        let disk = Arc::<SlowDisk>::default();
        let watching = Watching::new(&path, Arc::clone(&disk) as Arc<dyn Watcher>);
        let mut options = EngineOptions::new(&path);
        // They are commits too.
        options.renews_statistics = false;
        let engine = Engine::open(options).unwrap();
        run(&mut engine.session("").unwrap(), "CREATE DATABASE test; CREATE TABLE test.t (n INT PRIMARY KEY)").await;
        Rc::new(Self { disk, engine: Some(engine), path, _watching: watching })
    }

    fn session(&self) -> Session {
        self.engine.as_ref().unwrap().session("test").unwrap()
    }

    fn commits(&self) -> u64 {
        self.engine.as_ref().unwrap().table_version("test", "t").unwrap()
    }

    /// Begins a statement in a session of its own.
    fn begin(&self, sql: String) -> JoinHandle<()> {
        let mut session = self.session();
        tokio::task::spawn_local(async move { run(&mut session, &sql).await })
    }

    /// Commits so far, and a statement whose commit waits for the disk, which is held from now on.
    async fn begin_held(&self) -> (u64, JoinHandle<()>) {
        let before = self.commits();
        self.disk.hold();
        let first = self.begin("INSERT INTO t VALUES (0)".into());
        turn().await;
        (before, first)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.disk.release();
        self.engine = None;
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

async fn run(session: &mut Session, sql: &str) {
    let json = JsonOptions::default();
    let mut sink = Collect { format: Json::batch(&json), out: Vec::new() };
    let statement = Statement { sql: sql.as_bytes(), params: &[] };
    session.execute(statement, &mut sink).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Lets the event loop turn until nothing more happens without the disk.
async fn turn() {
    for _ in 0..20 {
        crate::task::next_turn().await;
    }
}

#[tokio::test]
async fn statements_gather_while_the_disk_works() {
    let fixture = Fixture::new("gather").await;
    LocalSet::new()
        .run_until(async {
            let (before, first) = fixture.begin_held().await;
            assert_eq!(fixture.commits(), before + 1, "the disk was free for the first");
            let mut later = Vec::new();
            for n in 1..ENOUGH {
                later.push(fixture.begin(format!("INSERT INTO t VALUES ({n})")));
                turn().await;
            }
            assert_eq!(fixture.commits(), before + 1);
            assert!(!first.is_finished());
            fixture.disk.release();
            first.await.unwrap();
            for statement in later {
                statement.await.unwrap();
            }
            assert_eq!(fixture.commits(), before + 2, "the others share a commit");
        })
        .await;
}

#[tokio::test]
async fn a_group_with_enough_statements_does_not_wait() {
    let fixture = Fixture::new("enough").await;
    LocalSet::new()
        .run_until(async {
            let (before, first) = fixture.begin_held().await;
            let mut statements = vec![first];
            for n in 1..=ENOUGH {
                statements.push(fixture.begin(format!("INSERT INTO t VALUES ({n})")));
                turn().await;
            }
            assert_eq!(fixture.commits(), before + 2, "one by one");
            // So many at once that they are there before whoever opens the group looks at the disk.
            for n in 0..3 * ENOUGH {
                statements.push(fixture.begin(format!("INSERT INTO t VALUES ({})", 100 + n)));
            }
            turn().await;
            assert!(fixture.commits() > before + 2, "all at once");
            assert!(statements.iter().all(|statement| !statement.is_finished()), "the disk has the last word");
            fixture.disk.release();
            for statement in statements {
                statement.await.unwrap();
            }
        })
        .await;
}

#[tokio::test]
async fn who_is_left_by_the_opener_is_answered() {
    let fixture = Fixture::new("left").await;
    LocalSet::new()
        .run_until(async {
            let (before, first) = fixture.begin_held().await;
            let opener = fixture.begin("INSERT INTO t VALUES (1)".into());
            let members = [2, 3, 4].map(|n| fixture.begin(format!("INSERT INTO t VALUES ({n})")));
            turn().await;
            opener.abort();
            turn().await;
            assert_eq!(fixture.commits(), before + 2);
            fixture.disk.release();
            first.await.unwrap();
            for member in members {
                tokio::time::timeout(Duration::from_secs(20), member).await.expect("an answer").unwrap();
            }
        })
        .await;
}

#[tokio::test]
async fn a_group_that_gathers_makes_way_for_others() {
    let fixture = Fixture::new("way").await;
    LocalSet::new()
        .run_until(async {
            let (before, first) = fixture.begin_held().await;
            let gathered = fixture.begin("INSERT INTO t VALUES (1)".into());
            turn().await;
            assert_eq!(fixture.commits(), before + 1);
            // A transaction wants the lock: it need not wait for the disk.
            let mut transaction = fixture.session();
            let writes = run(&mut transaction, "BEGIN; INSERT INTO t VALUES (2)");
            tokio::time::timeout(Duration::from_secs(20), writes).await.expect("the lock is given back");
            assert_eq!(fixture.commits(), before + 2);
            assert!(!first.is_finished() && !gathered.is_finished());
            // The checkpoint thread and other threads come in the same way.
            run(&mut transaction, "ROLLBACK").await;
            fixture.disk.release();
            first.await.unwrap();
            gathered.await.unwrap();
        })
        .await;
}

#[tokio::test]
async fn whoever_has_opened_a_group_that_gathers_may_go() {
    let fixture = Fixture::new("go").await;
    LocalSet::new()
        .run_until(async {
            let (before, first) = fixture.begin_held().await;
            let opener = fixture.begin("INSERT INTO t VALUES (1)".into());
            let member = fixture.begin("INSERT INTO t VALUES (2)".into());
            turn().await;
            opener.abort();
            turn().await;
            assert_eq!(fixture.commits(), before + 2);
            // Nobody of the first group is left to tell the next one.
            let next = fixture.begin("INSERT INTO t VALUES (3)".into());
            turn().await;
            first.abort();
            member.abort();
            turn().await;
            fixture.disk.release();
            next.await.unwrap();
            assert_eq!(fixture.commits(), before + 3);
        })
        .await;
}

#[tokio::test]
async fn a_commit_is_heard_of_when_it_is_on_the_disk() {
    let fixture = Fixture::new("heard").await;
    LocalSet::new()
        .run_until(async {
            let engine = fixture.engine.as_ref().unwrap();
            let mut listening = engine.listen("test", &["t"], None).unwrap();
            let (before, first) = fixture.begin_held().await;
            assert_eq!(fixture.commits(), before + 1, "committed");
            let mut next = Box::pin(listening.next());
            let noop = &mut std::task::Context::from_waker(std::task::Waker::noop());
            assert!(next.as_mut().poll(noop).is_pending());
            fixture.disk.release();
            first.await.unwrap();
            let Poll::Ready(Some(Heard::Commit(commit))) = next.as_mut().poll(noop) else { panic!("a commit") };
            assert_eq!((commit.number, &*commit.tables[0]), (before + 1, "t"));
        })
        .await;
}

/// Keeps what the requests of a batch have come to.
#[derive(Default)]
struct Ended(Vec<Result<(), QueryError>>);

impl Sink for Ended {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, _: Row<'_>) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}

impl Answers for Ended {
    fn ended(&mut self, result: Result<(), QueryError>) {
        self.0.push(result);
    }
}

impl Fixture {
    /// Begins to insert rows together, of whom whoever does so is answered early.
    fn begin_early(&self, rows: &'static [i64]) -> JoinHandle<()> {
        let mut session = self.session();
        tokio::task::spawn_local(async move {
            let (schema, table, index, columns) = ("test", "t", "PRIMARY", &["n"]);
            let opening = Opening { schema, table, index, columns, filters: &[], strictness: Strictness::Exact };
            let open = session.open_table(&opening).unwrap();
            let values: Vec<[Value<'_>; 1]> = rows.iter().map(|n| [Value::Int(*n)]).collect();
            let requests: Vec<_> = values.iter().map(|row| (&open, Request::Insert(row, OnDuplicate::Fail))).collect();
            let mut ended = Ended::default();
            session.run_requests_early(&requests, &mut ended).await;
            assert!(ended.0.len() == rows.len() && ended.0.iter().all(Result::is_ok), "{:?}", ended.0);
        })
    }
}

#[tokio::test]
async fn an_early_answer_waits_for_what_others_wait_for() {
    let fixture = Fixture::new("early").await;
    LocalSet::new()
        .run_until(async {
            let before = fixture.commits();
            fixture.disk.hold();
            fixture.begin_early(&[1, 2]).await.unwrap();
            fixture.begin_early(&[3]).await.unwrap();
            assert_eq!(fixture.commits(), before + 2, "without the disk, those of a batch together");
            let first = fixture.begin("INSERT INTO t VALUES (4)".into());
            turn().await;
            assert_eq!(fixture.commits(), before + 3, "the disk was not asked for the others");
            let early = fixture.begin_early(&[5]);
            turn().await;
            assert!(!first.is_finished() && !early.is_finished());
            fixture.disk.release();
            first.await.unwrap();
            early.await.unwrap();
            // Early or not, they share a commit.
            let before = fixture.commits();
            let together = [fixture.begin("INSERT INTO t VALUES (6)".into()), fixture.begin_early(&[7])];
            for statement in together {
                statement.await.unwrap();
            }
            assert!(fixture.commits() > before);
        })
        .await;
}

#[tokio::test]
async fn who_shares_a_commit_with_early_ones_waits_for_the_disk() {
    let fixture = Fixture::new("mixed").await;
    LocalSet::new()
        .run_until(async {
            // The session knows its statement.
            fixture.begin("INSERT INTO t VALUES (0)".into()).await.unwrap();
            let before = fixture.commits();
            fixture.disk.hold();
            let early = fixture.begin_early(&[1]);
            let patient = fixture.begin("INSERT INTO t VALUES (2)".into());
            early.await.unwrap();
            turn().await;
            assert!(fixture.commits() > before);
            assert!(!patient.is_finished(), "it was promised to be on the disk");
            fixture.disk.release();
            patient.await.unwrap();
        })
        .await;
}
