//! Certificates and keys as scripts hold them (`ngx.ssl`), and those that a socket shows to servers (`setclientcert`).

use std::ffi::CStr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use tidegate_tls::client::Identity;

use super::failure::push_nil_error;
use super::tcp::{Call, call};
use crate::error::CResult;
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

fn push_chain(lua: &mut Lua, chain: Vec<CertificateDer<'static>>) -> CResult {
    push_userdata(lua, Chain(Arc::new(chain)));
    Ok(1)
}

/// `parse_pem_cert(text)`: the certificates in a text, the server's own first; or nil and a message.
pub(super) fn parse_pem_cert(lua: &mut Lua) -> CResult {
    let text = lua.check_bytes(1)?;
    match CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>() {
        Ok(chain) if !chain.is_empty() => push_chain(lua, chain),
        _ => push_nil_error(lua, "PEM_read_bio_X509_AUX() failed"),
    }
}

/// `parse_der_cert(bytes)`
pub(super) fn parse_der_cert(lua: &mut Lua) -> CResult {
    let bytes = lua.check_bytes(1)?.to_vec();
    if webpki_refuses(&bytes) {
        return push_nil_error(lua, "d2i_X509_bio() failed");
    }
    push_chain(lua, vec![CertificateDer::from(bytes)])
}

/// Whether bytes are no certificate.
fn webpki_refuses(bytes: &[u8]) -> bool {
    rustls::server::ParsedCertificate::try_from(&CertificateDer::from(bytes)).is_err()
}

/// `parse_pem_key(text)`: the private key in a text, or nil and a message.
pub(super) fn parse_pem_key(lua: &mut Lua) -> CResult {
    match PrivateKeyDer::from_pem_slice(lua.check_bytes(1)?) {
        Ok(key) => {
            push_userdata(lua, Key(Arc::new(key)));
            Ok(1)
        }
        Err(_) => push_nil_error(lua, "PEM_read_bio_PrivateKey() failed"),
    }
}

/// `parse_der_key(bytes)`
pub(super) fn parse_der_key(lua: &mut Lua) -> CResult {
    let bytes = lua.check_bytes(1)?.to_vec();
    let key = PrivateKeyDer::try_from(bytes.clone()).unwrap_or(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(bytes)));
    push_userdata(lua, Key(Arc::new(key)));
    Ok(1)
}

/// `cert_to_der(text)`: the certificates of a text, their bytes one after the other.
pub(super) fn cert_to_der(lua: &mut Lua) -> CResult {
    let chain = CertificateDer::pem_slice_iter(lua.check_bytes(1)?).collect::<Result<Vec<_>, _>>();
    match chain {
        Ok(chain) if !chain.is_empty() => {
            lua.push_bytes(&chain.iter().flat_map(|certificate| certificate.iter().copied()).collect::<Vec<u8>>());
            Ok(1)
        }
        _ => push_nil_error(lua, "PEM_read_bio_X509_AUX() failed"),
    }
}

/// `key_to_der(text)`
pub(super) fn key_to_der(lua: &mut Lua) -> CResult {
    match PrivateKeyDer::from_pem_slice(lua.check_bytes(1)?) {
        Ok(key) => {
            lua.push_bytes(key.secret_der());
            Ok(1)
        }
        Err(_) => push_nil_error(lua, "PEM_read_bio_PrivateKey() failed"),
    }
}

/// `set_client_cert(socket, certificates, key)`: what the next handshakes show; nothing for nil and nil.
pub(super) fn set_client_cert(lua: &mut Lua) -> CResult {
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
