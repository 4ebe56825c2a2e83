//! Rows that are worse than a peer's, with the reason where it is known.

use super::model::{Chapter, Measure, Report, Series};
use crate::stacks::{STACKS, Side};

/// Why rows are worse, where that is known.
const REASONS: &str = include_str!("../../sources/reasons.txt");

/// A sentence for each of our series that is worse than a peer by more than the spread.
pub(super) fn worse(report: &Report) -> Vec<String> {
    let mut sentences = Vec::new();
    for chapter in &report.chapters {
        let of = |side: Side| chapter.series.iter().filter(move |series| series.side == side);
        for ours in of(Side::Ours) {
            let peers = of(Side::Peer).filter(|peer| are_rivals(ours, peer));
            let peers: Vec<String> = peers.filter_map(|peer| beside(chapter, ours, peer)).collect();
            if !peers.is_empty() {
                let reason = reason(chapter.work.id, &ours.id).unwrap_or("not known yet");
                sentences.push(format!(
                    "**{}**, {}: {}. Reason: {reason}.",
                    chapter.work.title,
                    ours.label,
                    peers.join("; ")
                ));
            }
        }
    }
    sentences
}

/// Whether the two are alike enough for a comparison in words: PHP behind two servers is, PHP and Go are not.
fn are_rivals(ours: &Series, peer: &Series) -> bool {
    let stack = |series: &Series| series.id.split('/').next().unwrap_or_default().to_owned();
    let known = STACKS.iter().find(|known| known.id == stack(ours));
    known.is_none_or(|known| known.rivals.is_empty() || known.rivals.contains(&stack(peer).as_str()))
}

/// How ours is worse than a peer; `None` if it is not.
fn beside(chapter: &Chapter, ours: &Series, peer: &Series) -> Option<String> {
    let mut parts = Vec::new();
    for (measure, what) in
        [(Measure::Rate, "the requests a second"), (Measure::P99, "the p99"), (Measure::Cpu, "the CPU time")]
    {
        let worse = chapter.clients.iter().filter_map(|&clients| {
            let (ours, peer) = (ours.cell(clients)?, peer.cell(clients)?);
            let ratio = ours.figure(measure).median / peer.figure(measure).median;
            // A peer whose figure is 0, of CPU time after it was started again say, was not measured.
            (ours.is_worse_than(peer, measure) && ratio.is_finite()).then_some((clients, ratio))
        });
        let worse: Vec<(usize, f64)> = worse.collect();
        // The worst of them stands for the others.
        let distance = |ratio: f64| if measure == Measure::Rate { 1.0 / ratio } else { ratio };
        if let Some((clients, ratio)) = worse.iter().max_by(|a, b| distance(a.1).total_cmp(&distance(b.1))) {
            let others = match worse.len() {
                1 => String::new(),
                count => format!(" (the worst of {count})"),
            };
            parts.push(format!("{ratio:.2} x {what} at {clients} clients{others}"));
        }
    }
    (!parts.is_empty()).then(|| format!("than {}: {}", peer.label, parts.join(", ")))
}

fn reason(work: &str, series: &str) -> Option<&'static str> {
    let lines = REASONS.lines().filter(|line| !line.starts_with('#'));
    let mut known = lines.filter_map(|line| line.split_once(" = "));
    known.find(|(row, _)| row.split_once(' ') == Some((work, series))).map(|(_, reason)| reason.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::work;

    #[test]
    fn reasons_are_about_rows_that_there_are() {
        for line in REASONS.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (row, reason) = line.split_once(" = ").expect("a row and a reason");
            let (id, series) = row.split_once(' ').expect("a work and a series");
            let work = work(id).expect("a work");
            let (stack, path) = series.split_once('/').expect("a stack and a path");
            let is_route = |route: &crate::stacks::Route| {
                route.work == work.id && route.path == if path == "-" { "" } else { path }
            };
            let stack = STACKS.iter().find(|known| known.id == stack).expect("a stack");
            assert!(stack.routes.iter().any(is_route), "{line}");
            assert!(!reason.ends_with('.'), "{line}");
            assert_eq!(super::reason(id, series), Some(reason.trim()));
        }
        assert_eq!(reason("cpu", "nobody/-"), None);
    }
}
