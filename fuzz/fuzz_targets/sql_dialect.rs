//! SQL texts of any kind on the embedded engine: nothing panics, nothing hangs, and the session answers afterwards.

#![no_main]

use std::{cell::RefCell, task};

use libfuzzer_sys::fuzz_target;
use tidegate_rows::{Column, Execute, Flow, Sink, SinkClosed, Statement, Summary, Row};
use tidegate_sql::{Durability, Engine, EngineOptions, Session};
use tokio::runtime::{Builder, Runtime};

/// Counts rows and wants no more than a few.
#[derive(Default)]
struct Few {
    rows: usize,
}

/// Rows after which the receiver goes away.
const ROWS_MAX: usize = 200;

impl Sink for Few {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, _: Row<'_>) -> Flow {
        self.rows += 1;
        if self.rows > ROWS_MAX { Flow::Full } else { Flow::More }
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), SinkClosed>> {
        task::Poll::Ready(Err(SinkClosed))
    }
}

struct World {
    runtime: Runtime,
    _engine: Engine,
    session: Session,
    inputs: usize,
}

/// Inputs after which the data directory is made anew.
const INPUTS_MAX: usize = 2000;

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn world() -> World {
    let path = std::env::temp_dir().join(format!("tidegate-fuzz-sql-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let mut options = EngineOptions::new(&path);
    options.durability = Durability::Normal;
    let engine = Engine::open(options).expect("an engine");
    let session = engine.session("").expect("a session");
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut world = World { runtime, _engine: engine, session, inputs: 0 };
    for sql in [
        "CREATE DATABASE IF NOT EXISTS f",
        "USE f",
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(40), n INT, d DECIMAL(10,2), at DATETIME, e ENUM('a','b'), j JSON, KEY (n))",
        "INSERT INTO t (s, n, d, at, e, j) VALUES ('a', 1, 1.5, '2024-01-01', 'a', '{\"k\":[1]}'), ('b', 2, NULL, NULL, 'b', NULL), ('été', -3, 0, '1999-12-31 23:59:59', NULL, '1')",
    ] {
        assert!(run(&mut world, sql.as_bytes()), "{sql}");
    }
    world
}

fn run(world: &mut World, sql: &[u8]) -> bool {
    let World { runtime, session, .. } = world;
    let mut sink = Few::default();
    runtime.block_on(session.execute(Statement { sql, params: &[] }, &mut sink)).is_ok()
}

/// Statements that wait or make huge results by design.
fn is_slow(sql: &[u8]) -> bool {
    let lower = sql.to_ascii_lowercase();
    [&b"sleep"[..], b"benchmark", b"recursive", b"repeat", b"space", b"pad", b"get_lock"]
        .iter()
        .any(|word| lower.windows(word.len()).any(|part| part == *word))
}

fuzz_target!(|input: &[u8]| {
    if input.len() > 4096 || is_slow(input) {
        return;
    }
    WORLD.with_borrow_mut(|slot| {
        if slot.as_ref().is_none_or(|world| world.inputs >= INPUTS_MAX) {
            *slot = None;
            *slot = Some(world());
        }
        let world = slot.as_mut().expect("a world");
        world.inputs += 1;
        run(world, input);
        run(world, b"ROLLBACK");
        run(world, b"SET sql_mode = DEFAULT, autocommit = 1");
        assert!(run(world, b"SELECT 1"), "the session answers no more");
    });
});
