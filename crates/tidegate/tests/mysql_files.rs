//! Files at the port: LOAD DATA with files of the client and of the server, SELECT … INTO OUTFILE.

#[path = "support/mysql_client.rs"]
mod mysql_client;
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use mysql_client::{CAPABILITIES, Client};
use support::{PATIENCE, Site, free_port};
use tidegate_mysql::handshake::{Response, capability};
use tidegate_mysql::{answer, auth};

fn started(more: &str) -> (Site, u16) {
    let port = free_port();
    let main = format!("database {{ schema shop; user app password=secret; listen 127.0.0.1:{port} mysql; {more} }}");
    let mut site = Site::new(&main, "location / { echo ok; }");
    site.start();
    (site, port)
}

/// A client that sends files.
fn log_in(port: u16) -> Client {
    let mut client = Client::connect(port);
    let response = Response {
        capabilities: CAPABILITIES | capability::LOCAL_FILES,
        extensions: 0,
        collation: 45,
        user: b"app".to_vec(),
        proof: auth::native(b"secret", &client.greeting.nonce),
        schema: b"shop".to_vec(),
        plugin: b"mysql_native_password".to_vec(),
        attributes: Vec::new(),
        zstd_level: 0,
    };
    let mut packet = Vec::new();
    response.put(&mut packet);
    client.send(&packet);
    assert_eq!(client.outcome(), Ok(0));
    client
}

/// Runs a LOAD DATA LOCAL with a file in pieces: the OK's text, or the number of the error.
fn load(client: &mut Client, sql: &str, pieces: &[&[u8]]) -> Result<String, u16> {
    client.command(3, sql.as_bytes());
    let packet = client.read().expect("an answer");
    if packet[0] == answer::ERR {
        return Err(answer::error(&packet).code);
    }
    assert_eq!(packet, b"\xfba file", "it asks for the file");
    for piece in pieces {
        client.send(piece);
    }
    client.send(b"");
    let packet = client.read().expect("an answer");
    match packet[0] {
        answer::ERR => Err(answer::error(&packet).code),
        _ => Ok(String::from_utf8_lossy(&answer::ok(&packet).expect("OK").info).into_owned()),
    }
}

#[test]
fn a_file_of_the_client_becomes_rows() {
    let (mut site, port) = started("");
    let mut client = log_in(port);
    client.query("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(5) NOT NULL, c INT DEFAULT 7)").expect("made");
    let sql = "LOAD DATA LOCAL INFILE 'a file' INTO TABLE t FIELDS TERMINATED BY ',' IGNORE 1 LINES (a, b, @x) SET c = @x * 2";
    let done = load(&mut client, sql, &[b"head,of,it\n1,on", b"e,1", b"0\n2,\\N,x\n3,three and more\n", b"1,again,5"]);
    assert_eq!(done.as_deref(), Ok("Records: 4  Deleted: 0  Skipped: 1  Warnings: 4"));
    assert_eq!(client.query("SELECT a, b, c FROM t"), Ok("1|one|20;2||0;3|three|NULL".into()));
    // A statement that fails before it reads, or while it does, leaves the connection in step.
    assert_eq!(load(&mut client, "LOAD DATA LOCAL INFILE 'a file' INTO TABLE nowhere", &[]), Err(1146));
    let one = vec![b'y'; 300_000];
    let sql = "LOAD DATA LOCAL INFILE 'a file' REPLACE INTO TABLE t (b) SET a = (SELECT 1 UNION SELECT 2)";
    assert_eq!(load(&mut client, sql, &[&one, &one, &one]), Err(1242));
    assert_eq!(client.query("SELECT 5"), Ok("5".into()));
    client.query("SET GLOBAL local_infile = 0").expect("set");
    assert_eq!(load(&mut client, "LOAD DATA LOCAL INFILE 'a file' INTO TABLE t", &[]), Err(4166));
    // A client that sends no files is not asked for one.
    client.query("SET GLOBAL local_infile = 1").expect("set");
    let mut other = Client::log_in(port, "app", "secret", "shop");
    assert_eq!(load(&mut other, "LOAD DATA LOCAL INFILE 'a file' INTO TABLE t", &[]), Err(4166));
    site.quit();
}

#[test]
fn a_client_that_leaves_amid_its_file_leaves_no_rows() {
    let (mut site, port) = started("");
    let mut client = log_in(port);
    client.query("CREATE TABLE t (a INT)").expect("made");
    client.command(3, b"LOAD DATA LOCAL INFILE 'a file' INTO TABLE t");
    assert_eq!(client.read().as_deref(), Some(&b"\xfba file"[..]));
    client.send(&b"1\n".repeat(100_000));
    drop(client);
    let mut client = log_in(port);
    // Nobody keeps the table meanwhile.
    client.query("INSERT INTO t VALUES (5)").expect("inserted");
    assert_eq!(client.query("SELECT COUNT(*) FROM t"), Ok("1".into()));
    site.quit();
}

#[test]
fn files_of_the_server_are_those_of_one_directory() {
    let (mut site, port) = started("secure_file_priv files; user other password=secret;");
    let files = site.dir.join("files");
    fs::create_dir(&files).expect("made");
    // The server may have another user.
    fs::set_permissions(&files, fs::Permissions::from_mode(0o777)).expect("set");
    fs::write(site.dir.join("secret"), "1\n").expect("written");
    fs::write(files.join("in"), "1;'a;b'\n2;\\N\n").expect("written");
    std::os::unix::fs::symlink(site.dir.join("secret"), files.join("link")).expect("made");
    let mut client = log_in(port);
    client.query("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)").expect("made");
    let load = |file: &str| format!("LOAD DATA INFILE '{file}' INTO TABLE t FIELDS TERMINATED BY ';' ENCLOSED BY ''''");
    assert_eq!(client.query(&load("in")), Ok(String::new()));
    assert_eq!(client.query(&load("in")), Err(1062), "a file of the server stops at what is wrong");
    assert_eq!(client.query("SELECT * FROM t"), Ok("1|a;b;2|NULL".into()));
    for (file, error) in [("../secret", 1290), ("link", 1290), ("/etc/passwd", 1290), ("nothing", 29), (".", 29)] {
        assert_eq!(client.query(&load(file)), Err(error), "{file}");
    }
    let out = "SELECT a, b INTO OUTFILE 'out' FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' FROM t ORDER BY a";
    assert_eq!(client.query(out), Ok(String::new()));
    assert_eq!(fs::read_to_string(files.join("out")).expect("a file"), "1,\"a;b\"\n2,\\N\n");
    assert_eq!(client.query(out), Err(1086));
    assert_eq!(client.query("SELECT 1 INTO OUTFILE '../out'"), Err(1290));
    assert_eq!(client.query("SELECT 1 FROM nowhere INTO OUTFILE 'none'"), Err(1146));
    assert!(!files.join("none").exists(), "a query that fails leaves no file");
    assert_eq!(client.query("SELECT x'00ff' INTO DUMPFILE 'bytes'"), Ok(String::new()));
    assert_eq!(fs::read(files.join("bytes")).expect("a file"), b"\0\xff");
    let shown = client.query("SELECT @@secure_file_priv").expect("a row");
    assert!(shown.ends_with("/files"), "{shown}");
    // It takes a privilege.
    client.query("CREATE USER plain IDENTIFIED BY 'x'").expect("made");
    client.query("GRANT ALL ON shop.* TO plain").expect("granted");
    let mut plain = Client::log_in(port, "plain", "x", "shop");
    assert_eq!(plain.query(&load("in")), Err(1227));
    assert_eq!(plain.query("SELECT 1 INTO OUTFILE 'other'"), Err(1227));
    site.quit();
}

#[test]
fn without_a_directory_there_are_no_files() {
    let (mut site, port) = started("");
    let mut client = log_in(port);
    client.query("CREATE TABLE t (a INT)").expect("made");
    assert_eq!(client.query("LOAD DATA INFILE 'x' INTO TABLE t"), Err(1290));
    assert_eq!(client.query("SELECT 1 INTO OUTFILE 'x'"), Err(1290));
    site.quit();
}
