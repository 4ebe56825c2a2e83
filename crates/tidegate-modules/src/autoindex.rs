//! `autoindex`: lists a directory when no index file answered.
//!
//! Follows nginx's `ngx_http_autoindex_module`, to the byte. Choosing the index file is `index.rs`.

use std::{io::Write, rc::Rc, sync::Arc};

use bstr::{BStr, ByteSlice};
use bytes::Bytes;
use chrono::{DateTime, Datelike, Local, TimeZone, Timelike, Utc};
use tidegate_core::{
    inherit,
    module::{Directive, Module},
    output::Chunk,
    phase::{Outcome, Phase, Ready, Step},
    request::Request,
};
use tidegate_http::{
    Method, args,
    escape::{Escape, escape_html, escape_uri},
};
use tidegate_net::{clock, log::Level};

use crate::directory::{self, Entry};

const HTML: u32 = 0;
const JSON: u32 = 1;
const JSONP: u32 = 2;
const XML: u32 = 3;

/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 50;

/// Longest name of a JSONP callback.
const CALLBACK_BYTES_MAX: usize = 128;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    autoindex: Option<bool>,
    autoindex_exact_size: Option<bool>,
    autoindex_format: Option<u32>,
    autoindex_localtime: Option<bool>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::flag("autoindex", |c: &mut Conf| &mut c.autoindex)
            .default("off")
            .doc("Lists a directory that has no index file."),
        Directive::flag("autoindex_exact_size", |c: &mut Conf| &mut c.autoindex_exact_size)
            .default("on")
            .doc("Shows sizes in bytes instead of rounded to K, M or G."),
        Directive::choice(
            "autoindex_format",
            |c: &mut Conf| &mut c.autoindex_format,
            &[("html", HTML), ("json", JSON), ("jsonp", JSONP), ("xml", XML)],
        )
        .syntax("html | json | jsonp | xml")
        .default("html")
        .doc("Format of the list: html, xml, json or jsonp."),
        Directive::flag("autoindex_localtime", |c: &mut Conf| &mut c.autoindex_localtime)
            .default("off")
            .doc("Shows local times in HTML instead of GMT."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; autoindex, autoindex_exact_size, autoindex_format, autoindex_localtime);
    },
    install: |conf, program| {
        if conf.autoindex == Some(true) {
            let conf = conf.clone();
            program.on(Phase::Content, move |req| handle(req, &conf));
        }
    },
    example: "
        location /pub/ {
            autoindex on;
            autoindex_exact_size off;
        }
    ",
    ..Module::named("autoindex")
};

fn handle(req: &Rc<Request>, conf: &Arc<Conf>) -> Outcome {
    if !req.uri.borrow().path.ends_with(b"/") || !matches!(req.method.get(), Method::Get | Method::Head) {
        return Ready::Now(Step::Declined);
    }
    let mut path = Vec::new();
    if req.map_uri_to_path(&mut path).is_none() {
        return Ready::Now(Step::Status(500));
    }
    if path.len() > 1 {
        path.pop();
    }
    let mut format = conf.autoindex_format.unwrap_or(HTML);
    let mut callback = Vec::new();
    if format == JSONP {
        match jsonp_callback(req) {
            Ok(name) if name.is_empty() => format = JSON,
            Ok(name) => callback = name,
            Err(()) => return Ready::Now(Step::Status(400)),
        }
    }
    let (req, conf) = (req.clone(), conf.clone());
    Ready::later(async move { list(&req, &conf, path, format, &callback).await })
}

/// The name that the client gives its JSONP function; empty for none.
fn jsonp_callback(req: &Request) -> Result<Vec<u8>, ()> {
    let uri = req.uri.borrow();
    let Some(name) = args::arg(&uri.args, b"callback") else { return Ok(Vec::new()) };
    if name.len() > CALLBACK_BYTES_MAX {
        req.log(Level::Info, format_args!("client sent too long callback name: \"{}\"", BStr::new(name)));
        return Err(());
    }
    if !name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.') {
        req.log(Level::Info, format_args!("client sent invalid callback name: \"{}\"", BStr::new(name)));
        return Err(());
    }
    Ok(name.to_vec())
}

async fn list(req: &Rc<Request>, conf: &Conf, path: Vec<u8>, format: u32, callback: &[u8]) -> Step {
    let mut entries = match directory::read(path).await {
        Ok(entries) => entries,
        Err(error) => return Step::Status(error.log(req)),
    };
    entries.sort_by(|a, b| b.is_directory().cmp(&a.is_directory()).then_with(|| a.name.cmp(&b.name)));
    {
        let mut response = req.response.borrow_mut();
        response.status = 200;
        response.content_type = match format {
            JSON => &b"application/json"[..],
            JSONP => b"application/javascript",
            XML => b"text/xml",
            _ => b"text/html",
        }
        .to_vec();
        if format == XML {
            response.charset = b"utf-8".to_vec();
        }
    }
    // The head goes first because a filter may say the charset, which decides how names are cut.
    if req.send_header().wait().await.is_err() {
        return Step::Close;
    }
    let is_utf8 = req.response.borrow().charset.eq_ignore_ascii_case(b"utf-8");
    let body = match format {
        JSON | JSONP => json(&entries, callback),
        XML => xml(&entries),
        _ => html(&req.uri.borrow().path, &entries, conf, is_utf8),
    };
    match req.send(Chunk::bytes(Bytes::from(body)).and_last()).wait().await {
        Ok(()) => Step::Ok,
        Err(_) => Step::Close,
    }
}

/// Day, month, year, hour, minute, second in GMT, or in local time.
fn time_of(seconds: i64, local: bool) -> DateTime<chrono::FixedOffset> {
    let utc = DateTime::<Utc>::from_timestamp(seconds, 0).unwrap_or_default();
    match Local.timestamp_opt(seconds, 0) {
        chrono::LocalResult::Single(time) if local => time.fixed_offset(),
        _ => utc.fixed_offset(),
    }
}

fn html(path: &[u8], entries: &[Entry], conf: &Conf, is_utf8: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + entries.len() * 160);
    out.extend_from_slice(b"<html>\r\n<head><title>Index of ");
    escape_html(path, &mut out);
    out.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
    escape_html(path, &mut out);
    out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
    for entry in entries {
        html_entry(entry, conf, is_utf8, &mut out);
    }
    out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
    out
}

fn html_entry(entry: &Entry, conf: &Conf, is_utf8: bool, out: &mut Vec<u8>) {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    out.extend_from_slice(b"<a href=\"");
    escape_uri(&entry.name, Escape::UriComponent, out);
    if entry.is_directory() {
        out.push(b'/');
    }
    out.extend_from_slice(b"\">");
    let mut chars = name(&entry.name, is_utf8, out);
    if chars <= NAME_CHARS_MAX {
        if entry.is_directory() && chars < NAME_CHARS_MAX {
            out.push(b'/');
            chars += 1;
        }
        out.extend_from_slice(b"</a>");
        out.resize(out.len() + NAME_CHARS_MAX - chars, b' ');
    }
    let time = time_of(entry.info.mtime, conf.autoindex_localtime == Some(true));
    let month = MONTHS[time.month0() as usize];
    // Writing into memory cannot fail.
    let _ = write!(out, " {:02}-{month}-{} {:02}:{:02} ", time.day(), time.year(), time.hour(), time.minute());
    let _ = match (conf.autoindex_exact_size != Some(false), entry.is_directory()) {
        (true, true) => write!(out, "{:>19}", "-"),
        (true, false) => write!(out, "{:>19}", entry.info.size),
        (false, true) => write!(out, "{:>7}", "-"),
        (false, false) => write!(out, "{}", rounded(entry.info.size)),
    };
    out.extend_from_slice(b"\r\n");
}

/// Writes the shown part of a name and returns how many characters the whole has. A longer name than fits ends with
/// `..>` and has its link closed.
fn name(name: &[u8], is_utf8: bool, out: &mut Vec<u8>) -> usize {
    let text = if is_utf8 { name.to_str().ok() } else { None };
    let chars = text.map_or(name.len(), |text| text.chars().count());
    if chars <= NAME_CHARS_MAX {
        escape_html(name, out);
        return chars;
    }
    let shown = NAME_CHARS_MAX - 3;
    let end = text.and_then(|text| text.char_indices().nth(shown)).map_or(shown, |(at, _)| at);
    escape_html(&name[..end], out);
    out.extend_from_slice(b"..&gt;</a>");
    chars
}

/// A size in seven characters.
fn rounded(size: u64) -> String {
    let in_units = |unit: u64| size / unit + u64::from(size % unit > unit / 2 - 1);
    match size {
        0x4000_0000.. => format!("{:>6}G", in_units(1 << 30)),
        0x10_0000.. => format!("{:>6}M", in_units(1 << 20)),
        10_000.. => format!("{:>6}K", in_units(1 << 10)),
        _ => format!("{size:>7}"),
    }
}

fn kind_of(entry: &Entry) -> &'static str {
    match (entry.is_directory(), entry.is_file()) {
        (true, _) => "directory",
        (_, true) => "file",
        _ => "other",
    }
}

fn json(entries: &[Entry], callback: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + entries.len() * 128);
    if !callback.is_empty() {
        out.extend_from_slice(b"/* callback */\r\n");
        out.extend_from_slice(callback);
        out.push(b'(');
    }
    out.push(b'[');
    for (index, entry) in entries.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"\r\n{ \"name\":\"" } else { b",\r\n{ \"name\":\"" });
        let start = out.len();
        out.extend_from_slice(&entry.name);
        crate::log::escape_json(&mut out, start);
        let _ =
            write!(out, "\", \"type\":\"{}\", \"mtime\":\"{}\"", kind_of(entry), clock::http_date_of(entry.info.mtime));
        if entry.is_file() {
            let _ = write!(out, ", \"size\":{}", entry.info.size);
        }
        out.extend_from_slice(b" }");
    }
    out.extend_from_slice(b"\r\n]");
    if !callback.is_empty() {
        out.extend_from_slice(b");");
    }
    out
}

fn xml(entries: &[Entry]) -> Vec<u8> {
    let mut out = b"<?xml version=\"1.0\"?>\r\n<list>\r\n".to_vec();
    for entry in entries {
        let (kind, time) = (kind_of(entry), time_of(entry.info.mtime, false));
        let _ = write!(out, "<{kind} mtime=\"{}\"", time.format("%Y-%m-%dT%H:%M:%SZ"));
        if entry.is_file() {
            let _ = write!(out, " size=\"{}\"", entry.info.size);
        }
        out.push(b'>');
        escape_html(&entry.name, &mut out);
        let _ = write!(out, "</{kind}>\r\n");
    }
    out.extend_from_slice(b"</list>\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_sizes() {
        for (size, expected) in [
            (0, "      0"),
            (9999, "   9999"),
            (10_000, "    10K"),
            (10_752, "    11K"),
            (1_048_575, "  1024K"),
            (1_048_576, "     1M"),
            (1_572_864, "     2M"),
            (1_073_741_824, "     1G"),
        ] {
            assert_eq!(rounded(size), expected, "{size}");
        }
    }

    #[test]
    fn cuts_names() {
        #[track_caller]
        fn check(text: &str, is_utf8: bool, chars: usize, expected: &str) {
            let mut out = Vec::new();
            assert_eq!(name(text.as_bytes(), is_utf8, &mut out), chars);
            assert_eq!(out.as_bstr(), expected);
        }
        check("a<b", false, 3, "a&lt;b");
        let long = "x".repeat(51);
        check(&long, false, 51, &format!("{}..&gt;</a>", "x".repeat(47)));
        check(&"ä".repeat(50), true, 50, &"ä".repeat(50));
        check(&"ä".repeat(51), true, 51, &format!("{}..&gt;</a>", "ä".repeat(47)));
    }
}
