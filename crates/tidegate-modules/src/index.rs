//! `index`: which file answers for a directory.
//!
//! Source: nginx, `ngx_http_index_module`.

use std::{io, rc::Rc, sync::Arc};

use bstr::BStr;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Outcome, Phase, Ready, Step},
    request::Request,
    static_files::open::{OpenFailure, Want},
    template::Template,
};
use tidegate_http::Method;
use tidegate_net::log::{Level, SysError};

/// What the directive says at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// Names, with variables.
    pub index: Option<Vec<Template>>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::custom("index", 1, u16::MAX, index)
        .within(Context::ALL)
        .syntax("file ...")
        .default("index.html")
        .doc("Files that answer for a directory; the first one that exists is used.")],
    inherit: |child, parent, _| inherit!(child, parent; index),
    finish: Some(|conf, _| {
        conf.index.get_or_insert_with(|| vec![Template::literal("index.html")]);
        Ok(())
    }),
    install: |conf, program| {
        let conf = conf.clone();
        program.on(Phase::Content, move |req| req.with_files(&conf, handle));
    },
    example: "
        index index.html index.htm;
    ",
    ..Module::named("index")
};

fn index(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    for (number, arg) in directive.args.iter().enumerate() {
        if arg.value.starts_with(b"/") && number + 1 != directive.args.len() {
            let message = "only the last index in \"index\" directive should be absolute";
            build.diagnostics.warn(arg.span, message);
        }
        if arg.value.is_empty() {
            let message = format!("index \"{}\" in \"index\" directive is invalid", arg.value);
            return Err(Diagnostic::new(Severity::Emerg, arg.span, message));
        }
        let template = build.template(arg)?;
        conf.index.get_or_insert_default().push(template);
    }
    Ok(())
}

fn handle(req: &Rc<Request>, conf: &Arc<Conf>) -> Outcome {
    if !req.uri.borrow().path.ends_with(b"/") || !matches!(req.method.get(), Method::Get | Method::Head | Method::Post)
    {
        return Ready::Now(Step::Declined);
    }
    Ready::Now(find(req, conf.index.as_deref().unwrap_or_default()))
}

fn find(req: &Request, indices: &[Template]) -> Step {
    let mut path = Vec::new();
    let mut dir_len = None;
    let mut dir_tested = false;
    for index in indices {
        let name = index.eval_cow(req);
        if name.starts_with(b"/") {
            redirect(req, &name);
            return Step::Redirected;
        }
        let dir_len = match dir_len {
            Some(len) => len,
            None if req.map_uri_to_path(&mut path).is_none() => return Step::Status(500),
            None => *dir_len.insert(path.len()),
        };
        path.truncate(dir_len);
        path.extend_from_slice(&name);
        match req.look_up(&path, Want::Info) {
            Ok(_) => {
                let uri = [&req.uri.borrow().path, &*name].concat();
                redirect(req, &uri);
                return Step::Redirected;
            }
            Err(failure) if failure.is_cold() => return Step::Declined,
            Err(OpenFailure { errno: libc::EMLINK | libc::ELOOP, .. }) => return Step::Status(403),
            Err(failure @ OpenFailure { errno: libc::ENOTDIR | libc::ENAMETOOLONG | libc::EACCES, .. }) => {
                return missing(req, &path, failure.errno);
            }
            Err(failure) => {
                if !dir_tested {
                    if let Some(step) = test_directory(req, &path, dir_len) {
                        return step;
                    }
                    dir_tested = true;
                }
                if failure.errno != libc::ENOENT {
                    failure.log(req, &path);
                    return Step::Status(500);
                }
            }
        }
    }
    Step::Declined
}

fn redirect(req: &Request, uri: &[u8]) {
    let args = req.uri.borrow().args.clone();
    req.redirect_internally(uri, Some(&args));
}

/// Whether the directory itself is there: a missing one is 404, not "forbidden".
fn test_directory(req: &Request, path: &[u8], dir_len: usize) -> Option<Step> {
    let dir = match &path[..dir_len] {
        [dir @ .., b'/'] if !dir.is_empty() => dir,
        dir => dir,
    };
    match req.look_up(dir, Want::Info) {
        Ok(found) if found.is_directory() => None,
        Err(failure) if failure.is_cold() => Some(Step::Declined),
        Ok(_) => {
            req.log(Level::Alert, format_args!("\"{}\" is not a directory", BStr::new(dir)));
            Some(Step::Status(500))
        }
        Err(OpenFailure { errno: libc::EMLINK | libc::ELOOP, .. }) => Some(Step::Status(403)),
        Err(OpenFailure { errno: libc::ENOENT, .. }) => Some(missing(req, path, libc::ENOENT)),
        // The first index file was looked for without this error, so the directory may be searched.
        Err(OpenFailure { errno: libc::EACCES, .. }) => None,
        Err(failure) => {
            failure.log(req, dir);
            Some(Step::Status(500))
        }
    }
}

fn missing(req: &Request, path: &[u8], errno: i32) -> Step {
    let error = io::Error::from_raw_os_error(errno);
    let (path, error) = (BStr::new(path), SysError(&error));
    if errno == libc::EACCES {
        req.log(Level::Error, format_args!("\"{path}\" is forbidden {error}"));
        return Step::Status(403);
    }
    if req.http_conf().log_not_found != Some(false) {
        req.log(Level::Error, format_args!("\"{path}\" is not found {error}"));
    }
    Step::Status(404)
}
