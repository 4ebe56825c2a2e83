//! `drizzle_status`: the state of all pools as text.

use std::{fmt::Write, rc::Rc};

use tidegate_core::{
    phase::{Outcome, Step},
    request::Request,
};

use super::{backend::Backend, backends};

/// Answers with the state of all pools, over all workers.
pub(super) fn answer(req: &Rc<Request>) -> Outcome {
    let mut text = String::new();
    for (name, conf) in backends(req.conf()) {
        if !text.is_empty() {
            text.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "upstream {name}");
        let pool = match &**conf.backend(name) {
            Backend::Mysql(pool) => pool,
            Backend::Embedded { schema } => {
                let _ = writeln!(text, "  embedded: schema {schema}");
                continue;
            }
        };
        let stats = pool.stats();
        let keepalive = conf.keepalive.unwrap_or_default();
        let _ = writeln!(text, "  active connections: {}", stats.open);
        let _ = writeln!(text, "  connection pool capacity: {}", keepalive.max);
        if keepalive.max > 0 {
            let _ = writeln!(text, "  overflow: {}", format!("{:?}", keepalive.overflow).to_lowercase());
            let _ = writeln!(text, "  idle connections: {}", stats.idle);
            let _ = writeln!(text, "  waiting requests: {}", stats.waiting);
            let _ = writeln!(text, "  connections reused: {}", stats.hits);
            let _ = writeln!(text, "  connections lent between workers: {}", stats.lent);
        }
        let _ = writeln!(text, "  connections made: {}", stats.connects);
        let _ = writeln!(text, "  connect errors: {}", stats.connect_errors);
        let _ = writeln!(text, "  requests that waited: {}", stats.waits);
        let _ = writeln!(text, "  requests rejected: {}", stats.rejected);
        let _ = writeln!(text, "  statements: {}", stats.queries);
        let _ = writeln!(text, "  statement errors: {}", stats.query_errors);
        for (label, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let _ = writeln!(text, "  statement time {label}: {} us", stats.latency.quantile(quantile).as_micros());
        }
        let _ = writeln!(text, "  servers: {}", conf.servers.len());
    }
    req.response.borrow_mut().content_type = b"text/plain".to_vec();
    req.send_complete(200, text.into_bytes().into()).map(|_| Step::Ok)
}
