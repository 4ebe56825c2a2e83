//! The request sections of a case as steps.
//!
//! Bytes are kept as text here, since ports and paths are only known when the case runs.

use crate::sections::{self, Block, Piece};
use std::time::Duration;

/// Something done before a step sends its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Wait that long: only where time itself is what the case is about.
    Wait(Duration),
    /// Send a signal, by its name without `SIG`, to the process of the pid file.
    Signal(String),
    /// Write the files of `later_files`.
    Write,
    /// Remove a file or directory.
    Remove(String),
    /// Put `later_config` in the place of `config` and send HUP.
    Reload,
    /// Wait until a file is there and holds this text.
    Seen { path: String, text: String },
    /// Wait until the server has closed its connections to a port.
    Disconnected { port: String },
}

/// What is waited for before bytes are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Until {
    /// Nothing: they leave together with those before them.
    Now,
    /// That the other side has read the bytes before them.
    Read,
    /// That these have come from the other side; with escapes.
    Received(String),
    /// That the bytes before them were read, and then that long: only where time itself is what the case is about.
    Time(Duration),
}

impl Until {
    /// Understands the note of a piece.
    ///
    /// # Errors
    /// When it is none of these.
    pub(crate) fn parse(note: &str) -> Result<Self, String> {
        match note.split_once(' ').unwrap_or((note, "")) {
            ("", "") => Ok(Self::Now),
            ("read", "") => Ok(Self::Read),
            ("received", text) if !text.is_empty() => Ok(Self::Received(text.to_owned())),
            _ => parse_duration(note).map(Self::Time),
        }
    }
}

/// Bytes to send when the time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) until: Until,
    pub(crate) text: Text,
}

/// What is known of bytes before substitution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Text {
    /// Line ends count for nothing, escapes are evaluated.
    Raw(String),
    /// A request line, headers of the case and a body.
    Request { line: String, headers: String, body: String, close: bool },
}

/// What is sent at once and the responses to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) actions: Vec<Action>,
    /// Whether the connection of the step before is used.
    pub(crate) same_connection: bool,
    /// Whether the request is repeated, on new connections, until its response is the expected one.
    pub(crate) eventually: bool,
    pub(crate) parts: Vec<Part>,
    /// The method of each request, which decides whether its response has a body.
    pub(crate) methods: Vec<String>,
}

/// Reads `request`, `requests`, `pipelined_requests` or `raw_request`; a case without them has no steps.
///
/// # Errors
/// When there is more than one of them or a divider is not understood.
pub(crate) fn parse(block: &Block) -> Result<Vec<Step>, String> {
    let names = ["request", "requests", "pipelined_requests", "raw_request"];
    let present: Vec<&str> = names.into_iter().filter(|n| block.section(n).is_some()).collect();
    match present.as_slice() {
        [] => Ok(Vec::new()),
        ["raw_request"] => Ok(vec![raw_step(block)?]),
        ["pipelined_requests"] => Ok(vec![pipelined_step(block)?]),
        [name] => sequence(block, name),
        several => Err(format!("sections {several:?} exclude each other")),
    }
}

fn sequence(block: &Block, name: &str) -> Result<Vec<Step>, String> {
    let pieces = sections::pieces(block.value(name).unwrap_or_default());
    let mut steps = Vec::new();
    for piece in &pieces {
        steps.push(step_of_note(&piece.note)?);
    }
    for index in 0..pieces.len() {
        let close = !steps.get(index + 1).is_some_and(|next: &Step| next.same_connection);
        let headers = headers_of(block, index)?;
        let (text, method) = request(&pieces[index].text, headers, close)?;
        steps[index].parts.push(Part { until: Until::Now, text });
        steps[index].methods.push(method);
    }
    Ok(steps)
}

fn pipelined_step(block: &Block) -> Result<Step, String> {
    let mut step = step_of_note("")?;
    let value = block.value("pipelined_requests").unwrap_or_default();
    // Requests with a body are divided by `~~~`, others may stand one below the other.
    let requests: Vec<String> = if value.lines().any(|l| l.starts_with("~~~")) {
        sections::pieces(value).into_iter().map(|p| p.text).collect()
    } else {
        value.lines().map(str::to_owned).collect()
    };
    for (index, piece) in requests.iter().enumerate() {
        let close = index + 1 == requests.len();
        let (text, method) = request(piece, headers_of(block, index)?, close)?;
        step.parts.push(Part { until: Until::Now, text });
        step.methods.push(method);
    }
    Ok(step)
}

fn raw_step(block: &Block) -> Result<Step, String> {
    let value = block.value("raw_request").unwrap_or_default();
    let mut step = step_of_note("")?;
    for Piece { note, text } in sections::pieces(value) {
        step.parts.push(Part { until: Until::parse(&note)?, text: Text::Raw(text) });
    }
    // Every list section counts responses; without one there is one.
    let codes = block.value("error_code").map_or(1, |v| v.split_whitespace().count());
    let bodies = block.value("response_body").map_or(1, |v| sections::pieces(v).len());
    let method = value.split_whitespace().next().unwrap_or_default().to_owned();
    step.methods = vec![method; codes.max(bodies)];
    Ok(step)
}

fn headers_of(block: &Block, index: usize) -> Result<String, String> {
    let Some(value) = block.value("more_headers") else { return Ok(String::new()) };
    let mut pieces = sections::pieces(value);
    if pieces.len() == 1 {
        return Ok(pieces.swap_remove(0).text);
    }
    if index >= pieces.len() {
        return Err(format!("section \"more_headers\" has no piece for request {}", index + 1));
    }
    Ok(pieces.swap_remove(index).text)
}

fn request(text: &str, headers: String, close: bool) -> Result<(Text, String), String> {
    let (line, body) = text.split_once('\n').unwrap_or((text, ""));
    let mut words = line.split_whitespace();
    let (Some(method), Some(_)) = (words.next(), words.next()) else {
        return Err(format!("\"{line}\" is no request: METHOD TARGET [HTTP/VERSION] is needed"));
    };
    let body = body.strip_suffix('\n').unwrap_or(body).to_owned();
    Ok((Text::Request { line: line.to_owned(), headers, body, close }, method.to_owned()))
}

fn step_of_note(note: &str) -> Result<Step, String> {
    let mut step =
        Step { actions: Vec::new(), same_connection: false, eventually: false, parts: Vec::new(), methods: Vec::new() };
    for word in note.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        match word.split_once(' ').unwrap_or((word, "")) {
            ("same", "connection") => step.same_connection = true,
            ("new", "connection") => step.same_connection = false,
            ("eventually", "") => step.eventually = true,
            ("write", "") => step.actions.push(Action::Write),
            ("reload", "") => step.actions.push(Action::Reload),
            ("remove", path) if !path.is_empty() => step.actions.push(Action::Remove(path.to_owned())),
            ("seen", what) if !what.is_empty() => {
                let (path, text) = what.split_once(' ').unwrap_or((what, ""));
                step.actions.push(Action::Seen { path: path.to_owned(), text: text.to_owned() });
            }
            ("disconnected", port) if !port.is_empty() => {
                step.actions.push(Action::Disconnected { port: port.to_owned() });
            }
            ("signal", name) if !name.is_empty() => step.actions.push(Action::Signal(name.to_owned())),
            _ => step.actions.push(Action::Wait(parse_duration(word)?)),
        }
    }
    if step.same_connection && step.eventually {
        return Err("\"eventually\" repeats on new connections: it cannot be on the same connection".to_owned());
    }
    Ok(step)
}

/// `20ms`, `3s`, or seconds without a unit.
///
/// # Errors
/// When the text is neither.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: u64 = digits.parse().map_err(|_| format!("\"{text}\" is no duration such as 20ms or 3s"))?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" | "" => Ok(Duration::from_secs(number)),
        _ => Err(format!("\"{text}\" is no duration such as 20ms or 3s")),
    }
}

/// The bytes of a request, with what the case does not say itself: `Host`, `Connection: close` on the last request of
/// a connection, and `Content-Length`.
pub(crate) fn request_bytes(line: &str, headers: &str, body: &[u8], close: bool) -> Vec<u8> {
    let has =
        |name: &str| headers.lines().any(|l| l.split(':').next().is_some_and(|n| n.trim().eq_ignore_ascii_case(name)));
    let mut head = line.to_owned();
    if line.split_whitespace().count() == 2 {
        head.push_str(" HTTP/1.1");
    }
    head.push_str("\r\n");
    if !has("Host") {
        head.push_str("Host: localhost\r\n");
    }
    if close && !has("Connection") {
        head.push_str("Connection: close\r\n");
    }
    for header in headers.lines().filter(|l| !l.is_empty()) {
        head.push_str(header);
        head.push_str("\r\n");
    }
    let wants_length = !body.is_empty() || matches!(line.split(' ').next(), Some("POST" | "PUT" | "PATCH"));
    if wants_length && !has("Content-Length") && !has("Transfer-Encoding") {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Result<Vec<Step>, String> {
        parse(&sections::parse(&format!("=== t\n{text}")).unwrap()[0])
    }

    #[test]
    fn the_last_request_of_a_connection_closes_it() {
        let steps =
            steps("--- requests\nGET /a\n~~~ same connection\nPOST /b\nxy\n~~~ 5ms, reload, eventually\nGET /c\n");
        let steps = steps.unwrap();
        let closes: Vec<bool> =
            steps.iter().map(|s| matches!(&s.parts[0].text, Text::Request { close: true, .. })).collect();
        assert_eq!(closes, [false, true, true]);
        assert_eq!(steps[2].actions, [Action::Wait(Duration::from_millis(5)), Action::Reload]);
        assert!(steps[2].eventually && steps[1].same_connection);
    }

    #[test]
    fn pipelined_requests_leave_in_one_step() {
        let steps = steps("--- pipelined_requests\nGET /a\nHEAD /b\n").unwrap();
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].methods, ["GET", "HEAD"]);
    }

    #[test]
    fn raw_requests_count_responses_by_expectations() {
        let steps =
            steps("--- raw_request\nHEAD / HTTP/1.1\\r\\n\n~~~ 20ms\n\\r\\n\n--- error_code: 200 400\n").unwrap();
        assert_eq!(steps[0].methods, ["HEAD", "HEAD"]);
        assert_eq!(steps[0].parts[1].until, Until::Time(Duration::from_millis(20)));
    }

    #[test]
    fn waits() {
        assert_eq!(Until::parse(""), Ok(Until::Now));
        assert_eq!(Until::parse("read"), Ok(Until::Read));
        assert_eq!(Until::parse("received a b"), Ok(Until::Received("a b".to_owned())));
        assert!(Until::parse("received").is_err() && Until::parse("reads").is_err());
        let steps = steps("--- requests\nGET /\n~~~ seen logs/error.log a b, disconnected 80\nGET /\n").unwrap();
        let seen = Action::Seen { path: "logs/error.log".to_owned(), text: "a b".to_owned() };
        assert_eq!(steps[1].actions, [seen, Action::Disconnected { port: "80".to_owned() }]);
    }

    #[track_caller]
    fn check_bytes(line: &str, headers: &str, body: &str, expected: &str) {
        assert_eq!(String::from_utf8(request_bytes(line, headers, body.as_bytes(), true)).unwrap(), expected);
    }

    #[test]
    fn requests_get_what_they_lack() {
        check_bytes("GET /", "", "", "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        check_bytes(
            "GET / HTTP/1.0",
            "host: a\nConnection: x\n",
            "",
            "GET / HTTP/1.0\r\nhost: a\r\nConnection: x\r\n\r\n",
        );
        let head = "Host: a\r\nConnection: x\r\n";
        check_bytes("PUT /", head, "", &format!("PUT / HTTP/1.1\r\n{head}Content-Length: 0\r\n\r\n"));
        check_bytes("GET /", head, "b", &format!("GET / HTTP/1.1\r\n{head}Content-Length: 1\r\n\r\nb"));
    }

    #[test]
    fn mistakes() {
        assert!(steps("--- request\nGET /\n--- raw_request\nx\n").unwrap_err().contains("exclude each other"));
        assert!(steps("--- request\nGET\n").unwrap_err().contains("is no request"));
        assert!(steps("--- requests\nGET /\n~~~ soon\nGET /\n").unwrap_err().contains("no duration"));
    }
}
