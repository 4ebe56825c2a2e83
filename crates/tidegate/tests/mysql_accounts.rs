//! Accounts at the MySQL port: who gets in, and that no command goes around what an account may do.

#[path = "support/mysql_client.rs"]
mod mysql_client;
mod support;

use mysql_client::{CAPABILITIES, Client};
use support::{PATIENCE, Site, free_port};
use tidegate_mysql::handshake::{self, Response};
use tidegate_mysql::{answer, auth};

/// A server with two schemas, and a user `bob` who may read one table and change a column of it.
fn started() -> (Site, u16) {
    let port = free_port();
    let main =
        format!("database {{ schema shop; schema other; user app password=secret; listen 127.0.0.1:{port} mysql; }}");
    let mut site = Site::new(&main, "location / { echo ok; }");
    site.start();
    let mut app = app(port);
    app.query("CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 2); CREATE TABLE other.x (a INT)")
        .expect("made");
    app.query("CREATE USER bob IDENTIFIED BY 'x'; GRANT SELECT ON shop.t TO bob; GRANT UPDATE (b) ON shop.t TO bob")
        .expect("made");
    (site, port)
}

fn app(port: u16) -> Client {
    Client::log_in(port, "app", "secret", "shop")
}

fn finish(mut site: Site) {
    site.quit();
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("[crit]") && !log.contains("panicked"), "{log}");
}

/// The number of the error of a login.
fn refused(port: u16, user: &str, password: &str, schema: &str) -> u16 {
    let mut client = Client::connect(port);
    let response = client.response(user, password, schema);
    client.send(&response);
    client.outcome().expect_err("no login")
}

/// A login that begins with `caching_sha2_password`; what the server asks for instead, if it does.
fn log_in_with_sha2(port: u16, user: &str, password: &[u8]) -> (Client, Option<Vec<u8>>) {
    let mut client = Client::connect(port);
    let response = Response {
        capabilities: CAPABILITIES,
        user: user.into(),
        proof: auth::caching_sha2(password, &client.greeting.nonce),
        plugin: b"caching_sha2_password".to_vec(),
        ..Response::default()
    };
    let mut out = Vec::new();
    response.put(&mut out);
    client.send(&out);
    let packet = client.read().expect("an answer");
    if packet[0] != answer::EOF {
        assert_eq!(packet, b"\x01\x03", "the fast way");
        return (client, None);
    }
    let (plugin, nonce) = handshake::read_switch(&packet).expect("a switch");
    let proof = auth::native(password, nonce);
    client.send(&proof);
    (client, Some(plugin.to_vec()))
}

#[test]
fn who_gets_in() {
    let (site, port) = started();
    let mut app = app(port);
    let mut bob = Client::log_in(port, "bob", "x", "shop");
    assert_eq!(bob.query("SELECT CURRENT_USER()"), Ok("bob@%".into()));
    for (user, password, schema, code) in [
        ("bob", "y", "", 1045),
        ("bob", "", "", 1045),
        ("bob", "x", "other", 1044),
        ("Bob", "x", "", 1045),
        ("root", "", "", 1045),
    ] {
        assert_eq!(refused(port, user, password, schema), code, "{user} {password} {schema}");
    }
    // The digits alone prove nothing.
    let digits = app.query("SELECT authentication_string FROM mysql.user WHERE user = 'bob'").expect("digits");
    assert_eq!(refused(port, "bob", &digits, ""), 1045);
    let (mut bob, asked) = log_in_with_sha2(port, "bob", b"x");
    assert_eq!((asked.as_deref(), bob.outcome()), (Some(&b"mysql_native_password"[..]), Ok(0)));
    assert_eq!(bob.query("SELECT b FROM shop.t"), Ok("2".into()));
    app.query("CREATE USER new IDENTIFIED WITH caching_sha2_password BY 'z'; CREATE USER open").expect("made");
    let (mut new, asked) = log_in_with_sha2(port, "new", b"z");
    assert_eq!((asked, new.outcome()), (None, Ok(0)));
    assert_eq!(new.query("SELECT CURRENT_USER()"), Ok("new@%".into()));
    drop(Client::log_in(port, "open", "", ""));
    assert_eq!(refused(port, "open", "x", ""), 1045);
    app.query("ALTER USER bob ACCOUNT LOCK").expect("locked");
    assert_eq!(refused(port, "bob", "x", ""), 4151);
    assert_eq!(refused(port, "bob", "y", ""), 1045, "a stranger learns nothing");
    app.query("ALTER USER bob IDENTIFIED BY 'y' ACCOUNT UNLOCK").expect("unlocked");
    drop(Client::log_in(port, "bob", "y", ""));
    app.query("DROP USER bob").expect("dropped");
    assert_eq!(refused(port, "bob", "y", ""), 1045);
    finish(site);
}

#[test]
fn no_command_goes_around_privileges() {
    let (site, port) = started();
    let (mut app, mut bob) = (app(port), Client::log_in(port, "bob", "x", "shop"));
    // Another schema, by COM_INIT_DB.
    bob.command(2, b"other");
    assert_eq!(bob.outcome(), Err(1044));
    bob.command(2, b"shop");
    assert_eq!(bob.outcome(), Ok(0));
    // The columns of a table, by COM_FIELD_LIST.
    app.query("CREATE TABLE hidden (a INT)").expect("made");
    bob.command(4, b"hidden\0");
    assert_eq!(bob.outcome(), Err(1142));
    // COM_STMT_PREPARE describes nothing that is not to be seen.
    bob.command(0x16, b"SELECT * FROM hidden");
    assert_eq!(bob.outcome(), Err(1142));
    // All statements of a text are asked for.
    assert_eq!(bob.query("SELECT a FROM t; SELECT a FROM hidden"), Err(1142));
    // A connection of somebody else.
    let other = app.greeting.thread_id;
    bob.command(12, &other.to_le_bytes());
    assert_eq!(bob.outcome(), Err(1095));
    assert_eq!(bob.query(&format!("KILL {other}")), Err(1095));
    assert_eq!(bob.query("KILL QUERY 999999"), Err(1094));
    let mut again = Client::log_in(port, "bob", "x", "");
    assert_eq!(bob.query(&format!("KILL {}", again.greeting.thread_id)), Ok(String::new()));
    again.command(14, b"");
    assert!(again.read().is_none_or(|packet| packet[0] == answer::ERR));
    finish(site);
}

#[test]
fn a_prepared_statement_does_not_outlive_the_privilege() {
    let (site, port) = started();
    let (mut app, mut bob) = (app(port), Client::log_in(port, "bob", "x", "shop"));
    bob.command(0x16, b"SELECT b FROM t");
    let prepared = bob.read().expect("prepared");
    bob.read().expect("its column");
    let execute = [&prepared[1..5], &[0, 1, 0, 0, 0]].concat();
    let executed = |bob: &mut Client| {
        bob.command(0x17, &execute);
        let packet = bob.read().expect("an answer");
        match packet[0] {
            answer::ERR => Err(answer::error(&packet).code),
            _ => {
                // The column, the row, and the end.
                (0..3).for_each(|_| drop(bob.read().expect("rows")));
                Ok(())
            }
        }
    };
    assert_eq!(executed(&mut bob), Ok(()));
    assert_eq!(executed(&mut bob), Ok(()));
    app.query("REVOKE SELECT ON shop.t FROM bob").expect("revoked");
    assert_eq!(executed(&mut bob), Err(1142));
    app.query("GRANT SELECT ON shop.t TO bob").expect("granted");
    assert_eq!(executed(&mut bob), Ok(()));
    // A transaction that has begun before.
    assert_eq!(bob.query("BEGIN; SELECT b FROM t"), Ok("2".into()));
    app.query("REVOKE ALL, GRANT OPTION FROM bob").expect("revoked");
    assert_eq!(executed(&mut bob), Err(1142));
    assert_eq!(bob.query("SELECT b FROM t"), Err(1142));
    // A server that ends leaves transactions their time.
    assert_eq!(bob.query("ROLLBACK"), Ok(String::new()));
    finish(site);
}

#[test]
fn another_user_on_a_connection_has_his_own_privileges() {
    let (site, port) = started();
    let mut client = app(port);
    client.query("CREATE USER plain").expect("made");
    assert_eq!(client.query("SELECT a FROM other.x"), Ok(String::new()));
    client.command(0x11, b"plain\0\0\0\x2d\0mysql_native_password\0");
    assert_eq!(client.outcome(), Ok(0));
    assert_eq!(client.query("SELECT CURRENT_USER(), DATABASE()"), Ok("plain@%|NULL".into()));
    assert_eq!(client.query("SELECT a FROM other.x"), Err(1142));
    // COM_RESET_CONNECTION gives nothing back.
    client.command(0x1f, b"");
    assert_eq!(client.outcome(), Ok(0));
    assert_eq!(client.query("SELECT a FROM other.x"), Err(1142));
    assert_eq!(client.query("SELECT CURRENT_USER()"), Ok("plain@%".into()));
    finish(site);
}

#[test]
fn accounts_are_there_after_a_restart() {
    let (mut site, port) = started();
    app(port).query("CREATE ROLE reader; GRANT SELECT ON other.* TO reader; GRANT reader TO bob; SET DEFAULT ROLE reader FOR bob").expect("made");
    site.quit();
    site.start();
    let mut bob = Client::log_in(port, "bob", "x", "");
    assert_eq!(bob.query("SELECT b FROM shop.t; SELECT a FROM other.x"), Ok(String::new()));
    assert_eq!(bob.query("INSERT INTO other.x VALUES (1)"), Err(1142));
    assert_eq!(bob.query("SET ROLE NONE; SELECT a FROM other.x"), Err(1142));
    finish(site);
}
