//! What a durable commit costs: clients of one thread insert rows, each when the one before is on the disk.
//!
//! `commits DIRECTORY [CLIENTS [SECONDS [TABLE_DEFINITION [INSERT]]]]` prints rows and commits of a second, microseconds between a
//! client's two inserts, and CPU time of the thread and of the process. In INSERT `{n}` is a number of its own for each row.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use tidegate_rows::{Column, Execute, Flow, Row, Sink, SinkClosed, Statement, Summary};
use tidegate_sql::{Durability, Engine, EngineOptions};
use tokio::task::LocalSet;

/// Wants no rows.
struct Nothing;

impl Sink for Nothing {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, _: Row<'_>) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// CPU time of the thread or the process in nanoseconds.
fn cpu_nanos(of: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure.
    unsafe { libc::clock_gettime(of, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or("usage: commits DIRECTORY [CLIENTS [SECONDS [TABLE_DEFINITION [INSERT]]]]")?;
    let clients: usize = args.next().map_or(Ok(16), |arg| arg.parse())?;
    let seconds: f64 = args.next().map_or(Ok(3.0), |arg| arg.parse())?;
    let definition = args.next().unwrap_or_else(|| "t (id INT PRIMARY KEY, name VARCHAR(100))".into());
    let insert = args.next().unwrap_or_else(|| "INSERT INTO t (id, name) VALUES ({n}, 'Tom')".into());
    let mut options = EngineOptions::new(&directory);
    options.durability = Durability::Full;
    let engine = Engine::open(options)?;
    let mut session = engine.session("")?;
    let setup =
        format!("CREATE DATABASE IF NOT EXISTS test; USE test; DROP TABLE IF EXISTS t; CREATE TABLE {definition}");
    session.execute(Statement { sql: setup.as_bytes(), params: &[] }, &mut Nothing).await?;
    drop(session);
    let number = Rc::new(Cell::new(0u64));
    let times = Rc::new(std::cell::RefCell::new(Vec::new()));
    let before = engine.table_version("test", "t").ok_or("the table is gone")?;
    let (begun, thread, process) =
        (Instant::now(), cpu_nanos(libc::CLOCK_THREAD_CPUTIME_ID), cpu_nanos(libc::CLOCK_PROCESS_CPUTIME_ID));
    let end = begun + Duration::from_secs_f64(seconds);
    let local = LocalSet::new();
    for _ in 0..clients {
        let mut session = engine.session("test")?;
        let (number, insert, times) = (Rc::clone(&number), insert.clone(), Rc::clone(&times));
        local.spawn_local(async move {
            let mut last = Instant::now();
            while last < end {
                number.set(number.get() + 1);
                let sql = insert.replace("{n}", &number.get().to_string());
                let statement = Statement { sql: sql.as_bytes(), params: &[] };
                session.execute(statement, &mut Nothing).await.expect("the row is inserted");
                let now = Instant::now();
                times.borrow_mut().push((now - last).as_micros());
                last = now;
            }
        });
    }
    local.await;
    let took = begun.elapsed().as_secs_f64();
    let rows = number.get() as f64;
    let commits = (engine.table_version("test", "t").ok_or("the table is gone")? - before) as f64;
    let of_rows = |since, of| (cpu_nanos(of) - since) as f64 / 1e3 / rows;
    let mut times = times.take();
    times.sort_unstable();
    let part = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!(
        "{clients} clients: {:.0} rows/s, {:.0} commits/s, {:.1} rows each; {:.1} us a row; latency p10 {} p50 {} p90 {} p99 {} us; CPU {:.1} us a row in the thread, {:.1} in the process",
        rows / took,
        commits / took,
        rows / commits,
        took * 1e6 / rows,
        part(0.1),
        part(0.5),
        part(0.9),
        part(0.99),
        of_rows(thread, libc::CLOCK_THREAD_CPUTIME_ID),
        of_rows(process, libc::CLOCK_PROCESS_CPUTIME_ID),
    );
    Ok(())
}
