//! Commands of prepared statements beside EXECUTE, and logins by MariaDB's own plugin, byte by byte.

#[path = "support/mysql_client.rs"]
mod mysql_client;
mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use mysql_client::{CAPABILITIES, Client};
use support::{PATIENCE, Site, free_port};
use tidegate_mysql::handshake::{Response, capability, extension, read_switch};
use tidegate_mysql::{answer, auth};

fn started() -> (Site, u16) {
    let port = free_port();
    let main = format!("database {{ schema shop; user app password=secret; listen 127.0.0.1:{port} mysql; }}");
    let mut site = Site::new(&main, "location / { echo ok; }");
    site.start();
    (site, port)
}

#[test]
fn definitions_of_columns_say_what_types_are_called_to_those_who_ask() {
    let (mut site, port) = started();
    let mut client = Client::connect(port);
    assert!(client.greeting.extensions & extension::EXTENDED_METADATA != 0);
    let response = Response {
        capabilities: CAPABILITIES & !capability::LONG_PASSWORD,
        extensions: extension::EXTENDED_METADATA,
        user: b"app".to_vec(),
        proof: auth::native(b"secret", &client.greeting.nonce),
        schema: b"shop".to_vec(),
        plugin: b"mysql_native_password".to_vec(),
        ..Response::default()
    };
    let mut out = Vec::new();
    response.put(&mut out);
    client.send(&out);
    assert_eq!(client.outcome(), Ok(0));
    client.command(3, b"CREATE TABLE t (u UUID, j JSON, i INET6, s VARCHAR(9))");
    assert_eq!(client.outcome(), Ok(0));
    let names = [&b"\x06\0\x04uuid\x0c"[..], b"\x06\x01\x04json\x0c", b"\x07\0\x05inet6\x0c", b"\0\x0c"];
    client.command(3, b"SELECT * FROM t");
    assert_eq!(client.read(), Some(vec![4]));
    for name in names {
        let packet = client.read().expect("a definition");
        assert!(packet[..packet.len() - 12].ends_with(name), "{}", packet.escape_ascii());
    }
    assert_eq!(client.read().expect("the end")[0], answer::EOF);
    // Prepared: its parameters have nothing to say.
    client.command(0x16, b"SELECT u FROM t WHERE s = ?");
    assert_eq!(client.read().expect("a statement")[0], answer::OK);
    for name in [&b"\0\x0c"[..], names[0]] {
        let packet = client.read().expect("a definition");
        assert!(packet[..packet.len() - 12].ends_with(name), "{}", packet.escape_ascii());
    }
    site.quit();
}

#[test]
fn a_balancer_says_who_the_client_is() {
    let port = free_port();
    let main =
        format!("database {{ schema shop; user app password=secret; listen 127.0.0.1:{port} mysql proxy_protocol; }}");
    let mut site = Site::new(&main, "location / { echo ok; }");
    site.start();
    let connect = |header: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.write_all(header).expect("sent");
        stream
    };
    let mut client = Client::of(connect(b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 3306\r\n"));
    let response = client.response("app", "secret", "shop");
    client.send(&response);
    assert_eq!(client.outcome(), Ok(0));
    assert_eq!(client.query("SELECT USER()"), Ok("app@192.0.2.7".into()));
    let mut client = Client::of(connect(b"PROXY TCP4 192.0.2.8 192.0.2.1 4711 3306\r\n"));
    let response = client.response("app", "wrong", "shop");
    client.send(&response);
    assert_eq!(client.outcome(), Err(1045));
    site.wait_for_log("Access denied for user 'app'@'192.0.2.8' (using password: YES), client: 192.0.2.8");
    let mut answer = Vec::new();
    let _ = connect(b"\x20\0\0\x01no header at all").read_to_end(&mut answer);
    assert!(answer.is_empty());
    site.wait_for_log("broken header while reading PROXY protocol");
    site.quit();
}

fn app(port: u16) -> Client {
    Client::log_in(port, "app", "secret", "shop")
}

/// Prepares a statement with so many parameters and columns: its number.
fn prepare(client: &mut Client, sql: &str, params: usize, columns: usize) -> u32 {
    client.command(0x16, sql.as_bytes());
    let packet = client.read().expect("an answer");
    assert_eq!(packet[0], answer::OK, "{}", answer::error(&packet));
    for _ in 0..params + columns {
        client.read().expect("a definition");
    }
    u32::from_le_bytes(packet[1..5].try_into().expect("a number"))
}

/// Executes a statement without parameters for a cursor: the status behind the definitions.
fn open_cursor(client: &mut Client, id: u32) -> u16 {
    client.command(0x17, &[&id.to_le_bytes()[..], &[1, 1, 0, 0, 0]].concat());
    let columns = client.read().expect("an answer")[0];
    for _ in 0..columns {
        client.read().expect("a column");
    }
    answer::end_of_rows(&client.read().expect("the end"), true).expect("the end").status
}

/// Fetches rows: their payloads and the status, or the number of the error.
fn fetch(client: &mut Client, id: u32, rows: u32) -> Result<(Vec<Vec<u8>>, u16), u16> {
    client.command(0x1c, &[id.to_le_bytes(), rows.to_le_bytes()].concat());
    let mut found = Vec::new();
    loop {
        let packet = client.read().expect("a row");
        match packet[0] {
            answer::ERR => return Err(answer::error(&packet).code),
            answer::EOF => return Ok((found, answer::end_of_rows(&packet, true).expect("the end").status)),
            _ => found.push(packet),
        }
    }
}

#[test]
fn rows_are_fetched_in_parts() {
    use answer::status::{CURSOR_EXISTS, LAST_ROW_SENT};
    let (mut site, port) = started();
    let mut client = app(port);
    client.query("CREATE TABLE t (a INT PRIMARY KEY)").expect("made");
    client.query("INSERT INTO t VALUES (1), (2), (3), (4), (5)").expect("inserted");
    let id = prepare(&mut client, "SELECT a FROM t ORDER BY a", 0, 1);
    assert_eq!(fetch(&mut client, id, 1), Err(1421), "it has not run");
    assert_ne!(open_cursor(&mut client, id) & CURSOR_EXISTS, 0);
    // What others do meanwhile is not seen, and does not wait.
    app(port).query("DELETE FROM t WHERE a > 2").expect("deleted");
    let (rows, status) = fetch(&mut client, id, 2).expect("rows");
    assert_eq!(rows, [[0, 0, 1, 0, 0, 0], [0, 0, 2, 0, 0, 0]]);
    assert_ne!(status & CURSOR_EXISTS, 0);
    // Other commands come in between.
    assert_eq!(client.query("SELECT 7"), Ok("7".into()));
    let (rows, status) = fetch(&mut client, id, 100).expect("rows");
    assert_eq!((rows.len(), status & LAST_ROW_SENT), (3, LAST_ROW_SENT));
    assert_eq!(fetch(&mut client, id, 1), Err(1421), "it has ended");
    // Executing again, COM_STMT_RESET and COM_STMT_CLOSE end one.
    open_cursor(&mut client, id);
    open_cursor(&mut client, id);
    assert_eq!(fetch(&mut client, id, 1).expect("a row").0, [[0, 0, 1, 0, 0, 0]]);
    client.command(0x1a, &id.to_le_bytes());
    assert_eq!(client.outcome(), Ok(0));
    assert_eq!(fetch(&mut client, id, 1), Err(1421));
    assert_eq!(fetch(&mut client, id + 7, 1), Err(1243));
    // A statement without rows has none.
    let id = prepare(&mut client, "INSERT INTO t VALUES (9)", 0, 0);
    client.command(0x17, &[&id.to_le_bytes()[..], &[1, 1, 0, 0, 0]].concat());
    assert_eq!(client.outcome(), Ok(1));
    site.quit();
}

#[test]
fn more_rows_than_are_kept_have_no_cursor() {
    let port = free_port();
    let main = format!(
        "database {{ schema shop; user app password=secret; packet_size_max 4k; listen 127.0.0.1:{port} mysql; }}"
    );
    let mut site = Site::new(&main, "location / { echo ok; }");
    site.start();
    let mut client = app(port);
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i FROM n";
    let id = prepare(&mut client, sql, 0, 1);
    client.command(0x17, &[&id.to_le_bytes()[..], &[1, 1, 0, 0, 0]].concat());
    client.read().expect("an answer");
    client.read().expect("a column");
    let mut rows = 0;
    while client.read().expect("a row")[0] != answer::EOF {
        rows += 1;
    }
    assert_eq!(rows, 900);
    assert_eq!(fetch(&mut client, id, 1), Err(1421));
    site.quit();
}

#[test]
fn a_statement_runs_for_many_rows_of_values() {
    let (mut site, port) = started();
    let mut client = app(port);
    assert_eq!(client.greeting.extensions & extension::BULK, extension::BULK);
    client.query("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(5))").expect("made");
    let id = prepare(&mut client, "INSERT INTO t VALUES (?, ?)", 2, 0);
    let bulk = |rows: &[u8]| [&id.to_le_bytes()[..], &[128, 0, 3, 0, 253, 0], rows].concat();
    let row = |a: u8, b: &[u8]| [&[0, a, 0, 0, 0][..], b].concat();
    let rows = [row(1, b"\0\x03one"), row(2, b"\x01"), row(3, b"\0\0")].concat();
    client.command(0xfa, &bulk(&rows));
    let ok = answer::ok(&client.read().expect("an answer")).expect("OK");
    assert_eq!((ok.affected_rows, &*ok.info), (3, &b"Records: 3  Duplicates: 0  Warnings: 0"[..]));
    assert_eq!(client.query("SELECT a, b FROM t"), Ok("1|one;2|NULL;3|".into()));
    // All or nothing, in a transaction of its own and in one that is open.
    let twice = [row(4, b"\0\x04four"), row(1, b"\x01")].concat();
    for open in [false, true] {
        if open {
            client.query("BEGIN").expect("begun");
            client.query("INSERT INTO t VALUES (8, 'mine')").expect("inserted");
        }
        client.command(0xfa, &bulk(&twice));
        assert_eq!(client.outcome(), Err(1062));
        assert_eq!(client.query("SELECT COUNT(*) FROM t WHERE a = 4"), Ok("0".into()));
    }
    client.query("COMMIT").expect("committed");
    assert_eq!(client.query("SELECT COUNT(*) FROM t"), Ok("4".into()));
    // What is no row does nothing.
    let more = [row(5, b"\0\x04five"), row(6, b"\0\x03six")].concat();
    for (rows, error) in
        [(&more[..more.len() - 1], 1210), (&[][..], 1210), (&[9, 0, 0, 0, 0][..], 1210), (&row(9, b"\x09")[..], 1210)]
    {
        client.command(0xfa, &bulk(rows));
        assert_eq!(client.outcome(), Err(error));
    }
    assert_eq!(client.query("SELECT COUNT(*) FROM t"), Ok("4".into()));
    // What a client leaves to the server is the column's default.
    client.query("ALTER TABLE t ALTER b SET DEFAULT 'none'").expect("altered");
    let rows = [row(20, b"\x02"), row(21, b"\x03"), row(22, b"\0\x03own")].concat();
    client.command(0xfa, &bulk(&rows));
    assert_eq!(client.outcome(), Ok(3));
    assert_eq!(client.query("SELECT b FROM t WHERE a >= 20 ORDER BY a"), Ok("none;none;own".into()));
    site.quit();
}

#[test]
fn accounts_with_keys_of_ed25519() {
    let (mut site, port) = started();
    let mut client = app(port);
    client.query("CREATE USER eve IDENTIFIED VIA ed25519 USING PASSWORD('secret')").expect("made");
    assert_eq!(
        client.query("SHOW CREATE USER eve"),
        Ok("CREATE USER `eve`@`%` IDENTIFIED VIA ed25519 USING 'ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY'".into())
    );
    for (password, admitted) in [(&b"secret"[..], true), (b"other", false), (b"", false)] {
        for plugin in ["mysql_native_password", "client_ed25519"] {
            let mut client = Client::connect(port);
            let response = Response {
                capabilities: CAPABILITIES & !capability::CONNECT_WITH_DB,
                user: b"eve".to_vec(),
                proof: auth::native(b"secret", &client.greeting.nonce),
                plugin: plugin.into(),
                ..Response::default()
            };
            let mut out = Vec::new();
            response.put(&mut out);
            client.send(&out);
            let packet = client.read().expect("a question");
            let (asked, nonce) = read_switch(&packet).expect("a question");
            assert_eq!((asked, nonce.len()), (&b"client_ed25519"[..], 32));
            client.send(&auth::ed25519(password, nonce));
            assert_eq!(client.outcome().is_ok(), admitted, "{plugin}");
        }
    }
    site.quit();
}

#[test]
fn settings_for_one_statement() {
    let (mut site, port) = started();
    let mut client = app(port);
    assert_eq!(
        client.query("SET STATEMENT max_statement_time=7, sql_mode=ANSI FOR SELECT @@max_statement_time"),
        Ok("7.000000".into())
    );
    assert_eq!(client.query("SELECT @@max_statement_time"), Ok("0.000000".into()));
    assert_eq!(client.query("SET STATEMENT max_statement_time=0.05 FOR SELECT SLEEP(30)"), Err(1969));
    assert_eq!(client.query("SET STATEMENT max_statement_time=1 FOR SELECT nothing"), Err(1054));
    assert_eq!(client.query("SET STATEMENT no_such_thing=1 FOR SELECT 1"), Err(1193));
    assert_eq!(client.query("SELECT @@max_statement_time"), Ok("0.000000".into()));
    site.quit();
}
