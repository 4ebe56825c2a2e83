//! `cargo xtask report`: Tidegate beside other stacks, as `docs/report.md` describes.
//!
//! What is measured, and how, is `tidegate-report`; this builds the binary and gets what peers need from their registries.

use crate::{install, paths, terminal, tools};
use std::path::PathBuf;
use tidegate_report::stacks::Tools;

/// What is chosen on the command line.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    report: tidegate_report::options::Options,
    /// A built binary instead of a release build of this tree
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Leaves out what would have to be got from the registries of Debian, npm, PyPI and Go
    #[arg(long)]
    no_fetch: bool,
}

/// Measures, and writes the pages. False when a point has no figures.
///
/// # Errors
/// When something cannot be built, installed, or written.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let report = &options.report;
    if let Some(outcome) = report.run_as_part() {
        return outcome;
    }
    let is_measured = !report.render && !report.list;
    if is_measured && !options.no_fetch {
        // What is still missing then is left out, and the page says so.
        install::report().unwrap_or_else(|problem| println!("{problem}"));
    }
    let tidegate = match &options.binary {
        Some(binary) => std::path::absolute(binary).map_err(|e| format!("{}: {e}", binary.display()))?,
        None if is_measured => build()?,
        None => paths::target().join("release/tidegate"),
    };
    let tools = Tools {
        tidegate,
        command: "cargo xtask report",
        itself: "report",
        lua_libs: report.lua_libs(),
        kept: paths::target().join("report/peers"),
        fetches: is_measured && !options.no_fetch,
    };
    let usual = if report.matrix == tidegate_report::matrix::Size::Small { "report/small" } else { "report/full" };
    let out = report.out.clone().unwrap_or_else(|| paths::target().join(usual));
    tidegate_report::run::run(report, &tools, &out)
}

fn build() -> Result<PathBuf, String> {
    terminal::heading("release build");
    tools::run(tools::cargo().args(["build", "--release", "--package", "tidegate"]), "the release build failed")?;
    Ok(paths::target().join("release/tidegate"))
}
