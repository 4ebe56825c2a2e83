//! `limit_conn`: so many requests at a time for each key.
//!
//! A connection counts while a request on it is processed.
//!
//! Follows nginx's `ngx_http_limit_conn_module`.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Phase, Ready, Step},
    request::Request,
    variable::VariableDef,
};
use tidegate_net::log::Level;

use crate::{
    limit_req::{LOG_LEVELS, log_level, refusal_status},
    zone::{Zone, Zones},
};

/// A zone of `limit_conn`: how many requests each key has now.
type ConnZone = Zone<u32>;

#[derive(Debug, Clone)]
struct Limit {
    zone_name: BString,
    count_max: u32,
}

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    zones: Zones<ConnZone>,
    limits: Vec<Limit>,
    limit_conn_dry_run: Option<bool>,
    limit_conn_log_level: Option<u32>,
    limit_conn_status: Option<u64>,
}

/// The largest number of connections that a limit may name.
///
/// Source: nginx.
const COUNT_MAX: u64 = 65_536;

/// The longest key that is counted.
const KEY_BYTES_MAX: usize = 255;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("limit_conn_zone", 2, 2, |conf: &mut Conf, directive, build| {
            let zone = Zone::parse("limit_conn", directive, build, |_| Ok(false))?;
            if let Some(other) = conf.zones.defined.get(&zone.name) {
                let (name, key) = (&zone.name, &other.key_text);
                let message = format!("limit_conn_zone \"{name}\" is already bound to key \"{key}\"");
                return Err(Diagnostic::new(Severity::Emerg, directive.name.span, message));
            }
            conf.zones.defined.insert(zone.name.clone(), Arc::new(zone));
            Ok(())
        })
        .within(Context::HTTP)
        .syntax("key zone=name:size")
        .doc("Defines what connections are counted by."),
        Directive::custom("limit_conn", 2, 2, limit_conn)
            .syntax("zone number")
            .doc("Refuses requests beyond so many at a time for a key of a zone."),
        Directive::flag("limit_conn_dry_run", |c: &mut Conf| &mut c.limit_conn_dry_run)
            .default("off")
            .doc("Counts and logs, but does not refuse."),
        Directive::choice("limit_conn_log_level", |c: &mut Conf| &mut c.limit_conn_log_level, LOG_LEVELS)
            .default("error")
            .doc("Level at which refused requests are logged."),
        Directive::custom("limit_conn_status", 1, 1, |conf: &mut Conf, directive, _| {
            conf.limit_conn_status = Some(refusal_status(conf.limit_conn_status, directive)?);
            Ok(())
        })
        .syntax("code")
        .default("503")
        .doc("Status of refused requests."),
    ],
    variables: &[VariableDef::new(
        "limit_conn_status",
        |req, _, out| match req.find_lasting_context::<Counted>().and_then(|counted| counted.status.get()) {
            Some(status) => {
                out.extend_from_slice(status.as_bytes());
                true
            }
            None => false,
        },
        "Decision of limit_conn: PASSED, REJECTED or REJECTED_DRY_RUN.",
    )],
    inherit: |child, parent, _| {
        inherit!(child, parent; limit_conn_dry_run, limit_conn_log_level, limit_conn_status);
        if child.zones.defined.is_empty() {
            child.zones.clone_from(&parent.zones);
        }
        if child.limits.is_empty() {
            child.limits.clone_from(&parent.limits);
        }
    },
    finish: Some(|conf, _| conf.zones.check()),
    install: |conf, program| {
        let find = |limit: &Limit| Some((conf.zones.defined.get(&limit.zone_name)?.clone(), limit.count_max));
        let limits: Vec<(Arc<ConnZone>, u32)> = conf.limits.iter().filter_map(find).collect();
        if !limits.is_empty() {
            let conf = conf.clone();
            program.on(Phase::Preaccess, move |req| Ready::Now(conf.check(&limits, req)));
        }
    },
    example: "
        limit_conn_zone $binary_remote_addr zone=addresses:10m;
        server {
            listen 127.0.0.1:8081;
            location /download/ { limit_conn addresses 2; }
        }
    ",
    ..Module::named("limit_conn")
};

fn limit_conn(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (zone, number) = (&directive.args[0], &directive.args[1]);
    let emerg = |message: String| Diagnostic::new(Severity::Emerg, number.span, message);
    if conf.limits.iter().any(|limit| limit.zone_name == zone.value) {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    let count_max = match values::integer(number.value.as_bstr()) {
        Ok(count @ 1..=COUNT_MAX) => count as u32,
        Ok(1..) => return Err(emerg(format!("connection limit must be less {COUNT_MAX}"))),
        _ => return Err(emerg(format!("invalid number of connections \"{}\"", number.value))),
    };
    match build.http_level() {
        Some(http) if http != build.level() => build.conf_mut(&MODULE, http).zones.use_zone(zone.value.as_bstr(), zone),
        _ => conf.zones.use_zone(zone.value.as_bstr(), zone),
    }
    conf.limits.push(Limit { zone_name: zone.value.clone(), count_max });
    Ok(())
}

/// Where a request was counted; its end takes that back.
#[derive(Default)]
struct Counted {
    status: Cell<Option<&'static str>>,
    places: RefCell<Vec<(Arc<ConnZone>, Vec<u8>)>>,
}

impl Counted {
    fn take_back(&self) {
        for (zone, key) in self.places.take() {
            let mut shard = zone.state.shard(&key);
            match shard.entries.get_mut(&*key) {
                Some(count) if *count > 1 => *count -= 1,
                _ => shard.remove(&key),
            }
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Counts a request; `false` when there are too many, or no room for the key.
fn count(zone: &ConnZone, key: &[u8], count_max: u32) -> bool {
    let mut shard = zone.state.shard(key);
    if let Some(count) = shard.entries.get_mut(key) {
        let room = *count < count_max;
        *count += u32::from(room);
        return room;
    }
    let room = shard.has_room(key);
    if room {
        shard.insert(key, 1);
    }
    room
}

impl Conf {
    fn check(&self, limits: &[(Arc<ConnZone>, u32)], req: &Rc<Request>) -> Step {
        let counted = req.lasting_context::<Counted>();
        if counted.status.get().is_some() {
            return Step::Declined;
        }
        for (zone, count_max) in limits {
            let key = zone.key.eval(req);
            if key.is_empty() {
                continue;
            }
            if key.len() > KEY_BYTES_MAX {
                let (text, shown) = (&zone.key_text, key.as_bstr());
                req.log(
                    Level::Error,
                    format_args!("the value of the \"{text}\" key is more than {KEY_BYTES_MAX} bytes: \"{shown}\""),
                );
                continue;
            }
            counted.status.set(Some("PASSED"));
            if count(zone, &key, *count_max) {
                counted.places.borrow_mut().push((zone.clone(), key));
                continue;
            }
            counted.take_back();
            let dry_run = self.limit_conn_dry_run == Some(true);
            let shown_dry_run = if dry_run { ", dry run" } else { "" };
            let level = log_level(self.limit_conn_log_level);
            req.log(level, format_args!("limiting connections{shown_dry_run} by zone \"{}\"", zone.name));
            counted.status.set(Some(if dry_run { "REJECTED_DRY_RUN" } else { "REJECTED" }));
            if dry_run {
                return Step::Declined;
            }
            return Step::Status(self.limit_conn_status.map_or(503, |status| status as u16));
        }
        Step::Declined
    }
}
