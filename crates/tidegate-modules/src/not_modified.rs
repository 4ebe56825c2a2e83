//! Conditional requests: 304 for what the client has, 412 for what is not what it expects.
//!
//! Source: nginx, `ngx_http_not_modified_filter_module`; RFC 9110, section 13.

use std::{rc::Rc, sync::Arc};

use tidegate_core::{
    inherit,
    module::{Directive, Module},
    output::Closed,
    phase::Ready,
    request::Request,
};
use tidegate_http::{
    Known,
    conditional::{Conditions, IfModifiedSince, Verdict},
};

/// What the directive says at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// `if_modified_since`
    pub if_modified_since: Option<u32>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::choice(
        "if_modified_since",
        |c: &mut Conf| &mut c.if_modified_since,
        &[("off", 0), ("exact", 1), ("before", 2)],
    )
    .syntax("off | exact | before")
    .default("exact")
    .doc("Comparison of the response's time with If-Modified-Since: exact, before or off.")],
    inherit: |child, parent, _| inherit!(child, parent; if_modified_since),
    install: |conf, program| {
        let conf = conf.clone();
        program.header_filter(move |req| filter(req, &conf));
    },
    example: "
        location /exact/ { if_modified_since before; }
    ",
    ..Module::named("not_modified")
};

fn filter(req: &Rc<Request>, conf: &Arc<Conf>) -> Ready<Result<(), Closed>> {
    let mut response = req.response.borrow_mut();
    if response.status != 200 || req.is_subrequest() || response.conditions_are_tested {
        return Ready::Now(Ok(()));
    }
    let verdict = {
        let head = req.head.borrow();
        if !Conditions::stand_in(&head.fields) {
            return Ready::Now(Ok(()));
        }
        let rule = match conf.if_modified_since {
            Some(0) => IfModifiedSince::Off,
            Some(2) => IfModifiedSince::Before,
            _ => IfModifiedSince::Exact,
        };
        Conditions::of(&head.fields).test(response.fields.get(Known::ETag), response.modified(), rule)
    };
    match verdict {
        Verdict::Send => {}
        Verdict::PreconditionFailed => {
            drop(response);
            return req.finalize_from_filter(412);
        }
        Verdict::NotModified => {
            response.status = 304;
            response.status_line.clear();
            response.header_only = true;
            response.content_type.clear();
            response.content_length = None;
            response.allow_ranges = false;
            response.fields.remove(Known::AcceptRanges);
            response.fields.remove(Known::ContentEncoding);
        }
    }
    Ready::Now(Ok(()))
}
