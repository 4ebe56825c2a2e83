//! What each command does.

use std::{borrow::Cow, rc::Rc};

use bstr::BStr;
use tidegate_core::{
    request::Request,
    subrequest::{Options, Subrequest, parse_target},
};
use tidegate_http::{
    escape::{Escape, escape_html, escape_uri},
    ssi::Command,
};
use tidegate_net::log::Level;

use super::{
    TimeFormat,
    evaluate::{Shared, condition, evaluate},
    page::{Capture, Include, Page, out_of_place},
};

/// A command: its name, its parameters, those of them that must be there, and what it does.
struct Spec {
    name: &'static str,
    params: &'static [&'static str],
    mandatory: &'static [&'static str],
    run: fn(&mut Page, &Rc<Request>, &Params<'_>) -> Result<(), String>,
}

#[rustfmt::skip]
const COMMANDS: &[Spec] = &[
    Spec { name: "include", params: &["virtual", "file", "wait", "set", "stub"], mandatory: &[], run: include },
    Spec { name: "echo", params: &["var", "default", "encoding"], mandatory: &["var"], run: echo },
    Spec { name: "config", params: &["errmsg", "timefmt"], mandatory: &[], run: config },
    Spec { name: "set", params: &["var", "value"], mandatory: &["var", "value"], run: set },
    Spec { name: "if", params: &["expr"], mandatory: &["expr"], run: |page, req, params| {
        page.begin_if(|| condition(req, params.get("expr")?))
    } },
    Spec { name: "elif", params: &["expr"], mandatory: &["expr"], run: |page, req, params| {
        page.next_if(|| condition(req, params.get("expr")?))
    } },
    Spec { name: "else", params: &[], mandatory: &[], run: |page, _, _| page.begin_else() },
    Spec { name: "endif", params: &[], mandatory: &[], run: |page, _, _| page.end_if() },
    Spec { name: "block", params: &["name"], mandatory: &["name"], run: |page, _, params| {
        page.begin_block(params.get("name")?);
        Ok(())
    } },
    Spec { name: "endblock", params: &[], mandatory: &[], run: |_, _, _| Err(out_of_place("endblock")) },
];

/// Carries out a command.
///
/// # Errors
/// What is wrong with it, for the log; empty where the log has it.
pub(super) fn run(page: &mut Page, req: &Rc<Request>, command: &Command) -> Result<(), String> {
    let Some(spec) = COMMANDS.iter().find(|spec| spec.name.as_bytes() == command.name()) else {
        return Err(format!("invalid SSI command: \"{}\"", BStr::new(command.name())));
    };
    let params = Params::new(spec, command);
    let checked = params.check();
    if spec.name == "if"
        && let Err(error) = checked
    {
        // It opens a branch all the same, which the next `endif` ends.
        return page.begin_if(|| Err(error));
    }
    checked?;
    (spec.run)(page, req, &params)
}

/// The parameters of a command.
struct Params<'c> {
    spec: &'static Spec,
    command: &'c Command,
}

impl<'c> Params<'c> {
    fn new(spec: &'static Spec, command: &'c Command) -> Self {
        Params { spec, command }
    }

    fn check(&self) -> Result<(), String> {
        let command = self.spec.name;
        for (index, (name, _)) in self.command.params().enumerate() {
            let shown = BStr::new(name);
            if !self.spec.params.iter().any(|known| known.as_bytes() == name) {
                return Err(format!("invalid parameter name: \"{shown}\" in \"{command}\" SSI command"));
            }
            if self.command.params().take(index).any(|(earlier, _)| earlier == name) {
                return Err(format!("duplicate \"{shown}\" parameter in \"{command}\" SSI command"));
            }
        }
        self.spec.mandatory.iter().try_for_each(|name| self.get(name).map(|_| ()))
    }

    fn find(&self, name: &str) -> Option<&'c [u8]> {
        self.command.params().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| value)
    }

    fn get(&self, name: &str) -> Result<&'c [u8], String> {
        let command = self.spec.name;
        self.find(name).ok_or_else(|| format!("mandatory \"{name}\" parameter is absent in \"{command}\" SSI command"))
    }
}

fn echo(page: &mut Page, req: &Rc<Request>, params: &Params<'_>) -> Result<(), String> {
    let default = params.find("default").unwrap_or(b"(none)");
    let value = Shared::of(req).value(req, params.get("var")?);
    let text = value.map_or(Cow::Borrowed(default), Cow::Owned);
    let mut out = Vec::with_capacity(text.len());
    match params.find("encoding") {
        Some(b"none") => out.extend_from_slice(&text),
        Some(b"url") => escape_uri(&text, Escape::Html, &mut out),
        encoding => {
            if let Some(unknown) = encoding.filter(|&encoding| encoding != b"entity") {
                let unknown = BStr::new(unknown);
                req.log(Level::Error, format_args!("unknown encoding \"{unknown}\" in the \"echo\" command"));
            }
            escape_html(&text, &mut out);
        }
    }
    page.put(out.into());
    Ok(())
}

fn config(page: &mut Page, req: &Rc<Request>, params: &Params<'_>) -> Result<(), String> {
    if let Some(format) = params.find("timefmt") {
        *req.context::<TimeFormat>().0.borrow_mut() = Some(format.to_vec());
    }
    if let Some(message) = params.find("errmsg") {
        page.set_error_message(message);
    }
    Ok(())
}

fn set(_: &mut Page, req: &Rc<Request>, params: &Params<'_>) -> Result<(), String> {
    let value = evaluate(req, params.get("value")?)?;
    Shared::of(req).set(params.get("var")?, value)
}

/// The target of an `include`, and whether the page waits for it: a file is waited for.
fn target_of<'c>(params: &Params<'c>) -> Result<(&'c [u8], bool), String> {
    let wait = match params.find("wait") {
        None => None,
        Some(wait) if wait.eq_ignore_ascii_case(b"yes") => Some(true),
        Some(wait) if wait.eq_ignore_ascii_case(b"no") => Some(false),
        Some(wait) => return Err(format!("invalid value \"{}\" in the \"wait\" parameter", BStr::new(wait))),
    };
    match (params.find("virtual"), params.find("file")) {
        (Some(path), Some(file)) => {
            let (path, file) = (BStr::new(path), BStr::new(file));
            Err(format!("inclusion may be either virtual=\"{path}\" or file=\"{file}\""))
        }
        (None, None) => Err("no parameter in \"include\" SSI command".to_owned()),
        (None, Some(file)) if wait.is_some() => {
            Err(format!("\"wait\" cannot be used with file=\"{}\"", BStr::new(file)))
        }
        (None, Some(file)) => Ok((file, true)),
        (Some(path), None) => Ok((path, wait == Some(true))),
    }
}

fn include(page: &mut Page, req: &Rc<Request>, params: &Params<'_>) -> Result<(), String> {
    let (target, is_waited_for) = target_of(params)?;
    let (variable, stub) = (params.find("set"), params.find("stub"));
    if variable.is_some() && stub.is_some() {
        return Err("\"set\" and \"stub\" cannot be used together in \"include\" SSI command".to_owned());
    }
    let mut uri = evaluate(req, target)?;
    if !uri.starts_with(b"/") {
        uri = beside(&req.uri.borrow().path, &uri);
    }
    let Some((path, args)) = parse_target(&uri) else {
        return Err(format!("unsafe URI \"{}\" was detected", BStr::new(&uri)));
    };
    let shared = Shared::of(req);
    let stub = match stub {
        None => None,
        Some(name) => match shared.block(name) {
            Some(block) => Some(block),
            None => return Err(format!("\"stub\"=\"{}\" for \"include\" not found", BStr::new(name))),
        },
    };
    shared.count_subrequest()?;
    let options = Options {
        capture: variable.is_some(),
        postpone: variable.is_none(),
        bare_status: stub.is_some(),
        ..Options::default()
    };
    let sub =
        Subrequest::new(req, &path, &args, options).map_err(|error| format!("{error} \"{}\"", BStr::new(&uri)))?;
    sub.req.body.share(&req.body);
    let running = sub.spawn();
    match variable {
        Some(variable) => {
            shared.set(variable, shared.get(variable).unwrap_or_default())?;
            page.capture(Capture { sub, running, variable: variable.to_vec() });
        }
        None => page.include(Include { sub, running, stub, is_waited_for, ahead: shared.go_ahead() }),
    }
    Ok(())
}

/// A relative `target` in the directory of `path`.
fn beside(path: &[u8], target: &[u8]) -> Vec<u8> {
    let directory_len = memchr::memrchr(b'/', path).map_or(0, |at| at + 1);
    [&path[..directory_len], target].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_targets() {
        assert_eq!(beside(b"/a/b.html", b"c.html?x"), b"/a/c.html?x");
        assert_eq!(beside(b"/", b""), b"/");
        assert_eq!(beside(b"", b"x"), b"x");
    }
}
