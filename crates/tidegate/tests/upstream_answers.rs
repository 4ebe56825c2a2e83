//! Whose answer is it? Hundreds of requests go over a few kept connections to a backend that cuts, delays, resets, answers too
//! early, too much or twice. Each request carries a secret that its answer repeats: no response may ever show another one, and
//! the backend may see no request that nobody sent. `TIDEGATE_SEED` repeats a run.

mod support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{PATIENCE, Site, connect};

const CLIENTS: u64 = 8;
const REQUESTS_EACH: u64 = 60;

/// xorshift64*: the same numbers for the same seed.
struct Chance(u64);

impl Chance {
    fn new(seed: u64, number: u64) -> Self {
        Chance((seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1)
    }
    fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % count
    }
}

/// What went wrong, from all threads.
type Faults = Arc<Mutex<Vec<String>>>;

fn fault(faults: &Faults, text: String) {
    faults.lock().expect("nobody panics with it").push(text);
}

/// One request as the backend sees it.
struct Seen {
    method: String,
    secret: String,
    fields: HashMap<String, String>,
}

fn read_head(stream: &mut BufReader<TcpStream>) -> Option<(String, HashMap<String, String>)> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|&count| count > 0)?;
    let mut fields = HashMap::new();
    loop {
        let mut field = String::new();
        stream.read_line(&mut field).ok().filter(|&count| count > 0)?;
        match field.trim_end().split_once(": ") {
            Some((name, value)) => fields.insert(name.to_ascii_lowercase(), value.to_owned()),
            None => return Some((line, fields)),
        };
    }
}

/// Reads the body that the head announces; `None` when it does not come.
fn read_body(stream: &mut BufReader<TcpStream>, fields: &HashMap<String, String>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    if fields.contains_key("transfer-encoding") {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok().filter(|&count| count > 0)?;
            let size = usize::from_str_radix(line.trim(), 16).ok()?;
            let mut piece = vec![0; size + 2];
            stream.read_exact(&mut piece).ok()?;
            if size == 0 {
                return Some(body);
            }
            body.extend_from_slice(&piece[..size]);
        }
    }
    body.resize(fields.get("content-length").map_or(Some(0), |length| length.parse().ok())?, 0);
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

/// Serves one connection, badly, until one side has enough.
fn misbehave(stream: TcpStream, mut chance: Chance, faults: &Faults) {
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut out = stream.try_clone().expect("cloned");
    let mut stream = BufReader::new(stream);
    while let Some((line, fields)) = read_head(&mut stream) {
        let mut words = line.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let Some(secret) = path.rsplit('/').next().filter(|secret| secret.starts_with("secret-")) else {
            return fault(faults, format!("the backend was asked for {line:?}"));
        };
        let seen = Seen { method: method.to_owned(), secret: secret.to_owned(), fields };
        let has_body = seen.fields.contains_key("content-length") || seen.fields.contains_key("transfer-encoding");
        let early = chance.below(if has_body { 3 } else { 8 }) == 0;
        if early && !answer(&mut out, &seen, &mut chance) {
            return;
        }
        let Some(body) = read_body(&mut stream, &seen.fields) else { return };
        if !body.is_empty() && body != body_of(&seen.secret) {
            return fault(faults, format!("{} came with {:?}", seen.secret, String::from_utf8_lossy(&body)));
        }
        if !early && !answer(&mut out, &seen, &mut chance) {
            return;
        }
    }
}

/// Answers in one of many ways; `false` when the connection is to be closed.
fn answer(out: &mut TcpStream, seen: &Seen, chance: &mut Chance) -> bool {
    let secret = &seen.secret;
    let whole = |status: &str, more: &str| {
        format!("HTTP/1.1 {status}\r\nX-Secret: {secret}\r\n{more}Content-Length: {}\r\n\r\n{secret}", secret.len())
    };
    let other = "HTTP/1.1 200 OK\r\nX-Secret: secret-stolen\r\nContent-Length: 13\r\n\r\nsecret-stolen";
    let is_head = seen.method == "HEAD";
    let (text, goes_on) = match chance.below(16) {
        0 => (format!("{}{other}", whole("200 OK", "")), true),
        1 => (format!("{}junk", whole("200 OK", "")), true),
        2 => (format!("HTTP/1.1 204 No Content\r\nX-Secret: {secret}\r\n\r\n{other}"), true),
        3 => (format!("HTTP/1.1 304 Not Modified\r\nX-Secret: {secret}\r\nContent-Length: 5\r\n\r\n"), true),
        4 => (format!("{}{other}", whole("304 Not Modified", "")), true),
        5 => (whole("200 OK", "")[..40].to_owned(), false),
        6 => (format!("HTTP/1.1 200 OK\r\nX-Secret: {secret}\r\nContent-Length: 500\r\n\r\n{secret}"), false),
        7 => (String::new(), false),
        8 => (format!("HTTP/1.1 100 Continue\r\n\r\n{}", whole("200 OK", "")), true),
        9 => (whole("200 OK", "Connection: close\r\n"), true),
        10 => (whole("503 Busy", ""), true),
        11 => {
            let size = secret.len();
            (
                format!(
                    "HTTP/1.1 200 OK\r\nX-Secret: {secret}\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{secret}\r\n0\r\n\r\n"
                ),
                true,
            )
        }
        12 => (format!("HTTP/1.1 200 OK\r\nX-Secret: {secret}\r\n\r\n{secret}"), false),
        _ => (whole("200 OK", ""), true),
    };
    // Most backends know that HEAD has no body.
    let text = match text.find("\r\n\r\n") {
        Some(at) if is_head && chance.below(3) > 0 => &text[..at + 4],
        _ => &text[..],
    };
    let cut = chance.below(text.len() as u64 + 1) as usize;
    let delayed = goes_on && chance.below(4) == 0 && !text.contains("stolen") && !text.ends_with("junk");
    let sent = if delayed {
        // In two pieces with a pause: the delay is what the backend does wrong.
        let first = out.write_all(&text.as_bytes()[..cut]);
        std::thread::sleep(Duration::from_millis(chance.below(4)));
        first.and_then(|()| out.write_all(&text.as_bytes()[cut..]))
    } else {
        out.write_all(text.as_bytes())
    };
    if !goes_on && chance.below(2) == 0 {
        let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        let _ = nix::sys::socket::setsockopt(&*out, nix::sys::socket::sockopt::Linger, &linger);
    }
    sent.is_ok() && goes_on
}

fn body_of(secret: &str) -> Vec<u8> {
    // A server that takes it for requests would find some.
    format!("GET /stolen/{secret} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()
}

/// Sends one request, whole or in pieces, and checks that all that comes belongs to it.
fn ask(port: u16, secret: &str, chance: &mut Chance, faults: &Faults) {
    let location = ["buffered", "streamed", "once", "intercepted"][chance.below(4) as usize];
    let method = ["GET", "POST", "POST", "HEAD"][chance.below(4) as usize];
    let mut client = connect(port).expect("the server accepts");
    let mut request = format!("{method} /{location}/{secret} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    let body = body_of(secret);
    match (method, chance.below(2)) {
        ("POST", 0) => request.push_str(&format!("Content-Length: {}\r\n\r\n", body.len())),
        ("POST", _) => request.push_str("Transfer-Encoding: chunked\r\n\r\n"),
        _ => request.push_str("\r\n"),
    }
    let mut bytes = request.clone().into_bytes();
    if method == "POST" && request.contains("chunked") {
        bytes.extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(b"\r\n0\r\n\r\n");
    } else if method == "POST" {
        bytes.extend_from_slice(&body);
    }
    let cut = (request.len() as u64 + chance.below((bytes.len() - request.len()) as u64 + 1)) as usize;
    if client.write_all(&bytes[..cut]).is_err() {
        return;
    }
    match chance.below(8) {
        // Leaves in the middle.
        0 => return,
        1..4 => std::thread::sleep(Duration::from_millis(2)),
        _ => {}
    }
    let _ = client.write_all(&bytes[cut..]);
    let mut response = Vec::new();
    let _ = client.read_to_end(&mut response);
    let text = String::from_utf8_lossy(&response);
    for (at, _) in text.match_indices("secret-") {
        let found = &text[at..];
        let shown = &found[..found.len().min(secret.len())];
        // A cut answer may show the beginning of the right one.
        if !secret.starts_with(shown) {
            fault(faults, format!("{method} /{location}/{secret} was answered with {text:?}"));
        }
    }
    if text.starts_with("HTTP/1.1 200") && !text.contains(&format!("X-Secret: {secret}\r\n")) {
        fault(faults, format!("{method} /{location}/{secret} was answered without its secret: {text:?}"));
    }
}

#[test]
fn each_request_gets_its_own_answer() {
    let seed = std::env::var("TIDEGATE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_123);
    let faults: Faults = Faults::default();
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    let over = Arc::new(AtomicBool::new(false));
    let backend = {
        let (faults, over) = (faults.clone(), over.clone());
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let (stream, faults) = (stream.expect("accepted"), faults.clone());
                let chance = Chance::new(seed, 1_000_000 + number as u64);
                std::thread::spawn(move || misbehave(stream, chance, &faults));
            }
        })
    };
    let mut site = Site::new("worker_processes 1;", "");
    site.write_conf(&format!(
        "worker_processes 1; error_log logs/error.log notice; pid logs/nginx.pid; events {{ }}\n\
         http {{\n\
             upstream u {{ server {address} max_fails=0; keepalive 4; }}\n\
             proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_read_timeout 2s;\n\
             server {{\n\
                 listen 127.0.0.1:{};\n\
                 location = / {{ return 200 ok; }}\n\
                 location /buffered/ {{ proxy_pass http://u; }}\n\
                 location /streamed/ {{ proxy_request_buffering off; proxy_buffering off; proxy_pass http://u; }}\n\
                 location /once/ {{ proxy_pass_request_body off; proxy_next_upstream off; proxy_pass http://u; }}\n\
                 location /intercepted/ {{\n\
                     proxy_request_buffering off; proxy_intercept_errors on; error_page 502 503 = @again;\n\
                     proxy_pass http://u;\n\
                 }}\n\
                 location @again {{ proxy_pass http://u; }}\n\
             }}\n\
         }}\n",
        site.port
    ));
    site.start();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (faults, port) = (&faults, site.port);
            scope.spawn(move || {
                let mut chance = Chance::new(seed, client);
                for number in 0..REQUESTS_EACH {
                    let secret = format!("secret-{:04x}-{client}-{number:03}", chance.below(1 << 16));
                    ask(port, &secret, &mut chance, faults);
                }
            });
        }
    });
    let faults = std::mem::take(&mut *faults.lock().expect("all have ended"));
    assert!(faults.is_empty(), "seed {seed}: {} faults\n{}", faults.len(), faults.join("\n"));
    over.store(true, Ordering::Relaxed);
    drop(TcpStream::connect(address));
    backend.join().expect("no panic");
    site.quit();
}
