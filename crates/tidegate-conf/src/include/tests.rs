use std::fs;

use super::*;
use crate::{Diagnostics, Directive, Includes, ParseOptions, parse_file, parse_text};

/// A folder of files that goes away with its value.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str, files: &[(&str, &str)]) -> Folder {
        let path = std::env::temp_dir().join(format!("tidegate-conf-{}-{test}", std::process::id()));
        for (name, text) in files {
            let file = path.join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder for tests");
            fs::write(file, text).expect("a file for tests");
        }
        Folder(path)
    }

    /// The names in order, and the errors with the folder left out.
    fn parse(&self, text: &str) -> (String, String) {
        let (mut sources, mut diagnostics) = (SourceMap::new(), Diagnostics::new());
        let options = ParseOptions { conf_dir: self.0.clone(), ..ParseOptions::default() };
        let tree = parse_text("main", text, &mut sources, &options, &mut diagnostics);
        let errors: Vec<_> = diagnostics.iter().map(|d| d.one_line(&sources)).collect();
        (names(&tree), errors.join("\n").replace(&*self.0.to_string_lossy(), "DIR"))
    }

    #[track_caller]
    fn check(&self, text: &str, expected: &str) {
        assert_eq!(self.parse(text), (expected.to_owned(), String::new()), "{text}");
    }

    #[track_caller]
    fn check_error(&self, text: &str, error: &str, expected: &str) {
        assert_eq!(self.parse(text), (expected.to_owned(), error.to_owned()), "{text}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn names(tree: &[Directive]) -> String {
    let one = |directive: &Directive| match directive.children() {
        [] => directive.name().to_string(),
        children => format!("{}({})", directive.name(), names(children)),
    };
    tree.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn files_take_the_place_of_include() {
    let folder = Folder::new(
        "place",
        &[
            ("a", "a1; include sub/b; a2 {}"),
            ("sub/b", "b;"),
            ("mime.types", "types { text/html html; }"),
            ("list", "x y;"),
        ],
    );
    folder.check("include a;", "a1 b a2");
    folder.check("m; include a; n;", "m a1 b a2 n");
    folder.check("http { include mime.types; server { include a; } }", "http(types(text/html) server(a1 b a2))");
    folder.check("map $a $b { default 1; include list; }", "map(default x)");
    folder.check("include a; include a;", "a1 b a2 a1 b a2");
    folder.check("\"include\" \"sub/b\";", "b");
    folder.check(&format!("include {}/sub/b;", folder.0.display()), "b");
}

#[test]
fn patterns() {
    let folder = Folder::new(
        "patterns",
        &[("d/b.conf", "b;"), ("d/a.conf", "a;"), ("d/c.txt", "c;"), ("d/.hidden.conf", "h;"), ("e/x.conf", "x;")],
    );
    folder.check("include d/*.conf;", "a b");
    folder.check("include */*.conf;", "a b x");
    folder.check("include d/[!a]*;", "b c");
    folder.check("include ?/a.conf;", "a");
    folder.check("include d/.*.conf;", "h");
    folder.check("include d/*.none;", "");
    folder.check("include none/*;", "");
    folder.check("include */none;", "");
    folder.check("include d//*.txt;", "c");
    folder.check(&format!("include {}/d/*.txt;", folder.0.display()), "c");
    folder.check_error("include *;", "pread() \"DIR/d\" failed (21: Is a directory) in main:1\npread() \"DIR/e\" failed (21: Is a directory) in main:1", "");
}

#[test]
fn what_goes_wrong_names_the_place() {
    let folder = Folder::new(
        "wrong",
        &[
            ("broken", "a;\nb {"),
            ("close", "}"),
            ("again", "x; include again;"),
            ("ping", "include pong;"),
            ("pong", "y; include ping;"),
        ],
    );
    folder.check_error(
        "x;\ninclude none;\ny;",
        "open() \"DIR/none\" failed (2: No such file or directory) in main:2",
        "x y",
    );
    folder.check_error("include broken; y;", "unexpected end of file, expecting \"}\" in DIR/broken:2", "a b y");
    folder.check_error("s { include close; }", "unexpected \"}\" in DIR/close:1", "s");
    folder.check_error("include again;", "\"include\" of \"DIR/again\" inside of itself in DIR/again:1", "x");
    folder.check_error("include ping;", "\"include\" of \"DIR/ping\" inside of itself in DIR/pong:1", "y");
    folder.check_error("include;", "invalid number of arguments in \"include\" directive in main:1", "");
    folder.check_error("include a b;", "invalid number of arguments in \"include\" directive in main:1", "");
    // The same file with the same error twice.
    folder.check_error("include close; include close;", "unexpected \"}\" in DIR/close:1", "");
}

#[test]
fn depth_is_bounded() {
    let files: Vec<(String, String)> =
        (0..=DEPTH_MAX).map(|n| (format!("f{n}"), format!("d{n}; include f{};", n + 1))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let folder = Folder::new("depth", &files);
    let (found, error) = folder.parse("include f0;");
    assert_eq!(found.split(' ').count(), DEPTH_MAX);
    assert_eq!(error, format!("\"include\" directives are nested deeper than 32 files in DIR/f{}:1", DEPTH_MAX - 1));
}

#[test]
fn main_file() {
    let folder = Folder::new("main", &[("nginx.conf", "a; include b;"), ("b", "b;")]);
    let (mut sources, mut diagnostics) = (SourceMap::new(), Diagnostics::new());
    let options = ParseOptions { conf_dir: folder.0.clone(), ..ParseOptions::default() };
    let tree = parse_file(folder.0.join("nginx.conf"), &mut sources, &options, &mut diagnostics);
    assert_eq!((names(&tree).as_str(), diagnostics.len()), ("a b", 0));
    assert_eq!(sources.name(tree[1].span.file), folder.0.join("b").to_string_lossy());
    assert_eq!(sources.included_at(tree[1].span.file).map(|span| span.start), Some(11));

    let missing = parse_file(folder.0.join("none"), &mut sources, &options, &mut diagnostics);
    assert!(missing.is_empty());
    let error = diagnostics.iter().next().map(|d| d.one_line(&sources).replace(&*folder.0.to_string_lossy(), "DIR"));
    assert_eq!(error.as_deref(), Some("open() \"DIR/none\" failed (2: No such file or directory)"));
}

#[test]
fn include_can_stay() {
    let (mut sources, mut diagnostics) = (SourceMap::new(), Diagnostics::new());
    let options = ParseOptions { includes: Includes::Keep, ..ParseOptions::default() };
    let tree = parse_text("x", "include none; include;", &mut sources, &options, &mut diagnostics);
    assert_eq!((names(&tree).as_str(), diagnostics.len()), ("include include", 0));
}
