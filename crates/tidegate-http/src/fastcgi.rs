//! FastCGI, as a web server speaks it to an application: records out, records in.
//!
//! ```text
//! 0         1      2 - 3        4 - 5            6                7          8
//! version   type   request id   content length   padding length   reserved   content, padding
//! ```
//!
//! One connection carries one request at a time, so every record has the same request id; a record of another request is
//! refused. What an application sends beside that is met by [`RecordDecoder`], which keeps its place between pieces of any
//! size.
//!
//! Source: FastCGI Specification 1.0, sections 3 to 6; messages of errors are nginx's.

use std::ops::Range;

/// Size of a record's header.
pub const HEADER_BYTES: usize = 8;

/// Most content of one record.
pub const CONTENT_BYTES_MAX: usize = 65_535;

/// Content of a record when there is more than fits: the largest that needs no padding.
const FULL_CONTENT_BYTES: usize = 65_528;

const VERSION: u8 = 1;
const REQUEST_ID: u16 = 1;
const RESPONDER: u8 = 1;
const KEEP_CONN: u8 = 1;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// The connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRequest {
    /// The application closes it.
    Close,
    /// It serves another request.
    Keep,
}

/// Appends the record that begins a request.
pub fn write_begin_request(after: AfterRequest, out: &mut Vec<u8>) {
    write_header(BEGIN_REQUEST, 8, 0, out);
    let flags = if after == AfterRequest::Keep { KEEP_CONN } else { 0 };
    out.extend_from_slice(&[0, RESPONDER, flags, 0, 0, 0, 0, 0]);
}

/// Appends the parameters that `write` appends with [`write_param`], and the record that ends them.
///
/// Parameters are one stream, so that those that do not fit into one record go on in the next.
pub fn write_params<T>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let header = out.len();
    write_header(PARAMS, 0, 0, out);
    let start = out.len();
    let written = write(out);
    let content_bytes = out.len() - start;
    if content_bytes > CONTENT_BYTES_MAX {
        let content = out.split_off(start);
        out.truncate(header);
        write_stream(PARAMS, &content, out);
    } else if content_bytes == 0 {
        out.truncate(header);
    } else {
        let padding = padding_of(content_bytes);
        let length = u16::try_from(content_bytes).unwrap_or(u16::MAX).to_be_bytes();
        out[header + 4..header + 7].copy_from_slice(&[length[0], length[1], padding as u8]);
        out.resize(out.len() + padding, 0);
    }
    write_header(PARAMS, 0, 0, out);
    written
}

/// Appends one parameter; `write` appends its value. Gives the size of the value.
///
/// A length of 127 and less takes one byte, a longer one four.
pub fn write_param(name: &[u8], out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    write_length(name.len(), out);
    let length_at = out.len();
    // Most values are short; a long one is moved by three bytes.
    out.push(0);
    out.extend_from_slice(name);
    let start = out.len();
    write(out);
    let value_bytes = out.len() - start;
    match u8::try_from(value_bytes) {
        Ok(short @ 0..=127) => out[length_at] = short,
        _ => drop(out.splice(length_at..=length_at, long_length(value_bytes))),
    }
    value_bytes
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    match u8::try_from(length) {
        Ok(short @ 0..=127) => out.push(short),
        _ => out.extend_from_slice(&long_length(length)),
    }
}

fn long_length(length: usize) -> [u8; 4] {
    (u32::try_from(length).unwrap_or(u32::MAX) | 1 << 31).to_be_bytes()
}

/// Appends a piece of the request's body; `last` ends it.
pub fn write_stdin(piece: &[u8], last: bool, out: &mut Vec<u8>) {
    write_stream(STDIN, piece, out);
    if last {
        write_header(STDIN, 0, 0, out);
    }
}

fn write_stream(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    for content in content.chunks(FULL_CONTENT_BYTES) {
        let padding = padding_of(content.len());
        write_header(kind, content.len(), padding, out);
        out.extend_from_slice(content);
        out.resize(out.len() + padding, 0);
    }
}

/// Bytes that bring a record to a multiple of eight, as the specification recommends.
fn padding_of(content_bytes: usize) -> usize {
    content_bytes.wrapping_neg() % 8
}

fn write_header(kind: u8, content_bytes: usize, padding: usize, out: &mut Vec<u8>) {
    let [id_high, id_low] = REQUEST_ID.to_be_bytes();
    let [high, low] = u16::try_from(content_bytes).unwrap_or(u16::MAX).to_be_bytes();
    out.extend_from_slice(&[VERSION, kind, id_high, id_low, high, low, padding as u8, 0]);
}

/// Why a record is none of the request's. The connection cannot be used further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// Another version.
    #[error("upstream sent unsupported FastCGI protocol version: {0}")]
    Version(u8),
    /// A type that no application sends.
    #[error("upstream sent invalid FastCGI record type: {0}")]
    Type(u8),
    /// Another request's; the high byte of its number.
    #[error("upstream sent unexpected FastCGI request id high byte: {0}")]
    IdHigh(u8),
    /// Another request's; the low byte of its number.
    #[error("upstream sent unexpected FastCGI request id low byte: {0}")]
    IdLow(u8),
}

/// What a piece of input brings first. Positions are those of the piece; the next call gets what is behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordPart {
    /// A part of the answer.
    Stdout(Range<usize>),
    /// A part of what goes to the log.
    Stderr(Range<usize>),
    /// The application has closed the stream of its answer; so many bytes are used.
    StdoutEnd(usize),
    /// The request is over; so many bytes are used. The same again for any further input.
    End(usize),
    /// The whole piece is used.
    Partial,
}

/// Finds the streams of an answer in records that come in pieces.
#[derive(Clone, Debug, Default)]
pub struct RecordDecoder {
    state: State,
    kind: Kind,
    /// Bytes of the header that have come.
    header_bytes: u8,
    content_left: u16,
    padding_left: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Header,
    Content,
    Padding,
    Done,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Stdout,
    Stderr,
    EndRequest,
}

impl RecordDecoder {
    /// Reads on in `input`.
    ///
    /// # Errors
    /// [`BadRecord`], as soon as the byte is there that tells.
    pub fn decode(&mut self, input: &[u8]) -> Result<RecordPart, BadRecord> {
        let mut at = 0;
        loop {
            match self.state {
                State::Header => {
                    let Some(&byte) = input.get(at) else { return Ok(RecordPart::Partial) };
                    at += 1;
                    self.take_header_byte(byte)?;
                    if self.header_bytes == 0 && self.kind == Kind::Stdout && self.content_left == 0 {
                        return Ok(RecordPart::StdoutEnd(at));
                    }
                }
                State::Content => {
                    let end = input.len().min(at + usize::from(self.content_left));
                    let content = at..end;
                    self.content_left -= (end - at) as u16;
                    at = end;
                    if self.content_left == 0 {
                        self.state = State::Padding;
                    }
                    match self.kind {
                        _ if content.is_empty() && self.state == State::Content => return Ok(RecordPart::Partial),
                        Kind::Stdout if !content.is_empty() => return Ok(RecordPart::Stdout(content)),
                        Kind::Stderr if !content.is_empty() => return Ok(RecordPart::Stderr(content)),
                        _ => {}
                    }
                }
                State::Padding => {
                    let skipped = usize::from(self.padding_left).min(input.len() - at);
                    self.padding_left -= skipped as u8;
                    at += skipped;
                    if self.padding_left > 0 {
                        return Ok(RecordPart::Partial);
                    }
                    self.state = if self.kind == Kind::EndRequest { State::Done } else { State::Header };
                }
                State::Done => return Ok(RecordPart::End(at)),
            }
        }
    }

    fn take_header_byte(&mut self, byte: u8) -> Result<(), BadRecord> {
        let [id_high, id_low] = REQUEST_ID.to_be_bytes();
        match self.header_bytes {
            0 if byte != VERSION => return Err(BadRecord::Version(byte)),
            1 => {
                self.kind = match byte {
                    STDOUT => Kind::Stdout,
                    STDERR => Kind::Stderr,
                    END_REQUEST => Kind::EndRequest,
                    _ => return Err(BadRecord::Type(byte)),
                };
            }
            2 if byte != id_high => return Err(BadRecord::IdHigh(byte)),
            3 if byte != id_low => return Err(BadRecord::IdLow(byte)),
            4 => self.content_left = u16::from(byte) << 8,
            5 => self.content_left |= u16::from(byte),
            6 => self.padding_left = byte,
            7 => {
                self.header_bytes = 0;
                self.state = State::Content;
                return Ok(());
            }
            _ => {}
        }
        self.header_bytes += 1;
        Ok(())
    }

    /// Takes the last `count` bytes of the part that came last for unread.
    pub fn put_back(&mut self, count: usize) {
        if count > 0 {
            self.content_left += u16::try_from(count).expect("a part is at most as long as its record");
            self.state = State::Content;
        }
    }

    /// Whether no record is half read.
    pub fn is_between_records(&self) -> bool {
        match self.state {
            State::Header => self.header_bytes == 0,
            State::Content => false,
            State::Padding => self.padding_left == 0,
            State::Done => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
        let mut out = Vec::new();
        write_header(kind, content.len(), padding, &mut out);
        out.extend_from_slice(content);
        out.resize(out.len() + padding, 0);
        out
    }

    /// What comes of input in pieces: streams and events as text.
    fn decode(pieces: &[&[u8]]) -> String {
        let (mut decoder, mut text, mut stream) = (RecordDecoder::default(), String::new(), ' ');
        for piece in pieces {
            let mut at = 0;
            loop {
                let (name, content) = match decoder.decode(&piece[at..]) {
                    Ok(RecordPart::Partial) => break,
                    Ok(RecordPart::Stdout(part)) => ('o', part),
                    Ok(RecordPart::Stderr(part)) => ('e', part),
                    Ok(RecordPart::StdoutEnd(used)) => {
                        text.push('|');
                        at += used;
                        continue;
                    }
                    Ok(RecordPart::End(used)) => return format!("{text}. {}", piece.len() - at - used),
                    Err(error) => return format!("{text}! {error}"),
                };
                if name != stream {
                    stream = name;
                    text.push(name);
                }
                text.push_str(&String::from_utf8_lossy(&piece[at..][content.clone()]));
                at += content.end;
            }
        }
        text
    }

    #[track_caller]
    fn check(input: &[u8], expected: &str) {
        for cut in 0..=input.len() {
            assert_eq!(decode(&[&input[..cut], &input[cut..]]), expected, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(decode(&bytes), expected, "byte by byte");
    }

    #[test]
    fn reads_records() {
        check(&[record(STDOUT, b"ab", 6), record(STDOUT, b"c", 0)].concat(), "oabc");
        check(&[record(STDERR, b"x", 1), record(STDERR, b"", 3), record(STDOUT, b"a", 255)].concat(), "exoa");
        check(&[record(STDOUT, b"a", 0), record(STDOUT, b"", 2), record(END_REQUEST, &[0; 8], 3)].concat(), "oa|. 0");
        check(&record(END_REQUEST, b"", 0), ". 0");
    }

    #[test]
    fn refuses_records_of_others() {
        check(&[2], "! upstream sent unsupported FastCGI protocol version: 2");
        check(&[1, 4], "! upstream sent invalid FastCGI record type: 4");
        check(&[1, 6, 1], "! upstream sent unexpected FastCGI request id high byte: 1");
        check(&[1, 6, 0, 2], "! upstream sent unexpected FastCGI request id low byte: 2");
        check(
            &[record(STDOUT, b"a", 0), vec![b'H']].concat(),
            "oa! upstream sent unsupported FastCGI protocol version: 72",
        );
    }

    #[test]
    fn what_is_put_back_comes_again() {
        let input = [record(STDOUT, b"head|body", 7), record(STDOUT, b"more", 4)].concat();
        let mut decoder = RecordDecoder::default();
        assert_eq!(decoder.decode(&input), Ok(RecordPart::Stdout(8..17)));
        decoder.put_back(4);
        assert_eq!(decoder.decode(&input[13..]), Ok(RecordPart::Stdout(0..4)));
        assert_eq!(decoder.decode(&input[17..]), Ok(RecordPart::Stdout(15..19)));
    }

    #[test]
    fn writes_requests() {
        let mut out = Vec::new();
        write_begin_request(AfterRequest::Keep, &mut out);
        assert_eq!(out, [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
        out.clear();
        write_params(&mut out, |out| write_param(b"A", out, |out| out.extend_from_slice(b"bc")));
        assert_eq!(
            out,
            [&[1, 4, 0, 1, 0, 5, 3, 0, 1, 2, b'A', b'b', b'c', 0, 0, 0][..], &[1, 4, 0, 1, 0, 0, 0, 0]].concat()
        );
        out.clear();
        write_params(&mut out, |_| {});
        assert_eq!(out, [1, 4, 0, 1, 0, 0, 0, 0]);
        out.clear();
        write_stdin(b"x", true, &mut out);
        assert_eq!(out, [&[1, 5, 0, 1, 0, 1, 7, 0, b'x', 0, 0, 0, 0, 0, 0, 0][..], &[1, 5, 0, 1, 0, 0, 0, 0]].concat());
    }

    #[test]
    fn long_names_and_values_have_long_lengths() {
        let (mut out, long) = (Vec::new(), [b'v'; 128]);
        assert_eq!(write_param(&[b'n'; 127], &mut out, |out| out.extend_from_slice(&long)), 128);
        assert_eq!(out[..5], [127, 0x80, 0, 0, 128]);
        assert_eq!((out.len(), &out[5..7], &out[131..133]), (5 + 127 + 128, &b"nn"[..], &b"nv"[..]));
        out.clear();
        assert_eq!(write_param(&[b'n'; 300], &mut out, |out| out.push(b'v')), 1);
        assert_eq!((&out[..5], out.len()), (&[0x80, 0, 1, 44, 1][..], 5 + 300 + 1));
    }

    #[test]
    fn many_params_take_several_records() {
        let mut out = Vec::new();
        write_params(&mut out, |out| write_param(b"A", out, |out| out.resize(out.len() + 70_000, b'x')));
        let second = HEADER_BYTES + FULL_CONTENT_BYTES;
        assert_eq!(out[..8], [1, 4, 0, 1, 0xff, 0xf8, 0, 0]);
        assert_eq!(out[second..second + 4], [1, 4, 0, 1]);
        let rest = 70_006 - FULL_CONTENT_BYTES;
        assert_eq!(usize::from(u16::from_be_bytes([out[second + 4], out[second + 5]])), rest);
        assert!(out.ends_with(&[1, 4, 0, 1, 0, 0, 0, 0]));
        assert_eq!(out.len(), second + HEADER_BYTES + rest + padding_of(rest) + HEADER_BYTES);
    }
}
