//! sysbench, by Alexey Kopytov: lookups by SQL, over MySQL's protocol.

use super::{Ask, Generator, Load};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

/// An installed sysbench.
pub struct Sysbench {
    /// Where it is.
    pub program: PathBuf,
}

/// What each connection does again and again.
const SCRIPT: &str = include_str!("../../sources/lookup.lua");

impl Generator for Sysbench {
    fn version(&self) -> String {
        crate::machine::first_line(&self.program.to_string_lossy(), &["--version"])
    }

    fn command(&self, ask: &Ask<'_>) -> Result<Command, String> {
        let script = ask.dir.join("lookup.lua");
        fs::write(&script, SCRIPT).map_err(|e| format!("{}: {e}", script.display()))?;
        let (_, port) = ask.url.rsplit_once(':').ok_or_else(|| format!("{} has no port", ask.url))?;
        let mut command = Command::new("taskset");
        command.args(["-c", ask.cores]).arg(&self.program).arg(script);
        command.args(words(port, ask.time)).arg(format!("--threads={}", ask.clients)).args(["--histogram=on", "run"]);
        Ok(command)
    }

    fn read(&self, output: &Output) -> Result<Load, String> {
        let text = String::from_utf8_lossy(&output.stdout);
        read(&text).ok_or_else(|| format!("sysbench said: {text}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// Arguments of every load: who logs in where at this machine, and for how long.
pub fn words(port: &str, time: Duration) -> Vec<String> {
    let mut words = ["--db-driver=mysql", "--mysql-host=127.0.0.1", "--mysql-user=monty", "--mysql-password=some_pass"]
        .map(str::to_owned)
        .to_vec();
    words.extend(["--mysql-db=world", "--events=0", "--percentile=99"].map(str::to_owned));
    words.extend([format!("--mysql-port={port}"), format!("--time={}", time.as_secs().max(1))]);
    words
}

/// What sysbench has printed; `None` if nothing was answered.
#[must_use]
pub fn read(text: &str) -> Option<Load> {
    let mut load = Load::default();
    let mut histogram: Vec<(f64, u64)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some((value, rest)) = line.split_once(" |") {
            // Milliseconds, a bar, how often.
            let count = rest.rsplit([' ', '*']).next()?;
            histogram.push((value.trim().parse().ok()?, count.parse().ok()?));
        } else if let Some(rest) = line.strip_prefix("transactions:") {
            let (count, rate) = rest.split_once('(')?;
            load.requests = count.trim().parse().ok()?;
            load.per_second = rate.split_whitespace().next()?.parse().ok()?;
        } else if let Some(count) = line.strip_prefix("ignored errors:") {
            load.failed = count.split_whitespace().next()?.parse().ok()?;
        } else if let Some(milliseconds) = line.strip_prefix("99th percentile:") {
            load.p99_us = milliseconds.trim().parse::<f64>().ok()? * 1e3;
        } else if let Some(milliseconds) = line.strip_prefix("max:") {
            load.max_us = milliseconds.trim().parse::<f64>().ok()? * 1e3;
        }
    }
    let half = histogram.iter().map(|(_, count)| count).sum::<u64>().div_ceil(2);
    let mut seen = 0;
    let middle = histogram.iter().find(|(_, count)| {
        seen += count;
        seen >= half
    });
    load.p50_us = middle.map_or(0.0, |(milliseconds, _)| milliseconds * 1e3);
    (load.requests > 0).then_some(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sysbench_prints() {
        let text = "Latency histogram (values are in milliseconds)\n       value  ------------- distribution ------------- count\n       \
                    0.059 |*                                        21\n       0.060 |****************************** 1200\n       \
                    0.070 |                                         13\n\nSQL statistics:\n    \
                    transactions:                        1234   (246.50 per sec.)\n    \
                    queries:                             1234   (246.50 per sec.)\n    \
                    ignored errors:                      3      (0.60 per sec.)\n\nLatency (ms):\n         \
                    min:                                    0.05\n         max:                                    1.55\n         \
                    99th percentile:                        0.98\n";
        let expected =
            Load { requests: 1234, per_second: 246.5, p50_us: 60.0, p99_us: 980.0, max_us: 1550.0, failed: 3 };
        assert_eq!(read(text), Some(expected));
        assert_eq!(read("FATAL: unable to connect"), None);
    }
}
