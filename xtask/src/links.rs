//! Links between the project's own pages: each leads to a file, and to a heading of it, that exist.

use crate::paths;
use regex::Regex;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What is wrong, a line for each broken link; empty when all is well.
///
/// # Errors
/// When a page cannot be read.
pub(crate) fn broken() -> Result<Vec<String>, String> {
    let mut pages = Vec::new();
    find_pages(paths::repository(), &mut pages)?;
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a valid pattern");
    let mut problems = Vec::new();
    for page in &pages {
        let text = read(page)?;
        for (number, line) in outside_of_code(&text) {
            for found in link.captures_iter(line) {
                if let Some(problem) = problem(page, &found[1])? {
                    let shown = page.strip_prefix(paths::repository()).unwrap_or(page);
                    problems.push(format!("{}:{number}: {problem}", shown.display()));
                }
            }
        }
    }
    Ok(problems)
}

/// Why a link leads nowhere. Links to other sites are not looked at.
fn problem(page: &Path, target: &str) -> Result<Option<String>, String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(None);
    }
    let (file, heading) = target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    let path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap_or(page).join(file) };
    if !path.exists() {
        return Ok(Some(format!("there is no {file}")));
    }
    let Some(heading) = heading.filter(|_| path.extension().is_some_and(|extension| extension == "md")) else {
        return Ok(None);
    };
    let known = headings(&read(&path)?);
    Ok((!known.contains(heading)).then(|| format!("{target} has no such heading")))
}

/// The anchors of a page, as GitHub makes them.
fn headings(text: &str) -> HashSet<String> {
    let mut anchors = HashSet::new();
    for (_, line) in outside_of_code(text).filter(|(_, line)| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let mut name = anchor.clone();
        let mut count = 0;
        while !anchors.insert(name.clone()) {
            count += 1;
            name = format!("{anchor}-{count}");
        }
    }
    anchors
}

/// Lines that are not in a block of code, with their numbers.
fn outside_of_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        (!is_code).then_some((index + 1, line))
    })
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// All Markdown files but those of build directories.
fn find_pages(directory: &Path, pages: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && !path.is_symlink() {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                find_pages(&path, pages)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_become_anchors() {
        let text = "# A page\n## `-t` and more\n```\n# no heading\n```\n## Twice\n## Twice\n";
        let mut anchors: Vec<_> = headings(text).into_iter().collect();
        anchors.sort();
        assert_eq!(anchors, ["-t-and-more", "a-page", "twice", "twice-1"]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let page = paths::repository().join("README.md");
        for (target, expected) in [
            ("docs/testing.md", None),
            ("docs/testing.md#fuzzing", None),
            ("https://example.com/none.md", None),
            ("docs/no-such-page.md", Some("there is no docs/no-such-page.md")),
            ("docs/testing.md#no-such-part", Some("docs/testing.md#no-such-part has no such heading")),
            ("#no-such-part", Some("#no-such-part has no such heading")),
        ] {
            assert_eq!(problem(&page, target).expect("readable").as_deref(), expected, "{target}");
        }
    }
}
