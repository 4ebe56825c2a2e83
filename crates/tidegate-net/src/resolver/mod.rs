//! Looking up the addresses of names without ever blocking a worker.
//!
//! With a [`Resolver`], the name servers that it names are asked, and answers are kept as long as they say or its settings
//! say. Without, the system's own resolver is asked on a thread beside the workers (nginx would refuse the name), so
//! `/etc/hosts` and the like count.
//!
//! Each worker has a cache of its own. Several requests for one name wait for one answer.
//!
//! Source: nginx, `ngx_resolver.c`.

mod client;
mod message;

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use self::message::{Kind, Reply};
use crate::clock;

/// Name servers that are asked together.
#[derive(Debug)]
pub struct Resolver {
    /// Number, unique in the process; the cache goes by it.
    id: u32,
    settings: Settings,
}

/// Whom a resolver asks, and for what.
#[derive(Debug, PartialEq, Eq)]
pub struct Settings {
    /// The servers; at least one.
    pub servers: Vec<SocketAddr>,
    /// How long answers are good, instead of what they say.
    pub valid: Option<Duration>,
    /// IPv4 addresses are asked for.
    pub ipv4: bool,
    /// IPv6 addresses are asked for.
    pub ipv6: bool,
}

/// Port of name servers.
pub const DNS_PORT: u16 = 53;

/// Why a name has no addresses. The text is what nginx puts into `could not be resolved (…)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The server did not understand the question.
    #[error("1: Format error")]
    Format,
    /// The server cannot answer.
    #[error("2: Server failure")]
    ServerFailure,
    /// There is no such name, or it has no addresses.
    #[error("3: Host not found")]
    NotFound,
    /// The server does not do this.
    #[error("4: Unimplemented")]
    Unimplemented,
    /// The server does not want to.
    #[error("5: Operation refused")]
    Refused,
    /// No server answered in time.
    #[error("110: Operation timed out")]
    TimedOut,
}

impl ResolveError {
    fn of_code(code: u8) -> Self {
        match code {
            1 => ResolveError::Format,
            3 => ResolveError::NotFound,
            4 => ResolveError::Unimplemented,
            5 => ResolveError::Refused,
            _ => ResolveError::ServerFailure,
        }
    }
}

/// The addresses of a name, and until when they are good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// At least one address.
    pub addresses: Rc<[IpAddr]>,
    /// In milliseconds of [`clock::steady_ms`].
    pub until_ms: u64,
}

type Outcome = Result<Resolved, ResolveError>;

/// How long an answer of the system's resolver is good, which does not say: long enough to take the load off it.
const SYSTEM_VALID_MS: u64 = 5_000;

/// Names that a worker remembers; the cache is emptied when there are more.
const CACHE_NAMES_MAX: usize = 4096;

/// How many names may lead from one to the next until there are addresses.
///
/// Source: nginx, `NGX_RESOLVER_MAX_RECURSION`.
const ALIASES_MAX: u32 = 50;

enum Entry {
    Known(Resolved),
    /// Somebody is asking; the outcome will be here.
    Asking(Rc<Asking>),
}

#[derive(Default)]
struct Asking {
    outcome: RefCell<Option<Outcome>>,
    done: Notify,
}

thread_local! {
    /// By the resolver's number (0: the system's) and the name in lower case.
    static CACHE: RefCell<HashMap<(u32, String), Entry>> = RefCell::new(HashMap::new());
}

/// Looks up the addresses of `name`, in at most `timeout`; without a resolver the system is asked. May be called on workers' threads only.
///
/// # Errors
/// [`ResolveError`].
pub async fn resolve(resolver: Option<&Arc<Resolver>>, name: &str, timeout: Duration) -> Outcome {
    if let Ok(ip) = name.parse::<IpAddr>() {
        return Ok(Resolved { addresses: Rc::new([ip]), until_ms: u64::MAX });
    }
    let key = (resolver.map_or(0, |resolver| resolver.id), name.to_ascii_lowercase());
    let asking = CACHE.with_borrow_mut(|cache| {
        match cache.get(&key) {
            Some(Entry::Known(known)) if clock::steady_ms() < known.until_ms => return Ok(known.clone()),
            Some(Entry::Asking(asking)) => return Err(asking.clone()),
            _ => {}
        }
        if cache.len() >= CACHE_NAMES_MAX {
            cache.retain(|_, entry| matches!(entry, Entry::Asking(_)));
        }
        let asking = Rc::new(Asking::default());
        cache.insert(key.clone(), Entry::Asking(asking.clone()));
        // A task of its own: whoever asked first may stop waiting.
        let resolver = resolver.cloned();
        let task = asking.clone();
        tokio::task::spawn_local(async move {
            let outcome = look_up(resolver.as_deref(), &key.1, timeout).await;
            CACHE.with_borrow_mut(|cache| match &outcome {
                Ok(known) => drop(cache.insert(key, Entry::Known(known.clone()))),
                Err(_) => drop(cache.remove(&key)),
            });
            *task.outcome.borrow_mut() = Some(outcome);
            task.done.notify_waiters();
        });
        Err(asking)
    });
    let asking = match asking {
        Ok(known) => return Ok(known),
        Err(asking) => asking,
    };
    loop {
        let done = asking.done.notified();
        if let Some(outcome) = &*asking.outcome.borrow() {
            return outcome.clone();
        }
        done.await;
    }
}

async fn look_up(resolver: Option<&Resolver>, name: &str, timeout: Duration) -> Outcome {
    let (addresses, valid_ms) = match resolver {
        None => {
            let found = tokio::time::timeout(timeout, tokio::net::lookup_host((name, 0))).await;
            let found = found.map_err(|_| ResolveError::TimedOut)?.map_err(|_| ResolveError::NotFound)?;
            let mut addresses: Vec<IpAddr> = Vec::new();
            for ip in found.map(|address| address.ip()) {
                if !addresses.contains(&ip) {
                    addresses.push(ip);
                }
            }
            (addresses, SYSTEM_VALID_MS)
        }
        Some(resolver) => resolver.ask(name, timeout).await?,
    };
    if addresses.is_empty() {
        return Err(ResolveError::NotFound);
    }
    clock::update();
    Ok(Resolved { addresses: addresses.into(), until_ms: clock::steady_ms().saturating_add(valid_ms) })
}

impl Resolver {
    /// A resolver with a cache of its own.
    pub fn new(settings: Settings) -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(1);
        Resolver { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), settings }
    }

    /// Whether another one asks the same servers in the same way.
    pub fn has_same_settings(&self, other: &Resolver) -> bool {
        self.settings == other.settings
    }

    async fn ask(&self, name: &str, timeout: Duration) -> Result<(Vec<IpAddr>, u64), ResolveError> {
        let deadline = Instant::now() + timeout;
        let mut name = Cow::Borrowed(name);
        let mut least_ttl_s = u32::MAX;
        for _ in 0..ALIASES_MAX {
            let (addresses, alias, ttl_s) = self.ask_once(&name, deadline).await?;
            least_ttl_s = least_ttl_s.min(ttl_s);
            match alias {
                Some(alias) if addresses.is_empty() => name = Cow::Owned(alias),
                _ => {
                    let valid_ms = match self.settings.valid {
                        Some(valid) => u64::try_from(valid.as_millis()).unwrap_or(u64::MAX),
                        None => u64::from(least_ttl_s) * 1000,
                    };
                    return Ok((addresses, valid_ms));
                }
            }
        }
        Err(ResolveError::NotFound)
    }

    /// Asks for both kinds of addresses: they, or the name that has them, and for how many seconds that is good.
    async fn ask_once(
        &self,
        name: &str,
        deadline: Instant,
    ) -> Result<(Vec<IpAddr>, Option<String>, u32), ResolveError> {
        let ask = |wanted: bool, kind| async move {
            if wanted { Some(client::ask(&self.settings.servers, name, kind, deadline).await) } else { None }
        };
        let (v4, v6) = tokio::join!(ask(self.settings.ipv4, Kind::A), ask(self.settings.ipv6, Kind::Aaaa));
        let (mut addresses, mut alias, mut ttl_s) = (Vec::new(), None, u32::MAX);
        let mut failure = ResolveError::NotFound;
        for answer in [v4, v6].into_iter().flatten() {
            match answer {
                Ok(Reply::Addresses(found, ttl)) if !found.is_empty() => {
                    addresses.extend(found);
                    ttl_s = ttl_s.min(ttl);
                }
                Ok(Reply::Addresses(..)) => {}
                Ok(Reply::Alias(found, ttl)) => {
                    alias = Some(found);
                    ttl_s = ttl_s.min(ttl);
                }
                Ok(Reply::Error(code)) => failure = ResolveError::of_code(code),
                Ok(Reply::Truncated) => failure = ResolveError::Format,
                Err(error) => failure = error,
            }
        }
        if addresses.is_empty() && alias.is_none() { Err(failure) } else { Ok((addresses, alias, ttl_s)) }
    }
}

/// Reads any bytes as replies to some questions, and checks what comes of them: for `fuzz/`.
#[cfg(feature = "fuzzing")]
pub fn check_any_reply(input: &[u8]) {
    message::check_any(input);
}

#[cfg(test)]
mod tests;
