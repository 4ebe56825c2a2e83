//! `cargo xtask conformance --handlersocket DIR`: the regression scripts of the plug-in HandlerSocket at the plug-in in Debian's
//! MariaDB and at our ports.
//!
//! `DIR` is a checkout of DeNA/HandlerSocket-Plugin-for-MySQL, which stays as it is: its client for Perl is built from a copy. Each
//! script creates its table over MySQL's protocol, asks over HandlerSocket's, and prints what must be in a file beside it; spaces
//! are compared as the suite does itself. What does not pass here must stand in `conformance/handlersocket-causes.txt`.

use super::binary;
use super::cache_tests::wait_for;
use super::nginx_tests::said_by;
use crate::paths::{self, Scratch};
use crate::ports::free_port;
use crate::process::{Process, patient};
use crate::services::{self, Service};
use crate::terminal;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longest time for one script; the longest takes seconds.
const SCRIPT_MAX: Duration = Duration::from_secs(120);

/// Scripts ask for the port for writing by its usual number, in these words.
const WRITE_PORT: &str = "get_hs_connection(undef, 9999)";

/// Where a server under test listens.
struct Ports {
    mysql: String,
    read: String,
    write: String,
}

/// How one script ended at one server.
struct Ended {
    /// The first difference from what the script expects; `None` if there is none.
    difference: Option<String>,
    /// All that it printed.
    output: Vec<u8>,
}

type Outcome = BTreeMap<String, Ended>;

/// Runs the scripts and writes `conformance/handlersocket.md`. False when a script fails at our ports for a reason that is not
/// known, or passes against expectation.
///
/// # Errors
/// When the checkout, a compiler, MariaDB's plug-in, Perl's DBD::mysql or the binary is missing, or the page cannot be written.
pub(super) fn run(options: &super::Options) -> Result<bool, String> {
    let suite = fs::canonicalize(&options.dir).map_err(|e| format!("{}: {e}", options.dir.display()))?;
    if !suite.join("regtest/test_01_lib").is_dir() || !suite.join("libhsclient").is_dir() {
        return Err(format!("{} is no checkout of HandlerSocket-Plugin-for-MySQL", suite.display()));
    }
    let causes = read_causes()?;
    let ours = binary(options)?;
    let scratch = Scratch::new("handlersocket", false)?;
    terminal::heading("the client");
    let client = build_client(&suite, scratch.path())?;
    terminal::heading("the plug-in");
    let plugin = {
        let mariadb = services::start(&[Service::MariaDb])?;
        let vars = mariadb.vars();
        let port = |name| vars.get(name).map(str::to_owned).ok_or("MariaDB has no plug-in handlersocket.so");
        let ports = Ports {
            mysql: port("TEST_MARIADB_PORT")?,
            read: port("TEST_HANDLERSOCKET_PORT")?,
            write: port("TEST_HANDLERSOCKET_WRITE_PORT")?,
        };
        run_scripts(&suite, &client, &scratch.path().join("plugin"), &ports)?
    };
    terminal::heading("ours");
    let outcome = {
        let (_server, ports) = start(&ours, &scratch.path().join("site"))?;
        run_scripts(&suite, &client, &scratch.path().join("ours"), &ports)?
    };
    let revision = said_by("git", &["-C", &suite.to_string_lossy(), "log", "-1", "--format=%h of %cs"]);
    let page = paths::repository().join("conformance/handlersocket.md");
    fs::write(&page, markdown(&plugin, &outcome, &causes, &revision))
        .map_err(|e| format!("{}: {e}", page.display()))?;
    println!("page: {}", page.display());
    let surprises = surprises(&outcome, &causes);
    for surprise in &surprises {
        println!("{}", terminal::red(surprise));
    }
    Ok(surprises.is_empty())
}

/// The client for Perl, built below `scratch`; what Perl needs to find it.
fn build_client(suite: &Path, scratch: &Path) -> Result<PathBuf, String> {
    // The client includes the library's headers by the name of the directory where they would be installed.
    let library = scratch.join("handlersocket");
    copy(&suite.join("libhsclient"), &library)?;
    let client = scratch.join("perl-Net-HandlerSocket");
    copy(&suite.join("perl-Net-HandlerSocket"), &client)?;
    let include = format!("INC=-I. -I{} -I{}", scratch.display(), library.display());
    let libraries = format!("LIBS=-L{} -lhsclient", library.display());
    let steps: [(&Path, &[&str]); 4] = [
        (
            &library,
            &[
                "sh",
                "-c",
                "g++ -fPIC -O1 -w -c config.cpp escape.cpp fatal.cpp hstcpcli.cpp socket.cpp string_util.cpp",
            ],
        ),
        (&library, &["sh", "-c", "ar rcs libhsclient.a *.o"]),
        (&client, &["perl", "Makefile.PL.installed", &include, &libraries, "OPTIMIZE=-O1 -w"]),
        (&client, &["make"]),
    ];
    for (dir, step) in steps {
        let output = Command::new(step[0]).args(&step[1..]).current_dir(dir).stdin(Stdio::null()).output();
        let output = output.map_err(|e| format!("{}: {e}", step[0]))?;
        if !output.status.success() {
            return Err(format!("{} ended with {}:\n{}", step.join(" "), output.status, text(&output.stderr)));
        }
    }
    let library_path = format!("{}/blib/lib:{0}/blib/arch", client.display());
    let check = perl(&library_path).args(["-MDBI", "-MDBD::mysql", "-MNet::HandlerSocket", "-e", "1"]).output();
    let check = check.map_err(|e| format!("perl: {e}"))?;
    if !check.status.success() {
        return Err(format!("Perl cannot load the client or DBD::mysql: {}", text(&check.stderr)));
    }
    Ok(PathBuf::from(library_path))
}

/// Perl with this and the user's own directories of modules.
fn perl(library_path: &str) -> Command {
    let mut command = Command::new("perl");
    let users = std::env::var("PERL5LIB").unwrap_or_default();
    command.env("PERL5LIB", format!("{library_path}:{users}")).stdin(Stdio::null());
    command
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let status = Command::new("cp").arg("-r").arg(from).arg(to).status().map_err(|e| format!("cp: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("cannot copy {}", from.display())) }
}

/// Our server with a database of its own in `site`.
fn start(program: &Path, site: &Path) -> Result<(Process, Ports), String> {
    let [mysql, read, write, http] = [(); 4].map(|()| free_port());
    let user = if nix::unistd::geteuid().is_root() { "user root;" } else { "" };
    let conf = format!(
        "{user} daemon off; master_process off; pid nginx.pid; error_log error.log;\nevents {{ }}\n\
         database {{\npath data; user root password=;\nlisten 127.0.0.1:{mysql} mysql;\n\
         listen 127.0.0.1:{read} handlersocket;\nlisten 127.0.0.1:{write} handlersocket write;\n}}\n\
         http {{ access_log off; server {{ listen 127.0.0.1:{http}; }} }}\n"
    );
    fs::create_dir(site)
        .and_then(|()| fs::write(site.join("nginx.conf"), conf))
        .map_err(|e| format!("{}: {e}", site.display()))?;
    let mut server = Command::new(program);
    server.arg("-p").arg(site).args(["-c", "nginx.conf", "-e", "error.log"]).stdin(Stdio::null());
    let server = Process::spawn(&mut server)?;
    for port in [mysql, read, write] {
        wait_for(port)?;
    }
    let [mysql, read, write] = [mysql, read, write].map(|port| port.to_string());
    Ok((server, Ports { mysql, read, write }))
}

/// Runs all scripts in a copy of `regtest` at `copied`, which asks at these ports.
fn run_scripts(suite: &Path, client: &Path, copied: &Path, ports: &Ports) -> Result<Outcome, String> {
    copy(&suite.join("regtest"), copied)?;
    let dir = copied.join("test_01_lib");
    let mut outcome = Outcome::new();
    for number in numbers(&dir)? {
        let ended = run_script(&dir, &number, &client.to_string_lossy(), ports)?;
        println!("{number}: {}", ended.difference.as_deref().unwrap_or("passes"));
        outcome.insert(number, ended);
    }
    if outcome.is_empty() { Err(format!("{} has no scripts", dir.display())) } else { Ok(outcome) }
}

/// What stands between `test` and `.pl` in the names of scripts that expect something, in order.
fn numbers(dir: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut numbers: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            Some(entry.file_name().to_str()?.strip_prefix("test")?.strip_suffix(".expected")?.to_owned())
        })
        .collect();
    numbers.sort();
    Ok(numbers)
}

fn run_script(dir: &Path, number: &str, library_path: &str, ports: &Ports) -> Result<Ended, String> {
    let [script, printed, errors, expected] =
        ["pl", "log", "log2", "expected"].map(|suffix| dir.join(format!("test{number}.{suffix}")));
    let failed = |file: &Path| format!("{}: cannot be read or written", file.display());
    let source = fs::read_to_string(&script).map_err(|_| failed(&script))?;
    let source = source.replace(WRITE_PORT, &format!("get_hs_connection(undef, {})", ports.write));
    fs::write(&script, source).map_err(|_| failed(&script))?;
    let mut command = perl(library_path);
    command.args(["-I../common", "-I."]).arg(&script).current_dir(dir);
    command.env("MYHOST", "127.0.0.1").env("MYPORT", &ports.mysql).env("HSPORT", &ports.read);
    command.stdout(File::create(&printed).map_err(|_| failed(&printed))?);
    command.stderr(File::create(&errors).map_err(|_| failed(&errors))?);
    let mut process = Process::spawn(&mut command)?;
    let status = process.wait(patient(SCRIPT_MAX));
    drop(process);
    let mut diff = Command::new("diff");
    diff.args(["--text", "--ignore-space-change", "--strip-trailing-cr", "--unified=0"]).arg(&expected).arg(&printed);
    let diff = diff.output().map_err(|e| format!("diff: {e}"))?;
    let said = fs::read(&errors).unwrap_or_default();
    let said = text(&said);
    let difference = match status {
        None => Some(format!("not done after {SCRIPT_MAX:?}")),
        Some(_) if diff.status.success() => None,
        Some(_) => Some(first_difference(&text(&diff.stdout), said.lines().next())),
    };
    Ok(Ended { difference, output: fs::read(&printed).map_err(|_| failed(&printed))? })
}

/// The first line that is missing and the first that is too much in a unified diff, and what the script complained of.
fn first_difference(diff: &str, complaint: Option<&str>) -> String {
    let lines = || diff.lines().skip_while(|line| !line.starts_with("@@")).filter(|line| !line.starts_with("@@"));
    let mut parts = Vec::new();
    for (word, sign) in [("expected", '-'), ("got", '+')] {
        if let Some(line) = lines().find_map(|line| line.strip_prefix(sign)) {
            parts.push(format!("{word} `{}`", line.escape_debug()));
        }
    }
    // Without its place: that is a name of the moment.
    parts.extend(complaint.map(|line| line.split(" at ").next().unwrap_or(line).to_owned()));
    parts.join(", ")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read_causes() -> Result<BTreeMap<String, String>, String> {
    let file = paths::repository().join("conformance/handlersocket-causes.txt");
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(parse_causes(&text))
}

fn parse_causes(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(number, why)| (number.to_owned(), why.to_owned())).collect()
}

/// Scripts that end otherwise than the causes say.
fn surprises(ours: &Outcome, causes: &BTreeMap<String, String>) -> Vec<String> {
    let surprise = |(number, ended): (&String, &Ended)| match (&ended.difference, causes.contains_key(number)) {
        (Some(difference), false) => Some(format!("{number} fails: {difference}")),
        (None, true) => Some(format!("{number} passes, but stands in handlersocket-causes.txt")),
        _ => None,
    };
    ours.iter().filter_map(surprise).collect()
}

const HEAD: &str = "# The plug-in HandlerSocket's own scripts

`cargo xtask conformance --handlersocket DIR` runs the regression scripts of a checkout of DeNA/HandlerSocket-Plugin-for-MySQL (on GitHub) at
the plug-in in Debian's MariaDB and at the ports of our debug build, and writes this page. It needs Perl's `DBD::mysql` (Debian's
`libdbd-mysql-perl`, or a directory in `PERL5LIB`). The reasons are those of `handlersocket-causes.txt`; a script that fails without one fails the command.
";

fn markdown(plugin: &Outcome, ours: &Outcome, causes: &BTreeMap<String, String>, revision: &str) -> String {
    let today = said_by("date", &["+%F"]);
    let passed = |outcome: &Outcome| outcome.values().filter(|ended| ended.difference.is_none()).count();
    let same = ours.iter().filter(|(number, ended)| plugin.get(*number).is_some_and(|p| p.output == ended.output));
    let mut text = format!(
        "{HEAD}\nRevision {revision}, run on {today}.\n\n| scripts | the plug-in passes | ours | same output, byte for byte |\n| ---: | ---: | ---: | ---: |\n"
    );
    let _ = writeln!(text, "| {} | {} | {} | {} |", ours.len(), passed(plugin), passed(ours), same.count());
    text.push_str("\n## What does not pass\n\n| script | the plug-in | ours | reason |\n| --- | --- | --- | --- |\n");
    for (number, ended) in ours {
        let theirs = plugin.get(number).and_then(|ended| ended.difference.as_deref());
        let cause = causes.get(number).map_or("", String::as_str);
        if theirs.is_some() || ended.difference.is_some() {
            let [theirs, ours] = [theirs, ended.difference.as_deref()].map(|difference| difference.unwrap_or("passes"));
            let _ = writeln!(
                text,
                "| {number} | {} | {} | {cause} |",
                theirs.replace('|', "\\|"),
                ours.replace('|', "\\|")
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(scripts: [(&str, Option<&str>, &str); 3]) -> Outcome {
        let ended = |difference: Option<&str>, output: &str| Ended {
            difference: difference.map(str::to_owned),
            output: output.as_bytes().to_vec(),
        };
        scripts.map(|(number, difference, output)| (number.to_owned(), ended(difference, output))).into()
    }

    #[test]
    fn the_page_has_what_does_not_pass() {
        let plugin = outcome([("01", None, "a"), ("02", Some("x|y"), "b"), ("03", None, "c")]);
        let ours = outcome([("01", None, "a"), ("02", Some("x|y"), "b"), ("03", Some("got z"), "z")]);
        let text = markdown(&plugin, &ours, &parse_causes("# 03 no\n03 too new\n"), "1");
        assert!(text.contains("| 3 | 2 | 1 | 2 |"), "{text}");
        assert!(text.contains("| 02 | x\\|y | x\\|y |  |\n| 03 | passes | got z | too new |"), "{text}");
    }

    #[test]
    fn what_no_cause_explains_is_told() {
        let ours = outcome([("01", None, ""), ("02", Some("x"), ""), ("03", Some("y"), "")]);
        assert_eq!(surprises(&ours, &parse_causes("02 a b\n03 c\n")), Vec::<String>::new());
        assert_eq!(
            surprises(&ours, &parse_causes("01 a\n03 c\n")),
            ["01 passes, but stands in handlersocket-causes.txt", "02 fails: x"]
        );
    }

    #[test]
    fn the_first_difference_names_both_sides() {
        let diff = "--- test.expected\n+++ test.log\n@@ -1 +1 @@\n-a\tb\n+c\n@@ -9 +9 @@\n-d\n";
        assert_eq!(first_difference(diff, None), "expected `a\\tb`, got `c`");
        assert_eq!(first_difference("", Some("no at x.pl line 1.")), "no");
        assert_eq!(first_difference("@@ -1 +0,0 @@\n-a\n", Some("died")), "expected `a`, died");
    }
}
