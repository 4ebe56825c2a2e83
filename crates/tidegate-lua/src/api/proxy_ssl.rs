//! `ngx.proxyssl`, `ngx.ssl.proxysslcert`, `ngx.ssl.proxysslverify`: handshakes with the servers of a proxy.
//!
//! The Lua halves are `lualib/ngx/proxyssl.lua` and `lualib/ngx/ssl/`. Certificates and keys as values are those of
//! `crate::socket::certificate`.

use std::rc::Rc;

use tidegate_core::upstream::tls_scripts::PeerHandshake;

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::Phase;
use crate::request_context::LuaContext;
use crate::scheduler::with_run;
use crate::socket::{certificate, push_nil_error};
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "proxy_ssl",
    cdef: "",
    ffi: &[],
    functions: &[
        ("clear_certs", function(clear_certs)),
        ("set_cert", function(set_cert)),
        ("set_der_cert", function(set_der_cert)),
        ("set_key", function(set_key)),
        ("set_der_key", function(set_der_key)),
        ("set_verdict", function(set_verdict)),
        ("verdict", function(verdict)),
        ("peer_cert", function(peer_cert)),
        ("version", function(version)),
    ],
};

const CERTIFICATE: &[Phase] = &[Phase::ProxySslCertificate];
const VERIFY: &[Phase] = &[Phase::ProxySslVerify];
const EITHER: &[Phase] = &[Phase::ProxySslCertificate, Phase::ProxySslVerify];

/// Calls `body` with the handshake, where a script of one of the phases runs; answers `nil` and why not elsewhere.
fn in_handshake(lua: &mut Lua, phases: &[Phase], body: impl FnOnce(&mut Lua, &PeerHandshake) -> CResult) -> CResult {
    let found = with_run(|run| -> Result<Option<Rc<PeerHandshake>>, LuaError> {
        let Ok(req) = run.any_request() else { return Err(LuaError::new("no request found")) };
        if !phases.contains(&run.phase()) {
            return Ok(None);
        }
        let context = req.find_context::<LuaContext>();
        Ok(context.and_then(|context| context.peer_handshake.borrow().as_ref().map(|(handshake, _)| handshake.clone())))
    });
    match found.unwrap_or(Err(LuaError::new("no request found")))? {
        Some(handshake) => body(lua, &handshake),
        None => push_nil_error(lua, "API disabled in the current context"),
    }
}

fn push_true(lua: &mut Lua) -> CResult {
    lua.push_bool(true);
    Ok(1)
}

/// `clear_certs()`
fn clear_certs(lua: &mut Lua) -> CResult {
    in_handshake(lua, CERTIFICATE, |lua, handshake| {
        handshake.clear_certificates();
        push_true(lua)
    })
}

/// `set_cert(certificates)`
fn set_cert(lua: &mut Lua) -> CResult {
    in_handshake(lua, CERTIFICATE, |lua, handshake| match certificate::chain_at(lua, 1) {
        Some(chain) => {
            handshake.set_certificate(chain.to_vec());
            push_true(lua)
        }
        None => push_nil_error(lua, "invalid certificate chain"),
    })
}

/// `set_der_cert(bytes)`
fn set_der_cert(lua: &mut Lua) -> CResult {
    in_handshake(lua, CERTIFICATE, |lua, handshake| match certificate::of_der(lua.check_bytes(1)?) {
        Some(chain) => {
            handshake.set_certificate(chain);
            push_true(lua)
        }
        None => push_nil_error(lua, "d2i_X509_bio() failed"),
    })
}

/// `set_key(key)`
fn set_key(lua: &mut Lua) -> CResult {
    in_handshake(lua, CERTIFICATE, |lua, handshake| match certificate::key_at(lua, 1) {
        Some(key) => {
            handshake.set_key(key);
            push_true(lua)
        }
        None => push_nil_error(lua, "invalid private key"),
    })
}

/// `set_der_key(bytes)`
fn set_der_key(lua: &mut Lua) -> CResult {
    in_handshake(lua, CERTIFICATE, |lua, handshake| match certificate::key_of_der(lua.check_bytes(1)?) {
        Some(key) => {
            handshake.set_key(key);
            push_true(lua)
        }
        None => push_nil_error(lua, "d2i_PrivateKey_bio() failed"),
    })
}

/// `set_verdict(number)`: what is wrong with the server's certificate, as OpenSSL counts; 0 for nothing.
fn set_verdict(lua: &mut Lua) -> CResult {
    let verdict = lua.check_integer(1)?;
    in_handshake(lua, VERIFY, |lua, handshake| {
        handshake.set_verdict(verdict);
        push_true(lua)
    })
}

/// `verdict()`
fn verdict(lua: &mut Lua) -> CResult {
    in_handshake(lua, VERIFY, |lua, handshake| {
        lua.push_integer(handshake.verdict());
        Ok(1)
    })
}

/// `peer_cert()`: the server's certificate.
fn peer_cert(lua: &mut Lua) -> CResult {
    in_handshake(lua, VERIFY, |lua, handshake| match handshake.certificate() {
        Some(certificate) => certificate::push_chain(lua, vec![certificate]),
        None => push_nil_error(lua, "the server has shown no certificate"),
    })
}

/// `version()`: the number of the version that is spoken.
fn version(lua: &mut Lua) -> CResult {
    in_handshake(lua, EITHER, |lua, handshake| match handshake.version() {
        Some(version) => {
            lua.push_integer(version.into());
            Ok(1)
        }
        None => push_nil_error(lua, "the version is not known before the handshake"),
    })
}
