//! `map`: variables whose value depends on that of others.
//!
//! Follows nginx's `ngx_http_map_module`.

use std::collections::HashMap;

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    main_conf::block_of,
    module::{Context, Directive, Module},
    regex::{Regex, RegexOptions},
    request::Request,
    template::Template,
};

use crate::hostnames::{HostnameError, Hostnames};

/// What the directives say.
#[derive(Debug, Default)]
pub struct Conf {
    map_hash_bucket_size: Option<u64>,
    map_hash_max_size: Option<u64>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::block("map", 2, 2, map)
            .within(Context::HTTP)
            .syntax("string $variable { ... }")
            .doc("Defines a variable by a table of values of another."),
        Directive::number("map_hash_bucket_size", |c: &mut Conf| &mut c.map_hash_bucket_size)
            .within(Context::HTTP)
            .doc("Accepted: tables grow as they need."),
        Directive::number("map_hash_max_size", |c: &mut Conf| &mut c.map_hash_max_size)
            .within(Context::HTTP)
            .doc("Accepted: tables grow as they need."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; map_hash_bucket_size, map_hash_max_size);
    },
    example: "
        map $http_host $site {
            hostnames;
            default        main;
            *.example.com  example;
        }
    ",
    ..Module::named("map")
};

/// A map's table.
#[derive(Debug)]
struct Map {
    source: Template,
    /// A dot at the end of the source is dropped, and names may have wildcards.
    hostnames: bool,
    names: Hostnames<ValueIndex>,
    patterns: Vec<(Regex, ValueIndex)>,
    default: Option<Template>,
    values: Vec<Template>,
}

/// Where a value stands in [`Map::values`]: most tables have few values, and many names for each.
type ValueIndex = usize;

/// Values without variables that a table has while it is read.
type Known = HashMap<BString, ValueIndex>;

fn emerg(arg: &ast::Arg, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

fn map(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (source, target) = (&directive.args[0], &directive.args[1]);
    let source = build.template(source)?;
    let name = build.variable_name(target)?.to_owned();
    let entries = block_of(directive);
    let mut map = Map {
        source,
        hostnames: false,
        names: Hostnames::default(),
        patterns: Vec::new(),
        default: None,
        values: Vec::new(),
    };
    let mut volatile = false;
    let mut known = Known::new();
    for entry in entries {
        match (&**entry.name.value, &*entry.args) {
            (b"hostnames", []) => map.hostnames = true,
            (b"volatile", []) => volatile = true,
            (_, [value]) => {
                if let Err(diagnostic) = map.add(&entry.name, value, &mut known, build) {
                    build.diagnostics.push(diagnostic);
                }
            }
            _ => return Err(emerg(&entry.name, "invalid number of the map parameters")),
        }
    }
    let compute = Box::new(move |req: &Request, out: &mut Vec<u8>| map.compute(req, out));
    build
        .variables
        .define_computed(name.as_bstr(), !volatile, compute)
        .map_err(|_| emerg(target, format!("the duplicate \"{name}\" variable")))?;
    Ok(())
}

impl Map {
    fn add(
        &mut self,
        key: &ast::Arg,
        value: &ast::Arg,
        known: &mut Known,
        build: &mut Build<'_>,
    ) -> Result<(), Diagnostic> {
        let value = build.template(value)?;
        let text = &key.value;
        if text == "default" {
            return match self.default.replace(value) {
                None => Ok(()),
                Some(_) => Err(emerg(key, "duplicate default map parameter")),
            };
        }
        if let Some(pattern) = text.strip_prefix(b"~") {
            let (pattern, options) = match pattern.strip_prefix(b"*") {
                Some(pattern) => (pattern, RegexOptions::CASELESS),
                None => (pattern, RegexOptions::NONE),
            };
            let regex = Regex::new(pattern, options).map_err(|error| emerg(key, error.to_string()))?;
            build.define_captures(&regex, key.span)?;
            let value = self.index_of(value, known);
            self.patterns.push((regex, value));
            return Ok(());
        }
        let value = self.index_of(value, known);
        // A backslash makes special words ordinary.
        let name: BString = match text.strip_prefix(b"\\") {
            Some(rest) if !rest.is_empty() => rest.into(),
            _ => text.clone(),
        };
        let added = if self.hostnames { self.names.add(&name, value) } else { self.names.add_exact(&name, value) };
        added.map_err(|error| match error {
            HostnameError::Invalid => emerg(key, format!("invalid hostname or wildcard \"{name}\"")),
            HostnameError::Conflict => emerg(key, format!("conflicting parameter \"{name}\"")),
        })
    }

    fn index_of(&mut self, value: Template, known: &mut Known) -> ValueIndex {
        let next = self.values.len();
        if let Some(text) = value.as_literal() {
            let index = *known.entry(text.into()).or_insert(next);
            if index != next {
                return index;
            }
        }
        self.values.push(value);
        next
    }

    fn compute(&self, req: &Request, out: &mut Vec<u8>) -> bool {
        let source = self.source.eval_cow(req);
        let mut text = &*source;
        if self.hostnames
            && let Some(shorter) = text.strip_suffix(b".")
        {
            text = shorter;
        }
        if let Some(value) = self.find(req, text).map(|index| &self.values[index]).or(self.default.as_ref()) {
            value.write(req, out);
        }
        true
    }

    fn find(&self, req: &Request, text: &[u8]) -> Option<ValueIndex> {
        let found = if self.names.is_empty() {
            None
        } else if text.iter().any(u8::is_ascii_uppercase) {
            self.names.find(&text.to_ascii_lowercase())
        } else {
            self.names.find(text)
        };
        if found.is_some() || text.is_empty() {
            return found.copied();
        }
        for (regex, value) in &self.patterns {
            match regex.captures(text) {
                Ok(Some(captures)) => {
                    req.set_named_captures(regex, text, &captures);
                    req.set_captures(text, captures);
                    return Some(*value);
                }
                Ok(None) => {}
                Err(error) => {
                    let (text, pattern) = (text.as_bstr(), regex.pattern());
                    let level = tidegate_net::log::Level::Alert;
                    req.log(level, format_args!("{error} on \"{text}\" using \"{pattern}\""));
                    return None;
                }
            }
        }
        None
    }
}
