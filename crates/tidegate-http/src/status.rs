//! Status codes and nginx's texts for them.

macro_rules! statuses {
    ($($code:literal $reason:literal,)*) => {
        /// nginx's text for a status, e.g. `Moved Temporarily` for 302; `None` where nginx has none and sends the bare
        /// number.
        pub const fn reason(status: u16) -> Option<&'static str> {
            match status {
                $($code => Some($reason),)*
                _ => None,
            }
        }

        /// The whole status line with its CR LF; `None` where nginx has no text.
        pub const fn status_line(status: u16) -> Option<&'static str> {
            match status {
                $($code => Some(concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n")),)*
                _ => None,
            }
        }

        #[cfg(test)]
        const CODES: &[u16] = &[$($code,)*];
    };
}

statuses! {
    200 "OK",
    201 "Created",
    202 "Accepted",
    204 "No Content",
    206 "Partial Content",
    301 "Moved Permanently",
    302 "Moved Temporarily",
    303 "See Other",
    304 "Not Modified",
    307 "Temporary Redirect",
    308 "Permanent Redirect",
    400 "Bad Request",
    401 "Unauthorized",
    402 "Payment Required",
    403 "Forbidden",
    404 "Not Found",
    405 "Not Allowed",
    406 "Not Acceptable",
    407 "Proxy Authentication Required",
    408 "Request Time-out",
    409 "Conflict",
    410 "Gone",
    411 "Length Required",
    412 "Precondition Failed",
    413 "Request Entity Too Large",
    414 "Request-URI Too Large",
    415 "Unsupported Media Type",
    416 "Requested Range Not Satisfiable",
    421 "Misdirected Request",
    429 "Too Many Requests",
    500 "Internal Server Error",
    501 "Not Implemented",
    502 "Bad Gateway",
    503 "Service Temporarily Unavailable",
    504 "Gateway Time-out",
    505 "HTTP Version Not Supported",
    507 "Insufficient Storage",
}

/// The answer to `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Whether a response with this status never has a body.
pub const fn is_bodiless(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

/// Writes the status line: nginx's text, or the bare number for a status without one.
pub fn write_status_line(status: u16, out: &mut Vec<u8>) {
    match status_line(status) {
        Some(line) => out.extend_from_slice(line.as_bytes()),
        None => write_status_line_with(status, b"", out),
    }
}

/// Writes the status line with another text.
pub fn write_status_line_with(status: u16, reason: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    if status < 100 {
        // Three digits, as any other status.
        out.extend_from_slice(if status < 10 { b"00" } else { b"0" });
    }
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_lines() {
        #[track_caller]
        fn check(status: u16, expected: &str) {
            let mut out = Vec::new();
            write_status_line(status, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
        check(200, "HTTP/1.1 200 OK\r\n");
        check(302, "HTTP/1.1 302 Moved Temporarily\r\n");
        check(299, "HTTP/1.1 299 \r\n");
        check(7, "HTTP/1.1 007 \r\n");
        check(42, "HTTP/1.1 042 \r\n");
        check(1000, "HTTP/1.1 1000 \r\n");
        for &status in CODES {
            check(status, &format!("HTTP/1.1 {status} {}\r\n", reason(status).unwrap_or_default()));
        }
    }
}
