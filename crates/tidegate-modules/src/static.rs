//! `static`: answers with a file of the disk. The last handler of the content phase.
//!
//! Small files come from the worker's memory, large ones go by `sendfile`. Where a filter wants the bytes, the file is
//! read in pieces as fast as the client takes them.
//!
//! Source: nginx, `ngx_http_static_module`.

use std::{cell::Cell, rc::Rc};

use bstr::BStr;
use tidegate_core::{
    module::Module,
    output::{Buf, Chunk, Closed},
    phase::{Outcome, Phase, Ready, Step},
    request::Request,
    static_files::{
        open::{OpenFile, Want},
        read::{DirectFile, read_at},
    },
};
use tidegate_http::{
    Known, Method,
    escape::{Escape, escape_uri},
};
use tidegate_net::log::{Level, SysError};

/// Nothing is configured here: see the core's `files`.
#[derive(Debug, Default)]
pub struct Conf;

/// The module.
pub static MODULE: Module<Conf> = Module {
    install: |_, program| program.on(Phase::Content, |req| req.with_files(&(), handle)),
    ..Module::named("static")
};

thread_local! {
    /// Memory for file names; a worker needs one at a time.
    static PATH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

fn handle(req: &Rc<Request>, (): &()) -> Outcome {
    let method = req.method.get();
    if !matches!(method, Method::Get | Method::Head | Method::Post) {
        return Ready::Now(Step::Status(405));
    }
    if req.uri.borrow().path.ends_with(b"/") {
        return Ready::Now(Step::Declined);
    }
    let mut path = PATH.take();
    path.clear();
    let outcome = match req.map_uri_to_path(&mut path) {
        Some(_) => answer(req, &path),
        None => Ready::Now(Step::Status(500)),
    };
    PATH.set(path);
    outcome
}

fn answer(req: &Rc<Request>, path: &[u8]) -> Outcome {
    let file = match req.look_up(path, Want::Content) {
        Ok(file) => file,
        Err(failure) if failure.is_cold() => return Ready::Now(Step::Declined),
        Err(failure) => {
            failure.log(req, path);
            return Ready::Now(Step::Status(failure.status()));
        }
    };
    if file.is_directory() {
        redirect_to_directory(req);
        return Ready::Now(Step::Status(301));
    }
    if !file.is_file() {
        req.log(Level::Crit, format_args!("\"{}\" is not a regular file", BStr::new(path)));
        return Ready::Now(Step::Status(404));
    }
    if req.method.get() == Method::Post {
        return Ready::Now(Step::Status(405));
    }
    prepare(req, &file);
    req.response.borrow_mut().allow_ranges = true;
    send_file(req, &file)
}

/// Prepares the head of a response with the content of `file`.
pub(crate) fn prepare(req: &Request, file: &OpenFile) {
    {
        let mut response = req.response.borrow_mut();
        response.status = 200;
        response.content_length = Some(file.info.size);
        response.last_modified = Some(file.info.mtime);
        if req.files_conf().etag != Some(false) {
            response.fields.append_known(Known::ETag, &file.etag);
        }
    }
    req.set_default_content_type();
}

/// `Location` of a directory: the path with a slash behind it.
fn redirect_to_directory(req: &Request) {
    let uri = req.uri.borrow();
    let mut location = Vec::with_capacity(uri.path.len() + uri.args.len() + 2);
    escape_uri(&uri.path, Escape::Uri, &mut location);
    location.push(b'/');
    if !uri.args.is_empty() {
        location.push(b'?');
        location.extend_from_slice(&uri.args);
    }
    req.response.borrow_mut().fields.set_known(Known::Location, &location);
}

/// Sends the response, whose head is prepared, with the content of `file`.
pub(crate) fn send_file(req: &Rc<Request>, file: &Rc<OpenFile>) -> Outcome {
    match req.send_header() {
        Ready::Now(head) => send_body(req, file, head),
        Ready::Later(head) => {
            let (req, file) = (req.clone(), file.clone());
            Ready::later(async move {
                let head = head.await;
                send_body(&req, &file, head).wait().await
            })
        }
    }
}

fn send_body(req: &Rc<Request>, file: &Rc<OpenFile>, head: Result<(), Closed>) -> Outcome {
    if head.is_err() {
        return Ready::Now(Step::Close);
    }
    let conf = req.files_conf();
    let is_direct = conf.directio.is_some_and(|size| file.info.size >= size);
    let by_sendfile = conf.sendfile != Some(false) && conf.aio != Some(true) && !is_direct;
    let in_pieces = {
        let response = req.response.borrow();
        if response.header_only && !req.is_subrequest() {
            return Ready::Now(Step::Ok);
        }
        // Ranges in any order need the file as a whole.
        // Filters, and who keeps the response in memory, get it in pieces too.
        let is_read = response.ranges.is_none() && req.reads_files();
        response.filter_need_in_memory || is_read || (!by_sendfile && response.ranges.is_none())
    };
    match file.body() {
        Buf::File { .. } if in_pieces => {
            let (req, file) = (req.clone(), file.clone());
            Ready::later(async move { read_and_send(&req, &file).await })
        }
        body => {
            if let Buf::File { .. } = body {
                req.client.set_turn_bytes_max(conf.sendfile_max_chunk.map(|bytes| bytes as u64));
            }
            let mut chunk = Chunk::end();
            chunk.bufs.push(body);
            req.send(chunk).map(step)
        }
    }
}

fn step(result: Result<(), Closed>) -> Step {
    if result.is_ok() { Step::Ok } else { Step::Close }
}

/// Reads a file piece by piece, as fast as the client takes it.
async fn read_and_send(req: &Rc<Request>, open: &OpenFile) -> Step {
    let Some(file) = open.file() else { return Step::Ok };
    let conf = req.files_conf();
    let direct = match conf.directio.is_some_and(|size| open.info.size >= size) {
        true => {
            let alignment = conf.directio_alignment.map_or(512, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
            Some(DirectFile::open(file, alignment).await)
        }
        false => None,
    };
    let (count, piece_bytes) = req.files_conf().output_buffers.unwrap_or((2, 32 << 10));
    let timeout_ms = req.http_conf().send_timeout_ms();
    let piece_bytes = usize::try_from(piece_bytes).unwrap_or(usize::MAX).min(1 << 20);
    let mut offset = 0;
    while offset < open.info.size {
        let len = usize::try_from(open.info.size - offset).unwrap_or(usize::MAX).min(piece_bytes);
        let read = match &direct {
            Some(direct) => direct.read_at(offset, len).await,
            None => read_at(file, offset, len).await,
        };
        let bytes = match read {
            Ok(bytes) if bytes.is_empty() => {
                req.log(Level::Alert, format_args!("file was truncated while it was sent"));
                return Step::Close;
            }
            Ok(bytes) => bytes,
            Err(error) => {
                req.log(Level::Crit, format_args!("read() failed {}", SysError(&error)));
                return Step::Close;
            }
        };
        offset += bytes.len() as u64;
        let mut chunk = Chunk::bytes(bytes);
        chunk.last = offset >= open.info.size;
        let sent = req.send(chunk).wait().await;
        let room = count.saturating_mul(piece_bytes as u64);
        if sent.is_err() || req.client.drain_to(room, timeout_ms).await.is_err() {
            return Step::Close;
        }
        // A filter may have worked hard on the piece: others have their turn.
        tokio::task::yield_now().await;
    }
    Step::Ok
}
