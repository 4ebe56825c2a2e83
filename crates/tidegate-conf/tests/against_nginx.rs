//! The words that nginx reads are the words that we read.
//!
//! Runs `nginx -t` on random text inside `types { }`, whose entries may be any words. Compared is nginx's first error,
//! or else its warnings about extensions that appear twice, which print the words.
//!
//! `cargo test -p tidegate-conf --test against_nginx -- --ignored`, with nginx on the `PATH`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use tidegate_conf::{Body, Diagnostics, Directive, ParseOptions, SourceMap, Span, parse_file};

const ROUNDS: usize = 1500;

const HARMLESS: &[&str] = &[
    "a",
    "b ",
    "b ",
    " ",
    "\n",
    " ;\n",
    "x;",
    "y z;\n",
    "a A;",
    " z",
    " \"z\" ",
    "${x}",
    " \"c d\" ",
    " 'e' ",
    ")",
    "\t",
    "=",
    "\\n",
    "\\t",
    "\\\\",
    "\\\"",
    "\\;",
    "\\ ",
    "\"\";\n",
    " \"\\'\" ",
    "#c\n",
    "$",
];
const HARMFUL: &[&str] = &["\"", "'", "{", "}", "\\", "#", ";", "\r", "\"f\"", "${"];

#[test]
#[ignore = "needs nginx"]
fn random_words() {
    let folder = std::env::temp_dir().join(format!("tidegate-conf-{}-nginx", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for tests");
    let path = folder.join("nginx.conf");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut compared = 0;
    for _ in 0..ROUNDS {
        let soup = soup(&mut random);
        let end = if random.below(5) == 0 { "" } else { ";\n}}\n" };
        fs::write(&path, format!("events {{}}\nhttp {{ types {{\n{soup}{end}")).expect("a file for tests");
        let Some(theirs) = nginx(&path) else { continue };
        assert_eq!(ours(&path), theirs, "{soup:?}");
        compared += 1;
    }
    let _ = fs::remove_dir_all(&folder);
    assert!(compared > ROUNDS / 2, "nginx answered only {compared} times");
}

fn soup(random: &mut Random) -> String {
    let harm = random.below(3);
    let mut soup = String::new();
    for _ in 0..random.below(20) + 1 {
        let pieces = if random.below(8) < harm { HARMFUL } else { HARMLESS };
        soup.push_str(pieces[random.below(pieces.len())]);
    }
    // Twice, so that there are warnings to compare.
    if random.below(2) == 0 { format!("{soup};\nq {soup}") } else { soup }
}

/// What nginx says; `None` where text left the `types` block and met directives.
fn nginx(path: &Path) -> Option<String> {
    let pid = format!("pid {};", path.with_extension("pid").display());
    let output = Command::new("nginx").args(["-t", "-q", "-e", "stderr", "-g", &pid, "-c"]).arg(path).output();
    let log = String::from_utf8(output.expect("nginx on the PATH").stderr).ok()?;
    let mut messages = Vec::new();
    for line in log.split_inclusive('\n') {
        let started = line.split_once("[emerg] ").or_else(|| line.split_once("[warn] "));
        match started.and_then(|(_, rest)| rest.split_once(": ")) {
            Some((_, message)) if line.contains("[emerg]") => return first_error(&log, message),
            Some((_, message)) => messages.push(message.to_owned()),
            None if line.starts_with("nginx: ") => {}
            // A line break inside of a word.
            None => messages.last_mut()?.push_str(line),
        }
    }
    Some(messages.concat())
}

fn first_error(log: &str, message: &str) -> Option<String> {
    let about_directives = ["unknown directive", "is not allowed here", "invalid number of arguments"];
    (!about_directives.iter().any(|words| log.contains(words))).then(|| message.to_owned())
}

/// What nginx would say.
fn ours(path: &Path) -> String {
    let (mut sources, mut diagnostics) = (SourceMap::new(), Diagnostics::new());
    let tree = parse_file(path, &mut sources, &ParseOptions::default(), &mut diagnostics);
    let entries = tree.iter().flat_map(Directive::children).flat_map(Directive::children);
    let entries: Vec<&Directive> = entries.collect();
    for entry in entries.iter().filter(|entry| matches!(entry.body, Body::Block(_))) {
        let brace = Span { start: entry.head_end - 1, end: entry.head_end, ..entry.span };
        diagnostics.error(brace, "unexpected \"{\"");
    }
    let first = diagnostics.iter().min_by_key(|diagnostic| diagnostic.span.map(|span| span.start));
    if let Some(error) = first {
        return error.one_line(&sources) + "\n";
    }
    let mut types: HashMap<Vec<u8>, &Directive> = HashMap::new();
    let mut warnings = String::new();
    for entry in entries {
        for arg in &entry.args {
            let extension = arg.value.to_ascii_lowercase();
            let shown = String::from_utf8_lossy(&extension).into_owned();
            if let Some(previous) = types.insert(extension, entry) {
                warnings += &format!(
                    "duplicate extension \"{shown}\", content type: \"{}\", previous content type: \"{}\" in {}:{}\n",
                    entry.name(),
                    previous.name(),
                    path.display(),
                    entry.head_end_line(&sources),
                );
            }
        }
    }
    warnings
}

/// A xorshift generator: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}
