//! The configuration language on any bytes: it never panics, spans lie in the text, and what is wrong can be printed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_conf::{
    Body, Diagnostics, Directive, Includes, ParseOptions, SourceMap, parse_command_line, parse_template, parse_text,
    values,
};

fuzz_target!(|text: &[u8]| {
    let options = ParseOptions { includes: Includes::Keep, ..ParseOptions::default() };
    for parse in [
        |text: &[u8], sources: &mut _, options: &_, diagnostics: &mut _| {
            parse_text("fuzz.conf", text, sources, options, diagnostics)
        },
        |text: &[u8], sources: &mut _, options: &_, diagnostics: &mut _| {
            parse_command_line(text, sources, options, diagnostics)
        },
    ] {
        let (mut sources, mut diagnostics) = (SourceMap::new(), Diagnostics::new());
        let tree = parse(text, &mut sources, &options, &mut diagnostics);
        walk(&tree, text, &sources);
        for diagnostic in &diagnostics {
            assert_eq!(diagnostic.one_line(&sources).lines().count(), 1);
        }
        let _ = diagnostics.render(&sources);
    }
});

fn walk(directives: &[Directive], text: &[u8], sources: &SourceMap) {
    for directive in directives {
        let head = directive.head_span();
        assert!(directive.span.start < head.end && head.end <= directive.span.end);
        assert!(directive.span.end as usize <= text.len());
        let _ = (directive.line(sources), directive.end_line(sources), directive.run_on_arg(sources));
        for arg in &directive.args {
            assert!(head.start < arg.span.start && arg.span.end <= head.end);
            let value = arg.value.as_ref();
            let _ = (parse_template(value), values::size(value), values::offset(value), values::flag(value));
            let _ = (values::time(value), values::time_seconds(value), values::fixed_point(value, 3));
        }
        match &directive.body {
            Body::None => {}
            Body::Block(children) => walk(children, text, sources),
            Body::Lua(lua) => {
                assert_eq!(text[lua.span.start as usize..lua.span.end as usize], *lua.source);
                assert_eq!(lua.line, sources.line(lua.span.file, lua.span.start - 1));
            }
        }
    }
}
