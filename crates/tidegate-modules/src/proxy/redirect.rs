//! `proxy_redirect`: where a server's `Location` and `Refresh` lead.
//!
//! Source: nginx, `ngx_http_proxy_rewrite_redirect`.

use std::sync::Arc;

use bstr::BString;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    regex::{Regex, RegexOptions},
    request::Request,
    template::Template,
};

use super::pass::Pass;

/// The pattern that a text is compared with.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    /// By its beginning.
    Text(Template),
    /// By a regular expression.
    Regex(Arc<Regex>),
}

/// One rule of rewriting.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) pattern: Pattern,
    pub(super) replacement: Template,
}

/// A rule of `proxy_redirect`.
#[derive(Debug, Clone)]
pub(super) enum Redirect {
    /// `default`: the server's URL becomes the location's path.
    Default,
    /// Any other.
    Rule(Rule),
}

/// What `proxy_redirect` says at a level; no rules for `off`.
pub(super) type Redirects = Arc<Vec<Redirect>>;

impl Pattern {
    /// Reads a pattern: `~` and `~*` begin a regular expression.
    pub(super) fn parse(arg: &ast::Arg, build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        match arg.value.strip_prefix(b"~") {
            None => Ok(Pattern::Text(build.template(arg)?)),
            Some(pattern) => match pattern.strip_prefix(b"*") {
                Some(pattern) => Self::regex(arg, pattern, RegexOptions::CASELESS, build),
                None => Self::regex(arg, pattern, RegexOptions::NONE, build),
            },
        }
    }

    /// The same where letters' case never matters: `~` begins a regular expression.
    pub(super) fn parse_caseless(arg: &ast::Arg, build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        match arg.value.strip_prefix(b"~") {
            None => Ok(Pattern::Text(build.template(arg)?)),
            Some(pattern) => Self::regex(arg, pattern, RegexOptions::CASELESS, build),
        }
    }

    fn regex(arg: &ast::Arg, pattern: &[u8], options: RegexOptions, build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        let regex = Regex::new(pattern, options)
            .map_err(|error| Diagnostic::new(Severity::Emerg, arg.span, error.to_string()))?;
        build.define_captures(&regex, arg.span)?;
        Ok(Pattern::Regex(Arc::new(regex)))
    }

    /// Whether a regular expression matches; its groups are then known to the replacement.
    pub(super) fn matches(regex: &Regex, req: &Request, value: &[u8]) -> bool {
        match regex.captures(value) {
            Ok(Some(captures)) => {
                req.set_named_captures(regex, value, &captures);
                req.set_captures(value, captures);
                true
            }
            _ => false,
        }
    }
}

impl Rule {
    /// The new value of a text that begins as the pattern says.
    pub(super) fn rewrite_prefix(&self, req: &Request, value: &[u8]) -> Option<Vec<u8>> {
        match &self.pattern {
            Pattern::Text(prefix) => {
                let rest = value.strip_prefix(&*prefix.eval_cow(req))?;
                let mut out = self.replacement.eval(req);
                out.extend_from_slice(rest);
                Some(out)
            }
            Pattern::Regex(regex) => Pattern::matches(regex, req, value).then(|| self.replacement.eval(req)),
        }
    }
}

/// Reads a `proxy_redirect`.
pub(super) fn parse(
    redirects: &mut Option<Redirects>,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    let list = Arc::make_mut(redirects.get_or_insert_default());
    match &*directive.args {
        [word] if word.value == "off" => list.clear(),
        [word] if word.value == "default" => list.push(Redirect::Default),
        [word] => {
            let message = format!("invalid parameter \"{}\"", word.value);
            return Err(Diagnostic::new(Severity::Emerg, word.span, message));
        }
        [pattern, replacement, ..] => {
            let rule = Rule { pattern: Pattern::parse(pattern, build)?, replacement: build.template(replacement)? };
            list.push(Redirect::Rule(rule));
        }
        [] => {}
    }
    Ok(())
}

/// The rules of a location, with `default` spelt out. Without any `proxy_redirect` that is the only rule.
pub(super) fn compile(redirects: Option<&Redirects>, pass: &Pass) -> Vec<Rule> {
    let default = [Redirect::Default];
    let redirects = redirects.map_or(&default[..], |redirects| redirects);
    redirects
        .iter()
        .filter_map(|redirect| match (redirect, pass) {
            (Redirect::Rule(rule), _) => Some(rule.clone()),
            (Redirect::Default, Pass::Fixed(fixed)) => {
                let (from, to): (BString, BString) = if fixed.uri.is_empty() {
                    ([&fixed.url[..], b"/"].concat().into(), "/".into())
                } else {
                    (fixed.url.clone(), fixed.location.clone())
                };
                Some(Rule { pattern: Pattern::Text(Template::literal(from)), replacement: Template::literal(to) })
            }
            (Redirect::Default, Pass::Variable(_)) => None,
        })
        .collect()
}

/// The new value of `Location`.
pub(super) fn rewrite_location(rules: &[Rule], req: &Request, value: &[u8]) -> Option<Vec<u8>> {
    rules.iter().find_map(|rule| rule.rewrite_prefix(req, value))
}

/// The new value of `Refresh`, whose URL stands behind `url=`.
pub(super) fn rewrite_refresh(rules: &[Rule], req: &Request, value: &[u8]) -> Option<Vec<u8>> {
    const URL: &[u8] = b"url=";
    let at = value.windows(URL.len()).position(|window| window.eq_ignore_ascii_case(URL))? + URL.len();
    let url = rewrite_location(rules, req, &value[at..])?;
    Some([&value[..at], &url].concat())
}
