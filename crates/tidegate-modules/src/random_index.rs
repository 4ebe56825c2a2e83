//! `random_index`: any file of a directory answers for it.
//!
//! Source: nginx, `ngx_http_random_index_module`.

use std::{
    hash::{BuildHasher, Hasher},
    rc::Rc,
};

use tidegate_core::{
    inherit,
    module::{Context, Directive, Module},
    phase::{Outcome, Phase, Ready, Step},
    request::Request,
};
use tidegate_http::Method;

use crate::directory;

/// What the directive says at one level.
#[derive(Debug, Default)]
pub struct Conf {
    random_index: Option<bool>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::flag("random_index", |c: &mut Conf| &mut c.random_index)
        .within(Context::LOCATION)
        .default("off")
        .doc("A file of the directory, chosen at random, answers for the directory.")],
    inherit: |child, parent, _| inherit!(child, parent; random_index),
    install: |conf, program| {
        if conf.random_index == Some(true) {
            program.on(Phase::Content, handle);
        }
    },
    example: "
        location /random/ { random_index on; }
    ",
    ..Module::named("random_index")
};

fn handle(req: &Rc<Request>) -> Outcome {
    if !req.uri.borrow().path.ends_with(b"/") || !matches!(req.method.get(), Method::Get | Method::Head | Method::Post)
    {
        return Ready::Now(Step::Declined);
    }
    let mut path = Vec::new();
    if req.map_uri_to_path(&mut path).is_none() {
        return Ready::Now(Step::Status(500));
    }
    if path.len() > 1 {
        path.pop();
    }
    let req = req.clone();
    Ready::later(async move { choose(&req, path).await })
}

async fn choose(req: &Request, path: Vec<u8>) -> Step {
    let files: Vec<_> = match directory::read(path).await {
        Ok(entries) => entries.into_iter().filter(directory::Entry::is_file).collect(),
        Err(error) => return Step::Status(error.log(req)),
    };
    if files.is_empty() {
        return Step::Declined;
    }
    // Chance enough for a greeting: the seed of a new hash table.
    let chance = std::hash::RandomState::new().build_hasher().finish();
    let file = &files[(chance % files.len() as u64) as usize];
    let uri = [&req.uri.borrow().path, &file.name[..]].concat();
    let args = req.uri.borrow().args.clone();
    req.redirect_internally(&uri, Some(&args));
    Step::Redirected
}
