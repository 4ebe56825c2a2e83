//! `report.html`: everything in one file, styles and plots too.

use super::model::{Chapter, Report};
use super::plots::Picture;
use super::tables::{self, Table};
use super::{markdown, verdict};
use crate::seeds;
use std::fmt::Write as _;

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; }
figure { margin: 1rem 0; background: #fff; border: 1px solid #ced4da; overflow-x: auto; }
svg { max-width: 100%; height: auto; display: block; }
div.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; }
th, td { padding: 0.2rem 0.6rem; border-bottom: 1px solid #8886; text-align: left; white-space: nowrap; }
td + td { font-variant-numeric: tabular-nums; }
nav a { margin-right: 1rem; white-space: nowrap; } summary { cursor: pointer; margin: 0.5rem 0; }
";

/// The whole page.
pub(super) fn page(report: &Report, pictures: &[Picture]) -> String {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Tidegate beside others</title>\n";
    let _ = writeln!(page, "<style>{STYLE}</style>\n</head>\n<body>\n<h1>Tidegate beside others</h1>");
    for line in markdown::about(report) {
        let _ = writeln!(page, "<p>{}</p>", escape(&line));
    }
    page += "<nav>";
    for chapter in &report.chapters {
        let _ = write!(page, "<a href=\"#{}\">{}</a> ", chapter.work.id, escape(chapter.work.title));
    }
    page += "</nav>\n<h2>Rows that are worse than a peer's</h2>\n<ul>\n";
    let worse = verdict::worse(report);
    for sentence in &worse {
        // The two marks of bold type are the only Markdown in a sentence.
        let _ = writeln!(page, "<li>{}</li>", escape(sentence).replacen("**", "<b>", 1).replacen("**", "</b>", 1));
    }
    if worse.is_empty() {
        page += "<li>There is none.</li>\n";
    }
    page += "</ul>\n";
    for chapter in &report.chapters {
        self::chapter(&mut page, report, chapter, pictures);
    }
    page += "<h2>Who took part</h2>\n";
    table(&mut page, &tables::participants(report));
    for sentence in markdown::absent(report) {
        let _ = writeln!(page, "<p>{}</p>", escape(&sentence));
    }
    page += "</body>\n</html>\n";
    page
}

fn chapter(page: &mut String, report: &Report, chapter: &Chapter, pictures: &[Picture]) {
    let _ = writeln!(page, "<h2 id=\"{}\">{}</h2>", chapter.work.id, escape(chapter.work.title));
    let _ = writeln!(page, "<p>{}</p>", escape(chapter.work.text));
    for picture in pictures.iter().filter(|picture| picture.work == chapter.work.id) {
        let _ =
            writeln!(page, "<figure role=\"img\" aria-label=\"{}\">{}</figure>", escape(&picture.title), picture.svg);
    }
    table(page, &tables::in_the_seeds_form(chapter));
    if let Some(seed) = seeds::about(chapter.work.id) {
        let _ = writeln!(page, "<p>{}</p>", escape(&markdown::source(seed)));
    }
    page.push_str("<details><summary>All figures</summary>\n");
    table(page, &tables::figures(chapter));
    page.push_str("</details>\n<details><summary>Commands</summary>\n");
    table(page, &tables::commands(report, chapter));
    page.push_str("</details>\n");
}

fn table(page: &mut String, table: &Table) {
    page.push_str("<div class=\"table\"><table>\n<tr>");
    for text in &table.head {
        let _ = write!(page, "<th>{}</th>", escape(text));
    }
    page.push_str("</tr>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for text in row {
            let _ = write!(page, "<td>{}</td>", escape(text));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}
