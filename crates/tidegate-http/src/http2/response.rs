//! Heads of responses as header blocks.

use crate::{date::http_date, fields::Fields, hpack::encode, known::Known, response::ResponseParts};

impl ResponseParts<'_> {
    /// Appends the beginning of the head as part of a header block: status, `Server`, `Date` and content type with charset.
    pub fn encode_start(&self, out: &mut Vec<u8>) {
        encode::status(self.status, out);
        if let Some(server) = self.server {
            encode::field(b"server", server, out);
        }
        if let Some(date) = self.date {
            encode::field(b"date", date, out);
        }
        match (self.content_type, self.charset) {
            (None, _) => {}
            (Some(content_type), None) => encode::field(b"content-type", content_type, out),
            (Some(content_type), Some(charset)) => {
                let value = [content_type, b"; charset=", charset].concat();
                encode::field(b"content-type", &value, out);
            }
        }
    }

    /// Appends the rest of the head. What is about the connection of HTTP/1 is left out.
    pub fn encode_rest(&self, out: &mut Vec<u8>) {
        if let Some(length) = self.content_length {
            encode::field(b"content-length", itoa::Buffer::new().format(length).as_bytes(), out);
        }
        if let Some(seconds) = self.last_modified {
            encode::field(b"last-modified", &http_date(seconds), out);
        }
        if let Some(location) = self.location {
            encode::field(b"location", location, out);
        }
        if self.vary_accept_encoding {
            encode::field(b"vary", b"Accept-Encoding", out);
        }
        encode_fields(self.fields, out);
    }
}

/// Appends fields, in their order, but for those of a connection (RFC 9113, section 8.2.2). An empty `Server` or `Date`
/// says that there is to be none.
pub fn encode_fields(fields: &Fields, out: &mut Vec<u8>) {
    for (name, value, known) in fields.iter() {
        let is_none = value.is_empty() && matches!(known, Known::Server | Known::Date);
        if !is_none && !is_of_connection(name) {
            encode::field(name, value, out);
        }
    }
}

fn is_of_connection(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 5] = [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];
    NAMES.iter().any(|of_connection| of_connection.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::Decoder;

    #[test]
    fn heads_become_blocks() {
        let mut fields = Fields::new();
        for (name, value) in [("X-A", "1"), ("Connection", "x"), ("Upgrade", "h"), ("Date", ""), ("Set-Cookie", "a=b")]
        {
            fields.append(name.as_bytes(), value.as_bytes());
        }
        let parts = ResponseParts {
            server: Some(b"s"),
            date: Some(b"now"),
            content_type: Some(b"text/plain"),
            charset: Some(b"utf-8"),
            content_length: Some(12),
            last_modified: Some(784_111_777),
            location: Some(b"/x"),
            vary_accept_encoding: true,
            ..ResponseParts::new(302, &fields)
        };
        let mut block = Vec::new();
        parts.encode_start(&mut block);
        parts.encode_rest(&mut block);
        let mut shown = String::new();
        let show = |name: &[u8], value: &[u8]| {
            shown += &format!("{}={};", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        };
        Decoder::default().decode(&block, show).expect("our own block");
        let expected = ":status=302;server=s;date=now;content-type=text/plain; charset=utf-8;content-length=12;\
                        last-modified=Sun, 06 Nov 1994 08:49:37 GMT;location=/x;vary=Accept-Encoding;x-a=1;set-cookie=a=b;";
        assert_eq!(shown, expected);
    }
}
