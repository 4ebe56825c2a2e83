use super::*;

/// The tree in one line: words in angle brackets if quoted, blocks in braces, Lua code as `lua(LINE: CODE)`.
fn show(directives: &[Directive]) -> String {
    let word = |arg: &crate::Arg| if arg.quoted { format!("<{}>", arg.value) } else { arg.value.to_string() };
    let one = |directive: &Directive| {
        let mut out = word(&directive.name);
        for arg in &directive.args {
            out.push(' ');
            out.push_str(&word(arg));
        }
        match &directive.body {
            Body::None => out.push(';'),
            Body::Block(children) if children.is_empty() => out.push_str(" {}"),
            Body::Block(children) => out.push_str(&format!(" {{ {} }}", show(children))),
            Body::Lua(lua) => out.push_str(&format!(" lua({}: {})", lua.line, lua.source)),
        }
        out
    };
    directives.iter().map(one).collect::<Vec<_>>().join(" ")
}

struct Parsed {
    sources: SourceMap,
    diagnostics: Diagnostics,
    tree: Vec<Directive>,
}

fn parse(text: impl Into<Vec<u8>>) -> Parsed {
    let (mut sources, mut diagnostics) = (SourceMap::new(), Diagnostics::new());
    let tree = parse_text("t.conf", text, &mut sources, &ParseOptions::default(), &mut diagnostics);
    Parsed { sources, diagnostics, tree }
}

/// The tree and nothing wrong.
#[track_caller]
fn check(text: &str, expected: &str) {
    let parsed = parse(text);
    assert_eq!(parsed.diagnostics.render(&parsed.sources), "", "{text}");
    assert_eq!(show(&parsed.tree), expected, "{text}");
}

/// Errors as nginx words them, without file name, and what is left of the tree.
#[track_caller]
fn check_errors(text: &str, errors: &[&str], expected: &str) {
    let parsed = parse(text);
    let found: Vec<String> =
        parsed.diagnostics.iter().map(|d| d.one_line(&parsed.sources).replace(" in t.conf:", " :")).collect();
    assert_eq!(found, errors, "{text}");
    assert_eq!(show(&parsed.tree), expected, "{text}");
}

#[test]
fn words() {
    check("", "");
    check(" \t\r\n # only a comment", "");
    check("a;", "a;");
    check("a b c;", "a b c;");
    check("a  b\tc\r\nd ;", "a b c d;");
    check("a;b;", "a; b;");
    check("\u{feff}a;", "a;");
    check("a#b #c\n d;", "a#b d;");
    check("a b#;c;", "a b#; c;");
    check("a \"#\";", "a <#>;");
    check("a b}c;", "a b}c;");
    check("a b\"c\"d';", "a b\"c\"d';");
    check("a b=\"x;", "a b=\"x;");
}

#[test]
fn quotes_and_escapes() {
    check(r#"a "b c" 'd "e"';"#, r#"a <b c> <d "e">;"#);
    check(r#""a" "";"#, "<a> <>;");
    check(r#"a "b\"c" 'd\'e' "\\";"#, r#"a <b"c> <d'e> <\>;"#);
    check(r#"a "1\t2\r3\n4";"#, "a <1\t2\r3\n4>;");
    check(r#"a "\.\d\$\;";"#, r#"a <\.\d\$\;>;"#);
    check(r"a b\ c\;d\{e \#f;", r"a b\ c\;d\{e \#f;");
    check(r"a \\. b\\;", r"a \. b\;");
    check(r"a \t\n;", "a \t\n;");
    check(r#"a \"b;"#, "a \"b;");
    check(r"a \;;", r"a \;;");
    check("a \"b\nc\";", "a <b\nc>;");
    check("a \"b;{}\";", "a <b;{}>;");
    check(r#"if ($a = "b") {}"#, "if ($a = <b> ) {}");
    check(r#"if ($a ~ 'b'){}"#, "if ($a ~ <b> ) {}");
    check(r#"a "b"{}"#, "a <b> {}");
}

#[test]
fn variables_keep_their_braces() {
    check("a ${b};", "a ${b};");
    check("a x${b}y${c};", "a x${b}y${c};");
    check("a ${{b;", "a ${{b;");
    check("a $b{c;}", "a $b { c; }");
    check("a ${b}{c;}", "a ${b} { c; }");
    check(r"a \${b;}", r"a \$ { b; }");
    check("a $${b;", "a $${b;");
}

#[test]
fn blocks() {
    check("a {}", "a {}");
    check("a{b;}", "a { b; }");
    check("a { b { c; } d; } e;", "a { b { c; } d; } e;");
    check("types { text/html html htm; }", "types { text/html html htm; }");
    check(
        "map $a $b { default 0; \"~^a b$\" x; '' y; \\include z; }",
        "map $a $b { default 0; <~^a b$> x; <> y; \\include z; }",
    );
    check("geo { 10.0.0.0/8 1; }", "geo { 10.0.0.0/8 1; }");
    check("split_clients $a $b { 0.5% .one; * \"\"; }", "split_clients $a $b { 0.5% .one; * <>; }");
}

#[test]
fn lua_blocks() {
    check("content_by_lua_block { x = {1} }", "content_by_lua_block lua(1:  x = {1} )");
    check("content_by_lua_block{x}a;", "content_by_lua_block lua(1: x) a;");
    check("a {\n set_by_lua_block\n $x\n { return '}' }\n b; }", "a { set_by_lua_block $x lua(4:  return '}' ) b; }");
    check("init_by_lua_block { # }\nb;", "init_by_lua_block lua(1:  # ) b;");
    check("by_lua_block { a; }", "by_lua_block { a; }");
}

#[test]
fn lua_blocks_without_end() {
    const EOF: &str = "unexpected end of file, expecting terminating characters for lua code block";
    check_errors("a_by_lua_block {", &[&format!("{EOF} :1")], "");
    check_errors("a {\n a_by_lua_block {\nx = {\n }", &[&format!("{EOF} :2")], "a {}");
    check_errors("a {\n a_by_lua_block {\nx = {\n ", &[&format!("{EOF} :3")], "a {}");
    check_errors(
        "b;\na_by_lua_block {\n x([==[})\n}",
        &["Lua code block missing the closing long bracket \"]==]\", the inlined Lua code may be too long :3"],
        "b;",
    );
    check_errors(
        "a_by_lua_block {\n --[[}",
        &["Lua code block missing the closing long bracket \"]]\", the inlined Lua code may be too long :2"],
        "",
    );
}

#[test]
fn errors_do_not_stop_reading() {
    check_errors("a;;\nb;", &["unexpected \";\" :1"], "a; b;");
    check_errors(";{}}a;", &["unexpected \";\" :1", "unexpected \"{\" :1", "unexpected \"}\" :1"], "a;");
    check_errors("{ a; b { c; } } d;", &["unexpected \"{\" :1"], "d;");
    check_errors("a {\n b c\n}\nd;", &["unexpected \"}\" :3"], "a { b c; } d;");
    check_errors("a \"b\"c;\nd;", &["unexpected \"c\" :1"], "d;");
    check_errors("a \"b\"é;\nd;", &["unexpected \"é\" :1"], "d;");
    check_errors("a \"b\"c { x; } d;", &["unexpected \"c\" :1"], "a <b> c { x; } d;");
    check_errors("a \"b\"}c;", &["unexpected \"}\" :1"], "c;");
    check_errors("a \"x;\nb \"y\";\nc;", &["unexpected \"y\" :2"], "c;");
    check_errors("}\n}\na;", &["unexpected \"}\" :1", "unexpected \"}\" :2"], "a;");
}

#[test]
fn ends_of_file() {
    const DIRECTIVE: &str = "unexpected end of file, expecting \";\" or \"}\"";
    const BLOCK: &str = "unexpected end of file, expecting \"}\"";
    check_errors("a", &[&format!("{DIRECTIVE} :1")], "");
    check_errors("a b ", &[&format!("{DIRECTIVE} :1")], "");
    check_errors("a b\n", &[&format!("{DIRECTIVE} :2")], "");
    check_errors("a b\\", &[&format!("{DIRECTIVE} :1")], "");
    check_errors("a \"b", &[&format!("{DIRECTIVE} :1")], "");
    check_errors("a \"b\\", &[&format!("{DIRECTIVE} :1")], "");
    check_errors("a \"b\"", &[&format!("{DIRECTIVE} :1")], "");
    check_errors("x; a 'b\n;\n", &[&format!("{DIRECTIVE} :3")], "x;");
    check_errors("a {", &[&format!("{BLOCK} :1")], "a {}");
    check_errors("a {\n b { c; }\n\n", &[&format!("{BLOCK} :4")], "a { b { c; } }");
    check_errors("a { b", &[&format!("{DIRECTIVE} :1")], "a {}");
    check_errors("a { #}", &[&format!("{BLOCK} :1")], "a {}");
}

#[test]
fn the_block_that_lacks_its_end_is_named() {
    for (text, expected) in [
        ("http {\n  server {\n", "\"server\" in line 2 seems not to be closed"),
        ("http {\n  server {\n    location / {\n  }\n}\n", "\"location\" in line 3 seems not to be closed"),
        ("http {\n  a {\n  }\n", "\"http\" in line 1 seems not to be closed"),
        ("http\n{\n", "\"http\" in line 1 seems not to be closed"),
    ] {
        let parsed = parse(text);
        assert_eq!(parsed.diagnostics.iter().next().and_then(|d| d.hint.as_deref()), Some(expected), "{text}");
    }
}

#[test]
fn long_words() {
    let quoted = format!("a \"{}\";", "x".repeat(500_000));
    assert!(parse(quoted).diagnostics.is_empty());
    check_errors(
        &format!("a;\nb \"{}", "x\n".repeat(3000)),
        &["too long parameter, probably missing terminating \"\"\" character :2"],
        "a;",
    );
    check_errors(
        &format!("a {};\nb;", "x".repeat(1 << 21)),
        &["too long parameter \"xxxxxxxxxx...\" started :1"],
        "b;",
    );
}

#[test]
fn depth_is_bounded() {
    let deep = |depth| format!("{}x;{}", "a {\n".repeat(depth), "}\n".repeat(depth));
    assert!(parse(deep(BLOCK_DEPTH_MAX)).diagnostics.is_empty());
    let parsed = parse(deep(200_000));
    let errors: Vec<_> = parsed.diagnostics.iter().map(|d| d.one_line(&parsed.sources)).collect();
    assert_eq!(errors, ["blocks are nested deeper than 128 levels in t.conf:129"]);
}

#[test]
fn garbage_is_not_reported_for_ever() {
    let parsed = parse(";\n".repeat(1000));
    assert_eq!(parsed.diagnostics.len(), 21);
    let last = parsed.diagnostics.iter().last().map(|d| d.one_line(&parsed.sources));
    assert_eq!(last.as_deref(), Some("too many errors, the rest of the file was not read in t.conf:20"));
}

#[test]
fn spans_cut_out_what_they_name() {
    let text = "http {\n  set \"$a\"  b ;\n  x_by_lua_block { y }\n}";
    let parsed = parse(text);
    let http = &parsed.tree[0];
    let cut = |span: Span| &text[span.start as usize..span.end as usize];
    assert_eq!(cut(http.span), text);
    assert_eq!((cut(http.head_span()), cut(http.last_span())), ("http {", "}"));
    assert_eq!((http.line(&parsed.sources), http.end_line(&parsed.sources)), (1, 4));
    let [set, lua] = http.children() else { panic!("two children") };
    assert_eq!(
        (cut(set.span), cut(set.head_span()), cut(set.last_span())),
        ("set \"$a\"  b ;", "set \"$a\"  b ;", ";")
    );
    assert_eq!((cut(set.name.span), cut(set.args[0].span), cut(set.args[1].span)), ("set", "\"$a\"", "b"));
    let Body::Lua(block) = &lua.body else { panic!("a Lua block") };
    assert_eq!((cut(lua.span), cut(block.span)), ("x_by_lua_block { y }", " y "));
}

#[test]
fn lines_of_directives_that_run_over_several() {
    let parsed = parse("\na\n b\n c;\nd\n{\n e;\n}\n");
    let lines: Vec<_> = parsed
        .tree
        .iter()
        .map(|d| (d.line(&parsed.sources), d.head_end_line(&parsed.sources), d.end_line(&parsed.sources)))
        .collect();
    assert_eq!(lines, [(2, 4, 4), (5, 6, 8)]);
}

#[test]
fn command_line() {
    let parse = |text: &str| {
        let (mut sources, mut diagnostics) = (SourceMap::new(), Diagnostics::new());
        let tree = parse_command_line(text, &mut sources, &ParseOptions::default(), &mut diagnostics);
        let errors: Vec<_> = diagnostics.iter().map(|d| d.one_line(&sources)).collect();
        format!("{} | {}", show(&tree), errors.join(", "))
    };
    assert_eq!(parse("daemon off; pid /x;"), "daemon off; pid /x; | ");
    assert_eq!(parse("daemon off"), " | unexpected end of parameter, expecting \";\" in command line");
    assert_eq!(parse("a \"b"), " | unexpected end of parameter, expecting \";\" in command line");
    assert_eq!(parse("}"), " | unexpected \"}\" in command line");
    assert!(parse("events {}").ends_with("block directives are not supported in -g option in command line"));
}

#[test]
fn a_forgotten_semicolon_is_found() {
    for (text, expected) in [
        ("listen 80\n  server_name x;", Some("server_name")),
        ("listen 80;", None),
        ("server_name a.com\n b.com;", None),
        ("log_format main '$a'\n '$b';", None),
        ("gzip on\nroot /x;", Some("root")),
    ] {
        let parsed = parse(text);
        let found = parsed.tree[0].run_on_arg(&parsed.sources).map(|arg| arg.value.to_string());
        assert_eq!(found.as_deref(), expected, "{text}");
    }
}
