//! `gunzip`: unpacks compressed responses for clients that do not accept them.
//!
//! Source: nginx, `ngx_http_gunzip_filter_module`.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use bytes::{Buf as _, Bytes};
use flate2::{Decompress, DecompressError, FlushDecompress, Status};
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Directive, Module},
    output::{Buf, Chunk, Closed},
    phase::Ready,
    request::Request,
};
use tidegate_http::Known;
use tidegate_net::log::Level;

use crate::gzip;

/// Bytes that are unpacked at a time.
const OUTPUT_BYTES: usize = 32 << 10;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    gunzip: Option<bool>,
    gunzip_buffers: Option<()>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::flag("gunzip", |c: &mut Conf| &mut c.gunzip)
            .default("off")
            .doc("Unpacks responses with Content-Encoding: gzip for clients that do not accept it."),
        Directive::custom("gunzip_buffers", 2, 2, gunzip_buffers)
            .syntax("number size")
            .default("32 4k")
            .doc("Accepted: output goes on as it comes."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; gunzip, gunzip_buffers);
    },
    install: |conf, program| {
        if conf.gunzip == Some(true) {
            program.header_filter(filter_header);
            program.body_filter(filter_body);
        }
    },
    example: "
        location /api/ {
            proxy_pass http://127.0.0.1:8081;
            gunzip on;
        }
    ",
    ..Module::named("gunzip")
};

fn gunzip_buffers(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.gunzip_buffers = Some(());
    gzip::check_buffers(directive, build)
}

/// What the filter makes of its input before the client is asked to take it: a small body can become a thousand times as
/// large.
const PART_BYTES: usize = 64 << 10;

/// The unpacker of a response.
#[derive(Default)]
struct Decoder(RefCell<Option<Unpacking>>);

/// A body is one member of a gzip file, or several in a row.
struct Unpacking {
    decompress: Decompress,
    /// What follows is another member, if anything.
    ended: bool,
    /// What has come and is not unpacked yet.
    input: VecDeque<Bytes>,
    /// The last room was filled: there may be output without further input.
    is_full: bool,
    /// What goes with the end of `input`.
    flush: bool,
    last: bool,
}

/// First byte of a member.
const GZIP_MAGIC: u8 = 0x1f;

fn new_member() -> Decompress {
    Decompress::new_gzip(15)
}

impl Unpacking {
    fn new() -> Self {
        Unpacking {
            decompress: new_member(),
            ended: false,
            input: VecDeque::new(),
            is_full: false,
            flush: false,
            last: false,
        }
    }

    fn take(&mut self, chunk: Chunk) {
        self.flush |= chunk.flush;
        self.last |= chunk.last;
        for buf in chunk.bufs {
            if let Buf::Bytes(bytes) = buf
                && !bytes.is_empty()
            {
                self.input.push_back(bytes);
            }
        }
    }

    /// Unpacks about [`PART_BYTES`]; the last part flushes and ends as the input did.
    fn next_part(&mut self) -> Result<Chunk, DecompressError> {
        let mut part = Chunk::default();
        let mut bytes = 0;
        while !self.input.is_empty() || self.is_full {
            if bytes >= PART_BYTES {
                part.more = true;
                return Ok(part);
            }
            let buf = self.unpack()?;
            if !buf.is_empty() {
                bytes += buf.len();
                part.bufs.push(Buf::Bytes(Bytes::from(buf)));
            }
        }
        part.flush = std::mem::take(&mut self.flush);
        part.last = self.last;
        Ok(part)
    }

    /// One step: what fits into one buffer.
    fn unpack(&mut self) -> Result<Vec<u8>, DecompressError> {
        let input = self.input.front().map_or(&[][..], |input| input);
        if self.ended {
            if input.first() != Some(&GZIP_MAGIC) {
                // Padding, which is not content.
                self.input.pop_front();
                return Ok(Vec::new());
            }
            (self.decompress, self.ended) = (new_member(), false);
        }
        let mut buf = Vec::with_capacity(OUTPUT_BYTES);
        let before = self.decompress.total_in();
        let status = self.decompress.decompress_vec(input, &mut buf, FlushDecompress::None)?;
        let used = (self.decompress.total_in() - before) as usize;
        self.ended = status == Status::StreamEnd;
        self.is_full = buf.len() == buf.capacity() && !self.ended;
        let is_stuck = used == 0 && buf.is_empty();
        match self.input.front_mut() {
            Some(input) if used < input.len() && !is_stuck => input.advance(used),
            _ => drop(self.input.pop_front()),
        }
        Ok(buf)
    }
}

fn filter_header(req: &Rc<Request>) -> Ready<Result<(), Closed>> {
    let mut response = req.response.borrow_mut();
    let is_gzip = response.fields.get(Known::ContentEncoding).is_some_and(|value| value.eq_ignore_ascii_case(b"gzip"));
    if !is_gzip {
        return Ready::Now(Ok(()));
    }
    gzip::vary(req, &mut response);
    if gzip::accepts_gzip(req, &response) {
        return Ready::Now(Ok(()));
    }
    *req.context::<Decoder>().0.borrow_mut() = Some(Unpacking::new());
    response.filter_need_in_memory = true;
    response.fields.remove(Known::ContentEncoding);
    response.body_is_changed();
    Ready::Now(Ok(()))
}

fn filter_body(req: &Rc<Request>, mut chunk: Chunk) -> Ready<Result<Chunk, Closed>> {
    let Some(decoder) = req.find_context::<Decoder>() else { return Ready::Now(Ok(chunk)) };
    if chunk.read_files().is_err() {
        return Ready::Now(Err(Closed));
    }
    let mut decoder = decoder.0.borrow_mut();
    let Some(unpacking) = &mut *decoder else { return Ready::Now(Ok(chunk)) };
    unpacking.take(chunk);
    let Ok(part) = unpacking.next_part() else {
        req.log(Level::Error, format_args!("inflate() failed: the response is not valid gzip"));
        return Ready::Now(Err(Closed));
    };
    if part.last && !unpacking.ended {
        req.log(Level::Error, format_args!("inflate() returned -5 on response end"));
    }
    Ready::Now(Ok(part))
}
