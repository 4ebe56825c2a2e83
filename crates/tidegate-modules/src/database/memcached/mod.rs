//! `listen … memcached`: items in memory or rows of a table for clients of memcached.
//!
//! The protocol is [`tidegate_http::memcached_server`]'s, what requests do to items [`item`]'s. Items are kept in a [`mod@zone`] or are the
//! [`rows`] of a [`table`], to which requests go in a [`batch`]. [`port`] is the connection: what has come is answered together, and a
//! connection on which nothing happens is parked.

mod auth;
mod batch;
mod item;
mod port;
mod rows;
mod spec;
mod stats;
mod table;
mod zone;

use std::sync::{Arc, OnceLock};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Diagnostics, Level as Severity, Span, ast, values};
use tidegate_core::{conf::Build, inherit as inherit_fields, listen};
use tidegate_net::listeners::ListenAddr;
use tidegate_sql::Engine;

use self::{
    port::Port,
    spec::{Items, Spec},
    table::Place,
    zone::{ZONE_BYTES_MIN, Zone},
};
use super::{listen::add, schemas::on_a_thread};

/// The port of an address without one.
const PORT_DEFAULT: u16 = 11211;
/// Bytes of the largest item, where `memcached_item_size_max` says nothing.
///
/// Source: memcached, `-I`.
const ITEM_BYTES_MAX: usize = 1 << 20;

/// What the directives say.
#[derive(Default)]
pub(super) struct Conf {
    /// `memcached_zone`s
    zones: Option<Vec<ZoneConf>>,
    /// `memcached_item_size_max`
    pub(super) item_size_max: Option<usize>,
    /// `listen`s: where they stand, what they name, and whether clients log in.
    listens: Vec<(Span, Arc<Spec>)>,
}

#[derive(Clone)]
struct ZoneConf {
    name: BString,
    bytes: usize,
    /// The same for all workers, and for those that come later.
    open: Arc<OnceLock<Arc<Zone>>>,
}

impl Conf {
    /// The items of a zone.
    fn open_zone(&self, name: &[u8]) -> Option<Arc<Zone>> {
        let zone = self.zones.iter().flatten().find(|zone| zone.name == name)?;
        let open = || Zone::open(&zone.name, zone.bytes, self.item_bytes_max());
        Some(zone.open.get_or_init(open).clone())
    }

    fn item_bytes_max(&self) -> usize {
        self.item_size_max.unwrap_or(ITEM_BYTES_MAX)
    }
}

/// Takes over what an inner level does not say.
pub(super) fn inherit(child: &mut Conf, parent: &Conf) {
    inherit_fields!(child, parent; zones, item_size_max);
    if child.listens.is_empty() {
        child.listens.clone_from(&parent.listens);
    }
}

/// `memcached_zone`
pub(super) fn zone(conf: &mut Conf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let [name, size] = [&directive.args[0], &directive.args[1]];
    let bytes = values::size(size.value.as_bstr()).ok().and_then(|bytes| usize::try_from(bytes).ok());
    let Some(bytes) = bytes else {
        let message = format!("invalid zone size \"{}\"", size.value);
        return Err(Diagnostic::new(Severity::Emerg, size.span, message));
    };
    if bytes < ZONE_BYTES_MIN {
        let message = format!("zone \"{}\" is too small", name.value);
        return Err(Diagnostic::new(Severity::Emerg, size.span, message).with_hint("it takes 1m at least"));
    }
    let zones = conf.zones.get_or_insert_default();
    if zones.iter().any(|zone| zone.name == name.value) {
        let message = format!("duplicate zone \"{}\"", name.value);
        return Err(Diagnostic::new(Severity::Emerg, name.span, message));
    }
    zones.push(ZoneConf { name: name.value.clone(), bytes, open: Arc::default() });
    Ok(())
}

/// `listen … memcached`
pub(super) fn listen(
    conf: &mut super::Conf,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    let (mut items, mut asks) = (None, false);
    let specs = listen::of_service(directive, PORT_DEFAULT, &["zone=", "table=", "auth"], |arg| {
        if let Some(name) = arg.value.strip_prefix(b"zone=") {
            items = Some(Items::Zone(name.into()));
        } else if let Some(name) = arg.value.strip_prefix(b"table=") {
            let names = std::str::from_utf8(name).ok().and_then(|name| name.split_once('.'));
            let names = names.filter(|(schema, table)| !schema.is_empty() && !table.is_empty());
            let Some((schema, table)) = names else {
                let message = format!("\"{}\" names no table", arg.value);
                return Err(
                    Diagnostic::new(Severity::Emerg, arg.span, message).with_hint("write \"table=SCHEMA.TABLE\"")
                );
            };
            items = Some(Items::Table(Arc::new(Place::new(schema, table))));
        } else if arg.value == "auth" {
            asks = true;
        } else {
            return Ok(false);
        }
        Ok(true)
    })?;
    let protocol = &directive.args[1];
    let Some(items) = items else {
        let message = "\"listen ... memcached\" names no place for its items";
        let hint = "write \"zone=NAME\" or \"table=SCHEMA.TABLE\"";
        return Err(Diagnostic::new(Severity::Emerg, protocol.span, message).with_hint(hint));
    };
    let is_near = |addr: &ListenAddr| match addr {
        ListenAddr::Unix(_) => true,
        ListenAddr::Tcp(address) => address.ip().to_canonical().is_loopback(),
    };
    let asks_for_password = asks || !specs.iter().all(|spec| is_near(&spec.addr));
    let spec = Arc::new(Spec::new(items, asks_for_password));
    conf.memcached.listens.push((directive.args[0].span, spec.clone()));
    add(directive, specs, build, Arc::new(move |config| Port::open(config, &spec)));
    Ok(())
}

/// Finds ports without a place for items, and those at which nobody could log in.
pub(super) fn check(conf: &super::Conf, diagnostics: &mut Diagnostics) {
    let memcached = &conf.memcached;
    for (span, spec) in &memcached.listens {
        if let Items::Zone(name) = &spec.items
            && !memcached.zones.iter().flatten().any(|zone| zone.name == *name)
        {
            let hint = format!("write \"memcached_zone {name} 64m;\" in the \"database\" block");
            diagnostics.error(*span, format!("zone \"{name}\" is unknown")).hint(hint);
        }
        let may_log_in = conf.users.iter().flatten().any(|user| !user.password.is_empty());
        if spec.asks_for_password && !may_log_in {
            diagnostics
                .error(*span, "nobody may log in through \"listen\": there is no \"user\" with a password")
                .hint("write \"user name password=...;\" for each account, or listen on 127.0.0.1");
        }
    }
}

/// Makes the tables of ports that are missing, and looks at the others. Waits for the disk.
///
/// # Errors
/// Why one of them cannot be used, as a sentence.
pub(super) fn prepare_tables(engine: &Engine, conf: &Conf) -> Result<(), String> {
    let places: Vec<_> = conf
        .listens
        .iter()
        .filter_map(|(_, spec)| match &spec.items {
            Items::Table(place) => Some(place.clone()),
            Items::Zone(_) => None,
        })
        .collect();
    if places.is_empty() {
        return Ok(());
    }
    let engine = engine.clone();
    on_a_thread(move || async move {
        for place in places {
            place.prepare(&engine).await?;
        }
        Ok(())
    })
}
