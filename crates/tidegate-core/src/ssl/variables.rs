//! What a request can tell of its connection's TLS.

use std::time::{SystemTime, UNIX_EPOCH};

use rustls::{Connection, HandshakeKind, ProtocolVersion};
use tidegate_http::escape::{Escape, escape_uri};
use tidegate_net::tls::TlsStream;
use tidegate_tls::{
    ciphers,
    describe::{self, Description},
};

use crate::{request::Request, variable::VariableDef};

pub(super) static VARIABLES: &[VariableDef] = &[
    VariableDef::new("https", https, "\"on\" over TLS."),
    VariableDef::new(
        "ssl_alpn_protocol",
        |req, _, out| with_tls(req, out, |tls, out| put(out, tls.alpn_protocol()?)),
        "Protocol that was agreed on in the handshake (ALPN).",
    ),
    VariableDef::new(
        "ssl_cipher",
        |req, _, out| with_tls(req, out, |tls, out| put(out, ciphers::name(tls.negotiated_cipher_suite()?.suite()))),
        "Cipher suite of the connection, in OpenSSL's words.",
    ),
    VariableDef::new("ssl_ciphers", ssl_ciphers, "Cipher suites that the client offered, in OpenSSL's words."),
    VariableDef::new(
        "ssl_client_cert",
        |req, _, out| with_certificate(req, out, |der, out| put(out, indented(&describe::pem(der)))),
        "The client's certificate in PEM, its lines but the first behind a tab; for a field of a request.",
    ),
    VariableDef::new(
        "ssl_client_escaped_cert",
        |req, _, out| {
            with_certificate(req, out, |der, out| {
                escape_uri(describe::pem(der).as_bytes(), Escape::UriComponent, out);
                Some(())
            })
        },
        "The client's certificate in PEM, escaped as a component of a URI.",
    ),
    VariableDef::new(
        "ssl_client_fingerprint",
        |req, _, out| described(req, out, |shown| Some(shown.fingerprint())),
        "SHA-1 of the client's certificate.",
    ),
    VariableDef::new(
        "ssl_client_i_dn",
        |req, _, out| described(req, out, |shown| Some(shown.issuer())),
        "Issuer of the client's certificate, as RFC 2253 has it.",
    ),
    VariableDef::new(
        "ssl_client_i_dn_legacy",
        |req, _, out| described(req, out, |shown| Some(shown.issuer_legacy())),
        "Issuer of the client's certificate, in OpenSSL's old form.",
    ),
    VariableDef::new(
        "ssl_client_raw_cert",
        |req, _, out| with_certificate(req, out, |der, out| put(out, describe::pem(der))),
        "The client's certificate in PEM.",
    ),
    VariableDef::new(
        "ssl_client_s_dn",
        |req, _, out| described(req, out, |shown| Some(shown.subject())),
        "Subject of the client's certificate, as RFC 2253 has it.",
    ),
    VariableDef::new(
        "ssl_client_s_dn_legacy",
        |req, _, out| described(req, out, |shown| Some(shown.subject_legacy())),
        "Subject of the client's certificate, in OpenSSL's old form.",
    ),
    VariableDef::new(
        "ssl_client_serial",
        |req, _, out| described(req, out, |shown| Some(shown.serial())),
        "Serial number of the client's certificate, in hexadecimal digits.",
    ),
    VariableDef::new(
        "ssl_client_v_end",
        |req, _, out| described(req, out, |shown| shown.dates().map(|(_, end)| end)),
        "When the time of the client's certificate ends.",
    ),
    VariableDef::new(
        "ssl_client_v_remain",
        |req, _, out| described(req, out, |shown| shown.days_left(seconds_now()).map(|days| days.to_string())),
        "Days until then.",
    ),
    VariableDef::new(
        "ssl_client_v_start",
        |req, _, out| described(req, out, |shown| shown.dates().map(|(start, _)| start)),
        "When the time of the client's certificate begins.",
    ),
    VariableDef::new(
        "ssl_client_verify",
        ssl_client_verify,
        "SUCCESS, FAILED: and the reason, or NONE without a certificate.",
    ),
    VariableDef::new(
        "ssl_curve",
        |req, _, out| {
            with_tls(req, out, |tls, out| put(out, ciphers::group_name(tls.negotiated_key_exchange_group()?.name())))
        },
        "Group of the key exchange.",
    ),
    VariableDef::new("ssl_curves", ssl_curves, "Groups that the client offered."),
    VariableDef::new(
        "ssl_early_data",
        |req, _, out| {
            let is_early = req.connection().stream.as_tls().is_some_and(TlsStream::is_early);
            is_early && put(out, "1").is_some()
        },
        "1 while the client has not ended its handshake: the request may be a repetition (RFC 8470).",
    ),
    VariableDef::new("ssl_protocol", ssl_protocol, "Version of TLS that the connection speaks."),
    VariableDef::new(
        "ssl_server_name",
        |req, _, out| {
            // During the handshake, too: names of certificates are made of it.
            let name = req.connection().stream.as_tls().and_then(|tls| tls.server_name());
            name.and_then(|name| put(out, name)).is_some()
        },
        "Server name that the client asked for in the handshake (SNI).",
    ),
    VariableDef::new("ssl_session_id", |_, _, _| false, "Empty: sessions have no names here."),
    VariableDef::new(
        "ssl_session_reused",
        |req, _, out| {
            with_tls(req, out, |tls, out| {
                put(out, if tls.handshake_kind() == Some(HandshakeKind::Resumed) { "r" } else { "." })
            })
        },
        "\"r\" for a session that was resumed, \".\" otherwise.",
    ),
];

fn put(out: &mut Vec<u8>, text: impl AsRef<[u8]>) -> Option<()> {
    out.extend_from_slice(text.as_ref());
    Some(())
}

/// Calls `write` with the connection, if TLS is spoken; answers whether there is a value.
fn with_tls(req: &Request, out: &mut Vec<u8>, write: impl FnOnce(&Connection, &mut Vec<u8>) -> Option<()>) -> bool {
    req.connection().stream.with_tls(|tls| write(tls, out)).flatten().is_some()
}

/// Calls `write` with the client's certificate, if it has shown one.
fn with_certificate(req: &Request, out: &mut Vec<u8>, write: impl FnOnce(&[u8], &mut Vec<u8>) -> Option<()>) -> bool {
    with_tls(req, out, |tls, out| write(tls.peer_certificates()?.first()?, out))
}

fn described(req: &Request, out: &mut Vec<u8>, show: impl FnOnce(&Description<'_>) -> Option<String>) -> bool {
    with_certificate(req, out, |der, out| put(out, show(&Description::of(der)?)?))
}

fn seconds_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// Lines of a field's value: those behind the first begin with a tab, and the last one has no end.
fn indented(pem: &str) -> String {
    pem.trim_end().replace('\n', "\n\t")
}

fn https(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    if req.is_secure() {
        out.extend_from_slice(b"on");
    }
    true
}

fn ssl_protocol(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    with_tls(req, out, |tls, out| match tls.protocol_version()? {
        ProtocolVersion::TLSv1_2 => put(out, "TLSv1.2"),
        ProtocolVersion::TLSv1_3 => put(out, "TLSv1.3"),
        _ => None,
    })
}

/// Appends names with colons between them, those that nobody has as their numbers.
fn put_names(out: &mut Vec<u8>, names: impl Iterator<Item = (&'static str, u16)>) {
    use std::io::Write as _;
    for (index, (name, number)) in names.enumerate() {
        if index > 0 {
            out.push(b':');
        }
        // Writing to memory does not fail.
        let _ = if name.is_empty() { write!(out, "0x{number:04x}") } else { out.write_all(name.as_bytes()) };
    }
}

fn ssl_ciphers(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(facts) = req.connection().tls.get() else { return false };
    put_names(out, facts.suites.iter().map(|suite| (ciphers::name(*suite), u16::from(*suite))));
    true
}

fn ssl_curves(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(facts) = req.connection().tls.get() else { return false };
    put_names(out, facts.groups.iter().map(|group| (ciphers::group_name(*group), u16::from(*group))));
    true
}

fn ssl_client_verify(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    use std::io::Write as _;
    let Some(facts) = req.connection().tls.get() else { return false };
    match facts.verified {
        None => put(out, "NONE").is_some(),
        Some(Ok(())) => put(out, "SUCCESS").is_some(),
        Some(Err(error)) => write!(out, "FAILED:{error}").is_ok(),
    }
}

impl Request {
    /// Whether TLS is spoken with the client.
    pub fn is_secure(&self) -> bool {
        self.connection().stream.with_tls(|_| ()).is_some()
    }
    /// `https` or `http`.
    pub fn scheme(&self) -> &'static str {
        if self.is_secure() { "https" } else { "http" }
    }
}
