//! Figures of requests that wait for a database: their latency, that of others beside them, and memory under a slow client.

use super::cpu;
use super::definition::Bench;
use super::load::{self, Load, Sample};
use super::report::Row;
use super::server::{Contestant, Running, Site};
use super::special::raise_file_limit;
use crate::cases::Vars;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// Connections of the client beside those that wait.
const PROBE_CONNECTIONS: usize = 4;
/// How fast the slow client reads.
const SLOW_BYTES_PER_SECOND: usize = 1_000_000;
/// Time in which buffers may grow to their size.
const WARM_UP: Duration = Duration::from_secs(2);

fn figure(value: f64, load: Load) -> Sample {
    Sample { us_per_request: value, user_us: 0.0, load }
}

/// The contestants that the benchmark has a configuration for.
fn configured<'a>(bench: &'a Bench, contestants: &'a [Contestant]) -> impl Iterator<Item = &'a Contestant> {
    contestants.iter().filter(|contestant| !bench.config(contestant.name, "config").trim().is_empty())
}

/// The p99 of many clients whose requests wait, in milliseconds, once their connections to the database are made.
pub(super) fn latency(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    time: Duration,
    row: &mut Row,
) -> Result<(), String> {
    raise_file_limit(bench.connections * 2 + 200)?;
    row.unit("ms");
    row.is_absolute();
    for contestant in configured(bench, contestants) {
        let site = Site::create(bench, vars, contestant, None)?;
        let _server = Running::start(&site, &contestant.binary)?;
        load::run_wrk(bench, &site, Duration::from_secs(3))?;
        let load = load::run_wrk(bench, &site, time.max(Duration::from_secs(5)))?;
        if load.failed > 0 {
            return Err(format!("{}: {} requests failed: {}", contestant.name, load.failed, site.last_words()));
        }
        row.add(contestant.name, figure(load.p99_us / 1e3, load));
    }
    Ok(())
}

/// The p99 of `url` beside many requests that wait for the URL in `wrk`, relative to the same without them.
pub(super) fn beside(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    time: Duration,
    row: &mut Row,
) -> Result<(), String> {
    raise_file_limit(bench.connections * 2 + 200)?;
    row.unit("times the lone p99");
    row.is_absolute();
    let with = |url: &str, connections: usize| Bench {
        url: url.to_owned(),
        connections,
        wrk: Vec::new(),
        block: bench.block.clone(),
        title: bench.title.clone(),
        services: Vec::new(),
        ..*bench
    };
    let waiting = with(bench.wrk.first().map_or("/", String::as_str), bench.connections);
    let probe = with(&bench.url, PROBE_CONNECTIONS);
    let time = time.max(Duration::from_secs(4));
    for contestant in configured(bench, contestants) {
        let site = Site::create(bench, vars, contestant, None)?;
        let _server = Running::start(&site, &contestant.binary)?;
        load::run_wrk(&probe, &site, Duration::from_secs(1))?;
        let alone = load::run_wrk(&probe, &site, time)?;
        let beside = thread::scope(|scope| {
            let crowd = scope.spawn(|| load::run_wrk(&waiting, &site, time + Duration::from_secs(5)));
            // Connections to the database are being made meanwhile.
            thread::sleep(Duration::from_secs(3));
            let beside = load::run_wrk(&probe, &site, time);
            crowd.join().expect("the load has no panic of its own")?;
            beside
        })?;
        row.add(contestant.name, figure(beside.p99_us / alone.p99_us.max(1.0), beside));
    }
    Ok(())
}

/// How much the server's memory grows while one client reads `url` slowly, in megabytes.
pub(super) fn stream_memory(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    time: Duration,
    row: &mut Row,
) -> Result<(), String> {
    row.unit("MB");
    row.is_absolute();
    for contestant in configured(bench, contestants) {
        let site = Site::create(bench, vars, contestant, None)?;
        let server = Running::start(&site, &contestant.binary)?;
        let mut client = TcpStream::connect(("127.0.0.1", site.port)).map_err(|e| e.to_string())?;
        client.set_read_timeout(Some(Duration::from_secs(10))).map_err(|e| e.to_string())?;
        write!(client, "GET {} HTTP/1.0\r\n\r\n", bench.url).map_err(|e| e.to_string())?;
        let begin = Instant::now();
        let (mut first, mut most) = (0, 0);
        let mut buf = vec![0; SLOW_BYTES_PER_SECOND / 20];
        while begin.elapsed() < WARM_UP + time.max(Duration::from_secs(8)) {
            let name = contestant.name;
            client.read_exact(&mut buf).map_err(|e| format!("{name}: the rows end early: {e}"))?;
            thread::sleep(Duration::from_millis(50));
            let memory = cpu::memory_bytes(server.pid());
            if begin.elapsed() < WARM_UP {
                first = first.max(memory);
            }
            most = most.max(memory);
        }
        row.add(contestant.name, figure(most.saturating_sub(first) as f64 / 1e6, Load::default()));
    }
    Ok(())
}
