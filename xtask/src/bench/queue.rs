//! Figures of queues: rates beside nq on nginx and MariaDB and beside beanstalkd, waking, workers, and how costs grow with what waits.
//!
//! nq itself is not part of this repository: `--nq` says where a checkout of it is.

use super::cpu;
use super::definition::{Bench, Rival};
use super::jobs;
use super::load::{self, Load, Sample, lower_quartile};
use super::report::Row;
use super::server::{Contestant, Running, Site};
use super::special::{figure, raise_file_limit};
use super::statements::run_sql;
use super::wake;
use crate::cases::{self, Vars};
use crate::paths::{self, Scratch};
use crate::ports::free_port;
use crate::process::{POLL, Process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Jobs of each connection in a round whose length is not known yet.
const JOBS_TRIAL: usize = 50;
/// How long receivers may take to begin to wait, where nobody tells that they do.
const SETTLE: Duration = Duration::from_secs(4);

/// Elapsed time per request of wrk. The servers take turns; `ROUND` in the script is the number of the round.
pub(super) fn rate(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    (rounds, time): (usize, Duration),
    row: &mut Row,
) -> Result<(), String> {
    row.unit("us of time");
    let servers = start_all(bench, vars, contestants, row)?;
    let mut samples = vec![Vec::new(); servers.len()];
    for round in 0..rounds {
        for (server, samples) in servers.iter().zip(&mut samples) {
            let load = run_wrk(&server.bench, &server.site, round, time)?;
            if load.failed > 0 {
                let words = server.site.last_words();
                return Err(format!("{}: {} of {} requests failed: {words}", server.name, load.failed, load.requests));
            }
            samples.push(Sample { us_per_request: 1e6 / load.per_second, user_us: 0.0, load });
        }
    }
    add(row, &servers, samples);
    Ok(())
}

/// Receivers that wait, and one request that wakes all of them: elapsed time for each of them, and with `last` the time from when
/// somebody knows of the commit until the last one has its answer, in milliseconds.
pub(super) fn woken(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    is_last: bool,
    row: &mut Row,
) -> Result<(), String> {
    raise_file_limit(bench.connections + 200)?;
    row.unit(if is_last { "ms" } else { "us of time" });
    if is_last {
        row.is_absolute();
    }
    let contestants: Vec<Contestant> =
        contestants.iter().filter(|one| !is_last || one.name == "tidegate").cloned().collect();
    let servers = start_all(bench, vars, &contestants, row)?;
    let mut samples = vec![Vec::new(); servers.len()];
    for _ in 0..rounds {
        for (server, samples) in servers.iter().zip(&mut samples) {
            let told = || match bench.value("settled") {
                "" => {
                    thread::sleep(SETTLE);
                    Ok(())
                }
                settled => until_settled(server, settled),
            };
            let woken = match wake::measure(server.site.port, bench, told) {
                Ok(woken) => woken,
                // A machine with other work may be too slow for nq, which gives MariaDB a second to answer.
                Err(problem) if server.name == "nginx" => {
                    let first: String = problem.lines().next().unwrap_or_default().chars().take(100).collect();
                    println!("nginx: {first}: {}", server.site.last_words());
                    continue;
                }
                Err(problem) => return Err(format!("{}: {problem}: {}", server.name, server.site.last_words())),
            };
            let value = match is_last {
                true => woken.last.as_secs_f64() * 1e3,
                false => woken.whole.as_secs_f64() * 1e6 / bench.connections as f64,
            };
            let load = Load { requests: bench.connections as u64, ..Load::default() };
            samples.push(Sample { us_per_request: value, user_us: 0.0, load });
        }
    }
    add(row, &servers, samples);
    Ok(())
}

/// Waits until the answer to a path has a text: `PATH TEXT`.
fn until_settled(server: &Server, settled: &str) -> Result<(), String> {
    let (path, text) = settled.trim().split_once(' ').ok_or("\"settled\" has a path and a text")?;
    let begun = Instant::now();
    loop {
        let answer = super::special::fetch(server.site.port, path)?;
        let answer = String::from_utf8_lossy(&answer);
        if answer.contains(text) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("they do not wait: {answer}"));
        }
        thread::sleep(POLL);
    }
}

/// Elapsed time per job that is put, reserved and deleted, beside beanstalkd, or, `against: lone`, beside ourselves with one worker.
pub(super) fn jobs_rate(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    (rounds, time): (usize, Duration),
    row: &mut Row,
) -> Result<(), String> {
    row.unit("us of time");
    let servers = start_all(bench, vars, contestants, row)?;
    let rival = if bench.against == Rival::Beanstalkd { Some(Beanstalkd::start()?) } else { None };
    let mut targets: Vec<(&'static str, u16)> =
        rival.iter().map(|rival| (Rival::Beanstalkd.name(), rival.port)).collect();
    targets.extend(servers.iter().map(|server| (server.name, server.port)));
    let mut samples = vec![Vec::new(); targets.len()];
    let mut jobs = vec![JOBS_TRIAL; targets.len()];
    for round in 0..=rounds {
        for (at, (_, port)) in targets.iter().enumerate() {
            let options = jobs::Options::at(*port, bench.connections, jobs[at]);
            let per_second = jobs::put(&options)?;
            // The first round finds the length of the others.
            jobs[at] = ((per_second * time.as_secs_f64()) as usize / bench.connections).max(JOBS_TRIAL);
            if round > 0 {
                let load =
                    Load { requests: (options.connections * options.jobs) as u64, per_second, ..Load::default() };
                samples[at].push(Sample { us_per_request: 1e6 / per_second, user_us: 0.0, load });
            }
        }
    }
    for ((name, _), samples) in targets.iter().zip(&mut samples) {
        row.add(name, lower_quartile(samples));
    }
    Ok(())
}

/// CPU time of a request with each of `sizes` messages. The rival's figure is that of the first size, ours that of the worst of the others.
pub(super) fn flat(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    (rounds, time): (usize, Duration),
    row: &mut Row,
) -> Result<(), String> {
    let Some(contestant) = contestants.iter().find(|contestant| contestant.name == "tidegate") else {
        return Err("ours does not take part".to_owned());
    };
    let sizes: Vec<&str> = bench.value("sizes").split_whitespace().collect();
    let mut servers = Vec::new();
    for size in &sizes {
        servers.push(Server::start(bench, vars, contestant, contestant.name, Some(size))?);
    }
    let mut samples = vec![Vec::new(); servers.len()];
    for round in 0..=rounds {
        for (server, samples) in servers.iter().zip(&mut samples) {
            let before = cpu::usage_of(&[server.running.pid()]);
            let count = match bench.value("script") {
                "" => {
                    let options = jobs::Options::at(server.port, bench.connections, JOBS_TRIAL * 20);
                    jobs::put(&options)?;
                    options.connections * options.jobs
                }
                _ => {
                    let load = run_wrk(&server.bench, &server.site, round, time)?;
                    if load.failed > 0 {
                        let words = server.site.last_words();
                        return Err(format!("{} of {} requests failed: {words}", load.failed, load.requests));
                    }
                    usize::try_from(load.requests).unwrap_or(usize::MAX)
                }
            };
            let used = cpu::usage_of(&[server.running.pid()]).since(&before);
            // In the first round caches fill.
            if round > 0 {
                samples.push(figure(used.total.as_secs_f64() * 1e6 / count as f64));
            }
        }
    }
    let figures: Vec<Sample> = samples.iter_mut().map(|samples| lower_quartile(samples)).collect();
    let shown: Vec<String> =
        sizes.iter().zip(&figures).map(|(size, sample)| format!("{size}: {:.1} us", sample.us_per_request)).collect();
    row.note(&shown.join(", "));
    let (first, others) = figures.split_first().ok_or("there are no sizes")?;
    let worst = others.iter().max_by(|one, other| one.us_per_request.total_cmp(&other.us_per_request));
    row.add(Rival::Lone.name(), first.clone());
    row.add(contestant.name, worst.ok_or("there is one size only")?.clone());
    Ok(())
}

fn add(row: &mut Row, servers: &[Server], mut samples: Vec<Vec<Sample>>) {
    for (server, samples) in servers.iter().zip(&mut samples) {
        if samples.is_empty() {
            row.note(&format!("{} failed each time", server.name));
            continue;
        }
        row.add(server.name, lower_quartile(samples));
    }
}

/// wrk with the script of a round.
fn run_wrk(bench: &Bench, site: &Site, round: usize, time: Duration) -> Result<Load, String> {
    let mut block = bench.block.clone();
    for section in block.sections.iter_mut().filter(|section| section.name == "script") {
        section.value = section.value.replace("ROUND", &round.to_string());
    }
    load::run_wrk(&bench.with_block(block), site, time)
}

/// A server with the messages of a benchmark.
struct Server {
    name: &'static str,
    bench: Bench,
    site: Site,
    running: Running,
    /// `$TEST_PORT_2` of ours.
    port: u16,
}

/// Starts the contestants; `against: lone` is ours with one worker beside ours with as many as `workers` says.
fn start_all(bench: &Bench, vars: &Vars, contestants: &[Contestant], row: &mut Row) -> Result<Vec<Server>, String> {
    let mut servers = Vec::new();
    for contestant in contestants {
        if !bench.value("workers").is_empty() {
            let mut block = bench.block.clone();
            block.sections.retain(|section| section.name != "workers");
            servers.push(Server::start(&bench.with_block(block), vars, contestant, Rival::Lone.name(), None)?);
        }
        if contestant.name == "nginx" && vars.expand("$TEST_NQ").is_ok_and(|dir| dir.is_empty()) {
            row.note("nq was not measured: --nq");
            continue;
        }
        servers.push(Server::start(bench, vars, contestant, contestant.name, None)?);
    }
    Ok(servers)
}

impl Server {
    fn start(
        bench: &Bench,
        vars: &Vars,
        contestant: &Contestant,
        name: &'static str,
        size: Option<&str>,
    ) -> Result<Self, String> {
        let port = free_port();
        let site = Site::create(bench, vars, contestant, Some(port))?;
        let sql_port = match contestant.name {
            "nginx" => vars.expand("$TEST_MARIADB_PORT")?,
            _ => site.vars.expand("$TEST_PORT_3")?,
        };
        if contestant.name == "nginx" {
            run_sql(&sql_port, site.dir(), bench.value("rival_prepare"), "")?;
        }
        let running = Running::start(&site, &contestant.binary)?;
        let server = Server { name, bench: bench.with_block(bench.block.clone()), site, running, port };
        server.post_all()?;
        let fill = bench.value("fill").replace("SIZE", size.unwrap_or("1"));
        if !fill.trim().is_empty() {
            run_sql(&sql_port, server.site.dir(), &fill, "").map_err(|error| format!("{name}: {error}"))?;
            // Whoever keeps the last number in memory hears of another one.
            server.post_all()?;
        }
        Ok(server)
    }

    /// Sends the requests of the section `post`, a path and a body in each line.
    fn post_all(&self) -> Result<(), String> {
        for line in self.bench.value("post").lines().filter(|line| !line.is_empty()) {
            let (path, body) = line.split_once(' ').unwrap_or((line, ""));
            let answer = post(self.site.port, path, body)?;
            if cases::parse_response(&answer).is_none_or(|(status, _)| status != 200) {
                let said = String::from_utf8_lossy(&answer).into_owned();
                return Err(format!("{}: {path}: {said}: {}", self.name, self.site.last_words()));
            }
        }
        Ok(())
    }
}

/// A request on a connection of its own; answers all of the response.
fn post(port: u16, path: &str, body: &str) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{path}: {error}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .map_err(failed)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(failed)?;
    Ok(answer)
}

/// Debian's beanstalkd with a log on disk, each job synced.
struct Beanstalkd {
    port: u16,
    _process: Process,
    _scratch: Scratch,
}

impl Beanstalkd {
    fn start() -> Result<Self, String> {
        let program = paths::program("beanstalkd").ok_or("beanstalkd is not installed")?;
        let (scratch, port) = (Scratch::new("beanstalkd", false)?, free_port());
        let mut command = Command::new(program);
        command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-f0", "-b"]).arg(scratch.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::spawn(&mut command)?;
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if process.exited().is_some() || begun.elapsed() > PATIENCE {
                return Err("beanstalkd does not answer".to_owned());
            }
            thread::sleep(POLL);
        }
        Ok(Beanstalkd { port, _process: process, _scratch: scratch })
    }
}
