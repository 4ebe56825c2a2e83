//! The project's own commands: `cargo xtask test`, `bench`, `report`, `release`, `conformance`, `crash`, `install`.
//!
//! Reading order: [`mod@test`] is what CI runs; [`cases`] is the end-to-end runner, whose format `docs/testing.md`
//! describes; [`services`] starts the databases and caches that cases talk to; [`mod@bench`] compares CPU per request with
//! nginx; [`mod@report`] draws all stacks beside each other; [`release`] compiles with a profile of them; [`conformance`] wraps public suites; [`applications`] uses Debian's in a browser; [`crash`] kills the embedded engine;
//! [`mod@asan`] runs the cases under AddressSanitizer, [`seeds`] makes inputs for fuzzing;
//! [`install`] is apt, [`links`] checks the pages, [`tools`] calls cargo. Nothing here is linked into the server.

mod applications;
mod asan;
mod bench;
mod cases;
mod conformance;
mod crash;
mod install;
mod links;
mod paths;
#[path = "../../tests/support/ports.rs"]
mod ports;
mod process;
mod release;
mod report;
mod sections;
mod seeds;
mod services;
mod terminal;
mod test;
mod tools;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tests, benchmarks, conformance and release builds of Tidegate")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Formatting, lints, unit tests and end-to-end cases
    Test(test::Options),
    /// CPU per request beside Debian's nginx, written to bench/results/
    Bench(bench::Options),
    /// Tidegate beside other stacks, in plots: target/report/
    Report(report::Options),
    /// Load for servers that speak in lines, HandlerSocket or memcached: rate, CPU time, memory of idle connections
    Lines(bench::lines::Options),
    /// Load for servers that speak beanstalkd's protocol: jobs put, reserved and deleted
    Jobs(bench::jobs::Options),
    /// The server for production, compiled with a profile of its own benchmarks: target/profiled/tidegate
    Release,
    /// Public Test::Nginx suites against our binary
    Conformance(conformance::Options),
    /// WordPress, MediaWiki and phpMyAdmin on the embedded engine, in a browser
    Applications(applications::Options),
    /// The embedded engine killed in the middle of its work, and with a full disk
    Crash(crash::Options),
    /// All cases against a server with AddressSanitizer
    Asan(asan::Options),
    /// Inputs for the fuzz targets to start from, written to fuzz/corpus/
    Seeds,
    /// Installs with apt what tests and benchmarks talk to, only what is missing
    Install(install::Options),
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    // A report does it itself.
    if !matches!(command, Command::Report(_))
        && let Err(problem) = tidegate_report::interrupt::watch("interrupted")
    {
        eprintln!("{}: {problem}", terminal::red("xtask"));
    }
    let outcome = match command {
        Command::Test(options) => test::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Report(options) => report::run(&options),
        Command::Lines(options) => bench::lines::run(&options),
        Command::Jobs(options) => bench::jobs::run(&options),
        Command::Release => release::run(),
        Command::Conformance(options) => conformance::run(&options),
        Command::Applications(options) => applications::run(&options),
        Command::Crash(options) => crash::run(&options),
        Command::Asan(options) => asan::run(&options),
        Command::Seeds => seeds::run(),
        Command::Install(options) => install::run(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{}: {problem}", terminal::red("xtask"));
            ExitCode::FAILURE
        }
    }
}
