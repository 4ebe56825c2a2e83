//! `*_pass`: the group of servers that a request goes to, for all protocols.
//!
//! A literal server is an `upstream` block or a group of its own that is made when everything is read
//! ([`upstream::require`]); one with variables is an `upstream` block, an address, or a name that is looked up for each
//! request.

use std::{rc::Rc, sync::Arc};

use bstr::{BStr, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    module::Context,
    phase::{Ready, Step},
    request::Request,
    resolver,
    template::Template,
    upstream::{
        Address, Exchange, Group, GroupOptions, Protocol, Server, Settings,
        url::{HostKind, Url},
    },
};
use tidegate_net::log::Level;

use crate::upstream::{self, GroupSlot};

/// A `*_pass` whose argument is a server and nothing else.
#[derive(Debug, Clone)]
pub(crate) enum Pass {
    /// Known when the configuration is loaded.
    Fixed(GroupSlot),
    /// The server is found for each request. The scheme may stand ahead of it.
    Variable(Template, &'static str),
}

impl Pass {
    /// Reads the directive's argument: a server, behind `scheme` or without it. A server of such a protocol has no usual
    /// port.
    ///
    /// # Errors
    /// No server can be written like that.
    pub(crate) fn parse(arg: &ast::Arg, build: &mut Build<'_>, scheme: &'static str) -> Result<Self, Diagnostic> {
        let template = build.template(arg)?;
        let Some(text) = template.as_literal() else { return Ok(Pass::Variable(template, scheme)) };
        let text = without_scheme(text, scheme);
        let url = Url::parse(text.as_bstr(), false).map_err(|error| {
            Diagnostic::new(Severity::Emerg, arg.span, format!("{error} in upstream \"{}\"", BStr::new(text)))
        })?;
        Ok(Pass::Fixed(upstream::require(build, url, None, arg.span)))
    }

    /// The group that a request goes to.
    ///
    /// # Errors
    /// The text of the variables names no server; the log has the reason.
    pub(crate) fn group(&self, req: &Rc<Request>) -> Ready<Result<Arc<Group>, Step>> {
        match self {
            Pass::Fixed(slot) => Ready::Now(required(slot)),
            Pass::Variable(template, scheme) => {
                let (req, text, scheme) = (req.clone(), template.eval(req), *scheme);
                Ready::later(async move {
                    let text = without_scheme(&text, scheme);
                    match Url::parse(text.as_bstr(), false) {
                        Ok(url) => locate(&req, &url, None).await,
                        Err(error) => {
                            req.log(Level::Error, format_args!("{error} in upstream \"{}\"", BStr::new(text)));
                            Err(Step::Status(500))
                        }
                    }
                })
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
    let group = match pass.group(req) {
        Ready::Now(group) => group,
        Ready::Later(group) => group.await,
    };
    match group {
        Ok(group) => Exchange::new(req, settings, group, protocol).run().await,
        Err(step) => step,
    }
}

fn without_scheme<'a>(text: &'a [u8], scheme: &str) -> &'a [u8] {
    match text.split_at_checked(scheme.len()) {
        Some((start, server)) if start.eq_ignore_ascii_case(scheme.as_bytes()) => server,
        _ => text,
    }
}

/// The group in a slot: a configuration that was accepted has filled it.
pub(crate) fn required(slot: &GroupSlot) -> Result<Arc<Group>, Step> {
    slot.get().cloned().ok_or(Step::Status(500))
}

/// The group of a server that only the request knows: an `upstream` block of that name, else the server itself.
///
/// # Errors
/// It has no port, or its name cannot be looked up; the log has the reason.
pub(crate) async fn locate(req: &Rc<Request>, url: &Url, default_port: Option<u16>) -> Result<Arc<Group>, Step> {
    let block = if url.port.is_none() { upstream::find(req, url.host.as_bstr()) } else { None };
    if let Some(group) = block {
        return Ok(group.clone());
    }
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
