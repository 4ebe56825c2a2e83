//! Digests, checksums, base64 and SQL quoting: `ngx.md5`, `ngx.sha1_bin`, `ngx.hmac_sha1`, `ngx.crc32_*`,
//! `ngx.encode_base64` and its kin, `ngx.quote_sql_str`; digests in steps for `resty.md5` and the `resty.sha` modules.

use std::cell::RefCell;
use std::ffi::c_int;
use std::thread::LocalKey;

use hmac::{Hmac, KeyInit, Mac};
use md5::digest::{Digest, DynDigest};

use super::Family;
use super::compiled::{Handled, Handles, ffi_functions, hold, release};

pub(crate) static FAMILY: Family = Family {
    name: "digest",
    cdef: "",
    ffi: ffi_functions! {
        md5 as "md5": (Bytes, TextOut),
        sha1 as "sha1": (Bytes, TextOut),
        hmac_sha1 as "hmac_sha1": (Bytes, Bytes, TextOut),
        crc32 as "crc32": (Bytes) -> u32,
        to_hex as "to_hex": (Bytes, TextOut),
        encode_base64 as "encode_base64": (Bytes, c_int, TextOut),
        decode_base64 as "decode_base64": (Bytes, c_int, TextOut) -> c_int,
        quote_sql as "quote_sql": (Bytes, TextOut),
        random as "random": (f64, TextOut) -> c_int,
        hasher_new as "hasher_new": (c_int) -> f64,
        hasher_update as "hasher_update": (Handle<Hasher>, Bytes),
        hasher_final as "hasher_final": (Handle<Hasher>, TextOut) -> c_int,
        hasher_reset as "hasher_reset": (Handle<Hasher>),
        hasher_free as "hasher_free": (u32),
    },
    functions: &[],
};

fn md5(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&md5::Md5::digest(text));
}

fn sha1(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&sha1::Sha1::digest(text));
}

fn hmac_sha1(key: &[u8], text: &[u8], out: &mut Vec<u8>) {
    // A key of any length is accepted.
    if let Ok(mut mac) = Hmac::<sha1::Sha1>::new_from_slice(key) {
        mac.update(text);
        out.extend_from_slice(&mac.finalize().into_bytes());
    }
}

/// The checksum of zlib and nginx, four bits at a time: short strings are the usual ones.
fn crc32(text: &[u8]) -> u32 {
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

fn to_hex(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in text {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
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

fn encode_base64(text: &[u8], kind: c_int, out: &mut Vec<u8>) {
    encode64(text, kind, out);
}

/// 1, or 0 when the text is not base64.
fn decode_base64(text: &[u8], kind: c_int, out: &mut Vec<u8>) -> c_int {
    c_int::from(decode64(text, kind, out))
}

fn quote_sql(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
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
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escape]);
    }
    out.push(b'\'');
}

/// Random bytes that one call gives at most.
const RANDOM_BYTES_MAX: usize = 32 << 20;

/// Gives `count` random bytes from the system: 0 if that failed, or these are too many.
fn random(count: f64, out: &mut Vec<u8>) -> c_int {
    // The cast saturates and makes 0 of NaN.
    let count = count as usize;
    if count > RANDOM_BYTES_MAX {
        return 0;
    }
    out.resize(count, 0);
    // SAFETY: the buffer has as many bytes.
    let done = unsafe { libc::getrandom(out.as_mut_ptr().cast(), count, 0) };
    c_int::from(usize::try_from(done) == Ok(count))
}

/// A digest in steps.
struct Hasher(RefCell<Box<dyn DynDigest>>);

impl Handled for Hasher {
    fn handles() -> &'static LocalKey<RefCell<Handles<Self>>> {
        thread_local! {
            static HASHERS: RefCell<Handles<Hasher>> = const { RefCell::new(Handles::new()) };
        }
        &HASHERS
    }
}

/// The number of a new digest, or -1 when there are too many.
fn hasher_new(kind: c_int) -> f64 {
    let digest: Box<dyn DynDigest> = match kind {
        0 => Box::new(md5::Md5::default()),
        1 => Box::new(sha1::Sha1::default()),
        2 => Box::new(sha2::Sha224::default()),
        3 => Box::new(sha2::Sha256::default()),
        4 => Box::new(sha2::Sha384::default()),
        _ => Box::new(sha2::Sha512::default()),
    };
    hold(Hasher(RefCell::new(digest))).map_or(-1.0, f64::from)
}

fn hasher_update(hasher: &Hasher, text: &[u8]) {
    hasher.0.borrow_mut().update(text);
}

/// Gives the digest and starts anew: 1.
fn hasher_final(hasher: &Hasher, out: &mut Vec<u8>) -> c_int {
    let mut digest = hasher.0.borrow_mut();
    out.resize(digest.output_size(), 0);
    c_int::from(digest.finalize_into_reset(out).is_ok())
}

fn hasher_reset(hasher: &Hasher) {
    hasher.0.borrow_mut().reset();
}

fn hasher_free(hasher: u32) {
    release::<Hasher>(hasher);
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
