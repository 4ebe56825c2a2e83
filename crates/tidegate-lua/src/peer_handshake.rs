//! `proxy_ssl_certificate_by_lua*`, `proxy_ssl_verify_by_lua*`: scripts in handshakes with the servers of `proxy_pass https://…`.
//!
//! A script runs for the request that opens the connection. What it decides goes into the [`PeerHandshake`] that stands in the
//! request's [`LuaContext`] meanwhile; `crate::api::proxy_ssl` changes it there. Unlike OpenResty's, the first runs before the
//! handshake, whether the server will ask for a certificate or not, and the second when it is done, before the request is sent.

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
use crate::handshake::conclude;
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
struct UnderWay(Rc<LuaContext>);

impl UnderWay {
    fn begin(context: Rc<LuaContext>, handshake: &Rc<PeerHandshake>) -> Self {
        *context.peer_handshake.borrow_mut() = Some(handshake.clone());
        UnderWay(context)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.peer_handshake.take();
    }
}

impl PeerScript for LuaScript {
    fn run(&self, req: &Rc<Request>, handshake: &Rc<PeerHandshake>) -> Ready<Result<(), Refused>> {
        let under_way = UnderWay::begin(req.context(), handshake);
        let concluded = |under_way: UnderWay, outcome: Outcome| {
            drop(under_way);
            conclude(outcome)
        };
        match begin(req, &self.code, self.phase) {
            Err(_) => Ready::Now(Err(Refused)),
            Ok(Started::Done(outcome)) => Ready::Now(concluded(under_way, outcome)),
            Ok(Started::Waiting(waiting)) => Ready::later(async move {
                let outcome = waiting.await;
                concluded(under_way, outcome)
            }),
        }
    }
}
