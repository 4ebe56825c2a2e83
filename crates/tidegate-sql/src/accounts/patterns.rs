//! Patterns of hosts and of schemas' names.

use std::net::IpAddr;

/// Where a client comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A socket of the file system.
    Local,
    /// An address.
    Address(IpAddr),
}

impl Origin {
    /// Whether the client runs on this machine.
    pub fn is_near(self) -> bool {
        match self {
            Self::Local => true,
            Self::Address(address) => address.to_canonical().is_loopback(),
        }
    }

    /// Whether the host of an account means it: `localhost`, an address with `%` and `_` in it, or one with a mask.
    ///
    /// Names of other hosts mean nobody: nothing is looked up.
    pub(crate) fn is_meant_by(self, host: &str) -> bool {
        if host == "%" {
            return true;
        }
        if host.eq_ignore_ascii_case("localhost") {
            return self.is_near();
        }
        let Self::Address(address) = self else { return false };
        let address = address.to_canonical();
        match host.split_once('/') {
            Some((network, mask)) => is_within(address, network, mask),
            None => {
                host.parse::<IpAddr>().is_ok_and(|host| host.to_canonical() == address)
                    || like(host, &address.to_string())
            }
        }
    }
}

/// Whether an address is in a network, whose mask is an address or a number of bits.
fn is_within(address: IpAddr, network: &str, mask: &str) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    };
    let Ok(network) = network.parse::<IpAddr>() else { return false };
    if network.is_ipv4() != address.is_ipv4() {
        return false;
    }
    let width = if address.is_ipv4() { 32 } else { 128 };
    let mask = match (mask.parse::<u32>(), mask.parse::<IpAddr>()) {
        (Ok(0), _) => 0,
        (Ok(length), _) if length <= width => u128::MAX << (128 - length),
        (_, Ok(mask)) if mask.is_ipv4() == network.is_ipv4() => bits(mask),
        _ => return false,
    };
    bits(address) & mask == bits(network)
}

/// Whether a text is like a pattern, in which `%` stands for any characters, `_` for one, and `\` takes the meaning from both.
pub(crate) fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on when what was tried behind the last `%` does not fit.
    let mut again = None;
    loop {
        let fits = match pattern.get(p) {
            Some('%') => {
                again = Some((p + 1, t));
                p += 1;
                continue;
            }
            None if t == text.len() => return true,
            None => None,
            Some('_') => (t < text.len()).then_some(1),
            Some('\\') if p + 1 < pattern.len() => (text.get(t) == pattern.get(p + 1)).then_some(2),
            Some(c) => (text.get(t) == Some(c)).then_some(1),
        };
        match (fits, again) {
            (Some(length), _) => (p, t) = (p + length, t + 1),
            (None, Some((behind, from))) if from < text.len() => {
                again = Some((behind, from + 1));
                (p, t) = (behind, from + 1);
            }
            _ => return false,
        }
    }
}

/// How closely a pattern describes what it means: the characters in front of its first wildcard, more than any for one without.
pub(crate) fn closeness(pattern: &str) -> usize {
    let mut characters = pattern.chars();
    let mut count = 0;
    while let Some(c) = characters.next() {
        match c {
            '%' | '_' => return count,
            '\\' => {
                characters.next();
            }
            _ => {}
        }
        count += 1;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, fits) in [
            ("", "", true),
            ("%", "", true),
            ("a%", "abc", true),
            ("a%c", "abcabc", true),
            ("a%b", "abc", false),
            ("_b_", "abc", true),
            ("a\\_b", "a_b", true),
            ("a\\_b", "axb", false),
            ("%%a%", "xxa", true),
            ("a\\", "a\\", true),
            ("%é_", "caféx", true),
        ] {
            assert_eq!(like(pattern, text), fits, "{pattern} {text}");
        }
        // Many wildcards cost no more than their number times the text.
        assert!(!like(&"%a".repeat(200), &"a".repeat(199)));
    }

    #[test]
    fn hosts() {
        let from = |address: &str| Origin::Address(address.parse().unwrap());
        for (host, origin, is_meant) in [
            ("%", Origin::Local, true),
            ("localhost", Origin::Local, true),
            ("LocalHost", from("127.0.0.1"), true),
            ("localhost", from("::ffff:127.0.0.1"), true),
            ("localhost", from("10.0.0.1"), false),
            ("127.0.0.1", Origin::Local, false),
            ("10.0.0.%", from("10.0.0.77"), true),
            ("10.0.0.%", from("10.0.1.77"), false),
            ("10.0.0.0/255.255.255.0", from("10.0.0.9"), true),
            ("10.0.0.0/24", from("10.0.1.9"), false),
            ("10.0.0.1/24", from("10.0.0.9"), false),
            ("0.0.0.0/0", from("8.8.8.8"), true),
            ("0.0.0.0/0", from("::1"), false),
            ("10.0.0.0/99", from("10.0.0.0"), false),
            ("fe80::/10", from("fe80::1"), true),
            ("::1", from("::1"), true),
            ("db.example", from("10.0.0.1"), false),
        ] {
            assert_eq!(origin.is_meant_by(host), is_meant, "{host} {origin:?}");
        }
    }

    #[test]
    fn closer_patterns_come_first() {
        assert!(closeness("app") > closeness("ap\\_%") && closeness("ap\\_%") > closeness("a%"));
        assert_eq!((closeness("%"), closeness("ap\\_%"), closeness("app\\_1")), (0, 3, usize::MAX));
    }
}
