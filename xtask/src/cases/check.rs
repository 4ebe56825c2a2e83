//! Compares what came with what the case expects. Every function returns the problems that it found.

use super::case::{Case, Mode};
use super::output;
use super::response::Response;
use super::server::Site;
use super::vars::Vars;
use crate::sections;
use flate2::read::MultiGzDecoder;
use regex::bytes::{Regex, RegexBuilder};
use std::io::Read;

/// Words in an error log line that no case may produce, unless it expects that very line.
const ALARMS: &[&str] = &["[alert]", "[emerg]", "[crit]", "panicked at"];

type Problems = Vec<String>;

fn pattern(text: &str) -> Result<Regex, String> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    RegexBuilder::new(text)
        .dot_matches_new_line(true)
        .multi_line(true)
        .unicode(false)
        .build()
        .map_err(|e| format!("bad pattern: {e}"))
}

/// Checks response number `index` of the case.
pub(crate) fn response(case: &Case, vars: &Vars, index: usize, response: &Response) -> Problems {
    let mut problems = Problems::new();
    let wanted = status(case, index);
    if wanted.is_some_and(|w| w != response.status) {
        problems.push(format!("status is {}, expected {}", response.status, wanted.unwrap_or_default()));
    }
    let checks = [headers(case, vars, index, response), body(case, vars, index, response)];
    for outcome in checks {
        match outcome {
            Ok(found) => problems.extend(found),
            Err(mistake) => problems.push(mistake),
        }
    }
    if case.responses() > 1 {
        problems.iter_mut().for_each(|p| *p = format!("response {}: {p}", index + 1));
    }
    problems
}

/// The expected status: one for all, one for each, or 200 unless raw bytes are expected.
fn status(case: &Case, index: usize) -> Option<u16> {
    match case.value("error_code") {
        Some(codes) => {
            let codes: Vec<&str> = codes.split_whitespace().collect();
            codes.get(if codes.len() == 1 { 0 } else { index })?.parse().ok()
        }
        None if case.value("raw_response").is_some() || case.value("raw_response_like").is_some() => None,
        None => Some(200),
    }
}

fn headers(case: &Case, vars: &Vars, index: usize, response: &Response) -> Result<Problems, String> {
    let mut problems = Problems::new();
    for line in vars.expand(&case.piece("response_headers", index).unwrap_or_default())?.lines() {
        if let Some(name) = line.strip_prefix('!') {
            if let Some(value) = response.header(name.trim()) {
                problems.push(format!("header {} must not be there, but is \"{value}\"", name.trim()));
            }
            continue;
        }
        let (name, wanted) = split_header(line)?;
        let actual = response.header(name);
        if actual.as_deref() != Some(wanted) {
            problems.push(format!("header {name} is {}, expected \"{wanted}\"", quoted(actual)));
        }
    }
    for line in vars.expand(&case.piece("response_headers_like", index).unwrap_or_default())?.lines() {
        let (name, wanted) = split_header(line)?;
        let actual = response.header(name);
        let regex = pattern(&format!("^(?:{wanted})$"))?;
        if !actual.as_ref().is_some_and(|a| regex.is_match(a.as_bytes())) {
            problems.push(format!("header {name} is {}, expected to match {wanted}", quoted(actual)));
        }
    }
    Ok(problems)
}

fn split_header(line: &str) -> Result<(&str, &str), String> {
    let (name, value) = line.split_once(':').ok_or_else(|| format!("\"{line}\" is no header line"))?;
    Ok((name.trim(), value.trim()))
}

fn quoted(value: Option<String>) -> String {
    value.map_or_else(|| "missing".to_owned(), |v| format!("\"{v}\""))
}

fn body(case: &Case, vars: &Vars, index: usize, response: &Response) -> Result<Problems, String> {
    let mut problems = Problems::new();
    let body = if case.value("gunzip").is_some() { gunzip(response)? } else { response.body.clone() };
    if let (Some(wanted), Some(section)) = (case.piece("response_body", index), case.section("response_body")) {
        let wanted = vars.expand(&wanted)?;
        let wanted = if section.escapes { sections::unescape(&wanted) } else { wanted.into_bytes() };
        if wanted != body {
            problems.push(output::difference("body", &text(&wanted), &text(&body)));
        }
    }
    if let Some(wanted) = case.piece("response_body_like", index) {
        let wanted = vars.expand(&wanted)?;
        if !pattern(&wanted)?.is_match(&body) {
            problems.push(format!("body does not match {}\n{}", wanted.trim_end(), output::tail(&text(&body), 12)));
        }
    }
    if let Some(unwanted) = case.piece("response_body_unlike", index) {
        let unwanted = vars.expand(&unwanted)?;
        if pattern(&unwanted)?.is_match(&body) {
            problems.push(format!("body matches {}\n{}", unwanted.trim_end(), output::tail(&text(&body), 12)));
        }
    }
    if let Some(size) = case.piece("response_body_size", index)
        && size.trim().parse() != Ok(body.len())
    {
        problems.push(format!("body has {} bytes, expected {}", body.len(), size.trim()));
    }
    Ok(problems)
}

fn gunzip(response: &Response) -> Result<Vec<u8>, String> {
    let encoding = response.header("Content-Encoding");
    if encoding.as_deref() != Some("gzip") {
        return Err(format!("Content-Encoding is {}, expected \"gzip\"", quoted(encoding)));
    }
    let mut body = Vec::new();
    MultiGzDecoder::new(response.body.as_slice()).read_to_end(&mut body).map_err(|e| format!("bad gzip data: {e}"))?;
    Ok(body)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks the bytes of the whole conversation.
pub(crate) fn raw(case: &Case, vars: &Vars, received: &[u8]) -> Result<Problems, String> {
    let mut problems = Problems::new();
    if let Some(wanted) = case.value("raw_response") {
        let lines = sections::unescape(&vars.expand(wanted)?.replace('\n', ""));
        if lines != received {
            let readable = |bytes: &[u8]| text(bytes).replace("\r\n", "\n");
            problems.push(output::difference("raw response", &readable(&lines), &readable(received)));
        }
    }
    if let Some(wanted) = case.value("raw_response_like") {
        let wanted = vars.expand(wanted)?;
        if !pattern(&wanted)?.is_match(received) {
            problems.push(format!(
                "raw response does not match {}\n{}",
                wanted.trim_end(),
                output::tail(&text(received), 20)
            ));
        }
    }
    if let Some(unwanted) = case.value("raw_response_unlike") {
        let unwanted = vars.expand(unwanted)?;
        if pattern(&unwanted)?.is_match(received) {
            problems.push(format!(
                "raw response matches {}\n{}",
                unwanted.trim_end(),
                output::tail(&text(received), 20)
            ));
        }
    }
    Ok(problems)
}

/// Checks what the scripted peer was sent.
///
/// # Errors
/// A malformed pattern.
pub(crate) fn query(case: &Case, vars: &Vars, received: &[u8]) -> Result<Problems, String> {
    let Some(wanted) = case.value("tcp_query_like") else { return Ok(Problems::new()) };
    let wanted = vars.expand(wanted)?;
    if pattern(&wanted)?.is_match(received) {
        return Ok(Problems::new());
    }
    let seen = output::tail(&text(received), 20);
    Ok(vec![format!("tcp_query does not match {}\n{seen}", wanted.trim_end())])
}

/// Checks what a finished server or command has written.
pub(crate) fn logs(case: &Case, site: &Site) -> Result<Problems, String> {
    let mut log = site.read("logs/error.log");
    if case.mode != Mode::Serve {
        log.push_str(&site.read("stderr"));
    }
    let mut problems = error_log(case, &site.vars, &log)?;
    let stderr = site.read("stderr");
    problems.extend(alarms(case, &site.vars, &log)?);
    let expected = expected_lines(case, &site.vars)?;
    if stderr.lines().any(|line| line.contains("panicked at") && !expected(line)) {
        problems.push(format!("the server panicked\n{}", output::tail(&stderr, 12)));
    }
    problems.extend([&log, &stderr].into_iter().find_map(|text| sanitizer_report(text)));
    for (name, actual) in [("stdout", site.read("stdout")), ("stderr", stderr)] {
        problems.extend(written(case, &site.vars, name, &actual)?);
    }
    problems.extend(output_files(case, site)?);
    Ok(problems)
}

/// What AddressSanitizer or valgrind has found, in a binary that runs under them: the beginning of the report.
fn sanitizer_report(text: &str) -> Option<String> {
    const LINES_MAX: usize = 40;
    let begin = ["ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "AddressSanitizer:DEADLYSIGNAL", "== Invalid "];
    let at = begin.iter().filter_map(|words| text.find(words)).min()?;
    Some(text[at..].lines().take(LINES_MAX).collect::<Vec<_>>().join("\n"))
}

fn lines<'a>(case: &Case, vars: &Vars, section: &str, store: &'a mut String) -> Result<Vec<&'a str>, String> {
    *store = vars.expand(case.value(section).unwrap_or_default())?;
    Ok(store.lines().filter(|l| !l.is_empty()).collect())
}

fn error_log(case: &Case, vars: &Vars, log: &str) -> Result<Problems, String> {
    let mut problems = Problems::new();
    let mut store = String::new();
    for wanted in lines(case, vars, "error_log", &mut store)? {
        if !log.contains(wanted) {
            problems.push(format!("error log lacks \"{wanted}\""));
        }
    }
    for wanted in lines(case, vars, "error_log_like", &mut store)? {
        if !pattern(wanted)?.is_match(log.as_bytes()) {
            problems.push(format!("no line of the error log matches {wanted}"));
        }
    }
    for unwanted in lines(case, vars, "no_error_log", &mut store)? {
        if let Some(line) = log.lines().find(|l| l.contains(unwanted)) {
            problems.push(format!("error log has \"{unwanted}\": {line}"));
        }
    }
    if let Some(grep) = case.value("grep_error_log") {
        let regex = pattern(grep)?;
        let found: String =
            log.lines().filter_map(|l| regex.find(l.as_bytes())).map(|m| text(m.as_bytes()) + "\n").collect();
        let wanted = vars.expand(case.value("grep_error_log_out").unwrap_or_default())?;
        if found != wanted {
            problems.push(output::difference("what grep_error_log found", &wanted, &found));
        }
    }
    Ok(problems)
}

/// Alarms in the log that the case does not name among its expectations. A configuration that must be refused, and a
/// command, may say what they like at these levels.
fn alarms(case: &Case, vars: &Vars, log: &str) -> Result<Problems, String> {
    let is_expected = expected_lines(case, vars)?;
    let levels = if case.mode == Mode::Serve { ALARMS } else { &ALARMS[3..] };
    let found = log.lines().filter(|l| levels.iter().any(|a| l.contains(a)) && !is_expected(l));
    Ok(found.map(|l| format!("unexpected in the error log: {l}")).collect())
}

/// Tells which lines of a log the case expects.
fn expected_lines(case: &Case, vars: &Vars) -> Result<impl Fn(&str) -> bool, String> {
    let (mut plain, mut like) = (String::new(), String::new());
    let expected: Vec<String> = lines(case, vars, "error_log", &mut plain)?.into_iter().map(str::to_owned).collect();
    let patterns =
        lines(case, vars, "error_log_like", &mut like)?.into_iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
    Ok(move |line: &str| {
        expected.iter().any(|e| line.contains(e)) || patterns.iter().any(|p| p.is_match(line.as_bytes()))
    })
}

fn written(case: &Case, vars: &Vars, name: &str, actual: &str) -> Result<Problems, String> {
    let mut problems = Problems::new();
    if let Some(wanted) = case.value(name) {
        let wanted = vars.expand(wanted)?;
        if wanted != actual {
            problems.push(output::difference(name, &wanted, actual));
        }
    }
    if let Some(wanted) = case.value(&format!("{name}_like")) {
        let wanted = vars.expand(wanted)?;
        if !pattern(&wanted)?.is_match(actual.as_bytes()) {
            problems.push(format!("{name} does not match {}\n{}", wanted.trim_end(), output::tail(actual, 20)));
        }
    }
    Ok(problems)
}

/// Sections of the shape `>>> path` and then text or a pattern.
fn output_files(case: &Case, site: &Site) -> Result<Problems, String> {
    let mut problems = Problems::new();
    for section in ["output_file", "output_file_like"] {
        let Some(value) = case.value(section) else { continue };
        let value = site.vars.expand(value)?;
        for part in value.split(">>>").skip(1) {
            let (path, wanted) = part.split_once('\n').unwrap_or((part, ""));
            let actual = site.read(path.trim());
            if section == "output_file" && wanted != actual {
                problems.push(output::difference(path.trim(), wanted, &actual));
            } else if section == "output_file_like" && !pattern(wanted)?.is_match(actual.as_bytes()) {
                problems.push(format!(
                    "{} does not match {}\n{}",
                    path.trim(),
                    wanted.trim_end(),
                    output::tail(&actual, 12)
                ));
            }
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::super::case;
    use super::*;

    #[track_caller]
    fn parse(expectations: &str) -> Case {
        let text = format!("=== t\n--- request\nGET /\n{expectations}");
        case::from_block("a/b", sections::parse(&text).unwrap().remove(0)).unwrap()
    }

    /// Problems that a response `201`, `A: 1`, `A: 2`, body `hello\n` has with these expectations.
    #[track_caller]
    fn check(expectations: &str, expected: &[&str]) {
        let header = |value: &str| ("A".to_owned(), value.to_owned());
        let found = Response {
            status: 201,
            headers: vec![header("1"), header("2")],
            body: b"hello\n".to_vec(),
            interim: Vec::new(),
        };
        assert_eq!(response(&parse(expectations), &Vars::default(), 0, &found), expected);
    }

    #[test]
    fn responses() {
        check("", &["status is 201, expected 200"]);
        check("--- error_code: 201\n--- response_body\nhello\n", &[]);
        check("--- error_code: 201\n--- response_headers\na: 1, 2\n!B\n", &[]);
        check(
            "--- error_code: 201\n--- response_headers\nB: x\n!A\n",
            &["header B is missing, expected \"x\"", "header A must not be there, but is \"1, 2\""],
        );
        check(
            "--- error_code: 201\n--- response_headers_like\nA: \\d\n",
            &["header A is \"1, 2\", expected to match \\d"],
        );
        check("--- error_code: 201\n--- response_body_like: ^h.*o$\n", &[]);
        check("--- error_code: 201\n--- response_body_unlike: l+\n", &["body matches l+\n      hello\n"]);
        check("--- error_code: 201\n--- response_body_size: 5\n", &["body has 6 bytes, expected 5"]);
        check("--- error_code: 201\n--- gunzip\n", &["Content-Encoding is missing, expected \"gzip\""]);
    }

    #[track_caller]
    fn check_log(expectations: &str, log: &str, expected: &[&str]) {
        let case = parse(expectations);
        let mut problems = error_log(&case, &Vars::default(), log).unwrap();
        problems.extend(alarms(&case, &Vars::default(), log).unwrap());
        assert_eq!(problems, expected);
    }

    #[test]
    fn reports_of_sanitizers() {
        assert_eq!(sanitizer_report("a line\n"), None);
        let text = "=1==ERROR: AddressSanitizer: heap-use-after-free on address\nREAD of size 8\n";
        assert_eq!(
            sanitizer_report(text).as_deref(),
            Some("ERROR: AddressSanitizer: heap-use-after-free on address\nREAD of size 8")
        );
    }

    #[test]
    fn logs() {
        check_log("", "[error] a\n", &[]);
        check_log("", "[alert] a\n", &["unexpected in the error log: [alert] a"]);
        check_log("--- error_log\nan alert\n", "[alert] an alert\n", &[]);
        check_log("--- error_log_like: al.rt\n", "[alert] an alert\n", &[]);
        check_log("--- error_log\na\nb\n", "a\n", &["error log lacks \"b\""]);
        check_log("--- no_error_log\nb\n", "a\nb c\n", &["error log has \"b\": b c"]);
        check_log("--- grep_error_log: [0-9]+\n--- grep_error_log_out\n1\n22\n", "a 1\nb\n22 c\n", &[]);
    }
}
