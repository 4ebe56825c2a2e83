//! What a script wants sent: the text of one request, or of several for HTTP/1 to send at once.

use crate::block::{self, Block, split_field};

/// Requests as text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    text: Vec<u8>,
    /// Whether each of them is HEAD.
    to_heads: Vec<bool>,
}

impl Message {
    /// Takes a new text. One that is the same as before is not looked through again.
    ///
    /// # Errors
    /// The text is not made of whole requests.
    pub(crate) fn set(&mut self, text: &[u8]) -> Result<(), String> {
        if self.text == text && !self.to_heads.is_empty() {
            return Ok(());
        }
        self.to_heads.clear();
        let mut rest = text;
        while !rest.is_empty() {
            let (head, body) = split(rest)
                .ok_or("request() has to return whole HTTP requests, with an empty line behind the fields")?;
            self.to_heads.push(head.starts_with(b"HEAD "));
            rest = &rest[head.len() + body.len()..];
        }
        if self.to_heads.is_empty() {
            return Err("request() has returned an empty string".to_owned());
        }
        self.text.clear();
        self.text.extend_from_slice(text);
        Ok(())
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// For each request, whether it is HEAD.
    pub(crate) fn to_heads(&self) -> impl ExactSizeIterator<Item = bool> {
        self.to_heads.iter().copied()
    }

    /// The first request for HTTP/2.
    pub(crate) fn block(&self, is_tls: bool) -> Block {
        match split(&self.text) {
            Some((head, body)) => block::of_request(head, body, is_tls),
            None => Block::default(),
        }
    }
}

/// Divides a request at the start of `text` into its head, with the empty line, and its body.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    let mut body_bytes = 0;
    loop {
        let line = &text[at..];
        let end = memchr::memchr(b'\n', line)?;
        let line = &line[..end];
        at += end + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Some((&text[..at], text.get(at..at.checked_add(body_bytes)?)?));
        }
        match split_field(line) {
            Some((name, value)) if name.eq_ignore_ascii_case(b"content-length") => {
                body_bytes = std::str::from_utf8(value).ok()?.parse().ok()?;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted() {
        let mut message = Message::default();
        let two = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcHEAD /x HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(message.set(two), Ok(()));
        assert_eq!(message.to_heads().collect::<Vec<_>>(), [false, true]);
        assert_eq!(message.block(false).body, b"abc");
        for end in 1..two.len() {
            let is_whole = end == two.len() - b"HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n".len();
            assert_eq!(Message::default().set(&two[..end]).is_ok(), is_whole, "{end}");
        }
        assert!(Message::default().set(b"").is_err());
    }
}
