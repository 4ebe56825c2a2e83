//! The compressed protocol: packets travel inside of zlib frames.
//!
//! ```text
//! 3 bytes  length of what follows the head
//! 1 byte   sequence number of its own, restarted by a command
//! 3 bytes  length when inflated; 0: what follows is not compressed
//! ```
//!
//! Source: MySQL internals, "Compression".

use std::io;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::packet::FRAME_MAX;

const HEAD_SIZE: usize = 7;
/// Shorter texts grow when they are compressed. The servers' own limit.
const COMPRESS_SIZE_MIN: usize = 50;
/// Read at once.
const READ_SIZE: usize = 16 * 1024;

/// Both directions of a client's compressed connection.
#[derive(Debug, Default)]
pub struct Compressed {
    inflater: Inflater,
    deflater: Deflater,
}

/// Frames that arrive, and the packets in them.
#[derive(Debug)]
pub struct Inflater {
    /// Bytes as they arrived: those before `start` are used, those behind `end` are room.
    raw: Vec<u8>,
    start: usize,
    end: usize,
    /// Inflated bytes; those before `plain_start` were taken.
    plain: Vec<u8>,
    plain_start: usize,
    inflate: Decompress,
    /// Number of the frame that was inflated last.
    sequence: u8,
}

/// Makes frames of packets.
#[derive(Debug)]
pub struct Deflater {
    deflate: Compress,
}

impl Default for Deflater {
    fn default() -> Self {
        Self { deflate: Compress::new(Compression::fast(), true) }
    }
}

impl Default for Inflater {
    fn default() -> Self {
        Self {
            raw: vec![0; READ_SIZE],
            start: 0,
            end: 0,
            plain: Vec::new(),
            plain_start: 0,
            inflate: Decompress::new(true),
            sequence: 0,
        }
    }
}

impl Compressed {
    /// As [`Inflater::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.inflater.is_empty()
    }

    /// As [`Inflater::take`].
    ///
    /// # Errors
    /// The same.
    pub fn take(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.inflater.take(space)
    }

    /// As [`Inflater::space`].
    pub fn space(&mut self) -> &mut [u8] {
        self.inflater.space()
    }

    /// As [`Inflater::arrived`].
    pub fn arrived(&mut self, count: usize) {
        self.inflater.arrived(count);
    }

    /// Turns the packets of one command into frames.
    pub fn compress(&mut self, packets: &[u8], out: &mut Vec<u8>) {
        self.deflater.compress(packets, &mut 0, out);
    }
}

impl Inflater {
    /// Number of the frame that was inflated last; an answer's frames count on from there.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.start == self.end && self.plain_start == self.plain.len()
    }

    /// Moves inflated bytes into `space`, and returns how many; 0 means that more must arrive.
    ///
    /// # Errors
    /// A frame that does not inflate, or not to the length that it promises.
    pub fn take(&mut self, space: &mut [u8]) -> io::Result<usize> {
        while self.plain_start == self.plain.len() {
            if !self.next_frame()? {
                return Ok(0);
            }
        }
        let rest = &self.plain[self.plain_start..];
        let len = rest.len().min(space.len());
        space[..len].copy_from_slice(&rest[..len]);
        self.plain_start += len;
        Ok(len)
    }

    /// Room for bytes to arrive.
    pub fn space(&mut self) -> &mut [u8] {
        self.raw.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let wanted = match frame_head(&self.raw[..self.end]) {
            Some((len, _)) => HEAD_SIZE + len,
            None => 0,
        };
        let size = wanted.max(self.end + 1).max(READ_SIZE);
        if self.raw.len() < size {
            self.raw.resize(size, 0);
        }
        &mut self.raw[self.end..]
    }

    /// Notes that `count` bytes arrived in [`space`](Self::space).
    pub fn arrived(&mut self, count: usize) {
        self.end = (self.end + count).min(self.raw.len());
    }

    /// Inflates the next frame; `false` if not all of it has arrived.
    fn next_frame(&mut self) -> io::Result<bool> {
        let held = &self.raw[self.start..self.end];
        let Some((len, plain_len)) = frame_head(held) else { return Ok(false) };
        let Some(frame) = held.get(HEAD_SIZE..HEAD_SIZE + len) else { return Ok(false) };
        self.plain.clear();
        self.plain_start = 0;
        self.sequence = held[3];
        if plain_len == 0 {
            self.plain.extend_from_slice(frame);
        } else {
            self.plain.reserve(plain_len);
            self.inflate.reset(true);
            // One byte more than promised, so that a longer text is noticed.
            self.plain.reserve(plain_len + 1);
            let status = self.inflate.decompress_vec(frame, &mut self.plain, FlushDecompress::Finish);
            if !matches!(status, Ok(Status::StreamEnd)) || self.plain.len() != plain_len {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "broken compression"));
            }
        }
        self.start += HEAD_SIZE + len;
        Ok(true)
    }
}

impl Deflater {
    /// Turns packets into frames; `sequence` is the number of the first, and then of the next.
    pub fn compress(&mut self, packets: &[u8], sequence: &mut u8, out: &mut Vec<u8>) {
        for chunk in packets.chunks(FRAME_MAX) {
            let head = out.len();
            out.extend_from_slice(&[0; HEAD_SIZE]);
            let mut plain_len = 0;
            if chunk.len() >= COMPRESS_SIZE_MIN {
                self.deflate.reset();
                // zlib's bound for what does not compress.
                out.reserve(chunk.len() + chunk.len() / 1000 + 64);
                let status = self.deflate.compress_vec(chunk, out, FlushCompress::Finish);
                let len = out.len() - head - HEAD_SIZE;
                if matches!(status, Ok(Status::StreamEnd)) && len < chunk.len() {
                    plain_len = chunk.len();
                } else {
                    out.truncate(head + HEAD_SIZE);
                }
            }
            if plain_len == 0 {
                out.extend_from_slice(chunk);
            }
            let len = (out.len() - head - HEAD_SIZE) as u32;
            out[head..head + 3].copy_from_slice(&len.to_le_bytes()[..3]);
            out[head + 3] = *sequence;
            out[head + 4..head + 7].copy_from_slice(&(plain_len as u32).to_le_bytes()[..3]);
            *sequence = sequence.wrapping_add(1);
        }
    }
}

/// Lengths of a frame, packed and inflated.
fn frame_head(bytes: &[u8]) -> Option<(usize, usize)> {
    let head = bytes.first_chunk::<HEAD_SIZE>()?;
    let number = |at: usize| usize::from(head[at]) | usize::from(head[at + 1]) << 8 | usize::from(head[at + 2]) << 16;
    Some((number(0), number(4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], chunk: usize) {
        let mut packed = Vec::new();
        let mut channel = Compressed::default();
        channel.compress(text, &mut packed);
        let mut found = Vec::new();
        let mut space = vec![0; 5000];
        for piece in packed.chunks(chunk) {
            let mut piece = piece;
            while !piece.is_empty() {
                let room = channel.space();
                let len = room.len().min(piece.len());
                room[..len].copy_from_slice(&piece[..len]);
                channel.arrived(len);
                piece = &piece[len..];
                loop {
                    let len = channel.take(&mut space).unwrap();
                    if len == 0 {
                        break;
                    }
                    found.extend_from_slice(&space[..len]);
                }
            }
        }
        assert!(found == text);
        assert!(channel.is_empty());
    }

    #[test]
    fn both_ways() {
        check(b"short", 1);
        let text: Vec<u8> = (0..100_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        check(&text, 1000);
        check(&text[..300], 1);
        let noise: Vec<u8> = (0..70_000u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        check(&noise, 70_000);
        check(&vec![7; FRAME_MAX + 10], usize::MAX);
    }

    #[test]
    fn broken_frames() {
        for frame in [&b"\x04\0\0\0\x10\0\0junk"[..], b"\x00\0\0\0\x10\0\0"] {
            let mut channel = Compressed::default();
            channel.space()[..frame.len()].copy_from_slice(frame);
            channel.arrived(frame.len());
            assert!(channel.take(&mut [0; 10]).is_err());
        }
    }
}
