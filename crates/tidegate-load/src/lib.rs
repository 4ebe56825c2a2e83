//! A load generator for HTTP servers: `tidegate load`.
//!
//! What lives here: all of the sub-command, from its options to its report. What it does not know: configuration, servers, the
//! event loop of workers. Of the crates below it takes the wire formats, TLS for clients and LuaJIT.
//!
//! A thread is an event loop of its own over its share of the connections. It reads into one buffer, throws bodies away and
//! sends requests that are made once: without a script a request allocates nothing.
//!
//! In reading order:
//!
//! - [`options`]: what was typed; [`units`]: numbers, times and rates in it
//! - [`target`]: URLs and the requests that are made of them; [`plan`]: all that a run is to do
//! - [`failure`], [`tally`]: what went wrong, and everything that is counted
//! - [`pace`]: when the next request begins
//! - [`worker`]: the event loop of a thread; [`core`](mod@core): what its connections share
//! - [`transport`]: sockets and TLS; [`connection`]: from connecting to closing
//! - [`http1`], [`head`]: HTTP/1; [`http2`], [`block`]: HTTP/2
//! - [`script`]: wrk's scripts
//! - [`run`](mod@run): threads, signals and the seconds of a run; [`live`]: what is shown meanwhile
//! - [`report`], [`json`], [`histogram_files`]: what comes out; [`compare`]: two runs side by side

#![forbid(unsafe_code)]

mod block;
mod compare;
mod connection;
mod core;
mod failure;
mod head;
mod histogram_files;
mod http1;
mod http2;
mod json;
mod live;
mod options;
mod pace;
mod plan;
mod report;
mod run;
mod script;
mod tally;
mod target;
mod transport;
mod units;
mod worker;

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::live::Live;
use crate::options::Options;
use crate::plan::Plan;
use crate::run::Results;
use crate::script::{Script, Source, Summary};

/// Runs the sub-command with its arguments; the answer is the exit status.
pub fn run(arguments: &[OsString]) -> i32 {
    let words = std::iter::once(OsString::from("tidegate load")).chain(arguments.iter().cloned());
    let options = match Options::try_parse_from(words) {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            let is_asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if is_asked { 0 } else { 2 };
        }
    };
    match work(&options) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(reason) => {
            eprintln!("tidegate load: {reason}");
            1
        }
    }
}

/// Does what the options say; whether all went well.
fn work(options: &Options) -> Result<bool, String> {
    if let Some([a, b]) = options.compare.as_deref() {
        print(&compare::files(a, b)?)?;
        return Ok(true);
    }
    let plan = Plan::new(options)?;
    let (script, scripts) = match &options.script {
        Some(file) => {
            let (main, threads) = Source::read(file, &options.arguments)?.start(&plan)?;
            (Some(main), threads)
        }
        None => (None, Vec::new()),
    };
    let mut results = run::run(&plan, scripts, &mut Live::new(options.quiet, plan.warm_up))?;
    if options.json {
        print(&format!("{:#}\n", json::report(&plan, &results)))?;
    } else {
        print(&report::text(&plan, &results, options.latency))?;
    }
    let written = options.hdr.as_ref().map_or(Ok(()), |file| {
        write_histogram(file, &results).map_err(|error| format!("{}: {}", file.display(), failure::plain(&error)))
    });
    if let Some(script) = script {
        end_script(script, &mut results)?;
    }
    written?;
    let all = &results.tally.all;
    Ok(all.responses > 0 && results.tally.failures.total() == 0 && all.error_statuses() == 0)
}

fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| format!("standard output: {error}"))
}

fn write_histogram(file: &Path, results: &Results) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    histogram_files::write_percentiles(&results.tally.all.latency, &mut out)?;
    out.flush()
}

/// Lets the script have the last word.
fn end_script(mut main: Script, results: &mut Results) -> Result<(), String> {
    let threads = std::mem::take(&mut results.scripts);
    let fault = threads.iter().find_map(|script| script.fault().map(str::to_owned));
    let mut rates = tally::histogram();
    results.rates.iter().for_each(|rate| rates.saturating_record(*rate));
    let summary = Summary {
        duration: results.elapsed,
        requests: results.tally.all.responses,
        bytes: results.tally.bytes,
        errors: report::errors_of_wrk(results),
        latency: &results.tally.all.latency,
        rates: &rates,
    };
    main.done(threads, &summary)?;
    fault.map_or(Ok(()), Err)
}
