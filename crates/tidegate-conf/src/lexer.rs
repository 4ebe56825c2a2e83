//! Words: from bytes to the heads of directives.
//!
//! Follows nginx's `ngx_conf_read_token`, whose rules are not those that one would guess:
//!
//! - `#`, `"`, `'`, `}` mean something only where a word begins; `;`, `{` and blanks end a word anywhere.
//! - `{` right behind a `$` belongs to the word (`${name}`).
//! - A backslash protects the next byte from ending the word, in and outside of quotes. In the value `\"`, `\'` and `\\`
//!   lose the backslash, `\t`, `\r` and `\n` become control characters, all others keep it (`\.` in a pattern).
//! - After a closing quote comes a blank, `;`, `{` or `)`. The last begins a word of its own, for `if ($a = "b")`.
//!
//! Unlike nginx, the lexer goes on after an error. A directive with an error inside is marked `broken`.

use bstr::{BStr, BString, ByteSlice};

use crate::ast::Arg;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::source::{FileId, Span};

/// A longer word is taken for a forgotten quote or `;`. nginx stops at 4 KiB; code in `content_by_lua '…'` may be
/// longer than that.
const WORD_BYTES_MAX: usize = 1 << 20;

/// nginx's limit; a quote without end that runs further than this gets nginx's message for it.
const NGINX_WORD_BYTES_MAX: usize = 4096;

/// How much of a too long word its message shows.
const WORD_BYTES_SHOWN: usize = 10;

/// After so many errors a file is hardly a configuration; the rest would be noise.
const ERRORS_PER_FILE_MAX: usize = 20;

/// The next piece of the text.
#[derive(Debug)]
pub(crate) enum Item {
    /// The words of a directive with what ended them.
    Head(Head, HeadEnd),
    /// A `{` without words before it, already reported.
    NamelessBlock,
    /// A `}` where a directive could start.
    BlockEnd,
    /// The text is used up.
    EndOfFile,
}

/// What ended the words of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadEnd {
    /// A `;`, or something else in its place that was reported.
    Semicolon,
    /// A `{`.
    Brace,
}

/// The words of a directive.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) name: Arg,
    pub(crate) args: Vec<Arg>,
    /// An error inside was reported: better not judge the directive further.
    pub(crate) broken: bool,
}

/// Reads one text from front to back.
pub(crate) struct Lexer<'t> {
    text: &'t [u8],
    file: FileId,
    pos: usize,
    lines: LineCounter,
    error_count: usize,
    command_line: bool,
    /// Reading was given up; ends that are missing were not missed.
    gave_up: bool,
}

/// Counts lines while reading goes forward.
#[derive(Default)]
struct LineCounter {
    pos: usize,
    newlines: u32,
}

/// What the bytes behind a word say.
enum WordEnd {
    /// More may follow.
    Blank,
    Head(HeadEnd),
    /// The text is used up.
    EndOfFile,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(file: FileId, text: &'t [u8], command_line: bool) -> Lexer<'t> {
        // Editors on Windows put a byte order mark in front.
        let pos = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        Lexer { text, file, pos, lines: LineCounter::default(), error_count: 0, command_line, gave_up: false }
    }

    /// Offset of the next byte to read.
    pub(crate) fn pos(&self) -> u32 {
        self.pos as u32
    }

    /// The text that is being read.
    pub(crate) fn text(&self) -> &'t [u8] {
        self.text
    }

    /// Goes on elsewhere; for the reader of Lua blocks.
    pub(crate) fn skip_to(&mut self, pos: usize) {
        self.pos = pos.min(self.text.len());
    }

    /// Whether errors made reading stop early.
    pub(crate) fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Stops reading: the rest makes no sense.
    pub(crate) fn give_up(&mut self) {
        self.gave_up = true;
        self.pos = self.text.len();
    }

    /// The bytes `start..end` of this text as a span.
    pub(crate) fn span(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start: start as u32, end: end as u32 }
    }

    /// Number of the line that holds the offset, which must not lie before the last one asked for.
    pub(crate) fn line(&mut self, offset: usize) -> u32 {
        self.lines.line(self.text, offset)
    }

    /// Reports an error, and gives up if there were many.
    pub(crate) fn report(&mut self, diagnostics: &mut Diagnostics, diagnostic: Diagnostic) {
        self.error_count += 1;
        diagnostics.push(diagnostic);
        if self.error_count == ERRORS_PER_FILE_MAX && self.pos < self.text.len() {
            diagnostics.push(Diagnostic::too_many_errors(self.span(self.pos, self.pos)));
            self.give_up();
        }
    }

    /// Reads the words of the next directive, or what stands in their place.
    pub(crate) fn next(&mut self, diagnostics: &mut Diagnostics) -> Item {
        let (pos, byte) = loop {
            let Some(found) = self.skip_blanks() else { return Item::EndOfFile };
            match found {
                (pos, b';') => {
                    self.pos += 1;
                    self.report(diagnostics, Diagnostic::unexpected(';', self.span(pos, pos + 1)));
                }
                found => break found,
            }
        };
        match byte {
            b'}' => {
                self.pos += 1;
                Item::BlockEnd
            }
            b'{' => {
                self.pos += 1;
                self.report(diagnostics, Diagnostic::unexpected('{', self.span(pos, pos + 1)));
                Item::NamelessBlock
            }
            _ => self.head(diagnostics),
        }
    }

    /// Reads words up to the end of the directive. There is at least one.
    fn head(&mut self, diagnostics: &mut Diagnostics) -> Item {
        let errors_before = self.error_count;
        let Some((name, mut end)) = self.word(diagnostics) else { return Item::EndOfFile };
        let mut args = Vec::new();
        let end = loop {
            match end {
                WordEnd::Blank => {}
                WordEnd::Head(end) => break end,
                WordEnd::EndOfFile => {
                    self.end_of_file_in_head(diagnostics, &name);
                    break HeadEnd::Semicolon;
                }
            }
            match self.skip_blanks() {
                None => end = WordEnd::EndOfFile,
                Some((_, b';')) => {
                    self.pos += 1;
                    break HeadEnd::Semicolon;
                }
                Some((_, b'{')) => {
                    self.pos += 1;
                    break HeadEnd::Brace;
                }
                Some((pos, b'}')) => {
                    // Not consumed: it probably ends the block as well. The words are complete, so that the directive
                    // can be judged.
                    let broken = self.error_count > errors_before;
                    let span = self.span(pos, pos + 1);
                    self.report(diagnostics, Diagnostic::unexpected_close_in_directive(name.value.as_bstr(), span));
                    return Item::Head(Head { name, args, broken }, HeadEnd::Semicolon);
                }
                Some(_) => match self.word(diagnostics) {
                    Some((arg, word_end)) => {
                        args.push(arg);
                        end = word_end;
                    }
                    None => return Item::EndOfFile,
                },
            }
        };
        Item::Head(Head { name, args, broken: self.error_count > errors_before }, end)
    }

    /// Skips blanks and comments; the next byte with its place, or `None` at the end of the text.
    fn skip_blanks(&mut self) -> Option<(usize, u8)> {
        loop {
            match *self.text.get(self.pos)? {
                b' ' | b'\t' | b'\r' | b'\n' => self.pos += 1,
                b'#' => {
                    let rest = &self.text[self.pos..];
                    self.pos += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                }
                byte => return Some((self.pos, byte)),
            }
        }
    }

    /// Reads one word, which starts at the current byte, and what follows it. `None` if that failed for good.
    fn word(&mut self, diagnostics: &mut Diagnostics) -> Option<(Arg, WordEnd)> {
        match self.text[self.pos] {
            quote @ (b'"' | b'\'') => self.quoted_word(quote, diagnostics),
            _ => self.bare_word(diagnostics),
        }
    }

    fn bare_word(&mut self, diagnostics: &mut Diagnostics) -> Option<(Arg, WordEnd)> {
        let start = self.pos;
        let mut escaped = false;
        let mut pos = start;
        let mut after_dollar = false;
        let end = loop {
            let Some(&byte) = self.text.get(pos) else { break WordEnd::EndOfFile };
            match byte {
                b'{' if after_dollar => {
                    pos += 1;
                    continue;
                }
                b' ' | b'\t' | b'\r' | b'\n' => break WordEnd::Blank,
                b';' => break WordEnd::Head(HeadEnd::Semicolon),
                b'{' => break WordEnd::Head(HeadEnd::Brace),
                b'\\' => {
                    escaped = true;
                    pos += 1;
                }
                _ => {}
            }
            after_dollar = byte == b'$';
            pos += 1;
        };
        // A backslash at the very end steps one too far.
        let pos = pos.min(self.text.len());
        self.pos = if matches!(end, WordEnd::EndOfFile) { pos } else { pos + 1 };
        let raw = &self.text[start..pos];
        let span = self.span(start, pos);
        if raw.len() > WORD_BYTES_MAX {
            let shown = &raw[..WORD_BYTES_SHOWN];
            self.report(
                diagnostics,
                Diagnostic::too_long_parameter(self.span(start, start + shown.len()), BStr::new(shown)),
            );
        }
        Some((Arg { value: unescape(raw, escaped), span, quoted: false }, end))
    }

    fn quoted_word(&mut self, quote: u8, diagnostics: &mut Diagnostics) -> Option<(Arg, WordEnd)> {
        let start = self.pos;
        let Some((close, escaped)) = find_quote(self.text, start + 1, quote) else {
            self.unterminated_quote(start, quote, diagnostics);
            return None;
        };
        let raw = &self.text[start + 1..close];
        let span = self.span(start, close + 1);
        self.pos = close + 1;
        if raw.len() > WORD_BYTES_MAX {
            self.report(diagnostics, Diagnostic::unterminated_quote(self.span(start, start + 1), char::from(quote)));
        }
        let end = match self.text.get(self.pos) {
            None => WordEnd::EndOfFile,
            Some(b' ' | b'\t' | b'\r' | b'\n') => WordEnd::Blank,
            Some(b';') => WordEnd::Head(HeadEnd::Semicolon),
            Some(b'{') => WordEnd::Head(HeadEnd::Brace),
            // Begins the next word.
            Some(b')') => WordEnd::Blank,
            Some(_) => {
                self.unexpected_after_quote(start, diagnostics);
                WordEnd::Blank
            }
        };
        if matches!(end, WordEnd::Head(_)) {
            self.pos += 1;
        }
        Some((Arg { value: unescape(raw, escaped), span, quoted: true }, end))
    }

    /// Reports the byte at the current place; reading goes on as if a blank stood before it.
    fn unexpected_after_quote(&mut self, quote_start: usize, diagnostics: &mut Diagnostics) {
        let rest = &self.text[self.pos..];
        let (_, end, found) = rest.char_indices().next().unwrap_or((0, 1, char::REPLACEMENT_CHARACTER));
        let span = self.span(self.pos, self.pos + end);
        let quote_line = self.line(quote_start);
        self.report(diagnostics, Diagnostic::unexpected_after_quote(found, span, quote_line));
    }

    /// The rest of the text stands in quotes.
    fn unterminated_quote(&mut self, start: usize, quote: u8, diagnostics: &mut Diagnostics) {
        let diagnostic = if self.text.len() - start > NGINX_WORD_BYTES_MAX {
            Diagnostic::unterminated_quote(self.span(start, start + 1), char::from(quote))
        } else if self.command_line {
            Diagnostic::end_of_parameter(self.end_span())
        } else {
            Diagnostic::end_of_file_in_quotes(self.end_span(), self.lines.line(self.text, start))
        };
        self.give_up();
        self.report(diagnostics, diagnostic);
    }

    fn end_of_file_in_head(&mut self, diagnostics: &mut Diagnostics, name: &Arg) {
        if self.gave_up {
            return;
        }
        let diagnostic = if self.command_line {
            Diagnostic::end_of_parameter(self.end_span())
        } else {
            let line = self.lines.line(self.text, name.span.start as usize);
            Diagnostic::end_of_file_in_directive(self.end_span(), name.value.as_bstr(), line)
        };
        self.give_up();
        self.report(diagnostics, diagnostic);
    }

    /// The empty span behind the last byte.
    pub(crate) fn end_span(&self) -> Span {
        self.span(self.text.len(), self.text.len())
    }
}

impl LineCounter {
    fn line(&mut self, text: &[u8], offset: usize) -> u32 {
        if offset < self.pos {
            // Only error messages look back.
            *self = LineCounter::default();
        }
        self.newlines += memchr::memchr_iter(b'\n', &text[self.pos..offset]).count() as u32;
        self.pos = offset;
        self.newlines + 1
    }
}

/// The closing quote at or behind `pos`, and whether a backslash stands before it.
fn find_quote(text: &[u8], mut pos: usize, quote: u8) -> Option<(usize, bool)> {
    let mut escaped = false;
    loop {
        let found = pos + memchr::memchr2(quote, b'\\', text.get(pos..)?)?;
        if text[found] == quote {
            return Some((found, escaped));
        }
        escaped = true;
        pos = found + 2;
    }
}

/// The value of a word.
fn unescape(raw: &[u8], escaped: bool) -> BString {
    if !escaped {
        return BString::from(raw);
    }
    let mut value = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, tail)) = rest.split_first() {
        let replaced = match tail.first() {
            Some(&next @ (b'"' | b'\'' | b'\\')) if byte == b'\\' => Some(next),
            Some(b't') if byte == b'\\' => Some(b'\t'),
            Some(b'r') if byte == b'\\' => Some(b'\r'),
            Some(b'n') if byte == b'\\' => Some(b'\n'),
            _ => None,
        };
        value.push(replaced.unwrap_or(byte));
        rest = if replaced.is_some() { &tail[1..] } else { tail };
    }
    BString::from(value)
}
