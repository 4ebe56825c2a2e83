//! Certificates whose names are made for each handshake: `ssl_certificate $ssl_server_name.crt`.
//!
//! Files are read by another thread, with the rights of the worker. What was read is kept as `ssl_certificate_cache` says.
//!
//! Source: nginx, "ssl_certificate", "ssl_certificate_cache".

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bstr::ByteSlice as _;
use lru::LruCache;
use rustls::{ServerConfig, crypto::CryptoProvider, sign::CertifiedKey};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_tls::{
    client::certified,
    managed::Managed,
    pem::{self, PemError},
};

use super::{files::full_path, keys::Certificates};
use crate::{log::SysError, request::Request, template::Template};

/// `ssl_certificate_cache`: how much is kept, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheRules {
    pub(super) max: usize,
    /// Time without use after which a certificate goes.
    pub(super) inactive: Duration,
    /// Time after which a certificate is read again.
    pub(super) valid: Duration,
}

impl CacheRules {
    /// `…_certificate_cache off | max=N [inactive=time] [valid=time]`; `None` for `off`.
    ///
    /// # Errors
    /// A parameter is bad, or `max` is missing.
    ///
    /// Source: nginx, "ssl_certificate_cache".
    pub(crate) fn of(directive: &ast::Directive) -> Result<Option<Self>, Diagnostic> {
        let mut rules = CacheRules { max: 0, inactive: Duration::from_secs(10), valid: Duration::from_secs(60) };
        let mut is_off = false;
        for arg in &directive.args {
            let invalid =
                || Diagnostic::invalid_parameter(&arg.value, arg.span, ["off", "max=", "inactive=", "valid="]);
            let (name, value) = arg.value.split_once_str(b"=").unwrap_or((&arg.value, b""));
            let time = || values::time_seconds(value.into()).map_err(|_| invalid());
            match name {
                b"off" if value.is_empty() => is_off = true,
                b"max" => {
                    let max = values::integer(value.into()).ok().and_then(|max| usize::try_from(max).ok());
                    rules.max = max.filter(|max| *max > 0).ok_or_else(invalid)?;
                }
                b"inactive" => rules.inactive = time()?,
                b"valid" => rules.valid = time()?,
                _ => return Err(invalid()),
            }
        }
        if !is_off && rules.max == 0 {
            let message = format!("\"{}\" must have the \"max\" parameter", directive.name.value);
            return Err(Diagnostic::new(Severity::Emerg, directive.span, message));
        }
        Ok((!is_off).then_some(rules))
    }
}

/// What names a certificate and its key: names of files, or texts behind `data:`.
pub(crate) type Names = (Vec<u8>, Vec<u8>);

struct Entry {
    pair: Arc<CertifiedKey>,
    read: Instant,
    used: Instant,
}

/// Certificates with their keys that are read when they are needed, and perhaps kept.
pub(crate) struct Pairs {
    passwords: Vec<Vec<u8>>,
    conf_dir: PathBuf,
    provider: Arc<CryptoProvider>,
    rules: Option<CacheRules>,
    cache: Mutex<LruCache<Names, Entry>>,
}

/// The certificates of a server, some of which have variables in their names.
pub(crate) struct Dynamic {
    names: Vec<(Template, Template)>,
    pairs: Arc<Pairs>,
    /// One more certificate, which comes by itself.
    managed: Option<Arc<Managed>>,
}

impl std::fmt::Debug for Dynamic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dynamic").field("names", &self.names).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Pairs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pairs").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Dynamic {
    pub(super) fn new(names: Vec<(Template, Template)>, pairs: Arc<Pairs>, managed: Option<Arc<Managed>>) -> Arc<Self> {
        Arc::new(Self { names, pairs, managed })
    }

    /// The names as they are for a connection, whose request this is.
    pub(crate) fn names(&self, req: &Request) -> Vec<Names> {
        self.names.iter().map(|(certificate, key)| (certificate.eval(req), key.eval(req))).collect()
    }

    /// The settings of a handshake with the certificates of these names; `base` is all but them.
    ///
    /// # Errors
    /// Why a certificate cannot be used, as a sentence for the log.
    pub(crate) async fn settings(&self, base: &ServerConfig, names: Vec<Names>) -> Result<Arc<ServerConfig>, String> {
        let mut found = Vec::with_capacity(names.len());
        for names in names {
            found.push(self.pairs.get(names).await?);
        }
        let mut config = base.clone();
        config.cert_resolver = Arc::new(Certificates::new(found, self.managed.clone()));
        Ok(Arc::new(config))
    }
}

impl Pairs {
    pub(crate) fn new(
        passwords: Vec<Vec<u8>>,
        conf_dir: PathBuf,
        provider: Arc<CryptoProvider>,
        rules: Option<CacheRules>,
    ) -> Arc<Self> {
        // Bounded by `max` where an entry goes in.
        let cache = Mutex::new(LruCache::unbounded());
        Arc::new(Self { passwords, conf_dir, provider, rules, cache })
    }

    /// The certificate of these names with its key, from the cache or from files, which another thread reads.
    ///
    /// # Errors
    /// Why it cannot be used, as a sentence for the log.
    pub(crate) async fn get(self: &Arc<Self>, names: Names) -> Result<Arc<CertifiedKey>, String> {
        match self.kept(&names) {
            Some(pair) => Ok(pair),
            None => self.read(names).await,
        }
    }

    fn cache(&self) -> MutexGuard<'_, LruCache<Names, Entry>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self, names: &Names) -> Option<Arc<CertifiedKey>> {
        let rules = self.rules?;
        let mut cache = self.cache();
        let now = Instant::now();
        let entry = cache.get_mut(names)?;
        if now - entry.read > rules.valid || now - entry.used > rules.inactive {
            cache.pop(names);
            return None;
        }
        entry.used = now;
        Some(entry.pair.clone())
    }

    async fn read(self: &Arc<Self>, names: Names) -> Result<Arc<CertifiedKey>, String> {
        let (pairs, wanted) = (self.clone(), names.clone());
        let read = tokio::task::spawn_blocking(move || pairs.load(&wanted)).await;
        let pair = read.map_err(|error| error.to_string())??;
        if let Some(rules) = self.rules {
            let mut cache = self.cache();
            while cache.len() >= rules.max && cache.pop_lru().is_some() {}
            let now = Instant::now();
            cache.put(names, Entry { pair: pair.clone(), read: now, used: now });
        }
        Ok(pair)
    }

    fn load(&self, (certificate, key): &Names) -> Result<Arc<CertifiedKey>, String> {
        let chain = self.load_one("certificate", certificate, pem::certificates)?;
        let secret = self.load_one("certificate key", key, |text| pem::key(text, &self.passwords))?;
        certified(chain, secret, &self.provider)
            .map(Arc::new)
            .map_err(|error| format!("cannot load certificate key \"{}\": ({error})", shown(key)))
    }

    fn load_one<T>(
        &self,
        what: &str,
        name: &[u8],
        parse: impl FnOnce(&[u8]) -> Result<T, PemError>,
    ) -> Result<T, String> {
        let fail = |why: &dyn std::fmt::Display| format!("cannot load {what} \"{}\": {why}", shown(name));
        if let Some(text) = name.strip_prefix(b"data:") {
            return parse(text).map_err(|error| fail(&format_args!("({error})")));
        }
        let text = std::fs::read(full_path(&self.conf_dir, name)).map_err(|error| fail(&SysError(&error)))?;
        parse(&text).map_err(|error| fail(&format_args!("({error})")))
    }
}

/// A name for the log, which a key is not.
fn shown(name: &[u8]) -> std::borrow::Cow<'_, str> {
    if name.starts_with(b"data:") { "data:".into() } else { name.to_str_lossy() }
}
