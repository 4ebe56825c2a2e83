//! Sub-commands: what Tidegate does beside serving.

use std::ffi::OsString;
use std::io::Write;

use tidegate_core::module::{DirectiveInfo, Shape};

use crate::engine;

/// One sub-command.
struct Command {
    name: &'static str,
    arguments: &'static str,
    doc: &'static str,
    run: fn(&[OsString]) -> i32,
}

const COMMANDS: [Command; 4] = [
    Command {
        name: "demo",
        arguments: "[DIRECTORY]",
        doc: "serve a sample site on http://127.0.0.1:8080",
        run: crate::demo::run,
    },
    Command {
        name: "lua",
        arguments: "[OPTIONS] [FILE]",
        doc: "run a Lua script; lua --help tells more",
        run: crate::lua::run,
    },
    Command { name: "directives", arguments: "[NAME]", doc: "list all directives, or describe one", run: directives },
    Command {
        name: "sql",
        arguments: "[OPTIONS]",
        doc: "work on the embedded database; sql --help tells more",
        run: crate::sql::run,
    },
];

/// Runs the sub-command that the first argument names; `None` if it names none.
pub(crate) fn run(arguments: &[OsString]) -> Option<i32> {
    let (name, rest) = arguments.split_first()?;
    let command = COMMANDS.iter().find(|command| *name == *command.name)?;
    Some((command.run)(rest))
}

/// The part of `-h` about sub-commands.
pub(crate) fn help_text() -> String {
    let mut text = "Commands:\n".to_owned();
    for Command { name, arguments, doc, .. } in &COMMANDS {
        text += &format!("  tidegate {:<20} : {doc}\n", format!("{name} {arguments}"));
    }
    text + "\n"
}

fn directives(arguments: &[OsString]) -> i32 {
    let wanted = arguments.first().map(|name| name.to_string_lossy());
    let mut out = std::io::stdout().lock();
    let registry = engine::registry();
    let mut found = false;
    for module in registry.modules() {
        for info in module.directives() {
            match &wanted {
                None => {
                    // Whoever closed the pipe has read enough.
                    let _ = writeln!(out, "{:<36} {}", info.name, info.doc);
                }
                Some(name) if *name == info.name => {
                    found = true;
                    let _ = write!(out, "{}", describe(&info, module.name()));
                }
                Some(_) => {}
            }
        }
    }
    match wanted {
        Some(name) if !found => {
            eprintln!("tidegate: there is no directive \"{name}\"; `tidegate directives` lists all");
            1
        }
        _ => 0,
    }
}

/// The reference entry of a directive, in the layout of nginx's documentation.
fn describe(info: &DirectiveInfo, module: &str) -> String {
    let end = match info.shape {
        Shape::Simple => ";",
        Shape::Block => " { ... }",
        Shape::Lua => " { Lua code }",
    };
    let gap = if info.syntax.is_empty() { "" } else { " " };
    let mut text = format!("Syntax:  {}{gap}{}{end}\n", info.name, info.syntax);
    match info.default {
        Some(default) => text += &format!("Default: {} {default};\n", info.name),
        None => text += "Default: -\n",
    }
    text += &format!("Context: {}\n", info.contexts.names().collect::<Vec<_>>().join(", "));
    text += &format!("Module:  {module}\n\n{}\n\n", info.doc);
    text
}
