//! A client of MySQL's protocol that says exactly what a test wants it to say.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use tidegate_mysql::handshake::{Greeting, Response, capability};
use tidegate_mysql::packet::put_packet;
use tidegate_mysql::wire::Reader;
use tidegate_mysql::{answer, auth};

use super::PATIENCE;

pub(crate) const CAPABILITIES: u32 = capability::LONG_PASSWORD
    | capability::PROTOCOL_41
    | capability::SECURE_CONNECTION
    | capability::PLUGIN_AUTH
    | capability::CONNECT_WITH_DB
    | capability::MULTI_STATEMENTS
    | capability::MULTI_RESULTS
    | capability::PLUGIN_AUTH_LENENC_CLIENT_DATA
    | capability::DEPRECATE_EOF;

/// A connection, and the number of the next packet.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) sequence: u8,
    pub(crate) greeting: Greeting,
}

impl Client {
    /// A connection that has been greeted.
    pub(crate) fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        Self::of(stream)
    }

    /// One of a socket that is connected.
    pub(crate) fn of(stream: TcpStream) -> Self {
        let nobody =
            Greeting::read(b"\x0a5\0\0\0\0\0abcdefgh\0\0\x82\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").expect("a greeting");
        let mut client = Client { stream, sequence: 0, greeting: nobody };
        client.greeting = Greeting::read(&client.read().expect("a greeting")).expect("a greeting");
        client
    }

    /// One that has logged in as this user, with a schema.
    pub(crate) fn log_in(port: u16, user: &str, password: &str, schema: &str) -> Self {
        let mut client = Self::connect(port);
        let response = client.response(user, password, schema);
        client.send(&response);
        let answer = client.read().expect("an answer");
        assert_eq!(answer[0], answer::OK, "{}", answer::error(&answer));
        client
    }

    /// The response to the greeting.
    pub(crate) fn response(&self, user: &str, password: &str, schema: &str) -> Vec<u8> {
        let response = Response {
            capabilities: CAPABILITIES,
            extensions: 0,
            collation: 45,
            user: user.into(),
            proof: auth::native(password.as_bytes(), &self.greeting.nonce),
            schema: schema.into(),
            plugin: b"mysql_native_password".to_vec(),
            attributes: Vec::new(),
            zstd_level: 0,
        };
        let mut out = Vec::new();
        response.put(&mut out);
        out
    }

    /// The next packet; `None` when the server has closed the connection.
    pub(crate) fn read(&mut self) -> Option<Vec<u8>> {
        let mut head = [0; 4];
        match self.stream.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
                return None;
            }
            Err(error) => panic!("no packet: {error}"),
        }
        assert_eq!(head[3], self.sequence, "the number of a packet");
        self.sequence = self.sequence.wrapping_add(1);
        let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.stream.read_exact(&mut payload).expect("a payload");
        Some(payload)
    }

    /// Sends a packet with the next number. A server that has left takes nothing; the answer tells.
    pub(crate) fn send(&mut self, payload: &[u8]) {
        let mut out = Vec::new();
        put_packet(&mut out, &mut self.sequence, &[payload]);
        let _ = self.stream.write_all(&out);
    }

    /// Sends a command.
    pub(crate) fn command(&mut self, code: u8, rest: &[u8]) {
        self.sequence = 0;
        self.send(&[&[code], rest].concat());
    }

    /// The answer to a command without rows: what the OK packet says, or the number of the error.
    pub(crate) fn outcome(&mut self) -> Result<u64, u16> {
        let packet = self.read().expect("an answer");
        match packet[0] {
            answer::OK | answer::EOF => Ok(answer::ok(&packet).expect("OK").affected_rows),
            _ => Err(answer::error(&packet).code),
        }
    }

    /// Runs a text, and gives the rows of its last result with `|` and `;` in between.
    pub(crate) fn query(&mut self, sql: &str) -> Result<String, u16> {
        self.command(3, sql.as_bytes());
        self.results()
    }

    /// Reads all results of a text, and gives the rows of the last one.
    pub(crate) fn results(&mut self) -> Result<String, u16> {
        loop {
            let packet = self.read().expect("an answer");
            let (summary, rows) = match packet[0] {
                answer::ERR => return Err(answer::error(&packet).code),
                answer::OK => (answer::ok(&packet).expect("OK"), String::new()),
                columns => self.rows(usize::from(columns))?,
            };
            if !summary.more_results {
                return Ok(rows);
            }
        }
    }

    fn rows(&mut self, columns: usize) -> Result<(tidegate_rows::Summary, String), u16> {
        for _ in 0..columns {
            let packet = self.read().expect("a column");
            answer::column(&packet).expect("a column");
        }
        let mut rows = Vec::new();
        loop {
            let packet = self.read().expect("a row");
            match packet[0] {
                answer::ERR => return Err(answer::error(&packet).code),
                answer::EOF => return Ok((answer::end_of_rows(&packet, true).expect("the end"), rows.join(";"))),
                _ => {}
            }
            let mut reader = Reader(&packet);
            let mut values = Vec::new();
            for _ in 0..columns {
                if reader.rest().first() == Some(&tidegate_mysql::wire::NULL) {
                    reader.u8().expect("a byte");
                    values.push("NULL".to_owned());
                } else {
                    values.push(String::from_utf8_lossy(reader.lenenc_bytes().expect("a value")).into_owned());
                }
            }
            rows.push(values.join("|"));
        }
    }
}
