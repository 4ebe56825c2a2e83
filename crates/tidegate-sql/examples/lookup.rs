//! How long a point lookup takes inside of the process, from the statement's text to its rows in a buffer.
//!
//! `lookup [COUNT]` makes a table of 100,000 rows in a temporary directory and looks up COUNT (default 300,000) keys, each in a
//! statement of its own text. Build with `--release`.

use std::time::Instant;

use tidegate_rows::{Column, Execute, Flow, Param, Sink, SinkClosed, Statement, Summary, Value};
use tidegate_sql::{Durability, Engine, EngineOptions};

/// Appends rows as JSON would be: names known, values copied.
#[derive(Default)]
struct Buffer {
    out: Vec<u8>,
}

impl Sink for Buffer {
    fn columns(&mut self, _: &[Column]) {}
    fn begin_row(&mut self) {
        self.out.push(b'{');
    }
    fn value(&mut self, _: usize, value: Value<'_>) {
        match value {
            Value::Int(value) => self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
            Value::Bytes(bytes) => self.out.extend_from_slice(bytes),
            _ => self.out.extend_from_slice(b"null"),
        }
        self.out.push(b',');
    }
    fn end_row(&mut self) -> Flow {
        self.out.push(b'}');
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: u64 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(300_000);
    let path = std::env::temp_dir().join(format!("tidegate-lookup-{}", std::process::id()));
    let mut options = EngineOptions::new(&path);
    options.durability = Durability::Normal;
    let engine = Engine::open(options)?;
    let mut session = engine.session("")?;
    let mut sink = Buffer::default();
    let setup = "CREATE DATABASE bench; USE bench; \
        CREATE TABLE user (id INT PRIMARY KEY, name VARCHAR(40), email VARCHAR(60), created DATETIME); \
        INSERT INTO user WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 100000) \
        SELECT i, CONCAT('name', i), CONCAT('user', i, '@example.com'), '2020-01-01 10:00:00' FROM n";
    session.execute(Statement { sql: setup.as_bytes(), params: &[] }, &mut sink).await?;
    let mut sql = Vec::new();
    let mut key = 1u64;
    for (name, columns) in [("1 column", "name"), ("4 columns", "id, name, email, created")] {
        let start = Instant::now();
        for _ in 0..count {
            key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            sql.clear();
            sql.extend_from_slice(b"SELECT ");
            sql.extend_from_slice(columns.as_bytes());
            sql.extend_from_slice(b" FROM user WHERE id = ");
            sql.extend_from_slice(itoa::Buffer::new().format((key >> 40) % 10_000 + 1).as_bytes());
            sink.out.clear();
            session.execute(Statement { sql: &sql, params: &[] }, &mut sink).await?;
        }
        println!("{name}: {} ns", start.elapsed().as_nanos() / u128::from(count.max(1)));
    }
    let start = Instant::now();
    for number in 0..count {
        sink.out.clear();
        let params = [Param::Int((number % 10_000) as i64 + 1)];
        session.execute(Statement { sql: b"SELECT name FROM user WHERE id = ?", params: &params }, &mut sink).await?;
    }
    println!("by parameter: {} ns", start.elapsed().as_nanos() / u128::from(count.max(1)));
    let writes = count / 20;
    let start = Instant::now();
    for number in 0..writes {
        let text = format!("UPDATE user SET name = 'x{number}' WHERE id = {}", number % 10_000 + 1);
        session.execute(Statement { sql: text.as_bytes(), params: &[] }, &mut sink).await?;
    }
    println!("update: {} ns", start.elapsed().as_nanos() / u128::from(writes.max(1)));
    drop(session);
    drop(engine);
    std::fs::remove_dir_all(&path)?;
    Ok(())
}
