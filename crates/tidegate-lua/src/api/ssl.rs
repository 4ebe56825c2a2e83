//! `ngx.ssl`, `ngx.ssl.clienthello`, `ngx.ssl.session`, `ngx.ocsp`: what scripts see of the client's TLS, and decide in its handshake.
//!
//! The Lua halves are `lualib/ngx/ssl.lua` and `lualib/ngx/ssl/`. Certificates and keys as values are those of
//! `crate::socket::certificate`.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use tidegate_core::connection::Connection;
use tidegate_core::request::Request;
use tidegate_core::ssl::script::{Handshake, ShowError};
use tidegate_net::Peer;
use tidegate_tls::hello::extension;
use tidegate_tls::ocsp;
use tidegate_tls::server::ClientRules;
use tidegate_tls::sessions;
use tidegate_tls::versions::Versions;

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::handshake::Greeting;
use crate::phase::Phase;
use crate::scheduler::with_run;
use crate::socket::{certificate, push_nil_error};
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "ssl",
    cdef: "",
    ffi: &[],
    functions: &[
        ("parse_pem_cert", function(certificate::parse_pem_cert)),
        ("parse_der_cert", function(certificate::parse_der_cert)),
        ("parse_pem_key", function(certificate::parse_pem_key)),
        ("parse_der_key", function(certificate::parse_der_key)),
        ("cert_to_der", function(certificate::cert_to_der)),
        ("key_to_der", function(certificate::key_to_der)),
        ("clear_certs", function(clear_certs)),
        ("set_cert", function(set_cert)),
        ("set_der_cert", function(set_der_cert)),
        ("set_key", function(set_key)),
        ("set_der_key", function(set_der_key)),
        ("verify_client", function(verify_client)),
        ("server_name", function(server_name)),
        ("server_port", function(server_port)),
        ("address", function(address)),
        ("version", function(version)),
        ("export", function(export)),
        ("is_reused", function(is_reused)),
        ("is_upstream_reused", function(is_upstream_reused)),
        ("random", function(random)),
        ("shared_suites", function(shared_suites)),
        ("suites", function(suites)),
        ("extensions", function(extensions)),
        ("extension", function(extension_content)),
        ("listed_versions", function(listed_versions)),
        ("set_versions", function(set_versions)),
        ("ocsp_responder", function(ocsp_responder)),
        ("ocsp_request", function(ocsp_request)),
        ("ocsp_validate", function(ocsp_validate)),
        ("set_status", function(set_status)),
        ("session_id", function(session_id)),
        ("session", function(session)),
        ("set_session", function(set_session)),
    ],
};

const DISABLED: &str = "API disabled in the current context";

/// That for which a script runs.
enum Client {
    /// A handshake, and the phase.
    Greeting(Rc<Handshake>, Phase),
    Request(Rc<Request>),
}

fn client() -> Result<Client, LuaError> {
    with_run(|run| match Greeting::of(run.host()) {
        Some((handshake, phase)) => Some(Client::Greeting(handshake.clone(), phase)),
        None => run.request().map(|req| Client::Request(req.clone())),
    })
    .flatten()
    .ok_or(LuaError::new("no request found"))
}

impl Client {
    fn conn(&self) -> &Connection {
        match self {
            Self::Greeting(handshake, _) => handshake.connection(),
            Self::Request(req) => req.connection(),
        }
    }

    /// Whether TLS is spoken, or about to be.
    fn has_tls(&self) -> bool {
        matches!(self, Self::Greeting(..)) || self.conn().stream.with_tls(|_| ()).is_some()
    }
}

/// The handshake, for the functions of one or more phases; inside an error, what to answer elsewhere.
fn handshake_in(phases: &[Phase]) -> Result<Result<Rc<Handshake>, &'static str>, LuaError> {
    let client = client()?;
    let has_tls = client.has_tls();
    Ok(match client {
        Client::Greeting(handshake, phase) if phases.contains(&phase) => Ok(handshake),
        Client::Request(_) if !has_tls => Err("bad ssl conn"),
        _ => Err(DISABLED),
    })
}

/// Calls `body` with the handshake, where a script of one of the phases runs; answers `nil` and why not elsewhere.
fn in_handshake(lua: &mut Lua, phases: &[Phase], body: impl FnOnce(&mut Lua, &Handshake) -> CResult) -> CResult {
    match handshake_in(phases)? {
        Ok(handshake) => body(lua, &handshake),
        Err(reason) => push_nil_error(lua, reason),
    }
}

fn push_true(lua: &mut Lua) -> CResult {
    lua.push_bool(true);
    Ok(1)
}

const CERTIFICATE: &[Phase] = &[Phase::SslCertificate];
const HELLO: &[Phase] = &[Phase::SslClientHello];

/// `clear_certs()`
fn clear_certs(lua: &mut Lua) -> CResult {
    in_handshake(lua, CERTIFICATE, |lua, handshake| {
        handshake.clear_certificates();
        push_true(lua)
    })
}

fn settled(lua: &mut Lua, result: Result<(), ShowError>, call: &str) -> CResult {
    match result {
        Ok(()) => push_true(lua),
        Err(error) => push_nil_error(lua, &format!("{call}() failed: {error}")),
    }
}

/// `set_cert(certificates)`
fn set_cert(lua: &mut Lua) -> CResult {
    in_handshake(lua, CERTIFICATE, |lua, handshake| match certificate::chain_at(lua, 1) {
        Some(chain) => settled(lua, handshake.set_certificate(chain.to_vec()), "SSL_use_certificate"),
        None => push_nil_error(lua, "invalid certificate chain"),
    })
}

/// `set_der_cert(bytes)`
fn set_der_cert(lua: &mut Lua) -> CResult {
    in_handshake(lua, CERTIFICATE, |lua, handshake| match certificate::of_der(lua.check_bytes(1)?) {
        Some(chain) => settled(lua, handshake.set_certificate(chain), "SSL_use_certificate"),
        None => push_nil_error(lua, "d2i_X509_bio() failed"),
    })
}

/// `set_key(key)`
fn set_key(lua: &mut Lua) -> CResult {
    in_handshake(lua, CERTIFICATE, |lua, handshake| match certificate::key_at(lua, 1) {
        Some(key) => settled(lua, handshake.set_key(&key), "SSL_use_PrivateKey"),
        None => push_nil_error(lua, "invalid private key"),
    })
}

/// `set_der_key(bytes)`
fn set_der_key(lua: &mut Lua) -> CResult {
    in_handshake(lua, CERTIFICATE, |lua, handshake| match certificate::key_of_der(lua.check_bytes(1)?) {
        Some(key) => settled(lua, handshake.set_key(&key), "SSL_use_PrivateKey"),
        None => push_nil_error(lua, "d2i_PrivateKey_bio() failed"),
    })
}

/// `verify_client(authorities?, depth?, trusted?)`
fn verify_client(lua: &mut Lua) -> CResult {
    in_handshake(lua, CERTIFICATE, |lua, handshake| {
        let list = |index| certificate::chain_at(lua, index).map_or_else(Vec::new, |chain| chain.to_vec());
        let (named, unnamed): (Vec<CertificateDer<'static>>, _) = (list(1), list(3));
        let depth = lua.opt_number(2, -1.0)?;
        let depth = if depth < 0.0 { certificate::DEPTH_DEFAULT } else { depth as u64 };
        match ClientRules::new(&[named.as_slice(), &unnamed].concat(), &[], depth) {
            Ok(rules) => {
                handshake.demand(rules, &named);
                push_true(lua)
            }
            Err(error) => push_nil_error(lua, &error.to_string()),
        }
    })
}

/// `server_name()`: the name that the client asks for, or nil; also why, where there is no TLS.
fn server_name(lua: &mut Lua) -> CResult {
    let client = client()?;
    if !client.has_tls() {
        return push_nil_error(lua, "bad ssl conn");
    }
    match client.conn().stream.as_tls().and_then(|tls| tls.server_name()) {
        Some(name) => lua.push_bytes(name.as_bytes()),
        None => lua.push_nil(),
    }
    Ok(1)
}

/// `server_port()`
fn server_port(lua: &mut Lua) -> CResult {
    let client = client()?;
    match client.conn().local_addr() {
        _ if !client.has_tls() => push_nil_error(lua, "bad ssl conn"),
        Peer::Inet(address) => {
            lua.push_integer(address.port().into());
            Ok(1)
        }
        Peer::Unix => push_nil_error(lua, "unix domain has no port"),
    }
}

/// `address(is_client)`: bytes and `inet`, `inet6` or `unix`; or nil, nil and a message.
fn address(lua: &mut Lua) -> CResult {
    let client = client()?;
    let is_client = lua.to_bool(1);
    if !client.has_tls() {
        lua.push_nil();
        return push_nil_error(lua, "bad ssl conn").map(|count| count + 1);
    }
    let address = if is_client { client.conn().peer } else { client.conn().local_addr() };
    match address {
        Peer::Inet(address) => match address.ip() {
            IpAddr::V4(ip) => {
                lua.push_bytes(&ip.octets());
                lua.push_bytes(b"inet");
            }
            IpAddr::V6(ip) => {
                lua.push_bytes(&ip.octets());
                lua.push_bytes(b"inet6");
            }
        },
        Peer::Unix => {
            let path = client.conn().listen_addr().filter(|_| !is_client).map(ToString::to_string).unwrap_or_default();
            lua.push_bytes(path.strip_prefix("unix:").unwrap_or(&path).as_bytes());
            lua.push_bytes(b"unix");
        }
    }
    Ok(2)
}

/// `version()`: the number of the version of TLS.
fn version(lua: &mut Lua) -> CResult {
    let client = client()?;
    let number = match &client {
        Client::Greeting(handshake, _) => handshake.version(),
        Client::Request(_) => client.conn().stream.with_tls(|tls| tls.protocol_version().map(u16::from)).flatten(),
    };
    match number {
        Some(number) => {
            lua.push_integer(number.into());
            Ok(1)
        }
        None => push_nil_error(lua, "bad ssl conn"),
    }
}

/// Bytes that may be derived in one call.
const EXPORT_BYTES_MAX: f64 = 4096.0;

/// `export(length, label, context?)`: a key that follows from the connection's secret.
///
/// Source: RFC 8446, section 7.5.
fn export(lua: &mut Lua) -> CResult {
    let client = client()?;
    let length = lua.check_number(1)?;
    if !(1.0..=EXPORT_BYTES_MAX).contains(&length) {
        return Err(LuaError::new("bad argument #1: length must be 1 to 4096"));
    }
    let label = lua.check_bytes(2)?.to_vec();
    let context = lua.to_bytes(3).map(<[u8]>::to_vec);
    let exported = client.conn().stream.with_tls(|tls| {
        let key = vec![0; length as usize];
        tls.export_keying_material(key, &label, context.as_deref())
    });
    match exported {
        Some(Ok(key)) => {
            lua.push_bytes(&key);
            Ok(1)
        }
        Some(Err(error)) => push_nil_error(lua, &format!("SSL_export_keying_material() failed: {error}")),
        None => push_nil_error(lua, "bad ssl conn"),
    }
}

/// `is_reused()`: whether the client's session was resumed.
fn is_reused(lua: &mut Lua) -> CResult {
    let client = client()?;
    if !client.has_tls() {
        return push_nil_error(lua, "bad ssl conn");
    }
    // Before the handshake is answered, nothing was.
    let kind = client.conn().stream.with_tls(|tls| tls.handshake_kind()).flatten();
    lua.push_bool(kind == Some(rustls::HandshakeKind::Resumed));
    Ok(1)
}

/// `is_upstream_reused()`: whether the session with the peer that was asked last was resumed.
fn is_upstream_reused(lua: &mut Lua) -> CResult {
    let resumed = match client()? {
        Client::Request(req) => req.upstream_record(|record| record.tries.last()?.resumed).flatten(),
        Client::Greeting(..) => None,
    };
    match resumed {
        Some(resumed) => {
            lua.push_bool(resumed);
            Ok(1)
        }
        None => push_nil_error(lua, "bad upstream ssl conn"),
    }
}

/// `random()`: the client's random bytes.
fn random(lua: &mut Lua) -> CResult {
    let client = client()?;
    let hello = match &client {
        Client::Greeting(handshake, _) => handshake.hello(),
        Client::Request(_) => None,
    };
    match hello {
        Some(hello) => {
            lua.push_bytes(hello.random());
            Ok(1)
        }
        None if client.has_tls() => push_nil_error(lua, "only the scripts of the handshake know it"),
        None => push_nil_error(lua, "bad ssl conn"),
    }
}

/// Pushes a list of numbers.
fn push_numbers(lua: &mut Lua, numbers: impl Iterator<Item = u16>) -> CResult {
    lua.push_table(0, 0);
    for (index, number) in numbers.enumerate() {
        lua.push_integer(number.into());
        lua.raw_set_index(-2, i32::try_from(index + 1).unwrap_or(i32::MAX));
    }
    Ok(1)
}

/// Whether a number is one of those that clients make up, so that servers do not take what they know for all there is.
///
/// Source: RFC 8701, section 2.
fn is_grease(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}

/// `suites()`: numbers of the cipher suites that the client offers.
fn suites(lua: &mut Lua) -> CResult {
    in_handshake(lua, HELLO, |lua, handshake| match handshake.hello() {
        Some(hello) => push_numbers(lua, hello.suites().filter(|suite| !is_grease(*suite))),
        None => push_nil_error(lua, "bad ssl conn"),
    })
}

/// `shared_suites()`: numbers of the cipher suites that both sides can speak.
fn shared_suites(lua: &mut Lua) -> CResult {
    match client()? {
        Client::Greeting(handshake, _) => push_numbers(lua, handshake.shared_suites().into_iter()),
        client if client.has_tls() => push_nil_error(lua, "only the scripts of the handshake know them"),
        Client::Request(_) => push_nil_error(lua, "bad ssl conn"),
    }
}

/// `extensions()`: types of the extensions of the client's first message.
fn extensions(lua: &mut Lua) -> CResult {
    in_handshake(lua, HELLO, |lua, handshake| match handshake.hello() {
        Some(hello) => push_numbers(lua, hello.extensions().map(|(kind, _)| kind).filter(|kind| !is_grease(*kind))),
        None => push_nil_error(lua, "bad ssl conn"),
    })
}

/// `extension(type)`: its content, or nil.
fn extension_content(lua: &mut Lua) -> CResult {
    let kind = lua.check_integer(1)?;
    in_handshake(lua, HELLO, |lua, handshake| {
        let kind = u16::try_from(kind).ok();
        match kind.and_then(|kind| handshake.hello()?.extension(kind)) {
            Some(content) => lua.push_bytes(content),
            None => lua.push_nil(),
        }
        Ok(1)
    })
}

/// `listed_versions()`: numbers of the versions in the client's list, or nil without one.
fn listed_versions(lua: &mut Lua) -> CResult {
    in_handshake(lua, HELLO, |lua, handshake| match handshake.hello().and_then(|hello| hello.listed_versions()) {
        Some(versions) => push_numbers(lua, versions.filter(|version| !is_grease(*version))),
        None => {
            lua.push_nil();
            Ok(1)
        }
    })
}

/// `set_versions(tls12, tls13)`
fn set_versions(lua: &mut Lua) -> CResult {
    let versions = Versions { tls12: lua.to_bool(1), tls13: lua.to_bool(2) };
    in_handshake(lua, HELLO, |lua, handshake| {
        handshake.set_versions(versions);
        push_true(lua)
    })
}

/// `session_id()`: the name of the session to fetch or store, in bytes.
fn session_id(lua: &mut Lua) -> CResult {
    in_handshake(lua, &[Phase::SslSessionFetch, Phase::SslSessionStore], |lua, handshake| {
        match handshake.session_id() {
            Some(id) => {
                lua.push_bytes(&id);
                Ok(1)
            }
            None => push_nil_error(lua, "bad session in lua context"),
        }
    })
}

/// `session()`: the session to store.
fn session(lua: &mut Lua) -> CResult {
    // Where a session is fetched there is none yet.
    let phases = &[Phase::SslSessionStore, Phase::SslSessionFetch];
    in_handshake(lua, phases, |lua, handshake| match handshake.serialized_session() {
        Some(session) => {
            lua.push_bytes(&session);
            Ok(1)
        }
        None => push_nil_error(lua, "bad session in lua context"),
    })
}

/// `set_session(bytes)`: the session that was found.
fn set_session(lua: &mut Lua) -> CResult {
    let bytes = lua.check_bytes(1)?.to_vec();
    in_handshake(lua, &[Phase::SslSessionFetch], |lua, handshake| {
        if !sessions::is_serialized(&bytes) {
            return push_nil_error(lua, "failed to de-serialize session");
        }
        handshake.set_session(bytes);
        push_true(lua)
    })
}

/// A certificate and its issuer, the two that a chain in DER begins with; or why it has none.
fn leaf_and_issuer(chain: &[u8]) -> Result<[CertificateDer<'static>; 2], &'static str> {
    let mut chain = certificate::of_der(chain).ok_or("d2i_X509_bio() failed")?.into_iter();
    match (chain.next(), chain.next()) {
        (Some(leaf), Some(issuer)) => Ok([leaf, issuer]),
        _ => Err("no issuer certificate in chain"),
    }
}

/// `ocsp_responder(chain)`: the address of the responder, or nil; also why, when the chain is bad.
fn ocsp_responder(lua: &mut Lua) -> CResult {
    let [leaf, issuer] = match leaf_and_issuer(lua.check_bytes(1)?) {
        Ok(pair) => pair,
        Err(reason) => return push_nil_error(lua, reason),
    };
    match ocsp::responder(&leaf) {
        Err(error) => return push_nil_error(lua, &error.to_string()),
        Ok(Some(_)) if !ocsp::is_issued_by(&leaf, &issuer) => {
            return push_nil_error(lua, "issuer certificate not next to leaf");
        }
        Ok(Some(address)) => lua.push_bytes(address),
        Ok(None) => lua.push_nil(),
    }
    Ok(1)
}

/// `ocsp_request(chain)`: the question for the status of its first certificate.
fn ocsp_request(lua: &mut Lua) -> CResult {
    let request = leaf_and_issuer(lua.check_bytes(1)?)
        .and_then(|[leaf, issuer]| ocsp::request(&leaf, &issuer).map_err(|_| "d2i_X509_bio() failed"));
    match request {
        Ok(request) => {
            lua.push_bytes(&request);
            Ok(1)
        }
        Err(reason) => push_nil_error(lua, reason),
    }
}

/// `ocsp_validate(response, chain)`: true, and when there will be a new response, in seconds since 1970.
fn ocsp_validate(lua: &mut Lua) -> CResult {
    let response = lua.check_bytes(1)?;
    let [leaf, issuer] = match leaf_and_issuer(lua.check_bytes(2)?) {
        Ok(pair) => pair,
        Err(reason) => return push_nil_error(lua, reason),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    match ocsp::validate(response, &leaf, &issuer, now) {
        Ok(good) => {
            lua.push_bool(true);
            match good.next_update {
                Some(next) => lua.push_integer(next),
                None => lua.push_nil(),
            }
            Ok(2)
        }
        Err(error) => push_nil_error(lua, &error.to_string()),
    }
}

/// `set_status(response)`: true, and a warning if the client has not asked for it.
fn set_status(lua: &mut Lua) -> CResult {
    let response = lua.check_bytes(1)?.to_vec();
    in_handshake(lua, CERTIFICATE, |lua, handshake| {
        let is_wanted = handshake.hello().is_some_and(|hello| hello.extension(extension::STATUS_REQUEST).is_some());
        lua.push_bool(true);
        if !is_wanted {
            lua.push_bytes(b"no status req");
            return Ok(2);
        }
        handshake.set_status(response);
        Ok(1)
    })
}
