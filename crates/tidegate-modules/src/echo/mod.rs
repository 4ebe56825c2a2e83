//! `echo`: text, sleeps and sub-requests as content, for tests and small pages.
//!
//! Follows echo-nginx-module. The commands of a location run in the order of the file. Here `echo_blocking_sleep` does
//! not block: it is `echo_sleep`.

mod command;
mod run;
mod variables;

use std::sync::Arc;

use bytes::Bytes;
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    conf::Build,
    module::{Context, Directive, Module},
    output::{Buf, Chunk},
    phase::{Program, Ready},
    request::Request,
    template::Template,
};

use self::command::{Command, Text};

/// What the directives say at one level.
#[derive(Default)]
pub struct Conf {
    commands: Arc<Vec<Command>>,
    before: Vec<Text>,
    after: Vec<Text>,
    status: Option<Template>,
}

const CONTENT: Context = Context::LOCATION.or(Context::LOCATION_IF);

macro_rules! commands {
    ($($name:literal, $min:literal, $max:expr, $syntax:literal, $doc:literal, $parse:expr;)+) => {
        &[
            $(Directive::custom($name, $min, $max, |conf: &mut Conf, directive, build| {
                let command = $parse(directive, build)?;
                // Shared only once a level has been inherited from, when all directives have been read.
                if let Some(commands) = Arc::get_mut(&mut conf.commands) {
                    commands.push(command);
                }
                Ok(())
            })
            .within(CONTENT)
            .syntax($syntax)
            .doc($doc),)+
            Directive::custom("echo_before_body", 0, u16::MAX, |conf: &mut Conf, directive, build| {
                conf.before.push(Text::parse(directive, build)?);
                Ok(())
            })
            .within(Context::ALL_IF)
            .syntax("[-n] [text ...]")
            .doc("Writes a line ahead of the body that another module gives."),
            Directive::custom("echo_after_body", 0, u16::MAX, |conf: &mut Conf, directive, build| {
                conf.after.push(Text::parse(directive, build)?);
                Ok(())
            })
            .within(Context::ALL_IF)
            .syntax("[-n] [text ...]")
            .doc("Writes a line behind the body that another module gives."),
            Directive::custom("echo_status", 1, 1, |conf: &mut Conf, directive, build| {
                conf.status = Some(build.template(&directive.args[0])?);
                Ok(())
            })
            .within(CONTENT)
            .syntax("status")
            .default("200")
            .doc("Status of the response."),
        ]
    };
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: commands![
        "echo", 0, u16::MAX, "[-n] [text ...]", "Writes a line.",
            |directive, build: &mut Build<'_>| Text::parse(directive, build).map(Command::Echo);
        "echo_duplicate", 2, 2, "count text", "Writes a text several times.", command::duplicate;
        "echo_flush", 0, 0, "", "Sends what was written.", |_, _: &mut Build<'_>| Ok(Command::Flush);
        "echo_sleep", 1, 1, "seconds", "Waits before the next directive.", command::sleep;
        "echo_blocking_sleep", 1, 1, "seconds", "Waits; blocks nobody.", command::sleep;
        "echo_reset_timer", 0, 0, "", "Sets $echo_timer_elapsed to zero.", |_, _: &mut Build<'_>| Ok(Command::ResetTimer);
        "echo_read_request_body", 0, 0, "", "Reads the request's body.", |_, _: &mut Build<'_>| Ok(Command::ReadBody);
        "echo_request_body", 0, 0, "", "Writes the request's body.", |_, _: &mut Build<'_>| Ok(Command::RequestBody);
        "echo_location", 1, 2, "location [args]", "Writes the response of a sub-request.",
            |directive, build: &mut Build<'_>| command::location(directive, build).map(Command::Subrequest);
        "echo_location_async", 1, 2, "location [args]", "Writes the response of a sub-request; the next directives do not wait for it.",
            |directive, build: &mut Build<'_>| command::location(directive, build).map(Command::SubrequestAsync);
        "echo_subrequest", 2, u16::MAX, "method location [-q args] [-b body] [-f file]",
            "Writes the response of a sub-request.",
            |directive, build: &mut Build<'_>| command::subrequest(directive, build).map(Command::Subrequest);
        "echo_subrequest_async", 2, u16::MAX, "method location [-q args] [-b body] [-f file]",
            "Writes the response of a sub-request; the next directives do not wait for it.",
            |directive, build: &mut Build<'_>| command::subrequest(directive, build).map(Command::SubrequestAsync);
        "echo_foreach_split", 2, u16::MAX, "delimiter text", "Repeats up to echo_end for each part of a text.",
            command::foreach;
        "echo_end", 0, 0, "", "Ends echo_foreach_split.", |_, _: &mut Build<'_>| Ok(Command::End);
        "echo_abort_parent", 0, 0, "", "Ends the parent of a sub-request.",
            |_, _: &mut Build<'_>| Ok(Command::AbortParent);
        "echo_exec", 1, 2, "location [args]", "Goes on in another location.", command::exec;
    ],
    variables: variables::VARIABLES,
    inherit: |child, parent, kind| {
        if kind.is_unnamed() && child.commands.is_empty() {
            child.commands.clone_from(&parent.commands);
        }
        if child.before.is_empty() {
            child.before.clone_from(&parent.before);
        }
        if child.after.is_empty() {
            child.after.clone_from(&parent.after);
        }
        if child.status.is_none() {
            child.status.clone_from(&parent.status);
        }
    },
    install,
    example: r#"
        location /both {
            echo_location_async /one;
            echo_location_async /two;
            echo "done";
        }
    "#,
    ..Module::named("echo")
};

fn install(conf: &Arc<Conf>, program: &mut Program) {
    if !conf.commands.is_empty() {
        let conf = conf.clone();
        program.content(move |req| run::start(req, &conf));
    }
    if conf.before.is_empty() && conf.after.is_empty() {
        return;
    }
    program.header_filter(|req| {
        let mut response = req.response.borrow_mut();
        response.content_length = None;
        response.allow_ranges = false;
        response.fields.remove(tidegate_http::Known::AcceptRanges);
        Ready::Now(Ok(()))
    });
    let conf = conf.clone();
    program.body_filter(move |req, chunk| Ready::Now(Ok(surround(req, &conf, chunk))));
}

/// What the filter remembers of a response.
#[derive(Debug, Default)]
struct Surrounded {
    begun: std::cell::Cell<bool>,
    ended: std::cell::Cell<bool>,
}

fn surround(req: &Request, conf: &Conf, mut chunk: Chunk) -> Chunk {
    let state = req.context::<Surrounded>();
    if !state.begun.replace(true) && !conf.before.is_empty() {
        let before = text_of(req, &conf.before);
        chunk.bufs.insert(0, Buf::Bytes(before));
    }
    if chunk.last && !state.ended.replace(true) && !conf.after.is_empty() {
        let after = text_of(req, &conf.after);
        chunk.bufs.push(Buf::Bytes(after));
    }
    chunk
}

fn text_of(req: &Request, texts: &[Text]) -> Bytes {
    let mut out = Vec::new();
    for text in texts {
        text.write(req, &mut out);
    }
    out.into()
}

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(tidegate_conf::Level::Emerg, arg.span, message)
}
