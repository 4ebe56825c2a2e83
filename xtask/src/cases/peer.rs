//! A server that says exactly what a case wants, byte for byte, on `$TEST_PORT_4`: sections `tcp_reply`, `tcp_query_like` and
//! `tcp_request_end`.
//!
//! Each connection first waits for the head of a request, or for the bytes that end one in the case's protocol. The notes of
//! the pieces say what happens before their bytes are sent: `read` (what was sent before has been read), `received TEXT` (that
//! has come), `left` (all clients of the server have left), `50ms` (a pause), `request` (the head of another request on the
//! same connection), `connection` (this one is closed; another is waited for), `reset` (the same, but with a reset), `hold`
//! (nothing, until the other side closes).

use super::case::Case;
use super::script::Until;
use super::sockets;
use super::vars::Vars;
use crate::process::patient;
use crate::sections;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two looks at a socket.
const POLL: Duration = Duration::from_millis(2);
/// How long a connection waits for bytes or for its end.
const PATIENCE: Duration = Duration::from_secs(8);

enum Act {
    Wait(Until),
    AwaitLeft,
    AwaitRequest,
    AwaitConnection { reset: bool },
    Hold,
    Send(Vec<u8>),
}

/// The running server; it ends when dropped.
pub(crate) struct Peer {
    stop: Arc<AtomicBool>,
    received: Arc<Mutex<Vec<u8>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Peer {
    /// Starts the server, if the case wants one.
    ///
    /// # Errors
    /// A note that is not understood, or a port that is taken.
    pub(crate) fn start(case: &Case, vars: &Vars) -> Result<Option<Peer>, String> {
        let Some(text) = case.value("tcp_reply") else { return Ok(None) };
        let acts = parse(text, vars)?;
        let port = vars.get("TEST_PORT_4").and_then(|port| port.parse::<u16>().ok()).ok_or("no $TEST_PORT_4")?;
        let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|e| format!("port {port}: {e}"))?;
        listener.set_nonblocking(true).map_err(|e| format!("port {port}: {e}"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let received = Arc::new(Mutex::new(Vec::new()));
        let request_end =
            case.value("tcp_request_end").map_or(b"\r\n\r\n".to_vec(), |end| sections::unescape(end.trim_end()));
        let mut run = Run {
            listener,
            request_end,
            server_port: vars.get("TEST_PORT").and_then(|port| port.parse().ok()).ok_or("no $TEST_PORT")?,
            stop: stop.clone(),
            received: received.clone(),
            stream: None,
            unread: Vec::new(),
        };
        let thread = thread::spawn(move || run.play(&acts));
        Ok(Some(Peer { stop, received, thread: Some(thread) }))
    }

    /// Ends the server; answers all that it received.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.end();
        std::mem::take(&mut *self.received.lock().expect("the thread has ended"))
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}

fn parse(text: &str, vars: &Vars) -> Result<Vec<Act>, String> {
    let mut acts = vec![Act::AwaitConnection { reset: false }, Act::AwaitRequest];
    for piece in sections::pieces(text) {
        match piece.note.as_str() {
            "left" => acts.push(Act::AwaitLeft),
            "request" => acts.push(Act::AwaitRequest),
            "connection" => acts.extend([Act::AwaitConnection { reset: false }, Act::AwaitRequest]),
            "reset" => acts.extend([Act::AwaitConnection { reset: true }, Act::AwaitRequest]),
            "hold" => acts.push(Act::Hold),
            note => acts.push(Act::Wait(Until::parse(note)?)),
        }
        let bytes = sections::unescape(&vars.expand(&piece.text.replace('\n', ""))?);
        if !bytes.is_empty() {
            acts.push(Act::Send(bytes));
        }
    }
    Ok(acts)
}

struct Run {
    listener: TcpListener,
    /// Port of the server under test.
    server_port: u16,
    request_end: Vec<u8>,
    stop: Arc<AtomicBool>,
    received: Arc<Mutex<Vec<u8>>>,
    stream: Option<TcpStream>,
    /// What was received and belongs to no request yet.
    unread: Vec<u8>,
}

impl Run {
    fn play(&mut self, acts: &[Act]) {
        for act in acts {
            let goes_on = match act {
                Act::Wait(until) => {
                    self.wait(until);
                    true
                }
                Act::AwaitLeft => sockets::wait_until_left(self.server_port, patient(PATIENCE)),
                Act::AwaitConnection { reset } => {
                    self.close(*reset);
                    self.accept()
                }
                // Who closes instead of asking is not an error: the next act may be another connection.
                Act::AwaitRequest => {
                    let end = self.request_end.clone();
                    self.read_until(|bytes| bytes.windows(end.len()).position(|w| w == end).map(|at| at + end.len()));
                    true
                }
                Act::Hold => {
                    self.read_until(|_| None);
                    true
                }
                Act::Send(bytes) => {
                    self.send(bytes);
                    true
                }
            };
            if !goes_on || self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        self.drain();
        self.close(false);
    }

    fn wait(&mut self, until: &Until) {
        match until {
            Until::Now => {}
            Until::Read => {
                if let Some(stream) = &self.stream {
                    sockets::wait_until_read(stream, patient(PATIENCE));
                }
            }
            Until::Received(text) => {
                let text = sections::unescape(text);
                let end = |bytes: &[u8]| bytes.windows(text.len()).position(|window| window == text);
                self.read_until(|bytes| end(bytes).map(|at| at + text.len()));
            }
            Until::Time(time) => thread::sleep(*time),
        }
    }

    fn accept(&mut self) -> bool {
        while !self.stop.load(Ordering::Relaxed) {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let _ = stream.set_nonblocking(true);
                    self.stream = Some(stream);
                    self.unread.clear();
                    return true;
                }
                Err(_) => thread::sleep(POLL),
            }
        }
        false
    }

    /// Reads until `end` finds the end of what is wanted, or the other side closes.
    fn read_until(&mut self, end: impl Fn(&[u8]) -> Option<usize>) {
        let deadline = Instant::now() + patient(PATIENCE);
        loop {
            if let Some(at) = end(&self.unread) {
                self.unread.drain(..at);
                return;
            }
            let over = self.stop.load(Ordering::Relaxed) || Instant::now() > deadline;
            if over || !self.read_some() {
                return;
            }
        }
    }

    /// Reads what is there; `false` at the end.
    fn read_some(&mut self) -> bool {
        let mut buf = [0; 65536];
        let Some(stream) = &mut self.stream else { return false };
        match stream.read(&mut buf) {
            Ok(0) => false,
            Ok(count) => {
                self.unread.extend_from_slice(&buf[..count]);
                self.received.lock().expect("nobody panics with the lock").extend_from_slice(&buf[..count]);
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(POLL);
                true
            }
            Err(_) => false,
        }
    }

    fn send(&mut self, mut bytes: &[u8]) {
        let deadline = Instant::now() + patient(PATIENCE);
        let Some(stream) = &mut self.stream else { return };
        while !bytes.is_empty() && Instant::now() < deadline && !self.stop.load(Ordering::Relaxed) {
            match stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(POLL),
                Err(_) => return,
            }
        }
    }

    /// Takes what has been sent already, so that closing is no reset.
    fn drain(&mut self) {
        let mut buf = [0; 65536];
        let Some(stream) = &mut self.stream else { return };
        while let Ok(count @ 1..) = stream.read(&mut buf) {
            self.received.lock().expect("nobody panics with the lock").extend_from_slice(&buf[..count]);
        }
    }

    fn close(&mut self, reset: bool) {
        self.drain();
        if let Some(stream) = self.stream.take()
            && reset
        {
            let linger = libc::linger { l_onoff: 1, l_linger: 0 };
            let _ = nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::Linger, &linger);
        }
    }
}
