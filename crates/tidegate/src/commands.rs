//! Sub-commands: what Tidegate does beside serving.

use std::ffi::OsString;

use crate::identity::Identity;
use crate::reference;

/// One sub-command.
struct Command {
    name: &'static str,
    arguments: &'static str,
    doc: &'static str,
    /// What `--help` prints; empty for commands that answer it themselves.
    help: &'static str,
    run: fn(&[OsString]) -> i32,
}

const COMMANDS: [Command; 8] = [
    Command {
        name: "demo",
        arguments: "[DIRECTORY]",
        doc: "serve a sample site on http://127.0.0.1:8080",
        help: crate::demo::HELP,
        run: crate::demo::run,
    },
    Command {
        name: "certificates",
        arguments: "[OPTIONS]",
        doc: "list the certificates of a configuration and when they end",
        help: crate::certificates::HELP,
        run: crate::certificates::run,
    },
    Command {
        name: "lua",
        arguments: "[OPTIONS] [FILE]",
        doc: "run a Lua script; lua --help tells more",
        help: "",
        run: crate::lua::run,
    },
    Command {
        name: "directives",
        arguments: "[NAME]",
        doc: "list all directives or those of a module, or describe one",
        help: reference::HELP,
        run: reference::run,
    },
    Command {
        name: "sql",
        arguments: "[OPTIONS]",
        doc: "work on the embedded database; sql --help tells more",
        help: "",
        run: crate::sql::run,
    },
    Command {
        name: "load",
        arguments: "[OPTIONS] URL",
        doc: "load an HTTP server and measure it; load --help tells more",
        help: "",
        run: tidegate_load::run,
    },
    Command {
        name: "queue",
        arguments: "list | peek | dead | publish | drain | resend | delete",
        doc: "work with the queues of the embedded database; queue --help tells more",
        help: "",
        run: crate::queue::run,
    },
    Command {
        name: "report",
        arguments: "[OPTIONS]",
        doc: "measure this server beside others that are installed here; report --help tells more",
        help: "",
        run: crate::report::run,
    },
];

/// Runs the sub-command that the first argument names; `None` if it names none.
pub(crate) fn run(arguments: &[OsString]) -> Option<i32> {
    let (name, rest) = arguments.split_first()?;
    let command = COMMANDS.iter().find(|command| *name == *command.name)?;
    if !command.help.is_empty() {
        match rest.first().and_then(|first| first.to_str()) {
            Some("-h" | "--help") => {
                print!("{}", command.help);
                return Some(0);
            }
            Some("-V" | "--version") => {
                print!("{}", Identity::Tidegate.version_text());
                return Some(0);
            }
            _ => {}
        }
    }
    Some((command.run)(rest))
}

/// The part of `-h` about sub-commands.
pub(crate) fn help_text() -> String {
    let mut text = "Commands:\n".to_owned();
    for Command { name, arguments, doc, .. } in &COMMANDS {
        text += &format!("  tidegate {:<24} : {doc}\n", format!("{name} {arguments}"));
    }
    text + "\n"
}
