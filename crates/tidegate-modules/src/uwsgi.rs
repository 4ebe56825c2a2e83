//! `uwsgi`: passes requests to uwsgi servers.
//!
//! ```text
//! 0           1 - 2                   3           4
//! modifier1   size of parameters      modifier2   name length (2), name, value length (2), value, …
//! ```
//!
//! All numbers are little-endian; the body follows as it is. Follows nginx's `ngx_http_uwsgi_module`, without its cache,
//! and the uwsgi protocol's documentation.

use std::{rc::Rc, sync::Arc};

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Outcome, Program, Ready, Step},
    request::Request,
    upstream::{Settings, UpstreamConf, directives::fill, failure::Failures},
    upstream_directives,
};
use tidegate_net::log::Level;

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
    modifier1: Option<u64>,
    modifier2: Option<u64>,
}

/// Directory of temporary files, unless `uwsgi_temp_path` names another.
const TEMP_PATH: &str = "uwsgi_temp";

const SCHEME: &str = "uwsgi://";
const TLS_SCHEME: &str = "suwsgi://";

/// Size of what is ahead of the parameters.
const HEADER_BYTES: usize = 4;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: upstream_directives!("uwsgi", Conf, upstream;
        sockets, aborts,
        retries(Failures::CGI_WORDS, "error | timeout | invalid_header | http_500 | ... | non_idempotent | off ..."),
        requests, responses, headers, store,
        cache(Failures::CGI_WORDS, "error | timeout | invalid_header | updating | http_500 | ... | off ...",
            crate::sql_versions::cache_tables),
        tls;
        Directive::custom("uwsgi_pass", 1, 1, uwsgi_pass)
            .within(Context::LOCATION.or(Context::LOCATION_IF))
            .syntax("address")
            .doc("Passes requests to a uwsgi server."),
        Directive::custom("uwsgi_param", 2, 3, |conf: &mut Conf, d, build| params::parse(&mut conf.params, d, build))
            .syntax("parameter value [if_not_empty]")
            .doc("A parameter of requests to uwsgi servers."),
        Directive::custom("uwsgi_modifier1", 1, 1, |conf: &mut Conf, d, _| modifier(&mut conf.modifier1, d))
            .syntax("number")
            .default("0")
            .doc("First modifier of requests, which names a plugin of the server."),
        Directive::custom("uwsgi_modifier2", 1, 1, |conf: &mut Conf, d, _| modifier(&mut conf.modifier2, d))
            .syntax("number")
            .default("0")
            .doc("Second modifier of requests, whose meaning is the plugin's."),
    ),
    inherit: |child, parent, kind| {
        child.upstream.inherit(&parent.upstream);
        inherit!(child, parent; params, modifier1, modifier2);
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
    check: Some(|conf, checked, diagnostics| {
        if conf.pass.as_ref().is_some_and(Pass::may_need_tls) {
            conf.upstream.tls.load(checked.config, "uwsgi", diagnostics);
        }
        if conf.pass.is_some() {
            conf.upstream.check_cache_key("uwsgi", diagnostics);
        }
    }),
    install,
    example: "
        location /app/ {
            uwsgi_pass 127.0.0.1:3031;
            uwsgi_param REQUEST_METHOD $request_method;
            uwsgi_param REQUEST_URI $request_uri;
            uwsgi_param QUERY_STRING $query_string;
            uwsgi_param CONTENT_LENGTH $content_length;
        }
    ",
    ..Module::named("uwsgi")
};

fn uwsgi_pass(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.adds_slash = pass::adds_slash(build);
    let arg = &directive.args[0];
    let pass = Pass::parse(arg, build, Schemes { plain: SCHEME, tls: Some(TLS_SCHEME) })?;
    fill(&mut conf.pass, pass, directive)
}

fn modifier(field: &mut Option<u64>, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let number = values::integer(arg.value.as_bstr()).map_err(|error| error.diagnostic(directive.name(), arg))?;
    if number > u64::from(u8::MAX) {
        let message = "value must be between 0 and 255".to_owned();
        return Err(Diagnostic::new(Severity::Emerg, arg.span, message));
    }
    fill(field, number, directive)
}

/// All that a location's requests need, made once.
struct Location {
    settings: Settings,
    pass: Pass,
    params: Params<Encoding>,
    modifiers: [u8; 2],
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    let Some(pass) = &conf.pass else { return };
    let location = Arc::new(Location {
        settings: conf.upstream.settings(cgi::HIDDEN, TEMP_PATH),
        pass: pass.clone(),
        params: Params::new(&conf.params),
        modifiers: [conf.modifier1, conf.modifier2].map(|number| number.map_or(0, |number| number as u8)),
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

/// Parameters as uwsgi writes them.
struct Encoding;

impl Encode for Encoding {
    fn write_param(name: &[u8], out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        // Longer ones make the request too large, which is found out when it is complete.
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(name);
        let start = out.len() + 2;
        out.extend_from_slice(&[0, 0]);
        write(out);
        let value_bytes = out.len() - start;
        out[start - 2..start].copy_from_slice(&(value_bytes as u16).to_le_bytes());
        value_bytes
    }
}

impl Head for Location {
    const SCHEME: &'static str = SCHEME;
    const TLS_SCHEME: &'static str = TLS_SCHEME;

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn write(&self, req: &Rc<Request>, _: u64, out: &mut Vec<u8>) -> Result<(), Step> {
        let [modifier1, modifier2] = self.modifiers;
        out.extend_from_slice(&[modifier1, 0, 0, modifier2]);
        let start = out.len();
        self.params.write(req, self.settings.pass_request_headers, out);
        let Ok(size) = u16::try_from(out.len() - start) else {
            let size = out.len() - start;
            req.log(Level::Error, format_args!("uwsgi request is too big: {size}"));
            return Err(Step::Status(500));
        };
        out[start - HEADER_BYTES + 1..start - 1].copy_from_slice(&size.to_le_bytes());
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
        assert_eq!(out, b"\x01\0A\x02\0bc");
        out.clear();
        assert_eq!(Encoding::write_param(b"", &mut out, |out| out.resize(out.len() + 300, b'x')), 300);
        assert_eq!(out[..5], [0, 0, 44, 1, b'x']);
    }
}
