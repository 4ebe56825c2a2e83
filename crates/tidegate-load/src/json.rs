//! The report of a run as JSON, for programs and for `--compare`.

use serde_json::{Map, Value, json};

use crate::plan::Plan;
use crate::run::{Results, Second};
use crate::tally::Part;

/// Percentiles in the report, by their names.
pub(crate) const PERCENTILES: [(&str, f64); 8] = [
    ("p10", 0.1),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// The whole report.
pub(crate) fn report(plan: &Plan, results: &Results) -> Value {
    let tally = &results.tally;
    let mut failures = Map::new();
    for (kind, count, text) in tally.failures.iter() {
        failures.insert(kind.name().to_owned(), json!({ "count": count, "example": text }));
    }
    let urls: Vec<Value> = plan
        .urls
        .iter()
        .zip(&tally.parts)
        .map(|(url, part)| json!({ "url": url.text, "failed": part.failed, "result": part_of(part) }))
        .collect();
    json!({
        "tidegate_load": 1,
        "plan": {
            "urls": plan.urls.iter().map(|url| url.text.as_str()).collect::<Vec<_>>(),
            "method": plan.form.method,
            "headers": plan.form.fields.iter().map(header).collect::<Vec<_>>(),
            "body_bytes": plan.form.body.len(),
            "script": plan.script,
            "address": plan.address.to_string(),
            "connections": plan.connections,
            "threads": plan.threads,
            "streams": plan.streams,
            "http2": plan.is_http2,
            "tls": plan.tls.is_some(),
            "keep_alive": plan.keep_alive,
            "rate": plan.rate,
            "duration_s": plan.duration.map(|duration| duration.as_secs_f64()),
            "requests": plan.number,
            "warm_up_s": plan.warm_up.as_secs_f64(),
            "timeout_s": plan.timeout.as_secs_f64(),
        },
        "elapsed_s": results.elapsed.as_secs_f64(),
        "interrupted": results.was_interrupted,
        "requests_per_s": results.rate(),
        "bytes": tally.bytes,
        "connections_opened": tally.opened,
        "not_sent": results.unsent,
        "result": part_of(&tally.all),
        "failed": tally.all.failed,
        "failures": failures,
        "error_statuses": tally.all.error_statuses(),
        "urls": urls,
        "generator": {
            "user_s": results.processor.0.as_secs_f64(),
            "system_s": results.processor.1.as_secs_f64(),
        },
        "seconds": results.seconds.iter().map(second).collect::<Vec<_>>(),
    })
}

/// A header line; a password or a session is nothing to keep in a file.
fn header((name, value): &(String, String)) -> String {
    let is_secret =
        ["authorization", "proxy-authorization", "cookie"].iter().any(|secret| name.eq_ignore_ascii_case(secret));
    format!("{name}: {}", if is_secret { "…" } else { value.as_str() })
}

fn part_of(part: &Part) -> Value {
    let statuses: Map<String, Value> =
        part.statuses().map(|(status, count)| (format!("{status:03}"), Value::from(count))).collect();
    let latency = &part.latency;
    let mut micros = Map::new();
    micros.insert("min".to_owned(), Value::from(latency.min()));
    micros.insert("mean".to_owned(), Value::from(latency.mean()));
    micros.insert("stdev".to_owned(), Value::from(latency.stdev()));
    for (name, quantile) in PERCENTILES {
        micros.insert(name.to_owned(), Value::from(latency.value_at_quantile(quantile)));
    }
    micros.insert("max".to_owned(), Value::from(latency.max()));
    json!({ "responses": part.responses, "statuses": statuses, "latency_us": micros })
}

fn second(second: &Second) -> Value {
    let [p50, p90, p99, max] = second.latency;
    json!({
        "seconds": second.seconds,
        "responses": second.responses,
        "failed": second.failed,
        "requests_per_s": second.rate(),
        "p50_us": p50,
        "p90_us": p90,
        "p99_us": p99,
        "max_us": max,
    })
}
