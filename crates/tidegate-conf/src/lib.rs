//! The configuration language: lexer, parser, values, spans, diagnostics.
//!
//! Reads text in nginx's language into a tree of directives, each of which knows where it stands, and collects
//! everything that is wrong instead of stopping at the first problem.
//!
//! What this crate does not know: which directives exist, where they may stand and what they mean. A name ending in
//! `_by_lua_block` takes Lua code instead of directives; beyond that rule and `include` all names are equal.
//!
//! In reading order:
//!
//! - [`source`]: file names and texts, byte spans, lines and columns
//! - [`ast`]: the tree
//! - [`parse`]: from files to the tree; with `lexer` (words), `lua_block` (where Lua code ends), `include` and `glob`
//! - [`diagnostic`]: errors and warnings, their wording and how they are printed
//! - [`values`]: sizes, times, flags and numbers in arguments
//! - [`template`]: strings that mention variables
//! - [`dump()`]: all files that were read, as `-T` prints them
//!
//! ```
//! use tidegate_conf::{Diagnostics, ParseOptions, SourceMap, parse_text};
//!
//! let mut sources = SourceMap::new();
//! let mut diagnostics = Diagnostics::new();
//! let tree = parse_text("nginx.conf", "events {}\nhttp { server { listen 80 } }",
//!     &mut sources, &ParseOptions::default(), &mut diagnostics);
//! assert_eq!(tree.len(), 2);
//! assert_eq!(diagnostics.iter().next().unwrap().one_line(&sources), r#"unexpected "}" in nginx.conf:2"#);
//! ```

#![forbid(unsafe_code)]

pub mod source;

pub mod ast;

pub mod parse;

mod lexer;

mod lua_block;

mod include;

mod glob;

pub mod diagnostic;

mod spelling;

pub mod values;

pub mod template;

pub mod dump;

pub use ast::{Arg, Body, Directive, LuaBlock};
pub use diagnostic::{Diagnostic, Diagnostics, Level};
pub use dump::dump;
pub use parse::{Includes, ParseOptions, parse_command_line, parse_file, parse_text};
pub use source::{FileId, SourceMap, Span};
pub use spelling::closest;
pub use template::{Segment, TemplateError, parse_template};
pub use values::ValueError;
