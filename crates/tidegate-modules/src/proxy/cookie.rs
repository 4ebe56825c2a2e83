//! `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`: what a server's cookies say.
//!
//! Source: nginx, `ngx_http_proxy_rewrite_cookie`.

use std::sync::Arc;

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{conf::Build, request::Request, template::Template};

use super::redirect::{Pattern, Rule};

/// Rules for one attribute; none for `off`.
pub(super) type Rules = Arc<Vec<Rule>>;

/// One `proxy_cookie_flags`.
#[derive(Debug, Clone)]
pub(super) struct FlagRule {
    cookie: Pattern,
    flags: Vec<Flag>,
}

/// All of them at a level.
pub(super) type FlagRules = Arc<Vec<FlagRule>>;

#[derive(Debug, Clone)]
enum Flag {
    Fixed(FlagKind),
    /// Known when a request runs.
    Template(Template),
}

/// What becomes of a flag of a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlagKind {
    Secure(bool),
    HttpOnly(bool),
    /// The value; `None` takes it away.
    SameSite(Option<&'static str>),
}

const FLAGS: &[(&str, FlagKind)] = &[
    ("secure", FlagKind::Secure(true)),
    ("nosecure", FlagKind::Secure(false)),
    ("httponly", FlagKind::HttpOnly(true)),
    ("nohttponly", FlagKind::HttpOnly(false)),
    ("samesite=strict", FlagKind::SameSite(Some("Strict"))),
    ("samesite=lax", FlagKind::SameSite(Some("Lax"))),
    ("samesite=none", FlagKind::SameSite(Some("None"))),
    ("nosamesite", FlagKind::SameSite(None)),
];

fn flag_of(text: &[u8]) -> Option<FlagKind> {
    FLAGS.iter().find(|(word, _)| text.eq_ignore_ascii_case(word.as_bytes())).map(|(_, kind)| *kind)
}

/// Reads a `proxy_cookie_domain` or `proxy_cookie_path`.
pub(super) fn parse(
    rules: &mut Option<Rules>,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    let list = Arc::make_mut(rules.get_or_insert_default());
    match &*directive.args {
        [word] if word.value == "off" => list.clear(),
        [pattern, replacement] => {
            list.push(Rule { pattern: Pattern::parse(pattern, build)?, replacement: build.template(replacement)? });
        }
        [word, ..] => return Err(Diagnostic::invalid_parameter(&word.value, word.span, ["off"])),
        [] => {}
    }
    Ok(())
}

/// Reads a `proxy_cookie_domain`: letters' case does not matter, nor does a dot in front of a domain.
pub(super) fn parse_domain(
    rules: &mut Option<Rules>,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    let [pattern, replacement] = &*directive.args else { return parse(rules, directive, build) };
    let mut replacement = replacement.clone();
    if replacement.value.starts_with(b".") {
        replacement.value.remove(0);
    }
    let rule = Rule { pattern: Pattern::parse_caseless(pattern, build)?, replacement: build.template(&replacement)? };
    Arc::make_mut(rules.get_or_insert_default()).push(rule);
    Ok(())
}

/// Reads a `proxy_cookie_flags`.
pub(super) fn parse_flags(
    rules: &mut Option<FlagRules>,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    let list = Arc::make_mut(rules.get_or_insert_default());
    let (cookie, words) = directive.args.split_first().expect("the table asks for an argument");
    if words.is_empty() {
        if cookie.value != "off" {
            return Err(Diagnostic::invalid_parameter(&cookie.value, cookie.span, ["off"]));
        }
        list.clear();
        return Ok(());
    }
    let cookie = Pattern::parse_caseless(cookie, build)?;
    let mut flags = Vec::new();
    for word in words {
        let template = build.template(word)?;
        flags.push(match template.as_literal() {
            None => Flag::Template(template),
            Some(text) => Flag::Fixed(flag_of(text).ok_or_else(|| {
                Diagnostic::invalid_parameter(&word.value, word.span, FLAGS.iter().map(|(word, _)| *word))
            })?),
        });
    }
    list.push(FlagRule { cookie, flags });
    Ok(())
}

/// All rules of a location.
#[derive(Debug, Default)]
pub(super) struct CookieRules {
    pub(super) domain: Option<Rules>,
    pub(super) path: Option<Rules>,
    pub(super) flags: Option<FlagRules>,
}

impl CookieRules {
    pub(super) fn is_empty(&self) -> bool {
        self.domain.as_ref().is_none_or(|rules| rules.is_empty())
            && self.path.as_ref().is_none_or(|rules| rules.is_empty())
            && self.flags.as_ref().is_none_or(|rules| rules.is_empty())
    }

    /// The new value of a `Set-Cookie`; `None` leaves it as it is.
    pub(super) fn rewrite(&self, req: &Request, value: &[u8]) -> Option<Vec<u8>> {
        let mut attributes: Vec<Attribute> = value.split_str(";").map(Attribute::parse).collect();
        let mut changed = false;
        for attribute in &mut attributes[1..] {
            let rewritten = match (&self.domain, &self.path) {
                (Some(rules), _) if attribute.is("domain") => {
                    rules.iter().find_map(|rule| rewrite_domain(rule, req, attribute.value.as_deref()?))
                }
                (_, Some(rules)) if attribute.is("path") => {
                    rules.iter().find_map(|rule| rule.rewrite_prefix(req, attribute.value.as_deref()?))
                }
                _ => None,
            };
            if rewritten.is_some() {
                (attribute.value, changed) = (rewritten, true);
            }
        }
        changed |= self.apply_flags(req, &mut attributes);
        changed.then(|| {
            let texts: Vec<Vec<u8>> = attributes.into_iter().map(Attribute::text).collect();
            bstr::join("; ", texts)
        })
    }

    fn apply_flags(&self, req: &Request, attributes: &mut Vec<Attribute>) -> bool {
        let Some(rules) = &self.flags else { return false };
        let name = attributes[0].name.clone();
        let matches = |rule: &&FlagRule| match &rule.cookie {
            Pattern::Text(text) => text.eval_cow(req).eq_ignore_ascii_case(&name),
            Pattern::Regex(regex) => Pattern::matches(regex, req, &name),
        };
        let Some(rule) = rules.iter().find(matches) else { return false };
        let kinds: Vec<FlagKind> = rule
            .flags
            .iter()
            .filter_map(|flag| match flag {
                Flag::Fixed(kind) => Some(*kind),
                Flag::Template(template) => flag_of(&template.eval_cow(req)),
            })
            .collect();
        for kind in &kinds {
            match *kind {
                FlagKind::Secure(on) => set_flag(attributes, "Secure", on.then_some(None)),
                FlagKind::HttpOnly(on) => set_flag(attributes, "HttpOnly", on.then_some(None)),
                FlagKind::SameSite(value) => set_flag(attributes, "SameSite", value.map(Some)),
            }
        }
        !kinds.is_empty()
    }
}

/// Gives a flag its value in its place, or at the end if it is new; `None` takes it away.
fn set_flag(attributes: &mut Vec<Attribute>, name: &str, value: Option<Option<&str>>) {
    let place = attributes.iter().skip(1).position(|attribute| attribute.is(name)).map(|at| at + 1);
    match (place, value) {
        (Some(at), Some(value)) => attributes[at].value = value.map(Into::into),
        (Some(at), None) => drop(attributes.remove(at)),
        (None, Some(value)) => attributes.push(Attribute { name: name.into(), value: value.map(Into::into) }),
        (None, None) => {}
    }
}

/// Domains are compared without regard to case and to a dot in front, which stays.
fn rewrite_domain(rule: &Rule, req: &Request, value: &[u8]) -> Option<Vec<u8>> {
    let Pattern::Text(domain) = &rule.pattern else { return rule.rewrite_prefix(req, value) };
    let domain = domain.eval_cow(req);
    let dot: &[u8] = if value.starts_with(b".") { b"." } else { b"" };
    let domain = domain.strip_prefix(b".").unwrap_or(&domain);
    domain.eq_ignore_ascii_case(&value[dot.len()..]).then(|| [dot, &rule.replacement.eval(req)].concat())
}

/// A part of a cookie between semicolons.
#[derive(Debug)]
struct Attribute {
    name: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Attribute {
    fn parse(text: &[u8]) -> Self {
        let text = text.trim_ascii();
        match text.split_once_str("=") {
            Some((name, value)) => Attribute { name: name.trim_ascii().into(), value: Some(value.trim_ascii().into()) },
            None => Attribute { name: text.into(), value: None },
        }
    }
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
    fn text(self) -> Vec<u8> {
        match self.value {
            Some(value) => [&self.name[..], b"=", &value].concat(),
            None => self.name,
        }
    }
}
