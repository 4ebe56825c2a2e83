//! The arguments of `listen`.
//!
//! Source: nginx, "listen" in `ngx_http_core_module`.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    num::NonZero,
    ops::RangeInclusive,
    path::PathBuf,
};

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, Level, ast, values};

use crate::{
    conf::build::ListenFlags,
    listeners::{KeepAlive, ListenAddr, ListenOptions, ListenSpec},
};

/// Parameters that belong to the socket.
const SOCKET_WORDS: &[&str] =
    &["reuseport", "deferred", "backlog=", "rcvbuf=", "sndbuf=", "fastopen=", "ipv6only=", "so_keepalive=", "bind"];

/// The port of an address without one.
const PORT_DEFAULT: u16 = 80;

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Level::Emerg, arg.span, message)
}

/// The addresses that the first argument stands for; a host name may have several.
///
/// # Errors
/// A port that is none, a host that cannot be found.
pub(crate) fn addresses(arg: &ast::Arg) -> Result<Vec<ListenAddr>, Diagnostic> {
    addresses_at(arg, PORT_DEFAULT)
}

/// The sockets of a service that is not HTTP: its `listen` is an address, the service's name, words of the service and options
/// of the socket. `own` takes the service's words, of which `own_words` has the names.
///
/// # Errors
/// As those of `listen` in a server: an address or a parameter that is none; those of `own`.
pub fn of_service(
    directive: &ast::Directive,
    port_default: u16,
    own_words: &[&'static str],
    mut own: impl FnMut(&ast::Arg) -> Result<bool, Diagnostic>,
) -> Result<Vec<ListenSpec>, Diagnostic> {
    let mut options = ListenOptions::default();
    for arg in directive.args.iter().skip(2) {
        if own(arg)? {
            continue;
        }
        let text = arg.value.to_str().unwrap_or_default();
        let (word, value) = text.split_once('=').unwrap_or((text, ""));
        socket_parameter(word, value, &mut options).ok_or_else(|| {
            let words = own_words.iter().chain(SOCKET_WORDS).copied();
            Diagnostic::invalid_parameter(&arg.value, arg.span, words)
        })?;
    }
    let addresses = addresses_at(&directive.args[0], port_default)?;
    Ok(addresses.into_iter().map(|addr| ListenSpec { addr, options: options.clone() }).collect())
}

/// The addresses that the first argument stands for, with a port for those that name none.
fn addresses_at(arg: &ast::Arg, port_default: u16) -> Result<Vec<ListenAddr>, Diagnostic> {
    let text = arg.value.to_str().map_err(|_| emerg(arg, format!("host not found in \"{}\"", arg.value)))?;
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(emerg(
                arg,
                format!("no path in the unix domain socket in \"{text}\" of the \"listen\" directive"),
            ));
        }
        return Ok(vec![ListenAddr::Unix(PathBuf::from(path))]);
    }
    let ports_of = |text: &str| {
        ports(text).map_err(|error| emerg(arg, format!("{error} in \"{}\" of the \"listen\" directive", arg.value)))
    };
    if text.starts_with(|first: char| first.is_ascii_digit()) && text.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
        return Ok(tcp(Ipv4Addr::UNSPECIFIED.into(), ports_of(text)?));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let Some((host, port)) = rest.split_once(']') else {
            return Err(emerg(arg, format!("invalid host in \"{text}\" of the \"listen\" directive")));
        };
        let host: Ipv6Addr = host
            .parse()
            .map_err(|_| emerg(arg, format!("invalid IPv6 address in \"{text}\" of the \"listen\" directive")))?;
        let ports = port.strip_prefix(':').map_or(Ok(port_default..=port_default), ports_of)?;
        return Ok(tcp(host.into(), ports));
    }
    let (host, ports) = match text.split_once(':') {
        Some((host, ports)) => (host, ports_of(ports)?),
        None => (text, port_default..=port_default),
    };
    if host == "*" {
        return Ok(tcp(Ipv4Addr::UNSPECIFIED.into(), ports));
    }
    // Only while the configuration loads; workers never look a name up this way.
    match (host, *ports.start()).to_socket_addrs() {
        Ok(found) => {
            let mut hosts: Vec<_> = found.map(|address| address.ip()).collect();
            hosts.dedup();
            Ok(hosts.into_iter().flat_map(|host| tcp(host, ports.clone())).collect())
        }
        Err(_) => Err(emerg(arg, format!("host not found in \"{text}\" of the \"listen\" directive"))),
    }
}

/// A port, or the first and the last of a range of them.
fn ports(text: &str) -> Result<RangeInclusive<u16>, &'static str> {
    let port = |text: &str| text.parse::<NonZero<u16>>().map(NonZero::get).map_err(|_| "invalid port");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ports = port(first)?..=port(last)?;
    if ports.is_empty() { Err("invalid port range") } else { Ok(ports) }
}

/// An address for each of the ports.
fn tcp(host: IpAddr, ports: RangeInclusive<u16>) -> Vec<ListenAddr> {
    ports.map(|port| ListenAddr::Tcp(SocketAddr::new(host, port))).collect()
}

/// Applies one of the other arguments.
///
/// # Errors
/// An unknown or bad parameter.
pub(crate) fn parameter(
    arg: &ast::Arg,
    options: &mut ListenOptions,
    flags: &mut ListenFlags,
) -> Result<(), Diagnostic> {
    const WORDS: &[&str] = &[
        "default_server",
        "reuseport",
        "deferred",
        "proxy_protocol",
        "ssl",
        "backlog=",
        "rcvbuf=",
        "sndbuf=",
        "fastopen=",
        "ipv6only=",
        "so_keepalive=",
        "http2",
        "bind",
    ];
    let invalid = || Diagnostic::invalid_parameter(&arg.value, arg.span, WORDS.iter().copied());
    let text = arg.value.to_str().map_err(|_| invalid())?;
    let (word, value) = text.split_once('=').unwrap_or((text, ""));
    match word {
        "default_server" | "default" => flags.default_server = true,
        "proxy_protocol" => flags.proxy_protocol = true,
        "http2" => flags.http2 = true,
        "ssl" => flags.ssl = true,
        _ => {
            (flags.explicit, flags.bind) = (true, true);
            socket_parameter(word, value, options).ok_or_else(|| match word {
                "backlog" | "rcvbuf" | "sndbuf" | "fastopen" => emerg(arg, format!("invalid {word} \"{text}\"")),
                "so_keepalive" => emerg(arg, format!("invalid so_keepalive value: \"{value}\"")),
                "ipv6only" => emerg(arg, format!("invalid ipv6only flags \"{value}\"")),
                _ => invalid(),
            })?;
        }
    }
    Ok(())
}

/// Applies an argument that belongs to the socket; `None` for one that is unknown or bad.
fn socket_parameter(word: &str, value: &str, options: &mut ListenOptions) -> Option<()> {
    match word {
        "bind" => {}
        "reuseport" => options.reuseport = true,
        "deferred" => options.deferred = true,
        "backlog" => options.backlog = value.parse().ok().filter(|&backlog| backlog != 0)?,
        "fastopen" => options.fastopen = Some(value.parse().ok()?),
        "rcvbuf" => options.rcvbuf = Some(values::size(value.into()).ok()? as usize),
        "sndbuf" => options.sndbuf = Some(values::size(value.into()).ok()? as usize),
        "ipv6only" => options.ipv6only = values::flag(value.into()).ok()?,
        "so_keepalive" => options.so_keepalive = Some(keep_alive(value)?),
        _ => return None,
    }
    Some(())
}

fn keep_alive(value: &str) -> Option<KeepAlive> {
    match value {
        "off" => return Some(KeepAlive::Off),
        "on" => return Some(KeepAlive::On { idle: None, interval: None, count: None }),
        _ => {}
    }
    let mut parts = value.split(':');
    let time = |part: Option<&str>| match part {
        None | Some("") => Some(None),
        Some(text) => values::time_seconds(text.into()).ok().map(Some),
    };
    let (idle, interval) = (time(parts.next())?, time(parts.next())?);
    let count = match parts.next() {
        None | Some("") => None,
        Some(text) => Some(text.parse().ok()?),
    };
    let says_something = idle.is_some() || interval.is_some() || count.is_some();
    (parts.next().is_none() && says_something).then_some(KeepAlive::On { idle, interval, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arg(text: &str) -> ast::Arg {
        let span = tidegate_conf::Span { file: tidegate_conf::FileId(0), start: 0, end: 0 };
        ast::Arg { value: text.into(), span, quoted: false }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown = match addresses(&arg(text)) {
            Ok(found) => found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(error) => error.message,
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn address_forms() {
        check("8080", "0.0.0.0:8080");
        check("*:8080", "0.0.0.0:8080");
        check("127.0.0.1", "127.0.0.1:80");
        check("127.0.0.1:81", "127.0.0.1:81");
        check("[::]:80", "[::]:80");
        check("[::1]", "[::1]:80");
        check("unix:/tmp/x", "unix:/tmp/x");
        let of_mysql = addresses_at(&arg("127.0.0.1"), 3306).expect("an address");
        assert_eq!(of_mysql[0].to_string(), "127.0.0.1:3306");
        check("81-83", "0.0.0.0:81 0.0.0.0:82 0.0.0.0:83");
        check("[::1]:81-82", "[::1]:81 [::1]:82");
        check("127.0.0.1:81-81", "127.0.0.1:81");
        check("83-81", "invalid port range in \"83-81\" of the \"listen\" directive");
        check("81-", "invalid port in \"81-\" of the \"listen\" directive");
        check("70000", "invalid port in \"70000\" of the \"listen\" directive");
        check("127.0.0.1:x", "invalid port in \"127.0.0.1:x\" of the \"listen\" directive");
        check("[::1", "invalid host in \"[::1\" of the \"listen\" directive");
    }

    #[test]
    fn parameters() {
        let (mut options, mut flags) = (ListenOptions::default(), ListenFlags::default());
        for text in ["default_server", "backlog=1024", "so_keepalive=30m::10", "reuseport"] {
            parameter(&arg(text), &mut options, &mut flags).expect("good");
        }
        assert!(flags.default_server && options.reuseport && options.backlog == 1024);
        for text in ["defualt_server", "backlog=x", "so_keepalive=1:2:3:4"] {
            assert!(parameter(&arg(text), &mut options, &mut flags).is_err(), "{text}");
        }
    }
}
