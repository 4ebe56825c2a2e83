//! Frames of HTTP/2 (RFC 9113).
//!
//! - this page: what every frame begins with, and the numbers that stand in them
//! - [`head`]: from fields to a request's head
//! - [`priority`]: how urgent a response is
//! - [`response`]: from a response's head to a header block

pub mod head;
pub mod priority;
pub mod response;

/// What a client sends first (section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of what each frame begins with.
pub const HEADER_BYTES: usize = 9;

/// The largest payload that must be accepted, and may be sent without leave (section 4.2).
pub const FRAME_BYTES_MAX: usize = 1 << 14;

/// The largest flow-control window (section 6.9.1).
pub const WINDOW_BYTES_MAX: i64 = (1 << 31) - 1;

/// A window that nobody has spoken of (section 6.9.2).
pub const WINDOW_BYTES: i64 = 65_535;

/// The highest number of a stream (section 5.1.1).
pub const STREAM_MAX: u32 = (1 << 31) - 1;

/// Kinds of frames (section 6).
#[allow(missing_docs, reason = "the names are the standard's")]
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
    /// RFC 9218, section 7.1.
    pub const PRIORITY_UPDATE: u8 = 16;
}

/// Flags of frames.
#[allow(missing_docs, reason = "the names are the standard's")]
pub mod flag {
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// Numbers of settings (section 6.5.2).
#[allow(missing_docs, reason = "the names are the standard's")]
pub mod setting {
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    /// RFC 8441, section 3.
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    /// RFC 9218, section 2.1.
    pub const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// Why a stream or a connection ends (section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// It has done its work.
    NoError = 0,
    /// The peer breaks the rules.
    ProtocolError = 1,
    /// It cannot be completed here.
    InternalError = 2,
    /// The peer sends more than it may.
    FlowControlError = 3,
    /// A frame came on a stream that the peer has ended.
    StreamClosed = 5,
    /// A frame has another length than its kind can have.
    FrameSizeError = 6,
    /// Nothing was done for the stream.
    RefusedStream = 7,
    /// It is no longer wanted.
    Cancel = 8,
    /// A header block makes no sense.
    CompressionError = 9,
    /// The peer makes more work than it is worth.
    EnhanceYourCalm = 11,
}

/// What a frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the payload, in bytes.
    pub len: usize,
    /// See [`kind`].
    pub kind: u8,
    /// See [`flag`].
    pub flags: u8,
    /// The stream; 0 for the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads one, if it is all there.
    #[inline]
    pub fn parse(input: &[u8]) -> Option<FrameHeader> {
        let bytes = input.first_chunk::<HEADER_BYTES>()?;
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *bytes;
        Some(FrameHeader {
            len: u32::from_be_bytes([0, l0, l1, l2]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        })
    }
    /// Appends it to `out`.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        let [_, l0, l1, l2] = (self.len as u32).to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        out.extend_from_slice(&[l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]);
    }
    /// Whether a flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
    /// The payload without padding and, if `prefix` is in the flags, without the five bytes of a priority. `None` where the
    /// padding is longer than the frame (section 6.1) or there is no room for what the flags promise.
    pub fn content<'p>(&self, payload: &'p [u8]) -> Option<&'p [u8]> {
        let mut content = payload;
        let mut padding = 0;
        if self.has(flag::PADDED) {
            let (&len, rest) = content.split_first()?;
            (padding, content) = (len as usize, rest);
        }
        if self.kind == kind::HEADERS && self.has(flag::PRIORITY) {
            content = content.get(5..)?;
        }
        content.get(..content.len().checked_sub(padding)?)
    }
}

/// Appends a whole frame.
pub fn write_frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    FrameHeader { len: payload.len(), kind, flags, stream }.write(out);
    out.extend_from_slice(payload);
}

/// Appends the end of a stream.
pub fn write_reset(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    write_frame(kind::RST_STREAM, 0, stream, &(code as u32).to_be_bytes(), out);
}

/// Appends leave to send so many bytes more.
pub fn write_window_update(stream: u32, bytes: u32, out: &mut Vec<u8>) {
    write_frame(kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes(), out);
}

/// Appends the beginning of the end: no stream after `last_stream` is taken.
pub fn write_goaway(last_stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    let mut payload = [0; 8];
    payload[..4].copy_from_slice(&last_stream.to_be_bytes());
    payload[4..].copy_from_slice(&(code as u32).to_be_bytes());
    write_frame(kind::GOAWAY, 0, 0, &payload, out);
}

/// Appends a header block in as many frames as it takes.
pub fn write_block(stream: u32, end_stream: bool, block: &[u8], out: &mut Vec<u8>) {
    let mut pieces = block.chunks(FRAME_BYTES_MAX).peekable();
    let mut kind = kind::HEADERS;
    let mut flags = if end_stream { flag::END_STREAM } else { 0 };
    loop {
        let piece = pieces.next().unwrap_or_default();
        if pieces.peek().is_none() {
            flags |= flag::END_HEADERS;
        }
        write_frame(kind, flags, stream, piece, out);
        if flags & flag::END_HEADERS != 0 {
            return;
        }
        (kind, flags) = (kind::CONTINUATION, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        let mut out = Vec::new();
        let header = FrameHeader { len: 0x01_02_03, kind: kind::DATA, flags: flag::PADDED, stream: 0x7fff_fffe };
        header.write(&mut out);
        assert_eq!(FrameHeader::parse(&out), Some(header));
        assert_eq!(FrameHeader::parse(&out[..8]), None);
        // The first bit of a stream's number means nothing.
        out[5] |= 0x80;
        assert_eq!(FrameHeader::parse(&out), Some(header));
    }

    #[test]
    fn padding() {
        #[track_caller]
        fn check(kind: u8, flags: u8, payload: &[u8], expected: Option<&[u8]>) {
            let header = FrameHeader { len: payload.len(), kind, flags, stream: 1 };
            assert_eq!(header.content(payload), expected);
        }
        check(kind::DATA, 0, b"abc", Some(b"abc"));
        check(kind::DATA, flag::PADDED, b"\x01abc", Some(b"ab"));
        check(kind::DATA, flag::PADDED, b"\x03abc", Some(b""));
        check(kind::DATA, flag::PADDED, b"\x04abc", None);
        check(kind::DATA, flag::PADDED, b"", None);
        check(kind::HEADERS, flag::PRIORITY, b"12345ab", Some(b"ab"));
        check(kind::HEADERS, flag::PRIORITY, b"1234", None);
        check(kind::HEADERS, flag::PRIORITY | flag::PADDED, b"\x0112345ab", Some(b"a"));
    }

    #[test]
    fn long_blocks_go_on() {
        for (len, kinds) in
            [(0, &[1u8][..]), (5, &[1]), (1 << 14, &[1]), ((1 << 14) + 1, &[1, 9]), (40_000, &[1, 9, 9])]
        {
            let mut out = Vec::new();
            write_block(3, true, &vec![7; len], &mut out);
            let (mut rest, mut seen, mut total) = (&out[..], Vec::new(), 0);
            while let Some(header) = FrameHeader::parse(rest) {
                seen.push(header.kind);
                total += header.len;
                rest = &rest[HEADER_BYTES + header.len..];
                assert_eq!(header.has(flag::END_HEADERS), rest.is_empty());
                assert_eq!(header.kind == kind::HEADERS, header.has(flag::END_STREAM));
            }
            assert_eq!((&seen[..], total), (kinds, len));
        }
    }
}
