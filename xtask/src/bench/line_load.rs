//! Figures of the ports that speak in lines, beside the plugin HandlerSocket, SQL, or memcached.

use super::cpu;
use super::definition::{Bench, Kind};
use super::lines::{self, Options, Outcome};
use super::load::{Load, Sample, lower_quartile};
use super::report::Row;
use super::server::{Contestant, Running, SERVER_CORE, Site};
use super::special::{figure, files_max};
use super::statements::run_sql;
use super::sysbench;
use crate::cases::Vars;
use crate::ports::free_port;
use crate::tools;
use nix::unistd::Pid;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Requests of a connection by which the length of a round is found, times the depth.
const TRIAL_REQUESTS: usize = 100;
/// Most requests of a connection in a round: they are made before it begins.
const REQUESTS_MAX: usize = 300_000;

/// Descriptors of the server that are no connections of this load.
const OTHER_FILES: usize = 1000;

/// A server that the load is put on.
struct Target {
    name: &'static str,
    work: Work,
    pids: Vec<Pid>,
}

enum Work {
    Lines(Options),
    /// Statements, by these words and at this port.
    Sysbench(sysbench::Target),
}

/// Ours, and the rival that is a service, if there is one.
struct Targets {
    all: Vec<Target>,
    /// What is stopped when this is dropped.
    _servers: Vec<(Site, Running)>,
}

/// CPU time for each request, or elapsed time where a disk is waited for. The servers take turns.
pub(super) fn compare(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    services: &[Pid],
    (rounds, time): (usize, Duration),
    row: &mut Row,
) -> Result<(), String> {
    if bench.kind == Kind::LinesRate {
        row.unit("us of time");
    }
    let Targets { mut all, _servers } = targets(bench, vars, contestants, services)?;
    for target in &mut all {
        target.prepare(bench, time)?;
    }
    let mut samples = vec![Vec::new(); all.len()];
    for _ in 0..rounds {
        for (target, samples) in all.iter_mut().zip(&mut samples) {
            samples.push(target.sample(bench, time)?);
        }
    }
    for (target, samples) in all.iter().zip(&mut samples) {
        row.add(target.name, lower_quartile(samples));
    }
    Ok(())
}

/// Memory of ours for each idle connection, in bytes.
pub(super) fn memory(bench: &Bench, vars: &Vars, contestants: &[Contestant], row: &mut Row) -> Result<(), String> {
    row.unit("bytes");
    row.is_absolute();
    let Targets { mut all, _servers } = targets(bench, vars, contestants, &[])?;
    for target in &mut all {
        if let Work::Lines(options) = &mut target.work {
            let possible = files_max().saturating_sub(OTHER_FILES);
            if possible < options.connections {
                options.connections = possible;
                row.note(&format!("measured with {possible}, which is what the limit of open files lets be"));
            }
            row.add(target.name, figure(lines::idle(options)?));
        }
    }
    Ok(())
}

fn targets(bench: &Bench, vars: &Vars, contestants: &[Contestant], services: &[Pid]) -> Result<Targets, String> {
    let (mut all, mut servers) = (Vec::new(), Vec::new());
    for contestant in contestants {
        let site = Site::create(bench, vars, contestant, Some(free_port()))?;
        let server = Running::start(&site, &contestant.binary)?;
        let work = Work::Lines(options(bench, "", &site.vars, &[server.pid()])?);
        all.push(Target { name: contestant.name, work, pids: vec![server.pid()] });
        servers.push((site, server));
    }
    if !services.is_empty() {
        let prepared = bench.value("rival_prepare");
        if let Some((site, _)) = servers.first() {
            run_sql(&site.vars.expand("$TEST_MARIADB_PORT").unwrap_or_default(), site.dir(), prepared, "test")?;
        }
        let work = match bench.value("rival_sysbench") {
            "" => Work::Lines(options(bench, "rival_", vars, services)?),
            _ => Work::Sysbench(sysbench::Target {
                name: bench.against.name(),
                port: vars.expand("$TEST_MARIADB_PORT")?,
                words: "rival_sysbench",
            }),
        };
        if bench.kind == Kind::Lines {
            services.iter().try_for_each(|pid| pin(*pid))?;
        }
        all.insert(0, Target { name: bench.against.name(), work, pids: services.to_vec() });
    }
    Ok(Targets { all, _servers: servers })
}

/// Keeps all threads of a service on the core that ours has: waking somebody on another one costs more than all the rest.
fn pin(pid: Pid) -> Result<(), String> {
    let mut command = Command::new("taskset");
    command.args(["--all-tasks", "--cpu-list", "--pid", SERVER_CORE, &pid.to_string()]).stdout(Stdio::null());
    tools::run(&mut command, "taskset failed")
}

/// The load for ours, or for the rival where sections have that prefix.
fn options(bench: &Bench, prefix: &str, vars: &Vars, pids: &[Pid]) -> Result<Options, String> {
    let own = |name: &str| bench.block.value(&format!("{prefix}{name}")).map(str::trim);
    let text = |name: &str| own(name).or_else(|| bench.block.value(name).map(str::trim));
    let number = |name: &str, default: usize| match text(name) {
        None => Ok(default),
        Some(number) => number.parse().map_err(|_| format!("\"{name}\" is no number")),
    };
    let address = own("connect").ok_or_else(|| format!("\"{prefix}connect\" is missing"))?;
    Ok(Options {
        address: vars.expand(address)?,
        request: vars.expand(text("request").unwrap_or_default())?,
        open: text("open").map(|open| vars.expand(open)).transpose()?,
        pid: pids.iter().map(|pid| pid.as_raw()).collect(),
        connections: bench.connections,
        depth: number("depth", 1)?,
        requests: 0,
        lines: number("answer_lines", 1)?,
        first: 1,
        idle: bench.kind == Kind::LinesMemory,
    })
}

impl Target {
    /// Finds out how many requests make a round.
    fn prepare(&mut self, bench: &Bench, time: Duration) -> Result<(), String> {
        match &mut self.work {
            Work::Sysbench(target) => sysbench::run(bench, target, time, "prepare").map(drop),
            Work::Lines(options) => {
                options.requests = TRIAL_REQUESTS * options.depth;
                let trial = put(options)?;
                let wanted = trial.per_second() * time.as_secs_f64() / options.connections as f64;
                let rounded = (wanted as usize).next_multiple_of(options.depth);
                options.requests = rounded.clamp(options.depth, REQUESTS_MAX.next_multiple_of(options.depth));
                Ok(())
            }
        }
    }

    fn sample(&mut self, bench: &Bench, time: Duration) -> Result<Sample, String> {
        let outcome = match &mut self.work {
            Work::Lines(options) => put(options)?,
            Work::Sysbench(target) => {
                let before = cpu::usage_of(&self.pids);
                let load = sysbench::measured(bench, target, time)?;
                let used = cpu::usage_of(&self.pids).since(&before);
                let took = Duration::from_secs_f64(load.requests as f64 / load.per_second);
                Outcome { count: usize::try_from(load.requests).unwrap_or(usize::MAX), took, used }
            }
        };
        let load = Load { requests: outcome.count as u64, per_second: outcome.per_second(), ..Load::default() };
        Ok(match bench.kind {
            Kind::LinesRate => Sample { us_per_request: 1e6 / outcome.per_second(), user_us: 0.0, load },
            _ => {
                Sample { us_per_request: outcome.micros(), user_us: outcome.micros() * outcome.used.user_share(), load }
            }
        })
    }
}

/// Puts the load on; no number comes twice.
fn put(options: &mut Options) -> Result<Outcome, String> {
    let outcome = lines::put(options)?;
    options.first += options.connections * options.requests;
    Ok(outcome)
}
