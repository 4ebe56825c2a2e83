//! `memcached`: answers with values of memcached servers.
//!
//! Follows nginx's `ngx_http_memcached_module`.

use std::{borrow::Cow, rc::Rc, sync::Arc};

use bstr::{BStr, ByteSlice};
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Outcome, Program, Ready, Step},
    request::Request,
    upstream::{Extent, Measure, Settings, UpstreamConf, directives::fill, failure::Failures},
    upstream_directives,
    variable::VariableId,
};
use tidegate_http::{
    Method, ResponseHead,
    memcached::{self, Command, FLAGS_MAX, GetReply},
};
use tidegate_net::log::Level;

use crate::{
    key_value::{self, Answer, Conversation, Query},
    pass::{self, Pass, Schemes},
};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    upstream: UpstreamConf,
    pass: Option<Pass>,
    /// `$memcached_key`
    key: Option<VariableId>,
    /// The path of the location ends with a slash: without it, requests are redirected to add it.
    adds_slash: bool,
    gzip_flag: Option<u64>,
    pipeline: Option<bool>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: upstream_directives!("memcached", Conf, upstream;
        sockets,
        retries(Failures::STORE_WORDS, "error | timeout | invalid_response | not_found | off ...");
        Directive::custom("memcached_pass", 1, 1, memcached_pass)
            .within(Context::LOCATION.or(Context::LOCATION_IF))
            .syntax("address")
            .doc("Answers with the value that a memcached server has for $memcached_key."),
        Directive::size("memcached_buffer_size", |c: &mut Conf| &mut c.upstream.buffer_size)
            .default("4k")
            .doc("Longest first line of an answer."),
        Directive::number("memcached_gzip_flag", |c: &mut Conf| &mut c.gzip_flag)
            .doc("Flag of values that are compressed: they get Content-Encoding: gzip."),
        Directive::flag("memcached_pipeline", |c: &mut Conf| &mut c.pipeline)
            .default("on")
            .doc("Requests at the same time may share a connection that is kept."),
    ),
    inherit: |child, parent, kind| {
        child.upstream.inherit(&parent.upstream);
        inherit!(child, parent; gzip_flag, pipeline);
        if kind.is_unnamed() {
            inherit!(child, parent; pass, key);
        }
    },
    install,
    example: "
        location /cached/ {
            set $memcached_key \"$uri?$args\";
            memcached_pass 127.0.0.1:11211;
            error_page 404 502 504 = @origin;
        }
        location @origin { return 200 fresh; }
    ",
    ..Module::named("memcached")
};

fn memcached_pass(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.adds_slash = pass::adds_slash(build);
    conf.key = Some(build.reference(b"memcached_key".as_bstr(), directive.name.span));
    let pass = Pass::parse(&directive.args[0], build, Schemes::default())?;
    fill(&mut conf.pass, pass, directive)
}

/// All that a location's requests need, made once.
struct Location {
    settings: Settings,
    pass: Pass,
    key: VariableId,
    gzip_flag: u64,
    shares: bool,
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    let (Some(pass), Some(key)) = (&conf.pass, conf.key) else { return };
    let mut settings = key_value::settings(&conf.upstream);
    // The answer is short work, and the connection can be kept.
    settings.watch_client = false;
    let location = Arc::new(Location {
        settings,
        pass: pass.clone(),
        key,
        gzip_flag: conf.gzip_flag.unwrap_or(0),
        shares: conf.pipeline.unwrap_or(true),
    });
    program.auto_redirect |= conf.adds_slash;
    program.content(move |req| handle(&location, req));
}

fn handle(location: &Arc<Location>, req: &Rc<Request>) -> Outcome {
    if !matches!(req.method.get(), Method::Get | Method::Head) {
        return Ready::Now(Step::Status(405));
    }
    req.set_default_content_type();
    let key = match key_of(req, location.key, "memcached_key") {
        Ok(key) => key,
        Err(step) => return Ready::Now(step),
    };
    let (location, req) = (location.clone(), req.clone());
    Ready::later(async move {
        let query = Get { key: &key, gzip_flag: location.gzip_flag, shares: location.shares };
        let conversation = Conversation::new(&req, &key, query);
        pass::exchange(&req, &location.settings, &location.pass, conversation).await
    })
}

/// The key that a variable holds, as it is sent.
///
/// # Errors
/// There is none, or no server can have it; the log has the reason.
pub(crate) fn key_of(req: &Request, variable: VariableId, name: &str) -> Result<Vec<u8>, Step> {
    let key = req.variable_bytes(variable).unwrap_or_default();
    if key.is_empty() {
        req.log(Level::Error, format_args!("the \"${name}\" variable is not set"));
        return Err(Step::Status(500));
    }
    let escaped = match memcached::escaped_key(&key) {
        Cow::Borrowed(_) => None,
        Cow::Owned(escaped) => Some(escaped),
    };
    let key = escaped.unwrap_or(key);
    if key.len() > memcached::KEY_BYTES_MAX {
        let (bytes, max) = (key.len(), memcached::KEY_BYTES_MAX);
        req.log(Level::Error, format_args!("the \"${name}\" variable is too long: {bytes} bytes of at most {max}"));
        return Err(Step::Status(400));
    }
    Ok(key)
}

/// `get`
struct Get<'a> {
    key: &'a [u8],
    gzip_flag: u64,
    /// `memcached_pipeline`
    shares: bool,
}

impl Query for Get<'_> {
    const SCHEME: &'static str = "memcached://";
    const SERVER: &'static str = "memcached";

    fn shares(&self) -> Option<Measure> {
        self.shares.then_some(measure_get)
    }

    fn write(&self, out: &mut Vec<u8>) {
        memcached::write_command(Command::Get, self.key, None, out);
    }

    fn read_head(&self, input: &[u8], head: &mut ResponseHead) -> Result<Option<Answer>, String> {
        let Some((reply, answer)) = read_get_reply(input, self.key, head)? else { return Ok(None) };
        if let GetReply::Value { flags, .. } = reply
            && self.gzip_flag > 0
        {
            let flags =
                number(flags, FLAGS_MAX).ok_or_else(|| bad_reply("invalid flags in response", input, self.key))?;
            if flags & self.gzip_flag != 0 {
                head.fields.append(b"Content-Encoding", b"gzip");
            }
        }
        Ok(Some(answer))
    }
}

/// How long the answer to a `get` is.
pub(crate) fn measure_get(request: &[u8], input: &[u8]) -> Extent {
    let key = request.strip_prefix(b"get ").and_then(|rest| rest.strip_suffix(b"\r\n"));
    match key.map(|key| memcached::get_reply_bytes(input, key)) {
        Some(Ok(Some(bytes))) => Extent::Bytes(bytes),
        Some(Ok(None)) => Extent::Unknown,
        Some(Err(_)) | None => Extent::Broken,
    }
}

/// Reads the head of the answer to `get`.
///
/// # Errors
/// Text for the log: why it makes no sense.
pub(crate) fn read_get_reply<'a>(
    input: &'a [u8],
    key: &[u8],
    head: &mut ResponseHead,
) -> Result<Option<(GetReply<'a>, Answer)>, String> {
    let Some((reply, head_bytes)) =
        memcached::parse_get_reply(input, key).map_err(|error| bad_reply(error, input, key))?
    else {
        return Ok(None);
    };
    (head.status, head.content_length) = match reply {
        GetReply::Value { bytes, .. } => (200, Some(bytes)),
        GetReply::Missing => (404, Some(0)),
    };
    let is_missing = reply == GetReply::Missing;
    let answer = Answer { head_bytes, content: reply.content(), is_doubtful: false, is_missing };
    Ok(Some((reply, answer)))
}

#[cold]
fn bad_reply(error: impl std::fmt::Display, input: &[u8], key: &[u8]) -> String {
    let line = BStr::new(input.lines().next().unwrap_or_default());
    format!("memcached sent {error} \"{line}\" for key \"{}\"", BStr::new(key))
}

/// A number of digits alone, up to `max`.
pub(crate) fn number(text: &[u8], max: u64) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.to_str().ok()?.parse().ok().filter(|&number| number <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number(b"4294967295", FLAGS_MAX), Some(FLAGS_MAX));
        assert_eq!(number(b"4294967296", FLAGS_MAX), None);
        assert_eq!(number(b"18446744073709551615", u64::MAX), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616", u64::MAX), None);
        for text in ["", "-1", "+1", "1 2", "1\r\n", "x"] {
            assert_eq!(number(text.as_bytes(), u64::MAX), None, "{text:?}");
        }
    }
}
