//! Accounts at the MySQL port: who gets in, and that no command goes around what an account may do.

#[path = "support/mysql_client.rs"]
mod mysql_client;
mod support;

use std::sync::Arc;

use mysql_client::{CAPABILITIES, Client};
use support::{PATIENCE, Site, free_port};
use tidegate_mysql::handshake::{self, Response};
use tidegate_mysql::{Address, Conn, ConnectOptions, answer, auth};

/// What MySQL keeps of the password `secret`, in hexadecimal; its salt has a quote, a backslash and the end of a line.
const SALTED: &str = "2441243030352430313233343536373839275c0a61626364656667\
                      36504c455a5630693535322f4b786661596853796731354a6b335663392e4e6d7159565a567a4b59544c34";

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

/// The number of the error of a login. Who does not exist may be asked for more, as others are.
fn refused(port: u16, user: &str, password: &str, schema: &str) -> u16 {
    let mut client = Client::connect(port);
    let response = client.response(user, password, schema);
    client.send(&response);
    loop {
        let packet = client.read().expect("an answer");
        match packet[0] {
            answer::ERR => return answer::error(&packet).code,
            answer::EOF | answer::MORE_DATA => client.send(b"nothing that would prove anything"),
            _ => panic!("{user} is logged in"),
        }
    }
}

/// A connection of the client that `drizzle_pass` uses.
fn connected(port: u16, user: &str, password: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = ConnectOptions::new(Address::tcp("127.0.0.1", port), user, password);
    runtime.block_on(Conn::connect(Arc::new(options))).is_ok()
}

/// A client that has begun to log in by `caching_sha2_password` and is asked for its password, if it is.
fn asked_for_password(port: u16, user: &str) -> Option<Client> {
    let mut client = Client::connect(port);
    let response = Response {
        capabilities: CAPABILITIES,
        user: user.into(),
        proof: auth::caching_sha2(b"a guess", &client.greeting.nonce),
        plugin: b"caching_sha2_password".to_vec(),
        ..Response::default()
    };
    let mut out = Vec::new();
    response.put(&mut out);
    client.send(&out);
    (client.read().expect("an answer") == b"\x01\x04").then_some(client)
}

/// The server's key, as a client is told that is asked for its password.
fn key(client: &mut Client) -> String {
    client.send(b"\x02");
    let packet = client.read().expect("a key");
    assert_eq!(packet[0], answer::MORE_DATA);
    String::from_utf8(packet[1..].to_vec()).expect("PEM")
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
fn accounts_of_mysql_log_in_by_their_passwords() {
    let (mut site, port) = started();
    let mut app = app(port);
    app.query(&format!(
        "CREATE USER old@'%' IDENTIFIED WITH 'caching_sha2_password' AS 0x{SALTED} REQUIRE NONE PASSWORD EXPIRE DEFAULT \
         ACCOUNT UNLOCK PASSWORD HISTORY DEFAULT PASSWORD REUSE INTERVAL DEFAULT PASSWORD REQUIRE CURRENT DEFAULT"
    ))
    .expect("made");
    assert_eq!(
        app.query("SELECT HEX(authentication_string) FROM mysql.user WHERE user = 'old'").map(|hex| hex.to_lowercase()),
        Ok(SALTED.into())
    );
    let shown = "SHOW STATUS LIKE 'Caching_sha2_password_rsa_public_key'";
    assert_eq!(app.query(shown).expect("a row"), "Caching_sha2_password_rsa_public_key|", "nobody has wanted it");
    let paths = "SELECT @@caching_sha2_password_private_key_path, @@caching_sha2_password_public_key_path";
    assert_eq!(app.query(paths), Ok("private_key.pem|public_key.pem".into()));
    assert!(!connected(port, "old", "Secret") && connected(port, "old", "secret"));
    // The fast way from now on.
    let (mut old, asked) = log_in_with_sha2(port, "old", b"secret");
    assert_eq!((asked, old.outcome()), (None, Ok(0)));
    // A wrong fast proof may still be followed by the password, which is encrypted for the key that is told once.
    let mut client = asked_for_password(port, "old").expect("asked");
    let pem = key(&mut client);
    assert_eq!(app.query(shown).expect("a row"), format!("Caching_sha2_password_rsa_public_key|{pem}"));
    client.send(b"\x02");
    assert_eq!((client.outcome(), client.read()), (Err(1045), None));
    for sent in [&b""[..], b"\0", b"secret\0", &[0; 255], &[0; 256], &[0xff; 256], &[7; 257], &[1; 5000]] {
        let mut client = asked_for_password(port, "old").expect("asked");
        if sent.len().is_multiple_of(2) {
            assert_eq!(key(&mut client), pem);
        }
        client.send(sent);
        assert_eq!((client.outcome(), client.read()), (Err(1045), None), "{} bytes", sent.len());
        // Failures in a row would have the user wait.
        assert!(connected(port, "old", "secret"));
    }
    // Some who do not exist are asked for a password as well.
    let mut nobody = (0..200).find_map(|number| asked_for_password(port, &format!("nobody{number}"))).expect("asked");
    assert_eq!(key(&mut nobody), pem);
    nobody.send(&[1; 256]);
    assert_eq!((nobody.outcome(), nobody.read()), (Err(1045), None));
    drop(app);
    site.quit();
    site.start();
    assert!(connected(port, "old", "secret"), "the account is there, and nothing is known of its password");
    let mut client = asked_for_password(port, "old").expect("asked");
    assert_eq!(key(&mut client), pem, "the key stays");
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
    app(port).query("CREATE ROLE reader; GRANT SELECT ON other.* TO reader; GRANT reader TO bob; SET DEFAULT ROLE reader FOR bob; \
        CREATE USER eve IDENTIFIED VIA ed25519 USING PASSWORD('y')").expect("made");
    site.quit();
    site.start();
    assert!(connected(port, "eve", "y") && !connected(port, "eve", "x"));
    let mut bob = Client::log_in(port, "bob", "x", "");
    assert_eq!(bob.query("SELECT b FROM shop.t; SELECT a FROM other.x"), Ok(String::new()));
    assert_eq!(bob.query("INSERT INTO other.x VALUES (1)"), Err(1142));
    assert_eq!(bob.query("SET ROLE NONE; SELECT a FROM other.x"), Err(1142));
    finish(site);
}
