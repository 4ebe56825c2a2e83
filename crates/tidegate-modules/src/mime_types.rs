//! Lists of media types, as `gzip_types` and its like have them.

use std::{collections::HashSet, sync::Arc};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{conf::Build, output::Response};

/// The media types that a filter works on.
#[derive(Debug, Clone, Default)]
pub(crate) struct MimeTypes {
    all: bool,
    types: HashSet<BString>,
}

impl MimeTypes {
    /// Adds the arguments of a directive to what the level has; the first one begins with the `defaults`.
    ///
    /// Source: nginx, `ngx_http_types_slot`.
    pub(crate) fn add(
        types: &mut Option<Arc<MimeTypes>>,
        defaults: &[&str],
        directive: &ast::Directive,
        build: &mut Build<'_>,
    ) -> Result<(), Diagnostic> {
        let types = types.get_or_insert_with(|| Arc::new(MimeTypes::of(&defaults[..1])));
        let types = Arc::make_mut(types);
        for arg in &directive.args {
            if arg.value == "*" {
                types.all = true;
            } else if !types.types.insert(arg.value.to_ascii_lowercase().into()) {
                build.diagnostics.warn(arg.span, format!("duplicate MIME type \"{}\"", arg.value));
            }
        }
        Ok(())
    }

    /// These types.
    pub(crate) fn of(types: &[&str]) -> MimeTypes {
        MimeTypes { all: false, types: types.iter().map(|&kind| kind.into()).collect() }
    }

    /// Whether a response has one of the types; `*` is also for one without a type.
    pub(crate) fn contains(&self, response: &Response) -> bool {
        if self.all || response.content_type.is_empty() {
            return self.all;
        }
        let kind = response.content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
        if kind.iter().any(u8::is_ascii_uppercase) {
            self.types.contains(kind.to_ascii_lowercase().as_bstr())
        } else {
            self.types.contains(kind.as_bstr())
        }
    }
}
