//! What a request is for: its path and arguments, and what patterns found in them.

use crate::regex::Captures;

/// The target of a request, decoded.
#[derive(Debug, Default, Clone)]
pub struct Uri {
    /// Path, decoded and normalised: `$uri`.
    pub path: Vec<u8>,
    /// Behind the `?`, as sent: `$args`.
    pub args: Vec<u8>,
    /// As the client wrote it: `$request_uri`. Empty for sub-requests, which show their parent's.
    pub unparsed: Vec<u8>,
}

impl Uri {
    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        let Uri { path, args, unparsed } = self;
        path.clear();
        args.clear();
        unparsed.clear();
    }
}

/// The last match of a regular expression: `$1` and so on.
#[derive(Debug, Default, Clone)]
pub(crate) struct LastMatch {
    /// The text that was matched.
    pub(crate) subject: Vec<u8>,
    /// Where the groups are in it.
    pub(crate) captures: Captures,
}

impl LastMatch {
    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        let LastMatch { subject, captures: Captures { groups } } = self;
        subject.clear();
        groups.clear();
    }
}
