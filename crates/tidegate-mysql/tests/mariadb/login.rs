//! Connecting and logging in.

use std::sync::Arc;

use tidegate_mysql::{Conn, ConnectOptions, TlsClient, TlsMode, TlsOptions, TlsVerify};
use tidegate_rows::QueryError;

use crate::{server::shared, sinks::rows};

async fn connect(options: ConnectOptions) -> Result<Conn, QueryError> {
    Conn::connect(Arc::new(options)).await
}

#[track_caller]
fn check_user(user: String, expected: &str) {
    assert_eq!(user, format!("{expected}\n"));
}

#[tokio::test]
async fn plugins() {
    let server = shared();
    for (user, password) in [("native", "some_pass"), ("nobody", ""), ("ed", "some_pass")] {
        let mut conn = connect(server.user(user, password)).await.unwrap();
        assert!(conn.server_version().ends_with(b"-MariaDB-0+deb12u1") || !conn.server_version().is_empty());
        check_user(rows(&mut conn, "select substring_index(user(), '@', 1)").await.unwrap(), user);
    }
}

#[tokio::test]
async fn unix_socket_and_schema() {
    let mut options = shared().root();
    options.schema = "test".into();
    let mut conn = connect(options).await.unwrap();
    assert_eq!(rows(&mut conn, "select database(), name from cats order by id").await.unwrap(), "test,\ntest,bob\n");
    assert_eq!(rows(&mut conn, "select connection_id()").await.unwrap(), format!("{}\n", conn.thread_id()));
}

#[tokio::test]
async fn refusals() {
    let server = shared();
    for (user, password) in [("native", "wrong"), ("native", ""), ("ed", "wrong"), ("unknown", "x")] {
        match connect(server.user(user, password)).await {
            Err(QueryError::Server(error)) => assert_eq!((error.code, error.sqlstate()), (1045, "28000"), "{user}"),
            other => panic!("{user}: {other:?}"),
        }
    }
    let mut options = server.user("native", "some_pass");
    options.schema = "missing".into();
    match connect(options).await {
        Err(QueryError::Server(error)) => assert_eq!(error.code, 1049),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nobody_listens() {
    let options = ConnectOptions::new(tidegate_mysql::Address::tcp("127.0.0.1", 1), "x", "");
    let error = connect(options).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot connect to 127.0.0.1:1: "), "{error}");
}

#[tokio::test]
async fn character_sets() {
    let server = shared();
    for (charset, expected) in [("", "utf8mb4"), ("latin1", "latin1"), ("gbk", "gbk"), ("utf8", "utf8mb3")] {
        let mut options = server.user("native", "some_pass");
        options.charset = charset.into();
        let mut conn = connect(options).await.unwrap();
        let found = rows(&mut conn, "select @@character_set_client, @@character_set_results").await.unwrap();
        assert_eq!(found, format!("{expected},{expected}\n"));
    }
    let mut options = server.user("native", "some_pass");
    options.charset = "nonsense".into();
    assert!(matches!(connect(options).await, Err(QueryError::Server(error)) if error.code == 1115));
}

#[tokio::test]
async fn sessions_begin_with_statements() {
    let mut options = shared().user("native", "some_pass");
    options.init = vec!["set @a = 7".into(), "set @b = 8; select 1".into()];
    let mut conn = connect(options).await.unwrap();
    assert_eq!(rows(&mut conn, "select @a, @b").await.unwrap(), "7,8\n");
}

fn tls(verify: TlsVerify, authorities: &[u8], server_name: Option<&str>) -> TlsClient {
    let options = TlsOptions {
        verify,
        authorities: authorities.to_vec(),
        server_name: server_name.map(str::to_owned),
        ..TlsOptions::default()
    };
    TlsClient::new(&options).unwrap()
}

#[tokio::test]
async fn encryption() {
    let server = shared();
    let authorities = server.authorities.as_slice();
    let cipher =
        "select variable_value <> '' from information_schema.session_status where variable_name = 'ssl_cipher'";
    for (mode, client, expected) in [
        (TlsMode::Required, Some(tls(TlsVerify::None, b"", None)), Ok("1\n")),
        (TlsMode::Preferred, Some(tls(TlsVerify::Authority, authorities, None)), Ok("1\n")),
        (TlsMode::Required, Some(tls(TlsVerify::Full, authorities, Some("localhost"))), Ok("1\n")),
        // The certificate is not for the address.
        (TlsMode::Required, Some(tls(TlsVerify::Full, authorities, None)), Err("cannot connect")),
        (TlsMode::Required, None, Err("no TLS configuration")),
        // The user must use TLS.
        (TlsMode::Disabled, None, Err("Access denied")),
    ] {
        let options = ConnectOptions { tls_mode: mode, tls: client, ..server.user("secure", "some_pass") };
        match (connect(options).await, expected) {
            (Ok(mut conn), Ok(expected)) => assert_eq!(rows(&mut conn, cipher).await.unwrap(), expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (result, expected) => panic!("{result:?}, not {expected:?}"),
        }
    }
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let stranger = tls(TlsVerify::Authority, other.cert.pem().as_bytes(), None);
    let options =
        ConnectOptions { tls_mode: TlsMode::Required, tls: Some(stranger), ..server.user("secure", "some_pass") };
    assert!(connect(options).await.unwrap_err().to_string().contains("cannot connect"));
}

#[tokio::test]
async fn verification_needs_authorities() {
    assert!(TlsClient::new(&TlsOptions::default()).is_err());
    let garbage = TlsOptions { authorities: b"-----BEGIN CERTIFICATE-----\n!".to_vec(), ..TlsOptions::default() };
    assert!(TlsClient::new(&garbage).is_err());
}
