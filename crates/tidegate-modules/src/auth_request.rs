//! `auth_request`: permission by the answer to a sub-request.
//!
//! Follows nginx's `ngx_http_auth_request_module`.

use std::{rc::Rc, sync::Arc};

use bstr::BString;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Directive, Module},
    phase::{Outcome, Phase, Ready, Step},
    request::Request,
    subrequest::{Options, Subrequest},
    template::Template,
    variable::VariableId,
};
use tidegate_http::Known;
use tidegate_net::log::Level;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// Empty for `off`.
    auth_request: Option<BString>,
    auth_request_set: Option<Vec<(VariableId, Template)>>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("auth_request", 1, 1, |conf: &mut Conf, directive, _| {
            let uri = &directive.args[0].value;
            let uri = if uri == "off" { BString::default() } else { uri.clone() };
            match conf.auth_request.replace(uri) {
                None => Ok(()),
                Some(_) => Err(Diagnostic::duplicate(directive.name(), directive.name.span)),
            }
        })
        .syntax("uri | off")
        .default("off")
        .doc("Permits a request if a sub-request to this path is answered with 2xx."),
        Directive::custom("auth_request_set", 2, 2, auth_request_set).syntax("$variable value").doc(
            "Sets a variable when the sub-request of auth_request was answered; the value may use $upstream_http_*.",
        ),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; auth_request, auth_request_set);
    },
    install: |conf, program| {
        if conf.auth_request.as_ref().is_some_and(|uri| !uri.is_empty()) {
            let conf = conf.clone();
            program.on(Phase::Access, move |req| conf.check(req));
        }
    },
    example: r#"
        location /private/ {
            auth_request /check;
            auth_request_set $user $upstream_http_x_user;
        }
        location = /check {
            internal;
            proxy_pass http://127.0.0.1:8081;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
        }
    "#,
    ..Module::named("auth_request")
};

fn auth_request_set(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let target = &directive.args[0];
    let name = build.variable_name(target)?;
    // Before the sub-request the variable has no value, which is worth no warning.
    let variable = build
        .variables
        .define_capture(name)
        .map_err(|_| Diagnostic::new(Severity::Emerg, target.span, format!("the duplicate \"{name}\" variable")))?;
    let value = build.template(&directive.args[1])?;
    conf.auth_request_set.get_or_insert_default().push((variable, value));
    Ok(())
}

impl Conf {
    fn check(self: &Arc<Self>, req: &Rc<Request>) -> Outcome {
        let Some(uri) = &self.auth_request else { return Ready::Now(Step::Declined) };
        let (path, args) = match memchr::memchr(b'?', uri) {
            Some(at) => (&uri[..at], &uri[at + 1..]),
            None => (&uri[..], &b""[..]),
        };
        let options = Options { discard: true, ..Options::default() };
        let sub = match Subrequest::new(req, path, args, options) {
            Ok(sub) => sub,
            Err(error) => {
                req.log(Level::Error, format_args!("{error} \"{uri}\""));
                return Ready::Now(Step::Status(500));
            }
        };
        let (conf, req) = (self.clone(), req.clone());
        Ready::later(async move {
            sub.run().await;
            conf.conclude(&req, &sub.req)
        })
    }

    fn conclude(&self, req: &Rc<Request>, sub: &Rc<Request>) -> Step {
        for (variable, value) in self.auth_request_set.iter().flatten() {
            // Whether it can be assigned was checked when it was defined.
            let _ = req.set_variable(*variable, Some(&value.eval(sub)));
        }
        let status = sub.response.borrow().status;
        match status {
            200..=299 => Step::Ok,
            403 => Step::Status(403),
            401 => {
                let challenges: Vec<Vec<u8>> = {
                    let response = sub.response.borrow();
                    response.fields.iter_known(Known::WwwAuthenticate).map(<[u8]>::to_vec).collect()
                };
                let mut response = req.response.borrow_mut();
                response.fields.remove(Known::WwwAuthenticate);
                for challenge in challenges {
                    response.fields.append_known(Known::WwwAuthenticate, &challenge);
                }
                Step::Status(401)
            }
            status => {
                req.log(Level::Error, format_args!("auth request unexpected status: {status}"));
                Step::Status(500)
            }
        }
    }
}
