//! The sub-requests that look for responses and keep them.

use std::{rc::Rc, sync::Arc};

use bstr::BStr;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    request::Request,
    subrequest::{Options, Subrequest, parse_target},
    template::Template,
};
use tidegate_http::{Known, Method};
use tidegate_net::log::Level;

/// `srcache_fetch` or `srcache_store`.
#[derive(Debug)]
pub(super) struct Target {
    method: Method,
    location: Template,
    args: Option<Template>,
}

impl Target {
    /// Reads `method uri [args]`.
    pub(super) fn set(
        field: &mut Option<Arc<Target>>,
        directive: &ast::Directive,
        build: &mut Build<'_>,
    ) -> Result<(), Diagnostic> {
        if field.is_some() {
            return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
        }
        let word = &directive.args[0];
        let method = Method::of(&word.value);
        if method == Method::Other {
            let message = format!("{} specifies bad HTTP method {}", directive.name(), word.value);
            return Err(Diagnostic::new(Severity::Emerg, word.span, message));
        }
        let args = directive.args.get(2).map(|arg| build.template(arg)).transpose()?;
        *field = Some(Arc::new(Target { method, location: build.template(&directive.args[1])?, args }));
        Ok(())
    }

    /// The sub-request for `req`, with `body`. Its response is captured if there is no body to be kept.
    ///
    /// `None` if there can be none; the log has the reason.
    pub(super) fn subrequest(&self, req: &Rc<Request>, body: Option<Vec<u8>>) -> Option<Subrequest> {
        let location = self.location.eval_cow(req);
        let Some((path, own_args)) = parse_target(&location) else {
            req.log(Level::Error, format_args!("srcache: unsafe URI \"{}\" was detected", BStr::new(&*location)));
            return None;
        };
        let args = match &self.args {
            Some(args) => args.eval(req),
            None => own_args,
        };
        let mut fields = req.head.borrow().fields.clone();
        fields.remove(Known::ContentLength);
        fields.remove(Known::TransferEncoding);
        if let Some(body) = &body {
            fields.set_known(Known::ContentLength, itoa::Buffer::new().format(body.len()).as_bytes());
        }
        let (capture, discard) = (body.is_none(), body.is_some());
        let options =
            Options { method: Some(self.method), body, fields: Some(fields), capture, discard, ..Options::default() };
        match Subrequest::new(req, &path, &args, options) {
            Ok(sub) => Some(sub),
            Err(error) => {
                req.log(Level::Error, format_args!("{error} \"{}\"", BStr::new(&*location)));
                None
            }
        }
    }
}
