//! Figures of requests that wait for a database: their latency, that of others beside them, and memory under a slow client.

use super::cpu;
use super::definition::Bench;
use super::load::{self, Load, Sample};
use super::report::Row;
use super::server::{Contestant, Running, Site};
use super::special::raise_file_limit;
use crate::cases::Vars;
use std::io::{ErrorKind, Read, Write};
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

/// Rounds of requests; the first makes the connections to the database and does not count.
const ROUNDS: usize = 6;
/// How long a round may take.
const ROUND_TIMEOUT: Duration = Duration::from_secs(30);

/// The p99 of many clients whose requests wait, in milliseconds, once their connections to the database are made.
///
/// The clients are our own: wrk counts the connections' first requests too, and leaves requests behind at its end.
pub(super) fn latency(bench: &Bench, vars: &Vars, contestants: &[Contestant], row: &mut Row) -> Result<(), String> {
    raise_file_limit(bench.connections * 2 + 200)?;
    row.unit("ms");
    row.is_absolute();
    for contestant in configured(bench, contestants) {
        let site = Site::create(bench, vars, contestant, None)?;
        let _server = Running::start(&site, &contestant.binary)?;
        let mut clients = Vec::with_capacity(bench.connections);
        for _ in 0..bench.connections {
            let stream = TcpStream::connect(("127.0.0.1", site.port)).map_err(|e| format!("a client: {e}"))?;
            stream.set_nonblocking(true).map_err(|e| e.to_string())?;
            clients.push(stream);
        }
        let mut times = Vec::new();
        for number in 0..ROUNDS {
            let round = ask_all(&mut clients, &bench.url);
            let round = round.map_err(|e| format!("{}: {e}: {}", contestant.name, site.last_words()))?;
            if number > 0 {
                times.extend(round);
            }
        }
        times.sort();
        let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
        row.add(contestant.name, figure(p99.as_secs_f64() * 1e3, Load::default()));
    }
    Ok(())
}

/// One request on each connection; answers how long each took.
pub(super) fn ask_all(clients: &mut [TcpStream], url: &str) -> Result<Vec<Duration>, String> {
    let request = format!("GET {url} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut waiting = Vec::with_capacity(clients.len());
    for client in clients {
        client.write_all(request.as_bytes()).map_err(|e| format!("a request: {e}"))?;
        waiting.push((client, Instant::now(), Vec::new()));
    }
    let mut times = Vec::with_capacity(waiting.len());
    let begin = Instant::now();
    while !waiting.is_empty() {
        if begin.elapsed() > ROUND_TIMEOUT {
            return Err(format!("{} requests are not answered", waiting.len()));
        }
        let mut problem = None;
        waiting.retain_mut(|(client, sent, answer)| {
            let mut buf = [0; 4096];
            match client.read(&mut buf) {
                Ok(0) => problem = Some("a connection was closed".to_owned()),
                Ok(count) => answer.extend_from_slice(&buf[..count]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(e) => problem = Some(e.to_string()),
            }
            // The rows are an array; chunks end with an empty one.
            let is_complete = answer.ends_with(b"]") || answer.ends_with(b"]\r\n0\r\n\r\n");
            if is_complete && !answer.starts_with(b"HTTP/1.1 200") {
                problem = Some(String::from_utf8_lossy(answer).lines().next().unwrap_or_default().to_owned());
            } else if is_complete {
                times.push(sent.elapsed());
            }
            !is_complete
        });
        if let Some(problem) = problem {
            return Err(problem);
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(times)
}

/// How often the two are compared.
const PAIRS: usize = 3;

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
        let (mut alone, mut crowded) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            alone.push(load::run_wrk(&probe, &site, time)?);
            crowded.push(thread::scope(|scope| {
                let crowd = scope.spawn(|| load::run_wrk(&waiting, &site, time + Duration::from_secs(5)));
                // Connections to the database are being made meanwhile.
                thread::sleep(Duration::from_secs(3));
                let beside = load::run_wrk(&probe, &site, time);
                crowd.join().expect("the load has no panic of its own")?;
                beside
            })?);
        }
        let (alone, crowded) = (load::lowest_p99(alone), load::lowest_p99(crowded));
        row.add(contestant.name, figure(crowded.p99_us / alone.p99_us.max(1.0), crowded));
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
