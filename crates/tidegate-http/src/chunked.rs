//! The chunked transfer coding, in both directions.
//!
//! ```text
//! 1a;ext=1 CR LF          size in hex, extensions
//! <26 bytes> CR LF        data
//! 0 CR LF                 last chunk
//! Name: value CR LF       trailer fields
//! CR LF
//! ```
//!
//! Stricter than nginx before 1.29: lines end with CR LF only, and what follows the size is white space or an extension.
//! What two servers could read differently is refused, not guessed.

use crate::field_line::{FieldLine, parse_field_line};
use crate::fields::Fields;

/// The most bytes of one chunk-size line, with extensions: nobody needs any, and they cost the reader time.
pub const CHUNK_LINE_BYTES_MAX: u32 = 4096;

/// The most bytes of all trailer fields together: as much as one large header buffer.
pub const TRAILER_BYTES_MAX: usize = 8192;

/// A body that is not validly chunked. The connection cannot be used further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadChunk {
    /// A chunk size that is no hex number, or over 63 bits.
    #[error("invalid chunk size")]
    Size,
    /// A chunk-size line of more than [`CHUNK_LINE_BYTES_MAX`].
    #[error("too long chunk extension")]
    LineTooLong,
    /// Something else than CR LF at the end of a line or of a chunk's data, or a control character in a line.
    #[error("invalid chunk delimiter")]
    Delimiter,
    /// A trailer line that is no header field.
    #[error("invalid trailer field")]
    Trailer,
    /// Trailers of more than [`TRAILER_BYTES_MAX`].
    #[error("too large trailer")]
    TrailerTooLarge,
}

/// Decodes a chunked body from pieces of any size.
#[derive(Clone, Debug, Default)]
pub struct ChunkedDecoder {
    state: State,
    /// Bytes of the chunk that are still to come; while its line is read, the size so far.
    size: u64,
    /// Bytes of the current chunk-size line.
    line_bytes: u32,
    /// The trailer section so far, from its first line to the empty line.
    trailer: Vec<u8>,
    trailers: Fields,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the first digit of a size.
    #[default]
    Start,
    Size,
    /// After white space behind the size.
    Padding,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// In the trailer section; whether the last byte ended a line is seen in `trailer`.
    Trailer,
    Done,
}

/// The content of a piece of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyPart {
    /// Content: the bytes from `start` to `end` of the piece; continue behind `end`.
    Data {
        /// First byte of the content.
        start: usize,
        /// First byte behind it.
        end: usize,
    },
    /// The piece is used up and the body is not complete.
    Partial,
    /// The body is complete; what follows this many bytes of the piece does not belong to it.
    End(usize),
}

impl ChunkedDecoder {
    /// A decoder at the start of a body.
    pub fn new() -> ChunkedDecoder {
        ChunkedDecoder::default()
    }

    /// Back to the start of a body; keeps the memory.
    pub fn reset(&mut self) {
        self.state = State::Start;
        self.size = 0;
        self.line_bytes = 0;
        self.trailer.clear();
        self.trailers.clear();
    }

    /// The fields behind the last chunk, complete after [`BodyPart::End`].
    pub fn trailers(&self) -> &Fields {
        &self.trailers
    }

    /// Content that the chunk under way still announces.
    pub fn left_in_chunk(&self) -> u64 {
        if self.state == State::Data { self.size } else { 0 }
    }

    /// Whether the body is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads on in `input`, up to the next content, the end of the body or the end of the piece.
    ///
    /// # Errors
    /// [`BadChunk`]; the decoder is then not to be used before [`ChunkedDecoder::reset`].
    pub fn decode(&mut self, input: &[u8]) -> Result<BodyPart, BadChunk> {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            match self.state {
                State::Data => {
                    let len = usize::try_from(self.size).map_or(input.len() - at, |size| size.min(input.len() - at));
                    self.size -= len as u64;
                    if self.size == 0 {
                        self.state = State::DataCr;
                    }
                    return Ok(BodyPart::Data { start: at, end: at + len });
                }
                State::Trailer => return self.read_trailer(input, at),
                State::Done => return Ok(BodyPart::End(at)),
                _ => self.step(byte)?,
            }
            at += 1;
        }
        Ok(if self.state == State::Done { BodyPart::End(at) } else { BodyPart::Partial })
    }

    /// Takes one byte outside content and trailers.
    fn step(&mut self, byte: u8) -> Result<(), BadChunk> {
        self.state = match (self.state, byte) {
            (State::Start, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                (self.size, self.line_bytes) = (0, 0);
                self.add_digit(byte)?;
                State::Size
            }
            (State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.add_digit(byte)?;
                State::Size
            }
            (State::Size | State::Padding, b' ' | b'\t') => State::Padding,
            (State::Size | State::Padding, b';') => State::Extension,
            (State::Size | State::Padding | State::Extension, b'\r') => State::SizeLf,
            (State::Start | State::Size, _) => return Err(BadChunk::Size),
            (State::Extension, b'\t' | b' '..=0x7e | 0x80..=0xff) => State::Extension,
            (State::SizeLf, b'\n') if self.size == 0 => State::Trailer,
            (State::SizeLf, b'\n') => State::Data,
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Start,
            _ => return Err(BadChunk::Delimiter),
        };
        self.line_bytes += 1;
        if self.line_bytes > CHUNK_LINE_BYTES_MAX {
            return Err(BadChunk::LineTooLong);
        }
        Ok(())
    }

    fn add_digit(&mut self, byte: u8) -> Result<(), BadChunk> {
        let digit = crate::escape::hex_digit(byte).ok_or(BadChunk::Size)?;
        if self.size > i64::MAX as u64 >> 4 {
            return Err(BadChunk::Size);
        }
        self.size = self.size << 4 | u64::from(digit);
        Ok(())
    }

    /// Collects the trailer section line by line and reads its fields when it is complete.
    fn read_trailer(&mut self, input: &[u8], from: usize) -> Result<BodyPart, BadChunk> {
        let mut at = from;
        loop {
            let rest = &input[at..];
            let newline = memchr::memchr(b'\n', rest);
            let taken = newline.map_or(rest.len(), |newline| newline + 1);
            if self.trailer.len() + taken > TRAILER_BYTES_MAX {
                return Err(BadChunk::TrailerTooLarge);
            }
            self.trailer.extend_from_slice(&rest[..taken]);
            at += taken;
            // A line that begins with CR can only be the empty one.
            let before = self.trailer.strip_suffix(b"\n").unwrap_or(&self.trailer);
            let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            if line.len() > 1 && line[0] == b'\r' {
                return Err(BadChunk::Trailer);
            }
            if newline.is_none() {
                return Ok(BodyPart::Partial);
            }
            if !self.trailer.ends_with(b"\r\n") {
                return Err(BadChunk::Delimiter);
            }
            if self.trailer.len() == 2 || self.trailer.ends_with(b"\r\n\r\n") {
                break;
            }
        }
        self.parse_trailer()?;
        self.state = State::Done;
        Ok(BodyPart::End(at))
    }

    fn parse_trailer(&mut self) -> Result<(), BadChunk> {
        let mut at = 0;
        loop {
            match parse_field_line(&self.trailer, at, true) {
                FieldLine::Field { name, value, next, odd_name: false } => {
                    self.trailers.append(name.of(&self.trailer), value.of(&self.trailer));
                    at = next;
                }
                FieldLine::End(_) => return Ok(()),
                _ => return Err(BadChunk::Trailer),
            }
        }
    }

    /// At least so many bytes must still come; what is read beyond them may belong to the next message.
    pub fn bytes_needed(&self) -> u64 {
        /// CR LF, `0` CR LF, CR LF behind the data of a chunk.
        const AFTER_DATA: u64 = 7;
        match self.state {
            State::Start => 5,
            State::Size | State::Padding | State::Extension if self.size == 0 => 4,
            State::Size | State::Padding | State::Extension => 2 + self.size + AFTER_DATA,
            State::SizeLf if self.size == 0 => 3,
            State::SizeLf => 1 + self.size + AFTER_DATA,
            State::Data => self.size + AFTER_DATA,
            State::DataCr => AFTER_DATA,
            State::DataLf => AFTER_DATA - 1,
            State::Trailer if self.trailer.is_empty() || self.trailer.ends_with(b"\r\n") => 2,
            State::Trailer if self.trailer == b"\r" || self.trailer.ends_with(b"\r\n\r") => 1,
            State::Trailer if self.trailer.ends_with(b"\r") => 3,
            State::Trailer => 4,
            State::Done => 0,
        }
    }
}

/// A chunk-size line, e.g. `1a\r\n`.
#[derive(Clone, Copy, Debug)]
pub struct ChunkHeader {
    bytes: [u8; 18],
    start: u8,
}

impl ChunkHeader {
    /// The line for a chunk of this size, which must not be 0: that would end the body.
    pub fn new(size: u64) -> ChunkHeader {
        let mut header = ChunkHeader { bytes: *b"0000000000000000\r\n", start: 16 };
        let mut rest = size;
        while rest > 0 {
            header.start -= 1;
            header.bytes[usize::from(header.start)] = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
        }
        header
    }
}

impl AsRef<[u8]> for ChunkHeader {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }
}

/// What follows the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The end of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends `data` as one chunk; nothing for no data.
pub fn write_chunk(data: &[u8], out: &mut Vec<u8>) {
    if !data.is_empty() {
        out.extend_from_slice(ChunkHeader::new(data.len() as u64).as_ref());
        out.extend_from_slice(data);
        out.extend_from_slice(CHUNK_END);
    }
}

/// Appends the end of a body with these trailers.
pub fn write_last_chunk(trailers: &Fields, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    crate::response::write_fields(trailers, out);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes pieces of `step` bytes; content, trailers and what is left, or the error.
    fn decode(input: &[u8], step: usize) -> Result<String, BadChunk> {
        let mut decoder = ChunkedDecoder::new();
        let mut content = Vec::new();
        for (i, piece) in input.chunks(step).enumerate() {
            let mut at = 0;
            loop {
                let needed = decoder.bytes_needed();
                match decoder.decode(&piece[at..])? {
                    BodyPart::Data { start, end } => {
                        content.extend_from_slice(&piece[at + start..at + end]);
                        at += end;
                    }
                    BodyPart::Partial => {
                        assert!(decoder.bytes_needed() > 0);
                        break;
                    }
                    BodyPart::End(used) => {
                        assert!(used as u64 >= needed);
                        let mut text = String::from_utf8_lossy(&content).into_owned();
                        for (name, value, _) in decoder.trailers().iter() {
                            text += &format!("|{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
                        }
                        let left = input.len() - (i * step + at + used);
                        return Ok(format!("{text}+{left}"));
                    }
                }
            }
        }
        Ok(String::from_utf8_lossy(&content).into_owned() + " partial")
    }

    #[test]
    fn decodes() {
        #[track_caller]
        fn check(input: &str, expected: Result<&str, BadChunk>) {
            for step in 1..=input.len().max(1) {
                let found = decode(input.as_bytes(), step);
                assert_eq!(found.as_deref(), expected.as_ref().copied(), "{input:?} step {step}");
            }
        }
        check("3\r\nabc\r\n0\r\n\r\nGET", Ok("abc+3"));
        check("0\r\n\r\n", Ok("+0"));
        check("A;x=\"y\"\r\n0123456789\r\n1 \t;q\r\nx\r\n000 \r\n\r\n", Ok("0123456789x+0"));
        check("1\r\na\r\n0;e\r\nX: 1\r\nY_z:2 \r\n\r\nrest", Ok("a|X=1|Y_z=2+4"));
        check("1\r\na\r\n", Ok("a partial"));
        check("", Ok(" partial"));
        check("\r\n", Err(BadChunk::Size));
        check("g\r\n", Err(BadChunk::Size));
        check("-1\r\n", Err(BadChunk::Size));
        check("0x1\r\n", Err(BadChunk::Size));
        check("1\n", Err(BadChunk::Size));
        check(" 1\r\n", Err(BadChunk::Size));
        check("8000000000000000\r\n", Err(BadChunk::Size));
        check("10000000000000000\r\n", Err(BadChunk::Size));
        check("7fffffffffffffff\r\nab", Ok("ab partial"));
        check("1 x\r\n", Err(BadChunk::Delimiter));
        check("1;x\n", Err(BadChunk::Delimiter));
        check("1\rx", Err(BadChunk::Delimiter));
        check("1\r\nab", Err(BadChunk::Delimiter));
        check("1\r\na\n", Err(BadChunk::Delimiter));
        check("1\r\na\rx", Err(BadChunk::Delimiter));
        check("0\r\n\n", Err(BadChunk::Delimiter));
        check("0\r\nX: 1\n\r\n", Err(BadChunk::Delimiter));
        check("0\r\nX : 1\r\n\r\n", Err(BadChunk::Trailer));
        check("0\r\nX: 1\r\n folded\r\n\r\n", Err(BadChunk::Trailer));
        check("0\r\n\rX\r\n\r\n", Err(BadChunk::Trailer));
    }

    #[test]
    fn bounds_extensions_and_trailers() {
        let long = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(CHUNK_LINE_BYTES_MAX as usize));
        assert_eq!(decode(long.as_bytes(), 100), Err(BadChunk::LineTooLong));
        let zeros = "0".repeat(CHUNK_LINE_BYTES_MAX as usize + 1);
        assert_eq!(decode(zeros.as_bytes(), 100), Err(BadChunk::LineTooLong));
        let long = format!("0\r\nX: {}\r\n\r\n", "x".repeat(TRAILER_BYTES_MAX));
        assert_eq!(decode(long.as_bytes(), 100), Err(BadChunk::TrailerTooLarge));
    }

    #[test]
    fn encodes() {
        for (size, expected) in [(1, "1\r\n"), (0x1a, "1a\r\n"), (u64::MAX, "ffffffffffffffff\r\n")] {
            assert_eq!(ChunkHeader::new(size).as_ref(), expected.as_bytes());
        }
        let mut out = Vec::new();
        write_chunk(b"hello", &mut out);
        write_chunk(b"", &mut out);
        let mut trailers = Fields::new();
        trailers.append(b"A", b"1");
        write_last_chunk(&trailers, &mut out);
        assert_eq!(out, b"5\r\nhello\r\n0\r\nA: 1\r\n\r\n");
        assert_eq!(decode(&out, 3), Ok("hello|A=1+0".to_owned()));
    }
}
