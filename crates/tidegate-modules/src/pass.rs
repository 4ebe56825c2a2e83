//! `*_pass`: the group of servers that a request goes to, for all protocols.
//!
//! A literal server is an `upstream` block or a group of its own that is made when everything is read
//! ([`upstream::require`]); one with variables is an `upstream` block, an address, or a name that is looked up for each
//! request.

use std::{rc::Rc, sync::Arc};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    module::Context,
    phase::Step,
    request::Request,
    resolver,
    template::Template,
    upstream::{
        Address, Exchange, Group, GroupOptions, Protocol, Server, Settings,
        tls::TlsPeer,
        url::{HostKind, Url},
    },
};
use tidegate_net::log::Level;

use crate::upstream::{self, GroupSlot};

/// A `*_pass` whose argument is a server and nothing else.
#[derive(Debug, Clone)]
pub(crate) enum Pass {
    /// Known when the configuration is loaded; with the server's host where TLS is spoken.
    Fixed(GroupSlot, Option<BString>),
    /// The server is found for each request. The scheme may stand ahead of it.
    Variable(Template, Schemes),
}

/// What may stand ahead of a server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Schemes {
    /// Empty for nothing.
    pub(crate) plain: &'static str,
    /// The same with TLS, where the protocol has that.
    pub(crate) tls: Option<&'static str>,
}

impl Schemes {
    /// Takes the scheme away; answers whether TLS is spoken.
    fn split<'t>(&self, text: &'t [u8]) -> (bool, &'t [u8]) {
        let without = |scheme: &str| {
            let (start, server) = text.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme.as_bytes()).then_some(server)
        };
        match self.tls.and_then(without) {
            Some(server) => (true, server),
            None => (false, without(self.plain).unwrap_or(text)),
        }
    }
}

/// The servers of a request.
#[derive(Debug, Clone)]
pub(crate) enum Servers {
    /// These.
    Known(Arc<Group>),
    /// Those that a URL of variables means, at this port if it names none. Their name is looked up when they are asked.
    Meant(Url, Option<u16>),
}

impl Servers {
    /// Those that a URL of variables means: an `upstream` block of that name, else the server itself.
    pub(crate) fn of(req: &Request, url: Url, default_port: Option<u16>) -> Self {
        let block = if url.port.is_none() { upstream::find(req, url.host.as_bstr()) } else { None };
        match block {
            Some(group) => Servers::Known(group.clone()),
            None => Servers::Meant(url, default_port),
        }
    }

    /// Has them, or the cache, answer a request.
    pub(crate) async fn answer<P: Protocol>(
        self,
        req: &Rc<Request>,
        settings: &Settings,
        tls: Option<TlsPeer>,
        protocol: P,
    ) -> Step {
        match self {
            Servers::Known(group) => Exchange::new(req, settings, group, protocol).with_tls(tls).run().await,
            Servers::Meant(url, port) => {
                Box::pin(async move {
                    let mut exchange = Exchange::without_group(req, settings, protocol).with_tls(tls);
                    exchange.run_with(locate(req, &url, port)).await
                })
                .await
            }
        }
    }
}

/// Where a request goes.
struct Target {
    servers: Servers,
    /// The server's host, where TLS is spoken.
    secure_host: Option<BString>,
}

impl Pass {
    /// Reads the directive's argument: a server, behind one of `schemes` or without it. A server of such a protocol has no usual
    /// port.
    ///
    /// # Errors
    /// No server can be written like that.
    pub(crate) fn parse(arg: &ast::Arg, build: &mut Build<'_>, schemes: Schemes) -> Result<Self, Diagnostic> {
        let template = build.template(arg)?;
        let Some(text) = template.as_literal() else { return Ok(Pass::Variable(template, schemes)) };
        let (is_secure, text) = schemes.split(text);
        let url = Url::parse(text.as_bstr(), false).map_err(|error| {
            Diagnostic::new(Severity::Emerg, arg.span, format!("{error} in upstream \"{}\"", BStr::new(text)))
        })?;
        let secure_host = is_secure.then(|| url.host.clone());
        Ok(Pass::Fixed(upstream::require(build, url, None, arg.span), secure_host))
    }

    /// Whether requests may need TLS.
    pub(crate) fn may_need_tls(&self) -> bool {
        match self {
            Pass::Fixed(_, secure_host) => secure_host.is_some(),
            Pass::Variable(_, schemes) => schemes.tls.is_some(),
        }
    }

    /// The group that a request goes to.
    ///
    /// # Errors
    /// The text of the variables names no server; the log has the reason.
    fn target(&self, req: &Rc<Request>) -> Result<Target, Step> {
        match self {
            Pass::Fixed(slot, secure_host) => {
                Ok(Target { servers: Servers::Known(required(slot)?), secure_host: secure_host.clone() })
            }
            Pass::Variable(template, schemes) => {
                let text = template.eval(req);
                let (is_secure, text) = schemes.split(&text);
                match Url::parse(text.as_bstr(), false) {
                    Ok(url) => {
                        let secure_host = is_secure.then(|| url.host.clone());
                        Ok(Target { servers: Servers::of(req, url, None), secure_host })
                    }
                    Err(error) => {
                        req.log(Level::Error, format_args!("{error} in upstream \"{}\"", BStr::new(text)));
                        Err(Step::Status(500))
                    }
                }
            }
        }
    }
}

/// Whether requests that lack only the slash at the end of the location's path are redirected to have it.
///
/// Source: nginx, "location".
pub(crate) fn adds_slash(build: &Build<'_>) -> bool {
    build.kind() == Context::LOCATION && build.name_of(build.level()).ends_with(b"/")
}

/// Answers a request with what a server of `pass` says.
pub(crate) async fn exchange<P: Protocol>(req: &Rc<Request>, settings: &Settings, pass: &Pass, protocol: P) -> Step {
    let Target { servers, secure_host } = match pass.target(req) {
        Ok(target) => target,
        Err(step) => return step,
    };
    let tls = match secure_host {
        None => None,
        Some(host) => match settings.tls.peer(req, &host) {
            Some(peer) => Some(peer),
            None => return Step::Status(500),
        },
    };
    servers.answer(req, settings, tls, protocol).await
}

/// The group in a slot: a configuration that was accepted has filled it.
pub(crate) fn required(slot: &GroupSlot) -> Result<Arc<Group>, Step> {
    slot.get().cloned().ok_or(Step::Status(500))
}

/// A group of the server that only the request knows.
///
/// # Errors
/// It has no port, or its name cannot be looked up; the log has the reason.
async fn locate(req: &Rc<Request>, url: &Url, default_port: Option<u16>) -> Result<Arc<Group>, Step> {
    let addresses = look_up(req, url, default_port).await?;
    let server = Server::new(url.text.clone(), addresses);
    Ok(Arc::new(Group::new(url.text.clone(), &[server], GroupOptions::default())))
}

async fn look_up(req: &Rc<Request>, url: &Url, default_port: Option<u16>) -> Result<Vec<Address>, Step> {
    let port = match url.port.or(default_port) {
        Some(port) => port,
        None if url.kind == HostKind::Unix => 0,
        None => {
            req.log(Level::Error, format_args!("no port in upstream \"{}\"", url.text));
            return Err(Step::Status(500));
        }
    };
    if let Some(address) = url.address(port) {
        return Ok(vec![address]);
    }
    let host = String::from_utf8_lossy(&url.host).into_owned();
    match req.module_conf(&resolver::MODULE).resolve(&host).await {
        Ok(found) => Ok(found.addresses.iter().map(|ip| Address::Inet((*ip, port).into())).collect()),
        Err(error) => {
            req.log(Level::Error, format_args!("{host} could not be resolved ({error})"));
            Err(Step::Status(502))
        }
    }
}
