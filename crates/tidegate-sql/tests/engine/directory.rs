//! A data directory that is removed, moved or replaced while the engine has it open.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Fixture, code, one, run, try_run};
use tidegate_sql::Session;

/// What the test does behind the engine's back.
struct Behind {
    data: PathBuf,
    away: PathBuf,
}

impl Behind {
    fn of(fixture: &Fixture) -> Self {
        let away = fixture.path.with_extension("away");
        let _ = fs::remove_dir_all(&away);
        Self { data: fixture.path.clone(), away }
    }

    fn move_away(&self) {
        fs::rename(&self.data, &self.away).unwrap();
    }

    fn move_back(&self) {
        fs::rename(&self.away, &self.data).unwrap();
    }

    fn copy_back(&self) {
        copy(&self.away, &self.data);
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.away);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Inserts the next number; answers whether that was acknowledged.
async fn insert(session: &mut Session, number: u32) -> bool {
    try_run(session, &format!("INSERT INTO t VALUES ({number})")).await.is_ok()
}

async fn numbers(session: &mut Session) -> String {
    run(session, "SELECT n FROM t ORDER BY n").await.rows.concat().join(" ")
}

#[tokio::test]
async fn writes_to_a_removed_directory_are_not_acknowledged() {
    let fixture = Fixture::new("removed");
    let behind = Behind::of(&fixture);
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)").await;
    run(&mut b, "BEGIN; INSERT INTO t VALUES (2)").await;
    behind.move_away();
    assert_eq!(code(&mut b, "COMMIT").await, 1030, "it would be lost");
    for number in 3..63 {
        assert!(!insert(&mut a, number).await, "{number} would be lost");
    }
    assert_eq!(code(&mut a, "SELECT * FROM t").await, 1030);
    assert_eq!(code(&mut a, "CREATE TABLE u (n INT)").await, 1030);
    assert_eq!(code(&mut a, "CREATE DATABASE second").await, 1030);
    let Err(error) = fixture.engine().session("test") else { panic!("there is no file") };
    assert_eq!(error.code, 1030);
    assert_eq!(one(&mut a, "SELECT 1 + 1").await, "2");
    // It comes back, and sessions that were open work as those that are new.
    behind.move_back();
    assert!(insert(&mut a, 100).await);
    assert!(insert(&mut b, 101).await);
    let numbers = numbers(&mut b).await;
    assert!(numbers.starts_with("1 ") && numbers.ends_with("100 101"), "{numbers}");
    drop((a, b));
    let mut c = fixture.session().await;
    assert!(insert(&mut c, 102).await);
    fixture.engine().check("test").await.unwrap();
}

#[tokio::test]
async fn a_copy_in_the_place_of_the_directory_is_opened() {
    let fixture = Fixture::new("replaced");
    let behind = Behind::of(&fixture);
    let mut a = fixture.session().await;
    run(&mut a, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)").await;
    let before = fixture.engine().table_version("test", "t").unwrap();
    behind.move_away();
    behind.copy_back();
    let mut acknowledged = vec!["1".to_owned()];
    for number in 2..20 {
        if insert(&mut a, number).await {
            acknowledged.push(number.to_string());
        }
    }
    // The engine looks around once a second: it may have seen the copy before anything was written.
    assert!(acknowledged.len() >= 18, "only the first may find the old files: {acknowledged:?}");
    assert_eq!(numbers(&mut a).await, acknowledged.join(" "));
    assert!(fixture.engine().table_version("test", "t").unwrap() > before + 18, "caches know of it");
    fixture.engine().check("test").await.unwrap();
    // Nobody else may work there meanwhile.
    assert!(tidegate_sql::Engine::open(tidegate_sql::EngineOptions::new(&fixture.path)).is_err());
}

#[tokio::test]
async fn a_transaction_does_not_go_on_in_other_files() {
    let fixture = Fixture::new("other-files");
    let behind = Behind::of(&fixture);
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)").await;
    run(&mut a, "BEGIN; SELECT * FROM t").await;
    behind.move_away();
    behind.copy_back();
    // Refused as a write to the old file, unless the engine, which looks around once a second, has seen the copy before it.
    let expected = if insert(&mut b, 2).await { "1 2 4" } else { "1 4" };
    assert_eq!(code(&mut a, "INSERT INTO t VALUES (3)").await, 1030);
    assert!(!a.in_transaction());
    assert!(insert(&mut a, 4).await);
    assert_eq!(numbers(&mut b).await, expected);
}

#[tokio::test]
async fn an_emptied_directory_can_be_filled_again() {
    let fixture = Fixture::new("emptied");
    let mut a = fixture.session().await;
    run(&mut a, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)").await;
    for entry in fs::read_dir(&fixture.path).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert!(!insert(&mut a, 2).await);
    assert_eq!(code(&mut a, "SELECT * FROM t").await, 1030);
    assert_eq!(fixture.engine().schema_names(), Vec::<String>::new());
    run(&mut a, "CREATE DATABASE test; CREATE TABLE t (n INT)").await;
    assert!(insert(&mut a, 3).await);
    assert_eq!(numbers(&mut a).await, "3");
    assert_eq!(fixture.engine().schema_names(), ["test"]);
}

#[tokio::test]
async fn a_schema_that_another_session_has_dropped_is_unknown() {
    let fixture = Fixture::new("dropped-elsewhere");
    let (mut a, mut b) = (fixture.session().await, fixture.session().await);
    run(&mut a, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)").await;
    run(&mut b, "SELECT * FROM t").await;
    run(&mut a, "DROP DATABASE test").await;
    assert_eq!(code(&mut b, "SELECT * FROM t").await, 1049);
    assert!(!insert(&mut b, 2).await, "it would be lost");
    run(&mut a, "CREATE DATABASE test; USE test; CREATE TABLE t (n INT)").await;
    assert_eq!(one(&mut b, "SELECT COUNT(*) FROM t").await, "0");
}

#[tokio::test]
async fn what_a_process_has_left_is_in_no_schemas_way() {
    let mut fixture = Fixture::new("left");
    let mut a = fixture.session().await;
    run(&mut a, "CREATE DATABASE shop; CREATE TABLE shop.t (n INT); INSERT INTO shop.t VALUES (1)").await;
    let log = fs::read(fixture.path.join("shop.db-wal")).unwrap();
    run(&mut a, "DROP DATABASE shop").await;
    drop(a);
    fixture.engine = None;
    // One that ended while it dropped the schema, one while it made one, and one with a copy under way.
    let left = [
        "shop.db-wal",
        "shop.db-shm",
        "shop.db-new.copy",
        "shop.db-new.copy-wal",
        "test.db-0.copy",
        "test.db-0.copy-journal",
    ];
    for file in left {
        fs::write(fixture.path.join(file), &log).unwrap();
    }
    fixture.open_again(|_| {});
    assert_eq!(fixture.engine().schema_names(), ["test"]);
    for file in &left[2..] {
        assert!(!fixture.path.join(file).exists(), "{file}");
    }
    let mut a = fixture.session().await;
    run(&mut a, "CREATE DATABASE shop").await;
    assert_eq!(code(&mut a, "SELECT * FROM shop.t").await, 1146);
    run(&mut a, "CREATE TABLE shop.t (n INT); INSERT INTO shop.t VALUES (2)").await;
    assert_eq!(one(&mut a, "SELECT n FROM shop.t").await, "2");
    fixture.engine().check("shop").await.unwrap();
}

#[tokio::test]
async fn a_file_that_was_put_there_is_kept() {
    let fixture = Fixture::new("put");
    let mut a = fixture.session().await;
    run(&mut a, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)").await;
    let copy = fixture.engine().backup("test").await.unwrap();
    fs::rename(copy, fixture.path.join("other.db")).unwrap();
    assert_eq!(code(&mut a, "USE other").await, 1049, "nobody has looked");
    assert_eq!(code(&mut a, "CREATE DATABASE other").await, 1007);
    assert_eq!(one(&mut a, "SELECT n FROM other.t").await, "1");
}
