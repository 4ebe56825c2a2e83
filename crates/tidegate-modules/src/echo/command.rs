//! The commands of `echo`, compiled.

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{conf::Build, request::Request, template::Template};

use super::emerg;

/// The arguments of `echo`: joined with spaces, with a line end unless `-n` stands first.
#[derive(Debug, Clone)]
pub(super) struct Text {
    parts: Vec<Template>,
    line_end: bool,
}

/// A sub-request's target and what goes with it.
#[derive(Debug)]
pub(super) struct Target {
    /// The directive, for messages.
    pub(super) name: String,
    pub(super) method: Option<Template>,
    pub(super) location: Template,
    pub(super) args: Option<Template>,
    pub(super) body: Option<Template>,
    pub(super) file: Option<Template>,
}

/// One command.
#[derive(Debug)]
pub(super) enum Command {
    Echo(Text),
    Duplicate { count: Template, text: Template },
    Flush,
    Sleep(Template),
    ResetTimer,
    ReadBody,
    RequestBody,
    Subrequest(Target),
    SubrequestAsync(Target),
    Foreach { delimiter: Template, text: Template },
    End,
    AbortParent,
    Exec { location: Template, args: Option<Template> },
}

impl Text {
    pub(super) fn parse(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        let mut args = directive.args.as_slice();
        let mut line_end = true;
        // `-n` and `--` are words of their own ahead of the text, as in echo(1).
        while let [first, rest @ ..] = args {
            match &**first.value {
                b"-n" => line_end = false,
                b"--" => {
                    args = rest;
                    break;
                }
                _ => break,
            }
            args = rest;
        }
        let parts = args.iter().map(|arg| build.template(arg)).collect::<Result<_, _>>()?;
        Ok(Text { parts, line_end })
    }

    pub(super) fn write(&self, req: &Request, out: &mut Vec<u8>) {
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                out.push(b' ');
            }
            part.write(req, out);
        }
        if self.line_end {
            out.push(b'\n');
        }
    }
}

pub(super) fn duplicate(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Command, Diagnostic> {
    Ok(Command::Duplicate { count: build.template(&directive.args[0])?, text: build.template(&directive.args[1])? })
}

pub(super) fn sleep(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Command, Diagnostic> {
    Ok(Command::Sleep(build.template(&directive.args[0])?))
}

pub(super) fn location(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Target, Diagnostic> {
    let args = directive.args.get(1).map(|arg| build.template(arg)).transpose()?;
    let location = build.template(&directive.args[0])?;
    Ok(Target { name: directive.name().to_string(), method: None, location, args, body: None, file: None })
}

pub(super) fn exec(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Command, Diagnostic> {
    let args = directive.args.get(1).map(|arg| build.template(arg)).transpose()?;
    Ok(Command::Exec { location: build.template(&directive.args[0])?, args })
}

pub(super) fn subrequest(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Target, Diagnostic> {
    let mut target = Target {
        name: directive.name().to_string(),
        method: Some(build.template(&directive.args[0])?),
        location: build.template(&directive.args[1])?,
        args: None,
        body: None,
        file: None,
    };
    let mut options = directive.args[2..].iter();
    while let Some(option) = options.next() {
        let field = match &**option.value {
            b"-q" => &mut target.args,
            b"-b" => &mut target.body,
            b"-f" => &mut target.file,
            _ => return Err(emerg(option, format!("unknown option for {}: {}", directive.name.value, option.value))),
        };
        let Some(value) = options.next() else {
            return Err(emerg(option, format!("{} should take an argument", option.value)));
        };
        *field = Some(build.template(value)?);
    }
    Ok(target)
}

pub(super) fn foreach(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Command, Diagnostic> {
    let mut args = directive.args.as_slice();
    if let [first, rest @ ..] = args
        && first.value == "--"
    {
        args = rest;
    }
    let [delimiter, text] = args else {
        return Err(emerg(
            &directive.name,
            format!("invalid number of arguments in \"{}\" directive", directive.name.value),
        ));
    };
    Ok(Command::Foreach { delimiter: build.template(delimiter)?, text: build.template(text)? })
}

/// Seconds with a fraction, as `echo_sleep` takes them.
pub(super) fn seconds(text: &[u8]) -> Option<std::time::Duration> {
    let seconds: f64 = text.to_str().ok()?.trim().parse().ok()?;
    std::time::Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn sleeps() {
        assert_eq!(seconds(b"0.5"), Some(Duration::from_millis(500)));
        assert_eq!(seconds(b"2"), Some(Duration::from_secs(2)));
        for bad in ["", "x", "-1", "1e400"] {
            assert_eq!(seconds(bad.as_bytes()), None, "{bad}");
        }
    }
}
