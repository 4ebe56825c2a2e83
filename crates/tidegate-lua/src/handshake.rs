//! `ssl_client_hello_by_lua*`, `ssl_certificate_by_lua*`, `ssl_session_fetch_by_lua*`, `ssl_session_store_by_lua*`: scripts in
//! handshakes with clients.
//!
//! A script runs without a request: functions that need one refuse. What it decides goes into the [`Handshake`], by the functions
//! of `crate::api::ssl`. Unlike OpenResty's, all of them may wait. `ngx.ctx` is one table for the scripts of a handshake, and each
//! request of the connection begins with a copy of it.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_conf::{Diagnostic, ast};
use tidegate_core::conf::Build;
use tidegate_core::error_log;
use tidegate_core::module::{Context, Directive, Module};
use tidegate_core::phase::Ready;
use tidegate_core::ssl;
use tidegate_core::ssl::script::{Handshake, Refused, Script, Scripts};

use crate::code::Code;
use crate::directives::mark_used;
use crate::host::{Host, LogLevel, Surroundings, timer_host};
use crate::phase::Phase;
use crate::phases::code;
use crate::request_context::ScriptTable;
use crate::scheduler::{Outcome, Started, Stop, start};
use crate::settings;
use crate::socket::OpenSockets;
use crate::vm::{Vm, VmUse};
use crate::worker;

/// The module has no configuration of its own: scripts are a part of the server's TLS.
#[derive(Debug, Default)]
pub(crate) struct Conf;

type Slot = fn(&mut Scripts) -> &mut Option<Arc<dyn Script>>;

/// The three spellings of a directive with code.
macro_rules! by_lua {
    ($name:literal, $field:ident, $phase:ident, $contexts:expr, $doc:literal) => {{
        const SET: tidegate_core::module::Custom<Conf> =
            |_, directive, build| store(|scripts| &mut scripts.$field, Phase::$phase, directive, build);
        [
            Directive::custom($name, 1, 1, SET).within($contexts).syntax("lua-script-str").doc($doc),
            Directive::lua_block(concat!($name, "_block"), 0, 0, SET)
                .within($contexts)
                .syntax("{ lua-script }")
                .doc($doc),
            Directive::custom(concat!($name, "_file"), 1, 1, SET)
                .within($contexts)
                .syntax("path-to-lua-script-file")
                .doc($doc),
        ]
    }};
}

const HTTP: Context = Context::HTTP;
const SERVER: Context = Context::HTTP.or(Context::SERVER);

static DIRECTIVES: [[Directive<Conf>; 3]; 4] = [
    by_lua!(
        "ssl_client_hello_by_lua",
        client_hello,
        SslClientHello,
        SERVER,
        "Runs when a client's first message has come; that of the port's default server. May wait."
    ),
    by_lua!(
        "ssl_certificate_by_lua",
        certificate,
        SslCertificate,
        SERVER,
        "Chooses the certificate for a client's handshake. May wait."
    ),
    by_lua!(
        "ssl_session_fetch_by_lua",
        session_fetch,
        SslSessionFetch,
        HTTP,
        "Finds the session that a client wants to resume. May wait."
    ),
    by_lua!(
        "ssl_session_store_by_lua",
        session_store,
        SslSessionStore,
        HTTP,
        "Stores a session that a handshake has made. May wait."
    ),
];

/// The module.
pub(crate) static MODULE: Module<Conf> = Module {
    directives: DIRECTIVES.as_flattened(),
    example: r#"
        ssl_certificate_by_lua_block {
            local ssl = require "ngx.ssl"
            if ssl.server_name() == "unknown.example" then return ngx.exit(ngx.ERROR) end
        }
    "#,
    ..Module::named("ssl_by_lua")
};

fn store(slot: Slot, phase: Phase, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    mark_used(build);
    let script = Arc::new(LuaScript { code: Code::parse(directive, build)?, phase });
    let level = build.level();
    let slot = slot(&mut build.conf_mut(&ssl::MODULE, level).scripts);
    if slot.is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    *slot = Some(script);
    Ok(())
}

#[derive(Debug)]
struct LuaScript {
    code: Code,
    phase: Phase,
}

/// What the scripts of one handshake keep.
#[derive(Default)]
pub(crate) struct Memo {
    /// `ngx.ctx`
    pub(crate) script_table: ScriptTable,
    /// The machine of this connection, with `lua_code_cache off`.
    vm: std::cell::OnceCell<VmUse>,
}

/// Whom a script in a handshake runs for.
pub(crate) struct Greeting {
    handshake: Rc<Handshake>,
    phase: Phase,
    memo: Rc<Memo>,
    sockets: Rc<OpenSockets>,
}

impl Greeting {
    /// The handshake that a script runs in, if it runs in one, and in which phase.
    pub(crate) fn of(host: &Host) -> Option<(&Rc<Handshake>, Phase)> {
        let Host::Other(other) = host else { return None };
        other.as_any().downcast_ref::<Self>().map(|greeting| (&greeting.handshake, greeting.phase))
    }
}

impl Surroundings for Greeting {
    fn log(&self, level: LogLevel, message: &[u8]) {
        let conn = self.handshake.connection();
        error_log::write_bytes_for_connection(conn, level, message, self.phase.context_name());
    }

    fn logs(&self, level: LogLevel) -> bool {
        error_log::enabled_for_connection(self.handshake.connection(), level)
    }

    fn timer_host(&self) -> Host {
        let conn = self.handshake.connection();
        timer_host(conn, conn.peer)
    }

    fn open_sockets(&self) -> Rc<OpenSockets> {
        self.sockets.clone()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn script_table(&self) -> Option<&ScriptTable> {
        Some(&self.memo.script_table)
    }
}

impl Memo {
    fn of(handshake: &Handshake) -> Rc<Self> {
        if let Some(memo) = handshake.memo().and_then(|memo| memo.downcast::<Self>().ok()) {
            return memo;
        }
        let memo = Rc::<Self>::default();
        handshake.set_memo(memo.clone());
        memo
    }

    fn vm(&self, handshake: &Handshake) -> Result<Rc<Vm>, Vec<u8>> {
        let conf = handshake.connection().default_level().conf(&settings::MODULE);
        if conf.lua_code_cache != Some(false) {
            return worker::vm().ok_or_else(|| b"no Lua virtual machine in this worker".to_vec());
        }
        if let Some(own) = self.vm.get() {
            return Ok(own.vm().clone());
        }
        let own = worker::own_vm_of(handshake.connection().config()).map_err(|failure| failure.message)?;
        Ok(self.vm.get_or_init(|| own).vm().clone())
    }
}

impl Script for LuaScript {
    fn run(&self, handshake: &Rc<Handshake>) -> Ready<Result<(), Refused>> {
        let memo = Memo::of(handshake);
        let host = Host::Other(Rc::new(Greeting {
            handshake: handshake.clone(),
            phase: self.phase,
            memo: memo.clone(),
            sockets: Rc::default(),
        }));
        let prepared = memo.vm(handshake).and_then(|vm| {
            let function = self.code.load(&vm, None).map_err(|error| error.message)?;
            Ok((vm, function))
        });
        let (vm, function) = match prepared {
            Ok(prepared) => prepared,
            Err(message) => {
                host.log(LogLevel::Error, &message);
                return Ready::Now(Err(Refused));
            }
        };
        let phase = self.phase;
        if host.logs(LogLevel::Debug) {
            host.log_debug(format!("{}: connection reusable: 0", words(phase)[0]).as_bytes());
        }
        match start(&vm, host.clone(), phase, function) {
            Started::Done(outcome) => {
                if host.logs(LogLevel::Debug) {
                    let returned = if phase == Phase::SslSessionStore { code::OK } else { returned(outcome) };
                    tell(&host, phase, &format!("handler return value: {returned}, "), outcome);
                }
                Ready::Now(conclude(outcome))
            }
            Started::Waiting(waiting) => Ready::later(async move {
                let outcome = waiting.await;
                if host.logs(LogLevel::Debug) {
                    tell(&host, phase, "", outcome);
                }
                conclude(outcome)
            }),
        }
    }
}

/// What lua-nginx-module calls the phase, its directive and its end in lines at the debug level.
fn words(phase: Phase) -> [&'static str; 3] {
    match phase {
        Phase::SslClientHello => ["ssl client hello", "ssl_client_hello_by_lua", "client hello"],
        Phase::SslSessionFetch => ["ssl session fetch", "ssl_session_fetch_by_lua*", "sess get"],
        Phase::SslSessionStore => ["ssl session store", "ssl_session_store_by_lua*", "sess new"],
        _ => ["ssl cert", "ssl_certificate_by_lua", "cert"],
    }
}

/// Writes what lua-nginx-module says at the debug level when a script has ended.
#[cold]
fn tell(host: &Host, phase: Phase, returned: &str, outcome: Outcome) {
    let [_, directive, end] = words(phase);
    let goes_on = i32::from(conclude(outcome).is_ok());
    host.log_debug(format!("{directive}: {returned}{end} cb exit code: {goes_on}").as_bytes());
}

/// What lua-nginx-module's handler returns for the end of a script.
pub(crate) fn returned(outcome: Outcome) -> i32 {
    match outcome {
        Outcome::Done | Outcome::Stopped(Stop::Exec | Stop::Rewrite) => code::OK,
        Outcome::Stopped(Stop::Exit(status)) => status,
        Outcome::Failed => 500,
    }
}

/// What the end of a script means for the handshake.
pub(crate) fn conclude(outcome: Outcome) -> Result<(), Refused> {
    match outcome {
        Outcome::Done | Outcome::Stopped(Stop::Exit(code::OK | code::DECLINED)) => Ok(()),
        Outcome::Stopped(_) | Outcome::Failed => Err(Refused),
    }
}
