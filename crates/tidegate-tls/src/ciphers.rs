//! Cipher suites and groups by the names that OpenSSL has for them.
//!
//! The suites of TLS 1.2 can be chosen; those of TLS 1.3 are all strong, and OpenSSL leaves them out of its lists too.
//!
//! Source: openssl-ciphers(1), "CIPHER LIST FORMAT"; SSL_CONF_cmd(3), "Groups".

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use rustls::{
    CipherSuite, NamedGroup, SupportedCipherSuite,
    crypto::{CryptoProvider, aws_lc_rs},
};

/// A suite of TLS 1.2 with the aliases that select it, in OpenSSL's order of preference.
struct Known {
    suite: CipherSuite,
    name: &'static str,
    aliases: &'static [&'static str],
}

const TLS12: [Known; 6] = [
    Known {
        suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        aliases: &["aECDSA", "ECDSA", "AESGCM", "AES256", "AES"],
    },
    Known {
        suite: CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        aliases: &["aRSA", "AESGCM", "AES256", "AES"],
    },
    Known {
        suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        aliases: &["aECDSA", "ECDSA", "CHACHA20"],
    },
    Known {
        suite: CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        aliases: &["aRSA", "CHACHA20"],
    },
    Known {
        suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        aliases: &["aECDSA", "ECDSA", "AESGCM", "AES128", "AES"],
    },
    Known {
        suite: CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        aliases: &["aRSA", "AESGCM", "AES128", "AES"],
    },
];

/// Aliases that select all of these suites: each is strong, authenticated, and exchanges keys by ECDHE.
const ALL: &[&str] = &[
    "ALL",
    "COMPLEMENTOFALL",
    "DEFAULT",
    "HIGH",
    "TLSv1.2",
    "ECDHE",
    "EECDH",
    "kECDHE",
    "kEECDH",
    "FIPS",
    "SUITEB128",
    "SUITEB192",
];

impl Known {
    /// Whether a word of the list, aliases joined by `+`, selects the suite.
    fn is_meant_by(&self, word: &str) -> bool {
        word.split('+').all(|alias| {
            alias == self.name
                || alias == self.suite.as_str().unwrap_or_default()
                || self.aliases.contains(&alias)
                || (ALL.contains(&alias) && alias != "COMPLEMENTOFALL")
        })
    }
    fn bits(&self) -> u32 {
        if self.aliases.contains(&"AES128") { 128 } else { 256 }
    }
}

/// Suites and groups that one side offers or takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// Suites of TLS 1.2 in order of preference; `None` for all.
    pub suites: Option<Vec<CipherSuite>>,
    /// Suites of TLS 1.3 in order of preference; `None` for all.
    pub tls13: Option<Vec<CipherSuite>>,
    /// Groups of the key exchange in order of preference; `None` for all.
    pub groups: Option<Vec<NamedGroup>>,
}

impl Hash for Choice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { suites, tls13, groups } = self;
        let [suites, tls13] = [suites, tls13]
            .map(|list| list.as_ref().map(|list| list.iter().map(|suite| u16::from(*suite)).collect::<Vec<_>>()));
        let groups = groups.as_ref().map(|groups| groups.iter().map(|group| u16::from(*group)).collect::<Vec<_>>());
        (suites, tls13, groups).hash(state);
    }
}

/// What a list of names came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<T> {
    /// What is there, in order of preference.
    pub found: Vec<T>,
    /// Names in the list that are not offered.
    pub absent: Vec<String>,
}

/// The suites of TLS 1.2 that a list of OpenSSL's means. Words that nobody knows mean nothing, as there; whole names of
/// suites are told if they are not offered.
pub fn suites(list: &str) -> Named<CipherSuite> {
    let mut alive: Vec<&Known> = TLS12.iter().collect();
    let mut found: Vec<&Known> = Vec::new();
    let mut absent = Vec::new();
    for word in list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()) {
        match word.split_at(1) {
            ("!", word) => {
                alive.retain(|known| !known.is_meant_by(word));
                found.retain(|known| !known.is_meant_by(word));
            }
            ("-", word) => found.retain(|known| !known.is_meant_by(word)),
            ("+", word) => {
                let (last, first): (Vec<_>, Vec<_>) = found.iter().partition(|known| known.is_meant_by(word));
                found = first.into_iter().chain(last).collect();
            }
            ("@", "STRENGTH") => found.sort_by_key(|known| std::cmp::Reverse(known.bits())),
            ("@", _) => {}
            _ => {
                let is_new = |known: &&&Known| {
                    known.is_meant_by(word) && !found.iter().any(|other| std::ptr::eq(*other, **known))
                };
                let new: Vec<&Known> = alive.iter().filter(is_new).copied().collect();
                if new.is_empty() && is_whole_name(word) && !TLS12.iter().any(|known| known.is_meant_by(word)) {
                    absent.push(word.to_owned());
                }
                found.extend(new);
            }
        }
    }
    Named { found: found.into_iter().map(|known| known.suite).collect(), absent }
}

/// The suites of TLS 1.3 that a list means.
pub fn suites_of_tls13(list: &str) -> Named<CipherSuite> {
    let mut named = Named { found: Vec::new(), absent: Vec::new() };
    for word in list.split(':').filter(|word| !word.is_empty()) {
        let known = aws_lc_rs::DEFAULT_CIPHER_SUITES.iter().filter(|suite| suite.tls13().is_some());
        match known.map(SupportedCipherSuite::suite).find(|suite| name(*suite) == word) {
            Some(suite) if named.found.contains(&suite) => {}
            Some(suite) => named.found.push(suite),
            None => named.absent.push(word.to_owned()),
        }
    }
    named
}

/// Whether a word looks like the name of one suite, such as `DHE-RSA-AES256-GCM-SHA384`; not one of TLS 1.3, which lists do not
/// choose.
fn is_whole_name(word: &str) -> bool {
    word.split('-').count() > 1 && !word.contains('+')
}

/// The groups that a list of OpenSSL's means; `auto` is for all.
///
/// # Errors
/// A word that is the name of none.
pub fn groups(list: &str) -> Result<Named<NamedGroup>, String> {
    let mut named = Named { found: Vec::new(), absent: Vec::new() };
    for word in list.split(':') {
        // Groups that need not be there.
        let name = word.trim_start_matches(['?', '*']);
        let known = match name.to_ascii_lowercase().as_str() {
            "auto" => aws_lc_rs::DEFAULT_KX_GROUPS.iter().map(|group| group.name()).collect(),
            "x25519" => vec![NamedGroup::X25519],
            "prime256v1" | "secp256r1" | "p-256" => vec![NamedGroup::secp256r1],
            "secp384r1" | "p-384" => vec![NamedGroup::secp384r1],
            "x25519mlkem768" => vec![NamedGroup::X25519MLKEM768],
            "secp256r1mlkem768" => vec![NamedGroup::secp256r1MLKEM768],
            "mlkem768" => vec![NamedGroup::MLKEM768],
            "mlkem1024" => vec![NamedGroup::MLKEM1024],
            "secp521r1" | "p-521" | "x448" | "secp384r1mlkem1024" | "mlkem512" => Vec::new(),
            other if ["ffdhe", "brainpool", "sect", "secp"].iter().any(|start| other.starts_with(start)) => Vec::new(),
            _ => return Err(word.to_owned()),
        };
        if known.is_empty() {
            named.absent.push(name.to_owned());
        }
        named.found.extend(known.into_iter().filter(|group| !named.found.contains(group)).collect::<Vec<_>>());
    }
    Ok(named)
}

impl Choice {
    /// The cryptography with nothing but this.
    pub fn provider(&self) -> Arc<CryptoProvider> {
        if self == &Choice::default() {
            return crate::provider();
        }
        let mut provider = CryptoProvider::clone(&crate::provider());
        if let Some(suites) = &self.suites {
            let all = provider.cipher_suites.clone();
            let is_tls13 = |suite: &SupportedCipherSuite| suite.tls13().is_some();
            let chosen = suites.iter().filter_map(|name| all.iter().find(|suite| suite.suite() == *name));
            provider.cipher_suites = all.iter().filter(|suite| is_tls13(suite)).chain(chosen).copied().collect();
        }
        if let Some(suites) = &self.tls13 {
            let all = std::mem::take(&mut provider.cipher_suites);
            let (tls13, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|suite| suite.tls13().is_some());
            let chosen = suites.iter().filter_map(|name| tls13.iter().find(|suite| suite.suite() == *name));
            provider.cipher_suites = chosen.copied().chain(others).collect();
        }
        if let Some(groups) = &self.groups {
            let find = |name: &NamedGroup| aws_lc_rs::ALL_KX_GROUPS.iter().find(|group| group.name() == *name).copied();
            provider.kx_groups = groups.iter().filter_map(find).collect();
        }
        Arc::new(provider)
    }
}

/// The name that OpenSSL has for a suite.
///
/// Source: openssl-ciphers(1), "Cipher suite names".
pub fn name(suite: CipherSuite) -> &'static str {
    if let Some(known) = TLS12.iter().find(|known| known.suite == suite) {
        return known.name;
    }
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        other => other.as_str().unwrap_or_default(),
    }
}

/// The name that OpenSSL has for a group.
///
/// Source: EVP_PKEY_CTX_set_group_name(3).
pub fn group_name(group: NamedGroup) -> &'static str {
    match group {
        NamedGroup::secp256r1 => "prime256v1",
        NamedGroup::secp384r1 => "secp384r1",
        NamedGroup::secp521r1 => "secp521r1",
        other => other.as_str().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, expected: &str, absent: &str) {
        let named = suites(list);
        let short = |suite: &CipherSuite| name(*suite).replace("ECDHE-", "");
        let found: Vec<String> = named.found.iter().map(short).collect();
        assert_eq!(found.join(" "), expected, "{list}");
        assert_eq!(named.absent.join(" "), absent, "{list}");
    }

    // As `openssl ciphers -tls1_2 -s LIST` of OpenSSL 3.0 lists them, without the suites that are not offered.
    #[test]
    fn lists_mean_what_they_mean_to_openssl() {
        let all = "ECDSA-AES256-GCM-SHA384 RSA-AES256-GCM-SHA384 ECDSA-CHACHA20-POLY1305 RSA-CHACHA20-POLY1305 \
                   ECDSA-AES128-GCM-SHA256 RSA-AES128-GCM-SHA256";
        check("HIGH:!aNULL:!MD5", all, "");
        check("DEFAULT@SECLEVEL=1", "", "");
        check(
            "EECDH+AESGCM:EDH+AESGCM",
            all.replace("ECDSA-CHACHA20-POLY1305 RSA-CHACHA20-POLY1305 ", "").as_str(),
            "",
        );
        check(
            "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:DHE-RSA-AES128-GCM-SHA256",
            "RSA-AES128-GCM-SHA256 ECDSA-AES256-GCM-SHA384",
            "DHE-RSA-AES128-GCM-SHA256",
        );
        check("HIGH:+AES128:-CHACHA20:!aECDSA:ECDSA", "RSA-AES256-GCM-SHA384 RSA-AES128-GCM-SHA256", "");
        check("AES128+aRSA CHACHA20", "RSA-AES128-GCM-SHA256 ECDSA-CHACHA20-POLY1305 RSA-CHACHA20-POLY1305", "");
        check("AES128+aRSA:AES256+aRSA:@STRENGTH", "RSA-AES256-GCM-SHA384 RSA-AES128-GCM-SHA256", "");
        check("AES128-SHA", "", "AES128-SHA");
        check("nonsense", "", "");
    }

    #[test]
    fn groups_by_their_names() {
        let found = |list| groups(list).map(|named| (named.found, named.absent.join(" ")));
        assert_eq!(found("X25519:P-256"), Ok((vec![NamedGroup::X25519, NamedGroup::secp256r1], String::new())));
        assert_eq!(found("secp521r1:secp384r1"), Ok((vec![NamedGroup::secp384r1], "secp521r1".to_owned())));
        assert_eq!(found("auto").map(|(found, _)| found.len()), Ok(4));
        assert_eq!(found("X25519MLKEM768").map(|(found, _)| found), Ok(vec![NamedGroup::X25519MLKEM768]));
        assert_eq!(found("nonsense"), Err("nonsense".to_owned()));
    }

    #[test]
    fn every_suite_and_group_has_a_name_of_openssl() {
        for suite in aws_lc_rs::ALL_CIPHER_SUITES {
            let name = name(suite.suite());
            assert!(name.starts_with("TLS_") || name.starts_with("ECDHE-"), "{suite:?}: {name}");
            assert!(!name.contains("_WITH_") && !name.starts_with("TLS13"), "{suite:?}: {name}");
        }
        for group in aws_lc_rs::ALL_KX_GROUPS {
            assert_eq!(groups(group_name(group.name())).map(|named| named.found), Ok(vec![group.name()]));
        }
    }
}
