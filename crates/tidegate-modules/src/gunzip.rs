//! `gunzip`: unpacks compressed responses for clients that do not accept them.
//!
//! Source: nginx, `ngx_http_gunzip_filter_module`.

use std::{cell::RefCell, rc::Rc};

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
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
    ..Module::named("gunzip")
};

fn gunzip_buffers(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.gunzip_buffers = Some(());
    gzip::check_buffers(directive, build)
}

/// The unpacker of a response; nothing once the stream has ended.
#[derive(Default)]
struct Decoder(RefCell<Option<Decompress>>);

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
    *req.context::<Decoder>().0.borrow_mut() = Some(Decompress::new_gzip(15));
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
        let (Buf::Bytes(bytes), Some(decompress)) = (buf, &mut *decoder) else { continue };
        match unpack(decompress, bytes, &mut plain) {
            Ok(false) => {}
            // What follows the end of the stream is not content.
            Ok(true) => *decoder = None,
            Err(()) => {
                req.log(Level::Error, format_args!("inflate() failed: the response is not valid gzip"));
                return Ready::Now(Err(Closed));
            }
        }
    }
    if chunk.last && decoder.is_some() {
        req.log(Level::Error, format_args!("inflate() returned -5 on response end"));
    }
    Ready::Now(Ok(plain))
}

/// Unpacks `input`; answers whether the stream has ended.
fn unpack(decompress: &mut Decompress, mut input: &[u8], out: &mut Chunk) -> Result<bool, ()> {
    loop {
        let mut buf = Vec::with_capacity(OUTPUT_BYTES);
        let before = decompress.total_in();
        let status = decompress.decompress_vec(input, &mut buf, FlushDecompress::None).map_err(|_| ())?;
        let used = (decompress.total_in() - before) as usize;
        input = &input[used..];
        let is_full = buf.len() == buf.capacity();
        let is_stuck = used == 0 && buf.is_empty();
        if !buf.is_empty() {
            out.bufs.push(Buf::Bytes(Bytes::from(buf)));
        }
        if status == Status::StreamEnd {
            return Ok(true);
        }
        if (input.is_empty() && !is_full) || is_stuck {
            return Ok(false);
        }
    }
}
