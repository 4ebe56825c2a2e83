//! The directives that modules which ask upstreams have in common: `proxy_read_timeout`, `fastcgi_read_timeout` …
//!
//! A module makes its table with [`upstream_directives!`](crate::upstream_directives): it picks the groups that its protocol
//! has a use for, and adds its own directives behind them.

use std::sync::Arc;

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};

use super::{
    UpstreamConf, caching,
    failure::Failures,
    settings::{IGNORABLE, StoreTo},
    store::ACCESS_DEFAULT,
    url::{HostKind, Url},
};
use crate::conf::Build;

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

/// `…_next_upstream error timeout …;` with the words of the protocol.
///
/// # Errors
/// A word that is none of these.
pub fn next_upstream(
    conf: &mut UpstreamConf,
    directive: &ast::Directive,
    words: &'static [(&'static str, Failures)],
) -> Result<(), Diagnostic> {
    let set = conf.next_upstream.get_or_insert(Failures::NONE);
    for arg in &directive.args {
        let failures = values::word(arg.value.as_bstr(), words)
            .map_err(|_| Diagnostic::unknown_value(&arg.value, arg.span, words.iter().map(|(word, _)| *word)))?;
        *set = set.and(failures);
    }
    Ok(())
}

/// `…_ignore_headers X-Accel-Redirect …;`
///
/// # Errors
/// A field that has no effect anyway.
pub fn ignore_headers(conf: &mut UpstreamConf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let set = conf.ignore_headers.get_or_insert_default();
    for arg in &directive.args {
        let field = values::word(arg.value.as_bstr(), IGNORABLE).map_err(|_| {
            let known = IGNORABLE.iter().map(|(name, _)| *name);
            Diagnostic::unknown_value(&arg.value, arg.span, known)
        })?;
        *set = set.and(field);
    }
    Ok(())
}

/// `…_hide_header name;`, `…_pass_header name;`
pub fn add_name(list: &mut Option<Arc<Vec<BString>>>, directive: &ast::Directive) {
    let list = list.get_or_insert_default();
    Arc::make_mut(list).push(directive.args[0].value.clone());
}

/// `…_buffers number size;`
///
/// # Errors
/// Not a number and a size.
pub fn buffers(conf: &mut UpstreamConf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let (number, size) = (&directive.args[0], &directive.args[1]);
    let bad = |error: values::ValueError, arg| error.diagnostic(directive.name(), arg);
    let count = values::integer(number.value.as_bstr()).map_err(|error| bad(error, number))?;
    let bytes = values::size(size.value.as_bstr()).map_err(|error| bad(error, size))?;
    if count < 2 {
        return Err(emerg(number, format!("there must be at least 2 \"{}\"", directive.name())));
    }
    if bytes == 0 {
        return Err(Diagnostic::invalid_value(directive.name(), size.span));
    }
    let as_usize = |number| usize::try_from(number).unwrap_or(usize::MAX);
    fill(&mut conf.buffers, (as_usize(count), as_usize(bytes)), directive)
}

/// `…_limit_rate rate;`
///
/// # Errors
/// Not a size.
pub fn limit_rate(
    conf: &mut UpstreamConf,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    crate::limit_rate::size(&mut conf.limit_rate, directive, build)
}

/// `…_bind address [transparent] | off;`
///
/// # Errors
/// No address.
pub fn bind(conf: &mut UpstreamConf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let address = &directive.args[0];
    if address.value == "off" {
        return fill(&mut conf.bind, None, directive);
    }
    let transparent = match directive.args.get(1) {
        None => false,
        Some(word) if word.value == "transparent" => true,
        Some(word) => return Err(Diagnostic::invalid_parameter(&word.value, word.span, ["transparent"])),
    };
    let template = build.template(address)?;
    if let Some(text) = template.as_literal() {
        let url = Url::parse(text.as_bstr(), false);
        if !url.is_ok_and(|url| matches!(url.kind, HostKind::Ip(_))) {
            return Err(emerg(address, format!("invalid address \"{}\"", address.value)));
        }
    }
    fill(&mut conf.bind, Some((template, transparent)), directive)
}

/// Takes a value, once.
///
/// # Errors
/// There is one already.
pub fn fill<T>(field: &mut Option<T>, value: T, directive: &ast::Directive) -> Result<(), Diagnostic> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Diagnostic::duplicate(directive.name(), directive.name.span)),
    }
}

/// `…_temp_path path [level1 [level2 [level3]]];`
///
/// # Errors
/// Levels that are none.
pub fn temp_path(conf: &mut UpstreamConf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    crate::main_conf::check_temp_levels(directive)?;
    let path = &directive.args[0].value;
    build.temp_path(path);
    fill(&mut conf.temp_path, path.clone(), directive)
}

/// `…_cache zone | off;`
///
/// # Errors
/// An empty name, or responses are stored already.
pub fn cache(conf: &mut UpstreamConf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if matches!(conf.store, Some(Some(_))) {
        return Err(incompatible(directive, "_cache", "_store"));
    }
    caching::rules::cache(&mut conf.cache, directive, build)
}

/// The directive cannot stand beside the other one of its module.
fn incompatible(directive: &ast::Directive, own: &str, other: &str) -> Diagnostic {
    let name = directive.name().to_str_lossy();
    let other = format!("{}{other}", name.strip_suffix(own).unwrap_or(&name));
    let message = format!("\"{name}\" directive is incompatible with \"{other}\"");
    Diagnostic::new(Severity::Emerg, directive.name.span, message)
}

/// `…_store on | off | string;`
///
/// # Errors
/// An empty name, or responses are kept in a cache already.
pub fn store(conf: &mut UpstreamConf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    if arg.value != "off" && matches!(conf.cache.cache, Some(Some(_))) {
        return Err(incompatible(directive, "_store", "_cache"));
    }
    let store = match &**arg.value {
        b"off" => None,
        b"on" => Some(StoreTo::File),
        b"" => return Err(emerg(arg, "empty path".to_owned())),
        _ => Some(StoreTo::Path(build.template(arg)?)),
    };
    fill(&mut conf.store, store, directive)
}

/// `…_store_access users:permissions …;`
///
/// # Errors
/// Not the rights of the user, a group or all.
///
/// Source: nginx, `ngx_conf_set_access_slot`.
pub fn store_access(conf: &mut UpstreamConf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let (mut access, mut names_user) = (0, false);
    for arg in &directive.args {
        let invalid = || emerg(arg, format!("invalid value \"{}\"", arg.value));
        let (who, rights) = arg.value.split_once_str(b":").ok_or_else(invalid)?;
        let shift = match who {
            b"user" => 6,
            b"group" => 3,
            b"all" => 0,
            _ => return Err(invalid()),
        };
        names_user |= shift == 6;
        access |= match rights {
            b"rw" => 6,
            b"r" => 4,
            _ => return Err(invalid()),
        } << shift;
    }
    let access = if names_user { access } else { access | ACCESS_DEFAULT };
    fill(&mut conf.store_access, access, directive)
}

/// The table of a module that asks upstreams: the groups of common directives that it names, with its prefix, then its own.
///
/// `upstream_directives!("proxy", Conf, upstream; sockets, retries(WORDS, "error | …"), …; Directive::…, …)`: `Conf` has a
/// field `upstream` of the type [`UpstreamConf`].
///
/// - `sockets`: time limits and options of connections
/// - `aborts`: what becomes of a request whose client leaves
/// - `retries(words, syntax)`: failures after which another peer is asked, in the protocol's own words
/// - `requests`: what of the client's request is sent, and when
/// - `responses`: how responses are read, and kept until the client takes them
/// - `headers`: rules for the fields of responses
/// - `store`: responses that become files
/// - `tls`: how TLS is spoken with servers
/// - `cache(words, syntax, tables)`: responses that are kept for other requests; with the failures after which an old one is served,
///   and the setter of `…_cache_tables`
/// - `lowat`: an option of sockets that Linux does not have
#[macro_export]
macro_rules! upstream_directives {
    (@ $prefix:literal, $conf:ty, $field:ident, [sockets, $($groups:tt)*] [$($done:tt)*]) => {
        $crate::upstream_directives!(@ $prefix, $conf, $field, [$($groups)*] [$($done)*
            $crate::module::Directive::time(concat!($prefix, "_connect_timeout"),
                |c: &mut $conf| &mut c.$field.connect_timeout)
                .default("60s").doc("Longest time to connect to a server."),
            $crate::module::Directive::time(concat!($prefix, "_send_timeout"),
                |c: &mut $conf| &mut c.$field.send_timeout)
                .default("60s").doc("Longest pause while a server takes a request."),
            $crate::module::Directive::time(concat!($prefix, "_read_timeout"),
                |c: &mut $conf| &mut c.$field.read_timeout)
                .default("60s").doc("Longest pause while a server sends a response."),
            $crate::module::Directive::flag(concat!($prefix, "_socket_keepalive"),
                |c: &mut $conf| &mut c.$field.socket_keepalive)
                .default("off").doc("TCP looks after connections to servers."),
            $crate::module::Directive::custom(concat!($prefix, "_bind"), 1, 2,
                |c: &mut $conf, d, b| $crate::upstream::directives::bind(&mut c.$field, d, b))
                .syntax("address [transparent] | off").doc("Address that connections to servers come from."),
        ])
    };
    (@ $prefix:literal, $conf:ty, $field:ident, [aborts, $($groups:tt)*] [$($done:tt)*]) => {
        $crate::upstream_directives!(@ $prefix, $conf, $field, [$($groups)*] [$($done)*
            $crate::module::Directive::flag(concat!($prefix, "_ignore_client_abort"),
                |c: &mut $conf| &mut c.$field.ignore_client_abort)
                .default("off").doc("A request goes on when its client leaves."),
        ])
    };
    (@ $prefix:literal, $conf:ty, $field:ident, [retries($words:expr, $syntax:literal), $($groups:tt)*] [$($done:tt)*]) => {
        $crate::upstream_directives!(@ $prefix, $conf, $field, [$($groups)*] [$($done)*
            $crate::module::Directive::custom(concat!($prefix, "_next_upstream"), 1, u16::MAX,
                |c: &mut $conf, d, _| $crate::upstream::directives::next_upstream(&mut c.$field, d, $words))
                .syntax($syntax)
                .default("error timeout").doc("Failures after which another server is asked."),
            $crate::module::Directive::number(concat!($prefix, "_next_upstream_tries"),
                |c: &mut $conf| &mut c.$field.next_upstream_tries)
                .default("0").doc("Most servers that are asked."),
            $crate::module::Directive::time(concat!($prefix, "_next_upstream_timeout"),
                |c: &mut $conf| &mut c.$field.next_upstream_timeout)
                .default("0").doc("Time after which no other server is asked."),
        ])
    };
    (@ $prefix:literal, $conf:ty, $field:ident, [requests, $($groups:tt)*] [$($done:tt)*]) => {
        $crate::upstream_directives!(@ $prefix, $conf, $field, [$($groups)*] [$($done)*
            $crate::module::Directive::flag(concat!($prefix, "_request_buffering"),
                |c: &mut $conf| &mut c.$field.request_buffering)
                .default("on").doc("Requests are sent when their body is complete."),
            $crate::module::Directive::flag(concat!($prefix, "_pass_request_headers"),
                |c: &mut $conf| &mut c.$field.pass_request_headers)
                .default("on").doc("The client's fields are sent to the server."),
            $crate::module::Directive::flag(concat!($prefix, "_pass_request_body"),
                |c: &mut $conf| &mut c.$field.pass_request_body)
                .default("on").doc("The client's body is sent to the server."),
        ])
    };
    (@ $prefix:literal, $conf:ty, $field:ident, [responses, $($groups:tt)*] [$($done:tt)*]) => {
        $crate::upstream_directives!(@ $prefix, $conf, $field, [$($groups)*] [$($done)*
            $crate::module::Directive::flag(concat!($prefix, "_buffering"),
                |c: &mut $conf| &mut c.$field.buffering)
                .default("on").doc("Responses are read as fast as they come; a slow client holds no server."),
            $crate::module::Directive::size(concat!($prefix, "_buffer_size"),
                |c: &mut $conf| &mut c.$field.buffer_size)
                .default("4k").doc("Longest head of a response."),
            $crate::module::Directive::custom(concat!($prefix, "_buffers"), 2, 2,
                |c: &mut $conf, d, _| $crate::upstream::directives::buffers(&mut c.$field, d))
                .syntax("number size").default("8 4k").doc("Number and size of the buffers that keep a response in memory."),
            $crate::module::Directive::size(concat!($prefix, "_busy_buffers_size"),
                |c: &mut $conf| &mut c.$field.busy_buffers_size)
                .doc("Accepted: what is being sent to a client counts as the rest."),
            $crate::module::Directive::offset(concat!($prefix, "_max_temp_file_size"),
                |c: &mut $conf| &mut c.$field.max_temp_file_size)
                .default("1024m").doc("Largest temporary file for a response that exceeds the buffers in memory."),
            $crate::module::Directive::size(concat!($prefix, "_temp_file_write_size"),
                |c: &mut $conf| &mut c.$field.temp_file_write_size)
                .doc("Accepted: each piece is written as it was read."),
            $crate::module::Directive::custom(concat!($prefix, "_temp_path"), 1, 4,
                |c: &mut $conf, d, b| $crate::upstream::directives::temp_path(&mut c.$field, d, b))
                .syntax("path [level1 [level2 [level3]]]").default(concat!($prefix, "_temp"))
                .doc("Directory for temporary files of large responses."),
            $crate::module::Directive::custom(concat!($prefix, "_limit_rate"), 1, 1,
                |c: &mut $conf, d, b| $crate::upstream::directives::limit_rate(&mut c.$field, d, b))
                .syntax("rate").default("0")
                .doc("Bytes a second that a buffered response is read with; 0 for any speed."),
            $crate::module::Directive::flag(concat!($prefix, "_intercept_errors"),
                |c: &mut $conf| &mut c.$field.intercept_errors)
                .default("off").doc("Statuses from 300 on lead to error_page."),
            $crate::module::Directive::flag(concat!($prefix, "_force_ranges"),
                |c: &mut $conf| &mut c.$field.force_ranges)
                .default("off").doc("Ranges are served whatever the response says about them."),
        ])
    };
    (@ $prefix:literal, $conf:ty, $field:ident, [headers, $($groups:tt)*] [$($done:tt)*]) => {
        $crate::upstream_directives!(@ $prefix, $conf, $field, [$($groups)*] [$($done)*
            $crate::module::Directive::custom(concat!($prefix, "_pass_header"), 1, 1,
                |c: &mut $conf, d, _| { $crate::upstream::directives::add_name(&mut c.$field.pass_headers, d); Ok(()) })
                .syntax("field").doc("Lets a field of responses through that is hidden by default."),
            $crate::module::Directive::custom(concat!($prefix, "_hide_header"), 1, 1,
                |c: &mut $conf, d, _| { $crate::upstream::directives::add_name(&mut c.$field.hide_headers, d); Ok(()) })
                .syntax("field").doc("Hides a field of responses."),
            $crate::module::Directive::custom(concat!($prefix, "_ignore_headers"), 1, u16::MAX,
                |c: &mut $conf, d, _| $crate::upstream::directives::ignore_headers(&mut c.$field, d))
                .syntax("field ...").doc("Fields of responses that have no effect."),
        ])
    };
    (@ $prefix:literal, $conf:ty, $field:ident, [store, $($groups:tt)*] [$($done:tt)*]) => {
        $crate::upstream_directives!(@ $prefix, $conf, $field, [$($groups)*] [$($done)*
            $crate::module::Directive::custom(concat!($prefix, "_store"), 1, 1,
                |c: &mut $conf, d, b| $crate::upstream::directives::store(&mut c.$field, d, b))
                .syntax("on | off | string").default("off")
                .doc("Complete responses are stored as files, under the path of the request or under this name."),
            $crate::module::Directive::custom(concat!($prefix, "_store_access"), 1, 3,
                |c: &mut $conf, d, _| $crate::upstream::directives::store_access(&mut c.$field, d))
                .syntax("users:permissions ...").default("user:rw")
                .doc("Rights of stored files and the directories that are made for them."),
        ])
    };
    (@ $prefix:literal, $conf:ty, $field:ident, [tls, $($groups:tt)*] [$($done:tt)*]) => {
        $crate::upstream_directives!(@ $prefix, $conf, $field, [$($groups)*] [$($done)*
            $crate::module::Directive::custom(concat!($prefix, "_ssl_certificate"), 1, 1,
                |c: &mut $conf, d, b| $crate::upstream::tls::named(&mut c.$field.tls.certificate, d, b))
                .syntax("file").doc("PEM file, or a text behind data:, perhaps with variables, with the certificate that servers are shown when they ask for one."),
            $crate::module::Directive::custom(concat!($prefix, "_ssl_certificate_cache"), 1, 3,
                |c: &mut $conf, d, _| $crate::upstream::tls::certificate_cache(&mut c.$field, d))
                .syntax("off | max=N [inactive=time] [valid=time]").default("off")
                .doc("Certificates whose names have variables are kept, instead of being read for each connection."),
            $crate::module::Directive::custom(concat!($prefix, "_ssl_certificate_key"), 1, 1,
                |c: &mut $conf, d, b| $crate::upstream::tls::named(&mut c.$field.tls.certificate_key, d, b))
                .syntax("file").doc("PEM file, or a text behind data:, perhaps with variables, with the key of that certificate."),
            $crate::module::Directive::custom(concat!($prefix, "_ssl_ciphers"), 1, 1,
                |c: &mut $conf, d, _| $crate::upstream::tls::text(&mut c.$field.tls.ciphers, d))
                .syntax("ciphers").default("DEFAULT")
                .doc("Cipher suites of TLS 1.2, in OpenSSL's words; -t names those that are not offered."),
            $crate::module::Directive::custom(concat!($prefix, "_ssl_conf_command"), 2, 2,
                |c: &mut $conf, d, b| c.$field.tls.commands.take(d, b))
                .syntax("name value")
                .doc("A command of OpenSSL's configuration: Protocol, MinProtocol, MaxProtocol, CipherString, Ciphersuites, Groups, Certificate, PrivateKey; -t names others."),
            $crate::module::Directive::custom(concat!($prefix, "_ssl_crl"), 1, 1,
                |c: &mut $conf, d, _| $crate::upstream::tls::text(&mut c.$field.tls.crl, d))
                .syntax("file").doc("PEM file with lists of revoked certificates of servers."),
            $crate::module::Directive::custom(concat!($prefix, "_ssl_key_log"), 1, 1,
                |c: &mut $conf, d, b| $crate::upstream::tls::key_log(&mut c.$field, d, b))
                .syntax("path").doc("Secrets of connections go to this file, for who looks into captured packets."),
            $crate::module::Directive::template(concat!($prefix, "_ssl_name"),
                |c: &mut $conf| &mut c.$field.tls.name)
                .doc("Name that a server's certificate has to have, instead of the host that is asked."),
            $crate::module::Directive::custom(concat!($prefix, "_ssl_password_file"), 1, 1,
                |c: &mut $conf, d, _| $crate::upstream::tls::text(&mut c.$field.tls.password_file, d))
                .syntax("file").doc("Passwords that are tried on an encrypted key, one in each line."),
            $crate::module::Directive::custom(concat!($prefix, "_ssl_protocols"), 1, 9,
                |c: &mut $conf, d, _| $crate::upstream::tls::protocols(&mut c.$field, d))
                .syntax("[SSLv2] [SSLv3] [TLSv1] [TLSv1.1] [TLSv1.2] [TLSv1.3]").default("TLSv1.2 TLSv1.3")
                .doc("Versions of TLS that servers are asked with; those before 1.2 are not used."),
            $crate::module::Directive::flag(concat!($prefix, "_ssl_server_name"),
                |c: &mut $conf| &mut c.$field.tls.server_name)
                .default("off").doc("Servers are told the name that they are asked by (SNI)."),
            $crate::module::Directive::flag(concat!($prefix, "_ssl_session_reuse"),
                |c: &mut $conf| &mut c.$field.tls.session_reuse)
                .default("on").doc("Sessions with servers are resumed."),
            $crate::module::Directive::custom(concat!($prefix, "_ssl_trusted_certificate"), 1, 1,
                |c: &mut $conf, d, _| $crate::upstream::tls::text(&mut c.$field.tls.trusted_certificate, d))
                .syntax("file").doc("PEM file with the authorities that servers' certificates have to come from; without it, those of the system."),
            $crate::module::Directive::flag(concat!($prefix, "_ssl_verify"),
                |c: &mut $conf| &mut c.$field.tls.verify)
                .default("off").doc("Certificates of servers are verified."),
            $crate::module::Directive::number(concat!($prefix, "_ssl_verify_depth"),
                |c: &mut $conf| &mut c.$field.tls.verify_depth)
                .default("1").doc("Certificates that may stand between a server's and a trusted one."),
        ])
    };
    (@ $prefix:literal, $conf:ty, $field:ident, [cache($words:expr, $syntax:literal, $tables:path), $($groups:tt)*] [$($done:tt)*]) => {
        $crate::upstream_directives!(@ $prefix, $conf, $field, [$($groups)*] [$($done)*
            $crate::module::Directive::custom(concat!($prefix, "_cache"), 1, 1,
                |c: &mut $conf, d, b| $crate::upstream::directives::cache(&mut c.$field, d, b))
                .syntax("zone | off").default("off")
                .doc("Responses are kept in the zone of a cache path, which may be named by variables."),
            $crate::module::Directive::template(concat!($prefix, "_cache_key"),
                |c: &mut $conf| &mut c.$field.cache.cache_key)
                .doc("Text that tells the responses of a cache apart."),
            $crate::module::Directive::custom(concat!($prefix, "_cache_tables"), 1, u16::MAX,
                |c: &mut $conf, d, _| $tables(&mut c.$field.cache.cache_tables, d))
                .syntax("schema.table ...")
                .doc("Tables of the embedded database that responses are made of: none is served that was asked for before a commit to one of them."),
            $crate::module::Directive::custom(concat!($prefix, "_cache_valid"), 1, u16::MAX,
                |c: &mut $conf, d, _| $crate::upstream::caching::rules::valid(&mut c.$field.cache, d))
                .syntax("[code ... | any] time")
                .doc("How long responses are fresh that do not say so themselves; of 200, 301 and 302 if no code is named."),
            $crate::module::Directive::custom(concat!($prefix, "_cache_methods"), 1, 3,
                |c: &mut $conf, d, _| $crate::upstream::caching::rules::methods(&mut c.$field.cache, d))
                .syntax("GET | HEAD | POST ...").default("GET HEAD")
                .doc("Methods of requests that a cache is asked for; GET and HEAD are always among them."),
            $crate::module::Directive::custom(concat!($prefix, "_cache_bypass"), 1, u16::MAX,
                |c: &mut $conf, d, b| $crate::upstream::caching::rules::conditions(&mut c.$field.cache.cache_bypass, d, b))
                .syntax("string ...").doc("The cache is not asked when one of these is neither empty nor 0."),
            $crate::module::Directive::custom(concat!($prefix, "_no_cache"), 1, u16::MAX,
                |c: &mut $conf, d, b| $crate::upstream::caching::rules::conditions(&mut c.$field.cache.no_cache, d, b))
                .syntax("string ...").doc("A response is not kept when one of these is neither empty nor 0."),
            $crate::module::Directive::number(concat!($prefix, "_cache_min_uses"),
                |c: &mut $conf| &mut c.$field.cache.cache_min_uses)
                .default("1").doc("Requests after which a response is kept."),
            $crate::module::Directive::flag(concat!($prefix, "_cache_lock"),
                |c: &mut $conf| &mut c.$field.cache.cache_lock)
                .default("off").doc("One request at a time asks the upstream for a response that is not in the cache."),
            $crate::module::Directive::time(concat!($prefix, "_cache_lock_age"),
                |c: &mut $conf| &mut c.$field.cache.cache_lock_age)
                .default("5s").doc("Time after which another request asks the upstream, too."),
            $crate::module::Directive::time(concat!($prefix, "_cache_lock_timeout"),
                |c: &mut $conf| &mut c.$field.cache.cache_lock_timeout)
                .default("5s").doc("Longest wait for another request's response; what comes after it is not kept."),
            $crate::module::Directive::custom(concat!($prefix, "_cache_use_stale"), 1, u16::MAX,
                |c: &mut $conf, d, _| $crate::upstream::caching::rules::use_stale(&mut c.$field.cache, d, $words))
                .syntax($syntax).default("off")
                .doc("Failures after which a response is served that is out of date."),
            $crate::module::Directive::flag(concat!($prefix, "_cache_background_update"),
                |c: &mut $conf| &mut c.$field.cache.cache_background_update)
                .default("off").doc("A client that may get an old response does not wait for the new one."),
            $crate::module::Directive::flag(concat!($prefix, "_cache_rfc9111"),
                |c: &mut $conf| &mut c.$field.cache.cache_rfc9111)
                .default("off")
                .doc("Caches follow RFC 9111 and 5861 where nginx does not: in Age, and in stale-if-error when a server answers 500 or 502 to 504."),
            $crate::module::Directive::custom(concat!($prefix, "_cache_status"), 1, 1,
                |c: &mut $conf, d, _| $crate::upstream::caching::rules::status(&mut c.$field.cache, d))
                .syntax("name | off").default("off")
                .doc("Responses say in Cache-Status (RFC 9211) what the cache of this name has to do with them."),
            $crate::module::Directive::custom(concat!($prefix, "_cache_purge"), 1, u16::MAX,
                |c: &mut $conf, d, b| $crate::upstream::caching::rules::conditions(&mut c.$field.cache.cache_purge, d, b))
                .syntax("string ...")
                .doc("A request removes its entry, those whose keys begin like a key that ends in *, or those with the tags of its \
                      Cache-Tag and Surrogate-Key, when one of these is neither empty nor 0."),
            $crate::module::Directive::flag(concat!($prefix, "_cache_revalidate"),
                |c: &mut $conf| &mut c.$field.cache.cache_revalidate)
                .default("off").doc("The upstream is asked whether a response that is out of date is still good."),
            $crate::module::Directive::offset(concat!($prefix, "_cache_max_range_offset"),
                |c: &mut $conf| &mut c.$field.cache.cache_max_range_offset)
                .doc("Ranges that begin behind this are fetched alone, and not kept."),
        ])
    };
    (@ $prefix:literal, $conf:ty, $field:ident, [lowat, $($groups:tt)*] [$($done:tt)*]) => {
        $crate::upstream_directives!(@ $prefix, $conf, $field, [$($groups)*] [$($done)*
            $crate::module::Directive::size(concat!($prefix, "_send_lowat"),
                |c: &mut $conf| &mut c.$field.send_lowat)
                .default("0").doc("Accepted: has no effect on Linux."),
        ])
    };
    ($prefix:literal, $conf:ty, $field:ident; $($group:ident $(($words:expr, $syntax:literal $(, $setter:path)?))?),+; $($more:expr),* $(,)?) => {
        $crate::upstream_directives!(@ $prefix, $conf, $field, [$($group $(($words, $syntax $(, $setter)?))?,)+ own($($more,)*),] [])
    };
    (@ $prefix:literal, $conf:ty, $field:ident, [own($($more:tt)*),] [$($done:tt)*]) => {
        &[$($done)* $($more)*]
    };
}
