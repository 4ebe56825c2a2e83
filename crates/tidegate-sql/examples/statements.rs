//! Runs statements from standard input, one for each line, and prints what they answer: for comparison with a server.
//!
//! `statements DIRECTORY [SCHEMA [ROUNDS]]`. A result set is its column names and rows, values separated by tabs; other statements
//! print `ok AFFECTED INSERT_ID`, failed ones `error CODE MESSAGE`. With ROUNDS each statement runs so often, and the shortest
//! CPU time of this thread in milliseconds stands in place of what it has answered.

use std::io::{BufRead, Write};

use tidegate_rows::number::{append_double, append_float};
use tidegate_rows::{Column, Execute, Flow, QueryError, Row, Sink, SinkClosed, Statement, Summary, Value};
use tidegate_sql::{Engine, EngineOptions};

/// Prints results as lines.
#[derive(Default)]
struct Print {
    out: Vec<u8>,
    rows: bool,
    first: bool,
}

impl Sink for Print {
    fn columns(&mut self, columns: &[Column]) {
        self.rows = true;
        let names: Vec<String> =
            columns.iter().map(|column| String::from_utf8_lossy(&column.name).into_owned()).collect();
        self.out.extend_from_slice(names.join("\t").as_bytes());
        self.out.push(b'\n');
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.first = true;
        row.each(|_, value| {
            if !self.first {
                self.out.push(b'\t');
            }
            self.first = false;
            match value {
                Value::Null => self.out.extend_from_slice(b"NULL"),
                Value::Int(value) => self.out.extend_from_slice(value.to_string().as_bytes()),
                Value::Uint(value) => self.out.extend_from_slice(value.to_string().as_bytes()),
                Value::Float(value) => append_float(&mut self.out, value),
                Value::Double(value) => append_double(&mut self.out, value),
                Value::Bytes(bytes) => {
                    for &byte in bytes {
                        match byte {
                            b'\n' => self.out.extend_from_slice(b"\\n"),
                            b'\t' => self.out.extend_from_slice(b"\\t"),
                            b'\\' => self.out.extend_from_slice(b"\\\\"),
                            0 => self.out.extend_from_slice(b"\\0"),
                            byte => self.out.push(byte),
                        }
                    }
                }
            }
        });
        self.out.push(b'\n');
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        if !self.rows {
            self.out.extend_from_slice(format!("ok {} {}\n", summary.affected_rows, summary.insert_id).as_bytes());
        }
        self.rows = false;
    }
    fn poll_ready(&mut self, _cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// CPU time of this thread in nanoseconds. Elapsed time would count the neighbours of a busy machine.
fn cpu_nanos() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or("usage: statements DIRECTORY [SCHEMA]")?;
    let engine = Engine::open(EngineOptions::new(directory))?;
    let schema = args.next().unwrap_or_default();
    let rounds: Option<u32> = args.next().map(|rounds| rounds.parse()).transpose()?;
    let mut session = engine.session("")?;
    if !schema.is_empty() {
        let create = format!("CREATE DATABASE IF NOT EXISTS `{schema}`; USE `{schema}`");
        session.execute(Statement { sql: create.as_bytes(), params: &[] }, &mut Print::default()).await?;
    }
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() || line.starts_with("--") {
            continue;
        }
        let mut print = Print::default();
        let mut shortest = u64::MAX;
        let mut result = Ok(());
        for _ in 0..rounds.unwrap_or(1) {
            print = Print::default();
            let begun = cpu_nanos();
            result = session.execute(Statement { sql: line.as_bytes(), params: &[] }, &mut print).await;
            shortest = shortest.min(cpu_nanos() - begun);
        }
        if rounds.is_some() {
            writeln!(stdout, "{:9.3} ms  {}", shortest as f64 / 1e6, line.get(..150).unwrap_or(&line))?;
        } else {
            writeln!(stdout, "> {line}")?;
            stdout.write_all(&print.out)?;
        }
        match result {
            Ok(()) => {}
            Err(QueryError::Server(error)) => writeln!(stdout, "error {} {}", error.code, error.message)?,
            Err(other) => writeln!(stdout, "error {other}")?,
        }
    }
    Ok(())
}
