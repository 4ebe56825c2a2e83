//! `drizzle_status`: the state of all pools as text.
//!
//! Without an argument the lines are those of drizzle-nginx-module; the numbers count over all workers. What a slot without
//! an idle connection was used for is not remembered, so "free'd" counts are zeros.

use std::{fmt::Write, rc::Rc};

use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    phase::{Outcome, Step},
    request::Request,
};
use tidegate_mysql::PoolStats;

use super::{backend::Backend, backends};

/// The two forms of `drizzle_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// The lines that the original module prints.
    Brief,
    /// Counts and times as well.
    Full,
}

impl Detail {
    pub(super) fn parse(directive: &ast::Directive) -> Result<Self, Diagnostic> {
        match directive.args.first() {
            None => Ok(Self::Brief),
            Some(arg) if arg.value == "full" => Ok(Self::Full),
            Some(arg) => Err(Diagnostic::invalid_parameter(&arg.value, arg.span, ["full"])),
        }
    }
}

/// Answers with the state of all pools, over all workers.
pub(super) fn answer(req: &Rc<Request>, detail: Detail) -> Outcome {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if req.conf().main().master_process != Some(false) {
        let _ = writeln!(text, "worker process: {}\n", std::process::id());
    }
    for (number, (level, conf)) in backends(req.conf()).enumerate() {
        if number > 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "upstream {}", level.name);
        let pool = match &**conf.backend(level) {
            Backend::Mysql { pool, .. } => pool,
            Backend::Embedded { schema, .. } => {
                let _ = writeln!(text, "  embedded: schema {schema}");
                continue;
            }
        };
        let stats = pool.stats();
        let keepalive = conf.keepalive.unwrap_or_default();
        let _ = writeln!(text, "  active connections: {}", stats.open);
        let _ = writeln!(text, "  connection pool capacity: {}", keepalive.max);
        if keepalive.max > 0 {
            let _ = writeln!(text, "  overflow: {}", keepalive.overflow.as_str());
            append_slots(&mut text, keepalive.max, &stats.idle_uses);
        }
        let _ = writeln!(text, "  servers: {}", stats.servers.len());
        let _ = writeln!(text, "  peers: {}", stats.servers.iter().map(|(_, addresses)| addresses).sum::<usize>());
        if detail == Detail::Full {
            append_counts(&mut text, &stats);
        }
    }
    req.response.borrow_mut().content_type = b"text/plain".to_vec();
    req.send_complete(200, text.into_bytes().into()).map(|_| Step::Ok)
}

/// The two queues of the module: idle connections, and slots without one.
fn append_slots(text: &mut String, max: usize, idle_uses: &[u64]) {
    let free = max.saturating_sub(idle_uses.len());
    let _ = writeln!(text, "  cached connection queue: {}", idle_uses.len());
    let _ = writeln!(text, "  free'd connection queue: {free}");
    text.push_str("  cached connection successfully used count:");
    for uses in idle_uses {
        let _ = write!(text, " {uses}");
    }
    text.push_str("\n  free'd connection successfully used count:");
    text.extend(std::iter::repeat_n(" 0", free));
    text.push('\n');
}

fn append_counts(text: &mut String, stats: &PoolStats) {
    let lines: [(&str, u64); 14] = [
        ("idle connections", stats.idle as u64),
        ("waiting requests", stats.waiting as u64),
        ("connections reused", stats.hits),
        ("connections lent between workers", stats.lent),
        ("connections made", stats.connects),
        ("connect errors", stats.connect_errors),
        ("connections expired", stats.expired),
        ("connections replaced", stats.retries),
        ("statements that shared a connection", stats.shared),
        ("statements cancelled", stats.cancelled),
        ("requests that waited", stats.waits),
        ("requests rejected", stats.rejected),
        ("statements", stats.queries),
        ("statement errors", stats.query_errors),
    ];
    for (label, value) in lines {
        let _ = writeln!(text, "  {label}: {value}");
    }
    let _ = writeln!(text, "  statement time in all: {} us", stats.latency.sum().as_micros());
    for (label, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)] {
        let _ = writeln!(text, "  statement time {label}: {} us", stats.latency.quantile(quantile).as_micros());
    }
    for (end, count) in stats.latency.buckets() {
        let _ = writeln!(text, "  statements below {} us: {count}", end.as_micros());
    }
    for (address, addresses) in &stats.servers {
        let _ = writeln!(text, "  server {address}: {addresses} address{}", if *addresses == 1 { "" } else { "es" });
    }
}
