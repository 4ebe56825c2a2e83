//! Small applications on ORMs (`tests/orms`): they migrate, fill tables, read, change and are refused.
//!
//! Each runs in a copy with what it needs from its language's package registry, first at Debian's MariaDB and then at our port, and
//! has to print the same at both.

use crate::conformance::drivers::{self, USER};
use crate::paths::{self, Scratch};
use crate::process::{Process, patient};
use crate::services::{self, Service};
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Longest time for one application at one server.
const RUN_MAX: Duration = Duration::from_secs(300);

/// The schema that applications use.
const SCHEMA: &str = "shop";

/// An application.
pub(super) struct Orm {
    /// Its name, which is that of its directory.
    pub(super) name: &'static str,
    /// What the machine must have.
    pub(super) wants: &'static [&'static str],
    /// What makes a copy ready to run.
    prepare: &'static [&'static str],
    /// What runs it.
    run: &'static str,
}

const NODE: &[&str] = &["node", "npm", "mariadb", "mariadbd"];
const NPM: &[&str] = &["npm install --silent --no-audit --no-fund --ignore-scripts"];

/// All of them.
pub(super) const ORMS: &[Orm] = &[
    Orm { name: "sequelize", wants: NODE, prepare: NPM, run: "node shop.mjs" },
    Orm { name: "knex", wants: NODE, prepare: NPM, run: "node shop.mjs" },
    Orm { name: "typeorm", wants: NODE, prepare: NPM, run: "node shop.cjs" },
    Orm {
        name: "hibernate",
        wants: &["java", "javac", "mvn", "mariadb", "mariadbd"],
        prepare: &[
            "mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath",
            "javac -nowarn -cp \"$(cat classpath)\" -d classes Shop.java",
        ],
        run: "java -cp \"classes:$(cat classpath)\" Shop",
    },
];

/// Runs an application at both servers.
///
/// # Errors
/// How it failed, or where what it printed differs.
pub(super) fn run(orm: &Orm, program: &Path) -> Result<(), String> {
    let scratch = Scratch::new("orms", false)?;
    let copy = scratch.path().join(orm.name);
    drivers::copy_of(&paths::repository().join("tests/orms").join(orm.name), &copy)?;
    for step in orm.prepare {
        drivers::prepare(step, &copy, scratch.path())?;
    }
    let schema = format!("CREATE DATABASE {SCHEMA}");
    let theirs = {
        let mariadb = services::start(&[Service::MariaDb])?;
        let port = mariadb.vars().get("TEST_MARIADB_PORT").map(str::to_owned).ok_or("MariaDB has no port")?;
        let socket = mariadb.vars().get("TEST_MARIADB_SOCKET").map(str::to_owned).ok_or("MariaDB has no socket")?;
        let user = format!("CREATE OR REPLACE USER {USER}@'%'; GRANT ALL ON *.* TO {USER}@'%'; {schema}");
        drivers::statements(&["--socket", &socket, "-uroot"], &user)?;
        printed(orm, &copy, &port).map_err(|problem| format!("at MariaDB: {problem}"))?
    };
    let ours = {
        let (_server, port) = drivers::start(program, &scratch.path().join("site"))?;
        drivers::statements(&["-h", "127.0.0.1", "-P", &port, &format!("-u{USER}")], &schema)?;
        printed(orm, &copy, &port)?
    };
    compare(&theirs, &ours)
}

/// What it prints at a port.
fn printed(orm: &Orm, copy: &Path, port: &str) -> Result<String, String> {
    let [out, err] = ["out", "err"].map(|name| copy.join(format!("{port}.{name}")));
    let create = |path: &Path| File::create(path).map_err(|e| format!("{}: {e}", path.display()));
    let mut command = drivers::shell(orm.run, copy, copy);
    command.envs([("PORT", port), ("USER", USER), ("SCHEMA", SCHEMA)]).stdin(Stdio::null());
    command.stdout(create(&out)?).stderr(create(&err)?);
    let mut process = Process::spawn(&mut command)?;
    let ended = process.wait(patient(RUN_MAX));
    drop(process);
    let text = |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    match ended {
        Some(status) if status.success() => text(&out),
        Some(status) => Err(format!("{} ended with {status}:\n{}", orm.run, text(&err)?)),
        None => Err(format!("{} takes longer than {RUN_MAX:?}", orm.run)),
    }
}

/// # Errors
/// The lines that differ.
fn compare(theirs: &str, ours: &str) -> Result<(), String> {
    let [mut left, mut right] = [theirs.lines(), ours.lines()];
    let mut problems = Vec::new();
    loop {
        match (left.next(), right.next()) {
            (None, None) => break,
            (one, other) if one == other => {}
            (one, other) => {
                problems.push(format!(
                    "  MariaDB: {}\n  ours:    {}",
                    one.unwrap_or_default(),
                    other.unwrap_or_default()
                ));
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(format!("different output:\n{}", problems.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_are_told() {
        assert_eq!(compare("a\nb\n", "a\nb\n"), Ok(()));
        let expected = "different output:\n  MariaDB: b\n  ours:    c\n  MariaDB: \n  ours:    d";
        assert_eq!(compare("a\nb\n", "a\nc\nd\n"), Err(expected.to_owned()));
    }
}
