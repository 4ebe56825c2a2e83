//! Clients of queues: by HTTP, by SQL in a location, and by beanstalkd's protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use serde_json::Value;

use super::{PATIENCE, Site, connect, eventually};

/// A location that runs the statement in its request's body, in the schema `?schema=`, which is that of the queues if nothing is said.
pub(crate) const SQL: &str = r#"
    location = /sql {
        content_by_lua_block {
            ngx.req.read_body()
            local sql = require("tidegate.sql").schema(ngx.var.arg_schema or "tidegate_queue")
            local done, message = sql:query(ngx.req.get_body_data())
            ngx.print(require("cjson").encode(done or message))
        }
    }
"#;

/// Two workers, the schemas of queues and of a shop, a port for beanstalkd's clients in `logs`; `http` and `server` stand in their blocks.
pub(crate) fn configure(site: &Site, http: &str, server: &str) {
    let port = site.port;
    site.write_conf(&format!(
        "worker_processes 2; error_log logs/error.log notice; pid logs/nginx.pid; events {{}}
         database {{ schema shop; schema tidegate_queue; listen unix:logs/jobs.sock beanstalk; }}
         http {{ {http} server {{ listen 127.0.0.1:{port}; server_name localhost; {SQL} {server} }} }}"
    ));
}

/// Starts a site with the configuration that [`configure`] writes.
#[track_caller]
pub(crate) fn started(http: &str, server: &str) -> Site {
    let mut site = Site::new("", "");
    configure(&site, http, server);
    site.start();
    site
}

/// Sends a request on a connection of its own, which the server closes behind the response.
#[track_caller]
pub(crate) fn send(port: u16, method: &str, path: &str, body: &str) -> TcpStream {
    let mut client = connect(port).expect("the server accepts");
    let length = body.len();
    write!(client, "{method} /{path} HTTP/1.0\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}").expect("sent");
    client
}

/// Reads a response: its status, its head and its body.
#[track_caller]
pub(crate) fn whole(mut client: TcpStream) -> (u16, String, String) {
    let mut text = String::new();
    client.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.get(9..12).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.to_owned(), body.to_owned())
}

/// Reads a response: its status and its body.
#[track_caller]
pub(crate) fn text(client: TcpStream) -> (u16, String) {
    let (status, _, body) = whole(client);
    (status, body)
}

/// Reads a response: its status and its body, `Null` if that is no JSON.
#[track_caller]
pub(crate) fn answer(client: TcpStream) -> (u16, Value) {
    let (status, body) = text(client);
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

/// Sends a request and reads the response.
#[track_caller]
pub(crate) fn ask(port: u16, method: &str, path: &str, body: &str) -> (u16, Value) {
    answer(send(port, method, path, body))
}

/// [`ask`] with POST.
#[track_caller]
pub(crate) fn post(port: u16, path: &str, body: &str) -> (u16, Value) {
    ask(port, "POST", path, body)
}

/// How many rows `SELECT COUNT(*) FROM query` counts by [`SQL`]; `None` as long as there is no such table.
#[track_caller]
pub(crate) fn try_count(port: u16, query: &str) -> Option<u64> {
    post(port, "sql", &format!("SELECT COUNT(*) AS n FROM {query}")).1[0]["n"].as_u64()
}

/// [`try_count`] of tables that are there.
#[track_caller]
pub(crate) fn count(port: u16, query: &str) -> u64 {
    try_count(port, query).expect("a number")
}

/// A client of beanstalkd.
pub(crate) struct Jobs(BufReader<UnixStream>);

impl Jobs {
    /// Connects to the port of [`configure`].
    #[track_caller]
    pub(crate) fn connect(site: &Site) -> Self {
        let stream = eventually("the port is open", || UnixStream::connect(site.dir.join("logs/jobs.sock")).ok());
        Self::of(stream)
    }

    /// The client of a connection.
    #[track_caller]
    pub(crate) fn of(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        Self(BufReader::new(stream))
    }

    /// Connects and uses this tube.
    #[track_caller]
    pub(crate) fn using(site: &Site, tube: &str) -> Self {
        let mut client = Self::connect(site);
        assert_eq!(client.tell(format!("use {tube}\r\n").as_bytes()), format!("USING {tube}"));
        client
    }

    /// Sends commands; answers the next line.
    #[track_caller]
    pub(crate) fn tell(&mut self, commands: &[u8]) -> String {
        self.0.get_mut().write_all(commands).expect("sent");
        self.line()
    }

    /// The next so many bytes and the end of their line.
    #[track_caller]
    pub(crate) fn text(&mut self, length: usize) -> String {
        let mut text = vec![0; length + 2];
        self.0.read_exact(&mut text).expect("the text");
        String::from_utf8(text).expect("UTF-8")
    }

    /// The next line.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }
}

/// Ends the server, whose log must not speak of anything that went wrong.
#[track_caller]
pub(crate) fn finish(site: Site) {
    // A worker whose supervisor a test has killed may have noticed that.
    finish_after(site, "the supervisor is gone");
}

/// [`finish`] where the log may say this.
#[track_caller]
pub(crate) fn finish_after(mut site: Site, expected: &str) {
    site.quit();
    let log = site.log();
    let wrong = |line: &&str| ["[alert]", "[crit]", "[error]"].iter().any(|level| line.contains(level));
    let wrong: Vec<&str> = log.lines().filter(wrong).filter(|line| !line.contains(expected)).collect();
    assert_eq!(wrong, [""; 0], "{log}");
}
