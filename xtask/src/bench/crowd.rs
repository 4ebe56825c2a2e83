//! Figures of caches: many clients that want one entry which is missing, and what entries take in memory.

use super::cpu;
use super::definition::Bench;
use super::load::{self, Load, Sample};
use super::report::Row;
use super::server::{Contestant, Running, Site};
use super::special::{figure, raise_file_limit};
use super::waiting::ask_all;
use crate::cases::Vars;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How long the server behind the cache takes: more than all clients need to ask.
const BACKEND_TIME: Duration = Duration::from_secs(3);

/// Entries that are made.
const ENTRIES: u64 = 1_000_000;

/// The p99 of clients that want one missing entry at once, by the time that its answer takes.
///
/// # Errors
/// A server cannot be started, a request is not answered, or more than one reaches the server behind the cache.
pub(super) fn crowd(bench: &Bench, vars: &Vars, contestants: &[Contestant], row: &mut Row) -> Result<(), String> {
    raise_file_limit(bench.connections + 200)?;
    row.unit("times the backend's time");
    row.is_absolute();
    for contestant in contestants {
        let failed = |e: std::io::Error| format!("{}: {e}", contestant.name);
        let backend = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = backend.local_addr().map_err(failed)?;
        let site = Site::create(bench, vars, contestant, Some(address.port()))?;
        let _server = Running::start(&site, &contestant.binary)?;
        let mut clients = Vec::with_capacity(bench.connections);
        for _ in 0..bench.connections {
            let stream = TcpStream::connect(("127.0.0.1", site.port)).map_err(failed)?;
            stream.set_nonblocking(true).map_err(failed)?;
            clients.push(stream);
        }
        let (asked, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let times = thread::scope(|scope| {
            scope.spawn(|| {
                while let Ok((stream, _)) = backend.accept() {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    scope.spawn(|| answer(stream, &asked));
                }
            });
            let times = ask_all(&mut clients, &bench.url);
            is_over.store(true, Ordering::Relaxed);
            drop(TcpStream::connect(address));
            times
        });
        let mut times = times.map_err(|e| format!("{}: {e}: {}", contestant.name, site.last_words()))?;
        let asked = asked.into_inner();
        // That nginx lets more through is its own affair.
        if asked != 1 && contestant.name == "tidegate" {
            return Err(format!("{}: {asked} requests reached the server behind the cache", contestant.name));
        }
        times.sort();
        let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
        row.add(contestant.name, figure(p99.as_secs_f64() / BACKEND_TIME.as_secs_f64()));
    }
    Ok(())
}

/// Answers one request, and counts it.
fn answer(stream: TcpStream, asked: &AtomicUsize) {
    // A cache that leaves shows in its clients' answers.
    let mut lines = BufReader::new(&stream).lines();
    if lines.by_ref().map_while(Result::ok).any(|line| line.is_empty()) {
        asked.fetch_add(1, Ordering::Relaxed);
        thread::sleep(BACKEND_TIME);
        let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]");
    }
}

/// Memory for each entry of an index, in bytes, when a million was made.
///
/// # Errors
/// A server cannot be started, or a request fails.
pub(super) fn entries(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    time: Duration,
    row: &mut Row,
) -> Result<(), String> {
    row.unit("bytes");
    row.is_absolute();
    for contestant in contestants {
        let site = Site::create(bench, vars, contestant, None)?;
        let server = Running::start(&site, &contestant.binary)?;
        // What the first requests allocate stays.
        let mut load = load::run_wrk(bench, &site, Duration::from_secs(1))?;
        let before = cpu::memory_bytes(server.pid());
        let mut count = 0;
        while count < ENTRIES {
            load = load::run_wrk(bench, &site, time)?;
            count += load.requests;
            if load.requests == 0 || load.failed > 0 {
                return Err(format!("{}: {} of {} requests failed", contestant.name, load.failed, load.requests));
            }
        }
        let grown = cpu::memory_bytes(server.pid()).saturating_sub(before);
        row.add(contestant.name, sample(grown as f64 / count as f64, load));
    }
    Ok(())
}

fn sample(value: f64, load: Load) -> Sample {
    Sample { load, ..figure(value) }
}
