//! Variables about the connection: addresses, the PROXY protocol's header, what the kernel measured.

use std::{
    io::Write,
    net::{IpAddr, SocketAddr},
};

use super::{number, put, seconds};
use tidegate_net::Peer;

use crate::{clock, request::Request};

pub(super) fn server_port(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    match req.connection().local() {
        Peer::Inet(address) => number(out, address.port().into()),
        Peer::Unix => true,
    }
}

pub(super) fn server_addr(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    match req.connection().local_addr() {
        Peer::Inet(address) => ip(out, address.ip()),
        Peer::Unix => match req.connection().listen_addr() {
            Some(address) => write!(out, "{address}").is_ok(),
            None => put(out, b"unix:"),
        },
    }
}

pub(super) fn remote_addr(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    match req.peer() {
        Peer::Inet(address) => ip(out, address.ip()),
        Peer::Unix => put(out, b"unix:"),
    }
}

/// Writes what `Display` writes, without the formatter's thousand instructions: most parameters of FastCGI and most logs have an
/// address.
fn ip(out: &mut Vec<u8>, ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            for (index, octet) in ip.octets().into_iter().enumerate() {
                if index > 0 {
                    out.push(b'.');
                }
                out.extend_from_slice(itoa::Buffer::new().format(octet).as_bytes());
            }
            true
        }
        IpAddr::V6(ip) => write!(out, "{ip}").is_ok(),
    }
}

pub(super) fn remote_port(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    match req.peer() {
        Peer::Inet(address) => number(out, address.port().into()),
        Peer::Unix => true,
    }
}

pub(super) fn binary_remote_addr(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    match req.peer() {
        Peer::Inet(SocketAddr::V4(address)) => put(out, &address.ip().octets()),
        Peer::Inet(SocketAddr::V6(address)) => put(out, &address.ip().octets()),
        Peer::Unix => put(out, b"unix:"),
    }
}

pub(super) fn time(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    seconds(out, clock::steady_ms().saturating_sub(req.connection().accepted_ms))
}

/// The client and the server of the PROXY protocol's header.
fn proxied(req: &Request) -> Option<(SocketAddr, SocketAddr)> {
    req.connection().proxy_header()?.addresses
}

fn address(out: &mut Vec<u8>, address: Option<SocketAddr>) -> bool {
    address.is_some_and(|address| ip(out, address.ip()))
}

fn port(out: &mut Vec<u8>, address: Option<SocketAddr>) -> bool {
    address.is_some_and(|address| number(out, address.port().into()))
}

pub(super) fn proxy_addr(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    address(out, proxied(req).map(|(client, _)| client))
}

pub(super) fn proxy_port(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    port(out, proxied(req).map(|(client, _)| client))
}

pub(super) fn proxy_server_addr(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    address(out, proxied(req).map(|(_, server)| server))
}

pub(super) fn proxy_server_port(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    port(out, proxied(req).map(|(_, server)| server))
}

pub(super) fn proxy_tlv(req: &Request, name: &[u8], out: &mut Vec<u8>) -> bool {
    match req.connection().proxy_header().and_then(|header| header.tlv_named(name)) {
        Some(value) => put(out, value),
        None => false,
    }
}

/// What the kernel knows of a TCP connection.
fn tcp_info(req: &Request) -> Option<libc::tcp_info> {
    req.connection().stream.tcp_info()
}

pub(super) fn tcpinfo_rtt(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    tcp_info(req).is_some_and(|info| number(out, info.tcpi_rtt.into()))
}

pub(super) fn tcpinfo_rttvar(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    tcp_info(req).is_some_and(|info| number(out, info.tcpi_rttvar.into()))
}

pub(super) fn tcpinfo_snd_cwnd(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    tcp_info(req).is_some_and(|info| number(out, info.tcpi_snd_cwnd.into()))
}

pub(super) fn tcpinfo_rcv_space(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    tcp_info(req).is_some_and(|info| number(out, info.tcpi_rcv_space.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_look_as_ever() {
        for text in ["0.0.0.0", "127.0.0.1", "255.10.100.9", "::", "::1", "fe80::1:2", "::ffff:10.0.0.1"] {
            let mut out = b"at ".to_vec();
            assert!(ip(&mut out, text.parse().expect("an address")));
            assert_eq!(String::from_utf8(out), Ok(format!("at {text}")));
        }
    }
}
