//! One case: what its sections say, checked as far as that is possible before a server runs.

use super::script::{self, Step};
use crate::process::patient;
use crate::sections::{self, Block, Section};
use crate::services::Service;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a case waits for a byte, unless it says `--- timeout`. Long enough for a loaded CI machine.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Every section that a case may have, in the order in which `docs/testing.md` explains them.
const SECTIONS: &[&str] = &[
    "config",
    "http_config",
    "main_config",
    "events",
    "conf_file",
    "user_files",
    "services",
    "needs",
    "master",
    "log_level",
    "request",
    "requests",
    "pipelined_requests",
    "raw_request",
    "more_headers",
    "later_files",
    "later_config",
    "tcp_reply",
    "tcp_query_like",
    "tcp_request_end",
    "timeout",
    "abort",
    "shutdown",
    "error_code",
    "response_headers",
    "response_headers_like",
    "response_body",
    "response_body_like",
    "response_body_unlike",
    "response_body_size",
    "gunzip",
    "raw_response",
    "raw_response_like",
    "raw_response_unlike",
    "connection",
    "error_log",
    "error_log_like",
    "no_error_log",
    "grep_error_log",
    "grep_error_log_out",
    "output_file",
    "output_file_like",
    "must_die",
    "args",
    "exit_code",
    "stdout",
    "stdout_like",
    "stderr",
    "stderr_like",
    "tidegate_only",
    "SKIP",
];

/// What a case does with the binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Start a server, talk to it, stop it.
    Serve,
    /// The configuration must be refused with this exit status.
    MustDie { code: i32 },
    /// Run the binary with these arguments to its end.
    Command { args: Vec<String>, code: i32 },
}

/// One named end-to-end test.
pub(crate) struct Case {
    /// `area/file: TEST n: title`.
    pub(crate) name: String,
    /// The file, relative to the repository, and the line of the title.
    pub(crate) place: String,
    pub(crate) mode: Mode,
    pub(crate) steps: Vec<Step>,
    /// Processes that `$TEST_…` variables of the case refer to.
    pub(crate) services: Vec<Service>,
    pub(crate) timeout: Duration,
    /// Runs under the supervisor instead of as a single process.
    pub(crate) master: bool,
    /// Why the real nginx is not asked.
    pub(crate) tidegate_only: Option<String>,
    /// Why the case does not run at all; counted and printed.
    pub(crate) skip: Option<String>,
    /// Whether it uses IPv6's loopback address, which some machines lack.
    pub(crate) needs_ipv6: bool,
    pub(crate) block: Block,
}

impl Case {
    /// A section's value before substitution.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.block.value(name)
    }

    /// A section, for its filters.
    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.block.section(name)
    }

    /// How many responses the steps ask for.
    pub(crate) fn responses(&self) -> usize {
        self.steps.iter().map(|s| s.methods.len()).sum()
    }

    /// The piece of a list section that belongs to response `index`; a single piece belongs to all of them.
    pub(crate) fn piece(&self, name: &str, index: usize) -> Option<String> {
        let section = self.section(name)?;
        let mut pieces = sections::pieces(&section.value);
        let at = if pieces.len() == 1 { 0 } else { index };
        let mut text = (at < pieces.len()).then(|| pieces.swap_remove(at).text)?;
        if section.chomp && text.ends_with('\n') {
            text.pop();
        }
        Some(text)
    }
}

/// Reads every `.t` file below `root`, in the order of their names.
///
/// # Errors
/// Names the file and line of the first mistake.
pub(crate) fn load(root: &Path) -> Result<Vec<Case>, String> {
    let mut files = Vec::new();
    find_files(root, &mut files)?;
    files.sort();
    let mut cases = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let label = file.strip_prefix(root).unwrap_or(file).with_extension("").display().to_string();
        cases.extend(parse_file(&label, &text).map_err(|e| format!("{}: {e}", file.display()))?);
    }
    Ok(cases)
}

/// A case from elsewhere: a benchmark with one request.
///
/// # Errors
/// When its sections make no case.
pub(crate) fn from_block(label: &str, block: Block) -> Result<Case, String> {
    let mut case = parse_case(label, block)?;
    case.place = label.to_owned();
    Ok(case)
}

fn find_files(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let unreadable = |e| format!("{}: {e}", dir.display());
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            find_files(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "t") {
            files.push(path);
        }
    }
    Ok(())
}

fn parse_file(label: &str, text: &str) -> Result<Vec<Case>, String> {
    let mut names = HashSet::new();
    let mut cases = Vec::new();
    for block in sections::parse(text)? {
        let line = block.line;
        let case = parse_case(label, block).map_err(|e| format!("case of line {line}: {e}"))?;
        if !names.insert(case.name.clone()) {
            return Err(format!("line {line}: a second case \"{}\"", case.name));
        }
        cases.push(case);
    }
    Ok(cases)
}

fn parse_case(label: &str, block: Block) -> Result<Case, String> {
    block.expect_names(SECTIONS)?;
    let mode = parse_mode(&block)?;
    let steps = if mode == Mode::Serve { script::parse(&block)? } else { Vec::new() };
    let case = Case {
        name: format!("{label}: {}", block.title),
        place: format!("tests/cases/{label}.t:{}", block.line),
        steps,
        services: parse_services(&block)?,
        timeout: patient(block.value("timeout").map_or(Ok(TIMEOUT_DEFAULT), script::parse_duration)?),
        master: block.value("master").is_some_and(|v| v == "on"),
        tidegate_only: block.value("tidegate_only").map(str::to_owned),
        skip: block.value("SKIP").map(str::to_owned),
        needs_ipv6: parse_needs(&block)?,
        mode,
        block,
    };
    check_consistency(&case)?;
    Ok(case)
}

fn parse_mode(block: &Block) -> Result<Mode, String> {
    let code = |name: &str, default: i32| match block.value(name).map(str::trim) {
        None | Some("") => Ok(default),
        Some(text) => text.parse().map_err(|_| format!("\"{text}\" in section \"{name}\" is no exit status")),
    };
    if block.value("must_die").is_some() {
        return Ok(Mode::MustDie { code: code("must_die", 1)? });
    }
    let Some(args) = block.value("args") else { return Ok(Mode::Serve) };
    let args = args.split_whitespace().map(str::to_owned).collect();
    Ok(Mode::Command { args, code: code("exit_code", 0)? })
}

fn parse_needs(block: &Block) -> Result<bool, String> {
    match block.value("needs").map(str::trim) {
        None => Ok(false),
        Some("ipv6") => Ok(true),
        Some(other) => Err(format!("\"{other}\" in section \"needs\" is not known")),
    }
}

fn parse_services(block: &Block) -> Result<Vec<Service>, String> {
    let words = block.value("services").unwrap_or_default().split_whitespace();
    words.map(|w| Service::named(w).ok_or_else(|| format!("unknown service \"{w}\""))).collect()
}

/// Sections whose pieces belong to one response each.
const PER_RESPONSE: &[&str] = &[
    "response_headers",
    "response_headers_like",
    "response_body",
    "response_body_like",
    "response_body_unlike",
    "response_body_size",
];

fn check_consistency(case: &Case) -> Result<(), String> {
    let responses = case.responses();
    for name in PER_RESPONSE {
        let Some(value) = case.value(name) else { continue };
        let count = sections::pieces(value).len();
        if count != 1 && count != responses {
            return Err(format!("section \"{name}\" has {count} pieces for {responses} responses"));
        }
    }
    let codes = case.value("error_code").map_or(1, |v| v.split_whitespace().count());
    if codes != 1 && codes != responses {
        return Err(format!("section \"error_code\" has {codes} values for {responses} responses"));
    }
    let is_serving = case.mode == Mode::Serve;
    if is_serving && case.steps.is_empty() && case.skip.is_none() && case.value("error_log").is_none() {
        return Err("no request, and nothing else that the case would check".to_owned());
    }
    if case.value("conf_file").is_some() && case.value("config").is_some() {
        return Err("\"conf_file\" is the whole configuration: it cannot stand beside \"config\"".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn parse_one(text: &str) -> Result<Case, String> {
        parse_file("area/file", text).map(|mut cases| cases.remove(0))
    }

    #[test]
    fn a_case_is_named_by_file_and_title() {
        let case = parse_one("=== TEST 1: hello\n--- config\n--- request\nGET /\n--- services: memcached\n").unwrap();
        assert_eq!(case.name, "area/file: TEST 1: hello");
        assert_eq!(case.place, "tests/cases/area/file.t:1");
        assert_eq!(case.services, [Service::Memcached]);
        assert_eq!(case.mode, Mode::Serve);
    }

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        let Err(message) = parse_one(text) else { panic!("accepted") };
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn mistakes_are_found_before_a_server_runs() {
        check_refused("=== a\n--- requst\nGET /\n", "unknown section \"requst\"");
        check_refused("=== a\n--- config\n", "no request");
        check_refused("=== a\n--- request\nGET /\n--- services: oracle\n", "unknown service \"oracle\"");
        check_refused("=== a\n--- request\nGET /\n--- error_code: 200 404\n", "2 values for 1 responses");
        check_refused("=== a\n--- request\nGET /\n--- response_body\na\n~~~\nb\n", "2 pieces for 1 responses");
        check_refused("=== a\n--- request\nGET /\n--- conf_file\n--- config\n", "whole configuration");
        check_refused("=== a\n--- must_die: x\n", "no exit status");
        check_refused("=== a\n--- request\nGET /\n=== a\n--- request\nGET /\n", "a second case");
    }
}
