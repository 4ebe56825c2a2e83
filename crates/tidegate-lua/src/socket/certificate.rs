//! Certificates and keys as scripts hold them (`ngx.ssl`), and those that a socket shows to servers (`setclientcert`).

use std::ffi::{CStr, c_int};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use tidegate_tls::client::Identity;
use tidegate_tls::pem;

use super::failure::push_nil_error;
use super::tcp::{Call, call};
use crate::error::{CResult, LuaError};
use crate::stack::Lua;
use crate::userdata::{Userdata, push_userdata, to_userdata};

#[derive(Clone)]
struct Chain(Arc<Vec<CertificateDer<'static>>>);

impl Userdata for Chain {
    const NAME: &'static CStr = c"tidegate.certificates";
    const TYPE_NAME: &'static str = "certificates";
}

#[derive(Clone)]
struct Key(Arc<PrivateKeyDer<'static>>);

impl Userdata for Key {
    const NAME: &'static CStr = c"tidegate.private_key";
    const TYPE_NAME: &'static str = "private key";
}

/// Pushes certificates as scripts hold them.
pub(crate) fn push_chain(lua: &mut Lua, chain: Vec<CertificateDer<'static>>) -> CResult {
    push_userdata(lua, Chain(Arc::new(chain)));
    Ok(1)
}

/// Certificates that may stand between a client's and a trusted one, where a script does not say.
///
/// Source: OpenSSL, `X509_VERIFY_PARAM`, whose default is 100.
pub(crate) const DEPTH_DEFAULT: u64 = 100;

/// `parse_pem_cert(text)`: the certificates in a text, the server's own first; or nil and a message.
pub(crate) fn parse_pem_cert(lua: &mut Lua) -> CResult {
    match of_pem(lua.check_bytes(1)?) {
        Ok(chain) => push_chain(lua, chain),
        Err(message) => push_nil_error(lua, &message.to_string_lossy()),
    }
}

/// The certificates in a text, at least one; else why it has none, in OpenResty's words: its first certificate, or one of those
/// behind, is bad.
pub(crate) fn of_pem(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static CStr> {
    let mut chain = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(text) {
        match certificate {
            Ok(certificate) => chain.push(certificate),
            Err(_) if chain.is_empty() => break,
            Err(_) => return Err(c"PEM_read_bio_X509() failed"),
        }
    }
    if chain.is_empty() { Err(c"PEM_read_bio_X509_AUX() failed") } else { Ok(chain) }
}

/// `parse_der_cert(bytes)`
pub(crate) fn parse_der_cert(lua: &mut Lua) -> CResult {
    match of_der(lua.check_bytes(1)?) {
        Some(chain) => push_chain(lua, chain),
        None => push_nil_error(lua, "d2i_X509_bio() failed"),
    }
}

/// Certificates in DER, one after the other; `None` if there is none, or something else.
pub(crate) fn of_der(bytes: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    pem::certificates_of_der(bytes)
}

/// The certificates that a script has given as an argument.
pub(crate) fn chain_at(lua: &Lua, index: c_int) -> Option<Arc<Vec<CertificateDer<'static>>>> {
    to_userdata::<Chain>(lua, index).map(|chain| chain.0)
}

/// The key that a script has given as an argument.
pub(crate) fn key_at(lua: &Lua, index: c_int) -> Option<Arc<PrivateKeyDer<'static>>> {
    to_userdata::<Key>(lua, index).map(|key| key.0)
}

/// A key in DER.
pub(crate) fn key_of_der(bytes: &[u8]) -> Option<Arc<PrivateKeyDer<'static>>> {
    PrivateKeyDer::try_from(bytes).ok().map(|key| Arc::new(key.clone_key()))
}

/// `parse_pem_key(text, password?)`: the private key in a text, or nil and a message.
pub(crate) fn parse_pem_key(lua: &mut Lua) -> CResult {
    match key_of_text(lua)? {
        Some(key) => {
            push_userdata(lua, Key(Arc::new(key)));
            Ok(1)
        }
        None => push_nil_error(lua, "PEM_read_bio_PrivateKey() failed"),
    }
}

fn key_of_text(lua: &Lua) -> Result<Option<PrivateKeyDer<'static>>, LuaError> {
    let password = lua.to_bytes(2).map(<[u8]>::to_vec);
    Ok(pem::key(lua.check_bytes(1)?, password.as_slice()).ok())
}

/// `parse_der_key(bytes)`
pub(crate) fn parse_der_key(lua: &mut Lua) -> CResult {
    match key_of_der(lua.check_bytes(1)?) {
        Some(key) => {
            push_userdata(lua, Key(key));
            Ok(1)
        }
        None => push_nil_error(lua, "d2i_PrivateKey_bio() failed"),
    }
}

/// `cert_to_der(text)`: the certificates of a text, their bytes one after the other.
pub(crate) fn cert_to_der(lua: &mut Lua) -> CResult {
    match of_pem(lua.check_bytes(1)?) {
        Ok(chain) => {
            lua.push_bytes(&chain.iter().flat_map(|certificate| certificate.iter().copied()).collect::<Vec<u8>>());
            Ok(1)
        }
        Err(message) => push_nil_error(lua, &message.to_string_lossy()),
    }
}

/// `key_to_der(text, password?)`
pub(crate) fn key_to_der(lua: &mut Lua) -> CResult {
    match key_of_text(lua)? {
        Some(key) => {
            lua.push_bytes(key.secret_der());
            Ok(1)
        }
        None => push_nil_error(lua, "PEM_read_bio_PrivateKey() failed"),
    }
}

/// `set_client_cert(socket, certificates, key)`: what the next handshakes show; nothing for nil and nil.
pub(crate) fn set_client_cert(lua: &mut Lua) -> CResult {
    let Call { tcp, .. } = call(lua)?;
    let identity = match (lua.is_none_or_nil(2), lua.is_none_or_nil(3)) {
        (true, true) => None,
        (true, false) | (false, true) => {
            return push_nil_error(lua, "client certificate must be supplied with corresponding private key");
        }
        (false, false) => {
            let Some(chain) = to_userdata::<Chain>(lua, 2) else {
                let reason = format!("bad cert arg: cdata expected, got {}", lua.type_name(2));
                return push_nil_error(lua, &reason);
            };
            let Some(key) = to_userdata::<Key>(lua, 3) else {
                let reason = format!("bad pkey arg: cdata expected, got {}", lua.type_name(3));
                return push_nil_error(lua, &reason);
            };
            Some(Arc::new(Identity { chain: chain.0.clone(), key: key.0.clone() }))
        }
    };
    *tcp.identity.borrow_mut() = identity;
    lua.push_bool(true);
    Ok(1)
}
