//! `types`: media types by extension.

use std::sync::Arc;

use bstr::{BString, ByteSlice};
use rustc_hash::FxHashMap;
use tidegate_conf::{Diagnostic, ast};

use crate::{
    conf::Build,
    inherit,
    main_conf::block_of,
    module::{Directive, Module},
    request::Request,
};

/// Media types by extension in lower case.
type Types = FxHashMap<BString, BString>;

/// What the directives say at one level.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each field is named as its directive, whose table entry documents it")]
pub struct Conf {
    pub types: Option<Arc<Types>>,
    pub default_type: Option<BString>,
    types_hash_max_size: Option<u64>,
    types_hash_bucket_size: Option<u64>,
}

/// The module of media types.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::block("types", 0, 0, types)
            .syntax("{ type extension ...; ... }")
            .default("text/html html; image/gif gif; image/jpeg jpg;")
            .doc("Media types of files by their extensions."),
        Directive::text("default_type", |c: &mut Conf| &mut c.default_type)
            .default("text/plain")
            .doc("Media type of responses that have none."),
        Directive::number("types_hash_max_size", |c: &mut Conf| &mut c.types_hash_max_size)
            .default("1024")
            .doc("Accepted: tables grow as needed."),
        Directive::number("types_hash_bucket_size", |c: &mut Conf| &mut c.types_hash_bucket_size)
            .default("64")
            .doc("Accepted: tables grow as needed."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; types, default_type, types_hash_max_size, types_hash_bucket_size);
    },
    finish: Some(|conf, _| {
        let defaults = [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")];
        conf.types.get_or_insert_with(|| {
            Arc::new(defaults.into_iter().map(|(extension, kind)| (extension.into(), kind.into())).collect())
        });
        Ok(())
    }),
    example: "
        types {
            text/html  html htm;
            image/png  png;
        }
        default_type application/octet-stream;
    ",
    ..Module::named("types")
};

fn types(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let types = Arc::make_mut(conf.types.get_or_insert_default());
    for entry in block_of(directive) {
        let kind = &entry.name.value;
        for arg in &entry.args {
            let extension = BString::from(arg.value.to_ascii_lowercase());
            if let Some(old) = types.insert(extension.clone(), kind.clone()) {
                build.diagnostics.warn(
                    arg.span,
                    format!(
                        "duplicate extension \"{extension}\", content type: \"{kind}\", previous content type: \"{old}\""
                    ),
                );
            }
        }
    }
    Ok(())
}

impl Conf {
    /// The type of a file with this extension, in any case.
    pub fn type_of(&self, extension: &[u8]) -> &[u8] {
        let found = self.types.as_ref().filter(|_| !extension.is_empty()).and_then(|types| {
            if extension.iter().any(u8::is_ascii_uppercase) {
                types.get(extension.to_ascii_lowercase().as_bstr())
            } else {
                types.get(extension.as_bstr())
            }
        });
        match (found, &self.default_type) {
            (Some(kind), _) | (None, Some(kind)) => kind,
            (None, None) => b"text/plain",
        }
    }
}

impl Request {
    /// Gives the response the content type that `types` and `default_type` say for the request's path, unless it has
    /// one.
    ///
    /// Source: nginx, `ngx_http_set_content_type`.
    pub fn set_default_content_type(&self) {
        let mut response = self.response.borrow_mut();
        if response.content_type.is_empty() {
            let uri = self.uri.borrow();
            let kind = self.level().conf(&MODULE).type_of(tidegate_http::uri::extension(&uri.path));
            response.content_type.extend_from_slice(kind);
        }
    }
}
