//! The directive `rewrite`: a pattern, and what takes the place of a path that matches.
//!
//! Source: nginx, `ngx_http_rewrite` and the regex codes of `ngx_http_script.c`.

use std::rc::Rc;

use bstr::{BStr, ByteSlice};
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    conf::Build,
    phase::Step,
    regex::RegexOptions,
    request::Request,
    template::{Part, Template},
};
use tidegate_http::{
    Known,
    escape::{Escape, Unescape, escape_uri, unescape_uri},
};
use tidegate_net::log::Level;

use super::{condition::Pattern, emerg};

/// The step that follows a match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// The script goes on.
    Continue,
    /// `last`: the script ends, and a location is chosen for the new path.
    Last,
    /// `break`: the script ends, and the request stays where it is.
    Break,
    /// `redirect`, `permanent`: the client is sent elsewhere.
    Redirect(u16),
}

/// A `rewrite`.
pub struct Rewrite {
    pattern: Pattern,
    /// Replacement up to the first `?` in its text, or all of it for redirects.
    path: Template,
    /// What follows that `?`.
    args: Option<Template>,
    /// The request's own arguments follow.
    add_args: bool,
    /// A redirect's replacement has a `?` of its own.
    has_question: bool,
    after: After,
}

/// Whether a replacement is a redirect by its looks alone.
pub(super) fn is_url(text: &[u8]) -> bool {
    [&b"http://"[..], b"https://", b"$scheme"].iter().any(|prefix| text.starts_with(prefix))
}

impl Rewrite {
    pub(super) fn parse(args: &[ast::Arg], build: &mut Build<'_>) -> Result<Rewrite, Diagnostic> {
        let (pattern, replacement) = (&args[0], &args[1]);
        let pattern = Pattern::new(&pattern.value, pattern.span, RegexOptions::NONE, build)?;
        if replacement.value.is_empty() {
            return Err(emerg(replacement, "empty replacement"));
        }
        let (text, add_args) = match replacement.value.strip_suffix(b"?") {
            Some(text) => (text, false),
            None => (&replacement.value[..], true),
        };
        let mut after = if is_url(text) { After::Redirect(302) } else { After::Continue };
        if let Some(flag) = args.get(2) {
            after = match (&**flag.value, after) {
                (b"last", After::Continue) => After::Last,
                (b"break", After::Continue) => After::Break,
                (b"last" | b"break", redirect) => redirect,
                (b"redirect", _) => After::Redirect(302),
                (b"permanent", _) => After::Redirect(301),
                _ => {
                    let known = ["last", "break", "redirect", "permanent"];
                    return Err(Diagnostic::invalid_parameter(&flag.value, flag.span, known));
                }
            };
        }
        let whole = build.template_at(text.as_bstr(), replacement.span)?;
        let (path, args, has_question) = match (after, split_at_question(&whole)) {
            (After::Redirect(_), split) => (whole, None, split.is_some()),
            (_, Some((path, args))) => (path, Some(args), false),
            (_, None) => (whole, None, false),
        };
        Ok(Rewrite { pattern, path, args, add_args, has_question, after })
    }

    /// Rewrites the path if it matches. Answers the step that the script ends with, if it ends here.
    pub(super) fn run(&self, req: &Rc<Request>, log: bool) -> Option<Step> {
        let matches = {
            let uri = req.uri.borrow();
            self.pattern.find(req, &uri.path, log)
        };
        match matches {
            Ok(true) => {}
            Ok(false) => return None,
            Err(step) => return Some(step),
        }
        let flags = req.flags();
        flags.internal.set(true);
        flags.uri_rewritten.set(true);
        flags.uri_changed.set(self.after != After::Break);
        flags.alias_blocked.set(self.after == After::Break);
        if let After::Redirect(status) = self.after {
            self.redirect(req, log);
            return Some(Step::Status(status));
        }
        if !self.change_uri(req, log) {
            return Some(Step::Status(500));
        }
        (self.after != After::Continue).then_some(Step::Declined)
    }

    fn redirect(&self, req: &Request, log: bool) {
        let mut escaped = Vec::new();
        write(&self.path, req, true, &mut escaped);
        let mut location = Vec::with_capacity(escaped.len());
        let used = unescape_uri(&escaped, Unescape::Redirect, &mut location);
        location.extend_from_slice(&escaped[used..]);
        let uri = req.uri.borrow();
        if self.add_args && !uri.args.is_empty() {
            location.push(if self.has_question { b'&' } else { b'?' });
            location.extend_from_slice(&uri.args);
        }
        if log {
            req.log(Level::Notice, format_args!("rewritten redirect: \"{}\"", BStr::new(&location)));
        }
        req.response.borrow_mut().fields.set_known(Known::Location, &location);
    }

    /// Puts the replacement in the place of path and arguments; `false` for an empty path.
    fn change_uri(&self, req: &Request, log: bool) -> bool {
        let mut path = Vec::new();
        write(&self.path, req, false, &mut path);
        let args = self.args.as_ref().map(|args| {
            let mut out = Vec::new();
            write(args, req, true, &mut out);
            out
        });
        let mut uri = req.uri.borrow_mut();
        match args {
            Some(mut args) => {
                if self.add_args && !uri.args.is_empty() {
                    args.push(b'&');
                    args.extend_from_slice(&uri.args);
                }
                uri.args = args;
            }
            None if !self.add_args => uri.args.clear(),
            None => {}
        }
        uri.path = path;
        drop(uri);
        let uri = req.uri.borrow();
        if log {
            let (path, args) = (BStr::new(&uri.path), BStr::new(&uri.args));
            req.log(Level::Notice, format_args!("rewritten data: \"{path}\", args: \"{args}\""));
        }
        if uri.path.is_empty() {
            req.log(Level::Error, format_args!("the rewritten URI has a zero length"));
        }
        !uri.path.is_empty()
    }
}

/// Appends the text for `req`. With `escape`, groups of a path that the client had written with escapes get them back.
fn write(template: &Template, req: &Request, escape: bool, out: &mut Vec<u8>) {
    if !escape || !was_escaped(req) {
        return template.write(req, out);
    }
    for part in template.parts() {
        match part {
            Part::Literal(text) => out.extend_from_slice(text),
            Part::Variable(id) => {
                req.variable(*id, out);
            }
            Part::Capture(group) => {
                let mut raw = Vec::new();
                req.capture(usize::from(*group), &mut raw);
                escape_uri(&raw, Escape::Args, out);
            }
        }
    }
}

/// Whether the client's path had escapes, or a plus sign.
fn was_escaped(req: &Request) -> bool {
    if req.is_subrequest() {
        return false;
    }
    let head = req.head.borrow();
    let target = head.target();
    let path = &target[..memchr::memchr(b'?', target).unwrap_or(target.len())];
    head.quoted() || memchr::memchr(b'+', path).is_some()
}

/// Splits a replacement at the first `?` in its text, which is dropped.
fn split_at_question(template: &Template) -> Option<(Template, Template)> {
    let parts = template.parts();
    let (index, at) = parts.iter().enumerate().find_map(|(index, part)| match part {
        Part::Literal(text) => memchr::memchr(b'?', text).map(|at| (index, at)),
        _ => None,
    })?;
    let Part::Literal(text) = &parts[index] else { return None };
    let literal = |text: &[u8]| (!text.is_empty()).then(|| Part::Literal(text.into()));
    let path = parts[..index].iter().cloned().chain(literal(&text[..at]));
    let args = literal(&text[at + 1..]).into_iter().chain(parts[index + 1..].iter().cloned());
    Some((Template::new(path.collect()), Template::new(args.collect())))
}
