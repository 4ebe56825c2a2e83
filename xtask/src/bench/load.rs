//! Load by wrk or h2load, and CPU per request meanwhile.

use super::cpu;
use super::definition::Bench;
use super::report::Row;
use super::server::{Contestant, LOAD_CORE, Running, Site};
use super::special::raise_file_limit;
use crate::cases::{self, Vars};
use crate::paths;
use crate::process::Process;
use nix::unistd::Pid;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;
use tidegate_report::load::wrk;

pub(super) use tidegate_report::load::Load;

/// One round of one contestant.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    pub(super) us_per_request: f64,
    pub(super) user_us: f64,
    pub(super) load: Load,
}

/// Measures all rounds and puts the lower quartiles into `row`. CPU time of the processes `counted` is added to the servers'.
pub(super) fn compare(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    time: Duration,
    counted: &[Pid],
    row: &mut Row,
) -> Result<(), String> {
    let mut samples = interleaved(bench, vars, contestants, rounds, time, counted)?;
    for (contestant, samples) in contestants.iter().zip(&mut samples) {
        row.add(contestant.name, lower_quartile(samples));
    }
    Ok(())
}

/// Measures all rounds and puts the medians of the p99 into `row`.
pub(super) fn p99(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    time: Duration,
    row: &mut Row,
) -> Result<(), String> {
    raise_file_limit(bench.connections + 200)?;
    // Thousands of connections are made in the first second, and their first answers are the slowest.
    let time = time.max(Duration::from_secs(3));
    let mut samples = interleaved(bench, vars, contestants, rounds, time, &[])?;
    for (contestant, samples) in contestants.iter().zip(&mut samples) {
        samples.sort_by(|a, b| a.load.p99_us.total_cmp(&b.load.p99_us));
        let load = samples[samples.len() / 2].load;
        row.add(contestant.name, Sample { us_per_request: load.p99_us, user_us: 0.0, load });
    }
    Ok(())
}

/// All rounds of all contestants, which take turns.
pub(super) fn interleaved(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    time: Duration,
    counted: &[Pid],
) -> Result<Vec<Vec<Sample>>, String> {
    let backend = start_backend(bench)?;
    let port = backend.as_ref().map(|(site, _)| site.port);
    let mut servers = Vec::new();
    for contestant in contestants {
        let site = Site::create(bench, vars, contestant, port)?;
        let server = Running::start(&site, &contestant.binary)?;
        check_answer(bench, &site)?;
        run_wrk(bench, &site, Duration::from_millis(500))?;
        servers.push((site, server));
    }
    let mut samples = vec![Vec::new(); servers.len()];
    for _ in 0..rounds {
        for (index, (site, server)) in servers.iter().enumerate() {
            let pids: Vec<Pid> = counted.iter().copied().chain([server.pid()]).collect();
            let before = cpu::usage_of(&pids);
            let load = run_wrk(bench, site, time)?;
            let used = cpu::usage_of(&pids).since(&before);
            if load.requests == 0 || load.failed > load.requests / 100 {
                let name = contestants[index].name;
                return Err(format!("{name}: {} of {} requests failed", load.failed, load.requests));
            }
            let us_per_request = used.total.as_secs_f64() * 1e6 / load.requests as f64;
            samples[index].push(Sample { us_per_request, user_us: us_per_request * used.user_share(), load });
        }
    }
    Ok(samples)
}

/// The server behind a proxy: always nginx, and its CPU is nobody's.
pub(super) fn start_backend(bench: &Bench) -> Result<Option<(Site, Running)>, String> {
    if bench.value("backend").is_empty() {
        return Ok(None);
    }
    let site = Site::create_backend(bench)?;
    let server = Running::start(&site, &paths::program("nginx").ok_or("nginx is not installed")?)?;
    Ok(Some((site, server)))
}

/// The answer is the expected one: a fast error page would win every comparison.
pub(super) fn check_answer(bench: &Bench, site: &Site) -> Result<(), String> {
    let expected = site.vars.expand(bench.value("expect"))?;
    let speaks_http2 = !bench.value("h2load").is_empty();
    let bytes = if speaks_http2 { fetch_http2(site, bench)? } else { super::special::fetch(site.port, &bench.url)? };
    let pattern = regex::bytes::Regex::new(&format!("(?s){}", expected.trim_end())).map_err(|e| e.to_string())?;
    let answer = if speaks_http2 { Some((200, bytes.clone())) } else { cases::parse_response(&bytes) };
    if !answer.is_some_and(|(status, body)| status == 200 && pattern.is_match(&body)) {
        let shown: String = String::from_utf8_lossy(&bytes).chars().take(300).collect();
        return Err(format!("unexpected answer:\n{shown}\n{}", site.last_words()));
    }
    Ok(())
}

/// The body of a response over HTTP/2.
fn fetch_http2(site: &Site, bench: &Bench) -> Result<Vec<u8>, String> {
    let url = format!("http://127.0.0.1:{}{}", site.port, bench.url);
    let output = Command::new("curl").args(["-s", "--fail", "-m", "5", "--http2-prior-knowledge", &url]).output();
    let output = output.map_err(|e| format!("cannot run curl: {e}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err(format!("curl ended with {}", output.status)) }
}

/// A machine that others share now and then runs a third slower for a second or two. What such rounds say of two servers
/// depends on who was hit, so the rounds in between count: the lower quartile, for all contestants alike.
pub(super) fn lower_quartile(samples: &mut [Sample]) -> Sample {
    // User and system time are sampled in ticks: their proportion is taken from all rounds together.
    let total: f64 = samples.iter().map(|s| s.us_per_request).sum();
    let user_share = samples.iter().map(|s| s.user_us).sum::<f64>() / total;
    samples.sort_by(|a, b| a.us_per_request.total_cmp(&b.us_per_request));
    let mut sample = samples[samples.len() / 4].clone();
    sample.user_us = sample.us_per_request * user_share;
    sample
}

/// The round with the lowest p99: on a machine with other work a p99 is soon that of the scheduler.
pub(super) fn lowest_p99(loads: Vec<Load>) -> Load {
    loads.into_iter().min_by(|a, b| a.p99_us.total_cmp(&b.p99_us)).unwrap_or_default()
}

/// Runs wrk on the load's core, or h2load where the benchmark has arguments for that.
pub(super) fn run_wrk(bench: &Bench, site: &Site, time: Duration) -> Result<Load, String> {
    if !bench.value("h2load").is_empty() {
        return run_h2load(bench, site, time);
    }
    let output =
        wrk_command(bench, site, time, bench.value("script"))?.output().map_err(|e| format!("cannot run wrk: {e}"))?;
    wrk::read(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| {
        format!("wrk said: {}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    })
}

/// Starts wrk with a script of its own for as long as what is returned lives, ten minutes at most.
pub(super) fn hold_wrk(bench: &Bench, site: &Site, script: &str) -> Result<Process, String> {
    let mut command = wrk_command(bench, site, Duration::from_secs(600), script)?;
    Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
}

fn wrk_command(bench: &Bench, site: &Site, time: Duration, script: &str) -> Result<Command, String> {
    let mut command = Command::new("taskset");
    command.args(["-c", LOAD_CORE, "wrk", "-t1", "--latency"]);
    command.arg(format!("-c{}", bench.connections)).arg(format!("-d{}s", time.as_secs().max(1)));
    if !script.is_empty() {
        let file = site.dir().join("wrk.lua");
        fs::write(&file, site.vars.expand(script)?).map_err(|e| format!("cannot write wrk.lua: {e}"))?;
        command.arg("-s").arg(file);
    }
    let origin = match bench.value("scheme") {
        "https" => site.vars.expand("https://127.0.0.1:$TEST_PORT_3")?,
        _ => format!("http://127.0.0.1:{}", site.port),
    };
    command.args(&bench.wrk).arg(origin + &bench.url);
    Ok(command)
}

/// Runs h2load on the load's core. It tells no p99.
fn run_h2load(bench: &Bench, site: &Site, time: Duration) -> Result<Load, String> {
    let mut command = Command::new("taskset");
    command.args(["-c", LOAD_CORE, "h2load", "-t1"]).args(bench.value("h2load").split_whitespace());
    command.arg(format!("-c{}", bench.connections)).arg(format!("-D{}", time.as_secs().max(1)));
    command.arg(format!("http://127.0.0.1:{}{}", site.port, bench.url));
    let output = command.output().map_err(|e| format!("cannot run h2load: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse_h2load(&text).ok_or_else(|| format!("h2load said: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn parse_h2load(text: &str) -> Option<Load> {
    let mut load = Load::default();
    for line in text.lines().map(str::trim) {
        let numbers = || line.split([' ', ',']).filter_map(|word| word.parse::<u64>().ok());
        if line.starts_with("requests: ") {
            // total, started, done, succeeded, failed, errored, timeout
            load.requests = numbers().nth(3)?;
            load.failed = numbers().skip(4).sum();
        } else if let Some((_, rate)) = line.split_once("s, ").filter(|_| line.starts_with("finished in ")) {
            load.per_second = rate.split_once(" req/s")?.0.parse().ok()?;
        }
    }
    (load.per_second > 0.0).then_some(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_h2load_prints() {
        let text = "finished in 1.00s, 5454.50 req/s, 1.07MB/s\n\
                    requests: 5460 total, 5520 started, 5458 done, 5455 succeeded, 3 failed, 2 errored, 1 timeout\n\
                    status codes: 5455 2xx, 0 3xx, 3 4xx, 0 5xx\n";
        let load = parse_h2load(text).unwrap();
        assert_eq!(load, Load { requests: 5455, per_second: 5454.5, failed: 6, ..Load::default() });
        assert_eq!(parse_h2load("unable to connect"), None);
    }
}
