//! `redis`: answers with values of Redis.
//!
//! Follows Sergey A. Osokin's `ngx_http_redis`, in whose stead it sends keys behind their length: no key can be taken for
//! another command.

use std::{rc::Rc, sync::Arc};

use bstr::{BStr, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Outcome, Program, Ready, Step},
    request::Request,
    upstream::{Settings, UpstreamConf, directives::fill, failure::Failures},
    upstream_directives,
    variable::VariableId,
};
use tidegate_http::{
    Method, ResponseHead, SizedValue,
    escape::{Escape, escaped_uri},
    resp,
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
    variables: Option<Variables>,
    /// The path of the location ends with a slash: without it, requests are redirected to add it.
    adds_slash: bool,
    gzip_flag: Option<u64>,
}

/// `$redis_key`, `$redis_db`
#[derive(Debug, Clone, Copy)]
struct Variables {
    key: VariableId,
    db: VariableId,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: upstream_directives!("redis", Conf, upstream;
        sockets, aborts,
        retries(Failures::STORE_WORDS, "error | timeout | invalid_response | not_found | off ...");
        Directive::custom("redis_pass", 1, 1, redis_pass)
            .within(Context::LOCATION.or(Context::LOCATION_IF))
            .syntax("address")
            .doc("Answers with the value that Redis has for $redis_key in the database $redis_db."),
        Directive::size("redis_buffer_size", |c: &mut Conf| &mut c.upstream.buffer_size)
            .default("4k")
            .doc("Longest head of an answer."),
        Directive::number("redis_gzip_flag", |c: &mut Conf| &mut c.gzip_flag)
            .doc("Values are compressed, if this is not 0: they get Content-Encoding: gzip."),
    ),
    inherit: |child, parent, kind| {
        child.upstream.inherit(&parent.upstream);
        inherit!(child, parent; gzip_flag);
        if kind.is_unnamed() {
            inherit!(child, parent; pass, variables);
        }
    },
    install,
    example: "
        location /value {
            set $redis_key $arg_key;
            set $redis_db 1;
            redis_pass 127.0.0.1:6379;
        }
    ",
    ..Module::named("redis")
};

fn redis_pass(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.adds_slash = pass::adds_slash(build);
    let span = directive.name.span;
    let db = build.variables.define_capture(b"redis_db".as_bstr());
    let db = db.map_err(|error| Diagnostic::new(Severity::Emerg, span, format!("{error} \"redis_db\"")))?;
    conf.variables = Some(Variables { key: build.reference(b"redis_key".as_bstr(), span), db });
    let pass = Pass::parse(&directive.args[0], build, Schemes::default())?;
    fill(&mut conf.pass, pass, directive)
}

/// All that a location's requests need, made once.
struct Location {
    settings: Settings,
    pass: Pass,
    variables: Variables,
    is_gzip: bool,
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    let (Some(pass), Some(variables)) = (&conf.pass, conf.variables) else { return };
    let settings = key_value::settings(&conf.upstream);
    let is_gzip = conf.gzip_flag.is_some_and(|flag| flag > 0);
    let location = Arc::new(Location { settings, pass: pass.clone(), variables, is_gzip });
    program.auto_redirect |= conf.adds_slash;
    program.content(move |req| handle(&location, req));
}

fn handle(location: &Arc<Location>, req: &Rc<Request>) -> Outcome {
    if !matches!(req.method.get(), Method::Get | Method::Head) {
        return Ready::Now(Step::Status(405));
    }
    req.set_default_content_type();
    let (key, db) = match asked(location, req) {
        Ok(asked) => asked,
        Err(step) => return Ready::Now(step),
    };
    let (location, req) = (location.clone(), req.clone());
    Ready::later(async move {
        let query = Get { key: &key, db: &db, is_gzip: location.is_gzip };
        let conversation = Conversation::new(&req, &key, query);
        pass::exchange(&req, &location.settings, &location.pass, conversation).await
    })
}

/// Key and database of a request.
///
/// # Errors
/// There is no key, or no such database; the log has the reason.
fn asked(location: &Location, req: &Request) -> Result<(Vec<u8>, Vec<u8>), Step> {
    let db = req.variable_bytes(location.variables.db).unwrap_or_default();
    if !db.iter().all(u8::is_ascii_digit) {
        req.log(Level::Error, format_args!("variable \"$redis_db\" takes invalid value: {}", BStr::new(&db)));
        return Err(Step::Status(400));
    }
    let key = req.variable_bytes(location.variables.key).unwrap_or_default();
    if key.is_empty() {
        req.log(Level::Error, format_args!("the \"$redis_key\" variable is not set"));
        return Err(Step::Status(500));
    }
    let key = escaped_uri(&key, Escape::Refresh).into_owned();
    Ok((key, if db.is_empty() { b"0".to_vec() } else { db }))
}

/// `select`, and `get`
struct Get<'a> {
    key: &'a [u8],
    db: &'a [u8],
    is_gzip: bool,
}

/// The answer to `select`.
const SELECTED: &[u8] = b"+OK\r\n";

impl Query for Get<'_> {
    const SCHEME: &'static str = "redis://";
    const SERVER: &'static str = "redis";

    /// A connection may come from a request for another database, so each says its own.
    fn write(&self, out: &mut Vec<u8>) {
        for (command, argument) in [(&b"select"[..], self.db), (b"get", self.key)] {
            resp::write_command_head(2, out);
            resp::write_argument(command, out);
            resp::write_argument(argument, out);
        }
    }

    fn read_head(&self, input: &[u8], head: &mut ResponseHead) -> Result<Option<Answer>, String> {
        let line_at = if input.starts_with(SELECTED) { SELECTED.len() } else { 0 };
        let Some(length) = input[line_at..].find_byte(b'\n') else { return Ok(None) };
        let line = &input[line_at..line_at + length];
        let key = BStr::new(self.key);
        if let Some(line) = line.strip_suffix(b"\r").filter(|line| line.starts_with(b"-")) {
            return Err(format!("redis sent error in response \"{}\" for key \"{key}\"", BStr::new(line)));
        }
        let value = line.strip_suffix(b"\r").and_then(|line| line.strip_prefix(b"$")).filter(|_| line_at > 0);
        let Some(value) = value else {
            return Err(format!("redis sent invalid response: \"{}\"", BStr::new(line)));
        };
        let head_bytes = line_at + length + 1;
        if value == b"-1" {
            (head.status, head.content_length) = (404, Some(0));
            let content = SizedValue::new(0, b"");
            return Ok(Some(Answer { head_bytes, content, is_doubtful: false, is_missing: true }));
        }
        let bytes = tidegate_conf::values::integer(value.as_bstr())
            .map_err(|_| format!("redis sent invalid length in response \"{}\" for key \"{key}\"", BStr::new(line)))?;
        (head.status, head.content_length) = (200, Some(bytes));
        if self.is_gzip {
            head.fields.append(b"Content-Encoding", b"gzip");
        }
        let content = SizedValue::new(bytes, b"\r\n");
        Ok(Some(Answer { head_bytes, content, is_doubtful: false, is_missing: false }))
    }
}
