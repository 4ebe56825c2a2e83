//! The machine: which cores servers and load have, how idle they are, how much memory is free.

use std::fs;
use std::process::Command;
use std::thread;

/// Cores as `taskset` reads them, `0` or `0-3`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Cores {
    /// Of the servers and of the databases behind them.
    pub servers: String,
    /// Of the load generator.
    pub load: String,
}

impl Cores {
    /// One core in four for the load, at least one; the others for the servers.
    #[must_use]
    pub fn usual() -> Cores {
        let count = thread::available_parallelism().map_or(1, usize::from);
        Cores::of(count)
    }

    /// Whether a program can be put on them here.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn check(&self) -> Result<(), String> {
        for (name, cores) in [("servers", &self.servers), ("load", &self.load)] {
            let output = Command::new("taskset").args(["-c", cores, "true"]).output();
            let output = output.map_err(|e| format!("taskset, of util-linux, cannot be run: {e}"))?;
            if !output.status.success() {
                let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(format!(
                    "the cores {cores} are not there for the {name} (--server-cores, --load-cores): {words}"
                ));
            }
        }
        Ok(())
    }

    fn of(count: usize) -> Cores {
        if count < 2 {
            return Cores { servers: "0".to_owned(), load: "0".to_owned() };
        }
        let servers = count - (count / 4).max(1);
        let range = |first: usize, last: usize| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        Cores { servers: range(0, servers - 1), load: range(servers, count - 1) }
    }

    /// How many the servers have.
    #[must_use]
    pub fn servers_count(&self) -> usize {
        numbers(&self.servers).len().max(1)
    }
}

/// The numbers of a list such as `0-2,5`. What is no number is not there.
fn numbers(list: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
            found.extend(first..=last.min(first + 4096));
        }
    }
    found
}

/// How long some cores have been idle and busy up to now, in ticks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    /// Of the cores in the list.
    #[must_use]
    pub fn of(cores: &str) -> Ticks {
        Ticks::parse(&fs::read_to_string("/proc/stat").unwrap_or_default(), cores)
    }

    /// From proc(5): user, nice, system, idle, iowait, irq, softirq, steal of each core.
    fn parse(text: &str, cores: &str) -> Ticks {
        let wanted = numbers(cores);
        let mut ticks = Ticks::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let number = words.next().and_then(|word| word.strip_prefix("cpu")?.parse::<usize>().ok());
            if number.is_some_and(|number| wanted.contains(&number)) {
                let values: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
                ticks.idle += values.get(3).copied().unwrap_or(0) + values.get(4).copied().unwrap_or(0);
                ticks.all += values.iter().sum::<u64>();
            }
        }
        ticks
    }

    /// The part of the time since `before` in which they were idle, between 0 and 1.
    #[must_use]
    pub fn idle_since(&self, before: &Ticks) -> f64 {
        let (idle, all) = (self.idle.saturating_sub(before.idle), self.all.saturating_sub(before.all));
        if all == 0 { 0.0 } else { idle as f64 / all as f64 }
    }
}

/// Memory that programs could have without swapping, in bytes.
#[must_use]
pub fn memory_available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Processor, memory and kernel in a line.
#[must_use]
pub fn describe() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models: Vec<&str> =
        text.lines().filter_map(|line| Some(line.strip_prefix("model name")?.split_once(": ")?.1)).collect();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    let gigabytes = total.map_or(0.0, |kilobytes: f64| kilobytes / 1024.0 / 1024.0);
    let model = models.first().unwrap_or(&"unknown processor");
    format!("{} x {model}, {gigabytes:.0} GB of memory, Linux {}", models.len(), first_line("uname", &["-r"]))
}

/// The first line that a program prints, on whichever output.
#[must_use]
pub fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|o| String::from_utf8_lossy(&[o.stdout, o.stderr].concat()).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_by_their_number() {
        let cores = |servers: &str, load: &str| Cores { servers: servers.to_owned(), load: load.to_owned() };
        for (count, expected) in
            [(1, cores("0", "0")), (2, cores("0", "1")), (4, cores("0-2", "3")), (16, cores("0-11", "12-15"))]
        {
            assert_eq!(Cores::of(count), expected, "{count}");
        }
        assert_eq!(cores("0-2,5", "").servers_count(), 4);
        assert_eq!(cores("x", "").servers_count(), 1);
    }

    #[test]
    fn cores_that_are_not_there_are_named() {
        let cores = |servers: &str| Cores { servers: servers.to_owned(), load: Cores::usual().load };
        for wrong in ["x", "4095", ""] {
            let refusal = cores(wrong).check().err().unwrap_or_default();
            assert!(refusal.contains("for the servers"), "{wrong:?}: {refusal}");
        }
    }

    #[test]
    fn idle_time_of_some_cores() {
        let text = |idle: u64| {
            format!("cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 0 10 {idle} 0 0 0 0 0 0\ncpu1 999 0 0 1 0 0 0 0 0 0\nintr 5\n")
        };
        let (before, after) = (Ticks::parse(&text(20), "0"), Ticks::parse(&text(50), "0"));
        assert!((after.idle_since(&before) - 1.0).abs() < 1e-9);
        assert!((before.idle_since(&Ticks::default()) - 0.5).abs() < 1e-9);
        assert!((after.idle_since(&after)).abs() < 1e-9);
    }

    #[test]
    fn this_machine_has_memory_and_a_processor() {
        assert!(memory_available() > 1 << 20);
        assert!(describe().contains("Linux"), "{}", describe());
    }
}
