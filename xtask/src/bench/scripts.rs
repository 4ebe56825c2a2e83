//! Figures of Lua that are not CPU per request: growth with the size of the work, memory of requests that wait, the start
//! of a script.

use super::cpu;
use super::definition::Bench;
use super::report::Row;
use super::server::{Contestant, Running, Site};
use super::special::{fetch, figure, raise_file_limit};
use crate::cases::Vars;
use crate::process::Process;
use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How much more of an item's time the larger of two tasks takes than the smaller: 1 for work that grows with its size.
///
/// Work that grows with the square makes it the quotient of the sizes. Both should be beyond what caches hold.
///
/// `sizes` has the two numbers that take `SIZE`'s place in the URL. The time is that of the processor; the lowest of the
/// rounds counts.
pub(super) fn growth(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    row: &mut Row,
) -> Result<(), String> {
    row.unit("times per item");
    row.is_absolute();
    let sizes: Vec<f64> = bench.value("sizes").split_whitespace().filter_map(|size| size.parse().ok()).collect();
    let &[small, large] = sizes.as_slice() else { return Err("\"sizes\" wants two numbers".to_owned()) };
    for contestant in contestants {
        let site = Site::create(bench, vars, contestant, None)?;
        let server = Running::start(&site, &contestant.binary)?;
        let per_item = |size: f64| -> Result<f64, String> {
            let url = bench.url.replace("SIZE", &size.to_string());
            let mut lowest = f64::INFINITY;
            for _ in 0..rounds {
                let before = cpu::usage(server.pid());
                let answer = fetch(site.port, &url).map_err(|e| format!("{}: {e}", contestant.name))?;
                if !answer.starts_with(b"HTTP/1.1 200") {
                    return Err(format!("{}: {url} fails: {}", contestant.name, site.last_words()));
                }
                lowest = lowest.min(cpu::usage(server.pid()).since(&before).total.as_secs_f64());
            }
            Ok(lowest / size)
        };
        let times = per_item(small).and_then(|small| Ok(per_item(large)? / small));
        match times {
            Ok(times) => row.add(contestant.name, figure(times)),
            // It may take minutes where its work does not grow with the size alone: no figure then.
            Err(_) if contestant.name == "nginx" => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(())
}

/// How long memory must not have changed, and how long that is waited for.
const STABLE_LOOKS: usize = 5;
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(200);
const LOOKS_MAX: usize = 200;

/// Memory per request that waits, in bytes, its connection included.
pub(super) fn waiting_memory(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    row: &mut Row,
) -> Result<(), String> {
    raise_file_limit(bench.connections + 200)?;
    row.unit("bytes");
    for contestant in contestants {
        let site = Site::create(bench, vars, contestant, None)?;
        let server = Running::start(&site, &contestant.binary)?;
        // The first requests grow caches that stay.
        let _warm = send_all(&site, bench, 50)?;
        let before = settled_memory(&server);
        let waiting = send_all(&site, bench, bench.connections)?;
        let after = settled_memory(&server);
        row.add(contestant.name, figure(after.saturating_sub(before) as f64 / waiting.len() as f64));
    }
    Ok(())
}

/// One request on each of `count` connections; nobody reads an answer.
fn send_all(site: &Site, bench: &Bench, count: usize) -> Result<Vec<TcpStream>, String> {
    let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", bench.url);
    let client = || {
        let mut stream = TcpStream::connect(("127.0.0.1", site.port))?;
        stream.write_all(request.as_bytes())?;
        Ok(stream)
    };
    (0..count).map(|_| client().map_err(|e: std::io::Error| format!("a client: {e}"))).collect()
}

/// The server's memory once it does not change any more.
pub(super) fn settled_memory(server: &Running) -> u64 {
    let (mut last, mut stable) = (0, 0);
    for _ in 0..LOOKS_MAX {
        let now = cpu::memory_bytes(server.pid());
        stable = if now == last { stable + 1 } else { 0 };
        last = now;
        if stable == STABLE_LOOKS {
            break;
        }
        thread::sleep(LOOK_INTERVAL);
    }
    last
}

/// Time of `tidegate lua -e SCRIPT` from start to end, in milliseconds, the lowest of many.
pub(super) fn script_start(
    bench: &Bench,
    contestants: &[Contestant],
    rounds: usize,
    row: &mut Row,
) -> Result<(), String> {
    /// A start is short.
    const STARTS_PER_ROUND: usize = 10;
    row.unit("ms");
    row.is_absolute();
    for contestant in contestants.iter().filter(|contestant| contestant.name == "tidegate") {
        let mut lowest = f64::INFINITY;
        for _ in 0..rounds * STARTS_PER_ROUND {
            let mut command = Command::new(&contestant.binary);
            command.args(["lua", "-e", bench.value("script")]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let started = Instant::now();
            let mut process = Process::spawn(&mut command)?;
            let status = process.wait(Duration::from_secs(20)).ok_or("the script does not end")?;
            lowest = lowest.min(started.elapsed().as_secs_f64() * 1e3);
            if !status.success() {
                return Err(format!("the script ended with {status}"));
            }
        }
        row.add(contestant.name, figure(lowest));
    }
    Ok(())
}
