//! The same statements on the embedded engine and on a MariaDB of our own: rows, names and types of columns, affected rows,
//! insert ids and error codes must be the same. Each difference is listed with its reason in `accepted.txt`.
//!
//! `corpus/*.sql` holds the statements, one feature for a file; [`corpus`] tells their form. [`random`] makes statements from
//! a seed. `TIDEGATE_DIFF=NAME` runs the files whose name contains NAME only, `TIDEGATE_DIFF_DIR` those of another directory; `TIDEGATE_DIFF_SEED` and `TIDEGATE_DIFF_COUNT` choose what
//! the random part does; the report is written to `target/tmp/differential.txt`.
//!
//! Reading order: [`corpus`], [`outcome`], [`accepted`], [`random`], [`typed`], [`pairs`], [`prepared`], [`parameters`],
//! [`metamorphic`], [`two_clients`], [`interleaved`].

mod accepted;
mod corpus;
mod interleaved;
mod metamorphic;
mod outcome;
mod pairs;
mod parameters;
mod prepared;
mod random;
mod report;
#[allow(dead_code, unreachable_pub, reason = "shared with the client's tests, which use all of it")]
#[path = "../../../tidegate-mysql/tests/mariadb/server.rs"]
mod server;
mod sinks;
mod two_clients;
mod typed;

use std::{path::PathBuf, sync::Arc};

use tidegate_mysql::Conn;
use tidegate_rows::{Execute, Statement};
use tidegate_sql::{Engine, EngineOptions, Session};

use accepted::Accepted;
use outcome::{Outcome, Recorder};
use report::Report;

/// What the suite must reach; each difference must be in `accepted.txt`.
const SAME_PERCENT_MIN: f64 = 99.0;

/// The same for random statements.
const SAME_RANDOM_PERCENT_MIN: f64 = 97.5;

/// What both sides run before anything else.
const PROLOGUE: &str = "SET NAMES utf8mb4; \
    SET sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION'; \
    SET time_zone = '+00:00'; SET timestamp = 1700000000";

/// Both sides, each with a session.
struct Pair {
    engine: Engine,
    session: Session,
    server: Conn,
    dir: PathBuf,
}

impl Pair {
    async fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("tidegate-sql-differential-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        // Whether there are statistics must not depend on the time that passes.
        let options = EngineOptions { renews_statistics: false, ..EngineOptions::new(&dir) };
        let engine = Engine::open(options).expect("an engine");
        let session = engine.session("").expect("a session");
        let server = Conn::connect(Arc::new(server::shared().root())).await.expect("a connection");
        Self { engine, session, server, dir }
    }

    /// New sessions in a fresh schema.
    async fn enter(&mut self, schema: &str) {
        self.session = self.engine.session("").expect("a session");
        self.server = Conn::connect(Arc::new(server::shared().root())).await.expect("a connection");
        let enter = format!("DROP DATABASE IF EXISTS {schema}; CREATE DATABASE {schema}; USE {schema}; {PROLOGUE}");
        for statement in enter.split("; ") {
            let (ours, theirs) = self.run(statement).await;
            assert!(!ours.is_error() && !theirs.is_error(), "{statement}: {ours:?} {theirs:?}");
        }
    }

    /// What the engine and what the server say.
    async fn run(&mut self, sql: &str) -> (Outcome, Outcome) {
        (run(&mut self.session, sql).await, run(&mut self.server, sql).await)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

async fn run(side: &mut impl Execute, sql: &str) -> Outcome {
    let mut recorder = Recorder::default();
    let result = side.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut recorder).await;
    recorder.finish(result)
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future);
}

/// The statements of the corpus; a session and a schema for each file.
#[test]
fn the_corpus_gives_the_same_results() {
    let wanted = std::env::var("TIDEGATE_DIFF").unwrap_or_default();
    let complete = wanted.is_empty() && std::env::var_os("TIDEGATE_DIFF_DIR").is_none();
    block_on(async {
        let mut report = Report::new(Accepted::read());
        for file in corpus::files().into_iter().filter(|file| file.name.contains(&wanted)) {
            let mut pair = Pair::new(&file.name).await;
            pair.enter("diff").await;
            for statement in &file.statements {
                let (ours, theirs) = pair.run(&statement.sql).await;
                if !statement.silent {
                    report.add(&file.name, &statement.sql, ours, theirs);
                }
            }
        }
        report.finish("differential.txt", complete, SAME_PERCENT_MIN);
    });
}

/// A number that the environment may give.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Random statements over random tables, a bounded slice of them from a fixed seed.
#[test]
fn random_statements_give_the_same_results() {
    let (seed, count) = (number("TIDEGATE_DIFF_SEED", 1), number("TIDEGATE_DIFF_COUNT", 1500));
    block_on(async {
        let mut report = Report::new(Accepted::read());
        let mut pair = Pair::new("random").await;
        pair.enter("random_diff").await;
        let mut random = random::Random::new(seed);
        for statement in random::schema(&mut random) {
            let (ours, theirs) = pair.run(&statement).await;
            report.add("random", &statement, ours, theirs);
        }
        for _ in 0..count {
            let statement =
                if random.chance(60) { typed::statement(&mut random) } else { random::statement(&mut random) };
            let (ours, theirs) = pair.run(&statement).await;
            let (ours, theirs) = (ours.with_plain_blobs(), theirs.with_plain_blobs());
            let apart = random::writes(&statement) && ours.difference(&theirs, false).is_some();
            report.add("random", &statement, ours, theirs);
            let same = random::writes(&statement) && !apart;
            for table in random::TABLES.iter().filter(|table| same && statement.contains(**table)) {
                let all = format!("SELECT * FROM {table} ORDER BY id");
                let (ours, theirs) = pair.run(&all).await;
                assert!(ours.difference(&theirs, true).is_none(), "{table} after {statement}\n{ours}\n{theirs}");
            }
            if apart {
                // What follows compares statements, not tables that have become different ones.
                for statement in random::schema(&mut random) {
                    pair.run(&statement).await;
                }
            }
        }
        report.finish("differential-random.txt", false, SAME_RANDOM_PERCENT_MIN);
    });
}
