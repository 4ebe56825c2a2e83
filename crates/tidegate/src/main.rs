//! The binary: command line, supervisor, server process.
//!
//! In reading order: [`cli`] and [`identity`], what was typed and under which name; [`startup`], from there to
//! running processes; [`supervisor`], which keeps a server process alive; [`server_process`], that process; [`channel`], what
//! the two say to each other; [`engine`], the only place that knows the crates below; then the smaller parts:
//! [`signals`], [`stdio`], [`pid_file`], [`privileges`], [`upgrade`], [`configure`], [`commands`], [`lua`],
//! [`exports`], [`allocator`]; [`sql`] and [`mod@queue`], sub-commands.
//!
//! ```text
//! tidegate -c x ──fork──► supervisor ──fork──► server process
//!   waits for a word  ◄──── pipe ────┘  ◄─socket pair─┘   worker threads
//! ```

#[cfg(not(feature = "sanitizer"))]
mod allocator;
mod certificates;
mod channel;
mod cli;
mod commands;
mod configure;
mod demo;
mod engine;
mod exports;
mod identity;
mod lua;
mod panic_log;
mod pid_file;
mod privileges;
mod queue;
mod reference;
mod report;
mod server_process;
mod signals;
mod sql;
mod startup;
mod stdio;
mod supervisor;
mod upgrade;

use std::ffi::OsString;

use identity::Identity;

#[cfg(not(feature = "sanitizer"))]
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() {
    #[cfg(not(feature = "sanitizer"))]
    tidegate_net::memory::set_collector(allocator::collect);
    let mut arguments = std::env::args_os();
    let identity = Identity::of(&arguments.next().unwrap_or_default());
    let arguments: Vec<OsString> = arguments.collect();
    std::process::exit(run(identity, &arguments));
}

/// Does what the arguments say; the answer is the exit status.
fn run(identity: Identity, arguments: &[OsString]) -> i32 {
    if identity == Identity::Tidegate
        && let Some(code) = commands::run(arguments)
    {
        return code;
    }
    let options = match cli::parse(arguments) {
        Ok(options) => options,
        Err(reason) => {
            eprintln!("{}: {reason}", identity.name());
            return 1;
        }
    };
    if options.help || options.version || options.configure {
        if options.configure {
            eprint!("{}", configure::text(identity, engine::registry()));
        } else {
            eprint!("{}", identity.version_text());
        }
        if options.help {
            eprint!("{}", cli::help_text(identity));
        }
        if !options.test {
            return 0;
        }
    }
    exports::set_command_line(std::env::args_os());
    panic_log::install();
    startup::run(options, identity)
}
