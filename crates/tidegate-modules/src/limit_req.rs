//! `limit_req`: so many requests per second for each key, the leaky bucket.
//!
//! A bucket holds `excess`, in thousandths of a request: each request adds 1000, time takes `rate` a second away. A
//! request that finds more than `burst` in it is refused; one that finds more than `delay` waits until it has leaked.
//!
//! Follows nginx's `ngx_http_limit_req_module`.

use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Outcome, Phase, Ready, Step},
    request::Request,
    variable::VariableDef,
};
use tidegate_net::{clock, log::Level};

use crate::zone::{Shard, Weigh, Zone, Zones};

/// One key's bucket.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// What is in it, in thousandths of a request.
    excess: u64,
    /// When that was, in milliseconds; 0 for never.
    last_ms: u64,
}

impl Weigh for Bucket {}

/// A `limit_req_zone`.
#[derive(Debug)]
struct RateZone {
    zone: Zone<Bucket>,
    /// Thousandths of a request a second.
    rate: u64,
}

/// A `limit_req`; numbers in thousandths of a request.
#[derive(Debug, Clone)]
struct Limit {
    zone_name: BString,
    burst: u64,
    delay: u64,
}

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    zones: Zones<RateZone>,
    limits: Vec<Limit>,
    limit_req_dry_run: Option<bool>,
    limit_req_log_level: Option<u32>,
    limit_req_status: Option<u64>,
}

/// Levels of the log by name.
pub(crate) const LOG_LEVELS: &[(&str, u32)] = &[
    ("info", Level::Info as u32),
    ("notice", Level::Notice as u32),
    ("warn", Level::Warn as u32),
    ("error", Level::Error as u32),
];

/// The level of a number in [`LOG_LEVELS`].
pub(crate) fn log_level(number: Option<u32>) -> Level {
    Level::ALL.into_iter().find(|level| Some(*level as u32) == number).unwrap_or(Level::Error)
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("limit_req_zone", 3, 3, limit_req_zone)
            .within(Context::HTTP)
            .syntax("key zone=name:size [rate=rate] [sync]")
            .doc("Defines what requests are counted by, and how many a second or a minute there may be."),
        Directive::custom("limit_req", 1, 3, limit_req)
            .syntax("zone=name [burst=number] [nodelay | delay=number]")
            .doc("Delays or refuses requests beyond the rate of a zone."),
        Directive::flag("limit_req_dry_run", |c: &mut Conf| &mut c.limit_req_dry_run)
            .default("off")
            .doc("Counts and logs, but neither delays nor refuses."),
        Directive::choice("limit_req_log_level", |c: &mut Conf| &mut c.limit_req_log_level, LOG_LEVELS)
            .default("error")
            .doc("Level at which refused requests are logged; delayed ones one level below."),
        Directive::custom("limit_req_status", 1, 1, |conf: &mut Conf, directive, _| {
            conf.limit_req_status = Some(refusal_status(conf.limit_req_status, directive)?);
            Ok(())
        })
        .syntax("code")
        .default("503")
        .doc("Status of refused requests."),
    ],
    variables: &[VariableDef::new(
        "limit_req_status",
        |req, _, out| match req.find_lasting_context::<Passed>().and_then(|passed| passed.0.get()) {
            Some(status) => {
                out.extend_from_slice(status.as_bytes());
                true
            }
            None => false,
        },
        "Decision of limit_req: PASSED, DELAYED, REJECTED, DELAYED_DRY_RUN or REJECTED_DRY_RUN.",
    )],
    inherit: |child, parent, _| {
        inherit!(child, parent; limit_req_dry_run, limit_req_log_level, limit_req_status);
        if child.zones.defined.is_empty() {
            child.zones.clone_from(&parent.zones);
        }
        if child.limits.is_empty() {
            child.limits.clone_from(&parent.limits);
        }
    },
    finish: Some(|conf, _| conf.zones.check()),
    install: |conf, program| {
        let find = |limit: &Limit| Some((conf.zones.defined.get(&limit.zone_name)?.clone(), limit.clone()));
        let limits: Vec<(Arc<RateZone>, Limit)> = conf.limits.iter().filter_map(find).collect();
        if !limits.is_empty() {
            let conf = conf.clone();
            program.on(Phase::Preaccess, move |req| conf.check(&limits, req));
        }
    },
    example: "
        limit_req_zone $binary_remote_addr zone=clients:10m rate=10r/s;
        server {
            listen 127.0.0.1:8081;
            location /login { limit_req zone=clients burst=20 nodelay; }
        }
    ",
    ..Module::named("limit_req")
};

/// Reads the status for refused requests.
///
/// # Errors
/// The directive stands there already, or the status is none of an error.
pub(crate) fn refusal_status(old: Option<u64>, directive: &ast::Directive) -> Result<u64, Diagnostic> {
    let arg = &directive.args[0];
    if old.is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    values::integer_in(arg.value.as_bstr(), 400, Some(599)).map_err(|error| error.diagnostic(directive.name(), arg))
}

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

fn limit_req_zone(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let mut rate = 1000;
    let zone = Zone::parse("limit_req", directive, build, |arg| match arg.value.strip_prefix(b"rate=") {
        Some(text) => {
            let (number, seconds) = match (text.strip_suffix(b"r/s"), text.strip_suffix(b"r/m")) {
                (Some(number), _) => (number, 1),
                (_, Some(number)) => (number, 60),
                _ => (text, 1),
            };
            rate = match values::integer(number.as_bstr()) {
                Ok(number @ 1..) => number.saturating_mul(1000) / seconds,
                _ => return Err(emerg(arg, format!("invalid rate \"{}\"", arg.value))),
            };
            Ok(true)
        }
        None => Ok(arg.value == "sync"),
    })?;
    if let Some(other) = conf.zones.defined.get(&zone.name) {
        let (name, key) = (&zone.name, &other.zone.key_text);
        let message = format!("limit_req_zone \"{name}\" is already bound to key \"{key}\"");
        return Err(Diagnostic::new(Severity::Emerg, directive.name.span, message));
    }
    conf.zones.defined.insert(zone.name.clone(), Arc::new(RateZone { zone, rate }));
    Ok(())
}

fn limit_req(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (mut zone, mut burst, mut delay) = (None, 0, Some(0));
    for arg in &directive.args {
        let text = &arg.value;
        let number = |text: &[u8]| match values::integer(text.as_bstr()) {
            Ok(number @ 1..) => Some(number.saturating_mul(1000)),
            _ => None,
        };
        if let Some(name) = text.strip_prefix(b"zone=") {
            zone = Some((name.as_bstr(), arg));
        } else if let Some(text) = text.strip_prefix(b"burst=") {
            burst = number(text).ok_or_else(|| emerg(arg, format!("invalid burst value \"{}\"", arg.value)))?;
        } else if let Some(text) = text.strip_prefix(b"delay=") {
            let invalid = || emerg(arg, format!("invalid delay value \"{}\"", arg.value));
            delay = Some(number(text).ok_or_else(invalid)?);
        } else if text == "nodelay" {
            delay = None;
        } else {
            let known = ["zone=", "burst=", "delay=", "nodelay"];
            return Err(Diagnostic::invalid_parameter(text, arg.span, known));
        }
    }
    let Some((zone_name, arg)) = zone else {
        let message = format!("\"{}\" must have \"zone\" parameter", directive.name());
        return Err(Diagnostic::new(Severity::Emerg, directive.name.span, message));
    };
    if conf.limits.iter().any(|limit| limit.zone_name == zone_name) {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    match build.http_level() {
        Some(http) if http != build.level() => build.conf_mut(&MODULE, http).zones.use_zone(zone_name, arg),
        _ => conf.zones.use_zone(zone_name, arg),
    }
    conf.limits.push(Limit { zone_name: zone_name.to_owned(), burst, delay: delay.unwrap_or(u64::MAX) });
    Ok(())
}

/// What was done with a request; once for a request and its sub-requests.
#[derive(Default)]
struct Passed(Cell<Option<&'static str>>);

/// The longest key that is counted.
const KEY_BYTES_MAX: usize = u16::MAX as usize;

impl Conf {
    fn check(&self, limits: &[(Arc<RateZone>, Limit)], req: &Rc<Request>) -> Outcome {
        let passed = req.lasting_context::<Passed>();
        if passed.0.get().is_some() {
            return Ready::Now(Step::Declined);
        }
        let dry_run = self.limit_req_dry_run == Some(true);
        let level = log_level(self.limit_req_log_level);
        let shown_dry_run = if dry_run { ", dry run" } else { "" };
        let now_ms = clock::steady_ms();
        let keys: Vec<Vec<u8>> = limits.iter().map(|(rate_zone, _)| rate_zone.key_of(req)).collect();
        let mut others = limits.iter().zip(&keys).filter(|(_, key)| !key.is_empty());
        let Some(((last_zone, last), last_key)) = others.next_back() else {
            return Ready::Now(Step::Declined);
        };
        // All zones must have room before any of them counts the request. The last one does both in one step, so that
        // with a single zone two workers never take the same place.
        let full = others.clone().find_map(|((rate_zone, limit), key)| {
            let excess = rate_zone.look(key, now_ms);
            (excess > limit.burst).then_some((excess, rate_zone))
        });
        let last_excess = match full {
            Some(full) => Err(full),
            None => last_zone.take(last_key, last.burst, now_ms).map_err(|excess| (excess, last_zone)),
        };
        let last_excess = match last_excess {
            Ok(excess) => excess,
            Err((excess, rate_zone)) => {
                let (whole, part, zone) = (excess / 1000, excess % 1000, &rate_zone.zone.name);
                req.log(
                    level,
                    format_args!("limiting requests{shown_dry_run}, excess: {whole}.{part:03} by zone \"{zone}\""),
                );
                passed.0.set(Some(if dry_run { "REJECTED_DRY_RUN" } else { "REJECTED" }));
                let status = self.limit_req_status.map_or(503, |status| status as u16);
                return Ready::Now(if dry_run { Step::Declined } else { Step::Status(status) });
            }
        };
        let mut longest = (last_zone.delay(last_excess, last), last_excess, &last_zone.zone.name);
        for ((rate_zone, limit), key) in others {
            let excess = rate_zone.take(key, u64::MAX, now_ms).unwrap_or(0);
            let delay = rate_zone.delay(excess, limit);
            if delay > longest.0 {
                longest = (delay, excess, &rate_zone.zone.name);
            }
        }
        let (delay, excess, zone) = longest;
        if delay.is_zero() {
            passed.0.set(Some("PASSED"));
            return Ready::Now(Step::Declined);
        }
        let (whole, part) = (excess / 1000, excess % 1000);
        req.log(
            one_below(level),
            format_args!("delaying request{shown_dry_run}, excess: {whole}.{part:03}, by zone \"{zone}\""),
        );
        passed.0.set(Some(if dry_run { "DELAYED_DRY_RUN" } else { "DELAYED" }));
        if dry_run {
            return Ready::Now(Step::Declined);
        }
        Ready::later(async move {
            tokio::time::sleep(delay).await;
            Step::Declined
        })
    }
}

fn one_below(level: Level) -> Level {
    match level {
        Level::Error => Level::Warn,
        Level::Warn => Level::Notice,
        _ => Level::Info,
    }
}

impl Bucket {
    /// What is in the bucket with one more request.
    fn with_one_more(self, rate: u64, now_ms: u64) -> u64 {
        let leaked = rate.saturating_mul(now_ms.saturating_sub(self.last_ms)) / 1000;
        (self.excess + 1000).saturating_sub(leaked)
    }
}

impl RateZone {
    /// The key that a request has in this zone; empty for none.
    fn key_of(&self, req: &Request) -> Vec<u8> {
        let key = self.zone.key.eval(req);
        if key.len() <= KEY_BYTES_MAX {
            return key;
        }
        let (text, shown) = (&self.zone.key_text, key.as_bstr());
        req.log(
            Level::Error,
            format_args!("the value of the \"{text}\" key is more than {KEY_BYTES_MAX} bytes: \"{shown}\""),
        );
        Vec::new()
    }

    /// What would be in the key's bucket with one more request.
    fn look(&self, key: &[u8], now_ms: u64) -> u64 {
        let bucket = self.zone.state.shard(key).entries.get(key).copied();
        bucket.map_or(0, |bucket| bucket.with_one_more(self.rate, now_ms))
    }

    /// Puts one more request into the key's bucket; answers what is in it then.
    ///
    /// # Errors
    /// What would be in it, if that is more than `burst`.
    fn take(&self, key: &[u8], burst: u64, now_ms: u64) -> Result<u64, u64> {
        let mut shard = self.zone.state.shard(key);
        if let Some(bucket) = shard.entries.get_mut(key) {
            let excess = bucket.with_one_more(self.rate, now_ms);
            if excess > burst {
                return Err(excess);
            }
            *bucket = Bucket { excess, last_ms: now_ms.max(bucket.last_ms) };
            return Ok(excess);
        }
        self.forget_idle(&mut shard, now_ms);
        while !shard.has_room(key) && shard.remove_oldest(|_| true) {}
        shard.insert(key, Bucket { excess: 0, last_ms: now_ms });
        Ok(0)
    }

    /// How long a request has to wait that finds so much in the bucket.
    fn delay(&self, excess: u64, limit: &Limit) -> Duration {
        Duration::from_millis(excess.saturating_sub(limit.delay).saturating_mul(1000) / self.rate.max(1))
    }

    /// Drops one or two buckets that have been empty for a minute.
    fn forget_idle(&self, shard: &mut Shard<Bucket>, now_ms: u64) {
        const IDLE_MS: u64 = 60_000;
        let rate = self.rate;
        let idle = |bucket: &Bucket| {
            now_ms.saturating_sub(bucket.last_ms) >= IDLE_MS && bucket.with_one_more(rate, now_ms) <= 1000
        };
        if shard.remove_oldest(idle) {
            shard.remove_oldest(idle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_leak() {
        let bucket = Bucket { excess: 2500, last_ms: 10_000 };
        // At 1000 thousandths a second.
        assert_eq!(bucket.with_one_more(1000, 10_000), 3500);
        assert_eq!(bucket.with_one_more(1000, 10_500), 3000);
        assert_eq!(bucket.with_one_more(1000, 13_500), 0);
        assert_eq!(bucket.with_one_more(1000, 99_000), 0);
        // A clock that another worker has read earlier.
        assert_eq!(bucket.with_one_more(1000, 9_000), 3500);
    }
}
