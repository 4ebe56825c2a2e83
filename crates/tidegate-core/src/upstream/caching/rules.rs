//! What the directives of a cache say: at one level ([`CacheConf`]), and for the requests of a location ([`CacheRules`]).

use std::{sync::Arc, time::Duration};

use bstr::{BStr, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_http::{Method, ResponseHead};

use crate::{
    cache::{self, Slot, Zone},
    conf::{Build, MethodSet},
    http_core::ms,
    inherit,
    request::Request,
    template::Template,
    upstream::{directives::fill, failure::Failures, settings::Ignored},
};

use super::{lifetime::Lifetime, status};

/// Statuses of a `…_cache_valid` that names none.
///
/// Source: nginx, `ngx_http_file_cache_valid_set_slot`.
const STATUSES_DEFAULT: [u16; 3] = [200, 301, 302];

/// What the directives say at one level.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each field is named as its directive, whose table entry documents it")]
pub struct CacheConf {
    /// `None` inside for `off`.
    pub cache: Option<Option<ZoneName>>,
    pub cache_rfc9111: Option<bool>,
    pub cache_background_update: Option<bool>,
    pub cache_bypass: Option<Arc<Vec<Template>>>,
    pub cache_convert_head: Option<bool>,
    pub cache_key: Option<Template>,
    pub cache_lock: Option<bool>,
    pub cache_lock_age: Option<Duration>,
    pub cache_lock_timeout: Option<Duration>,
    pub cache_max_range_offset: Option<u64>,
    pub cache_methods: Option<MethodSet>,
    pub cache_min_uses: Option<u64>,
    pub cache_purge: Option<Arc<Vec<Template>>>,
    pub cache_revalidate: Option<bool>,
    /// `None` inside for `off`.
    pub cache_status: Option<Option<Arc<[u8]>>>,
    pub cache_tables: Option<KeyPart>,
    pub cache_use_stale: Option<Failures>,
    pub cache_valid: Option<Arc<Vec<Valid>>>,
    pub no_cache: Option<Arc<Vec<Template>>>,
}

/// What else belongs to keys than a location says (`…_cache_tables`): appends that for a request whose response has not been asked
/// for yet. False if it cannot be told: then no response is looked for or kept.
#[derive(Clone)]
pub struct KeyPart(pub Arc<dyn Fn(&Request, &mut Vec<u8>) -> bool + Send + Sync>);

impl std::fmt::Debug for KeyPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPart")
    }
}

/// The zone of a `…_cache`.
#[derive(Debug, Clone)]
pub enum ZoneName {
    /// This one.
    Fixed(ZoneSlot),
    /// The one that a request's variables name.
    Variable(Template),
}

/// A zone that is known when the whole configuration is.
#[derive(Debug, Clone)]
pub struct ZoneSlot(Slot);

/// For how long responses with a status are kept that do not say so themselves.
#[derive(Debug, Clone, Copy)]
pub struct Valid {
    /// The status; nothing for any.
    status: Option<u16>,
    seconds: u64,
}

impl CacheConf {
    /// Takes the outer level's value for each field that the inner level left open.
    pub fn inherit(&mut self, parent: &CacheConf) {
        let child = self;
        inherit!(child, parent; cache, cache_rfc9111, cache_background_update, cache_bypass, cache_convert_head, cache_key, cache_lock,
            cache_lock_age, cache_lock_timeout, cache_max_range_offset, cache_methods, cache_min_uses, cache_purge, cache_revalidate, cache_status,
            cache_tables, cache_use_stale, cache_valid, no_cache);
    }

    /// The rules of a location; nothing where nothing is kept.
    pub(in crate::upstream) fn rules(&self) -> Option<Arc<CacheRules>> {
        let zone = self.cache.clone().flatten()?;
        let templates = |list: &Option<Arc<Vec<Template>>>| list.as_deref().cloned().unwrap_or_default();
        let mut methods = self.cache_methods.unwrap_or_default();
        for method in [Method::Get, Method::Head] {
            methods.insert(method);
        }
        Some(Arc::new(CacheRules {
            zone,
            key: self.cache_key.clone(),
            tables: self.cache_tables.clone(),
            valid: self.cache_valid.as_deref().cloned().unwrap_or_default(),
            methods,
            bypass: templates(&self.cache_bypass),
            no_cache: templates(&self.no_cache),
            purge: templates(&self.cache_purge),
            min_uses: u16::try_from(self.cache_min_uses.unwrap_or(1)).unwrap_or(u16::MAX),
            lock: self.cache_lock.unwrap_or(false),
            lock_age_ms: ms(self.cache_lock_age, 5000),
            lock_timeout_ms: ms(self.cache_lock_timeout, 5000),
            use_stale: self.cache_use_stale.unwrap_or(Failures::NONE),
            background_update: self.cache_background_update.unwrap_or(false),
            revalidate: self.cache_revalidate.unwrap_or(false),
            convert_head: self.cache_convert_head.unwrap_or(true),
            max_range_offset: self.cache_max_range_offset,
            follows_rfc: self.cache_rfc9111.unwrap_or(false),
            status_name: self.cache_status.clone().flatten(),
        }))
    }
}

/// The rules of one location, named as their directives.
#[derive(Debug)]
pub struct CacheRules {
    zone: ZoneName,
    pub(super) key: Option<Template>,
    pub(super) tables: Option<KeyPart>,
    valid: Vec<Valid>,
    pub(super) methods: MethodSet,
    pub(super) bypass: Vec<Template>,
    pub(super) no_cache: Vec<Template>,
    pub(super) purge: Vec<Template>,
    pub(super) min_uses: u16,
    pub(super) lock: bool,
    pub(super) lock_age_ms: u64,
    pub(super) lock_timeout_ms: u64,
    pub(super) use_stale: Failures,
    pub(super) background_update: bool,
    pub(super) revalidate: bool,
    pub(super) convert_head: bool,
    pub(super) max_range_offset: Option<u64>,
    pub(super) follows_rfc: bool,
    pub(super) status_name: Option<Arc<[u8]>>,
}

impl CacheRules {
    /// The zone for a request; nothing where its variables switch the cache off.
    ///
    /// # Errors
    /// The name of a zone that there is not.
    pub(super) fn zone(&self, req: &Request) -> Result<Option<Arc<Zone>>, Vec<u8>> {
        let template = match &self.zone {
            ZoneName::Fixed(ZoneSlot(slot)) => return Ok(slot.get().cloned()),
            ZoneName::Variable(template) => template,
        };
        let name = template.eval(req);
        match &name[..] {
            b"" | b"off" => Ok(None),
            known => match req.cache_zone(known.as_bstr()) {
                Some(zone) => Ok(Some(zone)),
                None => Err(name),
            },
        }
    }

    /// What a response says of its keeping that came `now`, and its age, in seconds.
    pub(super) fn lifetime(&self, head: &ResponseHead, ignored: Ignored, now: u64) -> (Lifetime, u64) {
        let mut lifetime = Lifetime::of(head, ignored, now);
        if !self.follows_rfc {
            return (lifetime, 0);
        }
        let age = status::age_secs(head);
        lifetime.grow_older(age, now);
        (lifetime, age)
    }

    /// For how many seconds a response with this status is kept that does not say so itself.
    pub(super) fn valid_secs(&self, status: u16) -> Option<u64> {
        let found = self.valid.iter().find(|valid| valid.status.is_none_or(|only| only == status));
        found.map(|valid| valid.seconds).filter(|seconds| *seconds > 0)
    }
}

/// Whether one of these is neither empty nor "0".
pub(super) fn any_holds(conditions: &[Template], req: &Request) -> bool {
    conditions.iter().any(|condition| !matches!(&*condition.eval_cow(req), b"" | b"0"))
}

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

/// `…_cache zone | off;`
///
/// # Errors
/// An empty name.
pub fn cache(conf: &mut CacheConf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let zone = match &**arg.value {
        b"off" => None,
        b"" => return Err(emerg(arg, "zero size shared memory zone \"\"".to_owned())),
        _ => {
            let template = build.template(arg)?;
            match template.as_literal() {
                Some(name) => {
                    let name = BStr::new(name).to_owned();
                    let slot = cache::require(build, directive.name(), name.as_bstr(), arg.span);
                    Some(ZoneName::Fixed(ZoneSlot(slot)))
                }
                None => Some(ZoneName::Variable(template)),
            }
        }
    };
    fill(&mut conf.cache, zone, directive)
}

/// `…_cache_status name | off;`
///
/// # Errors
/// A name that cannot stand in a field.
pub fn status(conf: &mut CacheConf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let name = match &**arg.value {
        b"off" => None,
        name => {
            let written = status::written_name(name);
            Some(written.ok_or_else(|| emerg(arg, format!("invalid name of a cache \"{}\"", arg.value)))?.into())
        }
    };
    fill(&mut conf.cache_status, name, directive)
}

/// `…_cache_bypass string …;`, `…_no_cache string …;`
///
/// # Errors
/// Bad syntax of a variable.
pub fn conditions(
    field: &mut Option<Arc<Vec<Template>>>,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    for arg in &directive.args {
        let condition = build.template(arg)?;
        Arc::make_mut(field.get_or_insert_default()).push(condition);
    }
    Ok(())
}

/// `…_cache_methods GET | HEAD | POST …;`
///
/// # Errors
/// Another method.
pub fn methods(conf: &mut CacheConf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    const METHODS: &[(&str, Method)] = &[("GET", Method::Get), ("HEAD", Method::Head), ("POST", Method::Post)];
    let set = conf.cache_methods.get_or_insert_default();
    for arg in &directive.args {
        let method = values::word(arg.value.as_bstr(), METHODS)
            .map_err(|_| Diagnostic::unknown_value(&arg.value, arg.span, METHODS.iter().map(|(name, _)| *name)))?;
        set.insert(method);
    }
    Ok(())
}

/// `…_cache_use_stale error | timeout | updating …;` with the words of the protocol.
///
/// # Errors
/// A word that is none of these.
pub fn use_stale(
    conf: &mut CacheConf,
    directive: &ast::Directive,
    words: &'static [(&'static str, Failures)],
) -> Result<(), Diagnostic> {
    let set = conf.cache_use_stale.get_or_insert(Failures::NONE);
    for arg in &directive.args {
        let word = match &**arg.value {
            b"updating" => Failures::UPDATING,
            value => values::word(value.into(), words)
                .ok()
                .filter(|word| *word != Failures::NON_IDEMPOTENT)
                .ok_or_else(|| Diagnostic::unknown_value(&arg.value, arg.span, words.iter().map(|(word, _)| *word)))?,
        };
        *set = set.and(word);
    }
    Ok(())
}

/// `…_cache_valid [code …] time;`
///
/// # Errors
/// No time, or a code that is no status.
pub fn valid(conf: &mut CacheConf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let (time, codes) = directive.args.split_last().expect("the arity is at least one");
    let seconds = values::time_seconds(time.value.as_bstr())
        .map_err(|_| emerg(time, format!("invalid time value \"{}\"", time.value)))?
        .as_secs();
    let list = Arc::make_mut(conf.cache_valid.get_or_insert_default());
    if codes.is_empty() {
        list.extend(STATUSES_DEFAULT.map(|status| Valid { status: Some(status), seconds }));
    }
    for code in codes {
        let status = match &**code.value {
            b"any" => None,
            text => match values::integer(text.into()) {
                Ok(status @ 100..=599) => Some(status as u16),
                _ => return Err(emerg(code, format!("invalid status \"{}\"", code.value))),
            },
        };
        list.push(Valid { status, seconds });
    }
    Ok(())
}
