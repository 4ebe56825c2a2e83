//! `sub_filter`: replaces texts in bodies, whatever their case.
//!
//! The body is searched as it comes. What could be the beginning of a match is kept back until more comes, so a match
//! may lie across pieces.
//!
//! Source: nginx, `ngx_http_sub_filter_module`.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use bytes::Bytes;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    output::{Buf, Chunk, Closed},
    phase::Ready,
    request::Request,
    template::Template,
};
use tidegate_http::Known;

use crate::mime_types::MimeTypes;

/// One `sub_filter`.
#[derive(Debug)]
struct Pair {
    pattern: Template,
    replacement: Template,
}

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    sub_filter: Option<Arc<Vec<Pair>>>,
    sub_filter_once: Option<bool>,
    sub_filter_last_modified: Option<bool>,
    sub_filter_types: Option<Arc<MimeTypes>>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("sub_filter", 2, 2, sub_filter)
            .within(Context::ALL)
            .syntax("string replacement")
            .doc("Replaces a string in bodies by another."),
        Directive::flag("sub_filter_once", |c: &mut Conf| &mut c.sub_filter_once)
            .default("on")
            .doc("Each string is replaced at its first place only."),
        Directive::flag("sub_filter_last_modified", |c: &mut Conf| &mut c.sub_filter_last_modified)
            .default("off")
            .doc("Keeps Last-Modified although the body is changed."),
        Directive::custom("sub_filter_types", 1, u16::MAX, |conf: &mut Conf, directive, build| {
            MimeTypes::add(&mut conf.sub_filter_types, &["text/html"], directive, build)
        })
        .syntax("mime-type ...")
        .default("text/html")
        .doc("Media types that are searched, beside text/html; * for all."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; sub_filter, sub_filter_once, sub_filter_last_modified, sub_filter_types);
    },
    install: |conf, program| {
        if conf.sub_filter.is_some() {
            let types = conf.sub_filter_types.clone();
            let types = types.unwrap_or_else(|| Arc::new(MimeTypes::of(&["text/html"])));
            let for_header = conf.clone();
            program.header_filter(move |req| filter_header(req, &for_header, &types));
            let for_body = conf.clone();
            program.body_filter(move |req, chunk| Ready::Now(filter_body(req, chunk, &for_body)));
        }
    },
    example: r#"
        location / {
            sub_filter "http://old.example.com" "https://new.example.com";
            sub_filter_once off;
        }
    "#,
    ..Module::named("sub_filter")
};

fn sub_filter(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let pattern = &directive.args[0];
    if pattern.value.is_empty() {
        return Err(Diagnostic::new(Severity::Emerg, pattern.span, "empty search pattern"));
    }
    let pair = Pair { pattern: build.template(pattern)?, replacement: build.template(&directive.args[1])? };
    Arc::get_mut(conf.sub_filter.get_or_insert_default()).expect("levels share after all was read").push(pair);
    Ok(())
}

/// The search of one response.
#[derive(Default)]
struct Search(RefCell<Option<State>>);

struct State {
    /// In lower case; empty for one that is not looked for any more.
    patterns: Vec<Vec<u8>>,
    /// Bytes that begin a pattern, in either case.
    first: [bool; 256],
    replacements: Vec<Option<Bytes>>,
    once: bool,
    /// What has come and is not searched yet, or could be the beginning of a match.
    held: Vec<u8>,
    /// What goes with the end of it.
    flush: bool,
    last: bool,
}

/// What the filter makes of its input before the client is asked to take it: a replacement may be much longer than what it
/// stands for.
const PART_BYTES: usize = 64 << 10;

fn filter_header(req: &Rc<Request>, conf: &Conf, types: &MimeTypes) -> Ready<Result<(), Closed>> {
    let fits = {
        let response = req.response.borrow();
        let is_encoded = response.fields.get(Known::ContentEncoding).is_some_and(|value| !value.is_empty());
        response.content_length != Some(0) && !is_encoded && types.contains(&response)
    };
    if !fits {
        return Ready::Now(Ok(()));
    }
    let pairs = conf.sub_filter.as_deref().map_or(&[][..], |pairs| pairs);
    let patterns: Vec<_> = pairs.iter().map(|pair| pair.pattern.eval(req).to_ascii_lowercase()).collect();
    if patterns.iter().all(Vec::is_empty) {
        return Ready::Now(Ok(()));
    }
    let mut state = State {
        first: [false; 256],
        replacements: vec![None; patterns.len()],
        patterns,
        once: conf.sub_filter_once != Some(false),
        held: Vec::new(),
        flush: false,
        last: false,
    };
    state.set_first();
    *req.context::<Search>().0.borrow_mut() = Some(state);
    let mut response = req.response.borrow_mut();
    response.filter_need_in_memory = true;
    if req.is_subrequest() {
        return Ready::Now(Ok(()));
    }
    response.body_is_changed();
    if conf.sub_filter_last_modified != Some(true) {
        response.last_modified = None;
        response.fields.remove(Known::LastModified);
        response.fields.remove(Known::ETag);
    }
    Ready::Now(Ok(()))
}

fn filter_body(req: &Rc<Request>, mut chunk: Chunk, conf: &Conf) -> Result<Chunk, Closed> {
    let Some(search) = req.find_context::<Search>() else { return Ok(chunk) };
    // The state leaves its place because replacements are evaluated meanwhile.
    let Some(mut state) = search.0.borrow_mut().take() else { return Ok(chunk) };
    chunk.read_files()?;
    let mut input = std::mem::take(&mut state.held);
    for buf in &chunk.bufs {
        if let Buf::Bytes(bytes) = buf {
            input.extend_from_slice(bytes);
        }
    }
    state.flush |= chunk.flush;
    state.last |= chunk.last;
    let pairs = conf.sub_filter.as_deref().map_or(&[][..], |pairs| pairs);
    let mut out = Vec::with_capacity(input.len() + 64);
    let last = state.last;
    let (used, more) = state.replace(&input, last, &mut out, |index| Bytes::from(pairs[index].replacement.eval(req)));
    input.drain(..used);
    state.held = input;
    let mut changed = Chunk::bytes(Bytes::from(out));
    changed.more = more;
    if !more {
        (changed.flush, changed.last) = (std::mem::take(&mut state.flush), state.last);
    }
    *search.0.borrow_mut() = Some(state);
    Ok(changed)
}

impl State {
    fn set_first(&mut self) {
        self.first = [false; 256];
        for byte in self.patterns.iter().filter_map(|pattern| pattern.first()) {
            self.first[usize::from(byte.to_ascii_lowercase())] = true;
            self.first[usize::from(byte.to_ascii_uppercase())] = true;
        }
    }

    /// Appends `input` with replacements to `out`, about [`PART_BYTES`] of it; answers how much was used, and whether the
    /// rest can be replaced now. Without `last` what could begin a match is left.
    fn replace(
        &mut self,
        input: &[u8],
        last: bool,
        out: &mut Vec<u8>,
        mut replacement: impl FnMut(usize) -> Bytes,
    ) -> (usize, bool) {
        let mut at = 0;
        loop {
            if out.len() >= PART_BYTES && at < input.len() {
                return (at, true);
            }
            let next = input[at..].iter().position(|&byte| self.first[usize::from(byte)]);
            let next = next.map_or(input.len(), |next| at + next);
            out.extend_from_slice(&input[at..next]);
            at = next;
            if at == input.len() {
                return (at, false);
            }
            match self.match_at(&input[at..]) {
                Match::Whole(index) => {
                    let text = self.replacements[index].get_or_insert_with(|| replacement(index));
                    out.extend_from_slice(text);
                    at += self.patterns[index].len();
                    if self.once {
                        self.patterns[index].clear();
                        self.set_first();
                    }
                }
                Match::Perhaps if !last => return (at, false),
                _ => {
                    out.push(input[at]);
                    at += 1;
                }
            }
        }
    }

    fn match_at(&self, input: &[u8]) -> Match {
        let mut perhaps = false;
        for (index, pattern) in self.patterns.iter().enumerate().filter(|(_, pattern)| !pattern.is_empty()) {
            let len = pattern.len().min(input.len());
            if !input[..len].eq_ignore_ascii_case(&pattern[..len]) {
                continue;
            }
            if len == pattern.len() {
                return Match::Whole(index);
            }
            perhaps = true;
        }
        if perhaps { Match::Perhaps } else { Match::None }
    }
}

/// What stands at a place.
enum Match {
    /// This pattern.
    Whole(usize),
    /// Perhaps one: it needs more than there is.
    Perhaps,
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[(&str, &str)], once: bool, pieces: &[&str], expected: &str) {
        let patterns: Vec<_> = pairs.iter().map(|(pattern, _)| pattern.as_bytes().to_ascii_lowercase()).collect();
        let replacements = vec![None; pairs.len()];
        let held = Vec::new();
        let mut state = State { patterns, first: [false; 256], replacements, once, held, flush: false, last: false };
        state.set_first();
        let mut out = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            let mut input = std::mem::take(&mut state.held);
            input.extend_from_slice(piece.as_bytes());
            let last = number + 1 == pieces.len();
            loop {
                let mut part = Vec::new();
                let (used, more) =
                    state.replace(&input, last, &mut part, |index| Bytes::from(pairs[index].1.to_owned()));
                let longest = pairs.iter().map(|pair| pair.1.len()).max().unwrap_or(0);
                assert!(part.len() <= PART_BYTES + longest + input.len());
                out.append(&mut part);
                input.drain(..used);
                if !more {
                    break;
                }
            }
            state.held = input;
        }
        assert!(state.held.is_empty());
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn replaces() {
        check(&[("cat", "dog")], true, &["Cat, cat"], "dog, cat");
        check(&[("cat", "dog")], false, &["Cat, cat"], "dog, dog");
        check(&[("hello", "bye")], false, &["say hel", "lo", " now hell"], "say bye now hell");
        check(&[("aab", "x")], false, &["aaab"], "ax");
        check(&[("aab", "x")], false, &["a", "a", "a", "b"], "ax");
        check(&[("ab", "1"), ("bc", "2")], false, &["abc bc"], "1c 2");
        check(&[("a", "b"), ("b", "a")], true, &["ab ab"], "ba ab");
        check(&[("a", "")], false, &["banana", ""], "bnn");
        check(&[("x", "y")], false, &[""], "");
        check(&[("</head>", "<x></HEAD>")], true, &["<a></hea", "d>"], "<a><x></HEAD>");
    }

    #[test]
    fn makes_much_of_little_in_parts() {
        let long = "y".repeat(50_000);
        check(
            &[("a", &long)],
            false,
            &["ab".repeat(20).as_str(), "a"],
            &format!("{}{long}", format!("{long}b").repeat(20)),
        );
    }

    #[test]
    fn finds_the_same_however_the_body_is_cut() {
        let text = "aabaaabab aab abc";
        for cut in 0..text.len() {
            check(&[("aab", "1"), ("abc", "2")], false, &[&text[..cut], &text[cut..]], "1a1ab 1 2");
        }
    }
}
