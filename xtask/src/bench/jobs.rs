//! A load for servers that speak beanstalkd's protocol: each connection puts a job, reserves one and deletes it, again and again.

use super::special::pin_to_load_core;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a job.
const BYTES: usize = 100;

#[derive(clap::Args, Clone)]
pub(crate) struct Options {
    /// Address of the server, as 127.0.0.1:11300
    address: String,
    #[arg(long, default_value_t = 16)]
    pub(super) connections: usize,
    /// Jobs of each connection
    #[arg(long, default_value_t = 1_000)]
    pub(super) jobs: usize,
    /// Bytes of a job
    #[arg(long, default_value_t = BYTES)]
    bytes: usize,
}

impl Options {
    /// A load for a port of this machine.
    pub(super) fn at(port: u16, connections: usize, jobs: usize) -> Self {
        Options { address: format!("127.0.0.1:{port}"), connections, jobs, bytes: BYTES }
    }
}

/// Puts the load on a server and says how many jobs it did each second.
///
/// # Errors
/// The server cannot be reached, answers with an error, or not at all.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let rate = put(options)?;
    println!("{} jobs put, reserved and deleted, {rate:.0} each second", options.connections * options.jobs);
    Ok(true)
}

/// Puts the load on a server; answers jobs a second.
///
/// # Errors
/// As [`run`].
pub(super) fn put(options: &Options) -> Result<f64, String> {
    let clients: Vec<Client> =
        (0..options.connections).map(|_| Client::connect(&options.address)).collect::<Result<_, _>>()?;
    let begun = Instant::now();
    let outcome: Result<(), String> = thread::scope(|scope| {
        let work = |mut client: Client| {
            // Without the right to, what is measured is the server all the same.
            let _ = pin_to_load_core();
            client.work(options)
        };
        let threads: Vec<_> = clients.into_iter().map(|client| scope.spawn(move || work(client))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a client has panicked".to_owned())?)
    });
    outcome?;
    let count = options.connections * options.jobs;
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

struct Client {
    stream: BufReader<TcpStream>,
    line: String,
    body: Vec<u8>,
}

impl Client {
    fn connect(address: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
        set.map_err(|error| error.to_string())?;
        Ok(Client { stream: BufReader::new(stream), line: String::new(), body: Vec::new() })
    }

    fn work(&mut self, options: &Options) -> Result<(), String> {
        let put = format!("put 1024 0 60 {}\r\n{}\r\n", options.bytes, "x".repeat(options.bytes));
        for _ in 0..options.jobs {
            self.ask(&put, "INSERTED ")?;
            self.ask("reserve\r\n", "RESERVED ")?;
            let mut words = self.line.split_whitespace().skip(1);
            let (id, bytes) = (words.next().unwrap_or_default(), words.next().and_then(|bytes| bytes.parse().ok()));
            let bytes: usize = bytes.ok_or_else(|| format!("the server said {:?}", self.line))?;
            let delete = format!("delete {id}\r\n");
            self.body.resize(bytes + 2, 0);
            self.stream.read_exact(&mut self.body).map_err(|error| error.to_string())?;
            self.ask(&delete, "DELETED")?;
        }
        Ok(())
    }

    /// Sends a command and reads the line of its answer.
    fn ask(&mut self, command: &str, expected: &str) -> Result<(), String> {
        self.stream.get_mut().write_all(command.as_bytes()).map_err(|error| error.to_string())?;
        self.line.clear();
        self.stream.read_line(&mut self.line).map_err(|error| error.to_string())?;
        match self.line.starts_with(expected) {
            true => Ok(()),
            false => Err(format!("the server said {:?}", self.line)),
        }
    }
}
