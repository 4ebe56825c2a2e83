//! `realip`: the client's address as a trusted proxy tells it.
//!
//! Follows nginx's `ngx_http_realip_module`.

use std::{
    io::Write,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    rc::Rc,
};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Directive, Module},
    phase::{Phase, Ready, Step},
    request::Request,
    variable::VariableDef,
};
use tidegate_http::Known;
use tidegate_net::Peer;

use crate::network::Network;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    set_real_ip_from: Vec<Network>,
    real_ip_header: Option<Source>,
    real_ip_recursive: Option<bool>,
}

/// The source of the client's address.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    XRealIp,
    XForwardedFor,
    ProxyProtocol,
    Field(BString),
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("set_real_ip_from", 1, 1, |conf: &mut Conf, directive, build| {
            conf.set_real_ip_from.extend(networks(&directive.args[0], build)?);
            Ok(())
        })
        .syntax("address | CIDR | hostname | unix:")
        .doc("Proxies that are believed when they name the client."),
        Directive::custom("real_ip_header", 1, 1, |conf: &mut Conf, directive, _| {
            if conf.real_ip_header.is_some() {
                return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
            }
            let name = &directive.args[0].value;
            conf.real_ip_header = Some(match &*name.to_ascii_lowercase() {
                b"x-real-ip" => Source::XRealIp,
                b"x-forwarded-for" => Source::XForwardedFor,
                b"proxy_protocol" => Source::ProxyProtocol,
                _ => Source::Field(name.clone()),
            });
            Ok(())
        })
        .syntax("field | X-Real-IP | X-Forwarded-For | proxy_protocol")
        .default("X-Real-IP")
        .doc("Field of the request that names the client."),
        Directive::flag("real_ip_recursive", |c: &mut Conf| &mut c.real_ip_recursive)
            .default("off")
            .doc("Skips trusted proxies in the field from its end: the last other address is the client's."),
    ],
    variables: &[
        VariableDef::new(
            "realip_remote_addr",
            |req, _, out| write!(out, "{}", req.connection().peer).is_ok(),
            "Address of the client or proxy that the connection came from.",
        ),
        VariableDef::new("realip_remote_port", realip_remote_port, "Port of the client or proxy."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; real_ip_header, real_ip_recursive);
        if child.set_real_ip_from.is_empty() {
            child.set_real_ip_from.clone_from(&parent.set_real_ip_from);
        }
    },
    install: |conf, program| {
        if conf.set_real_ip_from.is_empty() {
            return;
        }
        for phase in [Phase::PostRead, Phase::Preaccess] {
            let conf = conf.clone();
            program.on(phase, move |req| {
                conf.apply(req);
                Ready::Now(Step::Declined)
            });
        }
    },
    example: "
        set_real_ip_from 10.0.0.0/8;
        real_ip_header X-Forwarded-For;
        real_ip_recursive on;
    ",
    ..Module::named("realip")
};

fn realip_remote_port(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    match req.connection().peer {
        Peer::Inet(address) => write!(out, "{}", address.port()).is_ok(),
        Peer::Unix => true,
    }
}

fn networks(arg: &ast::Arg, build: &mut Build<'_>) -> Result<Vec<Network>, Diagnostic> {
    if let Some(network) = Network::of_arg(&arg.value, arg, build) {
        return Ok(vec![network]);
    }
    // Only while the configuration loads; workers never look a name up this way.
    let host = arg.value.to_str().ok().filter(|host| !host.contains(['/', ':']));
    let found = host.and_then(|host| (host, 0).to_socket_addrs().ok());
    let networks: Vec<_> = found
        .into_iter()
        .flatten()
        .map(|address| match address.ip() {
            IpAddr::V4(ip) => Network::V4(ip.to_bits(), 32),
            IpAddr::V6(ip) => Network::V6(ip.to_bits(), 128),
        })
        .collect();
    if networks.is_empty() {
        let message = format!("host not found in set_real_ip_from \"{}\"", arg.value);
        return Err(Diagnostic::new(Severity::Emerg, arg.span, message));
    }
    Ok(networks)
}

impl Conf {
    /// Believes a trusted proxy, once for a request.
    fn apply(&self, req: &Rc<Request>) {
        let conn = req.connection();
        if req.peer() != conn.peer {
            return;
        }
        let recursive = self.real_ip_recursive == Some(true);
        let main = req.main();
        let head = main.head.borrow();
        let trusted = &self.set_real_ip_from;
        let address = match self.real_ip_header.as_ref().unwrap_or(&Source::XRealIp) {
            Source::XForwardedFor => {
                forwarded(conn.peer, head.fields.iter_known(Known::XForwardedFor), trusted, recursive)
            }
            Source::XRealIp => forwarded(conn.peer, head.fields.get(Known::XRealIp).into_iter(), trusted, recursive),
            Source::Field(name) => forwarded(conn.peer, head.fields.values_of_name(name), trusted, recursive),
            Source::ProxyProtocol => {
                let trusts = trusted.iter().any(|network| network.contains_peer(conn.peer));
                conn.proxy_header().filter(|_| trusts).and_then(|header| header.addresses).map(|(client, _)| client)
            }
        };
        if let Some(address) = address {
            req.set_peer(Peer::Inet(address));
        }
    }
}

/// The address that lines such as `X-Forwarded-For: client, proxy1` give for a connection from `peer`. Each line may
/// name several, the nearest one last; those that are trusted are passed over with `recursive`. `None` when `peer`
/// itself is not trusted, or names nobody.
///
/// Source: nginx, `ngx_http_get_forwarded_addr`.
fn forwarded<'a>(
    peer: Peer,
    lines: impl Iterator<Item = &'a [u8]>,
    trusted: &[Network],
    recursive: bool,
) -> Option<SocketAddr> {
    let lines: Vec<&[u8]> = lines.collect();
    let words =
        lines.iter().rev().flat_map(|line| line.rsplit(|&b| b == b' ' || b == b',').filter(|word| !word.is_empty()));
    let mut last = peer;
    let mut found = None;
    for word in words {
        if !trusted.iter().any(|network| network.contains_peer(last)) {
            break;
        }
        let Some(address) = parse_address(word) else { break };
        found = Some(address);
        last = Peer::Inet(address);
        if !recursive {
            break;
        }
    }
    found
}

/// As [`Conf::apply`] finds it, for `geo`: a plain address in, a plain address out.
pub(crate) fn forwarded_address<'a>(
    address: IpAddr,
    lines: impl Iterator<Item = &'a [u8]>,
    trusted: &[Network],
    recursive: bool,
) -> Option<IpAddr> {
    let peer = Peer::Inet(SocketAddr::new(address, 0));
    forwarded(peer, lines, trusted, recursive).map(|address| address.ip())
}

/// An address, with or without a port.
fn parse_address(text: &[u8]) -> Option<SocketAddr> {
    let text = text.to_str().ok()?;
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(recursive: bool, lines: &[&str], expected: &str) {
        let trusted: Vec<_> = ["127.0.0.1", "10.0.0.0/8"]
            .iter()
            .filter_map(|text| Network::parse(text.as_bytes()).map(|(network, _)| network))
            .collect();
        let peer = Peer::Inet(SocketAddr::from(([127, 0, 0, 1], 99)));
        let found = forwarded(peer, lines.iter().map(|line| line.as_bytes()), &trusted, recursive);
        assert_eq!(found.map_or(String::from("-"), |found| found.to_string()), expected, "{lines:?}");
    }

    #[test]
    fn forwarded_addresses() {
        check(false, &[], "-");
        check(false, &["1.1.1.1"], "1.1.1.1:0");
        check(false, &["1.1.1.1:80"], "1.1.1.1:80");
        check(false, &["::1"], "[::1]:0");
        check(false, &["[::1]:80"], "[::1]:80");
        check(false, &["1.1.1.1, 2.2.2.2 , "], "2.2.2.2:0");
        check(false, &["1.1.1.1", "2.2.2.2"], "2.2.2.2:0");
        check(false, &["nonsense"], "-");
        check(true, &["1.1.1.1, 10.0.0.1"], "1.1.1.1:0");
        check(true, &["3.3.3.3, 1.1.1.1, 10.0.0.1"], "1.1.1.1:0");
        check(true, &["1.1.1.1", "10.0.0.2,10.0.0.1"], "1.1.1.1:0");
        check(true, &["nonsense, 10.0.0.1"], "10.0.0.1:0");
        check(true, &["10.0.0.3"], "10.0.0.3:0");
    }
}
