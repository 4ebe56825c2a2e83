//! `proxy_cache_path` and its kin: the zones of a configuration.
//!
//! nginx gives each kind of upstream zones of its own. Here a zone is a zone: any kind may use it by name.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, Span, ast, values};

use super::{
    key::Levels,
    manager,
    zone::{Care, Goes, Place, Zone, capacity_of},
};
use crate::{
    conf::{Build, LevelId},
    module::{Context, Directive, Module},
    request::Request,
};

/// Smallest size of a zone: nginx's, which is two pages.
const ZONE_BYTES_MIN: u64 = 8192;

/// A zone that a directive names: known when the whole configuration is.
pub(crate) type Slot = Arc<OnceLock<Arc<Zone>>>;

/// The zones, and who wants which.
#[derive(Debug, Default)]
pub struct Conf {
    zones: HashMap<BString, Arc<Zone>>,
    required: Vec<Required>,
    /// Directories of zones, and where they were named.
    directories: Vec<(PathBuf, Span)>,
}

#[derive(Debug)]
struct Required {
    directive: BString,
    zone: BString,
    span: Span,
    slot: Slot,
}

const fn cache_path(name: &'static str) -> Directive<Conf> {
    Directive::custom(name, 2, u16::MAX, parse)
        .within(Context::HTTP)
        .syntax(
            "path [levels=levels] [use_temp_path=on|off] keys_zone=name:size [inactive=time] [max_size=size] \
             [min_free=size] [manager_files=number] [manager_sleep=time] [manager_threshold=time] \
             [loader_files=number] [loader_sleep=time] [loader_threshold=time] [purger=on|off] [purger_files=number] [purger_sleep=time] \
             [purger_threshold=time] [memory=size]",
        )
        .doc("A directory for responses that are kept, and the zone of memory that knows which are there.")
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        cache_path("proxy_cache_path"),
        cache_path("fastcgi_cache_path"),
        cache_path("scgi_cache_path"),
        cache_path("uwsgi_cache_path"),
    ],
    finish: Some(|conf, build| {
        for Required { directive, zone, span, slot } in std::mem::take(&mut conf.required) {
            match conf.zones.get(&zone) {
                Some(found) => drop(slot.set(found.clone())),
                None => {
                    let message = format!("\"{directive}\" zone \"{zone}\" is unknown");
                    build.diagnostics.push(Diagnostic::new(Severity::Emerg, span, message));
                }
            }
        }
        for (directory, span) in std::mem::take(&mut conf.directories) {
            if build.temp_paths.contains(&directory) {
                build.diagnostics.push(used_twice(&directory, span, "a directory for temporary files"));
            } else {
                build.temp_paths.push(directory);
            }
        }
        Ok(())
    }),
    init_worker: Some(|conf| {
        conf.zones
            .values()
            .try_for_each(|zone| manager::start(zone))
            .map_err(|error| format!("no thread for a cache: {error}"))
    }),
    example: "
        proxy_cache_path /var/cache/tidegate levels=1:2 keys_zone=pages:10m max_size=1g inactive=1h use_temp_path=off;
        server {
            location / {
                proxy_pass http://127.0.0.1:8081;
                proxy_cache pages;
                proxy_cache_valid 200 10m;
                add_header X-Cache $upstream_cache_status;
            }
        }
    ",
    ..Module::named("cache")
};

/// The zone called `name`, once the whole configuration is read. `directive` wants it, at `span`.
pub(crate) fn require(build: &mut Build<'_>, directive: &BStr, name: &BStr, span: Span) -> Slot {
    let slot = Slot::default();
    let http = build.http_level().unwrap_or(LevelId(0));
    let required = Required { directive: directive.to_owned(), zone: name.to_owned(), span, slot: slot.clone() };
    build.conf_mut(&MODULE, http).required.push(required);
    slot
}

impl Request {
    /// The zone called `name`.
    pub(crate) fn cache_zone(&self, name: &BStr) -> Option<Arc<Zone>> {
        self.conf().http_conf(&MODULE).zones.get(name).cloned()
    }
}

/// The zones would serve each other's entries, and not know of each other's purges.
fn used_twice(directory: &Path, span: Span, other: &str) -> Diagnostic {
    let message = format!("the same path name \"{}\" used for a zone and for {other}", directory.display());
    Diagnostic::new(Severity::Emerg, span, message)
}

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

/// What the parameters say.
struct Params {
    levels: Levels,
    use_temp_path: bool,
    zone: Option<(BString, usize)>,
    care: Care,
}

/// Source: nginx, `ngx_http_file_cache_set_slot`.
fn parse(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let goes = || Goes { files: 100, pause: Duration::from_millis(50), longest: Duration::from_millis(200) };
    let care = Care {
        inactive: Duration::from_secs(600),
        max_bytes: u64::MAX,
        min_free_bytes: 0,
        loader: goes(),
        manager: goes(),
        purger: Goes { longest: Duration::from_millis(50), ..goes() },
        memory_bytes: 0,
    };
    let mut params = Params { levels: [0; 3], use_temp_path: true, zone: None, care };
    for arg in &directive.args[1..] {
        params.take(arg)?;
    }
    let Some((name, capacity)) = params.zone else {
        let message = format!("\"{}\" must have \"keys_zone\" parameter", directive.name());
        return Err(Diagnostic::new(Severity::Emerg, directive.name.span, message));
    };
    if conf.zones.contains_key(&name) {
        return Err(emerg(&directive.args[0], format!("duplicate zone \"{name}\"")));
    }
    let path = &directive.args[0];
    let directory: PathBuf = build.full_path(path.value.as_bstr()).components().collect();
    if conf.directories.iter().any(|(other, _)| *other == directory) {
        return Err(used_twice(&directory, path.span, "another zone"));
    }
    conf.directories.push((directory.clone(), path.span));
    let place = Place { name: name.clone(), directory, levels: params.levels, capacity };
    conf.zones.insert(name, Arc::new(Zone::new(place, params.use_temp_path, params.care)));
    Ok(())
}

impl Params {
    fn take(&mut self, arg: &ast::Arg) -> Result<(), Diagnostic> {
        const NAMES: [&str; 17] = [
            "memory=",
            "levels=",
            "use_temp_path=",
            "keys_zone=",
            "inactive=",
            "max_size=",
            "min_free=",
            "loader_files=",
            "loader_sleep=",
            "loader_threshold=",
            "manager_files=",
            "manager_sleep=",
            "manager_threshold=",
            "purger=",
            "purger_files=",
            "purger_sleep=",
            "purger_threshold=",
        ];
        let name = NAMES.into_iter().find(|name| arg.value.starts_with(name.as_bytes()));
        let name = name.ok_or_else(|| Diagnostic::invalid_parameter(&arg.value, arg.span, NAMES))?;
        let value = arg.value[name.len()..].as_bstr();
        let bad = || emerg(arg, format!("invalid {} value \"{}\"", name.trim_end_matches('='), arg.value));
        let care = &mut self.care;
        match name {
            "levels=" => {
                self.levels =
                    levels(value).ok_or_else(|| emerg(arg, format!("invalid \"levels\" \"{}\"", arg.value)))?
            }
            "use_temp_path=" => {
                self.use_temp_path = values::flag(value).map_err(|_| {
                    let message =
                        format!("invalid use_temp_path value \"{}\", it must be \"on\" or \"off\"", arg.value);
                    emerg(arg, message)
                })?;
            }
            "keys_zone=" => {
                let zone = keys_zone(value);
                self.zone = Some(zone.ok_or_else(|| emerg(arg, format!("invalid keys zone size \"{}\"", arg.value)))?);
            }
            "inactive=" => care.inactive = values::time_seconds(value).map_err(|_| bad())?,
            "memory=" => care.memory_bytes = values::offset(value).map_err(|_| bad())?,
            "max_size=" => care.max_bytes = values::offset(value).map_err(|_| bad())?,
            "min_free=" => care.min_free_bytes = values::offset(value).map_err(|_| bad())?,
            // Accepted: the files of what was purged are always removed.
            "purger=" => drop(values::flag(value).map_err(|_| bad())?),
            _ => {
                let (goes, what) = match name.split_once('_') {
                    Some(("loader", what)) => (&mut care.loader, what),
                    Some(("manager", what)) => (&mut care.manager, what),
                    Some((_, what)) => (&mut care.purger, what),
                    None => return Err(bad()),
                };
                take_goes(goes, what, value).ok_or_else(bad)?;
            }
        }
        Ok(())
    }
}

/// `files=number`, `sleep=time` or `threshold=time` of work in portions.
fn take_goes(goes: &mut Goes, what: &str, value: &BStr) -> Option<()> {
    match what {
        "files=" => goes.files = values::integer(value).ok().filter(|files| *files > 0)?,
        "sleep=" => goes.pause = values::time(value).ok()?,
        _ => goes.longest = values::time(value).ok()?,
    }
    Some(())
}

/// `1:2`: at most three numbers, each 1 or 2.
fn levels(value: &BStr) -> Option<Levels> {
    let mut levels = [0; 3];
    for (index, level) in value.split_str(b":").enumerate() {
        *levels.get_mut(index)? = match level {
            b"1" => 1,
            b"2" => 2,
            _ => return None,
        };
    }
    Some(levels)
}

/// `name:size`: the name, and how many entries there are room for.
fn keys_zone(value: &BStr) -> Option<(BString, usize)> {
    let (name, size) = value.rsplit_once_str(b":")?;
    let size = values::size(size.as_bstr()).ok().filter(|size| *size >= ZONE_BYTES_MIN)?;
    (!name.is_empty()).then(|| (name.into(), capacity_of(size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_few_and_small() {
        #[track_caller]
        fn check(text: &str, expected: Option<Levels>) {
            assert_eq!(levels(text.into()), expected, "{text}");
        }
        check("1", Some([1, 0, 0]));
        check("1:2", Some([1, 2, 0]));
        check("2:2:2", Some([2, 2, 2]));
        for bad in ["", "0", "3", "1:", ":1", "1:2:1:1", "1,2", "11"] {
            check(bad, None);
        }
    }

    #[test]
    fn zones_have_a_name_and_a_size() {
        assert_eq!(keys_zone("a:1m".into()), Some(("a".into(), 8192)));
        for bad in ["a", "a:", ":1m", "a:x", "a:8191"] {
            assert_eq!(keys_zone(bad.into()), None, "{bad}");
        }
    }
}
