//! Where configuration text comes from: files, spans, lines and columns.

use std::sync::{Arc, OnceLock};

use bstr::ByteSlice;

/// One text in a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A range of bytes in one file: `start..end`, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// Offset of the first byte.
    pub start: u32,
    /// Offset behind the last byte.
    pub end: u32,
}

impl Span {
    /// From the start of this span to the end of `last`, which stands in the same file.
    #[must_use]
    pub fn to(self, last: Span) -> Span {
        Span { end: last.end.max(self.start), ..self }
    }
}

/// All texts that took part in a configuration, in the order in which they were read.
///
/// A file that is included several times stands here once.
#[derive(Debug, Default)]
pub struct SourceMap {
    sources: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    name: String,
    text: Arc<Vec<u8>>,
    kind: Kind,
    /// The `include` that brought it first.
    included_at: Option<Span>,
    /// Offsets at which lines start; built by the first look-up.
    line_starts: OnceLock<Vec<u32>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    CommandLine,
}

impl SourceMap {
    /// A map without texts.
    #[must_use]
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Takes a text in; `name` is what messages call it.
    ///
    /// Bytes beyond 4 GiB are cut off: offsets are 32 bits wide. [`parse_file`](crate::parse_file) refuses files long
    /// before that.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Vec<u8>>) -> FileId {
        self.insert(name.into(), text.into(), Kind::File, None)
    }

    /// Takes in the directives given with `-g`; messages say `in command line`.
    pub fn add_command_line(&mut self, text: impl Into<Vec<u8>>) -> FileId {
        self.insert("command line".to_owned(), text.into(), Kind::CommandLine, None)
    }

    /// Takes in a file which the `include` at `included_at` brought.
    pub(crate) fn add_included(&mut self, name: String, text: Vec<u8>, included_at: Span) -> FileId {
        self.insert(name, text, Kind::File, Some(included_at))
    }

    fn insert(&mut self, name: String, mut text: Vec<u8>, kind: Kind, included_at: Option<Span>) -> FileId {
        text.truncate(u32::MAX as usize);
        let id = FileId(u32::try_from(self.sources.len()).expect("each text takes more than a byte of memory"));
        self.sources.push(Source { name, text: Arc::new(text), kind, included_at, line_starts: OnceLock::new() });
        id
    }

    /// The file of this name, if it was read.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<FileId> {
        let index = self.sources.iter().position(|source| source.kind == Kind::File && source.name == name)?;
        Some(FileId(index as u32))
    }

    /// Name of the file in messages.
    #[must_use]
    pub fn name(&self, file: FileId) -> &str {
        &self.source(file).name
    }

    /// The bytes of the file.
    #[must_use]
    pub fn text(&self, file: FileId) -> &[u8] {
        &self.source(file).text
    }

    /// The bytes of the file, shared.
    pub(crate) fn shared_text(&self, file: FileId) -> Arc<Vec<u8>> {
        Arc::clone(&self.source(file).text)
    }

    /// Whether the text was given with `-g` instead of in a file.
    #[must_use]
    pub fn is_command_line(&self, file: FileId) -> bool {
        self.source(file).kind == Kind::CommandLine
    }

    /// The `include` directive that brought the file, if one did; the first of them, if several did.
    #[must_use]
    pub fn included_at(&self, file: FileId) -> Option<Span> {
        self.source(file).included_at
    }

    /// All texts, in the order in which they were read.
    pub fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        (0..self.sources.len()).map(|index| FileId(index as u32))
    }

    /// Line and column number at which the span starts, both counted from 1.
    ///
    /// A column is one character, or one byte where the text is not UTF-8.
    #[must_use]
    pub fn line_col(&self, span: Span) -> (u32, u32) {
        let (number, line_start) = self.line_at(span.file, span.start);
        let text = self.text(span.file);
        let before = &text[line_start..(span.start as usize).clamp(line_start, text.len())];
        (number, before.chars().count() as u32 + 1)
    }

    /// The number, counted from 1, of the line that holds the offset.
    #[must_use]
    pub fn line(&self, file: FileId, offset: u32) -> u32 {
        self.line_at(file, offset).0
    }

    /// The line in which the span starts, without its line ending.
    #[must_use]
    pub fn line_text(&self, span: Span) -> &[u8] {
        let text = &self.text(span.file)[self.line_at(span.file, span.start).1..];
        let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Number of the line that holds the offset, and the offset at which it starts.
    fn line_at(&self, file: FileId, offset: u32) -> (u32, usize) {
        let starts = self.source(file).line_starts();
        let number = starts.partition_point(|&start| start <= offset);
        (number as u32, starts[number - 1] as usize)
    }

    fn source(&self, file: FileId) -> &Source {
        &self.sources[file.0 as usize]
    }
}

impl Source {
    /// Never empty: the first line starts at 0.
    fn line_starts(&self) -> &[u32] {
        self.line_starts.get_or_init(|| {
            let after_newlines = memchr::memchr_iter(b'\n', &self.text).map(|newline| newline as u32 + 1);
            std::iter::once(0).chain(after_newlines).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, offset: u32, expected: (u32, u32, &str)) {
        let mut sources = SourceMap::new();
        let file = sources.add("x.conf", text);
        let span = Span { file, start: offset, end: offset };
        let (line, column) = sources.line_col(span);
        assert_eq!((line, column, sources.line_text(span).to_str_lossy().as_ref()), expected);
        assert_eq!(sources.line(file, offset), line);
    }

    #[test]
    fn lines_and_columns() {
        check("", 0, (1, 1, ""));
        check("", 7, (1, 1, ""));
        check("a b", 2, (1, 3, "a b"));
        check("a\nbc", 0, (1, 1, "a"));
        check("a\nbc", 1, (1, 2, "a"));
        check("a\nbc", 2, (2, 1, "bc"));
        check("a\nbc", 4, (2, 3, "bc"));
        check("a\n", 2, (2, 1, ""));
        check("a\r\nb\r\n", 3, (2, 1, "b"));
        check("\tx", 1, (1, 2, "\tx"));
        check("é x", 3, (1, 3, "é x"));
        check("\n\n\n", 2, (3, 1, ""));
        check("a", 900, (1, 2, "a"));
    }

    #[test]
    fn names_are_found_again() {
        let mut sources = SourceMap::new();
        let main = sources.add("main", "include sub;");
        let at = Span { file: main, start: 0, end: 12 };
        let sub = sources.add_included("sub".to_owned(), b"x;".to_vec(), at);
        let args = sources.add_command_line("daemon off;");
        assert_eq!(sources.find("sub"), Some(sub));
        assert_eq!(sources.find("other"), None);
        assert_eq!(sources.find("command line"), None);
        assert_eq!((sources.name(sub), sources.text(sub)), ("sub", b"x;".as_slice()));
        assert_eq!((sources.included_at(sub), sources.included_at(main)), (Some(at), None));
        assert!(sources.is_command_line(args) && !sources.is_command_line(main));
        assert_eq!(sources.files().count(), 3);
    }

    #[test]
    fn spans_join() {
        let file = FileId(0);
        let (a, b) = (Span { file, start: 2, end: 4 }, Span { file, start: 6, end: 9 });
        assert_eq!(a.to(b), Span { file, start: 2, end: 9 });
        assert_eq!(b.to(a), Span { file, start: 6, end: 6 });
    }
}
