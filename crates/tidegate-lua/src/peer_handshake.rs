//! `proxy_ssl_certificate_by_lua*`, `proxy_ssl_verify_by_lua*`: scripts in handshakes with the servers of `proxy_pass https://…`.
//!
//! A script runs for the request that opens the connection. What it decides goes into the [`PeerHandshake`] that stands in the
//! request's [`LuaContext`] meanwhile; `crate::api::proxy_ssl` changes it there. Unlike OpenResty's, the first runs before the
//! handshake, whether the server will ask for a certificate or not, and the second when it is done, before the request is sent.

use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, ast, values};
use tidegate_core::conf::Build;
use tidegate_core::module::{Context, Custom, Directive, Module};
use tidegate_core::phase::Ready;
use tidegate_core::request::Request;
use tidegate_core::ssl::script::Refused;
use tidegate_core::upstream::directives::fill;
use tidegate_core::upstream::tls_scripts::{PeerHandshake, PeerScript, PeerScripts};
use tidegate_modules::proxy;

use crate::code::Code;
use crate::directives::mark_used;
use crate::handshake::{conclude, returned};
use crate::host::{Host, LogLevel};
use crate::phase::Phase;
use crate::phases::begin;
use crate::request_context::LuaContext;
use crate::scheduler::{Outcome, Started};

/// The module has no configuration of its own: scripts are a part of the proxy's TLS.
#[derive(Debug, Default)]
pub(crate) struct Conf;

type Slot = fn(&mut PeerScripts) -> &mut Option<Arc<dyn PeerScript>>;

const SET_CERTIFICATE: Custom<Conf> =
    |_, directive, build| store(|scripts| &mut scripts.certificate, Phase::ProxySslCertificate, directive, build);
const SET_VERIFY: Custom<Conf> =
    |_, directive, build| store(|scripts| &mut scripts.verify, Phase::ProxySslVerify, directive, build);

/// The module.
pub(crate) static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::lua_block("proxy_ssl_certificate_by_lua_block", 0, 0, SET_CERTIFICATE)
            .within(Context::LOCATION)
            .syntax("{ lua-script }")
            .doc("Chooses the certificate for the servers of a proxy, before the handshake. May wait."),
        Directive::custom("proxy_ssl_certificate_by_lua_file", 1, 1, SET_CERTIFICATE)
            .within(Context::LOCATION)
            .syntax("path-to-lua-script-file")
            .doc("Chooses the certificate for the servers of a proxy, before the handshake. May wait."),
        Directive::lua_block("proxy_ssl_verify_by_lua_block", 0, 0, SET_VERIFY)
            .within(Context::LOCATION)
            .syntax("{ lua-script }")
            .doc("Judges the certificate of a proxy's server, before the request is sent. May wait."),
        Directive::custom("proxy_ssl_verify_by_lua_file", 1, 1, SET_VERIFY)
            .within(Context::LOCATION)
            .syntax("path-to-lua-script-file")
            .doc("Judges the certificate of a proxy's server, before the request is sent. May wait."),
        Directive::custom("lua_upstream_skip_openssl_default_verify", 1, 1, skip_default_verify)
            .within(Context::LOCATION)
            .syntax("on | off")
            .default("off")
            .doc("`proxy_ssl_verify_by_lua*` alone decides about a certificate, in place of `proxy_ssl_verify`."),
    ],
    example: r#"
        location / {
            proxy_pass https://127.0.0.1:8443;
            proxy_ssl_verify_by_lua_block {
                local verify = require "ngx.ssl.proxysslverify"
                if not verify.get_verify_cert() then verify.set_verify_result(1) end
            }
        }
    "#,
    ..Module::named("proxy_ssl_by_lua")
};

fn store(slot: Slot, phase: Phase, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    mark_used(build);
    let script = Arc::new(LuaScript { code: Code::parse(directive, build)?, phase });
    let level = build.level();
    let slot = slot(&mut build.conf_mut(&proxy::MODULE, level).upstream.tls.scripts);
    if slot.is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    *slot = Some(script);
    Ok(())
}

fn skip_default_verify(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let on = values::flag(arg.value.as_bstr()).map_err(|error| error.diagnostic(directive.name(), arg))?;
    let level = build.level();
    fill(&mut build.conf_mut(&proxy::MODULE, level).upstream.tls.skip_default_verify, on, directive)
}

#[derive(Debug)]
struct LuaScript {
    code: Code,
    phase: Phase,
}

/// The handshake that a script decides about, as long as it runs, however it ends.
struct UnderWay {
    req: Rc<Request>,
    phase: Phase,
    is_concluded: bool,
}

impl UnderWay {
    fn begin(req: &Rc<Request>, phase: Phase, handshake: &Rc<PeerHandshake>) -> Self {
        let context: Rc<LuaContext> = req.context();
        *context.peer_handshake.borrow_mut() = Some((handshake.clone(), phase));
        UnderWay { req: req.clone(), phase, is_concluded: false }
    }

    /// What the end of the script means. `returned` is told at the debug level.
    fn conclude(mut self, returned: &str, outcome: Outcome) -> Result<(), Refused> {
        self.is_concluded = true;
        self.end();
        let concluded = conclude(outcome);
        let goes_on = u8::from(concluded.is_ok());
        self.tell(&format_args!("{returned}{} exit code: {goes_on}", words(self.phase)[1]));
        concluded
    }

    fn end(&self) {
        self.req.context::<LuaContext>().peer_handshake.take();
    }

    /// Writes what lua-nginx-module says at the debug level.
    fn tell(&self, message: &dyn Display) {
        let host = Host::Request(self.req.clone());
        if host.logs(LogLevel::Debug) {
            host.log_debug(format!("{}: {message}", words(self.phase)[0]).as_bytes());
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.end();
        if !self.is_concluded {
            self.tell(&format_args!("{} aborted", words(self.phase)[1]));
        }
    }
}

/// What lua-nginx-module calls the directive and the script's end in lines at the debug level.
fn words(phase: Phase) -> [&'static str; 2] {
    match phase {
        Phase::ProxySslCertificate => ["proxy_ssl_certificate_by_lua", "cert cb"],
        _ => ["proxy_ssl_verify_by_lua", "cert verify callback"],
    }
}

impl PeerScript for LuaScript {
    fn run(&self, req: &Rc<Request>, handshake: &Rc<PeerHandshake>) -> Ready<Result<(), Refused>> {
        let under_way = UnderWay::begin(req, self.phase, handshake);
        match begin(req, &self.code, self.phase) {
            Err(_) => Ready::Now(under_way.conclude("handler return value: 500, ", Outcome::Failed)),
            Ok(Started::Done(outcome)) => {
                let returned = format!("handler return value: {}, ", returned(outcome));
                Ready::Now(under_way.conclude(&returned, outcome))
            }
            Ok(Started::Waiting(waiting)) => Ready::later(async move {
                let outcome = waiting.await;
                under_way.conclude("", outcome)
            }),
        }
    }
}
