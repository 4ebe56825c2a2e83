//! Parts of nginx that are not there: whoever brings a configuration along is told so, rather than offered a directive
//! that only has a similar name.

/// What a directive's name begins with, or is, and what it belongs to.
const FEATURES: &[(&str, &str)] = &[
    ("brotli", "brotli"),
    ("dav_", "WebDAV"),
    ("flv", "streaming of FLV"),
    ("geoip", "GeoIP"),
    ("grpc_", "gRPC"),
    ("hls", "streaming of MP4"),
    ("http3", "HTTP/3"),
    ("image_filter", "transforming images"),
    ("js_", "njs"),
    ("mail", "proxying mail"),
    ("mp4", "streaming of MP4"),
    ("perl", "Perl"),
    ("preferred_chain", "choosing among chains of certificates"),
    ("quic_", "HTTP/3"),
    ("srcache_", "caching"),
    ("ssi", "server side includes"),
    ("ssl_handshake_timeout", "a limit of handshakes alone, which have that of \"client_header_timeout\","),
    ("ssl_", "this part of TLS for clients"),
    ("stream", "proxying TCP and UDP"),
    ("xml_entities", "XSLT"),
    ("xslt_", "XSLT"),
];

/// The part of nginx that the directive belongs to, if it is one that is not there.
pub(super) fn feature(directive: &str) -> Option<&'static str> {
    let of = |(start, feature): &(&str, &'static str)| {
        let rest = directive.strip_prefix(start)?;
        // "ssi_types" belongs to "ssi", but nothing that only begins with the same letters.
        (start.ends_with('_') || rest.is_empty() || rest.starts_with('_')).then_some(*feature)
    };
    FEATURES.iter().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features() {
        #[track_caller]
        fn check(directive: &str, expected: Option<&str>) {
            assert_eq!(feature(directive), expected, "{directive}");
        }
        check("srcache_fetch", Some("caching"));
        check("fastcgi_pas", None);
        check("ssl_verify_client", Some("this part of TLS for clients"));
        check("ssl_handshake_timeou", Some("this part of TLS for clients"));
        check("stream", Some("proxying TCP and UDP"));
        check("ssi_types", Some("server side includes"));
        check("streams", None);
        check("sslcertificate", None);
        check("listen", None);
    }
}
