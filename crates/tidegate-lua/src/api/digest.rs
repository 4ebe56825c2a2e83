//! Digests, checksums, base64 and SQL quoting: `ngx.md5`, `ngx.sha1_bin`, `ngx.hmac_sha1`, `ngx.crc32_*`,
//! `ngx.encode_base64` and its kin, `ngx.quote_sql_str`; digests in steps for `resty.md5` and the `resty.sha` modules.

use std::ffi::c_int;
use std::{ptr, slice};

use hmac::{Hmac, KeyInit, Mac};
use md5::digest::{Digest, DynDigest};

use super::{Family, Text, bytes_of, ffi_functions, give_text};

pub(crate) static FAMILY: Family = Family {
    name: "digest",
    cdef: "typedef struct tg_hasher tg_hasher;",
    ffi: ffi_functions! {
        md5 as "md5": "void (*)(const char *, size_t, uint8_t *)",
        sha1 as "sha1": "void (*)(const char *, size_t, uint8_t *)",
        hmac_sha1 as "hmac_sha1": "void (*)(const char *, size_t, const char *, size_t, uint8_t *)",
        crc32 as "crc32": "uint32_t (*)(const char *, size_t)",
        to_hex as "to_hex": "void (*)(const char *, size_t, tg_str *)",
        encode_base64 as "encode_base64": "void (*)(const char *, size_t, int, tg_str *)",
        decode_base64 as "decode_base64": "int (*)(const char *, size_t, int, tg_str *)",
        quote_sql as "quote_sql": "void (*)(const char *, size_t, tg_str *)",
        random as "random": "int (*)(uint8_t *, size_t)",
        hasher_new as "hasher_new": "tg_hasher *(*)(int)",
        hasher_update as "hasher_update": "void (*)(tg_hasher *, const char *, size_t)",
        hasher_final as "hasher_final": "int (*)(tg_hasher *, uint8_t *, size_t)",
        hasher_reset as "hasher_reset": "void (*)(tg_hasher *)",
        hasher_free as "hasher_free": "void (*)(tg_hasher *)",
    },
    functions: &[],
};

/// Writes `digest` to memory of the Lua half's.
///
/// # Safety
/// `out` points to as many bytes as the digest has.
unsafe fn put(out: *mut u8, digest: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(digest.as_ptr(), out, digest.len()) };
}

unsafe extern "C" fn md5(text: *const u8, len: usize, out: *mut u8) {
    // SAFETY: the Lua half passes a string and a buffer of 64 bytes.
    unsafe { put(out, &md5::Md5::digest(bytes_of(text, len))) };
}

unsafe extern "C" fn sha1(text: *const u8, len: usize, out: *mut u8) {
    // SAFETY: the Lua half passes a string and a buffer of 64 bytes.
    unsafe { put(out, &sha1::Sha1::digest(bytes_of(text, len))) };
}

unsafe extern "C" fn hmac_sha1(key: *const u8, key_len: usize, text: *const u8, len: usize, out: *mut u8) {
    // SAFETY: the Lua half passes two strings and a buffer of 64 bytes.
    let (key, text) = unsafe { (bytes_of(key, key_len), bytes_of(text, len)) };
    // A key of any length is accepted.
    if let Ok(mut mac) = Hmac::<sha1::Sha1>::new_from_slice(key) {
        mac.update(text);
        // SAFETY: as above.
        unsafe { put(out, &mac.finalize().into_bytes()) };
    }
}

/// The checksum of zlib and nginx, four bits at a time: short strings are the usual ones.
unsafe extern "C" fn crc32(text: *const u8, len: usize) -> u32 {
    // SAFETY: the Lua half passes a string.
    let text = unsafe { bytes_of(text, len) };
    !text.iter().fold(u32::MAX, |crc, &byte| CRC_TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

static CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

unsafe extern "C" fn to_hex(text: *const u8, len: usize, out: *mut Text) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // SAFETY: the Lua half passes a string and a struct of its own.
    unsafe {
        let text = bytes_of(text, len);
        give_text(out, |buffer| {
            for byte in text {
                buffer.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            }
        });
    }
}

/// Bits of the kind of base64.
const UNPADDED: c_int = 1;
const URL: c_int = 2;
const MIME: c_int = 4;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What a byte stands for; 64 for nothing.
const fn values(alphabet: &[u8; 64]) -> [u8; 256] {
    let mut table = [64; 256];
    let mut index = 0;
    while index < 64 {
        table[alphabet[index] as usize] = index as u8;
        index += 1;
    }
    table
}

static VALUES: [u8; 256] = values(ALPHABET);
static URL_VALUES: [u8; 256] = values(URL_ALPHABET);

fn encode64(text: &[u8], kind: c_int, out: &mut Vec<u8>) {
    let alphabet = if kind & URL != 0 { URL_ALPHABET } else { ALPHABET };
    out.reserve(text.len().div_ceil(3) * 4);
    for piece in text.chunks(3) {
        let bits = piece.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - piece.len()));
        let digits = [18, 12, 6, 0].map(|shift| alphabet[(bits >> shift & 63) as usize]);
        out.extend_from_slice(&digits[..piece.len() + 1]);
        if kind & UNPADDED == 0 {
            out.extend_from_slice(&b"=="[..3 - piece.len()]);
        }
    }
}

/// Decodes up to the first `=`, as nginx does. Foreign bytes are an error, with [`MIME`] they are skipped.
fn decode64(text: &[u8], kind: c_int, out: &mut Vec<u8>) -> bool {
    let values = if kind & URL != 0 { &URL_VALUES } else { &VALUES };
    let (mut bits, mut count) = (0u32, 0usize);
    for &byte in text {
        if byte == b'=' {
            break;
        }
        let value = values[usize::from(byte)];
        if value == 64 {
            if kind & MIME != 0 {
                continue;
            }
            return false;
        }
        bits = bits << 6 | u32::from(value);
        count += 1;
        if count.is_multiple_of(4) {
            out.extend_from_slice(&bits.to_be_bytes()[1..]);
            bits = 0;
        }
    }
    match count % 4 {
        1 => return false,
        2 => out.push((bits >> 4) as u8),
        3 => out.extend_from_slice(&[(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => {}
    }
    true
}

unsafe extern "C" fn encode_base64(text: *const u8, len: usize, kind: c_int, out: *mut Text) {
    // SAFETY: the Lua half passes a string and a struct of its own.
    unsafe {
        let text = bytes_of(text, len);
        give_text(out, |buffer| encode64(text, kind, buffer));
    }
}

/// 1, or 0 when the text is not base64.
unsafe extern "C" fn decode_base64(text: *const u8, len: usize, kind: c_int, out: *mut Text) -> c_int {
    // SAFETY: the Lua half passes a string and a struct of its own.
    unsafe {
        let text = bytes_of(text, len);
        c_int::from(give_text(out, |buffer| decode64(text, kind, buffer)))
    }
}

unsafe extern "C" fn quote_sql(text: *const u8, len: usize, out: *mut Text) {
    // SAFETY: the Lua half passes a string and a struct of its own.
    unsafe {
        let text = bytes_of(text, len);
        give_text(out, |buffer| {
            buffer.push(b'\'');
            for &byte in text {
                let escape = match byte {
                    0 => b'0',
                    8 => b'b',
                    b'\n' => b'n',
                    b'\r' => b'r',
                    b'\t' => b't',
                    26 => b'Z',
                    b'\\' | b'\'' | b'"' => byte,
                    _ => {
                        buffer.push(byte);
                        continue;
                    }
                };
                buffer.extend_from_slice(&[b'\\', escape]);
            }
            buffer.push(b'\'');
        });
    }
}

/// Fills memory of the Lua half's with random bytes from the system: 0 if that failed.
unsafe extern "C" fn random(out: *mut u8, len: usize) -> c_int {
    // SAFETY: the Lua half passes a buffer of this size.
    let done = unsafe { libc::getrandom(out.cast(), len, 0) };
    c_int::from(usize::try_from(done) == Ok(len))
}

/// A digest in steps.
struct Hasher(Box<dyn DynDigest>);

extern "C" fn hasher_new(kind: c_int) -> *mut Hasher {
    let digest: Box<dyn DynDigest> = match kind {
        0 => Box::new(md5::Md5::default()),
        1 => Box::new(sha1::Sha1::default()),
        2 => Box::new(sha2::Sha224::default()),
        3 => Box::new(sha2::Sha256::default()),
        4 => Box::new(sha2::Sha384::default()),
        _ => Box::new(sha2::Sha512::default()),
    };
    Box::into_raw(Box::new(Hasher(digest)))
}

unsafe extern "C" fn hasher_update(hasher: *mut Hasher, text: *const u8, len: usize) {
    // SAFETY: the Lua half passes a pointer of `hasher_new` and a string.
    unsafe { (*hasher).0.update(bytes_of(text, len)) };
}

/// Writes the digest and starts anew: 1, or 0 when `out` is too small.
unsafe extern "C" fn hasher_final(hasher: *mut Hasher, out: *mut u8, len: usize) -> c_int {
    // SAFETY: the Lua half passes a pointer of `hasher_new` and a buffer of `len` bytes.
    let (hasher, out) = unsafe { (&mut *hasher, slice::from_raw_parts_mut(out, len)) };
    let size = hasher.0.output_size();
    let done = out.get_mut(..size).is_some_and(|out| hasher.0.finalize_into_reset(out).is_ok());
    c_int::from(done)
}

unsafe extern "C" fn hasher_reset(hasher: *mut Hasher) {
    // SAFETY: the Lua half passes a pointer of `hasher_new`.
    unsafe { (*hasher).0.reset() };
}

unsafe extern "C" fn hasher_free(hasher: *mut Hasher) {
    if !hasher.is_null() {
        // SAFETY: the Lua half frees each pointer once, as its finalizer.
        drop(unsafe { Box::from_raw(hasher) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;

    #[test]
    fn base64_both_ways() {
        for text in ["", "f", "fo", "foo", "foob", "\u{ff}\u{fe}?"] {
            for kind in [0, UNPADDED, UNPADDED | URL] {
                let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
                encode64(text.as_bytes(), kind, &mut encoded);
                assert!(decode64(&encoded, kind, &mut decoded), "{text}");
                assert_eq!(decoded, text.as_bytes());
            }
        }
    }

    #[test]
    fn functions() {
        check(
            "out(ngx.md5('hello')) out(#ngx.md5_bin('hello')) out(ngx.encode_base64(ngx.sha1_bin('hello')))
             out(ngx.encode_base64(ngx.hmac_sha1('key', 'text'))) out(ngx.crc32_short('hello'), ngx.crc32_long('hello'))
             out(ngx.encode_base64('hi'), ngx.encode_base64('hi', true), ngx.decode_base64('aGk='), ngx.decode_base64('?'))
             out(ngx.decode_base64mime('a G?k=')) out(ngx.quote_sql_str('it\\'s\\n')) out(ngx.md5(nil), ngx.md5(1))
             out(pcall(ngx.decode_base64, nil)) out(pcall(ngx.encode_base64, 'a', 1))
             local b = require 'ngx.base64' out(b.encode_base64url('\\255\\254?'), b.decode_base64url('__4_') == '\\255\\254?')
             out(b.decode_base64url('+'))",
            &[
                "5d41402abc4b2a76b9719d911017c592",
                "16",
                "qvTGHdzF6KLavt4PO0gs2a6pQ00=",
                "Np4pWetJRQM4shJ0j3fY3tdIR7s=",
                "907060870 907060870",
                "aGk= aGk hi nil",
                "hi",
                "'it\\'s\\n'",
                "d41d8cd98f00b204e9800998ecf8427e c4ca4238a0b923820dcc509a6f75849b",
                "false string argument only",
                "false bad no_padding: boolean expected, got number",
                "__4_ true",
                "nil invalid input",
            ],
        );
    }

    #[test]
    fn resty_modules() {
        check(
            "local str = require 'resty.string'
             for _, name in ipairs { 'md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512' } do
                 local h = require('resty.' .. name):new()
                 out(h:update('he'), h:update('llo'), #h:final(), h:reset())
             end
             local h = require('resty.sha256'):new() h:update('abc') out(str.to_hex(h:final()))
             out(str.atoi('12'), str.atoi('x'), #require('resty.random').bytes(5), #require('resty.random').bytes(5, true))",
            &[
                "true true 16 true",
                "true true 20 true",
                "true true 28 true",
                "true true 32 true",
                "true true 48 true",
                "true true 64 true",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                "12 -1 5 5",
            ],
        );
    }
}
