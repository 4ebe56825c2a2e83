//! C functions of lua-nginx-module that applications declare themselves and call by `ffi.C`: certificates and keys in
//! `ssl_certificate_by_lua*`. Those of `ngx.ssl`, which do the same, need none of this.
//!
//! What a caller gives is what its declaration says: a pointer to so many bytes, to a number, to room for an answer. A certificate or key
//! is a number in the form of a pointer, which leads to nothing: a wrong one is refused. The first argument of most, the request, is not
//! looked at: functions work for the handshake whose script calls them.
//!
//! They answer 0 or a count, and -1 (or no pointer) with a message in `*err`, which need not be freed. None of them unwinds.
//!
//! Source: lua-nginx-module, `ngx_http_lua_ssl_certby.c`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tidegate_core::ssl::script::Handshake;
use tidegate_tls::pem;
use tidegate_tls::server::ClientRules;

use crate::handshake::Greeting;
use crate::phase::Phase;
use crate::scheduler::with_run;
use crate::socket::certificate;

const OK: c_int = 0;
const ERROR: c_int = -1;

type Message = &'static CStr;

const DISABLED: Message = c"API disabled in the current context";

/// What a script holds by a number.
#[derive(Clone)]
enum Held {
    Chain(Arc<Vec<CertificateDer<'static>>>),
    Key(Arc<PrivateKeyDer<'static>>),
}

#[derive(Default)]
struct Table {
    held: HashMap<usize, Held>,
    last: usize,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// Keeps a value until it is freed; what stands for it.
fn hold(value: Held) -> *mut c_void {
    TABLE.with_borrow_mut(|table| {
        table.last = table.last.wrapping_add(1).max(1);
        while table.held.contains_key(&table.last) {
            table.last = table.last.wrapping_add(1).max(1);
        }
        table.held.insert(table.last, value);
        ptr::without_provenance_mut(table.last)
    })
}

fn held(handle: *mut c_void) -> Option<Held> {
    TABLE.with_borrow(|table| table.held.get(&handle.addr()).cloned())
}

fn free(handle: *mut c_void) {
    // The thread may be ending, and Lua's collector with it.
    let freed = TABLE.try_with(|table| table.borrow_mut().held.remove(&handle.addr()));
    drop(freed);
}

/// The certificates that a handle stands for; none for a null pointer.
fn chain_of(handle: *mut c_void) -> Result<Vec<CertificateDer<'static>>, Message> {
    match held(handle) {
        Some(Held::Chain(chain)) => Ok(chain.to_vec()),
        _ if handle.is_null() => Ok(Vec::new()),
        _ => Err(c"invalid certificate chain"),
    }
}

/// The bytes that a caller gives; empty for a null pointer.
///
/// # Safety
/// `data` is null, or points to `len` bytes, which stay as they are for `'a`.
unsafe fn bytes<'a>(data: *const u8, len: usize) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: by the function's contract.
    unsafe { std::slice::from_raw_parts(data, len) }
}

/// Writes an answer to where the caller wants it.
///
/// # Safety
/// `to` is null, or points to room for `answer`.
unsafe fn write(to: *mut u8, answer: &[u8]) {
    if !to.is_null() {
        // SAFETY: there is room by the function's contract, and no answer of ours lies there.
        unsafe { ptr::copy(answer.as_ptr(), to, answer.len()) };
    }
}

/// Calls `body`; a failure is told in `*err`.
///
/// # Safety
/// `err` is null, or points to room for a pointer.
unsafe fn answer<T>(err: *mut *const c_char, failed: T, body: impl FnOnce() -> Result<T, Message>) -> T {
    // A panic must not reach C frames; what it leaves behind is dropped here.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(c"internal error"));
    result.unwrap_or_else(|message| {
        if !err.is_null() {
            // SAFETY: there is room by the function's contract.
            unsafe { err.write(message.as_ptr()) };
        }
        failed
    })
}

/// The handshake whose script is running, and in which phase.
fn handshake() -> Result<(Rc<Handshake>, Phase), Message> {
    let found = with_run(|run| Greeting::of(run.host()).map(|(handshake, phase)| (handshake.clone(), phase)));
    found.flatten().ok_or(c"bad request")
}

/// The handshake of a script that chooses its certificate.
fn certificate_phase() -> Result<Rc<Handshake>, Message> {
    match handshake()? {
        (handshake, Phase::SslCertificate) => Ok(handshake),
        _ => Err(DISABLED),
    }
}

/// The count of bytes for which there is room. DER is shorter than its PEM.
fn count_within(bytes: &[u8], room: usize) -> Result<c_int, Message> {
    if bytes.len() > room {
        return Err(c"buffer too small");
    }
    c_int::try_from(bytes.len()).map_err(|_| c"too large")
}

/// `int (const unsigned char *pem, size_t pem_len, unsigned char *der, char **err)`
///
/// # Safety
/// As declared; `der` has room for `pem_len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_cert_pem_to_der(
    pem: *const u8,
    pem_len: usize,
    der: *mut u8,
    err: *mut *const c_char,
) -> c_int {
    let body = || {
        // SAFETY: the caller gives so many bytes.
        let chain = certificate::of_pem(unsafe { bytes(pem, pem_len) })?;
        let all = chain.iter().flat_map(|certificate| certificate.iter().copied()).collect::<Vec<u8>>();
        count_within(&all, pem_len).inspect(|_| {
            // SAFETY: the caller has room for as many bytes as the text has.
            unsafe { write(der, &all) };
        })
    };
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ERROR, body) }
}

/// `int (const unsigned char *pem, size_t pem_len, const unsigned char *passphrase, unsigned char *der, char **err)`
///
/// # Safety
/// As declared; `passphrase` is null or ends with a zero, `der` has room for `pem_len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_priv_key_pem_to_der(
    pem: *const u8,
    pem_len: usize,
    passphrase: *const c_char,
    der: *mut u8,
    err: *mut *const c_char,
) -> c_int {
    let body = || {
        // SAFETY: the caller gives a text that ends with a zero.
        let password = (!passphrase.is_null()).then(|| unsafe { CStr::from_ptr(passphrase) }.to_bytes().to_vec());
        // SAFETY: the caller gives so many bytes.
        let key = key_of_pem(unsafe { bytes(pem, pem_len) }, password.as_slice())?;
        count_within(key.secret_der(), pem_len).inspect(|_| {
            // SAFETY: the caller has room for as many bytes as the text has.
            unsafe { write(der, key.secret_der()) };
        })
    };
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ERROR, body) }
}

fn key_of_pem(text: &[u8], passwords: &[Vec<u8>]) -> Result<PrivateKeyDer<'static>, Message> {
    pem::key(text, passwords).map_err(|_| c"PEM_read_bio_PrivateKey() failed")
}

/// `int (void *r, const char *data, size_t len, char **err)`
///
/// # Safety
/// As declared.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_ssl_set_der_certificate(
    _: *mut c_void,
    data: *const u8,
    len: usize,
    err: *mut *const c_char,
) -> c_int {
    let body = || {
        let handshake = certificate_phase()?;
        // SAFETY: the caller gives so many bytes.
        let chain = certificate::of_der(unsafe { bytes(data, len) }).ok_or(c"d2i_X509_bio() failed")?;
        handshake.set_certificate(chain).map_err(|_| c"SSL_use_certificate() failed")?;
        Ok(OK)
    };
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ERROR, body) }
}

/// `int (void *r, const char *data, size_t len, char **err)`
///
/// # Safety
/// As declared.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_ssl_set_der_private_key(
    _: *mut c_void,
    data: *const u8,
    len: usize,
    err: *mut *const c_char,
) -> c_int {
    let body = || {
        let handshake = certificate_phase()?;
        // SAFETY: the caller gives so many bytes.
        let key = certificate::key_of_der(unsafe { bytes(data, len) }).ok_or(c"d2i_PrivateKey_bio() failed")?;
        handshake.set_key(&key).map_err(|_| c"SSL_use_PrivateKey() failed")?;
        Ok(OK)
    };
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ERROR, body) }
}

/// `int (void *r, char **err)`
///
/// # Safety
/// As declared.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_ssl_clear_certs(_: *mut c_void, err: *mut *const c_char) -> c_int {
    let body = || {
        certificate_phase()?.clear_certificates();
        Ok(OK)
    };
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ERROR, body) }
}

/// `void *(const unsigned char *pem, size_t pem_len, char **err)`
///
/// # Safety
/// As declared.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_parse_pem_cert(
    pem: *const u8,
    pem_len: usize,
    err: *mut *const c_char,
) -> *mut c_void {
    // SAFETY: the caller gives so many bytes.
    let body = || Ok(hold(Held::Chain(Arc::new(certificate::of_pem(unsafe { bytes(pem, pem_len) })?))));
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ptr::null_mut(), body) }
}

/// `void *(const char *data, size_t len, char **err)`
///
/// # Safety
/// As declared.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_parse_der_cert(
    data: *const u8,
    len: usize,
    err: *mut *const c_char,
) -> *mut c_void {
    let body = || {
        // SAFETY: the caller gives so many bytes.
        let chain = certificate::of_der(unsafe { bytes(data, len) }).ok_or(c"d2i_X509_bio() failed")?;
        Ok(hold(Held::Chain(Arc::new(chain))))
    };
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ptr::null_mut(), body) }
}

/// `void *(const unsigned char *pem, size_t pem_len, char **err)`
///
/// # Safety
/// As declared.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_parse_pem_priv_key(
    pem: *const u8,
    pem_len: usize,
    err: *mut *const c_char,
) -> *mut c_void {
    // SAFETY: the caller gives so many bytes.
    let body = || Ok(hold(Held::Key(Arc::new(key_of_pem(unsafe { bytes(pem, pem_len) }, &[])?))));
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ptr::null_mut(), body) }
}

/// `void *(const char *data, size_t len, char **err)`
///
/// # Safety
/// As declared.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_parse_der_priv_key(
    data: *const u8,
    len: usize,
    err: *mut *const c_char,
) -> *mut c_void {
    let body = || {
        // SAFETY: the caller gives so many bytes.
        let key = certificate::key_of_der(unsafe { bytes(data, len) }).ok_or(c"d2i_PrivateKey_bio() failed")?;
        Ok(hold(Held::Key(key)))
    };
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ptr::null_mut(), body) }
}

/// `void (void *cdata)`
#[unsafe(no_mangle)]
extern "C" fn ngx_http_lua_ffi_free_cert(handle: *mut c_void) {
    free(handle);
}

/// `void (void *cdata)`
#[unsafe(no_mangle)]
extern "C" fn ngx_http_lua_ffi_free_priv_key(handle: *mut c_void) {
    free(handle);
}

/// `int (void *r, void *cdata, char **err)`
///
/// # Safety
/// As declared.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_set_cert(_: *mut c_void, handle: *mut c_void, err: *mut *const c_char) -> c_int {
    let body = || {
        let handshake = certificate_phase()?;
        let Some(Held::Chain(chain)) = held(handle) else { return Err(c"invalid certificate chain") };
        handshake.set_certificate(chain.to_vec()).map_err(|_| c"SSL_use_certificate() failed")?;
        Ok(OK)
    };
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ERROR, body) }
}

/// `int (void *r, void *cdata, char **err)`
///
/// # Safety
/// As declared.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_set_priv_key(
    _: *mut c_void,
    handle: *mut c_void,
    err: *mut *const c_char,
) -> c_int {
    let body = || {
        let handshake = certificate_phase()?;
        let Some(Held::Key(key)) = held(handle) else { return Err(c"invalid private key") };
        handshake.set_key(&key).map_err(|_| c"SSL_use_PrivateKey() failed")?;
        Ok(OK)
    };
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ERROR, body) }
}

/// `int (void *r, void *client_certs, void *trusted_certs, int depth, char **err)`
///
/// # Safety
/// As declared.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_ssl_verify_client(
    _: *mut c_void,
    client_certs: *mut c_void,
    trusted_certs: *mut c_void,
    depth: c_int,
    err: *mut *const c_char,
) -> c_int {
    let body = || {
        let handshake = certificate_phase()?;
        let (named, unnamed) = (chain_of(client_certs)?, chain_of(trusted_certs)?);
        let depth = u64::try_from(depth).unwrap_or(certificate::DEPTH_DEFAULT);
        let rules = ClientRules::new(&[named.as_slice(), &unnamed].concat(), &[], depth);
        handshake.demand(rules.map_err(|_| c"X509_STORE_add_cert() failed")?, &named);
        Ok(OK)
    };
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ERROR, body) }
}

/// `int (ngx_http_request_t *r, unsigned char *out, size_t *outlen, char **err)`: as many bytes as there is room for; with room for
/// none, how many there are.
///
/// # Safety
/// As declared; `out` has room for `*outlen` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_ssl_client_random(
    _: *mut c_void,
    out: *mut u8,
    outlen: *mut usize,
    err: *mut *const c_char,
) -> c_int {
    let body = || {
        let (handshake, _) = handshake()?;
        let random = handshake.hello().ok_or(c"bad ssl conn")?.random();
        if outlen.is_null() {
            return Err(c"bad argument");
        }
        // SAFETY: the caller gives a number.
        let room = unsafe { outlen.read() };
        let part = &random[..random.len().min(room)];
        // SAFETY: the caller has so much room.
        unsafe { write(out, part) };
        // SAFETY: as above.
        unsafe { outlen.write(if room == 0 { random.len() } else { part.len() }) };
        Ok(OK)
    };
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ERROR, body) }
}

/// `int (void *r, uint16_t *ciphers, uint16_t *nciphers, int filter_grease, char **err)`: the suites that both sides can speak. No server
/// of ours takes one that clients make up, so that there is nothing to leave out.
///
/// # Safety
/// As declared; `ciphers` has room for `*nciphers` numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_http_lua_ffi_req_shared_ssl_ciphers(
    _: *mut c_void,
    ciphers: *mut u16,
    nciphers: *mut u16,
    _: c_int,
    err: *mut *const c_char,
) -> c_int {
    let body = || {
        let (handshake, _) = handshake()?;
        if ciphers.is_null() || nciphers.is_null() {
            return Err(c"bad argument");
        }
        let shared = handshake.shared_suites();
        // SAFETY: the caller gives a number.
        let room = unsafe { nciphers.read() };
        let count = u16::try_from(shared.len()).unwrap_or(u16::MAX);
        // SAFETY: as above.
        unsafe { nciphers.write(if count > room { 0 } else { count }) };
        if count > room {
            return Err(c"buffer too small");
        }
        // SAFETY: the caller has room for so many numbers.
        unsafe { ptr::copy_nonoverlapping(shared.as_ptr(), ciphers, usize::from(count)) };
        Ok(OK)
    };
    // SAFETY: the caller gives room for a pointer.
    unsafe { answer(err, ERROR, body) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message behind a failed call.
    fn told(err: *const c_char) -> &'static str {
        // SAFETY: messages are constants that end with a zero.
        unsafe { CStr::from_ptr(err) }.to_str().expect("ASCII")
    }

    #[test]
    fn handles_lead_to_nothing() {
        let mut err = ptr::null();
        let garbage = b"garbage";
        // SAFETY: a text of so many bytes, and room for a pointer.
        let none = unsafe { ngx_http_lua_ffi_parse_pem_cert(garbage.as_ptr(), garbage.len(), &raw mut err) };
        assert!(none.is_null());
        assert_eq!(told(err), "PEM_read_bio_X509_AUX() failed");
        // SAFETY: as above.
        let none = unsafe { ngx_http_lua_ffi_parse_pem_priv_key(garbage.as_ptr(), garbage.len(), &raw mut err) };
        assert!(none.is_null());
        assert_eq!(told(err), "PEM_read_bio_PrivateKey() failed");
        let chain = hold(Held::Chain(Arc::default()));
        assert!(chain_of(chain).is_ok() && chain_of(ptr::null_mut()).is_ok_and(|none| none.is_empty()));
        ngx_http_lua_ffi_free_cert(chain);
        // What was freed, and what never was one.
        ngx_http_lua_ffi_free_cert(chain);
        ngx_http_lua_ffi_free_priv_key(ptr::without_provenance_mut(usize::MAX));
        assert!(chain_of(chain).is_err() && chain_of(ptr::without_provenance_mut(12345)).is_err());
    }

    #[test]
    fn nothing_works_outside_of_a_handshake() {
        let mut err = ptr::null();
        // SAFETY: room for a pointer.
        assert_eq!(unsafe { ngx_http_lua_ffi_ssl_clear_certs(ptr::null_mut(), &raw mut err) }, ERROR);
        assert_eq!(told(err), "bad request");
        // SAFETY: nobody wants to hear why.
        assert_eq!(unsafe { ngx_http_lua_ffi_ssl_clear_certs(ptr::null_mut(), ptr::null_mut()) }, ERROR);
    }
}
