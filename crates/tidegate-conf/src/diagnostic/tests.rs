use super::*;
use crate::{ParseOptions, parse_text};

const TEXT: &str = "http {\n\tproxy_pas http://cats;\n}\n";

/// A map with [`TEXT`], and the span of a piece of it.
#[track_caller]
fn span_of(piece: &str) -> (SourceMap, Span) {
    let mut sources = SourceMap::new();
    let file = sources.add("conf/nginx.conf", TEXT);
    let start = TEXT.find(piece).expect("a piece of the text") as u32;
    (sources, Span { file, start, end: start + piece.len() as u32 })
}

/// Message and hint of everything that this file can say.
#[test]
fn vocabulary() {
    let (_, s) = span_of("http");
    let io = std::io::Error::from_raw_os_error;
    let path = Path::new("/etc/x.conf");
    for (diagnostic, message, hint) in [
        (
            Diagnostic::unknown_directive("liste", s, ["root", "listen"]),
            r#"unknown directive "liste""#,
            r#"did you mean "listen"?"#,
        ),
        (
            Diagnostic::unknown_directive("2}$", s, ["a"]),
            r#"unknown directive "2}$""#,
            "a regular expression with braces must stand in quotes",
        ),
        (Diagnostic::unknown_directive("xyz", s, ["listen"]), r#"unknown directive "xyz""#, ""),
        (Diagnostic::unsupported_directive("mp4", s, "MP4"), r#"unknown directive "mp4""#, "MP4 is not supported yet"),
        (
            Diagnostic::wrong_context("listen", s, ["server"]),
            r#""listen" directive is not allowed here"#,
            "it belongs in: server",
        ),
        (
            Diagnostic::wrong_context("root", s, ["http", "server"]),
            r#""root" directive is not allowed here"#,
            "it belongs in: http, server",
        ),
        (Diagnostic::wrong_context("root", s, []), r#""root" directive is not allowed here"#, ""),
        (Diagnostic::invalid_number_of_arguments("root", s), r#"invalid number of arguments in "root" directive"#, ""),
        (Diagnostic::duplicate("root", s), r#""root" directive is duplicate"#, ""),
        (Diagnostic::invalid_value("client_max_body_size", s), r#""client_max_body_size" directive invalid value"#, ""),
        (Diagnostic::invalid_number("worker_connections", s), r#""worker_connections" directive invalid number"#, ""),
        (
            Diagnostic::invalid_flag("gzip", "yes", s),
            r#"invalid value "yes" in "gzip" directive, it must be "on" or "off""#,
            "",
        ),
        (Diagnostic::unknown_value("alwys", s, ["always"]), r#"invalid value "alwys""#, r#"did you mean "always"?"#),
        (
            Diagnostic::invalid_parameter("wieght=1", s, ["weight="]),
            r#"invalid parameter "wieght=1""#,
            r#"did you mean "weight="?"#,
        ),
        (Diagnostic::block_expected("server", s), r#"directive "server" has no opening "{""#, ""),
        (Diagnostic::block_not_expected("root", s), r#"directive "root" is not terminated by ";""#, ""),
        (Diagnostic::unknown_variable("hots", s, ["host"]), r#"unknown "hots" variable"#, r#"did you mean "$host"?"#),
        (Diagnostic::unexpected(';', s), r#"unexpected ";""#, ""),
        (
            Diagnostic::unexpected_close_in_directive("root".into(), s),
            r#"unexpected "}""#,
            r#"is a ";" missing at the end of "root"?"#,
        ),
        (
            Diagnostic::unexpected_after_quote('x', s, 7),
            r#"unexpected "x""#,
            "the quoted string before it starts in line 7; is a quote missing or not escaped?",
        ),
        (
            Diagnostic::end_of_file_in_directive(s, "root".into(), 7),
            r#"unexpected end of file, expecting ";" or "}""#,
            r#""root" in line 7 has no end"#,
        ),
        (
            Diagnostic::end_of_file_in_quotes(s, 7),
            r#"unexpected end of file, expecting ";" or "}""#,
            "the quoted string that starts in line 7 has no end",
        ),
        (
            Diagnostic::end_of_file_in_block(s, Some(("server".into(), 7))),
            r#"unexpected end of file, expecting "}""#,
            r#""server" in line 7 seems not to be closed"#,
        ),
        (Diagnostic::end_of_file_in_block(s, None), r#"unexpected end of file, expecting "}""#, ""),
        (Diagnostic::end_of_parameter(s), r#"unexpected end of parameter, expecting ";""#, ""),
        (Diagnostic::block_in_command_line(s), "block directives are not supported in -g option", ""),
        (Diagnostic::too_long_parameter(s, "abc".into()), r#"too long parameter "abc..." started"#, ""),
        (
            Diagnostic::unterminated_quote(s, '\''),
            r#"too long parameter, probably missing terminating "'" character"#,
            "",
        ),
        (Diagnostic::blocks_too_deep(s, 128), "blocks are nested deeper than 128 levels", ""),
        (Diagnostic::too_many_errors(s), "too many errors, the rest of the file was not read", ""),
        (
            Diagnostic::end_of_file_in_lua(s),
            "unexpected end of file, expecting terminating characters for lua code block",
            "this brace is not closed",
        ),
        (
            Diagnostic::lua_long_bracket(s, "]]"),
            r#"Lua code block missing the closing long bracket "]]", the inlined Lua code may be too long"#,
            "it opens here",
        ),
        (
            Diagnostic::file_failed("open", path, &io(2), Some(s)),
            r#"open() "/etc/x.conf" failed (2: No such file or directory)"#,
            "",
        ),
        (
            Diagnostic::file_failed("open", path, &io(13), None),
            r#"open() "/etc/x.conf" failed (13: Permission denied)"#,
            "",
        ),
        (Diagnostic::file_too_large(path, 5, None), r#"configuration file "/etc/x.conf" is larger than 5 bytes"#, ""),
        (Diagnostic::include_loop(path, s), r#""include" of "/etc/x.conf" inside of itself"#, ""),
        (Diagnostic::includes_too_deep(s, 32), r#""include" directives are nested deeper than 32 files"#, ""),
        (Diagnostic::too_many_includes(s, 9), "the configuration includes more than 9 files", ""),
    ] {
        assert_eq!((diagnostic.message.as_str(), diagnostic.hint.as_deref().unwrap_or_default()), (message, hint));
    }
}

#[test]
fn one_line_is_nginxs() {
    let (mut sources, span) = span_of("proxy_pas");
    let diagnostic = Diagnostic::unknown_directive("proxy_pas", span, []);
    assert_eq!(diagnostic.one_line(&sources), r#"unknown directive "proxy_pas" in conf/nginx.conf:2"#);

    let file = sources.add_command_line("a b;");
    let span = Span { file, start: 0, end: 1 };
    assert_eq!(
        Diagnostic::unknown_directive("a", span, []).one_line(&sources),
        r#"unknown directive "a" in command line"#
    );

    let nowhere = Diagnostic::new(Level::Emerg, None, "no \"events\" section in configuration");
    assert_eq!(nowhere.one_line(&sources), "no \"events\" section in configuration");
    let odd = Diagnostic::new(Level::Emerg, None, "a\nb\u{1}");
    assert_eq!(odd.one_line(&sources), "a\\nb\\u{1}");
}

#[track_caller]
fn check_render(diagnostic: &Diagnostic, sources: &SourceMap, expected: &str) {
    assert_eq!(diagnostic.render(sources), expected);
}

#[test]
fn rendering_points_at_the_place() {
    let (mut sources, span) = span_of("proxy_pas");
    let diagnostic = Diagnostic::unknown_directive("proxy_pas", span, ["proxy_pass"]);
    let expected = "[emerg] unknown directive \"proxy_pas\" in conf/nginx.conf:2:2\n    \
                    2 | \tproxy_pas http://cats;\n      \
                    | \t^^^^^^^^^ did you mean \"proxy_pass\"?\n";
    check_render(&diagnostic, &sources, expected);

    let end = Span { start: TEXT.len() as u32, end: TEXT.len() as u32, ..span };
    let expected = "[warn] x in conf/nginx.conf:4:1\n    4 | \n      | ^\n";
    check_render(&Diagnostic::new(Level::Warn, end, "x"), &sources, expected);

    let several_lines = Span { end: TEXT.len() as u32, ..span };
    let expected = "[notice] x in conf/nginx.conf:2:2\n    \
                    2 | \tproxy_pas http://cats;\n      \
                    | \t^^^^^^^^^^^^^^^^^^^^^^\n";
    check_render(&Diagnostic::new(Level::Notice, several_lines, "x"), &sources, expected);

    let file = sources.add_command_line("a b;");
    let expected = "[emerg] x in command line\n    1 | a b;\n      |   ^\n";
    check_render(&Diagnostic::new(Level::Emerg, Span { file, start: 2, end: 3 }, "x"), &sources, expected);

    let nowhere = Diagnostic::new(Level::Emerg, None, "x").with_hint("y");
    check_render(&nowhere, &sources, "[emerg] x\n      = y\n");
}

#[test]
fn rendering_names_the_include() {
    let (mut sources, span) = span_of("http");
    let file = sources.add_included("conf/a.conf".to_owned(), b"x;".to_vec(), span);
    let expected = "[emerg] y in conf/a.conf:1:1\n    1 | x;\n      | ^\n      = included in conf/nginx.conf:1\n";
    check_render(&Diagnostic::new(Level::Emerg, Span { file, start: 0, end: 1 }, "y"), &sources, expected);
}

#[test]
fn long_lines_are_cut() {
    let text = format!("{} here {}", "a".repeat(500), "b".repeat(500));
    let mut sources = SourceMap::new();
    let file = sources.add("x", text.as_str());
    let rendered = Diagnostic::new(Level::Emerg, Span { file, start: 501, end: 505 }, "y").render(&sources);
    let lines: Vec<&str> = rendered.lines().collect();
    assert_eq!(lines[0], "[emerg] y in x:1:502");
    assert_eq!(lines[1], format!("    1 | …{} here {}…", "a".repeat(59), "b".repeat(95)));
    assert_eq!(lines[2], format!("      | {}^^^^", " ".repeat(61)));

    let all = Diagnostic::new(Level::Emerg, Span { file, start: 0, end: 1006 }, "y").render(&sources);
    assert!(all.lines().all(|line| line.chars().count() < 200));
}

#[test]
fn bytes_that_are_no_text_do_not_reach_the_terminal() {
    let mut sources = SourceMap::new();
    let file = sources.add("x", b"\x1b[31m\xff\x00;".as_slice());
    let rendered = Diagnostic::new(Level::Emerg, Span { file, start: 5, end: 6 }, "y").render(&sources);
    assert_eq!(rendered, "[emerg] y in x:1:6\n    1 | \u{fffd}[31m\u{fffd}\u{fffd};\n      |      ^\n");
}

#[test]
fn the_same_problem_is_known_once() {
    let (_, span) = span_of("http");
    let mut diagnostics = Diagnostics::new();
    assert!(diagnostics.is_empty() && !diagnostics.has_errors());
    diagnostics.warn(span, "a");
    assert!(!diagnostics.is_empty() && !diagnostics.has_errors());
    diagnostics.error(span, "b").hint("c");
    diagnostics.error(span, "b").hint("c");
    diagnostics.notice(None, "d");
    diagnostics.notice(None, "d");
    assert!(diagnostics.has_errors());
    let all: Vec<_> = diagnostics.iter().map(|d| (d.message.as_str(), d.hint.as_deref())).collect();
    assert_eq!(all, [("a", None), ("b", Some("c")), ("d", None), ("d", None)]);
}

#[test]
fn a_forgotten_semicolon_is_mentioned() {
    let (mut sources, mut diagnostics) = (SourceMap::new(), Diagnostics::new());
    let text = "listen 80\nserver_name a;";
    let tree = parse_text("x", text, &mut sources, &ParseOptions::default(), &mut diagnostics);
    let hint = |tree: &[Directive], syntax| Diagnostic::invalid_arguments_of(&tree[0], &sources, syntax).hint;
    assert_eq!(hint(&tree, "address").as_deref(), Some("is a \";\" missing before \"server_name\"?"));
    let (mut sources, mut diagnostics) = (SourceMap::new(), Diagnostics::new());
    let tree = parse_text("x", "listen;", &mut sources, &ParseOptions::default(), &mut diagnostics);
    let hint = |syntax| Diagnostic::invalid_arguments_of(&tree[0], &sources, syntax).hint;
    assert_eq!(hint("address").as_deref(), Some("expected: listen address"));
    assert_eq!(hint("").as_deref(), Some("\"listen\" takes no arguments"));
}
