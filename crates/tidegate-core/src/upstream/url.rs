//! How configurations write where a server is: `host`, `host:port`, `[::1]:port`, `unix:/path`.
//!
//! Source: nginx, `ngx_parse_url`.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use bstr::{BStr, BString, ByteSlice};

use super::Address;

/// A server as written, and what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Host and port as written, or `unix:/path`; it names the server in messages and hashes.
    pub text: BString,
    /// The host: a name, an IP address without brackets; the path of a unix socket.
    pub host: BString,
    /// The port, if one was written.
    pub port: Option<u16>,
    /// Kind of the host.
    pub kind: HostKind,
    /// What follows, from the first `/` or `?` on; empty if nothing does.
    pub uri: BString,
}

/// The kinds of hosts in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// A name that has to be looked up.
    Name,
    /// An IP address.
    Ip(IpAddr),
    /// A unix socket.
    Unix,
}

/// Why a URL cannot be read; the text is nginx's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// There is no host.
    #[error("no host")]
    NoHost,
    /// The port is no number from 1 to 65535.
    #[error("invalid port")]
    InvalidPort,
    /// The host has characters that none has, or brackets without an IPv6 address.
    #[error("invalid host")]
    InvalidHost,
    /// `unix:` without a path.
    #[error("no path in the unix domain socket")]
    NoPath,
    /// The path of the socket is longer than the system takes.
    #[error("too long path in the unix domain socket")]
    LongPath,
}

/// Longest path of a unix socket, with its final zero.
const UNIX_PATH_BYTES_MAX: usize = 108;

impl Url {
    /// Reads `text`, which has no scheme any more. With `has_uri`, a path or arguments may follow the server.
    ///
    /// # Errors
    /// [`BadUrl`].
    pub fn parse(text: &BStr, has_uri: bool) -> Result<Url, BadUrl> {
        if let Some(path) = text.strip_prefix(b"unix:") {
            return Self::parse_unix(path, has_uri);
        }
        let bytes: &[u8] = text;
        let (server, uri) = match bytes.find_byteset(b"/?").filter(|_| has_uri) {
            Some(at) => bytes.split_at(at),
            None => (bytes, &b""[..]),
        };
        let (host, port) = split_port(server)?;
        if host.is_empty() {
            return Err(BadUrl::NoHost);
        }
        let kind = match host.to_str().ok().and_then(|host| host.parse::<IpAddr>().ok()) {
            Some(ip) => HostKind::Ip(ip),
            None if host == b"*" => HostKind::Ip(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            None if host.iter().any(|byte| byte.is_ascii_control() || b" /?#@".contains(byte)) => {
                return Err(BadUrl::InvalidHost);
            }
            None => HostKind::Name,
        };
        Ok(Url { text: server.into(), host: host.into(), port, kind, uri: uri.into() })
    }

    fn parse_unix(path: &[u8], has_uri: bool) -> Result<Url, BadUrl> {
        let (path, uri) = match memchr::memchr(b':', path).filter(|_| has_uri) {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (path, &b""[..]),
        };
        match path.len() {
            0 => Err(BadUrl::NoPath),
            UNIX_PATH_BYTES_MAX.. => Err(BadUrl::LongPath),
            _ => Ok(Url {
                text: [b"unix:", path].concat().into(),
                host: path.into(),
                port: None,
                kind: HostKind::Unix,
                uri: uri.into(),
            }),
        }
    }

    /// The address, unless a name has to be looked up first.
    pub fn address(&self, default_port: u16) -> Option<Address> {
        match self.kind {
            HostKind::Ip(ip) => Some(Address::Inet(SocketAddr::new(ip, self.port.unwrap_or(default_port)))),
            HostKind::Unix => Some(Address::Unix(PathBuf::from(std::ffi::OsStr::from_bytes(&self.host)))),
            HostKind::Name => None,
        }
    }

    /// All addresses; a name is looked up by the system, which may take seconds: only for loading a configuration.
    ///
    /// # Errors
    /// The name is not found.
    pub fn look_up(&self, default_port: u16) -> io::Result<Vec<Address>> {
        if let Some(address) = self.address(default_port) {
            return Ok(vec![address]);
        }
        let host = self.host.to_str().map_err(io::Error::other)?;
        let mut found: Vec<Address> = Vec::new();
        for address in (host, self.port.unwrap_or(default_port)).to_socket_addrs()? {
            let address = Address::Inet(address);
            if !found.contains(&address) {
                found.push(address);
            }
        }
        if found.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(found) }
    }
}

/// Splits `host:port`.
fn split_port(server: &[u8]) -> Result<(&[u8], Option<u16>), BadUrl> {
    let (host, rest) = match server.strip_prefix(b"[") {
        Some(inside) => {
            let end = memchr::memchr(b']', inside).ok_or(BadUrl::InvalidHost)?;
            let host = &inside[..end];
            host.to_str().ok().and_then(|host| host.parse::<Ipv6Addr>().ok()).ok_or(BadUrl::InvalidHost)?;
            (host, &inside[end + 1..])
        }
        None => server.split_at(memchr::memchr(b':', server).unwrap_or(server.len())),
    };
    let port = match rest {
        [] => None,
        [b':', digits @ ..] => {
            let number = digits.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            Some(number.and_then(|text| text.parse().ok()).filter(|&port| port > 0).ok_or(BadUrl::InvalidPort)?)
        }
        _ => return Err(BadUrl::InvalidHost),
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown = match Url::parse(text.into(), true) {
            Err(error) => error.to_string(),
            Ok(url) => {
                let address = url.address(80).map_or("name".to_owned(), |address| address.to_string());
                format!("{}|{}|{:?}|{}|{}", url.text, url.host, url.port, address, url.uri)
            }
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn parses() {
        check("127.0.0.1", "127.0.0.1|127.0.0.1|None|127.0.0.1:80|");
        check("127.0.0.1:8080/a?b", "127.0.0.1:8080|127.0.0.1|Some(8080)|127.0.0.1:8080|/a?b");
        check("example.com?x/y", "example.com|example.com|None|name|?x/y");
        check("[::1]:81/", "[::1]:81|::1|Some(81)|[::1]:81|/");
        check("[::1]", "[::1]|::1|None|[::1]:80|");
        check("unix:/tmp/a.sock", "unix:/tmp/a.sock|/tmp/a.sock|None|unix:/tmp/a.sock|");
        check("unix:/tmp/a.sock:/x", "unix:/tmp/a.sock|/tmp/a.sock|None|unix:/tmp/a.sock|/x");
        check("", "no host");
        check(":80", "no host");
        check("a:", "invalid port");
        check("a:0", "invalid port");
        check("a:65536", "invalid port");
        check("a:+1", "invalid port");
        check("a:1:2", "invalid port");
        check("[::1", "invalid host");
        check("[a]", "invalid host");
        check("[::1]x", "invalid host");
        check("a b", "invalid host");
        check("unix:", "no path in the unix domain socket");
    }
}
