//! Values by network or by range of addresses.

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, Ipv4Addr},
};

use bstr::BString;

use crate::network::Network;

/// Values by network; the longest network that an address is in wins.
#[derive(Debug, Default)]
pub(super) struct Networks {
    /// By number of bits, long ones first; those of IPv4 and IPv6 in one list each.
    v4: Vec<(u8, HashMap<u32, BString>)>,
    v6: Vec<(u8, HashMap<u128, BString>)>,
}

fn table<K>(tables: &mut Vec<(u8, HashMap<K, BString>)>, bits: u8) -> &mut HashMap<K, BString> {
    let at = tables.partition_point(|(other, _)| *other > bits);
    if tables.get(at).is_none_or(|(other, _)| *other != bits) {
        tables.insert(at, (bits, HashMap::new()));
    }
    &mut tables[at].1
}

impl Networks {
    /// Adds a network; answers the value that it had.
    pub(super) fn insert(&mut self, network: Network, value: BString) -> Option<BString> {
        match network {
            Network::V4(address, bits) => table(&mut self.v4, bits).insert(address, value),
            Network::V6(address, bits) => table(&mut self.v6, bits).insert(address, value),
            Network::Unix => None,
        }
    }

    /// Takes a network out; answers whether it was there.
    pub(super) fn remove(&mut self, network: Network) -> bool {
        match network {
            Network::V4(address, bits) => table(&mut self.v4, bits).remove(&address).is_some(),
            Network::V6(address, bits) => table(&mut self.v6, bits).remove(&address).is_some(),
            Network::Unix => false,
        }
    }

    pub(super) fn find(&self, address: IpAddr) -> Option<&BString> {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.iter().find_map(|(bits, networks)| {
                let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
                networks.get(&(address.to_bits() & mask))
            }),
            IpAddr::V6(address) => self.v6.iter().find_map(|(bits, networks)| {
                let mask = u128::MAX.checked_shl(128 - u32::from(*bits)).unwrap_or(0);
                networks.get(&(address.to_bits() & mask))
            }),
        }
    }
}

/// A range of addresses, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    start: u32,
    end: u32,
    value: BString,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", Ipv4Addr::from_bits(self.start), Ipv4Addr::from_bits(self.end))
    }
}

/// Values by range, in the order of addresses, without overlaps.
#[derive(Debug, Default)]
pub(super) struct Ranges(Vec<Range>);

impl Ranges {
    /// Adds a range; answers the value that it had. A range inside another one takes its place there.
    ///
    /// # Errors
    /// The range that it overlaps in part.
    pub(super) fn insert(&mut self, start: u32, end: u32, value: BString) -> Result<Option<BString>, Range> {
        let at = self.0.partition_point(|other| other.end < start);
        let new = Range { start, end, value };
        let Some(other) = self.0.get_mut(at).filter(|other| other.start <= end) else {
            self.0.insert(at, new);
            return Ok(None);
        };
        if (other.start, other.end) == (start, end) {
            return Ok(Some(std::mem::replace(&mut other.value, new.value)));
        }
        if start < other.start || end > other.end {
            return Err(other.clone());
        }
        let other = self.0.remove(at);
        let before = (other.start < start).then(|| Range { end: start - 1, ..other.clone() });
        let after = (other.end > end).then(|| Range { start: end + 1, ..other.clone() });
        self.0.splice(at..at, before.into_iter().chain([new]).chain(after));
        Ok(None)
    }

    /// Takes a range out; answers whether it was there.
    pub(super) fn remove(&mut self, start: u32, end: u32) -> bool {
        let count = self.0.len();
        self.0.retain(|range| (range.start, range.end) != (start, end));
        self.0.len() < count
    }

    pub(super) fn find(&self, address: IpAddr) -> Option<&BString> {
        // Ranges are those of IPv4; any other address is the last of them, as in nginx.
        let address = match address.to_canonical() {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(_) => u32::MAX,
        };
        let range = self.0.get(self.0.partition_point(|range| range.end < address))?;
        (range.start <= address).then_some(&range.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_network_wins() {
        let mut networks = Networks::default();
        for text in ["10.0.0.0/8", "0.0.0.0/0", "10.1.0.0/16", "10.1.2.3/32", "::/0", "2001:db8::/32"] {
            let (network, _) = Network::parse(text.as_bytes()).expect("good");
            assert_eq!(networks.insert(network, text.into()), None);
        }
        for (address, expected) in [
            ("10.1.2.3", "10.1.2.3/32"),
            ("10.1.2.4", "10.1.0.0/16"),
            ("10.2.2.4", "10.0.0.0/8"),
            ("11.2.2.4", "0.0.0.0/0"),
            ("::ffff:10.2.2.4", "10.0.0.0/8"),
            ("2001:db8::1", "2001:db8::/32"),
            ("::1", "::/0"),
        ] {
            let found = networks.find(address.parse().expect("an address"));
            assert_eq!(found, Some(&expected.into()), "{address}");
        }
    }

    #[test]
    fn ranges() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.insert(10, 20, "a".into()), Ok(None));
        assert_eq!(ranges.insert(30, 40, "b".into()), Ok(None));
        assert_eq!(ranges.insert(10, 20, "c".into()), Ok(Some("a".into())));
        assert_eq!(ranges.insert(12, 14, "d".into()), Ok(None));
        assert_eq!(ranges.insert(30, 31, "e".into()), Ok(None));
        assert!(ranges.insert(19, 21, "x".into()).is_err());
        assert!(ranges.insert(5, 50, "x".into()).is_err());
        let found: Vec<_> = [9, 10, 11, 12, 14, 15, 20, 21, 30, 31, 32, 40, 41]
            .map(|address| {
                let address = IpAddr::V4(Ipv4Addr::from_bits(address));
                ranges.find(address).map_or(String::from("-"), ToString::to_string)
            })
            .into();
        assert_eq!(found.concat(), "-ccddcc-eebb-");
        assert!(ranges.remove(30, 31) && !ranges.remove(30, 31));
    }
}
