//! The tree that a configuration is read into.

use bstr::{BStr, BString, ByteSlice};

use crate::source::{SourceMap, Span};

/// One word of a directive, with quotes and escapes resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// The bytes after quotes and escapes are gone.
    pub value: BString,
    /// Where the word stands, quotes included.
    pub span: Span,
    /// Whether the word stands in quotes.
    pub quoted: bool,
}

/// A directive: `name arg arg;`, `name arg { … }` or `name arg { Lua }`.
///
/// The entries of blocks such as `types` and `map` have the same shape; their first word is the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The first word.
    pub name: Arg,
    /// The further words.
    pub args: Vec<Arg>,
    /// End of the directive: a `;`, or a block with its content.
    pub body: Body,
    /// From the name to the closing `;` or `}`, which is included.
    pub span: Span,
    /// Offset behind the `;` or the opening `{`, where the words end; before a `}` that stands in place of the `;`.
    pub head_end: u32,
}

/// What follows the words of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A `;`.
    None,
    /// Directives in braces.
    Block(Vec<Directive>),
    /// Lua code in braces.
    Lua(LuaBlock),
}

/// Lua code in braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LuaBlock {
    /// The code between the braces.
    pub source: BString,
    /// Where the code stands, without the braces.
    pub span: Span,
    /// Number of the line in its file that holds the opening brace, counted from 1; chunk names mention it.
    pub line: u32,
}

impl Directive {
    /// The name without its place.
    #[must_use]
    pub fn name(&self) -> &BStr {
        self.name.value.as_bstr()
    }

    /// The directives in the block; none if there is no block.
    #[must_use]
    pub fn children(&self) -> &[Directive] {
        match &self.body {
            Body::Block(children) => children,
            Body::None | Body::Lua(_) => &[],
        }
    }

    /// The words with their `;` or opening `{`.
    #[must_use]
    pub fn head_span(&self) -> Span {
        Span { end: self.head_end, ..self.span }
    }

    /// The last byte: the `;` or the closing `}`.
    #[must_use]
    pub fn last_span(&self) -> Span {
        Span { start: self.span.end.saturating_sub(1).max(self.span.start), ..self.span }
    }

    /// Number of the line with the name, counted from 1.
    #[must_use]
    pub fn line(&self, sources: &SourceMap) -> u32 {
        sources.line(self.span.file, self.span.start)
    }

    /// Number of the line with the `;` or opening `{`: the one that nginx mentions while it handles the directive, for
    /// instance in the chunk name of a `content_by_lua` whose code runs over several lines.
    #[must_use]
    pub fn head_end_line(&self, sources: &SourceMap) -> u32 {
        sources.line(self.span.file, self.head_end.saturating_sub(1))
    }

    /// Number of the last line, which holds the `;` or the closing `}`.
    #[must_use]
    pub fn end_line(&self, sources: &SourceMap) -> u32 {
        sources.line(self.span.file, self.last_span().start)
    }

    /// The argument that starts on a later line than the name and looks like a directive of its own: a `;` was
    /// probably forgotten before it.
    #[must_use]
    pub fn run_on_arg<'a>(&'a self, sources: &SourceMap) -> Option<&'a Arg> {
        let mut previous = &self.name;
        self.args.iter().find(|arg| {
            let between = (previous.span.end as usize, arg.span.start as usize);
            previous = arg;
            let begins_line =
                sources.text(arg.span.file).get(between.0..between.1).is_some_and(|gap| gap.contains(&b'\n'));
            begins_line
                && !arg.quoted
                && arg.value.iter().all(|&b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        })
    }
}
