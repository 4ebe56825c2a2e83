//! Requests as HTTP/2 sends them, made of their text in HTTP/1: what a script writes, and what options say.

use tidegate_http::hpack::encode;

/// A request for an HTTP/2 stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    /// The header block, which refers to the static table alone: it is the same on every connection.
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// Fields of a connection of HTTP/1, which HTTP/2 does not have (RFC 9113, section 8.2.2), and `Host`, which becomes
/// `:authority`.
const LEFT_OUT: [&[u8]; 6] =
    [b"connection", b"host", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// Makes the block of a request's head, up to and with its empty line.
pub(crate) fn of_request(head: &[u8], body: &[u8], is_tls: bool) -> Block {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut words = lines.next().unwrap_or_default().split(|byte| *byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let fields = || lines.clone().take_while(|line| !line.is_empty()).filter_map(split_field);
    let mut out = Vec::new();
    encode::no_table(&mut out);
    // Numbers of the static table: RFC 7541, appendix A.
    match method {
        b"GET" => out.push(0x82),
        b"POST" => out.push(0x83),
        other => named(2, other, &mut out),
    }
    out.push(if is_tls { 0x87 } else { 0x86 });
    match path {
        b"/" => out.push(0x84),
        other => named(4, other, &mut out),
    }
    if let Some((_, host)) = fields().find(|(name, _)| name.eq_ignore_ascii_case(b"host")) {
        named(1, host, &mut out);
    }
    for (name, value) in fields() {
        if !LEFT_OUT.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            encode::field(name, value, &mut out);
        }
    }
    Block { head: out, body: body.to_vec() }
}

/// Name and value of a header line.
pub(crate) fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

/// Appends a field whose name has a number below 15 in the static table, without a place in the dynamic one
/// (RFC 7541, section 6.2.2).
fn named(number: u8, value: &[u8], out: &mut Vec<u8>) {
    const PREFIX_MAX: usize = 0x7f;
    out.push(number);
    if value.len() < PREFIX_MAX {
        out.push(value.len() as u8);
    } else {
        out.push(PREFIX_MAX as u8);
        let mut rest = value.len() - PREFIX_MAX;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use tidegate_http::hpack::Decoder;

    use super::*;

    #[track_caller]
    fn check(head: &str, is_tls: bool, expected: &str) {
        let block = of_request(head.as_bytes(), b"", is_tls);
        let mut shown = String::new();
        let show = |name: &[u8], value: &[u8]| {
            shown += &format!("{}={};", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        };
        Decoder::default().decode(&block.head, show).expect("our own block");
        assert_eq!(shown, expected);
    }

    #[test]
    fn heads_become_blocks() {
        let expected = ":method=GET;:scheme=http;:path=/;:authority=a:81;x-a=1;";
        check("GET / HTTP/1.1\r\nHost: a:81\r\nX-A: 1\r\nConnection: close\r\n\r\n", false, expected);
        let long = "/long".repeat(60);
        let expected = format!(":method=PUT;:scheme=https;:path={long};:authority=a;content-length=3;");
        check(&format!("PUT {long} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"), true, &expected);
    }
}
