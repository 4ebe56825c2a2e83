//! Networks of addresses: `10.0.0.0/8`, `2001:db8::/32`, `127.0.0.1`, `unix:`.
//!
//! Source: nginx, `ngx_ptocidr`, `ngx_cidr_match`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::conf::Build;
use tidegate_net::Peer;

/// Some addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// Unix domain sockets.
    Unix,
    /// Addresses of IPv4 that agree with this one in so many leading bits.
    V4(u32, u8),
    /// Addresses of IPv6 that agree with this one in so many leading bits.
    V6(u128, u8),
}

/// The leading `bits` of a word of `size` bits.
fn mask(bits: u8, size: u8) -> u128 {
    if bits == 0 { 0 } else { (u128::MAX << (size - bits)) & (u128::MAX >> (128 - size)) }
}

impl Network {
    /// Reads a network. The second value tells whether address bits behind the mask were set; they are cleared.
    pub(crate) fn parse(text: &[u8]) -> Option<(Network, bool)> {
        if text == b"unix:" {
            return Some((Network::Unix, false));
        }
        let text = text.to_str().ok()?;
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) if bits.bytes().all(|b| b.is_ascii_digit()) => (address, Some(bits.parse().ok()?)),
            Some(_) => return None,
            None => (text, None),
        };
        if let Ok(address) = address.parse::<Ipv4Addr>() {
            let (address, bits) = (address.to_bits(), bits.unwrap_or(32));
            let kept = (bits <= 32).then(|| address & mask(bits, 32) as u32)?;
            return Some((Network::V4(kept, bits), kept != address));
        }
        let address = address.parse::<Ipv6Addr>().ok()?;
        let (address, bits) = (address.to_bits(), bits.unwrap_or(128));
        let kept = (bits <= 128).then(|| address & mask(bits, 128))?;
        Some((Network::V6(kept, bits), kept != address))
    }

    /// Reads the network in an argument; one with meaningless bits is worth a warning.
    pub(crate) fn of_arg(text: &[u8], arg: &ast::Arg, build: &mut Build<'_>) -> Option<Network> {
        let (network, meaningless_bits) = Network::parse(text)?;
        if meaningless_bits {
            let message = format!("low address bits of {} are meaningless", text.as_bstr());
            build.diagnostics.push(Diagnostic::new(Severity::Warn, arg.span, message));
        }
        Some(network)
    }

    /// Whether an address is in it. An IPv4 address in IPv6 notation counts as IPv4.
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        match (self, address.to_canonical()) {
            (Network::V4(network, bits), IpAddr::V4(address)) => {
                u128::from(address.to_bits()) & mask(bits, 32) == u128::from(network)
            }
            (Network::V6(network, bits), IpAddr::V6(address)) => address.to_bits() & mask(bits, 128) == network,
            _ => false,
        }
    }

    /// Whether a peer is in it.
    pub(crate) fn contains_peer(self, peer: Peer) -> bool {
        match peer {
            Peer::Inet(address) => self.contains(address.ip()),
            Peer::Unix => self == Network::Unix,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(network: &str, address: &str, expected: Option<bool>) {
        let address: IpAddr = address.parse().expect("an address");
        let found = Network::parse(network.as_bytes()).map(|(network, _)| network.contains(address));
        assert_eq!(found, expected, "{network} {address}");
    }

    #[test]
    fn networks() {
        check("10.0.0.0/8", "10.1.2.3", Some(true));
        check("10.0.0.0/8", "11.1.2.3", Some(false));
        check("10.0.0.0/8", "::ffff:10.1.2.3", Some(true));
        check("10.1.2.3", "10.1.2.3", Some(true));
        check("10.1.2.3", "10.1.2.4", Some(false));
        check("0.0.0.0/0", "1.2.3.4", Some(true));
        check("0.0.0.0/0", "::1", Some(false));
        check("2001:db8::/32", "2001:db8:1::1", Some(true));
        check("2001:db8::/32", "2001:db9::", Some(false));
        check("::/0", "::1", Some(true));
        check("unix:", "::1", Some(false));
        for bad in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "x", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "all"] {
            check(bad, "::1", None);
        }
    }

    #[test]
    fn bits_behind_the_mask() {
        assert_eq!(Network::parse(b"10.1.2.3/8"), Some((Network::V4(10 << 24, 8), true)));
        assert_eq!(Network::parse(b"10.0.0.0/8"), Some((Network::V4(10 << 24, 8), false)));
    }
}
