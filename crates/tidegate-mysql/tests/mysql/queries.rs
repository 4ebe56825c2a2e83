//! Statements and their results, where MySQL is not MariaDB.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tidegate_mysql::{Conn, ConnectOptions, Pool, PoolMode, PoolOptions, ServerOptions, Timeouts};
use tidegate_rows::{Param, QueryError, Statement};

use crate::{
    server::{Server, shared},
    sinks::{comes_through, csv, rows, rows_with},
};

async fn connect(server: &Server) -> Conn {
    Conn::connect(Arc::new(ConnectOptions { schema: "test".into(), ..server.user("app", "some_pass") })).await.unwrap()
}

/// One column of each type, as text and over the binary protocol: both must give the same text.
#[tokio::test]
async fn types_are_exact_in_both_protocols() {
    let Some(server) = shared() else { return };
    let mut conn = connect(server).await;
    let vectors = rows(&mut conn, "select to_vector('[1]')").await.is_ok();
    let vector = if vectors { ", x vector(2)" } else { "" };
    let table = format!(
        "create temporary table types (
        a tinyint, b tinyint unsigned, c smallint, d mediumint, e int unsigned, f bigint, g bigint unsigned,
        h decimal(40, 10), i double, j float, k date, l datetime(6), m time(3), n year, o timestamp(2) null,
        p bit(12), q varbinary(10), r varchar(20) collate utf8mb4_0900_ai_ci, s text, t enum('x', 'y'), u set('p', 'q'),
        v json, w geometry{vector})"
    );
    rows(&mut conn, &table).await.unwrap();
    let insert = |last: &str, vector: &str| {
        let vector = if vectors { vector } else { "" };
        format!("insert into types values ({last}{vector})")
    };
    let first = "-128, 255, -32768, -8388608, 4294967295, -9223372036854775808, 18446744073709551615,
        -123456789012345678901234567890.0123456789, 1.5e300, 0.25, '2024-02-29', '2024-02-29 23:59:59.123456',
        '-838:59:58.125', 2155, '2038-01-19 03:14:07.25', b'100000000001', x'00ff27', 'ä😀', 'long', 'y', 'p,q',
        '{\"a\": 1}', point(1, 2)";
    rows(&mut conn, &insert(first, ", to_vector('[1,2]')")).await.unwrap();
    let zero = "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '0000-00-00', '0000-00-00 00:00:00', 0, 0, '0000-00-00 00:00:00', 0, '',
        '', '', 1, '', '[]', null";
    rows(&mut conn, &insert(zero, ", null")).await.unwrap();
    let text = rows(&mut conn, "select * from types where 1 = 1").await.unwrap();
    let binary = rows_with(&mut conn, b"select * from types where 1 = ?", &[Param::Int(1)]).await.unwrap();
    assert_eq!(text, binary);
    let start = "-128,255,-32768,-8388608,4294967295,-9223372036854775808,18446744073709551615,\
        -123456789012345678901234567890.0123456789,1.5e300,0.25,2024-02-29,2024-02-29 23:59:59.123456,-838:59:58.125,2155,\
        2038-01-19 03:14:07.25,";
    assert!(text.starts_with(start), "{text}");
    assert!(
        text.contains(",0000-00-00,0000-00-00 00:00:00.000000,00:00:00.000,0000,0000-00-00 00:00:00.00,"),
        "{text}"
    );
}

#[tokio::test]
async fn parameters_of_all_kinds_come_back() {
    let Some(server) = shared() else { return };
    let mut conn = connect(server).await;
    let all: Vec<u8> = (0..=255).collect();
    let params = [
        Param::Null,
        Param::Int(i64::MIN),
        Param::Uint(u64::MAX),
        Param::Double(0.1),
        Param::Bytes(Bytes::from_static("it's 😀 \\ \"quoted\"".as_bytes())),
        Param::Bytes(Bytes::from(all.clone())),
    ];
    let hex: String = all.iter().map(|byte| format!("{byte:02X}")).collect();
    let expected = format!(",-9223372036854775808,18446744073709551615,0.1,\"it's 😀 \\ \"\"quoted\"\"\",{hex}\n");
    for _ in 0..3 {
        let found = rows_with(&mut conn, b"select ?, ?, ?, ?, ?, hex(cast(? as binary))", &params).await.unwrap();
        assert_eq!(found, expected);
    }
    let found = rows_with(&mut conn, b"select name from cats where id = ?", &[Param::Int(4)]).await.unwrap();
    assert_eq!(found, "Größe 😀\n");
    // utf8mb4_0900_ai_ci, the default collation: letters without their accents are the same.
    let param = [Param::Bytes(Bytes::from_static("GROSSE 😀".as_bytes()))];
    let found = rows_with(&mut conn, b"select id from cats where name = ? collate utf8mb4_0900_ai_ci", &param).await;
    assert_eq!(found.unwrap(), "4\n");
}

#[tokio::test]
async fn batches_and_procedures() {
    let Some(server) = shared() else { return };
    let mut conn = connect(server).await;
    let sql = "select 1; set @a = 2; select @a, 3 union select 4, 5; select 6 from dual where false";
    assert_eq!(rows(&mut conn, sql).await.unwrap(), "1\n0,,0,0\n2,3\n4,5\n");
    rows(&mut conn, "create procedure p(in a int) begin select a; select a + 1, 3; end").await.unwrap();
    assert_eq!(rows(&mut conn, "call p(1)").await.unwrap(), "1\n2,3\n0,,0,0\n");
    assert_eq!(rows_with(&mut conn, b"call p(?)", &[Param::Int(5)]).await.unwrap(), "5\n6,3\n0,,0,0\n");
    conn.send_query(b"select 1; selec").await.unwrap();
    let mut sink = csv();
    conn.read_result(&mut sink).await.unwrap();
    assert!(matches!(conn.read_result(&mut sink).await, Err(QueryError::Server(error)) if error.code == 1064));
    assert!(conn.is_idle());
}

async fn check_sizes(mut conn: Conn) {
    const MIB16: usize = 16 << 20;
    for len in [MIB16 - 13, MIB16 - 5, MIB16 - 1, MIB16, MIB16 + 1] {
        comes_through(&mut conn, len).await;
    }
}

#[tokio::test]
async fn packets_of_16_mib_and_more() {
    let Some(server) = shared() else { return };
    check_sizes(connect(server).await).await;
    // MySQL 8 offers zstd beside zlib; only zlib is asked for.
    let options = ConnectOptions { compress: true, ..server.user("app", "some_pass") };
    let mut conn = Conn::connect(Arc::new(options)).await.unwrap();
    let found = rows(&mut conn, "show status like 'compression%'").await.unwrap();
    assert!(found.contains("Compression,ON\n") && found.contains("Compression_algorithm,zlib\n"), "{found}");
    check_sizes(conn).await;
}

#[tokio::test]
async fn many_rows() {
    let Some(server) = shared() else { return };
    let mut conn = connect(server).await;
    let sql = "select a.n, repeat('ab\"c', b.n) from numbers a, numbers b where b.n <= 30 order by 1, 2";
    let text = rows(&mut conn, sql).await.unwrap();
    assert_eq!(text.lines().count(), 30_000);
    let binary = sql.replace("30 order", "? order");
    assert!(rows_with(&mut conn, binary.as_bytes(), &[Param::Int(30)]).await.unwrap() == text);
}

#[tokio::test]
async fn sessions_are_reset() {
    let Some(server) = shared() else { return };
    let mut options = ConnectOptions { schema: "test".into(), ..server.user("app", "some_pass") };
    options.charset = "latin1".into();
    options.init = vec!["set @init = 1".into()];
    let mut conn = Conn::connect(Arc::new(options)).await.unwrap();
    let spoil = "set @a = 1; use mysql; set names utf8mb4; create temporary table test.gone (a int); begin";
    for pipelined in [false, true] {
        rows(&mut conn, spoil).await.unwrap();
        assert!(conn.in_transaction());
        if pipelined {
            conn.reset_before_next();
            assert!(!conn.needs_reset_now());
        } else {
            conn.reset().await.unwrap();
        }
        let look = "select @a, @init, database(), @@character_set_results";
        assert_eq!(rows(&mut conn, look).await.unwrap(), ",1,test,latin1\n");
        assert!(!conn.in_transaction());
        assert!(rows(&mut conn, "select * from test.gone").await.is_err());
    }
}

#[tokio::test]
async fn local_files_are_refused() {
    let Some(server) = shared() else { return };
    let mut conn = connect(server).await;
    rows(&mut conn, "create temporary table f (a text)").await.unwrap();
    let result = rows(&mut conn, "load data local infile '/etc/passwd' into table f").await;
    assert!(matches!(result, Err(QueryError::Server(_))), "{result:?}");
    assert_eq!(rows(&mut conn, "select count(*) from f").await.unwrap(), "0\n");
}

fn pool(server: &Server) -> Pool {
    let options = ConnectOptions { schema: "test".into(), ..server.user("app", "some_pass") };
    let mut options = PoolOptions::new("mysql", vec![ServerOptions::new(options)]);
    options.mode = PoolMode::Single;
    options.max = 4;
    Pool::new(options)
}

async fn run(pool: &Pool, sql: &str, timeouts: Timeouts) -> Result<String, QueryError> {
    let mut sink = csv();
    pool.run(Statement { sql: sql.as_bytes(), params: &[] }, timeouts, &mut sink, |_| {}).await?;
    Ok(String::from_utf8_lossy(&sink.out).into_owned())
}

/// MySQL 8 says goodbye (4031) to a session that was idle for too long.
#[tokio::test]
async fn sessions_that_the_server_ended_are_replaced() {
    let Some(server) = shared() else { return };
    let pool = pool(server);
    let id = run(&pool, "set session wait_timeout = 1; select connection_id()", Timeouts::default()).await.unwrap();
    // The next user's reset would bring the time-out back.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let other = run(&pool, "select connection_id()", Timeouts::default()).await.unwrap();
    assert!(!id.ends_with(&other), "{id} {other}");
}

#[tokio::test]
async fn abandoned_statements_end_on_the_server() {
    let Some(server) = shared() else { return };
    let pool = pool(server);
    let mut root = Conn::connect(Arc::new(server.root())).await.unwrap();
    let sql = "select sleep(20) as abandoned";
    let timeouts = Timeouts { query: Some(Duration::from_millis(100)), ..Timeouts::default() };
    assert!(matches!(run(&pool, sql, timeouts).await, Err(QueryError::Timeout { .. })));
    let running = format!("select count(*) from information_schema.processlist where info = '{sql}'");
    for _ in 0..200 {
        if rows(&mut root, &running).await.unwrap() == "0\n" && pool.stats().open == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the statement still runs, {:?}", pool.stats());
}
