//! A schema with every type goes from MariaDB through mysqldump into the embedded engine, and through `tidegate sql --dump` back.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{binary, eventually, mariadb::Database};

/// Client programs on a database.
struct Client<'a>(&'a Database);

impl Client<'_> {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(["--no-defaults", "-uroot", "--default-character-set=utf8mb4"]);
        command.arg(format!("--socket={}", self.0.path("socket")));
        command
    }

    #[track_caller]
    fn output(&self, program: &str, arguments: &[&str]) -> Vec<u8> {
        let output = self.command(program).args(arguments).output().expect("the program starts");
        assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    #[track_caller]
    fn import(&self, schema: &str, file: &Path) {
        let input = std::fs::File::open(file).expect("the file");
        let output = self.command("mariadb").arg(schema).stdin(Stdio::from(input)).output().expect("the client starts");
        assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    }

    /// The definitions and rows of a schema; not all of it is UTF-8.
    fn dump(&self, schema: &str, more: &[&str]) -> Vec<u8> {
        self.output("mysqldump", &[&["--skip-comments", "--routines", "--events"], more, &[schema]].concat())
    }
}

#[track_caller]
fn tidegate(data: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = binary().arg("sql").arg("--data").arg(data).args(arguments).output().expect("the binary starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn a_dump_of_mariadb_and_back() {
    let database = Database::new();
    let client = Client(&database);
    eventually("MariaDB answers", || {
        client.command("mariadb").args(["-e", "select 1"]).output().ok().filter(|o| o.status.success())
    });
    let dir = PathBuf::from(database.path("files"));
    std::fs::create_dir_all(&dir).expect("a directory");
    let create = "create database {} default character set utf8mb4 collate utf8mb4_unicode_ci";
    client.output("mariadb", &["-e", &create.replace("{}", "shop")]);
    client.import("shop", &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/round_trip.sql"));
    let original = client.dump("shop", &[]);
    for (number, more) in
        [&[][..], &["--hex-blob"], &["--single-transaction", "--skip-extended-insert"]].iter().enumerate()
    {
        let file = dir.join(format!("{number}.sql"));
        std::fs::write(&file, client.dump("shop", more)).expect("written");
        let data = dir.join(format!("data{number}"));
        tidegate(&data, &["--create", "-e", "create database shop"]);
        tidegate(&data, &["shop", "--import", file.to_str().expect("a path")]);
        let back = dir.join(format!("{number}.back.sql"));
        let dump = tidegate(&data, &["shop", "--dump"]);
        std::fs::write(&back, &dump).expect("written");
        // MySQL refuses values for generated columns.
        assert!(String::from_utf8_lossy(&dump).contains("INSERT INTO `computed` (`n`) VALUES"));
        let schema = format!("back{number}");
        client.output("mariadb", &["-e", &create.replace("{}", &schema)]);
        client.import(&schema, &back);
        // A server without accounts calls the owner of a view otherwise.
        let lines = |dump: &[u8]| -> Vec<String> {
            let lines = dump.split(|byte| *byte == b'\n').map(|line| line.escape_ascii().to_string());
            lines.filter(|line| !line.contains("DEFINER=")).collect()
        };
        let (found, wanted) = (lines(&client.dump(&schema, &[])), lines(&original));
        let at = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted).unwrap_or(0);
        assert_eq!((found.len(), &found[at]), (wanted.len(), &wanted[at]), "mysqldump {more:?}, line {at}");
    }
}
