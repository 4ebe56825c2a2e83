//! `geo`: variables whose value depends on an address.
//!
//! Follows nginx's `ngx_http_geo_module`.

mod table;

use std::net::{IpAddr, Ipv4Addr};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    main_conf::block_of,
    module::{Context, Directive, Module},
    request::Request,
    template::{Part, Template},
};
use tidegate_net::Peer;

use self::table::{Networks, Ranges};
use crate::{network::Network, realip};

/// Nothing: the directive defines a variable.
#[derive(Debug, Default)]
pub struct Conf;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::block("geo", 1, 2, geo)
        .within(Context::HTTP)
        .syntax("[$address] $variable { ... }")
        .doc("Defines a variable whose value depends on the client's address, or another.")],
    example: "
        geo $is_local {
            default      0;
            127.0.0.0/8  1;
            10.0.0.0/8   1;
        }
    ",
    ..Module::named("geo")
};

/// What is looked up for clients without an address, as those of a Unix socket, and for text that is none.
///
/// Source: nginx, `INADDR_NONE`.
const NO_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);

/// Values by address.
#[derive(Debug)]
enum Table {
    Networks(Networks),
    Ranges(Ranges),
}

#[derive(Debug)]
struct Geo {
    /// Text of the address; `None` for the client's.
    address: Option<Template>,
    table: Table,
    default: BString,
    /// Proxies whose `X-Forwarded-For` counts.
    proxies: Vec<Network>,
    proxy_recursive: bool,
}

fn emerg(arg: &ast::Arg, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

fn geo(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (address, target) = match &*directive.args {
        [address, target] => {
            let name = build.variable_name(address)?;
            let part = Part::Variable(build.reference(name, address.span));
            (Some(Template::new(vec![part])), target)
        }
        _ => (None, &directive.args[0]),
    };
    let name = build.variable_name(target)?.to_owned();
    let mut geo = Geo {
        address,
        table: Table::Networks(Networks::default()),
        default: BString::default(),
        proxies: Vec::new(),
        proxy_recursive: false,
    };
    for (index, entry) in block_of(directive).iter().enumerate() {
        geo.apply(entry, index == 0, build)?;
    }
    let compute = Box::new(move |req: &Request, out: &mut Vec<u8>| {
        out.extend_from_slice(geo.find(req));
        true
    });
    build
        .variables
        .define_computed(name.as_bstr(), true, compute)
        .map_err(|_| emerg(target, format!("the duplicate \"{name}\" variable")))?;
    Ok(())
}

impl Geo {
    fn apply(&mut self, entry: &ast::Directive, first: bool, build: &mut Build<'_>) -> Result<(), Diagnostic> {
        let key = &entry.name;
        match (&**key.value, &*entry.args) {
            (b"ranges", []) if first => self.table = Table::Ranges(Ranges::default()),
            (b"ranges", []) => {
                let message = "the \"ranges\" directive must be the first directive inside \"geo\" block";
                return Err(emerg(key, message));
            }
            (b"proxy_recursive", []) => self.proxy_recursive = true,
            (b"proxy", [arg]) => {
                let network = Network::of_arg(&arg.value, arg, build);
                self.proxies.push(network.ok_or_else(|| emerg(arg, format!("invalid network \"{}\"", arg.value)))?);
            }
            (b"default", [value]) => {
                let old = std::mem::replace(&mut self.default, value.value.clone());
                if !old.is_empty() {
                    warn_of_duplicate(key, "default", &value.value, &old, build);
                }
            }
            (b"delete", [network]) => self.table.delete(network, build)?,
            (_, [value]) => self.table.add(key, &value.value, build)?,
            _ => return Err(emerg(key, "invalid number of the geo parameters")),
        }
        Ok(())
    }

    fn find(&self, req: &Request) -> &[u8] {
        let address = self.address_of(req).unwrap_or(NO_ADDRESS);
        let found = match &self.table {
            Table::Networks(networks) => networks.find(address),
            Table::Ranges(ranges) => ranges.find(address),
        };
        found.map_or(&self.default, |value| value)
    }

    /// The address to look up.
    fn address_of(&self, req: &Request) -> Option<IpAddr> {
        let address = match &self.address {
            Some(template) => template.eval(req).to_str().ok()?.parse().ok()?,
            None => match req.peer() {
                Peer::Inet(address) => address.ip(),
                Peer::Unix => return None,
            },
        };
        if self.proxies.is_empty() {
            return Some(address);
        }
        let main = req.main();
        let head = main.head.borrow();
        let lines = head.fields.iter_known(tidegate_http::Known::XForwardedFor);
        Some(realip::forwarded_address(address, lines, &self.proxies, self.proxy_recursive).unwrap_or(address))
    }
}

fn warn_of_duplicate(key: &ast::Arg, what: &str, value: &BString, old: &BString, build: &mut Build<'_>) {
    let message = format!("duplicate {what} \"{}\", value: \"{value}\", old value: \"{old}\"", key.value);
    build.diagnostics.push(Diagnostic::new(Severity::Warn, key.span, message));
}

impl Table {
    fn add(&mut self, key: &ast::Arg, value: &BString, build: &mut Build<'_>) -> Result<(), Diagnostic> {
        match self {
            Table::Networks(networks) => {
                let network = network_of(key, build)?;
                if let Some(old) = networks.insert(network, value.clone()) {
                    warn_of_duplicate(key, "network", value, &old, build);
                }
            }
            Table::Ranges(ranges) => {
                let (start, end) = range_of(key)?;
                match ranges.insert(start, end, value.clone()) {
                    Ok(None) => {}
                    Ok(Some(old)) => warn_of_duplicate(key, "range", value, &old, build),
                    Err(other) => {
                        return Err(emerg(key, format!("range \"{}\" overlaps \"{other}\"", key.value)));
                    }
                }
            }
        }
        Ok(())
    }

    fn delete(&mut self, key: &ast::Arg, build: &mut Build<'_>) -> Result<(), Diagnostic> {
        let (deleted, what) = match self {
            Table::Networks(networks) => (networks.remove(network_of(key, build)?), "network"),
            Table::Ranges(ranges) => {
                let (start, end) = range_of(key)?;
                (ranges.remove(start, end), "range")
            }
        };
        if !deleted {
            let message = format!("no {what} \"{}\" to delete", key.value);
            build.diagnostics.push(Diagnostic::new(Severity::Warn, key.span, message));
        }
        Ok(())
    }
}

fn network_of(arg: &ast::Arg, build: &mut Build<'_>) -> Result<Network, Diagnostic> {
    match Network::of_arg(&arg.value, arg, build) {
        Some(network) if network != Network::Unix => Ok(network),
        _ => Err(emerg(arg, format!("invalid network \"{}\"", arg.value))),
    }
}

fn range_of(arg: &ast::Arg) -> Result<(u32, u32), Diagnostic> {
    let address = |text: &[u8]| Some(text.to_str().ok()?.parse::<std::net::Ipv4Addr>().ok()?.to_bits());
    let range = arg.value.split_once_str(b"-").and_then(|(start, end)| Some((address(start)?, address(end)?)));
    match range {
        Some((start, end)) if start <= end => Ok((start, end)),
        _ => Err(emerg(arg, format!("invalid range \"{}\"", arg.value))),
    }
}
