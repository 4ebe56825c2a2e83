//! Schema files in the hands of other programs: any program of SQLite's finds tables and columns under their names.

use std::{
    ffi::{CStr, CString},
    io::{BufRead, BufReader, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    ptr,
};

use libsqlite3_sys as ffi;

use super::{Fixture, code, one, run};
use tidegate_sql::{Engine, EngineOptions};

/// The file that [`other_program`] opens, and the statement that it runs.
const FILE: &str = "TIDEGATE_OTHER_FILE";
const SQL: &str = "TIDEGATE_OTHER_SQL";
/// Set for an [`other_program`] that keeps the file open until its input ends.
const HOLD: &str = "TIDEGATE_OTHER_HOLD";

/// Runs a statement with SQLite as it is, without functions and collations of the engine's: `a|b` for each row.
fn plainly(file: &Path, sql: &str) -> Result<String, String> {
    open_plainly(file, sql, |_| ())
}

/// As [`plainly`]; tells what it has found before it closes the file.
fn open_plainly(file: &Path, sql: &str, found: impl FnOnce(&Result<String, String>)) -> Result<String, String> {
    let (file, sql) = (CString::new(file.as_os_str().as_bytes()).unwrap(), CString::new(sql).unwrap());
    let (mut db, mut stmt) = (ptr::null_mut(), ptr::null_mut());
    let mut rows = Vec::new();
    // SAFETY: the texts end with NUL and outlive the calls; the handles are closed once, whatever happened before; texts
    // of a row are copied before the next step.
    unsafe {
        let mut done = ffi::sqlite3_open_v2(file.as_ptr(), &mut db, ffi::SQLITE_OPEN_READWRITE, ptr::null());
        if done == ffi::SQLITE_OK {
            done = ffi::sqlite3_prepare_v2(db, sql.as_ptr(), -1, &mut stmt, ptr::null_mut());
        }
        if done == ffi::SQLITE_OK {
            done = loop {
                match ffi::sqlite3_step(stmt) {
                    ffi::SQLITE_ROW => rows.push(
                        (0..ffi::sqlite3_column_count(stmt))
                            .map(|column| match ffi::sqlite3_column_text(stmt, column) {
                                text if text.is_null() => "NULL".to_owned(),
                                text => CStr::from_ptr(text.cast()).to_string_lossy().into_owned(),
                            })
                            .collect::<Vec<_>>()
                            .join("|"),
                    ),
                    done => break done,
                }
            };
        }
        let message = CStr::from_ptr(ffi::sqlite3_errmsg(db)).to_string_lossy().into_owned();
        ffi::sqlite3_finalize(stmt);
        let answer = if done == ffi::SQLITE_DONE { Ok(rows.join("\n")) } else { Err(message) };
        found(&answer);
        ffi::sqlite3_close(db);
        answer
    }
}

/// Not a test: what the tests below run in a process of its own, as another program would.
#[test]
#[ignore = "run by the other tests"]
fn other_program() {
    let (Some(file), Ok(sql)) = (std::env::var_os(FILE), std::env::var(SQL)) else { return };
    let _ = open_plainly(Path::new(&file), &sql, |answer| {
        match answer {
            Ok(rows) => println!("<<<{rows}>>>"),
            Err(error) => println!("<<<error: {error}>>>"),
        }
        if std::env::var_os(HOLD).is_some() {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
    });
}

/// A statement in another program that opens the file.
fn other(file: &Path, sql: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "files::other_program", "--ignored", "--nocapture"]).env(FILE, file).env(SQL, sql);
    command
}

/// What a statement answers in another program that opens the file.
fn elsewhere(file: &Path, sql: &str) -> String {
    let output = other(file, sql).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let answer = text.split_once("<<<").and_then(|(_, rest)| rest.rsplit_once(">>>"));
    answer.unwrap_or_else(|| panic!("{text}")).0.to_owned()
}

/// What a statement answers in a copy of the schema that any program may open.
async fn in_copy(fixture: &Fixture, sql: &str) -> String {
    let copy = fixture.engine().backup("test").await.unwrap();
    let answer = plainly(&copy, sql).unwrap_or_else(|error| format!("error: {error}"));
    std::fs::remove_file(copy).unwrap();
    answer
}

/// The statements in the file that make views, by name.
const VIEWS: &str = "SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name)";

fn file_of(fixture: &Fixture) -> PathBuf {
    fixture.path.join("test.db")
}

#[tokio::test]
async fn uuids_and_addresses_are_texts_in_the_file() {
    let fixture = Fixture::new("fixed");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE hosts (id INT PRIMARY KEY, u UUID, a INET4 NOT NULL, b INET6)").await;
    let rows = "(1, '123e4567-e89b-12d3-a456-4266554400ff', '10.0.255.1', '::1'), \
                (2, '123e4567-e89b-72d3-a456-4266554400ff', '0.0.0.0', NULL)";
    run(&mut session, &format!("INSERT INTO hosts VALUES {rows}")).await;
    assert_eq!(
        in_copy(&fixture, "SELECT * FROM hosts ORDER BY id").await,
        "1|123e4567-e89b-12d3-a456-4266554400ff|10.0.255.1|0000:0000:0000:0000:0000:0000:0000:0001\n\
         2|123e4567-e89b-72d3-a456-4266554400ff|0.0.0.0|NULL"
    );
}

#[tokio::test]
async fn tables_have_their_names_in_the_file_after_each_change() {
    let fixture = Fixture::new("names");
    let mut session = fixture.session().await;
    let columns = "SELECT group_concat(name) FROM pragma_table_info('cats')";

    run(&mut session, "CREATE TABLE cats (id INT PRIMARY KEY, `na\"me` VARCHAR(20), age INT, `rowid` INT)").await;
    run(&mut session, "INSERT INTO cats VALUES (1, 'Tom', 3, 7), (2, 'Zoë', NULL, 8)").await;
    assert_eq!(in_copy(&fixture, "SELECT * FROM cats").await, "1|Tom|3|7\n2|Zoë|NULL|8");
    assert_eq!(in_copy(&fixture, columns).await, "id,na\"me,age,rowid");
    assert_eq!(in_copy(&fixture, "SELECT id FROM cats WHERE \"na\"\"me\" = 'tom' ORDER BY \"na\"\"me\"").await, "1");
    assert!(in_copy(&fixture, "DELETE FROM cats").await.contains("cannot modify cats because it is a view"));

    run(&mut session, "ALTER TABLE cats ADD COLUMN born DATE AFTER id, DROP COLUMN age").await;
    assert_eq!(in_copy(&fixture, columns).await, "id,born,na\"me,rowid");
    run(&mut session, "ALTER TABLE cats RENAME COLUMN `na\"me` TO name, MODIFY `rowid` BIGINT FIRST").await;
    assert_eq!(in_copy(&fixture, columns).await, "rowid,id,born,name");
    run(&mut session, "ALTER TABLE cats MODIFY id VARCHAR(10) NOT NULL").await;
    assert_eq!(in_copy(&fixture, "SELECT * FROM cats").await, "7|1|NULL|Tom\n8|2|NULL|Zoë");
    run(&mut session, "ALTER TABLE cats ADD INDEX (name), ADD UNIQUE (born), DROP PRIMARY KEY").await;
    assert_eq!(in_copy(&fixture, "SELECT name FROM cats WHERE name = 'Tom'").await, "Tom");

    run(&mut session, "RENAME TABLE cats TO `Café`; CREATE TABLE dad (id INT PRIMARY KEY)").await;
    run(&mut session, "CREATE TABLE kit (dad INT, FOREIGN KEY (dad) REFERENCES dad (id)); RENAME TABLE dad TO mum")
        .await;
    assert_eq!(in_copy(&fixture, VIEWS).await, "Café,kit,mum");
    run(
        &mut session,
        "ALTER TABLE mum MODIFY id INT NOT NULL COMMENT 'x'; DROP TABLE kit; ALTER TABLE mum DROP PRIMARY KEY",
    )
    .await;
    run(&mut session, "CREATE TABLE tmp LIKE `Café`; CREATE TEMPORARY TABLE gone (a INT); TRUNCATE `Café`").await;
    run(&mut session, "CREATE VIEW v AS SELECT 1 AS one; CREATE TABLE copy SELECT 1 AS one").await;
    assert_eq!(in_copy(&fixture, VIEWS).await, "Café,copy,mum,tmp");
    run(&mut session, "DROP TABLE tmp, copy, gone").await;
    assert_eq!(code(&mut session, "ALTER TABLE mum DROP COLUMN nosuch").await, 1091);
    assert_eq!(in_copy(&fixture, VIEWS).await, "Café,mum");
}

#[tokio::test]
async fn a_name_that_the_file_needs_or_has_gets_an_underscore() {
    let fixture = Fixture::new("clashes");
    let mut session = fixture.session().await;
    for name in ["Cats", "cats", "t1", "i1_1", "tg_meta", "sqlite_schema", "a b", "É", "é", "ﬁ"] {
        run(&mut session, &format!("CREATE TABLE `{name}` (a INT); INSERT INTO `{name}` VALUES (1)")).await;
    }
    let expected = "Cats,_cats,_i1_1,_sqlite_schema,_t1,_tg_meta,a b,É,é,ﬁ";
    assert_eq!(in_copy(&fixture, VIEWS).await, expected);
    assert_eq!(in_copy(&fixture, "SELECT a FROM _tg_meta").await, "1");
    run(&mut session, "DROP TABLE Cats; ALTER TABLE t1 ADD b INT; RENAME TABLE cats TO Cats").await;
    assert_eq!(in_copy(&fixture, VIEWS).await, "Cats,_i1_1,_sqlite_schema,_t1,_tg_meta,a b,É,é,ﬁ");
}

#[tokio::test]
async fn values_are_readable_in_the_file() {
    let fixture = Fixture::new("readable");
    let mut session = fixture.session().await;
    run(&mut session, "SET sql_mode = '', time_zone = '+02:00'").await;
    for (ty, values, expected) in [
        ("DATE", "('2024-02-29'), ('0000-00-00'), ('2024-00-00'), (NULL)", "2024-02-29,0000-00-00,2024-00-00,NULL"),
        ("DATETIME", "('2024-02-29 23:59:58'), (NULL)", "2024-02-29 23:59:58,NULL"),
        ("DATETIME(3)", "('1000-01-01 00:00:00.0204')", "1000-01-01 00:00:00.020"),
        ("TIMESTAMP NULL", "('2024-02-29 12:00:00'), (0), (NULL)", "2024-02-29 10:00:00,0000-00-00 00:00:00,NULL"),
        ("TIMESTAMP(6) NULL", "('2024-02-29 12:00:00.000042')", "2024-02-29 10:00:00.000042"),
        ("TIME(2)", "('-838:59:58.25'), ('00:00:07'), (NULL)", "-838:59:58.25,00:00:07.00,NULL"),
        ("ENUM('a', 'it''s')", "('a'), ('it''s'), ('x'), (NULL)", "a,it's,,NULL"),
        ("SET('a', 'b', 'c')", "('c,a'), ('b'), (''), (NULL)", "a,c,b,,NULL"),
        (
            "DECIMAL(7,2)",
            "(12345.67), (-12345.67), (0), (0.05), (-0.5), (100), (NULL)",
            "12345.67,-12345.67,0,0.05,-0.5,100,NULL",
        ),
        ("DECIMAL(5,3) NOT NULL", "(1.005), (-99.999), (0.001)", "1.005,-99.999,0.001"),
        ("DECIMAL(4,4)", "(0.0001), (-0.9999)", "0.0001,-0.9999"),
        ("DECIMAL(20,0)", "(12345678901234567890), (-1), (0)", "12345678901234567890,-1,0"),
        (
            "DECIMAL(38,5)",
            "(123456789012345678901234567890123.45678), (-0.00001), (-7000000)",
            "123456789012345678901234567890123.45678,-0.00001,-7000000.00000",
        ),
        ("BIGINT UNSIGNED", "(1), (9223372036854775807)", "1,9223372036854775807"),
        ("DOUBLE", "(1.5)", "1.5"),
        ("BLOB", "('bytes')", "bytes"),
        ("JSON", "('{\"a\": 1}')", "{\"a\": 1}"),
    ] {
        run(&mut session, &format!("CREATE TABLE v (id INT PRIMARY KEY AUTO_INCREMENT, v {ty})")).await;
        run(&mut session, &format!("INSERT INTO v (v) VALUES {values}")).await;
        assert_eq!(in_copy(&fixture, "SELECT group_concat(ifnull(v, 'NULL')) FROM v").await, expected, "{ty}");
        run(&mut session, "DROP TABLE v").await;
    }
    run(&mut session, "CREATE TABLE v (price DECIMAL(8,2)); INSERT INTO v VALUES (9.50), (10.25)").await;
    assert_eq!(in_copy(&fixture, "SELECT price FROM v WHERE price > 9.9 ORDER BY price").await, "10.25");
}

#[tokio::test]
async fn a_file_of_an_older_format_gets_its_names_when_it_is_opened() {
    let mut fixture = Fixture::new("upgrade");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE cats (id INT, name VARCHAR(20)); INSERT INTO cats VALUES (1, 'Tom')").await;
    drop(session);
    fixture.engine = None;
    let file = file_of(&fixture);
    for sql in ["DROP VIEW cats", "DROP TABLE tg_view", "UPDATE tg_meta SET value = 2 WHERE name = 'format'"] {
        plainly(&file, sql).unwrap();
    }
    fixture.engine = Some(Engine::open(EngineOptions::new(&fixture.path)).unwrap());
    let mut session = fixture.engine().session("test").unwrap();
    assert_eq!(one(&mut session, "SELECT * FROM cats").await, "1,Tom");
    assert_eq!(in_copy(&fixture, "SELECT name FROM cats").await, "Tom");
    run(&mut session, "ALTER TABLE cats DROP COLUMN id").await;
    assert_eq!(in_copy(&fixture, "SELECT * FROM cats").await, "Tom");
}

#[tokio::test]
async fn views_stand_in_files_that_no_engine_has_changed_since() {
    let mut fixture = Fixture::new("views");
    let mut session = fixture.session().await;
    let file = file_of(&fixture);
    let reopen = |fixture: &mut Fixture| {
        fixture.engine = None;
        fixture.engine = Some(Engine::open(EngineOptions::new(&fixture.path)).unwrap());
        fixture.engine().session("test").unwrap()
    };
    run(&mut session, "CREATE TABLE cats (id INT, name VARCHAR(20)); INSERT INTO cats VALUES (1, 'Tom')").await;
    drop(session);
    fixture.engine = None;
    assert_eq!(plainly(&file, "SELECT * FROM cats").unwrap(), "1|Tom");

    // Who only reads and writes leaves them there.
    let mut session = reopen(&mut fixture);
    run(&mut session, "INSERT INTO cats VALUES (2, 'Zoë')").await;
    assert_eq!(after_a_kill(&fixture, "SELECT name FROM cats"), "Tom\nZoë");
    // A definition that fails takes its change of them back.
    assert_eq!(code(&mut session, "ALTER TABLE cats DROP COLUMN nosuch").await, 1091);
    assert_eq!(after_a_kill(&fixture, "SELECT name FROM cats"), "Tom\nZoë");
    assert_eq!(one(&mut session, "SELECT count(*) FROM cats").await, "2");
    run(&mut session, "CREATE TABLE dogs (id INT); ALTER TABLE cats ADD COLUMN age INT").await;
    assert_eq!(after_a_kill(&fixture, VIEWS), "NULL");
    assert_eq!(after_a_kill(&fixture, "SELECT c2, c3 FROM t1"), "Tom|NULL\nZoë|NULL");
    drop(session);
    fixture.engine = None;
    assert_eq!(plainly(&file, VIEWS).unwrap(), "cats,dogs");
    assert_eq!(plainly(&file, "SELECT name, age FROM cats WHERE id = 2").unwrap(), "Zoë|NULL");

    // What a process that was killed has left, the next one that ends well puts in order.
    plainly(&file, "DROP VIEW cats").unwrap();
    plainly(&file, "DROP VIEW dogs").unwrap();
    plainly(&file, "DELETE FROM tg_view").unwrap();
    let mut session = reopen(&mut fixture);
    assert_eq!(one(&mut session, "SELECT name FROM cats WHERE id = 1").await, "Tom");
    drop(session);
    fixture.engine = None;
    assert_eq!(plainly(&file, VIEWS).unwrap(), "cats,dogs");

    // What somebody has defined there meanwhile stands in nobody's way: not even a view that cannot be read.
    plainly(&file, "DROP VIEW cats").unwrap();
    plainly(&file, "DROP VIEW dogs").unwrap();
    plainly(&file, "DELETE FROM tg_view").unwrap();
    plainly(&file, "CREATE VIEW cats AS SELECT nosuch FROM t1").unwrap();
    plainly(&file, "CREATE VIEW mine AS SELECT 1").unwrap();
    plainly(&file, "CREATE TRIGGER mine_too INSTEAD OF INSERT ON mine BEGIN SELECT 1; END").unwrap();
    let mut session = reopen(&mut fixture);
    assert_eq!(one(&mut session, "SELECT name FROM cats WHERE id = 1").await, "Tom");
    run(&mut session, "ALTER TABLE cats CHANGE COLUMN age years INT; ALTER TABLE cats DROP COLUMN years").await;
    drop(session);
    fixture.engine = None;
    assert_eq!(plainly(&file, VIEWS).unwrap(), "cats,dogs");
    assert_eq!(plainly(&file, "SELECT * FROM cats WHERE id = 1").unwrap(), "1|Tom");
    assert_eq!(plainly(&file, "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'").unwrap(), "0");
}

/// What a statement answers in the files as the engine's process would leave them if it were killed now.
fn after_a_kill(fixture: &Fixture, sql: &str) -> String {
    let left = fixture.path.join("left");
    std::fs::create_dir_all(&left).unwrap();
    for file in ["test.db", "test.db-wal"] {
        std::fs::copy(fixture.path.join(file), left.join(file)).unwrap();
    }
    let answer = plainly(&left.join("test.db"), sql).unwrap();
    std::fs::remove_dir_all(left).unwrap();
    answer
}

#[tokio::test]
async fn another_program_has_the_file_before_or_behind_the_engine() {
    let mut fixture = Fixture::new("alone");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE cats (name VARCHAR(20)); INSERT INTO cats VALUES ('Tom')").await;
    let file = file_of(&fixture);
    assert_eq!(elsewhere(&file, "SELECT name FROM cats"), "error: database is locked");
    assert_eq!(elsewhere(&file, "DELETE FROM t1"), "error: database is locked");
    assert_eq!(one(&mut session, "SELECT * FROM cats").await, "Tom");
    // A schema that is dropped and made again is another file.
    run(&mut session, "DROP DATABASE test; CREATE DATABASE test; USE test; CREATE TABLE dogs (name VARCHAR(20))").await;
    assert_eq!(elsewhere(&file, "SELECT name FROM dogs"), "error: database is locked");
    drop(session);
    fixture.engine = None;
    assert_eq!(elsewhere(&file, "INSERT INTO t1 VALUES ('Rex') RETURNING c1"), "Rex");

    let mut holder = other(&file, "SELECT name FROM dogs");
    let mut holder = holder.env(HOLD, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(holder.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("<<<Rex>>>")));
    fixture.engine = Some(Engine::open(EngineOptions::new(&fixture.path)).unwrap());
    let mut session = fixture.engine().session("test").unwrap();
    assert_eq!(code(&mut session, "SELECT * FROM dogs").await, 1030);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_eq!(one(&mut session, "SELECT * FROM dogs").await, "Rex");
}
