//! `balancer_by_lua*`: a script chooses the server of an `upstream` for each try of a request.
//!
//! What the script decides goes into the [`Attempt`] that stands in the request's [`LuaContext`] while the script runs;
//! `ngx.balancer` (`crate::api::balancer`) changes it there. Unlike OpenResty's, the script may wait: sleep, use
//! cosockets, make sub-requests.

use std::rc::Rc;

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::conf::Build;
use tidegate_core::module::{Context, Directive, Module};
use tidegate_core::phase::Ready;
use tidegate_core::request::Request;
use tidegate_core::upstream::balance::{Attempt, Balancer};
use tidegate_modules::upstream;

use crate::code::Code;
use crate::directives::mark_used;
use crate::phase::Phase;
use crate::phases::{begin, code};
use crate::request_context::LuaContext;
use crate::scheduler::{Outcome, Started, Stop};

/// The module has no configuration of its own: the balancer is a part of the `upstream`.
#[derive(Debug, Default)]
pub(crate) struct Conf;

/// The module.
pub(crate) static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("balancer_by_lua", 1, 1, balancer)
            .within(Context::UPSTREAM)
            .syntax("lua-script-str")
            .doc("Chooses the server for each try of a request."),
        Directive::lua_block("balancer_by_lua_block", 0, 0, balancer)
            .within(Context::UPSTREAM)
            .syntax("{ lua-script }")
            .doc("Chooses the server for each try of a request."),
        Directive::custom("balancer_by_lua_file", 1, 1, balancer)
            .within(Context::UPSTREAM)
            .syntax("path-to-lua-script-file")
            .doc("Chooses the server for each try of a request."),
        Directive::custom("balancer_keepalive", 1, 1, keepalive)
            .within(Context::UPSTREAM)
            .syntax("connections")
            .default("32")
            .doc("Idle connections that each worker keeps for `enable_keepalive` of `ngx.balancer`."),
    ],
    example: r#"
        upstream backend {
            server 0.0.0.1;
            balancer_by_lua_block {
                local balancer = require "ngx.balancer"
                assert(balancer.set_current_peer("127.0.0.1", 8081))
            }
        }
    "#,
    ..Module::named("balancer_by_lua")
};

fn balancer(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    mark_used(build);
    let balancer = LuaBalancer { code: Code::parse(directive, build)? };
    let level = build.level();
    let conf = build.conf_mut(&upstream::MODULE, level);
    if conf.balancer.is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    conf.balancer = Some(Box::new(balancer));
    if conf.has_method() {
        build.diagnostics.warn(directive.name.span, "load balancing method redefined");
    }
    Ok(())
}

fn keepalive(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let level = build.level();
    let conf = build.conf_mut(&upstream::MODULE, level);
    if conf.balancer_keepalive.is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    let number = values::integer(arg.value.as_bstr()).ok().and_then(|number| usize::try_from(number).ok());
    let Some(number) = number.filter(|&number| number > 0) else {
        let message = format!("invalid value \"{}\" in \"{}\" directive", arg.value, directive.name());
        return Err(Diagnostic::new(Severity::Emerg, arg.span, message));
    };
    conf.balancer_keepalive = Some(number);
    Ok(())
}

struct LuaBalancer {
    code: Code,
}

impl Balancer for LuaBalancer {
    fn choose(&self, req: &Rc<Request>, attempt: Attempt) -> Ready<(Attempt, Result<(), u16>)> {
        let context: Rc<LuaContext> = req.context();
        *context.attempt.borrow_mut() = Some(attempt.clone());
        let started = begin(req, &self.code, Phase::Balancer);
        let decided =
            move |context: &LuaContext, decision| (context.attempt.borrow_mut().take().unwrap_or(attempt), decision);
        match started {
            Err(status) => Ready::Now(decided(&context, Err(status))),
            Ok(Started::Done(outcome)) => Ready::Now(decided(&context, conclude(outcome))),
            Ok(Started::Waiting(waiting)) => Ready::later(async move {
                let outcome = waiting.await;
                decided(&context, conclude(outcome))
            }),
        }
    }
}

/// What the end of the script means for the request.
fn conclude(outcome: Outcome) -> Result<(), u16> {
    match outcome {
        Outcome::Done | Outcome::Stopped(Stop::Exit(code::OK) | Stop::Exec | Stop::Rewrite) => Ok(()),
        Outcome::Stopped(Stop::Exit(code::DECLINED)) => Err(502),
        Outcome::Stopped(Stop::Exit(status @ 300..=999)) => Err(u16::try_from(status).unwrap_or(500)),
        Outcome::Stopped(Stop::Exit(_)) | Outcome::Failed => Err(500),
    }
}
