//! A client of HTTP/2 that says exactly what a test wants said.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_http::hpack::{Decoder, encode};
use tidegate_http::http2::{FrameHeader, HEADER_BYTES, PREFACE, flag, kind, setting, write_block, write_frame};

/// A frame of the server.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) header: FrameHeader,
    pub(crate) payload: Vec<u8>,
}

/// What came on a stream until its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Fields of the head, one to a line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: String,
    /// The code that the stream was reset with.
    pub(crate) reset: Option<u32>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

/// A connection.
pub(crate) struct Client<S> {
    pub(crate) socket: S,
    received: Vec<u8>,
    decoder: Decoder,
    /// Frames that were read while another was looked for.
    passed: Vec<Frame>,
}

impl Client<TcpStream> {
    /// Connects and says the preface.
    pub(crate) fn new(port: u16) -> Self {
        let socket = super::connect(port).expect("the server accepts");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        Self::over(socket, &[])
    }
    /// With settings of the client.
    pub(crate) fn with_settings(port: u16, settings: &[(u16, u32)]) -> Self {
        let socket = super::connect(port).expect("the server accepts");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        Self::over(socket, settings)
    }
}

impl<S: Read + Write> Client<S> {
    /// Speaks over `socket`, where the server is about to listen to HTTP/2.
    pub(crate) fn over(socket: S, settings: &[(u16, u32)]) -> Self {
        let mut client = Client { socket, received: Vec::new(), decoder: Decoder::default(), passed: Vec::new() };
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        let mut out = PREFACE.to_vec();
        write_frame(kind::SETTINGS, 0, 0, &payload, &mut out);
        client.send_bytes(&out);
        client
    }

    #[track_caller]
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("sent");
    }
    /// As [`Self::send_bytes`]; `false` if the server has closed.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }
    #[track_caller]
    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut out = Vec::new();
        write_frame(kind, flags, stream, payload, &mut out);
        self.send_bytes(&out);
    }

    /// Sends a request without a body.
    pub(crate) fn get(&mut self, stream: u32, path: &str) {
        self.send_bytes(&head(stream, "GET", path, &[], true));
    }
    /// Sends a request with a body that fits the window.
    pub(crate) fn post(&mut self, stream: u32, path: &str, body: &[u8]) {
        self.send_bytes(&head(stream, "POST", path, &[], false));
        self.send(kind::DATA, flag::END_STREAM, stream, body);
    }

    /// The next frame; `None` when the server has closed.
    #[track_caller]
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(header) = FrameHeader::parse(&self.received)
                && self.received.len() >= HEADER_BYTES + header.len
            {
                let rest = self.received.split_off(HEADER_BYTES + header.len);
                let payload = std::mem::replace(&mut self.received, rest).split_off(HEADER_BYTES);
                return Some(Frame { header, payload });
            }
            let mut piece = [0; 16384];
            match self.socket.read(&mut piece) {
                Ok(0) => return None,
                Ok(count) => self.received.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing comes: {error}"),
            }
        }
    }
    /// The next frame of that kind; those before it stay for others.
    #[track_caller]
    pub(crate) fn frame_of(&mut self, kind: u8) -> Option<Frame> {
        if let Some(at) = self.passed.iter().position(|frame| frame.header.kind == kind) {
            return Some(self.passed.remove(at));
        }
        loop {
            let frame = self.frame()?;
            if frame.header.kind == kind {
                return Some(frame);
            }
            self.passed.push(frame);
        }
    }

    /// What comes on a stream until its end; frames of others stay for them.
    #[track_caller]
    pub(crate) fn answer(&mut self, stream: u32) -> Answer {
        let mut answer = Answer::default();
        let mut early = std::mem::take(&mut self.passed).into_iter();
        loop {
            let frame = early.next().unwrap_or_else(|| self.frame().expect("the answer ends before the connection"));
            if frame.header.stream != stream {
                self.passed.push(frame);
                continue;
            }
            match frame.header.kind {
                kind::DATA => answer.body.extend_from_slice(&frame.payload),
                kind::RST_STREAM => answer.reset = Some(code(&frame.payload)),
                kind::HEADERS => {
                    let mut shown = String::new();
                    let show = |name: &[u8], value: &[u8]| {
                        shown += &format!("{}: {}\n", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
                    };
                    self.decoder.decode(&frame.payload, show).expect("a header block");
                    *(if answer.head.is_empty() { &mut answer.head } else { &mut answer.trailers }) = shown;
                }
                _ => {}
            }
            let ends = matches!(frame.header.kind, kind::DATA | kind::HEADERS) && frame.header.has(flag::END_STREAM);
            if ends || answer.reset.is_some() {
                self.passed.extend(early);
                return answer;
            }
        }
    }
    /// The stream of the next reset, and its code.
    #[track_caller]
    pub(crate) fn reset(&mut self) -> (u32, u32) {
        let frame = self.frame_of(kind::RST_STREAM).expect("a reset");
        (frame.header.stream, code(&frame.payload))
    }
    /// The last stream that the next GOAWAY names, and its code.
    #[track_caller]
    pub(crate) fn farewell(&mut self) -> (u32, u32) {
        let frame = self.frame_of(kind::GOAWAY).expect("a farewell");
        (code(&frame.payload), code(&frame.payload[4..]))
    }
    /// Reads to the end; answers the code of the GOAWAY before it.
    #[track_caller]
    pub(crate) fn goaway(&mut self) -> u32 {
        let frame = self.frame_of(kind::GOAWAY).expect("a farewell");
        code(&frame.payload[4..])
    }
}

/// The first number of a payload.
fn code(payload: &[u8]) -> u32 {
    u32::from_be_bytes(*payload.first_chunk().expect("a number"))
}

/// A header block frame of a request.
pub(crate) fn head(stream: u32, method: &str, path: &str, more: &[(&str, &str)], ends: bool) -> Vec<u8> {
    let mut block = Vec::new();
    let pseudo = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost")];
    for (name, value) in pseudo.iter().chain(more) {
        encode::field(name.as_bytes(), value.as_bytes(), &mut block);
    }
    let mut out = Vec::new();
    write_block(stream, ends, &block, &mut out);
    out
}

/// A setting of a client that takes nothing before it gives leave.
pub(crate) const NO_WINDOW: (u16, u32) = (setting::INITIAL_WINDOW_SIZE, 0);
