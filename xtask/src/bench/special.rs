//! Figures that are not CPU per request: memory, slow clients, start, configuration test, reload.

use super::cpu;
use super::definition::Bench;
use super::load::{self, Load, Sample};
use super::priority::Priority;
use super::report::Row;
use super::scripts::{LOOK_INTERVAL, settled_memory};
use super::server::{Contestant, LOAD_CORE, Running, Site};
use crate::cases::Vars;
use crate::process::Process;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How many blocks of ten lines make the large configuration.
const CONFIG_BLOCKS: usize = 1000;
/// Reloads during one load.
const RELOADS: usize = 20;
/// How long an answer may take; a million keys are written in seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// One request on a connection of its own, read to its end.
///
/// # Errors
/// When the server cannot be reached or does not answer.
pub(super) fn fetch(port: u16, url: &str) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| format!("no answer from port {port}: {e}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
    let request = format!("GET {url} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// A keep-alive connection that has had one answer.
fn connect_idle(port: u16, url: &str) -> Result<TcpStream, String> {
    let failed = |e: std::io::Error| format!("no answer from port {port}: {e}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(failed)?;
    stream.write_all(format!("GET {url} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).map_err(failed)?;
    let mut buf = [0; 4096];
    stream.read(&mut buf).map_err(failed)?;
    Ok(stream)
}

/// How many files this process, and each that it starts, may have open.
pub(super) fn files_max() -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(_, hard)| usize::try_from(hard).unwrap_or(usize::MAX))
}

pub(super) fn raise_file_limit(wanted: usize) -> Result<(), String> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|e| e.to_string())?;
    let wanted = wanted as u64;
    if hard < wanted {
        return Err(format!("{wanted} open files are needed, the limit is {hard} (ulimit -n)"));
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(|e| e.to_string())
}

pub(super) fn figure(value: f64) -> Sample {
    Sample { us_per_request: value, user_us: 0.0, load: Load::default() }
}

/// Memory per idle connection, in bytes.
pub(super) fn idle_memory(bench: &Bench, vars: &Vars, contestants: &[Contestant], row: &mut Row) -> Result<(), String> {
    raise_file_limit(bench.connections + 200)?;
    row.unit("bytes");
    for contestant in contestants {
        let site = Site::create(bench, vars, contestant, None)?;
        let server = Running::start(&site, &contestant.binary)?;
        if bench.value("scheme") == "https" {
            row.add(contestant.name, figure(idle_memory_of_tls(bench, &site, &server)?));
            continue;
        }
        // The first connections grow caches that stay.
        let _warm = (0..50).map(|_| connect_idle(site.port, &bench.url)).collect::<Result<Vec<_>, _>>()?;
        let before = cpu::memory_bytes(server.pid());
        let idle = (0..bench.connections).map(|_| connect_idle(site.port, &bench.url));
        let idle = idle.collect::<Result<Vec<_>, _>>()?;
        thread::sleep(SILENCE);
        let after = cpu::memory_bytes(server.pid());
        row.add(contestant.name, figure(after.saturating_sub(before) as f64 / idle.len() as f64));
    }
    Ok(())
}

/// The same of TLS, whose client is wrk.
fn idle_memory_of_tls(bench: &Bench, site: &Site, server: &Running) -> Result<f64, String> {
    let warm = Bench { connections: 50, ..bench.with_block(bench.block.clone()) };
    load::run_wrk(&warm, site, Duration::from_secs(1))?;
    let before = settled_memory(server);
    // One request on each connection, and then silence.
    let script = format!(
        "local count = 0\nfunction delay() count = count + 1 return count > {} and 600000 or 0 end",
        bench.connections
    );
    let idle = load::hold_wrk(bench, site, &script)?;
    // Memory does not change while clients connect slowly either.
    let deadline = Instant::now() + HANDSHAKES_TIMEOUT;
    while connections_of(server.pid()) < bench.connections {
        if Instant::now() > deadline {
            return Err(format!("not all of {} clients are connected: {}", bench.connections, site.last_words()));
        }
        thread::sleep(LOOK_INTERVAL);
    }
    thread::sleep(SILENCE);
    let after = settled_memory(server);
    drop(idle);
    Ok(after.saturating_sub(before) as f64 / bench.connections as f64)
}

/// How long thousands of handshakes may take.
const HANDSHAKES_TIMEOUT: Duration = Duration::from_secs(120);
/// Idle is who has been silent for a while.
const SILENCE: Duration = Duration::from_secs(3);

/// Sockets that a server and its children have open, listening ones and their like among them.
fn connections_of(root: Pid) -> usize {
    let is_socket = |entry: &fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    let sockets =
        |pid: i32| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().filter(is_socket).count();
    cpu::tree(root).into_iter().map(sockets).sum()
}

/// The p99 latency of wrk beside slow clients, relative to the same server without them.
pub(super) fn slow_clients(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    time: Duration,
    row: &mut Row,
) -> Result<(), String> {
    let slow: usize = bench.wrk.first().and_then(|w| w.parse().ok()).unwrap_or(10_000);
    raise_file_limit(slow + 200)?;
    row.unit("times the lone p99");
    row.is_absolute();
    let probe = Bench {
        wrk: Vec::new(),
        block: bench.block.clone(),
        title: bench.title.clone(),
        url: bench.url.clone(),
        services: Vec::new(),
        ..*bench
    };
    let _priority = Priority::raise();
    let mut running = Vec::new();
    for contestant in contestants {
        let site = Site::create(bench, vars, contestant, None)?;
        let server = Running::start(&site, &contestant.binary)?;
        load::run_wrk(&probe, &site, Duration::from_secs(1))?;
        running.push((contestant, site, server, Vec::new(), Vec::new()));
    }
    // They take turns: what else the machine does hits all of them.
    for _ in 0..rounds.max(PAIRS_MIN) {
        for (contestant, site, _, alone, crowded) in &mut running {
            alone.push(load::run_wrk(&probe, site, time)?);
            let (beside, answered) = beside_slow_clients(&probe, site, slow, time)?;
            if answered < slow {
                return Err(format!("{}: only {answered} of {slow} slow clients were answered", contestant.name));
            }
            crowded.push(beside);
        }
    }
    for (contestant, _, _, alone, crowded) in running {
        let (alone, crowded) = (load::lowest_p99(alone), load::lowest_p99(crowded));
        let ratio = crowded.p99_us / alone.p99_us.max(1.0);
        row.add(contestant.name, Sample { us_per_request: ratio, user_us: 0.0, load: crowded });
    }
    Ok(())
}

/// How often the two are compared at least, each time with new slow clients.
const PAIRS_MIN: usize = 3;

/// What wrk finds while `slow` clients that have just connected send one byte a second; and how many of them are answered
/// in the end.
fn beside_slow_clients(probe: &Bench, site: &Site, slow: usize, time: Duration) -> Result<(Load, usize), String> {
    let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", probe.url);
    let mut clients = Vec::with_capacity(slow);
    for _ in 0..slow {
        clients.push(TcpStream::connect(("127.0.0.1", site.port)).map_err(|e| format!("slow client: {e}"))?);
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| send_slowly(&mut clients, request.as_bytes(), &done));
        let beside = load::run_wrk(probe, site, time);
        done.store(true, Ordering::Relaxed);
        let answered = sender.join().expect("the sender has no panic of its own");
        Ok((beside?, answered))
    })
}

/// Parts of a second in which each slow client has its turn: they send evenly over time, as strangers to each other do.
const SLICES: usize = 1000;

/// Sends one byte a second on every connection until `done`, then the rest; counts the answers.
fn send_slowly(clients: &mut [TcpStream], request: &[u8], done: &AtomicBool) -> usize {
    // Beside wrk, not in the server's way. Where a machine has no such core the figure is merely worse.
    let _ = pin_to_load_core();
    let slice = clients.len().div_ceil(SLICES).max(1);
    let mut sent = vec![0; clients.len()];
    'seconds: for byte in 0..request.len() - 1 {
        let started = Instant::now();
        for (number, (clients, sent)) in clients.chunks_mut(slice).zip(sent.chunks_mut(slice)).enumerate() {
            let due = Duration::from_secs(1) * number as u32 / SLICES as u32;
            thread::sleep(due.saturating_sub(started.elapsed()));
            if done.load(Ordering::Relaxed) {
                break 'seconds;
            }
            for (client, sent) in clients.iter_mut().zip(sent) {
                // A refused byte shows in the count of answers.
                let _ = client.write_all(&request[byte..=byte]);
                *sent = byte + 1;
            }
        }
        thread::sleep(Duration::from_secs(1).saturating_sub(started.elapsed()));
    }
    let mut answered = 0;
    let mut buf = [0; 32];
    for (client, sent) in clients.iter_mut().zip(sent) {
        let _ = client.set_read_timeout(Some(Duration::from_secs(10)));
        let is_answered = client.write_all(&request[sent..]).is_ok() && client.read(&mut buf).is_ok_and(|n| n > 0);
        answered += usize::from(is_answered && buf.starts_with(b"HTTP/1.1 200"));
    }
    answered
}

/// Keeps the calling thread on the core that the load comes from.
pub(super) fn pin_to_load_core() -> Result<(), String> {
    let core = LOAD_CORE.parse().map_err(|error| format!("core {LOAD_CORE}: {error}"))?;
    let mut cores = CpuSet::new();
    cores.set(core).map_err(|error| error.to_string())?;
    sched_setaffinity(Pid::from_raw(0), &cores).map_err(|error| error.to_string())
}

/// Time of `-t`, in milliseconds.
pub(super) fn config_test(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    row: &mut Row,
) -> Result<(), String> {
    row.unit("ms");
    let large: String = (0..CONFIG_BLOCKS).map(|n| block_of_ten_lines(bench.value("script"), n)).collect();
    let mut block = bench.block.clone();
    for section in block.sections.iter_mut().filter(|s| s.name == "config") {
        section.value.push_str(&large);
    }
    let bench = Bench {
        block,
        title: bench.title.clone(),
        url: bench.url.clone(),
        wrk: Vec::new(),
        services: Vec::new(),
        ..*bench
    };
    for contestant in contestants {
        let site = Site::create(&bench, vars, contestant, None)?;
        let mut times = Vec::new();
        for _ in 0..rounds {
            let started = Instant::now();
            let mut process = Process::spawn(site.command(&contestant.binary).arg("-t"))?;
            let status = process.wait(Duration::from_secs(60)).ok_or("-t does not end")?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
            if !status.success() {
                return Err(format!("{}: -t ended with {status}: {}", contestant.name, site.last_words()));
            }
        }
        row.add(contestant.name, figure(lowest(&times)));
    }
    Ok(())
}

fn block_of_ten_lines(template: &str, number: usize) -> String {
    template.replace("NUMBER", &number.to_string())
}

fn lowest(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Time from the start to the end of the first answer, in milliseconds.
pub(super) fn start(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    row: &mut Row,
) -> Result<(), String> {
    row.unit("ms");
    for contestant in contestants {
        let mut times = Vec::new();
        for _ in 0..rounds {
            let site = Site::create(bench, vars, contestant, None)?;
            let started = Instant::now();
            let _server = Process::spawn(&mut site.command(&contestant.binary))?;
            while fetch(site.port, &bench.url).map_or(true, |bytes| bytes.is_empty()) {
                if started.elapsed() > Duration::from_secs(20) {
                    return Err(format!("{} does not answer: {}", contestant.name, site.last_words()));
                }
                thread::sleep(Duration::from_micros(200));
            }
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        row.add(contestant.name, figure(lowest(&times)));
    }
    Ok(())
}

/// Failed requests while the server reloads again and again.
pub(super) fn reload(bench: &Bench, vars: &Vars, contestants: &[Contestant], row: &mut Row) -> Result<(), String> {
    row.unit("failed requests");
    row.is_absolute();
    for contestant in contestants {
        let site = Site::create(bench, vars, contestant, None)?;
        let server = Running::start(&site, &contestant.binary)?;
        let load = thread::scope(|scope| {
            let worker = scope.spawn(|| load::run_wrk(bench, &site, Duration::from_secs(6)));
            for _ in 0..RELOADS {
                thread::sleep(Duration::from_millis(250));
                server.signal(Signal::SIGHUP);
            }
            worker.join().expect("the load has no panic of its own")
        })?;
        row.add(contestant.name, figure(load.failed as f64));
    }
    Ok(())
}
