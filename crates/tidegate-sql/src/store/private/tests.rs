//! Private connections on a real file: what they see, what they leave behind, and lists applied elsewhere.

use std::{
    path::PathBuf,
    sync::Arc,
    sync::atomic::{AtomicU32, Ordering},
};

use super::{
    difference::{Listed, Room, list},
    former::Former,
    watch::{Purpose, Watch},
};
use crate::{
    Engine, EngineOptions,
    row_locks::RowLocks,
    store::{
        conn::{Cell, Conn, Step},
        vfs,
    },
};

/// A database of its own, removed at the end.
struct File(PathBuf);

impl File {
    fn new(setup: &str) -> (Self, Box<Conn>) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        vfs::register().unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-sql-writers-{}-{number}", std::process::id()));
        let conn = Conn::create(&path).unwrap();
        conn.execute(setup).unwrap();
        (Self(path), conn)
    }

    fn private(&self) -> Box<Conn> {
        Conn::open_private(&self.0).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", self.0.display()));
        }
    }
}

fn sum(conn: &Conn) -> i64 {
    let mut stmt = conn.prepare("SELECT coalesce(sum(b), 0) FROM t1").unwrap();
    assert_eq!(stmt.step().unwrap(), Step::Row);
    match stmt.cell(0) {
        Cell::Int(sum) => sum,
        other => panic!("{other:?}"),
    }
}

const TABLE: &str =
    "CREATE TABLE t1 (a INTEGER PRIMARY KEY, b INTEGER) STRICT; INSERT INTO t1 VALUES (1, 1), (2, 20), (3, 300)";

#[test]
fn private_changes_are_seen_by_nobody_and_stand_still_beside_commits() {
    let (file, mut writer) = File::new(TABLE);
    let mut private = file.private();
    assert_eq!(sum(&private), 321);
    private.begin_immediate().unwrap();
    private.execute("UPDATE t1 SET b = 2 WHERE a = 1; INSERT INTO t1 VALUES (4, 4000)").unwrap();
    assert_eq!((sum(&private), sum(&writer)), (4322, 321));
    assert!(!private.is_behind());
    // Others commit, at once and in transactions, and roll back; two private connections do not meet.
    let mut second = file.private();
    second.begin_immediate().unwrap();
    second.execute("DELETE FROM t1").unwrap();
    writer.execute("UPDATE t1 SET b = 30 WHERE a = 2").unwrap();
    writer.begin_immediate().unwrap();
    writer.execute("UPDATE t1 SET b = 0").unwrap();
    assert_eq!((sum(&private), sum(&second)), (4322, 0));
    writer.rollback();
    assert!(private.is_behind() && second.is_behind());
    assert_eq!(sum(&private), 4322);
    private.execute("SAVEPOINT s; UPDATE t1 SET b = 7; ROLLBACK TO s; RELEASE s").unwrap();
    assert_eq!(sum(&private), 4322);
    private.rollback();
    second.rollback();
    assert_eq!((sum(&private), sum(&second), sum(&writer)), (331, 331, 331));
    assert_eq!(sum(&Conn::open(&file.0).unwrap()), 331);
}

#[test]
fn private_changes_cannot_be_committed() {
    let (file, writer) = File::new(TABLE);
    let mut private = file.private();
    assert!(private.execute("UPDATE t1 SET b = 0").is_err());
    private.begin_immediate().unwrap();
    private.execute("UPDATE t1 SET b = 0").unwrap();
    assert!(private.commit().is_err());
    private.rollback();
    assert_eq!((sum(&private), sum(&writer)), (321, 321));
}

#[test]
fn snapshots_outlast_checkpoints_and_logs_that_start_over() {
    let (file, mut writer) = File::new(TABLE);
    let mut private = file.private();
    let mut n = 0;
    let mut commit = |writer: &mut Conn, pages: usize| {
        n += 1;
        let filler = format!("CREATE TABLE u{n} (x); INSERT INTO u{n} VALUES (zeroblob({}));", pages * 4096);
        writer.execute(&format!("BEGIN; {filler} UPDATE t1 SET b = b + 1 WHERE a = 1; COMMIT")).unwrap();
    };
    let mut expected = 321;
    // Far beyond the first part of the index, and begun anew in between.
    for round in 0..40 {
        commit(&mut writer, 700);
        expected += 1;
        private.begin_immediate().unwrap();
        assert_eq!(sum(&private), expected, "round {round}");
        private.execute("UPDATE t1 SET b = b + 1000 WHERE a = 3").unwrap();
        writer.execute("PRAGMA wal_checkpoint(PASSIVE)").unwrap();
        commit(&mut writer, 3);
        assert_eq!(sum(&private), expected + 1000, "round {round}");
        private.rollback();
        expected += 1;
        if round % 7 == 6 {
            writer.execute("PRAGMA wal_checkpoint(RESTART)").unwrap();
            commit(&mut writer, 1);
            expected += 1;
        }
        assert_eq!(sum(&private), expected, "round {round}");
    }
    drop(writer);
    private.begin_immediate().unwrap();
    assert_eq!(sum(&private), expected);
}

#[test]
fn a_writer_on_another_thread_disturbs_no_snapshot() {
    let (file, _first) = File::new(TABLE);
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stop = Arc::clone(&done);
    let path = file.0.clone();
    // Each commit moves something from one row to another, so that the sum stays.
    let thread = std::thread::spawn(move || {
        let mut writer = Conn::open(&path).unwrap();
        let mut n = 0;
        while !stop.load(Ordering::Relaxed) {
            n += 1;
            let sql = format!("UPDATE t1 SET b = b + 1 WHERE a = 1; UPDATE t1 SET b = b - 1 WHERE a = {}", 2 + n % 2);
            writer.begin_immediate().unwrap();
            writer.execute(&sql).unwrap();
            if n % 5 == 0 {
                writer.rollback()
            } else {
                writer.commit().unwrap()
            }
            if n % 100 == 0 {
                writer.execute("PRAGMA wal_checkpoint(RESTART)").unwrap();
            }
        }
    });
    let mut private = file.private();
    for round in 0..2000 {
        private.begin_immediate().unwrap();
        private.execute("INSERT INTO t1 VALUES (9, 1000)").unwrap();
        assert_eq!(sum(&private), 1321, "round {round}");
        private.rollback();
        assert_eq!(sum(&private), 321, "round {round}");
    }
    done.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}

#[test]
fn what_the_hook_has_noted_can_be_done_elsewhere() {
    let (_file, mut writer) = File::new(TABLE);
    let locks = Arc::new(RowLocks::default());
    let watch = Watch::new(Purpose::Private { owner: Arc::new(locks.owner(0)), log: Default::default() });
    drop(writer.set_watch(Some(Box::new(watch))));
    writer.begin_immediate().unwrap();
    // The table has no shape here: such changes are for the schema's writer.
    assert_eq!(writer.execute("UPDATE t1 SET b = 0").unwrap_err().code, libsqlite3_sys::SQLITE_INTERRUPT);
    assert!(writer.watch().unwrap().stop().is_some());
    writer.rollback();
    assert_eq!(sum(&writer), 321);
}

#[tokio::test]
async fn a_list_has_all_or_is_as_before() {
    use tidegate_rows::{Execute, Statement, json::Json, json::JsonOptions, sink::Collect};

    let dir = std::env::temp_dir().join(format!("tidegate-sql-list-{}", std::process::id()));
    let engine = Engine::open(EngineOptions::new(&dir)).unwrap();
    let mut session = engine.session("").unwrap();
    let json = JsonOptions::default();
    let mut sink = Collect { format: Json::batch(&json), out: Vec::new() };
    let sql = b"CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v INT UNIQUE); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)";
    session.execute(Statement { sql, params: &[] }, &mut sink).await.unwrap();
    let schema = engine.inner.schema("d").unwrap();
    let table = std::sync::Arc::clone(schema.catalog().unwrap().table("t").unwrap());
    let tables = [Arc::clone(&table.state)];
    let mut writer = Conn::open(&schema.path).unwrap();
    writer.begin_immediate().unwrap();
    let name = table.physical();
    let change = format!(
        "DELETE FROM {name} WHERE rowid = 1; UPDATE {name} SET c2 = 1 WHERE rowid = 2; INSERT INTO {name} VALUES (4, 4)"
    );
    writer.execute(&change).unwrap();
    let owner = Arc::new(schema.rows.owner(0));
    let mut former = Former::new(&["s".to_owned()]);
    for (rows, bytes, times, expected) in [
        (2, 1 << 20, usize::MAX, Listed::TooMuch),
        (3, 40, usize::MAX, Listed::TooMuch),
        (3, 1 << 20, 0, Listed::Interrupted),
        (3, 1 << 20, 3, Listed::Interrupted),
        (3, 1 << 20, 4, Listed::All),
    ] {
        let mut private = Conn::open_private(&schema.path).unwrap();
        let asked = std::cell::Cell::new(0);
        let goes_on = || asked.replace(asked.get() + 1) < times;
        let room = Room { rows, bytes };
        let catalog = schema.catalog().unwrap();
        let definitions = (schema.version(), &*catalog);
        let listed = list(definitions, &writer, &mut private, &owner, &mut former, &tables, room, &goes_on).unwrap();
        assert_eq!(listed, expected);
        let list = private.watch().and_then(Watch::log).unwrap();
        let is_all = expected == Listed::All;
        assert_eq!((list.is_empty(), former.log.mark()), (!is_all, usize::from(!is_all)), "{expected:?}");
        if is_all {
            assert!(list.has_savepoint(&super::former::savepoint_name("s")));
            private.begin_immediate().unwrap();
            let mut watch = private.set_watch(None).unwrap();
            watch.log().unwrap().apply(&mut private).unwrap();
            let all = |conn: &Conn| {
                let mut stmt = conn.prepare(&format!("SELECT group_concat(rowid || ':' || c2) FROM {name}")).unwrap();
                stmt.step().unwrap();
                stmt.cell(0).to_owned()
            };
            assert_eq!(all(&private), all(&writer));
            private.rollback();
        }
    }
    writer.rollback();
    drop((former, owner, writer, session, schema, engine));
    let _ = std::fs::remove_dir_all(&dir);
}
