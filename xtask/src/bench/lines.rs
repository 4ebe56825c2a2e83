//! A load for protocols of lines, such as HandlerSocket's and memcached's: the same request again and again, so many ahead on so many
//! connections. Blocking sockets and one `read` for many answers: what is measured is the server.

use super::cpu::{Usage, memory_bytes, usage_of};
use super::special::{pin_to_load_core, raise_file_limit};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long idle connections are left alone before memory is looked at: the server may have them parked by then.
const SETTLE: Duration = Duration::from_secs(30);
/// Connections that there are before memory is looked at.
const FIRST_CONNECTIONS: usize = 50;
/// Descriptors of this process that are none of the connections that are counted.
const OTHER_FILES: usize = 64 + FIRST_CONNECTIONS;

#[derive(clap::Args, Clone)]
pub(crate) struct Options {
    /// Address of the server, as 127.0.0.1:9998, or several with commas in between, over which connections are spread
    pub(super) address: String,
    /// The request, with \t, \r, \n and \0 for bytes and {n} for a number that comes once
    pub(super) request: String,
    /// What is sent once on each connection, and answered with one line
    #[arg(long)]
    pub(super) open: Option<String>,
    /// Process of the server, whose CPU time is counted with that of its children; may be given several times
    #[arg(long)]
    pub(super) pid: Vec<i32>,
    #[arg(long, default_value_t = 16)]
    pub(super) connections: usize,
    /// Requests that are sent together
    #[arg(long, default_value_t = 1)]
    pub(super) depth: usize,
    /// Requests of each connection
    #[arg(long, default_value_t = 10_000)]
    pub(super) requests: usize,
    /// Lines of an answer
    #[arg(long, default_value_t = 1)]
    pub(super) lines: usize,
    /// The first {n}
    #[arg(long, default_value_t = 1)]
    pub(super) first: usize,
    /// Measure the server's memory for each connection that is idle, instead of sending the request
    #[arg(long)]
    pub(super) idle: bool,
}

/// What a load has cost.
pub(super) struct Outcome {
    pub(super) count: usize,
    pub(super) took: Duration,
    /// CPU time of the server.
    pub(super) used: Usage,
}

impl Outcome {
    pub(super) fn per_second(&self) -> f64 {
        self.count as f64 / self.took.as_secs_f64()
    }

    /// Microseconds of CPU time for a request.
    pub(super) fn micros(&self) -> f64 {
        self.used.total.as_secs_f64() * 1e6 / self.count as f64
    }
}

/// Puts the load on a server and says what it has cost.
///
/// # Errors
/// The server cannot be reached, answers with an error, or not at all.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    if options.idle {
        println!("{} idle connections, {:.0} bytes each", options.connections, idle(options)?);
        return Ok(true);
    }
    let outcome = put(options)?;
    println!(
        "{} requests, {:.0} each second, {:.2} µs of the server's CPU time each ({:.0} % in user space)",
        outcome.count,
        outcome.per_second(),
        outcome.micros(),
        outcome.used.user_share() * 100.0
    );
    Ok(true)
}

/// Puts the load on a server.
///
/// # Errors
/// As [`run`].
pub(super) fn put(options: &Options) -> Result<Outcome, String> {
    let pids: Vec<Pid> = options.pid.iter().map(|pid| Pid::from_raw(*pid)).collect();
    let connect = |number| Client::connect(options, number);
    let clients: Vec<Client> = (0..options.connections).map(connect).collect::<Result<_, _>>()?;
    let running = clients.into_iter().enumerate().map(|(number, client)| {
        let first = options.first + number * options.requests;
        let messages = messages(options, first);
        (client, messages)
    });
    let running: Vec<_> = running.collect();
    let (begun, before) = (Instant::now(), usage_of(&pids));
    let outcome: Result<(), String> = thread::scope(|scope| {
        let threads: Vec<_> = running
            .into_iter()
            .map(|(client, messages)| {
                scope.spawn(move || {
                    // Without the right to, what is measured is the server all the same.
                    let _ = pin_to_load_core();
                    client.talk(&messages, options)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a client has panicked".to_owned())?)
    });
    outcome?;
    let (took, used) = (begun.elapsed(), usage_of(&pids).since(&before));
    Ok(Outcome { count: options.connections * options.requests, took, used })
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
    /// The connection of this number.
    fn connect(options: &Options, number: usize) -> Result<Self, String> {
        let addresses: Vec<&str> = options.address.split(',').collect();
        let address = addresses[number % addresses.len()];
        let failed = |error: std::io::Error| format!("{address}: {error}");
        let stream = TcpStream::connect(address).map_err(failed)?;
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

/// Memory of the processes, in bytes.
fn resident(options: &Options) -> u64 {
    options.pid.iter().map(|pid| memory_bytes(Pid::from_raw(*pid))).sum()
}

/// Memory of the server for each connection that does nothing, in bytes.
///
/// # Errors
/// As [`run`].
pub(super) fn idle(options: &Options) -> Result<f64, String> {
    raise_file_limit(options.connections + OTHER_FILES)?;
    let connect = |number| Client::connect(options, number);
    // What is there with the first ones is not the others'.
    let first: Vec<Client> = (0..FIRST_CONNECTIONS).map(connect).collect::<Result<_, _>>()?;
    thread::sleep(SETTLE);
    let before = resident(options);
    let clients: Vec<Client> = (0..options.connections).map(connect).collect::<Result<_, _>>()?;
    thread::sleep(SETTLE);
    let grown = resident(options).saturating_sub(before);
    drop(first);
    Ok(grown as f64 / clients.len().max(1) as f64)
}
