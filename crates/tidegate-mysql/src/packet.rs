//! Framing: how packets stand in the byte stream, for both sides of a connection.
//!
//! ```text
//! 3 bytes  length of the payload
//! 1 byte   sequence number; a command restarts it at 0
//! payload  a length of 0xffffff says that the packet goes on in the next frame, whose payload may be empty
//! ```
//!
//! Source: MySQL internals, "MySQL Packets".

use std::ops::Range;

/// Size of a frame's head.
pub const HEAD_SIZE: usize = 4;
/// Payload of a frame that has a continuation.
pub const FRAME_MAX: usize = 0xff_ffff;
/// What a connection's buffer begins with: a small result needs one read.
const BUFFER_SIZE: usize = 16 * 1024;
/// What a buffer grows to when reads fill it. Larger reads do not pay any more.
const BUFFER_SIZE_MAX: usize = 64 * 1024;

/// Why bytes are no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A sequence number was skipped: bytes were lost, or the peer does not speak this protocol.
    #[error("packet {found} came where packet {expected} was due")]
    Sequence {
        /// The number due.
        expected: u8,
        /// The number found.
        found: u8,
    },
    /// Larger than the receiver allows.
    #[error("packet size too big: {size}")]
    TooLarge {
        /// Its size, as far as it is known.
        size: usize,
    },
}

/// Bytes that arrived, and the packets in them. Packets are taken in place; nothing is copied but, once, the parts of a
/// packet of several frames.
///
/// Invariant: `start <= end <= data.len()`.
#[derive(Debug)]
pub struct PacketBuffer {
    data: Vec<u8>,
    start: usize,
    end: usize,
    /// Number that the next frame must have.
    pub sequence: u8,
    /// Largest payload that is accepted.
    payload_max: usize,
    /// Whether sequence numbers are checked.
    pub check_sequence: bool,
}

impl PacketBuffer {
    /// An empty buffer that takes packets of at most `payload_max` bytes.
    pub fn new(payload_max: usize) -> Self {
        Self { data: vec![0; BUFFER_SIZE], start: 0, end: 0, sequence: 0, payload_max, check_sequence: true }
    }

    /// Changes the size of the largest payload that is accepted.
    pub fn set_payload_max(&mut self, payload_max: usize) {
        self.payload_max = payload_max;
    }

    /// Whether no bytes wait.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The bytes of a packet that [`take`](Self::take) found. They stay until [`space`](Self::space) is called.
    #[inline]
    pub fn payload(&self, at: Range<usize>) -> &[u8] {
        &self.data[at]
    }

    /// Takes the next packet, if all of it has arrived.
    ///
    /// # Errors
    /// A wrong sequence number, or a packet larger than allowed.
    #[inline]
    pub fn take(&mut self) -> Result<Option<Range<usize>>, FrameError> {
        let Some(head) = self.data[self.start..self.end].first_chunk::<HEAD_SIZE>() else { return Ok(None) };
        let len = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
        if head[3] != self.sequence && self.check_sequence {
            return Err(FrameError::Sequence { expected: self.sequence, found: head[3] });
        }
        if len == FRAME_MAX {
            return self.next_joined();
        }
        if len > self.payload_max {
            return Err(FrameError::TooLarge { size: len });
        }
        let payload = self.start + HEAD_SIZE;
        if self.end - payload < len {
            return Ok(None);
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.start = payload + len;
        Ok(Some(payload..payload + len))
    }

    /// Takes a packet of several frames: waits for all, then moves their payloads together.
    #[cold]
    fn next_joined(&mut self) -> Result<Option<Range<usize>>, FrameError> {
        let Some((frames, total)) = self.frames()? else { return Ok(None) };
        let payload = self.start + HEAD_SIZE;
        let mut target = payload + FRAME_MAX;
        for frame in 1..frames {
            let source = self.start + frame * (HEAD_SIZE + FRAME_MAX) + HEAD_SIZE;
            let len = (total - frame * FRAME_MAX).min(FRAME_MAX);
            self.data.copy_within(source..source + len, target);
            target += len;
        }
        self.sequence = self.sequence.wrapping_add(frames as u8);
        self.start += total + frames * HEAD_SIZE;
        Ok(Some(payload..payload + total))
    }

    /// Number of frames and sum of their payloads, once all have arrived.
    fn frames(&self) -> Result<Option<(usize, usize)>, FrameError> {
        let mut rest = &self.data[self.start..self.end];
        let (mut frames, mut total) = (0usize, 0usize);
        while let Some(head) = rest.first_chunk::<HEAD_SIZE>() {
            let len = frame_len(head);
            let expected = self.sequence.wrapping_add(frames as u8);
            if head[3] != expected && self.check_sequence {
                return Err(FrameError::Sequence { expected, found: head[3] });
            }
            frames += 1;
            total += len;
            if total > self.payload_max {
                return Err(FrameError::TooLarge { size: total });
            }
            match rest.get(HEAD_SIZE + len..) {
                None => return Ok(None),
                Some(_) if len < FRAME_MAX => return Ok(Some((frames, total))),
                Some(tail) => rest = tail,
            }
        }
        Ok(None)
    }

    /// Room for bytes to arrive; never empty. Packets taken before are gone.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let wanted = self.wanted();
        if self.data.len() - self.start < wanted || self.end == self.data.len() {
            self.data.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.data.len() < wanted {
                self.data.resize(wanted, 0);
            }
        }
        &mut self.data[self.end..]
    }

    /// Bytes that the buffer must hold from `start` on so that the frame at its front becomes complete: at least one
    /// more than there are.
    fn wanted(&self) -> usize {
        let held = &self.data[self.start..self.end];
        let mut wanted = 0;
        let mut rest = held;
        while let Some(head) = rest.first_chunk::<HEAD_SIZE>() {
            wanted += HEAD_SIZE + frame_len(head);
            match held.get(wanted..) {
                Some(tail) => rest = tail,
                None => break,
            }
        }
        wanted.max(held.len() + 1)
    }

    /// Notes that `count` bytes arrived in [`space`](Self::space).
    pub fn arrived(&mut self, count: usize) {
        self.end = (self.end + count).min(self.data.len());
        if self.end == self.data.len() && self.data.len() < BUFFER_SIZE_MAX {
            self.data.resize(self.data.len() * 2, 0);
        }
    }

    /// Takes all bytes that wait, whatever they are.
    pub fn take_all(&mut self) -> Vec<u8> {
        let bytes = self.data[self.start..self.end].to_vec();
        self.start = self.end;
        bytes
    }

    /// Takes the next packet's sequence number for right, whatever it is.
    pub fn follow_sequence(&mut self) {
        if let Some(head) = self.data[self.start..self.end].first_chunk::<HEAD_SIZE>() {
            self.sequence = head[3];
        }
    }

    /// Gives back memory that one large packet took. For a connection that goes idle.
    pub fn shrink(&mut self) {
        if self.is_empty() && self.data.len() > BUFFER_SIZE_MAX {
            let (sequence, check_sequence) = (self.sequence, self.check_sequence);
            *self = Self { sequence, check_sequence, ..Self::new(self.payload_max) };
        }
    }
}

fn frame_len(head: &[u8; HEAD_SIZE]) -> usize {
    usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16
}

/// Appends one packet whose payload is the concatenation of `parts`, cut into as many frames as it takes.
pub fn put_packet(out: &mut Vec<u8>, sequence: &mut u8, parts: &[&[u8]]) {
    let mut left: usize = parts.iter().map(|part| part.len()).sum();
    out.reserve(left + (left / FRAME_MAX + 1) * HEAD_SIZE);
    let mut parts = parts.iter().copied();
    let mut part: &[u8] = &[];
    loop {
        let len = left.min(FRAME_MAX);
        let head = (len as u32).to_le_bytes();
        out.extend_from_slice(&[head[0], head[1], head[2], *sequence]);
        *sequence = sequence.wrapping_add(1);
        let mut missing = len;
        while missing > 0 {
            if part.is_empty() {
                part = parts.next().unwrap_or_default();
                continue;
            }
            let (head, tail) = part.split_at(part.len().min(missing));
            out.extend_from_slice(head);
            part = tail;
            missing -= head.len();
        }
        left -= len;
        if len < FRAME_MAX {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(buffer: &mut PacketBuffer, mut bytes: &[u8], chunk: usize) {
        while !bytes.is_empty() {
            let space = buffer.space();
            let len = space.len().min(bytes.len()).min(chunk);
            space[..len].copy_from_slice(&bytes[..len]);
            buffer.arrived(len);
            bytes = &bytes[len..];
        }
    }

    #[test]
    fn packets_cut_anywhere() {
        let mut out = Vec::new();
        let mut sequence = 0;
        for payload in [&b"abc"[..], b"", b"0123456789"] {
            put_packet(&mut out, &mut sequence, &[payload]);
        }
        assert_eq!(sequence, 3);
        for chunk in 1..out.len() {
            let mut buffer = PacketBuffer::new(100);
            let mut found = Vec::new();
            for piece in out.chunks(chunk) {
                feed(&mut buffer, piece, usize::MAX);
                while let Some(at) = buffer.take().unwrap() {
                    found.push(buffer.payload(at).to_vec());
                }
            }
            assert_eq!(found, [&b"abc"[..], b"", b"0123456789"]);
            assert!(buffer.is_empty());
        }
    }

    #[test]
    fn sizes_around_a_frames_limit() {
        for len in [FRAME_MAX - 1, FRAME_MAX, FRAME_MAX + 1, 2 * FRAME_MAX, 2 * FRAME_MAX + 5] {
            let payload: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let mut out = Vec::new();
            let mut sequence = 254;
            put_packet(&mut out, &mut sequence, &[&payload[..1], &payload[1..]]);
            assert_eq!(out.len(), len + (len / FRAME_MAX + 1) * HEAD_SIZE);
            put_packet(&mut out, &mut sequence, &[b"next"]);
            let mut buffer = PacketBuffer::new(len);
            buffer.sequence = 254;
            let mut found = Vec::new();
            for piece in out.chunks(1 << 20) {
                feed(&mut buffer, piece, usize::MAX);
                while let Some(at) = buffer.take().unwrap() {
                    found.push(buffer.payload(at).to_vec());
                }
            }
            assert_eq!(found.len(), 2);
            assert!(found[0] == payload, "{len}");
            assert_eq!(found[1], b"next");
            buffer.shrink();
            assert!(buffer.data.len() <= BUFFER_SIZE_MAX);
        }
    }

    #[test]
    fn errors() {
        let mut buffer = PacketBuffer::new(8);
        feed(&mut buffer, b"\x01\0\0\x01x", 100);
        assert_eq!(buffer.take(), Err(FrameError::Sequence { expected: 0, found: 1 }));
        buffer.follow_sequence();
        assert!(buffer.take().unwrap().is_some());
        let mut buffer = PacketBuffer::new(8);
        feed(&mut buffer, b"\x09\0\0\0", 100);
        assert_eq!(buffer.take(), Err(FrameError::TooLarge { size: 9 }));
        let mut buffer = PacketBuffer::new(8);
        feed(&mut buffer, b"\xff\xff\xff\0", 100);
        assert_eq!(buffer.take(), Err(FrameError::TooLarge { size: FRAME_MAX }));
    }

    #[test]
    fn the_buffer_grows_while_reads_fill_it() {
        let mut buffer = PacketBuffer::new(1 << 20);
        assert_eq!(buffer.space().len(), BUFFER_SIZE);
        let mut out = Vec::new();
        put_packet(&mut out, &mut 0, &[&vec![1; 200_000]]);
        feed(&mut buffer, &out, usize::MAX);
        assert_eq!(buffer.take().unwrap().unwrap().len(), 200_000);
    }
}
