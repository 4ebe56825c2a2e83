//! What `-V` prints below the version: what this binary was built with, in the form that tools parse.

use tidegate_core::registry::Registry;

use crate::cli;
use crate::identity::Identity;

/// nginx's optional modules with a directive that each would bring.
const WITH: [(&str, &str); 14] = [
    ("--with-http_ssl_module", "ssl_certificate"),
    ("--with-http_v2_module", "http2"),
    ("--with-http_realip_module", "set_real_ip_from"),
    ("--with-http_addition_module", "add_after_body"),
    ("--with-http_sub_module", "sub_filter"),
    ("--with-http_dav_module", "dav_methods"),
    ("--with-http_gunzip_module", "gunzip"),
    ("--with-http_gzip_static_module", "gzip_static"),
    ("--with-http_auth_request_module", "auth_request"),
    ("--with-http_random_index_module", "random_index"),
    ("--with-http_secure_link_module", "secure_link"),
    ("--with-http_slice_module", "slice"),
    ("--with-http_stub_status_module", "stub_status"),
    ("--with-stream", "stream"),
];

/// nginx's standard modules with a directive that each would bring.
const WITHOUT: [(&str, &str); 11] = [
    ("--without-http_fastcgi_module", "fastcgi_pass"),
    ("--without-http_uwsgi_module", "uwsgi_pass"),
    ("--without-http_scgi_module", "scgi_pass"),
    ("--without-http_grpc_module", "grpc_pass"),
    ("--without-http_memcached_module", "memcached_pass"),
    ("--without-http_geo_module", "geo"),
    ("--without-http_userid_module", "userid"),
    ("--without-http_mirror_module", "mirror"),
    ("--without-http_browser_module", "modern_browser"),
    ("--without-http_ssi_module", "ssi"),
    ("--without-http-cache", "proxy_cache"),
];

/// The whole text.
pub(crate) fn text(identity: Identity, registry: &Registry) -> String {
    let tls = match identity {
        Identity::Tidegate => "TLS: rustls with AWS-LC\n",
        // Harnesses for nginx leave all TLS tests out unless they find this phrase with a version, and some where they find the name of AWS-LC.
        Identity::Nginx => "TLS: rustls, for tools to be taken as built with OpenSSL 3.0.0\n",
    };
    let mut text = identity.version_text();
    text += tls;
    text += "TLS SNI support enabled\n";
    text += &format!("configure arguments: {}\n", arguments(registry));
    text
}

/// The arguments alone.
pub(crate) fn arguments(registry: &Registry) -> String {
    let has = |directive: &str| {
        registry.modules().iter().any(|module| module.directives().iter().any(|info| info.name == directive))
    };
    let mut arguments = vec![
        format!("--prefix={}", cli::PREFIX),
        format!("--conf-path={}", cli::CONF_PATH),
        format!("--error-log-path={}", cli::ERROR_LOG_PATH),
        "--with-threads".to_owned(),
        "--with-pcre-jit".to_owned(),
    ];
    arguments.extend(WITH.iter().filter(|(_, directive)| has(directive)).map(|(flag, _)| (*flag).to_owned()));
    arguments.extend(WITHOUT.iter().filter(|(_, directive)| !has(directive)).map(|(flag, _)| (*flag).to_owned()));
    arguments.join(" ")
}
