//! Figures of databases: writes a second, lookups beside scans, statements that sleep.

use super::definition::{Bench, Rival};
use super::load::{self, Load, Sample};
use super::report::Row;
use super::server::{Contestant, Running, Site};
use super::special::{figure, raise_file_limit};
use crate::cases::Vars;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time for a server that fills a schema at its start.
const FILL_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until the server answers as expected.
pub(super) fn start(bench: &Bench, vars: &Vars, contestant: &Contestant) -> Result<(Site, Running), String> {
    let site = Site::create(bench, vars, contestant, None)?;
    let server = Running::start(&site, &contestant.binary)?;
    let deadline = Instant::now() + FILL_TIMEOUT;
    while let Err(problem) = load::check_answer(bench, &site) {
        if Instant::now() > deadline {
            return Err(problem);
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok((site, server))
}

/// Elapsed time per request under load: what counts where a disk is waited for. Nothing is pinned for MariaDB. The servers
/// take turns.
pub(super) fn rate(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    time: Duration,
    row: &mut Row,
) -> Result<(), String> {
    row.unit("us of time");
    let mut servers = Vec::new();
    for contestant in contestants {
        let (site, server) = start(bench, vars, contestant)?;
        load::run_wrk(bench, &site, Duration::from_secs(1))?;
        servers.push((contestant, site, server, Vec::new()));
    }
    for _ in 0..rounds {
        for (contestant, site, _, samples) in &mut servers {
            let load = load::run_wrk(bench, site, time)?;
            // A transaction that fails is nobody's to repeat.
            if load.failed > 0 {
                return Err(format!("{}: {} of {} requests failed", contestant.name, load.failed, load.requests));
            }
            samples.push(Sample { us_per_request: 1e6 / load.per_second, user_us: 0.0, load });
        }
    }
    for (contestant, _, _, samples) in &mut servers {
        row.add(contestant.name, load::lower_quartile(samples));
    }
    Ok(())
}

/// The p99 latency of wrk while another client asks for `beside` again and again: the figure alone, or, `against: lone`, by
/// what it is without the other client. Then the rounds take turns, and the lower quartiles count.
pub(super) fn beside(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    time: Duration,
    row: &mut Row,
) -> Result<(), String> {
    row.unit("us");
    let is_ratio = bench.against == Rival::Lone;
    if !is_ratio {
        row.is_absolute();
    }
    let sample = |load: Load| Sample { us_per_request: load.p99_us, user_us: 0.0, load };
    for contestant in contestants.iter().filter(|contestant| contestant.name == "tidegate") {
        let (site, _server) = start(bench, vars, contestant)?;
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..if is_ratio { rounds } else { 1 } {
            if is_ratio {
                alone.push(sample(load::run_wrk(bench, &site, time)?));
            }
            beside.push(sample(load_beside(bench, &site, time)?));
        }
        if is_ratio {
            row.add(bench.against.name(), load::lower_quartile(&mut alone));
        }
        row.add(contestant.name, load::lower_quartile(&mut beside));
    }
    Ok(())
}

fn load_beside(bench: &Bench, site: &Site, time: Duration) -> Result<Load, String> {
    let heavy = bench.value("beside").trim();
    let (done, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let load = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // One that fails is not counted, and then none is.
                let answer = super::special::fetch(site.port, heavy).unwrap_or_default();
                count.fetch_add(usize::from(answer.starts_with(b"HTTP/1.1 200")), Ordering::Relaxed);
            }
        });
        let load = load::run_wrk(bench, site, time);
        done.store(true, Ordering::Relaxed);
        load
    })?;
    if count.load(Ordering::Relaxed) == 0 {
        return Err(format!("{heavy} was not answered once"));
    }
    Ok(load)
}

/// The p99 latency of many clients that ask for a sleep again and again. Each client's first request is not counted:
/// they all arrive while connections are made.
pub(super) fn sleepers(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    time: Duration,
    row: &mut Row,
) -> Result<(), String> {
    raise_file_limit(bench.connections + 200)?;
    row.unit("us");
    row.is_absolute();
    for contestant in contestants.iter().filter(|contestant| contestant.name == "tidegate") {
        let (site, _server) = start(bench, vars, contestant)?;
        let mut times = ask_again(&site, bench, time)?;
        times.sort_unstable();
        let p99 = times.get(times.len() * 99 / 100).copied().ok_or("nobody was answered twice")?;
        row.add(contestant.name, figure(p99.as_secs_f64() * 1e6));
    }
    Ok(())
}

/// A client and when it sent its last request.
struct Client {
    stream: TcpStream,
    sent: Instant,
    is_first: bool,
}

fn ask_again(site: &Site, bench: &Bench, time: Duration) -> Result<Vec<Duration>, String> {
    let failed = |e: std::io::Error| format!("a client of {} fails: {e}", site.port);
    let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", bench.url);
    let mut clients = Vec::with_capacity(bench.connections);
    for _ in 0..bench.connections {
        let mut stream = TcpStream::connect(("127.0.0.1", site.port)).map_err(failed)?;
        stream.write_all(request.as_bytes()).map_err(failed)?;
        clients.push(Client { stream, sent: Instant::now(), is_first: true });
    }
    let mut times = Vec::new();
    let deadline = Instant::now() + time.max(Duration::from_secs(4));
    let mut answer = [0; 4096];
    while Instant::now() < deadline {
        let mut fds: Vec<PollFd<'_>> =
            clients.iter().map(|client| PollFd::new(client.stream.as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut fds, PollTimeout::from(100u8)).map_err(|e| e.to_string())?;
        let ready: Vec<usize> =
            fds.iter().enumerate().filter(|(_, fd)| fd.any().unwrap_or(false)).map(|(index, _)| index).collect();
        for index in ready {
            let client = &mut clients[index];
            let count = client.stream.read(&mut answer).map_err(failed)?;
            if !answer[..count].starts_with(b"HTTP/1.1 200") {
                return Err(format!("unexpected answer: {}", String::from_utf8_lossy(&answer[..count])));
            }
            if !std::mem::take(&mut client.is_first) {
                times.push(client.sent.elapsed());
            }
            client.sent = Instant::now();
            client.stream.write_all(request.as_bytes()).map_err(failed)?;
        }
    }
    Ok(times)
}
