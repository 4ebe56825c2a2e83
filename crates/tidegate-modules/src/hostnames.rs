//! A table of host names with wildcards, as `map` and `valid_referers` know them.
//!
//! In this order: the exact name, the longest wildcard at the beginning (`*.example.com`, `.example.com`), the longest
//! wildcard at the end (`mail.*`). Names are compared in lower case.
//!
//! Source: nginx, `ngx_hash_add_key` and `ngx_hash_find_combined`.

use std::collections::HashMap;

/// Why a name cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostnameError {
    /// A wildcard in the wrong place.
    Invalid,
    /// The name is there already.
    Conflict,
}

/// Values by host name.
#[derive(Debug)]
pub(crate) struct Hostnames<T> {
    exact: HashMap<Box<[u8]>, T>,
    /// `.example.com` for `*.example.com`.
    leading: HashMap<Box<[u8]>, T>,
    /// `mail.` for `mail.*`.
    trailing: HashMap<Box<[u8]>, T>,
}

impl<T> Default for Hostnames<T> {
    fn default() -> Self {
        Hostnames { exact: HashMap::new(), leading: HashMap::new(), trailing: HashMap::new() }
    }
}

fn insert<T>(map: &mut HashMap<Box<[u8]>, T>, key: &[u8], value: T) -> Result<(), HostnameError> {
    match map.insert(key.into(), value) {
        None => Ok(()),
        Some(_) => Err(HostnameError::Conflict),
    }
}

impl<T: Clone> Hostnames<T> {
    /// Adds a name without wildcards.
    pub(crate) fn add_exact(&mut self, name: &[u8], value: T) -> Result<(), HostnameError> {
        insert(&mut self.exact, &name.to_ascii_lowercase(), value)
    }

    /// Adds a name that may have a wildcard.
    pub(crate) fn add(&mut self, name: &[u8], value: T) -> Result<(), HostnameError> {
        let name = name.to_ascii_lowercase();
        let stars = name.iter().filter(|&&b| b == b'*').count();
        if stars > 1 || name.windows(2).any(|pair| pair == b"..") || name.contains(&0) {
            return Err(HostnameError::Invalid);
        }
        if name.len() > 1 && name.starts_with(b".") && stars == 0 {
            // `.example.com` is both `example.com` and `*.example.com`.
            insert(&mut self.exact, &name[1..], value.clone())?;
            return insert(&mut self.leading, &name, value);
        }
        match (name.strip_prefix(b"*"), name.strip_suffix(b"*")) {
            (Some(rest), _) if rest.len() > 1 && rest.starts_with(b".") => insert(&mut self.leading, rest, value),
            (_, Some(rest)) if rest.len() > 1 && rest.ends_with(b".") => insert(&mut self.trailing, rest, value),
            _ if stars > 0 => Err(HostnameError::Invalid),
            _ => insert(&mut self.exact, &name, value),
        }
    }

    /// The value for a name in lower case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&T> {
        if let Some(value) = self.exact.get(name) {
            return Some(value);
        }
        let dots = || memchr::memchr_iter(b'.', name);
        let leading = |at: usize| if at == 0 { None } else { self.leading.get(&name[at..]) };
        if !self.leading.is_empty()
            && let Some(value) = dots().find_map(leading)
        {
            return Some(value);
        }
        if self.trailing.is_empty() {
            return None;
        }
        let trailing = |at: usize| self.trailing.get(&name[..=at]);
        memchr::memrchr_iter(b'.', name).find_map(trailing)
    }

    /// Whether there are no names.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.leading.is_empty() && self.trailing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &["a.org", ".b.org", "*.c.org", "*.x.c.org", "mail.*", "mail.a.*"];

    #[track_caller]
    fn check(name: &str, expected: Option<&str>) {
        let mut table = Hostnames::default();
        for text in NAMES {
            table.add(text.as_bytes(), *text).expect("good name");
        }
        assert_eq!(table.find(name.as_bytes()).copied(), expected, "{name}");
    }

    #[test]
    fn lookups() {
        check("a.org", Some("a.org"));
        check("x.a.org", None);
        check("b.org", Some(".b.org"));
        check("y.b.org", Some(".b.org"));
        check("z.y.b.org", Some(".b.org"));
        check("c.org", None);
        check("y.c.org", Some("*.c.org"));
        check("y.x.c.org", Some("*.x.c.org"));
        check("mail.de", Some("mail.*"));
        check("mail.a.de", Some("mail.a.*"));
        check("mail", None);
        check(".c.org", None);
        check("", None);
    }

    #[test]
    fn bad_names() {
        let mut table = Hostnames::default();
        for name in ["*", "a*", "*a.org", "a.*.org", "*.*", "a..b", "*.", ".*"] {
            assert_eq!(table.add(name.as_bytes(), ()), Err(HostnameError::Invalid), "{name}");
        }
        assert_eq!(table.add(b"a", ()), Ok(()));
        assert_eq!(table.add(b"A", ()), Err(HostnameError::Conflict));
    }
}
