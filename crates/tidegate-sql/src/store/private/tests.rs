//! Private connections on a real file: what they see, what they leave behind, and lists applied elsewhere.

use std::{
    path::PathBuf,
    sync::Arc,
    sync::atomic::{AtomicU32, Ordering},
};

use super::watch::{Purpose, Watch};
use crate::{
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
