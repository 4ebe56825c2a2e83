//! The compressed protocol: packets travel inside of frames of zlib or zstd.
//!
//! ```text
//! 3 bytes  length of what follows the head
//! 1 byte   sequence number of its own, restarted by a command
//! 3 bytes  length when inflated; 0: what follows is not compressed
//! ```
//!
//! Source: MySQL internals, "Compression"; MySQL's documentation, "Connection Compression Control".

use std::{fmt, io};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use zstd::bulk::{Compressor, Decompressor};

use crate::{handshake::capability, packet::FRAME_MAX};

const HEAD_SIZE: usize = 7;
/// Shorter texts grow when they are compressed. The servers' own limit.
const COMPRESS_SIZE_MIN: usize = 50;
/// Read at once.
const READ_SIZE: usize = 16 * 1024;

/// The level that zstd begins with where nobody says another. Source: MySQL, `zstd_compression_level`.
pub const ZSTD_LEVEL_DEFAULT: u8 = 3;
/// Highest level of zstd that packets are compressed with, whatever the other side wants: 128 KB of rows take 6 ms then, and
/// 70 with level 22, for which all other connections of the thread would wait.
const ZSTD_LEVEL_MAX: u8 = 9;
/// What one frame of zstd takes of packets: its work space grows with that, to 1.3 MB at [`ZSTD_LEVEL_MAX`] (as zstd's own
/// estimate says), which a connection has while it is busy.
const ZSTD_FRAME_MAX: usize = 128 << 10;

/// What frames are compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// `CLIENT_COMPRESS`
    #[default]
    Zlib,
    /// `CLIENT_ZSTD_COMPRESSION_ALGORITHM`
    Zstd {
        /// How hard to try, 1 to 22; this side goes no further than 9.
        level: u8,
    },
}

impl Algorithm {
    /// What packets are compressed with from the end of the login on, by the capabilities that both sides have. Who takes both gets
    /// zlib, as MySQL has it.
    pub fn agreed(capabilities: u32, zstd_level: u8) -> Option<Self> {
        if capabilities & capability::COMPRESS != 0 {
            Some(Self::Zlib)
        } else if capabilities & capability::ZSTD_COMPRESSION_ALGORITHM != 0 {
            Some(Self::Zstd { level: zstd_level })
        } else {
            None
        }
    }
}

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
    inflate: Inflate,
    /// Number of the frame that was inflated last.
    sequence: u8,
}

/// Makes frames of packets.
#[derive(Debug)]
pub struct Deflater {
    deflate: Deflate,
}

/// The states of the libraries; those of zstd are made when they are needed.
enum Inflate {
    Zlib(Decompress),
    Zstd(Option<Decompressor<'static>>),
}

enum Deflate {
    Zlib(Compress),
    Zstd(u8, Option<Compressor<'static>>),
}

impl fmt::Debug for Inflate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Zlib(_)) { "Zlib" } else { "Zstd" })
    }
}

impl fmt::Debug for Deflate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Zlib(_)) { "Zlib" } else { "Zstd" })
    }
}

impl Inflate {
    /// Inflates a frame into an empty `plain`, whose capacity is the bound; `false` if it is none of a whole text.
    fn inflate(&mut self, frame: &[u8], plain: &mut Vec<u8>) -> bool {
        match self {
            Self::Zlib(inflate) => {
                inflate.reset(true);
                matches!(inflate.decompress_vec(frame, plain, FlushDecompress::Finish), Ok(Status::StreamEnd))
            }
            Self::Zstd(inflate) => {
                if inflate.is_none() {
                    *inflate = Decompressor::new().ok();
                }
                inflate.as_mut().is_some_and(|inflate| inflate.decompress_to_buffer(frame, plain).is_ok())
            }
        }
    }
}

impl Deflate {
    fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Zlib => Self::Zlib(Compress::new(Compression::fast(), true)),
            Algorithm::Zstd { level } => Self::Zstd(level.clamp(1, ZSTD_LEVEL_MAX), None),
        }
    }

    /// Bytes of packets in one frame.
    fn frame_max(&self) -> usize {
        if matches!(self, Self::Zlib(_)) { FRAME_MAX } else { ZSTD_FRAME_MAX }
    }

    /// Appends `chunk` compressed; `false` if it gets no shorter, with anything behind `out`.
    fn deflate(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> bool {
        let from = out.len();
        match self {
            Self::Zlib(deflate) => {
                deflate.reset();
                // zlib's bound for what does not compress.
                out.reserve(chunk.len() + chunk.len() / 1000 + 64);
                let status = deflate.compress_vec(chunk, out, FlushCompress::Finish);
                matches!(status, Ok(Status::StreamEnd)) && out.len() - from < chunk.len()
            }
            Self::Zstd(level, deflate) => {
                if deflate.is_none() {
                    *deflate = Compressor::new(i32::from(*level)).ok();
                }
                let Some(deflate) = deflate else { return false };
                // What needs more room than this is sent as it is.
                out.resize(from + chunk.len() - 1, 0);
                let Ok(len) = deflate.compress_to_buffer(chunk, &mut out[from..]) else { return false };
                out.truncate(from + len);
                true
            }
        }
    }
}

impl Default for Inflater {
    fn default() -> Self {
        Self::new(Algorithm::Zlib)
    }
}

impl Compressed {
    /// A connection that begins to compress.
    pub fn new(algorithm: Algorithm) -> Self {
        Self { inflater: Inflater::new(algorithm), deflater: Deflater::new(algorithm) }
    }
}

impl Default for Deflater {
    fn default() -> Self {
        Self::new(Algorithm::Zlib)
    }
}

impl Inflater {
    /// One for frames of an algorithm.
    pub fn new(algorithm: Algorithm) -> Self {
        let inflate = match algorithm {
            Algorithm::Zlib => Inflate::Zlib(Decompress::new(true)),
            Algorithm::Zstd { .. } => Inflate::Zstd(None),
        };
        Self { raw: vec![0; READ_SIZE], start: 0, end: 0, plain: Vec::new(), plain_start: 0, inflate, sequence: 0 }
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
            // One byte more than promised, so that a longer text is noticed.
            self.plain.reserve(plain_len + 1);
            if !self.inflate.inflate(frame, &mut self.plain) || self.plain.len() != plain_len {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "broken compression"));
            }
        }
        self.start += HEAD_SIZE + len;
        Ok(true)
    }
}

impl Deflater {
    /// One that makes frames of an algorithm.
    pub fn new(algorithm: Algorithm) -> Self {
        Self { deflate: Deflate::new(algorithm) }
    }

    /// Turns packets into frames; `sequence` is the number of the first, and then of the next.
    pub fn compress(&mut self, packets: &[u8], sequence: &mut u8, out: &mut Vec<u8>) {
        for chunk in packets.chunks(self.deflate.frame_max()) {
            let head = out.len();
            out.extend_from_slice(&[0; HEAD_SIZE]);
            let mut plain_len = 0;
            if chunk.len() >= COMPRESS_SIZE_MIN {
                if self.deflate.deflate(chunk, out) {
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

    const ALGORITHMS: [Algorithm; 4] = [
        Algorithm::Zlib,
        Algorithm::Zstd { level: ZSTD_LEVEL_DEFAULT },
        Algorithm::Zstd { level: 0 },
        Algorithm::Zstd { level: 255 },
    ];

    #[track_caller]
    fn check(text: &[u8], chunk: usize) {
        ALGORITHMS.into_iter().for_each(|algorithm| check_with(algorithm, text, chunk));
    }

    #[track_caller]
    fn check_with(algorithm: Algorithm, text: &[u8], chunk: usize) {
        let mut packed = Vec::new();
        let mut channel = Compressed::new(algorithm);
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
        for algorithm in ALGORITHMS {
            for frame in [&b"\x04\0\0\0\x10\0\0junk"[..], b"\x00\0\0\0\x10\0\0"] {
                assert!(is_broken(algorithm, frame));
            }
        }
    }

    fn is_broken(algorithm: Algorithm, frame: &[u8]) -> bool {
        let mut channel = Compressed::new(algorithm);
        channel.space()[..frame.len()].copy_from_slice(frame);
        channel.arrived(frame.len());
        channel.take(&mut [0; 10]).is_err()
    }

    #[test]
    fn texts_that_are_longer_or_shorter_than_promised() {
        for algorithm in ALGORITHMS {
            let mut frame = Vec::new();
            Compressed::new(algorithm).compress(&[7; 100_000], &mut frame);
            assert!(frame.len() < 1000 && !is_broken(algorithm, &frame));
            for promised in [1, 16, 99_999, 100_001, 0xff_ffff_u32] {
                frame[4..7].copy_from_slice(&promised.to_le_bytes()[..3]);
                assert!(is_broken(algorithm, &frame), "{algorithm:?}: {promised}");
            }
        }
    }

    #[test]
    fn frames_of_the_other_algorithm() {
        let [zlib, zstd, ..] = ALGORITHMS;
        for (made, read) in [(zlib, zstd), (zstd, zlib)] {
            let mut frame = Vec::new();
            Compressed::new(made).compress(&[7; 1000], &mut frame);
            assert!(is_broken(read, &frame));
        }
    }
}
