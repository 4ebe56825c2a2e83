//! `add_header`, `add_trailer`, `expires`.
//!
//! Source: nginx, `ngx_http_headers_filter_module`.

use std::{rc::Rc, sync::Arc};

use bstr::{BString, ByteSlice};
use chrono::{Local, TimeZone, Timelike};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::Build,
    main_conf::duplicate,
    module::{Context, Directive, Module},
    output::{Chunk, Closed, Response},
    phase::Ready,
    request::Request,
    template::Template,
};
use tidegate_http::{Known, date::parse_http_date};
use tidegate_net::clock;

/// A field to add.
#[derive(Debug)]
struct Field {
    name: BString,
    value: Template,
    /// For every status.
    always: bool,
}

/// What `expires` says, with times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expires {
    Off,
    Epoch,
    Max,
    /// After the request.
    Access(i64),
    /// After the last change of the content.
    Modified(i64),
    /// At this second of the day.
    Daily(i64),
}

#[derive(Debug, Clone)]
enum ExpiresConf {
    Fixed(Expires),
    /// The text is a variable's; `modified` stands before it.
    Computed {
        value: Template,
        modified: bool,
    },
}

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    add_header: Option<Arc<Vec<Field>>>,
    add_trailer: Option<Arc<Vec<Field>>>,
    expires: Option<ExpiresConf>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("add_header", 2, 3, |conf: &mut Conf, directive, build| {
            add(&mut conf.add_header, directive, build)
        })
        .within(Context::ALL_IF)
        .syntax("name value [always]")
        .doc("Adds a field to responses with a usual status, or to all."),
        Directive::custom("add_trailer", 2, 3, |conf: &mut Conf, directive, build| {
            add(&mut conf.add_trailer, directive, build)
        })
        .within(Context::ALL_IF)
        .syntax("name value [always]")
        .doc("Adds a field behind the body of chunked responses."),
        Directive::custom("expires", 1, 2, expires)
            .within(Context::ALL_IF)
            .syntax("[modified] time | @time | epoch | max | off")
            .default("off")
            .doc("Tells in Expires and Cache-Control how long a response may be kept."),
    ],
    inherit: |child, parent, _| {
        tidegate_core::inherit!(child, parent; add_header, add_trailer, expires);
    },
    install: |conf, program| {
        let is_off = matches!(conf.expires, None | Some(ExpiresConf::Fixed(Expires::Off)));
        if !is_off || conf.add_header.is_some() || conf.add_trailer.is_some() {
            let conf = conf.clone();
            program.header_filter(move |req| filter(req, &conf));
        }
        if let Some(trailers) = conf.add_trailer.clone() {
            program.body_filter(move |req, chunk| filter_body(req, chunk, &trailers));
        }
    },
    example: "
        location /static/ {
            expires 30d;
            add_header Cache-Control public;
        }
    ",
    ..Module::named("headers")
};

fn add(
    list: &mut Option<Arc<Vec<Field>>>,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    let always = match directive.args.get(2) {
        None => false,
        Some(word) if word.value == "always" => true,
        Some(word) => return Err(Diagnostic::invalid_parameter(&word.value, word.span, ["always"])),
    };
    let field = Field { name: directive.args[0].value.clone(), value: build.template(&directive.args[1])?, always };
    Arc::get_mut(list.get_or_insert_default()).expect("levels share lists only after everything was read").push(field);
    Ok(())
}

fn expires(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.expires.is_some() {
        return Err(duplicate(directive));
    }
    let emerg = |message: &str, arg: &ast::Arg| {
        Err(Diagnostic::new(Severity::Emerg, arg.span, format!("\"expires\" directive {message}")))
    };
    let (modified, arg) = match &*directive.args {
        [arg] => (false, arg),
        [word, arg] if word.value == "modified" => (true, arg),
        _ => return emerg("invalid value", &directive.args[0]),
    };
    let value = build.template(arg)?;
    conf.expires = Some(match value.as_literal() {
        None => ExpiresConf::Computed { value, modified },
        Some(text) => match parse_expires(text, modified) {
            Ok(expires) => ExpiresConf::Fixed(expires),
            Err(message) => return emerg(message, arg),
        },
    });
    Ok(())
}

/// Reads the text of `expires`.
fn parse_expires(text: &[u8], modified: bool) -> Result<Expires, &'static str> {
    if !modified {
        match text {
            b"epoch" => return Ok(Expires::Epoch),
            b"max" => return Ok(Expires::Max),
            b"off" => return Ok(Expires::Off),
            _ => {}
        }
    }
    let (text, is_daily, is_negative) = match text {
        [b'@', ..] if modified => return Err("daily time cannot be used with \"modified\" parameter"),
        [b'@', text @ ..] => (text, true, false),
        [b'+', text @ ..] => (text, false, false),
        [b'-', text @ ..] => (text, false, true),
        text => (text, false, false),
    };
    let time = values::time_seconds(text.as_bstr()).map_err(|_| "invalid value")?;
    let seconds = i64::try_from(time.as_secs()).map_err(|_| "invalid value")?;
    if is_daily && seconds > 24 * 60 * 60 {
        return Err("daily time value must be less than 24 hours");
    }
    let seconds = if is_negative { -seconds } else { seconds };
    Ok(match (is_daily, modified) {
        (true, _) => Expires::Daily(seconds),
        (false, true) => Expires::Modified(seconds),
        (false, false) => Expires::Access(seconds),
    })
}

/// Whether fields without `always` are added to a response with this status.
fn is_usual(status: u16) -> bool {
    matches!(status, 200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308)
}

fn filter(req: &Rc<Request>, conf: &Conf) -> Ready<Result<(), Closed>> {
    if req.is_subrequest() {
        return Ready::Now(Ok(()));
    }
    let status = req.response.borrow().status;
    let usual = is_usual(status);
    if usual {
        let expires = match &conf.expires {
            None => Expires::Off,
            Some(ExpiresConf::Fixed(expires)) => *expires,
            // A value that makes no sense says nothing.
            Some(ExpiresConf::Computed { value, modified }) => {
                parse_expires(&value.eval(req), *modified).unwrap_or(Expires::Off)
            }
        };
        set_expires(&mut req.response.borrow_mut(), expires);
    }
    for field in conf.add_header.as_deref().into_iter().flatten().filter(|field| usual || field.always) {
        // Values may be those of the response, so it is not borrowed meanwhile.
        let value = field.value.eval_cow(req);
        set_field(&mut req.response.borrow_mut(), &field.name, &value);
    }
    let trailers = conf.add_trailer.as_deref().into_iter().flatten();
    if trailers.filter(|field| usual || field.always).count() > 0 {
        req.response.borrow_mut().expect_trailers = true;
    }
    Ready::Now(Ok(()))
}

fn set_field(response: &mut Response, name: &[u8], value: &[u8]) {
    match Known::of(name) {
        Known::LastModified => {
            response.fields.remove(Known::LastModified);
            response.last_modified = None;
            if !value.is_empty() {
                match parse_http_date(value) {
                    Some(seconds) => response.last_modified = Some(seconds),
                    None => response.fields.append(name, value),
                }
            }
        }
        Known::ETag if value.is_empty() => {
            response.fields.remove(Known::ETag);
        }
        Known::ETag => response.fields.set(name, value),
        _ if value.is_empty() => {}
        _ => response.fields.append(name, value),
    }
}

fn set_expires(response: &mut Response, expires: Expires) {
    let now = clock::now_unix();
    let (time, max_age) = match expires {
        Expires::Off => return,
        Expires::Epoch => return set(response, b"Thu, 01 Jan 1970 00:00:01 GMT", b"no-cache"),
        Expires::Max => return set(response, b"Thu, 31 Dec 2037 23:55:55 GMT", b"max-age=315360000"),
        Expires::Access(0) => return set(response, &clock::http_date(), b"max-age=0"),
        Expires::Daily(second) => {
            let time = next_time(now, second);
            (time, time - now)
        }
        Expires::Modified(seconds) => match response.modified() {
            Some(modified) => (modified + seconds, modified + seconds - now),
            None => (now + seconds, seconds),
        },
        Expires::Access(seconds) => (now.saturating_add(seconds), seconds),
    };
    let is_past = max_age < 0 || matches!(expires, Expires::Access(..0) | Expires::Modified(..0));
    let cache_control = if is_past { "no-cache".to_owned() } else { format!("max-age={max_age}") };
    set(response, &clock::http_date_of(time), cache_control.as_bytes());
}

fn set(response: &mut Response, expires: &[u8], cache_control: &[u8]) {
    response.fields.set_known(Known::Expires, expires);
    response.fields.set_known(Known::CacheControl, cache_control);
}

/// When the clock on the wall next shows this second of the day.
fn next_time(now: i64, second: i64) -> i64 {
    let since_midnight = match Local.timestamp_opt(now, 0) {
        chrono::LocalResult::Single(time) | chrono::LocalResult::Ambiguous(time, _) => {
            i64::from(time.num_seconds_from_midnight())
        }
        chrono::LocalResult::None => now.rem_euclid(86_400),
    };
    let today = now - since_midnight + second;
    if today > now { today } else { today + 86_400 }
}

fn filter_body(req: &Rc<Request>, chunk: Chunk, trailers: &[Field]) -> Ready<Result<Chunk, Closed>> {
    let (status, wanted) = {
        let response = req.response.borrow();
        (response.status, chunk.last && response.expect_trailers && !response.header_only)
    };
    if wanted {
        for field in trailers.iter().filter(|field| is_usual(status) || field.always) {
            let value = field.value.eval_cow(req);
            if !value.is_empty() {
                req.response.borrow_mut().trailers.append(&field.name, &value);
            }
        }
    }
    Ready::Now(Ok(chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_expires() {
        #[track_caller]
        fn check(text: &str, modified: bool, expected: Result<Expires, &'static str>) {
            assert_eq!(parse_expires(text.as_bytes(), modified), expected, "{text}");
        }
        check("off", false, Ok(Expires::Off));
        check("epoch", false, Ok(Expires::Epoch));
        check("max", false, Ok(Expires::Max));
        check("24h", false, Ok(Expires::Access(86_400)));
        check("+1m", false, Ok(Expires::Access(60)));
        check("-1", false, Ok(Expires::Access(-1)));
        check("0", false, Ok(Expires::Access(0)));
        check("@15h30m", false, Ok(Expires::Daily(55_800)));
        check("@25h", false, Err("daily time value must be less than 24 hours"));
        check("@1h", true, Err("daily time cannot be used with \"modified\" parameter"));
        check("+24h", true, Ok(Expires::Modified(86_400)));
        check("max", true, Err("invalid value"));
        check("x", false, Err("invalid value"));
        check("", false, Err("invalid value"));
    }

    #[test]
    fn finds_the_next_time() {
        let now = 1_000_000_000;
        for second in [0, 1, 43_200, 86_399, 86_400] {
            let time = next_time(now, second);
            assert!(time > now && time <= now + 2 * 86_400, "{second}");
        }
    }
}
