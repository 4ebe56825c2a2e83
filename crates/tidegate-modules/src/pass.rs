//! `*_pass`: the group of servers that a request goes to, for all protocols.
//!
//! A literal server is an `upstream` block or a group of its own that is made when everything is read
//! ([`upstream::require`]); one with variables is an `upstream` block, an address, or a name that is looked up for each
//! request.

use std::{rc::Rc, sync::Arc};

use bstr::ByteSlice;
use tidegate_core::{
    log::Level,
    phase::Step,
    request::Request,
    resolver,
    upstream::{
        Address, Group, GroupOptions, Server,
        url::{HostKind, Url},
    },
};

use crate::upstream::{self, GroupSlot};

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
