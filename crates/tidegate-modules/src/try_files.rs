//! `try_files`: the first file that is there answers, or the last argument.
//!
//! Source: nginx, `ngx_http_try_files_module`.

use std::{rc::Rc, sync::Arc};

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::Build,
    main_conf::duplicate,
    module::{Context, Directive, Module},
    phase::{Phase, Ready, Step},
    request::Request,
    static_files::{open::Want, path::Mapping},
    template::Template,
};
use tidegate_http::uri::split_args;
use tidegate_net::log::Level;

/// A file or directory to look for.
#[derive(Debug)]
struct Candidate {
    name: Template,
    is_directory: bool,
}

/// What answers when no file is there.
#[derive(Debug)]
enum Fallback {
    Status(u16),
    /// A path, or a named location.
    Uri(Template),
}

#[derive(Debug)]
struct TryFiles {
    candidates: Vec<Candidate>,
    fallback: Fallback,
}

/// What the directive says at one level; inner levels do not inherit it.
#[derive(Debug, Default)]
pub struct Conf {
    try_files: Option<Arc<TryFiles>>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::custom("try_files", 2, u16::MAX, try_files)
        .within(Context::SERVER.or(Context::LOCATION))
        .syntax("file ... uri | file ... =code")
        .doc("The first file that exists answers; if there is none, the last argument names a URI, a named location or a status.")],
    install: |conf, program| {
        // An `if` that applies takes the place of its location, where nobody said try_files.
        if let Some(try_files) = conf.try_files.clone().filter(|_| !program.kind().is_unnamed()) {
            program.on(Phase::Precontent, move |req| {
                req.with_files(&try_files, |req, conf| Ready::Now(handle(req, conf)))
            });
        }
    },
    example: "
        location / { try_files $uri $uri/ /index.html; }
    ",
    ..Module::named("try_files")
};

fn try_files(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.try_files.is_some() {
        return Err(duplicate(directive));
    }
    let (last, files) = directive.args.split_last().expect("try_files has at least two arguments");
    let fallback = match last.value.strip_prefix(b"=") {
        None => Fallback::Uri(build.template(last)?),
        Some(code) => {
            let status = values::integer(code.as_bstr()).ok().and_then(|code| u16::try_from(code).ok());
            let invalid = || Diagnostic::new(Severity::Emerg, last.span, format!("invalid code \"{}\"", last.value));
            Fallback::Status(status.filter(|&code| code <= 999).ok_or_else(invalid)?)
        }
    };
    let mut candidates = Vec::new();
    for arg in files {
        let name = arg.value.strip_suffix(b"/");
        let is_directory = name.is_some();
        let name = build.template_at(name.unwrap_or(&arg.value).as_bstr(), arg.span)?;
        candidates.push(Candidate { name, is_directory });
    }
    conf.try_files = Some(Arc::new(TryFiles { candidates, fallback }));
    Ok(())
}

fn handle(req: &Rc<Request>, conf: &TryFiles) -> Step {
    let mut path = Vec::new();
    let Some(root_len) = req.map_uri_to_path(&mut path) else { return Step::Status(500) };
    let mapping = req.files_conf().root.as_ref().map_or(Mapping::Root, |root| root.mapping());
    for candidate in &conf.candidates {
        path.truncate(root_len);
        candidate.name.write(req, &mut path);
        if let Mapping::Alias { skip } = mapping
            && candidate.name.as_literal().is_none()
            && starts_like_uri(req, &path[root_len..], skip)
        {
            path.drain(root_len..root_len + skip);
        }
        match req.look_up(&path, Want::Info) {
            Ok(found) if found.is_directory() == candidate.is_directory => {
                choose(req, &path[root_len..], mapping, candidate.is_directory);
                return Step::Declined;
            }
            Ok(_) => {}
            Err(failure) if failure.is_not_found() => {}
            Err(failure) if failure.is_cold() => return Step::Declined,
            Err(failure) => failure.log_at(req, &path, Level::Crit),
        }
    }
    match &conf.fallback {
        Fallback::Status(status) => Step::Status(*status),
        Fallback::Uri(uri) => {
            let uri = uri.eval(req);
            redirect(req, &uri)
        }
    }
}

/// Whether a name begins with the prefix that `alias` stands for.
fn starts_like_uri(req: &Request, name: &[u8], skip: usize) -> bool {
    req.uri.borrow().path.get(..skip).is_some_and(|prefix| name.starts_with(prefix))
}

/// Makes the file that was found the request's path, below root or alias.
fn choose(req: &Request, name: &[u8], mapping: Mapping, is_directory: bool) {
    let mut uri = req.uri.borrow_mut();
    match mapping {
        Mapping::Root => uri.path.clear(),
        Mapping::Alias { skip } => uri.path.truncate(skip),
        Mapping::Whole if is_directory => return,
        Mapping::Whole => {
            uri.path.clear();
            req.flags().add_uri_to_alias.set(true);
        }
    }
    uri.path.extend_from_slice(name);
}

fn redirect(req: &Rc<Request>, uri: &[u8]) -> Step {
    if uri.starts_with(b"@") {
        if req.redirect_to_named(uri) {
            return Step::Redirected;
        }
        req.log(Level::Error, format_args!("could not find named location \"{}\"", uri.as_bstr()));
        return Step::Status(500);
    }
    let (path, args) = split_args(uri);
    req.redirect_internally(path, Some(args));
    Step::Redirected
}
