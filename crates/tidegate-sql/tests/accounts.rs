//! Accounts of a whole engine: what is changed by one session holds for the next statement of another.

use std::{os::unix::fs::PermissionsExt, path::PathBuf};

use tidegate_rows::{Execute, QueryError, Statement, json::Json, json::JsonOptions, sink::Collect};

use tidegate_sql::{ConfiguredUser, Engine, EngineOptions, Origin, Session};

/// An engine with a user `app` of the configuration, whose directory goes with it.
struct Fixture {
    engine: Engine,
    path: PathBuf,
    _directory: Directory,
}

/// Removed in the end.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options(path: &PathBuf) -> EngineOptions {
    let users = vec![ConfiguredUser { name: "app".into(), password: (*b"secret").into() }];
    EngineOptions { users, ..EngineOptions::new(path) }
}

impl Fixture {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-sql-accounts-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self { engine: Engine::open(options(&path)).unwrap(), path: path.clone(), _directory: Directory(path) }
    }

    /// Another engine over the same directory.
    fn opened_again(self) -> Self {
        let Self { engine, path, _directory } = self;
        drop(engine);
        Self { engine: Engine::open(options(&path)).unwrap(), path, _directory }
    }

    /// Why the directory cannot be opened once more.
    fn try_again(self) -> Result<(), String> {
        let Self { engine, path, _directory } = self;
        drop(engine);
        Engine::open(options(&path)).map(drop).map_err(|error| error.to_string())
    }

    /// A session of somebody who has logged in.
    fn session(&self, user: &str) -> Session {
        let login = self.engine.login(user, Origin::Local).expect("an account");
        let session = self.engine.session("").unwrap();
        session.connect(user, "localhost", &login.host);
        session
    }
}

/// What a text answers, or the number of its error.
async fn run(session: &mut Session, sql: &str) -> Result<String, u16> {
    let json = JsonOptions::default();
    let mut sink = Collect { format: Json::batch(&json), out: Vec::new() };
    match session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut sink).await {
        Ok(()) => Ok(String::from_utf8(sink.out).unwrap()),
        Err(QueryError::Server(error)) => Err(error.code),
        Err(error) => panic!("{sql}: {error}"),
    }
}

async fn all(session: &mut Session, texts: &[&str]) {
    for sql in texts {
        run(session, sql).await.unwrap_or_else(|code| panic!("{sql}: {code}"));
    }
}

/// Each text with the number of its error, 0 for none.
#[track_caller]
fn check(answers: Vec<(&str, Result<String, u16>)>, expected: &[u16]) {
    let codes: Vec<u16> = answers.iter().map(|(_, answer)| answer.as_ref().err().copied().unwrap_or(0)).collect();
    for ((sql, answer), expected) in answers.iter().zip(expected) {
        assert_eq!(answer.as_ref().err().copied().unwrap_or(0), *expected, "{sql}: {answer:?}");
    }
    assert_eq!(codes.len(), expected.len());
}

macro_rules! expect {
    ($session:expr, $($sql:literal => $code:literal),* $(,)?) => {{
        let mut answers = Vec::new();
        $(answers.push(($sql, run($session, $sql).await));)*
        check(answers, &[$($code),*]);
    }};
}

const SHOP: &[&str] = &[
    "CREATE DATABASE shop; USE shop",
    "CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT); INSERT INTO t VALUES (1, 2, 3)",
    "CREATE TABLE u (a INT); CREATE VIEW v AS SELECT a, b FROM t; CREATE DATABASE other; CREATE TABLE other.x (a INT)",
    "CREATE USER bob IDENTIFIED BY 'x'",
];

#[tokio::test]
async fn nothing_is_allowed_that_was_not_granted() {
    let fixture = Fixture::new("nothing");
    let mut app = fixture.session("app");
    all(&mut app, SHOP).await;
    let mut bob = fixture.session("bob");
    expect!(&mut bob,
        "SELECT 1" => 0, "USE shop" => 1044, "SELECT * FROM shop.t" => 1142, "SELECT * FROM shop.nope" => 1142,
        "SELECT * FROM nope.x" => 1142, "SELECT count(*) FROM shop.v" => 1142,
        "INSERT INTO shop.t VALUES (2, 2, 2)" => 1142, "REPLACE shop.t VALUES (2, 2, 2)" => 1142,
        "UPDATE shop.t SET b = 1" => 1142, "DELETE FROM shop.t" => 1142, "TRUNCATE shop.t" => 1142,
        "CREATE TABLE shop.n (a INT)" => 1142, "CREATE TEMPORARY TABLE shop.n (a INT)" => 1044,
        "DROP TABLE shop.t" => 1142, "DROP TABLE IF EXISTS shop.nope" => 1142, "ALTER TABLE shop.t ADD d INT" => 1142,
        "RENAME TABLE shop.t TO shop.q" => 1142, "CREATE INDEX i ON shop.t (b)" => 1142,
        "CREATE VIEW shop.w AS SELECT 1" => 1142, "DROP VIEW shop.v" => 1142, "CREATE DATABASE mine" => 1044,
        "DROP DATABASE shop" => 1044, "LOCK TABLES shop.t READ" => 1044, "FLUSH TABLES" => 1227,
        "FLUSH TABLES WITH READ LOCK" => 1227, "SET GLOBAL max_connections = 1" => 1227,
        "SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE" => 1227, "SHOW CREATE TABLE shop.t" => 1142,
        "SHOW CREATE VIEW shop.v" => 1142, "SHOW COLUMNS FROM shop.t" => 1142, "DESCRIBE shop.t" => 1142,
        "SHOW INDEX FROM shop.t" => 1142, "SHOW TABLES FROM shop" => 1044, "SHOW TABLE STATUS FROM shop" => 1044,
        "SHOW CREATE DATABASE shop" => 1044, "ANALYZE TABLE shop.t" => 1142, "CHECK TABLE shop.t" => 1142,
        "SHOW ENGINE INNODB STATUS" => 1227, "SELECT * FROM information_schema.innodb_trx" => 1227,
        "EXPLAIN SELECT * FROM shop.t" => 1142, "DO (SELECT a FROM shop.t)" => 1142,
        "SET @x = (SELECT a FROM shop.t)" => 1142, "SELECT a FROM shop.t INTO @x" => 1142,
        "PREPARE p FROM 'SELECT a FROM shop.t WHERE a = ?'" => 1142, "CREATE USER eve" => 1227, "DROP USER bob" => 1227,
        "ALTER USER bob IDENTIFIED BY 'y'" => 1227, "RENAME USER bob TO bab" => 1227, "CREATE ROLE r" => 1227,
        "GRANT SELECT ON shop.t TO bob" => 1142, "GRANT SELECT ON shop.* TO bob" => 1044, "GRANT USAGE ON *.* TO bob" => 1045,
        "GRANT ALL ON *.* TO bob" => 1045, "REVOKE ALL, GRANT OPTION FROM app" => 1227,
        "SET PASSWORD FOR app = PASSWORD('x')" => 1044, "SHOW GRANTS FOR app" => 1044, "SHOW CREATE USER app" => 1044,
        "SELECT * FROM mysql.user" => 1142, "KILL USER app" => 1227, "USE information_schema" => 0,
        "SELECT * FROM tables" => 0,
    );
    let seen = run(&mut bob, "SELECT schema_name FROM information_schema.schemata").await.unwrap();
    assert!(!seen.contains("shop") && seen.contains("information_schema"), "{seen}");
    let sql = "SELECT count(*) AS n FROM information_schema.columns WHERE table_schema IN ('shop', 'other')";
    assert!(run(&mut bob, sql).await.unwrap().contains("\"n\":0"));
    let lines = run(&mut bob, "SHOW PROCESSLIST").await.unwrap();
    assert!(lines.contains("\"bob\"") && !lines.contains("\"app\""), "{lines}");
}

#[tokio::test]
async fn a_revoke_holds_for_the_next_statement() {
    let fixture = Fixture::new("revoke");
    let (mut app, mut inside) = (fixture.session("app"), fixture.engine.session("").unwrap());
    all(&mut app, SHOP).await;
    all(&mut app, &["GRANT SELECT, UPDATE ON shop.* TO bob"]).await;
    let mut bob = fixture.session("bob");
    expect!(&mut bob, "USE shop" => 0, "PREPARE p FROM 'SELECT a FROM t'" => 0);
    // Plans are shared by all who are on this thread.
    for session in [&mut bob, &mut app] {
        expect!(session, "SELECT a FROM shop.t" => 0, "UPDATE shop.t SET b = 5 WHERE a = 1" => 0, "SELECT a FROM shop.t" => 0);
    }
    all(&mut inside, &["REVOKE SELECT ON shop.* FROM bob"]).await;
    expect!(&mut bob, "SELECT a FROM shop.t" => 1142, "EXECUTE p" => 1142, "UPDATE shop.t SET b = 5 WHERE a = 1" => 1143,
        "UPDATE shop.t SET b = 5" => 0);
    expect!(&mut app, "SELECT a FROM shop.t" => 0);
    all(&mut inside, &["GRANT SELECT (a) ON shop.t TO bob"]).await;
    expect!(&mut bob, "EXECUTE p" => 0, "SELECT a FROM shop.t" => 0, "UPDATE shop.t SET b = 5 WHERE a = 1" => 0);
    expect!(&mut bob, "BEGIN" => 0, "SELECT a FROM shop.t" => 0);
    all(&mut inside, &["DROP USER bob"]).await;
    expect!(&mut bob, "SELECT a FROM shop.t" => 1142, "EXECUTE p" => 1142, "ROLLBACK" => 0, "SELECT 1" => 0);
    // Somebody else of the same name has nothing of the first one's.
    all(&mut inside, &["CREATE USER bob"]).await;
    expect!(&mut bob, "SELECT a FROM shop.t" => 1142);
}

#[tokio::test]
async fn columns_have_privileges_of_their_own() {
    let fixture = Fixture::new("columns");
    let mut app = fixture.session("app");
    all(&mut app, SHOP).await;
    all(&mut app, &["GRANT SELECT (a), UPDATE (b), INSERT (a) ON shop.t TO bob; GRANT SELECT ON shop.u TO bob"]).await;
    let mut bob = fixture.session("bob");
    expect!(&mut bob,
        "USE shop" => 0, "SELECT a FROM t" => 0, "SELECT A FROM t" => 0, "SELECT b FROM t" => 1143, "SELECT * FROM t" => 1142,
        "SELECT t.* FROM t" => 1142, "SELECT count(*) FROM t" => 0, "SELECT 1 FROM t" => 0, "SELECT a FROM t WHERE b = 1" => 1143,
        "SELECT a FROM t ORDER BY b" => 1143, "SELECT a FROM t GROUP BY b" => 1143, "SELECT a FROM t HAVING max(b) > 1" => 1143,
        "SELECT (SELECT b FROM t LIMIT 1)" => 1143, "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM t q WHERE q.b = t.a)" => 1143,
        "SELECT u.a FROM u WHERE EXISTS (SELECT 1 FROM t WHERE b = u.a)" => 1143, "WITH q AS (SELECT b FROM t) SELECT 1" => 1143,
        "SELECT * FROM (SELECT a FROM t) x" => 0, "SELECT * FROM (SELECT b FROM t) x" => 1143, "SELECT u.* FROM t JOIN u USING (a)" => 0,
        "SELECT u.a FROM t q JOIN t USING (b) JOIN u" => 1143, "SELECT a FROM t UNION SELECT b FROM t" => 1143,
        "UPDATE t SET b = 3" => 0, "UPDATE t SET b = b + 1" => 1143, "UPDATE t SET b = 3 WHERE a = 1" => 0,
        "UPDATE t SET b = 3 WHERE c = 1" => 1143, "UPDATE t SET b = 3 ORDER BY c LIMIT 1" => 1143, "UPDATE t SET c = 1" => 1143,
        "UPDATE t SET b = 1, c = 1" => 1143, "UPDATE t, u SET u.a = 1" => 1142, "UPDATE t, u SET t.b = 1 WHERE t.a = u.a" => 0,
        "INSERT INTO t (a) VALUES (9)" => 0, "INSERT INTO t (a, b) VALUES (10, 1)" => 1143, "INSERT INTO t VALUES (10, 1, 1)" => 1142,
        "INSERT INTO t (a) SELECT 20 FROM t LIMIT 1" => 0, "INSERT INTO t (a) SELECT b FROM t" => 1143,
        "INSERT INTO t (a) VALUES (9) ON DUPLICATE KEY UPDATE b = 5" => 0,
        "INSERT INTO t (a) VALUES (9) ON DUPLICATE KEY UPDATE b = b + 5" => 1143,
        "INSERT INTO t (a) VALUES (9) ON DUPLICATE KEY UPDATE c = 5" => 1143,
        "INSERT INTO t (a) VALUES (30) RETURNING b" => 1143, "INSERT INTO t (a) VALUES (30) RETURNING *" => 1142,
        "INSERT INTO t (a) VALUES (30) RETURNING a" => 0, "REPLACE t (a) VALUES (1)" => 1142, "DELETE FROM t" => 1142,
        "DELETE u FROM u JOIN t" => 1142, "SHOW CREATE TABLE t" => 1142, "SHOW CREATE TABLE u" => 0, "DESCRIBE t" => 0,
        "EXPLAIN SELECT b FROM t" => 1143, "CREATE TEMPORARY TABLE p SELECT a FROM t" => 1044,
    );
    let shown = run(&mut bob, "SHOW COLUMNS FROM t").await.unwrap();
    assert!(shown.contains("\"a\"") && shown.contains("\"b\"") && !shown.contains("\"c\""), "{shown}");
    all(&mut app, &["GRANT CREATE TEMPORARY TABLES ON shop.* TO bob"]).await;
    expect!(&mut bob, "CREATE TEMPORARY TABLE p SELECT a FROM t" => 0, "INSERT INTO p VALUES (1)" => 0, "SELECT * FROM p" => 0,
        "TRUNCATE p" => 0, "ALTER TABLE p ADD z INT" => 0, "DROP TABLE p" => 0, "CREATE TEMPORARY TABLE p SELECT b FROM t" => 1143);
}

#[tokio::test]
async fn views_are_read_as_their_definers_may() {
    let fixture = Fixture::new("views");
    let mut app = fixture.session("app");
    all(&mut app, SHOP).await;
    all(&mut app, &[
        "CREATE USER eve; GRANT SELECT ON other.* TO eve; GRANT CREATE VIEW, SELECT, DROP ON other.* TO bob",
        "CREATE DEFINER = eve VIEW other.of_eve AS SELECT a FROM shop.t; CREATE SQL SECURITY INVOKER VIEW other.as_invoker AS SELECT a FROM shop.t",
        "CREATE VIEW other.of_app AS SELECT a, b FROM shop.t",
    ]).await;
    let mut bob = fixture.session("bob");
    expect!(&mut bob,
        "SELECT a FROM other.of_app" => 0, "SELECT * FROM other.of_eve" => 1356, "SELECT * FROM other.as_invoker" => 1356,
        "SELECT a FROM shop.t" => 1142, "EXPLAIN SELECT * FROM other.of_app" => 1345, "SHOW CREATE VIEW other.of_app" => 1142,
        "CREATE VIEW other.mine AS SELECT a FROM shop.t" => 1142, "CREATE DEFINER = app VIEW other.mine AS SELECT 1" => 1227,
        "CREATE DEFINER = root@localhost VIEW other.mine AS SELECT 1" => 1227, "CREATE VIEW other.mine AS SELECT a FROM other.x" => 0,
        "CREATE VIEW other.again AS SELECT a FROM other.of_app" => 0, "SELECT * FROM other.again" => 0,
    );
    let sql = "SELECT table_name, definer, view_definition FROM information_schema.views";
    let seen = run(&mut bob, sql).await.unwrap();
    assert!(seen.contains("bob@%") && seen.contains("eve@%") && !seen.contains("a, b"), "{seen}");
    expect!(&mut app, "SELECT * FROM other.of_eve" => 1356, "SELECT * FROM other.as_invoker" => 0, "SELECT * FROM other.mine" => 0);
    all(&mut app, &["REVOKE SELECT ON other.* FROM bob"]).await;
    expect!(&mut app, "SELECT * FROM other.mine" => 1356);
    all(&mut app, &["GRANT SELECT ON shop.t TO eve"]).await;
    expect!(&mut app, "SELECT * FROM other.of_eve" => 0);
    all(&mut app, &["DROP USER eve, bob"]).await;
    expect!(&mut app, "SELECT * FROM other.of_eve" => 1449, "SELECT * FROM other.mine" => 1449, "SELECT * FROM other.of_app" => 0);
}

#[tokio::test]
async fn views_are_written_through_as_their_definers_may() {
    let fixture = Fixture::new("view-writers");
    let mut app = fixture.session("app");
    all(&mut app, SHOP).await;
    all(&mut app, &[
        "CREATE USER eve; GRANT SELECT, UPDATE (b) ON shop.t TO eve",
        "CREATE DEFINER = eve VIEW shop.of_eve AS SELECT a, b FROM shop.t; CREATE SQL SECURITY INVOKER VIEW shop.as_invoker AS SELECT a, b FROM shop.t",
        "GRANT SELECT, INSERT, UPDATE (b), DELETE ON shop.v TO bob; GRANT ALL ON shop.of_eve TO bob; GRANT ALL ON shop.as_invoker TO bob",
    ]).await;
    let mut bob = fixture.session("bob");
    expect!(&mut bob,
        "INSERT INTO shop.v VALUES (2, 2)" => 0, "UPDATE shop.v SET b = 3" => 0, "UPDATE shop.v SET a = 3 WHERE a = 2" => 1143,
        "REPLACE shop.v VALUES (2, 4)" => 0, "INSERT INTO shop.v VALUES (2, 4) ON DUPLICATE KEY UPDATE a = 7" => 1143,
        "DELETE FROM shop.v WHERE a = 2" => 0, "DELETE v FROM shop.v JOIN shop.t" => 1142,
        "UPDATE shop.of_eve SET b = 4" => 0, "UPDATE shop.of_eve SET a = 4" => 1356, "INSERT INTO shop.of_eve VALUES (5, 5)" => 1356,
        "DELETE FROM shop.of_eve" => 1356, "UPDATE shop.as_invoker SET b = 1" => 1356,
        "INSERT INTO shop.as_invoker VALUES (7, 7)" => 1356, "UPDATE shop.t SET b = 1" => 1142,
    );
    all(&mut app, &["GRANT SELECT, INSERT ON shop.t TO bob"]).await;
    expect!(&mut bob, "INSERT INTO shop.as_invoker VALUES (7, 7)" => 0, "DELETE FROM shop.as_invoker" => 1356);
    all(&mut app, &["DROP USER eve"]).await;
    expect!(&mut bob, "UPDATE shop.of_eve SET b = 4" => 1449, "INSERT INTO shop.of_eve VALUES (5, 5)" => 1449);
}

#[tokio::test]
async fn nobody_gives_what_he_has_not() {
    let fixture = Fixture::new("gives");
    let mut app = fixture.session("app");
    all(&mut app, SHOP).await;
    all(
        &mut app,
        &["CREATE USER eve; GRANT SELECT ON shop.* TO bob WITH GRANT OPTION; GRANT CREATE USER ON *.* TO bob"],
    )
    .await;
    let (mut bob, mut eve) = (fixture.session("bob"), fixture.session("eve"));
    expect!(&mut bob,
        "GRANT SELECT ON shop.* TO eve" => 0, "GRANT SELECT ON shop.t TO eve" => 0, "GRANT INSERT ON shop.* TO eve" => 1044,
        "GRANT ALL ON shop.* TO bob" => 1044, "GRANT SELECT ON `sho%`.* TO eve" => 1044, "GRANT SELECT ON `%`.* TO eve" => 1044,
        "GRANT SELECT, INSERT ON shop.t TO eve" => 1142, "GRANT UPDATE (a) ON shop.t TO eve" => 1143, "GRANT SELECT ON *.* TO eve" => 1045,
        "GRANT PROCESS ON *.* TO bob" => 1045, "REVOKE SELECT ON shop.* FROM app" => 1396, "DROP USER app" => 1396,
        "ALTER USER app IDENTIFIED BY 'x'" => 1396, "RENAME USER app TO x" => 1396, "CREATE OR REPLACE USER app" => 1396,
        "DROP USER root@localhost" => 1396, "CREATE USER root@localhost" => 1396, "SELECT a FROM shop.t" => 0,
    );
    expect!(&mut eve, "SELECT a FROM shop.t" => 0, "GRANT SELECT ON shop.t TO bob" => 1142);
}

#[tokio::test]
async fn roles_give_what_they_have_while_they_are_enabled() {
    let fixture = Fixture::new("roles");
    let mut app = fixture.session("app");
    all(&mut app, SHOP).await;
    all(&mut app, &[
        "CREATE ROLE reader, writer; GRANT SELECT ON shop.* TO reader; GRANT INSERT ON shop.* TO writer; GRANT reader TO writer",
        "GRANT reader, writer TO bob",
    ]).await;
    let mut bob = fixture.session("bob");
    expect!(&mut bob, "SELECT a FROM shop.t" => 1142, "SET ROLE nope" => 1959, "SET ROLE reader" => 0, "SELECT a FROM shop.t" => 0,
        "INSERT INTO shop.u VALUES (1)" => 1142, "SET ROLE writer" => 0, "INSERT INTO shop.u VALUES (1)" => 0,
        "SELECT a FROM shop.t" => 0, "SET ROLE NONE" => 0, "SELECT a FROM shop.t" => 1142, "SET DEFAULT ROLE writer" => 0,
        "GRANT reader TO app" => 1698, "SHOW GRANTS FOR reader" => 0);
    let mut again = fixture.session("bob");
    expect!(&mut again, "SELECT a FROM shop.t" => 0);
    all(&mut app, &["REVOKE writer FROM bob"]).await;
    expect!(&mut again, "SELECT a FROM shop.t" => 1142);
    expect!(&mut app, "GRANT writer TO reader" => 1961, "GRANT nope TO bob" => 1959, "REVOKE writer FROM bob" => 1962, "DROP ROLE reader" => 0);
    expect!(&mut bob, "SET ROLE reader" => 1959);
}

#[tokio::test]
async fn accounts_survive_and_those_of_the_configuration_follow_it() {
    let fixture = Fixture::new("survive");
    let mut app = fixture.session("app");
    all(&mut app, SHOP).await;
    all(&mut app, &["GRANT SELECT ON shop.* TO bob; CREATE USER far@'10.0.0.%' ACCOUNT LOCK"]).await;
    let grants = run(&mut app, "SHOW GRANTS FOR bob").await.unwrap();
    drop(app);
    let fixture = fixture.opened_again();
    let path = &fixture.path;
    let mut app = fixture.session("app");
    assert_eq!(run(&mut app, "SHOW GRANTS FOR bob").await.unwrap(), grants);
    let mode = std::fs::metadata(path.join("accounts.sql")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let far = Origin::Address("10.0.0.7".parse().unwrap());
    assert!(fixture.engine.login("far", far).is_some_and(|login| login.is_locked));
    assert!(
        fixture.engine.login("far", Origin::Local).is_none() && fixture.engine.login("root", Origin::Local).is_none()
    );
    // The configuration has changed: its user is another one.
    let users = vec![ConfiguredUser { name: "other".into(), password: (*b"").into() }];
    fixture.engine.configure(EngineOptions { users, ..EngineOptions::new(path) }).unwrap();
    assert_eq!(run(&mut app, "SELECT a FROM shop.t").await, Err(1142));
    assert!(fixture.engine.login("app", Origin::Local).is_none() && fixture.engine.login("other", far).is_some());
    drop(app);
    std::fs::write(path.join("accounts.sql"), "SELECT 1;").unwrap();
    assert!(fixture.try_again().is_err_and(|error| error.contains("accounts.sql, line 1")));
}

#[tokio::test]
async fn the_closest_host_counts() {
    let fixture = Fixture::new("hosts");
    let mut app = fixture.session("app");
    all(&mut app, &["CREATE USER a@'%', a@'10.0.0.%', a@'10.0.0.1', a@localhost, a@'10.1.0.0/16'"]).await;
    let from = |address: &str| Origin::Address(address.parse().unwrap());
    for (origin, host) in [
        (Origin::Local, "localhost"),
        (from("127.0.0.1"), "localhost"),
        (from("10.0.0.1"), "10.0.0.1"),
        (from("10.0.0.2"), "10.0.0.%"),
        (from("10.1.2.3"), "10.1.0.0/16"),
        (from("8.8.8.8"), "%"),
    ] {
        assert_eq!(fixture.engine.login("a", origin).unwrap().host, host);
    }
}

#[tokio::test]
async fn the_hidden_names_of_temporary_tables_are_no_names() {
    let fixture = Fixture::new("hidden-names");
    let mut app = fixture.session("app");
    all(&mut app, SHOP).await;
    all(&mut app, &["GRANT CREATE TEMPORARY TABLES ON shop.* TO bob"]).await;
    let mut bob = fixture.session("bob");
    all(&mut bob, &["USE shop", "CREATE TEMPORARY TABLE own (a INT PRIMARY KEY)"]).await;
    let shown = run(&mut bob, "SHOW INDEX FROM own").await.unwrap();
    assert!(shown.contains(r#""Table":"own""#) && !shown.contains("#tmp"), "{shown}");
    expect!(&mut bob,
        "CREATE TABLE `#tmp.x.1.n` (a INT)" => 1103, "CREATE VIEW `#tmp.x.1.n` AS SELECT 1" => 1103,
        "SELECT * FROM `#tmp.x.1.n`" => 1103, "SELECT * FROM shop . `#tmp.x.1.n`" => 1103,
        "INSERT INTO `#tmp.x.1.n` VALUES (1)" => 1103, "DROP TABLE `#tmp.x.1.n`" => 1103,
        "SHOW CREATE TABLE `#tmp.x.1.n`" => 1103, "DESCRIBE `#tmp.x.1.n`" => 1103,
        "SET sql_mode = 'ANSI_QUOTES'" => 0, "CREATE TABLE \"#tmp.x.1.n\" (a INT)" => 1103,
        "PREPARE s FROM 'TRUNCATE `#tmp.x.1.n`'" => 1103,
    );
    assert_eq!(bob.shape_of("shop", "#tmp.x.1.n").unwrap_err().code, 1146);
}

#[tokio::test]
async fn a_temporary_table_lends_its_name_to_nothing_else() {
    let fixture = Fixture::new("lent-names");
    let mut app = fixture.session("app");
    all(&mut app, SHOP).await;
    all(&mut app, &["GRANT CREATE TEMPORARY TABLES ON shop.* TO bob"]).await;
    let mut bob = fixture.session("bob");
    all(&mut bob, &["USE shop"]).await;
    for name in ["t", "v", "n"] {
        all(&mut bob, &[&format!("CREATE TEMPORARY TABLE {name} (a INT)")]).await;
    }
    expect!(&mut bob,
        "CREATE TABLE n (a INT)" => 1142, "CREATE VIEW n AS SELECT 1" => 1142,
        "CREATE OR REPLACE VIEW v AS SELECT 1" => 1142, "DROP VIEW v" => 1142, "SHOW CREATE VIEW v" => 1142,
        "DROP TABLE t, t" => 1142, "DROP TABLE t, shop.t" => 1142, "SHOW CREATE TABLE t" => 0, "TRUNCATE t" => 0,
        "ALTER TABLE t ADD x INT" => 0, "DROP TABLE t" => 0, "DROP TABLE t" => 1142,
    );
    expect!(&mut app, "SELECT a, b, c FROM t" => 0, "SELECT * FROM v" => 0);
}

#[tokio::test]
async fn a_new_table_is_filled_from_that_of_the_schema() {
    let fixture = Fixture::new("filled");
    let mut app = fixture.session("app");
    all(&mut app, SHOP).await;
    all(&mut app, &["CREATE TEMPORARY TABLE t AS SELECT a, b FROM t"]).await;
    assert_eq!(run(&mut app, "SELECT * FROM t").await.unwrap(), r#"[[{"a":1,"b":2}]]"#);
    expect!(&mut app,
        "CREATE TEMPORARY TABLE x (a INT PRIMARY KEY) SELECT 1 AS a UNION ALL SELECT 1" => 1062,
        "SELECT * FROM x" => 1146, "SELECT * FROM `#new`" => 1146, "CREATE TEMPORARY TABLE x (a INT)" => 0,
    );
}

#[tokio::test]
async fn roles_are_given_by_those_who_administer_them() {
    let fixture = Fixture::new("role-admins");
    let mut app = fixture.session("app");
    all(&mut app, SHOP).await;
    all(&mut app, &["CREATE ROLE r", "CREATE USER eve", "GRANT ALL ON *.* TO bob"]).await;
    let mut bob = fixture.session("bob");
    expect!(&mut bob, "GRANT r TO eve" => 1698, "GRANT r TO bob" => 1698, "REVOKE r FROM eve" => 1698);
    all(&mut app, &["GRANT r TO bob WITH ADMIN OPTION"]).await;
    expect!(&mut bob, "GRANT r TO eve" => 0, "REVOKE r FROM eve" => 0);
}
