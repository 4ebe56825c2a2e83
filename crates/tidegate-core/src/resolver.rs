//! `resolver`: which name servers are asked for the addresses of names.
//!
//! Asking them is [`tidegate_net::resolver`].
//!
//! Source: nginx, `resolver` in `ngx_http_core_module`.

use std::{
    ffi::OsStr,
    net::{IpAddr, SocketAddr},
    os::unix::ffi::OsStrExt,
    sync::Arc,
    time::Duration,
};

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_net::resolver::{self as names, DNS_PORT, ResolveError, Resolved, Resolver, Settings};

use crate::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    upstream::{Address, url::Url},
};

/// Longest time to look up a name, unless `resolver_timeout` says otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// `resolver`; `None` inside for the system's.
    pub resolver: Option<Arc<Resolver>>,
    /// `resolver_timeout`
    pub resolver_timeout: Option<Duration>,
}

const PLACES: Context = Context::ALL.or(Context::UPSTREAM);

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("resolver", 1, u16::MAX, resolver)
            .within(PLACES)
            .syntax("address ... [local=on|off|path] [valid=time] [ipv4=on|off] [ipv6=on|off] [status_zone=zone]")
            .doc("Name servers; without this directive the system's resolver is asked. `local` takes those of a `resolv.conf`."),
        Directive::time("resolver_timeout", |c: &mut Conf| &mut c.resolver_timeout)
            .within(PLACES)
            .default("30s")
            .doc("Longest time to look up a name."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; resolver, resolver_timeout);
    },
    example: "
        resolver 127.0.0.53 valid=30s;
        resolver_timeout 5s;
    ",
    ..Module::named("resolver")
};

impl Conf {
    /// Looks up the addresses of `name`. May be called on workers' threads only.
    ///
    /// # Errors
    /// [`ResolveError`].
    pub async fn resolve(&self, name: &str) -> Result<Resolved, ResolveError> {
        names::resolve(self.resolver.as_ref(), name, self.resolver_timeout.unwrap_or(TIMEOUT_DEFAULT)).await
    }
}

fn resolver(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.resolver.is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    let mut settings = Settings { servers: Vec::new(), valid: None, ipv4: true, ipv6: true };
    for arg in &directive.args {
        let text: &[u8] = &arg.value;
        let invalid = || Diagnostic::new(Severity::Emerg, arg.span, format!("invalid parameter: {}", arg.value));
        if let Some(time) = text.strip_prefix(b"valid=") {
            settings.valid = Some(values::time_seconds(time.as_bstr()).map_err(|_| invalid())?);
        } else if let Some(flag) = text.strip_prefix(b"ipv4=") {
            settings.ipv4 = values::flag(flag.as_bstr()).map_err(|_| invalid())?;
        } else if let Some(flag) = text.strip_prefix(b"ipv6=") {
            settings.ipv6 = values::flag(flag.as_bstr()).map_err(|_| invalid())?;
        } else if let Some(local) = text.strip_prefix(b"local=") {
            let path: &[u8] = match local {
                b"on" => b"/etc/resolv.conf",
                b"off" => continue,
                path => path,
            };
            let text = std::fs::read(OsStr::from_bytes(path)).map_err(|error| {
                Diagnostic::new(Severity::Emerg, arg.span, format!("\"{}\" cannot be read: {error}", path.as_bstr()))
            })?;
            settings.servers.extend(system_servers(&text));
        } else if !text.starts_with(b"status_zone=") {
            let emerg = |message: String| Diagnostic::new(Severity::Emerg, arg.span, message);
            let url = Url::parse(text.as_bstr(), false)
                .map_err(|error| emerg(format!("{error} in resolver \"{}\"", arg.value)))?;
            let found =
                url.look_up(DNS_PORT).map_err(|_| emerg(format!("host not found in resolver \"{}\"", arg.value)))?;
            settings.servers.extend(found.into_iter().filter_map(|address| match address {
                Address::Inet(address) => Some(address),
                Address::Unix(_) => None,
            }));
        }
    }
    if !settings.ipv4 && !settings.ipv6 {
        return Err(Diagnostic::new(
            Severity::Emerg,
            directive.name.span,
            "\"ipv4\" and \"ipv6\" cannot both be \"off\"",
        ));
    }
    if settings.servers.is_empty() {
        return Err(Diagnostic::new(Severity::Emerg, directive.name.span, "no name servers defined"));
    }
    conf.resolver = Some(Arc::new(Resolver::new(settings)));
    Ok(())
}

/// The name servers that a `resolv.conf` names.
///
/// Source: resolv.conf(5); `local=` is an addition of OpenResty's.
fn system_servers(text: &[u8]) -> impl Iterator<Item = SocketAddr> {
    text.lines().filter_map(|line| {
        let mut words = line.fields_with(|c| c.is_ascii_whitespace());
        if words.next() != Some(b"nameserver") {
            return None;
        }
        let address: IpAddr = words.next()?.to_str().ok()?.parse().ok()?;
        Some(SocketAddr::new(address, DNS_PORT))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_of_the_system() {
        #[track_caller]
        fn check(text: &str, expected: &[&str]) {
            let found: Vec<String> = system_servers(text.as_bytes()).map(|server| server.to_string()).collect();
            assert_eq!(found, expected, "{text}");
        }
        check("", &[]);
        check("# comment\nsearch example.com\nnameserver 10.0.0.1\n\tnameserver  ::1 \n", &["10.0.0.1:53", "[::1]:53"]);
        check("nameserver\nnameserver nonsense\nnameservers 10.0.0.1\nnameserver 10.0.0.2 # x", &["10.0.0.2:53"]);
    }
}
