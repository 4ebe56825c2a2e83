//! CPU time of a statement over three sizes of its table, its text or the schema around it, on our MySQL port and on MariaDB.

use super::cpu;
use super::definition::Bench;
use super::report::Row;
use super::server::{Contestant, Running, Site};
use super::special::figure;
use crate::cases::Vars;
use crate::paths;
use crate::ports::free_port;
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// The schema that is made anew for each size.
const SCHEMA: &str = "growth";

/// A server that answers.
struct Target<'a> {
    name: &'static str,
    port: String,
    /// Whose CPU time counts.
    pids: Vec<Pid>,
    /// Where statements are written down for the client.
    dir: &'a Path,
}

/// Milliseconds of CPU time at the largest of `sizes`; the law of growth goes into the title.
///
/// The lowest of the rounds counts: what else a server does in the background only adds to a figure.
pub(super) fn growth(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    mariadb: &[Pid],
    rounds: usize,
    row: &mut Row,
) -> Result<(), String> {
    row.unit("ms");
    let sizes = sizes(bench)?;
    let Some(contestant) = contestants.iter().find(|contestant| contestant.name == "tidegate") else {
        return Err("ours does not take part".to_owned());
    };
    let port = free_port();
    let site = Site::create(bench, vars, contestant, Some(port))?;
    let server = Running::start(&site, &contestant.binary)?;
    let mut targets =
        vec![Target { name: contestant.name, port: port.to_string(), pids: vec![server.pid()], dir: site.dir() }];
    if !mariadb.is_empty() {
        let port = vars.expand("$TEST_MARIADB_PORT")?;
        targets.insert(0, Target { name: bench.against.name(), port, pids: mariadb.to_vec(), dir: site.dir() });
    }
    let mut all = Vec::new();
    for target in &targets {
        let times: Vec<f64> = sizes.iter().map(|size| target.time(bench, *size, rounds)).collect::<Result<_, _>>()?;
        row.add(target.name, figure(times.last().copied().unwrap_or_default()));
        all.push((target.name, times));
    }
    note_laws(row, "ms", &sizes, &all);
    Ok(())
}

/// The sizes over which a benchmark goes.
pub(super) fn sizes(bench: &Bench) -> Result<Vec<u32>, String> {
    let sizes: Result<_, _> = bench.value("sizes").split_whitespace().map(str::parse).collect();
    sizes.map_err(|_| "\"sizes\" wants numbers".to_owned())
}

/// Puts the figures of all sizes and the laws of their growth into the title.
pub(super) fn note_laws(row: &mut Row, unit: &str, sizes: &[u32], all: &[(&str, Vec<f64>)]) {
    let law = |(name, figures): &(&str, Vec<f64>)| {
        let shown: Vec<String> = figures.iter().map(|figure| format!("{figure:.2}")).collect();
        format!("{name} {} {unit}, n^{:.2}", shown.join(", "), exponent(sizes, figures))
    };
    let laws: Vec<String> = all.iter().map(law).collect();
    let sizes: Vec<String> = sizes.iter().map(u32::to_string).collect();
    row.note(&format!("n = {}: {}", sizes.join(", "), laws.join("; ")));
}

/// The power of the size by which the time grows from the smallest to the largest.
fn exponent(sizes: &[u32], times: &[f64]) -> f64 {
    let span = |first: f64, last: f64| (last / first).ln();
    match (sizes, times) {
        ([small, .., large], [first, .., last]) => span(*first, *last) / span(f64::from(*small), f64::from(*large)),
        _ => 0.0,
    }
}

impl Target<'_> {
    /// Milliseconds of CPU time of the statement.
    fn time(&self, bench: &Bench, size: u32, rounds: usize) -> Result<f64, String> {
        self.run(&format!("drop database if exists {SCHEMA}; create database {SCHEMA};"), "")?;
        self.run(&expand(bench.value("prepare"), size), SCHEMA)?;
        let times: usize = bench.value("repeat").trim().parse().unwrap_or(1);
        let statement = expand(bench.value("statement"), size).repeat(times);
        let before = expand(bench.value("before"), size);
        let mut lowest = f64::INFINITY;
        for _ in 0..rounds {
            self.run(&before, SCHEMA)?;
            let begun = cpu::usage_of(&self.pids);
            self.run(&statement, SCHEMA)?;
            let used = cpu::usage_of(&self.pids).since(&begun).total;
            lowest = lowest.min(used.as_secs_f64() * 1e3 / times as f64);
        }
        Ok(lowest)
    }

    fn run(&self, sql: &str, schema: &str) -> Result<(), String> {
        run_sql(&self.port, self.dir, sql, schema).map_err(|error| format!("{}: {error}", self.name))
    }
}

/// Runs statements in one session of the `mariadb` client; they are written down in `dir`.
pub(super) fn run_sql(port: &str, dir: &Path, sql: &str, schema: &str) -> Result<(), String> {
    if sql.trim().is_empty() {
        return Ok(());
    }
    let file = dir.join("statements.sql");
    let failed = |e: std::io::Error| format!("{}: {e}", file.display());
    fs::write(&file, sql).map_err(failed)?;
    let program = paths::program("mariadb").ok_or("the mariadb client is not installed")?;
    let output = Command::new(program)
        .args(["--no-defaults", "--host=127.0.0.1", "--user=monty", "--password=some_pass"])
        .args(["--default-character-set=utf8mb4", "--max-allowed-packet=256M", "--quick"])
        .arg(format!("--port={port}"))
        .args((!schema.is_empty()).then_some(schema))
        .stdin(File::open(&file).map_err(failed)?)
        .stdout(Stdio::null())
        .output()
        .map_err(|e| format!("mariadb: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Fills in a template.
///
/// `SIZE` is the size. `[[item]]` stands for the item SIZE times with commas between, `{{item}}` without; `#` in it is the number of
/// the repetition, from 1, and `#.#.#` its three bytes, as in an address.
pub(super) fn expand(template: &str, size: u32) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some(start) = rest.find("[[").into_iter().chain(rest.find("{{")).min() {
        let (end, separator) = if rest[start..].starts_with('[') { ("]]", ",") } else { ("}}", "") };
        let Some(length) = rest[start..].find(end) else { break };
        out.push_str(&rest[..start]);
        let item = &rest[start + 2..start + length];
        for number in 1..=size {
            if number > 1 {
                out.push_str(separator);
            }
            let bytes = format!("{}.{}.{}", number >> 16, number >> 8 & 0xff, number & 0xff);
            out.push_str(&item.replace("#.#.#", &bytes).replace('#', &number.to_string()));
        }
        rest = &rest[start + length + 2..];
    }
    out.push_str(rest);
    out.replace("SIZE", &size.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_and_laws() {
        assert_eq!(
            expand("insert into t values [[(#, '#')]]; -- SIZE {{x}}", 3),
            "insert into t values (1, '1'),(2, '2'),(3, '3'); -- 3 xxx"
        );
        assert_eq!(expand("select '[['", 2), "select '[['");
        assert_eq!(expand("{{10.#.#.# #;}}", 2), "10.0.0.1 1;10.0.0.2 2;");
        let law = |times: &[f64]| format!("{:.2}", exponent(&[10, 100, 1000], times));
        assert_eq!(law(&[1.0, 10.0, 100.0]), "1.00");
        assert_eq!(law(&[1.0, 100.0, 10_000.0]), "2.00");
        assert_eq!(law(&[3.0, 3.0, 3.0]), "0.00");
    }
}
