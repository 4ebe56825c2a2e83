//! Cache pairs: statements of one shape that differ in their literals, in sessions with settings of their own, must answer as
//! they do where no plan is kept. Needs no MariaDB.

use std::path::PathBuf;

use tidegate_rows::{Execute, Statement};
use tidegate_sql::{Engine, EngineOptions, Session};

use crate::{
    block_on, number,
    outcome::{Outcome, Recorder},
    random::{self, Random, TABLES},
    typed,
};

/// Sessions beside each other: they share the connections of their thread, and so its plans.
const SESSIONS: usize = 3;

/// Statements of one shape in a row.
const VARIANTS: usize = 4;

/// Settings that a translation or a run depends on.
const SETTINGS: &[&str] = &[
    "SET sql_mode = ''",
    "SET sql_mode = 'STRICT_TRANS_TABLES'",
    "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'",
    "SET sql_mode = 'NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE'",
    "SET sql_mode = 'ONLY_FULL_GROUP_BY,ERROR_FOR_DIVISION_BY_ZERO'",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci",
    "SET NAMES utf8mb4",
    "SET time_zone = '+05:30'",
    "SET time_zone = '-08:00'",
    "SET timestamp = 1600000000",
    "SET timestamp = 1700000000.5",
    "SET group_concat_max_len = 4",
    "SET group_concat_max_len = 1000",
    "SET foreign_key_checks = 0",
    "SET autocommit = 1",
];

/// Two engines with the same rows: the sessions of one keep plans, those of the other keep none.
struct Sides {
    kept: Vec<Session>,
    plain: Vec<Session>,
    dir: PathBuf,
}

impl Sides {
    async fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("tidegate-sql-pairs-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Self { kept: side(dir.join("kept"), true).await, plain: side(dir.join("plain"), false).await, dir }
    }

    /// Runs a statement on both sides and compares everything that a client sees.
    #[track_caller]
    fn check(&mut self, at: usize, sql: &str) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let kept = run(&mut self.kept[at], sql).await;
            let plain = run(&mut self.plain[at], sql).await;
            assert!(kept == plain, "{place}: session {at}: {sql}\n  kept:  {kept}\n  plain: {plain}");
        }
    }

    /// Compares all rows of all tables.
    async fn check_tables(&mut self, after: &str) {
        for table in TABLES {
            let sql = format!("SELECT * FROM {table} ORDER BY id");
            let kept = run(&mut self.kept[0], &sql).await;
            let plain = run(&mut self.plain[0], &sql).await;
            assert!(kept == plain, "{table} after {after}\n  kept:  {kept}\n  plain: {plain}");
        }
    }
}

impl Drop for Sides {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

async fn side(dir: PathBuf, keeps: bool) -> Vec<Session> {
    // Whether there are statistics must not depend on the time that passes.
    let options = EngineOptions { renews_statistics: false, ..EngineOptions::new(dir) };
    let engine = Engine::open(options).expect("an engine");
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let mut session = engine.session("").expect("a session");
        for sql in [
            "CREATE DATABASE IF NOT EXISTS pairs",
            "USE pairs",
            "SET time_zone = '+00:00'",
            "SET timestamp = 1500000000",
        ] {
            run(&mut session, sql).await;
        }
        session.set_statement_cache(keeps);
        sessions.push(session);
    }
    sessions
}

async fn run(session: &mut Session, sql: &str) -> Outcome {
    let mut recorder = Recorder::default();
    let result = session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut recorder).await;
    recorder.finish(result)
}

/// The statement with other literals in the same places, of the same kinds for the most part.
fn vary(random: &mut Random, sql: &str) -> String {
    let bytes = sql.as_bytes();
    let (mut out, mut at) = (String::new(), 0);
    while at < bytes.len() {
        let start = at;
        let after_word = start > 0 && (bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'_');
        match bytes[at] {
            b'\'' => {
                at += 1 + sql[at + 1..].find('\'').map_or(sql.len() - at - 1, |end| end + 1);
                let old = &sql[start..at];
                out.push_str(&other_text(random, old, after_word));
            }
            b'0'..=b'9' if !after_word => {
                while at < bytes.len() && (bytes[at].is_ascii_digit() || bytes[at] == b'.') {
                    at += 1;
                }
                out.push_str(&other_number(random, &sql[start..at]));
            }
            _ => {
                at += sql[at..].chars().next().map_or(1, char::len_utf8);
                out.push_str(&sql[start..at]);
            }
        }
    }
    out
}

fn other_text(random: &mut Random, old: &str, prefixed: bool) -> String {
    if prefixed && !old.contains('-') {
        // The inside of x'41'.
        return if old.len().is_multiple_of(2) {
            random.pick(&["'41'", "'4142'", "''", "'ff'"]).to_owned()
        } else {
            old.to_owned()
        };
    }
    if random.chance(25) {
        return old.to_owned();
    }
    let dated = old.len() >= 12 && old.as_bytes()[5] == b'-';
    if dated || prefixed {
        return random
            .pick(&["'2024-02-29'", "'1999-12-31 23:59:59'", "'2023-11-14 22:13:20.123'", "'2000-01-01'"])
            .to_owned();
    }
    random
        .pick(&[
            "''",
            "'a'",
            "'A'",
            "'abc'",
            "'é'",
            "'%'",
            "'a%'",
            "'_b%'",
            "'1'",
            "'12'",
            "'1.50'",
            "'-7'",
            "'1e2'",
            "'it''s'",
            "'x\\\\y'",
            "'zeta zeta zeta zeta zeta zeta zeta zeta zeta zeta'",
            "'2024-02-29'",
        ])
        .to_owned()
}

fn other_number(random: &mut Random, old: &str) -> String {
    let pool: &[&str] = if random.chance(12) {
        &["1.5", "7", "4294967296", "18446744073709551615", "123456789012345678901234567890", "0.00001"]
    } else if old.contains('.') {
        &["1.5", "2.7", "0.1", "9.9", "1.25", "100.00", "12345.67", "0.0001"]
    } else {
        &[
            "0",
            "1",
            "2",
            "3",
            "5",
            "7",
            "10",
            "12",
            "99",
            "255",
            "1000",
            "65536",
            "999999999",
            "2147483647",
            "2147483648",
            "9999999999",
        ]
    };
    random.pick(pool).to_owned()
}

/// A statement whose list is as long as chance wants it.
fn listed(random: &mut Random) -> String {
    let count = [1, 2, 3, 40, 300][random.below(5)];
    let list: Vec<String> = (0..count).map(|_| random.below(40).to_string()).collect();
    let table = random.pick(&TABLES);
    match random.below(3) {
        0 => format!("SELECT COUNT(*), MIN(id), MAX(c1) FROM {table} WHERE id IN ({})", list.join(", ")),
        1 => format!("DELETE FROM {table} WHERE id > 12 AND id IN ({})", list.join(", ")),
        _ => {
            format!("SELECT id IN ({}) AS a, 'x' AS b FROM {table} WHERE id <> 5 ORDER BY id LIMIT 3", list.join(", "))
        }
    }
}

#[test]
fn a_kept_plan_answers_as_a_fresh_one() {
    let (seed, count) = (number("TIDEGATE_DIFF_SEED", 1), number("TIDEGATE_PAIRS_COUNT", 400));
    block_on(async {
        let mut sides = Sides::new().await;
        let mut random = Random::new(seed);
        for sql in random::schema(&mut random) {
            sides.check(0, &sql).await;
        }
        for _ in 0..count {
            if random.chance(30) {
                let (at, setting) = (random.below(SESSIONS), random.pick(SETTINGS));
                sides.check(at, setting).await;
            }
            let shape = match random.below(10) {
                0 => listed(&mut random),
                1..=5 => typed::statement(&mut random),
                _ => random::statement(&mut random),
            };
            for variant in 0..VARIANTS {
                let sql = if variant == 0 { shape.clone() } else { vary(&mut random, &shape) };
                sides.check(random.below(SESSIONS), &sql).await;
                if random::writes(&sql) {
                    sides.check_tables(&sql).await;
                }
            }
        }
    });
}
