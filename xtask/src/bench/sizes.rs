//! CPU time of a request, and memory of a server that has started, over sizes of the work or the configuration, ours beside nginx's.

use super::cpu;
use super::definition::Bench;
use super::load;
use super::report::Row;
use super::server::{Contestant, Running, Site};
use super::special::{fetch, figure};
use super::statements::{self, expand};
use crate::cases::Vars;
use std::time::Duration;

/// What is measured of each size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// CPU time of a request, in milliseconds; the lowest of the rounds.
    Request,
    /// Memory of the server after its first answer, in megabytes; what the largest size takes more than the smallest.
    Memory,
}

/// The figure at the largest of `sizes`; the law of growth goes into the title.
///
/// Every section and the URL are templates of the size (`statements::expand`). `before` is a URL that is asked for before each round, and
/// not measured.
///
/// # Errors
/// A server cannot be started, or a request fails.
pub(super) fn growth(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    of: Of,
    row: &mut Row,
) -> Result<(), String> {
    let unit = if of == Of::Request { "ms" } else { "MB" };
    row.unit(unit);
    let sizes = statements::sizes(bench)?;
    let mut all: Vec<_> = contestants.iter().map(|contestant| (contestant.name, Vec::new())).collect();
    for size in &sizes {
        let bench = sized(bench, *size);
        // They take turns: what else the machine does hits all of them.
        for (contestant, (_, figures)) in contestants.iter().zip(&mut all) {
            let site = Site::create(&bench, vars, contestant, None)?;
            let server = Running::start(&site, &contestant.binary)?;
            load::check_answer(&bench, &site).map_err(|problem| format!("{}: {problem}", contestant.name))?;
            figures.push(match of {
                Of::Request => request(&bench, &site, &server, rounds)?,
                Of::Memory => cpu::memory_bytes(server.pid()) as f64 / 1e6,
            });
        }
    }
    for (name, figures) in &all {
        let least = if of == Of::Memory { figures.first().copied().unwrap_or_default() } else { 0.0 };
        row.add(name, figure(figures.last().copied().unwrap_or_default() - least));
    }
    statements::note_laws(row, unit, &sizes, &all);
    Ok(())
}

/// The benchmark at one size.
pub(super) fn sized(bench: &Bench, size: u32) -> Bench {
    let mut block = bench.block.clone();
    for section in &mut block.sections {
        section.value = expand(&section.value, size);
    }
    Bench { url: expand(&bench.url, size), ..bench.with_block(block) }
}

fn request(bench: &Bench, site: &Site, server: &Running, rounds: usize) -> Result<f64, String> {
    let times: u32 = bench.value("repeat").trim().parse().unwrap_or(1);
    let before = bench.value("before").trim();
    let mut lowest = Duration::MAX;
    for _ in 0..rounds {
        if !before.is_empty() {
            ask(site, before)?;
        }
        let begun = cpu::usage(server.pid());
        for _ in 0..times {
            ask(site, &bench.url)?;
        }
        lowest = lowest.min(cpu::usage(server.pid()).since(&begun).total / times);
    }
    Ok(lowest.as_secs_f64() * 1e3)
}

fn ask(site: &Site, url: &str) -> Result<(), String> {
    let answer = fetch(site.port, url)?;
    if answer.starts_with(b"HTTP/1.1 200") {
        return Ok(());
    }
    Err(format!("{url} fails: {}\n{}", String::from_utf8_lossy(&answer), site.last_words()))
}
