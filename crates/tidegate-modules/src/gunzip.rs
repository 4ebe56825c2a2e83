//! `gunzip`: unpacks compressed responses for clients that do not accept them.
//!
//! Source: nginx, `ngx_http_gunzip_filter_module`.

use std::{cell::RefCell, rc::Rc};

use bytes::Bytes;
use flate2::{Decompress, DecompressError, FlushDecompress, Status};
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    log::Level,
    module::{Directive, Module},
    output::{Buf, Chunk, Closed},
    phase::Ready,
    request::Request,
};
use tidegate_http::Known;

use crate::gzip;

/// What is unpacked at a time.
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

/// The unpacker of a response.
#[derive(Default)]
struct Decoder(RefCell<Option<Member>>);

/// A body is one member of a gzip file, or several in a row.
struct Member {
    decompress: Decompress,
    /// What follows is another member, if anything.
    ended: bool,
}

/// First byte of a member.
const GZIP_MAGIC: u8 = 0x1f;

impl Member {
    fn new() -> Self {
        Member { decompress: Decompress::new_gzip(15), ended: false }
    }

    /// Unpacks `input` into `out`.
    fn unpack(&mut self, mut input: &[u8], out: &mut Chunk) -> Result<(), DecompressError> {
        while let Some(&first) = input.first() {
            if self.ended {
                if first != GZIP_MAGIC {
                    // Padding, which is not content.
                    return Ok(());
                }
                *self = Member::new();
            }
            let used;
            (used, self.ended) = unpack(&mut self.decompress, input, out)?;
            input = &input[used..];
        }
        Ok(())
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
    *req.context::<Decoder>().0.borrow_mut() = Some(Member::new());
    response.filter_need_in_memory = true;
    response.fields.remove(Known::ContentEncoding);
    response.body_is_changed();
    Ready::Now(Ok(()))
}

fn filter_body(req: &Rc<Request>, mut chunk: Chunk) -> Ready<Result<Chunk, Closed>> {
    let Some(decoder) = req.find_context::<Decoder>() else { return Ready::Now(Ok(chunk)) };
    let mut plain = Chunk { flush: chunk.flush, last: chunk.last, ..Chunk::default() };
    if chunk.read_files().is_err() {
        return Ready::Now(Err(Closed));
    }
    let mut decoder = decoder.0.borrow_mut();
    for buf in &chunk.bufs {
        let (Buf::Bytes(bytes), Some(member)) = (buf, &mut *decoder) else { continue };
        if member.unpack(bytes, &mut plain).is_err() {
            req.log(Level::Error, format_args!("inflate() failed: the response is not valid gzip"));
            return Ready::Now(Err(Closed));
        }
    }
    if chunk.last && decoder.as_ref().is_some_and(|member| !member.ended) {
        req.log(Level::Error, format_args!("inflate() returned -5 on response end"));
    }
    Ready::Now(Ok(plain))
}

/// Unpacks `input`; answers how much of it was used, and whether the member has ended.
fn unpack(decompress: &mut Decompress, input: &[u8], out: &mut Chunk) -> Result<(usize, bool), DecompressError> {
    let start = decompress.total_in();
    loop {
        let mut buf = Vec::with_capacity(OUTPUT_BYTES);
        let used_before = (decompress.total_in() - start) as usize;
        let status = decompress.decompress_vec(&input[used_before..], &mut buf, FlushDecompress::None)?;
        let used = (decompress.total_in() - start) as usize;
        let is_full = buf.len() == buf.capacity();
        let is_stuck = used == used_before && buf.is_empty();
        if !buf.is_empty() {
            out.bufs.push(Buf::Bytes(Bytes::from(buf)));
        }
        if status == Status::StreamEnd {
            return Ok((used, true));
        }
        if (used == input.len() && !is_full) || is_stuck {
            return Ok((input.len(), false));
        }
    }
}
