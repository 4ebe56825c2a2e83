//! Request heads: from the first byte to the empty line.
//!
//! # Why not `httparse`
//! nginx's rules differ from httparse's in kind, not in degree: HTTP/0.9, absolute targets, names that are ignored
//! or let through by configuration, the limits per line, the exact error that an operator finds in the log, and the
//! raw head as sent. Each needs positions that httparse does not give, and httparse starts again from the first byte
//! on every read. The parser here reads line by line and remembers the last complete line.
//!
//! # How it works
//! - **I1** All positions count from the first byte of the request line; the caller's buffer may only grow behind it.
//! - **I2** A line takes effect as a whole or not at all, so an incomplete line is simply read again.
//! - **I3** An incomplete line is read again only when its LF has come: a client that sends single bytes costs one
//!   search per byte and two readings per line. Errors in a line may therefore be reported when it is complete.
//! - **I4** Nothing of the caller's buffer is needed after completion: the head is copied once into memory that is
//!   kept from request to request.
//! - **I5** A head that is the one before it, byte for byte, is not read again: clients that poll, health checks and
//!   proxies send the same one over and over. Nobody may have changed the fields or the host meanwhile; what else stands
//!   in public members is kept a second time for this.
//! - **I6** What was found out of bytes counts for these bytes alone. `raw` holds every byte that has been looked at, and
//!   parsing goes on only in a buffer that begins with them, under the same rules. Any other buffer begins a new head:
//!   positions that one client's bytes have passed can never be applied to another's.

use crate::bad_request::{BadRequest, Duplicate};
use crate::field_line::{FieldLine, parse_field_line, parse_length};
use crate::fields::{Entry, Fields, Span};
use crate::host::validate_host;
use crate::known::{Known, KnownSet};
use crate::method::Method;
use crate::request_line::{RequestLine, parse_request_line};
use crate::uri;

/// The largest sizes of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// `client_header_buffer_size`: the buffer that every request starts with.
    pub buffer_bytes: usize,
    /// `large_client_header_buffers`, first argument: how many more buffers a head may take.
    pub large_buffer_count: usize,
    /// `large_client_header_buffers`, second argument: their size, and so the longest line.
    pub large_buffer_bytes: usize,
    /// `max_headers`: the most header fields.
    pub fields_max: usize,
}

impl Default for HeadLimits {
    fn default() -> HeadLimits {
        HeadLimits { buffer_bytes: 1024, large_buffer_count: 4, large_buffer_bytes: 8192, fields_max: 1000 }
    }
}

impl HeadLimits {
    /// The most bytes that a head within these limits can have: the size of buffer that is always enough.
    pub fn head_bytes_max(&self) -> usize {
        self.buffer_bytes.saturating_add(self.large_buffer_count.saturating_mul(self.large_buffer_bytes))
    }
}

/// What configuration says about reading heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadOptions {
    /// `ignore_invalid_headers`: drop fields with odd names instead of letting them through.
    pub ignore_invalid_headers: bool,
    /// `underscores_in_headers`: an underscore in a name is not odd.
    pub underscores_in_headers: bool,
    /// `merge_slashes`: a run of slashes in the path counts as one.
    pub merge_slashes: bool,
    /// The head came in frames: its version is HTTP/2.0, which no other head may have.
    pub framed: bool,
}

impl Default for HeadOptions {
    fn default() -> HeadOptions {
        HeadOptions { ignore_invalid_headers: true, underscores_in_headers: false, merge_slashes: true, framed: false }
    }
}

/// The outcome of parsing a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The head is complete; this many bytes of the buffer belong to it.
    Complete(usize),
    /// More bytes are needed.
    Partial,
}

/// A request head. One is kept per connection and reused; every method answers for the last head that was complete,
/// or, after an error, for the lines before it.
#[derive(Clone, Default)]
pub struct RequestHead {
    /// The request method.
    pub method: Method,
    /// Major and minor version: (0, 9), (1, 0), (1, 1), or a later minor version as sent, at most 255.
    pub version: (u8, u8),
    /// The header fields in their order, without ignored ones.
    pub fields: Fields,
    /// The value of `Content-Length`.
    pub content_length: Option<u64>,
    /// Whether the body comes in chunks.
    pub chunked: bool,
    /// Whether version and `Connection` allow another request on this connection.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// Whether there is an `Upgrade` field and `Connection` names it.
    pub upgrade: bool,
    host: Vec<u8>,
    /// The head as sent, from the request line to the empty line.
    raw: Vec<u8>,
    line: RequestLine,
    /// The path, when it is not its own normal form.
    path: Vec<u8>,
    quoted: bool,
    progress: Progress,
    /// What a repetition needs (I5); `None` after an error.
    read: Option<Read>,
}

impl std::fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_blank() {
            return f.write_str("RequestHead(nothing)");
        }
        let RequestHead { method, version, fields, content_length, host, raw, progress, .. } = self;
        f.debug_struct("RequestHead")
            .field("method", method)
            .field("version", version)
            .field("fields", fields)
            .field("content_length", content_length)
            .field("host", &bstr::BStr::new(host))
            .field("raw", &bstr::BStr::new(raw))
            .field("stage", &progress.stage)
            .finish_non_exhaustive()
    }
}

/// What was read of a head apart from its fields, and under which rules.
#[derive(Clone, Copy, Debug)]
struct Read {
    limits: HeadLimits,
    options: HeadOptions,
    method: Method,
    version: (u8, u8),
    content_length: Option<u64>,
    chunked: bool,
    keep_alive: bool,
    expect_continue: bool,
    upgrade: bool,
}

/// State of parsing between two reads.
#[derive(Clone, Debug, Default)]
struct Progress {
    stage: Stage,
    /// The rules under which the bytes of an incomplete head were read.
    rules: Option<(HeadLimits, HeadOptions)>,
    /// Start of the first line that is not parsed yet.
    line_start: usize,
    /// The line that starts there has no LF before this place; 0 if it was not looked at.
    searched: usize,
    buffers: Buffers,
    entries: Vec<Entry>,
    present: KnownSet,
    /// Lines that were dropped for an odd name.
    ignored: Vec<Span>,
    connection: Connection,
    host_from_target: bool,
}

impl Progress {
    fn clear(&mut self) {
        let Progress {
            stage,
            rules,
            line_start,
            searched,
            buffers,
            entries,
            present,
            ignored,
            connection,
            host_from_target,
        } = self;
        (*stage, *rules, *line_start, *searched) = (Stage::RequestLine, None, 0, 0);
        (*buffers, *present, *connection) = (Buffers::default(), KnownSet::default(), Connection::ByVersion);
        *host_from_target = false;
        entries.clear();
        ignored.clear();
    }

    fn is_blank(&self) -> bool {
        self.rules.is_none() && self.line_start == 0 && self.entries.is_empty() && self.ignored.is_empty()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    RequestLine,
    Fields,
    Done,
    /// It is complete and belongs to the past: only a repetition may bring it back (I5).
    Kept,
}

/// What the `Connection` fields ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Connection {
    #[default]
    ByVersion,
    Close,
    KeepAlive,
}

/// Bookkeeping of the buffers that nginx would have used, so that its limits hold exactly.
#[derive(Clone, Copy, Debug, Default)]
struct Buffers {
    /// Up to where the head fits the buffers taken so far.
    end: usize,
    large_used: usize,
}

impl Buffers {
    /// Takes large buffers until the line that starts at `line_start` fits up to `end`; `false` if they run out.
    ///
    /// A line moves as a whole into the next buffer when the last one is full.
    #[inline]
    fn hold(&mut self, limits: &HeadLimits, line_start: usize, end: usize) -> bool {
        while end > self.end {
            if self.end - line_start >= limits.large_buffer_bytes || self.large_used >= limits.large_buffer_count {
                return false;
            }
            self.large_used += 1;
            self.end = line_start + limits.large_buffer_bytes;
        }
        true
    }
}

/// Parses as much of a request head as `buf` holds.
///
/// `buf` starts with the first byte after the previous request. While it starts with the bytes of the call before, a head
/// that was incomplete is read on; other bytes, and any call after completion or an error, begin a new head. Blank lines
/// before the request are skipped.
///
/// # Errors
/// [`BadRequest`]; the connection cannot be used further, and `head` holds what was read for the log.
///
/// Source: nginx 1.22-1.27, `ngx_http_request.c`.
pub fn parse_request(
    buf: &[u8],
    limits: &HeadLimits,
    options: &HeadOptions,
    head: &mut RequestHead,
) -> Result<Parsed, BadRequest> {
    let start = blank_bytes(buf);
    let unread = &buf[start..];
    if matches!(head.progress.stage, Stage::Done | Stage::Kept) {
        if head.is_repeated(buf, limits, options) {
            head.progress.stage = Stage::Done;
            return Ok(Parsed::Complete(head.raw.len()));
        }
        head.clear();
    } else if !head.is_continued(unread, limits, options) {
        head.clear();
    }
    // nginx would skip for ever; here the bytes stay in the caller's buffer, which must not.
    if start > limits.buffer_bytes.max(limits.large_buffer_bytes) {
        return Err(head.keep_for_log(unread, BadRequest::InvalidRequest, limits));
    }
    match head.parse(unread, limits, options) {
        Ok(Parsed::Complete(consumed)) => {
            head.note_read(limits, options);
            Ok(Parsed::Complete(start + consumed))
        }
        Ok(Parsed::Partial) => {
            head.note_seen(unread, limits, options);
            Ok(Parsed::Partial)
        }
        Err(error) => Err(head.keep_for_log(unread, error, limits)),
    }
}

/// How many bytes of blank lines stand before the request line.
#[inline]
fn blank_bytes(buf: &[u8]) -> usize {
    match buf.first() {
        Some(b'\r' | b'\n') => buf.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count(),
        _ => 0,
    }
}

/// Field names of which a request may have one at most.
const UNIQUE: &[Known] = &[
    Known::ContentLength,
    Known::TransferEncoding,
    Known::IfModifiedSince,
    Known::IfUnmodifiedSince,
    Known::IfMatch,
    Known::IfNoneMatch,
    Known::IfRange,
    Known::ContentRange,
    Known::Expect,
    Known::Authorization,
    Known::ProxyAuthorization,
];

const UNIQUE_SET: KnownSet = KnownSet::of(UNIQUE);

impl RequestHead {
    /// An empty head.
    pub fn new() -> RequestHead {
        RequestHead::default()
    }

    /// Forgets everything and keeps the memory; also abandons a head that is half parsed.
    pub fn clear(&mut self) {
        let RequestHead {
            method,
            version,
            fields,
            content_length,
            chunked,
            keep_alive,
            expect_continue,
            upgrade,
            host,
            raw,
            line,
            path,
            quoted,
            progress,
            read,
        } = self;
        (*method, *version, *content_length) = (Method::Get, (0, 0), None);
        for flag in [chunked, keep_alive, expect_continue, upgrade, quoted] {
            *flag = false;
        }
        fields.clear();
        host.clear();
        raw.clear();
        path.clear();
        *line = RequestLine::default();
        *read = None;
        progress.clear();
    }

    /// Makes ready for another head, of another client. A complete one is kept, to be compared with the next (I5), but
    /// nobody is to ask for it; of any other nothing is left.
    pub fn reset(&mut self) {
        if self.read.is_none() || self.progress.stage != Stage::Done {
            return self.clear();
        }
        self.progress.stage = Stage::Kept;
        self.method = Method::Get;
        self.version = (0, 0);
        self.content_length = None;
        self.chunked = false;
        self.keep_alive = false;
        self.expect_continue = false;
        self.upgrade = false;
    }

    /// Whether nothing is known of a head.
    fn is_blank(&self) -> bool {
        let RequestHead {
            method,
            version,
            fields,
            content_length,
            chunked,
            keep_alive,
            expect_continue,
            upgrade,
            host,
            raw,
            line,
            path,
            quoted,
            progress,
            read,
        } = self;
        let is_kept = progress.stage == Stage::Kept;
        (*method, *version, *content_length) == (Method::Get, (0, 0), None)
            && !(*chunked || *keep_alive || *expect_continue || *upgrade)
            && is_kept == read.is_some()
            && (is_kept || progress.stage == Stage::RequestLine)
            && (is_kept || fields.is_empty() && host.is_empty() && raw.is_empty() && path.is_empty() && !quoted)
            && (is_kept || *line == RequestLine::default() && progress.is_blank())
    }

    /// Ends a head that was not complete: its methods answer for the lines that were, and
    /// [`request_line`](Self::request_line) for as much of the first line as has come.
    pub fn end_early(&mut self) {
        if self.progress.stage == Stage::Done {
            return;
        }
        if self.progress.stage == Stage::Kept {
            self.clear();
        }
        let mut seen = std::mem::take(&mut self.raw);
        if self.progress.stage == Stage::Fields {
            seen.truncate(self.progress.line_start);
        }
        if self.progress.stage == Stage::RequestLine {
            let end = seen.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(seen.len());
            self.line = RequestLine { end, ..RequestLine::default() };
        }
        self.keep_alive = false;
        self.complete(&seen);
    }

    /// Becomes a copy of `other`, a complete head, in the memory that is there.
    pub fn copy_from(&mut self, other: &RequestHead) {
        let RequestHead {
            method,
            version,
            fields,
            content_length,
            chunked,
            keep_alive,
            expect_continue,
            upgrade,
            host,
            raw,
            line,
            path,
            quoted,
            // Reading goes on with a new head.
            progress: _,
            // Only the head that was read may be taken for a repetition.
            read: _,
        } = other;
        self.method = *method;
        self.version = *version;
        self.fields.copy_from(fields);
        self.content_length = *content_length;
        self.chunked = *chunked;
        self.keep_alive = *keep_alive;
        self.expect_continue = *expect_continue;
        self.upgrade = *upgrade;
        self.host.clone_from(host);
        self.raw.clone_from(raw);
        self.line = line.clone();
        self.path.clone_from(path);
        self.quoted = *quoted;
        self.progress.stage = Stage::Done;
        self.progress.ignored.clear();
        self.read = None;
    }

    /// Whether `buf` begins with the head that was read last; everything then is as it was after reading it (I5).
    fn is_repeated(&mut self, buf: &[u8], limits: &HeadLimits, options: &HeadOptions) -> bool {
        let Some(read) = &self.read else { return false };
        if !buf.starts_with(&self.raw)
            || !self.fields.are_as_adopted()
            || read.limits != *limits
            || read.options != *options
        {
            return false;
        }
        self.method = read.method;
        self.version = read.version;
        self.content_length = read.content_length;
        self.chunked = read.chunked;
        self.keep_alive = read.keep_alive;
        self.expect_continue = read.expect_continue;
        self.upgrade = read.upgrade;
        true
    }

    /// Whether `buf` begins with the bytes of which a part of a head was read, so that it can be read on (I6).
    #[inline]
    fn is_continued(&self, buf: &[u8], limits: &HeadLimits, options: &HeadOptions) -> bool {
        self.progress.rules == Some((*limits, *options)) && buf.starts_with(&self.raw)
    }

    /// Remembers what an incomplete head was read from (I6).
    fn note_seen(&mut self, buf: &[u8], limits: &HeadLimits, options: &HeadOptions) {
        // The rest begins the buffer already, see `is_continued`.
        self.raw.extend_from_slice(buf.get(self.raw.len()..).unwrap_or_default());
        self.progress.rules = Some((*limits, *options));
    }

    fn note_read(&mut self, limits: &HeadLimits, options: &HeadOptions) {
        self.read = Some(Read {
            limits: *limits,
            options: *options,
            method: self.method,
            version: self.version,
            content_length: self.content_length,
            chunked: self.chunked,
            keep_alive: self.keep_alive,
            expect_continue: self.expect_continue,
            upgrade: self.upgrade,
        });
    }

    /// The server name that the client asked for, from an absolute target, else from `Host`: valid, in lower case,
    /// without port; empty without one.
    pub fn host(&self) -> &[u8] {
        &self.host
    }

    /// Puts another server name in place; the `Host` field is the caller's to change.
    pub fn set_host(&mut self, host: &[u8]) {
        self.host.clear();
        self.host.extend_from_slice(host);
        // Such a head cannot be taken for one that was read (I5).
        self.read = None;
    }

    /// The method's text.
    pub fn method_text(&self) -> &[u8] {
        self.raw.get(..self.line.method_end).unwrap_or_default()
    }

    /// `$request`: the request line without its end.
    pub fn request_line(&self) -> &[u8] {
        self.raw.get(..self.line.end).unwrap_or_default()
    }

    /// Whether the request line was complete and made sense.
    pub fn has_request_line(&self) -> bool {
        self.line.next > 0
    }

    /// Bytes of the lines that were read: all of them, once the head is complete.
    pub fn read_bytes(&self) -> usize {
        if self.has_request_line() { self.raw.len() } else { 0 }
    }

    /// Remembers a request line that could not be read, so that logs can show it. `input` begins with it.
    pub fn keep_bad_line(&mut self, input: &[u8]) {
        if self.line.end != 0 {
            return;
        }
        let end = memchr::memchr(b'\n', input).unwrap_or(input.len());
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        self.raw.clear();
        self.raw.extend_from_slice(line);
        self.line = RequestLine { end: line.len(), ..RequestLine::default() };
    }

    /// `$request_uri`: path and arguments as sent; `/` when an absolute target ends behind its host; empty
    /// where no request line could be read.
    ///
    /// It starts with `?` when an absolute target has arguments but no path.
    pub fn target(&self) -> &[u8] {
        match self.line.target.of(&self.raw) {
            b"" if self.line.authority.is_some() => b"/",
            target => target,
        }
    }

    /// `$server_protocol`: as sent, e.g. `HTTP/1.1`; empty for HTTP/0.9.
    pub fn protocol(&self) -> &[u8] {
        self.line.protocol.of(&self.raw)
    }

    /// The scheme of an absolute target as sent.
    pub fn scheme(&self) -> Option<&[u8]> {
        self.line.authority.map(|authority| authority.scheme.of(&self.raw))
    }

    /// The normalised path: decoded, without dot segments.
    pub fn path(&self) -> &[u8] {
        if self.line.shape.plain {
            self.raw.get(self.line.target.start as usize..self.line.shape.path_end).unwrap_or_default()
        } else {
            &self.path
        }
    }

    /// `$args`: what follows `?`, without a fragment; empty without arguments.
    pub fn args(&self) -> &[u8] {
        let args = self.raw.get(self.line.shape.path_end + 1..self.line.target.end as usize).unwrap_or_default();
        if self.line.shape.plain { args } else { uri::args_of(self.line.target.of(&self.raw)) }
    }

    /// Whether the path was sent with escapes, so that it must be escaped again where it is sent on.
    pub fn quoted(&self) -> bool {
        self.quoted
    }

    /// The head as sent, from the request line to the empty line; blank lines before it are left out.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The length of the request line with its line end: where the header fields start in [`RequestHead::raw`].
    pub fn request_line_bytes(&self) -> usize {
        self.line.next
    }

    /// Lines that were dropped because of their names, for the log: `client sent invalid header line: "…"`.
    pub fn ignored_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.progress.ignored.iter().map(|span| span.of(&self.raw))
    }

    fn parse(&mut self, buf: &[u8], limits: &HeadLimits, options: &HeadOptions) -> Result<Parsed, BadRequest> {
        if self.progress.stage == Stage::RequestLine {
            if buf.is_empty() {
                return Ok(Parsed::Partial);
            }
            self.progress.buffers = Buffers { end: limits.buffer_bytes, large_used: 0 };
            if !self.parse_line(buf, limits, options)? {
                return Ok(Parsed::Partial);
            }
            if self.version < (1, 0) {
                self.complete(&buf[..self.line.next]);
                return Ok(Parsed::Complete(self.line.next));
            }
        }
        self.parse_fields(buf, limits, options)
    }

    /// Whether the incomplete line at `line_start` cannot have become complete since it was last read (I3).
    #[inline]
    fn is_still_incomplete(&mut self, buf: &[u8]) -> bool {
        let searched = std::mem::replace(&mut self.progress.searched, buf.len());
        searched != 0 && memchr::memchr(b'\n', buf.get(searched..).unwrap_or_default()).is_none()
    }

    /// Parses the request line; `false` while it is incomplete.
    fn parse_line(&mut self, buf: &[u8], limits: &HeadLimits, options: &HeadOptions) -> Result<bool, BadRequest> {
        if self.is_still_incomplete(buf) || !parse_request_line(buf, options.framed, &mut self.line)? {
            // A buffer that is full to its last byte already needs the next one.
            let fits = self.progress.buffers.hold(limits, 0, buf.len() + 1);
            return if fits { Ok(false) } else { Err(BadRequest::UriTooLong) };
        }
        if !self.progress.buffers.hold(limits, 0, self.line.next) {
            return Err(BadRequest::UriTooLong);
        }
        self.progress.searched = 0;
        self.progress.line_start = self.line.next;
        self.progress.stage = Stage::Fields;
        self.method = self.line.method;
        self.version = self.line.version;
        if !self.line.shape.plain {
            let target = self.line.target.of(buf);
            if uri::normalise(target, options.merge_slashes, &mut self.path).is_err() {
                // A target that makes no sense has no path.
                self.path.clear();
                return Err(BadRequest::InvalidRequest);
            }
            self.quoted = memchr::memchr(b'%', uri::split_args(target).0).is_some();
        }
        if let Some(authority) = self.line.authority {
            validate_host(authority.host.of(buf), &mut self.host).map_err(|_| BadRequest::InvalidHostInLine)?;
            self.progress.host_from_target = true;
        }
        Ok(true)
    }

    fn parse_fields(&mut self, head: &[u8], limits: &HeadLimits, options: &HeadOptions) -> Result<Parsed, BadRequest> {
        if self.is_still_incomplete(head) {
            return self.incomplete(head, limits);
        }
        loop {
            let line_start = self.progress.line_start;
            let (name, value, next, odd) = match parse_field_line(head, line_start, options.underscores_in_headers) {
                FieldLine::Field { name, value, next, odd_name } => (name, value, next, odd_name),
                FieldLine::Incomplete => return self.incomplete(head, limits),
                FieldLine::Bad(at) => {
                    return Err(BadRequest::InvalidHeaderLine(head[line_start..at].into(), head[at]));
                }
                FieldLine::End(next) => {
                    if !self.progress.buffers.hold(limits, line_start, next) {
                        return Err(self.too_large(head, limits));
                    }
                    self.check(head)?;
                    self.complete(&head[..next]);
                    return Ok(Parsed::Complete(next));
                }
            };
            if !self.progress.buffers.hold(limits, line_start, next) {
                return Err(self.too_large(head, limits));
            }
            self.progress.line_start = next;
            if odd && options.ignore_invalid_headers {
                self.progress.ignored.push(Span { start: name.start, end: value.end });
                continue;
            }
            if self.progress.entries.len() >= limits.fields_max {
                return Err(BadRequest::TooManyHeaderLines);
            }
            self.add(head, Entry { name, value, known: Known::of(name.of(head)) })?;
        }
    }

    #[cold]
    fn incomplete(&mut self, head: &[u8], limits: &HeadLimits) -> Result<Parsed, BadRequest> {
        if !self.progress.buffers.hold(limits, self.progress.line_start, head.len() + 1) {
            return Err(self.too_large(head, limits));
        }
        self.progress.searched = head.len();
        Ok(Parsed::Partial)
    }

    #[cold]
    fn too_large(&self, head: &[u8], limits: &HeadLimits) -> BadRequest {
        /// The part of a line that goes into the log.
        const LOGGED_BYTES_MAX: usize = 2048 - 300;
        let line = head.get(self.progress.line_start..).unwrap_or_default();
        if line.is_empty() {
            return BadRequest::HeadTooLarge;
        }
        BadRequest::HeaderLineTooLong(line[..line.len().min(limits.large_buffer_bytes).min(LOGGED_BYTES_MAX)].into())
    }

    /// Adds a field and does what its name asks for.
    #[inline]
    fn add(&mut self, head: &[u8], entry: Entry) -> Result<(), BadRequest> {
        let known = entry.known;
        let progress = &mut self.progress;
        match known {
            Known::Other => {}
            Known::Host => {
                if progress.present.contains(Known::Host) {
                    return Err(BadRequest::DuplicateHost(self.duplicate(head, entry)));
                }
                let value = entry.value.of(head);
                if progress.host_from_target {
                    crate::host::host_name(value).map_err(|_| BadRequest::InvalidHost)?;
                } else {
                    validate_host(value, &mut self.host).map_err(|_| BadRequest::InvalidHost)?;
                }
            }
            Known::Connection => {
                let (connection, upgrade) = parse_connection(entry.value.of(head));
                if connection != Connection::ByVersion {
                    progress.connection = connection;
                }
                self.upgrade |= upgrade;
            }
            _ => {
                if UNIQUE_SET.contains(known) && progress.present.contains(known) {
                    return Err(BadRequest::DuplicateHeader(self.duplicate(head, entry)));
                }
            }
        }
        self.progress.present.insert(known);
        self.progress.entries.push(entry);
        Ok(())
    }

    /// The text of a field and of the one before it with the same name.
    #[cold]
    fn duplicate(&self, head: &[u8], entry: Entry) -> Box<Duplicate> {
        let text = |entry: &Entry| [entry.name.of(head), b": ", entry.value.of(head)].concat();
        let old = self.progress.entries.iter().find(|old| old.known == entry.known);
        Box::new(Duplicate { line: text(&entry), previous: old.map(text).unwrap_or_default() })
    }

    /// The checks that need all fields.
    fn check(&mut self, head: &[u8]) -> Result<(), BadRequest> {
        let present = self.progress.present;
        if !present.contains(Known::Host) && self.version > (1, 0) {
            return Err(BadRequest::NoHost);
        }
        if present.contains(Known::ContentLength) {
            let length = parse_length(self.pending(head, Known::ContentLength));
            self.content_length = Some(length.ok_or(BadRequest::InvalidContentLength)?);
        }
        if present.contains(Known::TransferEncoding) {
            if self.version < (1, 1) {
                return Err(BadRequest::TransferEncodingBefore11);
            }
            let value = self.pending(head, Known::TransferEncoding);
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(BadRequest::UnknownTransferEncoding(value.into()));
            }
            if self.content_length.is_some() {
                return Err(BadRequest::LengthAndTransferEncoding);
            }
            self.chunked = true;
        }
        match self.method {
            Method::Connect => return Err(BadRequest::Connect),
            Method::Trace => return Err(BadRequest::Trace),
            _ => {}
        }
        self.upgrade &= present.contains(Known::Upgrade);
        self.expect_continue = present.contains(Known::Expect)
            && self.version >= (1, 1)
            && self.pending(head, Known::Expect).eq_ignore_ascii_case(b"100-continue");
        self.keep_alive = match self.progress.connection {
            Connection::ByVersion => self.version > (1, 0),
            Connection::Close => false,
            Connection::KeepAlive => true,
        };
        Ok(())
    }

    fn pending<'a>(&self, head: &'a [u8], known: Known) -> &'a [u8] {
        let entry = self.progress.entries.iter().find(|entry| entry.known == known);
        entry.map_or(&[], |entry| entry.value.of(head))
    }

    /// Takes the head over (I4).
    fn complete(&mut self, head: &[u8]) {
        self.raw.clear();
        self.raw.extend_from_slice(head);
        let progress = &mut self.progress;
        self.fields.adopt(head, self.line.next, &mut progress.entries, progress.present);
        progress.stage = Stage::Done;
    }

    /// After an error: the request line and the fields before it, as far as they were read.
    #[cold]
    fn keep_for_log(&mut self, head: &[u8], error: BadRequest, limits: &HeadLimits) -> BadRequest {
        let kept = head.len().min(limits.head_bytes_max());
        if self.progress.stage == Stage::RequestLine {
            self.line = RequestLine::default();
        }
        if error == BadRequest::UriTooLong {
            self.line.end = kept.min(limits.large_buffer_bytes.max(limits.buffer_bytes));
        }
        self.keep_alive = false;
        self.complete(&head[..kept]);
        error
    }
}

/// What a `Connection` field asks for, and whether it names `upgrade`.
///
/// As nginx reads it: the words may stand anywhere, `close` wins.
#[inline]
fn parse_connection(value: &[u8]) -> (Connection, bool) {
    // What nearly every client sends.
    match value {
        b"keep-alive" | b"Keep-Alive" => return (Connection::KeepAlive, false),
        b"close" | b"Close" => return (Connection::Close, false),
        _ => {}
    }
    let has = |word: &[u8]| value.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    let connection = if has(b"close") {
        Connection::Close
    } else if has(b"keep-alive") {
        Connection::KeepAlive
    } else {
        Connection::ByVersion
    };
    (connection, has(b"upgrade"))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
