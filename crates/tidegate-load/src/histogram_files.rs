//! Distributions of latencies in the form of HdrHistogram's own tools, which its plotter draws.

use std::io::{self, Write};

use hdrhistogram::Histogram;

/// Steps between two halvings of the distance to 100 %, as HdrHistogram's tools have them.
const STEPS: u32 = 5;

/// Writes the percentiles of a histogram of microseconds, in milliseconds.
///
/// # Errors
/// Those of `out`.
///
/// Source: HdrHistogram's `outputPercentileDistribution`, whose columns the plotter expects.
pub(crate) fn write_percentiles(histogram: &Histogram<u64>, out: &mut impl Write) -> io::Result<()> {
    const MICROS: f64 = 1000.0;
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let mut seen = 0;
    for step in histogram.iter_quantiles(STEPS) {
        seen += step.count_since_last_iteration();
        let quantile = step.quantile_iterated_to();
        let value = step.value_iterated_to() as f64 / MICROS;
        write!(out, "{value:12.3} {quantile:2.12} {seen:10}")?;
        if quantile < 1.0 { writeln!(out, " {:14.2}", 1.0 / (1.0 - quantile))? } else { writeln!(out)? }
    }
    let (mean, deviation) = (histogram.mean() / MICROS, histogram.stdev() / MICROS);
    writeln!(out, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]")?;
    let (max, total) = (histogram.max() as f64 / MICROS, histogram.len());
    writeln!(out, "#[Max     = {max:12.3}, Total count    = {total:12}]")?;
    let (buckets, sub_buckets) =
        (histogram.buckets(), 1u64 << (64 - (2 * 10u64.pow(u32::from(histogram.sigfig())) - 1).leading_zeros()));
    writeln!(out, "#[Buckets = {buckets:12}, SubBuckets     = {sub_buckets:12}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_ends_at_all() {
        let mut histogram = crate::tally::histogram();
        (1..=1000).for_each(|micros| histogram.saturating_record(micros));
        let mut out = Vec::new();
        write_percentiles(&histogram, &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|word| word.parse().expect("a number")).collect())
            .collect();
        assert!(rows.is_sorted_by(|a, b| a[0] <= b[0] && a[1] <= b[1]), "{text}");
        assert_eq!(rows.last().map(|row| &row[..]), Some(&[1.0, 1.0, 1000.0][..]), "{text}");
        assert!(text.contains("#[Max     =        1.000, Total count    =         1000]"), "{text}");
    }
}
