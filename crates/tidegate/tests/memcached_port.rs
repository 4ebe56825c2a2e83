//! `listen … memcached`: clients that speak memcached's protocol, and those that speak it badly.

#[path = "support/mysql_client.rs"]
#[allow(dead_code, reason = "shared with the tests of the MySQL port, which use all of it")]
mod mysql_client;
mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use mysql_client::Client;
use nix::sys::signal::Signal;
use support::{PATIENCE, Site, eventually, free_port};

/// A server with a port for a zone and one at which clients log in.
struct Ports {
    site: Site,
    open: u16,
    guarded: u16,
}

fn started() -> Ports {
    let (open, guarded) = (free_port(), free_port());
    let mut site = Site::new(
        &format!(
            "worker_processes 2;
             database {{ user app password=secret; memcached_item_size_max 1m; memcached_zone cache 8m; memcached_zone other 1m;
             listen 127.0.0.1:{open} memcached zone=cache; listen 127.0.0.1:{guarded} memcached zone=other auth; }}"
        ),
        "location / { echo ok; }",
    );
    site.start();
    Ports { site, open, guarded }
}

impl Ports {
    /// Ends the server, whose log must not speak of a panic.
    fn finish(mut self) {
        self.site.quit();
        let log = self.site.log();
        assert!(!log.contains("[alert]") && !log.contains("[crit]") && !log.contains("panicked"), "{log}");
    }
}

fn connect(port: u16) -> TcpStream {
    let client = support::connect(port).expect("connected");
    client.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    client
}

/// Sends requests and reads answers up to the end of the one to `mn`.
fn ask(client: &mut TcpStream, requests: &str) -> String {
    client.write_all(format!("{requests}mn\r\n").as_bytes()).expect("sent");
    let mut answers = Vec::new();
    let mut piece = [0; 4096];
    while !answers.ends_with(b"MN\r\n") {
        let count = client.read(&mut piece).expect("an answer");
        assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&answers));
        answers.extend_from_slice(&piece[..count]);
    }
    answers.truncate(answers.len() - 4);
    String::from_utf8(answers).expect("text")
}

/// Everything until the server closes.
fn rest(mut client: TcpStream) -> String {
    let mut rest = String::new();
    // A client whose last bytes nobody read may be told so by a reset.
    let _ = client.read_to_string(&mut rest);
    rest
}

#[test]
fn requests_may_come_in_any_pieces() {
    let ports = started();
    let requests = "set a 5 0 3\r\n\r\n1\r\nget a b\r\nms b 2 T0 F7\r\nok\r\nmg b v f\r\nincr a 1\r\nappend b 0 0 1\r\n!\r\ndelete a\r\nget a b\r\n";
    let expected = "STORED\r\nVALUE a 5 3\r\n\r\n1\r\nEND\r\nHD\r\nVA 2 f7\r\nok\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\nSTORED\r\nDELETED\r\nVALUE b 7 3\r\nok!\r\nEND\r\n";
    let mut client = connect(ports.open);
    client.set_nodelay(true).expect("an option");
    for byte in requests.bytes() {
        client.write_all(&[byte]).expect("sent");
    }
    let answers = ask(&mut client, "");
    assert_eq!(answers, expected);
    // What is cut off is not stored, wherever it is.
    let whole = "set cut 0 0 5\r\n12345\r\n";
    for cut in 0..whole.len() {
        let mut client = connect(ports.open);
        client.write_all(&whole.as_bytes()[..cut]).expect("sent");
        client.shutdown(Shutdown::Write).expect("no more");
        assert_eq!(rest(client), "");
    }
    assert_eq!(ask(&mut client, "get cut\r\n"), "END\r\n");
    ports.finish();
}

#[test]
fn workers_share_a_zone_that_outlives_a_reload() {
    let ports = started();
    let mut clients: Vec<_> = (0..16).map(|_| connect(ports.open)).collect();
    assert_eq!(ask(&mut clients[0], "set n 0 0 1\r\n0\r\n"), "STORED\r\n");
    for client in &mut clients {
        ask(client, &"incr n 1 noreply\r\n".repeat(100));
    }
    assert_eq!(ask(&mut clients[3], "get n\r\n"), "VALUE n 0 4\r\n1600\r\nEND\r\n");
    assert!(ask(&mut clients[5], "stats\r\n").contains("STAT incr_hits 1600\r\n"));
    let before = clients.pop().expect("a client");
    ports.site.signal(Signal::SIGHUP);
    // An idle connection ends with its worker.
    assert_eq!(rest(before), "");
    let mut client = connect(ports.open);
    assert_eq!(ask(&mut client, "get n\r\n"), "VALUE n 0 4\r\n1600\r\nEND\r\n");
    ports.finish();
}

#[test]
fn who_has_not_logged_in_may_do_nothing() {
    let ports = started();
    let mut client = connect(ports.guarded);
    client
        .write_all(b"get a\r\nset x 0 0 10\r\napp wrong!\r\nset x 0 0 10\r\napp secret\r\nset a 0 0 1\r\n1\r\n")
        .expect("sent");
    let expected = "CLIENT_ERROR unauthenticated\r\nCLIENT_ERROR authentication failure\r\nSTORED\r\nSTORED\r\n";
    assert_eq!(ask(&mut client, ""), expected);
    ports.site.wait_for_log("memcached: access denied for user \"app\", client: 127.0.0.1");
    // What another has unlocked is locked for the next.
    let mut other = connect(ports.guarded);
    other.write_all(b"get a\r\nquit\r\n").expect("sent");
    assert_eq!(rest(other), "CLIENT_ERROR unauthenticated\r\n");
    let mut long = connect(ports.guarded);
    long.write_all(b"set x 0 0 100000\r\n").expect("sent");
    long.shutdown(Shutdown::Write).expect("no more");
    assert_eq!(rest(long), "CLIENT_ERROR auth token too long\r\n");
    ports.finish();
}

#[test]
fn large_values_and_slow_readers() {
    let ports = started();
    let mut client = connect(ports.open);
    let value = "v".repeat(1_000_000);
    assert_eq!(ask(&mut client, &format!("set a 0 0 {}\r\n{value}\r\n", value.len())), "STORED\r\n");
    // Far more than sockets take is asked for before the first byte is read.
    client.write_all("get a a a a\r\n".repeat(16).as_bytes()).expect("sent");
    let mut other = connect(ports.open);
    assert_eq!(ask(&mut other, "get b\r\n"), "END\r\n");
    let answers = ask(&mut client, "");
    let one = format!("VALUE a 0 {}\r\n{value}\r\n", value.len());
    let four = one.repeat(4) + "END\r\n";
    assert!(answers == four.repeat(16), "{} bytes", answers.len());
    // A value that is too large is passed over, and what was there goes.
    let large = "v".repeat(1_100_000);
    let answers = ask(&mut client, &format!("set a 0 0 {}\r\n{large}\r\nget a\r\n", large.len()));
    assert_eq!(answers, "SERVER_ERROR object too large for cache\r\nEND\r\n");
    // A line that never ends closes the connection, and so does one that leaves in the middle of answers.
    client.write_all(&[b'x'; 5000]).expect("sent");
    assert_eq!(rest(client), "");
    let mut leaving = connect(ports.open);
    leaving.write_all(b"set a 0 0 5\r\n12345\r\nget a a a a a a a a\r\n").expect("sent");
    drop(leaving);
    assert_eq!(ask(&mut other, "mg b\r\n"), "EN\r\n");
    ports.finish();
}

#[test]
fn idle_clients_are_parked_and_come_back() {
    let ports = started();
    let mut client = connect(ports.guarded);
    assert_eq!(ask(&mut client, "set x 0 0 10\r\napp secret\r\n"), "STORED\r\n");
    let count = |client: &mut TcpStream| {
        let stats = ask(client, "stats\r\n");
        let line = stats.lines().find(|line| line.starts_with("STAT curr_connections")).expect("a count");
        line.rsplit(' ').next().expect("a number").parse::<u32>().expect("a number")
    };
    let idle: Vec<_> = (0..50).map(|_| connect(ports.guarded)).collect();
    eventually("all are counted", || (count(&mut client) == 51).then_some(()));
    drop(idle);
    eventually("nobody is counted that has gone", || (count(&mut client) == 1).then_some(()));
    ports.finish();
}

/// A server with a port for a table, and one for SQL.
fn with_table(table: &str, more: &str) -> (Site, u16, u16) {
    let (items, sql) = (free_port(), free_port());
    let mut site = Site::new(
        &format!(
            "master_process off; worker_processes 2;
             database {{ schema shop; user app password=secret; listen 127.0.0.1:{sql} mysql; {more}
             listen 127.0.0.1:{items} memcached table=shop.{table}; }}"
        ),
        "location / { echo ok; }",
    );
    site.start();
    (site, items, sql)
}

fn end(site: Site) {
    Ports { site, open: 0, guarded: 0 }.finish();
}

#[test]
fn the_same_rows_by_sql() {
    let (site, items, sql) = with_table("kv", "");
    let mut client = connect(items);
    let mut app = Client::log_in(sql, "app", "secret", "shop");
    assert_eq!(
        ask(&mut client, "get a\r\nset a 5 0 3\r\n\r\n1\r\nget a b\r\n"),
        "END\r\nSTORED\r\nVALUE a 5 3\r\n\r\n1\r\nEND\r\n"
    );
    assert_eq!(app.query("SELECT name, HEX(value), flags, expires FROM kv"), Ok("a|0D0A31|5|0".into()));
    app.query("INSERT INTO kv (name, value) VALUES ('b', '41'), ('c', 'see')").expect("inserted");
    assert_eq!(
        ask(&mut client, "incr b 1\r\nget b c\r\ndelete c\r\ndelete c\r\n"),
        "42\r\nVALUE b 0 2\r\n42\r\nVALUE c 0 3\r\nsee\r\nEND\r\nDELETED\r\nNOT_FOUND\r\n"
    );
    assert_eq!(app.query("SELECT value FROM kv WHERE name = 'b'"), Ok("42".into()));
    // A number that was read before SQL has changed the row is good no more.
    let got = ask(&mut client, "gets b\r\n");
    let cas = got.lines().next().and_then(|line| line.rsplit(' ').next()).expect("a number").to_owned();
    app.query("UPDATE kv SET value = '7' WHERE name = 'b'").expect("changed");
    assert_eq!(
        ask(&mut client, &format!("cas b 0 0 1 {cas}\r\nx\r\nget b\r\n")),
        "EXISTS\r\nVALUE b 0 1\r\n7\r\nEND\r\n"
    );
    let got = ask(&mut client, "gets b\r\n");
    let cas = got.lines().next().and_then(|line| line.rsplit(' ').next()).expect("a number").to_owned();
    assert_eq!(
        ask(&mut client, &format!("cas b 0 0 1 {cas}\r\nx\r\ncas b 0 0 1 {cas}\r\ny\r\n")),
        "STORED\r\nEXISTS\r\n"
    );
    assert_eq!(
        ask(&mut client, "flush_all 5\r\nflush_all\r\nget a b\r\n"),
        "SERVER_ERROR a table is flushed at once\r\nOK\r\nEND\r\n"
    );
    assert_eq!(app.query("SELECT COUNT(*) FROM kv"), Ok("0".into()));
    end(site);
}

#[test]
fn rows_do_what_items_do() {
    let (site, items, _) = with_table("kv", "");
    let mut client = connect(items);
    let mut check = |requests: &str, expected: &str| {
        assert_eq!(ask(&mut client, &requests.replace('|', "\r\n")).replace("\r\n", "|"), expected, "{requests}");
    };
    check(
        "add a 1 0 1|1|add a 0 0 1|2|replace a 5 0 1|3|replace b 0 0 1|1|append a 9 9 2|xy|prepend a 0 0 1|-|append b 0 0 1|1|get a|",
        "STORED|NOT_STORED|STORED|NOT_STORED|STORED|STORED|NOT_STORED|VALUE a 5 4|-3xy|END|",
    );
    check(
        "set n 0 0 2|10|decr n 1|get n|incr n 91|decr n 200|incr a 1|incr nope 1|",
        "STORED|9|VALUE n 0 2|9 |END|100|0|CLIENT_ERROR cannot increment or decrement non-numeric value|NOT_FOUND|",
    );
    check(
        "set e 0 -1 1|1|get e|touch e 0|add e 0 100 1|1|touch e 200|mg e|gat 0 e|mg e t v|",
        "STORED|END|NOT_FOUND|STORED|TOUCHED|HD|VALUE e 0 1|1|END|VA 1 t-1|1|",
    );
    check(
        "mg v N30 v t|mg v N30 v|ms v 2|ok|mg v v|md v I T50|mg v|mg v|",
        "VA 0 t30 W||VA 0 Z||HD|VA 2|ok|HD|HD X W|HD Z X|",
    );
    check(
        "ms YWI= 1 b E77 F3 c k|x|mg YWI= b c f v k|ms YWI= 1 b C77 c q|y|ms YWI= 1 b C77|z|ma q N0 J5 v|ma q MD D9 v|md q q|md q|",
        "HD c77 kYWI= b|VA 1 c77 f3 kYWI= b|x|EX|VA 1|5|VA 1|0|NF|",
    );
    check(
        "get|x|get a b n nope|version x|verbosity 1|",
        &format!(
            "ERROR|ERROR|VALUE a 5 4|-3xy|VALUE n 0 3|0  |END|VERSION 1.6.18-tidegate-{}|OK|",
            env!("CARGO_PKG_VERSION")
        ),
    );
    // More than fits into one batch, in the order of the requests.
    let many: Vec<String> = (0..500).map(|number| format!("k{number}")).collect();
    let sets: String = many.iter().map(|key| format!("set {key} 0 0 4 noreply\r\nv{:03}\r\n", key.len())).collect();
    assert_eq!(ask(&mut client, &sets), "");
    let found = ask(&mut client, &format!("get {}\r\n", many.join(" ")));
    let keys: Vec<_> = found.lines().filter_map(|line| line.strip_prefix("VALUE ")?.split(' ').next()).collect();
    assert_eq!(keys, many);
    end(site);
}

#[test]
fn many_clients_change_one_row_and_what_was_acknowledged_stays() {
    let (mut site, items, sql) = with_table("kv", "");
    ask(&mut connect(items), "set n 0 0 1\r\n0\r\n");
    std::thread::scope(|scope| {
        for number in 0..16 {
            scope.spawn(move || {
                let mut client = connect(items);
                for round in 0..10 {
                    assert_ne!(ask(&mut client, "incr n 1\r\n"), "NOT_FOUND\r\n");
                    let key = format!("k{number}.{round}");
                    assert_eq!(
                        ask(&mut client, &format!("add {key} 0 0 1\r\n1\r\nadd same{round} 0 0 1 noreply\r\n1\r\n")),
                        "STORED\r\n"
                    );
                }
            });
        }
    });
    site.kill();
    site.start();
    let mut app = Client::log_in(sql, "app", "secret", "shop");
    assert_eq!(app.query("SELECT value FROM kv WHERE name = 'n'"), Ok("160".into()));
    assert_eq!(app.query("SELECT COUNT(*) FROM kv"), Ok("171".into()));
}

#[test]
fn tables_of_other_shapes() {
    let (site, items, sql) = with_table("kv", "");
    let mut app = Client::log_in(sql, "app", "secret", "shop");
    let mut client = connect(items);
    assert_eq!(ask(&mut client, "set a 0 0 1\r\n1\r\n"), "STORED\r\n");
    // The table is another one while the port is open: what it lacks is refused, the rest goes on.
    app.query("DROP TABLE kv").expect("dropped");
    assert!(
        ask(&mut client, "get a\r\nset a 0 0 1\r\n1\r\n").starts_with("SERVER_ERROR Table 'shop.kv' doesn't exist")
    );
    app.query("CREATE TABLE kv (id VARCHAR(20) COLLATE utf8mb4_bin PRIMARY KEY, value VARCHAR(5) NOT NULL, note INT)")
        .expect("made");
    ask(&mut client, "get a\r\n");
    let answers = ask(
        &mut client,
        "set a 0 0 2\r\nab\r\nset a 1 0 1\r\n1\r\ntouch a 10\r\nset a 0 0 6\r\n123456\r\nget a\r\nmd a I\r\n",
    );
    let lines: Vec<_> = answers.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "STORED",
            "SERVER_ERROR the table has no column \"flags\"",
            "SERVER_ERROR the table has no column \"expires\""
        ]
    );
    assert!(lines[3].starts_with("SERVER_ERROR Data too long for column 'value'"), "{}", lines[3]);
    assert_eq!(lines[4..], ["VALUE a 0 2", "ab", "END", "SERVER_ERROR the table has no column \"state\""]);
    app.query("UPDATE kv SET note = 5").expect("changed");
    let got = ask(&mut client, "gets a\r\n");
    let cas = got.lines().next().and_then(|line| line.rsplit(' ').next()).expect("a number").to_owned();
    assert_eq!(ask(&mut client, &format!("cas a 0 0 1 {cas}\r\nx\r\n")), "STORED\r\n");
    assert_eq!(app.query("SELECT value, note FROM kv"), Ok("x|5".into()), "other columns stay");
    // Columns that it gets are used from the next request on, and those that it loses are not missed.
    app.query("ALTER TABLE kv ADD flags INT UNSIGNED NOT NULL DEFAULT 7, DROP note").expect("altered");
    assert_eq!(
        ask(&mut client, "get a\r\nset a 1 0 1\r\n1\r\nget a\r\n"),
        "VALUE a 7 1\r\nx\r\nEND\r\nSTORED\r\nVALUE a 1 1\r\n1\r\nEND\r\n"
    );
    app.query("ALTER TABLE kv DROP flags").expect("altered");
    assert_eq!(ask(&mut client, "get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
    end(site);
    // A table that cannot hold items keeps the server from starting.
    let refused = Site::new("", "");
    let script = refused.dir.join("shop.sql");
    std::fs::write(&script, "CREATE TABLE kv (a INT, b INT, PRIMARY KEY (a, b));").expect("written");
    let (port, script) = (free_port(), script.display());
    let main = format!("database {{ schema shop init={script}; listen 127.0.0.1:{port} memcached table=shop.kv; }}");
    refused.configure(&main, "location / { echo ok; }");
    let output = support::output(refused.command().args(["-g", "daemon off;"]));
    assert!(!output.status.success());
    assert!(refused.log().contains("its primary key must be one column"), "{}", refused.log());
}

/// A key that its column cannot hold is one of no row: the other keys of a `get` are found, and nothing is rounded to another row.
#[test]
fn keys_that_no_row_can_have() {
    let (site, items, sql) = with_table("kv", "");
    let mut app = Client::log_in(sql, "app", "secret", "shop");
    let more = "value LONGBLOB NOT NULL, flags INT UNSIGNED NOT NULL DEFAULT 0, expires BIGINT NOT NULL DEFAULT 0, \
                cas BIGINT UNSIGNED NOT NULL DEFAULT 0, state BIGINT UNSIGNED NOT NULL DEFAULT 0";
    let wrong: [(&str, &str, &[&str]); 5] = [
        ("VARBINARY(5)", "abcde", &["abcdef"]),
        ("VARCHAR(5) COLLATE utf8mb4_bin", "äöüäö", &["äöüäöü"]),
        ("INT", "1", &["1.4", "0.6", "1e0", "01", "+1", "x", "1x", "2147483648"]),
        ("DECIMAL(5,2)", "1.50", &["1.504", "1.5", "1000.00"]),
        ("DATETIME", "", &["2026-01-02", "20260102030405", "never"]),
    ];
    for (column, right, wrong) in wrong {
        app.query("DROP TABLE kv").expect("dropped");
        app.query(&format!("CREATE TABLE kv (k {column} PRIMARY KEY, {more})")).expect("made");
        let mut client = connect(items);
        // The port hears of the other definition with the first request that does not fit.
        ask(&mut client, "get x\r\n");
        if !right.is_empty() {
            assert_eq!(ask(&mut client, &format!("set {right} 0 0 1\r\n7\r\n")), "STORED\r\n", "{column}");
        }
        for wrong in wrong {
            let mut check = |request: &str, expected: &str| {
                let request = request.replace('|', "\r\n").replace('K', wrong);
                assert_eq!(ask(&mut client, &request).replace("\r\n", "|"), expected, "{column}: {request}");
            };
            check("set K 0 0 1|9|add K 0 0 1|9|replace K 0 0 1|9|append K 0 0 1|9|", &"NOT_STORED|".repeat(4));
            check("cas K 0 0 1 5|9|delete K|incr K 1|touch K 5|", &"NOT_FOUND|".repeat(4));
            check("get K|gets K K|gat 0 K|set K 0 0 1 noreply|9|", "END|END|END|");
            check("mg K v|mg K v q|mg K N30 v|mg K N30 v q|ms K 1|9|ma K|ma K N0 J5|md K|", "EN|EN|NS|NF|NS|NF|");
            if !right.is_empty() {
                let found = format!("VALUE {right} 0 1\r\n7\r\nEND\r\n");
                assert_eq!(ask(&mut client, &format!("get {wrong} {right} {wrong}\r\n")), found, "{column}");
            }
        }
        let rows = if right.is_empty() { "0" } else { "1" };
        assert_eq!(app.query("SELECT COUNT(*) FROM kv"), Ok(rows.into()), "{column}");
        assert_eq!(ask(&mut client, "flush_all\r\n"), "OK\r\n");
        assert_eq!(app.query("SELECT COUNT(*) FROM kv"), Ok("0".into()), "{column}");
    }
    end(site);
}

/// Whatever SQL does to a row, a number that was read before is good no more; not even if the content is the same again.
#[test]
fn numbers_of_before_a_statement() {
    let (site, items, sql) = with_table("kv", "");
    let mut client = connect(items);
    let mut app = Client::log_in(sql, "app", "secret", "shop");
    app.query("INSERT INTO kv (name, value) VALUES ('by_sql', 'A')").expect("inserted");
    ask(&mut client, "set ours 0 100 1\r\nA\r\nset other 0 0 1\r\nA\r\n");
    let cas_of = |client: &mut TcpStream, key: &str| {
        let got = ask(client, &format!("gets {key}\r\n"));
        got.lines().next().and_then(|line| line.rsplit(' ').next()).expect("a number").to_owned()
    };
    let other = cas_of(&mut client, "other");
    for key in ["by_sql", "ours"] {
        let changes: [&[&str]; 4] = [
            &["UPDATE kv SET value = 'B' WHERE name = ?", "UPDATE kv SET value = 'A' WHERE name = ?"],
            &["UPDATE kv SET expires = 0 WHERE name = ?", "UPDATE kv SET expires = 4000000000 WHERE name = ?"],
            &["DELETE FROM kv WHERE name = ?", "INSERT INTO kv (name, value) VALUES (?, 'A')"],
            &["REPLACE INTO kv (name, value) VALUES (?, 'A')"],
        ];
        for change in changes {
            let before = cas_of(&mut client, key);
            for statement in change {
                app.query(&statement.replace('?', &format!("'{key}'"))).expect("changed");
            }
            assert_eq!(ask(&mut client, &format!("cas {key} 0 0 1 {before}\r\nx\r\n")), "EXISTS\r\n", "{change:?}");
            let after = cas_of(&mut client, key);
            assert_eq!(ask(&mut client, &format!("cas {key} 0 0 1 {after}\r\nA\r\n")), "STORED\r\n", "{change:?}");
        }
    }
    assert_eq!(ask(&mut client, &format!("cas other 0 0 1 {other}\r\nB\r\n")), "STORED\r\n", "others stay as they are");
    end(site);
}

/// A table whose columns cannot hold items keeps the server from starting.
#[test]
fn columns_that_hold_something_else() {
    let refused = |columns: &str, expected: &str| {
        let site = Site::new("", "");
        let script = site.dir.join("shop.sql");
        std::fs::write(&script, format!("CREATE TABLE kv (k VARBINARY(9) PRIMARY KEY, {columns});")).expect("written");
        let (port, script) = (free_port(), script.display());
        let main =
            format!("database {{ schema shop init={script}; listen 127.0.0.1:{port} memcached table=shop.kv; }}");
        site.configure(&main, "location / { echo ok; }");
        let output = support::output(site.command().args(["-g", "daemon off;"]));
        assert!(!output.status.success(), "{columns}");
        assert!(site.log().contains(expected), "{columns}: {}", site.log());
    };
    refused("value INT", "its column \"value\" must be a VARCHAR, VARBINARY, TEXT or BLOB");
    refused("value CHAR(5)", "its column \"value\" must be");
    refused("value BLOB, expires DATETIME", "its column \"expires\" must be a BIGINT, seconds since 1970");
    refused("value BLOB, flags BIGINT", "its column \"flags\" must be an INT UNSIGNED");
    refused("value BLOB, cas BIGINT UNSIGNED, state BIGINT", "its column \"state\" must be a BIGINT UNSIGNED");
}

/// What is wrong in a configuration is said with its place.
#[test]
fn configurations_that_make_no_sense() {
    let refused = |database: &str, expected: &str| {
        let site = Site::new(&format!("database {{ {database} }}"), "location / { echo ok; }");
        let output = site.run(&["-t"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{database}: {said}");
    };
    refused("listen 127.0.0.1:1 memcached zone=a;", "zone \"a\" is unknown");
    refused("listen 127.0.0.1:1 memcached;", "names no place for its items");
    refused("listen 127.0.0.1:1 memcache zone=a;", "invalid parameter \"memcache\"");
    refused("listen 127.0.0.1:1 memcached table=kv;", "\"table=kv\" names no table");
    refused("memcached_zone a 1k;", "zone \"a\" is too small");
    refused("memcached_zone a x;", "invalid zone size \"x\"");
    refused("memcached_zone a 1m; memcached_zone a 2m;", "duplicate zone \"a\"");
    refused("memcached_zone a 1m; listen 1 memcached zone=a;", "there is no \"user\" with a password");
    refused("memcached_zone a 1m; user app password=; listen 127.0.0.1:1 memcached zone=a auth;", "nobody may log in");
    refused("memcached_zone a 1m; listen 127.0.0.1:1 memcached zone=a zones=b;", "invalid parameter \"zones=b\"");
}
