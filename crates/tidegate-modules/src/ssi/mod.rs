//! `ssi`: pages with commands (server-side includes).
//!
//! | file | what it does |
//! | --- | --- |
//! | [`tidegate_http::ssi`] | finds commands in text, however it is cut |
//! | `page` | a page on its way through the filter: its text, branches, blocks and includes, in order |
//! | `command` | what each command does |
//! | `evaluate` | variables in texts, conditions |
//!
//! The text of a page goes on as it comes until there is an include. Its sub-request then runs beside the rest of the page,
//! whose own includes start as the page arrives; a task (`page::pump`) puts all of it out in order. An include with `wait`
//! or `set` holds up the page behind it.
//!
//! Blocks, variables and groups of matches belong to the main request; `config` belongs to the page.
//!
//! Differences from nginx: `if` nests; after an error in a condition the branch is skipped; a page that ends with the
//! beginning of a command keeps these bytes; the text of a stub always passes the filter of the sub-request's location.
//!
//! Source: nginx, `ngx_http_ssi_filter_module`.

mod command;
mod evaluate;
mod page;

use std::{cell::RefCell, rc::Rc, sync::Arc};

use tidegate_core::{
    inherit,
    module::{Context, Directive, Module},
    output::{Chunk, Closed},
    phase::Ready,
    request::Request,
    variable::VariableDef,
};
use tidegate_http::Known;

use self::page::{Page, Ssi};
use crate::{
    mime_types::MimeTypes,
    strftime::{self, Zone},
};

/// The format of dates that a page does not choose.
///
/// Source: nginx, `ngx_http_ssi_timefmt`.
const TIME_FORMAT: &[u8] = b"%A, %d-%b-%Y %H:%M:%S %Z";

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    ssi: Option<bool>,
    ssi_silent_errors: Option<bool>,
    ssi_ignore_recycled_buffers: Option<bool>,
    ssi_last_modified: Option<bool>,
    ssi_min_file_chunk: Option<usize>,
    ssi_value_length: Option<usize>,
    ssi_types: Option<Arc<MimeTypes>>,
    subrequest_output_buffer_size: Option<u64>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::flag("ssi", |c: &mut Conf| &mut c.ssi)
            .within(Context::ALL_IF)
            .default("off")
            .doc("Carries out the commands in responses (server-side includes)."),
        Directive::flag("ssi_silent_errors", |c: &mut Conf| &mut c.ssi_silent_errors)
            .default("off")
            .doc("Says nothing in the page where a command fails."),
        Directive::flag("ssi_ignore_recycled_buffers", |c: &mut Conf| &mut c.ssi_ignore_recycled_buffers)
            .default("off")
            .doc("Accepted: buffers are not recycled while somebody uses them."),
        Directive::flag("ssi_last_modified", |c: &mut Conf| &mut c.ssi_last_modified)
            .default("off")
            .doc("Keeps Last-Modified and a weak ETag of pages with commands."),
        Directive::size("ssi_min_file_chunk", |c: &mut Conf| &mut c.ssi_min_file_chunk)
            .default("1k")
            .doc("Accepted: text of pages goes out of memory, whole files that are included by sendfile."),
        Directive::size("ssi_value_length", |c: &mut Conf| &mut c.ssi_value_length)
            .default("256")
            .doc("Values of parameters in commands are shorter than this."),
        Directive::custom("ssi_types", 1, u16::MAX, |conf: &mut Conf, directive, build| {
            MimeTypes::add(&mut conf.ssi_types, &["text/html"], directive, build)
        })
        .syntax("mime-type ...")
        .default("text/html")
        .doc("Media types that are searched for commands, beside text/html; * for all."),
        Directive::offset("subrequest_output_buffer_size", |c: &mut Conf| &mut c.subrequest_output_buffer_size)
            .default("subrequest_capture_max")
            .doc("Size of a response of this location that a page makes the value of a variable."),
    ],
    variables: &[
        VariableDef::new(
            "date_local",
            |req, _, out| date(req, Zone::Local, out),
            "Local date and time, as `config timefmt` says.",
        ),
        VariableDef::new("date_gmt", |req, _, out| date(req, Zone::Gmt, out), "The same in GMT."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; ssi, ssi_silent_errors, ssi_ignore_recycled_buffers, ssi_last_modified,
            ssi_min_file_chunk, ssi_value_length, ssi_types, subrequest_output_buffer_size);
    },
    install: |conf, program| {
        if conf.ssi == Some(true) {
            let types = conf.ssi_types.clone();
            let types = types.unwrap_or_else(|| Arc::new(MimeTypes::of(&["text/html"])));
            let conf = conf.clone();
            program.header_filter(move |req| filter_header(req, &conf, &types));
            program.body_filter(filter_body);
        }
    },
    example: "
        location / {
            ssi on;
            ssi_types application/xhtml+xml;
        }
    ",
    ..Module::named("ssi")
};

/// What a page's `config timefmt` says; the format of variables outside of pages is the default one.
#[derive(Debug, Default)]
struct TimeFormat(RefCell<Option<Vec<u8>>>);

fn date(req: &Request, zone: Zone, out: &mut Vec<u8>) -> bool {
    let chosen = req.find_context::<TimeFormat>().and_then(|format| format.0.borrow().clone());
    match strftime::formatted(chosen.as_deref().unwrap_or(TIME_FORMAT), zone) {
        Some(text) => {
            out.extend_from_slice(&text);
            true
        }
        None => false,
    }
}

fn filter_header(req: &Rc<Request>, conf: &Conf, types: &MimeTypes) -> Ready<Result<(), Closed>> {
    let mut response = req.response.borrow_mut();
    if response.content_length == Some(0) || !types.contains(&response) {
        return Ready::Now(Ok(()));
    }
    if !req.is_subrequest() {
        response.body_is_changed();
        if conf.ssi_last_modified != Some(true) {
            response.last_modified = None;
            response.fields.remove(Known::LastModified);
            response.fields.remove(Known::ETag);
        }
    }
    if response.header_only {
        return Ready::Now(Ok(()));
    }
    response.filter_need_in_memory = true;
    drop(response);
    let page = Page::new(conf.ssi_value_length.unwrap_or(256), conf.ssi_silent_errors == Some(true));
    req.set_context(Rc::new(Ssi::new(page)));
    Ready::Now(Ok(()))
}

fn filter_body(req: &Rc<Request>, chunk: Chunk) -> Ready<Result<Chunk, Closed>> {
    match req.find_context::<Ssi>() {
        Some(ssi) => ssi.take(req, chunk),
        None => Ready::Now(Ok(chunk)),
    }
}
