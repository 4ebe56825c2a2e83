//! PHP, as the stacks with it share it: scripts, the process manager.

use super::{Lack, Part, Setup};
use crate::matrix::Service;
use crate::places;
use crate::process::{POLL, Process};
use crate::services;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

/// The version of the process manager.
pub(super) fn find_fpm() -> Result<String, String> {
    let program = fpm()?;
    Ok(crate::machine::first_line(&program.to_string_lossy(), &["-v"]))
}

fn fpm() -> Result<PathBuf, String> {
    places::versioned_program("php-fpm").ok_or_else(|| "php-fpm is not installed".to_owned())
}

/// Whether PHP lacks the driver for MariaDB.
pub(super) fn without_database() -> Option<(Lack, String)> {
    let output = std::process::Command::new(fpm().ok()?).arg("-m").output().ok()?;
    let has_it = String::from_utf8_lossy(&output.stdout).lines().any(|line| line == "mysqli");
    (!has_it).then(|| (Lack::Service(Service::MariaDb), "PHP has no mysqli (Debian: apt install php-mysql)".to_owned()))
}

/// The scripts, in `html`.
pub(super) fn write_scripts(setup: &Setup<'_>) -> Result<(), String> {
    setup.write("html/hello.php", include_str!("../../sources/hello.php").trim_end(), &[])?;
    setup.write("html/cpu.php", include_str!("../../sources/cpu.php"), &[])?;
    setup.write("html/query.php", include_str!("../../sources/query.php"), &[])?;
    Ok(())
}

/// The upstream of [`start_fpm`]'s php-fpm, as nginx's configurations have it.
pub(super) fn upstream(setup: &Setup<'_>) -> String {
    format!("upstream php {{ server \"unix:{}\"; }}", setup.dir.join("php-fpm.sock").display())
}

/// Starts php-fpm at `php-fpm.sock` and waits until it listens.
pub(super) fn start_fpm(setup: &Setup<'_>) -> Result<Part, String> {
    write_scripts(setup)?;
    let is_root = nix::unistd::geteuid().is_root();
    let user = if is_root { "user = root\ngroup = root" } else { "" };
    setup.write("php-fpm.conf", include_str!("../../sources/php-fpm.conf"), &[("@USER@", user)])?;
    let mut arguments = vec!["--nodaemonize", "--fpm-config", "php-fpm.conf"];
    if is_root {
        arguments.push("--allow-to-run-as-root");
    }
    let mut process = setup.spawn(&fpm()?, &arguments, &[])?;
    wait_for_socket(&mut process, &setup.dir.join("php-fpm.sock"), setup.dir)?;
    Ok(Part::new("php-fpm", process))
}

fn wait_for_socket(process: &mut Process, socket: &Path, dir: &Path) -> Result<(), String> {
    let deadline = Instant::now() + services::START_TIMEOUT;
    while UnixStream::connect(socket).is_err() {
        if let Some(status) = process.exited() {
            return Err(format!("php-fpm ended at its start ({status}): {}", services::last_words(dir)));
        }
        if Instant::now() > deadline {
            return Err(format!("php-fpm does not listen: {}", services::last_words(dir)));
        }
        thread::sleep(POLL);
    }
    Ok(())
}
