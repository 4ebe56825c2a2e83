//! The shape of the code: no file and no function grows past what a reader takes in, and no folder of a crate needs
//! another that needs it. Where `ARCHITECTURE.md` lists a crate's layers that holds for single files too, and no module needs one
//! of a higher layer.
//!
//! What was there before these rules stands in `tidy.txt`. Entries of that list may shrink and go; none may be added for
//! new code.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

/// Lines of a file without a list entry.
const FILE_LINES_MAX: usize = 600;

/// Lines of a function without a list entry.
const FUNCTION_LINES_MAX: usize = 60;

/// A source file of a crate.
struct Source {
    /// From the repository's root.
    path: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs")
    }
    /// The lines that are no tests.
    fn product(&self) -> Vec<&str> {
        let lines: Vec<&str> = self.text.lines().collect();
        let tests = lines.windows(2).position(|two| two[0] == "#[cfg(test)]" && two[1].starts_with("mod "));
        lines[..tests.unwrap_or(lines.len())].to_vec()
    }
}

/// What `tidy.txt` allows: the largest number of lines by file or function, and knots of modules by crate.
#[derive(Default)]
struct Exceptions {
    files: BTreeMap<String, usize>,
    functions: BTreeMap<String, usize>,
    knots: BTreeMap<String, BTreeSet<String>>,
}

impl Exceptions {
    fn read() -> Self {
        let mut exceptions = Self::default();
        let lines = include_str!("tidy.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |text: &str| text.parse().expect("a number of lines");
            match *words {
                ["file", path, lines] => drop(exceptions.files.insert(path.to_owned(), number(lines))),
                ["function", path, name, lines] => {
                    exceptions.functions.insert(format!("{path} {name}"), number(lines));
                }
                ["knot", name, ref modules @ ..] => {
                    exceptions.knots.insert(name.to_owned(), modules.iter().map(|m| (*m).to_owned()).collect());
                }
                _ => panic!("tidy.txt: {line}"),
            }
        }
        exceptions
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

fn sources(directory: &Path, found: &mut Vec<Source>) {
    let mut entries: Vec<_> =
        fs::read_dir(directory).expect("a directory").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let shown = path.strip_prefix(root()).expect("inside").display().to_string();
            found.push(Source { path: shown, text: fs::read_to_string(&path).expect("text") });
        }
    }
}

/// The sources of each crate.
fn crates() -> BTreeMap<String, Vec<Source>> {
    let mut crates = BTreeMap::new();
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let entry = entry.expect("an entry");
        let mut found = Vec::new();
        sources(&entry.path().join("src"), &mut found);
        crates.insert(entry.file_name().into_string().expect("text"), found);
    }
    crates
}

/// Compares what is too long with what the list allows.
fn compare(what: &str, limit: usize, found: BTreeMap<String, usize>, allowed: &BTreeMap<String, usize>) {
    let mut faults = Vec::new();
    for (name, lines) in &found {
        match allowed.get(name) {
            None => faults.push(format!("{what} {name} has {lines} lines, more than {limit}: split it")),
            Some(max) if lines > max => {
                faults.push(format!("{what} {name} has {lines} lines, and had {max}: split it"));
            }
            Some(_) => {}
        }
    }
    for name in allowed.keys().filter(|name| !found.contains_key(*name)) {
        faults.push(format!("{what} {name} is no longer too long: take it out of xtask/tests/tidy.txt"));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let lines = |source: &Source| (source.path.clone(), source.text.lines().count());
    let all = crates().into_values().flatten().filter(|source| !source.is_test()).map(|source| lines(&source));
    let long = all.filter(|(_, lines)| *lines > FILE_LINES_MAX).collect();
    compare("file", FILE_LINES_MAX, long, &Exceptions::read().files);
}

#[test]
fn functions_fit_on_a_screen() {
    let begin =
        Regex::new(r#"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?(?:unsafe )?(?:extern "[^"]*" )?fn (\w+)"#);
    let begin = begin.expect("a pattern");
    let mut long = BTreeMap::new();
    for source in crates().into_values().flatten().filter(|source| !source.is_test()) {
        let lines = source.product();
        for (at, line) in lines.iter().enumerate() {
            let Some(found) = begin.captures(line) else { continue };
            let indent = &found[1];
            // Sources are formatted: a function ends with a brace below its beginning, or is one line.
            let is_end =
                |line: &&str| line.strip_prefix(indent) == Some("}") || line.strip_prefix(indent) == Some("};");
            let is_short = line.ends_with('}') || line.ends_with(';');
            let length = if is_short { 1 } else { lines[at..].iter().position(is_end).unwrap_or(0) + 1 };
            if length > FUNCTION_LINES_MAX {
                let most: &mut usize = long.entry(format!("{} {}", source.path, &found[2])).or_default();
                *most = length.max(*most);
            }
        }
    }
    compare("function", FUNCTION_LINES_MAX, long, &Exceptions::read().functions);
}

/// The modules of its own crate that a file names.
fn imports(source: &Source) -> BTreeSet<String> {
    let text: String =
        source.product().iter().map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n").collect();
    let mut names = BTreeSet::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("crate::") {
        rest = &rest[at + "crate::".len()..];
        let word = |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Some(group) = rest.strip_prefix('{') else {
            names.insert(word(rest));
            continue;
        };
        let (mut depth, mut begins) = (0, true);
        for (at, c) in group.char_indices() {
            match c {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && !c.is_whitespace() => {
                    names.insert(word(&group[at..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// The modules from which imports lead back to them.
fn knotted(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let leads_back = |module: &&String| {
        let (mut seen, mut ahead) = (BTreeSet::new(), vec![*module]);
        while let Some(next) = ahead.pop() {
            for import in imports.get(next).into_iter().flatten() {
                if import == *module {
                    return true;
                }
                if seen.insert(import) {
                    ahead.push(import);
                }
            }
        }
        false
    };
    imports.keys().filter(leads_back).cloned().collect()
}

/// The layers that `ARCHITECTURE.md` states for a crate, lowest first: each line of the list under "The layers of" begins with
/// the names of modules. Nothing if it states none.
fn layers_of(name: &str) -> Vec<String> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page");
    let head = format!("### The layers of `{name}`\n");
    let Some((_, section)) = page.split_once(&head) else { return Vec::new() };
    let lines = section.lines().take_while(|line| !line.starts_with('#')).filter_map(|line| line.strip_prefix("- "));
    let names = lines.filter_map(|line| line.split_once(": ")).flat_map(|(names, _)| names.split(", "));
    names.map(|name| name.trim_matches('`').to_owned()).collect()
}

/// The modules at the top of a crate with those that each of them names: all modules if `files` are meant too, else those that
/// are folders.
fn arrows(name: &str, found: &[Source], files: bool) -> BTreeMap<String, BTreeSet<String>> {
    let start = format!("crates/{name}/src/");
    let inside = |source: &Source| source.path.strip_prefix(&start).expect("a source of the crate").to_owned();
    let module_of = |source: &Source| {
        let inside = inside(source);
        inside.split_once('/').map_or(inside.trim_end_matches(".rs"), |(folder, _)| folder).to_owned()
    };
    let is_meant = |source: &&Source| files || inside(source).contains('/');
    let mut modules: BTreeSet<String> = found.iter().filter(is_meant).map(module_of).collect();
    modules.retain(|module| !["lib", "main"].contains(&module.as_str()));
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in found.iter().filter(|source| !source.is_test()) {
        let Some(module) = modules.get(&module_of(source)) else { continue };
        let named = imports(source).into_iter().filter(|import| modules.contains(import) && import != module);
        arrows.entry(module.clone()).or_default().extend(named);
    }
    arrows
}

/// What is wrong with the list of a crate's layers: names that it lacks or has in vain, and arrows that lead up.
fn against_layers(
    arrows: &BTreeMap<String, BTreeSet<String>>,
    layers: &[String],
    knot: &BTreeSet<String>,
) -> Vec<String> {
    let mut faults = Vec::new();
    let rank = |module: &String| layers.iter().position(|layer| layer == module);
    for module in arrows.keys().filter(|module| rank(module).is_none()) {
        faults.push(format!("{module} has no place in the list of ARCHITECTURE.md"));
    }
    for layer in layers.iter().filter(|layer| !arrows.contains_key(*layer)) {
        faults.push(format!("{layer} stands in the list of ARCHITECTURE.md, and is no module"));
    }
    for (module, imports) in arrows {
        let is_excused = |import: &&String| knot.contains(module) && knot.contains(*import);
        for import in imports.iter().filter(|import| rank(import) > rank(module) && !is_excused(import)) {
            faults.push(format!("{module} needs {import}, which stands above it in ARCHITECTURE.md"));
        }
    }
    faults
}

#[test]
fn modules_of_a_crate_do_not_need_each_other() {
    let mut allowed = Exceptions::read().knots;
    let mut faults = Vec::new();
    for (name, found) in crates() {
        let layers = layers_of(&name);
        let arrows = arrows(&name, &found, !layers.is_empty());
        let (knot, listed) = (knotted(&arrows), allowed.remove(&name).unwrap_or_default());
        for module in knot.difference(&listed) {
            faults.push(format!("{name}: {module} needs modules that need it: {:?}", arrows[module]));
        }
        for module in listed.difference(&knot) {
            faults.push(format!("{name}: {module} is free: take it out of xtask/tests/tidy.txt"));
        }
        if !layers.is_empty() {
            faults
                .extend(against_layers(&arrows, &layers, &listed).into_iter().map(|fault| format!("{name}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn an_arrow_that_leads_up_is_found() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let found = [("low", vec!["high"]), ("high", vec![]), ("new", vec![])];
    let arrows = found.map(|(module, named)| (module.to_owned(), names(&named).into_iter().collect())).into();
    let faults = against_layers(&arrows, &names(&["low", "high", "old"]), &BTreeSet::new());
    assert_eq!(
        faults,
        [
            "new has no place in the list of ARCHITECTURE.md",
            "old stands in the list of ARCHITECTURE.md, and is no module",
            "low needs high, which stands above it in ARCHITECTURE.md"
        ]
    );
    assert!(layers_of("tidegate-sql").iter().any(|layer| layer == "store"));
}
