//! What each frame of a client does.

use std::{rc::Rc, sync::atomic::Ordering::Relaxed};

use tidegate_http::{
    HeadLimits,
    hpack::{BadBlock, Decoder},
    http2::{
        ErrorCode, FRAME_BYTES_MAX, FrameHeader, HEADER_BYTES, PREFACE, WINDOW_BYTES_MAX, flag,
        head::{HeadText, check_field, check_value},
        kind, setting, write_frame,
    },
};
use tidegate_net::counters::COUNTERS;

use super::{flood::Flood, mux::Mux, open, priorities::Early, stream::Stream};
use crate::{error_log::write_for_connection, http2_settings::Conf, log::Level, worker::Worker};

/// Why a connection cannot go on; the log says what the sentence says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: ErrorCode,
    pub(super) text: &'static str,
}

/// A fault of the connection.
pub(super) const fn fault(code: ErrorCode, text: &'static str) -> Fault {
    Fault { code, text }
}

/// A header block that is coming.
#[derive(Debug, Default)]
struct Block {
    /// The stream; 0 while none is coming.
    stream: u32,
    end_stream: bool,
    bytes: Vec<u8>,
    /// Frames that it came in.
    frames: u32,
}

/// Frames of one block: more than any block takes that fits the limits.
const BLOCK_FRAMES_MAX: u32 = 64;

/// The fields of a block may come to so many times what a head may have: whose head is too long gets an answer, and whose block stands for much more
/// than itself gets none.
const BLOCK_GROWTH_MAX: usize = 4;

/// To so many bytes they may come in any case; fields count 32 more than their texts.
const BLOCK_FIELDS_BYTES: usize = 64 << 10;

/// Bytes of all streams after which the client gets leave for as many again; it has had leave for twice as many.
const CREDIT_BYTES: u32 = 1 << 30;

/// What reading needs to know.
pub(super) struct Input {
    pub(super) mux: Rc<Mux>,
    decoder: Decoder,
    pub(super) head: HeadText,
    pub(super) limits: HeadLimits,
    block: Block,
    flood: Flood,
    pub(super) early: Early,
    /// Bytes of bodies for which the client has got no leave.
    uncredited: u32,
    has_preface: bool,
    /// The highest stream that was opened.
    pub(super) last_stream: u32,
    /// The one that was opened before it: those in between never will be.
    stream_before: u32,
    /// The last stream whose head did not come in time.
    given_up: u32,
    pub(super) streams_max: usize,
    pub(super) farewell: Farewell,
}

fn bad_block(error: BadBlock) -> Fault {
    match error {
        BadBlock::TooLarge => fault(ErrorCode::EnhanceYourCalm, "client sent a header block that stands for too much"),
        _ => fault(ErrorCode::CompressionError, "client sent invalid header block"),
    }
}

/// How far a connection has come with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Farewell {
    /// It goes on.
    None,
    /// The client was told to begin no more streams, and to answer when it has heard so: what it began before that is on
    /// its way and will be served (section 6.8).
    Announced,
    /// The client has answered.
    Heard,
    /// No more streams are taken.
    Final,
}

/// What the client sends back when it has heard that the connection will end.
pub(super) const FAREWELL_PING: &[u8; 8] = b"farewell";

impl Input {
    pub(super) fn new(mux: Rc<Mux>, conf: &Conf, limits: HeadLimits) -> Self {
        Input {
            mux,
            decoder: Decoder::default(),
            head: HeadText::default(),
            limits,
            block: Block::default(),
            flood: Flood::new(conf.streams_max()),
            early: Early::default(),
            uncredited: 0,
            has_preface: false,
            last_stream: 0,
            stream_before: 0,
            given_up: 0,
            streams_max: conf.streams_max(),
            farewell: Farewell::None,
        }
    }

    /// Whether the first request has not come.
    pub(super) fn awaits_first(&self) -> bool {
        self.last_stream == 0
    }
    /// The stream of a request whose head has begun to come, and has not been given up.
    pub(super) fn unfinished_head(&self) -> Option<u32> {
        let id = match self.block.stream {
            0 => {
                let header = FrameHeader::parse(&self.mux.conn.input.borrow())?;
                (self.has_preface && header.kind == kind::HEADERS).then_some(header.stream)?
            }
            id => id,
        };
        (id > self.last_stream && !id.is_multiple_of(2)).then_some(id)
    }
    /// Gives up a request whose head does not come in time. The rest of it may come: it belongs to the header compression.
    ///
    /// Source: nginx, `ngx_http_v2_close_stream`.
    pub(super) fn give_up_head(&mut self, id: u32) {
        self.note(format_args!("client timed out (110: Connection timed out) while reading client request headers"));
        (self.stream_before, self.last_stream) = (self.last_stream, id);
        self.given_up = id;
        self.mux.queue_reset(id, ErrorCode::ProtocolError);
    }

    /// Takes the next frame off the front of `bytes`; answers its length, or `None` if it is not all there.
    pub(super) fn take_frame(&mut self, bytes: &[u8], worker: &Rc<Worker>) -> Result<Option<usize>, Fault> {
        if !self.has_preface {
            if !PREFACE.starts_with(&bytes[..bytes.len().min(PREFACE.len())]) {
                return Err(fault(ErrorCode::ProtocolError, "client sent invalid preface"));
            }
            self.has_preface = bytes.len() >= PREFACE.len();
            return Ok(self.has_preface.then_some(PREFACE.len()));
        }
        let Some(header) = FrameHeader::parse(bytes) else { return Ok(None) };
        if header.len > FRAME_BYTES_MAX {
            return Err(fault(ErrorCode::FrameSizeError, "client sent too large frame"));
        }
        if header.kind == kind::PUSH_PROMISE {
            return Err(fault(ErrorCode::ProtocolError, "client sent PUSH_PROMISE frame"));
        }
        let Some(payload) = bytes.get(HEADER_BYTES..HEADER_BYTES + header.len) else { return Ok(None) };
        let is_of_block = header.kind == kind::CONTINUATION && header.stream == self.block.stream;
        if self.block.stream != 0 && !is_of_block {
            return Err(fault(ErrorCode::ProtocolError, "client sent a frame within a header block"));
        }
        let content_bytes = match header.kind {
            kind::DATA | kind::HEADERS | kind::CONTINUATION => payload.len(),
            _ => 0,
        };
        self.flood.count_frame(payload.len(), content_bytes);
        match header.kind {
            kind::DATA => self.data(header, payload)?,
            kind::HEADERS => self.headers(header, payload, worker)?,
            kind::CONTINUATION => self.continuation(header, payload, worker)?,
            kind::PRIORITY => self.priority(header, payload)?,
            kind::PRIORITY_UPDATE => self.priority_update(header, payload)?,
            kind::RST_STREAM => self.reset(header, payload)?,
            kind::SETTINGS => self.settings(header, payload)?,
            kind::PING => self.ping(header, payload)?,
            kind::GOAWAY => self.goaway(header, payload)?,
            kind::WINDOW_UPDATE => self.window_update(header, payload)?,
            // Extensions (section 4.1).
            _ => {}
        }
        self.flood.count_outgoing(self.mux.take_outgoing());
        match self.flood.verdict() {
            Some(text) => Err(fault(ErrorCode::EnhanceYourCalm, text)),
            None => Ok(Some(HEADER_BYTES + header.len)),
        }
    }

    fn data(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        if header.stream == 0 {
            return Err(fault(ErrorCode::ProtocolError, "client sent DATA frame with incorrect identifier"));
        }
        let Some(content) = header.content(payload) else {
            return Err(fault(ErrorCode::ProtocolError, "client sent padded DATA frame with incorrect length"));
        };
        if header.stream > self.last_stream {
            return Err(fault(ErrorCode::ProtocolError, "client sent DATA frame for a stream that is idle"));
        }
        // All streams together may send as much as they may each.
        self.uncredited += header.len as u32;
        if self.uncredited >= CREDIT_BYTES {
            self.mux.queue_window_update(0, std::mem::take(&mut self.uncredited));
        }
        let Some(stream) = self.mux.find(header.stream) else {
            return self.closed(header.stream);
        };
        if stream.was_reset.get() {
            return self.closed(stream.id);
        }
        if stream.input_ended.get() {
            self.reject(&stream, ErrorCode::StreamClosed);
            return Ok(());
        }
        if header.len as i64 > stream.receive_window.get() {
            self.note(format_args!("client violated flow control for stream {}", stream.id));
            self.reject(&stream, ErrorCode::FlowControlError);
            return Ok(());
        }
        stream.receive_window.set(stream.receive_window.get() - header.len as i64);
        if let Some(promised) = stream.promised.get() {
            match promised.checked_sub(content.len() as u64) {
                Some(left) => stream.promised.set(Some(left)),
                None => return self.malformed(&stream, "client intended to send body data larger than declared"),
            }
        }
        if header.has(flag::END_STREAM) {
            return self.end_input(&stream, content);
        }
        if stream.is_broken() || stream.done.get() || stream.is_malformed() {
            self.mux.cut_if_full(&stream);
            return Ok(());
        }
        stream.input.borrow_mut().extend_from_slice(content);
        // Padding is nothing that anybody will use.
        stream.note_used(header.len - content.len());
        stream.wake();
        Ok(())
    }

    fn end_input(&mut self, stream: &Rc<Stream>, content: &[u8]) -> Result<(), Fault> {
        if stream.promised.get().is_some_and(|left| left > 0) {
            stream.input_ended.set(true);
            return self.malformed(stream, "client prematurely closed stream");
        }
        if !stream.is_broken() && !stream.done.get() && !stream.is_malformed() {
            stream.input.borrow_mut().extend_from_slice(content);
        }
        stream.input_ended.set(true);
        stream.wake();
        self.mux.remove_if_over(stream);
        Ok(())
    }

    /// A request breaks the rules behind its head.
    fn malformed(&self, stream: &Rc<Stream>, text: &str) -> Result<(), Fault> {
        if !stream.is_malformed() {
            self.note(format_args!("{text}"));
            stream.note_fault(ErrorCode::ProtocolError);
        }
        self.mux.remove_if_over(stream);
        Ok(())
    }

    /// A body goes on after the end of its stream. If the end was ours, the client may not have known.
    fn closed(&self, id: u32) -> Result<(), Fault> {
        if !self.mux.was_cut(id) {
            self.mux.queue_reset(id, ErrorCode::StreamClosed);
        }
        Ok(())
    }

    fn headers(&mut self, header: FrameHeader, payload: &[u8], worker: &Rc<Worker>) -> Result<(), Fault> {
        if header.stream.is_multiple_of(2) {
            return Err(fault(ErrorCode::ProtocolError, "client sent HEADERS frame with incorrect identifier"));
        }
        let Some(content) = header.content(payload) else {
            let code = if header.has(flag::PADDED) { ErrorCode::ProtocolError } else { ErrorCode::FrameSizeError };
            return Err(fault(code, "client sent HEADERS frame with incorrect length"));
        };
        if header.has(flag::PRIORITY) {
            let at = usize::from(header.has(flag::PADDED));
            check_dependency(header.stream, &payload[at..])?;
        }
        self.block.stream = header.stream;
        self.block.end_stream = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            self.block.stream = 0;
            return self.block(header.stream, self.block.end_stream, content, worker);
        }
        self.block.bytes.clear();
        self.block.frames = 0;
        self.block.bytes.extend_from_slice(content);
        Ok(())
    }

    fn continuation(&mut self, header: FrameHeader, payload: &[u8], worker: &Rc<Worker>) -> Result<(), Fault> {
        if self.block.stream == 0 {
            return Err(fault(ErrorCode::ProtocolError, "client sent unexpected CONTINUATION frame"));
        }
        self.block.frames += 1;
        self.block.bytes.extend_from_slice(payload);
        // A block that is longer than the head may be stands for one that is longer still.
        if self.block.frames > BLOCK_FRAMES_MAX || self.block.bytes.len() > self.limits.head_bytes_max() {
            return Err(fault(ErrorCode::EnhanceYourCalm, "client sent too large header block"));
        }
        if header.has(flag::END_HEADERS) {
            let bytes = std::mem::take(&mut self.block.bytes);
            self.block.stream = 0;
            return self.block(header.stream, self.block.end_stream, &bytes, worker);
        }
        Ok(())
    }

    /// Takes a whole header block: that of a new request, or of the trailers of one.
    fn block(&mut self, id: u32, end_stream: bool, block: &[u8], worker: &Rc<Worker>) -> Result<(), Fault> {
        let bytes_max = (self.limits.head_bytes_max() * BLOCK_GROWTH_MAX).max(BLOCK_FIELDS_BYTES);
        if id > self.last_stream {
            (self.stream_before, self.last_stream) = (self.last_stream, id);
            self.head.begin(&self.limits);
            let Input { decoder, head, .. } = self;
            decoder.decode_at_most(block, bytes_max, |name, value| head.field(name, value)).map_err(bad_block)?;
            return open::open(self, id, block.len(), end_stream, worker);
        }
        if id == self.given_up {
            self.given_up = 0;
            self.mux.note_cut(id);
            return self.decoder.decode_at_most(block, bytes_max, |_, _| {}).map_err(bad_block);
        }
        let mut malformed = false;
        let check = |name: &[u8], value: &[u8]| {
            malformed |= check_value(value).and_then(|()| check_field(name, value)).is_err()
        };
        self.decoder.decode_at_most(block, bytes_max, check).map_err(bad_block)?;
        let Some(stream) = self.mux.find(id) else {
            return match id > self.stream_before && id < self.last_stream {
                true => Err(fault(ErrorCode::ProtocolError, "client sent HEADERS frame with incorrect identifier")),
                // Trailers that were on their way when we ended the stream.
                false if end_stream && self.mux.was_cut(id) => Ok(()),
                false => Err(fault(ErrorCode::StreamClosed, "client sent HEADERS frame for a stream that is closed")),
            };
        };
        if stream.was_reset.get() {
            return Err(fault(ErrorCode::StreamClosed, "client sent HEADERS frame for a stream that is closed"));
        }
        if stream.input_ended.get() {
            self.reject(&stream, ErrorCode::StreamClosed);
            return Ok(());
        }
        if malformed || !end_stream {
            stream.input_ended.set(end_stream);
            return self.malformed(&stream, "client sent invalid trailers");
        }
        self.end_input(&stream, b"")
    }

    fn priority(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        if header.stream == 0 {
            return Err(fault(ErrorCode::ProtocolError, "client sent PRIORITY frame with incorrect identifier"));
        }
        if payload.len() != 5 {
            return Err(fault(ErrorCode::FrameSizeError, "client sent PRIORITY frame with incorrect length"));
        }
        check_dependency(header.stream, payload)
    }

    fn reset(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 4 {
            return Err(fault(ErrorCode::FrameSizeError, "client sent RST_STREAM frame with incorrect length"));
        }
        if header.stream == 0 || header.stream > self.last_stream {
            return Err(fault(ErrorCode::ProtocolError, "client sent RST_STREAM frame with incorrect identifier"));
        }
        // From now on the client knows.
        self.mux.forget_cut(header.stream);
        if let Some(stream) = self.mux.find(header.stream) {
            stream.was_reset.set(true);
            self.note_reset(&stream);
            stream.break_off();
            self.mux.remove_if_over(&stream);
        }
        Ok(())
    }

    /// Resets a stream whose client breaks the rules.
    fn reject(&mut self, stream: &Stream, code: ErrorCode) {
        self.note_reset(stream);
        stream.reject(code);
    }

    /// Takes note that a request ends unanswered by what its client does: whoever makes us reset a stream takes it back as well.
    fn note_reset(&mut self, stream: &Stream) {
        if !stream.end_queued.get() {
            self.flood.count_reset();
            COUNTERS.http2_resets.fetch_add(1, Relaxed);
        }
    }

    /// Takes note that there was no place for a stream.
    pub(super) fn note_refusal(&mut self) {
        self.flood.count_refusal();
    }

    fn settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        let is_ack = header.has(flag::ACK);
        if header.stream != 0 {
            return Err(fault(ErrorCode::ProtocolError, "client sent SETTINGS frame with incorrect identifier"));
        }
        if !payload.len().is_multiple_of(6) || (is_ack && !payload.is_empty()) {
            return Err(fault(ErrorCode::FrameSizeError, "client sent SETTINGS frame with incorrect length"));
        }
        if is_ack {
            return Ok(());
        }
        // A frame may say the same setting thousands of times, and each change of windows concerns all streams: the last one counts.
        let mut window = None;
        for one in payload.as_chunks::<6>().0 {
            let [i0, i1, v0, v1, v2, v3] = *one;
            let (name, value) = (u16::from_be_bytes([i0, i1]), u32::from_be_bytes([v0, v1, v2, v3]));
            match name {
                setting::INITIAL_WINDOW_SIZE => window = Some(initial_window(value)?),
                _ => set(&self.mux, name, value)?,
            }
        }
        if let Some(bytes) = window {
            self.set_initial_window(bytes)?;
        }
        write_frame(kind::SETTINGS, flag::ACK, 0, b"", &mut self.mux.conn.output.borrow_mut().buf);
        Ok(())
    }

    /// Streams that are open get the difference (section 6.9.2).
    fn set_initial_window(&mut self, bytes: i64) -> Result<(), Fault> {
        let more = bytes - self.mux.initial_window.replace(bytes);
        let mut overflows = false;
        self.mux.for_each(|stream| {
            let window = stream.send_window.get() + more;
            overflows |= window > WINDOW_BYTES_MAX;
            stream.send_window.set(window);
            if stream.has_unsent() {
                self.mux.line_up(stream);
            }
        });
        if overflows { Err(BAD_INITIAL_WINDOW) } else { Ok(()) }
    }

    fn ping(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 8 {
            return Err(fault(ErrorCode::FrameSizeError, "client sent PING frame with incorrect length"));
        }
        if header.stream != 0 {
            return Err(fault(ErrorCode::ProtocolError, "client sent PING frame with incorrect identifier"));
        }
        if header.has(flag::ACK) {
            if self.farewell == Farewell::Announced && payload == FAREWELL_PING {
                self.farewell = Farewell::Heard;
            }
        } else {
            write_frame(kind::PING, flag::ACK, 0, payload, &mut self.mux.conn.output.borrow_mut().buf);
        }
        Ok(())
    }

    fn goaway(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() < 8 {
            return Err(fault(ErrorCode::FrameSizeError, "client sent GOAWAY frame with incorrect length"));
        }
        if header.stream != 0 {
            return Err(fault(ErrorCode::ProtocolError, "client sent GOAWAY frame with incorrect identifier"));
        }
        // It pushes nothing, so what it has to say is that it leaves when its answers have come.
        Ok(())
    }

    fn window_update(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        let Ok(bytes) = <[u8; 4]>::try_from(payload) else {
            return Err(fault(ErrorCode::FrameSizeError, "client sent WINDOW_UPDATE frame with incorrect length"));
        };
        let more = i64::from(u32::from_be_bytes(bytes) & 0x7fff_ffff);
        if header.stream == 0 {
            let window = self.mux.send_window.get() + more;
            if more == 0 || window > WINDOW_BYTES_MAX {
                let code = if more == 0 { ErrorCode::ProtocolError } else { ErrorCode::FlowControlError };
                return Err(fault(code, "client violated connection flow control"));
            }
            self.mux.send_window.set(window);
            return Ok(());
        }
        if header.stream > self.last_stream {
            return Err(fault(ErrorCode::ProtocolError, "client sent WINDOW_UPDATE frame for a stream that is idle"));
        }
        let Some(stream) = self.mux.find(header.stream) else { return Ok(()) };
        let window = stream.send_window.get() + more;
        if more == 0 || window > WINDOW_BYTES_MAX {
            self.note(format_args!("client violated flow control for stream {}", stream.id));
            self.reject(&stream, if more == 0 { ErrorCode::ProtocolError } else { ErrorCode::FlowControlError });
            return Ok(());
        }
        stream.send_window.set(window);
        if stream.has_unsent() {
            self.mux.line_up(&stream);
        }
        Ok(())
    }

    pub(super) fn note(&self, message: std::fmt::Arguments<'_>) {
        write_for_connection(&self.mux.conn, Level::Info, message);
    }
}

const BAD_INITIAL_WINDOW: Fault =
    fault(ErrorCode::FlowControlError, "client sent SETTINGS frame with incorrect INITIAL_WINDOW_SIZE value");

fn initial_window(value: u32) -> Result<i64, Fault> {
    Some(i64::from(value)).filter(|bytes| *bytes <= WINDOW_BYTES_MAX).ok_or(BAD_INITIAL_WINDOW)
}

/// Takes any other setting.
fn set(mux: &Mux, name: u16, value: u32) -> Result<(), Fault> {
    match name {
        setting::ENABLE_PUSH if value > 1 => {
            Err(fault(ErrorCode::ProtocolError, "client sent SETTINGS frame with incorrect ENABLE_PUSH value"))
        }
        setting::NO_RFC7540_PRIORITIES | setting::ENABLE_CONNECT_PROTOCOL if value > 1 => {
            Err(fault(ErrorCode::ProtocolError, "client sent SETTINGS frame with a value that is neither 0 nor 1"))
        }
        setting::MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => {
            Err(fault(ErrorCode::ProtocolError, "client sent SETTINGS frame with incorrect MAX_FRAME_SIZE value"))
        }
        setting::MAX_FRAME_SIZE => {
            mux.frame_bytes_max.set(value as usize);
            Ok(())
        }
        // The encoder keeps no table, and nothing is pushed.
        _ => Ok(()),
    }
}

/// A stream that depends on itself (RFC 7540, section 5.3.1). What else clients say of priorities of that kind is obsolete.
fn check_dependency(stream: u32, priority: &[u8]) -> Result<(), Fault> {
    let of = priority.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes) & 0x7fff_ffff);
    if of == Some(stream) {
        return Err(fault(ErrorCode::ProtocolError, "client sent a priority with incorrect dependency"));
    }
    Ok(())
}
