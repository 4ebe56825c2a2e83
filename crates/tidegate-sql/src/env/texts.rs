//! The character set of the texts that come from a session's client and go to it.
//!
//! The engine works on UTF-8. Whoever serves a client in another character set converts its texts with what stands here,
//! and says so ([`Session::set_transcoding`](crate::Session::set_transcoding)): elsewhere `SET NAMES latin1` is refused.

use std::borrow::Cow;

use crate::value::latin1;

/// A character set that clients use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Charset {
    /// UTF-8, or a part of it; bytes that are taken as they are.
    #[default]
    Utf8,
    /// latin1, which is Windows-1252.
    Latin1,
}

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
        if name == "latin1" { Self::Latin1 } else { Self::Utf8 }
    }

    /// A text that has come, as UTF-8.
    pub fn decode(self, text: &[u8]) -> Cow<'_, [u8]> {
        if self == Self::Utf8 || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(latin1::decode(text).into_bytes())
    }

    /// A text of UTF-8 as the client takes it; `?` for characters that its character set lacks.
    pub fn encode(self, text: &[u8]) -> Cow<'_, [u8]> {
        if self == Self::Utf8 || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(latin1::encode(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_both_ways() {
        assert_eq!(&*Charset::Latin1.decode(b"caf\xe9 \x80"), "café €".as_bytes());
        assert_eq!(&*Charset::Latin1.encode("café € 日".as_bytes()), b"caf\xe9 \x80 ?");
        assert_eq!(&*Charset::Utf8.decode(b"\xff"), b"\xff");
        assert!(matches!(Charset::Latin1.encode(b"plain"), Cow::Borrowed(_)));
    }
}
