//! `listen … mysql`: clients of the embedded engine that speak MySQL's protocol, and those that speak it badly.

#[path = "support/mysql_client.rs"]
mod mysql_client;
mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use mysql_client::{CAPABILITIES, Client};
use support::{PATIENCE, Site, eventually, free_port};
use tidegate_mysql::compress::{Algorithm, Deflater};
use tidegate_mysql::handshake::{Response, capability};
use tidegate_mysql::{Address, Conn, ConnectOptions, TlsClient, TlsMode, TlsOptions, TlsVerify, answer, auth};
use tidegate_rows::csv::{Csv, CsvOptions, CsvTerminator};
use tidegate_rows::{Execute, Param, QueryError, Statement, sink::Collect};

/// A statement that runs until somebody ends it.
const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1e15) SELECT MAX(i) FROM n";

/// A server with the port, whose number comes with it.
fn site(more: &str) -> (Site, u16) {
    let port = free_port();
    let site = Site::new(&main(port, more), "location / { echo ok; }");
    (site, port)
}

fn main(port: u16, more: &str) -> String {
    format!(
        "database {{ schema shop; user app password=secret; user open password=; listen 127.0.0.1:{port} mysql; {more} }}"
    )
}

fn started(more: &str) -> (Site, u16) {
    let (mut site, port) = site(more);
    site.start();
    (site, port)
}

fn app(port: u16) -> Client {
    Client::log_in(port, "app", "secret", "shop")
}

/// Ends the server, whose log must not speak of a panic.
fn finish(mut site: Site) {
    site.quit();
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("[crit]") && !log.contains("panicked"), "{log}");
}

/// What a login with these answers comes to: the number of the error.
fn refused(port: u16, user: &str, password: &str, schema: &str) -> u16 {
    let mut client = Client::connect(port);
    let response = client.response(user, password, schema);
    client.send(&response);
    let error = client.outcome().expect_err("no login");
    assert_eq!(client.read(), None, "the connection is closed");
    error
}

#[test]
fn logins() {
    let (site, port) = started("");
    assert_eq!(refused(port, "app", "wrong", ""), 1045);
    assert_eq!(refused(port, "app", "", ""), 1045);
    assert_eq!(refused(port, "nobody", "secret", ""), 1045);
    assert_eq!(refused(port, "", "", ""), 1045);
    assert_eq!(refused(port, "open", "secret", ""), 1045);
    assert_eq!(refused(port, "app", "secret", "nowhere"), 1049);
    site.wait_for_log("mysql: Access denied for user 'app'@'127.0.0.1' (using password: YES), client: 127.0.0.1");
    let mut open = Client::log_in(port, "open", "", "");
    assert_eq!(open.query("SELECT CURRENT_USER(), DATABASE()"), Ok("open@%|NULL".into()));
    let mut app = app(port);
    assert_eq!(app.query("SELECT CURRENT_USER(), DATABASE()"), Ok("app@%|shop".into()));
    assert_eq!(app.greeting.thread_id.to_string(), app.query("SELECT CONNECTION_ID()").expect("a row"));
    finish(site);
}

#[test]
fn other_ways_to_prove_a_password() {
    let (site, port) = started("");
    let mut client = Client::connect(port);
    let response = Response {
        capabilities: CAPABILITIES,
        user: b"app".to_vec(),
        proof: auth::caching_sha2(b"secret", &client.greeting.nonce),
        plugin: b"caching_sha2_password".to_vec(),
        ..Response::default()
    };
    let mut out = Vec::new();
    response.put(&mut out);
    client.send(&out);
    assert_eq!(client.read().as_deref(), Some(&b"\x01\x03"[..]), "the fast way");
    assert_eq!(client.outcome(), Ok(0));
    assert_eq!(client.query("SELECT 1"), Ok("1".into()));
    // A plugin that the server does not know.
    let mut client = Client::connect(port);
    let response = Response { plugin: b"client_ed25519".to_vec(), proof: vec![1; 64], ..response };
    let mut out = Vec::new();
    response.put(&mut out);
    client.send(&out);
    let switch = client.read().expect("a switch");
    let (plugin, nonce) = tidegate_mysql::handshake::read_switch(&switch).expect("a switch");
    assert_eq!(plugin, b"mysql_native_password");
    let proof = auth::native(b"secret", nonce);
    client.send(&proof);
    assert_eq!(client.outcome(), Ok(0));
    // Another user on the same connection, and nothing of the first one's.
    client.query("SET @mine = 1; CREATE TEMPORARY TABLE shop.mine (n INT)").expect("set");
    client.command(0x11, b"open\0\0shop\0\x2d\0mysql_native_password\0");
    assert_eq!(client.outcome(), Ok(0));
    assert_eq!(client.query("SELECT CURRENT_USER(), @mine, DATABASE()"), Ok("open@%|NULL|shop".into()));
    assert_eq!(client.query("SELECT * FROM mine"), Err(1146));
    client.command(0x11, b"app\0\0shop\0\x2d\0mysql_native_password\0");
    assert_eq!(client.outcome(), Err(1045));
    assert_eq!(client.read(), None);
    finish(site);
}

#[test]
fn who_guesses_has_to_wait() {
    let (site, port) = started("");
    for _ in 0..10 {
        assert_eq!(refused(port, "app", "wrong", ""), 1045);
    }
    assert_eq!(refused(port, "app", "wrong", ""), 1129);
    assert_eq!(refused(port, "app", "secret", ""), 1129, "the right password may be a guess");
    drop(Client::log_in(port, "open", "", ""));
    site.wait_for_log("it may not try again for a minute");
    finish(site);
}

#[test]
fn texts_and_their_results() {
    let (site, port) = started("");
    let mut client = app(port);
    client.query("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, s TEXT)").expect("made");
    client.command(3, b"INSERT INTO t (s) VALUES ('a'), (NULL)\0");
    assert_eq!(client.outcome(), Ok(2));
    assert_eq!(client.query("SELECT * FROM t"), Ok("1|a;2|NULL".into()));
    assert_eq!(client.query("SELECT 1; UPDATE t SET s = 'x'; SELECT s FROM t"), Ok("x;x".into()));
    assert_eq!(client.query("SELECT 1; SELECT nothing FROM t; SELECT 2"), Err(1054));
    assert_eq!(client.query("SELEC 1"), Err(1064));
    assert_eq!(client.query(""), Err(1065));
    // One statement each from now on.
    client.command(0x1b, b"\x01\0");
    assert_eq!(client.outcome(), Ok(0));
    assert_eq!(client.query("SELECT 1; SELECT 2"), Err(1064));
    // More than one frame, there and back.
    let long = "x".repeat((16 << 20) + 5);
    assert_eq!(client.query(&format!("SELECT LENGTH('{long}')")), Ok(long.len().to_string()));
    finish(site);
}

#[test]
fn commands_beside_statements() {
    let (site, port) = started("");
    let mut client = app(port);
    client.command(0x0e, b"");
    assert_eq!(client.outcome(), Ok(0), "a ping");
    client.command(2, b"information_schema");
    assert_eq!(client.outcome(), Ok(0));
    assert_eq!(client.query("SELECT DATABASE()"), Ok("information_schema".into()));
    client.command(2, b"nowhere");
    assert_eq!(client.outcome(), Err(1049));
    client.command(2, b"shop");
    assert_eq!(client.outcome(), Ok(0));
    client.command(9, b"");
    let statistics = client.read().expect("a text");
    assert!(statistics.starts_with(b"Uptime: "), "{}", String::from_utf8_lossy(&statistics));
    client.query("CREATE TABLE cats (id INT, name TEXT, `no``te` TEXT)").expect("made");
    client.command(4, b"cats\0n%");
    for name in [&b"name"[..], b"no`te"] {
        let packet = client.read().expect("a column");
        assert_eq!(&*answer::column(&packet).expect("a column").name, name);
    }
    assert_eq!(client.read().expect("the end")[0], answer::EOF);
    client.command(4, b"dogs\0");
    assert_eq!(client.outcome(), Err(1146));
    client.command(0x0a, b"");
    assert!(client.results().expect("a list").contains("|shop|Query|"));
    client.query("SET @a = 1; BEGIN; INSERT INTO cats (id) VALUES (1)").expect("begun");
    client.command(0x1f, b"");
    assert_eq!(client.outcome(), Ok(0), "a reset");
    assert_eq!(client.query("SELECT @a, DATABASE(), (SELECT COUNT(*) FROM cats)"), Ok("NULL|shop|0".into()));
    client.command(0x0c, &u32::MAX.to_le_bytes());
    assert_eq!(client.outcome(), Err(1094));
    client.command(0x12, b"");
    assert_eq!(client.outcome(), Err(1047));
    client.command(1, b"");
    assert_eq!(client.read(), None, "it has quit");
    finish(site);
}

/// A connection of the client that `drizzle_pass` uses.
fn connect(runtime: &tokio::runtime::Runtime, port: u16, change: impl FnOnce(&mut ConnectOptions)) -> Conn {
    let mut options = ConnectOptions::new(Address::tcp("127.0.0.1", port), "app", "secret");
    options.schema = "shop".into();
    change(&mut options);
    runtime.block_on(Conn::connect(Arc::new(options))).expect("connected")
}

fn run(runtime: &tokio::runtime::Runtime, conn: &mut Conn, sql: &str, params: &[Param]) -> Result<String, QueryError> {
    let options = CsvOptions { names: false, terminator: CsvTerminator::Lf, ..Default::default() };
    let mut sink = Collect { format: Csv::new(options), out: Vec::new() };
    runtime.block_on(conn.execute(Statement { sql: sql.as_bytes(), params }, &mut sink))?;
    Ok(String::from_utf8_lossy(&sink.out).trim_end().to_owned())
}

#[test]
fn prepared_statements_give_the_values_that_texts_give() {
    let (site, port) = started("");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut conn = connect(&runtime, port, |_| {});
    let columns = "ti TINYINT, tu TINYINT UNSIGNED, sm SMALLINT, me MEDIUMINT, i INT, u INT UNSIGNED, b BIGINT, \
        bu BIGINT UNSIGNED, f FLOAT, d DOUBLE, n DECIMAL(20,5), c CHAR(3), s VARCHAR(9), t TEXT, bl BLOB, da DATE, \
        tm TIME(3), dt DATETIME(6), ts TIMESTAMP, y YEAR, e ENUM('a','b'), st SET('x','y'), bi BIT(10), j JSON, \
        z INT(6) ZEROFILL";
    run(&runtime, &mut conn, &format!("CREATE TABLE all_types ({columns})"), &[]).expect("made");
    for row in [
        "-5, 250, -300, -70000, -2000000000, 4000000000, -9000000000000000000, 18446744073709551615, 1.5, -2.25, \
         12.34500, 'c', 'ä', 'text', 'blob', '2024-02-29', '-838:59:59', '2024-02-29 01:02:03.000004', \
         '2024-02-29 01:02:03', 2024, 'b', 'x,y', b'1000000001', '{\"a\":1}', 42",
        &["NULL"; 25].join(", "),
        &["0"; 15].join(", "),
    ] {
        let names: Vec<&str> =
            columns.split(", ").map(|column| column.trim().split(' ').next().expect("a name")).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.starts_with('\'')).collect();
        let count = if row.starts_with('0') { 15 } else { 25 };
        let names: Vec<&str> =
            names.into_iter().filter(|name| name.chars().all(char::is_alphabetic)).take(count).collect();
        run(&runtime, &mut conn, &format!("INSERT INTO all_types ({}) VALUES ({row})", names.join(", ")), &[])
            .expect("row");
    }
    let text = run(&runtime, &mut conn, "SELECT * FROM all_types WHERE 1 = 1", &[]).expect("rows");
    assert_eq!(text.lines().count(), 3, "{text}");
    let binary = run(&runtime, &mut conn, "SELECT * FROM all_types WHERE ? = 1", &[Param::Int(1)]).expect("rows");
    assert_eq!(binary, text);
    let params = [
        Param::Int(-1),
        Param::Uint(u64::MAX),
        Param::Double(0.5),
        Param::Null,
        Param::Bytes("ä'\\".as_bytes().into()),
    ];
    let echoed = run(&runtime, &mut conn, "SELECT ?, ?, ?, ?, ?", &params).expect("a row");
    assert_eq!(echoed, "-1,18446744073709551615,0.5,,ä'\\");
    let error = run(&runtime, &mut conn, "SELECT * FROM nothing WHERE a = ?", &params[..1]).expect_err("no table");
    assert!(matches!(&error, QueryError::Server(error) if error.code == 1146), "{error}");
    // A statement is planned anew when its table has changed.
    let count = "SELECT * FROM changing WHERE a = ?";
    run(&runtime, &mut conn, "CREATE TABLE changing (a INT); INSERT INTO changing VALUES (1)", &[]).expect("made");
    assert_eq!(run(&runtime, &mut conn, count, &[Param::Int(1)]).expect("a row"), "1");
    run(&runtime, &mut conn, "ALTER TABLE changing ADD b TEXT DEFAULT 'new'", &[]).expect("changed");
    assert_eq!(run(&runtime, &mut conn, count, &[Param::Int(1)]).expect("a row"), "1,new");
    drop(conn);
    finish(site);
}

#[test]
fn calls_send_their_result_sets_in_both_protocols() {
    let (site, port) = started("");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut conn = connect(&runtime, port, |_| {});
    let body = "BEGIN SELECT a, 'x'; INSERT INTO t VALUES (a), (a + 1); SELECT n FROM t ORDER BY n; \
        DELETE FROM t; SET b = CONCAT(b, a); END";
    let create = format!("CREATE TABLE t (n INT); CREATE PROCEDURE p(a INT, INOUT b VARCHAR(9)) {body}");
    run(&runtime, &mut conn, &create, &[]).expect("made");
    run(&runtime, &mut conn, "SET @b = 'b'", &[]).expect("set");
    let text = run(&runtime, &mut conn, "CALL p(5, @b)", &[]).expect("rows");
    assert_eq!(text, "5,x\n5\n6\n0,,0,4");
    assert_eq!(run(&runtime, &mut conn, "CALL p(?, @b)", &[Param::Int(5)]).expect("rows"), text);
    assert_eq!(run(&runtime, &mut conn, "SELECT @b, COUNT(*) FROM t", &[]).expect("a row"), "b55,0");
    let error = run(&runtime, &mut conn, "CALL p(?, 1)", &[Param::Int(5)]).expect_err("no variable");
    assert!(matches!(&error, QueryError::Server(error) if error.code == 1414), "{error}");
    // The connection goes on behind an error between two results.
    run(&runtime, &mut conn, "CREATE PROCEDURE q() BEGIN SELECT 1; SELECT nosuch; END", &[]).expect("made");
    run(&runtime, &mut conn, "CALL q()", &[]).expect_err("no column");
    assert_eq!(run(&runtime, &mut conn, "SELECT 7", &[]).expect("a row"), "7");
    drop(conn);
    finish(site);
}

#[test]
fn packets_are_compressed_for_those_who_want_it() {
    let (site, port) = started("");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for zstd_level in [None, Some(3), Some(22)] {
        let mut conn = connect(&runtime, port, |options| {
            options.compress = true;
            options.zstd_level = zstd_level;
        });
        check_compressed(&runtime, &mut conn);
    }
    let offered = "SELECT @@protocol_compression_algorithms";
    assert_eq!(app(port).query(offered), Ok("zlib,zstd,uncompressed".into()));
    let broken = [&b"\x04\0\0\0\x10\0\0junk"[..], b"\0\0\0\0\x10\0\0", b"\x05\0\0\0\0\0\0\x01\0\0\0"];
    // A text that is longer than it is said to be.
    let mut bomb = Vec::new();
    Deflater::new(Algorithm::Zstd { level: 3 }).compress(&[0; 100_000], &mut 0, &mut bomb);
    bomb[4..7].copy_from_slice(&[16, 0, 0]);
    // Frames that do not inflate end the connection, whatever they claim to be.
    for capabilities in [capability::COMPRESS, capability::ZSTD_COMPRESSION_ALGORITHM] {
        for frame in broken.into_iter().chain([&bomb[..]]) {
            let mut client = Client::connect(port);
            let response = Response {
                capabilities: CAPABILITIES | capabilities,
                user: b"app".to_vec(),
                proof: auth::native(b"secret", &client.greeting.nonce),
                plugin: b"mysql_native_password".to_vec(),
                zstd_level: 3,
                ..Response::default()
            };
            let mut out = Vec::new();
            response.put(&mut out);
            client.send(&out);
            assert_eq!(client.outcome(), Ok(0));
            client.stream.write_all(frame).expect("sent");
            client.stream.shutdown(Shutdown::Write).expect("shut down");
            let mut rest = Vec::new();
            let _ = client.stream.read_to_end(&mut rest);
        }
    }
    assert_eq!(app(port).query("SELECT 1"), Ok("1".into()));
    finish(site);
}

fn check_compressed(runtime: &tokio::runtime::Runtime, conn: &mut Conn) {
    assert_eq!(run(runtime, conn, "SELECT 1", &[]).expect("a row"), "1");
    for statement in
        ["DROP TABLE IF EXISTS texts", "CREATE TABLE texts (id INT AUTO_INCREMENT PRIMARY KEY, t LONGTEXT)"]
    {
        run(runtime, conn, statement, &[]).expect("made");
    }
    // More than a frame holds, both ways, and what does not get shorter.
    let long = "abcdefghij".repeat(1_900_000);
    run(runtime, conn, "INSERT INTO texts (t) VALUES (?)", &[Param::Bytes(long.clone().into())]).expect("a row");
    assert!(run(runtime, conn, "SELECT t FROM texts", &[]).expect("a row") == long);
    let numbers = "SELECT COUNT(*), MAX(LENGTH(h)) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                   WHERE i < 20000) SELECT SHA1(i) AS h FROM n) AS d";
    assert_eq!(run(runtime, conn, numbers, &[]).expect("a row"), "20000,40");
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT SHA1(i) FROM n";
    assert_eq!(run(runtime, conn, rows, &[]).expect("rows").lines().count(), 20_000);
    let error = run(runtime, conn, "SELECT * FROM nothing", &[]).expect_err("no table");
    assert!(matches!(&error, QueryError::Server(error) if error.code == 1146), "{error}");
}

#[test]
fn the_version_is_the_configured_one() {
    let (site, port) = started("server_version 8.4.0-shop;");
    let mut client = app(port);
    assert_eq!(&*client.greeting.version, b"8.4.0-shop");
    assert_eq!(client.query("SELECT VERSION(), @@version"), Ok("8.4.0-shop|8.4.0-shop".into()));
    finish(site);
}

/// The session's changes that the OK packet of a statement tells of: what stands behind the text.
fn changes(client: &mut Client, sql: &str) -> Vec<u8> {
    client.command(3, sql.as_bytes());
    let packet = client.read().expect("an answer");
    assert_eq!(packet[0], answer::OK, "{}", answer::error(&packet));
    let status = u16::from_le_bytes([packet[3], packet[4]]);
    assert_eq!(status & answer::status::SESSION_STATE_CHANGED != 0, packet.len() > 7);
    packet[7..].to_vec()
}

#[test]
fn changes_of_the_session_are_told_to_those_who_listen() {
    let (site, port) = started("");
    let mut client = Client::connect(port);
    let mut response = client.response("app", "secret", "shop");
    response[2] |= (capability::SESSION_TRACK >> 16) as u8;
    client.send(&response);
    let logged_in = client.read().expect("an answer");
    assert!(logged_in.ends_with(b"\x01\x05\x04shop"), "{}", logged_in.escape_ascii());
    assert_eq!(changes(&mut client, "SET autocommit = 0"), b"\0\x11\0\x0f\x0aautocommit\x03OFF");
    assert_eq!(changes(&mut client, "SET @a = 1, sql_mode = ''"), b"", "a variable that is not tracked");
    let names = changes(&mut client, "SET NAMES utf8mb4");
    for name in ["character_set_client", "character_set_connection", "character_set_results"] {
        assert!(names.windows(name.len()).any(|found| found == name.as_bytes()), "{name}");
    }
    assert_eq!(changes(&mut client, "USE shop"), b"\0\x07\x01\x05\x04shop");
    assert_eq!(changes(&mut client, "DO 1"), b"");
    client.command(2, b"information_schema");
    assert!(client.read().expect("an answer").ends_with(b"\x12information_schema"));
    changes(&mut client, "SET session_track_schema = OFF");
    assert_eq!(changes(&mut client, "USE shop"), b"");
    changes(&mut client, "SET session_track_system_variables = 'sql_mode'");
    assert_eq!(changes(&mut client, "SET sql_mode = ''"), b"\0\x0c\0\x0a\x08sql_mode\0");
    drop(client);
    // Others are told nothing.
    assert_eq!(changes(&mut app(port), "SET autocommit = 0"), b"");
    finish(site);
}

#[test]
fn found_rows_are_counted_where_the_client_wants_it() {
    let (site, port) = started("");
    app(port).query("CREATE TABLE t (n INT); INSERT INTO t VALUES (1), (1), (2)").expect("made");
    for (flag, expected) in [(0, 0), (capability::FOUND_ROWS, 2)] {
        let mut client = Client::connect(port);
        let mut response = client.response("app", "secret", "shop");
        response[..4].copy_from_slice(&(CAPABILITIES | flag).to_le_bytes());
        client.send(&response);
        assert_eq!(client.outcome(), Ok(0));
        for _ in 0..2 {
            client.command(3, b"UPDATE t SET n = 1 WHERE n = 1");
            assert_eq!(client.outcome(), Ok(expected));
            // The wish outlives a reset.
            client.command(0x1f, b"");
            assert_eq!(client.outcome(), Ok(0));
        }
    }
    finish(site);
}

#[test]
fn killing_ends_statements_and_connections() {
    let (site, port) = started("");
    let (mut boss, mut busy) = (app(port), app(port));
    boss.query("CREATE TABLE t (n INT PRIMARY KEY)").expect("made");
    let id = busy.greeting.thread_id;
    let until_it_runs = |boss: &mut Client| {
        let sql = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND info IS NOT NULL");
        eventually("the statement is listed", || (boss.query(&sql) == Ok("1".into())).then_some(()));
    };
    for statement in [ENDLESS, "SELECT SLEEP(1000)"] {
        busy.query("BEGIN; REPLACE INTO t VALUES (1)").expect("begun");
        busy.command(3, statement.as_bytes());
        until_it_runs(&mut boss);
        boss.query(&format!("KILL QUERY {id}")).expect("killed");
        assert_eq!(busy.results(), Err(1317));
        assert_eq!(busy.query("COMMIT; SELECT COUNT(*) FROM t"), Ok("1".into()), "its transaction was left alone");
    }
    busy.query("BEGIN; INSERT INTO t VALUES (2)").expect("begun");
    busy.command(3, ENDLESS.as_bytes());
    until_it_runs(&mut boss);
    boss.command(0x0c, &id.to_le_bytes());
    assert_eq!(boss.outcome(), Ok(0));
    assert_eq!(busy.results(), Err(1927));
    assert_eq!(busy.read(), None);
    // The row is free again.
    assert_eq!(boss.query("INSERT INTO t VALUES (2)"), Ok(String::new()));
    // One that waits, in a transaction or not.
    for begin in ["SELECT 1", "BEGIN; INSERT INTO t VALUES (3)"] {
        let mut idle = app(port);
        idle.query(begin).expect("run");
        boss.query(&format!("KILL {}", idle.greeting.thread_id)).expect("killed");
        idle.sequence = 1;
        if let Some(packet) = idle.read() {
            assert_eq!(answer::error(&packet).code, 1927);
            assert_eq!(idle.read(), None);
        }
    }
    assert_eq!(boss.query("INSERT INTO t VALUES (3)"), Ok(String::new()));
    // Who goes with the end of a transaction gets the answer first, and nothing more is run.
    let mut leaving = app(port);
    assert_eq!(leaving.query("BEGIN; INSERT INTO t VALUES (4); COMMIT RELEASE"), Ok(String::new()));
    assert_eq!(leaving.read(), None);
    assert_eq!(boss.query("SELECT COUNT(*) FROM t WHERE n = 4"), Ok("1".into()));
    finish(site);
}

#[test]
fn who_leaves_takes_the_statement_along() {
    let (site, port) = started("");
    let mut boss = app(port);
    boss.query("CREATE TABLE t (n INT PRIMARY KEY)").expect("made");
    let others = "SELECT COUNT(*) FROM information_schema.processlist WHERE id <> CONNECTION_ID()";
    for leave in [Shutdown::Write, Shutdown::Both] {
        let mut busy = app(port);
        busy.query("BEGIN; INSERT INTO t VALUES (1)").expect("begun");
        busy.command(3, ENDLESS.as_bytes());
        eventually("it is there", || (boss.query(others) == Ok("1".into())).then_some(()));
        busy.stream.shutdown(leave).expect("left");
        eventually("it has gone", || (boss.query(others) == Ok("0".into())).then_some(()));
        assert_eq!(boss.query("INSERT INTO t VALUES (1); DELETE FROM t"), Ok(String::new()), "the row is free");
    }
    finish(site);
}

#[test]
fn who_does_not_read_holds_nobody_up() {
    let (site, port) = started("");
    let mut lazy = app(port);
    lazy.query("CREATE TABLE t (s LONGTEXT); INSERT INTO t VALUES (REPEAT('x', 1000000))").expect("made");
    lazy.command(3, b"SELECT a.s FROM t a, (SELECT 1 UNION ALL SELECT 2) b, information_schema.collations c");
    let mut other = app(port);
    for number in 0..100 {
        assert_eq!(other.query(&format!("SELECT {number}")), Ok(number.to_string()));
    }
    // What it did not read waits with the statement.
    let rows = lazy.results().expect("rows").split(';').count();
    assert!(rows > 20, "{rows}");
    let mut lazy = app(port);
    lazy.command(3, b"SELECT a.s FROM t a, information_schema.collations b, information_schema.collations c");
    other.query(&format!("KILL {}", lazy.greeting.thread_id)).expect("killed");
    let sql = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {}", lazy.greeting.thread_id);
    eventually("it has gone", || (other.query(&sql) == Ok("0".into())).then_some(()));
    finish(site);
}

/// What a connection that sends `bytes` and then no more comes to: it is closed, whatever was answered.
fn cut(port: u16, mut client: Client, bytes: &[u8]) {
    client.stream.write_all(bytes).expect("sent");
    client.stream.shutdown(Shutdown::Write).expect("shut down");
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    // Others do not notice.
    assert_eq!(app(port).query("SELECT 1"), Ok("1".into()));
}

#[test]
fn prepared_statements_stay_where_they_were_prepared() {
    let (site, port) = started("");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut conn = connect(&runtime, port, |_| {});
    let mut run = |sql: &str, params: &[Param]| run(&runtime, &mut conn, sql, params);
    run("CREATE DATABASE a; CREATE TABLE a.t (v INT); CREATE DATABASE b; CREATE TABLE b.t (v INT)", &[]).expect("made");
    let (put, get, mode) =
        ("INSERT INTO t VALUES (?)", "SELECT v, DATABASE() FROM t WHERE 1 = ?", "SELECT \"v\", ? || 0");
    run("USE a; SET sql_mode = ''", &[]).expect("there");
    run(put, &[Param::Int(1)]).expect("a row");
    assert_eq!(run(get, &[Param::Int(1)]).expect("a row"), "1,a");
    assert_eq!(run(mode, &[Param::Int(1)]).expect("a row"), "v,1");
    run("USE b; SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'", &[]).expect("there");
    run(put, &[Param::Int(2)]).expect("a row");
    assert_eq!(run(get, &[Param::Int(1)]).expect("rows"), "1,a\n2,a");
    assert_eq!(run(mode, &[Param::Int(1)]).expect("a row"), "v,1");
    assert_eq!(run("SELECT DATABASE(), (SELECT COUNT(*) FROM t)", &[]).expect("a row"), "b,0");
    // Where it was prepared is gone: the session stays where it is.
    run("DROP DATABASE a", &[]).expect("dropped");
    let error = run(get, &[Param::Int(1)]).expect_err("no schema");
    assert!(matches!(&error, QueryError::Server(error) if error.code == 1049), "{error}");
    assert_eq!(run("SELECT DATABASE()", &[]).expect("a row"), "b");
    drop(conn);
    finish(site);
}

#[test]
fn no_name_of_a_user_makes_lines_in_the_log() {
    let (site, port) = started("");
    assert_eq!(refused(port, "a\n2026/01/01 00:00:00 [emerg] forged", "x", ""), 1045);
    eventually("the refusal is noted", || site.log().contains("Access denied for user 'a\\n2026").then_some(()));
    assert!(!site.log().lines().any(|line| line.contains("[emerg] forged") && line.starts_with("2026/01/01")));
    finish(site);
}

#[test]
fn packets_cut_at_each_byte() {
    let (site, port) = started("");
    let framed = |payload: &[u8], mut sequence: u8| {
        let mut out = Vec::new();
        tidegate_mysql::packet::put_packet(&mut out, &mut sequence, &[payload]);
        out
    };
    let login = framed(&Client::connect(port).response("app", "secret", "shop"), 1);
    for len in 0..login.len() {
        cut(port, Client::connect(port), &login[..len]);
    }
    let query = framed(b"\x03SELECT 1", 0);
    let prepare = framed(b"\x16SELECT ?", 0);
    let execute = framed(b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x03\0\x07\0\0\0", 0);
    let all = [&query[..], &prepare, &execute].concat();
    for len in 0..all.len() {
        cut(port, app(port), &all[..len]);
    }
    finish(site);
}

#[test]
fn packets_that_break_the_protocol() {
    let (site, port) = started("packet_size_max 1m;");
    for (bytes, expected) in [
        // Wrong numbers.
        (&b"\x01\0\0\x01\x0e"[..], Some(1156)),
        (b"\x01\0\0\xff\x0e", Some(1156)),
        // Larger than allowed.
        (b"\xff\xff\xff\0", Some(1153)),
        (b"\0\0\x20\0", Some(1153)),
        // Empty, or less than the command wants.
        (b"\0\0\0\0", Some(1835)),
        (b"\x03\0\0\0\x0c\0\0", Some(1835)),
        (b"\x05\0\0\0\x17\x01\0\0\0", Some(1835)),
        (b"\x02\0\0\0\x11a", Some(1835)),
        // No login, no statement.
        (b"\x05\0\0\0\x19\x07\0\0\0\x01\0\0\0\x01", None),
    ] {
        let mut client = app(port);
        client.stream.write_all(bytes).expect("sent");
        client.sequence = 1;
        let mut head = [0; 4];
        match expected {
            Some(expected) => {
                client.stream.read_exact(&mut head).expect("an answer");
                let mut payload = vec![0; usize::from(head[0])];
                client.stream.read_exact(&mut payload).expect("an answer");
                assert_eq!(answer::error(&payload).code, expected, "{bytes:?}");
                assert_eq!(client.stream.read(&mut head).unwrap_or(0), 0, "{bytes:?} closes");
            }
            None => assert_eq!(client.read(), None, "{bytes:?}"),
        }
    }
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", &[0; 64], &[0xff; 64]] {
        let mut client = Client::connect(port);
        client.stream.write_all(bytes).expect("sent");
        let mut rest = Vec::new();
        let _ = client.stream.read_to_end(&mut rest);
    }
    // Statements that are not there, parameters that do not fit.
    let mut client = app(port);
    client.command(0x17, b"\x63\0\0\0\0\x01\0\0\0");
    assert_eq!(client.outcome(), Err(1243));
    client.command(0x1a, b"\x63\0\0\0");
    assert_eq!(client.outcome(), Err(1243));
    client.command(0x1c, b"\x63\0\0\0\x01\0\0\0");
    assert_eq!(client.outcome(), Err(1243));
    client.command(0x18, b"\x63\0\0\0\0\0nobody's");
    client.command(0x16, b"SELECT ?, ?");
    (0..5).for_each(|_| drop(client.read().expect("an answer")));
    client.command(0x17, b"\x01\0\0\0\0\x01\0\0\0\0\x01\x03\0\x03\0\x07\0\0\0");
    assert_eq!(client.outcome(), Err(1210));
    client.command(0x17, b"\x01\0\0\0\0\x01\0\0\0\0\0");
    assert_eq!(client.outcome(), Err(1210));
    assert_eq!(client.query("SELECT 1"), Ok("1".into()));
    finish(site);
}

#[test]
fn many_clients_at_once() {
    let (site, port) = started("");
    app(port)
        .query("CREATE TABLE counters (id INT PRIMARY KEY, n INT); INSERT INTO counters VALUES (1, 0)")
        .expect("made");
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                let mut client = app(port);
                let id = client.greeting.thread_id.to_string();
                for _ in 0..10 {
                    assert_eq!(client.query("UPDATE counters SET n = n + 1 WHERE id = 1"), Ok(String::new()));
                    assert_eq!(client.query("SELECT CONNECTION_ID()"), Ok(id.clone()));
                }
            });
        }
    });
    assert_eq!(app(port).query("SELECT n FROM counters"), Ok("500".into()));
    finish(site);
}

#[test]
fn commands_that_come_together_are_answered_in_order() {
    let (site, port) = started("");
    let mut client = app(port);
    let mut bytes = Vec::new();
    for number in 0..1000 {
        let sql = format!("\x03SELECT {number}, '{}'", "x".repeat(number));
        tidegate_mysql::packet::put_packet(&mut bytes, &mut 0, &[sql.as_bytes()]);
    }
    let mut writer = client.stream.try_clone().expect("a descriptor");
    let writing = std::thread::spawn(move || writer.write_all(&bytes).expect("sent"));
    for number in 0..1000 {
        client.sequence = 1;
        assert_eq!(client.results(), Ok(format!("{number}|{}", "x".repeat(number))));
    }
    writing.join().expect("written");
    finish(site);
}

#[test]
fn a_reload_closes_those_who_are_idle_between_transactions() {
    let (mut site, port) = started("");
    let (mut idle, mut busy) = (app(port), app(port));
    idle.query("CREATE TABLE t (n INT)").expect("made");
    busy.query("BEGIN; INSERT INTO t VALUES (1)").expect("begun");
    site.configure(&main(port, "schema second;"), "location / { echo new; }");
    site.signal(nix::sys::signal::Signal::SIGHUP);
    idle.sequence = 1;
    if let Some(packet) = idle.read() {
        assert_eq!(answer::error(&packet).code, 1053);
        assert_eq!(idle.read(), None);
    }
    assert_eq!(busy.query("INSERT INTO t VALUES (2)"), Ok(String::new()));
    assert_eq!(busy.query("COMMIT"), Ok(String::new()));
    assert_eq!(busy.query("SELECT 1"), Err(1053));
    assert_eq!(busy.read(), None);
    assert_eq!(Client::log_in(port, "app", "secret", "second").query("SELECT COUNT(*) FROM shop.t"), Ok("2".into()));
    drop(busy);
    site.quit();
}

#[test]
fn configurations_that_are_refused() {
    for (block, expected) in [
        ("listen 127.0.0.1:3306 mysql;", "nobody may log in through \"listen\": there is no \"user\""),
        ("user a password=b; listen 127.0.0.1:3306 mysq;", "invalid parameter \"mysq\""),
        ("user a password=b; listen 127.0.0.1:3306 mysql backlog=x;", "invalid parameter \"backlog=x\""),
        ("user a password=b; listen 127.0.0.1:x mysql;", "invalid port in \"127.0.0.1:x\" of the \"listen\" directive"),
        ("user a password=b; listen 127.0.0.1;", "invalid number of arguments in \"listen\" directive"),
        ("server_version eight;", "invalid version \"eight\""),
        ("user a password=b; ssl_certificate x.pem;", "no \"ssl_certificate_key\" is defined for \"x.pem\""),
        ("ssl_certificate x.pem; ssl_certificate_key y.pem;", "cannot load certificate"),
        ("user a password=b; listen 3307 mysql; listen *:3307 mysql;", "a duplicate listen 0.0.0.0:3307"),
    ] {
        let site = Site::new(&format!("database {{ {block} }}"), "");
        let output = site.run(&["-t"]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(expected), "{block}: {told}");
    }
    // An address of the web server's.
    let port = free_port();
    let site = Site::new(&main(port, ""), &format!("listen 127.0.0.1:{port};"));
    let told = site.run(&["-t"]).stderr;
    assert!(String::from_utf8_lossy(&told).contains(&format!("a duplicate listen 127.0.0.1:{port}")));
}

#[test]
fn sockets_of_the_file_system() {
    let (site, _) = started("listen unix:my.sock mysql;");
    let path = site.dir.join("my.sock");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = ConnectOptions::new(Address::Unix(path.clone()), "open", "");
    let mut conn = runtime.block_on(Conn::connect(Arc::new(options))).expect("connected");
    assert_eq!(run(&runtime, &mut conn, "SELECT USER()", &[]).expect("a row"), "open@localhost");
    drop(conn);
    finish(site);
    assert!(!path.exists(), "the socket is removed");
}

#[test]
fn tls_for_those_who_ask() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (mut site, port) = site("ssl_certificate cert.pem; ssl_certificate_key key.pem;");
    std::fs::write(site.dir.join("conf/cert.pem"), certified.cert.pem()).expect("written");
    std::fs::write(site.dir.join("conf/key.pem"), certified.signing_key.serialize_pem()).expect("written");
    site.start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let authorities = certified.cert.pem();
    let mut secure = connect(&runtime, port, |options| {
        options.tls_mode = TlsMode::Required;
        let tls = TlsOptions {
            verify: TlsVerify::Full,
            authorities: authorities.into_bytes(),
            server_name: Some("localhost".to_owned()),
            ..TlsOptions::default()
        };
        options.tls = Some(TlsClient::new(&tls).expect("a client"));
    });
    let long = "x".repeat(1 << 20);
    let sql = format!("SELECT CURRENT_USER(), '{long}', REPEAT('y', 1000000)");
    assert_eq!(
        run(&runtime, &mut secure, &sql, &[]).expect("a row"),
        format!("app@%,{long},{}", "y".repeat(1_000_000))
    );
    assert_eq!(run(&runtime, &mut secure, "SELECT ?", &[Param::Int(5)]).expect("a row"), "5");
    // Others go on without.
    assert_eq!(app(port).query("SELECT 1"), Ok("1".into()));
    // Who asks for it and then says something else gets nothing.
    let mut client = Client::connect(port);
    assert!(client.greeting.capabilities & capability::SSL != 0);
    let request = Response { capabilities: CAPABILITIES | capability::SSL, ..Response::default() };
    let mut payload = Vec::new();
    request.put_tls_request(&mut payload);
    client.send(&payload);
    let response = client.response("app", "secret", "shop");
    client.send(&response);
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    assert!(!rest.windows(2).any(|bytes| bytes == b"\x02\0"), "{rest:?}");
    assert_eq!(run(&runtime, &mut secure, "SELECT 2", &[]).expect("a row"), "2");
    drop(secure);
    finish(site);
}

#[test]
fn character_sets_of_logins() {
    let (site, port) = started("");
    for (collation, expected) in
        [(45u8, Ok(0)), (33, Ok(0)), (255, Ok(0)), (63, Ok(0)), (8, Ok(0)), (51, Ok(0)), (58, Ok(0)), (28, Err(1235))]
    {
        let mut client = Client::connect(port);
        let mut response = client.response("app", "secret", "shop");
        response[8] = collation;
        client.send(&response);
        assert_eq!(client.outcome(), expected, "{collation}");
    }
    finish(site);
}

/// The answer to a text of bytes: the column of a result with one column and one row, and its value.
fn only_value(client: &mut Client, sql: &[u8]) -> (tidegate_rows::Column, Vec<u8>) {
    client.command(3, sql);
    let count = client.read().expect("a result");
    assert_eq!(count, [1], "{}", answer::error(&count));
    let column = answer::column(&client.read().expect("a column")).expect("a column");
    let row = client.read().expect("a row");
    assert!(answer::ends_rows(&client.read().expect("the end")));
    (column, row[1..].to_vec())
}

#[test]
fn texts_of_latin1_both_ways() {
    let (site, port) = started("");
    let mut utf8 = app(port);
    utf8.query("CREATE TABLE t (s VARCHAR(20), b VARBINARY(20)); INSERT INTO t VALUES ('日 é €', x'e9')")
        .expect("made");
    let mut client = Client::connect(port);
    let mut response = client.response("app", "secret", "shop");
    response[8] = 8;
    client.send(&response);
    assert_eq!(client.outcome(), Ok(0));
    let (column, value) = only_value(&mut client, b"SELECT s AS n\xe9e FROM t");
    assert_eq!((&*column.name, column.collation, column.length), (&b"n\xe9e"[..], 8, 20));
    assert_eq!(value, b"? \xe9 \x80");
    assert_eq!(only_value(&mut client, b"SELECT b FROM t").1, b"\xe9", "bytes stay as they are");
    assert_eq!(only_value(&mut client, b"SELECT HEX(CONVERT('\xe9' USING utf8mb4))").1, b"C3A9");
    assert_eq!(only_value(&mut client, b"SELECT COUNT(*) FROM t WHERE s LIKE '%\xe9%'").1, b"1");
    assert_eq!(only_value(&mut client, b"SELECT @@character_set_client").1, b"latin1");
    client.command(3, b"SELECT * FROM n\xe9e");
    let error = client.read().expect("an error");
    assert!(error.ends_with(b"Table 'shop.n\xe9e' doesn't exist"), "{}", error.escape_ascii());
    // The parameters and rows of prepared statements: a text of latin1, and bytes.
    client.command(0x16, b"SELECT HEX(?), HEX(?), '\xe9'");
    for _ in 0..1 + 2 + 3 {
        client.read().expect("what was prepared");
    }
    client.command(0x17, b"\x01\0\0\0\0\x01\0\0\0\0\x01\xfd\0\xfc\0\x01\xe9\x01\xe9");
    for _ in 0..1 + 3 {
        client.read().expect("a description");
    }
    assert_eq!(client.read().expect("a row"), b"\0\0\x02E9\x02E9\x01\xe9");
    client.read().expect("the end");
    // Columns of bytes get those of latin1, from texts and from parameters.
    client.command(0x16, b"INSERT INTO t (b) VALUES ('\xe9'), (?), (?)");
    for _ in 0..1 + 2 {
        client.read().expect("what was prepared");
    }
    client.command(0x17, b"\x02\0\0\0\0\x01\0\0\0\0\x01\xfd\0\xfc\0\x01\xe9\x01\xe9");
    assert_eq!(client.outcome(), Ok(3));
    assert_eq!(client.query("SELECT DISTINCT HEX(b) FROM t"), Ok("E9".into()));
    client.query("INSERT INTO t (b) SELECT CONVERT(s USING latin1) FROM t WHERE s IS NOT NULL").expect("a row");
    assert_eq!(client.query("SELECT HEX(b) FROM t WHERE LENGTH(b) > 1"), Ok("3F20E92080".into()));
    // Each session by itself, and as it wants it now.
    assert_eq!(utf8.query("SELECT s FROM t WHERE s <> ''"), Ok("日 é €".into()));
    client.query("SET NAMES utf8mb4").expect("set");
    assert_eq!(client.query("SELECT s FROM t WHERE s <> ''"), Ok("日 é €".into()));
    client.query("SET NAMES latin1").expect("set");
    assert_eq!(only_value(&mut client, b"SELECT '\xe9'").1, b"\xe9");
    client.command(0x1f, b"");
    assert_eq!(client.outcome(), Ok(0));
    assert_eq!(
        client.query("SELECT s, @@collation_connection FROM t WHERE s <> ''"),
        Ok("日 é €|utf8mb4_general_ci".into())
    );
    finish(site);
}

#[test]
fn texts_of_other_character_sets_of_one_byte() {
    let (site, port) = started("");
    app(port).query("CREATE TABLE t (s VARCHAR(20)); INSERT INTO t VALUES ('да é')").expect("made");
    let mut client = Client::connect(port);
    let mut response = client.response("app", "secret", "shop");
    // cp1251_general_ci
    response[8] = 51;
    client.send(&response);
    assert_eq!(client.outcome(), Ok(0));
    let (column, value) = only_value(&mut client, b"SELECT s FROM t");
    assert_eq!((column.collation, column.length), (51, 20));
    assert_eq!(value, b"\xe4\xe0 ?");
    assert_eq!(only_value(&mut client, b"SELECT HEX('\xe4')").1, b"D0B4");
    assert_eq!(only_value(&mut client, b"SELECT COUNT(*) FROM t WHERE s LIKE '\xe4%'").1, b"1");
    assert_eq!(only_value(&mut client, b"SELECT @@character_set_client").1, b"cp1251");
    client.query("SET NAMES koi8r").expect("set");
    let (column, value) = only_value(&mut client, b"SELECT s FROM t WHERE s LIKE '\xc4%'");
    assert_eq!(column.collation, 7);
    assert_eq!(value, b"\xc4\xc1 ?");
    finish(site);
}

#[test]
fn a_client_that_says_nothing_keeps_nobody_from_leaving() {
    let (site, port) = started("");
    let silent = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    silent.set_read_timeout(Some(PATIENCE)).expect("set");
    finish(site);
    let mut rest = Vec::new();
    let _ = (&silent).read_to_end(&mut rest);
}
