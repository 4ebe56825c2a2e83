//! `root` and `alias`: from a URI to the name of a file.

use std::{
    ffi::OsStr,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast};

use super::{Conf, MODULE};
use crate::{
    conf::Build,
    location::Match,
    log::{Level, SysError},
    main_conf::duplicate,
    request::Request,
    template::Template,
    variable::VariableDef,
};

/// How the path of a request and the directive's text make a file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// `root`: the path is appended.
    Root,
    /// `alias`: the path without its first bytes (the location's text) is appended.
    Alias {
        /// Length of the location's text.
        skip: usize,
    },
    /// `alias` in a location with a regular expression: the text is the whole name.
    Whole,
}

/// A `root` or `alias`.
#[derive(Debug)]
pub struct Root {
    path: Template,
    mapping: Mapping,
    /// What a relative result starts from, where the text begins with a variable.
    prefix: Option<PathBuf>,
}

impl Root {
    /// A `root` without variables.
    pub(super) fn fixed(path: &Path) -> Self {
        let path = Template::literal(path.as_os_str().as_bytes());
        Root { path, mapping: Mapping::Root, prefix: None }
    }

    /// How the path of a request and the text make a file name.
    pub fn mapping(&self) -> Mapping {
        self.mapping
    }

    /// Whether this is an `alias`.
    pub fn is_alias(&self) -> bool {
        self.mapping != Mapping::Root
    }

    fn write(&self, req: &Request, out: &mut Vec<u8>) {
        let start = out.len();
        self.path.write(req, out);
        if let Some(prefix) = &self.prefix
            && out.get(start) != Some(&b'/')
        {
            let relative = out.split_off(start);
            out.extend_from_slice(prefix.join(OsStr::from_bytes(&relative)).as_os_str().as_bytes());
        }
    }
}

pub(super) static VARIABLES: &[VariableDef] = &[
    VariableDef::new("document_root", document_root, "Value of root or alias for the request."),
    VariableDef::new(
        "realpath_root",
        realpath_root,
        "Value of root or alias for the request, with symbolic links resolved.",
    ),
    VariableDef::new("request_filename", request_filename, "File name for the request, by root or alias."),
];

fn document_root(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    if let Some(root) = &req.files_conf().root {
        root.write(req, out);
    }
    true
}

fn realpath_root(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let mut root = Vec::new();
    document_root(req, b"", &mut root);
    match std::fs::canonicalize(OsStr::from_bytes(&root)) {
        Ok(real) => {
            out.extend_from_slice(&real.into_os_string().into_vec());
            true
        }
        Err(error) => {
            let message = format_args!("realpath() \"{}\" failed {}", BStr::new(&root), SysError(&error));
            req.log(Level::Crit, message);
            false
        }
    }
}

fn request_filename(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    req.map_uri_to_path(out).is_some()
}

impl Request {
    /// What the directives about files say at the level that applies now.
    pub fn files_conf(&self) -> &Conf {
        self.level().conf(&MODULE)
    }

    /// Appends the name of the file that the request's path means, and returns the length of the part that `root` or
    /// `alias` gave. `None`, with a line in the log, where there is none.
    ///
    /// Source: nginx, `ngx_http_map_uri_to_path`.
    pub fn map_uri_to_path(&self, out: &mut Vec<u8>) -> Option<usize> {
        let root = self.files_conf().root.as_ref()?;
        if root.is_alias() && self.flags().alias_blocked.get() {
            let name = &self.level().name;
            self.log(
                Level::Alert,
                format_args!("\"alias\" cannot be used in location \"{name}\" where URI was rewritten"),
            );
            return None;
        }
        let start = out.len();
        root.write(self, out);
        let root_len = out.len() - start;
        let uri = self.uri.borrow();
        out.extend_from_slice(match root.mapping {
            Mapping::Root => &uri.path,
            Mapping::Alias { skip } => uri.path.get(skip..).unwrap_or_default(),
            Mapping::Whole if self.flags().add_uri_to_alias.get() => &uri.path,
            Mapping::Whole => b"",
        });
        Some(root_len)
    }
}

pub(super) fn set_root(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    check(conf, directive, "root")?;
    let arg = &directive.args[0];
    let text = arg.value.strip_suffix(b"/").unwrap_or(&arg.value);
    conf.root = Some(Arc::new(compile(arg, text, Mapping::Root, build)?));
    Ok(())
}

pub(super) fn set_alias(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    check(conf, directive, "alias")?;
    let arg = &directive.args[0];
    let level = build.level();
    let siblings = build.parent_of(level).map_or(&[][..], |parent| build.locations_of(parent));
    let mapping = match siblings.iter().find(|draft| draft.level == level).map(|draft| &draft.kind) {
        Some(Match::Named) => {
            let message = "the \"alias\" directive cannot be used inside the named location";
            return Err(Diagnostic::new(Severity::Emerg, directive.name.span, message));
        }
        Some(Match::Regex(_)) => Mapping::Whole,
        _ => Mapping::Alias { skip: build.name_of(level).len() },
    };
    let text = arg.value.clone();
    conf.root = Some(Arc::new(compile(arg, &text, mapping, build)?));
    Ok(())
}

fn check(conf: &Conf, directive: &ast::Directive, name: &str) -> Result<(), Diagnostic> {
    let emerg = |message: String| Err(Diagnostic::new(Severity::Emerg, directive.name.span, message));
    if let Some(earlier) = &conf.root {
        let earlier = if earlier.is_alias() { "alias" } else { "root" };
        if earlier == name {
            return Err(duplicate(directive));
        }
        return emerg(format!("\"{name}\" directive is duplicate, \"{earlier}\" directive was specified earlier"));
    }
    let value = &directive.args[0].value;
    for variable in ["document_root", "realpath_root"] {
        if value.contains_str(format!("${variable}")) || value.contains_str(format!("${{{variable}}}")) {
            return emerg(format!("the ${variable} variable cannot be used in the \"{name}\" directive"));
        }
    }
    Ok(())
}

/// Compiles the directive's text; a relative one starts from the prefix.
fn compile(arg: &ast::Arg, text: &[u8], mapping: Mapping, build: &mut Build<'_>) -> Result<Root, Diagnostic> {
    let (full, prefix) = match arg.value.first() {
        Some(b'$') => (BString::from(text), Some(build.prefix.clone())),
        Some(b'/') => (BString::from(text), None),
        _ => (build.full_path(text.as_bstr()).into_os_string().into_vec().into(), None),
    };
    Ok(Root { path: build.template_at(full.as_bstr(), arg.span)?, mapping, prefix })
}
