//! What is wrong with a configuration: wording, collection and printing.
//!
//! A message begins with nginx's words, because people and scripts search logs for them. Place, source line and hint
//! come on top. Every message of this crate is worded here, by one constructor each, so that the whole vocabulary can
//! be read, compared and tested in one place; the crates above add theirs with [`Diagnostics::error`].

use std::fmt::Write as _;
use std::path::Path;

use bstr::{BStr, ByteSlice};

use crate::ast::Directive;
use crate::source::{SourceMap, Span};
use crate::spelling;

/// How bad it is, in nginx's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The configuration cannot be used.
    Emerg,
    /// The configuration works, but should not be used like that where it matters.
    Alert,
    /// The configuration works, but probably not as intended.
    Warn,
    /// Worth knowing.
    Notice,
}

impl Level {
    /// The word between brackets in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Emerg => "emerg",
            Level::Alert => "alert",
            Level::Warn => "warn",
            Level::Notice => "notice",
        }
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Level of the message.
    pub level: Level,
    /// What is wrong, in nginx's words.
    pub message: String,
    /// Where; `None` for problems outside of any text, such as a missing main file.
    pub span: Option<Span>,
    /// Advice that may help the user.
    pub hint: Option<String>,
}

/// Lines longer than this, in characters, are printed in part.
const LINE_CHARS_MAX: usize = 160;

/// How much of such a line is printed before the place of the problem.
const LINE_CHARS_BEFORE: usize = 60;

impl Diagnostic {
    /// A problem of any level.
    #[must_use]
    pub fn new(level: Level, span: impl Into<Option<Span>>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { level, message: message.into(), span: span.into(), hint: None }
    }

    /// Adds advice.
    pub fn hint(&mut self, hint: impl Into<String>) -> &mut Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// The same problem with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// nginx's line: `MESSAGE in FILE:LINE`, or `MESSAGE in command line`, or the message alone.
    #[must_use]
    pub fn one_line(&self, sources: &SourceMap) -> String {
        let mut line = printable(&self.message);
        match self.span {
            Some(span) if sources.is_command_line(span.file) => line.push_str(" in command line"),
            Some(span) => {
                let _ = write!(line, " in {}:{}", sources.name(span.file), sources.line_col(span).0);
            }
            None => {}
        }
        line
    }

    /// Several lines for a person: level, message and place; the source line; a mark below it with the hint.
    ///
    /// ```text
    /// [emerg] unknown directive "proxy_pas" in conf/nginx.conf:12:9
    ///    12 |         proxy_pas http://cats;
    ///       |         ^^^^^^^^^ did you mean "proxy_pass"?
    /// ```
    #[must_use]
    pub fn render(&self, sources: &SourceMap) -> String {
        let mut out = format!("[{}] {}", self.level.as_str(), self.one_line(sources));
        let Some(span) = self.span else {
            if let Some(hint) = &self.hint {
                let _ = write!(out, "\n      = {}", printable(hint));
            }
            out.push('\n');
            return out;
        };
        let (number, column) = sources.line_col(span);
        if !sources.is_command_line(span.file) {
            let _ = write!(out, ":{column}");
        }
        let excerpt = Excerpt::new(sources, span, column as usize - 1);
        let _ = writeln!(out, "\n{number:>5} | {}", excerpt.line);
        let _ = write!(out, "      | {}{}", excerpt.indent, "^".repeat(excerpt.mark_width));
        if let Some(hint) = &self.hint {
            let _ = write!(out, " {}", printable(hint));
        }
        out.push('\n');
        if let Some(at) = sources.included_at(span.file) {
            let _ = writeln!(out, "      = included in {}:{}", sources.name(at.file), sources.line_col(at).0);
        }
        out
    }
}

/// The part of a source line around a problem, ready to print.
struct Excerpt {
    line: String,
    /// Blanks up to the mark; tabs stay tabs, so that the mark lines up.
    indent: String,
    mark_width: usize,
}

impl Excerpt {
    fn new(sources: &SourceMap, span: Span, column_index: usize) -> Excerpt {
        let chars: Vec<char> = sources.line_text(span).chars().collect();
        let bytes = sources.text(span.file);
        let marked = bytes.get(span.start as usize..span.end as usize).unwrap_or_default();
        let marked_on_line = marked.lines().next().unwrap_or_default().chars().count();
        let column_index = column_index.min(chars.len());

        let from = if chars.len() > LINE_CHARS_MAX { column_index.saturating_sub(LINE_CHARS_BEFORE) } else { 0 };
        let to = chars.len().min(from + LINE_CHARS_MAX);
        let mut line = String::new();
        let mut indent = String::new();
        if from > 0 {
            line.push('…');
            indent.push(' ');
        }
        line.extend(chars[from..to].iter().map(|&c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }));
        if to < chars.len() {
            line.push('…');
        }
        indent.extend(chars[from..column_index].iter().map(|&c| if c == '\t' { '\t' } else { ' ' }));
        Excerpt { line, indent, mark_width: marked_on_line.clamp(1, (to - column_index).max(1)) }
    }
}

/// The text with control characters escaped: a message stays one line.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// All problems found so far, in the order in which they were found.
#[derive(Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// No problems yet.
    #[must_use]
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Adds a problem, unless the same one is known: a file that is included in ten places is wrong once.
    pub fn push(&mut self, diagnostic: Diagnostic) -> &mut Diagnostic {
        let known = match diagnostic.span {
            Some(_) => self.list.iter().position(|d| d.span == diagnostic.span && d.message == diagnostic.message),
            None => None,
        };
        let index = known.unwrap_or_else(|| {
            self.list.push(diagnostic);
            self.list.len() - 1
        });
        &mut self.list[index]
    }

    /// Adds a problem which makes the configuration unusable.
    pub fn error(&mut self, span: impl Into<Option<Span>>, message: impl Into<String>) -> &mut Diagnostic {
        self.push(Diagnostic::new(Level::Emerg, span, message))
    }

    /// Adds something that probably is a mistake.
    pub fn warn(&mut self, span: impl Into<Option<Span>>, message: impl Into<String>) -> &mut Diagnostic {
        self.push(Diagnostic::new(Level::Warn, span, message))
    }

    /// Adds something worth knowing.
    pub fn notice(&mut self, span: impl Into<Option<Span>>, message: impl Into<String>) -> &mut Diagnostic {
        self.push(Diagnostic::new(Level::Notice, span, message))
    }

    /// Whether the configuration is unusable.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|diagnostic| diagnostic.level == Level::Emerg)
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Number of problems that were found.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The problems in the order in which they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Everything, as [`Diagnostic::render`] prints it.
    #[must_use]
    pub fn render(&self, sources: &SourceMap) -> String {
        self.list.iter().map(|diagnostic| diagnostic.render(sources)).collect()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Directives.
impl Diagnostic {
    /// No directive has this name; `candidates` are the names to suggest from.
    #[must_use]
    pub fn unknown_directive<'a>(
        name: &(impl AsRef<[u8]> + ?Sized),
        span: Span,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Diagnostic {
        let mut diagnostic = emerg(span, format!("unknown directive \"{}\"", text(name)));
        diagnostic.hint = if name.as_ref().contains(&b'}') {
            Some("a regular expression with braces must stand in quotes".to_owned())
        } else {
            did_you_mean(name, candidates)
        };
        diagnostic
    }

    /// nginx has a directive of this name, and it belongs to something that is not there.
    #[must_use]
    pub fn unsupported_directive(name: &(impl AsRef<[u8]> + ?Sized), span: Span, feature: &str) -> Diagnostic {
        let mut diagnostic = Self::unknown_directive(name, span, []);
        diagnostic.hint = Some(format!("{feature} is not supported yet"));
        diagnostic
    }

    /// The directive exists but not in this block; `allowed` are the blocks to name.
    #[must_use]
    pub fn wrong_context<'a>(
        name: &(impl AsRef<[u8]> + ?Sized),
        span: Span,
        allowed: impl IntoIterator<Item = &'a str>,
    ) -> Diagnostic {
        let mut diagnostic = emerg(span, format!("\"{}\" directive is not allowed here", text(name)));
        let allowed: Vec<&str> = allowed.into_iter().collect();
        if !allowed.is_empty() {
            diagnostic.hint = Some(format!("it belongs in: {}", allowed.join(", ")));
        }
        diagnostic
    }

    /// Too few or too many arguments.
    #[must_use]
    pub fn invalid_number_of_arguments(name: &(impl AsRef<[u8]> + ?Sized), span: Span) -> Diagnostic {
        emerg(span, format!("invalid number of arguments in \"{}\" directive", text(name)))
    }

    /// As [`invalid_number_of_arguments`](Self::invalid_number_of_arguments), with a hint: that a `;` seems to be
    /// missing, or else the form that is expected. `syntax` is the arguments as documentation shows them.
    #[must_use]
    pub fn invalid_arguments_of(directive: &Directive, sources: &SourceMap, syntax: &str) -> Diagnostic {
        let name = directive.name();
        let mut diagnostic = Self::invalid_number_of_arguments(name, directive.name.span);
        diagnostic.hint = Some(match directive.run_on_arg(sources) {
            Some(arg) => format!("is a \";\" missing before \"{}\"?", arg.value),
            None if syntax.is_empty() => format!("\"{name}\" takes no arguments"),
            None => format!("expected: {name} {syntax}"),
        });
        diagnostic
    }

    /// A second time in one block, where once is allowed.
    #[must_use]
    pub fn duplicate(name: &(impl AsRef<[u8]> + ?Sized), span: Span) -> Diagnostic {
        emerg(span, format!("\"{}\" directive is duplicate", text(name)))
    }

    /// An argument that the directive cannot use.
    #[must_use]
    pub fn invalid_value(name: &(impl AsRef<[u8]> + ?Sized), span: Span) -> Diagnostic {
        emerg(span, format!("\"{}\" directive invalid value", text(name)))
    }

    /// An argument that should have been a number.
    #[must_use]
    pub fn invalid_number(name: &(impl AsRef<[u8]> + ?Sized), span: Span) -> Diagnostic {
        emerg(span, format!("\"{}\" directive invalid number", text(name)))
    }

    /// An argument that should have been `on` or `off`.
    #[must_use]
    pub fn invalid_flag(
        name: &(impl AsRef<[u8]> + ?Sized),
        value: &(impl AsRef<[u8]> + ?Sized),
        span: Span,
    ) -> Diagnostic {
        let (value, name) = (text(value), text(name));
        emerg(span, format!("invalid value \"{value}\" in \"{name}\" directive, it must be \"on\" or \"off\""))
    }

    /// An argument that is none of the words which the directive knows.
    #[must_use]
    pub fn unknown_value<'a>(
        value: &(impl AsRef<[u8]> + ?Sized),
        span: Span,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Diagnostic {
        let mut diagnostic = emerg(span, format!("invalid value \"{}\"", text(value)));
        diagnostic.hint = did_you_mean(value, candidates);
        diagnostic
    }

    /// A parameter such as `weight=x` that the directive does not know or cannot use.
    #[must_use]
    pub fn invalid_parameter<'a>(
        value: &(impl AsRef<[u8]> + ?Sized),
        span: Span,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Diagnostic {
        let mut diagnostic = emerg(span, format!("invalid parameter \"{}\"", text(value)));
        diagnostic.hint = did_you_mean(value, candidates);
        diagnostic
    }

    /// A directive that needs a block ends with `;`.
    #[must_use]
    pub fn block_expected(name: &(impl AsRef<[u8]> + ?Sized), span: Span) -> Diagnostic {
        emerg(span, format!("directive \"{}\" has no opening \"{{\"", text(name)))
    }

    /// A directive that takes no block has one.
    #[must_use]
    pub fn block_not_expected(name: &(impl AsRef<[u8]> + ?Sized), span: Span) -> Diagnostic {
        emerg(span, format!("directive \"{}\" is not terminated by \";\"", text(name)))
    }

    /// A variable that nothing defines; `candidates` are names without `$`.
    #[must_use]
    pub fn unknown_variable<'a>(
        name: &(impl AsRef<[u8]> + ?Sized),
        span: Span,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Diagnostic {
        let mut diagnostic = emerg(span, format!("unknown \"{}\" variable", text(name)));
        diagnostic.hint = spelling::closest(name.as_ref(), candidates).map(|near| format!("did you mean \"${near}\"?"));
        diagnostic
    }
}

/// The language itself.
impl Diagnostic {
    pub(crate) fn unexpected(found: char, span: Span) -> Diagnostic {
        emerg(span, format!("unexpected \"{found}\""))
    }

    pub(crate) fn unexpected_close_in_directive(name: &BStr, span: Span) -> Diagnostic {
        emerg(span, "unexpected \"}\"").with_hint(format!("is a \";\" missing at the end of \"{name}\"?"))
    }

    pub(crate) fn unexpected_after_quote(found: char, span: Span, quote_line: u32) -> Diagnostic {
        let hint =
            format!("the quoted string before it starts in line {quote_line}; is a quote missing or not escaped?");
        Self::unexpected(found, span).with_hint(hint)
    }

    pub(crate) fn end_of_file_in_directive(span: Span, name: &BStr, line: u32) -> Diagnostic {
        emerg(span, "unexpected end of file, expecting \";\" or \"}\"")
            .with_hint(format!("\"{name}\" in line {line} has no end"))
    }

    pub(crate) fn end_of_file_in_quotes(span: Span, quote_line: u32) -> Diagnostic {
        emerg(span, "unexpected end of file, expecting \";\" or \"}\"")
            .with_hint(format!("the quoted string that starts in line {quote_line} has no end"))
    }

    /// `block` is the name and line of the block that probably lacks its end.
    pub(crate) fn end_of_file_in_block(span: Span, block: Option<(&BStr, u32)>) -> Diagnostic {
        let diagnostic = emerg(span, "unexpected end of file, expecting \"}\"");
        match block {
            Some((name, line)) => diagnostic.with_hint(format!("\"{name}\" in line {line} seems not to be closed")),
            None => diagnostic,
        }
    }

    pub(crate) fn end_of_parameter(span: Span) -> Diagnostic {
        emerg(span, "unexpected end of parameter, expecting \";\"")
    }

    pub(crate) fn block_in_command_line(span: Span) -> Diagnostic {
        emerg(span, "block directives are not supported in -g option")
    }

    pub(crate) fn too_long_parameter(span: Span, start: &BStr) -> Diagnostic {
        emerg(span, format!("too long parameter \"{start}...\" started"))
    }

    pub(crate) fn unterminated_quote(span: Span, quote: char) -> Diagnostic {
        emerg(span, format!("too long parameter, probably missing terminating \"{quote}\" character"))
    }

    pub(crate) fn blocks_too_deep(span: Span, depth_max: usize) -> Diagnostic {
        emerg(span, format!("blocks are nested deeper than {depth_max} levels"))
    }

    pub(crate) fn too_many_errors(span: Span) -> Diagnostic {
        Diagnostic::new(Level::Notice, span, "too many errors, the rest of the file was not read")
    }

    pub(crate) fn end_of_file_in_lua(span: Span) -> Diagnostic {
        emerg(span, "unexpected end of file, expecting terminating characters for lua code block")
            .with_hint("this brace is not closed")
    }

    pub(crate) fn lua_long_bracket(span: Span, closing: &str) -> Diagnostic {
        let message = format!(
            "Lua code block missing the closing long bracket \"{closing}\", the inlined Lua code may be too long"
        );
        emerg(span, message).with_hint("it opens here")
    }
}

/// Files.
impl Diagnostic {
    pub(crate) fn file_failed(operation: &str, path: &Path, error: &std::io::Error, span: Option<Span>) -> Diagnostic {
        let message = format!("{operation}() \"{}\" failed ({})", path.display(), os_error(error));
        Diagnostic::new(Level::Emerg, span, message)
    }

    pub(crate) fn file_too_large(path: &Path, bytes_max: u64, span: Option<Span>) -> Diagnostic {
        let message = format!("configuration file \"{}\" is larger than {bytes_max} bytes", path.display());
        Diagnostic::new(Level::Emerg, span, message)
    }

    pub(crate) fn include_loop(path: &Path, span: Span) -> Diagnostic {
        emerg(span, format!("\"include\" of \"{}\" inside of itself", path.display()))
    }

    pub(crate) fn includes_too_deep(span: Span, depth_max: usize) -> Diagnostic {
        emerg(span, format!("\"include\" directives are nested deeper than {depth_max} files"))
    }

    pub(crate) fn too_many_includes(span: Span, count_max: usize) -> Diagnostic {
        emerg(span, format!("the configuration includes more than {count_max} files"))
    }
}

fn emerg(span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Level::Emerg, span, message)
}

fn text(bytes: &(impl AsRef<[u8]> + ?Sized)) -> &BStr {
    bytes.as_ref().as_bstr()
}

fn did_you_mean<'a>(
    word: &(impl AsRef<[u8]> + ?Sized),
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    spelling::closest(word.as_ref(), candidates).map(|near| format!("did you mean \"{near}\"?"))
}

/// nginx's form of a system error: number and text.
fn os_error(error: &std::io::Error) -> String {
    let Some(number) = error.raw_os_error() else { return error.to_string() };
    let shown = error.to_string();
    let words = shown.strip_suffix(&format!(" (os error {number})")).unwrap_or(&shown);
    format!("{number}: {words}")
}

#[cfg(test)]
mod tests;
