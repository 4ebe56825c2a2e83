//! `memc`: memcached's commands as requests.
//!
//! The variables of a request say what is asked ([`command`]); a value comes from `$memc_value` or from the client's body.
//!
//! Follows OpenResty's memc module. What it sends and memcached may take for commands is refused with 400: keys of more than
//! 250 bytes, and numbers out of range.

mod command;

use std::{rc::Rc, sync::Arc};

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Outcome, Program, Ready, Step},
    request::Request,
    upstream::{Settings, UpstreamConf, directives::fill, failure::Failures},
    upstream_directives,
    variable::{VariableDef, VariableId},
};
use tidegate_http::{
    date::http_date,
    memcached::{Command, FLAGS_MAX},
};

use self::command::{Asked, Reply};
use crate::{
    key_value::{self, Conversation},
    memcached::number,
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
    cmds_allowed: Option<Commands>,
    flags_to_last_modified: Option<bool>,
    pipeline: Option<bool>,
}

/// A set of commands.
#[derive(Debug, Clone, Copy)]
struct Commands(u16);

impl Commands {
    const ALL: Commands = Commands(u16::MAX);

    fn contains(self, command: Command) -> bool {
        self.0 & (1 << command as u16) != 0
    }
}

/// The variables that say what is asked.
#[derive(Debug, Clone, Copy)]
struct Variables {
    cmd: VariableId,
    key: VariableId,
    value: VariableId,
    flags: VariableId,
    exptime: VariableId,
}

const LOCATIONS: Context = Context::LOCATION.or(Context::LOCATION_IF);
const EVERYWHERE: Context = Context::HTTP.or(Context::SERVER).or(LOCATIONS);

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: upstream_directives!("memc", Conf, upstream;
        sockets, aborts,
        retries(Failures::STORE_WORDS, "error | timeout | invalid_response | not_found | off ...");
        Directive::custom("memc_pass", 1, 1, memc_pass)
            .within(LOCATIONS)
            .syntax("address")
            .doc("Answers with what a memcached server says to the command of $memc_cmd."),
        Directive::size("memc_buffer_size", |c: &mut Conf| &mut c.upstream.buffer_size)
            .default("4k")
            .doc("Longest first line of an answer, and longest answer to stats."),
        Directive::custom("memc_cmds_allowed", 1, u16::MAX, cmds_allowed)
            .within(EVERYWHERE)
            .syntax("command ...")
            .doc("Commands that $memc_cmd may name; all by default."),
        Directive::flag("memc_flags_to_last_modified", |c: &mut Conf| &mut c.flags_to_last_modified)
            .within(EVERYWHERE)
            .default("off")
            .doc("The flags of a value are the time of its last change, in seconds since 1970."),
        Directive::flag("memc_pipeline", |c: &mut Conf| &mut c.pipeline)
            .within(EVERYWHERE)
            .default("on")
            .doc("Requests for values at the same time may share a connection that is kept."),
        Directive::custom("memc_upstream_max_fails", 1, 1, |_, d, _| Err(unsupported(d, "max_fails")))
            .syntax("number")
            .doc("Refused: max_fails of a server in an upstream block does this."),
        Directive::custom("memc_upstream_fail_timeout", 1, 1, |_, d, _| Err(unsupported(d, "fail_timeout")))
            .syntax("time")
            .doc("Refused: fail_timeout of a server in an upstream block does this."),
    ),
    variables: &[VariableDef::new(
        "memc_flags_as_http_time",
        flags_as_http_time,
        "$memc_flags as a date, taken for seconds since 1970.",
    )],
    inherit: |child, parent, kind| {
        child.upstream.inherit(&parent.upstream);
        inherit!(child, parent; cmds_allowed, flags_to_last_modified, pipeline);
        if kind.is_unnamed() {
            inherit!(child, parent; pass, variables);
        }
    },
    install,
    example: "
        location /memc {
            set $memc_key $query_string;
            set $memc_exptime 300;
            memc_cmds_allowed get set;
            memc_pass 127.0.0.1:11211;
        }
    ",
    ..Module::named("memc")
};

fn memc_pass(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.adds_slash = pass::adds_slash(build);
    let mut define = |name: &str| {
        build
            .variables
            .define_capture(name.as_bytes().as_bstr())
            .map_err(|error| Diagnostic::new(Severity::Emerg, directive.name.span, format!("{error} \"{name}\"")))
    };
    conf.variables = Some(Variables {
        cmd: define("memc_cmd")?,
        key: define("memc_key")?,
        value: define("memc_value")?,
        flags: define("memc_flags")?,
        exptime: define("memc_exptime")?,
    });
    let pass = Pass::parse(&directive.args[0], build, Schemes::default())?;
    fill(&mut conf.pass, pass, directive)
}

fn cmds_allowed(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let mut commands = Commands(0);
    for arg in &directive.args {
        let Some(command) = Command::named(&arg.value) else {
            let names = Command::ALL.iter().map(|(name, _)| *name);
            return Err(Diagnostic::unknown_value(&arg.value, arg.span, names));
        };
        commands.0 |= 1 << command as u16;
    }
    fill(&mut conf.cmds_allowed, commands, directive)
}

fn unsupported(directive: &ast::Directive, parameter: &str) -> Diagnostic {
    let text = format!(
        "\"{}\" is not supported, use the \"{parameter}\" parameter of the \"server\" directive inside the \"upstream\" \
         block",
        directive.name()
    );
    Diagnostic::new(Severity::Emerg, directive.name.span, text)
}

fn flags_as_http_time(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let flags = req.conf().variables.find(b"memc_flags".as_bstr()).and_then(|id| req.variable_bytes(id));
    let Some(seconds) = flags.and_then(|flags| number(&flags, FLAGS_MAX)) else { return false };
    out.extend_from_slice(&http_date(seconds as i64));
    true
}

/// All that a location's requests need, made once.
struct Location {
    settings: Settings,
    pass: Pass,
    variables: Variables,
    cmds_allowed: Commands,
    flags_to_last_modified: bool,
    shares: bool,
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    let (Some(pass), Some(variables)) = (&conf.pass, conf.variables) else { return };
    let location = Arc::new(Location {
        settings: key_value::settings(&conf.upstream),
        pass: pass.clone(),
        variables,
        cmds_allowed: conf.cmds_allowed.unwrap_or(Commands::ALL),
        flags_to_last_modified: conf.flags_to_last_modified.unwrap_or(false),
        shares: conf.pipeline.unwrap_or(true),
    });
    program.auto_redirect |= conf.adds_slash;
    program.content(move |req| handle(&location, req));
}

fn handle(location: &Arc<Location>, req: &Rc<Request>) -> Outcome {
    let command = match command::choose(location, req) {
        Ok(command) => command,
        Err(step) => return Ready::Now(step),
    };
    req.set_default_content_type();
    let (location, req) = (location.clone(), req.clone());
    Ready::later(async move { answer(&location, &req, command).await.unwrap_or_else(|step| step) })
}

async fn answer(location: &Location, req: &Rc<Request>, command: Command) -> Result<Step, Step> {
    // What is wrong with the variables needs no body to be seen.
    let numbers = command::Numbers::read(location, req, command)?;
    let read = match req.read_body() {
        Ready::Now(read) => read,
        Ready::Later(reading) => reading.await,
    };
    read.map_err(|error| error.step())?;
    let asked = Asked::new(location, req, command, numbers)?;
    let reply = Reply::new(&asked, location);
    let conversation = Conversation::new(req, &asked.key, reply);
    Ok(pass::exchange(req, &location.settings, &location.pass, conversation).await)
}
