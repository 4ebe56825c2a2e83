//! Programs of others that the demo shows, where they are installed: PHP's process manager and memcached.
//!
//! They get sockets in the demo's directory and end with the demo, in whatever way that ends.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Runs a program until the input ends: the demo holds the other end of it, which closes with the demo. A signal may be for all
/// programs of the terminal; the program has to end then, too.
const LEASH: &str = r#"trap : INT TERM HUP; "$@" & read -r _; kill $!; wait $!"#;

/// A program that was started; it ends when this is dropped.
pub(super) struct Tool(Child);

impl Drop for Tool {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // Whether it was still there makes no difference.
        let _ = self.0.wait();
    }
}

/// Starts what is installed. What is not, or does not start, is missing in the demo, which has words for that.
pub(super) fn start(directory: &Path) -> Vec<Tool> {
    let is_root = nix::unistd::geteuid().is_root();
    // A demo that was killed may have left them, and the configuration takes memcached's for a sign that it runs.
    for socket in ["memcached.sock", "php.sock"] {
        let _ = fs::remove_file(directory.join(socket));
    }
    let commands = [memcached(is_root), php(directory, is_root)];
    commands.into_iter().flatten().filter_map(|command| leashed(&command, directory).ok()).collect()
}

fn leashed(command: &Command, directory: &Path) -> io::Result<Tool> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", LEASH, "sh"]).arg(command.get_program()).args(command.get_args());
    shell.current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.spawn().map(Tool)
}

/// memcached with little memory, on a socket that is nobody else's.
fn memcached(is_root: bool) -> Option<Command> {
    let mut command = Command::new(find("memcached")?);
    command.args(["--memory-limit=8", "--threads=1", "--unix-socket=memcached.sock"]);
    if is_root {
        command.arg("--user=root");
    }
    Some(command)
}

/// PHP's process manager, with processes for as long as somebody asks for a page.
fn php(directory: &Path, is_root: bool) -> Option<Command> {
    let mut command = Command::new(find("php-fpm")?);
    let user = if is_root { "user = root\ngroup = root\n" } else { "" };
    let conf = format!(
        "; Written by tidegate demo.\n[global]\nerror_log = logs/php-fpm.log\ndaemonize = no\n\
         [demo]\n{user}listen = php.sock\npm = ondemand\npm.max_children = 4\n"
    );
    fs::write(directory.join("php-fpm.conf"), conf).ok()?;
    command.args(["--nodaemonize", "--prefix"]).arg(directory).arg("--fpm-config").arg(directory.join("php-fpm.conf"));
    if is_root {
        command.arg("--allow-to-run-as-root");
    }
    Some(command)
}

/// A program of that name, or with its version behind the name, as in Debian's `php-fpm8.2`. Where there are programs for users,
/// those for administrators are beside.
fn find(name: &str) -> Option<PathBuf> {
    let is_version = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .flat_map(|directory| [directory.with_file_name("sbin"), directory])
        .filter_map(|directory| directory.read_dir().ok())
        .flat_map(|entries| entries.flatten())
        .find(|entry| entry.file_name().to_str().and_then(|file| file.strip_prefix(name)).is_some_and(is_version))
        .map(|entry| entry.path())
}
