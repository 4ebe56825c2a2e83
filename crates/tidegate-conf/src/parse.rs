//! From text to the tree of directives.
//!
//! Reading never stops at an error that leaves the rest readable: a directive with an error in its words is left out, a
//! block with one is kept, so that what stands inside is judged as well.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;

use crate::ast::{Arg, Body, Directive, LuaBlock};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::include::{self, Including};
use crate::lexer::{Head, HeadEnd, Item, Lexer};
use crate::lua_block::{self, LuaBlockError};
use crate::source::{FileId, SourceMap, Span};

/// Deeper blocks are refused: the tree is walked recursively later. Real configurations stay below ten.
const BLOCK_DEPTH_MAX: usize = 128;

/// A directive whose name ends so has Lua code as its block.
const LUA_BLOCK_SUFFIX: &[u8] = b"_by_lua_block";

/// Settings of the parser.
#[derive(Clone, Debug, Default)]
pub struct ParseOptions {
    /// The folder to which the names in `include` are relative: that of the main file.
    pub conf_dir: PathBuf,
    /// Treatment of `include`.
    pub includes: Includes,
    /// Further names whose block is Lua code, beside those that end in `_by_lua_block`.
    pub lua_block_names: &'static [&'static str],
    /// How files are opened; `None` for the usual way. A process that gave up its rights has others open them.
    pub open: Option<fn(&Path) -> io::Result<File>>,
}

/// What to do with `include` directives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Includes {
    /// The directives of the file take the place of `include`.
    #[default]
    Follow,
    /// `include` stays in the tree and no file is opened.
    Keep,
}

/// Reads a configuration file and all that it includes.
///
/// What is wrong goes to `diagnostics`; the tree then holds what could be read. Reading files blocks.
pub fn parse_file(
    path: impl AsRef<Path>,
    sources: &mut SourceMap,
    options: &ParseOptions,
    diagnostics: &mut Diagnostics,
) -> Vec<Directive> {
    let path = path.as_ref();
    match include::read(path, None, options) {
        Ok(text) => {
            let file = sources.add(path.to_string_lossy(), text);
            parse_source(file, sources, options, diagnostics)
        }
        Err(diagnostic) => {
            diagnostics.push(*diagnostic);
            Vec::new()
        }
    }
}

/// Reads a configuration from memory, and all that it includes from files.
pub fn parse_text(
    name: impl Into<String>,
    text: impl Into<Vec<u8>>,
    sources: &mut SourceMap,
    options: &ParseOptions,
    diagnostics: &mut Diagnostics,
) -> Vec<Directive> {
    let file = sources.add(name, text);
    parse_source(file, sources, options, diagnostics)
}

/// Reads the directives given with `-g`, among which blocks are not allowed.
pub fn parse_command_line(
    text: impl Into<Vec<u8>>,
    sources: &mut SourceMap,
    options: &ParseOptions,
    diagnostics: &mut Diagnostics,
) -> Vec<Directive> {
    let file = sources.add_command_line(text);
    parse_source(file, sources, options, diagnostics)
}

fn parse_source(
    file: FileId,
    sources: &mut SourceMap,
    options: &ParseOptions,
    diagnostics: &mut Diagnostics,
) -> Vec<Directive> {
    Parser { sources, options, diagnostics, including: Including::new(file), block_depth: 0 }.file(file)
}

/// Reads one configuration.
struct Parser<'a> {
    sources: &'a mut SourceMap,
    options: &'a ParseOptions,
    diagnostics: &'a mut Diagnostics,
    including: Including,
    /// Over all files that are being read.
    block_depth: usize,
}

/// A block whose end was not read yet.
struct OpenBlock {
    /// `None` if it must be thrown away with all that it holds.
    directive: Option<Directive>,
    children: Vec<Directive>,
    /// `None` if no word stands before the `{`.
    name: Option<Arg>,
}

impl Parser<'_> {
    fn file(&mut self, file: FileId) -> Vec<Directive> {
        let text = self.sources.shared_text(file);
        let command_line = self.sources.is_command_line(file);
        let mut lexer = Lexer::new(file, &text, command_line);
        let mut blocks = Blocks::default();
        loop {
            match lexer.next(self.diagnostics) {
                Item::Head(head, HeadEnd::Semicolon) => self.simple(head, &lexer, &mut blocks),
                Item::Head(head, HeadEnd::Brace) if self.is_lua_block(&head) => {
                    self.lua(head, &mut lexer, &mut blocks);
                }
                Item::Head(head, HeadEnd::Brace) => self.open(Some(head), &mut lexer, &mut blocks),
                Item::NamelessBlock => self.open(None, &mut lexer, &mut blocks),
                Item::BlockEnd => self.close(&mut lexer, &mut blocks),
                Item::EndOfFile => break,
            }
        }
        self.end_of_file(&mut lexer, blocks)
    }

    fn simple(&mut self, head: Head, lexer: &Lexer<'_>, blocks: &mut Blocks) {
        if head.broken {
            return;
        }
        let directive = directive(head, Body::None, lexer.pos());
        if self.options.includes == Includes::Follow && directive.name.value == "include" {
            self.include(&directive, blocks);
        } else {
            blocks.current().push(directive);
        }
    }

    /// Puts the directives of the files in place of the `include`.
    fn include(&mut self, directive: &Directive, blocks: &mut Blocks) {
        let [pattern] = directive.args.as_slice() else {
            let diagnostic = Diagnostic::invalid_arguments_of(directive, self.sources, "file | mask");
            self.diagnostics.push(diagnostic);
            return;
        };
        for path in include::paths(&self.options.conf_dir, pattern.value.as_bstr()) {
            match self.including.enter(&path, pattern.span, self.sources, self.options) {
                Ok(file) => {
                    let mut directives = self.file(file);
                    blocks.current().append(&mut directives);
                    self.including.leave();
                }
                Err(diagnostic) => {
                    self.diagnostics.push(*diagnostic);
                }
            }
        }
    }

    fn is_lua_block(&self, head: &Head) -> bool {
        let name = head.name.value.as_slice();
        name.ends_with(LUA_BLOCK_SUFFIX) || self.options.lua_block_names.iter().any(|lua| lua.as_bytes() == name)
    }

    fn lua(&mut self, head: Head, lexer: &mut Lexer<'_>, blocks: &mut Blocks) {
        let start = lexer.pos() as usize;
        let text = lexer.text();
        match lua_block::find_end(text, start) {
            Ok(end) => {
                let line = lexer.line(start - 1);
                let block = LuaBlock { source: text[start..end].into(), span: lexer.span(start, end), line };
                let mut directive = directive(head, Body::Lua(block), lexer.pos());
                lexer.skip_to(end + 1);
                directive.span.end = lexer.pos();
                blocks.current().push(directive);
            }
            Err(error) => {
                let diagnostic = match error {
                    LuaBlockError::EndOfFile { brace } => {
                        let brace = brace.unwrap_or(start - 1);
                        Diagnostic::end_of_file_in_lua(lexer.span(brace, brace + 1))
                    }
                    LuaBlockError::LongBracket { start, end } => {
                        let closing = text[start..end].to_str_lossy().replace('[', "]");
                        Diagnostic::lua_long_bracket(lexer.span(start, end), &closing)
                    }
                };
                lexer.give_up();
                lexer.report(self.diagnostics, diagnostic);
            }
        }
    }

    /// Opens a block; one without a head is thrown away when it closes.
    fn open(&mut self, head: Option<Head>, lexer: &mut Lexer<'_>, blocks: &mut Blocks) {
        let end = lexer.pos();
        let brace = lexer.span(end as usize - 1, end as usize);
        self.block_depth += 1;
        let name = head.as_ref().map(|head| head.name.clone());
        let mut directive = head.map(|head| directive(head, Body::None, end));
        if self.sources.is_command_line(brace.file) {
            lexer.report(self.diagnostics, Diagnostic::block_in_command_line(brace));
        } else if self.block_depth == BLOCK_DEPTH_MAX + 1 {
            lexer.report(self.diagnostics, Diagnostic::blocks_too_deep(brace, BLOCK_DEPTH_MAX));
        }
        if self.block_depth > BLOCK_DEPTH_MAX {
            directive = None;
        }
        blocks.open.push(OpenBlock { directive, children: Vec::new(), name });
    }

    fn close(&mut self, lexer: &mut Lexer<'_>, blocks: &mut Blocks) {
        let end = lexer.pos();
        let Some(block) = blocks.open.pop() else {
            let diagnostic = Diagnostic::unexpected('}', lexer.span(end as usize - 1, end as usize));
            lexer.report(self.diagnostics, diagnostic);
            return;
        };
        blocks.note_indent(lexer.text(), &block, end as usize - 1);
        self.finish(block, end, blocks);
    }

    fn finish(&mut self, block: OpenBlock, end: u32, blocks: &mut Blocks) {
        self.block_depth -= 1;
        if let Some(mut directive) = block.directive {
            directive.body = Body::Block(block.children);
            directive.span.end = end;
            blocks.current().push(directive);
        }
    }

    /// Closes what is still open, with one error for all of it.
    fn end_of_file(&mut self, lexer: &mut Lexer<'_>, mut blocks: Blocks) -> Vec<Directive> {
        if let Some(innermost) = blocks.open.last()
            && !lexer.gave_up()
        {
            let culprit = blocks.suspect.as_ref().or(innermost.name.as_ref());
            let culprit = culprit.map(|name| (name.value.as_bstr(), lexer.line(name.span.start as usize)));
            let diagnostic = Diagnostic::end_of_file_in_block(lexer.end_span(), culprit);
            lexer.report(self.diagnostics, diagnostic);
        }
        let end = lexer.pos();
        while let Some(block) = blocks.open.pop() {
            self.finish(block, end, &mut blocks);
        }
        blocks.top
    }
}

/// The blocks of one file.
#[derive(Default)]
struct Blocks {
    top: Vec<Directive>,
    open: Vec<OpenBlock>,
    /// The name of the first block whose `}` is indented less than it: this block, or one in it, lacks a `}`.
    suspect: Option<Arg>,
}

impl Blocks {
    /// Where the next directive goes.
    fn current(&mut self) -> &mut Vec<Directive> {
        self.open.last_mut().map_or(&mut self.top, |block| &mut block.children)
    }

    /// Compares the indent of a `}` that begins its line with that of the line that opened the block.
    fn note_indent(&mut self, text: &[u8], block: &OpenBlock, close: usize) {
        let Some(name) = block.name.as_ref().filter(|_| self.suspect.is_none()) else { return };
        let (close_indent, close_first) = indent(text, close);
        let (open_indent, _) = indent(text, name.span.start as usize);
        if close_first == close && close_indent < open_indent {
            self.suspect = Some(name.clone());
        }
    }
}

/// How many blanks begin the line of `pos`, and where they end.
fn indent(text: &[u8], pos: usize) -> (usize, usize) {
    let line_start = memchr::memrchr(b'\n', &text[..pos]).map_or(0, |newline| newline + 1);
    let width = text[line_start..].iter().take_while(|&&b| b == b' ' || b == b'\t').count();
    (width, line_start + width)
}

fn directive(head: Head, body: Body, head_end: u32) -> Directive {
    let span = Span { end: head_end, ..head.name.span };
    Directive { name: head.name, args: head.args, body, span, head_end }
}

#[cfg(test)]
mod tests;
