//! An order that an authority works on, kept until its certificate is.
//!
//! Between the request for a certificate and its file a process may end, or an answer be lost. The authority has made the certificate
//! nevertheless, and counts it. So the order's address and the key are kept before the certificate is asked for, and the next try goes on
//! with that order.

use std::fmt;

use serde_json::{Value, json};

/// How long an order is gone on with after it was made. Certificates that an authority takes longer for are asked for anew.
const AGE_MAX_SECONDS: i64 = 24 * 3600;

/// An order at the authority, and the key that its certificate is for.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct UnderWay {
    /// Address of the account that has made it.
    account: String,
    /// Its address.
    pub(crate) url: String,
    /// The key in PEM.
    pub(crate) key: String,
    /// When it was made, in seconds since 1970.
    since: i64,
}

/// Prints no secret.
impl fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnderWay").field("url", &self.url).field("since", &self.since).finish_non_exhaustive()
    }
}

impl UnderWay {
    /// An order that an account has just made.
    pub(crate) fn new(account: &str, url: &str, key: String, now: i64) -> Self {
        Self { account: account.to_owned(), url: url.to_owned(), key, since: now }
    }

    /// Whether an account can go on with it now. A clock that was set may have made it older than it is.
    pub(crate) fn is_of(&self, account: &str, now: i64) -> bool {
        self.account == account && now.abs_diff(self.since) < AGE_MAX_SECONDS.unsigned_abs()
    }

    /// The text of its file.
    pub(crate) fn text(&self) -> String {
        let Self { account, url, key, since } = self;
        json!({ "account": account, "order": url, "key": key, "since": since }).to_string()
    }

    /// What a file says; `None` if that is no order.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let fields: Value = serde_json::from_str(text).ok()?;
        let field = |name: &str| Some(fields.get(name)?.as_str()?.to_owned());
        let since = fields.get("since")?.as_i64()?;
        Some(Self { account: field("account")?, url: field("order")?, key: field("key")?, since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_its_accounts_for_a_day() {
        const NOW: i64 = 1_800_000_000;
        let order = UnderWay::new("https://ca.test/account/1", "https://ca.test/order/2", "key\n".to_owned(), NOW);
        assert_eq!(UnderWay::of_text(&order.text()), Some(order.clone()));
        for (account, after, expected) in [
            ("https://ca.test/account/1", 0, true),
            ("https://ca.test/account/1", AGE_MAX_SECONDS - 1, true),
            ("https://ca.test/account/1", -60, true),
            ("https://ca.test/account/1", AGE_MAX_SECONDS, false),
            ("https://ca.test/account/1", -AGE_MAX_SECONDS, false),
            ("https://ca.test/account/2", 0, false),
        ] {
            assert_eq!(order.is_of(account, NOW + after), expected, "{account} {after}");
        }
        let text = order.text();
        for length in 0..text.len() {
            assert_eq!(UnderWay::of_text(&text[..length]), None, "{length}");
        }
    }
}
