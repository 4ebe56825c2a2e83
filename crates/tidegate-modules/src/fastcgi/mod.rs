//! `fastcgi`: passes requests to FastCGI applications, such as PHP's process manager.
//!
//! The way to the application and back is the engine of [`tidegate_core::upstream`]; records are
//! [`tidegate_http::fastcgi`]. Here stand the directives and the [`protocol`] between the two.
//!
//! Follows nginx's `ngx_http_fastcgi_module`.

mod protocol;

use std::{ops::Range, rc::Rc, sync::Arc};

use bstr::BString;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Outcome, Program, Ready},
    regex::{Regex, RegexOptions},
    request::Request,
    upstream::{Settings, UpstreamConf, directives::fill, failure::Failures},
    upstream_directives,
    variable::VariableDef,
};
use tidegate_http::fastcgi::AfterRequest;

use self::protocol::{Encoding, FastCgi};
use crate::{
    cgi::{
        self,
        params::{self, ParamList, Params},
    },
    pass::{self, Pass, Schemes},
};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    upstream: UpstreamConf,
    pass: Option<Pass>,
    /// The path of the location ends with a slash: without it, requests are redirected to add it.
    adds_slash: bool,
    params: ParamList,
    index: Option<BString>,
    split_path_info: Option<Arc<Regex>>,
    catch_stderr: Option<Arc<Vec<BString>>>,
    keep_conn: Option<bool>,
}

/// Directory of temporary files, unless `fastcgi_temp_path` names another.
const TEMP_PATH: &str = "fastcgi_temp";

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: upstream_directives!("fastcgi", Conf, upstream;
        sockets, aborts,
        retries(Failures::CGI_WORDS, "error | timeout | invalid_header | http_500 | ... | non_idempotent | off ..."),
        requests, responses, headers, store,
        cache(Failures::CGI_WORDS, "error | timeout | invalid_header | updating | http_500 | ... | off ...",
            crate::sql_versions::cache_tables),
        lowat;
        Directive::custom("fastcgi_pass", 1, 1, fastcgi_pass)
            .within(Context::LOCATION.or(Context::LOCATION_IF))
            .syntax("address")
            .doc("Passes requests to a FastCGI server."),
        Directive::custom("fastcgi_param", 2, 3, |conf: &mut Conf, d, build| params::parse(&mut conf.params, d, build))
            .syntax("parameter value [if_not_empty]")
            .doc("A parameter of requests to FastCGI servers."),
        Directive::text("fastcgi_index", |c: &mut Conf| &mut c.index)
            .doc("File that $fastcgi_script_name names where the path ends with a slash."),
        Directive::custom("fastcgi_split_path_info", 1, 1, split_path_info)
            .within(Context::ALL)
            .syntax("regex")
            .doc("Splits the path into $fastcgi_script_name and $fastcgi_path_info, its two groups."),
        Directive::custom("fastcgi_catch_stderr", 1, 1, |conf: &mut Conf, d, _| {
            Arc::make_mut(conf.catch_stderr.get_or_insert_default()).push(d.args[0].value.clone());
            Ok(())
        })
        .syntax("string")
        .doc("A response is invalid when the FastCGI server wrote this to its error stream ahead of it."),
        Directive::flag("fastcgi_keep_conn", |c: &mut Conf| &mut c.keep_conn)
            .default("off")
            .doc("FastCGI servers are told to keep connections open."),
    ),
    variables: &[
        VariableDef::new(
            "fastcgi_script_name",
            |req, _, out| {
                with_path(req, |path, script, _, index| {
                    out.extend_from_slice(&path[script]);
                    if out.ends_with(b"/") {
                        out.extend_from_slice(index);
                    }
                })
            },
            "Path of the script, with fastcgi_index behind a slash.",
        ),
        VariableDef::new(
            "fastcgi_path_info",
            |req, _, out| with_path(req, |path, _, info, _| out.extend_from_slice(&path[info])),
            "What fastcgi_split_path_info finds behind the script.",
        ),
    ],
    inherit: |child, parent, kind| {
        child.upstream.inherit(&parent.upstream);
        inherit!(child, parent; params, index, split_path_info, catch_stderr, keep_conn);
        if kind.is_unnamed() {
            inherit!(child, parent; pass);
        }
    },
    finish: Some(|conf, build| {
        if conf.upstream.temp_path.is_none() {
            build.temp_path(TEMP_PATH.as_bytes());
        }
        Ok(())
    }),
    check: Some(|conf, _, diagnostics| {
        if conf.pass.is_some() {
            conf.upstream.check_cache_key("fastcgi", diagnostics);
        }
    }),
    install,
    example: "
        location ~ \\.php$ {
            fastcgi_pass unix:/run/php/php-fpm.sock;
            fastcgi_index index.php;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param HTTPS $https if_not_empty;
        }
    ",
    ..Module::named("fastcgi")
};

fn fastcgi_pass(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.adds_slash = pass::adds_slash(build);
    let pass = Pass::parse(&directive.args[0], build, Schemes::default())?;
    fill(&mut conf.pass, pass, directive)
}

fn split_path_info(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let emerg = |message| Diagnostic::new(Severity::Emerg, arg.span, message);
    let regex = Regex::new(&arg.value, RegexOptions::NONE).map_err(|error| emerg(error.to_string()))?;
    if regex.group_count() != 2 {
        return Err(emerg(format!("pattern \"{}\" must have 2 captures", arg.value)));
    }
    fill(&mut conf.split_path_info, Arc::new(regex), directive)
}

/// Gives the request's path, where script and path info lie in it, and `fastcgi_index`.
fn with_path(req: &Request, write: impl FnOnce(&[u8], Range<usize>, Range<usize>, &[u8])) -> bool {
    let conf = req.module_conf(&MODULE);
    let path = &req.uri.borrow().path;
    let whole = (0..path.len(), 0..0);
    let (script, info) = conf.split_path_info.as_ref().map_or(whole.clone(), |regex| match regex.captures(path) {
        Ok(Some(captures)) => {
            let group =
                |index: usize| captures.groups.get(index).copied().flatten().map_or(0..0, |(from, to)| from..to);
            (group(1), group(2))
        }
        _ => whole,
    });
    write(path, script, info, conf.index.as_ref().map_or(&[], |index| index));
    true
}

/// All that a location's requests need, made once.
struct Location {
    settings: Settings,
    pass: Pass,
    params: Params<Encoding>,
    after: AfterRequest,
    catch_stderr: Vec<BString>,
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    let Some(pass) = &conf.pass else { return };
    let location = Arc::new(Location {
        settings: conf.upstream.settings(cgi::HIDDEN, TEMP_PATH),
        pass: pass.clone(),
        params: Params::new(&conf.params),
        after: if conf.keep_conn == Some(true) { AfterRequest::Keep } else { AfterRequest::Close },
        catch_stderr: conf.catch_stderr.as_deref().cloned().unwrap_or_default(),
    });
    program.auto_redirect |= conf.adds_slash;
    program.content(move |req| handle(&location, req));
}

fn handle(location: &Arc<Location>, req: &Rc<Request>) -> Outcome {
    let (location, req) = (location.clone(), req.clone());
    Ready::later(async move {
        let protocol = FastCgi::new(&location, req.is_head());
        cgi::run(&req, &location.settings, &location.pass, true, protocol).await
    })
}
