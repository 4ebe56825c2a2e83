//! A server process that ends with the tests.

use std::{
    path::Path,
    process::{Command, Stdio},
};

/// Runs the server until standard input ends, which it does when the process that holds the other end is gone. A file
/// `keep` keeps its directory.
const RUN_UNTIL_ABANDONED: &str = r#"
dir=$1; shift
"$@" >"$dir/log" 2>&1 </dev/null &
pid=$!
cat >/dev/null
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
[ -e "$dir/keep" ] || rm -rf "$dir"
"#;

/// A command that runs `program`, with the arguments that are added, until nobody holds its standard input. `dir` goes with it.
pub(crate) fn until_abandoned(dir: &Path, program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", RUN_UNTIL_ABANDONED, "sh"]).args([dir, program]).stdin(Stdio::piped());
    command
}
