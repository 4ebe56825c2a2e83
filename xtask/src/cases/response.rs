//! A strict reader of HTTP/1 responses: what a lenient client would overlook is an error here.

/// One final response, with the interim ones before it cut off.
#[derive(Debug, PartialEq, Eq, Clone, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names as sent, values without surrounding blanks.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Status codes of interim responses.
    pub(crate) interim: Vec<u16>,
}

impl Response {
    /// All values of a header joined by `, `, or `None` when it is missing.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let is_named = |(n, _): &&(String, String)| n.eq_ignore_ascii_case(name);
        let values: Vec<&str> = self.headers.iter().filter(is_named).map(|(_, v)| v.as_str()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

/// What the bytes so far amount to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A response and the number of bytes it took.
    Complete(Box<Response>, usize),
    /// More bytes are needed.
    Incomplete,
    /// No sequence of further bytes makes this a response.
    Malformed(String),
}

/// Reads one response from `bytes`. `eof` tells that no more will come, which ends a body without a length.
pub(crate) fn parse(bytes: &[u8], method: &str, eof: bool) -> Parsed {
    let mut response = Response::default();
    let mut start = 0;
    loop {
        let Some(end) = find(&bytes[start..], b"\r\n\r\n") else { return Parsed::Incomplete };
        let head = &bytes[start..start + end];
        if let Err(problem) = parse_head(head, &mut response) {
            return Parsed::Malformed(problem);
        }
        start += end + 4;
        if !(100..200).contains(&response.status) || response.status == 101 {
            break;
        }
        response.interim.push(response.status);
    }
    match parse_body(&bytes[start..], method, eof, &response) {
        Ok(Some((body, used))) => {
            response.body = body;
            Parsed::Complete(Box::new(response), start + used)
        }
        Ok(None) => Parsed::Incomplete,
        Err(problem) => Parsed::Malformed(problem),
    }
}

/// Status and body of the only response on a closed connection, to a GET request.
pub(crate) fn parse_get(bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
    match parse(bytes, "GET", true) {
        Parsed::Complete(response, used) if used == bytes.len() => Some((response.status, response.body)),
        _ => None,
    }
}

fn parse_head(head: &[u8], response: &mut Response) -> Result<(), String> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let status = line
        .strip_prefix("HTTP/1.1 ")
        .or_else(|| line.strip_prefix("HTTP/1.0 "))
        .and_then(|rest| rest.get(..3)?.parse().ok())
        .ok_or_else(|| format!("bad status line {line:?}"))?;
    response.status = status;
    response.headers.clear();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| format!("bad header line {line:?}"))?;
        if name.is_empty() || name.contains([' ', '\t', '\n', '\r']) || value.contains(['\r', '\n', '\0']) {
            return Err(format!("bad header line {line:?}"));
        }
        response.headers.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    Ok(())
}

type Body = Option<(Vec<u8>, usize)>;

fn parse_body(bytes: &[u8], method: &str, eof: bool, response: &Response) -> Result<Body, String> {
    let length = response.header("Content-Length");
    let encoding = response.header("Transfer-Encoding");
    if length.is_some() && encoding.is_some() {
        return Err("both Content-Length and Transfer-Encoding".to_owned());
    }
    let is_tunnel = response.status == 101;
    if method == "HEAD" || matches!(response.status, 204 | 304) {
        return Ok(Some((Vec::new(), 0)));
    }
    if let Some(encoding) = encoding {
        if !encoding.eq_ignore_ascii_case("chunked") {
            return Err(format!("unknown Transfer-Encoding {encoding:?}"));
        }
        return parse_chunked(bytes);
    }
    if let Some(length) = length {
        let length: usize = length.parse().map_err(|_| format!("bad Content-Length {length:?}"))?;
        return Ok(bytes.get(..length).map(|body| (body.to_vec(), length)));
    }
    Ok((eof || is_tunnel).then(|| (bytes.to_vec(), bytes.len())))
}

fn parse_chunked(bytes: &[u8]) -> Result<Body, String> {
    let mut body = Vec::new();
    let mut pos = 0;
    loop {
        let Some(end) = find(&bytes[pos..], b"\r\n") else { return Ok(None) };
        let line = String::from_utf8_lossy(&bytes[pos..pos + end]).into_owned();
        let digits = line.split(';').next().unwrap_or_default().trim_end();
        let size = usize::from_str_radix(digits, 16).map_err(|_| format!("bad chunk size line {line:?}"))?;
        pos += end + 2;
        if size == 0 {
            return Ok(skip_trailers(&bytes[pos..]).map(|used| (body, pos + used)));
        }
        let Some(chunk) = pos.checked_add(size).and_then(|to| bytes.get(pos..to)) else { return Ok(None) };
        body.extend_from_slice(chunk);
        pos += size;
        match bytes.get(pos..pos + 2) {
            Some(b"\r\n") => pos += 2,
            Some(_) => return Err("a chunk does not end in CRLF".to_owned()),
            None => return Ok(None),
        }
    }
}

fn skip_trailers(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(b"\r\n") {
        return Some(2);
    }
    find(bytes, b"\r\n\r\n").map(|end| end + 4)
}

/// Where `needle` begins.
pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &str, method: &str, status: u16, body: &str, rest: usize) {
        // Cut at every byte, the response must be incomplete until it is there.
        for cut in 0..bytes.len() - rest {
            let parsed = parse(&bytes.as_bytes()[..cut], method, false);
            assert_eq!(parsed, Parsed::Incomplete, "cut at {cut}");
        }
        let Parsed::Complete(response, used) = parse(bytes.as_bytes(), method, false) else { panic!("not complete") };
        assert_eq!((response.status, response.body.as_slice()), (status, body.as_bytes()));
        assert_eq!(used, bytes.len() - rest);
    }

    #[test]
    fn framing() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "GET", 200, "hi", 0);
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "HEAD", 200, "", 0);
        check("HTTP/1.1 304 Not Modified\r\n\r\nHTTP", "GET", 304, "", 4);
        check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "POST", 204, "", 0);
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n3;x=1\r\nabc\r\n0\r\n\r\n",
            "GET",
            200,
            "hiabc",
            0,
        );
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n", "GET", 200, "", 0);
    }

    #[test]
    fn without_a_length_the_end_of_the_connection_counts() {
        let bytes = b"HTTP/1.0 200 OK\r\n\r\nhi";
        assert_eq!(parse(bytes, "GET", false), Parsed::Incomplete);
        let Parsed::Complete(response, 21) = parse(bytes, "GET", true) else { panic!("not complete") };
        assert_eq!(response.body, b"hi");
    }

    #[track_caller]
    fn check_malformed(bytes: &str, expected: &str) {
        assert_eq!(parse(bytes.as_bytes(), "GET", true), Parsed::Malformed(expected.to_owned()));
    }

    #[test]
    fn strictness() {
        check_malformed("HTTP/2 200\r\n\r\n", "bad status line \"HTTP/2 200\"");
        check_malformed("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "bad header line \"A : b\"");
        check_malformed("HTTP/1.1 200 OK\r\nA: b\nc\r\n\r\n", "bad header line \"A: b\\nc\"");
        check_malformed(
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "both Content-Length and Transfer-Encoding",
        );
        check_malformed(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
            "a chunk does not end in CRLF",
        );
    }
}
