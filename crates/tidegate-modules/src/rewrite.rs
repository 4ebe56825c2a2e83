//! `rewrite`: changes URIs, sets variables, tests conditions, answers at once.
//!
//! The directives of a server or a location form one *script* that runs from top to bottom: a server's before a
//! location is chosen, a location's after that. `if` is part of the script; inside a location it is a level of its own
//! besides, whose configuration applies from the moment the condition holds.
//!
//! ```text
//! set $a 1;              Set
//! if ($b) {              If { skip: 1 }      skips one operation when $b is empty or 0
//!     return 403;        Return
//! }
//! set_md5 $c $a;         Call                an operation of another module, in its place in the source
//! rewrite ^ /x last;     Rewrite
//! ```
//!
//! # Operations of other modules
//!
//! A directive that is to run in source order with these (as `set_md5`, `set_by_lua`, `array_join` are) stands in the
//! contexts [`CONTEXTS`] and calls from its setter, with the level that it stands at being current:
//!
//! - [`assign`] for `name $variable …;`: gives the value that the variable gets, at once or later;
//! - [`push`] with [`Op::Call`] for anything else.
//!
//! Follows nginx's `ngx_http_rewrite_module` and `ngx_http_script.c`.

mod condition;
mod replacement;

use std::{rc::Rc, sync::Arc};

use bstr::ByteSlice;
use bytes::Bytes;
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::{Build, LevelId},
    http_core, inherit,
    main_conf::block_of,
    module::{Context, Directive, Module},
    output::Closed,
    phase::{Outcome, Phase, Program, Ready, Step},
    request::Request,
    template::Template,
    variable::VariableId,
};
use tidegate_http::Known;

use self::{condition::Condition, replacement::Rewrite};

/// Where directives that are part of the script may stand.
pub const CONTEXTS: Context = Context::SERVER.or(Context::SERVER_IF).or(Context::LOCATION).or(Context::LOCATION_IF);

/// An operation that may wait; `Err` ends the script and the phase with that step.
pub type Call = Box<dyn Fn(&Rc<Request>) -> Ready<Result<(), Step>> + Send + Sync>;

/// One operation of a script.
pub enum Op {
    /// `set`
    Set(VariableId, Template),
    /// `if`: with a condition that does not hold, the next `skip` operations are passed over.
    If {
        /// What must hold.
        condition: Condition,
        /// The level that applies when it holds; none in a server.
        level: Option<LevelId>,
        /// How many operations stand in the block.
        skip: usize,
    },
    /// `rewrite`
    Rewrite(Rewrite),
    /// `return`
    Return(Return),
    /// `break`
    Break,
    /// An operation of another module.
    Call(Call),
}

/// What the directives say at one level.
#[derive(Default)]
pub struct Conf {
    rewrite_log: Option<bool>,
    ops: Vec<Op>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("set", 2, 2, set).within(CONTEXTS).syntax("$variable value").doc("Assigns a variable."),
        Directive::block("if", 1, u16::MAX, if_block)
            .within(Context::SERVER.or(Context::LOCATION))
            .syntax("(condition) { ... }")
            .doc("Directives and configuration for requests for which the condition holds."),
        Directive::custom("rewrite", 2, 3, rewrite)
            .within(CONTEXTS)
            .syntax("regex replacement [last | break | redirect | permanent]")
            .doc("Changes a path that matches, or redirects the client."),
        Directive::custom("return", 1, 2, return_)
            .within(CONTEXTS)
            .syntax("code [text] | code URL | URL")
            .doc("Ends the request with a status, a text or a redirect."),
        Directive::custom("break", 0, 0, |conf: &mut Conf, _, _| {
            conf.ops.push(Op::Break);
            Ok(())
        })
        .within(CONTEXTS)
        .doc("Ends the script: the directives of this module below it are not run."),
        Directive::flag("rewrite_log", |c: &mut Conf| &mut c.rewrite_log)
            .within(CONTEXTS.or(Context::HTTP))
            .default("off")
            .doc("The error log gets a notice of each step of rewriting."),
        Directive::custom("uninitialized_variable_warn", 1, 1, uninitialized_variable_warn)
            .within(CONTEXTS.or(Context::HTTP))
            .syntax("on | off")
            .default("on")
            .doc("Variables that are read before they were set are reported in the error log."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; rewrite_log);
    },
    install,
    example: r#"
        rewrite ^/old/(.*)$ /new/$1 permanent;
        if ($http_user_agent ~* bot) { return 403; }
        set $where "$host$uri";
    "#,
    ..Module::named("rewrite")
};

fn install(conf: &Arc<Conf>, program: &mut Program) {
    let phase = match program.kind() {
        Context::SERVER => Phase::ServerRewrite,
        Context::LOCATION => Phase::Rewrite,
        // The script of the location has brought the request here. The engine counts handlers, so something must
        // stand where that script stands in the location.
        Context::LOCATION_IF => {
            return program.on(Phase::Rewrite, |_| Ready::Now(Step::Declined));
        }
        _ => return,
    };
    if !conf.ops.is_empty() {
        let conf = conf.clone();
        program.on(phase, move |req| run(&conf, req, 0));
    }
}

/// Runs the script from operation `at`.
fn run(conf: &Arc<Conf>, req: &Rc<Request>, mut at: usize) -> Outcome {
    let log = conf.rewrite_log == Some(true);
    while let Some(op) = conf.ops.get(at) {
        at += 1;
        match op {
            Op::Set(variable, value) => set_variable(req, *variable, &value.eval_cow(req)),
            Op::If { condition, level, skip } => match condition.holds(req, log) {
                Ok(true) => level.iter().for_each(|level| req.set_level(*level)),
                Ok(false) => at += skip,
                Err(step) => return Ready::Now(step),
            },
            Op::Rewrite(rewrite) => {
                if let Some(step) = rewrite.run(req, log) {
                    return Ready::Now(step);
                }
            }
            Op::Return(answer) => return answer.run(req),
            Op::Break => {
                // As `rewrite … break`: the location stays, and its own path no longer begins the request's.
                if req.flags().uri_changed.replace(false) {
                    req.flags().alias_blocked.set(true);
                }
                return Ready::Now(Step::Declined);
            }
            Op::Call(call) => match call(req) {
                Ready::Now(Ok(())) => {}
                Ready::Now(Err(step)) => return Ready::Now(step),
                Ready::Later(future) => {
                    let (conf, req) = (conf.clone(), req.clone());
                    return Ready::later(async move {
                        match future.await {
                            Ok(()) => run(&conf, &req, at).wait().await,
                            Err(step) => step,
                        }
                    });
                }
            },
        }
    }
    Ready::Now(Step::Declined)
}

fn set_variable(req: &Rc<Request>, variable: VariableId, value: &[u8]) {
    // Whether it can be assigned was checked when it was defined.
    let _ = req.set_variable(variable, Some(value));
}

/// Adds an operation to the script of the level that directives are being applied at.
pub fn push(build: &mut Build<'_>, op: Op) {
    let level = build.level();
    build.conf_mut(&MODULE, level).ops.push(op);
}

/// Adds an operation that assigns `compute`'s value to the variable that `target` (`$name`) stands for.
///
/// # Errors
/// `target` is not the name of a variable, or of one that cannot be assigned.
pub fn assign(
    build: &mut Build<'_>,
    target: &ast::Arg,
    compute: impl Fn(&Rc<Request>) -> Ready<Result<Vec<u8>, Step>> + Send + Sync + 'static,
) -> Result<VariableId, Diagnostic> {
    let variable = target_variable(build, target)?;
    let call = move |req: &Rc<Request>| match compute(req) {
        Ready::Now(value) => Ready::Now(value.map(|value| set_variable(req, variable, &value))),
        Ready::Later(value) => {
            let req = req.clone();
            Ready::later(async move { value.await.map(|value| set_variable(&req, variable, &value)) })
        }
    };
    push(build, Op::Call(Box::new(call)));
    Ok(variable)
}

/// The variable that a directive assigns, `$name`; it comes to exist if it does not yet.
///
/// # Errors
/// The argument is not the name of a variable, or of one that cannot be assigned.
pub fn target_variable(build: &mut Build<'_>, target: &ast::Arg) -> Result<VariableId, Diagnostic> {
    let name = build.variable_name(target)?;
    let duplicate = |_| emerg(target, format!("the duplicate \"{name}\" variable"));
    build.variables.define_plain(name).map_err(duplicate)
}

fn emerg(arg: &ast::Arg, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

fn set(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let variable = target_variable(build, &directive.args[0])?;
    let value = build.template(&directive.args[1])?;
    conf.ops.push(Op::Set(variable, value));
    Ok(())
}

fn if_block(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let condition = Condition::parse(&directive.args, build)?;
    let in_location = build.kind() == Context::LOCATION;
    let kind = if in_location { Context::LOCATION_IF } else { Context::SERVER_IF };
    let name = build.name_of(build.level()).to_owned();
    let level = build.open_level(kind, Some(build.level()), name);
    build.walk(level, kind, block_of(directive));
    // The block's operations belong to the script around it.
    let body = std::mem::take(&mut build.conf_mut(&MODULE, level).ops);
    conf.ops.push(Op::If { condition, level: in_location.then_some(level), skip: body.len() });
    conf.ops.extend(body);
    Ok(())
}

fn rewrite(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.ops.push(Op::Rewrite(Rewrite::parse(&directive.args, build)?));
    Ok(())
}

fn uninitialized_variable_warn(
    _: &mut Conf,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let on = values::flag(arg.value.as_bstr()).map_err(|error| error.diagnostic(directive.name(), arg))?;
    let level = build.level();
    let field = &mut build.conf_mut(&http_core::MODULE, level).uninitialized_variable_warn;
    if field.replace(on).is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    Ok(())
}

/// The response of a `return` directive.
pub struct Return {
    status: u16,
    text: Text,
}

enum Text {
    /// The same for every request: shared, never copied before it is written.
    Literal(Bytes),
    Template(Template),
}

/// Largest status that `return` takes.
const STATUS_MAX: u64 = 999;

fn return_(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (code, text) = (&directive.args[0], directive.args.get(1));
    let invalid = || emerg(code, format!("invalid return code \"{}\"", code.value));
    let (status, text) = match (values::integer(code.value.as_bstr()), text) {
        (Ok(status @ 0..=STATUS_MAX), text) => (status as u16, text),
        (Err(_), None) if replacement::is_url(&code.value) => (302, Some(code)),
        _ => return Err(invalid()),
    };
    let template = text.map(|text| build.template(text)).transpose()?.unwrap_or_default();
    let text = match template.as_literal() {
        Some(text) => Text::Literal(Bytes::copy_from_slice(text)),
        None => Text::Template(template),
    };
    conf.ops.push(Op::Return(Return { status, text }));
    Ok(())
}

impl Return {
    fn run(&self, req: &Rc<Request>) -> Outcome {
        let text = match &self.text {
            // An error without a text of its own has its page.
            Text::Literal(text) if text.is_empty() && self.status >= 400 => {
                return Ready::Now(Step::Status(self.status));
            }
            Text::Literal(text) => text.clone(),
            Text::Template(text) => {
                // The text may say which status it is.
                req.response.borrow_mut().status = self.status;
                text.eval(req).into()
            }
        };
        if matches!(self.status, 301 | 302 | 303 | 307 | 308) {
            req.response.borrow_mut().fields.set_known(Known::Location, &text);
            return Ready::Now(Step::Status(self.status));
        }
        req.set_default_content_type();
        match req.send_complete(self.status, text) {
            Ready::Now(sent) => Ready::Now(after_sending(sent)),
            later => later.map(after_sending),
        }
    }
}

fn after_sending(sent: Result<(), Closed>) -> Step {
    match sent {
        Ok(()) => Step::Done,
        Err(Closed) => Step::Close,
    }
}
