//! `tidegate report`: this binary beside the other stacks of the machine. What is measured, and how, is `tidegate-report`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use clap::error::ErrorKind;
use tidegate_report::stacks::Tools;
use tidegate_report::{options, run as report};

/// Measures this server beside nginx, Apache, PHP, Node.js, Python and Go, as far as they are installed, and draws a page of it
#[derive(Parser, Debug)]
#[command(name = "tidegate report", version)]
struct Options {
    #[command(flatten)]
    report: options::Options,
    /// Gets drivers of Node.js, Python and Go from npm, PyPI and Go's proxy, into the directory of the report
    #[arg(long)]
    fetch: bool,
}

/// Runs the sub-command; the answer is the exit status.
pub(crate) fn run(arguments: &[OsString]) -> i32 {
    let words = std::iter::once(OsString::from("tidegate report")).chain(arguments.iter().cloned());
    let options = match Options::try_parse_from(words) {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            return i32::from(!matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion));
        }
    };
    match measure(&options) {
        Ok(is_whole) => i32::from(!is_whole),
        Err(problem) => {
            eprintln!("tidegate report: {problem}");
            1
        }
    }
}

fn measure(options: &Options) -> Result<bool, String> {
    if let Some(outcome) = options.report.run_as_part() {
        return outcome;
    }
    let out = options.report.out.clone().unwrap_or_else(|| PathBuf::from("tidegate-report"));
    let out = std::path::absolute(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let tools = Tools {
        tidegate: std::env::current_exe().map_err(|e| format!("the running program: {e}"))?,
        command: "tidegate report",
        itself: "report",
        lua_libs: options.report.lua_libs(),
        kept: out.join("peers"),
        fetches: options.fetch,
    };
    report::run(&options.report, &tools, &out)
}
