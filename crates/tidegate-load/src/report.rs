//! The report of a run, for people.

use std::fmt::Write as _;

use crate::failure::Kind;
use crate::plan::Plan;
use crate::run::Results;
use crate::tally::Part;
use crate::units::{show_bytes, show_micros};

/// Percentiles of a short report.
const SHORT: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// Those of `--latency`.
const LONG: [f64; 10] = [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999];

/// What is loaded, in one line: the report begins with it.
pub(crate) fn heading(plan: &Plan) -> String {
    let length = match (plan.duration, plan.number) {
        (Some(time), Some(number)) => format!("{number} requests in at most {} s", time.as_secs_f64()),
        (Some(time), None) => format!("{} s", time.as_secs_f64()),
        (None, number) => format!("{} requests", number.unwrap_or_default()),
    };
    let urls = match &plan.urls[..] {
        [url] => url.text.clone(),
        urls => format!("{} URLs, {} …", urls.len(), urls[0].text),
    };
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let mut how = vec![count(plan.threads, "thread"), count(plan.connections, "connection")];
    if plan.is_http2 {
        how.push(format!("HTTP/2, {} at a time each", count(plan.streams, "request")));
    }
    if !plan.keep_alive {
        how.push("a new one for each request".to_owned());
    }
    if let Some(rate) = plan.rate {
        how.push(format!("{rate} requests/s"));
    }
    format!("{length} of {} {urls} at {}\n{}", plan.form.method, plan.address, how.join(", "))
}

/// The whole report.
pub(crate) fn text(plan: &Plan, results: &Results, is_long: bool) -> String {
    let tally = &results.tally;
    let mut out = format!("{}\n\n", heading(plan));
    let mut line = |name: &str, value: String| _ = writeln!(out, "  {name:<13}{value}");
    let seconds = results.elapsed.as_secs_f64();
    let interrupted = if results.was_interrupted { ", interrupted" } else { "" };
    line("responses", format!("{} in {seconds:.2} s{interrupted}", tally.all.responses));
    line("statuses", statuses(&tally.all));
    line("read", show_bytes(tally.bytes as f64));
    line("connections", format!("{} opened", tally.opened));
    if results.unsent > 0 {
        line("not sent", format!("{} requests were due, but all connections were busy", results.unsent));
    }
    let (user, system) = results.processor;
    let per_request = |time: std::time::Duration| time.as_secs_f64() * 1e6 / tally.all.responses.max(1) as f64;
    line(
        "generator",
        format!(
            "{:.2} + {:.2} us of processor for a request, program + system; {:.0} % of {} core{}",
            per_request(user),
            per_request(system),
            (user + system).as_secs_f64() / seconds.max(1e-3) / plan.threads as f64 * 100.0,
            plan.threads,
            if plan.threads == 1 { "" } else { "s" },
        ),
    );
    out += &latency(&tally.all, is_long);
    out += &by_url(plan, results);
    out += &errors(results);
    let rate = results.rate();
    // As wrk ends its report: scripts look for these lines.
    let _ = writeln!(out, "\nRequests/sec: {rate:10.2}");
    let _ = writeln!(out, "Transfer/sec: {:>10}", show_bytes(tally.bytes as f64 / seconds.max(1e-6)));
    out
}

fn statuses(part: &Part) -> String {
    let shown: Vec<String> = part.statuses().map(|(status, count)| format!("{status}: {count}")).collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

fn latency(part: &Part, is_long: bool) -> String {
    let latency = &part.latency;
    if latency.is_empty() {
        return String::new();
    }
    let percentiles: &[f64] = if is_long { &LONG } else { &SHORT };
    let mut rows = vec![("mean".to_owned(), latency.mean()), ("deviation".to_owned(), latency.stdev())];
    rows.extend(percentiles.iter().map(|p| (format!("{p} %"), latency.value_at_quantile(p / 100.0) as f64)));
    rows.push(("max".to_owned(), latency.max() as f64));
    let mut out = "\n  latency\n".to_owned();
    for (name, micros) in rows {
        let _ = writeln!(out, "    {name:<11}{:>9}", show_micros(micros));
    }
    out
}

fn by_url(plan: &Plan, results: &Results) -> String {
    let mut out = String::new();
    for (url, part) in plan.urls.iter().zip(&results.tally.parts) {
        let [p50, p99] = [0.5, 0.99].map(|quantile| show_micros(part.latency.value_at_quantile(quantile) as f64));
        let count = part.responses;
        let _ = write!(out, "\n  {}\n    {count} responses, 50 % {p50}, 99 % {p99}, {}", url.text, statuses(part));
        if part.failed > 0 {
            let _ = write!(out, ", {} failed", part.failed);
        }
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

fn errors(results: &Results) -> String {
    let tally = &results.tally;
    let mut out = String::new();
    for (kind, count, text) in tally.failures.iter() {
        let _ = write!(out, "\n  {:<17}{count:>10}   {text}", kind.name());
    }
    let bad = tally.all.error_statuses();
    if bad > 0 {
        let _ = write!(out, "\n  {:<17}{bad:>10}   400 and above", "status");
    }
    if out.is_empty() { out } else { format!("\n  errors{out}\n") }
}

/// Errors as wrk sorts them: connect, read, write, status, timeout.
pub(crate) fn errors_of_wrk(results: &Results) -> [u64; 5] {
    let mut errors = [0; 5];
    for (kind, count, _) in results.tally.failures.iter() {
        let place = match kind {
            Kind::Timeout => 4,
            kind if kind.is_connecting() => 0,
            _ => 1,
        };
        errors[place] += count;
    }
    errors[3] = results.tally.all.error_statuses();
    errors
}
