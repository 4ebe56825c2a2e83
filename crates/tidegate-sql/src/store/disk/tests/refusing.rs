//! A disk that refuses changes, once or from some moment on.

use super::*;

/// Refuses one change, or all from one on, until it is healed.
struct Refusing {
    /// Changes so far.
    changes: AtomicUsize,
    first: usize,
    last: AtomicUsize,
    refused: Mutex<Vec<String>>,
}

impl Refusing {
    fn new(first: usize, last: usize) -> Arc<Self> {
        Arc::new(Self { changes: AtomicUsize::new(0), first, last: AtomicUsize::new(last), refused: Mutex::default() })
    }

    /// From now on every change is made.
    fn heal(&self) {
        self.last.store(0, Ordering::Relaxed);
    }
}

impl Watcher for Refusing {
    fn before(&self, file: File<'_>, change: Change<'_>) -> bool {
        let number = self.changes.fetch_add(1, Ordering::Relaxed);
        let refuses = number >= self.first && number < self.last.load(Ordering::Relaxed);
        if refuses {
            let what = match change {
                Change::Write { offset, bytes } => format!("write of {} bytes at {offset}", bytes.len()),
                Change::Truncate { size } => format!("truncation to {size}"),
                Change::Rename { .. } => "new name".into(),
                Change::Sync => "sync".into(),
            };
            self.refused.lock().unwrap().push(format!("{what} of {:?}", OsStr::from_bytes(&name_of(file))));
        }
        !refuses
    }

    fn after(&self, _: File<'_>, _: Change<'_>, _: bool) {}
}

/// What became of the statements of a workload.
#[derive(Default)]
struct Fates {
    acknowledged: BTreeSet<i64>,
    refused: BTreeSet<i64>,
    codes: BTreeSet<u16>,
}

impl Fates {
    fn note(&mut self, n: i64, error: Option<u16>) {
        match error {
            None => self.acknowledged.insert(n),
            Some(code) => {
                self.codes.insert(code);
                self.refused.insert(n)
            }
        };
    }
}

/// Four sessions write a few rows each; one of them two by two in transactions.
async fn write_few(engine: &Engine, first: i64, fates: &Rc<std::cell::RefCell<Fates>>) {
    let local = LocalSet::new();
    let mut writing = Vec::new();
    for writer in 0..4 {
        let mut session = engine.session("test").unwrap();
        let fates = Rc::clone(fates);
        writing.push(local.spawn_local(async move {
            for number in 0..6 {
                let n = first + number * 4 + writer;
                let insert = format!("INSERT INTO t VALUES ({n}, '{}')", "x".repeat(1000));
                let sql =
                    if writer == 0 { format!("BEGIN; INSERT INTO a VALUES ({n}); {insert}; COMMIT") } else { insert };
                let outcome = try_run(&mut session, &sql).await;
                if outcome.is_err() {
                    let _ = try_run(&mut session, "ROLLBACK").await;
                }
                fates.borrow_mut().note(n, outcome.err());
            }
        }));
    }
    local.await;
    for writer in writing {
        writer.await.unwrap();
    }
}

const SETUP: &str = "CREATE DATABASE IF NOT EXISTS test; USE test; \
    CREATE TABLE IF NOT EXISTS t (n BIGINT PRIMARY KEY, filler VARCHAR(2000)); \
    CREATE TABLE IF NOT EXISTS a (n BIGINT PRIMARY KEY)";

/// The code of a write to a schema whose last sync has failed.
const READ_ONLY: u16 = 1290;

/// Works on a disk that refuses, looks at what is there, and opens it again. Answers the changes that were asked for.
async fn work_on_a_broken_disk(path: &Path, disk: &Arc<Refusing>) -> usize {
    let mut engine = open(path);
    let mut session = engine.session("").unwrap();
    if try_run(&mut session, SETUP).await.is_err() {
        disk.heal();
        if try_run(&mut session, SETUP).await == Err(READ_ONLY) {
            drop(session);
            drop(engine);
            engine = open(path);
            session = engine.session("").unwrap();
            run(&mut session, SETUP).await;
        }
    }
    let fates = Rc::<std::cell::RefCell<Fates>>::default();
    write_few(&engine, 0, &fates).await;
    // The log moves into the file meanwhile.
    tokio::time::sleep(Duration::from_millis(150)).await;
    write_few(&engine, 1000, &fates).await;
    let changes = disk.changes.load(Ordering::Relaxed);
    disk.heal();
    let goes_on = try_run(&mut session, "INSERT INTO t VALUES (-1, 'after')").await;
    assert!(matches!(goes_on, Ok(_) | Err(READ_ONLY)), "{goes_on:?}");
    let fates = fates.take();
    assert!(fates.codes.iter().all(|code| matches!(*code, 1021 | 1030 | READ_ONLY)), "errors {:?}", fates.codes);
    let rows: BTreeSet<i64> = run(&mut session, "SELECT n FROM t WHERE n >= 0").await.into_iter().collect();
    assert!(rows.is_superset(&fates.acknowledged), "lost {:?}", fates.acknowledged.difference(&rows));
    if goes_on.is_ok() {
        assert!(rows.is_disjoint(&fates.refused), "not undone: {:?}", rows.intersection(&fates.refused));
    }
    drop(session);
    drop(engine);
    let engine = open(path);
    engine.check("test").await.unwrap_or_else(|error| panic!("{error}"));
    let mut session = engine.session("test").unwrap();
    let rows: BTreeSet<i64> = run(&mut session, "SELECT n FROM t WHERE n >= 0").await.into_iter().collect();
    assert!(rows.is_superset(&fates.acknowledged), "lost {:?}", fates.acknowledged.difference(&rows));
    let pairs = run(
        &mut session,
        "SELECT COUNT(*) FROM t LEFT JOIN a USING (n) WHERE t.n >= 0 AND t.n % 4 = 0 AND a.n IS NULL",
    );
    assert_eq!(pairs.await, [0], "half a transaction");
    run(&mut session, "INSERT INTO t VALUES (-2, 'after that')").await;
    changes
}

#[test]
fn a_disk_that_refuses_loses_no_acknowledged_commit() {
    let path = directory("refusing");
    let try_with = |first: usize, last: usize| {
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        let disk = Refusing::new(first, last);
        let _watching = Watching::new(&path, Arc::clone(&disk) as Arc<dyn Watcher>);
        let outcome = std::panic::catch_unwind(|| runtime().block_on(work_on_a_broken_disk(&path, &disk)));
        let refused = disk.refused.lock().unwrap().clone();
        (outcome.unwrap_or_else(|_| panic!("refused from {first} to {last}: {refused:?}")), refused)
    };
    let (changes, _) = try_with(usize::MAX, 0);
    let rounds = rounds(16);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..rounds {
        let first = round * changes / rounds;
        // Once, or from then on.
        let last = if round % 2 == 0 { first + 1 } else { usize::MAX };
        for what in try_with(first, last).1 {
            let kind = what.split(' ').next().unwrap().to_owned() + what.rsplit(' ').next().unwrap();
            *kinds.entry(kind).or_default() += 1;
        }
    }
    println!("about {changes} changes; refused: {kinds:?}");
    let _ = std::fs::remove_dir_all(&path);
}
