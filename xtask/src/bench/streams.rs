//! Requests beside many streams of events that all of them make.

use super::database;
use super::definition::{Bench, Rival};
use super::load::{self, Load, Sample};
use super::report::Row;
use super::server::{Contestant, Site};
use super::special::{pin_to_load_core, raise_file_limit};
use crate::cases::Vars;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How long a stream may take to begin.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// The streams are read so often: their clients are to cost the load's core little.
const READ_INTERVAL: Duration = Duration::from_millis(5);

/// The median latency of wrk while `beside` (a path and how many streams) is open and read, by what it is without. The rounds take
/// turns, and the lower quartiles count.
pub(super) fn beside(
    bench: &Bench,
    vars: &Vars,
    contestants: &[Contestant],
    rounds: usize,
    time: Duration,
    row: &mut Row,
) -> Result<(), String> {
    let mut words = bench.value("beside").split_whitespace();
    let path = words.next().unwrap_or_default();
    let count: usize = words.next().and_then(|count| count.parse().ok()).ok_or("\"beside\" says not how many")?;
    raise_file_limit(count + 200)?;
    row.unit("us of time");
    let sample = |load: Load| Sample { us_per_request: load.p50_us, user_us: 0.0, load };
    for contestant in contestants.iter().filter(|contestant| contestant.name == "tidegate") {
        let (site, _server) = database::start(bench, vars, contestant)?;
        load::run_wrk(bench, &site, time)?;
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            alone.push(sample(load::run_wrk(bench, &site, time)?));
            beside.push(sample(load_beside(bench, &site, time, path, count)?));
        }
        row.add(Rival::Lone.name(), load::lower_quartile(&mut alone));
        row.add(contestant.name, load::lower_quartile(&mut beside));
    }
    Ok(())
}

fn load_beside(bench: &Bench, site: &Site, time: Duration, path: &str, count: usize) -> Result<Load, String> {
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        streams.push(open(site.port, path).map_err(|error| format!("{path}: {error}: {}", site.last_words()))?);
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| read_all(&mut streams, &done));
        let load = load::run_wrk(bench, site, time);
        done.store(true, Ordering::Relaxed);
        let silent = reader.join().map_err(|_| "the reader has panicked".to_owned())??;
        if silent > 0 {
            return Err(format!("{silent} of {count} streams of {path} have said nothing"));
        }
        load
    })
}

/// A stream that has begun.
fn open(port: u16, path: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(BEGIN_TIMEOUT))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let (mut head, mut buf) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|text| text == b"id: ") {
        let count = stream.read(&mut buf)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&buf[..count]);
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Reads what comes until `done`; answers how many streams have said nothing.
fn read_all(streams: &mut [TcpStream], done: &AtomicBool) -> Result<usize, String> {
    // Without the right to, the figure is merely worse.
    let _ = pin_to_load_core();
    let mut heard = vec![false; streams.len()];
    let mut buf = vec![0; 64 << 10];
    while !done.load(Ordering::Relaxed) {
        let mut fds: Vec<PollFd<'_>> =
            streams.iter().map(|stream| PollFd::new(stream.as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut fds, PollTimeout::from(100u8)).map_err(|error| error.to_string())?;
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        for ((stream, heard), _) in streams.iter_mut().zip(&mut heard).zip(ready).filter(|(_, ready)| *ready) {
            match stream.read(&mut buf) {
                Ok(0) => return Err("a stream has ended".to_owned()),
                Ok(_) => *heard = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(format!("a stream: {error}")),
            }
        }
        thread::sleep(READ_INTERVAL);
    }
    Ok(heard.iter().filter(|heard| !**heard).count())
}
