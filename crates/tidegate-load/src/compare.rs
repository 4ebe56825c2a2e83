//! Two runs side by side: which figures differ by more than they vary.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::failure::plain;
use crate::units::show_micros;

/// Seconds that a run must have for its spread to be known.
const SECONDS_MIN: usize = 5;

/// A figure of a run: its value over the whole run, and its values in each second.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    value: f64,
    seconds: Vec<f64>,
}

impl Figure {
    /// How far the middle half of the seconds is apart; `None` for too few of them.
    fn spread(&self) -> Option<f64> {
        let mut sorted = self.seconds.clone();
        if sorted.len() < SECONDS_MIN {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let at = |quantile: f64| sorted[((sorted.len() - 1) as f64 * quantile).round() as usize];
        Some(at(0.75) - at(0.25))
    }
}

/// What can be said of two figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    More,
    Less,
    /// The difference is within the spread of one of the two.
    Same,
    /// The runs were too short to know their spread.
    Unknown,
}

fn judge(a: &Figure, b: &Figure) -> Verdict {
    let (Some(spread_a), Some(spread_b)) = (a.spread(), b.spread()) else { return Verdict::Unknown };
    match b.value - a.value {
        difference if difference.abs() <= spread_a.max(spread_b) => Verdict::Same,
        difference if difference > 0.0 => Verdict::More,
        _ => Verdict::Less,
    }
}

/// Compares two reports of `--json`.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn files(a: &Path, b: &Path) -> Result<String, String> {
    let read = |file: &Path| {
        let text = std::fs::read(file).map_err(|error| format!("{}: {}", file.display(), plain(&error)))?;
        let report: Option<Value> = serde_json::from_slice(&text).ok();
        let report = report.filter(|report| report["tidegate_load"] == 1);
        report.ok_or_else(|| format!("{}: no report of tidegate load --json", file.display()))
    };
    Ok(text(&read(a)?, &read(b)?))
}

fn text(a: &Value, b: &Value) -> String {
    let mut out = differing_plans(a, b);
    // Their latencies would be 0, and the best of all.
    let silent: Vec<&str> =
        [("A", a), ("B", b)].iter().filter(|(_, report)| !has_responses(report)).map(|(name, _)| *name).collect();
    if silent.is_empty() {
        out += &figures(a, b);
    } else {
        let _ = writeln!(out, "There were no responses in {}: no figures can be compared.\n", silent.join(" and "));
    }
    for (name, key) in [("failed", "failed"), ("status >= 400", "error_statuses"), ("not sent", "not_sent")] {
        let [a, b] = [a, b].map(|report| report[key].as_u64().unwrap_or_default());
        if a > 0 || b > 0 {
            let _ = writeln!(out, "{name:<14}{a:>12}{:>9}{b:>12}", "");
        }
    }
    if silent.is_empty() {
        out += "\nThe spread is that between the middle half of the seconds. A difference within the larger of the two is none.\n";
    }
    out
}

fn has_responses(report: &Value) -> bool {
    report["result"]["responses"].as_u64().unwrap_or_default() > 0
}

/// The table of figures with what can be said of each.
fn figures(a: &Value, b: &Value) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{:<14}{:>12}{:>9}{:>12}{:>9}{:>10}", "", "A", "spread", "B", "spread", "B : A");
    // The first column of a second's figures, and whether more of it is better.
    let rows: [(&str, &[&str], &str, bool); 5] = [
        ("requests/s", &["requests_per_s"], "requests_per_s", true),
        ("50 %", &["result", "latency_us", "p50"], "p50_us", false),
        ("90 %", &["result", "latency_us", "p90"], "p90_us", false),
        ("99 %", &["result", "latency_us", "p99"], "p99_us", false),
        ("max", &["result", "latency_us", "max"], "max_us", false),
    ];
    for (name, path, of_second, more_is_better) in rows {
        let [a, b] = [a, b].map(|report| figure(report, path, of_second));
        let show = |figure: &Figure| {
            let show = |value: f64| if more_is_better { format!("{value:.0}") } else { show_micros(value) };
            (show(figure.value), figure.spread().map_or("?".to_owned(), |spread| percent(spread, figure.value)))
        };
        let ((value_a, spread_a), (value_b, spread_b)) = (show(&a), show(&b));
        let verdict = match judge(&a, &b) {
            Verdict::Same => "no difference",
            Verdict::Unknown => "too short to tell",
            Verdict::More if more_is_better => "B is better",
            Verdict::Less if !more_is_better => "B is better",
            Verdict::More | Verdict::Less => "B is worse",
        };
        let ratio = if a.value > 0.0 { format!("{:.3}", b.value / a.value) } else { "-".to_owned() };
        let _ = writeln!(out, "{name:<14}{value_a:>12}{spread_a:>9}{value_b:>12}{spread_b:>9}{ratio:>10}   {verdict}");
    }
    out
}

fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1} %", part / whole * 100.0) } else { "-".to_owned() }
}

fn figure(report: &Value, path: &[&str], of_second: &str) -> Figure {
    let value = path.iter().fold(report, |value, key| &value[*key]).as_f64().unwrap_or_default();
    let seconds = report["seconds"].as_array().into_iter().flatten().filter_map(|second| second[of_second].as_f64());
    Figure { value, seconds: seconds.collect() }
}

/// What was asked for differently: such runs cannot be compared without a thought.
fn differing_plans(a: &Value, b: &Value) -> String {
    let (Some(plan_a), Some(plan_b)) = (a["plan"].as_object(), b["plan"].as_object()) else { return String::new() };
    let mut out = String::new();
    for (key, value) in plan_a {
        // A report of an older version lacks what it did not tell yet.
        let Some(other) = plan_b.get(key) else { continue };
        if value != other {
            let _ = writeln!(out, "{key}: {value} in A, {other} in B");
        }
    }
    if out.is_empty() { out } else { out + "\n" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_judged_by_the_spread() {
        #[track_caller]
        fn check(a: (f64, &[f64]), b: (f64, &[f64]), expected: Verdict) {
            let [a, b] = [a, b].map(|(value, seconds)| Figure { value, seconds: seconds.to_vec() });
            assert_eq!(judge(&a, &b), expected);
        }
        let steady = [100.0, 101.0, 100.0, 99.0, 100.0];
        let faster = [110.0, 111.0, 110.0, 109.0, 110.0];
        let wild = [60.0, 150.0, 110.0, 80.0, 140.0];
        check((100.0, &steady), (110.0, &faster), Verdict::More);
        check((110.0, &faster), (100.0, &steady), Verdict::Less);
        check((100.0, &steady), (110.0, &wild), Verdict::Same);
        check((100.0, &steady), (110.0, &faster[..4]), Verdict::Unknown);
    }

    fn report(responses: u64, failed: u64, script: &str) -> Value {
        let second = json!({ "requests_per_s": 10.0, "p50_us": 100, "p90_us": 100, "p99_us": 100, "max_us": 100 });
        let latency = if responses > 0 { 100 } else { 0 };
        json!({
            "plan": { "script": script, "rate": null },
            "requests_per_s": 10.0,
            "result": { "responses": responses, "latency_us": { "p50": latency, "p90": latency, "p99": latency, "max": latency } },
            "failed": failed,
            "seconds": vec![second; 5],
        })
    }

    #[test]
    fn a_run_without_responses_is_not_the_best_one() {
        let shown = text(&report(50, 0, "a.lua"), &report(0, 7, "a.lua"));
        assert!(shown.starts_with("There were no responses in B") && !shown.contains("better"), "{shown}");
        assert!(shown.contains("failed                   0                    7"), "{shown}");
        let shown = text(&report(0, 7, "a.lua"), &report(0, 7, "a.lua"));
        assert!(shown.contains("in A and B"), "{shown}");
        let shown = text(&report(50, 0, "a.lua"), &report(50, 0, "b.lua"));
        assert!(
            shown.starts_with("script: \"a.lua\" in A, \"b.lua\" in B\n\n") && shown.contains("no difference"),
            "{shown}"
        );
        // One of before scripts were told.
        let mut old = report(50, 0, "a.lua");
        old["plan"] = json!({ "rate": null });
        assert!(text(&report(50, 0, "a.lua"), &old).trim_start().starts_with('A'));
    }
}
