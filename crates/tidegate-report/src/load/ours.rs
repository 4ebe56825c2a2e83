//! `tidegate load`, where the binary has it.

use super::{Ask, Generator, Load, TIMEOUT};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A binary with the sub-command.
pub struct Ours {
    /// Where it is.
    pub program: PathBuf,
}

impl Ours {
    /// `None` if the binary has no such sub-command.
    #[must_use]
    pub fn find(program: &Path) -> Option<Ours> {
        let mut command = Command::new(program);
        let output = command.args(["load", "--help"]).stdin(Stdio::null()).output().ok()?;
        let has_it = output.status.success() && String::from_utf8_lossy(&output.stdout).contains("--json");
        has_it.then(|| Ours { program: program.to_owned() })
    }
}

impl Generator for Ours {
    fn version(&self) -> String {
        let version = crate::machine::first_line(&self.program.to_string_lossy(), &["-v"]);
        format!("tidegate load of {}", version.trim_start_matches("tidegate version: "))
    }

    fn command(&self, ask: &Ask<'_>) -> Result<Command, String> {
        let mut command = Command::new("taskset");
        command.args(["-c", ask.cores]).arg(&self.program).args(["load", "--json", "--quiet", "--timeout", TIMEOUT]);
        command.args(["-c", &ask.clients.to_string()]).args(["-d", &format!("{}s", ask.time.as_secs().max(1))]);
        if ask.closes {
            command.arg("--no-keep-alive");
        }
        if let Some(body) = ask.body {
            command.args(["--body", body]);
        }
        command.arg(ask.url);
        Ok(command)
    }

    fn read(&self, output: &Output) -> Result<Load, String> {
        let text = String::from_utf8_lossy(&output.stdout);
        read(&text).ok_or_else(|| format!("tidegate load said: {text}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// What `--json` has printed; `None` if there was no response.
fn read(text: &str) -> Option<Load> {
    let report: Value = serde_json::from_str(text).ok()?;
    let latency = &report["result"]["latency_us"];
    let micros = |name: &str| latency[name].as_f64().unwrap_or(0.0);
    let load = Load {
        requests: report["result"]["responses"].as_u64()?,
        per_second: report["requests_per_s"].as_f64()?,
        p50_us: micros("p50"),
        p99_us: micros("p99"),
        max_us: micros("max"),
        failed: report["failed"].as_u64().unwrap_or(0) + report["error_statuses"].as_u64().unwrap_or(0),
    };
    (load.requests > 0).then_some(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tidegate_load_prints() {
        let text = r#"{"tidegate_load": 1, "requests_per_s": 5454.5, "failed": 3, "error_statuses": 4,
            "result": {"responses": 6000, "latency_us": {"p50": 301, "p99": 1520, "max": 2500}}}"#;
        let expected =
            Load { requests: 6000, per_second: 5454.5, p50_us: 301.0, p99_us: 1520.0, max_us: 2500.0, failed: 7 };
        assert_eq!(read(text), Some(expected));
        assert_eq!(read(r#"{"requests_per_s": 0.0, "result": {"responses": 0}}"#), None);
        assert_eq!(read("nothing listens there"), None);
    }

    #[test]
    fn a_program_without_the_sub_command_is_none() {
        assert!(Ours::find(Path::new("/bin/false")).is_none());
        assert!(Ours::find(Path::new("/no/such/program")).is_none());
    }
}
