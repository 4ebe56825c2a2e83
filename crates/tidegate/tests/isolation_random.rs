//! Hundreds of connections to one worker, their requests cut, delayed, reset and timed out at every byte: each response must be
//! what that very request gets. Each connection has a secret, which must never come back on another.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use support::{Site, connect};

/// Connections that are open at a time.
const OPEN_MAX: usize = 48;

/// Connections whose cuts are chosen by chance, after those that are cut at each byte.
const RANDOM_COUNT: usize = 300;

/// A client that took longer to send its requests may have been too slow for the server, whose limits are twice that.
const FAST: Duration = Duration::from_secs(1);

/// What becomes of a connection when its bytes up to the cut are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    /// Nothing more comes: the server's time limits end it.
    Silence,
    HalfClose,
    Close,
    Reset,
}

const ENDINGS: [Ending; 4] = [Ending::Silence, Ending::HalfClose, Ending::Close, Ending::Reset];

/// Marsaglia's xorshift: the same run each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

struct Client {
    stream: TcpStream,
    began: Instant,
    /// It sent everything in time.
    is_fast: bool,
    secret: String,
    bytes: Vec<u8>,
    cut: usize,
    ending: Ending,
    sent: usize,
    /// Bodies of the responses to the requests that are complete at the cut.
    expected: Vec<String>,
    is_complete: bool,
}

/// A request and the body of its response.
fn request(secret: &str, index: usize, is_last: bool, chance: &mut Chance) -> (String, String) {
    let paths = ["plain", "lua", "sub", "proxy", "exec", "static", "discard", "unbuffered", "ctx"];
    let path = paths[chance.below(paths.len())];
    let x = format!("{secret}-x{index}");
    let body = match chance.below(3) {
        0 => String::new(),
        size => format!("{secret}-body{index};").repeat(size * size),
    };
    let mut head = format!("POST /{path}?s={secret}-{index} HTTP/1.1\r\nHost: localhost\r\nX: {x}\r\n");
    if path == "static" || body.is_empty() && chance.below(2) == 0 {
        head = head.replacen("POST", "GET", 1);
    }
    if is_last {
        head += "Connection: close\r\n";
    }
    let body_sent = match chance.below(2) {
        0 => format!("Content-Length: {}\r\n\r\n{body}", body.len()),
        _ => {
            let chunks = body.as_bytes().chunks(17).map(|chunk| {
                format!("{:x}\r\n{}\r\n", chunk.len(), std::str::from_utf8(chunk).expect("letters and digits"))
            });
            format!("Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunks.collect::<String>())
        }
    };
    let response = match path {
        "static" => "static".to_owned(),
        "lua" | "proxy" | "unbuffered" => format!("{secret}-{index}|{x}|{body}"),
        "ctx" => "nil".to_owned(),
        _ => format!("{secret}-{index}|{x}|"),
    };
    (head + &body_sent, response)
}

impl Client {
    fn new(port: u16, number: usize, chance: &mut Chance) -> Self {
        let secret = format!("secret{number:05}");
        let count = 1 + chance.below(3);
        let (mut bytes, mut ends, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..count {
            let (request, response) = request(&secret, index, index + 1 == count, chance);
            bytes.extend_from_slice(request.as_bytes());
            ends.push(bytes.len());
            expected.push(response);
        }
        // Most cuts are somewhere; some are behind everything.
        let cut = if chance.below(3) == 0 { bytes.len() } else { chance.below(bytes.len()) };
        let ending = ENDINGS[chance.below(ENDINGS.len())];
        Self::begin(port, secret, bytes, expected, &ends, cut, ending)
    }

    /// A connection with a single request that is cut there.
    fn cut_one(port: u16, number: usize, cut: usize, ending: Ending) -> Self {
        let secret = format!("secret{number:05}");
        let body = format!("{secret}-body");
        let text = format!(
            "POST /lua?s={secret}-0 HTTP/1.1\r\nHost: localhost\r\nX: {secret}-x0\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let expected = vec![format!("{secret}-0|{secret}-x0|{body}")];
        let ends = [text.len()];
        Self::begin(port, secret, text.into_bytes(), expected, &ends, cut, ending)
    }

    /// Connects. `ends` are those of the requests in `bytes`.
    fn begin(
        port: u16,
        secret: String,
        bytes: Vec<u8>,
        mut expected: Vec<String>,
        ends: &[usize],
        cut: usize,
        ending: Ending,
    ) -> Self {
        expected.truncate(ends.iter().filter(|end| **end <= cut).count());
        let (stream, began, is_complete) = (connect(port).expect("connected"), Instant::now(), cut == bytes.len());
        Self { stream, began, is_fast: false, secret, bytes, cut, ending, sent: 0, expected, is_complete }
    }

    /// Sends the next few bytes; `true` when all up to the cut are sent.
    fn step(&mut self, chance: &mut Chance) -> bool {
        let end = self.cut.min(self.sent + 1 + chance.below(60));
        // A server that has answered and closed takes no more.
        let taken = self.stream.write_all(&self.bytes[self.sent..end]).is_ok();
        self.sent = if taken { end } else { self.cut };
        self.is_fast = taken && self.began.elapsed() < FAST;
        self.sent == self.cut
    }

    /// Ends the connection; `None` when there is nothing to read.
    fn end(self) -> Option<Self> {
        match self.ending {
            Ending::Silence => {}
            // The server may have closed it.
            Ending::HalfClose => drop(self.stream.shutdown(Shutdown::Write)),
            Ending::Close => return None,
            Ending::Reset => {
                let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
                nix::sys::socket::setsockopt(&self.stream, nix::sys::socket::sockopt::Linger, &linger).expect("set");
                return None;
            }
        }
        Some(self)
    }

    /// Reads to the end and compares.
    fn check(mut self) {
        let mut received = Vec::new();
        match self.stream.read_to_end(&mut received) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{}", self.secret),
        }
        let text = String::from_utf8_lossy(&received);
        let sent = String::from_utf8_lossy(&self.bytes[..self.sent]);
        for (at, _) in text.match_indices("secret") {
            let found = &text[at..(at + self.secret.len()).min(text.len())];
            assert_eq!(found, self.secret, "{:?} at {} of\n{sent}\ngot\n{text}", self.ending, self.cut);
        }
        let mut responses = responses(&received);
        if !self.is_complete && responses.len() > self.expected.len() {
            // Of the request that was cut, the client may learn that it came to nothing, or get what needs no body.
            let (status, body) = responses.pop().expect("one too many");
            let known = [200, 400, 408].contains(&status);
            assert!(known, "{:?} at {} of\n{sent}\ngot {status} {body}", self.ending, self.cut);
        }
        let expected: Vec<_> = self.expected.iter().map(|body| (200, body.clone())).collect();
        // A client that half-closes in the middle of a request may lose what is under way.
        let gets_all = self.is_fast && self.ending != Ending::HalfClose;
        let prefix = if gets_all { expected.len() } else { responses.len().min(expected.len()) };
        assert_eq!(responses, expected[..prefix], "{:?} at {} of\n{sent}", self.ending, self.cut);
    }
}

/// Status and body of each response.
fn responses(mut received: &[u8]) -> Vec<(u16, String)> {
    let mut found = Vec::new();
    while !received.is_empty() {
        let end = received.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head") + 4;
        let head = std::str::from_utf8(&received[..end]).expect("text");
        let status = head.strip_prefix("HTTP/1.1 ").expect("a response")[..3].parse().expect("a status");
        let length = head.split("\r\n").find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
        let body = received[end..].get(..length).expect("a whole body");
        found.push((status, String::from_utf8_lossy(body).into_owned()));
        received = &received[end + length..];
    }
    found
}

const SERVER: &str = r#"
    location = /plain { return 200 "$arg_s|$http_x|"; }
    location = /discard { return 200 "$arg_s|$http_x|"; }
    location = /lua {
        content_by_lua_block {
            ngx.req.read_body()
            local body = ngx.var.arg_s .. "|" .. ngx.var.http_x .. "|" .. (ngx.req.get_body_data() or "")
            ngx.header["Content-Length"] = #body
            ngx.print(body)
        }
    }
    location = /ctx {
        content_by_lua_block {
            local body = tostring(ngx.ctx.secret)
            ngx.ctx.secret = ngx.var.arg_s
            ngx.header["Content-Length"] = #body
            ngx.print(body)
        }
    }
    location = /sub {
        content_by_lua_block {
            ngx.ctx.secret = ngx.var.arg_s
            local body = ngx.location.capture("/plain", { args = ngx.var.args, share_all_vars = true }).body
            ngx.header["Content-Length"] = #body
            ngx.print(body)
        }
    }
    location = /exec { content_by_lua_block { ngx.ctx.secret = ngx.var.arg_s ngx.exec("/plain", ngx.var.args) } }
    location = /proxy { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://self/lua?$args; }
    location = /unbuffered {
        proxy_request_buffering off; proxy_buffering off;
        proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://self/lua?$args;
    }
    location = /static { root html; }
"#;

#[test]
fn each_request_gets_its_own_response() {
    let mut site = Site::new("", "");
    let port = site.port;
    site.write_conf(&format!(
        "master_process off; worker_processes 1; error_log logs/error.log error; pid logs/nginx.pid;
         events {{ worker_connections 4096; }}
         http {{
             access_log off;
             client_header_timeout 2s; client_body_timeout 2s; keepalive_timeout 2s; lingering_timeout 2s;
             upstream self {{ server 127.0.0.1:{port}; keepalive 8; }}
             server {{ listen 127.0.0.1:{port}; server_name localhost; {SERVER} }}
         }}"
    ));
    std::fs::write(site.dir.join("html/static"), "static").expect("written");
    site.start();

    let mut chance = Chance(0x5eed_1234_abcd_0001);
    let one_len = Client::cut_one(port, 0, 0, Ending::Close).bytes.len();
    let cuts: Vec<_> = (0..=one_len).flat_map(|cut| ENDINGS.map(|ending| (cut, ending))).collect();
    let total = cuts.len() + RANDOM_COUNT;
    let (mut open, mut silent) = (Vec::new(), Vec::new());
    let mut number = 0;
    while number < total || !open.is_empty() {
        while open.len() < OPEN_MAX && number < total {
            open.push(match cuts.get(number) {
                Some(&(cut, ending)) => Client::cut_one(port, number, cut, ending),
                None => Client::new(port, number, &mut chance),
            });
            number += 1;
        }
        let index = chance.below(open.len());
        if open[index].step(&mut chance)
            && let Some(client) = open.swap_remove(index).end()
        {
            // It is read later: the server goes on with the others meanwhile.
            silent.push(client);
        }
    }
    silent.into_iter().for_each(Client::check);
    assert!(site.get().starts_with("HTTP/1.1 "));
    site.quit();
}
