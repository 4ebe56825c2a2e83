//! `summary.md`: the same in Markdown, with the plots as files beside it.

use super::model::Report;
use super::plots::Picture;
use super::tables::{self, Table};
use super::verdict;
use crate::seeds::{self, Seed};
use std::fmt::Write as _;

/// The whole page.
pub(super) fn page(report: &Report, pictures: &[Picture]) -> String {
    let mut page = "# Tidegate beside others\n".to_owned();
    for line in about(report) {
        let _ = write!(page, "\n{line}\n");
    }
    page += "\n## Rows that are worse than a peer's\n\n";
    let worse = verdict::worse(report);
    for sentence in &worse {
        let _ = writeln!(page, "- {sentence}");
    }
    if worse.is_empty() {
        page += "There is none.\n";
    }
    for chapter in &report.chapters {
        let _ = write!(page, "\n## {}\n\n{}\n\n", chapter.work.title, chapter.work.text);
        for picture in pictures.iter().filter(|picture| picture.work == chapter.work.id) {
            let _ = writeln!(page, "![{}](plots/{}.svg)", picture.title, picture.name);
        }
        page.push('\n');
        table(&mut page, &tables::in_the_seeds_form(chapter));
        if let Some(seed) = seeds::about(chapter.work.id) {
            let _ = write!(page, "\n{}\n", source(seed));
        }
        page.push('\n');
        table(&mut page, &tables::figures(chapter));
    }
    page += "\n## Who took part\n\n";
    table(&mut page, &tables::participants(report));
    for sentence in absent(report) {
        let _ = write!(page, "\n{sentence}\n");
    }
    page
}

/// The machine and the way of measuring, in paragraphs.
pub(super) fn about(report: &Report) -> Vec<String> {
    let run = &report.run;
    let rounds = report.chapters.iter().flat_map(|c| &c.series).flat_map(|s| &s.cells).map(|c| c.rate.rounds);
    let rounds = match (rounds.clone().min(), rounds.max()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(least), _) => least.to_string(),
        _ => "no".to_owned(),
    };
    vec![
        format!("Measured on {}; begun {}. Binary: {}.", run.machine, run.begun, run.binary),
        format!(
            "Servers and databases share the cores {}, the load has {}. Load: {}. Behind the servers: {}.",
            run.cores.servers,
            run.cores.load,
            run.generator,
            if run.services.is_empty() { "nothing".to_owned() } else { run.services.join("; ") }
        ),
        format!(
            "Each figure is the median of {rounds} rounds of {} s (works that wait have longer ones), in which the stacks took turns; the \
             spread is that of the middle half of them. Where the spread of one of two is wider than their difference, the \
             difference is less than two in a hundred, or there are less than three rounds, it is no difference; in the plots such a point is \
             hollow. The black line is a server that does nothing: it waits for requests, \
             and writes answers that were made before.",
            run.seconds
        ),
    ]
}

/// What is not in the report, a sentence each.
pub(super) fn absent(report: &Report) -> Vec<String> {
    let left_out = report.run.left_out.iter().map(|sentence| format!("Left out: {sentence}."));
    let failed = report.problems.iter().map(|problem| format!("{problem}."));
    left_out.chain(failed).collect()
}

/// Where figures of others come from.
pub(super) fn source(seed: &Seed) -> String {
    let lines = if seed.rows.is_empty() { "" } else { "The lines \"then\" are its figures. " };
    format!("Then: {}. {lines}{}", seed.source, seed.text).trim_end().to_owned()
}

fn table(page: &mut String, table: &Table) {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    page.push_str(&line(&table.head));
    page.push_str(&line(&vec!["---".to_owned(); table.head.len()]));
    for row in &table.rows {
        page.push_str(&line(row));
    }
}
