//! What the shared server module needs of its tests.

use tidegate_rows::{
    csv::{Csv, CsvOptions},
    sink::Collect,
};

/// Rows that nobody looks at.
pub(crate) fn csv() -> Collect<Csv> {
    Collect { format: Csv::new(CsvOptions::default()), out: Vec::new() }
}
