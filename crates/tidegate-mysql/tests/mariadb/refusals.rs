//! Servers that are there but refuse: writes, one more connection, or to be who they say they are.

use tidegate_mysql::{
    ConnectOptions, Overflow, Pool, PoolOptions, ServerOptions, Timeouts, TlsClient, TlsMode, TlsOptions, TlsVerify,
};
use tidegate_rows::{QueryError, Statement};

use crate::{
    server::{Server, Validity, shared},
    sinks::csv,
};

fn pool(max: usize, connect: ConnectOptions) -> Pool {
    let overflow = Overflow::Wait { timeout: None, queue_max: usize::MAX };
    Pool::new(PoolOptions { max, overflow, ..PoolOptions::new("cats", vec![ServerOptions::new(connect)]) })
}

async fn run(pool: &Pool, sql: &str) -> Result<String, QueryError> {
    let mut sink = csv();
    pool.run(Statement { sql: sql.as_bytes(), params: &[] }, Timeouts::default(), &mut sink, |_| {}).await?;
    Ok(String::from_utf8_lossy(&sink.out).into_owned())
}

/// A server of the test's own, with a user that may do everything in the schema `d`, and a pool of its administrator.
async fn start() -> (Server, Pool) {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let root = pool(1, server.root());
    for sql in
        ["create database d", "create user plain@'%'", "grant all on d.* to plain@'%'", "create table d.t (a int)"]
    {
        run(&root, sql).await.unwrap();
    }
    (server, root)
}

#[tokio::test]
async fn a_server_that_becomes_read_only() {
    let (server, root) = start().await;
    let pool = pool(2, server.user("plain", ""));
    run(&pool, "insert into d.t values (1)").await.unwrap();
    run(&root, "set global read_only = 1").await.unwrap();
    for _ in 0..3 {
        let error = run(&pool, "insert into d.t values (2)").await.unwrap_err();
        assert!(matches!(&error, QueryError::Server(error) if error.code == 1290), "{error}");
        assert_eq!(run(&pool, "select count(*) from d.t").await.unwrap(), "1\n");
    }
    run(&root, "set global read_only = 0").await.unwrap();
    run(&pool, "insert into d.t values (3)").await.unwrap();
    assert_eq!(run(&pool, "select count(*) from d.t").await.unwrap(), "2\n");
    // Nothing of that was the connection's fault.
    let stats = pool.stats();
    assert_eq!((stats.connects, stats.idle, stats.query_errors), (1, 1, 3), "{stats:?}");
}

#[tokio::test]
async fn a_server_that_takes_no_more_connections() {
    let (server, root) = start().await;
    run(&root, "set global max_connections = 10").await.unwrap();
    let crowd = pool(20, server.user("plain", ""));
    let mut held = Vec::new();
    let error = loop {
        match crowd.get(Timeouts::default()).await {
            Ok(conn) => held.push(conn),
            Err(error) => break error,
        }
        assert!(held.len() <= 11, "the server has no limit");
    };
    assert!(held.len() >= 8, "{}", held.len());
    assert!(error.to_string().contains("Too many connections"), "{error}");
    assert!(matches!(error, QueryError::Connect { .. }), "{error:?}");
    // Who has a connection goes on, and so does who gets one back.
    assert_eq!(crowd.stats().open, held.len());
    held.pop();
    assert_eq!(run(&crowd, "select 1").await.unwrap(), "1\n");
    // Another server does better.
    let servers = [server.user("plain", ""), shared().user("native", "some_pass")].map(ServerOptions::new);
    let both = Pool::new(PoolOptions::new("both", servers.to_vec()));
    for _ in 0..3 {
        let kept = both.get(Timeouts::default()).await.unwrap();
        assert_eq!((run(&both, "select 1").await.unwrap().as_str(), kept.server()), ("1\n", 1));
    }
    assert_eq!(both.stats().connect_errors, 1);
    // And when the crowd has gone, so does this one.
    drop(held);
    drop(crowd);
    let alone = pool(1, server.user("plain", ""));
    for attempt in 0..1000 {
        match run(&alone, "select 1").await {
            Ok(answer) => return assert_eq!(answer, "1\n"),
            Err(error) => assert!(attempt < 999 && error.to_string().contains("Too many connections"), "{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_certificate_that_expires() {
    let (server, root) = start().await;
    let options = TlsOptions {
        verify: TlsVerify::Full,
        authorities: server.authorities.clone(),
        server_name: Some("localhost".to_owned()),
        ..TlsOptions::default()
    };
    let tls = Some(TlsClient::new(&options).unwrap());
    let pool = pool(2, ConnectOptions { tls_mode: TlsMode::Required, tls, ..server.user("plain", "") });
    assert_eq!(run(&pool, "select 1").await.unwrap(), "1\n");
    server.certify(Validity::Over);
    run(&root, "flush ssl").await.unwrap();
    // What is connected stays so.
    assert_eq!(run(&pool, "select 2").await.unwrap(), "2\n");
    let held = pool.get(Timeouts::default()).await.unwrap();
    let error = run(&pool, "select 3").await.unwrap_err();
    assert!(matches!(error, QueryError::Connect { .. }), "{error:?}");
    let mut words = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    assert!(words.to_ascii_lowercase().contains("expired"), "{words}");
    assert_eq!(pool.stats().open, 1);
    server.certify(Validity::Now);
    run(&root, "flush ssl").await.unwrap();
    assert_eq!(run(&pool, "select 4").await.unwrap(), "4\n");
    drop(held);
    assert_eq!((pool.stats().open, pool.stats().idle), (2, 2));
}
