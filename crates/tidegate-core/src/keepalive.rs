//! How a client's connection goes on after a response, and how it ends: `keepalive_*`, `lingering_*`.
//!
//! What this does not know: how bytes are read and written. That is [`crate::http1`].
//!
//! Source: nginx, `ngx_http_update_location_config`, `ngx_http_finalize_connection`.

use std::time::Duration;

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, ast, values};
use tidegate_http::{Known, Method, user_agent::Browser};

use crate::{
    clock,
    conf::Build,
    http_core::{limit_ms, ms},
    inherit,
    main_conf::duplicate,
    module::{Directive, Module},
    request::Request,
};

/// `keepalive_disable msie6`
const MSIE6: u32 = 1;
/// `keepalive_disable safari`
const SAFARI: u32 = 2;

/// `lingering_close off`
const LINGER_NEVER: u32 = 0;
/// `lingering_close always`
const LINGER_ALWAYS: u32 = 2;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    keepalive_disable: Option<u32>,
    keepalive_requests: Option<u64>,
    keepalive_time: Option<Duration>,
    keepalive_timeout: Option<(Duration, Option<Duration>)>,
    lingering_close: Option<u32>,
    lingering_time: Option<Duration>,
    lingering_timeout: Option<Duration>,
    reset_timedout_connection: Option<bool>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("keepalive_disable", 1, 2, keepalive_disable)
            .syntax("none | browser ...")
            .default("msie6")
            .doc("Browsers whose connections end with each response: msie6 (after POST), safari."),
        Directive::number("keepalive_requests", |c: &mut Conf| &mut c.keepalive_requests)
            .default("1000")
            .doc("Most requests that a connection may bring."),
        Directive::time("keepalive_time", |c: &mut Conf| &mut c.keepalive_time)
            .default("1h")
            .doc("A connection that is older than this closes after its response."),
        Directive::custom("keepalive_timeout", 1, 2, keepalive_timeout)
            .syntax("timeout [header_timeout]")
            .default("75s")
            .doc("Longest time that a connection may be idle between requests; 0 closes it after each response."),
        Directive::choice(
            "lingering_close",
            |c: &mut Conf| &mut c.lingering_close,
            &[("off", LINGER_NEVER), ("on", 1), ("always", LINGER_ALWAYS)],
        )
        .default("on")
        .doc("Reads what a client still sends before the connection is closed."),
        Directive::time("lingering_time", |c: &mut Conf| &mut c.lingering_time)
            .default("30s")
            .doc("Longest time for reading what a client still sends before the connection is closed."),
        Directive::time("lingering_timeout", |c: &mut Conf| &mut c.lingering_timeout)
            .default("5s")
            .doc("Longest pause while the rest that a client sends is read before the connection is closed."),
        Directive::flag("reset_timedout_connection", |c: &mut Conf| &mut c.reset_timedout_connection)
            .default("off")
            .doc("Connections that timed out, or end with 444, are reset, which frees their memory at once."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; keepalive_disable, keepalive_requests, keepalive_time, keepalive_timeout,
            lingering_close, lingering_time, lingering_timeout, reset_timedout_connection);
    },
    example: "
        keepalive_timeout 65s;
        keepalive_requests 1000;
    ",
    ..Module::named("keepalive")
};

#[allow(missing_docs, reason = "each method is its directive's value, or nginx's default")]
impl Conf {
    pub fn timeout_ms(&self) -> u64 {
        ms(self.keepalive_timeout.map(|(time, _)| time), 75_000)
    }
    pub fn header_seconds(&self) -> Option<u64> {
        self.keepalive_timeout.and_then(|(_, header)| header).map(|header| header.as_secs())
    }
    pub fn lingering_time_ms(&self) -> u64 {
        ms(self.lingering_time, 30_000)
    }
    pub fn lingering_timeout_ms(&self) -> u64 {
        limit_ms(self.lingering_timeout, 5_000)
    }
    pub fn resets_timed_out(&self) -> bool {
        self.reset_timedout_connection == Some(true)
    }
    /// Whether to read on when a connection ends, which still has something to read or not.
    pub fn lingers(&self, has_more: bool) -> bool {
        match self.lingering_close {
            Some(LINGER_NEVER) => false,
            Some(LINGER_ALWAYS) => true,
            _ => has_more,
        }
    }
}

fn keepalive_disable(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.keepalive_disable.is_some() {
        return Err(duplicate(directive));
    }
    let mut browsers = 0;
    for arg in &directive.args {
        browsers |= match &**arg.value {
            b"none" => 0,
            b"msie6" => MSIE6,
            b"safari" => SAFARI,
            _ => return Err(Diagnostic::unknown_value(&arg.value, arg.span, ["none", "msie6", "safari"])),
        };
    }
    conf.keepalive_disable = Some(browsers);
    Ok(())
}

fn keepalive_timeout(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let time = |arg: &ast::Arg, parse: fn(&bstr::BStr) -> Result<Duration, values::ValueError>| {
        parse(arg.value.as_bstr()).map_err(|error| error.diagnostic(directive.name(), arg))
    };
    if conf.keepalive_timeout.is_some() {
        return Err(duplicate(directive));
    }
    let timeout = time(&directive.args[0], values::time)?;
    let header = directive.args.get(1).map(|arg| time(arg, values::time_seconds)).transpose()?;
    conf.keepalive_timeout = Some((timeout, header));
    Ok(())
}

impl Request {
    /// What the directives say at the level that applies now.
    pub(crate) fn keepalive_conf(&self) -> &Conf {
        &self.level().core.keepalive
    }

    /// The location is known: the connection ends with the request if the directives there want that.
    pub(crate) fn limit_keep_alive(&self) {
        if self.flags().keep_alive.get() && !self.may_keep_alive(self.keepalive_conf()) {
            self.flags().keep_alive.set(false);
        }
    }

    /// Whether the directives let the connection go on after this request.
    pub(crate) fn may_keep_alive(&self, conf: &Conf) -> bool {
        let conn = self.connection();
        let age_ms = || clock::steady_ms().saturating_sub(conn.accepted_ms);
        conf.keepalive_timeout.is_none_or(|(timeout, _)| !timeout.is_zero())
            && self.number() < conf.keepalive_requests.unwrap_or(1000)
            && age_ms() <= ms(conf.keepalive_time, 3_600_000)
            && !self.has_broken_browser(conf.keepalive_disable.unwrap_or(MSIE6))
    }

    fn has_broken_browser(&self, disabled: u32) -> bool {
        let asked = (disabled & SAFARI != 0) || (disabled & MSIE6 != 0 && self.method.get() == Method::Post);
        if !asked {
            return false;
        }
        let head = self.head.borrow();
        let Some(user_agent) = head.fields.get(Known::UserAgent) else { return false };
        // Most browsers of today name neither, which one search tells.
        let names = |text: &[u8]| user_agent.find(text).is_some();
        if !names(b"MSIE ") && (disabled & SAFARI == 0 || !names(b"Safari/")) {
            return false;
        }
        let browser = Browser::of(user_agent);
        (browser.msie6 && disabled & MSIE6 != 0 && self.method.get() == Method::Post)
            || (browser.safari && disabled & SAFARI != 0)
    }
}
