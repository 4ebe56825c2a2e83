//! `tidegate sql`, on a directory and on a running server.

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use support::{binary, eventually, finish, free_port, output};

/// A directory of its own, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-sql-tool-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("created");
        Self(path)
    }

    fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    fn sql(&self, arguments: &[&str]) -> Output {
        let mut command = binary();
        output(command.arg("sql").arg("--data").arg(self.data()).args(arguments))
    }

    /// What it prints; it must succeed.
    #[track_caller]
    fn prints(&self, arguments: &[&str], expected: &str) {
        let output = self.sql(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{arguments:?}: {said}");
    }

    /// What it says when it fails.
    #[track_caller]
    fn fails(&self, arguments: &[&str], expected: &str) {
        let output = self.sql(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const TABLE: &str = "create database shop; use shop; \
    create table t (id int auto_increment primary key, name varchar(30), price decimal(6,2), raw blob, at datetime(3)); \
    insert into t values (1, 'it''s \\\\ \\n', 1.50, x'00ff', '2020-01-01 10:00:00.5'), (2, NULL, NULL, NULL, NULL)";

#[test]
fn statements_and_what_they_answer() {
    let place = Place::new("statements");
    place.fails(&["-e", "select 1"], "there is no directory");
    place.prints(&["--create", "-e", TABLE], "");
    place.prints(
        &["shop", "-e", "select id, name, price from t"],
        "id\tname\tprice\n1\tit's \\\\ \\n\t1.50\n2\tNULL\tNULL\n",
    );
    let table = "+----+-------+\n| id | price |\n+----+-------+\n|  1 |  1.50 |\n|  2 |  NULL |\n+----+-------+\n";
    place.prints(&["shop", "--format", "table", "-e", "select id, price from t"], table);
    place.prints(
        &["shop", "--format", "json", "-e", "select id, price from t"],
        "[{\"id\":1,\"price\":1.50},{\"id\":2,\"price\":null}]\n",
    );
    place.prints(
        &["shop", "-e", "select 7 as seven\\G select ';' as x"],
        "*************************** 1. row ***************************\nseven: 7\nx\n;\n",
    );
    place.fails(
        &["shop", "-e", "select 1;\nselect * from nowhere;\nselect 2"],
        "ERROR 1146 (42S02) at line 2: Table 'shop.nowhere' doesn't exist",
    );
    let forced = place.sql(&["shop", "--force", "-e", "nonsense; select 2 as two"]);
    assert_eq!((forced.status.code(), String::from_utf8_lossy(&forced.stdout).as_ref()), (Some(1), "two\n2\n"));
    place.fails(&["nowhere", "-e", "select 1"], "ERROR 1049 (42000): Unknown database 'nowhere'");
    place.fails(&["--dump", "-e", "select 1"], "only one of");
    place.fails(&["--import", "/no/such/file"], "No such file or directory");
}

#[test]
fn dump_import_and_backup() {
    let place = Place::new("roundtrip");
    place.prints(&["--create", "-e", TABLE], "");
    place.prints(&["shop", "-e", "create view b as select id from t; create view a as select * from b"], "");
    let dump = place.sql(&["--dump"]);
    assert!(dump.status.success());
    let file = place.0.join("dump.sql");
    std::fs::write(&file, &dump.stdout).expect("written");
    place.prints(&["shop", "--backup", place.0.join("copy.db").to_str().expect("text")], "");
    place.fails(&["shop", "--backup", place.0.join("copy.db").to_str().expect("text")], "exists");
    let other = Place::new("roundtrip-2");
    other.prints(&["--create", "--quiet", "--import", file.to_str().expect("text")], "");
    assert_eq!(String::from_utf8_lossy(&other.sql(&["--dump"]).stdout), String::from_utf8_lossy(&dump.stdout));
    std::fs::copy(place.0.join("copy.db"), other.data().join("copied.db")).expect("copied");
    other.prints(&["copied", "-e", "select count(*) as n from a"], "n\n2\n");
}

#[test]
fn copies_become_schemas_again() {
    let place = Place::new("restore");
    place.prints(&["--create", "-e", TABLE], "");
    let copies = place.0.join("copies");
    let (all, one) = (copies.to_str().expect("text"), copies.join("shop.db"));
    let one = one.to_str().expect("text");
    // Without a schema it is a directory, also of a single schema.
    place.prints(&["--backup", all], "");
    let rows = String::from_utf8(place.sql(&["shop", "-e", "select * from t"]).stdout).expect("text");
    place.fails(&["shop", "--restore", one], "ERROR 1007");
    place.prints(&["again", "--restore", one], "");
    place.prints(&["again", "-e", "select * from t"], &rows);
    place.prints(&["-e", "drop database shop"], "");
    place.prints(&["--restore", all], "");
    place.prints(&["shop", "-e", "select id, 'a,b' as s from t", "--format", "csv"], "id,s\n1,\"a,b\"\n2,\"a,b\"\n");
    let text = place.0.join("text.db");
    std::fs::write(&text, "no database, but long enough to be taken for one".repeat(100)).expect("written");
    place.fails(&["broken", "--restore", text.to_str().expect("text")], "ERROR 1034");
    assert!(!place.data().join("broken.db").exists());
    assert!(
        !std::fs::read_dir(place.data())
            .expect("there")
            .any(|entry| { entry.expect("there").file_name().to_string_lossy().contains("restore") })
    );
}

#[test]
fn a_file_of_mysqldump() {
    let place = Place::new("mysqldump");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/mysqldump.sql");
    place.prints(&["--create", "--quiet", "--import", file.to_str().expect("text")], "");
    place.prints(&["extra", "-e", "select * from aview order by book"], "book\tauthor\n2\t日本語\n3\tmax\n");
    let author = "select id, price, flags, kind, bits + 0 as bits, hex(raw) as raw, fl, t, dt from author where id > 1";
    let expected = "id\tprice\tflags\tkind\tbits\traw\tfl\tt\tdt\n\
        4294967296\t12345678.1234\ta,c\ty\t2730\t00FF0D0A1A275C22\t1.5\t-12:34:56.789\t1999-12-31 23:59:59.999999\n";
    place.prints(&["extra", "-e", author], expected);
}

/// A server on a place, ended with the test.
struct Server(Child);

impl Server {
    fn start(place: &Place, port: u16) -> Self {
        let conf = format!(
            "daemon off; master_process off; pid x.pid; error_log error.log notice; events {{}}\n\
             database {{ path data; schema shop; }}\n\
             http {{ access_log off; server {{ listen 127.0.0.1:{port}; return 200 here; }} }}\n"
        );
        std::fs::write(place.0.join("nginx.conf"), conf).expect("written");
        let mut command = binary();
        command.arg("-p").arg(format!("{}/", place.0.display())).arg("-c").arg("nginx.conf");
        Self(command.stderr(Stdio::null()).spawn().expect("the binary starts"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_server_does_the_work() {
    let place = Place::new("server");
    let port = free_port();
    let server = Server::start(&place, port);
    // Connections are accepted before the database is open, and answered afterwards.
    eventually("it answers", || support::get(port, "/").ok());
    place.prints(&["shop", "-e", "create table t (n int); insert into t values (1), (2)"], "");
    place.prints(&["shop", "-e", "select sum(n) as sum from t"], "sum\n3\n");
    // A large result does not fit into the socket: both ends wait for each other.
    let many = "with recursive n as (select 1 as i union all select i + 1 from n where i < 20000) select repeat('x', 100) as x from n";
    assert_eq!(place.sql(&["shop", "-e", many]).stdout.len(), 2 + 20_000 * 101);
    let mut import = binary();
    import.arg("sql").arg("--data").arg(place.data()).args(["shop", "--import", "-"]);
    let mut import = import.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
    import.stdin.take().expect("piped").write_all(b"insert into t values (7);\n").expect("written");
    assert!(finish(import).status.success());
    place.prints(&["shop", "-e", "select sum(n) as sum from t"], "sum\n10\n");
    place.prints(&["shop", "--backup", place.0.join("copy.db").to_str().expect("text")], "");
    assert!(place.0.join("copy.db").exists());
    // Another server finds the directory taken and says by whom.
    let second = Place::new("second");
    std::os::unix::fs::symlink(place.data(), second.data()).expect("linked");
    let mut refused = Server::start(&second, free_port());
    let status = eventually("it gives up", || refused.0.try_wait().expect("known"));
    assert!(!status.success());
    let log = std::fs::read_to_string(second.0.join("error.log")).expect("a log");
    let expected = format!("is used by process {}; a data directory serves one process at a time", server.0.id());
    assert!(log.contains(&expected), "{log}");
    drop(server);
    // The socket that it left behind keeps nobody from the directory.
    place.prints(&["shop", "-e", "select sum(n) as sum from t"], "sum\n10\n");
}

#[test]
fn a_server_that_ends_leaves_its_tables_to_other_programs() {
    use nix::{sys::signal, unistd::Pid};
    let place = Place::new("left");
    let port = free_port();
    let mut server = Server::start(&place, port);
    eventually("it answers", || support::get(port, "/").ok());
    place.prints(&["shop", "-e", "create table cats (n int); alter table cats add column age int"], "");
    // The definition of the view with which `sqlite3 data/shop.db 'select * from cats'` finds the table.
    let shows_cats = || {
        ["shop.db", "shop.db-wal"].iter().any(|file| {
            let bytes = std::fs::read(place.data().join(file)).expect("there");
            bytes.windows(25).any(|text| text == b"CREATE VIEW \"cats\"(\"n\",\"a")
        })
    };
    assert!(!shows_cats());
    signal::kill(Pid::from_raw(server.0.id() as i32), signal::Signal::SIGTERM).expect("sent");
    assert!(server.0.wait().expect("ended").success());
    assert!(shows_cats());
}
