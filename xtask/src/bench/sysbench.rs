//! Transactions of Debian's sysbench, on our MySQL port and on MariaDB.

use super::definition::Bench;
use super::load::{Load, Sample, lower_quartile};
use super::report::Row;
use super::server::{Contestant, Running, Site};
use crate::cases::Vars;
use crate::ports::free_port;
use std::process::Command;
use std::time::Duration;
use tidegate_report::load::sysbench;

/// A server that sysbench talks to.
pub(super) struct Target {
    pub(super) name: &'static str,
    pub(super) port: String,
    /// The section with sysbench's arguments.
    pub(super) words: &'static str,
}

/// The section for both servers.
const WORDS: &str = "sysbench";

/// Elapsed time per transaction. The servers take turns, on tables of their own that are filled before.
pub(super) fn rate(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    time: Duration,
    row: &mut Row,
) -> Result<(), String> {
    row.unit("us of time");
    let mut targets =
        vec![Target { name: bench.against.name(), port: vars.expand("$TEST_MARIADB_PORT")?, words: WORDS }];
    let mut servers = Vec::new();
    for contestant in contestants {
        let port = free_port();
        let site = Site::create(bench, vars, contestant, Some(port))?;
        let server = Running::start(&site, &contestant.binary)?;
        targets.push(Target { name: contestant.name, port: port.to_string(), words: WORDS });
        servers.push((site, server));
    }
    for target in &targets {
        run(bench, target, time, "prepare")?;
    }
    let mut samples = vec![Vec::new(); targets.len()];
    for _ in 0..rounds {
        for (target, samples) in targets.iter().zip(&mut samples) {
            let load = measured(bench, target, time)?;
            samples.push(Sample { us_per_request: 1e6 / load.per_second, user_us: 0.0, load });
        }
    }
    for (target, samples) in targets.iter().zip(&mut samples) {
        row.add(target.name, lower_quartile(samples));
    }
    Ok(())
}

/// One round.
pub(super) fn measured(bench: &Bench, target: &Target, time: Duration) -> Result<Load, String> {
    let said = run(bench, target, time, "run")?;
    let load = sysbench::read(&said).ok_or_else(|| format!("{}: sysbench said: {said}", target.name))?;
    if load.failed > load.requests / 100 {
        return Err(format!("{}: {} failures beside {} transactions", target.name, load.failed, load.requests));
    }
    Ok(load)
}

/// A transaction that fails ends sysbench, except for deadlocks and long waits, which it begins again and counts.
pub(super) fn run(bench: &Bench, target: &Target, time: Duration, verb: &str) -> Result<String, String> {
    let words = bench.value(target.words).split_whitespace();
    let output = Command::new("sysbench")
        .args(words)
        .args(sysbench::words(&target.port, time))
        .arg(verb)
        .output()
        .map_err(|e| format!("cannot run sysbench: {e}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if output.status.success() { Ok(said) } else { Err(format!("{}: sysbench {verb}: {said}", target.name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sysbench_prints() {
        let text = "SQL statistics:\n    transactions:                        1234   (246.50 per sec.)\n    queries:   24680  (4930 per sec.)\n    \
                    ignored errors:                      3      (0.60 per sec.)\n\
                    Latency (ms):\n         min:     1.55\n         99th percentile:                       12.98\n";
        let load = sysbench::read(text).unwrap();
        assert_eq!(load, Load { requests: 1234, per_second: 246.5, p99_us: 12980.0, failed: 3, ..Load::default() });
        assert_eq!(sysbench::read("FATAL: unable to connect"), None);
    }
}
