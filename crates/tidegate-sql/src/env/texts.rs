//! The character set of the texts that come from a session's client and go to it.
//!
//! The engine works on UTF-8. Whoever serves a client in another character set converts its texts with what stands here,
//! and says so ([`Session::set_transcoding`](crate::Session::set_transcoding)): elsewhere `SET NAMES latin1` and its like are refused.

use std::borrow::Cow;

use crate::value::{latin1, one_byte::Set};

/// Number of `latin1_swedish_ci`.
const LATIN1_COLLATION: u16 = 8;

/// A character set that clients use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Charset {
    /// UTF-8, or a part of it; bytes that are taken as they are.
    #[default]
    Utf8,
    /// latin1, which is Windows-1252.
    Latin1,
    /// Another one of one byte.
    OneByte(OneByte),
}

/// A character set of one byte for texts that come and go, such as cp1251.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneByte(&'static Set);

/// The character sets of a client's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Texts {
    /// `character_set_client`: of statements.
    pub client: Charset,
    /// `character_set_results`: of rows, names of columns and errors.
    pub results: Charset,
}

impl Charset {
    /// The character set of this name, as far as it has to be known.
    pub(crate) fn named(name: &str) -> Self {
        match Set::named(name) {
            Some(set) => Self::OneByte(OneByte(set)),
            None if name == "latin1" => Self::Latin1,
            None => Self::Utf8,
        }
    }

    /// Whether clients may use the character set of this name: parts of UTF-8, and what is converted from and to it.
    pub fn is_known(name: &str) -> bool {
        matches!(name, "utf8" | "utf8mb3" | "utf8mb4" | "ascii" | "binary" | "latin1") || Set::named(name).is_some()
    }

    /// The number of its collation where none is named; `None` for UTF-8, whose columns know theirs.
    pub fn collation(self) -> Option<u16> {
        match self {
            Self::Utf8 => None,
            Self::Latin1 => Some(LATIN1_COLLATION),
            Self::OneByte(OneByte(set)) => Some(set.collation()),
        }
    }

    /// A text that has come, as UTF-8.
    pub fn decode(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Latin1 if !text.is_ascii() => Cow::Owned(latin1::decode(text).into_bytes()),
            Self::OneByte(OneByte(set)) if !text.is_ascii() => Cow::Owned(set.decode(text).into_bytes()),
            _ => Cow::Borrowed(text),
        }
    }

    /// A text of UTF-8 as the client takes it; `?` for characters that its character set lacks.
    pub fn encode(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Latin1 if !text.is_ascii() => Cow::Owned(latin1::encode(text)),
            Self::OneByte(OneByte(set)) if !text.is_ascii() => Cow::Owned(set.encode(text)),
            _ => Cow::Borrowed(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_both_ways() {
        assert_eq!(&*Charset::Latin1.decode(b"caf\xe9 \x80"), "café €".as_bytes());
        assert_eq!(&*Charset::Latin1.encode("café € 日".as_bytes()), b"caf\xe9 \x80 ?");
        assert_eq!(&*Charset::named("cp1251").decode(b"\xe4\xe0 1"), "да 1".as_bytes());
        assert_eq!(&*Charset::named("cp1251").encode("да é".as_bytes()), b"\xe4\xe0 ?");
        assert_eq!(&*Charset::Utf8.decode(b"\xff"), b"\xff");
        assert!(matches!(Charset::Latin1.encode(b"plain"), Cow::Borrowed(_)));
    }
}
