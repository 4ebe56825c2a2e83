//! Prepared against plain: a random statement runs with its literals, with some of them as typed user variables of EXECUTE, and with
//! them as parameters of the protocol. Each way must answer as MariaDB does that way, and leave the same rows; a session that
//! keeps no plans must answer the same in everything that a client sees.
//!
//! Only what MariaDB answers alike with literals is compared with it: [`random`] judges literals. Types of columns are
//! not compared, because MariaDB's depend on the parameters of PREPARE.

use std::path::PathBuf;

use tidegate_mysql::Conn;
use tidegate_rows::{Execute, Param, Statement};
use tidegate_sql::{Engine, EngineOptions, Session};

use crate::{
    PROLOGUE, Pair,
    accepted::Accepted,
    block_on, number,
    outcome::{Outcome, Recorder},
    random::{self, Random, TABLES},
    report::Report,
    typed,
};

/// Of the statements with parameters, at least so many per cent must give MariaDB's answer.
const SAME_PERCENT_MIN: f64 = 99.0;

/// Of the literals of a statement, so many per cent become parameters.
const PARAMETER_PERCENT: usize = 70;

/// A statement whose literals stand apart.
struct Apart {
    /// With `?` for each.
    sql: String,
    literals: Vec<String>,
}

/// Takes literals out of a statement, those that chance picks and whose place takes a parameter.
fn apart(random: &mut Random, sql: &str) -> Apart {
    let bytes = sql.as_bytes();
    let mut found = Apart { sql: String::new(), literals: Vec::new() };
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let after_word = start > 0 && (bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'_');
        match bytes[at] {
            b'\'' => {
                at += 1;
                while at < bytes.len() && (bytes[at] != b'\'' || bytes.get(at + 1) == Some(&b'\'')) {
                    at += if bytes[at] == b'\'' { 2 } else { 1 };
                }
                at += 1;
            }
            b'0'..=b'9' if !after_word => {
                at += bytes[at..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
                if bytes.get(at) == Some(&b'e') {
                    at += 1 + bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                }
            }
            _ => {
                at += sql[at..].chars().next().map_or(1, char::len_utf8);
                found.sql.push_str(&sql[start..at]);
                continue;
            }
        }
        let literal = &sql[start..at];
        if !after_word && takes_parameter(&sql[..start], &sql[at..]) && random.chance(PARAMETER_PERCENT) {
            found.sql.push('?');
            found.literals.push(literal.to_owned());
        } else {
            found.sql.push_str(literal);
        }
    }
    found
}

/// Whether the grammar has a parameter between these: not in types, frames of windows, and distances of LEAD.
fn takes_parameter(before: &str, behind: &str) -> bool {
    let in_type = before.rfind("DECIMAL(").is_some_and(|at| !before[at..].contains(')'));
    !in_type && ![" PRECEDING", " FOLLOWING", ") OVER"].iter().any(|word| behind.starts_with(word))
}

/// A literal as the protocol sends it: decimals go as text, as clients send them.
fn parameter(literal: &str) -> Param {
    if let Some(text) = literal.strip_prefix('\'') {
        return Param::Bytes(text[..text.len() - 1].replace("''", "'").into_bytes().into());
    }
    if literal.contains('e') {
        return literal.parse().map_or(Param::Null, Param::Double);
    }
    literal.parse().map_or_else(|_| Param::Bytes(literal.to_owned().into_bytes().into()), Param::Int)
}

/// MariaDB, a session that keeps plans, and one that keeps none; all with the same rows.
struct Sides {
    pair: Pair,
    plain: Session,
    dir: PathBuf,
}

/// One answer of each.
struct Answers {
    kept: Outcome,
    plain: Outcome,
    theirs: Outcome,
}

impl Sides {
    async fn new() -> Self {
        let mut pair = Pair::new("parameters").await;
        pair.enter("parameters_diff").await;
        let dir = std::env::temp_dir().join(format!("tidegate-sql-parameters-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let engine = Engine::open(EngineOptions::new(&dir)).expect("an engine");
        let mut plain = engine.session("").expect("a session");
        plain.set_statement_cache(false);
        for sql in ["CREATE DATABASE parameters_diff", "USE parameters_diff"].into_iter().chain(PROLOGUE.split("; ")) {
            let outcome = run(&mut plain, sql, &[]).await;
            assert!(!outcome.is_error(), "{sql}: {outcome}");
        }
        Self { pair, plain, dir }
    }

    /// What all sides say; the sessions of the engine must agree in everything.
    async fn run(&mut self, sql: &str, params: &[Param]) -> Answers {
        let answers = Answers {
            kept: run(&mut self.pair.session, sql, params).await,
            plain: run(&mut self.plain, sql, params).await,
            theirs: run::<Conn>(&mut self.pair.server, sql, params).await,
        };
        assert!(
            answers.kept == answers.plain,
            "{sql}; {params:?}\n  kept:  {}\n  plain: {}",
            answers.kept,
            answers.plain
        );
        answers
    }

    async fn make_tables(&mut self, random: &mut Random) {
        for sql in random::schema(random) {
            self.run(&sql, &[]).await;
        }
    }

    /// Whether all tables have the rows that they have in MariaDB.
    async fn are_same(&mut self) -> bool {
        let mut same = true;
        for table in TABLES {
            let answers = self.run(&format!("SELECT * FROM {table} ORDER BY id"), &[]).await;
            same &= answers.kept.difference(&answers.theirs, true).is_none();
        }
        same
    }
}

impl Drop for Sides {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

async fn run<E: Execute>(side: &mut E, sql: &str, params: &[Param]) -> Outcome {
    let mut recorder = Recorder::default();
    let result = side.execute(Statement { sql: sql.as_bytes(), params }, &mut recorder).await;
    recorder.finish(result)
}

/// Runs a statement each way and tells the report what differs with parameters only. Answers whether the sides' rows are the same.
async fn check(sides: &mut Sides, report: &mut Report, statement: &str, apart: &Apart) -> bool {
    let writes = random::writes(statement);
    let literal = sides.run(statement, &[]).await;
    let ordered = statement.contains("ORDER BY");
    if literal.kept.clone().with_plain_blobs().difference(&literal.theirs.clone().with_plain_blobs(), ordered).is_some()
        || (writes && !sides.are_same().await)
    {
        return false;
    }
    let names: Vec<String> = (0..apart.literals.len()).map(|index| format!("@p{index}")).collect();
    let values: Vec<String> =
        names.iter().zip(&apart.literals).map(|(name, literal)| format!("{name} = {literal}")).collect();
    let set = format!("SET {}", values.join(", "));
    sides.run(&set, &[]).await;
    let prepared = sides.run(&format!("PREPARE s FROM '{}'", apart.sql.replace('\'', "''")), &[]).await;
    let mut ways = vec![("prepare", prepared)];
    if !ways[0].1.kept.is_error() && !ways[0].1.theirs.is_error() {
        let execute = format!("EXECUTE s USING {}", names.join(", "));
        // A plan that is kept answers the second time.
        ways.push(("using", sides.run(&execute, &[]).await));
        ways.push(("using again", sides.run(&execute, &[]).await));
        let params: Vec<Param> = apart.literals.iter().map(|literal| parameter(literal)).collect();
        ways.push(("protocol", sides.run(&apart.sql, &params).await));
    }
    let mut same = true;
    for (way, answers) in ways {
        let shown = format!("{} /* {way}: {set} */", apart.sql);
        let ours = answers.kept.typed_as(&answers.theirs);
        same &= ours.difference(&answers.theirs, ordered).is_none();
        report.add("parameters", &shown, ours, answers.theirs);
    }
    !writes || (same && sides.are_same().await)
}

#[test]
fn parameters_answer_as_literals_do() {
    let (seed, count) = (number("TIDEGATE_DIFF_SEED", 1), number("TIDEGATE_PARAMETERS_COUNT", 300));
    block_on(async {
        let mut report = Report::new(Accepted::read());
        let mut sides = Sides::new().await;
        let mut random = Random::new(seed);
        sides.make_tables(&mut random).await;
        let mut compared = 0;
        while compared < count {
            let statement =
                if random.chance(50) { typed::statement(&mut random) } else { random::statement(&mut random) };
            let apart = apart(&mut random, &statement);
            if apart.literals.is_empty() {
                continue;
            }
            compared += 1;
            if !check(&mut sides, &mut report, &statement, &apart).await && random::writes(&statement) {
                sides.make_tables(&mut random).await;
            }
        }
        report.finish("differential-parameters.txt", false, SAME_PERCENT_MIN);
    });
}
