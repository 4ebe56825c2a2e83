//! The directives with Lua code, and how they become handlers.
//!
//! Follows lua-nginx-module. The handlers themselves are in [`crate::phases`], settings in [`crate::settings`].

use std::sync::{Arc, Mutex};

use tidegate_conf::{Diagnostic, ast};
use tidegate_core::conf::Build;
use tidegate_core::inherit;
use tidegate_core::module::{AnyModule, Context, Directive, Module};
use tidegate_core::phase::{Phase as CorePhase, Program};

use crate::code::Code;
use crate::init_once::Answers;
use crate::{balancer, handshake, peer_handshake, phases, set_by_lua, settings, socket, worker};

/// The modules of this crate, in the order in which their handlers and filters run.
pub static MODULES: &[&dyn AnyModule] = &[
    &settings::MODULE,
    &socket::TLS_MODULE,
    &set_by_lua::MODULE,
    &balancer::MODULE,
    &handshake::MODULE,
    &peer_handshake::MODULE,
    &MODULE,
];

/// The code that one level has.
#[derive(Debug, Default)]
pub struct Conf {
    pub(crate) init: Option<Arc<Code>>,
    pub(crate) init_worker: Option<Arc<Code>>,
    pub(crate) exit_worker: Option<Arc<Code>>,
    server_rewrite: Option<Arc<Code>>,
    rewrite: Option<Arc<Code>>,
    access: Option<Arc<Code>>,
    precontent: Option<Arc<Code>>,
    content: Option<Arc<Code>>,
    header_filter: Option<Arc<Code>>,
    body_filter: Option<Arc<Code>>,
    log: Option<Arc<Code>>,
    rewrite_first: Option<bool>,
    access_first: Option<bool>,
    precontent_first: Option<bool>,
    /// What the first run of the init code heard, once it has run for this configuration; held while it does.
    pub(crate) init_ran: Mutex<Option<Arc<Answers>>>,
}

impl Conf {
    /// Whether sending a response runs Lua code: output then goes through functions that may run Lua.
    pub(crate) fn has_filters(&self) -> bool {
        self.header_filter.is_some() || self.body_filter.is_some()
    }
}

const HTTP: Context = Context::HTTP;
const SERVER: Context = Context::HTTP.or(Context::SERVER);
const CONTENT: Context = Context::LOCATION.or(Context::LOCATION_IF);

/// The three spellings of a directive with code.
macro_rules! by_lua {
    ($name:literal, $field:ident, $contexts:expr, $doc:literal) => {
        [
            Directive::custom($name, 1, 1, |c: &mut Conf, d, b| store(&mut c.$field, d, b))
                .within($contexts)
                .syntax("lua-script-str")
                .doc($doc),
            Directive::lua_block(concat!($name, "_block"), 0, 0, |c: &mut Conf, d, b| store(&mut c.$field, d, b))
                .within($contexts)
                .syntax("{ lua-script }")
                .doc($doc),
            Directive::custom(concat!($name, "_file"), 1, 1, |c: &mut Conf, d, b| store(&mut c.$field, d, b))
                .within($contexts)
                .syntax("path-to-lua-script-file")
                .doc($doc),
        ]
    };
}

static DIRECTIVES: [[Directive<Conf>; 3]; 12] = [
    by_lua!(
        "init_by_lua",
        init,
        HTTP,
        "Runs once, before the workers serve, and sets up every worker's virtual machine; an error prevents the start."
    ),
    by_lua!("init_worker_by_lua", init_worker, HTTP, "Runs as each worker starts; timers are the usual use."),
    by_lua!("exit_worker_by_lua", exit_worker, HTTP, "Runs as each worker ends."),
    by_lua!("server_rewrite_by_lua", server_rewrite, SERVER, "Runs before a location is chosen."),
    by_lua!("rewrite_by_lua", rewrite, Context::ALL_IF, "Runs after the directives of the rewrite module."),
    by_lua!("access_by_lua", access, Context::ALL_IF, "Runs after the access modules; may refuse the request."),
    by_lua!("precontent_by_lua", precontent, Context::ALL_IF, "Runs just before the content handler."),
    by_lua!("content_by_lua", content, CONTENT, "Makes the response."),
    by_lua!("header_filter_by_lua", header_filter, Context::ALL_IF, "Sees and changes the response's head."),
    by_lua!("body_filter_by_lua", body_filter, Context::ALL_IF, "Sees and changes each piece of the response's body."),
    by_lua!("log_by_lua", log, Context::ALL_IF, "Runs after the response."),
    // Their names before 2012, which old documents use.
    [
        Directive::custom("content_by_file", 1, 1, |c: &mut Conf, d, b| store(&mut c.content, d, b))
            .within(CONTENT)
            .syntax("path-to-lua-script-file")
            .doc("Old name of `content_by_lua_file`."),
        Directive::custom("rewrite_by_file", 1, 1, |c: &mut Conf, d, b| store(&mut c.rewrite, d, b))
            .within(Context::ALL_IF)
            .syntax("path-to-lua-script-file")
            .doc("Old name of `rewrite_by_lua_file`."),
        Directive::custom("access_by_file", 1, 1, |c: &mut Conf, d, b| store(&mut c.access, d, b))
            .within(Context::ALL_IF)
            .syntax("path-to-lua-script-file")
            .doc("Old name of `access_by_lua_file`."),
    ],
];

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: DIRECTIVES.as_flattened(),
    inherit: |child, parent, kind| {
        inherit!(child, parent; rewrite, access, precontent, header_filter, body_filter, log);
        inherit!(child, parent; rewrite_first, access_first, precontent_first);
        if kind.is_unnamed() {
            inherit!(child, parent; content);
        }
        if kind == Context::SERVER {
            inherit!(child, parent; server_rewrite);
        }
    },
    finish: Some(finish),
    install,
    init_worker: Some(worker::init),
    exit_worker: Some(worker::exit),
    example: r#"
        location /hello {
            access_by_lua_block { if ngx.var.arg_key ~= "secret" then return ngx.exit(403) end }
            content_by_lua_block { ngx.say("Hello, ", ngx.var.remote_addr) }
        }
    "#,
    ..Module::named("lua_code")
};

fn store(slot: &mut Option<Arc<Code>>, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if slot.is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    *slot = Some(Arc::new(Code::parse(directive, build)?));
    mark_used(build);
    Ok(())
}

/// Notes that the configuration has Lua code, so that workers make virtual machines.
pub(crate) fn mark_used(build: &mut Build<'_>) {
    let level = build.http_level().unwrap_or_else(|| build.level());
    build.conf_mut(&settings::MODULE, level).used = true;
}

/// Takes over what the settings say about the order of handlers.
fn finish(conf: &mut Conf, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let Some(settings) = build.http_level().and_then(|level| build.conf_at(&settings::MODULE, level)) else {
        return Ok(());
    };
    conf.rewrite_first = settings.rewrite_by_lua_no_postpone;
    conf.access_first = settings.access_by_lua_no_postpone;
    conf.precontent_first = settings.precontent_by_lua_no_postpone;
    Ok(())
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    let kind = program.kind();
    if let Some(code) = &conf.server_rewrite
        && kind == Context::SERVER
    {
        phases::install_server_rewrite(code, program);
    }
    if kind != Context::SERVER {
        let early = [
            (CorePhase::Rewrite, &conf.rewrite, conf.rewrite_first),
            (CorePhase::Access, &conf.access, conf.access_first),
            (CorePhase::Precontent, &conf.precontent, conf.precontent_first),
        ];
        for (phase, code, first) in early {
            if let Some(code) = code {
                phases::install_early(phase, code, program, first == Some(true));
            }
        }
        if let Some(code) = &conf.content {
            phases::install_content(code, program);
        }
    }
    if let Some(code) = &conf.header_filter {
        phases::install_header_filter(code, program);
    }
    if let Some(code) = &conf.body_filter {
        phases::install_body_filter(code, program);
    }
    if let Some(code) = &conf.log {
        phases::install_log(code, program);
    }
}
