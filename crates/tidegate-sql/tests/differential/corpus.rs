//! The form of `corpus/*.sql`.
//!
//! A statement ends with `;` at the end of a line. Lines that begin with `--` are for the reader. A line `@NAME = a ;; b ;; c`
//! defines a list; `{NAME}` in a statement stands for each of its values in turn, several lists for all their combinations.
//! `{NAME.1}` and `{NAME.2}` are the same list twice. A statement behind `!` prepares the ground and is not counted.

use std::{collections::BTreeMap, path::Path};

/// A file of statements.
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) statements: Vec<Statement>,
}

/// One statement, lists filled in.
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) silent: bool,
}

/// All files of the corpus, or of the directory that `TIDEGATE_DIFF_DIR` names, by name.
pub(crate) fn files() -> Vec<File> {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/corpus");
    let dir = std::env::var_os("TIDEGATE_DIFF_DIR").map_or_else(own, Into::into);
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .expect("the corpus")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| File {
            name: path.file_stem().expect("a name").to_string_lossy().into_owned(),
            statements: statements(&std::fs::read_to_string(path).expect("UTF-8")),
        })
        .collect()
}

fn statements(text: &str) -> Vec<Statement> {
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut all = Vec::new();
    let mut open = String::new();
    for line in text.lines() {
        if open.is_empty() {
            if line.trim().is_empty() || line.starts_with("--") {
                continue;
            }
            if let Some((name, values)) = line.strip_prefix('@').and_then(|rest| rest.split_once(" = ")) {
                lists.insert(name.to_owned(), values.split(";;").map(|value| value.trim().to_owned()).collect());
                continue;
            }
        } else {
            open.push('\n');
        }
        open.push_str(line);
        if let Some(sql) = open.trim_end().strip_suffix(';') {
            let (silent, sql) = sql.strip_prefix('!').map_or((false, sql), |sql| (true, sql));
            expand(sql, &lists, silent, &mut all);
            open.clear();
        }
    }
    assert!(open.is_empty(), "a statement without its end: {open}");
    all
}

fn expand(sql: &str, lists: &BTreeMap<String, Vec<String>>, silent: bool, all: &mut Vec<Statement>) {
    let place = sql.match_indices('{').find_map(|(start, _)| {
        let name = &sql[start + 1..start + sql[start..].find('}')?];
        lists.get(name.split('.').next()?).map(|values| (name.to_owned(), values))
    });
    let Some((name, values)) = place else {
        all.push(Statement { sql: sql.to_owned(), silent });
        return;
    };
    for value in values {
        expand(&sql.replace(&format!("{{{name}}}"), value), lists, silent, all);
    }
}
