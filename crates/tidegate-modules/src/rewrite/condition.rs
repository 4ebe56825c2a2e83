//! The conditions of `if`.
//!
//! Source: nginx, `ngx_http_rewrite_if_condition`.

use std::{
    ffi::OsStr,
    io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    rc::Rc,
};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Span, ast};
use tidegate_core::{
    conf::Build,
    phase::Step,
    regex::{Regex, RegexOptions},
    request::Request,
    static_files::open::Want,
    template::Template,
    variable::VariableId,
};
use tidegate_net::log::Level;

use super::emerg;

/// The condition of an `if`.
pub struct Condition {
    test: Test,
    negated: bool,
}

enum Test {
    /// `($variable)`: not empty and not `0`.
    Variable(VariableId),
    /// `($variable = text)`
    Equal(VariableId, Template),
    /// `($variable ~ pattern)`
    Match(VariableId, Pattern),
    /// `(-f path)` and the like
    File(FileTest, Template),
}

#[derive(Clone, Copy)]
enum FileTest {
    IsFile,
    IsDirectory,
    Exists,
    IsExecutable,
}

/// A pattern whose matches are `$1` and so on afterwards.
pub(super) struct Pattern {
    regex: Regex,
}

/// The words between the parentheses, with the place of each.
fn words(args: &[ast::Arg]) -> Result<Vec<ast::Arg>, Diagnostic> {
    let invalid = |arg: &ast::Arg| emerg(arg, format!("invalid condition \"{}\"", arg.value));
    let mut words = args.to_vec();
    // A block has at least one argument, checked before.
    let first = &mut words[0];
    if !first.value.starts_with(b"(") {
        return Err(invalid(first));
    }
    first.value.remove(0);
    if first.value.is_empty() {
        words.remove(0);
    }
    let Some(last) = words.last_mut().filter(|last| last.value.ends_with(b")")) else {
        return Err(invalid(args.last().unwrap_or(&args[0])));
    };
    last.value.pop();
    if last.value.is_empty() {
        words.pop();
    }
    match words.is_empty() {
        true => Err(emerg(&args[0], "invalid condition \"()\"")),
        false => Ok(words),
    }
}

impl Condition {
    pub(super) fn parse(args: &[ast::Arg], build: &mut Build<'_>) -> Result<Condition, Diagnostic> {
        let words = words(args)?;
        let first = &words[0];
        let invalid = || emerg(first, format!("invalid condition \"{}\"", first.value));
        if let Some(name) = first.value.strip_prefix(b"$").filter(|name| !name.is_empty()) {
            let variable = build.reference(name.as_bstr(), first.span);
            return match &words[..] {
                [_] => Ok(Condition { test: Test::Variable(variable), negated: false }),
                [_, operator, value] => comparison(variable, operator, value, build),
                _ => Err(invalid()),
            };
        }
        let (negated, operator) = match first.value.strip_prefix(b"!") {
            Some(operator) => (true, operator),
            None => (false, &first.value[..]),
        };
        let (test, [_, path]) = (file_test(operator).ok_or_else(invalid)?, &words[..]) else {
            return Err(invalid());
        };
        Ok(Condition { test: Test::File(test, build.template(path)?), negated })
    }

    /// Whether it holds. A pattern leaves its groups in `$1` and so on.
    ///
    /// # Errors
    /// The step that ends the script: a pattern that is too expensive.
    pub(super) fn holds(&self, req: &Rc<Request>, log: bool) -> Result<bool, Step> {
        let holds = match &self.test {
            Test::Variable(variable) => with_value(req, *variable, |value| !matches!(value, b"" | b"0")),
            Test::Equal(variable, text) => with_value(req, *variable, |value| match text.as_literal() {
                Some(text) => value == text,
                None => value == text.eval(req),
            }),
            Test::Match(variable, pattern) => with_value(req, *variable, |value| pattern.find(req, value, log))?,
            Test::File(test, path) => test.holds(req, &path.eval_cow(req)),
        };
        Ok(holds != self.negated)
    }
}

fn with_value<T>(req: &Request, variable: VariableId, use_value: impl FnOnce(&[u8]) -> T) -> T {
    let mut value = Vec::new();
    req.variable(variable, &mut value);
    use_value(&value)
}

fn comparison(
    variable: VariableId,
    operator: &ast::Arg,
    value: &ast::Arg,
    build: &mut Build<'_>,
) -> Result<Condition, Diagnostic> {
    let (negated, kind) = match operator.value.strip_prefix(b"!") {
        Some(kind) => (true, kind),
        None => (false, &operator.value[..]),
    };
    let test = match kind {
        b"=" => Test::Equal(variable, build.template(value)?),
        b"~" => Test::Match(variable, Pattern::new(&value.value, value.span, RegexOptions::NONE, build)?),
        b"~*" => Test::Match(variable, Pattern::new(&value.value, value.span, RegexOptions::CASELESS, build)?),
        _ => return Err(emerg(operator, format!("unexpected \"{}\" in condition", operator.value))),
    };
    Ok(Condition { test, negated })
}

fn file_test(operator: &[u8]) -> Option<FileTest> {
    Some(match operator {
        b"-f" => FileTest::IsFile,
        b"-d" => FileTest::IsDirectory,
        b"-e" => FileTest::Exists,
        b"-x" => FileTest::IsExecutable,
        _ => return None,
    })
}

/// Set in the mode of files that their owner may execute.
const OWNER_EXECUTES: u32 = 0o100;

impl FileTest {
    /// One look at the file system, as nginx takes it: what is in its caches costs no wait.
    fn holds(self, req: &Request, path: &[u8]) -> bool {
        if req.checks_symlinks()
            && let Err(failure) = req.open_file(path, Want::Info)
        {
            if !failure.is_not_found() {
                failure.log_at(req, path, Level::Crit);
            }
            return false;
        }
        let found = match std::fs::metadata(Path::new(OsStr::from_bytes(path))) {
            Ok(found) => found,
            Err(error) => {
                use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
                if !matches!(error.kind(), NotFound | NotADirectory | InvalidFilename | InvalidInput) {
                    let number = error.raw_os_error().unwrap_or(0);
                    let shown = error.to_string();
                    let text = shown.split(" (os error").next().unwrap_or_default();
                    req.log(Level::Crit, format_args!("stat() \"{}\" failed ({number}: {text})", BStr::new(path)));
                }
                return false;
            }
        };
        match self {
            FileTest::IsFile => found.is_file(),
            FileTest::IsDirectory => found.is_dir(),
            FileTest::Exists => found.is_file() || found.is_dir(),
            FileTest::IsExecutable => found.permissions().mode() & OWNER_EXECUTES != 0,
        }
    }
}

impl Pattern {
    pub(super) fn new(
        pattern: &[u8],
        span: Span,
        options: RegexOptions,
        build: &mut Build<'_>,
    ) -> Result<Pattern, Diagnostic> {
        let regex = Regex::new(pattern, options)
            .map_err(|error| Diagnostic::new(tidegate_conf::Level::Emerg, span, error.to_string()))?;
        build.define_captures(&regex, span)?;
        Ok(Pattern { regex })
    }

    /// Whether `subject` matches; `$1` and so on and the named groups follow, whatever the answer.
    ///
    /// # Errors
    /// 500 when a limit of PCRE is reached.
    pub(super) fn find(&self, req: &Request, subject: &[u8], log: bool) -> Result<bool, Step> {
        let found = match self.regex.captures(subject) {
            Ok(found) => found,
            Err(error) => {
                let (subject, pattern) = (BStr::new(subject), self.regex.pattern());
                req.log(Level::Alert, format_args!("{error} on \"{subject}\" using \"{pattern}\""));
                return Err(Step::Status(500));
            }
        };
        let matches = found.is_some();
        match found {
            Some(captures) => {
                req.set_named_captures(&self.regex, subject, &captures);
                req.set_captures(subject, captures);
            }
            None => req.clear_captures(),
        }
        if log {
            let (word, shown): (_, BString) = (if matches { "matches" } else { "does not match" }, subject.into());
            req.log(Level::Notice, format_args!("\"{}\" {word} \"{shown}\"", self.regex.pattern()));
        }
        Ok(matches)
    }
}
