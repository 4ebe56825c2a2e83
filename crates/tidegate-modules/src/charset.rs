//! `charset`: names the charset of texts, and converts them by tables.
//!
//! Source: nginx, `ngx_http_charset_filter_module`.

use std::{borrow::Cow, cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

use bstr::{BStr, BString, ByteSlice};
use bytes::Bytes;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    main_conf::{block_of, duplicate},
    module::{Context, Directive, Module},
    output::{Buf, Chunk, Closed, Response},
    phase::Ready,
    request::Request,
    template::Template,
};
use tidegate_http::Known;
use tidegate_net::log::Level;

use crate::mime_types::MimeTypes;

const DEFAULT_TYPES: &[&str] =
    &["text/html", "text/xml", "text/plain", "text/vnd.wap.wml", "application/javascript", "application/rss+xml"];

/// What a `charset` or `source_charset` says.
#[derive(Debug, Clone)]
enum Name {
    Off,
    Fixed(BString),
    Computed(Template),
}

/// A table between two charsets; the second may be UTF-8.
#[derive(Debug)]
struct Map {
    first: BString,
    second: BString,
    /// From each byte of the first charset to its character in the second.
    forth: Vec<Box<[u8]>>,
    /// From characters of the second charset to bytes of the first.
    back: HashMap<Box<[u8]>, u8>,
}

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    charset: Option<Name>,
    source_charset: Option<Name>,
    override_charset: Option<bool>,
    charset_types: Option<Arc<MimeTypes>>,
    /// Those of the `http` level, at all levels.
    maps: Vec<Arc<Map>>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("charset", 1, 1, |conf: &mut Conf, directive, build| {
            set(&mut conf.charset, directive, build)
        })
        .within(Context::ALL_IF)
        .syntax("charset | off")
        .default("off")
        .doc("Charset that the Content-Type of texts names."),
        Directive::custom("source_charset", 1, 1, |conf: &mut Conf, directive, build| {
            set(&mut conf.source_charset, directive, build)
        })
        .within(Context::ALL_IF)
        .syntax("charset")
        .doc("Charset that texts are in; if another is asked for, they are converted."),
        Directive::flag("override_charset", |c: &mut Conf| &mut c.override_charset)
            .within(Context::ALL_IF)
            .default("off")
            .doc("Converts responses that name a charset already."),
        Directive::custom("charset_types", 1, u16::MAX, |conf: &mut Conf, directive, build| {
            MimeTypes::add(&mut conf.charset_types, DEFAULT_TYPES, directive, build)
        })
        .syntax("mime-type ...")
        .default("text/html text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml")
        .doc("Media types that get a charset, beside text/html; * for all."),
        Directive::block("charset_map", 2, 2, charset_map)
            .within(Context::HTTP)
            .syntax("charset1 charset2 { ... }")
            .doc("A table between two charsets; UTF-8 stands in the second place."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; charset, source_charset, override_charset, charset_types);
        if child.maps.is_empty() {
            child.maps.clone_from(&parent.maps);
        }
    },
    install: |conf, program| {
        // Without a charset of ours, an upstream may still ask for one.
        if !matches!(conf.charset, None | Some(Name::Off)) || !conf.maps.is_empty() {
            let types = conf.charset_types.clone();
            let types = types.unwrap_or_else(|| Arc::new(MimeTypes::of(DEFAULT_TYPES)));
            let for_header = conf.clone();
            program.header_filter(move |req| filter_header(req, &for_header, &types));
            if !conf.maps.is_empty() {
                program.body_filter(|req, chunk| Ready::Now(filter_body(req, chunk)));
            }
        }
    },
    example: "
        charset utf-8;
        charset_types text/plain text/css application/json;
    ",
    ..Module::named("charset")
};

fn set(field: &mut Option<Name>, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if field.is_some() {
        return Err(duplicate(directive));
    }
    let arg = &directive.args[0];
    *field = Some(if arg.value == "off" && directive.name() == "charset" {
        Name::Off
    } else if arg.value.starts_with(b"$") {
        Name::Computed(build.template(arg)?)
    } else {
        Name::Fixed(arg.value.clone())
    });
    Ok(())
}

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

fn charset_map(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let [first, second] = &*directive.args else { return Ok(()) };
    let same = |a: &BString, b: &BString| a.eq_ignore_ascii_case(b);
    if same(&first.value, &second.value) {
        let message = format!("\"charset_map\" between the same charsets \"{}\" and \"{}\"", first.value, second.value);
        return Err(emerg(first, message));
    }
    if first.value.eq_ignore_ascii_case(b"utf-8") {
        let message = "\"charset_map\" with \"utf-8\" charset should be given in the second column";
        return Err(emerg(first, message.to_owned()));
    }
    let is_known = |map: &&Arc<Map>| {
        (same(&map.first, &first.value) && same(&map.second, &second.value))
            || (same(&map.first, &second.value) && same(&map.second, &first.value))
    };
    if conf.maps.iter().find(is_known).is_some() {
        let message = format!("duplicate \"charset_map\" between \"{}\" and \"{}\"", first.value, second.value);
        return Err(emerg(first, message));
    }
    let ascii = |byte: u8| if byte < 128 { byte } else { b'?' };
    let mut map = Map {
        first: first.value.clone(),
        second: second.value.clone(),
        forth: (0..=255).map(|byte| Box::from([ascii(byte)])).collect(),
        back: HashMap::new(),
    };
    let is_utf8 = second.value.eq_ignore_ascii_case(b"utf-8");
    for entry in block_of(directive) {
        let [to] = &*entry.args else {
            return Err(emerg(&entry.name, "invalid parameters number".to_owned()));
        };
        let byte = match hex(&entry.name.value).as_deref() {
            Some(&[byte]) => byte,
            _ => return Err(emerg(&entry.name, format!("invalid value \"{}\"", entry.name.value))),
        };
        let character = hex(&to.value).filter(|bytes| {
            if is_utf8 { std::str::from_utf8(bytes).is_ok_and(|s| s.chars().count() == 1) } else { bytes.len() == 1 }
        });
        let character: Box<[u8]> =
            character.ok_or_else(|| emerg(to, format!("invalid value \"{}\"", to.value)))?.into();
        map.forth[usize::from(byte)] = character.clone();
        map.back.insert(character, byte);
    }
    conf.maps.push(Arc::new(map));
    Ok(())
}

/// Bytes of hex digits; one digit stands for a byte as well.
fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if let [one] = text {
        return Some(vec![digit(*one)?]);
    }
    if text.is_empty() || !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// A conversion under way.
#[derive(Default)]
struct Conversion(RefCell<Option<Converter>>);

struct Converter {
    map: Arc<Map>,
    /// From the second charset of the map to the first.
    backwards: bool,
    /// The beginning of a UTF-8 character.
    held: Vec<u8>,
}

impl Name {
    fn eval<'n>(&'n self, req: &Request) -> Option<Cow<'n, [u8]>> {
        match self {
            Name::Off => None,
            Name::Fixed(name) => Some(name.as_slice().into()),
            Name::Computed(template) => Some(template.eval(req).into()).filter(|name: &Cow<'_, [u8]>| !name.is_empty()),
        }
    }
}

fn filter_header(req: &Rc<Request>, conf: &Conf, types: &MimeTypes) -> Ready<Result<(), Closed>> {
    if let Some(converter) = decide(req, conf, types) {
        let changes_length = converter.map.second.eq_ignore_ascii_case(b"utf-8");
        *req.context::<Conversion>().0.borrow_mut() = Some(converter);
        let mut response = req.response.borrow_mut();
        response.filter_need_in_memory = true;
        // Byte for byte: length and parts stay what they are.
        if changes_length && !req.is_subrequest() {
            response.body_is_changed();
        }
    }
    Ready::Now(Ok(()))
}

/// Names the charset of the response, and says whether its body is to be converted.
fn decide(req: &Rc<Request>, conf: &Conf, types: &MimeTypes) -> Option<Converter> {
    let wanted_by_upstream = {
        let mut response = req.response.borrow_mut();
        let before = response.charset_before.take().filter(|_| !req.is_subrequest());
        before.map(|before| std::mem::replace(&mut response.charset, before))
    };
    let target = if req.is_subrequest() {
        Cow::Owned(req.main().response.borrow().charset.clone())
    } else if let Some(charset) = wanted_by_upstream {
        Cow::Owned(charset)
    } else {
        let is_wanted = {
            let response = req.response.borrow();
            if response.content_type.is_empty() {
                false
            } else if response.charset.is_empty() {
                types.contains(&response)
            } else {
                conf.override_charset == Some(true)
            }
        };
        if !is_wanted {
            return None;
        }
        conf.charset.as_ref()?.eval(req)?
    };
    if target.is_empty() {
        return None;
    }
    let source = {
        let named = req.response.borrow().charset.clone();
        if named.is_empty() { conf.source_charset.as_ref().and_then(|name| name.eval(req)) } else { Some(named.into()) }
    };
    let mut response = req.response.borrow_mut();
    let Some(source) = source.filter(|source| !source.eq_ignore_ascii_case(&target)) else {
        set_charset(&mut response, &target);
        return None;
    };
    if response.fields.get(Known::ContentEncoding).is_some_and(|value| !value.is_empty()) {
        return None;
    }
    let fits = |a: &BString, b: &[u8]| a.eq_ignore_ascii_case(b);
    let found = conf.maps.iter().find_map(|map| {
        let forth = fits(&map.first, &source) && fits(&map.second, &target);
        let back = fits(&map.second, &source) && fits(&map.first, &target);
        (forth || back).then(|| (map.clone(), back))
    });
    let Some((map, backwards)) = found else {
        drop(response);
        let (source, target) = (BStr::new(&*source), BStr::new(&*target));
        let message = format_args!("no \"charset_map\" between the charsets \"{source}\" and \"{target}\"");
        req.log(Level::Error, message);
        return None;
    };
    set_charset(&mut response, &target);
    Some(Converter { map, backwards, held: Vec::new() })
}

/// Source: nginx, `ngx_http_set_charset`: a redirect has a body of ours, whose charset is nobody's business.
/// A type that somebody wrote with parameters of its own is complete.
fn set_charset(response: &mut Response, charset: &[u8]) {
    let is_complete = response.charset.is_empty() && memchr::memchr(b';', &response.content_type).is_some();
    if !matches!(response.status, 301 | 302) && !is_complete {
        response.charset.clear();
        response.charset.extend_from_slice(charset);
    }
}

fn filter_body(req: &Rc<Request>, mut chunk: Chunk) -> Result<Chunk, Closed> {
    let Some(conversion) = req.find_context::<Conversion>() else { return Ok(chunk) };
    let mut converter = conversion.0.borrow_mut();
    let Some(converter) = &mut *converter else { return Ok(chunk) };
    chunk.read_files()?;
    let mut out = Vec::with_capacity(usize::try_from(chunk.len()).unwrap_or(0) * 2);
    for buf in &chunk.bufs {
        if let Buf::Bytes(bytes) = buf {
            converter.convert(bytes, &mut out);
        }
    }
    if chunk.last && !std::mem::take(&mut converter.held).is_empty() {
        out.push(b'?');
    }
    let mut changed = Chunk::bytes(Bytes::from(out));
    (changed.flush, changed.last) = (chunk.flush, chunk.last);
    Ok(changed)
}

impl Converter {
    fn convert(&mut self, input: &[u8], out: &mut Vec<u8>) {
        if !self.backwards {
            for &byte in input {
                out.extend_from_slice(&self.map.forth[usize::from(byte)]);
            }
        } else if self.map.second.eq_ignore_ascii_case(b"utf-8") {
            self.convert_utf8(input, out);
        } else {
            out.extend(input.iter().map(|&byte| match self.map.back.get(&[byte][..]) {
                Some(&first) => first,
                None if byte < 128 => byte,
                None => b'?',
            }));
        }
    }

    /// From UTF-8: characters without a place in the table become numeric references of HTML.
    fn convert_utf8(&mut self, input: &[u8], out: &mut Vec<u8>) {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(input);
        for part in ByteSlice::utf8_chunks(&*bytes) {
            for character in part.valid().chars() {
                let mut buf = [0; 4];
                let encoded = character.encode_utf8(&mut buf).as_bytes();
                match self.map.back.get(encoded) {
                    Some(&byte) => out.push(byte),
                    None if character.is_ascii() => out.push(encoded[0]),
                    None => out.extend_from_slice(format!("&#{};", u32::from(character)).as_bytes()),
                }
            }
            let rest = part.invalid();
            if part.incomplete() {
                self.held = rest.to_vec();
            } else if !rest.is_empty() {
                out.push(b'?');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn koi8() -> Arc<Map> {
        let mut map = Map {
            first: "koi8-r".into(),
            second: "utf-8".into(),
            forth: (0..=255u8).map(|byte| Box::from([if byte < 128 { byte } else { b'?' }])).collect(),
            back: HashMap::new(),
        };
        for (byte, text) in [(0xc1, "а"), (0xc2, "б")] {
            map.forth[byte] = text.as_bytes().into();
            map.back.insert(text.as_bytes().into(), byte as u8);
        }
        Arc::new(map)
    }

    #[test]
    fn converts_to_utf8() {
        let mut out = Vec::new();
        let mut converter = Converter { map: koi8(), backwards: false, held: Vec::new() };
        converter.convert(b"x\xc1\xc2\xff", &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "xаб?");
    }

    #[test]
    fn converts_from_utf8_however_it_is_cut() {
        let text = "xаб€y";
        for cut in 0..text.len() {
            let mut out = Vec::new();
            let mut converter = Converter { map: koi8(), backwards: true, held: Vec::new() };
            converter.convert(&text.as_bytes()[..cut], &mut out);
            converter.convert(&text.as_bytes()[cut..], &mut out);
            assert_eq!(out, b"x\xc1\xc2&#8364;y", "{cut}");
        }
    }

    #[test]
    fn reads_hex() {
        assert_eq!(hex(b"80"), Some(vec![0x80]));
        assert_eq!(hex(b"E282AC"), Some(vec![0xe2, 0x82, 0xac]));
        assert_eq!(hex(b"8"), Some(vec![8]));
        assert_eq!(hex(b""), None);
        assert_eq!(hex(b"123"), None);
        assert_eq!(hex(b"zz"), None);
    }
}
