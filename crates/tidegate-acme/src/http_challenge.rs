//! Proof of a name by HTTP: what authorities find below [`PREFIX`].
//!
//! The answers are the process's: any port that speaks HTTP gives them.
//!
//! Source: RFC 8555, section 8.3.

use std::sync::{PoisonError, RwLock};

/// Where a path begins that an authority asks for; the token follows.
pub const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

static ANSWERS: RwLock<Vec<(String, String)>> = RwLock::new(Vec::new());

/// An answer that is given as long as this lives.
#[derive(Debug)]
pub(crate) struct Answer(String);

impl Answer {
    /// Answers requests for `token`.
    pub(crate) fn give(token: &str, authorization: &str) -> Self {
        let mut answers = ANSWERS.write().unwrap_or_else(PoisonError::into_inner);
        answers.push((token.to_owned(), authorization.to_owned()));
        Self(token.to_owned())
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut answers = ANSWERS.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = answers.iter().position(|(token, _)| *token == self.0) {
            answers.swap_remove(at);
        }
    }
}

/// The content of a path that an authority asks for; `None` for all others.
pub fn find(path: &[u8]) -> Option<String> {
    let token = path.strip_prefix(PREFIX)?;
    let answers = ANSWERS.read().unwrap_or_else(PoisonError::into_inner);
    answers.iter().find(|(known, _)| known.as_bytes() == token).map(|(_, authorization)| authorization.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_there_as_long_as_it_is_wanted() {
        let first = Answer::give("token", "token.print");
        // The same token of another try.
        let second = Answer::give("token", "token.print");
        assert_eq!(find(b"/.well-known/acme-challenge/token").as_deref(), Some("token.print"));
        assert_eq!(find(b"/.well-known/acme-challenge/toke"), None);
        assert_eq!(find(b"/.well-known/acme-challenge/"), None);
        assert_eq!(find(b"/token"), None);
        drop(first);
        assert_eq!(find(b"/.well-known/acme-challenge/token").as_deref(), Some("token.print"));
        drop(second);
        assert_eq!(find(b"/.well-known/acme-challenge/token"), None);
    }
}
