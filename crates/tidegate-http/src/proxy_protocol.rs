//! The PROXY protocol: a header with the client's address that a load balancer sends ahead of a connection's bytes.
//!
//! Version 1 is a line of text, version 2 is binary:
//!
//! ```text
//! PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n
//!
//! 0        12            13       14      16
//! signature version+command family length  addresses, then type-length-value triples
//! ```
//!
//! Source: HAProxy's `proxy-protocol.txt`; nginx, `ngx_proxy_protocol.c`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest header of version 1, line end included.
const LINE_BYTES_MAX: usize = 107;

/// Longest header of version 2 that is read: as nginx's buffer.
const BINARY_BYTES_MAX: usize = 4096;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of version 2 in front of the addresses.
const FIXED_BYTES: usize = 16;

/// The content of a header of the PROXY protocol.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyHeader {
    /// The client and the address that it connected to; none for connections of the balancer itself.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Type-length-value triples of version 2, as sent.
    pub tlvs: Vec<u8>,
}

/// The header is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("broken header")]
pub struct BadProxyHeader;

/// Reads a header at the start of `buf`. Answers it with its length, or `None` while it is incomplete.
///
/// # Errors
/// [`BadProxyHeader`] for anything else, and for a header that is too long.
pub fn parse_proxy_header(buf: &[u8]) -> Result<Option<(ProxyHeader, usize)>, BadProxyHeader> {
    let common = buf.len().min(SIGNATURE.len());
    if buf[..common] == SIGNATURE[..common] {
        return if buf.len() < FIXED_BYTES { Ok(None) } else { parse_binary(buf) };
    }
    let line = &buf[..buf.len().min(LINE_BYTES_MAX)];
    let prefix = b"PROXY ";
    let common = line.len().min(prefix.len());
    if line[..common] != prefix[..common] {
        return Err(BadProxyHeader);
    }
    match memchr::memmem::find(line, b"\r\n") {
        Some(end) => Ok(Some((parse_line(&line[prefix.len()..end])?, end + 2))),
        None if buf.len() < LINE_BYTES_MAX => Ok(None),
        None => Err(BadProxyHeader),
    }
}

fn parse_line(text: &[u8]) -> Result<ProxyHeader, BadProxyHeader> {
    let text = std::str::from_utf8(text).map_err(|_| BadProxyHeader)?;
    if text.starts_with("UNKNOWN") {
        return Ok(ProxyHeader::default());
    }
    let mut words = text.split(' ');
    let family = words.next();
    let mut address = || -> Option<IpAddr> {
        let word = words.next()?;
        match family? {
            "TCP4" => word.parse().ok().map(IpAddr::V4),
            "TCP6" => word.parse().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    let (source, target) = (address().ok_or(BadProxyHeader)?, address().ok_or(BadProxyHeader)?);
    let mut port = || words.next().and_then(|word| word.parse().ok()).ok_or(BadProxyHeader);
    let addresses = (SocketAddr::new(source, port()?), SocketAddr::new(target, port()?));
    Ok(ProxyHeader { addresses: Some(addresses), tlvs: Vec::new() })
}

fn parse_binary(buf: &[u8]) -> Result<Option<(ProxyHeader, usize)>, BadProxyHeader> {
    let (version, command) = (buf[12] >> 4, buf[12] & 15);
    let (family, transport) = (buf[13] >> 4, buf[13] & 15);
    let end = FIXED_BYTES + usize::from(u16::from_be_bytes([buf[14], buf[15]]));
    if version != 2 || command > 1 || end > BINARY_BYTES_MAX {
        return Err(BadProxyHeader);
    }
    let Some(body) = buf.get(FIXED_BYTES..end) else { return Ok(None) };
    let port = |at: usize| body.get(at..at + 2).map(|port| u16::from_be_bytes([port[0], port[1]]));
    let v4 = |at: usize| body.get(at..at + 4).and_then(|ip| <[u8; 4]>::try_from(ip).ok()).map(Ipv4Addr::from);
    let v6 = |at: usize| body.get(at..at + 16).and_then(|ip| <[u8; 16]>::try_from(ip).ok()).map(Ipv6Addr::from);
    let (addresses, used) = match (command, family, transport) {
        // A check by the balancer itself, or something without addresses.
        (0, ..) | (_, 0, _) => (None, 0),
        (_, 1, 1) => {
            let pair = (v4(0).zip(port(8)), v4(4).zip(port(10)));
            let (Some((source, source_port)), Some((target, target_port))) = pair else { return Err(BadProxyHeader) };
            (Some(((source, source_port).into(), (target, target_port).into())), 12)
        }
        (_, 2, 1) => {
            let pair = (v6(0).zip(port(32)), v6(16).zip(port(34)));
            let (Some((source, source_port)), Some((target, target_port))) = pair else { return Err(BadProxyHeader) };
            (Some(((source, source_port).into(), (target, target_port).into())), 36)
        }
        // Sockets that are not TCP: nothing is known of the client.
        _ => return Ok(Some((ProxyHeader::default(), end))),
    };
    Ok(Some((ProxyHeader { addresses, tlvs: body[used..].to_vec() }, end)))
}

impl ProxyHeader {
    /// The value of the first triple of a type.
    pub fn tlv(&self, kind: u8) -> Option<&[u8]> {
        find_tlv(&self.tlvs, kind)
    }
}

/// Type of the triple that holds the state of TLS.
const TLV_SSL: u8 = 0x20;

/// Bytes of that triple in front of the triples inside it.
const TLV_SSL_FIXED_BYTES: usize = 5;

/// Types by the names that nginx gives them.
const TLV_NAMES: [(&str, u8); 5] =
    [("alpn", 0x01), ("authority", 0x02), ("unique_id", 0x05), ("ssl", TLV_SSL), ("netns", 0x30)];

/// Types inside [`TLV_SSL`].
const TLV_SSL_NAMES: [(&str, u8); 5] =
    [("version", 0x21), ("cn", 0x22), ("cipher", 0x23), ("sig_alg", 0x24), ("key_alg", 0x25)];

impl ProxyHeader {
    /// The value of a triple by nginx's name for it: `alpn`, `ssl_cn`, `0x05`, `ssl_0x21`.
    pub fn tlv_named(&self, name: &[u8]) -> Option<&[u8]> {
        let name = std::str::from_utf8(name).ok()?;
        let number = |name: &str| u8::from_str_radix(name.strip_prefix("0x")?, 16).ok();
        let kind = |names: &[(&str, u8)], name: &str| {
            names.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind).or_else(|| number(name))
        };
        match name.strip_prefix("ssl_") {
            Some(inner) => find_tlv(self.tlv(TLV_SSL)?.get(TLV_SSL_FIXED_BYTES..)?, kind(&TLV_SSL_NAMES, inner)?),
            None => self.tlv(kind(&TLV_NAMES, name)?),
        }
    }
}

fn find_tlv(mut rest: &[u8], wanted: u8) -> Option<&[u8]> {
    while let [kind, high, low, tail @ ..] = rest {
        let (value, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        if *kind == wanted {
            return Some(value);
        }
        rest = tail;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &[u8], expected: &str) {
        let whole = [header, b"GET"].concat();
        let shown = match parse_proxy_header(&whole) {
            Ok(Some((header, used))) => {
                let addresses = header.addresses.map_or(String::new(), |(from, to)| format!("{from} {to} "));
                format!("{addresses}{used}")
            }
            Ok(None) => "more".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected);
        if !expected.contains("broken") {
            // Cut anywhere, it waits for more.
            for end in 0..header.len() {
                assert_eq!(parse_proxy_header(&header[..end]), Ok(None), "cut at {end}");
            }
        }
    }

    fn binary(version: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let len = (body.len() as u16).to_be_bytes();
        [SIGNATURE, &[version, family][..], &len, body].concat()
    }

    #[test]
    fn lines() {
        check(b"PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\n", "1.2.3.4:9 5.6.7.8:10 33");
        check(b"PROXY TCP6 ::1 2001:db8::1 9 10\r\n", "[::1]:9 [2001:db8::1]:10 33");
        check(b"PROXY UNKNOWN\r\n", "15");
        check(b"PROXY UNKNOWN what ever\r\n", "25");
        for bad in
            ["GET / HTTP/1.1\r\n", "PROXY TCP4 ::1 ::1 1 2\r\n", "PROXY TCP4 1.2.3.4 5.6.7.8 9\r\n", "PROXY UDP4 1\r\n"]
        {
            check(bad.as_bytes(), "broken header");
        }
        check(format!("PROXY UNKNOWN {}\r\n", "x".repeat(120)).as_bytes(), "broken header");
    }

    #[test]
    fn binaries() {
        let v4 = [1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 0, 10];
        check(&binary(0x21, 0x11, &v4), "1.2.3.4:9 5.6.7.8:10 28");
        check(&binary(0x20, 0x00, &[]), "16");
        check(&binary(0x21, 0x12, &v4), "28");
        check(&binary(0x21, 0x11, &v4[..11]), "broken header");
        check(&binary(0x31, 0x11, &v4), "broken header");
        check(&binary(0x21, 0x11, &[0; 5000]), "broken header");
    }

    #[test]
    fn triples() {
        let mut body = vec![0; 12];
        body.extend_from_slice(b"\x01\x00\x02h2\x20\x00\x0a\x01\0\0\0\0\x22\0\x02cn\x05\0\x01u\x99\0\x09short");
        let header = binary(0x21, 0x11, &body);
        let (header, _) = parse_proxy_header(&header).expect("good").expect("complete");
        for (name, expected) in [
            ("alpn", Some("h2")),
            ("0x01", Some("h2")),
            ("ssl_cn", Some("cn")),
            ("ssl_0x22", Some("cn")),
            ("unique_id", Some("u")),
            ("0x99", None),
            ("0xzz", None),
            ("ssl_", None),
            ("other", None),
        ] {
            assert_eq!(header.tlv_named(name.as_bytes()), expected.map(str::as_bytes), "{name}");
        }
    }
}
