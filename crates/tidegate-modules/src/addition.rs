//! `add_before_body` and `add_after_body`: what other locations say goes around a response.
//!
//! Source: nginx, `ngx_http_addition_filter_module`.

use std::{cell::Cell, rc::Rc, sync::Arc};

use bstr::BString;
use bytes::Bytes;
use tidegate_core::{
    inherit,
    module::{Directive, Module},
    output::{Buf, Chunk, Closed},
    phase::Ready,
    request::Request,
    subrequest::{Options, Subrequest},
};
use tidegate_net::log::Level;

use crate::mime_types::MimeTypes;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    add_before_body: Option<BString>,
    add_after_body: Option<BString>,
    addition_types: Option<Arc<MimeTypes>>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::text("add_before_body", |c: &mut Conf| &mut c.add_before_body)
            .syntax("uri")
            .doc("The response of this location goes before the body."),
        Directive::text("add_after_body", |c: &mut Conf| &mut c.add_after_body)
            .syntax("uri")
            .doc("The response of this location goes behind the body."),
        Directive::custom("addition_types", 1, u16::MAX, |conf: &mut Conf, directive, build| {
            MimeTypes::add(&mut conf.addition_types, &["text/html"], directive, build)
        })
        .syntax("mime-type ...")
        .default("text/html")
        .doc("Media types that get additions, beside text/html; * for all."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; add_before_body, add_after_body, addition_types);
    },
    install: |conf, program| {
        let is_set = |uri: &Option<BString>| uri.as_ref().is_some_and(|uri| !uri.is_empty());
        if is_set(&conf.add_before_body) || is_set(&conf.add_after_body) {
            let types = conf.addition_types.clone();
            let types = types.unwrap_or_else(|| Arc::new(MimeTypes::of(&["text/html"])));
            program.header_filter(move |req| filter_header(req, &types));
            let conf = conf.clone();
            program.body_filter(move |req, chunk| filter_body(req, chunk, &conf));
        }
    },
    example: "
        location / {
            add_before_body /header.html;
            add_after_body /footer.html;
        }
    ",
    ..Module::named("addition")
};

/// How far the additions of a response are.
#[derive(Debug, Default)]
struct Addition {
    active: Cell<bool>,
    begun: Cell<bool>,
}

fn filter_header(req: &Rc<Request>, types: &MimeTypes) -> Ready<Result<(), Closed>> {
    let mut response = req.response.borrow_mut();
    if response.status == 200 && !req.is_subrequest() && types.contains(&response) {
        req.context::<Addition>().active.set(true);
        response.body_is_changed();
    }
    Ready::Now(Ok(()))
}

fn filter_body(req: &Rc<Request>, chunk: Chunk, conf: &Arc<Conf>) -> Ready<Result<Chunk, Closed>> {
    let Some(addition) = req.find_context::<Addition>().filter(|addition| addition.active.get()) else {
        return Ready::Now(Ok(chunk));
    };
    let before = conf.add_before_body.clone().filter(|_| !addition.begun.replace(true));
    let after = conf.add_after_body.clone().filter(|_| chunk.last);
    if chunk.last {
        addition.active.set(false);
    }
    if before.is_none() && after.is_none() {
        return Ready::Now(Ok(chunk));
    }
    let req = req.clone();
    Ready::later(async move {
        let mut chunk = chunk;
        if let Some(uri) = before.filter(|uri| !uri.is_empty()) {
            let body = fetch(&req, &uri).await?;
            chunk.bufs.insert(0, Buf::Bytes(body));
        }
        if let Some(uri) = after.filter(|uri| !uri.is_empty()) {
            chunk.bufs.push(Buf::Bytes(fetch(&req, &uri).await?));
        }
        Ok(chunk)
    })
}

/// Fetches the response of another location.
async fn fetch(req: &Rc<Request>, uri: &[u8]) -> Result<Bytes, Closed> {
    let (path, args) = tidegate_http::uri::split_args(uri);
    let options = Options { capture: true, ..Options::default() };
    let subrequest = Subrequest::new(req, path, args, options).map_err(|error| {
        req.log(Level::Error, format_args!("{error} \"{}\"", bstr::BStr::new(uri)));
        Closed
    })?;
    subrequest.run().await;
    subrequest.take_body()
}
