//! A load for protocols of lines, such as HandlerSocket's and memcached's: the same request again and again, so many ahead on so many
//! connections. Blocking sockets and one `read` for many answers: what is measured is the server.

use super::cpu::usage_of;
use super::special::raise_file_limit;
use nix::unistd::Pid;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long idle connections are left alone before memory is looked at: the server may have them parked by then.
const SETTLE: Duration = Duration::from_secs(30);
/// Descriptors of this process that are no connections.
const OTHER_FILES: usize = 64;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Address of the server, as 127.0.0.1:9998
    address: String,
    /// The request, with \t, \r, \n and \0 for bytes and {n} for a number that comes once
    request: String,
    /// What is sent once on each connection, and answered with one line
    #[arg(long)]
    open: Option<String>,
    /// Process of the server, whose CPU time is counted with that of its children; may be given several times
    #[arg(long)]
    pid: Vec<i32>,
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Requests that are sent together
    #[arg(long, default_value_t = 1)]
    depth: usize,
    /// Requests of each connection
    #[arg(long, default_value_t = 10_000)]
    requests: usize,
    /// Lines of an answer
    #[arg(long, default_value_t = 1)]
    lines: usize,
    /// The first {n}
    #[arg(long, default_value_t = 1)]
    first: usize,
    /// Measure the server's memory for each connection that is idle, instead of sending the request
    #[arg(long)]
    idle: bool,
}

/// Puts the load on a server and says what it has cost.
///
/// # Errors
/// The server cannot be reached, answers with an error, or not at all.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let pids: Vec<Pid> = options.pid.iter().map(|pid| Pid::from_raw(*pid)).collect();
    if options.idle {
        return idle(options);
    }
    let clients: Vec<Client> = (0..options.connections).map(|_| Client::connect(options)).collect::<Result<_, _>>()?;
    let (begun, before) = (Instant::now(), usage_of(&pids));
    let running = clients.into_iter().enumerate().map(|(number, client)| {
        let first = options.first + number * options.requests;
        let messages = messages(options, first);
        (client, messages)
    });
    let running: Vec<_> = running.collect();
    let outcome: Result<(), String> = thread::scope(|scope| {
        let threads: Vec<_> = running
            .into_iter()
            .map(|(client, messages)| scope.spawn(move || client.talk(&messages, options)))
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a client has panicked".to_owned())?)
    });
    outcome?;
    let (took, used) = (begun.elapsed(), usage_of(&pids).since(&before));
    let count = options.connections * options.requests;
    let micros = used.total.as_secs_f64() * 1e6 / count as f64;
    println!(
        "{count} requests, {:.0} each second, {micros:.2} µs of the server's CPU time each ({:.0} % in user space)",
        count as f64 / took.as_secs_f64(),
        used.user_share() * 100.0
    );
    Ok(true)
}

/// The requests of a connection, in the pieces that are sent together.
fn messages(options: &Options, first: usize) -> Vec<(Vec<u8>, usize)> {
    let numbers: Vec<usize> = (first..first + options.requests).collect();
    let piece = |numbers: &[usize]| {
        let bytes = numbers.iter().flat_map(|number| bytes_of(&options.request.replace("{n}", &number.to_string())));
        (bytes.collect(), numbers.len())
    };
    numbers.chunks(options.depth.max(1)).map(piece).collect()
}

fn bytes_of(text: &str) -> Vec<u8> {
    text.replace("\\t", "\t").replace("\\r", "\r").replace("\\n", "\n").replace("\\0", "\0").into_bytes()
}

struct Client(TcpStream);

impl Client {
    fn connect(options: &Options) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", options.address);
        let stream = TcpStream::connect(&options.address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut client = Client(stream);
        if let Some(open) = &options.open {
            client.exchange(&bytes_of(open), 1)?;
        }
        Ok(client)
    }

    /// Sends requests and reads so many lines. HandlerSocket's and memcached's errors end the talk.
    fn exchange(&mut self, message: &[u8], mut lines: usize) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        self.0.write_all(message).map_err(failed)?;
        let mut buffer = [0; 64 << 10];
        while lines > 0 {
            let count = self.0.read(&mut buffer).map_err(failed)?;
            let answer = &buffer[..count];
            if count == 0 || matches!(answer[0], b'1'..=b'3') || answer.starts_with(b"ERROR") {
                return Err(format!("the server has answered {:?}", String::from_utf8_lossy(answer)));
            }
            lines = lines.saturating_sub(answer.iter().filter(|byte| **byte == b'\n').count());
        }
        Ok(())
    }

    fn talk(mut self, messages: &[(Vec<u8>, usize)], options: &Options) -> Result<(), String> {
        messages.iter().try_for_each(|(message, count)| self.exchange(message, count * options.lines))
    }
}

/// Memory of the processes, in kilobytes.
fn resident(options: &Options) -> u64 {
    let of = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    options.pid.iter().map(of).sum()
}

fn idle(options: &Options) -> Result<bool, String> {
    raise_file_limit(options.connections + OTHER_FILES)?;
    // What is there with the first one is not the others'.
    let first = Client::connect(options)?;
    thread::sleep(SETTLE);
    let before = resident(options);
    let clients: Vec<Client> = (0..options.connections).map(|_| Client::connect(options)).collect::<Result<_, _>>()?;
    thread::sleep(SETTLE);
    let grown = resident(options).saturating_sub(before) << 10;
    println!("{} idle connections, {} bytes each", clients.len(), grown / clients.len().max(1) as u64);
    drop(first);
    Ok(true)
}
