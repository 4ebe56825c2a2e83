//! `cargo xtask bench`: how much CPU a request costs us and Debian's nginx, side by side.
//!
//! On a small machine throughput is bounded by the load generator; CPU time per request is not. One worker each, on a
//! core of its own; the generator has another; the servers take turns, and the lower quartile of the rounds counts.
//!
//! Reading order: [`definition`] reads `bench/*.bench`; [`server`] starts one contestant; [`load`] and [`cpu`] measure
//! requests, [`special`], [`scripts`], [`sizes`], [`database`], [`statements`], [`streams`] and [`queue`] the other figures; [`report`] writes
//! `bench/results/`.
//! [`against`] compares two commits.

mod against;
mod crowd;
mod database;
mod definition;
pub(crate) mod jobs;
mod line_load;
pub(crate) mod lines;
mod load;
mod priority;
mod queue;
mod report;
mod scripts;
mod server;
mod sizes;
mod special;
mod statements;
mod streams;
mod sysbench;
mod waiting;
mod wake;

use crate::cases::Vars;
use crate::{install, paths, services, terminal, tools};
use clap::Args;
use definition::{Bench, Kind, Rival};
use report::Row;
use server::Contestant;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_report::usage as cpu;

pub(crate) use definition::smoke_blocks;

/// What is chosen on the command line.
#[derive(Args)]
pub(crate) struct Options {
    /// Files of bench/ without their ending, or parts of a benchmark's name; everything if nothing is named
    names: Vec<String>,
    /// Rounds; each measures nginx and then ours
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Seconds of load in one round of one server
    #[arg(long, default_value_t = 1)]
    seconds: u64,
    /// A built binary instead of a release build of this tree
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Directories of Lua libraries that nginx's side needs, divided by colons, for instance lua-resty-mysql/lib
    #[arg(long, env = "TIDEGATE_BENCH_LUA_LIB")]
    lua_lib: Option<OsString>,
    /// An older binary of ours, for the benchmarks that compare with it; without it these are left out
    #[arg(long)]
    former: Option<PathBuf>,
    /// A checkout of nq, for the benchmarks that compare with it; without it only ours is measured
    #[arg(long, env = "TIDEGATE_BENCH_NQ")]
    nq: Option<PathBuf>,
    /// Compares this tree's last commit with another one: builds both, and says which works changed by more than their spread
    #[arg(long, value_name = "COMMIT", conflicts_with_all = ["binary", "former", "only_ours"])]
    against: Option<String>,
    /// With --against: a commit in the place of this tree's last one
    #[arg(long, value_name = "COMMIT", requires = "against", default_value = "HEAD")]
    of: String,
    /// With --against: where the page goes, for instance bench/results/release-0.2.0.md
    #[arg(long, value_name = "FILE", requires = "against")]
    page: Option<PathBuf>,
    /// Measures only ours
    #[arg(long)]
    only_ours: bool,
    /// Prints the results without writing bench/results/
    #[arg(long)]
    dry: bool,
}

/// Runs the chosen benchmarks. False when a target was missed.
///
/// # Errors
/// When something cannot be built or started.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    install::benchmarks()?;
    if let Some(commit) = &options.against {
        return against::run(options, commit);
    }
    let contestants = contestants(options)?;
    let mut is_good = true;
    let mut found = false;
    for (file, benches) in definition::load()? {
        let mut chosen: Vec<&Bench> = benches.iter().filter(|b| is_chosen(&options.names, &file, &b.title)).collect();
        if chosen.is_empty() {
            continue;
        }
        found = true;
        terminal::heading(&file);
        if options.former.is_none() && chosen.iter().any(|bench| bench.against == Rival::Former) {
            println!("without --former BINARY the benchmarks that compare with an older binary are left out");
            chosen.retain(|bench| bench.against != Rival::Former);
        }
        let mut rows = Vec::new();
        for bench in &chosen {
            match measure(bench, options, &contestants) {
                Ok(row) => {
                    println!("{}", row.line());
                    is_good &= row.is_met();
                    rows.push(row);
                }
                Err(problem) => {
                    is_good = false;
                    println!("{} {}: {problem}", terminal::red("FAILED"), bench.title);
                }
            }
        }
        // A part of a file must not replace the figures of all of it.
        if !options.dry && !options.only_ours && chosen.len() == benches.len() && rows.len() == chosen.len() {
            report::write(&file, &rows, &contestants, options.rounds, options.seconds)?;
        }
    }
    if !found {
        return Err("no benchmark has that name".to_owned());
    }
    Ok(is_good)
}

/// Runs every benchmark that is a load once against `binary` alone.
///
/// # Errors
/// When one of them cannot be run.
pub(crate) fn train(binary: PathBuf) -> Result<(), String> {
    let contestants = [Contestant::tidegate(binary)];
    let options = Options {
        names: Vec::new(),
        rounds: 1,
        seconds: 1,
        binary: None,
        lua_lib: None,
        former: None,
        nq: None,
        against: None,
        of: String::new(),
        page: None,
        only_ours: true,
        dry: true,
    };
    for (_, benches) in definition::load()? {
        for bench in
            benches.iter().filter(|bench| matches!(bench.kind, Kind::Http | Kind::Rate | Kind::Beside | Kind::Lines))
        {
            let row =
                measure(bench, &options, &contestants).map_err(|problem| format!("{}: {problem}", bench.title))?;
            println!("{}", row.line());
        }
    }
    Ok(())
}

fn is_chosen(names: &[String], file: &str, title: &str) -> bool {
    names.is_empty() || names.iter().any(|n| n == file || title.contains(n.as_str()))
}

/// nginx (unless only ours is asked for), then ours.
fn contestants(options: &Options) -> Result<Vec<Contestant>, String> {
    let ours = match &options.binary {
        Some(path) => path.clone(),
        None => build_release()?,
    };
    let mut list = Vec::new();
    if !options.only_ours {
        list.push(Contestant::nginx(paths::program("nginx").ok_or("nginx is not installed")?));
    }
    list.extend(options.former.clone().map(Contestant::former));
    list.push(Contestant::tidegate(ours));
    Ok(list)
}

fn build_release() -> Result<PathBuf, String> {
    terminal::heading("release build");
    let build = ["build", "--release", "--package", "tidegate"];
    tools::run(tools::cargo().args(build), "the release build failed")?;
    Ok(paths::target().join("release/tidegate"))
}

/// What the services and the options say in configurations.
fn vars(options: &Options, running: &services::Running) -> Vars {
    let mut vars = running.vars();
    let dirs = options.lua_lib.iter().flat_map(env::split_paths);
    let patterns: Vec<String> = dirs.map(|dir| format!("{}/?.lua", dir.display())).collect();
    vars.set("TEST_LUA_PATH", patterns.join(";"));
    vars.set("TEST_NQ", options.nq.as_deref().unwrap_or(Path::new("")).display());
    vars
}

fn measure(bench: &Bench, options: &Options, contestants: &[Contestant]) -> Result<Row, String> {
    let is_in = |contestant: &&Contestant| contestant.is_in(bench.against);
    let contestants: Vec<Contestant> = contestants.iter().filter(is_in).cloned().collect();
    let contestants = contestants.as_slice();
    let running = services::start(&bench.services)?;
    let vars = vars(options, &running);
    let time = Duration::from_secs(options.seconds);
    let mut row = Row::new(bench);
    match bench.kind {
        Kind::Http => {
            let counted = if bench.counts_services { running.pids() } else { Vec::new() };
            load::compare(bench, &vars, contestants, options.rounds, time, &counted, &mut row)?;
        }
        Kind::P99 => load::p99(bench, &vars, contestants, options.rounds, time, &mut row)?,
        Kind::Sizes => sizes::growth(bench, &vars, contestants, options.rounds, sizes::Of::Request, &mut row)?,
        Kind::SizesMemory => sizes::growth(bench, &vars, contestants, options.rounds, sizes::Of::Memory, &mut row)?,
        Kind::IdleMemory => special::idle_memory(bench, &vars, contestants, &mut row)?,
        Kind::SlowClients => special::slow_clients(bench, &vars, contestants, options.rounds, time, &mut row)?,
        Kind::ConfigTest => special::config_test(bench, &vars, contestants, options.rounds, &mut row)?,
        Kind::Start => special::start(bench, &vars, contestants, options.rounds, &mut row)?,
        Kind::Waiting => waiting::latency(bench, &vars, contestants, &mut row)?,
        Kind::BesideWaiting => waiting::beside(bench, &vars, contestants, time, &mut row)?,
        Kind::StreamMemory => waiting::stream_memory(bench, &vars, contestants, time, &mut row)?,
        Kind::Reload => special::reload(bench, &vars, contestants, &mut row)?,
        Kind::Rate => database::rate(bench, &vars, contestants, options.rounds, time, &mut row)?,
        Kind::Beside => database::beside(bench, &vars, contestants, options.rounds, time, &mut row)?,
        Kind::BesideStreams => streams::beside(bench, &vars, contestants, options.rounds, time, &mut row)?,
        Kind::Sysbench => sysbench::rate(bench, &vars, contestants, options.rounds, time, &mut row)?,
        Kind::Statements => {
            statements::growth(bench, &vars, contestants, &running.pids(), options.rounds, &mut row)?;
        }
        Kind::Sleepers => database::sleepers(bench, &vars, contestants, time, &mut row)?,
        Kind::Growth => scripts::growth(bench, &vars, contestants, options.rounds, &mut row)?,
        Kind::WaitingMemory => scripts::waiting_memory(bench, &vars, contestants, &mut row)?,
        Kind::Crowd => crowd::crowd(bench, &vars, contestants, &mut row)?,
        Kind::Lines | Kind::LinesRate => {
            let load = (options.rounds, time);
            line_load::compare(bench, &vars, contestants, &running.pids(), load, &mut row)?;
        }
        Kind::LinesMemory => line_load::memory(bench, &vars, contestants, &mut row)?,
        Kind::QueueRate => queue::rate(bench, &vars, contestants, (options.rounds, time), &mut row)?,
        Kind::QueueWoken => queue::woken(bench, &vars, contestants, options.rounds, false, &mut row)?,
        Kind::QueueLast => queue::woken(bench, &vars, contestants, options.rounds, true, &mut row)?,
        Kind::JobsRate => queue::jobs_rate(bench, &vars, contestants, (options.rounds, time), &mut row)?,
        Kind::Flat => queue::flat(bench, &vars, contestants, (options.rounds, time), &mut row)?,
        Kind::Entries => crowd::entries(bench, &vars, contestants, time, &mut row)?,
        Kind::ScriptStart => scripts::script_start(bench, contestants, options.rounds, &mut row)?,
    }
    Ok(row)
}
