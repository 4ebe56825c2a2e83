//! What an attacker writes comes back as data: every byte value, alone and beside quotes and backslashes, through every way in
//! which a value enters a statement and under every sql_mode that changes quoting.

use tidegate_rows::{Column, Execute, Flow, Param, QueryError, Row, Sink, SinkClosed, Statement, Summary, Value};
use tidegate_sql::{Engine, EngineOptions, Session};

/// Keeps the values of all rows.
#[derive(Default)]
struct Values(Vec<Option<Vec<u8>>>);

impl Sink for Values {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        row.each(|_, value| {
            self.0.push(match value {
                Value::Null => None,
                Value::Int(value) => Some(value.to_string().into_bytes()),
                Value::Uint(value) => Some(value.to_string().into_bytes()),
                Value::Float(value) => Some(value.to_string().into_bytes()),
                Value::Double(value) => Some(value.to_string().into_bytes()),
                Value::Bytes(bytes) => Some(bytes.to_vec()),
            });
        });
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

async fn run(session: &mut Session, sql: &[u8], params: &[Param]) -> Result<Vec<Option<Vec<u8>>>, QueryError> {
    let mut values = Values::default();
    session.execute(Statement { sql, params }, &mut values).await?;
    Ok(values.0)
}

/// A value between quotes as clients escape it.
fn quoted(value: &[u8], quote: u8, backslash: bool) -> Vec<u8> {
    let mut out = vec![quote];
    for &byte in value {
        match byte {
            _ if byte == quote => out.extend_from_slice(&[quote, quote]),
            b'\\' if backslash => out.extend_from_slice(b"\\\\"),
            0 if backslash => out.extend_from_slice(b"\\0"),
            b'\n' if backslash => out.extend_from_slice(b"\\n"),
            0x1a if backslash => out.extend_from_slice(b"\\Z"),
            _ => out.push(byte),
        }
    }
    out.push(quote);
    out
}

/// Each byte alone, doubled, at the ends, and beside what ends or escapes a string.
fn values() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for byte in 0..=255u8 {
        for shape in [&b"%' OR 1=1 -- "[..], b"'\\%\\", b"\"%%\"`%`", b"/*%*/;?%", b"%"] {
            all.push(shape.iter().flat_map(|c| std::iter::once(if *c == b'%' { byte } else { *c })).collect());
        }
    }
    all
}

async fn check(session: &mut Session, sql: Vec<u8>, params: &[Param], expected: &[u8], how: &str) {
    let found = run(session, &sql, params).await;
    let found = found.unwrap_or_else(|error| {
        panic!("{how} {:?}: {error}: {}", expected.escape_ascii().to_string(), sql.escape_ascii())
    });
    assert_eq!(found, [Some(expected.to_vec())], "{how}: {}", sql.escape_ascii());
}

#[tokio::test]
async fn every_byte_comes_back() {
    let path = std::env::temp_dir().join(format!("tidegate-sql-quoting-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let engine = Engine::open(EngineOptions::new(&path)).unwrap();
    let mut session = engine.session("").unwrap();
    for sql in [
        "CREATE DATABASE q",
        "USE q",
        "CREATE TABLE t (id INT PRIMARY KEY, b VARBINARY(100))",
        "INSERT INTO t VALUES (1, '')",
    ] {
        run(&mut session, sql.as_bytes(), &[]).await.unwrap();
    }
    for (mode, backslash, double) in [
        ("", true, true),
        ("NO_BACKSLASH_ESCAPES", false, true),
        ("ANSI_QUOTES", true, false),
        ("NO_BACKSLASH_ESCAPES,ANSI_QUOTES", false, false),
    ] {
        run(&mut session, format!("SET sql_mode = '{mode}'").as_bytes(), &[]).await.unwrap();
        for value in values() {
            let single = quoted(&value, b'\'', backslash);
            let literal = [b"SELECT CAST(".as_slice(), &single, b" AS BINARY) FROM t"].concat();
            check(&mut session, literal, &[], &value, mode).await;
            if double {
                let literal = [b"SELECT CAST(".as_slice(), &quoted(&value, b'"', backslash), b" AS BINARY)"].concat();
                check(&mut session, literal, &[], &value, mode).await;
            }
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            check(&mut session, format!("SELECT x'{hex}'").into_bytes(), &[], &value, mode).await;
        }
    }
    run(&mut session, b"SET sql_mode = DEFAULT", &[]).await.unwrap();
    for value in values() {
        let param = [Param::Bytes(value.clone().into())];
        run(&mut session, b"UPDATE t SET b = ?", &param).await.unwrap();
        check(&mut session, b"SELECT b FROM t".to_vec(), &[], &value, "stored").await;
        check(&mut session, b"SELECT b FROM t WHERE b = ?".to_vec(), &param, &value, "compared").await;
    }
    assert_eq!(run(&mut session, b"SELECT COUNT(*) FROM t", &[]).await.unwrap(), [Some(b"1".to_vec())]);
    drop(session);
    drop(engine);
    let _ = std::fs::remove_dir_all(&path);
}
