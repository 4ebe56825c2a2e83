//! Where responses are kept: behind sub-requests, or in a zone.

use std::{rc::Rc, sync::Arc};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    request::Request,
    subrequest::{Options, Subrequest, VariableSharing, parse_target},
    template::Template,
};
use tidegate_http::{Known, Method};
use tidegate_net::log::Level;

use super::{Conf, MODULE, Versions, memory::Memory};

/// `srcache_fetch` or `srcache_store`.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// `method uri [args]`
    Subrequest(Arc<Query>),
    /// `zone=name key`
    Zone(BString, Template),
}

/// What a sub-request is asked.
#[derive(Debug)]
pub(super) struct Query {
    method: Method,
    location: Template,
    args: Option<Template>,
}

/// A target for one request.
pub(super) enum Place {
    Subrequest(Arc<Query>),
    Zone(Arc<Memory>, Vec<u8>),
}

impl Target {
    /// Reads the arguments of a directive.
    pub(super) fn parse(
        conf: &mut Conf,
        directive: &ast::Directive,
        build: &mut Build<'_>,
    ) -> Result<Target, Diagnostic> {
        let word = &directive.args[0];
        let second = build.template(&directive.args[1])?;
        let third = directive.args.get(2);
        if let Some(name) = word.value.strip_prefix(b"zone=") {
            if let Some(more) = third {
                let message = format!("unexpected \"{}\" behind the key", more.value);
                return Err(Diagnostic::new(Severity::Emerg, more.span, message));
            }
            match build.http_level() {
                Some(http) if http != build.level() => {
                    build.conf_mut(&MODULE, http).zones.use_zone(name.as_bstr(), word);
                }
                _ => conf.zones.use_zone(name.as_bstr(), word),
            }
            return Ok(Target::Zone(name.into(), second));
        }
        let method = Method::of(&word.value);
        if method == Method::Other {
            let message = format!("{} specifies bad HTTP method {}", directive.name(), word.value);
            return Err(Diagnostic::new(Severity::Emerg, word.span, message));
        }
        let args = third.map(|arg| build.template(arg)).transpose()?;
        Ok(Target::Subrequest(Arc::new(Query { method, location: second, args })))
    }

    /// The target for `req`; `None` for a zone that there is not, which the configuration would have said, and if nobody can tell
    /// what the tables hold that the response is made of.
    pub(super) fn place(&self, conf: &Conf, req: &Request) -> Option<Place> {
        match self {
            Target::Subrequest(query) => Some(Place::Subrequest(query.clone())),
            Target::Zone(name, key) => {
                let mut key = key.eval(req);
                append_tables(conf, req, &mut key)?;
                Some(Place::Zone(conf.zones.defined.get(name)?.clone(), key))
            }
        }
    }

    /// What tells responses apart.
    pub(super) fn lock_key(&self, conf: &Conf, req: &Request) -> Vec<u8> {
        match self {
            Target::Subrequest(query) => {
                let args = query.args.as_ref().map(|args| args.eval(req)).unwrap_or_default();
                [&*query.location.eval_cow(req), b"?", &*args].concat()
            }
            Target::Zone(name, key) => {
                let mut lock_key = [&***name, b"=", &*key.eval_cow(req)].concat();
                // Without versions nothing is looked for, and nobody waits.
                let _ = append_tables(conf, req, &mut lock_key);
                lock_key
            }
        }
    }
}

/// Appends to a key the versions that the tables had when the request came to its location.
fn append_tables(conf: &Conf, req: &Request, key: &mut Vec<u8>) -> Option<()> {
    if conf.srcache_cache_tables.is_some() {
        key.extend_from_slice(req.find_context::<Versions>()?.0.borrow().as_deref()?);
    }
    Some(())
}

impl Query {
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
        // As in srcache-nginx-module: a `set` at the server's level runs again for it, and must not move the response's key.
        let variables = VariableSharing::Fresh;
        let options = Options {
            method: Some(self.method),
            body,
            fields: Some(fields),
            variables,
            capture,
            discard,
            ..Options::default()
        };
        match Subrequest::new(req, &path, &args, options) {
            Ok(sub) => Some(sub),
            Err(error) => {
                req.log(Level::Error, format_args!("{error} \"{}\"", BStr::new(&*location)));
                None
            }
        }
    }
}
