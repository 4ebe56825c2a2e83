//! The Lua code of one directive: inline, or in a file whose path may hold variables.

use std::path::Path;
use std::rc::Rc;

use bstr::{BStr, ByteSlice};
use tidegate_conf::{Body, Diagnostic, Level as Severity, ast};
use tidegate_core::conf::Build;
use tidegate_core::request::Request;
use tidegate_core::template::Template;

use crate::chunk::{Chunk, LoadError, load_file};
use crate::stack::Ref;
use crate::syntax;
use crate::vm::Vm;

/// The code of a `*_by_lua*` directive.
#[derive(Debug)]
pub enum Code {
    /// From a string or a block.
    Inline(Chunk),
    /// From a file: its path as it stands in the configuration, and the directory that relative paths start from.
    File {
        /// The path.
        path: Template,
        /// The prefix.
        prefix: Box<[u8]>,
    },
}

impl Code {
    /// Reads the code of `directive`: `X_by_lua 'code'`, `X_by_lua_block { code }` or `X_by_lua_file path`.
    ///
    /// # Errors
    /// An empty string or path, or one with bad variables.
    pub fn parse(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        let name = directive.name().to_str_lossy().into_owned();
        if let Body::Lua(block) = &directive.body {
            let name = name.strip_suffix("_block").unwrap_or(&name);
            let file = file_name(build, directive);
            let chunk = Chunk::inline(name, &file, block.line as usize, &block.source);
            syntax::check_inline(&block.source, chunk.name(), Some(block), directive.name.span, build);
            return Ok(Self::Inline(chunk));
        }
        Self::of_argument(&name, directive, &directive.args[0], build)
    }

    /// Reads the code of a directive whose code or path is `arg`.
    ///
    /// # Errors
    /// As [`Code::parse`].
    pub fn of_argument(
        name: &str,
        directive: &ast::Directive,
        arg: &ast::Arg,
        build: &mut Build<'_>,
    ) -> Result<Self, Diagnostic> {
        if arg.value.is_empty() {
            let message = format!("invalid location config: no runnable Lua code in \"{name}\"");
            return Err(Diagnostic::new(Severity::Emerg, arg.span, message));
        }
        if name.ends_with("_file") {
            let path = build.template(arg)?;
            let prefix: Box<[u8]> = build.prefix.as_os_str().as_encoded_bytes().into();
            if let Some(path) = path.as_literal() {
                syntax::check_file(&full_path(path, &prefix), arg.span, build);
            }
            return Ok(Self::File { path, prefix });
        }
        // nginx's parser has read the whole directive when it asks for the line: it is the line where it ends.
        let line = build.sources.line(directive.span.file, directive.span.end.saturating_sub(1));
        let file = file_name(build, directive);
        let chunk = Chunk::inline(name, &file, line as usize, &arg.value);
        syntax::check_inline(&arg.value, chunk.name(), None, arg.span, build);
        Ok(Self::Inline(chunk))
    }

    /// `_file` for code from a file, nothing for inline code: the end of the directive's name in messages.
    pub(crate) fn name_suffix(&self) -> &'static str {
        match self {
            Self::Inline(_) => "",
            Self::File { .. } => "_file",
        }
    }

    /// The compiled function for a request.
    ///
    /// # Errors
    /// Why it does not load.
    pub fn load(&self, vm: &Vm, req: Option<&Rc<Request>>) -> Result<Ref, LoadError> {
        match self {
            Self::Inline(chunk) => chunk.load(vm),
            Self::File { path, prefix } => {
                let path = match (req, path.as_literal()) {
                    (_, Some(path)) => path.to_vec(),
                    (Some(req), None) => path.eval(req),
                    (None, None) => Vec::new(),
                };
                load_file(vm, &full_path(&path, prefix))
            }
        }
    }
}

fn full_path(path: &[u8], prefix: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") { path.to_vec() } else { [prefix, path].concat() }
}

/// The name of the file in which `directive` stands, as chunk names show it: relative to the configuration's directory.
///
/// Source: lua-nginx-module, `ngx_http_lua_gen_chunk_name`.
fn file_name(build: &Build<'_>, directive: &ast::Directive) -> Vec<u8> {
    let name = Path::new(build.sources.name(directive.span.file));
    if name.file_name().is_some_and(|file| file == "nginx.conf") {
        return b"nginx.conf".to_vec();
    }
    let shown = name.strip_prefix(&build.conf_dir).unwrap_or(name);
    <[u8]>::from_path(shown).map_or_else(|| BStr::new("?").to_vec(), <[u8]>::to_vec)
}
