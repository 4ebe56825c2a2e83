//! `tidegate load` and its report.

use std::process::Output;

use serde_json::Value;

use super::{binary, output};

pub(crate) fn load(arguments: &[&str]) -> Output {
    output(binary().arg("load").args(arguments))
}

/// Runs to the end; the report.
#[track_caller]
pub(crate) fn report(arguments: &[&str]) -> Value {
    let output = load(&[&["--json", "--quiet"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"))
}

/// All that `count` requests came to is responses of status 200.
#[track_caller]
pub(crate) fn all_well(report: &Value, count: u64) {
    assert_eq!(report["result"]["statuses"], serde_json::json!({ "200": count }), "{report:#}");
    assert_eq!(report["failures"], serde_json::json!({}), "{report:#}");
}

#[track_caller]
pub(crate) fn failures(report: &Value, kind: &str) -> u64 {
    report["failures"][kind]["count"].as_u64().unwrap_or(0)
}
