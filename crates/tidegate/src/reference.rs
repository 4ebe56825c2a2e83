//! `tidegate directives`: the reference, made from the modules' own tables.
//!
//! [`run`] answers on the command line; [`markdown`] makes `docs/directives.md`, which a test keeps true.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;

use tidegate_core::module::{AnyModule, DirectiveInfo, Shape};
use tidegate_core::registry::Registry;

use crate::engine;

pub(crate) const HELP: &str = "Usage: tidegate directives [NAME | --markdown]

Without NAME all directives are listed. NAME is a directive, which is described, or a module, whose directives are
listed with an example.

Options:
  --markdown : the whole reference as Markdown
  -h, --help : this help

";

/// Why a directive or module is not shown.
const EXIT_UNKNOWN: i32 = 1;

/// Answers `tidegate directives`. The result is the exit status.
pub(crate) fn run(arguments: &[OsString]) -> i32 {
    let registry = engine::registry();
    let text = match arguments.first().map(|argument| argument.to_string_lossy()) {
        None => Some(list(registry.modules())),
        Some(option) if option == "--markdown" => Some(markdown(registry)),
        Some(name) => describe_all(registry, &name).or_else(|| describe_module(registry, &name)),
    };
    let Some(text) = text else {
        let name = arguments[0].to_string_lossy();
        eprintln!("tidegate: there is no directive or module \"{name}\"; `tidegate directives` lists all directives");
        return EXIT_UNKNOWN;
    };
    // Whoever closed the pipe has read enough.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    0
}

/// A line for each directive.
fn list(modules: &[&dyn AnyModule]) -> String {
    let mut text = String::new();
    for info in modules.iter().flat_map(|module| module.directives()) {
        let _ = writeln!(text, "{:<36} {}", info.name, info.doc);
    }
    text
}

/// All directives of one name: `server` is one of `http` and one of `upstream`.
fn describe_all(registry: &Registry, name: &str) -> Option<String> {
    let mut text = String::new();
    for module in registry.modules() {
        for info in module.directives().iter().filter(|info| info.name == name) {
            text += &describe(info, module.name());
        }
    }
    (!text.is_empty()).then_some(text)
}

fn describe_module(registry: &Registry, name: &str) -> Option<String> {
    let module = registry.modules().iter().find(|module| module.name() == name)?;
    let mut text = list(&[*module]);
    if text.is_empty() {
        return None;
    }
    if !module.example().is_empty() {
        let _ = write!(text, "\nExample:\n\n{}", example(*module));
    }
    Some(text)
}

/// The reference entry of a directive, in the layout of nginx's documentation.
fn describe(info: &DirectiveInfo, module: &str) -> String {
    let mut text = format!("Syntax:  {}\n", syntax(info));
    match info.default {
        Some(default) => text += &format!("Default: {} {default};\n", info.name),
        None => text += "Default: -\n",
    }
    text += &format!("Context: {}\n", contexts(info));
    text += &format!("Module:  {module}\n\n{}\n\n", info.doc);
    text
}

fn syntax(info: &DirectiveInfo) -> String {
    let end = match info.shape {
        Shape::Simple => ";",
        Shape::Block => " { ... }",
        Shape::Lua => " { Lua code }",
    };
    let gap = if info.syntax.is_empty() { "" } else { " " };
    format!("{}{gap}{}{end}", info.name, info.syntax)
}

fn contexts(info: &DirectiveInfo) -> String {
    info.contexts.names().collect::<Vec<_>>().join(", ")
}

/// The module's example, without the indentation that it has in the source.
fn example(module: &dyn AnyModule) -> String {
    let lines = || module.example().lines().filter(|line| !line.trim().is_empty());
    let indent = lines().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    lines().map(|line| format!("{}\n", &line[indent..])).collect()
}

/// The whole reference.
fn markdown(registry: &Registry) -> String {
    let mut text = "# Directives\n\nMade from the modules' tables by `tidegate directives --markdown`. `tidegate directives NAME` \
                    shows one directive or module on the terminal.\n"
        .to_owned();
    // Of the modules of development builds users need know nothing.
    let is_shown = |module: &&&dyn AnyModule| !module.directives().is_empty() && !module.name().starts_with("debug_");
    for module in registry.modules().iter().filter(is_shown) {
        let _ = write!(text, "\n## {}\n", module.name());
        if !module.example().is_empty() {
            let _ = write!(text, "\n```nginx\n{}```\n", example(*module));
        }
        text += "\n| directive | default | where | |\n| --- | --- | --- | --- |\n";
        for info in module.directives() {
            let default = info.default.map_or_else(String::new, |default| format!("`{}`", cell(default)));
            let (syntax, contexts, doc) = (cell(&syntax(&info)), contexts(&info), cell(info.doc));
            let _ = writeln!(text, "| `{syntax}` | {default} | {contexts} | {doc} |");
        }
        let variables: Vec<_> = module.variables().iter().filter(|variable| !variable.doc.is_empty()).collect();
        if !variables.is_empty() {
            text += "\n| variable | |\n| --- | --- |\n";
            for variable in variables {
                let _ = writeln!(text, "| `${}` | {} |", variable.name, cell(variable.doc));
            }
        }
    }
    text
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::conf::{self, LoadOptions};

    #[test]
    fn the_page_of_all_directives_is_the_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/directives.md");
        let made = markdown(engine::registry());
        if std::env::var_os("TIDEGATE_WRITE_DOCS").is_some() {
            std::fs::write(path, &made).expect("docs/directives.md is written");
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            there == made,
            "docs/directives.md is not what the tables say: `target/debug/tidegate directives --markdown > docs/directives.md`"
        );
    }

    #[test]
    fn each_module_has_an_example_that_loads() {
        // What stands inside another module's block is in that one's example; the others only know old names, or are for
        // tests.
        const WITHOUT: [&str; 4] = ["database_block", "acme_issuer", "accepted", "debug_panic"];
        let registry = engine::registry();
        let mut problems = Vec::new();
        for module in registry.modules().iter().filter(|module| !module.directives().is_empty()) {
            let example = example(*module);
            if example.is_empty() {
                if !WITHOUT.contains(&module.name()) {
                    problems.push(format!("{} has no example", module.name()));
                }
                continue;
            }
            if let Err(why) = loads(registry, &example) {
                problems.push(format!("{}:\n{why}", module.name()));
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn each_default_is_accepted_as_it_is_printed() {
        let registry = engine::registry();
        let is_directive = |text: &str| describe_all(registry, text).is_some();
        let mut problems = Vec::new();
        for module in registry.modules() {
            for info in module.directives() {
                // A directive may take the value of another.
                let is_value = |text: &&str| !text.is_empty() && !is_directive(text);
                let Some(default) = info.default.filter(is_value) else { continue };
                let line = format!("{} {default};", info.name);
                let places = info.contexts.names().filter_map(|context| place(context, &line));
                let refused = |text: String| load(registry, text).err().filter(|why| why.contains("invalid value"));
                if let Some(why) = places.map(refused).next().flatten() {
                    problems.push(format!("{line}\n{why}"));
                }
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    /// A configuration with `line` in this context.
    fn place(context: &str, line: &str) -> Option<String> {
        let http = |inside: &str| format!("events {{ }} http {{ {inside} }}");
        Some(match context {
            "main" => format!("{line} events {{ }}"),
            "events" => format!("events {{ {line} }}"),
            "http" => http(line),
            "server" => http(&format!("server {{ {line} }}")),
            "location" => http(&format!("server {{ location / {{ {line} }} }}")),
            "upstream" => http(&format!("upstream cats {{ server 127.0.0.1; {line} }}")),
            "database" => format!("events {{ }} database {{ {line} }}"),
            _ => return None,
        })
    }

    /// Tries the example in `server`, in `http` and at the top level; the error is of the place that suits it best.
    fn loads(registry: &'static Registry, example: &str) -> Result<(), String> {
        let upstreams = "upstream cats { drizzle_server 127.0.0.1:3306; }";
        let listen = "listen 127.0.0.1:8080; location /test-of-another { return 204; }";
        let with_upstreams = if example.contains("upstream cats") { "" } else { upstreams };
        let places = [
            format!("events {{ }} http {{ {with_upstreams} server {{ {listen} {example} }} }}"),
            format!("events {{ }} http {{ {example} server {{ {listen} }} }}"),
            if example.contains("events {") { example.to_owned() } else { format!("{example} events {{ }}") },
        ];
        let mut errors = Vec::new();
        for text in places {
            match load(registry, text) {
                Ok(()) => return Ok(()),
                Err(error) => errors.push(error),
            }
        }
        errors.sort_by_key(String::len);
        Err(errors.swap_remove(0))
    }

    fn load(registry: &'static Registry, text: String) -> Result<(), String> {
        let options = LoadOptions {
            prefix: "/".into(),
            conf_path: "/nginx.conf".into(),
            text: Some(text.into_bytes()),
            globals: None,
            testing: true,
            registry,
        };
        conf::load(&options).map(drop).map_err(|error| error.render())
    }
}
