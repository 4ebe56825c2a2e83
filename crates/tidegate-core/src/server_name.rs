//! Which server a name belongs to.
//!
//! In this order: the exact name, the longest wildcard at the beginning (`*.example.com`), the longest wildcard at the
//! end (`mail.*`), the first regular expression of the file.
//!
//! Source: nginx, "Server names".

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use crate::{
    conf::ServerId,
    regex::{Captures, Regex, RegexError, RegexOptions},
};

/// Servers of an address, by name.
#[derive(Default)]
pub struct ServerNames {
    exact: FxHashMap<BString, ServerId>,
    /// `.example.com` for `*.example.com`.
    leading: FxHashMap<BString, ServerId>,
    /// `mail.` for `mail.*`.
    trailing: FxHashMap<BString, ServerId>,
    regexes: Vec<(Regex, ServerId)>,
}

/// Why a server name cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// A wildcard in the wrong place.
    #[error("invalid server name or wildcard \"{0}\"")]
    Wildcard(BString),
    /// A pattern that does not compile.
    #[error(transparent)]
    Regex(#[from] RegexError),
}

impl ServerNames {
    /// Adds a name; `false` when another server has it already.
    ///
    /// # Errors
    /// [`NameError`] for a name that cannot be.
    pub fn add(&mut self, name: &BStr, server: ServerId) -> Result<bool, NameError> {
        if let Some(pattern) = name.strip_prefix(b"~") {
            // Names are compared in lower case; a pattern is too, as it sees the lowered name.
            self.regexes.push((Regex::new(pattern, RegexOptions::CASELESS)?, server));
            return Ok(true);
        }
        let name = BString::from(name.to_ascii_lowercase());
        let bad = || NameError::Wildcard(name.clone());
        let stars = name.iter().filter(|&&b| b == b'*').count();
        let (map, key) = if let Some(rest) = name.strip_prefix(b"*.") {
            if stars != 1 || rest.is_empty() {
                return Err(bad());
            }
            (&mut self.leading, BString::from(&name[1..]))
        } else if let Some(rest) = name.strip_suffix(b".*") {
            if stars != 1 || rest.is_empty() {
                return Err(bad());
            }
            (&mut self.trailing, BString::from(&name[..name.len() - 1]))
        } else if stars > 0 {
            return Err(bad());
        } else if name.len() > 1 && name.starts_with(b".") {
            // `.example.com` is both `example.com` and `*.example.com`.
            if self.exact.insert(BString::from(&name[1..]), server).is_some_and(|other| other != server) {
                return Ok(false);
            }
            (&mut self.leading, name.clone())
        } else {
            (&mut self.exact, name.clone())
        };
        match map.get(&key) {
            Some(&other) if other != server => Ok(false),
            Some(_) => Ok(true),
            None => {
                map.insert(key, server);
                Ok(true)
            }
        }
    }

    /// Whether every name belongs to the default server: nothing needs to be looked up.
    pub fn is_trivial(&self, default: ServerId) -> bool {
        self.regexes.is_empty()
            && [&self.exact, &self.leading, &self.trailing].iter().all(|map| map.values().all(|&s| s == default))
    }

    /// The server for a name in lower case; with the groups of the pattern that matched.
    pub fn find(&self, name: &[u8]) -> Option<(ServerId, Option<(&Regex, Captures)>)> {
        if let Some(&server) = self.exact.get(BStr::new(name)) {
            return Some((server, None));
        }
        if name.is_empty() {
            return None;
        }
        if !self.leading.is_empty() {
            for (at, _) in name.iter().enumerate().filter(|&(at, &b)| b == b'.' && at > 0) {
                if let Some(&server) = self.leading.get(BStr::new(&name[at..])) {
                    return Some((server, None));
                }
            }
        }
        if !self.trailing.is_empty() {
            for (at, _) in name.iter().enumerate().rev().filter(|(_, b)| **b == b'.') {
                if let Some(&server) = self.trailing.get(BStr::new(&name[..=at])) {
                    return Some((server, None));
                }
            }
        }
        self.regexes.iter().find_map(|(regex, server)| match regex.captures(name) {
            Ok(Some(captures)) => Some((*server, Some((regex, captures)))),
            _ => None,
        })
    }

    /// The patterns, for the variables that their named groups define.
    pub fn regexes(&self) -> impl Iterator<Item = &Regex> {
        self.regexes.iter().map(|(regex, _)| regex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Option<u32>) {
        let mut names = ServerNames::default();
        let list = ["example.com", "*.example.com", "*.b.example.com", "mail.*", ".org.net", r"~^w(\d+)\.x$", ""];
        for (index, entry) in list.iter().enumerate() {
            assert!(names.add(BStr::new(entry), ServerId(index as u32)).expect("good name"));
        }
        assert_eq!(names.find(name.as_bytes()).map(|(server, _)| server.0), expected, "{name}");
    }

    #[test]
    fn names() {
        check("example.com", Some(0));
        check("a.example.com", Some(1));
        check("a.b.example.com", Some(2));
        check("b.example.com", Some(1));
        check("mail.x.y", Some(3));
        check("org.net", Some(4));
        check("a.org.net", Some(4));
        check("w12.x", Some(5));
        check("", Some(6));
        check("other", None);
        check("xexample.com", None);
    }

    #[test]
    fn bad_wildcards() {
        for name in ["*", "a.*.b", "*.", "*.a.*", "a*"] {
            assert!(ServerNames::default().add(BStr::new(name), ServerId(0)).is_err(), "{name}");
        }
    }
}
