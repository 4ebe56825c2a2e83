//! A load of lookups by key over protocols of lines, HandlerSocket's and memcached's: `City` by its number, on connections that each
//! ask again as soon as they are answered.
//!
//! It is a sub-process of a report, on the load's cores. Addresses are `handlersocket://HOST:PORT` and `memcached://HOST:PORT`; who
//! does not have the rows yet, as a memcached that has just been started, gets them first.

use crate::load::Load;
use crate::poll::{EVENTS, Poll};
use crate::services::CITIES;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// What is chosen on the command line of that sub-process.
#[derive(clap::Args, Debug, Clone)]
#[group(id = "lookups_load")]
pub struct Options {
    /// Puts a load of lookups on this address
    #[arg(long, hide = true, value_name = "ADDRESS")]
    pub lookups: Option<String>,
    /// Its connections
    #[arg(long, hide = true, default_value_t = 1)]
    pub clients: usize,
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the clock is looked at when nothing comes.
const TICK_MS: u16 = 50;
/// Rows that are stored together.
const STORED_AT_ONCE: usize = 500;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Protocol {
    HandlerSocket,
    Memcached,
}

impl Protocol {
    /// The protocol and the host with its port.
    fn of(address: &str) -> Result<(Protocol, &str), String> {
        match address.split_once("://") {
            Some(("handlersocket", rest)) => Ok((Protocol::HandlerSocket, rest)),
            Some(("memcached", rest)) => Ok((Protocol::Memcached, rest)),
            _ => Err(format!("{address} begins with neither handlersocket:// nor memcached://")),
        }
    }

    fn question(self, id: usize) -> String {
        match self {
            Protocol::HandlerSocket => format!("1\t=\t1\t{id}\n"),
            Protocol::Memcached => format!("get City{id}\r\n"),
        }
    }

    /// Whether an answer has come to its end. memcached's ends with `END`, unless it is an error.
    fn is_whole(self, answer: &[u8]) -> bool {
        match self {
            Protocol::HandlerSocket => answer.ends_with(b"\n"),
            Protocol::Memcached => {
                answer.ends_with(b"END\r\n") || (!answer.starts_with(b"VALUE") && answer.ends_with(b"\r\n"))
            }
        }
    }

    /// Whether it has the row.
    fn is_found(self, answer: &[u8]) -> bool {
        match self {
            Protocol::HandlerSocket => answer.starts_with(b"0\t1\tCity "),
            Protocol::Memcached => answer.starts_with(b"VALUE City"),
        }
    }
}

/// A connection with the question that is open on it.
struct Client {
    stream: TcpStream,
    asked: Instant,
    answer: Vec<u8>,
}

impl Client {
    fn connect(protocol: Protocol, host: &str) -> Result<Client, String> {
        let failed = |e: std::io::Error| format!("{host}: {e}");
        let stream = TcpStream::connect(host).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut client = Client { stream, asked: Instant::now(), answer: Vec::new() };
        if protocol == Protocol::HandlerSocket {
            let said = client.exchange("P\t1\tworld\tCity\tPRIMARY\tName\n", 1)?;
            if !said.starts_with("0\t") {
                return Err(format!("{host} cannot open the table: {said}"));
            }
        }
        Ok(client)
    }

    /// Sends something and waits for so many lines.
    fn exchange(&mut self, message: &str, lines: usize) -> Result<String, String> {
        let failed = |e: std::io::Error| format!("no answer: {e}");
        self.stream.write_all(message.as_bytes()).map_err(failed)?;
        let (mut said, mut buf) = (Vec::new(), [0; 4096]);
        while said.iter().filter(|byte| **byte == b'\n').count() < lines {
            match self.stream.read(&mut buf).map_err(failed)? {
                0 => return Err("the server has closed the connection".to_owned()),
                count => said.extend_from_slice(&buf[..count]),
            }
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    fn ask(&mut self, protocol: Protocol, id: usize) -> std::io::Result<()> {
        self.answer.clear();
        self.asked = Instant::now();
        self.stream.write_all(protocol.question(id).as_bytes())
    }

    /// Reads what has come; whether the answer is whole.
    fn hear(&mut self, protocol: Protocol) -> std::io::Result<bool> {
        let mut buf = [0; 4096];
        match self.stream.read(&mut buf) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.answer.extend_from_slice(&buf[..count]);
                Ok(protocol.is_whole(&self.answer))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Numbers between 1 and [`CITIES`] without order: xorshift, by Marsaglia.
struct Ids(u64);

impl Ids {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        1 + (self.0 % CITIES as u64) as usize
    }
}

/// Puts the load on a server for so long, and prints what it found as a line of JSON.
///
/// # Errors
/// When the address is none, or the server cannot be reached, has no such table, or ends a connection.
pub fn run(address: &str, clients: usize, time: Duration) -> Result<bool, String> {
    let load = put(address, clients, time)?;
    println!("{}", serde_json::to_string(&load).map_err(|e| e.to_string())?);
    Ok(true)
}

fn put(address: &str, count: usize, time: Duration) -> Result<Load, String> {
    let (protocol, host) = Protocol::of(address)?;
    if protocol == Protocol::Memcached {
        fill(host)?;
    }
    let mut clients = HashMap::new();
    for _ in 0..count {
        let client = Client::connect(protocol, host)?;
        clients.insert(client.stream.as_raw_fd(), client);
    }
    let mut load = Load::default();
    let begun = Instant::now();
    let mut latencies = Vec::new();
    talk(protocol, &mut clients, begun + time, &mut load, &mut latencies).map_err(|e| format!("{host}: {e}"))?;
    load.per_second = load.requests as f64 / begun.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let of = |share: f64| latencies.get((latencies.len() as f64 * share) as usize).map_or(0.0, |us| f64::from(*us));
    (load.p50_us, load.p99_us) = (of(0.5), of(0.99));
    load.max_us = latencies.last().map_or(0.0, |us| f64::from(*us));
    Ok(load)
}

/// All connections ask, and ask again, until the time is over.
fn talk(
    protocol: Protocol,
    clients: &mut HashMap<RawFd, Client>,
    end: Instant,
    load: &mut Load,
    latencies: &mut Vec<u32>,
) -> std::io::Result<()> {
    let poll = Poll::new()?;
    let mut ids = Ids(0x9e37_79b9_7f4a_7c15);
    for (fd, client) in &mut *clients {
        client.stream.set_nonblocking(true)?;
        poll.add(*fd)?;
        client.ask(protocol, ids.next())?;
    }
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    while Instant::now() < end {
        let count = match poll.wait(&mut events, Some(TICK_MS)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        };
        for event in &events[..count] {
            let fd = (event.u64 as u32).cast_signed();
            if let Some(client) = clients.get_mut(&fd)
                && client.hear(protocol)?
            {
                load.requests += 1;
                load.failed += u64::from(!protocol.is_found(&client.answer));
                latencies.push(u32::try_from(client.asked.elapsed().as_micros()).unwrap_or(u32::MAX));
                client.ask(protocol, ids.next())?;
            }
        }
    }
    Ok(())
}

/// Stores all rows in a memcached that has none.
fn fill(host: &str) -> Result<(), String> {
    let mut client = Client::connect(Protocol::Memcached, host)?;
    if client.exchange("get City1\r\n", 1)?.starts_with("VALUE") {
        return Ok(());
    }
    let ids: Vec<usize> = (1..=CITIES).collect();
    for some in ids.chunks(STORED_AT_ONCE) {
        let set = |id: &usize| {
            let name = format!("City {id}");
            format!("set City{id} 0 0 {}\r\n{name}\r\n", name.len())
        };
        let said = client.exchange(&some.iter().map(set).collect::<String>(), some.len())?;
        if let Some(other) = said.lines().find(|line| *line != "STORED") {
            return Err(format!("{host} does not store: {other}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn addresses_name_a_protocol() {
        assert_eq!(Protocol::of("memcached://127.0.0.1:1"), Ok((Protocol::Memcached, "127.0.0.1:1")));
        assert_eq!(Protocol::of("handlersocket://h:1"), Ok((Protocol::HandlerSocket, "h:1")));
        assert!(Protocol::of("http://h:1").is_err() && Protocol::of("h:1").is_err());
    }

    #[test]
    fn ends_of_answers() {
        let (found, missing) = (&b"VALUE City1 0 6\r\nCity 1\r\nEND\r\n"[..], &b"END\r\n"[..]);
        for end in 0..found.len() {
            assert!(!Protocol::Memcached.is_whole(&found[..end]), "{end}");
        }
        for (protocol, answer, is_found) in [
            (Protocol::Memcached, found, true),
            (Protocol::Memcached, missing, false),
            (Protocol::Memcached, b"SERVER_ERROR out of memory\r\n", false),
            (Protocol::HandlerSocket, b"0\t1\tCity 7\n", true),
            (Protocol::HandlerSocket, b"0\t1\n", false),
            (Protocol::HandlerSocket, b"2\t1\tstmtnum\n", false),
        ] {
            assert!(protocol.is_whole(answer));
            assert_eq!(protocol.is_found(answer), is_found, "{}", String::from_utf8_lossy(answer));
        }
    }

    #[test]
    fn ids_are_those_of_rows() {
        let mut ids = Ids(1);
        let seen: std::collections::HashSet<usize> = (0..100_000).map(|_| ids.next()).collect();
        assert_eq!((seen.len(), seen.iter().min(), seen.iter().max()), (CITIES, Some(&1), Some(&CITIES)));
    }

    /// A server that finds each second row.
    #[test]
    fn answers_without_a_row_are_failures() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("handlersocket://{}", listener.local_addr().expect("an address"));
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut buf = [0; 512];
            for number in 0.. {
                if stream.read(&mut buf).unwrap_or(0) == 0 {
                    break;
                }
                let answer: &[u8] = if number % 2 == 0 { b"0\t1\n" } else { b"0\t1\tCity 1\n" };
                if stream.write_all(answer).is_err() {
                    break;
                }
            }
        });
        let load = put(&address, 1, Duration::from_millis(100)).expect("a load");
        assert!(load.requests > 0, "{load:?}");
        assert_eq!(load.failed, load.requests / 2);
    }
}
