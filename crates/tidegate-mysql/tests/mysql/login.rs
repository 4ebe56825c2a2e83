//! `caching_sha2_password`, which MySQL 8 asks for by default and MySQL 9 knows almost alone.

use std::sync::Arc;

use tidegate_mysql::{Conn, ConnectOptions, TlsClient, TlsMode, TlsOptions, TlsVerify};
use tidegate_rows::QueryError;

use crate::{server::shared, sinks::rows};

async fn connect(options: ConnectOptions) -> Result<Conn, QueryError> {
    Conn::connect(Arc::new(options)).await
}

async fn check(options: ConnectOptions) {
    let user = options.user.clone();
    let mut conn = connect(options).await.unwrap_or_else(|error| panic!("{user}: {error}"));
    assert_eq!(rows(&mut conn, "select substring_index(user(), '@', 1)").await.unwrap(), format!("{user}\n"));
    assert_eq!(rows(&mut conn, "select connection_id()").await.unwrap(), format!("{}\n", conn.thread_id()));
}

fn tls(verify: TlsVerify, authorities: Vec<u8>) -> Option<TlsClient> {
    Some(TlsClient::new(&TlsOptions { verify, authorities, ..TlsOptions::default() }).unwrap())
}

/// The first login of a user sends the password, hidden by the server's RSA key on a plain connection; the server
/// remembers it, and the ones behind it send a proof.
#[tokio::test]
async fn full_and_fast_logins_without_tls() {
    let Some(server) = shared() else { return };
    for _ in 0..3 {
        check(server.user("fresh", "some_pass")).await;
        check(server.user("wordy", "a password of more than twenty bytes, with 'quotes' and ü")).await;
        check(server.user("nobody", "")).await;
    }
}

#[tokio::test]
async fn a_known_key_is_not_asked_for() {
    let Some(server) = shared() else { return };
    let key = server.file("public_key.pem");
    check(ConnectOptions { server_public_key: Some(key), ..server.user("keyed", "some_pass") }).await;
}

#[tokio::test]
async fn full_logins_over_safe_channels() {
    let Some(server) = shared() else { return };
    let mut root = connect(server.root()).await.unwrap();
    let unverified = tls(TlsVerify::None, Vec::new());
    for options in [
        server.local_user("app", "some_pass"),
        ConnectOptions { tls_mode: TlsMode::Required, tls: unverified, ..server.user("secure", "some_pass") },
    ] {
        // The server forgets all passwords.
        rows(&mut root, "flush privileges").await.unwrap();
        check(options.clone()).await;
        check(options).await;
    }
}

#[tokio::test]
async fn verified_tls() {
    let Some(server) = shared() else { return };
    let verified = tls(TlsVerify::Authority, server.file("ca.pem"));
    let options = ConnectOptions { tls_mode: TlsMode::Required, tls: verified, ..server.user("secure", "some_pass") };
    let mut conn = connect(options).await.unwrap();
    let cipher = rows(&mut conn, "show session status like 'Ssl_version'").await.unwrap();
    assert_eq!(cipher, "Ssl_version,TLSv1.3\n");
}

#[tokio::test]
async fn refusals() {
    let Some(server) = shared() else { return };
    for (user, password) in [("app", "wrong"), ("app", ""), ("nobody", "x"), ("unknown", "x"), ("secure", "some_pass")]
    {
        match connect(server.user(user, password)).await {
            Err(QueryError::Server(error)) => assert_eq!((error.code, error.sqlstate()), (1045, "28000"), "{user}"),
            other => panic!("{user}: {other:?}"),
        }
    }
    let options = ConnectOptions { schema: "missing".into(), ..server.user("app", "some_pass") };
    assert!(matches!(connect(options).await, Err(QueryError::Server(error)) if error.code == 1049));
}

#[tokio::test]
async fn character_sets() {
    let Some(server) = shared() else { return };
    for (charset, expected) in [("", "utf8mb4"), ("latin1", "latin1"), ("gbk", "gbk"), ("utf8", "utf8mb3")] {
        let options = ConnectOptions { charset: charset.into(), ..server.user("app", "some_pass") };
        let mut conn = connect(options).await.unwrap();
        let found = rows(&mut conn, "select @@character_set_client, @@character_set_results").await.unwrap();
        assert_eq!(found, format!("{expected},{expected}\n"));
    }
}
