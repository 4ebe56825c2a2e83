//! `cargo xtask conformance DIR`: public Test::Nginx suites against our binary.
//!
//! `DIR/src` holds the checkouts, one directory each, and test-nginx. The suites are run by a runner outside of this
//! repository (`--runner`), which takes `run --binary BIN --json FILE SUITE…`; here the binary gets the name that suites
//! expect, and the results become `conformance/summary.md`. Logs of each file are in `DIR/work/logs`.

mod beanstalk;
mod cache_tests;
pub(crate) mod drivers;
mod handlersocket;
mod nginx_tests;
mod nq;
mod summary;

use crate::paths::{self, Scratch};
use crate::{install, terminal, tools};
use clap::Args;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is chosen on the command line.
#[derive(Args)]
pub(crate) struct Options {
    /// The directory whose src/ has the checkouts; with --nginx-tests, the checkout of nginx-tests
    dir: PathBuf,
    /// Runs nginx's own test suite instead: with the machine's nginx and with ours; suites are then names of its files
    #[arg(long)]
    nginx_tests: bool,
    /// Only the files about HTTP/2, which have a page of their own
    #[arg(long, requires = "nginx_tests")]
    http2: bool,
    /// The nginx to compare with; the machine's if not given
    #[arg(long, requires = "nginx_tests")]
    nginx: Option<PathBuf>,
    /// Runs the public tests for HTTP caches instead: DIR is a checkout of cache-tests
    #[arg(long, conflicts_with = "nginx_tests")]
    cache_tests: bool,
    /// Runs the regression scripts of the plug-in HandlerSocket instead: DIR is a checkout of it
    #[arg(long, conflicts_with_all = ["nginx_tests", "cache_tests"])]
    handlersocket: bool,
    /// Runs the test suites of MySQL's drivers instead: DIR has checkouts of them; suites are then their names
    #[arg(long, conflicts_with_all = ["nginx_tests", "cache_tests", "handlersocket"])]
    drivers: bool,
    /// Runs the tests of beanstalkd's clients instead: DIR has checkouts of them; suites are then their names
    #[arg(long, conflicts_with_all = ["nginx_tests", "cache_tests", "handlersocket", "drivers", "nq"])]
    beanstalk: bool,
    /// Runs nq's own tests instead, at our API for its clients: DIR is a checkout of it
    #[arg(long, conflicts_with_all = ["nginx_tests", "cache_tests", "handlersocket", "drivers"])]
    nq: bool,
    /// Runs them at nq itself too, on our server with the embedded database and with MariaDB
    #[arg(long, requires = "nq")]
    app: bool,
    /// Suites or files of suites, for instance lua-nginx-module/t/002-content.t; all of lua-nginx-module if none is named
    suites: Vec<String>,
    /// The runner's program
    #[arg(long, env = "TIDEGATE_CONFORMANCE_RUNNER")]
    runner: Option<PathBuf>,
    /// Results of the real thing: only blocks that pass there are run
    #[arg(long)]
    baseline: Option<PathBuf>,
    /// Only files whose path matches this pattern
    #[arg(long)]
    filter: Option<String>,
    /// Only these blocks of each file, for instance 1,2,7
    #[arg(long)]
    blocks: Option<String>,
    /// A built binary instead of a debug build of this tree
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How many files run at once
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Where the results of each block are written; DIR/last.json if not given
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also writes the page, which a run of all of a suite does anyway
    #[arg(long)]
    summary: bool,
    /// The page with the table and the causes of failures
    #[arg(long, default_value = "conformance/summary.md")]
    page: PathBuf,
    /// Runs nothing: makes the page from the results of an earlier run
    #[arg(long)]
    from: Option<PathBuf>,
    /// More arguments for the runner, after `--`
    #[arg(last = true)]
    more: Vec<String>,
}

/// Runs the suites. False when the runner could not finish.
///
/// # Errors
/// When the runner, a checkout or the binary is missing.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    if options.cache_tests {
        return cache_tests::run(options);
    }
    if options.handlersocket {
        return handlersocket::run(options);
    }
    if options.drivers {
        return drivers::run(options);
    }
    if options.beanstalk {
        return beanstalk::run(options);
    }
    if options.nq {
        return nq::run(options);
    }
    if options.nginx_tests {
        return nginx_tests::run(options);
    }
    if let Some(results) = &options.from {
        let baseline = runner(options).ok().and_then(|runner| baseline(options, &runner));
        report(options, results, baseline.as_deref(), true)?;
        return Ok(true);
    }
    install::conformance()?;
    let runner = runner(options)?;
    let lab = options.dir.join("src");
    if !lab.join("test-nginx").is_dir() {
        return Err(format!("{} has no checkout of test-nginx", lab.display()));
    }
    let scratch = Scratch::new("conformance", false)?;
    let binary = named_nginx(&binary(options)?, scratch.path())?;
    let results = options.json.clone().unwrap_or_else(|| options.dir.join("last.json"));
    let baseline = baseline(options, &runner);
    let mut command = Command::new(&runner);
    command.arg("run").arg("--lab").arg(&lab).arg("--binary").arg(&binary);
    command.arg("--jobs").arg(options.jobs.to_string()).arg("--json").arg(&results);
    command.arg("--work").arg(options.dir.join("work"));
    if let Some(baseline) = &baseline {
        command.arg("--only-held").arg(baseline);
    }
    for (flag, value) in [("--filter", &options.filter), ("--blocks", &options.blocks)] {
        if let Some(value) = value {
            command.arg(flag).arg(value);
        }
    }
    command.args(&options.more);
    let default = ["lua-nginx-module".to_owned()];
    let suites = if options.suites.is_empty() { &default[..] } else { &options.suites };
    command.args(suites);
    terminal::heading(&format!("{} with {}", suites.join(" "), runner.display()));
    let status = command.status().map_err(|e| format!("cannot run {}: {e}", runner.display()))?;
    let is_whole = options.filter.is_none() && options.blocks.is_none() && suites.iter().all(|s| !s.contains('/'));
    report(options, &results, baseline.as_deref(), is_whole || options.summary)?;
    Ok(status.code().is_some_and(|code| code <= 1))
}

/// Prints the totals of `results` and, with `writes_page`, makes the page of them.
fn report(options: &Options, results: &Path, baseline: Option<&Path>, writes_page: bool) -> Result<(), String> {
    let text = fs::read_to_string(results).map_err(|e| format!("{}: {e}", results.display()))?;
    let totals = summary::read(&text)?;
    print!("{}", summary::short(&totals));
    println!("blocks: {}", results.display());
    if !writes_page {
        return Ok(());
    }
    let held_to = baseline.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let causes = paths::repository().join("conformance/causes.txt");
    let causes = fs::read_to_string(&causes).map_err(|e| format!("{}: {e}", causes.display()))?;
    let page = paths::repository().join(&options.page);
    let text = summary::markdown(&totals, held_to.as_deref(), &summary::Causes::read(&causes)?);
    fs::write(&page, text).map_err(|e| format!("{}: {e}", page.display()))?;
    println!("page: {}", page.display());
    Ok(())
}

/// `--runner`, or the one that lies beside the repository where this is developed.
fn runner(options: &Options) -> Result<PathBuf, String> {
    let path = match &options.runner {
        Some(path) => path.clone(),
        None => paths::repository().join("../shared/conformance/run.py"),
    };
    fs::canonicalize(&path).map_err(|_| format!("no runner at {}: name one with --runner", path.display()))
}

/// `--baseline`, or `baseline-lua.json` beside the runner if the suite is the one that it is about.
fn baseline(options: &Options, runner: &Path) -> Option<PathBuf> {
    if options.baseline.is_some() {
        return options.baseline.clone();
    }
    let is_lua = options.suites.iter().all(|s| s.contains("lua-nginx-module"));
    let file = runner.with_file_name("baseline-lua.json");
    (is_lua && file.is_file()).then_some(file)
}

fn binary(options: &Options) -> Result<PathBuf, String> {
    if let Some(path) = &options.binary {
        return Ok(path.clone());
    }
    terminal::heading("build");
    tools::run(tools::cargo().args(["build", "--package", "tidegate"]), "the build failed")?;
    Ok(paths::target().join("debug/tidegate"))
}

/// A link called `nginx`: under that name the binary presents itself as nginx, which suites look at.
fn named_nginx(binary: &Path, dir: &Path) -> Result<PathBuf, String> {
    let target = fs::canonicalize(binary).map_err(|e| format!("{}: {e}", binary.display()))?;
    let link = dir.join("nginx");
    symlink(&target, &link).map_err(|e| format!("cannot link {}: {e}", link.display()))?;
    Ok(link)
}
