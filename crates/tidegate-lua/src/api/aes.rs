//! `resty.aes`: AES in the modes that OpenSSL's `EVP_aes_*` have.
//!
//! The block cipher and GHASH are libraries; the modes stand here, since each is a few lines and they share everything
//! around them. Sources: NIST SP 800-38A (ECB, CBC, CFB, OFB, CTR) and SP 800-38D (GCM); PKCS #7 padding as in RFC 5652,
//! section 6.3; keys from passwords as OpenSSL's `EVP_BytesToKey`.

use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use md5::digest::Digest;

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::stack::{Lua, Type};

pub(crate) static FAMILY: Family = Family {
    name: "aes",
    cdef: "",
    ffi: &[],
    functions: &[("derive", function(derive)), ("encrypt", function(encrypt)), ("decrypt", function(decrypt))],
};

const BLOCK: usize = 16;

type Block = [u8; BLOCK];

/// A block cipher with a key.
enum Cipher {
    Aes128(Box<Aes128>),
    Aes192(Box<Aes192>),
    Aes256(Box<Aes256>),
}

impl Cipher {
    fn new(key: &[u8]) -> Option<Cipher> {
        Some(match key.len() {
            16 => Cipher::Aes128(Box::new(Aes128::new_from_slice(key).ok()?)),
            24 => Cipher::Aes192(Box::new(Aes192::new_from_slice(key).ok()?)),
            32 => Cipher::Aes256(Box::new(Aes256::new_from_slice(key).ok()?)),
            _ => return None,
        })
    }
    fn encrypt(&self, block: &Block) -> Block {
        let mut block = Array::from(*block);
        match self {
            Cipher::Aes128(aes) => aes.encrypt_block(&mut block),
            Cipher::Aes192(aes) => aes.encrypt_block(&mut block),
            Cipher::Aes256(aes) => aes.encrypt_block(&mut block),
        }
        block.into()
    }
    fn decrypt(&self, block: &Block) -> Block {
        let mut block = Array::from(*block);
        match self {
            Cipher::Aes128(aes) => aes.decrypt_block(&mut block),
            Cipher::Aes192(aes) => aes.decrypt_block(&mut block),
            Cipher::Aes256(aes) => aes.decrypt_block(&mut block),
        }
        block.into()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Ecb,
    Cbc,
    Cfb1,
    Cfb8,
    Cfb128,
    Ofb,
    Ctr,
    Gcm,
}

const MODES: &[(&[u8], Mode)] = &[
    (b"ecb", Mode::Ecb),
    (b"cbc", Mode::Cbc),
    (b"cfb1", Mode::Cfb1),
    (b"cfb8", Mode::Cfb8),
    (b"cfb128", Mode::Cfb128),
    (b"ofb", Mode::Ofb),
    (b"ctr", Mode::Ctr),
    (b"gcm", Mode::Gcm),
];

fn xor(left: &Block, right: &Block) -> Block {
    std::array::from_fn(|at| left[at] ^ right[at])
}

fn block_at(data: &[u8]) -> Block {
    let mut block = [0; BLOCK];
    let count = data.len().min(BLOCK);
    block[..count].copy_from_slice(&data[..count]);
    block
}

/// ECB and CBC.
fn encrypt_blocks(cipher: &Cipher, chained: bool, iv: &Block, padded: bool, data: &[u8]) -> Option<Vec<u8>> {
    let mut input = data.to_vec();
    if padded {
        let count = BLOCK - data.len() % BLOCK;
        input.resize(data.len() + count, u8::try_from(count).ok()?);
    } else if !data.len().is_multiple_of(BLOCK) {
        return None;
    }
    let mut last = *iv;
    let mut output = Vec::with_capacity(input.len());
    for piece in input.chunks_exact(BLOCK) {
        let block = block_at(piece);
        last = cipher.encrypt(&if chained { xor(&block, &last) } else { block });
        output.extend_from_slice(&last);
    }
    Some(output)
}

fn decrypt_blocks(cipher: &Cipher, chained: bool, iv: &Block, padded: bool, data: &[u8]) -> Option<Vec<u8>> {
    if !data.len().is_multiple_of(BLOCK) {
        return None;
    }
    let mut last = *iv;
    let mut output = Vec::with_capacity(data.len());
    for piece in data.chunks_exact(BLOCK) {
        let block = block_at(piece);
        let plain = cipher.decrypt(&block);
        output.extend_from_slice(&if chained { xor(&plain, &last) } else { plain });
        last = block;
    }
    if padded {
        let count = usize::from(*output.last()?);
        let from = output.len().checked_sub(count).filter(|_| (1..=BLOCK).contains(&count))?;
        if output[from..].iter().any(|&byte| usize::from(byte) != count) {
            return None;
        }
        output.truncate(from);
    }
    Some(output)
}

/// CFB with whole blocks: what was sent is what the next block's key stream is made of.
fn cfb128(cipher: &Cipher, iv: &Block, data: &[u8], encrypts: bool) -> Vec<u8> {
    let mut register = *iv;
    let mut output = Vec::with_capacity(data.len());
    for piece in data.chunks(BLOCK) {
        let stream = cipher.encrypt(&register);
        let from = output.len();
        output.extend(piece.iter().zip(stream).map(|(byte, key)| byte ^ key));
        register = block_at(if encrypts { &output[from..] } else { piece });
    }
    output
}

fn cfb8(cipher: &Cipher, iv: &Block, data: &[u8], encrypts: bool) -> Vec<u8> {
    let mut register = *iv;
    data.iter()
        .map(|&byte| {
            let result = byte ^ cipher.encrypt(&register)[0];
            register.rotate_left(1);
            register[BLOCK - 1] = if encrypts { result } else { byte };
            result
        })
        .collect()
}

fn cfb1(cipher: &Cipher, iv: &Block, data: &[u8], encrypts: bool) -> Vec<u8> {
    let mut register = u128::from_be_bytes(*iv);
    data.iter()
        .map(|&byte| {
            (0..8).rev().fold(0, |result, at| {
                let bit = byte >> at & 1;
                let changed = bit ^ cipher.encrypt(&register.to_be_bytes())[0] >> 7;
                register = register << 1 | u128::from(if encrypts { changed } else { bit });
                result | changed << at
            })
        })
        .collect()
}

fn ofb(cipher: &Cipher, iv: &Block, data: &[u8]) -> Vec<u8> {
    let mut stream = *iv;
    let mut output = Vec::with_capacity(data.len());
    for piece in data.chunks(BLOCK) {
        stream = cipher.encrypt(&stream);
        output.extend(piece.iter().zip(stream).map(|(byte, key)| byte ^ key));
    }
    output
}

/// CTR; the counter is the last `counter_bytes` of the block.
fn ctr(cipher: &Cipher, start: &Block, data: &[u8], counter_bytes: usize) -> Vec<u8> {
    let mut counter = *start;
    let mut output = Vec::with_capacity(data.len());
    for piece in data.chunks(BLOCK) {
        let stream = cipher.encrypt(&counter);
        output.extend(piece.iter().zip(stream).map(|(byte, key)| byte ^ key));
        increment(&mut counter, counter_bytes);
    }
    output
}

fn increment(counter: &mut Block, counter_bytes: usize) {
    for byte in counter.iter_mut().rev().take(counter_bytes) {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return;
        }
    }
}

/// Bytes of the counter in GCM.
const GCM_COUNTER_BYTES: usize = 4;

/// Lengths in bits, as they end the input of GHASH.
fn lengths(first: usize, second: usize) -> Block {
    let bits = |bytes: usize| (bytes as u64).wrapping_mul(8).to_be_bytes();
    block_at(&[bits(first), bits(second)].concat())
}

struct Gcm<'c> {
    cipher: &'c Cipher,
    hash: GHash,
    start: Block,
}

impl<'c> Gcm<'c> {
    fn new(cipher: &'c Cipher, iv: &[u8]) -> Self {
        let hash = GHash::new(&cipher.encrypt(&[0; BLOCK]).into());
        let start = if iv.len() == BLOCK - GCM_COUNTER_BYTES {
            block_at(&[iv, &[0, 0, 0, 1]].concat())
        } else {
            let mut hash = hash.clone();
            hash.update_padded(iv);
            hash.update(&[lengths(0, iv.len()).into()]);
            hash.finalize().into()
        };
        Self { cipher, hash, start }
    }
    fn crypt(&self, data: &[u8]) -> Vec<u8> {
        let mut counter = self.start;
        increment(&mut counter, GCM_COUNTER_BYTES);
        ctr(self.cipher, &counter, data, GCM_COUNTER_BYTES)
    }
    fn tag(mut self, associated: &[u8], encrypted: &[u8]) -> Block {
        self.hash.update_padded(associated);
        self.hash.update_padded(encrypted);
        self.hash.update(&[lengths(associated.len(), encrypted.len()).into()]);
        xor(&self.hash.finalize().into(), &self.cipher.encrypt(&self.start))
    }
}

/// Whether two tags are the same, in a time that does not tell where they differ.
fn same_tag(left: &Block, right: &[u8]) -> bool {
    right.len() == BLOCK && left.iter().zip(right).fold(0, |sum, (left, right)| sum | (left ^ right)) == 0
}

/// Key and IV of a password: digests of digests, until there are enough bytes.
fn bytes_to_key<D: Digest>(password: &[u8], salt: &[u8], rounds: u32, bytes: usize) -> Vec<u8> {
    let mut output: Vec<u8> = Vec::new();
    let mut last: Vec<u8> = Vec::new();
    while output.len() < bytes {
        let mut hash = D::new();
        hash.update(&last);
        hash.update(password);
        hash.update(salt);
        last = hash.finalize().to_vec();
        for _ in 1..rounds {
            last = D::digest(&last).to_vec();
        }
        output.extend_from_slice(&last);
    }
    output.truncate(bytes);
    output
}

/// Rounds that a script may ask for: it holds up the worker meanwhile.
const ROUNDS_MAX: i64 = 10_000_000;

/// `derive(hash, password, salt, rounds, bytes)`
fn derive(lua: &mut Lua) -> CResult {
    let (hash, password) = (lua.check_bytes(1)?, lua.check_bytes(2)?);
    let salt = lua.to_bytes(3).unwrap_or_default();
    let rounds = u32::try_from(lua.check_integer(4)?.clamp(1, ROUNDS_MAX)).unwrap_or(1);
    let bytes = usize::try_from(lua.check_integer(5)?.clamp(0, 256)).unwrap_or(0);
    let derived = match hash {
        b"md5" => bytes_to_key::<md5::Md5>(password, salt, rounds, bytes),
        b"sha1" => bytes_to_key::<sha1::Sha1>(password, salt, rounds, bytes),
        b"sha224" => bytes_to_key::<sha2::Sha224>(password, salt, rounds, bytes),
        b"sha256" => bytes_to_key::<sha2::Sha256>(password, salt, rounds, bytes),
        b"sha384" => bytes_to_key::<sha2::Sha384>(password, salt, rounds, bytes),
        b"sha512" => bytes_to_key::<sha2::Sha512>(password, salt, rounds, bytes),
        _ => return Err(LuaError::new("unknown hash")),
    };
    lua.push_bytes(&derived);
    Ok(1)
}

/// The arguments that both directions have: mode, key, iv, whether padded, data, associated data.
struct Arguments<'a> {
    mode: Mode,
    cipher: Cipher,
    iv: &'a [u8],
    padded: bool,
    data: &'a [u8],
    associated: &'a [u8],
}

impl<'a> Arguments<'a> {
    fn take(lua: &'a Lua) -> Result<Self, LuaError> {
        let name = lua.check_bytes(1)?;
        let mode = MODES.iter().find(|(mode, _)| *mode == name).map(|(_, mode)| *mode);
        Ok(Arguments {
            mode: mode.ok_or(LuaError::new("unknown mode"))?,
            cipher: Cipher::new(lua.check_bytes(2)?).ok_or(LuaError::new("bad key length"))?,
            iv: lua.check_bytes(3)?,
            padded: lua.to_bool(4),
            data: lua.check_bytes(5)?,
            associated: lua.to_bytes(6).unwrap_or_default(),
        })
    }
    /// The modes in which both directions need the same parts; `None` for blocks that do not fit.
    fn run(&self, encrypts: bool) -> Option<Vec<u8>> {
        let (cipher, iv, data) = (&self.cipher, block_at(self.iv), self.data);
        Some(match self.mode {
            Mode::Ecb | Mode::Cbc if encrypts => {
                return encrypt_blocks(cipher, self.mode == Mode::Cbc, &iv, self.padded, data);
            }
            Mode::Ecb | Mode::Cbc => return decrypt_blocks(cipher, self.mode == Mode::Cbc, &iv, self.padded, data),
            Mode::Cfb1 => cfb1(cipher, &iv, data, encrypts),
            Mode::Cfb8 => cfb8(cipher, &iv, data, encrypts),
            Mode::Cfb128 => cfb128(cipher, &iv, data, encrypts),
            Mode::Ofb => ofb(cipher, &iv, data),
            Mode::Ctr => ctr(cipher, &iv, data, BLOCK),
            Mode::Gcm => Gcm::new(cipher, self.iv).crypt(data),
        })
    }
}

/// `encrypt(mode, key, iv, padded, data, associated)`: the encrypted data, with GCM also the tag; or nil.
fn encrypt(lua: &mut Lua) -> CResult {
    let arguments = Arguments::take(lua)?;
    let Some(output) = arguments.run(true) else {
        lua.push_nil();
        return Ok(1);
    };
    lua.push_bytes(&output);
    if arguments.mode != Mode::Gcm {
        return Ok(1);
    }
    let tag = Gcm::new(&arguments.cipher, arguments.iv).tag(arguments.associated, &output);
    lua.push_bytes(&tag);
    Ok(2)
}

/// `decrypt(mode, key, iv, padded, data, associated, tag)`: the data, or nil when padding or tag are wrong.
fn decrypt(lua: &mut Lua) -> CResult {
    let arguments = Arguments::take(lua)?;
    if arguments.mode == Mode::Gcm {
        let tag = if lua.type_of(7) == Type::String { lua.check_bytes(7)? } else { b"" };
        let expected = Gcm::new(&arguments.cipher, arguments.iv).tag(arguments.associated, arguments.data);
        if !same_tag(&expected, tag) {
            lua.push_nil();
            return Ok(1);
        }
    }
    match arguments.run(false) {
        Some(output) => lua.push_bytes(&output),
        None => lua.push_nil(),
    }
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
    }

    const KEY: &str = "2b7e151628aed2a6abf7158809cf4f3c";
    const IV: &str = "000102030405060708090a0b0c0d0e0f";
    const PLAIN: &str = "6bc1bee22e409f96e93d7e117393172a";

    #[track_caller]
    fn check(mode: Mode, iv: &str, plain: &str, expected: &str) {
        let (iv, plain, expected) = (bytes(iv), bytes(plain), bytes(expected));
        let arguments = |data| Arguments {
            mode,
            cipher: Cipher::new(&bytes(KEY)).expect("16 bytes"),
            iv: &iv,
            padded: false,
            data,
            associated: &[],
        };
        assert_eq!(arguments(&plain).run(true), Some(expected.clone()));
        assert_eq!(arguments(&expected).run(false), Some(plain.clone()));
    }

    /// Source: NIST SP 800-38A, appendix F.
    #[test]
    fn vectors() {
        check(Mode::Ecb, IV, PLAIN, "3ad77bb40d7a3660a89ecaf32466ef97");
        check(Mode::Cbc, IV, PLAIN, "7649abac8119b246cee98e9b12e9197d");
        check(Mode::Cfb1, IV, "6bc1", "68b3");
        check(Mode::Cfb8, IV, "6bc1bee22e409f96e93d7e117393172aae2d", "3b79424c9c0dd436bace9e0ed4586a4f32b9");
        check(Mode::Cfb128, IV, PLAIN, "3b3fd92eb72dad20333449f8e83cfb4a");
        check(Mode::Ofb, IV, PLAIN, "3b3fd92eb72dad20333449f8e83cfb4a");
        check(Mode::Ctr, "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", PLAIN, "874d6191b620e3261bef6864990db6ce");
    }

    /// Source: the GCM specification of McGrew and Viega, test case 4 and 6.
    #[test]
    fn gcm_vectors() {
        let key = bytes("feffe9928665731c6d6a8f9467308308");
        let plain = bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        );
        let associated = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        for (iv, tag) in [
            ("cafebabefacedbaddecaf888", "5bc94fbc3221a5db94fae95ae7121a47"),
            (
                "9313225df88406e555909c5aff5269aa6a7a9538534f7da1e4c303d2a318a728c3c0c95156809539fcf0e2429a6b525416aedbf5a0de6a57a637b39b",
                "619cc5aefffe0bfa462af43c1699d050",
            ),
        ] {
            let cipher = Cipher::new(&key).expect("16 bytes");
            let encrypted = Gcm::new(&cipher, &bytes(iv)).crypt(&plain);
            assert_eq!(Gcm::new(&cipher, &bytes(iv)).tag(&associated, &encrypted).to_vec(), bytes(tag));
            assert_eq!(Gcm::new(&cipher, &bytes(iv)).crypt(&encrypted), plain);
        }
    }

    #[test]
    fn padding_is_checked() {
        let cipher = Cipher::new(&[1; 16]).expect("16 bytes");
        for size in 0..40 {
            let data = vec![7; size];
            let encrypted = encrypt_blocks(&cipher, true, &[0; 16], true, &data).expect("any size");
            assert_eq!(decrypt_blocks(&cipher, true, &[0; 16], true, &encrypted), Some(data));
        }
        assert_eq!(encrypt_blocks(&cipher, true, &[0; 16], false, b"x"), None);
        assert_eq!(decrypt_blocks(&cipher, true, &[0; 16], true, b""), None);
        let zeros = encrypt_blocks(&cipher, false, &[0; 16], false, &[0; 16]).expect("one block");
        assert_eq!(decrypt_blocks(&cipher, false, &[0; 16], true, &zeros), None);
    }
}
