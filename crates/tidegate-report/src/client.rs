//! One request, to see that an answer is the expected one before it is measured.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks for a path on a connection of its own, or posts to it.
///
/// # Errors
/// When the server cannot be reached, or its answer is none.
pub(crate) fn ask(port: u16, url: &str, body: Option<&str>) -> Result<(u16, Vec<u8>), String> {
    let failed = |e: std::io::Error| format!("no answer from port {port}: {e}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let request = match body {
        None => format!("GET {url} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        Some(body) => format!(
            "POST {url} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    };
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(failed)?;
    parse(&bytes).ok_or_else(|| format!("no HTTP from port {port}: {}", String::from_utf8_lossy(&bytes)))
}

/// Status and content. Chunks are not put together: what is looked for stands in one of them.
fn parse(bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let status = std::str::from_utf8(bytes.get(9..12)?).ok()?.parse().ok()?;
    bytes.starts_with(b"HTTP/1.").then(|| (status, bytes[end + 4..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read() {
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nHello"), Some((200, b"Hello".to_vec())));
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nA: b\r\n"), None);
        assert_eq!(parse(b"SSH-2.0 something else\r\n\r\n"), None);
    }
}
