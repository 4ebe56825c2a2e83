//! Laws that hold for every statement, whatever a server says: the rows of a table are those for which a condition holds, those
//! for which it does not and those for which it is NULL; a count is the sum of its condition; an index changes no result. Needs
//! no MariaDB.

use std::path::PathBuf;

use tidegate_sql::{Engine, EngineOptions, Session};

use crate::{
    block_on, number,
    outcome::Outcome,
    random::{self, Random, TABLES},
    run, typed,
};

/// A session in a schema of its own.
struct Side {
    session: Session,
    dir: PathBuf,
}

impl Side {
    async fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("tidegate-sql-laws-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let engine = Engine::open(EngineOptions::new(&dir)).expect("an engine");
        let mut side = Self { session: engine.session("").expect("a session"), dir };
        for sql in ["CREATE DATABASE laws", "USE laws", "SET time_zone = '+00:00'", "SET timestamp = 1700000000"] {
            side.run(sql).await;
        }
        side
    }

    async fn run(&mut self, sql: &str) -> Outcome {
        run(&mut self.session, sql).await
    }

    /// The rows of a query in an order of their own; `None` if it fails.
    async fn rows(&mut self, sql: &str) -> Option<Vec<Vec<Option<Vec<u8>>>>> {
        match self.run(sql).await {
            Outcome::Rows { mut rows, .. } => {
                rows.sort();
                Some(rows)
            }
            _ => None,
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Checks that a condition divides a table; a condition that fails on some row says nothing.
async fn check_partition(side: &mut Side, from: &str, condition: &str) {
    let Some(mut all) = side.rows(&format!("SELECT x0.id FROM {from}")).await else { panic!("{from}") };
    let mut parts = Vec::new();
    for test in ["", "NOT ", ""].iter().zip(["", "", " IS NULL"]).map(|(not, null)| format!("{not}({condition}){null}"))
    {
        let Some(rows) = side.rows(&format!("SELECT x0.id FROM {from} WHERE {test}")).await else { return };
        let counted = side.rows(&format!("SELECT SUM(CASE WHEN {test} THEN 1 ELSE 0 END) AS n FROM {from}")).await;
        let count = rows.len().to_string().into_bytes();
        let sum = counted.map(|rows| rows[0][0].clone().unwrap_or_else(|| b"0".to_vec()));
        assert_eq!(sum.map(String::from_utf8), Some(String::from_utf8(count)), "SUM and COUNT of {test} FROM {from}");
        parts.extend(rows);
    }
    parts.sort();
    all.sort();
    assert!(parts == all, "{condition} does not divide {from}: {} of {} rows", parts.len(), all.len());
}

#[test]
fn a_condition_divides_its_table() {
    let (seed, count) = (number("TIDEGATE_DIFF_SEED", 1), number("TIDEGATE_LAWS_COUNT", 400));
    block_on(async {
        let mut random = Random::new(seed);
        let mut side = Side::new("parts").await;
        for sql in random::schema(&mut random) {
            side.run(&sql).await;
        }
        for _ in 0..count {
            let (from, condition) = typed::condition(&mut random);
            check_partition(&mut side, &from, &condition).await;
        }
    });
}

/// The same random statements, those that write included, with and without indexes: all answers and all tables are the same.
#[test]
fn an_index_changes_no_result() {
    let (seed, count) = (number("TIDEGATE_DIFF_SEED", 1), number("TIDEGATE_LAWS_COUNT", 400));
    block_on(async {
        let mut random = Random::new(seed);
        let (mut with, mut without) = (Side::new("with").await, Side::new("without").await);
        for sql in random::schema(&mut random) {
            with.run(&sql).await;
            without.run(&sql).await;
        }
        for table in TABLES {
            without.run(&format!("ALTER TABLE {table} DROP KEY k0, DROP KEY k1")).await;
        }
        for _ in 0..count {
            let sql = typed::statement(&mut random);
            // Which rows a limit keeps, and whose value a group shows, is free among equals.
            let (a, b) = (with.run(&sql).await, without.run(&sql).await);
            assert!(a.difference(&b, false).is_none(), "{sql}\n  with:    {a}\n  without: {b}");
            if random::writes(&sql) {
                for table in TABLES {
                    let sql = format!("SELECT * FROM {table} ORDER BY id");
                    let (a, b) = (with.run(&sql).await, without.run(&sql).await);
                    assert!(a.difference(&b, true).is_none(), "{sql}\n  with:    {a}\n  without: {b}");
                }
            }
        }
    });
}
