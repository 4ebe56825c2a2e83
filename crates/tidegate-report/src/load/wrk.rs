//! wrk, by Will Glozer: its command line and what it prints.

use super::{Ask, Generator, Load, TIMEOUT};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// An installed wrk.
pub struct Wrk {
    /// Where it is.
    pub program: PathBuf,
}

impl Generator for Wrk {
    fn version(&self) -> String {
        let output = Command::new(&self.program).arg("-v").output();
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        text.lines().next().and_then(|line| line.split(" [").next()).unwrap_or("wrk").to_owned()
    }

    fn command(&self, ask: &Ask<'_>) -> Result<Command, String> {
        let mut command = Command::new("taskset");
        command.args(["-c", ask.cores]).arg(&self.program).args(["-t1", "--latency", "--timeout", TIMEOUT]);
        command.arg(format!("-c{}", ask.clients)).arg(format!("-d{}s", ask.time.as_secs().max(1)));
        if ask.closes {
            command.args(["-H", "Connection: close"]);
        }
        if let Some(body) = ask.body {
            let script = ask.dir.join("post.lua");
            let text = format!("wrk.method = \"POST\"\nwrk.body = [==[{body}]==]\n");
            fs::write(&script, text).map_err(|e| format!("{}: {e}", script.display()))?;
            command.arg("-s").arg(script);
        }
        command.arg(ask.url);
        Ok(command)
    }

    fn read(&self, output: &Output) -> Result<Load, String> {
        let text = String::from_utf8_lossy(&output.stdout);
        let words = || format!("wrk said: {text}{}", String::from_utf8_lossy(&output.stderr));
        read(&text).ok_or_else(words)
    }
}

/// What wrk has printed with `--latency`; `None` if there was no response.
#[must_use]
pub fn read(text: &str) -> Option<Load> {
    let mut load = Load::default();
    for line in text.lines().map(str::trim) {
        if let Some((count, _)) = line.split_once(" requests in ") {
            load.requests = count.parse().ok()?;
        } else if let Some(rate) = line.strip_prefix("Requests/sec:") {
            load.per_second = rate.trim().parse().ok()?;
        } else if let Some(time) = line.strip_prefix("50%") {
            load.p50_us = microseconds(time.trim())?;
        } else if let Some(time) = line.strip_prefix("99%") {
            load.p99_us = microseconds(time.trim())?;
        } else if let Some(times) = line.strip_prefix("Latency ").filter(|rest| !rest.starts_with("Dist")) {
            // Average, standard deviation, maximum.
            load.max_us = times.split_whitespace().nth(2).and_then(microseconds).unwrap_or(0.0);
        } else if let Some(count) = line.strip_prefix("Non-2xx or 3xx responses:") {
            load.failed += count.trim().parse::<u64>().ok()?;
        } else if let Some(errors) = line.strip_prefix("Socket errors:") {
            let numbers = errors.split([' ', ',']).filter_map(|w| w.parse::<u64>().ok());
            load.failed += numbers.sum::<u64>();
        }
    }
    (load.per_second > 0.0).then_some(load)
}

fn microseconds(text: &str) -> Option<f64> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..unit].parse().ok()?;
    match &text[unit..] {
        "us" => Some(number),
        "ms" => Some(number * 1e3),
        "s" => Some(number * 1e6),
        "m" => Some(number * 60e6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_prints() {
        let text = "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   301.00us  100.00us   2.50ms   97.00%\n  \
                    Latency Distribution\n     50%  301.00us\n     99%    1.52ms\n  6000 requests in 1.10s, 1.0MB read\n  \
                    Socket errors: connect 0, read 3, write 0, timeout 1\n  Non-2xx or 3xx responses: 5\nRequests/sec:   5454.5\n";
        let expected =
            Load { requests: 6000, per_second: 5454.5, p50_us: 301.0, p99_us: 1520.0, max_us: 2500.0, failed: 9 };
        assert_eq!(read(text), Some(expected));
        assert_eq!(read("unable to connect"), None);
    }

    #[test]
    fn a_posting_load_has_its_script() {
        let dir = crate::places::Scratch::new("wrk", false).expect("a directory");
        let body = Some("{\"a\":1}");
        let ask = Ask {
            url: "http://127.0.0.1:1/",
            clients: 7,
            time: std::time::Duration::from_secs(2),
            closes: true,
            body,
            cores: "1",
            dir: dir.path(),
        };
        let command = Wrk { program: "/usr/bin/wrk".into() }.command(&ask).expect("a command");
        let text = super::super::typed(&command);
        assert!(text.starts_with("taskset -c 1 /usr/bin/wrk -t1 --latency"), "{text}");
        assert!(text.contains(" -c7 -d2s -H 'Connection: close' -s "), "{text}");
        let script = fs::read_to_string(dir.path().join("post.lua")).expect("the script");
        assert_eq!(script, "wrk.method = \"POST\"\nwrk.body = [==[{\"a\":1}]==]\n");
    }
}
