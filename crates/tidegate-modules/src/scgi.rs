//! `scgi`: passes requests to SCGI servers.
//!
//! ```text
//! 70:CONTENT_LENGTH \0 27 \0 SCGI \0 1 \0 … ,<27 bytes>
//! ```
//!
//! Follows nginx's `ngx_http_scgi_module`, and the SCGI specification.

use std::{rc::Rc, sync::Arc};

use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Outcome, Program, Ready, Step},
    request::Request,
    upstream::{Settings, UpstreamConf, directives::fill, failure::Failures},
    upstream_directives,
};

use crate::{
    cgi::{
        self,
        params::{self, Encode, ParamList, Params},
        plain::{Head, Plain},
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
}

/// Directory of temporary files, unless `scgi_temp_path` names another.
const TEMP_PATH: &str = "scgi_temp";

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: upstream_directives!("scgi", Conf, upstream;
        sockets, aborts,
        retries(Failures::CGI_WORDS, "error | timeout | invalid_header | http_500 | ... | non_idempotent | off ..."),
        requests, responses, headers, store,
        cache(Failures::CGI_WORDS, "error | timeout | invalid_header | updating | http_500 | ... | off ...",
            crate::sql_versions::cache_tables);
        Directive::custom("scgi_pass", 1, 1, scgi_pass)
            .within(Context::LOCATION.or(Context::LOCATION_IF))
            .syntax("address")
            .doc("Passes requests to an SCGI server."),
        Directive::custom("scgi_param", 2, 3, |conf: &mut Conf, d, build| params::parse(&mut conf.params, d, build))
            .syntax("parameter value [if_not_empty]")
            .doc("A parameter of requests to SCGI servers."),
    ),
    inherit: |child, parent, kind| {
        child.upstream.inherit(&parent.upstream);
        inherit!(child, parent; params);
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
            conf.upstream.check_cache_key("scgi", diagnostics);
        }
    }),
    install,
    example: "
        location /app/ {
            scgi_pass 127.0.0.1:4000;
            scgi_param SCGI 1;
            scgi_param REQUEST_METHOD $request_method;
            scgi_param REQUEST_URI $request_uri;
            scgi_param QUERY_STRING $query_string;
        }
    ",
    ..Module::named("scgi")
};

fn scgi_pass(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.adds_slash = pass::adds_slash(build);
    let pass = Pass::parse(&directive.args[0], build, Schemes::default())?;
    fill(&mut conf.pass, pass, directive)
}

/// All that a location's requests need, made once.
struct Location {
    settings: Settings,
    pass: Pass,
    params: Params<Encoding>,
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    let Some(pass) = &conf.pass else { return };
    let location = Arc::new(Location {
        settings: conf.upstream.settings(cgi::HIDDEN, TEMP_PATH),
        pass: pass.clone(),
        params: Params::new(&conf.params),
    });
    program.auto_redirect |= conf.adds_slash;
    program.content(move |req| handle(&location, req));
}

fn handle(location: &Arc<Location>, req: &Rc<Request>) -> Outcome {
    let (location, req) = (location.clone(), req.clone());
    Ready::later(async move {
        let protocol = Plain::new(&*location, req.is_head());
        cgi::run(&req, &location.settings, &location.pass, false, protocol).await
    })
}

/// Parameters as SCGI writes them.
struct Encoding;

impl Encode for Encoding {
    fn write_param(name: &[u8], out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        out.extend_from_slice(name);
        out.push(0);
        let start = out.len();
        write(out);
        if let Some(zero) = memchr::memchr(0, &out[start..]) {
            // The server would take what follows for other parameters.
            out.truncate(start + zero);
        }
        out.push(0);
        out.len() - 1 - start
    }
}

impl Head for Location {
    const SCHEME: &'static str = "scgi://";

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn write(&self, req: &Rc<Request>, body_bytes: u64, out: &mut Vec<u8>) -> Result<(), Step> {
        let start = out.len();
        Encoding::write_param(b"CONTENT_LENGTH", out, |out| {
            out.extend_from_slice(itoa::Buffer::new().format(body_bytes).as_bytes());
        });
        self.params.write(req, self.settings.pass_request_headers, out);
        let prefix = format!("{}:", out.len() - start);
        drop(out.splice(start..start, prefix.into_bytes()));
        out.push(b',');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_parameters() {
        let mut out = Vec::new();
        assert_eq!(Encoding::write_param(b"A", &mut out, |out| out.extend_from_slice(b"bc")), 2);
        assert_eq!(Encoding::write_param(b"D", &mut out, |out| out.extend_from_slice(b"e\0f")), 1);
        assert_eq!(out, b"A\0bc\0D\0e\0");
    }
}
