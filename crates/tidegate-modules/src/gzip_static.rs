//! `gzip_static`: sends `file.gz` for `file` to clients that accept it.
//!
//! Source: nginx, `ngx_http_gzip_static_module`.

use std::{rc::Rc, sync::Arc};

use bstr::BStr;
use tidegate_core::{
    inherit,
    module::{Directive, Module},
    phase::{Outcome, Phase, Ready, Step},
    request::Request,
    static_files::open::Want,
};
use tidegate_http::{Known, Method};
use tidegate_net::log::Level;

use crate::{
    gzip,
    r#static::{prepare, send_file},
};

const ON: u32 = 1;
const ALWAYS: u32 = 2;

/// What the directive says at one level.
#[derive(Debug, Default)]
pub struct Conf {
    gzip_static: Option<u32>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::choice(
        "gzip_static",
        |c: &mut Conf| &mut c.gzip_static,
        &[("off", 0), ("on", ON), ("always", ALWAYS)],
    )
    .syntax("on | off | always")
    .default("off")
    .doc("Sends the compressed file that stands beside the one that was asked for.")],
    inherit: |child, parent, _| inherit!(child, parent; gzip_static),
    install: |conf, program| {
        if let Some(ON | ALWAYS) = conf.gzip_static {
            let conf = conf.clone();
            program.on(Phase::Content, move |req| req.with_files(&conf, handle));
        }
    },
    example: "
        location /assets/ { gzip_static on; }
    ",
    ..Module::named("gzip_static")
};

fn handle(req: &Rc<Request>, conf: &Arc<Conf>) -> Outcome {
    if !matches!(req.method.get(), Method::Get | Method::Head) || req.uri.borrow().path.ends_with(b"/") {
        return Ready::Now(Step::Declined);
    }
    let is_on = conf.gzip_static == Some(ON);
    let accepts = !is_on || gzip::accepts_gzip(req, &req.response.borrow());
    if !accepts && req.module_conf(&gzip::MODULE).gzip_vary() != Some(true) {
        return Ready::Now(Step::Declined);
    }
    let mut path = Vec::new();
    if req.map_uri_to_path(&mut path).is_none() {
        return Ready::Now(Step::Status(500));
    }
    path.extend_from_slice(b".gz");
    let file = match req.look_up(&path, Want::Content) {
        Ok(file) => file,
        Err(failure) if failure.is_cold() => return Ready::Now(Step::Declined),
        Err(failure) => {
            if !failure.is_not_found() {
                failure.log(req, &path);
            }
            return Ready::Now(Step::Declined);
        }
    };
    if is_on {
        gzip::vary(req, &mut req.response.borrow_mut());
    }
    if !accepts || file.is_directory() {
        return Ready::Now(Step::Declined);
    }
    if !file.is_file() {
        req.log(Level::Crit, format_args!("\"{}\" is not a regular file", BStr::new(&path)));
        return Ready::Now(Step::Status(404));
    }
    prepare(req, &file);
    {
        let mut response = req.response.borrow_mut();
        response.fields.set_known(Known::ContentEncoding, b"gzip");
        response.allow_ranges = true;
    }
    send_file(req, &file)
}
