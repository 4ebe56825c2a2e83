//! Names of accounts.

use crate::identifier::quoted;

/// Name and host: `user@host`. A role has no host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) user: String,
    pub(crate) host: String,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.is_empty() { f.write_str(&self.user) } else { write!(f, "{}@{}", self.user, self.host) }
    }
}

impl Name {
    pub(crate) fn new(user: &str, host: &str) -> Self {
        Self { user: user.to_owned(), host: host.to_owned() }
    }

    /// As errors quote it.
    pub(crate) fn quoted(&self) -> String {
        if self.host.is_empty() { format!("'{}'", self.user) } else { format!("'{}'@'{}'", self.user, self.host) }
    }

    /// As GRANTEE in `information_schema`.
    pub(crate) fn grantee(&self) -> String {
        format!("'{}'@'{}'", self.user, self.host)
    }

    /// As statements name it.
    pub(crate) fn in_sql(&self) -> String {
        if self.host.is_empty() { quoted(&self.user) } else { format!("{}@{}", quoted(&self.user), quoted(&self.host)) }
    }
}
