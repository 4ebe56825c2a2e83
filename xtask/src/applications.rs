//! `cargo xtask applications`: WordPress, MediaWiki and phpMyAdmin of Debian, installed and used in a headless Chromium, on the
//! embedded engine through its MySQL port and with php-fpm through `fastcgi_pass`; and small applications on ORMs, at that port and
//! at Debian's MariaDB.
//!
//! What an application does is its script in `tests/browser`, or its program in `tests/orms`. One whose packages cannot be had is left out by name.

mod orms;

use crate::install;
use crate::paths;
use crate::{terminal, tools};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is chosen on the command line.
#[derive(Args)]
pub(crate) struct Options {
    /// Applications; all if none is named
    names: Vec<String>,
    /// On Debian's MariaDB instead of the embedded engine
    #[arg(long)]
    mariadb: bool,
    /// A built binary instead of a debug build of this tree
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Names of scripts, with a file that only the application's package has.
const APPLICATIONS: &[(&str, &str)] = &[
    ("wordpress", "/usr/share/wordpress/wp-content/themes/*/style.css"),
    ("mediawiki", "/usr/share/mediawiki/index.php"),
    ("phpmyadmin", "/usr/share/phpmyadmin/index.php"),
];

/// What all of them want.
const COMMON: &[&str] = &["php-fpm", "/etc/php/*/mods-available/mysqli.ini", "node", "chromium", "mariadb"];

/// Runs the scripts. False when one of them fails.
///
/// # Errors
/// When a name is unknown, or the server cannot be built.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let wanted = |name: &str| options.names.is_empty() || options.names.iter().any(|chosen| chosen == name);
    let names: Vec<&str> =
        APPLICATIONS.iter().map(|(name, _)| *name).chain(orms::ORMS.iter().map(|orm| orm.name)).collect();
    if let Some(name) = options.names.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("there is no application {name}, only {}", names.join(", ")));
    }
    if let Err(problem) = install::applications() {
        println!("{problem}");
    }
    let binary = match &options.binary {
        Some(path) => path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?,
        None => {
            terminal::heading("build");
            tools::run(tools::cargo().args(["build", "--package", "tidegate"]), "the build failed")?;
            paths::target().join("debug/tidegate")
        }
    };
    let [mut passed, mut failed, mut skipped] = [0; 3];
    for (name, file) in APPLICATIONS.iter().filter(|(name, _)| wanted(name)) {
        if let Some(missing) = COMMON.iter().chain([file]).find(|what| !install::is_there(what)) {
            println!("SKIP {name}: this machine has no {missing}");
            skipped += 1;
            continue;
        }
        terminal::heading(name);
        let mut script = Command::new("node");
        script.arg(paths::repository().join("tests/browser").join(format!("{name}.mjs")));
        script.arg(if options.mariadb { "mariadb" } else { "embedded" }).env("TIDEGATE_BIN", &binary);
        match tools::run(&mut script, &format!("{name} failed")) {
            Ok(()) => passed += 1,
            Err(problem) => {
                println!("{}", terminal::red(&problem));
                failed += 1;
            }
        }
    }
    for orm in orms::ORMS.iter().filter(|orm| wanted(orm.name)) {
        match run_orm(orm, &binary) {
            None => skipped += 1,
            Some(true) => passed += 1,
            Some(false) => failed += 1,
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(failed == 0)
}

/// Whether an application on an ORM does the same at both servers; `None` if it cannot run here.
fn run_orm(orm: &orms::Orm, binary: &Path) -> Option<bool> {
    if let Some(missing) = orm.wants.iter().find(|what| !install::is_there(what)) {
        println!("SKIP {}: this machine has no {missing}", orm.name);
        return None;
    }
    terminal::heading(orm.name);
    let result = orms::run(orm, binary);
    if let Err(problem) = &result {
        println!("{}", terminal::red(&format!("{}: {problem}", orm.name)));
    }
    Some(result.is_ok())
}
