//! `gzip`: compresses bodies for clients that accept it.
//!
//! Also says for `gzip_static` and `gunzip` whether a client does ([`accepts_gzip`]).
//!
//! Source: nginx, `ngx_http_gzip_filter_module`, `ngx_http_gzip_ok`.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use bstr::ByteSlice;
use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::Build,
    inherit,
    main_conf::{bad_value, duplicate},
    module::{Context, Directive, Module},
    output::{Buf, Chunk, Closed, Response},
    phase::Ready,
    regex::{Regex, RegexOptions},
    request::Request,
    variable::VariableDef,
};
use tidegate_http::{Known, date::parse_http_date};
use tidegate_net::clock;

use crate::mime_types::MimeTypes;

const PROXIED_OFF: u32 = 1 << 0;
const PROXIED_EXPIRED: u32 = 1 << 1;
const PROXIED_NO_CACHE: u32 = 1 << 2;
const PROXIED_NO_STORE: u32 = 1 << 3;
const PROXIED_PRIVATE: u32 = 1 << 4;
const PROXIED_NO_LM: u32 = 1 << 5;
const PROXIED_NO_ETAG: u32 = 1 << 6;
const PROXIED_AUTH: u32 = 1 << 7;
const PROXIED_ANY: u32 = 1 << 8;

const PROXIED_WORDS: &[(&str, u32)] = &[
    ("off", PROXIED_OFF),
    ("expired", PROXIED_EXPIRED),
    ("no-cache", PROXIED_NO_CACHE),
    ("no-store", PROXIED_NO_STORE),
    ("private", PROXIED_PRIVATE),
    ("no_last_modified", PROXIED_NO_LM),
    ("no_etag", PROXIED_NO_ETAG),
    ("auth", PROXIED_AUTH),
    ("any", PROXIED_ANY),
];

/// Compressors that a worker keeps for reuse; each has some 260 KB.
const SPARES_MAX: usize = 8;

/// What the compressor is given room for at a time.
const OUTPUT_BYTES: usize = 16 << 10;

/// The patterns of `gzip_disable`.
#[derive(Debug, Default)]
struct Disable {
    msie6: bool,
    patterns: Vec<Regex>,
}

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    gzip: Option<bool>,
    gzip_types: Option<Arc<MimeTypes>>,
    gzip_comp_level: Option<u64>,
    gzip_min_length: Option<u64>,
    gzip_buffers: Option<()>,
    gzip_vary: Option<bool>,
    gzip_http_version: Option<u32>,
    gzip_proxied: Option<u32>,
    gzip_disable: Option<Arc<Disable>>,
    postpone_gzipping: Option<usize>,
    gzip_no_buffer: Option<bool>,
    gzip_window: Option<usize>,
    gzip_hash: Option<usize>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::flag("gzip", |c: &mut Conf| &mut c.gzip)
            .within(Context::ALL_IF)
            .default("off")
            .doc("Compresses responses for clients that accept it."),
        Directive::custom("gzip_types", 1, u16::MAX, |conf: &mut Conf, directive, build| {
            MimeTypes::add(&mut conf.gzip_types, &["text/html"], directive, build)
        })
        .syntax("mime-type ...")
        .default("text/html")
        .doc("Media types that are compressed, beside text/html; * for all."),
        Directive::custom("gzip_comp_level", 1, 1, comp_level)
            .syntax("level")
            .default("1")
            .doc("Level of compression, from 1 (fast) to 9 (small)."),
        Directive::offset("gzip_min_length", |c: &mut Conf| &mut c.gzip_min_length)
            .default("20")
            .doc("Responses shorter than this are not compressed, if their length is known."),
        Directive::custom("gzip_buffers", 2, 2, buffers)
            .syntax("number size")
            .default("32 4k")
            .doc("Accepted: output goes on as it comes."),
        Directive::flag("gzip_vary", |c: &mut Conf| &mut c.gzip_vary)
            .default("off")
            .doc("Tells caches that the response depends on Accept-Encoding."),
        Directive::choice("gzip_http_version", |c: &mut Conf| &mut c.gzip_http_version, &[("1.0", 10), ("1.1", 11)])
            .syntax("1.0 | 1.1")
            .default("1.1")
            .doc("The lowest version of requests whose responses are compressed."),
        Directive::custom("gzip_proxied", 1, u16::MAX, proxied)
            .syntax("off | expired | no-cache | no-store | private | no_last_modified | no_etag | auth | any ...")
            .default("off")
            .doc("Conditions under which responses to requests with a Via field are compressed."),
        Directive::custom("gzip_disable", 1, u16::MAX, disable)
            .syntax("regex ... | msie6")
            .doc("No compression for clients with these User-Agent."),
        Directive::size("postpone_gzipping", |c: &mut Conf| &mut c.postpone_gzipping)
            .default("0")
            .doc("Accepted: output goes on as it comes."),
        Directive::flag("gzip_no_buffer", |c: &mut Conf| &mut c.gzip_no_buffer)
            .default("off")
            .doc("Accepted: output goes on as it comes."),
        Directive::size("gzip_window", |c: &mut Conf| &mut c.gzip_window)
            .default("32k")
            .doc("Accepted: the window has 32 KB."),
        Directive::size("gzip_hash", |c: &mut Conf| &mut c.gzip_hash)
            .default("64k")
            .doc("Accepted: the compressor decides."),
    ],
    variables: &[VariableDef::new("gzip_ratio", gzip_ratio, "Ratio of the body's size before and after compression.")],
    inherit: |child, parent, _| {
        inherit!(child, parent; gzip, gzip_types, gzip_comp_level, gzip_min_length, gzip_buffers, gzip_vary,
            gzip_http_version, gzip_proxied, gzip_disable, postpone_gzipping, gzip_no_buffer, gzip_window, gzip_hash);
    },
    install: |conf, program| {
        if conf.gzip == Some(true) {
            let (conf, types) = (conf.clone(), types_of(&conf.gzip_types));
            program.header_filter(move |req| filter_header(req, &conf, &types));
            program.encoder(encode);
        }
    },
    example: "
        gzip on;
        gzip_types text/css application/json application/javascript;
        gzip_min_length 1k;
    ",
    ..Module::named("gzip")
};

impl Conf {
    /// `gzip_vary`
    pub(crate) fn gzip_vary(&self) -> Option<bool> {
        self.gzip_vary
    }
}

fn types_of(types: &Option<Arc<MimeTypes>>) -> Arc<MimeTypes> {
    types.clone().unwrap_or_else(|| Arc::new(MimeTypes::of(&["text/html"])))
}

fn comp_level(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.gzip_comp_level.is_some() {
        return Err(duplicate(directive));
    }
    let arg = &directive.args[0];
    let level = values::integer_in(arg.value.as_bstr(), 1, Some(9))
        .map_err(|error| error.diagnostic(&directive.name.value, arg))?;
    conf.gzip_comp_level = Some(level);
    Ok(())
}

fn buffers(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.gzip_buffers.is_some() {
        return Err(duplicate(directive));
    }
    conf.gzip_buffers = Some(());
    check_buffers(directive, build)
}

/// Checks a number and a size of buffers.
pub(crate) fn check_buffers(directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let [count, size] = &*directive.args else { return Err(bad_value(directive)) };
    let count = values::integer(count.value.as_bstr()).ok().filter(|&count| count > 0);
    let size = values::size(size.value.as_bstr()).ok().filter(|&size| size > 0);
    count.zip(size).map(|_| ()).ok_or_else(|| bad_value(directive))
}

fn proxied(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.gzip_proxied.is_some() {
        return Err(duplicate(directive));
    }
    let mut bits = 0;
    for arg in &directive.args {
        let bit = values::word(arg.value.as_bstr(), PROXIED_WORDS).map_err(|_| {
            let words = PROXIED_WORDS.iter().map(|(word, _)| *word);
            Diagnostic::unknown_value(&arg.value, arg.span, words)
        })?;
        bits |= bit;
    }
    conf.gzip_proxied = Some(bits);
    Ok(())
}

fn disable(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let disable = Arc::get_mut(conf.gzip_disable.get_or_insert_default()).expect("levels share after all was read");
    for arg in &directive.args {
        if arg.value == "msie6" {
            disable.msie6 = true;
        } else if arg.value != "degradation" {
            let regex = Regex::new(&arg.value, RegexOptions::CASELESS)
                .map_err(|error| Diagnostic::new(Severity::Emerg, arg.span, error.to_string()))?;
            disable.patterns.push(regex);
        }
    }
    Ok(())
}

/// What became of the question whether the client of a request accepts gzip; asked once, as nginx does.
#[derive(Debug, Default)]
struct Accepts(Cell<Option<bool>>);

/// Whether the response may be sent compressed: the client accepts it, and nothing forbids it.
pub(crate) fn accepts_gzip(req: &Request, response: &Response) -> bool {
    let known = req.context::<Accepts>();
    known.0.get().unwrap_or_else(|| {
        let accepts = !req.is_subrequest() && test_accepts(req, response);
        known.0.set(Some(accepts));
        accepts
    })
}

fn test_accepts(req: &Request, response: &Response) -> bool {
    let head = req.head.borrow();
    let conf = req.module_conf(&MODULE);
    if !head.fields.get(Known::AcceptEncoding).is_some_and(lists_gzip) {
        return false;
    }
    let version_min = if conf.gzip_http_version == Some(10) { (1, 0) } else { (1, 1) };
    if head.version < version_min {
        return false;
    }
    if head.fields.contains(Known::Via) {
        let authorized = head.fields.contains(Known::Authorization);
        if !proxied_allows(conf.gzip_proxied.unwrap_or(PROXIED_OFF), authorized, response) {
            return false;
        }
    }
    let (Some(disable), Some(agent)) = (&conf.gzip_disable, head.fields.get(Known::UserAgent)) else { return true };
    let is_disabled = (disable.msie6 && is_msie6(agent))
        || disable.patterns.iter().any(|pattern| matches!(pattern.captures(agent), Ok(Some(_))));
    !is_disabled
}

/// An old browser that cannot read what it asks for. Version 6.0 with "SV1" can.
fn is_msie6(agent: &[u8]) -> bool {
    let Some(at) = agent.find(b"MSIE ") else { return false };
    match &agent[at + 5..] {
        [b'4' | b'5', b'.', ..] => true,
        [b'6', b'.', rest @ ..] => rest.find(b"SV1").is_none(),
        _ => false,
    }
}

/// Whether an `Accept-Encoding` lists gzip, and not with a quality of 0.
///
/// Source: nginx, `ngx_http_gzip_accept_encoding`.
fn lists_gzip(value: &[u8]) -> bool {
    let mut from = 0;
    let behind = loop {
        let Some(at) = find_gzip(value, from) else { return false };
        if at == 0 || matches!(value[at - 1], b',' | b' ') {
            break at + 4;
        }
        from = at + 4;
    };
    let mut rest = value[behind..].trim_start_with(|c| c == ' ').iter();
    match rest.next() {
        None | Some(b',') => true,
        Some(b';') => {
            let parameters = rest.as_slice().trim_start_with(|c| c == ' ');
            match parameters {
                [] => true,
                [b'q' | b'Q', b'=', quality @ ..] => has_quality(quality),
                _ => false,
            }
        }
        _ => false,
    }
}

fn find_gzip(value: &[u8], from: usize) -> Option<usize> {
    let rest = value.get(from..)?;
    rest.windows(4).position(|word| word.eq_ignore_ascii_case(b"gzip")).map(|at| from + at)
}

/// Whether a quality is a valid one above 0.
fn has_quality(text: &[u8]) -> bool {
    let end = text.iter().position(|byte| matches!(byte, b',' | b' ')).unwrap_or(text.len());
    match &text[..end] {
        [b'1'] => true,
        [b'1', b'.', digits @ ..] => digits.len() <= 3 && digits.iter().all(|&digit| digit == b'0'),
        [b'0', b'.', digits @ ..] => {
            digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) && digits.iter().any(|&digit| digit != b'0')
        }
        _ => false,
    }
}

/// `gzip_proxied`: whether a response may be compressed for a request that came through a proxy.
fn proxied_allows(bits: u32, authorized: bool, response: &Response) -> bool {
    let has = |bit: u32| bits & bit != 0;
    if has(PROXIED_OFF) {
        return false;
    }
    if has(PROXIED_ANY) || (authorized && has(PROXIED_AUTH)) {
        return true;
    }
    if let Some(expires) = response.fields.get(Known::Expires) {
        let date = response.fields.get(Known::Date).map_or(Some(clock::now_unix()), parse_http_date);
        return has(PROXIED_EXPIRED)
            && parse_http_date(expires).zip(date).is_some_and(|(expires, date)| expires < date);
    }
    if response.fields.contains(Known::CacheControl) {
        let says = |word: &[u8]| {
            let mut values =
                response.fields.iter_known(Known::CacheControl).flat_map(|value| value.split(|&b| b == b','));
            values.any(|value| value.trim_ascii().eq_ignore_ascii_case(word))
        };
        return (has(PROXIED_NO_CACHE) && says(b"no-cache"))
            || (has(PROXIED_NO_STORE) && says(b"no-store"))
            || (has(PROXIED_PRIVATE) && says(b"private"));
    }
    let has_time = response.last_modified.is_some() || response.fields.contains(Known::LastModified);
    let has_etag = response.fields.contains(Known::ETag);
    !(has(PROXIED_NO_LM) && has_time || has(PROXIED_NO_ETAG) && has_etag)
}

/// Marks a response as one that depends on `Accept-Encoding`, if `gzip_vary` says so.
pub(crate) fn vary(req: &Request, response: &mut Response) {
    if req.module_conf(&MODULE).gzip_vary == Some(true) {
        response.vary_accept_encoding = true;
    }
}

/// The compressor of a response.
#[derive(Default)]
struct Encoder {
    active: Cell<bool>,
    compress: RefCell<Option<(u32, Compress)>>,
    bytes_in: Cell<u64>,
    bytes_out: Cell<u64>,
}

thread_local! {
    static SPARES: RefCell<Vec<(u32, Compress)>> = const { RefCell::new(Vec::new()) };
}

fn take_compressor(level: u32) -> Compress {
    SPARES.with_borrow_mut(|spares| match spares.iter().position(|(known, _)| *known == level) {
        Some(index) => spares.swap_remove(index).1,
        None => Compress::new_gzip(Compression::new(level), 15),
    })
}

impl Drop for Encoder {
    fn drop(&mut self) {
        if let Some((level, mut compress)) = self.compress.take() {
            compress.reset();
            // A thread that ends has no use for it.
            let _ = SPARES.try_with(|spares| {
                let mut spares = spares.borrow_mut();
                if spares.len() < SPARES_MAX {
                    spares.push((level, compress));
                }
            });
        }
    }
}

fn filter_header(req: &Rc<Request>, conf: &Arc<Conf>, types: &MimeTypes) -> Ready<Result<(), Closed>> {
    let mut response = req.response.borrow_mut();
    let is_encoded = response.fields.get(Known::ContentEncoding).is_some_and(|value| !value.is_empty());
    if req.is_subrequest()
        || !matches!(response.status, 200 | 403 | 404)
        || is_encoded
        || response.content_length.is_some_and(|length| length < conf.gzip_min_length.unwrap_or(20))
        || !types.contains(&response)
    {
        return Ready::Now(Ok(()));
    }
    vary(req, &mut response);
    if !accepts_gzip(req, &response) {
        return Ready::Now(Ok(()));
    }
    let level = u32::try_from(conf.gzip_comp_level.unwrap_or(1)).unwrap_or(1);
    let encoder = req.context::<Encoder>();
    encoder.active.set(true);
    *encoder.compress.borrow_mut() = Some((level, take_compressor(level)));
    response.fields.set_known(Known::ContentEncoding, b"gzip");
    response.filter_need_in_memory = true;
    response.body_is_changed();
    Ready::Now(Ok(()))
}

fn encode(req: &Rc<Request>, mut chunk: Chunk) -> Result<Chunk, Closed> {
    let Some(encoder) = req.find_context::<Encoder>().filter(|encoder| encoder.active.get()) else {
        return Ok(chunk);
    };
    chunk.read_files()?;
    let mut compress = encoder.compress.borrow_mut();
    let Some((_, compress)) = &mut *compress else { return Ok(Chunk::default()) };
    let before_out = compress.total_out();
    let mut out = Vec::new();
    for buf in &chunk.bufs {
        if let Buf::Bytes(bytes) = buf {
            encoder.bytes_in.set(encoder.bytes_in.get() + bytes.len() as u64);
            run(compress, bytes, FlushCompress::None, &mut out)?;
        }
    }
    if chunk.last {
        run(compress, b"", FlushCompress::Finish, &mut out)?;
        encoder.active.set(false);
    } else if chunk.flush {
        run(compress, b"", FlushCompress::Sync, &mut out)?;
    }
    encoder.bytes_out.set(encoder.bytes_out.get() + compress.total_out() - before_out);
    let mut encoded = Chunk::bytes(Bytes::from(out));
    (encoded.flush, encoded.last) = (chunk.flush, chunk.last);
    Ok(encoded)
}

/// Compresses all of `input`.
fn run(compress: &mut Compress, mut input: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> Result<(), Closed> {
    loop {
        if out.capacity() - out.len() < 64 {
            out.reserve(OUTPUT_BYTES);
        }
        let (before_in, room) = (compress.total_in(), out.capacity() - out.len());
        let before_len = out.len();
        let status = compress.compress_vec(input, out, flush).map_err(|_| Closed)?;
        input = &input[(compress.total_in() - before_in) as usize..];
        let is_full = out.len() - before_len == room;
        let done = match flush {
            FlushCompress::Finish => status == flate2::Status::StreamEnd,
            _ => input.is_empty() && !is_full,
        };
        if done {
            return Ok(());
        }
    }
}

/// Source: nginx, `ngx_http_gzip_ratio_variable`.
fn gzip_ratio(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(encoder) = req.find_context::<Encoder>() else { return false };
    let (bytes_in, bytes_out) = (encoder.bytes_in.get(), encoder.bytes_out.get());
    if bytes_out == 0 {
        return false;
    }
    let hundredths = (bytes_in * 1000 / bytes_out + 5) / 10;
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    out.extend_from_slice(text.as_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_accept_encoding() {
        for yes in [
            "gzip",
            "gzip, deflate",
            "gzip,deflate",
            "deflate, gzip",
            "deflate,gzip",
            "GZip",
            "gzip;q=1",
            "gzip; q=0.5",
            "gzip;q=0.001, x",
            "gzip;",
            "gzip ,br",
            "x-gzip, gzip",
        ] {
            assert!(lists_gzip(yes.as_bytes()), "{yes}");
        }
        for no in ["", "br", "x-gzip", "gzipped", "gzip;q=0", "gzip;q=0.0", "gzip;q=2", "gzip;q=0.0001", "gzip;x=1"] {
            assert!(!lists_gzip(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn knows_old_browsers() {
        assert!(is_msie6(b"Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)"));
        assert!(!is_msie6(b"Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)"));
        assert!(is_msie6(b"MSIE 5.5"));
        assert!(!is_msie6(b"MSIE 7.0"));
        assert!(!is_msie6(b"MSIE "));
    }

    #[test]
    fn compresses_in_pieces() {
        use std::io::Read;
        let mut compress = take_compressor(1);
        for round in 0..3 {
            let (mut out, mut plain) = (Vec::new(), Vec::new());
            for piece in 0..50u32 {
                let bytes: Vec<u8> = (0..piece * 997).map(|i| ((i * i) >> 7) as u8).collect();
                plain.extend_from_slice(&bytes);
                let flush = if piece % 7 == 0 { FlushCompress::Sync } else { FlushCompress::None };
                run(&mut compress, &bytes, flush, &mut out).expect("compresses");
            }
            run(&mut compress, b"", FlushCompress::Finish, &mut out).expect("compresses");
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(&out[..]).read_to_end(&mut text).expect("gzip");
            assert!(text == plain, "round {round}");
            compress.reset();
        }
    }
}
