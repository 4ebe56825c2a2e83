//! `redis2`: commands for Redis, whose replies go to the client as they are.
//!
//! Follows OpenResty's redis2 module; replies may nest.

use std::{rc::Rc, sync::Arc};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::Build,
    inherit,
    main_conf::duplicate,
    module::{Context, Directive, Module},
    phase::{Outcome, Program, Ready, Step},
    request::Request,
    template::Template,
    upstream::{
        HeadPart, Promise, Protocol, SendBody, Settings, UpstreamConf, Written, directives::fill, failure::Failures,
    },
    upstream_directives,
};
use tidegate_http::{BodyPart, ResponseHead, resp, resp::ReplyScanner};
use tidegate_net::log::Level;

use crate::{
    key_value,
    pass::{self, Pass, Schemes},
};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    upstream: UpstreamConf,
    pass: Option<Pass>,
    /// The path of the location ends with a slash: without it, requests are redirected to add it.
    adds_slash: bool,
    /// Each with its arguments.
    queries: Option<Arc<Vec<Vec<Template>>>>,
    literal_raw_query: Option<BString>,
    raw_query: Option<Template>,
    /// How many commands there are in `raw_query`, unless it is one.
    raw_query_count: Option<Template>,
}

const LOCATIONS: Context = Context::LOCATION.or(Context::LOCATION_IF);

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: upstream_directives!("redis2", Conf, upstream;
        sockets,
        retries(Failures::STORE_WORDS, "error | timeout | invalid_response | not_found | off ...");
        Directive::custom("redis2_pass", 1, 1, redis2_pass)
            .within(LOCATIONS)
            .syntax("address")
            .doc("Answers with Redis's replies to the commands of the location."),
        Directive::size("redis2_buffer_size", |c: &mut Conf| &mut c.upstream.buffer_size)
            .default("4k")
            .doc("Size of the pieces in which replies are read."),
        Directive::custom("redis2_query", 1, u16::MAX, redis2_query)
            .within(LOCATIONS)
            .syntax("command argument ...")
            .doc("A command; several are sent together, in their order."),
        Directive::template("redis2_raw_query", |c: &mut Conf| &mut c.raw_query)
            .within(LOCATIONS)
            .doc("A command as it is sent."),
        Directive::custom("redis2_raw_queries", 2, 2, redis2_raw_queries)
            .within(LOCATIONS)
            .syntax("number commands")
            .doc("Several commands as they are sent."),
        Directive::text("redis2_literal_raw_query", |c: &mut Conf| &mut c.literal_raw_query)
            .within(LOCATIONS)
            .doc("A command as it is sent, in which $ means nothing."),
    ),
    inherit: |child, parent, kind| {
        child.upstream.inherit(&parent.upstream);
        if child.queries.is_none() && child.literal_raw_query.is_none() && child.raw_query.is_none() {
            inherit!(child, parent; queries, literal_raw_query, raw_query, raw_query_count);
        }
        if kind.is_unnamed() {
            inherit!(child, parent; pass);
        }
    },
    install,
    example: "
        location /count {
            redis2_query incr $arg_name;
            redis2_query expire $arg_name 3600;
            redis2_pass 127.0.0.1:6379;
        }
    ",
    ..Module::named("redis2")
};

fn redis2_pass(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.adds_slash = pass::adds_slash(build);
    let pass = Pass::parse(&directive.args[0], build, Schemes::default())?;
    fill(&mut conf.pass, pass, directive)
}

fn redis2_query(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let other = match conf {
        Conf { literal_raw_query: Some(_), .. } => Some("redis2_literal_raw_query"),
        Conf { raw_query_count: Some(_), .. } => Some("redis2_raw_queries"),
        Conf { raw_query: Some(_), .. } => Some("redis2_raw_query"),
        _ => None,
    };
    if let Some(other) = other {
        let text = format!("\"redis2_query\" directive conflicts with {other}");
        return Err(Diagnostic::new(Severity::Emerg, directive.name.span, text));
    }
    let arguments = directive.args.iter().map(|arg| build.template(arg)).collect::<Result<_, _>>()?;
    Arc::make_mut(conf.queries.get_or_insert_default()).push(arguments);
    Ok(())
}

fn redis2_raw_queries(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.raw_query.is_some() {
        return Err(duplicate(directive));
    }
    conf.raw_query_count = Some(build.template(&directive.args[0])?);
    conf.raw_query = Some(build.template(&directive.args[1])?);
    Ok(())
}

/// What is sent.
enum Commands {
    Built(Arc<Vec<Vec<Template>>>),
    Literal(BString),
    Raw { text: Template, count: Option<Template> },
    Absent,
}

/// All that a location's requests need, made once.
struct Location {
    settings: Settings,
    pass: Pass,
    commands: Commands,
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    let Some(pass) = &conf.pass else { return };
    let commands = match conf.as_ref() {
        Conf { queries: Some(queries), .. } => Commands::Built(queries.clone()),
        Conf { literal_raw_query: Some(text), .. } if !text.is_empty() => Commands::Literal(text.clone()),
        Conf { raw_query: Some(text), raw_query_count, .. } => {
            Commands::Raw { text: text.clone(), count: raw_query_count.clone() }
        }
        _ => Commands::Absent,
    };
    let mut settings = key_value::settings(&conf.upstream);
    // Commands change things, whether the client waits for it or not; and some replies come bit by bit.
    settings.watch_client = false;
    settings.buffering = false;
    let location = Arc::new(Location { settings, pass: pass.clone(), commands });
    program.auto_redirect |= conf.adds_slash;
    program.content(move |req| handle(&location, req));
}

fn handle(location: &Arc<Location>, req: &Rc<Request>) -> Outcome {
    req.set_default_content_type();
    let (location, req) = (location.clone(), req.clone());
    Ready::later(async move {
        let read = match req.read_body() {
            Ready::Now(read) => read,
            Ready::Later(reading) => reading.await,
        };
        if let Err(error) = read {
            return error.step();
        }
        pass::exchange(&req, &location.settings, &location.pass, Redis2::new(&location, req.is_head())).await
    })
}

impl Commands {
    /// Appends the commands; answers how many they are.
    ///
    /// # Errors
    /// There are none; the log has the reason.
    fn write(&self, req: &Request, out: &mut Vec<u8>) -> Result<u64, Step> {
        match self {
            Commands::Built(queries) => {
                for arguments in queries.iter() {
                    resp::write_command_head(arguments.len(), out);
                    for argument in arguments {
                        resp::write_argument(&argument.eval_cow(req), out);
                    }
                }
                Ok(queries.len() as u64)
            }
            Commands::Literal(text) => {
                out.extend_from_slice(text);
                Ok(1)
            }
            Commands::Raw { text, count } => {
                let start = out.len();
                text.write(req, out);
                if out.len() == start {
                    return Err(unsaid(req, "the redis query is empty"));
                }
                let Some(count) = count else { return Ok(1) };
                match &*count.eval(req) {
                    b"" => Err(unsaid(req, "the N argument to redis2_raw_queries is empty")),
                    count => values::integer(count.as_bstr())
                        .ok()
                        .filter(|&count| count > 0)
                        .ok_or_else(|| unsaid(req, "the N argument to redis2_raw_queries is invalid")),
                }
            }
            Commands::Absent => Err(unsaid(req, "no redis2 query specified or the query is empty")),
        }
    }
}

fn unsaid(req: &Request, why: &str) -> Step {
    req.log(Level::Error, format_args!("{why}"));
    Step::Status(500)
}

/// One request's conversation with Redis.
struct Redis2<'a> {
    location: &'a Location,
    /// The client asked for the head alone.
    to_head: bool,
    command_count: u64,
    /// What is sent are as many commands as replies are expected.
    is_counted: bool,
    scanner: ReplyScanner,
    /// All replies have been read, and nothing stood behind them.
    is_exact: bool,
    messages: Vec<(Level, String)>,
}

impl<'a> Redis2<'a> {
    fn new(location: &'a Location, to_head: bool) -> Self {
        let scanner = ReplyScanner::new(0);
        Redis2 {
            location,
            to_head,
            command_count: 0,
            is_counted: false,
            scanner,
            is_exact: false,
            messages: Vec::new(),
        }
    }
}

impl Protocol for Redis2<'_> {
    const SCHEME: &'static str = "redis2://";

    fn body(&self, _: &Request) -> SendBody {
        SendBody::None
    }

    fn write_request(&mut self, req: &Rc<Request>, _: SendBody, out: &mut Vec<u8>) -> Result<Written, Step> {
        self.command_count = self.location.commands.write(req, out)?;
        self.is_counted = resp::count_commands(out) == Some(self.command_count);
        Ok(Written { uri: 0..0, promise: Promise::Bytes(0) })
    }

    fn begin_try(&mut self) {
        self.scanner = ReplyScanner::new(self.command_count);
        self.is_exact = false;
    }

    /// Replies have no head: the first byte tells whether this is one.
    fn read_head(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<HeadPart, String> {
        match input.first() {
            None => Ok(HeadPart::Partial(0)),
            Some(&byte) if resp::begins_reply(byte) => {
                head.status = 200;
                Ok(HeadPart::Complete(0))
            }
            Some(_) => {
                let line = BStr::new(input.lines().next().unwrap_or_default());
                Err(format!("redis2 sent invalid response: \"{line}\""))
            }
        }
    }

    fn take_messages(&mut self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.messages)
    }

    fn begin_body(&mut self, _: &ResponseHead) -> bool {
        !self.to_head
    }

    fn decode(&mut self, input: &[u8]) -> Result<BodyPart, String> {
        if self.to_head {
            // The replies may be long, and nobody wants them.
            return Ok(BodyPart::End(input.len()));
        }
        if self.scanner.is_done() {
            self.is_exact = input.is_empty();
            if !self.is_exact {
                self.messages.push((Level::Warn, "Redis server returned extra bytes".to_owned()));
            }
            return Ok(BodyPart::End(input.len()));
        }
        match self.scanner.scan(input) {
            Ok(0) => Ok(BodyPart::Partial),
            Ok(end) => Ok(BodyPart::Data { start: 0, end }),
            Err(error) => Err(format!("Redis server returned {error}")),
        }
    }

    fn is_complete_at_close(&self) -> bool {
        self.scanner.is_done()
    }

    /// Raw text may hold more commands than it should: their replies would come later, for another request.
    fn is_reusable(&self, _: &ResponseHead) -> bool {
        self.is_exact && self.is_counted
    }
}
