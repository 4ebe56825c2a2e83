//! `set_by_lua*`: computes a variable among the directives of the rewrite module.
//!
//! The code gets the values of its arguments in `ngx.arg[1]`, `ngx.arg[2]`, … and returns the variable's value.

use std::rc::Rc;
use std::sync::Arc;

use tidegate_conf::{Diagnostic, ast};
use tidegate_core::conf::Build;
use tidegate_core::module::{Directive, Module};
use tidegate_core::phase::{Ready, Step};
use tidegate_core::request::Request;
use tidegate_core::template::Template;
use tidegate_modules::rewrite;

use crate::code::Code;
use crate::directives::mark_used;
use crate::host::{Host, LogLevel};
use crate::phase::Phase;
use crate::phases::code;
use crate::request_context::LuaContext;
use crate::scheduler::{Outcome, Started, Stop, start_with};
use crate::worker;

/// The module has no configuration of its own: its operations stand in the rewrite module's script.
#[derive(Debug, Default)]
pub struct Conf;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("set_by_lua", 2, u16::MAX, set)
            .within(rewrite::CONTEXTS)
            .syntax("$res lua-script-str [$arg1 $arg2 ...]")
            .doc("Assigns what the code returns to a variable."),
        Directive::lua_block("set_by_lua_block", 1, 1, set)
            .within(rewrite::CONTEXTS)
            .syntax("$res { lua-script }")
            .doc("Assigns what the code returns to a variable."),
        Directive::custom("set_by_lua_file", 2, u16::MAX, set)
            .within(rewrite::CONTEXTS)
            .syntax("$res path-to-lua-script-file [$arg1 $arg2 ...]")
            .doc("Assigns what the code returns to a variable."),
    ],
    example: r#"
        set_by_lua_block $day { return os.date("%A") }
        return 200 "It is $day.\n";
    "#,
    ..Module::named("set_by_lua")
};

fn set(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    mark_used(build);
    let in_block = matches!(directive.body, ast::Body::Lua(_));
    let (code, rest) = if in_block {
        (Code::parse(directive, build)?, &directive.args[1..])
    } else {
        let name = directive.name().to_string();
        (Code::of_argument(&name, directive, &directive.args[1], build)?, &directive.args[2..])
    };
    let arguments = rest.iter().map(|arg| build.template(arg)).collect::<Result<Vec<_>, _>>()?;
    let code = Arc::new((code, arguments));
    rewrite::assign(build, &directive.args[0], move |req| compute(req, &code))?;
    Ok(())
}

fn compute(req: &Rc<Request>, code: &(Code, Vec<Template>)) -> Ready<Result<Vec<u8>, Step>> {
    let (code, arguments) = code;
    // Whatever is wrong, a missing file too, is an error of the rewrite phase.
    let failed = |message: &[u8]| {
        Host::Request(req.clone()).log(LogLevel::Error, message);
        Ready::Now(Err(Step::Status(500)))
    };
    let vm = match worker::vm_for(req) {
        Ok(vm) => vm,
        Err(failure) => return failed(&failure.message),
    };
    let function = match code.load(&vm, Some(req)) {
        Ok(function) => function,
        Err(error) => return failed(&error.message),
    };
    if !arguments.is_empty() {
        let context: Rc<LuaContext> = req.context();
        *context.set_arguments.borrow_mut() = arguments.iter().map(|argument| argument.eval(req)).collect();
    }
    let started = start_with(&vm, Host::Request(req.clone()), Phase::Set, true, |lua| {
        lua.push_ref(function);
        0
    });
    match started {
        Ok(Started::Done(outcome)) => Ready::Now(value(outcome, vm.take_result())),
        Ok(Started::Waiting(mut waiting)) => Ready::later(async move {
            let outcome = (&mut waiting).await;
            value(outcome, waiting.take_result())
        }),
        Err(_) => failed(b"no memory for a coroutine"),
    }
}

fn value(outcome: Outcome, result: Option<Vec<u8>>) -> Result<Vec<u8>, Step> {
    match outcome {
        Outcome::Failed => Err(Step::Status(500)),
        // A sub-request has ended the request.
        Outcome::Stopped(Stop::Exit(..=code::ERROR)) => Err(Step::Close),
        Outcome::Done | Outcome::Stopped(_) => Ok(result.unwrap_or_default()),
    }
}
