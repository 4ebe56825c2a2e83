//! What puts the load on a server, behind one trait: `tidegate load` where the binary has it, else wrk.

pub mod lookups;
pub mod ours;
pub mod sysbench;
pub mod wrk;

use crate::places::program;
use crate::stacks::{Door, Tools};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// How long a generator waits for a response: it is to count slow ones, not to give them up.
const TIMEOUT: &str = "40s";

/// What a load generator found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Responses.
    pub requests: u64,
    /// Responses a second.
    pub per_second: f64,
    /// Latency in microseconds: of half of the requests at most,
    pub p50_us: f64,
    /// of 99 in 100,
    pub p99_us: f64,
    /// of all of them.
    pub max_us: f64,
    /// Errors of the socket and responses other than 2xx and 3xx.
    pub failed: u64,
}

/// A load that is wanted.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// Where to.
    pub url: &'a str,
    /// Connections, each of which sends a request when the last one is answered.
    pub clients: usize,
    /// For how long.
    pub time: Duration,
    /// A new connection for each request.
    pub closes: bool,
    /// A body to be posted; without one the method is GET.
    pub body: Option<&'a str>,
    /// The cores of the generator, as `taskset` reads them.
    pub cores: &'a str,
    /// A directory for what the generator has to read.
    pub dir: &'a Path,
}

/// A program that puts load on a server.
pub trait Generator {
    /// Its name and version.
    fn version(&self) -> String;

    /// The command line of a load; writes what it has to read.
    ///
    /// # Errors
    /// When that cannot be written.
    fn command(&self, ask: &Ask<'_>) -> Result<Command, String>;

    /// What the command has found.
    ///
    /// # Errors
    /// The words of a command that has found nothing.
    fn read(&self, output: &Output) -> Result<Load, String>;
}

/// What puts a load on each door.
pub struct Generators {
    http: Box<dyn Generator>,
    lookups: lookups::Lookups,
    sysbench: Option<sysbench::Sysbench>,
}

impl Generators {
    /// Those of this machine.
    ///
    /// # Errors
    /// When there is none for HTTP.
    pub fn find(tools: &Tools) -> Result<Generators, String> {
        let running = std::env::current_exe().map_err(|e| format!("the running program: {e}"))?;
        Ok(Generators {
            http: http(&tools.tidegate)?,
            lookups: lookups::Lookups { program: running, itself: tools.itself },
            sysbench: program("sysbench").map(|program| sysbench::Sysbench { program }),
        })
    }

    /// The one for a door; `None` if it is not installed.
    #[must_use]
    pub fn of(&self, door: Door) -> Option<&dyn Generator> {
        match door {
            Door::Http => Some(&*self.http),
            Door::HandlerSocket | Door::Memcached | Door::MemoryOnly => Some(&self.lookups),
            Door::MySql => self.sysbench.as_ref().map(|sysbench| sysbench as &dyn Generator),
        }
    }

    /// Their names and versions.
    #[must_use]
    pub fn version(&self) -> String {
        let sysbench = self.sysbench.iter().map(|sysbench| sysbench.version());
        std::iter::once(self.http.version()).chain(sysbench).collect::<Vec<_>>().join("; ")
    }

    /// Sentences about what is missing.
    pub fn left_out(&self) -> Option<String> {
        let reason = "lookups by SQL: sysbench is not installed (Debian: apt install sysbench)";
        self.sysbench.is_none().then(|| reason.to_owned())
    }
}

/// The generator for HTTP, where `tidegate` is our binary.
fn http(tidegate: &Path) -> Result<Box<dyn Generator>, String> {
    if let Some(ours) = ours::Ours::find(tidegate) {
        return Ok(Box::new(ours));
    }
    let program = crate::places::program("wrk").ok_or("wrk is not installed (Debian: apt install wrk)")?;
    Ok(Box::new(wrk::Wrk { program }))
}

/// A command as a person types it.
#[must_use]
pub fn typed(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = words.map(|word| {
        let word = word.to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%".contains(c);
        if word.chars().all(is_plain) { word.into_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_as_people_type_them() {
        let mut command = Command::new("wrk");
        command.args(["-c64", "-H", "Connection: close", "http://127.0.0.1:80/a?n=1", "it's"]);
        assert_eq!(typed(&command), r"wrk -c64 -H 'Connection: close' 'http://127.0.0.1:80/a?n=1' 'it'\''s'");
    }
}
