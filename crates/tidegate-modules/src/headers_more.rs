//! `headers_more`: sets and clears any field of the response and of the request.
//!
//! ```text
//! more_set_headers -s '404 500' -t text/html "X-A: $uri" "Server: mine";
//! more_clear_headers Content-Type "X-Hidden-*";
//! more_set_input_headers -r "Host: other";       only if there is one
//! ```
//!
//! A level runs the directives of the levels around it first. Those for the response are a header filter; those for
//! the request run at the end of the rewrite phase.
//!
//! Follows headers-more-nginx-module.

mod input;
mod output;

use std::{borrow::Cow, rc::Rc, sync::Arc};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    module::{Context, Directive, Module},
    phase::{Phase, Ready, Step},
    request::Request,
    template::Template,
};
use tidegate_http::{Known, response::is_safe_value};

/// A field that a directive sets or, with an empty value, clears.
#[derive(Debug)]
struct Field {
    /// Without the `*` of a wildcard.
    name: BString,
    /// The name is the beginning of the names that are meant.
    wildcard: bool,
    value: Template,
}

impl Field {
    /// Whether a field with this name is meant.
    fn matches(&self, name: &[u8]) -> bool {
        let head = if self.wildcard { name.get(..self.name.len()) } else { Some(name) };
        head.is_some_and(|head| head.eq_ignore_ascii_case(&self.name))
    }

    /// The value for `req`, with escapes for what would end the line.
    fn value(&self, req: &Request) -> Cow<'_, [u8]> {
        let value = self.value.eval_cow(req);
        if is_safe_value(&value) {
            return value;
        }
        let escape = |&byte: &u8| match byte {
            b'\r' => b"%0D".to_vec(),
            b'\n' => b"%0A".to_vec(),
            0 => b"%00".to_vec(),
            _ => vec![byte],
        };
        value.iter().flat_map(escape).collect()
    }
}

/// One directive.
#[derive(Debug, Default)]
struct Command {
    fields: Vec<Field>,
    /// Content types that it applies to; none for all.
    types: Vec<BString>,
    /// Statuses that it applies to; none for all.
    statuses: Vec<u16>,
    /// Fields are added to those of their names.
    append: bool,
    /// Fields are set only where there are some.
    replace: bool,
}

/// What the directives say at one level, in their order.
#[derive(Debug, Default)]
pub struct Conf {
    output: Vec<Arc<Command>>,
    input: Vec<Arc<Command>>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("more_set_headers", 1, u16::MAX, |conf: &mut Conf, directive, build| {
            conf.output.push(Arc::new(parse(directive, build, SET)?));
            Ok(())
        })
        .within(Context::ALL_IF)
        .syntax("[-t types] [-s statuses] [-a] 'name: value' ...")
        .doc("Sets fields of the response."),
        Directive::custom("more_clear_headers", 1, u16::MAX, |conf: &mut Conf, directive, build| {
            conf.output.push(Arc::new(parse(directive, build, CLEAR)?));
            Ok(())
        })
        .within(Context::ALL_IF)
        .syntax("[-t types] [-s statuses] name ...")
        .doc("Clears fields of the response."),
        Directive::custom("more_set_input_headers", 1, u16::MAX, |conf: &mut Conf, directive, build| {
            conf.input.push(Arc::new(parse(directive, build, SET_INPUT)?));
            Ok(())
        })
        .within(Context::ALL_IF)
        .syntax("[-r] [-t types] 'name: value' ...")
        .doc("Sets fields of the request."),
        Directive::custom("more_clear_input_headers", 1, u16::MAX, |conf: &mut Conf, directive, build| {
            conf.input.push(Arc::new(parse(directive, build, CLEAR_INPUT)?));
            Ok(())
        })
        .within(Context::ALL_IF)
        .syntax("[-t types] name ...")
        .doc("Clears fields of the request."),
    ],
    inherit: |child, parent, _| {
        child.output.splice(0..0, parent.output.iter().cloned());
        child.input.splice(0..0, parent.input.iter().cloned());
    },
    install: |conf, program| {
        if !conf.output.is_empty() {
            let conf = conf.clone();
            program.header_filter(move |req| Ready::Now(output::run(req, &conf.output)));
        }
        if !conf.input.is_empty() {
            let conf = conf.clone();
            program.on(Phase::Rewrite, move |req| Ready::Now(run_input(req, &conf.input)));
        }
    },
    example: r#"
        more_set_headers "X-Frame-Options: DENY" "Server: mine";
        more_clear_headers X-Powered-By;
    "#,
    ..Module::named("headers_more")
};

fn run_input(req: &Rc<Request>, commands: &[Arc<Command>]) -> Step {
    match input::run(req, commands) {
        Ok(()) => Step::Declined,
        Err(input::BadValue) => Step::Status(500),
    }
}

/// What a directive does, and the options that it takes.
#[derive(Clone, Copy)]
struct Grammar {
    clears: bool,
    options: &'static [u8],
}

const SET: Grammar = Grammar { clears: false, options: b"tsa" };
const CLEAR: Grammar = Grammar { clears: true, options: b"ts" };
const SET_INPUT: Grammar = Grammar { clears: false, options: b"tr" };
const CLEAR_INPUT: Grammar = Grammar { clears: true, options: b"tr" };

fn parse(directive: &ast::Directive, build: &mut Build<'_>, grammar: Grammar) -> Result<Command, Diagnostic> {
    let emerg = |arg: &ast::Arg, message: std::fmt::Arguments<'_>| {
        Diagnostic::new(Severity::Emerg, arg.span, format!("{}: {message}", directive.name()))
    };
    let mut command = Command::default();
    let mut args = directive.args.iter();
    while let Some(arg) = args.next() {
        let option = match *arg.value.as_bytes() {
            [] => continue,
            [b'-', option] if grammar.options.contains(&option) => option,
            [b'-', ..] => return Err(emerg(arg, format_args!("invalid option name: \"{}\"", arg.value))),
            _ => {
                let (name, value) = split(&arg.value);
                let (name, wildcard) = name.strip_suffix(b"*").map_or((name, false), |name| (name, true));
                if name.is_empty() {
                    let problem =
                        if wildcard { "wildcard key too short" } else { "no key found in the header argument" };
                    return Err(emerg(arg, format_args!("{problem}: {}", arg.value)));
                }
                let value = if grammar.clears { BStr::new(b"") } else { value.as_bstr() };
                let value = build.template_at(value, arg.span)?;
                command.fields.push(Field { name: name.into(), wildcard, value });
                continue;
            }
        };
        match option {
            b'a' => command.append = true,
            b'r' => command.replace = true,
            _ => {
                let Some(list) = args.next() else {
                    return Err(emerg(arg, format_args!("option {} takes an argument.", arg.value)));
                };
                if option == b't' {
                    command.types.extend(words(&list.value, |byte| is_space(byte) || byte == b';').map(BString::from));
                    continue;
                }
                for word in words(&list.value, is_space) {
                    command.statuses.push(status(word).map_err(|digit| {
                        let message =
                            format_args!("invalid digit \"{digit}\" found in the status code list \"{}\"", list.value);
                        emerg(list, message)
                    })?);
                }
            }
        }
    }
    if command.append
        && let Some(field) = command.fields.iter().find(|field| output::is_builtin(Known::of(&field.name)))
    {
        let message = format_args!("can not append builtin headers \"{}\"", field.name.as_bstr());
        return Err(emerg(&directive.args[0], message));
    }
    Ok(command)
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Name and value of `name: value`.
fn split(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let separates = |byte: &u8| *byte == b':' || is_space(*byte);
    let (name, rest) = text.split_at(text.iter().position(separates).unwrap_or(text.len()));
    let value = rest.iter().position(|byte| !separates(byte)).map_or(&[][..], |at| &rest[at..]);
    (name, value)
}

fn words(text: &[u8], separates: impl Fn(u8) -> bool) -> impl Iterator<Item = &[u8]> {
    text.split(move |&byte| separates(byte)).filter(|word| !word.is_empty())
}

/// Reads a status; what no status can be is one that no response has.
///
/// # Errors
/// The first byte that is no digit.
fn status(word: &[u8]) -> Result<u16, char> {
    match word.iter().find(|byte| !byte.is_ascii_digit()) {
        Some(&byte) => Err(char::from(byte)),
        None => Ok(word.to_str().ok().and_then(|word| word.parse().ok()).unwrap_or(u16::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_fields() {
        for (text, name, value) in [
            ("X-A: b c ", "X-A", "b c "),
            ("X-A:b", "X-A", "b"),
            ("X-A b", "X-A", "b"),
            ("X-A: ", "X-A", ""),
            ("X-A", "X-A", ""),
            (" X-A :  b:c", "X-A", "b:c"),
            (":b", "", "b"),
            ("", "", ""),
        ] {
            assert_eq!(split(text.as_bytes()), (name.as_bytes(), value.as_bytes()), "{text}");
        }
    }

    #[test]
    fn reads_statuses() {
        assert_eq!(status(b"404"), Ok(404));
        assert_eq!(status(b"0404"), Ok(404));
        assert_eq!(status(b"99999999"), Ok(u16::MAX));
        assert_eq!(status(b"4x4"), Err('x'));
        assert_eq!(status(b"-1"), Err('-'));
    }

    #[test]
    fn matches_names() {
        let field = |name: &str, wildcard| Field { name: name.into(), wildcard, value: Template::default() };
        for (name, wildcard, other, expected) in [
            ("X-A", false, "x-a", true),
            ("X-A", false, "x-ab", false),
            ("X-", true, "x-ab", true),
            ("X-", true, "x-", true),
            ("X-", true, "y-", false),
            ("X-", true, "x", false),
        ] {
            assert_eq!(field(name, wildcard).matches(other.as_bytes()), expected, "{name} {other}");
        }
    }
}
